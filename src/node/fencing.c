/* A container's fence, from its grant. */
#include "base/fs.h"
#include "fence/ledger.h"
#include "node/agent.h"
#include "node/fence_server.h"
#include "node/volume.h"

const struct rf_slice *rf_container_slice(const struct rf_container *c, size_t i)
{
	struct rf_slice_for of = { rf_str(c->worker->uid), rf_str(c->name), i };

	return c->grant.sliced ? rf_slices_find(&c->worker->agent->cards, &of) : NULL;
}

int rf_container_fence(struct rf_container *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_agent *g = c->worker->agent;
	struct rf_fence_card cards[RF_GRANT_CARDS_MAX];
	struct rf_fence_terms terms = rf_fence_terms_of(c->worker->pod);
	const struct rf_slice *slice;
	size_t position;

	terms.mps = c->mps;
	if (c->fence != NULL || c->grant.n == 0)
		return 0;
	if (g->fence_lib == NULL)
		return rf_fail(err, RF_UNAVAILABLE,
			       "libringfence.so is not beside the program; without it no fence "
			       "can be set up");
	for (size_t i = 0; i < c->grant.n; i++) {
		if (!rf_card_ok(&g->cards, c->grant.cards[i].index, &position, err))
			return -err->code;
		slice = rf_container_slice(c, i);
		if (c->grant.sliced && slice == NULL)
			return rf_fail(err, RF_INTERNAL, "container %s: slice %zu was not made", c->name, i);
		cards[i] = rf_fence_card_of(&g->cards, position, &c->grant, i, slice, &terms);
	}
	/* The tenant's processes get the ledger to write: it has room for a ledger and no more. */
	const char *room =
		rf_fs_path(&a, "%s/" RF_VOLUMES_DIR "/.ledger-%s", c->worker->dir, c->name);
	if (rf_fs_mkdirs(c->dir, 0700, err) < 0 ||
	    rf_volumes_scratch(room, sizeof(struct rf_ledger), err) < 0)
		return -err->code;
	int rc = rf_fence_post_open(&g->loop, &g->arbiter, rf_fs_path(&a, "%s/run", c->dir),
				    rf_fs_path(&a, "%s/ledger", room), cards, c->grant.n, &c->fence,
				    NULL, err);
	/* Spoilt by its container while no agent was there, or of another version: it does not get
	 * better by waiting. */
	if (rc == -RF_CONFLICT)
		err->code = RF_FORBIDDEN;
	return rc < 0 ? rf_wrap(err, "fence of container %s", c->name) : 0;
}

void rf_container_unfence(struct rf_container *c)
{
	rf_fence_post_close(c->fence);
	c->fence = NULL;
}

bool rf_container_figures(const struct rf_container *c, size_t i, struct rf_fence_figures *ret)
{
	struct rf_fence_usage u = { .used_bytes = 0 };

	if (c->fence == NULL)
		return false;
	/* A spoiled ledger still says the cap; the rest is then zero. */
	(void)rf_fence_server_usage(c->fence->server, i, &u);
	*ret = (struct rf_fence_figures){ .used = (int64_t)RF_MIN(u.used_bytes, INT64_MAX),
					  .cap = (int64_t)u.cap_bytes,
					  .processes = u.processes,
					  .refusals = (int64_t)RF_MIN(u.refusals, INT64_MAX),
					  .gpu_us = (int64_t)(u.gpu_ns / 1000),
					  .held_us = (int64_t)(u.held_ns / 1000) };
	/* What the fence does not count, the driver does. */
	const struct rf_slice *slice = rf_container_slice(c, i);
	if (slice != NULL) {
		ret->used = RF_MAX(rf_slices_used(&c->worker->agent->cards, slice), 0);
		ret->cap = slice->gpu.memory_bytes;
	}
	return true;
}

size_t rf_container_seated(const struct rf_container *c, pid_t *ret, size_t room)
{
	return c->fence != NULL ? RF_MIN(rf_fence_server_pids(c->fence->server, ret, room), room) : 0;
}

bool rf_container_jammed(const struct rf_container *c)
{
	return c->fence != NULL && rf_fence_server_jammed(c->fence->server);
}
