package gpu_device_claims_test

import data.gpu_device_claims

claim(r) := {"review": {"operation": "CREATE", "object": {"kind": "ResourceClaim", "spec": {"devices": {"requests": r}}}}}

violations(i, p) := vs if {
	vs := gpu_device_claims.violation with input as object.union(i, {"parameters": p})
}

test_variants if {
	gpu_device_claims.variants({"exactly": {"a": 1}}) == [{"a": 1}]
	gpu_device_claims.variants({"firstAvailable": [{"a": 1}, {"b": 2}]}) == [{"a": 1}, {"b": 2}]
	gpu_device_claims.variants({"exactly": {"a": 1}, "firstAvailable": [{"b": 2}]}) == [{"a": 1}, {"b": 2}]
	gpu_device_claims.variants({"deviceClassName": "x"}) == [{"deviceClassName": "x"}]
}

test_class_is_a_number if count(violations(claim([{"exactly": {"deviceClassName": 5}}]), {"allowed": ["*"]})) == 1

test_star if count(violations(claim([{"exactly": {"deviceClassName": "x"}}]), {"allowed": ["*"]})) == 0

worst := {"kind": "ResourceClaim", "spec": {"devices": {"config": [{}], "requests": [{"exactly": {"adminAccess": true, "allocationMode": "All"}}]}}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {"allowConfig": false})) == 4

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {"allowConfig": false})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {"allowConfig": false})) == 0

test_pod_that_is_old if {
	o := {"kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"deviceclass.resource.kubernetes.io/x": 1}}}]}}
	count(violations({"review": {"operation": "CREATE", "object": o}}, {})) == 1
	count(violations({"review": {"operation": "DELETE", "object": o, "oldObject": o}}, {})) == 0
}
