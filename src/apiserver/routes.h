/* Routes: what a path and a method ask for. */
#ifndef RF_APISERVER_ROUTES_H
#define RF_APISERVER_ROUTES_H

#include "apiserver/kinds.h"
#include "base/base.h"

struct rf_route {
	const struct rf_kind *kind;
	struct rf_str ns;   /* empty: all, or cluster scope */
	struct rf_str name; /* empty: the collection */
	struct rf_str sub;  /* empty: the object itself */
	struct rf_str version; /* asked for, where it is not the kind's own; empty else */
	const char *verb;   /* RBAC's: get list watch create update patch delete deletecollection */
};

/* Strings point into path. RF_NOT_FOUND: no such resource; RF_NOT_ALLOWED: not with this method. */
int rf_route_parse(struct rf_str method, struct rf_str path, bool watch, struct rf_route *ret,
		   struct rf_err *err);

#endif
