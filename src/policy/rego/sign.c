/* What a place's rules compute, as one number: templates that carry the same library, and constraints that give it the
 * same parameters, compute the same from the same review, and need to do so once.
 *
 * A sign covers everything the value may depend on but the input itself: the steps of the rules and of all that
 * they refer to. What depends on input[key] alone goes in as the value that it has. Rules that read data, change
 * it with `with`, or call what is not a function of its arguments have no sign.
 *
 * All of that is written down and hashed by SHA-256: who may write a policy or its parameters must not be able to make
 * one that is taken for another's. Numbers go in as they are written, because messages may show them. */
#include <openssl/sha.h>

#include "policy/rego/eval.h"
#include "policy/rego/number.h"

struct signing {
	const struct rf_rego *r;
	struct rf_str key;
	struct rf_re_sign value;		 /* of what lies there */
	const struct rf_re_cached *group, *once; /* known values */
	struct rf_re_sign *sign;
	uint8_t *state; /* of groups: 1 has none, 2 has one */
	struct rf_re_sign *once_sign; /* the same of expressions that are computed once, */
	uint8_t *once_state;	      /* which may be in many places */
};

static void put(struct rf_buf *s, uint64_t v)
{
	rf_buf_add(s, rf_str_n((const char *)&v, sizeof(v)));
}

static void put_text(struct rf_buf *s, struct rf_str t)
{
	put(s, t.n);
	rf_buf_add(s, t);
}

static void put_sign(struct rf_buf *s, struct rf_re_sign v)
{
	put(s, v.a);
	put(s, v.b);
}

static struct rf_re_sign sign_of(const struct rf_buf *s)
{
	unsigned char hash[SHA256_DIGEST_LENGTH];
	struct rf_re_sign sign;

	SHA256((const unsigned char *)s->p, s->n, hash);
	memcpy(&sign, hash, sizeof(sign));
	return sign;
}

static void put_value(struct rf_buf *s, struct rf_rv v)
{
	size_t n = v.type == RF_RV_OBJECT ? (size_t)v.n * 2 : v.n;

	put(s, (uint64_t)v.type << 1 | (v.type == RF_RV_NUMBER && v.big));
	switch ((enum rf_rv_type)v.type) {
	case RF_RV_NULL:
		return;
	case RF_RV_BOOL:
		put(s, v.b);
		return;
	case RF_RV_NUMBER:
		if (v.big)
			put_text(s, v.number->text);
		else
			put(s, (uint64_t)v.i);
		return;
	case RF_RV_STRING:
		put_text(s, rf_rv_text(v));
		return;
	case RF_RV_ARRAY:
	case RF_RV_OBJECT:
	case RF_RV_SET:
		put(s, n);
		for (size_t i = 0; i < n; i++)
			put_value(s, v.items[i]);
	}
}

static void put_known(struct rf_buf *s, const struct rf_re_cached *c)
{
	put(s, 0x6b6e6f776eULL + c->state);
	if (c->state == 1)
		put_value(s, c->value);
}

static bool put_steps(struct signing *c, struct rf_buf *s, const struct rf_rp_step *step);
static bool put_expr(struct signing *c, struct rf_buf *s, const struct rf_rp_expr *e);

static bool put_exprs(struct signing *c, struct rf_buf *s, const struct rf_rp_expr *e, uint32_t n)
{
	put(s, n);
	for (uint32_t i = 0; i < n; i++)
		if (!put_expr(c, s, &e[i]))
			return false;
	return true;
}

static bool put_pattern(struct signing *c, struct rf_buf *s, const struct rf_rp_pattern *p)
{
	put(s, p ? (uint64_t)p->kind + 1 : 0);
	if (!p)
		return true;
	put(s, (uint64_t)p->slot << 32 | p->n);
	if (p->kind == RF_RP_EQUAL)
		return put_expr(c, s, p->expr);
	if (p->kind == RF_RP_FIELDS && !put_exprs(c, s, p->key, p->n))
		return false;
	for (uint32_t i = 0; (p->kind == RF_RP_FIELDS || p->kind == RF_RP_PARTS) && i < p->n; i++)
		if (!put_pattern(c, s, &p->part[i]))
			return false;
	return true;
}

static bool put_rule(struct signing *c, struct rf_buf *s, const struct rf_rp_rule *r)
{
	for (; r; r = r->otherwise) {
		put(s, (uint64_t)r->n_args << 32 | r->n_path);
		for (uint32_t i = 0; i < r->n_args; i++)
			if (!put_pattern(c, s, &r->arg[i]))
				return false;
		if (!put_steps(c, s, r->body) || !put_exprs(c, s, r->path, r->n_path) || !put_expr(c, s, r->value))
			return false;
		put(s, (uint64_t)r->contains << 1 | (r->otherwise != NULL));
	}
	return true;
}

static bool put_rules(struct signing *c, struct rf_buf *s, const struct rf_rego_group *g)
{
	put(s, (uint64_t)g->kind << 32 | g->n);
	if (g->node->n > 0)
		return false; /* rules with longer names add to it */
	for (uint32_t i = 0; i < g->n; i++)
		if (!put_rule(c, s, g->rule[i]))
			return false;
	put(s, g->fallback != NULL);
	return !g->fallback || put_rule(c, s, g->fallback);
}

/* What the place has already, or all its rules. */
static bool put_place(struct signing *c, struct rf_buf *s, const struct rf_rego_group *g)
{
	if (g->kind == RF_REGO_FUNCTION || !c->group[g->id].state)
		return put_rules(c, s, g);
	put_known(s, &c->group[g->id]);
	return true;
}

/* Rules do not refer to themselves, so this ends. */
static bool put_group(struct signing *c, struct rf_buf *s, const struct rf_rego_group *g)
{
	if (c->state[g->id] == 0) {
		rf_auto(buf) own = RF_BUF_INIT;

		c->state[g->id] = put_place(c, &own, g) ? 2 : 1;
		if (c->state[g->id] == 2)
			c->sign[g->id] = sign_of(&own);
	}
	put_sign(s, c->sign[g->id]);
	return c->state[g->id] == 2;
}

/* input.a.b[x]: of what lies under the key the value goes in, of all else the way to it. */
static bool put_input(struct signing *c, struct rf_buf *s, const struct rf_rp_expr *e)
{
	bool known = e->n > 0 && e->item[0].kind == RF_RP_CONST && e->item[0].value.type == RF_RV_STRING;

	if (!known || rf_str_eq(rf_rv_text(e->item[0].value), c->key))
		put_sign(s, c->value);
	return put_exprs(c, s, e->item, e->n);
}

static bool put_call(struct signing *c, struct rf_buf *s, const struct rf_rp_expr *e)
{
	if (e->kind == RF_RP_FUNCTION)
		return put_group(c, s, e->group) && put_exprs(c, s, e->item, e->n);
	if (e->kind == RF_RP_BUILTIN) {
		put_text(s, rf_str(e->builtin->name));
		return !e->builtin->impure && e->builtin->fn && e->n > 0 && put_exprs(c, s, e->item, e->n);
	}
	return put_steps(c, s, e->body) && put_expr(c, s, e->base) &&
	       (e->kind != RF_RP_OBJECT_COMP || put_expr(c, s, e->key));
}

static bool put_once(struct signing *c, struct rf_buf *s, const struct rf_rp_expr *e)
{
	uint32_t n = e->slot - 1;

	if (c->once[n].state) {
		put_known(s, &c->once[n]);
		return true;
	}
	if (c->once_state[n] == 0) {
		rf_auto(buf) own = RF_BUF_INIT;

		c->once_state[n] = put_call(c, &own, e) ? 2 : 1;
		if (c->once_state[n] == 2)
			c->once_sign[n] = sign_of(&own);
	}
	put_sign(s, c->once_sign[n]);
	return c->once_state[n] == 2;
}

static bool put_expr(struct signing *c, struct rf_buf *s, const struct rf_rp_expr *e)
{
	put(s, (uint64_t)e->kind << 8 | e->first);
	switch ((enum rf_rp_kind)e->kind) {
	case RF_RP_CONST:
		put_value(s, e->value);
		return true;
	case RF_RP_SLOT:
		put(s, e->slot);
		return true;
	case RF_RP_INPUT:
		return put_input(c, s, e);
	case RF_RP_DATA:
		return e->node->group && e->node->group->kind != RF_REGO_FUNCTION &&
		       put_group(c, s, e->node->group) && put_exprs(c, s, e->item, e->n);
	case RF_RP_NARROWED:
		return put_group(c, s, e->group);
	case RF_RP_REF:
		return put_expr(c, s, e->base) && put_exprs(c, s, e->item, e->n);
	case RF_RP_BUILTIN:
	case RF_RP_FUNCTION:
	case RF_RP_ARRAY_COMP:
	case RF_RP_SET_COMP:
	case RF_RP_OBJECT_COMP:
		return e->slot ? put_once(c, s, e) : put_call(c, s, e);
	case RF_RP_ARRAY:
	case RF_RP_SET:
	case RF_RP_OBJECT:
	case RF_RP_TEMPLATE:
		return put_exprs(c, s, e->item, e->n);
	case RF_RP_PLACE:
	case RF_RP_WHOLE:
	case RF_RP_NEVER: /* not in a policy by itself */
		break;
	}
	return false;
}

static bool put_steps(struct signing *c, struct rf_buf *s, const struct rf_rp_step *step)
{
	for (; step; step = step->next) {
		if (step->op == RF_RP_WITH || step->op == RF_RP_FORK)
			return false;
		put(s, (uint64_t)step->op << 32 | (step->op == RF_RP_EACH ? step->n : 0));
		if ((step->expr && !put_expr(c, s, step->expr)) || !put_pattern(c, s, step->key) ||
		    !put_pattern(c, s, step->pattern) || (rf_rp_has_body(step) && !put_steps(c, s, step->body)) ||
		    (rf_rp_has_other(step) && !put_steps(c, s, step->other)))
			return false;
		for (uint32_t i = 0; step->op == RF_RP_EACH && i < step->n; i++)
			put_value(s, step->only[i]);
	}
	put(s, 0x656e64);
	return true;
}

void rf_re_signs(const struct rf_rego *r, struct rf_str key, struct rf_rv value, const struct rf_re_fixed *known,
		 struct rf_re_sign *ret)
{
	rf_auto(buf) scratch = RF_BUF_INIT;
	struct signing c = { .r = r,
			     .key = key,
			     .group = known->group,
			     .once = known->once,
			     .sign = ret,
			     .state = rf_alloc(r->n_groups + 1),
			     .once_sign = rf_alloc((r->n_once + 1) * sizeof(*c.once_sign)),
			     .once_state = rf_alloc(r->n_once + 1) };

	put_value(&scratch, value);
	c.value = sign_of(&scratch);
	for (uint32_t i = 0; i < r->n_order + r->n_groups; i++) { /* none has to look far then */
		scratch.n = 0;
		(void)put_group(&c, &scratch, r->group[i < r->n_order ? r->order[i] : i - r->n_order]);
	}
	free(c.state);
	free(c.once_sign);
	free(c.once_state);
}
