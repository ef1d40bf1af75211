/* What runs, the next to end first. */
#include "simulate/private.h"

static bool before(const struct rf_run *a, const struct rf_run *b)
{
	return a->end != b->end ? a->end < b->end : a->id < b->id;
}

static void swap(struct rf_run *a, struct rf_run *b)
{
	struct rf_run r = *a;

	*a = *b;
	*b = r;
}

void rf_runs_push(rf_runs *runs, struct rf_run r)
{
	size_t i = runs->n;

	rf_vec_push(runs, r);
	for (; i > 0 && before(&runs->at[i], &runs->at[(i - 1) / 2]); i = (i - 1) / 2)
		swap(&runs->at[i], &runs->at[(i - 1) / 2]);
}

struct rf_run rf_runs_take(rf_runs *runs)
{
	struct rf_run first = runs->at[0];
	size_t i = 0;

	runs->at[0] = runs->at[--runs->n];
	for (;;) {
		size_t least = i;

		for (size_t k = 2 * i + 1; k <= 2 * i + 2 && k < runs->n; k++)
			least = before(&runs->at[k], &runs->at[least]) ? k : least;
		if (least == i)
			return first;
		swap(&runs->at[i], &runs->at[least]);
		i = least;
	}
}

int64_t rf_runs_next_ms(const rf_runs *runs)
{
	return runs->n > 0 ? runs->at[0].end : INT64_MAX;
}

void rf_runs_done(rf_runs *runs)
{
	for (size_t i = 0; i < runs->n; i++)
		free(runs->at[i].user);
	rf_vec_done(runs);
}
