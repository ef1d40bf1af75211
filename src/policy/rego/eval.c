/* Evaluation: steps tried one after the other; a step with several solutions tries what follows with
 * each of them. Nothing is undone (plan.h says why); memory is the run's arena and goes with it. */
#include <stdio.h>

#include "policy/rego/eval.h"

#define DEPTH 2000

/* A function by itself: what it needs on the stack is not the burden of those who rarely call it. A tenth of the time of
 * an evaluation hangs on that. */
#define APART __attribute__((noinline))

/* --- running out --- */

enum answer rf_re_full(struct rf_re *x)
{
	rf_fail(x->err, RF_EXHAUSTED,
		"the policy used up its memory; give it less to work on or raise the limit");
	return ERROR;
}

/* As OPA tells it: file, line, code, text; the text is there already. */
static enum answer fail_with(struct rf_re *x, const struct rf_rp_rule *rule, uint32_t row,
			     const char *code)
{
	x->err->code = RF_INVALID;
	if (rule)
		rf_wrap(x->err, "%.*s:%u: %s", RF_STR(rule->file), row, code);
	else
		rf_wrap(x->err, "%s", code);
	return ERROR;
}

static APART bool out_of_steps(struct rf_re *x)
{
	rf_fail(x->err, RF_EXHAUSTED,
		"the policy used up its steps; it does too much work for this input");
	return false;
}

static APART bool out_of_time(struct rf_re *x)
{
	if (x->deadline_ns == 0 || rf_mono_ns(rf_clock_system()) < x->deadline_ns)
		return false;
	rf_fail(x->err, RF_EXHAUSTED, "the policy took too long; it does too much work for this input");
	return true;
}

/* A step may compare megabytes, so the clock is looked at too, now and then. */
static inline bool spend(struct rf_re *x)
{
	if (__builtin_expect(--x->fuel <= 0, 0))
		return out_of_steps(x);
	return __builtin_expect((x->fuel & 255) != 0, 1) || !out_of_time(x);
}

static inline bool too_deep(struct rf_re *x)
{
	if (__builtin_expect(x->depth < DEPTH, 1))
		return false;
	rf_fail(x->err, RF_EXHAUSTED, "the policy's rules are nested too deep");
	return true;
}

static inline struct rf_rv *push_frame(struct rf_re *x, uint32_t n)
{
	struct rf_rv *f;

	if (n > x->room - x->top)
		return rf_arena_try_raw(x->arena, n * sizeof(*f) + 1);
	f = x->stack + x->top;
	x->top += n;
	return f;
}

struct rf_rv *rf_re_frame(struct rf_re *x, uint32_t n)
{
	return push_frame(x, n);
}

/* What most expressions are costs no call. */
static inline enum answer value_of(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
				   struct rf_rv *ret)
{
	if (e->kind == RF_RP_SLOT) {
		*ret = frame[e->slot];
		return GIVEN;
	}
	if (e->kind == RF_RP_CONST) {
		*ret = e->value;
		return GIVEN;
	}
	if (e->kind == RF_RP_INPUT && e->known_path && e->path_keys == e->n && x->env->path[e->slot].state) {
		*ret = x->env->path[e->slot].value;
		return x->env->path[e->slot].state == 1 ? GIVEN : UNDEFINED;
	}
	if (e->kind == RF_RP_PLACE && e->n == 0 && x->env->group[e->group->id].state) {
		*ret = x->env->group[e->group->id].value;
		return x->env->group[e->group->id].state == 1 ? GIVEN : UNDEFINED;
	}
	if (e->kind == RF_RP_REF && e->base->kind == RF_RP_SLOT)
		return rf_re_follow(x, e, 0, frame[e->base->slot], frame, ret);
	return rf_re_eval(x, e, frame, ret);
}

/* --- patterns --- */

static enum answer take_apart(struct rf_re *x, const struct rf_rp_pattern *p, struct rf_rv v,
			      struct rf_rv *frame);

static inline enum answer match(struct rf_re *x, const struct rf_rp_pattern *p, struct rf_rv v,
				struct rf_rv *frame)
{
	struct rf_rv part;
	enum answer r;

	switch (p->kind) {
	case RF_RP_ANY:
		return GIVEN;
	case RF_RP_BIND:
		frame[p->slot] = v;
		return GIVEN;
	case RF_RP_EQUAL:
		r = value_of(x, p->expr, frame, &part);
		return r != GIVEN ? r : rf_rv_eq(part, v) ? GIVEN : UNDEFINED;
	default:
		return take_apart(x, p, v, frame);
	}
}

static enum answer match_fields(struct rf_re *x, const struct rf_rp_pattern *p, struct rf_rv v,
				struct rf_rv *frame)
{
	for (uint32_t i = 0; i < p->n; i++) {
		struct rf_rv key, part;
		enum answer r = value_of(x, &p->key[i], frame, &key);

		if (r == GIVEN && !rf_rv_get(v, key, &part))
			r = UNDEFINED;
		if (r == GIVEN)
			r = match(x, &p->part[i], part, frame);
		if (r != GIVEN)
			return r;
	}
	return GIVEN;
}

static APART enum answer take_apart(struct rf_re *x, const struct rf_rp_pattern *p, struct rf_rv v,
			      struct rf_rv *frame)
{
	bool parts = p->kind == RF_RP_PARTS;

	if (v.type != (parts ? RF_RV_ARRAY : RF_RV_OBJECT) || v.n != p->n)
		return UNDEFINED;
	if (!parts)
		return match_fields(x, p, v, frame);
	for (uint32_t i = 0; i < p->n; i++) {
		enum answer r = match(x, &p->part[i], v.items[i], frame);

		if (r != GIVEN)
			return r;
	}
	return GIVEN;
}

/* --- steps --- */

static enum result stop_here(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	return STOP;
}

/* Whether the body has a solution: STOP if so, MORE if not. */
static enum result any(struct rf_re *x, const struct rf_rp_step *body, struct rf_rv *frame)
{
	struct rf_re_cont k = { stop_here };

	return rf_re_run(x, body, frame, &k);
}

static inline bool is_collection(struct rf_rv v)
{
	return v.type >= RF_RV_ARRAY;
}

/* The i-th key and value of a collection. */
static inline enum answer match_pair(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv of, uint32_t i,
				     struct rf_rv *frame)
{
	struct rf_rv key, value;
	enum answer r = GIVEN;

	if (of.type == RF_RV_OBJECT) {
		key = of.pairs[i].key;
		value = of.pairs[i].value;
	} else {
		value = of.items[i];
		key = of.type == RF_RV_SET ? value : rf_rv_int(i);
	}
	if (s->key)
		r = match(x, s->key, key, frame);
	return r == GIVEN && s->pattern ? match(x, s->pattern, value, frame) : r;
}

/* The pairs of an object with the keys that matter. */
static APART enum result run_only(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv of, struct rf_rv *frame,
			    struct rf_re_cont *k)
{
	enum result more = MORE;

	for (uint32_t i = 0; more == MORE && i < s->n; i++) {
		struct rf_rv value;
		enum answer r;

		if (!spend(x))
			return FAIL;
		if (!rf_rv_get(of, s->only[i], &value))
			continue;
		r = match(x, s->key, s->only[i], frame);
		if (r == GIVEN && s->pattern)
			r = match(x, s->pattern, value, frame);
		if (r == ERROR)
			return FAIL;
		if (r == GIVEN)
			more = rf_re_run(x, s->next, frame, k);
	}
	return more;
}

static APART enum result run_each(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
			    struct rf_re_cont *k)
{
	struct rf_rv of;
	enum answer r = value_of(x, s->expr, frame, &of);
	enum result more = MORE;

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (!is_collection(of))
		return MORE;
	if (too_deep(x))
		return FAIL;
	x->depth++;
	if (s->n && of.type == RF_RV_OBJECT) {
		more = run_only(x, s, of, frame, k);
		x->depth--;
		return more;
	}
	for (uint32_t i = 0; more == MORE && i < of.n; i++) {
		if (s->walked_on && !is_collection(of.type == RF_RV_OBJECT ? of.pairs[i].value : of.items[i]))
			continue;
		if (!spend(x))
			return FAIL;
		r = match_pair(x, s, of, i, frame);
		if (r == ERROR)
			return FAIL;
		if (r == GIVEN)
			more = rf_re_run(x, s->next, frame, k);
	}
	x->depth--;
	return more;
}

static APART enum result run_every(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame)
{
	struct rf_rv of;
	enum answer r = value_of(x, s->expr, frame, &of);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (!is_collection(of))
		return MORE;
	for (uint32_t i = 0; i < of.n; i++) {
		enum result found;

		if (!spend(x))
			return FAIL;
		r = match_pair(x, s, of, i, frame);
		if (r == ERROR)
			return FAIL;
		found = r == GIVEN ? any(x, s->body, frame) : MORE;
		if (found != STOP)
			return found;
	}
	return STOP; /* all have one */
}

static APART enum result run_answers(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
			       struct rf_re_cont *k)
{
	struct rf_rv list;
	enum answer r = value_of(x, s->expr, frame, &list);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	for (uint32_t i = 0; list.type == RF_RV_ARRAY && i < list.n; i++) {
		enum result more;

		if (!spend(x))
			return FAIL;
		r = match(x, s->pattern, list.items[i], frame);
		if (r == ERROR)
			return FAIL;
		more = r == GIVEN ? rf_re_run(x, s->next, frame, k) : MORE;
		if (more != MORE)
			return more;
	}
	return MORE;
}

/* Whether both bodies, or either, have a solution. */
static APART enum result run_two(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame)
{
	enum result found = any(x, s->body, frame);

	if (found == (s->op == RF_RP_EITHER ? MORE : STOP))
		found = any(x, s->other, frame);
	return found;
}

/* Only at the top of a rule's body, so k is what collects the rule's solutions. */
static APART enum result run_fork(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
			    struct rf_re_cont *k)
{
	struct rf_re_found *c = (struct rf_re_found *)k;
	const struct rf_rp_rule *outer = x->rule;
	enum result r = MORE;

	for (uint32_t i = 0; r == MORE && i < s->n; i++) {
		c->rule = x->rule = s->branch[i].rule;
		r = rf_re_run(x, s->branch[i].rest, frame, k);
	}
	x->rule = outer;
	return r;
}

/* Steps with one solution go on in the loop; the others end it. */
enum result rf_re_run(struct rf_re *x, const struct rf_rp_step *s, struct rf_rv *frame,
		      struct rf_re_cont *k)
{
	for (; s; s = s->next) {
		RF_UNINITIALIZED struct rf_rv v;
		enum answer r = GIVEN;
		enum result found;

		if (!spend(x))
			return FAIL;
		switch ((enum rf_rp_op)s->op) {
		case RF_RP_TEST:
			r = value_of(x, s->expr, frame, &v);
			if (r == GIVEN && rf_rv_is_false(v))
				return MORE;
			break;
		case RF_RP_MATCH:
			r = value_of(x, s->expr, frame, &v);
			if (r == GIVEN)
				r = match(x, s->pattern, v, frame);
			break;
		case RF_RP_NOT:
			found = any(x, s->body, frame);
			if (found != MORE)
				return found == STOP ? MORE : FAIL;
			break;
		case RF_RP_EITHER:
		case RF_RP_BOTH:
		case RF_RP_EVERY:
			found = s->op == RF_RP_EVERY ? run_every(x, s, frame) : run_two(x, s, frame);
			if (found != STOP)
				return found;
			break;
		case RF_RP_EACH:
			return run_each(x, s, frame, k);
		case RF_RP_EACH_ANSWER:
			return run_answers(x, s, frame, k);
		case RF_RP_WITH:
			return rf_re_with(x, s, frame, k);
		case RF_RP_FORK:
			return run_fork(x, s, frame, k);
		case RF_RP_MARK:
			if (x->seen)
				x->seen[s->n] = true;
			break;
		}
		if (r != GIVEN)
			return r == ERROR ? FAIL : MORE;
	}
	return k->fn(x, k, frame);
}

/* --- rules --- */

enum result rf_re_conflict(struct rf_re *x, const struct rf_rego_group *g)
{
	const struct rf_rp_rule *r = g->first ? g->first : g->n ? g->rule[0] : g->fallback;

	rf_fail(x->err, RF_INVALID, "%s",
		g->kind == RF_REGO_FUNCTION ?
			"functions must not produce multiple outputs for same inputs" :
		g->kind == RF_REGO_COMPLETE ? "complete rules must not produce multiple outputs" :
					      "object keys must be unique");
	fail_with(x, r, r->loc.row, "eval_conflict_error");
	return FAIL;
}

static enum result one_value(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	struct rf_re_found *c = (struct rf_re_found *)k;
	struct rf_rv v;
	enum answer r = value_of(x, c->rule->value, frame, &v);

	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (c->found && !rf_rv_eq(c->value, v))
		return rf_re_conflict(x, c->group);
	c->found = true;
	c->value = v;
	return c->rule->constant ? STOP : MORE;
}

/* One rule without its else chain. */
static enum result run_rule(struct rf_re *x, const struct rf_rp_rule *rule, const struct rf_rv *args,
			    struct rf_re_found *c)
{
	const struct rf_rp_rule *outer = x->rule;
	uint32_t top = x->top;
	struct rf_rv *frame = push_frame(x, rule->n_slots);
	enum answer fits = GIVEN;
	enum result r = MORE;

	if (!frame) {
		rf_re_full(x);
		return FAIL;
	}
	if (too_deep(x) || !spend(x))
		return FAIL;
	for (uint32_t i = 0; fits == GIVEN && i < rule->n_args; i++)
		fits = match(x, &rule->arg[i], args[i], frame);
	c->rule = x->rule = rule;
	x->depth++;
	if (fits == GIVEN)
		r = rf_re_run(x, rule->body, frame, &c->cont);
	x->depth--;
	x->top = top;
	x->rule = outer;
	return fits == ERROR ? FAIL : r;
}

enum result rf_re_rule(struct rf_re *x, const struct rf_rp_rule *rule, const struct rf_rv *args,
		       struct rf_re_found *c)
{
	bool before = c->found;

	if (!rule->otherwise)
		return run_rule(x, rule, args, c) == FAIL ? FAIL : MORE;
	for (; rule; rule = rule->otherwise) {
		c->found = rule->otherwise ? false : before;
		if (run_rule(x, rule, args, c) == FAIL)
			return FAIL;
		if (c->found && rule->otherwise)
			break;
		before |= c->found;
	}
	c->found |= before;
	return MORE;
}

/* The rules that may hold for these arguments. */
static struct rf_rp_rule *const *candidates(const struct rf_rego_group *g, const struct rf_rv *args, uint32_t *n)
{
	const struct rf_rego_index *index = g->index;
	uint32_t from = 0, left;

	if (!index) {
		*n = g->n;
		return g->rule;
	}
	for (left = index->n; left > 0;) {
		uint32_t half = left / 2;
		const struct rf_rego_indexed *at = &index->at[from + half];
		int c = rf_rv_cmp(at->value, args[index->arg]);

		if (c == 0) {
			*n = at->n;
			return at->rule;
		}
		from = c < 0 ? from + half + 1 : from;
		left = c < 0 ? left - half - 1 : half;
	}
	*n = index->n_other;
	return index->other;
}

enum answer rf_re_rules(struct rf_re *x, const struct rf_rego_group *g, const struct rf_rv *args,
			struct rf_rv *ret)
{
	uint32_t n;
	struct rf_rp_rule *const *rule = candidates(g, args, &n);
	bool found = false;

	for (uint32_t i = 0; i < n && !(found && g->same_constant); i++) {
		struct rf_re_found c = { .cont = { one_value }, .group = g };

		if (rf_re_rule(x, rule[i], args, &c) == FAIL)
			return ERROR;
		if (!c.found)
			continue;
		if (found && !rf_rv_eq(*ret, c.value)) {
			rf_re_conflict(x, g);
			return ERROR;
		}
		found = true;
		*ret = c.value;
	}
	if (!found && g->fallback) {
		struct rf_re_found c = { .cont = { one_value }, .group = g };

		if (rf_re_rule(x, g->fallback, args, &c) == FAIL)
			return ERROR;
		found = c.found;
		*ret = c.value;
	}
	return found ? GIVEN : UNDEFINED;
}

/* --- references --- */

bool rf_re_base(struct rf_rv v, struct rf_rv key, struct rf_rv *ret)
{
	rf_auto(buf) text = RF_BUF_INIT;

	if (rf_rv_get(v, key, ret))
		return true;
	if (v.type != RF_RV_OBJECT || key.type != RF_RV_NUMBER)
		return false;
	rf_rv_print(&text, key);
	return rf_rv_get_str(v, rf_str_n(text.p, text.n), ret);
}

static inline bool is_document(const struct rf_rp_expr *e)
{
	return e->kind == RF_RP_DATA || e->kind == RF_RP_PLACE || (e->kind == RF_RP_REF && e->document);
}

static APART enum answer follow_any(struct rf_re *x, const struct rf_rp_expr *e, uint32_t from, struct rf_rv v,
				    struct rf_rv *frame, struct rf_rv *ret)
{
	for (uint32_t i = from; i < e->n; i++) {
		struct rf_rv key;
		enum answer r = value_of(x, &e->item[i], frame, &key);

		if (r != GIVEN)
			return r;
		if (!(is_document(e) ? rf_re_base(v, key, &v) : rf_rv_get(v, key, &v)))
			return UNDEFINED;
	}
	*ret = v;
	return GIVEN;
}

enum answer rf_re_follow(struct rf_re *x, const struct rf_rp_expr *e, uint32_t from, struct rf_rv v,
			 struct rf_rv *frame, struct rf_rv *ret)
{
	for (uint32_t i = from; i < e->n; i++) {
		const struct rf_rp_expr *k = &e->item[i];

		if (k->kind != RF_RP_CONST || k->value.type != RF_RV_STRING || v.type != RF_RV_OBJECT)
			return follow_any(x, e, i, v, frame, ret);
		if (!rf_rv_get_str(v, rf_rv_text(k->value), ret))
			return UNDEFINED;
		v = *ret;
	}
	*ret = v;
	return GIVEN;
}

/* What policies read of the input again and again is looked up once. */
static bool input_at(struct rf_re *x, uint32_t path, struct rf_rv *ret)
{
	struct rf_re_cached *c = &x->env->path[path];
	const struct rf_rego_path *p = &x->rego->path[path];
	struct rf_rv up;

	if (c->state == 0) {
		bool there = path == 0 ? x->env->has_input : input_at(x, p->parent, &up);

		if (path == 0)
			c->value = x->env->input;
		else if (there)
			there = rf_rv_get(up, p->key, &c->value);
		c->state = there ? 1 : 2;
	}
	*ret = c->value;
	return c->state == 1;
}

static APART enum answer input_value(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			       struct rf_rv *ret)
{
	if (!e->known_path) {
		if (!x->env->has_input)
			return UNDEFINED;
		return rf_re_follow(x, e, 0, x->env->input, frame, ret);
	}
	if (!input_at(x, e->slot, ret))
		return UNDEFINED;
	return e->path_keys == e->n ? GIVEN : rf_re_follow(x, e, e->path_keys, *ret, frame, ret);
}

/* --- calls --- */

/* What rego.metadata.rule() says. */
static struct rf_rv metadata(const struct rf_re *x)
{
	const struct rf_ra_rule *r = x->rule ? x->rule->ast : NULL;

	return r && r->metadata ? *r->metadata : rf_rv_object(NULL, 0, NULL);
}

static enum answer refuse_builtin(struct rf_re *x, const struct rf_rb *b, uint32_t row)
{
	rf_fail(x->err, RF_INVALID, "%s: %s", b->name, b->refusal);
	return fail_with(x, x->rule, row, "eval_builtin_error");
}

static enum answer call_builtin(struct rf_re *x, const struct rf_rb *b, const struct rf_rv *args,
				uint32_t row, struct rf_rv *ret)
{
	enum rf_rb_result r;

	if (!b->fn)
		return refuse_builtin(x, b, row);
	if (b->n_args == 0)
		x->builtins.rule_metadata = metadata(x);
	r = rf_rb_call(b, &x->builtins, args, ret, x->strict ? x->err : NULL);
	switch (r) {
	case RF_RB_OK:
		return GIVEN;
	case RF_RB_UNDEFINED:
		return UNDEFINED;
	case RF_RB_TYPE:
	case RF_RB_ERROR:
		if (!x->strict)
			return UNDEFINED;
		return fail_with(x, x->rule, row, r == RF_RB_TYPE ? "eval_type_error" : "eval_builtin_error");
	case RF_RB_FULL:
		if (x->fuel > 0)
			return rf_re_full(x);
		out_of_steps(x);
		return ERROR;
	}
	return UNDEFINED;
}

static const struct rf_re_mock *mock_of(const struct rf_re *x, const struct rf_rp_expr *e)
{
	for (uint32_t i = x->env->n_mocks; i > 0; i--) {
		const struct rf_re_mock *m = &x->env->mock[i - 1];

		if (e->kind == RF_RP_FUNCTION ? m->function && m->function == e->group :
						m->builtin && m->builtin == e->builtin)
			return m;
	}
	return NULL;
}

/* Inside a stand-in all functions are themselves again. */
static APART enum answer call_mock(struct rf_re *x, const struct rf_re_mock *m, const struct rf_rv *args,
			     uint32_t row, struct rf_rv *ret)
{
	struct rf_re_env *outside = x->env, *inside;
	enum answer r;

	if (!m->by_function && !m->by_builtin) {
		*ret = m->value;
		return GIVEN;
	}
	if (m->by_builtin)
		return call_builtin(x, m->by_builtin, args, row, ret);
	inside = rf_re_new_env(x, outside, 0);
	if (!inside)
		return rf_re_full(x);
	inside->n_mocks = 0;
	x->env = inside;
	r = rf_re_rules(x, m->by_function, args, ret);
	x->env = outside;
	return r;
}

/* --- calls that were made before --- */

#define SHORT 16 /* bytes of a string that are compared, longer ones must be the very same; items that are looked through */

static inline bool is_same(struct rf_rv a, struct rf_rv b)
{
	if (a.type != b.type || a.n != b.n || a.big != b.big)
		return false;
	if (a.type == RF_RV_NULL)
		return true;
	if (a.type == RF_RV_BOOL)
		return a.b == b.b;
	return a.i == b.i || (a.type == RF_RV_STRING && a.n <= SHORT && memcmp(a.s, b.s, a.n) == 0);
}

static inline uint64_t bits_of(struct rf_rv v)
{
	uint64_t w[2] = { 0 };

	if (v.type == RF_RV_NULL)
		return 0;
	if (v.type == RF_RV_BOOL)
		return v.b;
	if (v.type != RF_RV_STRING || v.n > SHORT)
		return (uint64_t)v.i;
	if (v.n >= 8) {
		memcpy(&w[0], v.s, 8);
		memcpy(&w[1], v.s + v.n - 8, 8);
	} else {
		for (uint32_t i = 0; i < v.n; i++)
			w[0] = w[0] << 8 | (unsigned char)v.s[i];
	}
	return w[0] ^ (w[1] * 0xff51afd7ed558ccdULL);
}

static uint64_t hash_args(uint64_t h, const struct rf_rv *args, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		h = (h ^ bits_of(args[i]) ^ ((uint64_t)args[i].n << 40)) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 29;
	}
	return h >> 32;
}

static bool same_args(const struct rf_rv *a, const struct rf_rv *b, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!is_same(a[i], b[i]))
			return false;
	return true;
}

static struct rf_re_memo *memo_of(struct rf_re *x, const struct rf_rego_group *g, const struct rf_rv *args)
{
	struct rf_re_env *e = x->env;

	if (!e->memo) {
		e->n_memos = e->n_memos ? e->n_memos : RF_RE_MEMOS;
		e->memo = rf_arena_try(x->arena, e->n_memos * sizeof(*e->memo));
	}
	return e->memo ? &e->memo[hash_args(g->id, args, g->n_args) & (e->n_memos - 1)] : NULL;
}

static struct rf_rv *keep_args(struct rf_re *x, const struct rf_rv *args, uint32_t n)
{
	struct rf_rv *kept = rf_arena_try_raw(x->arena, n * sizeof(*kept));

	if (kept)
		memcpy(kept, args, n * sizeof(*kept));
	return kept;
}

/* Policies call the same function on the same container in each of their rules. */
static APART enum answer call_function(struct rf_re *x, const struct rf_rego_group *g, const struct rf_rv *args,
				 struct rf_rv *ret)
{
	struct rf_re_memo *m;
	const struct rf_rv *kept;
	enum answer r;

	if (!g->memo)
		return rf_re_rules(x, g, args, ret);
	m = memo_of(x, g, args);
	if (m && m->group == g && same_args(m->args, args, g->n_args)) {
		*ret = m->result.value;
		return m->result.state == 1 ? GIVEN : UNDEFINED;
	}
	r = rf_re_rules(x, g, args, ret);
	kept = !m || r == ERROR ? NULL : keep_args(x, args, g->n_args);
	if (kept)
		*m = (struct rf_re_memo){ g, kept, { r == GIVEN ? 1 : 2, r == GIVEN ? *ret : RF_RV_NIL } };
	return r;
}

static enum answer eval_args(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			     struct rf_rv *args)
{
	for (uint32_t i = 0; i < e->n; i++) {
		enum answer r = value_of(x, &e->item[i], frame, &args[i]);

		if (r != GIVEN)
			return r;
	}
	return GIVEN;
}

static inline bool compare(enum rf_rp_quick q, int c)
{
	switch (q) {
	case RF_RP_Q_LT:
		return c < 0;
	case RF_RP_Q_LTE:
		return c <= 0;
	case RF_RP_Q_GT:
		return c > 0;
	default:
		return c >= 0;
	}
}

static bool in_short(struct rf_rv list, struct rf_rv v)
{
	for (uint32_t i = 0; list.type == RF_RV_ARRAY && i < list.n && i < SHORT; i++)
		if (rf_rv_eq(list.items[i], v))
			return true;
	return false;
}

/* False: not one of the easy cases. is_... of another type is undefined in Rego, not false: that is the builtin's. */
static inline bool quick(enum rf_rp_quick q, const struct rf_rv *a, struct rf_rv *ret)
{
	bool small = a[0].type == RF_RV_NUMBER && !a[0].big;
	int64_t i;

	switch (q) {
	case RF_RP_CALLED:
		return false;
	case RF_RP_Q_EQUAL:
	case RF_RP_Q_NEQ:
		*ret = rf_rv_bool(rf_rv_eq(a[0], a[1]) == (q == RF_RP_Q_EQUAL));
		return true;
	case RF_RP_Q_LT:
	case RF_RP_Q_LTE:
	case RF_RP_Q_GT:
	case RF_RP_Q_GTE:
		*ret = rf_rv_bool(compare(q, rf_rv_cmp(a[0], a[1])));
		return true;
	case RF_RP_Q_PLUS:
	case RF_RP_Q_MINUS:
		if (!small || a[1].type != RF_RV_NUMBER || a[1].big ||
		    (q == RF_RP_Q_PLUS ? __builtin_add_overflow(a[0].i, a[1].i, &i) :
					 __builtin_sub_overflow(a[0].i, a[1].i, &i)))
			return false;
		*ret = rf_rv_int(i);
		return true;
	case RF_RP_Q_COUNT:
		*ret = rf_rv_int(a[0].n);
		return a[0].type >= RF_RV_ARRAY;
	case RF_RP_Q_MEMBER:
		*ret = rf_rv_bool(a[1].type == RF_RV_SET ? rf_rv_has(a[1], a[0]) : in_short(a[1], a[0]));
		return a[1].type == RF_RV_SET || (a[1].type == RF_RV_ARRAY && a[1].n <= SHORT);
	case RF_RP_Q_IS_STRING:
	case RF_RP_Q_IS_NUMBER:
	case RF_RP_Q_IS_ARRAY:
	case RF_RP_Q_IS_OBJECT:
		*ret = rf_rv_bool(true);
		return a[0].type == (q == RF_RP_Q_IS_STRING ? RF_RV_STRING :
				     q == RF_RP_Q_IS_NUMBER ? RF_RV_NUMBER :
				     q == RF_RP_Q_IS_ARRAY  ? RF_RV_ARRAY :
							      RF_RV_OBJECT);
	}
	return false;
}

static APART enum answer call_quick(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame, struct rf_rv *ret)
{
	RF_UNINITIALIZED struct rf_rv args[2];
	enum answer r = value_of(x, &e->item[0], frame, &args[0]);

	if (r == GIVEN && e->n > 1)
		r = value_of(x, &e->item[1], frame, &args[1]);
	if (r != GIVEN)
		return r;
	if (quick((enum rf_rp_quick)e->quick, args, ret))
		return GIVEN;
	return call_builtin(x, e->builtin, args, e->row, ret);
}

static APART enum answer call(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			struct rf_rv *ret)
{
	RF_UNINITIALIZED struct rf_rv few[8];
	struct rf_rv *args = few;
	enum answer r;

	if (e->n > RF_COUNT(few)) {
		args = rf_arena_try_raw(x->arena, e->n * sizeof(*args));
		if (!args)
			return rf_re_full(x);
	}
	r = eval_args(x, e, frame, args);
	if (r != GIVEN)
		return r;
	if (x->env->n_mocks) {
		const struct rf_re_mock *m = mock_of(x, e);

		if (m)
			return call_mock(x, m, args, e->row, ret);
	}
	if (e->kind == RF_RP_BUILTIN)
		return call_builtin(x, e->builtin, args, e->row, ret);
	return call_function(x, e->group, args, ret);
}

/* --- comprehensions --- */

struct gather {
	struct rf_re_cont cont;
	const struct rf_rp_expr *e;
	struct rf_rv_grow grow;
};

static enum result gather(struct rf_re *x, struct rf_re_cont *k, struct rf_rv *frame)
{
	struct gather *g = (struct gather *)k;
	struct rf_rv v, key = RF_RV_NIL;
	bool clash = false, ok;
	enum answer r = g->e->key ? rf_re_eval(x, g->e->key, frame, &key) : GIVEN;

	if (r == GIVEN)
		r = rf_re_eval(x, g->e->base, frame, &v);
	if (r != GIVEN)
		return r == ERROR ? FAIL : MORE;
	if (g->e->kind == RF_RP_ARRAY_COMP)
		ok = rf_rv_push(&g->grow, x->arena, v);
	else if (g->e->kind == RF_RP_SET_COMP)
		ok = rf_rv_add(&g->grow, x->arena, v, NULL);
	else
		ok = rf_rv_put(&g->grow, x->arena, key, v, &clash);
	if (clash) {
		rf_fail(x->err, RF_INVALID, "eval_conflict_error: object keys must be unique");
		return FAIL;
	}
	if (!ok) {
		rf_re_full(x);
		return FAIL;
	}
	return MORE;
}

static APART enum answer comprehension(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
				 struct rf_rv *ret)
{
	struct gather g = { .cont = { gather }, .e = e };

	if (rf_re_run(x, e->body, frame, &g.cont) == FAIL)
		return ERROR;
	if (e->kind == RF_RP_ARRAY_COMP)
		*ret = rf_rv_grown_array(&g.grow);
	else if (e->kind == RF_RP_SET_COMP)
		*ret = rf_rv_grown_set(&g.grow);
	else if (!rf_rv_grown_object(&g.grow, x->arena, ret))
		return rf_re_full(x);
	return GIVEN;
}

/* --- composites --- */

static APART enum answer composite(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			     struct rf_rv *ret)
{
	struct rf_rv *v = rf_arena_try_raw(x->arena, e->n * sizeof(*v) + 1);
	bool clash = false;
	enum answer r;

	if (!v)
		return rf_re_full(x);
	r = eval_args(x, e, frame, v);
	if (r != GIVEN)
		return r;
	if (e->kind == RF_RP_ARRAY)
		*ret = rf_rv_array(v, e->n);
	else if (e->kind == RF_RP_SET)
		*ret = rf_rv_set(v, e->n);
	else if (e->sorted)
		*ret = (struct rf_rv){ .type = RF_RV_OBJECT, .n = e->n / 2, .items = v };
	else
		*ret = rf_rv_object((struct rf_rv_pair *)v, e->n / 2, &clash);
	if (clash) {
		rf_fail(x->err, RF_INVALID, "eval_conflict_error: object keys must be unique");
		return ERROR;
	}
	return GIVEN;
}

static APART enum answer template(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			    struct rf_rv *ret)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (uint32_t i = 0; i < e->n; i++) {
		struct rf_rv v;
		enum answer r = rf_re_eval(x, &e->item[i], frame, &v);

		if (r == ERROR)
			return r;
		if (r == GIVEN && e->item[i].first) {
			r = v.n > 0 ? GIVEN : UNDEFINED;
			v = v.n > 0 ? v.items[0] : v;
		}
		if (r == UNDEFINED)
			rf_buf_add(&b, RF_LIT("<undefined>"));
		else if (v.type == RF_RV_STRING)
			rf_buf_add(&b, rf_rv_text(v));
		else
			rf_rv_print(&b, v);
		if (b.n > (1u << 20) * 16)
			return rf_re_full(x);
	}
	return rf_rv_copy_str(x->arena, rf_str_n(b.p, b.n), ret) ? GIVEN : rf_re_full(x);
}

/* What has one value for the whole evaluation. */
static APART enum answer once(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame, struct rf_rv *ret)
{
	struct rf_re_cached *c = &x->env->once[e->slot - 1];
	enum answer r;

	if (c->state) {
		*ret = c->value;
		return c->state == 1 ? GIVEN : UNDEFINED;
	}
	r = rf_rp_is_comp(e) ? comprehension(x, e, frame, ret) : call(x, e, frame, ret);
	if (r != ERROR) {
		c->state = r == GIVEN ? 1 : 2;
		c->value = r == GIVEN ? *ret : RF_RV_NIL;
	}
	return r;
}

static APART enum answer reference(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame, struct rf_rv *ret)
{
	struct rf_rv v;
	enum answer r = value_of(x, e->base, frame, &v);

	return r == GIVEN ? rf_re_follow(x, e, 0, v, frame, ret) : r;
}

static APART enum answer place(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame, struct rf_rv *ret)
{
	enum answer r = rf_re_group(x, e->group, ret);

	return r == GIVEN && e->n ? rf_re_follow(x, e, 0, *ret, frame, ret) : r;
}

static APART enum answer whole(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *ret)
{
	struct rf_re_cached *c = &x->env->once[e->slot - 1];

	if (!c->state && !rf_re_with_member(x->arena, x->env->input, e->item[0].value, e->value, &c->value))
		return rf_re_full(x);
	c->state = 1;
	*ret = c->value;
	return GIVEN;
}

enum answer rf_re_eval(struct rf_re *x, const struct rf_rp_expr *e, struct rf_rv *frame,
			struct rf_rv *ret)
{
	switch ((enum rf_rp_kind)e->kind) {
	case RF_RP_CONST:
		*ret = e->value;
		return GIVEN;
	case RF_RP_SLOT:
		*ret = frame[e->slot];
		return GIVEN;
	case RF_RP_INPUT:
		return input_value(x, e, frame, ret);
	case RF_RP_DATA:
		return rf_re_data(x, e, frame, ret);
	case RF_RP_REF:
		return reference(x, e, frame, ret);
	case RF_RP_ARRAY:
	case RF_RP_SET:
	case RF_RP_OBJECT:
		return composite(x, e, frame, ret);
	case RF_RP_BUILTIN:
		if (e->quick && !e->slot && !x->env->n_mocks)
			return call_quick(x, e, frame, ret);
		return e->slot ? once(x, e, frame, ret) : call(x, e, frame, ret);
	case RF_RP_FUNCTION:
		return e->slot ? once(x, e, frame, ret) : call(x, e, frame, ret);
	case RF_RP_ARRAY_COMP:
	case RF_RP_SET_COMP:
	case RF_RP_OBJECT_COMP:
		return e->slot ? once(x, e, frame, ret) : comprehension(x, e, frame, ret);
	case RF_RP_TEMPLATE:
		return template(x, e, frame, ret);
	case RF_RP_NARROWED:
		return x->env->n_over ? rf_re_eval(x, e->base, frame, ret) : rf_re_group(x, e->group, ret);
	case RF_RP_PLACE:
		return place(x, e, frame, ret);
	case RF_RP_WHOLE:
		return whole(x, e, ret);
	case RF_RP_NEVER:
		return UNDEFINED;
	}
	return UNDEFINED;
}
