#!/bin/bash
# Cards that break, and the metrics that tell of it.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 2xH200
kubectl apply -f tenants.yaml >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/bank tenant/team-a tenant/team-b >/dev/null
sim() { "$RINGFENCE" sim "$@" --machine "$work/data/sim"; }
node=$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')

# metrics: with the administrator's certificate, and not without
for part in client-certificate client-key; do
	kubectl config view --raw -o jsonpath="{.users[0].user.$part-data}" | base64 -d >"$work/$part"
done
kubectl config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d >"$work/ca"
port=$(kubectl get node "$node" -o jsonpath='{.status.daemonEndpoints.kubeletEndpoint.Port}')
metrics() { curl -sS --fail --cacert "$work/ca" "$@" "https://127.0.0.1:$port/metrics"; }
admin=(--cert "$work/client-certificate" --key "$work/client-key")

kubectl apply -f sharing.yaml >/dev/null
check "a share runs" eventually 20 phase_is team-b steady Running
check "metrics name tenant, namespace, pod and card" eventually 10 bash -c \
	"$(declare -f metrics); work=$work port=$port; metrics ${admin[*]} | grep 'tenant=\"team-b\"' | grep 'namespace=\"team-b\"' | grep 'pod=\"steady\"' | grep -q 'card=\"gpu-'"
check "and the time that a pod had on its card" eventually 10 bash -c \
	"$(declare -f metrics); work=$work port=$port; metrics ${admin[*]} | grep '^ringfence_container_gpu_seconds_total' | grep 'pod=\"steady\"' | grep -qv ' 0\.000000$'"
says "metrics are Prometheus text" "# TYPE ringfence_gpu_memory_total_bytes gauge" metrics "${admin[@]}"
refuses "nobody reads them without a certificate" "40" metrics
"$RINGFENCE" tenant kubeconfig team-a >"$work/team-a.kubeconfig"
token=$(kubectl --kubeconfig "$work/team-a.kubeconfig" config view --raw -o jsonpath='{.users[0].user.token}')
refuses "nor with a tenant's token" "40" metrics -H "Authorization: Bearer $token"
check "the share ends well" eventually 30 phase_is team-b steady Succeeded

# a card falls off the bus under a pod
sed 's/"--hold", "5"/"--hold", "100"/' train.yaml | kubectl apply -f - >/dev/null
check "a pod runs on a card" eventually 20 phase_is bank train Running
card=$(card_of bank train | grep -o 'gpu-[0-9]' | tr -dc 0-9)
check "a fault can be made" sim xid 79 --card "$card"
check "the pod on it fails" eventually 20 phase_is bank train Failed
check "the card is marked" eventually 10 bash -c "'$RINGFENCE' gpus | grep 'gpu-$card ' | grep -q ringfence.io/"
kubectl -n bank delete pod train --timeout=20s >/dev/null
kubectl apply -f train.yaml >/dev/null
check "the next pod runs" eventually 20 phase_is bank train Running
check "on the other card" bash -c "! '$RINGFENCE' ps -n bank -o json | grep -q 'gpu-$card\"'"
check "and ends well" eventually 30 phase_is bank train Succeeded
says "the count of XIDs is a metric" 'ringfence_gpu_xid_total' metrics "${admin[@]}"
says "sim cards shows the state" "off the bus" sim cards
done_testing
