/* data.inventory: other objects, for policies that compare. Read from the store each time somebody asks,
 * so that it is never behind. */
#include "apiserver/policies.h"
#include "policy/book.h"

#define ANNOTATION "metadata.gatekeeper.sh/requires-sync-data"

void rf_sync_forget(struct rf_sync *s)
{
	rf_vec_done(&s->kinds);
	rf_arena_done(&s->a);
	*s = (struct rf_sync){ .known = false };
}

/* --- which kinds ---------------------------------------------------------------------------- */

static void add_kind(struct rf_sync *s, struct rf_str group, struct rf_str kind)
{
	struct rf_sync_kind one = { rf_arena_str(&s->a, group), rf_arena_str(&s->a, kind) };

	rf_vec_push(&s->kinds, one);
}

static void add_set(struct rf_sync *s, const struct rf_json *set)
{
	const struct rf_json *groups = rf_json_at(set, "groups"), *kinds = rf_json_at(set, "kinds");

	for (size_t g = 0; g < rf_json_len(groups); g++)
		for (size_t k = 0; k < rf_json_len(kinds); k++)
			add_kind(s, rf_json_str(rf_json_item(groups, g)),
				 rf_json_str(rf_json_item(kinds, k)));
}

/* [[{"groups": [...], "versions": [...], "kinds": [...]}, ...], ...], and around it, often, quotes that
 * are none of JSON's. Versions do not matter: every kind is stored in one. */
static bool add_annotation(struct rf_sync *s, struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *all = NULL;

	text = rf_str_trim(text);
	if (text.n >= 2 && text.p[0] == '"' && text.p[text.n - 1] == '"')
		text = rf_str_n(text.p + 1, text.n - 2);
	if (rf_json_parse(&a, text, &all, NULL) < 0 || !rf_json_is(all, RF_JSON_ARRAY))
		return false;
	for (size_t i = 0; i < rf_json_len(all); i++) {
		const struct rf_json *any = rf_json_item(all, i);

		if (!rf_json_is(any, RF_JSON_ARRAY))
			return false;
		for (size_t j = 0; j < rf_json_len(any); j++)
			add_set(s, rf_json_item(any, j));
	}
	return true;
}

/* Nobody reads data.inventory without naming it. */
static bool names_inventory(const struct rf_row *row)
{
	return rf_str_contains(row->json, RF_LIT("inventory"));
}

static int template_row(void *ctx, const struct rf_row *row)
{
	struct rf_sync *s = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *said;
	struct rf_json *o = NULL;

	if (rf_json_parse(&a, row->json, &o, NULL) < 0)
		return 0;
	said = rf_json_at(o, "metadata", "annotations", ANNOTATION);
	if (said != NULL ? !add_annotation(s, rf_json_str(said)) : names_inventory(row))
		s->all = true;
	return 0;
}

static int map_row(void *ctx, const struct rf_row *row)
{
	struct rf_sync *s = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (names_inventory(row) && rf_json_parse(&a, row->json, &o, NULL) == 0 &&
	    rf_book_is_policy(o))
		s->all = true;
	return 0;
}

bool rf_sync_is_setting(const struct rf_kind *k)
{
	return rf_kind_is(k, "configs") || rf_kind_is(k, "syncsets");
}

/* Config: spec.sync.syncOnly; SyncSet: spec.gvks. */
static int setting_row(void *ctx, const struct rf_row *row)
{
	struct rf_sync *s = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;
	const struct rf_json *list;

	if (rf_json_parse(&a, row->json, &o, NULL) < 0)
		return 0;
	list = rf_json_at(o, "spec", "gvks");
	if (list == NULL)
		list = rf_json_at(o, "spec", "sync", "syncOnly");
	for (size_t i = 0; i < rf_json_len(list); i++)
		add_kind(s, rf_json_str_at(rf_json_item(list, i), "group"),
			 rf_json_str_at(rf_json_item(list, i), "kind"));
	return 0;
}

static int learn_settings(struct rf_store *store, struct rf_sync *s, struct rf_err *err)
{
	struct rf_list config = { .kind = rf_kind_get("configs"),
				  .ns = RF_LIT("gatekeeper-system"),
				  .each = setting_row,
				  .ctx = s };
	struct rf_list sets = { .kind = rf_kind_get("syncsets"), .each = setting_row, .ctx = s };

	if (rf_store_list(store, &config, err) < 0)
		return -err->code;
	return rf_store_list(store, &sets, err);
}

static int learn(struct rf_store *store, struct rf_sync *s, struct rf_err *err)
{
	struct rf_list templates = { .kind = rf_kind_get("constrainttemplates"),
				     .each = template_row,
				     .ctx = s };
	struct rf_list maps = { .kind = rf_kind_get("configmaps"),
				.ns = RF_LIT(RF_BOOK_NAMESPACE),
				.each = map_row,
				.ctx = s };

	if (s->known)
		return 0;
	rf_sync_forget(s);
	if (rf_store_list(store, &templates, err) < 0 || rf_store_list(store, &maps, err) < 0)
		return -err->code;
	s->all |= s->kinds.n == 0;
	if (learn_settings(store, s, err) < 0)
		return -err->code;
	s->known = true;
	return 0;
}

/* Policies themselves are not meant by "all", nor what comes and goes by the second. */
static bool is_common(const struct rf_kind *k)
{
	return !k->constraint && !rf_kind_is(k, "constrainttemplates") && !rf_sync_is_setting(k) &&
	       !rf_kind_is(k, "events") && !rf_kind_is(k, "leases");
}

static bool is_wanted(const struct rf_sync *s, const struct rf_kind *k)
{
	if (!k->stored)
		return false;
	for (size_t i = 0; i < s->kinds.n; i++)
		if (rf_str_is(s->kinds.at[i].kind, k->kind) &&
		    rf_str_is(s->kinds.at[i].group, k->group))
			return true;
	return s->all && is_common(k);
}

/* --- the objects ---------------------------------------------------------------------------- */

struct gathering {
	struct rf_arena *a;
	RF_VEC(struct rf_rv) objects;
	size_t bytes;
	struct rf_err *err;
};

static int too_much(struct rf_err *err)
{
	return rf_fail(err, RF_EXHAUSTED,
		       "the objects that policies may refer to have more than %zu MiB; name those "
		       "that are needed in each referential template's annotation " ANNOTATION,
		       RF_INVENTORY_BYTES >> 20);
}

static int gather_row(void *ctx, const struct rf_row *row)
{
	struct gathering *g = ctx;
	struct rf_rv v;
	int r;

	g->bytes += row->json.n;
	if (g->bytes > RF_INVENTORY_BYTES)
		return too_much(g->err);
	/* Values point into their text. */
	r = rf_rv_parse_json(g->a, rf_arena_str(g->a, row->json), &v, g->err);
	if (r == -RF_TOO_LARGE)
		return too_much(g->err);
	if (r < 0)
		return rf_wrap(g->err, "%.*s/%.*s", RF_STR(row->ns), RF_STR(row->name));
	rf_vec_push(&g->objects, v);
	return 0;
}

static int gather_kinds(struct rf_store *store, const struct rf_sync *sync, struct gathering *g,
			struct rf_err *err)
{
	for (const struct rf_kind *k = NULL; (k = rf_kind_next(k)) != NULL;) {
		struct rf_list l = { .kind = k, .each = gather_row, .ctx = g };

		if (is_wanted(sync, k) && rf_store_list(store, &l, err) < 0)
			return -err->code;
	}
	return 0;
}

int rf_inventory_gather(struct rf_store *store, struct rf_sync *sync, struct rf_arena *a,
			struct rf_rv *ret, struct rf_err *err)
{
	struct gathering g = { .a = a, .err = err };
	int r = learn(store, sync, err);

	if (r == 0)
		r = gather_kinds(store, sync, &g, err);
	if (r == 0)
		r = rf_gk_inventory(a, g.objects.at, g.objects.n, ret, err);
	rf_vec_done(&g.objects);
	return r;
}
