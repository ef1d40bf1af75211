/* Templates, constraints, and asking them. */
#include "policy/gatekeeper.h"

#include "policy/gatekeeper_private.h"
#include "policy/rego/rego.h"

#define TARGET "admission.k8s.gatekeeper.sh"
#define LIBS_MAX 64
#define SMALL 1024 /* first block: there may be thousands of constraints, most of them little */
#define RENEW 16 /* constraints that were replaced, and as many as a quarter of those that are there */
/* Tenants' objects end up in messages, once for each constraint: what all of them may hold is bounded, too. */
#define MESSAGE_MAX ((size_t)32 << 10)
#define MESSAGES_MAX ((size_t)4 << 20) /* from there on messages are short and without details, */
#define MESSAGE_SHORT ((size_t)256)
#define VIOLATIONS_MANY 10000 /* and from here on of each constraint only the first one is kept */

/* One rule `violation`, compiled. Never moves: constraints point to it. */
struct rf_gk_template {
	struct rf_arena arena; /* of kind and schema */
	struct rf_str kind;
	struct rf_json *schema; /* of spec.parameters; NULL: none */
	bool reads_inventory;	/* its text speaks of it, at least */
	struct rf_rego *rego;
	struct rf_rego_query *query;
};

#define POINTS 3
#define ACTION_NONE (-1)

struct rf_gk_constraint {
	struct rf_arena arena;
	const struct rf_gk_template *template;
	struct rf_str name;
	struct rf_gk_match match;
	struct rf_rv parameters;
	uint32_t number; /* in the joint plan */
	int action[POINTS]; /* by enforcement point; ACTION_NONE: not asked there */
};

struct rf_gk {
	RF_VEC(struct rf_gk_template *) templates;
	RF_VEC(struct rf_gk_constraint *) constraints;
	RF_VEC(uint64_t) kind_bits; /* of their matches: most need not be looked at for this */
	struct rf_rego_joint *plan; /* of all constraints */
	size_t since;		    /* constraints replaced since it was new */
};

static void rf_gk_template_free(struct rf_gk_template *t)
{
	if (!t)
		return;
	rf_rego_query_free(t->query);
	rf_rego_unref(t->rego);
	rf_arena_done(&t->arena);
	free(t);
}
RF_DEFINE_AUTO_PTR(gk_template);

static void rf_gk_constraint_free(struct rf_gk_constraint *c)
{
	if (!c)
		return;
	rf_arena_done(&c->arena);
	free(c);
}
RF_DEFINE_AUTO_PTR(gk_constraint);

struct rf_gk *rf_gk_new(void)
{
	struct rf_gk *gk = rf_new(struct rf_gk);

	gk->plan = rf_rego_joint_new();
	return gk;
}

void rf_gk_free(struct rf_gk *gk)
{
	if (!gk)
		return;
	for (size_t i = 0; i < gk->constraints.n; i++)
		rf_gk_constraint_free(gk->constraints.at[i]);
	rf_rego_joint_free(gk->plan);
	for (size_t i = 0; i < gk->templates.n; i++)
		rf_gk_template_free(gk->templates.at[i]);
	rf_vec_done(&gk->constraints);
	rf_vec_done(&gk->kind_bits);
	rf_vec_done(&gk->templates);
	free(gk);
}

static struct rf_gk_template *find_template(const struct rf_gk *gk, struct rf_str kind)
{
	for (size_t i = 0; i < gk->templates.n; i++)
		if (rf_str_eq(gk->templates.at[i]->kind, kind))
			return gk->templates.at[i];
	return NULL;
}

static bool find_constraint(const struct rf_gk *gk, struct rf_str kind, struct rf_str name, size_t *ret)
{
	for (size_t i = 0; i < gk->constraints.n; i++) {
		const struct rf_gk_constraint *c = gk->constraints.at[i];

		if (rf_str_eq(c->template->kind, kind) && rf_str_eq(c->name, name)) {
			*ret = i;
			return true;
		}
	}
	return false;
}

/* --- templates ------------------------------------------------------------------------------ */

struct code {
	struct rf_str rego;
	const struct rf_json *libs;
	enum rf_ra_version version;
};

/* The Rego of a target, in the new place (code) or the old one. CEL beside it is left aside. */
static int find_code(const struct rf_json *target, struct code *ret, struct rf_err *err)
{
	const struct rf_json *code = rf_json_at(target, "code"), *source = target;
	struct rf_str version;

	for (size_t i = 0; i < rf_json_len(code); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(code, i), "engine"), "Rego"))
			source = rf_json_at(rf_json_item(code, i), "source");
	ret->rego = rf_json_str_at(source, "rego");
	ret->libs = rf_json_at(source, "libs");
	version = source == target ? RF_STR_EMPTY : rf_json_str_at(source, "version");
	if (ret->rego.n == 0)
		return rf_fail(err, RF_UNSUPPORTED,
			       "has no Rego code; CEL alone (K8sNativeValidation) is not run here");
	if (version.n > 0 && !rf_str_is(version, "v0") && !rf_str_is(version, "v1"))
		return rf_fail(err, RF_INVALID, "source.version \"%.*s\" is neither v0 nor v1",
			       RF_STR(version));
	ret->version = rf_str_is(version, "v1") ? RF_RA_V1 : RF_RA_V0;
	if (rf_json_len(ret->libs) > LIBS_MAX)
		return rf_fail(err, RF_TOO_LARGE, "has more than %d libs", LIBS_MAX);
	return 0;
}

static int complain(const struct rf_ra_errors *errors, struct rf_err *err)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ra_print_errors(&text, errors);
	return rf_fail(err, RF_INVALID, "%s", text.p);
}

/* Libraries live below data.lib, and the template must not pose as the inventory. */
static int check_package(const struct rf_ra_module *m, bool lib, struct rf_err *err)
{
	struct rf_str first = m->n_package > 0 ? m->package[0] : RF_STR_EMPTY;

	if (lib && (!rf_str_is(first, "lib") || m->n_package < 2))
		return rf_fail(err, RF_INVALID, "%.*s: its package must be lib.<something>",
			       RF_STR(m->file));
	if (!lib && (first.n == 0 || rf_str_is(first, "inventory")))
		return rf_fail(err, RF_INVALID, "%.*s: package \"%.*s\" is taken; choose another",
			       RF_STR(m->file), RF_STR(first));
	return 0;
}

/* data["a"]["b"].violation: a package may be called anything. */
static void violation_path(const struct rf_ra_module *m, struct rf_buf *out)
{
	rf_buf_puts(out, "data");
	for (uint32_t i = 0; i < m->n_package; i++) {
		rf_buf_add_c(out, '[');
		rf_json_write_str(out, m->package[i]);
		rf_buf_add_c(out, ']');
	}
	rf_buf_puts(out, ".violation");
}

struct looking {
	struct rf_str file;
	bool found;
};

static void look_for_violation(void *arg, struct rf_str path, const struct rf_ra_rule *rule RF_UNUSED,
			       struct rf_str file)
{
	struct looking *l = arg;

	if (rf_str_eq(file, l->file) && rf_str_ends(path, RF_LIT(".violation")))
		l->found = true;
}

static int compile(struct rf_gk_template *t, const struct code *code, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)64 << 20);
	rf_auto(buf) path = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_source source[1 + LIBS_MAX];
	size_t n = 1 + rf_json_len(code->libs);
	struct looking looking = { RF_LIT("template"), false };
	struct rf_ra_module *m;

	for (size_t i = 0; i < n; i++) {
		source[i].file = i ? rf_arena_printf(&a, "libs[%zu]", i - 1) : RF_LIT("template");
		source[i].text = i ? rf_json_str(rf_json_item(code->libs, i - 1)) : code->rego;
		source[i].version = code->version;
		if (rf_ra_parse(&a, source[i].file, source[i].text, code->version, &m, &errors) < 0)
			return complain(&errors, err);
		if (check_package(m, i > 0, err) < 0)
			return -err->code;
		t->reads_inventory |= rf_str_contains(source[i].text, RF_LIT("inventory"));
		if (i == 0)
			violation_path(m, &path);
	}
	if (rf_rego_compile(source, n, NULL, &t->rego, &errors) < 0)
		return complain(&errors, err);
	rf_rego_each_rule(t->rego, look_for_violation, &looking);
	if (!looking.found)
		return rf_fail(err, RF_INVALID, "has no rule violation[{\"msg\": ...}]");
	if (rf_rego_prepare(t->rego, rf_buf_str(&path), code->version, &t->query, &errors) < 0)
		return complain(&errors, err);
	return 0;
}

static int read_template(const struct rf_json *object, struct rf_gk_template *t, struct rf_err *err)
{
	const struct rf_json *targets = rf_json_at(object, "spec", "targets");
	const struct rf_json *target = rf_json_item(targets, 0);
	struct rf_str kind = rf_json_str_at(object, "spec", "crd", "spec", "names", "kind");
	struct code code = { 0 };

	if (kind.n == 0)
		return rf_fail(err, RF_INVALID, "spec.crd.spec.names.kind is missing");
	if (!rf_str_ieq(kind, rf_json_str_at(object, "metadata", "name")))
		return rf_fail(err, RF_INVALID, "its name must be its kind %.*s in lower case",
			       RF_STR(kind));
	if (rf_json_len(targets) != 1 || !rf_str_is(rf_json_str_at(target, "target"), TARGET))
		return rf_fail(err, RF_INVALID, "spec.targets must be one, for " TARGET);
	if (find_code(target, &code, err) < 0 || compile(t, &code, err) < 0)
		return -err->code;
	t->kind = rf_arena_str(&t->arena, kind);
	t->schema = rf_json_clone(&t->arena, rf_json_at(object, "spec", "crd", "spec", "validation",
							 "openAPIV3Schema"));
	return 0;
}

static void join(struct rf_gk *gk, struct rf_gk_constraint *c)
{
	c->number = rf_rego_join(gk->plan, c->template->query, RF_LIT("parameters"), c->parameters);
}

/* The plan keeps what no constraint says any more: now and then it is made anew from those that are there. */
static void renew_plan(struct rf_gk *gk)
{
	if (++gk->since < RENEW + gk->constraints.n / 4)
		return;
	gk->since = 0;
	rf_rego_joint_free(gk->plan);
	gk->plan = rf_rego_joint_new();
	for (size_t i = 0; i < gk->constraints.n; i++)
		join(gk, gk->constraints.at[i]);
}

/* The template has become another. */
static void join_again(struct rf_gk *gk, const struct rf_gk_template *t)
{
	for (size_t i = 0; i < gk->constraints.n; i++)
		if (gk->constraints.at[i]->template == t) {
			join(gk, gk->constraints.at[i]);
			renew_plan(gk);
		}
}

static int add_template(struct rf_gk *gk, const struct rf_json *object, struct rf_err *err)
{
	rf_auto_ptr(gk_template) t = rf_new(struct rf_gk_template);
	struct rf_gk_template *old, swap;

	t->arena.block = SMALL;
	if (read_template(object, t, err) < 0)
		return rf_wrap(err, "ConstraintTemplate %.*s",
			       RF_STR(rf_json_str_at(object, "metadata", "name")));
	old = find_template(gk, t->kind);
	if (old) {
		swap = *old;
		*old = *t;
		*t = swap;
		join_again(gk, old);
		return 0;
	}
	if (gk->templates.n >= RF_GK_TEMPLATES_MAX)
		return rf_fail(err, RF_EXHAUSTED, "ConstraintTemplate %.*s: there are %d already",
			       RF_STR(t->kind), RF_GK_TEMPLATES_MAX);
	rf_vec_push(&gk->templates, rf_take(t));
	return 0;
}

/* --- constraints ---------------------------------------------------------------------------- */

static const char *const action_names[] = { "dryrun", "warn", "deny" };

const char *rf_gk_action_name(enum rf_gk_action action)
{
	return action_names[action];
}

static int read_action(struct rf_str s, int *ret, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(action_names); i++)
		if (rf_str_is(s, action_names[i])) {
			*ret = (int)i;
			return 0;
		}
	return rf_fail(err, RF_INVALID, "action \"%.*s\" is none of deny, warn, dryrun", RF_STR(s));
}

static const char *const point_names[POINTS] = {
	[RF_GK_ADMISSION] = "validation.gatekeeper.sh",
	[RF_GK_AUDIT] = "audit.gatekeeper.sh",
	[RF_GK_GATOR] = "gator.gatekeeper.sh",
};

/* Several actions for one point: the strongest. */
static void act_at(struct rf_gk_constraint *c, struct rf_str point, int action)
{
	for (size_t i = 0; i < POINTS; i++)
		if (rf_str_is(point, "*") || rf_str_is(point, point_names[i]))
			c->action[i] = RF_MAX(c->action[i], action);
}

static int read_scoped(struct rf_gk_constraint *c, const struct rf_json *list, struct rf_err *err)
{
	int action = 0;

	if (!rf_json_is(list, RF_JSON_ARRAY) || list->n == 0)
		return rf_fail(err, RF_INVALID, "enforcementAction scoped needs scopedEnforcementActions");
	for (size_t i = 0; i < list->n; i++) {
		const struct rf_json *points = rf_json_at(list->items[i], "enforcementPoints");

		if (read_action(rf_json_str_at(list->items[i], "action"), &action, err) < 0)
			return rf_wrap(err, "scopedEnforcementActions[%zu]", i);
		if (rf_json_len(points) == 0)
			return rf_fail(err, RF_INVALID,
				       "scopedEnforcementActions[%zu]: has no enforcementPoints", i);
		for (size_t j = 0; j < rf_json_len(points); j++)
			act_at(c, rf_json_str_at(rf_json_item(points, j), "name"), action);
	}
	return 0;
}

static int read_actions(struct rf_gk_constraint *c, const struct rf_json *spec, struct rf_err *err)
{
	const struct rf_json *given = rf_json_at(spec, "enforcementAction");
	struct rf_str s = rf_json_str(given);
	int action = RF_GK_DENY;

	for (size_t i = 0; i < POINTS; i++)
		c->action[i] = ACTION_NONE;
	if (rf_str_is(s, "scoped"))
		return read_scoped(c, rf_json_at(spec, "scopedEnforcementActions"), err);
	if (given && given->type != RF_JSON_NULL && (given->type != RF_JSON_STRING || s.n > 0) &&
	    read_action(s, &action, err) < 0)
		return rf_wrap(err, "enforcementAction");
	act_at(c, RF_LIT("*"), action);
	return 0;
}

static bool to_value(struct rf_arena *a, const struct rf_json *v, struct rf_rv *ret)
{
	*ret = RF_RV_NIL;
	return !v || rf_rv_from_json(a, v, ret);
}

static int read_parameters(struct rf_gk_constraint *c, const struct rf_json *spec, struct rf_err *err)
{
	struct rf_json *p = rf_json_clone(&c->arena, rf_json_at(spec, "parameters"));

	if (!p || p->type == RF_JSON_NULL)
		p = rf_json_object(&c->arena);
	if (rf_gk_fit(&c->arena, c->template->schema, p, RF_LIT("parameters"), err) < 0)
		return rf_wrap(err, "spec");
	if (!to_value(&c->arena, p, &c->parameters))
		return rf_fail(err, RF_TOO_LARGE, "spec.parameters: too large");
	return 0;
}

static int read_constraint(struct rf_gk_constraint *c, const struct rf_json *object, struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(object, "spec");
	struct rf_rv match = RF_RV_NIL;

	c->name = rf_arena_str(&c->arena, rf_json_str_at(object, "metadata", "name"));
	if (c->name.n == 0)
		return rf_fail(err, RF_INVALID, "metadata.name is missing");
	if (read_actions(c, spec, err) < 0 || read_parameters(c, spec, err) < 0)
		return -err->code;
	if (!to_value(&c->arena, rf_json_clone(&c->arena, rf_json_at(spec, "match")), &match))
		return rf_fail(err, RF_TOO_LARGE, "spec.match: too large");
	if (rf_gk_match_read(&c->arena, match, &c->match, err) < 0)
		return rf_wrap(err, "spec.match");
	return 0;
}

static int add_constraint(struct rf_gk *gk, const struct rf_json *object, struct rf_err *err)
{
	rf_auto_ptr(gk_constraint) c = rf_new(struct rf_gk_constraint);
	struct rf_str kind = rf_json_str_at(object, "kind");
	size_t i;

	c->arena.block = SMALL;
	c->template = find_template(gk, kind);
	if (!c->template)
		return rf_fail(err, RF_NOT_FOUND,
			       "constraint of kind %.*s: there is no such template; add it first",
			       RF_STR(kind));
	if (read_constraint(c, object, err) < 0)
		return rf_wrap(err, "%.*s %.*s", RF_STR(kind), RF_STR(c->name));
	if (find_constraint(gk, kind, c->name, &i)) {
		struct rf_gk_constraint *old = gk->constraints.at[i];

		join(gk, c);
		gk->constraints.at[i] = c;
		gk->kind_bits.at[i] = c->match.kind_bits;
		c = old;
		renew_plan(gk);
		return 0;
	}
	if (gk->constraints.n >= RF_GK_CONSTRAINTS_MAX)
		return rf_fail(err, RF_EXHAUSTED, "%.*s %.*s: there are %d constraints already",
			       RF_STR(kind), RF_STR(c->name), RF_GK_CONSTRAINTS_MAX);
	join(gk, c);
	rf_vec_push(&gk->kind_bits, c->match.kind_bits);
	rf_vec_push(&gk->constraints, rf_take(c));
	return 0;
}

int rf_gk_add(struct rf_gk *gk, const struct rf_json *object, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_str gv = rf_json_str_at(object, "apiVersion"), group, version;

	if (!err)
		err = &own;
	rf_gk_split_gv(gv, &group, &version);
	if (rf_str_is(group, "constraints.gatekeeper.sh"))
		return add_constraint(gk, object, err);
	if (rf_str_is(group, "templates.gatekeeper.sh") &&
	    rf_str_is(rf_json_str_at(object, "kind"), "ConstraintTemplate"))
		return add_template(gk, object, err);
	return rf_fail(err, RF_INVALID,
		       "%.*s %.*s is neither a ConstraintTemplate nor a constraint of Gatekeeper",
		       RF_STR(gv), RF_STR(rf_json_str_at(object, "kind")));
}

static void remove_constraint(struct rf_gk *gk, size_t i)
{
	rf_gk_constraint_free(gk->constraints.at[i]);
	rf_vec_remove(&gk->constraints, i);
	rf_vec_remove(&gk->kind_bits, i);
	renew_plan(gk);
}

static void remove_template(struct rf_gk *gk, struct rf_gk_template *t)
{
	for (size_t i = gk->constraints.n; i-- > 0;)
		if (gk->constraints.at[i]->template == t)
			remove_constraint(gk, i);
	for (size_t i = 0; i < gk->templates.n; i++)
		if (gk->templates.at[i] == t) {
			rf_vec_remove(&gk->templates, i);
			break;
		}
	rf_gk_template_free(t);
}

int rf_gk_remove(struct rf_gk *gk, struct rf_str kind, struct rf_str name, struct rf_err *err)
{
	struct rf_gk_template *t = find_template(gk, kind);
	size_t i;

	if (name.n == 0 && t) {
		remove_template(gk, t);
		return 0;
	}
	if (name.n > 0 && find_constraint(gk, kind, name, &i)) {
		remove_constraint(gk, i);
		return 0;
	}
	return rf_fail(err, RF_NOT_FOUND, "%.*s %.*s: there is no such policy", RF_STR(kind), RF_STR(name));
}

/* --- the review as policies see it ---------------------------------------------------------- */

/* The object with one member more, or another value for it. */
static bool with_member(struct rf_arena *a, struct rf_rv *object, const char *key, struct rf_rv value)
{
	struct rf_rv_pair *pair = rf_arena_try(a, (object->n + 1) * sizeof(*pair));

	if (!pair)
		return false;
	if (object->n > 0)
		memcpy(pair, object->pairs, object->n * sizeof(*pair));
	pair[object->n] = (struct rf_rv_pair){ rf_rv_str(rf_str(key)), value };
	*object = rf_rv_object(pair, object->n + 1, NULL);
	return true;
}

static struct rf_str namespace_of(struct rf_rv review, struct rf_rv object)
{
	struct rf_str ns = rf_gk_str(review, "namespace");
	struct rf_rv meta;

	if (ns.n == 0 && rf_gk_get(object, "metadata", &meta))
		ns = rf_gk_str(meta, "namespace");
	return ns;
}

static struct rf_rv find_namespace(const struct rf_rv *inventory, struct rf_str ns)
{
	struct rf_rv v;

	if (inventory && ns.n > 0 && rf_gk_get(*inventory, "cluster", &v) && rf_gk_get(v, "v1", &v) &&
	    rf_gk_get(v, "Namespace", &v) && v.type == RF_RV_OBJECT && rf_rv_get_str(v, ns, &v))
		return v;
	return RF_RV_NIL;
}

static bool kind_of(struct rf_arena *a, struct rf_rv object, struct rf_rv *ret)
{
	struct rf_str group, version;

	rf_gk_split_gv(rf_gk_str(object, "apiVersion"), &group, &version);
	*ret = rf_rv_object(NULL, 0, NULL);
	return with_member(a, ret, "group", rf_rv_str(group)) &&
	       with_member(a, ret, "version", rf_rv_str(version)) &&
	       with_member(a, ret, "kind", rf_rv_str(rf_gk_str(object, "kind")));
}

static int too_large(struct rf_err *err)
{
	return rf_fail(err, RF_TOO_LARGE, "review: no memory left to lay it out");
}

/* Fills in what a policy may rely on: object on DELETE, kind, namespaceObject. */
static int complete(struct rf_arena *a, const struct rf_rv *review, const struct rf_rv *inventory,
		    struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv r = *review, object, kind, ns;
	bool deleting;

	if (r.type != RF_RV_OBJECT)
		return rf_fail(err, RF_INVALID, "review: must be an AdmissionRequest, is of type %s",
			       rf_rv_type_name(r));
	deleting = rf_str_is(rf_gk_str(r, "operation"), "DELETE");
	if (deleting && !rf_gk_get(r, "oldObject", &object))
		return rf_fail(err, RF_INVALID, "review: a DELETE needs oldObject");
	if (deleting && !with_member(a, &r, "object", object))
		return too_large(err);
	if (!rf_gk_get(r, "object", &object) && !rf_gk_get(r, "oldObject", &object))
		return rf_fail(err, RF_INVALID, "review: has neither object nor oldObject");
	if (!rf_gk_get(r, "kind", &kind) &&
	    (!kind_of(a, object, &kind) || !with_member(a, &r, "kind", kind)))
		return too_large(err);
	if (!rf_gk_get(r, "namespaceObject", &ns) &&
	    !with_member(a, &r, "namespaceObject", find_namespace(inventory, namespace_of(r, object))))
		return too_large(err);
	*ret = r;
	return 0;
}

int rf_gk_review_of(struct rf_arena *a, struct rf_rv object, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv r = rf_rv_object(NULL, 0, NULL), none = r, kind, meta = RF_RV_NIL;
	struct rf_str ns;

	if (object.type != RF_RV_OBJECT || rf_gk_str(object, "kind").n == 0 ||
	    rf_gk_str(object, "apiVersion").n == 0)
		return rf_fail(err, RF_INVALID, "an object needs apiVersion and kind");
	(void)rf_gk_get(object, "metadata", &meta);
	ns = rf_gk_str(meta, "namespace");
	if (!kind_of(a, object, &kind) || !with_member(a, &r, "kind", kind) ||
	    !with_member(a, &r, "object", object) || !with_member(a, &r, "oldObject", RF_RV_NIL) ||
	    !with_member(a, &r, "operation", rf_rv_str(RF_STR_EMPTY)) ||
	    !with_member(a, &r, "userInfo", none) ||
	    !with_member(a, &r, "name", rf_rv_str(rf_gk_str(meta, "name"))) ||
	    (ns.n > 0 && !with_member(a, &r, "namespace", rf_rv_str(ns))))
		return too_large(err);
	*ret = r;
	return 0;
}

/* --- asking --------------------------------------------------------------------------------- */

struct asking {
	const struct rf_gk *gk;
	struct rf_rv review;
	struct rf_rv data; /* {"inventory": ...} */
	struct rf_gk_subject subject[2];
	uint32_t n_subjects;
	int64_t steps; /* left for all constraints together */
	struct rf_err err;
	struct rf_arena scratch;
	struct rf_rv_pair pair; /* of the input */
	struct rf_rv input;
	struct rf_rego_run run;
	struct rf_rego_round *round; /* in scratch */
	struct rf_arena *arena;	 /* of the violations */
	struct rf_gk_violations found;
	size_t room, bytes; /* of found, and of its messages and details */
};

/* Never in the middle of a character. */
static struct rf_str cut(struct rf_str s, size_t most)
{
	if (s.n <= most)
		return s;
	while (most > 0 && ((unsigned char)s.p[most] & 0xc0) == 0x80)
		most--;
	return rf_str_n(s.p, most);
}

static void found(struct asking *q, const struct rf_gk_constraint *c, int action, struct rf_str msg,
		  struct rf_rv details)
{
	msg = cut(msg, q->bytes < MESSAGES_MAX ? MESSAGE_MAX : MESSAGE_SHORT);
	q->bytes += msg.n;
	if (q->found.n == q->room) {
		size_t room = q->room ? 2 * q->room : 8;
		struct rf_gk_violation *more = rf_arena_array(q->arena, struct rf_gk_violation, room);

		if (q->found.n > 0)
			memcpy(more, q->found.at, q->found.n * sizeof(*more));
		q->found.at = more;
		q->room = room;
	}
	q->found.at[q->found.n++] = (struct rf_gk_violation){
		.constraint = rf_arena_str(q->arena, c->name),
		.kind = rf_arena_str(q->arena, c->template->kind),
		.action = (enum rf_gk_action)action,
		.msg = rf_arena_str(q->arena, msg),
		.details = details,
	};
}

/* The policy could not be asked: that is no permission. */
static void failed(struct asking *q, const struct rf_gk_constraint *c, int action, const char *why)
{
	struct rf_str msg = rf_arena_printf(q->arena, "policy could not be evaluated: %s", why);

	found(q, c, action, msg, rf_rv_object(NULL, 0, NULL));
}

static void take_one(struct asking *q, const struct rf_gk_constraint *c, int action, struct rf_rv v)
{
	struct rf_rv msg, details, copy;
	size_t before = q->arena->used;

	if (!rf_gk_get(v, "msg", &msg) || msg.type != RF_RV_STRING) {
		failed(q, c, action, "a violation has no msg, or one that is no string");
		return;
	}
	if (v.type != RF_RV_OBJECT || q->bytes >= MESSAGES_MAX ||
	    !rf_rv_get_str(v, RF_LIT("details"), &details))
		details = rf_rv_object(NULL, 0, NULL);
	/* Details are an extra: without memory for them the violation still stands. */
	if (!rf_rv_copy(q->arena, details, &copy))
		copy = rf_rv_object(NULL, 0, NULL);
	q->bytes += q->arena->used - before;
	found(q, c, action, rf_rv_text(msg), copy);
}

static void take_all(struct asking *q, const struct rf_gk_constraint *c, int action, struct rf_rv set)
{
	uint32_t most = q->found.n < VIOLATIONS_MANY ? RF_GK_VIOLATIONS_MAX : 1;

	if (set.type != RF_RV_SET) {
		failed(q, c, action, "violation is not a set; write violation[{\"msg\": msg}]");
		return;
	}
	for (uint32_t i = 0; i < set.n && i < most; i++)
		take_one(q, c, action, set.items[i]);
	if (set.n > most)
		found(q, c, action,
		      rf_arena_printf(q->arena, "and %u more violations", set.n - most),
		      rf_rv_object(NULL, 0, NULL));
}

/* What one finds out is of use to the next, so its memory stays; each may use as much as the first. */
static bool make_room(struct asking *q)
{
	if (q->scratch.used > RF_GK_MEMORY || !q->round) {
		rf_arena_reset(&q->scratch);
		q->scratch.cap = 0;
		q->round = rf_rego_begin(q->gk->plan, &q->run);
	}
	q->scratch.cap = q->scratch.used + RF_GK_MEMORY;
	return q->round != NULL;
}

/* Not more than its own steps, and of those that all constraints have together what is left. */
static void evaluate(struct asking *q, const struct rf_gk_constraint *c, int action)
{
	struct rf_rv set = RF_RV_NIL;
	int r;

	q->run.steps = RF_MIN(RF_GK_STEPS, q->steps);
	r = make_room(q) ? rf_rego_ask_joint(q->round, c->number, &set, &q->err) : too_large(&q->err);
	q->steps = RF_MAX(1, q->steps - q->run.used);
	if (r < 0)
		failed(q, c, action, q->err.msg);
	else if (r == 0)
		failed(q, c, action, "violation is undefined");
	else
		take_all(q, c, action, set);
}

static void describe(struct rf_rv review, struct rf_rv object, struct rf_gk_subject *s)
{
	struct rf_rv meta = RF_RV_NIL, kind = RF_RV_NIL;
	struct rf_str version;

	*s = (struct rf_gk_subject){ .kind = rf_gk_str(object, "kind") };
	rf_gk_split_gv(rf_gk_str(object, "apiVersion"), &s->group, &version);
	if (s->kind.n == 0 && rf_gk_get(review, "kind", &kind)) {
		s->kind = rf_gk_str(kind, "kind");
		s->group = rf_gk_str(kind, "group");
	}
	(void)rf_gk_get(object, "metadata", &meta);
	s->name = rf_gk_str(meta, "name");
	if (s->name.n == 0)
		s->name = rf_gk_str(review, "name");
	s->generate_name = rf_gk_str(meta, "generateName");
	s->namespace = namespace_of(review, object);
	(void)rf_gk_get(meta, "labels", &s->labels);
	(void)rf_gk_get(review, "namespaceObject", &s->namespace_object);
}

/* Either side of an update: a label taken away must not take the object out of a policy's reach. */
static uint32_t subjects_of(struct rf_rv review, struct rf_gk_subject s[2])
{
	struct rf_rv object;
	uint32_t n = 0;

	if (rf_gk_get(review, "object", &object))
		describe(review, object, &s[n++]);
	if (rf_gk_get(review, "oldObject", &object))
		describe(review, object, &s[n++]);
	return n;
}

static uint64_t kind_bits(const struct rf_gk_subject *s, uint32_t n)
{
	uint64_t bits = 0;

	for (uint32_t i = 0; i < n; i++)
		bits |= rf_gk_kind_bit(s[i].kind);
	return bits;
}

static int matches(const struct rf_gk_constraint *c, const struct rf_gk_subject *s, uint32_t n, struct rf_err *err)
{
	int r = 0;

	for (uint32_t i = 0; i < n && r == 0; i++)
		r = rf_gk_matches(&c->match, &s[i], err);
	return r;
}

static void ask(struct asking *q, const struct rf_gk_constraint *c, enum rf_gk_point point)
{
	int action = c->action[point];
	int r;

	if (action == ACTION_NONE)
		return;
	r = matches(c, q->subject, q->n_subjects, &q->err);
	if (r < 0)
		failed(q, c, action, q->err.msg);
	else if (r > 0)
		evaluate(q, c, action);
}

bool rf_gk_needs_inventory(const struct rf_gk *gk, const struct rf_rv *review, enum rf_gk_point point)
{
	struct rf_gk_subject subject[2];
	uint32_t n = subjects_of(*review, subject);
	uint64_t bits = kind_bits(subject, n);

	for (size_t i = 0; i < gk->constraints.n; i++) {
		const struct rf_gk_constraint *c = gk->constraints.at[i];

		if ((gk->kind_bits.at[i] & bits) && c->template->reads_inventory && c->action[point] != ACTION_NONE &&
		    matches(c, subject, n, NULL) != 0)
			return true;
	}
	return false;
}

int rf_gk_review(const struct rf_gk *gk, const struct rf_rv *review, const struct rf_rv *inventory,
		 enum rf_gk_point point, struct rf_arena *arena, struct rf_gk_violations *ret,
		 struct rf_err *err)
{
	rf_auto(arena) own = RF_ARENA_CAPPED((size_t)1 << 20);
	struct asking q = { .gk = gk,
			    .arena = arena,
			    .data = rf_rv_object(NULL, 0, NULL),
			    .steps = RF_GK_STEPS_ALL,
			    .scratch = RF_ARENA_CAPPED(RF_GK_MEMORY) };
	int r = complete(&own, review, inventory, &q.review, err);
	uint64_t bits;

	if (r < 0)
		return r;
	if (inventory && !with_member(&own, &q.data, "inventory", *inventory))
		return too_large(err);
	q.n_subjects = subjects_of(q.review, q.subject);
	q.pair = (struct rf_rv_pair){ rf_rv_str(RF_LIT("review")), q.review };
	q.input = (struct rf_rv){ .type = RF_RV_OBJECT, .n = 1, .pairs = &q.pair };
	q.run = (struct rf_rego_run){ .arena = &q.scratch,
				      .input = &q.input,
				      .data = inventory ? &q.data : NULL,
				      .now_ns = rf_wall_ms(rf_clock_system()) * 1000000,
				      .deadline_ns = rf_mono_ns(rf_clock_system()) + RF_GK_MS * (int64_t)1000000 };
	bits = kind_bits(q.subject, q.n_subjects);
	for (size_t i = 0; i < gk->constraints.n; i++)
		if (gk->kind_bits.at[i] & bits)
			ask(&q, gk->constraints.at[i], point);
	rf_arena_done(&q.scratch);
	*ret = q.found;
	return 0;
}

/* --- the inventory -------------------------------------------------------------------------- */

struct place {
	struct rf_str part[5]; /* namespace or "", gv, kind, name; the first says cluster or namespace */
	uint32_t n;
	size_t order;
	struct rf_rv object;
};

static int compare_places(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	for (uint32_t i = 0; i < x->n && i < y->n; i++) {
		int c = rf_str_cmp(x->part[i], y->part[i]);

		if (c != 0)
			return c;
	}
	return x->order < y->order ? -1 : 1;
}

/* The object below places [0, n), which agree on the first `depth` parts. */
static bool gather(struct rf_arena *a, const struct place *p, size_t n, uint32_t depth, struct rf_rv *ret)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv below;

	if (n > 0 && depth == p->n) {
		*ret = p[n - 1].object;
		return true;
	}
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && rf_str_eq(p[end].part[depth], p[i].part[depth]); end++)
			;
		if (!gather(a, p + i, end - i, depth + 1, &below) ||
		    !rf_rv_put(&g, a, rf_rv_str(p[i].part[depth]), below, NULL))
			return false;
	}
	return rf_rv_grown_object(&g, a, ret);
}

static int place_of(struct rf_rv object, size_t order, struct place *p, struct rf_err *err)
{
	struct rf_rv meta = RF_RV_NIL;
	struct rf_str ns;

	*p = (struct place){ .order = order, .object = object };
	(void)rf_gk_get(object, "metadata", &meta);
	ns = rf_gk_str(meta, "namespace");
	p->part[p->n++] = ns.n > 0 ? RF_LIT("namespace") : RF_LIT("cluster");
	if (ns.n > 0)
		p->part[p->n++] = ns;
	p->part[p->n++] = rf_gk_str(object, "apiVersion");
	p->part[p->n++] = rf_gk_str(object, "kind");
	p->part[p->n++] = rf_gk_str(meta, "name");
	for (uint32_t i = 0; i < p->n; i++)
		if (p->part[i].n == 0)
			return rf_fail(err, RF_INVALID,
				       "inventory[%zu]: needs apiVersion, kind and metadata.name", order);
	return 0;
}

int rf_gk_inventory(struct rf_arena *a, const struct rf_rv *object, size_t n, struct rf_rv *ret,
		    struct rf_err *err)
{
	struct place *p = rf_arena_try(a, (n + 1) * sizeof(*p));

	if (!p)
		return rf_fail(err, RF_TOO_LARGE, "inventory: %zu objects are too many", n);
	for (size_t i = 0; i < n; i++) {
		int r = place_of(object[i], i, &p[i], err);

		if (r < 0)
			return r;
	}
	if (n > 0)
		qsort(p, n, sizeof(*p), compare_places);
	if (!gather(a, p, n, 0, ret))
		return rf_fail(err, RF_TOO_LARGE, "inventory: %zu objects are too many", n);
	return 0;
}
