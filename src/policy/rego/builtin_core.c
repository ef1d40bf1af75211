/* Builtins: comparison, arithmetic, bits, aggregates, types, casts. */
#include <errno.h>
#include <math.h>

#include "policy/rego/builtin_private.h"
#include "policy/rego/number.h"

#define FN(name)                                                                                   \
	static enum rf_rb_result name(struct rf_rb_env *e RF_UNUSED, const struct rf_rv *arg,      \
				      struct rf_rv *ret, struct rf_err *err RF_UNUSED)

/* --- comparison --- */

#define COMPARE(name, op)                                                                          \
	FN(name)                                                                                   \
	{                                                                                          \
		*ret = rf_rv_bool(rf_rv_cmp(arg[0], arg[1]) op 0);                                 \
		return RF_RB_OK;                                                                   \
	}
COMPARE(cmp_lt, <)
COMPARE(cmp_lte, <=)
COMPARE(cmp_gt, >)
COMPARE(cmp_gte, >=)

FN(cmp_equal)
{
	*ret = rf_rv_bool(rf_rv_eq(arg[0], arg[1]));
	return RF_RB_OK;
}

FN(cmp_neq)
{
	*ret = rf_rv_bool(!rf_rv_eq(arg[0], arg[1]));
	return RF_RB_OK;
}

/* --- numbers --- */

/* What arithmetic on it costs: reading many digits takes the square of their number. */
static int64_t weight(struct rf_rv n)
{
	int64_t digits = n.big ? (int64_t)n.number->text.n : 0;

	return 1 + digits / 8 + (digits / 64) * (digits / 64);
}

static enum rf_rb_result from_number(enum rf_rn_result r, struct rf_err *err)
{
	switch (r) {
	case RF_RN_OK:
		return RF_RB_OK;
	case RF_RN_DIVIDE_BY_ZERO:
		return rf_rb_fail(err, "divide by zero");
	case RF_RN_NOT_WHOLE:
		return rf_rb_operand(err, 1,
				     "must be integer number but got floating-point number");
	default:
		return RF_RB_FULL;
	}
}

FN(num_plus)
{
	if (!rf_rb_spend(e, weight(arg[0]) + weight(arg[1])))
		return RF_RB_FULL;
	return from_number(rf_rn_add(e->arena, arg[0], arg[1], ret), err);
}

FN(num_mul)
{
	if (!rf_rb_spend(e, 2 * (weight(arg[0]) + weight(arg[1]))))
		return RF_RB_FULL;
	return from_number(rf_rn_mul(e->arena, arg[0], arg[1], ret), err);
}

FN(num_div)
{
	if (!rf_rb_spend(e, weight(arg[0]) + weight(arg[1])))
		return RF_RB_FULL;
	return from_number(rf_rn_div(e->arena, arg[0], arg[1], ret), err);
}

FN(num_rem)
{
	enum rf_rn_result r;

	if (!rf_rb_spend(e, 2 * (weight(arg[0]) + weight(arg[1]))))
		return RF_RB_FULL;
	r = rf_rn_rem(e->arena, arg[0], arg[1], ret);
	if (r == RF_RN_DIVIDE_BY_ZERO)
		return rf_rb_fail(err, "modulo by zero");
	if (r == RF_RN_NOT_WHOLE)
		return rf_rb_fail(err, "modulo on floating-point number");
	return from_number(r, err);
}

#define UNARY(name, f)                                                                             \
	FN(name)                                                                                   \
	{                                                                                          \
		if (!rf_rb_spend(e, weight(arg[0])))                                               \
			return RF_RB_FULL;                                                         \
		return from_number(f(e->arena, arg[0], ret), err);                                 \
	}
UNARY(num_abs, rf_rn_abs)
UNARY(num_round, rf_rn_round)
UNARY(num_ceil, rf_rn_ceil)
UNARY(num_floor, rf_rn_floor)

static enum rf_rb_result whole(struct rf_rv v, int pos, struct rf_err *err)
{
	if (rf_rn_is_whole(v))
		return RF_RB_OK;
	return rf_rb_operand(err, pos, "must be integer number but got floating-point number");
}

static enum rf_rb_result bits(struct rf_rb_env *e, char op, struct rf_rv x, struct rf_rv y,
			      struct rf_rv *ret, struct rf_err *err)
{
	enum rf_rb_result r = whole(x, 1, err);

	if (r == RF_RB_OK)
		r = whole(y, 2, err);
	if (r != RF_RB_OK)
		return r;
	if (!rf_rb_spend(e, weight(x) + weight(y)))
		return RF_RB_FULL;
	return from_number(rf_rn_bits(e->arena, op, x, y, ret), err);
}

FN(bits_and)
{
	return bits(e, '&', arg[0], arg[1], ret, err);
}

FN(bits_or)
{
	return bits(e, '|', arg[0], arg[1], ret, err);
}

FN(bits_xor)
{
	return bits(e, '^', arg[0], arg[1], ret, err);
}

FN(bits_negate)
{
	return bits(e, '~', arg[0], rf_rv_int(0), ret, err);
}

/* A shift to the left by many bits is as much memory; what no arena would hold is not begun. */
#define MAX_SHIFT (1 << 26)

static enum rf_rb_result shift(struct rf_rb_env *e, char op, const struct rf_rv *arg,
			       struct rf_rv *ret, struct rf_err *err)
{
	int64_t by = 0;
	enum rf_rb_result r = whole(arg[0], 1, err);

	if (r == RF_RB_OK)
		r = whole(arg[1], 2, err);
	if (r != RF_RB_OK)
		return r;
	if (rf_rn_cmp(arg[1], rf_rv_int(0)) < 0)
		return rf_rb_operand(
			err, 2, "must be an unsigned integer number but got a negative integer");
	if (rf_rn_cmp(arg[0], rf_rv_int(0)) == 0) {
		*ret = rf_rv_int(0);
		return RF_RB_OK;
	}
	if (!rf_rn_int64(arg[1], &by) || by > MAX_SHIFT) {
		if (op == '<')
			return RF_RB_FULL;
		*ret = rf_rv_int(rf_rn_cmp(arg[0], rf_rv_int(0)) < 0 ? -1 : 0);
		return RF_RB_OK;
	}
	/* printing a number of that many bits is what costs: the square of its length */
	if (op == '<' && !rf_rb_spend(e, (by / 64) * (by / 64) / 8))
		return RF_RB_FULL;
	return bits(e, op, arg[0], rf_rv_int(by), ret, err);
}

FN(bits_lsh)
{
	return shift(e, '<', arg, ret, err);
}

FN(bits_rsh)
{
	return shift(e, '>', arg, ret, err);
}

/* --- numbers.range --- */

static enum rf_rb_result range_small(struct rf_rb_env *e, int64_t from, int64_t to, int64_t step,
				     struct rf_rv *ret)
{
	bool up = from <= to;
	uint64_t span = up ? (uint64_t)to - (uint64_t)from : (uint64_t)from - (uint64_t)to;
	uint64_t n = span / (uint64_t)step, by = up ? (uint64_t)step : -(uint64_t)step;
	struct rf_rv *items;

	if (n >= UINT32_MAX - 1 || !rf_rb_spend(e, (int64_t)n))
		return RF_RB_FULL;
	n++;
	items = rf_arena_try(e->arena, n * sizeof(*items));
	if (items == NULL)
		return RF_RB_FULL;
	for (uint64_t i = 0; i < n; i++)
		items[i] = rf_rv_int((int64_t)((uint64_t)from + i * by));
	*ret = rf_rv_array(items, (uint32_t)n);
	return RF_RB_OK;
}

static enum rf_rb_result range_big(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv step,
				   struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv_grow g = { 0 };
	int direction = rf_rn_cmp(arg[0], arg[1]);
	struct rf_rv at;
	enum rf_rn_result r = rf_rn_add(e->arena, arg[0], rf_rv_int(0), &at);

	while (r == RF_RN_OK) {
		int c = rf_rn_cmp(at, arg[1]);

		if (direction > 0 ? c < 0 : c > 0)
			break;
		if (!rf_rb_spend(e, 2 + weight(at)) || !rf_rv_push(&g, e->arena, at))
			return RF_RB_FULL;
		r = direction > 0 ? rf_rn_sub(e->arena, at, step, &at)
				  : rf_rn_add(e->arena, at, step, &at);
	}
	if (r != RF_RN_OK)
		return from_number(r, err);
	*ret = rf_rv_grown_array(&g);
	return RF_RB_OK;
}

static enum rf_rb_result range(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv step,
			       struct rf_rv *ret, struct rf_err *err)
{
	int64_t from, to, by;

	if (rf_rn_int64(arg[0], &from) && rf_rn_int64(arg[1], &to) && rf_rn_int64(step, &by))
		return range_small(e, from, to, by, ret);
	return range_big(e, arg, step, ret, err);
}

FN(numbers_range)
{
	enum rf_rb_result r = whole(arg[0], 1, err);

	if (r == RF_RB_OK)
		r = whole(arg[1], 2, err);
	if (r != RF_RB_OK)
		return r;
	return range(e, arg, rf_rv_int(1), ret, err);
}

FN(numbers_range_step)
{
	enum rf_rb_result r = RF_RB_OK;

	for (int i = 0; i < 3 && r == RF_RB_OK; i++)
		r = whole(arg[i], i + 1, err);
	if (r != RF_RB_OK)
		return r;
	if (rf_rn_cmp(arg[2], rf_rv_int(0)) <= 0) /* OPA names the function here itself, too */
		return rf_rb_fail(
			err,
			"numbers.range_step: numbers.range_step: step must be a positive integer");
	return range(e, arg, arg[2], ret, err);
}

/* Towards zero. (ceil will not do: OPA's is 1 for -0.4.) */
static enum rf_rn_result truncate_number(struct rf_arena *a, struct rf_rv n, struct rf_rv *ret)
{
	bool negative = rf_rn_cmp(n, rf_rv_int(0)) < 0;
	enum rf_rn_result r = RF_RN_OK;

	if (rf_rn_is_whole(n)) {
		*ret = n;
		return RF_RN_OK;
	}
	if (negative)
		r = rf_rn_abs(a, n, &n);
	if (r == RF_RN_OK)
		r = rf_rn_floor(a, n, &n);
	if (r == RF_RN_OK && negative)
		r = rf_rn_sub(a, rf_rv_int(0), n, &n);
	*ret = n;
	return r;
}

/* A fraction is cut off; the base must be written as an integer. */
FN(format_int)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_rv n;
	int64_t base = arg[1].big ? 0 : arg[1].i;
	enum rf_rn_result r;

	if (base != 2 && base != 8 && base != 10 && base != 16)
		return rf_rb_operand(err, 2, "must be one of {2, 8, 10, 16}");
	if (!rf_rb_spend(e, 2 * weight(arg[0])))
		return RF_RB_FULL;
	r = truncate_number(e->arena, arg[0], &n);
	if (r != RF_RN_OK)
		return from_number(r, err);
	if (!rf_rn_format_int(&b, n, (int)base, false) ||
	    !rf_rv_copy_str(e->arena, rf_buf_str(&b), ret))
		return RF_RB_FULL;
	return RF_RB_OK;
}

/* --- sets --- */

enum keep { KEEP_LEFT = 1, KEEP_BOTH = 2, KEEP_RIGHT = 4 };

/* Both are in order, so one walk over both is enough. */
static enum rf_rb_result merge(struct rf_rb_env *e, struct rf_rv a, struct rf_rv b, unsigned keep,
			       struct rf_rv *ret)
{
	size_t max = (size_t)a.n + b.n;
	uint32_t n = 0, i = 0, j = 0;
	struct rf_rv *items;

	if (max > UINT32_MAX || !rf_rb_spend(e, (int64_t)max))
		return RF_RB_FULL;
	items = rf_arena_try(e->arena, (max + 1) * sizeof(*items));
	if (items == NULL)
		return RF_RB_FULL;
	while (i < a.n || j < b.n) {
		int c = i == a.n ? 1 : j == b.n ? -1 : rf_rv_cmp(a.items[i], b.items[j]);

		if (keep & (c < 0 ? KEEP_LEFT : c > 0 ? KEEP_RIGHT : KEEP_BOTH))
			items[n++] = c <= 0 ? a.items[i] : b.items[j];
		i += c <= 0;
		j += c >= 0;
	}
	*ret = (struct rf_rv){ .type = RF_RV_SET, .n = n, .items = items };
	return RF_RB_OK;
}

FN(set_and)
{
	return merge(e, arg[0], arg[1], KEEP_BOTH, ret);
}

FN(set_or)
{
	return merge(e, arg[0], arg[1], KEEP_LEFT | KEEP_BOTH | KEEP_RIGHT, ret);
}

FN(set_diff)
{
	return merge(e, arg[0], arg[1], KEEP_LEFT, ret);
}

FN(num_minus)
{
	if (arg[0].type == RF_RV_SET && arg[1].type == RF_RV_SET)
		return set_diff(e, arg, ret, err);
	if (arg[0].type != RF_RV_NUMBER || arg[1].type != RF_RV_NUMBER)
		return rf_rb_operand(err, 2, "must be %s but got %s",
				     arg[1].type == RF_RV_NUMBER ? "set" : "number",
				     rf_rv_type_name(arg[1]));
	if (!rf_rb_spend(e, weight(arg[0]) + weight(arg[1])))
		return RF_RB_FULL;
	return from_number(rf_rn_sub(e->arena, arg[0], arg[1], ret), err);
}

/* --- aggregates --- */

FN(agg_count)
{
	if (arg[0].type == RF_RV_STRING && !rf_rb_spend(e, arg[0].n / 16))
		return RF_RB_FULL;
	*ret = rf_rv_int(arg[0].type == RF_RV_STRING ? (int64_t)rf_rb_runes(rf_rv_text(arg[0]))
						     : (int64_t)arg[0].n);
	return RF_RB_OK;
}

/* Where one of them is a fraction all are computed as floats. Dividing is what makes one of an integer;
 * those that fit 64 bits are exact as they are. */
static enum rf_rb_result as_float(struct rf_rb_env *e, struct rf_rv *n, struct rf_err *err)
{
	if (!n->big || !rf_rn_is_whole(*n))
		return RF_RB_OK;
	return from_number(rf_rn_div(e->arena, *n, rf_rv_int(1), n), err);
}

static enum rf_rb_result fold(struct rf_rb_env *e, struct rf_rv list, rf_rb_fn *op, int64_t start,
			      struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv pair[2] = { rf_rv_int(start) };
	bool floats = false;

	for (uint32_t i = 0; i < list.n; i++) {
		if (list.items[i].type != RF_RV_NUMBER)
			return rf_rb_element(err, 1, list, list.items[i], "number");
		floats = floats || !rf_rn_is_whole(list.items[i]);
	}
	for (uint32_t i = 0; i < list.n; i++) {
		enum rf_rb_result r = RF_RB_OK;

		pair[1] = list.items[i];
		if (floats)
			r = as_float(e, &pair[1], err);
		if (r == RF_RB_OK)
			r = op(e, pair, &pair[0], err);
		if (r == RF_RB_OK && floats)
			r = as_float(e, &pair[0], err);
		if (r != RF_RB_OK)
			return r;
	}
	*ret = pair[0];
	return RF_RB_OK;
}

FN(agg_sum)
{
	return fold(e, arg[0], num_plus, 0, ret, err);
}

FN(agg_product)
{
	return fold(e, arg[0], num_mul, 1, ret, err);
}

static enum rf_rb_result most(struct rf_rb_env *e, struct rf_rv list, int sign, struct rf_rv *ret)
{
	if (list.n == 0)
		return RF_RB_UNDEFINED;
	if (!rf_rb_spend(e, list.n))
		return RF_RB_FULL;
	*ret = list.items[0];
	for (uint32_t i = 1; i < list.n; i++)
		if (sign * rf_rv_cmp(list.items[i], *ret) >= 0)
			*ret = list.items[i];
	return RF_RB_OK;
}

FN(agg_max)
{
	return most(e, arg[0], 1, ret);
}

FN(agg_min)
{
	return most(e, arg[0], -1, ret);
}

static int by_order(const void *a, const void *b)
{
	return rf_rv_cmp(*(const struct rf_rv *)a, *(const struct rf_rv *)b);
}

FN(agg_sort)
{
	struct rf_rv list = arg[0], *items;
	int64_t log = 1;

	if (list.type == RF_RV_SET) { /* in order already */
		*ret = rf_rv_array(list.items, list.n);
		return RF_RB_OK;
	}
	while (list.n >> log > 0)
		log++;
	if (!rf_rb_spend(e, log * list.n / 2))
		return RF_RB_FULL;
	items = rf_arena_try(e->arena, ((size_t)list.n + 1) * sizeof(*items));
	if (items == NULL)
		return RF_RB_FULL;
	if (list.n > 0)
		memcpy(items, list.items, list.n * sizeof(*items));
	qsort(items, list.n, sizeof(*items), by_order);
	*ret = rf_rv_array(items, list.n);
	return RF_RB_OK;
}

static bool is_true(struct rf_rv v)
{
	return v.type == RF_RV_BOOL && v.b;
}

FN(agg_all)
{
	bool all = true;

	if (!rf_rb_spend(e, arg[0].n / 8))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < arg[0].n && all; i++)
		all = is_true(arg[0].items[i]);
	*ret = rf_rv_bool(all);
	return RF_RB_OK;
}

FN(agg_any)
{
	bool any = false;

	if (!rf_rb_spend(e, arg[0].n / 8))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < arg[0].n && !any; i++)
		any = is_true(arg[0].items[i]);
	*ret = rf_rv_bool(any);
	return RF_RB_OK;
}

/* x in xs */
FN(member_2)
{
	struct rf_rv list = arg[1];
	bool found = false;

	if (list.type == RF_RV_SET) {
		*ret = rf_rv_bool(rf_rv_has(list, arg[0]));
		return RF_RB_OK;
	}
	*ret = rf_rv_bool(false);
	if (list.type != RF_RV_ARRAY && list.type != RF_RV_OBJECT)
		return RF_RB_OK;
	if (!rf_rb_spend(e, list.n / 2))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < list.n && !found; i++)
		found = rf_rv_eq(arg[0],
				 list.type == RF_RV_ARRAY ? list.items[i] : list.pairs[i].value);
	*ret = rf_rv_bool(found);
	return RF_RB_OK;
}

/* k, v in xs */
FN(member_3)
{
	struct rf_rv got;

	*ret = rf_rv_bool(rf_rv_get(arg[2], arg[0], &got) && rf_rv_eq(got, arg[1]));
	return RF_RB_OK;
}

/* --- types and casts --- */

#define IS(name, t)                                                                                \
	FN(name)                                                                                   \
	{                                                                                          \
		*ret = rf_rv_bool(arg[0].type == (t));                                             \
		return RF_RB_OK;                                                                   \
	}
IS(is_null, RF_RV_NULL)
IS(is_boolean, RF_RV_BOOL)
IS(is_number, RF_RV_NUMBER)
IS(is_string, RF_RV_STRING)
IS(is_array, RF_RV_ARRAY)
IS(is_object, RF_RV_OBJECT)
IS(is_set, RF_RV_SET)

FN(type_name)
{
	*ret = rf_rv_str(rf_str(rf_rv_type_name(arg[0])));
	return RF_RB_OK;
}

FN(cast_same)
{
	*ret = arg[0];
	return RF_RB_OK;
}

FN(cast_array)
{
	*ret = rf_rv_array(arg[0].items, arg[0].n);
	return RF_RB_OK;
}

FN(cast_set)
{
	struct rf_rv sorted;
	enum rf_rb_result r = agg_sort(e, arg, &sorted, err);

	if (r != RF_RB_OK)
		return r;
	if (arg[0].type == RF_RV_SET) /* sort gave the set's own items */
		*ret = arg[0];
	else
		*ret = rf_rv_set((struct rf_rv *)sorted.items, sorted.n);
	return RF_RB_OK;
}

/* --- to_number --- */

#define MAX_NUMBER_TEXT 4096

struct number_text {
	char text[MAX_NUMBER_TEXT + 8]; /* as JSON has it */
	size_t n;
	bool hex;
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Digits, with Go's underscores between them left out. */
static size_t digits(struct rf_str s, size_t *at, struct number_text *t)
{
	size_t n = 0;

	for (; *at < s.n; ++*at) {
		if (s.p[*at] == '_' && n > 0 && *at + 1 < s.n && is_digit(s.p[*at + 1]))
			continue;
		if (!is_digit(s.p[*at]))
			break;
		t->text[t->n++] = s.p[*at];
		n++;
	}
	return n;
}

static bool exponent(struct rf_str s, size_t *at, struct number_text *t)
{
	if (*at == s.n || (s.p[*at] | 0x20) != 'e')
		return true;
	++*at;
	t->text[t->n++] = 'e';
	if (*at < s.n && (s.p[*at] == '+' || s.p[*at] == '-'))
		t->text[t->n++] = s.p[(*at)++];
	return digits(s, at, t) > 0;
}

/* What Go's ParseFloat takes, written as JSON would: "+.5" is 0.5, "007" is 7. */
static bool normalize(struct rf_str s, struct number_text *t)
{
	size_t at = 0, before, behind = 0, first;

	if (at < s.n && (s.p[at] == '+' || s.p[at] == '-')) {
		if (s.p[at] == '-')
			t->text[t->n++] = '-';
		at++;
	}
	if (at + 1 < s.n && s.p[at] == '0' && (s.p[at + 1] | 0x20) == 'x') {
		t->hex = true;
		return true;
	}
	first = t->n;
	before = digits(s, &at, t);
	while (t->n - first > 1 && t->text[first] == '0') {
		memmove(t->text + first, t->text + first + 1, t->n - first - 1);
		t->n--;
	}
	if (before == 0)
		t->text[t->n++] = '0';
	if (at < s.n && s.p[at] == '.') {
		size_t dot = t->n;

		at++;
		t->text[t->n++] = '.';
		behind = digits(s, &at, t);
		if (behind == 0)
			t->n = dot;
	}
	return before + behind > 0 && exponent(s, &at, t) && at == s.n;
}

static bool is_infinite_word(struct rf_str s)
{
	while (s.n > 0 && (s.p[0] == '+' || s.p[0] == '-'))
		s = rf_str_skip(s, 1);
	return rf_str_ieq(s, RF_LIT("inf")) || rf_str_ieq(s, RF_LIT("infinity")) ||
	       rf_str_ieq(s, RF_LIT("nan"));
}

static enum rf_rb_result parse_number(struct rf_rb_env *e, struct rf_str s, struct rf_rv *ret,
				      struct rf_err *err)
{
	struct number_text t = { .n = 0 };
	char copy[MAX_NUMBER_TEXT + 1], *end;
	double d;

	if (is_infinite_word(s))
		return rf_rb_operand(err, 1, "must be valid number string but got string");
	if (s.n > MAX_NUMBER_TEXT || !normalize(s, &t))
		return rf_rb_fail(err, "strconv.ParseFloat: parsing \"%.*s\": invalid syntax",
				  (int)RF_MIN(s.n, 200), s.p);
	memcpy(copy, t.hex ? s.p : t.text, t.hex ? s.n : t.n);
	copy[t.hex ? s.n : t.n] = '\0';
	d = strtod(copy, &end);
	if (*end != '\0' || end == copy || (t.hex && strpbrk(copy, "pP") == NULL))
		return rf_rb_fail(err, "strconv.ParseFloat: parsing \"%s\": invalid syntax", copy);
	if (isinf(d))
		return rf_rb_fail(err, "strconv.ParseFloat: parsing \"%.*s\": value out of range",
				  (int)RF_MIN(s.n, 200), s.p);
	if (t.hex ? !rf_rn_from_double(e->arena, d, ret)
		  : !rf_rn_parse(e->arena, rf_str_n(t.text, t.n), ret))
		return RF_RB_FULL;
	return RF_RB_OK;
}

FN(to_number)
{
	switch (arg[0].type) {
	case RF_RV_NUMBER:
		*ret = arg[0];
		return RF_RB_OK;
	case RF_RV_STRING:
		return parse_number(e, rf_rv_text(arg[0]), ret, err);
	default:
		*ret = rf_rv_int(arg[0].type == RF_RV_BOOL && arg[0].b);
		return RF_RB_OK;
	}
}

/* --- rows --- */

#define ROW1(n, f, a)                                                                              \
	{                                                                                          \
		.name = n, .n_args = 1, .arg = { a }, .fn = f                                      \
	}
#define ROW2(n, f, a, b)                                                                           \
	{                                                                                          \
		.name = n, .n_args = 2, .arg = { a, b }, .fn = f                                   \
	}
#define ROW3(n, f, a, b, c)                                                                        \
	{                                                                                          \
		.name = n, .n_args = 3, .arg = { a, b, c }, .fn = f                                \
	}
#define OLD1(n, f, a)                                                                              \
	{                                                                                          \
		.name = n, .n_args = 1, .v0_only = true, .arg = { a }, .fn = f                     \
	}

static const struct rf_rb rows[] = {
	ROW2("equal", cmp_equal, RF_RB_ANY, RF_RB_ANY),
	ROW2("neq", cmp_neq, RF_RB_ANY, RF_RB_ANY),
	ROW2("lt", cmp_lt, RF_RB_ANY, RF_RB_ANY),
	ROW2("lte", cmp_lte, RF_RB_ANY, RF_RB_ANY),
	ROW2("gt", cmp_gt, RF_RB_ANY, RF_RB_ANY),
	ROW2("gte", cmp_gte, RF_RB_ANY, RF_RB_ANY),

	ROW2("plus", num_plus, RF_RB_NUM, RF_RB_NUM),
	/* which types the second may have depends on the first */
	ROW2("minus", num_minus, RF_RB_NUM | RF_RB_SET, RF_RB_ANY),
	ROW2("mul", num_mul, RF_RB_NUM, RF_RB_NUM),
	ROW2("div", num_div, RF_RB_NUM, RF_RB_NUM),
	ROW2("rem", num_rem, RF_RB_NUM, RF_RB_NUM),
	ROW1("abs", num_abs, RF_RB_NUM),
	ROW1("round", num_round, RF_RB_NUM),
	ROW1("ceil", num_ceil, RF_RB_NUM),
	ROW1("floor", num_floor, RF_RB_NUM),

	ROW2("bits.and", bits_and, RF_RB_NUM, RF_RB_NUM),
	ROW2("bits.or", bits_or, RF_RB_NUM, RF_RB_NUM),
	ROW2("bits.xor", bits_xor, RF_RB_NUM, RF_RB_NUM),
	ROW1("bits.negate", bits_negate, RF_RB_NUM),
	ROW2("bits.lsh", bits_lsh, RF_RB_NUM, RF_RB_NUM),
	ROW2("bits.rsh", bits_rsh, RF_RB_NUM, RF_RB_NUM),

	ROW2("numbers.range", numbers_range, RF_RB_NUM, RF_RB_NUM),
	ROW3("numbers.range_step", numbers_range_step, RF_RB_NUM, RF_RB_NUM, RF_RB_NUM),
	ROW2("format_int", format_int, RF_RB_NUM, RF_RB_NUM),

	ROW2("and", set_and, RF_RB_SET, RF_RB_SET),
	ROW2("or", set_or, RF_RB_SET, RF_RB_SET),

	ROW1("count", agg_count, RF_RB_STR | RF_RB_ARR | RF_RB_OBJ | RF_RB_SET),
	ROW1("sum", agg_sum, RF_RB_LIST),
	ROW1("product", agg_product, RF_RB_LIST),
	ROW1("max", agg_max, RF_RB_LIST),
	ROW1("min", agg_min, RF_RB_LIST),
	ROW1("sort", agg_sort, RF_RB_LIST),
	OLD1("all", agg_all, RF_RB_LIST),
	OLD1("any", agg_any, RF_RB_LIST),
	ROW2("internal.member_2", member_2, RF_RB_ANY, RF_RB_ANY),
	ROW3("internal.member_3", member_3, RF_RB_ANY, RF_RB_ANY, RF_RB_ANY),

	ROW1("is_null", is_null, RF_RB_ANY),
	ROW1("is_boolean", is_boolean, RF_RB_ANY),
	ROW1("is_number", is_number, RF_RB_ANY),
	ROW1("is_string", is_string, RF_RB_ANY),
	ROW1("is_array", is_array, RF_RB_ANY),
	ROW1("is_object", is_object, RF_RB_ANY),
	ROW1("is_set", is_set, RF_RB_ANY),
	ROW1("type_name", type_name, RF_RB_ANY),

	ROW1("to_number", to_number, RF_RB_NULL | RF_RB_BOOL | RF_RB_NUM | RF_RB_STR),
	OLD1("cast_array", cast_array, RF_RB_LIST),
	OLD1("cast_set", cast_set, RF_RB_LIST),
	OLD1("cast_string", cast_same, RF_RB_STR),
	OLD1("cast_boolean", cast_same, RF_RB_BOOL),
	OLD1("cast_null", cast_same, RF_RB_NULL),
	OLD1("cast_object", cast_same, RF_RB_OBJ),
};

const struct rf_rb_rows rf_rb_core = { rows, RF_COUNT(rows) };
