/* What conn.c needs of a TLS configuration: sessions and, after the handshake, who the peer is. */
#ifndef RF_NET_TLS_SESSION_H
#define RF_NET_TLS_SESSION_H

#include <openssl/ssl.h>

#include "net/http.h"
#include "net/tls.h"

/* host: for clients, the name or address the server's certificate must carry. The session keeps
 * what it needs of t, which may be freed first. NULL with *err filled on failure. */
SSL *rf_tls_session(struct rf_tls *t, const char *host, struct rf_err *err);

/* Fills has_cert, common_name and groups (in the arena) from a verified client certificate. A
 * certificate that could be read in two ways (two common names, control characters, more groups
 * than fit) is an error, not a shortened identity. */
int rf_tls_peer(SSL *ssl, struct rf_arena *a, struct rf_http_peer *peer, struct rf_err *err);

/* Why a handshake or a read failed, in words. */
int rf_tls_explain(SSL *ssl, const char *what, struct rf_err *err);

#endif
