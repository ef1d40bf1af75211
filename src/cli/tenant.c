#include "cli/cli.h"

#include <stdio.h>

#include "tenant/tenant.h"
#include "web/view.h"

static const char *o_isolation, *o_trust_domain, *o_gpus, *o_gpu_memory, *o_pods, *o_owner;
static int64_t o_hours = 24 * 7;

static int list(struct rf_arena *a, struct rf_kube *k, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "NAME", "name" }, { "ISOLATION", "isolation" },  { "TRUST DOMAIN", "trustDomain" },
		{ "GPUS", "gpus" }, { "GPU MEMORY", "gpuMemory" }, { "NAMESPACES", "namespaces" },
		{ "READY", "ready" },
	};
	struct rf_json *items = NULL;

	if (rf_cli_list(k, a, &RF_TENANTS, RF_STR_EMPTY, &items, err) < 0)
		return -err->code;
	return rf_cli_print(rf_view_tenants(a, items), columns, RF_COUNT(columns), err);
}

static int add_quota(struct rf_arena *a, struct rf_json *spec, const char *key, const char *value,
		     struct rf_err *err)
{
	int64_t n = 0;

	if (value == NULL)
		return 0;
	if (strcmp(key, "gpuMemory") == 0) {
		rf_json_set_str(a, rf_json_ensure(a, spec, "quota"), key, rf_str(value));
		return 0;
	}
	if (rf_str_int(rf_str(value), &n, err) < 0)
		return rf_wrap(err, "quota %s", key);
	rf_json_set_int(a, rf_json_ensure(a, spec, "quota"), key, n);
	return 0;
}

static int create(struct rf_arena *a, struct rf_kube *k, const char *name, struct rf_err *err)
{
	struct rf_json *tenant = rf_json_make(
		a, "{'apiVersion':'ringfence.io/v1alpha1','kind':'Tenant','metadata':{'name':%s},'spec':{}}", name);
	struct rf_json *spec = rf_json_at(tenant, "spec");

	if (o_isolation != NULL)
		rf_json_set_str(a, spec, "isolation", rf_str(o_isolation));
	if (o_trust_domain != NULL)
		rf_json_set_str(a, spec, "trustDomain", rf_str(o_trust_domain));
	if (o_owner != NULL)
		rf_json_set(a, spec, RF_LIT("owners"), rf_json_make(a, "[{'kind':'User','name':%s}]", o_owner));
	if (add_quota(a, spec, "gpus", o_gpus, err) < 0 || add_quota(a, spec, "gpuMemory", o_gpu_memory, err) < 0 ||
	    add_quota(a, spec, "pods", o_pods, err) < 0 ||
	    rf_kube_create(k, a, rf_kube_path(a, &RF_TENANTS, RF_STR_EMPTY, RF_STR_EMPTY, NULL), tenant, NULL, err) < 0)
		return -err->code;
	printf("tenant %s created\n", name);
	return 0;
}

/* A kubeconfig with a token of the tenant's own service account: what the tenant's people get. */
static int kubeconfig(struct rf_arena *a, struct rf_kube *k, const char *name, struct rf_err *err)
{
	struct rf_kubeconfig config = { 0 };
	struct rf_json *object = NULL, *token = NULL;
	struct rf_tenant t = { 0 };
	struct rf_json *ask = rf_json_make(
		a, "{'apiVersion':'authentication.k8s.io/v1','kind':'TokenRequest','spec':{'expirationSeconds':%D}}",
		o_hours * 3600);

	if (rf_cli_config(a, &config, err) < 0 ||
	    rf_kube_get(k, a, rf_kube_path(a, &RF_TENANTS, RF_STR_EMPTY, rf_str(name), NULL), &object, err) < 0 ||
	    rf_tenant_parse(a, object, &t, err) < 0)
		return -err->code;
	if (rf_kube_create(k, a,
			   rf_kube_path(a, &RF_SERVICEACCOUNTS, t.namespaces[0], RF_LIT("ringfence-owner"), "token"),
			   ask, &token, err) < 0)
		return rf_wrap(err, "token for tenant %s (is it ready? ringfence tenant list)", name);
	config.cert_pem = config.key_pem = RF_STR_EMPTY;
	config.token = rf_json_str_at(token, "status", "token");
	config.ns = t.namespaces[0];
	printf("%s", rf_kubeconfig_text(a, &config, rf_str(name)).p);
	return 0;
}

static int remove_tenant(struct rf_arena *a, struct rf_kube *k, const char *name, struct rf_err *err)
{
	if (rf_kube_delete(k, a, rf_kube_path(a, &RF_TENANTS, RF_STR_EMPTY, rf_str(name), NULL), -1, false, err) < 0)
		return -err->code;
	printf("tenant %s is being deleted, with its namespaces and all that runs in them\n", name);
	return 0;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	static const struct {
		const char *name;
		int (*run)(struct rf_arena *a, struct rf_kube *k, const char *name, struct rf_err *err);
	} subs[] = { { "create", create }, { "kubeconfig", kubeconfig }, { "delete", remove_tenant } };
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto_ptr(kube) k = NULL;
	bool is_list = argc == 0 || (argc == 1 && strcmp(argv[0], "list") == 0);

	if (!is_list && argc != 2)
		return rf_fail(err, RF_BAD_REQUEST, "say: ringfence tenant list, or create, kubeconfig or delete NAME");
	if (rf_cli_connect(&a, &k, err) < 0)
		return -err->code;
	if (is_list)
		return list(&a, k, err);
	for (size_t i = 0; i < RF_COUNT(subs); i++)
		if (strcmp(argv[0], subs[i].name) == 0)
			return subs[i].run(&a, k, argv[1], err);
	return rf_fail(err, RF_BAD_REQUEST, "there is no \"tenant %s\"; there are list, create, kubeconfig, delete",
		       argv[0]);
}

static const struct rf_opt OPTS[] = {
	{ "isolation", 0, RF_OPT_STR, &o_isolation, "LEVEL", "create: rack, node, numa, nvlink, gpu (default), slice, share or cooperative" },
	{ "trust-domain", 0, RF_OPT_STR, &o_trust_domain, "NAME", "create: with whom it may share a card in software" },
	{ "gpus", 0, RF_OPT_STR, &o_gpus, "N", "create: whole cards it may hold at once" },
	{ "gpu-memory", 0, RF_OPT_STR, &o_gpu_memory, "SIZE", "create: memory of shares it may hold at once" },
	{ "pods", 0, RF_OPT_STR, &o_pods, "N", "create: pods it may have at once" },
	{ "owner", 0, RF_OPT_STR, &o_owner, "USER", "create: a user who may work in its namespaces" },
	{ "hours", 0, RF_OPT_INT, &o_hours, "N", "kubeconfig: how long the token is good for (default 168)" },
	RF_OPT_KUBECONFIG,
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_TENANT = {
	.name = "tenant",
	.summary = "List, create and delete tenants, and hand out their kubeconfigs",
	.usage = "[list] | create NAME [options] | kubeconfig NAME | delete NAME",
	.details = "Examples:\n"
		   "  ringfence tenant create team-a --isolation share --trust-domain research --gpu-memory 80Gi\n"
		   "  ringfence tenant kubeconfig team-a > team-a.kubeconfig",
	.subs = "list create kubeconfig delete",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
