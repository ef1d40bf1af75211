/* Versions, UUIDs, randomness, and the rows of units.*, time.* and net.*. */
#include "policy/rego/builtin_util.h"

#include <stdio.h>

/* --- semver --- */

struct version {
	int64_t part[3];
	struct rf_str pre;
};

/* identifiers of [0-9A-Za-z-], joined by dots */
static bool is_identifiers(struct rf_str s)
{
	char last = '.';

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '.' ? last == '.' :
			       !((c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
				 c == '-'))
			return false;
		last = c;
	}
	return last != '.';
}

static bool is_number(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return s.n > 0;
}

/* Numbers have no zeros before them. */
static bool is_plain(struct rf_str s)
{
	return s.n < 2 || s.p[0] != '0' || !is_number(s);
}

static bool is_pre(struct rf_str s)
{
	struct rf_str head;

	if (!is_identifiers(s))
		return false;
	while (s.n > 0) {
		rf_str_cut(&s, '.', &head);
		if (!is_plain(head))
			return false;
	}
	return true;
}

static bool read_version(struct rf_str s, struct version *v)
{
	struct rf_str meta, head;
	bool has_meta, has_pre;

	if (rf_str_starts(s, RF_LIT("v")))
		s = rf_str_skip(s, 1);
	meta = s;
	has_meta = rf_str_cut(&meta, '+', &s);
	v->pre = s;
	has_pre = rf_str_cut(&v->pre, '-', &s);
	if ((has_meta && !is_identifiers(meta)) || (has_pre && !is_pre(v->pre)))
		return false;
	for (int i = 0; i < 3; i++) {
		if (rf_str_cut(&s, '.', &head) != (i < 2))
			return false;
		if (!is_number(head) || !is_plain(head) ||
		    rf_str_int(head, &v->part[i], NULL) < 0)
			return false;
	}
	return true;
}

static int compare_numbers(struct rf_str a, struct rf_str b)
{
	while (a.n > 1 && a.p[0] == '0')
		a = rf_str_skip(a, 1);
	while (b.n > 1 && b.p[0] == '0')
		b = rf_str_skip(b, 1);
	return a.n != b.n ? (a.n < b.n ? -1 : 1) : rf_str_cmp(a, b);
}

static int compare_pre(struct rf_str a, struct rf_str b)
{
	if (rf_str_eq(a, b))
		return 0;
	if (a.n == 0 || b.n == 0)
		return a.n == 0 ? 1 : -1; /* a release is above what comes before it */
	for (;;) {
		struct rf_str x, y;
		int c;

		if (a.n == 0 || b.n == 0)
			return a.n == b.n ? 0 : a.n == 0 ? -1 : 1;
		rf_str_cut(&a, '.', &x);
		rf_str_cut(&b, '.', &y);
		if (is_number(x) != is_number(y))
			return is_number(x) ? -1 : 1;
		c = is_number(x) ? compare_numbers(x, y) : rf_str_cmp(x, y);
		if (c != 0)
			return c < 0 ? -1 : 1;
	}
}

static enum rf_rb_result semver_compare(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					struct rf_err *err)
{
	struct version v[2];
	int c = 0;

	if (!rf_rb_spend(e, 1 + (int64_t)arg[0].n + arg[1].n))
		return RF_RB_FULL;
	for (int i = 0; i < 2; i++)
		if (!read_version(rf_rv_text(arg[i]), &v[i]))
			return rb_error(err, "operand %d: string \"%.*s\" is not a valid SemVer", i + 1,
					(int)RF_MIN(arg[i].n, 200), arg[i].s);
	for (int i = 0; i < 3 && c == 0; i++)
		c = (v[0].part[i] > v[1].part[i]) - (v[0].part[i] < v[1].part[i]);
	*ret = rf_rv_int(c != 0 ? c : compare_pre(v[0].pre, v[1].pre));
	return RF_RB_OK;
}

static enum rf_rb_result semver_is_valid(struct rf_rb_env *e, const struct rf_rv *arg,
					 struct rf_rv *ret, struct rf_err *err)
{
	struct version v;

	(void)err;
	if (arg[0].type == RF_RV_STRING && !rf_rb_spend(e, 1 + arg[0].n))
		return RF_RB_FULL;
	*ret = rf_rv_bool(arg[0].type == RF_RV_STRING && read_version(rf_rv_text(arg[0]), &v));
	return RF_RB_OK;
}

/* --- uuid --- */

/* The same for equal text within an evaluation, and nothing a tenant could tell beforehand. */
static uint64_t draw(const struct rf_rb_env *e, int half, struct rf_str text)
{
	return rf_siphash13((const uint8_t *)&e->random[half * 2], text.p, text.n);
}

static enum rf_rb_result uuid_rfc4122(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				      struct rf_err *err)
{
	struct rb_text out = { .e = e };
	unsigned char b[16];
	uint64_t half[2];
	struct rf_str text = rf_rv_text(arg[0]);

	(void)err;
	if (arg[0].type != RF_RV_STRING)
		RB_TRY(rb_json_text(e, arg[0], &text));
	half[0] = draw(e, 0, text);
	half[1] = draw(e, 1, text);
	memcpy(b, half, sizeof(b));
	b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
	b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			rb_add_c(&out, '-');
		rb_hex_add(&out, &b[i], 1);
	}
	return rb_text_value(&out, ret);
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* With dashes, without, behind urn:uuid:, or between two characters of any kind. */
static bool read_uuid(struct rf_str s, unsigned char b[16])
{
	bool dashes = s.n != 32;

	if (s.n == 45 && rf_str_ieq(rf_str_n(s.p, 9), RF_LIT("urn:uuid:")))
		s = rf_str_skip(s, 9);
	else if (s.n == 38)
		s = rf_str_n(s.p + 1, 36);
	if (s.n != (dashes ? 36 : 32))
		return false;
	for (int i = 0; i < 16; i++) {
		if (dashes && (i == 4 || i == 6 || i == 8 || i == 10)) {
			if (s.p[0] != '-')
				return false;
			s = rf_str_skip(s, 1);
		}
		if (hex_value(s.p[0]) < 0 || hex_value(s.p[1]) < 0)
			return false;
		b[i] = (unsigned char)(hex_value(s.p[0]) << 4 | hex_value(s.p[1]));
		s = rf_str_skip(s, 2);
	}
	return true;
}

static const char *variant_of(unsigned char c)
{
	if ((c & 0xc0) == 0x80)
		return "RFC4122";
	if ((c & 0xe0) == 0xc0)
		return "Microsoft";
	return (c & 0xe0) == 0xe0 ? "Future" : "Reserved";
}

static const char *mac_of(unsigned char c)
{
	static const char *const name[] = { "global:unicast", "global:multicast", "local:unicast",
					    "local:multicast" };

	return name[c & 3];
}

/* Versions 1 and 2 say when and where they were made. */
static void put_origin(struct rb_object *o, const unsigned char b[16])
{
	uint64_t ticks = (uint64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
	uint64_t since_1582 = 122192928000000000; /* hundreds of ns to 1970 */
	char text[24];
	static const char *const domain[] = { "Person", "Group", "Org" };

	ticks |= (uint64_t)(b[4] << 8 | b[5]) << 32 | (uint64_t)((b[6] & 0x0f) << 8 | b[7]) << 48;
	rb_put(o, "time", rf_rv_int((int64_t)((ticks - since_1582) * 100)));
	(void)snprintf(text, sizeof(text), "%02x-%02x-%02x-%02x-%02x-%02x", b[10], b[11], b[12], b[13],
		       b[14], b[15]);
	rb_put_str(o, "nodeid", rf_str(text));
	rb_put(o, "macvariables", rf_rv_str(rf_str(mac_of(b[10]))));
	rb_put(o, "clocksequence", rf_rv_int((b[8] << 8 | b[9]) & 0x3fff));
	if (b[6] >> 4 != 2)
		return;
	rb_put(o, "id", rf_rv_int((int64_t)((uint32_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3])));
	(void)snprintf(text, sizeof(text), "Domain%d", b[9]);
	rb_put_str(o, "domain", rf_str(b[9] < 3 ? domain[b[9]] : text));
}

static enum rf_rb_result uuid_parse(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				    struct rf_err *err)
{
	struct rb_object o = { .e = e };
	unsigned char b[16];

	(void)err;
	if (!read_uuid(rf_rv_text(arg[0]), b))
		return RF_RB_UNDEFINED;
	rb_put(&o, "version", rf_rv_int(b[6] >> 4));
	rb_put(&o, "variant", rf_rv_str(rf_str(variant_of(b[8]))));
	if (b[6] >> 4 == 1 || b[6] >> 4 == 2)
		put_origin(&o, b);
	return rb_object_value(&o, ret);
}

/* --- others --- */

static enum rf_rb_result rand_intn(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				   struct rf_err *err)
{
	struct rb_text key = { .e = e };
	uint64_t n;
	int64_t i;

	RB_TRY(rb_int(arg[1], 2, &i, err));
	n = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
	rb_add(&key, rf_rv_text(arg[0]));
	rb_printf(&key, "-%llu", (unsigned long long)n);
	if (key.full)
		return RF_RB_FULL;
	*ret = rf_rv_int(n == 0 ? 0 : (int64_t)(draw(e, 0, rf_str_n(key.p, key.n)) % n));
	return RF_RB_OK;
}

static enum rf_rb_result opa_runtime(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct rb_object o = { .e = e };

	(void)arg;
	(void)err;
	return rb_object_value(&o, ret);
}

static enum rf_rb_result metadata_rule(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	(void)arg;
	if (e->rule_metadata.type == RF_RV_NULL)
		return rb_error(err, "the rego.metadata.rule function must only be called within the "
				     "scope of a rule");
	*ret = e->rule_metadata;
	return RF_RB_OK;
}

static enum rf_rb_result metadata_chain(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					struct rf_err *err)
{
	(void)arg;
	if (e->chain_metadata.type == RF_RV_NULL)
		return rb_error(err, "the rego.metadata.chain function must only be called within the "
				     "scope of a rule");
	*ret = e->chain_metadata;
	return RF_RB_OK;
}

static const struct rf_rb rows[] = {
	{ "net.cidr_contains", 2, .arg = { RF_RB_STR, RF_RB_STR }, .fn = rb_cidr_contains },
	{ "net.cidr_contains_matches", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = rb_cidr_contains_matches },
	{ "net.cidr_expand", 1, .arg = { RF_RB_STR }, .fn = rb_cidr_expand },
	{ "net.cidr_intersects", 2, .arg = { RF_RB_STR, RF_RB_STR }, .fn = rb_cidr_intersects },
	{ "net.cidr_is_valid", 1, .arg = { RF_RB_ANY }, .fn = rb_cidr_is_valid },
	{ "net.cidr_merge", 1, .arg = { RF_RB_ANY }, .fn = rb_cidr_merge },
	{ "net.cidr_overlap", 2, .v0_only = true, .arg = { RF_RB_STR, RF_RB_STR }, .fn = rb_cidr_contains },
	{ "net.lookup_ip_addr", 1, .impure = true, .arg = { RF_RB_STR },
	  .refusal = "needs the network; ringfence evaluates policies without it" },
	{ "opa.runtime", 0, .impure = true, .fn = opa_runtime },
	{ "rand.intn", 2, .impure = true, .arg = { RF_RB_STR, RF_RB_NUM }, .fn = rand_intn },
	{ "rego.metadata.chain", 0, .fn = metadata_chain },
	{ "rego.metadata.rule", 0, .fn = metadata_rule },
	{ "rego.parse_module", 2, .arg = { RF_RB_STR, RF_RB_STR },
	  .refusal = "policies are not parsed while policies are evaluated" },
	{ "semver.compare", 2, .arg = { RF_RB_STR, RF_RB_STR }, .fn = semver_compare },
	{ "semver.is_valid", 1, .arg = { RF_RB_ANY }, .fn = semver_is_valid },
	{ "time.add_date", 4, .arg = { RF_RB_ANY, RF_RB_NUM, RF_RB_NUM, RF_RB_NUM },
	  .fn = rb_time_add_date },
	{ "time.clock", 1, .arg = { RF_RB_ANY }, .fn = rb_time_clock },
	{ "time.date", 1, .arg = { RF_RB_ANY }, .fn = rb_time_date },
	{ "time.diff", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = rb_time_diff },
	{ "time.format", 1, .arg = { RF_RB_ANY }, .fn = rb_time_format },
	{ "time.now_ns", 0, .impure = true, .fn = rb_time_now_ns },
	{ "time.parse_duration_ns", 1, .arg = { RF_RB_STR }, .fn = rb_time_parse_duration_ns },
	{ "time.parse_ns", 2, .arg = { RF_RB_STR, RF_RB_STR }, .fn = rb_time_parse_ns },
	{ "time.parse_rfc3339_ns", 1, .arg = { RF_RB_STR }, .fn = rb_time_parse_rfc3339_ns },
	{ "time.weekday", 1, .arg = { RF_RB_ANY }, .fn = rb_time_weekday },
	{ "units.parse", 1, .arg = { RF_RB_STR }, .fn = rb_units_parse },
	{ "units.parse_bytes", 1, .arg = { RF_RB_STR }, .fn = rb_units_parse_bytes },
	{ "uuid.parse", 1, .arg = { RF_RB_STR }, .fn = uuid_parse },
	{ "uuid.rfc4122", 1, .impure = true, .arg = { RF_RB_ANY }, .fn = uuid_rfc4122 },
};

const struct rf_rb_rows rf_rb_world = { rows, RF_COUNT(rows) };
