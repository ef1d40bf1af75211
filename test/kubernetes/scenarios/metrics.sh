#!/bin/bash
# What the agents count, by tenant and pod, and who may read it.
source "$(dirname "$0")/lib.sh"
trap 'kubectl -n default delete serviceaccount scraper stranger >/dev/null 2>&1; kubectl delete clusterrolebinding scraper >/dev/null 2>&1; cleanup' EXIT

check "a tenant comes" tenant green '"isolation":"share","quota":{"gpuMemory":"80Gi"}'
check "a pod with a share" apply green busy "ringfence.io/gpu-memory=20Gi ringfence.io/gpu-compute=25" \
	"/ringfence/bin/gpu-demo --memory 10Gi --hold 60"
check "runs" eventually 30 phase_is green busy Running
for who in scraper stranger; do kubectl -n default create serviceaccount $who >/dev/null; done
kubectl create clusterrolebinding scraper --clusterrole=ringfence-metrics-reader --serviceaccount=default:scraper >/dev/null
node=$(node_of green busy)
address=$(system get pod "$(agent_of "$node")" -o jsonpath='{.status.podIP}'):9400
scrape() { # TOKEN: the answer, its status last
	on_node "$node" curl -sk --max-time 10 -w '%{http_code}\n' ${1:+-H "Authorization: Bearer $1"} "https://$address/metrics"
}
token=$(kubectl -n default create token scraper) other=$(kubectl -n default create token stranger)
says "nobody reads without a token" 401 scrape ""
says "nor with one that is not good" 401 scrape "${token%?????}aaaaa"
says "nor without the right to" 403 scrape "$other"
booked() { scrape "$token" | grep -q 'ringfence_container_gpu_memory_used_bytes{tenant="green",namespace="green",pod="busy",container="main",card="gpu-[01]",node="'"$node"'"} '$((10737418240 + context))'$'; }
context=$((524 << 20)) # of an H200
check "who may, reads what the pod has booked with its context, to the byte" eventually 20 booked
series() { scrape "$token" | grep "^ringfence_container_gpu_$1{.*pod=\"busy\""; }
says "its cap" "} 21474836480" series memory_cap_bytes
says "and its share of time" "} 0.250" series compute_allocated_ratio
says "the cards are there" 'ringfence_gpu_healthy{card="gpu-0"' scrape "$token"
says "and how many claims are held" "ringfence_node_claims{node=\"$node\"} 1" scrape "$token"
says "the probe needs no token" ok on_node "$node" curl -sk --max-time 10 "https://$address/healthz"
kubectl -n green delete pod busy --wait=false >/dev/null
gone() { scrape "$token" | (! grep 'pod="busy"') }
check "when the pod is gone its series are too" eventually 40 gone
done_testing
