package gpu_share_size_test

import data.gpu_share_size

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
ask(v) := pod({"containers": [{"resources": {"limits": {"ringfence.io/gpu-memory": v}}}]})

violations(i, p) := vs if {
	vs := gpu_share_size.violation with input as object.union(i, {"parameters": p})
}

test_any_without_parameters if count(violations(ask("1"), {})) == 0

test_exponent if count(violations(ask("1e9"), {})) == 1

test_list if count(violations(ask(["1Gi"]), {})) == 1

test_several_steps if count(violations(ask("2Gi"), {"allowedMemory": ["1Gi", "2Gi"]})) == 0

worst := {"kind": "Pod", "spec": {"containers": [{"resources": {"limits": {"nvidia.com/mig-x": 1, "ringfence.io/gpu-memory": "x", "ringfence.io/gpu-compute": 101}}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 3

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_empty_list_of_sizes if count(violations(ask("2Gi"), {"allowedMemory": []})) == 0
