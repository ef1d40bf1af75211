/* apiserver: enough of the Kubernetes API on SQLite for kubectl, ringfence's own processes and
 * ordinary clients. See README.md. */
#ifndef RF_APISERVER_H
#define RF_APISERVER_H

#include "base/base.h"

struct rf_apiserver_opts {
	const char *data_dir;
	const char *listen_address;  /* "127.0.0.1" */
	uint16_t listen_port;	     /* 0: the one used last time, else any */
	const char *kubeconfig_path; /* the administrator's, written there too; may be NULL */
	const char *node_name;	     /* the node agent's certificate is for this node */
};

/* Creates what is missing in the data folder (PKI, state.db), serves, writes the kubeconfigs once it
 * answers, prints "apiserver https://ADDRESS:PORT" on stdout, and runs until SIGTERM or SIGINT: 0. */
int rf_apiserver_run(const struct rf_apiserver_opts *opts, struct rf_err *err);

#endif
