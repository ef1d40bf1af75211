/* control: the process that turns Tenants into fences and pending pods into placements. */
#ifndef RF_CONTROL_H
#define RF_CONTROL_H

#include "base/base.h"

struct rf_control_opts {
	const char *kubeconfig_path; /* NULL: in a pod, the pod's own; else $KUBECONFIG,
					~/.kube/config */
	const char *listen_address;  /* for the dashboard; NULL: none */
	uint16_t listen_port;        /* 0: the last one, or any that is free */
	const char *pki_dir;         /* ca.crt and ca.key, for the dashboard's certificate */
	const char *data_dir;        /* where the dashboard's token and port are kept */
};

/* Waits for the API server, takes the lease, serves the dashboard (printing "dashboard URL"), prints "control ready" on stdout, and works until
 * SIGTERM or SIGINT: 0. A lost lease is an error: whoever started the process starts it again. */
int rf_control_run(const struct rf_control_opts *opts, struct rf_err *err);

#endif
