#!/bin/bash
# Whole cards by moving: what `ringfence defragment` plans, and what it does with --apply. Machines that are there in
# name only are enough: pods are placed on them, and nobody starts them.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 1xH200

machine() { # NAME POOL CARDS
	local cards=
	for ((i = 0; i < $3; i++)); do
		cards+="{name: gpu-$i, attributes: {productName: {string: NVIDIA H200}, healthy: {bool: true}},
			capacity: {memory: {value: 141Gi}, compute: {value: \"1000\"}}},"
	done
	kubectl create -f - <<-YAML
		apiVersion: v1
		kind: Node
		metadata: {name: $1, labels: {ringfence.io/pool: $2}}
	YAML
	kubectl patch node "$1" --subresource=status --type=merge -p '{"status":{"allocatable":{"cpu":"8","memory":"64Gi","pods":"50"},
		"capacity":{"cpu":"8","memory":"64Gi","pods":"50"},"conditions":[{"type":"Ready","status":"True"}]}}'
	kubectl create -f - <<-YAML
		apiVersion: resource.k8s.io/v1
		kind: ResourceSlice
		metadata: {name: $1-ringfence}
		spec:
		  driver: ringfence.io
		  nodeName: $1
		  pool: {name: $1, generation: 1, resourceSliceCount: 1}
		  devices: [${cards//$'\n'/}]
	YAML
}
pool() { # NAME PLACEMENT
	kubectl create -f - <<-YAML
		apiVersion: ringfence.io/v1alpha1
		kind: GPUPool
		metadata: {name: $1}
		spec: {placement: $2}
	YAML
}
pod() { # NAME [OWNER [POOL]]
	local owner= where=
	[[ -n ${3:-} ]] && where="nodeSelector: {ringfence.io/pool: $3}"
	[[ -n ${2:-} ]] && owner="ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: $2, uid: 1-2-3, controller: true}]"
	kubectl apply -f - <<-YAML
		apiVersion: v1
		kind: Pod
		metadata:
		  name: $1
		  namespace: red
		  labels: {app: $1}
		  $owner
		spec:
		  restartPolicy: Never
		  $where
		  containers:
		  - name: main
		    image: host
		    command: [sleep, "60"]
		    securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}, capabilities: {drop: [ALL]}}
		    resources: {limits: {ringfence.io/gpu-memory: 8Gi, ringfence.io/gpu-compute: "10"}}
	YAML
}
node_of() { kubectl -n red get pod "$1" -o jsonpath='{.spec.nodeName}'; }
card_of() {
	kubectl -n red get resourceclaims -o jsonpath="{.items[?(@.status.reservedFor[0].name=='$1')].status.allocation.devices.results[0].device}"
}
is_on_card() { [[ $(card_of "$1") == "$2" ]]; }
is_on() { [[ $(node_of "$1") == "$2" ]]; }
goes() { [[ -n $(kubectl -n red get pod "$1" -o jsonpath='{.metadata.deletionTimestamp}') ]]; }
plan() { "$RINGFENCE" defragment "$@"; }

here=$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')
kubectl cordon "$here" >/dev/null
refuses "a pool that makes no sense is refused" spec.placement pool bad tight
check "a pool is accepted" pool far spread
check "so are those of the example" kubectl apply -f pools.yaml
check "a tenant is accepted" kubectl apply -f - <<YAML
apiVersion: ringfence.io/v1alpha1
kind: Tenant
metadata: {name: red}
spec: {isolation: share, quota: {gpuMemory: 100Gi, pods: 20}}
YAML
check "and becomes ready" kubectl wait --for=condition=Ready --timeout=20s tenant/red
for n in far-0 far-1 far-2; do machine $n far 1 >/dev/null; done
says "nothing runs, so there is nothing to move" "nothing to move" plan

# a little on each: the pool spreads
for i in 0 1 2; do
	pod "s$i" web >/dev/null
	eventually 20 bash -c "[[ -n \$(kubectl -n red get pod s$i -o jsonpath='{.spec.nodeName}') ]]"
done
nodes=$(for i in 0 1 2; do node_of "s$i"; echo; done | sort -u | grep -c far-)
check "the pool's pods are spread over its three machines" test "$nodes" == 3
says "which is what it is for: nothing is moved there" "nothing to move" plan

# from now on it is to be packed
check "the pool is changed" kubectl patch gpupool far --type=merge -p '{"spec":{"placement":"pack"}}'
plan >"$work/plan" 2>&1
says "the plan moves two of three" "2 pods start again" cat "$work/plan"
says "and says whose they are" ReplicaSet/web cat "$work/plan"
says "which cards become whole" "cards that become whole: far-" cat "$work/plan"
says "and which machines" "machines that become whole: far-" cat "$work/plan"
says "and what that comes to" "free cards: 1 now, 3 then" cat "$work/plan"
says "nothing was changed" "nothing was changed; --apply evicts them" cat "$work/plan"
check "indeed" bash -c "! kubectl -n red get pods -o jsonpath='{.items[*].metadata.deletionTimestamp}' | grep ."
says "the same as JSON" '"then": 3' plan -o json
refuses "another form is refused" "json or table" plan -o yaml

# who may: nobody but who may see everything
says "a tenant may not" no kubectl auth can-i list nodes --as=system:serviceaccount:red:ringfence-owner
kubectl create clusterrolebinding mover --clusterrole=ringfence-defragment --user=mover >/dev/null
for what in "list pods" "list resourceclaims.resource.k8s.io" "list gpupools.ringfence.io" "create pods --subresource=eviction"; do
	# shellcheck disable=SC2086
	says "who has the role may $what" yes kubectl -n red auth can-i $what --as=mover
done
says "and not delete" no kubectl -n red auth can-i delete pods --as=mover

# what must stay
pod lone >/dev/null # nobody makes it again
eventually 20 bash -c "[[ -n \$(kubectl -n red get pod lone -o jsonpath='{.spec.nodeName}') ]]"
check "who is made by nobody is not in the plan" bash -c "! '$RINGFENCE' defragment -o json | grep -q '\"lone\"'"
first=$(plan -o json | grep -o '"pod": "[^"]*"' | head -n 1 | cut -d'"' -f4)
check "a budget is made that keeps the first of the plan" kubectl create -f - <<YAML
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep, namespace: red}
spec: {maxUnavailable: 0, selector: {matchLabels: {app: $first}}}
YAML
check "and then it is not in it any more" eventually 10 bash -c "! '$RINGFENCE' defragment -o json | grep -q '\"pod\": \"$first\"'"
kubectl -n red delete pdb keep >/dev/null

# doing it
plan --most 1 --apply >"$work/done" 2>&1
says "one move is carried out when one is asked for" "1 evicted" cat "$work/done"
moved=$(for i in 0 1 2; do goes "s$i" && echo "s$i"; done)
check "one pod goes" test "$(wc -w <<<"$moved")" == 1
says "and its event says why" Defragmented kubectl -n red get events
check "a second look does not move it again" bash -c "! '$RINGFENCE' defragment -o json | grep -q '\"pod\": \"$moved\"'"

# from card to card of one machine
check "a pool of one machine is accepted" pool near spread
machine near-0 near 2 >/dev/null
for i in 0 1; do
	pod "t$i" web near >/dev/null
	eventually 20 is_on "t$i" near-0
done
check "its pods are spread over its two cards" test "$(card_of t0) $(card_of t1)" == "gpu-0 gpu-1"
check "nothing is moved there" bash -c "! '$RINGFENCE' defragment | grep near-0"
check "that pool is to be packed, too" kubectl patch gpupool near --type=merge -p '{"spec":{"placement":"pack"}}'
kubectl cordon near-0 >/dev/null
check "as long as nobody is placed there nothing is won" bash -c "! '$RINGFENCE' defragment | grep near-0"
kubectl uncordon near-0 >/dev/null
plan >"$work/plan" 2>&1
check "the plan says from which card to which" grep -Eq 'red/t1 .* near-0/gpu-1 +near-0/gpu-0' "$work/plan"
says "and that the one becomes whole" near-0/gpu-1 grep "cards that become whole" "$work/plan"
check "but not the machine" bash -c "! grep 'machines that become whole' '$work/plan' | grep near-0"
check "it is evicted" eventually 10 bash -c "'$RINGFENCE' defragment --apply | grep evicted"
check "and goes" goes t1
pod t1-again web near >/dev/null # as its maker does, while the old one still ends
check "who comes for it is placed" eventually 20 is_on t1-again near-0
check "on the card that was said" is_on_card t1-again gpu-0
check "and is not moved again" bash -c "! '$RINGFENCE' defragment | grep near-0"
done_testing
