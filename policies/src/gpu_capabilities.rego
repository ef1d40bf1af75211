# Capabilities that a container adds. SYS_ADMIN, SYS_PTRACE, MKNOD and SYS_RAWIO each undo the fence
# around a card, so there is a list of those that may be added, and none of those that may not.
package gpu_capabilities

import data.lib.gpu

# Runtimes take SYS_ADMIN, CAP_SYS_ADMIN and sys_admin for the same.
plain(capability) := trim_prefix(upper(capability), "CAP_")

listed(capability) if plain(capability) in allowed

allowed := {plain(c) | some c in gpu.parameter("allowed", [])}

violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	some c in x.is.securityContext.capabilities.add
	not listed(c)
	msg := sprintf(
		"%s, %s: adds capability %s, and only %s may be added; remove it from securityContext.capabilities.add",
		[gpu.subject, gpu.where(x), gpu.show(c), gpu.show(sort(allowed))],
	)
}

violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	some c in gpu.parameter("requiredDrop", [])
	dropped := {plain(d) | some d in x.is.securityContext.capabilities.drop}
	not "ALL" in dropped
	not plain(c) in dropped
	msg := sprintf(
		"%s, %s: keeps capability %s; add it to securityContext.capabilities.drop",
		[gpu.subject, gpu.where(x), gpu.show(c)],
	)
}

judged if {
	gpu.judged
	gpu.covers("all")
}
