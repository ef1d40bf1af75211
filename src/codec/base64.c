#include "codec/base64.h"

static const char standard[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* --- encoding ------------------------------------------------------------------------------- */

/* 1 to 3 bytes become n + 1 characters. */
static char *encode_group(char *out, const unsigned char *in, size_t n, const char *alphabet)
{
	uint32_t bits = (uint32_t)in[0] << 16;

	if (n > 1)
		bits |= (uint32_t)in[1] << 8;
	if (n > 2)
		bits |= in[2];
	for (size_t i = 0; i <= n; i++)
		*out++ = alphabet[bits >> (18 - 6 * i) & 63];
	return out;
}

static struct rf_str encode(struct rf_arena *a, struct rf_str bytes, const char *alphabet, bool pad)
{
	const unsigned char *in = (const unsigned char *)bytes.p;
	char *text, *w;

	rf_assert(bytes.n < SIZE_MAX / 4);
	text = w = rf_arena_alloc(a, (bytes.n + 2) / 3 * 4 + 1);
	for (size_t i = 0; i < bytes.n; i += 3)
		w = encode_group(w, in + i, RF_MIN(bytes.n - i, (size_t)3), alphabet);
	while (pad && (w - text) % 4 != 0)
		*w++ = '=';
	return rf_str_n(text, (size_t)(w - text));
}

struct rf_str rf_base64_encode(struct rf_arena *a, struct rf_str bytes)
{
	return encode(a, bytes, standard, true);
}

struct rf_str rf_base64url_encode(struct rf_arena *a, struct rf_str bytes)
{
	return encode(a, bytes, url, false);
}

/* --- decoding ------------------------------------------------------------------------------- */

static int digit_value(char c, const char *alphabet)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == alphabet[62])
		return 62;
	return c == alphabet[63] ? 63 : -1;
}

/* 2 to 4 characters become n - 1 bytes; false where the bits left over are not zero, since then two
 * texts would mean the same bytes. */
static bool decode_group(char *out, const char *in, size_t n, const char *alphabet)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < n; i++)
		bits |= (uint32_t)digit_value(in[i], alphabet) << (18 - 6 * i);
	for (size_t i = 0; i + 1 < n; i++)
		out[i] = (char)(bits >> (16 - 8 * i) & 255);
	return (bits & (0xffffffu >> (8 * (n - 1)))) == 0;
}

static int check_alphabet(struct rf_str text, const char *alphabet, struct rf_err *err)
{
	for (size_t i = 0; i < text.n; i++)
		if (digit_value(text.p[i], alphabet) < 0)
			return rf_fail(err, RF_BAD_REQUEST, "base64: byte 0x%02x at offset %zu",
				       (unsigned char)text.p[i], i);
	if (text.n % 4 == 1)
		return rf_fail(err, RF_BAD_REQUEST, "base64: cut short after %zu characters",
			       text.n);
	return 0;
}

/* text has no padding any more. */
static int decode(struct rf_arena *a, struct rf_str text, const char *alphabet, struct rf_str *ret,
		  struct rf_err *err)
{
	size_t n = 0;
	char *bytes;
	int rc = check_alphabet(text, alphabet, err);

	if (rc < 0)
		return rc;
	bytes = rf_arena_try(a, text.n / 4 * 3 + 3);
	if (bytes == NULL)
		return rf_fail(err, RF_TOO_LARGE,
			       "base64: %zu characters do not fit the memory allowed", text.n);
	for (size_t i = 0; i < text.n; i += 4) {
		size_t group = RF_MIN(text.n - i, (size_t)4);

		if (!decode_group(bytes + n, text.p + i, group, alphabet))
			return rf_fail(err, RF_BAD_REQUEST,
				       "base64: spare bits at the end are not zero");
		n += group - 1;
	}
	*ret = rf_str_n(bytes, n);
	return 0;
}

int rf_base64_decode(struct rf_arena *a, struct rf_str text, struct rf_str *ret, struct rf_err *err)
{
	if (text.n % 4 != 0)
		return rf_fail(err, RF_BAD_REQUEST,
			       "base64: %zu characters; the padded length is a multiple of 4",
			       text.n);
	for (int i = 0; i < 2 && text.n > 0 && text.p[text.n - 1] == '='; i++)
		text.n--;
	return decode(a, text, standard, ret, err);
}

int rf_base64url_decode(struct rf_arena *a, struct rf_str text, struct rf_str *ret,
			struct rf_err *err)
{
	return decode(a, text, url, ret, err);
}
