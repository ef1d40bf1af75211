/* What the queues know: who waits, and what is charged. */
#include "sched/core_private.h"

/* --- charges ---------------------------------------------------------------------------------- */

void co_charge_add(struct co_charge *ch, int64_t resource, int64_t amount)
{
	if (resource < 0 || amount <= 0)
		return;
	for (size_t i = 0; i < ch->n; i++) {
		if (ch->ask[i].resource != resource)
			continue;
		if (__builtin_add_overflow(ch->ask[i].amount, amount, &ch->ask[i].amount))
			ch->ask[i].amount = RF_QUEUE_AMOUNT_MAX;
		return;
	}
	if (ch->n == RF_QUEUE_ASK_MAX)
		ch->full = true;
	else
		ch->ask[ch->n++] = (struct rf_queue_ask){ resource, amount };
}

static void charge_rest(const struct co_pod *p, struct co_charge *ret)
{
	const struct co_form *f = p->shape->form;

	co_charge_add(ret, CO_CPU, RF_MIN(f->cpu, RF_FLEET_CPU_MAX));
	co_charge_add(ret, CO_MEMORY, RF_MIN(f->memory, RF_FLEET_MEMORY_MAX));
	co_charge_add(ret, CO_PODS, 1);
}

void co_charge_pod(struct rf_core *c, const struct co_pod *p, struct co_charge *ret)
{
	const struct co_form *f = p->shape->form;

	co_charge_add(ret, CO_CARDS, f->cards);
	co_charge_add(ret, CO_BYTES, f->bytes);
	co_charge_add(ret, CO_MILLI, f->milli);
	for (size_t i = 0; f->slices > 0 && i < f->n_parts; i++)
		co_charge_add(ret, co_profile(c, f->parts[i].ask.profile), f->parts[i].ask.slices);
	charge_rest(p, ret);
}

static void charge_card(struct rf_core *c, const struct co_node *n, unsigned slot, struct co_charge *ret)
{
	co_charge_add(ret, CO_CARDS, 1);
	if (slot < n->n_slots && n->slots[slot].told) {
		co_charge_add(ret, c->models[n->slots[slot].model].resource, 1);
		return;
	}
	/* Its node went before anybody told of it: it may be of any model. */
	for (size_t m = 0; c->model_quotas && m < c->n_models; m++)
		co_charge_add(ret, c->models[m].resource, 1);
}

static void charge_claim(struct rf_core *c, const struct co_claim *k, struct co_charge *ret)
{
	for (size_t i = 0; i < k->n; i++) {
		const struct co_grant *g = &k->grants[i];

		if (g->whole)
			charge_card(c, k->node, g->slot, ret);
		else if (g->profile.n > 0)
			co_charge_add(ret, co_profile(c, g->profile), 1);
		if (g->whole || g->profile.n > 0)
			continue;
		co_charge_add(ret, CO_BYTES, RF_MIN(g->bytes, RF_FLEET_MEMORY_MAX));
		co_charge_add(ret, CO_MILLI, RF_MIN(g->milli, RF_FLEET_MILLI));
	}
}

static void charge_hold(struct rf_core *c, const struct co_pod *p, struct co_charge *ret)
{
	const struct rf_fleet_grant *g;
	uint32_t node;
	size_t n = 0;

	g = rf_fleet_hold(c->fleet, p->hold, &node, &n);
	for (size_t i = 0; g != NULL && i < n; i++) {
		const struct co_slot *s = &p->seat->slots[g[i].card];

		if (g[i].kind == RF_FLEET_WHOLE)
			charge_card(c, p->seat, g[i].card, ret);
		else if (g[i].kind == RF_FLEET_SLICE && c->models[s->model].gpu != NULL)
			co_charge_add(ret, co_profile(c, rf_str(c->models[s->model].gpu->mig[g[i].profile].name)), 1);
		co_charge_add(ret, CO_BYTES, g[i].bytes);
		co_charge_add(ret, CO_MILLI, g[i].milli);
	}
}

/* Always in the same order, whatever came first. They are few, and none is there twice. */
static void sort(struct co_charge *ch)
{
	for (size_t i = 1; i < ch->n; i++) {
		struct rf_queue_ask a = ch->ask[i];
		size_t k = i;

		for (; k > 0 && ch->ask[k - 1].resource > a.resource; k--)
			ch->ask[k] = ch->ask[k - 1];
		ch->ask[k] = a;
	}
}

void co_charge_held(struct rf_core *c, const struct co_pod *p, struct co_charge *ret)
{
	if (p->held_for != NULL)
		charge_claim(c, p->held_for, ret);
	else if (p->assumed_cards)
		charge_hold(c, p, ret);
	charge_rest(p, ret);
}

/* What is charged is known by a number of its own; salt: another number, should two charges have the same. */
uint64_t co_charge_shape(const struct co_charge *ch, bool held, uint64_t salt)
{
	static const uint8_t key[16] = "what is charged";
	uint64_t h = rf_siphash13(key, ch->ask, ch->n * sizeof(ch->ask[0])) + salt;

	return held ? h | UINT64_C(1) << 63 : h & ~(UINT64_C(1) << 63);
}

static bool same_charge(const struct co_charge *a, const struct co_charge *b)
{
	return a->n == b->n && memcmp(a->ask, b->ask, a->n * sizeof(a->ask[0])) == 0;
}

/* --- whose queue ------------------------------------------------------------------------------ */

struct co_queue *co_queue_of(struct rf_core *c, const struct co_pod *p, bool *ret_bad)
{
	struct co_tenant *t = p->ns->known ? p->ns->tenant : NULL;
	const char *name = p->queue;
	struct co_queue *q;

	*ret_bad = false;
	if (p->group != NULL && p->group->known && p->group->queue != NULL)
		name = p->group->queue;
	if (t == NULL) {
		*ret_bad = name != NULL;
		return NULL;
	}
	q = rf_map_get(&c->queue_map, rf_str(name != NULL ? name : t->name));
	if (q == NULL || q->tenant != t || (!q->put && !q->own) || q->at == NULL) {
		*ret_bad = true;
		return NULL;
	}
	return q;
}

/* --- works ------------------------------------------------------------------------------------ */

static const struct co_group *group_of(const struct co_pod *p)
{
	return p->group != NULL && p->group->known ? p->group : NULL;
}

static bool told_pinned(const struct co_pod *p)
{
	const struct co_group *g = group_of(p);

	return p->pinned || (g != NULL && g->pinned);
}

static int64_t told_min_run(const struct co_pod *p)
{
	const struct co_group *g = group_of(p);

	return g != NULL ? RF_MAX(p->min_run, g->min_run) : p->min_run;
}

bool co_pinned(const struct co_pod *p)
{
	return told_pinned(p) && !(p->ran && p->loose);
}

int64_t co_min_run(const struct co_pod *p)
{
	return p->ran ? RF_MIN(told_min_run(p), p->ran_min) : told_min_run(p);
}

/* Terms of what runs only loosen: else work could make itself impossible to take back once it has borrowed. Not before
 * all of them are told: after a restart its group may come later than it does. */
static void keep_terms(struct co_work *w)
{
	for (struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (p->seat == NULL || !p->known || (p->group != NULL && !p->group->known))
			continue;
		p->loose = !co_pinned(p);
		p->ran_min = co_min_run(p);
		p->ran = true;
	}
}

bool co_preemptible(const struct co_pod *p)
{
	/* Nobody's pods are the cluster's; a daemon's would only come back. */
	if (p->ns->tenant == NULL || (p->daemon && p->shape->form->n_parts == 0))
		return false;
	return !co_pinned(p);
}

/* All of it: what must not be evicted starts only within what is guaranteed, with those that start at once with it. */
bool co_may_go_all(const struct co_work *w)
{
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (!co_preemptible(p))
			return false;
	}
	return true;
}

/* That of its most important member: a gang goes as a whole, and each of them must be less than what it goes for. */
static int32_t priority_of(const struct co_work *w)
{
	int32_t most = w->first->priority;

	for (const struct co_pod *p = w->first->work_next; p != NULL; p = p->work_next)
		most = RF_MAX(most, p->priority);
	return most;
}

/* As long as any of them may run; of a gang of which only some have started, of those. */
static int64_t longest_min_run(const struct co_work *w)
{
	int64_t seated = -1, all = 0;

	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		all = RF_MAX(all, co_min_run(p));
		if (p->seat != NULL)
			seated = RF_MAX(seated, co_min_run(p));
	}
	return seated >= 0 ? seated : all;
}

/* All but its number, which those need who put it into the queues. */
static void fill_spec(const struct co_work *w, struct rf_workload_spec *s)
{
	const struct co_pod *p = w->first;
	const struct co_group *g = p != NULL ? group_of(p) : NULL;

	*s = (struct rf_workload_spec){ .user = (void *)(uintptr_t)w, .min = 1, .size = 1 };
	if (w->claim != NULL)
		return;
	s->priority = priority_of(w);
	s->created_ms = w->group != NULL && w->group->created > 0 ? w->group->created : p->created;
	s->preemptible = co_may_go_all(w);
	s->min_run_ms = longest_min_run(w);
	for (; p != NULL; p = p->work_next)
		s->patient = s->patient || p->patient;
	p = w->first;
	s->run_limit_ms = g != NULL && g->run_limit > 0 ? g->run_limit : p->run_limit;
}

void co_leave_out_models(const struct rf_core *c, struct co_charge *ch)
{
	size_t n = 0;

	for (size_t i = 0; i < ch->n; i++) {
		bool model = false;

		for (size_t m = 0; m < c->n_models; m++)
			model = model || c->models[m].resource == ch->ask[i].resource;
		if (!model)
			ch->ask[n++] = ch->ask[i];
	}
	ch->n = n;
}

/* What each of those with a seat is charged; false: not all the same. */
static bool charge_each(struct rf_core *c, const struct co_work *w, bool models, struct co_charge *ret, size_t *ret_n)
{
	bool alike = true;

	*ret_n = 0;
	for (const struct co_pod *p = w->first; p != NULL && alike; p = p->work_next) {
		struct co_charge other RF_UNINITIALIZED, *one = *ret_n == 0 ? ret : &other;

		if (p->seat == NULL)
			continue;
		one->n = 0;
		one->full = false;
		co_charge_held(c, p, one);
		if (!models)
			co_leave_out_models(c, one);
		sort(one);
		if ((*ret_n)++ > 0)
			alike = same_charge(one, ret);
	}
	return alike;
}

static void charge_all(struct rf_core *c, const struct co_work *w, struct co_charge *ret)
{
	ret->n = 0;
	ret->full = false;
	for (const struct co_pod *p = w->first; p != NULL; p = p->work_next) {
		if (p->seat != NULL)
			co_charge_held(c, p, ret);
	}
	sort(ret);
}

/* Of those that have a seat. Members whose cards are alike are a gang that can shrink; others are one. Of which models the cards
 * are makes no difference where no quota speaks of models. */
void co_spec(struct rf_core *c, const struct co_work *w, struct co_charge *ch, struct rf_workload_spec *ret)
{
	size_t n = 0;

	fill_spec(w, ret);
	ch->n = 0;
	ch->full = false;
	if (w->claim != NULL) {
		charge_claim(c, w->claim, ch);
		sort(ch);
	} else if (!charge_each(c, w, true, ch, &n) && (c->model_quotas > 0 || !charge_each(c, w, false, ch, &n))) {
		charge_all(c, w, ch);
		n = 1;
	}
	if (n > 1) {
		ret->size = (int64_t)n;
		ret->min = w->group != NULL ? RF_MAX(RF_MIN(w->group->min, ret->size), 1) : 1; /* its PodGroup may be gone */
	}
	ret->ask = ch->ask;
	ret->n_ask = ch->n;
	ret->shape = co_charge_shape(ch, true, 0);
}

/* Counts it among what runs in its queue, by priority. */
static void rank(struct co_work *w, int change)
{
	struct co_queue *q = w->queue;
	size_t i = 0;

	while (i < q->ranks.n && q->ranks.at[i].priority < w->rank)
		i++;
	if (i == q->ranks.n || q->ranks.at[i].priority != w->rank) {
		rf_vec_push(&q->ranks, (struct co_rank){ 0 });
		memmove(&q->ranks.at[i + 1], &q->ranks.at[i], (q->ranks.n - 1 - i) * sizeof(*q->ranks.at));
		q->ranks.at[i] = (struct co_rank){ .priority = w->rank };
	}
	q->ranks.at[i].n += (uint32_t)change;
	if (q->ranks.at[i].n == 0)
		rf_vec_remove(&q->ranks, i);
	w->ranked = change > 0;
}

static void ranks(struct rf_core *c, struct co_work *w)
{
	if (w->queue == NULL || w->first == NULL || w->ranked || !co_may_go_all(w))
		return;
	c->min_runs = c->min_runs || longest_min_run(w) > 0;
	w->rank = priority_of(w);
	rank(w, 1);
}

bool co_outranks(const struct co_work *w)
{
	return w->queue != NULL && w->queue->ranks.n > 0 && w->queue->ranks.at[0].priority < w->first->priority;
}

static void into_queue(struct rf_core *c, struct co_work *w, struct co_queue *q)
{
	if (w->ranked)
		rank(w, -1);
	if (w->queue != NULL && --w->queue->n_works == 0 && !w->queue->put && !w->queue->own)
		c->queues_pending = true; /* it may go now */
	w->queue = q;
	if (q != NULL)
		q->n_works++;
}

static void leave_limbo(struct rf_core *c, struct co_work *w)
{
	if (!w->limbo)
		return;
	w->limbo = false;
	for (size_t i = 0; i < c->limbo.n; i++) {
		if (c->limbo.at[i] != w)
			continue;
		c->limbo.at[i] = c->limbo.at[c->limbo.n - 1];
		c->limbo.n--;
		return;
	}
}

static void withdraw(struct rf_core *c, struct co_work *w)
{
	co_ahead_forget(c, w);
	leave_limbo(c, w);
	if (w->w != NULL)
		rf_queues_remove(c->queues, w->w, c->now);
	if (w->w != NULL && w->running)
		co_tick(c);
	w->w = NULL;
	into_queue(c, w, NULL);
}

static int restore(struct rf_core *c, struct co_work *w, struct rf_queue *q, struct co_charge *ch,
		   struct rf_workload_spec *s, int64_t members)
{
	struct rf_err err RF_UNINITIALIZED;

	/* Two charges with the same number in one queue are next to impossible, and harmless. */
	for (uint64_t salt = 1; salt <= 8; s->shape = co_charge_shape(ch, true, salt++)) {
		if (rf_queues_restore(c->queues, q, s, members, w->started, 0, c->now, &w->w, &err) < 0)
			continue;
		if (w->claim != NULL) /* its node lets go at any moment; who looks ahead does not give up a date for it */
			rf_workload_ends(w->w, w->started);
		return 0;
	}
	return -1;
}

static struct co_queue *own_queue(struct rf_core *c, struct co_tenant *t)
{
	struct co_queue *q = rf_map_get(&c->queue_map, rf_str(t->name));

	return q != NULL && q->tenant == t ? q : NULL;
}

static struct co_queue *queue_of_claim(struct rf_core *c, const struct co_claim *k)
{
	struct co_tenant *t = k->ns->known && k->ns->tenant != NULL ? k->ns->tenant : k->tenant;

	return t != NULL ? own_queue(c, t) : NULL;
}

void co_work_run(struct rf_core *c, struct co_work *w)
{
	struct rf_workload_spec s;
	struct co_charge ch RF_UNINITIALIZED;
	struct co_queue *q;
	struct rf_queue *at;
	bool bad = false;
	int64_t members;

	withdraw(c, w);
	w->running = true;
	keep_terms(w);
	co_spec(c, w, &ch, &s);
	if (ch.n == 0)
		return;
	s.id = co_number(w->claim != NULL ? w->claim->name : w->first->uid);
	members = s.size;
	q = w->claim != NULL ? queue_of_claim(c, w->claim) : co_queue_of(c, w->first, &bad);
	if (bad && w->first->ns->known && w->first->ns->tenant != NULL) /* what runs stays its tenant's */
		q = own_queue(c, w->first->ns->tenant);
	if (q == NULL && w->claim == NULL && w->first->ns->known && w->first->ns->tenant == NULL && !bad) {
		at = rf_queues_find(c->queues, CO_CLUSTER);
		if (restore(c, w, at, &ch, &s, members) == 0)
			return;
	}
	at = q != NULL ? q->at : NULL;
	if (at != NULL && restore(c, w, at, &ch, &s, members) == 0) {
		into_queue(c, w, q);
		ranks(c, w);
	}
	if (w->w != NULL && !bad)
		return;
	w->limbo = true; /* its own queue may come, or come back */
	rf_vec_push(&c->limbo, w);
	if (w->w != NULL)
		return;
	(void)restore(c, w, rf_queues_find(c->queues, CO_LIMBO), &ch, &s, members);
}

/* What runs and had no queue of its own: perhaps it has one now. */
void co_limbo(struct rf_core *c)
{
	RF_VEC(struct co_work *) all = RF_VEC_INIT;

	if (!c->limbo_stale)
		return;
	c->limbo_stale = false;
	for (size_t i = 0; i < c->limbo.n; i++)
		rf_vec_push(&all, c->limbo.at[i]);
	for (size_t i = 0; i < all.n; i++)
		co_work_run(c, all.at[i]);
	rf_vec_done(&all);
}

void co_work_claim(struct rf_core *c, struct co_claim *k)
{
	if (k->work == NULL) {
		k->work = rf_new(struct co_work);
		k->work->claim = k;
		k->work->left_at = c->left.n;
		rf_vec_push(&c->left, k->work);
		k->work->started = c->now;
	}
	co_work_run(c, k->work);
}

void co_work_free(struct rf_core *c, struct co_work *w)
{
	struct co_pod *next;

	withdraw(c, w);
	if (w->claim != NULL) {
		struct co_work *last = c->left.at[--c->left.n];

		c->left.at[w->left_at] = last;
		last->left_at = w->left_at;
	}
	if (w->plan != NULL)
		co_plan_drop(c, w->plan);
	for (struct co_pod *p = w->first; p != NULL; p = next) {
		next = p->work_next;
		p->work = NULL;
		p->work_next = NULL;
		if (p->state != CO_QUEUED)
			continue;
		co_state(c, p, CO_IDLE);
		co_mark(c, p);
	}
	if (w->group != NULL && w->group->work == w) {
		w->group->work = NULL;
		co_mark_group(c, w->group);
	}
	free(w);
}

static void unlink_member(struct co_work *w, struct co_pod *p)
{
	struct co_pod **at = &w->first;

	while (*at != p)
		at = &(*at)->work_next;
	*at = p->work_next;
	p->work = NULL;
	p->work_next = NULL;
	w->n--;
}

void co_work_leave(struct rf_core *c, struct co_pod *p)
{
	struct co_work *w = p->work;

	if (w == NULL)
		return;
	if (!w->running || w->n == 1) {
		co_work_free(c, w);
		return;
	}
	unlink_member(w, p);
	co_work_run(c, w);
}

static struct rf_queue_need need_of(const struct co_form *f)
{
	bool cards = f->cards > 0;
	struct rf_queue_need n = { 0 };

	n.of[CO_NEED_CARDS] = (int32_t)RF_MIN(f->cards, INT32_MAX);
	n.of[cards ? CO_NEED_CPU_BESIDE : CO_NEED_CPU] = (int32_t)RF_MIN(f->cpu, RF_FLEET_CPU_MAX);
	n.of[cards ? CO_NEED_MEMORY_BESIDE : CO_NEED_MEMORY] = (int32_t)(RF_MIN(f->memory, RF_FLEET_MEMORY_MAX) >> 20);
	return n;
}

bool co_tied(const struct co_group *g)
{
	for (const struct co_pod *p = g->pods; g->topology != NULL && p != NULL; p = p->group_next) {
		if (p->seat != NULL)
			return true;
	}
	return false;
}

/* One refusal is for all of a shape. Who has to be together by a label shares it with those only who have to be by the same
 * one; and who has to be where others of its gang are, with its gang only. */
static uint64_t shape_of(const struct co_pod *p, bool tied)
{
	static const uint8_t key[16] = "who is together";
	const struct co_group *g = group_of(p);
	uint64_t of[3] = { p->shape->id };

	if (g == NULL || g->topology == NULL)
		return p->shape->id;
	of[1] = rf_siphash13(key, g->topology, strlen(g->topology));
	of[2] = tied ? rf_siphash13(key, g->key, strlen(g->key)) : 0;
	return (rf_siphash13(key, of, sizeof(of)) | UINT64_C(1) << 62) & ~(UINT64_C(1) << 63); /* no pod's number, and no charge's */
}

struct co_work *co_work_wait(struct rf_core *c, struct co_pod *first, struct co_group *g, int64_t min, int64_t size,
			     bool alike, struct rf_err *err)
{
	struct co_work *w = rf_new(struct co_work);
	struct co_charge ch = { .n = 0 };
	struct rf_workload_spec s;
	struct rf_queue *at;
	struct co_queue *q;
	bool bad;

	w->group = g;
	w->first = first;
	w->alike = alike;
	fill_spec(w, &s);
	s.id = co_number(first->uid);
	w->preemptible = s.preemptible;
	w->patient = s.patient;
	s.min = min;
	s.size = size;
	if (alike)
		co_charge_pod(c, first, &ch);
	for (struct co_pod *p = first; p != NULL; p = p->work_next) {
		w->n++;
		if (!alike)
			co_charge_pod(c, p, &ch);
	}
	s.ask = ch.ask;
	s.n_ask = ch.n;
	w->tied = g == NULL || co_tied(g); /* who comes to a gang that started stays in the queue as it is */
	s.shape = alike ? shape_of(first, w->tied) : ++c->n_shapes;
	s.need = alike ? need_of(first->shape->form) : (struct rf_queue_need){ 0 };
	q = co_queue_of(c, first, &bad);
	at = q != NULL ? q->at : rf_queues_find(c->queues, CO_CLUSTER);
	if (ch.full || rf_queues_submit(c->queues, at, &s, &w->w, err) < 0) {
		if (ch.full)
			rf_fail(err, RF_INVALID, "it asks for more than %d different resources", RF_QUEUE_ASK_MAX);
		free(w);
		return NULL;
	}
	into_queue(c, w, q);
	for (struct co_pod *p = first; p != NULL; p = p->work_next)
		p->work = w;
	return w;
}

/* Members without a seat were not placed: they are on their own again. */
void co_work_started(struct rf_core *c, struct co_work *w)
{
	struct co_pod *next;

	for (struct co_pod *p = w->first; p != NULL; p = next) {
		next = p->work_next;
		if (p->seat != NULL)
			continue;
		unlink_member(w, p);
		co_state(c, p, CO_IDLE);
		co_mark(c, p);
	}
	co_ahead_forget(c, w);
	w->running = true;
	w->started = c->now;
	keep_terms(w);
	ranks(c, w);
	if (w->plan != NULL)
		co_plan_drop(c, w->plan);
	if (w->group != NULL && w->group->work == w)
		w->group->work = NULL;
	co_tick(c);
}
