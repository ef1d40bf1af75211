#!/bin/bash
# Slices of cards in MIG mode on a real Kubernetes: the kubelet asks the agent through DRA, under both resource names.
source "$(dirname "$0")/lib.sh"
demo=/ringfence/bin/gpu-demo
cards() { # SPEC: which simulated cards each node has from now on
	system patch daemonset ringfence-node --type=json -p "[{\"op\":\"replace\",\"path\":\"/spec/template/spec/containers/0/args/12\",\"value\":\"$1\"}]" &&
		system rollout status daemonset/ringfence-node --timeout=90s
}
logs_say() { kubectl -n "$1" logs "$2" | grep -qF -- "$3"; }
waits_with() { json '{.status.conditions[?(@.type=="PodScheduled")].message}' -n "$1" pod "$2" | grep -qF -- "$3"; }
mig_cards() { json '{range .items[*].spec.devices[*]}{.attributes.migMode.string}{"\n"}{end}' resourceslices | grep -c enabled; }
mig_cards_are() { is "$(mig_cards)" "$1"; }
sliced='"isolation":"slice","quota":{"gpus":1},"queue":{"resources":[{"name":"mig/1g.10gb","limit":14},{"name":"mig/3g.40gb","limit":4},{"name":"mig/7g.80gb","limit":2}]}'

was=$(system get daemonset ringfence-node -o jsonpath='{.spec.template.spec.containers[0].args[12]}')
check "nodes get a card in MIG mode each" cards "$was,1xH100:mig"
check "slices say so" eventually 30 mig_cards_are 2
check "tenants that share cards by slices" tenant bank "$sliced"
check "two of them" tenant lab "$sliced"

apply bank small nvidia.com/mig-1g.10gb=1 "$demo --info; $demo --memory 20Gi --expect-oom; sleep 600" >/dev/null
check "a pod that asks for nvidia.com/mig-1g.10gb runs" eventually 40 phase_is bank small Running
check "it sees one device, a slice" eventually 10 logs_say bank small "device 0 of 1: NVIDIA H100 80GB HBM3 MIG 1g.10gb"
check "and no memory beyond it" eventually 10 logs_say bank small "out of memory after"
apply lab beside ringfence.io/mig-1g.10gb=1 "$demo --info; sleep 600" >/dev/null
check "a stranger's slice runs" eventually 40 phase_is lab beside Running
check "it sees its own only" eventually 10 logs_say lab beside "device 0 of 1: NVIDIA H100 80GB HBM3 MIG 1g.10gb"
check "both share a card" is "$(granted lab beside)" "$(granted bank small)"

# the agent is killed while slices are there, and while one comes
node=$(node_of bank small)
apply bank whole ringfence.io/mig-7g.80gb=1 "$demo --info; sleep 600" >/dev/null
check "who needs a card of one piece gets that of the other node" eventually 40 phase_is bank whole Running
check "elsewhere" bash -c "[[ $(node_of bank whole) != $node ]]"
system delete pod "$(agent_of "$node")" --grace-period=0 --force >/dev/null 2>&1
apply lab job ringfence.io/mig-3g.40gb=1 "$demo --info" >/dev/null
check "a pod that comes meanwhile ends well" succeeds 90 lab job
check "with a slice of its size" logs_say lab job "MIG 3g.40gb"
check "what ran was not disturbed" phase_is bank small Running
apply lab second ringfence.io/mig-7g.80gb=1 "$demo --info" >/dev/null
check "what fits nowhere waits with a reason" eventually 20 waits_with lab second "needs 1 MIG slice 7g.80gb"
kubectl -n bank delete pod small whole --timeout=90s >/dev/null
check "until somebody goes" succeeds 60 lab second
kubectl -n lab delete pods --all --timeout=90s >/dev/null
check "all claims are gone" eventually 40 no_claims
check "the cards are as before" cards "$was"
check "and none is in MIG mode" eventually 30 mig_cards_are 0
done_testing
