/* Nodes and cards, as told and as the fleet has them. */
#include "sched/core_private.h"

static int64_t clamp(int64_t v, int64_t most)
{
	return RF_MIN(RF_MAX(v, 0), most);
}

/* --- nodes ------------------------------------------------------------------------------------ */

static void free_node(struct rf_core *c, struct co_node *n)
{
	for (size_t i = 0; i < n->n_slots; i++) {
		if (n->slots[i].there)
			return;
	}
	if (n->there || n->refs > 0 || n->n_holds > 0)
		return;
	rf_map_del(&c->nodes, rf_str(n->name));
	for (size_t i = 0; i < n->n_slots; i++)
		free(n->slots[i].name);
	free(n->slots);
	free(n->rack);
	free(n->pool);
	free(n->name);
	free(n);
}

void co_node_ref(struct co_node **at, struct co_node *n, struct rf_core *c)
{
	struct co_node *was = *at;

	if (n != NULL)
		n->refs++;
	*at = n;
	if (was != NULL && --was->refs == 0)
		free_node(c, was);
}

/* The fleet uses it for another. */
static void drop_handle(struct rf_core *c, struct co_node *n)
{
	if (n->handle != RF_FLEET_NONE && c->by_handle.at[n->handle] == n)
		c->by_handle.at[n->handle] = NULL;
	n->handle = RF_FLEET_NONE;
}

void co_held(struct rf_core *c, struct co_node *n, int change)
{
	n->n_holds += (size_t)change;
	if (n->there)
		return;
	c->capacity_stale = true; /* what is held of a node that is gone still counts */
	if (n->n_holds == 0)
		drop_handle(c, n);
}

static const enum rf_fleet_policy policies[] = { [RF_SCHED_FRAGMENTATION] = RF_FLEET_FRAG,
						 [RF_SCHED_PACK] = RF_FLEET_PACK,
						 [RF_SCHED_SPREAD] = RF_FLEET_SPREAD };

_Static_assert(RF_SCHED_ISLANDS == RF_FLEET_ISLANDS && RF_SCHED_NUMA_UNKNOWN == RF_FLEET_NUMA_UNKNOWN, "one number for both");

static void send(struct rf_core *c, struct co_node *n)
{
	struct rf_fleet_card cards[RF_FLEET_CARDS_MAX];
	struct rf_fleet_node v = { .name = rf_str(n->name),
				   .cpu_milli = n->cpu,
				   .memory = n->memory,
				   .pods = n->pods,
				   .cards = cards,
				   .n_cards = n->n_slots,
				   .cordoned = n->cordoned,
				   .rack = rf_str(n->rack) };
	uintptr_t pool = n->pool != NULL ? (uintptr_t)rf_map_get(&c->pools, rf_str(n->pool)) : 0;
	struct rf_err err;

	v.pooled = pool != 0;
	v.policy = pool != 0 ? policies[pool - 1] : RF_FLEET_FRAG;
	for (size_t i = 0; i < n->n_slots; i++) {
		const struct co_slot *s = &n->slots[i];

		cards[i] = (struct rf_fleet_card){ .memory = s->memory,
						   .model = s->told ? s->model : CO_NO_MODEL,
						   .island = s->told ? s->island : RF_SCHED_ISLAND_UNKNOWN(i),
						   .numa = s->told ? s->numa : RF_SCHED_NUMA_UNKNOWN,
						   .healthy = s->there && s->healthy,
						   .absent = !s->there,
						   .sliced = s->sliced,
						   .fixed = s->fixed };
	}
	rf_assert(rf_fleet_put_node(c->fleet, n->handle, &v, &n->handle, &err) == 0);
	while (c->by_handle.n <= n->handle)
		rf_vec_push(&c->by_handle, NULL);
	c->by_handle.at[n->handle] = n;
	c->capacity_stale = true;
	c->freed = ~UINT64_C(0);
	co_tick(c);
	c->node_facts++;
}

static void mark_promised(struct rf_core *c, struct co_node *n)
{
	for (struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		if (p->state == CO_PROMISED || p->state == CO_BARRED)
			co_mark(c, p);
	}
}

/* True: it is another than before. */
static bool set_label(char **at, const struct rf_sched_node *v, const char *key)
{
	struct rf_str value = RF_STR_EMPTY;

	for (size_t i = 0; i < v->n_labels; i++) {
		if (rf_str_is(v->labels[i].key, key))
			value = v->labels[i].value;
	}
	if (*at != NULL ? rf_str_is(value, *at) : value.n == 0)
		return false;
	free(*at);
	*at = value.n > 0 ? rf_str_dup(value) : NULL;
	return true;
}

void rf_core_put_node(struct rf_core *c, const struct rf_sched_node *v)
{
	struct co_node *n = co_node(c, v->name), was = *n;
	bool moved = set_label(&n->rack, v, RF_RACK_LABEL);

	CO_LOG(c, RF_LOG_NODE, .node = *v);
	n->cpu = clamp(v->cpu_milli, RF_FLEET_CPU_MAX);
	n->memory = clamp(v->memory, RF_FLEET_MEMORY_MAX);
	n->pods = clamp(v->pods, INT32_MAX);
	n->cordoned = v->cordoned || !v->ready;
	n->there = true;
	moved = set_label(&n->pool, v, RF_POOL_LABEL) || moved;
	if (!was.there || moved || was.cpu != n->cpu || was.memory != n->memory || was.pods != n->pods ||
	    was.cordoned != n->cordoned)
		send(c, n);
	rf_wishes_put_node(c->wishes, n->handle, v);
	c->node_facts++;
	c->freed = ~UINT64_C(0);
	co_tick(c);
	if (!was.there)
		co_reseat_node(c, n);
	mark_promised(c, n);
}

void rf_core_del_node(struct rf_core *c, struct rf_str name)
{
	struct co_node *n = rf_map_get(&c->nodes, name);

	CO_LOG(c, RF_LOG_NODE, .del = true, .name = name);
	if (n == NULL || !n->there)
		return;
	if (n->refs > 0)
		co_settle(c); /* what was told to be there is in its rack from now on */
	/* Who is still counted there counts for nobody's wishes any more. */
	for (struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		if (p->wished)
			rf_wish_off(c->wishes, p->shape->wish, n->handle);
		p->wished = false;
	}
	mark_promised(c, n);
	n->there = false;
	rf_wishes_del_node(c->wishes, n->handle);
	rf_fleet_del_node(c->fleet, n->handle);
	if (n->n_holds == 0)
		drop_handle(c, n);
	c->capacity_stale = true;
	c->node_facts++;
	c->freed |= CO_NEIGHBOURS; /* with it a domain may be gone, to spread over or to stay away from */
	co_tick(c);
	free_node(c, n);
}

/* --- pools ------------------------------------------------------------------------------------ */

static void set_pool(struct rf_core *c, struct rf_str name, uintptr_t placement)
{
	if ((uintptr_t)rf_map_get(&c->pools, name) == placement)
		return;
	if (placement != 0)
		(void)rf_map_set(&c->pools, name, (void *)placement); /* NOLINT: a number */
	else
		(void)rf_map_del(&c->pools, name);
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->nodes, m)) != NULL;) {
		struct co_node *n = m->value;

		if (n->there && n->pool != NULL && rf_str_is(name, n->pool))
			send(c, n);
	}
	c->usual_at = 0;
	co_tick(c);
}

void rf_core_put_pool(struct rf_core *c, const struct rf_sched_pool *p)
{
	CO_LOG(c, RF_LOG_POOL, .pool = *p);
	if (p->name.n > 0)
		set_pool(c, p->name, (uintptr_t)p->placement + 1);
}

void rf_core_del_pool(struct rf_core *c, struct rf_str name)
{
	CO_LOG(c, RF_LOG_POOL, .del = true, .name = name);
	set_pool(c, name, 0);
}

/* --- cards ------------------------------------------------------------------------------------ */

/* A card that is held stays what it is in the fleet until it is given back, whatever is in its place by then. */
void co_refit(struct rf_core *c)
{
	c->refits = false;
	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->nodes, m)) != NULL;) {
		struct co_node *n = m->value;

		if (!n->refit)
			continue;
		n->refit = false;
		if (n->there)
			send(c, n);
	}
}

/* What is held there is charged to the model that it has now. */
static void recharge_node(struct rf_core *c, struct co_node *n)
{
	for (struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		p->respec = true;
		co_mark(c, p);
	}
	for (struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		if (k->work != NULL)
			co_work_claim(c, k);
	}
}

static bool is_digit(char ch)
{
	return ch >= '0' && ch <= '9';
}

/* "gpu-2" before "gpu-10". */
static int compare_names(struct rf_str a, struct rf_str b)
{
	size_t i = 0;

	while (i < a.n && i < b.n && a.p[i] == b.p[i] && !is_digit(a.p[i]))
		i++;
	a = rf_str_skip(a, i);
	b = rf_str_skip(b, i);
	if (a.n != b.n && a.n > 0 && b.n > 0 && is_digit(a.p[0]) && is_digit(b.p[0]))
		return a.n < b.n ? -1 : 1;
	return rf_str_cmp(a, b);
}

static int by_name(const void *pa, const void *pb)
{
	return compare_names((*(const struct rf_sched_device *const *)pa)->name, (*(const struct rf_sched_device *const *)pb)->name);
}

/* Claims that were told of first made places for their cards in their own order. Nothing is held there before the cards are
 * told: of cards that are equally good the first by name is taken, whatever was told first. */
static void sort_slots(struct co_node *n)
{
	uint8_t from[RF_FLEET_CARDS_MAX], to[RF_FLEET_CARDS_MAX];
	struct co_slot was[RF_FLEET_CARDS_MAX];

	for (size_t i = 0; i < n->n_slots; i++) {
		size_t at = i;

		was[i] = n->slots[i];
		for (; at > 0 && compare_names(rf_str(was[i].name), rf_str(was[from[at - 1]].name)) < 0; at--)
			from[at] = from[at - 1];
		from[at] = (uint8_t)i;
	}
	for (size_t i = 0; i < n->n_slots; i++) {
		n->slots[i] = was[from[i]];
		to[from[i]] = (uint8_t)i;
	}
	for (struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		for (size_t i = 0; i < k->n; i++) {
			if (k->grants[i].slot < n->n_slots)
				k->grants[i].slot = to[k->grants[i].slot];
		}
	}
}

static bool slot_in_use(const struct co_node *n, size_t slot)
{
	for (const struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		for (size_t i = 0; i < k->n; i++) {
			if (k->grants[i].slot == slot)
				return true;
		}
	}
	for (const struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		if (p->assumed_cards)
			return true; /* which ones, only the fleet knows */
	}
	return false;
}

int co_slot(struct co_node *n, struct rf_str device)
{
	size_t i;

	for (i = 0; i < n->n_slots; i++) {
		if (rf_str_is(device, n->slots[i].name))
			return (int)i;
	}
	if (n->n_slots < RF_FLEET_CARDS_MAX) {
		n->slots = rf_realloc(n->slots, (n->n_slots + 1) * sizeof(*n->slots));
		n->slots[n->n_slots] = (struct co_slot){ .name = rf_str_dup(device) };
		return (int)n->n_slots++;
	}
	for (i = 0; i < n->n_slots; i++) {
		if (n->slots[i].there || slot_in_use(n, i))
			continue;
		free(n->slots[i].name);
		n->slots[i] = (struct co_slot){ .name = rf_str_dup(device) };
		return (int)i;
	}
	return -1;
}

static void set_slot(struct rf_core *c, struct co_slot *s, const struct rf_sched_device *d)
{
	s->memory = clamp(d->memory, RF_FLEET_MEMORY_MAX);
	s->model = co_model(c, d->model);
	s->there = s->told = true;
	s->healthy = d->fault.n == 0;
	s->sliced = d->sliced;
	s->fixed = d->fixed;
	s->island = d->island;
	s->numa = d->numa;
}

static bool same_models(const struct co_slot *was, const struct co_slot *is, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (was[i].told && was[i].model != is[i].model)
			return false;
	}
	return true;
}

static bool same_slots(const struct co_slot *a, const struct co_slot *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (a[i].memory != b[i].memory || a[i].model != b[i].model || a[i].there != b[i].there ||
		    a[i].healthy != b[i].healthy || a[i].sliced != b[i].sliced || a[i].fixed != b[i].fixed ||
		    a[i].island != b[i].island || a[i].numa != b[i].numa)
			return false;
	}
	return true;
}

void rf_core_put_devices(struct rf_core *c, struct rf_str node, const struct rf_sched_device *devices, size_t n_devices)
{
	const struct rf_sched_device *order[RF_FLEET_CARDS_MAX];
	struct co_slot was[RF_FLEET_CARDS_MAX];
	struct co_node *n = co_node(c, node);
	size_t n_was = n->n_slots, many = RF_MIN(n_devices, RF_FLEET_CARDS_MAX);
	bool known = n->cards_known;

	CO_LOG(c, RF_LOG_DEVICES, .name = node,
	       .devices = { (struct rf_sched_device *)(uintptr_t)devices, n_devices });
	if (n_was > 0)
		memcpy(was, n->slots, n_was * sizeof(*was));
	for (size_t i = 0; i < many; i++)
		order[i] = &devices[i];
	qsort(order, many, sizeof(*order), by_name);
	for (size_t i = 0; i < n->n_slots; i++)
		n->slots[i].there = false;
	for (size_t i = 0; i < many; i++) {
		int slot = co_slot(n, order[i]->name);

		if (slot >= 0)
			set_slot(c, &n->slots[slot], order[i]);
	}
	if (!known)
		sort_slots(n);
	n->cards_known = true;
	if (known && n_was == n->n_slots && same_slots(was, n->slots, n_was))
		return;
	c->capacity_stale = true;
	if (known && !same_models(was, n->slots, n_was))
		recharge_node(c, n);
	if (n->there) {
		send(c, n);
		co_reseat_node(c, n);
		mark_promised(c, n);
	} else {
		free_node(c, n);
	}
}

/* --- capacity --------------------------------------------------------------------------------- */

static void count_slot(const struct rf_core *c, const struct co_slot *s, int64_t *sum, int64_t *cut)
{
	const struct co_model *m = &c->models[s->model];

	if (!s->told)
		return; /* count_held did */
	cut[s->model] += !s->fixed;
	if (s->sliced)
		return; /* it is offered in slices and in no other way */
	sum[CO_CARDS]++;
	if (m->resource >= 0)
		sum[m->resource]++;
	sum[CO_BYTES] += s->memory;
	sum[CO_MILLI] += RF_FLEET_MILLI;
}

/* cut: cards that can be cut, by model. */
static void count_profiles(const struct rf_core *c, const int64_t *cut, int64_t *sum)
{
	for (size_t m = 0; m < c->n_models; m++) {
		for (size_t i = 0; cut[m] > 0 && c->models[m].gpu != NULL && i < c->profiles.n; i++) {
			const struct rf_mig_profile *p = rf_gpu_model_mig(c->models[m].gpu, c->profiles.at[i].name);

			if (p != NULL && c->profiles.at[i].resource >= 0)
				sum[c->profiles.at[i].resource] += cut[m] * p->max;
		}
	}
}

/* Of a card of which nobody has told since a restart only what is held of it is known, and counts as it is charged: a whole one
 * may be of any model, and a share of one is no card that somebody else could count on. */
static void count_held(struct rf_core *c, const struct co_node *n, const struct co_grant *g, int64_t *sum)
{
	int64_t profile = g->profile.n > 0 ? co_profile(c, g->profile) : -1;

	if (g->slot >= n->n_slots || n->slots[g->slot].told)
		return;
	for (size_t i = 0; g->whole && c->model_quotas && i < c->n_models; i++) {
		if (c->models[i].resource >= 0)
			sum[c->models[i].resource]++;
	}
	sum[CO_CARDS] += g->whole;
	if (g->whole)
		return;
	if (profile >= 0)
		sum[profile]++;
	if (g->profile.n > 0)
		return;
	sum[CO_BYTES] += RF_MIN(g->bytes, RF_FLEET_MEMORY_MAX);
	sum[CO_MILLI] += RF_MIN(g->milli, RF_FLEET_MILLI);
}

/* Cards that are gone and still held count: their charge does. */
static uint64_t gone_and_held(struct rf_core *c, const struct co_node *n, int64_t *sum)
{
	uint64_t held = 0;

	for (const struct co_claim *k = n->claims_here; k != NULL; k = k->node_next) {
		for (size_t i = 0; i < k->n; i++) {
			held |= k->grants[i].slot < 64 ? UINT64_C(1) << k->grants[i].slot : 0;
			count_held(c, n, &k->grants[i], sum);
		}
	}
	for (const struct co_pod *p = n->pods_here; p != NULL; p = p->seat_next) {
		size_t n_grants = 0;
		uint32_t node;
		const struct rf_fleet_grant *g = p->assumed_cards ? rf_fleet_hold(c->fleet, p->hold, &node, &n_grants) : NULL;

		for (size_t i = 0; g != NULL && i < n_grants; i++) /* decided, and nobody told of its claim yet */
			held |= g[i].card < 64 ? UINT64_C(1) << g[i].card : 0;
	}
	return held;
}

static bool all_there(const struct co_node *n)
{
	bool all = n->there;

	for (size_t i = 0; i < n->n_slots && all; i++)
		all = n->slots[i].there;
	return all;
}

static void count_capacity(struct rf_core *c)
{
	int64_t sum[RF_QUEUE_RES_MAX] = { 0 }, cut[RF_FLEET_MODELS_MAX] = { 0 };
	struct rf_err err;

	for (struct rf_map_slot *m = NULL; (m = rf_map_next(&c->nodes, m)) != NULL;) {
		const struct co_node *n = m->value;
		uint64_t held = all_there(n) ? 0 : gone_and_held(c, n, sum);

		for (size_t i = 0; i < n->n_slots; i++) {
			if ((n->there && n->slots[i].there) || (held >> i & 1))
				count_slot(c, &n->slots[i], sum, cut);
		}
	}
	count_profiles(c, cut, sum);
	for (size_t r = 0; r < c->resources.n; r++) {
		if (r != CO_CPU && r != CO_MEMORY && r != CO_PODS)
			(void)rf_queues_capacity(c->queues, (int64_t)r, RF_MIN(sum[r], RF_QUEUE_AMOUNT_MAX), &err);
	}
}

void co_capacity(struct rf_core *c)
{
	if (!c->capacity_stale)
		return;
	c->capacity_stale = false;
	count_capacity(c);
}
