#!/bin/bash
# The heart of the story on a machine with a real NVIDIA card: root, crun and a build are all it needs.
#   bench/real-card.sh [build folder, default build]
# Changes no setting of the card. Prints what each step did; ends with the number of steps that failed.
set -u
build=$(cd "${1:-build}" && pwd)
rf=$build/ringfence
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
	sed 's/^/          /' "$work/out" | tail -n 8
}
until_true() { for _ in $(seq 200); do "$@" >/dev/null 2>&1 && return 0; sleep 0.1; done; return 1; }
status_is() { "$rf" ps -n "$1" -o json | tr -d '\n ' | grep -q "\"pod\":\"$2\"[^}]*\"status\":\"$3\""; }
runs_out() { "$rf" run -n team-a --name greedy --memory 20Gi --compute 50 -- gpu-demo --memory 30Gi --step 1Gi; [[ $? == 3 ]]; }
ready() { [[ $("$rf" tenant -o json | grep -c '"ready": "yes"') == 3 ]]; }

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
start=$(date +%s%N)
"$rf" up --data "$work/data" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0 --kubeconfig "$KUBECONFIG" >"$work/up.log" 2>&1 &
up=$!
until_true grep -qx ready "$work/up.log" || { cat "$work/up.log" "$work"/data/log/*.log; exit 1; }
echo "ready after $((($(date +%s%N) - start) / 1000000)) ms"
grep -q simulating "$work/up.log" && { echo "this machine has no card"; exit 1; }
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
for p in $up $(pgrep -P $up); do awk -v n="$(tr '\0' ' ' <"/proc/$p/cmdline" | awk '{print $2}')" '/^VmRSS/ {printf "%-10s %d kB resident\n", n, $2}' "/proc/$p/status"; done
echo "$failed steps failed"
exit $((failed > 0))
