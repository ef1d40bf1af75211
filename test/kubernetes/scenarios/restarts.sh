#!/bin/bash
# Every component is killed while pods with cards come and go: nothing is lost, no card is given twice, and
# within seconds all is well again.
source "$(dirname "$0")/lib.sh"
demo=/ringfence/bin/gpu-demo
trap 'touch "$work/stop"; wait $feeder $watcher 2>/dev/null; cleanup' EXIT

check "a tenant that shares comes" tenant churn '"isolation":"share","quota":{"gpuMemory":"1000Gi"}'
check "and one that trusts nobody" tenant alone '"quota":{"gpus":4}'

# Jobs come and go: shares through DRA, whole cards through the device plugin. Jobs, because a kubelet fails pods
# whose container ends while containerd is away, and those it cannot get a device for: Jobs make them anew.
job() { # NS NAME LIMITS COMMAND
	pod "$@" | sed 's/"kind":"Pod"/"kind":"Job"/; s/"apiVersion":"v1"/"apiVersion":"batch\/v1"/; s/"spec":{/"spec":{"backoffLimit":50,"template":{"spec":{/; $s/$/}}/' |
		kubectl apply -f -
}
underway() { kubectl get jobs -A --no-headers 2>/dev/null | grep -vc Complete; }
feed() {
	local n=0
	while [[ ! -e $work/stop ]]; do
		sleep 0.5
		(($(underway) < 10)) || continue
		n=$((n + 1))
		until if ((n % 4)); then
			job churn "share-$n" "ringfence.io/gpu-memory=10Gi ringfence.io/gpu-compute=10" "$demo --memory 9Gi --hold 1"
		else
			job alone "whole-$n" nvidia.com/gpu=1 "$demo --info | grep -o GPU-[0-9a-f-]*; date +%s; $demo --memory 1Gi --hold 2 >/dev/null; date +%s"
		fi >/dev/null 2>&1; do
			[[ ! -e $work/stop ]] || return
			sleep 0.5
		done
		echo $n >>"$work/fed"
	done
}
# Looks at all claims again and again: a card has one tenant, and no more is granted than it has.
watch_claims() {
	while [[ ! -e $work/stop ]]; do
		kubectl get resourceclaims -A -o json >"$work/claims" 2>/dev/null && python3 - "$work/claims" >>"$work/violations" <<-'END'
			import json, sys
			units = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}
			def size(s): return int(s[:-2]) * units[s[-2:]] if s[-2:] in units else int(s)
			cards = {}
			for c in json.load(open(sys.argv[1]))["items"]:
			    for r in (c.get("status", {}).get("allocation") or {}).get("devices", {}).get("results", []):
			        cards.setdefault((r["pool"], r["device"]), []).append(
			            (c["metadata"]["annotations"]["ringfence.io/tenant"], size(r["consumedCapacity"]["memory"]), c["metadata"]["name"]))
			for card, held in cards.items():
			    if len({t for t, _, _ in held}) > 1 or sum(b for _, b, _ in held) > 143771 << 20:
			        print(card, held)
			END
		echo . >>"$work/looks"
		sleep 0.2
	done
}
: >"$work/violations"
feed & feeder=$!
watch_claims & watcher=$!

# well NAME [NODE]: a new pod with a share runs there (or anywhere) to its end; says how long that took.
well() {
	local began=$SECONDS where=
	[[ -z ${2:-} ]] || where=",\"nodeSelector\":{\"kubernetes.io/hostname\":\"$2\"}"
	eventually 30 apply churn "$1" "ringfence.io/gpu-memory=1Gi" "$demo --info" "$where" ||
		{ apply churn "$1" "ringfence.io/gpu-memory=1Gi" "$demo --info" "$where"; return 1; }
	succeeds 60 churn "$1" || return 1
	echo "# well again after $((SECONDS - began)) s" >&3
}
exec 3>&1
for n in 1 2; do
	for what in kubelet containerd; do
		check "$what of node $n is killed" bed kill $what $n
		sleep 2
		check "and started again" bed start $what $n
		check "pods with cards run there again" well "after-$what-$n" gpu-node-$n
	done
	check "the agent of node $n is killed" bed node $n sh -c "kill -9 \$(pgrep -f 'ringfence node' | head -n 1)"
	check "pods with cards run there again" well "after-agent-$n" gpu-node-$n
done
for what in kube-apiserver etcd kube-controller-manager kube-scheduler; do
	check "$what is killed" bed kill $what
	sleep 2
	check "and started again" bed start $what
	check "pods with cards run again" well "after-$what"
done
for n in 1 2; do
	check "control on node $n is killed" bed node $n sh -c "kill -9 \$(pgrep -f 'ringfence control' | head -n 1)"
	check "pods with cards run again" well "after-control-$n"
done
touch "$work/stop"
wait $feeder $watcher
fed=$(wc -l <"$work/fed")
check "jobs came and went all the time ($fed of them)" test "$fed" -gt 40
all_done() { is "$(kubectl get jobs -A --no-headers | grep -c Complete)" "$fed"; }
eventually 120 all_done
check "every job that was accepted ran to its end" all_done
((bad)) && kubectl get jobs,pods -A | grep -v Complete | sed 's/^/# /'
echo "# pods that had to be made anew: $(kubectl get pods -A --field-selector status.phase=Failed --no-headers 2>/dev/null | wc -l)"
kubectl get pods -A --field-selector status.phase=Failed -o jsonpath='{range .items[*]}{.metadata.name} {.status.reason} {.status.containerStatuses[0].state.terminated.reason}{"\n"}{end}' | sed 's/^/#   /'
check "no card had two tenants or was promised twice ($(wc -l <"$work/looks") looks)" bash -c "! grep . '$work/violations'"
# What the jobs themselves saw: card, begin, end. Two may not have been on one card at one time.
for p in $(kubectl -n alone get pods -o name); do
	kubectl -n alone logs "$p" 2>/dev/null | tr '\n' ' '
	echo
done | awk 'NF == 3 && $1 ~ /^GPU-/' | sort -k1,1 -k2,2n >"$work/spans"
check "the jobs tell when they had which card" test "$(wc -l <"$work/spans")" -ge $((fed / 4))
check "and no two had one at one time" awk '$1 == card && $2 < end { print "two at once:", $0; bad = 1 } { card = $1; end = $3 } END { exit bad }' "$work/spans"
check "nothing is held in the end" eventually 60 no_claims
done_testing
