/* Which objects a constraint speaks of: spec.match. All criteria must hold; one left out holds. */
#include "policy/gatekeeper_private.h"

/* --- names with a star at either end -------------------------------------------------------- */

static bool glob(struct rf_str pattern, struct rf_str s)
{
	bool head = rf_str_starts(pattern, RF_LIT("*"));
	bool tail = rf_str_ends(pattern, RF_LIT("*"));
	struct rf_str core = pattern;

	if (tail)
		core.n--;
	if (head && core.n > 0)
		core = rf_str_skip(core, 1);
	if (head && tail)
		return core.n == 0 || rf_str_contains(s, core);
	if (head)
		return rf_str_ends(s, core);
	return tail ? rf_str_starts(s, core) : rf_str_eq(s, core);
}

static bool any_glob(struct rf_rv list, struct rf_str s)
{
	for (uint32_t i = 0; i < list.n; i++)
		if (glob(rf_rv_text(list.items[i]), s))
			return true;
	return false;
}

static bool holds(struct rf_rv list, struct rf_str s)
{
	for (uint32_t i = 0; i < list.n; i++)
		if (rf_str_is(rf_rv_text(list.items[i]), "*") || rf_str_eq(rf_rv_text(list.items[i]), s))
			return true;
	return false;
}

/* --- label selectors ------------------------------------------------------------------------ */

static bool in_values(struct rf_rv expression, struct rf_str s)
{
	struct rf_rv values;

	if (!rf_gk_get(expression, "values", &values))
		return false;
	for (uint32_t i = 0; i < values.n; i++)
		if (rf_str_eq(rf_rv_text(values.items[i]), s))
			return true;
	return false;
}

static bool expression_holds(struct rf_rv e, struct rf_rv labels)
{
	struct rf_str op = rf_gk_str(e, "operator");
	struct rf_rv v = RF_RV_NIL;
	bool there = labels.type == RF_RV_OBJECT && rf_rv_get_str(labels, rf_gk_str(e, "key"), &v);
	bool in = there && v.type == RF_RV_STRING && in_values(e, rf_rv_text(v));

	if (rf_str_is(op, "In"))
		return in;
	if (rf_str_is(op, "NotIn"))
		return !in;
	return rf_str_is(op, "Exists") ? there : !there;
}

static bool selected(struct rf_rv selector, struct rf_rv labels)
{
	struct rf_rv want, have;

	if (rf_gk_get(selector, "matchLabels", &want))
		for (uint32_t i = 0; i < want.n; i++)
			if (labels.type != RF_RV_OBJECT ||
			    !rf_rv_get(labels, want.pairs[i].key, &have) ||
			    !rf_rv_eq(have, want.pairs[i].value))
				return false;
	if (rf_gk_get(selector, "matchExpressions", &want))
		for (uint32_t i = 0; i < want.n; i++)
			if (!expression_holds(want.items[i], labels))
				return false;
	return true;
}

/* --- the criteria --------------------------------------------------------------------------- */

static bool is_namespace(const struct rf_gk_subject *s)
{
	return s->group.n == 0 && rf_str_is(s->kind, "Namespace");
}

static bool kinds_match(const struct rf_gk_match *m, const struct rf_gk_subject *s)
{
	for (uint32_t i = 0; i < m->n_kinds; i++)
		if ((m->kinds[i].kinds.n == 0 || holds(m->kinds[i].kinds, s->kind)) &&
		    (m->kinds[i].groups.n == 0 || holds(m->kinds[i].groups, s->group)))
			return true;
	return m->n_kinds == 0;
}

static bool scope_matches(const struct rf_gk_match *m, const struct rf_gk_subject *s)
{
	bool cluster = is_namespace(s) || s->namespace.n == 0;

	if (rf_str_is(m->scope, "Cluster"))
		return cluster;
	return rf_str_is(m->scope, "Namespaced") ? !cluster : true;
}

/* A Namespace is judged by its own name. What has no namespace is neither picked nor left out by one. */
static bool namespaces_match(const struct rf_gk_match *m, const struct rf_gk_subject *s)
{
	struct rf_str ns = is_namespace(s) ? s->name : s->namespace;

	if (ns.n == 0)
		return true;
	if (any_glob(m->excluded, ns))
		return false;
	return m->namespaces.n == 0 || any_glob(m->namespaces, ns);
}

/* A generated name has no end yet: only a pattern for the beginning can speak of it. */
static bool name_matches(const struct rf_gk_match *m, const struct rf_gk_subject *s)
{
	if (m->name.n == 0)
		return true;
	if (s->name.n == 0 && s->generate_name.n > 0)
		return rf_str_ends(m->name, RF_LIT("*")) && glob(m->name, s->generate_name);
	return glob(m->name, s->name);
}

static int namespace_selected(const struct rf_gk_match *m, const struct rf_gk_subject *s, struct rf_err *err)
{
	struct rf_rv meta, labels = RF_RV_NIL;

	if (m->namespace_labels.type == RF_RV_NULL)
		return 1;
	if (is_namespace(s))
		return selected(m->namespace_labels, s->labels);
	if (s->namespace.n == 0)
		return 1;
	if (s->namespace_object.type != RF_RV_OBJECT)
		return rf_fail(err, RF_NOT_FOUND,
			       "namespaceSelector: namespace %.*s is not known; give it as "
			       "namespaceObject or in the inventory",
			       RF_STR(s->namespace));
	if (rf_gk_get(s->namespace_object, "metadata", &meta))
		(void)rf_gk_get(meta, "labels", &labels);
	return selected(m->namespace_labels, labels);
}

int rf_gk_matches(const struct rf_gk_match *m, const struct rf_gk_subject *s, struct rf_err *err)
{
	if (!kinds_match(m, s) || !scope_matches(m, s) || !namespaces_match(m, s) || !name_matches(m, s))
		return 0;
	if (m->labels.type == RF_RV_OBJECT && !selected(m->labels, s->labels))
		return 0;
	return namespace_selected(m, s, err);
}

/* --- the shape ------------------------------------------------------------------------------ */

static int want_type(struct rf_rv object, const char *key, enum rf_rv_type type, struct rf_rv *ret,
		     struct rf_err *err)
{
	static const char *const names[] = { "null",  "boolean", "number", "string",
					     "array", "object",	 "set" };

	if (!rf_gk_get(object, key, ret))
		return 0;
	if (ret->type == type)
		return 1;
	return rf_fail(err, RF_INVALID, "%s: is of type %s, must be %s", key, rf_rv_type_name(*ret),
		       names[type]);
}

static int check_strings(struct rf_rv object, const char *key, struct rf_err *err)
{
	struct rf_rv list;
	int r = want_type(object, key, RF_RV_ARRAY, &list, err);

	for (uint32_t i = 0; r > 0 && i < list.n; i++)
		if (list.items[i].type != RF_RV_STRING)
			return rf_fail(err, RF_INVALID, "%s[%u]: is of type %s, must be string", key, i,
				       rf_rv_type_name(list.items[i]));
	return r < 0 ? r : 0;
}

static int check_expression(struct rf_rv e, struct rf_err *err)
{
	struct rf_str op = rf_gk_str(e, "operator");
	bool needs = rf_str_is(op, "In") || rf_str_is(op, "NotIn");
	struct rf_rv values;

	if (rf_gk_str(e, "key").n == 0)
		return rf_fail(err, RF_INVALID, "matchExpressions: an expression has no key");
	if (!needs && !rf_str_is(op, "Exists") && !rf_str_is(op, "DoesNotExist"))
		return rf_fail(err, RF_INVALID,
			       "matchExpressions: operator \"%.*s\" is none of In, NotIn, Exists, "
			       "DoesNotExist",
			       RF_STR(op));
	if (check_strings(e, "values", err) < 0)
		return rf_wrap(err, "matchExpressions");
	if (needs != (rf_gk_get(e, "values", &values) && values.n > 0))
		return rf_fail(err, RF_INVALID, "matchExpressions: %.*s %s values", RF_STR(op),
			       needs ? "needs" : "takes no");
	return 0;
}

static int check_selector(struct rf_rv match, const char *key, struct rf_err *err)
{
	struct rf_rv selector, part;
	int r = want_type(match, key, RF_RV_OBJECT, &selector, err);

	if (r <= 0)
		return r;
	r = want_type(selector, "matchLabels", RF_RV_OBJECT, &part, err);
	for (uint32_t i = 0; r > 0 && i < part.n; i++)
		if (part.pairs[i].value.type != RF_RV_STRING)
			r = rf_fail(err, RF_INVALID, "matchLabels: a value is of type %s, must be string",
				    rf_rv_type_name(part.pairs[i].value));
	if (r >= 0)
		r = want_type(selector, "matchExpressions", RF_RV_ARRAY, &part, err);
	else
		return rf_wrap(err, "%s", key);
	for (uint32_t i = 0; r > 0 && i < part.n; i++)
		if (check_expression(part.items[i], err) < 0)
			r = -err->code;
	return r < 0 ? rf_wrap(err, "%s", key) : 0;
}

static int check_kinds(struct rf_rv match, struct rf_err *err)
{
	struct rf_rv kinds;
	int r = want_type(match, "kinds", RF_RV_ARRAY, &kinds, err);

	for (uint32_t i = 0; r > 0 && i < kinds.n; i++) {
		if (kinds.items[i].type != RF_RV_OBJECT)
			return rf_fail(err, RF_INVALID, "kinds[%u]: is of type %s, must be object", i,
				       rf_rv_type_name(kinds.items[i]));
		if (check_strings(kinds.items[i], "apiGroups", err) < 0 ||
		    check_strings(kinds.items[i], "kinds", err) < 0)
			return rf_wrap(err, "kinds[%u]", i);
	}
	return r < 0 ? r : 0;
}

static int check_scope(struct rf_rv match, struct rf_err *err)
{
	struct rf_rv v;
	struct rf_str s;

	if (want_type(match, "scope", RF_RV_STRING, &v, err) < 0)
		return -err->code;
	s = rf_gk_str(match, "scope");
	if (s.n == 0 || rf_str_is(s, "*") || rf_str_is(s, "Cluster") || rf_str_is(s, "Namespaced"))
		return 0;
	return rf_fail(err, RF_INVALID, "scope: \"%.*s\" is none of *, Cluster, Namespaced", RF_STR(s));
}

static int check(struct rf_rv match, struct rf_err *err)
{
	struct rf_rv v;

	if (match.type != RF_RV_OBJECT)
		return rf_fail(err, RF_INVALID, "is of type %s, must be object", rf_rv_type_name(match));
	if (check_kinds(match, err) < 0 || check_strings(match, "namespaces", err) < 0 ||
	    check_strings(match, "excludedNamespaces", err) < 0 ||
	    check_selector(match, "labelSelector", err) < 0 ||
	    check_selector(match, "namespaceSelector", err) < 0 || check_scope(match, err) < 0 ||
	    want_type(match, "name", RF_RV_STRING, &v, err) < 0)
		return -err->code;
	return 0;
}

static struct rf_rv part_of(struct rf_rv object, const char *key)
{
	struct rf_rv v = RF_RV_NIL;

	(void)rf_gk_get(object, key, &v);
	return v;
}

static uint64_t kind_bits(const struct rf_gk_match *m)
{
	uint64_t bits = m->n_kinds ? 0 : UINT64_MAX;

	for (uint32_t i = 0; i < m->n_kinds; i++) {
		struct rf_rv list = m->kinds[i].kinds;

		bits |= list.n ? 0 : UINT64_MAX;
		for (uint32_t k = 0; k < list.n; k++)
			bits |= rf_str_is(rf_rv_text(list.items[k]), "*") ? UINT64_MAX : rf_gk_kind_bit(rf_rv_text(list.items[k]));
	}
	return bits;
}

int rf_gk_match_read(struct rf_arena *a, struct rf_rv match, struct rf_gk_match *ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_rv kinds;

	if (!err)
		err = &own;
	if (match.type != RF_RV_NULL && check(match, err) < 0)
		return -err->code;
	kinds = part_of(match, "kinds");
	*ret = (struct rf_gk_match){ .scope = rf_gk_str(match, "scope"),
				     .name = rf_gk_str(match, "name"),
				     .namespaces = part_of(match, "namespaces"),
				     .excluded = part_of(match, "excludedNamespaces"),
				     .labels = part_of(match, "labelSelector"),
				     .namespace_labels = part_of(match, "namespaceSelector") };
	ret->kinds = rf_arena_array(a, struct rf_gk_kinds, kinds.n + 1);
	for (; ret->n_kinds < kinds.n; ret->n_kinds++)
		ret->kinds[ret->n_kinds] =
			(struct rf_gk_kinds){ .groups = part_of(kinds.items[ret->n_kinds], "apiGroups"),
					      .kinds = part_of(kinds.items[ret->n_kinds], "kinds") };
	ret->kind_bits = kind_bits(ret);
	return 0;
}
