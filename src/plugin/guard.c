/* The fence, checked from outside: who is on a capped card without it, holds more than it may, or is on
 * a card that its pod was not given. The interposer keeps honest programs in; this makes going around it
 * not pay. */
#include <stdio.h>

#include "fence/ledger.h"
#include "plugin/private.h"

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

/* And what it may hold beside that. */
static int64_t allowance_of(const struct rf_plugin *p, const struct rf_held *h, int index)
{
	int64_t sum = 0;

	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index)
				sum += rf_card_allowance(&p->cards, index,
							 h->boxes[i].grant.cards[j].memory_bytes);
	return sum;
}

static bool is_outdated(const struct rf_held *h)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (h->boxes[i].outdated)
			return true;
	return false;
}

static bool is_seated(const struct rf_held *h, pid_t pid)
{
	pid_t seated[RF_LEDGER_SEATS];

	for (size_t i = 0; i < h->n_boxes; i++) {
		if (h->boxes[i].spoilt)
			continue; /* nobody sits at a ledger that was spoilt */
		if (h->boxes[i].fence == NULL)
			return true; /* nobody knows: its fence is not up again yet */
		size_t n = rf_fence_server_pids(h->boxes[i].fence->server, seated, RF_COUNT(seated));
		for (size_t j = 0; j < RF_MIN(n, RF_COUNT(seated)); j++)
			if (seated[j] == pid)
				return true;
	}
	return false;
}

static void end_process(const struct look *l, const struct rf_held *h, pid_t pid,
			const char *reason, const char *message)
{
	const struct rf_json *pod = rf_informer_get(l->p->pods, rf_str(h->ns), rf_str(h->pod));

	if (!rf_procs_end(pid, h->pod_uid))
		return;
	rf_warn("pod %s/%s: process %d ended: %s: %s", h->ns, h->pod, (int)pid, reason, message);
	if (pod != NULL)
		rf_plugin_warn(l->p, pod, reason, message);
}

/* A process is given one look's time: to reach the fence after it reached the card, or to be gone. */
static bool stays(struct look *l, pid_t pid)
{
	for (size_t i = 0; i < l->p->n_suspects; i++)
		if (l->p->suspects[i] == pid)
			return true;
	if (l->n_suspects < RF_COUNT(l->suspects))
		l->suspects[l->n_suspects++] = pid;
	return false;
}

static void judge_process(struct look *l, struct rf_held *h, pid_t pid)
{
	char message[160];
	bool whole, granted = rf_held_card(h, l->index, &whole) != NULL;

	if ((granted && (cap_of(h, l->index) == 0 || is_seated(h, pid))) || !stays(l, pid))
		return;
	snprintf(message, sizeof(message), "a process uses card gpu-%d%s", l->index,
		 !granted	  ? ", which the pod was not given"
		 : is_outdated(h) ? " in a fence of another version of ringfence, which this agent "
				    "cannot keep up"
				  : " without the fence");
	end_process(l, h, pid,
		    !granted	     ? "CardNotGranted"
		    : is_outdated(h) ? RF_FENCE_OUTDATED
				     : "FenceBypassed",
		    message);
}

/* of[i]: whose process i is, as far as we know. */
static void judge_pod(struct look *l, struct rf_held *h, const struct rf_gpu_process *list,
		      struct rf_held *const *of, size_t n)
{
	int64_t cap = cap_of(h, l->index), bytes = 0;
	char message[160];

	for (size_t i = 0; i < n; i++)
		bytes += of[i] == h ? RF_MAX(list[i].bytes, 0) : 0;
	if (bytes <= cap + allowance_of(l->p, h, l->index))
		return;
	snprintf(message, sizeof(message), "holds %lld bytes of card gpu-%d, its cap is %lld",
		 (long long)bytes, l->index, (long long)cap);
	for (size_t i = 0; i < n; i++)
		if (of[i] == h)
			end_process(l, h, list[i].pid, "OverMemoryCap", message);
}

/* Processes of nobody we know, on a card that a claim holds: not ours to end, but told. */
static void note_strangers(struct look *l, size_t position, size_t n)
{
	bool held = false, whole;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&l->p->held, s)) != NULL;)
		held = held || rf_held_card(s->value, l->index, &whole) != NULL;
	n = held ? n : 0;
	if (n > l->p->strangers[position])
		rf_warn("card gpu-%d is held by a claim, and %zu processes of others are on it",
			l->index, n);
	l->p->strangers[position] = n;
}

static void look_at(struct look *l, size_t position)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list;
	struct rf_held **of;
	size_t n, strangers = 0;
	char uid[64];

	l->index = rf_gpu_card(l->p->cards.gpu, position)->index;
	if (rf_gpu_processes(l->p->cards.gpu, position, &a, &list, &n, NULL) < 0)
		return;
	of = rf_arena_array(&a, struct rf_held *, n + 1);
	for (size_t i = 0; i < n; i++) {
		of[i] = rf_procs_pod_of(list[i].pid, uid) > 0 ? held_for(l->p, uid) : NULL;
		if (of[i] != NULL)
			judge_process(l, of[i], list[i].pid);
		strangers += of[i] == NULL && !rf_mps_is_ours(l->p->mps, list[i].pid);
	}
	note_strangers(l, position, strangers);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&l->p->held, s)) != NULL;)
		if (cap_of(s->value, l->index) > 0)
			judge_pod(l, s->value, list, of, n);
}

/* Programs that are on the card now were clients of the daemon, or came while there was none and share by time what
 * was given by MPS. False: nobody knows who is on it. */
static bool end_clients(struct look *l, const struct rf_held *h, size_t position)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list;
	char uid[64], message[120];
	size_t n;

	snprintf(message, sizeof(message), "the MPS daemon of card gpu-%d has died, and what ran by it with it", l->index);
	if (rf_gpu_processes(l->p->cards.gpu, position, &a, &list, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (rf_procs_pod_of(list[i].pid, uid) > 0 && strcmp(uid, h->pod_uid) == 0)
			end_process(l, h, list[i].pid, RF_MPS_DIED, message);
	return true;
}

/* Until there is a daemon again: what the kubelet starts before would find none. */
static void mourn(struct look *l, const struct rf_held *h, size_t position)
{
	struct rf_mps *m = l->p->mps;

	l->index = rf_gpu_card(l->p->cards.gpu, position)->index;
	if (!rf_mps_lost_on(m, l->index, rf_str(h->pod_uid)))
		return;
	if (end_clients(l, h, position) && rf_mps_is_up(m, l->index))
		rf_mps_mourned(m, l->index, rf_str(h->pod_uid));
}

/* Containers may have been started as clients, and nobody knows of it any more. */
static void note_missing(struct rf_plugin *p, const struct rf_held *h, size_t position)
{
	const struct rf_gpu_card *card = rf_gpu_card(p->cards.gpu, position);

	for (size_t i = 0; i < h->n_boxes && !h->ending; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		const struct rf_held_box *b = &h->boxes[i];

		if (rf_held_by_mps(h, b) && b->grant.cards[0].index == card->index &&
		    !rf_mps_has(p->mps, card->index, rf_str(h->pod_uid)) && rf_cdi_is_there(p, rf_cdi_id(&a, h, b)))
			rf_mps_miss(p->mps, card, rf_str(h->domain), rf_str(h->pod_uid));
	}
}

void rf_guard_mps(struct rf_plugin *p)
{
	struct look l = { .p = p };

	rf_mps_tick(p->mps);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;)
		for (size_t i = 0; i < rf_gpu_count(p->cards.gpu); i++) {
			note_missing(p, s->value, i);
			mourn(&l, s->value, i);
		}
}

void rf_guard_look(struct rf_plugin *p)
{
	struct look l = { .p = p };

	for (size_t i = 0; i < rf_gpu_count(p->cards.gpu); i++)
		look_at(&l, i);
	p->n_suspects = l.n_suspects;
	memcpy(p->suspects, l.suspects, sizeof(p->suspects));
}
