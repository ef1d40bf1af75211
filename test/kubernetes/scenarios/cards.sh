#!/bin/bash
# Whole cards through the device plugin, with the manifests of the guide that ringfence was asked for from:
# taint, toleration, a ResourceQuota on the extended resource, a pod with limits.
source "$(dirname "$0")/lib.sh"
info='/ringfence/bin/gpu-demo --info'
tolerate=',"tolerations":[{"key":"gpu","operator":"Equal","value":"true","effect":"NoSchedule"}]'
hold() { echo "/ringfence/bin/gpu-demo --memory 1Gi --hold $1"; }
trap 'kubectl taint nodes --all gpu- >/dev/null 2>&1; cleanup' EXIT

check "GPU nodes are tainted" kubectl taint nodes gpu-node-1 gpu-node-2 gpu=true:NoSchedule
check "a tenant comes" tenant tenant-a '"quota":{"gpus":4}'
check "the guide's quota is accepted" kubectl apply -f - <<'END'
apiVersion: v1
kind: ResourceQuota
metadata:
  name: gpu-quota
  namespace: tenant-a
spec:
  hard:
    limits.gpu.example.com/device: "3"
END

check "a pod without the toleration is accepted" apply tenant-a shy gpu.example.com/device=1 "$info"
check "and waits" eventually 20 event_says tenant-a shy "taint"
kubectl -n tenant-a delete pod shy --wait=false >/dev/null
check "a pod with the toleration and a limit is accepted" apply tenant-a trainer gpu.example.com/device=1 "$info; $(hold 4)" "$tolerate"
check "ringfence placed it" eventually 20 event_says tenant-a trainer "Placed on node"
card=$(granted tenant-a trainer)
check "its claim says which card" grep -Eq '^gpu-node-[12]/gpu-[01] $' <<<"$card"
check "it ends well" succeeds 40 tenant-a trainer
says "the card it saw is the one in its claim" "$(uuid_of ${card% })" kubectl -n tenant-a logs trainer
says "whole: nobody capped it" "memory total: 143156 MiB" kubectl -n tenant-a logs trainer
says "no other card was in sight" "device 0 of 1" kubectl -n tenant-a logs trainer

for i in 1 2 3; do apply tenant-a "full-$i" gpu.example.com/device=1 "$(hold 60)" "$tolerate" >/dev/null; done
for i in 1 2 3; do check "pod $i of three runs" eventually 40 phase_is tenant-a full-$i Running; done
check "each on a card of its own" is "$(for i in 1 2 3; do granted tenant-a full-$i; done | tr ' ' '\n' | grep . | sort -u | wc -l)" 3
refuses "a fourth is past the guide's quota, which Kubernetes alone would not count" \
	"exceeded quota: gpu-quota, requested: limits.gpu.example.com/device=1, used: limits.gpu.example.com/device=3, limited: limits.gpu.example.com/device=3" \
	apply tenant-a full-4 gpu.example.com/device=1 "$info" "$tolerate"
check "under another name it is not" apply tenant-a other nvidia.com/gpu=1 "$info" "$tolerate"
check "and gets the last card" succeeds 40 tenant-a other
refuses "past the tenant's quota no name helps" "exceeded quota" apply tenant-a two nvidia.com/gpu=2 "$info" "$tolerate"
refuses "two names in one container are refused" "asked for by one name" apply tenant-a both "nvidia.com/gpu=1 gpu.example.com/device=1" "$info" "$tolerate"

# the kubelet starts anew while pods hold cards
node=$(node_of tenant-a full-1)
check "the kubelet of $node is killed" bed kill kubelet "$(number "$node")"
check "and starts again" bed start kubelet "$(number "$node")"
offers() { is "$(json '{.status.allocatable.nvidia\.com/gpu}' node "$node")" 2; }
check "the agent has registered again" eventually 20 offers
check "the slice is there again" eventually 20 kubectl get resourceslice "$node-ringfence"
check "the pod goes on" phase_is tenant-a full-1 Running
kubectl -n tenant-a delete pod full-1 full-2 full-3 --wait=false >/dev/null
check "its cards are let go" eventually 30 no_claims
check "the next pod gets one" apply tenant-a next gpu.example.com/device=1 "$info" "$tolerate,\"nodeSelector\":{\"kubernetes.io/hostname\":\"$node\"}"
check "and ends well" succeeds 40 tenant-a next
check "two cards in one container" apply tenant-a pair nvidia.com/gpu=2 "$info" "$tolerate"
check "are both seen" succeeds 40 tenant-a pair
says "and no third" "device 0 of 2" kubectl -n tenant-a logs pair

# past ringfence: kube-scheduler places a pod of a namespace that no webhook watches
pod kube-system stray nvidia.com/gpu=1 "$info" "$tolerate" | kubectl apply -f - >/dev/null
check "a pod that ringfence did not place starts no container" eventually 40 event_says kube-system stray "not placed by ringfence"
check "it never ran" is "$(phase kube-system stray)" Pending
kubectl -n kube-system delete pod stray --grace-period=0 --force >/dev/null 2>&1
check "a container that restarts gets its card again" apply tenant-a again gpu.example.com/device=1 \
	"$info; test -f /keep/been || { touch /keep/been; exit 1; }" "$tolerate,\"restartPolicy\":\"OnFailure\",\"volumes\":[{\"name\":\"keep\",\"emptyDir\":{}}]" \
	',"volumeMounts":[{"name":"keep","mountPath":"/keep"}]'
check "and ends well at the second try" succeeds 60 tenant-a again
check "nothing is held in the end" eventually 30 no_claims
for n in 1 2; do
	check "node $n has no CDI device left" bed node $n sh -c '! ls /var/run/cdi | grep ringfence'
	check "nor a claim's folder" bed node $n sh -c '! ls /var/lib/ringfence/claims | grep .'
done
done_testing
