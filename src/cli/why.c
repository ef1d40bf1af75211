#include "cli/cli.h"

#include <stdio.h>

#include "tenant/tenant.h"

static const char *o_namespace;

static void tell_conditions(struct rf_arena *a, struct rf_json *why, const struct rf_json *pod)
{
	const struct rf_json *conditions = rf_json_at(pod, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(conditions); i++) {
		const struct rf_json *c = rf_json_item(conditions, i);

		if (rf_str_is(rf_json_str_at(c, "status"), "True") || rf_json_str_at(c, "message").n == 0)
			continue;
		rf_json_push(a, why, rf_json_make(a, "{'from':%S,'reason':%S,'message':%S}", rf_json_str_at(c, "type"),
						  rf_json_str_at(c, "reason"), rf_json_str_at(c, "message")));
	}
}

static void tell_containers(struct rf_arena *a, struct rf_json *why, const struct rf_json *pod)
{
	const struct rf_json *statuses = rf_json_at(pod, "status", "containerStatuses");

	for (size_t i = 0; i < rf_json_len(statuses); i++) {
		const struct rf_json *s = rf_json_item(statuses, i);
		const struct rf_json *waiting = rf_json_at(s, "state", "waiting");
		const struct rf_json *ended = rf_json_at(s, "state", "terminated");
		struct rf_str from = rf_arena_printf(a, "container %.*s", RF_STR(rf_json_str_at(s, "name")));

		if (waiting != NULL)
			rf_json_push(a, why, rf_json_make(a, "{'from':%S,'reason':%S,'message':%S}", from,
							  rf_json_str_at(waiting, "reason"),
							  rf_json_str_at(waiting, "message")));
		if (ended != NULL)
			rf_json_push(a, why,
				     rf_json_make(a, "{'from':%S,'reason':%S,'message':%S}", from,
						  rf_json_str_at(ended, "reason"),
						  rf_arena_printf(a, "exit code %lld",
								  (long long)rf_json_int(rf_json_at(ended, "exitCode"), -1))));
	}
}

static void tell_events(struct rf_arena *a, struct rf_json *why, const struct rf_json *pod,
			const struct rf_json *events)
{
	for (size_t i = 0; i < rf_json_len(events); i++) {
		const struct rf_json *e = rf_json_item(events, i);
		struct rf_str from = rf_json_str_at(e, "source", "component");

		if (!rf_str_eq(rf_json_str_at(e, "involvedObject", "uid"), rf_kube_uid(pod)))
			continue;
		if (from.n == 0) /* written through events.k8s.io, as Kubernetes' own parts do */
			from = rf_json_str_at(e, "reportingComponent");
		rf_json_push(a, why, rf_json_make(a, "{'from':%S,'reason':%S,'message':%S}", from,
						  rf_json_str_at(e, "reason"), rf_json_str_at(e, "message")));
	}
}

static int run(int argc, char **argv, struct rf_err *err)
{
	static const struct rf_column columns[] = { { "FROM", "from" }, { "REASON", "reason" }, { "MESSAGE", "message" } };
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	struct rf_kubeconfig config = { 0 };
	struct rf_json *pod = NULL, *events = NULL, *why = rf_json_array(&a);
	struct rf_str name, ns;

	if (argc != 1)
		return rf_fail(err, RF_BAD_REQUEST, "say which pod: ringfence why NAMESPACE/POD");
	name = rf_str(argv[0]);
	if (rf_cli_config(&a, &config, err) < 0 || rf_kube_new(&config, &k, err) < 0)
		return -err->code;
	ns = o_namespace ? rf_str(o_namespace) : config.ns;
	if (rf_str_contains(name, RF_LIT("/")))
		rf_str_cut(&name, '/', &ns);
	if (rf_kube_get(k, &a, rf_kube_path(&a, &RF_PODS, ns, name, NULL), &pod, err) < 0 ||
	    rf_cli_list(k, &a, &RF_EVENTS, ns, &events, err) < 0)
		return -err->code;
	rf_json_push(&a, why, rf_json_make(&a, "{'from':'pod','reason':%S,'message':%S}",
					   rf_json_str_at(pod, "status", "phase"),
					   rf_json_str_at(pod, "status", "message")));
	tell_conditions(&a, why, pod);
	tell_containers(&a, why, pod);
	tell_events(&a, why, pod, events);
	return rf_cli_print(why, columns, RF_COUNT(columns), err);
}

static const struct rf_opt OPTS[] = {
	{ "namespace", 'n', RF_OPT_STR, &o_namespace, "NS", "the pod's namespace" },
	RF_OPT_KUBECONFIG,
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_WHY = {
	.name = "why",
	.summary = "Say why a pod is where it is, or is not",
	.usage = "[NAMESPACE/]POD [-o json|table]",
	.details = "Example:\n  ringfence why team-a/train",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
