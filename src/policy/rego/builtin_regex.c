/* Builtins: regex.* and glob.* */
#include "policy/rego/builtin_private.h"
#include "policy/rego/regex.h"

#define FN(name)                                                                                   \
	static enum rf_rb_result name(struct rf_rb_env *e, const struct rf_rv *arg,                \
				      struct rf_rv *ret, struct rf_err *err)

static inline void regex_put(struct rf_regex **r)
{
	rf_regex_put(*r);
}
#define auto_regex __attribute__((cleanup(regex_put))) struct rf_regex *

/* Compiling is dear, most of all for patterns that turn out too large; one that is in the cache is
 * almost free. (So the same evaluation may take fewer steps the second time.) */
#define TOO_LARGE_COST 400000

static enum rf_rb_result pattern(struct rf_rb_env *e, struct rf_str p, struct rf_regex **ret,
				 struct rf_err *err)
{
	char why[RF_ERR_MAX / 2];
	bool compiled;
	struct rf_regex *r = rf_regex_get(p.p, p.n, &compiled, why, sizeof(why));
	int64_t cost = 1 + (int64_t)p.n / 32;

	if (compiled)
		cost += 100 + 4 * (int64_t)p.n;
	if (compiled && r != NULL)
		cost += 8 * (int64_t)rf_regex_size(r);
	if (compiled && r == NULL && strstr(why, "too large") != NULL)
		cost += TOO_LARGE_COST;
	if (!rf_rb_spend(e, cost)) {
		rf_regex_put(r);
		return RF_RB_FULL;
	}
	if (r == NULL)
		return rf_rb_fail(err, "%s", why);
	*ret = r;
	return RF_RB_OK;
}

/* Linear in the text; how fast depends on how many places of the pattern are tried at once. */
static bool pay(struct rf_rb_env *e, const struct rf_regex *r, size_t bytes)
{
	return rf_rb_spend(e, 1 + (int64_t)bytes * (4 + (int64_t)rf_regex_size(r)) / 32);
}

FN(regex_match)
{
	auto_regex r = NULL;
	enum rf_rb_result res = pattern(e, rf_rv_text(arg[0]), &r, err);

	if (res != RF_RB_OK)
		return res;
	if (!pay(e, r, arg[1].n))
		return RF_RB_FULL;
	*ret = rf_rv_bool(rf_regex_find(r, arg[1].s, arg[1].n, 0, NULL, 0));
	return RF_RB_OK;
}

FN(regex_is_valid)
{
	auto_regex r = NULL;
	enum rf_rb_result res = RF_RB_ERROR;

	if (arg[0].type == RF_RV_STRING)
		res = pattern(e, rf_rv_text(arg[0]), &r, err);
	*ret = rf_rv_bool(res == RF_RB_OK);
	return res == RF_RB_FULL ? res : RF_RB_OK;
}

/* --- all matches --- */

struct search {
	struct rf_rb_env *e;
	const struct rf_regex *r;
	struct rf_str s;
	size_t at;
	bool any; /* there was a match; it ended at last_end */
	size_t last_end;
	struct rf_regex_part *part;
	size_t n_part;
	bool full;
};

static enum rf_rb_result search_init(struct search *s, struct rf_rb_env *e,
				     const struct rf_regex *r, struct rf_str text, bool groups)
{
	*s = (struct search){ .e = e, .r = r, .s = text };
	s->n_part = 1 + (groups ? rf_regex_groups(r) : 0);
	s->part = rf_arena_try(e->arena, s->n_part * sizeof(*s->part));
	return s->part != NULL ? RF_RB_OK : RF_RB_FULL;
}

/* The next one as Go counts them: an empty match right behind another is none. */
static bool next(struct search *s)
{
	while (s->at <= s->s.n) {
		size_t from, to;
		bool accept = true;

		/* a search may look at the whole rest before it settles for a short match */
		if (!rf_rb_spend(s->e, (int64_t)((s->s.n - s->at) / 32 + s->n_part / 8)))
			s->full = true;
		if (s->full || !rf_regex_find(s->r, s->s.p, s->s.n, s->at, s->part, s->n_part))
			return false;
		from = (size_t)(s->part[0].p - s->s.p);
		to = from + s->part[0].n;
		if (!pay(s->e, s->r, to - s->at)) {
			s->full = true;
			return false;
		}
		if (to == s->at) {
			accept = !s->any || from != s->last_end;
			if (s->at < s->s.n)
				rf_rb_rune(s->s, &s->at);
			else
				s->at++;
		} else {
			s->at = to;
		}
		s->any = true;
		s->last_end = to;
		if (accept)
			return true;
	}
	return false;
}

static struct rf_rv part_value(const struct rf_regex_part *p)
{
	return rf_rv_str(p->p != NULL ? rf_str_n(p->p, p->n) : RF_STR_EMPTY);
}

static bool part_array(struct search *s, struct rf_rv *ret)
{
	struct rf_rv *items = rf_arena_try(s->e->arena, s->n_part * sizeof(*items));

	if (items == NULL)
		return false;
	for (size_t i = 0; i < s->n_part; i++)
		items[i] = part_value(&s->part[i]);
	*ret = rf_rv_array(items, (uint32_t)s->n_part);
	return true;
}

static enum rf_rb_result find_all(struct rf_rb_env *e, const struct rf_rv *arg, bool groups,
				  struct rf_rv *ret, struct rf_err *err)
{
	auto_regex r = NULL;
	struct rf_rv_grow g = { 0 };
	struct search s;
	struct rf_rv v;
	int64_t n = 0;
	enum rf_rb_result res = rf_rb_int(arg[2], 3, &n, err);

	if (res == RF_RB_OK)
		res = pattern(e, rf_rv_text(arg[0]), &r, err);
	if (res == RF_RB_OK)
		res = search_init(&s, e, r, rf_rv_text(arg[1]), groups);
	if (res != RF_RB_OK)
		return res;
	while ((n < 0 || g.n < n) && next(&s)) {
		v = part_value(&s.part[0]);
		if ((groups && !part_array(&s, &v)) || !rf_rv_push(&g, e->arena, v))
			return RF_RB_FULL;
	}
	*ret = rf_rv_grown_array(&g);
	return s.full ? RF_RB_FULL : RF_RB_OK;
}

FN(regex_find_n)
{
	return find_all(e, arg, false, ret, err);
}

FN(regex_find_groups)
{
	return find_all(e, arg, true, ret, err);
}

FN(regex_split)
{
	auto_regex r = NULL;
	struct rf_str text = rf_rv_text(arg[1]);
	struct rf_rv_grow g = { 0 };
	size_t begin = 0, end = 0;
	struct search s;
	enum rf_rb_result res = pattern(e, rf_rv_text(arg[0]), &r, err);

	if (res == RF_RB_OK)
		res = search_init(&s, e, r, text, false);
	if (res != RF_RB_OK)
		return res;
	if (arg[0].n > 0 && text.n == 0) {
		struct rf_rv *one = rf_arena_try(e->arena, sizeof(*one));

		if (!one)
			return RF_RB_FULL;
		*one = arg[1];
		*ret = rf_rv_array(one, 1);
		return RF_RB_OK;
	}
	while (next(&s)) {
		end = (size_t)(s.part[0].p - text.p);
		if (end + s.part[0].n != 0 &&
		    !rf_rv_push(&g, e->arena, rf_rv_str(rf_str_n(text.p + begin, end - begin))))
			return RF_RB_FULL;
		begin = end + s.part[0].n;
	}
	if (s.full ||
	    (end != text.n && !rf_rv_push(&g, e->arena, rf_rv_str(rf_str_skip(text, begin)))))
		return RF_RB_FULL;
	*ret = rf_rv_grown_array(&g);
	return RF_RB_OK;
}

/* --- replace --- */

static bool is_name_char(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '_' ||
	       (unsigned char)c >= 0x80;
}

/* The group's number; -1: there is none of that name. */
static int64_t group_of(const struct rf_regex *r, struct rf_str name)
{
	int64_t n = 0;
	size_t i;

	for (i = 0; i < name.n && name.p[i] >= '0' && name.p[i] <= '9' && n < 100000000; i++)
		n = n * 10 + (name.p[i] - '0');
	if (i == name.n && (name.p[0] != '0' || name.n == 1))
		return n;
	return rf_regex_group_named(r, name.p, name.n);
}

/* What stands behind a $: name or {name}. False: the $ is only a $. */
static bool reference(struct rf_str *rest, struct rf_str *name)
{
	struct rf_str s = *rest;
	bool brace = s.n > 0 && s.p[0] == '{';
	size_t n = 0;

	s = rf_str_skip(s, brace);
	while (n < s.n && is_name_char(s.p[n]))
		n++;
	if (n == 0 || (brace && (n == s.n || s.p[n] != '}')))
		return false;
	*name = rf_str_n(s.p, n);
	*rest = rf_str_skip(s, n + brace);
	return true;
}

static void expand(struct rf_rb_out *o, const struct search *s, struct rf_str with)
{
	while (with.n > 0 && !o->full) {
		const char *dollar = memchr(with.p, '$', with.n);
		size_t n = dollar != NULL ? (size_t)(dollar - with.p) : with.n;
		struct rf_str name;
		int64_t group;

		rf_rb_out_add(o, rf_str_n(with.p, n));
		with = rf_str_skip(with, n + 1);
		if (dollar == NULL)
			return;
		if (with.n > 0 && with.p[0] == '$') {
			rf_rb_out_c(o, '$');
			with = rf_str_skip(with, 1);
			continue;
		}
		if (!reference(&with, &name)) {
			rf_rb_out_c(o, '$');
			continue;
		}
		group = group_of(s->r, name);
		if (group >= 0 && (size_t)group < s->n_part && s->part[group].p != NULL)
			rf_rb_out_add(o, rf_str_n(s->part[group].p, s->part[group].n));
		if (!rf_rb_spend(o->e, 1))
			o->full = true;
	}
}

FN(regex_replace)
{
	auto_regex r = NULL;
	rf_auto(rb_out) o = rf_rb_out_new(e);
	struct rf_str text = rf_rv_text(arg[0]);
	size_t begin = 0;
	struct search s;
	enum rf_rb_result res = pattern(e, rf_rv_text(arg[1]), &r, err);

	if (res == RF_RB_OK)
		res = search_init(&s, e, r, text, true);
	if (res != RF_RB_OK)
		return res;
	while (!o.full && next(&s)) {
		size_t from = (size_t)(s.part[0].p - text.p);

		rf_rb_out_add(&o, rf_str_n(text.p + begin, from - begin));
		expand(&o, &s, rf_rv_text(arg[2]));
		begin = from + s.part[0].n;
	}
	if (s.full)
		return RF_RB_FULL;
	rf_rb_out_add(&o, rf_str_skip(text, begin));
	return rf_rb_out_str(&o, ret);
}

/* --- templates: text with patterns in delimiters --- */

static void add_quoted(struct rf_buf *b, struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] != '\0' && strchr("\\.+*?()|[]{}^$", s.p[i]) != NULL)
			rf_buf_add_c(b, '\\');
		rf_buf_add_c(b, s.p[i]);
	}
}

/* One pattern of a template must be good by itself: "a)(b" is not. */
static enum rf_rb_result check_part(struct rf_rb_env *e, struct rf_str part, struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;
	auto_regex r = NULL;

	rf_buf_add_c(&b, '^');
	rf_buf_add(&b, part);
	rf_buf_add_c(&b, '$');
	return pattern(e, rf_buf_str(&b), &r, err);
}

static enum rf_rb_result unbalanced(struct rf_str t, struct rf_err *err)
{
	return rf_rb_fail(err, "unbalanced braces in \"%.*s\"", (int)RF_MIN(t.n, 300), t.p);
}

static enum rf_rb_result template_pattern(struct rf_rb_env *e, struct rf_str t, char open,
					  char close, struct rf_buf *b, struct rf_err *err)
{
	size_t level = 0, begin = 0, end = 0;

	rf_buf_add_c(b, '^');
	for (size_t i = 0; i < t.n; i++) {
		enum rf_rb_result res;
		struct rf_str part;

		if (t.p[i] == open) {
			if (level++ == 0)
				begin = i;
			continue;
		}
		if (t.p[i] != close)
			continue;
		if (level == 0)
			return unbalanced(t, err);
		if (--level > 0)
			continue;
		part = rf_str_n(t.p + begin + 1, i - begin - 1);
		res = check_part(e, part, err);
		if (res != RF_RB_OK)
			return res;
		add_quoted(b, rf_str_n(t.p + end, begin - end));
		rf_buf_add_c(b, '(');
		rf_buf_add(b, part);
		rf_buf_add_c(b, ')');
		end = i + 1;
	}
	if (level != 0)
		return unbalanced(t, err);
	add_quoted(b, rf_str_skip(t, end));
	rf_buf_add_c(b, '$');
	return RF_RB_OK;
}

FN(regex_template_match)
{
	rf_auto(buf) b = RF_BUF_INIT;
	auto_regex r = NULL;
	enum rf_rb_result res;

	if (arg[2].n != 1)
		return rf_rb_fail(
			err, "start delimiter has to be exactly one character long but is %u long",
			arg[2].n);
	if (arg[3].n != 1) /* OPA tells the length of the other one */
		return rf_rb_fail(
			err, "end delimiter has to be exactly one character long but is %u long",
			arg[2].n);
	if (arg[0].n > RF_REGEX_PATTERN_MAX)
		return rf_rb_fail(err, "error parsing regexp: expression too large");
	res = template_pattern(e, rf_rv_text(arg[0]), arg[2].s[0], arg[3].s[0], &b, err);
	if (res == RF_RB_OK)
		res = pattern(e, rf_buf_str(&b), &r, err);
	if (res != RF_RB_OK)
		return res;
	if (!pay(e, r, arg[1].n))
		return RF_RB_FULL;
	*ret = rf_rv_bool(rf_regex_find(r, arg[1].s, arg[1].n, 0, NULL, 0));
	return RF_RB_OK;
}

/* --- globs --- */

FN(regex_globs_match)
{
	bool meet = false;
	enum rf_rb_result res =
		rf_rb_globs_meet(e, rf_rv_text(arg[0]), rf_rv_text(arg[1]), &meet, err);

	*ret = rf_rv_bool(meet);
	return res;
}

/* null: no delimiters; an empty array: the point. */
static enum rf_rb_result delimiters(struct rf_rb_env *e, struct rf_rv v, uint32_t **ret, size_t *n,
				    struct rf_err *err)
{
	*n = v.type == RF_RV_NULL ? 0 : RF_MAX(v.n, 1u);
	*ret = rf_arena_try(e->arena, (*n + 1) * sizeof(**ret));
	if (*ret == NULL || !rf_rb_spend(e, (int64_t)*n))
		return RF_RB_FULL;
	(*ret)[0] = '.';
	for (uint32_t i = 0; v.type == RF_RV_ARRAY && i < v.n; i++) {
		size_t at = 0;

		if (v.items[i].type != RF_RV_STRING)
			return rf_rb_element(err, 2, v, v.items[i], "string");
		if (v.items[i].n > 0)
			(*ret)[i] = rf_rb_rune(rf_rv_text(v.items[i]), &at);
		if (at == 0 || at != v.items[i].n)
			return rf_rb_element(err, 2, v, v.items[i], "rune");
	}
	return RF_RB_OK;
}

FN(glob_match)
{
	uint32_t *separator = NULL;
	size_t n = 0;
	bool matched = false;
	enum rf_rb_result res = delimiters(e, arg[1], &separator, &n, err);

	if (res == RF_RB_OK)
		res = rf_rb_glob(e, rf_rv_text(arg[0]), separator, n, rf_rv_text(arg[2]), &matched,
				 err);
	*ret = rf_rv_bool(matched);
	return res;
}

FN(glob_quote_meta)
{
	rf_auto(rb_out) o = rf_rb_out_new(e);

	if (!rf_rb_spend(e, arg[0].n / 16))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < arg[0].n && !o.full; i++) {
		if (arg[0].s[i] != '\0' && strchr("*?\\[]{}", arg[0].s[i]) != NULL)
			rf_rb_out_c(&o, '\\');
		rf_rb_out_c(&o, arg[0].s[i]);
	}
	(void)err;
	return rf_rb_out_str(&o, ret);
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
	ROW2("regex.match", regex_match, S, S),
	{ .name = "re_match", .n_args = 2, .v0_only = true, .arg = { S, S }, .fn = regex_match },
	ROW1("regex.is_valid", regex_is_valid, RF_RB_ANY), /* what is no string is not valid */
	ROW3("regex.find_n", regex_find_n, S, S, RF_RB_NUM),
	ROW3("regex.find_all_string_submatch_n", regex_find_groups, S, S, RF_RB_NUM),
	ROW2("regex.split", regex_split, S, S),
	ROW3("regex.replace", regex_replace, S, S, S),
	{ .name = "regex.template_match",
	  .n_args = 4,
	  .arg = { S, S, S, S },
	  .fn = regex_template_match },
	ROW2("regex.globs_match", regex_globs_match, S, S),
	ROW3("glob.match", glob_match, S, RF_RB_NULL | RF_RB_ARR, S),
	ROW1("glob.quote_meta", glob_quote_meta, S),
};

const struct rf_rb_rows rf_rb_regex = { rows, RF_COUNT(rows) };
