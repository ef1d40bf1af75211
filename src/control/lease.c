/* One leader at a time, by a Lease object. A lease that is not renewed is free after RF_LEASE_S; a
 * holder that was a process of this very machine and is gone need not be waited for. */
#include "control/private.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>

#define NAME "ringfence-control"

/* --- who am I, and is that other one alive ---------------------------------------------------- */

static size_t read_small(const char *path, char *out, size_t size)
{
	rf_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, out, size - 1);

	out[n > 0 ? n : 0] = 0;
	return n > 0 ? (size_t)n : 0;
}

/* Field 22 of /proc/PID/stat, and the state; the command before them may hold anything. */
static bool read_start(pid_t pid, char *ret_state, unsigned long long *ret_start)
{
	char path[64], text[1024];
	const char *p = NULL;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (read_small(path, text, sizeof(text)) == 0)
		return false;
	p = strrchr(text, ')');
	return p != NULL &&
	       sscanf(p + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
		      "%*d %*d %*d %llu",
		      ret_state, ret_start) == 2;
}

void rf_lease_identify(char *out, size_t size, pid_t pid)
{
	const char *pod = getenv("RINGFENCE_POD");
	char boot[64] = "", ns[64] = "", state = 0;
	unsigned long long start = 0;
	ssize_t n = readlink("/proc/self/ns/pid", ns, sizeof(ns) - 1);

	(void)read_small("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	boot[strcspn(boot, "\n")] = 0;
	ns[n > 0 ? n : 0] = 0;
	(void)read_start(pid, &state, &start);
	snprintf(out, size, "%s%s%s_%s_%d_%llu", pod != NULL ? pod : "", pod != NULL ? "/" : "", boot,
		 ns, (int)pid, start);
}

/* Takes "<pod>/" off, if it is there. */
static struct rf_str take_pod(struct rf_str *identity)
{
	struct rf_str rest = *identity, pod = RF_STR_EMPTY;

	if (!rf_str_cut(&rest, '/', &pod))
		return RF_STR_EMPTY;
	*identity = rest;
	return pod;
}

static bool is_gone(pid_t pid, unsigned long long start)
{
	unsigned long long now = 0;
	char state = 0;

	if (kill(pid, 0) < 0 && errno == ESRCH)
		return true;
	/* What cannot be read may be alive. */
	return read_start(pid, &state, &now) && (now != start || state == 'Z' || state == 'X');
}

bool rf_lease_holder_dead(struct rf_str me, struct rf_str holder)
{
	struct rf_str boot = RF_STR_EMPTY, ns = RF_STR_EMPTY, pid = RF_STR_EMPTY;
	struct rf_str my_boot = RF_STR_EMPTY, my_ns = RF_STR_EMPTY;
	struct rf_str my_pod = take_pod(&me), pod = take_pod(&holder);
	int64_t number = 0, start = 0;

	/* A pod's container is started anew only after the last one has ended. */
	if (my_pod.n > 0 && rf_str_eq(my_pod, pod))
		return !rf_str_eq(me, holder);
	/* A pid means something only in its own pid namespace: two pods on one
	 * node share the boot. */
	if (!rf_str_cut(&me, '_', &my_boot) || !rf_str_cut(&me, '_', &my_ns) ||
	    !rf_str_cut(&holder, '_', &boot) || !rf_str_cut(&holder, '_', &ns) ||
	    !rf_str_cut(&holder, '_', &pid))
		return false;
	if (my_boot.n == 0 || my_ns.n == 0 || !rf_str_eq(boot, my_boot) || !rf_str_eq(ns, my_ns))
		return false;
	if (rf_str_int(pid, &number, NULL) < 0 || rf_str_int(holder, &start, NULL) < 0 ||
	    number <= 0 || number > INT32_MAX)
		return false;
	return is_gone((pid_t)number, (unsigned long long)start);
}

/* --- judging ---------------------------------------------------------------------------------- */

enum rf_lease_move rf_lease_judge(const struct rf_json *lease, struct rf_str me, bool holder_dead,
				  int64_t unchanged_ms)
{
	struct rf_str holder = rf_json_str_at(lease, "spec", "holderIdentity");
	int64_t seconds =
		rf_json_int(rf_json_at(lease, "spec", "leaseDurationSeconds"), RF_LEASE_S);

	if (rf_str_eq(holder, me))
		return RF_LEASE_RENEW;
	if (holder.n == 0 || holder_dead)
		return RF_LEASE_TAKE;
	/* A lease that claims to last for hours is not believed. */
	seconds = RF_MIN(RF_MAX(seconds, 1), 4 * RF_LEASE_S);
	return unchanged_ms > seconds * 1000 ? RF_LEASE_TAKE : RF_LEASE_WAIT;
}

/* --- doing ------------------------------------------------------------------------------------ */

static int64_t now_ns(void)
{
	return rf_mono_ns(rf_clock_system());
}

void rf_lease_init(struct rf_lease *l)
{
	*l = (struct rf_lease){ .seen_ns = now_ns() };
	rf_lease_identify(l->me, sizeof(l->me), getpid());
}

bool rf_lease_held(const struct rf_lease *l)
{
	return l->renewed_ns != 0 && now_ns() - l->renewed_ns < (int64_t)RF_LEASE_S * 1000000000;
}

static struct rf_str lease_path(struct rf_arena *a, bool named)
{
	return rf_kube_path(a, &RF_LEASES, RF_LIT(RF_SYSTEM_NAMESPACE),
			    named ? RF_LIT(NAME) : RF_STR_EMPTY, NULL);
}

static struct rf_json *fill(struct rf_arena *a, const struct rf_json *lease, const char *holder)
{
	struct rf_str now = rf_time_format_micro(a, rf_wall_ms(rf_clock_system()));
	struct rf_json *l = NULL, *spec = NULL;
	bool moved = !rf_str_is(rf_json_str_at(lease, "spec", "holderIdentity"), holder);

	l = lease != NULL ? rf_json_clone(a, lease)
			  : rf_json_make(a, "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease',"
					    "'metadata':{'name':'" NAME
					    "','namespace':'" RF_SYSTEM_NAMESPACE "'}}");
	spec = rf_json_ensure(a, l, "spec");
	rf_json_set_str(a, spec, "holderIdentity", rf_str(holder));
	rf_json_set_int(a, spec, "leaseDurationSeconds", RF_LEASE_S);
	rf_json_set_str(a, spec, "renewTime", now);
	if (moved && holder[0] != 0) {
		rf_json_set_str(a, spec, "acquireTime", now);
		rf_json_set_int(a, spec, "leaseTransitions",
				rf_json_int(rf_json_at(spec, "leaseTransitions"), -1) + 1);
	}
	return l;
}

static int create_lease(struct rf_lease *l, struct rf_kube *k, struct rf_arena *a,
			struct rf_err *err)
{
	int rc = rf_kube_create(k, a, lease_path(a, false), fill(a, NULL, l->me), NULL, err);

	if (rc != -RF_NOT_FOUND)
		return rc;
	rc = rf_kube_create(k, a, rf_kube_path(a, &RF_NAMESPACES, RF_STR_EMPTY, RF_STR_EMPTY, NULL),
			    rf_json_make(a, "{'apiVersion':'v1','kind':'Namespace','metadata':{'"
					    "name':'" RF_SYSTEM_NAMESPACE "'}}"),
			    NULL, err);
	if (rc < 0 && rc != -RF_EXISTS)
		return rc;
	return rf_kube_create(k, a, lease_path(a, false), fill(a, NULL, l->me), NULL, err);
}

/* Remembers since when the lease reads as it does: clocks of two machines may differ, ours does
 * not. */
static int64_t unchanged_ms(struct rf_lease *l, const struct rf_json *lease)
{
	char now[sizeof(l->seen)];

	snprintf(now, sizeof(now), "%.*s %.*s", RF_STR(rf_json_str_at(lease, "spec", "renewTime")),
		 RF_STR(rf_json_str_at(lease, "spec", "holderIdentity")));
	if (strcmp(now, l->seen) != 0) {
		memcpy(l->seen, now, sizeof(now));
		l->seen_ns = now_ns();
	}
	return (now_ns() - l->seen_ns) / 1000000;
}

int rf_lease_step(struct rf_lease *l, struct rf_kube *k, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *lease = NULL;
	int64_t before = now_ns();
	int rc = rf_kube_get(k, &a, lease_path(&a, true), &lease, err);

	if (rc == -RF_NOT_FOUND) {
		rc = create_lease(l, k, &a, err);
	} else if (rc == 0) {
		bool dead = rf_lease_holder_dead(rf_str(l->me),
						 rf_json_str_at(lease, "spec", "holderIdentity"));

		if (rf_lease_judge(lease, rf_str(l->me), dead, unchanged_ms(l, lease)) ==
		    RF_LEASE_WAIT) {
			l->renewed_ns = 0;
			return 0;
		}
		/* The version in it makes two takers meet: one gets a conflict. */
		rc = rf_kube_update(k, &a, lease_path(&a, true), fill(&a, lease, l->me), NULL, err);
	}
	if (rc == 0)
		l->renewed_ns = before;
	return rc < 0 ? rf_wrap(err, "lease " RF_SYSTEM_NAMESPACE "/" NAME) : 0;
}

void rf_lease_release(struct rf_lease *l, struct rf_kube *k)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *lease = NULL;

	if (!rf_lease_held(l) || rf_kube_get(k, &a, lease_path(&a, true), &lease, NULL) < 0)
		return;
	l->renewed_ns = 0;
	if (rf_str_is(rf_json_str_at(lease, "spec", "holderIdentity"), l->me))
		(void)rf_kube_update(k, &a, lease_path(&a, true), fill(&a, lease, ""), NULL, NULL);
}
