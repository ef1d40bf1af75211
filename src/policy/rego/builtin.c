/* The table of builtins, looking them up, and calling them with their operands checked. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "codec/utf8.h"
#include "policy/rego/builtin_private.h"
#include "policy/rego/number.h"

#ifdef RF_RB_PARTIAL /* tests of some files only: what is not linked has no rows */
extern const struct rf_rb_rows rf_rb_objects __attribute__((weak));
extern const struct rf_rb_rows rf_rb_encoding __attribute__((weak));
extern const struct rf_rb_rows rf_rb_world __attribute__((weak));
extern const struct rf_rb_rows rf_rb_crypto __attribute__((weak));
extern const struct rf_rb_rows rf_rb_schema __attribute__((weak));
#endif

#define MAX_ROWS 512
#define SLOTS 1024 /* twice the rows, a power of two */

static const struct rf_rb *sorted[MAX_ROWS];
static size_t n_sorted;
static const struct rf_rb *slots[SLOTS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The names are ours, so the hash needs no key. */
static size_t hash_of(struct rf_str s)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (size_t i = 0; i < s.n; i++)
		h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
	return (size_t)(h ^ h >> 32) & (SLOTS - 1);
}

static int by_name(const void *a, const void *b)
{
	const struct rf_rb *const *x = a, *const *y = b;

	return strcmp((*x)->name, (*y)->name);
}

static void add(const struct rf_rb *b)
{
	size_t at = hash_of(rf_str(b->name));

	while (slots[at] != NULL) {
		rf_assert(strcmp(slots[at]->name, b->name) != 0); /* a builtin in two files */
		at = (at + 1) & (SLOTS - 1);
	}
	rf_assert(n_sorted < MAX_ROWS);
	slots[at] = b;
	sorted[n_sorted++] = b;
}

static void collect(void)
{
	const struct rf_rb_rows *const all[] = { &rf_rb_core,	 &rf_rb_strings,  &rf_rb_regex,
						 &rf_rb_objects, &rf_rb_encoding, &rf_rb_world,
						 &rf_rb_crypto,	 &rf_rb_schema,	  &rf_rb_graphql };

	for (size_t i = 0; i < RF_COUNT(all); i++)
		for (size_t j = 0; all[i] != NULL && j < all[i]->n; j++)
			add(&all[i]->row[j]);
	qsort(sorted, n_sorted, sizeof(sorted[0]), by_name);
}

const struct rf_rb *rf_rb_find(struct rf_str name)
{
	pthread_once(&once, collect);
	for (size_t at = hash_of(name); slots[at] != NULL; at = (at + 1) & (SLOTS - 1))
		if (rf_str_is(name, slots[at]->name))
			return slots[at];
	return NULL;
}

size_t rf_rb_count(void)
{
	pthread_once(&once, collect);
	return n_sorted;
}

const struct rf_rb *rf_rb_at(size_t i)
{
	pthread_once(&once, collect);
	return i < n_sorted ? sorted[i] : NULL;
}

/* --- calling --- */

/* Where OPA names the types in another order than Rego's, or by another word. */
static const struct {
	const char *name;
	int pos; /* 0: any */
	const char *types;
} wording[] = {
	{ "count", 1, "array, object, set, string" },
	{ "sum", 1, "set, array" },
	{ "product", 1, "set, array" },
	{ "max", 1, "set, array" },
	{ "min", 1, "set, array" },
	{ "sort", 1, "set, array" },
	{ "concat", 2, "set, array" },
	{ "glob.match", 2, "array, null" },
	{ "json.filter", 2, "set, array" },
	{ "json.remove", 2, "set, array" },
	{ "object.filter", 2, "object, set, array" },
	{ "object.remove", 2, "object, set, array" },
	{ "strings.any_prefix_match", 0, "string, set, array" },
	{ "strings.any_suffix_match", 0, "string, set, array" },
	{ "bits.and", 0, "integer" },
	{ "bits.or", 0, "integer" },
	{ "bits.xor", 0, "integer" },
	{ "bits.negate", 0, "integer" },
	{ "bits.lsh", 0, "integer" },
	{ "bits.rsh", 0, "integer" },
	{ "numbers.range", 0, "integer" },
	{ "numbers.range_step", 0, "integer" },
};

static const char *types_text(const struct rf_rb *b, int pos, char *buf, size_t size)
{
	static const char *const name[] = { "null",  "boolean", "number", "string",
					    "array", "object",	"set" };
	size_t n = 0;

	for (size_t i = 0; i < RF_COUNT(wording); i++)
		if (strcmp(wording[i].name, b->name) == 0 &&
		    (wording[i].pos == 0 || wording[i].pos == pos))
			return wording[i].types;
	buf[0] = '\0';
	for (size_t i = 0; i < RF_COUNT(name); i++)
		if (b->arg[pos - 1] & 1u << i)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", n > 0 ? ", " : "",
					      name[i]);
	return buf;
}

static enum rf_rb_result wrong_type(const struct rf_rb *b, int pos, struct rf_rv got,
				    struct rf_err *err)
{
	char buf[80];
	const char *types;

	if (err == NULL)
		return RF_RB_TYPE;
	types = types_text(b, pos, buf, sizeof(buf));
	if (strchr(types, ',') != NULL)
		return rf_rb_operand(err, pos, "must be one of {%s} but got %s", types,
				     rf_rv_type_name(got));
	return rf_rb_operand(err, pos, "must be %s but got %s", types, rf_rv_type_name(got));
}

static enum rf_rb_result call(const struct rf_rb *b, struct rf_rb_env *e, const struct rf_rv *arg,
			      struct rf_rv *ret, struct rf_err *err)
{
	if (b->fn == NULL)
		return rf_rb_fail(err, "%s", b->refusal != NULL ? b->refusal : "not supported");
	if (!rf_rb_spend(e, 1))
		return RF_RB_FULL;
	for (int i = 0; i < b->n_args; i++)
		if (!(b->arg[i] & 1u << arg[i].type))
			return wrong_type(b, i + 1, arg[i], err);
	return b->fn(e, arg, ret, err);
}

enum rf_rb_result rf_rb_call(const struct rf_rb *b, struct rf_rb_env *e, const struct rf_rv *arg,
			     struct rf_rv *ret, struct rf_err *err)
{
	enum rf_rb_result r;
	size_t n;

	if (err == NULL)
		return call(b, e, arg, ret, NULL);
	err->code = RF_OK;
	err->msg[0] = '\0';
	r = call(b, e, arg, ret, err);
	n = strlen(b->name);
	if ((r == RF_RB_TYPE || r == RF_RB_ERROR) &&
	    (strncmp(err->msg, b->name, n) != 0 || err->msg[n] != ':'))
		rf_wrap(err, "%s", b->name);
	return r;
}

/* --- errors --- */

enum rf_rb_result rf_rb_fail(struct rf_err *err, const char *fmt, ...)
{
	va_list ap;

	if (err == NULL)
		return RF_RB_ERROR;
	err->code = RF_INVALID;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return RF_RB_ERROR;
}

enum rf_rb_result rf_rb_operand(struct rf_err *err, int pos, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (err == NULL)
		return RF_RB_TYPE;
	err->code = RF_INVALID;
	n = snprintf(err->msg, sizeof(err->msg), "operand %d ", pos);
	va_start(ap, fmt);
	vsnprintf(err->msg + n, sizeof(err->msg) - (size_t)n, fmt, ap);
	va_end(ap);
	return RF_RB_TYPE;
}

enum rf_rb_result rf_rb_element(struct rf_err *err, int pos, struct rf_rv list, struct rf_rv got,
				const char *wanted)
{
	const char *type = rf_rv_type_name(list);

	return rf_rb_operand(err, pos, "must be %s of %ss but got %s containing %s", type, wanted,
			     type, rf_rv_type_name(got));
}

enum rf_rb_result rf_rb_int(struct rf_rv v, int pos, int64_t *ret, struct rf_err *err)
{
	if (!rf_rn_written_int(v, ret))
		return rf_rb_operand(err, pos,
				     "must be integer number but got floating-point number");
	return RF_RB_OK;
}

enum rf_rb_result rf_rb_all_strings(struct rf_rb_env *e, struct rf_rv list, int pos,
				    struct rf_err *err)
{
	if (!rf_rb_spend(e, list.n / 8))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < list.n; i++)
		if (list.items[i].type != RF_RV_STRING)
			return rf_rb_element(err, pos, list, list.items[i], "string");
	return RF_RB_OK;
}

/* --- text --- */

struct rf_rb_out rf_rb_out_new(struct rf_rb_env *e)
{
	size_t max = (size_t)256 << 20;

	if (e->arena->cap > 0)
		max = e->arena->cap - RF_MIN(e->arena->used, e->arena->cap);
	return (struct rf_rb_out){ .e = e, .b = RF_BUF_INIT, .max = RF_MIN(max, UINT32_MAX) };
}

void rf_rb_out_done(struct rf_rb_out *o)
{
	rf_buf_done(&o->b);
}

static bool room(struct rf_rb_out *o, size_t more)
{
	if (!o->full && (more > o->max - o->b.n || !rf_rb_spend(o->e, (int64_t)more / 64)))
		o->full = true;
	return !o->full;
}

void rf_rb_out_add(struct rf_rb_out *o, struct rf_str s)
{
	if (room(o, s.n))
		rf_buf_add(&o->b, s);
}

void rf_rb_out_c(struct rf_rb_out *o, char c)
{
	if (room(o, 1))
		rf_buf_add_c(&o->b, c);
}

void rf_rb_out_fill(struct rf_rb_out *o, char c, size_t n)
{
	if (!room(o, n))
		return;
	rf_buf_reserve(&o->b, n);
	while (n-- > 0)
		rf_buf_add_c(&o->b, c);
}

void rf_rb_out_rune(struct rf_rb_out *o, uint32_t c)
{
	char buf[4];

	if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
		c = 0xfffd;
	rf_rb_out_add(o, rf_str_n(buf, rf_utf8_put(buf, c)));
}

/* No less than the bytes s prints to, and hardly more. */
static size_t weigh_string(struct rf_str s)
{
	size_t n = s.n + 2;

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		n += c < 0x20 || c == 0x7f ? 5 : c == '"' || c == '\\' ? 1 : c >= 0x80 ? 2 : 0;
	}
	return n;
}

/* The same for any value. No work that is not paid for; past `max` it stops, and says less. */
static size_t weigh(struct rf_rb_env *e, struct rf_rv v, size_t max)
{
	size_t n = 2;

	if (!rf_rb_spend(e, 1 + (v.type == RF_RV_STRING ? v.n / 16 : 0)))
		return SIZE_MAX / 4;
	switch (v.type) {
	case RF_RV_NUMBER:
		return v.big ? v.number->text.n : (size_t)snprintf(NULL, 0, "%lld", (long long)v.i);
	case RF_RV_STRING:
		return weigh_string(rf_rv_text(v));
	case RF_RV_ARRAY:
	case RF_RV_SET:
		for (uint32_t i = 0; i < v.n && n <= max; i++)
			n += weigh(e, v.items[i], max) + 2;
		return v.n == 0 ? 5 : n; /* set() */
	case RF_RV_OBJECT:
		for (uint32_t i = 0; i < v.n && n <= max; i++)
			n += weigh(e, v.pairs[i].key, max) + weigh(e, v.pairs[i].value, max) + 4;
		return n;
	default:
		return 5;
	}
}

void rf_rb_out_value(struct rf_rb_out *o, struct rf_rv v)
{
	if (v.type == RF_RV_STRING) {
		rf_rb_out_add(o, rf_rv_text(v));
		return;
	}
	if (!o->full && (weigh(o->e, v, o->max) > o->max - o->b.n || *o->e->fuel <= 0))
		o->full = true;
	if (!o->full)
		rf_rv_print(&o->b, v);
	if (o->b.n > o->max)
		o->full = true;
}

enum rf_rb_result rf_rb_out_str(struct rf_rb_out *o, struct rf_rv *ret)
{
	if (o->full || !rf_rv_copy_str(o->e->arena, rf_buf_str(&o->b), ret))
		return RF_RB_FULL;
	return RF_RB_OK;
}

uint32_t rf_rb_rune(struct rf_str s, size_t *at)
{
	const unsigned char *u = (const unsigned char *)s.p + *at;
	size_t n = rf_utf8_char(s.p + *at, s.n - *at);

	*at += n > 0 ? n : 1;
	switch (n) {
	case 1:
		return u[0];
	case 2:
		return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
	case 3:
		return (u[0] & 0x0fu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
	case 4:
		return (u[0] & 0x07u) << 18 | (u[1] & 0x3fu) << 12 | (u[2] & 0x3fu) << 6 |
		       (u[3] & 0x3fu);
	default:
		return 0xfffd;
	}
}

size_t rf_rb_runes(struct rf_str s)
{
	size_t n = 0;

	for (size_t at = 0; at < s.n; n++)
		rf_rb_rune(s, &at);
	return n;
}
