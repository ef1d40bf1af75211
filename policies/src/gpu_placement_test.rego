package gpu_placement_test

import data.gpu_placement

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}
gpu_pod(more) := pod(object.union({"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}, more))

violations(i, p) := vs if {
	vs := gpu_placement.violation with input as object.union(i, {"parameters": p})
}

test_tolerations_null if count(violations(pod({"tolerations": null}), {})) == 0

test_toleration_that_is_nothing if count(violations(pod({"tolerations": [{}]}), {})) == 1

test_key_is_a_number if count(violations(pod({"tolerations": [{"key": 5}]}), {})) == 1

worst := {"kind": "Pod", "spec": {"resourceClaims": [{}], "tolerations": [{"operator": "Exists"}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {"tolerations": [{"key": "gpu"}], "nodeSelector": {"pool": "gpu"}})) == 3

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {"tolerations": [{"key": "gpu"}], "nodeSelector": {"pool": "gpu"}})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {"tolerations": [{"key": "gpu"}], "nodeSelector": {"pool": "gpu"}})) == 0

test_exists_of_another_key if count(violations(gpu_pod({"tolerations": [{"key": "x", "operator": "Exists"}]}), {"tolerations": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]})) == 1

test_exists_of_another_effect if count(violations(gpu_pod({"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute"}]}), {"tolerations": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]})) == 1

test_unknown_operator if count(violations(gpu_pod({"tolerations": [{"key": "gpu", "operator": "Gt", "value": "true"}]}), {"tolerations": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}]})) == 1

test_wildcard_is_no_toleration_of_gpus if count(violations(gpu_pod({"tolerations": [{"operator": "Exists"}]}), {"allowWildcard": true, "tolerations": [{"key": ""}]})) == 1

test_node_name_without_gpu if count(violations(pod({"nodeName": "a"}), {})) == 0

test_node_name_empty if count(violations(gpu_pod({"nodeName": ""}), {})) == 0

test_node_name if count(violations(gpu_pod({"nodeName": "a"}), {})) == 1
