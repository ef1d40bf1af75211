/* node: the agent of one machine. It publishes the machine's cards, prepares claims, runs pods in
 * containers behind their fences, and tells the API server how they fare. */
#ifndef RF_NODE_H
#define RF_NODE_H

#include "base/base.h"

struct rf_node_opts {
	const char *data_dir; /* the agent's own folder, e.g. DATA/node */
	const char *kubeconfig_path;
	const char *name; /* the Node's name */
	const char *listen_address;
	uint16_t listen_port; /* 0: the kernel picks one */
	const char *sim_dir;  /* folder of the simulated machine, or NULL */
	const char
		*driver_lib_dir; /* libnvidia-ml.so.1 and libcuda.so.1 of the simulation, or NULL */
	const char *tools_dir;	 /* gpu-demo, libringfence.so */
	const char *images_dir;	 /* OCI bundles, one folder per image name, or NULL */
	const char *pki_dir;  /* ca.crt and ca.key: the serving certificate is issued from them */
	const char *self_exe; /* this program: runs `shim` */
	const char *mps_control; /* the MPS control daemon, or NULL: the driver's; with simulated cards a stand-in */
};

/* Runs until SIGTERM or SIGINT. Prints "node ready" on stdout once the Node is registered, its
 * slice published and a pod can be run. Containers outlive the agent and are adopted by the next
 * one. */
int rf_node_run(const struct rf_node_opts *opts, struct rf_err *err);

/* `ringfence shim`: argv[0] is the verb. Returns the exit status. */
int rf_shim_main(int argc, char **argv);

#endif
