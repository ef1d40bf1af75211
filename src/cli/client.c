#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "cli/explain.h"

const char *rf_cli_kubeconfig;
const char *rf_cli_output;

struct rf_str rf_cli_default_data(struct rf_arena *a)
{
	const char *home = getenv("HOME");

	if (geteuid() == 0 || home == NULL)
		return RF_LIT("/var/lib/ringfence");
	return rf_arena_printf(a, "%s/.local/share/ringfence", home);
}

struct rf_str rf_cli_self_exe(struct rf_arena *a)
{
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

	rf_assert(n > 0 && n < (ssize_t)sizeof(path));
	return rf_arena_str(a, rf_str_n(path, (size_t)n));
}

struct rf_str rf_cli_self_dir(struct rf_arena *a)
{
	struct rf_str exe = rf_cli_self_exe(a);

	while (exe.n > 1 && exe.p[exe.n - 1] != '/')
		exe.n--;
	return rf_arena_str(a, rf_str_n(exe.p, exe.n - 1));
}

struct rf_str rf_cli_sim_lib_dir(struct rf_arena *a)
{
	struct rf_str dir = rf_cli_self_dir(a);
	struct rf_str places[] = { rf_arena_printf(a, "%.*s/sim", RF_STR(dir)),
				   rf_arena_printf(a, "%.*s/../lib/ringfence/sim", RF_STR(dir)) };

	for (size_t i = 0; i < RF_COUNT(places); i++)
		if (access(rf_arena_printf(a, "%.*s/libcuda.so.1", RF_STR(places[i])).p, R_OK) == 0)
			return places[i];
	return RF_STR_EMPTY;
}

int rf_cli_address(const char *text, char ret_host[64], uint16_t *ret_port, struct rf_err *err)
{
	const char *colon = strrchr(text, ':');
	int64_t port = -1;

	if (colon == NULL || (size_t)(colon - text) >= 64 || colon == text ||
	    rf_str_int(rf_str(colon + 1), &port, NULL) < 0 || port < 0 || port > 65535)
		return rf_fail(err, RF_BAD_REQUEST,
			       "\"%s\" is not an address; write it like 127.0.0.1:7443 (port 0 picks a free one)",
			       text);
	memcpy(ret_host, text, (size_t)(colon - text));
	ret_host[colon - text] = '\0';
	*ret_port = (uint16_t)port;
	return 0;
}

void rf_cli_die_with_parent(void)
{
	pid_t parent = getppid();

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent) /* it died before the kernel knew to tell us */
		raise(SIGTERM);
}

int rf_cli_config(struct rf_arena *a, struct rf_kubeconfig *ret, struct rf_err *err)
{
	const char *path = rf_cli_kubeconfig;
	struct rf_str local = rf_arena_printf(a, "%.*s/kubeconfig/admin", RF_STR(rf_cli_default_data(a)));

	if (path == NULL && getenv("KUBECONFIG") == NULL && access(local.p, R_OK) == 0)
		path = local.p;
	if (rf_kubeconfig_load(a, path, ret, err) == 0)
		return 0;
	return rf_wrap(err, "no API to talk to (is \"ringfence up\" running? give --kubeconfig FILE)");
}

int rf_cli_connect(struct rf_arena *a, struct rf_kube **ret, struct rf_err *err)
{
	struct rf_kubeconfig config = { 0 };

	if (rf_cli_config(a, &config, err) < 0)
		return -err->code;
	return rf_kube_new(&config, ret, err);
}

int rf_cli_list(struct rf_kube *k, struct rf_arena *a, const struct rf_kube_res *res, struct rf_str ns,
		struct rf_json **ret_items, struct rf_err *err)
{
	struct rf_json *list = NULL;

	if (rf_kube_get(k, a, rf_kube_path(a, res, ns, RF_STR_EMPTY, NULL), &list, err) < 0)
		return rf_wrap(err, "list %s", res->plural);
	*ret_items = rf_json_at(list, "items");
	if (!rf_json_is(*ret_items, RF_JSON_ARRAY))
		*ret_items = rf_json_array(a);
	return 0;
}

static struct rf_str cell(struct rf_arena *a, const struct rf_json *row, const char *key)
{
	const struct rf_json *v = rf_json_get(row, rf_str(key));

	if (v == NULL || v->type == RF_JSON_NULL || (v->type == RF_JSON_STRING && v->text.n == 0))
		return RF_LIT("-");
	return v->type == RF_JSON_STRING ? rf_explain_plain(a, v->text) : rf_json_text_of(a, v);
}

static void print_table(const struct rf_json *rows, const struct rf_column *columns, size_t n)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	size_t *width = rf_arena_array(&a, size_t, n);

	for (size_t c = 0; c < n; c++) {
		width[c] = strlen(columns[c].header);
		for (size_t r = 0; r < rf_json_len(rows); r++)
			width[c] = RF_MAX(width[c], cell(&a, rf_json_item(rows, r), columns[c].key).n);
	}
	for (size_t c = 0; c < n; c++)
		printf("%-*s%s", c + 1 < n ? (int)width[c] + 3 : 0, columns[c].header, c + 1 < n ? "" : "\n");
	for (size_t r = 0; r < rf_json_len(rows); r++)
		for (size_t c = 0; c < n; c++) {
			struct rf_str text = cell(&a, rf_json_item(rows, r), columns[c].key);

			printf("%.*s%*s", RF_STR(text), c + 1 < n ? (int)(width[c] + 3 - text.n) : 0, "");
			if (c + 1 == n)
				putchar('\n');
		}
}

int rf_cli_print(const struct rf_json *rows, const struct rf_column *columns, size_t n, struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (rf_cli_output == NULL || strcmp(rf_cli_output, "table") == 0) {
		print_table(rows, columns, n);
		return 0;
	}
	if (strcmp(rf_cli_output, "json") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "-o %s: print as json or table", rf_cli_output);
	rf_json_write_pretty(&b, rows);
	printf("%s\n", b.p);
	return 0;
}
