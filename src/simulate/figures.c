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

static struct rf_json *tenants_json(const struct rf_tally *b, struct rf_arena *a)
{
	struct rf_json *out = rf_json_array(a);

	for (size_t i = 0; i < b->tenants.n; i++) {
		const struct rf_tally_tenant *t = &b->tenants.at[i];

		rf_json_push(a, out,
			     rf_json_make(a, "{'tenant':%S,'weight':%D,'share':%j,'backloggedShareError':%j,'waits':%j}",
					  t->name, t->weight, ratio(a, t->area, b->used_area, 100),
					  ratio(a, t->back_used - t->back_fair, t->back_fair, 100),
					  waits_json(b, a, -1, (int64_t)i)));
	}
	return out;
}

/* How far the tenant that is furthest off is, of those that waited for something; in percent. */
static struct rf_json *worst_error(const struct rf_tally *b, struct rf_arena *a)
{
	rf_tally_area part = 0, whole = 0;

	for (size_t i = 0; i < b->tenants.n; i++) {
		const struct rf_tally_tenant *t = &b->tenants.at[i];
		rf_tally_area off = t->back_used - t->back_fair;

		off = off < 0 ? -off : off;
		/* Compared as doubles: which one it is may depend on a rounding, the value does not. */
		if (t->back_fair > 0 && (whole == 0 || (double)off / (double)t->back_fair > (double)part / (double)whole)) {
			part = off;
			whole = t->back_fair;
		}
	}
	return ratio(a, part, whole, 100);
}

struct rf_json *rf_tally_json(const struct rf_tally *b, struct rf_arena *a, struct rf_str run)
{
	int64_t decided = b->binds + b->preemptions;
	struct rf_json *v = rf_json_make(
		a, "{'run':%S,'jobs':%D,'started':%D,'withdrawn':%D,'waiting':%D,'preemptions':%D}", run, b->n_jobs,
		(int64_t)b->n_started, b->n_withdrawn, b->n_waiting, b->preemptions);

	rf_json_set(a, v, RF_LIT("gpuAllocation"), ratio(a, b->busy_used, b->busy_capacity, 100));
	rf_json_set(a, v, RF_LIT("gpuAllocationToTheEnd"), ratio(a, b->used_area, b->capacity_area, 100));
	rf_json_set(a, v, RF_LIT("fragmentation"), ratio(a, b->busy_idle, b->busy_capacity, 100));
	rf_json_set(a, v, RF_LIT("backloggedShareError"), worst_error(b, a));
	rf_json_set(a, v, RF_LIT("hours"), ratio(a, b->first_ms < 0 ? 0 : b->now_ms - b->first_ms, 3600000, 1));
	rf_json_set_int(a, v, "decisions", decided);
	rf_json_set(a, v, RF_LIT("decisionsPerSecond"),
		    b->ns > 0 ? rf_json_number(a, (int64_t)((rf_tally_area)decided * 1000000000 / b->ns)) :
				rf_json_null(a));
	rf_json_set(a, v, RF_LIT("waits"), waits_json(b, a, -1, -1));
	rf_json_set(a, v, RF_LIT("sizes"), sizes_json(b, a));
	rf_json_set(a, v, RF_LIT("tenants"), tenants_json(b, a));
	return v;
}
