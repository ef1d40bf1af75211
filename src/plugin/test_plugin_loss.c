/* What the agent beside a kubelet promises when things go wrong: it dies, its files or the API server are
 * gone, strangers knock, and it runs for long. */
#include "plugin/test_stage.h"

/* --- the agent dies --------------------------------------------------------------------------- */

/* Whoever could see a card has a claim that is written down and held. */
static void assert_cards_are_covered(const struct rf_json *pod)
{
	if (count_in("cdi") == 0)
		return;
	assert_true(is_held(pod));
	assert_true(rf_fs_exists(
		rf_fs_path(&t.arena, "%s/claims/%s/record.json", t.data, uid_of(claim_of(pod)))));
}

static void arm(int fatal)
{
	struct rf_str text = rf_arena_printf(&t.arena, "%d", fatal);

	assert_int_equal(rf_fs_write(at("fatal-step"), text, 0600, false, NULL), 0);
}

/* True if the armed step was never reached. */
static bool disarm(void)
{
	return unlink(at("fatal-step")) == 0;
}

/* As the kubelet does: once more, as often as it takes. Only a dead agent is an excuse. */
#define REPEAT(pod, call)                                                                          \
	do {                                                                                       \
		struct rf_err err_ = RF_ERR_INIT;                                                  \
		int rc_;                                                                           \
		while ((rc_ = (call(&err_))) < 0) {                                                \
			if (rc_ != -RF_UNAVAILABLE)                                                \
				fail_msg("%s", err_.msg);                                          \
			WAIT_FOR(agent_died());                                                    \
			assert_cards_are_covered(pod);                                             \
			start_agent("tick");                                                       \
			wait_for_agent();                                                          \
		}                                                                                  \
	} while (0)

static char crash_cdi[128];
static struct kubelet_claim crash_claim;

static int do_allocate(struct rf_err *err)
{
	return kubelet_allocate(t.k, GPU, "slot-0", crash_cdi, err);
}

static int do_start(struct rf_err *err)
{
	return kubelet_prestart(t.k, GPU, "slot-0", err);
}

static int do_prepare(struct rf_err *err)
{
	rf_auto(buf) devices = RF_BUF_INIT;

	return kubelet_prepare(t.k, crash_claim, &devices, err);
}

static int do_unprepare(struct rf_err *err)
{
	return kubelet_unprepare(t.k, crash_claim, err);
}

/* Whoever answers refuses. */
static int do_unprepare_too_early(struct rf_err *err)
{
	int rc = kubelet_unprepare(t.k, crash_claim, err);

	assert_true(rc < 0);
	return strstr(err->msg, "still run") != NULL ? 0 : rc;
}

static void see_to_agent(const struct rf_json *pod)
{
	if (!agent_died())
		return;
	assert_cards_are_covered(pod);
	start_agent("tick");
	wait_for_agent();
}

/* One life of a pod with an agent that dies at the given step of it; false: there are fewer. */
static bool live_by_slots(int fatal)
{
	struct rf_json *pod = place("crash", &WHOLE("gpu-1"), 1);
	bool survived;

	kubelet_assign(t.k, "crash", "c", GPU, "slot-0");
	arm(fatal);
	REPEAT(pod, do_allocate);
	REPEAT(pod, do_start);
	assert_true(has_card(crash_cdi, 1) && !has_card(crash_cdi, 0));
	assert_true(is_held(pod));
	assert_true(fence_answers(pod));
	kubelet_unassign(t.k, "crash");
	forget_pod(pod);
	WAIT_FOR((see_to_agent(pod), claim_of(pod) == NULL && nothing_is_held()));
	survived = disarm();
	see_to_agent(pod);
	return !survived;
}

static bool live_by_dra(int fatal)
{
	struct rf_json *pod = place("crash", &SHARE("gpu-1", "1Gi"), 1);
	int process = new_process(uid_of(pod));
	bool survived;

	crash_claim = as_claim(pod);
	arm(fatal);
	REPEAT(pod, do_prepare);
	assert_true(is_held(pod));
	assert_true(fence_answers(pod));
	REPEAT(pod, do_unprepare_too_early);
	end_process(process);
	REPEAT(pod, do_unprepare);
	WAIT_FOR((see_to_agent(pod), !is_held(pod) && nothing_is_held()));
	survived = disarm();
	see_to_agent(pod);
	end_pod(pod);
	return !survived;
}

static void an_agent_may_die_at_any_step_of_a_container_with_slots(void **state RF_UNUSED)
{
	int steps = 1;

	while (live_by_slots(steps))
		steps++;
	assert_true(steps > 20); /* there was something to die at */
}

static void an_agent_may_die_at_any_step_of_a_prepared_claim(void **state RF_UNUSED)
{
	int steps = 1;

	while (live_by_dra(steps))
		steps++;
	assert_true(steps > 20);
}

/* --- what cannot be read ---------------------------------------------------------------------- */

static void spoil(const char *path, const char *text)
{
	assert_int_equal(rf_fs_write(path, rf_str(text), 0600, false, NULL), 0);
}

static const char *record_of(const struct rf_json *pod)
{
	return rf_fs_path(&t.arena, "%s/claims/%s/record.json", t.data, uid_of(claim_of(pod)));
}

/* The claim is in the API: it is held again, and let go like any other. */
static void a_record_that_cannot_be_read_is_made_anew(void **state RF_UNUSED)
{
	static const char *const texts[] = { "", "{", "[]", "{\"uid\":\"x\"}", "null" };
	struct rf_json *pod = place("spoilt", &SHARE("gpu-0", "1Gi"), 1), *whole;
	int process = new_process(uid_of(pod));

	prepare(pod);
	for (size_t i = 0; i < RF_COUNT(texts); i++) {
		kill_agent();
		spoil(record_of(pod), texts[i]);
		start_agent("tick");
		wait_for_agent();
		WAIT_FOR(fence_answers(pod));
		refuses_to_unprepare(pod, "still run");
	}
	/* So it is for the others. */
	whole = place("other", &DRA_WHOLE("gpu-1"), 1);
	prepare(whole);
	unprepare(whole);
	end_pod(whole);
	end_process(process);
	unprepare(pod);
	end_pod(pod);
	assert_true(nothing_is_held());
}

/* Until the API server has said what it was, it is not over. */
static void a_claim_without_a_record_is_not_unprepared_blindly(void **state RF_UNUSED)
{
	struct rf_json *pod = place("blind", &SHARE("gpu-0", "1Gi"), 1), *claim = claim_of(pod);
	struct kubelet_claim c = as_claim(pod);
	struct rf_err err = RF_ERR_INIT;

	prepare(pod);
	kill_agent();
	spoil(record_of(pod), "nonsense");
	kill(t.w.server, SIGSTOP);
	start_agent("tick");
	int64_t until = now_ms() + PATIENCE_MS;
	while (!is_known() && now_ms() < until)
		kubelet_turn(t.k);
	bool refused_it = kubelet_unprepare(t.k, c, &err) < 0;
	bool stays = rf_fs_exists(rf_fs_path(&t.arena, "%s/claims/%s", t.data, uid_of(claim)));
	kill(t.w.server, SIGCONT);
	assert_true(refused_it && stays);
	assert_true(is_held(pod));
	WAIT_FOR(kubelet_unprepare(t.k, c, &err) == 0);
	assert_false(is_held(pod));
	end_pod(pod);
	assert_true(nothing_is_held());
}

static void folders_of_claims_that_are_no_more_are_removed(void **state RF_UNUSED)
{
	struct rf_json *pod = place("lost", &SHARE("gpu-0", "1Gi"), 1);
	const char *dir =
		rf_fs_path(&t.arena, "%s/claims/00000000-1111-4222-8333-444444444444", t.data);

	prepare(pod);
	kill_agent();
	spoil(record_of(pod), "nonsense");
	forget_pod(pod);
	set_finalizers(pod, "null");
	assert_null(claim_of(pod));
	assert_int_equal(rf_fs_mkdirs(rf_fs_path(&t.arena, "%s/c/run", dir), 0700, NULL), 0);
	spoil(at("cdi/ringfence.io-slot-00000000.json"), "{}");
	spoil(at("cdi/somebody-elses.json"), "{}");
	spoil(at("data/claims/stray"), "x");
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(count_in("data/claims") == 1);
	assert_int_equal(count_in("cdi"), 1);
	assert_int_equal(unlink(at("cdi/somebody-elses.json")), 0);
	assert_int_equal(unlink(at("data/claims/stray")), 0);
}

/* The data folder was lost, and with it every record. */
static void claims_that_nobody_remembers_are_held_again(void **state RF_UNUSED)
{
	struct rf_json *lives = place("lives", &SHARE("gpu-0", "1Gi"), 1);
	struct rf_json *ended = place("ended", &DRA_WHOLE("gpu-1"), 1);
	int process = new_process(uid_of(lives));

	prepare(lives);
	prepare(ended);
	kill_agent();
	assert_int_equal(system(rf_fs_path(&t.arena,
					   "umount %s/claims/*/.volumes/.ledger-c && "
					   "rm -r %s/claims %s/slots.json",
					   t.data, t.data, t.data)),
			 0);
	forget_pod(ended);
	assert_true(rf_kube_deleting(claim_of(ended)));
	start_agent("tick");
	wait_for_agent();
	WAIT_FOR(claim_of(ended) == NULL);
	refuses_to_unprepare(lives, "still run");
	assert_true(is_held(lives));
	end_process(process);
	unprepare(lives);
	end_pod(lives);
	assert_true(nothing_is_held());
}

static void promises_that_cannot_be_read_are_not_kept(void **state RF_UNUSED)
{
	static const char *const texts[] = { "{", "[{}]",
					     "[{\"resource\":\"" GPU
					     "\",\"slots\":[\"slot-0\"],\"cdi\":\"../../x\"}]" };
	struct rf_json *pod = place("slots", &WHOLE("gpu-0"), 1);
	char cdi[128];

	for (size_t i = 0; i < RF_COUNT(texts); i++) {
		promise("slots", "c", "slot-0", cdi);
		start_container("slot-0");
		kill_agent();
		spoil(at("data/slots.json"), texts[i]);
		start_agent("tick");
		wait_for_agent();
		refuses_to_start("slot-0", "were not allocated by this agent; delete the pod");
		assert_int_equal(count_in("cdi"), 0);
		assert_true(is_held(pod));
		kubelet_unassign(t.k, "slots");
	}
	end_pod(pod);
	assert_true(nothing_is_held());
}

/* --- an API server that does not answer ------------------------------------------------------- */

/* Everybody else is answered meanwhile, and what is settled needs no API server. */
static void a_silent_api_server_does_not_hold_up_the_rest(void **state RF_UNUSED)
{
	struct rf_json *pod = place("calm", &WHOLE("gpu-0"), 1), *claim = claim_of(pod);
	struct rf_json *share = place("waits", &SHARE("gpu-1", "1Gi"), 1);
	struct kubelet_claim c = as_claim(share);
	rf_auto(buf) devices = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_fence_limits limits;
	char cdi[128];

	promise("calm", "c", "slot-0", cdi);
	start_container("slot-0");
	kill(t.w.server, SIGSTOP);
	assert_true(kubelet_prepare(t.k, c, &devices, &err) < 0); /* waits in vain */
	assert_true(kubelet_prepare(t.k, c, &devices, &err) < 0);
	bool at_once = strstr(err.msg, "did not answer a moment ago") != NULL;
	bool known = driver_is_known(), started = kubelet_prestart(t.k, GPU, "slot-0", &err) == 0;
	bool fenced = ask_fence(claim, "c", &limits);
	kill(t.w.server, SIGCONT);
	assert_true(at_once && known && started && fenced);
	WAIT_FOR(kubelet_prepare(t.k, c, &devices, &err) == 0);
	unprepare(share);
	end_pod(pod);
	end_pod(share);
}

/* --- metrics ---------------------------------------------------------------------------------- */

static uint16_t agent_port(void)
{
	struct rf_str log = read_all(at("agent.log"));
	const char *text = rf_arena_cstr(&t.arena, log), *last = NULL;

	for (const char *p = text; (p = strstr(p, ", port ")) != NULL; p++)
		last = p;
	return last != NULL ? (uint16_t)atoi(last + 7) : 0;
}

static int connect_port(uint16_t port)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_port = htons(port),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* Like curl -k: the certificate is signed by nobody. Sends what is asked and reads to the end. */
static void exchange(struct rf_str ask, struct rf_buf *ret)
{
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(ctx);
	rf_auto_close int fd = connect_port(agent_port());
	char bytes[4096];
	int n;

	SSL_set_fd(ssl, fd);
	assert_int_equal(SSL_connect(ssl), 1);
	assert_int_equal(SSL_write(ssl, ask.p, (int)ask.n), (int)ask.n);
	rf_buf_clear(ret);
	while ((n = SSL_read(ssl, bytes, sizeof(bytes))) > 0)
		rf_buf_add(ret, rf_str_n(bytes, (size_t)n));
	SSL_free(ssl);
	SSL_CTX_free(ctx);
}

static void put_request(struct rf_buf *ask, const char *path, const char *token, bool last)
{
	rf_buf_printf(ask, "GET %s HTTP/1.1\r\nHost: node-1\r\n", path);
	if (token != NULL)
		rf_buf_printf(ask, "Authorization: Bearer %s\r\n", token);
	rf_buf_puts(ask, last ? "Connection: close\r\n\r\n" : "\r\n");
}

/* The status; *ret is the whole answer. */
static int scrape(const char *path, const char *token, struct rf_buf *ret)
{
	rf_auto(buf) ask = RF_BUF_INIT;

	put_request(&ask, path, token, true);
	exchange(rf_buf_str(&ask), ret);
	return ret->n > 12 ? atoi(ret->p + 9) : 0;
}

static size_t occurrences(const char *text, const char *part)
{
	size_t n = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		n++;
	}
	return n;
}

/* So many guesses at once that they take no second. */
static void guess_tokens(void)
{
	rf_auto(buf) asks = RF_BUF_INIT;
	rf_auto(buf) answers = RF_BUF_INIT;
	char token[32];

	for (int i = 0; i < 64; i++) {
		snprintf(token, sizeof(token), "guess-%d", i);
		put_request(&asks, "/metrics", token, i == 63);
	}
	exchange(rf_buf_str(&asks), &answers);
	size_t refused_them = occurrences(answers.p, "HTTP/1.1 401"),
	       put_off = occurrences(answers.p, "HTTP/1.1 429");
	assert_int_equal(refused_them + put_off, 64);
	assert_true(put_off > 0);
}

static const char *token_of(const char *account)
{
	struct rf_json *o = NULL;

	create_at(&RF_SERVICEACCOUNTS, "team-a", "", NULL,
		  rf_json_make(&t.arena, "{'metadata':{'name':%s}}", account), NULL);
	create_at(&RF_SERVICEACCOUNTS, "team-a", account, "token",
		  rf_json_make(&t.arena, "{'spec':{}}"), &o);
	return rf_arena_cstr(&t.arena, rf_json_str_at(o, "status", "token"));
}

static void let_read(const char *account)
{
	create_at(&RF_CLUSTERROLES, "", "", NULL,
		  rf_json_make(&t.arena,
			       "{'metadata':{'name':'metrics'},'rules':[{'nonResourceURLs':"
			       "['/metrics'],'verbs':['get']}]}"),
		  NULL);
	create_at(&RF_CLUSTERROLEBINDINGS, "", "", NULL,
		  rf_json_make(&t.arena,
			       "{'metadata':{'name':'metrics'},'roleRef':{'apiGroup':"
			       "'rbac.authorization.k8s.io','kind':'ClusterRole','name':'metrics'},"
			       "'subjects':[{'kind':'ServiceAccount','name':%s,'namespace':"
			       "'team-a'}]}",
			       account),
		  NULL);
}

static void metrics_are_for_those_whom_kubernetes_lets_read_them(void **state RF_UNUSED)
{
	struct rf_json *pod = place("seen", &SHARE("gpu-1", "2Gi"), 1);
	const char *good = token_of("reader"), *other = token_of("other");
	rf_auto(buf) answer = RF_BUF_INIT;

	prepare(pod);
	let_read("reader");
	WAIT_FOR(agent_port() != 0);
	assert_int_equal(scrape("/healthz", NULL, &answer), 200);
	assert_int_equal(scrape("/nothing", NULL, &answer), 404);
	assert_int_equal(scrape("/metrics", NULL, &answer), 401);
	assert_non_null(strstr(answer.p, "WWW-Authenticate: Bearer"));
	assert_int_equal(scrape("/metrics", "nonsense", &answer), 401);
	assert_int_equal(scrape("/metrics", other, &answer), 403);
	assert_int_equal(scrape("/metrics", good, &answer), 200);
	assert_non_null(strstr(answer.p, "ringfence_node_claims{node=\"node-1\"} 1\n"));
	assert_non_null(strstr(answer.p, "pod=\"seen\""));
	assert_non_null(strstr(answer.p, "2147483648"));
	assert_non_null(strstr(answer.p, "# TYPE ringfence_container_gpu_seconds_total counter\n"));
	assert_non_null(strstr(answer.p, "# TYPE ringfence_container_gpu_held_seconds_total counter\n"));
	/* Strangers who try and try are not asked about, and keep nobody out. */
	guess_tokens();
	assert_int_equal(scrape("/metrics", good, &answer), 200);
	unprepare(pod);
	end_pod(pod);
}

/* --- the long run ----------------------------------------------------------------------------- */

static int64_t resident_kib(void)
{
	const char *path = rf_fs_path(&t.arena, "/proc/%d/status", (int)t.agent);
	const char *line = strstr(rf_arena_cstr(&t.arena, read_all(path)), "VmRSS:");

	return line != NULL ? atoll(line + 6) : 0;
}

static size_t open_files(void)
{
	struct rf_str *names;
	size_t n = 0;

	assert_int_equal(rf_fs_list(&t.arena, rf_fs_path(&t.arena, "/proc/%d/fd", (int)t.agent),
				    &names, &n, NULL),
			 0);
	return n;
}

static void rounds(struct kubelet_claim c, int n)
{
	for (int i = 0; i < n; i++) {
		rf_auto(buf) devices = RF_BUF_INIT;
		struct rf_err err = RF_ERR_INIT;

		assert_ok(kubelet_prepare(t.k, c, &devices, &err), err);
		assert_ok(kubelet_unprepare(t.k, c, &err), err);
	}
}

/* RF_TEST_ROUNDS asks for more of them than a test needs. */
static void preparing_over_and_over_leaves_nothing_behind(void **state RF_UNUSED)
{
	const char *asked = getenv("RF_TEST_ROUNDS");
	int n = asked != NULL ? atoi(asked) : 200;
	struct rf_json *pod = place("round", &SHARE("gpu-0", "1Gi"), 1);
	struct kubelet_claim c = as_claim(pod);

	rounds(c, n / 2);
	int64_t before = resident_kib();
	size_t files = open_files();
	rounds(c, n);
	int64_t grown = resident_kib() - before;
	printf("# %d rounds: %lld KiB more\n", n, (long long)grown);
	assert_true(open_files() <= files + 2); /* a connection comes and goes */
#ifndef __SANITIZE_ADDRESS__
	assert_true(grown < 512);
#endif
	assert_true(nothing_is_held());
	end_pod(pod);
}

/* With a container's start under way, and claims held. */
static void an_agent_that_is_told_to_ends_in_order(void **state RF_UNUSED)
{
	struct rf_json *pod = place("stays", &WHOLE("gpu-0"), 1);
	char cdi[128];

	promise("stays", "c", "slot-0", cdi);
	start_container("slot-0");
	restart_agent();
	kubelet_deaf(t.k, true);
	kubelet_begin_prestart(t.k, GPU, "slot-0");
	for (int i = 0; i < 20; i++)
		kubelet_turn(t.k);
	stop_agent();
	kubelet_deaf(t.k, false);
	assert_true(is_held(pod));
	assert_int_equal(count_in("data/claims"), 1);
	start_agent("tick");
	wait_for_agent();
	assert_true(fence_answers(pod));
	end_pod(pod);
	assert_true(nothing_is_held());
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(an_agent_may_die_at_any_step_of_a_container_with_slots),
		TEST(an_agent_may_die_at_any_step_of_a_prepared_claim),
		TEST(a_record_that_cannot_be_read_is_made_anew),
		TEST(a_claim_without_a_record_is_not_unprepared_blindly),
		TEST(folders_of_claims_that_are_no_more_are_removed),
		TEST(claims_that_nobody_remembers_are_held_again),
		TEST(promises_that_cannot_be_read_are_not_kept),
		TEST(a_silent_api_server_does_not_hold_up_the_rest),
		TEST(metrics_are_for_those_whom_kubernetes_lets_read_them),
		TEST(preparing_over_and_over_leaves_nothing_behind),
		TEST(an_agent_that_is_told_to_ends_in_order),
	};

	return perform(argc, argv, "plugin loss", tests, RF_COUNT(tests));
}
