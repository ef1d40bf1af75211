package gpu_host_paths_test

import data.gpu_host_paths

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}

violations(i, p) := vs if {
	vs := gpu_host_paths.violation with input as object.union(i, {"parameters": p})
}

test_meet if {
	gpu_host_paths.meet(["dev", "x"], ["dev"])
	gpu_host_paths.meet(["var"], ["var", "lib", "kubelet"])
	gpu_host_paths.meet([], ["dev"])
	gpu_host_paths.meet(["run", "nvidia-x", "y"], ["run", "nvidia*"])
	not gpu_host_paths.meet(["device"], ["dev"])
	not gpu_host_paths.meet(["var", "lib", "x"], ["var", "lib", "kubelet"])
}

test_var_run_is_run if gpu_host_paths.on_disk(["var", "run", "x"]) == ["run", "x"]

test_empty_path if count(violations(pod({"volumes": [{"hostPath": {"path": ""}}]}), {})) == 1

test_path_is_a_list if count(violations(pod({"volumes": [{"hostPath": {"path": ["/dev"]}}]}), {})) == 1

test_host_path_is_text if count(violations(pod({"volumes": [{"hostPath": "/dev"}]}), {})) == 1

worst := {"kind": "Pod", "spec": {"volumes": [{"name": "a", "hostPath": {"path": "/dev"}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 1

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_worst_without_gpu_is_out_of_scope if {
	count(violations({"review": {"operation": "CREATE", "object": worst}}, object.union({}, {"scope": "gpu"}))) == 0
}
