/* What the files of this room share and nobody else needs. */
#ifndef RF_CODEC_JSON_PRIVATE_H
#define RF_CODEC_JSON_PRIVATE_H

#include "codec/json.h"

/* The index of the first member whose key appeared before, or n if all differ. Near-linear in n:
 * the keys are a tenant's choice. */
size_t rf_json_find_duplicate(const struct rf_json_member *m, size_t n);

/* Bytes of the JSON number at the start of s; 0 if there is none. */
size_t rf_json_number_len(struct rf_str s);
/* The same value: 1e3 and 1000.0 are. Both must be JSON numbers. */
bool rf_json_number_equal(struct rf_str a, struct rf_str b);
/* Whether that JSON number is whole and fits, however it is written. */
bool rf_json_number_whole(struct rf_str text, int64_t *ret);

#endif
