/* The judgement on a new pod: may it come in, given whose namespace it enters and what that tenant
 * holds already? The embedded API server asks inside its write transaction, control's webhook on
 * Kubernetes with what its informers know: one judgement, one wording. Pure: no clock, no network. */
#ifndef RF_TENANT_ADMIT_H
#define RF_TENANT_ADMIT_H

#include "tenant/tenant.h"

#define RF_SCHEDULER "ringfence"

/* What a tenant's pods hold together. Sums stop at RF_TENANT_USE_MAX; they never wrap. */
#define RF_TENANT_USE_MAX (INT64_MAX / 4)
struct rf_tenant_use {
	int64_t cards, share_bytes, pods;
};
/* A pod that has ended adds nothing; one whose ask cannot be read adds itself and no cards. */
void rf_tenant_use_add_pod(struct rf_tenant_use *u, const struct rf_json *pod);
void rf_tenant_use_add(struct rf_tenant_use *u, const struct rf_tenant_use *more);

struct rf_admission {
	const struct rf_json *pod;
	struct rf_str ns;	      /* where it wants to be */
	struct rf_str tenant_name;    /* the namespace's label; empty: nobody's */
	const struct rf_json *tenant; /* the Tenant of that name; NULL: there is none */
	const struct rf_json *queue;  /* the Queue that the pod's label names; NULL: none, or it is not there (yet) */
	struct rf_tenant_use used;    /* by the tenant's other pods */
	bool platform;		      /* an administrator or ringfence itself asks */
	const char *scheduler; /* what ringfence is called as a scheduler; NULL: RF_SCHEDULER */
};
/* RF_INVALID: the ask, or what it says of itself, is malformed. RF_FORBIDDEN: it may not come in; the message says why and what to
 * do. A pod that asks for cards must also keep pod security's level baseline, whatever its namespace's
 * label says: who can reach the machine can reach every card on it. */
int rf_tenant_admit(struct rf_arena *a, const struct rf_admission *ask, struct rf_err *err);

/* A pod that is there already and is to be changed (an ephemeral container, for one): the ask stays,
 * and one with cards stays within baseline. A pod that is being deleted, or whose spec stays as it is,
 * may be changed: who carries finalizers away must not be held up. */
int rf_tenant_admit_change(const struct rf_json *old, const struct rf_json *pod,
			   struct rf_err *err);

/* A new PodGroup in a namespace of this tenant (empty: nobody's). queue: the Queue that its spec names; NULL: there is none. It names a
 * queue of its tenant, or RF_FORBIDDEN: in the same words whether somebody else has such a queue or nobody does. */
int rf_tenant_admit_group(const struct rf_json *group, struct rf_str ns, struct rf_str tenant, const struct rf_json *queue,
			  struct rf_err *err);

/* --- how a quota refuses -------------------------------------------------------------------- */

struct rf_excess {
	struct rf_buf asked, used, limited;
};
#define RF_EXCESS_INIT                                                                             \
	{                                                                                          \
		RF_BUF_INIT, RF_BUF_INIT, RF_BUF_INIT                                              \
	}
void rf_excess_add(struct rf_excess *e, struct rf_str key, struct rf_str asked, struct rf_str used,
		   struct rf_str limited);
/* RF_FORBIDDEN, as Kubernetes words it and with what to do; 0 if nothing was added. */
int rf_excess_refuse(const struct rf_excess *e, const char *of, struct rf_str name,
		     struct rf_err *err);
void rf_excess_done(struct rf_excess *e);

#endif
