# /dev/shm and other volumes in memory: programs on several GPUs need them larger than the 64 MiB that
# there are otherwise, and without a limit one pod fills the node's memory with them.
package gpu_shared_memory

import data.lib.gpu

in_memory(v) if startswith(v.emptyDir.medium, "Memory")

in_memory(v) if startswith(v.emptyDir.medium, "HugePages")

most := gpu.parameter("maxSize", "64Gi")

volumes := [v | some v in gpu.spec.volumes]

violation contains {"msg": msg} if {
	judged
	some v in volumes
	in_memory(v)
	msg := sprintf("%s, volume %s: %s", [gpu.subject, gpu.show(v.name), wrong(object.get(v.emptyDir, "sizeLimit", null))])
}

wrong(size) := sprintf("is memory of the node without a limit; set emptyDir.sizeLimit to at most %s", [most]) if {
	gpu.zero(size)
} else := sprintf("sizeLimit %s is no number of bytes; write it like 8Gi", [gpu.show(size)]) if {
	not gpu.bytes(size)
} else := sprintf("sizeLimit %s is more than %s; make it smaller", [gpu.show(size), most]) if {
	gpu.bytes(size) > gpu.bytes(most)
}

shm(mount) if gpu.steps(mount.mountPath) == ["dev", "shm"]

violation contains {"msg": msg} if {
	judged
	some x in gpu.containers
	some mount in x.is.volumeMounts
	shm(mount)
	not memory_volume(object.get(mount, "name", ""))
	msg := sprintf(
		"%s, %s: /dev/shm is volume %s, which is no emptyDir with medium Memory: it would be slow, or shared with others; use one",
		[gpu.subject, gpu.where(x), gpu.show(object.get(mount, "name", ""))],
	)
}

memory_volume(name) if {
	some v in volumes
	v.name == name
	v.emptyDir.medium == "Memory"
}

violation contains {"msg": msg} if {
	judged
	gpu.parameter("required", false) == true
	some x in gpu.containers
	count(gpu.asks_in({"containers": [x.is]}, gpu.resources)) > 0
	not mounts_shm(x.is)
	msg := sprintf(
		"%s, %s: asks for GPUs and has no volume at /dev/shm, so 64 MiB are all there is; mount an emptyDir with medium Memory there",
		[gpu.subject, gpu.where(x)],
	)
}

mounts_shm(c) if {
	some mount in c.volumeMounts
	shm(mount)
}

judged if {
	gpu.judged
	gpu.covers("gpu")
}
