# What a container with a card says of itself: a plain user, no way to more rights, a root that is not
# written to, the standard list of system calls.
package gpu_hardening

import data.lib.gpu

wanted_fields := gpu.parameter("require", ["runAsNonRoot", "allowPrivilegeEscalation", "seccompProfile"])

# A container's word is above its pod's.
setting(x, field) := x.is.securityContext[field] if {
	x.is.securityContext[field] != null
} else := gpu.spec.securityContext[field] if {
	field in ["runAsNonRoot", "runAsUser", "seccompProfile"]
}

is_set(x, field, value) if setting(x, field) == value

violation contains {"msg": msg} if {
	judged
	"runAsNonRoot" in wanted_fields
	some x in gpu.containers
	not is_set(x, "runAsNonRoot", true)
	msg := sprintf("%s, %s: may run as root; set securityContext.runAsNonRoot: true", [gpu.subject, gpu.where(x)])
}

violation contains {"msg": msg} if {
	judged
	"runAsNonRoot" in wanted_fields
	some x in gpu.containers
	setting(x, "runAsUser") in [0, "0"]
	msg := sprintf("%s, %s: runAsUser 0 is root; set another number", [gpu.subject, gpu.where(x)])
}

violation contains {"msg": msg} if {
	judged
	"allowPrivilegeEscalation" in wanted_fields
	some x in gpu.containers
	not is_set(x, "allowPrivilegeEscalation", false)
	msg := sprintf(
		"%s, %s: may gain rights by a setuid program; set securityContext.allowPrivilegeEscalation: false",
		[gpu.subject, gpu.where(x)],
	)
}

violation contains {"msg": msg} if {
	judged
	"readOnlyRootFilesystem" in wanted_fields
	some x in gpu.containers
	not is_set(x, "readOnlyRootFilesystem", true)
	msg := sprintf(
		"%s, %s: can rewrite its own programs; set securityContext.readOnlyRootFilesystem: true and mount an emptyDir where it writes",
		[gpu.subject, gpu.where(x)],
	)
}

violation contains {"msg": msg} if {
	judged
	"seccompProfile" in wanted_fields
	some x in gpu.containers
	not seccomp(x)
	msg := sprintf(
		"%s, %s: may use every system call; set securityContext.seccompProfile.type: RuntimeDefault",
		[gpu.subject, gpu.where(x)],
	)
}

seccomp(x) if setting(x, "seccompProfile").type in ["RuntimeDefault", "Localhost"]

judged if {
	gpu.judged
	gpu.covers("gpu")
}
