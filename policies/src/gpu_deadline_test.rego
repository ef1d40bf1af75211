package gpu_deadline_test

import data.gpu_deadline

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
gpu_pod(more) := pod(object.union({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, more))

violations(i, p) := vs if {
	vs := gpu_deadline.violation with input as object.union(i, {"parameters": p})
}

test_list if count(violations(gpu_pod({"activeDeadlineSeconds": [1]}), {})) == 1

test_standard if count(violations(gpu_pod({"activeDeadlineSeconds": 604800}), {})) == 0

worst := {"kind": "Pod", "spec": {"resourceClaims": [{}], "activeDeadlineSeconds": 0}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 1

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_owner_that_does_not_control if {
	i := {"review": {"userInfo": {"username": "system:serviceaccount:kube-system:x"}, "object": {
		"kind": "Pod", "metadata": {"ownerReferences": [{"controller": false}]},
		"spec": {"resourceClaims": [{}]},
	}}}
	count(violations(i, {})) == 1
}

test_job_of_a_controller if {
	i := {"review": {"userInfo": {"username": "system:serviceaccount:kube-system:x"}, "object": {
		"kind": "Job", "metadata": {"ownerReferences": [{"controller": true}]},
		"spec": {"template": {"spec": {"resourceClaims": [{}]}}},
	}}}
	count(violations(i, {})) == 1
}
