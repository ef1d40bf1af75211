# Work on GPUs comes to an end: Jobs, CronJobs and pods that nobody looks after say when. What is meant to
# serve for ever (Deployments, StatefulSets) is left alone.
package gpu_deadline

import data.lib.gpu

most := gpu.parameter("maxSeconds", 604800)

deadlines := [d |
	some path in [
		["spec", "activeDeadlineSeconds"],
		["spec", "template", "spec", "activeDeadlineSeconds"],
		["spec", "jobTemplate", "spec", "activeDeadlineSeconds"],
		["spec", "jobTemplate", "spec", "template", "spec", "activeDeadlineSeconds"],
	]
	d := object.get(gpu.reviewed, path, null)
	d != null
]

# Anybody may write that a Job owns his pod; only Kubernetes' controllers make pods as themselves.
made_by_controller if {
	gpu.reviewed.kind == "Pod"
	some prefix in gpu.parameter("controllers", ["system:serviceaccount:kube-system:"])
	startswith(gpu.user, prefix)
	some o in gpu.reviewed.metadata.ownerReferences
	o.controller == true
}

judged if {
	gpu.reviewed.kind in ["Pod", "Job", "CronJob"]
	gpu.wanted
	not gpu.deleting
	not gpu.same_spec
	not made_by_controller
}

violation contains {"msg": msg} if {
	judged
	count(deadlines) == 0
	msg := sprintf(
		"%s: asks for GPUs and never ends; set spec.activeDeadlineSeconds to at most %v",
		[gpu.subject, most],
	)
}

# The earliest holds, so one that is soon enough will do.
violation contains {"msg": msg} if {
	judged
	count(deadlines) > 0
	not soon_enough
	msg := sprintf(
		"%s: activeDeadlineSeconds %s is not a whole number from 1 to %v; set it so",
		[gpu.subject, gpu.show(deadlines[0]), most],
	)
}

soon_enough if {
	some d in deadlines
	is_number(d)
	d >= 1
	d <= most
}
