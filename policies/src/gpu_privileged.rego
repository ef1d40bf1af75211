# A privileged container has every device of its node, whatever it asked for.
package gpu_privileged

import data.lib.gpu

violation contains {"msg": msg} if {
	some x in judged_containers
	gpu.on(x.is.securityContext.privileged)
	msg := sprintf(
		"%s, %s: securityContext.privileged is %s: a privileged container reaches every card of its node; remove it and ask for GPUs in resources.limits",
		[gpu.subject, gpu.where(x), gpu.show(x.is.securityContext.privileged)],
	)
}

violation contains {"msg": msg} if {
	some x in judged_containers
	mount := x.is.securityContext.procMount
	not mount in ["Default", "", null]
	msg := sprintf(
		"%s, %s: securityContext.procMount is %s: it uncovers the kernel's and the driver's files in /proc; leave it out",
		[gpu.subject, gpu.where(x), gpu.show(mount)],
	)
}

violation contains {"msg": msg} if {
	some x in judged_containers
	gpu.on(x.is.securityContext.windowsOptions.hostProcess)
	msg := sprintf("%s, %s: %s", [gpu.subject, gpu.where(x), host_process])
}

violation contains {"msg": msg} if {
	gpu.judged
	gpu.covers("all")
	gpu.on(gpu.spec.securityContext.windowsOptions.hostProcess)
	msg := sprintf("%s: %s", [gpu.subject, host_process])
}

host_process := "securityContext.windowsOptions.hostProcess is set: the container would run on the host itself; remove it"

judged_containers := gpu.containers if {
	gpu.judged
	gpu.covers("all")
}
