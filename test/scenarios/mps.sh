#!/bin/bash
# A pool that shares by MPS: pods of one trust domain become clients of one daemon per card, which comes and goes
# with them; they reach the socket of programs and no other; another trust domain has another card; who did not agree
# to a common fate is served by time; a daemon or an agent that is killed leaves nothing behind.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 2xH100

tenant() { # NAME ISOLATION TRUST-DOMAIN
	cat <<-YAML
		apiVersion: ringfence.io/v1alpha1
		kind: Tenant
		metadata: {name: $1}
		spec: {isolation: $2, trustDomain: $3, quota: {gpus: 2, gpuMemory: 200Gi, pods: 20}}
		---
	YAML
}
# pod NAMESPACE NAME "LIMITS" COMMAND [USER] [RESTART]
pod() {
	cat <<-YAML
		apiVersion: v1
		kind: Pod
		metadata: {name: $2, namespace: $1}
		spec:
		  restartPolicy: ${6:-Never}
		  terminationGracePeriodSeconds: 1
		  securityContext: {runAsNonRoot: true, runAsUser: ${5:-65534}, seccompProfile: {type: RuntimeDefault}}
		  containers:
		  - name: main
		    image: host
		    command: ["/bin/sh", "-c", "$4"]
		    resources: {limits: {$3}}
		    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: ["ALL"]}}
		---
	YAML
}
SHARE='ringfence.io/gpu-memory: 10Gi, ringfence.io/gpu-compute: "20"'
LOOK="echo pipe: \$CUDA_MPS_PIPE_DIRECTORY; echo files: \$(ls -A /ringfence/mps); touch /ringfence/mps/x || echo cannot write; gpu-demo --info; echo looked"
HOLD="gpu-demo --memory 1Gi --hold 600"
logs() { kubectl -n "$1" logs "$2"; }
logs_say() { logs "$1" "$2" | grep -qF -- "$3"; }
waits_with() { kubectl -n "$1" get pod "$2" -o jsonpath='{.status.containerStatuses[0].state.waiting.message}' | grep -qF -- "$3"; }
restarts() { [[ $(kubectl -n "$1" get pod "$2" -o jsonpath='{.status.containerStatuses[0].restartCount}') -ge $3 ]]; }
dir=$work/data/node/mps
# Control daemons of this platform, by card.
daemons() { pgrep -f "nvidia-cuda-mps-control -f" | while read -r p; do
	tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qF "CUDA_MPS_PIPE_DIRECTORY=$dir/" && echo "$p"; done; }
# Everything of them: the servers too.
processes() { grep -lsaF "CUDA_MPS_PIPE_DIRECTORY=$dir/" /proc/[0-9]*/environ | wc -l; }
daemons_are() { [[ $(daemons | wc -l) == "$1" ]]; }
nothing_left() { daemons_are 0 && [[ $(processes) == 0 && -z $(ls -A "$dir" 2>/dev/null) ]] && ! grep -q "$dir" /proc/mounts; }
card_number() { card_of "$1" "$2" | grep -o 'gpu-[0-9]*' | cut -d- -f2; }
daemon_log() { cat "$dir/$1/log/control.log"; }

{
	tenant team-a cooperative research
	tenant team-b cooperative research
	tenant other cooperative elsewhere
	tenant careful share research
	tenant alone gpu alone
} | kubectl apply -f - >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/team-a tenant/team-b tenant/other tenant/careful tenant/alone >/dev/null
node=$(kubectl get nodes -o jsonpath='{.items[0].metadata.name}')
kubectl apply -f - >/dev/null <<-YAML
	apiVersion: ringfence.io/v1alpha1
	kind: GPUPool
	metadata: {name: together}
	spec: {placement: pack, sharing: mps}
YAML

# --- the pool
refuses "an unknown way to share is refused" "spec.sharing: Unsupported value" kubectl apply -f - <<-YAML
	apiVersion: ringfence.io/v1alpha1
	kind: GPUPool
	metadata: {name: odd}
	spec: {sharing: green}
YAML
pod team-a before "$SHARE" "$LOOK; $HOLD" | kubectl apply -f - >/dev/null
check "on a node of no pool a share runs" eventually 20 phase_is team-a before Running
check "without MPS" eventually 10 logs_say team-a before "looked"
check "nor does it see a pipe directory" grep -qx "files:" <(logs team-a before)
check "no daemon runs" daemons_are 0
kubectl label node "$node" ringfence.io/pool=together >/dev/null
check "the node says that it can" eventually 30 bash -c \
	"[[ \$(kubectl get node $node -o jsonpath='{.status.conditions[?(@.type==\"MPSReady\")].status}') == True ]]"
check "what runs keeps what it has" phase_is team-a before Running
kubectl -n team-a delete pod before --wait=true >/dev/null

# --- one trust domain
pod team-a one "$SHARE" "$LOOK; $HOLD" 65534 Always | kubectl apply -f - >/dev/null
check "a pod in the pool runs" eventually 20 phase_is team-a one Running
check "one daemon came with it" daemons_are 1
check "it looked around" eventually 10 logs_say team-a one "looked"
says "it was told where the daemon is" "pipe: /ringfence/mps" logs team-a one
check "it sees the socket of programs and nothing else" grep -qx "files: control" <(logs team-a one)
says "which it cannot change" "cannot write" logs team-a one
card=$(card_number team-a one)
check "the sockets for commands are there, outside" test -S "$dir/$card/pipe/control_privileged"
check "it is a client of the daemon" eventually 10 grep -q "NEW CLIENT .* from user 65534" <(daemon_log "$card"; daemon_log "$card")
says "which has this card alone" "cards GPU-" daemon_log "$card"
says "and serves all users with one server" "one server for all users" daemon_log "$card"

pod team-b two "$SHARE" "$LOOK; $HOLD" 4242 | kubectl apply -f - >/dev/null
check "another tenant of the trust domain runs" eventually 20 phase_is team-b two Running
check "on the same card" test "$(card_number team-b two)" = "$card"
check "by the same daemon" daemons_are 1
check "as another user" eventually 10 bash -c "grep -q 'from user 4242' '$dir/$card/log/control.log'"
pod team-a three "$SHARE" "gpu-demo --memory 20Gi --expect-oom; $HOLD" | kubectl apply -f - >/dev/null
check "the memory of a share is kept by MPS too" eventually 20 logs_say team-a three "out of memory after"

# --- who is not with them
pod other far "$SHARE" "$LOOK; $HOLD" | kubectl apply -f - >/dev/null
check "another trust domain runs" eventually 20 phase_is other far Running
check "on another card" test "$(card_number other far)" != "$card"
check "by a daemon of its own" daemons_are 2
check "which no other tenant reaches" bash -c "! grep -q 'from user 4242' '$dir/$(card_number other far)/log/control.log'"
pod careful apart "$SHARE" "$LOOK; $HOLD" | kubectl apply -f - >/dev/null
check "who has isolation share runs" eventually 20 phase_is careful apart Running
check "in the card's trust domain" test "$(card_number careful apart)" = "$card"
check "but not by MPS" eventually 10 logs_say careful apart "looked"
check "it has no pipe directory" bash -c "kubectl -n careful logs apart | grep -qx 'pipe:'"
kubectl -n other delete pod far --wait=true >/dev/null
check "when the last pod of a card goes, so does its daemon" daemons_are 1

# --- whole cards
pod alone whole 'ringfence.io/gpu: "1"' "$LOOK; $HOLD" | kubectl apply -f - >/dev/null
check "a whole card is given on the same node" eventually 20 phase_is alone whole Running
check "without MPS" eventually 10 bash -c "kubectl -n alone logs whole | grep -qx 'pipe:'"
check "and without a daemon" daemons_are 1

# --- the agent is killed
pid=$(child_pid node) daemon=$(daemons)
kill -9 "$pid"
check "the agent comes back" eventually 10 bash -c "pid=\$(pgrep -P $up_pid -f 'ringfence node ' | head -n 1); [[ -n \$pid && \$pid != $pid ]]"
check "the daemon is the same" test "$(daemons)" = "$daemon"
check "what runs was not disturbed" phase_is team-a one Running
pod team-b later "$SHARE" "$LOOK; $HOLD" | kubectl apply -f - >/dev/null
check "the next agent takes it over" eventually 20 phase_is team-b later Running
check "there is still one" test "$(daemons)" = "$daemon"

# --- the daemon is killed
pod team-b notices "ringfence.io/gpu-memory: 4Gi" "while gpu-demo --info >/dev/null 2>&1; do sleep 0.02; done; exit 7" 4242 | kubectl apply -f - >/dev/null
check "a program that ends by itself as soon as its driver fails runs" eventually 20 phase_is team-b notices Running
sleep 0.5
kill -9 "$daemon"
check "it failed" eventually 10 phase_is team-b notices Failed
says "for the same reason" MPSDaemonDied kubectl -n team-b get pod notices -o yaml
kubectl -n team-b delete pod notices --wait=true >/dev/null
check "a container that restarts does so" eventually 20 restarts team-a one 1
check "one that does not has failed" eventually 10 phase_is team-b two Failed
says "with the reason" MPSDaemonDied kubectl -n team-b get pod two -o yaml
check "there is a new daemon" eventually 20 bash -c "$(declare -f daemons); dir=$dir; d=\$(daemons); [[ -n \$d && \$d != $daemon ]]"
check "and the container is its client" eventually 20 phase_is team-a one Running
check "who is not a client went on" phase_is careful apart Running
check "the old daemon's server is gone" eventually 5 test "$(processes)" -le 2

# --- ends
for p in team-a/one team-a/three team-b/two team-b/later; do
	kubectl -n "${p%/*}" delete pod "${p#*/}" --wait=false >/dev/null
done
check "when all have gone, nothing of it is left" eventually 30 nothing_left

# Killed while they come and go.
for round in 1 2 3 4 5; do
	pod team-a "job-$round" "$SHARE" "gpu-demo --info" | kubectl apply -f - >/dev/null
	sleep "0.$((RANDOM % 10))"
	eventually 10 child_pid node
	kill -9 "$(child_pid node)"
	check "round $round: the pod ends well" eventually 40 phase_is team-a "job-$round" Succeeded
done
check "nothing of theirs is left" eventually 30 nothing_left

# The pod goes while no agent is there to see it.
pod team-a orphan "$SHARE" "$HOLD" | kubectl apply -f - >/dev/null
check "one more runs" eventually 20 phase_is team-a orphan Running
kill -STOP "$up_pid"
kill -9 "$(child_pid node)"
kubectl -n team-a delete pod orphan --grace-period=0 --force >/dev/null 2>&1
kill -CONT "$up_pid"
check "an orphan's daemon is ended by the next agent" eventually 30 nothing_left

# --- the pool is changed
pod team-a stays "$SHARE" "$HOLD" | kubectl apply -f - >/dev/null
check "a client runs" eventually 20 phase_is team-a stays Running
kubectl patch gpupool together --type=merge -p '{"spec":{"sharing":"timeslice"}}' >/dev/null
pod team-b timed "$SHARE" "$LOOK; $HOLD" | kubectl apply -f - >/dev/null
check "who comes later is served by time" eventually 20 logs_say team-b timed "looked"
check "without a pipe directory" bash -c "kubectl -n team-b logs timed | grep -qx 'pipe:'"
check "who was there stays a client" phase_is team-a stays Running
check "of the daemon" daemons_are 1

# --- a machine without the control daemon
for p in team-a/stays team-b/timed; do
	kubectl -n "${p%/*}" delete pod "${p#*/}" --wait=true >/dev/null
done
kubectl patch gpupool together --type=merge -p '{"spec":{"sharing":"mps"}}' >/dev/null
platform_stop
platform_start --simulate 2xH100 --mps-control /nonexistent
check "the platform starts without a control daemon" grep -qx ready "$work/up.log"
pod team-a waits "$SHARE" "$HOLD" | kubectl apply -f - >/dev/null
check "a pod of the pool waits, and says what to do" eventually 20 waits_with team-a waits "install the driver's compute utilities"
check "the node says so too" eventually 30 bash -c \
	"[[ \$(kubectl get node $node -o jsonpath='{.status.conditions[?(@.type==\"MPSReady\")].reason}') == DaemonMissing ]]"
pod careful timed "$SHARE" "$HOLD" | kubectl apply -f - >/dev/null
check "who is served by time runs" eventually 20 phase_is careful timed Running
kubectl label node "$node" ringfence.io/pool- >/dev/null
check "out of the pool the pod starts" eventually 40 phase_is team-a waits Running
check "without a daemon" nothing_left

kubectl delete tenant --all --wait=false >/dev/null
check "when all tenants have gone, nothing is left" eventually 40 nothing_left
check "nor a claim" eventually 20 bash -c "[[ -z \$(kubectl get resourceclaims -A -o name) ]]"
done_testing
