/* All that a control reads when it starts, read once, and a core that was told it: for who wants to know what the
 * scheduler would do, and must not do it. */
#include "control/private.h"

#define PAGE 500
#define OBJECTS_MAX 4000000 /* of all kinds */

/* As control follows them (run.c); what is left out is of no concern to the core. Past usage is: it says whose turn
 * it is, and nobody asks that here. */
static const struct {
	const struct rf_kube_res *res;
	void (*feed)(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
} KINDS[] = { { &RF_TENANTS, rf_feed_tenant },	     { &RF_NAMESPACES, rf_feed_namespace },
	      { &RF_QUEUES, rf_feed_queue },	     { &RF_GPUPOOLS, rf_feed_gpu_pool },
	      { &RF_NODES, rf_feed_node },	     { &RF_RESOURCESLICES, rf_feed_slice },
	      { &RF_PODGROUPS, rf_feed_group },	     { &RF_BUDGETS, rf_feed_budget },
	      { &RF_RESOURCECLAIMS, rf_feed_claim }, { &RF_PODS, rf_feed_pod } };

struct kept {
	const struct rf_kube_res *res;
	struct rf_json *object;
};

static const struct rf_json *get(void *ctx, const struct rf_kube_res *res, struct rf_str ns, struct rf_str name)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_snapshot *s = ctx;
	const struct kept *k = rf_map_get(&s->objects, rf_kube_path(&a, res, ns, name, NULL));

	return k != NULL ? k->object : NULL;
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	const struct rf_snapshot *s = ctx;

	for (const struct rf_map_slot *m = *cursor; (m = rf_map_next(&s->objects, m)) != NULL;) {
		const struct kept *k = m->value;

		*cursor = m;
		if (k->res == res)
			return k->object;
	}
	return NULL;
}

static void keep(struct rf_snapshot *s, const struct rf_kube_res *res, struct rf_json *o)
{
	struct rf_str path = rf_kube_path(&s->a, res, rf_kube_namespace(o), rf_kube_name(o), NULL);
	struct kept *k = rf_arena_new(&s->a, struct kept);

	*k = (struct kept){ res, o };
	/* Servers leave it out of what is in a list. */
	rf_json_set_str(&s->a, o, "kind", rf_str(res->kind));
	(void)rf_map_set(&s->objects, path, k);
}

static int list(struct rf_snapshot *s, const struct rf_hands *h, const struct rf_kube_res *res, struct rf_err *err)
{
	struct rf_str all = rf_kube_path(&s->a, res, RF_STR_EMPTY, RF_STR_EMPTY, NULL), from = RF_STR_EMPTY;

	do {
		rf_auto(buf) path = RF_BUF_INIT;
		struct rf_json *page = NULL;
		const struct rf_json *items = NULL;

		rf_buf_printf(&path, "%.*s?limit=%d", RF_STR(all), PAGE);
		if (from.n > 0) {
			rf_buf_puts(&path, "&continue=");
			rf_kube_encode(&path, from);
		}
		if (h->get(h->ctx, &s->a, rf_buf_str(&path), &page, err) < 0)
			return rf_wrap(err, "list %s", res->plural);
		items = rf_json_at(page, "items");
		for (size_t i = 0; i < rf_json_len(items); i++)
			keep(s, res, rf_json_item(items, i));
		from = rf_json_str_at(page, "metadata", "continue");
	} while (from.n > 0 && s->objects.n < OBJECTS_MAX);
	if (from.n > 0)
		return rf_fail(err, RF_TOO_LARGE, "list %s: there are more than %d objects", res->plural, OBJECTS_MAX);
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return rf_str_cmp(*(const struct rf_str *)a, *(const struct rf_str *)b);
}

/* In order, so that the same objects give the same plan. */
static void feed(struct rf_snapshot *s)
{
	struct rf_str *paths = rf_alloc(RF_MAX(s->objects.n, (size_t)1) * sizeof(*paths));
	size_t n = 0;

	for (const struct rf_map_slot *m = NULL; (m = rf_map_next(&s->objects, m)) != NULL;)
		paths[n++] = rf_map_key(m);
	qsort(paths, n, sizeof(*paths), by_path);
	for (size_t i = 0; i < RF_COUNT(KINDS); i++) {
		for (size_t k = 0; k < n; k++) {
			const struct kept *o = rf_map_get(&s->objects, paths[k]);

			if (o->res == KINDS[i].res)
				KINDS[i].feed(&s->placer, NULL, o->object);
		}
	}
	free(paths);
}

int rf_snapshot_take(struct rf_snapshot *s, const struct rf_hands *h, const char *scheduler, int64_t now_ms,
		     struct rf_err *err)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	*s = (struct rf_snapshot){ .a = RF_ARENA_CAPPED((size_t)8 << 30) };
	rf_placer_init(&s->placer, rf_core_new(&config));
	s->placer.hands = *h;
	s->placer.cluster = (struct rf_cluster){ get, next, NULL, s };
	s->placer.scheduler = scheduler;
	s->placer.now_ms = now_ms;
	s->placer.moving = true;
	for (size_t i = 0; i < RF_COUNT(KINDS); i++) {
		if (list(s, h, KINDS[i].res, err) < 0)
			return -err->code;
	}
	feed(s);
	return 0;
}

void rf_snapshot_done(struct rf_snapshot *s)
{
	rf_placer_done(&s->placer);
	rf_core_free(s->placer.core);
	rf_map_done(&s->objects);
	rf_arena_done(&s->a);
}
