/* Static types: what a rule can give is worked out from its body, and expressions that can never hold are
 * refused, in OPA's words. Rules are looked at after those they refer to.
 *
 * Input and data are any. Wherever OPA's own checker gives up or is subtle, this one accepts. */
#include "policy/rego/check_types.h"

#define WORK_MAX 20000000
#define TEXT_MAX 2000

struct trail {
	struct rf_rc_var *var;
	const struct rf_rt *before;
};

struct check {
	struct rf_rego *rego;
	struct rf_ra_errors *errors;
	const struct rf_ra_module *module;
	struct rf_rts types;
	const struct rf_rt **group; /* by id; NULL: nothing is known yet */
	RF_VEC(struct trail)
	trail;		/* what variables were, to forget what was learned inside a closure */
	uint32_t loose; /* inside `with`: rules may be anything */
	uint32_t bad;	/* errors in the rule that is being checked */
	bool again;	/* only variables may be of another type than before */
};

static const struct rf_rt *type_term(struct check *k, struct rf_rc_term *t);
static void check_body(struct check *k, struct rf_rc_body *b);

/* --- what is known of variables --- */

static void learn(struct check *k, struct rf_rc_var *v, const struct rf_rt *t)
{
	rf_vec_push(&k->trail, ((struct trail){ v, v->type }));
	v->type = t;
}

static void forget(struct check *k, size_t to)
{
	while (k->trail.n > to) {
		k->trail.n--;
		k->trail.at[k->trail.n].var->type = k->trail.at[k->trail.n].before;
	}
}

/* --- telling --- */

static bool is_name(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];
		bool letter = c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!letter && (i == 0 || c < '0' || c > '9'))
			return false;
	}
	return s.n > 0;
}

static void print_path(struct rf_buf *out, const struct rf_rego_node *n)
{
	const struct rf_rego_node *up[64];
	uint32_t depth = 0;

	for (; n->parent && depth < RF_COUNT(up); n = n->parent)
		up[depth++] = n;
	rf_buf_puts(out, "data");
	while (depth-- > 0)
		rf_buf_printf(out, ".%.*s", RF_STR(up[depth]->name));
}

static void print_name(struct rf_buf *out, const struct rf_rc_term *call)
{
	if (call->group)
		print_path(out, call->group->node);
	else
		rf_buf_puts(out, call->builtin->name);
}

static void print_term(struct rf_buf *out, const struct rf_rc_term *t);

static void print_key(struct rf_buf *out, const struct rf_rc_term *t)
{
	if (t->kind == RF_RC_CONST && t->value.type == RF_RV_STRING &&
	    is_name(rf_rv_text(t->value))) {
		rf_buf_printf(out, ".%.*s", RF_STR(rf_rv_text(t->value)));
		return;
	}
	rf_buf_add_c(out, '[');
	print_term(out, t);
	rf_buf_add_c(out, ']');
}

static void print_ref(struct rf_buf *out, const struct rf_rc_term *t, uint32_t n)
{
	print_term(out, t->item[0]);
	for (uint32_t i = 1; i < n && out->n < TEXT_MAX; i++)
		print_key(out, t->item[i]);
}

static void print_items(struct rf_buf *out, const struct rf_rc_term *t, const char *open,
			const char *close)
{
	rf_buf_puts(out, open);
	for (uint32_t i = 0; i < t->n && out->n < TEXT_MAX; i++) {
		if (i > 0)
			rf_buf_puts(out, t->kind == RF_RC_OBJECT && i % 2 ? ": " : ", ");
		print_term(out, t->item[i]);
	}
	rf_buf_puts(out, close);
}

static void print_term(struct rf_buf *out, const struct rf_rc_term *t)
{
	switch (t->kind) {
	case RF_RC_CONST:
		rf_rv_print(out, t->value);
		break;
	case RF_RC_VAR:
		rf_buf_add(out, t->var->wild ? RF_LIT("_") : t->var->name);
		break;
	case RF_RC_INPUT:
		rf_buf_puts(out, "input");
		break;
	case RF_RC_DATA:
		rf_buf_puts(out, "data");
		break;
	case RF_RC_REF:
		print_ref(out, t, t->n);
		break;
	case RF_RC_ARRAY:
		print_items(out, t, "[", "]");
		break;
	case RF_RC_SET:
		print_items(out, t, t->n ? "{" : "set(", t->n ? "}" : ")");
		break;
	case RF_RC_OBJECT:
		print_items(out, t, "{", "}");
		break;
	case RF_RC_CALL:
		print_name(out, t);
		print_items(out, t, "(", ")");
		break;
	default:
		rf_buf_puts(out, "__local__");
		break;
	}
}

static void tell(struct check *k, struct rf_ra_loc loc, const struct rf_buf *text)
{
	k->bad++;
	rf_ra_complain(k->errors, "rego_type_error", k->module, loc, "%.*s",
		       (int)RF_MIN(text->n, (size_t)2 * TEXT_MAX), text->p);
}

static void tell_match(struct check *k, struct rf_ra_loc loc, const struct rf_rt *a,
		       const struct rf_rt *b)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_buf_puts(&out, "match error\n\tleft  : ");
	rf_rt_print(&out, a);
	rf_buf_puts(&out, "\n\tright : ");
	rf_rt_print(&out, b);
	tell(k, loc, &out);
}

static void begin_ref(struct rf_buf *out, const struct rf_rc_term *t, const char *text)
{
	rf_buf_puts(out, text);
	print_ref(out, t, t->n);
	rf_buf_puts(out, "\n\t");
	print_ref(out, t, t->n);
	rf_buf_puts(out, "\n\t");
}

static size_t width(const struct rf_rc_term *t, uint32_t n)
{
	rf_auto(buf) out = RF_BUF_INIT;

	print_ref(&out, t, n);
	return RF_MIN(out.n, (size_t)TEXT_MAX);
}

/* What stands before key i has no keys at all. */
static void tell_scalar(struct check *k, const struct rf_rc_term *t, uint32_t i,
			const struct rf_rt *have)
{
	rf_auto(buf) out = RF_BUF_INIT;

	begin_ref(&out, t, "undefined ref: ");
	for (size_t n = width(t, i); n > 0; n--)
		rf_buf_add_c(&out, '^');
	rf_buf_puts(&out, "\n\thave: ");
	rf_rt_print(&out, have);
	tell(k, t->loc, &out);
}

static void print_choices(struct rf_buf *out, struct rf_rts *x, const struct rf_rt *t)
{
	const struct rf_rt *keys = rf_rt_keys(x, t);

	if (keys && !(t->kind == RF_RT_OBJECT && t->n)) {
		rf_buf_puts(out, "want (type): ");
		rf_rt_print(out, keys);
		return;
	}
	rf_buf_puts(out, "want (one of): [");
	for (uint32_t i = 0; t->kind == RF_RT_OBJECT && i < t->n && out->n < TEXT_MAX; i++) {
		if (i > 0)
			rf_buf_add_c(out, ' ');
		rf_rv_print(out, t->key[i]);
	}
	rf_buf_add_c(out, ']');
}

/* Key i is none of in's. have: its type, if it is not a constant. */
static void tell_key(struct check *k, const struct rf_rc_term *t, uint32_t i,
		     const struct rf_rt *have, const struct rf_rt *in)
{
	rf_auto(buf) out = RF_BUF_INIT;
	size_t pad = width(t, i) + 1;

	begin_ref(&out, t, "undefined ref: ");
	for (size_t n = 0; n < pad; n++)
		rf_buf_add_c(&out, ' ');
	rf_buf_puts(&out, "^\n\t");
	for (size_t n = 0; n < pad; n++)
		rf_buf_add_c(&out, ' ');
	rf_buf_puts(&out, have ? "have (type): " : "have: ");
	if (have)
		rf_rt_print(&out, have);
	else
		print_term(&out, t->item[i]);
	rf_buf_puts(&out, "\n\t");
	for (size_t n = 0; n < pad; n++)
		rf_buf_add_c(&out, ' ');
	print_choices(&out, &k->types, in);
	tell(k, t->loc, &out);
}

static void print_have(struct rf_buf *out, const struct rf_rc_term *call, const char *what,
		       bool statement)
{
	print_name(out, call);
	rf_buf_printf(out, ": %s\n\thave: (", what);
	for (uint32_t i = 0; i < call->n && out->n < TEXT_MAX; i++) {
		if (i > 0)
			rf_buf_puts(out, ", ");
		rf_rt_print(out, call->item[i]->type);
	}
	if (!statement) {
		rf_buf_puts(out, call->n ? ", " : "");
		rf_rt_print(out, NULL);
	}
	rf_buf_puts(out, ")\n\twant: ");
}

static void tell_call(struct check *k, const struct rf_rc_term *t, const struct rf_rt *f,
		      bool statement)
{
	rf_auto(buf) out = RF_BUF_INIT;

	print_have(&out, t, "invalid argument(s)", statement);
	rf_rt_print_arguments(&out, f);
	tell(k, t->loc, &out);
}

/* --- a term against a type: variables in it that are not known learn theirs --- */

static bool fit_term(struct check *k, struct rf_rc_term *t, const struct rf_rt *want, bool either);

static bool fit_items(struct check *k, struct rf_rc_term *t, const struct rf_rt *want, bool either)
{
	if (t->n != want->n && !want->others)
		return false;
	for (uint32_t i = 0; i < t->n; i++) {
		const struct rf_rt *w = i < want->n ? want->item[i] : want->others;

		if (!w && i >= want->n)
			return false;
		if (!fit_term(k, t->item[i], w ? w : &rf_rt_any, either))
			return false;
	}
	return true;
}

static bool fit_fields(struct check *k, struct rf_rc_term *t, const struct rf_rt *want, bool either)
{
	bool all = true; /* are constants: how many keys it has is known */

	for (uint32_t i = 0; i < t->n; i += 2)
		all &= t->item[i]->kind == RF_RC_CONST;
	if (all && t->n / 2 != want->n && !want->others)
		return false;
	for (uint32_t i = 0; i < t->n; i += 2) {
		const struct rf_rt *w = &rf_rt_any;

		if (t->item[i]->kind == RF_RC_CONST)
			w = rf_rt_select(&k->types, want, t->item[i]->value);
		if (!w || !fit_term(k, t->item[i + 1], w, either))
			return false;
	}
	return true;
}

static bool fit_elements(struct check *k, struct rf_rc_term *t, const struct rf_rt *want,
			 bool either)
{
	for (uint32_t i = 0; want->others && i < t->n; i++)
		if (!fit_term(k, t->item[i], want->others, either))
			return false;
	return true;
}

static bool fit_composite(struct check *k, struct rf_rc_term *t, const struct rf_rt *want,
			  bool either)
{
	enum rf_rt_kind kind = t->kind == RF_RC_ARRAY	 ? RF_RT_ARRAY
			       : t->kind == RF_RC_OBJECT ? RF_RT_OBJECT
							 : RF_RT_SET;
	bool any = false;

	if (rf_rt_is_any(want)) {
		for (uint32_t i = 0; i < t->n; i++)
			fit_term(k, t->item[i], want, true);
		return true;
	}
	if (want->kind == RF_RT_ANY) {
		for (uint32_t i = 0; i < want->n; i++)
			any |= fit_composite(k, t, want->item[i], true);
		return any;
	}
	if (want->kind != kind)
		return false;
	return kind == RF_RT_ARRAY    ? fit_items(k, t, want, either)
	       : kind == RF_RT_OBJECT ? fit_fields(k, t, want, either)
				      : fit_elements(k, t, want, either);
}

static bool fit_var(struct check *k, struct rf_rc_var *v, const struct rf_rt *want, bool either)
{
	if (v->shown)
		return true;
	if (!v->type)
		learn(k, v, want);
	else if (either)
		learn(k, v, rf_rt_or(&k->types, v->type, want));
	else
		return rf_rt_fits(&k->types, v->type, want);
	return true;
}

/* The term has been typed before. either: want is one of several. */
static bool fit_term(struct check *k, struct rf_rc_term *t, const struct rf_rt *want, bool either)
{
	if (--k->types.work < 0)
		return true;
	switch (t->kind) {
	case RF_RC_VAR:
		return fit_var(k, t->var, want, either);
	case RF_RC_CONST:
		if (t->held)
			return fit_var(k, t->var, want, either);
		return rf_rt_fits(&k->types, t->type, want);
	case RF_RC_ARRAY:
	case RF_RC_OBJECT:
	case RF_RC_SET:
		return fit_composite(k, t, want, either);
	default:
		return rf_rt_fits(&k->types, t->type, want);
	}
}

/* --- references --- */

/* What is behind is anything; so are the variables on the way. */
static const struct rf_rt *rest_any(struct check *k, struct rf_rc_term *t, uint32_t i)
{
	for (; i < t->n; i++) {
		type_term(k, t->item[i]);
		fit_term(k, t->item[i], &rf_rt_any, false);
	}
	return &rf_rt_any;
}

static bool is_empty(const struct rf_rt *t)
{
	return (t->kind == RF_RT_ARRAY || t->kind == RF_RT_OBJECT || t->kind == RF_RT_SET) &&
	       t->n == 0 && !t->others;
}

/* One key further; NULL: there is nothing, and it has been told. */
static const struct rf_rt *step(struct check *k, struct rf_rc_term *t, uint32_t i,
				const struct rf_rt *in)
{
	struct rf_rc_term *key = t->item[i];
	const struct rf_rt *have = type_term(k, key), *keys, *r;

	if (is_empty(in)) {
		tell_key(k, t, i, NULL, in);
		return NULL;
	}
	keys = rf_rt_keys(&k->types, in);
	if (!keys) {
		tell_scalar(k, t, i, in);
		return NULL;
	}
	if (key->kind == RF_RC_CONST && !key->held) {
		r = rf_rt_select(&k->types, in, key->value);
		if (!r)
			tell_key(k, t, i, NULL, in);
		return r;
	}
	if (!fit_term(k, key, keys, false)) {
		tell_key(k, t, i, have, in);
		return NULL;
	}
	r = rf_rt_values(&k->types, in);
	return r ? r : &rf_rt_any;
}

static const struct rf_rt *walk_keys(struct check *k, struct rf_rc_term *t, uint32_t i,
				     const struct rf_rt *in)
{
	for (; i < t->n && in; i++) {
		if (rf_rt_is_any(in))
			return rest_any(k, t, i);
		in = step(k, t, i, in);
	}
	return in ? in : rest_any(k, t, i);
}

static const struct rf_rt *package_type(struct check *k)
{
	return rf_rt_object(&k->types, NULL, NULL, 0, &rf_rt_string, &rf_rt_any);
}

static const struct rf_rt *data_type(struct check *k, struct rf_rc_term *t)
{
	const struct rf_rego_node *n = k->rego->root, *child;
	uint32_t i = 1, end = t->kind == RF_RC_REF ? t->n : 1;
	const struct rf_rt *r;

	for (; i < end && !n->group; i++, n = child) {
		if (t->item[i]->kind != RF_RC_CONST || t->item[i]->value.type != RF_RV_STRING)
			return rest_any(k, t, i);
		child = rf_rego_child(n, rf_rv_text(t->item[i]->value));
		if (!child)
			return rest_any(k, t, i);
	}
	if (k->loose) {
		if (end > i)
			rest_any(k, t, i);
		return &rf_rt_unknown; /* OPA knows more */
	}
	if (!n->group)
		return package_type(k);
	r = k->group[n->group->id];
	if (!r || n->n || r->kind == RF_RT_FUNCTION)
		r = &rf_rt_any;
	return walk_keys(k, t, i, r);
}

static const struct rf_rt *ref_type(struct check *k, struct rf_rc_term *t)
{
	const struct rf_rt *head;

	if (t->item[0]->kind == RF_RC_DATA)
		return data_type(k, t);
	head = type_term(k, t->item[0]);
	if (!head && t->item[0]->kind == RF_RC_VAR)
		learn(k, t->item[0]->var, &rf_rt_any);
	return walk_keys(k, t, 1, head ? head : &rf_rt_any);
}

/* --- calls --- */

static bool is_builtin(const struct rf_rc_term *t, const char *name)
{
	return t->kind == RF_RC_CALL && t->builtin && strcmp(t->builtin->name, name) == 0;
}

static bool fit_argument(struct check *k, struct rf_rc_term *t, const struct rf_rt *want)
{
	if (!want)
		return true;
	if (t->type && !t->type->open && !rf_rt_fits(&k->types, t->type, want))
		return false;
	return fit_term(k, t, want, false);
}

/* x in xs, k, x in xs: what is looked for can be there. What is not known of x stays so: a function that
 * only asks whether its argument is one of some takes any. */
static void check_member(struct check *k, struct rf_rc_term *t)
{
	const struct rf_rt *in = t->item[t->n - 1]->type, *of;

	for (uint32_t i = 0; in && i + 1 < t->n; i++) {
		bool key = t->n == 3 && i == 0;

		of = key ? rf_rt_keys(&k->types, in) : rf_rt_values(&k->types, in);
		if (of && !of->open && t->item[i]->type &&
		    !rf_rt_fits(&k->types, t->item[i]->type, of))
			tell_match(k, t->loc, t->item[i]->type, of);
	}
}

static const struct rf_rt *function_of(struct check *k, const struct rf_rc_term *t)
{
	const struct rf_rt *f;

	if (t->builtin)
		return rf_rt_builtin(&k->types, rf_str(t->builtin->name));
	f = k->loose ? NULL : k->group[t->group->id];
	return f && f->kind == RF_RT_FUNCTION && f->n == t->n ? f : NULL;
}

/* statement: it stands alone, its result is not used. */
static const struct rf_rt *call_type(struct check *k, struct rf_rc_term *t, bool statement)
{
	const struct rf_rt *f = function_of(k, t);

	for (uint32_t i = 0; i < t->n; i++)
		type_term(k, t->item[i]);
	if (is_builtin(t, "internal.member_2") || is_builtin(t, "internal.member_3"))
		check_member(k, t);
	for (uint32_t i = 0; i < t->n; i++) {
		if (fit_argument(k, t->item[i], f && i < f->n ? f->item[i] : &rf_rt_any))
			continue;
		tell_call(k, t, f, statement);
		return &rf_rt_any;
	}
	if (k->loose && t->group)
		return &rf_rt_unknown;
	return f && f->others ? f->others : &rf_rt_any;
}

/* --- other terms --- */

static const struct rf_rt *known(const struct rf_rt *t)
{
	return t ? t : &rf_rt_any;
}

/* As a part of something that is then open. */
static const struct rf_rt *part(const struct rf_rt *t)
{
	return t ? t : &rf_rt_unknown;
}

/* Behind a key of which nothing is known may be the value of any other. */
static const struct rf_rt *behind(const struct rf_rt *key, const struct rf_rt *t)
{
	return key && key != &rf_rt_unknown ? part(t) : &rf_rt_unknown;
}

/* What is learned inside is forgotten outside. */
static const struct rf_rt *comp_type(struct check *k, struct rf_rc_term *t)
{
	size_t mark = k->trail.n;
	const struct rf_rt *key = NULL, *term;
	uint32_t bad = k->bad;

	check_body(k, t->body);
	if (t->key)
		key = type_term(k, t->key);
	term = type_term(k, t->term);
	forget(k, mark);
	if (k->bad != bad || t->first)
		return &rf_rt_any;
	if (t->comp == RF_RA_ARRAY_COMP)
		return rf_rt_array(&k->types, NULL, 0, known(term));
	return t->comp == RF_RA_SET_COMP
		       ? rf_rt_set(&k->types, part(term))
		       : rf_rt_object(&k->types, NULL, NULL, 0, part(key), behind(key, term));
}

struct field {
	struct rf_rv key;
	const struct rf_rt *type;
};

static int by_key(const void *a, const void *b)
{
	return rf_rv_cmp(((const struct field *)a)->key, ((const struct field *)b)->key);
}

static const struct rf_rt *object_type(struct check *k, struct rf_rc_term *t)
{
	struct rf_arena *a = k->types.arena;
	struct field *field = rf_arena_array(a, struct field, t->n / 2 + 1);
	const struct rf_rt **item = rf_arena_array(a, const struct rf_rt *, t->n / 2 + 1);
	const struct rf_rt *others_key = NULL, *others = NULL;
	struct rf_rv *key = rf_arena_array(a, struct rf_rv, t->n / 2 + 1);
	uint32_t n = 0;

	for (uint32_t i = 0; i < t->n; i += 2) {
		const struct rf_rt *tk = type_term(k, t->item[i]),
				   *tv = type_term(k, t->item[i + 1]);

		if (t->item[i]->kind == RF_RC_CONST) {
			field[n++] = (struct field){ t->item[i]->value, part(tv) };
		} else {
			others_key = rf_rt_or(&k->types, others_key, part(tk));
			others = rf_rt_or(&k->types, others, behind(tk, tv));
		}
	}
	qsort(field, n, sizeof(*field), by_key);
	for (uint32_t i = 0; i < n; i++) {
		key[i] = field[i].key;
		item[i] = field[i].type;
	}
	return rf_rt_object(&k->types, key, item, n, others_key, others);
}

static const struct rf_rt *list_type(struct check *k, struct rf_rc_term *t)
{
	const struct rf_rt **item = rf_arena_array(k->types.arena, const struct rf_rt *, t->n + 1);
	const struct rf_rt *of = NULL;

	for (uint32_t i = 0; i < t->n; i++) {
		item[i] = part(type_term(k, t->item[i]));
		if (t->kind == RF_RC_SET)
			of = rf_rt_or(&k->types, of, item[i]);
	}
	return t->kind == RF_RC_SET ? rf_rt_set(&k->types, of)
				    : rf_rt_array(&k->types, item, t->n, NULL);
}

static const struct rf_rt *type_of(struct check *k, struct rf_rc_term *t)
{
	switch (t->kind) {
	case RF_RC_CONST:
		return t->value.type <= RF_RV_STRING ? rf_rt_of(&k->types, t->value) : &rf_rt_any;
	case RF_RC_VAR:
		return t->var->shown ? &rf_rt_any : t->var->type;
	case RF_RC_INPUT:
		return &rf_rt_any;
	case RF_RC_DATA:
		return data_type(k, t);
	case RF_RC_REF:
		return ref_type(k, t);
	case RF_RC_ARRAY:
	case RF_RC_SET:
		return list_type(k, t);
	case RF_RC_OBJECT:
		return object_type(k, t);
	case RF_RC_COMP:
		return comp_type(k, t);
	case RF_RC_CALL:
		return call_type(k, t, false);
	case RF_RC_TEMPLATE:
		for (uint32_t i = 0; i < t->n; i++)
			type_term(k, t->item[i]);
		return &rf_rt_string;
	}
	return &rf_rt_any;
}

/* Once per term of a goal: errors in it are told here. */
static const struct rf_rt *type_term(struct check *k, struct rf_rc_term *t)
{
	if (k->types.work <= 0)
		return t->type = &rf_rt_any;
	k->types.work--;
	if (k->again && t->kind != RF_RC_VAR && t->kind != RF_RC_ARRAY && t->kind != RF_RC_OBJECT &&
	    t->kind != RF_RC_SET)
		return t->type;
	return t->type = type_of(k, t);
}

/* --- goals --- */

static void refs_in_body(struct check *k, struct rf_rc_body *b);

static bool is_open(const struct rf_rc_term *t)
{
	return !t->type || t->type->open;
}

static bool equal_terms(struct check *k, struct rf_rc_term *a, struct rf_rc_term *b);

/* A variable is given something of which only a part is known. Of arrays and objects the rest is then any; of
 * comprehensions, sets and references it stays open, and so does all that the variable becomes a part of. Calls and
 * other variables OPA takes for any as a whole. */
static bool learn_open(struct check *k, struct rf_rc_term *v, struct rf_rc_term *of)
{
	if (v->kind != RF_RC_VAR || v->type || !of->type || of->kind == RF_RC_CALL ||
	    of->kind == RF_RC_VAR)
		return false;
	if (of->kind == RF_RC_ARRAY || of->kind == RF_RC_OBJECT) {
		fit_term(k, of, &rf_rt_any, false);
		k->again = true;
		type_term(k, of);
		k->again = false;
	}
	return fit_term(k, v, of->type, false);
}

static bool equal_items(struct check *k, struct rf_rc_term *a, struct rf_rc_term *b)
{
	if (a->n != b->n)
		return false;
	for (uint32_t i = 0; i < a->n; i++)
		if (!equal_terms(k, a->item[i], b->item[i]))
			return false;
	return true;
}

/* Both have been typed. */
static bool equal_terms(struct check *k, struct rf_rc_term *a, struct rf_rc_term *b)
{
	if (!is_open(a) && !is_open(b))
		return rf_rt_fits(&k->types, a->type, b->type);
	if (!is_open(b))
		return fit_term(k, a, b->type, false);
	if (!is_open(a))
		return fit_term(k, b, a->type, false);
	if (a->kind == RF_RC_ARRAY && b->kind == RF_RC_ARRAY)
		return equal_items(k, a, b);
	if (learn_open(k, a, b) || learn_open(k, b, a))
		return true;
	fit_term(k, a, &rf_rt_any, false);
	fit_term(k, b, &rf_rt_any, false);
	return true;
}

static void check_equal(struct check *k, struct rf_rc_term *a, struct rf_rc_term *b,
			struct rf_ra_loc loc)
{
	const struct rf_rt *left = type_term(k, a), *right = type_term(k, b);

	if (!equal_terms(k, a, b))
		tell_match(k, loc, left, right);
}

static void check_each(struct check *k, struct rf_rc_goal *g)
{
	const struct rf_rt *in = known(type_term(k, g->b)), *keys, *values;

	if (g->key)
		type_term(k, g->key);
	type_term(k, g->a);
	keys = rf_rt_keys(&k->types, in);
	values = rf_rt_values(&k->types, in);
	if (!keys || !values) {
		rf_auto(buf) out = RF_BUF_INIT;

		rf_buf_puts(&out, "undefined ref: ");
		print_term(&out, g->b);
		rf_buf_puts(&out, "[_]\n\thave: ");
		rf_rt_print(&out, in);
		tell(k, g->loc, &out);
		return;
	}
	if (g->key && !fit_term(k, g->key, keys, false))
		tell_match(k, g->loc, g->key->type, keys);
	if (!fit_term(k, g->a, values, false))
		tell_match(k, g->loc, g->a->type, values);
}

static void check_test(struct check *k, struct rf_rc_goal *g)
{
	if (is_builtin(g->a, "equal") && g->a->n == 2)
		check_equal(k, g->a->item[0], g->a->item[1], g->loc);
	else if (g->a->kind == RF_RC_CALL)
		g->a->type = call_type(k, g->a, true);
	else
		type_term(k, g->a);
}

static void check_goal(struct check *k, struct rf_rc_goal *g)
{
	for (uint32_t i = 0; i < g->n_with; i++)
		if (g->with[i].value)
			type_term(k, g->with[i].value);
	k->loose += g->n_with > 0;
	switch (g->kind) {
	case RF_RC_TEST:
		check_test(k, g);
		break;
	case RF_RC_EQ:
		check_equal(k, g->a, g->b, g->loc);
		break;
	case RF_RC_EACH:
		check_each(k, g);
		break;
	case RF_RC_NOT:
		if (g->strict && !g->inside)
			check_body(k, g->body);
		break;
	case RF_RC_EVERY:
		type_term(k, g->b);
		refs_in_body(k, g->body); /* of these OPA looks at the references only */
		break;
	case RF_RC_EITHER:
	case RF_RC_BOTH:
		break;
	}
	k->loose -= g->n_with > 0;
}

struct turn {
	uint32_t order, at;
};

static void refs_in_term(struct check *k, struct rf_rc_term *t)
{
	if (!t || t->kind == RF_RC_COMP || --k->types.work < 0)
		return;
	if (t->kind == RF_RC_REF) {
		type_term(k, t);
		return;
	}
	for (uint32_t i = 0; i < t->n; i++)
		refs_in_term(k, t->item[i]);
}

static void refs_in_body(struct check *k, struct rf_rc_body *b)
{
	for (uint32_t i = 0; i < b->n; i++) {
		struct rf_rc_goal *g = &b->goal[i];

		refs_in_term(k, g->a);
		refs_in_term(k, g->b);
		if (g->body && (g->kind == RF_RC_EVERY || g->kind == RF_RC_NOT))
			refs_in_body(k, g->body);
	}
}

static int by_order(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	return x->order < y->order ? -1 : x->order > y->order;
}

/* In the order they are evaluated in. */
static void check_body(struct check *k, struct rf_rc_body *b)
{
	struct turn *turn = rf_arena_array(k->types.arena, struct turn, b->n + 1);

	for (uint32_t i = 0; i < b->n; i++)
		turn[i] = (struct turn){ b->goal[i].order, i };
	qsort(turn, b->n, sizeof(*turn), by_order);
	for (uint32_t i = 0; i < b->n && k->types.work > 0; i++)
		if (b->goal[turn[i].at].done)
			check_goal(k, &b->goal[turn[i].at]);
}

/* --- rules --- */

static const struct rf_rt *function_type(struct check *k, const struct rf_rc_rule *r,
					 const struct rf_rt *result)
{
	const struct rf_rt **arg =
		rf_arena_array(k->types.arena, const struct rf_rt *, r->n_args + 1);

	for (uint32_t i = 0; i < r->n_args; i++) {
		type_term(k, r->arg[i]);
		fit_term(k, r->arg[i], &rf_rt_any, false);
		arg[i] = known(type_term(k, r->arg[i]));
	}
	return rf_rt_function(&k->types, arg, r->n_args, result);
}

static const struct rf_rt *rule_type(struct check *k, const struct rf_rc_rule *r)
{
	const struct rf_rt *t = r->value ? known(type_term(k, r->value)) : &rf_rt_bool;

	if (r->n_args)
		return function_type(k, r, t);
	if (r->contains)
		t = rf_rt_set(&k->types, t);
	for (uint32_t i = r->n_keys; i > 0; i--)
		if (r->key[i - 1]->kind == RF_RC_CONST)
			return &rf_rt_any; /* p[1] := x says nothing about other keys of p */
	for (uint32_t i = r->n_keys; i > 0; i--)
		t = rf_rt_object(&k->types, NULL, NULL, 0, known(type_term(k, r->key[i - 1])), t);
	return t;
}

static void check_rule(struct check *k, const struct rf_rc_rule *r)
{
	const struct rf_rt **slot = &k->group[r->group->id], *t;

	k->module = r->module;
	k->bad = 0;
	k->trail.n = 0;
	for (uint32_t i = 0; i < r->n_args; i++)
		type_term(k, r->arg[i]);
	check_body(k, r->body);
	t = rule_type(k, r);
	if (k->bad || k->types.work <= 0)
		t = &rf_rt_any; /* nobody else shall stumble over it */
	*slot = *slot && (rf_rt_is_any(*slot) || rf_rt_is_any(t))
			? &rf_rt_any
			: rf_rt_merge(&k->types, *slot, t);
}

/* Before anything else is known: only what the arguments are by themselves. */
void rf_rc_complain_arity(struct rf_rc *c, struct rf_rc_term *call, bool statement)
{
	rf_auto(arena) scratch = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_rts types = { &scratch, WORK_MAX };
	struct rf_rt *f;
	const struct rf_rt *declared =
		call->builtin ? rf_rt_builtin(&types, rf_str(call->builtin->name)) : NULL;

	if (declared) {
		for (uint32_t i = 0; i < call->n; i++)
			if (call->item[i]->kind == RF_RC_CONST)
				call->item[i]->type = rf_rt_of(&types, call->item[i]->value);
		print_have(&out, call, "arity mismatch", statement);
		f = rf_arena_new(&scratch, struct rf_rt);
		*f = *declared;
		f->others = NULL;
		rf_rt_print_arguments(&out, f);
	} else {
		rf_buf_puts(&out, "function ");
		print_name(&out, call);
		rf_buf_printf(&out, " has arity %u, got %u argument%s",
			      call->group ? call->group->n_args : call->builtin->n_args, call->n,
			      call->n == 1 ? "" : "s");
	}
	rf_ra_complain(c->errors, "rego_type_error", c->module, call->loc, "%s", out.p);
}

void rf_rc_check_types(struct rf_rego *r, struct rf_rc_rule *const *rules, const uint32_t *order,
		       struct rf_ra_errors *errors)
{
	rf_auto(arena) scratch = RF_ARENA_INIT;
	struct check k = { .rego = r, .errors = errors, .types = { &scratch, WORK_MAX } };

	k.group = rf_arena_array(&scratch, const struct rf_rt *, r->n_groups + 1);
	for (uint32_t i = 0; i < r->n_groups && k.types.work > 0; i++)
		for (struct rf_rc_rule *rule = rules[order[i]]; rule; rule = rule->next)
			check_rule(&k, rule);
	rf_vec_done(&k.trail);
}
