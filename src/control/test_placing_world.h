/* An API that is a map of objects, with faults at any write, and a placer with the real core that writes to it. */
#ifndef RF_CONTROL_TEST_PLACING_WORLD_H
#define RF_CONTROL_TEST_PLACING_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "control/private.h"

#define START INT64_C(1794717115000)
#define NEVER 1000000

enum fault {
	FAULT_NONE,
	FAULT_REFUSED, /* the server says no */
	FAULT_LOST,    /* the answer does not come, and the write was not carried out */
	FAULT_MUTE,    /* the answer does not come, and it was */
	FAULT_ERROR,   /* the answer is that something went wrong, and the write was not carried out */
	FAULT_DONE,    /* the same, and it was */
	FAULT_CRASH,   /* the process dies before the write */
};

struct world {
	struct rf_arena a;
	struct rf_map objects;	 /* path -> object: the server's */
	RF_VEC(char *) fresh;	 /* paths whose changes the watch has yet to tell */
	struct rf_map seen;	 /* path -> object: what was told */
	RF_VEC(char *) log;	 /* "verb path" of each write */
	int64_t rv, now;
	int evicted;
	int writes, at; /* the write at which the fault comes */
	enum fault fault;
	bool each;  /* the fault comes at every write */
	int code;   /* of a refusal */
	const char *only; /* the fault is for a path with this end alone; NULL: for any */
	bool dead;  /* nothing more is written */
	bool muted; /* the server does not answer until this is taken back */
	int in_vain; /* it was asked for something meanwhile */
	int steal_at;	   /* before this write, and before no other, */
	const char *steal; /* somebody deletes the claim whose path has this in it */
	struct rf_core *core;
	struct rf_placer p;
};

/* --- the server ---------------------------------------------------------------------------------- */

char *text(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void put(struct world *w, const char *path, struct rf_json *o);
void drop(struct world *w, const char *path);
struct rf_json *get(struct world *w, const char *path);
void drop_those(struct world *w, const char *part);
int bind_to(struct world *w, const char *pod, const struct rf_json *binding, struct rf_err *err);
int h_update(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
	     struct rf_json **ret, struct rf_err *err);
int h_remove(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_str uid, struct rf_str rv,
	     struct rf_err *err);

/* --- the watch ----------------------------------------------------------------------------------- */

void tell(struct world *w, const struct rf_json *before, const struct rf_json *after);

/* What changed since, in order; as a watch may, the last state only of what changed twice. */
void deliver(struct world *w);

/* Another process: it is told all there is, in whatever order the map has it. */
void restart(struct world *w);

bool starts(const char *s, const char *with);

/* Turns until nothing more happens, or the process is dead. Time goes on by what the placer asks for. */
void run(struct world *w);

int set_up(void **state);
int tear_down(void **state);

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

/* --- a small cluster ----------------------------------------------------------------------------- */

#define POD "/api/v1/namespaces/%s/pods/%s"
#define GROUP "/apis/ringfence.io/v1alpha1/namespaces/%s/podgroups/%s"

extern const char *card_name; /* what pods ask for from now on */

void add_node(struct world *w, const char *name, int cards);
void add_tenant(struct world *w, const char *name, const char *spec);
void add_pod(struct world *w, const char *ns, const char *name, int cards, const char *group);
void add_group(struct world *w, const char *ns, const char *name, int min);
struct rf_str node_of(struct world *w, const char *ns, const char *pod);
size_t bound(struct world *w, const char *ns);
size_t claims(struct world *w, bool allocated);
bool started(struct world *w, const char *ns, const char *group);
size_t first(struct world *w, const char *verb, const char *tail);
size_t last(struct world *w, const char *verb, const char *tail);
void gang_of_four(struct world *w);

#endif
