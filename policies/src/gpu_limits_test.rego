package gpu_limits_test

import data.gpu_limits

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}

violations(i, p) := vs if {
	vs := gpu_limits.violation with input as object.union(i, {"parameters": p})
}

test_gpu_null if count(violations(pod({"containers": [{"resources": {"limits": {"nvidia.com/gpu": null}}}]}), {})) == 0

test_resources_null if count(violations(pod({"containers": [{"resources": null}]}), {})) == 0

test_limits_null if count(violations(pod({"resourceClaims": [{}], "containers": [{"resources": {"limits": null}}]}), {})) == 2

test_bytes_and_numbers if gpu_limits.same("1Gi", 1073741824)

worst := {"kind": "Pod", "spec": {"resources": {"limits": {"nvidia.com/gpu": 1}}, "containers": [{"resources": {"limits": {"nvidia.com/gpu": "x"}, "requests": {"nvidia.com/gpu": 2}}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 5

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_request_null if count(violations(pod({"containers": [{"resources": {"limits": {"cpu": 1, "memory": 1, "nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": null}}}]}), {})) == 0
