package gpu_capabilities_test

import data.gpu_capabilities

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
add(c) := pod({"containers": [{"securityContext": {"capabilities": {"add": c}}}]})

violations(i, p) := vs if {
	vs := gpu_capabilities.violation with input as object.union(i, {"parameters": p})
}

test_none if count(violations(add([]), {})) == 0

test_spellings_are_one if count(violations(add(["CAP_SYS_ADMIN", "sys_admin", "Cap_Sys_Admin"]), {"allowed": ["SYS_ADMIN"]})) == 0

test_number if count(violations(add([21]), {"allowed": ["SYS_ADMIN"]})) == 1

test_all_is_not_in_a_list if count(violations(add(["ALL"]), {"allowed": ["SYS_ADMIN"]})) == 1

worst := {"kind": "Pod", "spec": {"containers": [{"securityContext": {"capabilities": {"add": ["KILL"]}}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {"requiredDrop": ["ALL"]})) == 2

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {"requiredDrop": ["ALL"]})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {"requiredDrop": ["ALL"]})) == 0

test_worst_without_gpu_is_out_of_scope if {
	count(violations({"review": {"operation": "CREATE", "object": worst}}, object.union({"requiredDrop": ["ALL"]}, {"scope": "gpu"}))) == 0
}

test_dropped_by_name if count(violations(pod({"containers": [{"securityContext": {"capabilities": {"drop": ["CAP_KILL"]}}}]}), {"requiredDrop": ["kill"]})) == 0

test_dropped_by_all if count(violations(pod({"containers": [{"securityContext": {"capabilities": {"drop": ["ALL"]}}}]}), {"requiredDrop": ["KILL"]})) == 0

test_another_dropped if count(violations(pod({"containers": [{"securityContext": {"capabilities": {"drop": ["CHOWN"]}}}]}), {"requiredDrop": ["KILL"]})) == 1
