# Who may step into a pod with GPUs: exec, attach, port-forward, proxy, or a container added for debugging.
# Inside, there are the model, the data and the card. Pods are looked up in the inventory; one that is not
# found there is taken for one with GPUs.
package gpu_exec

import data.lib.gpu

verbs := {
	"PodExecOptions": "run a command in",
	"PodAttachOptions": "attach to",
	"PodPortForwardOptions": "forward a port of",
	"PodProxyOptions": "reach through the API server",
}

verb := verbs[gpu.reviewed.kind] if {
	gpu.reviewed.kind in object.keys(verbs)
} else := "add a container to" if {
	input.review.subResource == "ephemeralcontainers"
	not gpu.deleting
}

allowed if gpu.one_of(gpu.parameter("allowedUsers", []), gpu.parameter("allowedGroups", []))

# The tenant's own people, where their group is named after the tenant.
allowed if {
	prefix := gpu.parameter("tenantGroupPrefix", null)
	tenant := namespace_labels[gpu.parameter("tenantLabel", "ringfence.io/tenant")]
	is_string(tenant)
	tenant != ""
	gpu.one_of([], [concat("", [prefix, tenant])])
}

namespace_labels := input.review.namespaceObject.metadata.labels if {
	is_object(input.review.namespaceObject)
} else := data.inventory.cluster.v1.Namespace[input.review.namespace].metadata.labels

target := gpu.reviewed if {
	gpu.reviewed.kind == "Pod"
} else := data.inventory.namespace[input.review.namespace].v1.Pod[input.review.name]

known := "which has GPUs" if {
	gpu.wants(target.spec)
} else := "which is not known here and is taken for one with GPUs" if {
	not readable
}

readable if is_object(target.spec)

violation contains {"msg": msg} if {
	what := verb
	why := known
	not allowed
	msg := sprintf(
		"user %s may not %s pod %s/%s, %s: what is in it belongs to its tenant; ask its owner, or have the user's group allowed",
		[
			gpu.show(gpu.user), what, object.get(input.review, "namespace", ""),
			object.get(input.review, "name", ""), why,
		],
	)
}
