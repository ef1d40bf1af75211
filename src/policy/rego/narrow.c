/* Partial sets of which only a part is ever asked for. Gatekeeper's templates are full of
 *
 *	violation[{"msg": msg}] { general[{"msg": msg, "field": "containers"}] }
 *	general[{"msg": msg, "field": field}] { c := input.review.object.spec[field][_]; ... }
 *
 * Where all walks of a set want the same field to be one of some constants, and its rules take that field from the
 * keys of an object, those walks get a set of their own: rules that look at these keys alone. */
#include "policy/rego/compile.h"

#define CONSTANTS_MAX 16
#define WALKS_MAX 64

struct walks {
	const struct rf_rego_group *of;
	struct rf_rp_step *step[WALKS_MAX];
	uint32_t n;
	bool spoilt; /* asked for in another way too, or too often */
};

/* --- who asks --- */

static void look_at_steps(struct walks *w, struct rf_rp_step *s);

static void look_at_expr(struct walks *w, const struct rf_rp_expr *e)
{
	for (uint32_t i = 0; i < e->n; i++)
		look_at_expr(w, &e->item[i]);
	if (rf_rp_has_base(e))
		look_at_expr(w, e->base);
	if (e->kind == RF_RP_OBJECT_COMP)
		look_at_expr(w, e->key);
	if (rf_rp_is_comp(e))
		look_at_steps(w, e->body);
}

static bool walks_it(const struct walks *w, const struct rf_rp_step *s)
{
	return s->op == RF_RP_EACH && s->expr->kind == RF_RP_DATA && s->expr->node->group == w->of &&
	       s->expr->n == 0 && s->key && s->key->kind == RF_RP_FIELDS;
}

/* Other uses go on with the whole set; they do not matter here. */
static void look_at_steps(struct walks *w, struct rf_rp_step *s)
{
	for (; s; s = s->next) {
		if (walks_it(w, s)) {
			w->spoilt |= w->n == WALKS_MAX;
			if (w->n < WALKS_MAX)
				w->step[w->n++] = s;
		}
		if (s->expr)
			look_at_expr(w, s->expr);
		if (rf_rp_has_body(s))
			look_at_steps(w, s->body);
		if (rf_rp_has_other(s))
			look_at_steps(w, s->other);
	}
}

static void look_everywhere(struct walks *w, const struct rf_rego *r)
{
	for (uint32_t i = 0; i < r->n_groups; i++)
		for (uint32_t j = 0; j < r->group[i]->n; j++)
			for (struct rf_rp_rule *rule = r->group[i]->rule[j]; rule; rule = rule->otherwise) {
				look_at_steps(w, rule->body);
				look_at_expr(w, rule->value);
			}
}

/* --- what they want --- */

struct wanted {
	struct rf_rv field;
	struct rf_rv value[CONSTANTS_MAX];
	uint32_t n;
};

static const struct rf_rp_expr *constant_of(const struct rf_rp_pattern *p, struct rf_rv field)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->key[i].kind == RF_RP_CONST && rf_rv_eq(p->key[i].value, field) &&
		    p->part[i].kind == RF_RP_EQUAL && p->part[i].expr->kind == RF_RP_CONST &&
		    p->part[i].expr->value.type == RF_RV_STRING) /* a number may be written in another way */
			return p->part[i].expr;
	return NULL;
}

static bool collect_constants(const struct walks *w, struct wanted *ret)
{
	for (uint32_t i = 0; i < w->n; i++) {
		const struct rf_rp_expr *e = constant_of(w->step[i]->key, ret->field);
		bool there = false;

		if (!e)
			return false;
		for (uint32_t j = 0; j < ret->n; j++)
			there |= rf_rv_eq(ret->value[j], e->value);
		if (there)
			continue;
		if (ret->n == CONSTANTS_MAX)
			return false;
		ret->value[ret->n++] = e->value;
	}
	return ret->n > 0;
}

/* --- the rules --- */

/* The slot that the rule's value has under the field; UINT32_MAX: none. */
static uint32_t slot_of(const struct rf_rp_rule *rule, struct rf_rv field)
{
	const struct rf_rp_expr *v = rule->value;

	for (uint32_t i = 0; v->kind == RF_RP_OBJECT && i + 1 < v->n; i += 2)
		if (v->item[i].kind == RF_RP_CONST && rf_rv_eq(v->item[i].value, field) &&
		    v->item[i + 1].kind == RF_RP_SLOT)
			return v->item[i + 1].slot;
	return UINT32_MAX;
}

static bool binds(const struct rf_rp_step *s, uint32_t slot)
{
	return s->op == RF_RP_EACH && s->key && s->key->kind == RF_RP_BIND && s->key->slot == slot;
}

/* The same rule, looking at the wanted keys alone; NULL: its value comes from elsewhere. */
static struct rf_rp_rule *narrow_rule(struct rf_rego *r, const struct rf_rp_rule *rule, const struct wanted *w)
{
	struct rf_rp_rule *copy = rf_arena_new(&r->arena, struct rf_rp_rule);
	uint32_t slot = slot_of(rule, w->field);
	struct rf_rp_step **tail = &copy->body;

	*copy = *rule;
	if (slot == UINT32_MAX || rule->otherwise)
		return NULL;
	for (const struct rf_rp_step *s = rule->body; s; s = s->next) {
		struct rf_rp_step *mine = rf_arena_new(&r->arena, struct rf_rp_step);

		*mine = *s;
		*tail = mine;
		tail = &mine->next;
		if (!binds(s, slot))
			continue;
		mine->n = w->n;
		mine->only = rf_arena_array(&r->arena, struct rf_rv, w->n);
		memcpy(mine->only, w->value, w->n * sizeof(*w->value));
		return copy;
	}
	return NULL;
}

static struct rf_rego_group *narrow_group(struct rf_rego *r, const struct rf_rego_group *g, const struct wanted *w)
{
	struct rf_rego_group *copy = rf_arena_new(&r->arena, struct rf_rego_group);

	*copy = *g;
	copy->rule = rf_arena_array(&r->arena, struct rf_rp_rule *, g->n);
	for (uint32_t i = 0; i < g->n; i++) {
		copy->rule[i] = narrow_rule(r, g->rule[i], w);
		if (!copy->rule[i])
			return NULL;
	}
	copy->merged = copy->rule;
	return copy;
}

/* --- all together --- */

static void use_instead(struct rf_rego *r, const struct walks *w, struct rf_rego_group *g)
{
	struct rf_rego_group **more = rf_arena_array(&r->arena, struct rf_rego_group *, r->n_groups + 2);

	memcpy(more, r->group, r->n_groups * sizeof(*more));
	r->group = more;
	g->id = r->n_groups;
	r->group[r->n_groups++] = g;
	for (uint32_t i = 0; i < w->n; i++) {
		struct rf_rp_expr *e = rf_arena_new(&r->arena, struct rf_rp_expr);

		e->kind = RF_RP_NARROWED;
		e->row = w->step[i]->expr->row;
		e->base = w->step[i]->expr;
		e->group = g;
		w->step[i]->expr = e;
	}
}

static void narrow(struct rf_rego *r, const struct rf_rego_group *g)
{
	struct walks w = { .of = g };
	const struct rf_rp_pattern *first;

	look_everywhere(&w, r);
	if (w.n == 0 || w.spoilt)
		return;
	first = w.step[0]->key;
	for (uint32_t i = 0; i < first->n; i++) {
		struct wanted wanted = { .n = 0 };
		struct rf_rego_group *copy;

		if (first->key[i].kind != RF_RP_CONST)
			continue;
		wanted.field = first->key[i].value;
		copy = collect_constants(&w, &wanted) ? narrow_group(r, g, &wanted) : NULL;
		if (!copy)
			continue;
		use_instead(r, &w, copy);
		return;
	}
}

#define RULES_MAX 2000 /* every rule is looked at for every set */

void rf_rc_narrow(struct rf_rego *r)
{
	uint32_t n = r->n_groups, rules = 0;

	for (uint32_t i = 0; i < n; i++)
		rules += r->group[i]->n;
	for (uint32_t i = 0; i < n && rules <= RULES_MAX; i++)
		if (r->group[i]->kind == RF_REGO_PARTIAL_SET && r->group[i]->n > 0)
			narrow(r, r->group[i]);
}
