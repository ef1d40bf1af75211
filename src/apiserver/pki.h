/* The certificates and keys of one platform, in DATA/pki, made once. */
#ifndef RF_APISERVER_PKI_H
#define RF_APISERVER_PKI_H

#include "base/base.h"

struct rf_pki_files {
	struct rf_str ca_cert, ca_key;
	struct rf_str server_cert, server_key;
	struct rf_str sa_key, sa_pub;
};
/* hosts: further names and addresses the server answers at. The server's certificate is issued anew
 * at every start, since they may have changed; the rest is kept. */
int rf_pki_ensure(struct rf_arena *a, const char *dir, const struct rf_str *hosts, size_t n_hosts,
		  struct rf_pki_files *ret, struct rf_err *err);

#endif
