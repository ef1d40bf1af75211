package gpu_shared_memory_test

import data.gpu_shared_memory

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
gpu_pod(more) := pod(object.union({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, more))

violations(i, p) := vs if {
	vs := gpu_shared_memory.violation with input as object.union(i, {"parameters": p})
}

test_medium_is_a_number if count(violations(gpu_pod({"volumes": [{"name": "v", "emptyDir": {"medium": 5}}]}), {})) == 0

test_volume_without_name if count(violations(gpu_pod({"volumes": [{"name": "v", "emptyDir": {"medium": "Memory"}}]}), {})) == 1

test_mount_without_name if count(violations(pod({"resourceClaims": [{}], "containers": [{"volumeMounts": [{"mountPath": "/dev/shm"}]}]}), {})) == 1

worst := {"kind": "Pod", "spec": {"volumes": [{"name": "m", "emptyDir": {"medium": "Memory"}}, {"name": "d", "emptyDir": {}}], "containers": [{"name": "a", "volumeMounts": [{"name": "d", "mountPath": "/dev/shm"}]}, {"name": "b", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {"required": true})) == 3

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {"required": true})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {"required": true})) == 0
