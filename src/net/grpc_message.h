/* What gRPC puts into HTTP/2, without any I/O: length-prefixed messages, statuses, their texts,
 * timeouts. */
#ifndef RF_NET_GRPC_MESSAGE_H
#define RF_NET_GRPC_MESSAGE_H

#include "net/grpc.h"

#define RF_GRPC_MESSAGE_MAX (16u * 1024 * 1024)
#define RF_GRPC_HEADERS_MAX 8192u /* names and values of one side of one call */
#define RF_GRPC_PREFIX 5	  /* a flag and the length, before each message */

/* Reads the one message of a unary request or answer, in whatever pieces it comes. */
struct rf_grpc_reader {
	unsigned char prefix[RF_GRPC_PREFIX];
	size_t n_prefix;
	uint32_t want;
	struct rf_buf body; /* as much as has come; memory follows the bytes, not their promise */
};

#define RF_GRPC_READER_INIT                                                                        \
	{                                                                                          \
		.body = RF_BUF_INIT                                                                \
	}

void rf_grpc_reader_done(struct rf_grpc_reader *r);
/* RF_UNSUPPORTED: compressed. RF_TOO_LARGE: over the cap. RF_INTERNAL: a second message. */
int rf_grpc_reader_feed(struct rf_grpc_reader *r, struct rf_str data, struct rf_err *err);
/* No more comes: RF_INTERNAL unless there was exactly one whole message. */
int rf_grpc_reader_end(const struct rf_grpc_reader *r, struct rf_err *err);

/* Appends the prefix and the message, which is at most RF_GRPC_MESSAGE_MAX long. */
void rf_grpc_frame(struct rf_buf *out, struct rf_str message);

/* The nearest code of ours for a status on the wire; RF_OK for 0 only. */
enum rf_code rf_grpc_code_of(int64_t status);

/* grpc-message. Encoding stops where the headers would get too large for a peer; decoding turns
 * control characters into spaces and leaves alone what is not encoded properly. */
void rf_grpc_text_encode(struct rf_buf *out, struct rf_str text);
void rf_grpc_text_decode(struct rf_buf *out, struct rf_str text);

/* grpc-timeout: at most 8 digits and a unit. Fractions of a millisecond are rounded up. */
int rf_grpc_timeout_parse(struct rf_str text, int64_t *ret_ms, struct rf_err *err);
void rf_grpc_timeout_format(int64_t ms, char ret[16]);

/* "application/grpc", "application/grpc+proto", either with parameters. */
bool rf_grpc_is_content_type(struct rf_str value);

#endif
