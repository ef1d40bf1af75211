#!/bin/bash
# Takes ringfence off the cluster as docs/kubernetes.md says; the cluster goes on without it.
source "$(dirname "$0")/lib.sh"

check "a tenant is there" tenant leaving '"quota":{"gpus":1}'
check "tenants go first" kubectl delete tenants --all --timeout=60s
check "their namespaces are gone" eventually 30 bash -c '! kubectl get namespace leaving'
check "then the rest" kubectl delete -k "$root/test/kubernetes/deploy" --timeout=120s
check "nothing of it is left" bash -c \
	"! kubectl get crd,clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingwebhookconfiguration,mutatingwebhookconfiguration,deviceclass,namespace -o name | grep -E '(^|[/.-])ringfence'"
check "the kubelets wipe the slices" eventually 90 bash -c '[[ -z $(kubectl get resourceslices --no-headers 2>/dev/null) ]]'
pod default plain "" true | kubectl apply -f - >/dev/null
check "and a plain pod runs as ever" succeeds 40 default plain
kubectl -n default delete pod plain --wait=false >/dev/null
echo "1..$tap"
exit $((bad > 0))
