/* The book of a cluster's policies: what the embedded API server's write path and the admission webhook
 * both ask before anything is let in. It holds
 *
 *   ConstraintTemplates and Constraints (gatekeeper.h), as they are;
 *   plain Rego from ConfigMaps in RF_BOOK_NAMESPACE labelled RF_BOOK_LABEL: "rego" (every key is a module;
 *   of each package <p> below data.kubernetes.admission or equal to it, the set `deny` refuses, `warn`
 *   warns), with input {"apiVersion", "kind": "AdmissionReview", "request": the request}.
 *
 * One thread changes and asks it (each server's loop). What cannot be compiled is refused when it is
 * put, and the last version that could be compiled stays in force; a policy that breaks while it is
 * evaluated refuses what it was asked about. */
#ifndef RF_POLICY_BOOK_H
#define RF_POLICY_BOOK_H

#include "policy/gatekeeper.h"

#define RF_BOOK_NAMESPACE "ringfence-system"
#define RF_BOOK_LABEL "openpolicyagent.org/policy"
#define RF_BOOK_STEPS 20000000LL /* of one judgement, all plain modules together; constraints: gatekeeper.h */
#define RF_BOOK_MESSAGE_MAX ((size_t)32 << 10) /* what an answer says; the rest becomes "and N more" */

struct rf_book;

struct rf_book *rf_book_new(void);
void rf_book_free(struct rf_book *b); /* NULL is allowed */
RF_DEFINE_AUTO_PTR(book);

/* Whether put takes it: a ConstraintTemplate, a Constraint, a ConfigMap as above. */
bool rf_book_is_policy(const struct rf_json *object);
/* Takes it in, or its new version. A Constraint that comes before its template waits for it. Errors:
 * RF_INVALID with the compiler's or the schema's words; what was in force stays. */
int rf_book_put(struct rf_book *b, const struct rf_json *object, struct rf_err *err);
/* As put, but changes nothing: for the judgement on a write of the policy itself. */
int rf_book_check(const struct rf_book *b, const struct rf_json *object, struct rf_err *err);
/* It is gone. What was never there is fine. */
void rf_book_drop(struct rf_book *b, const struct rf_json *object);
/* Why a policy of the cluster judges nothing although it should: it cannot be used, and no earlier version of it is in
 * force. NULL: there is none such. (What ringfence does not run at all, CEL, is another's to run.) */
const char *rf_book_gap(const struct rf_book *b);
bool rf_book_is_empty(const struct rf_book *b); /* nothing is in force: whatever is asked is allowed */
/* Why its last version is not in force (a template it waits for came and does not take its parameters, a
 * module it needs is missing); empty: it is, it waits for its template, or it was never put. */
const char *rf_book_problem(const struct rf_book *b, const struct rf_json *object);

/* Where referential policies look (data.inventory): asked at most once per judgement, and only if a policy
 * that matches reads it. NULL fn: there is none, and such a policy sees an empty inventory. */
struct rf_book_inventory {
	int (*fn)(void *ctx, struct rf_arena *a, struct rf_rv *ret, struct rf_err *err);
	void *ctx;
};

struct rf_book_verdict {
	bool allowed;
	struct rf_str message;	 /* why not: one line per violation, "[constraint] msg" */
	struct rf_str *warnings; /* of action warn, the same form; as Kubernetes passes them on */
	size_t n_warnings;
};

/* request: an AdmissionRequest. An error: it could not be judged, and nothing may be let through that must be
 * judged (the caller knows what may fail open). */
int rf_book_judge(const struct rf_book *b, struct rf_rv request, const struct rf_book_inventory *inventory,
		  struct rf_arena *a, struct rf_book_verdict *ret, struct rf_err *err);

#endif
