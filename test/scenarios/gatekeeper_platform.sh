#!/bin/bash
# Policies and the platform's own work: what refuses everybody else must not stop control and the agents.
source "$(dirname "$0")/lib.sh"
on_kubernetes && { echo "ok 1 - # SKIP the embedded API server's promise"; echo "1..1"; exit 0; }
platform_up --simulate 1xH200

check "a policy that refuses all but the administrator is taken" kubectl create -f - <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: lock, namespace: ringfence-system, labels: {openpolicyagent.org/policy: rego}}
data:
  p.rego: |
    package kubernetes.admission

    deny contains "locked" if input.request.userInfo.username != "ringfence-admin"
END
check "tenants are still set up" kubectl apply -f tenants.yaml
check "and become ready" kubectl wait --for=condition=Ready --timeout=20s tenant/bank
refuses "who is no administrator is refused" \
	'admission webhook "validation.gatekeeper.sh" denied the request: [kubernetes.admission] locked' \
	kubectl create configmap -n bank x --as=system:serviceaccount:bank:ringfence-owner
check "a pod with a card is taken" kubectl apply -f train.yaml
check "is placed, run and ended" eventually 40 phase_is bank train Succeeded
check "and its card is free again" eventually 20 bash -c '[[ -z $(kubectl get resourceclaims -A -o name) ]]'
check "the policy can be deleted" kubectl -n ringfence-system delete configmap lock
check "and then refuses nothing" kubectl create configmap -n bank x --as=system:serviceaccount:bank:ringfence-owner
done_testing
