#!/bin/bash
# Two platforms on one machine, each with its own data folder and ports.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 1xH200
first=$KUBECONFIG second=$work/kubeconfig-2
"$RINGFENCE" up --data "$work/data-2" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0 --simulate 1xA100 \
	--kubeconfig "$second" >"$work/up-2.log" 2>&1 &
second_pid=$!
check "a second platform becomes ready beside the first" eventually 20 grep -qx ready "$work/up-2.log"
check "they have different ports" test \
	"$(kubectl config view -o jsonpath='{.clusters[0].cluster.server}')" != \
	"$(kubectl --kubeconfig "$second" config view -o jsonpath='{.clusters[0].cluster.server}')"
refuses "a third on the same data folder is refused" "another ringfence runs on" \
	"$RINGFENCE" up --data "$work/data" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0
for config in "$first" "$second"; do
	export KUBECONFIG=$config
	kubectl apply -f tenants.yaml >/dev/null
	kubectl wait --for=condition=Ready --timeout=20s tenant/team-a >/dev/null
done
check "a pod of the first sees the first's card" bash -c \
	"'$RINGFENCE' run --kubeconfig '$first' -n team-a --memory 1Gi -- gpu-demo --info | grep -q H200"
check "a pod of the second sees the second's" bash -c \
	"'$RINGFENCE' run --kubeconfig '$second' -n team-a --memory 1Gi -- gpu-demo --info | grep -q A100"
refuses "the administrator of one is a stranger to the other" "certificate" \
	curl -sS --cacert <(kubectl --kubeconfig "$first" config view --raw -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' | base64 -d) \
	"$(kubectl --kubeconfig "$second" config view -o jsonpath='{.clusters[0].cluster.server}')/version"
kill -INT "$second_pid"
wait "$second_pid"
check "the second stops cleanly" test $? = 0
export KUBECONFIG=$first
check "and the first goes on" kubectl get --raw /readyz
done_testing
