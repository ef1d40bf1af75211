/* Use, waiting jobs and shares over time, as SVG. Names are anybody's: they are written as text, never as markup. */
#include "simulate/private.h"

#define WIDTH 1000
#define LEFT 64
#define RIGHT 200 /* room for the legend */
#define PANEL 200
#define GAP 64
#define TOP 40
#define TENANTS_MAX 12 /* shown by name */
#define LABEL_MAX 22   /* characters */

static const char *const COLOURS[] = { "#3366cc", "#dc7a1e", "#2e9e5b", "#b5438a", "#7a5cc4", "#c23b3b", "#1f9aa8",
				       "#8a6d1f", "#5b8c2a", "#d1569b", "#44618c", "#a2583d", "#9a9a9a" };
static const char *const RUN_COLOURS[] = { "#3366cc", "#dc7a1e", "#2e9e5b", "#b5438a" };

struct plot {
	struct rf_buf *out;
	const struct rf_simulate_run *runs;
	size_t n;
	double hours; /* of the longest run */
	int y;	      /* of the panel's top */
};

/* --- text ------------------------------------------------------------------------------------- */

/* As valid UTF-8: what JSON makes of it. */
static struct rf_str well_formed(struct rf_arena *a, struct rf_str s)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_json *v = NULL;

	rf_json_write_str(&b, s);
	return rf_json_parse(a, rf_buf_str(&b), &v, NULL) == 0 ? rf_json_str(v) : RF_STR_EMPTY;
}

static bool in_xml(const char *p, size_t len)
{
	unsigned char c = (unsigned char)p[0];

	if (len == 3 && c == 0xef && (unsigned char)p[1] == 0xbf) /* U+FFFE and U+FFFF are not */
		return (unsigned char)p[2] < 0xbe;
	return c >= 0x20 && c != 0x7f && !(len == 2 && c == 0xc2 && (unsigned char)p[1] < 0xa0);
}

/* At most `most` characters. */
static void put_text(struct rf_buf *out, struct rf_str any, size_t most)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str s = well_formed(&a, any);
	size_t i = 0;

	for (size_t n = 0; i < s.n && n < most; n++) {
		unsigned char c = (unsigned char)s.p[i];
		size_t len = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;

		if (!in_xml(s.p + i, len))
			rf_buf_puts(out, "\xef\xbf\xbd");
		else if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\'')
			rf_buf_printf(out, "&#%d;", c);
		else
			rf_buf_add(out, rf_str_n(s.p + i, len));
		i += len;
	}
	if (i < s.n)
		rf_buf_puts(out, "\xe2\x80\xa6");
}

static void put_label(struct plot *p, double x, double y, const char *anchor, const char *class, struct rf_str s,
		      size_t most)
{
	rf_buf_printf(p->out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
	put_text(p->out, s, most);
	rf_buf_puts(p->out, "</text>\n");
}

/* --- axes ------------------------------------------------------------------------------------- */

static double x_of(const struct plot *p, double hours)
{
	return LEFT + (WIDTH - LEFT - RIGHT) * (p->hours > 0 ? hours / p->hours : 0);
}

static double y_of(const struct plot *p, double v, double most)
{
	return p->y + PANEL - PANEL * (most > 0 ? v / most : 0);
}

/* 1, 2 or 5 times a power of ten, so that there are at most n steps. */
static double step_of(double most, int n)
{
	double step = 1;

	while (step * n < most)
		step *= 10;
	while (step > 1e-9 && step / 10 * n >= most)
		step /= 10;
	if (step / 5 * n >= most)
		return step / 5;
	return step / 2 * n >= most ? step / 2 : step;
}

static void put_axes(struct plot *p, const char *title, double most, const char *unit)
{
	bool days = p->hours > 72;
	double scale = days ? 24 : 1, step = step_of(p->hours / scale, 12), up = step_of(most, 5);
	rf_auto(arena) a = RF_ARENA_INIT;

	put_label(p, LEFT, p->y - 12, "start", "title", rf_str(title), 200);
	for (double v = 0; v <= most * 1.0001; v += up) {
		rf_buf_printf(p->out, "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n", LEFT,
			      WIDTH - RIGHT, y_of(p, v, most), y_of(p, v, most));
		put_label(p, LEFT - 8, y_of(p, v, most) + 4, "end", "tick", rf_arena_printf(&a, "%g%s", v, unit), 40);
	}
	for (double v = 0; v * scale <= p->hours * 1.0001; v += step)
		put_label(p, x_of(p, v * scale), p->y + PANEL + 18, "middle", "tick", rf_arena_printf(&a, "%g", v), 40);
	put_label(p, WIDTH - RIGHT + 12, p->y + PANEL + 18, "start", "tick", rf_str(days ? "days" : "hours"), 40);
}

static void put_legend(struct plot *p, size_t i, const char *colour, struct rf_str name)
{
	double y = p->y + 8 + 15.5 * (double)i;

	rf_buf_printf(p->out, "<rect x=\"%d\" y=\"%.1f\" width=\"10\" height=\"10\" fill=\"%s\"/>\n", WIDTH - RIGHT + 14,
		      y - 5, colour);
	put_label(p, WIDTH - RIGHT + 30, y + 4, "start", "name", name, LABEL_MAX);
}

/* --- lines ------------------------------------------------------------------------------------ */

static size_t buckets_of(const struct rf_tally *b)
{
	int64_t n = b->first_ms < 0 ? 0 : (b->now_ms - b->first_ms + b->bucket_ms - 1) / b->bucket_ms;

	return (size_t)RF_MIN(n, RF_TALLY_BUCKETS);
}

static double hours_of(const struct rf_tally *b)
{
	return b->first_ms < 0 ? 0 : (double)(b->now_ms - b->first_ms) / 3600000;
}

/* The middle of a bucket. */
static double hour_of(const struct rf_tally *b, size_t i)
{
	return RF_MIN(((double)i + 0.5) * (double)b->bucket_ms / 3600000, hours_of(b));
}

static double length_of(const struct rf_tally *b, size_t i)
{
	return (double)RF_MIN(b->bucket_ms, b->now_ms - b->first_ms - (int64_t)i * b->bucket_ms);
}

static double use_of(const struct rf_tally *b, size_t i)
{
	return b->buckets[i].capacity > 0 ? b->buckets[i].used / b->buckets[i].capacity * 100 : 0;
}

static double waiting_of(const struct rf_tally *b, size_t i)
{
	return length_of(b, i) > 0 ? b->buckets[i].waiting_jobs / length_of(b, i) : 0;
}

typedef double value_of(const struct rf_tally *b, size_t i);

static double most_of(const struct plot *p, value_of *value)
{
	double most = 0;

	for (size_t r = 0; r < p->n; r++)
		for (size_t i = 0; i < buckets_of(p->runs[r].books); i++)
			most = RF_MAX(most, value(p->runs[r].books, i));
	return most;
}

static void put_lines(struct plot *p, value_of *value, double most)
{
	for (size_t r = 0; r < p->n; r++) {
		const struct rf_tally *b = p->runs[r].books;
		const char *colour = RUN_COLOURS[r % RF_COUNT(RUN_COLOURS)];

		rf_buf_printf(p->out, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"%s\" points=\"", colour);
		for (size_t i = 0; i < buckets_of(b); i++)
			rf_buf_printf(p->out, "%.1f,%.1f ", x_of(p, hour_of(b, i)), y_of(p, value(b, i), most));
		rf_buf_puts(p->out, "\"/>\n");
		put_legend(p, r, colour, p->runs[r].name);
	}
}

/* --- shares ----------------------------------------------------------------------------------- */

struct rank {
	size_t tenant;
	rf_tally_area area;
};

static int by_area(const void *pa, const void *pb)
{
	const struct rank *a = pa, *b = pb;

	if (a->area != b->area)
		return a->area > b->area ? -1 : 1;
	return a->tenant < b->tenant ? -1 : 1;
}

/* The band between two sums; sums grow by what this layer has. */
static void put_band(struct plot *p, const struct rf_tally *b, double *sums, const struct rank *from, size_t n,
		     const char *colour)
{
	size_t buckets = buckets_of(b);

	rf_buf_printf(p->out, "<polygon fill=\"%s\" fill-opacity=\"0.85\" points=\"", colour);
	for (size_t i = 0; i < buckets; i++)
		rf_buf_printf(p->out, "%.1f,%.1f ", x_of(p, hour_of(b, i)), y_of(p, sums[i], 100));
	for (size_t i = 0; i < buckets; i++)
		for (size_t k = 0; k < n && b->buckets[i].capacity > 0; k++)
			sums[i] += b->tenants.at[from[k].tenant].series[i] / b->buckets[i].capacity * 100;
	for (size_t i = buckets; i > 0; i--)
		rf_buf_printf(p->out, "%.1f,%.1f ", x_of(p, hour_of(b, i - 1)), y_of(p, sums[i - 1], 100));
	rf_buf_puts(p->out, "\"/>\n");
}

/* The order of the first run where the tenants are the same, so that colours are. */
static void put_shares(struct plot *p, const struct rf_tally *b)
{
	const struct rf_tally *first = p->runs[0].books->tenants.n == b->tenants.n ? p->runs[0].books : b;
	size_t n = b->tenants.n, shown = n > TENANTS_MAX + 1 ? TENANTS_MAX : n;
	struct rank *ranks = rf_alloc(n * sizeof(*ranks) + 1);
	double *sums = rf_alloc(RF_TALLY_BUCKETS * sizeof(*sums));

	for (size_t i = 0; i < n; i++)
		ranks[i] = (struct rank){ i, first->tenants.at[i].area };
	qsort(ranks, n, sizeof(*ranks), by_area);
	for (size_t i = 0; i < shown; i++) {
		put_band(p, b, sums, &ranks[i], 1, COLOURS[i % RF_COUNT(COLOURS)]);
		put_legend(p, i, COLOURS[i % RF_COUNT(COLOURS)], b->tenants.at[ranks[i].tenant].name);
	}
	if (shown < n) {
		rf_auto(arena) a = RF_ARENA_INIT;

		put_band(p, b, sums, &ranks[shown], n - shown, COLOURS[RF_COUNT(COLOURS) - 1]);
		put_legend(p, shown, COLOURS[RF_COUNT(COLOURS) - 1], rf_arena_printf(&a, "%zu others", n - shown));
	}
	free(ranks);
	free(sums);
}

/* --- the whole -------------------------------------------------------------------------------- */

static void put_svg(struct plot *p)
{
	int height = TOP + (PANEL + GAP) * (int)(2 + p->n);
	rf_auto(arena) a = RF_ARENA_INIT;
	double most = RF_MAX(most_of(p, waiting_of), 1);

	rf_buf_printf(p->out,
		      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
		      "font-family=\"sans-serif\">\n<style>.title{font-size:15px;font-weight:bold;fill:#222}"
		      ".tick{font-size:11px;fill:#555}.name{font-size:12px;fill:#222}.grid{stroke:#ddd}</style>\n"
		      "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
		      WIDTH, height, WIDTH, height, WIDTH, height);
	p->y = TOP;
	put_axes(p, "Cards in use, percent of all", 100, "%");
	put_lines(p, use_of, 100);
	p->y += PANEL + GAP;
	put_axes(p, "Jobs that wait", most, "");
	put_lines(p, waiting_of, most);
	for (size_t i = 0; i < p->n; i++) {
		p->y += PANEL + GAP;
		put_axes(p, rf_arena_printf(&a, "Cards by tenant, percent of all (%.*s)", RF_STR(p->runs[i].name)).p, 100, "%");
		put_shares(p, p->runs[i].books);
	}
	rf_buf_puts(p->out, "</svg>\n");
}

static void put_duration(struct rf_buf *out, int64_t ms)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	rf_buf_puts(out, "<td>");
	rf_buf_add(out, rf_time_age(&a, ms));
	rf_buf_puts(out, "</td>");
}

/* Waits by size of job, a column for each run. */
static void put_figures(struct plot *p)
{
	rf_buf_puts(p->out, "<table><tr><th>waits: cards</th>");
	for (size_t r = 0; r < p->n; r++) {
		rf_buf_puts(p->out, "<th colspan=\"3\">");
		put_text(p->out, p->runs[r].name, 40);
		rf_buf_puts(p->out, ": jobs, p50, p99</th>");
	}
	rf_buf_puts(p->out, "</tr>\n");
	for (int i = -1; i < RF_TALLY_SIZES; i++) {
		rf_buf_puts(p->out, "<tr><td>");
		put_text(p->out, rf_str(i < 0 ? "all" : RF_TALLY_SIZE_NAMES[i]), 40);
		rf_buf_puts(p->out, "</td>");
		for (size_t r = 0; r < p->n; r++) {
			struct rf_tally_stat s;

			rf_tally_waits(p->runs[r].books, i, -1, &s);
			rf_buf_printf(p->out, "<td>%lld</td>", (long long)s.n);
			put_duration(p->out, s.p50);
			put_duration(p->out, s.p99);
		}
		rf_buf_puts(p->out, "</tr>\n");
	}
	rf_buf_puts(p->out, "</table>\n");
}

static void put_share(struct rf_buf *out, const struct rf_tally *b, const struct rf_tally_share *s)
{
	const double hour = (double)RF_FLEET_MILLI * 3600000;
	double off = (double)(s->used - s->fair);

	rf_buf_printf(out, "<td>%.1f</td><td>%.1f</td>", (double)s->used / hour, (double)s->fair / hour);
	if (s->fair > 0 && b->busy_used > 0)
		rf_buf_printf(out, "<td>%+.2f</td><td>%+.2f</td>", off / (double)s->fair * 100, off / (double)b->busy_used * 100);
	else
		rf_buf_puts(out, "<td>-</td><td>-</td>");
	rf_buf_printf(out, "<td>%.1f</td>", (double)s->largest / hour);
}

/* What each tenant had until the last job came, and what its part was. */
static void put_parts(struct rf_buf *out, const struct rf_simulate_run *run)
{
	struct rf_tally_share *shares = rf_tally_shares(run->books);

	rf_buf_puts(out, "<table><tr><th>shares (");
	put_text(out, run->name, 40);
	rf_buf_puts(out, "): tenant</th><th>weight</th><th>GPU hours</th><th>fair</th><th>error, %</th>"
			 "<th>of all, %</th><th>largest job</th></tr>\n");
	for (size_t i = 0; i < run->books->tenants.n; i++) {
		rf_buf_puts(out, "<tr><td>");
		put_text(out, run->books->tenants.at[i].name, 40);
		rf_buf_printf(out, "</td><td>%lld</td>", (long long)run->books->tenants.at[i].weight);
		put_share(out, run->books, &shares[i]);
		rf_buf_puts(out, "</tr>\n");
	}
	rf_buf_puts(out, "</table>\n");
	free(shares);
}

void rf_simulate_plot(struct rf_buf *out, const struct rf_simulate_run *runs, size_t n, bool html)
{
	struct plot p = { .out = out, .runs = runs, .n = n };

	for (size_t i = 0; i < n; i++)
		p.hours = RF_MAX(p.hours, hours_of(runs[i].books));
	if (html)
		rf_buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
				 "<title>ringfence simulate</title><style>body{font-family:sans-serif;margin:24px}table{margin-bottom:24px}"
				 "td,th{padding:3px 12px;text-align:right;border-bottom:1px solid #ddd}"
				 "</style></head><body>\n");
	put_svg(&p);
	if (html) {
		put_figures(&p);
		for (size_t i = 0; i < n; i++)
			put_parts(out, &runs[i]);
		rf_buf_puts(out, "</body></html>\n");
	}
}
