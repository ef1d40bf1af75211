/* Base64 of RFC 4648: standard alphabet with padding, and the URL one without (JWT). */
#ifndef RF_CODEC_BASE64_H
#define RF_CODEC_BASE64_H

#include "base/base.h"

struct rf_str rf_base64_encode(struct rf_arena *a, struct rf_str bytes);
struct rf_str rf_base64url_encode(struct rf_arena *a, struct rf_str bytes);
/* Strict: alphabet, padding and spare bits are checked. */
int rf_base64_decode(struct rf_arena *a, struct rf_str text, struct rf_str *ret,
		     struct rf_err *err);
int rf_base64url_decode(struct rf_arena *a, struct rf_str text, struct rf_str *ret,
			struct rf_err *err);

#endif
