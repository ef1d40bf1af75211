#!/bin/bash
# The heart of the story on a machine with a real NVIDIA card: root, crun and a build are all it needs.
#   bench/real-card.sh [build folder, default build [options of "ringfence up", such as --simulate 1xH200]]
# Changes no setting of the card. Prints what each step did; ends with the number of steps that failed.
set -u
build=$(cd "${1:-build}" && pwd) || exit 1
shift
rf=$build/ringfence
[[ -x $rf ]] || { echo "there is no ringfence in $build; name the build folder" >&2; exit 1; }
work=$(mktemp -d /tmp/ringfence-card.XXXXXX)
chmod 755 "$work"
export KUBECONFIG=$work/kubeconfig
failed=0
trap 'kill -INT $up 2>/dev/null; wait $up 2>/dev/null; rm -rf "$work"' EXIT

step() { # step "promise" command...
	local promise=$1
	shift
	if "$@" >"$work/out" 2>&1; then echo "ok      $promise"; else
		echo "FAILED  $promise"
		failed=$((failed + 1))
	fi
	sed 's/^/          /' "$work/out" | tail -n 24
}
until_true() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
status_is() { "$rf" ps -n "$1" -o json | tr -d '\n ' | grep -q "\"pod\":\"$2\"[^}]*\"status\":\"$3\""; }
runs_out() { "$rf" run -n team-a --name greedy --memory 20Gi --compute 50 -- gpu-demo --memory 30Gi --step 1Gi; [[ $? == 3 ]]; }
ready() { [[ $("$rf" tenant -o json | grep -c '"ready": "yes"') == 3 ]]; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
start=$(date +%s%N)
"$rf" up --data "$work/data" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0 --kubeconfig "$KUBECONFIG" "$@" >"$work/up.log" 2>&1 &
up=$!
until_true grep -qx ready "$work/up.log" || { cat "$work/up.log" "$work"/data/log/*.log; exit 1; }
echo "ready after $((($(date +%s%N) - start) / 1000000)) ms"
[[ $# == 0 ]] && grep -q simulating "$work/up.log" && { echo "this machine has no card"; exit 1; }
step "the card is published" "$rf" gpus
step "tenants that share" "$rf" tenant create team-a --isolation share --trust-domain research --gpu-memory 100Gi
step "tenants that share" "$rf" tenant create team-b --isolation share --trust-domain research --gpu-memory 100Gi
step "a tenant that does not" "$rf" tenant create bank --gpus 1
step "tenants become ready" until_true ready

"$rf" run -d -n team-b --name steady --memory 40Gi --compute 50 -- gpu-demo --memory 30Gi --hold 12 >/dev/null
step "a share of 40 GiB runs" until_true status_is team-b steady Running
step "its neighbour runs out at its cap of 20 GiB" runs_out
step "while the first goes on" status_is team-b steady Running
step "a whole card is asked for" "$rf" run -d -n bank --name whole --gpus 1 -- gpu-demo --memory 100Gi
step "the tools see the share as the card" "$rf" run -n team-a --memory 10Gi -- nvidia-smi --query-gpu=name,memory.total --format=csv,noheader
waits() { status_is team-b steady Running && status_is bank whole Pending; }
step "the whole card waits while a share runs" waits
step "a share ends well" until_true status_is team-b steady Completed
step "then the whole card runs and ends well" until_true status_is bank whole Completed
around() { ! "$rf" run -n team-a --name around --memory 1Gi -- sh -c 'unset LD_PRELOAD; exec gpu-demo --memory 8Gi --hold 20'; }
step "going around the fence is found and ended" around
step "and told" "$rf" why team-a/around

# Sharing by MPS: one daemon of NVIDIA's for the pods of one trust domain.
home=$work/data/node/mps/0
key() { awk -v k="$1-data:" '$1 == k {print $2}' "$KUBECONFIG" | base64 -d; }
for f in certificate-authority client-certificate client-key; do key $f >"$work/$f"; done
api() { # api METHOD PATH TYPE JSON
	curl -sf --cacert "$work/certificate-authority" --cert "$work/client-certificate" --key "$work/client-key" \
		-X "$1" -H "Content-Type: $3" -d "$4" "$(awk '$1 == "server:" {print $2}' "$KUBECONFIG")$2" >/dev/null
}
daemon() { pgrep -f "nvidia-cuda-mps-control -f" | while read -r p; do
	tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qxF "CUDA_MPS_PIPE_DIRECTORY=$home/pipe" && echo "$p"; done; }
processes() { grep -lsaF "CUDA_MPS_PIPE_DIRECTORY=$home/" /proc/[0-9]*/environ | cut -d/ -f3; }
ready_five() { [[ $("$rf" tenant -o json | grep -c '"ready": "yes"') == 5 ]]; }
say() { "$rf" run -n "$1" --rm --memory "$2" --compute 20 -- sh -c "$3"; }
step "a pool that shares by MPS" api POST /apis/ringfence.io/v1alpha1/gpupools application/json \
	'{"apiVersion":"ringfence.io/v1alpha1","kind":"GPUPool","metadata":{"name":"together"},"spec":{"sharing":"mps"}}'
node=$("$rf" gpus -o json | awk -F'"' '$2 == "node" {print $4; exit}')
step "with this machine in it" api PATCH "/api/v1/nodes/$node" application/merge-patch+json '{"metadata":{"labels":{"ringfence.io/pool":"together"}}}'
step "tenants that agree to a common fate" "$rf" tenant create co-a --isolation cooperative --trust-domain research --gpu-memory 60Gi
step "tenants that agree to a common fate" "$rf" tenant create co-b --isolation cooperative --trust-domain research --gpu-memory 60Gi
step "they become ready" until_true ready_five
sleep 2 # the agent has heard of the pool
"$rf" run -d -n co-a --name one --memory 20Gi --compute 40 -- gpu-demo --info --memory 4Gi --hold 60 >/dev/null
"$rf" run -d -n co-b --name two --memory 20Gi --compute 40 -- gpu-demo --info --memory 4Gi --hold 60 >/dev/null
step "a pod runs" until_true status_is co-a one Running
step "and its neighbour" until_true status_is co-b two Running
step "by one daemon" test "$(daemon | wc -l)" = 1
clients() { nvidia-smi; [[ $(nvidia-smi | grep -c " M+C .*gpu-demo") == 2 ]]; }
step "as its clients, as the card says" until_true clients
step "a pod sees the programs' socket alone" say co-a 4Gi 'ls -lA /ringfence/mps; [ "$(ls -A /ringfence/mps)" = control ]'
step "which takes no orders from it" say co-a 4Gi 'echo quit | timeout 5 nvidia-cuda-mps-control 2>&1 | grep privilege'
step "the daemon lives" test "$(daemon | wc -l)" = 1
step "what a share of 8 GiB has for itself" say co-a 8Gi 'gpu-demo --info --memory 9Gi --step 4Mi --expect-oom'
old=$(daemon)
kill -9 "$old"
died() { "$rf" why "$1" | grep "MPS daemon of card gpu-0 has died"; }
step "a daemon that dies takes its pods along, and that is said" until_true died co-a/one
step "of both" until_true died co-b/two
step "the next one serves the next pod" say co-b 8Gi 'gpu-demo --info --memory 2Gi --loops 100'
step "when all have gone nothing is left" until_true test -z "$(sleep 5; processes)"
[[ -z $(processes) ]] || { ps -o pid,args -p $(processes | paste -sd,); cat "$home"/log/*; }
step "the card serves others again" "$rf" run -n team-a --memory 10Gi -- gpu-demo --info --loops 100
for p in $up $(pgrep -P $up); do awk -v n="$(tr '\0' ' ' <"/proc/$p/cmdline" | awk '{print $2}')" '/^VmRSS/ {printf "%-10s %d kB resident\n", n, $2}' "/proc/$p/status"; done
echo "$failed steps failed"
exit $((failed > 0))
