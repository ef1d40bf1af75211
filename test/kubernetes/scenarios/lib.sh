# Shared by the scenarios that only make sense on Kubernetes: test/scenarios/lib.sh and a few words more.
source "$(dirname "${BASH_SOURCE[0]}")/../../scenarios/lib.sh"
system() { kubectl -n ringfence-system "$@"; }

# pod NS NAME LIMITS COMMAND [SPEC [CONTAINER]]: JSON of a pod that a tenant may run. LIMITS: "ringfence.io/gpu=1 ...";
# SPEC and CONTAINER are further JSON members with a comma in front.
pod() {
	local limits= one
	for one in $3; do limits+="${limits:+,}\"${one%=*}\":\"${one#*=}\""; done
	cat <<-END
		{"apiVersion":"v1","kind":"Pod","metadata":{"name":"$2","namespace":"$1"},"spec":{"restartPolicy":"Never",
		 "terminationGracePeriodSeconds":1,
		 "securityContext":{"runAsNonRoot":true,"runAsUser":65534,"seccompProfile":{"type":"RuntimeDefault"}},
		 "containers":[{"name":"main","image":"localhost/runtime:e2e","command":["sh","-c","$4"],
		  "resources":{"limits":{$limits}},
		  "securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}${6:-}}]${5:-}}}
	END
}
apply() { pod "$@" | kubectl apply -f -; }
tenant() { # NAME SPEC
	kubectl apply -f - <<<"{\"apiVersion\":\"ringfence.io/v1alpha1\",\"kind\":\"Tenant\",\"metadata\":{\"name\":\"$1\"},\"spec\":{$2}}" &&
		kubectl wait --for=condition=Ready --timeout=20s "tenant/$1"
}
json() { # JSONPATH ARGS...: a field of what kubectl get ARGS says
	local path=$1
	shift
	kubectl get "$@" -o jsonpath="$path"
}
is() { [[ $1 == "$2" ]] || { echo "\"$1\" is not \"$2\""; return 1; }; }
claim_of() { echo "$2-$(json '{.metadata.uid}' -n "$1" pod "$2" | cut -c1-8)"; }
# "gpu-node-1/gpu-0 ..." as the claim of a pod says
granted() { json '{range .status.allocation.devices.results[*]}{.pool}/{.device}{" "}{end}' -n "$1" resourceclaim "$(claim_of "$1" "$2")"; }
# The UUID that a slice gives a card: uuid_of gpu-node-1/gpu-0
uuid_of() {
	json "{range .items[?(@.spec.nodeName==\"${1%/*}\")].spec.devices[?(@.name==\"${1#*/}\")]}{.attributes.uuid.string}{end}" resourceslices
}
node_of() { json '{.spec.nodeName}' -n "$1" pod "$2"; }
number() { [[ $1 == gpu-node-1 ]] && echo 1 || echo 2; }
on_node() { bed node "$(number "$1")" "${@:2}"; }
succeeds() { eventually "$1" pod_ended "$2" "$3"; phase_is "$2" "$3" Succeeded || { kubectl -n "$2" describe pod "$3"; kubectl -n "$2" logs "$3"; false; }; }
events_of() { kubectl -n "$1" get events --field-selector "involvedObject.name=$2" -o jsonpath='{range .items[*]}{.reason}: {.message}{"\n"}{end}'; }
event_says() { events_of "$1" "$2" | grep -qF -- "$3"; }
no_claims() { [[ -z $(kubectl get resourceclaims -A --no-headers 2>/dev/null) ]]; }
agent_of() { system get pod -l app.kubernetes.io/name=ringfence-node --field-selector "spec.nodeName=$1" -o jsonpath='{.items[0].metadata.name}'; }
