/* Any text: jansson says the same of it (see codec/test_jansson.h for what is left out), and what
 * is accepted is written and read back to the same value. */
#include "codec/json.h"
#include "codec/test_jansson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_write_and_read(struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_json *v = NULL, *again = NULL;

	rf_assert(rf_json_parse(&a, text, &v, NULL) == 0);
	rf_json_write(&out, v);
	rf_assert(rf_json_parse(&a, rf_buf_str(&out), &again, NULL) == 0);
	rf_assert(rf_json_equal(v, again) && rf_json_equal(again, rf_json_clone(&a, v)));
	rf_buf_clear(&out);
	rf_json_write_pretty(&out, v);
	rf_assert(rf_json_parse(&a, rf_buf_str(&out), &again, NULL) == 0);
	rf_assert(rf_json_equal(v, again));
}

/* A cap may refuse, and may not be passed. */
static void check_cap(struct rf_str text)
{
	size_t cap = 256 + text.n;
	rf_auto(arena) a = RF_ARENA_CAPPED(cap);
	struct rf_json *v = NULL;

	(void)!rf_json_parse(&a, text, &v, NULL);
	rf_assert(a.used <= cap + 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct rf_str text = rf_str_n((const char *)data, n);
	bool accepted;

	rf_assert(agrees_with_jansson(text, &accepted));
	if (accepted)
		check_write_and_read(text);
	check_cap(text);
	return 0;
}
