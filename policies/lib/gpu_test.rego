package lib.gpu_test

import data.lib.gpu

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a"}, "spec": spec}}}

change(old, new) := {"review": {
	"operation": "UPDATE",
	"object": {"kind": "Pod", "spec": new},
	"oldObject": {"kind": "Pod", "spec": old},
}}

test_parameters_may_be_missing if gpu.parameter("x", 7) == 7 with input as {}

test_parameters_may_be_null if gpu.parameter("x", 7) == 7 with input as {"parameters": null}

test_parameter_null_is_left_out if gpu.parameter("x", 7) == 7 with input as {"parameters": {"x": null}}

test_parameter_false_is_given if gpu.parameter("x", true) == false with input as {"parameters": {"x": false}}

test_pod if gpu.spec == {"a": 1} with input as pod({"a": 1})

test_deployment if gpu.spec == {"a": 1} with input as {"review": {"object": {"kind": "Deployment", "spec": {"template": {"spec": {"a": 1}}}}}}

test_cronjob if {
	gpu.spec == {"a": 1} with input as {"review": {"object": {
		"kind": "CronJob",
		"spec": {"jobTemplate": {"spec": {"template": {"spec": {"a": 1}}}}},
	}}}
}

test_pod_template if gpu.spec == {"a": 1} with input as {"review": {"object": {"kind": "PodTemplate", "template": {"spec": {"a": 1}}}}}

test_other_kinds_with_a_template if {
	gpu.spec == {"a": 1} with input as {"review": {"object": {"kind": "Rollout", "spec": {"template": {"spec": {"a": 1}}}}}}
}

test_no_pod if not gpu.judged with input as {"review": {"object": {"kind": "Service", "spec": {"ports": []}}}}

test_pod_without_spec if not gpu.judged with input as {"review": {"object": {"kind": "Pod"}}}

test_judged_without_operation if gpu.judged with input as {"review": {"object": {"kind": "Pod", "spec": {}}}}

test_delete_is_not_judged if not gpu.judged with input as object.union(pod({}), {"review": {"operation": "DELETE"}})

test_unchanged_is_not_judged if not gpu.judged with input as change({"a": 1}, {"a": 1})

test_changed_is_judged if gpu.judged with input as change({"a": 1}, {"a": 2})

# An oldObject counts on UPDATE only, and null is none.
test_old_object_of_create if gpu.judged with input as object.union(change({"a": 1}, {"a": 1}), {"review": {"operation": "CREATE"}})

test_old_object_null if gpu.judged with input as {"review": {"operation": "UPDATE", "object": {"kind": "Pod", "spec": {}}, "oldObject": null}}

test_containers_of_all_kinds if {
	xs := gpu.containers with input as pod({
		"containers": [{"name": "a"}],
		"initContainers": [{"name": "b"}],
		"ephemeralContainers": [{"name": "c"}],
	})
	[gpu.where(x) | some x in xs] == [`container "a"`, `init container "b"`, `ephemeral container "c"`]
}

test_containers_null if gpu.containers == [] with input as pod({"containers": null})

test_containers_as_object if count(gpu.containers) == 1 with input as pod({"containers": {"x": {"name": "a"}}})

limits(l) := pod({"containers": [{"resources": {"limits": l}}]})

test_wants_nvidia if gpu.wanted with input as limits({"nvidia.com/gpu": 1})

test_wants_share if gpu.wanted with input as limits({"ringfence.io/gpu-memory": "20Gi"})

test_wants_mig if gpu.wanted with input as limits({"nvidia.com/mig-1g.10gb": "1"})

test_wants_upper_case if gpu.wanted with input as limits({"NVIDIA.com/GPU": "1"})

test_wants_odd_number if gpu.wanted with input as limits({"nvidia.com/gpu": "0.5"})

test_wants_claim if gpu.wanted with input as pod({"resourceClaims": [{"name": "x"}]})

test_wants_none if not gpu.wanted with input as limits({"cpu": 1, "nvidia.com/gpu": "0", "ringfence.io/gpu": 0, "amd.com/gpu": null})

test_wants_similar_name if not gpu.wanted with input as limits({"nvidia.com/gpus": 1, "xnvidia.com/gpu": 1})

test_wants_no_claims if not gpu.wanted with input as pod({"resourceClaims": []})

test_covers_gpu_only if not gpu.covers("gpu") with input as limits({"cpu": 1})

test_covers_unknown_word_means_all if gpu.covers("gpu") with input as object.union(limits({}), {"parameters": {"scope": "gpus"}})

test_like if {
	gpu.like("a/b", ["a/*"])
	gpu.like("a", ["a"])
	gpu.like("a", ["*"])
	not gpu.like("ab", ["a"])
	not gpu.like("a", ["a*b"])
	not gpu.like(1, ["*"])
}

test_on if {
	gpu.on(true)
	gpu.on(input) with input as "false"
	gpu.on(input) with input as 0
	not gpu.on(false)
	not gpu.on(null)
}

test_whole if {
	gpu.whole(3) == 3
	gpu.whole("3") == 3
	not gpu.whole("-3")
	not gpu.whole(0.5)
	not gpu.whole("3 ")
	not gpu.whole("9999999999999999")
	not gpu.whole([])
}

test_bytes if {
	gpu.bytes("20Gi") == 21474836480
	gpu.bytes("1.5k") == 1500
	gpu.bytes(5) == 5
	gpu.bytes("0") == 0
	not gpu.bytes("5m")
	not gpu.bytes("5gi")
	not gpu.bytes("1e9")
	not gpu.bytes("Gi")
	not gpu.bytes("")
	not gpu.bytes("-1")
}

test_show_is_cut if count(gpu.show(concat("", [c | some _ in numbers.range(1, 1000); c := "x"]))) == 160

test_steps if gpu.steps("//a/./b/") == ["a", "b"]

test_climbs if {
	gpu.climbs("/a/../b")
	not gpu.climbs("/a/..b")
}

test_subject if gpu.subject == "Pod a" with input as pod({})

test_subject_generated if {
	gpu.subject == "Pod ns/a-*" with input as {"review": {
		"namespace": "ns",
		"object": {"kind": "Pod", "metadata": {"generateName": "a-"}},
	}}
}

test_subject_without_anything if gpu.subject == "object (no name)" with input as {"review": {"object": {}}}

test_nobody_is_nobody if not gpu.one_of([""], []) with input as {"review": {"userInfo": {"username": ""}}}

test_groups_as_text if not gpu.one_of([], ["sre"]) with input as {"review": {"userInfo": {"username": "a", "groups": "sre"}}}

test_group if gpu.one_of([], ["sre"]) with input as {"review": {"userInfo": {"groups": ["x", "sre"]}}}
