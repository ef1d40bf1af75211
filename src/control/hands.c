/* The placer's hands and eyes in the process: the client and the informers. */
#include "control/private.h"

static int get(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	return rf_kube_get(((struct rf_control *)ctx)->kube, a, path, ret, err);
}

static int create(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		  struct rf_json **ret, struct rf_err *err)
{
	return rf_kube_create(((struct rf_control *)ctx)->kube, a, path, object, ret, err);
}

static int update(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		  struct rf_json **ret, struct rf_err *err)
{
	return rf_kube_update(((struct rf_control *)ctx)->kube, a, path, object, ret, err);
}

static int patch(void *ctx, struct rf_arena *a, struct rf_str path, enum rf_patch_type type,
		 const struct rf_json *body, struct rf_json **ret, struct rf_err *err)
{
	return rf_kube_patch(((struct rf_control *)ctx)->kube, a, path, type, body, ret, err);
}

static int take_away(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_err *err)
{
	return rf_kube_delete(((struct rf_control *)ctx)->kube, a, path, -1, true, err);
}

static void event(void *ctx, const struct rf_json *about, const char *type, const char *reason,
		  struct rf_str text)
{
	(void)rf_kube_event(((struct rf_control *)ctx)->kube, about, type, reason, "ringfence-control", "%.*s",
			    RF_STR(text));
}

/* A gang of a thousand takes longer to write than the lease lasts: it is renewed in between. */
static bool may(void *ctx)
{
	struct rf_control *c = ctx;
	int64_t age_ms = (rf_mono_ns(rf_clock_system()) - c->lease.renewed_ns) / 1000000;

	if (rf_control_leads(c) && age_ms > RF_LEASE_RENEW_MS)
		(void)rf_lease_step(&c->lease, c->kube, &(struct rf_err)RF_ERR_INIT);
	return rf_control_leads(c);
}

static struct rf_informer *informer_of(struct rf_control *c, const struct rf_kube_res *res)
{
	const struct {
		const struct rf_kube_res *res;
		enum rf_informer_kind kind;
	} table[] = { { &RF_PODS, RF_I_PODS },	   { &RF_NAMESPACES, RF_I_NAMESPACES },
		      { &RF_PODGROUPS, RF_I_GROUPS }, { &RF_QUEUES, RF_I_QUEUES },
		      { &RF_RESOURCESLICES, RF_I_SLICES } };

	for (size_t i = 0; i < RF_COUNT(table); i++) {
		if (table[i].res == res)
			return c->informers[table[i].kind];
	}
	rf_assert(!"a kind that the placer looks at");
	return NULL;
}

static const struct rf_json *look(void *ctx, const struct rf_kube_res *res, struct rf_str ns, struct rf_str name)
{
	const struct rf_informer *i = informer_of(ctx, res);

	return i != NULL ? rf_informer_get(i, ns, name) : NULL;
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	const struct rf_map_slot *slot = *cursor;
	const struct rf_json *o = rf_informer_next(informer_of(ctx, res), &slot);

	*cursor = slot;
	return o;
}

void rf_control_placer(struct rf_control *c)
{
	c->placer.scheduler = c->opts->scheduler_name;
	c->placer.hands = (struct rf_hands){ get, create, update, patch, take_away, event, may, c };
	c->placer.cluster = (struct rf_cluster){ look, next, NULL, c };
}
