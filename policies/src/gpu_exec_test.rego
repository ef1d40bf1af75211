package gpu_exec_test

import data.gpu_exec

exec(user) := {"review": {
	"operation": "CONNECT", "name": "p", "namespace": "n", "userInfo": user,
	"object": {"kind": "PodExecOptions"},
}}

pods(spec) := {"n": {"v1": {"Pod": {"p": {"kind": "Pod", "spec": spec}}}}}

violations(i, p) := vs if {
	vs := gpu_exec.violation with input as object.union(i, {"parameters": p})
}

test_unknown if count(violations(exec({"username": "a"}), {})) == 1

test_pod_without_spec if count(gpu_exec.violation) == 1 with input as exec({"username": "a"}) with data.inventory.namespace as {"n": {"v1": {"Pod": {"p": {}}}}}

test_groups_as_text if count(violations(exec({"username": "a", "groups": "sre"}), {"allowedGroups": ["sre"]})) == 1

test_groups_as_object_are_read if count(violations(exec({"username": "a", "groups": {"x": "sre"}}), {"allowedGroups": ["sre"]})) == 0

test_no_user_info if count(violations({"review": {"operation": "CONNECT", "object": {"kind": "PodExecOptions"}}}, {"allowedUsers": [""]})) == 1

test_without_gpu if count(gpu_exec.violation) == 0 with input as exec({"username": "a"}) with data.inventory.namespace as pods({"containers": [{}]})

test_with_gpu if count(gpu_exec.violation) == 1 with input as exec({"username": "a"}) with data.inventory.namespace as pods({"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1"}}}]})
