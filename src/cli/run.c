#include "cli/cli.h"

#include <stdio.h>
#include <time.h>

#include "tenant/admit.h"

static const char *o_namespace, *o_name, *o_gpus, *o_memory, *o_compute, *o_image;
static bool o_detach, o_remove, o_burst;

static struct rf_json *pod_object(struct rf_arena *a, struct rf_str ns, int argc, char **argv)
{
	struct rf_json *command = rf_json_array(a);
	struct rf_json *limits = rf_json_object(a);
	struct rf_json *pod;

	for (int i = 0; i < argc; i++)
		rf_json_push(a, command, rf_json_string(a, rf_str(argv[i])));
	if (o_gpus != NULL)
		rf_json_set_str(a, limits, RF_RES_GPU, rf_str(o_gpus));
	if (o_memory != NULL)
		rf_json_set_str(a, limits, RF_RES_GPU_MEMORY, rf_str(o_memory));
	if (o_compute != NULL)
		rf_json_set_str(a, limits, RF_RES_GPU_COMPUTE, rf_str(o_compute));
	pod = rf_json_make(a,
			   "{'apiVersion':'v1','kind':'Pod','metadata':{'namespace':%S},'spec':{"
			   "'restartPolicy':'Never','automountServiceAccountToken':false,"
			   "'securityContext':{'runAsNonRoot':true,'runAsUser':65534,'seccompProfile':{'type':'RuntimeDefault'}},"
			   "'containers':[{'name':'main','image':%s,'command':%j,'resources':{'limits':%j},"
			   "'securityContext':{'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']}}}]}}",
			   ns, o_image ? o_image : "host", command, limits);
	if (o_burst) {
		struct rf_json *annotations = rf_json_object(a);

		rf_json_set_str(a, annotations, RF_BURST_ANNOTATION, RF_LIT("true"));
		rf_json_set(a, rf_json_at(pod, "metadata"), RF_LIT("annotations"), annotations);
	}
	if (o_name != NULL)
		rf_json_set_str(a, rf_json_at(pod, "metadata"), "name", rf_str(o_name));
	else
		rf_json_set_str(a, rf_json_at(pod, "metadata"), "generateName", RF_LIT("run-"));
	return pod;
}

static bool ended(const struct rf_json *pod)
{
	struct rf_str phase = rf_json_str_at(pod, "status", "phase");

	return rf_str_is(phase, "Succeeded") || rf_str_is(phase, "Failed");
}

static int exit_code(const struct rf_json *pod)
{
	const struct rf_json *s = rf_json_item(rf_json_at(pod, "status", "containerStatuses"), 0);

	return (int)rf_json_int(rf_json_at(s, "state", "terminated", "exitCode"),
				rf_str_is(rf_json_str_at(pod, "status", "phase"), "Succeeded") ? 0 : 1);
}

/* Where it is to go, or what its container waits for: an image that cannot be had, a card in use. */
static struct rf_str why_waiting(struct rf_arena *a, const struct rf_json *pod)
{
	const struct rf_json *conditions = rf_json_at(pod, "status", "conditions");
	const struct rf_json *status = rf_json_item(rf_json_at(pod, "status", "containerStatuses"), 0);
	struct rf_str message = rf_json_str_at(status, "state", "waiting", "message");

	if (message.n > 0)
		return rf_arena_printf(a, "%.*s: %.*s", RF_STR(rf_json_str_at(status, "state", "waiting", "reason")),
				       RF_STR(message));
	for (size_t i = 0; i < rf_json_len(conditions); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(conditions, i), "type"), "PodScheduled"))
			return rf_json_str_at(rf_json_item(conditions, i), "message");
	return RF_STR_EMPTY;
}

/* Told once each time the reason changes. */
static void tell_waiting(struct rf_arena *a, const struct rf_json *pod, struct rf_buf *told)
{
	struct rf_str message = why_waiting(a, pod);

	if (message.n == 0 || rf_str_eq(message, rf_buf_str(told)))
		return;
	fprintf(stderr, "waiting: %.*s\n", RF_STR(message));
	rf_buf_clear(told);
	rf_buf_add(told, message);
}

/* Prints what the log has beyond what was printed before. */
static void print_more(struct rf_kube *k, struct rf_arena *a, struct rf_str path, size_t *printed)
{
	struct rf_str text = RF_STR_EMPTY;

	if (rf_kube_raw(k, a, path, &text, NULL) < 0 || text.n <= *printed)
		return;
	fwrite(text.p + *printed, 1, text.n - *printed, stdout);
	fflush(stdout);
	*printed = text.n;
}

static int follow(struct rf_kube *k, struct rf_str path, struct rf_str log_path, struct rf_err *err)
{
	rf_auto(buf) told = RF_BUF_INIT;
	size_t printed = 0;

	for (;;) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_json *pod = NULL;

		if (rf_kube_get(k, &a, path, &pod, err) < 0)
			return -err->code;
		tell_waiting(&a, pod, &told);
		if (rf_str_is(rf_json_str_at(pod, "status", "phase"), "Running") || ended(pod))
			print_more(k, &a, log_path, &printed);
		if (ended(pod))
			return exit_code(pod);
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
	}
}

/* Without an image a pod has the files of its machine. A kubelet would look for one of that name. */
static int check_image(struct rf_kube *k, struct rf_arena *a, struct rf_err *err)
{
	struct rf_json *version = NULL;

	if (o_image != NULL)
		return 0;
	if (rf_kube_get(k, a, RF_LIT("/version"), &version, err) < 0)
		return -err->code;
	if (rf_str_contains(rf_json_str_at(version, "gitVersion"), RF_LIT("ringfence")))
		return 0;
	return rf_fail(err, RF_BAD_REQUEST,
		       "say which image to run: --image NAME; this is Kubernetes (%.*s), where pods do not have "
		       "the files of their machine",
		       RF_STR(rf_json_str_at(version, "gitVersion")));
}

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_kubeconfig config = { 0 };
	struct rf_json *pod = NULL;
	struct rf_str ns, path;
	int r;

	if (argc < 2 || strcmp(argv[0], "--") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "say what to run, behind two dashes: ringfence run --memory 20Gi -- program");
	if (rf_cli_config(&a, &config, err) < 0 || rf_kube_new(&config, &k, err) < 0 ||
	    check_image(k, &a, err) < 0)
		return -err->code;
	ns = o_namespace ? rf_str(o_namespace) : config.ns;
	if (rf_kube_create(k, &a, rf_kube_path(&a, &RF_PODS, ns, RF_STR_EMPTY, NULL),
			   pod_object(&a, ns, argc - 1, argv + 1), &pod, err) < 0)
		return -err->code;
	path = rf_kube_path(&a, &RF_PODS, ns, rf_kube_name(pod), NULL);
	if (o_detach) {
		printf("pod %.*s/%.*s created\n", RF_STR(ns), RF_STR(rf_kube_name(pod)));
		return 0;
	}
	r = follow(k, path, rf_kube_path(&a, &RF_PODS, ns, rf_kube_name(pod), "log"), err);
	if (o_remove && rf_kube_delete(k, &a, path, -1, true, err) < 0)
		return -err->code;
	return r;
}

static const struct rf_opt OPTS[] = {
	{ "gpus", 0, RF_OPT_STR, &o_gpus, "N", "whole cards" },
	{ "memory", 0, RF_OPT_STR, &o_memory, "SIZE", "a share of one card: its memory, such as 20Gi" },
	{ "compute", 0, RF_OPT_STR, &o_compute, "PERCENT", "a share of one card: its time, 1 to 100" },
	{ "burst", 0, RF_OPT_FLAG, &o_burst, NULL, "use time of the card that others leave idle, beyond --compute" },
	{ "namespace", 'n', RF_OPT_STR, &o_namespace, "NS", "where to run it (default: the kubeconfig's)" },
	{ "name", 0, RF_OPT_STR, &o_name, "NAME", "the pod's name (default: run-xxxxx)" },
	{ "image", 0, RF_OPT_STR, &o_image, "NAME", "root file system (default, where ringfence runs the pods: host, the machine's, read-only)" },
	{ "detach", 'd', RF_OPT_FLAG, &o_detach, NULL, "do not wait for it" },
	{ "rm", 0, RF_OPT_FLAG, &o_remove, NULL, "delete the pod when it has ended" },
	RF_OPT_KUBECONFIG,
};

const struct rf_verb RF_VERB_RUN = {
	.name = "run",
	.summary = "Run a program in a pod of its own, with GPUs, and show its output",
	.usage = "[options] -- program args...",
	.details = "Ends with the program's exit code. The pod runs as a plain user without privileges.\n"
		   "Of a share's memory the driver takes a part for every process that uses the card: some 520 MiB on\n"
		   "an H200. A program with --memory 20Gi can allocate 20Gi less one such context.\n\n"
		   "Examples:\n"
		   "  ringfence run -n team-a --gpus 1 -- nvidia-smi\n"
		   "  ringfence run -n team-a --memory 20Gi --compute 50 -- gpu-demo --memory 10Gi",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
