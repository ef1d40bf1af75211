/* Private to control/. Pure parts first: they are told what is and say what to do, and the tests
 * hold them to it. The shell below them reads informers and writes with the client. */
#ifndef RF_CONTROL_PRIVATE_H
#define RF_CONTROL_PRIVATE_H

#include <uv.h>

#include "control/control.h"
#include "kube/kube.h"
#include "policy/book.h"
#include "sched/core.h"
#include "tenant/admit.h"
#include "tenant/tenant.h"
#include "web/web.h"

#define RF_TENANT_FINALIZER "ringfence.io/tenant"
#define RF_SYSTEM_NAMESPACE "ringfence-system"
#define RF_DEVICE_CLASS "gpu.ringfence.io"

/* --- tenants: what is there, what should be, what to do (reconcile.c) -------------------- */

/* What is there. In the process: the informers. */
struct rf_cluster {
	const struct rf_json *(*get)(void *ctx, const struct rf_kube_res *res, struct rf_str ns,
				     struct rf_str name);
	/* The object after *cursor, NULL at the end; *cursor starts as NULL. */
	const struct rf_json *(*next)(void *ctx, const struct rf_kube_res *res,
				      const void **cursor);
	bool (*has_pods)(void *ctx, struct rf_str ns);
	void *ctx;
};

enum rf_act { RF_ACT_CREATE, RF_ACT_PATCH, RF_ACT_REPLACE, RF_ACT_DELETE };

struct rf_action {
	enum rf_act act;
	const struct rf_kube_res *res;
	struct rf_str ns, name;
	struct rf_str uid;    /* of the one that goes (delete, replace): another of its name stays */
	struct rf_json *body; /* the object, or a merge patch */
};

struct rf_tenant_plan {
	RF_VEC(struct rf_action)
	actions;	   /* in order; the plan owns the vector, the arena the rest */
	const char *phase; /* Ready, Pending, Failed, Terminating */
	const char *reason;
	struct rf_str message;
	bool ready; /* once the actions have succeeded */
};

void rf_tenant_plan(struct rf_arena *a, const struct rf_cluster *c, const struct rf_json *tenant,
		    struct rf_tenant_plan *ret);
void rf_tenant_plan_done(struct rf_tenant_plan *p);
/* A merge patch for the status, NULL if it says that already. */
struct rf_json *rf_tenant_status(struct rf_arena *a, const struct rf_json *tenant,
				 const struct rf_tenant_plan *plan, int64_t now_ms);
/* A merge patch that makes `is` say what `wanted` says, NULL if it does. Members of `is` that
 * wanted does not mention stay, except under spec, where wanted is everything (differ.c). */
struct rf_json *rf_object_differ(struct rf_arena *a, const struct rf_json *wanted,
				 const struct rf_json *is);

/* --- claims and bindings, as objects (claims.c) ------------------------------------------ */

struct rf_json *rf_claim_object(struct rf_arena *a, const struct rf_json *pod,
				const struct rf_core_decision *d);
/* The claim with its status: what is granted, and to whom. */
struct rf_json *rf_claim_allocated(struct rf_arena *a, const struct rf_json *claim,
				   const struct rf_json *pod, const struct rf_core_decision *d,
				   int64_t now_ms);
struct rf_json *rf_pod_binding(struct rf_arena *a, const struct rf_json *pod, struct rf_str node);
/* Merge patch: status.extendedResourceClaimStatus. NULL: there is nothing to tell. */
struct rf_json *rf_pod_claim_patch(struct rf_arena *a, const struct rf_json *pod,
				   struct rf_str claim, const struct rf_core_decision *d);
/* Did the server keep what was written? RF_UNSUPPORTED with the feature gate that is off. */
int rf_claim_kept(const struct rf_json *written, const struct rf_json *pod,
		  const struct rf_core_decision *d, struct rf_err *err);
int rf_pod_claim_kept(const struct rf_json *written, struct rf_str claim, struct rf_err *err);
/* Strategic patch: condition PodScheduled=False. NULL if the pod says so already. */
struct rf_json *rf_pod_waits_patch(struct rf_arena *a, const struct rf_json *pod,
				   struct rf_str reason, int64_t now_ms);
/* Evicts this very pod, as its disruption budgets allow; and the condition that says why it had to go. */
struct rf_json *rf_pod_eviction(struct rf_arena *a, const struct rf_json *pod);
struct rf_json *rf_pod_evicted_patch(struct rf_arena *a, const struct rf_json *pod, const char *why,
				     struct rf_str reason, int64_t now_ms);
bool rf_claim_is_ours(const struct rf_json *claim);
struct rf_str rf_claim_owner(const struct rf_json *claim,
			     const char *field); /* the pod's "name", "uid" */
/* pod: what has that name now, NULL if nothing has. */
bool rf_claim_orphaned(const struct rf_json *claim, const struct rf_json *pod);

/* --- placing: facts to the scheduler's core, its decisions to the API ----------------------------- */

/* How placing reads and writes; in the process: the client. The tests count and break the writes. */
struct rf_hands {
	int (*get)(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret,
		   struct rf_err *err);
	int (*create)(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		      struct rf_json **ret, struct rf_err *err);
	int (*update)(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object,
		      struct rf_json **ret, struct rf_err *err);
	int (*patch)(void *ctx, struct rf_arena *a, struct rf_str path, enum rf_patch_type type,
		     const struct rf_json *patch, struct rf_json **ret, struct rf_err *err);
	/* As rf_kube_delete_this: what is not there is removed, another of its name stays. */
	int (*remove)(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_str uid, struct rf_str rv,
		      struct rf_err *err);
	void (*event)(void *ctx, const struct rf_json *about, const char *type, const char *reason,
		      struct rf_str text);
	bool (*may)(void *ctx); /* false: another leads, nothing is written any more */
	void *ctx;
};

/* A write of which nobody knows whether it was carried out: the API is asked before anything is tried again.
 * Until it says what became of a placement or an eviction, nothing more is decided; a claim that may be deleted
 * counts as one that is, and holds its cards. */
struct rf_limbo {
	enum rf_limbo_kind { RF_LIMBO_PLACE, RF_LIMBO_EVICT, RF_LIMBO_DROP } kind;
	char *uid, *ns, *name; /* the pod's; of a drop the claim's */
	char *claim;	       /* its name, or empty */
	char *open;	       /* uid of the claim whose allocation was on its way, or empty */
	char *why;	       /* of an eviction: its reason */
	const char *cause;     /* of an eviction: its name */
	int tries;
	int64_t next_ms; /* of a drop: not looked at before */
};
void rf_limbo_done(struct rf_limbo *l);

struct rf_unclaimed { /* a pod that may have lost its claim (unclaimed.c) */
	int64_t next_ms;
	char *ns, *name;
};

struct rf_placer {
	struct rf_core *core;
	struct rf_hands hands;
	struct rf_cluster cluster;  /* get of pods, claims, namespaces, groups, queues, slices; next of queues */
	const char *scheduler;	    /* as rf_control_opts.scheduler_name */
	bool moving;		    /* the core is asked for moves: what nobody would make again is pinned */
	int64_t now_ms;		    /* never goes back; to be set before each call */
	struct rf_map pools;	    /* a node -> the names of its slices */
	struct rf_map bound;	    /* a pod's uid -> its node: bound here, the watch has yet to say so */
	struct rf_map dropped;	    /* uids of claims that were deleted here, the watch has yet to say so */
	struct rf_map told;	    /* a waiting pod's uid -> when it was last told why (waits.c) */
	RF_VEC(char *) tell;	    /* uids of those whose reason changed, from tell_head on */
	size_t tell_head;
	RF_VEC(struct rf_limbo) limbo;
	RF_VEC(struct rf_unclaimed) unclaimed; /* to be looked at, from unclaimed_head on */
	size_t unclaimed_head;
	struct rf_map tracked;	    /* a pod's uid -> how it is counted (books.c) */
	struct rf_map groups;	    /* "ns/name" -> its count */
	struct rf_map queues;	    /* name -> its count */
	struct rf_map groups_due;   /* groups whose status may have to change */
	struct rf_map groups_trouble, queues_trouble; /* those whose status could not be written -> when to try again */
	struct {
		RF_VEC(char *) names; /* queues that are looked at in this round, from `at` on */
		struct rf_map sums;   /* name -> the count of it and of those below it, when the round began */
		size_t at;
		bool usage;	     /* past usage is written, too */
		bool due, due_usage; /* another round */
	} round;
	struct rf_map bad_queues;   /* queues that do not hold as written -> why */
	int64_t running;	    /* pods with a place */
	bool moved;		    /* counts changed since the queues' status was written */
};

void rf_placer_init(struct rf_placer *p, struct rf_core *core);
void rf_placer_done(struct rf_placer *p); /* the core is the caller's */

/* Facts (feed.c). after NULL: it is gone. */
void rf_feed_tenant(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_namespace(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_node(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_pod(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_claim(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_slice(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_queue(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_group(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_budget(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_feed_gpu_pool(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
/* It was deleted here, and goes when its node lets it: nothing may count on it any more. */
void rf_feed_claim_dropped(struct rf_placer *p, const struct rf_json *claim);
/* Our own binding, before the watch repeats it. */
void rf_feed_binding(struct rf_placer *p, const struct rf_json *pod, struct rf_str node);
bool rf_pod_is_for_us(const struct rf_json *pod, const char *scheduler);
/* The owner that makes the pod again when it is gone: a controller, and no node; NULL: nobody would. */
const struct rf_json *rf_pod_maker(const struct rf_json *pod);

/* Counts by gang and queue (books.c). */
void rf_books_pod(struct rf_placer *p, const struct rf_sched_pod *pod);
void rf_books_pod_gone(struct rf_placer *p, struct rf_str uid);
/* Of a write: nobody answers, and the others would wait for as long. */
static inline bool rf_is_away(int rc)
{
	return rc == -RF_UNAVAILABLE || rc == -RF_TIMEOUT;
}
void rf_books_say(struct rf_placer *p, struct rf_str uid, struct rf_str message); /* why its gang waits */
void rf_books_group_due(struct rf_placer *p, struct rf_str ns, struct rf_str name);
void rf_books_group_gone(struct rf_placer *p, struct rf_str ns, struct rf_str name);
int rf_books_write_group(struct rf_placer *p, struct rf_str ns, struct rf_str name); /* now, if it is due or not */
void rf_books_done(struct rf_placer *p);
/* Write what is due of the status of groups, and of queues whose counts changed: a bounded lot a turn, all of them
 * in turn, and what fails is tried again ever more rarely and holds up nobody. When to come again, in ms from now;
 * -1: nothing is left. */
int64_t rf_books_write_groups(struct rf_placer *p);
int64_t rf_books_write_queues(struct rf_placer *p);
void rf_books_queues_due(struct rf_placer *p, bool usage); /* all of them; usage too if asked */
/* Merge patches; NULL: it says so already. */
struct rf_json *rf_group_status(struct rf_arena *a, const struct rf_json *group, bool started,
				int64_t scheduled, int64_t ending_ms, struct rf_str message);
struct rf_json *rf_queue_status(struct rf_placer *p, struct rf_arena *a, const struct rf_json *queue,
				bool usage);

/* Decisions (carry.c). Carries them out in order, commit by commit; what cannot be is told to the core.
 * False: the API server does not answer, and the rest was not tried. */
bool rf_carry(struct rf_placer *p, struct rf_arena *a, const struct rf_core_decision *all, size_t n);
/* Asks what became of writes without an answer; true: nothing is unknown any more that decisions depend on. */
bool rf_carry_settle(struct rf_placer *p);
int64_t rf_carry_next_ms(const struct rf_placer *p); /* when to ask again; INT64_MAX: there is nothing to ask */

/* After the deed: condition and event. */
void rf_carry_say_evicted(struct rf_placer *p, struct rf_arena *a, const struct rf_json *pod, const char *cause, struct rf_str reason);

/* Bound pods without their claim (unclaimed.c): heard of, and evicted when the server says so, too. When to come again, in ms from
 * now; -1: there are none. */
void rf_unclaimed_pod(struct rf_placer *p, const struct rf_json *before, const struct rf_json *after);
void rf_unclaimed_claim_gone(struct rf_placer *p, const struct rf_json *claim);
int64_t rf_unclaimed_turn(struct rf_placer *p);

/* Why pods wait, told to them one after the other and not too often (waits.c). */
void rf_wait_note(struct rf_placer *p, const struct rf_core_decision *d);
/* Tells some; when to come again, in ms from now; -1: there is nobody left to tell. */
int64_t rf_wait_tell(struct rf_placer *p);

/* One bounded turn (placing.c): when to come again, in ms from now; -1: when something happens. */
int64_t rf_placer_turn(struct rf_placer *p);

/* Past usage, in ConfigMap ringfence-system/ringfence-ledger (ledger.c). */
#define RF_LEDGER_NAME "ringfence-ledger"
int rf_usage_load(struct rf_placer *p, struct rf_err *err);
int rf_usage_save(struct rf_placer *p, struct rf_err *err);

/* The core's events in a file, at most `most` bytes and as many in FILE.1 (ledger.c). */
#define RF_EVENT_LOG_MAX ((int64_t)256 << 20)
struct rf_event_log;
int rf_event_log_open(const char *path, int64_t most, struct rf_event_log **ret, struct rf_err *err);
void rf_event_log_line(void *log, struct rf_str line);
void rf_event_log_close(struct rf_event_log *l); /* NULL is fine */

/* --- looking, without doing (snapshot.c, defragment.c) --------------------------------------------- */

struct rf_snapshot {
	struct rf_arena a;
	struct rf_map objects; /* path -> what is there */
	struct rf_placer placer;
};
/* Reads all that the core has to know by hands->get; done is due whatever comes back. */
int rf_snapshot_take(struct rf_snapshot *s, const struct rf_hands *h, const char *scheduler, int64_t now_ms,
		     struct rf_err *err);
void rf_snapshot_done(struct rf_snapshot *s);
/* As in control.h; of the hands get, create and event are used. */
int rf_defragment_plan_by(const struct rf_hands *h, const struct rf_defragment_opts *o, struct rf_arena *a,
			  struct rf_json **ret, struct rf_err *err);
int rf_defragment_apply_by(const struct rf_hands *h, struct rf_arena *a, const struct rf_json *plan, size_t *ret_done,
			   struct rf_err *err);

/* --- pod groups of other schedulers (adopt.c) ------------------------------------------------------ */

struct rf_adopt {
	const struct rf_hands *hands;
	const struct rf_cluster *cluster; /* get of namespaces, queues and groups */
	struct rf_map told;		  /* a foreign group's uid -> what was wrong with it when it was last told */
	struct rf_map wrote;		  /* its uid -> what it was last told, and how often (adopt_status.c) */
	int64_t now_ms;			  /* the wall's */
	bool bare;			  /* Volcano's kind has no subresource for status */
};
/* Writes the PodGroup of ringfence that the foreign one means, if it is a tenant's and there is none; deletes the one
 * that was made from it and says something else, unless it started: the next look makes it. What is wrong with it is an event about it. An error: to be tried again. */
int rf_adopt_group(struct rf_adopt *d, const struct rf_json *foreign, struct rf_err *err);
void rf_adopt_forget(struct rf_adopt *d, const struct rf_json *foreign);
/* A merge patch that tells a foreign group how the one made from it fares, in its own words; NULL: it says so, or is
 * further (adopt_status.c). tell: writes it. */
struct rf_json *rf_adopt_status(struct rf_arena *a, const struct rf_json *foreign, const struct rf_json *ours,
				int64_t now_ms);
int rf_adopt_tell(struct rf_adopt *d, const struct rf_json *foreign, const struct rf_json *ours, struct rf_err *err);
void rf_adopt_tell_forget(struct rf_adopt *d, const struct rf_json *foreign);
void rf_adopt_done(struct rf_adopt *d);

struct rf_control;

/* Follows them. start: NULL where no such habit is on; never fails, goes on trying. The loop must run to its end
 * between stop and free. NULL is fine in all of them. */
struct rf_adoption *rf_adoption_start(struct rf_control *c);
void rf_adoption_stop(struct rf_adoption *p);
void rf_adoption_free(struct rf_adoption *p);
void rf_adoption_all_due(struct rf_adoption *p);
void rf_adoption_look_again(struct rf_adoption *p); /* for kinds that were not there, now */
/* One of our own groups changed or went. */
void rf_adoption_ours_changed(struct rf_adoption *p, const struct rf_json *ours);

/* --- admission reviews of Kubernetes (webhook_review.c, webhook_recent.c) ------------------------ */

/* Pods that were admitted a moment ago and that the informers have yet to show. It only makes refusals
 * earlier: the scheduler counts claims, whatever is forgotten here. */
#define RF_RECENTS_MAX 256
#define RF_RECENT_MS 5000
struct rf_recent {
	char ns[64], name[256], uid[64]; /* uid empty: not known */
	struct rf_tenant_use use;
	int64_t until_ms;
};
struct rf_recents {
	struct rf_recent at[RF_RECENTS_MAX];
	size_t n;
};
/* A second one of the name replaces the first; when full, the oldest goes. */
void rf_recents_put(struct rf_recents *r, struct rf_str ns, struct rf_str name, struct rf_str uid,
		    const struct rf_tenant_use *use, int64_t now_ms);
/* Adds those of the tenant's namespaces, but for ns/name; drops what is shown or too old. */
void rf_recents_count(struct rf_recents *r, const struct rf_cluster *c, struct rf_str tenant,
		      struct rf_str ns, struct rf_str name, int64_t now_ms,
		      struct rf_tenant_use *use);

struct rf_reviewer {
	struct rf_cluster cluster; /* get and next of tenants, namespaces, pods and quotas */
	const char *scheduler;	   /* ringfence's name as a scheduler */
	bool synced;		   /* the cluster is all there */
	int64_t now_ms;		   /* of a clock that never goes back */
	struct rf_recents recents;
	const struct rf_book *book; /* NULL: there are no policies to ask, only pods are judged */
	bool loaded;		    /* the book holds all the cluster has */
	bool closed;		    /* what asks for no cards is refused, too, when it cannot be judged */
	const char *exempt;	    /* namespaces the book is not asked about, comma-separated; or NULL */
	struct rf_book_inventory inventory;
};
/* Kubernetes' and ringfence's own: a policy on them would keep the cluster from starting. */
#define RF_POLICY_EXEMPT "kube-system," RF_SYSTEM_NAMESPACE
/* Gatekeeper's label for namespaces that are left alone; administrators' to set (deploy/base/policies.yaml). */
#define RF_POLICY_IGNORE "admission.gatekeeper.sh/ignore"
#define RF_CONTROL_USER "system:serviceaccount:" RF_SYSTEM_NAMESPACE ":ringfence-control"
enum rf_review { RF_REVIEW_MUTATE, RF_REVIEW_VALIDATE };
/* An AdmissionReview with the answer, as text in the arena. One that is malformed, too large or too deep is
 * answered with a refusal. An error: what came is no review of admission.k8s.io/v1, or has no uid to answer to.
 * The arena's cap bounds what the review may grow to. */
int rf_webhook_review(struct rf_reviewer *r, struct rf_arena *a, enum rf_review what,
		      struct rf_str body, struct rf_str *ret, struct rf_err *err);

/* JSON of what a review holds; strings stay where they are (webhook_json.c). RF_TOO_LARGE. */
int rf_webhook_json(struct rf_arena *a, struct rf_rv v, struct rf_json **ret, struct rf_err *err);

/* Quotas of the namespace on `limits.<cards>`, which Kubernetes does not count (webhook_quota.c). */
int rf_webhook_quota(const struct rf_reviewer *r, struct rf_arena *a, const struct rf_json *pod,
		     struct rf_str ns, struct rf_err *err);

/* --- the cluster's policies, for the webhook ---------------------------------------------------------- */

/* The book, fed by informers of its own (webhook_book.c). start: never fails, goes on trying. The loop
 * must run to its end between stop and free. */
struct rf_bookkeeper *rf_bookkeeper_start(struct rf_control *c);
void rf_bookkeeper_stop(struct rf_bookkeeper *p);
void rf_bookkeeper_free(struct rf_bookkeeper *p); /* NULL is fine, here and below */
const struct rf_book *rf_bookkeeper_book(const struct rf_bookkeeper *p);
struct rf_book_inventory rf_bookkeeper_inventory(const struct rf_bookkeeper *p);
bool rf_bookkeeper_loaded(struct rf_bookkeeper *p); /* all that the cluster has was read once */

/* Objects that policies want to look at (webhook_inventory.c). want..: what these templates, SyncSets and
 * Configs name, and nothing else; tend: follow what is wanted. get: an rf_book_inventory's fn; an error until all of it was read. */
struct rf_inventory *rf_inventory_new(struct rf_control *c);
void rf_inventory_stop(struct rf_inventory *i);
void rf_inventory_free(struct rf_inventory *i);
void rf_inventory_want_nothing(struct rf_inventory *i);
void rf_inventory_want(struct rf_inventory *i, const struct rf_json *o);
void rf_inventory_tend(struct rf_inventory *i);
int rf_inventory_get(void *inventory, struct rf_arena *a, struct rf_rv *ret, struct rf_err *err);

/* As objects (webhook_crd.c). The CustomResourceDefinition of a template's kind; a merge patch for one that
 * is there, NULL if it needs none or is not ours. */
struct rf_json *rf_constraint_crd(struct rf_arena *a, const struct rf_json *template);
struct rf_json *rf_constraint_crd_patch(struct rf_arena *a, const struct rf_json *template,
					const struct rf_json *is);
struct rf_str rf_constraint_plural(struct rf_arena *a, struct rf_str kind);
/* {"code", "location", "message"} of a compiler's words. */
struct rf_json *rf_policy_error(struct rf_arena *a, const char *problem);
/* A merge patch for the status of a template or constraint; problem "": none. NULL: it says so already. */
struct rf_json *rf_policy_status(struct rf_arena *a, const struct rf_json *o, const char *problem);

/* --- the webhook's certificates (certificates.c) -------------------------------------------------- */

#define RF_WEBHOOK_SECRET "ringfence-webhook"
struct rf_webhook_keys { /* PEM */
	struct rf_str ca_cert, ca_key, cert, key;
};
/* RF_INVALID: not to be used (any longer), and why. The CA comes first: bad_ca says that it is at fault. */
int rf_webhook_keys_check(const struct rf_webhook_keys *k, const char *service, int64_t now_ms,
			  bool *bad_ca, struct rf_err *err);
/* A new serving certificate, and a new CA too if new_ca. */
int rf_webhook_keys_make(struct rf_arena *a, const char *service, bool new_ca,
			 struct rf_webhook_keys *k, struct rf_err *err);
/* The Secret's keys, made or renewed where they are not fit for use. When replicas meet, the first to
 * write wins and the others take what it wrote. */
int rf_webhook_keys_get(struct rf_kube *k, struct rf_arena *a, const char *service, int64_t now_ms,
			struct rf_webhook_keys *ret, struct rf_err *err);
/* Writes keys over what was read (NULL: nothing was there). RF_EXISTS, RF_CONFLICT: somebody was faster. */
int rf_webhook_keys_put(struct rf_kube *k, struct rf_arena *a, const struct rf_json *secret,
			const struct rf_webhook_keys *keys, struct rf_err *err);
/* A strategic merge patch that gives every webhook of the configuration this CA; NULL if all have it. */
struct rf_json *rf_webhook_ca_patch(struct rf_arena *a, const struct rf_json *configuration,
				    struct rf_str ca_cert);

/* --- the lease (lease.c) ----------------------------------------------------------------- */

#define RF_LEASE_S 15
#define RF_LEASE_RENEW_MS 5000
#define RF_LEASE_RETRY_MS 500

struct rf_lease {
	char me[200];
	char seen[256];	    /* the holder and its last sign of life, as last read */
	int64_t seen_ns;    /* since when it reads so */
	int64_t renewed_ns; /* our last success; 0: not held */
};

enum rf_lease_move { RF_LEASE_TAKE, RF_LEASE_RENEW, RF_LEASE_WAIT };
/* unchanged_ms: how long the lease has not changed, by our own clock. holder_dead: it was a process
 * of this machine, and it is gone. */
enum rf_lease_move rf_lease_judge(const struct rf_json *lease, struct rf_str me, bool holder_dead,
				  int64_t unchanged_ms);
/* "<boot>_<pid namespace>_<pid>_<start time>", in a pod that says who it is ($RINGFENCE_POD, its uid)
 * with "<pod>/" before it. */
void rf_lease_identify(char *out, size_t size, pid_t pid);
/* True only if the holder was in this boot and this pid namespace, and is no more; or was in this very
 * pod, before its container was started again. */
bool rf_lease_holder_dead(struct rf_str me, struct rf_str holder);
void rf_lease_init(struct rf_lease *l);
int rf_lease_step(struct rf_lease *l, struct rf_kube *k, struct rf_err *err);
bool rf_lease_held(const struct rf_lease *l);
void rf_lease_release(struct rf_lease *l, struct rf_kube *k);

/* --- the process ------------------------------------------------------------------------- */

enum rf_informer_kind {
	RF_I_TENANTS,
	RF_I_NAMESPACES,
	RF_I_NODES,
	RF_I_PODS,
	RF_I_CLAIMS,
	RF_I_SLICES,
	RF_I_QUEUES,
	RF_I_GROUPS,
	RF_I_BUDGETS,
	RF_I_GPU_POOLS,
	RF_I_QUOTAS,
	RF_I_BINDINGS,
	RF_I_ACCOUNTS,
	RF_I_CLUSTER_ROLES,
	RF_I_CLUSTER_BINDINGS,
	RF_I_COUNT
};

struct rf_control {
	const struct rf_control_opts *opts;
	uv_loop_t loop;
	uv_timer_t begin_timer, lease_timer, work_timer;
	uv_signal_t term, interrupt;
	struct rf_arena a; /* the kubeconfig's */
	struct rf_kubeconfig config;
	bool configured;
	struct rf_kube *kube;
	struct rf_informer *informers[RF_I_COUNT];
	struct rf_control_ear {
		struct rf_control *c;
		enum rf_informer_kind kind;
	} ears[RF_I_COUNT];
	struct rf_placer placer;
	struct rf_event_log *event_log;
	int64_t epoch_ms; /* the wall's time when the monotonic clock was 0: what placing goes by never goes back */
	struct rf_map crowded;	    /* namespaces that a tenant cannot have while pods are in them */
	struct rf_map tenants_some; /* tenants to look at, where not all are */
	struct rf_map claims_some;  /* "ns/name" of claims whose pods may have ended */
	int64_t place_ms;	      /* when to place although nothing happened */
	int64_t status_ms, ledger_ms; /* when the queues' status and the ledger were last written */
	struct rf_lease lease;
	struct rf_err failed;	/* why the process ends */
	char complaint[256];	/* the last one logged while waiting */
	uint64_t complained_ms; /* when an informer's was logged last, ms of the loop */
	bool tenants_due; /* all of them */
	bool some_due, claims_due, pods_due;
	bool groups_due; /* foreign ones */
	bool ready, stopping;
	struct rf_tls *dashboard_tls;
	struct rf_web *dashboard;
	struct rf_webhook *webhook;
	struct rf_adoption *adoption;	/* NULL: no foreign groups */
	struct rf_bookkeeper *policies; /* for the webhook; NULL: none is served */
};

/* Runs what is due after the given pause; sooner if that was asked for already. */
void rf_control_wake(struct rf_control *c, uint64_t ms);
bool rf_control_leads(const struct rf_control *c);
void rf_control_fail(struct rf_control *c, const struct rf_err *err); /* ends the process, for this */

/* Each returns false if something has to be tried again. */
bool rf_control_tenants(struct rf_control *c);	    /* tenants.c: all of them */
bool rf_control_some_tenants(struct rf_control *c); /* those in tenants_some */
bool rf_control_collect(struct rf_control *c);	    /* collect.c */
bool rf_control_adopt(struct rf_control *c);	    /* adopt.c */

void rf_control_placer(struct rf_control *c); /* gives it hands and eyes (hands.c) */
int64_t rf_control_now(const struct rf_control *c);

/* Serves the page if one was asked for (dashboard.c). */
int rf_control_dashboard(struct rf_control *c, struct rf_err *err);

/* Serves admission reviews if asked to, whether this process leads or not (webhook.c). again: the API
 * server did not let us have the certificate, and may do so later. */
int rf_control_webhook(struct rf_control *c, bool *again, struct rf_err *err);
/* What its timer does: certificate and configurations as they should be. look_again: also read the
 * Secret, though it is not due. */
int rf_webhook_tend(struct rf_webhook *w, bool look_again, struct rf_err *err);
uint16_t rf_webhook_port(const struct rf_webhook *w);
void rf_webhook_stop(struct rf_webhook *w); /* NULL is fine; the loop must run on */

/* What the informers hear, and what is due because of it (heard.c). */
void rf_control_heard(void *ear, const struct rf_json *before, const struct rf_json *after);

#endif
