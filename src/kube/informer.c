/* A copy of a collection that follows the server: list in pages, then watch from where the list
 * ended, for ever. One timer drives it: every step, failed or not, sets the timer for the next one,
 * so no step is taken from inside an answer to the last, and stopping from a callback is safe. */
#include "kube/private.h"

#include <stdio.h>

#define PAGE 500
#define EVENT_MAX ((size_t)4 << 20)    /* one line of a watch */
#define PARSED_MAX ((size_t)512 << 20) /* a page of a list, as a tree */
#define PAUSE_MIN_MS 50
#define PAUSE_MAX_MS 5000
#define IDLE_MS 90000
#define WATCH_S 300 /* the server ends a watch after this; then the next one follows */

struct entry {
	void *block;
	struct rf_json *tree; /* in block */
	uint64_t generation;  /* of the last list that held it, or of the time it came */
};

struct rf_informer {
	struct rf_informer_opts opts; /* its pointers are not kept, callbacks are */
	const struct rf_kube_res *res;
	struct rf_kube_link link;
	uv_loop_t *loop;
	uv_timer_t timer;
	struct rf_http_call *call;
	struct rf_buf path;
	struct rf_buf selectors; /* as the end of a query: "&labelSelector=..." */
	struct rf_map objects;	 /* "namespace/name" to struct entry */
	struct rf_buf rv;	 /* watch from here */
	struct rf_buf page;	 /* the list's continue token; empty: from the start */
	struct rf_buf line;	 /* an event not yet complete */
	uint64_t generation;
	uint64_t watch_began; /* ms of the loop's clock */
	int pause_ms;
	bool need_list, synced;
	bool deaf; /* what else comes on this watch is not heard: a new one is due */
	bool stopped;
	int telling; /* inside a callback of the owner's */
};

static void step(uv_timer_t *timer);

/* --- telling the owner ------------------------------------------------------------------------ */

static void tell_change(struct rf_informer *i, const struct rf_json *before,
			const struct rf_json *after)
{
	if (i->stopped)
		return;
	i->telling++;
	i->opts.on_change(i->opts.ctx, before, after);
	i->telling--;
}

static void tell_error(struct rf_informer *i, const char *doing, const struct rf_err *why)
{
	struct rf_err err = *why;

	if (i->stopped || i->opts.on_error == NULL)
		return;
	rf_wrap(&err, "%s %s", doing, i->res->plural);
	i->telling++;
	i->opts.on_error(i->opts.ctx, &err);
	i->telling--;
}

static void tell_sync(struct rf_informer *i)
{
	if (i->synced || i->stopped)
		return;
	i->synced = true;
	if (i->opts.on_sync == NULL)
		return;
	i->telling++;
	i->opts.on_sync(i->opts.ctx);
	i->telling--;
}

/* --- the copy --------------------------------------------------------------------------------- */

static void entry_free(struct entry *e)
{
	if (e == NULL)
		return;
	free(e->block);
	free(e);
}

static void make_key(struct rf_buf *out, struct rf_str ns, struct rf_str name)
{
	rf_buf_add(out, ns);
	rf_buf_add_c(out, '/');
	rf_buf_add(out, name);
}

static void remove_key(struct rf_informer *i, struct rf_str key)
{
	struct entry *e = rf_map_del(&i->objects, key);

	if (e == NULL)
		return;
	tell_change(i, e->tree, NULL);
	entry_free(e);
}

static void store(struct rf_informer *i, struct rf_str key, const struct rf_json *object)
{
	struct entry *e = rf_new(struct entry), *old;

	e->block = rf_kube_pack(object, &e->tree);
	e->generation = i->generation;
	old = rf_map_set(&i->objects, key, e);
	tell_change(i, old ? old->tree : NULL, e->tree);
	entry_free(old);
}

static bool same_version(const struct rf_json *a, const struct rf_json *b)
{
	struct rf_str rv = rf_json_str_at(a, "metadata", "resourceVersion");

	return rv.n > 0 && rf_str_eq(rv, rf_json_str_at(b, "metadata", "resourceVersion"));
}

/* Items of a list come without the two fields that say what they are. */
static void name_kind(struct rf_informer *i, struct rf_arena *a, struct rf_json *object)
{
	const struct rf_kube_res *res = i->res;

	if (rf_json_str_at(object, "kind").n == 0)
		rf_json_set_str(a, object, "kind", rf_str(res->kind));
	if (rf_json_str_at(object, "apiVersion").n == 0)
		rf_json_set_str(a, object, "apiVersion",
				res->group[0] == '\0'
					? rf_str(res->version)
					: rf_arena_printf(a, "%s/%s", res->group, res->version));
}

static void upsert(struct rf_informer *i, struct rf_arena *a, struct rf_json *object)
{
	rf_auto(buf) key = RF_BUF_INIT;
	struct entry *e;

	make_key(&key, rf_kube_namespace(object), rf_kube_name(object));
	e = rf_map_get(&i->objects, rf_buf_str(&key));
	if (e != NULL && !rf_str_eq(rf_kube_uid(e->tree), rf_kube_uid(object))) {
		remove_key(i, rf_buf_str(&key));
		e = NULL;
	}
	if (e != NULL && same_version(e->tree, object)) {
		e->generation = i->generation;
		return;
	}
	name_kind(i, a, object);
	store(i, rf_buf_str(&key), object);
}

static void remove_object(struct rf_informer *i, const struct rf_json *object)
{
	rf_auto(buf) key = RF_BUF_INIT;

	make_key(&key, rf_kube_namespace(object), rf_kube_name(object));
	remove_key(i, rf_buf_str(&key));
}

/* What an earlier list or watch brought and the complete new list does not hold is gone. */
static void sweep(struct rf_informer *i)
{
	RF_VEC(struct rf_json *) gone = RF_VEC_INIT;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&i->objects, s)) != NULL;) {
		struct entry *e = s->value;

		if (e->generation != i->generation)
			rf_vec_push(&gone, e->tree);
	}
	for (size_t n = 0; n < gone.n; n++)
		remove_object(i, gone.at[n]);
	rf_vec_done(&gone);
}

/* --- when to go on ---------------------------------------------------------------------------- */

static void step_in(struct rf_informer *i, uint64_t ms)
{
	if (!i->stopped)
		uv_timer_start(&i->timer, step, ms, 0);
}

/* Many clients that lost the same server must not come back in the same instant. */
static void step_after_pause(struct rf_informer *i)
{
	uint32_t random;

	rf_rand_bytes(&random, sizeof(random));
	step_in(i, (uint64_t)i->pause_ms + random % ((uint32_t)i->pause_ms / 2 + 1));
	i->pause_ms = RF_MIN(i->pause_ms * 2, PAUSE_MAX_MS);
}

static void list_anew(struct rf_informer *i)
{
	i->need_list = true;
	rf_buf_clear(&i->page);
}

static void set_text(struct rf_buf *b, struct rf_str s)
{
	rf_buf_clear(b);
	rf_buf_add(b, s);
}

/* --- listing ---------------------------------------------------------------------------------- */

static void list_ended(struct rf_informer *i, const struct rf_json *list)
{
	set_text(&i->rv, rf_json_str_at(list, "metadata", "resourceVersion"));
	i->need_list = false;
	sweep(i);
	tell_sync(i);
}

static int take_page(struct rf_informer *i, struct rf_str body, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(PARSED_MAX);
	struct rf_json *list, *items;
	int rc = rf_json_parse(&a, body, &list, err);

	if (rc < 0)
		return rc;
	items = rf_json_at(list, "items");
	if (rf_json_str_at(list, "metadata", "resourceVersion").n == 0 ||
	    (items != NULL && items->type != RF_JSON_ARRAY && items->type != RF_JSON_NULL))
		return rf_fail(err, RF_BAD_REQUEST, "the answer is not a list of a Kubernetes API");
	for (size_t n = 0; n < rf_json_len(items) && !i->stopped; n++)
		if (rf_kube_name(rf_json_item(items, n)).n > 0)
			upsert(i, &a, rf_json_item(items, n));
	set_text(&i->page, rf_json_str_at(list, "metadata", "continue"));
	if (i->page.n == 0)
		list_ended(i, list);
	return 0;
}

static void on_list(void *ctx, const struct rf_err *failed, const struct rf_http_response *r)
{
	struct rf_informer *i = ctx;
	struct rf_err err = RF_ERR_INIT;
	int rc;

	i->call = NULL;
	if (i->stopped)
		return;
	if (failed != NULL)
		rc = rf_fail(&err, (enum rf_code)failed->code, "%s", failed->msg);
	else if (r->status < 200 || r->status > 299)
		rc = rf_kube_fail_response(r, "list", &err);
	else
		rc = take_page(i, r->body, &err);
	if (rc == 0) {
		step_in(i, 0);
		return;
	}
	/* Half a list is of no use: its continue token may be what is wrong. */
	list_anew(i);
	tell_error(i, "list", &err);
	step_after_pause(i);
}

static void send_list(struct rf_informer *i)
{
	rf_auto(buf) target = RF_BUF_INIT;

	if (i->page.n == 0)
		i->generation++;
	rf_buf_printf(&target, "%s?limit=%d%s", i->path.p, PAGE, i->selectors.p);
	if (i->page.n > 0) {
		rf_buf_puts(&target, "&continue=");
		rf_kube_encode(&target, rf_buf_str(&i->page));
	}
	i->call = rf_kube_link_call(&i->link,
				    (struct rf_http_call_opts){ .method = RF_LIT("GET"),
								.target = rf_buf_str(&target),
								.on_done = on_list,
								.ctx = i });
}

/* --- watching --------------------------------------------------------------------------------- */

/* This watch is over, whatever else it says; the list comes next. */
static void give_up_watch(struct rf_informer *i, const struct rf_err *why)
{
	i->deaf = true;
	list_anew(i);
	if (why->code != RF_GONE)
		tell_error(i, "watch", why);
	step_after_pause(i);
}

static int take_event(struct rf_informer *i, struct rf_arena *a, struct rf_str text,
		      struct rf_err *err)
{
	struct rf_json *event, *object;
	struct rf_str type;
	int rc = rf_json_parse(a, text, &event, err);

	if (rc < 0)
		return rc;
	type = rf_json_str_at(event, "type");
	object = rf_json_at(event, "object");
	if (rf_str_is(type, "ERROR"))
		return rf_kube_fail_status((int)rf_json_int(rf_json_at(object, "code"), 500),
					   object, err);
	if (rf_json_str_at(object, "metadata", "resourceVersion").n == 0)
		return rf_fail(err, RF_BAD_REQUEST, "an event without a resourceVersion");
	set_text(&i->rv, rf_json_str_at(object, "metadata", "resourceVersion"));
	i->pause_ms = PAUSE_MIN_MS;
	if (rf_str_is(type, "BOOKMARK"))
		return 0;
	if (rf_kube_name(object).n == 0)
		return rf_fail(err, RF_BAD_REQUEST, "an event about an object without a name");
	if (rf_str_is(type, "ADDED") || rf_str_is(type, "MODIFIED"))
		upsert(i, a, object);
	else if (rf_str_is(type, "DELETED"))
		remove_object(i, object);
	else
		return rf_fail(err, RF_BAD_REQUEST, "an event of unknown type \"%.*s\"",
			       (int)RF_MIN(type.n, (size_t)64), type.p);
	return 0;
}

static void take_line(struct rf_informer *i, struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(PARSED_MAX);
	struct rf_err err = RF_ERR_INIT;

	if (rf_str_trim(text).n > 0 && take_event(i, &a, text, &err) < 0)
		give_up_watch(i, &err);
}

static void on_data(void *ctx, struct rf_str data)
{
	struct rf_informer *i = ctx;
	struct rf_err err = RF_ERR_INIT;
	const char *end;
	size_t taken = 0;

	if (i->deaf || i->stopped)
		return;
	rf_buf_add(&i->line, data);
	while (!i->deaf && !i->stopped &&
	       (end = memchr(i->line.p + taken, '\n', i->line.n - taken)) != NULL) {
		size_t n = (size_t)(end - (i->line.p + taken));

		take_line(i, rf_str_n(i->line.p + taken, n));
		taken += n + 1;
	}
	rf_buf_drop(&i->line, taken);
	if (i->line.n > EVENT_MAX && !i->deaf && !i->stopped) {
		rf_fail(&err, RF_TOO_LARGE, "an event of more than %zu bytes", EVENT_MAX);
		give_up_watch(i, &err);
	}
}

/* Silence as long as was agreed is how a watch of something quiet ends, if the server sends no
 * bookmarks: nothing to complain about. */
static bool was_just_quiet(const struct rf_informer *i, const struct rf_err *failed)
{
	return failed->code == RF_TIMEOUT &&
	       uv_now(i->loop) - i->watch_began >= (uint64_t)i->opts.idle_ms;
}

static void on_watch_end(void *ctx, const struct rf_err *failed, const struct rf_http_response *r)
{
	struct rf_informer *i = ctx;
	struct rf_err err = RF_ERR_INIT;

	i->call = NULL;
	if (i->stopped || i->deaf)
		return; /* a step is due already */
	if (uv_now(i->loop) - i->watch_began >= PAUSE_MAX_MS)
		i->pause_ms = PAUSE_MIN_MS;
	if (failed != NULL && !was_just_quiet(i, failed))
		tell_error(i, "watch", failed);
	if (r != NULL && (r->status < 200 || r->status > 299)) {
		rf_kube_fail_response(r, "watch", &err);
		if (err.code == RF_GONE)
			list_anew(i);
		else
			tell_error(i, "watch", &err);
	}
	step_after_pause(i);
}

static void send_watch(struct rf_informer *i)
{
	rf_auto(buf) target = RF_BUF_INIT;

	i->deaf = false;
	i->watch_began = uv_now(i->loop);
	rf_buf_clear(&i->line);
	rf_buf_printf(&target, "%s?watch=true&allowWatchBookmarks=true&timeoutSeconds=%d%s",
		      i->path.p, WATCH_S, i->selectors.p);
	rf_buf_puts(&target, "&resourceVersion=");
	rf_kube_encode(&target, rf_buf_str(&i->rv));
	i->call = rf_kube_link_call(&i->link,
				    (struct rf_http_call_opts){ .method = RF_LIT("GET"),
								.target = rf_buf_str(&target),
								.idle_ms = i->opts.idle_ms,
								.on_data = on_data,
								.on_done = on_watch_end,
								.ctx = i });
}

/* --- life ------------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
	struct rf_informer *i = handle->data;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&i->objects, s)) != NULL;)
		entry_free(s->value);
	rf_map_done(&i->objects);
	rf_buf_done(&i->path);
	rf_buf_done(&i->selectors);
	rf_buf_done(&i->rv);
	rf_buf_done(&i->page);
	rf_buf_done(&i->line);
	free(i);
}

static void drop_call(struct rf_informer *i)
{
	if (i->call != NULL)
		rf_http_call_cancel(i->call);
	i->call = NULL;
}

static void release(struct rf_informer *i)
{
	drop_call(i);
	rf_kube_link_done(&i->link);
	uv_close((uv_handle_t *)&i->timer, on_closed);
}

static void step(uv_timer_t *timer)
{
	struct rf_informer *i = timer->data;

	if (i->stopped) {
		release(i);
		return;
	}
	drop_call(i);
	if (i->need_list)
		send_list(i);
	else
		send_watch(i);
}

void rf_informer_stop(struct rf_informer *i)
{
	if (i == NULL || i->stopped)
		return;
	i->stopped = true;
	if (i->telling > 0)
		uv_timer_start(&i->timer, step, 0, 0);
	else
		release(i);
}

static void add_selector(struct rf_buf *out, const char *name, struct rf_str selector)
{
	if (selector.n == 0)
		return;
	rf_buf_printf(out, "&%s=", name);
	rf_kube_encode(out, selector);
}

static void set_target(struct rf_informer *i, const struct rf_informer_opts *opts)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	rf_buf_add(&i->path, rf_kube_path(&a, opts->res, opts->ns, RF_STR_EMPTY, NULL));
	add_selector(&i->selectors, "labelSelector", opts->label_selector);
	add_selector(&i->selectors, "fieldSelector", opts->field_selector);
}

int rf_informer_start(uv_loop_t *loop, const struct rf_informer_opts *opts,
		      struct rf_informer **ret, struct rf_err *err)
{
	struct rf_informer *i = rf_new(struct rf_informer);
	int rc = rf_kube_link_open(&i->link, loop, opts->config, err);

	if (rc < 0) {
		free(i);
		return rc;
	}
	i->opts = *opts;
	i->opts.config = NULL;
	i->opts.idle_ms = opts->idle_ms > 0 ? opts->idle_ms : IDLE_MS;
	i->res = opts->res;
	i->loop = loop;
	i->path = i->selectors = i->rv = i->page = i->line = (struct rf_buf)RF_BUF_INIT;
	i->pause_ms = PAUSE_MIN_MS;
	i->need_list = true;
	set_target(i, opts);
	uv_timer_init(loop, &i->timer);
	i->timer.data = i;
	step_in(i, 0);
	*ret = i;
	return 0;
}

bool rf_informer_synced(const struct rf_informer *i)
{
	return i->synced;
}

const struct rf_json *rf_informer_get(const struct rf_informer *i, struct rf_str ns,
				      struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;
	const struct entry *e;

	make_key(&key, ns, name);
	e = rf_map_get(&i->objects, rf_buf_str(&key));
	return e != NULL ? e->tree : NULL;
}

const struct rf_json *rf_informer_next(const struct rf_informer *i, const struct rf_map_slot **slot)
{
	*slot = rf_map_next(&i->objects, *slot);
	return *slot != NULL ? ((const struct entry *)(*slot)->value)->tree : NULL;
}

size_t rf_informer_count(const struct rf_informer *i)
{
	return i->objects.n;
}
