/* Server: the API's state from opening the store to closing it, and its housekeeping. Apart from
 * run.c, so that tests can have one in their own process. */
#ifndef RF_APISERVER_SERVER_H
#define RF_APISERVER_SERVER_H

#include "apiserver/api.h"

/* Opens the store, makes the index and the system objects. sa_key and sa_pub are copied. */
int rf_api_open(struct rf_api *api, uv_loop_t *loop, const struct rf_clock *clock,
		const char *db_path, struct rf_str sa_key, struct rf_str sa_pub,
		struct rf_err *err);
void rf_api_done(struct rf_api *api);
/* Ends every watch, before the server closes. */
void rf_api_close_watches(struct rf_api *api);
/* Once a second: watches that end, history and events that are old. */
void rf_api_tick(struct rf_api *api);

/* Namespaces, PriorityClasses, roles and bindings that must exist; in bootstrap.c. */
int rf_bootstrap(struct rf_api *api, struct rf_err *err);

#endif
