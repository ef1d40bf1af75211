/* Pods, claims and groups, as told. */
#include "sched/core_private.h"

void co_mark(struct rf_core *c, struct co_pod *p)
{
	if (p->dirty)
		return;
	p->dirty = true;
	rf_vec_push(&c->dirty, p);
}

void co_mark_claim(struct rf_core *c, struct co_claim *k)
{
	if (k->dirty)
		return;
	k->dirty = true;
	rf_vec_push(&c->dirty_claims, k);
}

void co_mark_group(struct rf_core *c, struct co_group *g)
{
	if (g->dirty)
		return;
	g->dirty = true;
	rf_vec_push(&c->dirty_groups, g);
}

static struct rf_str key_of(struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	rf_buf_clear(&c->scratch);
	rf_buf_add(&c->scratch, ns);
	rf_buf_add_c(&c->scratch, '/');
	rf_buf_add(&c->scratch, name);
	return rf_buf_str(&c->scratch);
}

static bool same_text(const char *a, struct rf_str b)
{
	return a == NULL ? b.n == 0 : rf_str_is(b, a);
}

/* NULL for nothing. */
static void set_text(char **at, struct rf_str s)
{
	if (same_text(*at, s))
		return;
	free(*at);
	*at = s.n > 0 ? rf_str_dup(s) : NULL;
}

/* --- groups ----------------------------------------------------------------------------------- */

struct co_group *co_group(struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	struct co_group *g = rf_map_get(&c->groups, key_of(c, ns, name));

	if (g != NULL)
		return g;
	g = rf_new(struct co_group);
	g->key = rf_str_dup(rf_buf_str(&c->scratch));
	g->name = rf_str_dup(name);
	rf_map_set(&c->groups, rf_str(g->key), g);
	g->ns = co_space(c, ns);
	g->ns->n_groups++;
	return g;
}

void co_group_free(struct rf_core *c, struct co_group *g)
{
	(void)c;
	free(g->queue);
	free(g->topology);
	free(g->name);
	free(g->key);
	free(g);
}

/* The map has no use for it any more. Not while it is marked: the list has it. */
void co_group_maybe_free(struct rf_core *c, struct co_group *g)
{
	if (g->known || g->pods != NULL || g->dirty || g->work != NULL || g->listed)
		return;
	rf_map_del(&c->groups, rf_str(g->key));
	g->ns->n_groups--;
	co_space_maybe_free(c, g->ns);
	co_group_free(c, g);
}

void rf_core_put_group(struct rf_core *c, const struct rf_sched_group *v)
{
	struct co_group *g = co_group(c, v->ns, v->name);
	bool changed;

	CO_LOG(c, RF_LOG_GROUP, .group = *v);
	if (g->known && v->rv < g->rv)
		return;
	changed = !g->known || g->pinned != v->pinned || g->min_run != v->min_run_ms || g->run_limit != v->run_limit_ms ||
		  g->min != v->min;
	g->known = true;
	g->rv = v->rv;
	g->min = RF_MAX(v->min, 1);
	g->created = RF_MAX(v->created_ms, 0);
	g->min_run = RF_MIN(RF_MAX(v->min_run_ms, 0), RF_QUEUE_MS_MAX);
	g->run_limit = RF_MIN(RF_MAX(v->run_limit_ms, 0), RF_QUEUE_MS_MAX);
	g->pinned = v->pinned;
	if (!co_has_started(g)) { /* none of it is left, and who comes before that is settled starts anew */
		g->had_started = g->had_started || g->was_whole;
		g->was_whole = false;
	}
	g->started = g->says = v->started;
	if (v->ending_ms > g->ending_was) {
		g->ending = g->ending_was = v->ending_ms;
		g->bereft = true;
	}
	set_text(&g->queue, v->queue);
	set_text(&g->topology, v->topology);
	for (struct co_pod *p = g->pods; changed && p != NULL; p = p->group_next) {
		p->respec = true;
		co_mark(c, p);
	}
	co_mark_group(c, g);
	co_tick(c);
}

void rf_core_del_group(struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	struct co_group *g = rf_map_get(&c->groups, key_of(c, ns, name));

	CO_LOG(c, RF_LOG_GROUP, .del = true, .ns = ns, .name = name);
	if (g == NULL || !g->known)
		return;
	g->known = g->started = g->says = g->was_whole = g->had_started = false;
	for (struct co_pod *p = g->pods; p != NULL; p = p->group_next) {
		p->respec = true;
		co_mark(c, p);
	}
	co_mark_group(c, g);
}

int64_t rf_core_ending(const struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;
	const struct co_group *g;

	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	g = rf_map_get(&c->groups, rf_buf_str(&key));
	return g != NULL ? g->ending : 0;
}

bool rf_core_started(const struct rf_core *c, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;
	const struct co_group *g;

	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	g = rf_map_get(&c->groups, rf_buf_str(&key));
	return g != NULL && co_has_started(g);
}

static void leave_group(struct rf_core *c, struct co_pod *p)
{
	struct co_group *g = p->group;

	if (g == NULL)
		return;
	if (p->group_prev != NULL)
		p->group_prev->group_next = p->group_next;
	else
		g->pods = p->group_next;
	if (p->group_next != NULL)
		p->group_next->group_prev = p->group_prev;
	p->group_prev = p->group_next = NULL;
	p->group = NULL;
	g->n_pods--;
	co_mark_group(c, g);
}

static void join_group(struct rf_core *c, struct co_pod *p, struct rf_str name)
{
	struct co_group *g = co_group(c, rf_str(p->ns->name), name);

	p->group = g;
	p->group_next = g->pods;
	if (g->pods != NULL)
		g->pods->group_prev = p;
	g->pods = p;
	g->n_pods++;
	co_mark_group(c, g);
}

/* --- pods ------------------------------------------------------------------------------------- */

/* One that a claim names may not be known yet: it has no namespace then. */
static struct co_pod *find_pod(struct rf_core *c, struct rf_str uid)
{
	struct rf_map_slot *s = rf_map_slot(&c->pods, uid);
	struct co_pod *p = s->value;

	if (p != NULL)
		return p;
	p = s->value = rf_new(struct co_pod);
	p->uid = rf_map_key(s);
	return p;
}

static void drop_foreign_claims(struct rf_core *c, struct co_pod *p);

static void join_space(struct co_pod *p, struct co_ns *ns)
{
	p->ns = ns;
	p->ns_next = ns->pods;
	if (ns->pods != NULL)
		ns->pods->ns_prev = p;
	ns->pods = p;
}

static void leave_space(struct co_pod *p)
{
	if (p->ns_prev != NULL)
		p->ns_prev->ns_next = p->ns_next;
	else
		p->ns->pods = p->ns_next;
	if (p->ns_next != NULL)
		p->ns_next->ns_prev = p->ns_prev;
	p->ns_prev = p->ns_next = NULL;
}

/* What it wishes depends on whose it is: kept as it was told until that is known. */
static void keep_raw(struct rf_core *c, struct co_pod *p, const struct rf_sched_pod *v)
{
	free(p->raw);
	p->raw = NULL;
	if (p->ns->known)
		return;
	struct rf_log_event e = { .kind = RF_LOG_POD, .t = c->now, .pod = *v };
	rf_buf_clear(&c->scratch);
	rf_log_write(&c->scratch, &e);
	p->raw = rf_str_dup(rf_buf_str(&c->scratch));
}

static void set_shape(struct rf_core *c, struct co_pod *p, const struct rf_sched_pod *v)
{
	const struct co_pod *beside = p->shape != NULL || p->ns_next == NULL ? p : p->ns_next;
	struct co_shape *s = co_shape_of(c, v, p->ns, beside->shape);

	if (s == p->shape) {
		co_shape_drop(c, s);
		return;
	}
	if (p->state == CO_QUEUED)
		co_work_leave(c, p);
	if (p->seat != NULL && p->wished) {
		rf_wish_off(c->wishes, p->shape->wish, p->seat->handle);
		rf_wish_on(c->wishes, s->wish, p->seat->handle);
	}
	p->reseat = p->reseat || p->hold != 0;
	co_shape_drop(c, p->shape);
	p->shape = s;
	c->reshaped++;
}

/* The namespace's tenant is known now, or another: from what was kept, where it was. */
void co_reshape(struct rf_core *c, struct co_pod *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_log_event e;
	struct rf_err err;
	struct rf_str line;

	if (p->raw == NULL || !p->ns->known)
		return;
	line = rf_str_trim(rf_str(p->raw));
	if (rf_log_read(&a, line, &e, &err) == 0 && e.kind == RF_LOG_POD)
		set_shape(c, p, &e.pod);
	free(p->raw);
	p->raw = NULL;
}

static void set_pod(struct rf_core *c, struct co_pod *p, const struct rf_sched_pod *v)
{
	int64_t priority = RF_MIN(RF_MAX(v->priority, INT32_MIN), INT32_MAX);
	int64_t created = RF_MIN(RF_MAX(v->created_ms, 0), INT64_C(1) << 59);
	struct co_node *node = v->node.n > 0 ? co_node(c, v->node) : NULL;

	if (p->state == CO_QUEUED && (priority != p->priority || created != p->created || v->pinned != p->pinned ||
				      v->patient != p->patient || !same_text(p->queue, v->queue)))
		co_work_leave(c, p);
	p->respec = p->respec || priority != p->priority || v->pinned != p->pinned || v->min_run_ms != p->min_run ||
		    v->run_limit_ms != p->run_limit;
	p->priority = (int32_t)priority;
	p->created = created;
	p->pinned = v->pinned;
	p->patient = v->patient;
	p->rv = v->rv;
	p->ended = v->ended;
	p->well = v->well;
	p->deleting = v->deleting;
	p->daemon = v->daemon;
	p->gated = v->gated;
	p->min_run = RF_MIN(RF_MAX(v->min_run_ms, 0), RF_QUEUE_MS_MAX);
	p->run_limit = RF_MIN(RF_MAX(v->run_limit_ms, 0), RF_QUEUE_MS_MAX);
	p->started = v->started_ms;
	p->grace = v->grace_ms;
	co_node_ref(&p->node, node, c);
	set_text(&p->queue, v->queue);
	set_text(&p->unsupported, v->unsupported);
}

void rf_core_put_pod(struct rf_core *c, const struct rf_sched_pod *v, int64_t now_ms)
{
	struct co_pod *p;
	struct co_labels *labels;

	c->now = RF_MAX(c->now, now_ms);
	if (v->uid.n == 0)
		return;
	CO_LOG(c, RF_LOG_POD, .pod = *v);
	p = find_pod(c, v->uid);
	if (p->known && v->rv < p->rv)
		return;
	if (p->ns == NULL) {
		p->name_text = rf_str_dup(v->name);
		p->name = rf_str_n(p->name_text, v->name.n);
		join_space(p, co_space(c, v->ns));
		drop_foreign_claims(c, p);
	}
	p->known = true;
	set_pod(c, p, v);
	set_shape(c, p, v);
	keep_raw(c, p, v);
	labels = co_labels_of(c, v);
	co_labels_drop(c, p->labels);
	p->labels = labels;
	if (p->group == NULL ? v->group.n > 0 : !rf_str_is(v->group, p->group->name)) {
		if (p->state == CO_QUEUED)
			co_work_leave(c, p);
		leave_group(c, p);
		if (v->group.n > 0)
			join_group(c, p, v->group);
	}
	co_mark(c, p);
}

void rf_core_del_pod(struct rf_core *c, struct rf_str uid, int64_t now_ms)
{
	struct co_pod *p = rf_map_get(&c->pods, uid);

	c->now = RF_MAX(c->now, now_ms);
	CO_LOG(c, RF_LOG_POD, .del = true, .uid = uid);
	if (p == NULL || !p->known)
		return;
	p->known = false;
	co_mark(c, p);
}

static void forget(struct rf_core *c, struct co_pod *p)
{
	for (size_t i = 0; i < c->todo.n; i++) {
		if (c->todo.at[i] == p)
			c->todo.at[i] = NULL;
	}
	for (size_t i = 0; p->flies && i < c->flight.n; i++) {
		if (c->flight.at[i] == p)
			c->flight.at[i] = NULL;
	}
	co_leaver_drop(c, p);
	for (size_t i = 0; p->again_ms != 0 && i < c->paused.n; i++) {
		if (c->paused.at[i] != p)
			continue;
		rf_vec_remove(&c->paused, i);
		break;
	}
}

/* Everything it holds was given back. */
void co_pod_free(struct rf_core *c, struct co_pod *p)
{
	if (p->work != NULL)
		co_work_leave(c, p);
	forget(c, p);
	leave_group(c, p);
	if (p->ns != NULL)
		leave_space(p);
	if (p->wished && p->seat != NULL && p->seat->there)
		rf_wish_off(c->wishes, p->shape->wish, p->seat->handle);
	co_shape_drop(c, p->shape);
	c->reshaped++;
	co_labels_drop(c, p->labels);
	free(p->name_text);
	free(p->raw);
	free(p->unsupported);
	free(p->failure);
	free(p->queue);
	free(p);
}

/* --- claims ----------------------------------------------------------------------------------- */

/* Should several objects name a pod, the one that was allocated counts: only ringfence allocates. */
static bool outranks(const struct co_claim *a, const struct co_claim *b)
{
	if ((a->node != NULL) != (b->node != NULL))
		return a->node != NULL;
	if (a->deleting != b->deleting)
		return b->deleting;
	return rf_str_cmp(a->name, b->name) < 0;
}

static void choose_claim(struct rf_core *c, struct co_pod *p)
{
	p->claim = NULL;
	for (struct co_claim *k = p->claims; k != NULL; k = k->pod_next) {
		if (p->claim == NULL || outranks(k, p->claim))
			p->claim = k;
		co_mark_claim(c, k);
	}
	co_mark(c, p);
}

/* A claim speaks of pods of its own namespace only; whose a pod is may be heard after its claims. */
static void drop_foreign_claims(struct rf_core *c, struct co_pod *p)
{
	struct co_claim **at = &p->claims;

	while (*at != NULL) {
		struct co_claim *k = *at;

		if (k->ns == p->ns) {
			at = &k->pod_next;
			continue;
		}
		*at = k->pod_next;
		k->pod = NULL;
		k->pod_next = NULL;
		co_mark_claim(c, k);
	}
	choose_claim(c, p);
}

static struct co_claim *new_claim(struct rf_core *c, const struct rf_sched_claim *v)
{
	size_t n = RF_MIN(v->n_grants, RF_FLEET_CARDS_MAX);
	size_t bytes = v->ns.n * 2 + v->name.n * 2 + 1;
	struct co_claim *k = rf_new(struct co_claim);
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; i < n; i++)
		bytes += v->grants[i].container.n + v->grants[i].profile.n;
	rf_buf_reserve(&b, bytes + 1);
	k->grants = rf_alloc(RF_MAX(n, 1) * sizeof(*k->grants));
	rf_buf_printf(&b, "%.*s/%.*s", RF_STR(v->ns), RF_STR(v->name));
	k->key = rf_str_n(b.p, b.n);
	k->name = rf_str_skip(k->key, v->ns.n + 1);
	k->ns_name = rf_str_n(b.p, v->ns.n);
	for (size_t i = 0; v->node.n > 0 && i < n; i++) {
		const struct rf_sched_grant *g = &v->grants[i];
		struct co_grant *to = &k->grants[k->n++];

		*to = (struct co_grant){ .bytes = g->bytes, .milli = g->milli, .start = g->start, .whole = g->whole };
		to->container = rf_str_n(b.p + b.n, g->container.n);
		rf_buf_add(&b, g->container);
		to->profile = rf_str_n(b.p + b.n, g->profile.n);
		rf_buf_add(&b, g->profile);
	}
	k->blob = b.p; /* it was large enough from the start: nothing has moved */
	b = (struct rf_buf)RF_BUF_INIT;
	(void)c;
	return k;
}

/* Its cards' places on the node, which exist from then on. */
static void find_slots(struct co_claim *k, struct co_node *n, const struct rf_sched_claim *v)
{
	for (size_t i = 0; i < k->n; i++) {
		int slot = co_slot(n, v->grants[i].device);

		k->grants[i].slot = slot >= 0 ? (uint8_t)slot : 0xff;
	}
}

static bool same_grants(const struct co_claim *a, const struct co_claim *b)
{
	for (size_t i = 0; i < a->n && i < b->n; i++) {
		const struct co_grant *x = &a->grants[i], *y = &b->grants[i];

		if (x->slot != y->slot || x->bytes != y->bytes || x->milli != y->milli || x->start != y->start ||
		    x->whole != y->whole || !rf_str_eq(x->profile, y->profile) ||
		    !rf_str_eq(x->container, y->container))
			return false;
	}
	return a->n == b->n;
}

/* A card that is gone counts as long as a claim holds it: only then does a claim change what there is. */
static bool holds_gone_card(const struct co_claim *k)
{
	for (size_t i = 0; i < k->n; i++) {
		size_t slot = k->grants[i].slot;

		if (!k->node->there || slot >= k->node->n_slots || !k->node->slots[slot].there)
			return true;
	}
	return false;
}

static void link_claim(struct rf_core *c, struct co_claim *k)
{
	struct co_node *n = k->node;

	k->ns = co_space(c, k->ns_name);
	k->ns_next = k->ns->claims;
	if (k->ns->claims != NULL)
		k->ns->claims->ns_prev = k;
	k->ns->claims = k;
	if (k->pod != NULL) {
		k->pod_next = k->pod->claims;
		k->pod->claims = k;
	}
	if (n == NULL)
		return;
	k->node_next = n->claims_here;
	if (n->claims_here != NULL)
		n->claims_here->node_prev = k;
	n->claims_here = k;
	n->n_unplaced += !k->placed;
	if (holds_gone_card(k))
		c->capacity_stale = true;
}

static void unlink_claim(struct rf_core *c, struct co_claim *k)
{
	struct co_claim **at = k->pod != NULL ? &k->pod->claims : NULL;

	if (k->ns_prev != NULL)
		k->ns_prev->ns_next = k->ns_next;
	else
		k->ns->claims = k->ns_next;
	if (k->ns_next != NULL)
		k->ns_next->ns_prev = k->ns_prev;
	while (at != NULL && *at != k)
		at = &(*at)->pod_next;
	if (at != NULL)
		*at = k->pod_next;
	if (k->node == NULL)
		return;
	k->node->n_unplaced -= !k->placed;
	if (k->node_prev != NULL)
		k->node_prev->node_next = k->node_next;
	else
		k->node->claims_here = k->node_next;
	if (k->node_next != NULL)
		k->node_next->node_prev = k->node_prev;
	if (holds_gone_card(k))
		c->capacity_stale = true;
}

void co_claim_free(struct rf_core *c, struct co_claim *k)
{
	(void)c;
	free(k->grants);
	free(k->blob);
	free(k);
}

/* Its cards stay in the pod's hold until that is settled. */
static void remove_claim(struct rf_core *c, struct co_claim *k)
{
	struct co_pod *p = k->pod;

	co_unseat_claim(c, k);
	unlink_claim(c, k);
	if (p != NULL && p->held_for == k) {
		p->held_for = NULL;
		p->reseat = true;
	}
	for (size_t i = 0; k->dirty && i < c->dirty_claims.n; i++) {
		if (c->dirty_claims.at[i] == k)
			c->dirty_claims.at[i] = NULL;
	}
	if (k->node != NULL && !k->node->there)
		c->freed = ~UINT64_C(0); /* perhaps nothing of it was held, but it was charged: to a model, too */
	rf_map_del(&c->claims, k->key);
	co_node_ref(&k->node, NULL, c);
	if (p != NULL)
		choose_claim(c, p);
	co_claim_free(c, k);
	co_tick(c);
}

void rf_core_put_claim(struct rf_core *c, const struct rf_sched_claim *v)
{
	struct co_claim *was = rf_map_get(&c->claims, key_of(c, v->ns, v->name)), *k;
	struct co_pod *pod = v->pod_uid.n > 0 ? find_pod(c, v->pod_uid) : NULL;

	CO_LOG(c, RF_LOG_CLAIM, .claim = *v);
	if (pod != NULL && pod->ns != NULL && !rf_str_is(v->ns, pod->ns->name))
		pod = NULL; /* somebody else's: not for this claim to speak of */
	if (was != NULL && v->rv < was->rv) {
		if (pod != NULL)
			co_mark(c, pod); /* frees what was made for nothing */
		return;
	}
	k = new_claim(c, v);
	if (v->node.n > 0) {
		co_node_ref(&k->node, co_node(c, v->node), c);
		find_slots(k, k->node, v);
	}
	k->rv = v->rv;
	k->deleting = v->deleting;
	k->pod = pod;
	k->tenant = v->tenant.n > 0 ? co_tenant(c, v->tenant) : NULL;
	if (was != NULL && was->node == k->node && was->pod == pod && was->tenant == k->tenant && same_grants(was, k)) {
		was->rv = v->rv;
		was->deleting = v->deleting;
		co_node_ref(&k->node, NULL, c);
		co_claim_free(c, k);
		k = was;
	} else {
		if (was != NULL)
			remove_claim(c, was);
		link_claim(c, k);
		rf_map_set(&c->claims, k->key, k);
	}
	co_mark_claim(c, k);
	if (pod != NULL) {
		pod->heard = pod->heard || k->node != NULL;
		choose_claim(c, pod);
	}
	co_tick(c);
}

void rf_core_del_claim(struct rf_core *c, struct rf_str ns, struct rf_str name, int64_t now_ms)
{
	struct co_claim *k = rf_map_get(&c->claims, key_of(c, ns, name));

	c->now = RF_MAX(c->now, now_ms);
	CO_LOG(c, RF_LOG_CLAIM, .del = true, .ns = ns, .name = name);
	if (k != NULL) {
		struct co_ns *s = k->ns;

		remove_claim(c, k);
		co_space_maybe_free(c, s);
	}
}
