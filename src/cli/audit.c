/* `ringfence audit`: what a cluster, or a set of manifests, lacks. Reads only. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "audit/audit.h"
#include "base/fs.h"
#include "cli/cli.h"
#include "codec/yaml.h"

#define EXIT_UNREACHABLE 6
#define CONFIG_MAX ((size_t)1 << 20)

static const char *context, *output, *policies, *fail_on = "high", *only_namespace;

/* --- --context ------------------------------------------------------------------------------ */

/* Files that a kubeconfig names are relative to it. */
static void make_absolute(struct rf_arena *a, struct rf_json *doc, const char *list,
			  const char *one, const char *path)
{
	static const char *const FILES[] = { "certificate-authority", "client-certificate",
					     "client-key", "tokenFile" };
	const char *slash = strrchr(path, '/');
	const struct rf_json *all = rf_json_at(doc, list);

	for (size_t i = 0; slash != NULL && i < rf_json_len(all); i++)
		for (size_t j = 0; j < RF_COUNT(FILES); j++) {
			struct rf_json *in = rf_json_at(rf_json_item(all, i), one);
			struct rf_str file = rf_json_str(rf_json_get(in, rf_str(FILES[j])));

			if (file.n > 0 && file.p[0] != '/')
				rf_json_set_str(a, in, FILES[j],
						rf_arena_printf(a, "%.*s/%.*s", (int)(slash - path),
								path, RF_STR(file)));
		}
}

/* The same file with another current context, in memory: only the loader knows how to read the rest. */
static int with_context(struct rf_arena *a, const char *path, struct rf_kubeconfig *ret,
			struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;
	rf_auto_close int fd = -1;
	char absolute[PATH_MAX];
	struct rf_json *docs = NULL;
	struct rf_str text;

	if (realpath(path, absolute) == NULL)
		return rf_fail(err, RF_NOT_FOUND, "kubeconfig %s: there is no such file", path);
	if (rf_fs_read(a, absolute, CONFIG_MAX, &text, err) < 0 ||
	    rf_yaml_parse(a, text, &docs, err) < 0)
		return rf_wrap(err, "kubeconfig %s", path);
	if (!rf_json_is(rf_json_item(docs, 0), RF_JSON_OBJECT))
		return rf_fail(err, RF_INVALID, "kubeconfig %s: the file is empty", path);
	make_absolute(a, rf_json_item(docs, 0), "clusters", "cluster", absolute);
	make_absolute(a, rf_json_item(docs, 0), "users", "user", absolute);
	rf_json_set_str(a, rf_json_item(docs, 0), "current-context", rf_str(context));
	rf_json_write(&b, rf_json_item(docs, 0));
	fd = memfd_create("kubeconfig", MFD_CLOEXEC);
	if (fd < 0 || write(fd, b.p, b.n) != (ssize_t)b.n)
		return rf_fail_errno(err, "kubeconfig %s", path);
	if (rf_kubeconfig_load(a, rf_fs_path(a, "/proc/self/fd/%d", fd), ret, err) < 0)
		return rf_wrap(err, "%s with --context %s", path, context);
	return 0;
}

static int load_config(struct rf_arena *a, struct rf_kubeconfig *ret, struct rf_err *err)
{
	const char *path = rf_cli_kubeconfig ? rf_cli_kubeconfig : getenv("KUBECONFIG");
	const char *home = getenv("HOME");

	if (context == NULL)
		return rf_cli_config(a, ret, err);
	if (path == NULL || path[0] == '\0')
		path = rf_fs_path(a, "%s/.kube/config", home ? home : "");
	return with_context(a, path, ret, err);
}

/* --- what to look at -------------------------------------------------------------------------- */

static int look_at_cluster(struct rf_arena *a, struct rf_audit *x, struct rf_str *ret_target,
			   struct rf_err *err)
{
	struct rf_kubeconfig config = { 0 };
	rf_auto_ptr(kube) k = NULL;

	if (load_config(a, &config, err) < 0 || rf_kube_new(&config, &k, err) < 0)
		return -err->code;
	*ret_target = rf_arena_printf(a, "cluster at %.*s:%u", RF_STR(config.host), config.port);
	if (rf_audit_fetch(x, k, rf_str(only_namespace), err) < 0)
		return rf_wrap(err, "cannot audit the %.*s", RF_STR(*ret_target));
	return 0;
}

/* Installed beside the program, or in the source tree that the program was built in. */
static const char *shipped_policies(struct rf_arena *a)
{
	struct rf_str self = rf_cli_self_dir(a);
	const char *places[] = { rf_fs_path(a, "%.*s/../share/ringfence/policies", RF_STR(self)),
				 rf_fs_path(a, "%.*s/../policies", RF_STR(self)) };

	for (size_t i = 0; i < RF_COUNT(places); i++)
		if (rf_fs_exists(rf_fs_path(a, "%s/recommended", places[i])))
			return places[i];
	return NULL;
}

static int take_policies(struct rf_arena *a, struct rf_audit *x, struct rf_err *err)
{
	const char *dir = policies ? policies : shipped_policies(a);

	if (dir == NULL) {
		fprintf(stderr,
			"ringfence audit: the shipped policies were not found; give --policies DIR "
			"(the checks and the cluster's own policies are made without)\n");
		return 0;
	}
	if (dir[0] == '\0')
		return 0; /* --policies "": none */
	return rf_audit_policies(x, dir, err);
}

static int look(struct rf_arena *a, struct rf_audit *x, int argc, char **argv,
		struct rf_str *ret_target, struct rf_err *err)
{
	if (argc == 0)
		return look_at_cluster(a, x, ret_target, err);
	*ret_target = argc == 1 ? rf_str(argv[0])
				: rf_arena_printf(a, "%s and %d more", argv[0], argc - 1);
	return rf_audit_read_files(x, argv, argc, err);
}

/* --- the verb ------------------------------------------------------------------------------- */

static struct rf_audit_look look_of_terminal(void)
{
	struct rf_audit_look l = { .width = 100 };
	struct winsize size = { 0 };

	if (!isatty(STDOUT_FILENO))
		return l;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		l.width = size.ws_col;
	l.colour = getenv("NO_COLOR") == NULL;
	return l;
}

static int check_options(int argc, enum rf_audit_format *ret_format,
			 enum rf_audit_severity *ret_least, struct rf_err *err)
{
	if (output != NULL && !rf_audit_format_parse(output, ret_format))
		return rf_fail(err, RF_BAD_REQUEST, "-o %s: print as table, json, sarif or html",
			       output);
	if (!rf_audit_severity_parse(rf_str(fail_on), ret_least))
		return rf_fail(err, RF_BAD_REQUEST,
			       "--fail-on %s: say low, medium, high or critical", fail_on);
	if (argc > 0 && (rf_cli_kubeconfig != NULL || context != NULL))
		return rf_fail(err, RF_BAD_REQUEST,
			       "files are judged instead of a cluster; leave out --kubeconfig and "
			       "--context");
	return 0;
}

/* 1 means findings; what could not be looked at must not read as that, nor as a wrong question. */
static int failed(struct rf_err *err)
{
	int status = rf_code_info(err->code)->exit;

	if (err->code == RF_BAD_REQUEST || (status != 1 && err->code != RF_TOO_LARGE))
		return -err->code;
	fprintf(stderr, "ringfence audit: %s\n", err->msg);
	return EXIT_UNREACHABLE;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(buf) out = RF_BUF_INIT;
	enum rf_audit_format format = RF_AUDIT_TABLE;
	enum rf_audit_severity least = RF_AUDIT_HIGH;
	struct rf_audit_look look_ = look_of_terminal();
	struct rf_audit_opts opts = { .clock = rf_clock_system(), .ns = rf_str(only_namespace) };

	if (argc > 0 && strcmp(argv[0], "--") == 0) {
		argc--;
		argv++;
	}
	if (check_options(argc, &format, &least, err) < 0)
		return -err->code;
	if (look(&a, x, argc, argv, &opts.target, err) < 0 || take_policies(&a, x, err) < 0)
		return failed(err);
	opts.now_ms = rf_wall_ms(rf_clock_system());
	rf_audit_run(x, &opts);
	rf_audit_write(x, format, &look_, &out);
	fwrite(out.p, 1, out.n, stdout);
	return rf_audit_any(x, least) ? 1 : 0;
}

static const struct rf_opt OPTS[] = {
	RF_OPT_KUBECONFIG,
	{ "context", 0, RF_OPT_STR, &context, "NAME",
	  "the kubeconfig's context (default: its current one)" },
	{ "output", 'o', RF_OPT_STR, &output, "table|json|sarif|html",
	  "how to print (default table)" },
	{ "policies", 0, RF_OPT_STR, &policies, "DIR",
	  "Gatekeeper templates, constraints and .rego to hold the objects to (default: the "
	  "shipped ones)" },
	{ "fail-on", 0, RF_OPT_STR, &fail_on, "low|medium|high|critical",
	  "exit with 1 on findings of this severity or above (default high)" },
	{ "namespace", 'n', RF_OPT_STR, &only_namespace, "NS", "judge this namespace only" },
};

const struct rf_verb RF_VERB_AUDIT = {
	.name = "audit",
	.summary = "Say what a cluster or a set of manifests lacks to share GPUs safely",
	.usage = "[--kubeconfig FILE] [--context NAME] [-o table|json|sarif|html] [--policies DIR] "
		 "[--fail-on SEVERITY] "
		 "[--namespace NS] [FILES...]",
	.details =
		"Reads everything that may be listed (GET only), of any Kubernetes or of "
		"ringfence's own API, or the\n"
		"manifests in FILES and folders instead, and holds it to checks in four layers: "
		"API and tenancy,\n"
		"scheduling and queues, node and device, observability and operations; to Pod "
		"Security; and to\n"
		"policies: the shipped ones, and the cluster's own Gatekeeper constraints.\n"
		"Each finding has a stable id, the object and field, why it matters and what to "
		"do.\n"
		"What may not be listed is a finding too (RF-OPS-90), and checks that need it are "
		"named as not made.\n"
		"Values of Secrets are dropped as they arrive. Events and metrics are not read.\n\n"
		"Exit status: 0 nothing at or above --fail-on; 1 findings; 2 the question was "
		"wrong; 3 a file is\n"
		"missing; 4 the API does not let us in; 6 the API cannot be reached or read.\n\n"
		"Examples:\n"
		"  ringfence audit\n"
		"  ringfence audit --kubeconfig prod.yaml --context prod -o html >audit.html\n"
		"  ringfence audit --fail-on medium -o sarif manifests/ >audit.sarif",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
