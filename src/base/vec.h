/* Vector: a growing array of any type.
 *
 *	RF_VEC(struct pod *) pods = RF_VEC_INIT;
 *	rf_vec_push(&pods, pod);
 *	for (size_t i = 0; i < pods.n; i++) use(pods.at[i]);
 *	rf_vec_done(&pods);
 */
#ifndef RF_BASE_VEC_H
#define RF_BASE_VEC_H

#include <string.h>

#include "base/macro.h"

#define RF_VEC(type)                                                                               \
	struct {                                                                                   \
		type *at;                                                                          \
		size_t n;                                                                          \
		size_t cap;                                                                        \
	}
#define RF_VEC_INIT { NULL, 0, 0 }

#define rf_vec_push(v, item)                                                                       \
	do {                                                                                       \
		if ((v)->n == (v)->cap) {                                                          \
			(v)->cap = (v)->cap ? (v)->cap * 2 : 8;                                    \
			(v)->at = rf_realloc((v)->at, (v)->cap * sizeof(*(v)->at));                \
		}                                                                                  \
		(v)->at[(v)->n++] = (item);                                                        \
	} while (0)
/* Removes item i and keeps the order of the rest. */
#define rf_vec_remove(v, i)                                                                        \
	do {                                                                                       \
		size_t rf_i_ = (i);                                                                \
		rf_assert(rf_i_ < (v)->n);                                                         \
		memmove(&(v)->at[rf_i_], &(v)->at[rf_i_ + 1],                                      \
			((v)->n - rf_i_ - 1) * sizeof(*(v)->at));                                  \
		(v)->n--;                                                                          \
	} while (0)
#define rf_vec_clear(v) ((void)((v)->n = 0))
#define rf_vec_done(v)                                                                             \
	do {                                                                                       \
		free((v)->at);                                                                     \
		(v)->at = NULL;                                                                    \
		(v)->n = (v)->cap = 0;                                                             \
	} while (0)

#endif
