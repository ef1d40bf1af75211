/* kube's own: what its files share and nobody else includes. */
#ifndef RF_KUBE_PRIVATE_H
#define RF_KUBE_PRIVATE_H

#include "kube/kube.h"

/* --- work: patches are written by tenants, so what one may cost is bounded -------------------- */

struct rf_patch_work {
	struct rf_arena *a;
	struct rf_err *err;
	uint64_t left;	 /* comparisons and moves it may still make */
	uint64_t copied; /* bytes its copy operations made */
};
#define RF_PATCH_WORK_MAX ((uint64_t)50 * 1000 * 1000)
int rf_patch_spend(struct rf_patch_work *w, uint64_t steps); /* RF_TOO_LARGE once all is spent */
/* As rf_json_set, but RF_TOO_LARGE rather than an object that could not be read back. */
int rf_patch_set(struct rf_patch_work *w, struct rf_json *object, struct rf_str key,
		 struct rf_json *value);

/* --- packing: a tree in one block of memory, for objects that live long ----------------------- */

/* Copies the tree into one block that free() releases; *ret_tree points into it. */
void *rf_kube_pack(const struct rf_json *v, struct rf_json **ret_tree);

/* --- link: one API server as seen from one loop ---------------------------------------------- */

struct rf_kube_link {
	struct rf_tls *tls; /* NULL: plain, loopback only */
	struct rf_http_client *http;
	struct rf_buf authorization; /* "Bearer ...", or empty */
	char *token_file;	     /* NULL: the token never changes */
	int64_t token_read_ns;
};

int rf_kube_link_open(struct rf_kube_link *l, uv_loop_t *loop, const struct rf_kubeconfig *c,
		      struct rf_err *err);
/* The http client needs the loop to run on before it is gone. */
void rf_kube_link_done(struct rf_kube_link *l);
/* Sends the call with the link's authorization; what opts points to is copied. */
struct rf_http_call *rf_kube_link_call(struct rf_kube_link *l, struct rf_http_call_opts opts);

/* An answer that is not 2xx, as an error: code from status and reason, text the server's message;
 * or, if it gave none, what was being done and the status. */
int rf_kube_fail_response(const struct rf_http_response *r, const char *doing, struct rf_err *err);
/* A Status object as an error. */
int rf_kube_fail_status(int http_status, const struct rf_json *status, struct rf_err *err);

#endif
