/* What a pod says of nodes' labels and of other pods. What it requires and what makes no sense, or is more
 * than anybody would write, makes it wait; a preference that makes no sense is not one. */
#include "sched/read_private.h"

#define TERMS_MAX 32
#define MATCHES_MAX 64 /* of a term */
#define VALUES_MAX 256 /* of a match */
#define NEARS_MAX 16
#define SPREADS_MAX 8
#define NAMESPACES_MAX 64

/* --- demands on labels ------------------------------------------------------------------------- */

static int read_op(struct rf_str name, bool of_nodes, enum rf_sched_op *ret, struct rf_err *err)
{
	static const char *const names[] = { "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt" };

	for (size_t i = 0; i < (of_nodes ? RF_COUNT(names) : 4); i++)
		if (rf_str_is(name, names[i])) {
			*ret = (enum rf_sched_op)i;
			return 0;
		}
	return rf_fail(err, RF_INVALID, "operator \"%.*s\" is not known; use In, NotIn, Exists%s DoesNotExist%s",
		       (int)RF_MIN(name.n, 63), name.p, of_nodes ? "," : " or", of_nodes ? ", Gt or Lt" : "");
}

static int check_values(const struct rf_sched_match *m, struct rf_err *err)
{
	int64_t number = 0;

	switch (m->op) {
	case RF_SCHED_IN:
	case RF_SCHED_NOT_IN:
		return m->n_values > 0 ? 0 : rf_fail(err, RF_INVALID, "In and NotIn need values");
	case RF_SCHED_EXISTS:
	case RF_SCHED_ABSENT:
		return m->n_values == 0 ? 0 : rf_fail(err, RF_INVALID, "Exists and DoesNotExist take no values");
	case RF_SCHED_GT:
	case RF_SCHED_LT:
		return m->n_values == 1 && rf_str_int(m->values[0], &number, NULL) == 0 ?
			       0 :
			       rf_fail(err, RF_INVALID, "Gt and Lt need one value, a whole number");
	}
	return -RF_INVALID;
}

static int read_values(struct rf_arena *a, const struct rf_json *list, struct rf_sched_match *m, struct rf_err *err)
{
	if (rf_json_len(list) > VALUES_MAX)
		return rf_fail(err, RF_INVALID, "has more than %d values", VALUES_MAX);
	m->values = rf_arena_array(a, struct rf_str, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		if (!rf_json_is(rf_json_item(list, i), RF_JSON_STRING))
			return rf_fail(err, RF_INVALID, "values must be strings");
		m->values[m->n_values++] = rf_json_str(rf_json_item(list, i));
	}
	return 0;
}

static int add_match(struct rf_arena *a, const struct rf_json *v, bool of_nodes, struct rf_sched_term *t,
		     struct rf_err *err)
{
	struct rf_sched_match *m = &t->all[t->n];

	m->key = rf_json_str_at(v, "key");
	if (m->key.n == 0)
		return rf_fail(err, RF_INVALID, "a demand has no key");
	if (read_op(rf_json_str_at(v, "operator"), of_nodes, &m->op, err) < 0 ||
	    read_values(a, rf_json_at(v, "values"), m, err) < 0 || check_values(m, err) < 0)
		return rf_wrap(err, "%.*s", (int)RF_MIN(m->key.n, 317), m->key.p);
	t->n++;
	return 0;
}

/* Room for this many, and the ones that a caller adds. */
static int make_term(struct rf_arena *a, size_t n, size_t more, struct rf_sched_term *t, struct rf_err *err)
{
	if (n > MATCHES_MAX || more > MATCHES_MAX)
		return rf_fail(err, RF_INVALID, "has more than %d demands in one term", MATCHES_MAX);
	*t = (struct rf_sched_term){ .all = rf_arena_array(a, struct rf_sched_match, RF_MAX(n + more, 1)) };
	return 0;
}

static int add_labels(struct rf_arena *a, const struct rf_json *labels, struct rf_sched_term *t, struct rf_err *err)
{
	for (size_t i = 0; rf_json_is(labels, RF_JSON_OBJECT) && i < labels->n; i++) {
		struct rf_str *value = rf_arena_new(a, struct rf_str);

		if (!rf_json_is(labels->members[i].value, RF_JSON_STRING))
			return rf_fail(err, RF_INVALID, "matchLabels must be strings");
		*value = rf_json_str(labels->members[i].value);
		t->all[t->n++] = (struct rf_sched_match){ labels->members[i].key, RF_SCHED_IN, value, 1 };
	}
	return 0;
}

static int read_selector(struct rf_arena *a, const struct rf_json *s, size_t more, struct rf_sched_term *ret,
			 bool *ret_any, struct rf_err *err)
{
	const struct rf_json *labels = rf_json_at(s, "matchLabels"), *list = rf_json_at(s, "matchExpressions");
	bool there = rf_json_is(s, RF_JSON_OBJECT);

	if (s != NULL && !there && s->type != RF_JSON_NULL)
		return rf_fail(err, RF_INVALID, "a selector must be an object");
	if (make_term(a, rf_json_len(labels) + rf_json_len(list), more, ret, err) < 0 ||
	    add_labels(a, labels, ret, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (add_match(a, rf_json_item(list, i), false, ret, err) < 0)
			return -err->code;
	*ret_any = there && ret->n == 0;
	return 0;
}

int rd_selector(struct rf_arena *a, const struct rf_json *selector, struct rf_sched_term *ret, bool *ret_any,
		struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;

	return read_selector(a, selector, 0, ret, ret_any, err != NULL ? err : &local);
}

/* --- nodes ------------------------------------------------------------------------------------- */

static int read_node_term(struct rf_arena *a, const struct rf_json *v, struct rf_sched_term *t, struct rf_err *err)
{
	const struct rf_json *labels = rf_json_at(v, "matchExpressions"), *fields = rf_json_at(v, "matchFields");

	if (make_term(a, rf_json_len(labels) + rf_json_len(fields), 0, t, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(labels); i++)
		if (add_match(a, rf_json_item(labels, i), true, t, err) < 0)
			return -err->code;
	for (size_t i = 0; i < rf_json_len(fields); i++) {
		const struct rf_json *f = rf_json_item(fields, i);

		if (!rf_str_is(rf_json_str_at(f, "key"), "metadata.name"))
			return rf_fail(err, RF_INVALID, "matchFields knows metadata.name only");
		if (add_match(a, f, false, t, err) < 0)
			return -err->code;
	}
	return 0;
}

/* Terms of which none is there hold nowhere: one that says nothing does as well. */
static void read_node_terms(struct rf_arena *a, const struct rf_json *required, struct rf_sched_pod *p)
{
	const struct rf_json *list = rf_json_at(required, "nodeSelectorTerms");
	size_t n = rf_json_len(list);
	struct rf_err err = RF_ERR_INIT;

	if (!rf_json_is(required, RF_JSON_OBJECT) || p->only_node.n > 0)
		return;
	p->node_terms = rf_arena_array(a, struct rf_sched_term, RF_MAX(RF_MIN(n, TERMS_MAX), 1));
	p->n_node_terms = RF_MAX(RF_MIN(n, TERMS_MAX), 1);
	if (n > TERMS_MAX)
		rd_unsupported(a, p, "spec.affinity.nodeAffinity has more than %d terms; write fewer", TERMS_MAX);
	for (size_t i = 0; i < RF_MIN(n, TERMS_MAX); i++)
		if (read_node_term(a, rf_json_item(list, i), &p->node_terms[i], &err) < 0) {
			p->node_terms[i] = (struct rf_sched_term){ 0 };
			rd_unsupported(a, p, "spec.affinity.nodeAffinity: %s", err.msg);
		}
}

static void read_prefers(struct rf_arena *a, const struct rf_json *list, struct rf_sched_pod *p)
{
	size_t n = RF_MIN(rf_json_len(list), (size_t)TERMS_MAX);
	struct rf_err err = RF_ERR_INIT;

	p->prefers = rf_arena_array(a, struct rf_sched_term, RF_MAX(n, 1));
	for (size_t i = 0; i < n; i++) {
		const struct rf_json *v = rf_json_item(list, i);
		int64_t weight = rf_json_int(rf_json_at(v, "weight"), 0);
		struct rf_sched_term t = { 0 };

		if (weight < 1 || weight > 100 || read_node_term(a, rf_json_at(v, "preference"), &t, &err) < 0 ||
		    t.n == 0)
			continue;
		t.weight = weight;
		p->prefers[p->n_prefers++] = t;
	}
}

/* --- other pods -------------------------------------------------------------------------------- */

/* matchLabelKeys: as this pod has them. Kubernetes adds these to the selector itself in newer versions. */
static void add_own_labels(struct rf_arena *a, const struct rf_json *keys, enum rf_sched_op op,
			   const struct rf_sched_pod *p, struct rf_sched_term *t)
{
	for (size_t i = 0; i < rf_json_len(keys); i++)
		for (size_t k = 0; k < p->n_labels; k++) {
			struct rf_str *value;

			if (!rf_str_eq(rf_json_str(rf_json_item(keys, i)), p->labels[k].key))
				continue;
			value = rf_arena_new(a, struct rf_str);
			*value = p->labels[k].value;
			t->all[t->n++] = (struct rf_sched_match){ p->labels[k].key, op, value, 1 };
			break;
		}
}

/* labelSelector and the keys beside it. */
static int read_seen(struct rf_arena *a, const struct rf_json *v, const struct rf_sched_pod *p,
		     struct rf_sched_term *t, bool *any, struct rf_err *err)
{
	const struct rf_json *same = rf_json_at(v, "matchLabelKeys"), *other = rf_json_at(v, "mismatchLabelKeys");
	const struct rf_json *selector = rf_json_at(v, "labelSelector");

	if (read_selector(a, selector, rf_json_len(same) + rf_json_len(other), t, any, err) < 0)
		return rf_wrap(err, "labelSelector");
	if (t->n == 0 && !*any)
		return 0; /* nothing to narrow */
	add_own_labels(a, same, RF_SCHED_IN, p, t);
	add_own_labels(a, other, RF_SCHED_NOT_IN, p, t);
	return 0;
}

static int read_topology(const struct rf_json *v, struct rf_str *ret, struct rf_err *err)
{
	*ret = rf_json_str_at(v, "topologyKey");
	return rf_str_is_label_key(*ret) ? 0 : rf_fail(err, RF_INVALID, "topologyKey must be the key of a label");
}

static int read_near(struct rf_arena *a, const struct rf_json *v, const struct rf_sched_pod *p,
		     struct rf_sched_near *n, struct rf_err *err)
{
	const struct rf_json *selector = rf_json_at(v, "namespaceSelector"), *list = rf_json_at(v, "namespaces");

	if (read_topology(v, &n->topology, err) < 0 || read_seen(a, v, p, &n->labels, &n->any, err) < 0)
		return -err->code;
	if (rf_json_len(list) > NAMESPACES_MAX)
		return rf_fail(err, RF_INVALID, "has more than %d namespaces", NAMESPACES_MAX);
	if (rf_json_len(rf_json_at(selector, "matchLabels")) + rf_json_len(rf_json_at(selector, "matchExpressions")) > 0)
		return rf_fail(err, RF_INVALID,
			       "namespaceSelector by labels is not honoured; name the namespaces, or select all "
			       "with {}");
	n->all_namespaces = rf_json_is(selector, RF_JSON_OBJECT);
	n->namespaces = rf_arena_array(a, struct rf_str, RF_MAX(rf_json_len(list), 1));
	for (size_t i = 0; i < rf_json_len(list); i++)
		n->namespaces[n->n_namespaces++] = rf_json_str(rf_json_item(list, i));
	return 0;
}

static void read_nears(struct rf_arena *a, const struct rf_json *list, bool apart, struct rf_sched_pod *p)
{
	const char *what = apart ? "podAntiAffinity" : "podAffinity";
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_sched_near *n = &p->nears[p->n_nears];

		if (p->n_nears == NEARS_MAX) {
			rd_unsupported(a, p, "spec.affinity requires more than %d terms about other pods; write fewer",
				       NEARS_MAX);
			return;
		}
		*n = (struct rf_sched_near){ .apart = apart };
		if (read_near(a, rf_json_item(list, i), p, n, &err) < 0)
			rd_unsupported(a, p, "spec.affinity.%s: %s", what, err.msg);
		else
			p->n_nears++;
	}
}

static bool read_policy(const struct rf_json *v, const char *field, bool otherwise, bool *ret)
{
	struct rf_str s = rf_json_str_at(v, field);

	*ret = s.n > 0 ? rf_str_is(s, "Honor") : otherwise;
	return s.n == 0 || rf_str_is(s, "Honor") || rf_str_is(s, "Ignore");
}

static int read_spread(struct rf_arena *a, const struct rf_json *v, const struct rf_sched_pod *p,
		       struct rf_sched_spread *s, struct rf_err *err)
{
	const struct rf_json *domains = rf_json_at(v, "minDomains");
	bool honor = true;

	s->max_skew = rf_json_int(rf_json_at(v, "maxSkew"), 0);
	s->min_domains = domains != NULL && domains->type != RF_JSON_NULL ? rf_json_int(domains, 0) : 1;
	if (read_topology(v, &s->topology, err) < 0 || read_seen(a, v, p, &s->labels, &s->any, err) < 0)
		return -err->code;
	if (s->max_skew < 1 || s->max_skew > INT32_MAX)
		return rf_fail(err, RF_INVALID, "maxSkew must be 1 or more");
	if (s->min_domains < 1 || s->min_domains > INT32_MAX)
		return rf_fail(err, RF_INVALID, "minDomains must be 1 or more");
	if (!rf_str_is(rf_json_str_at(v, "whenUnsatisfiable"), "DoNotSchedule"))
		return rf_fail(err, RF_INVALID, "whenUnsatisfiable must be DoNotSchedule or ScheduleAnyway");
	if (!read_policy(v, "nodeAffinityPolicy", true, &honor) ||
	    !read_policy(v, "nodeTaintsPolicy", false, &s->heed_taints))
		return rf_fail(err, RF_INVALID, "nodeAffinityPolicy and nodeTaintsPolicy must be Honor or Ignore");
	s->any_node = !honor;
	return 0;
}

static void read_spreads(struct rf_arena *a, const struct rf_json *list, struct rf_sched_pod *p)
{
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *v = rf_json_item(list, i);
		struct rf_sched_spread *s = &p->spreads[p->n_spreads];

		if (rf_str_is(rf_json_str_at(v, "whenUnsatisfiable"), "ScheduleAnyway"))
			continue;
		if (p->n_spreads == SPREADS_MAX) {
			rd_unsupported(a, p, "spec.topologySpreadConstraints has more than %d that are hard; write fewer",
				       SPREADS_MAX);
			return;
		}
		*s = (struct rf_sched_spread){ 0 };
		if (read_spread(a, v, p, s, &err) < 0)
			rd_unsupported(a, p, "spec.topologySpreadConstraints: %s", err.msg);
		else
			p->n_spreads++;
	}
}

void rd_affinity(struct rf_arena *a, const struct rf_json *spec, struct rf_sched_pod *p)
{
	const struct rf_json *affinity = rf_json_at(spec, "affinity"), *nodes = rf_json_at(affinity, "nodeAffinity");

	read_node_terms(a, rf_json_at(nodes, RD_REQUIRED), p);
	read_prefers(a, rf_json_at(nodes, RD_PREFERRED), p);
	p->nears = rf_arena_array(a, struct rf_sched_near, NEARS_MAX);
	read_nears(a, rf_json_at(affinity, "podAffinity", RD_REQUIRED), false, p);
	read_nears(a, rf_json_at(affinity, "podAntiAffinity", RD_REQUIRED), true, p);
	p->spreads = rf_arena_array(a, struct rf_sched_spread, SPREADS_MAX);
	read_spreads(a, rf_json_at(spec, "topologySpreadConstraints"), p);
}
