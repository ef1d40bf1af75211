/* Objects in, checks run over them, findings in order. */
#include "audit/private.h"

#include "tenant/tenant.h"

static const char *const LAYER_NAMES[] = { "api", "scheduling", "node", "operations" };
static const char *const LAYER_TITLES[] = { "Layer 1: API and tenancy",
					    "Layer 2: scheduling and queues",
					    "Layer 3: node and device",
					    "Layer 4: observability and operations" };
static const char *const SEVERITY_NAMES[] = { "low", "medium", "high", "critical" };

const char *rf_audit_layer_name(enum rf_audit_layer layer)
{
	return LAYER_NAMES[layer];
}

const char *rf_audit_layer_title(enum rf_audit_layer layer)
{
	return LAYER_TITLES[layer];
}

const char *rf_audit_severity_name(enum rf_audit_severity s)
{
	return SEVERITY_NAMES[s];
}

bool rf_audit_severity_parse(struct rf_str name, enum rf_audit_severity *ret)
{
	for (size_t i = 0; i < RF_COUNT(SEVERITY_NAMES); i++)
		if (rf_str_is(name, SEVERITY_NAMES[i])) {
			*ret = (enum rf_audit_severity)i;
			return true;
		}
	return false;
}

/* --- the table ------------------------------------------------------------------------------ */

static const struct rf_audit_check *const TABLES[] = { au_api_checks,	au_rbac_checks,
						       au_sched_checks, au_node_checks,
						       au_ops_checks,	au_self_checks };

const struct rf_audit_check *rf_audit_check(size_t i)
{
	for (size_t t = 0; t < RF_COUNT(TABLES); t++)
		for (const struct rf_audit_check *c = TABLES[t]; c->id != NULL; c++)
			if (i-- == 0)
				return c;
	return NULL;
}

const struct rf_audit_check *au_check(const char *id)
{
	const struct rf_audit_check *c;

	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++)
		if (strcmp(c->id, id) == 0)
			return c;
	rf_assert(!"a check that is in the table");
	return NULL;
}

/* --- coming and going ----------------------------------------------------------------------- */

struct rf_audit *rf_audit_new(void)
{
	struct rf_audit *x = rf_new(struct rf_audit);

	x->budget = RF_AUDIT_MEMORY;
	return x;
}

void rf_audit_free(struct rf_audit *x)
{
	if (x == NULL)
		return;
	au_world_done(x);
	au_policies_done(x);
	for (size_t i = 0; i < AU_KINDS; i++)
		rf_vec_done(&x->of[i]);
	rf_vec_done(&x->all);
	rf_vec_done(&x->unseen);
	rf_vec_done(&x->unmade);
	rf_vec_done(&x->findings);
	rf_map_done(&x->seen);
	rf_map_done(&x->counted);
	rf_map_done(&x->told);
	rf_arena_done(&x->a);
	free(x);
}

/* --- objects -------------------------------------------------------------------------------- */

/* What the tree takes in memory, roughly, up to max. */
static size_t cost(const struct rf_json *v, size_t max)
{
	size_t n = sizeof(*v) + 16;

	if (v->type == RF_JSON_STRING || v->type == RF_JSON_NUMBER)
		n += v->text.n;
	for (uint32_t i = 0; n < max && v->type == RF_JSON_ARRAY && i < v->n; i++)
		n += 8 + cost(v->items[i], max);
	for (uint32_t i = 0; n < max && v->type == RF_JSON_OBJECT && i < v->n; i++)
		n += sizeof(*v->members) + v->members[i].key.n + cost(v->members[i].value, max);
	return n;
}

/* Nothing that a Secret holds stays in this process. */
static void blank(struct rf_arena *a, struct rf_json *o, const char *field)
{
	struct rf_json *held = rf_json_at(o, field);

	for (uint32_t i = 0; rf_json_is(held, RF_JSON_OBJECT) && i < held->n; i++)
		held->members[i].value = rf_json_string(a, RF_STR_EMPTY);
	rf_json_del(rf_json_at(o, "metadata", "annotations"),
		    RF_LIT("kubectl.kubernetes.io/last-applied-configuration"));
}

/* A copy without the members named; they are the bulk of many objects and nobody's to judge. */
static struct rf_json *copy_without(struct rf_arena *a, const struct rf_json *o)
{
	struct rf_json *copy = rf_json_object(a), *meta = rf_json_object(a);
	const struct rf_json *old = rf_json_at(o, "metadata");
	bool secret = rf_str_is(rf_json_str_at(o, "kind"), "Secret");

	for (uint32_t i = 0; rf_json_is(old, RF_JSON_OBJECT) && i < old->n; i++)
		if (!rf_str_is(old->members[i].key, "managedFields"))
			rf_json_set(a, meta, old->members[i].key,
				    rf_json_clone(a, old->members[i].value));
	for (uint32_t i = 0; i < o->n; i++) {
		struct rf_str key = o->members[i].key;
		bool is_meta = rf_str_is(key, "metadata") && rf_json_is(old, RF_JSON_OBJECT);

		rf_json_set(a, copy, key, is_meta ? meta : rf_json_clone(a, o->members[i].value));
	}
	if (secret) {
		blank(a, copy, "data");
		blank(a, copy, "stringData");
	}
	return copy;
}

static bool is_list(const struct rf_json *o)
{
	return rf_str_ends(rf_json_str_at(o, "kind"), RF_LIT("List")) &&
	       rf_json_is(rf_json_at(o, "items"), RF_JSON_ARRAY);
}

static bool is_namespaced(enum au_kind k)
{
	switch (k) {
	case AU_POD:
	case AU_QUOTA:
	case AU_LIMITRANGE:
	case AU_NETPOL:
	case AU_ROLE:
	case AU_ROLEBINDING:
	case AU_SERVICEACCOUNT:
	case AU_CONFIGMAP:
	case AU_SERVICE:
	case AU_DAEMONSET:
	case AU_DEPLOYMENT:
	case AU_STATEFULSET:
	case AU_REPLICASET:
	case AU_JOB:
	case AU_CRONJOB:
	case AU_RC:
	case AU_CLAIM:
	case AU_CLAIMTEMPLATE:
	case AU_CILIUM:
		return true;
	default:
		return false;
	}
}

static int add_one(struct rf_audit *x, const struct rf_json *object, struct rf_str source,
		   struct rf_err *err)
{
	struct au_obj *o;
	size_t size = cost(object, RF_AUDIT_OBJECT_MAX + 1);

	if (size > RF_AUDIT_OBJECT_MAX) {
		struct au_what w = { .kind = rf_arena_str(&x->a, rf_json_str_at(object, "kind")),
				     .ns = rf_arena_str(&x->a, rf_kube_namespace(object)),
				     .name = rf_arena_str(&x->a, rf_kube_name(object)) };

		au_tell(x, au_check("RF-OPS-91"), &w,
			"it is larger than %zu MiB and was not judged by any check",
			RF_AUDIT_OBJECT_MAX >> 20);
		return 0;
	}
	if (x->a.used + size > x->budget) {
		x->truncated = true;
		return rf_fail(err, RF_TOO_LARGE,
			       "%zu objects fill the %zu MiB an audit may take; judge one "
			       "namespace at a time "
			       "with --namespace",
			       x->all.n, x->budget >> 20);
	}
	o = rf_arena_new(&x->a, struct au_obj);
	o->o = copy_without(&x->a, object);
	o->kind = rf_json_str_at(o->o, "kind");
	o->group = au_group(rf_json_str_at(o->o, "apiVersion"));
	o->name = rf_kube_name(o->o);
	if (o->name.n == 0)
		o->name = rf_json_str_at(o->o, "metadata", "generateName");
	o->ns = rf_kube_namespace(o->o);
	o->source = source;
	o->k = au_kind_of(o->kind, o->group);
	if (o->ns.n == 0 && is_namespaced(o->k))
		o->ns = RF_LIT("default");
	rf_vec_push(&x->all, o);
	rf_vec_push(&x->of[o->k], o);
	return 0;
}

int rf_audit_add(struct rf_audit *x, const struct rf_json *object, struct rf_str source,
		 struct rf_err *err)
{
	const struct rf_json *items = rf_json_at(object, "items");

	if (!rf_json_is(object, RF_JSON_OBJECT) || rf_json_str_at(object, "kind").n == 0)
		return 0; /* no object of Kubernetes' */
	if (rf_str_is(au_group(rf_json_str_at(object, "apiVersion")), "kustomize.config.k8s.io"))
		return 0; /* lies beside manifests and is none */
	if (!is_list(object))
		return add_one(x, object, source, err);
	for (size_t i = 0; i < rf_json_len(items); i++)
		if (rf_json_is(rf_json_item(items, i), RF_JSON_OBJECT) &&
		    add_one(x, rf_json_item(items, i), source, err) < 0)
			return -RF_TOO_LARGE;
	return 0;
}

static char seen_mark, unseen_mark;

void rf_audit_kind(struct rf_audit *x, struct rf_str kind, struct rf_str group, const char *why)
{
	struct rf_str name =
		group.n > 0 ? rf_arena_printf(&x->a, "%.*s.%.*s", RF_STR(kind), RF_STR(group))
			    : rf_arena_str(&x->a, kind);
	struct au_not n = { .what = name, .why = rf_arena_str(&x->a, rf_str(why)) };

	x->cluster = true;
	x->n_kinds++;
	rf_map_set(&x->seen, kind, why == NULL ? &seen_mark : &unseen_mark);
	if (why == NULL)
		return;
	rf_vec_push(&x->unseen, n);
}

/* --- a run ---------------------------------------------------------------------------------- */

static bool has_any(const struct rf_audit *x, struct rf_str kind)
{
	for (size_t i = 0; i < x->all.n; i++)
		if (rf_str_eq(x->all.at[i]->kind, kind))
			return true;
	return false;
}

/* A check that looks at one kind alone concludes nothing from others: it is made over what was seen. */
static bool can_make_in_part(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct rf_str needs = rf_str(c->needs);

	if (c->cluster_only || memchr(needs.p, ' ', needs.n) != NULL || !has_any(x, needs))
		return false;
	rf_vec_push(
		&x->unmade,
		((struct au_not){ rf_str(c->id),
				  rf_arena_printf(&x->a,
						  "%s could not be listed whole; made over what "
						  "was seen",
						  c->needs) }));
	return true;
}

/* Kinds without which a check is blind; nothing is concluded from an absence that was not seen. */
static bool can_make(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct rf_str rest = rf_str(c->needs), kind;

	if (!x->cluster)
		return !c->cluster_only;
	while (rest.n > 0) {
		void *mark;

		rf_str_cut(&rest, ' ', &kind);
		mark = rf_map_get(&x->seen, kind);
		if (mark == &seen_mark)
			continue;
		if (mark != NULL && can_make_in_part(x, c))
			return true;
		rf_vec_push(&x->unmade,
			    ((struct au_not){ rf_str(c->id),
					      rf_arena_printf(&x->a,
							      mark ? "%.*s could not be listed"
								   : "this API has no %.*s",
							      RF_STR(kind)) }));
		return false;
	}
	return true;
}

static bool is_needed(struct rf_str what)
{
	const struct rf_audit_check *c;
	struct rf_str rest, kind, bare = what, head;

	rf_str_cut(&bare, '.', &head);
	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++)
		for (rest = rf_str(c->needs); rest.n > 0;) {
			rf_str_cut(&rest, ' ', &kind);
			if (rf_str_eq(kind, head))
				return true;
		}
	return false;
}

static void tell_unseen(struct rf_audit *x)
{
	for (size_t i = 0; i < x->unseen.n; i++) {
		const struct au_not *n = &x->unseen.at[i];
		struct au_what w = { .kind = n->what, .has_severity = true };

		w.severity = is_needed(n->what) ? RF_AUDIT_HIGH : RF_AUDIT_LOW;
		au_tell(x, au_check("RF-OPS-90"), &w, "%.*s", RF_STR(n->why));
	}
}

static int by_order(const void *p, const void *q)
{
	const struct rf_audit_finding *a = p, *b = q;
	int r;

	if (a->layer != b->layer)
		return a->layer < b->layer ? -1 : 1;
	if (a->severity != b->severity)
		return a->severity > b->severity ? -1 : 1;
	if ((r = strcmp(a->check->id, b->check->id)) != 0 || (r = rf_str_cmp(a->ns, b->ns)) != 0 ||
	    (r = rf_str_cmp(a->kind, b->kind)) != 0 || (r = rf_str_cmp(a->name, b->name)) != 0 ||
	    (r = rf_str_cmp(a->field, b->field)) != 0)
		return r;
	return rf_str_cmp(a->found, b->found);
}

/* In files a Tenant stands for what control makes of it; in a cluster that is there already. */
static void add_tenants_objects(struct rf_audit *x)
{
	for (size_t t = 0, n = x->of[AU_TENANT].n; t < n; t++) {
		const struct au_obj *o = x->of[AU_TENANT].at[t];
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_tenant tenant = { 0 };
		struct rf_json *made;

		if (rf_tenant_parse(&a, o->o, &tenant, NULL) < 0)
			continue;
		made = rf_tenant_objects(&a, o->o, &tenant, NULL, 0);
		for (size_t i = 0; i < rf_json_len(made); i++)
			if (rf_audit_add(x, rf_json_item(made, i), o->source, NULL) < 0)
				return;
	}
}

void rf_audit_run(struct rf_audit *x, const struct rf_audit_opts *opts)
{
	const struct rf_audit_check *c;

	x->opts = *opts;
	if (!x->cluster)
		add_tenants_objects(x);
	au_world(x);
	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++)
		if (c->run != NULL && can_make(x, c))
			c->run(x, c);
	au_ask_policies(x);
	tell_unseen(x);
	if (x->findings.n > 0)
		qsort(x->findings.at, x->findings.n, sizeof(*x->findings.at), by_order);
}

const struct rf_audit_finding *rf_audit_finding(const struct rf_audit *x, size_t i)
{
	return i < x->findings.n ? &x->findings.at[i] : NULL;
}

size_t rf_audit_count(const struct rf_audit *x, enum rf_audit_layer layer, enum rf_audit_severity s)
{
	return x->count[layer][s];
}

bool rf_audit_any(const struct rf_audit *x, enum rf_audit_severity least)
{
	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++)
		for (size_t s = least; s < RF_AUDIT_SEVERITIES; s++)
			if (x->count[l][s] > 0)
				return true;
	return false;
}

bool rf_audit_format_parse(const char *name, enum rf_audit_format *ret)
{
	static const char *const NAMES[] = { "table", "json", "sarif", "html" };

	for (size_t i = 0; i < RF_COUNT(NAMES); i++)
		if (strcmp(name, NAMES[i]) == 0) {
			*ret = (enum rf_audit_format)i;
			return true;
		}
	return false;
}

void rf_audit_write(const struct rf_audit *x, enum rf_audit_format f,
		    const struct rf_audit_look *look, struct rf_buf *out)
{
	switch (f) {
	case RF_AUDIT_TABLE:
		au_report_table(x, look, out);
		return;
	case RF_AUDIT_JSON:
		au_report_json(x, out);
		return;
	case RF_AUDIT_SARIF:
		au_report_sarif(x, out);
		return;
	case RF_AUDIT_HTML:
		au_report_html(x, out);
		return;
	}
}
