#!/bin/bash
# What a hostile program in a pod tries, and must not get: the machine, its neighbours, the agent, another
# tenant's card, more than its share. Each line of output is one attempt that failed.
source "$(dirname "$0")/lib.sh"
platform_up --simulate 2xH200
kubectl apply -f tenants.yaml >/dev/null
kubectl wait --for=condition=Ready --timeout=20s tenant/bank tenant/lab tenant/team-a tenant/team-b >/dev/null
agent=$(child_pid node)

# pod NS NAME [JSON over the container [JSON over the spec]] <script: makes the pod; does not wait.
pod() {
	python3 -c '
import json, sys
ns, name, container, spec = (sys.argv[1:] + ["{}", "{}"])[:4]
c = {"name": "main", "image": "host", "command": ["sh", "-c", sys.stdin.read()],
     "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
c.update(json.loads(container))
s = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [c],
     "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}}
more = json.loads(spec)
s["securityContext"].update(more.pop("securityContext", {}))
s["containers"] += more.pop("containers", [])
s.update(more)
print(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns}, "spec": s}))
' "$@" | kubectl create -f - >/dev/null
}
# ends NS NAME [SECONDS]: waits for the end; shows the log and how it ended.
ends() {
	eventually "${3:-20}" pod_ended "$1" "$2" || echo "still $(phase "$1" "$2")"
	kubectl -n "$1" logs "$2" --all-containers 2>&1
	kubectl -n "$1" get pod "$2" -o jsonpath='{.status.reason} {.status.message} {.status.containerStatuses[*].state}{"\n"}'
}
gone() { kubectl -n "$1" delete pod "$2" --timeout=20s >/dev/null 2>&1; }
# fails_to_run "promise" "reason" CONTAINER SPEC: such a pod ends without having run.
odd=0
fails_to_run() {
	local name=odd-$((++odd)) out
	if ! out=$(echo 'echo it ran' | pod bank "$name" "$3" "$4" 2>&1); then
		says "$1" "$2" echo "$out" # the API server refused it already
		return
	fi
	out=$(ends bank "$name" 10)
	if grep -qx 'it ran' <<<"$out"; then not_ok "$1 (it ran)"; else says "$1" "$2" echo "$out"; fi
	gone bank "$name"
}
# attempts NS NAME CONTAINER SPEC <python: every attempt(promise, function) must raise an error or bring nothing.
attempts() {
	local ns=$1 name=$2 out line
	kubectl -n "$ns" create configmap "$name" --from-file=code="$work/attempts.py" >/dev/null
	echo 'exec python3 -u /attempts/code' | pod "$ns" "$name" \
		"$(python3 -c 'import json,sys; c=json.loads(sys.argv[1]); c.setdefault("volumeMounts",[]).append({"name":"attempts","mountPath":"/attempts"}); print(json.dumps(c))' "${3:-"{}"}")" \
		"$(python3 -c 'import json,sys; s=json.loads(sys.argv[1]); s.setdefault("volumes",[]).append({"name":"attempts","configMap":{"name":sys.argv[2]}}); print(json.dumps(s))' "${4:-"{}"}" "$name")"
	out=$(ends "$ns" "$name" 40)
	while read -r line; do
		case $line in
		"held: "*) ok "${line#held: }" ;;
		"BROKEN: "*) not_ok "${line#BROKEN: }" ;;
		esac
	done <<<"$out"
	grep -qx 'all attempts made' <<<"$out" || { not_ok "the attempts of pod $name were made"; sed 's/^/# /' <<<"$out"; }
	gone "$ns" "$name"
}
cat >"$work/prelude.py" <<'EOF'
import array, ctypes, errno, fcntl, mmap, os, resource, signal, socket, struct, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def attempt(promise, f):
    try: got = f()
    except (OSError, ValueError): got = None
    print(("BROKEN: " if got else "held: ") + promise, repr(got)[:300] if got else "")
def call(nr, *args):
    r = libc.syscall(nr, *args)
    if r < 0: raise OSError(ctypes.get_errno(), "refused")
    return "system call %d gave %d" % (nr, r)
def read(path):
    return open(path, "rb").read(4096)
def write(path):
    open(path, "wb").write(b"x"); return "wrote " + path
def fence(hello=struct.pack("=IIII", 0x63664652, 2, 0, 0)):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(5)
    s.connect("/ringfence/run/fence.sock"); s.send(hello)
    fds = array.array("i"); _, anc, _, _ = s.recvmsg(64, socket.CMSG_LEN(16))
    for _, _, data in anc: fds.frombytes(data)
    return list(fds)
EOF

# --- the machine, from an ordinary pod ---------------------------------------------------------------
cat "$work/prelude.py" - >"$work/attempts.py" <<EOF
data = "$work/data"
EOF
cat >>"$work/attempts.py" <<'EOF'
attempt("no other process is seen", lambda: [p for p in os.listdir("/proc") if p.isdigit() and int(p) not in (1, os.getpid())])
attempt("no other process can be signalled", lambda: [os.kill(p, 0) for p in range(2, 40000) if p != os.getpid()])
attempt("it runs with no privilege", lambda: [l for l in open("/proc/self/status") if l.startswith("Cap") and int(l.split()[1], 16)])
attempt("it cannot become root", lambda: os.setuid(0) or "is root")
attempt("setuid programs of the host image do not help", lambda: subprocess.run(["su", "-c", "id -u", "root"], stdin=subprocess.DEVNULL, capture_output=True).stdout)
attempt("no capability, and no new one", lambda: "NoNewPrivs:\t1" not in open("/proc/self/status").read())
for path in ["/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/sched_debug", "/proc/kmsg", "/sys/firmware/dmi", "/sys/kernel", "/sys/fs/cgroup/cgroup.procs", "/etc/shadow", "/root/.profile", data + "/pki/ca.key", data + "/state.db", "/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/fuse", "/dev/kvm"]:
    attempt(path + " tells nothing", lambda: read(path))
attempt("nothing of /home, /root, /srv, /var/lib shows", lambda: [p for p in ("/home", "/root", "/srv", "/mnt", "/var/lib") if os.path.exists(p)])
for path in ["/etc/x", "/usr/x", "/usr/bin/x", "/opt/x", "/x", "/ringfence/x", "/ringfence/bin/x", "/ringfence/bin/gpu-demo", "/dev/x", "/run/x", "/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/1/oom_score_adj_x", "/attempts/code"]:
    attempt(path + " cannot be written", lambda: write(path))
attempt("tools: the demo and nothing else", lambda: os.listdir("/ringfence/bin") != ["gpu-demo"])
attempt("no card shows in a pod without one", lambda: [d for d in ("dev", "run", "lib") if os.path.exists("/ringfence/" + d)])
attempt("no device node can be made", lambda: os.mknod("/tmp/d", 0o60666, 0x0801) or "made")
for name, nr, args in [("ptrace", 101, (16, 1, 0, 0)), ("mount", 165, (0, 0, 0, 0, 0)), ("unshare", 272, (0x10000000,)), ("setns", 308, (0, 0)),
                       ("clone with a user namespace", 56, (0x10000011, 0, 0, 0, 0)), ("clone3", 435, (0, 0)), ("bpf", 321, (0, 0, 0)), ("perf_event_open", 298, (0, 0, -1, -1, 0)),
                       ("io_uring_setup", 425, (1, 0)), ("keyctl", 250, (0, -3, 0)), ("add_key", 248, (0, 0, 0, 0, 0)), ("userfaultfd", 323, (0,)), ("process_vm_readv", 310, (1, 0, 0, 0, 0, 0)),
                       ("chroot", 161, (b"/tmp",)), ("open_by_handle_at", 304, (0, 0, 0)), ("pidfd_getfd", 438, (0, 0, 0)), ("syslog", 103, (3, 0, 0)), ("kexec_load", 246, (0, 0, 0, 0)),
                       ("mount_setattr", 442, (0, 0, 0, 0, 0)), ("fsopen", 430, (b"tmpfs", 0)), ("swapon", 167, (0, 0)), ("sethostname", 170, (b"x", 1)), ("init_module", 175, (0, 0, 0))]:
    attempt(name + " is refused", lambda: call(nr, *args))
attempt("32-bit system calls (x32) end the caller", lambda: subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL(None).syscall(0x40000000 + 39)"]).returncode == 0)
for name, args in [("AF_VSOCK", (40, 1, 0)), ("AF_PACKET", (17, 3, 0)), ("AF_ALG", (38, 5, 0)), ("raw IP", (2, 3, 1)), ("AF_XDP", (44, 3, 0)), ("netlink audit", (16, 3, 9)),
                   ("netlink netfilter", (16, 3, 12)), ("netlink uevents", (16, 3, 15)), ("netlink sock_diag", (16, 3, 4)), ("generic netlink", (16, 3, 16))]:
    attempt("no socket: " + name, lambda: socket.socket(*args))
attempt("there is a loopback and no other interface", lambda: [n for _, n in socket.if_nameindex() if n not in ("lo", "tunl0", "sit0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0")])
def reaches(port):
    s = socket.socket(); s.settimeout(1); s.connect(("127.0.0.1", port)); return "reached port %d" % port
for port in [int(p) for p in os.environ["PORTS"].split()]:
    attempt("the platform's port is out of reach", lambda: reaches(port))
attempt("abstract sockets of the machine are out of reach", lambda: [l for l in open("/proc/net/unix").read().split("\n")[1:] if "@" in l])
attempt("no core file, and no core program of the machine", lambda: resource.getrlimit(resource.RLIMIT_CORE) != (1, 1))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
attempt("not even after asking for other limits", lambda: resource.getrlimit(resource.RLIMIT_CORE) != (1, 1))
attempt("open files have an end", lambda: resource.getrlimit(resource.RLIMIT_NOFILE)[1] > 65536)
attempt("it is the first to go when memory runs out", lambda: int(read("/proc/self/oom_score_adj")) < 500)
def fill(path, most):
    n = 0
    with open(path, "wb", 0) as f:
        try:
            while n < most: n += f.write(b"x" * (1 << 20))
        except OSError: pass
    os.unlink(path)
    return n >= most and "%s took %d MiB" % (path, n >> 20)
for path, most in [("/tmp/f", 600 << 20), ("/dev/shm/f", 80 << 20), ("/var/tmp/f", 80 << 20)]:
    attempt("%s has an end" % os.path.dirname(path), lambda: fill(path, most))
def unlinked(most):
    f = open("/scratch/f", "wb", 0); os.unlink("/scratch/f"); n = 0
    try:
        while n < most: n += f.write(b"x" * (1 << 20))
    except OSError: pass
    return n >= most and "%d MiB" % (n >> 20)
attempt("an emptyDir has the size it says, for files without a name too", lambda: unlinked(40 << 20))
def files(most):
    for i in range(most): os.close(os.open("/scratch/%d" % i, os.O_CREAT | os.O_WRONLY))
    return "made %d files" % most
attempt("and only so many files", lambda: files(20000))
print("all attempts made")
EOF
ports=$(kubectl config view --raw -o jsonpath='{.clusters[0].cluster.server}' | grep -o '[0-9]*$')
ports="$ports $(kubectl get nodes -o jsonpath='{.items[0].status.daemonEndpoints.kubeletEndpoint.Port}')"
attempts bank explorer "{\"env\":[{\"name\":\"PORTS\",\"value\":\"$ports\"}],\"volumeMounts\":[{\"name\":\"scratch\",\"mountPath\":\"/scratch\"}]}" \
	'{"volumes":[{"name":"scratch","emptyDir":{"sizeLimit":"32Mi"}}]}'

# --- manifests that ask for more than they may -------------------------------------------------------
empty='{"volumes":[{"name":"v","emptyDir":{}}]}'
mounted() { echo "{\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"$1\"}]}"; }
for path in /ringfence /ringfence/lib //ringfence/lib /proc //proc /proc/self /sys /dev /dev/null /tmp/../proc /x/./y /; do
	fails_to_run "a volume cannot lie over $path" mountPath "$(mounted "$path")" "$empty"
done
mark=rf-attack-$$
for path in "/etc/$mark" "/usr/$mark" "/opt/$mark"; do
	fails_to_run "a mount point is not made on the machine: $path" "Read-only" "$(mounted "$path")" "$empty"
done
fails_to_run "nor a working folder" chdir "{\"workingDir\":\"/etc/$mark-cwd\"}" "{}"
# the link is made by an init container; a mount point below it would be made behind the link
fails_to_run "nor behind a link in a volume" "Read-only" \
	"{\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/v\"},{\"name\":\"w\",\"mountPath\":\"/v/link/$mark-link\"}]}" \
	'{"volumes":[{"name":"v","emptyDir":{}},{"name":"w","emptyDir":{}}],"initContainers":[{"name":"first","image":"host","command":["ln","-s","/etc","/v/link"],
	"volumeMounts":[{"name":"v","mountPath":"/v"}],"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}'
check "the machine's folders are as they were" bash -c "! ls -d /etc/$mark* /usr/$mark* /opt/$mark* 2>/dev/null"
fails_to_run "no subPath" subPath '{"volumeMounts":[{"name":"v","mountPath":"/x","subPath":"../../.."}]}' "$empty"
fails_to_run "a relative working folder" workingDir '{"workingDir":"../../etc"}' "{}"
for id in 0 -1 4294967295 4294967296 1 33; do
	fails_to_run "runAsUser $id" runAs "{}" "{\"securityContext\":{\"runAsUser\":$id}}"
	fails_to_run "fsGroup $id" fsGroup "{}" "{\"securityContext\":{\"fsGroup\":$id}}"
	fails_to_run "supplementalGroups $id" roups "{}" "{\"securityContext\":{\"supplementalGroups\":[$id]}}"
done
for image in ../host /etc host/.. . "" "host:latest" $'host\n'; do
	fails_to_run "image $(printf %q "$image")" image "$(python3 -c 'import json,sys; print(json.dumps({"image": sys.argv[1]}))' "$image")" "{}"
done
fails_to_run "two hundred containers" "containers" '{}' "$(python3 -c 'import json; print(json.dumps({"containers": [{"name": "c-%d" % i, "image": "host", "command": ["true"], "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}} for i in range(200)]}))')"
fails_to_run "two hundred volumes" "volumes" '{}' "$(python3 -c 'import json; print(json.dumps({"volumes": [{"name": "v-%d" % i, "emptyDir": {"sizeLimit": "1Ti"}} for i in range(200)]}))')"
fails_to_run "a command of megabytes" "" "$(python3 -c 'import json; print(json.dumps({"args": ["x" * 1000000] * 2}))')" "{}"
echo 'exec 2>&1; echo ran; env' | pod bank steered '{"env":[{"name":"LD_PRELOAD","value":"/tmp/x.so"},{"name":"LD_AUDIT","value":"/tmp/x.so"},{"name":"RINGFENCE_SIM","value":"/tmp"},{"name":"NVIDIA_VISIBLE_DEVICES","value":"all"}]}'
says "variables that steer the loader and the driver are not the pod's" ran ends bank steered
check "none of them came through" bash -c "! kubectl -n bank logs steered | grep -E '^(LD_|RINGFENCE_|NVIDIA_)'"
gone bank steered

# A container named like a folder of the agent, with volumes named like its files.
echo 'ls -la /v; echo done' | pod bank names '{"name":"volumes","volumeMounts":[{"name":"run","mountPath":"/v"},{"name":"rootfs","mountPath":"/w"}]}' \
	'{"volumes":[{"name":"run","emptyDir":{}},{"name":"rootfs","emptyDir":{}}]}'
out=$(ends bank names)
says "a container may be called volumes" done echo "$out"
check "and gets none of the agent's files" bash -c "! kubectl -n bank logs names | grep -E 'config.json|fence|proc|log'"
gone bank names

# --- bombs -------------------------------------------------------------------------------------------
echo 'while sleep 0.2; do echo alive; done' | pod lab neighbour
check "a neighbour runs" eventually 10 phase_is lab neighbour Running
cat <<'EOF' | pod bank forks
python3 -c '
import os, time
n = 0
try:
    while True:
        if os.fork() == 0: time.sleep(30); os._exit(0)
        n += 1
except OSError: print("stopped at", n, flush=True)
'
EOF
check "a fork bomb comes to an end" eventually 20 bash -c "kubectl -n bank logs forks | grep 'stopped at'"
check "while the machine and the agent go on" kubectl -n lab logs neighbour --tail=1
gone bank forks
echo 'exec python3 -c "
x = []
while True: x.append(bytearray(1 << 24))"' | pod bank hungry '{"resources":{"limits":{"memory":"64Mi"}}}'
says "a memory bomb ends at its limit" OOMKilled ends bank hungry
gone bank hungry
echo 'cat /dev/zero | head -c 400M >/scratch/f; echo wrote it' | pod bank heavy \
	'{"resources":{"limits":{"memory":"64Mi"}},"volumeMounts":[{"name":"v","mountPath":"/scratch"}]}' "$empty"
check "what it writes to a volume counts as its memory" bash -c "$(declare -f ends eventually pod_ended phase_is phase); ! ends bank heavy | grep -qx 'wrote it'"
gone bank heavy
cgroup=$(find /sys/fs/cgroup -path '*/ringfence/*' -name memory.limit_in_bytes -o -path '*/ringfence/*' -name memory.max | grep "$(kubectl -n lab get pod neighbour -o jsonpath='{.metadata.uid}')/main/" | head -n 1)
check "a container that names no limit has one" test "$(cat "$cgroup")" -lt "$(($(getconf _PHYS_PAGES) * $(getconf PAGESIZE) / 2))"
echo 'cat /dev/urandom & yes & head -c 200000000 /dev/zero & wait' | pod bank noisy '{"resources":{"limits":{"memory":"256Mi"}}}'
sleep 4
check "a flood of output leaves the agent well" timeout 5 kubectl -n lab logs neighbour --tail=1
check "and little on the disk" test "$(du -sm "$work/data/node" | cut -f 1)" -lt 120
check "its log can be read in part" timeout 10 kubectl -n bank logs noisy --tail=3 --limit-bytes=1000
gone bank noisy
echo 'trap "" TERM INT HUP; (trap "" TERM; setsid sleep 31415 >/dev/null 2>&1 &) ; exec >&- 2>&-; while :; do sleep 1; done' | pod bank stubborn
eventually 10 phase_is bank stubborn Running
check "a program that ignores SIGTERM goes with the pod" kubectl -n bank delete pod stubborn --timeout=10s
printf '%s' "printf 'no newline \\033[2J\\000'; head -c 100000 /dev/zero | tr '\\000' x; exec >&- 2>&-; sleep 1" | pod bank odd-log
check "a log without a line's end, with zeros and escapes, can be read" bash -c "$(declare -f ends eventually pod_ended phase_is phase); (( \$(ends bank odd-log | wc -c) > 100000 ))"
gone bank odd-log
echo '(setsid sleep 31415 >/dev/null 2>&1 &); echo main ends' | pod bank left
says "the end of the first process is the end" "main ends" ends bank left
check "nothing of them is left" eventually 5 bash -c '! pgrep -f "^sleep 31415"'
gone bank left

# --- the agent's own door ----------------------------------------------------------------------------
port=${ports#* }
refuses "the agent's logs need a certificate" 403 curl -ksS --fail "https://127.0.0.1:$port/containerLogs/lab/neighbour/main"
refuses "its metrics too" 403 curl -ksS --fail "https://127.0.0.1:$port/metrics"
for part in client-certificate client-key; do
	kubectl config view --raw -o jsonpath="{.users[0].user.$part-data}" | base64 -d >"$work/$part"
done
node() { curl -ksS --max-time 5 --cert "$work/client-certificate" --key "$work/client-key" "https://127.0.0.1:$port$1"; }
for query in 'tailLines=-1' 'tailLines=99999999999999999999' 'sinceSeconds=9223372036854775807' 'limitBytes=0' 'sinceTime=never' 'tailLines=1&tailLines=x&follow=%00'; do
	node "/containerLogs/lab/neighbour/main?$query" >/dev/null
done
for path in /containerLogs/lab/neighbour/.. /containerLogs/lab/../lab/neighbour/main /containerLogs/ /containerLogs/lab/neighbour/main/../../pki '/containerLogs/%2e%2e/x/y'; do
	says "no log at $path" "" node "$path"
	check "nor a key" bash -c "! curl -ksS --path-as-is --max-time 5 --cert '$work/client-certificate' --key '$work/client-key' 'https://127.0.0.1:$port$path' | grep -q 'PRIVATE KEY'"
done
check "odd questions leave the agent well" timeout 5 kubectl -n lab logs neighbour --tail=1

# --- the fence ---------------------------------------------------------------------------------------
share='{"resources":{"limits":{"ringfence.io/gpu-memory":"1Gi"}}}'
cat "$work/prelude.py" - >"$work/attempts.py" <<'EOF'
os.environ.pop("LD_PRELOAD", None)
attempt("only the granted card is there", lambda: sorted(os.listdir("/ringfence/dev")) not in (["machine", "nvidia0"], ["machine", "nvidia1"]))
attempt("another card's file cannot be made", lambda: write("/ringfence/dev/nvidia7"))
attempt("the machine's file cannot be written", lambda: write("/ringfence/dev/machine"))
attempt("the fence's socket cannot be replaced", lambda: os.unlink("/ringfence/run/fence.sock") or "gone")
attempt("nor another put beside it", lambda: socket.socket(socket.AF_UNIX).bind("/ringfence/run/mine.sock") or "bound")
limits, ledger, gate, desk = fence()
attempt("the limits cannot be written", lambda: os.pwrite(limits, b"x", 0))
attempt("nor made longer or shorter", lambda: os.ftruncate(limits, 0) or "cut")
def grow():
    n = 0
    try:
        while n < 8 << 20: n += os.pwrite(ledger, b"\0" * 65536, 65536 + n)
    except OSError: pass
    return n > 1 << 20 and "%d bytes" % n
attempt("the gate cannot be written", lambda: os.pwrite(gate, b"x", 0))
attempt("nor by mapping it", lambda: mmap.mmap(gate, 4096, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE))
attempt("gate and desk keep their sizes", lambda: os.ftruncate(gate, 0) or "cut")
attempt("the desk as well", lambda: os.ftruncate(desk, 0) or "cut")
attempt("and do not grow", lambda: os.posix_fallocate(desk, 0, 1 << 28) or "grown")
os.pwrite(desk, b"\xff" * (os.fstat(desk).st_size - 64), 64) # its own desk it may spoil
attempt("the ledger does not grow", grow)
attempt("nor by fallocate", lambda: os.posix_fallocate(ledger, 0, 1 << 28) or "grown")
attempt("the ledger's owner and mode stay", lambda: os.fchmod(ledger, 0o777) or "changed")
for hello in (b"", b"x", b"x" * 60000, struct.pack("=II", 0x63664652, 99), struct.pack("=II", 0, 2), struct.pack("=II", 0x63664652, 2), os.urandom(16)):
    attempt("garbage of %d bytes gets nothing" % len(hello), lambda: fence(hello))
def pass_fds():
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.settimeout(5); s.connect("/ringfence/run/fence.sock")
    socket.send_fds(s, [struct.pack("=IIII", 0x63664652, 2, 0, 0)], [0] * 200); return False
attempt("descriptors that are sent along do no harm", pass_fds)
keep = []
def flood():
    for i in range(3000):
        s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.setblocking(False)
        try: s.connect("/ringfence/run/fence.sock")
        except OSError: break
        keep.append(s)
    return False
attempt("a flood of connections is let wait", flood)
print("all attempts made", flush=True)
os.pwrite(ledger, os.urandom(30000), 0)  # spoilt for good
os.ftruncate(ledger, 3)
for i in range(300):
    if os.fork() == 0:
        try: fcntl.lockf(os.dup(ledger), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, i)
        except OSError: pass
        time.sleep(3); os._exit(0)
time.sleep(3)
EOF
attempts team-a vandal "$share"
says "a spoilt ledger and 300 processes leave the agent well" "ringfence_node_pods" node /metrics
check "it is still the same agent" test "$(child_pid node)" = "$agent"
echo 'gpu-demo --memory 256Mi' | pod team-b honest "$share"
says "the next one's fence is whole" "allocated 256 MiB" ends team-b honest
gone team-b honest
for way in 'env -u LD_PRELOAD gpu-demo --memory 100Mi --hold 30' 'LD_PRELOAD= exec -a python3 gpu-demo --memory 100Mi --hold 30' '(setsid env -u LD_PRELOAD gpu-demo --memory 100Mi --hold 30 &) ; sleep 30'; do
	echo "exec bash -c '${way}'" | pod team-a around "$share"
	says "a card used around the fence: $way" FenceBypassed ends team-a around
	gone team-a around
done
echo 'gpu-demo --memory 3Gi --expect-oom >/dev/null; env -u LD_PRELOAD gpu-demo --memory 3Gi --hold 30' | pod team-a over "$share"
says "more than the share, taken around the fence, is not kept" terminated ends team-a over
check "and the container was ended for it" bash -c "kubectl -n team-a get pod over -o jsonpath='{.status}' | grep -E 'FenceBypassed|OverMemoryCap'"
gone team-a over
check "no card is held at the end" eventually 20 bash -c "! $RINGFENCE gpus -o json | grep -q '\"tenants\": \"[a-z]'"

# --- several containers, one pod ---------------------------------------------------------------------
echo 'python3 -c "
import socket, time
s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((chr(49) + \"27.0.0.1\", 7777)); s.listen(); c, _ = s.accept(); c.send(b\"hello\"); time.sleep(1)"' |
	pod bank pair '{}' '{"containers":[{"name":"peer","image":"host","command":["sh","-c","for i in 1 2 3 4 5 6 7 8 9; do sleep 0.5; (exec 3<>/dev/tcp/127.0.0.1/7777) 2>/dev/null; bash -c \"exec 3<>/dev/tcp/127.0.0.1/7777 && head -c 5 <&3\" 2>/dev/null && exit 0; done; exit 1"],
	"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]}}}]}'
says "containers of a pod share their loopback" hello ends bank pair
gone bank pair

# --- nothing is left ---------------------------------------------------------------------------------
gone lab neighbour
check "no process is left" eventually 10 bash -c "! pgrep -f '[r]ingfence shim .*$work'"
check "no mount is left" eventually 10 bash -c "! grep -q '$work' /proc/self/mountinfo"
check "no file of a pod is left" eventually 10 bash -c "! ls -A '$work/data/node/pods' '$work/data/node/trash' '$work/data/node/runtime' 2>/dev/null | grep -E '^[0-9a-f]|^rf-'"
check "no descriptor is left with the agent" bash -c "(( \$(ls /proc/$agent/fd | wc -l) < 60 ))"
check "it is the agent of the beginning" test "$(child_pid node)" = "$agent"

# --- what only a restart of the agent would let through ----------------------------------------------
{ cat "$work/prelude.py"; echo 'os.ftruncate(fence()[1], 3); print("spoilt", flush=True); time.sleep(60)'; } >"$work/attempts.py"
kubectl -n team-a create configmap spoiler --from-file=code="$work/attempts.py" >/dev/null
echo 'exec env -u LD_PRELOAD python3 -u /attempts/code' | pod team-a spoiler "${share%\}},\"volumeMounts\":[{\"name\":\"code\",\"mountPath\":\"/attempts\"}]}" \
	'{"volumes":[{"name":"code","configMap":{"name":"spoiler"}}]}'
check "a pod spoils its ledger" eventually 10 bash -c 'kubectl -n team-a logs spoiler | grep spoilt'
kill -9 "$agent"
says "a pod whose fence cannot be taken over is ended" "spoiled it" ends team-a spoiler
check "and its card is free" eventually 20 bash -c "! $RINGFENCE gpus -o json | grep -q '\"tenants\": \"[a-z]'"

# --- a simulated card is a file its pod may write; that harms this card alone ------------------------
echo 'head -c 8000000 /dev/zero | tr "\0" "\377" | env -u LD_PRELOAD dd of="$(ls /ringfence/dev/nvidia*)" conv=notrunc status=none; ls /ringfence/dev' |
	pod bank scribbler '{"resources":{"limits":{"ringfence.io/gpu":"1"}}}'
out=$(ends bank scribbler)
card=$(grep -o '^nvidia[0-9]' <<<"$out" | tr -dc 0-9)
gone bank scribbler
check "a card that answers no more is taken out of service" eventually 20 bash -c "'$RINGFENCE' gpus | grep 'gpu-$card ' | grep -q gpu-lost"
echo 'gpu-demo --memory 1Gi' | pod lab spared '{"resources":{"limits":{"ringfence.io/gpu":"1"}}}'
says "the next pod runs on another" "allocated 1024 MiB" ends lab spared
done_testing
