# How important a pod with GPUs may call itself. Priority evicts other people's work.
package gpu_priority

import data.lib.gpu

class := gpu.spec.priorityClassName if {
	not gpu.spec.priorityClassName in ["", null]
} else := ""

allowed := gpu.parameter("allowed", [])

# system-* only if it is written out: a * is not meant for it.
fits(c) if c in allowed

fits(c) if {
	not startswith(lower(c), "system-")
	gpu.fits(c, gpu.sorted_out(allowed))
}

violation contains {"msg": msg} if {
	judged
	class != ""
	not fits(class)
	msg := sprintf(
		"%s: priorityClassName %s is none of %s; use one of these, or leave it out",
		[gpu.subject, gpu.show(class), gpu.show(allowed)],
	)
}

violation contains {"msg": msg} if {
	judged
	class == ""
	gpu.parameter("required", false) == true
	msg := sprintf("%s: asks for GPUs and has no priorityClassName; set one of %s", [gpu.subject, gpu.show(allowed)])
}

violation contains {"msg": msg} if {
	judged
	most := gpu.parameters.maxPriority
	not class in allowed
	priority := gpu.spec.priority
	priority != null
	not at_most(priority, most)
	msg := sprintf("%s: priority %s is more than %v; use a lower priority class", [gpu.subject, gpu.show(priority), most])
}

at_most(priority, most) if {
	is_number(priority)
	priority <= most
}

violation contains {"msg": msg} if {
	judged
	gpu.parameter("neverPreempt", false) == true
	class != ""
	gpu.spec.preemptionPolicy != "Never"
	msg := sprintf(
		"%s: preemptionPolicy %s would evict others' pods; use a priority class with preemptionPolicy Never",
		[gpu.subject, gpu.show(gpu.spec.preemptionPolicy)],
	)
}

judged if {
	gpu.judged
	gpu.wanted
}
