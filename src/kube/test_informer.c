/* The informer and a small API server on one loop; each test scripts what the server says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <malloc.h>

#include "kube/kube.h"

#define DEADLINE_MS 20000

struct world {
	uv_loop_t loop;
	uv_timer_t deadline;
	struct rf_http_server *server;
	uint16_t port;
	struct rf_informer *informer;
	struct rf_buf told; /* "+a/p1@5 ~a/p1@6 -a/p1@6 " */
	struct rf_buf errors;
	int syncs, lists, watches; /* requests so far */
	char last_watch[512];
	bool stop_at_first;
	struct rf_http_req *stream; /* the watch that is open */
	void (*on_list)(struct world *w, struct rf_http_req *req);
	void (*on_watch)(struct world *w, struct rf_http_req *req);
};

static struct world w;

/* --- the server ------------------------------------------------------------------------------- */

static void on_stream_gone(void *ctx)
{
	w.stream = NULL;
}

static void handle(void *ctx, struct rf_http_req *req)
{
	struct rf_str watch = RF_STR_EMPTY;

	assert_true(rf_str_is(req->path, "/api/v1/pods"));
	if (!rf_http_query(req, "watch", &watch)) {
		w.lists++;
		w.on_list(&w, req);
		return;
	}
	w.watches++;
	snprintf(w.last_watch, sizeof(w.last_watch), "%.*s", RF_STR(req->query));
	w.on_watch(&w, req);
}

static void reply(struct rf_http_req *req, int status, const char *text)
{
	rf_http_reply(req, status, "application/json", rf_str(text));
}

static void open_stream(struct rf_http_req *req)
{
	w.stream = req;
	rf_http_on_close(req, on_stream_gone, NULL);
	rf_http_stream_begin(req, 200, "application/json");
}

static void send_text(const char *text)
{
	rf_http_stream_write(w.stream, rf_str(text));
}

static void end_stream(void)
{
	struct rf_http_req *req = w.stream;

	w.stream = NULL;
	rf_http_stream_end(req);
}

#define OBJECT(name, uid, rv)                                                                      \
	"{\"metadata\":{\"namespace\":\"a\",\"name\":\"" name "\",\"uid\":\"" uid                  \
	"\",\"resourceVersion\":\"" rv "\"}}"
#define LIST(rv, items)                                                                            \
	"{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{\"resourceVersion\":\"" rv      \
	"\"},\"items\":[" items "]}"
#define EVENT(type, object) "{\"type\":\"" type "\",\"object\":" object "}\n"
#define BOOKMARK(rv) EVENT("BOOKMARK", "{\"metadata\":{\"resourceVersion\":\"" rv "\"}}")
#define EXPIRED                                                                                    \
	"{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\",\"message\":\"too old resource " \
	"version\"}"

static void quiet_watch(struct world *world, struct rf_http_req *req)
{
	open_stream(req);
}

static void list_one(struct world *world, struct rf_http_req *req)
{
	reply(req, 200, LIST("10", OBJECT("p1", "u1", "5")));
}

/* --- the owner of the informer ---------------------------------------------------------------- */

static void on_change(void *ctx, const struct rf_json *before, const struct rf_json *after)
{
	const struct rf_json *o = after ? after : before;

	assert_false(rf_informer_synced(w.informer) && w.syncs == 0);
	assert_ptr_equal(rf_informer_get(w.informer, rf_kube_namespace(o), rf_kube_name(o)), after);
	assert_true(rf_str_is(rf_json_str_at(o, "kind"), "Pod"));
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "v1"));
	rf_buf_printf(&w.told, "%c%.*s/%.*s@%lld ",
		      !before ? '+'
		      : after ? '~'
			      : '-',
		      RF_STR(rf_kube_namespace(o)), RF_STR(rf_kube_name(o)),
		      (long long)rf_kube_rv(o));
	if (w.stop_at_first) {
		rf_informer_stop(w.informer);
		w.informer = NULL;
	}
}

static void on_sync(void *ctx)
{
	w.syncs++;
}

static void on_error(void *ctx, const struct rf_err *err)
{
	rf_buf_printf(&w.errors, "%s\n", err->msg);
}

static void on_deadline(uv_timer_t *timer)
{
	fail_msg("nothing more happens; told so far: %s; errors: %s", w.told.p, w.errors.p);
}

static void listen_on(uint16_t port)
{
	struct rf_http_server_opts opts = { .address = "127.0.0.1",
					    .port = port,
					    .handler = handle };
	struct rf_err err = RF_ERR_INIT;

	if (rf_http_listen(&w.loop, &opts, &w.server, &err) < 0)
		fail_msg("%s", err.msg);
	w.port = rf_http_server_port(w.server);
}

static int setup(void **state)
{
	w = (struct world){ .told = RF_BUF_INIT,
			    .errors = RF_BUF_INIT,
			    .on_list = list_one,
			    .on_watch = quiet_watch };
	uv_loop_init(&w.loop);
	uv_timer_init(&w.loop, &w.deadline);
	uv_timer_start(&w.deadline, on_deadline, DEADLINE_MS, 0);
	listen_on(0);
	return 0;
}

static int teardown(void **state)
{
	uv_close((uv_handle_t *)&w.deadline, NULL);
	rf_informer_stop(w.informer);
	rf_http_server_close(w.server, NULL, NULL);
	uv_run(&w.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w.loop), 0);
	rf_buf_done(&w.told);
	rf_buf_done(&w.errors);
	return 0;
}

static void start(int idle_ms)
{
	struct rf_kubeconfig config = { .host = RF_LIT("127.0.0.1"), .port = w.port };
	struct rf_informer_opts opts = { .config = &config,
					 .res = &RF_PODS,
					 .on_change = on_change,
					 .on_sync = on_sync,
					 .on_error = on_error,
					 .label_selector = RF_LIT("app in (a,b)"),
					 .idle_ms = idle_ms };
	struct rf_err err = RF_ERR_INIT;

	if (rf_informer_start(&w.loop, &opts, &w.informer, &err) < 0)
		fail_msg("%s", err.msg);
}

#define RUN_UNTIL(cond)                                                                            \
	while (!(cond))                                                                            \
	uv_run(&w.loop, UV_RUN_ONCE)

static void run_until_told(const char *last)
{
	RUN_UNTIL(w.told.n >= strlen(last) &&
		  strcmp(w.told.p + w.told.n - strlen(last), last) == 0);
}

/* --- the promises ----------------------------------------------------------------------------- */

static void list_two_pages(struct world *world, struct rf_http_req *req)
{
	struct rf_str token, selector = RF_STR_EMPTY;

	assert_true(rf_http_query(req, "labelSelector", &selector));
	assert_true(rf_str_is(selector, "app in (a,b)"));
	if (!rf_http_query(req, "continue", &token)) {
		reply(req, 200,
		      "{\"metadata\":{\"resourceVersion\":\"10\",\"continue\":\"t/"
		      "+1\"},\"items\":[" OBJECT("p1", "u1", "5") "]}");
		return;
	}
	assert_true(rf_str_is(token, "t/+1"));
	assert_int_equal(w.syncs, 0);
	reply(req, 200, LIST("10", OBJECT("p2", "u2", "6")));
}

static void a_list_comes_in_pages_and_a_watch_follows_it(void **state)
{
	const struct rf_map_slot *slot = NULL;
	size_t n = 0;

	w.on_list = list_two_pages;
	start(0);
	RUN_UNTIL(w.stream != NULL);
	assert_string_equal(w.told.p, "+a/p1@5 +a/p2@6 ");
	assert_int_equal(w.syncs, 1);
	assert_true(rf_informer_synced(w.informer));
	assert_non_null(strstr(w.last_watch, "resourceVersion=10"));
	assert_non_null(strstr(w.last_watch, "allowWatchBookmarks=true"));
	assert_non_null(strstr(w.last_watch, "labelSelector=app%20in%20%28a%2Cb%29"));
	send_text(EVENT("ADDED", OBJECT("p3", "u3", "11"))
			  EVENT("MODIFIED", OBJECT("p1", "u1", "12")));
	send_text(EVENT("DELETED", OBJECT("p2", "u2", "13")));
	run_until_told("+a/p3@11 ~a/p1@12 -a/p2@6 ");
	assert_int_equal(rf_informer_count(w.informer), 2);
	for (const struct rf_json *o = NULL; (o = rf_informer_next(w.informer, &slot)) != NULL;)
		n += (size_t)rf_kube_rv(o);
	assert_int_equal(n, 11 + 12);
	assert_string_equal(w.errors.p, "");
}

static void events_split_at_any_byte_are_put_together(void **state)
{
	const char *text =
		EVENT("ADDED", OBJECT("p2", "u2", "11")) EVENT("ADDED", OBJECT("p3", "u3", "12"));

	start(0);
	RUN_UNTIL(w.stream != NULL);
	for (const char *c = text; *c != '\0'; c++) {
		rf_http_stream_write(w.stream, rf_str_n(c, 1));
		uv_run(&w.loop, UV_RUN_NOWAIT);
	}
	run_until_told("+a/p2@11 +a/p3@12 ");
}

static void half_an_event_is_forgotten_and_asked_for_again(void **state)
{
	start(0);
	RUN_UNTIL(w.stream != NULL);
	send_text(EVENT("ADDED", OBJECT("p2", "u2", "11")) "{\"type\":\"ADDED\",\"obj");
	end_stream();
	RUN_UNTIL(w.stream != NULL);
	assert_int_equal(w.watches, 2);
	assert_non_null(strstr(w.last_watch, "resourceVersion=11"));
	send_text(EVENT("ADDED", OBJECT("p3", "u3", "12")));
	run_until_told("+a/p3@12 ");
	assert_string_equal(w.told.p, "+a/p1@5 +a/p2@11 +a/p3@12 ");
	assert_int_equal(w.lists, 1);
}

static void on_server_gone(void *ctx)
{
	w.server = NULL;
}

static void a_server_that_dies_mid_event_is_found_again(void **state)
{
	start(0);
	RUN_UNTIL(w.stream != NULL);
	send_text(EVENT("ADDED", OBJECT("p2", "u2", "11")) "{\"type\":\"ADD");
	run_until_told("+a/p2@11 ");
	rf_http_server_close(w.server, on_server_gone, NULL);
	RUN_UNTIL(w.server == NULL && w.errors.n > 0);
	assert_non_null(strstr(w.errors.p, "watch pods: "));
	listen_on(w.port);
	RUN_UNTIL(w.stream != NULL);
	assert_non_null(strstr(w.last_watch, "resourceVersion=11"));
	assert_int_equal(w.lists, 1);
	assert_int_equal(w.syncs, 1);
}

static void a_bookmark_moves_the_place_to_resume_from(void **state)
{
	start(0);
	RUN_UNTIL(w.stream != NULL);
	send_text(BOOKMARK("50"));
	end_stream();
	RUN_UNTIL(w.stream != NULL);
	assert_non_null(strstr(w.last_watch, "resourceVersion=50"));
	assert_string_equal(w.told.p, "+a/p1@5 ");
	assert_int_equal(w.lists, 1);
}

/* The second list: same stays, changed has changed, gone is missing, anew has another uid. */
static void list_twice(struct world *world, struct rf_http_req *req)
{
	reply(req, 200,
	      w.lists == 1
		      ? LIST("10",
			     OBJECT("same", "1", "1") "," OBJECT("changed", "2", "2") "," OBJECT(
				     "gone", "3", "3") "," OBJECT("anew", "4", "4"))
		      : LIST("20",
			     OBJECT("same", "1", "1") "," OBJECT("changed", "2", "12") "," OBJECT(
				     "anew", "40", "14") "," OBJECT("new", "5", "15")));
}

static void watch_expired_as_event(struct world *world, struct rf_http_req *req)
{
	open_stream(req);
	if (w.watches == 1)
		send_text(EVENT("ERROR", EXPIRED));
}

static void watch_expired_as_answer(struct world *world, struct rf_http_req *req)
{
	if (w.watches == 1)
		reply(req, 410, EXPIRED);
	else
		open_stream(req);
}

static void tells_differences_after(void (*on_watch)(struct world *, struct rf_http_req *))
{
	w.on_list = list_twice;
	w.on_watch = on_watch;
	start(0);
	RUN_UNTIL(w.watches == 2 && w.stream != NULL);
	assert_string_equal(w.told.p, "+a/same@1 +a/changed@2 +a/gone@3 +a/anew@4 "
				      "~a/changed@12 -a/anew@4 +a/anew@14 +a/new@15 -a/gone@3 ");
	assert_int_equal(w.lists, 2);
	assert_int_equal(w.syncs, 1);
	assert_non_null(strstr(w.last_watch, "resourceVersion=20"));
	assert_int_equal(rf_informer_count(w.informer), 4);
}

static void after_410_in_the_stream_only_differences_are_told(void **state)
{
	tells_differences_after(watch_expired_as_event);
}

static void after_410_as_an_answer_only_differences_are_told(void **state)
{
	tells_differences_after(watch_expired_as_answer);
}

static void list_with_expired_page(struct world *world, struct rf_http_req *req)
{
	struct rf_str token;

	if (w.lists == 1)
		reply(req, 200,
		      "{\"metadata\":{\"resourceVersion\":\"10\",\"continue\":\"t\"},\"items\":"
		      "[" OBJECT("p1", "u1", "5") "]}");
	else if (w.lists == 2)
		reply(req, 410, EXPIRED);
	else if (!rf_http_query(req, "continue", &token))
		reply(req, 200, LIST("20", OBJECT("p2", "u2", "15")));
}

static void a_page_that_expired_means_a_list_from_the_start(void **state)
{
	w.on_list = list_with_expired_page;
	start(0);
	RUN_UNTIL(w.stream != NULL);
	assert_string_equal(w.told.p, "+a/p1@5 +a/p2@15 -a/p1@5 ");
	assert_int_equal(w.syncs, 1);
}

static void list_forbidden_at_first(struct world *world, struct rf_http_req *req)
{
	if (w.lists < 3)
		reply(req, 403,
		      "{\"kind\":\"Status\",\"code\":403,\"reason\":\"Forbidden\",\"message\":"
		      "\"pods is forbidden: User bob cannot list\"}");
	else
		list_one(world, req);
}

static void failures_are_told_and_tried_again(void **state)
{
	w.on_list = list_forbidden_at_first;
	start(0);
	RUN_UNTIL(w.stream != NULL);
	assert_string_equal(w.errors.p, "list pods: pods is forbidden: User bob cannot list\n"
					"list pods: pods is forbidden: User bob cannot list\n");
	assert_string_equal(w.told.p, "+a/p1@5 ");
}

static void a_silent_watch_is_made_anew(void **state)
{
	start(100);
	RUN_UNTIL(w.watches == 2 && w.stream != NULL);
	assert_int_equal(w.lists, 1);
	assert_string_equal(w.errors.p, "");
}

static void what_is_no_event_means_a_new_list(void **state)
{
	start(0);
	RUN_UNTIL(w.stream != NULL);
	send_text("{\"type\":\n");
	RUN_UNTIL(w.lists == 2 && w.watches == 2);
	assert_non_null(strstr(w.errors.p, "watch pods: "));
	assert_string_equal(w.told.p, "+a/p1@5 ");
}

static void an_event_without_end_is_not_collected_for_ever(void **state)
{
	char *block = rf_alloc(65536);

	memset(block, 'x', 65536);
	start(0);
	RUN_UNTIL(w.stream != NULL);
	for (int i = 0; i < 80 && w.lists == 1; i++) {
		rf_http_stream_write(w.stream, rf_str_n(block, 65536));
		uv_run(&w.loop, UV_RUN_NOWAIT);
	}
	free(block);
	RUN_UNTIL(w.lists == 2);
	assert_non_null(strstr(w.errors.p, "more than 4194304 bytes"));
}

static void stopping_inside_a_callback_is_the_last_of_it(void **state)
{
	w.on_list = list_twice;
	w.stop_at_first = true;
	start(0);
	RUN_UNTIL(w.told.n > 0);
	for (int i = 0; i < 20; i++)
		uv_run(&w.loop, UV_RUN_NOWAIT);
	assert_string_equal(w.told.p, "+a/same@1 ");
	assert_int_equal(w.syncs, 0);
	assert_int_equal(w.watches, 0);
}

static void churn(int from, int to)
{
	char text[512];

	for (int rv = from; rv <= to; rv++) {
		snprintf(text, sizeof(text),
			 "{\"type\":\"%s\",\"object\":{\"metadata\":{\"namespace\":\"a\",\"name\":"
			 "\"c%d\","
			 "\"uid\":\"c\",\"resourceVersion\":\"%d\"}}}\n",
			 rv % 3 == 2 ? "DELETED" : "MODIFIED", rv / 3 % 10, rv);
		send_text(text);
		if (rv % 100 == 0)
			uv_run(&w.loop, UV_RUN_NOWAIT);
	}
	snprintf(text, sizeof(text), "a/c%d@%d ", to / 3 % 10, to);
	run_until_told(text);
	rf_buf_done(&w.told);
	w.told = (struct rf_buf)RF_BUF_INIT;
}

static void memory_does_not_grow_with_churn(void **state)
{
	size_t before;

	start(0);
	RUN_UNTIL(w.stream != NULL);
	churn(100, 3000);
	before = mallinfo2().uordblks;
	churn(3001, 30000);
	assert_true(mallinfo2().uordblks < before + 65536);
	assert_int_equal(w.watches, 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_list_comes_in_pages_and_a_watch_follows_it),
		TEST(events_split_at_any_byte_are_put_together),
		TEST(half_an_event_is_forgotten_and_asked_for_again),
		TEST(a_server_that_dies_mid_event_is_found_again),
		TEST(a_bookmark_moves_the_place_to_resume_from),
		TEST(after_410_in_the_stream_only_differences_are_told),
		TEST(after_410_as_an_answer_only_differences_are_told),
		TEST(a_page_that_expired_means_a_list_from_the_start),
		TEST(failures_are_told_and_tried_again),
		TEST(a_silent_watch_is_made_anew),
		TEST(what_is_no_event_means_a_new_list),
		TEST(an_event_without_end_is_not_collected_for_ever),
		TEST(stopping_inside_a_callback_is_the_last_of_it),
		TEST(memory_does_not_grow_with_churn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
