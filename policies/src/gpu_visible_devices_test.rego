package gpu_visible_devices_test

import data.gpu_visible_devices

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
env(e) := pod({"containers": [{"env": e}]})

violations(i, p) := vs if {
	vs := gpu_visible_devices.violation with input as object.union(i, {"parameters": p})
}

test_name_is_a_number if count(violations(env([{"name": 5}]), {})) == 0

test_env_as_object if count(violations(env({"x": {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}}), {})) == 1

test_twice if count(violations(env([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), {})) == 1

test_value_and_source if count(violations(env([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void", "valueFrom": {"fieldRef": {}}}]), {})) == 1

test_empty_denied_list if count(violations(env([{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]), {"denied": []})) == 0

test_env_from_prefix_null if count(violations(pod({"containers": [{"envFrom": [{"prefix": null}]}]}), {})) == 1

test_env_from_prefix_number if count(violations(pod({"containers": [{"envFrom": [{"prefix": 5}]}]}), {})) == 1

test_env_from_without_list if count(violations(pod({"containers": [{"envFrom": [{}]}]}), {"denied": []})) == 0

worst := {"kind": "Pod", "metadata": {"annotations": {"cdi.k8s.io/a": "b", "other": "c"}}, "spec": {"containers": [{"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}], "envFrom": [{}], "volumeMounts": [{"mountPath": "/run/nvidia-container-devices"}, {"mountPath": "/a/../b"}]}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 5

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_worst_without_gpu_is_out_of_scope if {
	count(violations({"review": {"operation": "CREATE", "object": worst}}, object.union({}, {"scope": "gpu"}))) == 0
}
