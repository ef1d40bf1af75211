/* Selectors come in URLs from anybody: no text may crash the parsers, and what is accepted must be
 * usable for matching. Every object is matched by an empty selector, so that is checked as well. */
#include <stdint.h>

#include "kube/kube.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)16 << 20);
	struct rf_str text = rf_str_n((const char *)data, size), value;
	struct rf_json *object = rf_json_make(&a, "{'a':'b','n':'7','metadata':{'name':'p'}}");
	struct rf_selector *s = NULL;
	struct rf_json *parsed;

	if (rf_label_selector_parse(&a, text, &s, NULL) == 0)
		rf_assert(rf_label_selector_match(s, object) || rf_selector_key(s, 0).n > 0);
	if (rf_field_selector_parse(&a, text, &s, NULL) == 0) {
		rf_assert(rf_field_selector_match(s, object) || rf_selector_key(s, 0).n > 0);
		rf_field_selector_exact(s, "metadata.name", &value);
	}
	if (rf_json_parse(&a, text, &parsed, NULL) == 0 &&
	    rf_label_selector_from(&a, parsed, &s, NULL) == 0)
		rf_assert(rf_label_selector_match(s, object) || rf_selector_key(s, 0).n > 0);
	return 0;
}
