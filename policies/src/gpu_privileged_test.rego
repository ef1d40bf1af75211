package gpu_privileged_test

import data.gpu_privileged

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}

violations(i, p) := vs if {
	vs := gpu_privileged.violation with input as object.union(i, {"parameters": p})
}

test_privileged if count(violations(pod({"containers": [{"securityContext": {"privileged": true}}]}), {})) == 1

test_plain if count(violations(pod({"containers": [{"securityContext": {}}, {}, {"securityContext": null}]}), {})) == 0

test_message_says_what_to_do if {
	some v in violations(pod({"containers": [{"name": "c", "securityContext": {"privileged": true}}]}), {})
	v.msg == `Pod team-a/a, container "c": securityContext.privileged is true: a privileged container reaches every card of its node; remove it and ask for GPUs in resources.limits`
}

test_containers_that_are_no_objects if count(violations(pod({"containers": ["x", 5, null]}), {})) == 0

test_no_object if count(violations({"review": {}}, {})) == 0

worst := {"kind": "Pod", "spec": {"securityContext": {"windowsOptions": {"hostProcess": true}}, "containers": [{"securityContext": {"privileged": true, "procMount": "Unmasked", "windowsOptions": {"hostProcess": true}}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 4

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_worst_without_gpu_is_out_of_scope if {
	count(violations({"review": {"operation": "CREATE", "object": worst}}, object.union({}, {"scope": "gpu"}))) == 0
}
