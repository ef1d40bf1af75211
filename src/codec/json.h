/* JSON: one tree of values in an arena, read strictly, changed in place, written compactly.
 *
 * Reading is strict RFC 8259: one value and nothing behind it, valid UTF-8, no duplicate keys, no
 * lone surrogates, no NaN. Two parsers that disagree are a policy bypass, so what Kubernetes' own
 * reader would take differently (duplicate keys) is refused, not guessed.
 * Numbers keep their text; ask for the integer when you need it.
 *
 * Every getter accepts NULL and the wrong type, and answers "absent" (NULL, empty, the default):
 * an object from outside may lack anything. */
#ifndef RF_CODEC_JSON_H
#define RF_CODEC_JSON_H

#include "base/base.h"

enum rf_json_type {
	RF_JSON_NULL,
	RF_JSON_BOOL,
	RF_JSON_NUMBER,
	RF_JSON_STRING,
	RF_JSON_ARRAY,
	RF_JSON_OBJECT,
};

struct rf_json_member;

struct rf_json {
	enum rf_json_type type;
	uint32_t n;   /* items or members */
	uint32_t cap; /* room for them */
	union {
		bool boolean;
		struct rf_str text; /* RF_JSON_STRING: the characters; RF_JSON_NUMBER: as written */
		struct rf_json **items;
		struct rf_json_member *members; /* in order of appearance */
	};
};

struct rf_json_member {
	struct rf_str key;
	struct rf_json *value; /* never NULL */
};

#define RF_JSON_DEPTH_MAX 128
/* Looking up a key walks the members, so merging two objects costs the product of their sizes; this
 * bounds it for objects from outside (RF_TOO_LARGE). Arrays have no such cap. */
#define RF_JSON_MEMBERS_MAX 4096

/* The tree lives in the arena and copies what it needs of text. All memory comes through
 * rf_arena_try, so a capped arena bounds it: RF_TOO_LARGE. Syntax: RF_BAD_REQUEST with line and
 * column. Strings are not NUL-terminated, and may hold zero bytes (\u0000). */
int rf_json_parse(struct rf_arena *a, struct rf_str text, struct rf_json **ret, struct rf_err *err);

/* Compact; members in their order. Always valid JSON: NULL is null, bytes that are not UTF-8 become
 * U+FFFD. */
void rf_json_write(struct rf_buf *out, const struct rf_json *v);
/* Two spaces per level, ends the line: for people. */
void rf_json_write_pretty(struct rf_buf *out, const struct rf_json *v);
void rf_json_write_str(struct rf_buf *out, struct rf_str s);		    /* quoted and escaped */
struct rf_str rf_json_text_of(struct rf_arena *a, const struct rf_json *v); /* as one string */

/* --- looking -------------------------------------------------------------------------------- */

struct rf_json *rf_json_get(const struct rf_json *object, struct rf_str key);
struct rf_json *rf_json_item(const struct rf_json *array, size_t i);
/* Walks members by name: rf_json_at(pod, "spec", "nodeName"). */
struct rf_json *rf_json_at_(const struct rf_json *v, ...) __attribute__((sentinel));
#define rf_json_at(v, ...) rf_json_at_((v), __VA_ARGS__, (const char *)NULL)

struct rf_str rf_json_str(const struct rf_json *v); /* a string's characters, else empty */
bool rf_json_is_true(const struct rf_json *v);
/* Whole numbers that fit; everything else gives the default. 80.0 and 8e1 are not taken for 80:
 * Kubernetes refuses them where it wants an integer. */
int64_t rf_json_int(const struct rf_json *v, int64_t otherwise);
bool rf_json_is_int(const struct rf_json *v, int64_t *ret);
static inline bool rf_json_is(const struct rf_json *v, enum rf_json_type type)
{
	return v != NULL && v->type == type;
}
size_t rf_json_len(const struct rf_json *v); /* of arrays and objects, else 0 */
/* Short for rf_json_str(rf_json_at(...)). */
#define rf_json_str_at(v, ...) rf_json_str(rf_json_at((v), __VA_ARGS__))

/* Same value: objects regardless of order, numbers exactly (1000, 1e3 and 1000.0 are one). */
bool rf_json_equal(const struct rf_json *a, const struct rf_json *b);

/* --- building and changing ------------------------------------------------------------------ */

struct rf_json *rf_json_null(struct rf_arena *a);
struct rf_json *rf_json_bool(struct rf_arena *a, bool b);
struct rf_json *rf_json_number(struct rf_arena *a, int64_t i);
struct rf_json *rf_json_string(struct rf_arena *a, struct rf_str s); /* copies s */
struct rf_json *rf_json_array(struct rf_arena *a);
struct rf_json *rf_json_object(struct rf_arena *a);
struct rf_json *rf_json_clone(struct rf_arena *a, const struct rf_json *v);

/* Adds or replaces a member; the key is copied, the value is not. value NULL removes it. */
void rf_json_set(struct rf_arena *a, struct rf_json *object, struct rf_str key,
		 struct rf_json *value);
void rf_json_set_str(struct rf_arena *a, struct rf_json *object, const char *key, struct rf_str s);
void rf_json_set_int(struct rf_arena *a, struct rf_json *object, const char *key, int64_t i);
void rf_json_set_bool(struct rf_arena *a, struct rf_json *object, const char *key, bool b);
void rf_json_del(struct rf_json *object, struct rf_str key);
void rf_json_push(struct rf_arena *a, struct rf_json *array, struct rf_json *value);
void rf_json_remove(struct rf_json *array, size_t i);
/* The object at that path, made where it is missing (or is not an object). */
struct rf_json *rf_json_ensure_(struct rf_arena *a, struct rf_json *object, ...)
	__attribute__((sentinel));
#define rf_json_ensure(a, object, ...)                                                             \
	rf_json_ensure_((a), (object), __VA_ARGS__, (const char *)NULL)

/* A value from a template, for objects ringfence writes itself:
 *	rf_json_make(a, "{'kind':'Namespace','metadata':{'name':%S,'labels':{%s:'x'}}}", name, key)
 * Single or double quotes. %s const char *, %S struct rf_str, %d int, %D int64_t, %b bool (int),
 * %j struct rf_json * (used as it is, not copied; NULL writes null); %s and %S also as keys.
 * Text in quotes is taken as it is: a conversion inside quotes asserts (make the string first, pass
 * it as %S). The same key twice: the later one counts.
 * A template that does not parse is a bug: asserts. */
struct rf_json *rf_json_make(struct rf_arena *a, const char *template, ...);

#endif
