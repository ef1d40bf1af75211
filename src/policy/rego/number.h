/* Numbers as OPA has them: integers of any size exactly, others as decimals that are computed with a
 * 64-bit mantissa (as Go's big.Float of that precision, in integer arithmetic: the same on every machine)
 * and keep the text they were written with until something is computed from them.
 *
 * Caps, because numbers come from tenants: 1000 digits, exponents up to 10000 either way; a whole number
 * that is computed with has at most 1000 digits too. Beyond: false or RF_RN_FULL. Comparing, hashing and
 * printing work on the decimal text and never expand an exponent. */
#ifndef RF_POLICY_REGO_NUMBER_H
#define RF_POLICY_REGO_NUMBER_H

#include "policy/rego/value.h"

#define RF_RN_DIGITS_MAX 1000
#define RF_RN_EXPONENT_MAX 10000

/* The value is 0.DIGITS times 10^point, exactly. */
struct rf_rv_number {
	struct rf_str text;   /* as it prints */
	const char *digits;   /* without zeros at either end, without a point; none: zero */
	uint32_t n_digits;
	int32_t point;
	int64_t i;	      /* near: the value cut to a whole number */
	bool near;	      /* its whole part fits an int64 */
	bool is_int;	      /* a whole number, however it is written: 1.0 and 1e3 are */
	bool negative;	      /* of -0 too, which equals 0 and prints as it was written */
};

/* The text is copied. False: no number, beyond the caps, or the arena is full. Takes JSON's numbers, and
 * (for to_number) also a leading + or zeros and a point at either end; those print as JSON would have
 * them. */
bool rf_rn_parse(struct rf_arena *a, struct rf_str text, struct rf_rv *ret);
/* The same without a copy: text must live as long as the value. */
bool rf_rn_parse_in_place(struct rf_arena *a, struct rf_str text, struct rf_rv *ret);
/* Whether rf_rn_parse would take it, were there memory. */
bool rf_rn_is_number(struct rf_str text);
/* Shortest text that reads back the same; whole numbers that fit an int64 become one. Not finite: false. */
bool rf_rn_from_double(struct rf_arena *a, double d, struct rf_rv *ret);
bool rf_rn_from_uint(struct rf_arena *a, uint64_t u, struct rf_rv *ret);

int rf_rn_cmp(struct rf_rv a, struct rf_rv b);
uint64_t rf_rn_hash(struct rf_rv n);
void rf_rn_print(struct rf_buf *out, struct rf_rv n);
bool rf_rn_int64(struct rf_rv n, int64_t *ret); /* is a whole number that fits (1.0 is) */
/* Written as one, as operands of builtins have to be: 2, -0 and 2.0 are, 1e3 is not. */
bool rf_rn_written_int(struct rf_rv n, int64_t *ret);
bool rf_rn_is_whole(struct rf_rv n);
double rf_rn_double(struct rf_rv n);

enum rf_rn_result {
	RF_RN_OK,
	RF_RN_FULL,	      /* the arena, or a cap above */
	RF_RN_DIVIDE_BY_ZERO, /* div and rem */
	RF_RN_NOT_WHOLE,      /* rem and bits */
	RF_RN_NEGATIVE,	      /* a shift by less than 0 */
};
/* Whole numbers (1.0 and 1e3 are) are added, subtracted and multiplied exactly; everything else, division
 * and the four of one operand always, with 64 bits. */
enum rf_rn_result rf_rn_add(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret);
enum rf_rn_result rf_rn_sub(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret);
enum rf_rn_result rf_rn_mul(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret);
enum rf_rn_result rf_rn_div(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret);
enum rf_rn_result rf_rn_rem(struct rf_arena *a, struct rf_rv x, struct rf_rv y, struct rf_rv *ret);
enum rf_rn_result rf_rn_abs(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret);
enum rf_rn_result rf_rn_round(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret);
/* As OPA has it between -1 and 0: ceil(-0.5) is 1, floor(-0.5) is 0. */
enum rf_rn_result rf_rn_ceil(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret);
enum rf_rn_result rf_rn_floor(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret);
/* Bits, on integers of any size as two's complement without end. op: & | ^ ~ (y is not
 * looked at) < (shift left) > */
enum rf_rn_result rf_rn_bits(struct rf_arena *a, char op, struct rf_rv x, struct rf_rv y,
			     struct rf_rv *ret);
enum rf_rn_result rf_rn_trunc(struct rf_arena *a, struct rf_rv x, struct rf_rv *ret); /* towards 0 */
/* False: not whole, or beyond the caps. In base 2, 8, 10, 16 with Go's digits; for sprintf and format_int. */
bool rf_rn_format_int(struct rf_buf *out, struct rf_rv whole, int base, bool upper);

#endif
