/* Builtins: strings. Positions count code points; parts of a string share its memory. */
#include "policy/rego/builtin_case.h"
#include "policy/rego/builtin_private.h"
#include "policy/rego/number.h"

#define FN(name)                                                                                   \
	static enum rf_rb_result name(struct rf_rb_env *e RF_UNUSED, const struct rf_rv *arg,      \
				      struct rf_rv *ret, struct rf_err *err RF_UNUSED)

static bool spend_text(struct rf_rb_env *e, struct rf_rv s)
{
	return rf_rb_spend(e, s.n / 32);
}

/* NULL: not there. */
static const char *find(struct rf_str s, struct rf_str part)
{
	return memmem(s.p, s.n, part.p, part.n);
}

/* --- looking --- */

FN(str_contains)
{
	if (!spend_text(e, arg[0]) || !spend_text(e, arg[1]))
		return RF_RB_FULL;
	*ret = rf_rv_bool(find(rf_rv_text(arg[0]), rf_rv_text(arg[1])) != NULL);
	return RF_RB_OK;
}

FN(str_startswith)
{
	*ret = rf_rv_bool(rf_str_starts(rf_rv_text(arg[0]), rf_rv_text(arg[1])));
	return RF_RB_OK;
}

FN(str_endswith)
{
	*ret = rf_rv_bool(rf_str_ends(rf_rv_text(arg[0]), rf_rv_text(arg[1])));
	return RF_RB_OK;
}

FN(str_indexof)
{
	struct rf_str s = rf_rv_text(arg[0]);
	const char *at;

	if (arg[1].n == 0)
		return rf_rb_fail(err, "empty search character");
	if (!spend_text(e, arg[0]) || !spend_text(e, arg[1]))
		return RF_RB_FULL;
	at = find(s, rf_rv_text(arg[1]));
	*ret = rf_rv_int(at == NULL ? -1 : (int64_t)rf_rb_runes(rf_str_n(s.p, (size_t)(at - s.p))));
	return RF_RB_OK;
}

/* Every place, also those that overlap. */
FN(str_indexof_n)
{
	struct rf_str s = rf_rv_text(arg[0]), part = rf_rv_text(arg[1]);
	struct rf_rv_grow g = { 0 };
	size_t from = 0, index = 0;
	const char *at;

	if (part.n == 0)
		return rf_rb_fail(err, "empty search character");
	if (!spend_text(e, arg[0]))
		return RF_RB_FULL;
	while ((at = find(rf_str_skip(s, from), part)) != NULL) {
		size_t to = (size_t)(at - s.p);

		/* each search starts by looking at the whole part */
		if (!rf_rb_spend(e, 1 + (int64_t)part.n / 16))
			return RF_RB_FULL;
		index += rf_rb_runes(rf_str_n(s.p + from, to - from));
		if (!rf_rv_push(&g, e->arena, rf_rv_int((int64_t)index)))
			return RF_RB_FULL;
		from = to;
		rf_rb_rune(s, &from);
		index++;
	}
	*ret = rf_rv_grown_array(&g);
	return RF_RB_OK;
}

static size_t count_parts(struct rf_str s, struct rf_str part)
{
	size_t n = 0;
	const char *at;

	if (part.n == 0)
		return rf_rb_runes(s) + 1;
	while ((at = find(s, part)) != NULL) {
		s = rf_str_skip(s, (size_t)(at - s.p) + part.n);
		n++;
	}
	return n;
}

FN(str_count)
{
	if (!spend_text(e, arg[0]) || !rf_rb_spend(e, arg[0].n / 8))
		return RF_RB_FULL;
	*ret = rf_rv_int((int64_t)count_parts(rf_rv_text(arg[0]), rf_rv_text(arg[1])));
	return RF_RB_OK;
}

/* A string stands for an array of one. */
static enum rf_rb_result as_list(struct rf_rb_env *e, const struct rf_rv *v, int pos,
				 struct rf_rv *ret, struct rf_err *err)
{
	if (v->type == RF_RV_STRING) {
		*ret = rf_rv_array(v, 1);
		return RF_RB_OK;
	}
	*ret = *v;
	return rf_rb_all_strings(e, *v, pos, err);
}

static enum rf_rb_result any_match(struct rf_rb_env *e, const struct rf_rv *arg, bool suffix,
				   struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv s, part;
	enum rf_rb_result r = as_list(e, &arg[0], 1, &s, err);
	bool found = false;

	if (r == RF_RB_OK)
		r = as_list(e, &arg[1], 2, &part, err);
	if (r != RF_RB_OK)
		return r;
	for (uint32_t i = 0; i < s.n && !found; i++) {
		if (!rf_rb_spend(e, 1 + part.n / 8))
			return RF_RB_FULL;
		for (uint32_t j = 0; j < part.n && !found; j++)
			found = (suffix ? rf_str_ends : rf_str_starts)(rf_rv_text(s.items[i]),
								       rf_rv_text(part.items[j]));
	}
	*ret = rf_rv_bool(found);
	return RF_RB_OK;
}

FN(str_any_prefix)
{
	return any_match(e, arg, false, ret, err);
}

FN(str_any_suffix)
{
	return any_match(e, arg, true, ret, err);
}

/* --- parts --- */

FN(str_substring)
{
	struct rf_str s = rf_rv_text(arg[0]);
	int64_t from = 0, n = 0;
	size_t at = 0, start;
	enum rf_rb_result r = rf_rb_int(arg[1], 2, &from, err);

	if (r == RF_RB_OK)
		r = rf_rb_int(arg[2], 3, &n, err);
	if (r != RF_RB_OK)
		return r;
	if (from < 0)
		return rf_rb_fail(err, "negative offset");
	if (!rf_rb_spend(e, arg[0].n / 16))
		return RF_RB_FULL;
	for (; from > 0 && at < s.n; from--)
		rf_rb_rune(s, &at);
	start = at;
	for (; n > 0 && at < s.n; n--)
		rf_rb_rune(s, &at);
	*ret = rf_rv_str(rf_str_n(s.p + start, (n < 0 ? s.n : at) - start));
	return RF_RB_OK;
}

static enum rf_rb_result split(struct rf_rb_env *e, struct rf_rv text, struct rf_rv by,
			       struct rf_rv_grow *g)
{
	struct rf_str s = rf_rv_text(text), sep = rf_rv_text(by);
	const char *found = NULL;
	size_t n;

	if (!spend_text(e, text))
		return RF_RB_FULL;
	for (;;) {
		if (sep.n == 0) {
			if (s.n == 0)
				return RF_RB_OK;
			n = 0;
			rf_rb_rune(s, &n);
		} else {
			found = find(s, sep);
			n = found != NULL ? (size_t)(found - s.p) : s.n;
		}
		if (!rf_rb_spend(e, 1) || !rf_rv_push(g, e->arena, rf_rv_str(rf_str_n(s.p, n))))
			return RF_RB_FULL;
		if (sep.n > 0 && found == NULL)
			return RF_RB_OK;
		s = rf_str_skip(s, n + sep.n);
	}
}

FN(str_split)
{
	struct rf_rv_grow g = { 0 };
	enum rf_rb_result r = split(e, arg[0], arg[1], &g);

	if (r == RF_RB_OK)
		*ret = rf_rv_grown_array(&g);
	return r;
}

/* The first n parts; the last ones if n is negative. */
FN(str_split_n)
{
	struct rf_rv_grow g = { 0 };
	struct rf_rv all;
	int64_t n = 0;
	enum rf_rb_result r = rf_rb_int(arg[2], 3, &n, err);

	if (r == RF_RB_OK)
		r = split(e, arg[0], arg[1], &g);
	if (r != RF_RB_OK)
		return r;
	all = rf_rv_grown_array(&g);
	if (n >= 0)
		*ret = rf_rv_array(all.items, (uint32_t)RF_MIN(n, (int64_t)all.n));
	else if (n < -(int64_t)all.n)
		*ret = all;
	else
		*ret = rf_rv_array(all.items + ((int64_t)all.n + n), (uint32_t)-n);
	return RF_RB_OK;
}

/* --- trimming --- */

typedef bool is_in(uint32_t c, struct rf_str set);

static bool in_set(uint32_t c, struct rf_str set)
{
	for (size_t at = 0; at < set.n;)
		if (rf_rb_rune(set, &at) == c)
			return true;
	return false;
}

static bool is_space(uint32_t c, struct rf_str set RF_UNUSED)
{
	return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
	       (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
	       c == 0x205f || c == 0x3000;
}

/* The code point that ends at s.n; its length in *n. */
static uint32_t last_rune(struct rf_str s, size_t *n)
{
	size_t from = s.n - 1, at;
	uint32_t c;

	while (from > 0 && s.n - from < 4 && ((unsigned char)s.p[from] & 0xc0) == 0x80)
		from--;
	at = from;
	c = rf_rb_rune(s, &at);
	if (at != s.n) { /* not UTF-8: a byte by itself */
		*n = 1;
		return 0xfffd;
	}
	*n = at - from;
	return c;
}

#define LEFT 1u
#define RIGHT 2u

static enum rf_rb_result trim(struct rf_rb_env *e, struct rf_str s, is_in *in, struct rf_str set,
			      unsigned sides, struct rf_rv *ret)
{
	int64_t cost = 1 + (int64_t)set.n / 8;
	size_t n;

	while (sides & LEFT && s.n > 0) {
		n = 0;
		if (!rf_rb_spend(e, cost))
			return RF_RB_FULL;
		if (!in(rf_rb_rune(s, &n), set))
			break;
		s = rf_str_skip(s, n);
	}
	while (sides & RIGHT && s.n > 0) {
		if (!rf_rb_spend(e, cost))
			return RF_RB_FULL;
		if (!in(last_rune(s, &n), set))
			break;
		s.n -= n;
	}
	*ret = rf_rv_str(s);
	return RF_RB_OK;
}

FN(str_trim)
{
	return trim(e, rf_rv_text(arg[0]), in_set, rf_rv_text(arg[1]), LEFT | RIGHT, ret);
}

FN(str_trim_left)
{
	return trim(e, rf_rv_text(arg[0]), in_set, rf_rv_text(arg[1]), LEFT, ret);
}

FN(str_trim_right)
{
	return trim(e, rf_rv_text(arg[0]), in_set, rf_rv_text(arg[1]), RIGHT, ret);
}

FN(str_trim_space)
{
	return trim(e, rf_rv_text(arg[0]), is_space, RF_STR_EMPTY, LEFT | RIGHT, ret);
}

FN(str_trim_prefix)
{
	struct rf_str s = rf_rv_text(arg[0]), prefix = rf_rv_text(arg[1]);

	*ret = rf_rv_str(rf_str_starts(s, prefix) ? rf_str_skip(s, prefix.n) : s);
	return RF_RB_OK;
}

FN(str_trim_suffix)
{
	struct rf_str s = rf_rv_text(arg[0]), suffix = rf_rv_text(arg[1]);

	*ret = rf_rv_str(rf_str_ends(s, suffix) ? rf_str_n(s.p, s.n - suffix.n) : s);
	return RF_RB_OK;
}

/* --- making --- */

static int by_first(const void *key, const void *row)
{
	uint32_t c = *(const uint32_t *)key;
	const struct rf_case_run *r = row;

	if (c < r->first)
		return -1;
	return c > r->first + (r->n - 1u) * r->step ? 1 : 0;
}

static uint32_t in_case(uint32_t c, bool upper)
{
	const struct rf_case_run *runs = upper ? upper_runs : lower_runs, *r;
	size_t n = upper ? RF_COUNT(upper_runs) : RF_COUNT(lower_runs);

	if (c < 0x80) {
		if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
			return c ^ 0x20;
		return c;
	}
	/* what lies between the letters of a run does not change */
	r = bsearch(&c, runs, n, sizeof(*runs), by_first);
	if (r == NULL || (c - r->first) % r->step != 0)
		return c;
	return (uint32_t)((int32_t)c + r->change);
}

/* How many bytes at the beginning are ASCII and stay as they are. */
static size_t unchanged(struct rf_str s, bool upper)
{
	unsigned char from = upper ? 'a' : 'A', to = upper ? 'z' : 'Z';
	size_t i = 0;

	while (i < s.n && (unsigned char)s.p[i] < 0x80 && !((unsigned char)s.p[i] >= from && (unsigned char)s.p[i] <= to))
		i++;
	return i;
}

static enum rf_rb_result change_case(struct rf_rb_env *e, struct rf_rv v, bool upper,
				     struct rf_rv *ret)
{
	struct rf_str s = rf_rv_text(v);
	rf_auto(rb_out) o = rf_rb_out_new(e);

	if (!rf_rb_spend(e, v.n / 16))
		return RF_RB_FULL;
	if (unchanged(s, upper) == s.n) {
		*ret = v;
		return RF_RB_OK;
	}
	for (size_t at = 0; at < s.n && !o.full;)
		rf_rb_out_rune(&o, in_case(rf_rb_rune(s, &at), upper));
	return rf_rb_out_str(&o, ret);
}

FN(str_lower)
{
	return change_case(e, arg[0], false, ret);
}

FN(str_upper)
{
	return change_case(e, arg[0], true, ret);
}

FN(str_reverse)
{
	struct rf_str s = rf_rv_text(arg[0]);
	rf_auto(rb_out) o = rf_rb_out_new(e);
	size_t n;

	if (!rf_rb_spend(e, arg[0].n / 16))
		return RF_RB_FULL;
	for (; s.n > 0 && !o.full; s.n -= n) {
		last_rune(s, &n);
		rf_rb_out_add(&o, rf_str_n(s.p + s.n - n, n));
	}
	return rf_rb_out_str(&o, ret);
}

FN(str_concat)
{
	struct rf_rv list = arg[1];
	rf_auto(rb_out) o = rf_rb_out_new(e);
	enum rf_rb_result r = rf_rb_all_strings(e, list, 2, err);

	if (r != RF_RB_OK)
		return r;
	if (!rf_rb_spend(e, list.n))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < list.n && !o.full; i++) {
		if (i > 0)
			rf_rb_out_add(&o, rf_rv_text(arg[0]));
		rf_rb_out_add(&o, rf_rv_text(list.items[i]));
	}
	return rf_rb_out_str(&o, ret);
}

/* --- replacing --- */

/* What to replace by what, in the order it is tried at each place. Keys that start with the same byte
 * stand together (they are sorted), so a place looks only at those. */
struct swaps {
	const struct rf_rv_pair *pair;
	uint32_t n;
	uint32_t first[257];
	bool has_empty;
};

static void sort_swaps(struct swaps *s)
{
	uint32_t i = 0;

	s->has_empty = s->n > 0 && s->pair[0].key.n == 0;
	i = s->has_empty;
	for (unsigned c = 0; c < 256; c++) {
		s->first[c] = i;
		while (i < s->n && (unsigned char)s->pair[i].key.s[0] == c)
			i++;
	}
	s->first[256] = s->n;
}

static const struct rf_rv_pair *swap_at(struct rf_rb_env *e, const struct swaps *w, struct rf_str s)
{
	unsigned c;

	if (s.n == 0)
		return NULL;
	c = (unsigned char)s.p[0];
	for (uint32_t i = w->first[c]; i < w->first[c + 1]; i++) {
		if (!rf_rb_spend(e, 1))
			return NULL;
		if (rf_str_starts(s, rf_rv_text(w->pair[i].key)))
			return &w->pair[i];
	}
	return NULL;
}

/* As Go's strings.Replacer: from left to right, no place twice. An empty key is found before every
 * byte and at the end, and wins. */
static enum rf_rb_result replace(struct rf_rb_env *e, struct swaps *w, struct rf_str s,
				 struct rf_rv *ret)
{
	rf_auto(rb_out) o = rf_rb_out_new(e);
	bool was_empty = false;

	if (!rf_rb_spend(e, (int64_t)s.n / 8))
		return RF_RB_FULL;
	sort_swaps(w);
	for (size_t at = 0; at <= s.n && !o.full;) {
		const struct rf_rv_pair *found;
		bool empty = w->has_empty && !was_empty;

		found = empty ? &w->pair[0] : swap_at(e, w, rf_str_skip(s, at));
		was_empty = empty;
		if (found != NULL) {
			rf_rb_out_add(&o, rf_rv_text(found->value));
			at += found->key.n;
			continue;
		}
		if (at < s.n)
			rf_rb_out_c(&o, s.p[at]);
		at++;
	}
	if (*e->fuel <= 0)
		o.full = true;
	return rf_rb_out_str(&o, ret);
}

FN(str_replace)
{
	struct rf_rv_pair one = { .key = arg[1], .value = arg[2] };
	struct swaps w = { .pair = &one, .n = 1 };

	if (arg[1].n > 0) {
		if (!spend_text(e, arg[0]) || !spend_text(e, arg[1]))
			return RF_RB_FULL;
		if (find(rf_rv_text(arg[0]), rf_rv_text(arg[1])) == NULL) {
			*ret = arg[0];
			return RF_RB_OK;
		}
	}
	return replace(e, &w, rf_rv_text(arg[0]), ret);
}

FN(str_replace_n)
{
	struct swaps w = { .pair = arg[0].pairs, .n = arg[0].n };

	if (!rf_rb_spend(e, w.n))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < w.n; i++) {
		if (w.pair[i].key.type != RF_RV_STRING)
			return rf_rb_operand(err, 1, "non-string key found in pattern object");
		if (w.pair[i].value.type != RF_RV_STRING)
			return rf_rb_operand(err, 1, "non-string value found in pattern object");
	}
	return replace(e, &w, rf_rv_text(arg[1]), ret);
}

/* --- formats --- */

FN(str_sprintf)
{
	rf_auto(rb_out) o = rf_rb_out_new(e);

	rf_rb_sprintf(&o, rf_rv_text(arg[0]), arg[1].items, arg[1].n);
	return rf_rb_out_str(&o, ret);
}

FN(str_render_template)
{
	rf_auto(rb_out) o = rf_rb_out_new(e);
	enum rf_rb_result r = rf_rb_template(&o, rf_rv_text(arg[0]), arg[1], err);

	return r == RF_RB_OK ? rf_rb_out_str(&o, ret) : r;
}

/* $"...{x}...": the compiler makes each expression a set of what it gives, so that one that gives
 * nothing can be told from one that gives a value. */
FN(template_string)
{
	rf_auto(rb_out) o = rf_rb_out_new(e);
	enum rf_rb_result r = RF_RB_OK;

	for (uint32_t i = 0; i < arg[0].n && !o.full && r == RF_RB_OK; i++) {
		struct rf_rv v = arg[0].items[i];

		if (v.type != RF_RV_SET)
			rf_rb_out_value(&o, v);
		else if (v.n == 0)
			rf_rb_out_add(&o, RF_LIT("<undefined>"));
		else if (v.n == 1)
			rf_rb_out_value(&o, v.items[0]);
		else
			r = rf_rb_fail(err, "template-strings must not produce multiple outputs");
	}
	return r == RF_RB_OK ? rf_rb_out_str(&o, ret) : r;
}

/* print, trace: nobody listens. */
FN(say_nothing)
{
	*ret = rf_rv_bool(true);
	return RF_RB_OK;
}

/* --- rows --- */

#define S RF_RB_STR
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

static const struct rf_rb rows[] = {
	ROW2("concat", str_concat, S, RF_RB_LIST),
	ROW2("contains", str_contains, S, S),
	ROW2("endswith", str_endswith, S, S),
	ROW2("indexof", str_indexof, S, S),
	ROW2("indexof_n", str_indexof_n, S, S),
	ROW1("lower", str_lower, S),
	ROW3("replace", str_replace, S, S, S),
	ROW2("split", str_split, S, S),
	ROW2("sprintf", str_sprintf, S, RF_RB_ARR),
	ROW2("startswith", str_startswith, S, S),
	ROW2("strings.any_prefix_match", str_any_prefix, S | RF_RB_LIST, S | RF_RB_LIST),
	ROW2("strings.any_suffix_match", str_any_suffix, S | RF_RB_LIST, S | RF_RB_LIST),
	ROW2("strings.count", str_count, S, S),
	ROW2("strings.render_template", str_render_template, S, RF_RB_OBJ),
	ROW2("strings.replace_n", str_replace_n, RF_RB_OBJ, S),
	ROW1("strings.reverse", str_reverse, S),
	ROW3("strings.split_n", str_split_n, S, S, RF_RB_NUM),
	ROW3("substring", str_substring, S, RF_RB_NUM, RF_RB_NUM),
	ROW2("trim", str_trim, S, S),
	ROW2("trim_left", str_trim_left, S, S),
	ROW2("trim_prefix", str_trim_prefix, S, S),
	ROW2("trim_right", str_trim_right, S, S),
	ROW1("trim_space", str_trim_space, S),
	ROW2("trim_suffix", str_trim_suffix, S, S),
	ROW1("upper", str_upper, S),
	ROW1("internal.template_string", template_string, RF_RB_ARR),
	ROW1("internal.print", say_nothing, RF_RB_ARR),
	ROW1("internal.test_case", say_nothing, RF_RB_ARR),
	/* takes any number of operands: the compiler makes it internal.print */
	ROW1("print", say_nothing, RF_RB_ANY),
	ROW1("trace", say_nothing, S),
};

const struct rf_rb_rows rf_rb_strings = { rows, RF_COUNT(rows) };
