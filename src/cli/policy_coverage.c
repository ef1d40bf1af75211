/* `policy test --coverage`: which lines the tests came by, for people or, with -o json, as OPA writes it. */
#include <math.h>

#include "cli/policy.h"

/* --- for people --- */

/* " 3-5 9": what the ranges touch, lines in a row together. */
static void add_lines(struct rf_buf *out, const struct rf_rego_ranges *r)
{
	for (uint32_t i = 0, j; i < r->n; i = j) {
		uint32_t from = r->at[i].row, to = r->at[i].end_row;

		for (j = i + 1; j < r->n && r->at[j].row <= to + 1; j++)
			to = RF_MAX(to, r->at[j].end_row);
		rf_buf_printf(out, to > from ? " %u-%u" : " %u", from, to);
	}
}

static void print_text(const struct rf_rego_coverage_report *r, struct rf_buf *out)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct rf_rego_file_coverage *f = &r->file[i];

		rf_buf_printf(out, "%.*s: %.1f%%\n", RF_STR(f->file), f->percent);
		if (f->covered.n) {
			rf_buf_puts(out, "  covered    ");
			add_lines(out, &f->covered);
			rf_buf_add_c(out, '\n');
		}
		if (f->not_covered.n) {
			rf_buf_puts(out, "  not covered");
			add_lines(out, &f->not_covered);
			rf_buf_add_c(out, '\n');
		}
	}
	rf_buf_printf(out, "coverage: %.1f%%, %u of %u lines\n", r->percent, r->covered_lines,
		      r->covered_lines + r->not_covered_lines);
}

/* --- as OPA writes it --- */

static void add_ranges(struct rf_buf *out, const char *name, const struct rf_rego_ranges *r)
{
	rf_buf_printf(out, "      \"%s\": [", name);
	for (uint32_t i = 0; i < r->n; i++)
		rf_buf_printf(out,
			      "%s\n        {\"start\": {\"row\": %u, \"col\": %u}, \"end\": {\"row\": %u, \"col\": %u}}",
			      i ? "," : "", r->at[i].row, r->at[i].col, r->at[i].end_row, r->at[i].end_col);
	rf_buf_puts(out, r->n ? "\n      ],\n" : "],\n");
}

static void add_counts(struct rf_buf *out, const char *indent, uint32_t covered, uint32_t not_covered, double percent)
{
	rf_buf_printf(out, "%s\"covered_lines\": %u,\n%s\"not_covered_lines\": %u,\n%s\"coverage\": %.15g\n", indent,
		      covered, indent, not_covered, indent, percent);
}

static void print_json(const struct rf_rego_coverage_report *r, struct rf_buf *out)
{
	rf_buf_puts(out, "{\n  \"files\": {");
	for (uint32_t i = 0; i < r->n; i++) {
		const struct rf_rego_file_coverage *f = &r->file[i];

		rf_buf_puts(out, i ? ",\n    " : "\n    ");
		rf_json_write_str(out, f->file);
		rf_buf_puts(out, ": {\n");
		add_ranges(out, "covered", &f->covered);
		add_ranges(out, "not_covered", &f->not_covered);
		add_counts(out, "      ", f->covered.lines, f->not_covered.lines, f->percent);
		rf_buf_puts(out, "    }");
	}
	rf_buf_puts(out, "\n  },\n");
	add_counts(out, "  ", r->covered_lines, r->not_covered_lines, r->percent);
	rf_buf_puts(out, "}\n");
}

/* --- */

int rf_policy_coverage_options(struct rf_policy_coverage *ret, struct rf_err *err)
{
	const char *o = rf_policy_opt.output, *t = rf_policy_opt.threshold;
	char *end;

	*ret = (struct rf_policy_coverage){ .wanted = rf_policy_opt.coverage || t != NULL };
	if (o && (!ret->wanted || (strcmp(o, "json") != 0 && strcmp(o, "pretty") != 0)))
		return rf_fail(err, RF_BAD_REQUEST, "test cannot print as \"%s\"; with --coverage -o is json or pretty", o);
	ret->json = o && strcmp(o, "json") == 0;
	if (!t)
		return 0;
	ret->threshold = strtod(t, &end);
	if (end == t || *end || !isfinite(ret->threshold) || ret->threshold < 0 || ret->threshold > 100)
		return rf_fail(err, RF_BAD_REQUEST, "--threshold is a number of percent from 0 to 100, not \"%s\"", t);
	return 0;
}

bool rf_policy_coverage_print(const struct rf_policy_coverage *c, const struct rf_rego *rego, struct rf_arena *a)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_rego_coverage_report r;

	rf_rego_coverage_report(&c->seen, rego, a, &r);
	if (c->json)
		print_json(&r, &out);
	else
		print_text(&r, &out);
	fwrite(out.p, 1, out.n, stdout);
	if (r.percent >= c->threshold)
		return true;
	fflush(stdout);
	fprintf(stderr, "the tests cover %.2f%% of the lines; --threshold asks for %.2f%%\n", r.percent, c->threshold);
	return false;
}
