/* What placing writes of gangs, queues and itself: their status, the ledger of what was used, and the log of events. */
#include "control/test_placing_world.h"
#include "sched/log.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
