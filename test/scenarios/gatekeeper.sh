#!/bin/bash
# Gatekeeper's policies, unmodified, in the embedded API server's write path, with a real kubectl.
# Needs kubectl and $RINGFENCE (the program; default: build/ringfence). Prints TAP.
set -u

RINGFENCE=${RINGFENCE:-build/ringfence}
root=$(cd "$(dirname "$0")/../.." && pwd)
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
k() { kubectl --request-timeout=20s "$@"; }
# Behind a line that keeps kubectl from taking flow style for JSON.
apply() { kubectl apply -f - <<<"---"$'\n'"$1"; }

start() {
	: >"$DIR/out"
	"$RINGFENCE" apiserver --data "$DIR/data" --listen 127.0.0.1:0 --kubeconfig "$KUBECONFIG" \
		>"$DIR/out" 2>>"$DIR/log" &
	server=$!
	for _ in $(seq 100); do
		grep -q '^apiserver https' "$DIR/out" && return
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	echo "Bail out! the API server did not start: $(tail -3 "$DIR/log")"
	exit 1
}
stop() { kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; }
trap 'stop; rm -rf "$DIR"' EXIT
start

cat >"$DIR/labels.yaml" <<'END'
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata:
  name: k8sneedslabels
  annotations:
    metadata.gatekeeper.sh/title: Labels that must be there
spec:
  crd:
    spec:
      names:
        kind: K8sNeedsLabels
        shortNames: [knl]
      validation:
        openAPIV3Schema:
          type: object
          properties:
            labels:
              type: array
              items: {type: string}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k8sneedslabels

      violation[{"msg": msg, "details": {"missing": missing}}] {
        have := {l | input.review.object.metadata.labels[l]}
        want := {l | l := input.parameters.labels[_]}
        missing := want - have
        count(missing) > 0
        msg := sprintf("%v lacks the labels %v", [input.review.object.metadata.name, missing])
      }
END
cat >"$DIR/unique.yaml" <<'END'
apiVersion: templates.gatekeeper.sh/v1beta1
kind: ConstraintTemplate
metadata:
  name: k8suniquehost
  annotations:
    metadata.gatekeeper.sh/requires-sync-data: |
      "[[{"groups": [""], "versions": ["v1"], "kinds": ["ConfigMap"]}]]"
spec:
  crd:
    spec:
      names:
        kind: K8sUniqueHost
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k8suniquehost

      same(a, b) {
        a.metadata.namespace == b.metadata.namespace
        a.metadata.name == b.metadata.name
      }

      violation[{"msg": msg}] {
        host := input.review.object.data.host
        other := data.inventory.namespace[ns][_]["ConfigMap"][name]
        other.data.host == host
        not same(other, input.review.object)
        msg := sprintf("host %v is that of %v/%v", [host, ns, name])
      }
END
constraint() { # NAME ACTION KIND PARAMETERS
	printf 'apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: %s\nmetadata: {name: %s}\nspec:\n' "$3" "$1"
	printf '  enforcementAction: %s\n  match: {kinds: [{apiGroups: [""], kinds: [ConfigMap]}], excludedNamespaces: [kube-system]}\n' "$2"
	printf '  parameters: %s\n' "$4"
}

expect "before there are templates there are no constraints" 'No resources found' k get constrainttemplates
expect "a template is applied" 'constrainttemplate.templates.gatekeeper.sh/k8sneedslabels created' \
	k apply -f "$DIR/labels.yaml"
expect "and again changes nothing" 'k8sneedslabels unchanged' k apply -f "$DIR/labels.yaml"
expect "its status says that its kind is there" '^true$' \
	k get constrainttemplate k8sneedslabels -o 'jsonpath={.status.created}{"\n"}'
constraint need-owner deny K8sNeedsLabels '{labels: [owner]}' >"$DIR/owner.yaml"
expect "a constraint of its kind is applied" 'k8sneedslabels.constraints.gatekeeper.sh/need-owner created' \
	k apply -f "$DIR/owner.yaml"
expect "and again changes nothing" 'need-owner unchanged' k apply -f "$DIR/owner.yaml"
expect "get by plural" 'need-owner +deny' k get k8sneedslabels
expect "get by kind" 'need-owner' k get K8sNeedsLabels
expect "get by short name" 'need-owner' k get knl need-owner
expect "get constraints lists all kinds" 'need-owner' k get constraints
expect "the template is listed" 'k8sneedslabels' k get constrainttemplates
expect "explain knows the kind" 'K8sNeedsLabels' k explain k8sneedslabels

refuse "what violates is denied in Gatekeeper's words" \
	'admission webhook "validation.gatekeeper.sh" denied the request: \[need-owner\] a lacks the labels \{"owner"\}' \
	k create configmap a
refuse "with reason Forbidden" 'Error from server \(Forbidden\): .*denied the request' \
	apply '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}'
refuse "and was not written" 'NotFound' k get configmap a
refuse "a dry run is judged too" 'denied the request' k create configmap a --dry-run=server
cm() { apply "{apiVersion: v1, kind: ConfigMap, metadata: {name: $1, namespace: ${3:-default}, labels: {owner: me}}, data: {host: \"$2\"}}"; }
expect "what does not violate is written" 'configmap/a created' cm a a.example
refuse "a change is judged" 'denied the request: \[need-owner\]' k label configmap a owner-
expect "excluded namespaces are left alone" 'created' k create configmap free -n kube-system
expect "other kinds are left alone" 'created' k create serviceaccount bot

expect "an older version of the template's API is taken" 'k8suniquehost created' k apply -f "$DIR/unique.yaml"
expect "and applied again" 'k8suniquehost unchanged' k apply -f "$DIR/unique.yaml"
expect "it is the same object" '^templates.gatekeeper.sh/v1$' \
	k get constrainttemplate k8suniquehost -o 'jsonpath={.apiVersion}{"\n"}'
apply "$(constraint unique-host deny K8sUniqueHost '{}')" >/dev/null
refuse "a referential policy sees what is stored" 'host a.example is that of default/a' cm b a.example
expect "and lets the rest pass" 'configmap/b created' cm b b.example
expect "an object does not collide with itself" 'configmap/b (unchanged|configured)' cm b b.example

expect "a constraint may only warn" 'created|configured' apply "$(constraint need-team warn K8sNeedsLabels '{labels: [team]}')"
expect "then kubectl shows the warning" 'Warning: \[need-team\] c lacks the labels' cm c c.example
expect "and the object is written" 'configmap/c' k get configmap c -o name
expect "dryrun says nothing" 'configured' apply "$(constraint need-team dryrun K8sNeedsLabels '{labels: [team]}')"

cat >"$DIR/loud.yaml" <<'END'
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sloud}
spec:
  crd: {spec: {names: {kind: K8sLoud}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k8sloud

      violation[{"msg": "say \"a\\b\"\nthen \u00e4\tand go"}] { input.review.object.data.host == "loud" }
      violation[{"msg": "say \"a\\b\" then \u00e4\tand go"}] { input.review.object.data.host == "loud" }
      violation[{"msg": msg}] {
        input.review.object.data.host == "louder"
        msg := sprintf("%v %v", [numbers.range(100, 300)[_], concat("", [x | numbers.range(1, 100)[_]; x := "\u00e4bc"])])
      }
END
k apply -f "$DIR/loud.yaml" >/dev/null
apply "$(constraint loud warn K8sLoud '{}')" >/dev/null
expect "quotes, backslashes and breaks arrive in a warning" '^Warning: \[loud\] say "a\\b" then ä and go$' cm loud loud
expect "the same warning comes once" '^1$' bash -c "$(declare -f apply cm); cm loud2 loud 2>&1 | grep -c '^Warning: .loud.'"
expect "of many warnings some come, cut short" '^1[0-9] 25[0-9]$' bash -c \
	"$(declare -f apply cm); cm louder louder 2>&1 | sed -n 's/^Warning: //p' | LC_ALL=C awk '{n = length(\$0)} END {print NR, n}'"
k delete constrainttemplate k8sloud >/dev/null

refuse "a template that cannot be read is refused with the place" 'rego_parse_error|[0-9]+:[0-9]+' \
	bash -c "sed 's/count(missing) > 0/count(missing >/' '$DIR/labels.yaml' | kubectl apply -f -"
expect "and the one before stays in force" '^1$' bash -c 'kubectl create configmap x 2>&1 | grep -c need-owner'
refuse "parameters that do not fit are refused" 'labels' \
	apply "$(constraint bad deny K8sNeedsLabels '{labels: 5}')"
refuse "a constraint without a template has no kind" 'no matches for kind "K8sNobody"' \
	apply "$(constraint bad deny K8sNobody '{}')"

cat >"$DIR/plain.yaml" <<'END'
apiVersion: v1
kind: ConfigMap
metadata:
  name: plain
  namespace: ringfence-system
  labels: {openpolicyagent.org/policy: rego}
data:
  plain.rego: |
    package kubernetes.admission

    deny contains msg if {
      input.request.kind.kind == "ServiceAccount"
      startswith(input.request.object.metadata.name, "evil")
      msg := sprintf("%s may not make %s", [input.request.userInfo.username, input.request.name])
    }
END
expect "plain Rego comes in a labelled ConfigMap" 'configmap/plain created' k apply -f "$DIR/plain.yaml"
refuse "and is asked" 'denied the request: .*ringfence-admin may not make evil-bot' k create sa evil-bot
refuse "plain Rego that cannot be compiled is refused" 'rego_|[0-9]+:[0-9]+' \
	bash -c "sed 's/startswith(/startwith(/' '$DIR/plain.yaml' | kubectl apply -f -"
refuse "and the one before stays in force" 'may not make evil-bot' k create sa evil-bot

k create ns team-a >/dev/null
k create rolebinding alice-admin -n team-a --clusterrole=admin --user=alice >/dev/null
refuse "a namespace's admin may not write policies there are for all" 'cannot (get|create|patch) resource "configmaps".*"ringfence-system"' \
	k apply --as alice -f "$DIR/plain.yaml"
refuse "nor templates" 'cannot (get|create) resource "constrainttemplates"' k apply --as alice -f "$DIR/labels.yaml"
refuse "nor constraints" 'cannot delete resource "k8sneedslabels"' k delete --as alice k8sneedslabels need-owner
refuse "and is judged like everybody" 'denied the request: \[need-owner\]' k create --as alice -n team-a configmap x

# What somebody sends so that the policy sees one thing and another is stored.
maps=/api/v1/namespaces/default/configmaps
refuse "labels that are told twice are refused, not guessed" 'appears twice' k create --raw $maps -f - \
	<<<'{"metadata":{"name":"odd","labels":{"owner":"x"},"labels":{}}}'
refuse "in another case they are none" '\[need-owner\]' k create --raw $maps -f - \
	<<<'{"metadata":{"name":"odd","Labels":{"owner":"x"}}}'
refuse "an object without its kind is of the kind it becomes" '\[need-owner\]' k create --raw $maps -f - <<<'{"metadata":{"name":"odd"}}'
refuse "a namespace that is left alone is not to be had by the body" 'does not match the namespace' k create --raw $maps -f - \
	<<<'{"metadata":{"name":"odd","namespace":"kube-system"}}'
refuse "a name that is drawn does not help" '\[need-owner\]' k create --raw $maps -f - <<<'{"metadata":{"generateName":"odd-"}}'
refuse "what nests too deep is refused" 'nested deeper' k create --raw $maps -f - \
	<<<'{"metadata":{"name":"odd"},"x":'"$(printf '[%.0s' {1..200})$(printf ']%.0s' {1..200})"'}'
refuse "nor is a number stored that no policy can read" 'out of range' \
	k create --raw /apis/ringfence.io/v1alpha1/namespaces/default/podgroups -f - <<<'{"metadata":{"name":"odd"},"spec":{"n":1e400000}}'
refuse "a patch of any sort is judged: json" '\[need-owner\]' k patch configmap b --type json -p '[{"op":"remove","path":"/metadata/labels/owner"}]'
refuse "merge" '\[need-owner\]' k patch configmap b --type merge -p '{"metadata":{"labels":null}}'
refuse "strategic" '\[need-owner\]' k patch configmap b --type strategic -p '{"metadata":{"labels":{"$patch":"replace"}}}'
refuse "to apply on the server's side is not served" 'not served' k apply --server-side -f - <<<'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}'

stop
start
refuse "after a restart the policies hold" 'denied the request: \[need-owner\]' k create configmap y
refuse "referential ones too" 'host a.example is that of default/a' cm z a.example
expect "and their kinds are served" 'need-owner' k get k8sneedslabels

# Whoever comes first, one host never has two owners.
race() {
	local i both=0 none=0
	for i in $(seq "$1"); do
		cm "race-$i-a" "race-$i.example" >"$DIR/race-a" 2>&1 &
		local first=$!
		cm "race-$i-b" "race-$i.example" team-a >"$DIR/race-b" 2>&1
		wait "$first"
		case $(grep -c created "$DIR/race-a" "$DIR/race-b" | cut -d: -f2 | paste -sd+ | bc) in
		2) both=$((both + 1)) ;;
		0) none=$((none + 1)) ;;
		esac
	done
	echo "both $both none $none"
}
expect "of two that race for a host exactly one gets it" '^both 0 none 0$' race 5

deny_all=$(sed 's/k8sneedslabels/k8sdenyall/g; s/K8sNeedsLabels/K8sDenyAll/; s/shortNames.*//; /have :=/,/count(/d; s/msg := .*/msg := "no"/; s/, "details".*}\]/}]/' "$DIR/labels.yaml")
apply "$deny_all" >"$DIR/deny" 2>&1
apply "$(printf 'apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: K8sDenyAll\nmetadata: {name: everything}')" >>"$DIR/deny" 2>&1
refuse "a policy may refuse everything" '\[everything\] no' k create ns team-b
expect "deletions only if it speaks of them" 'deleted' k delete configmap a
expect "but not that policies are changed" 'labeled' k label k8sneedslabels need-owner x=y
expect "nor that they are deleted" 'deleted' k delete constrainttemplate k8sdenyall
expect "with a template its constraints are gone" 'created' k create ns team-b
refuse "and so is its kind" "doesn't have a resource type|could not find the requested resource" k get k8sdenyall
k delete constrainttemplates --all >/dev/null 2>&1
k delete configmap plain -n ringfence-system >/dev/null 2>&1
expect "without policies all is as before" 'created' k create configmap a2
expect "a template that comes again has no constraints" 'No resources found' \
	bash -c "kubectl apply -f '$DIR/labels.yaml' >/dev/null && kubectl get k8sneedslabels"

# The pack of policies for GPUs, if it is there: every template is taken, then the constraints that come
# with it, and a pod that asks for nothing passes.
pack=("$root"/policies/*/template.yaml)
if [[ -f ${pack[0]} ]]; then
	for t in "${pack[@]}"; do
		expect "the pack's $(basename "$(dirname "$t")") is taken" '(created|configured|unchanged)' k apply -f "$t"
	done
	for c in "$root"/policies/recommended/*.yaml; do
		grep -q '^apiVersion: constraints.gatekeeper.sh' "$c" || continue
		expect "its constraints in $(basename "$c") are taken" '(created|configured|unchanged)' k apply -f "$c"
	done
	expect "an ordinary object passes the pack" 'created' k create configmap ordinary
	expect "policy apply takes what the kustomizations name" 'RingfenceGpuImages gpu-images updated' \
		"$RINGFENCE" policy apply "$root/policies" "$root/policies/recommended"
fi

# --- policies from files ---
mkdir "$DIR/rego"
cat >"$DIR/rego/names.rego" <<'REGO'
package kubernetes.admission

deny contains msg if {
	input.request.kind.kind == "ConfigMap"
	data.names.bad[input.request.name]
	msg := "that name is taken"
}
REGO
printf 'package names\n\nbad := {"worse"}\n' >"$DIR/rego/data.rego"
printf 'package names_test\n\nbroken if {\n' >"$DIR/rego/names_test.rego"
expect "Rego files become a ConfigMap, tests do not" 'ConfigMap policies created' "$RINGFENCE" policy apply "$DIR/rego"
refuse "that is judged by" 'that name is taken' k create configmap worse
printf 'package names\n\nbad := {"worst"}\n' >"$DIR/rego/data.rego"
expect "applied again it is changed" 'ConfigMap policies updated' "$RINGFENCE" policy apply "$DIR/rego"
expect "and judges anew" 'created' k create configmap worse
printf 'package names\n\nbad := {"worst"\n' >"$DIR/rego/data.rego"
refuse "what does not compile is not sent" 'policies/data.rego:[0-9]+:[0-9]+: rego_parse_error' \
	"$RINGFENCE" policy apply "$DIR/rego"
refuse "and what was there goes on" 'that name is taken' k create configmap worst

stop
expect "the server said nothing of its own memory" '^0$' \
	bash -c "grep -cE 'AddressSanitizer|LeakSanitizer|runtime error|ringfence: bug' '$DIR/log' || true"
echo "1..$n"
exit $((failed > 0))
