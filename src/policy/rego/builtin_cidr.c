/* net.cidr_*: address blocks as Go's net package reads and prints them. */
#include "policy/rego/builtin_util.h"

#include <stdio.h>

/* IPv4 is the last four bytes behind ::ffff:, as in Go; `bits` counts from the start of all 16. */
struct block {
	unsigned __int128 first;
	int bits;
};

#define V4_PREFIX ((unsigned __int128)0xffff << 32)

static bool is_v4(unsigned __int128 ip)
{
	return ip >> 32 == 0xffff;
}

static unsigned __int128 host_mask(int bits)
{
	return bits == 0 ? ~(unsigned __int128)0 : ((unsigned __int128)1 << (128 - bits)) - 1;
}

static unsigned __int128 last_of(struct block b)
{
	return b.first | host_mask(b.bits);
}

/* --- text --- */

/* 1.2.3.4, no leading zeros */
static bool read_v4(struct rf_str s, uint32_t *ret)
{
	uint32_t ip = 0;

	for (int i = 0; i < 4; i++) {
		struct rf_str part;
		uint32_t v = 0;

		if (rf_str_cut(&s, '.', &part) != (i < 3))
			return false;
		if (part.n == 0 || part.n > 3 || (part.n > 1 && part.p[0] == '0'))
			return false;
		for (size_t j = 0; j < part.n; j++) {
			if (part.p[j] < '0' || part.p[j] > '9')
				return false;
			v = v * 10 + (uint32_t)(part.p[j] - '0');
		}
		if (v > 255)
			return false;
		ip = ip << 8 | v;
	}
	*ret = ip;
	return true;
}

static bool read_group(struct rf_str *s, uint16_t *ret)
{
	uint32_t v = 0;
	size_t n = 0;

	for (; n < s->n && n < 5; n++) {
		char c = s->p[n];
		int d = c >= '0' && c <= '9' ? c - '0' :
			(c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 :
								 -1;

		if (d < 0)
			break;
		v = v << 4 | (uint32_t)d;
	}
	*s = rf_str_skip(*s, n);
	*ret = (uint16_t)v;
	return n > 0 && n <= 4;
}

static bool read_v6(struct rf_str s, unsigned __int128 *ret)
{
	uint16_t group[8] = { 0 };
	int n = 0, gap = -1;
	uint32_t v4;

	if (rf_str_starts(s, RF_LIT("::"))) {
		gap = 0;
		s = rf_str_skip(s, 2);
	}
	while (s.n > 0 && n < 8) {
		if (n <= 6 && (n == 6 || gap >= 0) && read_v4(s, &v4)) {
			group[n++] = (uint16_t)(v4 >> 16);
			group[n++] = (uint16_t)v4;
			s.n = 0;
			break;
		}
		if (!read_group(&s, &group[n++]))
			return false;
		if (s.n == 0)
			break;
		if (s.p[0] != ':' || s.n == 1)
			return false;
		s = rf_str_skip(s, 1);
		if (s.p[0] != ':')
			continue;
		if (gap >= 0)
			return false;
		gap = n;
		s = rf_str_skip(s, 1);
	}
	if (s.n > 0 || (gap < 0) != (n == 8))
		return false;
	*ret = 0;
	for (int i = 0; i < 8; i++) {
		int tail = 8 - (n - gap); /* groups behind the gap move to the end */
		uint16_t g = gap < 0 || i < gap ? group[i] : i < tail ? 0 : group[gap + i - tail];

		*ret = *ret << 16 | g;
	}
	return true;
}

/* *ret_v6: written as IPv6, though it may be a mapped IPv4 address. */
static bool read_ip(struct rf_str s, unsigned __int128 *ret, bool *ret_v6)
{
	uint32_t v4;

	*ret_v6 = s.n > 0 && memchr(s.p, ':', s.n) != NULL;
	if (*ret_v6)
		return read_v6(s, ret);
	if (!read_v4(s, &v4))
		return false;
	*ret = V4_PREFIX | v4;
	return true;
}

static bool read_block(struct rf_str s, struct block *ret)
{
	struct rf_str rest = s, ip;
	int64_t bits = 0;
	bool v6;

	if (!rf_str_cut(&rest, '/', &ip) || !read_ip(ip, &ret->first, &v6))
		return false;
	if (rest.n == 0 || rest.n > 6)
		return false;
	for (size_t i = 0; i < rest.n; i++) {
		if (rest.p[i] < '0' || rest.p[i] > '9')
			return false;
		bits = bits * 10 + (rest.p[i] - '0');
	}
	if (bits > (v6 ? 128 : 32))
		return false;
	ret->bits = (int)bits + (v6 ? 0 : 96);
	ret->first &= ~host_mask(ret->bits);
	return true;
}

static enum rf_rb_result want_block(struct rf_str s, struct block *ret, struct rf_err *err)
{
	if (read_block(s, ret))
		return RF_RB_OK;
	return rb_error(err, "invalid CIDR address: %.*s", (int)RF_MIN(s.n, 200), s.p);
}

static size_t print_v6(unsigned __int128 ip, char *out, size_t size)
{
	uint16_t group[8];
	int gap = -1, gap_n = 1, n = 0;

	for (int i = 0; i < 8; i++)
		group[i] = (uint16_t)(ip >> (112 - 16 * i));
	/* the first of the longest runs of zeros, of two at least, is left out */
	for (int i = 0; i < 8; i++) {
		int run = 0;

		while (i + run < 8 && group[i + run] == 0)
			run++;
		if (run > gap_n) {
			gap = i;
			gap_n = run;
		}
	}
	for (int i = 0; i < 8; i++) {
		if (i == gap) {
			n += snprintf(out + n, size - (size_t)n, "::");
			i += gap_n - 1;
			continue;
		}
		n += snprintf(out + n, size - (size_t)n, "%s%x", i > 0 && i != gap + gap_n ? ":" : "",
			      group[i]);
	}
	return (size_t)n;
}

static size_t print_ip(unsigned __int128 ip, char *out, size_t size)
{
	uint32_t v = (uint32_t)ip;

	if (!is_v4(ip))
		return print_v6(ip, out, size);
	return (size_t)snprintf(out, size, "%u.%u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255, v & 255);
}

static bool push_block(struct rf_rv_grow *g, struct rf_rb_env *e, struct block b)
{
	char text[64];
	size_t n = print_ip(b.first, text, sizeof(text));
	bool v4 = is_v4(b.first) && b.bits >= 96;
	struct rf_rv v;

	n += (size_t)snprintf(text + n, sizeof(text) - n, "/%d", v4 ? b.bits - 96 : b.bits);
	return rb_string(e, rf_str_n(text, n), &v) == RF_RB_OK && rf_rv_push(g, e->arena, v);
}

/* --- questions --- */

/* IPv4 and IPv6 do not contain each other, ::/0 and 0.0.0.0 included. */
static bool same_family(struct block b, unsigned __int128 ip)
{
	return (is_v4(b.first) && b.bits >= 96) == is_v4(ip);
}

static bool has_ip(struct block b, unsigned __int128 ip)
{
	return same_family(b, ip) && (ip & ~host_mask(b.bits)) == b.first;
}

static enum rf_rb_result contains(struct rf_str a, struct rf_str b, bool *ret, struct rf_err *err)
{
	unsigned __int128 ip;
	struct block x, y;
	bool v6;

	RB_TRY(want_block(a, &x, err));
	if (read_ip(b, &ip, &v6)) {
		*ret = has_ip(x, ip);
		return RF_RB_OK;
	}
	if (!read_block(b, &y))
		return rb_error(err, "not a valid textual representation of an IP address or CIDR: %.*s",
				(int)RF_MIN(b.n, 200), b.p);
	if (!is_v4(x.first) && !is_v4(y.first)) /* ::/80 ends with an address that, alone, would be one of IPv4 */
		*ret = x.bits <= y.bits && (y.first & ~host_mask(x.bits)) == x.first;
	else
		*ret = has_ip(x, y.first) && has_ip(x, last_of(y));
	return RF_RB_OK;
}

enum rf_rb_result rb_cidr_contains(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	bool in;

	(void)e;
	RB_TRY(contains(rf_rv_text(arg[0]), rf_rv_text(arg[1]), &in, err));
	*ret = rf_rv_bool(in);
	return RF_RB_OK;
}

enum rf_rb_result rb_cidr_intersects(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct block a, b;

	(void)e;
	RB_TRY(want_block(rf_rv_text(arg[0]), &a, err));
	RB_TRY(want_block(rf_rv_text(arg[1]), &b, err));
	*ret = rf_rv_bool(has_ip(a, b.first) || has_ip(b, a.first));
	return RF_RB_OK;
}

enum rf_rb_result rb_cidr_is_valid(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct block b;

	(void)e;
	(void)err;
	*ret = rf_rv_bool(arg[0].type == RF_RV_STRING && read_block(rf_rv_text(arg[0]), &b));
	return RF_RB_OK;
}

enum rf_rb_result rb_cidr_expand(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				 struct rf_err *err)
{
	struct rf_rv_grow out = { 0 };
	struct block b;
	uint64_t n;

	RB_TRY(want_block(rf_rv_text(arg[0]), &b, err));
	if (b.bits < 128 - 31)
		return RF_RB_FULL;
	n = UINT64_C(1) << (128 - b.bits);
	for (uint64_t i = 0; i < n; i++) {
		char text[64];
		struct rf_rv v;

		if (!rf_rb_spend(e, 1) ||
		    !rf_rv_copy_str(e->arena, rf_str_n(text, print_ip(b.first + i, text, sizeof(text))),
				    &v) ||
		    !rf_rv_push(&out, e->arena, v))
			return RF_RB_FULL;
	}
	*ret = rf_rv_set(out.items, out.n);
	return RF_RB_OK;
}

/* --- net.cidr_contains_matches --- */

/* The i-th address of an operand and what stands for it in the answer. */
static enum rf_rb_result match_term(struct rf_rv v, uint32_t i, int pos, struct rf_rv *ret_cidr,
				    struct rf_rv *ret_index, struct rf_err *err)
{
	struct rf_rv cidr = v.type == RF_RV_STRING ? v :
			    v.type == RF_RV_OBJECT ? v.pairs[i].value :
						     v.items[i];

	*ret_index = v.type == RF_RV_ARRAY  ? rf_rv_int(i) :
		     v.type == RF_RV_OBJECT ? v.pairs[i].key :
					      cidr;
	*ret_cidr = cidr;
	if (v.type != RF_RV_STRING && cidr.type == RF_RV_ARRAY && cidr.n > 0)
		*ret_cidr = cidr.items[0]; /* of any type, until it is compared */
	else if (cidr.type != RF_RV_STRING)
		return rb_error(err, "operand %d: element must be string or non-empty array", pos);
	return RF_RB_OK;
}

static enum rf_rb_result contains_terms(struct rf_rv a, struct rf_rv b, bool *ret, struct rf_err *err)
{
	struct rf_rv wrong = a.type != RF_RV_STRING ? a : b;

	if (wrong.type != RF_RV_STRING)
		return rb_type_error(err, "operand 1 must be string but got %s", rf_rv_type_name(wrong));
	return contains(rf_rv_text(a), rf_rv_text(b), ret, err);
}

static uint32_t terms(struct rf_rv v)
{
	return v.type == RF_RV_STRING ? 1 : v.type >= RF_RV_ARRAY ? v.n : 0;
}

enum rf_rb_result rb_cidr_contains_matches(struct rf_rb_env *e, const struct rf_rv *arg,
					   struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv_grow out = { 0 };

	for (uint32_t i = 0; i < terms(arg[0]); i++) {
		struct rf_rv *pair, index[2], cidr[2];

		RB_TRY(match_term(arg[0], i, 1, &cidr[0], &index[0], err));
		for (uint32_t j = 0; j < terms(arg[1]); j++) {
			bool in;

			if (!rf_rb_spend(e, 2))
				return RF_RB_FULL;
			RB_TRY(match_term(arg[1], j, 2, &cidr[1], &index[1], err));
			RB_TRY(contains_terms(cidr[0], cidr[1], &in, err));
			if (!in)
				continue;
			pair = rb_alloc(e, 2, sizeof(*pair));
			if (pair == NULL)
				return RF_RB_FULL;
			memcpy(pair, index, sizeof(index));
			if (!rf_rv_push(&out, e->arena, rf_rv_array(pair, 2)))
				return RF_RB_FULL;
		}
	}
	*ret = rf_rv_set(out.items, out.n);
	return RF_RB_OK;
}

/* --- net.cidr_merge --- */

struct range {
	unsigned __int128 first, last;
	bool whole; /* one block, printed as it was given: */
	unsigned __int128 ip;
	int bits;
};

static int by_last(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	if (x->last != y->last)
		return x->last < y->last ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

/* A bare IPv4 address stands for its old class A, B or C network. */
static enum rf_rb_result merge_term(struct rf_rv v, struct range *ret, struct rf_err *err)
{
	unsigned __int128 ip;
	struct block b;
	bool v6;

	if (v.type != RF_RV_STRING)
		return rb_error(err, "element must be string");
	if (read_ip(rf_rv_text(v), &ip, &v6)) {
		uint32_t top = (uint32_t)ip >> 24;

		if (!is_v4(ip))
			return rb_error(err, "IPv6 invalid: needs prefix length");
		b.bits = 96 + (top < 0x80 ? 8 : top < 0xc0 ? 16 : 24);
		b.first = ip & ~host_mask(b.bits);
	} else {
		RB_TRY(want_block(rf_rv_text(v), &b, err));
		ip = b.first;
	}
	*ret = (struct range){ b.first, last_of(b), true, ip, b.bits };
	return RF_RB_OK;
}

static unsigned __int128 before(unsigned __int128 ip)
{
	return ip == 0 || ip == V4_PREFIX ? ip : ip - 1;
}

static uint32_t join_ranges(struct range *r, uint32_t n)
{
	uint32_t out = n;

	/* from the end: each one swallows those before it that it meets */
	for (uint32_t i = n; i-- > 0;) {
		struct range *top = out < n ? &r[out] : NULL;

		if (top != NULL && before(top->first) <= r[i].last &&
		    is_v4(top->first) == is_v4(r[i].first)) {
			top->first = RF_MIN(top->first, r[i].first);
			top->whole = false;
			continue;
		}
		r[--out] = r[i];
	}
	return out;
}

/* The fewest blocks that make up a range. */
static bool push_range(struct rf_rv_grow *g, struct rf_rb_env *e, struct range r)
{
	unsigned __int128 at = r.first;

	if (r.whole)
		return push_block(g, e, (struct block){ r.ip, r.bits });
	for (;;) {
		int bits = is_v4(r.first) && is_v4(r.last) ? 96 : 0;
		struct block b;

		while ((at & host_mask(bits)) != 0 || (at | host_mask(bits)) > r.last)
			bits++;
		b = (struct block){ at, bits };
		if (!rf_rb_spend(e, 1) || !push_block(g, e, b))
			return false;
		if (last_of(b) >= r.last)
			return true;
		at = last_of(b) + 1;
	}
}

enum rf_rb_result rb_cidr_merge(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				struct rf_err *err)
{
	struct rf_rv_grow out = { 0 };
	struct range *r;
	uint32_t n = arg[0].n;

	if (arg[0].type != RF_RV_ARRAY && arg[0].type != RF_RV_SET)
		return rb_error(err, "operand must be an array");
	r = rb_alloc(e, n, sizeof(*r));
	if (r == NULL || !rf_rb_spend(e, (int64_t)n * 8))
		return RF_RB_FULL;
	for (uint32_t i = 0; i < n; i++)
		RB_TRY(merge_term(arg[0].items[i], &r[i], err));
	if (n > 0)
		qsort(r, n, sizeof(*r), by_last);
	for (uint32_t i = join_ranges(r, n); i < n; i++)
		if (!push_range(&out, e, r[i]))
			return RF_RB_FULL;
	*ret = rf_rv_set(out.items, out.n);
	return RF_RB_OK;
}
