# Which parts of a card may be asked for: MIG profiles, and shares of ringfence by memory and compute.
# Odd sizes leave remains on the cards that fit nobody.
package gpu_share_size

import data.lib.gpu

profiles := [lower(p) | some p in gpu.parameter("allowedMigProfiles", [])]

violation contains {"msg": msg} if {
	gpu.judged
	some ask in gpu.asks_in(gpu.spec, gpu.sorted_out(["nvidia.com/mig-*"]))
	profile := trim_prefix(lower(ask.resource), "nvidia.com/mig-")
	not profile in profiles
	msg := sprintf(
		"%s, %s: MIG profile %s is none of %s; use one of these",
		[gpu.subject, place(ask.owner), gpu.show(profile), gpu.show(profiles)],
	)
}

shares := gpu.asks_in(gpu.spec, gpu.sorted_out([gpu.parameter("memoryResource", "ringfence.io/gpu-memory")])) if gpu.judged

violation contains {"msg": msg} if {
	some ask in shares
	msg := sprintf("%s, %s: %s %s %s", [gpu.subject, place(ask.owner), ask.resource, gpu.show(ask.value), wrong(ask.value)])
}

wrong(value) := "is no number of bytes; write it like 20Gi" if {
	not gpu.bytes(value)
} else := sprintf("is none of %s; use one of these", [gpu.show(gpu.parameters.allowedMemory)]) if {
	count(gpu.parameters.allowedMemory) > 0
	not gpu.bytes(value) in {gpu.bytes(m) | some m in gpu.parameters.allowedMemory}
} else := sprintf("is less than %s, which does not hold a context and a model; ask for more", [gpu.show(gpu.parameters.minMemory)]) if {
	gpu.bytes(value) < gpu.bytes(gpu.parameters.minMemory)
} else := sprintf("is more than %s; ask for less, or for a whole card", [gpu.show(gpu.parameters.maxMemory)]) if {
	gpu.bytes(value) > gpu.bytes(gpu.parameters.maxMemory)
}

violation contains {"msg": msg} if {
	gpu.judged
	some ask in gpu.asks_in(gpu.spec, gpu.sorted_out([gpu.parameter("computeResource", "ringfence.io/gpu-compute")]))
	most := gpu.parameter("maxCompute", 100)
	not small(ask.value, most)
	msg := sprintf(
		"%s, %s: %s %s is no whole number from 1 to %v; ask for less, or for a whole card",
		[gpu.subject, place(ask.owner), ask.resource, gpu.show(ask.value), most],
	)
}

small(value, most) if gpu.whole(value) <= most

place(x) := "spec.resources" if {
	x.list == "pod"
} else := gpu.where(x)
