/* The model: records of what exists, each with the arena that holds it. */
#include "sched/private.h"

static void drop_record(void *record)
{
	struct rf_arena a;

	if (record == NULL)
		return;
	memcpy(&a, record, sizeof(a)); /* every record starts with its arena */
	rf_arena_done(&a);
	free(record);
}

static void drop_all(struct rf_map *m)
{
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(m, slot)) != NULL;)
		drop_record(slot->value);
	rf_map_done(m);
}

struct rf_sched *rf_sched_new(void)
{
	return rf_new(struct rf_sched);
}

void rf_sched_free(struct rf_sched *s)
{
	if (s == NULL)
		return;
	drop_all(&s->nodes);
	drop_all(&s->devices);
	drop_all(&s->tenants);
	drop_all(&s->namespaces);
	drop_all(&s->pods);
	drop_all(&s->claims);
	free(s);
}

/* --- copies ------------------------------------------------------------------------------ */

static void *copy_array(struct rf_arena *a, const void *from, size_t n, size_t size)
{
	void *to = rf_arena_alloc(a, RF_MAX(n * size, 1));

	if (n > 0)
		memcpy(to, from, n * size);
	return to;
}

static void own(struct rf_arena *a, struct rf_str *s)
{
	*s = rf_arena_str(a, *s);
}

static void own_pairs(struct rf_arena *a, struct rf_sched_pair **pairs, size_t n)
{
	*pairs = copy_array(a, *pairs, n, sizeof(**pairs));
	for (size_t i = 0; i < n; i++) {
		own(a, &(*pairs)[i].key);
		own(a, &(*pairs)[i].value);
	}
}

static void own_amounts(struct rf_arena *a, struct rf_sched_amount **amounts, size_t n)
{
	*amounts = copy_array(a, *amounts, n, sizeof(**amounts));
	for (size_t i = 0; i < n; i++)
		own(a, &(*amounts)[i].name);
}

/* --- nodes and cards --------------------------------------------------------------------- */

void rf_sched_put_node(struct rf_sched *s, const struct rf_sched_node *n)
{
	struct rf_rec_node *r = rf_new(struct rf_rec_node);

	r->v = *n;
	own(&r->a, &r->v.name);
	own_pairs(&r->a, &r->v.labels, n->n_labels);
	own_amounts(&r->a, &r->v.more, n->n_more);
	r->v.taints = copy_array(&r->a, n->taints, n->n_taints, sizeof(*n->taints));
	for (size_t i = 0; i < n->n_taints; i++) {
		own(&r->a, &r->v.taints[i].key);
		own(&r->a, &r->v.taints[i].value);
		own(&r->a, &r->v.taints[i].effect);
	}
	drop_record(rf_map_set(&s->nodes, n->name, r));
}

void rf_sched_del_node(struct rf_sched *s, struct rf_str name)
{
	drop_record(rf_map_del(&s->nodes, name));
}

static int by_device_name(const void *a, const void *b)
{
	return rf_sched_name_cmp(((const struct rf_sched_device *)a)->name,
				 ((const struct rf_sched_device *)b)->name);
}

void rf_sched_put_devices(struct rf_sched *s, struct rf_str node,
			  const struct rf_sched_device *devices, size_t n)
{
	struct rf_rec_devices *r = rf_new(struct rf_rec_devices);

	r->v = copy_array(&r->a, devices, n, sizeof(*devices));
	for (size_t i = 0; i < n; i++) {
		own(&r->a, &r->v[i].name);
		own(&r->a, &r->v[i].model);
		own(&r->a, &r->v[i].fault);
	}
	qsort(r->v, n, sizeof(*r->v), by_device_name);
	for (size_t i = 0; i < n; i++) { /* a card that is told of twice is one card */
		if (r->n == 0 || !rf_str_eq(r->v[i].name, r->v[r->n - 1].name))
			r->v[r->n++] = r->v[i];
	}
	drop_record(rf_map_set(&s->devices, node, r));
}

/* --- tenants and namespaces -------------------------------------------------------------- */

void rf_sched_put_tenant(struct rf_sched *s, const struct rf_tenant *t)
{
	struct rf_rec_tenant *r = rf_new(struct rf_rec_tenant);

	r->v = *t;
	own(&r->a, &r->v.name);
	own(&r->a, &r->v.trust_domain);
	r->v.namespaces = NULL; /* the namespaces' own labels count, not the wish */
	r->v.n_namespaces = 0;
	drop_record(rf_map_set(&s->tenants, t->name, r));
}

void rf_sched_del_tenant(struct rf_sched *s, struct rf_str name)
{
	drop_record(rf_map_del(&s->tenants, name));
}

void rf_sched_put_namespace(struct rf_sched *s, struct rf_str name, struct rf_str tenant)
{
	struct rf_rec_namespace *r = rf_new(struct rf_rec_namespace);

	r->tenant = rf_arena_str(&r->a, tenant);
	drop_record(rf_map_set(&s->namespaces, name, r));
}

void rf_sched_del_namespace(struct rf_sched *s, struct rf_str name)
{
	drop_record(rf_map_del(&s->namespaces, name));
}

/* --- pods -------------------------------------------------------------------------------- */

static void own_pod(struct rf_rec_pod *r, const struct rf_sched_pod *p)
{
	struct rf_str *const strings[] = { &r->v.uid, &r->v.ns,	       &r->v.name,	 &r->v.node,
					   &r->v.os,  &r->v.only_node, &r->v.unsupported };

	r->v = *p;
	for (size_t i = 0; i < RF_COUNT(strings); i++)
		own(&r->a, strings[i]);
	r->v.containers = copy_array(&r->a, p->containers, p->n_containers, sizeof(*p->containers));
	for (size_t i = 0; i < p->n_containers; i++)
		own(&r->a, &r->v.containers[i].name);
	own_pairs(&r->a, &r->v.selector, p->n_selector);
	own_amounts(&r->a, &r->v.more, p->n_more);
	r->v.tolerations =
		copy_array(&r->a, p->tolerations, p->n_tolerations, sizeof(*p->tolerations));
	for (size_t i = 0; i < p->n_tolerations; i++) {
		own(&r->a, &r->v.tolerations[i].key);
		own(&r->a, &r->v.tolerations[i].value);
		own(&r->a, &r->v.tolerations[i].effect);
	}
}

void rf_sched_put_pod(struct rf_sched *s, const struct rf_sched_pod *p)
{
	const struct rf_rec_pod *known = rf_map_get(&s->pods, p->uid);
	struct rf_rec_pod *r = NULL;

	if (known != NULL && p->rv < known->v.rv)
		return;
	r = rf_new(struct rf_rec_pod);
	own_pod(r, p);
	/* A pod is bound once and for all; an unbound copy is an echo from before. */
	if (known != NULL && r->v.node.n == 0 && known->v.node.n > 0)
		r->v.node = rf_arena_str(&r->a, known->v.node);
	drop_record(rf_map_set(&s->pods, p->uid, r));
}

void rf_sched_del_pod(struct rf_sched *s, struct rf_str uid)
{
	drop_record(rf_map_del(&s->pods, uid));
}

/* --- claims ------------------------------------------------------------------------------ */

static struct rf_str claim_key(struct rf_arena *a, struct rf_str ns, struct rf_str name)
{
	return rf_arena_printf(a, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
}

void rf_sched_put_claim(struct rf_sched *s, const struct rf_sched_claim *c)
{
	struct rf_rec_claim *r = rf_new(struct rf_rec_claim);
	struct rf_str *const strings[] = { &r->v.ns, &r->v.name, &r->v.pod_uid, &r->v.tenant,
					   &r->v.node };
	struct rf_str key = claim_key(&r->a, c->ns, c->name);
	const struct rf_rec_claim *known = rf_map_get(&s->claims, key);

	if (known != NULL && c->rv < known->v.rv) {
		drop_record(r);
		return;
	}
	r->v = *c;
	for (size_t i = 0; i < RF_COUNT(strings); i++)
		own(&r->a, strings[i]);
	r->v.grants = copy_array(&r->a, c->grants, c->n_grants, sizeof(*c->grants));
	for (size_t i = 0; i < c->n_grants; i++) {
		own(&r->a, &r->v.grants[i].container);
		own(&r->a, &r->v.grants[i].device);
	}
	drop_record(rf_map_set(&s->claims, key, r));
}

void rf_sched_del_claim(struct rf_sched *s, struct rf_str ns, struct rf_str name)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	drop_record(rf_map_del(&s->claims, claim_key(&a, ns, name)));
}
