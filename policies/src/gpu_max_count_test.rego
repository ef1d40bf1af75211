package gpu_max_count_test

import data.gpu_max_count

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
claim(n) := {"review": {"object": {"kind": "ResourceClaim", "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "x", "count": n}}]}}}}}

ask(n) := {"resources": {"limits": {"nvidia.com/gpu": n}}}

violations(i, p) := vs if {
	vs := gpu_max_count.violation with input as object.union(i, {"parameters": p})
}

test_sum if count(violations(pod({"containers": [object.union(ask(1), {"name": "a"}), object.union(ask(2), {"name": "b"})]}), {"max": 2})) == 1

test_twins_count_twice if count(violations(pod({"containers": [ask(1), ask(1)]}), {"max": 1})) == 1

test_zero_allowed if count(violations(pod({"containers": [ask(1)]}), {"max": 0})) == 2

test_no_containers if count(violations(pod({}), {"max": 0})) == 0

test_negative if count(violations(pod({"containers": [ask(-1)]}), {})) == 1

test_claim_with_text if count(violations(claim("9"), {"max": 8})) == 1

test_claim_with_words if count(violations(claim("many"), {"max": 8})) == 1

test_claim_with_null if count(violations(claim(null), {"max": 8})) == 0

test_claim_with_fraction if count(violations(claim(0.5), {"max": 8})) == 1

worst := {"kind": "Pod", "spec": {"resourceClaims": [{"name": "c"}], "containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": 9}}}, {"name": "b", "resources": {"limits": {"nvidia.com/gpu": "x"}}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 4

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_claim_that_is_old if {
	o := {"kind": "ResourceClaim", "spec": {"devices": {"requests": [{"exactly": {"allocationMode": "All", "count": 9}}]}}}
	count(violations({"review": {"operation": "CREATE", "object": o}}, {})) == 2
	count(violations({"review": {"operation": "UPDATE", "object": o, "oldObject": o}}, {})) == 0
	count(violations({"review": {"operation": "DELETE", "object": o, "oldObject": o}}, {})) == 0
}

test_template_that_is_old if {
	o := {"kind": "ResourceClaimTemplate", "spec": {"spec": {"devices": {"requests": [{"exactly": {"count": 9}}]}}}}
	count(violations({"review": {"operation": "CREATE", "object": o}}, {})) == 1
	count(violations({"review": {"operation": "UPDATE", "object": o, "oldObject": o}}, {})) == 0
	count(violations({"review": {"operation": "DELETE", "object": o, "oldObject": o}}, {})) == 0
}

test_all_of_a_class_that_does_not_count if {
	o := {"kind": "ResourceClaim", "spec": {"devices": {"requests": [{"exactly": {"deviceClassName": "nic", "allocationMode": "All"}}]}}}
	count(violations({"review": {"object": o}}, {"deviceClasses": ["gpu*"]})) == 0
}
