# Shared by the scenarios: a platform of its own per script, TAP output, everything cleaned up.
#   source "$(dirname "$0")/lib.sh"; platform_up [options]; ...; done_testing
# With BED=test/kubernetes/cluster the platform is the real Kubernetes that is up there, with ringfence
# installed; a scenario that tells the same story on both asks on_kubernetes where the words differ.
set -u
: "${RINGFENCE:=build/ringfence}"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d /tmp/ringfence-test.XXXXXX)
chmod 755 "$work"
on_kubernetes() { [[ -n ${BED:-} ]]; }
bed() { "$root/$BED" "$@"; }
export KUBECONFIG=$work/kubeconfig HOME=$work/home
mkdir -p "$HOME"
if on_kubernetes; then
	cp "$(bed kubeconfig)" "$KUBECONFIG" || exit 1
	PATH=$(bed binaries):$PATH # its own kubectl
fi
tap=0 bad=0 up_pid=

ok() { tap=$((tap + 1)); echo "ok $tap - $*"; }
not_ok() { tap=$((tap + 1)); bad=$((bad + 1)); echo "not ok $tap - $*"; }
# check "promise" command...: passes when the command does; shows its output when it does not.
check() {
	local promise=$1 out
	shift
	if out=$("$@" 2>&1); then ok "$promise"; else
		not_ok "$promise"
		printf '%s\n' "\$ $*" "$out" | sed 's/^/# /'
	fi
}
# refuses "promise" "text" command...: passes when the command fails and says the text.
refuses() {
	local promise=$1 text=$2 out
	shift 2
	if out=$("$@" 2>&1); then
		not_ok "$promise (it was accepted)"
	elif grep -qF -- "$text" <<<"$out"; then
		ok "$promise"
	else
		not_ok "$promise (the message lacks: $text)"
		printf '%s\n' "$out" | sed 's/^/# /'
	fi
}
# says "promise" "text" command...: passes when the output has the text.
says() {
	local promise=$1 text=$2 out
	shift 2
	out=$("$@" 2>&1)
	if grep -qF -- "$text" <<<"$out"; then ok "$promise"; else
		not_ok "$promise (no \"$text\" in the output)"
		printf '%s\n' "\$ $*" "$out" | sed 's/^/# /'
	fi
}
# eventually SECONDS command...: repeats it until it succeeds.
eventually() {
	local until=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < until)) || return 1
		sleep 0.1
	done
}
phase() { kubectl -n "$1" get pod "$2" -o jsonpath='{.status.phase}' 2>/dev/null; }
phase_is() { [[ $(phase "$1" "$2") == "$3" ]]; }
pod_ended() { phase_is "$1" "$2" Succeeded || phase_is "$1" "$2" Failed; }
# "node=... cards=..." of a pod
card_of() {
	"$RINGFENCE" ps -n "$1" -o json | tr -d '\n ' | grep -o "\"pod\":\"$2\"[^}]*" |
		grep -o '"\(node\|cards\)":"[^"]*"' | sort | tr '\n' ' '
}

platform_start() {
	: >"$work/up.log" # what the last one said is not to be taken for this one's word
	"$RINGFENCE" up --data "$work/data" --listen 127.0.0.1:0 --dashboard 127.0.0.1:0 \
		--kubeconfig "$KUBECONFIG" "$@" >"$work/up.log" 2>&1 &
	up_pid=$!
	eventually 20 grep -qx ready "$work/up.log"
}
platform_stop() {
	[[ -n $up_pid ]] || return 0
	kill -INT "$up_pid" 2>/dev/null
	wait "$up_pid" 2>/dev/null
	local status=$?
	up_pid=
	return $status
}
platform_up() {
	if on_kubernetes; then
		cd "$root/examples" || exit 1
		return
	fi
	if [[ $(id -u) != 0 ]]; then
		echo "ok 1 - # SKIP containers need root"
		rm -rf "$work"
		exit 0
	fi
	if ! platform_start "$@"; then
		not_ok "the platform becomes ready"
		sed 's/^/# /' "$work/up.log"
		tail -n 20 "$work"/data/log/*.log | sed 's/^/# /'
		exit 1
	fi
	cd "$root/examples" || exit 1
}
child_pid() { pgrep -P "$up_pid" -f "ringfence $1 " | head -n 1 | grep .; }

# Everything a scenario made hangs on its tenants.
remove_tenants() {
	kubectl delete tenants --all --timeout=90s >"$work/removed" 2>&1 || sed 's/^/# /' "$work/removed"
}

cleanup() {
	if on_kubernetes; then
		remove_tenants
		rm -rf "$work"
		return
	fi
	platform_stop
	if ((bad)); then
		echo "# logs of the platform:"
		tail -n 40 "$work"/data/log/*.log 2>/dev/null | sed 's/^/# /'
	fi
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

done_testing() {
	if on_kubernetes; then
		check "the tenants can be deleted, with all that was theirs" remove_tenants
		echo "1..$tap"
		exit $((bad > 0))
	fi
	platform_stop
	# In a sanitizer build a finding, a leak too, is in the process's log.
	check "no process of the platform complained of its own memory" bash -c \
		"! grep -A20 -E 'AddressSanitizer|LeakSanitizer|runtime error|ringfence: bug' '$work'/data/log/*.log"
	echo "1..$tap"
	exit $((bad > 0))
}
