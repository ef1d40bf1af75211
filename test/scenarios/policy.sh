#!/bin/bash
# Policies from the command line: checked, asked, tested, laid out, measured, and judged by others' cases.
source "$(dirname "$0")/lib.sh"
unset KUBECONFIG
cd "$root" || exit 1
case $RINGFENCE in /*) ;; *) RINGFENCE=$root/$RINGFENCE ;; esac
policy() { "$RINGFENCE" policy "$@"; }
# ends STATUS command...: the exit status is just that one.
ends() { local want=$1; shift; "$@"; local got=$?; [[ $got == "$want" ]] || { echo "exit status $got"; false; }; }
cd "$work" || exit 1

mkdir -p pods/site/rules old cases/v1/first cases/v0/second
cat >pods/deny.rego <<'END'
package pods

deny contains msg if {
  some c in input.spec.containers
  c.privileged
  msg := sprintf("%s is privileged in %s", [c.name, data.site.rules.where])
}

allow if count(deny) == 0
END
cat >pods/deny_test.rego <<'END'
package pods["with-dash"]

import data.pods

test_plain_pod if pods.allow with input as {"spec": {"containers": [{"name": "a"}]}}

test_wrong if pods.allow with input as {"spec": {"containers": [{"name": "a", "privileged": true}]}}

test_said_false := false

todo_test_later if false
END
echo '{"where": "the cellar"}' >pods/site/rules/any.json
printf 'spec:\n  containers:\n  - {name: a, privileged: true}\n  - {name: b}\n' >pod.yaml
printf 'package old\np { input.x == 1 }\n' >old/p.rego
printf 'package bad\n\np if {\n\tx := 1\n\ty\n}\n' >unsafe.rego
printf 'package bad\n\np if {\n' >broken.rego

says "policy has help" "Usage: ringfence policy" policy --help
says "the manual page has it" "ringfence policy check" "$RINGFENCE" man
says "the completion knows its words" "conformance" bash -c "source <('$RINGFENCE' completion bash); COMP_WORDS=(ringfence policy c) COMP_CWORD=2; _ringfence; echo \"\${COMPREPLY[@]}\""
refuses "an unknown word is named with the known ones" 'no "policy frob"; there are check' policy frob
refuses "what is missing is asked for" "policy check policies/" policy check

says "good policies pass" "2 passed, 0 failed, 0 skipped" policy check pods
check "and the exit status says so" policy check pods
refuses "an error has its place" "unsafe.rego:5:2: rego_unsafe_var_error: var y is unsafe" policy check pods unsafe.rego
says "and a caret" "	^" policy check unsafe.rego
says "only the file with the error fails" "2 passed, 1 failed, 0 skipped" policy check pods unsafe.rego
check "errors exit with 1" ends 1 policy check unsafe.rego
says "after an error of syntax the others are not judged" "0 passed, 1 failed, 2 skipped" policy check broken.rego pods
refuses "old syntax is told" "rego_parse_error" policy check old
check "and read with --v0" policy check --v0 old
refuses "a missing file is named" "nowhere.rego: there is no such file" policy check nowhere.rego

asked=$(policy eval -d pods -i pod.yaml 'data.pods.deny' | tr -d '\n ')
[[ $asked == '{"result":[{"expressions":[{"value":["aisprivilegedinthecellar"],"text":"data.pods.deny","location":{"row":1,"col":1}}]}]}' ]] &&
	ok "eval answers as opa does, with data by folder and YAML input" || not_ok "eval answers: $asked"
asked=$(policy eval 'x := [1, 2][_]; x > 1' | tr -d '\n ')
[[ $asked == *'"text":"x>1"'*'"bindings":{"x":2}}]}' ]] && ok "variables are in bindings" || not_ok "bindings: $asked"
check "undefined is an empty object" bash -c "test \"\$('$RINGFENCE' policy eval -d pods data.pods.nothing)\" = '{}'"
says "pretty shows the value alone" 'x = "the cellar"' policy eval -o pretty 'x = data.site.rules.where' -d pods
says "pretty says undefined" "undefined" policy eval -o pretty -d pods data.pods.nothing
check "a builtin's error is undefined" policy eval '1 / 0'
refuses "or with --strict the end" "divide by zero" policy eval --strict '1 / 0'
refuses "a query that is none shows where" "query:1:5: rego_parse_error" policy eval '1 + '
refuses "a mistyped folder is not taken for a query" 'only one can be the query' policy eval -d podz data.pods
refuses "an unknown format is refused" "json or pretty" policy eval -o xml 1
refuses "an endless evaluation ends" "steps" policy eval 'x := numbers.range(1, 100000); y := x[_]; z := x[_]; y + z < 0'
mkdir -p twice && echo '{"site": {"rules": {"where": "the roof"}}}' >twice/data.json
refuses "two files may not say different things" "data.site.rules.where is in another file" policy eval -d pods -d twice data.site
echo '{"a": 1, "b"}' >broken.json
refuses "broken input is told with its file" "broken.json" policy eval -i broken.json input

says "tests are counted" "1 passed, 2 failed, 1 skipped" policy test pods
check "failures exit with 1" ends 1 policy test pods
says "a failed test has its place" 'deny_test.rego:7: data["pods"]["with-dash"]["test_wrong"]: FAILED: undefined' policy test pods
says "false is a failure" 'test_said_false"]: FAILED: false' policy test pods
printf 'package fine\n\ntest_one if true\n' >fine.rego
check "passing tests exit with 0" policy test fine.rego
refuses "no tests at all is no success" "there is no rule named test_" policy test old --v0
mkdir half
printf 'package half\n\np if input.x\n\nq if {\n\tinput.y\n}\n' >half/half.rego
printf 'package half_test\n\nimport data.half\n\ntest_p if half.p with input.x as 1\n' >half/half_test.rego
says "coverage names the lines that were evaluated" "  covered     3" policy test --coverage half
says "and those that were not" "  not covered 5-6" policy test --coverage half
says "and how much that is" "coverage: 50.0%, 2 of 4 lines" policy test --coverage half
check "enough of it exits with 0" policy test --threshold 50 half
check "too little with 1" ends 1 policy test --threshold 50.1 half
refuses "a threshold is a number of percent" "from 0 to 100" policy test --threshold 101 half
check "as JSON it is as OPA's" python3 -c '
import json, sys
r = json.loads(sys.argv[1]); f = r["files"]["half/half.rego"]
assert (r["covered_lines"], r["not_covered_lines"], r["coverage"]) == (2, 2, 50), r
assert [(x["start"]["row"], x["end"]["row"]) for x in f["not_covered"]] == [(5, 5), (6, 6)], f' "$(policy test -c -o json half 2>/dev/null)"

printf 'package x\n\np := 1' >short.rego
refuses "a missing last line break is a change too" "No newline at end of file" policy fmt -d short.rego
refuses "fmt -d shows the change" "+	some c in input.spec.containers" policy fmt -d pods/deny.rego
says "fmt prints" "	c.privileged" policy fmt pods/deny.rego
chmod 640 pods/deny.rego
says "fmt -w names what it changed" "pods/deny.rego" policy fmt -w pods
check "then nothing is left to change" policy fmt -d pods
check "the mode stays" test "$(stat -c %a pods/deny.rego)" = 640
cp broken.rego broken.before
refuses "fmt -w leaves alone what it cannot read" "cannot be read as Rego" policy fmt -w broken.rego
check "byte for byte" cmp broken.rego broken.before

# timed WHAT command...: it prints a line with mean, p50 and p99 of that
timed() {
	local what=$1
	shift
	"$@" | grep -Eq "^$what +mean +[0-9.]+ us +p50 +[0-9.]+ us +p99 +[0-9.]+ us$"
}
check "bench measures evaluations" timed "evaluation" policy bench -d pods -i pod.yaml data.pods.deny --count 20
check "with the input's parsing too" timed "input parsed and evaluation" policy bench -d pods -i pod.yaml data.pods.deny --count 20
refuses "bench wants a sane count" "--count is 1 to" policy bench 1 --count 0

cat >cases/v1/first/a.yaml <<'END'
cases:
- note: first/good
  query: data.p.x = y
  modules: ["package p\nx := 1 if true\n"]
  want_result: [{"y": 1}]
- note: first/net
  query: data.p.x = y
  modules: ["package p\nx := http.send({\"method\": \"get\", \"url\": \"http://127.0.0.1\"})\n"]
  strict_error: true
  want_result: [{"y": 1}]
END
cat >cases/v0/second/a.yaml <<'END'
cases:
- note: second/old syntax
  query: data.p.x = y
  modules: ["package p\nx = 2 { true }\n"]
  want_result: [{"y": 2}]
END
says "cases are run in their version" "2 passed, 0 failed, 1 skipped" policy conformance cases
check "conformance exits with 0" policy conformance cases
says "what is skipped is named" "skipped 1 cases that call http.send" policy conformance cases
sed -i 's/"y": 2/"y": 3/' cases/v0/second/a.yaml
check "a failed case exits with 1" ends 1 policy conformance cases
says "and is told with --verbose" 'second/old syntax: got {"y": 2}, wanted [{"y": 3}]' policy conformance --verbose cases
refuses "no cases are no success" "there are no cases" policy conformance pods

for v in v1.29 v1.30; do
	mkdir -p ps/baseline/$v/{pass,fail}
	printf 'kind: Pod\nspec:\n  containers: [{name: a, image: b}]\n' >ps/baseline/$v/pass/a.yaml
	printf 'kind: Pod\nspec:\n  hostNetwork: true\n  containers: [{name: a, image: b}]\n' >ps/baseline/$v/fail/a.yaml
done
says "fixtures are judged, each by its version" "4 passed, 0 failed, 0 skipped" policy podsecurity ps
says "one version alone is judged by its name" "2 passed, 0 failed, 0 skipped" policy podsecurity ps/baseline/v1.29
mv ps/baseline/v1.30/fail/a.yaml ps/baseline/v1.30/pass/b.yaml
refuses "another verdict is a failure with the reason" "host namespaces" policy podsecurity ps

mkdir suite
cat >suite/template.yaml <<'END'
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: k8sneedsowner}
spec:
  crd: {spec: {names: {kind: K8sNeedsOwner}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package k8sneedsowner
      violation[{"msg": msg}] {
        not input.review.object.metadata.labels.owner
        msg := "no owner"
      }
END
cat >suite/constraint.yaml <<'END'
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: K8sNeedsOwner
metadata: {name: all-owned}
END
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b, labels: {owner: c}}\n' >suite/owned.yaml
printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: b}\n' >suite/stray.yaml
cat >suite/suite.yaml <<'END'
apiVersion: test.gatekeeper.sh/v1alpha1
kind: Suite
tests:
- name: owner
  template: template.yaml
  constraint: constraint.yaml
  cases:
  - {name: owned, object: owned.yaml, assertions: [{violations: no}]}
  - {name: stray, object: stray.yaml, assertions: [{violations: yes}]}
END
says "Gatekeeper's suites are run" "2 passed, 0 failed, 0 skipped" policy verify suite
check "verify exits with 0" policy verify suite
sed -i 's/owned.yaml, assertions/stray.yaml, assertions/' suite/suite.yaml
check "a suite that fails exits with 1" ends 1 policy verify suite
refuses "no suite is no success" "there is no Suite" policy verify old
done_testing
