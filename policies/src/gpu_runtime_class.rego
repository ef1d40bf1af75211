# Which runtime a pod with GPUs may choose, and that no other pod chooses one that hands out cards.
package gpu_runtime_class

import data.lib.gpu

# "" is the cluster's standard runtime.
allowed := gpu.parameter("allowed", [""])

class := gpu.spec.runtimeClassName if {
	gpu.spec.runtimeClassName != null
} else := ""

violation contains {"msg": msg} if {
	gpu.judged
	gpu.wanted
	not class in allowed
	msg := sprintf(
		"%s: runtimeClassName %s is not for pods with GPUs; use one of %s (\"\" means: leave it out)",
		[gpu.subject, gpu.show(class), gpu.show(allowed)],
	)
}

violation contains {"msg": msg} if {
	gpu.judged
	not gpu.wanted
	gpu.fits(lower(class), gpu.sorted_out(gpu.parameter("gpuClasses", ["nvidia*"])))
	msg := sprintf(
		"%s: runtimeClassName %s hands out cards, and the pod asks for none; leave it out, or ask for GPUs in resources.limits",
		[gpu.subject, gpu.show(class)],
	)
}
