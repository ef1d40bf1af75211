# How many devices one pod may have. Containers run together and are summed; init containers run before
# them, so the largest counts; those that stay (restartPolicy Always) count with the containers. Devices
# from claims are looked up in the inventory and counted too.
package gpu_max_count

import data.lib.gpu

default_counted := [
	"nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-*", "ringfence.io/gpu", "amd.com/gpu*",
	"gpu.intel.com/i915", "gpu.intel.com/xe", "deviceclass.resource.kubernetes.io/*",
]

most := gpu.parameter("max", 8)

counted := [ask |
	some ask in gpu.asks_in(gpu.spec, gpu.sorted_out(gpu.parameter("countedResources", default_counted)))
]

# Limit and request of one resource are the same devices.
devices(owner) := sum([most_of |
	some resource in {a.resource | some a in counted; a.owner == owner}
	most_of := max([n | some a in counted; a.owner == owner; a.resource == resource; n := gpu.whole(a.value)])
])

stays(x) if x.list in ["containers", "pod"]

stays(x) if {
	x.list == "initContainers"
	x.is.restartPolicy == "Always"
}

owners := array.concat(gpu.containers, [{"list": "pod", "is": gpu.spec}])

in_containers := sum([devices(x) | some x in owners; stays(x)])

in_init := max(array.concat([0], [devices(x) | some x in owners; x.list == "initContainers"; not stays(x)]))

staying_init := sum([devices(x) | some x in owners; x.list == "initContainers"; stays(x)])

from_resources := max([in_containers, in_init + staying_init])

# --- claims ---

claims := [c | some c in gpu.spec.resourceClaims]

api(gv) if startswith(gv, "resource.k8s.io/")

claim_spec(c) := s if {
	is_string(c.resourceClaimName)
	found := [o.spec |
		some gv, kinds in data.inventory.namespace[gpu.namespace]
		api(gv)
		o := kinds.ResourceClaim[c.resourceClaimName]
	]
	s := found[0]
} else := s if {
	is_string(c.resourceClaimTemplateName)
	found := [o.spec.spec |
		some gv, kinds in data.inventory.namespace[gpu.namespace]
		api(gv)
		o := kinds.ResourceClaimTemplate[c.resourceClaimTemplateName]
	]
	s := found[0]
}

# v1 has the request below `exactly` or several below `firstAvailable`, v1beta1 has it as it is.
variants(r) := r.firstAvailable if {
	is_array(r.firstAvailable)
} else := [r.exactly] if {
	is_object(r.exactly)
} else := [r]

# What cannot be counted is more than anybody may have.
number(v) := 1 if {
	object.get(v, "count", null) == null
} else := gpu.whole(v.count) if {
	gpu.whole(v.count)
} else := 1000000

class_counts(v) if gpu.fits(object.get(v, "deviceClassName", ""), gpu.sorted_out(gpu.parameter("deviceClasses", ["*"])))

requested(s) := sum([n |
	some r in s.devices.requests
	n := max(array.concat([0], [number(v) | some v in variants(r); class_counts(v)]))
])

takes_all(s) if {
	some r in s.devices.requests
	some v in variants(r)
	class_counts(v)
	v.allocationMode == "All"
}

from_claims := sum([n | some c in claims; n := claim_count(c)])

claim_count(c) := requested(claim_spec(c)) if {
	claim_spec(c)
} else := 1

# --- what is refused ---

# Limits and requests together are at least as many as the devices, in each container and in the pod: most pods ask
# for so few that nothing has to be counted exactly.
surely_few if {
	count(claims) == 0
	all := [gpu.whole(ask.value) | some ask in counted]
	count(all) == count(counted)
	sum(all) <= min([most, gpu.parameter("maxPerContainer", most)])
}

violation contains {"msg": msg} if {
	gpu.judged
	not surely_few
	from_resources + from_claims > most
	msg := sprintf(
		"%s: asks for %v GPUs (%v by resources, %v by claims), and a pod may have %v; ask for fewer, or split the work over several pods",
		[gpu.subject, from_resources + from_claims, from_resources, from_claims, most],
	)
}

violation contains {"msg": msg} if {
	gpu.judged
	not surely_few
	limit := gpu.parameter("maxPerContainer", most)
	some x in owners
	n := devices(x)
	n > limit
	msg := sprintf("%s, %s: asks for %v GPUs, and a container may have %v; ask for fewer", [gpu.subject, place(x), n, limit])
}

violation contains {"msg": msg} if {
	gpu.judged
	some ask in counted
	not gpu.whole(ask.value)
	msg := sprintf(
		"%s, %s: %s of %s cannot be counted; write a whole number, such as 1",
		[gpu.subject, place(ask.owner), gpu.show(ask.value), ask.resource],
	)
}

violation contains {"msg": msg} if {
	gpu.judged
	gpu.parameter("unknownClaims", "deny") != "count"
	some c in claims
	not claim_spec(c)
	msg := sprintf(
		"%s: claim %s is not known here, so its devices cannot be counted; create the ResourceClaim or ResourceClaimTemplate first",
		[gpu.subject, gpu.show(object.get(c, "name", "(no name)"))],
	)
}

violation contains {"msg": msg} if {
	gpu.judged
	some c in claims
	takes_all(claim_spec(c))
	msg := sprintf(
		"%s: claim %s asks for all devices of a node (allocationMode All); ask for a count",
		[gpu.subject, gpu.show(object.get(c, "name", "(no name)"))],
	)
}

place(x) := "spec.resources" if {
	x.list == "pod"
} else := gpu.where(x)

# --- claims as such ---

claimed := gpu.reviewed.spec if {
	gpu.reviewed.kind == "ResourceClaim"
	not gpu.deleting
	not gpu.same_spec
} else := gpu.reviewed.spec.spec if {
	gpu.reviewed.kind == "ResourceClaimTemplate"
	not gpu.deleting
	not gpu.same_spec
}

violation contains {"msg": msg} if {
	requested(claimed) > most
	msg := sprintf("%s: asks for %v devices, and a pod may have %v; ask for fewer", [gpu.subject, requested(claimed), most])
}

violation contains {"msg": msg} if {
	takes_all(claimed)
	msg := sprintf("%s: asks for all devices of a node (allocationMode All); ask for a count", [gpu.subject])
}
