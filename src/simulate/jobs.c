/* Jobs over time, as Microsoft's Philly trace has them, and machines without a file. */
#include "gpu/models.h"
#include "simulate/private.h"

enum { JOB_TIME, JOB_RUN, JOB_CARDS, JOB_TENANT, JOB_COLUMNS };
static const char *const NAMES[] = { "timestamp", "duration", "num_gpus", "cluster", NULL };

bool rf_simulate_is_jobs(struct rf_str csv)
{
	struct rf_simulate_table t = { .rest = csv, .names = NAMES, .required = 2 };

	return rf_simulate_header(&t, NULL) == 0;
}

/* "2017-10-09 07:01:55", in UTC. */
static int read_time(const struct rf_simulate_table *t, struct rf_str s, int64_t *ret, struct rf_err *err)
{
	char iso[21];

	if (s.n == 19 && s.p[10] == ' ') {
		memcpy(iso, s.p, 19);
		iso[10] = 'T';
		iso[19] = 'Z';
		if (rf_time_parse(rf_str_n(iso, 20), ret, NULL) == 0 && *ret >= 0)
			return 0;
	}
	return rf_fail(err, RF_INVALID, "line %lld: timestamp is \"%.*s\": such as 2017-10-09 07:01:55",
		       (long long)t->line, (int)RF_MIN(s.n, 40), s.p);
}

/* Seconds, with decimals that do not matter beyond the third. */
static int read_seconds(const struct rf_simulate_table *t, struct rf_str s, int64_t *ret, struct rf_err *err)
{
	struct rf_str rest = s, whole;
	int64_t n = 0, ms = 0, unit = 100;
	bool good;

	rf_str_cut(&rest, '.', &whole);
	good = rf_str_int(whole, &n, NULL) == 0 && n >= 0 && n <= RF_QUEUE_MS_MAX / 1000;
	for (size_t i = 0; i < rest.n && good; i++, unit /= 10) {
		good = rest.p[i] >= '0' && rest.p[i] <= '9';
		ms += (rest.p[i] - '0') * unit;
	}
	if (!good)
		return rf_fail(err, RF_INVALID, "line %lld: duration is \"%.*s\": seconds, 0 to %lld", (long long)t->line,
			       (int)RF_MIN(s.n, 40), s.p, (long long)(RF_QUEUE_MS_MAX / 1000));
	*ret = RF_MAX(n * 1000 + ms, 1);
	return 0;
}

static int tenant_of(struct rf_simulate *s, const struct rf_simulate_table *t, struct rf_str name, uint32_t *ret,
		     struct rf_err *err)
{
	size_t i = 0;

	while (i < s->tenants.n && !rf_str_eq(s->tenants.at[i], name))
		i++;
	if (name.n == 0 || name.n > RF_SIMULATE_NAME_MAX)
		return rf_fail(err, RF_INVALID, "line %lld: cluster has 1 to %d characters", (long long)t->line,
			       RF_SIMULATE_NAME_MAX);
	if (i == RF_SIMULATE_TENANTS_MAX)
		return rf_fail(err, RF_TOO_LARGE, "line %lld: more than %d clusters", (long long)t->line,
			       RF_SIMULATE_TENANTS_MAX);
	if (i == s->tenants.n)
		rf_vec_push(&s->tenants, rf_arena_str(&s->a, name));
	*ret = (uint32_t)i;
	return 0;
}

static int read_job(struct rf_simulate *s, const struct rf_simulate_table *t, const struct rf_str *row,
		    struct rf_err *err)
{
	struct rf_simulate_job j = { 0 };
	int64_t cards;

	if (read_time(t, row[JOB_TIME], &j.submit_ms, err) < 0 || read_seconds(t, row[JOB_RUN], &j.run_ms, err) < 0 ||
	    rf_simulate_number(t, row, JOB_CARDS, RF_SIMULATE_JOB_CARDS_MAX, &cards, err) < 0 ||
	    tenant_of(s, t, row[JOB_TENANT], &j.tenant, err) < 0 || rf_simulate_too_many(t, s->jobs.n, err) < 0)
		return -1;
	if (cards == 0)
		return 0; /* nothing to schedule here */
	j.cards = (uint32_t)cards;
	j.id = (uint32_t)s->jobs.n;
	rf_vec_push(&s->jobs, j);
	return 0;
}

static int by_time(const void *pa, const void *pb)
{
	const struct rf_simulate_job *a = pa, *b = pb;

	if (a->submit_ms != b->submit_ms)
		return a->submit_ms < b->submit_ms ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

int rf_simulate_read_jobs(struct rf_simulate *s, struct rf_str csv, struct rf_err *err)
{
	struct rf_simulate_table t = { .rest = csv, .names = NAMES, .required = JOB_COLUMNS };
	struct rf_str row[JOB_COLUMNS] = { 0 };
	struct rf_err own = RF_ERR_INIT;
	int r;

	err = err != NULL ? err : &own;
	if (rf_simulate_header(&t, err) < 0)
		return -err->code;
	while ((r = rf_simulate_row(&t, row, err)) > 0)
		if (read_job(s, &t, row, err) < 0)
			return -err->code;
	if (r < 0)
		return r;
	if (s->jobs.n == 0)
		return rf_fail(err, RF_INVALID, "no job asks for a card; nothing to simulate");
	qsort(s->jobs.at, s->jobs.n, sizeof(s->jobs.at[0]), by_time);
	for (size_t i = 0; i < s->jobs.n; i++)
		s->jobs.at[i].id = (uint32_t)i;
	return 0;
}

/* --- machines --------------------------------------------------------------------------------- */

static int bad_nodes(struct rf_str text, struct rf_err *err)
{
	return rf_fail(err, RF_INVALID, "\"%.*s\": machines are COUNTxCARDS or COUNT:MODELxCARDS, such as 48x8 or 10:h100x8",
		       (int)RF_MIN(text.n, 60), text.p);
}

bool rf_simulate_is_nodes(struct rf_str text)
{
	struct rf_str head;

	return text.n > 2 && text.p[0] >= '0' && text.p[0] <= '9' && rf_str_cut(&text, 'x', &head) &&
	       memchr(head.p, '.', head.n) == NULL && memchr(text.p, '.', text.n) == NULL;
}

/* A model that nobody asks for, because it is misspelt, would be cards that nobody gets. Those that are there are known. */
static int check_model(const struct rf_simulate *s, struct rf_str text, struct rf_str model, struct rf_err *err)
{
	rf_auto(buf) known = RF_BUF_INIT;
	char name[64], other[64];

	if (model.n == 0 || rf_gpu_model_named(model.p, model.n, name) != NULL)
		return 0;
	for (size_t i = 0; i < s->n_models; i++) {
		(void)rf_gpu_model_named(s->models[i].p, s->models[i].n, other);
		if (strcmp(name, other) == 0)
			return 0;
	}
	for (size_t i = 0; rf_gpu_model_at(i) != NULL; i++)
		rf_buf_printf(&known, "%s%s", i > 0 ? ", " : "", rf_gpu_model_at(i)->key);
	return rf_fail(err, RF_INVALID,
		       "\"%.*s\": no card is called \"%.*s\"; there are %s, and those of the machines that there are; leave it out "
		       "for cards of no model",
		       (int)RF_MIN(text.n, 60), text.p, (int)RF_MIN(model.n, 60), model.p, known.p);
}

int rf_simulate_add_nodes(struct rf_simulate *s, struct rf_str text, struct rf_err *err)
{
	struct rf_simulate_node n = { .cpu_milli = RF_FLEET_CPU_MAX, .memory = RF_FLEET_MEMORY_MAX };
	struct rf_str count = text, cards = RF_STR_EMPTY, model;
	int64_t many = 0, each = 0;
	size_t i = text.n;

	while (i > 0 && text.p[i - 1] != 'x')
		i--;
	if (i > 0) {
		cards = rf_str_skip(text, i);
		count.n = i - 1;
	}
	model = count;
	if (!rf_str_cut(&model, ':', &count))
		model = RF_STR_EMPTY;
	if (rf_str_int(count, &many, NULL) < 0 || rf_str_int(cards, &each, NULL) < 0 || many < 1 || each < 1)
		return bad_nodes(text, err);
	if (many > RF_SIMULATE_NODES_MAX - (int64_t)RF_MIN(s->nodes.n, RF_SIMULATE_NODES_MAX) || each > RF_FLEET_CARDS_MAX)
		return rf_fail(err, RF_INVALID, "\"%.*s\": at most %d machines of at most %d cards",
			       (int)RF_MIN(text.n, 60), text.p, RF_SIMULATE_NODES_MAX, RF_FLEET_CARDS_MAX);
	if (check_model(s, text, model, err) < 0 || rf_simulate_model(s, 1, model, &n.model, err) < 0)
		return -RF_INVALID;
	n.cards = (uint8_t)each;
	for (; many > 0; many--)
		rf_vec_push(&s->nodes, n);
	return 0;
}

/* --- load ------------------------------------------------------------------------------------- */

/* Arrivals move closer together or apart, until what is asked for is so much of the cards between the first and
 * the last. */
int rf_simulate_scale(struct rf_simulate *s, int64_t percent, struct rf_err *err)
{
	rf_tally_area asked = 0, cards = 0, span;
	int64_t first = s->jobs.at[0].submit_ms;

	for (size_t i = 0; i < s->jobs.n; i++)
		asked += (rf_tally_area)s->jobs.at[i].cards * s->jobs.at[i].run_ms;
	for (size_t i = 0; i < s->nodes.n; i++)
		cards += s->nodes.at[i].cards;
	span = s->jobs.at[s->jobs.n - 1].submit_ms - first;
	if (span == 0 || cards == 0)
		return rf_fail(err, RF_INVALID, "%s: there is no load to change",
			       cards == 0 ? "no machine has a card" : "all jobs come at once");
	for (size_t i = 0; i < s->jobs.n; i++) {
		int64_t *at = &s->jobs.at[i].submit_ms;

		*at = first + (int64_t)((rf_tally_area)(*at - first) * (asked * 100 / (cards * percent)) / span);
	}
	return 0;
}

/* People give round limits: the next of a few. */
int64_t rf_simulate_limit(int64_t run_ms)
{
	static const int64_t MINUTES[] = { 10, 60, 4 * 60, 12 * 60, 24 * 60, 3 * 24 * 60, 7 * 24 * 60, 14 * 24 * 60,
					   60 * 24 * 60 };

	for (size_t i = 0; i < RF_COUNT(MINUTES); i++)
		if (run_ms <= MINUTES[i] * 60000)
			return MINUTES[i] * 60000;
	return run_ms;
}
