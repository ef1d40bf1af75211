# Namespaces of the host lead to the neighbours' processes, shared memory and ports.
package gpu_host_namespaces

import data.lib.gpu

leads_to := {
	"hostPID": "the processes of all tenants on the node, and through /proc to their files",
	"hostIPC": "the neighbours' shared memory, CUDA IPC handles and MPS",
	"hostNetwork": "the node's ports, past every network policy",
}

violation contains {"msg": msg} if {
	judged
	some field, what in leads_to
	not field in gpu.parameter("allowed", [])
	gpu.on(gpu.spec[field])
	msg := sprintf("%s: spec.%s is %s: it leads to %s; remove it", [gpu.subject, field, gpu.show(gpu.spec[field]), what])
}

violation contains {"msg": msg} if {
	judged
	not "hostPort" in gpu.parameter("allowed", [])
	some x in gpu.containers
	some port in x.is.ports
	host := port.hostPort
	not gpu.zero(host)
	msg := sprintf(
		"%s, %s: hostPort %s: it takes a port of the node, past every network policy; remove hostPort and use a Service",
		[gpu.subject, gpu.where(x), gpu.show(host)],
	)
}

judged if {
	gpu.judged
	gpu.covers("all")
}
