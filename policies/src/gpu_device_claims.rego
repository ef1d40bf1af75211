# What may be claimed by Dynamic Resource Allocation: no administrator's access, which opens devices that
# others hold, no more than a count, and only classes of a list.
package gpu_device_claims

import data.lib.gpu

claim := gpu.reviewed.spec if {
	gpu.reviewed.kind == "ResourceClaim"
} else := gpu.reviewed.spec.spec if {
	gpu.reviewed.kind == "ResourceClaimTemplate"
}

judged if {
	not gpu.deleting
	not gpu.same_spec
}

# v1 has a request below `exactly` or several below `firstAvailable`, v1beta1 has it as it is. All places
# are looked at, whatever the version.
requests contains [object.get(r, "name", "(no name)"), v] if {
	judged
	some r in claim.devices.requests
	some v in variants(r)
}

variants(r) := vs if {
	vs := array.concat([r.exactly | is_object(r.exactly)], [f | some f in r.firstAvailable])
	count(vs) > 0
} else := [r]

violation contains {"msg": msg} if {
	judged
	some r in claim.devices.requests
	some v in array.concat([r], variants(r))
	gpu.on(v.adminAccess)
	msg := sprintf(
		"%s, request %s: adminAccess opens devices that others hold; remove it",
		[gpu.subject, gpu.show(object.get(r, "name", "(no name)"))],
	)
}

allowed := gpu.parameter("allowed", [])

violation contains {"msg": msg} if {
	some [name, v] in requests
	class := object.get(v, "deviceClassName", "")
	not gpu.fits(class, gpu.sorted_out(allowed))
	msg := sprintf(
		"%s, request %s: deviceClassName %s is none of %s; use one of these",
		[gpu.subject, gpu.show(name), gpu.show(class), gpu.show(allowed)],
	)
}

violation contains {"msg": msg} if {
	gpu.parameter("allowAll", false) != true
	some [name, v] in requests
	v.allocationMode == "All"
	msg := sprintf(
		"%s, request %s: allocationMode All takes every device of a node; ask for a count",
		[gpu.subject, gpu.show(name)],
	)
}

# Settings for a driver travel with a claim, sharing among them.
violation contains {"msg": msg} if {
	judged
	gpu.parameter("allowConfig", true) == false
	count(claim.devices.config) > 0
	msg := sprintf("%s: brings settings for a driver (devices.config), which are the administrator's; remove them", [gpu.subject])
}

# A class can be asked for as a resource of a container, too.
violation contains {"msg": msg} if {
	gpu.judged
	some ask in gpu.asks_in(gpu.spec, gpu.sorted_out(["deviceclass.resource.kubernetes.io/*"]))
	class := trim_prefix(lower(ask.resource), "deviceclass.resource.kubernetes.io/")
	not gpu.fits(class, gpu.sorted_out(allowed))
	msg := sprintf(
		"%s: asks for device class %s, which is none of %s; use one of these",
		[gpu.subject, gpu.show(class), gpu.show(allowed)],
	)
}
