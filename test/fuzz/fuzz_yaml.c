/* Any text: read as YAML under a cap; what is accepted is valid JSON, and is written as YAML and
 * read back to the same value. */
#include "codec/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_document(struct rf_arena *a, const struct rf_json *v)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_json *again = NULL;

	rf_json_write(&out, v);
	rf_assert(rf_json_parse(a, rf_buf_str(&out), &again, NULL) == 0);
	rf_assert(rf_json_equal(v, again));
	rf_buf_clear(&out);
	rf_yaml_write(&out, v);
	rf_assert(rf_yaml_parse(a, rf_buf_str(&out), &again, NULL) == 0);
	rf_assert(again->n == 1 && rf_json_equal(v, again->items[0]));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	size_t cap = 1 << 20;
	rf_auto(arena) capped = RF_ARENA_CAPPED(cap);
	rf_auto(arena) free_arena = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;
	int rc = rf_yaml_parse(&capped, rf_str_n((const char *)data, n), &docs, &err);

	rf_assert(capped.used <= cap + 16);
	rf_assert((rc == 0) == (docs != NULL) && (rc == 0) == (err.code == RF_OK));
	for (size_t i = 0; i < rf_json_len(docs); i++)
		check_document(&free_arena, docs->items[i]);
	return 0;
}
