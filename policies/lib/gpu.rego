# What the policies of the pack share: the pod in an object, its containers, what it asks of GPUs.
#
# A value of the wrong type is read in the direction that refuses. Nothing here reads the inventory.
package lib.gpu

# --- parameters ---

parameters := input.parameters if is_object(input.parameters)

else := {}

parameter(name, otherwise) := parameters[name] if {
	parameters[name] != null
} else := otherwise

# --- the object ---

reviewed := input.review.object

old := input.review.oldObject if {
	input.review.operation == "UPDATE"
	is_object(input.review.oldObject)
}

deleting if input.review.operation == "DELETE"

# The pod in an object, metadata and spec: a Pod itself, or the template in whatever makes pods.
pod_in(o) := o if {
	o.kind == "Pod"
} else := o.spec.template if {
	is_object(o.spec.template.spec)
} else := o.spec.jobTemplate.spec.template if {
	is_object(o.spec.jobTemplate.spec.template.spec)
} else := o.template if {
	is_object(o.template.spec)
}

pod := pod_in(reviewed)

spec := pod.spec

unchanged if pod_in(old).spec == spec

same_spec if old.spec == reviewed.spec

# Going away is always allowed, and so is a change beside the spec: otherwise nobody could take the
# finalizer off a pod that is older than the policy. Any other change is judged as a whole.
judged if {
	is_object(spec)
	not deleting
	not unchanged
}

namespace := reviewed.metadata.namespace if {
	is_string(reviewed.metadata.namespace)
} else := input.review.namespace if {
	is_string(input.review.namespace)
} else := ""

name := reviewed.metadata.name if {
	is_string(reviewed.metadata.name)
	reviewed.metadata.name != ""
} else := concat("", [reviewed.metadata.generateName, "*"]) if {
	is_string(reviewed.metadata.generateName)
} else := input.review.name if {
	is_string(input.review.name)
} else := "(no name)"

kind := reviewed.kind if {
	is_string(reviewed.kind)
} else := "object"

# How messages begin: Pod team-a/train
subject := sprintf("%s %s/%s", [kind, namespace, name]) if {
	namespace != ""
} else := sprintf("%s %s", [kind, name])

# --- containers ---

words := {
	"containers": "container",
	"initContainers": "init container",
	"ephemeralContainers": "ephemeral container",
}

containers_in(s) := [x |
	some list in ["containers", "initContainers", "ephemeralContainers"]
	some c in s[list]
	x := {"list": list, "is": c}
]

containers := containers_in(spec)

# How messages name a container: init container "fetch"
where(x) := sprintf("%s %s", [words[x.list], show(object.get(x.is, "name", "(no name)"))])

# --- what is asked of GPUs ---

default_resources := [
	"nvidia.com/gpu",
	"nvidia.com/gpu.*",
	"nvidia.com/mig-*",
	"ringfence.io/gpu*",
	"amd.com/gpu*",
	"gpu.intel.com/*",
	"deviceclass.resource.kubernetes.io/*",
]

resources := sorted_out(parameter("gpuResources", default_resources))

# Everything that containers, and the pod as a whole, ask for and limit, by its name in lower case.
amounts_in(s) := [{"name": lower(resource), "ask": ask} |
	some owner in array.concat(containers_in(s), [{"list": "pod", "is": s}])
	some part in ["limits", "requests"]
	some resource, value in owner.is.resources[part]
	not zero(value)
	ask := {"owner": owner, "part": part, "resource": resource, "value": value}
]

# sorted: as sorted_out gives it.
asks_in(s, sorted) := [amount.ask |
	some amount in amounts_in(s)
	fits(amount.name, sorted)
]

# Which claims are for GPUs cannot be told from the pod, so all are taken for it.
wants(s) if count(asks_in(s, resources)) > 0

wants(s) if count(s.resourceClaims) > 0

wanted if wants(spec)

# Parameter scope: "gpu" judges pods that ask for GPUs, "all" every pod that the constraint matches.
covers(otherwise) if parameter("scope", otherwise) != "gpu"

covers(_) if wanted

# --- who asks ---

user := input.review.userInfo.username if {
	is_string(input.review.userInfo.username)
} else := ""

one_of(users, _) if {
	user != ""
	user in users
}

one_of(_, groups) if {
	some g in input.review.userInfo.groups
	g in groups
}

# --- values ---

# A switch that is set, by whatever value.
on(v) if not v in [false, null]

# One of the patterns is the text, or ends in * and the text begins with what is before it.
like(text, patterns) if fits(text, sorted_out(patterns))

# The same for many texts: the patterns are looked through once.
sorted_out(patterns) := {
	"whole": {p | some p in patterns},
	"begin": {trim_suffix(p, "*") | some p in patterns; endswith(p, "*")},
}

fits(text, sorted) if text in sorted.whole

fits(text, sorted) if strings.any_prefix_match(text, sorted.begin)

zero(v) if v in [0, null]

zero(v) if whole(v) == 0

# A plain whole number, as a number or as text. Undefined for anything else.
whole(v) := v if {
	is_number(v)
	v >= 0
	v == floor(v)
}

whole(v) := to_number(v) if {
	is_string(v)
	regex.match(`^[0-9]{1,15}$`, v)
}

factors := {
	"": 1, "k": 1000, "M": 1000000, "G": 1000000000, "T": 1000000000000, "P": 1000000000000000,
	"Ki": 1024, "Mi": 1048576, "Gi": 1073741824, "Ti": 1099511627776, "Pi": 1125899906842624,
}

# Bytes of a quantity such as 20Gi. Undefined for what is none, or is less than a byte.
bytes(v) := v if {
	is_number(v)
	v >= 0
}

bytes(v) := to_number(number) * factors[substring(v, count(number), -1)] if {
	is_string(v)
	regex.match(`^[0-9]{1,15}([.][0-9]{1,9})?([kMGTP]|[KMGTP]i)?$`, v)
	number := trim_right(v, "kKMGTPi")
}

# A value for a message, cut where it is long.
show(v) := substring(json.marshal(v), 0, 160)

# --- paths ---

steps(path) := [s | some s in split(path, "/"); not s in ["", "."]]

climbs(path) if ".." in split(path, "/")
