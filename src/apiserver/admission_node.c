/* What a node agent may write: a node that was taken over must not reach beyond itself. */
#include "apiserver/admission.h"

#include "apiserver/meta.h"
#include "tenant/tenant.h"

static int other(const char *what, struct rf_str node, struct rf_err *err)
{
	return rf_fail(err, RF_FORBIDDEN, "node \"%.*s\" may only write %s", RF_STR(node), what);
}

static int own_name(const struct rf_json *o, struct rf_str node, const char *what,
		    struct rf_err *err)
{
	return rf_str_eq(rf_json_str_at(o, "metadata", "name"), node) ? 0 : other(what, node, err);
}

/* What a node says of itself (node/register.c). The rest is its administrator's: its rack says who may be beside
 * whom, its pool how it is filled. */
static bool says_itself(struct rf_str label)
{
	return rf_word_in("kubernetes.io/hostname kubernetes.io/os kubernetes.io/arch ringfence.io/gpus ringfence.io/simulated",
			  label);
}

static bool has_other_labels(const struct rf_json *than, const struct rf_json *o)
{
	const struct rf_json *was = rf_json_at(than, "metadata", "labels"), *is = rf_json_at(o, "metadata", "labels");

	for (size_t i = 0; rf_json_is(is, RF_JSON_OBJECT) && i < is->n; i++) {
		const struct rf_json *before = rf_json_get(was, is->members[i].key);

		if (!says_itself(is->members[i].key) && (before == NULL || !rf_json_equal(before, is->members[i].value)))
			return true;
	}
	return false;
}

static bool is_empty(const struct rf_json *v)
{
	return rf_json_len(v) == 0;
}

/* A taint or a cordon that it took off itself would bring it pods. */
static int own_node(const struct rf_json *old, const struct rf_json *o, struct rf_str node, struct rf_err *err)
{
	const struct rf_json *was = rf_json_at(old, "spec"), *is = rf_json_at(o, "spec");

	if (own_name(old != NULL ? old : o, node, "its own Node", err) < 0)
		return -err->code;
	if (o == NULL)
		return 0;
	if (has_other_labels(old, o) || (old != NULL && has_other_labels(o, old)))
		return other("those labels of its Node that speak of itself; its rack, its pool and all others are set by "
			     "administrators",
			     node, err);
	if (old != NULL && !(is_empty(was) && is_empty(is)) && (was == NULL || is == NULL || !rf_json_equal(was, is)))
		return other("its Node's labels and status, not its spec", node, err);
	return 0;
}

static int own_slice(const struct rf_json *o, struct rf_str node, struct rf_err *err)
{
	if (o == NULL || (rf_str_eq(rf_json_str_at(o, "spec", "nodeName"), node) &&
			  rf_str_eq(rf_json_str_at(o, "spec", "pool", "name"), node)))
		return 0;
	return other("resource slices of its own pool", node, err);
}

static bool allocated_here(const struct rf_json *claim, struct rf_str node)
{
	const struct rf_json *results =
		rf_json_at(claim, "status", "allocation", "devices", "results");

	for (size_t i = 0; i < rf_json_len(results); i++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(results, i), "pool"), node))
			return true;
	return false;
}

/* Of a claim a node writes its finalizer (and device status), never who holds what. */
static int own_claim(const struct rf_json *old, const struct rf_json *o, struct rf_str node,
		     struct rf_err *err)
{
	const struct rf_json *was = rf_json_at(old, "status", "allocation");
	const struct rf_json *is = rf_json_at(o, "status", "allocation");

	if (old == NULL || o == NULL)
		return other("claims that exist, and not delete them", node, err);
	if (!allocated_here(old, node))
		return other("claims allocated to it", node, err);
	if (is == NULL || !rf_json_equal(was, is))
		return other("a claim's finalizer, not its allocation", node, err);
	return 0;
}

/* --- reading -------------------------------------------------------------------------------- */

struct search {
	struct rf_str node, quoted; /* the name as it stands in JSON */
};

static int uses(void *ctx, const struct rf_row *row)
{
	const struct search *s = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod = NULL;

	if (!rf_str_contains(row->json, s->quoted) ||
	    rf_json_parse(&a, row->json, &pod, NULL) < 0 ||
	    !rf_str_eq(rf_json_str_at(pod, "spec", "nodeName"), s->node))
		return 0;
	return rf_str_contains(rf_json_text_of(&a, rf_json_at(pod, "spec")), s->quoted) ? 1 : 0;
}

/* A node reads the secrets and config maps that the spec of one of its pods names, no others. A node
 * cannot write a pod's spec, so it cannot name more itself. */
int rf_admit_node_read(struct rf_req *r, const struct rf_kind *k, struct rf_err *err)
{
	rf_auto(buf) quoted = RF_BUF_INIT;
	struct search s = { .node = rf_user_node(&r->user) };
	struct rf_list l = {
		.kind = rf_kind_get("pods"), .ns = r->route.ns, .each = uses, .ctx = &s
	};
	int n;

	if (s.node.n == 0 || !rf_word_in("secrets configmaps", rf_str(k->plural)))
		return 0;
	rf_json_write_str(&quoted, r->route.name);
	s.quoted = rf_buf_str(&quoted);
	n = rf_store_list(r->api->store, &l, err);
	if (n != 0)
		return n < 0 ? n : 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "%s \"%.*s\" is forbidden: no pod on node \"%.*s\" uses it", k->plural,
		       RF_STR(r->route.name), RF_STR(s.node));
}

/* --- writing -------------------------------------------------------------------------------- */

int rf_admit_node(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		  const struct rf_json *o, struct rf_err *err)
{
	struct rf_str node = rf_user_node(&r->user);
	const struct rf_json *any = old != NULL ? old : o;

	if (node.n == 0)
		return 0;
	if (rf_kind_is(k, "nodes"))
		return own_node(old, o, node, err);
	if (rf_kind_is(k, "leases"))
		return own_name(any, node, "its own lease", err);
	if (rf_kind_is(k, "resourceslices"))
		return own_slice(old, node, err) < 0 ? -err->code : own_slice(o, node, err);
	if (rf_kind_is(k, "resourceclaims"))
		return own_claim(old, o, node, err);
	if (rf_kind_is(k, "pods") &&
	    (old == NULL || !rf_str_eq(rf_json_str_at(old, "spec", "nodeName"), node)))
		return other("pods bound to it", node, err);
	return 0;
}
