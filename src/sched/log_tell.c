/* An event, told to a core. */
#include "sched/log.h"

static void tell_gone(struct rf_core *c, const struct rf_log_event *e)
{
	switch (e->kind) {
	case RF_LOG_NODE:
		rf_core_del_node(c, e->name);
		break;
	case RF_LOG_TENANT:
		rf_core_del_tenant(c, e->name);
		break;
	case RF_LOG_NAMESPACE:
		rf_core_del_namespace(c, e->name);
		break;
	case RF_LOG_QUEUE:
		rf_core_del_queue(c, e->name, e->t);
		break;
	case RF_LOG_GROUP:
		rf_core_del_group(c, e->ns, e->name);
		break;
	case RF_LOG_POD:
		rf_core_del_pod(c, e->uid, e->t);
		break;
	case RF_LOG_CLAIM:
		rf_core_del_claim(c, e->ns, e->name, e->t);
		break;
	case RF_LOG_BUDGET:
		rf_core_del_budget(c, e->ns, e->name);
		break;
	case RF_LOG_POOL:
		rf_core_del_pool(c, e->name);
		break;
	default:
		break;
	}
}

static int tell(struct rf_core *c, const struct rf_log_event *e, struct rf_err *err)
{
	switch (e->kind) {
	case RF_LOG_NODE:
		rf_core_put_node(c, &e->node);
		break;
	case RF_LOG_DEVICES:
		rf_core_put_devices(c, e->name, e->devices.at, e->devices.n);
		break;
	case RF_LOG_TENANT:
		rf_core_put_tenant(c, &e->tenant_spec);
		break;
	case RF_LOG_NAMESPACE:
		rf_core_put_namespace(c, e->name, e->tenant);
		break;
	case RF_LOG_QUEUE:
		return rf_core_put_queue(c, &e->queue, e->t, err);
	case RF_LOG_GROUP:
		rf_core_put_group(c, &e->group);
		break;
	case RF_LOG_POD:
		rf_core_put_pod(c, &e->pod, e->t);
		break;
	case RF_LOG_CLAIM:
		rf_core_put_claim(c, &e->claim);
		break;
	case RF_LOG_BUDGET:
		rf_core_put_budget(c, &e->budget);
		break;
	case RF_LOG_POOL:
		rf_core_put_pool(c, &e->pool);
		break;
	case RF_LOG_FAILED:
		rf_core_failed(c, e->verdict, e->uid, e->why, e->t);
		break;
	case RF_LOG_LEDGER:
		return rf_core_import(c, e->ledger, e->t, err);
	default:
		break;
	}
	return 0;
}

int rf_log_tell(struct rf_core *c, const struct rf_log_event *e, struct rf_err *err)
{
	if (!e->del)
		return tell(c, e, err);
	tell_gone(c, e);
	return 0;
}
