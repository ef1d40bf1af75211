#!/bin/bash
# A hostile tenant with its own kubeconfig, and a stranger on the network, against the API: a list of
# attempts that must fail. What they do inside a pod is not tried here.
source "$(dirname "$0")/lib.sh"
if ! command -v curl >/dev/null; then
	echo "ok 1 - # SKIP no curl here"
	echo "1..1"
	rm -rf "$work"
	exit 0
fi
platform_up --simulate 2xH200
kubectl apply -f tenants.yaml >/dev/null
for t in team-a team-b bank lab; do kubectl wait --for=condition=Ready --timeout=20s "tenant/$t" >/dev/null; done

# --- tools --------------------------------------------------------------------------------------
in_config() { kubectl config view --minify --raw -o "jsonpath=$1"; }
url=$(in_config '{.clusters[0].cluster.server}')
in_config '{.clusters[0].cluster.certificate-authority-data}' | base64 -d >"$work/ca"
take_token() {
	"$RINGFENCE" tenant kubeconfig team-a >"$work/tenant"
	token=$(sed -n 's/.*token: //p' "$work/tenant")
}
take_token
# as TOKEN METHOD PATH [curl options]: prints the body, then the status on a line of its own. $type is
# what the body is, if not JSON.
as() {
	local bearer=$1 method=$2 path=$3
	shift 3
	curl -sS --max-time 20 --path-as-is --cacert "$work/ca" -X "$method" -w '\n%{http_code}\n' \
		-H "Authorization: Bearer $bearer" -H "Content-Type: application/${type:-json}" "$@" "$url$path"
}
tenant() { as "$token" "$@"; }
# answers "promise" STATUS command...: passes when the answer's status is one of those, "403|404".
answers() {
	local promise=$1 wanted=$2 out
	shift 2
	out=$("$@" 2>&1)
	if [[ ${out##*$'\n'} =~ ^($wanted)$ ]]; then ok "$promise"; else
		not_ok "$promise (not $wanted)"
		printf '%s\n' "\$ $*" "$out" | tail -c 1000 | sed 's/^/# /'
	fi
}
# pod NAME SPEC [CONTAINER [METADATA]]: a pod that pod security lets pass, with more JSON in each place.
secure='"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}'
pod() {
	printf '{"metadata": {"name": "%s"%s}, "spec": {"restartPolicy": "Never"%s, "containers": [{"name": "c", "image": "host", "command": ["sleep", "100"]%s}]}}' \
		"$1" "${4:+, $4}" "${2:+, $2}" "${3:+, $3}"
}
good() { pod "$1" "${2:-}" "\"securityContext\": {$secure}${3:+, $3}" "${4:-}"; }
pods=/api/v1/namespaces/team-a/pods
answers "an ordinary pod is let in" 201 tenant POST $pods -d "$(good mine)"

# --- other people's objects ---------------------------------------------------------------------
kubectl -n bank create secret generic vault --from-literal=pin=4711 >/dev/null
kubectl -n bank create configmap books >/dev/null
for path in /api/v1/pods /api/v1/secrets /api/v1/nodes /api/v1/namespaces /api/v1/namespaces/bank \
	/api/v1/namespaces/bank/pods /api/v1/namespaces/bank/secrets /api/v1/namespaces/bank/secrets/vault \
	/api/v1/namespaces/bank/pods/x/log /apis/ringfence.io/v1alpha1/tenants \
	/apis/resource.k8s.io/v1/resourceclaims /apis/resource.k8s.io/v1/resourceslices \
	/apis/rbac.authorization.k8s.io/v1/clusterroles /metrics; do
	answers "GET $path" '403|404' tenant GET "$path"
	answers "watch $path" '403|404|405' tenant GET "$path?watch=1&timeoutSeconds=1"
	answers "the metadata of $path" '403|404' tenant GET "$path" -H 'Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1'
done
for path in /api/v1/namespaces/bank/secrets/vault /api/v1/namespaces/bank /apis/ringfence.io/v1alpha1/tenants/bank; do
	for method in PUT PATCH DELETE; do answers "$method $path" 403 tenant $method "$path" -d '{}'; done
done
answers "deleting all of another's secrets" 403 tenant DELETE /api/v1/namespaces/bank/secrets
answers "a path that climbs" 400 tenant GET /api/v1/namespaces/team-a/../bank/secrets
answers "a path that climbs, encoded" 400 tenant GET /api/v1/namespaces/team-a%2f..%2fbank/secrets
says "a field selector reaches no other namespace" '"items":[]' \
	tenant GET '/api/v1/namespaces/team-a/secrets?fieldSelector=metadata.namespace%3Dbank'
answers "an object for another namespace" 400 tenant POST $pods -d "$(good x '' '' '"namespace": "bank"')"
answers "a token for another's account" 403 tenant POST /api/v1/namespaces/bank/serviceaccounts/default/token -d '{}'
answers "being the administrator" 403 tenant GET /api/v1/secrets -H 'Impersonate-User: ringfence-admin' -H 'Impersonate-Group: system:masters'
answers "being another tenant" 403 tenant GET /api/v1/namespaces/bank/secrets -H 'Impersonate-User: system:serviceaccount:bank:ringfence-owner'
answers "being what a proxy says" 403 tenant GET /api/v1/secrets -H 'X-Remote-User: ringfence-admin' -H 'X-Remote-Group: system:masters'

# --- more rights than were given ----------------------------------------------------------------
rbac=/apis/rbac.authorization.k8s.io/v1
answers "a role of one's own" 403 tenant POST $rbac/namespaces/team-a/roles -d '{"metadata": {"name": "r"}, "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}'
answers "a binding to cluster-admin" 403 tenant POST $rbac/namespaces/team-a/rolebindings -d '{"metadata": {"name": "r"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}'
answers "a cluster role binding" 403 tenant POST $rbac/clusterrolebindings -d '{"metadata": {"name": "r"}, "roleRef": {"kind": "ClusterRole", "name": "cluster-admin"}}'
answers "a namespace" 403 tenant POST /api/v1/namespaces -d '{"metadata": {"name": "mine"}}'
answers "deleting one's namespace" 403 tenant DELETE /api/v1/namespaces/team-a
type=merge-patch+json answers "another pod security label" 403 tenant PATCH /api/v1/namespaces/team-a -d '{"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}'
answers "another quota" 403 tenant PATCH /api/v1/namespaces/team-a/resourcequotas/ringfence -d '{}'
answers "no quota" 403 tenant DELETE /api/v1/namespaces/team-a/resourcequotas/ringfence
answers "a Tenant that says more" 403 tenant PATCH /apis/ringfence.io/v1alpha1/tenants/team-a -d '{}'
answers "a claim of one's own" 403 tenant POST /apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims -d '{"metadata": {"name": "mine-12345678"}}'
answers "the scheduler's lease" 403 tenant PUT /apis/coordination.k8s.io/v1/namespaces/ringfence-system/leases/ringfence-control -d '{}'
answers "a false event" 403 tenant POST /api/v1/namespaces/team-a/events -d '{}'
answers "a token that never ends" 422 tenant POST /api/v1/namespaces/team-a/serviceaccounts/default/token -d '{"spec": {"expirationSeconds": 99999999999}}'

# --- a pod's life is not its owner's to write ---------------------------------------------------
type=merge-patch+json answers "a pod's status" 403 tenant PATCH $pods/mine/status -d '{"status": {"phase": "Succeeded"}}'
type=merge-patch+json tenant PATCH $pods/mine -d '{"status": {"phase": "Succeeded"}, "metadata": {"creationTimestamp": "1999-01-01T00:00:00Z"}}' >/dev/null
check "a status by the back door changes nothing" bash -c "! kubectl -n team-a get pod mine -o json | grep -qE 'Succeeded|1999'"
answers "a binding" 403 tenant POST $pods/mine/binding -d '{"target": {"kind": "Node", "name": "x"}}'
answers "a pod that names its node" 403 tenant POST $pods -d "$(good x '"nodeName": "x"')"
type=strategic-merge-patch+json answers "more cards for a pod that runs" 422 tenant PATCH $pods/mine \
	-d '{"spec": {"containers": [{"name": "c", "resources": {"limits": {"ringfence.io/gpu": "1"}}}]}}'
type=json-patch+json answers "privileges for a pod that runs" 422 tenant PATCH $pods/mine \
	-d '[{"op": "add", "path": "/spec/containers/0/securityContext/privileged", "value": true}]'
type=merge-patch+json answers "an ephemeral container" '404|422' tenant PATCH $pods/mine/ephemeralcontainers -d '{}'

# --- pod security -------------------------------------------------------------------------------
for spec in '"hostNetwork": true' '"hostPID": true' '"hostIPC": true' '"securityContext": {"runAsUser": 0}' \
	'"volumes": [{"name": "v", "hostPath": {"path": "/"}}]' '"volumes": [{"name": "v", "nfs": {"server": "x", "path": "/"}}]' \
	'"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]' \
	'"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}' \
	'"initContainers": [{"name": "i", "image": "host", "securityContext": {"privileged": true}}]'; do
	answers "a pod with $spec" 403 tenant POST "$pods?dryRun=All" -d "$(good x "$spec")"
done
for context in '"privileged": true' '"allowPrivilegeEscalation": null' '"runAsUser": 0' '"runAsNonRoot": false' \
	'"procMount": "Unmasked"' '"capabilities": {"drop": ["ALL"], "add": ["SYS_ADMIN"]}' '"capabilities": {"drop": ["all"]}' \
	'"seccompProfile": {"type": "Unconfined"}' '"windowsOptions": {"hostProcess": true}'; do
	key=${context%%:*}
	rest=$(sed "s/$key: \(false\|true\|{[^}]*}\)\(, \)\?//; s/, \$//" <<<"$secure")
	answers "a container with $context" 403 tenant POST "$pods?dryRun=All" -d "$(pod x '' "\"securityContext\": {$rest, $context}")"
done
for spec in '"securityContext": {"runAsUser": -1}' '"securityContext": {"runAsUser": 4294967296}' \
	'"securityContext": {"supplementalGroups": [4294967296]}' '"overhead": {"cpu": "-100"}' \
	'"ephemeralContainers": [{"name": "e", "image": "host"}]'; do
	answers "a pod with $spec" 422 tenant POST "$pods?dryRun=All" -d "$(good x "$spec")"
done
answers "a key that is there twice" 400 tenant POST "$pods?dryRun=All" \
	-d "$(pod x '' "\"securityContext\": {$secure, \"allowPrivilegeEscalation\": true}")"

# --- quota --------------------------------------------------------------------------------------
limits() { echo "\"resources\": {\"limits\": {$1}}"; }
for ask in '"ringfence.io/gpu-memory": "-1Gi"' '"ringfence.io/gpu-memory": "0.5"' '"ringfence.io/gpu-memory": "1e30"' \
	'"ringfence.io/gpu-memory": "9223372036854775807"' '"ringfence.io/gpu-memory": ""' '"ringfence.io/gpus": "1"' \
	'"ringfence.io/gpu-compute": "10"' '"ringfence.io/gpu-memory": "1Gi", "ringfence.io/gpu": "1"'; do
	answers "asking for $ask" 422 tenant POST "$pods?dryRun=All" -d "$(good x '' "$(limits "$ask")")"
done
answers "a request without a limit" 422 tenant POST "$pods?dryRun=All" -d "$(good x '' '"resources": {"requests": {"ringfence.io/gpu-memory": "1Gi"}}')"
answers "cards by an init container" 422 tenant POST "$pods?dryRun=All" \
	-d "$(good x "\"initContainers\": [{\"name\": \"i\", \"image\": \"host\", \"securityContext\": {$secure}, $(limits '"ringfence.io/gpu-memory": "1Gi"')}]")"
many=
for i in 1 2 3 4 5 6 7 8 9; do
	many+="${many:+, }{\"name\": \"c$i\", \"image\": \"host\", \"securityContext\": {$secure}, $(limits '"ringfence.io/gpu-memory": "1Pi"')}"
done
answers "containers whose sum is past all numbers" 403 tenant POST $pods -d "{\"metadata\": {\"name\": \"wrap\"}, \"spec\": {\"containers\": [$many]}}"
says "and the quota is as it was" '"requests.ringfence.io/gpu-memory":"0"' tenant GET /api/v1/namespaces/team-a/resourcequotas/ringfence
for i in $(seq 30); do
	tenant POST $pods -d "$(good "race-$i" '"nodeSelector": {"kubernetes.io/hostname": "nowhere"}' "$(limits '"ringfence.io/gpu-memory": "20Gi"')")" | tail -n 1 >"$work/race-$i" &
	racers[i]=$!
done
wait "${racers[@]}"
check "of thirty at once, the quota lets three in" test "$(cat "$work"/race-* | grep -c 201)" = 3
for i in $(seq 30); do tenant DELETE "$pods/race-$i" >/dev/null; done

# --- strangers ----------------------------------------------------------------------------------
stranger() { curl -sS --max-time 20 -k -X "$1" -w '\n%{http_code}\n' "$url$2"; }
for path in / /api /apis /api/v1 /api/v1/pods /openapi/v3 /metrics /apis/ringfence.io/v1alpha1/tenants; do
	for method in GET POST DELETE OPTIONS; do answers "a stranger: $method $path" 401 stranger $method $path; done
done
IFS=. read -r head payload signature <<<"$token"
b64() { base64 -w0 | tr '+/' '-_' | tr -d =; }
other=$(printf '{"sub":"system:serviceaccount:bank:ringfence-owner","exp":9999999999}' | b64)
for forged in "$(printf '{"alg":"none"}' | b64).$payload." "$(printf '{"alg":"HS256"}' | b64).$payload.$signature" \
	"$(printf '{"alg":"ES256","kid":"../x"}' | b64).$payload.$signature" "$head.$other.$signature" "$head.$payload." \
	"$head.$payload.${signature%????}" "${token}AAAA" "$token.x" x; do
	answers "a forged token ${forged:0:12}...${forged: -12}" 401 as "$forged" GET $pods
done
elsewhere=$(tenant POST /api/v1/namespaces/team-a/serviceaccounts/ringfence-owner/token -d '{"spec": {"audiences": ["elsewhere"]}}' |
	sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
answers "a token for somebody else's ears" 401 as "$elsewhere" GET $pods

# --- wearing it out -----------------------------------------------------------------------------
maps=/api/v1/namespaces/team-a/configmaps
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "[" }' >"$work/deep"
answers "a body a hundred thousand levels deep" 400 tenant POST $maps -d @"$work/deep"
awk 'BEGIN { printf "{\"metadata\":{\"name\":\"v\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"x\"}],\"volumes\":[{\"name\":\"a\"}"
	for (i = 0; i < 40000; i++) printf ",{\"name\":\"v%d\",\"emptyDir\":{}}", i; print "]}}" }' >"$work/volumes"
answers "a pod of forty thousand volumes" 400 timeout 2 bash -c "$(declare -f as tenant); work=$work url=$url token=$token; tenant POST $pods -d @$work/volumes"
awk 'BEGIN { printf "{\"data\":{\"x\":\""; for (i = 0; i < 1000000; i++) printf "x"; print "\"},\"metadata\":{\"generateName\":\"big-\"}}" }' >"$work/big"
for _ in $(seq 70); do tenant POST $maps -d @"$work/big" -o "$work/answer"; done | grep -c 201 >"$work/fitted"
check "a namespace is full before the disk is" test "$(cat "$work/fitted")" -ge 55 -a "$(cat "$work/fitted")" -le 67
readers=()
for _ in 1 2 3 4 5 6; do
	tenant GET $maps --limit-rate 1k -o /dev/null >/dev/null 2>&1 &
	readers+=($!)
done
sleep 1
says "who asks and asks and does not read has to wait" 'has yet to read' tenant GET $maps
answers "its neighbours do not" 200 as "$("$RINGFENCE" tenant kubeconfig team-b | sed -n 's/.*token: //p')" GET /api/v1/namespaces/team-b/pods

# --- stopping -----------------------------------------------------------------------------------
server=$(child_pid apiserver)
kill -TERM "$server"
gone() { ! kill -0 "$server" 2>/dev/null; }
check "slow readers do not hold the server up when it is told to stop" eventually 5 gone
kill "${readers[@]}" 2>/dev/null
wait "${readers[@]}" 2>/dev/null
check "and it is back soon" eventually 20 kubectl get --raw /readyz

# --- a name that changes hands ------------------------------------------------------------------
tenant DELETE $maps >/dev/null
tenant DELETE "$pods/mine?gracePeriodSeconds=1" >/dev/null
version=$(kubectl get --raw $maps | sed -n 's/.*"resourceVersion":"\([0-9]*\)"}}$/\1/p')
curl -sSN --max-time 60 --cacert "$work/ca" -H "Authorization: Bearer $token" \
	"$url/api/v1/namespaces/team-a/secrets?watch=1" >"$work/watched" 2>/dev/null &
watcher=$!
tenant POST $maps -d '{"metadata": {"name": "stays", "finalizers": ["x.io/stay"]}}' >/dev/null
check "what a tenant holds back does not keep it from being deleted" kubectl delete tenant team-a --timeout=30s
kubectl apply -f tenants.yaml >/dev/null
check "another tenant takes the name" kubectl wait --for=condition=Ready --timeout=20s tenant/team-a
answers "the old tenant's token" 401 tenant GET $pods
kubectl -n team-a create secret generic new >/dev/null
check "its watch is over" eventually 5 bash -c "! kill -0 $watcher 2>/dev/null"
check "and saw nothing of the new tenant's" bash -c "! grep -q '\"name\":\"new\"' '$work/watched'"
take_token
says "nor does the new one see the old one's past" '"code":410' \
	tenant GET "/api/v1/namespaces/team-a/secrets?watch=1&timeoutSeconds=1&resourceVersion=$version"
done_testing
