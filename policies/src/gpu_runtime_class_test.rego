package gpu_runtime_class_test

import data.gpu_runtime_class

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
gpu_pod(more) := pod(object.union({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, more))

violations(i, p) := vs if {
	vs := gpu_runtime_class.violation with input as object.union(i, {"parameters": p})
}

test_allowed_list_empty if count(violations(gpu_pod({}), {"allowed": []})) == 1

test_no_parameters if count(violations(gpu_pod({}), {})) == 0

worst := {"kind": "Pod", "spec": {"runtimeClassName": "nvidia", "containers": [{}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 1

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0
