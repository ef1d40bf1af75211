#include "control/test_placing_world.h"

/* --- the server --------------------------------------------------------------------------------- */

char *text(struct world *w, const char *fmt, ...)
{
	char out[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(out, sizeof(out), fmt, args);
	va_end(args);
	return (char *)rf_arena_cstr(&w->a, rf_str(out));
}

void put(struct world *w, const char *path, struct rf_json *o)
{
	struct rf_json *meta = rf_json_ensure(&w->a, o, "metadata");

	rf_json_set_str(&w->a, meta, "resourceVersion", rf_str(text(w, "%lld", (long long)++w->rv)));
	(void)rf_map_set(&w->objects, rf_str(path), o);
	rf_vec_push(&w->fresh, text(w, "%s", path));
}

void drop(struct world *w, const char *path)
{
	if (rf_map_del(&w->objects, rf_str(path)) != NULL)
		rf_vec_push(&w->fresh, text(w, "%s", path));
}

struct rf_json *get(struct world *w, const char *path)
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

void drop_those(struct world *w, const char *part)
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

	w->in_vain += w->dead || w->muted;
	if (w->dead || w->muted)
		return rf_fail(err, RF_UNAVAILABLE, "nobody answers");
	if (o == NULL)
		o = list_of(w, a, path);
	if (o == NULL)
		return rf_fail(err, RF_NOT_FOUND, "not found");
	*ret = rf_json_clone(a, o);
	return 0;
}

int bind_to(struct world *w, const char *pod, const struct rf_json *binding, struct rf_err *err)
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

int h_update(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
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

int h_remove(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_str uid, struct rf_str rv,
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

void tell(struct world *w, const struct rf_json *before, const struct rf_json *after)
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

void deliver(struct world *w)
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

void restart(struct world *w)
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

bool starts(const char *s, const char *with)
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

void run(struct world *w)
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

int set_up(void **state)
{
	struct world *w = rf_new(struct world);

	w->now = START;
	w->at = NEVER;
	begin(w);
	*state = w;
	return 0;
}

int tear_down(void **state)
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

void add_node(struct world *w, const char *name, int cards)
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

void add_tenant(struct world *w, const char *name, const char *spec)
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

const char *card_name = "nvidia.com/gpu";

/* Uids must differ in their first eight characters: claims are named after those. */
void add_pod(struct world *w, const char *ns, const char *name, int cards, const char *group)
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

void add_group(struct world *w, const char *ns, const char *name, int min)
{
	put(w, text(w, GROUP, ns, name),
	    rf_json_make(&w->a,
			 "{'apiVersion':'ringfence.io/v1alpha1','kind':'PodGroup','metadata':{'name':%s,'namespace':%s,"
			 "'uid':%s,'creationTimestamp':'2026-11-15T04:00:00Z'},'spec':{'minMember':%d}}",
			 name, ns, text(w, "group-%s", name), min));
}

struct rf_str node_of(struct world *w, const char *ns, const char *pod)
{
	return rf_json_str_at(get(w, text(w, POD, ns, pod)), "spec", "nodeName");
}

size_t bound(struct world *w, const char *ns)
{
	size_t n = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;)
		n += starts(s->key, text(w, "/api/v1/namespaces/%s/pods/", ns)) &&
		     rf_json_str_at(s->value, "spec", "nodeName").n > 0;
	return n;
}

size_t claims(struct world *w, bool allocated)
{
	size_t n = 0;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&w->objects, s)) != NULL;)
		n += rf_str_is(rf_json_str_at(s->value, "kind"), "ResourceClaim") &&
		     (!allocated || rf_json_at(s->value, "status", "allocation") != NULL);
	return n;
}

bool started(struct world *w, const char *ns, const char *group)
{
	return rf_json_is_true(rf_json_at(get(w, text(w, GROUP, ns, group)), "status", "started"));
}

size_t first(struct world *w, const char *verb, const char *tail)
{
	for (size_t i = 0; i < w->log.n; i++) {
		if (starts(w->log.at[i], verb) && strstr(w->log.at[i], tail) != NULL)
			return i;
	}
	return SIZE_MAX;
}

size_t last(struct world *w, const char *verb, const char *tail)
{
	for (size_t i = w->log.n; i-- > 0;) {
		if (starts(w->log.at[i], verb) && strstr(w->log.at[i], tail) != NULL)
			return i;
	}
	return SIZE_MAX;
}

void gang_of_four(struct world *w)
{
	add_node(w, "n1", 2);
	add_node(w, "n2", 2);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	add_group(w, "red", "train", 4);
	for (int i = 0; i < 4; i++)
		add_pod(w, "red", text(w, "w%d", i), 1, "train");
}
