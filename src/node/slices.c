#include "node/slices.h"

#include <stdio.h>

#include "base/fs.h"
#include "node/cards.h"

#define SLICES_FILE "%s/slices.json"
#define FILE_MAX (1 << 20)
#define SLICES_MAX (RF_GPU_CARDS_MAX * RF_GPU_INSTANCES_MAX)

/* --- on disk --------------------------------------------------------------------------------- */

static int save(const struct rf_cards *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *list = rf_json_array(&a);

	for (size_t i = 0; i < c->slices.n; i++) {
		const struct rf_slice *s = c->slices.at[i];

		rf_json_push(&a, list,
			     rf_json_make(&a,
					  "{'owner':%s,'container':%s,'nth':%D,'card':%s,'profile':%s,"
					  "'driverProfile':%D,'start':%D,'size':%D,'made':%b,'gi':%D,'ci':%D,"
					  "'uuid':%s,'memory':%D}",
					  s->owner, s->container, (int64_t)s->nth, s->card, s->profile,
					  (int64_t)s->where.profile, (int64_t)s->where.start, (int64_t)s->where.size,
					  s->made, (int64_t)s->gpu.gi, (int64_t)s->gpu.ci, s->gpu.uuid,
					  s->gpu.memory_bytes));
	}
	rf_json_write(&text, rf_json_make(&a, "{'boot':%S,'slices':%j}", rf_cards_boot(&a), list));
	if (rf_fs_write(rf_fs_path(&a, SLICES_FILE, c->state_dir), rf_buf_str(&text), 0600, true, err) < 0)
		return rf_wrap(err, "write down which slices are made");
	return 0;
}

static bool copy(char *to, size_t room, struct rf_str s)
{
	if (s.n == 0 || s.n >= room)
		return false;
	memcpy(to, s.p, s.n);
	to[s.n] = '\0';
	return true;
}

static bool number(const struct rf_json *v, const char *field, unsigned most, unsigned *ret)
{
	int64_t n = rf_json_int(rf_json_at(v, field), -1);

	*ret = n >= 0 && n <= most ? (unsigned)n : 0;
	return n >= 0 && n <= most;
}

static bool read_slice(const struct rf_json *v, struct rf_slice *s)
{
	unsigned nth = 0;

	s->made = rf_json_is_true(rf_json_at(v, "made"));
	s->gpu.memory_bytes = rf_json_int(rf_json_at(v, "memory"), 0);
	if (!copy(s->owner, sizeof(s->owner), rf_json_str_at(v, "owner")) ||
	    !copy(s->container, sizeof(s->container), rf_json_str_at(v, "container")) ||
	    !copy(s->card, sizeof(s->card), rf_json_str_at(v, "card")) ||
	    !copy(s->profile, sizeof(s->profile), rf_json_str_at(v, "profile")) ||
	    !number(v, "nth", SLICES_MAX, &nth) || !number(v, "driverProfile", 1 << 16, &s->where.profile) ||
	    !number(v, "start", 255, &s->where.start) || !number(v, "size", 255, &s->where.size) ||
	    !number(v, "gi", 1 << 16, &s->gpu.gi) || !number(v, "ci", 1 << 16, &s->gpu.ci))
		return false;
	s->nth = nth;
	s->where.id = s->gpu.gi;
	return copy(s->gpu.uuid, sizeof(s->gpu.uuid), rf_json_str_at(v, "uuid")) || !s->made;
}

void rf_slices_load(struct rf_cards *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *path = rf_fs_path(&a, SLICES_FILE, c->state_dir);
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *v, *list;
	struct rf_str text;

	if (rf_fs_read(&a, path, FILE_MAX, &text, &err) < 0 || rf_json_parse(&a, text, &v, &err) < 0) {
		if (err.code != RF_NOT_FOUND)
			rf_warn("%s: %s; instances on cards in MIG mode are taken for somebody else's, and are left alone",
				path, err.msg);
		return;
	}
	if (!rf_str_eq(rf_json_str_at(v, "boot"), rf_cards_boot(&a)))
		return;
	list = rf_json_at(v, "slices");
	for (size_t i = 0; i < rf_json_len(list) && i < SLICES_MAX; i++) {
		struct rf_slice *s = rf_new(struct rf_slice);

		if (read_slice(rf_json_item(list, i), s)) {
			rf_vec_push(&c->slices, s);
			continue;
		}
		rf_warn("%s: entry %zu makes no sense; left out", path, i);
		free(s);
	}
}

void rf_slices_done(struct rf_cards *c)
{
	for (size_t i = 0; i < c->slices.n; i++)
		free(c->slices.at[i]);
	rf_vec_done(&c->slices);
}

/* --- which is ours --------------------------------------------------------------------------- */

static bool find_card(const struct rf_cards *c, const char *uuid, size_t *ret)
{
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		if (strcmp(rf_gpu_card(c->gpu, i)->uuid, uuid) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

/* What was only intended is known by its place, which was free when that was written down. */
static bool is_at(const struct rf_slice *s, const struct rf_gpu_instance *at)
{
	return s->where.profile == at->profile && s->where.start == at->start && s->where.size == at->size &&
	       (!s->made || s->where.id == at->id);
}

static struct rf_slice *owner_of(const struct rf_cards *c, size_t position, const struct rf_gpu_instance *at)
{
	const char *card = rf_gpu_card(c->gpu, position)->uuid;

	for (size_t i = 0; i < c->slices.n; i++)
		if (strcmp(c->slices.at[i]->card, card) == 0 && is_at(c->slices.at[i], at))
			return c->slices.at[i];
	return NULL;
}

static bool is_for(const struct rf_slice *s, const struct rf_slice_for *of)
{
	return rf_str_is(of->owner, s->owner) && rf_str_is(of->container, s->container) && s->nth == of->nth;
}

static struct rf_slice *find(const struct rf_cards *c, const struct rf_slice_for *of)
{
	for (size_t i = 0; i < c->slices.n; i++)
		if (is_for(c->slices.at[i], of))
			return c->slices.at[i];
	return NULL;
}

const struct rf_slice *rf_slices_find(const struct rf_cards *c, const struct rf_slice_for *of)
{
	const struct rf_slice *s = find(c, of);

	return s != NULL && s->made ? s : NULL;
}

enum found { NOT_THERE, HALF_MADE, WHOLE };

/* The instance, if it is there and still the one that was made. */
static int find_instance(struct rf_cards *c, size_t position, const struct rf_slice *s, enum found *ret,
			 unsigned *ret_gi, struct rf_err *err)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	struct rf_gpu_slice now;
	size_t n = 0, i = 0;
	int rc = rf_gpu_instances(c->gpu, position, all, &n, err);

	*ret = NOT_THERE;
	while (rc == 0 && i < n && !is_at(s, &all[i]))
		i++;
	if (rc < 0 || i == n)
		return rc;
	*ret_gi = all[i].id;
	*ret = HALF_MADE;
	if (!s->made)
		return 0;
	rc = rf_gpu_slice_read(c->gpu, position, *ret_gi, &now, err);
	if (rc == 0 || rc == -RF_FORBIDDEN) /* else another's by now, in the same place */
		*ret = rc == 0 && strcmp(now.uuid, s->gpu.uuid) == 0 ? WHOLE : NOT_THERE;
	return rc == -RF_FORBIDDEN || rc == -RF_NOT_FOUND ? 0 : rc;
}

/* --- making ------------------------------------------------------------------------------------ */

static void forget(struct rf_cards *c, struct rf_slice *s)
{
	for (size_t i = 0; i < c->slices.n; i++) {
		if (c->slices.at[i] != s)
			continue;
		rf_vec_remove(&c->slices, i);
		free(s);
		return;
	}
}

/* Not written down is left to the next look: an entry whose instance is gone does no harm. */
static void forget_and_save(struct rf_cards *c, struct rf_slice *s)
{
	struct rf_err err = RF_ERR_INIT;

	forget(c, s);
	if (save(c, &err) < 0)
		rf_warn("%s", err.msg);
}

static int check_free(struct rf_cards *c, size_t position, const struct rf_gpu_instance *where, const char *profile,
		      struct rf_err *err)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	int index = rf_gpu_card(c->gpu, position)->index;
	size_t n = 0;
	int rc = rf_gpu_instances(c->gpu, position, all, &n, err);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		if (all[i].start >= where->start + where->size || where->start >= all[i].start + all[i].size)
			continue;
		if (owner_of(c, position, &all[i]) != NULL)
			return rf_fail(err, RF_UNAVAILABLE,
				       "card gpu-%d: the slice that was where %s goes is still being taken down", index, profile);
		return rf_fail(err, RF_FORBIDDEN,
			       "card gpu-%d: GPU instance %u, which ringfence did not make, is where %s would go; destroy it, or "
			       "take the card from ringfence",
			       index, all[i].id, profile);
	}
	return rc;
}

/* From the GPU instance on: a half-made one is not left behind. */
static int finish(struct rf_cards *c, size_t position, struct rf_slice *s, unsigned gi, struct rf_err *err)
{
	struct rf_err more = RF_ERR_INIT;
	int rc = rf_gpu_slice_open(c->gpu, position, gi, &s->gpu, err);

	if (rc == 0) {
		s->made = true;
		s->where.id = gi;
		rc = save(c, err);
	}
	if (rc == 0)
		return 0;
	s->made = false;
	if (rf_gpu_slice_destroy(c->gpu, position, gi, &more) == 0)
		forget_and_save(c, s);
	else
		rf_warn("%s", more.msg); /* it is still known by its place */
	return rc;
}

static int cut(struct rf_cards *c, const struct rf_slice_for *of, size_t position, const char *profile,
	       const struct rf_gpu_instance *where, struct rf_slice **ret, struct rf_err *err)
{
	struct rf_slice *s;
	unsigned gi = 0;
	int rc;

	if (c->slices.n == SLICES_MAX)
		return rf_fail(err, RF_EXHAUSTED, "%d slices are made; no more are kept account of", SLICES_MAX);
	s = rf_new(struct rf_slice);
	*s = (struct rf_slice){ .nth = of->nth, .where = *where };
	if (!copy(s->owner, sizeof(s->owner), of->owner) || !copy(s->container, sizeof(s->container), of->container) ||
	    !copy(s->profile, sizeof(s->profile), rf_str(profile))) {
		free(s);
		return rf_fail(err, RF_INVALID, "a slice for \"%.*s\": no such names", RF_STR(of->container));
	}
	snprintf(s->card, sizeof(s->card), "%s", rf_gpu_card(c->gpu, position)->uuid);
	rf_vec_push(&c->slices, s);
	rc = save(c, err);
	if (rc < 0) {
		forget(c, s);
		return rc;
	}
	rc = rf_gpu_slice_cut(c->gpu, position, where, &gi, err);
	if (rc < 0) {
		forget_and_save(c, s);
		return rc;
	}
	*ret = s;
	return finish(c, position, s, gi, err);
}

/* One that this agent or the last one made. *ret NULL: there is none any more. */
static int resume(struct rf_cards *c, const struct rf_slice_for *of, size_t position, const char *profile, unsigned start,
		  struct rf_slice **ret, struct rf_err *err)
{
	struct rf_slice *s = find(c, of);
	enum found found;
	unsigned gi = 0;

	*ret = NULL;
	if (s == NULL)
		return 0;
	if (strcmp(s->card, rf_gpu_card(c->gpu, position)->uuid) != 0 || strcmp(s->profile, profile) != 0 ||
	    s->where.start != start)
		return rf_fail(err, RF_CONFLICT, "slice %zu of container %s was made of another profile or in another place",
			       s->nth, s->container);
	if (find_instance(c, position, s, &found, &gi, err) < 0)
		return -err->code;
	if (found == WHOLE) {
		*ret = s;
		return 0;
	}
	/* One that is not known to be ours but by its place is made anew: if it is somebody else's after all, who uses
	 * it, the driver does not destroy it, and nobody else gets it. */
	if (found == HALF_MADE && rf_gpu_slice_destroy(c->gpu, position, gi, err) < 0)
		return rf_wrap(err, "slice %s, begun before", s->profile);
	forget(c, s);
	return 0;
}

int rf_slices_make(struct rf_cards *c, const struct rf_slice_for *of, size_t position, const char *profile, unsigned start,
		   const struct rf_slice **ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_gpu_instance where;
	struct rf_slice *s = NULL;

	err = err != NULL ? err : &own;
	if (resume(c, of, position, profile, start, &s, err) < 0)
		return -err->code;
	if (s == NULL && (rf_gpu_instance_at(c->gpu, position, profile, start, &where, err) < 0 ||
			  check_free(c, position, &where, profile, err) < 0 ||
			  cut(c, of, position, profile, &where, &s, err) < 0))
		return -err->code;
	*ret = s;
	return 0;
}

/* --- taking down ------------------------------------------------------------------------------- */

static int take_down(struct rf_cards *c, struct rf_slice *s, struct rf_err *err)
{
	enum found found;
	size_t position;
	unsigned gi = 0;

	if (!find_card(c, s->card, &position))
		return rf_fail(err, RF_GONE, "card %s is not on this machine", s->card);
	if (find_instance(c, position, s, &found, &gi, err) < 0 ||
	    (found != NOT_THERE && rf_gpu_slice_destroy(c->gpu, position, gi, err) < 0))
		return rf_wrap(err, "slice %s of pod %s", s->profile, s->owner);
	rf_info("card gpu-%d: slice %s at %u, of pod %s, %s", rf_gpu_card(c->gpu, position)->index, s->profile,
		s->where.start, s->owner, found != NOT_THERE ? "taken down" : "is gone");
	forget_and_save(c, s);
	return 0;
}

int rf_slices_drop(struct rf_cards *c, struct rf_str owner, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;

	err = err != NULL ? err : &own;
	for (size_t i = c->slices.n; i-- > 0;) {
		if (!rf_str_is(owner, c->slices.at[i]->owner) || take_down(c, c->slices.at[i], err) == 0)
			continue;
		if (err->code != RF_GONE)
			return -err->code;
	}
	return 0;
}

void rf_slices_sweep(struct rf_cards *c, bool (*wanted)(void *ctx, struct rf_str owner), void *ctx)
{
	for (size_t i = c->slices.n; i-- > 0;) {
		struct rf_slice *s = c->slices.at[i];
		struct rf_err err = RF_ERR_INIT;

		if (wanted(ctx, rf_str(s->owner)) || take_down(c, s, &err) == 0)
			continue;
		if (!s->told)
			rf_warn("%s; will be tried again", err.msg);
		s->told = true;
	}
}

/* --- looking ----------------------------------------------------------------------------------- */

static int count_others(struct rf_cards *c, size_t position)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	size_t n = 0;
	int others = 0;

	if (rf_gpu_instances(c->gpu, position, all, &n, NULL) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		others += owner_of(c, position, &all[i]) == NULL;
	return others;
}

void rf_slices_look(struct rf_cards *c)
{
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++) {
		struct rf_card_health *h = &c->health[i];
		int others = h->sliced && !h->lost ? count_others(c, i) : 0;

		if (others > 0 && others != h->others)
			rf_warn("card gpu-%d is in MIG mode and has %d GPU instances that ringfence did not make; "
				"no slices of it are offered until they are gone",
				rf_gpu_card(c->gpu, i)->index, others);
		else if (others < 0 && h->others >= 0)
			rf_warn("card gpu-%d is in MIG mode, and its GPU instances cannot be listed; no slices of it are offered",
				rf_gpu_card(c->gpu, i)->index);
		h->others = others;
	}
}

int64_t rf_slices_used(const struct rf_cards *c, const struct rf_slice *s)
{
	size_t position;

	return s->made && find_card(c, s->card, &position) ? rf_gpu_slice_used(c->gpu, position, &s->gpu) : -1;
}

/* --- what a container is given ----------------------------------------------------------------- */

struct rf_str rf_slices_visible(struct rf_arena *a, const struct rf_slice *const *slices, size_t n)
{
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < n; i++)
		rf_buf_printf(&text, "%s%s", i > 0 ? "," : "", slices[i]->gpu.uuid);
	return rf_arena_str(a, rf_buf_str(&text));
}

struct rf_str rf_slices_sim_caps(struct rf_arena *a, const struct rf_slice *const *slices, const int *minors, size_t n)
{
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < n; i++)
		rf_buf_printf(&text, "%d %u %u\n", minors[i], slices[i]->gpu.gi, slices[i]->gpu.ci);
	return rf_arena_str(a, rf_buf_str(&text));
}

int rf_slices_caps(const struct rf_slice *s, int card_minor, struct rf_gpu_cap ret[RF_GPU_SLICE_CAPS],
		   struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str minors, devices;

	if (rf_fs_read(&a, "/proc/driver/nvidia-caps/mig-minors", FILE_MAX, &minors, err) < 0 ||
	    rf_fs_read(&a, "/proc/devices", FILE_MAX, &devices, err) < 0)
		return rf_wrap(err, "access to slice %s", s->gpu.uuid);
	return rf_gpu_slice_caps(minors, devices, card_minor, &s->gpu, ret, err);
}
