/* Random JSON values for property tests: short, deep and nasty enough to meet every branch. */
#ifndef RF_CODEC_TEST_RANDOM_H
#define RF_CODEC_TEST_RANDOM_H

#include "codec/json.h"

static inline struct rf_str random_text(struct rf_arena *a, struct rf_prng *r)
{
	/* What has a meaning somewhere in JSON or YAML, and characters at the edges of ranges. */
	static const char *const bits[] = {
		"a",
		"b",
		"Z",
		"0",
		"1",
		"9",
		" ",
		"  ",
		"\n",
		"\t",
		"\r",
		"\"",
		"'",
		"\\",
		"/",
		":",
		": ",
		" #",
		"#",
		"- ",
		"-",
		"?",
		"? ",
		",",
		"[",
		"]",
		"{",
		"}",
		"&",
		"*",
		"!",
		"|",
		">",
		"%",
		"@",
		"`",
		"---",
		"...",
		"<<",
		"~",
		"null",
		"true",
		"no",
		"y",
		"0x",
		"0o7",
		"1e3",
		".5",
		".inf",
		"_",
		"+",
		"=",
		"1:2",
		"2001-01-01",
		"\xc3\xa9",
		"\xe2\x82\xac",
		"\xf0\x9f\x98\x80",
		"\xc2\x85",
		"\xc2\xa0",
		"\xe2\x80\xa8",
		"\xef\xbb\xbf",
		"\xef\xbf\xbf",
		"\xef\xbf\xbe",
		"\x01",
		"\x7f",
		"\x1b",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
	};
	size_t n = rf_prng_below(r, rf_prng_below(r, 50) == 0 ? 300 : 6);
	rf_auto(buf) out = RF_BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		if (rf_prng_below(r, 40) == 0)
			rf_buf_add_c(&out, '\0');
		rf_buf_puts(&out, bits[rf_prng_below(r, RF_COUNT(bits))]);
	}
	return rf_arena_str(a, rf_buf_str(&out));
}

static inline struct rf_json *random_number(struct rf_arena *a, struct rf_prng *r)
{
	static const char *const odd[] = {
		"0",
		"-0",
		"0.0",
		"-0.0e0",
		"1e3",
		"1E+2",
		"1.50",
		"100e-2",
		"0.1e1",
		"-1.25e-7",
		"9223372036854775807",
		"-9223372036854775808",
		"9007199254740993",
		"1e18",
		"0.000000000000000000001",
		"123456789.000",
	};
	struct rf_json *v;

	if (rf_prng_below(r, 2) == 0)
		return rf_json_number(a, (int64_t)rf_prng_next(r) >> rf_prng_below(r, 64));
	v = rf_json_string(a, rf_str(odd[rf_prng_below(r, RF_COUNT(odd))]));
	v->type = RF_JSON_NUMBER;
	return v;
}

static inline struct rf_json *random_json(struct rf_arena *a, struct rf_prng *r, int depth)
{
	uint64_t kind = rf_prng_below(r, depth > 0 ? 10 : 5);
	uint64_t n = rf_prng_below(r, rf_prng_below(r, 30) == 0 ? 80 : 5);
	struct rf_json *v;

	if (kind == 0)
		return rf_prng_below(r, 2) ? rf_json_null(a) : rf_json_bool(a, rf_prng_below(r, 2));
	if (kind == 1)
		return random_number(a, r);
	if (kind < 5)
		return rf_json_string(a, random_text(a, r));
	v = kind < 7 ? rf_json_array(a) : rf_json_object(a);
	for (uint64_t i = 0; i < n; i++) {
		if (v->type == RF_JSON_ARRAY)
			rf_json_push(a, v, random_json(a, r, depth - 1));
		else
			rf_json_set(a, v, random_text(a, r), random_json(a, r, depth - 1));
	}
	return v;
}

#endif
