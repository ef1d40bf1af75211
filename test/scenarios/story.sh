#!/bin/bash
# The story of examples/: real kubectl, real containers, simulated cards. It runs on one machine and, by
# test/kubernetes/e2e, on a real Kubernetes.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 2xH200

check "tenants are accepted" kubectl apply -f tenants.yaml
for t in team-a team-b bank lab; do
	check "tenant $t becomes ready" kubectl wait --for=condition=Ready --timeout=20s "tenant/$t"
done
check "a tenant has its namespace" kubectl get namespace team-a
says "the namespace enforces pod security" restricted \
	kubectl get namespace team-a -o jsonpath='{.metadata.labels}'
check "a tenant has a quota" kubectl -n bank get resourcequota ringfence
check "a tenant has a queue" kubectl get queue bank
says "a tenant's owner may create pods in its namespace" yes \
	kubectl -n team-a auth can-i create pods --as=system:serviceaccount:team-a:ringfence-owner
says "and not in another tenant's" no \
	kubectl -n team-b auth can-i create pods --as=system:serviceaccount:team-a:ringfence-owner
says "the cards are listed" "NVIDIA H200" "$RINGFENCE" gpus
says "as JSON too" '"card": "gpu-1"' "$RINGFENCE" gpus -o json

misspelt='The Tenant "typo" is invalid: tenant typo: spec.isolaton: there is no such field'
on_kubernetes && misspelt='unknown field "spec.isolaton"'
refuses "a misspelt field of a Tenant is named" "$misspelt" \
	kubectl apply -f <(sed -n '/^apiVersion/,/^---/p' tenants.yaml | sed '/^---/,$d; s/name: team-a/name: typo/; s/isolation:/isolaton:/')
refuses "a privileged pod is refused, by name and reason" 'privileged (container "main" must not set securityContext.privileged=true)' \
	kubectl apply -f privileged.yaml

# quota: one card for bank
check "a pod with a whole card is accepted" kubectl apply -f train.yaml
check "it runs" eventually 20 phase_is bank train Running
refuses "a second one past the quota is refused, with what is used and what to do" "quota" kubectl apply -f over-quota.yaml
says "the card is bank's alone" '"cards":"gpu-' card_of bank train
check "it ends well" eventually 30 phase_is bank train Succeeded
says "its log can be read" "allocated 102400 MiB" kubectl -n bank logs train
check "then the second one is accepted" kubectl apply -f over-quota.yaml
check "and ends well" eventually 30 phase_is bank train-2 Succeeded

# sharing inside one trust domain
check "two teams of one trust domain ask for shares" kubectl apply -f sharing.yaml
check "the steady one runs" eventually 20 phase_is team-b steady Running
check "the greedy one ends" eventually 30 pod_ended team-a greedy
says "it got an out-of-memory error at its cap" CUDA_ERROR_OUT_OF_MEMORY kubectl -n team-a logs greedy
says "and saw its share as the whole card" "memory total: 20480 MiB" kubectl -n team-a logs greedy
check "its neighbour goes on" phase_is team-b steady Running
placed_on() { kubectl -n "$1" get events -o jsonpath="{.items[?(@.involvedObject.name=='$2')].message}" | grep -o 'gpu-[0-9]*'; }
check "both were on one card" test -n "$(placed_on team-a greedy)" -a "$(placed_on team-a greedy)" = "$(placed_on team-b steady)"
check "the neighbour ends well" eventually 30 phase_is team-b steady Succeeded

# a gang starts as a whole
check "a gang of two asks" kubectl apply -f gang.yaml
check "the first of it ends well" eventually 30 phase_is team-a worker-0 Succeeded
check "the second, too" eventually 30 phase_is team-a worker-1 Succeeded
check "the gang has started" eventually 10 bash -c "[[ \$(kubectl -n team-a get podgroup ring -o jsonpath='{.status.started}') == true ]]"

# strangers never meet
check "two strangers ask at once" kubectl apply -f strangers.yaml
check "both run" eventually 20 phase_is bank ledger Running
check "both run" eventually 20 phase_is lab genome Running
check "each on a card of its own" test "$(card_of bank ledger)" != "$(card_of lab genome)"
check "the first ends well" eventually 30 phase_is bank ledger Succeeded
check "the other too" eventually 30 phase_is lab genome Succeeded

# a tenant with its own kubeconfig sees its own
"$RINGFENCE" tenant kubeconfig team-a >"$work/team-a.kubeconfig"
check "a tenant's kubeconfig lists its pods" kubectl --kubeconfig "$work/team-a.kubeconfig" get pods
refuses "and nobody else's" "forbidden" kubectl --kubeconfig "$work/team-a.kubeconfig" -n bank get pods
refuses "nor may it raise its quota" "forbidden" kubectl --kubeconfig "$work/team-a.kubeconfig" \
	patch resourcequota ringfence --type=merge -p '{"spec":{"hard":{"pods":"1000"}}}'
image=() # on one machine: its own files
on_kubernetes && image=(--image localhost/runtime:e2e)
says "ringfence run shows a program's output" "uid=65534" \
	"$RINGFENCE" run --kubeconfig "$work/team-a.kubeconfig" -n team-a --rm "${image[@]}" -- id

says "in a share, what is free is the share less a context" "memory free: 1524 MiB" \
	"$RINGFENCE" run --kubeconfig "$work/team-a.kubeconfig" -n team-a --rm "${image[@]}" --memory 2Gi --compute 25 --burst -- /ringfence/bin/gpu-demo --info
refuses "a burst that is neither true nor false is refused" 'annotation ringfence.io/burst: "maybe" is not valid' \
	kubectl apply -f <(sed -n '/name: greedy/,$p' sharing.yaml | sed 's/greedy/vague/; 1i apiVersion: v1\nkind: Pod\nmetadata:\n  annotations: {ringfence.io/burst: maybe}')

check "cards are free again at the end" eventually 20 bash -c "! $RINGFENCE gpus -o json | grep -q '\"tenants\": \"[a-z]'"
check "a tenant can be deleted" kubectl delete tenant lab --timeout=30s
check "and its namespace goes with it" eventually 20 bash -c '! kubectl get namespace lab'

done_testing
