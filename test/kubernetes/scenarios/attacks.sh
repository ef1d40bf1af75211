#!/bin/bash
# A hostile tenant, an administrator of one namespace, and a stolen agent's token try to get at cards, at other
# tenants and at what only ringfence writes. Each attack is one that plain Kubernetes lets through.
source "$(dirname "$0")/lib.sh"
demo=/ringfence/bin/gpu-demo one=ringfence.io/gpu=1
drop() {
	kubectl delete priorityclass attack-high --ignore-not-found
	kubectl delete resourceslice attack-other --ignore-not-found
	kubectl -n default patch resourceclaim attack-other --type=merge -p '{"metadata":{"finalizers":null}}'
	kubectl -n default delete resourceclaim attack-other --ignore-not-found --wait=false
}
trap 'drop >/dev/null 2>&1; cleanup' EXIT

by() { # TENANT ARGS...: kubectl with the tenant's own kubeconfig
	local who=$1
	shift
	kubectl --kubeconfig "$work/$who" "$@"
}
send() { # TENANT, then as pod: creates it as the tenant
	local who=$1
	shift
	pod "$@" | by "$who" create -f -
}
held() { kubectl -n "$1" get resourceclaims --no-headers 2>/dev/null | grep -q .; } # NS
no_claim_in() { ! held "$1"; }

check "a tenant that shares comes" tenant red '"isolation":"share","quota":{"gpuMemory":"100Gi","gpus":1}'
check "one that trusts nobody" tenant blue '"quota":{"gpus":4}'
check "and one with two namespaces" tenant pair '"namespaces":["pair-a","pair-b"],"quota":{"gpus":2}'
for who in red blue pair; do "$RINGFENCE" tenant kubeconfig $who >"$work/$who"; done

# --- what is not the tenant's to read or write ---------------------------------------------------

for what in "get pods -n blue" "get resourceclaims -n blue" "get events -n blue" "get secrets -n ringfence-system" \
	"get namespaces" "get nodes" "get tenants" "get resourceslices" "get pods -A"; do
	refuses "a tenant does not $what" "is forbidden" by red $what
done
for what in "create resourceclaims" "create resourceclaimtemplates.resource.k8s.io" "patch resourceclaims" "delete resourceclaims" \
	"update resourceclaims status" "patch pods status" "create pods binding" "patch pods ephemeralcontainers" "patch pods resize" \
	"create events" "patch resourcequotas" "create rolebindings" "patch namespaces" "create daemonsets.apps" "create endpoints"; do
	read -r verb kind sub <<<"$what"
	check "nor may it $what" is "$(by red auth can-i "$verb" "$kind" ${sub:+--subresource=$sub} -n red 2>/dev/null)" no
done
check "but it may make pods" is "$(by red auth can-i create pods -n red)" yes

# --- a second pod on the first one's claim ---------------------------------------------------------

check "a pod with a share runs" send red red first ringfence.io/gpu-memory=2Gi "$demo --memory 1Gi --hold 100"
check "as it should" eventually 30 phase_is red first Running
claim=$(claim_of red first) node=$(node_of red first)
borrower() { # NAME SPEC: a pod without limits that names the claim
	pod red "$1" "" "ls /ringfence; sleep 60" ",$2\"resourceClaims\":[{\"name\":\"x\",\"resourceClaimName\":\"$claim\"}]" |
		sed 's/"resources":{"limits":{}}/"resources":{"claims":[{"name":"x"}]}/' >"$work/$1.json"
}
borrower there "\"nodeName\":\"$node\","
refuses "a second one on its claim names its node in vain" "spec.nodeName" by red create -f "$work/there.json"
check "from an administrator it is accepted" kubectl create -f "$work/there.json"
check "and gets no card: Kubernetes may not let it in" eventually 20 event_says red there "not allowed to use ResourceClaim"
borrower away ""
check "one for Kubernetes to place is accepted" by red create -f "$work/away.json"
check "and not placed" eventually 20 event_says red away "written by ringfence-control alone"
check "the claim is the first pod's alone" is "$(json '{.status.reservedFor[*].name}' -n red resourceclaim "$claim")" first
by red -n red delete pod there away first --wait=false >/dev/null

check "Kubernetes' own name for our class is accepted" send blue blue implicit deviceclass.resource.kubernetes.io/gpu.ringfence.io=1 "ls /ringfence"
check "and gets nothing" eventually 20 event_says blue implicit "made by ringfence-control alone"
by blue -n blue delete pod implicit --wait=false >/dev/null

# --- a claim that was there before control's ---------------------------------------------------------

check "somebody administers a tenant's namespace" kubectl -n blue create rolebinding dave --clusterrole=admin --user=dave
pod blue prepared $one "$demo --info" ',"schedulingGates":[{"name":"attack.io/wait"}]' | kubectl --as dave create -f - >/dev/null
uid=$(json '{.metadata.uid}' -n blue pod prepared)
check "he makes the claim that control would make" kubectl --as dave create -f - <<END
{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: "prepared-${uid:0:8}", namespace: blue, finalizers: [attack.io/keep],
annotations: {ringfence.io/tenant: red}, ownerReferences: [{apiVersion: v1, kind: Pod, name: prepared, uid: "$uid"}]},
spec: {devices: {requests: [{name: main, exactly: {deviceClassName: x, capacity: {requests: {memory: "1"}}}}]}}}
END
check "and lets the pod go" kubectl --as dave -n blue patch pod prepared --type=merge -p '{"spec":{"schedulingGates":null}}'
check "it waits, and is told why" eventually 20 event_says blue prepared "claims of class gpu.ringfence.io only"
check "no card hangs on his words" is "$(json '{.status.allocation}' -n blue resourceclaim "prepared-${uid:0:8}")" ""
check "others are placed meanwhile" send blue blue beside $one "$demo --info"
check "and run" succeeds 40 blue beside
kubectl -n blue delete pod prepared beside --wait=false >/dev/null
kubectl -n blue patch resourceclaim "prepared-${uid:0:8}" --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null

# --- other tenants' pods evicted by Kubernetes ---------------------------------------------------------

kubectl create priorityclass attack-high --value=1000 >/dev/null
check "a pod with a card and half a node runs" send blue blue victim "$one cpu=1" "$demo --memory 1Gi --hold 100"
check "as it should" eventually 30 phase_is blue victim Running
node=$(node_of blue victim)
for class in system-node-critical attack-high; do
	refuses "no plain pod of class $class pushes it out" "spec.priorityClassName" send red red "$class" cpu=1900m "sleep 60" \
		",\"priorityClassName\":\"$class\",\"nodeSelector\":{\"kubernetes.io/hostname\":\"$node\"}"
done
pod red x cpu=1900m "sleep 60" ",\"priorityClassName\":\"system-node-critical\"" | sed -z 's/.*"spec":{"restartPolicy":"Never",/{"apiVersion":"apps\/v1","kind":"Deployment","metadata":{"name":"push","namespace":"red"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{/; s/}}\n*$/}}}}\n/' >"$work/push.json"
check "a Deployment of them is accepted" by red create -f "$work/push.json"
failing() { json '{.status.conditions[?(@.type=="ReplicaFailure")].message}' -n red deployment push | grep -q "are for the cluster's own pods"; }
check "and has no pod" eventually 20 failing
by red -n red delete deployment push >/dev/null
check "the victim is none" phase_is blue victim Running

# --- a stolen agent's token -----------------------------------------------------------------------------

agent=$(agent_of gpu-node-1)
printf 'apiVersion: v1\nkind: Config\n' >"$work/nobody"
server=$(kubectl config view --raw -o jsonpath='{.clusters[0].cluster.server}')
token=$(system create token ringfence-node --bound-object-kind=Pod --bound-object-name="$agent")
stolen() { kubectl --kubeconfig "$work/nobody" --server "$server" --insecure-skip-tls-verify --token "$token" "$@"; }
kubectl create -f - >/dev/null <<'END'
{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"attack-other"},"spec":{"driver":"net.example.com","nodeName":"gpu-node-1",
 "pool":{"name":"gpu-node-1","generation":1,"resourceSliceCount":1},"devices":[{"name":"eth0"}]}}
END
kubectl create -f - >/dev/null <<'END'
{"apiVersion":"resource.k8s.io/v1","kind":"ResourceClaim","metadata":{"name":"attack-other","namespace":"default"},
 "spec":{"devices":{"requests":[{"name":"a","exactly":{"deviceClassName":"net.example.com"}}]}}}
END
check "the token is good" stolen get resourceslices
refuses "it deletes no other node's cards" "written by ringfence's agent on the node they speak of" stolen delete resourceslice gpu-node-2-ringfence
refuses "no other driver's devices" "written by ringfence's agent on the node they speak of" stolen delete resourceslice attack-other
refuses "writes no other driver's claims" "a card of its own node only" stolen -n default patch resourceclaim attack-other --type=merge -p '{"metadata":{"finalizers":["attack.io/keep"]}}'
refuses "says of no pod how it fares" "is forbidden" stolen -n blue patch pod victim --subresource=status --type=merge -p '{"status":{"phase":"Failed"}}'
refuses "makes no pods" "is forbidden" stolen create -f "$work/away.json"
refuses "and reads no secrets" "is forbidden" stolen get secrets -A
by blue -n blue delete pod victim --wait=false >/dev/null

# --- what asks, and how it is called ------------------------------------------------------------------------

extra() { # RESOURCE MEMBERS: a spec with an init container that asks
	echo ",\"initContainers\":[{\"name\":\"i\",\"image\":\"localhost/runtime:e2e\",\"resources\":{\"limits\":{\"$1\":1}},\"securityContext\":{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"drop\":[\"ALL\"]}}$2}]"
}
refuses "an init container asks for no card" "may not ask for GPUs" send blue blue init "" true "$(extra ringfence.io/gpu "")"
refuses "nor one that stays" "may not ask for GPUs" send blue blue side "" true "$(extra nvidia.com/gpu ',"restartPolicy":"Always"')"
long=$(printf 'p%.0s' {1..210}) box=$(printf 'c%.0s' {1..63})
pod blue "$long" $one "$demo --info" | sed "s/\"name\":\"main\"/\"name\":\"$box\"/" | by blue create -f - >/dev/null 2>&1
check "the longest names that a kubelet can start are no trouble" succeeds 40 blue "$long"
# Its process numbers are the pod's: what it leaves behind does not die with it.
check "a container that leaves a daemon behind is accepted" send blue blue leaver $one \
	"(setsid $demo --memory 1Gi --hold 100 >/dev/null 2>&1 &); sleep 2" ',"shareProcessNamespace":true'
check "its end is the daemon's" succeeds 40 blue leaver
check "and the card is let go" eventually 20 no_claim_in blue

# --- pods that do not want to go -------------------------------------------------------------------------------

processes_of() { on_node "$node" sh -c "grep -l 'pod$1' /proc/[0-9]*/cgroup 2>/dev/null | wc -l"; }
# Forced out of the API while its processes live: at no look may the claim be gone and a process be there.
outlives() {
	local looks=0 until=$((SECONDS + 40))
	by blue -n blue delete pod stubborn --grace-period=0 --force >/dev/null 2>&1
	while held blue; do
		looks=$((looks + 1))
		((SECONDS < until)) || { echo "the claim never went away"; return 1; }
	done
	((looks > 0)) || { echo "the claim was gone at once"; return 1; }
	is "$(processes_of "$uid")" 0
}
for name in ringfence.io/gpu nvidia.com/gpu; do
	check "a pod with $name that ignores its end" send blue blue stubborn $name=1 "trap '' TERM; while :; do $demo --memory 1Gi --hold 5 >/dev/null; done"
	check "runs" eventually 30 phase_is blue stubborn Running
	uid=$(json '{.metadata.uid}' -n blue pod stubborn) node=$(node_of blue stubborn)
	check "forced out of the API, it keeps its card until its last process is gone" outlives
done
again() { # RESOURCE: the same name, made and torn away faster than anybody can follow
	local i
	for i in {1..8}; do
		send pair pair-a same "$1=1" "$demo --memory 1Gi --hold 60" || return 1
		sleep "0.$((RANDOM % 9))"
		((i % 4)) || sleep 1.5
		by pair -n pair-a delete pod same --grace-period=0 --force 2>/dev/null
	done
}
for name in ringfence.io/gpu nvidia.com/gpu; do
	check "one name eight times, with $name" again $name
done
check "nothing stays behind" eventually 30 no_claim_in pair-a

# --- all at once ---------------------------------------------------------------------------------------------------

in_use() { kubectl get resourceclaims -A -o jsonpath='{range .items[*]}{.metadata.namespace} {.status.allocation.devices.results[*].device}{"\n"}{end}' | awk '/^pair-/ { n += NF - 1 } END { print n + 0 }'; }
for i in {1..24}; do send pair "pair-$( ((i % 2)) && echo a || echo b)" "rush-$i" "$( ((i % 3)) && echo $one || echo nvidia.com/gpu=1)" "sleep 3" >"$work/rush-$i" 2>&1 & rush+=($!); done
most=0
for _ in {1..12}; do n=$(in_use); ((n > most)) && most=$n; done
wait "${rush[@]}"
n=$(in_use); ((n > most)) && most=$n
check "of 24 pods at once over two namespaces no more hold cards than the quota allows ($most)" test "$most" -ge 1 -a "$most" -le 2
says "the others were told why" "exceeded quota" cat "$work"/rush-*
done_testing
