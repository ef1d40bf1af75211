#include "apiserver/hub.h"

#include "apiserver/rbac.h"
#include "apiserver/table.h"
#include "kube/kube.h"

#define BOOKMARK_EVERY_MS 60000
#define WATCH_LONGEST_S 86400

struct watcher {
	struct watcher *next;
	struct rf_hub *hub;
	struct rf_http_req *http;
	const struct rf_kind *kind;
	struct rf_user user;
	uint64_t allowed_at;	/* the generation of the rules that allowed it */
	struct rf_str ns, name; /* empty: all */
	struct rf_str version;	/* asked for, where it is not the kind's own */
	struct rf_filter filter;
	enum rf_form form;
	bool include_objects;
	bool bookmarks;
	bool dead; /* the connection is gone; freed at the next sweep */
	int64_t ends_ns;
	int64_t bookmark_ns;
	size_t backlog; /* what the beginning alone left to be taken */
};

struct rf_hub {
	struct rf_api *api;
	struct watcher *all;
	size_t n;
};

struct rf_hub *rf_hub_new(struct rf_api *api)
{
	struct rf_hub *h = rf_new(struct rf_hub);

	h->api = api;
	return h;
}

size_t rf_hub_count(const struct rf_hub *h)
{
	return h->n;
}

/* --- sending -------------------------------------------------------------------------------- */

static const char *const TYPE_NAME[] = { "ADDED", "MODIFIED", "DELETED" };

static void write_as_asked(struct watcher *w, struct rf_buf *out, struct rf_str json)
{
	struct rf_route t = { .kind = w->kind, .version = w->version };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (rf_json_parse(&a, json, &o, NULL) == 0)
		rf_json_write(out, rf_as_asked(&a, &t, o));
	else
		rf_buf_add(out, json);
}

static void write_object(struct watcher *w, struct rf_buf *out, struct rf_str json,
			 const struct rf_json *parsed)
{
	struct rf_table t;

	if (w->form == RF_FORM_FULL) {
		if (w->version.n > 0)
			write_as_asked(w, out, json);
		else
			rf_buf_add(out, json);
		return;
	}
	if (w->form == RF_FORM_META) {
		rf_table_meta(out, parsed);
		return;
	}
	rf_table_begin(&t, out, w->kind, rf_wall_ms(w->hub->api->clock), w->include_objects);
	rf_table_row(&t, parsed);
	rf_table_end(&t, rf_json_str_at(parsed, "metadata", "resourceVersion"), RF_STR_EMPTY);
}

static void emit(struct watcher *w, const char *type, struct rf_str json,
		 const struct rf_json *parsed)
{
	rf_auto(buf) out = RF_BUF_INIT;

	if (w->dead)
		return;
	rf_buf_printf(&out, "{\"type\":\"%s\",\"object\":", type);
	write_object(w, &out, json, parsed);
	rf_buf_puts(&out, "}\n");
	rf_http_stream_write(w->http, rf_buf_str(&out));
}

static void finish(struct watcher *w)
{
	if (w->dead)
		return;
	w->dead = true;
	rf_http_stream_end(w->http);
}

static void send_error(struct rf_http_req *http, const struct rf_err *err)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_buf_puts(&out, "{\"type\":\"ERROR\",\"object\":");
	rf_status_write(&out, err, RF_STR_EMPTY, NULL);
	out.n--; /* the newline inside */
	rf_buf_puts(&out, "}\n");
	rf_http_stream_write(http, rf_buf_str(&out));
}

static void end_forbidden(struct watcher *w)
{
	struct rf_err err = RF_ERR_INIT;

	if (w->dead)
		return;
	rf_fail(&err, RF_FORBIDDEN, "User \"%.*s\" may no longer watch this", RF_STR(w->user.name));
	send_error(w->http, &err);
	finish(w);
}

static void send_bookmark(struct watcher *w, bool initial_end)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *o = rf_json_make(
		&a,
		"{'kind':%s,'apiVersion':%S,'metadata':{'resourceVersion':%S,'creationTimestamp':%"
		"j}}",
		w->kind->kind, rf_kind_api_version(&a, w->kind),
		rf_arena_printf(&a, "%lld", (long long)rf_store_rv(w->hub->api->store)),
		rf_json_null(&a));

	if (initial_end)
		rf_json_set_str(&a, rf_json_ensure(&a, o, "metadata", "annotations"),
				"k8s.io/initial-events-end", RF_LIT("true"));
	rf_json_write(&text, o);
	w->bookmark_ns = rf_mono_ns(w->hub->api->clock) + BOOKMARK_EVERY_MS * INT64_C(1000000);
	emit(w, "BOOKMARK", rf_buf_str(&text), o);
}

/* --- what concerns whom ------------------------------------------------------------------------ */

struct parsed_change {
	const struct rf_change *c;
	struct rf_arena *a;
	struct rf_json *now, *before; /* NULL until somebody asks */
};

static const struct rf_json *parsed(struct parsed_change *p, struct rf_json **slot,
				    struct rf_str text)
{
	if (*slot == NULL && text.n > 0)
		rf_json_parse(p->a, text, slot, NULL);
	return *slot;
}

static bool concerns(const struct watcher *w, const struct rf_change *c)
{
	return w->kind == c->kind && (w->ns.n == 0 || rf_str_eq(w->ns, c->ns)) &&
	       (w->name.n == 0 || rf_str_eq(w->name, c->name));
}

/* A selector makes events of its own: what comes to match is added, what no longer does deleted. If
 * the state before is forgotten, the answer is one that a client with either memory can follow. */
static void tell_filtered(struct watcher *w, struct parsed_change *p)
{
	const struct rf_change *c = p->c;
	const struct rf_json *now = parsed(p, &p->now, c->json);
	const struct rf_json *before = parsed(p, &p->before, c->prev);
	bool matches = rf_filter_match(&w->filter, now);
	bool matched = before != NULL ? rf_filter_match(&w->filter, before) : c->type != RF_ADDED;

	if (c->type == RF_DELETED && (matches || matched))
		emit(w, "DELETED", c->json, now);
	else if (c->type != RF_DELETED && matches)
		emit(w, matched ? "MODIFIED" : "ADDED", c->json, now);
	else if (c->type != RF_DELETED && matched)
		emit(w, "DELETED", c->json, now);
}

/* A watch lives longer than the permission it began with: a name may by now belong to others. */
static bool still_allowed(struct watcher *w)
{
	struct rf_rbac *rbac = w->hub->api->rbac;
	struct rf_route route = { .kind = w->kind, .ns = w->ns, .name = w->name };
	struct rf_ask ask = rf_rbac_ask(&route, "watch");

	if (w->allowed_at == rf_rbac_generation(rbac))
		return true;
	w->allowed_at = rf_rbac_generation(rbac);
	return rf_rbac_allows(rbac, &w->user, &ask);
}

static void tell(struct watcher *w, struct parsed_change *p)
{
	if (w->dead || !concerns(w, p->c))
		return;
	if (!still_allowed(w)) {
		end_forbidden(w);
		return;
	}
	if (w->filter.labels != NULL || w->filter.fields != NULL)
		tell_filtered(w, p);
	else
		emit(w, TYPE_NAME[p->c->type], p->c->json,
		     w->form == RF_FORM_FULL ? NULL : parsed(p, &p->now, p->c->json));
	if (!w->dead && rf_http_stream_pending(w->http) > RF_WATCH_PENDING_MAX + w->backlog)
		finish(w);
}

static void sweep(struct rf_hub *h)
{
	for (struct watcher **p = &h->all; *p != NULL;) {
		struct watcher *w = *p;

		if (!w->dead) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		h->n--;
		free(w);
	}
}

/* Another account of its name may follow; what was this one's ends with it. */
static void end_watches_of(struct rf_hub *h, struct rf_str ns, struct rf_str account)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str name =
		rf_arena_printf(&a, "system:serviceaccount:%.*s:%.*s", RF_STR(ns), RF_STR(account));

	for (struct watcher *w = h->all; w != NULL; w = w->next)
		if (rf_str_eq(w->user.name, name))
			end_forbidden(w);
}

void rf_hub_publish(void *hub, const struct rf_change *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct parsed_change p = { .c = c, .a = &a };
	struct rf_hub *h = hub;

	if (c->type == RF_DELETED && rf_kind_is(c->kind, "serviceaccounts"))
		end_watches_of(h, c->ns, c->name);
	for (struct watcher *w = h->all; w != NULL; w = w->next)
		tell(w, &p);
}

void rf_hub_tick(struct rf_hub *h)
{
	int64_t now = rf_mono_ns(h->api->clock);

	for (struct watcher *w = h->all; w != NULL; w = w->next) {
		if (w->dead)
			continue;
		if (now >= w->ends_ns)
			finish(w);
		else if (w->bookmarks && now >= w->bookmark_ns)
			send_bookmark(w, false);
	}
	sweep(h);
}

void rf_hub_free(struct rf_hub *h)
{
	if (h == NULL)
		return;
	for (struct watcher *w = h->all; w != NULL; w = w->next)
		finish(w);
	sweep(h);
	free(h);
}

/* --- starting ------------------------------------------------------------------------------- */

static void on_close(void *ctx)
{
	struct watcher *w = ctx;

	w->dead = true; /* freed by the next tick: we may be inside a publish */
}

static int told_row(void *ctx, const struct rf_row *row)
{
	struct watcher *w = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (w->name.n > 0 && !rf_str_eq(w->name, row->name))
		return 0;
	if (rf_json_parse(&a, row->json, &o, NULL) < 0)
		return 0;
	if (rf_filter_match(&w->filter, o))
		emit(w, "ADDED", row->json, o);
	return w->dead ? 1 : 0;
}

static int send_state(struct watcher *w, struct rf_err *err)
{
	struct rf_list l = { .kind = w->kind, .ns = w->ns, .each = told_row, .ctx = w };

	return rf_store_list(w->hub->api->store, &l, err);
}

static int told_change(void *ctx, const struct rf_change *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct parsed_change p = { .c = c, .a = &a };
	struct watcher *w = ctx;

	tell(w, &p);
	return w->dead ? 1 : 0;
}

static struct rf_user user_copy(struct rf_arena *a, const struct rf_user *u)
{
	struct rf_user copy = *u;

	copy.name = rf_arena_str(a, u->name);
	copy.uid = rf_arena_str(a, u->uid);
	for (size_t i = 0; i < u->n_groups; i++)
		copy.groups[i] = rf_arena_str(a, u->groups[i]);
	return copy;
}

static struct watcher *watcher_new(struct rf_req *r)
{
	struct watcher *w = rf_new(struct watcher);
	struct rf_arena *a = r->http->arena; /* lives as long as the stream */

	w->hub = r->api->hub;
	w->http = r->http;
	w->kind = r->route.kind;
	w->user = user_copy(a, &r->user);
	w->allowed_at = rf_rbac_generation(r->api->rbac);
	w->ns = rf_arena_str(a, r->route.ns);
	w->name = rf_arena_str(a, r->route.name);
	w->version = rf_arena_str(a, r->route.version);
	w->form = r->form;
	w->include_objects = r->include_objects;
	w->bookmarks = rf_query_true(r, "allowWatchBookmarks");
	return w;
}

/* Where a watch begins: at now, at the state of now, or behind a resourceVersion. */
struct start {
	bool state;    /* send what exists first */
	bool mark_end; /* and say when that was all */
	int64_t after; /* if not state */
};

static int read_rv(struct rf_req *r, int64_t *ret, struct rf_err *err)
{
	struct rf_str text = rf_query(r, "resourceVersion");

	*ret = 0;
	if (text.n > 0 && (rf_str_int(text, ret, NULL) < 0 || *ret < 0))
		return rf_fail(err, RF_BAD_REQUEST,
			       "resourceVersion: Invalid value: \"%.*s\": must be a number",
			       RF_STR(text));
	if (*ret > rf_store_rv(r->api->store))
		return rf_fail(err, RF_TIMEOUT, "Too large resource version: %lld, current: %lld",
			       (long long)*ret, (long long)rf_store_rv(r->api->store));
	return 0;
}

static int read_start(struct rf_req *r, struct start *ret, struct rf_err *err)
{
	struct rf_str initial = rf_query(r, "sendInitialEvents");
	struct rf_str match = rf_query(r, "resourceVersionMatch");

	*ret = (struct start){ .state = false };
	if (read_rv(r, &ret->after, err) < 0)
		return -err->code;
	if (initial.n > 0) {
		if (!rf_str_is(match, "NotOlderThan"))
			return rf_fail(
				err, RF_INVALID,
				"resourceVersionMatch: Forbidden: sendInitialEvents requires "
				"setting resourceVersionMatch to NotOlderThan");
		ret->state = rf_str_is(initial, "true") || rf_str_is(initial, "1");
		ret->mark_end = ret->state;
		if (!ret->state && ret->after == 0)
			ret->after = rf_store_rv(r->api->store);
		return 0;
	}
	if (match.n > 0)
		return rf_fail(err, RF_INVALID,
			       "resourceVersionMatch: Forbidden: may only be set on a watch "
			       "together with sendInitialEvents");
	ret->state = ret->after == 0;
	return 0;
}

static int64_t watch_ends(struct rf_req *r)
{
	int64_t seconds = 0;

	rf_str_int(rf_query(r, "timeoutSeconds"), &seconds, NULL);
	if (seconds <= 0) { /* spread, so that clients do not come back all at once */
		uint16_t spread;

		rf_rand_bytes(&spread, sizeof(spread));
		seconds = 1800 + spread % 1800;
	}
	seconds = RF_MIN(seconds, WATCH_LONGEST_S);
	if (r->user.until_s > 0)
		seconds = RF_MIN(seconds, r->user.until_s - rf_wall_ms(r->api->clock) / 1000);
	return rf_mono_ns(r->api->clock) + seconds * INT64_C(1000000000);
}

struct search {
	struct rf_str ns;
	bool born;
};

static int look_for_birth(void *ctx, const struct rf_change *c)
{
	struct search *s = ctx;

	s->born |= c->type == RF_ADDED && rf_str_eq(c->name, s->ns);
	return s->born ? 1 : 0;
}

/* What happened in an earlier namespace of this name is not for those who have it now. */
static int check_birth(struct watcher *w, const struct start *start, struct rf_err *err)
{
	struct search s = { w->ns, false };

	if (s.ns.n == 0)
		return 0;
	if (rf_store_history(w->hub->api->store, rf_kind_get("namespaces"), start->after,
			     look_for_birth, &s, err) < 0)
		return -err->code;
	if (!s.born)
		return 0;
	return rf_fail(err, RF_GONE, "too old resource version: %lld: namespace \"%.*s\" is newer",
		       (long long)start->after, RF_STR(s.ns));
}

static int catch_up(struct watcher *w, const struct start *start, struct rf_err *err)
{
	struct rf_store *s = w->hub->api->store;
	int r;

	if (!start->state && check_birth(w, start, err) < 0)
		return -err->code;
	if (!start->state)
		return rf_store_history(s, w->kind, start->after, told_change, w, err);
	r = send_state(w, err);
	if (r == 0 && start->mark_end)
		send_bookmark(w, true);
	return r;
}

/* One tenant must not take all the watches there are. */
static int check_count(struct rf_req *r, struct rf_err *err)
{
	struct rf_hub *h = r->api->hub;
	size_t own = 0, waiting = 0;

	if (h->n >= RF_WATCHERS_MAX)
		return rf_fail(err, RF_EXHAUSTED, "there are %d watches already; try again later",
			       RF_WATCHERS_MAX);
	if (rf_user_is_platform(&r->user) || rf_user_node(&r->user).n > 0)
		return 0;
	for (const struct watcher *w = h->all; w != NULL; w = w->next) {
		if (w->dead || !rf_str_eq(w->user.name, r->user.name))
			continue;
		own++;
		waiting += rf_http_stream_pending(w->http);
	}
	if (waiting > RF_USER_PENDING_MAX)
		return rf_fail(err, RF_EXHAUSTED,
			       "user \"%.*s\" has yet to read %zu bytes of its watches; read them "
			       "first",
			       RF_STR(r->user.name), waiting);
	if (own >= RF_WATCHERS_PER_USER)
		return rf_fail(err, RF_EXHAUSTED, "user \"%.*s\" has %d watches already; end some",
			       RF_STR(r->user.name), RF_WATCHERS_PER_USER);
	return 0;
}

static void add_watcher(struct rf_hub *h, struct watcher *w)
{
	w->next = h->all;
	h->all = w;
	h->n++;
}

int rf_verb_watch(struct rf_req *r, struct rf_err *err)
{
	struct watcher *w;
	struct start start;

	if (check_count(r, err) < 0 || read_start(r, &start, err) < 0)
		return -err->code;
	w = watcher_new(r);
	if (rf_filter_read(r, r->http->arena, &w->filter, err) < 0) {
		free(w);
		return -err->code;
	}
	w->ends_ns = watch_ends(r);
	w->bookmark_ns = rf_mono_ns(r->api->clock) + BOOKMARK_EVERY_MS * INT64_C(1000000);
	add_watcher(r->api->hub, w);
	rf_http_stream_begin(r->http, 200, "application/json");
	rf_http_on_close(r->http, on_close, w);
	if (catch_up(w, &start, err) < 0 && !w->dead) {
		send_error(w->http, err);
		finish(w);
	}
	if (!w->dead)
		w->backlog = rf_http_stream_pending(w->http);
	return 0;
}
