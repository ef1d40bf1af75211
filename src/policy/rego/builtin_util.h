/* What the files of builtins share. Private to this room.
 *
 * Messages do not name the function: rf_rb_call puts "name: " before them. */
#ifndef RF_POLICY_REGO_BUILTIN_UTIL_H
#define RF_POLICY_REGO_BUILTIN_UTIL_H

#include "policy/rego/builtin.h"
#include "policy/rego/number.h"

/* How deep a builtin follows a value; deeper ones end the evaluation. */
#define RB_DEPTH_MAX 1000

#define RB_TRY(call)                                                                               \
	do {                                                                                       \
		enum rf_rb_result rb_r_ = (call);                                                  \
		if (rb_r_ != RF_RB_OK)                                                             \
			return rb_r_;                                                              \
	} while (0)

#define rb_error(err, ...) (rf_fail((err), RF_INVALID, __VA_ARGS__), RF_RB_ERROR)
#define rb_type_error(err, ...) (rf_fail((err), RF_INVALID, __VA_ARGS__), RF_RB_TYPE)

/* Text that grows in the arena; once it does not fit, `full` is set and what follows is dropped. */
struct rb_text {
	struct rf_rb_env *e;
	char *p;
	size_t n, room;
	bool full;
};

void rb_add(struct rb_text *t, struct rf_str s);
void rb_add_c(struct rb_text *t, char c);
void rb_puts(struct rb_text *t, const char *s);
void rb_printf(struct rb_text *t, const char *fmt, ...) RF_PRINTF(2, 3);
/* RF_RB_FULL if it did not fit, else the string. Takes fuel by the length. */
enum rf_rb_result rb_text_value(struct rb_text *t, struct rf_rv *ret);

void *rb_alloc(struct rf_rb_env *e, size_t n, size_t size); /* NULL: full */
enum rf_rb_result rb_string(struct rf_rb_env *e, struct rf_str s, struct rf_rv *ret); /* copies */

/* An integer operand: what is written as one and fits. */
enum rf_rb_result rb_int(struct rf_rv v, int pos, int64_t *ret, struct rf_err *err);

/* An object that is built key by key; keys are literals. */
struct rb_object {
	struct rf_rb_env *e;
	struct rf_rv_grow g;
	bool full;
};
void rb_put(struct rb_object *o, const char *key, struct rf_rv value);
void rb_put_str(struct rb_object *o, const char *key, struct rf_str s); /* copies s */
enum rf_rb_result rb_object_value(struct rb_object *o, struct rf_rv *ret);

/* --- encoding, shared by json.*, io.jwt.* and providers.aws.* (builtin_encoding.c) --- */
struct rb_json_style {
	bool pretty;
	struct rf_str prefix, indent;
};
/* As Go's json.Marshal: keys in order of their text, <, > and & escaped. style may be NULL. */
enum rf_rb_result rb_json_write(struct rb_text *out, struct rf_rv v, const struct rb_json_style *style);
enum rf_rb_result rb_json_text(struct rf_rb_env *e, struct rf_rv v, struct rf_str *ret);
enum rf_rb_result rb_json_parse(struct rf_rb_env *e, struct rf_str text, struct rf_rv *ret,
				struct rf_err *err);
bool rb_json_valid(struct rf_rb_env *e, struct rf_str text, bool *ret_full);

/* Base64 of Go's encoders: new lines are skipped, padding is asked for if pad. Errors as Go's:
 * "illegal base64 data at input byte 3". */
enum rf_rb_result rb_base64_decode(struct rf_rb_env *e, struct rf_str s, bool url, bool pad,
				   struct rf_str *ret, struct rf_err *err);
/* base64url.decode: padding may be missing. */
enum rf_rb_result rb_base64url_any(struct rf_rb_env *e, struct rf_str s, struct rf_str *ret,
				   struct rf_err *err);
void rb_base64_add(struct rb_text *out, struct rf_str bytes, bool url, bool pad);
void rb_hex_add(struct rb_text *out, const void *bytes, size_t n);

/* URLs as Go's net/url takes them apart (builtin_url.c). */
struct rb_url {
	struct rf_str scheme, opaque, user, host, path, raw_path, raw_query, fragment;
	bool has_user, force_query;
};
enum rf_rb_result rb_url_parse(struct rf_rb_env *e, struct rf_str s, struct rb_url *ret,
			       struct rf_err *err);
rf_rb_fn rb_uri_parse, rb_uri_is_valid, rb_urlquery_encode, rb_urlquery_decode,
	rb_urlquery_encode_object, rb_urlquery_decode_object;
void rb_url_add_path(struct rb_text *out, const struct rb_url *u); /* escaped */
struct rf_str rb_url_hostname(const struct rb_url *u);
struct rf_str rb_url_port(const struct rb_url *u);

/* A path of json.filter, json.remove and json.patch as an array of keys: "/a/~1b" or ["a", "/b"]
 * (builtin_patch.c). */
enum rf_rb_result rb_json_path(struct rf_rb_env *e, struct rf_rv path, struct rf_rv *ret,
			       struct rf_err *err);
rf_rb_fn rb_json_patch;

/* builtin_time.c, builtin_cidr.c, builtin_units.c: rows are in builtin_world.c */
rf_rb_fn rb_time_add_date, rb_time_clock, rb_time_date, rb_time_diff, rb_time_format, rb_time_now_ns,
	rb_time_parse_duration_ns, rb_time_parse_ns, rb_time_parse_rfc3339_ns, rb_time_weekday;
rf_rb_fn rb_cidr_contains, rb_cidr_contains_matches, rb_cidr_expand, rb_cidr_intersects,
	rb_cidr_is_valid, rb_cidr_merge;
rf_rb_fn rb_aws_sign_req; /* builtin_aws.c */
rf_rb_fn rb_units_parse, rb_units_parse_bytes;

/* Rego's own text of a value, cut where a message would be. */
struct rf_str rb_shown(struct rf_rb_env *e, struct rf_rv v);

#endif
