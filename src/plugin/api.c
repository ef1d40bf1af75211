/* Asking the API server, without letting it hold the agent up. */
#include <stdlib.h>

#include "node/hold.h"
#include "plugin/private.h"

#define ANSWER_MS 2000
#define SLOW_MS 500 /* a failure that took longer is taken for a server that does not answer */
#define REST_TIMES 2

/* --- pauses ----------------------------------------------------------------------------------- */

static int may_ask(struct rf_plugin *p, struct rf_err *err)
{
	int64_t now = rf_plugin_now();

	if (now < p->api_rest_ms)
		return rf_fail(
			err, RF_UNAVAILABLE,
			"the API server did not answer a moment ago; it is asked again in %lld ms",
			(long long)(p->api_rest_ms - now));
	p->api_asked_ms = now;
	return 0;
}

static int answered(struct rf_plugin *p, int rc)
{
	int64_t took = rf_plugin_now() - p->api_asked_ms;

	if (rc < 0 && took >= SLOW_MS)
		p->api_rest_ms = rf_plugin_now() + REST_TIMES * took;
	return rc;
}

/* --- calls ------------------------------------------------------------------------------------ */

int rf_plugin_get(struct rf_plugin *p, struct rf_arena *a, struct rf_str path, struct rf_json **ret,
		  struct rf_err *err)
{
	if (may_ask(p, err) < 0)
		return -RF_UNAVAILABLE;
	return answered(p, rf_kube_get(p->kube, a, path, ret, err));
}

int rf_plugin_create(struct rf_plugin *p, struct rf_arena *a, struct rf_str path,
		     const struct rf_json *object, struct rf_json **ret, struct rf_err *err)
{
	if (may_ask(p, err) < 0)
		return -RF_UNAVAILABLE;
	return answered(p, rf_kube_create(p->kube, a, path, object, ret, err));
}

int rf_plugin_update(struct rf_plugin *p, struct rf_arena *a, struct rf_str path,
		     const struct rf_json *object, struct rf_err *err)
{
	if (may_ask(p, err) < 0)
		return -RF_UNAVAILABLE;
	return answered(p, rf_kube_update(p->kube, a, path, object, NULL, err));
}

int rf_plugin_hold(struct rf_plugin *p, const struct rf_json *claim, struct rf_err *err)
{
	if (may_ask(p, err) < 0)
		return -RF_UNAVAILABLE;
	return answered(p, rf_claim_hold(p->kube, claim, err));
}

int rf_plugin_let_go(struct rf_plugin *p, struct rf_str ns, struct rf_str name, struct rf_str uid,
		     struct rf_err *err)
{
	if (may_ask(p, err) < 0)
		return -RF_UNAVAILABLE;
	return answered(p, rf_claim_let_go(p->kube, ns, name, uid, err));
}

void rf_plugin_warn(struct rf_plugin *p, const struct rf_json *pod, const char *reason,
		    const char *message)
{
	if (may_ask(p, NULL) == 0)
		answered(p, rf_kube_event(p->kube, pod, "Warning", reason, "ringfence-node", "%s",
					  message));
}

int rf_plugin_pod(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		  const struct rf_json **ret, struct rf_err *err)
{
	const struct rf_json *pod = rf_informer_get(p->pods, ns, name);
	struct rf_json *got;

	/* A pod that is on its way out may hide a new one of its name. */
	if (pod == NULL || rf_kube_deleting(pod)) {
		if (rf_plugin_get(p, a, rf_kube_path(a, &RF_PODS, ns, name, NULL), &got, err) < 0)
			return rf_wrap(err, "read pod %.*s/%.*s", RF_STR(ns), RF_STR(name));
		pod = got;
	}
	if (!rf_str_eq(rf_json_str_at(pod, "spec", "nodeName"), p->name))
		return rf_fail(err, RF_FORBIDDEN, "pod %.*s/%.*s is not on this node", RF_STR(ns),
			       RF_STR(name));
	*ret = pod;
	return 0;
}

int rf_plugin_claim(struct rf_plugin *p, struct rf_arena *a, struct rf_str ns, struct rf_str name,
		    struct rf_json **ret, struct rf_err *err)
{
	if (rf_plugin_get(p, a, rf_kube_path(a, &RF_RESOURCECLAIMS, ns, name, NULL), ret, err) < 0)
		return rf_wrap(err, "read claim %.*s/%.*s", RF_STR(ns), RF_STR(name));
	return 0;
}

int rf_plugin_connect(struct rf_plugin *p, struct rf_err *err)
{
	bool in_pod = p->opts->kubeconfig_path == NULL && getenv("KUBERNETES_SERVICE_HOST") != NULL;

	if (in_pod ? rf_kubeconfig_in_cluster(&p->arena, &p->config, err) < 0
		   : rf_kubeconfig_load(&p->arena, p->opts->kubeconfig_path, &p->config, err) < 0)
		return -err->code;
	if (rf_kube_new(&p->config, &p->kube, err) < 0)
		return -err->code;
	rf_kube_set_timeout(p->kube, ANSWER_MS);
	return 0;
}
