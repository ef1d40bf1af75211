/* Types of Rego's values, as far as a compiler can know them. Made in an arena, never changed; NULL is
 * "not known", which fits everything. Types that grow too large or too deep become `any`, and once the work
 * that was granted is used up everything fits everything: a policy is then accepted unchecked. */
#ifndef RF_POLICY_REGO_TYPES_H
#define RF_POLICY_REGO_TYPES_H

#include "policy/rego/builtin.h"

enum rf_rt_kind { /* in the order they are printed in */
		  RF_RT_NULL,
		  RF_RT_BOOL,
		  RF_RT_NUMBER,
		  RF_RT_STRING,
		  RF_RT_ARRAY,
		  RF_RT_OBJECT,
		  RF_RT_SET,
		  RF_RT_ANY, /* one of its items; without items: anything */
		  RF_RT_FUNCTION,
};

struct rf_rt {
	uint8_t kind;
	uint8_t depth;
	bool open; /* something in it is not known */
	uint32_t size, n;
	const struct rf_rt *
		*item; /* ARRAY: the first ones; OBJECT: of key; ANY; FUNCTION: arguments */
	const struct rf_rv *key; /* OBJECT: keys that are there, in order */
	const struct rf_rt
		*others; /* ARRAY, OBJECT: of more items; SET: its elements; FUNCTION: its result */
	const struct rf_rt *others_key; /* OBJECT */
	const struct rf_str *name; /* FUNCTION: of arguments and result, may be empty; NULL: none */
};

extern const struct rf_rt rf_rt_null, rf_rt_bool, rf_rt_number, rf_rt_string, rf_rt_any;
/* Anything, too, but open, and so is every type it is part of. */
extern const struct rf_rt rf_rt_unknown;

struct rf_rts {
	struct rf_arena *arena;
	int64_t work; /* what is left */
};

static inline bool rf_rt_is_any(const struct rf_rt *t)
{
	return t->kind == RF_RT_ANY && t->n == 0;
}

/* Take over item and key. Objects: keys in order, each once. */
const struct rf_rt *rf_rt_array(struct rf_rts *x, const struct rf_rt **item, uint32_t n,
				const struct rf_rt *others);
const struct rf_rt *rf_rt_object(struct rf_rts *x, const struct rf_rv *key,
				 const struct rf_rt **item, uint32_t n,
				 const struct rf_rt *others_key, const struct rf_rt *others);
const struct rf_rt *rf_rt_set(struct rf_rts *x, const struct rf_rt *of);
const struct rf_rt *rf_rt_function(struct rf_rts *x, const struct rf_rt **arg, uint32_t n,
				   const struct rf_rt *result);
const struct rf_rt *rf_rt_of(struct rf_rts *x, struct rf_rv v);
/* Either; NULL is left out. Of two functions, one that takes and gives either. */
const struct rf_rt *rf_rt_or(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b);
/* The documents two rules of one name make together: sets and objects are joined, not alternatives. */
const struct rf_rt *rf_rt_merge(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b);

int rf_rt_cmp(const struct rf_rt *a, const struct rf_rt *b);
/* Whether a value can be of both. */
bool rf_rt_fits(struct rf_rts *x, const struct rf_rt *a, const struct rf_rt *b);
/* What can be behind a key; NULL: nothing. */
const struct rf_rt *rf_rt_select(struct rf_rts *x, const struct rf_rt *t, struct rf_rv key);
/* Of all keys, of all values; NULL: it has none (a scalar, or always empty). */
const struct rf_rt *rf_rt_keys(struct rf_rts *x, const struct rf_rt *t);
const struct rf_rt *rf_rt_values(struct rf_rts *x, const struct rf_rt *t);

/* As OPA writes them: "array<number, string>", "object<a: string>[any: any]", "any<null, set[string]>";
 * "???" for what is not known. */
void rf_rt_print(struct rf_buf *out, const struct rf_rt *t);
/* "(x: number, string)": of a function, its result last. */
void rf_rt_print_arguments(struct rf_buf *out, const struct rf_rt *function);

/* builtin_types.c: a function; NULL if it is not declared. */
const struct rf_rt *rf_rt_builtin(struct rf_rts *x, struct rf_str name);

#endif
