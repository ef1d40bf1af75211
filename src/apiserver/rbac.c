#include "apiserver/rbac.h"

#include "kube/kube.h"

struct binding {
	struct rf_str ns; /* empty: everywhere */
	const struct rf_json *subjects;
	struct rf_str role_kind, role_name;
	const struct rf_json *rules; /* NULL: the role is not there */
};

struct rf_rbac {
	struct rf_store *store;
	bool fresh;
	uint64_t generation;
	struct rf_arena arena; /* everything below */
	struct rf_map roles;   /* "ns/name", cluster roles "/name": rf_json rules */
	RF_VEC(struct binding) bindings;
};

struct rf_rbac *rf_rbac_new(struct rf_store *store)
{
	struct rf_rbac *b = rf_new(struct rf_rbac);

	b->store = store;
	return b;
}

static void forget(struct rf_rbac *b)
{
	rf_map_done(&b->roles);
	rf_vec_clear(&b->bindings);
	rf_arena_done(&b->arena);
	b->arena = (struct rf_arena)RF_ARENA_INIT;
	b->fresh = false;
}

void rf_rbac_free(struct rf_rbac *b)
{
	if (b == NULL)
		return;
	forget(b);
	rf_vec_done(&b->bindings);
	free(b);
}

void rf_rbac_changed(struct rf_rbac *b)
{
	b->fresh = false;
	b->generation++;
}

uint64_t rf_rbac_generation(const struct rf_rbac *b)
{
	return b->generation;
}

/* --- loading -------------------------------------------------------------------------------- */

static struct rf_str role_key(struct rf_arena *a, struct rf_str ns, struct rf_str name)
{
	return rf_arena_printf(a, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
}

static int load_role(void *ctx, const struct rf_row *row)
{
	struct rf_rbac *b = ctx;
	struct rf_json *o = NULL, *rules;

	if (rf_json_parse(&b->arena, row->json, &o, NULL) < 0)
		return 0;
	rules = rf_json_get(o, RF_LIT("rules"));
	if (!rf_json_is(rules, RF_JSON_ARRAY))
		rules = rf_json_array(&b->arena);
	rf_map_set(&b->roles, role_key(&b->arena, row->ns, row->name), rules);
	return 0;
}

static int load_binding(void *ctx, const struct rf_row *row)
{
	struct rf_rbac *b = ctx;
	struct rf_json *o = NULL;
	struct binding one = { .ns = rf_arena_str(&b->arena, row->ns) };
	bool cluster;

	if (rf_json_parse(&b->arena, row->json, &o, NULL) < 0)
		return 0;
	one.subjects = rf_json_get(o, RF_LIT("subjects"));
	one.role_kind = rf_json_str_at(o, "roleRef", "kind");
	one.role_name = rf_json_str_at(o, "roleRef", "name");
	cluster = rf_str_is(one.role_kind, "ClusterRole");
	one.rules = rf_map_get(&b->roles,
			       role_key(&b->arena, cluster ? RF_STR_EMPTY : one.ns, one.role_name));
	rf_vec_push(&b->bindings, one);
	return 0;
}

static void load(struct rf_rbac *b, const char *plural, int (*each)(void *, const struct rf_row *))
{
	struct rf_list l = { .kind = rf_kind_get(plural), .each = each, .ctx = b };
	struct rf_err err = RF_ERR_INIT;

	/* Rules that cannot be read grant nothing: what is missing is denied. */
	if (rf_store_list(b->store, &l, &err) < 0)
		rf_error("read %s: %s", plural, err.msg);
}

static void refresh(struct rf_rbac *b)
{
	if (b->fresh)
		return;
	forget(b);
	load(b, "roles", load_role);
	load(b, "clusterroles", load_role);
	load(b, "rolebindings", load_binding);
	load(b, "clusterrolebindings", load_binding);
	b->fresh = true;
}

const struct rf_json *rf_rbac_role_rules(struct rf_rbac *b, struct rf_str kind, struct rf_str ns,
					 struct rf_str name)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	refresh(b);
	if (rf_str_is(kind, "ClusterRole"))
		ns = RF_STR_EMPTY;
	return rf_map_get(&b->roles, role_key(&a, ns, name));
}

/* --- matching ------------------------------------------------------------------------------- */

static bool has(const struct rf_json *list, struct rf_str what)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_str s = rf_json_str(rf_json_item(list, i));

		if (rf_str_is(s, "*") || rf_str_eq(s, what))
			return true;
	}
	return false;
}

/* A rule names "pods", "pods/log", a star for all, or a star and a subresource. */
static bool has_resource(const struct rf_json *list, struct rf_str resource, struct rf_str sub)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_str s = rf_json_str(rf_json_item(list, i)), head;
		bool slash;

		if (rf_str_is(s, "*"))
			return true;
		slash = rf_str_cut(&s, '/', &head);
		if (slash != (sub.n > 0) || (slash && !rf_str_eq(s, sub)))
			continue;
		if (rf_str_eq(head, resource) || (slash && rf_str_is(head, "*")))
			return true;
	}
	return false;
}

static bool path_matches(struct rf_str pattern, struct rf_str path)
{
	if (rf_str_is(pattern, "*") || rf_str_eq(pattern, path))
		return true;
	if (!rf_str_ends(pattern, RF_LIT("*")))
		return false;
	return rf_str_starts(path, rf_str_n(pattern.p, pattern.n - 1));
}

static bool rule_allows(const struct rf_json *rule, const struct rf_ask *ask)
{
	const struct rf_json *names = rf_json_at(rule, "resourceNames");
	const struct rf_json *urls = rf_json_at(rule, "nonResourceURLs");

	if (!has(rf_json_at(rule, "verbs"), ask->verb))
		return false;
	if (ask->path.n > 0) {
		for (size_t i = 0; i < rf_json_len(urls); i++)
			if (path_matches(rf_json_str(rf_json_item(urls, i)), ask->path))
				return true;
		return false;
	}
	if (!has(rf_json_at(rule, "apiGroups"), ask->group) ||
	    !has_resource(rf_json_at(rule, "resources"), ask->resource, ask->sub))
		return false;
	if (rf_json_len(names) == 0)
		return true;
	for (size_t i = 0; i < rf_json_len(names); i++)
		if (ask->name.n > 0 && rf_str_eq(rf_json_str(rf_json_item(names, i)), ask->name))
			return true;
	return false;
}

static bool subject_is(const struct rf_json *subject, const struct rf_user *u, struct rf_str ns)
{
	struct rf_str kind = rf_json_str_at(subject, "kind");
	struct rf_str name = rf_json_str_at(subject, "name");
	struct rf_str where = rf_json_str_at(subject, "namespace");
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_str_is(kind, "User"))
		return rf_str_is(name, "*") || rf_str_eq(name, u->name);
	if (rf_str_is(kind, "Group"))
		return rf_user_in(u, rf_arena_cstr(&a, name));
	if (rf_str_is(kind, "ServiceAccount"))
		return rf_str_eq(u->name,
				 rf_arena_printf(&a, "system:serviceaccount:%.*s:%.*s",
						 RF_STR(where.n > 0 ? where : ns), RF_STR(name)));
	return false;
}

static bool binding_is_for(const struct binding *b, const struct rf_user *u, struct rf_str ns)
{
	if (b->rules == NULL || (b->ns.n > 0 && !rf_str_eq(b->ns, ns)))
		return false;
	for (size_t i = 0; i < rf_json_len(b->subjects); i++)
		if (subject_is(rf_json_item(b->subjects, i), u, b->ns))
			return true;
	return false;
}

bool rf_rbac_allows(struct rf_rbac *b, const struct rf_user *u, const struct rf_ask *ask)
{
	/* Administrators keep their way in even if somebody broke the rules themselves. */
	if (rf_user_in(u, RF_MASTERS))
		return true;
	refresh(b);
	for (size_t i = 0; i < b->bindings.n; i++) {
		const struct binding *one = &b->bindings.at[i];

		if (!binding_is_for(one, u, ask->ns))
			continue;
		for (size_t j = 0; j < rf_json_len(one->rules); j++)
			if (rule_allows(rf_json_item(one->rules, j), ask))
				return true;
	}
	return false;
}

struct rf_json *rf_rbac_rules(struct rf_rbac *b, struct rf_arena *a, const struct rf_user *u,
			      struct rf_str ns)
{
	struct rf_json *all = rf_json_array(a);

	refresh(b);
	if (rf_user_in(u, RF_MASTERS)) {
		rf_json_push(
			a, all,
			rf_json_make(a, "{'verbs':['*'],'apiGroups':['*'],'resources':['*']}"));
		rf_json_push(a, all, rf_json_make(a, "{'verbs':['*'],'nonResourceURLs':['*']}"));
	}
	for (size_t i = 0; i < b->bindings.n; i++) {
		const struct binding *one = &b->bindings.at[i];

		if (!binding_is_for(one, u, ns))
			continue;
		for (size_t j = 0; j < rf_json_len(one->rules); j++)
			rf_json_push(a, all, rf_json_clone(a, rf_json_item(one->rules, j)));
	}
	return all;
}
