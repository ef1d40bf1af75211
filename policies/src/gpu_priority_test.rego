package gpu_priority_test

import data.gpu_priority

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
gpu_pod(more) := pod(object.union({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, more))

violations(i, p) := vs if {
	vs := gpu_priority.violation with input as object.union(i, {"parameters": p})
}

test_number_without_parameter if count(violations(gpu_pod({"priority": 2000000000}), {})) == 0

test_class_is_a_number if count(violations(gpu_pod({"priorityClassName": 5}), {"allowed": ["*"]})) == 1

test_system_written_out if count(violations(gpu_pod({"priorityClassName": "system-x"}), {"allowed": ["system-x"]})) == 0

worst := {"kind": "Pod", "spec": {"resourceClaims": [{}], "priorityClassName": "a", "priority": 5, "preemptionPolicy": "PreemptLowerPriority"}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {"maxPriority": 1, "neverPreempt": true})) == 3

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {"maxPriority": 1, "neverPreempt": true})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {"maxPriority": 1, "neverPreempt": true})) == 0

test_preempting_is_allowed_otherwise if count(violations(gpu_pod({"priorityClassName": "a", "preemptionPolicy": "PreemptLowerPriority"}), {"allowed": ["a"]})) == 0

test_preempting_without_class if count(violations(gpu_pod({"preemptionPolicy": "PreemptLowerPriority"}), {"neverPreempt": true})) == 0
