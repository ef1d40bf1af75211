#!/bin/bash
# Pods written for other schedulers run as they are where the administrator switched that on (docs/foreign.md),
# and what worked there against other tenants does not work here.
source "$(dirname "$0")/lib.sh"
refuses "an unknown habit is named" '"slurm" is no habit' "$RINGFENCE" up --data "$work/x" --foreign slurm
refuses "a card's size is checked" '"big" is no size of a card' "$RINGFENCE" up --data "$work/x" --foreign kai --foreign-card big
refuses "a card without habits is asked about" "--foreign-card is for --foreign" "$RINGFENCE" up --data "$work/x" --foreign-card 80Gi
platform_up --simulate 2xH200 --foreign kai,hami,volcano,x-k8s,kueue --foreign-card 80Gi
kubectl apply -f tenants.yaml >/dev/null
for t in team-a bank; do kubectl wait --for=condition=Ready --timeout=20s "tenant/$t" >/dev/null; done
"$RINGFENCE" tenant kubeconfig team-a >"$work/team-a.kubeconfig"
"$RINGFENCE" tenant kubeconfig bank >"$work/bank.kubeconfig"

# pod TENANT NAME METADATA RESOURCES [SCHEDULER]: as the tenant itself
pod() {
	kubectl --kubeconfig "$work/$1.kubeconfig" apply -f - <<-END
		apiVersion: v1
		kind: Pod
		metadata: {name: $2, namespace: $1, $3}
		spec:
		  restartPolicy: Never
		  schedulerName: ${5:-default-scheduler}
		  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: main
		    image: host
		    command: [/ringfence/bin/gpu-demo, --info]
		    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
		    resources: {$4}
	END
}
limit() { kubectl -n "$1" get pod "$2" -o jsonpath="{.spec.containers[0].resources.limits}"; }

check "a pod of KAI is taken" pod team-a kai 'annotations: {gpu-fraction: "0.25"}, labels: {kai.scheduler/queue: team-a}' '' kai-scheduler
says "a quarter of the declared card" '"ringfence.io/gpu-memory":"20Gi"' limit team-a kai
check "it runs and ends well" eventually 30 phase_is team-a kai Succeeded
says "having seen its share as the card" "memory total: 20480 MiB" kubectl -n team-a logs kai
check "a pod of HAMi is taken" pod team-a hami '' 'limits: {nvidia.com/gpu: 1, nvidia.com/gpumem: 4096, nvidia.com/gpucores: 30}' hami-scheduler
check "it runs and ends well" eventually 30 phase_is team-a hami Succeeded
says "having seen its share as the card" "memory total: 4096 MiB" kubectl -n team-a logs hami
check "whole cards by NVIDIA's name are what they were" pod bank whole '' 'limits: {nvidia.com/gpu: 1}' volcano
check "and run" eventually 30 phase_is bank whole Succeeded

refuses "another tenant's queue is refused" 'tenant team-a has no queue "bank"' pod team-a thief 'labels: {kai.scheduler/queue: bank}' ''
refuses "and so it is by Kueue's name" 'tenant team-a has no queue "bank"' pod team-a thief 'labels: {kueue.x-k8s.io/queue-name: bank}' ''
refuses "a tenant that shares no card gets no fraction" "shares no card" pod bank half 'annotations: {gpu-fraction: "0.5"}' ''
refuses "half a card and two cards are not one pod" "remove one" pod team-a both 'annotations: {gpu-fraction: "0.5"}' 'limits: {nvidia.com/gpu: 2}'
refuses "a card is not chosen by its owner" "which card it is, is for ringfence to say" \
	pod bank picky 'annotations: {nvidia.com/use-gpuuuid: GPU-0}' 'limits: {nvidia.com/gpu: 1}'
refuses "an allocation of one's own making is no way around the quota" "exceeded quota" \
	pod bank own 'annotations: {hami.io/vgpu-devices-allocated: "GPU-0,NVIDIA,1,1:;"}, labels: {kueue.x-k8s.io/pod-group-name: admitted}' 'limits: {nvidia.com/gpu: 2}'
refuses "a scheduler nobody knows is refused with cards" "pods that ask for cards are placed by ringfence" \
	pod bank other '' 'limits: {nvidia.com/gpu: 1}' another-scheduler
done_testing
