# Pods with GPUs say what they need: limits for CPU and memory, so that nobody starves the card's other
# half, and GPUs as a limit that the request, if there is one, repeats.
package gpu_limits

import data.lib.gpu

required := gpu.parameter("required", ["cpu", "memory"])

# Ephemeral containers cannot have limits.
violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	x.list != "ephemeralContainers"
	some resource in required
	not limited(x.is, resource)
	not limited(gpu.spec, resource)
	msg := sprintf(
		"%s, %s: has no limit for %s, and a pod with GPUs needs one: it would take it from the others on the node; set resources.limits.%s",
		[gpu.subject, gpu.where(x), resource, resource],
	)
}

limited(owner, resource) if {
	value := owner.resources.limits[resource]
	not gpu.zero(value)
}

counted contains [ask.owner, ask.resource] if {
	judged
	some ask in gpu.asks_in(gpu.spec, gpu.resources)
}

violation contains {"msg": msg} if {
	some [owner, resource] in counted
	request := owner.is.resources.requests[resource]
	request != null
	not same(request, object.get(owner.is, ["resources", "limits", resource], null))
	msg := sprintf(
		"%s, %s: requests %s of %s and has a limit of %s: GPUs cannot be overcommitted; set the limit and leave the request out",
		[gpu.subject, place(owner), gpu.show(request), resource, limit_text(owner, resource)],
	)
}

same(a, b) if a == b

same(a, b) if gpu.whole(a) == gpu.whole(b)

same(a, b) if gpu.bytes(a) == gpu.bytes(b)

limit_text(owner, resource) := gpu.show(owner.is.resources.limits[resource]) if {
	owner.is.resources.limits[resource] != null
} else := "none"

# Memory of a share is bytes, everything else counts things.
violation contains {"msg": msg} if {
	some [owner, resource] in counted
	value := owner.is.resources.limits[resource]
	not gpu.whole(value)
	not memory(resource, value)
	msg := sprintf(
		"%s, %s: limit %s of %s is no whole number; write it as one, such as 1",
		[gpu.subject, place(owner), gpu.show(value), resource],
	)
}

memory(resource, value) if {
	endswith(resource, "memory")
	gpu.bytes(value)
}

violation contains {"msg": msg} if {
	some [owner, resource] in counted
	owner.list in ["pod", "ephemeralContainers"]
	msg := sprintf("%s, %s: %s cannot be asked for here; move the limit to a container", [gpu.subject, place(owner), resource])
}

place(owner) := "spec.resources" if {
	owner.list == "pod"
} else := gpu.where(owner)

judged if {
	gpu.judged
	gpu.wanted
}
