/* What the files of this room share: the server's state and one request under way. */
#ifndef RF_APISERVER_API_H
#define RF_APISERVER_API_H

#include <uv.h>

#include "apiserver/kinds.h"
#include "apiserver/routes.h"
#include "apiserver/store.h"
#include "base/base.h"
#include "codec/json.h"
#include "net/http.h"

#define RF_BODY_MAX (3 * 1024 * 1024)
/* What one request may hold in memory while it is worked on. */
#define RF_REQUEST_MEMORY (96 * 1024 * 1024)

/* What one person or service account may leave unread: of its watches, and of other answers. */
#define RF_USER_PENDING_MAX (128 * 1024 * 1024)

#define RF_CONTROL_USER "system:ringfence:control"
#define RF_MASTERS "system:masters"
#define RF_NODES_GROUP "system:nodes"
#define RF_NODE_PREFIX "system:node:"

struct rf_user {
	struct rf_str name;
	struct rf_str uid;
	struct rf_str groups[32];
	size_t n_groups;
	int64_t until_s; /* when its token ends, as Unix time; 0: it has none */
};
bool rf_user_in(const struct rf_user *u, const char *group);
/* Administrators and control: those who may write what decides over tenants. */
bool rf_user_is_platform(const struct rf_user *u);
/* The node's name if the user is a node agent, else empty. */
struct rf_str rf_user_node(const struct rf_user *u);

struct rf_hub;
struct rf_rbac;
struct rf_answer;
struct rf_policies;

/* Namespaces whose quotas or end must be looked at before the transaction commits. */
struct rf_tx {
	struct rf_map quota_dirty;
	struct rf_map end_dirty;
};

struct rf_api {
	uv_loop_t *loop;
	const struct rf_clock *clock;
	struct rf_store *store;
	struct rf_hub *hub;
	struct rf_rbac *rbac;
	struct rf_policies *policies;
	struct rf_tx tx;
	struct rf_map budget_noted; /* namespaces whose budgets are to be counted again (budget.h) */
	struct rf_answer *answers; /* large ones that are still being read */
	/* Where tokens are signed, and who we are to node agents; PEM text, owned. */
	struct rf_str sa_key, sa_pub;
	struct rf_tls *node_tls; /* NULL: logs cannot be fetched */
	struct rf_arena forever; /* for the strings above */
	int64_t ticks;		 /* seconds of housekeeping */
	bool trim_more;		 /* history is longer than one batch could shorten */
};

/* How the client wants objects: as they are, as rows for people, or their metadata only. */
enum rf_form { RF_FORM_FULL, RF_FORM_TABLE, RF_FORM_META };

struct rf_req {
	struct rf_api *api;
	struct rf_http_req *http;
	struct rf_arena *a; /* for this request; streams use http->arena for what must stay */
	struct rf_user user;
	struct rf_route route;
	enum rf_form form;
	bool include_objects; /* tables carry whole objects */
	bool dry_run;
	struct rf_buf warnings; /* one per line, for Warning headers */
	struct rf_str denied;	/* a policy's words, longer than an error's; empty else */
};

/* --- answers (reply.c) ------------------------------------------------------------------------ */

void rf_reply_error(struct rf_req *r, const struct rf_err *err);
void rf_reply_object(struct rf_req *r, int status, const struct rf_json *object);
void rf_reply_json(struct rf_req *r, int status, struct rf_str json);
/* RF_EXHAUSTED for somebody who asks for more and more and reads none of it. */
int rf_check_unread(struct rf_req *r, struct rf_err *err);
/* A metav1.Status of success about the object. */
void rf_reply_done(struct rf_req *r, int status, struct rf_str name, struct rf_str uid);
/* The error as a metav1.Status; name and kind may be empty. */
void rf_status_write(struct rf_buf *out, const struct rf_err *err, struct rf_str name,
		     const struct rf_kind *k);
/* The object in the version that the route asks for. */
const struct rf_json *rf_as_asked(struct rf_arena *a, const struct rf_route *t,
				  const struct rf_json *object);
/* From Accept and includeObject; false, and answered with 406, if nothing acceptable can be sent. */
bool rf_negotiate(struct rf_req *r);

/* --- verbs (one file each) -------------------------------------------------------------------- */

/* Each answers the request, or returns an error that the caller answers with. */
int rf_verb_get(struct rf_req *r, struct rf_err *err);
int rf_verb_list(struct rf_req *r, struct rf_err *err);
int rf_verb_watch(struct rf_req *r, struct rf_err *err);
int rf_verb_create(struct rf_req *r, struct rf_err *err);
int rf_verb_update(struct rf_req *r, struct rf_err *err);
int rf_verb_patch(struct rf_req *r, struct rf_err *err);
int rf_verb_delete(struct rf_req *r, struct rf_err *err);
int rf_verb_delete_collection(struct rf_req *r, struct rf_err *err);
int rf_verb_bind(struct rf_req *r, struct rf_err *err);
int rf_verb_evict(struct rf_req *r, struct rf_err *err);
int rf_verb_log(struct rf_req *r, struct rf_err *err);
int rf_verb_token(struct rf_req *r, struct rf_err *err);
int rf_verb_review(struct rf_req *r, struct rf_err *err);

/* --- pieces the verbs share ------------------------------------------------------------------- */

/* The body as an object of the route's kind: decoded, kind and version checked, unknown fields
 * pruned, warned of or refused as fieldValidation says. */
int rf_read_object(struct rf_req *r, struct rf_json **ret, struct rf_err *err);
/* As above for an object made by a patch. */
int rf_check_object(struct rf_req *r, const struct rf_kind *k, struct rf_json *object,
		    struct rf_err *err);
/* Selectors of a list or watch, from the query; in arena a. */
struct rf_filter {
	struct rf_selector *labels; /* NULL: none */
	struct rf_selector *fields;
};
int rf_filter_read(struct rf_req *r, struct rf_arena *a, struct rf_filter *ret, struct rf_err *err);
bool rf_filter_match(const struct rf_filter *f, const struct rf_json *object);
struct rf_str rf_query(const struct rf_req *r, const char *name); /* empty if absent */
bool rf_query_true(const struct rf_req *r, const char *name);

/* The handler of every request. */
void rf_api_handle(void *ctx, struct rf_http_req *http);

#endif
