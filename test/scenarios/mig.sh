#!/bin/bash
# Slices of a card in MIG mode: a pod that asks for one gets it, and only it; strangers sit side by side on one card;
# what does not fit waits with a reason; what ends leaves nothing behind, also when the agent is killed.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 1xH100:mig,1xH100

tenant() { # NAME ISOLATION RESOURCE LIMIT...
	local name=$1 isolation=$2 list= i
	shift 2
	for ((i = 1; i < $#; i += 2)); do
		list+="{name: ${!i}, limit: ${@:i+1:1}}, "
	done
	cat <<-YAML
		apiVersion: ringfence.io/v1alpha1
		kind: Tenant
		metadata: {name: $name}
		spec: {isolation: $isolation, quota: {gpus: 1, pods: 20}, queue: {resources: [$list]}}
		---
	YAML
}
# pod NAMESPACE NAME RESOURCE COMMAND
pod() {
	cat <<-YAML
		apiVersion: v1
		kind: Pod
		metadata: {name: $2, namespace: $1}
		spec:
		  restartPolicy: Never
		  terminationGracePeriodSeconds: 1
		  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: main
		    image: host
		    command: ["/bin/sh", "-c", "$4"]
		    resources: {limits: {$3: "1"}}
		    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}
		---
	YAML
}
instances() { "$RINGFENCE" sim cards --machine "$work/data/sim" | grep -o 'MIG with [0-9]* instances'; }
instances_are() { [[ $(instances) == "MIG with $1 instances" ]]; }
logs() { kubectl -n "$1" logs "$2"; }
logs_say() { logs "$1" "$2" | grep -qF -- "$3"; }
waits_with() { kubectl -n "$1" get pod "$2" -o jsonpath='{.status.conditions[?(@.type=="PodScheduled")].message}' | grep -qF -- "$3"; }

{
	tenant bank slice mig/1g.10gb 7 mig/3g.40gb 2 mig/4g.40gb 1
	tenant lab slice mig/1g.10gb 7 mig/3g.40gb 2
	tenant alone gpu mig/1g.10gb 7
	tenant none slice mig/3g.40gb 1
} | kubectl apply -f - >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/bank tenant/lab tenant/alone tenant/none >/dev/null

# --- what is offered
slice=$(kubectl get resourceslices -o json)
says "the card in MIG mode says so" '"migMode"' echo "$slice"
check "and the other card does not" test "$(grep -c '"migMode"' <<<"$slice")" = 1
check "one card is there to be given whole" test "$(kubectl get nodes -o jsonpath='{.items[0].status.allocatable.ringfence\.io/gpu}')" = 1
check "nothing is cut before somebody asks" instances_are 0

# --- one slice
pod bank small nvidia.com/mig-1g.10gb "gpu-demo --info; echo visible: \$CUDA_VISIBLE_DEVICES; gpu-demo --memory 20Gi --expect-oom; sleep 600" | kubectl apply -f - >/dev/null
check "a pod that asks for nvidia.com/mig-1g.10gb runs" eventually 20 phase_is bank small Running
check "it sees one device, a slice" eventually 10 logs_say bank small "device 0 of 1: NVIDIA H100 80GB HBM3 MIG 1g.10gb"
says "of the slice's memory" "memory total: $(logs bank small | sed -n 's/^memory total: \([0-9]*\) MiB/\1/p' | head -1) MiB" logs bank small
check "which is a slice's, not the card's" test "$(logs bank small | sed -n 's/^memory total: \([0-9]*\) MiB/\1/p' | head -1)" -lt 11000
check "memory beyond the slice is not to be had" eventually 10 logs_say bank small "out of memory after"
check "one instance was made" instances_are 1
says "the claim says where it is" '"starts":[' bash -c "kubectl -n bank get resourceclaims -o json | tr -d ' \n'"
uuid=$(logs bank small | sed -n 's/^visible: //p')
says "it is named to the program" MIG- echo "$uuid"

# --- a stranger beside it
pod lab beside ringfence.io/mig-1g.10gb "gpu-demo --info; export CUDA_VISIBLE_DEVICES=$uuid; gpu-demo --info; echo neighbour: \$?; unset CUDA_VISIBLE_DEVICES; gpu-demo --info; sleep 600" | kubectl apply -f - >/dev/null
check "a stranger's slice on the same card runs" eventually 20 phase_is lab beside Running
check "two instances are there" instances_are 2
check "it cannot reach its neighbour's slice by name" eventually 10 logs_say lab beside "neighbour: 1"
check "nor does it see more than its own when it looks at all" eventually 10 \
	bash -c "[[ \$(kubectl -n lab logs beside | grep -c '^device 0 of 1') = 2 ]]"
check "the two are on one card" test "$(card_of bank small)" = "$(card_of lab beside)"

# --- who is refused
refuses "whoever shares a card with nobody gets no slice" "asks for MIG slices, and tenant alone has isolation gpu" \
	bash -c "$(declare -f pod); pod alone small ringfence.io/mig-1g.10gb true | kubectl apply -f -"
refuses "no card has such a profile" "no card that ringfence knows has that MIG profile" \
	bash -c "$(declare -f pod); pod bank odd ringfence.io/mig-1g.11gb true | kubectl apply -f -"
pod none small ringfence.io/mig-1g.10gb true | kubectl apply -f - >/dev/null
check "who has no quota of it waits" eventually 10 waits_with none small "mig/1g.10gb"
kubectl -n none delete pod small --wait=false >/dev/null

# --- geometry: two halves would fill the card, and one of them has two small ones in it
pod bank half ringfence.io/mig-3g.40gb "gpu-demo --info; sleep 600" | kubectl apply -f - >/dev/null
check "a half of the card fits beside the two" eventually 20 phase_is bank half Running
check "it sees its own size" eventually 10 logs_say bank half "MIG 3g.40gb"
pod lab third ringfence.io/mig-3g.40gb "gpu-demo --info; sleep 600" | kubectl apply -f - >/dev/null
check "a second half does not, and waits with a reason" eventually 10 waits_with lab third "needs 1 MIG slice 3g.40gb"
kubectl -n lab get pod third -o jsonpath='{.status.conditions[0].message}' | sed 's/^/# /'
echo
check "it was not started" phase_is lab third Pending
check "three instances" instances_are 3

# --- the other card is whole
sed 's/"--hold", "5"/"--hold", "1"/; s/100Gi/10Gi/; s/namespace: bank/namespace: alone/' train.yaml | kubectl apply -f - >/dev/null
check "a whole card is given from the other one" eventually 20 phase_is alone train Succeeded

# --- figures
metrics() {
	local port
	port=$(kubectl get nodes -o jsonpath='{.items[0].status.daemonEndpoints.kubeletEndpoint.Port}')
	kubectl config view --raw -o jsonpath='{.users[0].user.client-certificate-data}' | base64 -d >"$work/crt"
	kubectl config view --raw -o jsonpath='{.users[0].user.client-key-data}' | base64 -d >"$work/key"
	curl -sk --cert "$work/crt" --key "$work/key" "https://127.0.0.1:$port/metrics"
}
if command -v curl >/dev/null; then
	metrics >"$work/metrics"
	check "metrics say how large the slice of a pod is" grep -Eq 'ringfence_container_gpu_memory_cap_bytes\{.*pod="half".*\} 4[0-9]{10}' "$work/metrics"
	check "and how much of it is used" grep -Eq 'ringfence_container_gpu_memory_used_bytes\{.*pod="half".*\} [0-9]+' "$work/metrics"
fi

# --- an agent that is killed
pid=$(child_pid node)
kill -9 "$pid"
check "the agent comes back" eventually 10 bash -c "pid=\$(pgrep -P $up_pid -f 'ringfence node ' | head -n 1); [[ -n \$pid && \$pid != $pid ]]"
check "what runs was not disturbed" phase_is bank half Running
check "its slices are the same" instances_are 3
check "they are still taken" phase_is lab third Pending

# --- ends
kubectl -n bank delete pod half --wait=false >/dev/null
check "what is deleted makes room for who waits" eventually 30 phase_is lab third Running
check "in its place" eventually 5 instances_are 3

# Killed while slices come and go.
for round in 1 2 3 4 5 6; do
	pod bank "job-$round" ringfence.io/mig-1g.10gb "gpu-demo --info" | kubectl apply -f - >/dev/null
	sleep "0.$((RANDOM % 10))"
	kill -9 "$(child_pid node)"
	check "round $round: the pod ends well" eventually 40 phase_is bank "job-$round" Succeeded
	check "round $round: it had a slice" eventually 10 logs_say bank "job-$round" "device 0 of 1: NVIDIA H100 80GB HBM3 MIG 1g.10gb"
done
check "the slices of those that ended are gone" eventually 20 instances_are 3

# The pod goes while no agent is there to see it.
kill -STOP "$up_pid"
kill -9 "$(child_pid node)"
kubectl -n lab delete pod beside --grace-period=0 --force >/dev/null 2>&1
kill -CONT "$up_pid"
check "an orphan's slice is taken down by the next agent" eventually 30 instances_are 2

kubectl delete tenant bank lab alone none --wait=false >/dev/null
check "when all have gone, no instance is left" eventually 40 instances_are 0
check "nor a claim" eventually 20 bash -c "[[ -z \$(kubectl get resourceclaims -A -o name) ]]"
done_testing
