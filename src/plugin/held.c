/* Claims that are prepared here: checked, written down, held, fenced; and let go when nobody uses them. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"
#include "fence/ledger.h"
#include "node/sharing.h"
#include "node/volume.h"
#include "plugin/private.h"

static void free_boxes(struct rf_held_box *boxes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		rf_fence_post_close(boxes[i].fence);
		free(boxes[i].name);
	}
	free(boxes);
}

void rf_held_free(struct rf_held *h)
{
	if (h == NULL)
		return;
	free_boxes(h->boxes, h->n_boxes);
	free(h->uid);
	free(h->ns);
	free(h->name);
	free(h->pod_uid);
	free(h->pod);
	free(h->tenant);
	free(h->domain);
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

bool rf_held_ready(const struct rf_held *h, const struct rf_held_box *b)
{
	return h->holding && !h->ending && b->fence != NULL;
}

const struct rf_grant_card *rf_held_card(const struct rf_held *h, int index, bool *ret_whole)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		for (size_t j = 0; j < h->boxes[i].grant.n; j++)
			if (h->boxes[i].grant.cards[j].index == index) {
				*ret_whole = h->boxes[i].grant.whole;
				return &h->boxes[i].grant.cards[j];
			}
	return NULL;
}

const struct rf_slice *rf_held_slice(const struct rf_held *h, const struct rf_held_box *b, size_t i)
{
	struct rf_slice_for of = { rf_str(h->pod_uid), rf_str(b->name), i };

	return b->grant.sliced ? rf_slices_find(&h->plugin->cards, &of) : NULL;
}

/* --- MPS -------------------------------------------------------------------------------------- */

static bool is_share(const struct rf_held_box *b)
{
	return b->grant.n > 0 && !b->grant.whole && !b->grant.sliced;
}

bool rf_held_by_mps(const struct rf_held *h, const struct rf_held_box *b)
{
	return h->terms.mps && is_share(b);
}

static int get_any(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	return rf_plugin_get(ctx, a, path, ret, err);
}

/* Decided once, and kept with the record: what runs keeps what it has, whatever becomes of its pool. */
static int choose_sharing(struct rf_held *h, struct rf_err *err)
{
	struct rf_sharing_source source = { get_any, h->plugin };
	struct rf_sharing sharing = { .mps = false };
	bool any = false;

	for (size_t i = 0; i < h->n_boxes; i++)
		any = any || is_share(&h->boxes[i]);
	if (any && rf_sharing_of_tenant(&source, h->plugin->name, rf_str(h->tenant), &sharing, err) < 0)
		return -err->code;
	h->terms.mps = sharing.mps;
	free(h->domain);
	h->domain = rf_strdup(sharing.domain);
	return 0;
}

static int find_card(const struct rf_plugin *p, int index, size_t *ret_position, struct rf_err *err);

static int join_mps(struct rf_held *h, const struct rf_held_box *b, struct rf_err *err)
{
	struct rf_plugin *p = h->plugin;
	size_t position = 0;

	if (!rf_held_by_mps(h, b))
		return 0;
	if (b->grant.n != 1)
		return rf_fail(err, RF_UNSUPPORTED, "container %s: MPS shares one card, not %zu", b->name, b->grant.n);
	if (find_card(p, b->grant.cards[0].index, &position, err) < 0 ||
	    rf_mps_join(p->mps, rf_gpu_card(p->cards.gpu, position), rf_str(h->domain), rf_str(h->pod_uid), err) < 0)
		return rf_wrap(err, "container %s", b->name);
	return 0;
}

static int join_all(struct rf_held *h, struct rf_err *err)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (join_mps(h, &h->boxes[i], err) < 0)
			return -err->code;
	return 0;
}

/* A claim without a record: whether it was a client is written down elsewhere too. */
static bool was_client(const struct rf_held *h)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (is_share(&h->boxes[i]) &&
		    rf_mps_has(h->plugin->mps, h->boxes[i].grant.cards[0].index, rf_str(h->pod_uid)))
			return true;
	return false;
}

/* --- fences ----------------------------------------------------------------------------------- */

/* Also of a card that has failed: what runs on it keeps its fence. */
static int find_card(const struct rf_plugin *p, int index, size_t *ret_position, struct rf_err *err)
{
	for (size_t i = 0; i < rf_gpu_count(p->cards.gpu); i++)
		if (rf_gpu_card(p->cards.gpu, i)->index == index) {
			*ret_position = i;
			return 0;
		}
	return rf_fail(err, RF_UNAVAILABLE, "card gpu-%d is not on this machine", index);
}

static int fence_box(struct rf_held *h, struct rf_held_box *b, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_plugin *p = h->plugin;
	struct rf_fence_card cards[RF_GRANT_CARDS_MAX];
	const char *room = rf_fs_path(&a, "%s/" RF_VOLUMES_DIR "/.ledger-%s", h->dir, b->name);

	if (b->fence != NULL)
		return 0;
	for (size_t i = 0; i < b->grant.n; i++) {
		const struct rf_slice *slice = rf_held_slice(h, b, i);
		size_t position;

		if (find_card(p, b->grant.cards[i].index, &position, err) < 0)
			return -err->code;
		if (b->grant.sliced && slice == NULL)
			return rf_fail(err, RF_UNAVAILABLE, "container %s: slice %zu is not made", b->name, i);
		cards[i] = rf_fence_card_of(&p->cards, position, &b->grant, i, slice, &h->terms);
	}
	/* The tenant's processes get the ledger to write: it has room for a ledger and no more. */
	if (rf_fs_mkdirs(rf_fs_path(&a, "%s/%s", h->dir, b->name), 0700, err) < 0 ||
	    rf_volumes_scratch(room, sizeof(struct rf_ledger), err) < 0 ||
	    rf_fence_post_open(&p->loop, &p->arbiter, rf_fs_path(&a, "%s/%s/run", h->dir, b->name),
			       rf_fs_path(&a, "%s/ledger", room), cards, b->grant.n, &b->fence,
			       &b->outdated, err) < 0)
		rf_wrap(err, "fence of container %s", b->name);
	b->spoilt = b->fence == NULL && err->code == RF_CONFLICT;
	return b->fence == NULL ? -err->code : 0;
}

static int make_slices(struct rf_held *h, const struct rf_held_box *b, struct rf_err *err)
{
	struct rf_plugin *p = h->plugin;
	const struct rf_slice *made;
	size_t position = 0;

	for (size_t i = 0; b->grant.sliced && i < b->grant.n; i++) {
		struct rf_slice_for of = { rf_str(h->pod_uid), rf_str(b->name), i };

		if (find_card(p, b->grant.cards[i].index, &position, err) < 0 ||
		    rf_slices_make(&p->cards, &of, position, b->grant.cards[i].profile, b->grant.cards[i].start, &made,
				   err) < 0)
			return rf_wrap(err, "container %s", b->name);
	}
	return 0;
}

static int slice_all(struct rf_held *h, struct rf_err *err)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (make_slices(h, &h->boxes[i], err) < 0)
			return -err->code;
	return 0;
}

static int fence_all(struct rf_held *h, struct rf_err *err)
{
	for (size_t i = 0; i < h->n_boxes; i++)
		if (fence_box(h, &h->boxes[i], err) < 0)
			return -err->code;
	return 0;
}

/* The pod is told why it will be ended, as soon as it is known here. */
static void tell_outdated(struct rf_held *h, struct rf_held_box *b, const char *message)
{
	const struct rf_json *pod =
		h->plugin->pods == NULL
			? NULL /* the agent has only just begun */
			: rf_informer_get(h->plugin->pods, rf_str(h->ns), rf_str(h->pod));

	if (pod == NULL || b->told)
		return;
	rf_plugin_warn(h->plugin, pod, RF_FENCE_OUTDATED, message);
	b->told = true;
}

static void mend_box(struct rf_held *h, struct rf_held_box *b)
{
	struct rf_err err = RF_ERR_INIT;

	if (b->fence != NULL || (b->spoilt && (!b->outdated || b->told)))
		return;
	if (fence_box(h, b, &err) == 0) {
		b->told = false;
		return;
	}
	if (b->outdated) {
		tell_outdated(h, b, err.msg);
		return;
	}
	if (!b->told)
		rf_warn("claim %s/%s: %s; %s", h->ns, h->name, err.msg,
			b->spoilt ? "its processes on a card will be ended"
				  : "will be tried again");
	b->told = true;
}

void rf_held_mend(struct rf_plugin *p)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		struct rf_held *h = s->value;

		for (size_t i = 0; !h->ending && i < h->n_boxes; i++)
			mend_box(h, &h->boxes[i]);
	}
}

/* --- what a claim grants ---------------------------------------------------------------------- */

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
		if (!rf_str_is_dns_label(rf_json_str_at(c, "name")))
			return rf_fail(err, RF_INVALID, "a container's name is not a DNS label");
		if (rf_check_mounts(c, err) < 0)
			return -err->code;
		h->boxes[h->n_boxes++] =
			(struct rf_held_box){ .name = rf_str_dup(rf_json_str_at(c, "name")),
					      .grant = grant };
	}
	if (h->n_boxes == 0)
		return rf_fail(err, RF_FORBIDDEN, "no container of the pod asks for a card");
	return 0;
}

static bool same_grant(const struct rf_grant *a, const struct rf_grant *b)
{
	if (a->n != b->n || a->whole != b->whole || a->sliced != b->sliced)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (a->cards[i].index != b->cards[i].index ||
		    a->cards[i].memory_bytes != b->cards[i].memory_bytes ||
		    a->cards[i].compute_milli != b->cards[i].compute_milli ||
		    a->cards[i].start != b->cards[i].start ||
		    strcmp(a->cards[i].profile, b->cards[i].profile) != 0)
			return false;
	return true;
}

/* An allocation does not change while it is held; if it did, containers would be on the wrong card. */
static int check_same(const struct rf_held *h, const struct rf_json *claim,
		      const struct rf_json *pod, struct rf_err *err)
{
	struct rf_held now = { .n_boxes = 0 };
	int rc = take_boxes(&now, claim, pod, err);
	bool same = rc == 0 && now.n_boxes == h->n_boxes;

	for (size_t i = 0; same && i < h->n_boxes; i++)
		same = strcmp(now.boxes[i].name, h->boxes[i].name) == 0 &&
		       same_grant(&now.boxes[i].grant, &h->boxes[i].grant);
	free_boxes(now.boxes, now.n_boxes);
	if (rc == 0 && !same)
		return rf_fail(
			err, RF_CONFLICT,
			"claim %s does not say any more what it said when it was prepared; delete "
			"the pod",
			h->name);
	return rc;
}

static struct rf_held *make(struct rf_plugin *p, const struct rf_json *claim, struct rf_str pod,
			    struct rf_str pod_uid)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_held *h = rf_new(struct rf_held);

	*h = (struct rf_held){ .plugin = p,
			       .uid = rf_str_dup(rf_kube_uid(claim)),
			       .ns = rf_str_dup(rf_kube_namespace(claim)),
			       .name = rf_str_dup(rf_kube_name(claim)),
			       .pod_uid = rf_str_dup(pod_uid),
			       .pod = rf_str_dup(pod),
			       .tenant = rf_str_dup(rf_kube_annotation(claim, RF_TENANT_LABEL)),
			       .domain = rf_str_dup(RF_STR_EMPTY),
			       .dir = rf_strdup(rf_record_dir(&a, p, rf_kube_uid(claim))) };
	return h;
}

static int keep(struct rf_held *h, struct rf_held **ret, struct rf_err *err)
{
	if (rf_record_save(h, err) < 0)
		return -err->code;
	(void)rf_map_set(&h->plugin->held, rf_str(h->uid), h);
	(void)rf_map_del(&h->plugin->unknown, rf_str(h->uid));
	*ret = h;
	return 0;
}

/* --- preparing -------------------------------------------------------------------------------- */

static int prepare_new(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		       struct rf_held **ret, struct rf_err *err)
{
	/* Its own folder is no hindrance: it is written anew. */
	bool own = rf_map_get(&p->unknown, rf_kube_uid(claim)) != NULL;

	if (p->unknown.n > (own ? 1 : 0))
		return rf_fail(
			err, RF_UNAVAILABLE,
			"records of held claims cannot be read, and the API server has not said "
			"yet which cards they are on");
	struct rf_held *h = make(p, claim, rf_kube_name(pod), rf_kube_uid(pod));
	int rc = take_boxes(h, claim, pod, err);

	h->terms = rf_fence_terms_of(pod);
	if (rc == 0)
		rc = rf_check_cards(p, h, err);
	if (rc == 0)
		rc = choose_sharing(h, err);
	if (rc == 0)
		rc = keep(h, ret, err);
	if (rc < 0)
		rf_held_free(h);
	return rc;
}

static int check_claim(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		       struct rf_err *err)
{
	if (!rf_record_is_uid(rf_kube_uid(claim)) || !rf_record_is_uid(rf_kube_uid(pod)))
		return rf_fail(err, RF_INVALID, "claim %.*s or its pod has no proper uid",
			       RF_STR(rf_kube_name(claim)));
	if (rf_kube_annotation(claim, RF_TENANT_LABEL).n == 0)
		return rf_fail(err, RF_FORBIDDEN, "claim %.*s was not made by ringfence",
			       RF_STR(rf_kube_name(claim)));
	if (!rf_pod_counts(pod))
		return rf_fail(err, RF_FORBIDDEN, "pod %.*s has ended", RF_STR(rf_kube_name(pod)));
	return rf_claim_check(claim, pod, p->name, err);
}

/* Written down and held by the finalizer before any container can see a card. */
int rf_held_prepare(struct rf_plugin *p, const struct rf_json *claim, const struct rf_json *pod,
		    struct rf_held **ret, struct rf_err *err)
{
	struct rf_held *h = rf_held_find(p, rf_kube_uid(claim));

	if (check_claim(p, claim, pod, err) < 0)
		return -err->code;
	if (h != NULL && !rf_str_is(rf_kube_uid(pod), h->pod_uid))
		return rf_fail(err, RF_FORBIDDEN, "claim %s is held for another pod", h->name);
	if ((h != NULL ? check_same(h, claim, pod, err) : prepare_new(p, claim, pod, &h, err)) < 0)
		return -err->code;
	h->ending = false;
	if (rf_plugin_hold(p, claim, err) < 0)
		return -err->code;
	h->holding = true;
	if (slice_all(h, err) < 0 || join_all(h, err) < 0 || fence_all(h, err) < 0)
		return -err->code;
	h->given_ms = rf_plugin_now();
	*ret = h;
	return 0;
}

/* --- taking over without a record ------------------------------------------------------------- */

/* The pod a claim was reserved for, or its owner if the reservation is gone already. */
static struct rf_str holder_of(const struct rf_json *claim, const char *field)
{
	const struct rf_json *user = rf_json_item(rf_json_at(claim, "status", "reservedFor"), 0);
	const struct rf_json *owner =
		rf_json_item(rf_json_at(claim, "metadata", "ownerReferences"), 0);

	return rf_json_str(rf_json_get(user != NULL ? user : owner, rf_str(field)));
}

static void add_card(struct rf_held *h, const struct rf_json *claim, size_t result, struct rf_str container,
		     int index)
{
	struct rf_held_box *b = rf_held_box(h, container);
	struct rf_grant_card card = { .index = index, .compute_milli = 1000 };
	bool sliced = rf_claim_slice(claim, result, &card);

	if (b == NULL) {
		b = &h->boxes[h->n_boxes++];
		*b = (struct rf_held_box){ .name = rf_str_dup(container), .grant = { .whole = !sliced, .sliced = sliced } };
	}
	if (b->grant.sliced == sliced && b->grant.n < RF_GRANT_CARDS_MAX)
		b->grant.cards[b->grant.n++] = card;
}

/* The pod is not there to say what it asked for: every card counts as wholly taken, but for slices, of which the
 * claim says it. */
static void take_results(struct rf_held *h, const struct rf_json *claim)
{
	const struct rf_json *results =
		rf_json_at(claim, "status", "allocation", "devices", "results");

	h->boxes = rf_alloc((rf_json_len(results) + 1) * sizeof(*h->boxes));
	for (size_t i = 0; i < rf_json_len(results); i++) {
		const struct rf_json *r = rf_json_item(results, i);
		struct rf_str device = rf_json_str_at(r, "device");
		int64_t index = -1;

		if (!rf_str_eq(rf_json_str_at(r, "pool"), h->plugin->name) ||
		    !rf_str_is_dns_label(rf_json_str_at(r, "request")) ||
		    !rf_str_starts(device, RF_LIT("gpu-")) ||
		    rf_str_int(rf_str_skip(device, 4), &index, NULL) < 0 || index < 0 ||
		    index > 255)
			continue;
		add_card(h, claim, i, rf_json_str_at(r, "request"), (int)index);
	}
}

int rf_held_adopt(struct rf_plugin *p, const struct rf_json *claim, struct rf_held **ret,
		  struct rf_err *err)
{
	struct rf_str name = holder_of(claim, "name"), uid = holder_of(claim, "uid");
	const struct rf_json *pod = rf_informer_get(p->pods, rf_kube_namespace(claim), name);
	bool known = pod != NULL && rf_str_eq(rf_kube_uid(pod), uid);

	if (!rf_record_is_uid(rf_kube_uid(claim)) || !rf_record_is_uid(uid))
		return rf_fail(err, RF_INVALID, "claim %.*s or its pod has no proper uid",
			       RF_STR(rf_kube_name(claim)));
	struct rf_held *h = make(p, claim, name, uid);
	if (known)
		h->terms = rf_fence_terms_of(pod);
	if (!known || take_boxes(h, claim, pod, err) < 0) {
		free_boxes(h->boxes, h->n_boxes);
		h->n_boxes = 0;
		take_results(h, claim);
	}
	h->terms.mps = was_client(h);
	int rc = h->n_boxes > 0
			 ? keep(h, ret, err)
			 : rf_fail(err, RF_INVALID, "claim %s has no card of this node", h->name);
	if (rc < 0)
		rf_held_free(h);
	return rc;
}

/* --- letting go ------------------------------------------------------------------------------- */

int rf_held_check_unused(struct rf_held *h, struct rf_err *err)
{
	int lives = rf_procs_pod_lives(rf_str(h->pod_uid));

	if (lives < 0)
		return rf_fail_errno(err, "look for the processes of pod %s", h->pod);
	if (lives > 0)
		return rf_fail(err, RF_UNAVAILABLE, "processes of pod %s/%s still run", h->ns,
			       h->pod);
	for (size_t i = 0; i < rf_gpu_count(h->plugin->cards.gpu); i++) {
		size_t n = 0;

		/* A lost card knows nobody; the empty cgroup is the witness then. */
		if (rf_procs_on_card(h->plugin, i, rf_str(h->pod_uid), &n, NULL) == 0 && n > 0)
			return rf_fail(err, RF_UNAVAILABLE,
				       "processes of pod %s/%s are still on card gpu-%d", h->ns,
				       h->pod, rf_gpu_card(h->plugin->cards.gpu, i)->index);
	}
	return 0;
}

/* Nobody new can come in. */
static void close_doors(struct rf_held *h)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	h->ending = true;
	for (size_t i = 0; i < h->n_boxes; i++) {
		rf_cdi_remove(h->plugin, rf_cdi_id(&a, h, &h->boxes[i]));
		rf_fence_post_close(h->boxes[i].fence);
		h->boxes[i].fence = NULL;
	}
	rf_promise_forget(h->plugin, rf_str(h->uid));
}

int rf_held_release(struct rf_held *h, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_plugin *p = h->plugin;

	if (rf_held_check_unused(h, err) < 0)
		return -err->code;
	close_doors(h);
	/* Somebody may have come in while we looked: he keeps his fence. */
	h->ending = rf_held_check_unused(h, err) == 0;
	if (!h->ending)
		return -err->code;
	if (rf_volumes_unmount(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, h->dir), err) < 0 ||
	    rf_slices_drop(&p->cards, rf_str(h->pod_uid), err) < 0 ||
	    rf_mps_leave(p->mps, rf_str(h->pod_uid), err) < 0 ||
	    rf_plugin_let_go(p, rf_str(h->ns), rf_str(h->name), rf_str(h->uid), err) < 0 ||
	    rf_record_remove(p, rf_str(h->uid), err) < 0)
		return rf_wrap(err, "let go of claim %s/%s", h->ns, h->name);
	rf_info("claim %s/%s: let go, pod %s has ended", h->ns, h->name, h->pod);
	(void)rf_map_del(&p->held, rf_str(h->uid));
	rf_held_free(h);
	return 0;
}
