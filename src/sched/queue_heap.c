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

static size_t down(struct rf_heap *h, size_t i)
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
	return i;
}

static const struct rf_queue_need *need_of(const struct rf_heap *h, size_t i)
{
	return (const struct rf_queue_need *)((const char *)h->at[i] + h->need_at);
}

static struct rf_queue_need least(const struct rf_heap *h, size_t i)
{
	struct rf_queue_need n = *need_of(h, i);

	for (size_t c = 2 * i + 1; c <= 2 * i + 2 && c < h->n; c++) {
		for (size_t k = 0; k < RF_QUEUE_NEEDS; k++)
			n.of[k] = RF_MIN(n.of[k], h->least[c].of[k]);
	}
	return n;
}

static bool same_need(const struct rf_queue_need *a, const struct rf_queue_need *b)
{
	int32_t differ = 0;

	for (size_t i = 0; i < RF_QUEUE_NEEDS; i++)
		differ |= a->of[i] ^ b->of[i];
	return differ == 0;
}

/* From the lowest place that changed up to the highest, and on as long as it makes a difference. */
static void mend(struct rf_heap *h, size_t low, size_t high)
{
	if (h->need_at == 0 || h->n == 0)
		return;
	for (size_t i = low;; i = (i - 1) / 2) {
		struct rf_queue_need n = least(h, i);
		bool same = same_need(&n, &h->least[i]);

		h->least[i] = n;
		if (i == 0 || (same && i <= high))
			return;
	}
}

static void place(struct rf_heap *h, size_t from)
{
	size_t high = up(h, from), low = down(h, high);

	mend(h, RF_MAX(from, low), high);
}

/* Both in one block: who looks at one looks at the other. */
static void grow(struct rf_heap *h)
{
	size_t each = sizeof(*h->at) + (h->need_at != 0 ? sizeof(*h->least) : 0);
	struct rf_queue_need *was;

	h->cap = h->cap ? h->cap * 2 : 4;
	h->at = rf_realloc(h->at, h->cap * each);
	if (h->need_at == 0)
		return;
	was = (struct rf_queue_need *)(h->at + h->n);
	h->least = (struct rf_queue_need *)(h->at + h->cap);
	memmove(h->least, was, h->n * sizeof(*h->least));
}

void rf_heap_put(struct rf_heap *h, struct rf_heap_item *item)
{
	if (item->pos == 0) {
		if (h->n == h->cap)
			grow(h);
		set(h, h->n++, item);
		if (h->need_at != 0)
			h->least[h->n - 1] = (struct rf_queue_need){ { -1 } }; /* not known: those above are looked at */
	}
	place(h, item->pos - 1);
}

void rf_heap_del(struct rf_heap *h, struct rf_heap_item *item)
{
	size_t i = item->pos;
	struct rf_heap_item *last;

	if (i == 0)
		return;
	item->pos = 0;
	last = h->at[--h->n];
	if (h->n > 0)
		mend(h, (h->n - 1) / 2, (h->n - 1) / 2); /* above where the last one was */
	if (last == item)
		return;
	set(h, i - 1, last);
	place(h, i - 1);
}

void rf_heap_all(struct rf_heap *h)
{
	for (size_t i = h->n / 2; i-- > 0;)
		(void)down(h, i);
	for (size_t i = h->n; h->need_at != 0 && i-- > 0;)
		h->least[i] = least(h, i);
}

bool rf_heap_audit(const struct rf_heap *h)
{
	for (size_t i = 0; i < h->n; i++) {
		struct rf_queue_need n = h->need_at != 0 ? least(h, i) : (struct rf_queue_need){ 0 };

		if (i > 0 && h->before(h->at[i], h->at[(i - 1) / 2]))
			return false;
		if (h->need_at != 0 && !same_need(&n, &h->least[i]))
			return false;
	}
	return true;
}

void rf_heap_done(struct rf_heap *h)
{
	free(h->at);
	*h = (struct rf_heap){ .before = h->before, .need_at = h->need_at };
}

static bool fits_below(const struct rf_heap *h, size_t i, const struct rf_queue_need *most)
{
	return i < h->n && rf_need_fits(&h->least[i], most);
}

size_t rf_heap_fits(const struct rf_heap *h, size_t i, const struct rf_queue_need *most, size_t enough)
{
	size_t n;

	if (!fits_below(h, i, most))
		return 0;
	n = rf_need_fits(need_of(h, i), most);
	for (size_t c = 2 * i + 1; c <= 2 * i + 2 && n < enough; c++)
		n += rf_heap_fits(h, c, most, enough - n);
	return n;
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

void rf_walk_start(struct rf_walk *w, const struct rf_heap *h, const struct rf_queue_need *most)
{
	w->heap = h;
	w->most = most;
	w->n = 0;
	if (fits_below(h, 0, most))
		add(w, 0);
}

struct rf_heap_item *rf_walk_next(struct rf_walk *w)
{
	while (w->n > 0) {
		size_t i = take(w);

		for (size_t c = 2 * i + 1; c <= 2 * i + 2; c++) {
			if (fits_below(w->heap, c, w->most))
				add(w, c);
		}
		if (rf_need_fits(need_of(w->heap, i), w->most))
			return w->heap->at[i];
	}
	return NULL;
}
