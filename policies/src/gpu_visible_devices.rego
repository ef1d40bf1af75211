# Ways to name cards past the scheduler: variables, mounts and annotations that NVIDIA's container
# runtime and others take for a list of devices. Pods that ask for no GPU matter most here.
package gpu_visible_devices

import data.lib.gpu

default_denied := [
	"NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_IMEX_CHANNELS", "NVIDIA_MIG_*",
	"NVIDIA_REQUIRE_*", "NVIDIA_DISABLE_REQUIRE", "NVIDIA_GDS", "NVIDIA_MOFED", "NVIDIA_GDRCOPY", "NVIDIA_NVSWITCH", "NVIDIA_CTK_*",
	"CUDA_VISIBLE_DEVICES", "CUDA_MPS_*",
	"ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL", "ZE_AFFINITY_MASK",
]

# What only narrows. All words of the value must be here.
default_allowed := {
	"NVIDIA_VISIBLE_DEVICES": ["void", "none"],
	"NVIDIA_DRIVER_CAPABILITIES": ["compute", "utility"],
}

denied := [upper(d) | some d in array.concat(gpu.parameter("denied", default_denied), gpu.parameter("alsoDenied", []))]

sorted_denied := gpu.sorted_out(denied)

allowed_values := gpu.parameter("allowedValues", default_allowed)

harmless(e) if {
	not sourced(e)
	words := allowed_values[upper(e.name)]
	is_string(e.value)
	every w in split(e.value, ",") {
		w in words
	}
}

# A variable whose value comes from elsewhere is one that nobody has seen.
sourced(e) if gpu.on(e.valueFrom)

value_of(e) := "whose value comes from elsewhere" if {
	sourced(e)
} else := sprintf("set to %s", [gpu.show(object.get(e, "value", ""))])

violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	some e in x.is.env
	gpu.fits(upper(e.name), sorted_denied)
	not harmless(e)
	msg := sprintf(
		"%s, %s: variable %s, %s: which cards and which parts of the driver a container sees is not its own to say; remove it and ask for GPUs in resources.limits",
		[gpu.subject, gpu.where(x), gpu.show(e.name), value_of(e)],
	)
}

prefix_of(from) := from.prefix if {
	is_string(from.prefix)
} else := ""

# Every name from envFrom begins with its prefix. It is safe if that leads to no name of the list: what the
# ConfigMap or Secret holds may change until the container starts.
led(prefix) := ds[0] if {
	ds := [d | some d in denied; startswith(d, prefix)]
} else := prefix if {
	gpu.fits(prefix, sorted_denied)
}

violation contains {"msg": msg} if {
	judged
	gpu.parameter("envFrom", "prefix") != "allow"
	some x in gpu.containers
	some from in x.is.envFrom
	prefix := prefix_of(from)
	msg := sprintf(
		"%s, %s: envFrom with prefix %s could set %s, unseen; give it a prefix such as APP_, or list the variables in env",
		[gpu.subject, gpu.where(x), gpu.show(prefix), led(upper(prefix))],
	)
}

default_mounts := ["/var/run/nvidia-container-devices", "/run/nvidia-container-devices"]

violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	some mount in x.is.volumeMounts
	some d in gpu.parameter("deniedMounts", default_mounts)
	steps := gpu.steps(d)
	array.slice(gpu.steps(mount.mountPath), 0, count(steps)) == steps
	msg := sprintf(
		"%s, %s: mountPath %s: a mount below %s asks NVIDIA's runtime for cards by name; remove it and ask for GPUs in resources.limits",
		[gpu.subject, gpu.where(x), gpu.show(mount.mountPath), d],
	)
}

violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	some mount in x.is.volumeMounts
	gpu.climbs(mount.mountPath)
	msg := sprintf(
		"%s, %s: mountPath %s goes up with ..: where it ends cannot be seen; write the path without",
		[gpu.subject, gpu.where(x), gpu.show(mount.mountPath)],
	)
}

# An annotation can be written after the fact and before the container starts.
violation contains {"msg": msg} if {
	annotated
	some key, _ in gpu.pod.metadata.annotations
	gpu.fits(lower(key), gpu.sorted_out(gpu.parameter("deniedAnnotations", ["cdi.k8s.io/*"])))
	msg := sprintf(
		"%s: annotation %s asks the container runtime for devices by name; remove it and ask for GPUs in resources.limits",
		[gpu.subject, gpu.show(key)],
	)
}

annotated if {
	is_object(gpu.spec)
	not gpu.deleting
	not same_annotations
	gpu.covers("all")
}

same_annotations if {
	gpu.unchanged
	was := object.get(gpu.pod_in(gpu.old), ["metadata", "annotations"], {})
	was == object.get(gpu.pod, ["metadata", "annotations"], {})
}

judged if {
	gpu.judged
	gpu.covers("all")
}
