#!/bin/bash
# Gangs and guarantees on a real Kubernetes: its own eviction API and disruption budgets, two replicas of control.
source "$(dirname "$0")/lib.sh"
hold() { echo "/ringfence/bin/gpu-demo --memory 1Gi --hold $1"; }
group() { # NS NAME MIN
	kubectl apply -f - <<<"{\"apiVersion\":\"ringfence.io/v1alpha1\",\"kind\":\"PodGroup\",\"metadata\":{\"name\":\"$2\",\"namespace\":\"$1\"},\"spec\":{\"minMember\":$3}}"
}
member() { # NS NAME GROUP SECONDS
	pod "$1" "$2" ringfence.io/gpu=1 "$(hold "$4")" | sed "s/\"namespace\":\"$1\"/&,\"labels\":{\"ringfence.io\/pod-group\":\"$3\",\"app\":\"$1\"}/" | kubectl apply -f -
}
bound() { json '{range .items[?(@.spec.nodeName)]}{.metadata.name}{"\n"}{end}' -n "$1" pods | grep -c "^$2"; }
bound_are() { is "$(bound "$1" "$2")" "$3"; }
group_is() { is "$(json "{.status.$3}" -n "$1" podgroup "$2")" "$4"; }

check "a tenant comes that is guaranteed nothing" tenant red '"quota":{"gpus":8}'
check "and one that is guaranteed two cards" tenant blue '"quota":{"gpus":4},"queue":{"guaranteed":{"gpus":2}}'
refuses "a gang of nobody is refused by its schema" "minMember" group red nobody 0
refuses "so is a guarantee that is more than its limit" "must not be more than limit" kubectl apply -f - <<<'{"apiVersion":"ringfence.io/v1alpha1","kind":"Queue","metadata":{"name":"odd"},"spec":{"resources":[{"name":"cards","guaranteed":2,"limit":1}]}}'
says "a tenant may make gangs" yes kubectl -n red auth can-i create podgroups.ringfence.io --as=system:serviceaccount:red:ringfence-owner
says "and not say that they started" no kubectl -n red auth can-i patch podgroups.ringfence.io --subresource=status --as=system:serviceaccount:red:ringfence-owner

# all or nothing, over two machines
check "a gang of three" group red train 3
for i in 0 1; do check "its pod $i is accepted" member red "t$i" train 120; done
check "it says that it waits" eventually 20 event_says red t0 "needs 3"
check "two of three get nothing" bound_are red t 0
check "the third comes" member red t2 train 120
check "all three are placed" eventually 20 bound_are red t 3
for i in 0 1 2; do check "pod $i runs" eventually 40 phase_is red "t$i" Running; done
check "the gang has started" eventually 15 group_is red train started true
check "over two machines" is "$(for i in 0 1 2; do node_of red "t$i"; echo; done | sort -u | grep -c .)" 2

# a new leader knows what runs
system rollout restart deployment/ringfence-control >/dev/null
check "control is replaced" system rollout status deployment/ringfence-control --timeout=90s
check "the gang is left alone" bound_are red t 3
kubectl -n red delete pods,podgroups --all --timeout=90s >/dev/null
check "its cards are free" eventually 40 no_claims

# what was lent comes back, as far as budgets let it
for i in 0 1 2 3; do apply red "b$i" ringfence.io/gpu=1 "$(hold 600)" >/dev/null; done
for i in 0 1 2 3; do check "red borrows card $i" eventually 40 phase_is red "b$i" Running; done
kubectl -n red label pods --all app=red >/dev/null
kubectl -n red create poddisruptionbudget keep --selector=app=red --min-available=3 >/dev/null
check "a budget lets one of them go" eventually 20 bash -c "is() { [[ \$1 == \$2 ]]; }; is \"\$(kubectl -n red get pdb keep -o jsonpath='{.status.disruptionsAllowed}')\" 1"
for i in 0 1; do apply blue "g$i" ringfence.io/gpu=1 "$(hold 600)" >/dev/null; done
check "blue gets the one" eventually 60 bound_are blue g 1
sleep 5
check "and not the other, which the budget keeps" bound_are blue g 1
says "the event says what happened" Reclaimed kubectl -n red get events
kubectl -n red delete poddisruptionbudget keep >/dev/null
check "without the budget blue gets all that is its own" eventually 90 bound_are blue g 2
check "and runs" eventually 40 phase_is blue g1 Running
# the kubelet takes the evicted pod's object away a while after its card is free
check "two of red are left" eventually 20 bound_are red b 2
check "the queue says so" eventually 20 bash -c "[[ \$(kubectl get queue blue -o jsonpath='{.status.running}') == 2 ]]"
check "past usage is kept" eventually 90 system get configmap ringfence-ledger
check "nobody else of red had to go" bound_are red b 2
done_testing
