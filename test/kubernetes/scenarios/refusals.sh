#!/bin/bash
# What is refused, in which words, and what is never in ringfence's way, also when ringfence is down.
source "$(dirname "$0")/lib.sh"
one=ringfence.io/gpu=1

check "a tenant with two namespaces comes" tenant pair '"namespaces":["pair-a","pair-b"],"quota":{"gpus":1}'
privileged() { pod "$1" priv $one true | sed 's/"allowPrivilegeEscalation":false,/"privileged":true,/'; }
refuses "a privileged pod with a card" 'privileged (container "main" must not set securityContext.privileged=true)' \
	bash -c "kubectl apply -f - <<<'$(privileged pair-a)'"
kubectl label namespace pair-b pod-security.kubernetes.io/enforce=privileged --overwrite >/dev/null
refuses "also where an administrator relaxed pod security" "privileged" bash -c "kubectl apply -f - <<<'$(privileged pair-b)'"
refuses "a pod with a card on the host's network" "hostNetwork" apply pair-b net $one true ',"hostNetwork":true'
refuses "a pod with a card where no tenant is" 'namespace "default" belongs to no tenant' apply default lost $one true
check "a first pod with a card is accepted" apply pair-a first $one "/ringfence/bin/gpu-demo --memory 1Gi --hold 40"
refuses "a second in the namespace is past the quota" "exceeded quota" apply pair-a second $one true
refuses "one in the tenant's other namespace too" "exceeded quota" apply pair-b second $one true
refuses "with what is used and what to do" "ask for a larger Tenant quota" apply pair-b second nvidia.com/gpu=1 true
refuses "a pod that names its node" "spec.nodeName" kubectl --as=system:serviceaccount:pair-b:ringfence-owner create -f \
	<(pod pair-b there $one true ',"nodeName":"gpu-node-1"')
refuses "a pod that wants another scheduler" "placed by ringfence" apply pair-b other $one true ',"schedulerName":"volcano"'
refuses "a share for a tenant that shares nothing" "isolation" apply pair-b share ringfence.io/gpu-memory=1Gi true
refuses "a misspelt resource" "there is no such resource" apply pair-b typo ringfence.io/gpus=1 true
group() { kubectl apply -f - <<<"{\"apiVersion\":\"ringfence.io/v1alpha1\",\"kind\":\"PodGroup\",\"metadata\":{\"name\":\"gang\",\"namespace\":\"pair-b\"},\"spec\":{\"minMember\":1,\"queue\":\"$1\"}}"; }
refuses "a gang in a queue of nobody it knows" 'tenant pair has no queue "elsewhere"' group elsewhere
check "and not one in its own" group pair
check "the first one runs" eventually 40 phase_is pair-a first Running

# ringfence is down
plain() { pod "$1" "$2" "" "true" | kubectl apply -f -; }
check "control is taken down" system scale deployment ringfence-control --replicas=0
check "and is gone" eventually 40 bash -c "! kubectl -n ringfence-system get pods -l app.kubernetes.io/name=ringfence-control --no-headers 2>/dev/null | grep ."
refuses "a pod with a card is refused meanwhile" "failed calling webhook" apply pair-b late $one true
check "a pod without one is accepted in kube-system" plain kube-system plain
check "in a tenant's namespace" plain pair-b plain
check "and elsewhere" plain default plain
for ns in kube-system pair-b default; do
	check "the one in $ns runs" succeeds 40 $ns plain
	kubectl -n $ns delete pod plain --wait=false >/dev/null
done
check "who has a card keeps it" phase_is pair-a first Running
check "the agents are taken down as well" system patch daemonset ringfence-node --type=merge -p '{"spec":{"template":{"spec":{"nodeSelector":{"nowhere":"true"}}}}}'
check "and are gone" eventually 60 bash -c "! kubectl -n ringfence-system get pods -l app.kubernetes.io/name=ringfence-node --no-headers 2>/dev/null | grep ."
check "a plain pod runs still" plain default plain
check "to its end" succeeds 40 default plain
kubectl -n default delete pod plain --wait=false >/dev/null
check "who has a card still keeps it" phase_is pair-a first Running
check "the agents come back" system patch daemonset ringfence-node --type=json -p '[{"op":"remove","path":"/spec/template/spec/nodeSelector/nowhere"}]'
check "ready" kubectl -n ringfence-system rollout status daemonset/ringfence-node --timeout=90s
check "control comes back" system scale deployment ringfence-control --replicas=2
check "ready" kubectl -n ringfence-system rollout status deployment/ringfence-control --timeout=90s
check "who has a card kept it all the time, to its end" succeeds 60 pair-a first
check "and what was refused is accepted" eventually 20 apply pair-b late $one true
check "and runs" succeeds 60 pair-b late
done_testing
