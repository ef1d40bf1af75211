/* Coverage: from the spots that were seen to ranges and lines of each file. */
#include <stdlib.h>

#include "policy/rego/coverage.h"
#include "policy/rego/plan.h"

struct rf_rego_coverage rf_rego_coverage(const struct rf_rego *r, struct rf_arena *a)
{
	return (struct rf_rego_coverage){ rf_arena_array(a, bool, r->n_spots + 1) };
}

/* By place; where two begin together, the longer first. */
static int by_place(const void *a, const void *b)
{
	const struct rf_ra_loc *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->n > y->n ? -1 : x->n < y->n;
}

static struct rf_rego_range range_of(const struct rf_ra_module *m, struct rf_ra_loc loc)
{
	struct rf_rego_range r = { loc.row, loc.col, loc.row, loc.col };

	for (uint32_t i = 0; i < loc.n && loc.at + i < m->source.n; i++) {
		unsigned char c = (unsigned char)m->source.p[loc.at + i];

		if (c == '\n') {
			r.end_row++;
			r.end_col = 1;
		} else {
			r.end_col += (c & 0xc0) != 0x80; /* characters, not bytes */
		}
	}
	return r;
}

static void add_range(struct rf_rego_ranges *to, struct rf_rego_range r, uint32_t *counted)
{
	uint32_t from = RF_MAX(r.row, *counted + 1);

	to->at[to->n++] = r;
	to->lines += r.end_row >= from ? r.end_row - from + 1 : 0;
	*counted = RF_MAX(*counted, r.end_row);
}

static double percent(uint32_t covered, uint32_t not_covered)
{
	return covered + not_covered ? 100.0 * covered / ((double)covered + not_covered) : 0;
}

struct places {
	struct rf_ra_loc *loc;
	uint32_t n;
};

static struct places places_of(const struct rf_rego_coverage *c, const struct rf_rego *r,
			       const struct rf_ra_module *m, bool seen, struct rf_arena *a)
{
	struct places p = { .n = 0 };

	for (uint32_t i = 0; i < r->n_spots; i++)
		p.n += r->spot[i].module == m;
	p.loc = rf_arena_array(a, struct rf_ra_loc, p.n + 1);
	p.n = 0;
	for (uint32_t i = 0; i < r->n_spots; i++)
		if (r->spot[i].module == m && c->seen[i] == seen && (seen || !r->spot[i].optional))
			p.loc[p.n++] = r->spot[i].loc;
	qsort(p.loc, p.n, sizeof(*p.loc), by_place);
	return p;
}

static bool is_again(const struct places *p, uint32_t i)
{
	return i > 0 && by_place(&p->loc[i - 1], &p->loc[i]) == 0;
}

static void report_file(const struct rf_rego_coverage *c, const struct rf_rego *r, const struct rf_ra_module *m,
			struct rf_arena *a, struct rf_rego_file_coverage *ret)
{
	struct places yes = places_of(c, r, m, true, a), no = places_of(c, r, m, false, a);
	uint32_t counted = 0, next = 0, reach = 0;

	*ret = (struct rf_rego_file_coverage){ .file = m->file };
	ret->covered.at = rf_arena_array(a, struct rf_rego_range, yes.n + 1);
	ret->not_covered.at = rf_arena_array(a, struct rf_rego_range, no.n + 1);
	for (uint32_t i = 0; i < yes.n; i++)
		if (!is_again(&yes, i))
			add_range(&ret->covered, range_of(m, yes.loc[i]), &counted);
	counted = 0;
	for (uint32_t i = 0; i < no.n; i++) {
		/* how far what was evaluated and begins no later goes */
		for (; next < yes.n && yes.loc[next].at <= no.loc[i].at; next++)
			reach = RF_MAX(reach, yes.loc[next].at + yes.loc[next].n);
		if (!is_again(&no, i) && no.loc[i].at + no.loc[i].n > reach)
			add_range(&ret->not_covered, range_of(m, no.loc[i]), &counted);
	}
	ret->percent = percent(ret->covered.lines, ret->not_covered.lines);
}

void rf_rego_coverage_report(const struct rf_rego_coverage *c, const struct rf_rego *r, struct rf_arena *a,
			     struct rf_rego_coverage_report *ret)
{
	*ret = (struct rf_rego_coverage_report){ .n = r->n_modules };
	ret->file = rf_arena_array(a, struct rf_rego_file_coverage, r->n_modules + 1);
	for (uint32_t i = 0; i < r->n_modules; i++) {
		report_file(c, r, r->module[i], a, &ret->file[i]);
		ret->covered_lines += ret->file[i].covered.lines;
		ret->not_covered_lines += ret->file[i].not_covered.lines;
	}
	ret->percent = percent(ret->covered_lines, ret->not_covered_lines);
}
