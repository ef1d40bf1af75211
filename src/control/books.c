/* How many pods of each gang and each queue wait and run: counted as pods change, never by looking at all
 * of them; and the status of PodGroups and Queues that says so. */
#include "control/private.h"

#include "tenant/foreign.h"

#define GROUPS_MAX 64 /* written per turn */
#define QUEUES_MAX 64

struct tally {
	int64_t members; /* pods that are counted here */
	int64_t pending, running;
	int64_t ever; /* of a gang: those that were given a place, ended ones included */
	char *message; /* why it waits; NULL: nothing to say */
};

struct track {
	char *group, *queue; /* keys of their tallies; NULL: none */
	bool pending, running, ever;
};

static char DUE[] = "";

static char *copy(struct rf_str s)
{
	char *text = rf_alloc(s.n + 1);

	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return text;
}

/* --- counting --------------------------------------------------------------------------------- */

static void count(struct rf_map *m, const char *key, const struct track *t, int by)
{
	struct tally *y = key != NULL ? rf_map_get(m, rf_str(key)) : NULL;

	if (key == NULL)
		return;
	if (y == NULL) {
		y = rf_new(struct tally);
		(void)rf_map_set(m, rf_str(key), y);
	}
	y->members += by;
	y->pending += t->pending ? by : 0;
	y->running += t->running ? by : 0;
	y->ever += t->ever ? by : 0;
	if (y->members > 0)
		return;
	(void)rf_map_del(m, rf_str(key));
	free(y->message);
	free(y);
}

/* A gang's status is looked at when it is there: one that comes later is looked at then. */
static void group_due(struct rf_placer *p, struct rf_str key)
{
	struct rf_str name = key, ns = RF_STR_EMPTY;

	rf_str_cut(&name, '/', &ns);
	if (p->cluster.get(p->cluster.ctx, &RF_PODGROUPS, ns, name) != NULL)
		(void)rf_map_set(&p->groups_due, key, DUE);
}

static void count_all(struct rf_placer *p, const struct track *t, int by)
{
	count(&p->groups, t->group, t, by);
	count(&p->queues, t->queue, t, by);
	p->running += t->running ? by : 0;
	p->moved = true;
	if (t->group != NULL)
		group_due(p, rf_str(t->group));
}

static void track_free(struct track *t)
{
	if (t == NULL)
		return;
	free(t->group);
	free(t->queue);
	free(t);
}

/* As the core takes it: the group's word before the pod's, and nobody is counted in a queue of somebody else. */
static struct rf_str queue_of(struct rf_placer *p, const struct rf_sched_pod *pod)
{
	const struct rf_json *ns = p->cluster.get(p->cluster.ctx, &RF_NAMESPACES, RF_STR_EMPTY, pod->ns);
	const struct rf_json *group = pod->group.n > 0 ?
					      p->cluster.get(p->cluster.ctx, &RF_PODGROUPS, pod->ns, pod->group) :
					      NULL;
	struct rf_str tenant = ns != NULL ? rf_kube_label(ns, RF_TENANT_LABEL) : RF_STR_EMPTY;
	struct rf_str wanted = rf_json_str_at(group, "spec", "queue");

	if (wanted.n == 0)
		wanted = pod->queue;
	if (wanted.n == 0 || tenant.n == 0)
		return tenant;
	return rf_queue_is_of(p->cluster.get(p->cluster.ctx, &RF_QUEUES, RF_STR_EMPTY, wanted), tenant) ?
		       wanted :
		       RF_STR_EMPTY;
}

static struct track *track_of(struct rf_placer *p, const struct rf_sched_pod *pod)
{
	struct track *t = rf_new(struct track);
	struct rf_str queue = queue_of(p, pod);

	if (pod->group.n > 0) {
		rf_auto(buf) key = RF_BUF_INIT;

		rf_buf_printf(&key, "%.*s/%.*s", RF_STR(pod->ns), RF_STR(pod->group));
		t->group = copy(rf_buf_str(&key));
	}
	if (queue.n > 0)
		t->queue = copy(queue);
	t->pending = pod->node.n == 0 && !pod->ended;
	t->running = pod->node.n > 0 && !pod->ended;
	t->ever = pod->node.n > 0;
	return t;
}

static bool same_key(const char *a, const char *b)
{
	return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

void rf_books_pod(struct rf_placer *p, const struct rf_sched_pod *pod)
{
	struct track *was = rf_map_get(&p->tracked, pod->uid), *is = track_of(p, pod);

	if (was != NULL && same_key(was->group, is->group) && same_key(was->queue, is->queue) &&
	    was->pending == is->pending && was->running == is->running && was->ever == is->ever) {
		track_free(is);
		return;
	}
	(void)rf_map_set(&p->tracked, pod->uid, is);
	count_all(p, is, 1);
	if (was != NULL)
		count_all(p, was, -1);
	track_free(was);
}

void rf_books_pod_gone(struct rf_placer *p, struct rf_str uid)
{
	struct track *was = rf_map_del(&p->tracked, uid);

	if (was != NULL)
		count_all(p, was, -1);
	track_free(was);
}

void rf_books_say(struct rf_placer *p, struct rf_str uid, struct rf_str message)
{
	const struct track *t = rf_map_get(&p->tracked, uid);
	struct tally *y = t != NULL && t->group != NULL ? rf_map_get(&p->groups, rf_str(t->group)) : NULL;

	if (y == NULL)
		return;
	free(y->message);
	y->message = copy(message);
	group_due(p, rf_str(t->group));
}

void rf_books_group_due(struct rf_placer *p, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;

	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	(void)rf_map_set(&p->groups_due, rf_buf_str(&key), DUE);
}

void rf_books_group_gone(struct rf_placer *p, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;

	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	(void)rf_map_del(&p->groups_due, rf_buf_str(&key));
}

static void tallies_done(struct rf_map *m)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(m, s)) != NULL;) {
		free(((struct tally *)s->value)->message);
		free(s->value);
	}
	rf_map_done(m);
}

void rf_books_done(struct rf_placer *p)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->tracked, s)) != NULL;)
		track_free(s->value);
	rf_map_done(&p->tracked);
	tallies_done(&p->groups);
	tallies_done(&p->queues);
	rf_map_done(&p->groups_due);
}

/* --- gangs ------------------------------------------------------------------------------------ */

/* started is written after the last of min members was bound, by what the API says: it is never true of a
 * gang of which fewer were. A pod that ended still says that it was bound; should it be deleted while no
 * control was there to write started, the gang counts as one that never was whole. */
struct rf_json *rf_group_status(struct rf_arena *a, const struct rf_json *group, int64_t ever,
				int64_t scheduled, struct rf_str message)
{
	const struct rf_json *is = rf_json_at(group, "status");
	int64_t min = rf_json_int(rf_json_at(group, "spec", "minMember"), 1);
	bool started = rf_json_is_true(rf_json_at(is, "started")) || ever >= min;
	struct rf_json *status = rf_json_make(a, "{'phase':%s,'started':%b,'scheduled':%D,'message':%S}",
					      started ? "Running" : "Pending", started, scheduled,
					      started ? RF_STR_EMPTY : message);

	if (is != NULL && rf_json_equal(is, status))
		return NULL;
	return rf_json_make(a, "{'metadata':{'uid':%S},'status':%j}", rf_kube_uid(group), status);
}

/* False: to be tried again. */
static bool write_group(struct rf_placer *p, struct rf_str key)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct tally *y = rf_map_get(&p->groups, key);
	struct rf_str name = key, ns = RF_STR_EMPTY;
	const struct rf_json *group = NULL;
	struct rf_json *patch = NULL, *written = NULL;
	struct rf_err err = RF_ERR_INIT;
	int rc = 0;

	rf_str_cut(&name, '/', &ns);
	group = p->cluster.get(p->cluster.ctx, &RF_PODGROUPS, ns, name);
	if (group == NULL)
		return true;
	patch = rf_group_status(&a, group, y != NULL ? y->ever : 0, y != NULL ? y->running : 0,
				y != NULL && y->message != NULL ? rf_str(y->message) : RF_STR_EMPTY);
	if (patch == NULL)
		return true;
	rc = p->hands.patch(p->hands.ctx, &a, rf_kube_path(&a, &RF_PODGROUPS, ns, name, "status"),
			    RF_PATCH_MERGE, patch, &written, &err);
	if (rc == -RF_NOT_FOUND || rc == -RF_CONFLICT)
		return true; /* another, or none, by now: we shall hear of it */
	if (rc < 0) {
		rf_warn("group %.*s: write its status: %s", RF_STR(key), err.msg);
		return false;
	}
	if (rf_json_is_true(rf_json_at(patch, "status", "started")) &&
	    !rf_json_is_true(rf_json_at(group, "status", "started"))) {
		rf_info("group %.*s: started", RF_STR(key));
		p->hands.event(p->hands.ctx, group, "Normal", "Started", RF_LIT("enough of its pods have places"));
	}
	if (written != NULL) {
		struct rf_sched_group g = { 0 };

		if (rf_sched_read_group(&a, written, &g, NULL) == 0)
			rf_core_put_group(p->core, &g);
	}
	return true;
}

bool rf_books_write_groups(struct rf_placer *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str keys[GROUPS_MAX];
	size_t n = 0;
	bool ok = true;

	for (struct rf_map_slot *s = NULL; n < GROUPS_MAX && (s = rf_map_next(&p->groups_due, s)) != NULL;)
		keys[n++] = rf_arena_str(&a, rf_map_key(s));
	for (size_t i = 0; i < n && p->hands.may(p->hands.ctx); i++) {
		if (write_group(p, keys[i]))
			(void)rf_map_del(&p->groups_due, keys[i]);
		else
			ok = false;
	}
	return ok && p->groups_due.n == 0;
}

/* --- queues ----------------------------------------------------------------------------------- */

/* No limit: nothing is said of one. */
static struct rf_json *amount_of(struct rf_arena *a, struct rf_str name, const struct rf_queue_view *v)
{
	struct rf_json *o = rf_json_make(a, "{'name':%S,'used':%D,'guaranteed':%D,'fair':%D,'wanted':%D}", name,
					 v->used, v->guaranteed, v->fair, v->wanted);

	if (v->limit != RF_QUEUE_NO_LIMIT)
		rf_json_set_int(a, o, "limit", v->limit);
	return o;
}

static struct rf_json *amounts(struct rf_placer *p, struct rf_arena *a, const struct rf_json *queue)
{
	struct rf_queues *qs = rf_core_queues(p->core);
	const struct rf_queue *q = rf_queues_find(qs, rf_kube_name(queue));
	const struct rf_json *said = rf_json_at(queue, "spec", "resources");
	struct rf_json *list = rf_json_array(a);

	for (size_t i = 0; q != NULL && i < rf_json_len(said); i++) {
		struct rf_str name = rf_json_str_at(rf_json_item(said, i), "name");
		int64_t resource = rf_core_resource(p->core, name);
		struct rf_queue_view v = { 0 };

		if (resource < 0)
			continue;
		rf_queue_view(qs, q, resource, p->now_ms, &v);
		rf_json_push(a, list, amount_of(a, name, &v));
	}
	return list;
}

static int64_t usage_of(struct rf_placer *p, const struct rf_json *queue)
{
	struct rf_queues *qs = rf_core_queues(p->core);
	struct rf_queue *q = rf_queues_find(qs, rf_kube_name(queue));

	return q != NULL ? (int64_t)(rf_queue_usage(qs, q, p->now_ms) >> 32) : 0;
}

struct rf_json *rf_queue_status(struct rf_placer *p, struct rf_arena *a, const struct rf_json *queue,
				bool usage)
{
	const struct rf_json *is = rf_json_at(queue, "status");
	const struct tally *y = rf_map_get(&p->queues, rf_kube_name(queue));
	const char *bad = rf_map_get(&p->bad_queues, rf_kube_name(queue));
	struct rf_json *status =
		rf_json_make(a, "{'pending':%D,'running':%D,'usage':%D,'message':%s,'resources':%j}",
			     y != NULL ? y->pending : INT64_C(0), y != NULL ? y->running : INT64_C(0),
			     usage ? usage_of(p, queue) : rf_json_int(rf_json_at(is, "usage"), 0),
			     bad != NULL ? bad : "", amounts(p, a, queue));

	if (is != NULL && rf_json_equal(is, status))
		return NULL;
	/* Usage goes up while something runs; with the rest it is written as it is now. */
	rf_json_set_int(a, status, "usage", usage_of(p, queue));
	return rf_json_make(a, "{'metadata':{'uid':%S},'status':%j}", rf_kube_uid(queue), status);
}

bool rf_books_write_queues(struct rf_placer *p, bool usage)
{
	const struct rf_json *queue = NULL;
	const void *cursor = NULL;
	int written = 0;

	while (p->hands.may(p->hands.ctx) &&
	       (queue = p->cluster.next(p->cluster.ctx, &RF_QUEUES, &cursor)) != NULL) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_json *patch = rf_queue_status(p, &a, queue, usage);
		struct rf_err err = RF_ERR_INIT;
		int rc = 0;

		if (patch == NULL)
			continue;
		if (written++ == QUEUES_MAX)
			return false;
		rc = p->hands.patch(p->hands.ctx, &a,
				    rf_kube_path(&a, &RF_QUEUES, RF_STR_EMPTY, rf_kube_name(queue), "status"),
				    RF_PATCH_MERGE, patch, NULL, &err);
		if (rc < 0 && rc != -RF_NOT_FOUND && rc != -RF_CONFLICT) {
			rf_warn("queue %.*s: write its status: %s", RF_STR(rf_kube_name(queue)), err.msg);
			return false;
		}
	}
	p->moved = false;
	return true;
}
