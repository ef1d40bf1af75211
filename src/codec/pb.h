/* Protobuf's wire format: a reader that walks fields and a writer that appends them. Who knows what
 * the fields mean lives elsewhere (apiserver/kinds for Kubernetes objects, node for gRPC). */
#ifndef RF_CODEC_PB_H
#define RF_CODEC_PB_H

#include "base/base.h"

enum rf_pb_wire { RF_PB_VARINT = 0, RF_PB_FIXED64 = 1, RF_PB_BYTES = 2, RF_PB_FIXED32 = 5 };

struct rf_pb_field {
	uint32_t number;
	enum rf_pb_wire wire;
	uint64_t value;	     /* varint, fixed64, fixed32 */
	struct rf_str bytes; /* points into the input */
};

/* Takes the next field off *in: 1 with a field, 0 at the end, negative if malformed. */
int rf_pb_next(struct rf_str *in, struct rf_pb_field *ret, struct rf_err *err);

void rf_pb_put_varint(struct rf_buf *out, uint32_t number, uint64_t value);
void rf_pb_put_bytes(struct rf_buf *out, uint32_t number, struct rf_str bytes);

#endif
