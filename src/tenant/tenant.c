/* Reading a Tenant: strict, because what is misspelt here is a fence that is not there. */
#include "tenant/tenant.h"

#define LIST_MAX 64
#define COUNT_MAX 1000000 /* cards, pods, weights: far past any machine, far from overflow */
#define BYTES_MAX (INT64_C(1) << 52)

static const char *const isolation_names[] = {
	[RF_ISOLATION_RACK] = "rack",
	[RF_ISOLATION_NODE] = "node",
	[RF_ISOLATION_NUMA] = "numa",
	[RF_ISOLATION_NVLINK] = "nvlink",
	[RF_ISOLATION_GPU] = "gpu",
	[RF_ISOLATION_SLICE] = "slice",
	[RF_ISOLATION_SHARE] = "share",
	[RF_ISOLATION_COOPERATIVE] = "cooperative",
};

const char *rf_isolation_name(enum rf_isolation i)
{
	rf_assert((size_t)i < RF_COUNT(isolation_names));
	return isolation_names[i];
}

/* Where we are: the tenant, for the first words of each message, and the error to fill. */
struct reader {
	struct rf_arena *a;
	struct rf_tenant *t;
	struct rf_err *err;
};

static int bad(const struct reader *r, const char *field, const char *what)
{
	return rf_fail(r->err, RF_INVALID, "tenant %.*s: %s: %s", RF_STR(r->t->name), field, what);
}

/* A field left null is a field left out. */
static const struct rf_json *get(const struct rf_json *o, const char *key)
{
	const struct rf_json *v = rf_json_get(o, rf_str(key));

	return v != NULL && v->type != RF_JSON_NULL ? v : NULL;
}

/* o is absent, or an object with no other members than these (a NULL-ended list). */
static int only(const struct reader *r, const struct rf_json *o, const char *path,
		const char *const *members)
{
	rf_auto(buf) known = RF_BUF_INIT;

	if (o != NULL && o->type != RF_JSON_OBJECT)
		return bad(r, path, "must be an object");
	for (const char *const *m = members; *m != NULL; m++)
		rf_buf_printf(&known, "%s%s", m == members ? "" : ", ", *m);
	for (size_t i = 0; o != NULL && i < o->n; i++) {
		const char *const *m = members;

		while (*m != NULL && !rf_str_is(o->members[i].key, *m))
			m++;
		if (*m == NULL)
			return rf_fail(
				r->err, RF_INVALID,
				"tenant %.*s: %s.%.*s: there is no such field; there are: %s",
				RF_STR(r->t->name), path, RF_STR(o->members[i].key), known.p);
	}
	return 0;
}

/* --- owners ------------------------------------------------------------------------------ */

static int check_owner(const struct reader *r, const struct rf_json *o)
{
	static const char *const members[] = { "kind", "name", "namespace", NULL };
	struct rf_str kind = rf_json_str_at(o, "kind"), name = rf_json_str_at(o, "name");
	bool account = rf_str_is(kind, "ServiceAccount");

	if (!rf_json_is(o, RF_JSON_OBJECT))
		return bad(r, "spec.owners", "each must be {kind: User or Group, name: ...}");
	if (only(r, o, "spec.owners", members) < 0)
		return -r->err->code;
	if (!account && !rf_str_is(kind, "User") && !rf_str_is(kind, "Group"))
		return bad(r, "spec.owners.kind", "must be User, Group or ServiceAccount");
	if (name.n == 0 || name.n > 253)
		return bad(r, "spec.owners.name", "must be a name of at most 253 characters");
	if (account != rf_str_is_dns_label(rf_json_str_at(o, "namespace")))
		return bad(r, "spec.owners.namespace",
			   "must name a ServiceAccount's namespace, and is for those only");
	return 0;
}

static int check_owners(const struct reader *r, const struct rf_json *owners)
{
	if (owners != NULL && owners->type != RF_JSON_ARRAY)
		return bad(r, "spec.owners", "must be a list");
	if (rf_json_len(owners) > LIST_MAX)
		return bad(r, "spec.owners", "has more than 64 entries; name a group instead");
	for (size_t i = 0; i < rf_json_len(owners); i++) {
		if (check_owner(r, rf_json_item(owners, i)) < 0)
			return -r->err->code;
	}
	return 0;
}

/* --- namespaces -------------------------------------------------------------------------- */

/* Namespaces where the cluster itself lives: owning one would be owning the cluster. */
static bool is_system(struct rf_str ns)
{
	return rf_str_is(ns, "default") || rf_str_is(ns, "ringfence-system") ||
	       rf_str_starts(ns, RF_LIT("kube-"));
}

static int add_namespace(const struct reader *r, struct rf_str ns)
{
	if (!rf_str_is_dns_label(ns))
		return bad(r, "spec.namespaces",
			   "each must be a namespace's name: lower-case letters, digits and -");
	if (is_system(ns))
		return rf_fail(
			r->err, RF_INVALID,
			"tenant %.*s: spec.namespaces: %.*s belongs to the system; choose another",
			RF_STR(r->t->name), RF_STR(ns));
	for (size_t i = 0; i < r->t->n_namespaces; i++) {
		if (rf_str_eq(r->t->namespaces[i], ns))
			return rf_fail(r->err, RF_INVALID,
				       "tenant %.*s: spec.namespaces: %.*s is there twice",
				       RF_STR(r->t->name), RF_STR(ns));
	}
	r->t->namespaces[r->t->n_namespaces++] = ns;
	return 0;
}

static int read_namespaces(const struct reader *r, const struct rf_json *list)
{
	if (list != NULL && list->type != RF_JSON_ARRAY)
		return bad(r, "spec.namespaces", "must be a list of names");
	if (rf_json_len(list) > LIST_MAX)
		return bad(r, "spec.namespaces", "has more than 64 entries; split the tenant");
	r->t->namespaces = rf_arena_array(r->a, struct rf_str, RF_MAX(rf_json_len(list), 1));
	if (list == NULL || list->n == 0)
		return add_namespace(r, r->t->name);
	for (size_t i = 0; i < list->n; i++) {
		if (add_namespace(r, rf_json_str(list->items[i])) < 0)
			return -r->err->code;
	}
	return 0;
}

/* --- isolation --------------------------------------------------------------------------- */

static int read_isolation(const struct reader *r, const struct rf_json *v)
{
	if (v == NULL) {
		r->t->isolation = RF_ISOLATION_GPU;
		return 0;
	}
	for (size_t i = 0; i < RF_COUNT(isolation_names); i++) {
		if (rf_str_is(rf_json_str(v), isolation_names[i])) {
			r->t->isolation = (enum rf_isolation)i;
			return 0;
		}
	}
	return bad(r, "spec.isolation", "must be rack, node, numa, nvlink, gpu, slice, share or cooperative");
}

static int read_trust_domain(const struct reader *r, const struct rf_json *v)
{
	r->t->trust_domain = v != NULL ? rf_json_str(v) : r->t->name;
	if (!rf_str_is_dns_label(r->t->trust_domain))
		return bad(r, "spec.trustDomain",
			   "must be a name: lower-case letters, digits and -, at most 63");
	return 0;
}

/* --- quantities -------------------------------------------------------------------------- */

/* A whole number from least to most, written as a number or as a quantity ("80Gi"). */
static int read_amount(const struct reader *r, const struct rf_json *v, const char *field,
		       int64_t least, int64_t most, int64_t *value)
{
	int64_t milli = 0;

	if (v == NULL)
		return 0;
	if (v->type != RF_JSON_NUMBER && v->type != RF_JSON_STRING)
		return bad(r, field, "must be a number or a quantity such as 80Gi");
	if (rf_quantity_milli(v->text, &milli, r->err) < 0)
		return rf_wrap(r->err, "tenant %.*s: %s", RF_STR(r->t->name), field);
	if (milli % 1000 != 0 || milli / 1000 < least || milli / 1000 > most)
		return rf_fail(
			r->err, RF_INVALID,
			"tenant %.*s: %s: must be a whole number from %lld to %lld, not %.*s",
			RF_STR(r->t->name), field, (long long)least, (long long)most,
			RF_STR(v->text));
	*value = milli / 1000;
	return 0;
}

static int read_quota(const struct reader *r, const struct rf_json *q)
{
	static const char *const members[] = { "gpus", "gpuMemory", "pods", NULL };

	r->t->quota_pods = -1;
	if (only(r, q, "spec.quota", members) < 0 ||
	    read_amount(r, get(q, "gpus"), "spec.quota.gpus", 0, COUNT_MAX, &r->t->quota_gpus) <
		    0 ||
	    read_amount(r, get(q, "gpuMemory"), "spec.quota.gpuMemory", 0, BYTES_MAX,
			&r->t->quota_gpu_memory) < 0)
		return -r->err->code;
	return read_amount(r, get(q, "pods"), "spec.quota.pods", 0, COUNT_MAX, &r->t->quota_pods);
}

/* --- its queue ---------------------------------------------------------------------------- */

static struct rf_queue_amount *amount_of(struct rf_tenant *t, const char *name)
{
	for (size_t i = 0; i < t->n_queue_amounts; i++) {
		if (rf_str_is(t->queue_amounts[i].name, name))
			return &t->queue_amounts[i];
	}
	t->queue_amounts[t->n_queue_amounts] = (struct rf_queue_amount){ rf_str(name), -1, -1, -1, -1 };
	return &t->queue_amounts[t->n_queue_amounts++];
}

/* What is guaranteed in short and what the quota allows, in the queue's own words. */
static int join_amount(const struct reader *r, const char *name, const char *field, int64_t guaranteed,
		       int64_t quota)
{
	struct rf_queue_amount *q = amount_of(r->t, name);

	if (guaranteed >= 0 && q->guaranteed >= 0)
		return bad(r, field, "is given in spec.queue.resources, too; keep one of the two");
	if (guaranteed >= 0)
		q->guaranteed = guaranteed;
	q->limit = q->limit >= 0 ? RF_MIN(q->limit, quota) : quota;
	if (q->guaranteed > q->limit)
		return rf_fail(r->err, RF_INVALID,
			       "tenant %.*s: %s: guarantees %lld where its quota or limit is %lld; raise "
			       "spec.quota or guarantee less",
			       RF_STR(r->t->name), field, (long long)q->guaranteed, (long long)q->limit);
	return 0;
}

static int read_guaranteed(const struct reader *r, const struct rf_json *g)
{
	static const char *const members[] = { "gpus", "gpuMemory", NULL };
	int64_t gpus = -1, bytes = -1;

	if (only(r, g, "spec.queue.guaranteed", members) < 0 ||
	    read_amount(r, get(g, "gpus"), "spec.queue.guaranteed.gpus", 0, COUNT_MAX, &gpus) < 0 ||
	    read_amount(r, get(g, "gpuMemory"), "spec.queue.guaranteed.gpuMemory", 0, BYTES_MAX, &bytes) < 0 ||
	    join_amount(r, "cards", "spec.queue.guaranteed.gpus", gpus, r->t->quota_gpus) < 0)
		return -r->err->code;
	return join_amount(r, "share-bytes", "spec.queue.guaranteed.gpuMemory", bytes,
			   r->t->quota_gpu_memory);
}

static int read_resources(const struct reader *r, const struct rf_json *list)
{
	struct rf_queue_amount *said = NULL;
	size_t n = 0;

	if (rf_queue_amounts_read(r->a, list, "spec.queue.resources", &said, &n, r->err) < 0)
		return rf_wrap(r->err, "tenant %.*s", RF_STR(r->t->name));
	r->t->queue_amounts = rf_arena_array(r->a, struct rf_queue_amount, n + 2);
	for (size_t i = 0; i < n; i++)
		r->t->queue_amounts[i] = said[i];
	r->t->n_queue_amounts = n;
	return 0;
}

static int read_queue(const struct reader *r, const struct rf_json *q)
{
	static const char *const members[] = { "weight", "parent", "guaranteed", "resources", NULL };
	const struct rf_json *parent = get(q, "parent");

	r->t->queue_weight = 1;
	r->t->queue_parent = RF_STR_EMPTY;
	if (only(r, q, "spec.queue", members) < 0 ||
	    read_amount(r, get(q, "weight"), "spec.queue.weight", 1, COUNT_MAX, &r->t->queue_weight) < 0)
		return -r->err->code;
	if (parent != NULL)
		r->t->queue_parent = rf_json_str(parent);
	if (parent != NULL && (!rf_str_is_dns_label(r->t->queue_parent) || rf_str_eq(r->t->queue_parent, r->t->name)))
		return bad(r, "spec.queue.parent",
			   "must be the name of another Queue: lower-case letters, digits and -, at most 63");
	if (read_resources(r, get(q, "resources")) < 0)
		return -r->err->code;
	return read_guaranteed(r, get(q, "guaranteed"));
}

/* --- the whole --------------------------------------------------------------------------- */

static int read_spec(const struct reader *r, const struct rf_json *spec)
{
	static const char *const members[] = { "owners", "namespaces", "isolation", "trustDomain",
					       "quota",	 "queue",      NULL };

	if (only(r, spec, "spec", members) < 0 || check_owners(r, get(spec, "owners")) < 0 ||
	    read_namespaces(r, get(spec, "namespaces")) < 0 ||
	    read_isolation(r, get(spec, "isolation")) < 0 ||
	    read_trust_domain(r, get(spec, "trustDomain")) < 0 ||
	    read_quota(r, get(spec, "quota")) < 0)
		return -r->err->code;
	return read_queue(r, get(spec, "queue"));
}

int rf_tenant_parse(struct rf_arena *a, const struct rf_json *tenant, struct rf_tenant *ret,
		    struct rf_err *err)
{
	static const char *const members[] = { "apiVersion", "kind",   "metadata",
					       "spec",	     "status", NULL };
	struct rf_err local = RF_ERR_INIT;
	struct rf_tenant t = { .name = rf_json_str_at(tenant, "metadata", "name") };
	struct reader r = { .a = a, .t = &t, .err = err != NULL ? err : &local };

	if (!rf_str_is_dns_label(t.name))
		return rf_fail(
			r.err, RF_INVALID,
			"tenant %.*s: metadata.name: must be lower-case letters, digits and -, at "
			"most 63, because namespaces and labels carry it",
			RF_STR(t.name));
	if (only(&r, tenant, "tenant", members) < 0 || read_spec(&r, get(tenant, "spec")) < 0)
		return -r.err->code;
	*ret = t;
	return 0;
}
