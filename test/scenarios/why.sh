#!/bin/bash
# Why does it wait, and whose turn is it? Answered to the tenant by its own rights, and to the administrator.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 1xH200
kubectl apply -f tenants.yaml >/dev/null
for t in team-a bank lab; do kubectl wait --for=condition=Ready --timeout=20s "tenant/$t" >/dev/null; done
"$RINGFENCE" tenant kubeconfig lab >"$work/lab.kubeconfig"
why() { "$RINGFENCE" why --kubeconfig "$work/lab.kubeconfig" "$@"; }
image=() # on one machine: its own files
on_kubernetes && image=(--image localhost/runtime:e2e)

refuses "a pod that is not there is named" 'there is no pod "nosuch" in namespace "lab"' why nosuch -n lab
refuses "another tenant's pods are not told about" forbidden why bank/holder
refuses "without a pod it asks which" "say which pod" why

"$RINGFENCE" run -d -n bank --name holder --gpus 1 "${image[@]}" -- sleep 120 >/dev/null
check "somebody holds the card" eventually 20 phase_is bank holder Running
says "a running pod says where it runs" "bank/holder (running): runs on node" "$RINGFENCE" why bank/holder
"$RINGFENCE" run -d -n lab --name late --gpus 1 "${image[@]}" -- true >/dev/null
told() { why late -n lab | grep -q '(waiting)' && why late -n lab | grep -q 'reason  *Unschedulable'; }
check "the other waits, and its owner is told" eventually 20 told
says "in one line" "lab/late (waiting): " why lab/late
says "as JSON too" '"state": "waiting"' why lab/late -o json
says "and at length" PodScheduled why lab/late --all
counted() { "$RINGFENCE" queue lab -o json --kubeconfig "$work/lab.kubeconfig" | grep -q '"wanted": 1'; }
check "its queue counts what waits" eventually 20 counted
check "nobody else is named to him" bash -c "! '$RINGFENCE' why --kubeconfig '$work/lab.kubeconfig' lab/late --all | grep -q holder"
kubectl -n bank delete pod holder --wait=false >/dev/null
check "then it runs" eventually 60 pod_ended lab late
says "and is told to have ended" "(ended)" why lab/late
kubectl --kubeconfig "$work/lab.kubeconfig" -n lab apply -f - >/dev/null <<-END
	apiVersion: v1
	kind: Pod
	metadata: {name: gated, labels: {}}
	spec:
	  schedulingGates: [{name: example.com/later}]
	  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
	  containers: [{name: main, image: host, command: ["true"], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
END
says "a gate is named" "example.com/later" why lab/gated

# One pod of its own for the lab, with these metadata, as YAML.
asks_for_a_card() {
	kubectl --kubeconfig "$work/lab.kubeconfig" -n lab apply -f - >/dev/null <<-END
		apiVersion: v1
		kind: Pod
		metadata: {$1}
		spec:
		  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
		  containers: [{name: main, image: host, command: ["true"], resources: {limits: {ringfence.io/gpu: 1}}, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]
	END
}
told_of() { why "$1" | grep -qF -- "$2"; }
kubectl patch tenant lab --type merge -p '{"spec":{"queue":{"resources":[{"name":"cards/H200","limit":0}]}}}' >/dev/null
limited() { kubectl get queue lab -o yaml | grep -qi cards/h200; }
check "a model can be limited" eventually 20 limited
asks_for_a_card 'name: limited'
check "the quota of a model is named, with its queue" eventually 20 told_of lab/limited "asks for 1 of cards/h200, and the limit of queue lab leaves 0."
kubectl -n lab delete pod limited >/dev/null
kubectl patch tenant lab --type merge -p '{"spec":{"queue":{"resources":null}}}' >/dev/null
kubectl -n lab apply -f - >/dev/null <<-END
	apiVersion: ringfence.io/v1alpha1
	kind: PodGroup
	metadata: {name: row}
	spec: {minMember: 1, topologyKey: example.com/row}
END
asks_for_a_card 'name: rowing, labels: {ringfence.io/pod-group: row}'
check "a gang's topology is named" eventually 20 told_of lab/rowing "needs nodes with one value of label example.com/row, and no node has that label"
kubectl -n lab delete pod rowing >/dev/null
kubectl -n lab delete podgroup row >/dev/null
asks_for_a_card 'name: picky, annotations: {ringfence.io/gpu-model: A100}'
check "so is a model that is not there" eventually 20 told_of lab/picky "no card here is of a model it asks for (A100)"
kubectl -n lab delete pod picky >/dev/null

says "every queue is listed" "team-b" "$RINGFENCE" queue
says "with what it is entitled to" "GUARANTEED" "$RINGFENCE" queue
says "as JSON too" '"path": "bank"' "$RINGFENCE" queue -o json
says "one by its name" "lab" "$RINGFENCE" queue lab
check "and no other" bash -c "! '$RINGFENCE' queue lab | grep -q bank"
refuses "one that is not there is named" 'there is no queue "nosuch"' "$RINGFENCE" queue nosuch
says "a tenant sees its own" "lab" "$RINGFENCE" queue lab --kubeconfig "$work/lab.kubeconfig"
refuses "and no other's" "forbidden" "$RINGFENCE" queue bank --kubeconfig "$work/lab.kubeconfig"
refuses "nor does it change it" "forbidden" kubectl --kubeconfig "$work/lab.kubeconfig" patch queue lab --type merge -p '{"spec":{"weight":9}}'
refuses "all queues are not a tenant's to see" "forbidden" "$RINGFENCE" queue --kubeconfig "$work/lab.kubeconfig"
done_testing
