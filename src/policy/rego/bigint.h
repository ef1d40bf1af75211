/* Whole numbers of many digits, for number.c. A magnitude of fixed room and a sign: on the stack, no
 * allocation, and what does not fit is refused. The callers' caps keep everything far below the room. */
#ifndef RF_POLICY_REGO_BIGINT_H
#define RF_POLICY_REGO_BIGINT_H

#include "base/base.h"

/* Enough for 1000 digits times 10^10000 and a few words; 5 KiB. */
#define RF_BIG_LIMBS 640

struct rf_big {
	bool negative;		  /* zero is not */
	uint32_t n;		  /* limbs in use, the highest is not 0; 0: zero */
	uint64_t d[RF_BIG_LIMBS]; /* lowest first; only n of them mean something */
};

/* A local that is not cleared first: 5 KiB each would cost more than most sums. */
#if defined(__has_attribute)
#if __has_attribute(uninitialized)
#define RF_BIG_LOCAL __attribute__((uninitialized)) struct rf_big
#endif
#endif
#ifndef RF_BIG_LOCAL
#define RF_BIG_LOCAL struct rf_big
#endif

void rf_big_set_u64(struct rf_big *b, uint64_t u);
void rf_big_set_i64(struct rf_big *b, int64_t i);
void rf_big_set(struct rf_big *b, const struct rf_big *from);
bool rf_big_to_i64(const struct rf_big *b, int64_t *ret);

/* All of these: false if the room is too small. The result may be an operand unless said otherwise. */
bool rf_big_add(struct rf_big *r, const struct rf_big *x, const struct rf_big *y);
bool rf_big_sub(struct rf_big *r, const struct rf_big *x, const struct rf_big *y);
bool rf_big_mul(struct rf_big *r, const struct rf_big *x,
		const struct rf_big *y);			 /* r is neither */
bool rf_big_mul_add(struct rf_big *b, uint64_t m, uint64_t add); /* of the magnitude */
bool rf_big_pow5(struct rf_big *r, uint32_t k);
bool rf_big_shl(struct rf_big *b, uint32_t k);
/* Of the magnitude: towards zero. *ret_lost (or NULL): some bit that went was set. */
void rf_big_shr(struct rf_big *b, uint32_t k, bool *ret_lost);
/* Towards zero; the remainder has x's sign. y is not 0; q and r are not operands; q may be NULL. */
bool rf_big_divmod(struct rf_big *q, struct rf_big *r, const struct rf_big *x,
		   const struct rf_big *y);
/* op: & | ^, as two's complement without end. */
bool rf_big_bitwise(struct rf_big *r, char op, const struct rf_big *x, const struct rf_big *y);

int rf_big_cmp(const struct rf_big *x, const struct rf_big *y);
uint32_t rf_big_bits(const struct rf_big *b); /* of the magnitude */

bool rf_big_set_digits(struct rf_big *b, const char *digits, size_t n); /* decimal, unsigned */
/* Digits in base 2 to 16 with a sign, to the end of out[room]; returns where they begin, NULL if they do
 * not fit. Destroys b. */
char *rf_big_format(struct rf_big *b, unsigned base, bool upper, char *out, size_t room);

#endif
