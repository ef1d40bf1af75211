/* What builtins take and give, written short:
 *   0 null, b boolean, n number, s string, x any, [T] array, (TT) array of these, {K:V} object,
 *   {a=T,K:V} object with a, %T set, <TT> one of these; "name:T" names an argument.
 * OPA does not look into objects that builtins give with keys it does not know: any, here. */
#include "policy/rego/types.h"

static const struct declared {
	const char *name, *takes, *gives; /* in order of name */
} DECLARED[] = {
	{ "abs", "x:n", "y:n" },
	{ "all", "<[x]%x>", "b" },
	{ "and", "x:%x|y:%x", "z:%x" },
	{ "any", "<[x]%x>", "b" },
	{ "array.concat", "x:[x]|y:[x]", "z:[x]" },
	{ "array.flatten", "arr:[x]", "flattened:[x]" },
	{ "array.reverse", "arr:[x]", "rev:[x]" },
	{ "array.slice", "arr:[x]|start:n|stop:n", "slice:[x]" },
	{ "assign", "x|x", "b" },
	{ "base64.decode", "x:s", "y:s" },
	{ "base64.encode", "x:s", "y:s" },
	{ "base64.is_valid", "x:s", "result:b" },
	{ "base64url.decode", "x:s", "y:s" },
	{ "base64url.encode", "x:s", "y:s" },
	{ "base64url.encode_no_pad", "x:s", "y:s" },
	{ "bits.and", "x:n|y:n", "z:n" },
	{ "bits.lsh", "x:n|s:n", "z:n" },
	{ "bits.negate", "x:n", "z:n" },
	{ "bits.or", "x:n|y:n", "z:n" },
	{ "bits.rsh", "x:n|s:n", "z:n" },
	{ "bits.xor", "x:n|y:n", "z:n" },
	{ "cast_array", "x", "[x]" },
	{ "cast_boolean", "x", "b" },
	{ "cast_null", "x", "0" },
	{ "cast_object", "x", "{x:x}" },
	{ "cast_set", "x", "%x" },
	{ "cast_string", "x", "s" },
	{ "ceil", "x:n", "y:n" },
	{ "concat", "delimiter:s|collection:<[s]%s>", "output:s" },
	{ "contains", "haystack:s|needle:s", "result:b" },
	{ "count", "collection:<s[x]{x:x}%x>", "n:n" },
	{ "crypto.hmac.equal", "mac1:s|mac2:s", "result:b" },
	{ "crypto.hmac.md5", "x:s|key:s", "y:s" },
	{ "crypto.hmac.sha1", "x:s|key:s", "y:s" },
	{ "crypto.hmac.sha256", "x:s|key:s", "y:s" },
	{ "crypto.hmac.sha512", "x:s|key:s", "y:s" },
	{ "crypto.md5", "x:s", "y:s" },
	{ "crypto.parse_private_keys", "keys:s", "output:[{s:x}]" },
	{ "crypto.sha1", "x:s", "y:s" },
	{ "crypto.sha256", "x:s", "y:s" },
	{ "crypto.x509.parse_and_verify_certificates", "certs:s", "output:(b[{s:x}])" },
	{ "crypto.x509.parse_and_verify_certificates_with_options", "certs:s|options:{s:x}",
	  "output:(b[{s:x}])" },
	{ "crypto.x509.parse_certificate_request", "csr:s", "output:x" },
	{ "crypto.x509.parse_certificates", "certs:s", "output:[{s:x}]" },
	{ "crypto.x509.parse_keypair", "cert:s|pem:s", "output:x" },
	{ "crypto.x509.parse_rsa_private_key", "pem:s", "output:x" },
	{ "div", "x:n|y:n", "z:n" },
	{ "endswith", "search:s|base:s", "result:b" },
	{ "eq", "x|x", "b" },
	{ "equal", "x:x|y:x", "result:b" },
	{ "floor", "x:n", "y:n" },
	{ "format_int", "number:n|base:n", "output:s" },
	{ "glob.match", "pattern:s|delimiters:<0[s]>|match:s", "result:b" },
	{ "glob.quote_meta", "pattern:s", "output:s" },
	{ "graph.reachable", "graph:{x:<[x]%x>}|initial:<[x]%x>", "output:%x" },
	{ "graph.reachable_paths", "graph:{x:<[x]%x>}|initial:<[x]%x>", "output:%[x]" },
	{ "graphql.is_valid", "query:<s{x:x}>|schema:<s{x:x}>", "output:b" },
	{ "graphql.parse", "query:<s{x:x}>|schema:<s{x:x}>", "output:({x:x}{x:x})" },
	{ "graphql.parse_and_verify", "query:<s{x:x}>|schema:<s{x:x}>", "output:(b{x:x}{x:x})" },
	{ "graphql.parse_query", "query:s", "output:{x:x}" },
	{ "graphql.parse_schema", "schema:s", "output:{x:x}" },
	{ "graphql.schema_is_valid", "schema:<s{x:x}>", "output:b" },
	{ "gt", "x:x|y:x", "result:b" },
	{ "gte", "x:x|y:x", "result:b" },
	{ "hex.decode", "x:s", "y:s" },
	{ "hex.encode", "x:s", "y:s" },
	{ "http.send", "request:{s:x}", "response:{x:x}" },
	{ "indexof", "haystack:s|needle:s", "output:n" },
	{ "indexof_n", "haystack:s|needle:s", "output:[n]" },
	{ "internal.member_2", "x|x", "b" },
	{ "internal.member_3", "x|x|x", "b" },
	{ "internal.print", "[%x]", "" },
	{ "internal.template_string", "[x]", "s" },
	{ "internal.test_case", "[x]", "" },
	{ "intersection", "xs:%%x", "y:%x" },
	{ "io.jwt.decode", "jwt:s", "output:({x:x}{x:x}s)" },
	{ "io.jwt.decode_verify", "jwt:s|constraints:{s:x}", "output:(b{x:x}{x:x})" },
	{ "io.jwt.encode_sign", "headers:{s:x}|payload:{s:x}|key:{s:x}", "output:s" },
	{ "io.jwt.encode_sign_raw", "headers:s|payload:s|key:s", "output:s" },
	{ "io.jwt.verify_eddsa", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_es256", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_es384", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_es512", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_hs256", "jwt:s|secret:s", "result:b" },
	{ "io.jwt.verify_hs384", "jwt:s|secret:s", "result:b" },
	{ "io.jwt.verify_hs512", "jwt:s|secret:s", "result:b" },
	{ "io.jwt.verify_ps256", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_ps384", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_ps512", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_rs256", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_rs384", "jwt:s|certificate:s", "result:b" },
	{ "io.jwt.verify_rs512", "jwt:s|certificate:s", "result:b" },
	{ "is_array", "x:x", "result:b" },
	{ "is_boolean", "x:x", "result:b" },
	{ "is_null", "x:x", "result:b" },
	{ "is_number", "x:x", "result:b" },
	{ "is_object", "x:x", "result:b" },
	{ "is_set", "x:x", "result:b" },
	{ "is_string", "x:x", "result:b" },
	{ "json.filter", "object:{x:x}|paths:<[<s[x]>]%<s[x]>>", "filtered:{x:x}" },
	{ "json.is_valid", "x:s", "result:b" },
	{ "json.marshal", "x:x", "y:s" },
	{ "json.marshal_with_options", "x:x|opts:{indent=s,prefix=s,pretty=b,s:x}", "y:s" },
	{ "json.match_schema", "document:<s{x:x}>|schema:<s{x:x}>",
	  "output:(b[{desc=s,error=s,field=s,type=s}])" },
	{ "json.patch", "target:x|patches:[{op=s,path=x,x:x}]", "output:x" },
	{ "json.remove", "object:{x:x}|paths:<[<s[x]>]%<s[x]>>", "output:{x:x}" },
	{ "json.unmarshal", "x:s", "y:x" },
	{ "json.verify_schema", "schema:<s{x:x}>", "output:(b<0s>)" },
	{ "lower", "x:s", "y:s" },
	{ "lt", "x:x|y:x", "result:b" },
	{ "lte", "x:x|y:x", "result:b" },
	{ "max", "collection:<[x]%x>", "n:x" },
	{ "min", "collection:<[x]%x>", "n:x" },
	{ "minus", "x:<n%x>|y:<n%x>", "z:<n%x>" },
	{ "mul", "x:n|y:n", "z:n" },
	{ "neq", "x:x|y:x", "result:b" },
	{ "net.cidr_contains", "cidr:s|cidr_or_ip:s", "result:b" },
	{ "net.cidr_contains_matches",
	  "cidrs:<s[<s[x]>]{s:<s[x]>}%<s[x]>>|cidrs_or_ips:<s[<s[x]>]{s:<s[x]>}%<s[x]>>",
	  "output:%(xx)" },
	{ "net.cidr_expand", "cidr:s", "hosts:%s" },
	{ "net.cidr_intersects", "cidr1:s|cidr2:s", "result:b" },
	{ "net.cidr_is_valid", "cidr:s", "result:b" },
	{ "net.cidr_merge", "addrs:<[<s>]%s>", "output:%s" },
	{ "net.cidr_overlap", "s|s", "b" },
	{ "net.lookup_ip_addr", "name:s", "addrs:%s" },
	{ "numbers.range", "a:n|b:n", "range:[n]" },
	{ "numbers.range_step", "a:n|b:n|step:n", "range:[n]" },
	{ "object.filter", "object:{x:x}|keys:<[x]{x:x}%x>", "filtered:{x:x}" },
	{ "object.get", "object:{x:x}|key:x|default:x", "value:x" },
	{ "object.keys", "object:{x:x}", "value:%x" },
	{ "object.remove", "object:{x:x}|keys:<[x]{x:x}%x>", "output:{x:x}" },
	{ "object.subset", "super:<[x]{x:x}%x>|sub:<[x]{x:x}%x>", "result:b" },
	{ "object.union", "a:{x:x}|b:{x:x}", "output:{x:x}" },
	{ "object.union_n", "objects:[{x:x}]", "output:{x:x}" },
	{ "opa.runtime", "", "output:x" },
	{ "or", "x:%x|y:%x", "z:%x" },
	{ "plus", "x:n|y:n", "z:n" },
	{ "product", "collection:<[n]%n>", "n:n" },
	{ "providers.aws.sign_req", "request:{s:x}|aws_config:{s:x}|time_ns:n",
	  "signed_request:{x:x}" },
	{ "rand.intn", "str:s|n:n", "y:n" },
	{ "re_match", "s|s", "b" },
	{ "regex.find_all_string_submatch_n", "pattern:s|value:s|number:n", "output:[[s]]" },
	{ "regex.find_n", "pattern:s|value:s|number:n", "output:[s]" },
	{ "regex.globs_match", "glob1:s|glob2:s", "result:b" },
	{ "regex.is_valid", "pattern:s", "result:b" },
	{ "regex.match", "pattern:s|value:s", "result:b" },
	{ "regex.replace", "s:s|pattern:s|value:s", "output:s" },
	{ "regex.split", "pattern:s|value:s", "output:[s]" },
	{ "regex.template_match", "template:s|value:s|delimiter_start:s|delimiter_end:s",
	  "result:b" },
	{ "rego.metadata.chain", "", "chain:[x]" },
	{ "rego.metadata.rule", "", "output:x" },
	{ "rego.parse_module", "filename:s|rego:s", "output:x" },
	{ "rem", "x:n|y:n", "z:n" },
	{ "replace", "x:s|old:s|new:s", "y:s" },
	{ "round", "x:n", "y:n" },
	{ "semver.compare", "a:s|b:s", "result:n" },
	{ "semver.is_valid", "vsn:x", "result:b" },
	{ "set_diff", "%x|%x", "%x" },
	{ "sort", "collection:<[x]%x>", "n:[x]" },
	{ "split", "x:s|delimiter:s", "ys:[s]" },
	{ "sprintf", "format:s|values:[x]", "output:s" },
	{ "startswith", "search:s|base:s", "result:b" },
	{ "strings.any_prefix_match", "search:<s[s]%s>|base:<s[s]%s>", "result:b" },
	{ "strings.any_suffix_match", "search:<s[s]%s>|base:<s[s]%s>", "result:b" },
	{ "strings.count", "search:s|substring:s", "output:n" },
	{ "strings.render_template", "value:s|vars:{s:x}", "result:s" },
	{ "strings.replace_n", "patterns:{s:s}|value:s", "output:s" },
	{ "strings.reverse", "x:s", "y:s" },
	{ "strings.split_n", "x:s|delimiter:s|n:n", "ys:[s]" },
	{ "substring", "value:s|offset:n|length:n", "output:s" },
	{ "sum", "collection:<[n]%n>", "n:n" },
	{ "time.add_date", "ns:n|years:n|months:n|days:n", "output:n" },
	{ "time.clock", "x:<n(ns)>", "output:(nnn)" },
	{ "time.date", "x:<n(ns)>", "date:(nnn)" },
	{ "time.diff", "ns1:<n(ns)>|ns2:<n(ns)>", "output:(nnnnnn)" },
	{ "time.format", "x:<n(ns)(nss)>", "formatted timestamp:s" },
	{ "time.now_ns", "", "now:n" },
	{ "time.parse_duration_ns", "duration:s", "ns:n" },
	{ "time.parse_ns", "layout:s|value:s", "ns:n" },
	{ "time.parse_rfc3339_ns", "value:s", "ns:n" },
	{ "time.weekday", "x:<n(ns)>", "day:s" },
	{ "to_number", "value:<0bns>", "num:n" },
	{ "trace", "note:s", "result:b" },
	{ "trim", "value:s|cutset:s", "output:s" },
	{ "trim_left", "value:s|cutset:s", "output:s" },
	{ "trim_prefix", "value:s|prefix:s", "output:s" },
	{ "trim_right", "value:s|cutset:s", "output:s" },
	{ "trim_space", "value:s", "output:s" },
	{ "trim_suffix", "value:s|suffix:s", "output:s" },
	{ "type_name", "x:x", "type:s" },
	{ "union", "xs:%%x", "y:%x" },
	{ "units.parse", "x:s", "y:n" },
	{ "units.parse_bytes", "x:s", "y:n" },
	{ "upper", "x:s", "y:s" },
	{ "uri.is_valid", "uri:s", "result:b" },
	{ "uri.parse", "uri:s", "output:x" },
	{ "urlquery.decode", "x:s", "y:s" },
	{ "urlquery.decode_object", "x:s", "object:x" },
	{ "urlquery.encode", "x:s", "y:s" },
	{ "urlquery.encode_object", "object:{s:<s[s]%s>}", "y:s" },
	{ "uuid.parse", "uuid:s", "result:x" },
	{ "uuid.rfc4122", "k:s", "output:s" },
	{ "walk", "x:x", "output:([x]x)" },
	{ "yaml.is_valid", "x:s", "result:b" },
	{ "yaml.marshal", "x:x", "y:s" },
	{ "yaml.unmarshal", "x:s", "y:x" },
};

/* --- reading --- */

static const struct rf_rt *read_type(struct rf_rts *x, const char **at);

static const struct rf_rt *read_list(struct rf_rts *x, const char **at, char end)
{
	const struct rf_rt **item = rf_arena_array(x->arena, const struct rf_rt *, 8);
	const struct rf_rt *either = NULL;
	uint32_t n = 0;

	while (**at != end) {
		rf_assert(n < 8);
		item[n] = read_type(x, at);
		either = rf_rt_or(x, either, item[n++]);
	}
	++*at;
	return end == '>' ? either : rf_rt_array(x, item, n, NULL);
}

/* At a field's name, which ends in '='. */
static bool is_field(const char *at)
{
	while (*at >= 'a' && *at <= 'z')
		at++;
	return *at == '=';
}

static const struct rf_rt *read_object(struct rf_rts *x, const char **at)
{
	const struct rf_rt **item = rf_arena_array(x->arena, const struct rf_rt *, 8), *k = NULL,
			   *v = NULL;
	struct rf_rv *key = rf_arena_array(x->arena, struct rf_rv, 8);
	uint32_t n = 0;

	while (**at != '}') {
		if (is_field(*at)) {
			size_t length = strcspn(*at, "=");

			rf_assert(n < 8);
			key[n] = rf_rv_str(rf_str_n(*at, length));
			*at += length + 1;
			item[n++] = read_type(x, at);
		} else {
			k = read_type(x, at);
			++*at; /* : */
			v = read_type(x, at);
		}
		*at += **at == ',';
	}
	++*at;
	return rf_rt_object(x, key, item, n, k, v);
}

static const struct rf_rt *read_type(struct rf_rts *x, const char **at)
{
	const struct rf_rt *t;

	switch (*(*at)++) {
	case '0':
		return &rf_rt_null;
	case 'b':
		return &rf_rt_bool;
	case 'n':
		return &rf_rt_number;
	case 's':
		return &rf_rt_string;
	case '%':
		return rf_rt_set(x, read_type(x, at));
	case '{':
		return read_object(x, at);
	case '<':
		return read_list(x, at, '>');
	case '(':
		return read_list(x, at, ')');
	case '[':
		t = rf_rt_array(x, NULL, 0, read_type(x, at));
		++*at;
		return t;
	default:
		return &rf_rt_any;
	}
}

static const struct rf_rt *read_named(struct rf_rts *x, const char **at, struct rf_str *name)
{
	size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz0123456789_ ");

	*name = RF_STR_EMPTY;
	if ((*at)[n] == ':') {
		*name = rf_str_n(*at, n);
		*at += n + 1;
	}
	return read_type(x, at);
}

static const struct rf_rt *read_function(struct rf_rts *x, const struct declared *d)
{
	struct rf_rt *f = rf_arena_new(x->arena, struct rf_rt);
	struct rf_str *name = rf_arena_array(x->arena, struct rf_str, 9);
	const char *at = d->takes;

	*f = (struct rf_rt){ .kind = RF_RT_FUNCTION, .size = 1, .name = name };
	f->item = rf_arena_array(x->arena, const struct rf_rt *, 8);
	while (*at) {
		rf_assert(f->n < 8);
		f->item[f->n] = read_named(x, &at, &name[f->n]);
		f->n++;
		at += *at == '|';
	}
	at = d->gives;
	if (*at)
		f->others = read_named(x, &at, &name[f->n]);
	return f;
}

static int by_name(const void *key, const void *row)
{
	const struct rf_str *name = key;
	const struct declared *d = row;

	return rf_str_cmp(*name, rf_str(d->name));
}

const struct rf_rt *rf_rt_builtin(struct rf_rts *x, struct rf_str name)
{
	const struct declared *d =
		bsearch(&name, DECLARED, RF_COUNT(DECLARED), sizeof(DECLARED[0]), by_name);

	return d ? read_function(x, d) : NULL;
}
