/* Placing against an API that is a map of objects: which writes in which order, and what becomes of a process
 * that dies before, at or after any of them. The scheduler's core is the real one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "control/private.h"
#include "sched/log.h"
#include "tenant/foreign.h"

#define START INT64_C(1794717115000)
#define NEVER 1000000

enum fault {
	FAULT_NONE,
	FAULT_REFUSED, /* the server says no */
	FAULT_LOST,    /* the answer does not come, and the write was not carried out */
	FAULT_MUTE,    /* the answer does not come, and it was */
	FAULT_ERROR,   /* the answer is that something went wrong, and the write was not carried out */
	FAULT_DONE,    /* the same, and it was */
	FAULT_CRASH,   /* the process dies before the write */
};

struct world {
	struct rf_arena a;
	struct rf_map objects;	 /* path -> object: the server's */
	RF_VEC(char *) fresh;	 /* paths whose changes the watch has yet to tell */
	struct rf_map seen;	 /* path -> object: what was told */
	RF_VEC(char *) log;	 /* "verb path" of each write */
	int64_t rv, now;
	int evicted;
	int writes, at; /* the write at which the fault comes */
	enum fault fault;
	bool each;  /* the fault comes at every write */
	int code;   /* of a refusal */
	const char *only; /* the fault is for a path with this end alone; NULL: for any */
	bool dead;  /* nothing more is written */
	bool muted; /* the server does not answer until this is taken back */
	int steal_at;	   /* before this write, and before no other, */
	const char *steal; /* somebody deletes the claim whose path has this in it */
	struct rf_core *core;
	struct rf_placer p;
};

/* --- the server --------------------------------------------------------------------------------- */

static char *text(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static char *text(struct world *w, const char *fmt, ...)
{
	char out[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, sizeof(out), fmt, args);
	va_end(args);
	return (char *)rf_arena_cstr(&w->a, rf_str(out));
}

static void put(struct world *w, const char *path, struct rf_json *o)
{
	struct rf_json *meta = rf_json_ensure(&w->a, o, "metadata");

	rf_json_set_str(&w->a, meta, "resourceVersion", rf_str(text(w, "%lld", (long long)++w->rv)));
	(void)rf_map_set(&w->objects, rf_str(path), o);
	rf_vec_push(&w->fresh, text(w, "%s", path));
}

static void drop(struct world *w, const char *path)
{
	if (rf_map_del(&w->objects, rf_str(path)) != NULL)
		rf_vec_push(&w->fresh, text(w, "%s", path));
}

static struct rf_json *get(struct world *w, const char *path)
{
	return rf_map_get(&w->objects, rf_str(path));
}

static bool cut_tail(char *path, const char *tail)
{
	size_t n = strlen(path), t = strlen(tail);

	if (n < t || strcmp(path + n - t, tail) != 0)
		return false;
	path[n - t] = '\0';
	return true;
}

static void drop_those(struct world *w, const char *part)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;) {
		if (strstr(s->key, part) == NULL)
			continue;
		drop(w, text(w, "%s", s->key));
		s = NULL;
	}
}

/* Is this the write that fails? Says how; *ret_do: is it carried out? */
static int before_write(struct world *w, const char *verb, struct rf_str path, bool *ret_do, struct rf_err *err)
{
	bool counts = w->only == NULL || strstr(text(w, "%.*s", RF_STR(path)), w->only) != NULL;
	bool now = !w->dead && !w->muted && counts && (++w->writes == w->at || w->each);

	if (w->steal != NULL && w->writes == w->steal_at)
		drop_those(w, w->steal);
	*ret_do = !w->dead && !w->muted;
	if (w->dead || w->muted)
		return rf_fail(err, RF_UNAVAILABLE, "nobody answers");
	if (now && w->fault == FAULT_CRASH) {
		w->dead = true;
		*ret_do = false;
		return rf_fail(err, RF_UNAVAILABLE, "nobody answers");
	}
	if (now && w->fault == FAULT_REFUSED) {
		*ret_do = false;
		return rf_fail(err, (enum rf_code)w->code, "the server says no");
	}
	if (now && (w->fault == FAULT_ERROR || w->fault == FAULT_DONE)) {
		*ret_do = w->fault == FAULT_DONE;
		if (*ret_do)
			rf_vec_push(&w->log, text(w, "%s %.*s", verb, RF_STR(path)));
		return rf_fail(err, (enum rf_code)w->code, "something went wrong");
	}
	if (now && (w->fault == FAULT_LOST || w->fault == FAULT_MUTE)) {
		*ret_do = w->fault == FAULT_MUTE;
		w->muted = true;
		rf_fail(err, RF_TIMEOUT, "no answer");
	}
	if (*ret_do)
		rf_vec_push(&w->log, text(w, "%s %.*s", verb, RF_STR(path)));
	return now && w->muted ? -RF_TIMEOUT : 0;
}

/* All of a kind, two a page, as a server gives them: without their kind. */
static struct rf_json *list_of(struct world *w, struct rf_arena *a, struct rf_str path)
{
	static const struct rf_kube_res *const kinds[] = { &RF_TENANTS, &RF_NAMESPACES, &RF_QUEUES,	&RF_GPUPOOLS,
							   &RF_NODES,	&RF_PODS,	&RF_PODGROUPS,	&RF_BUDGETS,
							   &RF_RESOURCECLAIMS, &RF_RESOURCESLICES };
	struct rf_json *items = rf_json_array(a);
	struct rf_str query = path, which = RF_STR_EMPTY, all = RF_STR_EMPTY;
	size_t from = 0, seen = 0;
	const char *at = strstr(text(w, "%.*s", RF_STR(path)), "&continue=");

	if (at != NULL)
		from = (size_t)atoi(at + strlen("&continue="));
	rf_str_cut(&query, '?', &all);
	for (size_t i = 0; i < RF_COUNT(kinds); i++) {
		if (rf_str_eq(all, rf_kube_path(a, kinds[i], RF_STR_EMPTY, RF_STR_EMPTY, NULL)))
			which = rf_str(kinds[i]->kind);
	}
	if (which.n == 0)
		return NULL;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;) {
		struct rf_json *o = s->value;

		if (!rf_str_eq(rf_json_str_at(o, "kind"), which) || seen++ < from)
			continue;
		if (rf_json_len(items) == 2)
			return rf_json_make(a, "{'metadata':{'continue':%s},'items':%j}", text(w, "%zu", from + 2), items);
		o = rf_json_clone(a, o);
		rf_json_del(o, RF_LIT("kind"));
		rf_json_push(a, items, o);
	}
	return rf_json_make(a, "{'metadata':{},'items':%j}", items);
}

static int h_get(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	struct world *w = ctx;
	struct rf_json *o = rf_map_get(&w->objects, path);

	if (w->dead || w->muted)
		return rf_fail(err, RF_UNAVAILABLE, "nobody answers");
	if (o == NULL)
		o = list_of(w, a, path);
	if (o == NULL)
		return rf_fail(err, RF_NOT_FOUND, "not found");
	*ret = rf_json_clone(a, o);
	return 0;
}

static int bind_to(struct world *w, const char *pod, const struct rf_json *binding, struct rf_err *err)
{
	struct rf_json *o = get(w, pod);

	if (o == NULL)
		return rf_fail(err, RF_NOT_FOUND, "not found");
	if (rf_json_str_at(o, "spec", "nodeName").n > 0)
		return rf_fail(err, RF_CONFLICT, "already assigned");
	o = rf_json_clone(&w->a, o);
	rf_json_set_str(&w->a, rf_json_at(o, "spec"), "nodeName", rf_json_str_at(binding, "target", "name"));
	put(w, pod, o);
	return 0;
}

static int evict(struct world *w, const char *pod, struct rf_err *err)
{
	struct rf_json *o = get(w, pod);

	if (o == NULL)
		return rf_fail(err, RF_NOT_FOUND, "not found");
	w->evicted++;
	o = rf_json_clone(&w->a, o);
	rf_json_set_str(&w->a, rf_json_at(o, "metadata"), "deletionTimestamp", RF_LIT("2026-11-15T05:00:00Z"));
	put(w, pod, o);
	return 0;
}

static int h_create(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		    struct rf_json **ret, struct rf_err *err)
{
	struct world *w = ctx;
	char *at = text(w, "%.*s", RF_STR(path));
	bool carried = false;
	int rc = before_write(w, "create", path, &carried, err);

	if (!carried)
		return rc;
	if (cut_tail(at, "/binding")) {
		int r = bind_to(w, at, object, err);

		return rc < 0 ? rc : r;
	}
	if (cut_tail(at, "/eviction")) {
		int r = evict(w, at, err);

		return rc < 0 ? rc : r;
	}
	at = text(w, "%s/%.*s", at, RF_STR(rf_kube_name(object)));
	if (get(w, at) != NULL)
		return rf_fail(err, RF_EXISTS, "already exists");
	put(w, at, rf_json_clone(&w->a, object));
	rf_json_set_str(&w->a, rf_json_at(get(w, at), "metadata"), "uid", rf_str(text(w, "made-%lld", (long long)w->rv)));
	if (ret != NULL)
		*ret = rf_json_clone(a, get(w, at));
	return rc;
}

static int h_update(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		    struct rf_json **ret, struct rf_err *err)
{
	struct world *w = ctx;
	char *at = text(w, "%.*s", RF_STR(path));
	bool carried = false;
	int rc = before_write(w, "update", path, &carried, err);

	if (!carried)
		return rc;
	(void)cut_tail(at, "/status");
	if (get(w, at) == NULL)
		return rf_fail(err, RF_NOT_FOUND, "not found");
	if (rf_json_at(object, "metadata", "resourceVersion") != NULL &&
	    !rf_str_eq(rf_json_str_at(object, "metadata", "resourceVersion"),
		       rf_json_str_at(get(w, at), "metadata", "resourceVersion")))
		return rf_fail(err, RF_CONFLICT, "it was changed");
	put(w, at, rf_json_clone(&w->a, object));
	if (ret != NULL)
		*ret = rf_json_clone(a, get(w, at));
	return rc;
}

static int h_patch(void *ctx, struct rf_arena *a, struct rf_str path, enum rf_patch_type type,
		   const struct rf_json *patch, struct rf_json **ret, struct rf_err *err)
{
	struct world *w = ctx;
	char *at = text(w, "%.*s", RF_STR(path));
	struct rf_json *o = NULL;
	bool carried = false;
	int rc = before_write(w, "patch", path, &carried, err);

	if (!carried)
		return rc;
	(void)cut_tail(at, "/status");
	if (get(w, at) == NULL)
		return rf_fail(err, RF_NOT_FOUND, "not found");
	o = rf_json_clone(&w->a, get(w, at));
	if (type == RF_PATCH_MERGE)
		assert_int_equal(rf_patch_merge(&w->a, &o, patch, err), 0);
	else
		assert_int_equal(rf_patch_strategic(&w->a, RF_LIT("Pod"), &o, patch, err), 0);
	put(w, at, o);
	if (ret != NULL)
		*ret = rf_json_clone(a, o);
	return rc;
}

static int h_remove(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_str uid, struct rf_str rv,
		    struct rf_err *err)
{
	struct world *w = ctx;
	const struct rf_json *o = rf_map_get(&w->objects, path);
	bool carried = false;
	int rc = before_write(w, "delete", path, &carried, err);

	assert_true(uid.n > 0);
	if (!carried || o == NULL)
		return rc;
	if (!rf_str_eq(rf_kube_uid(o), uid) ||
	    (rv.n > 0 && !rf_str_eq(rf_json_str_at(o, "metadata", "resourceVersion"), rv)))
		return rf_fail(err, RF_CONFLICT, "it is another");
	drop(w, text(w, "%.*s", RF_STR(path)));
	return rc;
}

static void h_event(void *ctx, const struct rf_json *about, const char *type, const char *reason, struct rf_str words)
{
	struct world *w = ctx;

	rf_vec_push(&w->log, text(w, "event %s %.*s", reason, RF_STR(rf_kube_name(about))));
}

static bool h_may(void *ctx)
{
	return !((struct world *)ctx)->dead;
}

/* --- the watch ------------------------------------------------------------------------------------ */

static const struct rf_json *look(void *ctx, const struct rf_kube_res *res, struct rf_str ns, struct rf_str name)
{
	struct world *w = ctx;

	return rf_map_get(&w->seen, rf_kube_path(&w->a, res, ns, name, NULL));
}

static const struct rf_json *next(void *ctx, const struct rf_kube_res *res, const void **cursor)
{
	struct world *w = ctx;
	const struct rf_map_slot *s = *cursor;

	while ((s = rf_map_next(&w->seen, s)) != NULL) {
		const struct rf_json *o = s->value;

		*cursor = s;
		if (rf_str_is(rf_json_str_at(o, "kind"), res->kind))
			return o;
	}
	return NULL;
}

static void tell(struct world *w, const struct rf_json *before, const struct rf_json *after)
{
	static const struct {
		const char *kind;
		void (*feed)(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
	} table[] = { { "Tenant", rf_feed_tenant },	{ "Namespace", rf_feed_namespace },
		      { "Node", rf_feed_node },		{ "ResourceSlice", rf_feed_slice },
		      { "Queue", rf_feed_queue },	{ "PodGroup", rf_feed_group },
		      { "Pod", rf_feed_pod },		{ "ResourceClaim", rf_feed_claim },
		      { "PodDisruptionBudget", rf_feed_budget }, { "GPUPool", rf_feed_gpu_pool } };
	struct rf_str kind = rf_json_str_at(after != NULL ? after : before, "kind");

	w->p.now_ms = w->now;
	for (size_t i = 0; i < RF_COUNT(table); i++) {
		if (rf_str_is(kind, table[i].kind))
			table[i].feed(&w->p, before, after);
	}
}

/* What changed since, in order; as a watch may, the last state only of what changed twice. */
static void deliver(struct world *w)
{
	for (size_t i = 0; i < w->fresh.n; i++) {
		struct rf_str path = rf_str(w->fresh.at[i]);
		struct rf_json *is = rf_map_get(&w->objects, path);
		struct rf_json *was = is != NULL ? rf_map_set(&w->seen, path, is) : rf_map_del(&w->seen, path);

		if (was != NULL || is != NULL)
			tell(w, was, is);
	}
	w->fresh.n = 0;
}

static void begin(struct world *w)
{
	struct rf_core_config config;

	rf_core_config_default(&config);
	w->core = rf_core_new(&config);
	rf_placer_init(&w->p, w->core);
	w->p.hands = (struct rf_hands){ h_get, h_create, h_update, h_patch, h_remove, h_event, h_may, w };
	w->p.cluster = (struct rf_cluster){ look, next, NULL, w };
	w->p.now_ms = w->now;
}

static void end(struct world *w)
{
	rf_placer_done(&w->p);
	rf_core_free(w->core);
	w->core = NULL;
}

/* Another process: it is told all there is, in whatever order the map has it. */
static void restart(struct world *w)
{
	end(w);
	w->dead = w->muted = false;
	w->fault = FAULT_NONE;
	w->fresh.n = 0;
	rf_map_clear(&w->seen);
	begin(w);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;)
		(void)rf_map_set(&w->seen, rf_map_key(s), s->value);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->seen, s)) != NULL;)
		tell(w, NULL, s->value);
}

static bool starts(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* What must hold at every instant, by what the server says. */
static void check(struct world *w)
{
	struct rf_map cards = RF_MAP_INIT;
	int64_t ever = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;) {
		const struct rf_json *o = s->value;
		const struct rf_json *results = rf_json_at(o, "status", "allocation", "devices", "results");

		ever += rf_str_is(rf_json_str_at(o, "kind"), "Pod") && rf_json_str_at(o, "spec", "nodeName").n > 0;
		for (size_t i = 0; rf_str_is(rf_json_str_at(o, "kind"), "ResourceClaim") && i < rf_json_len(results); i++) {
			const struct rf_json *r = rf_json_item(results, i);

			assert_null(rf_map_set(&cards,
					       rf_arena_printf(&w->a, "%.*s/%.*s", RF_STR(rf_json_str_at(r, "pool")),
							       RF_STR(rf_json_str_at(r, "device"))),
					       w)); /* no card is given twice */
		}
	}
	rf_map_done(&cards);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;) {
		const struct rf_json *o = s->value;

		if (rf_str_is(rf_json_str_at(o, "kind"), "PodGroup") && rf_json_is_true(rf_json_at(o, "status", "started")))
			/* None: it is gone, and says so no more before the first is bound anew. */
			assert_true(ever == 0 || ever >= rf_json_int(rf_json_at(o, "spec", "minMember"), 1));
	}
}

/* Turns until nothing more happens, or the process is dead. Time goes on by what the placer asks for. */
static void run(struct world *w)
{
	for (int i = 0; i < 400 && !w->dead; i++) {
		int64_t again = 0;

		deliver(w);
		w->p.now_ms = w->now;
		again = rf_placer_turn(&w->p);
		check(w);
		if (i > 3)
			w->muted = false; /* the server comes back */
		if (again < 0 && w->fresh.n == 0)
			return;
		w->now += again > 0 ? RF_MIN(again, 5000) : 1;
	}
}

static int set_up(void **state)
{
	struct world *w = rf_new(struct world);

	w->now = START;
	w->at = NEVER;
	begin(w);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	end(w);
	rf_map_done(&w->objects);
	rf_map_done(&w->seen);
	rf_vec_done(&w->fresh);
	rf_vec_done(&w->log);
	rf_arena_done(&w->a);
	free(w);
	return 0;
}

/* --- a small cluster ------------------------------------------------------------------------------ */

static void add_node(struct world *w, const char *name, int cards)
{
	struct rf_json *devices = rf_json_array(&w->a);

	put(w, text(w, "/api/v1/nodes/%s", name),
	    rf_json_make(&w->a,
			 "{'kind':'Node','metadata':{'name':%s},'status':{'allocatable':{'cpu':'64','memory':'512Gi',"
			 "'pods':'110'},'conditions':[{'type':'Ready','status':'True'}]}}",
			 name));
	for (int i = 0; i < cards; i++)
		rf_json_push(&w->a, devices,
			     rf_json_make(&w->a,
					  "{'name':%s,'attributes':{'productName':{'string':'H100'},'healthy':"
					  "{'bool':true}},'capacity':{'memory':{'value':'80Gi'},'compute':"
					  "{'value':'1000'}}}",
					  text(w, "gpu-%d", i)));
	put(w, text(w, "/apis/resource.k8s.io/v1/resourceslices/%s-0", name),
	    rf_json_make(&w->a,
			 "{'kind':'ResourceSlice','metadata':{'name':%s},'spec':{'driver':'ringfence.io','nodeName':%s,"
			 "'pool':{'name':%s,'generation':1,'resourceSliceCount':1},'devices':%j}}",
			 text(w, "%s-0", name), name, name, devices));
}

static void add_tenant(struct world *w, const char *name, const char *spec)
{
	struct rf_json *t = rf_json_make(&w->a, "{'kind':'Tenant','metadata':{'name':%s},'spec':%j}", name,
					 rf_json_make(&w->a, spec));
	struct rf_tenant parsed = { 0 };
	struct rf_json *all = NULL;

	assert_int_equal(rf_tenant_parse(&w->a, t, &parsed, NULL), 0);
	put(w, text(w, "/apis/ringfence.io/v1alpha1/tenants/%s", name), t);
	all = rf_tenant_objects(&w->a, t, &parsed, NULL, 0);
	for (size_t i = 0; i < rf_json_len(all); i++) {
		struct rf_json *o = rf_json_item(all, i);

		if (rf_str_is(rf_json_str_at(o, "kind"), "Queue"))
			put(w, text(w, "/apis/ringfence.io/v1alpha1/queues/%s", name), rf_json_clone(&w->a, o));
		if (rf_str_is(rf_json_str_at(o, "kind"), "Namespace"))
			put(w, text(w, "/api/v1/namespaces/%s", name), rf_json_clone(&w->a, o));
	}
}

#define POD "/api/v1/namespaces/%s/pods/%s"
#define GROUP "/apis/ringfence.io/v1alpha1/namespaces/%s/podgroups/%s"

/* Uids must differ in their first eight characters: claims are named after those. */
static const char *card_name = "nvidia.com/gpu";

static void add_pod(struct world *w, const char *ns, const char *name, int cards, const char *group)
{
	static int n;
	struct rf_json *limits = rf_json_object(&w->a);
	struct rf_json *o = rf_json_make(
		&w->a,
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':%s,'namespace':%s,'uid':%s,'creationTimestamp':"
		"'2026-11-15T04:00:00Z'},'spec':{'containers':[{'name':'main','resources':{'limits':%j}}]},"
		"'status':{'phase':'Pending'}}",
		name, ns, text(w, "%08d-uid", ++n), limits);

	rf_json_set_str(&w->a, limits, card_name, rf_str(text(w, "%d", cards)));
	if (group != NULL)
		rf_json_set_str(&w->a, rf_json_ensure(&w->a, o, "metadata", "labels"), RF_GROUP_LABEL, rf_str(group));
	put(w, text(w, POD, ns, name), o);
}

static void add_group(struct world *w, const char *ns, const char *name, int min)
{
	put(w, text(w, GROUP, ns, name),
	    rf_json_make(&w->a,
			 "{'apiVersion':'ringfence.io/v1alpha1','kind':'PodGroup','metadata':{'name':%s,'namespace':%s,"
			 "'uid':%s,'creationTimestamp':'2026-11-15T04:00:00Z'},'spec':{'minMember':%d}}",
			 name, ns, text(w, "group-%s", name), min));
}

static struct rf_str node_of(struct world *w, const char *ns, const char *pod)
{
	return rf_json_str_at(get(w, text(w, POD, ns, pod)), "spec", "nodeName");
}

static size_t bound(struct world *w, const char *ns)
{
	size_t n = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;)
		n += starts(s->key, text(w, "/api/v1/namespaces/%s/pods/", ns)) &&
		     rf_json_str_at(s->value, "spec", "nodeName").n > 0;
	return n;
}

static size_t claims(struct world *w, bool allocated)
{
	size_t n = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;)
		n += rf_str_is(rf_json_str_at(s->value, "kind"), "ResourceClaim") &&
		     (!allocated || rf_json_at(s->value, "status", "allocation") != NULL);
	return n;
}

static bool started(struct world *w, const char *ns, const char *group)
{
	return rf_json_is_true(rf_json_at(get(w, text(w, GROUP, ns, group)), "status", "started"));
}

static size_t first(struct world *w, const char *verb, const char *tail)
{
	for (size_t i = 0; i < w->log.n; i++) {
		if (starts(w->log.at[i], verb) && strstr(w->log.at[i], tail) != NULL)
			return i;
	}
	return SIZE_MAX;
}

static size_t last(struct world *w, const char *verb, const char *tail)
{
	for (size_t i = w->log.n; i-- > 0;) {
		if (starts(w->log.at[i], verb) && strstr(w->log.at[i], tail) != NULL)
			return i;
	}
	return SIZE_MAX;
}

static void gang_of_four(struct world *w)
{
	add_node(w, "n1", 2);
	add_node(w, "n2", 2);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	add_group(w, "red", "train", 4);
	for (int i = 0; i < 4; i++)
		add_pod(w, "red", text(w, "w%d", i), 1, "train");
}

/* --- tests ---------------------------------------------------------------------------------------- */

static void a_pod_gets_its_claim_then_its_node(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	run(w);
	assert_true(rf_str_is(node_of(w, "red", "a"), "n1"));
	assert_int_equal(claims(w, true), 1);
	assert_true(first(w, "create", "/resourceclaims") < first(w, "update", "/status"));
	assert_true(first(w, "update", "/status") < first(w, "create", "/binding"));
	assert_int_equal(w->log.n, 4); /* and the event */
}

static void all_claims_of_a_gang_are_written_before_its_first_binding(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	run(w);
	assert_int_equal(bound(w, "red"), 4);
	assert_int_equal(claims(w, true), 4);
	assert_true(last(w, "update", "/resourceclaims/") < first(w, "create", "/binding"));
	assert_true(started(w, "red", "train"));
	assert_true(last(w, "create", "/binding") < first(w, "patch", "/podgroups/train/status"));
	assert_int_equal(rf_json_int(rf_json_at(get(w, text(w, GROUP, "red", "train")), "status", "scheduled"), 0), 4);
}

static void a_gang_that_does_not_fit_gets_nothing(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	drop(w, "/apis/resource.k8s.io/v1/resourceslices/n2-0");
	run(w);
	assert_int_equal(bound(w, "red"), 0);
	assert_int_equal(claims(w, false), 0);
	assert_false(started(w, "red", "train"));
	assert_true(first(w, "patch", "/pods/w0/status") != SIZE_MAX); /* it says why */
	assert_true(rf_json_str_at(get(w, text(w, GROUP, "red", "train")), "status", "message").n > 0);
}

/* Whatever write the process dies before, the next one completes the gang, and nothing is left over. */
static void a_crash_before_any_write_leaves_a_whole_gang_in_the_end(void **state)
{
	int k = 1;

	for (bool died = true; died; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = FAULT_CRASH;
		w->at = k;
		run(w);
		died = w->dead;
		if (died) {
			/* Before all its claims are there, nothing of it may be bound. */
			assert_true(bound(w, "red") == 0 || claims(w, true) == 4);
			restart(w);
			run(w);
		}
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_int_equal(claims(w, false), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
	assert_true(k > 13); /* four claims, four allocations, four bindings, the group */
}

static void drop_all(struct world *w, const char *prefix)
{
	struct rf_map_slot *s = NULL;

	while ((s = rf_map_next(&w->objects, s)) != NULL) {
		if (starts(s->key, prefix)) {
			drop(w, text(w, "%s", s->key));
			s = NULL;
		}
	}
}

/* So many or none, also the second time: one that comes alone waits, whoever was there to see the others go. */
static void a_gang_of_which_none_is_left_starts_anew(void **state)
{
	for (int again = 0; again < 2; again++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		run(w);
		assert_true(started(w, "red", "train"));
		drop_all(w, "/api/v1/namespaces/red/pods/");
		drop_all(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/");
		if (again)
			restart(w);
		run(w);
		assert_false(started(w, "red", "train"));
		assert_true(rf_str_is(rf_json_str_at(get(w, text(w, GROUP, "red", "train")), "status", "phase"), "Pending"));
		for (int i = 4; i < 8; i++) {
			assert_int_equal(bound(w, "red"), 0);
			add_pod(w, "red", text(w, "w%d", i), 1, "train");
			run(w);
		}
		assert_int_equal(bound(w, "red"), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
}

/* Its pods are gone, and came again, before anybody could write that. */
static void gang_that_says_it_started(struct world *w)
{
	gang_of_four(w);
	put(w, text(w, GROUP, "red", "train"),
	    rf_json_make(&w->a, "{'apiVersion':'ringfence.io/v1alpha1','kind':'PodGroup','metadata':{'name':'train',"
				"'namespace':'red','uid':'group-train','creationTimestamp':'2026-11-15T04:00:00Z'},"
				"'spec':{'minMember':4},'status':{'phase':'Running','started':true,'scheduled':0}}"));
}

/* That it started before is taken back before anything is written for it: half of it must never be taken for one that runs. */
static void a_fault_leaves_no_half_gang_that_says_it_started(void **state)
{
	static const int faults[] = { FAULT_CRASH, FAULT_MUTE, FAULT_LOST, FAULT_ERROR, FAULT_DONE };

	for (int k = 0; k < 14 * (int)RF_COUNT(faults); k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_that_says_it_started(w);
		w->fault = faults[k % (int)RF_COUNT(faults)];
		w->code = RF_INTERNAL;
		w->at = k / (int)RF_COUNT(faults) + 1;
		run(w);
		if (w->dead) {
			assert_true(claims(w, false) == 0 || bound(w, "red") == 4 || !started(w, "red", "train"));
			restart(w);
			run(w);
		}
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, false), 4);
		assert_true(started(w, "red", "train"));
		assert_true(first(w, "patch", "/podgroups/train/status") < first(w, "create", "/resourceclaims"));
		tear_down(&own);
	}
}

/* Until that can be written it waits, and says why. */
static void a_gang_that_cannot_say_that_it_starts_anew_waits(void **state)
{
	struct world *w = *state;
	struct rf_str why;

	gang_that_says_it_started(w);
	w->fault = FAULT_REFUSED;
	w->code = RF_TOO_LARGE;
	w->only = "podgroups";
	w->each = true;
	run(w);
	assert_int_equal(bound(w, "red") + claims(w, false), 0);
	why = rf_core_why(w->core, rf_kube_uid(get(w, text(w, POD, "red", "w0"))), w->now, &w->a);
	assert_non_null(strstr(text(w, "%.*s", RF_STR(why)), "starts anew"));
	w->each = false;
	run(w);
	assert_int_equal(bound(w, "red"), 4);
	assert_true(started(w, "red", "train"));
}

/* As above, but the cluster shrank meanwhile: what cannot be completed is taken back as a whole. */
static void a_crash_and_a_lost_node_leave_no_half_gang(void **state)
{
	for (int k = 1; k <= 9; k++) { /* up to the first binding */
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = FAULT_CRASH;
		w->at = k;
		run(w);
		assert_true(w->dead);
		assert_int_equal(bound(w, "red"), 0);
		drop(w, "/apis/resource.k8s.io/v1/resourceslices/n2-0");
		drop(w, "/api/v1/nodes/n2");
		restart(w);
		run(w);
		assert_int_equal(bound(w, "red"), 0);
		assert_int_equal(claims(w, true), 0);
		assert_false(started(w, "red", "train"));
		tear_down(&own);
	}
}

static void a_refused_write_of_a_gang_takes_its_claims_back(void **state)
{
	for (int k = 1; k <= 8; k++) { /* each claim and each allocation */
		void *own = NULL;
		struct world *w = NULL;
		int64_t again = 0;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = FAULT_REFUSED;
		w->code = RF_FORBIDDEN;
		w->at = k;
		deliver(w);
		again = rf_placer_turn(&w->p);
		assert_true(again >= 0); /* it is tried again */
		assert_int_equal(bound(w, "red"), 0);
		assert_int_equal(claims(w, false), 0);
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		tear_down(&own);
	}
}

/* An answer that does not come: the card is not given to another before it is known what became of it. */
static void a_write_without_an_answer_gives_nothing_away_twice(void **state)
{
	for (int k = 1; k <= 26; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = k % 2 == 0 ? FAULT_LOST : FAULT_MUTE;
		w->at = (k + 1) / 2;
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_int_equal(claims(w, false), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
}

/* An answer that says only that something went wrong is no refusal: it is looked at what was done, at once. */
static void a_write_that_went_wrong_may_have_been_done(void **state)
{
	static const int codes[] = { RF_INTERNAL, RF_SYSTEM };

	for (int k = 0; k < 26; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		w->fault = k % 2 == 0 ? FAULT_ERROR : FAULT_DONE;
		w->code = codes[k / 2 % 2];
		w->at = k / 2 + 1;
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_int_equal(claims(w, false), 4);
		assert_int_equal(w->p.limbo.n, 0);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
}

/* What was sent and not answered may be carried out yet: the claim it speaks of is gone by then. */
static void an_allocation_that_comes_late_meets_no_claim(void **state)
{
	struct world *w = *state;
	const struct rf_json *was = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *late = NULL;
	const char *path = NULL;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	path = text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
		    RF_STR(rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", "a")))));
	w->fault = FAULT_LOST;
	w->at = 2; /* the allocation */
	deliver(w);
	rf_placer_turn(&w->p);
	was = get(w, path);
	assert_non_null(was);
	late = rf_json_clone(&w->a, was);
	w->muted = false;
	w->only = "nothing";
	assert_true(rf_carry_settle(&w->p));
	assert_null(get(w, path)); /* nobody can allocate it any more */
	assert_true(h_update(w, &w->a, rf_str(text(w, "%s/status", path)), late, NULL, &err) < 0);
	run(w);
	assert_true(rf_str_is(node_of(w, "red", "a"), "n1"));
	assert_false(rf_str_eq(rf_kube_uid(get(w, path)), rf_kube_uid(late)));
}

/* A binding that was not answered, and not done when it was looked at, comes late. Meanwhile the promise is taken back: before
 * the claim is deleted it is looked at once more, for without it the pod could never start there. */
static void a_claim_is_not_taken_from_who_was_bound_late(void **state)
{
	for (int late = 0; late < 2; late++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		add_node(w, "n1", 1);
		add_tenant(w, "red", "{'quota':{'gpus':1}}");
		add_pod(w, "red", "a", 1, NULL);
		w->fault = FAULT_LOST;
		w->at = 3; /* the binding */
		deliver(w);
		rf_placer_turn(&w->p);
		assert_int_equal(claims(w, true), 1);
		w->muted = false;
		assert_true(rf_carry_settle(&w->p)); /* the core is told that it failed */
		drop(w, "/apis/resource.k8s.io/v1/resourceslices/n1-0");
		deliver(w); /* so that its claim points at what is not there */
		if (late == 1)
			assert_int_equal(bind_to(w, text(w, POD, "red", "a"), rf_json_make(&w->a, "{'target':{'name':'n1'}}"), NULL), 0);
		rf_placer_turn(&w->p); /* the watch has yet to tell of the pod */
		assert_int_equal(claims(w, true), late);
		run(w);
		assert_int_equal(claims(w, true), late);
		assert_int_equal(bound(w, "red"), late);
		tear_down(&own);
	}
}

/* A write without an answer, and its pod turns out to be bound: so much is known, and also that the others of its gang were not. */
static void the_others_of_who_is_bound_already_are_tried_again(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	w->fault = FAULT_LOST;
	w->at = 2; /* the first allocation */
	deliver(w);
	rf_placer_turn(&w->p);
	assert_int_equal(claims(w, false), 1);
	w->muted = false;
	for (int i = 0; i < 4; i++) {
		struct rf_str name = rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", text(w, "w%d", i))));

		if (get(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(name))) == NULL)
			continue;
		assert_int_equal(bind_to(w, text(w, POD, "red", text(w, "w%d", i)), rf_json_make(&w->a, "{'target':{'name':'n1'}}"), NULL), 0);
		break;
	}
	assert_int_equal(bound(w, "red"), 1);
	run(w);
	assert_int_equal(bound(w, "red"), 4);
}

static void a_claim_made_anew_under_its_name_is_not_deleted(void **state)
{
	struct world *w = *state;
	struct rf_json *other = NULL;
	const char *path = NULL;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	path = text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
		    RF_STR(rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", "a")))));
	run(w);
	other = rf_json_clone(&w->a, get(w, path));
	rf_json_set_str(&w->a, rf_json_at(other, "metadata"), "uid", RF_LIT("another"));
	put(w, path, other);
	assert_int_equal(h_remove(w, &w->a, rf_str(path), RF_LIT("made-1"), RF_STR_EMPTY, NULL), -RF_CONFLICT);
	assert_non_null(get(w, path));
}

/* A deletion of which nobody knows: nothing counts on the claim meanwhile, and it is tried again after a look. */
static void a_claim_that_may_be_deleted_is_looked_at_again(void **state)
{
	for (int k = 0; k < 2; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		add_node(w, "n1", 1);
		add_tenant(w, "red", "{'quota':{'gpus':1}}");
		add_pod(w, "red", "a", 1, NULL);
		deliver(w);
		drop(w, text(w, POD, "red", "a")); /* the binding finds no pod, and the claim is dropped */
		w->only = "/resourceclaims/a-";
		w->fault = k == 0 ? FAULT_ERROR : FAULT_DONE;
		w->code = RF_INTERNAL;
		w->at = 2; /* after the allocation */
		rf_placer_turn(&w->p);
		assert_int_equal(claims(w, false), k == 0 ? 1 : 0);
		add_pod(w, "red", "b", 1, NULL);
		run(w);
		assert_int_equal(claims(w, false), 1);
		assert_int_equal(w->p.limbo.n, 0);
		assert_true(rf_str_is(node_of(w, "red", "b"), "n1"));
		tear_down(&own);
	}
}

static void a_binding_that_fails_does_not_hold_up_the_others(void **state)
{
	struct world *w = *state;
	int64_t again = 0;

	add_node(w, "n1", 4);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	for (int i = 0; i < 4; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	w->fault = FAULT_REFUSED;
	w->code = RF_FORBIDDEN;
	w->at = 3; /* the first pod's binding */
	deliver(w);
	again = rf_placer_turn(&w->p);
	assert_true(again >= 0);
	assert_int_equal(bound(w, "red"), 3); /* in the same turn */
	run(w);
	assert_int_equal(bound(w, "red"), 4);
	assert_int_equal(claims(w, true), 4);
}

static void a_pod_that_went_while_it_was_bound_holds_no_card(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	deliver(w);
	drop(w, text(w, POD, "red", "a")); /* the watch has yet to tell */
	rf_placer_turn(&w->p);
	assert_int_equal(claims(w, false), 0);
	add_pod(w, "red", "b", 1, NULL);
	run(w);
	assert_true(rf_str_is(node_of(w, "red", "b"), "n1"));
}

/* Also when its claim is deleted before the core hears that it failed: else it is tried again and again in one turn. */
static void what_is_refused_each_time_is_tried_again_later(void **state)
{
	for (int k = 0; k < 2; k++) {
		void *own = NULL;
		struct world *w = NULL;
		int64_t again = 0;

		card_name = "ringfence.io/gpu"; /* the pod is told its claim */
		set_up(&own);
		w = own;
		if (k == 0) {
			add_node(w, "n1", 4);
			add_tenant(w, "red", "{'quota':{'gpus':8}}");
			add_pod(w, "red", "a", 1, NULL);
		} else {
			gang_of_four(w);
		}
		w->fault = FAULT_REFUSED;
		w->code = RF_NOT_FOUND;
		w->each = true;
		w->only = "/pods/";
		deliver(w);
		again = rf_placer_turn(&w->p);
		assert_true(again > 0);
		assert_in_range(w->writes, 1, 8);
		assert_int_equal(claims(w, false), 0);
		w->fault = FAULT_NONE;
		run(w);
		assert_int_equal(bound(w, "red"), k == 0 ? 1 : 4);
		tear_down(&own);
		card_name = "nvidia.com/gpu";
	}
	(void)state;
}

/* As a Job would: who was evicted is gone, and another comes in its place. */
static size_t replace_evicted(struct world *w)
{
	size_t n = 0;

	for (int i = 0; i < 4; i++) {
		const char *path = text(w, POD, "red", text(w, "w%d", i));

		if (rf_json_at(get(w, path), "metadata", "deletionTimestamp") == NULL)
			continue;
		drop(w, path);
		drop_those(w, text(w, "/resourceclaims/w%d-", i));
		run(w);
		add_pod(w, "red", text(w, "w%d", i), 1, "train");
		n++;
	}
	return n;
}

/* Its claim is deleted at any moment between the decision and its binding, and the process may die right after: it is bound with a claim in
 * the end, or evicted, since without one it would never start; and no half of a gang runs meanwhile. */
static void who_lost_its_claim_does_not_wait_for_good(void **state)
{
	size_t lost = 0;

	for (int k = 0; k < 2 * 14; k++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_of_four(w);
		add_group(w, "red", "train", 3); /* the fourth may be gone for a while */
		w->steal = "/resourceclaims/w1-";
		w->steal_at = k / 2 + 1;
		w->fault = k % 2 == 1 ? FAULT_CRASH : FAULT_NONE;
		w->at = w->steal_at + 1;
		run(w);
		w->steal = NULL;
		if (w->dead) {
			restart(w);
			run(w);
		}
		assert_true(bound(w, "red") == 0 || bound(w, "red") >= 3);
		if (replace_evicted(w) > 0) {
			lost++;
			assert_true(first(w, "event ClaimLost", "w1") != SIZE_MAX);
		}
		run(w);
		assert_int_equal(bound(w, "red"), 4);
		assert_int_equal(claims(w, true), 4);
		assert_true(started(w, "red", "train"));
		tear_down(&own);
	}
	assert_true(lost > 4);
	(void)state;
}

/* Nobody else's: a pod of another scheduler, one that ended, one of nobody's namespace, one whose claim the watch has yet to show. */
static void who_needs_no_claim_of_ours_is_left_alone(void **state)
{
	struct world *w = *state;
	struct rf_json *o = NULL;

	add_node(w, "n1", 8);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	put(w, "/api/v1/namespaces/open", rf_json_make(&w->a, "{'kind':'Namespace','metadata':{'name':'open'}}"));
	add_pod(w, "red", "other", 1, NULL);
	add_pod(w, "red", "ended", 1, NULL);
	add_pod(w, "open", "free", 1, NULL);
	add_pod(w, "red", "cpu", 0, NULL);
	for (size_t i = 0; i < 4; i++) {
		static const char *const at[][2] = { { "red", "other" }, { "red", "ended" }, { "open", "free" }, { "red", "cpu" } };

		o = rf_json_clone(&w->a, get(w, text(w, POD, at[i][0], at[i][1])));
		rf_json_set_str(&w->a, rf_json_at(o, "spec"), "nodeName", RF_LIT("n1"));
		if (i == 0)
			rf_json_set_str(&w->a, rf_json_at(o, "spec"), "schedulerName", RF_LIT("another"));
		if (i == 1)
			rf_json_set_str(&w->a, rf_json_at(o, "status"), "phase", RF_LIT("Failed"));
		if (i == 3)
			rf_json_set(&w->a, rf_json_item(rf_json_at(o, "spec", "containers"), 0), RF_LIT("resources"), rf_json_object(&w->a));
		put(w, text(w, POD, at[i][0], at[i][1]), o);
	}
	run(w);
	add_pod(w, "red", "mine", 1, NULL);
	run(w);
	for (int i = 0; i < 10; i++) {
		w->now += 5000;
		run(w);
	}
	assert_int_equal(w->evicted, 0);
	assert_true(rf_str_is(node_of(w, "red", "mine"), "n1"));
}

static void a_guaranteed_tenant_gets_its_cards_back_by_eviction(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 2);
	add_tenant(w, "red", "{'quota':{'gpus':2}}");
	add_tenant(w, "blue", "{'quota':{'gpus':2},'queue':{'guaranteed':{'gpus':1}}}");
	add_pod(w, "red", "r0", 1, NULL);
	add_pod(w, "red", "r1", 1, NULL);
	run(w);
	assert_int_equal(bound(w, "red"), 2);
	add_pod(w, "blue", "b0", 1, NULL);
	run(w);
	assert_true(first(w, "create", "/eviction") != SIZE_MAX);
	assert_true(first(w, "create", "/eviction") == last(w, "create", "/eviction")); /* one is enough */
	assert_true(first(w, "create", "/eviction") < first(w, "patch", "/pods/r")); /* says so after the deed */
	assert_true(first(w, "event Reclaimed", "r") != SIZE_MAX);
	assert_int_equal(bound(w, "blue"), 0); /* the card is still in use */
	for (int i = 0; i < 2; i++) {
		const char *path = text(w, "/api/v1/namespaces/red/pods/r%d", i);

		if (rf_kube_deleting(get(w, path))) {
			drop(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
				     RF_STR(rf_pod_claim_name(&w->a, get(w, path)))));
			drop(w, path);
		}
	}
	run(w);
	assert_int_equal(bound(w, "blue"), 1);
	assert_int_equal(bound(w, "red"), 1);
}

/* As an agent and the garbage collector do it: the pod goes first, its claim is deleted, and is gone when the card
 * is clean. Two wait for two that go. */
static void what_is_evicted_leaves_in_its_own_order(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 4);
	add_tenant(w, "red", "{'quota':{'gpus':4}}");
	add_tenant(w, "blue", "{'quota':{'gpus':4},'queue':{'guaranteed':{'gpus':2}}}");
	for (int i = 0; i < 4; i++)
		add_pod(w, "red", text(w, "r%d", i), 1, NULL);
	run(w);
	add_pod(w, "blue", "b0", 1, NULL);
	run(w);
	add_pod(w, "blue", "b1", 1, NULL);
	run(w);
	for (int round = 0; round < 6; round++) {
		for (int i = 0; i < 4; i++) {
			const char *path = text(w, "/api/v1/namespaces/red/pods/r%d", i);
			struct rf_json *pod = get(w, path), *claim = NULL;
			const char *its = NULL;

			if (pod == NULL || !rf_kube_deleting(pod))
				continue;
			its = text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s",
				   RF_STR(rf_pod_claim_name(&w->a, pod)));
			drop(w, path);
			run(w);
			claim = rf_json_clone(&w->a, get(w, its));
			rf_json_set_str(&w->a, rf_json_at(claim, "metadata"), "deletionTimestamp", RF_LIT("2026-11-15T05:00:00Z"));
			put(w, its, claim);
			run(w);
			drop(w, its);
			run(w);
		}
	}
	assert_int_equal(bound(w, "blue"), 2);
	assert_int_equal(bound(w, "red"), 2);
}

/* It runs on what another is guaranteed, who comes now. */
static void gang_that_must_go(struct world *w)
{
	gang_of_four(w);
	run(w);
	assert_true(started(w, "red", "train"));
	add_tenant(w, "blue", "{'quota':{'gpus':1},'queue':{'guaranteed':{'gpus':1}}}");
	add_pod(w, "blue", "b0", 1, NULL);
}

static size_t drop_evicted(struct world *w)
{
	size_t n = 0;

	for (int i = 0; i < 4; i++) {
		const char *path = text(w, POD, "red", text(w, "w%d", i));

		if (get(w, path) == NULL || !rf_kube_deleting(get(w, path)))
			continue;
		drop(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(rf_pod_claim_name(&w->a, get(w, path)))));
		drop(w, path);
		put(w, text(w, POD, "kube-system", text(w, "was-w%d", i)), /* check() counts who was bound */
		    rf_json_make(&w->a, "{'kind':'Pod','metadata':{'name':%s,'namespace':'kube-system','uid':%s},'spec':{'nodeName':'n1'},"
				 "'status':{'phase':'Succeeded'}}", text(w, "was-w%d", i), text(w, "was-%d", i)));
		n++;
	}
	return n;
}

/* Whatever write the process dies before, and although who was evicted is gone when the next one comes, and with it the reason:
 * all of a gang goes, or nobody of it. */
static void a_crash_between_evictions_leaves_no_half_gang(void **state)
{
	size_t halves = 0;
	int k = 1;

	for (bool died = true; died; k++) {
		void *own = NULL;
		struct world *w = NULL;
		size_t gone = 0;

		set_up(&own);
		w = own;
		gang_that_must_go(w);
		w->fault = FAULT_CRASH;
		w->at = w->writes + k;
		run(w);
		died = w->dead;
		gone = drop_evicted(w);
		halves += gone > 0 && gone < 4;
		drop(w, text(w, POD, "blue", "b0"));
		restart(w);
		run(w);
		gone += drop_evicted(w);
		assert_true(gone == 0 || gone == 4);
		run(w);
		assert_null(rf_json_at(get(w, text(w, GROUP, "red", "train")), "status", "ending"));
		tear_down(&own);
	}
	assert_true(halves >= 3); /* between two evictions, at least */
}

/* The group is its tenant's, and may refuse to be written (too large, says etcd, and the server calls that an internal error). */
static void a_group_that_cannot_be_written_keeps_its_gang_from_nothing(void **state)
{
	static const int codes[] = { RF_INTERNAL, RF_TOO_LARGE, RF_FORBIDDEN };

	for (size_t i = 0; i < RF_COUNT(codes); i++) {
		void *own = NULL;
		struct world *w = NULL;

		set_up(&own);
		w = own;
		gang_that_must_go(w);
		w->fault = FAULT_REFUSED;
		w->code = codes[i];
		w->only = "podgroups";
		w->each = true;
		run(w);
		assert_int_equal(drop_evicted(w), 4);
		run(w);
		assert_int_equal(bound(w, "blue"), 1);
		w->each = false;
		tear_down(&own);
	}
}

static void an_eviction_that_a_budget_refuses_is_not_said_to_have_happened(void **state)
{
	struct world *w = *state;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':2}}");
	add_tenant(w, "blue", "{'quota':{'gpus':2},'queue':{'guaranteed':{'gpus':1}}}");
	add_pod(w, "red", "r0", 1, NULL);
	run(w);
	add_pod(w, "blue", "b0", 1, NULL);
	w->fault = FAULT_REFUSED;
	w->code = RF_EXHAUSTED;
	w->only = "/eviction";
	w->at = w->writes + 1;
	deliver(w);
	rf_placer_turn(&w->p);
	assert_true(first(w, "event Reclaimed", "r0") == SIZE_MAX);
	assert_false(rf_kube_deleting(get(w, text(w, POD, "red", "r0"))));
	run(w); /* it is tried again */
	assert_true(first(w, "event Reclaimed", "r0") != SIZE_MAX);
}

/* One eviction is enough, whatever its answer: who does not look evicts a second one. */
static void an_eviction_that_may_have_been_done_is_not_done_twice(void **state)
{
	static const enum fault faults[] = { FAULT_DONE, FAULT_MUTE, FAULT_ERROR, FAULT_LOST };

	for (size_t k = 0; k < RF_COUNT(faults); k++) {
		void *own = NULL;
		struct world *w = NULL;
		int going = 0;

		set_up(&own);
		w = own;
		add_node(w, "n1", 2);
		add_tenant(w, "red", "{'quota':{'gpus':2}}");
		add_tenant(w, "blue", "{'quota':{'gpus':2},'queue':{'guaranteed':{'gpus':1}}}");
		add_pod(w, "red", "r0", 1, NULL);
		add_pod(w, "red", "r1", 1, NULL);
		run(w);
		add_pod(w, "blue", "b0", 1, NULL);
		w->fault = faults[k];
		w->code = RF_INTERNAL;
		w->only = "/eviction";
		w->writes = 0;
		w->at = 1;
		run(w);
		for (int i = 0; i < 2; i++)
			going += rf_kube_deleting(get(w, text(w, "/api/v1/namespaces/red/pods/r%d", i)));
		assert_int_equal(going, 1);
		assert_true(first(w, "event Reclaimed", "r") != SIZE_MAX); /* and it is told why */
		assert_true(first(w, "event Reclaimed", "r") == last(w, "event Reclaimed", "r"));
		tear_down(&own);
	}
}

static void a_binding_is_remembered_until_the_watch_repeats_it(void **state)
{
	struct world *w = *state;
	struct rf_json *stale = NULL;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1}}");
	add_pod(w, "red", "a", 1, NULL);
	deliver(w);
	stale = rf_json_clone(&w->a, get(w, text(w, POD, "red", "a")));
	rf_placer_turn(&w->p);
	assert_int_equal(bound(w, "red"), 1);
	/* A change from before the binding arrives after it. */
	rf_json_set_str(&w->a, rf_json_at(stale, "metadata"), "resourceVersion", RF_LIT("999"));
	tell(w, stale, stale);
	w->writes = 0;
	rf_placer_turn(&w->p);
	assert_int_equal(w->writes, 0);
}

static void nothing_is_written_when_nothing_happens(void **state)
{
	struct world *w = *state;

	gang_of_four(w);
	add_pod(w, "red", "late", 1, NULL);
	run(w);
	w->writes = 0;
	for (int i = 0; i < 10; i++) {
		w->now += 1000;
		w->p.now_ms = w->now;
		rf_placer_turn(&w->p);
	}
	assert_int_equal(w->writes, 0);
}

static void many_waiting_pods_are_told_some_at_a_time(void **state)
{
	struct world *w = *state;
	int64_t again = 0;

	add_node(w, "n1", 1);
	add_tenant(w, "red", "{'quota':{'gpus':1000}}");
	for (int i = 0; i < 101; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	deliver(w);
	again = rf_placer_turn(&w->p);
	assert_in_range(again, 0, 100); /* soon, but new pods are heard of first */
	assert_true(w->writes < 50);
	run(w);
	assert_int_equal(bound(w, "red"), 1);
	for (int i = 0; i < 101; i++) {
		const struct rf_json *pod = get(w, text(w, "/api/v1/namespaces/red/pods/p%d", i));

		if (rf_json_str_at(pod, "spec", "nodeName").n == 0)
			assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(pod, "status", "conditions"), 0),
							     "reason"),
					      "Unschedulable"));
	}
}

/* --- status and ledger ------------------------------------------------------------------------------ */

static void a_gang_is_started_only_when_enough_were_bound(void **state)
{
	struct world *w = *state;
	struct rf_json *g = rf_json_make(&w->a, "{'metadata':{'uid':'g'},'spec':{'minMember':3}}");
	struct rf_json *patch = rf_group_status(&w->a, g, false, 2, 0, RF_LIT("no room"));

	assert_false(rf_json_is_true(rf_json_at(patch, "status", "started")));
	assert_true(rf_str_is(rf_json_str_at(patch, "status", "phase"), "Pending"));
	assert_true(rf_str_is(rf_json_str_at(patch, "status", "message"), "no room"));
	patch = rf_group_status(&w->a, g, true, 2, 0, RF_LIT("no room")); /* one has ended */
	assert_true(rf_json_is_true(rf_json_at(patch, "status", "started")));
	assert_int_equal(rf_json_int(rf_json_at(patch, "status", "scheduled"), -1), 2);
	assert_int_equal(rf_json_str_at(patch, "status", "message").n, 0);
	assert_int_equal(rf_patch_merge(&w->a, &g, patch, NULL), 0);
	assert_null(rf_group_status(&w->a, g, true, 2, 0, RF_STR_EMPTY));
	patch = rf_group_status(&w->a, g, true, 2, START, RF_STR_EMPTY);
	assert_int_equal(rf_patch_merge(&w->a, &g, patch, NULL), 0);
	assert_true(rf_str_eq(rf_json_str_at(g, "status", "ending"), rf_time_format(&w->a, START)));
	assert_null(rf_group_status(&w->a, g, true, 2, START, RF_STR_EMPTY));
	patch = rf_group_status(&w->a, g, false, 0, 0, RF_STR_EMPTY); /* its pods are gone */
	assert_false(rf_json_is_true(rf_json_at(patch, "status", "started")));
	assert_true(rf_str_is(rf_json_str_at(patch, "status", "phase"), "Pending"));
	assert_int_equal(rf_patch_merge(&w->a, &g, patch, NULL), 0);
	assert_null(rf_json_at(g, "status", "ending"));
}

static void write_queues(struct world *w, bool usage)
{
	w->p.now_ms = w->now;
	rf_books_queues_due(&w->p, usage);
	while (rf_books_write_queues(&w->p) >= 0)
		;
}

static const struct rf_json *queue_status(struct world *w, int i)
{
	return rf_json_at(get(w, text(w, "/apis/ringfence.io/v1alpha1/queues/q%d", i)), "status");
}

static void add_queues(struct world *w, int n)
{
	for (int i = 0; i < n; i++)
		put(w, text(w, "/apis/ringfence.io/v1alpha1/queues/q%d", i),
		    rf_json_make(&w->a, "{'kind':'Queue','metadata':{'name':%s,'uid':%s},'spec':{'weight':1}}",
				 text(w, "q%d", i), text(w, "uid-%d", i)));
	deliver(w);
}

static bool was_told(struct world *w, int i)
{
	const struct rf_json *pod = get(w, text(w, "/api/v1/namespaces/red/pods/p%d", i));

	return rf_json_len(rf_json_at(pod, "status", "conditions")) > 0;
}

static void a_pod_that_cannot_be_told_why_it_waits_holds_up_no_other(void **state)
{
	struct world *w = *state;

	add_tenant(w, "red", "{'quota':{'gpus':1000}}");
	for (int i = 0; i < 5; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	w->only = "/pods/p0/status";
	w->each = true;
	w->fault = FAULT_REFUSED;
	w->code = RF_INTERNAL;
	deliver(w);
	for (int i = 0; i < 10; i++) { /* no time goes by */
		w->p.now_ms = w->now;
		rf_placer_turn(&w->p);
	}
	for (int i = 1; i < 5; i++)
		assert_true(was_told(w, i));
	assert_int_equal(w->writes, 1);
	w->each = false;
	run(w);
	assert_true(was_told(w, 0));
}

/* However many there are: some a turn, each once, and all of them soon. */
static void every_queue_is_written_some_at_a_time(void **state)
{
	struct world *w = *state;
	int turns = 0, most = 0;

	add_queues(w, 500);
	w->p.now_ms = w->now;
	rf_books_queues_due(&w->p, true);
	for (int before = 0; rf_books_write_queues(&w->p) >= 0; turns++) {
		most = RF_MAX(most, w->writes - before);
		before = w->writes;
		w->now += 10;
		w->p.now_ms = w->now;
	}
	assert_true(turns >= 500 / 64);
	assert_true(most <= 64);
	assert_int_equal(w->writes, 500);
	for (int i = 0; i < 500; i++)
		assert_non_null(queue_status(w, i));
	assert_false(w->p.moved);
}

/* One that cannot be written is tried ever more rarely, and the others do not wait for it. */
static void a_queue_that_cannot_be_written_holds_up_no_other(void **state)
{
	static const int codes[] = { RF_INTERNAL, RF_FORBIDDEN, RF_TIMEOUT };

	for (size_t k = 0; k < RF_COUNT(codes); k++) {
		void *own = NULL;
		struct world *w = NULL;
		int tried = 0;

		set_up(&own);
		w = own;
		add_queues(w, 100);
		w->fault = FAULT_REFUSED;
		w->code = codes[k];
		w->only = "/queues/q7/status";
		w->each = true;
		rf_books_queues_due(&w->p, true);
		for (int i = 0; i < 300; i++) { /* half a minute */
			w->p.now_ms = w->now;
			(void)rf_books_write_queues(&w->p);
			w->now += 100;
		}
		tried = w->writes;
		assert_in_range(tried, 2, 6); /* after 1, 2, 4, 8 and 16 s */
		for (int i = 0; i < 100; i++) {
			if (i != 7)
				assert_non_null(queue_status(w, i));
		}
		assert_null(queue_status(w, 7));
		w->each = false;
		w->now += 60000;
		w->p.now_ms = w->now;
		(void)rf_books_write_queues(&w->p);
		assert_non_null(queue_status(w, 7));
		assert_int_equal(rf_books_write_queues(&w->p), -1);
		tear_down(&own);
	}
}

/* More gangs than a turn writes, all of which fail: the one that does not is written all the same. */
static void gangs_that_cannot_be_written_hold_up_no_other(void **state)
{
	struct world *w = *state;

	add_tenant(w, "red", "{}");
	for (int i = 0; i < 100; i++)
		add_group(w, "red", text(w, "bad%d", i), 1);
	add_group(w, "red", "good", 1);
	deliver(w);
	w->fault = FAULT_REFUSED;
	w->code = RF_INTERNAL;
	w->only = "/podgroups/bad";
	w->each = true;
	for (int i = 0; i < 5; i++) {
		w->p.now_ms = w->now;
		assert_true(rf_books_write_groups(&w->p) > 0);
		w->now += 10;
	}
	assert_int_equal(w->writes, 100); /* each once */
	assert_non_null(rf_json_at(get(w, text(w, GROUP, "red", "good")), "status"));
}

static void a_queue_says_what_waits_and_what_runs(void **state)
{
	struct world *w = *state;
	const struct rf_json *status = NULL;

	add_node(w, "n1", 2);
	add_tenant(w, "red", "{'quota':{'gpus':8},'queue':{'guaranteed':{'gpus':1}}}");
	for (int i = 0; i < 3; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	run(w);
	assert_true(w->p.moved);
	write_queues(w, true);
	assert_false(w->p.moved);
	status = rf_json_at(get(w, "/apis/ringfence.io/v1alpha1/queues/red"), "status");
	assert_int_equal(rf_json_int(rf_json_at(status, "pending"), -1), 1);
	assert_int_equal(rf_json_int(rf_json_at(status, "running"), -1), 2);
	status = rf_json_item(rf_json_at(status, "resources"), 0);
	assert_true(rf_str_is(rf_json_str_at(status, "name"), "cards"));
	assert_int_equal(rf_json_int(rf_json_at(status, "used"), -1), 2);
	assert_int_equal(rf_json_int(rf_json_at(status, "guaranteed"), -1), 1);
	assert_int_equal(rf_json_int(rf_json_at(status, "limit"), -1), 8);
	assert_int_equal(rf_json_int(rf_json_at(status, "wanted"), -1), 1);
	deliver(w);
	w->writes = 0;
	write_queues(w, false);
	assert_int_equal(w->writes, 0);
}

static void a_queue_above_others_counts_theirs(void **state)
{
	struct world *w = *state;
	const char *names[] = { "org", "dept", "red", "blue" };

	add_node(w, "n1", 2);
	put(w, "/apis/ringfence.io/v1alpha1/queues/org",
	    rf_json_make(&w->a, "{'kind':'Queue','metadata':{'name':'org'},'spec':{'weight':1}}"));
	put(w, "/apis/ringfence.io/v1alpha1/queues/dept",
	    rf_json_make(&w->a, "{'kind':'Queue','metadata':{'name':'dept'},'spec':{'parent':'org'}}"));
	add_tenant(w, "red", "{'quota':{'gpus':8},'queue':{'parent':'dept'}}");
	add_tenant(w, "blue", "{'quota':{'gpus':8},'queue':{'parent':'org'}}");
	for (int i = 0; i < 3; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, NULL);
	add_pod(w, "blue", "q", 1, NULL);
	run(w);
	write_queues(w, true);
	for (size_t i = 0; i < RF_COUNT(names); i++) {
		const struct rf_json *status =
			rf_json_at(get(w, text(w, "/apis/ringfence.io/v1alpha1/queues/%s", names[i])), "status");
		int64_t pods = rf_json_int(rf_json_at(status, "pending"), 0) + rf_json_int(rf_json_at(status, "running"), 0);

		assert_int_equal(pods, i == 0 ? 4 : i == 3 ? 1 : 3);
		if (i == 0)
			assert_int_equal(rf_json_int(rf_json_at(status, "running"), 0), 2);
	}
}

static void a_queue_without_a_limit_tells_none(void **state)
{
	struct world *w = *state;
	const struct rf_json *cards = NULL;

	put(w, "/apis/ringfence.io/v1alpha1/queues/org",
	    rf_json_make(&w->a, "{'kind':'Queue','metadata':{'name':'org'},'spec':{'weight':1,'resources':"
				"[{'name':'cards','guaranteed':2}]}}"));
	deliver(w);
	write_queues(w, false);
	cards = rf_json_item(rf_json_at(get(w, "/apis/ringfence.io/v1alpha1/queues/org"), "status", "resources"), 0);
	assert_true(rf_str_is(rf_json_str_at(cards, "name"), "cards"));
	assert_null(rf_json_at(cards, "limit"));
	assert_int_equal(rf_json_int(rf_json_at(cards, "wanted"), -1), 0);
}

static void a_queue_tells_of_a_model_as_it_was_written(void **state)
{
	struct world *w = *state;
	const struct rf_json *cards = NULL;

	add_node(w, "n1", 2);
	add_tenant(w, "red", "{'quota':{'gpus':8},'queue':{'resources':[{'name':'cards/H100','guaranteed':1}]}}");
	add_pod(w, "red", "p", 1, NULL);
	run(w);
	write_queues(w, false);
	cards = rf_json_item(rf_json_at(get(w, "/apis/ringfence.io/v1alpha1/queues/red"), "status", "resources"), 0);
	assert_true(rf_str_is(rf_json_str_at(cards, "name"), "cards/H100"));
	assert_int_equal(rf_json_int(rf_json_at(cards, "used"), -1), 1);
	assert_int_equal(rf_json_int(rf_json_at(cards, "guaranteed"), -1), 1);
}

static void a_queue_that_makes_no_sense_says_so_until_it_does(void **state)
{
	struct world *w = *state;

	add_tenant(w, "red", "{'queue':{'parent':'org'}}");
	deliver(w);
	write_queues(w, false);
	assert_true(rf_json_str_at(get(w, "/apis/ringfence.io/v1alpha1/queues/red"), "status", "message").n > 0);
	put(w, "/apis/ringfence.io/v1alpha1/queues/org",
	    rf_json_make(&w->a, "{'kind':'Queue','metadata':{'name':'org'},'spec':{'weight':1}}"));
	deliver(w);
	write_queues(w, false);
	assert_int_equal(rf_json_str_at(get(w, "/apis/ringfence.io/v1alpha1/queues/red"), "status", "message").n, 0);
}

static int64_t usage(struct world *w, const char *queue)
{
	struct rf_queues *qs = rf_core_queues(w->core);

	return (int64_t)(rf_queue_usage(qs, rf_queues_find(qs, rf_str(queue)), w->now) >> 32);
}

static void past_usage_outlives_the_process(void **state)
{
	struct world *w = *state;
	struct rf_err err = RF_ERR_INIT;
	int64_t before = 0;

	add_node(w, "n1", 2);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	add_pod(w, "red", "a", 1, NULL);
	run(w);
	w->now += 3600000;
	w->p.now_ms = w->now;
	before = usage(w, "red");
	assert_true(before > 0);
	assert_int_equal(rf_usage_save(&w->p, &err), 0);
	assert_int_equal(rf_usage_save(&w->p, &err), 0); /* over the first */
	drop(w, text(w, POD, "red", "a"));
	restart(w);
	assert_int_equal(usage(w, "red"), 0);
	assert_int_equal(rf_usage_load(&w->p, &err), 0);
	assert_true(usage(w, "red") > before * 9 / 10);
	/* One that is spoilt keeps nobody from starting. */
	rf_json_set(&w->a, get(w, "/api/v1/namespaces/ringfence-system/configmaps/ringfence-ledger"), RF_LIT("data"),
		    rf_json_make(&w->a, "{'ledger':'what is this'}"));
	assert_int_equal(rf_usage_load(&w->p, &err), 0);
}

static void the_event_log_is_bounded_and_turned_over_once(void **state)
{
	struct world *w = *state;
	char dir[] = "/tmp/ringfence-test.XXXXXX";
	struct rf_event_log *l = NULL;
	struct rf_err err = RF_ERR_INIT;
	const char *path = NULL, *older = NULL;
	FILE *f = NULL;
	char line[64];

	assert_non_null(mkdtemp(dir));
	path = text(w, "%s/events", dir);
	older = text(w, "%s/events.1", dir);
	assert_int_equal(rf_event_log_open(path, 100, &l, &err), 0);
	for (int i = 0; i < 25; i++)
		rf_event_log_line(l, rf_str(text(w, "%09d\n", i)));
	rf_event_log_close(l);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "000000020\n");
	fclose(f);
	f = fopen(older, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_string_equal(line, "000000010\n");
	fclose(f);
	unlink(path);
	unlink(older);
	/* Only plain files are moved aside. */
	assert_int_equal(rf_event_log_open(dir, 100, &l, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "not a plain file"));
	assert_int_equal(access(dir, F_OK), 0);
	rmdir(dir);
	assert_true(rf_event_log_open(text(w, "%s/nowhere", dir), 100, &l, &err) < 0);
}

struct reader {
	struct rf_core *core; /* that is told the same */
	size_t facts, binds;
};

static void read_line(void *ctx, struct rf_str line)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct reader *r = ctx;
	struct rf_log_event e = { 0 };
	struct rf_err err = RF_ERR_INIT;

	assert_true(line.n > 0 && line.p[line.n - 1] == '\n');
	if (rf_log_read(&a, line, &e, &err) < 0)
		fail_msg("%s", err.msg);
	r->binds += e.kind == RF_LOG_DECISION && e.decision.verdict == RF_CORE_BIND;
	r->facts += e.kind < RF_LOG_DECISION;
	if (e.kind < RF_LOG_DECISION)
		assert_int_equal(rf_log_tell(r->core, &e, &err), 0);
}

/* What is logged is enough for another core to come to the same. */
static void what_is_heard_and_decided_is_logged(void **state)
{
	struct world *w = *state;
	struct rf_core_config config;
	struct reader r = { 0 };
	struct rf_core_decision *d = NULL;

	rf_core_config_default(&config);
	r.core = rf_core_new(&config);
	rf_core_log_to(w->core, read_line, &r);
	gang_of_four(w);
	run(w);
	rf_core_log_to(w->core, NULL, NULL);
	assert_int_equal(r.binds, 4);
	assert_true(r.facts >= 12);
	assert_int_equal(rf_core_decide(r.core, w->now, 16, &w->a, &d), 0); /* all of it is bound there, too */
	assert_int_equal(rf_queues_find(rf_core_queues(r.core), RF_LIT("red")) != NULL, 1);
	rf_core_free(r.core);
}

/* --- pools ------------------------------------------------------------------------------------------- */

static void add_pool(struct world *w, const char *placement)
{
	put(w, "/apis/ringfence.io/v1alpha1/gpupools/h100",
	    rf_json_make(&w->a, "{'kind':'GPUPool','metadata':{'name':'h100'},'spec':{'placement':%s}}", placement));
}

/* Two pods on two machines of the pool: together or not. */
static bool together(struct world *w)
{
	add_pod(w, "red", "a", 1, NULL);
	run(w);
	add_pod(w, "red", "b", 1, NULL);
	run(w);
	assert_int_equal(bound(w, "red"), 2);
	return rf_str_eq(node_of(w, "red", "a"), node_of(w, "red", "b"));
}

static void a_pool_says_how_its_nodes_are_used(void **state)
{
	static const struct {
		const char *placement, *then; /* then: as it is changed to, "": deleted */
		bool together;
	} cases[] = { { "spread", NULL, false },   { "pack", NULL, true },   { "pack", "spread", false },
		      { "spread", "pack", true }, { "spread", "", true }, { "spread", "nonsense", true } };

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		for (int first = 0; first < 2; first++) { /* told before its nodes or after */
			void *own = NULL;
			struct world *w = NULL;

			set_up(&own);
			w = own;
			add_tenant(w, "red", "{'quota':{'gpus':8}}");
			if (first)
				add_pool(w, cases[i].placement);
			for (int k = 0; k < 2; k++) {
				struct rf_json *o = NULL;

				add_node(w, text(w, "n%d", k), 4);
				o = rf_json_clone(&w->a, get(w, text(w, "/api/v1/nodes/n%d", k)));
				rf_json_set_str(&w->a, rf_json_ensure(&w->a, o, "metadata", "labels"), RF_POOL_LABEL, RF_LIT("h100"));
				put(w, text(w, "/api/v1/nodes/n%d", k), o);
			}
			deliver(w);
			if (!first)
				add_pool(w, cases[i].placement);
			deliver(w);
			if (cases[i].then != NULL && cases[i].then[0] == '\0')
				drop(w, "/apis/ringfence.io/v1alpha1/gpupools/h100");
			else if (cases[i].then != NULL)
				add_pool(w, cases[i].then);
			assert_int_equal(together(w), cases[i].together);
			tear_down(&own);
		}
	}
}

/* --- whole cards by moving --------------------------------------------------------------------------- */

/* A share of 8Gi on a card, bound and running for fifty minutes. */
static struct rf_json *add_share_on(struct world *w, const char *name, const char *node, const char *card, const char *maker)
{
	struct rf_sched_grant g = { .container = RF_LIT("main"), .device = rf_str(card), .bytes = INT64_C(8) << 30, .milli = 100 };
	struct rf_json *pod = rf_json_make(
		&w->a,
		"{'apiVersion':'v1','kind':'Pod','metadata':{'name':%s,'namespace':'red','uid':%s,'creationTimestamp':"
		"'2026-11-15T04:00:00Z'},'spec':{'nodeName':%s,'containers':[{'name':'main','resources':{'limits':"
		"{'ringfence.io/gpu-memory':'8Gi','ringfence.io/gpu-compute':'10'}}}]},'status':{'phase':'Running',"
		"'startTime':%S}}",
		name, text(w, "%s-00000-uid", name), node, rf_time_format(&w->a, w->now - 3000000));
	struct rf_core_decision d = { .uid = rf_kube_uid(pod),
				      .ns = RF_LIT("red"),
				      .name = rf_str(name),
				      .tenant = RF_LIT("red"),
				      .node = rf_str(node),
				      .grants = &g,
				      .n_grants = 1 };
	struct rf_json *claim = NULL;

	if (maker != NULL)
		rf_json_set(&w->a, rf_json_at(pod, "metadata"), RF_LIT("ownerReferences"),
			    rf_json_make(&w->a, "[{'apiVersion':'apps/v1','kind':%s,'name':'web','uid':'m','controller':true}]", maker));
	claim = rf_json_clone(&w->a, rf_claim_object(&w->a, pod, &d));
	claim = rf_json_clone(&w->a, rf_claim_allocated(&w->a, claim, pod, &d, w->now));
	rf_json_set_str(&w->a, rf_json_at(claim, "metadata"), "uid", rf_str(text(w, "claim-%s", name)));
	put(w, text(w, POD, "red", name), pod);
	put(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(rf_kube_name(claim))), claim);
	return pod;
}

static struct rf_json *add_share(struct world *w, const char *name, const char *node, const char *maker)
{
	return add_share_on(w, name, node, "gpu-0", maker);
}

/* Three machines of one card, with a little on each. */
static void scattered(struct world *w, const char *maker)
{
	add_tenant(w, "red", "{'isolation':'share','quota':{'gpuMemory':'100Gi'}}");
	for (int i = 0; i < 3; i++) {
		add_node(w, text(w, "n%d", i), 1);
		add_share(w, text(w, "s%d", i), text(w, "n%d", i), maker);
	}
}

static struct rf_json *plan(struct world *w)
{
	struct rf_defragment_opts o = { .now_ms = w->now, .most = 10 };
	struct rf_json *p = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (rf_defragment_plan_by(&w->p.hands, &o, &w->a, &p, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

static size_t moves_in(struct world *w)
{
	return rf_json_len(rf_json_at(plan(w), "moves"));
}

static void a_plan_says_what_moves_what_for_and_at_what_cost(void **state)
{
	struct world *w = *state;
	const struct rf_json *p = NULL, *m = NULL;

	scattered(w, "ReplicaSet");
	p = plan(w);
	assert_int_equal(rf_json_len(rf_json_at(p, "moves")), 2);
	m = rf_json_item(rf_json_at(p, "moves"), 0);
	assert_true(rf_str_is(rf_json_str_at(m, "pod"), "s2"));
	assert_true(rf_str_is(rf_json_str_at(m, "namespace"), "red"));
	assert_true(rf_str_is(rf_json_str_at(m, "uid"), "s2-00000-uid"));
	assert_true(rf_str_is(rf_json_str_at(m, "owner"), "ReplicaSet/web"));
	assert_true(rf_str_is(rf_json_str_at(m, "node"), "n2"));
	assert_true(rf_str_is(rf_json_str_at(m, "card"), "gpu-0"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOn"), "n0"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOnCard"), "gpu-0"));
	assert_int_equal(rf_json_int(rf_json_at(m, "ranSeconds"), -1), 3000);
	assert_int_equal(rf_json_len(rf_json_at(p, "cards")), 2);
	assert_true(rf_str_is(rf_json_str(rf_json_item(rf_json_at(p, "cards"), 0)), "n2/gpu-0"));
	assert_int_equal(rf_json_len(rf_json_at(p, "machines")), 2);
	assert_int_equal(rf_json_int(rf_json_at(p, "freeCards", "now"), -1), 0);
	assert_int_equal(rf_json_int(rf_json_at(p, "freeCards", "then"), -1), 2);
	assert_int_equal(rf_json_int(rf_json_at(p, "cost", "pods"), -1), 2);
	assert_int_equal(rf_json_int(rf_json_at(p, "cost", "ranSeconds"), -1), 6000);
	assert_int_equal(w->writes, 0);
}

static void what_must_stay_is_in_no_plan(void **state)
{
	static const char *const makers[] = { NULL, "Node", "DaemonSet" };
	struct world *w = *state;

	for (size_t i = 0; i < RF_COUNT(makers); i++) {
		scattered(w, makers[i]);
		assert_int_equal(moves_in(w), 0); /* nobody would make them again; a daemon's would only come back */
	}
	scattered(w, "Job");
	assert_int_equal(moves_in(w), 2);
	/* The first two cannot go: the last has room beside them. */
	for (int i = 0; i < 2; i++) {
		struct rf_json *o = add_share(w, text(w, "s%d", i), text(w, "n%d", i), "Job");

		rf_json_set_str(&w->a, rf_json_ensure(&w->a, o, "metadata", "annotations"), i == 1 ? "ringfence.io/preemptible" : "ringfence.io/min-run-seconds",
				i == 1 ? RF_LIT("false") : RF_LIT("3600"));
	}
	assert_int_equal(moves_in(w), 1);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(plan(w), "moves"), 0), "pod"), "s2"));
	/* Nor what a budget keeps. */
	put(w, "/apis/policy/v1/namespaces/red/poddisruptionbudgets/all",
	    rf_json_make(&w->a, "{'kind':'PodDisruptionBudget','metadata':{'name':'all','namespace':'red'},'spec':{'selector':{}},"
				"'status':{'disruptionsAllowed':0}}"));
	assert_int_equal(moves_in(w), 0);
}

/* What is evicted there goes to the empty machines again. */
static void a_pool_that_is_spread_is_not_made_whole(void **state)
{
	struct world *w = *state;

	scattered(w, "Job");
	for (int i = 0; i < 3; i++)
		rf_json_set_str(&w->a, rf_json_ensure(&w->a, get(w, text(w, "/api/v1/nodes/n%d", i)), "metadata", "labels"),
				RF_POOL_LABEL, RF_LIT("h100"));
	add_pool(w, "spread");
	assert_int_equal(moves_in(w), 0);
	add_pool(w, "pack");
	assert_int_equal(moves_in(w), 2);
}

static void what_another_scheduler_placed_stays(void **state)
{
	struct world *w = *state;

	scattered(w, "Job");
	for (int i = 0; i < 3; i++) {
		struct rf_json *o = add_share(w, text(w, "s%d", i), text(w, "n%d", i), "Job");

		rf_json_set_str(&w->a, rf_json_at(o, "spec"), "schedulerName", RF_LIT("other"));
	}
	assert_int_equal(moves_in(w), 0);
}

static void a_plan_is_carried_out_up_to_the_first_refusal(void **state)
{
	static const struct {
		enum fault fault;
		int code;
		size_t done;
		int evicted;
	} cases[] = { { FAULT_NONE, 0, 2, 2 },
		      { FAULT_REFUSED, RF_EXHAUSTED, 0, 0 }, /* a budget */
		      { FAULT_REFUSED, RF_FORBIDDEN, 0, 0 },
		      { FAULT_REFUSED, RF_NOT_FOUND, 2, 1 }, /* it is gone already */
		      { FAULT_ERROR, RF_INTERNAL, 0, 0 },
		      { FAULT_DONE, RF_INTERNAL, 2, 2 } };

	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		void *own = NULL;
		struct world *w = NULL;
		struct rf_err err = RF_ERR_INIT;
		size_t done = 99;
		int rc = 0;

		set_up(&own);
		w = own;
		scattered(w, "ReplicaSet");
		w->fault = cases[i].fault;
		w->code = cases[i].code;
		w->at = cases[i].fault == FAULT_NONE ? NEVER : 1;
		rc = rf_defragment_apply_by(&w->p.hands, &w->a, plan(w), &done, &err);
		assert_int_equal(done, cases[i].done);
		assert_int_equal(w->evicted, cases[i].evicted);
		assert_int_equal(rc, done == 2 ? 0 : -cases[i].code);
		if (rc < 0)
			assert_non_null(strstr(err.msg, "0 of 2 are"));
		tear_down(&own);
	}
}

/* The pod that a controller makes for one that goes. */
static void make_again(struct world *w, const char *name)
{
	struct rf_json *o = rf_json_clone(&w->a, get(w, text(w, POD, "red", name))), *meta = rf_json_at(o, "metadata");

	rf_json_set_str(&w->a, meta, "name", rf_str(text(w, "%s-again", name)));
	rf_json_set_str(&w->a, meta, "uid", rf_str(text(w, "%s-again0-uid", name)));
	rf_json_del(meta, RF_LIT("deletionTimestamp"));
	rf_json_del(rf_json_at(o, "spec"), RF_LIT("nodeName"));
	rf_json_del(o, RF_LIT("status"));
	put(w, text(w, "/api/v1/namespaces/red/pods/%s-again", name), o);
}

static struct rf_str card_of(struct world *w, const char *pod)
{
	struct rf_str name = rf_pod_claim_name(&w->a, get(w, text(w, POD, "red", pod)));
	const struct rf_json *claim =
		get(w, text(w, "/apis/resource.k8s.io/v1/namespaces/red/resourceclaims/%.*s", RF_STR(name)));

	return rf_json_str_at(rf_json_item(rf_json_at(claim, "status", "allocation", "devices", "results"), 0), "device");
}

/* From card to card: what is said of the machine, and that it comes so while the old one is still there. */
static void a_plan_moves_inside_a_machine(void **state)
{
	struct world *w = *state;
	struct rf_err err = RF_ERR_INIT;
	const struct rf_json *p = NULL, *m = NULL;
	size_t done = 0;

	add_tenant(w, "red", "{'isolation':'share','quota':{'gpuMemory':'100Gi'}}");
	add_node(w, "n0", 2);
	add_share_on(w, "s0", "n0", "gpu-0", "ReplicaSet");
	add_share_on(w, "s1", "n0", "gpu-1", "ReplicaSet");
	deliver(w);
	(void)rf_placer_turn(&w->p);
	p = plan(w);
	assert_int_equal(rf_json_len(rf_json_at(p, "moves")), 1);
	m = rf_json_item(rf_json_at(p, "moves"), 0);
	assert_true(rf_str_is(rf_json_str_at(m, "pod"), "s1"));
	assert_true(rf_str_is(rf_json_str_at(m, "card"), "gpu-1"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOn"), "n0"));
	assert_true(rf_str_is(rf_json_str_at(m, "roomOnCard"), "gpu-0"));
	assert_int_equal(rf_json_len(rf_json_at(p, "cards")), 1);
	assert_int_equal(rf_json_len(rf_json_at(p, "slices")), 0);
	assert_int_equal(rf_json_len(rf_json_at(p, "machines")), 0);
	assert_int_equal(rf_json_int(rf_json_at(p, "freeCards", "then"), -1), 1);
	assert_int_equal(rf_defragment_apply_by(&w->p.hands, &w->a, p, &done, &err), 0);
	assert_int_equal(done, 1);
	make_again(w, "s1");
	deliver(w);
	(void)rf_placer_turn(&w->p);
	assert_true(rf_str_is(card_of(w, "s1-again"), "gpu-0"));
}

/* Who is made again while the one before it still goes must not come back to the card that is to be free. */
static void what_is_made_again_goes_to_the_others(void **state)
{
	struct world *w = *state;
	struct rf_err err = RF_ERR_INIT;
	const struct rf_json *moves = NULL;
	size_t done = 0;

	scattered(w, "ReplicaSet");
	deliver(w);
	(void)rf_placer_turn(&w->p);
	moves = rf_json_at(plan(w), "moves");
	assert_int_equal(rf_defragment_apply_by(&w->p.hands, &w->a, plan(w), &done, &err), 0);
	assert_int_equal(done, 2);
	for (size_t i = 0; i < done; i++) {
		const char *name = rf_arena_cstr(&w->a, rf_json_str_at(rf_json_item(moves, i), "pod"));

		make_again(w, name);
		deliver(w);
		(void)rf_placer_turn(&w->p);
		assert_true(rf_str_is(node_of(w, "red", text(w, "%s-again", name)), "n0"));
	}
}

static void a_plan_needs_all_that_the_scheduler_knows(void **state)
{
	struct world *w = *state;
	struct rf_defragment_opts o = { .now_ms = w->now, .most = 10 };
	struct rf_json *p = NULL;
	struct rf_err err = RF_ERR_INIT;

	scattered(w, "ReplicaSet");
	w->muted = true;
	assert_int_equal(rf_defragment_plan_by(&w->p.hands, &o, &w->a, &p, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "list tenants"));
	assert_null(p);
}

/* --- groups of other schedulers --------------------------------------------------------------------- */

#define VOLCANO "scheduling.volcano.sh/v1beta1"
#define X_K8S "scheduling.x-k8s.io/v1alpha1"

static int set_up_foreign(void **state)
{
	struct rf_foreign f = { 0 };

	assert_int_equal(rf_foreign_parse(RF_LIT("volcano,x-k8s"), RF_STR_EMPTY, &f, NULL), 0);
	rf_foreign_set(&f);
	return set_up(state);
}

static int tear_down_foreign(void **state)
{
	rf_foreign_set(&(struct rf_foreign){ 0 });
	return tear_down(state);
}

static struct rf_json *foreign(struct world *w, const char *version, const char *uid, const char *spec)
{
	/* It was told how it fares: that is in test_adopt.c. */
	return rf_json_make(&w->a, "{'apiVersion':%s,'kind':'PodGroup','metadata':{'name':'train','namespace':'red','uid':%s},"
				   "'spec':%j,'status':{'phase':%s}}",
			    version, uid, rf_json_make(&w->a, spec), strcmp(version, VOLCANO) == 0 ? "Inqueue" : "Scheduled");
}

static struct rf_adopt adopter(struct world *w)
{
	return (struct rf_adopt){ .hands = &w->p.hands, .cluster = &w->p.cluster };
}

static int adopt(struct rf_adopt *d, const struct rf_json *group)
{
	return rf_adopt_group(d, group, &(struct rf_err)RF_ERR_INIT);
}

static size_t said(const struct world *w, const char *line)
{
	size_t n = 0;

	for (size_t i = 0; i < w->log.n; i++)
		n += strcmp(w->log.at[i], line) == 0;
	return n;
}

static void a_foreign_group_becomes_ours_and_is_kept_as_it_says(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);
	const struct rf_json *ours = NULL;
	char *at = text(w, GROUP, "red", "train");

	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':3,'queue':'red'}")), 0);
	ours = get(w, at);
	assert_int_equal(rf_json_int(rf_json_at(ours, "spec", "minMember"), -1), 3);
	assert_true(rf_str_is(rf_json_str_at(ours, "spec", "queue"), "red"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(ours, "metadata", "ownerReferences"), 0), "uid"), "u1"));
	deliver(w);
	w->writes = 0;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':3,'queue':'red'}")), 0);
	assert_int_equal(w->writes, 0);
	/* The spec of a PodGroup cannot be changed. */
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':5,'queue':'default'}")), 0);
	assert_null(get(w, at));
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':5,'queue':'default'}")), 0);
	deliver(w);
	ours = get(w, at);
	assert_int_equal(rf_json_int(rf_json_at(ours, "spec", "minMember"), -1), 5);
	assert_null(rf_json_at(ours, "spec", "queue"));
	assert_int_equal(said(w, "event NotAdopted train"), 0);
	rf_adopt_done(&d);
}

static void pods_of_a_foreign_group_run_together(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);

	add_node(w, "n1", 4);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	for (int i = 0; i < 3; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, "train");
	run(w);
	assert_int_equal(rf_json_str_at(get(w, text(w, POD, "red", "p0")), "spec", "nodeName").n, 0);
	assert_int_equal(adopt(&d, foreign(w, X_K8S, "u1", "{'minMember':3}")), 0);
	run(w);
	for (int i = 0; i < 3; i++)
		assert_true(rf_str_is(rf_json_str_at(get(w, text(w, POD, "red", text(w, "p%d", i))), "spec", "nodeName"), "n1"));
	assert_true(rf_json_is_true(rf_json_at(get(w, text(w, GROUP, "red", "train")), "status", "started")));
	/* What runs by it is not called half a gang later. */
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, X_K8S, "u1", "{'minMember':4}")), 0);
	assert_int_equal(rf_json_int(rf_json_at(get(w, text(w, GROUP, "red", "train")), "spec", "minMember"), -1), 3);
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	rf_adopt_done(&d);
}

static void what_is_wrong_with_a_foreign_group_is_said_once(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);
	struct rf_json *bad = foreign(w, VOLCANO, "u1", "{'minMember':2,'queue':'blue'}");

	add_tenant(w, "red", "{}");
	add_tenant(w, "blue", "{}");
	deliver(w);
	for (int i = 0; i < 2; i++)
		assert_int_equal(adopt(&d, bad), 0);
	assert_null(get(w, text(w, GROUP, "red", "train"))); /* another tenant's queue */
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':-1}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 2);
	rf_adopt_forget(&d, bad);
	assert_int_equal(adopt(&d, bad), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 3);
	/* The server's own no is the group's trouble too; its silence is not. */
	w->at = w->writes + 1;
	w->fault = FAULT_REFUSED;
	w->code = RF_FORBIDDEN;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u2", "{}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 4);
	w->at = w->writes + 1;
	w->fault = FAULT_LOST;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u2", "{}")), -RF_TIMEOUT);
	assert_int_equal(said(w, "event NotAdopted train"), 4);
	w->muted = false;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u2", "{}")), 0);
	assert_non_null(get(w, text(w, GROUP, "red", "train")));
	rf_adopt_done(&d);
}

static void groups_that_are_not_made_from_this_one_are_left_alone(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);
	char *at = text(w, GROUP, "red", "train");

	/* A namespace that is nobody's, and one nobody heard of. */
	put(w, "/api/v1/namespaces/red", rf_json_make(&w->a, "{'kind':'Namespace','metadata':{'name':'red'}}"));
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{}")), 0);
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{}")), 0);
	assert_null(get(w, at));
	/* One that its owner wrote. */
	add_tenant(w, "red", "{}");
	put(w, at, rf_json_make(&w->a, "{'kind':'PodGroup','metadata':{'name':'train','namespace':'red','uid':'g'},'spec':"
				       "{'minMember':7}}"));
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':2}")), 0);
	assert_int_equal(rf_json_int(rf_json_at(get(w, at), "spec", "minMember"), -1), 7);
	drop(w, at);
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':2}")), 0);
	deliver(w);
	/* One of the same name: of another kind it is in the way, of before it goes soon. */
	assert_int_equal(adopt(&d, foreign(w, X_K8S, "u2", "{'minMember':4}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u3", "{'minMember':4}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	assert_int_equal(rf_json_int(rf_json_at(get(w, at), "spec", "minMember"), -1), 2);
	/* A kind whose habit is off, and one that goes. */
	drop(w, at);
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, "scheduling.run.ai/v2alpha2", "u4", "{}")), 0);
	rf_foreign_set(&(struct rf_foreign){ .habits = RF_HABIT_X_K8S });
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u4", "{}")), 0);
	assert_null(get(w, at));
	rf_adopt_done(&d);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define FOREIGN(f) cmocka_unit_test_setup_teardown(f, set_up_foreign, tear_down_foreign)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_pod_gets_its_claim_then_its_node),
		TEST(all_claims_of_a_gang_are_written_before_its_first_binding),
		TEST(a_gang_that_does_not_fit_gets_nothing),
		TEST(a_crash_before_any_write_leaves_a_whole_gang_in_the_end),
		TEST(a_gang_of_which_none_is_left_starts_anew),
		TEST(a_fault_leaves_no_half_gang_that_says_it_started),
		TEST(a_gang_that_cannot_say_that_it_starts_anew_waits),
		TEST(a_crash_and_a_lost_node_leave_no_half_gang),
		TEST(a_refused_write_of_a_gang_takes_its_claims_back),
		TEST(a_write_without_an_answer_gives_nothing_away_twice),
		TEST(a_write_that_went_wrong_may_have_been_done),
		TEST(an_allocation_that_comes_late_meets_no_claim),
		TEST(a_claim_is_not_taken_from_who_was_bound_late),
		TEST(the_others_of_who_is_bound_already_are_tried_again),
		TEST(a_claim_made_anew_under_its_name_is_not_deleted),
		TEST(a_claim_that_may_be_deleted_is_looked_at_again),
		TEST(a_binding_that_fails_does_not_hold_up_the_others),
		TEST(a_pod_that_went_while_it_was_bound_holds_no_card),
		TEST(what_is_refused_each_time_is_tried_again_later),
		TEST(who_lost_its_claim_does_not_wait_for_good),
		TEST(who_needs_no_claim_of_ours_is_left_alone),
		TEST(a_guaranteed_tenant_gets_its_cards_back_by_eviction),
		TEST(what_is_evicted_leaves_in_its_own_order),
		TEST(a_crash_between_evictions_leaves_no_half_gang),
		TEST(a_group_that_cannot_be_written_keeps_its_gang_from_nothing),
		TEST(an_eviction_that_a_budget_refuses_is_not_said_to_have_happened),
		TEST(an_eviction_that_may_have_been_done_is_not_done_twice),
		TEST(a_binding_is_remembered_until_the_watch_repeats_it),
		TEST(nothing_is_written_when_nothing_happens),
		TEST(many_waiting_pods_are_told_some_at_a_time),
		TEST(a_gang_is_started_only_when_enough_were_bound),
		TEST(a_pod_that_cannot_be_told_why_it_waits_holds_up_no_other),
		TEST(every_queue_is_written_some_at_a_time),
		TEST(a_queue_that_cannot_be_written_holds_up_no_other),
		TEST(gangs_that_cannot_be_written_hold_up_no_other),
		TEST(a_queue_says_what_waits_and_what_runs),
		TEST(a_queue_above_others_counts_theirs),
		TEST(a_queue_without_a_limit_tells_none),
		TEST(a_queue_tells_of_a_model_as_it_was_written),
		TEST(a_queue_that_makes_no_sense_says_so_until_it_does),
		TEST(past_usage_outlives_the_process),
		TEST(the_event_log_is_bounded_and_turned_over_once),
		TEST(what_is_heard_and_decided_is_logged),
		TEST(a_pool_says_how_its_nodes_are_used),
		TEST(a_plan_says_what_moves_what_for_and_at_what_cost),
		TEST(a_plan_moves_inside_a_machine),
		TEST(what_must_stay_is_in_no_plan),
		TEST(a_pool_that_is_spread_is_not_made_whole),
		TEST(what_another_scheduler_placed_stays),
		TEST(a_plan_is_carried_out_up_to_the_first_refusal),
		TEST(what_is_made_again_goes_to_the_others),
		TEST(a_plan_needs_all_that_the_scheduler_knows),
		FOREIGN(a_foreign_group_becomes_ours_and_is_kept_as_it_says),
		FOREIGN(pods_of_a_foreign_group_run_together),
		FOREIGN(what_is_wrong_with_a_foreign_group_is_said_once),
		FOREIGN(groups_that_are_not_made_from_this_one_are_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
