#!/bin/bash
# Fencing single programs with no platform: caps, statistics, exit codes, signals, and what a program may try.
: "${RINGFENCE:=build/ringfence}"
case $RINGFENCE in /*) ;; *) RINGFENCE=$PWD/$RINGFENCE ;; esac
export RINGFENCE
# On two simulated cards, and where no fence of anybody else listens: with a /run of our own.
if [[ -z ${FENCE_STAGE:-} ]]; then
	export FENCE_STAGE=1
	alone=(unshare -m)
	unshare -m true 2>/dev/null || alone=(unshare -rm)
	exec "${alone[@]}" sh -c 'mount -t tmpfs -o mode=755 none /run && exec "$@"' sh \
		"$RINGFENCE" sim run --cards 2xH200 -- bash "$0"
fi
source "$(dirname "$0")/lib.sh"
cd "$root" || exit 1
demo=$(dirname "$RINGFENCE")/gpu-demo
export XDG_RUNTIME_DIR=$work

fence() { "$RINGFENCE" fence "$@"; }
# status WANTED command...
status() {
	local wanted=$1 got
	shift
	"$@"
	got=$?
	[[ $got == "$wanted" ]] || { echo "exit status $got, not $wanted"; return 1; }
}
figure() { sed -n "s/^memory $1: \([0-9]*\) MiB\$/\1/p"; }
# ended WANTED promise: the fence that was started last ended with that status
ended() {
	wait "$last"
	local got=$?
	check "$2" test "$got" = "$1"
}
# listed NAME: stats shows a process in that fence
listed() { fence stats | grep -Eq "^$1 +[0-9]+ +[0-9]+ +[0-9]+ "; }
started=()
# start LOG arguments...: a fence in the background; its launcher is $last
start() {
	local log=$1
	shift
	"$RINGFENCE" fence "$@" >"$log" 2>&1 &
	last=$!
	started+=("$last")
}
# The launchers, to their end (one that lingers would still be the arbiter of those that come next), and programs
# on this stage's cards that outlived theirs.
end_all() {
	for p in "${started[@]}"; do kill "$p" && kill -CONT "$p"; done 2>/dev/null
	for p in $(pgrep -x gpu-demo); do
		grep -qzxF "RINGFENCE_SIM=$RINGFENCE_SIM" "/proc/$p/environ" 2>/dev/null && kill "$p"
	done
	for p in "${started[@]}"; do wait "$p"; done 2>/dev/null
	started=()
	return 0
}
trap 'end_all; cleanup' EXIT

# --- memory ---
whole=$(fence -- "$demo" --info | figure total)
free=$(fence --memory 2Gi -- "$demo" --info | figure free)
says "the program sees a card of the size it was given" "memory total: 2048 MiB" fence --memory 2Gi -- "$demo" --info
says "without --memory it is the whole card" "memory total: $whole MiB" fence --compute 50 --burst -- "$demo" --info
check "all that is left of the cap can be had" fence --memory 2Gi -- "$demo" --memory "${free}Mi" --step 2Mi
refuses "and nothing more" "out of memory after $free MiB" fence --memory 2Gi -- "$demo" --memory "$((free + 2))Mi" --step 2Mi
check "two programs in one fence share its cap" fence --memory 4Gi -- bash -c \
	"'$demo' --memory 2Gi --hold 60 >'$work/first' & until grep -q allocated '$work/first'; do sleep 0.1; done
	'$demo' --memory 2Gi --expect-oom; s=\$?; kill %1; exit \$s"
refuses "a cap beyond the card is refused" "has ${whole%???}" fence --memory 4Ti -- true

# --- what a program may try ---
says "limits do not come from the environment" "memory total: 2048 MiB" fence --memory 2Gi -- env \
	CUDA_DEVICE_MEMORY_LIMIT=0 CUDA_DISABLE_CONTROL=true RINGFENCE_DISABLE=1 RF_FENCE_SOCKET=/none \
	XDG_RUNTIME_DIR=/none HOME=/none "$demo" --info
refuses "another card than the fence's is refused" NOT_PERMITTED fence --memory 2Gi -- env \
	CUDA_VISIBLE_DEVICES=0,1 "$demo" --device 1 --memory 2Mi
says "the card that was asked for is the first one seen" "device 0 of 1" fence --card 1 -- "$demo" --info
refuses "a card outside of the fence is not to be made visible" "names card 1" env CUDA_VISIBLE_DEVICES=1 \
	"$RINGFENCE" fence --memory 2Gi -- true
says "but one inside is" "device 0 of 1" env CUDA_VISIBLE_DEVICES=1 "$RINGFENCE" fence --card 1 -- "$demo" --info
refuses "a fence inside a fence is refused" "cannot be inside another" fence --memory 4Gi -- env \
	-u LD_PRELOAD "$RINGFENCE" fence --memory 8Gi -- true

# --- exit codes and options ---
check "the exit status is the program's" status 7 fence --memory 1Gi -- sh -c 'exit 7'
check "a signal is 128 and its number" status 143 fence -- sh -c 'kill -TERM $$'
check "no such program: 127" status 127 fence -- "$work/nothing"
check "not a program: 126" status 126 fence -- "$root/README.md"
check "a bad option: 2" status 2 fence --frob -- true
check "a bad size: 2" status 2 fence --memory lots -- true
check "a bad share: 2" status 2 fence --compute 101 -- true
check "no program's name: 2" status 2 fence -- ""
refuses "a forgotten size is asked for" "needs a value" fence --memory -- true
refuses "a forgotten unit too" "did you mean 20Gi" fence --memory 20 -- true
refuses "a cap below a context is explained" "context alone takes" fence --memory 20M -- true
refuses "a bad share is said before a missing driver" "1 to 100" env -u RINGFENCE_SIM -u LD_LIBRARY_PATH \
	"$RINGFENCE" fence --compute 150 -- true
refuses "a card that is not there is named with those that are" "this machine has 0 (GPU-" fence --card 9 -- true
refuses "nothing to run: says how" "ringfence fence --memory" fence --memory 1Gi

# --- signals ---
start "$work/trap.log" -- bash -c "trap 'exit 9' USR1; touch '$work/trapped'; while :; do sleep 0.1; done"
eventually 20 test -e "$work/trapped"
kill -USR1 "$last"
ended 9 "signals are passed on"
start "$work/term.log" --memory 1Gi -- sleep 60
eventually 20 pgrep -P "$last" sleep
kill -TERM "$last"
ended 143 "and what they do to the program is told"

# --- side by side ---
says "no fence: says so" "no fence runs here" fence stats
start "$work/one.log" --memory 4Gi --compute 30 --name one -- "$demo" --memory 1Gi --hold 600
one=$last
start "$work/two.log" --memory 3Gi --compute 50 --priority 2 --name two -- bash -c \
	"'$demo' --memory 1Gi --hold 600 & until [ -e '$work/again' ]; do sleep 0.1; done
	'$demo' --memory 512Mi --loops 1; echo again: \$?; wait"
two=$last
check "two fences stand side by side" eventually 20 eval 'listed one && listed two'
says "stats tells the first's cap and share" "4096Mi" bash -c "'$RINGFENCE' fence stats | grep ^one | grep -F ' 30% '"
says "and the second's" "3072Mi" bash -c "'$RINGFENCE' fence stats | grep ^two | grep -F ' 50% '"
check "stats speaks JSON" bash -c "'$RINGFENCE' fence stats -o json | python3 -c '
import json, sys
f = {x[\"name\"]: x for x in json.load(sys.stdin)}
one = f[\"one\"][\"cards\"][0]
assert f[\"one\"][\"launcher\"] == $one and f[\"two\"][\"launcher\"] == $two
assert one[\"capBytes\"] == 4 << 30 and one[\"sharePercent\"] == 30 and one[\"refusals\"] == 0
assert one[\"usedBytes\"] == sum(p[\"usedBytes\"] for p in one[\"processes\"]) >= 1 << 30
assert len(one[\"processes\"]) == 1'"
says "shares of more than the card are said so" "card 0 is promised 120 %" fence --compute 40 -- true
start "$work/stop.log" --card 1 --name stop -- sleep 600
check "a third beside them" eventually 20 eval 'fence stats | grep -q ^stop'
kill -STOP "$last"
says "one that is stopped is listed" "launcher $last does not answer" fence stats
kill -CONT "$last"
kill "$last"
wait "$last"
start "$work/lost.log" --memory 1Gi --name lost -- sh -c "unset LD_PRELOAD; exec '$demo' --memory 2Gi --hold 600"
lost=$last
check "a program that loses the library has no fence" eventually 20 grep -q "allocated 2048 MiB" "$work/lost.log"
check "and stats knows no process of it" bash -c "'$RINGFENCE' fence stats | grep -Eq '^lost +0 +$lost +- '"

# --- a fence in which every seat is taken ---
cat >"$work/seats.py" <<-'PY'
	import ctypes, fcntl, os, subprocess, sys
	cuda = ctypes.CDLL("libcuda.so.1")
	def count():
	    return len(os.listdir("/proc/self/fd"))
	if len(sys.argv) > 1:
	    before = count()
	    print("served:", any(cuda.cuInit(0) == 0 for _ in range(20)), "left:", count() - before)
	    sys.exit()
	assert cuda.cuInit(0) == 0
	fcntl.lockf(min(int(f) for f in os.listdir("/proc/self/fd") if int(f) >= 500), fcntl.LOCK_EX, 1 << 20, 0)
	subprocess.run([sys.executable, sys.argv[0], "x"], check=True)
PY
says "without a seat there is no card, and no descriptor is left behind" "served: False left: 0" \
	fence --compute 10 -- python3 "$work/seats.py"

# --- the launcher's end ---
kill -KILL "$one" # it was the first, so the arbiter was there
touch "$work/again"
check "another launcher takes the arbiter over" eventually 30 grep -qx "again: 0" "$work/two.log"
time_of_two() { fence stats -o json | python3 -c '
import json, sys
print([x["cards"][0]["gpuSeconds"] for x in json.load(sys.stdin) if x["name"] == "two"][0])'; }
then=$(time_of_two)
check "and counts the time of those who were there before" eventually 30 eval '[[ $(time_of_two) != "$then" ]]'
check "a killed launcher is gone from stats" bash -c "! '$RINGFENCE' fence stats | grep ^one"
start "$work/orphan.log" --memory 1Gi -- bash -c \
	"touch '$work/orphaned'; until [ -e '$work/go' ]; do sleep 0.1; done; '$demo' --info; echo demo: \$?"
eventually 20 test -e "$work/orphaned"
kill -KILL "$last"
touch "$work/go"
check "without its launcher a new process gets no card" eventually 40 grep -qx "demo: 1" "$work/orphan.log"
says "and is told that it may not" NOT_PERMITTED cat "$work/orphan.log"
rm "$work/go"
start "$work/daemon.log" --memory 1Gi --name daemon -- bash -c \
	"setsid '$demo' --memory 64Mi --hold 3 >'$work/daemon.out' & until grep -q allocated '$work/daemon.out'; do sleep 0.1; done; exit 5"
ended 5 "a daemon keeps its fence, and the status is the program's"
check "it went to its own end" grep -q ^done: "$work/daemon.out"
start "$work/late.log" --memory 1Gi -- bash -c "setsid bash -c 'sleep 2.5; \"$demo\" --info' >'$work/late.out' & exit 6"
ended 6 "also one that comes to the card late"
says "which gets its part" "memory total: 1024 MiB" cat "$work/late.out"
says "and whoever waits is told why" "not all that it started" cat "$work/late.log"
# at_terminal KEY: what becomes of a launcher whose program has ended, on a terminal, after that key
at_terminal() {
	python3 - "$1" "$RINGFENCE" <<-'PY'
		import os, pty, select, signal, sys
		key, ringfence = sys.argv[1:]
		pid, fd = pty.fork()
		if pid == 0:
		    os.execv(ringfence, ["ringfence", "fence", "--", "sh", "-c", "setsid sleep 20 >/dev/null 2>&1 & exit 3"])
		seen = b""
		while b"not all" not in seen:
		    seen += os.read(fd, 1000)
		os.write(fd, {"c": b"\x03", "backslash": b"\x1c", "z": b"\x1a"}[key])
		status = os.waitpid(pid, os.WUNTRACED)[1]
		print("stopped" if os.WIFSTOPPED(status) else f"exit {os.WEXITSTATUS(status)}")
		if os.WIFSTOPPED(status):
		    os.kill(pid, signal.SIGKILL)
	PY
}
says "Ctrl-C ends the wait for daemons" "exit 3" at_terminal c
says "so does Ctrl-\\" "exit 3" at_terminal backslash
says "Ctrl-Z stops it" "stopped" at_terminal z
end_all

# --- an arbiter that does not answer, and one by itself ---
start "$work/held.log" --compute 10 --name held -- sleep 600
held=$last
check "an arbiter runs" eventually 20 eval 'fence stats | grep -q ^held'
kill -STOP "$held"
refuses "one that is stopped is named" "process $held, which runs the arbiter, does not answer" fence --compute 10 -- true
start "$work/arbiter.log" arbiter
arbiter=$last
kill -CONT "$held"
kill "$held"
wait "$held"
arbiter_is() { python3 -c '
import socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect("/run/ringfence/arbiter")
sys.exit(struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] != int(sys.argv[1]))' "$1"; }
check "an arbiter by itself takes over" eventually 20 arbiter_is "$arbiter"
says "and serves fences" "memory total: 1024 MiB" fence --memory 1Gi --compute 50 -- "$demo" --info

# --- several users ---
as() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp "$@"; }
python=$(python3 -c 'import sys; print(sys.executable)')
chmod a+x "$(dirname "$RINGFENCE_SIM")"
chmod -R a+rwX "$RINGFENCE_SIM" # made for this script alone
if as "$RINGFENCE" fence -- true 2>/dev/null; then
	start "$work/mine.log" --compute 60 --name mine -- sleep 600
	eventually 20 eval 'fence stats | grep -q ^mine'
	says "a user's fence shares the cards with root's" "card 0 is promised 120 %" as "$RINGFENCE" fence --compute 60 -- true
	says "and has its own limits" "memory total: 1024 MiB" as "$RINGFENCE" fence --memory 1Gi -- "$demo" --info
	says "a user does not see root's fences" "no fence runs here" as "$RINGFENCE" fence stats
	start "$work/flooded.log" --memory 1Gi -- bash -c "until [ -e '$work/flood' ]; do sleep 0.1; done; time timeout 5 '$demo' --info"
	flooded=$last
	as "$python" -c '
import socket, sys, time
def crowd(path, n):
    crowd = []
    for i in range(n):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        s.setblocking(False)
        try: s.connect(path)
        except OSError: time.sleep(0.01)
        crowd.append(s)
    return crowd
a = crowd(sys.argv[1], 200), crowd("/run/ringfence/arbiter", 200)
print("up", flush=True)
time.sleep(600)' "/run/ringfence/fence.$flooded" >"$work/flood.log" 2>&1 &
	started+=($!)
	eventually 20 grep -q up "$work/flood.log"
	touch "$work/flood"
	last=$flooded
	ended 0 "a stranger's connections do not shut the door"
	check "nor the arbiter's" timeout 5 "$RINGFENCE" fence --compute 10 -- true
else
	echo "# no other user can run $RINGFENCE here: not tried with several"
fi
end_all

# --- the fence alone ---
check "a C compiler and libc are enough to build it" "$root/src/fence/build" "$work/alone"
says "it fences as well" "memory total: 2048 MiB" "$work/alone/ringfence" fence --memory 2Gi -- "$work/alone/gpu-demo" --info
refuses "and says what it is not" "the fence alone" "$work/alone/ringfence" up
check "it stands on libc alone" bash -c "! ldd '$work/alone/ringfence' '$work/alone/libringfence.so' | grep '=>' | grep -Ev 'lib(c|dl|pthread)\.so'"
done_testing
