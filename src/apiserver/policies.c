#include "apiserver/policies.h"

#include "apiserver/write.h"
#include "policy/book.h"

#define SHORT_NAMES_MAX 8

struct noted {
	const struct rf_kind *kind;
	struct rf_json *before, *after; /* NULL: there was none, there is none */
};

struct rf_policies {
	struct rf_book *book;
	struct rf_book *ends; /* those of them that judge deletions; NULL: to be made */
	struct rf_map broken; /* "resource/name" of what is stored and cannot be used: why */
	struct rf_sync sync;
	struct rf_arena tx; /* of what follows */
	RF_VEC(struct noted) noted;
};

struct rf_policies *rf_policies_new(void)
{
	struct rf_policies *p = rf_new(struct rf_policies);

	p->book = rf_book_new();
	return p;
}

static void mend(struct rf_policies *p, struct rf_str key)
{
	free(rf_map_del(&p->broken, key));
}

static void mend_all(struct rf_policies *p)
{
	for (struct rf_map_slot *s; (s = rf_map_next(&p->broken, NULL)) != NULL;) {
		rf_auto(arena) a = RF_ARENA_INIT;

		mend(p, rf_arena_str(&a, rf_map_key(s)));
	}
}

void rf_policies_free(struct rf_policies *p)
{
	if (p == NULL)
		return;
	rf_book_free(p->book);
	rf_book_free(p->ends);
	mend_all(p);
	rf_map_done(&p->broken);
	rf_sync_forget(&p->sync);
	rf_policies_forget(p);
	rf_vec_done(&p->noted);
	rf_kind_unserve_all();
	free(p);
}

/* --- which objects are policies ------------------------------------------------------------- */

static bool is_template(const struct rf_kind *k)
{
	return rf_kind_is(k, "constrainttemplates");
}

/* The kind tells nearly always; rf_book_is_policy reads the rest. */
static bool may_be_policy(const struct rf_kind *k)
{
	return k->constraint || is_template(k) || rf_kind_is(k, "configmaps");
}

bool rf_policies_has(const struct rf_kind *k, const struct rf_json *o)
{
	return o != NULL && may_be_policy(k) &&
	       (k->constraint || is_template(k) || rf_book_is_policy(o));
}

static struct rf_str kind_of_template(const struct rf_json *o)
{
	return rf_json_str_at(o, "spec", "crd", "spec", "names", "kind");
}

static struct rf_str short_names_of(struct rf_arena *a, const struct rf_json *o)
{
	const struct rf_json *list = rf_json_at(o, "spec", "crd", "spec", "names", "shortNames");
	struct rf_str all = RF_STR_EMPTY;

	for (size_t i = 0; i < rf_json_len(list); i++)
		all = rf_arena_printf(a, "%.*s%s%.*s", RF_STR(all), i > 0 ? " " : "",
				      RF_STR(rf_json_str(rf_json_item(list, i))));
	return all;
}

static struct rf_str key_of(struct rf_arena *a, const struct rf_kind *k, const struct rf_json *o)
{
	return rf_arena_printf(a, "%.*s/%.*s", RF_STR(rf_kind_resource(a, k)),
			       RF_STR(rf_json_str_at(o, "metadata", "name")));
}

/* --- writes of policies --------------------------------------------------------------------- */

void rf_policies_note(struct rf_policies *p, const struct rf_kind *k, const struct rf_json *before,
		      const struct rf_json *after)
{
	struct noted n = { .kind = k };

	if (rf_sync_is_setting(k))
		rf_sync_forget(&p->sync);
	if (!rf_policies_has(k, before) && !rf_policies_has(k, after))
		return;
	n.before = before != NULL ? rf_json_clone(&p->tx, before) : NULL;
	n.after = after != NULL ? rf_json_clone(&p->tx, after) : NULL;
	rf_vec_push(&p->noted, n);
}

static void forget_ends(struct rf_policies *p)
{
	rf_book_free(p->ends);
	p->ends = NULL;
}

void rf_policies_forget(struct rf_policies *p)
{
	if (p->noted.n == 0)
		return;
	forget_ends(p); /* it may have been made of what is undone now */
	rf_vec_clear(&p->noted);
	rf_arena_done(&p->tx);
}

struct found {
	struct rf_arena *a;
	struct rf_json *all;
};

static int collect(void *ctx, const struct rf_row *row)
{
	struct found *f = ctx;
	struct rf_json *o = NULL;

	if (rf_json_parse(f->a, row->json, &o, NULL) == 0)
		rf_json_push(f->a, f->all, o);
	return 0;
}

static int remove_constraints(struct rf_api *api, struct rf_arena *a, const struct rf_kind *k,
			      struct rf_err *err)
{
	struct found f = { a, rf_json_array(a) };
	struct rf_list l = { .kind = k, .each = collect, .ctx = &f };

	if (rf_store_list(api->store, &l, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(f.all); i++)
		if (rf_write_remove(api, a, k, rf_json_item(f.all, i), err) < 0)
			return -err->code;
	return 0;
}

int rf_policies_settle(struct rf_api *api, struct rf_arena *a, struct rf_err *err)
{
	struct rf_policies *p = api->policies;
	size_t n = p->noted.n; /* what is removed here is noted behind */

	for (size_t i = 0; i < n; i++) {
		const struct rf_kind *k = NULL;
		struct noted one = p->noted.at[i];

		if (!is_template(one.kind) || one.after != NULL)
			continue;
		k = rf_kind_find(RF_LIT(RF_CONSTRAINTS_GROUP), RF_LIT("v1beta1"),
				 rf_json_str_at(one.before, "metadata", "name"));
		if (k != NULL && remove_constraints(api, a, k, err) < 0)
			return -err->code;
	}
	return 0;
}

static void take_out(struct rf_policies *p, const struct noted *n)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	rf_book_drop(p->book, n->before);
	mend(p, key_of(&a, n->kind, n->before));
	if (is_template(n->kind))
		rf_kind_unserve(kind_of_template(n->before));
}

static int take_in(struct rf_policies *p, const struct rf_kind *k, const struct rf_json *o,
		   struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (is_template(k))
		rf_kind_serve(kind_of_template(o), short_names_of(&a, o));
	if (rf_book_put(p->book, o, err) < 0)
		return -err->code;
	mend(p, key_of(&a, k, o));
	return 0;
}

/* A module that others need stays in force in the book, and would be missing at the next start. */
static int check_gone(const struct rf_policies *p, struct rf_err *err)
{
	for (size_t i = 0; i < p->noted.n; i++) {
		const struct noted *n = &p->noted.at[i];
		const char *why = "";

		if (!rf_policies_has(n->kind, n->after))
			why = rf_book_problem(p->book, n->before);
		if (why[0] != '\0')
			return rf_fail(
				err, RF_FORBIDDEN,
				"%.*s \"%.*s\" is forbidden: other policies need it, change or "
				"delete them first: %s",
				RF_STR(rf_str(n->kind->plural)),
				RF_STR(rf_json_str_at(n->before, "metadata", "name")), why);
	}
	return 0;
}

int rf_policies_apply(struct rf_policies *p, struct rf_err *err)
{
	if (p->noted.n == 0)
		return 0;
	rf_sync_forget(&p->sync);
	for (size_t i = 0; i < p->noted.n; i++) {
		const struct noted *n = &p->noted.at[i];

		if (!rf_policies_has(n->kind, n->after))
			take_out(p, n);
		else if (take_in(p, n->kind, n->after, err) < 0)
			return -err->code;
	}
	if (check_gone(p, err) < 0)
		return -err->code;
	rf_policies_forget(p);
	return 0;
}

/* --- the beginning -------------------------------------------------------------------------- */

static void remember_broken(struct rf_policies *p, struct rf_str key, const char *why)
{
	free(rf_map_set(&p->broken, key, strdup(why)));
}

static void report_broken(const struct rf_policies *p)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->broken, s)) != NULL;)
		rf_error("policy %.*s cannot be used: %s; until it is changed or deleted, what it "
			 "might judge is refused",
			 RF_STR(rf_map_key(s)), (const char *)s->value);
}

struct loading {
	struct rf_policies *p;
	const struct rf_kind *k;
};

static int load_row(void *ctx, const struct rf_row *row)
{
	struct loading *l = ctx;
	struct rf_err err = RF_ERR_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (rf_json_parse(&a, row->json, &o, &err) == 0 && !rf_policies_has(l->k, o))
		return 0;
	if (o == NULL || take_in(l->p, l->k, o, &err) < 0)
		remember_broken(l->p,
				rf_arena_printf(&a, "%.*s/%.*s", RF_STR(rf_kind_resource(&a, l->k)),
						RF_STR(row->name)),
				err.msg);
	return 0;
}

static void load_kind(struct rf_api *api, const struct rf_kind *k, struct rf_str ns)
{
	struct loading load = { api->policies, k };
	struct rf_list l = { .kind = k, .ns = ns, .each = load_row, .ctx = &load };
	struct rf_err err = RF_ERR_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_store_list(api->store, &l, &err) < 0)
		remember_broken(api->policies, rf_kind_resource(&a, k), err.msg);
}

void rf_policies_load(struct rf_api *api)
{
	struct rf_policies *p = api->policies;

	rf_book_free(p->book);
	p->book = rf_book_new();
	mend_all(p);
	rf_policies_forget(p);
	forget_ends(p);
	rf_sync_forget(&p->sync);
	rf_kind_unserve_all();
	load_kind(api, rf_kind_get("constrainttemplates"), RF_STR_EMPTY);
	for (const struct rf_kind *k = NULL; (k = rf_kind_next_constraint(k)) != NULL;)
		load_kind(api, k, RF_STR_EMPTY);
	/* Modules may need others that come after them: what still fails the second time is broken. */
	for (int i = 0; i < 2; i++)
		load_kind(api, rf_kind_get("configmaps"), RF_LIT(RF_BOOK_NAMESPACE));
	report_broken(p);
}

/* --- deletions ------------------------------------------------------------------------------ */

/* Gatekeeper does not ask about deletions unless it is told to, and its policies are written for that: one
 * that wants labels would keep what has none from being deleted. So deletions are judged by the templates
 * and constraints that speak of them, and by plain Rego, which always says what it is about. */
#define SPEAKS "DELETE"

struct picking {
	struct rf_api *api;
	struct rf_book *into;
	struct rf_str text;	  /* of a template, while its constraints are looked at */
	struct rf_json *template; /* NULL once it is in */
	bool again;		  /* the second time: errors count */
	struct rf_err *err;
};

static int pick_map(void *ctx, const struct rf_row *row)
{
	struct picking *p = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (rf_json_parse(&a, row->json, &o, p->err) < 0)
		return -p->err->code;
	if (!rf_book_is_policy(o) || rf_book_put(p->into, o, p->err) == 0)
		return 0;
	return p->again ? -p->err->code : 0;
}

static int pick_constraint(void *ctx, const struct rf_row *row)
{
	struct picking *p = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (!rf_str_contains(p->text, RF_LIT(SPEAKS)) &&
	    !rf_str_contains(row->json, RF_LIT(SPEAKS)))
		return 0;
	if (p->template != NULL && rf_book_put(p->into, p->template, p->err) < 0)
		return -p->err->code;
	p->template = NULL;
	if (rf_json_parse(&a, row->json, &o, p->err) < 0)
		return -p->err->code;
	return rf_book_put(p->into, o, p->err);
}

static int pick_template(void *ctx, const struct rf_row *row)
{
	struct picking p = *(struct picking *)ctx;
	struct rf_list l = { .each = pick_constraint, .ctx = &p };
	rf_auto(arena) a = RF_ARENA_INIT;

	l.kind = rf_kind_find(RF_LIT(RF_CONSTRAINTS_GROUP), RF_LIT("v1beta1"), row->name);
	p.text = row->json;
	if (l.kind == NULL)
		return 0;
	if (rf_json_parse(&a, row->json, &p.template, p.err) < 0)
		return -p.err->code;
	return rf_store_list(p.api->store, &l, p.err);
}

static int make_ends(struct rf_api *api, struct rf_err *err)
{
	rf_auto_ptr(book) made = rf_book_new();
	struct picking p = { .api = api, .into = made, .err = err };
	struct rf_list templates = { .kind = rf_kind_get("constrainttemplates"),
				     .each = pick_template,
				     .ctx = &p };
	struct rf_list maps = { .kind = rf_kind_get("configmaps"),
				.ns = RF_LIT(RF_BOOK_NAMESPACE),
				.each = pick_map,
				.ctx = &p };

	if (rf_store_list(api->store, &templates, err) < 0 ||
	    rf_store_list(api->store, &maps, err) < 0)
		return -err->code;
	p.again = true;
	if (rf_store_list(api->store, &maps, err) < 0)
		return -err->code;
	api->policies->ends = rf_take(made);
	return 0;
}

/* --- checking a policy ---------------------------------------------------------------------- */

/* Kind and short names become part of paths and of answers. */
static int check_names(struct rf_arena *a, const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(o, "spec", "crd", "spec", "names", "shortNames");
	struct rf_str kind = kind_of_template(o), name = rf_json_str_at(o, "metadata", "name");

	if (!rf_str_ieq(kind, name) || !rf_str_is_dns_label(name))
		return rf_fail(err, RF_INVALID,
			       "spec.crd.spec.names.kind: Invalid value: \"%.*s\": must be letters "
			       "and digits, and metadata.name the same in lower case",
			       RF_STR(kind));
	if (rf_json_len(list) > SHORT_NAMES_MAX)
		return rf_fail(
			err, RF_INVALID,
			"spec.crd.spec.names.shortNames: Too many: must have at most %d items",
			SHORT_NAMES_MAX);
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (!rf_str_is_dns_label(rf_json_str(rf_json_item(list, i))))
			return rf_fail(
				err, RF_INVALID,
				"spec.crd.spec.names.shortNames[%zu]: Invalid value: must be "
				"lower case letters and digits",
				i);
	return 0;
}

int rf_policies_check(struct rf_policies *p, struct rf_arena *a, const struct rf_kind *k,
		      const struct rf_json *old, const struct rf_json *o, struct rf_err *err)
{
	if (!rf_policies_has(k, o))
		return 0;
	if (is_template(k) && check_names(a, o, err) < 0)
		return -err->code;
	if (is_template(k) && old != NULL && !rf_str_eq(kind_of_template(old), kind_of_template(o)))
		return rf_fail(
			err, RF_INVALID,
			"spec.crd.spec.names.kind: Invalid value: \"%.*s\": field is immutable",
			RF_STR(kind_of_template(o)));
	return rf_book_check(p->book, o, err);
}

/* --- for those who judge -------------------------------------------------------------------- */

bool rf_policies_any(const struct rf_policies *p)
{
	return p->broken.n > 0 || !rf_book_is_empty(p->book);
}

struct rf_sync *rf_policies_sync(struct rf_policies *p)
{
	return &p->sync;
}

int rf_policies_book(struct rf_api *api, bool deletion, const struct rf_book **ret,
		     struct rf_err *err)
{
	struct rf_policies *p = api->policies;
	const struct rf_map_slot *s = rf_map_next(&p->broken, NULL);

	if (s != NULL)
		return rf_fail(err, RF_INTERNAL, "%.*s cannot be used, change or delete it: %s",
			       RF_STR(rf_map_key(s)), (const char *)s->value);
	if (deletion && p->ends == NULL && make_ends(api, err) < 0)
		return -err->code;
	*ret = deletion ? p->ends : p->book;
	return 0;
}
