/* The cap, checked from outside: what NVML says a container's processes hold, against its grant.
 * The interposer keeps honest programs in; this makes going around it not pay. */
#include <signal.h>
#include <stdio.h>

#include "fence/ledger.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "tenant/tenant.h"

static void end_container(struct rf_container *c, const char *reason, const char *message)
{
	struct rf_worker *w = c->worker;

	if (c->kill_reason[0] != '\0')
		return; /* on its way */
	snprintf(c->kill_reason, sizeof(c->kill_reason), "%s", reason);
	snprintf(c->kill_message, sizeof(c->kill_message), "%s", message);
	rf_warn("pod %s/%s: container %s ended: %s: %s", w->ns, w->name, c->name, reason, message);
	rf_container_signal(c, SIGKILL);
	(void)rf_kube_event(w->agent->kube, w->pod, "Warning", reason, "ringfence-node",
			    "container %s: %s", c->name, message);
}

struct load {
	struct rf_container *container;
	int64_t bytes, cap, allowance;
	pid_t unknown[16];
	size_t n_unknown;
	pid_t seated[RF_LEDGER_SEATS];
	size_t n_seated;
};

static struct rf_container *container_of(struct rf_agent *g, struct rf_arena *a, pid_t pid)
{
	struct rf_str uid, name;
	struct rf_worker *w;

	if (!rf_cgroup_of_pid(a, pid, g->instance, &uid, &name))
		return NULL;
	w = rf_map_get(&g->workers, uid);
	return w != NULL ? rf_worker_container(w, name) : NULL;
}

static int64_t cap_on(const struct rf_container *c, int index)
{
	for (size_t i = 0; i < c->grant.n; i++)
		if (c->grant.cards[i].index == index)
			return c->grant.cards[i].memory_bytes;
	return 0;
}

static bool was_suspect(const struct rf_container *c, pid_t pid)
{
	for (size_t i = 0; i < c->n_suspects; i++)
		if (c->suspects[i] == pid)
			return true;
	return false;
}

/* A process is given one look's time to reach the fence after it reached the card. */
static void judge(const struct load *l, int index)
{
	struct rf_container *c = l->container;
	char message[200];

	if (rf_container_jammed(c))
		end_container(c, "FenceBypassed",
			      "so many locks lie on the fence's ledger that it cannot be read");
	for (size_t i = 0; i < l->n_unknown; i++) {
		if (!was_suspect(c, l->unknown[i]))
			continue;
		snprintf(message, sizeof(message), "process %d uses card gpu-%d without the fence",
			 (int)l->unknown[i], index);
		end_container(c, "FenceBypassed", message);
	}
	if (l->bytes > l->cap + l->allowance) {
		snprintf(message, sizeof(message),
			 "holds %lld bytes of card gpu-%d, its cap is %lld", (long long)l->bytes,
			 index, (long long)l->cap);
		end_container(c, "OverMemoryCap", message);
	}
	c->n_suspects = l->n_unknown;
	memcpy(c->suspects, l->unknown, sizeof(c->suspects));
}

static struct load *load_of(struct load *loads, size_t *n, struct rf_container *c, int64_t cap)
{
	for (size_t i = 0; i < *n; i++)
		if (loads[i].container == c)
			return &loads[i];
	struct load *l = &loads[(*n)++];
	*l = (struct load){ .container = c, .cap = cap };
	l->n_seated = rf_container_seated(c, l->seated, RF_COUNT(l->seated));
	return l;
}

static bool is_seated(const struct load *l, pid_t pid)
{
	for (size_t i = 0; i < l->n_seated; i++)
		if (l->seated[i] == pid)
			return true;
	return false;
}

static void watch_card(struct rf_agent *g, size_t position)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	int index = rf_gpu_card(g->cards.gpu, position)->index;
	struct rf_gpu_process *p;
	size_t n, n_loads = 0;

	if (rf_gpu_processes(g->cards.gpu, position, &a, &p, &n, NULL) < 0 || n == 0)
		return;
	struct load *loads = rf_arena_array(&a, struct load, n);
	for (size_t i = 0; i < n; i++) {
		struct rf_container *c = container_of(g, &a, p[i].pid);
		int64_t cap = c != NULL ? cap_on(c, index) : 0;

		if (cap == 0)
			continue; /* a whole card, or not a container of ours */
		struct load *l = load_of(loads, &n_loads, c, cap);
		l->bytes += RF_MAX(p[i].bytes, 0);
		l->allowance = rf_card_allowance(&g->cards, index, cap);
		if (!is_seated(l, p[i].pid) && l->n_unknown < RF_COUNT(l->unknown))
			l->unknown[l->n_unknown++] = p[i].pid;
	}
	for (size_t i = 0; i < n_loads; i++)
		judge(&loads[i], index);
}

int rf_agent_strangers(struct rf_agent *g, size_t position, struct rf_str uid, bool mine,
		       size_t *ret_n, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *p;
	size_t n, count = 0;

	if (rf_gpu_processes(g->cards.gpu, position, &a, &p, &n, err) < 0)
		return -RF_UNAVAILABLE;
	for (size_t i = 0; i < n; i++) {
		struct rf_str owner = RF_STR_EMPTY, container;
		bool is_mine = rf_cgroup_of_pid(&a, p[i].pid, g->instance, &owner, &container) &&
			       rf_str_eq(owner, uid);

		count += is_mine == mine ? 1 : 0;
	}
	*ret_n = count;
	return 0;
}

/* Also of a pod that this agent has not read the claim of yet: who asked for a share may have been a client. */
static bool may_be_client(const struct rf_container *c)
{
	struct rf_gpu_ask ask;

	return rf_gpu_ask_of_container(rf_container_spec(c), &ask, NULL) == 0 && ask.share_bytes > 0;
}

static void say_daemon_died(char *ret, size_t size, int index)
{
	snprintf(ret, size, "the MPS daemon of card gpu-%d has died, and what ran by it with it", index);
}

static void end_clients(struct rf_worker *w, int index)
{
	char message[120];

	say_daemon_died(message, sizeof(message), index);
	for (size_t i = 0; i < w->n_containers; i++) {
		struct rf_container *c = &w->containers[i];

		if (c->state == RF_CONTAINER_RUNNING && may_be_client(c))
			end_container(c, RF_MPS_DIED, message);
	}
}

bool rf_agent_lost_mps(const struct rf_container *c, char *ret, size_t size)
{
	const struct rf_worker *w = c->worker;
	int index;

	if (w->agent->mps == NULL || !may_be_client(c) || !rf_mps_is_dead_under(w->agent->mps, rf_str(w->uid), &index))
		return false;
	say_daemon_died(ret, size, index);
	return true;
}

void rf_agent_watch_mps(struct rf_agent *g)
{
	rf_mps_tick(g->mps);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;
		int index;

		while (rf_mps_lost(g->mps, rf_str(w->uid), &index)) {
			end_clients(w, index);
			rf_mps_mourned(g->mps, index, rf_str(w->uid));
		}
	}
}

void rf_agent_watch_caps(struct rf_agent *g)
{
	for (size_t i = 0; i < rf_gpu_count(g->cards.gpu); i++)
		watch_card(g, i);
}
