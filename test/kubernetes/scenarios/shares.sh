#!/bin/bash
# Shares of a card through DRA: from limits to a claim, an exact device, a CDI device and a cap that holds.
source "$(dirname "$0")/lib.sh"
demo=/ringfence/bin/gpu-demo
share="ringfence.io/gpu-memory=20Gi ringfence.io/gpu-compute=50"

check "two teams of one trust domain come" tenant red '"isolation":"share","trustDomain":"research","quota":{"gpuMemory":"100Gi","gpus":2}'
check "the second too" tenant blue '"isolation":"share","trustDomain":"research","quota":{"gpuMemory":"100Gi"}'
check "a pod with a share is accepted" apply red calm "$share" "$demo --info; $demo --memory 10Gi --hold 25"
check "it runs" eventually 30 phase_is red calm Running
claim=$(claim_of red calm) node=$(node_of red calm)
field() { json "{.status.allocation.devices.results[0].$1}" -n red resourceclaim "$claim"; }
says "its claim was made for it" "red" json '{.metadata.annotations.ringfence\.io/tenant}' -n red resourceclaim "$claim"
check "by ringfence's driver" is "$(field driver)" ringfence.io
check "on its node" is "$(field pool)" "$node"
check "an exact device" grep -Eq '^gpu-[01]$' <<<"$(field device)"
check "20 GiB of it" is "$(field consumedCapacity.memory)" 20Gi
check "half its time" is "$(field consumedCapacity.compute)" 500
check "reserved for the pod" is "$(json '{.status.reservedFor[0].name}' -n red resourceclaim "$claim")" calm
says "and held by the agent" ringfence.io/prepared json '{.metadata.finalizers}' -n red resourceclaim "$claim"
says "the pod says so too" "$claim" json '{.status.extendedResourceClaimStatus.resourceClaimName}' -n red pod calm
check "the container's CDI device is on the node" on_node "$node" sh -c 'ls /var/run/cdi | grep -q ringfence'
says "inside, the share is the whole card" "memory total: 20480 MiB" kubectl -n red logs calm
says "of which the driver has its part" "memory free: 19956 MiB" kubectl -n red logs calm

check "a neighbour asks for more than its share" apply blue greedy "$share" "$demo --memory 30Gi --step 1Gi"
check "it ends" eventually 40 pod_ended blue greedy
says "with an out-of-memory error at its cap" CUDA_ERROR_OUT_OF_MEMORY kubectl -n blue logs greedy
check "both were on one card" test "$(granted blue greedy 2>/dev/null || events_of blue greedy | grep -o 'gpu-[01]' | head -n 1)" != ""
check "the first goes on" phase_is red calm Running

with() { # VALUE: JSON of a pod, with that annotation
	sed "s|\"metadata\":{|&\"annotations\":{\"ringfence.io/burst\":\"$1\"},|"
}
bursting() { pod blue burst "$share" "$demo --memory 19Gi --loops 3" | with true | kubectl apply -f -; }
vague() { pod blue vague "$share" "$demo --info" | with maybe | kubectl apply -f -; }
check "one that may use what others leave idle is accepted" bursting
check "and ends well" succeeds 60 blue burst
refuses "whether it may is true or false" 'ringfence.io/burst: "maybe" is not valid' vague

bare="exec env -i LD_LIBRARY_PATH=/ringfence/lib RINGFENCE_SIM=/ringfence/dev $demo"
for case in "thief OverMemoryCap 40Gi" "sneak FenceBypassed 1Gi"; do
	read -r name reason size <<<"$case"
	check "one that throws the fence off and takes $size is accepted" apply blue $name "$share" "$bare --memory $size --hold 60"
	check "and ended" eventually 40 phase_is blue $name Failed
	check "with the reason $reason" eventually 10 event_says blue $name $reason
done
check "one that hides the fence's socket is accepted by Kubernetes" apply blue mask "$share" "$demo --info" \
	',"volumes":[{"name":"v","emptyDir":{}}]' ',"volumeMounts":[{"name":"v","mountPath":"/tmp/../ringfence/run"}]'
check "and gets no card" eventually 40 event_says blue mask "/ringfence is ringfence's"
kubectl -n blue delete pod mask thief sneak --wait=false >/dev/null
check "the agent is killed while a share is in use" on_node "$node" sh -c "kill -9 \$(pgrep -f 'ringfence node' | head -n 1)"
check "and comes back" eventually 30 bash -c "kubectl -n ringfence-system wait --for=condition=Ready pod/$(agent_of "$node") --timeout=1s"
check "the pod goes on" phase_is red calm Running
check "it ends well" succeeds 60 red calm
check "a whole card by ringfence's own name" apply red whole ringfence.io/gpu=1 "$demo --info"
check "comes through DRA too" succeeds 40 red whole
says "without a cap" "memory total: 143156 MiB" kubectl -n red logs whole
two_pods() {
	pod red two "$share" "$demo --info; sleep 3" | sed 's/"containers":\[/&{"name":"plain","image":"localhost\/runtime:e2e","command":["sh","-c","ls \/ringfence; env"],"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}},/' | kubectl apply -f -
}
check "a pod with a plain container beside the one with a share" two_pods
check "ends" eventually 40 pod_ended red two
check "the plain one saw nothing of the card" bash -c "! kubectl -n red logs two -c plain | grep -E 'fence.sock|LD_PRELOAD|nvidia'"
check "nothing is held in the end" eventually 40 no_claims
for n in 1 2; do
	check "node $n has no CDI device left" bed node $n sh -c '! ls /var/run/cdi | grep ringfence'
	check "nor a ledger mounted" bed node $n sh -c '! grep /var/lib/ringfence/claims /proc/self/mountinfo'
done
done_testing
