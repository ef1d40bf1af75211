/* What the files of builtins share. Private to this folder. */
#ifndef RF_POLICY_REGO_BUILTIN_PRIVATE_H
#define RF_POLICY_REGO_BUILTIN_PRIVATE_H

#include "policy/rego/builtin.h"

#define RF_RB_NULL (1u << RF_RV_NULL)
#define RF_RB_LIST (RF_RB_ARR | RF_RB_SET)

/* Errors without the builtin's name: rf_rb_call puts it before. */
enum rf_rb_result rf_rb_fail(struct rf_err *err, const char *fmt, ...) RF_PRINTF(2, 3);
/* "operand 2 must be ..." */
enum rf_rb_result rf_rb_operand(struct rf_err *err, int pos, const char *fmt, ...) RF_PRINTF(3, 4);
/* "operand 1 must be array of strings but got array containing number" */
enum rf_rb_result rf_rb_element(struct rf_err *err, int pos, struct rf_rv list, struct rf_rv got,
				const char *wanted);
/* An integer written as one (1.0 is none) that fits an int64. */
enum rf_rb_result rf_rb_int(struct rf_rv v, int pos, int64_t *ret, struct rf_err *err);
/* Every item of an array or set is a string. */
enum rf_rb_result rf_rb_all_strings(struct rf_rb_env *e, struct rf_rv list, int pos,
				    struct rf_err *err);

/* Text that becomes a string value. It never grows past what the arena could still hold, and takes
 * fuel as it grows; once that fails, `full` stays set and nothing more is added. */
struct rf_rb_out {
	struct rf_rb_env *e;
	struct rf_buf b;
	size_t max;
	bool full;
};
struct rf_rb_out rf_rb_out_new(struct rf_rb_env *e); /* rf_auto(rb_out) o = rf_rb_out_new(e); */
void rf_rb_out_done(struct rf_rb_out *o);
void rf_rb_out_add(struct rf_rb_out *o, struct rf_str s);
void rf_rb_out_c(struct rf_rb_out *o, char c);
void rf_rb_out_fill(struct rf_rb_out *o, char c, size_t n);
void rf_rb_out_rune(struct rf_rb_out *o, uint32_t c);
/* As Rego prints it; a string's quotes are left off. Values share parts, so the text may be far longer
 * than the value: it is measured first. */
void rf_rb_out_value(struct rf_rb_out *o, struct rf_rv v);
enum rf_rb_result rf_rb_out_str(struct rf_rb_out *o, struct rf_rv *ret); /* into the arena */

/* One code point of s from byte *at on, which is moved behind it. What is not UTF-8 is U+FFFD, one
 * byte each, as in Go. */
uint32_t rf_rb_rune(struct rf_str s, size_t *at);
size_t rf_rb_runes(struct rf_str s); /* how many */

/* Go's fmt.Sprintf over values. */
/* A null whose tag is RF_RB_NIL is Go's nil. */
#define RF_RB_NIL 1
void rf_rb_sprintf(struct rf_rb_out *o, struct rf_str format, const struct rf_rv *arg, size_t n);
/* Go's text/template over an object; RF_RB_ERROR says where. */
enum rf_rb_result rf_rb_template(struct rf_rb_out *o, struct rf_str text, struct rf_rv vars,
				 struct rf_err *err);

/* glob.c: patterns with * ** ? [a-z] [!abc] {a,b} \x, as gobwas/glob has them. */
enum rf_rb_result rf_rb_glob(struct rf_rb_env *e, struct rf_str pattern, const uint32_t *separator,
			     size_t n_separators, struct rf_str text, bool *ret,
			     struct rf_err *err);
/* Do two patterns with . [a-z] x* x+ have a string in common that is not empty? */
enum rf_rb_result rf_rb_globs_meet(struct rf_rb_env *e, struct rf_str a, struct rf_str b, bool *ret,
				   struct rf_err *err);

#endif
