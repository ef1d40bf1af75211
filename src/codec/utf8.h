/* UTF-8, one character at a time. Private to this room. */
#ifndef RF_CODEC_UTF8_H
#define RF_CODEC_UTF8_H

#include "base/base.h"

/* Bytes of the well-formed character at p, which has n >= 1 bytes behind it; 0 if it is not one:
 * overlong forms, surrogates and anything past U+10FFFF included. */
static inline size_t rf_utf8_char(const char *p, size_t n)
{
	const unsigned char *u = (const unsigned char *)p;
	unsigned char least = 0x80, most = 0xbf; /* for the second byte */
	size_t need;

	if (u[0] < 0x80)
		return 1;
	if (u[0] < 0xc2 || u[0] > 0xf4)
		return 0;
	need = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
	if (n < need)
		return 0;
	if (u[0] == 0xe0)
		least = 0xa0;
	else if (u[0] == 0xed)
		most = 0x9f;
	else if (u[0] == 0xf0)
		least = 0x90;
	else if (u[0] == 0xf4)
		most = 0x8f;
	if (u[1] < least || u[1] > most)
		return 0;
	for (size_t i = 2; i < need; i++)
		if ((u[i] & 0xc0) != 0x80)
			return 0;
	return need;
}

/* Writes a code point that is not a surrogate; returns its length, at most 4. */
static inline size_t rf_utf8_put(char *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

#endif
