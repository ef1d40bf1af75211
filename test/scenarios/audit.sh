#!/bin/bash
# The audit: a platform before and after mending, manifests, four formats, hostile names, exit statuses.
source "$(dirname "$0")/lib.sh"
case $RINGFENCE in /*) ;; *) RINGFENCE=$(cd "$(dirname "$RINGFENCE")" && pwd)/$(basename "$RINGFENCE") ;; esac
audit() { "$RINGFENCE" audit "$@"; }
# ends STATUS command...: the exit status is just that one.
ends() { local want=$1; shift; "$@" >/dev/null; local got=$?; [[ $got == "$want" ]] || { echo "exit status $got"; false; }; }
# ids file: "id severity object" of a JSON report's findings
ids() { python3 -c '
import json, sys
for f in json.load(open(sys.argv[1]))["findings"]:
    o = f["object"]
    print(f["id"], f["severity"], "/".join(o[k] for k in ("kind", "namespace", "name") if k in o))' "$1"; }
has() { ids "$1" | grep -qE "$2" || { ids "$1"; false; }; }
lacks() { ! has "$1" "$2" >/dev/null || { ids "$1" | grep -E "$2"; false; }; }
platform_up --simulate 2xH200

# --- manifests, without any cluster ------------------------------------------------------------
mkdir -p "$work/manifests" "$work/policies"
cat >"$work/manifests/bad.yaml" <<'END'
apiVersion: v1
kind: Pod
metadata: {name: train, namespace: team-x}
spec:
  hostIPC: true
  containers:
  - name: c
    image: example.com/train
    securityContext: {privileged: true}
    resources: {limits: {nvidia.com/gpu: 1}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: gpu, namespace: team-x}
spec: {hard: {limits.nvidia.com/gpu: "4"}}
END
cat >"$work/good.yaml" <<'END'
apiVersion: v1
kind: ConfigMap
metadata: {name: plain, namespace: team-x}
END
cat >"$work/policies/own.rego" <<'END'
package kubernetes.admission

deny[msg] {
	input.request.kind.kind == "Pod"
	not input.request.object.metadata.labels.owner
	msg := sprintf("pod %v has no owner", [input.request.object.metadata.name])
}
END
says "it has help" "Usage: ringfence audit" audit --help
says "the manual page has it" "ringfence audit" "$RINGFENCE" man
check "findings exit with 1" ends 1 audit --policies "" "$work/manifests"
check "nothing found exits with 0" ends 0 audit --policies "" --fail-on low "$work/good.yaml"
check "a higher threshold lets lesser findings pass" ends 0 audit --policies "" --fail-on critical -n other "$work/manifests"
check "a wrong option exits with 2" ends 2 audit --frob
refuses "an unknown format is refused" "table, json, sarif or html" audit -o xml "$work/good.yaml"
check "and exits with 2" ends 2 audit -o xml "$work/good.yaml"
refuses "an unknown severity is refused" "low, medium, high or critical" audit --fail-on dire "$work/good.yaml"
check "files and a cluster at once exit with 2" ends 2 audit --kubeconfig x "$work/good.yaml"
check "a file that is not there exits with 3" ends 3 audit "$work/nowhere.yaml"
says "the table names layer, severity, id and object" "CRITICAL  RF-NODE-01" audit --policies "" "$work/manifests"
says "and the field" "spec.containers[0].securityContext.privileged" audit --policies "" "$work/manifests"
says "a quota that never counts is found" "never counts" audit --policies "" "$work/manifests"
says "the sum closes the report" "2 objects seen" audit --policies "" "$work/manifests"
says "plain Rego is asked" "pod train has no owner" audit --policies "$work/policies" "$work/manifests"
check "no colour without a terminal" bash -c "! '$RINGFENCE' audit --policies '' '$work/manifests' | grep -q $'\\033'"

# --- a platform, before and after ----------------------------------------------------------------
if ! on_kubernetes; then
	kubectl apply -f - >"$work/applied" 2>&1 <<'END' || sed 's/^/# /' "$work/applied"
apiVersion: ringfence.io/v1alpha1
kind: Tenant
metadata: {name: audited}
spec: {owners: [{kind: User, name: eve}], quota: {gpus: 1, pods: 5}}
END
	eventually 20 kubectl get namespace audited
	# A pod at rest has a node and labels that no user could have given it.
	sed -e 's/namespace: bank/namespace: audited/' -e 's/"--hold", "5"/"--hold", "60"/' train.yaml | kubectl apply -f - >"$work/applied" 2>&1
	check "a pod with a card has its node" eventually 20 bash -c '[[ -n $(kubectl -n audited get pod train -o jsonpath="{.spec.nodeName}") ]]'
	check "the shipped policies find nothing severe on a platform as ringfence makes it" ends 0 audit --policies "$root/policies" --fail-on high
	audit --policies "$root/policies" -o json >"$work/pack.json"
	check "though they were asked" python3 -c "
import json; s = json.load(open('$work/pack.json'))['summary']; assert s['policies'] >= 20, s"
	kubectl -n audited delete pod train --wait=false >/dev/null
	kubectl create namespace loose >/dev/null
	kubectl create clusterrolebinding too-much --clusterrole=cluster-admin --serviceaccount=loose:default >/dev/null
	kubectl -n loose create quota gpu --hard=limits.nvidia.com/gpu=4 >/dev/null
	kubectl -n loose create configmap hostile '--from-literal=a=<script>alert(1)</script>' >/dev/null
	before=$work/before.json after=$work/after.json
	audit --policies "" -o json >"$before"
	check "the platform is read whole" python3 -c "
import json; s = json.load(open('$before'))['summary']; assert s['objects'] > 20 and s['kinds'] > 10 and s['kindsNotSeen'] == 0, s"
	check "an administrator among the service accounts is found" has "$before" '^RF-API-20 critical ClusterRoleBinding/too-much'
	check "so are rights of the default account" has "$before" '^RF-API-26 .*too-much'
	check "and a quota that counts nothing" has "$before" '^RF-API-02 high ResourceQuota/loose/gpu'
	check "the tenant that ringfence made has no finding of its own that is severe" lacks "$before" '(high|critical) .*(/audited|audited/)'
	check "findings exit with 1" ends 1 audit --policies ""
	kubectl delete clusterrolebinding too-much >/dev/null
	kubectl -n loose delete quota gpu >/dev/null
	kubectl -n loose create quota gpu --hard=requests.nvidia.com/gpu=4 >/dev/null
	audit --policies "" -o json >"$after"
	check "what was mended is gone" lacks "$after" '^RF-API-(20|26|02) '
	check "nothing severe is left, and the exit status says so" ends 0 audit --policies "" --fail-on critical

	# somebody who may see little
	token=$(kubectl -n audited create token ringfence-owner 2>/dev/null)
	kubectl config view --raw --minify -o json | python3 -c "
import json, sys; c = json.load(sys.stdin); u = c['users'][0]['user']; u.clear(); u['token'] = '$token'
c['contexts'].append({'name': 'broken', 'context': {'cluster': 'nowhere', 'user': 'x'}}); json.dump(c, sys.stdout)" >"$work/tenant.json"
	audit --kubeconfig "$work/tenant.json" --policies "" -o json >"$work/tenant-report.json"
	check "what a tenant may not list is told, kind by kind" has "$work/tenant-report.json" '^RF-OPS-90 high Secret|^RF-OPS-90 high Pod'
	check "and the checks that need it are named" python3 -c "
import json; r = json.load(open('$work/tenant-report.json')); assert any(n['id'] == 'RF-API-01' for n in r['notMade']), r['notMade']"
	audit --kubeconfig "$work/tenant.json" --policies "" -n audited -o json >"$work/tenant-own.json"
	check "its own namespace it may audit" python3 -c "
import json; r = json.load(open('$work/tenant-own.json')); assert not any(n['kind'] == 'Pod' for n in r['notSeen']), r['notSeen']"
	says "a context is chosen by name" "no such cluster: nowhere" audit --kubeconfig "$work/tenant.json" --context broken
	says "and one that is not there is named" "with --context gone" audit --kubeconfig "$work/tenant.json" --context gone
	check "the right context works" ends 1 audit --kubeconfig "$KUBECONFIG" --context "$(kubectl config current-context)" --policies "" --fail-on low
fi

# --- formats, with names that mean harm ------------------------------------------------------------
cat >"$work/hostile.json" <<'END'
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "</pre><script>alert('x')</script>\u001b]0;hi\u0007", "namespace": "a&b\"c"},
 "spec": {"hostPID": true, "containers": [{"name": "c"}]}}
END
audit --policies "" -o html "$work/hostile.json" >"$work/audit.html"
check "no name becomes markup" bash -c "! grep -qi '<script' '$work/audit.html' && grep -q '&lt;script&gt;' '$work/audit.html'"
check "the page is whole and has no script, link or image" python3 - "$work/audit.html" <<'END'
import sys
from html.parser import HTMLParser
class P(HTMLParser):
    stack, void = [], {"meta", "br"}
    def handle_starttag(self, t, a):
        assert t not in ("script", "img", "link", "iframe", "object"), t
        assert not any(k.startswith("on") for k, _ in a), a
        if t not in self.void: self.stack.append(t)
    def handle_endtag(self, t):
        assert self.stack and self.stack.pop() == t, t
p = P(); p.feed(open(sys.argv[1], encoding="utf-8").read()); assert not p.stack, p.stack
END
check "no control character reaches the terminal" bash -c "'$RINGFENCE' audit --policies '' '$work/hostile.json' | LC_ALL=C grep -qP '[\\x00-\\x08\\x0b-\\x1f\\x7f]'; test \$? = 1"
audit --policies "" -o sarif "$work/hostile.json" "$work/manifests" >"$work/audit.sarif"
check "SARIF is as 2.1.0 wants it" python3 - "$work/audit.sarif" <<'END'
import json, sys
s = json.load(open(sys.argv[1])); assert s["version"] == "2.1.0" and "sarif-2.1.0" in s["$schema"]
run, = s["runs"]; rules = run["tool"]["driver"]["rules"]; assert len({r["id"] for r in rules}) == len(rules) > 50
assert run["results"]
for r in run["results"]:
    assert rules[r["ruleIndex"]]["id"] == r["ruleId"] and r["level"] in ("note", "warning", "error") and r["message"]["text"]
    for l in r["locations"]:
        assert all(x["fullyQualifiedName"] for x in l["logicalLocations"])
        uri = l.get("physicalLocation", {"artifactLocation": {"uri": "x"}})["artifactLocation"]["uri"]
        assert uri and all(c not in uri for c in ' <>"'), uri
assert any(l["logicalLocations"][0]["fullyQualifiedName"] == "team-x/Pod/train" for r in run["results"] for l in r["locations"])
END
check "the same finding has the same print" bash -c "diff <('$RINGFENCE' audit --policies '' -o sarif '$work/manifests' | grep ringfenceAudit) <('$RINGFENCE' audit --policies '' -o sarif '$work/manifests' | grep ringfenceAudit)"

# --- nobody there --------------------------------------------------------------------------------
cat >"$work/dead.yaml" <<'END'
apiVersion: v1
kind: Config
current-context: x
contexts: [{name: x, context: {cluster: x, user: x}}]
users: [{name: x, user: {}}]
clusters: [{name: x, cluster: {server: "http://127.0.0.1:1"}}]
END
refuses "a server that is not there is named" "cannot audit the cluster at 127.0.0.1:1" audit --kubeconfig "$work/dead.yaml"
check "and exits with neither 0, 1 nor 2" ends 6 audit --kubeconfig "$work/dead.yaml"
check "no kubeconfig is not a finding either" ends 3 audit --kubeconfig "$work/nothing-here"
sed -i 's/user: {}/user: {exec: {command: x}}/' "$work/dead.yaml"
refuses "ways to log in that are not known are refused, not ignored" "exec" audit --kubeconfig "$work/dead.yaml"

# --- many ---------------------------------------------------------------------------------------
python3 - >"$work/many.json" <<'END'
import json
print(json.dumps({"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{i}", "namespace": f"team-{i % 200}"},
     "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}} for i in range(10000)]}))
END
check "10,000 objects take seconds" timeout 30 bash -c "'$RINGFENCE' audit --policies '$work/policies' '$work/many.json' -o json | python3 -c '
import json, sys; s = json.load(sys.stdin)[\"summary\"]; assert s[\"objects\"] == 10000, s'"
done_testing
