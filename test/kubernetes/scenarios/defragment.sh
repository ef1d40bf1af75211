#!/bin/bash
# Whole cards by moving, where a controller makes again what was evicted: two shares on two machines become two on one.
source "$(dirname "$0")/lib.sh"
deployment() { # REPLICAS
	kubectl apply -f - <<-END
		{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"red"},"spec":{"replicas":$1,
		 "selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{
		 "terminationGracePeriodSeconds":1,
		 "securityContext":{"runAsNonRoot":true,"runAsUser":65534,"seccompProfile":{"type":"RuntimeDefault"}},
		 "containers":[{"name":"main","image":"localhost/runtime:e2e","command":["sh","-c","/ringfence/bin/gpu-demo --memory 1Gi --hold 600"],
		  "resources":{"limits":{"ringfence.io/gpu-memory":"8Gi","ringfence.io/gpu-compute":"10"}},
		  "securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}}}}
	END
}
pool() { # PLACEMENT
	kubectl apply -f - <<<"{\"apiVersion\":\"ringfence.io/v1alpha1\",\"kind\":\"GPUPool\",\"metadata\":{\"name\":\"all\"},\"spec\":{\"placement\":\"$1\"}}"
}
running() { kubectl -n red get pods -l app=web -o jsonpath='{range .items[?(@.status.phase=="Running")]}{.spec.nodeName}{"\n"}{end}' | grep -c .; }
running_are() { is "$(running)" "$1"; }
machines() { kubectl -n red get pods -l app=web -o jsonpath='{range .items[*]}{.spec.nodeName}{"\n"}{end}' | sort -u | grep -c .; }
settled() { [[ $(running) == 2 && $(machines) == "$1" && $(kubectl -n red get pods -l app=web -o name | grep -c .) == 2 ]]; }
plan() { "$RINGFENCE" defragment --scheduler-name ringfence "$@"; }

check "a tenant comes" tenant red '"isolation":"share","quota":{"gpuMemory":"100Gi"}'
refuses "a pool that makes no sense is refused by its schema" spec.placement pool tight
check "a pool that spreads is accepted" pool spread
for n in $(kubectl get nodes -o name); do kubectl label "$n" ringfence.io/pool=all >/dev/null; done
check "a Deployment of one" deployment 1
check "runs" eventually 60 running_are 1
check "and of two" deployment 2
check "the pool spreads them over two machines" eventually 60 settled 2
says "there is nothing to move in such a pool" "nothing to move" plan

check "the pool is to be packed from now on" pool pack
says "one pod is to go" "1 pods start again" plan
says "whose maker is known" ReplicaSet/web- plan
check "nothing was changed" settled 2
says "it is evicted" "1 evicted" plan --apply
check "and made again beside the other" eventually 90 settled 1
says "its event says why" Defragmented kubectl -n red get events
says "now there is nothing to move" "nothing to move" plan

kubectl -n red delete deployment web --timeout=60s >/dev/null
for n in $(kubectl get nodes -o name); do kubectl label "$n" ringfence.io/pool- >/dev/null; done
kubectl delete gpupool all >/dev/null
done_testing
