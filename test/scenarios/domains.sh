#!/bin/bash
# Cards that belong together: who shares no NUMA node, or no NVLink island, is alone there, and stays out where others are.
# Eight cards on two NUMA nodes, of which the last two are joined by NVLink.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 6xT4,2xH100

tenant() { # NAME ISOLATION
	printf 'apiVersion: ringfence.io/v1alpha1\nkind: Tenant\nmetadata: {name: %s}\nspec: {isolation: %s, quota: {gpus: 8, pods: 20}}\n---\n' "$1" "$2"
}
# pod NAMESPACE NAME CARDS [MODEL]
pod() {
	cat <<-YAML
		apiVersion: v1
		kind: Pod
		metadata: {name: $2, namespace: $1, annotations: {ringfence.io/gpu-model: "${4:-T4|H100}"}}
		spec:
		  restartPolicy: Never
		  terminationGracePeriodSeconds: 1
		  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: main
		    image: host
		    command: ["/bin/sh", "-c", "sleep 600"]
		    resources: {limits: {ringfence.io/gpu: "$3"}}
		    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}
		---
	YAML
}
put() { pod "$@" | kubectl apply -f - >/dev/null; }
del() { kubectl -n "$1" delete pod "$2" --wait=true --timeout=30s >/dev/null; }
waits_with() { kubectl -n "$1" get pod "$2" -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}' | grep -qF -- "$3"; }
device() { # CARD FIELD: of the card's attributes
	kubectl get resourceslices -o jsonpath="{.items[0].spec.devices[?(@.name==\"gpu-$1\")].attributes.$2}"
}

refuses "a level that is none is refused with those there are" "rack, node, numa, nvlink, gpu" \
	bash -c "$(declare -f tenant); tenant odd socket | kubectl apply -f -"
{ tenant bank numa; tenant link nvlink; tenant lab gpu; } | kubectl apply -f - >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/bank tenant/link tenant/lab >/dev/null

# --- what the agent says
check "a card says its NUMA node" test "$(device 3 numaNode.int)$(device 4 numaNode.int)" = 01
check "also by DRA's name for it" test "$(device 4 'resource\.kubernetes\.io/numaNode.int')" = 1
check "and its address" grep -Eq '^0000:[0-9a-f]{2}:00\.0$' <<<"$(device 0 'resource\.kubernetes\.io/pciBusID.string')"
check "joined cards have one island" test "$(device 6 nvlinkIsland.int)" = "$(device 7 nvlinkIsland.int)"
check "others one each" test "$(device 0 nvlinkIsland.int)" != "$(device 1 nvlinkIsland.int)"

# --- NUMA nodes
put bank first 1 T4
check "who shares no NUMA node gets a card" eventually 20 phase_is bank first Running
put lab four 4
check "a stranger gets four of the other one" eventually 20 phase_is lab four Running
put lab more 1
check "and no fifth, though three cards are free" eventually 20 waits_with lab more "isolation numa"
kubectl -n lab get pod more -o jsonpath='{.status.conditions[0].message}' | sed 's/^/# /'
echo
says "why says it too" "with others on cards of one NUMA node" "$RINGFENCE" why lab/more
put bank second 1 T4
check "the tenant itself gets another beside its own" eventually 20 phase_is bank second Running
del bank first
sleep 2
check "as long as one of its pods is there the NUMA node is its own" phase_is lab more Pending
check "audit finds nothing wrong with that" bash -c "'$RINGFENCE' audit -o json >'$work/audit'; grep -q '\"findings\"' '$work/audit' && ! grep -q RF-SCHED-13 '$work/audit'"
del bank second
check "then it is anybody's" eventually 30 phase_is lab more Running
put bank third 1 T4
check "and not the tenant's any more, whatever is free" eventually 20 waits_with bank third "isolation numa"
kubectl -n bank delete pod third --wait=false >/dev/null
del lab more
del lab four

# --- islands
put link one 1 H100
check "who shares no island gets a card of one" eventually 20 phase_is link one Running
put lab beside 1 H100
check "the card joined to it is nobody else's" eventually 20 waits_with lab beside "isolation nvlink"
put lab away 2 T4
check "all others are" eventually 20 phase_is lab away Running
kubectl -n lab delete pod beside --wait=false >/dev/null

# --- it changes its mind
tenant link gpu | kubectl apply -f - >/dev/null
put lab again 1 H100
check "a tenant that minds no more is joined" eventually 20 phase_is lab again Running
tenant link nvlink | kubectl apply -f - >/dev/null
says "one that minds again has been met, and audit says so" RF-SCHED-13 bash -c "sleep 1; '$RINGFENCE' audit -o json"

done_testing
