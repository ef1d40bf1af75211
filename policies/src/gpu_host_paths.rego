# Folders of the host that lead to cards, the driver, the kubelet or the container runtime: as a volume of
# a pod, or as a PersistentVolume that a pod claims later.
package gpu_host_paths

import data.lib.gpu

default_denied := [
	"/dev", "/proc", "/sys", "/boot", "/root", "/etc",
	"/run/nvidia*", "/run/cdi", "/run/containerd", "/run/crio", "/run/docker*", "/run/podman", "/run/k3s", "/run/cri-dockerd*",
	"/run/dbus", "/run/systemd", "/run/ringfence*",
	"/usr/local/nvidia*", "/usr/local/cuda*", "/opt/nvidia*", "/home/kubernetes/bin/nvidia*",
	"/usr/lib/*/libcuda*", "/usr/lib/*/libnvidia*", "/usr/lib/libcuda*", "/usr/lib/nvidia*",
	"/usr/lib64/libcuda*", "/usr/lib64/libnvidia*", "/lib/*/libcuda*", "/lib/*/libnvidia*", "/lib64/libcuda*", "/lib64/libnvidia*",
	"/usr/lib/modules", "/lib/modules", "/usr/bin/nvidia*",
	"/var/lib/kubelet", "/var/lib/containerd", "/var/lib/containers", "/var/lib/crio", "/var/lib/docker", "/var/lib/rancher",
	"/var/lib/etcd", "/var/lib/nvidia*", "/var/lib/ringfence*", "/var/log/pods", "/var/log/containers",
	"/tmp/nvidia-mps*",
]

# /var/run is a link to /run.
on_disk(steps) := array.concat(["run"], array.slice(steps, 2, count(steps))) if {
	array.slice(steps, 0, 2) == ["var", "run"]
} else := steps

denied := {path: on_disk(gpu.steps(path)) |
	some path in array.concat(gpu.parameter("denied", default_denied), gpu.parameter("alsoDenied", []))
}

fits(step, pattern) if step == pattern

fits(step, pattern) if {
	endswith(pattern, "*")
	startswith(step, trim_suffix(pattern, "*"))
}

differ(steps, pattern) if {
	some i, s in steps
	p := pattern[i]
	not fits(s, p)
}

# One lies below the other: who mounts /var has /var/lib/kubelet too.
meet(steps, pattern) if not differ(steps, pattern)

wrong(path) := "is no path" if {
	not is_string(path)
} else := "must begin with /" if {
	not startswith(path, "/")
} else := "goes up with .." if {
	gpu.climbs(path)
} else := sprintf("reaches %s of the host", [concat(", ", array.slice(met, 0, 4))]) if {
	steps := on_disk(gpu.steps(path))
	met := [p | some p, pattern in denied; meet(steps, pattern)]
	count(met) > 0
} else := "is a folder of the host" if {
	gpu.parameter("denyAll", false) == true
}

path_of(source) := source.path if {
	source.path != null
} else := null

paths contains [sprintf("volume %s", [gpu.show(object.get(v, "name", "(no name)"))]), path_of(v.hostPath)] if {
	gpu.judged
	gpu.covers("all")
	some v in gpu.spec.volumes
	gpu.on(v.hostPath)
}

paths contains [sprintf("spec.%s", [source]), path_of(gpu.reviewed.spec[source])] if {
	gpu.reviewed.kind == "PersistentVolume"
	not gpu.deleting
	not gpu.same_spec
	some source in ["hostPath", "local"]
	gpu.on(gpu.reviewed.spec[source])
}

violation contains {"msg": msg} if {
	some [where, path] in paths
	msg := sprintf(
		"%s, %s: path %s %s: cards, driver and runtime are not to be had by a path; use an emptyDir or a claim, and ask for GPUs in resources.limits",
		[gpu.subject, where, gpu.show(path), wrong(path)],
	)
}
