#include "codec/pb.h"

#define FIELD_MAX ((1u << 29) - 1)

/* --- reading -------------------------------------------------------------------------------- */

static int take_varint(struct rf_str *in, uint64_t *ret, struct rf_err *err)
{
	uint64_t value = 0;

	for (size_t i = 0; i < in->n; i++) {
		uint64_t byte = (unsigned char)in->p[i];

		if (i == 9 && byte > 1)
			return rf_fail(err, RF_BAD_REQUEST,
				       "protobuf: varint of more than 64 bits");
		value |= (byte & 0x7f) << (7 * i);
		if (byte < 0x80) {
			*in = rf_str_skip(*in, i + 1);
			*ret = value;
			return 0;
		}
	}
	return rf_fail(err, RF_BAD_REQUEST, "protobuf: the message ends inside a varint");
}

/* Little-endian, n is 4 or 8. */
static int take_fixed(struct rf_str *in, size_t n, uint64_t *ret, struct rf_err *err)
{
	uint64_t value = 0;

	if (in->n < n)
		return rf_fail(err, RF_BAD_REQUEST, "protobuf: %zu bytes left of a fixed %zu",
			       in->n, n);
	for (size_t i = 0; i < n; i++)
		value |= (uint64_t)(unsigned char)in->p[i] << (8 * i);
	*in = rf_str_skip(*in, n);
	*ret = value;
	return 0;
}

static int take_bytes(struct rf_str *in, struct rf_str *ret, struct rf_err *err)
{
	uint64_t n = 0;
	int rc = take_varint(in, &n, err);

	if (rc < 0)
		return rc;
	if (n > in->n)
		return rf_fail(err, RF_BAD_REQUEST, "protobuf: field of %llu bytes, %zu are left",
			       (unsigned long long)n, in->n);
	*ret = rf_str_n(in->p, (size_t)n);
	*in = rf_str_skip(*in, (size_t)n);
	return 0;
}

static int take_payload(struct rf_str *in, struct rf_pb_field *f, struct rf_err *err)
{
	switch (f->wire) {
	case RF_PB_VARINT:
		return take_varint(in, &f->value, err);
	case RF_PB_FIXED64:
		return take_fixed(in, 8, &f->value, err);
	case RF_PB_BYTES:
		return take_bytes(in, &f->bytes, err);
	case RF_PB_FIXED32:
		return take_fixed(in, 4, &f->value, err);
	}
	return rf_fail(err, RF_BAD_REQUEST,
		       "protobuf: field %u has wire type %d (groups are not read)", f->number,
		       (int)f->wire);
}

int rf_pb_next(struct rf_str *in, struct rf_pb_field *ret, struct rf_err *err)
{
	struct rf_pb_field f = { .bytes = RF_STR_EMPTY };
	struct rf_str rest = *in;
	uint64_t tag = 0;
	int rc;

	if (rest.n == 0)
		return 0;
	rc = take_varint(&rest, &tag, err);
	if (rc < 0)
		return rc;
	if (tag >> 3 == 0 || tag >> 3 > FIELD_MAX)
		return rf_fail(err, RF_BAD_REQUEST, "protobuf: field number %llu",
			       (unsigned long long)(tag >> 3));
	f.number = (uint32_t)(tag >> 3);
	f.wire = (enum rf_pb_wire)(tag & 7);
	rc = take_payload(&rest, &f, err);
	if (rc < 0)
		return rc;
	*in = rest;
	*ret = f;
	return 1;
}

/* --- writing -------------------------------------------------------------------------------- */

static void put_varint(struct rf_buf *out, uint64_t value)
{
	char bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (char)(value | 0x80);
	bytes[n++] = (char)value;
	rf_buf_add(out, rf_str_n(bytes, n));
}

static void put_tag(struct rf_buf *out, uint32_t number, enum rf_pb_wire wire)
{
	rf_assert(number >= 1 && number <= FIELD_MAX);
	put_varint(out, (uint64_t)number << 3 | wire);
}

void rf_pb_put_varint(struct rf_buf *out, uint32_t number, uint64_t value)
{
	put_tag(out, number, RF_PB_VARINT);
	put_varint(out, value);
}

void rf_pb_put_bytes(struct rf_buf *out, uint32_t number, struct rf_str bytes)
{
	put_tag(out, number, RF_PB_BYTES);
	put_varint(out, bytes.n);
	rf_buf_add(out, bytes);
}
