#!/bin/bash
# Ctrl-C with a pod running, and what the next start finds.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 2xH200

check "tenants are accepted" kubectl apply -f tenants.yaml
check "a tenant becomes ready" kubectl wait --for=condition=Ready --timeout=20s tenant/bank
sed 's/"--hold", "5"/"--hold", "100"/' train.yaml | sed 's/name: train/name: endless/' | kubectl apply -f - >/dev/null
check "a pod runs when Ctrl-C is pressed" eventually 20 phase_is bank endless Running
platform_stop
check "Ctrl-C stops it cleanly" test $? = 0
check "and nothing is left running" bash -c '! pgrep -f "[r]ingfence .*'"$work"'"'
platform_start --simulate 2xH200
check "the data stays and the next start has it" test $? = 0
check "tenants are still there" kubectl get tenant team-a team-b bank
says "the pod's end is told with its reason" NodeShutdown kubectl -n bank get pod endless -o jsonpath='{.status.reason}'
done_testing
