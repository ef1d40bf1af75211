/* Values of Rego: what JSON has, and sets. 16 bytes, passed by value, never changed once made.
 *
 * Whatever a value points to lives in the arena it was made in (or longer), and many values may point
 * to the same thing. There is no "undefined" value: functions that may have no answer say so.
 * Arrays keep their order. Objects and sets are kept in Rego's order of terms (null, booleans, numbers,
 * strings, arrays, objects, sets; each kind in its own order), so equal values look equal in memory and
 * print the same. All memory comes through rf_arena_try: a function that makes something returns false
 * (or NULL) when the arena is full, and the evaluation ends with RF_EXHAUSTED. */
#ifndef RF_POLICY_REGO_VALUE_H
#define RF_POLICY_REGO_VALUE_H

#include "base/base.h"
#include "codec/json.h"

enum rf_rv_type { /* in Rego's order */
	RF_RV_NULL,
	RF_RV_BOOL,
	RF_RV_NUMBER,
	RF_RV_STRING,
	RF_RV_ARRAY,
	RF_RV_OBJECT,
	RF_RV_SET,
};

struct rf_rv_number; /* number.h: what does not fit an int64, and everything written with . or e */
struct rf_rv_pair;

struct rf_rv {
	uint8_t type;
	bool big;     /* RF_RV_NUMBER: in *number, not in i */
	uint16_t tag; /* for whoever holds the value; not compared */
	uint32_t n;   /* bytes of a string, items, pairs, elements */
	union {
		bool b;
		int64_t i;
		const struct rf_rv_number *number;
		const char *s;		     /* not NUL-terminated */
		const struct rf_rv *items;   /* array; set: in order, each once */
		/* object: by key, in order, each once; items sees them as key, value, key, value */
		const struct rf_rv_pair *pairs;
	};
};

struct rf_rv_pair {
	struct rf_rv key, value;
};

_Static_assert(sizeof(struct rf_rv) == 16, "values are copied all the time");

#define RF_RV_NIL ((struct rf_rv){ .type = RF_RV_NULL })
static inline struct rf_rv rf_rv_bool(bool b)
{
	return (struct rf_rv){ .type = RF_RV_BOOL, .b = b };
}
static inline struct rf_rv rf_rv_int(int64_t i)
{
	return (struct rf_rv){ .type = RF_RV_NUMBER, .i = i };
}
/* Does not copy: s must live as long as the value. */
static inline struct rf_rv rf_rv_str(struct rf_str s)
{
	return (struct rf_rv){ .type = RF_RV_STRING, .n = (uint32_t)s.n, .s = s.p };
}
static inline struct rf_str rf_rv_text(struct rf_rv v)
{
	return (struct rf_str){ v.s, v.n };
}
static inline bool rf_rv_is_false(struct rf_rv v)
{
	return v.type == RF_RV_BOOL && !v.b;
}

/* --- comparing --- */
int rf_rv_cmp(struct rf_rv a, struct rf_rv b); /* Rego's order: -1, 0, 1; 1 and 1.0 are equal */
bool rf_rv_eq(struct rf_rv a, struct rf_rv b); /* faster than cmp */
bool rf_rv_same(struct rf_rv a, struct rf_rv b); /* equal and written alike: 1 and 1.0 are not */
uint64_t rf_rv_hash(struct rf_rv v);	       /* equal values, equal hashes; keyed per process */

/* --- looking --- */
/* Array by integer, object by key, set by element (gives the element). False: not there, or v is none
 * of these. */
bool rf_rv_get(struct rf_rv v, struct rf_rv key, struct rf_rv *ret);
bool rf_rv_get_str(struct rf_rv object, struct rf_str key, struct rf_rv *ret);
bool rf_rv_has(struct rf_rv set, struct rf_rv element);

/* --- making --- */
/* Takes over items (in the arena; NULL if there are none). Objects and sets: sorted and freed of
 * repetitions in place; of two equal elements the first stays. Of two equal keys the later value wins;
 * with conflict the first one stays, and *conflict becomes true if their values differ (it is never
 * made false). */
struct rf_rv rf_rv_array(const struct rf_rv *items, uint32_t n);
struct rf_rv rf_rv_set(struct rf_rv *items, uint32_t n);
struct rf_rv rf_rv_object(struct rf_rv_pair *pairs, uint32_t n, bool *conflict);
bool rf_rv_copy_str(struct rf_arena *a, struct rf_str s, struct rf_rv *ret);
/* A deep copy that owes nothing to the arena v is in. */
bool rf_rv_copy(struct rf_arena *a, struct rf_rv v, struct rf_rv *ret);

/* Something that grows: items of an array (push), elements of a set (add), pairs of an object (put); one
 * of these only. Zeroed is empty, and so is what rf_rv_grown_... leaves. Sets and objects are kept free
 * of repetitions by a hash as they grow. False: the arena is full, and nothing was added. */
struct rf_rv_grow {
	struct rf_rv *items; /* pairs take two: key, value */
	uint32_t n, room;    /* items, elements or pairs */
	uint32_t *index; /* open addressing; NULL while small */
	uint32_t slots;
};
bool rf_rv_push(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv v);
/* *ret_new: it was not there yet. ret_new may be NULL. */
bool rf_rv_add(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv v, bool *ret_new);
/* A key that is there already stays as it is. *ret_conflict: and has another value. May be NULL. */
bool rf_rv_put(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv key, struct rf_rv value,
	       bool *ret_conflict);
bool rf_rv_find(const struct rf_rv_grow *g, struct rf_rv key, struct rf_rv *ret); /* of put */
struct rf_rv rf_rv_grown_array(struct rf_rv_grow *g);
struct rf_rv rf_rv_grown_set(struct rf_rv_grow *g);
bool rf_rv_grown_object(struct rf_rv_grow *g, struct rf_arena *a, struct rf_rv *ret); /* always true */

/* base with what over adds or replaces, recursively (as data documents are overlaid). Shares what both
 * point to. */
bool rf_rv_merge(struct rf_arena *a, struct rf_rv base, struct rf_rv over, struct rf_rv *ret);

/* --- in and out --- */
/* JSON text straight into values (no rf_json in between), as strict as codec/json.h but that of two equal
 * keys the later one counts: RF_BAD_REQUEST with line and column, RF_TOO_LARGE when the arena is full.
 * Objects have no cap on members.
 * Strings without escapes and the text of numbers POINT INTO text, which must outlive the value (or use
 * rf_rv_copy). */
int rf_rv_parse_json(struct rf_arena *a, struct rf_str text, struct rf_rv *ret, struct rf_err *err);
/* Points into v's strings, too. False: the arena is full, or a number beyond number.h's caps. */
bool rf_rv_from_json(struct rf_arena *a, const struct rf_json *v, struct rf_rv *ret);
/* Sets become arrays in order; object keys that are not strings become their JSON text. */
void rf_rv_write_json(struct rf_buf *out, struct rf_rv v);
void rf_rv_write_json_pretty(struct rf_buf *out, struct rf_rv v, int indent); /* spaces per level */
/* As Rego's own printer: {"a": 1}, {1, 2}, set(), strings quoted. */
void rf_rv_print(struct rf_buf *out, struct rf_rv v);
const char *rf_rv_type_name(struct rf_rv v); /* "null", "boolean", "number", "string", ... */

#endif
