#!/bin/bash
# Installs ringfence from its own image and manifests, and looks at what came to be.
source "$(dirname "$0")/lib.sh"

check "the image goes into both nodes" bed import "$RINGFENCE_IMAGE"
for n in 1 2; do
	check "node $n has an image named host, as the examples do" \
		bed node $n /opt/kubernetes/ctr -n k8s.io images tag --force localhost/runtime:e2e docker.io/library/host:latest
done
check "the manifests are accepted" kubectl apply -k "$root/test/kubernetes/deploy"
check "control is rolled out" kubectl -n ringfence-system rollout status deployment/ringfence-control --timeout=90s
check "the agents are rolled out" kubectl -n ringfence-system rollout status daemonset/ringfence-node --timeout=90s
for kind in mutating validating; do
	check "the $kind webhook knows control's certificate authority" eventually 20 bash -c \
		"kubectl get ${kind}webhookconfiguration ringfence -o jsonpath='{.webhooks[0].clientConfig.caBundle}' | base64 -d | grep -q 'BEGIN CERTIFICATE'"
done
manifests=$root/test/kubernetes/deploy
generations() { kubectl get -k "$manifests" -o jsonpath='{range .items[*]}{.kind} {.metadata.name} {.metadata.generation}{"\n"}{end}'; }
before=$(generations)
check "they can be applied again" kubectl apply -k "$manifests"
check "and nothing changes" diff <(echo "$before") <(generations)

check "two controls run" is "$(system get deployment ringfence-control -o jsonpath='{.status.readyReplicas}')" 2
holder() { system get lease ringfence-control -o jsonpath='{.spec.holderIdentity}'; }
check "one of them leads" test -n "$(holder)"
check "control is not root" is "$(system get deployment ringfence-control -o jsonpath='{.spec.template.spec.securityContext.runAsNonRoot}')" true
for who in deployment/ringfence-control daemonset/ringfence-node; do
	check "$who has a read-only root" is "$(system get $who -o jsonpath='{.spec.template.spec.containers[0].securityContext.readOnlyRootFilesystem}')" true
done
for n in 1 2; do
	for name in nvidia.com/gpu gpu.example.com/device; do
		has_two() { is "$(json "{.status.allocatable.${name//./\\.}}" node gpu-node-$n)" 2; }
		check "node $n offers two cards as $name" eventually 20 has_two
	done
	check "node $n publishes two devices" is "$(json "{.spec.devices[*].name}" resourceslice gpu-node-$n-ringfence)" "gpu-0 gpu-1"
done
rest() { json '{range .items[*]}{.metadata.resourceVersion} {end}' resourceslices; }
before=$(rest)
sleep 4
check "and then leaves the slices alone" is "$(rest)" "$before"
says "the cards are listed" "NVIDIA H200" "$RINGFENCE" gpus
says "a Tenant explains itself" "isolation" kubectl explain tenant.spec
check "no component complains of its rights" bash -c \
	"! kubectl -n ringfence-system logs -l 'app.kubernetes.io/name in (ringfence-control,ringfence-node)' --tail=-1 | grep -i forbidden"
echo "1..$tap"
exit $((bad > 0))
