/* kube: what a Kubernetes object is, and how to talk to an API server about it: ringfence's own, or
 * Kubernetes'. Objects are rf_json values; this room knows their common fields. */
#ifndef RF_KUBE_H
#define RF_KUBE_H

#include <uv.h>

#include "base/base.h"
#include "codec/json.h"
#include "net/http.h"

/* --- resources ------------------------------------------------------------------------------ */

/* The kinds ringfence itself works with. The API server's own table (apiserver/kinds) says more. */
struct rf_kube_res {
	const char *group;   /* "" for core */
	const char *version; /* "v1" */
	const char *plural;  /* "pods" */
	const char *kind;    /* "Pod" */
	bool namespaced;
};
extern const struct rf_kube_res RF_NAMESPACES, RF_PODS, RF_NODES, RF_EVENTS, RF_SECRETS,
	RF_CONFIGMAPS, RF_SERVICEACCOUNTS, RF_RESOURCEQUOTAS, RF_LEASES, RF_ROLES, RF_ROLEBINDINGS,
	RF_CLUSTERROLES, RF_CLUSTERROLEBINDINGS, RF_RESOURCESLICES, RF_RESOURCECLAIMS,
	RF_DEVICECLASSES, RF_TENANTS, RF_QUEUES, RF_GPUPOOLS, RF_PODGROUPS, RF_BUDGETS;

/* "/api/v1/namespaces/a/pods/p/status". Empty ns: all namespaces or cluster scope; empty name: the
 * collection; sub may be NULL. Parts are percent-encoded. */
struct rf_str rf_kube_path(struct rf_arena *a, const struct rf_kube_res *res, struct rf_str ns,
			   struct rf_str name, const char *sub);

/* --- fields every object has ---------------------------------------------------------------- */

struct rf_str rf_kube_name(const struct rf_json *o);
struct rf_str rf_kube_namespace(const struct rf_json *o);
struct rf_str rf_kube_uid(const struct rf_json *o);
int64_t rf_kube_rv(const struct rf_json *o); /* 0 if absent */
struct rf_str rf_kube_label(const struct rf_json *o, const char *key);
struct rf_str rf_kube_annotation(const struct rf_json *o, const char *key);
bool rf_kube_deleting(const struct rf_json *o); /* has a deletionTimestamp */
/* An ownerReference to owner (controller: true), ready to be pushed. */
struct rf_json *rf_kube_owner_ref(struct rf_arena *a, const struct rf_json *owner);
/* "team-a/train" or "gpu-node-1", for messages. */
struct rf_str rf_kube_display(struct rf_arena *a, const struct rf_json *o);

/* --- selectors ------------------------------------------------------------------------------ */

struct rf_selector; /* lives in the arena it was parsed into */
/* "app=x,tier!=db,env in (a,b),!legacy". Empty text matches everything. */
int rf_label_selector_parse(struct rf_arena *a, struct rf_str text, struct rf_selector **ret,
			    struct rf_err *err);
/* metav1.LabelSelector: matchLabels, matchExpressions. NULL or {} matches everything. */
int rf_label_selector_from(struct rf_arena *a, const struct rf_json *selector,
			   struct rf_selector **ret, struct rf_err *err);
bool rf_label_selector_match(const struct rf_selector *s, const struct rf_json *labels);
/* "spec.nodeName=n,status.phase!=Failed": any field by its path, numbers and booleans as text, ""
 * if absent. Which fields a resource lets be selected is the caller's to check, with
 * rf_selector_key. */
int rf_field_selector_parse(struct rf_arena *a, struct rf_str text, struct rf_selector **ret,
			    struct rf_err *err);
bool rf_field_selector_match(const struct rf_selector *s, const struct rf_json *object);
/* The key or field of requirement i, empty past the last. */
struct rf_str rf_selector_key(const struct rf_selector *s, size_t i);
/* Whether the field must equal one value, and which: metadata.name=x needs no scan. */
bool rf_field_selector_exact(const struct rf_selector *s, const char *field,
			     struct rf_str *ret_value);

/* --- patches -------------------------------------------------------------------------------- */

/* Each changes *target in place, in the arena; on failure it may be half-changed: patch a clone.
 * Malformed: RF_BAD_REQUEST; does not apply: RF_INVALID; costs too much: RF_TOO_LARGE. The patch is
 * not changed and nothing of it is kept. */
int rf_patch_merge(struct rf_arena *a, struct rf_json **target, const struct rf_json *patch,
		   struct rf_err *err); /* RFC 7386 */
int rf_patch_json(struct rf_arena *a, struct rf_json **target, const struct rf_json *ops,
		  struct rf_err *err); /* RFC 6902 */
/* Strategic merge: lists of objects merged by the merge keys of built-in kinds, $patch,
 * $retainKeys, $setElementOrder/x, $deleteFromPrimitiveList/x. kind: "Pod". RF_UNSUPPORTED for
 * kinds that are not built in; a custom resource that shares its kind's name with one is the
 * caller's to keep away. */
int rf_patch_strategic(struct rf_arena *a, struct rf_str kind, struct rf_json **target,
		       const struct rf_json *patch, struct rf_err *err);

/* --- kubeconfig ----------------------------------------------------------------------------- */

struct rf_kubeconfig {
	struct rf_str host;
	uint16_t port;
	struct rf_str ca_pem, cert_pem, key_pem, token; /* empty where not given */
	struct rf_str ns;				/* the context's namespace, or "default" */
	struct rf_str token_file; /* where a token that changes is read again, once a minute */
};
/* Without ca_pem the connection is plain HTTP, which is refused for any host but loopback.
 *
 * From a file (the current context), or, with path NULL: $KUBECONFIG, then ~/.kube/config. In a
 * pod: rf_kubeconfig_in_cluster. Strings live in the arena. Ways to log in that ringfence does not
 * know (exec, auth-provider, passwords) and ways to weaken TLS are refused, not ignored. */
int rf_kubeconfig_load(struct rf_arena *a, const char *path, struct rf_kubeconfig *ret,
		       struct rf_err *err);
int rf_kubeconfig_in_cluster(struct rf_arena *a, struct rf_kubeconfig *ret, struct rf_err *err);
/* The file's text, everything inline, context "ringfence". */
struct rf_str rf_kubeconfig_text(struct rf_arena *a, const struct rf_kubeconfig *c,
				 struct rf_str user);

/* --- client: one request at a time, the caller waits ----------------------------------------- */

struct rf_kube;
/* Has a loop of its own, so that a call may be made from inside a callback of another loop. */
int rf_kube_new(const struct rf_kubeconfig *c, struct rf_kube **ret, struct rf_err *err);
void rf_kube_free(struct rf_kube *k);		     /* NULL is fine */
void rf_kube_set_timeout(struct rf_kube *k, int ms); /* default 10 s */

/* An answer that is not 2xx is an error: its code from status and reason, its text the server's
 * message. ret may be NULL. path is as rf_kube_path made it, a query may follow.
 * A connection that breaks before any answer came: GET is tried once more, PUT and DELETE too if
 * the connection was an old one; POST and PATCH never. What an error of a write means says
 * rf_kube_unknown. */
int rf_kube_get(struct rf_kube *k, struct rf_arena *a, struct rf_str path, struct rf_json **ret,
		struct rf_err *err);
int rf_kube_create(struct rf_kube *k, struct rf_arena *a, struct rf_str path,
		   const struct rf_json *object, struct rf_json **ret, struct rf_err *err);
int rf_kube_update(struct rf_kube *k, struct rf_arena *a, struct rf_str path,
		   const struct rf_json *object, struct rf_json **ret,
		   struct rf_err *err); /* PUT */
enum rf_patch_type { RF_PATCH_MERGE, RF_PATCH_JSON, RF_PATCH_STRATEGIC };
int rf_kube_patch(struct rf_kube *k, struct rf_arena *a, struct rf_str path,
		  enum rf_patch_type type, const struct rf_json *patch, struct rf_json **ret,
		  struct rf_err *err);
/* grace_s < 0: the object's own grace period. Not found is success if missing_ok. */
int rf_kube_delete(struct rf_kube *k, struct rf_arena *a, struct rf_str path, int grace_s,
		   bool missing_ok, struct rf_err *err);
/* This very object, not one that was made anew under its name; rv, unless empty: and only as it was then. Not
 * found is success; RF_CONFLICT: it is another by now, or changed. */
int rf_kube_delete_this(struct rf_kube *k, struct rf_arena *a, struct rf_str path, struct rf_str uid,
			struct rf_str rv, struct rf_err *err);
/* After a write: nobody knows whether it was carried out (no answer, an answer that cannot be read, a 5xx), and
 * whoever wants to know has to look. Any other error: it was not. */
bool rf_kube_unknown(int rc);
/* Any body, as text: logs, /metrics. */
int rf_kube_raw(struct rf_kube *k, struct rf_arena *a, struct rf_str path, struct rf_str *ret_text,
		struct rf_err *err);
/* Records an Event about an object; failures are the caller's to ignore. type "Normal"/"Warning".
 */
int rf_kube_event(struct rf_kube *k, const struct rf_json *about, const char *type,
		  const char *reason, const char *component, const char *fmt, ...) RF_PRINTF(6, 7);

/* Percent-encodes all but the unreserved characters: safe as a path segment and in a query. */
void rf_kube_encode(struct rf_buf *out, struct rf_str s);

/* --- informer: a local copy that follows the server ------------------------------------------- */

struct rf_informer;
struct rf_informer_opts {
	const struct rf_kubeconfig *config;
	const struct rf_kube_res *res;
	struct rf_str ns;	      /* empty: all */
	struct rf_str label_selector; /* empty: none */
	struct rf_str field_selector;
	/* Objects are borrowed for the call. before is NULL for new ones, after NULL for deleted
	 * ones. Each change of the server's state is told once; after a reconnect, differences
	 * only. */
	void (*on_change)(void *ctx, const struct rf_json *before, const struct rf_json *after);
	void (*on_sync)(void *ctx); /* the first complete list is here; may be NULL */
	void *ctx;
	/* Something went wrong and is about to be tried again; for the log. May be NULL. */
	void (*on_error)(void *ctx, const struct rf_err *err);
	int idle_ms; /* the longest silence on a watch before it is made anew; 0: 90 s */
};
/* Lists, then watches; reconnects by itself with growing pauses (50 ms to 5 s), relists after 410.
 * Callbacks come from the loop, never from start. An object that was deleted and made anew under
 * its name while nobody watched is told as deleted, then as new. Items of a list get the apiVersion
 * and kind that servers leave out. What opts points to is copied, but res stays where it is. */
int rf_informer_start(uv_loop_t *loop, const struct rf_informer_opts *opts,
		      struct rf_informer **ret, struct rf_err *err);
/* No callback follows; may be called from one. The loop must run on once more for all to be
 * released. */
void rf_informer_stop(struct rf_informer *i);
bool rf_informer_synced(const struct rf_informer *i);
const struct rf_json *rf_informer_get(const struct rf_informer *i, struct rf_str ns,
				      struct rf_str name);
/* for (const struct rf_json *o = NULL; (o = rf_informer_next(i, &slot)) != NULL;) with slot = NULL.
 */
const struct rf_json *rf_informer_next(const struct rf_informer *i,
				       const struct rf_map_slot **slot);
size_t rf_informer_count(const struct rf_informer *i);

#endif
