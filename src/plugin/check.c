/* What is looked at before a claim's cards can reach a container. The scheduler gives no card twice;
 * should it ever, this is the last place to notice. */
#include "plugin/private.h"

#define COMPUTE_WHOLE 1000

/* --- cards ------------------------------------------------------------------------------------ */

struct sum {
	int64_t bytes, milli;
};

static void add_on(const struct rf_held *h, int index, struct sum *s)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index) {
				s->bytes += h->boxes[i].grant.cards[j].memory_bytes;
				s->milli += h->boxes[i].grant.cards[j].compute_milli;
			}
}

static size_t times_in(const struct rf_held *h, int index)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			n += h->boxes[i].grant.cards[j].index == index;
	return n;
}

static int check_neighbours(struct rf_plugin *p, const struct rf_held *h, int index, bool whole,
			    struct sum *sum, struct rf_err *err)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *other = s->value;
		bool theirs = false;

		if (strcmp(other->uid, h->uid) == 0 || rf_held_card(other, index, &theirs) == NULL)
			continue;
		if (whole || theirs)
			return rf_fail(err, RF_UNAVAILABLE,
				       "card gpu-%d is still held by another claim on this node",
				       index);
		add_on(other, index, sum);
	}
	return 0;
}

/* Is it a process of the claim's pod, or of one that shares the card with it? */
static bool is_neighbour(struct rf_plugin *p, const struct rf_held *h, int index,
			 const char *pod_uid)
{
	bool whole;

	if (strcmp(h->pod_uid, pod_uid) == 0)
		return true;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *other = s->value;

		if (strcmp(other->pod_uid, pod_uid) == 0 &&
		    rf_held_card(other, index, &whole) != NULL)
			return true;
	}
	return false;
}

/* The server of an MPS daemon goes with those who share the card by it. */
static bool is_neighbours_server(const struct rf_plugin *p, const struct rf_held *h, pid_t pid)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (h->boxes[i].grant.whole || h->boxes[i].grant.sliced)
			return false;
	return rf_mps_is_ours(p->mps, pid);
}

/* The last holder's processes must be gone, and nobody else's may be there. */
static int check_strangers(struct rf_plugin *p, const struct rf_held *h, int index, size_t position,
			   struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list;
	size_t n, strangers = 0;
	char uid[64];

	if (rf_gpu_processes(p->cards.gpu, position, &a, &list, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n; i++)
		strangers += (rf_procs_pod_of(list[i].pid, uid) <= 0 || !is_neighbour(p, h, index, uid)) &&
			     !is_neighbours_server(p, h, list[i].pid);
	if (strangers > 0)
		return rf_fail(err, RF_UNAVAILABLE,
			       "card gpu-%d: %zu processes of others are still on it", index,
			       strangers);
	return 0;
}

static int check_share(struct rf_plugin *p, const struct rf_held *h, int index, int64_t memory,
		       struct rf_err *err)
{
	struct sum sum = { 0, 0 };

	add_on(h, index, &sum);
	if (check_neighbours(p, h, index, false, &sum, err) < 0)
		return -err->code;
	if (sum.bytes > memory || sum.milli > COMPUTE_WHOLE)
		return rf_fail(
			err, RF_UNAVAILABLE,
			"card gpu-%d has %lld bytes; with this claim %lld bytes and %lld/1000 "
			"of its time would be promised",
			index, (long long)memory, (long long)sum.bytes, (long long)sum.milli);
	return 0;
}

static int check_whole(struct rf_plugin *p, const struct rf_held *h, int index, struct rf_err *err)
{
	struct sum sum = { 0, 0 };

	if (times_in(h, index) > 1)
		return rf_fail(err, RF_FORBIDDEN, "claim %s names card gpu-%d twice", h->name,
			       index);
	return check_neighbours(p, h, index, true, &sum, err);
}

/* How many slices begin in the same place of the same card. (Of those that overlap the driver makes one.) */
static size_t times_at(const struct rf_held *h, const struct rf_grant_card *c)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			n += h->boxes[i].grant.sliced && h->boxes[i].grant.cards[j].index == c->index &&
			     h->boxes[i].grant.cards[j].start == c->start;
	return n;
}

static bool has_unsliced(const struct rf_held *h, int index)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; !h->boxes[i].grant.sliced && j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index)
				return true;
	return false;
}

/* Beside other slices, and nothing else. */
static int check_slice(struct rf_plugin *p, const struct rf_held *h, const struct rf_grant_card *c, struct rf_err *err)
{
	if (times_at(h, c) > 1)
		return rf_fail(err, RF_FORBIDDEN, "claim %s names one place on card gpu-%d twice", h->name, c->index);
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *other = s->value;

		if (strcmp(other->uid, h->uid) == 0)
			continue;
		if (times_at(other, c) > 0 || has_unsliced(other, c->index))
			return rf_fail(err, RF_UNAVAILABLE,
				       "card gpu-%d: slice %s at %u is still held by another claim on this node", c->index,
				       c->profile, c->start);
	}
	return 0;
}

static int check_box(struct rf_plugin *p, const struct rf_held *h, const struct rf_held_box *b,
		     struct rf_err *err)
{
	for (size_t i = 0; i < b->grant.n; i++) {
		int index = b->grant.cards[i].index;
		size_t position;

		if (!rf_card_ok(&p->cards, index, &position, err) ||
		    rf_card_check_mode(&p->cards, position, b->grant.sliced, err) < 0 ||
		    rf_card_check_measured(&p->cards, index, err) < 0)
			return -err->code;
		/* Nobody can be on what is made anew for it. */
		if (b->grant.sliced) {
			if (check_slice(p, h, &b->grant.cards[i], err) < 0)
				return -err->code;
			continue;
		}
		int rc = b->grant.whole
				 ? check_whole(p, h, index, err)
				 : check_share(p, h, index,
					       rf_gpu_card(p->cards.gpu, position)->memory_bytes,
					       err);
		if (rc < 0 || check_strangers(p, h, index, position, err) < 0)
			return -err->code;
	}
	return 0;
}

int rf_check_cards(struct rf_plugin *p, const struct rf_held *h, struct rf_err *err)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (check_box(p, h, &h->boxes[i], err) < 0)
			return -err->code;
	return 0;
}

/* --- mounts ----------------------------------------------------------------------------------- */

/* What lies over /ringfence, or over everything, could pose as us. Once "." and ".." are gone. */
static bool is_ours(struct rf_str path)
{
	struct rf_str part, first = RF_STR_EMPTY;
	int depth = 0;

	while (path.n > 0) {
		rf_str_cut(&path, '/', &part);
		if (part.n == 0 || rf_str_is(part, "."))
			continue;
		if (rf_str_is(part, "..")) {
			depth = RF_MAX(depth - 1, 0);
			continue;
		}
		if (depth++ == 0)
			first = part;
	}
	return depth == 0 || rf_str_is(first, "ringfence");
}

static int check_paths(const struct rf_json *container, const char *list, const char *field,
		       struct rf_err *err)
{
	const struct rf_json *all = rf_json_get(container, rf_str(list));

	for (size_t i = 0; i < rf_json_len(all); i++) {
		struct rf_str path = rf_json_str(rf_json_get(rf_json_item(all, i), rf_str(field)));

		if (is_ours(path))
			return rf_fail(
				err, RF_FORBIDDEN,
				"container %.*s: %s %.*s: /ringfence is ringfence's; mount the "
				"volume elsewhere",
				RF_STR(rf_json_str_at(container, "name")), field, RF_STR(path));
	}
	return 0;
}

int rf_check_mounts(const struct rf_json *container, struct rf_err *err)
{
	if (check_paths(container, "volumeMounts", "mountPath", err) < 0 ||
	    check_paths(container, "volumeDevices", "devicePath", err) < 0)
		return -err->code;
	return 0;
}
