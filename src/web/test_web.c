#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "net/http.h"
#include "web/view.h"
#include "web/web.h"

static struct rf_json *parse(struct rf_arena *a, const char *text)
{
	struct rf_json *v = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (rf_json_parse(a, rf_str(text), &v, &err) < 0)
		fail_msg("%s", err.msg);
	return v;
}

static void assert_str(struct rf_str got, const char *want)
{
	if (!rf_str_is(got, want))
		fail_msg("got \"%.*s\", want \"%s\"", RF_STR(got), want);
}

static const char SLICES[] =
	"[{\"spec\":{\"driver\":\"ringfence.io\",\"nodeName\":\"n1\",\"devices\":["
	"{\"name\":\"gpu-0\",\"attributes\":{\"productName\":{\"string\":\"NVIDIA H200\"},\"simulated\":{\"bool\":true}},"
	"\"capacity\":{\"memory\":{\"value\":\"141Gi\"},\"compute\":{\"value\":\"1000\"}}},"
	"{\"name\":\"gpu-1\",\"capacity\":{\"memory\":{\"value\":\"141Gi\"}},"
	"\"taints\":[{\"key\":\"ringfence.io/xid\",\"value\":\"79\"}]}]}},"
	"{\"spec\":{\"driver\":\"other.io\",\"nodeName\":\"n1\",\"devices\":[{\"name\":\"gpu-0\"}]}}]";
static const char CLAIMS[] =
	"[{\"metadata\":{\"name\":\"p-01234567\",\"namespace\":\"a\",\"annotations\":{\"ringfence.io/tenant\":\"ta\"}},"
	"\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"driver\":\"ringfence.io\",\"pool\":\"n1\",\"device\":\"gpu-0\","
	"\"consumedCapacity\":{\"memory\":\"20Gi\",\"compute\":\"500\"}}]}}}},"
	"{\"metadata\":{\"name\":\"q\",\"namespace\":\"b\",\"annotations\":{\"ringfence.io/tenant\":\"tb\"}},"
	"\"status\":{\"allocation\":{\"devices\":{\"results\":[{\"driver\":\"ringfence.io\",\"pool\":\"n1\",\"device\":\"gpu-0\","
	"\"consumedCapacity\":{\"memory\":\"1Gi\",\"compute\":\"100\"}}]}}}}]";

static void a_card_shows_what_is_granted_and_to_whom(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *rows = rf_view_cards(&a, parse(&a, SLICES), parse(&a, CLAIMS));

	assert_int_equal(rf_json_len(rows), 2); /* other drivers' devices are not ours to show */
	assert_str(rf_json_str_at(rf_json_item(rows, 0), "granted"), "21Gi");
	assert_str(rf_json_str_at(rf_json_item(rows, 0), "compute"), "60%");
	assert_str(rf_json_str_at(rf_json_item(rows, 0), "tenants"), "ta,tb");
	assert_str(rf_json_str_at(rf_json_item(rows, 0), "health"), "ok");
	assert_str(rf_json_str_at(rf_json_item(rows, 1), "health"), "ringfence.io/xid=79");
	assert_str(rf_json_str_at(rf_json_item(rows, 1), "granted"), "0");
}

/* As on a cluster that has another DRA driver, and where a pool was just told of anew. */
static void only_our_own_and_newest_slices_are_shown(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *slices = rf_json_make(
		&a, "[{'spec':{'driver':'ringfence.io','nodeName':'n1','pool':{'name':'n1','generation':1},'devices':["
		    "{'name':'gpu-0'},{'name':'gpu-1'}]}},{'spec':{'driver':'ringfence.io','nodeName':'n1','pool':"
		    "{'name':'n1','generation':2},'devices':[{'name':'gpu-10','capacity':{'memory':{'value':'80Gi'}},"
		    "'taints':[{'key':'ringfence.io/warm','value':'yes','effect':'None'}]}]}},{'spec':{'driver':"
		    "'gpu.nvidia.com','nodeName':'n1','pool':{'name':'n1','generation':9},'devices':[{'name':'gpu-10'}]}}]");
	struct rf_json *claims = rf_json_make(
		&a, "[{'metadata':{'annotations':{'ringfence.io/tenant':'team-a'}},'status':{'allocation':{'devices':"
		    "{'results':[{'driver':'ringfence.io','pool':'n1','device':'gpu-10','consumedCapacity':{'memory':"
		    "'1Gi','compute':'10'}}]}}}},{'metadata':{'annotations':{'ringfence.io/tenant':'team'}},'status':"
		    "{'allocation':{'devices':{'results':[{'driver':'ringfence.io','pool':'n1','device':'gpu-10',"
		    "'consumedCapacity':{'memory':'1Gi'}}]}}}},{'metadata':{'name':'theirs'},'status':{'allocation':"
		    "{'devices':{'results':[{'driver':'gpu.nvidia.com','pool':'n1','device':'gpu-10'}]}}}}]");
	struct rf_json *rows = rf_view_cards(&a, slices, claims), *row = rf_json_item(rows, 0);

	assert_int_equal(rf_json_len(rows), 1);
	assert_str(rf_json_str_at(row, "card"), "gpu-10");
	assert_str(rf_json_str_at(row, "health"), "ok");
	assert_str(rf_json_str_at(row, "granted"), "2Gi");
	assert_str(rf_json_str_at(row, "tenants"), "team-a,team");
}

static void a_pod_shows_its_tenant_ask_and_card(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pods = parse(
		&a, "[{\"metadata\":{\"name\":\"p\",\"namespace\":\"a\",\"uid\":\"01234567-89ab\","
		    "\"creationTimestamp\":\"2026-11-16T04:31:55Z\"},\"spec\":{\"nodeName\":\"n1\",\"containers\":["
		    "{\"name\":\"c\",\"resources\":{\"limits\":{\"ringfence.io/gpu-memory\":\"20Gi\","
		    "\"ringfence.io/gpu-compute\":\"50\"}}}]},\"status\":{\"phase\":\"Running\"}}]");
	struct rf_json *namespaces = parse(&a, "[{\"metadata\":{\"name\":\"a\",\"labels\":{\"ringfence.io/tenant\":\"ta\"}}}]");
	struct rf_json *rows = rf_view_pods(&a, pods, namespaces, parse(&a, CLAIMS), 1794803515000 + 60000);
	struct rf_json *row = rf_json_item(rows, 0);

	assert_str(rf_json_str_at(row, "tenant"), "ta");
	assert_str(rf_json_str_at(row, "gpu"), "20Gi, 50%");
	assert_str(rf_json_str_at(row, "cards"), "gpu-0");
	assert_str(rf_json_str_at(row, "status"), "Running");
	assert_str(rf_json_str_at(row, "age"), "60s");
}

static void a_pod_that_asks_by_another_name_asks_for_cards(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pods = rf_json_make(&a, "[{'metadata':{'name':'p','namespace':'a','uid':'u'},'spec':{"
						"'containers':[{'name':'c','resources':{'limits':{'nvidia.com/gpu':"
						"'2'}}}]}}]");
	struct rf_json *rows = rf_view_pods(&a, pods, NULL, NULL, 0);

	assert_str(rf_json_str_at(rf_json_item(rows, 0), "gpu"), "2 cards");
}

/* --- the server ------------------------------------------------------------------------------- */

static struct rf_json *some_state(void *ctx, struct rf_arena *a)
{
	(void)ctx;
	return rf_json_make(a, "{'cards':[]}");
}

struct answer {
	uv_loop_t *loop;
	int status;
	struct rf_buf body;
};

static void on_done(void *ctx, const struct rf_err *err, const struct rf_http_response *response)
{
	struct answer *answer = ctx;

	if (err != NULL)
		fail_msg("%s", err->msg);
	answer->status = response->status;
	rf_buf_add(&answer->body, response->body);
	uv_stop(answer->loop);
}

static int ask(const char *method, const char *path, const char *token, struct rf_buf *ret_body)
{
	uv_loop_t loop;
	struct rf_web *web = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_web_opts opts = { .address = "127.0.0.1", .token = RF_LIT("secret"), .state = some_state };
	struct answer answer = { .loop = &loop, .body = RF_BUF_INIT };
	struct rf_http_client *client = NULL;

	uv_loop_init(&loop);
	if (rf_web_start(&loop, &opts, &web, &err) < 0)
		fail_msg("%s", err.msg);
	client = rf_http_client_new(&loop, &(struct rf_http_client_opts){ .host = RF_LIT("127.0.0.1"),
									  .port = rf_web_port(web),
									  .bearer = rf_str(token) });
	rf_http_call(client, &(struct rf_http_call_opts){ .method = rf_str(method), .target = rf_str(path),
							  .on_done = on_done, .ctx = &answer });
	uv_run(&loop, UV_RUN_DEFAULT);
	rf_http_client_free(client);
	rf_web_stop(web);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	*ret_body = answer.body;
	return answer.status;
}

static void check(const char *method, const char *path, const char *token, int status, const char *part)
{
	rf_auto(buf) body = RF_BUF_INIT;

	assert_int_equal(ask(method, path, token, &body), status);
	if (!rf_str_contains(rf_buf_str(&body), rf_str(part)))
		fail_msg("%s %s: no \"%s\" in %s", method, path, part, body.p);
}

static void the_page_is_open_and_the_data_is_not(void **state)
{
	check("GET", "/", "", 200, "<title>ringfence</title>");
	check("GET", "/app.js", "", 200, "refresh()");
	check("GET", "/state", "", 401, "access token");
	check("GET", "/state", "secre", 401, "access token");
	check("GET", "/state", "secret", 200, "{\"cards\":[]}");
}

static void nothing_can_be_changed(void **state)
{
	check("DELETE", "/state", "secret", 405, "only be looked at");
	check("GET", "/etc/passwd", "secret", 404, "nothing here");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_card_shows_what_is_granted_and_to_whom),
		cmocka_unit_test(only_our_own_and_newest_slices_are_shown),
		cmocka_unit_test(a_pod_shows_its_tenant_ask_and_card),
		cmocka_unit_test(a_pod_that_asks_by_another_name_asks_for_cards),
		cmocka_unit_test(the_page_is_open_and_the_data_is_not),
		cmocka_unit_test(nothing_can_be_changed),
	};

	return cmocka_run_group_tests_name("web", tests, NULL, NULL);
}
