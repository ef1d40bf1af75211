# Pods with GPUs go to the GPU nodes, and no others do.
package gpu_placement

import data.lib.gpu

tolerations := [t | some t in gpu.spec.tolerations]

key(t) := t.key if {
	is_string(t.key)
} else := ""

exists(t) if t.operator == "Exists"

any_effect(t) if object.get(t, "effect", null) in ["", null]

tolerates(t, taint) if {
	key(t) == taint.key
	exists(t)
	effect_fits(t, taint)
}

tolerates(t, taint) if {
	key(t) == taint.key
	object.get(t, "operator", null) in ["Equal", "", null]
	object.get(t, "value", "") == object.get(taint, "value", "")
	effect_fits(t, taint)
}

effect_fits(t, _) if any_effect(t)

effect_fits(t, taint) if t.effect == object.get(taint, "effect", t.effect)

# Without a key a toleration fits every taint there is, today's and tomorrow's.
violation contains {"msg": msg} if {
	gpu.judged
	gpu.parameter("allowWildcard", false) != true
	some i, t in tolerations
	key(t) == ""
	msg := sprintf(
		"%s: tolerations[%v] has no key and tolerates every taint of every node; name the taints that are meant",
		[gpu.subject, i],
	)
}

violation contains {"msg": msg} if {
	gpu.judged
	gpu.wanted
	some taint in gpu.parameter("tolerations", [])
	not tolerated(taint)
	msg := sprintf(
		"%s: asks for GPUs and does not tolerate taint %s, which keeps GPU nodes free for such pods; add it to spec.tolerations",
		[gpu.subject, gpu.show(taint)],
	)
}

tolerated(taint) if {
	some t in tolerations
	key(t) != ""
	tolerates(t, taint)
}

violation contains {"msg": msg} if {
	gpu.judged
	not gpu.wanted
	gpu.parameter("reserved", true) != false
	some taint in gpu.parameter("tolerations", [])
	some i, t in tolerations
	key(t) == taint.key
	msg := sprintf(
		"%s: tolerations[%v] lets it onto GPU nodes (taint %s), and it asks for no GPU; remove it",
		[gpu.subject, i, gpu.show(taint.key)],
	)
}

# --- node pool ---

violation contains {"msg": msg} if {
	gpu.judged
	gpu.wanted
	some label, value in gpu.parameter("nodeSelector", {})
	not selects(label, value)
	msg := sprintf(
		"%s: asks for GPUs and may go to nodes outside the pool %s=%s; add it to spec.nodeSelector",
		[gpu.subject, label, value],
	)
}

selects(label, value) if gpu.spec.nodeSelector[label] == value

# Terms are alternatives: the pool must be in each.
selects(label, value) if {
	terms := gpu.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
	count(terms) > 0
	every term in terms {
		some e in term.matchExpressions
		e.key == label
		e.operator == "In"
		e.values == [value]
	}
}

# A pod that is there already has its node from the scheduler.
violation contains {"msg": msg} if {
	gpu.judged
	gpu.wanted
	not gpu.old
	not object.get(gpu.spec, "nodeName", null) in ["", null]
	msg := sprintf(
		"%s: spec.nodeName %s passes the scheduler by, and with it every rule about who shares a node; leave it out and use nodeSelector",
		[gpu.subject, gpu.show(gpu.spec.nodeName)],
	)
}
