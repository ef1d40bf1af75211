#!/bin/bash
# Gangs, guarantees and what survives a crash: real kubectl, real containers, simulated cards.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 4xH200 --event-log "$work/events.log"

tenant() { # NAME QUOTA GUARANTEED
	kubectl apply -f - <<-YAML
		apiVersion: ringfence.io/v1alpha1
		kind: Tenant
		metadata: {name: $1}
		spec:
		  quota: {gpus: $2, pods: 20}
		  queue: {guaranteed: {gpus: $3}}
	YAML
}
group() { # NAMESPACE NAME MIN [QUEUE]
	kubectl apply -f - <<-YAML
		apiVersion: ringfence.io/v1alpha1
		kind: PodGroup
		metadata: {name: $2, namespace: $1}
		spec: {minMember: $3${4:+, queue: $4}}
	YAML
}
pod() { # NAMESPACE NAME GROUP SECONDS
	local label=
	[[ -n $3 ]] && label="labels: {ringfence.io/pod-group: $3}"
	sed -e "s/namespace: bank/namespace: $1/" -e "s/name: train/name: $2/" -e "s/\"--hold\", \"5\"/\"--hold\", \"$4\"/" \
		-e "s/\"100Gi\"/\"1Gi\"/" -e "/namespace: $1/a\\  $label" -e "s/^  restartPolicy: Never/  restartPolicy: Never\n  terminationGracePeriodSeconds: 1/" \
		train.yaml | kubectl apply -f -
}
bound() { kubectl -n "$1" get pods -o jsonpath='{range .items[?(@.spec.nodeName)]}{.metadata.name}{"\n"}{end}' | grep -c "^$2"; }
bound_are() { [[ $(bound "$1" "$2") == "$3" ]]; }
group_is() { [[ $(kubectl -n "$1" get podgroup "$2" -o jsonpath="{.status.$3}") == "$4" ]]; }
gone() { ! kubectl -n "$1" get pod "$2"; }

for t in "red 8 0" "blue 4 2"; do
	# shellcheck disable=SC2086
	check "tenant ${t%% *} is accepted" tenant $t
done
for t in red blue; do check "tenant $t becomes ready" kubectl wait --for=condition=Ready --timeout=20s "tenant/$t"; done
says "its queue has what it is guaranteed" '"guaranteed":2' kubectl get queue blue -o jsonpath='{.spec.resources}'
says "a tenant may make gangs" yes kubectl -n red auth can-i create podgroups.ringfence.io --as=system:serviceaccount:red:ringfence-owner
says "and not say that they started" no kubectl -n red auth can-i patch podgroups.ringfence.io --subresource=status --as=system:serviceaccount:red:ringfence-owner
says "nor change a queue" no kubectl auth can-i update queues.ringfence.io --as=system:serviceaccount:red:ringfence-owner
refuses "a gang of nobody is refused" minMember group red nobody 0
refuses "so is one in a queue of somebody else" 'tenant red has no queue "blue"' group red theirs 1 blue
refuses "in the words for one that is not there" 'tenant red has no queue "nosuch"' group red theirs 1 nosuch

# all or nothing
check "a gang of three is made" group red train 3
check "its first pod is accepted" pod red t0 train 60
check "its second, too" pod red t1 train 60
check "it says that it waits" eventually 15 bash -c "kubectl -n red get pod t0 -o jsonpath='{.status.conditions}' | grep -q Unschedulable"
sleep 1
check "two of three get nothing" bound_are red t 0
check "and no card" bash -c "! kubectl -n red get resourceclaims -o name | grep ."
check "the third comes" pod red t2 train 60
check "all three are placed" eventually 15 bound_are red t 3
check "and run" eventually 20 phase_is red t2 Running
check "the gang has started" eventually 10 group_is red train started true
check "with three places" eventually 10 group_is red train scheduled 3
says "kubectl shows it" Running kubectl -n red get podgroup train

# a gang larger than what is left
check "a gang of two more is made" group red more 2
for i in 0 1; do pod red "m$i" more 60 >/dev/null; done
sleep 2
check "one card is left, and nobody of it gets it" bound_are red m 0
check "the gang has not started" bash -c "[[ \$(kubectl -n red get podgroup more -o jsonpath='{.status.started}') != true ]]"
kubectl -n red delete pods,podgroups --all --timeout=60s >/dev/null 2>&1
check "everything of it is gone" eventually 30 bash -c "! kubectl -n red get pods,resourceclaims -o name | grep ."

# what was lent comes back
for i in 0 1 2 3; do pod red "b$i" "" 300 >/dev/null; done
check "red borrows all four cards" eventually 20 bound_are red b 4
for i in 0 1 2 3; do eventually 20 phase_is red "b$i" Running; done
for i in 0 1; do pod blue "g$i" "" 300 >/dev/null; done
check "blue gets the two that are its own" eventually 40 bound_are blue g 2
check "and runs" eventually 20 phase_is blue g1 Running
check "two of red are left" eventually 20 bound_are red b 2
says "the event says what happened" Reclaimed kubectl -n red get events
queue_is() { [[ $(kubectl get queue "$1" -o jsonpath="{.status.$2}") == "$3" ]]; }
check "the queue knows what runs" eventually 15 queue_is blue running 2
check "and what it uses" eventually 15 bash -c "kubectl get queue blue -o jsonpath='{.status.resources[?(@.name==\"cards\")].used}' | grep -qx 2"
check "the third of blue borrows nothing that red holds" pod blue g2 "" 300
sleep 2
check "it waits" bound_are blue g 2
kubectl -n blue delete pods --all --timeout=60s >/dev/null 2>&1
kubectl -n red delete pods --all --timeout=60s >/dev/null 2>&1
check "all is free" eventually 30 bash -c "! kubectl get resourceclaims -A -o name | grep ."

# a gang that was evicted as a whole comes back as a whole
check "a gang of three is made" group red back 3
for i in 0 1 2; do pod red "k$i" back 300 >/dev/null; done
check "it borrows three cards" eventually 20 bound_are red k 3
for i in 0 1 2; do eventually 20 phase_is red "k$i" Running; done
check "it has started" eventually 10 group_is red back started true
for i in 0 1; do pod blue "e$i" "" 300 >/dev/null; done
check "blue takes its two back" eventually 40 bound_are blue e 2
for i in 0 1 2; do check "pod $i of the gang goes" eventually 30 gone red "k$i"; done
check "it says that it has not started any more" eventually 10 group_is red back started false
check "one of it comes back" pod red k3 back 300
check "it is told that this is too little" eventually 15 bash -c "kubectl -n red get pod k3 -o jsonpath='{.status.conditions}' | grep -q 'needs 3 pods to start and has 1'"
check "two cards are free, and it has none" bound_are red k 0
kubectl -n blue delete pods --all --timeout=60s >/dev/null 2>&1
sleep 2
check "nor with all four" bound_are red k 0
pid=$(child_pid control) && kill -9 "$pid"
check "the others come back, while control does, too" pod red k4 back 300
pod red k5 back 300 >/dev/null
check "and all three start" eventually 30 bound_are red k 3
check "it has started again" eventually 10 group_is red back started true
kubectl -n red delete pods,podgroups --all --timeout=60s >/dev/null 2>&1
check "nothing of it is left" eventually 30 bash -c "! kubectl get resourceclaims -A -o name | grep ."

# kill -9 in the middle
for round in 1 2 3; do
	group red "crash$round" 3 >/dev/null
	for i in 0 1 2; do pod red "c$round$i" "crash$round" 2 >/dev/null & done
	sleep "0.$((RANDOM % 4))"
	pid=$(child_pid control) && kill -9 "$pid"
	wait $(jobs -p | grep -v "^$up_pid\$") 2>/dev/null
	for i in 0 1 2; do
		check "round $round: pod $i ends well" eventually 40 phase_is red "c$round$i" Succeeded
	done
	check "round $round: the gang started" eventually 10 group_is red "crash$round" started true
done
check "no claim is left behind" eventually 20 bash -c "! kubectl get resourceclaims -A -o name | grep ."

# past usage
ledger() { kubectl -n ringfence-system get configmap ringfence-ledger -o jsonpath='{.data.ledger}'; }
platform_stop
check "the platform stops" test $? = 0
platform_start --simulate 4xH200
check "and starts again" test $? = 0
says "the ledger knows red" "red " ledger
says "what was decided on one machine can be decided again" " 0 differences" "$RINGFENCE" simulate --log "$work/events.log"
check "  and otherwise" "$RINGFENCE" simulate --log "$work/events.log" --what-if nodes+=1:h200x4
platform_stop
platform_start --simulate 4xH200
says "and still does after another start, though nothing of red ran since" "red " ledger
done_testing
