#!/bin/bash
# Who comes first inside a queue: classes are the administrator's, and a tenant names one. Real kubectl, real containers.
source "$(dirname "$0")/lib.sh"
on_kubernetes && { echo "ok 1 - # SKIP the embedded API server's promise"; echo "1..1"; exit 0; }
platform_up --simulate 1xH200

check "Kubernetes' own classes are there" kubectl get priorityclass system-cluster-critical system-node-critical
check "a class is made" kubectl create priorityclass high --value=1000 --description="goes first"
check "another is applied" kubectl apply -f - <<'END'
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: -10
description: what can wait
END
check "a tenant is accepted" kubectl apply -f - <<'END'
apiVersion: ringfence.io/v1alpha1
kind: Tenant
metadata: {name: red}
spec: {quota: {gpus: 4, pods: 20}}
END
check "and becomes ready" kubectl wait --for=condition=Ready --timeout=20s tenant/red
"$RINGFENCE" tenant kubeconfig red >"$work/red" 2>"$work/red.err" || sed 's/^/# /' "$work/red.err"
red() { KUBECONFIG=$work/red kubectl "$@"; }
pod() { # NAME FIELD...: with the tenant's own token
	local name=$1 fields=
	shift
	for f in "$@"; do fields+="\n  $f"; done
	sed -e "s/namespace: bank/namespace: red/" -e "s/name: train/name: $name/" -e 's/"--hold", "5"/"--hold", "300"/' -e 's/"100Gi"/"1Gi"/' \
		-e "s/^  restartPolicy: Never/  restartPolicy: Never\n  terminationGracePeriodSeconds: 1$fields/" train.yaml | red create -f -
}
field_is() { [[ $(kubectl -n red get pod "$1" -o jsonpath="{.spec.$2}") == "$3" ]]; }
waits() { kubectl -n red get pod "$1" -o jsonpath='{.status.conditions}' | grep -q Unschedulable; }

# classes
says "the tenant sees them" high red get priorityclasses
refuses "and makes none" 'cannot create resource "priorityclasses"' red create priorityclass mine --value=5
refuses "nor deletes one" 'cannot delete resource "priorityclasses"' red delete priorityclass high

# who goes first
check "a pod without a class is accepted" pod plain
check "it runs on the only card" eventually 20 phase_is red plain Running
check "its priority is 0" field_is plain priority 0
refuses "a number of its own is refused" "the integer value of priority (1000000) must not be provided in pod spec" pod own "priority: 1000000"
refuses "beside a class, too" "computed 1000 from the given PriorityClass name" pod own "priority: 1001" "priorityClassName: high"
refuses "a class that is not there is refused by name" "no PriorityClass with name urgent was found" pod own "priorityClassName: urgent"
for c in system-cluster-critical system-node-critical; do
	refuses "$c is not for tenants" "are for the cluster's own pods" pod own "priorityClassName: $c"
done
check "nobody went for any of these" phase_is red plain Running
check "a pod of the low class waits" pod later "priorityClassName: low"
check "and says so" eventually 15 waits later
check "and the one without a class stays" phase_is red plain Running
check "one of the high class is accepted" pod first "priorityClassName: high"
check "its priority is the class's" field_is first priority 1000
check "it takes the card" eventually 40 phase_is red first Running
says "from the other, and that is said" Preempted kubectl -n red get events

# and afterwards
check "a class can be deleted" kubectl delete priorityclass high
check "its pods keep what they had" field_is first priority 1000
refuses "new ones find it no longer" "no PriorityClass with name high was found" pod own "priorityClassName: high"
kubectl create priorityclass usual --value=7 --global-default=true >/dev/null
check "with a default class a pod needs no word" pod usual-one
check "its class is written to it" field_is usual-one priorityClassName usual
check "and its number" field_is usual-one priority 7
done_testing
