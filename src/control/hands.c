/* The placer's hands and eyes in the process: the client and the informers. */
#include "control/private.h"

static int get(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	return rf_kube_get(((struct rf_control *)ctx)->kube, a, path, ret, err);
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

/* A write that the server carries out after the lease has ended would meet those of the next leader: each is
 * given up before. */
#define CALL_MS 10000
#define SPARE_MS 1000
static int begin(struct rf_control *c, struct rf_err *err)
{
	int64_t age_ms = 0, left_ms = 0;

	if (!may(c))
		return rf_fail(err, RF_UNAVAILABLE, "another control leads now");
	age_ms = (rf_mono_ns(rf_clock_system()) - c->lease.renewed_ns) / 1000000;
	left_ms = RF_LEASE_S * 1000 - age_ms - SPARE_MS;
	if (left_ms < SPARE_MS)
		return rf_fail(err, RF_UNAVAILABLE, "the lease runs out and could not be renewed");
	rf_kube_set_timeout(c->kube, (int)RF_MIN(left_ms, (int64_t)CALL_MS));
	return 0;
}

static int end(struct rf_control *c, int rc)
{
	rf_kube_set_timeout(c->kube, CALL_MS);
	return rc;
}

static int create(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		  struct rf_json **ret, struct rf_err *err)
{
	struct rf_control *c = ctx;
	int rc = begin(c, err);

	return rc < 0 ? rc : end(c, rf_kube_create(c->kube, a, path, object, ret, err));
}

static int update(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		  struct rf_json **ret, struct rf_err *err)
{
	struct rf_control *c = ctx;
	int rc = begin(c, err);

	return rc < 0 ? rc : end(c, rf_kube_update(c->kube, a, path, object, ret, err));
}

static int patch(void *ctx, struct rf_arena *a, struct rf_str path, enum rf_patch_type type,
		 const struct rf_json *body, struct rf_json **ret, struct rf_err *err)
{
	struct rf_control *c = ctx;
	int rc = begin(c, err);

	return rc < 0 ? rc : end(c, rf_kube_patch(c->kube, a, path, type, body, ret, err));
}

static int take_away(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_str uid, struct rf_str rv,
		     struct rf_err *err)
{
	struct rf_control *c = ctx;
	int rc = begin(c, err);

	return rc < 0 ? rc : end(c, rf_kube_delete_this(c->kube, a, path, uid, rv, err));
}

static void event(void *ctx, const struct rf_json *about, const char *type, const char *reason,
		  struct rf_str text)
{
	(void)rf_kube_event(((struct rf_control *)ctx)->kube, about, type, reason, "ringfence-control", "%.*s",
			    RF_STR(text));
}

static struct rf_informer *informer_of(struct rf_control *c, const struct rf_kube_res *res)
{
	const struct {
		const struct rf_kube_res *res;
		enum rf_informer_kind kind;
	} table[] = { { &RF_PODS, RF_I_PODS },	   { &RF_NAMESPACES, RF_I_NAMESPACES },
		      { &RF_PODGROUPS, RF_I_GROUPS }, { &RF_QUEUES, RF_I_QUEUES },
		      { &RF_RESOURCESLICES, RF_I_SLICES }, { &RF_RESOURCECLAIMS, RF_I_CLAIMS } };

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
