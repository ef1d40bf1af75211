package gpu_host_namespaces_test

import data.gpu_host_namespaces

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}

violations(i, p) := vs if {
	vs := gpu_host_namespaces.violation with input as object.union(i, {"parameters": p})
}

test_each if count(violations(pod({"hostPID": true, "hostIPC": true, "hostNetwork": true}), {})) == 3

test_allowed if count(violations(pod({"hostPID": true}), {"allowed": ["hostPID"]})) == 0

test_ports_without_host_port if count(violations(pod({"containers": [{"ports": [{"containerPort": 1}]}]}), {})) == 0

test_null if count(violations(pod({"hostPID": null}), {})) == 0

worst := {"kind": "Pod", "spec": {"hostPID": true, "containers": [{"ports": [{"hostPort": 1}]}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 2

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_worst_without_gpu_is_out_of_scope if {
	count(violations({"review": {"operation": "CREATE", "object": worst}}, object.union({}, {"scope": "gpu"}))) == 0
}
