# Labels, annotations and finalizers of ringfence.io say whose a namespace is, what a node has and who holds
# a card. Only ringfence and administrators write them.
package gpu_ringfence_metadata

import data.lib.gpu

domains := gpu.parameter("domains", ["ringfence.io"])

# What tenants may write.
free := gpu.parameter("free", ["ringfence.io/burst"])

ours(key) if {
	domain := split(lower(key), "/")[0]
	in_domain(domain)
	not key in free
}

in_domain(domain) if domain in domains

in_domain(domain) if strings.any_suffix_match(domain, below)

below := [concat("", [".", d]) | some d in domains]

was := gpu.old if gpu.old

else := {}

map_of(o, field) := m if {
	m := o.metadata[field]
	is_object(m)
} else := {}

list_of(o, field) := l if {
	l := o.metadata[field]
	is_array(l)
} else := []

changed contains ["label", key] if {
	some key in differing("labels")
}

changed contains ["annotation", key] if {
	some key in differing("annotations")
}

changed contains ["finalizer", key] if {
	is := {f | some f in list_of(gpu.reviewed, "finalizers")}
	before := {f | some f in list_of(was, "finalizers")}
	touched := (is | before) - (is & before)
	some key in touched
	ours(key)
}

differing(field) := {key |
	is := map_of(gpu.reviewed, field)
	before := map_of(was, field)
	keys := object.keys(is) | object.keys(before)
	some key in keys
	ours(key)
	object.get(is, [key], null) != object.get(before, [key], null)
}

# What a template says becomes the pod's.
changed contains [sprintf("%s of the pod template", [word]), key] if {
	gpu.reviewed.kind != "Pod"
	some field, word in {"labels": "label", "annotations": "annotation"}
	is := map_of(gpu.pod, field)
	before := map_of(template_before, field)
	some key, value in is
	ours(key)
	object.get(before, [key], null) != value
}

template_before := gpu.pod_in(was) if {
	gpu.pod_in(was)
} else := {}

violation contains {"msg": msg} if {
	not gpu.deleting
	some [what, key] in changed
	not gpu.one_of(gpu.parameter("allowedUsers", []), gpu.parameter("allowedGroups", []))
	msg := sprintf(
		"%s: user %s may not set, change or remove %s %s: it is ringfence's own; leave it as it is, or ask an administrator",
		[gpu.subject, gpu.show(gpu.user), what, gpu.show(key)],
	)
}
