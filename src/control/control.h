/* control: the process that turns Tenants into fences and pending pods into placements. */
#ifndef RF_CONTROL_H
#define RF_CONTROL_H

#include "codec/json.h"
#include "kube/kube.h"

struct rf_control_opts {
	const char *kubeconfig_path; /* NULL: in a pod, the pod's own; else $KUBECONFIG,
					~/.kube/config */
	const char *listen_address;  /* for the dashboard; NULL: none */
	uint16_t listen_port;        /* 0: the last one, or any that is free */
	const char *pki_dir;         /* ca.crt and ca.key, for the dashboard's certificate */
	const char *data_dir;        /* where the dashboard's token and port are kept */
	const char *scheduler_name;  /* place only pods that name this scheduler; NULL: all that name
					none, "default-scheduler" or "ringfence" */
	/* The admission webhook of a Kubernetes cluster; NULL: none is served. It is served whether or
	 * not this process leads. */
	const char *webhook_address;
	uint16_t webhook_port;	     /* 0: any that is free */
	const char *webhook_service; /* the Service's name, for the certificate; NULL:
					"ringfence-webhook" */
	const char *event_log; /* what the scheduler hears and decides, as lines of JSON; NULL: nowhere */
	/* When the cluster's policies could not be asked: refuse also what asks for no cards. */
	bool policy_closed;
	const char *policy_exempt; /* namespaces they are not asked about, comma-separated; NULL:
				      kube-system and ringfence-system */
};

/* Waits for the API server, serves the webhook (printing "webhook URL") and the dashboard (printing
 * "dashboard URL"), takes the lease, prints "control ready" on stdout, and works until SIGTERM or SIGINT:
 * 0. A lost lease is an error: whoever started the process starts it again. */
int rf_control_run(const struct rf_control_opts *opts, struct rf_err *err);

/* --- whole cards by moving (defragment.c) --------------------------------------------------------- */

struct rf_defragment_opts {
	const char *scheduler_name; /* as control's */
	int64_t now_ms;		    /* the wall's */
	size_t most;		    /* moves */
};
/* What the scheduler would move, from what the API says now; changes nothing. Only what some controller makes again,
 * ran its minimum and is not pinned, as far as disruption budgets allow, and no gangs:
 * {"moves": [{namespace, pod, uid, owner, ranSeconds, node, card, roomOn, roomOnCard}], "cards": ["node/card"] that become
 * whole, "slices": ["node/card:profile"] that have room for one more, "machines": nodes of which all cards become whole,
 * "freeCards": {now, then}, "cost": {pods, ranSeconds}}.
 * roomOn, roomOnCard: where it would be placed now, on the same node or another. Where it goes is decided when it is
 * made again. */
int rf_defragment_plan(struct rf_kube *k, const struct rf_defragment_opts *o, struct rf_arena *a, struct rf_json **ret,
		       struct rf_err *err);
/* Evicts them in order, as their budgets allow, up to the first that is refused: the error. ret_done is written
 * whatever comes back. */
int rf_defragment_apply(struct rf_kube *k, struct rf_arena *a, const struct rf_json *plan, size_t *ret_done,
			struct rf_err *err);

#endif
