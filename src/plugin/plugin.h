/* plugin: the agent beside a kubelet. The kubelet runs the pods; this process offers the node's cards
 * to it (device plugin, DRA driver), decides by the pod's claim which cards a container gets, puts the
 * fence around them and hands them over as CDI devices. */
#ifndef RF_PLUGIN_H
#define RF_PLUGIN_H

#include "base/base.h"

struct rf_plugin_opts {
	const char *kubelet_dir; /* /var/lib/kubelet */
	const char *cdi_dir;	 /* where the runtime looks for CDI specs: /var/run/cdi */
	const char *data_dir;	 /* the same path here and on the host: containers mount from it */
	const char *kubeconfig_path; /* NULL: the pod's own */
	const char *name;	     /* the Node's name */
	const char *listen_address;  /* metrics and health */
	uint16_t listen_port;
	const char *sim_dir;	     /* folder of the simulated machine, below data_dir; or NULL */
	const char *driver_lib_dir;  /* the driver's libraries as this process sees them, or NULL */
	const char *driver_host_dir; /* the same folder as the host calls it, or NULL: the same */
	const char *tools_dir;	     /* libringfence.so, gpu-demo */
	const char *mps_control;     /* the MPS control daemon as the host calls it, or NULL: the driver's */
};

/* Runs until SIGTERM or SIGINT. Prints "node ready" once the kubelet knows its plugins and the cards are
 * published. Prepared claims outlive the process and are taken over by the next one. */
int rf_plugin_run(const struct rf_plugin_opts *opts, struct rf_err *err);

#endif
