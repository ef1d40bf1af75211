package gpu_ringfence_metadata_test

import data.gpu_ringfence_metadata

create(o) := {"review": {"operation": "CREATE", "userInfo": {"username": "a"}, "object": object.union({"kind": "Namespace"}, o)}}

violations(i, p) := vs if {
	vs := gpu_ringfence_metadata.violation with input as object.union(i, {"parameters": p})
}

test_ours if {
	gpu_ringfence_metadata.ours("ringfence.io/x")
	gpu_ringfence_metadata.ours("a.ringfence.io/x")
	gpu_ringfence_metadata.ours("RINGFENCE.io/x")
	not gpu_ringfence_metadata.ours("xringfence.io/x")
	not gpu_ringfence_metadata.ours("ringfence.io.example/x")
	not gpu_ringfence_metadata.ours("ringfence.io/burst")
}

test_no_metadata if count(violations(create({}), {})) == 0

test_null_labels if count(violations(create({"metadata": {"labels": null}}), {})) == 0

test_old_object_of_create_does_not_excuse if count(violations(object.union(create({"metadata": {"labels": {"ringfence.io/x": "y"}}}), {"review": {"oldObject": {"metadata": {"labels": {"ringfence.io/x": "y"}}}}}), {})) == 1
