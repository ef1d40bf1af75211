/* What referential policies look at: objects of the kinds that templates ask for in their annotation
 * metadata.gatekeeper.sh/requires-sync-data, and that Gatekeeper's SyncSets and Config name; followed by an
 * informer each, laid out once until one of them changes. */
#include "control/private.h"

#define SYNC_ANNOTATION "metadata.gatekeeper.sh/requires-sync-data"
#define SYNCS_MAX 64
#define INVENTORY_MAX ((size_t)512 << 20)

/* One kind. Stays until the end: an informer that was stopped may still point to its resource. */
struct sync {
	struct rf_inventory *owner;
	struct rf_arena a;
	struct rf_str group, version, kind;
	struct rf_kube_res res;
	struct rf_informer *informer; /* NULL: the kind is not there, or we may not read it */
	bool wanted;
	bool absent; /* the API server has no such kind: there is nothing to see */
	struct rf_err problem;
};

struct rf_inventory {
	struct rf_control *c;
	RF_VEC(struct sync *) syncs;
	struct rf_arena a; /* of value */
	struct rf_rv value;
	bool fresh;
	struct rf_err broken; /* somebody's wish cannot be read or met: what he sees would be too little */
};

struct rf_inventory *rf_inventory_new(struct rf_control *c)
{
	struct rf_inventory *i = rf_new(struct rf_inventory);

	i->c = c;
	i->a.cap = INVENTORY_MAX;
	return i;
}

void rf_inventory_stop(struct rf_inventory *i)
{
	for (size_t k = 0; k < i->syncs.n; k++)
		if (i->syncs.at[k]->informer != NULL)
			rf_informer_stop(i->syncs.at[k]->informer);
}

void rf_inventory_free(struct rf_inventory *i)
{
	if (i == NULL)
		return;
	for (size_t k = 0; k < i->syncs.n; k++) {
		rf_arena_done(&i->syncs.at[k]->a);
		free(i->syncs.at[k]);
	}
	rf_vec_done(&i->syncs);
	rf_arena_done(&i->a);
	free(i);
}

/* --- which kinds ---------------------------------------------------------------------------------- */

static void want_kind(struct rf_inventory *i, struct rf_str group, struct rf_str version,
		      struct rf_str kind)
{
	struct sync *s = NULL;

	for (size_t k = 0; k < i->syncs.n; k++) {
		s = i->syncs.at[k];
		if (rf_str_eq(s->group, group) && rf_str_eq(s->version, version) &&
		    rf_str_eq(s->kind, kind)) {
			s->wanted = true;
			return;
		}
	}
	if (version.n == 0 || kind.n == 0)
		return;
	if (i->syncs.n >= SYNCS_MAX) {
		rf_fail(&i->broken, RF_EXHAUSTED, "%.*s: policies refer to more than %d kinds", RF_STR(kind), SYNCS_MAX);
		return;
	}
	s = rf_new(struct sync);
	s->owner = i;
	s->group = rf_arena_str(&s->a, group);
	s->version = rf_arena_str(&s->a, version);
	s->kind = rf_arena_str(&s->a, kind);
	s->wanted = true;
	rf_fail(&s->problem, RF_UNAVAILABLE, "%.*s: not read yet", RF_STR(kind));
	rf_vec_push(&i->syncs, s);
}

static void want_entry(struct rf_inventory *i, const struct rf_json *entry)
{
	const struct rf_json *groups = rf_json_at(entry, "groups");
	const struct rf_json *versions = rf_json_at(entry, "versions");
	const struct rf_json *kinds = rf_json_at(entry, "kinds");

	for (size_t g = 0; g < rf_json_len(groups); g++)
		for (size_t v = 0; v < rf_json_len(versions); v++)
			for (size_t k = 0; k < rf_json_len(kinds); k++)
				want_kind(i, rf_json_str(rf_json_item(groups, g)),
					  rf_json_str(rf_json_item(versions, v)),
					  rf_json_str(rf_json_item(kinds, k)));
}

/* As Gatekeeper's own templates write it: quotes around JSON that has quotes of its own. */
static struct rf_str unquote(struct rf_str s)
{
	s = rf_str_trim(s);
	if (s.n >= 2 && s.p[0] == '"' && s.p[s.n - 1] == '"')
		s = rf_str_trim(rf_str_n(s.p + 1, s.n - 2));
	return s;
}

/* [[{"groups": [...], "versions": [...], "kinds": [...]}]]: all of the outer list, any of the inner ones;
 * here simply all. */
static void want_annotation(struct rf_inventory *i, const struct rf_json *o)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)1 << 20);
	struct rf_str text = rf_kube_annotation(o, SYNC_ANNOTATION);
	struct rf_json *list = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (text.n == 0)
		return;
	if (rf_json_parse(&a, unquote(text), &list, &err) < 0) {
		rf_fail(&i->broken, RF_INVALID, "ConstraintTemplate %.*s: annotation " SYNC_ANNOTATION ": %s",
			RF_STR(rf_kube_name(o)), err.msg);
		return;
	}
	for (size_t k = 0; k < rf_json_len(list); k++) {
		const struct rf_json *any = rf_json_item(list, k);

		for (size_t m = 0; m < rf_json_len(any); m++)
			want_entry(i, rf_json_item(any, m));
	}
}

static void want_list(struct rf_inventory *i, const struct rf_json *list)
{
	for (size_t k = 0; rf_json_is(list, RF_JSON_ARRAY) && k < rf_json_len(list); k++) {
		const struct rf_json *e = rf_json_item(list, k);

		want_kind(i, rf_json_str_at(e, "group"), rf_json_str_at(e, "version"),
			  rf_json_str_at(e, "kind"));
	}
}

void rf_inventory_want(struct rf_inventory *i, const struct rf_json *o)
{
	want_annotation(i, o);
	if (rf_str_is(rf_json_str_at(o, "kind"), "SyncSet"))
		want_list(i, rf_json_at(o, "spec", "gvks"));
	if (rf_str_is(rf_json_str_at(o, "kind"), "Config"))
		want_list(i, rf_json_at(o, "spec", "sync", "syncOnly"));
}

void rf_inventory_want_nothing(struct rf_inventory *i)
{
	i->broken = (struct rf_err)RF_ERR_INIT;
	for (size_t k = 0; k < i->syncs.n; k++)
		i->syncs.at[k]->wanted = false;
}

/* --- following them --------------------------------------------------------------------------------- */

static void on_change(void *ctx, const struct rf_json *before RF_UNUSED,
		      const struct rf_json *after RF_UNUSED)
{
	((struct sync *)ctx)->owner->fresh = false;
}

static void on_sync(void *ctx)
{
	((struct sync *)ctx)->owner->fresh = false;
}

static void on_error(void *ctx, const struct rf_err *err)
{
	((struct sync *)ctx)->problem = *err;
}

/* The plural is the API server's to know. */
static int discover(struct sync *s, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = s->group.n > 0 ?
				     rf_arena_printf(&a, "/apis/%.*s/%.*s", RF_STR(s->group),
						     RF_STR(s->version)) :
				     rf_arena_printf(&a, "/api/%.*s", RF_STR(s->version));
	struct rf_json *list = NULL;
	const struct rf_json *all = NULL;

	if (rf_kube_get(s->owner->c->kube, &a, path, &list, err) < 0)
		return -err->code;
	all = rf_json_at(list, "resources");
	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *r = rf_json_item(all, i);
		struct rf_str name = rf_json_str_at(r, "name");

		if (!rf_str_eq(rf_json_str_at(r, "kind"), s->kind) || rf_str_contains(name, RF_LIT("/")))
			continue;
		s->res = (struct rf_kube_res){ .group = s->group.p,
					       .version = s->version.p,
					       .plural = rf_arena_cstr(&s->a, name),
					       .kind = s->kind.p,
					       .namespaced = rf_json_is_true(rf_json_at(r, "namespaced")) };
		return 0;
	}
	return rf_fail(err, RF_NOT_FOUND, "there is no kind %.*s in %.*s", RF_STR(s->kind),
		       RF_STR(path));
}

static void follow(struct sync *s)
{
	struct rf_informer_opts o = { .config = &s->owner->c->config,
				      .res = &s->res,
				      .ns = RF_STR_EMPTY,
				      .label_selector = RF_STR_EMPTY,
				      .field_selector = RF_STR_EMPTY,
				      .on_change = on_change,
				      .on_sync = on_sync,
				      .on_error = on_error,
				      .ctx = s };

	if (s->res.plural == NULL) {
		int r = discover(s, &s->problem);

		s->absent = r == -RF_NOT_FOUND;
		if (r < 0)
			return;
	}
	(void)rf_informer_start(&s->owner->c->loop, &o, &s->informer, &s->problem);
}

void rf_inventory_tend(struct rf_inventory *i)
{
	for (size_t k = 0; k < i->syncs.n; k++) {
		struct sync *s = i->syncs.at[k];

		if (s->wanted && s->informer == NULL)
			follow(s);
		if (!s->wanted && s->informer != NULL) {
			rf_informer_stop(s->informer);
			s->informer = NULL;
			i->fresh = false;
		}
	}
}

/* --- laying it out ---------------------------------------------------------------------------------- */

static int too_large(struct rf_err *err)
{
	return rf_fail(err, RF_TOO_LARGE, "what policies refer to is more than %zu MiB",
		       INVENTORY_MAX >> 20);
}

static int lay_out(struct rf_inventory *i, struct rf_err *err)
{
	RF_VEC(struct rf_rv) objects = RF_VEC_INIT;
	int r = 0;

	rf_arena_done(&i->a);
	for (size_t k = 0; k < i->syncs.n; k++) {
		const struct rf_map_slot *slot = NULL;
		const struct rf_json *o = NULL;
		struct rf_rv v = RF_RV_NIL;

		if (i->syncs.at[k]->informer == NULL)
			continue;
		while (r == 0 && (o = rf_informer_next(i->syncs.at[k]->informer, &slot)) != NULL) {
			if (!rf_rv_from_json(&i->a, o, &v))
				r = too_large(err);
			rf_vec_push(&objects, v);
		}
	}
	if (r == 0)
		r = rf_gk_inventory(&i->a, objects.at, objects.n, &i->value, err);
	rf_vec_done(&objects);
	i->fresh = r == 0;
	return r;
}

int rf_inventory_get(void *inventory, struct rf_arena *a RF_UNUSED, struct rf_rv *ret,
		     struct rf_err *err)
{
	struct rf_inventory *i = inventory;

	if (i->broken.code != RF_OK)
		return rf_fail(err, RF_UNAVAILABLE, "%s", i->broken.msg);
	for (size_t k = 0; k < i->syncs.n; k++) {
		const struct sync *s = i->syncs.at[k];

		if (s->wanted && !s->absent && (s->informer == NULL || !rf_informer_synced(s->informer)))
			return rf_fail(err, RF_UNAVAILABLE, "%.*s: %s", RF_STR(s->kind), s->problem.msg);
	}
	if (!i->fresh && lay_out(i, err) < 0)
		return -err->code;
	*ret = i->value;
	return 0;
}
