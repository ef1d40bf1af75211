/* A real API server in a child process, for tests that talk to it as clients do. */
#ifndef RF_APISERVER_TEST_WORLD_H
#define RF_APISERVER_TEST_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "kube/kube.h"

struct world {
	struct rf_arena a;
	char dir[64];
	pid_t server;
	struct rf_kubeconfig admin_config;
	struct rf_kube *admin;
};

void world_start(struct world *w);
/* Ends the server so, and starts it again; meanwhile (may be NULL) has the database to itself. */
void world_restart(struct world *w, int signal, void (*meanwhile)(const char *db));
void world_stop(struct world *w);
/* A client with a certificate of that name and group (may be NULL). */
struct rf_kube *world_as(struct world *w, const char *user, const char *group);
/* A client with a bearer token. */
struct rf_kube *world_with_token(struct world *w, struct rf_str token);

/* Objects from templates as rf_json_make takes them; each asserts success unless it returns. */
struct rf_json *world_create(struct world *w, const char *path, struct rf_json *o);
int world_try(struct rf_kube *k, struct world *w, const char *path, struct rf_json *o,
	      struct rf_err *err);
struct rf_json *world_get(struct world *w, const char *path);
void world_namespace(struct world *w, const char *name, const char *labels);
struct rf_json *world_pod(struct world *w, const char *name, const char *resources);

/* Reads lines of a watch until `want` of them came or five seconds passed; an array of events. */
struct rf_json *world_watch(struct world *w, const char *path, size_t want);

#define assert_ok(r, err)                                                                          \
	do {                                                                                       \
		if ((r) < 0)                                                                       \
			fail_msg("%s", (err).msg);                                                 \
	} while (0)

#endif
