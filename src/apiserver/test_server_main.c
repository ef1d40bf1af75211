/* The API server by itself, for trying things out while the command line is not there. */
#include <stdio.h>

#include "apiserver/apiserver.h"

int main(int argc, char **argv)
{
	struct rf_apiserver_opts o = { .data_dir = argc > 1 ? argv[1] : "data",
				       .listen_address = "127.0.0.1",
				       .node_name = "node-1",
				       .kubeconfig_path = argc > 2 ? argv[2] : NULL };
	struct rf_err err = RF_ERR_INIT;

	rf_log_init("apiserver", RF_LOG_DEBUG);
	if (rf_apiserver_run(&o, &err) == 0)
		return 0;
	fprintf(stderr, "%s\n", err.msg);
	return 1;
}
