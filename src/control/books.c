/* How many pods of each gang and each queue wait and run: counted as pods change, never by looking at all
 * of them; and the status of PodGroups and Queues that says so. */
#include "control/private.h"

#include "tenant/foreign.h"

#define GROUPS_MAX 64 /* written per turn */
#define QUEUES_MAX 64
#define QUEUES_LOOK 512	      /* looked at per turn */
#define QUEUES_TIME_MS 50     /* and so long: placing must not wait for it */
#define QUEUES_PAUSE_MS 10    /* in which the loop hears what is new */
#define TROUBLE_MS 1000	      /* until what failed is written again; twice as long each time, */
#define TROUBLE_MOST_MS 60000 /* up to this */

struct tally {
	int64_t members; /* pods that are counted here */
	int64_t pending, running;
	char *message; /* why it waits; NULL: nothing to say */
};

struct track {
	char *group, *queue; /* keys of their tallies; NULL: none */
	bool pending, running;
};

/* An object whose status could not be written: it must not hold up the others. */
struct trouble {
	int64_t next_ms, pause_ms;
	bool usage; /* a queue's */
};

static char DUE[] = "";

/* --- what fails ------------------------------------------------------------------------------- */

static bool is_in_trouble(const struct rf_placer *p, const struct rf_map *m, struct rf_str key)
{
	const struct trouble *t = rf_map_get(m, key);

	return t != NULL && p->now_ms < t->next_ms;
}

static void note_trouble(struct rf_placer *p, struct rf_map *m, struct rf_str key, bool usage)
{
	struct trouble *t = rf_map_get(m, key);

	if (t == NULL) {
		t = rf_new(struct trouble);
		(void)rf_map_set(m, key, t);
	}
	t->pause_ms = t->pause_ms == 0 ? TROUBLE_MS : RF_MIN(t->pause_ms * 2, (int64_t)TROUBLE_MOST_MS);
	t->next_ms = p->now_ms + t->pause_ms;
	t->usage |= usage;
}

static void end_trouble(struct rf_map *m, struct rf_str key)
{
	free(rf_map_del(m, key));
}

/* When the first of them is due; INT64_MAX: there is none. */
static int64_t next_trouble(const struct rf_map *m)
{
	int64_t next = INT64_MAX;

	for (const struct rf_map_slot *s = NULL; (s = rf_map_next(m, s)) != NULL;)
		next = RF_MIN(next, ((const struct trouble *)s->value)->next_ms);
	return next;
}

static void trouble_done(struct rf_map *m)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(m, s)) != NULL;)
		free(s->value);
	rf_map_done(m);
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
		t->group = rf_str_dup(rf_buf_str(&key));
	}
	if (queue.n > 0)
		t->queue = rf_str_dup(queue);
	t->pending = pod->node.n == 0 && !pod->ended;
	t->running = pod->node.n > 0 && !pod->ended;
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
	    was->pending == is->pending && was->running == is->running) {
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
	y->message = rf_str_dup(message);
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
	end_trouble(&p->groups_trouble, rf_buf_str(&key));
}

static void tallies_done(struct rf_map *m)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(m, s)) != NULL;) {
		free(((struct tally *)s->value)->message);
		free(s->value);
	}
	rf_map_done(m);
}

static void names_done(struct rf_placer *p)
{
	for (size_t i = 0; i < p->round.names.n; i++)
		free(p->round.names.at[i]);
	rf_vec_done(&p->round.names);
	p->round.at = 0;
	tallies_done(&p->round.sums);
}

void rf_books_done(struct rf_placer *p)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->tracked, s)) != NULL;)
		track_free(s->value);
	rf_map_done(&p->tracked);
	tallies_done(&p->groups);
	tallies_done(&p->queues);
	rf_map_done(&p->groups_due);
	trouble_done(&p->groups_trouble);
	trouble_done(&p->queues_trouble);
	names_done(p);
}

/* --- gangs ------------------------------------------------------------------------------------ */

/* started, by the core's word: after the last of min members was bound, as the API says, until none of them is left. A pod
 * that ended well still says that it was bound; should it be deleted while no control was there to write started, the gang
 * counts as one that never was whole. */
struct rf_json *rf_group_status(struct rf_arena *a, const struct rf_json *group, bool started,
				int64_t scheduled, int64_t ending_ms, struct rf_str message)
{
	const struct rf_json *is = rf_json_at(group, "status");
	struct rf_json *status = rf_json_make(a, "{'phase':%s,'started':%b,'scheduled':%D,'message':%S}",
					      started ? "Running" : "Pending", started, scheduled,
					      started ? RF_STR_EMPTY : message);

	if (ending_ms > 0)
		rf_json_set_str(a, status, "ending", rf_time_format(a, ending_ms));
	if (is != NULL && rf_json_equal(is, status))
		return NULL;
	if (ending_ms == 0 && rf_json_at(is, "ending") != NULL)
		rf_json_set(a, status, RF_LIT("ending"), rf_json_null(a));
	return rf_json_make(a, "{'metadata':{'uid':%S},'status':%j}", rf_kube_uid(group), status);
}

/* An error: to be tried again. */
static int write_group(struct rf_placer *p, struct rf_str key)
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
		return 0;
	patch = rf_group_status(&a, group, rf_core_started(p->core, ns, name), y != NULL ? y->running : 0,
				rf_core_ending(p->core, ns, name), y != NULL && y->message != NULL ? rf_str(y->message) : RF_STR_EMPTY);
	if (patch == NULL)
		return 0;
	rc = p->hands.patch(p->hands.ctx, &a, rf_kube_path(&a, &RF_PODGROUPS, ns, name, "status"),
			    RF_PATCH_MERGE, patch, &written, &err);
	if (rc == -RF_NOT_FOUND || rc == -RF_CONFLICT)
		return 0; /* another, or none, by now: we shall hear of it */
	if (rc < 0) {
		rf_warn("group %.*s: write its status: %s", RF_STR(key), err.msg);
		return rc;
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
	return 0;
}

int rf_books_write_group(struct rf_placer *p, struct rf_str ns, struct rf_str name)
{
	rf_auto(buf) key = RF_BUF_INIT;

	rf_buf_printf(&key, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
	return write_group(p, rf_buf_str(&key));
}

int64_t rf_books_write_groups(struct rf_placer *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str keys[GROUPS_MAX];
	int64_t next = 0;
	size_t n = 0;
	int rc = 0;

	for (struct rf_map_slot *s = NULL; n < GROUPS_MAX && (s = rf_map_next(&p->groups_due, s)) != NULL;) {
		if (!is_in_trouble(p, &p->groups_trouble, rf_map_key(s)))
			keys[n++] = rf_arena_str(&a, rf_map_key(s));
	}
	for (size_t i = 0; i < n && !rf_is_away(rc) && p->hands.may(p->hands.ctx); i++) {
		rc = write_group(p, keys[i]);
		if (rc < 0) {
			note_trouble(p, &p->groups_trouble, keys[i], false);
			continue;
		}
		(void)rf_map_del(&p->groups_due, keys[i]);
		end_trouble(&p->groups_trouble, keys[i]);
	}
	if (p->groups_due.n == 0)
		return -1;
	if (p->groups_due.n > p->groups_trouble.n && !rf_is_away(rc))
		return QUEUES_PAUSE_MS;
	next = next_trouble(&p->groups_trouble);
	return next == INT64_MAX ? TROUBLE_MS : RF_MAX(next - p->now_ms, INT64_C(1));
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
	const struct tally *y = rf_map_get(&p->round.sums, rf_kube_name(queue));
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

static int write_queue(struct rf_placer *p, const struct rf_json *queue, bool usage, int *written)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *patch = rf_queue_status(p, &a, queue, usage);
	struct rf_err err = RF_ERR_INIT;
	int rc = 0;

	if (patch == NULL)
		return 0;
	++*written;
	rc = p->hands.patch(p->hands.ctx, &a,
			    rf_kube_path(&a, &RF_QUEUES, RF_STR_EMPTY, rf_kube_name(queue), "status"), RF_PATCH_MERGE,
			    patch, NULL, &err);
	if (rc == 0 || rc == -RF_NOT_FOUND || rc == -RF_CONFLICT)
		return 0;
	rf_warn("queue %.*s: write its status: %s", RF_STR(rf_kube_name(queue)), err.msg);
	return rc;
}

/* One of the round, or one whose time to be tried again has come. */
static int write_named(struct rf_placer *p, struct rf_str name, bool usage, int *written)
{
	const struct rf_json *queue = p->cluster.get(p->cluster.ctx, &RF_QUEUES, RF_STR_EMPTY, name);
	const struct trouble *t = rf_map_get(&p->queues_trouble, name);
	int rc = 0;

	usage |= t != NULL && t->usage;
	rc = queue != NULL ? write_queue(p, queue, usage, written) : 0;
	if (rc < 0)
		note_trouble(p, &p->queues_trouble, name, usage);
	else
		end_trouble(&p->queues_trouble, name);
	return rc;
}

void rf_books_queues_due(struct rf_placer *p, bool usage)
{
	p->round.due = true;
	p->round.due_usage |= usage;
}

static void add_sum(struct rf_placer *p, struct rf_str name, const struct tally *y)
{
	struct tally *sum = rf_map_get(&p->round.sums, name);

	if (sum == NULL) {
		sum = rf_new(struct tally);
		(void)rf_map_set(&p->round.sums, name, sum);
	}
	sum->pending += y->pending;
	sum->running += y->running;
}

/* What is counted in a queue counts in those above it, unless they go round in a circle. */
static void sum_up(struct rf_placer *p)
{
	for (const struct rf_map_slot *s = NULL; (s = rf_map_next(&p->queues, s)) != NULL;) {
		struct rf_str up[RF_QUEUE_DEPTH_MAX + 1], name = rf_map_key(s);
		size_t n = 0;

		for (; name.n > 0 && n < RF_COUNT(up); n++) {
			up[n] = name;
			name = rf_json_str_at(p->cluster.get(p->cluster.ctx, &RF_QUEUES, RF_STR_EMPTY, name), "spec", "parent");
		}
		for (size_t i = 0; i < (name.n > 0 ? 1 : n); i++)
			add_sum(p, up[i], s->value);
	}
}

static void begin_round(struct rf_placer *p)
{
	const struct rf_json *queue = NULL;
	const void *cursor = NULL;

	if (p->round.at < p->round.names.n || !p->round.due)
		return;
	names_done(p);
	while ((queue = p->cluster.next(p->cluster.ctx, &RF_QUEUES, &cursor)) != NULL)
		rf_vec_push(&p->round.names, rf_str_dup(rf_kube_name(queue)));
	sum_up(p);
	p->round.usage = p->round.due_usage;
	p->round.due = p->round.due_usage = false;
	p->moved = false; /* what moves from here on is for the next round */
}

/* Those that failed, whose time has come. */
static int retry_queues(struct rf_placer *p, int *written)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str names[QUEUES_MAX / 2];
	size_t n = 0;
	int rc = 0;

	for (struct rf_map_slot *s = NULL; n < RF_COUNT(names) && (s = rf_map_next(&p->queues_trouble, s)) != NULL;) {
		if (!is_in_trouble(p, &p->queues_trouble, rf_map_key(s)))
			names[n++] = rf_arena_str(&a, rf_map_key(s));
	}
	for (size_t i = 0; i < n && !rf_is_away(rc) && p->hands.may(p->hands.ctx); i++)
		rc = write_named(p, names[i], false, written);
	return rc;
}

static bool is_late(int64_t since_ns)
{
	return rf_mono_ns(rf_clock_system()) - since_ns >= QUEUES_TIME_MS * INT64_C(1000000);
}

int64_t rf_books_write_queues(struct rf_placer *p)
{
	int64_t since = rf_mono_ns(rf_clock_system()), next = 0;
	int written = 0, rc = 0;

	begin_round(p);
	rc = retry_queues(p, &written);
	for (int i = 0; i < QUEUES_LOOK && written < QUEUES_MAX && p->round.at < p->round.names.n && !rf_is_away(rc) &&
			(i == 0 || !is_late(since)) && p->hands.may(p->hands.ctx);
	     i++) {
		struct rf_str name = rf_str(p->round.names.at[p->round.at++]);
		struct trouble *t = rf_map_get(&p->queues_trouble, name);

		if (t == NULL)
			rc = write_named(p, name, p->round.usage, &written);
		else
			t->usage |= p->round.usage; /* with its next try */
	}
	if (p->round.at < p->round.names.n || p->round.due)
		return rf_is_away(rc) ? TROUBLE_MS : QUEUES_PAUSE_MS;
	next = next_trouble(&p->queues_trouble);
	return next == INT64_MAX ? -1 : RF_MAX(next - p->now_ms, INT64_C(1));
}
