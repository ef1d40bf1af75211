#!/bin/bash
# Policies: Gatekeeper's templates and constraints, and plain Rego, asked by ringfence's webhook.
source "$(dirname "$0")/lib.sh"
one=ringfence.io/gpu=1
put() { kubectl apply -f - <<<"$1"; }
try() { kubectl create --dry-run=server -f - <<<"$1"; }
hears() { try "$2" 2>&1 | grep -qF -- "$1"; } # WORDS OBJECT

check "the kind ConstraintTemplate comes" kubectl apply -k "$root/deploy/gatekeeper"
check "and is served" kubectl wait --for=condition=Established --timeout=20s crd/constrainttemplates.templates.gatekeeper.sh
template() { # TYPE REGO-BODY
	cat <<-END
		apiVersion: templates.gatekeeper.sh/v1
		kind: ConstraintTemplate
		metadata: {name: e2elabels}
		spec:
		  crd:
		    spec:
		      names: {kind: E2ELabels}
		      validation:
		        openAPIV3Schema: {type: object, properties: {label: {type: $1}}}
		  targets:
		  - target: admission.k8s.gatekeeper.sh
		    rego: |
		      package e2elabels
		      violation[{"msg": msg}] { $2 }
	END
}
constraint() { # NAME SPEC
	echo "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: E2ELabels, metadata: {name: $1}, spec: {$2}}"
}
body='not input.review.object.metadata.labels[input.parameters.label]; msg := sprintf("label %v is missing", [input.parameters.label])'
check "a template is accepted" put "$(template string "$body")"
created() { is "$(json '{.status.created}' constrainttemplate e2elabels)" true; }
check "control says that it is in force" eventually 20 created
check "its kind is made" kubectl wait --for=condition=Established --timeout=20s crd/e2elabels.constraints.gatekeeper.sh
refuses "one that cannot be compiled is refused" "rego_" put "$(template string 'msg := nothing(1)')"
kinds='match: {kinds: [{apiGroups: ["", apps], kinds: [ConfigMap, Deployment, Pod]}], namespaces: [guarded]}'
kubectl create namespace guarded >/dev/null
check "a constraint is accepted" eventually 20 put "$(constraint need-owner "$kinds, parameters: {label: owner}")"
refuses "one with parameters of another type is not" "parameters" put "$(constraint wrong "parameters: {label: 3}")"
map() { echo "{apiVersion: v1, kind: ConfigMap, metadata: {name: $1, namespace: guarded, labels: {${2:-}}}}"; }
check "what violates it is refused soon" eventually 20 hears '[need-owner] label owner is missing' "$(map a)"
check "what does not is accepted" put "$(map b 'owner: x')"
refuses "a change that violates it is refused" "label owner is missing" kubectl -n guarded label configmap b owner-
check "elsewhere it does not hold" kubectl -n default create configmap policy-elsewhere
check "a second constraint only warns" eventually 20 put "$(constraint want-team "$kinds, enforcementAction: warn, parameters: {label: team}")"
check "and the warning is shown" eventually 20 hears 'Warning: [want-team] label team is missing' "$(map c 'owner: x')"

# plain Rego
rego() { # NAME TEXT
	kubectl -n ringfence-system create configmap "$1" --from-literal=p.rego="$2" --dry-run=client -o yaml |
		kubectl label --local -f - openpolicyagent.org/policy=rego -o yaml | kubectl apply -f -
}
refuses "Rego that cannot be read is refused" "p.rego" rego e2e-bad 'package kubernetes.admission deny contains'
check "plain Rego is accepted" rego e2e-plain 'package kubernetes.admission
deny contains "no latest" if { some c in input.request.object.spec.containers; endswith(c.image, ":latest") }'
owned() { pod "$@" | sed 's/"metadata":{/"metadata":{"labels":{"owner":"x"},/'; }
check "and judges" eventually 20 hears '[kubernetes.admission] no latest' "$(owned guarded late "" true | sed 's/runtime:e2e/runtime:latest/')"

# pods with cards are judged by the same policies, and by their tenant
check "a tenant comes" tenant guarded-team '"namespaces":["guarded-team"],"quota":{"gpus":1}'
check "a constraint holds there" put "$(constraint need-owner "${kinds/namespaces: \[guarded\]/namespaces: [guarded, guarded-team]}, parameters: {label: owner}")"
check "a pod with a card that violates it is refused" eventually 20 hears '[need-owner] label owner is missing' "$(pod guarded-team card $one true)"
check "one that does not runs" put "$(owned guarded-team card $one true)"
check "to its end" succeeds 60 guarded-team card

# who enters a pod
check "policies see who enters a pod" rego e2e-exec 'package kubernetes.admission
deny contains msg if { input.request.operation == "CONNECT"; msg := sprintf("no %v here", [input.request.subResource]) }'
check "a pod to enter runs" put "$(owned guarded stays "" "sleep 300")"
check "it does" eventually 40 phase_is guarded stays Running
no_exec() { kubectl -n guarded exec stays -- true 2>&1 | grep -qF '[kubernetes.admission] no exec here'; }
check "and is not entered" eventually 20 no_exec
check "the policy goes" system delete configmap e2e-exec
check "and it is entered" eventually 20 kubectl -n guarded exec stays -- true

# exemptions
check "an administrator exempts a namespace" kubectl label namespace guarded admission.gatekeeper.sh/ignore=yes
check "it is left alone" eventually 20 try "$(map d)"
kubectl label namespace guarded admission.gatekeeper.sh/ignore- >/dev/null
check "kube-system always is" kubectl -n kube-system create configmap policy-e2e
kubectl -n kube-system delete configmap policy-e2e >/dev/null

# control is down: cards are refused, the rest is let through
check "control is taken down" system scale deployment ringfence-control --replicas=0
check "and is gone" eventually 40 bash -c "! kubectl -n ringfence-system get pods -l app.kubernetes.io/name=ringfence-control --no-headers 2>/dev/null | grep ."
check "what a policy would refuse is let through" eventually 20 put "$(map open)"
refuses "a pod with a card is not" "failed calling webhook" apply guarded-team late $one true
check "control comes back" system scale deployment ringfence-control --replicas=2
check "ready" kubectl -n ringfence-system rollout status deployment/ringfence-control --timeout=90s
refuses "and so do its policies" "label owner is missing" put "$(map closed)"

# ringfence's own pack
check "the pack of policies for cards is accepted" kubectl apply -k "$root/policies"
all_created() { is "$(json '{.items[?(@.status.created!=true)].metadata.name}' constrainttemplates)" "" &&
	is "$(json '{.items[*].status.created}' constrainttemplates | wc -w)" "$(kubectl get constrainttemplates --no-headers | wc -l)"; }
check "every template of it is taken" eventually 60 all_created
kubectl get constrainttemplates -o jsonpath='{range .items[?(@.status.created!=true)]}{.metadata.name}: {.status}{"\n"}{end}' | sed 's/^/# /'
kubectl delete -k "$root/policies" --wait=false >/dev/null

# clean up
check "a constraint that is deleted no longer holds" kubectl delete e2elabels need-owner want-team
check "soon" eventually 20 try "$(map e)"
check "a template takes its kind along" kubectl delete constrainttemplate e2elabels
check "soon" eventually 40 bash -c "! kubectl get crd e2elabels.constraints.gatekeeper.sh 2>/dev/null"
check "control complains of no rights" bash -c "! kubectl -n ringfence-system logs -l app.kubernetes.io/name=ringfence-control --tail=-1 | grep -i forbidden"
system delete configmap e2e-plain >/dev/null
kubectl -n default delete configmap policy-elsewhere >/dev/null
kubectl delete tenant guarded-team --wait=false >/dev/null
kubectl delete namespace guarded --wait=false >/dev/null
kubectl delete -k "$root/deploy/gatekeeper" >/dev/null
done_testing
