/* Traces as CSV: plain fields, no quotes, the first line names the columns. */
#include "simulate/private.h"

void rf_simulate_done(struct rf_simulate *s)
{
	rf_vec_done(&s->nodes);
	rf_vec_done(&s->pods);
	rf_vec_done(&s->jobs);
	rf_vec_done(&s->tenants);
	rf_arena_done(&s->a);
}

static bool next_line(struct rf_simulate_table *t, struct rf_str *ret)
{
	while (t->rest.n > 0) {
		rf_str_cut(&t->rest, '\n', ret);
		t->line++;
		*ret = rf_str_trim(*ret);
		if (ret->n > 0)
			return true;
	}
	return false;
}

int rf_simulate_header(struct rf_simulate_table *t, struct rf_err *err)
{
	struct rf_str line, field;
	uint64_t seen = 0;
	bool more = true;

	if (!next_line(t, &line))
		return rf_fail(err, RF_INVALID, "the file is empty; its first line names the columns");
	while (more) {
		if (t->n_fields == RF_SIMULATE_COLUMNS_MAX)
			return rf_fail(err, RF_INVALID, "line 1: more than %d columns", RF_SIMULATE_COLUMNS_MAX);
		more = rf_str_cut(&line, ',', &field);
		t->at[t->n_fields] = -1;
		for (int i = 0; t->names[i] != NULL; i++) {
			if (!rf_str_is(rf_str_trim(field), t->names[i]))
				continue;
			if (seen >> i & 1)
				return rf_fail(err, RF_INVALID, "line 1: column %s twice", t->names[i]);
			seen |= (uint64_t)1 << i;
			t->at[t->n_fields] = i;
		}
		t->n_fields++;
	}
	for (size_t i = 0; i < t->required; i++)
		if (!(seen >> i & 1))
			return rf_fail(err, RF_INVALID, "line 1: there is no column %s", t->names[i]);
	return 0;
}

/* The wanted fields of the next line; 1, 0 at the end, or an error. */
int rf_simulate_row(struct rf_simulate_table *t, struct rf_str *ret, struct rf_err *err)
{
	struct rf_str line, field;
	size_t n = 0;
	bool more = true;

	if (!next_line(t, &line))
		return 0;
	while (more) {
		more = rf_str_cut(&line, ',', &field);
		if (n < t->n_fields && t->at[n] >= 0)
			ret[t->at[n]] = rf_str_trim(field);
		n++;
	}
	if (n != t->n_fields)
		return rf_fail(err, RF_INVALID, "line %lld has %zu fields, the first line %zu", (long long)t->line, n,
			       t->n_fields);
	return 1;
}

int rf_simulate_number(const struct rf_simulate_table *t, const struct rf_str *row, int column, int64_t max, int64_t *ret,
		       struct rf_err *err)
{
	int64_t v = 0;

	if (rf_str_int(row[column], &v, NULL) < 0 || v < 0 || v > max)
		return rf_fail(err, RF_INVALID, "line %lld: %s is \"%.*s\": a whole number from 0 to %lld",
			       (long long)t->line, t->names[column], (int)RF_MIN(row[column].n, 40), row[column].p,
			       (long long)max);
	*ret = v;
	return 0;
}

int rf_simulate_model(struct rf_simulate *s, int64_t line, struct rf_str name, uint8_t *ret, struct rf_err *err)
{
	size_t i = 0;

	while (i < s->n_models && !rf_str_eq(s->models[i], name))
		i++;
	if (i == RF_FLEET_MODELS_MAX)
		return rf_fail(err, RF_INVALID, "line %lld: more than %d models", (long long)line, RF_FLEET_MODELS_MAX);
	if (i == s->n_models)
		s->models[s->n_models++] = rf_arena_str(&s->a, name);
	*ret = (uint8_t)i;
	return 0;
}

int rf_simulate_too_many(const struct rf_simulate_table *t, size_t n, struct rf_err *err)
{
	if (n < RF_SIMULATE_ROWS_MAX)
		return 0;
	return rf_fail(err, RF_TOO_LARGE, "line %lld: more than %d rows", (long long)t->line, RF_SIMULATE_ROWS_MAX);
}

enum { NODE_CPU, NODE_MEMORY, NODE_CARDS, NODE_MODEL, NODE_COLUMNS };

static int read_node(struct rf_simulate *s, const struct rf_simulate_table *t, const struct rf_str *row, struct rf_err *err)
{
	struct rf_simulate_node v = { 0 };
	int64_t cpu, mib, cards;

	if (rf_simulate_number(t, row, NODE_CPU, RF_FLEET_CPU_MAX, &cpu, err) < 0 ||
	    rf_simulate_number(t, row, NODE_MEMORY, RF_FLEET_MEMORY_MAX >> 20, &mib, err) < 0 ||
	    rf_simulate_number(t, row, NODE_CARDS, RF_FLEET_CARDS_MAX, &cards, err) < 0 ||
	    rf_simulate_model(s, t->line, row[NODE_MODEL], &v.model, err) < 0 ||
	    rf_simulate_too_many(t, s->nodes.n, err) < 0)
		return -1;
	v.cpu_milli = cpu;
	v.memory = mib << 20;
	v.cards = (uint8_t)cards;
	rf_vec_push(&s->nodes, v);
	return 0;
}

int rf_simulate_read_nodes(struct rf_simulate *s, struct rf_str csv, struct rf_err *err)
{
	static const char *const NAMES[] = { "cpu_milli", "memory_mib", "gpu", "model", NULL };
	struct rf_simulate_table t = { .rest = csv, .names = NAMES, .required = NODE_COLUMNS };
	struct rf_str row[NODE_COLUMNS];
	struct rf_err own = RF_ERR_INIT;
	int r;

	err = err != NULL ? err : &own;
	if (rf_simulate_header(&t, err) < 0)
		return -err->code;
	while ((r = rf_simulate_row(&t, row, err)) > 0)
		if (read_node(s, &t, row, err) < 0)
			return -err->code;
	return r;
}

enum { POD_CPU, POD_MEMORY, POD_CARDS, POD_MILLI, POD_SPEC, POD_COLUMNS };

static int read_models(struct rf_simulate *s, const struct rf_simulate_table *t, struct rf_str spec, uint64_t *ret,
		       struct rf_err *err)
{
	bool more = spec.n > 0;
	struct rf_str name;
	uint8_t model;

	*ret = 0;
	while (more) {
		more = rf_str_cut(&spec, '|', &name);
		if (name.n == 0)
			continue;
		if (rf_simulate_model(s, t->line, name, &model, err) < 0)
			return -1;
		*ret |= (uint64_t)1 << model;
	}
	return 0;
}

static int read_pod(struct rf_simulate *s, const struct rf_simulate_table *t, const struct rf_str *row, struct rf_err *err)
{
	struct rf_simulate_pod v = { 0 };
	int64_t cpu, mib, cards, milli = 0;

	if (rf_simulate_number(t, row, POD_CPU, RF_FLEET_CPU_MAX, &cpu, err) < 0 ||
	    rf_simulate_number(t, row, POD_MEMORY, RF_FLEET_MEMORY_MAX >> 20, &mib, err) < 0 ||
	    rf_simulate_number(t, row, POD_CARDS, RF_FLEET_CARDS_MAX, &cards, err) < 0 ||
	    rf_simulate_too_many(t, s->pods.n, err) < 0)
		return -1;
	if (cards > 0 && (rf_simulate_number(t, row, POD_MILLI, RF_FLEET_MILLI, &milli, err) < 0 ||
			  read_models(s, t, row[POD_SPEC], &v.models, err) < 0))
		return -1;
	v.cpu_milli = cpu;
	v.memory = mib << 20;
	v.cards = (uint8_t)(milli > 0 ? cards : 0);
	v.milli = (uint16_t)milli;
	rf_vec_push(&s->pods, v);
	return 0;
}

int rf_simulate_read_pods(struct rf_simulate *s, struct rf_str csv, struct rf_err *err)
{
	static const char *const NAMES[] = { "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", NULL };
	struct rf_simulate_table t = { .rest = csv, .names = NAMES, .required = POD_SPEC };
	struct rf_str row[POD_COLUMNS] = { 0 };
	struct rf_err own = RF_ERR_INIT;
	int r;

	err = err != NULL ? err : &own;
	if (rf_simulate_header(&t, err) < 0)
		return -err->code;
	while ((r = rf_simulate_row(&t, row, err)) > 0)
		if (read_pod(s, &t, row, err) < 0)
			return -err->code;
	return r;
}
