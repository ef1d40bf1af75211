#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "kube/kube.h"

static struct rf_arena arena;
static char folder[64];

static int setup(void **state)
{
	arena = (struct rf_arena)RF_ARENA_INIT;
	strcpy(folder, "/tmp/rf-kubeconfig-XXXXXX");
	return mkdtemp(folder) == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	static const char *const FILES[] = { "config", "ca.pem", "token" };

	for (size_t i = 0; i < RF_COUNT(FILES); i++)
		unlink(rf_arena_printf(&arena, "%s/%s", folder, FILES[i]).p);
	rmdir(folder);
	rf_arena_done(&arena);
	return 0;
}

static const char *put(const char *name, const char *text)
{
	const char *path = rf_arena_printf(&arena, "%s/%s", folder, name).p;
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
	return path;
}

static const char *config(const char *cluster, const char *user)
{
	return put(
		"config",
		rf_arena_printf(&arena,
				"apiVersion: v1\nkind: Config\ncurrent-context: c\n"
				"contexts:\n- name: other\n  context: {cluster: x, user: y}\n"
				"- name: c\n  context: {cluster: k, user: u, namespace: team-a}\n"
				"clusters:\n- name: k\n  cluster: {%s}\n"
				"users:\n- name: u\n  user: {%s}\n",
				cluster, user)
			.p);
}

static void loads(const char *path, struct rf_kubeconfig *c)
{
	struct rf_err err = RF_ERR_INIT;

	if (rf_kubeconfig_load(&arena, path, c, &err) < 0)
		fail_msg("%s", err.msg);
}

static void refuses(const char *path, int code, const char *says)
{
	struct rf_kubeconfig c = { 0 };
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_kubeconfig_load(&arena, path, &c, &err), -code);
	if (strstr(err.msg, says) == NULL || strstr(err.msg, path) == NULL)
		fail_msg("got \"%s\", want \"%s\" and the file's name", err.msg, says);
}

#define CA "certificate-authority-data: Y2E="

static void inline_data_is_decoded(void **state)
{
	struct rf_kubeconfig c = { 0 };

	loads(config("server: 'https://10.0.0.1:6443/', " CA,
		     "client-certificate-data: Y2VydA==, client-key-data: a2V5"),
	      &c);
	assert_true(rf_str_is(c.host, "10.0.0.1"));
	assert_int_equal(c.port, 6443);
	assert_true(rf_str_is(c.ca_pem, "ca"));
	assert_true(rf_str_is(c.cert_pem, "cert"));
	assert_true(rf_str_is(c.key_pem, "key"));
	assert_int_equal(c.token.n, 0);
	assert_true(rf_str_is(c.ns, "team-a"));
}

static void files_are_found_beside_the_kubeconfig(void **state)
{
	struct rf_kubeconfig c = { 0 };

	put("ca.pem", "the ca");
	put("token", "secret\n");
	loads(config("server: 'https://k.example', certificate-authority: ca.pem",
		     "tokenFile: token"),
	      &c);
	assert_int_equal(c.port, 443);
	assert_true(rf_str_is(c.ca_pem, "the ca"));
	assert_true(rf_str_is(c.token, "secret"));
	assert_true(rf_str_ends(c.token_file, RF_LIT("/token")));
}

static void json_and_ipv6_are_read_too(void **state)
{
	struct rf_kubeconfig c = { 0 };

	loads(put("config",
		  "{\"current-context\":\"c\",\"contexts\":[{\"name\":\"c\",\"context\":"
		  "{\"cluster\":\"k\",\"user\":\"u\"}}],\"clusters\":[{\"name\":\"k\",\"cluster\":"
		  "{\"server\":\"https://[fd00::1]:8443\",\"certificate-authority-data\":"
		  "\"Y2E=\"}}],\"users\":[{\"name\":\"u\",\"user\":{\"token\":\"t\"}}]}"),
	      &c);
	assert_true(rf_str_is(c.host, "fd00::1"));
	assert_int_equal(c.port, 8443);
	assert_true(rf_str_is(c.token, "t"));
	assert_true(rf_str_is(c.ns, "default"));
}

static void flow_style_is_not_taken_for_broken_json(void **state)
{
	struct rf_kubeconfig c = { 0 };

	loads(put("config", "{current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], # ours\n"
			    " clusters: [{name: k, cluster: {server: 'https://10.0.0.2:6443', " CA "}}],\n"
			    " users: [{name: u, user: {token: t}}],}\n"),
	      &c);
	assert_true(rf_str_is(c.host, "10.0.0.2"));
	assert_true(rf_str_is(c.token, "t"));
	refuses(put("config", "{\"current-context\": \"c\""), RF_BAD_REQUEST, "YAML, line ");
	refuses(put("config", "{\"current-context\": \"c\", \"current-context\": \"d\"}"), RF_BAD_REQUEST, "appears twice");
}

static void what_is_written_reads_back_the_same(void **state)
{
	struct rf_kubeconfig c = { .host = RF_LIT("::1"),
				   .port = 7443,
				   .ca_pem = RF_LIT("ca\n"),
				   .cert_pem = RF_LIT("cert"),
				   .key_pem = RF_LIT("key"),
				   .token = RF_LIT("tok"),
				   .ns = RF_LIT("team-b") };
	struct rf_kubeconfig back = { 0 };

	loads(put("config", rf_kubeconfig_text(&arena, &c, RF_LIT("alice")).p), &back);
	assert_true(rf_str_eq(back.host, c.host));
	assert_int_equal(back.port, c.port);
	assert_true(rf_str_eq(back.ca_pem, c.ca_pem));
	assert_true(rf_str_eq(back.cert_pem, c.cert_pem));
	assert_true(rf_str_eq(back.key_pem, c.key_pem));
	assert_true(rf_str_eq(back.token, c.token));
	assert_true(rf_str_eq(back.ns, c.ns));
}

static void errors_name_the_file_and_what_is_wrong(void **state)
{
	refuses("/nonexistent/config", RF_NOT_FOUND, "no such file");
	refuses(put("config", "a: ["), RF_BAD_REQUEST, "kubeconfig");
	refuses(put("config", ""), RF_INVALID, "empty");
	refuses(put("config", "kind: Config\n"), RF_INVALID, "no current-context");
	refuses(put("config", "current-context: x\n"), RF_INVALID, "not there: x");
	refuses(config("server: 'k:6443'", ""), RF_INVALID, "https://host:port");
	refuses(config("server: 'https://k/path/to', " CA, ""), RF_INVALID, "a path");
	refuses(config("server: 'https://k:0', " CA, ""), RF_INVALID, "port");
	refuses(config("server: 'https://u@k:1', " CA, ""), RF_INVALID, "https://host:port");
	refuses(config("server: 'https://k:1', certificate-authority-data: '?'", ""),
		RF_BAD_REQUEST, "certificate-authority-data");
	refuses(config("server: 'https://k:1', certificate-authority: nowhere.pem", ""),
		RF_NOT_FOUND, "nowhere.pem");
	refuses(config("server: 'https://k:1', " CA, "client-key-data: a2V5"), RF_INVALID,
		"go together");
}

static void what_would_weaken_tls_or_is_not_known_is_refused(void **state)
{
	refuses(config("server: 'https://k:1'", ""), RF_INVALID, "certificate-authority");
	refuses(config("server: 'http://k.example:80'", "token: t"), RF_INVALID, "loopback");
	refuses(config("server: 'https://k:1', insecure-skip-tls-verify: true", ""), RF_INVALID,
		"insecure-skip-tls-verify");
	refuses(config("server: 'https://k:1', " CA, "exec: {command: x}"), RF_INVALID, "exec");
	refuses(config("server: 'https://k:1', " CA, "username: u, password: p"), RF_INVALID,
		"username");
}

static void without_a_path_the_environment_decides(void **state)
{
	struct rf_kubeconfig c = { 0 };
	struct rf_err err = RF_ERR_INIT;

	setenv("KUBECONFIG", config("server: 'http://127.0.0.1:8080'", "token: t"), 1);
	loads(NULL, &c);
	assert_int_equal(c.port, 8080);
	setenv("KUBECONFIG", "/a:/b", 1);
	assert_int_equal(rf_kubeconfig_load(&arena, NULL, &c, &err), -RF_INVALID);
	unsetenv("KUBECONFIG");
	setenv("HOME", folder, 1);
	assert_int_equal(rf_kubeconfig_load(&arena, NULL, &c, &err), -RF_NOT_FOUND);
	assert_non_null(strstr(err.msg, "/.kube/config"));
}

static void outside_a_pod_the_cluster_is_not_found(void **state)
{
	struct rf_kubeconfig c = { 0 };
	struct rf_err err = RF_ERR_INIT;

	unsetenv("KUBERNETES_SERVICE_HOST");
	assert_int_equal(rf_kubeconfig_in_cluster(&arena, &c, &err), -RF_NOT_FOUND);
	assert_non_null(strstr(err.msg, "KUBERNETES_SERVICE_HOST"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(inline_data_is_decoded),
		TEST(files_are_found_beside_the_kubeconfig),
		TEST(json_and_ipv6_are_read_too),
		TEST(flow_style_is_not_taken_for_broken_json),
		TEST(what_is_written_reads_back_the_same),
		TEST(errors_name_the_file_and_what_is_wrong),
		TEST(what_would_weaken_tls_or_is_not_known_is_refused),
		TEST(without_a_path_the_environment_decides),
		TEST(outside_a_pod_the_cluster_is_not_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
