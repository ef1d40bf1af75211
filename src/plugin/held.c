/* Claims that are prepared here: checked, written down, fenced; and let go when nobody uses them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"
#include "fence/ledger.h"
#include "node/fence_server.h"
#include "node/hold.h"
#include "node/volume.h"
#include "plugin/private.h"

#define RECORD_MAX (256 * 1024)

static char *copy(struct rf_str s)
{
	char *c = rf_alloc(s.n + 1);

	memcpy(c, s.p, s.n);
	return c;
}

void rf_held_free(struct rf_held *h)
{
	if (h == NULL)
		return;
	for (size_t i = 0; i < h->n_boxes; i++) {
		rf_fence_server_stop(h->boxes[i].fence);
		free(h->boxes[i].name);
	}
	free(h->boxes);
	free(h->uid);
	free(h->ns);
	free(h->name);
	free(h->pod_uid);
	free(h->pod);
	free(h->tenant);
	free(h->dir);
	free(h);
}

struct rf_held *rf_held_find(struct rf_plugin *p, struct rf_str claim_uid)
{
	return rf_map_get(&p->held, claim_uid);
}

struct rf_held_box *rf_held_box(struct rf_held *h, struct rf_str container)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (rf_str_is(container, h->boxes[i].name))
			return &h->boxes[i];
	return NULL;
}

/* --- checks ----------------------------------------------------------------------------------- */

static const struct rf_grant_card *card_in(const struct rf_held *h, int index, bool *ret_whole)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index) {
				*ret_whole = h->boxes[i].grant.whole;
				return &h->boxes[i].grant.cards[j];
			}
	return NULL;
}

static int64_t bytes_on(const struct rf_held *h, int index)
{
	int64_t sum = 0;

	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index)
				sum += h->boxes[i].grant.cards[j].memory_bytes;
	return sum;
}

/* The scheduler gives no card twice; should it ever, this is the last place to notice. */
static int check_neighbours(struct rf_plugin *p, const struct rf_held *h, int index, bool whole,
			    int64_t memory, struct rf_err *err)
{
	int64_t sum = bytes_on(h, index);
	bool theirs = false;

	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *other = s->value;

		if (strcmp(other->uid, h->uid) == 0 || card_in(other, index, &theirs) == NULL)
			continue;
		if (whole || theirs)
			return rf_fail(err, RF_UNAVAILABLE,
				       "card gpu-%d is still held by another claim on this node", index);
		sum += bytes_on(other, index);
	}
	if (!whole && sum > memory)
		return rf_fail(err, RF_UNAVAILABLE,
			       "card gpu-%d has %lld bytes; with this claim %lld would be promised",
			       index, (long long)memory, (long long)sum);
	return 0;
}

static int check_box(struct rf_plugin *p, const struct rf_held *h, const struct rf_held_box *b,
		     struct rf_err *err)
{
	for (size_t i = 0; i < b->grant.n; i++) {
		int index = b->grant.cards[i].index;
		size_t position, strangers = 0;

		if (!rf_card_ok(&p->cards, index, &position, err) ||
		    check_neighbours(p, h, index, b->grant.whole,
				     rf_gpu_card(p->cards.gpu, position)->memory_bytes, err) < 0)
			return -err->code;
		if (b->grant.whole && rf_procs_on_card(p, position, rf_str(h->pod_uid), false,
						       &strangers, err) < 0)
			return -err->code;
		if (strangers > 0)
			return rf_fail(err, RF_UNAVAILABLE,
				       "card gpu-%d: %zu processes of others are still on it", index,
				       strangers);
	}
	return 0;
}

/* The first name of a path once "." and ".." are gone: what lies over /ringfence could pose as us. */
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
	return depth > 0 && rf_str_is(first, "ringfence");
}

static int check_mounts(const struct rf_json *container, struct rf_err *err)
{
	const struct rf_json *mounts = rf_json_at(container, "volumeMounts");

	for (size_t i = 0; i < rf_json_len(mounts); i++) {
		struct rf_str path = rf_json_str_at(rf_json_item(mounts, i), "mountPath");

		if (is_ours(path))
			return rf_fail(err, RF_FORBIDDEN,
				       "container %.*s: mountPath %.*s: /ringfence is ringfence's; "
				       "mount the volume elsewhere",
				       RF_STR(rf_json_str_at(container, "name")), RF_STR(path));
	}
	return 0;
}

/* --- the record ------------------------------------------------------------------------------- */

static struct rf_json *grant_json(struct rf_arena *a, const struct rf_grant *g)
{
	struct rf_json *cards = rf_json_array(a);

	for (size_t i = 0; i < g->n; i++)
		rf_json_push(a, cards,
			     rf_json_make(a, "{'index':%d,'memory':%D,'compute':%D}",
					  g->cards[i].index, g->cards[i].memory_bytes,
					  g->cards[i].compute_milli));
	return rf_json_make(a, "{'whole':%b,'cards':%j}", g->whole, cards);
}

static int save(const struct rf_held *h, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *boxes = rf_json_array(&a);

	for (size_t i = 0; i < h->n_boxes; i++)
		rf_json_push(&a, boxes,
			     rf_json_make(&a, "{'name':%s,'grant':%j}", h->boxes[i].name,
					  grant_json(&a, &h->boxes[i].grant)));
	rf_json_write(&text,
		      rf_json_make(&a,
				   "{'uid':%s,'namespace':%s,'name':%s,'podUID':%s,'pod':%s,"
				   "'tenant':%s,'containers':%j}",
				   h->uid, h->ns, h->name, h->pod_uid, h->pod, h->tenant, boxes));
	if (rf_fs_mkdirs(h->dir, 0700, err) < 0 ||
	    rf_fs_write(rf_fs_path(&a, "%s/record.json", h->dir), rf_buf_str(&text), 0600, true,
			err) < 0)
		return rf_wrap(err, "write claim %s down", h->name);
	return 0;
}

static bool read_grant(const struct rf_json *v, struct rf_grant *g)
{
	const struct rf_json *cards = rf_json_at(v, "cards");

	g->whole = rf_json_is_true(rf_json_at(v, "whole"));
	for (size_t i = 0; i < rf_json_len(cards); i++) {
		const struct rf_json *c = rf_json_item(cards, i);

		if (g->n == RF_GRANT_CARDS_MAX)
			return false;
		g->cards[g->n++] = (struct rf_grant_card){
			.index = (int)rf_json_int(rf_json_at(c, "index"), -1),
			.memory_bytes = rf_json_int(rf_json_at(c, "memory"), -1),
			.compute_milli = rf_json_int(rf_json_at(c, "compute"), -1)
		};
		if (g->cards[g->n - 1].index < 0 || g->cards[g->n - 1].memory_bytes < 0)
			return false;
	}
	return g->n > 0;
}

static struct rf_held *load(struct rf_plugin *p, struct rf_str uid, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	struct rf_json *v;
	struct rf_held *h;
	const char *dir = rf_fs_path(&a, "%s/claims/%.*s", p->data_dir, RF_STR(uid));

	if (rf_fs_read(&a, rf_fs_path(&a, "%s/record.json", dir), RECORD_MAX, &text, err) < 0 ||
	    rf_json_parse(&a, text, &v, err) < 0)
		return NULL;
	h = rf_new(struct rf_held);
	*h = (struct rf_held){ .plugin = p,
			       .uid = copy(rf_json_str_at(v, "uid")),
			       .ns = copy(rf_json_str_at(v, "namespace")),
			       .name = copy(rf_json_str_at(v, "name")),
			       .pod_uid = copy(rf_json_str_at(v, "podUID")),
			       .pod = copy(rf_json_str_at(v, "pod")),
			       .tenant = copy(rf_json_str_at(v, "tenant")),
			       .dir = copy(rf_str(dir)) };
	const struct rf_json *boxes = rf_json_at(v, "containers");
	h->boxes = rf_alloc((rf_json_len(boxes) + 1) * sizeof(*h->boxes));
	bool good = rf_str_is(uid, h->uid) && rf_json_len(boxes) > 0;
	for (size_t i = 0; i < rf_json_len(boxes); i++) {
		const struct rf_json *b = rf_json_item(boxes, i);

		h->boxes[h->n_boxes] =
			(struct rf_held_box){ .name = copy(rf_json_str_at(b, "name")) };
		good &= read_grant(rf_json_at(b, "grant"), &h->boxes[h->n_boxes++].grant);
	}
	if (good)
		return h;
	rf_held_free(h);
	rf_fail(err, RF_INVALID, "%s/record.json is not a record of a claim", dir);
	return NULL;
}

/* --- fences ----------------------------------------------------------------------------------- */

static int fence_box(struct rf_held *h, struct rf_held_box *b, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_plugin *p = h->plugin;
	struct rf_fence_card cards[RF_GRANT_CARDS_MAX];
	const char *room = rf_fs_path(&a, "%s/" RF_VOLUMES_DIR "/.ledger-%s", h->dir, b->name);
	size_t position;

	if (b->fence != NULL)
		return 0;
	memset(cards, 0, sizeof(cards));
	for (size_t i = 0; i < b->grant.n; i++) {
		if (!rf_card_ok(&p->cards, b->grant.cards[i].index, &position, err))
			return -err->code;
		snprintf(cards[i].uuid, sizeof(cards[i].uuid), "%s",
			 rf_gpu_card(p->cards.gpu, position)->uuid);
		cards[i].memory_bytes = (uint64_t)b->grant.cards[i].memory_bytes;
		cards[i].compute_milli = (uint32_t)b->grant.cards[i].compute_milli;
	}
	/* The tenant's processes get the ledger to write: it has room for a ledger and no more. */
	if (rf_fs_mkdirs(rf_fs_path(&a, "%s/%s", h->dir, b->name), 0700, err) < 0 ||
	    rf_volumes_scratch(room, sizeof(struct rf_ledger), err) < 0 ||
	    rf_fence_server_start(&p->loop, rf_fs_path(&a, "%s/%s/run", h->dir, b->name),
				  rf_fs_path(&a, "%s/ledger", room), cards, b->grant.n, &b->fence,
				  err) < 0)
		return rf_wrap(err, "fence of container %s", b->name);
	return 0;
}

static int fence_all(struct rf_held *h, struct rf_err *err)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (fence_box(h, &h->boxes[i], err) < 0)
			return -err->code;
	return 0;
}

/* --- preparing -------------------------------------------------------------------------------- */

static int take_boxes(struct rf_held *h, const struct rf_json *claim, const struct rf_json *pod,
		      struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "containers");

	h->boxes = rf_alloc((rf_json_len(list) + 1) * sizeof(*h->boxes));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);
		struct rf_grant grant;

		if (rf_claim_grant(claim, c, &grant, err) < 0)
			return -err->code;
		if (grant.n == 0)
			continue;
		if (check_mounts(c, err) < 0)
			return -err->code;
		h->boxes[h->n_boxes++] = (struct rf_held_box){
			.name = copy(rf_json_str_at(c, "name")), .grant = grant
		};
	}
	if (h->n_boxes == 0)
		return rf_fail(err, RF_FORBIDDEN, "no container of the pod asks for a card");
	return 0;
}

static struct rf_held *make(struct rf_plugin *p, const struct rf_json *claim,
			    const struct rf_json *pod)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_held *h = rf_new(struct rf_held);
	struct rf_str uid = rf_kube_uid(claim);

	*h = (struct rf_held){ .plugin = p,
			       .uid = copy(uid),
			       .ns = copy(rf_kube_namespace(claim)),
			       .name = copy(rf_kube_name(claim)),
			       .pod_uid = copy(rf_kube_uid(pod)),
			       .pod = copy(rf_kube_name(pod)),
			       .tenant = copy(rf_kube_annotation(claim, RF_TENANT_LABEL)),
			       .dir = copy(rf_arena_printf(&a, "%s/claims/%.*s", p->data_dir,
							   RF_STR(uid))) };
	return h;
}

/* Is it the uid of an object, fit to be a folder's name? */
static bool is_uid(struct rf_str uid)
{
	return uid.n >= 8 && uid.n <= 63 && rf_str_is_dns_label(uid);
}

static int prepare_new(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		       struct rf_held **ret, struct rf_err *err)
{
	struct rf_held *h;

	if (!is_uid(rf_kube_uid(claim)))
		return rf_fail(err, RF_INVALID, "claim %.*s has no proper uid",
			       RF_STR(rf_kube_name(claim)));
	h = make(p, claim, pod);
	int rc = take_boxes(h, claim, pod, err);
	for (size_t i = 0; rc == 0 && i < h->n_boxes; i++)
		rc = check_box(p, h, &h->boxes[i], err);
	/* Written down and held before any container can see a card. */
	if (rc == 0)
		rc = save(h, err);
	if (rc < 0) {
		rf_held_free(h);
		return rc;
	}
	(void)rf_map_set(&p->held, rf_str(h->uid), h);
	*ret = h;
	return 0;
}

int rf_held_prepare(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		    struct rf_held **ret, struct rf_err *err)
{
	struct rf_held *h = rf_held_find(p, rf_kube_uid(claim));

	if (rf_kube_annotation(claim, RF_TENANT_LABEL).n == 0)
		return rf_fail(err, RF_FORBIDDEN, "claim %.*s was not made by ringfence",
			       RF_STR(rf_kube_name(claim)));
	if (rf_claim_check(claim, pod, p->name, err) < 0)
		return -err->code;
	if (h != NULL && !rf_str_is(rf_kube_uid(pod), h->pod_uid))
		return rf_fail(err, RF_FORBIDDEN, "claim %s is held for another pod", h->name);
	if (h == NULL && prepare_new(p, claim, pod, &h, err) < 0)
		return -err->code;
	if (rf_claim_hold(p->kube, claim, err) < 0 || fence_all(h, err) < 0)
		return -err->code;
	*ret = h;
	return 0;
}

/* --- letting go ------------------------------------------------------------------------------- */

static int check_unused(struct rf_held *h, struct rf_err *err)
{
	int lives = rf_procs_pod_lives(rf_str(h->pod_uid));

	if (lives < 0)
		return rf_fail_errno(err, "look for the processes of pod %s", h->pod);
	if (lives > 0)
		return rf_fail(err, RF_UNAVAILABLE, "processes of pod %s/%s still run", h->ns, h->pod);
	for (size_t i = 0; i < rf_gpu_count(h->plugin->cards.gpu); i++) {
		size_t n = 0;

		/* A lost card knows nobody; the empty cgroup is the witness then. */
		if (rf_procs_on_card(h->plugin, i, rf_str(h->pod_uid), true, &n, NULL) == 0 && n > 0)
			return rf_fail(err, RF_UNAVAILABLE,
				       "processes of pod %s/%s are still on card gpu-%d", h->ns,
				       h->pod, rf_gpu_card(h->plugin->cards.gpu, i)->index);
	}
	return 0;
}

static void remove_devices(struct rf_held *h)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (size_t i = 0; i < h->n_boxes; i++)
		rf_cdi_remove(h->plugin, rf_arena_printf(&a, "%s-%s", h->uid, h->boxes[i].name));
	rf_slots_forget(h->plugin, rf_str(h->uid));
}

int rf_held_release(struct rf_held *h, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_plugin *p = h->plugin;

	if (check_unused(h, err) < 0)
		return -err->code;
	/* From here on nobody new can come in; then the card is free for others. */
	remove_devices(h);
	for (size_t i = 0; i < h->n_boxes; i++) {
		rf_fence_server_stop(h->boxes[i].fence);
		h->boxes[i].fence = NULL;
	}
	if (rf_volumes_unmount(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, h->dir), err) < 0 ||
	    rf_claim_let_go(p->kube, rf_str(h->ns), rf_str(h->name), rf_str(h->uid), err) < 0 ||
	    rf_fs_remove_tree(h->dir, err) < 0)
		return rf_wrap(err, "let go of claim %s/%s", h->ns, h->name);
	rf_info("claim %s/%s: let go, pod %s has ended", h->ns, h->name, h->pod);
	(void)rf_map_del(&p->held, rf_str(h->uid));
	rf_held_free(h);
	return 0;
}

/* --- after a restart, and for those whom no kubelet calls for ---------------------------------- */

void rf_held_restore(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names;
	size_t n;
	struct rf_err err = RF_ERR_INIT;

	if (rf_fs_list(&a, rf_fs_path(&a, "%s/claims", p->data_dir), &names, &n, &err) < 0) {
		rf_warn("%s", err.msg);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct rf_held *h = load(p, names[i], &err);

		if (h == NULL) {
			rf_warn("%s", err.msg);
			continue;
		}
		(void)rf_map_set(&p->held, rf_str(h->uid), h);
		if (fence_all(h, &err) < 0)
			rf_warn("claim %s/%s: %s; its containers get no card until it is there again",
				h->ns, h->name, err.msg);
		rf_info("claim %s/%s: taken over, for pod %s", h->ns, h->name, h->pod);
	}
}

static bool wanted(const struct rf_held *h, const struct rf_json *claim, const struct rf_json *pod)
{
	if (claim == NULL || !rf_str_is(rf_kube_uid(claim), h->uid))
		return false;
	if (!rf_kube_deleting(claim))
		return true;
	return pod != NULL && rf_str_is(rf_kube_uid(pod), h->pod_uid) && rf_pod_counts(pod);
}

/* The local copies may lag behind what was prepared a moment ago: the server has the last word. */
static int ask_server(struct rf_held *h, const struct rf_kube_res *res, const char *name,
		      struct rf_arena *a, struct rf_json **ret, struct rf_err *err)
{
	int rc = rf_kube_get(h->plugin->kube, a,
			     rf_kube_path(a, res, rf_str(h->ns), rf_str(name), NULL), ret, err);

	if (rc != -RF_NOT_FOUND)
		return rc;
	*ret = NULL;
	return 0;
}

static void sweep_one(struct rf_held *h)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *claim, *pod;

	if (ask_server(h, &RF_RESOURCECLAIMS, h->name, &a, &claim, &err) < 0 ||
	    ask_server(h, &RF_PODS, h->pod, &a, &pod, &err) < 0) {
		rf_warn("claim %s/%s: %s; will be tried again", h->ns, h->name, err.msg);
		return;
	}
	if (!wanted(h, claim, pod) && rf_held_release(h, &err) < 0 && err.code != RF_UNAVAILABLE)
		rf_warn("%s; will be tried again", err.msg);
}

void rf_held_sweep(struct rf_plugin *p)
{
	RF_VEC(struct rf_held *) over = RF_VEC_INIT;

	if (!rf_informer_synced(p->pods) || !rf_informer_synced(p->claims))
		return;
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		struct rf_held *h = s->value;

		if (!wanted(h, rf_informer_get(p->claims, rf_str(h->ns), rf_str(h->name)),
			    rf_informer_get(p->pods, rf_str(h->ns), rf_str(h->pod))))
			rf_vec_push(&over, h);
	}
	for (size_t i = 0; i < over.n; i++)
		sweep_one(over.at[i]);
	rf_vec_done(&over);
}
