#!/bin/bash
# kill -9 of each process in the middle of the story: nothing acknowledged is lost, no pod is started
# twice, no card is given twice, and everything is well again by itself.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 2xH200
kubectl apply -f tenants.yaml >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/bank tenant/lab tenant/team-a >/dev/null

# Watches throughout: two strangers on one card would show as "bank,lab".
(while sleep 0.05; do "$RINGFENCE" gpus -o json 2>/dev/null | grep '"tenants": "[^"]*,' >>"$work/met"; done) &
observer=$!

# A program writes one line "device 0" per start to its log: that counts the starts.
sed 's/"--hold", "5"/"--hold", "12"/' train.yaml | kubectl apply -f - >/dev/null
eventually 20 phase_is bank train Running || not_ok "the pod runs"

for victim in apiserver control node; do
	pid=$(child_pid "$victim")
	kubectl -n team-a create configmap "before-$victim" --from-literal=a=b >/dev/null
	kill -9 "$pid"
	check "$victim comes back" eventually 10 bash -c "pid=\$(pgrep -P $up_pid -f 'ringfence $victim ' | head -n 1); [[ -n \$pid && \$pid != $pid ]]"
	check "the API answers" eventually 10 kubectl get --raw /readyz
	check "what was acknowledged before the crash is there" eventually 5 kubectl -n team-a get configmap "before-$victim"
	check "the running pod was not disturbed" phase_is bank train Running
done
check "it ends well" eventually 40 phase_is bank train Succeeded
check "it was started once" test "$(kubectl -n bank logs train | grep -c '^device 0')" = 1

# Kill each process at random moments while pods of two strangers come and go.
for round in 1 2 3 4 5 6; do
	for t in bank lab; do
		sed -e "s/name: train/name: job-$round/" -e "s/namespace: bank/namespace: $t/" -e 's/"--hold", "5"/"--hold", "1"/' \
			train.yaml >"$work/job.yaml"
		check "round $round: a pod of $t is accepted" eventually 20 kubectl apply -f "$work/job.yaml"
	done
	victim=$(printf 'apiserver\ncontrol\nnode\n' | sed -n "$((round % 3 + 1))p")
	sleep "0.$((RANDOM % 5))"
	pid=$(child_pid "$victim") && kill -9 "$pid"
	for t in bank lab; do
		check "round $round ($victim killed): the pod of $t ends well" eventually 40 phase_is "$t" "job-$round" Succeeded
		check "round $round: it was started once" test "$(kubectl -n "$t" logs "job-$round" | grep -c '^device 0')" = 1
	done
done
kill "$observer"
wait "$observer" 2>/dev/null
check "two strangers never met on a card" test ! -s "$work/met"
check "no container is left behind" bash -c '! pgrep -f "[r]ingfence shim .*'"$work"'"'
check "cards are free again" eventually 20 bash -c "! $RINGFENCE gpus -o json | grep -q '\"tenants\": \"[a-z]'"

# kill -9 of the supervisor: its children end, and the next start carries on.
kill -9 "$up_pid"
wait "$up_pid" 2>/dev/null
check "children end with their supervisor" eventually 10 bash -c '! pgrep -f "[r]ingfence (apiserver|control|node) .*'"$work"'"'
up_pid=
platform_start --simulate 2xH200
check "the next start has everything" test $? = 0
check "tenants are still there" kubectl get tenant bank lab
done_testing
