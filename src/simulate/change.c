/* What-if: "nodes+=10:h100x8,weight:team-a=3,guaranteed:team-a:cards=16". */
#include "simulate/private.h"

/* What a change looks like: how many words with ':' before the '='. */
static const struct {
	const char *word;
	int parts; /* after it: 0, tenant, tenant and resource */
	int64_t min, max;
} FORMS[RF_SIMULATE_CHANGE_KINDS] = {
	[RF_SIMULATE_NODES] = { "nodes+", 0, 0, 0 },
	[RF_SIMULATE_WEIGHT] = { "weight", 1, 1, RF_QUEUE_WEIGHT_MAX },
	[RF_SIMULATE_GUARANTEED] = { "guaranteed", 2, 0, RF_QUEUE_AMOUNT_MAX },
	[RF_SIMULATE_LIMIT] = { "limit", 2, 0, RF_QUEUE_AMOUNT_MAX },
	[RF_SIMULATE_LENDING] = { "lending", 2, 0, RF_QUEUE_AMOUNT_MAX },
	[RF_SIMULATE_BORROWING] = { "borrowing", 2, 0, RF_QUEUE_AMOUNT_MAX },
	[RF_SIMULATE_RECLAIM] = { "reclaim", 0, 0, 0 },
	[RF_SIMULATE_HALF_LIFE] = { "half-life", 0, 0, 24 * 3650 },
	[RF_SIMULATE_RESERVE_AFTER] = { "reserve-after", 0, 0, 60 * 24 * 365 },
	[RF_SIMULATE_RESERVE_CARDS] = { "reserve-cards", 0, 1, RF_QUEUE_MEMBERS_MAX },
	[RF_SIMULATE_MIN_RUN] = { "min-run", 0, 0, 60 * 24 * 365 },
};

static int unknown(struct rf_str one, struct rf_err *err)
{
	return rf_fail(err, RF_BAD_REQUEST,
		       "--what-if \"%.*s\": a change is nodes+=COUNT:MODELxCARDS, weight:TENANT=N, "
		       "guaranteed|limit|lending|borrowing:TENANT:RESOURCE=N, reclaim=guarantee|fair, half-life=HOURS, "
		       "reserve-after=MINUTES, reserve-cards=N or min-run=MINUTES; several are separated by commas",
		       (int)RF_MIN(one.n, 80), one.p);
}

static int read_value(struct rf_str one, struct rf_str value, struct rf_simulate_change *c, struct rf_err *err)
{
	if (c->kind == RF_SIMULATE_NODES) {
		c->nodes = value;
		return 0;
	}
	if (c->kind == RF_SIMULATE_RECLAIM) {
		c->value = rf_str_is(value, "fair") ? RF_RECLAIM_FAIR : RF_RECLAIM_GUARANTEE;
		return c->value == RF_RECLAIM_FAIR || rf_str_is(value, "guarantee") ? 0 : unknown(one, err);
	}
	if (rf_str_int(value, &c->value, NULL) < 0 || c->value < FORMS[c->kind].min || c->value > FORMS[c->kind].max)
		return rf_fail(err, RF_BAD_REQUEST, "--what-if \"%.*s\": the value is a whole number from %lld to %lld",
			       (int)RF_MIN(one.n, 80), one.p, (long long)FORMS[c->kind].min,
			       (long long)FORMS[c->kind].max);
	return 0;
}

/* Names of tenants hold no ':' and no '='; names of resources may hold '/' and '.'. */
static int read_change(struct rf_str one, struct rf_simulate_change *c, struct rf_err *err)
{
	struct rf_str value = one, left, word;
	int kind = 0;

	if (!rf_str_cut(&value, '=', &left))
		return unknown(one, err);
	rf_str_cut(&left, ':', &word);
	while (kind < RF_SIMULATE_CHANGE_KINDS && !rf_str_is(word, FORMS[kind].word))
		kind++;
	if (kind == RF_SIMULATE_CHANGE_KINDS)
		return unknown(one, err);
	c->kind = (enum rf_simulate_change_kind)kind;
	c->tenant = c->resource = c->nodes = RF_STR_EMPTY;
	if (FORMS[kind].parts == 2) {
		if (!rf_str_cut(&left, ':', &c->tenant) || left.n == 0)
			return unknown(one, err);
		c->resource = left;
	} else {
		c->tenant = left;
	}
	if ((c->tenant.n > 0) != (FORMS[kind].parts > 0) || memchr(c->tenant.p, ':', c->tenant.n) != NULL)
		return unknown(one, err);
	return read_value(one, value, c, err);
}

int rf_simulate_changes_parse(struct rf_str text, struct rf_simulate_changes *ret, struct rf_err *err)
{
	struct rf_simulate_changes v = { 0 };
	struct rf_str one;
	bool more = true;
	int r;

	while (more) {
		more = rf_str_cut(&text, ',', &one);
		if (v.n == RF_SIMULATE_CHANGES_MAX)
			return rf_fail(err, RF_BAD_REQUEST, "--what-if: more than %d changes", RF_SIMULATE_CHANGES_MAX);
		r = read_change(rf_str_trim(one), &v.at[v.n++], err);
		if (r < 0)
			return r;
	}
	*ret = v;
	return 0;
}

void rf_simulate_configure(const struct rf_simulate_changes *changes, struct rf_core_config *c)
{
	for (size_t i = 0; changes != NULL && i < changes->n; i++) {
		int64_t v = changes->at[i].value;

		switch (changes->at[i].kind) {
		case RF_SIMULATE_RECLAIM:
			c->reclaim = (enum rf_reclaim)v;
			break;
		case RF_SIMULATE_HALF_LIFE:
			c->half_life_ms = v * 3600000;
			break;
		case RF_SIMULATE_RESERVE_AFTER:
			c->reserve_after_ms = v * 60000;
			break;
		case RF_SIMULATE_RESERVE_CARDS:
			c->reserve_cards = v;
			break;
		default:
			break;
		}
	}
}

bool rf_simulate_changes_tenant(const struct rf_simulate_changes *changes, struct rf_str tenant)
{
	for (size_t i = 0; changes != NULL && i < changes->n; i++)
		if (changes->at[i].tenant.n > 0 && rf_str_eq(changes->at[i].tenant, tenant))
			return true;
	return false;
}

static struct rf_sched_quota *quota_of(struct rf_arena *a, struct rf_sched_queue *q, struct rf_str resource)
{
	struct rf_sched_quota *more;

	for (size_t i = 0; i < q->n_quotas; i++)
		if (rf_str_eq(q->quotas[i].resource, resource))
			return &q->quotas[i];
	more = rf_arena_array(a, struct rf_sched_quota, q->n_quotas + 1);
	if (q->n_quotas > 0)
		memcpy(more, q->quotas, q->n_quotas * sizeof(*more));
	more[q->n_quotas] = (struct rf_sched_quota){ resource, -1, -1, -1, -1 };
	q->quotas = more;
	return &more[q->n_quotas++];
}

void rf_simulate_change_queue(const struct rf_simulate_changes *changes, struct rf_str tenant, struct rf_arena *a,
			      struct rf_sched_queue *q)
{
	for (size_t i = 0; changes != NULL && i < changes->n; i++) {
		const struct rf_simulate_change *c = &changes->at[i];
		struct rf_sched_quota *quota;

		if (c->tenant.n == 0 || !rf_str_eq(c->tenant, tenant))
			continue;
		if (c->kind == RF_SIMULATE_WEIGHT) {
			q->weight = c->value;
			continue;
		}
		quota = quota_of(a, q, c->resource);
		*(c->kind == RF_SIMULATE_GUARANTEED ? &quota->guaranteed :
		  c->kind == RF_SIMULATE_LIMIT	    ? &quota->limit :
		  c->kind == RF_SIMULATE_LENDING    ? &quota->lending :
						      &quota->borrowing) = c->value;
	}
}
