/* Shares: device memory that several processes hold. Their bytes lie in the card's file, so that
 * whoever has the card can map them, and go when the last holder does. */
#include "sim/state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

/* A share is there exactly as long as somebody holds it: whoever dies while changing one leaves
 * nothing to repair. */
bool sim_share_alive(const struct sim_share *h)
{
	uint64_t any = 0;

	for (int i = 0; i < SIM_PROCS / 64; i++)
		any |= h->holders[i];
	return h->id != 0 && any != 0;
}

static bool holds(const struct sim_share *h, uint32_t proc)
{
	return (h->holders[proc / 64] >> (proc % 64) & 1) != 0;
}

uint32_t sim_share_owner(const struct sim_share *h)
{
	uint32_t i = 0;

	if (h->maker < SIM_PROCS && holds(h, h->maker))
		return h->maker;
	while (i < SIM_PROCS && !holds(h, i))
		i++;
	return i;
}

struct sim_share *sim_share_find(struct sim_card *c, uint64_t id)
{
	for (int i = 0; id != 0 && i < sim_share_top(c); i++)
		if (c->s->shares[i].id == id && sim_share_alive(&c->s->shares[i]))
			return &c->s->shares[i];
	return NULL;
}

/* The end of a share that overlaps the range, 0 if none does. */
static uint64_t taken(const struct sim_card *c, uint64_t at, uint64_t bytes)
{
	for (int i = 0; i < sim_share_top(c); i++) {
		const struct sim_share *h = &c->s->shares[i];

		if (sim_share_alive(h) && h->offset < at + bytes && at < h->offset + h->bytes)
			return h->offset + h->bytes;
	}
	return 0;
}

/* Gives the bytes back to the file system, and leaves zeroes, if it can make holes. */
static void clear(struct sim_card *c, uint64_t at, uint64_t bytes)
{
	(void)!fallocate(c->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
			 (off_t)bytes);
}

/* The first hole that is large enough, in a file that is too. */
static bool place(struct sim_card *c, uint64_t bytes, uint64_t *ret_at)
{
	uint64_t at = SIM_SHARE_AT, next;
	struct stat st;

	if (bytes > SIM_SHARE_END - SIM_SHARE_AT)
		return false;
	while ((next = taken(c, at, bytes)) > at)
		at = next;
	if (at > SIM_SHARE_END - bytes || fstat(c->fd, &st) < 0)
		return false;
	if ((uint64_t)st.st_size < at + bytes && ftruncate(c->fd, (off_t)(at + bytes)) < 0)
		return false;
	clear(c, at, bytes); /* who had it may have died before it was cleared */
	*ret_at = at;
	return true;
}

struct sim_share *sim_share_new(struct sim_card *c, int proc, uint32_t part, uint64_t bytes,
				bool paid)
{
	struct sim_share *h = NULL;
	uint64_t at = 0;

	for (int i = 0; h == NULL && i < SIM_SHARES; i++)
		if (!sim_share_alive(&c->s->shares[i]))
			h = &c->s->shares[i];
	if (h == NULL || !place(c, bytes, &at))
		return NULL;
	if (!paid && !sim_memory_take(c, proc, part, bytes))
		return NULL;
	/* What the process paid for is from now on counted with the share. */
	sim_memory_give(c, proc, bytes);
	*h = (struct sim_share){
		.offset = at, .bytes = bytes, .part = part, .maker = (uint32_t)proc
	};
	h->id = ++c->s->share_serial;
	if (c->s->share_top <= (uint32_t)(h - c->s->shares))
		c->s->share_top = (uint32_t)(h - c->s->shares) + 1;
	sim_share_hold(h, proc);
	return h;
}

void sim_share_hold(struct sim_share *h, int proc)
{
	h->holders[proc / 64] |= 1ULL << (proc % 64);
}

void sim_share_drop(struct sim_card *c, struct sim_share *h, int proc)
{
	h->holders[proc / 64] &= ~(1ULL << (proc % 64));
	if (!sim_share_alive(h))
		clear(c, h->offset, h->bytes);
}

void sim_share_drop_all(struct sim_card *c, int proc)
{
	for (int i = 0; i < sim_share_top(c); i++)
		if (sim_share_alive(&c->s->shares[i]) && holds(&c->s->shares[i], (uint32_t)proc))
			sim_share_drop(c, &c->s->shares[i], proc);
}
