/* The lattice of types: joining, comparing, taking apart, printing. */
#include "policy/rego/types.h"

#define SIZE_MAX_TYPE 500
#define DEPTH_MAX_TYPE 12
#define UNION_MAX 40

const struct rf_rt rf_rt_null = { .kind = RF_RT_NULL, .size = 1 };
const struct rf_rt rf_rt_bool = { .kind = RF_RT_BOOL, .size = 1 };
const struct rf_rt rf_rt_number = { .kind = RF_RT_NUMBER, .size = 1 };
const struct rf_rt rf_rt_string = { .kind = RF_RT_STRING, .size = 1 };
const struct rf_rt rf_rt_any = { .kind = RF_RT_ANY, .size = 1 };
const struct rf_rt rf_rt_unknown = { .kind = RF_RT_ANY, .size = 1, .open = true };

/* --- making --- */

static void measure(struct rf_rt *t, const struct rf_rt *part)
{
	if (!part) {
		t->open = true;
		return;
	}
	t->open |= part->open;
	t->size += part->size;
	if (part->depth >= t->depth)
		t->depth = (uint8_t)(part->depth + 1);
}

/* Measured before it is stored: what would be too large is not. */
static const struct rf_rt *made(struct rf_rts *x, struct rf_rt t)
{
	struct rf_rt *r;

	t.size = 1;
	for (uint32_t i = 0; i < t.n; i++) {
		measure(&t, t.item[i]);
		if (t.size > SIZE_MAX_TYPE || t.depth > DEPTH_MAX_TYPE)
			return &rf_rt_any;
	}
	if (t.others)
		measure(&t, t.others);
	if (t.others_key)
		measure(&t, t.others_key);
	if (t.size > SIZE_MAX_TYPE || t.depth > DEPTH_MAX_TYPE)
		return &rf_rt_any;
	r = rf_arena_new(x->arena, struct rf_rt);
	*r = t;
	return r;
}

const struct rf_rt *rf_rt_array(struct rf_rts *x, const struct rf_rt **item, uint32_t n,
				const struct rf_rt *others)
{
	return made(x,
		    (struct rf_rt){ .kind = RF_RT_ARRAY, .item = item, .n = n, .others = others });
}

const struct rf_rt *rf_rt_object(struct rf_rts *x, const struct rf_rv *key,
				 const struct rf_rt **item, uint32_t n,
				 const struct rf_rt *others_key, const struct rf_rt *others)
{
	return made(x, (struct rf_rt){ .kind = RF_RT_OBJECT,
				       .key = key,
				       .item = item,
				       .n = n,
				       .others_key = others_key,
				       .others = others });
}

const struct rf_rt *rf_rt_set(struct rf_rts *x, const struct rf_rt *of)
{
	return made(x, (struct rf_rt){ .kind = RF_RT_SET, .others = of });
}

const struct rf_rt *rf_rt_function(struct rf_rts *x, const struct rf_rt **arg, uint32_t n,
				   const struct rf_rt *result)
{
	return made(
		x, (struct rf_rt){ .kind = RF_RT_FUNCTION, .item = arg, .n = n, .others = result });
}

static const struct rf_rt *of_composite(struct rf_rts *x, struct rf_rv v)
{
	const struct rf_rt **item, *of = NULL;
	struct rf_rv *key;

	if (v.n > SIZE_MAX_TYPE)
		return &rf_rt_any;
	item = rf_arena_array(x->arena, const struct rf_rt *, v.n + 1);
	key = rf_arena_array(x->arena, struct rf_rv, v.n + 1);
	for (uint32_t i = 0; i < v.n; i++) {
		if (v.type == RF_RV_OBJECT)
			key[i] = v.pairs[i].key;
		item[i] = rf_rt_of(x, v.type == RF_RV_OBJECT ? v.pairs[i].value : v.items[i]);
		of = v.type == RF_RV_SET ? rf_rt_or(x, of, item[i]) : NULL;
	}
	if (v.type == RF_RV_SET)
		return rf_rt_set(x, of);
	return v.type == RF_RV_ARRAY ? rf_rt_array(x, item, v.n, NULL)
				     : rf_rt_object(x, key, item, v.n, NULL, NULL);
}

const struct rf_rt *rf_rt_of(struct rf_rts *x, struct rf_rv v)
{
	static const struct rf_rt *const scalar[] = { &rf_rt_null, &rf_rt_bool, &rf_rt_number,
						      &rf_rt_string };

	if (v.type <= RF_RV_STRING)
		return scalar[v.type];
	if (--x->work < 0)
		return &rf_rt_any;
	return of_composite(x, v);
}

/* --- comparing --- */

static int cmp_lists(const struct rf_rt *a, const struct rf_rt *b)
{
	for (uint32_t i = 0; i < a->n && i < b->n; i++) {
		int r = a->kind == RF_RT_OBJECT ? rf_rv_cmp(a->key[i], b->key[i]) : 0;

		if (r == 0)
			r = rf_rt_cmp(a->item[i], b->item[i]);
		if (r)
			return r;
	}
	return a->n < b->n ? -1 : a->n > b->n;
}

int rf_rt_cmp(const struct rf_rt *a, const struct rf_rt *b)
{
	int r;

	if (a == b)
		return 0;
	if (!a || !b)
		return a ? 1 : -1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	r = rf_rt_cmp(a->others_key, b->others_key);
	if (r == 0)
		r = rf_rt_cmp(a->others, b->others);
	return r ? r : cmp_lists(a, b);
}

/* --- joining --- */

static const struct rf_rt *union_of(struct rf_rts *x, const struct rf_rt **item, uint32_t n)
{
	if (n == 1)
		return item[0];
	if (n > UNION_MAX)
		return &rf_rt_any;
	return made(x, (struct rf_rt){ .kind = RF_RT_ANY, .item = item, .n = n });
}

static const struct rf_rt *or_functions(struct rf_rts *x, const struct rf_rt *a,
					const struct rf_rt *b)
{
	const struct rf_rt **arg;

	if (a->kind != b->kind || a->n != b->n)
		return &rf_rt_any;
	arg = rf_arena_array(x->arena, const struct rf_rt *, a->n + 1);
	for (uint32_t i = 0; i < a->n; i++)
		arg[i] = rf_rt_or(x, a->item[i], b->item[i]);
	return rf_rt_function(x, arg, a->n, rf_rt_or(x, a->others, b->others));
}

/* The members of a type, as a list in order. */
static uint32_t members(const struct rf_rt *const *t, const struct rf_rt *const **ret)
{
	if ((*t)->kind != RF_RT_ANY) {
		*ret = t;
		return 1;
	}
	*ret = (const struct rf_rt *const *)(*t)->item;
	return (*t)->n;
}

const struct rf_rt *rf_rt_or(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b)
{
	const struct rf_rt *const *la, *const *lb, **item;
	uint32_t na, nb, i = 0, j = 0, n = 0;

	if (!a || !b || a == b)
		return a ? a : b;
	if (a->kind == RF_RT_FUNCTION || b->kind == RF_RT_FUNCTION)
		return or_functions(x, a, b);
	if (rf_rt_is_any(a) || rf_rt_is_any(b) || (x->work -= a->size + b->size) < 0)
		return &rf_rt_any;
	na = members(&a, &la);
	nb = members(&b, &lb);
	item = rf_arena_array(x->arena, const struct rf_rt *, na + nb);
	while (i < na || j < nb) {
		int r = i == na ? 1 : j == nb ? -1 : rf_rt_cmp(la[i], lb[j]);

		item[n++] = r <= 0 ? la[i] : lb[j];
		i += r <= 0;
		j += r >= 0;
	}
	if (n == na && a->kind == RF_RT_ANY)
		return a;
	if (n == nb && b->kind == RF_RT_ANY)
		return b;
	return union_of(x, item, n);
}

static bool joins(const struct rf_rt *t)
{
	return t->kind == RF_RT_OBJECT && t->n == 0;
}

const struct rf_rt *rf_rt_merge(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b)
{
	if (!a || !b)
		return a ? a : b;
	if (a->kind == RF_RT_SET && b->kind == RF_RT_SET)
		return rf_rt_set(x, rf_rt_or(x, a->others, b->others));
	if (!joins(a) || !joins(b))
		return rf_rt_or(x, a, b);
	if (!a->others || !b->others)
		return a->others ? a : b;
	return rf_rt_object(x, NULL, NULL, 0, rf_rt_or(x, a->others_key, b->others_key),
			    rf_rt_merge(x, a->others, b->others));
}

/* --- taking apart --- */

static bool same_or_in(const struct rf_rt *of, const struct rf_rt *t)
{
	if (!of || rf_rt_is_any(of))
		return true;
	if (of->kind != RF_RT_ANY)
		return rf_rt_cmp(of, t) == 0;
	for (uint32_t i = 0; i < of->n; i++)
		if (rf_rt_cmp(of->item[i], t) == 0)
			return true;
	return false;
}

static const struct rf_rt *known(const struct rf_rt *t)
{
	return t ? t : &rf_rt_any;
}

static const struct rf_rt *select_item(const struct rf_rt *t, struct rf_rv key)
{
	if (key.type != RF_RV_NUMBER || key.big || key.i < 0)
		return NULL;
	return key.i < t->n ? known(t->item[key.i]) : t->others;
}

static const struct rf_rt *select_value(struct rf_rts *x, const struct rf_rt *t, struct rf_rv key)
{
	uint32_t low = 0, high = t->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;
		int r = rf_rv_cmp(t->key[mid], key);

		if (r == 0)
			return known(t->item[mid]);
		low = r < 0 ? mid + 1 : low;
		high = r < 0 ? high : mid;
	}
	return t->others && same_or_in(t->others_key, rf_rt_of(x, key)) ? t->others : NULL;
}

const struct rf_rt *rf_rt_select(struct rf_rts *x, const struct rf_rt *t, struct rf_rv key)
{
	const struct rf_rt *r = NULL;

	switch (t->kind) {
	case RF_RT_ARRAY:
		return select_item(t, key);
	case RF_RT_OBJECT:
		return select_value(x, t, key);
	case RF_RT_SET:
		r = rf_rt_of(x, key);
		return t->others && same_or_in(t->others, r) ? r : NULL;
	case RF_RT_ANY:
		if (t->n == 0)
			return t;
		for (uint32_t i = 0; i < t->n; i++)
			r = rf_rt_or(x, r, rf_rt_select(x, t->item[i], key));
		return r;
	default:
		return NULL;
	}
}

const struct rf_rt *rf_rt_keys(struct rf_rts *x, const struct rf_rt *t)
{
	const struct rf_rt *r = NULL;

	switch (t->kind) {
	case RF_RT_ARRAY:
		return &rf_rt_number;
	case RF_RT_OBJECT:
		for (uint32_t i = 0; i < t->n; i++)
			r = rf_rt_or(x, r, rf_rt_of(x, t->key[i]));
		return t->others ? rf_rt_or(x, r, known(t->others_key)) : r;
	case RF_RT_SET:
		return t->others;
	case RF_RT_ANY:
		for (uint32_t i = 0; i < t->n; i++)
			r = rf_rt_or(x, r, rf_rt_keys(x, t->item[i]));
		return t->n ? r : t;
	default:
		return NULL;
	}
}

const struct rf_rt *rf_rt_values(struct rf_rts *x, const struct rf_rt *t)
{
	const struct rf_rt *r = NULL;

	switch (t->kind) {
	case RF_RT_ARRAY:
	case RF_RT_OBJECT:
		for (uint32_t i = 0; i < t->n; i++)
			r = rf_rt_or(x, r, known(t->item[i]));
		return rf_rt_or(x, r, t->others);
	case RF_RT_SET:
		return t->others;
	case RF_RT_ANY:
		for (uint32_t i = 0; i < t->n; i++)
			r = rf_rt_or(x, r, rf_rt_values(x, t->item[i]));
		return t->n ? r : t;
	default:
		return NULL;
	}
}

/* --- fitting --- */

static bool fits_items(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b)
{
	for (uint32_t i = 0; i < a->n; i++) {
		if (i >= b->n && !b->others)
			return false;
		if (!rf_rt_fits(x, a->item[i], i < b->n ? b->item[i] : b->others))
			return false;
	}
	return true;
}

static bool fits_fields(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b)
{
	for (uint32_t i = 0; i < a->n; i++) {
		const struct rf_rt *there = rf_rt_select(x, b, a->key[i]);

		if (there ? !rf_rt_fits(x, a->item[i], there) : !a->others && !b->others)
			return false;
	}
	return true;
}

static bool fits_one_of(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b)
{
	for (uint32_t i = 0; i < a->n; i++)
		if (rf_rt_fits(x, a->item[i], b))
			return true;
	return a->n == 0;
}

bool rf_rt_fits(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b)
{
	if (!a || !b || a == b || --x->work < 0)
		return true;
	if (a->kind == RF_RT_ANY)
		return fits_one_of(x, a, b);
	if (b->kind == RF_RT_ANY)
		return fits_one_of(x, b, a);
	if (a->kind != b->kind)
		return false;
	switch (a->kind) {
	case RF_RT_ARRAY:
		return fits_items(x, a, b) && fits_items(x, b, a) &&
		       rf_rt_fits(x, a->others, b->others);
	case RF_RT_OBJECT:
		return fits_fields(x, a, b) && fits_fields(x, b, a) &&
		       rf_rt_fits(x, a->others, b->others);
	case RF_RT_SET:
		return rf_rt_fits(x, a->others, b->others);
	default:
		return true;
	}
}

/* --- printing --- */

static void print_list(struct rf_buf *out, const struct rf_rt *t)
{
	for (uint32_t i = 0; i < t->n; i++) {
		rf_buf_puts(out, i == 0 ? "<" : ", ");
		if (t->kind == RF_RT_OBJECT && t->key[i].type == RF_RV_STRING)
			rf_buf_add(out, rf_rv_text(t->key[i]));
		else if (t->kind == RF_RT_OBJECT)
			rf_rv_print(out, t->key[i]);
		if (t->kind == RF_RT_OBJECT)
			rf_buf_puts(out, ": ");
		rf_rt_print(out, t->item[i]);
	}
	if (t->n)
		rf_buf_add_c(out, '>');
}

static void print_named(struct rf_buf *out, const struct rf_rt *f, uint32_t i,
			const struct rf_rt *t)
{
	if (f->name && f->name[i].n)
		rf_buf_printf(out, "%.*s: ", RF_STR(f->name[i]));
	rf_rt_print(out, t);
}

void rf_rt_print_arguments(struct rf_buf *out, const struct rf_rt *f)
{
	rf_buf_add_c(out, '(');
	for (uint32_t i = 0; i < f->n; i++) {
		if (i > 0)
			rf_buf_puts(out, ", ");
		print_named(out, f, i, f->item[i]);
	}
	if (f->others) {
		if (f->n)
			rf_buf_puts(out, ", ");
		print_named(out, f, f->n, f->others);
	}
	rf_buf_add_c(out, ')');
}

void rf_rt_print(struct rf_buf *out, const struct rf_rt *t)
{
	static const char *const name[] = { "null",   "boolean", "number", "string",  "array",
					    "object", "set",	 "any",	   "function" };

	if (!t || t == &rf_rt_unknown) {
		rf_buf_puts(out, "???");
		return;
	}
	if (t->kind == RF_RT_FUNCTION) {
		rf_rt_print_arguments(out, t);
		return;
	}
	rf_buf_puts(out, name[t->kind]);
	print_list(out, t);
	if (!t->others)
		return;
	rf_buf_add_c(out, '[');
	if (t->kind == RF_RT_OBJECT) {
		rf_rt_print(out, t->others_key);
		rf_buf_puts(out, ": ");
	}
	rf_rt_print(out, t->others);
	rf_buf_add_c(out, ']');
}
