#!/bin/bash
# Every component is killed while pods with cards come and go: nothing is lost, no card is given twice, and
# within seconds all is well again.
source "$(dirname "$0")/lib.sh"
demo=/ringfence/bin/gpu-demo
trap 'touch "$work/stop"; wait $feeder $watcher 2>/dev/null; cleanup' EXIT

check "a tenant that shares comes" tenant churn '"isolation":"share","quota":{"gpuMemory":"1000Gi"}'
check "and one that trusts nobody" tenant alone '"quota":{"gpus":4}'

# Pods come and go: shares as plain pods, whole cards as Jobs by way of the device plugin.
job() { # N
	pod alone "job-$1" nvidia.com/gpu=1 "$demo --info | grep -o GPU-[0-9a-f-]*; date +%s; $demo --memory 1Gi --hold 2; date +%s" |
		sed 's/"kind":"Pod"/"kind":"Job"/; s/"apiVersion":"v1"/"apiVersion":"batch\/v1"/; s/"spec":{/"spec":{"backoffLimit":20,"template":{"spec":{/; s/}$/}}}/' |
		kubectl apply -f -
}
feed() {
	local n=0
	while [[ ! -e $work/stop ]]; do
		n=$((n + 1))
		until apply churn "share-$n" "ringfence.io/gpu-memory=10Gi ringfence.io/gpu-compute=10" "$demo --memory 9Gi --hold 1" >/dev/null 2>&1; do
			[[ ! -e $work/stop ]] || return
			sleep 0.5
		done
		echo "share-$n" >>"$work/fed"
		((n % 4)) || { job "$n" >/dev/null 2>&1 && echo "job-$n" >>"$work/jobs"; }
		sleep 0.8
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

probe=0
# well NODE: a new pod with a share runs there (or anywhere) to its end; says how long that took.
well() {
	local began=$SECONDS where=
	probe=$((probe + 1))
	[[ -z $1 ]] || where=",\"nodeSelector\":{\"kubernetes.io/hostname\":\"$1\"}"
	eventually 30 apply churn "probe-$probe" "ringfence.io/gpu-memory=1Gi" "$demo --info" "$where" || return 1
	succeeds 60 churn "probe-$probe" || return 1
	echo "# well again after $((SECONDS - began)) s" >&3
}
exec 3>&1
for n in 1 2; do
	for what in kubelet containerd; do
		check "$what of node $n is killed" bed kill $what $n
		sleep 2
		check "and started again" bed start $what $n
		check "pods with cards run there again" well gpu-node-$n
	done
	check "the agent of node $n is killed" bed node $n sh -c "kill -9 \$(pgrep -f 'ringfence node' | head -n 1)"
	check "pods with cards run there again" well gpu-node-$n
done
for what in kube-apiserver etcd kube-controller-manager kube-scheduler; do
	check "$what is killed" bed kill $what
	sleep 2
	check "and started again" bed start $what
	check "pods with cards run again" well ""
done
for n in 1 2; do
	check "control on node $n is killed" bed node $n sh -c "kill -9 \$(pgrep -f 'ringfence control' | head -n 1)"
	check "pods with cards run again" well ""
done
touch "$work/stop"
wait $feeder $watcher
fed=$(wc -l <"$work/fed") jobs=$(wc -l <"$work/jobs")
check "pods came and went all the time ($fed pods, $jobs jobs)" test "$fed" -gt 30 -a "$jobs" -gt 7

all_succeeded() { ! kubectl -n churn get pods --no-headers | grep -v Completed; }
check "every pod that was accepted ran to its end" eventually 90 all_succeeded
check "none is missing" is "$(kubectl -n churn get pods --no-headers | grep -c '^share-')" "$fed"
jobs_done() { is "$(kubectl -n alone get jobs -o jsonpath='{range .items[*]}{.status.succeeded}{"\n"}{end}' | grep -c 1)" "$jobs"; }
check "and every job" eventually 120 jobs_done
check "no card had two tenants or was promised twice ($(wc -l <"$work/looks") looks)" bash -c "! grep . '$work/violations'"
# What the jobs themselves saw: card, begin, end. Two may not have been on one card at one time.
for p in $(kubectl -n alone get pods -o name); do
	kubectl -n alone logs "$p" 2>/dev/null | tr '\n' ' '
	echo
done | awk 'NF >= 3 { for (i = 1; i <= NF; i++) if ($i ~ /^GPU-/) uuid = $i; begin = $(NF - 1); end = $NF; if (begin ~ /^[0-9]+$/ && end ~ /^[0-9]+$/) print uuid, begin, end }' | sort >"$work/spans"
check "the jobs tell when they had which card" test "$(wc -l <"$work/spans")" -ge "$jobs"
check "and no two had one at one time" awk '$1 == card && $2 < last { print "overlap on", $1, "at", $2; bad = 1 } { card = $1; if ($3 > last || $1 != card) last = $3 } { card = $1; last = $3 } END { exit bad }' "$work/spans"
check "nothing is held in the end" eventually 60 no_claims
done_testing
