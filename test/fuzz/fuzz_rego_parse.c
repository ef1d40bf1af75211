/* Any text: read as a module of Rego under a cap, v0 or v1 by the first byte. What is accepted is
 * formatted, read again to the same tree, and formatting it again changes nothing. */
#include "policy/rego/ast.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_format(const struct rf_ra_module *m, enum rf_ra_version version)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	rf_auto(buf) text2 = RF_BUF_INIT;
	rf_auto(buf) tree = RF_BUF_INIT;
	rf_auto(buf) tree2 = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_ra_module *again = NULL;

	rf_ra_format(&text, m);
	rf_assert(rf_ra_parse(&a, RF_LIT("again.rego"), rf_buf_str(&text), version, &again,
			      &errors) == 0);
	rf_ra_dump(&tree, m);
	rf_ra_dump(&tree2, again);
	rf_assert(rf_str_eq(rf_buf_str(&tree), rf_buf_str(&tree2)));
	rf_ra_format(&text2, again);
	rf_assert(rf_str_eq(rf_buf_str(&text), rf_buf_str(&text2)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(64u << 20);
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_ra_module *m = NULL;
	struct rf_ra_body *b = NULL;
	enum rf_ra_version version = n > 0 && data[0] == '0' ? RF_RA_V0 : RF_RA_V1;
	struct rf_str s = rf_str_skip(rf_str_n((const char *)data, n), 1);
	int rc = rf_ra_parse(&a, RF_LIT("fuzz.rego"), s, version, &m, &errors);

	rf_assert((rc == 0) == (m != NULL) && (rc == 0) == (errors.n == 0));
	if (rc == 0)
		check_format(m, version);
	rf_ra_print_errors(&text, &errors);
	errors.n = 0;
	rc = rf_ra_parse_body(&a, RF_LIT("query"), s, version, &b, &errors);
	rf_assert((rc == 0) == (b != NULL && b->n > 0) && (rc == 0) == (errors.n == 0));
	return 0;
}
