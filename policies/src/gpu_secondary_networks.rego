# A second network goes past NetworkPolicies: they hold for the pod's first interface. RDMA even goes past
# the kernel. Whoever asks for one needs a MultiNetworkPolicy that covers it.
package gpu_secondary_networks

import data.lib.gpu

annotations := ["k8s.v1.cni.cncf.io/networks", "v1.multus-cni.io/default-network"]

default_rdma := ["rdma/*", "nvidia.com/hostdev*", "nvidia.com/rdma*", "openshift.io/*", "mellanox.com/*"]

# Annotations count until the pod's sandbox is made, so a change of them is judged too.
judged if {
	is_object(gpu.spec)
	not gpu.deleting
	not same
}

same if {
	gpu.unchanged
	asked(gpu.pod_in(gpu.old)) == asked(gpu.pod)
	object.get(gpu.pod_in(gpu.old), ["metadata", "labels"], {}) == labels
}

asked(pod) := {key: pod.metadata.annotations[key] | some key in annotations}

labels := object.get(gpu.pod, ["metadata", "labels"], {})

# --- which networks ---

# Either "net-a, other/net-b@eth1" or a JSON list of {"name", "namespace"}.
networks contains net if {
	some _, text in asked(gpu.pod)
	not bracketed(text)
	some word in split(text, ",")
	net := full(split(trim_space(word), "@")[0])
	net != ""
}

networks contains net if {
	some _, text in asked(gpu.pod)
	some e in as_list(text)
	net := concat("/", [object.get(e, "namespace", gpu.namespace), e.name])
}

as_list(text) := json.unmarshal(text) if bracketed(text)

bracketed(text) if startswith(trim_space(text), "[")

full(net) := net if {
	contains(net, "/")
} else := "" if {
	net == ""
} else := concat("/", [gpu.namespace, net])

# --- what covers them ---

policies contains p if {
	some gv, kinds in data.inventory.namespace[gpu.namespace]
	startswith(gv, "k8s.cni.cncf.io/")
	some p in kinds.MultiNetworkPolicy
}

covered(net) if {
	some p in policies
	some word in split(p.metadata.annotations["k8s.v1.cni.cncf.io/policy-for"], ",")
	full(trim_space(word)) == net
	selects(p)
}

covered(net) if gpu.fits(net, gpu.sorted_out(gpu.parameter("trustedNetworks", [])))

# Expressions are not worked out here: a policy with some is taken as one for other pods.
selects(p) if {
	selector := p.spec.podSelector
	count(object.get(selector, "matchExpressions", [])) == 0
	every key, value in object.get(selector, "matchLabels", {}) {
		labels[key] == value
	}
}

# --- what is refused ---

violation contains {"msg": msg} if {
	judged
	some net in networks
	not covered(net)
	msg := sprintf(
		"%s: asks for network %s, and no MultiNetworkPolicy in namespace %s covers this pod there, so its neighbours could reach it and it them; create one with annotation k8s.v1.cni.cncf.io/policy-for: %s",
		[gpu.subject, gpu.show(net), gpu.show(gpu.namespace), gpu.show(net)],
	)
}

violation contains {"msg": msg} if {
	judged
	some _, text in asked(gpu.pod)
	unreadable(text)
	msg := sprintf(
		"%s: the annotation for networks cannot be read: %s; write names, separated by commas, or a JSON list of objects with a name",
		[gpu.subject, gpu.show(text)],
	)
}

unreadable(text) if not is_string(text)

unreadable(text) if {
	bracketed(text)
	not as_list(text)
}

unreadable(text) if {
	some e in as_list(text)
	not named(e)
}

named(e) if {
	is_string(e.name)
	is_string(object.get(e, "namespace", ""))
}

# Another JSON value than a list.
unreadable(text) if regex.match(`["{}]`, substring(trim_space(text), 0, 1))

violation contains {"msg": msg} if {
	judged
	some ask in gpu.asks_in(gpu.spec, gpu.sorted_out(gpu.parameter("rdmaResources", default_rdma)))
	count(networks) == 0
	msg := sprintf(
		"%s: asks for %s and does not say for which network, so no policy can cover it; name it in annotation k8s.v1.cni.cncf.io/networks",
		[gpu.subject, ask.resource],
	)
}
