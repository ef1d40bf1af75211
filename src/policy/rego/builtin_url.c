/* URLs taken apart as Go's net/url does, and query strings. */
#include "policy/rego/builtin_util.h"

#include <arpa/inet.h>

enum place { IN_PATH, IN_HOST, IN_ZONE, IN_QUERY, IN_FRAGMENT, IN_USER };

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

static bool one_of(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* May c stand as it is? */
static bool is_plain(char c, enum place place)
{
	if (is_alnum(c) || one_of(c, "-_.~"))
		return true;
	switch (place) {
	case IN_PATH:
		return one_of(c, "$&+,/:;=@");
	case IN_HOST:
	case IN_ZONE:
		return one_of(c, "!$&'()*+,;=:[]<>\"");
	case IN_FRAGMENT:
		return one_of(c, "$&+,/:;=?@!()*");
	case IN_QUERY:
	case IN_USER:
		break;
	}
	return false;
}

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void escape(struct rb_text *out, struct rf_str s, enum place place)
{
	for (size_t i = 0; i < s.n && !out->full; i++) {
		if (is_plain(s.p[i], place))
			rb_add_c(out, s.p[i]);
		else if (s.p[i] == ' ' && place == IN_QUERY)
			rb_add_c(out, '+');
		else
			rb_printf(out, "%%%02X", (unsigned char)s.p[i]);
	}
}

static enum rf_rb_result bad_escape(struct rf_str s, size_t at, struct rf_err *err)
{
	struct rf_str part = rf_str_skip(s, at);

	part.n = RF_MIN(part.n, 3);
	return rb_error(err, "invalid URL escape \"%.*s\"", RF_STR(part));
}

static bool allowed_escape(struct rf_str s, size_t i, enum place place)
{
	char c = (char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2]));

	if ((place != IN_HOST && place != IN_ZONE) || c == '%')
		return true;
	if (place == IN_HOST)
		return (unsigned char)c >= 0x80;
	return c == ' ' || is_plain(c, IN_HOST);
}

static enum rf_rb_result unescape(struct rb_text *out, struct rf_str s, enum place place,
				  struct rf_err *err)
{
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c == '%') {
			if (i + 2 >= s.n || hex_value(s.p[i + 1]) < 0 || hex_value(s.p[i + 2]) < 0 ||
			    !allowed_escape(s, i, place))
				return bad_escape(s, i, err);
			rb_add_c(out, (char)(hex_value(s.p[i + 1]) << 4 | hex_value(s.p[i + 2])));
			i += 2;
		} else if (c == '+' && place == IN_QUERY) {
			rb_add_c(out, ' ');
		} else if ((place == IN_HOST || place == IN_ZONE) && (unsigned char)c < 0x80 &&
			   !is_plain(c, place)) {
			return rb_error(err, "invalid character \"%c\" in host name", c);
		} else {
			rb_add_c(out, c);
		}
	}
	return out->full ? RF_RB_FULL : RF_RB_OK;
}

static enum rf_rb_result unescaped(struct rf_rb_env *e, struct rf_str s, enum place place,
				   struct rf_str *ret, struct rf_err *err)
{
	struct rb_text out = { .e = e };

	RB_TRY(unescape(&out, s, place, err));
	*ret = rf_str_n(out.p == NULL ? "" : out.p, out.n);
	return RF_RB_OK;
}

static size_t last_index(struct rf_str s, char c)
{
	for (size_t i = s.n; i > 0; i--)
		if (s.p[i - 1] == c)
			return i - 1;
	return SIZE_MAX;
}

static size_t first_index(struct rf_str s, char c)
{
	const char *p = s.n == 0 ? NULL : memchr(s.p, c, s.n);

	return p == NULL ? SIZE_MAX : (size_t)(p - s.p);
}

/* "" or ":123" */
static bool is_port(struct rf_str s)
{
	if (s.n > 0 && s.p[0] != ':')
		return false;
	for (size_t i = 1; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
	return true;
}

static bool is_ipv6(struct rf_str s)
{
	char text[INET6_ADDRSTRLEN + 1];
	struct in6_addr addr;
	struct rf_str zone = s;

	if (rf_str_cut(&zone, '%', &s) && zone.n == 0)
		return false;
	if (s.n >= sizeof(text))
		return false;
	memcpy(text, s.p, s.n);
	text[s.n] = '\0';
	return strlen(text) == s.n && inet_pton(AF_INET6, text, &addr) == 1;
}

/* "[::1%25eth0]:80" */
static enum rf_rb_result bracketed(struct rf_rb_env *e, struct rf_str host, struct rf_str *ret,
				   struct rf_err *err)
{
	size_t end = last_index(host, ']'), zone = SIZE_MAX;
	struct rb_text out = { .e = e };
	struct rf_str name, port;

	if (end == SIZE_MAX)
		return rb_error(err, "missing ']' in host");
	port = rf_str_skip(host, end + 1);
	if (!is_port(port))
		return rb_error(err, "invalid port \"%.*s\" after host", RF_STR(port));
	name = rf_str_n(host.p + 1, end - 1);
	for (size_t i = 0; i + 3 <= name.n && zone == SIZE_MAX; i++)
		if (memcmp(name.p + i, "%25", 3) == 0)
			zone = i;
	rb_add_c(&out, '[');
	RB_TRY(unescape(&out, rf_str_n(name.p, RF_MIN(zone, name.n)), IN_HOST, err));
	if (zone != SIZE_MAX)
		RB_TRY(unescape(&out, rf_str_skip(name, zone), IN_ZONE, err));
	if (out.full)
		return RF_RB_FULL;
	if (!is_ipv6(rf_str_n(out.p + 1, out.n - 1)))
		return rb_error(err, "invalid host: not an IPv6 address");
	rb_add_c(&out, ']');
	rb_add(&out, port);
	*ret = rf_str_n(out.p, out.n);
	return out.full ? RF_RB_FULL : RF_RB_OK;
}

static enum rf_rb_result parse_host(struct rf_rb_env *e, const struct rb_url *u, struct rf_str host,
				    struct rf_str *ret, struct rf_err *err)
{
	size_t bracket = last_index(host, '['), colon = first_index(host, ':');
	bool web = rf_str_is(u->scheme, "http") || rf_str_is(u->scheme, "https");

	if (bracket == 0)
		return bracketed(e, host, ret, err);
	if (bracket != SIZE_MAX)
		return rb_error(err, "invalid IP-literal");
	if (colon != SIZE_MAX && !web)
		colon = last_index(host, ':');
	if (colon != SIZE_MAX && !is_port(rf_str_skip(host, colon)))
		return rb_error(err, "invalid port \"%.*s\" after host",
				RF_STR(rf_str_skip(host, colon)));
	return unescaped(e, host, IN_HOST, ret, err);
}

static enum rf_rb_result parse_authority(struct rf_rb_env *e, struct rf_str s, struct rb_url *u,
					 struct rf_err *err)
{
	size_t at = last_index(s, '@');
	struct rf_str user;

	RB_TRY(parse_host(e, u, at == SIZE_MAX ? s : rf_str_skip(s, at + 1), &u->host, err));
	if (at == SIZE_MAX)
		return RF_RB_OK;
	user = rf_str_n(s.p, at);
	for (size_t i = 0; i < user.n; i++)
		if (!is_alnum(user.p[i]) && !one_of(user.p[i], "-._:~!$&'()*+,;=%@"))
			return rb_error(err, "net/url: invalid userinfo");
	u->has_user = true;
	return unescaped(e, user, IN_USER, &u->user, err);
}

static enum rf_rb_result set_path(struct rf_rb_env *e, struct rf_str p, struct rb_url *u,
				  struct rf_err *err)
{
	struct rb_text again = { .e = e };

	RB_TRY(unescaped(e, p, IN_PATH, &u->path, err));
	escape(&again, u->path, IN_PATH);
	if (again.full)
		return RF_RB_FULL;
	u->raw_path = rf_str_eq(p, rf_str_n(again.p, again.n)) ? RF_STR_EMPTY : p;
	return RF_RB_OK;
}

static enum rf_rb_result cut_scheme(struct rf_rb_env *e, struct rf_str *rest, struct rb_url *u,
				    struct rf_err *err)
{
	struct rf_rv lower;
	size_t i = 0;

	while (i < rest->n && (((rest->p[i] | 0x20) >= 'a' && (rest->p[i] | 0x20) <= 'z') ||
			       (i > 0 && (is_alnum(rest->p[i]) || one_of(rest->p[i], "+-.")))))
		i++;
	if (i == rest->n || rest->p[i] != ':')
		return RF_RB_OK;
	if (i == 0)
		return rb_error(err, "missing protocol scheme");
	RB_TRY(rb_string(e, rf_str_n(rest->p, i), &lower));
	for (size_t j = 0; j < i; j++)
		if (lower.s[j] >= 'A' && lower.s[j] <= 'Z')
			((char *)(uintptr_t)lower.s)[j] |= 0x20; /* our own copy */
	u->scheme = rf_rv_text(lower);
	*rest = rf_str_skip(*rest, i + 1);
	return RF_RB_OK;
}

static void cut_query(struct rf_str *rest, struct rb_url *u)
{
	size_t q = first_index(*rest, '?');

	if (q == SIZE_MAX)
		return;
	u->force_query = q + 1 == rest->n;
	u->raw_query = rf_str_skip(*rest, q + 1);
	rest->n = q;
}

static enum rf_rb_result parse(struct rf_rb_env *e, struct rf_str s, struct rb_url *u,
			       struct rf_err *err)
{
	for (size_t i = 0; i < s.n; i++)
		if ((unsigned char)s.p[i] < 0x20 || s.p[i] == 0x7f)
			return rb_error(err, "net/url: invalid control character in URL");
	if (rf_str_is(s, "*")) {
		u->path = s;
		return RF_RB_OK;
	}
	RB_TRY(cut_scheme(e, &s, u, err));
	cut_query(&s, u);
	if (s.n == 0 || s.p[0] != '/') {
		size_t slash = first_index(s, '/'), colon = first_index(s, ':');

		if (u->scheme.n > 0) {
			u->opaque = s;
			return RF_RB_OK;
		}
		if (colon < slash)
			return rb_error(err, "first path segment in URL cannot contain colon");
	}
	if (rf_str_starts(s, RF_LIT("//")) && (u->scheme.n > 0 || !rf_str_starts(s, RF_LIT("///")))) {
		struct rf_str authority = rf_str_skip(s, 2);
		size_t slash = first_index(authority, '/');

		s = slash == SIZE_MAX ? RF_STR_EMPTY : rf_str_skip(authority, slash);
		authority.n = RF_MIN(slash, authority.n);
		RB_TRY(parse_authority(e, authority, u, err));
	}
	return set_path(e, s, u, err);
}

enum rf_rb_result rb_url_parse(struct rf_rb_env *e, struct rf_str s, struct rb_url *ret,
			       struct rf_err *err)
{
	struct rf_str rest = s, body;
	enum rf_rb_result r;

	*ret = (struct rb_url){ RF_STR_EMPTY, RF_STR_EMPTY, RF_STR_EMPTY, RF_STR_EMPTY,
				RF_STR_EMPTY, RF_STR_EMPTY, RF_STR_EMPTY, RF_STR_EMPTY };
	if (!rf_rb_spend(e, 1 + (int64_t)(s.n / 8)))
		return RF_RB_FULL;
	rf_str_cut(&rest, '#', &body);
	r = parse(e, body, ret, err);
	if (r == RF_RB_OK && rest.n > 0)
		r = unescaped(e, rest, IN_FRAGMENT, &ret->fragment, err);
	if (r == RF_RB_ERROR)
		rf_wrap(err, "parse \"%.*s\"", (int)RF_MIN(s.n, 200), s.p);
	return r;
}

/* As it was written, if that was well-formed. */
void rb_url_add_path(struct rb_text *out, const struct rb_url *u)
{
	for (size_t i = 0; i < u->raw_path.n; i++)
		if (!is_plain(u->raw_path.p[i], IN_PATH) && !one_of(u->raw_path.p[i], "!'()*[]%")) {
			escape(out, u->path, IN_PATH);
			return;
		}
	if (u->raw_path.n > 0)
		rb_add(out, u->raw_path);
	else
		escape(out, u->path, IN_PATH);
}

static struct rf_str host_and_port(const struct rb_url *u, struct rf_str *ret_port)
{
	size_t colon = last_index(u->host, ':');
	struct rf_str host = u->host;

	*ret_port = RF_STR_EMPTY;
	if (colon != SIZE_MAX && is_port(rf_str_skip(host, colon))) {
		*ret_port = rf_str_skip(host, colon + 1);
		host.n = colon;
	}
	if (host.n >= 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
		host = rf_str_n(host.p + 1, host.n - 2);
	return host;
}

struct rf_str rb_url_hostname(const struct rb_url *u)
{
	struct rf_str port;

	return host_and_port(u, &port);
}

struct rf_str rb_url_port(const struct rb_url *u)
{
	struct rf_str port;

	host_and_port(u, &port);
	return port;
}

static void put_if(struct rb_object *o, const char *key, struct rf_str s)
{
	if (s.n > 0)
		rb_put_str(o, key, s);
}

enum rf_rb_result rb_uri_parse(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
			       struct rf_err *err)
{
	struct rb_object o = { .e = e };
	struct rb_url u;

	RB_TRY(rb_url_parse(e, rf_rv_text(arg[0]), &u, err));
	put_if(&o, "scheme", u.scheme);
	put_if(&o, "hostname", rb_url_hostname(&u));
	put_if(&o, "port", rb_url_port(&u));
	put_if(&o, "path", u.path);
	if (u.path.n > 0)
		rb_put_str(&o, "raw_path", u.raw_path.n > 0 ? u.raw_path : u.path);
	put_if(&o, "raw_query", u.raw_query);
	put_if(&o, "fragment", u.fragment);
	return rb_object_value(&o, ret);
}

enum rf_rb_result rb_uri_is_valid(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				  struct rf_err *err)
{
	enum rf_rb_result r = RF_RB_ERROR;
	struct rb_url u;

	if (arg[0].type == RF_RV_STRING && arg[0].n > 0)
		r = rb_url_parse(e, rf_rv_text(arg[0]), &u, err);
	*ret = rf_rv_bool(r == RF_RB_OK);
	return r == RF_RB_FULL ? r : RF_RB_OK;
}

/* --- query strings --- */

enum rf_rb_result rb_urlquery_encode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct rb_text out = { .e = e };

	(void)err;
	escape(&out, rf_rv_text(arg[0]), IN_QUERY);
	return rb_text_value(&out, ret);
}

enum rf_rb_result rb_urlquery_decode(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				     struct rf_err *err)
{
	struct rb_text out = { .e = e };

	RB_TRY(unescape(&out, rf_rv_text(arg[0]), IN_QUERY, err));
	return rb_text_value(&out, ret);
}

static enum rf_rb_result add_parameter(struct rb_text *out, struct rf_str key, struct rf_rv v,
				       struct rf_err *err)
{
	if (v.type != RF_RV_STRING)
		return rb_type_error(err,
				     "operand 1 values must be string, array[string], or set[string]");
	if (out->n > 0)
		rb_add_c(out, '&');
	escape(out, key, IN_QUERY);
	rb_add_c(out, '=');
	escape(out, rf_rv_text(v), IN_QUERY);
	return out->full ? RF_RB_FULL : RF_RB_OK;
}

enum rf_rb_result rb_urlquery_encode_object(struct rf_rb_env *e, const struct rf_rv *arg,
					    struct rf_rv *ret, struct rf_err *err)
{
	struct rb_text out = { .e = e };

	for (uint32_t i = 0; i < arg[0].n; i++) {
		struct rf_rv k = arg[0].pairs[i].key, v = arg[0].pairs[i].value;
		struct rf_str key = rf_rv_text(k);

		if (!rf_rb_spend(e, 1))
			return RF_RB_FULL;
		if (k.type != RF_RV_STRING)
			RB_TRY(rb_json_text(e, k, &key));
		if (v.type != RF_RV_ARRAY && v.type != RF_RV_SET) {
			RB_TRY(add_parameter(&out, key, v, err));
			continue;
		}
		for (uint32_t j = 0; j < v.n; j++)
			RB_TRY(add_parameter(&out, key, v.items[j], err));
	}
	return rb_text_value(&out, ret);
}

static int by_key(const void *a, const void *b)
{
	const struct rf_rv *x = a, *y = b;
	int c = rf_rv_cmp(x[0], y[0]);

	return c != 0 ? c : (x[2].i > y[2].i) - (x[2].i < y[2].i);
}

/* Triples of key, value and place: all values of a key together, in their order. */
static enum rf_rb_result group_values(struct rf_rb_env *e, struct rf_rv *t, uint32_t n,
				      struct rf_rv *ret)
{
	struct rf_rv *values = rb_alloc(e, n, sizeof(*values));
	struct rf_rv_pair *pairs = rb_alloc(e, n, sizeof(*pairs));
	uint32_t out = 0;

	if (values == NULL || pairs == NULL)
		return RF_RB_FULL;
	if (n > 0)
		qsort(t, n, 3 * sizeof(*t), by_key);
	for (uint32_t i = 0, j; i < n; i = j) {
		for (j = i; j < n && rf_rv_eq(t[3 * i], t[3 * j]); j++)
			values[j] = t[3 * j + 1];
		pairs[out].key = t[3 * i];
		pairs[out++].value = rf_rv_array(values + i, j - i);
	}
	*ret = rf_rv_object(pairs, out, NULL);
	return RF_RB_OK;
}

enum rf_rb_result rb_urlquery_decode_object(struct rf_rb_env *e, const struct rf_rv *arg,
					    struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv_grow triples = { 0 };
	struct rf_str rest = rf_rv_text(arg[0]), part, key, value;
	bool more = rest.n > 0;

	if (!rf_rb_spend(e, 1 + arg[0].n))
		return RF_RB_FULL;
	while (more) {
		more = rf_str_cut(&rest, '&', &part);
		if (part.n == 0)
			continue;
		if (first_index(part, ';') != SIZE_MAX)
			return rb_error(err, "invalid semicolon separator in query");
		rf_str_cut(&part, '=', &key);
		RB_TRY(unescaped(e, key, IN_QUERY, &key, err));
		RB_TRY(unescaped(e, part, IN_QUERY, &value, err));
		if (!rf_rv_push(&triples, e->arena, rf_rv_str(key)) ||
		    !rf_rv_push(&triples, e->arena, rf_rv_str(value)) ||
		    !rf_rv_push(&triples, e->arena, rf_rv_int(triples.n)))
			return RF_RB_FULL;
	}
	return group_values(e, triples.items, triples.n / 3, ret);
}
