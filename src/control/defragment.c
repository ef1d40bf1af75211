/* Whole cards by moving, and room for larger slices: the scheduler's plan as an object that people read, and its evictions
 * one after the other. Nothing is changed but by rf_defragment_apply. */
#include "control/private.h"

#define MOVES_MAX 10000

/* "ReplicaSet/web" */
static struct rf_str owner_of(struct rf_arena *a, const struct rf_json *pod)
{
	const struct rf_json *o = rf_pod_maker(pod);

	if (o == NULL)
		return RF_STR_EMPTY;
	return rf_arena_printf(a, "%.*s/%.*s", RF_STR(rf_json_str_at(o, "kind")), RF_STR(rf_json_str_at(o, "name")));
}

static int64_t ran_s(const struct rf_json *pod, int64_t now_ms)
{
	int64_t since = 0;

	if (rf_time_parse(rf_json_str_at(pod, "status", "startTime"), &since, NULL) < 0)
		return 0;
	return RF_MAX(INT64_C(0), (now_ms - since) / 1000);
}

static char HERE[] = "";

/* Nodes that somebody is left on, or is to come to. */
static void find_busy(const struct rf_snapshot *s, const struct rf_core_move *moves, size_t n, struct rf_map *ret)
{
	struct rf_map moved = RF_MAP_INIT;
	const struct rf_json *o = NULL;
	const void *cursor = NULL;

	for (size_t i = 0; i < n; i++) {
		(void)rf_map_set(&moved, moves[i].uid, HERE);
		(void)rf_map_set(ret, moves[i].to, HERE);
	}
	while ((o = s->placer.cluster.next(s->placer.cluster.ctx, &RF_RESOURCECLAIMS, &cursor)) != NULL) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_sched_claim c = { 0 };

		rf_sched_read_claim(&a, o, &c);
		if (c.node.n > 0 && rf_map_get(&moved, c.pod_uid) == NULL)
			(void)rf_map_set(ret, c.node, HERE);
	}
	rf_map_done(&moved);
}

static void push_once(struct rf_arena *a, struct rf_json *list, struct rf_str text)
{
	for (size_t i = rf_json_len(list); i > 0; i--) {
		if (rf_str_eq(rf_json_str(rf_json_item(list, i - 1)), text))
			return;
	}
	rf_json_push(a, list, rf_json_string(a, text));
}

static struct rf_json *move_of(const struct rf_snapshot *s, struct rf_arena *a, const struct rf_core_move *m)
{
	const struct rf_json *pod = s->placer.cluster.get(s->placer.cluster.ctx, &RF_PODS, m->ns, m->name);

	return rf_json_make(a,
			    "{'namespace':%S,'pod':%S,'uid':%S,'owner':%S,'ranSeconds':%D,'node':%S,'card':%S,'roomOn':%S,"
			    "'roomOnCard':%S}",
			    m->ns, m->name, m->uid, owner_of(a, pod), ran_s(pod, s->placer.now_ms), m->from, m->device,
			    m->to, m->to_device);
}

static struct rf_json *plan_of(const struct rf_snapshot *s, struct rf_arena *a, const struct rf_core_move *moves, size_t n)
{
	struct rf_json *list = rf_json_array(a), *cards = rf_json_array(a), *whole = rf_json_array(a), *slices = rf_json_array(a);
	struct rf_map busy = RF_MAP_INIT;
	struct rf_fleet_usage u;
	int64_t ran = 0;

	rf_fleet_usage(rf_core_fleet(s->placer.core), &u);
	find_busy(s, moves, n, &busy);
	for (size_t i = 0; i < n; i++) {
		struct rf_json *m = move_of(s, a, &moves[i]);

		rf_json_push(a, list, m);
		ran += rf_json_int(rf_json_at(m, "ranSeconds"), 0);
		if (moves[i].profile.n > 0)
			push_once(a, slices, rf_arena_printf(a, "%.*s/%.*s:%.*s", RF_STR(moves[i].from), RF_STR(moves[i].device),
							     RF_STR(moves[i].profile)));
		else
			push_once(a, cards, rf_arena_printf(a, "%.*s/%.*s", RF_STR(moves[i].from), RF_STR(moves[i].device)));
		if (rf_map_get(&busy, moves[i].from) == NULL)
			push_once(a, whole, moves[i].from);
	}
	rf_map_done(&busy);
	return rf_json_make(a,
			    "{'moves':%j,'cards':%j,'slices':%j,'machines':%j,'freeCards':{'now':%D,'then':%D},'cost':{'pods':%D,"
			    "'ranSeconds':%D}}",
			    list, cards, slices, whole, u.free_cards, n > 0 ? moves[n - 1].free_cards : u.free_cards, (int64_t)n, ran);
}

int rf_defragment_plan_by(const struct rf_hands *h, const struct rf_defragment_opts *o, struct rf_arena *a,
			  struct rf_json **ret, struct rf_err *err)
{
	struct rf_snapshot s;
	struct rf_core_move *moves = NULL;
	size_t n = 0;
	int rc = rf_snapshot_take(&s, h, o->scheduler_name, o->now_ms, err);

	if (rc == 0) {
		n = rf_core_defragment(s.placer.core, o->now_ms, RF_MIN(o->most, (size_t)MOVES_MAX), a, &moves);
		*ret = plan_of(&s, a, moves, n);
	}
	rf_snapshot_done(&s);
	return rc;
}

/* --- doing it ---------------------------------------------------------------------------------- */

/* Its own grace period holds: nobody has a right to its cards. */
static struct rf_json *eviction_of(struct rf_arena *a, const struct rf_json *move)
{
	return rf_json_make(a,
			    "{'apiVersion':'policy/v1','kind':'Eviction','metadata':{'name':%S,'namespace':%S},"
			    "'deleteOptions':{'preconditions':{'uid':%S}}}",
			    rf_json_str_at(move, "pod"), rf_json_str_at(move, "namespace"), rf_json_str_at(move, "uid"));
}

/* 0: it goes, or is gone. */
static int look(const struct rf_hands *h, struct rf_arena *a, struct rf_str path, const struct rf_json *move,
		struct rf_err *err)
{
	struct rf_err why = *err;
	struct rf_json *pod = NULL;
	int rc = h->get(h->ctx, a, path, &pod, err);

	if (rc == -RF_NOT_FOUND)
		return 0;
	if (rc < 0)
		return rc;
	if (!rf_str_eq(rf_kube_uid(pod), rf_json_str_at(move, "uid")) || rf_kube_deleting(pod))
		return 0;
	*err = why;
	return -err->code;
}

static int evict(const struct rf_hands *h, struct rf_arena *a, const struct rf_json *move, struct rf_err *err)
{
	struct rf_str ns = rf_json_str_at(move, "namespace"), name = rf_json_str_at(move, "pod");
	struct rf_json *pod = rf_json_make(a, "{'apiVersion':'v1','kind':'Pod','metadata':{'name':%S,'namespace':%S,'uid':%S}}",
					   name, ns, rf_json_str_at(move, "uid"));
	int rc = h->create(h->ctx, a, rf_kube_path(a, &RF_PODS, ns, name, "eviction"), eviction_of(a, move), NULL, err);

	if (rc == -RF_CONFLICT || rf_kube_unknown(rc))
		rc = look(h, a, rf_kube_path(a, &RF_PODS, ns, name, NULL), move, err);
	if (rc == 0)
		h->event(h->ctx, pod, "Normal", "Defragmented",
			 RF_LIT("evicted so that its card becomes whole, or has room for a larger slice; who made it makes it again"));
	return rc == -RF_NOT_FOUND ? 0 : rc;
}

int rf_defragment_apply_by(const struct rf_hands *h, struct rf_arena *a, const struct rf_json *plan, size_t *ret_done,
			   struct rf_err *err)
{
	const struct rf_json *moves = rf_json_at(plan, "moves");
	size_t n = rf_json_len(moves);

	for (*ret_done = 0; *ret_done < n; ++*ret_done) {
		const struct rf_json *m = rf_json_item(moves, *ret_done);

		if (evict(h, a, m, err) < 0)
			return rf_wrap(err, "pod %.*s/%.*s is not evicted, and none after it (%zu of %zu are)",
				       RF_STR(rf_json_str_at(m, "namespace")), RF_STR(rf_json_str_at(m, "pod")), *ret_done, n);
	}
	return 0;
}

/* --- with a client ------------------------------------------------------------------------------ */

static int get(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	return rf_kube_get(ctx, a, path, ret, err);
}

static int create(void *ctx, struct rf_arena *a, struct rf_str path, const struct rf_json *object, struct rf_json **ret,
		  struct rf_err *err)
{
	return rf_kube_create(ctx, a, path, object, ret, err);
}

static void event(void *ctx, const struct rf_json *about, const char *type, const char *reason, struct rf_str text)
{
	(void)rf_kube_event(ctx, about, type, reason, "ringfence-defragment", "%.*s", RF_STR(text));
}

static bool may(void *ctx)
{
	return true;
}

static struct rf_hands hands_of(struct rf_kube *k)
{
	return (struct rf_hands){ .get = get, .create = create, .event = event, .may = may, .ctx = k };
}

int rf_defragment_plan(struct rf_kube *k, const struct rf_defragment_opts *o, struct rf_arena *a, struct rf_json **ret,
		       struct rf_err *err)
{
	struct rf_hands h = hands_of(k);

	return rf_defragment_plan_by(&h, o, a, ret, err);
}

int rf_defragment_apply(struct rf_kube *k, struct rf_arena *a, const struct rf_json *plan, size_t *ret_done,
			struct rf_err *err)
{
	struct rf_hands h = hands_of(k);

	return rf_defragment_apply_by(&h, a, plan, ret_done, err);
}
