#include "net/grpc_message.h"

#include <arpa/inet.h>
#include <stdio.h>

#define TEXT_MAX 4096 /* encoded: half of what a careful peer takes as headers */

/* --- messages --------------------------------------------------------------------------------- */

void rf_grpc_reader_done(struct rf_grpc_reader *r)
{
	rf_buf_done(&r->body);
	*r = (struct rf_grpc_reader)RF_GRPC_READER_INIT;
}

static int check_prefix(struct rf_grpc_reader *r, struct rf_err *err)
{
	uint32_t big_endian;

	if (r->prefix[0] != 0)
		return rf_fail(err, RF_UNSUPPORTED,
			       "the message is compressed; send it without compression");
	memcpy(&big_endian, r->prefix + 1, sizeof(big_endian));
	r->want = ntohl(big_endian);
	if (r->want > RF_GRPC_MESSAGE_MAX)
		return rf_fail(err, RF_TOO_LARGE, "a message of %u bytes is over the limit of %u",
			       r->want, RF_GRPC_MESSAGE_MAX);
	return 0;
}

int rf_grpc_reader_feed(struct rf_grpc_reader *r, struct rf_str data, struct rf_err *err)
{
	while (r->n_prefix < RF_GRPC_PREFIX && data.n > 0) {
		r->prefix[r->n_prefix++] = (unsigned char)data.p[0];
		data = rf_str_skip(data, 1);
		if (r->n_prefix == RF_GRPC_PREFIX && check_prefix(r, err) < 0)
			return -err->code;
	}
	if (data.n > r->want - r->body.n)
		return rf_fail(err, RF_INTERNAL, "more than one message came where one is due");
	if (data.n > 0)
		rf_buf_add(&r->body, data);
	return 0;
}

int rf_grpc_reader_end(const struct rf_grpc_reader *r, struct rf_err *err)
{
	if (r->n_prefix == 0)
		return rf_fail(err, RF_INTERNAL, "no message came where one is due");
	if (r->n_prefix < RF_GRPC_PREFIX)
		return rf_fail(err, RF_INTERNAL, "the message was cut off in its prefix");
	if (r->body.n < r->want)
		return rf_fail(err, RF_INTERNAL, "the message was cut off: %zu of %u bytes came",
			       r->body.n, r->want);
	return 0;
}

void rf_grpc_frame(struct rf_buf *out, struct rf_str message)
{
	uint32_t big_endian = htonl((uint32_t)message.n);

	rf_assert(message.n <= RF_GRPC_MESSAGE_MAX);
	rf_buf_reserve(out, RF_GRPC_PREFIX + message.n);
	rf_buf_add_c(out, 0);
	rf_buf_add(out, rf_str_n((const char *)&big_endian, sizeof(big_endian)));
	rf_buf_add(out, message);
}

/* --- statuses --------------------------------------------------------------------------------- */

enum rf_grpc_status rf_grpc_status_of(int rf_code)
{
	return (enum rf_grpc_status)rf_code_info(rf_code)->grpc;
}

/* Where several codes share a status the last one in the table is the more general. */
enum rf_code rf_grpc_code_of(int64_t status)
{
	for (int code = RF_CODE_COUNT - 1; code >= 0; code--)
		if (rf_code_info(code)->grpc == status)
			return (enum rf_code)code;
	if (status == RF_GRPC_FAILED_PRECONDITION)
		return RF_CONFLICT;
	if (status == RF_GRPC_CANCELLED)
		return RF_UNAVAILABLE;
	return RF_INTERNAL;
}

/* --- texts ------------------------------------------------------------------------------------ */

static bool is_plain(unsigned char c)
{
	return c >= ' ' && c <= '~' && c != '%';
}

void rf_grpc_text_encode(struct rf_buf *out, struct rf_str text)
{
	size_t end = out->n + TEXT_MAX - 3;

	for (size_t i = 0; i < text.n && out->n <= end; i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (is_plain(c))
			rf_buf_add_c(out, (char)c);
		else
			rf_buf_printf(out, "%%%02X", c);
	}
}

static int hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

void rf_grpc_text_decode(struct rf_buf *out, struct rf_str text)
{
	for (size_t i = 0; i < text.n; i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c == '%' && i + 2 < text.n && hex(text.p[i + 1]) >= 0 &&
		    hex(text.p[i + 2]) >= 0) {
			c = (unsigned char)(hex(text.p[i + 1]) * 16 + hex(text.p[i + 2]));
			i += 2;
		}
		rf_buf_add_c(out, c < ' ' || c == 0x7f ? ' ' : (char)c);
	}
}

/* --- headers ---------------------------------------------------------------------------------- */

static int64_t unit_ns(char unit)
{
	switch (unit) {
	case 'H':
		return 3600000000000;
	case 'M':
		return 60000000000;
	case 'S':
		return 1000000000;
	case 'm':
		return 1000000;
	case 'u':
		return 1000;
	case 'n':
		return 1;
	default:
		return 0;
	}
}

int rf_grpc_timeout_parse(struct rf_str text, int64_t *ret_ms, struct rf_err *err)
{
	int64_t unit = text.n >= 2 && text.n <= 9 ? unit_ns(text.p[text.n - 1]) : 0;
	int64_t n = 0;

	for (size_t i = 0; unit != 0 && i + 1 < text.n; i++) {
		if (text.p[i] < '0' || text.p[i] > '9')
			unit = 0;
		n = n * 10 + (text.p[i] - '0');
	}
	if (unit == 0)
		return rf_fail(err, RF_BAD_REQUEST,
			       "grpc-timeout is not at most 8 digits and one of H M S m u n");
	if (unit >= 1000000)
		*ret_ms = n * (unit / 1000000);
	else
		*ret_ms = (n * unit + 999999) / 1000000;
	return 0;
}

void rf_grpc_timeout_format(int64_t ms, char ret[16])
{
	ms = RF_MAX(ms, 1);
	if (ms <= 99999999)
		snprintf(ret, 16, "%dm", (int)ms);
	else
		snprintf(ret, 16, "%dS", (int)RF_MIN(ms / 1000, 99999999));
}

bool rf_grpc_is_content_type(struct rf_str value)
{
	struct rf_str type = RF_STR_EMPTY;

	rf_str_cut(&value, ';', &type);
	type = rf_str_trim(type);
	return rf_str_is(type, "application/grpc") || rf_str_is(type, "application/grpc+proto");
}
