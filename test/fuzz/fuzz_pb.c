/* Any bytes: walked as protobuf, three messages deep; varints and byte fields are written again and
 * read back the same. Base64 rides along: what decodes encodes to the same text. */
#include "codec/base64.h"
#include "codec/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_field(const struct rf_pb_field *f)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_pb_field again;
	struct rf_str in;

	if (f->wire == RF_PB_VARINT)
		rf_pb_put_varint(&out, f->number, f->value);
	else if (f->wire == RF_PB_BYTES)
		rf_pb_put_bytes(&out, f->number, f->bytes);
	else
		return;
	in = rf_buf_str(&out);
	rf_assert(rf_pb_next(&in, &again, NULL) == 1 && in.n == 0);
	rf_assert(again.number == f->number && again.value == f->value);
	rf_assert(rf_str_eq(again.bytes, f->bytes));
}

static void walk(struct rf_str in, int depth)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_pb_field f;
	int rc;

	for (;;) {
		struct rf_str before = in;

		rc = rf_pb_next(&in, &f, &err);
		if (rc <= 0)
			break;
		rf_assert(in.n < before.n && in.p + in.n == before.p + before.n);
		check_field(&f);
		if (f.wire == RF_PB_BYTES && depth > 0)
			walk(f.bytes, depth - 1);
	}
	rf_assert(rc == 0 ? in.n == 0 : rc == -err.code);
}

static void check_base64(struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str bytes;

	if (rf_base64_decode(&a, text, &bytes, NULL) == 0)
		rf_assert(rf_str_eq(rf_base64_encode(&a, bytes), text));
	if (rf_base64url_decode(&a, text, &bytes, NULL) == 0)
		rf_assert(rf_str_eq(rf_base64url_encode(&a, bytes), text));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct rf_str in = rf_str_n((const char *)data, n);

	walk(in, 3);
	check_base64(in);
	return 0;
}
