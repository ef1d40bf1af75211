/* Following the kinds of other schedulers against a small API server: they are not there, come later, change and
 * go. What becomes of one group is in test_placing_foreign.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "control/private.h"
#include "tenant/foreign.h"

#define VOLCANO "/apis/scheduling.volcano.sh/v1beta1/podgroups"
#define X_K8S "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"
#define DEADLINE_MS 20000

#define OBJECT(name, uid, rv, min)                                                                  \
	"{\"metadata\":{\"namespace\":\"red\",\"name\":\"" name "\",\"uid\":\"" uid                 \
	"\",\"resourceVersion\":\"" rv "\"},\"spec\":{\"minMember\":" min "}}"
#define LIST(items) "{\"metadata\":{\"resourceVersion\":\"10\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"

/* --- the server, on a thread of its own: the client waits for its answers -------------------------- */

struct server {
	uv_loop_t loop;
	uv_thread_t thread;
	uv_async_t nudge;
	struct rf_http_server *http;
	uint16_t port;
	struct rf_http_req *stream;
	const char *_Atomic say; /* an event for the watch */
	atomic_bool there, over;
	atomic_int volcano, x_k8s; /* asked for */
};

static struct server server;

static void on_stream_gone(void *ctx)
{
	server.stream = NULL;
}

static void handle(void *ctx, struct rf_http_req *req)
{
	struct rf_str watch = RF_STR_EMPTY;

	if (rf_str_is(req->path, X_K8S))
		server.x_k8s++;
	if (rf_str_is(req->path, VOLCANO))
		server.volcano++;
	if (!rf_str_is(req->path, VOLCANO) || !server.there) {
		rf_http_reply(req, 404, "text/plain", RF_LIT("404 page not found\n"));
		return;
	}
	if (!rf_http_query(req, "watch", &watch)) {
		rf_http_reply(req, 200, "application/json", RF_LIT(LIST(OBJECT("train", "u1", "5", "3"))));
		return;
	}
	server.stream = req;
	rf_http_on_close(req, on_stream_gone, NULL);
	rf_http_stream_begin(req, 200, "application/json");
	uv_async_send(&server.nudge);
}

static void on_nudge(uv_async_t *async)
{
	const char *say = server.stream != NULL ? atomic_exchange(&server.say, NULL) : NULL;

	if (say != NULL)
		rf_http_stream_write(server.stream, rf_str(say));
	if (!server.over || uv_is_closing((uv_handle_t *)async))
		return;
	rf_http_server_close(server.http, NULL, NULL);
	uv_close((uv_handle_t *)async, NULL);
}

static void serve(void *ctx)
{
	uv_run(&server.loop, UV_RUN_DEFAULT);
}

/* --- control, as far as it is needed ---------------------------------------------------------------- */

struct bench {
	struct rf_control *c;
	struct rf_arena a;
	uv_timer_t deadline;
	struct rf_json *ours; /* as the informer shows it */
	struct rf_json *space;
	int creates, removes, patches;
	char path[256];		 /* of the last patch */
	struct rf_json *said;	 /* and its status */
	struct rf_str rv;	 /* and as what it had seen it */
	bool bare;		 /* there is no such subresource */
	int refuses;		 /* code */
	int events;
	bool leads;
};

static int create(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object, struct rf_json **ret,
		  struct rf_err *err)
{
	struct bench *b = ctx;

	assert_true(rf_str_is(path, "/apis/ringfence.io/v1alpha1/namespaces/red/podgroups"));
	b->creates++;
	b->ours = rf_json_clone(&b->a, object);
	return 0;
}

static int take_away(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_str uid, struct rf_str rv,
		     struct rf_err *err)
{
	struct bench *b = ctx;
	struct rf_json *was = b->ours;

	assert_true(rf_str_is(path, "/apis/ringfence.io/v1alpha1/namespaces/red/podgroups/train"));
	b->removes++;
	b->ours = NULL;
	rf_adoption_ours_changed(b->c->adoption, was);
	return 0;
}

static int patch(void *ctx, struct rf_arena *a, struct rf_str path, enum rf_patch_type type, const struct rf_json *body,
		 struct rf_json **ret, struct rf_err *err)
{
	struct bench *b = ctx;

	assert_int_equal(type, RF_PATCH_MERGE);
	assert_int_equal(rf_json_len(body), 2); /* uid and status, nothing of the spec */
	assert_true(rf_str_is(rf_json_str_at(body, "metadata", "uid"), "u1"));
	assert_true(rf_json_len(rf_json_at(body, "metadata")) <= 2);
	b->rv = rf_arena_str(&b->a, rf_json_str_at(body, "metadata", "resourceVersion"));
	b->patches++;
	snprintf(b->path, sizeof(b->path), "%.*s", RF_STR(path));
	if (b->bare && rf_str_ends(path, RF_LIT("/status")))
		return rf_fail(err, RF_NOT_FOUND, "the server could not find the requested resource");
	if (b->refuses != 0)
		return rf_fail(err, (enum rf_code)b->refuses, "no");
	b->said = rf_json_clone(&b->a, rf_json_at(body, "status"));
	return 0;
}

static void event(void *ctx, const struct rf_json *about, const char *type, const char *reason, struct rf_str words)
{
	assert_string_equal(reason, "StatusNotWritten");
	((struct bench *)ctx)->events++;
}

static bool may(void *ctx)
{
	return ((struct bench *)ctx)->leads;
}

static const struct rf_json *get(void *ctx, const struct rf_kube_res *res, struct rf_str ns, struct rf_str name)
{
	const struct bench *b = ctx;

	return res == &RF_PODGROUPS ? b->ours : res == &RF_NAMESPACES ? b->space : NULL;
}

static void on_deadline(uv_timer_t *timer)
{
	fail_msg("nothing more happens");
}

static int set_up(void **state)
{
	struct rf_http_server_opts opts = { .address = "127.0.0.1", .handler = handle };
	struct bench *b = rf_new(struct bench);
	struct rf_control *c = rf_new(struct rf_control);
	struct rf_foreign f = { 0 };
	struct rf_err err = RF_ERR_INIT;

	server = (struct server){ .port = 0 };
	assert_int_equal(uv_loop_init(&server.loop), 0);
	assert_int_equal(uv_async_init(&server.loop, &server.nudge, on_nudge), 0);
	if (rf_http_listen(&server.loop, &opts, &server.http, &err) < 0)
		fail_msg("%s", err.msg);
	server.port = rf_http_server_port(server.http);
	assert_int_equal(uv_thread_create(&server.thread, serve, NULL), 0);

	assert_int_equal(rf_foreign_parse(RF_LIT("volcano,x-k8s"), RF_STR_EMPTY, &f, NULL), 0);
	rf_foreign_set(&f);
	b->c = c;
	b->leads = true;
	b->space = rf_json_make(&b->a, "{'metadata':{'name':'red','labels':{'ringfence.io/tenant':'red'}}}");
	assert_int_equal(uv_loop_init(&c->loop), 0);
	(void)uv_timer_init(&c->loop, &c->work_timer);
	(void)uv_timer_init(&c->loop, &b->deadline);
	c->work_timer.data = c;
	uv_timer_start(&b->deadline, on_deadline, DEADLINE_MS, 0);
	c->config = (struct rf_kubeconfig){ .host = RF_LIT("127.0.0.1"), .port = server.port };
	if (rf_kube_new(&c->config, &c->kube, &err) < 0)
		fail_msg("%s", err.msg);
	c->placer.hands = (struct rf_hands){ .create = create, .remove = take_away, .patch = patch, .event = event, .may = may, .ctx = b };
	c->placer.cluster = (struct rf_cluster){ .get = get, .ctx = b };
	c->adoption = rf_adoption_start(c);
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;
	struct rf_control *c = b->c;

	rf_adoption_stop(c->adoption);
	uv_close((uv_handle_t *)&c->work_timer, NULL);
	uv_close((uv_handle_t *)&b->deadline, NULL);
	uv_run(&c->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&c->loop), 0);
	rf_adoption_free(c->adoption);
	rf_kube_free(c->kube);
	rf_foreign_set(&(struct rf_foreign){ 0 });
	server.over = true;
	uv_async_send(&server.nudge);
	assert_int_equal(uv_thread_join(&server.thread), 0);
	assert_int_equal(uv_loop_close(&server.loop), 0);
	rf_arena_done(&b->a);
	free(c);
	free(b);
	return 0;
}

static void run_until_due(struct bench *b)
{
	while (!b->c->groups_due)
		uv_run(&b->c->loop, UV_RUN_ONCE);
	b->c->groups_due = false;
}

/* What the deletion of ours makes due comes with the next turn. */
static void adopt_all(struct rf_control *c)
{
	for (int i = 0; i < 2; i++)
		(void)rf_control_adopt(c);
	assert_true(rf_control_adopt(c));
}

static int64_t min_of(const struct rf_json *group)
{
	return rf_json_int(rf_json_at(group, "spec", "minMember"), -1);
}

/* --- the promises ----------------------------------------------------------------------------------- */

static void a_kind_may_come_later(void **state)
{
	struct bench *b = *state;
	struct rf_control *c = b->c;

	while (server.volcano == 0 || server.x_k8s == 0)
		uv_run(&c->loop, UV_RUN_ONCE);
	assert_false(c->groups_due);
	assert_int_equal(server.volcano, 1); /* no informer that asks again and again */
	server.there = true;
	rf_adoption_look_again(c->adoption);
	run_until_due(b);
	assert_true(rf_control_adopt(c));
	assert_int_equal(b->creates, 1);
	assert_int_equal(min_of(b->ours), 3);

	server.say = EVENT("MODIFIED", OBJECT("train", "u1", "11", "4"));
	uv_async_send(&server.nudge);
	run_until_due(b);
	adopt_all(c);
	assert_int_equal(b->removes, 1);
	assert_int_equal(b->creates, 2);
	assert_int_equal(min_of(b->ours), 4);

	/* Somebody writes another, or deletes ours: it becomes again what the other group says. */
	rf_json_set_int(&b->a, rf_json_at(b->ours, "spec"), "minMember", 9);
	rf_adoption_ours_changed(c->adoption, b->ours);
	adopt_all(c);
	assert_int_equal(min_of(b->ours), 4);
	rf_adoption_ours_changed(c->adoption, b->ours);
	b->ours = NULL;
	adopt_all(c);
	assert_int_equal(b->creates, 4);
	assert_int_equal(min_of(b->ours), 4);
}

static void who_does_not_lead_writes_nothing(void **state)
{
	struct bench *b = *state;
	struct rf_control *c = b->c;

	server.there = true;
	rf_adoption_look_again(c->adoption);
	b->leads = false;
	run_until_due(b);
	assert_false(rf_control_adopt(c));
	assert_int_equal(b->creates, 0);
	b->leads = true;
	assert_true(rf_control_adopt(c));
	assert_int_equal(b->creates, 1);
}

static void a_namespace_that_becomes_a_tenants_is_looked_at_again(void **state)
{
	struct bench *b = *state;
	struct rf_control *c = b->c;
	struct rf_json *space = b->space;

	server.there = true;
	rf_adoption_look_again(c->adoption);
	b->space = NULL;
	run_until_due(b);
	assert_true(rf_control_adopt(c));
	assert_int_equal(b->creates, 0);
	b->space = space;
	rf_adoption_all_due(c->adoption);
	assert_true(rf_control_adopt(c));
	assert_int_equal(b->creates, 1);
}

static void without_such_a_habit_nobody_is_asked(void **state)
{
	struct bench *b = *state;

	rf_foreign_set(&(struct rf_foreign){ .habits = RF_HABIT_KAI });
	assert_null(rf_adoption_start(b->c));
	rf_adoption_all_due(NULL);
	rf_adoption_ours_changed(NULL, rf_json_make(&b->a, "{}"));
	rf_adoption_stop(NULL);
	rf_adoption_free(NULL);
}

/* --- what they are told ------------------------------------------------------------------------------ */

#define VOLCANO_VERSION "scheduling.volcano.sh/v1beta1"
#define X_K8S_VERSION "scheduling.x-k8s.io/v1alpha1"

static struct rf_json *group_of(struct bench *b, const char *version, const char *status)
{
	return rf_json_make(&b->a, "{'apiVersion':%s,'kind':'PodGroup','metadata':{'name':'train','namespace':'red','uid':'u1'},"
				   "'spec':{'minMember':2},'status':%j}",
			    version, rf_json_make(&b->a, status));
}

static struct rf_json *ours_of(struct bench *b, const char *status)
{
	return rf_json_make(&b->a, "{'kind':'PodGroup','metadata':{'name':'train','namespace':'red','uid':'o'},'status':%j}",
			    rf_json_make(&b->a, status));
}

/* The phase it is given; "": nothing is written. */
static const char *given(struct bench *b, const char *version, const char *status, const char *ours)
{
	const struct rf_json *p = rf_adopt_status(&b->a, group_of(b, version, status), ours_of(b, ours), 0);

	return rf_arena_cstr(&b->a, rf_json_str_at(p, "status", "phase"));
}

static void a_foreign_group_is_told_its_phase_and_only_moved_on(void **state)
{
	static const struct {
		const char *version, *is, *ours, *then;
	} cases[] = {
		{ VOLCANO_VERSION, "{}", "{}", "Inqueue" },
		{ VOLCANO_VERSION, "{'phase':'Pending'}", "{'phase':'Pending'}", "Inqueue" },
		{ VOLCANO_VERSION, "{'phase':'Inqueue'}", "{'phase':'Pending'}", "" },
		{ VOLCANO_VERSION, "{'phase':'Pending'}", "{'started':true,'scheduled':2}", "Running" },
		{ VOLCANO_VERSION, "{'phase':'Inqueue'}", "{'started':true,'scheduled':2}", "Running" },
		{ VOLCANO_VERSION, "{'phase':'Running'}", "{}", "" },
		{ VOLCANO_VERSION, "{'phase':'Unknown'}", "{'started':true}", "" },
		{ VOLCANO_VERSION, "{'phase':'Completed'}", "{'started':true,'scheduled':1}", "" },
		{ X_K8S_VERSION, "{}", "{}", "Pending" },
		{ X_K8S_VERSION, "{'phase':'PreScheduling'}", "{}", "" },
		{ X_K8S_VERSION, "{'phase':'PreScheduling'}", "{'started':true}", "Scheduled" },
		{ X_K8S_VERSION, "{'phase':'Scheduled'}", "{'started':true,'scheduled':2}", "" },
		{ X_K8S_VERSION, "{'phase':'Running'}", "{'started':true}", "" },
		{ X_K8S_VERSION, "{'phase':'Failed'}", "{'started':true}", "" },
		{ "scheduling.run.ai/v2alpha2", "{}", "{}", "" },
	};
	struct bench *b = *state;

	for (size_t i = 0; i < RF_COUNT(cases); i++)
		assert_string_equal(given(b, cases[i].version, cases[i].is, cases[i].ours), cases[i].then);
}

static void volcano_hears_why_its_group_waits(void **state)
{
	struct bench *b = *state;
	struct rf_json *g = group_of(b, VOLCANO_VERSION, "{'phase':'Pending','conditions':[{'type':'Other','status':'True'}]}");
	struct rf_json *p = rf_adopt_status(&b->a, g, ours_of(b, "{'message':'no cards'}"), 0);
	const struct rf_json *list = rf_json_at(p, "status", "conditions");

	assert_int_equal(rf_json_len(list), 2);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(list, 0), "type"), "Other"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(list, 1), "type"), "Unschedulable"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(list, 1), "reason"), "NotEnoughResources"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(list, 1), "message"), "no cards"));
	assert_int_equal(rf_patch_merge(&b->a, &g, p, NULL), 0);
	assert_null(rf_adopt_status(&b->a, g, ours_of(b, "{'message':'no cards'}"), 1000)); /* it says so */
	assert_non_null(rf_adopt_status(&b->a, g, ours_of(b, "{'message':'no quota'}"), 1000));
	p = rf_adopt_status(&b->a, g, ours_of(b, "{'started':true,'scheduled':2}"), 1000);
	list = rf_json_at(p, "status", "conditions");
	assert_int_equal(rf_json_len(list), 2);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(list, 1), "type"), "Scheduled"));
	assert_int_equal(rf_json_int(rf_json_at(p, "status", "running"), -1), 2);
	/* Numbers go on. */
	assert_int_equal(rf_patch_merge(&b->a, &g, p, NULL), 0);
	assert_null(rf_adopt_status(&b->a, g, ours_of(b, "{'started':true,'scheduled':2}"), 1000));
	assert_non_null(rf_adopt_status(&b->a, g, ours_of(b, "{'started':true,'scheduled':3}"), 1000));
}

/* From the watch to the write: Volcano makes a Job's pods when its group is in the queue. */
static void a_foreign_group_is_told_as_soon_as_it_is_adopted(void **state)
{
	struct bench *b = *state;
	struct rf_control *c = b->c;

	server.there = true;
	rf_adoption_look_again(c->adoption);
	run_until_due(b);
	assert_true(rf_control_adopt(c));
	assert_int_equal(b->patches, 0); /* not before ours is there */
	rf_adoption_ours_changed(c->adoption, b->ours);
	assert_true(rf_control_adopt(c));
	assert_int_equal(b->patches, 1);
	assert_string_equal(b->path, "/apis/scheduling.volcano.sh/v1beta1/namespaces/red/podgroups/train/status");
	assert_true(rf_str_is(rf_json_str_at(b->said, "phase"), "Inqueue"));
	rf_json_set(&b->a, b->ours, RF_LIT("status"), rf_json_make(&b->a, "{'started':true,'scheduled':3}"));
	rf_adoption_ours_changed(c->adoption, b->ours);
	assert_true(rf_control_adopt(c));
	assert_true(rf_str_is(rf_json_str_at(b->said, "phase"), "Running"));
	assert_int_equal(rf_json_int(rf_json_at(b->said, "running"), -1), 3);
}

static void a_kind_without_that_subresource_is_written_as_a_whole_but_status_alone(void **state)
{
	struct bench *b = *state;
	struct rf_adopt d = { .hands = &b->c->placer.hands, .cluster = &b->c->placer.cluster };
	struct rf_json *g = group_of(b, VOLCANO_VERSION, "{}"), *x = group_of(b, X_K8S_VERSION, "{}");
	struct rf_json *ours = ours_of(b, "{}");
	struct rf_err err = RF_ERR_INIT;

	b->bare = true;
	assert_int_equal(rf_adopt_tell(&d, g, ours, &err), 0);
	assert_int_equal(b->patches, 2);
	assert_string_equal(b->path, "/apis/scheduling.volcano.sh/v1beta1/namespaces/red/podgroups/train");
	assert_true(rf_str_is(rf_json_str_at(b->said, "phase"), "Inqueue"));
	rf_adopt_tell_forget(&d, g);
	assert_int_equal(rf_adopt_tell(&d, g, ours, &err), 0);
	assert_int_equal(b->patches, 3); /* it is known by now */
	/* The other's has it: one that is gone is gone. */
	b->said = NULL;
	rf_adopt_tell_forget(&d, g);
	assert_int_equal(rf_adopt_tell(&d, x, ours, &err), 0);
	assert_int_equal(b->patches, 4);
	assert_null(b->said);
	b->bare = false;
	assert_int_equal(rf_adopt_tell(&d, x, ours, &err), 0);
	assert_int_equal(b->patches, 5); /* whatever Volcano's lacks */
	assert_string_equal(b->path, "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/red/podgroups/train/status");
	assert_true(rf_str_is(rf_json_str_at(b->said, "phase"), "Pending"));
	rf_adopt_done(&d);
}

static void who_else_writes_a_status_wins_in_the_end(void **state)
{
	struct bench *b = *state;
	struct rf_adopt d = { .hands = &b->c->placer.hands, .cluster = &b->c->placer.cluster };
	struct rf_json *g = group_of(b, VOLCANO_VERSION, "{'phase':'Pending'}"); /* whatever we write */
	struct rf_err err = RF_ERR_INIT;

	for (int i = 0; i < 20; i++)
		assert_int_equal(rf_adopt_tell(&d, g, ours_of(b, "{}"), &err), 0);
	assert_int_equal(b->patches, 5);
	assert_int_equal(rf_adopt_tell(&d, g, ours_of(b, "{'started':true}"), &err), 0); /* news */
	assert_int_equal(b->patches, 6);
	/* Numbers and conditions are no other matter. */
	g = group_of(b, VOLCANO_VERSION, "{'phase':'Running','running':0}");
	for (int i = 0; i < 20; i++)
		assert_int_equal(rf_adopt_tell(&d, g, ours_of(b, "{'started':true,'scheduled':2}"), &err), 0);
	assert_int_equal(b->patches, 11);
	assert_int_equal(rf_adopt_tell(&d, g, ours_of(b, "{'started':true,'scheduled':3}"), &err), 0);
	assert_int_equal(b->patches, 12);
	rf_adopt_done(&d);
}

/* What came between is not undone: conditions are written as a whole, and a phase never goes back. */
static void a_status_is_written_to_the_group_as_it_was_seen(void **state)
{
	struct bench *b = *state;
	struct rf_adopt d = { .hands = &b->c->placer.hands, .cluster = &b->c->placer.cluster };
	struct rf_json *g = group_of(b, VOLCANO_VERSION, "{'phase':'Pending'}");
	struct rf_err err = RF_ERR_INIT;

	rf_json_set_str(&b->a, rf_json_at(g, "metadata"), "resourceVersion", RF_LIT("77"));
	assert_int_equal(rf_adopt_tell(&d, g, ours_of(b, "{}"), &err), 0);
	assert_true(rf_str_is(b->rv, "77"));
	b->refuses = RF_CONFLICT; /* the watch will say what it is now */
	for (int i = 0; i < 20; i++)
		assert_int_equal(rf_adopt_tell(&d, g, ours_of(b, "{}"), &err), 0);
	assert_int_equal(b->patches, 21); /* and that was nobody's stubbornness */
	rf_adopt_done(&d);
}

static void a_status_that_may_not_be_written_is_said_once_and_tried_on_silence(void **state)
{
	struct bench *b = *state;
	struct rf_control *c = b->c;

	server.there = true;
	rf_adoption_look_again(c->adoption);
	run_until_due(b);
	assert_true(rf_control_adopt(c));
	b->refuses = RF_FORBIDDEN;
	for (int i = 0; i < 3; i++) {
		rf_adoption_ours_changed(c->adoption, b->ours);
		assert_true(rf_control_adopt(c));
	}
	assert_int_equal(b->events, 1);
	b->refuses = RF_UNAVAILABLE;
	rf_adoption_ours_changed(c->adoption, b->ours);
	for (int i = 0; i < 10; i++)
		assert_false(rf_control_adopt(c)); /* it stays due */
	b->refuses = 0;
	assert_true(rf_control_adopt(c));
	assert_true(rf_str_is(rf_json_str_at(b->said, "phase"), "Inqueue"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_kind_may_come_later),
		TEST(who_does_not_lead_writes_nothing),
		TEST(a_namespace_that_becomes_a_tenants_is_looked_at_again),
		TEST(without_such_a_habit_nobody_is_asked),
		TEST(a_foreign_group_is_told_its_phase_and_only_moved_on),
		TEST(volcano_hears_why_its_group_waits),
		TEST(a_foreign_group_is_told_as_soon_as_it_is_adopted),
		TEST(a_kind_without_that_subresource_is_written_as_a_whole_but_status_alone),
		TEST(who_else_writes_a_status_wins_in_the_end),
		TEST(a_status_is_written_to_the_group_as_it_was_seen),
		TEST(a_status_that_may_not_be_written_is_said_once_and_tried_on_silence),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
