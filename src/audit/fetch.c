/* Everything of every kind that an API server lets us list. GET and nothing else. */
#include "audit/private.h"

#include <stdio.h>

#define PAGE 500
#define PAGE_MEMORY ((size_t)1 << 30)	     /* of one page as a tree */
#define DISCOVERY_MEMORY ((size_t)256 << 20) /* of one answer */
#define GROUPS_MAX 500
#define KINDS_MAX 2000
#define TOKEN_MAX ((size_t)16 << 10)
#define REQUEST_MS 30000
#define TOTAL_MS 600000 /* what is not listed by then was not seen */

struct fetching {
	struct rf_audit *x;
	struct rf_kube *k;
	struct rf_str ns;
	struct rf_arena *names; /* what discovery said of the version at hand */
	struct rf_map done;	/* "group/plural": one version of a kind is enough */
	size_t kinds;
	int64_t start_ns;
};

static bool has_verb(const struct rf_json *resource, const char *verb)
{
	const struct rf_json *verbs = rf_json_at(resource, "verbs");

	for (size_t i = 0; i < rf_json_len(verbs); i++)
		if (rf_str_is(rf_json_str(rf_json_item(verbs, i)), verb))
			return true;
	return false;
}

static void query_escape(struct rf_buf *out, struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';

		if (plain)
			rf_buf_add_c(out, (char)c);
		else
			rf_buf_printf(out, "%%%02X", c);
	}
}

static struct rf_str page_path(struct rf_arena *a, struct rf_str collection, int limit,
			       struct rf_str token)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_add(&b, collection);
	rf_buf_printf(&b, "?limit=%d", limit);
	if (token.n > 0) {
		rf_buf_puts(&b, "&continue=");
		query_escape(&b, token);
	}
	return rf_arena_str(a, rf_buf_str(&b));
}

struct listing {
	struct rf_str collection, kind, api_version;
	struct rf_buf token; /* where the next page begins */
	int limit;
	bool again; /* the list was begun anew once already */
};

/* The items of one page, with the apiVersion and kind that servers leave out. */
static int keep_page(struct fetching *f, struct rf_arena *page, const struct listing *l,
		     const struct rf_json *list, struct rf_err *err)
{
	const struct rf_json *items = rf_json_at(list, "items");

	for (size_t i = 0; i < rf_json_len(items); i++) {
		struct rf_json *o = rf_json_item(items, i);

		if (!rf_json_is(o, RF_JSON_OBJECT))
			continue;
		rf_json_set_str(page, o, "apiVersion", l->api_version);
		rf_json_set_str(page, o, "kind", l->kind);
		if (rf_audit_add(f->x, o, RF_STR_EMPTY, err) < 0)
			return -err->code;
	}
	return 0;
}

/* Takes back what was kept of a list that must be begun anew. */
static void drop_since(struct rf_audit *x, size_t mark)
{
	while (x->all.n > mark) {
		struct au_obj *o = x->all.at[--x->all.n];

		x->of[o->k].n--;
	}
}

/* One page; *ret_more: another one follows. */
static int one_page(struct fetching *f, struct listing *l, size_t mark, bool *ret_more,
		    struct rf_err *err)
{
	rf_auto(arena) page = RF_ARENA_CAPPED(PAGE_MEMORY);
	struct rf_json *list = NULL;
	struct rf_str token;
	int r = rf_kube_get(f->k, &page,
			    page_path(&page, l->collection, l->limit, rf_buf_str(&l->token)), &list,
			    err);

	*ret_more = true;
	if (r == -RF_TOO_LARGE && l->limit > 1) { /* smaller bites */
		l->limit = l->limit / 8 > 0 ? l->limit / 8 : 1;
		return 0;
	}
	if (r == -RF_GONE && !l->again &&
	    l->token.n > 0) { /* the list changed too much while it was read */
		l->again = true;
		drop_since(f->x, mark);
		rf_buf_clear(&l->token);
		return 0;
	}
	if (r < 0)
		return r;
	if (keep_page(f, &page, l, list, err) < 0)
		return -err->code;
	token = rf_json_str_at(list, "metadata", "continue");
	if (token.n > TOKEN_MAX || (token.n > 0 && rf_str_eq(token, rf_buf_str(&l->token))))
		return rf_fail(err, RF_INTERNAL, "the server does not go on with its list");
	rf_buf_clear(&l->token);
	rf_buf_add(&l->token, token);
	*ret_more = token.n > 0;
	return 0;
}

static bool is_late(const struct fetching *f)
{
	return rf_mono_ns(rf_clock_system()) - f->start_ns > (int64_t)TOTAL_MS * 1000000;
}

static int list_kind(struct fetching *f, struct listing *l, struct rf_err *err)
{
	size_t mark = f->x->all.n;
	bool more = true;

	while (more) {
		if (is_late(f))
			return rf_fail(err, RF_TIMEOUT, "the audit took longer than %d minutes",
				       TOTAL_MS / 60000);
		if (f->x->truncated)
			return rf_fail(err, RF_TOO_LARGE,
				       "the memory an audit may take is used up; judge one "
				       "namespace at a time with "
				       "--namespace");
		if (one_page(f, l, mark, &more, err) < 0)
			return -err->code;
	}
	return 0;
}

/* Events tell what happened, not how things stand; there are very many of them. Metrics are no objects. */
static bool is_left_out(struct rf_str group, struct rf_str kind)
{
	return rf_str_is(kind, "Event") || rf_str_is(kind, "ComponentStatus") ||
	       rf_str_is(group, "metrics.k8s.io");
}

static struct rf_str collection_of(struct fetching *f, struct rf_str group, struct rf_str version,
				   const struct rf_json *resource)
{
	struct rf_kube_res res = {
		.group = rf_arena_cstr(f->names, group),
		.version = rf_arena_cstr(f->names, version),
		.plural = rf_arena_cstr(f->names, rf_json_str_at(resource, "name")),
		.namespaced = rf_json_is_true(rf_json_at(resource, "namespaced"))
	};

	return rf_kube_path(f->names, &res, f->ns, RF_STR_EMPTY, NULL);
}

/* Whether it was the server that failed, and not one of the APIs that others serve behind it. */
static bool is_gone(struct fetching *f, int r)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *v = NULL;

	if (r == -RF_UNAUTHENTICATED)
		return true;
	return (r == -RF_UNAVAILABLE || r == -RF_TIMEOUT) && !is_late(f) &&
	       rf_kube_get(f->k, &a, RF_LIT("/api"), &v, NULL) < 0;
}

/* Reaching nobody is the end of the audit; anything else is this kind's alone. */
static int fetch_resource(struct fetching *f, struct rf_str group, struct rf_str version,
			  const struct rf_json *resource, struct rf_err *err)
{
	struct rf_str plural = rf_json_str_at(resource, "name"),
		      kind = rf_json_str_at(resource, "kind");
	struct rf_str key = rf_arena_printf(f->names, "%.*s/%.*s", RF_STR(group), RF_STR(plural));
	struct listing l = { .token = RF_BUF_INIT, .limit = PAGE };
	int r;

	if (plural.n == 0 || memchr(plural.p, '/', plural.n) != NULL || kind.n == 0 ||
	    !has_verb(resource, "list") || is_left_out(group, kind) ||
	    rf_map_get(&f->done, key) != NULL || f->kinds >= KINDS_MAX)
		return 0;
	rf_map_set(&f->done, key, f);
	f->kinds++;
	l.collection = collection_of(f, group, version, resource);
	l.kind = kind;
	l.api_version =
		group.n > 0 ? rf_arena_printf(f->names, "%.*s/%.*s", RF_STR(group), RF_STR(version))
			    : version;
	r = list_kind(f, &l, err);
	rf_buf_done(&l.token);
	if (r < 0 && is_gone(f, r))
		return r;
	rf_audit_kind(f->x, kind, group, r < 0 ? err->msg : NULL);
	return 0;
}

static struct rf_str version_path(struct rf_arena *a, struct rf_str group, struct rf_str version)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_puts(&b, group.n > 0 ? "/apis/" : "/api/");
	if (group.n > 0) {
		query_escape(&b, group);
		rf_buf_add_c(&b, '/');
	}
	query_escape(&b, version);
	return rf_arena_str(a, rf_buf_str(&b));
}

static int fetch_version(struct fetching *f, struct rf_str group, struct rf_str version,
			 struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(DISCOVERY_MEMORY);
	const struct rf_json *all;
	struct rf_json *list = NULL;
	int r = is_late(f) ? rf_fail(err, RF_TIMEOUT, "the audit took longer than %d minutes",
				     TOTAL_MS / 60000)
			   : rf_kube_get(f->k, &a, version_path(&a, group, version), &list, err);

	if (r < 0) {
		if (group.n == 0 || is_gone(f, r))
			return r;
		rf_audit_kind(f->x, RF_LIT("*"), group, err->msg);
		return 0;
	}
	f->names = &a;
	all = rf_json_at(list, "resources");
	for (size_t i = 0; i < rf_json_len(all); i++)
		if (fetch_resource(f, group, version, rf_json_item(all, i), err) < 0)
			return -err->code;
	return 0;
}

static int fetch_group(struct fetching *f, const struct rf_json *group, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(group, "name");
	const struct rf_json *versions = rf_json_at(group, "versions");

	/* The preferred version first; older ones for kinds that only they have. */
	if (fetch_version(f, name, rf_json_str_at(group, "preferredVersion", "version"), err) < 0)
		return -err->code;
	for (size_t i = 0; i < RF_MIN(rf_json_len(versions), 16u); i++)
		if (!rf_str_eq(rf_json_str_at(rf_json_item(versions, i), "version"),
			       rf_json_str_at(group, "preferredVersion", "version")) &&
		    fetch_version(f, name, rf_json_str_at(rf_json_item(versions, i), "version"),
				  err) < 0)
			return -err->code;
	return 0;
}

static int fetch_all(struct fetching *f, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(DISCOVERY_MEMORY);
	struct rf_json *list = NULL;
	const struct rf_json *groups;

	if (fetch_version(f, RF_STR_EMPTY, RF_LIT("v1"), err) < 0 ||
	    rf_kube_get(f->k, &a, RF_LIT("/apis"), &list, err) < 0)
		return -err->code;
	groups = rf_json_at(list, "groups");
	for (size_t i = 0; i < RF_MIN(rf_json_len(groups), (size_t)GROUPS_MAX); i++)
		if (fetch_group(f, rf_json_item(groups, i), err) < 0)
			return -err->code;
	return 0;
}

int rf_audit_fetch(struct rf_audit *x, struct rf_kube *k, struct rf_str ns, struct rf_err *err)
{
	struct fetching f = { .x = x, .k = k, .ns = ns, .start_ns = rf_mono_ns(rf_clock_system()) };
	int r;

	x->cluster = true;
	rf_kube_set_timeout(k, REQUEST_MS);
	r = fetch_all(&f, err);
	rf_map_done(&f.done);
	return r;
}
