#!/bin/bash
# A real kubectl against a fresh API server: what people type must work, in their words.
# Needs kubectl and $RINGFENCE (the program; default: build/ringfence). Prints TAP.
set -u

RINGFENCE=${RINGFENCE:-build/ringfence}
if ! command -v kubectl >/dev/null; then
	echo "ok 1 - kubectl # SKIP no kubectl here"
	exit 0
fi
DIR=$(mktemp -d)
export HOME=$DIR/home KUBECONFIG=$DIR/kubeconfig
mkdir -p "$HOME"
n=0 failed=0

ok() { n=$((n + 1)); echo "ok $n - $1"; }
not_ok() { n=$((n + 1)); failed=$((failed + 1)); echo "not ok $n - $1"; sed 's/^/# /' <<<"$2"; }

# expect TEXT PATTERN COMMAND...: the command succeeds and its output matches the pattern.
expect() {
	local text=$1 pattern=$2 out
	shift 2
	if out=$("$@" 2>&1) && grep -qE -- "$pattern" <<<"$out"; then ok "$text"; else not_ok "$text" "$out"; fi
}
# refuse TEXT PATTERN COMMAND...: the command fails and says why.
refuse() {
	local text=$1 pattern=$2 out
	shift 2
	if ! out=$("$@" 2>&1) && grep -qE -- "$pattern" <<<"$out"; then ok "$text"; else not_ok "$text" "$out"; fi
}
# since MINOR expect|refuse TEXT ...: for what kubectl has since 1.MINOR; older ones skip it.
minor=$(kubectl version --client -o json 2>/dev/null | sed -n 's/.*"minor": "\([0-9]*\).*/\1/p' | head -n 1)
since() {
	local needs=$1
	shift
	if ((${minor:-99} >= needs)); then "$@"; else ok "$2 # SKIP kubectl 1.$minor, needs 1.$needs"; fi
}
k() { kubectl --request-timeout=20s "$@"; }
# Flow style, behind a line that keeps kubectl from taking it for JSON.
apply() { kubectl apply -f - <<<"---"$'\n'"$1"; }

"$RINGFENCE" apiserver --data "$DIR/data" --listen 127.0.0.1:0 --kubeconfig "$KUBECONFIG" \
	>"$DIR/out" 2>"$DIR/log" &
server=$!
stop() { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$DIR"; }
trap stop EXIT
for _ in $(seq 100); do
	grep -q '^apiserver https' "$DIR/out" && break
	kill -0 "$server" 2>/dev/null || break
	sleep 0.1
done
if ! grep -q '^apiserver https' "$DIR/out"; then
	echo "Bail out! the API server did not start: $(tail -3 "$DIR/log")"
	exit 1
fi

pod='{apiVersion: v1, kind: Pod, metadata: {name: p1, labels: {app: x}}, spec: {containers: [{name: c, image: "busybox:1"}]}}'
expect "apply creates a pod" 'pod/p1 created' apply "$pod"
expect "apply again changes nothing" 'pod/p1 unchanged' apply "$pod"
expect "apply with another image changes the pod" 'pod/p1 configured' apply "${pod/busybox:1/busybox:2}"
refuse "apply cannot change what a pod is" 'Forbidden: pod updates may not change fields' \
	apply "${pod/containers:/hostname: other, containers:}"
refuse "a misspelt field is refused by name" 'unknown field "spec.contaners"' \
	apply "${pod/containers/contaners}"
refuse "a pod needs an image" 'spec.containers\[0\].image: Required value' \
	apply "${pod/, image: \"busybox:1\"/}"
expect "get shows the columns people know" 'NAME +READY +STATUS +RESTARTS +AGE' k get pods
expect "get -o wide shows the node" 'NODE +NOMINATED NODE' k get pods -o wide
expect "get -o json gives the object" '"qosClass": "BestEffort"' k get pod p1 -o json
expect "get -o yaml gives the object" 'restartPolicy: Always' k get pod p1 -o yaml
expect "get -l finds by label" 'p1' k get pods -l 'app in (x,y),!z' -o name
expect "get --field-selector finds by field" 'p1' k get pods --field-selector status.phase=Pending -o name
expect "get --sort-by sorts" 'p1' k get pods --sort-by=.metadata.name
expect "get -A lists every namespace" 'default +p1' k get pods -A
expect "describe a pod" 'Image: +busybox:2' k describe pod p1
since 27 expect "explain knows a pod's fields" 'imagePullPolicy' k explain pod.spec.containers

expect "create a namespace" 'namespace/team-a created' k create ns team-a
expect "create a service account" 'serviceaccount/bot created' k create sa bot -n team-a
expect "create a quota" 'resourcequota/q created' \
	k create quota q -n team-a --hard=pods=1,requests.nvidia.com/gpu=4,count/configmaps=2
expect "create a role" 'role.rbac.*/reader created' \
	k create role reader -n team-a --verb=get,list,watch --resource=pods
expect "create a role binding" 'rolebinding.rbac.*/reader created' \
	k create rolebinding reader -n team-a --role=reader --serviceaccount=team-a:bot
expect "create a cluster role" 'clusterrole.rbac.*/cr created' \
	k create clusterrole cr --verb=get --resource=nodes
expect "create a secret" 'secret/s created' k create secret generic s -n team-a --from-literal=a=b
expect "create a config map" 'configmap/cm created' k create configmap cm -n team-a --from-literal=a=b
expect "a secret keeps its bytes" '^Yg==$' k get secret s -n team-a -o 'jsonpath={.data.a}{"\n"}'
since 27 expect "create -f --dry-run=server keeps nothing" 'created \(server dry run\)' \
	k create -n team-a configmap dry --from-literal=a=b --dry-run=server
refuse "and nothing was kept" 'NotFound' k get configmap dry -n team-a

apply "${pod/name: p1/name: q1, namespace: team-a}" >/dev/null 2>&1
refuse "the quota stops the second pod" 'exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1' \
	apply "${pod/name: p1/name: q2, namespace: team-a}"
expect "describe quota shows what is used" 'pods +1 +1' k describe quota q -n team-a

since 24 expect "create a token" '^ey' k create token bot -n team-a --duration=10m
echo '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 600}}' >"$DIR/ask"
token=$(k create --raw /api/v1/namespaces/team-a/serviceaccounts/bot/token -f "$DIR/ask" |
	sed -n 's/.*"token":"\([^"]*\)".*/\1/p')
server_url=$(k config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
k config view --minify --raw -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}' |
	base64 -d >"$DIR/ca"
as_bot() { KUBECONFIG=/dev/null kubectl --server="$server_url" --certificate-authority="$DIR/ca" --token="$token" "$@"; }
since 27 expect "a token speaks for its service account" 'system:serviceaccount:team-a:bot' as_bot auth whoami
expect "and may what its role says" 'q1' as_bot get pods -n team-a
refuse "and nothing else" 'cannot list resource "secrets" in API group "" in the namespace "team-a"' \
	as_bot get secrets -n team-a
refuse "a token that was changed is refused" 'Unauthorized|must be logged in' \
	env KUBECONFIG=/dev/null kubectl --server="$server_url" --certificate-authority="$DIR/ca" \
	--token="${token%????}AAAA" get pods -n team-a
# What kubectl 1.20 asks before it applies anything: a Document whose first field says "2.0".
openapi_v2() {
	curl -sS --cacert "$DIR/ca" -H "Authorization: Bearer $token" "$server_url/openapi/v2" \
		-H 'Accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf' | od -An -tx1 | tr -d ' \n'
}
if command -v curl >/dev/null; then
	expect "old clients get OpenAPI as they can read it" '^0a03322e3012' openapi_v2
else
	ok "old clients get OpenAPI as they can read it # SKIP no curl here"
fi
expect "auth can-i says yes" '^yes$' k auth can-i create pods
refuse "auth can-i says no" '^no$' k auth can-i delete nodes --as alice
expect "auth can-i as a service account" '^yes$' \
	k auth can-i list pods -n team-a --as system:serviceaccount:team-a:bot
expect "auth can-i --list lists rules" 'pods +\[\] +\[\] +\[get list watch\]' \
	k auth can-i --list -n team-a --as system:serviceaccount:team-a:bot
since 27 expect "auth whoami" 'ringfence-admin' k auth whoami

expect "label" 'labeled' k label pod p1 tier=web
expect "annotate" 'annotated' k annotate pod p1 note=hello
expect "patch, strategic" 'patched' k patch pod p1 -p '{"spec":{"containers":[{"name":"c","image":"busybox:3"}]}}'
expect "patch, merge" 'patched' k patch pod p1 --type=merge -p '{"metadata":{"labels":{"tier":null}}}'
expect "patch, JSON" 'patched' \
	k patch pod p1 --type=json -p '[{"op":"add","path":"/metadata/labels/z","value":"1"}]'
expect "and all of it happened" '^busybox:3 1$' \
	k get pod p1 -o 'jsonpath={.spec.containers[0].image} {.metadata.labels.z}{"\n"}'
k get configmap cm -n team-a -o json | sed 's/"a": "b"/"a": "c"/' >"$DIR/cm.json"
expect "replace" 'configmap/cm replaced' k replace -f "$DIR/cm.json"
refuse "replace with an old version conflicts" 'the object has been modified' k replace -f "$DIR/cm.json"
refuse "server-side apply is refused clearly" 'server-side apply is not served' \
	k apply --server-side -f "$DIR/cm.json"

: >"$DIR/watch"
kubectl get pods -w --no-headers >"$DIR/watch" 2>&1 &
watcher=$!
for _ in $(seq 50); do grep -q p1 "$DIR/watch" && break; sleep 0.1; done
kubectl run r1 --image=nginx >/dev/null 2>&1
for _ in $(seq 50); do grep -q r1 "$DIR/watch" && break; sleep 0.1; done
kill "$watcher" 2>/dev/null; wait "$watcher" 2>/dev/null
expect "get -w shows a pod as it appears" 'r1 ' cat "$DIR/watch"
kubectl wait --for=jsonpath='{.metadata.labels.go}'=yes pod/r1 --timeout=20s >"$DIR/wait" 2>&1 &
waiter=$!
k label pod r1 go=yes >/dev/null
wait "$waiter"
since 23 expect "wait sees a change" 'condition met' cat "$DIR/wait"
expect "delete" 'pod "r1" deleted' k delete pod r1
since 23 expect "wait --for=delete" '' k wait --for=delete pod/r1 --timeout=5s
expect "delete by label" 'pod "p1" deleted' k delete pods -l app=x
expect "events can be listed" 'No resources found' k get events

class='{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: -10, description: what can wait}'
expect "priority classes are a kind of the cluster" 'priorityclasses +pc +scheduling.k8s.io/v1 +false +PriorityClass' k api-resources
expect "Kubernetes' own are there, with the columns people know" 'system-node-critical +2000001000 +false' k get pc
expect "create a priority class" 'priorityclass.scheduling.k8s.io/high created' \
	k create priorityclass high --value=1000 --global-default=true
expect "apply one" 'priorityclass.scheduling.k8s.io/low created' apply "$class"
expect "apply it again" 'priorityclass.scheduling.k8s.io/low unchanged' apply "$class"
expect "its description may change" 'configured' apply "${class/can wait/must wait}"
refuse "its value may not" 'value: Forbidden: may not be changed in an update' apply "${class/-10/10}"
refuse "a value has a bound" 'maximum allowed value of a user defined priority is 1000000000' \
	k create priorityclass top --value=1000000001
refuse "system- is reserved" 'reserved for system use only' k create priorityclass system-mine --value=5
refuse "there is one default" 'PriorityClass high is already marked as default' \
	k create priorityclass two --value=5 --global-default=true
refuse "a pod's class must be there" 'pods "p1" is forbidden: no PriorityClass with name none was found' \
	apply "${pod/containers:/priorityClassName: none, containers:}"
refuse "its number is the class's" 'the integer value of priority \(5\) must not be provided in pod spec' \
	apply "${pod/containers:/priority: 5, containers:}"
expect "a pod names its class" 'pod/p1 created' apply "${pod/containers:/priorityClassName: low, containers:}"
expect "and is applied again as it is" 'pod/p1 unchanged' apply "${pod/containers:/priorityClassName: low, containers:}"
expect "describe shows both" 'Priority: +-10' k describe pod p1
k get pod p1 -o json | sed '/"priority": -10/d; /"preemptionPolicy"/d' >"$DIR/p1.json"
expect "replace without what the server wrote changes nothing" 'pod/p1 replaced' k replace -f "$DIR/p1.json"
k delete pod p1 >/dev/null
apply "$pod" >/dev/null 2>&1
expect "without one it has the default" '^high 1000 PreemptLowerPriority$' \
	k get pod p1 -o 'jsonpath={.spec.priorityClassName} {.spec.priority} {.spec.preemptionPolicy}{"\n"}'
k delete pod p1 >/dev/null
since 27 expect "explain knows a class's fields" 'globalDefault' k explain priorityclass
expect "a class that nobody evicts for is taken" "^priorityclass.scheduling.k8s.io/calm created\$" \
	k create priorityclass calm --value=3 --preemption-policy=Never
expect "describe a class" 'GlobalDefault: +true' k describe priorityclass high
expect "delete them" 'priorityclass.scheduling.k8s.io "low" deleted' k delete priorityclass high low calm

expect "a Tenant is applied" 'tenant.ringfence.io/blue created' \
	apply '{apiVersion: ringfence.io/v1alpha1, kind: Tenant, metadata: {name: blue}, spec: {isolation: share, quota: {gpus: 2}}}'
expect "and changed" 'tenant.ringfence.io/blue configured' \
	apply '{apiVersion: ringfence.io/v1alpha1, kind: Tenant, metadata: {name: blue}, spec: {isolation: share, quota: {gpus: 3}}}'
expect "and listed with its columns" 'NAME +ISOLATION +TRUST DOMAIN +GPUS +READY +AGE' k get tenants
refuse "a Tenant with a misspelt field is refused" 'isolatoin' \
	apply '{apiVersion: ringfence.io/v1alpha1, kind: Tenant, metadata: {name: red}, spec: {isolatoin: gpu}}'
refuse "GPUs need a tenant" 'belongs to no tenant' \
	apply "${pod/image: \"busybox:1\"/image: x, resources: {limits: {ringfence.io/gpu: 1\}\}}"
k label ns team-a pod-security.kubernetes.io/enforce=restricted >/dev/null
k delete pod q1 -n team-a >/dev/null
refuse "pod security is enforced" 'pods "q9" is forbidden: violates PodSecurity "restricted:latest"' \
	apply "${pod/name: p1/name: q9, namespace: team-a}"

expect "delete a namespace and all in it" 'namespace "team-a" deleted' k delete ns team-a
refuse "nothing is left of it" 'NotFound' k get configmap cm -n team-a
refuse "system namespaces stay" 'may not be deleted' k delete ns kube-system

echo "1..$n"
exit $((failed > 0))
