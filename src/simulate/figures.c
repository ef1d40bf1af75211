/* Figures from the books. */
#include "simulate/tally.h"

static int by_ms(const void *pa, const void *pb)
{
	int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;

	return a < b ? -1 : a > b;
}

/* The nearest rank. */
static int64_t percentile(const int64_t *v, size_t n, size_t percent)
{
	size_t rank = (n * percent + 99) / 100;

	return v[RF_MAX(rank, 1) - 1];
}

void rf_tally_waits(const struct rf_tally *b, int size, int64_t tenant, struct rf_tally_stat *ret)
{
	int64_t *v = rf_alloc(b->waits.n * sizeof(*v) + 1);
	rf_tally_area sum = 0;
	size_t n = 0;

	*ret = (struct rf_tally_stat){ 0 };
	for (size_t i = 0; i < b->waits.n; i++) {
		const struct rf_tally_wait *w = &b->waits.at[i];

		if ((size >= 0 && w->size != size) || (tenant >= 0 && w->tenant != tenant))
			continue;
		v[n++] = w->ms;
		sum += w->ms;
	}
	if (n > 0) {
		qsort(v, n, sizeof(*v), by_ms);
		*ret = (struct rf_tally_stat){ (int64_t)n,		(int64_t)(sum / (int64_t)n), percentile(v, n, 50),
					       percentile(v, n, 90), percentile(v, n, 99),	     v[n - 1] };
	}
	free(v);
}

/* A number with two decimals, rounded to nearest: part of whole, times scale. */
static struct rf_json *ratio(struct rf_arena *a, rf_tally_area part, rf_tally_area whole, int64_t scale)
{
	struct rf_json *v = rf_json_number(a, 0);
	bool below = (part < 0) != (whole < 0);
	rf_tally_area hundredths;

	if (whole == 0)
		return rf_json_null(a);
	part = part < 0 ? -part : part;
	whole = whole < 0 ? -whole : whole;
	while (part > (rf_tally_area)1 << 100) { /* so that what follows fits */
		part /= 2;
		whole = RF_MAX(whole / 2, 1);
	}
	hundredths = (part * scale * 200 / whole + 1) / 2;
	v->text = rf_arena_printf(a, "%s%lld.%02lld", below && hundredths > 0 ? "-" : "", (long long)(hundredths / 100),
				  (long long)(hundredths % 100));
	return v;
}

static struct rf_json *seconds(struct rf_arena *a, int64_t ms)
{
	struct rf_json *v = rf_json_number(a, 0);

	v->text = rf_arena_printf(a, "%lld.%03lld", (long long)(ms / 1000), (long long)(ms % 1000));
	return v;
}

static struct rf_json *waits_json(const struct rf_tally *b, struct rf_arena *a, int size, int64_t tenant)
{
	struct rf_tally_stat s;

	rf_tally_waits(b, size, tenant, &s);
	return rf_json_make(a, "{'jobs':%D,'mean':%j,'p50':%j,'p90':%j,'p99':%j,'max':%j}", s.n, seconds(a, s.mean),
			    seconds(a, s.p50), seconds(a, s.p90), seconds(a, s.p99), seconds(a, s.max));
}

static struct rf_json *sizes_json(const struct rf_tally *b, struct rf_arena *a)
{
	struct rf_json *out = rf_json_array(a);

	for (int i = 0; i < RF_TALLY_SIZES; i++) {
		struct rf_json *w = waits_json(b, a, i, -1);

		if (rf_json_int(rf_json_at(w, "jobs"), 0) > 0)
			rf_json_push(a, out, rf_json_make(a, "{'cards':%s,'waits':%j}", RF_TALLY_SIZE_NAMES[i], w));
	}
	return out;
}

#define CARD_HOUR ((rf_tally_area)RF_FLEET_MILLI * 3600 * 1000)

static struct rf_json *card_hours(struct rf_arena *a, rf_tally_area area)
{
	return ratio(a, area, CARD_HOUR, 1);
}

static struct rf_json *tenants_json(const struct rf_tally *b, struct rf_arena *a, const struct rf_tally_share *shares)
{
	struct rf_json *out = rf_json_array(a);

	for (size_t i = 0; i < b->tenants.n; i++) {
		const struct rf_tally_tenant *t = &b->tenants.at[i];
		const struct rf_tally_share *s = &shares[i];
		rf_tally_area off = s->used - s->fair;
		struct rf_json *v = rf_json_make(a, "{'tenant':%S,'weight':%D,'share':%j}", t->name, t->weight,
						 ratio(a, t->area, b->used_area, 100));

		rf_json_set(a, v, RF_LIT("gpuHours"), card_hours(a, s->used));
		rf_json_set(a, v, RF_LIT("fairGpuHours"), card_hours(a, s->fair));
		rf_json_set(a, v, RF_LIT("shareErrorGpuHours"), card_hours(a, off));
		rf_json_set(a, v, RF_LIT("largestJobGpuHours"), card_hours(a, s->largest));
		rf_json_set(a, v, RF_LIT("shareError"), ratio(a, off, s->fair, 100));
		rf_json_set(a, v, RF_LIT("shareErrorOfAll"), ratio(a, off, b->busy_used, 100));
		rf_json_set(a, v, RF_LIT("waits"), waits_json(b, a, -1, (int64_t)i));
		rf_json_push(a, out, v);
	}
	return out;
}

/* a/b < c/d. As doubles: which one it is may depend on a rounding, what is printed of it does not. */
static bool less(rf_tally_area a, rf_tally_area b, rf_tally_area c, rf_tally_area d)
{
	return (double)a / (double)b < (double)c / (double)d;
}

/* Of all tenants: the one furthest below its part and the one furthest above it, and of both the worse. */
static void set_share_errors(const struct rf_tally *b, struct rf_arena *a, const struct rf_tally_share *s,
			     struct rf_json *v)
{
	rf_tally_area least = 0, most = 0, of_least = 0, of_most = 0, worst = 0;
	int64_t n_off = 0;
	bool low;

	for (size_t i = 0; i < b->tenants.n; i++) {
		rf_tally_area off = s[i].used - s[i].fair;

		worst = RF_MAX(worst, off < 0 ? -off : off);
		n_off += rf_tally_share_off(&s[i]);
		if (s[i].fair > 0 && (of_least == 0 || less(off, s[i].fair, least, of_least))) {
			least = off;
			of_least = s[i].fair;
		}
		if (s[i].fair > 0 && (of_most == 0 || less(most, of_most, off, s[i].fair))) {
			most = off;
			of_most = s[i].fair;
		}
	}
	low = of_least > 0 && less(most, of_most, -least, of_least);
	rf_json_set(a, v, RF_LIT("shareError"), ratio(a, low ? -least : most, low ? of_least : of_most, 100));
	rf_json_set(a, v, RF_LIT("shareErrorMin"), ratio(a, least, of_least, 100));
	rf_json_set(a, v, RF_LIT("shareErrorMax"), ratio(a, most, of_most, 100));
	rf_json_set(a, v, RF_LIT("shareErrorOfAll"), ratio(a, worst, b->busy_used, 100));
	rf_json_set_int(a, v, "tenantsOff", n_off);
}

struct rf_json *rf_tally_json(const struct rf_tally *b, struct rf_arena *a, struct rf_str run)
{
	int64_t decided = b->binds + b->preemptions;
	struct rf_json *v = rf_json_make(
		a, "{'run':%S,'jobs':%D,'started':%D,'withdrawn':%D,'evicted':%D,'waiting':%D,'preemptions':%D}", run,
		b->n_jobs, (int64_t)b->n_started, b->n_withdrawn, rf_tally_evicted(b), b->n_waiting, b->preemptions);
	struct rf_tally_share *shares = rf_tally_shares(b);

	rf_json_set(a, v, RF_LIT("gpuAllocation"), ratio(a, b->busy_used, b->busy_capacity, 100));
	rf_json_set(a, v, RF_LIT("gpuAllocationToTheEnd"), ratio(a, b->used_area, b->capacity_area, 100));
	rf_json_set(a, v, RF_LIT("fragmentation"), ratio(a, b->busy_idle, b->busy_capacity, 100));
	set_share_errors(b, a, shares, v);
	rf_json_set(a, v, RF_LIT("hours"), ratio(a, b->first_ms < 0 ? 0 : b->now_ms - b->first_ms, 3600000, 1));
	rf_json_set_int(a, v, "decisions", decided);
	rf_json_set(a, v, RF_LIT("decisionsPerSecond"),
		    b->ns > 0 ? rf_json_number(a, (int64_t)((rf_tally_area)decided * 1000000000 / b->ns)) :
				rf_json_null(a));
	rf_json_set(a, v, RF_LIT("waits"), waits_json(b, a, -1, -1));
	rf_json_set(a, v, RF_LIT("sizes"), sizes_json(b, a));
	rf_json_set(a, v, RF_LIT("tenants"), tenants_json(b, a, shares));
	free(shares);
	return v;
}
