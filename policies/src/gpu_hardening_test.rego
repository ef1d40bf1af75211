package gpu_hardening_test

import data.gpu_hardening

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
gpu_pod(more) := pod(object.union({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, more))

violations(i, p) := vs if {
	vs := gpu_hardening.violation with input as object.union(i, {"parameters": p})
}

test_nothing_required if count(violations(gpu_pod({}), {"require": []})) == 0

test_each if count(violations(gpu_pod({}), {"require": ["runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "seccompProfile"]})) == 4

test_null_falls_back_to_pod if count(violations(pod({"resourceClaims": [{}], "securityContext": {"runAsNonRoot": true}, "containers": [{"securityContext": {"runAsNonRoot": null}}]}), {"require": ["runAsNonRoot"]})) == 0

worst := {"kind": "Pod", "spec": {"resourceClaims": [{}], "containers": [{"securityContext": {"runAsUser": 0}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {"require": ["runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "seccompProfile"]})) == 5

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {"require": ["runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "seccompProfile"]})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {"require": ["runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "seccompProfile"]})) == 0
