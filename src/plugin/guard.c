/* The cap, checked from outside: who is on a capped card without the fence, or holds more than it may.
 * The interposer keeps honest programs in; this makes going around it not pay. */
#include <signal.h>
#include <stdio.h>

#include "fence/ledger.h"
#include "node/fence_server.h"
#include "plugin/private.h"

/* What a process costs on a card before it allocates anything: not the tenant's choice. */
#define CONTEXT_ALLOWANCE (1024LL * 1024 * 1024)

struct look {
	struct rf_plugin *p;
	int index; /* of the card */
	pid_t suspects[64];
	size_t n_suspects;
};

static struct rf_held *held_for(struct rf_plugin *p, const char *pod_uid)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		struct rf_held *h = s->value;

		if (strcmp(h->pod_uid, pod_uid) == 0)
			return h;
	}
	return NULL;
}

/* The pod's cap on the card over all its containers; 0: none, or a whole card. */
static int64_t cap_of(const struct rf_held *h, int index)
{
	int64_t sum = 0;

	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index)
				sum += h->boxes[i].grant.cards[j].memory_bytes;
	return sum;
}

static bool is_seated(const struct rf_held *h, pid_t pid)
{
	pid_t seated[RF_LEDGER_SEATS];

	for (size_t i = 0; i < h->n_boxes; i++) {
		if (h->boxes[i].fence == NULL)
			return true; /* nobody knows: its fence is not up again yet */
		size_t n = rf_fence_server_pids(h->boxes[i].fence, seated, RF_COUNT(seated));
		for (size_t j = 0; j < RF_MIN(n, RF_COUNT(seated)); j++)
			if (seated[j] == pid)
				return true;
	}
	return false;
}

static bool was_suspect(const struct rf_plugin *p, pid_t pid)
{
	for (size_t i = 0; i < p->n_suspects; i++)
		if (p->suspects[i] == pid)
			return true;
	return false;
}

static void end_process(const struct look *l, const struct rf_held *h, pid_t pid,
			const char *reason, const char *message)
{
	const struct rf_json *pod =
		rf_informer_get(l->p->pods, rf_str(h->ns), rf_str(h->pod));
	char now[64];

	/* The number may have passed to another process since the look. */
	if (!rf_procs_pod_of(pid, now) || strcmp(now, h->pod_uid) != 0)
		return;
	rf_warn("pod %s/%s: process %d ended: %s: %s", h->ns, h->pod, (int)pid, reason, message);
	(void)kill(pid, SIGKILL);
	if (pod != NULL)
		(void)rf_kube_event(l->p->kube, pod, "Warning", reason, "ringfence-node", "%s",
				    message);
}

/* A process is given one look's time to reach the fence after it reached the card. */
static void judge_process(struct look *l, struct rf_held *h, pid_t pid)
{
	char message[160];

	if (is_seated(h, pid))
		return;
	if (!was_suspect(l->p, pid)) {
		if (l->n_suspects < RF_COUNT(l->suspects))
			l->suspects[l->n_suspects++] = pid;
		return;
	}
	snprintf(message, sizeof(message), "a process uses card gpu-%d without the fence", l->index);
	end_process(l, h, pid, "FenceBypassed", message);
}

/* of[i]: whose process i is; NULL: nobody's with a cap on this card. */
static void judge_pod(struct look *l, struct rf_held *h, const struct rf_gpu_process *list,
		      struct rf_held *const *of, size_t n)
{
	int64_t cap = cap_of(h, l->index), bytes = 0, processes = 0;
	char message[160];

	for (size_t i = 0; i < n; i++) {
		bytes += of[i] == h ? RF_MAX(list[i].bytes, 0) : 0;
		processes += of[i] == h;
	}
	if (bytes <= cap + processes * CONTEXT_ALLOWANCE)
		return;
	snprintf(message, sizeof(message), "holds %lld bytes of card gpu-%d, its cap is %lld",
		 (long long)bytes, l->index, (long long)cap);
	for (size_t i = 0; i < n; i++)
		if (of[i] == h)
			end_process(l, h, list[i].pid, "OverMemoryCap", message);
}

static struct rf_held *capped_for(struct rf_plugin *p, pid_t pid, int index)
{
	char uid[64];
	struct rf_held *h = rf_procs_pod_of(pid, uid) ? held_for(p, uid) : NULL;

	return h != NULL && cap_of(h, index) > 0 ? h : NULL;
}

static void look_at(struct look *l, size_t position)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list;
	struct rf_held **of;
	size_t n;

	l->index = rf_gpu_card(l->p->cards.gpu, position)->index;
	if (rf_gpu_processes(l->p->cards.gpu, position, &a, &list, &n, NULL) < 0)
		return;
	of = rf_arena_array(&a, struct rf_held *, n + 1);
	for (size_t i = 0; i < n; i++)
		of[i] = capped_for(l->p, list[i].pid, l->index);
	for (size_t i = 0; i < n; i++)
		if (of[i] != NULL)
			judge_process(l, of[i], list[i].pid);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&l->p->held, s)) != NULL;)
		if (cap_of(s->value, l->index) > 0)
			judge_pod(l, s->value, list, of, n);
}

void rf_guard_look(struct rf_plugin *p)
{
	struct look l = { .p = p };

	for (size_t i = 0; i < rf_gpu_count(p->cards.gpu); i++)
		look_at(&l, i);
	p->n_suspects = l.n_suspects;
	memcpy(p->suspects, l.suspects, sizeof(p->suspects));
}
