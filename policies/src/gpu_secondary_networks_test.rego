package gpu_secondary_networks_test

import data.gpu_secondary_networks

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}

violations(i, p) := vs if {
	vs := gpu_secondary_networks.violation with input as object.union(i, {"parameters": p})
}

test_namespace_is_a_number if count(violations({"review": {"object": {"kind": "Pod", "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": `[{"name": "a", "namespace": 5}]`}}, "spec": {}}}}, {})) == 1

test_full if {
	gpu_secondary_networks.full("a/b") == "a/b"
	gpu_secondary_networks.full("b") == "team-a/b" with input as pod({})
	gpu_secondary_networks.full("") == ""
}

test_no_metadata if count(violations({"review": {"object": {"kind": "Pod", "spec": {}}}}, {})) == 0

test_list_of_names if count(violations({"review": {"object": {"kind": "Pod", "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": `["rdma"]`}}, "spec": {}}}}, {})) > 0

worst := {"kind": "Pod", "metadata": {"namespace": "n", "annotations": {"k8s.v1.cni.cncf.io/networks": "a", "v1.multus-cni.io/default-network": "{}"}}, "spec": {"containers": [{}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 3

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_changed_spec_is_judged if {
	was := {"kind": "Pod", "metadata": {"annotations": {"k8s.v1.cni.cncf.io/networks": "a"}}, "spec": {"containers": [{}]}}
	is := object.union(was, {"spec": {"ephemeralContainers": [{}]}})
	count(violations({"review": {"operation": "UPDATE", "object": is, "oldObject": was}}, {})) == 1
}

test_policies_of_another_group if {
	i := {"review": {"object": {"kind": "Pod", "metadata": {"namespace": "n", "annotations": {"k8s.v1.cni.cncf.io/networks": "a"}}, "spec": {}}}}
	p := {"metadata": {"annotations": {"k8s.v1.cni.cncf.io/policy-for": "a"}}, "spec": {"podSelector": {}}}
	count(gpu_secondary_networks.violation) == 1 with input as i with data.inventory.namespace as {"n": {"example.com/v1": {"MultiNetworkPolicy": {"p": p}}}}
	count(gpu_secondary_networks.violation) == 0 with input as i with data.inventory.namespace as {"n": {"k8s.cni.cncf.io/v1beta1": {"MultiNetworkPolicy": {"p": p}}}}
}
