package gpu_images_test

import data.gpu_images

pod(spec) := {"review": {"operation": "CREATE", "object": {"kind": "Pod", "metadata": {"name": "a", "namespace": "team-a"}, "spec": spec}}}

violations(i, p) := vs if {
	vs := gpu_images.violation with input as object.union(i, {"parameters": p})
}

test_repository if {
	gpu_images.repository("busybox") == "docker.io/library/busybox"
	gpu_images.repository("a/b:1") == "docker.io/a/b"
	gpu_images.repository("localhost:5000/a:1@sha256:00") == "localhost:5000/a"
	gpu_images.repository("Quay.IO/a/b@sha256:00") == "quay.io/a/b"
	gpu_images.repository("registry-1.docker.io/a/b") == "docker.io/a/b"
}

test_entry if {
	gpu_images.entry("nvcr.io") == "nvcr.io"
	gpu_images.entry("nvcr.io/") == "nvcr.io"
	gpu_images.entry("a/b/") == "docker.io/a/b"
	gpu_images.entry("busybox") == "docker.io/library/busybox"
	gpu_images.entry("localhost:5000") == "localhost:5000"
}

test_allowed if {
	gpu_images.allowed("nvcr.io/a") with input as {"parameters": {"allowed": ["nvcr.io"]}}
	gpu_images.allowed("nvcr.io/a:1") with input as {"parameters": {"allowed": ["nvcr.io/a"]}}
	not gpu_images.allowed("nvcr.io.evil/a") with input as {"parameters": {"allowed": ["nvcr.io"]}}
	not gpu_images.allowed("nvcr.io/ab") with input as {"parameters": {"allowed": ["nvcr.io/a"]}}
	not gpu_images.allowed("nvcr.io/a") with input as {"parameters": {"allowed": ["nvcr.io/a/b"]}}
}

test_empty_entry_allows_nothing if count(violations(pod({"resourceClaims": [{}], "containers": [{"image": "evil.example/x"}]}), {"allowed": ["", "/"]})) == 1

worst := {"kind": "Pod", "spec": {"resourceClaims": [{}], "containers": [{"image": "a"}], "volumes": [{"name": "v", "image": {"reference": "b"}}, {"name": "w", "emptyDir": {}}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 2

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0
