#include "sched/queue_private.h"

static void set(struct rf_heap *h, size_t i, struct rf_heap_item *item)
{
	h->at[i] = item;
	item->pos = i + 1;
}

static size_t up(struct rf_heap *h, size_t i)
{
	struct rf_heap_item *item = h->at[i];

	while (i > 0 && h->before(item, h->at[(i - 1) / 2])) {
		set(h, i, h->at[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
	set(h, i, item);
	return i;
}

static void down(struct rf_heap *h, size_t i)
{
	struct rf_heap_item *item = h->at[i];

	for (size_t c; (c = 2 * i + 1) < h->n; i = c) {
		if (c + 1 < h->n && h->before(h->at[c + 1], h->at[c]))
			c++;
		if (!h->before(h->at[c], item))
			break;
		set(h, i, h->at[c]);
	}
	set(h, i, item);
}

void rf_heap_put(struct rf_heap *h, struct rf_heap_item *item)
{
	if (item->pos == 0) {
		if (h->n == h->cap) {
			h->cap = h->cap ? h->cap * 2 : 4;
			h->at = rf_realloc(h->at, h->cap * sizeof(*h->at));
		}
		set(h, h->n++, item);
	}
	down(h, up(h, item->pos - 1));
}

void rf_heap_del(struct rf_heap *h, struct rf_heap_item *item)
{
	size_t i = item->pos;
	struct rf_heap_item *last;

	if (i == 0)
		return;
	item->pos = 0;
	last = h->at[--h->n];
	if (last == item)
		return;
	set(h, i - 1, last);
	down(h, up(h, i - 1));
}

void rf_heap_all(struct rf_heap *h)
{
	for (size_t i = h->n / 2; i-- > 0;)
		down(h, i);
}

void rf_heap_done(struct rf_heap *h)
{
	free(h->at);
	*h = (struct rf_heap){ .before = h->before };
}

/* --- walk: a heap of places in the heap ----------------------------------------------------- */

static bool earlier(const struct rf_walk *w, size_t a, size_t b)
{
	return w->heap->before(w->heap->at[a], w->heap->at[b]);
}

static void add(struct rf_walk *w, size_t place)
{
	size_t i = w->n++;

	if (w->n > w->cap) {
		w->cap = w->cap ? w->cap * 2 : 64;
		w->at = rf_realloc(w->at, w->cap * sizeof(*w->at));
	}
	for (; i > 0 && earlier(w, place, w->at[(i - 1) / 2]); i = (i - 1) / 2)
		w->at[i] = w->at[(i - 1) / 2];
	w->at[i] = place;
}

static size_t take(struct rf_walk *w)
{
	size_t first = w->at[0], last = w->at[--w->n], i = 0;

	for (size_t c; (c = 2 * i + 1) < w->n; i = c) {
		if (c + 1 < w->n && earlier(w, w->at[c + 1], w->at[c]))
			c++;
		if (!earlier(w, w->at[c], last))
			break;
		w->at[i] = w->at[c];
	}
	w->at[i] = last;
	return first;
}

void rf_walk_start(struct rf_walk *w, const struct rf_heap *h)
{
	w->heap = h;
	w->n = 0;
	if (h->n > 0)
		add(w, 0);
}

struct rf_heap_item *rf_walk_next(struct rf_walk *w)
{
	size_t i;

	if (w->n == 0)
		return NULL;
	i = take(w);
	if (2 * i + 1 < w->heap->n)
		add(w, 2 * i + 1);
	if (2 * i + 2 < w->heap->n)
		add(w, 2 * i + 2);
	return w->heap->at[i];
}
