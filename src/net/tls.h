/* TLS 1.2+ on OpenSSL, and the little certificate authority of a one-machine platform. */
#ifndef RF_NET_TLS_H
#define RF_NET_TLS_H

#include "base/base.h"

struct rf_tls; /* one side's configuration, shared by its connections */

/* PEM text, not file names. client_ca: whose client certificates are believed; a client that shows
 * none is still served (as nobody in particular), one that shows a bad one is not. */
int rf_tls_server(struct rf_str cert_pem, struct rf_str key_pem, struct rf_str client_ca_pem,
		  struct rf_tls **ret, struct rf_err *err);
/* cert_pem and key_pem may be empty. The server's name or address is always checked. */
int rf_tls_client(struct rf_str ca_pem, struct rf_str cert_pem, struct rf_str key_pem,
		  struct rf_tls **ret, struct rf_err *err);
void rf_tls_free(struct rf_tls *t); /* NULL is fine */

/* Certificates: ECDSA P-256, SHA-256. Results are PEM in the arena. */
int rf_pki_new_ca(struct rf_arena *a, struct rf_str common_name, struct rf_str *ret_cert_pem,
		  struct rf_str *ret_key_pem, struct rf_err *err);
struct rf_pki_ask {
	struct rf_str common_name;   /* Kubernetes user name */
	const struct rf_str *groups; /* organisations: Kubernetes groups */
	size_t n_groups;
	const struct rf_str *hosts; /* DNS names and IP addresses; servers only */
	size_t n_hosts;
	bool server; /* extended key usage: server, else client */
	int days;
};
int rf_pki_issue(struct rf_arena *a, struct rf_str ca_cert_pem, struct rf_str ca_key_pem,
		 const struct rf_pki_ask *ask, struct rf_str *ret_cert_pem,
		 struct rf_str *ret_key_pem, struct rf_err *err);
/* A new EC P-256 key pair (tokens are signed with it). */
int rf_pki_new_key(struct rf_arena *a, struct rf_str *ret_key_pem, struct rf_str *ret_public_pem,
		   struct rf_err *err);
/* ES256, raw r||s as JWS wants it. */
int rf_pki_sign(struct rf_arena *a, struct rf_str key_pem, struct rf_str data,
		struct rf_str *ret_signature, struct rf_err *err);
bool rf_pki_verify(struct rf_str public_pem, struct rf_str data, struct rf_str signature);

#endif
