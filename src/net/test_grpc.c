/* The server and the client against each other. */
#include "net/test_grpc.h"

/* --- messages --------------------------------------------------------------------------------- */

static void messages_of_any_size_come_back_whole(void **state)
{
	static const size_t sizes[] = { 0,     1,	   100,	    65530,   65535,
					65536, 100 * 1024, 5 * MIB, 16 * MIB };
	struct world *w = *state;
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < RF_COUNT(sizes); i++) {
		auto_answer a = ANSWER_INIT;

		fill(&text, sizes[i]);
		ask_and_wait(w, "/test.T/Echo", rf_buf_str(&text), &a);
		assert_int_equal(a.code, 0);
		assert_true(same(rf_buf_str(&a.body), rf_buf_str(&text)));
	}
	assert_int_equal(rf_grpc_server_connections(w->server), 1);
}

static void a_message_over_the_cap_is_not_sent(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;
	rf_auto(buf) text = RF_BUF_INIT;

	ask_and_wait(w, "/test.T/Echo", RF_LIT("x"), &b); /* with a connection that is up */
	fill(&text, 16 * MIB + 1);
	ask_and_wait(w, "/test.T/Echo", rf_buf_str(&text), &a);
	assert_int_equal(a.code, RF_TOO_LARGE);
	assert_int_equal(w->handled, 1);
}

static void an_answer_over_the_cap_is_an_error(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	rf_auto(buf) text = RF_BUF_INIT;

	fill(&text, 16 * MIB + 1);
	ask(w, "/test.T/Hold", RF_STR_EMPTY, &a);
	wait_for(w, w->n_held == 1);
	rf_grpc_reply(w->held[0], rf_buf_str(&text));
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_EXHAUSTED);
}

static void a_thousand_calls_use_one_connection(void **state)
{
	struct world *w = *state;

	for (int i = 0; i < 1000; i++) {
		auto_answer a = ANSWER_INIT;
		char text[16];

		snprintf(text, sizeof(text), "%d", i);
		ask_and_wait(w, "/test.T/Echo", rf_str(text), &a);
		assert_int_equal(a.code, 0);
		assert_string_equal(a.body.p, text);
		assert_int_equal(rf_grpc_server_connections(w->server), 1);
	}
}

static void calls_at_once_are_answered_in_any_order(void **state)
{
	struct world *w = *state;
	struct answer a[50];

	for (int i = 0; i < 50; i++) {
		a[i] = (struct answer)ANSWER_INIT;
		ask(w, "/test.T/Hold", RF_STR_EMPTY, &a[i]);
	}
	wait_for(w, w->n_held == 50);
	for (int i = 49; i >= 0; i--) {
		char text[16];

		snprintf(text, sizeof(text), "%d", i);
		rf_grpc_reply(w->held[i], rf_str(text));
		wait_for(w, a[i].calls == 1);
		assert_int_equal(a[i].code, 0);
		assert_string_equal(a[i].body.p, text);
		rf_answer_done(&a[i]);
	}
	assert_int_equal(w->cancelled, 0);
}

static void calls_past_the_limit_of_streams_wait_their_turn(void **state)
{
	struct world *w = *state;
	struct answer a[250];

	for (int i = 0; i < 250; i++) {
		a[i] = (struct answer)ANSWER_INIT;
		ask(w, "/test.T/Hold", RF_STR_EMPTY, &a[i]);
	}
	for (size_t i = 0; i < 250; i++) {
		wait_for(w, w->n_held > i);
		assert_true(w->n_held <= i + RF_GRPC_STREAMS_MAX);
		rf_grpc_reply(w->held[i], RF_LIT("ok"));
	}
	for (int i = 0; i < 250; i++) {
		wait_for(w, a[i].calls == 1);
		assert_int_equal(a[i].code, 0);
		rf_answer_done(&a[i]);
	}
}

static void large_calls_at_once_share_the_windows(void **state)
{
	struct world *w = *state;
	struct answer a[10];
	rf_auto(buf) text = RF_BUF_INIT;

	fill(&text, MIB);
	for (int i = 0; i < 10; i++) {
		a[i] = (struct answer)ANSWER_INIT;
		ask(w, "/test.T/Echo", rf_buf_str(&text), &a[i]);
	}
	for (int i = 0; i < 10; i++) {
		wait_for(w, a[i].calls == 1);
		assert_int_equal(a[i].code, 0);
		assert_true(same(rf_buf_str(&a[i].body), rf_buf_str(&text)));
		rf_answer_done(&a[i]);
	}
}

/* --- a kubelet's way -------------------------------------------------------------------------- */

struct kubelet {
	struct world *w;
	struct rf_grpc_call *registration;
	struct answer options;
};

static void on_options(void *ctx, const struct rf_err *err, struct rf_str message)
{
	struct kubelet *k = ctx;

	on_answer(&k->options, err, message);
	rf_grpc_reply(k->registration, message);
}

/* As the kubelet does: before it answers the registration, it asks the one who registers. */
static void handle_register(void *ctx, struct rf_grpc_call *call, struct rf_str message)
{
	struct kubelet *k = ctx;

	k->registration = call;
	rf_grpc_call_unary(k->w->client, "/test.T/Echo", RF_LIT("options"), 10000, on_options, k);
}

static void a_server_answers_while_its_own_call_waits(void **state)
{
	static const struct rf_grpc_method registry[] = {
		{ "/v1beta1.Registration/Register", handle_register },
	};
	struct world *w = *state;
	struct kubelet k = { .w = w, .options = ANSWER_INIT };
	struct rf_grpc_server *kubelet = NULL;
	struct rf_grpc_client *plugin;
	struct rf_err err = RF_ERR_INIT;
	auto_answer a = ANSWER_INIT;
	char path[128];

	snprintf(path, sizeof(path), "%s/kubelet.sock", w->dir);
	ok(rf_grpc_listen(&w->loop, path, 0600, registry, 1, &k, &kubelet, &err), &err);
	plugin = rf_grpc_client_new(&w->loop, path);
	rf_grpc_call_unary(plugin, "/v1beta1.Registration/Register", RF_LIT("me"), 10000, on_answer,
			   &a);
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, 0);
	assert_string_equal(a.body.p, "options");
	assert_int_equal(k.options.calls, 1);
	rf_answer_done(&k.options);
	rf_grpc_client_free(plugin);
	rf_grpc_server_close(kubelet);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void every_error_arrives_with_its_code_and_text(void **state)
{
	struct world *w = *state;

	for (int code = 1; code < RF_CODE_COUNT; code++) {
		auto_answer a = ANSWER_INIT;
		char text[16];

		snprintf(text, sizeof(text), "%d", code);
		ask_and_wait(w, "/test.T/Fail", rf_str(text), &a);
		assert_int_equal(rf_grpc_status_of(a.code), rf_grpc_status_of(code));
		assert_non_null(strstr(a.error, "100% wrong: \xc3\xbc second line"));
		assert_non_null(strstr(a.error, "call /test.T/Fail at /tmp/"));
		assert_int_equal(a.body.n, 0);
	}
}

static void an_unknown_method_is_said_so(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;

	ask_and_wait(w, "/test.T/Nothing", RF_LIT("x"), &a);
	assert_int_equal(a.code, RF_UNSUPPORTED);
	assert_non_null(strstr(a.error, "method /test.T/Nothing is not served"));
}

static void an_end_without_a_message_is_an_error_of_a_unary_call(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	ask_and_wait(w, "/test.T/Stream", RF_LIT("0"), &a);
	assert_int_equal(a.code, RF_INTERNAL);
	assert_non_null(strstr(a.error, "no message"));
	ask_and_wait(w, "/test.T/Stream", RF_LIT("2"), &b);
	assert_int_equal(b.code, RF_INTERNAL);
	assert_non_null(strstr(b.error, "more than one message"));
}

static void nobody_at_the_socket_is_unavailable_at_once(void **state)
{
	struct world *w = *state;
	auto_answer missing = ANSWER_INIT, stale = ANSWER_INIT;
	char old[128];

	snprintf(old, sizeof(old), "%s/old", w->dir);
	assert_int_equal(rename(w->path, old), 0);
	ask_and_wait(w, "/test.T/Echo", RF_LIT("x"), &missing);
	assert_int_equal(missing.code, RF_UNAVAILABLE);
	assert_non_null(strstr(missing.error, "no such file"));
	stop_serving(w); /* it does not find its file, so the file stays: a stale one */
	assert_int_equal(rename(old, w->path), 0);
	ask_and_wait(w, "/test.T/Echo", RF_LIT("x"), &stale);
	assert_int_equal(stale.code, RF_UNAVAILABLE);
	assert_non_null(strstr(stale.error, "refused"));
	serve(w);
	rf_answer_done(&stale);
	stale = (struct answer)ANSWER_INIT;
	ask_and_wait(w, "/test.T/Echo", RF_LIT("x"), &stale);
	assert_int_equal(stale.code, 0);
}

static void a_path_too_long_for_the_kernel_is_invalid(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;
	struct rf_grpc_server *s = NULL;
	struct rf_grpc_client *c;
	struct rf_err err = RF_ERR_INIT;
	char path[109] = "";

	memset(path, 'x', 108);
	memcpy(path, w->dir, strlen(w->dir));
	path[strlen(w->dir)] = '/';
	assert_int_equal(rf_grpc_listen(&w->loop, path, 0600, methods, 1, w, &s, &err),
			 -RF_INVALID);
	c = rf_grpc_client_new(&w->loop, path);
	rf_grpc_call_unary(c, "/test.T/Echo", RF_LIT("x"), 0, on_answer, &a);
	assert_int_equal(a.calls, 0);
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_INVALID);
	rf_grpc_client_free(c);

	path[107] = '\0'; /* the longest that fits is served */
	ok(rf_grpc_listen(&w->loop, path, 0600, methods, RF_COUNT(methods), w, &s, &err), &err);
	c = rf_grpc_client_new(&w->loop, path);
	rf_answer_done(&a);
	a = (struct answer)ANSWER_INIT;
	rf_grpc_call_unary(c, "/test.T/Echo", RF_LIT("x"), 0, on_answer, &a);
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, 0);
	rf_grpc_client_free(c);
	rf_grpc_server_close(s);
}

/* --- coming and going ------------------------------------------------------------------------- */

static void a_server_that_vanishes_in_a_call_is_unavailable_at_once(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	ask(w, "/test.T/Hold", RF_STR_EMPTY, &a);
	wait_for(w, w->n_held == 1);
	stop_serving(w);
	assert_int_equal(w->cancelled, 1); /* before close returns */
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	serve(w);
	ask_and_wait(w, "/test.T/Echo", RF_LIT("back"), &b);
	assert_int_equal(b.code, 0);
	assert_string_equal(b.body.p, "back");
}

static void an_answer_given_before_the_close_arrives(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	ask_and_wait(w, "/test.T/Close", RF_STR_EMPTY, &a); /* the handler closes its server */
	assert_int_equal(a.code, 0);
	assert_string_equal(a.body.p, "bye");
	ask_and_wait(w, "/test.T/Echo", RF_LIT("x"), &b);
	assert_int_equal(b.code, RF_UNAVAILABLE);
}

static void a_timeout_ends_the_call_on_both_sides(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	rf_grpc_call_unary(w->client, "/test.T/Hold", RF_LIT("x"), 30, on_answer, &a);
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_TIMEOUT);
	wait_for(w, w->handled == w->cancelled);
	ask_and_wait(w, "/test.T/Echo", RF_LIT("y"), &b); /* on the same connection */
	assert_int_equal(b.code, 0);
	assert_int_equal(rf_grpc_server_connections(w->server), 1);
}

static void a_freed_client_calls_nobody_and_the_server_is_told(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	ask(w, "/test.T/Hold", RF_STR_EMPTY, &a);
	wait_for(w, w->n_held == 1);
	ask(w, "/test.T/Echo", RF_LIT("not sent yet"), &b);
	rf_grpc_client_free(w->client);
	w->client = NULL;
	wait_for(w, w->cancelled == 1 && rf_grpc_server_connections(w->server) == 0);
	assert_int_equal(a.calls + b.calls, 0);
}

static void a_client_freed_before_it_connected_leaves_nothing(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT;

	ask(w, "/test.T/Echo", RF_LIT("x"), &a);
	rf_grpc_client_free(w->client);
	w->client = NULL;
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	assert_int_equal(a.calls, 0);
}

static void a_callback_may_call_again_and_free_the_client(void **state)
{
	struct world *w = *state;
	auto_answer last = ANSWER_INIT, first = ANSWER_INIT, other = ANSWER_INIT;

	first.w = last.w = w;
	first.next = &last;
	last.free_client = true;
	ask(w, "/test.T/Hold", RF_STR_EMPTY, &other);
	ask_and_wait(w, "/test.T/Echo", RF_LIT("once"), &first);
	wait_for(w, last.calls == 1);
	assert_string_equal(first.body.p, "once");
	assert_string_equal(last.body.p, "again");
	assert_null(w->client);
	wait_for(w, w->cancelled == 1);
	assert_int_equal(other.calls, 0);
}

static void the_client_may_be_freed_when_the_connection_is_lost(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT;

	a.w = w;
	a.free_client = true;
	ask(w, "/test.T/Hold", RF_STR_EMPTY, &a);
	ask(w, "/test.T/Hold", RF_STR_EMPTY, &b);
	wait_for(w, w->n_held == 2);
	stop_serving(w);
	wait_for(w, a.calls == 1);
	assert_int_equal(a.code, RF_UNAVAILABLE);
	assert_int_equal(b.calls, 0);
}

static void a_call_whose_peer_has_left_can_still_be_ended(void **state)
{
	struct world *w = *state;
	auto_answer a = ANSWER_INIT, b = ANSWER_INIT, c = ANSWER_INIT;

	ask(w, "/test.T/Deaf", RF_STR_EMPTY, &a);
	ask(w, "/test.T/Deaf", RF_STR_EMPTY, &b);
	ask(w, "/test.T/Deaf", RF_STR_EMPTY, &c);
	wait_for(w, w->n_held == 3);
	rf_grpc_client_free(w->client);
	w->client = NULL;
	wait_for(w, rf_grpc_server_connections(w->server) == 0);
	rf_grpc_send(w->held[2], RF_LIT("nobody hears it"));
	rf_grpc_reply(w->held[2], RF_LIT("nor this"));
	rf_grpc_on_cancel(w->held[1], on_cancelled, w); /* late, and still told, from the loop */
	assert_int_equal(w->cancelled, 0);
	wait_for(w, w->cancelled == 1);
	stop_serving(w); /* is released once the last call was ended */
	uv_run(&w->loop, UV_RUN_ONCE);
	rf_grpc_finish(w->held[0], RF_GRPC_ABORTED, "too late");
}

/* --- the socket file -------------------------------------------------------------------------- */

static void the_file_has_its_mode_and_goes_with_the_server(void **state)
{
	struct world *w = *state;
	struct rf_err err = RF_ERR_INIT;
	struct stat st;

	assert_int_equal(stat(w->path, &st), 0);
	assert_true(S_ISSOCK(st.st_mode));
	assert_int_equal(st.st_mode & 0777, 0600);
	stop_serving(w);
	assert_int_equal(access(w->path, F_OK), -1);
	ok(rf_grpc_listen(&w->loop, w->path, 0660, methods, 1, w, &w->server, &err), &err);
	assert_int_equal(stat(w->path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
}

static void a_server_leaves_the_file_of_its_successor(void **state)
{
	struct world *w = *state;
	struct rf_grpc_server *old = w->server;
	auto_answer a = ANSWER_INIT;

	serve(w);
	rf_grpc_server_close(old);
	ask_and_wait(w, "/test.T/Echo", RF_LIT("x"), &a);
	assert_int_equal(a.code, 0);
}

static void a_file_that_is_no_socket_is_not_replaced(void **state)
{
	struct world *w = *state;
	struct rf_grpc_server *s = NULL;
	struct rf_err err = RF_ERR_INIT;
	char path[128], nowhere[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/notes", w->dir);
	snprintf(nowhere, sizeof(nowhere), "%s/no/such", w->dir);
	f = fopen(path, "w");
	fputs("mine", f);
	fclose(f);
	assert_int_equal(rf_grpc_listen(&w->loop, path, 0600, methods, 1, w, &s, &err), -RF_EXISTS);
	assert_non_null(strstr(err.msg, "notes"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rf_grpc_listen(&w->loop, nowhere, 0600, methods, 1, w, &s, &err),
			 -RF_SYSTEM);
	assert_non_null(strstr(err.msg, nowhere));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_of_any_size_come_back_whole),
		TEST(a_message_over_the_cap_is_not_sent),
		TEST(an_answer_over_the_cap_is_an_error),
		TEST(a_thousand_calls_use_one_connection),
		TEST(calls_at_once_are_answered_in_any_order),
		TEST(calls_past_the_limit_of_streams_wait_their_turn),
		TEST(large_calls_at_once_share_the_windows),
		TEST(a_server_answers_while_its_own_call_waits),
		TEST(every_error_arrives_with_its_code_and_text),
		TEST(an_unknown_method_is_said_so),
		TEST(an_end_without_a_message_is_an_error_of_a_unary_call),
		TEST(nobody_at_the_socket_is_unavailable_at_once),
		TEST(a_path_too_long_for_the_kernel_is_invalid),
		TEST(a_server_that_vanishes_in_a_call_is_unavailable_at_once),
		TEST(an_answer_given_before_the_close_arrives),
		TEST(a_timeout_ends_the_call_on_both_sides),
		TEST(a_freed_client_calls_nobody_and_the_server_is_told),
		TEST(a_client_freed_before_it_connected_leaves_nothing),
		TEST(a_callback_may_call_again_and_free_the_client),
		TEST(the_client_may_be_freed_when_the_connection_is_lost),
		TEST(a_call_whose_peer_has_left_can_still_be_ended),
		TEST(the_file_has_its_mode_and_goes_with_the_server),
		TEST(a_server_leaves_the_file_of_its_successor),
		TEST(a_file_that_is_no_socket_is_not_replaced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
