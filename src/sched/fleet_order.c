/* Ties between equal nodes end by name: whoever is told the same nodes in another order chooses the same. Every node has
 * a number, and the numbers are in the order of the names (then of the handles, for nodes without one). A new node gets
 * one between its neighbours'; where there is none left all are numbered anew, which changes nobody's order. */
#include "sched/fleet_private.h"

#define STEP (UINT64_C(1) << 40)

static int compare(const struct rf_fleet *f, uint32_t a, uint32_t b)
{
	int r = strcmp(f->names.at[a], f->names.at[b]);

	return r != 0 ? r : a < b ? -1 : a > b;
}

/* Its place among the others, it being one of them or not. */
static size_t find(const struct rf_fleet *f, uint32_t node)
{
	size_t low = 0, high = f->by_name.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (compare(f, f->by_name.at[mid], node) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void number_all(struct rf_fleet *f)
{
	for (size_t i = 0; i < f->by_name.n; i++)
		f->order.at[f->by_name.at[i]] = (UINT64_C(1) << 62) + i * STEP;
}

static void number(struct rf_fleet *f, size_t at)
{
	uint64_t low = at > 0 ? f->order.at[f->by_name.at[at - 1]] : 0;
	uint64_t high = at + 1 < f->by_name.n ? f->order.at[f->by_name.at[at + 1]] : UINT64_MAX;
	uint64_t half = (high - low) / 2;

	if (half == 0)
		number_all(f);
	else if (at == 0 && f->by_name.n > 1)
		f->order.at[f->by_name.at[at]] = high - RF_MIN(half, STEP);
	else if (at + 1 == f->by_name.n && at > 0)
		f->order.at[f->by_name.at[at]] = low + RF_MIN(half, STEP);
	else
		f->order.at[f->by_name.at[at]] = low + half;
}

void fl_order_set(struct rf_fleet *f, uint32_t node, struct rf_str name)
{
	bool again = node < f->names.n;
	size_t at;

	while (f->names.n <= node) {
		rf_vec_push(&f->names, NULL);
		rf_vec_push(&f->order, 0);
	}
	if (f->names.at[node] != NULL && rf_str_is(name, f->names.at[node]))
		return;
	fl_order_drop(f, node);
	if (again)
		fl_lanes_reset(f->lanes); /* they know where the handle was among the others */
	f->names.at[node] = rf_str_dup(name);
	at = find(f, node);
	rf_vec_push(&f->by_name, node);
	memmove(f->by_name.at + at + 1, f->by_name.at + at, (f->by_name.n - 1 - at) * sizeof(*f->by_name.at));
	f->by_name.at[at] = node;
	number(f, at);
}

void fl_order_drop(struct rf_fleet *f, uint32_t node)
{
	if (node >= f->names.n || f->names.at[node] == NULL)
		return;
	rf_vec_remove(&f->by_name, find(f, node));
	free(f->names.at[node]);
	f->names.at[node] = NULL;
}

void fl_order_free(struct rf_fleet *f)
{
	for (size_t i = 0; i < f->names.n; i++)
		free(f->names.at[i]);
	rf_vec_done(&f->names);
	rf_vec_done(&f->order);
	rf_vec_done(&f->by_name);
}

uint64_t rf_fleet_order(const struct rf_fleet *f, uint32_t node)
{
	return f->order.at[node];
}
