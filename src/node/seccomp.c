/* The seccomp profile of every container: what is named here is allowed, all else answers ENOSYS
 * (so that programs fall back), and other architectures' system calls are refused altogether.
 *
 * Left out on purpose: mounting and namespaces (mount, umount2, pivot_root, move_mount, open_tree,
 * fs*, unshare, setns, clone3, chroot), other processes' memory (ptrace, process_vm_*, kcmp,
 * process_madvise), kernel surface with a record of holes (bpf, perf_event_open, userfaultfd,
 * io_uring_*, keyctl, add_key, request_key), the machine itself (reboot, kexec_*, *_module, swap*,
 * acct, quotactl*, iopl, ioperm, settimeofday, clock_settime, clock_adjtime, adjtimex, syslog,
 * sethostname, setdomainname, vhangup, nfsservctl), and open_by_handle_at, name_to_handle_at,
 * fanotify_*, lookup_dcookie, migrate_pages, modify_ldt. mknod stays: it makes pipes, and device
 * nodes need CAP_MKNOD. */
#include <sys/resource.h>

#include "node/oci.h"

/* clang-format off */
static const char *const ALLOWED[] = {
	"accept", "accept4", "access", "alarm", "arch_prctl", "bind", "brk", "cachestat",
	"capget", "capset", "chdir", "chmod", "chown", "clock_getres", "clock_gettime",
	"clock_nanosleep", "close", "close_range", "connect", "copy_file_range", "creat", "dup",
	"dup2", "dup3", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old",
	"epoll_pwait", "epoll_pwait2", "epoll_wait", "epoll_wait_old", "eventfd", "eventfd2",
	"execve", "execveat", "exit", "exit_group", "faccessat", "faccessat2", "fadvise64",
	"fallocate", "fchdir", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat", "fcntl",
	"fdatasync", "fgetxattr", "flistxattr", "flock", "fork", "fremovexattr", "fsetxattr",
	"fstat", "fstatfs", "fsync", "ftruncate", "futex", "futex_requeue", "futex_wait",
	"futex_waitv", "futex_wake", "futimesat", "get_mempolicy", "get_robust_list",
	"get_thread_area", "getcpu", "getcwd", "getdents", "getdents64", "getegid", "geteuid",
	"getgid", "getgroups", "getitimer", "getpeername", "getpgid", "getpgrp", "getpid",
	"getppid", "getpriority", "getrandom", "getresgid", "getresuid", "getrlimit", "getrusage",
	"getsid", "getsockname", "getsockopt", "gettid", "gettimeofday", "getuid", "getxattr",
	"inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch", "io_cancel",
	"io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit", "ioctl",
	"ioprio_get", "ioprio_set", "kill", "landlock_add_rule", "landlock_create_ruleset",
	"landlock_restrict_self", "lchown", "lgetxattr", "link", "linkat", "listen", "listxattr",
	"llistxattr", "lremovexattr", "lseek", "lsetxattr", "lstat", "madvise",
	"map_shadow_stack", "mbind", "membarrier", "memfd_create", "mincore", "mkdir", "mkdirat",
	"mknod", "mknodat", "mlock", "mlock2", "mlockall", "mmap", "move_pages", "mprotect",
	"mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend", "mq_unlink",
	"mremap", "mseal", "msgctl", "msgget", "msgrcv", "msgsnd", "msync", "munlock",
	"munlockall", "munmap", "nanosleep", "newfstatat", "open", "openat", "openat2", "pause",
	"pidfd_open", "pidfd_send_signal", "pipe", "pipe2", "pkey_alloc", "pkey_free",
	"pkey_mprotect", "poll", "ppoll", "prctl", "pread64", "preadv", "preadv2",
	"process_mrelease", "pselect6", "pwrite64", "pwritev", "pwritev2", "read", "readahead",
	"readlink", "readlinkat", "readv", "recvfrom", "recvmmsg", "recvmsg", "remap_file_pages",
	"removexattr", "rename", "renameat", "renameat2", "restart_syscall", "rmdir", "rseq",
	"rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
	"rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sched_get_priority_max",
	"sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
	"sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_setattr",
	"sched_setparam", "sched_setscheduler", "sched_yield", "seccomp", "select", "semctl",
	"semget", "semop", "semtimedop", "sendfile", "sendmmsg", "sendmsg", "sendto",
	"set_mempolicy", "set_robust_list", "set_thread_area", "set_tid_address", "setfsgid",
	"setfsuid", "setgid", "setgroups", "setitimer", "setpgid", "setpriority", "setregid",
	"setresgid", "setresuid", "setreuid", "setsid", "setsockopt", "setuid",
	"setxattr", "shmat", "shmctl", "shmdt", "shmget", "shutdown", "sigaltstack", "signalfd",
	"signalfd4", "socketpair", "splice", "stat", "statfs", "statx", "symlink", "symlinkat",
	"sync", "sync_file_range", "syncfs", "sysinfo", "tee", "tgkill", "time", "timer_create",
	"timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime", "timerfd_create",
	"timerfd_gettime", "timerfd_settime", "times", "tkill", "truncate", "umask", "uname",
	"unlink", "unlinkat", "utime", "utimensat", "utimes", "vfork", "vmsplice", "wait4",
	"waitid", "write", "writev",
};
/* clang-format on */

/* A system call allowed only if its arguments compare as told. */
struct compare {
	const char *op; /* NULL: no second one */
	int index;
	int64_t value, value_two;
};

struct rule {
	const char *name;
	struct compare one, two;
	bool pretend; /* answers 0 and does nothing */
};

#define EQ "SCMP_CMP_EQ"
#define NE "SCMP_CMP_NE"

#define NEW_NAMESPACES 0x7E020000 /* CLONE_NEW*: mount, cgroup, uts, ipc, user, pid, net */

static const struct rule RULES[] = {
	{ "clone", { "SCMP_CMP_MASKED_EQ", 0, NEW_NAMESPACES, 0 } },
	/* Not AF_VSOCK (reaches the hypervisor, no namespace holds it), not AF_ALG and other
	 * rare ones. */
	{ "socket", { EQ, 0, 1 } },		   /* AF_UNIX */
	{ "socket", { EQ, 0, 2 } },		   /* AF_INET */
	{ "socket", { EQ, 0, 10 } },		   /* AF_INET6 */
	{ "socket", { EQ, 0, 16 }, { EQ, 2, 0 } }, /* AF_NETLINK: addresses and routes only */
	{ "personality", { EQ, 0, 0x0 } },
	{ "personality", { EQ, 0, 0x8 } },     /* PER_LINUX32 */
	{ "personality", { EQ, 0, 0x20000 } }, /* UNAME26 */
	{ "personality", { EQ, 0, 0x20008 } },
	{ "personality", { EQ, 0, 0xffffffff } }, /* asks only */
	/* The limit of core files stays as it is; programs that set it to 0 get what they want. */
	{ "setrlimit", { NE, 0, RLIMIT_CORE } },
	{ "setrlimit", { EQ, 0, RLIMIT_CORE }, .pretend = true },
	{ "prlimit64", { NE, 1, RLIMIT_CORE } },
	{ "prlimit64", { EQ, 1, RLIMIT_CORE }, { EQ, 2, 0 } }, /* asks only */
	{ "prlimit64", { EQ, 1, RLIMIT_CORE }, { NE, 2, 0 }, .pretend = true },
};

#if defined(__x86_64__)
#define NATIVE "SCMP_ARCH_X86_64"
#elif defined(__aarch64__)
#define NATIVE "SCMP_ARCH_AARCH64"
#else
#error "the seccomp profile knows x86-64 and arm64"
#endif

static struct rf_json *comparison(struct rf_arena *a, const struct compare *c)
{
	return rf_json_make(a, "{'index':%d,'value':%D,'valueTwo':%D,'op':%s}", c->index, c->value,
			    c->value_two, c->op);
}

static struct rf_json *conditional(struct rf_arena *a, const struct rule *r)
{
	struct rf_json *args = rf_json_array(a);

	rf_json_push(a, args, comparison(a, &r->one));
	if (r->two.op != NULL)
		rf_json_push(a, args, comparison(a, &r->two));
	struct rf_json *call = rf_json_make(a, "{'names':[%s],'action':%s,'args':%j}", r->name,
					    r->pretend ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW", args);
	if (r->pretend)
		rf_json_set_int(a, call, "errnoRet", 0);
	return call;
}

struct rf_json *rf_oci_seccomp(struct rf_arena *a)
{
	struct rf_json *names = rf_json_array(a), *calls = rf_json_array(a);

	for (size_t i = 0; i < RF_COUNT(ALLOWED); i++)
		rf_json_push(a, names, rf_json_string(a, rf_str(ALLOWED[i])));
	rf_json_push(a, calls, rf_json_make(a, "{'names':%j,'action':'SCMP_ACT_ALLOW'}", names));
	for (size_t i = 0; i < RF_COUNT(RULES); i++)
		rf_json_push(a, calls, conditional(a, &RULES[i]));
	return rf_json_make(
		a,
		"{'defaultAction':'SCMP_ACT_ERRNO','defaultErrnoRet':38,'architectures':[%s],"
		"'syscalls':%j}",
		NATIVE, calls);
}
