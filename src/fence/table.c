#include "fence/table.h"

#include <stdlib.h>

static size_t home_of(size_t cap, unsigned space, uint64_t key)
{
	uint64_t h = (key ^ ((uint64_t)space << 56)) * 0x9e3779b97f4a7c15ull;

	return (size_t)(h >> 20) & (cap - 1);
}

void rf_table_lock(struct rf_table *t)
{
	pthread_mutex_lock(&t->lock);
}

void rf_table_unlock(struct rf_table *t)
{
	pthread_mutex_unlock(&t->lock);
}

struct rf_entry *rf_table_find(struct rf_table *t, enum rf_space space, uint64_t key)
{
	if (t->cap == 0)
		return NULL;
	for (size_t i = home_of(t->cap, space, key);; i = (i + 1) & (t->cap - 1)) {
		struct rf_entry *e = &t->slots[i];

		if (e->space == RF_SPACE_NONE)
			return NULL;
		if (e->space == space && e->key == key)
			return e;
	}
}

static size_t hint_of(uint64_t pointer)
{
	return (size_t)((pointer * 0x9e3779b97f4a7c15ull) >> 52) % RF_TABLE_HINTS;
}

static void hint(struct rf_table *t, const struct rf_entry *e, int change)
{
	if (e->space == RF_SPACE_POINTER)
		__atomic_add_fetch(&t->hint[hint_of(e->key)], (uint32_t)change, __ATOMIC_RELAXED);
}

bool rf_table_may_hold(const struct rf_table *t, uint64_t pointer)
{
	return __atomic_load_n(&t->hint[hint_of(pointer)], __ATOMIC_RELAXED) != 0;
}

static void insert(struct rf_entry *slots, size_t cap, const struct rf_entry *e)
{
	size_t i = home_of(cap, e->space, e->key);

	while (slots[i].space != RF_SPACE_NONE)
		i = (i + 1) & (cap - 1);
	slots[i] = *e;
}

static void add(struct rf_table *t, const struct rf_entry *e)
{
	insert(t->slots, t->cap, e);
	hint(t, e, 1);
	t->n++;
}

static bool grow(struct rf_table *t)
{
	size_t cap = t->cap ? t->cap * 2 : 256;
	struct rf_entry *slots = calloc(cap, sizeof(*slots));

	if (!slots)
		return false;
	for (size_t i = 0; i < t->cap; i++) {
		if (t->slots[i].space != RF_SPACE_NONE)
			insert(slots, cap, &t->slots[i]);
	}
	free(t->slots);
	t->slots = slots;
	t->cap = cap;
	return true;
}

bool rf_table_room(struct rf_table *t)
{
	bool ok = true;

	rf_table_lock(t);
	/* Two thirds full at most, so that a probe stays short and always meets an empty slot. */
	if ((t->n + t->promised + 1) * 3 > t->cap * 2)
		ok = grow(t);
	if (ok)
		t->promised++;
	rf_table_unlock(t);
	return ok;
}

void rf_table_waive(struct rf_table *t)
{
	rf_table_lock(t);
	t->promised--;
	rf_table_unlock(t);
}

bool rf_table_replace(struct rf_table *t, const struct rf_entry *e, struct rf_entry *ret_old)
{
	struct rf_entry *old;

	rf_table_lock(t);
	t->promised--;
	old = rf_table_find(t, e->space, e->key);
	if (old) {
		*ret_old = *old;
		*old = *e;
	} else {
		add(t, e);
	}
	rf_table_unlock(t);
	return old != NULL;
}

void rf_table_put(struct rf_table *t, const struct rf_entry *e)
{
	struct rf_entry old;

	rf_table_replace(t, e, &old);
}

bool rf_table_put_over(struct rf_table *t, const struct rf_entry *e, struct rf_entry *ret_old)
{
	struct rf_entry *old;

	rf_table_lock(t);
	t->promised--;
	old = rf_table_find(t, e->space, e->key);
	if (old) {
		*ret_old = *old;
		*old = *e;
		old->refs += ret_old->refs;
		old->maps += ret_old->maps;
		if (ret_old->maps > 0 && ret_old->card == e->card)
			old->bytes += ret_old->bytes;
	} else {
		add(t, e);
	}
	rf_table_unlock(t);
	return old != NULL;
}

bool rf_table_put_or_again(struct rf_table *t, const struct rf_entry *e)
{
	struct rf_entry *old;

	rf_table_lock(t);
	t->promised--;
	old = rf_table_find(t, e->space, e->key);
	if (old) {
		old->refs++;
	} else {
		add(t, e);
	}
	rf_table_unlock(t);
	return old != NULL;
}

/* Closes the gap, so that no probe stops short of an entry that was pushed past it. */
static void erase(struct rf_table *t, struct rf_entry *e)
{
	size_t mask = t->cap - 1;
	size_t gap = (size_t)(e - t->slots);

	hint(t, e, -1);
	for (size_t i = (gap + 1) & mask; t->slots[i].space != RF_SPACE_NONE; i = (i + 1) & mask) {
		size_t home = home_of(t->cap, t->slots[i].space, t->slots[i].key);

		if (((i - home) & mask) >= ((i - gap) & mask)) {
			t->slots[gap] = t->slots[i];
			gap = i;
		}
	}
	t->slots[gap] = (struct rf_entry){ .space = RF_SPACE_NONE };
	t->n--;
}

void rf_table_take_found(struct rf_table *t, struct rf_entry *e, struct rf_entry *ret)
{
	*ret = *e;
	erase(t, e);
	t->promised++;
}

bool rf_table_take(struct rf_table *t, enum rf_space space, uint64_t key, struct rf_entry *ret)
{
	struct rf_entry *e;

	rf_table_lock(t);
	e = rf_table_find(t, space, key);
	if (e)
		rf_table_take_found(t, e, ret);
	rf_table_unlock(t);
	return e != NULL;
}

static bool belongs(const struct rf_entry *e, uint64_t owner)
{
	switch (e->space) {
	case RF_SPACE_POINTER:
	case RF_SPACE_ARRAY:
	case RF_SPACE_MIPMAP:
	case RF_SPACE_IPC:
	case RF_SPACE_EXTERNAL:
	case RF_SPACE_MODULE:
	case RF_SPACE_GREEN:
	case RF_SPACE_PAGE:
		return e->owner == owner;
	default:
		return false;
	}
}

void rf_table_forget(struct rf_table *t, uint64_t owner,
		     void (*gone)(void *ctx, const struct rf_entry *e), void *ctx)
{
	rf_table_lock(t);
	for (size_t i = 0; i < t->cap;) {
		if (!belongs(&t->slots[i], owner)) {
			i++;
			continue;
		}
		gone(ctx, &t->slots[i]);
		erase(t, &t->slots[i]); /* may have moved another one here: look again */
	}
	rf_table_unlock(t);
}
