/* The verbs that are one process of the platform each. "ringfence up" starts them; on Kubernetes
 * control and node run by themselves. */
#include "cli/cli.h"

#include "apiserver/apiserver.h"
#include "base/fs.h"
#include "control/control.h"
#include "node/node.h"
#include "plugin/plugin.h"
#include "tenant/foreign.h"
#include "tenant/tenant.h"

static const char *o_data, *o_listen, *o_kubeconfig, *o_name, *o_sim, *o_driver, *o_images, *o_pki;
static const char *o_resources, *o_scheduler, *o_webhook, *o_service, *o_kubelet, *o_cdi, *o_simulate,
	*o_driver_host, *o_mps, *o_failure, *o_exempt, *o_event_log;
static bool o_supervised, o_verbose;

#define OPT_SUPERVISED                                                                             \
	{ "supervised", 0, RF_OPT_FLAG, &o_supervised, NULL, "end when the parent process ends" }
#define OPT_RESOURCES                                                                              \
	{ "resources", 0, RF_OPT_STR, &o_resources, "LIST",                                        \
	  "other names for whole cards, comma-separated (default nvidia.com/gpu)" }
#define OPT_VERBOSE { "verbose", 'v', RF_OPT_FLAG, &o_verbose, NULL, "log more" }

const char *rf_cli_foreign_list, *rf_cli_foreign_card;

int rf_cli_foreign(struct rf_err *err)
{
	struct rf_foreign f = { 0 };

	if (rf_cli_foreign_card != NULL && rf_cli_foreign_list == NULL)
		return rf_fail(err, RF_BAD_REQUEST, "--foreign-card is for --foreign, which is not given");
	if (rf_foreign_parse(rf_str(rf_cli_foreign_list), rf_str(rf_cli_foreign_card), &f, err) < 0)
		return rf_wrap(err, "--foreign");
	rf_foreign_set(&f);
	return 0;
}

static int prepare(const struct rf_verb *verb, int argc, char **argv, struct rf_err *err)
{
	if (rf_cli_no_more(verb, argc, argv, err) < 0)
		return -err->code;
	if (o_supervised)
		rf_cli_die_with_parent();
	rf_log_init(verb->name, o_verbose ? RF_LOG_DEBUG : RF_LOG_INFO);
	if (o_resources != NULL && rf_gpu_names_set(rf_str(o_resources), err) < 0)
		return rf_wrap(err, "--resources");
	return rf_cli_foreign(err);
}

static int need(const char *value, const char *option, struct rf_err *err)
{
	return value != NULL ? 0 : rf_fail(err, RF_BAD_REQUEST, "--%s is needed", option);
}

/* In a pod of a cluster the way to the API is known. */
static int need_api(struct rf_err *err)
{
	return getenv("KUBERNETES_SERVICE_HOST") != NULL ? 0 : need(o_kubeconfig, "kubeconfig", err);
}

static struct rf_str host_name(struct rf_arena *a)
{
	char name[65] = "";

	gethostname(name, sizeof(name) - 1);
	for (char *p = name; *p != '\0'; p++)
		*p = *p >= 'A' && *p <= 'Z' ? (char)(*p + 32) : *p;
	return rf_str_is_dns_subdomain(rf_str(name)) ? rf_arena_str(a, rf_str(name)) : RF_LIT("node");
}

static int apiserver(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_apiserver_opts opts = { .kubeconfig_path = o_kubeconfig };
	char host[64];

	if (prepare(&RF_VERB_APISERVER, argc, argv, err) < 0 ||
	    rf_cli_address(o_listen ? o_listen : "127.0.0.1:7443", host, &opts.listen_port, err) < 0)
		return -err->code;
	opts.listen_address = host;
	opts.data_dir = o_data ? o_data : rf_cli_default_data(&a).p;
	opts.node_name = o_name ? o_name : host_name(&a).p;
	return rf_apiserver_run(&opts, err);
}

static int control(int argc, char **argv, struct rf_err *err)
{
	struct rf_control_opts opts = { .kubeconfig_path = o_kubeconfig, .pki_dir = o_pki, .data_dir = o_data,
					.scheduler_name = o_scheduler,
					.webhook_service = o_service ? o_service : "ringfence-webhook" };
	char host[64] = "", hook[64] = "";

	if (prepare(&RF_VERB_CONTROL, argc, argv, err) < 0 || need_api(err) < 0)
		return -err->code;
	if (o_failure != NULL && strcmp(o_failure, "open") != 0 && strcmp(o_failure, "closed") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "--policy-failure is open or closed, not \"%s\"", o_failure);
	opts.policy_closed = o_failure != NULL && strcmp(o_failure, "closed") == 0;
	opts.policy_exempt = o_exempt;
	opts.event_log = o_event_log;
	if (o_listen != NULL && rf_cli_address(o_listen, host, &opts.listen_port, err) < 0)
		return -err->code;
	if (o_webhook != NULL && rf_cli_address(o_webhook, hook, &opts.webhook_port, err) < 0)
		return -err->code;
	opts.listen_address = o_listen != NULL ? host : NULL;
	opts.webhook_address = o_webhook != NULL ? hook : NULL;
	return rf_control_run(&opts, err);
}

/* Beside a kubelet, which runs the pods. */
static int beside_kubelet(struct rf_arena *a, struct rf_err *err)
{
	struct rf_plugin_opts opts = { .kubelet_dir = o_kubelet, .cdi_dir = o_cdi ? o_cdi : "/var/run/cdi",
				       .data_dir = o_data ? o_data : "/var/lib/ringfence",
				       .kubeconfig_path = o_kubeconfig, .sim_dir = o_sim,
				       .driver_lib_dir = o_driver, .driver_host_dir = o_driver_host,
				       .mps_control = o_mps };
	char host[64];

	if (need_api(err) < 0 || rf_cli_address(o_listen ? o_listen : "127.0.0.1:0", host, &opts.listen_port, err) < 0)
		return -err->code;
	opts.listen_address = host;
	opts.name = o_name ? o_name : host_name(a).p;
	opts.tools_dir = rf_cli_self_dir(a).p;
	if (o_simulate != NULL) {
		opts.sim_dir = rf_arena_printf(a, "%s/sim", opts.data_dir).p;
		if (rf_fs_mkdirs(opts.data_dir, 0700, err) < 0 || rf_cli_open_sim(opts.sim_dir, o_simulate, err) < 0)
			return -err->code;
	}
	if (opts.sim_dir != NULL && o_driver == NULL)
		opts.driver_lib_dir = rf_cli_sim_lib_dir(a).p;
	return rf_plugin_run(&opts, err);
}

static int node(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_node_opts opts = { .data_dir = o_data, .kubeconfig_path = o_kubeconfig, .sim_dir = o_sim,
				     .driver_lib_dir = o_driver, .images_dir = o_images, .pki_dir = o_pki,
				     .mps_control = o_mps };
	char host[64];

	if (prepare(&RF_VERB_NODE, argc, argv, err) < 0)
		return -err->code;
	if (o_kubelet != NULL)
		return beside_kubelet(&a, err);
	if (need(o_data, "data", err) < 0 || need(o_kubeconfig, "kubeconfig", err) < 0 || need(o_pki, "pki", err) < 0 ||
	    rf_cli_address(o_listen ? o_listen : "127.0.0.1:0", host, &opts.listen_port, err) < 0)
		return -err->code;
	opts.listen_address = host;
	opts.name = o_name ? o_name : host_name(&a).p;
	opts.tools_dir = rf_cli_self_dir(&a).p;
	opts.self_exe = rf_cli_self_exe(&a).p;
	if (o_sim != NULL && o_driver == NULL)
		opts.driver_lib_dir = rf_cli_sim_lib_dir(&a).p;
	return rf_node_run(&opts, err);
}

static const struct rf_opt APISERVER_OPTS[] = {
	{ "data", 0, RF_OPT_STR, &o_data, "DIR", "where state, keys and certificates are kept" },
	{ "listen", 0, RF_OPT_STR, &o_listen, "ADDR", "address and port (default 127.0.0.1:7443; port 0 picks one)" },
	{ "kubeconfig", 0, RF_OPT_STR, &o_kubeconfig, "FILE", "write the administrator's kubeconfig here once the API answers" },
	{ "name", 0, RF_OPT_STR, &o_name, "NODE", "name of this machine's node (default: host name)" },
	OPT_RESOURCES,
	RF_OPT_FOREIGN,
	OPT_SUPERVISED,
	OPT_VERBOSE,
};

const struct rf_verb RF_VERB_APISERVER = {
	.name = "apiserver",
	.summary = "Serve the Kubernetes API of one machine, on SQLite",
	.usage = "[--data DIR] [--listen ADDR] [--kubeconfig FILE]",
	.details = "Part of \"ringfence up\"; alone it serves the API without a scheduler or a node.",
	RF_VERB_OPTS(APISERVER_OPTS),
	.run = apiserver,
};

static const struct rf_opt CONTROL_OPTS[] = {
	{ "kubeconfig", 0, RF_OPT_STR, &o_kubeconfig, "FILE", "how to reach the API" },
	{ "listen", 0, RF_OPT_STR, &o_listen, "ADDR", "where to serve the dashboard (default: nowhere)" },
	{ "pki", 0, RF_OPT_STR, &o_pki, "DIR", "certificate authority for the dashboard's certificate" },
	{ "data", 0, RF_OPT_STR, &o_data, "DIR", "where the dashboard's access token is kept" },
	{ "scheduler-name", 0, RF_OPT_STR, &o_scheduler, "NAME", "place only pods that name this scheduler" },
	{ "webhook", 0, RF_OPT_STR, &o_webhook, "ADDR", "where to serve the admission webhook (default: nowhere)" },
	{ "webhook-service", 0, RF_OPT_STR, &o_service, "NAME", "the webhook's Service (default ringfence-webhook)" },
	{ "policy-failure", 0, RF_OPT_STR, &o_failure, "MODE", "open or closed: what asks for no cards when policies could not be asked (default open)" },
	{ "event-log", 0, RF_OPT_STR, &o_event_log, "FILE", "what the scheduler hears and decides, for replay; FILE.1 is the part before" },
	{ "policy-exempt", 0, RF_OPT_STR, &o_exempt, "LIST", "namespaces policies are not asked about (default kube-system,ringfence-system)" },
	OPT_RESOURCES,
	RF_OPT_FOREIGN,
	OPT_SUPERVISED,
	OPT_VERBOSE,
};

const struct rf_verb RF_VERB_CONTROL = {
	.name = "control",
	.summary = "Run tenants and the scheduler against an API",
	.usage = "[--kubeconfig FILE] [--listen ADDR --pki DIR --data DIR] [--scheduler-name NAME --webhook ADDR]",
	.details = "Part of \"ringfence up\"; on Kubernetes a Deployment (deploy/).",
	RF_VERB_OPTS(CONTROL_OPTS),
	.run = control,
};

static const struct rf_opt NODE_OPTS[] = {
	{ "data", 0, RF_OPT_STR, &o_data, "DIR", "where pods, logs and their state are kept" },
	{ "kubeconfig", 0, RF_OPT_STR, &o_kubeconfig, "FILE", "how to reach the API" },
	{ "pki", 0, RF_OPT_STR, &o_pki, "DIR", "certificate authority for the agent's own certificate" },
	{ "name", 0, RF_OPT_STR, &o_name, "NODE", "name of this node (default: host name)" },
	{ "listen", 0, RF_OPT_STR, &o_listen, "ADDR", "logs and metrics (default 127.0.0.1:0)" },
	{ "sim", 0, RF_OPT_STR, &o_sim, "DIR", "a simulated machine instead of this one's cards" },
	{ "driver", 0, RF_OPT_STR, &o_driver, "DIR", "folder of libnvidia-ml.so.1 (default: the system's)" },
	{ "images", 0, RF_OPT_STR, &o_images, "DIR", "folder of OCI bundles that pods may name as image" },
	{ "kubelet", 0, RF_OPT_STR, &o_kubelet, "DIR", "work beside the kubelet whose folder this is (on Kubernetes)" },
	{ "cdi", 0, RF_OPT_STR, &o_cdi, "DIR", "with --kubelet: where CDI specs go (default /var/run/cdi)" },
	{ "simulate", 0, RF_OPT_STR, &o_simulate, "CARDS", "with --kubelet: simulated cards, such as 2xH200" },
	{ "driver-host", 0, RF_OPT_STR, &o_driver_host, "DIR", "with --kubelet: what the host calls the folder given with --driver" },
	{ "mps-control", 0, RF_OPT_STR, &o_mps, "FILE", "NVIDIA's MPS control daemon, for pools with sharing: mps (default: the driver's)" },
	OPT_RESOURCES,
	OPT_SUPERVISED,
	OPT_VERBOSE,
};

const struct rf_verb RF_VERB_NODE = {
	.name = "node",
	.summary = "Run this machine's cards and pods for an API",
	.usage = "--data DIR --kubeconfig FILE --pki DIR [--sim DIR] | --kubelet DIR [--data DIR] [--simulate CARDS]",
	.details = "Part of \"ringfence up\"; with --kubelet it serves a kubelet's pods, on Kubernetes as a\n"
		   "DaemonSet (deploy/). Needs root.",
	RF_VERB_OPTS(NODE_OPTS),
	.run = node,
};
