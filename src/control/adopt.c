/* Pod groups of other schedulers, where an administrator switched their habits on (tenant/foreign.h): each becomes
 * a PodGroup of ringfence, owned by the one it was made from. Their kinds may not exist, and may come later. */
#include "control/private.h"

#include "tenant/foreign.h"

#define TICK_MS 5000
#define LOOK_AGAIN_MS 30000 /* for kinds that may never come */
#define TROUBLE_MS 15000    /* every call that fails may hold up the loop until its time is out */
#define COMPLAIN_EVERY_MS 30000
#define TURN_MAX 64 /* groups per turn */

static char DUE[] = "";

/* --- one group -------------------------------------------------------------------------------- */

struct owner {
	const struct rf_cluster *cluster;
	struct rf_str tenant;
};

static bool owns_queue(void *ctx, struct rf_str queue)
{
	const struct owner *o = ctx;

	return rf_queue_is_of(o->cluster->get(o->cluster->ctx, &RF_QUEUES, RF_STR_EMPTY, queue), o->tenant);
}

/* Says what is wrong, once: an object that does not change is looked at again when others do. */
static void tell(struct rf_adopt *d, const struct rf_json *foreign, const char *reason, const char *problem)
{
	struct rf_str text = rf_str(problem);
	const char *told = rf_map_get(&d->told, rf_kube_uid(foreign));

	if (told != NULL && rf_str_is(text, told))
		return;
	free(rf_map_set(&d->told, rf_kube_uid(foreign), rf_str_dup(text)));
	rf_warn("%.*s PodGroup %.*s/%.*s: %s", RF_STR(rf_json_str_at(foreign, "apiVersion")),
		RF_STR(rf_kube_namespace(foreign)), RF_STR(rf_kube_name(foreign)), problem);
	d->hands->event(d->hands->ctx, foreign, "Warning", reason, text);
}

void rf_adopt_forget(struct rf_adopt *d, const struct rf_json *foreign)
{
	free(rf_map_del(&d->told, rf_kube_uid(foreign)));
}

void rf_adopt_done(struct rf_adopt *d)
{
	struct rf_map *const maps[] = { &d->told, &d->wrote };

	for (size_t i = 0; i < RF_COUNT(maps); i++) {
		for (struct rf_map_slot *s = NULL; (s = rf_map_next(maps[i], s)) != NULL;)
			free(s->value);
		rf_map_done(maps[i]);
	}
}

/* The foreign group that ours was made from; NULL: its owner wrote it himself. */
static const struct rf_json *made_from(const struct rf_json *ours)
{
	const struct rf_json *list = rf_json_at(ours, "metadata", "ownerReferences");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *o = rf_json_item(list, i);

		if (rf_str_is(rf_json_str_at(o, "kind"), "PodGroup") && rf_json_is_true(rf_json_at(o, "controller")))
			return o;
	}
	return NULL;
}

static bool says_the_same(const struct rf_json *wanted, const struct rf_json *is)
{
	return rf_json_int(rf_json_at(is, "spec", "minMember"), 1) ==
		       rf_json_int(rf_json_at(wanted, "spec", "minMember"), 1) &&
	       rf_str_eq(rf_json_str_at(is, "spec", "queue"), rf_json_str_at(wanted, "spec", "queue"));
}

/* A PodGroup's spec cannot be changed: it is deleted, and made anew when we hear that it is gone. Pods that run by
 * it stay as they are. */
static int replace(struct rf_adopt *d, struct rf_arena *a, const struct rf_json *is, struct rf_err *err)
{
	if (rf_kube_deleting(is))
		return 0;
	if (rf_json_is_true(rf_json_at(is, "status", "started")))
		return rf_fail(err, RF_INVALID,
			       "its pods have started: minMember and queue stay as they were then; change them before, or "
			       "make another group");
	/* As it was seen: it may have started since. */
	return d->hands->remove(d->hands->ctx, a,
				rf_kube_path(a, &RF_PODGROUPS, rf_kube_namespace(is), rf_kube_name(is), NULL),
				rf_kube_uid(is), rf_json_str_at(is, "metadata", "resourceVersion"), err);
}

/* That it may not be told is for people to mend; it is adopted all the same. 1: so it is. */
static int tell_status(struct rf_adopt *d, const struct rf_json *foreign, const struct rf_json *ours, struct rf_err *err)
{
	int rc = rf_adopt_tell(d, foreign, ours, err);

	if (rc != -RF_INVALID && rc != -RF_FORBIDDEN && rc != -RF_BAD_REQUEST)
		return rc;
	tell(d, foreign, "StatusNotWritten", err->msg);
	return 1;
}

static int update(struct rf_adopt *d, struct rf_arena *a, const struct rf_json *foreign,
		  const struct rf_json *wanted, const struct rf_json *is, struct rf_err *err)
{
	const struct rf_json *from = made_from(is);

	if (from == NULL)
		return tell_status(d, foreign, is, err); /* its owner wrote it himself */
	if (rf_str_eq(rf_json_str_at(from, "uid"), rf_kube_uid(foreign)))
		return says_the_same(wanted, is) ? tell_status(d, foreign, is, err) : replace(d, a, is, err);
	/* Of the one that had this name before: it goes with that one, and we shall hear of it. */
	if (rf_str_eq(rf_json_str_at(from, "apiVersion"), rf_json_str_at(foreign, "apiVersion")) &&
	    rf_str_eq(rf_json_str_at(from, "name"), rf_kube_name(foreign)))
		return 0;
	return rf_fail(err, RF_INVALID,
		       "PodGroup %.*s of ringfence.io was made from another group, %.*s of %.*s; give one of the two "
		       "another name",
		       RF_STR(rf_kube_name(is)), RF_STR(rf_json_str_at(from, "name")),
		       RF_STR(rf_json_str_at(from, "apiVersion")));
}

static int write_ours(struct rf_adopt *d, struct rf_arena *a, const struct rf_json *foreign,
		      const struct rf_json *wanted, struct rf_err *err)
{
	struct rf_str ns = rf_kube_namespace(foreign);
	const struct rf_json *is = d->cluster->get(d->cluster->ctx, &RF_PODGROUPS, ns, rf_kube_name(wanted));

	if (is != NULL)
		return update(d, a, foreign, wanted, is, err);
	return d->hands->create(d->hands->ctx, a, rf_kube_path(a, &RF_PODGROUPS, ns, RF_STR_EMPTY, NULL), wanted,
				NULL, err);
}

/* Somebody was faster, or it is gone: the informers know better soon. */
static bool is_race(int rc)
{
	return rc == -RF_EXISTS || rc == -RF_NOT_FOUND;
}

int rf_adopt_group(struct rf_adopt *d, const struct rf_json *foreign, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str ns = rf_kube_namespace(foreign);
	const struct rf_json *where = d->cluster->get(d->cluster->ctx, &RF_NAMESPACES, RF_STR_EMPTY, ns);
	struct owner who = { .cluster = d->cluster,
			     .tenant = where != NULL ? rf_kube_label(where, RF_TENANT_LABEL) : RF_STR_EMPTY };
	struct rf_foreign_owner owner = { .tenant = who.tenant, .owns = owns_queue, .ctx = &who };
	struct rf_json *wanted = NULL;
	int rc = 0;

	if (who.tenant.n == 0 || rf_kube_deleting(where) || rf_kube_uid(foreign).n == 0 || rf_kube_deleting(foreign))
		return 0; /* nobody's groups have no queue */
	rc = rf_foreign_group(&a, rf_foreign(), &owner, foreign, &wanted, err);
	if (rc == -RF_UNSUPPORTED)
		return 0;
	if (rc == 0)
		rc = write_ours(d, &a, foreign, wanted, err);
	if (rc == 0)
		rf_adopt_forget(d, foreign);
	if (rc >= 0 || is_race(rc))
		return 0;
	if (rc != -RF_INVALID && rc != -RF_FORBIDDEN && rc != -RF_BAD_REQUEST)
		return rc;
	tell(d, foreign, "NotAdopted", err->msg);
	return 0;
}

/* --- following them ----------------------------------------------------------------------------- */

struct source {
	struct rf_adoption *of;
	struct rf_kube_res res;
	bool on;		      /* its habit is */
	struct rf_informer *informer; /* NULL: there is no such kind, or nobody asked yet */
	uint64_t looked_ms;	      /* when it was found absent; 0: it was not */
	struct rf_map due;	      /* "ns/name" */
};

struct rf_adoption {
	struct rf_control *c;
	struct rf_adopt adopt;
	struct source sources[2];
	uv_timer_t timer;
	uint64_t complained_ms;
};

static void wake(struct rf_adoption *p)
{
	p->c->groups_due = true;
	rf_control_wake(p->c, 10);
}

static void on_change(void *ctx, const struct rf_json *before, const struct rf_json *after)
{
	struct source *s = ctx;
	rf_auto(arena) a = RF_ARENA_INIT;

	if (after == NULL || (before != NULL && !rf_str_eq(rf_kube_uid(before), rf_kube_uid(after)))) {
		rf_adopt_forget(&s->of->adopt, before);
		rf_adopt_tell_forget(&s->of->adopt, before);
	}
	if (after == NULL)
		return;
	(void)rf_map_set(&s->due, rf_kube_display(&a, after), DUE);
	wake(s->of);
}

static void complain(struct rf_adoption *p, const struct rf_err *err)
{
	uint64_t now = uv_now(&p->c->loop);

	if (p->complained_ms != 0 && now - p->complained_ms < COMPLAIN_EVERY_MS)
		return;
	p->complained_ms = now;
	rf_warn("pod groups of other schedulers: %s; trying again", err->msg);
}

static void on_error(void *ctx, const struct rf_err *err)
{
	complain(((struct source *)ctx)->of, err);
}

/* An informer on a kind that does not exist would try, and complain, for ever. */
static int find(struct source *s, struct rf_err *err)
{
	struct rf_informer_opts o = { .config = &s->of->c->config,
				      .res = &s->res,
				      .on_change = on_change,
				      .on_error = on_error,
				      .ctx = s };
	rf_auto(arena) a = RF_ARENA_INIT;
	uint64_t now = uv_now(&s->of->c->loop);
	int rc = 0;

	if (!s->on || s->informer != NULL || (s->looked_ms != 0 && now - s->looked_ms < LOOK_AGAIN_MS))
		return 0;
	rc = rf_kube_get(s->of->c->kube, &a,
			 rf_arena_printf(&a, "%.*s?limit=1",
					 RF_STR(rf_kube_path(&a, &s->res, RF_STR_EMPTY, RF_STR_EMPTY, NULL))),
			 NULL, err);
	if (rc == -RF_NOT_FOUND) {
		s->looked_ms = RF_MAX(now, UINT64_C(1));
		return 0;
	}
	if (rc < 0)
		return rc;
	rf_info("following %s of %s", s->res.plural, s->res.group);
	return rf_informer_start(&s->of->c->loop, &o, &s->informer, err);
}

static void on_tick(uv_timer_t *timer)
{
	struct rf_adoption *p = timer->data;
	struct rf_err err = RF_ERR_INIT;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < RF_COUNT(p->sources); i++)
		rc = find(&p->sources[i], &err);
	if (rc < 0)
		complain(p, &err);
	uv_timer_start(&p->timer, on_tick, rc < 0 ? TROUBLE_MS : TICK_MS, 0);
}

void rf_adoption_look_again(struct rf_adoption *p)
{
	for (size_t i = 0; i < RF_COUNT(p->sources); i++)
		p->sources[i].looked_ms = 0;
	uv_timer_start(&p->timer, on_tick, 0, 0);
}

/* --- what is due ---------------------------------------------------------------------------------- */

void rf_adoption_all_due(struct rf_adoption *p)
{
	for (size_t i = 0; p != NULL && i < RF_COUNT(p->sources); i++) {
		struct source *s = &p->sources[i];
		const struct rf_map_slot *slot = NULL;
		const struct rf_json *o = NULL;

		while (s->informer != NULL && (o = rf_informer_next(s->informer, &slot)) != NULL)
			on_change(s, NULL, o);
	}
}

void rf_adoption_ours_changed(struct rf_adoption *p, const struct rf_json *ours)
{
	const struct rf_json *from = made_from(ours);
	struct rf_str name = from != NULL ? rf_json_str_at(from, "name") : rf_kube_name(ours);

	for (size_t i = 0; p != NULL && i < RF_COUNT(p->sources); i++) {
		struct source *s = &p->sources[i];
		const struct rf_json *o = s->informer != NULL ? rf_informer_get(s->informer, rf_kube_namespace(ours), name) :
								NULL;

		if (o != NULL)
			on_change(s, NULL, o);
	}
}

/* One that fails stays due and does not hold up the others, unless nobody answers. */
static bool adopt_due(struct source *s, size_t *left)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str keys[TURN_MAX];
	struct rf_err err = RF_ERR_INIT;
	size_t n = 0;
	int rc = 0;
	bool ok = true;

	for (struct rf_map_slot *m = NULL; n < *left && (m = rf_map_next(&s->due, m)) != NULL;)
		keys[n++] = rf_arena_str(&a, rf_map_key(m));
	*left -= n;
	for (size_t i = 0; i < n && rc != -RF_UNAVAILABLE && rc != -RF_TIMEOUT; i++) {
		struct rf_str name = keys[i], ns = RF_STR_EMPTY;
		const struct rf_json *o = NULL;

		if (!s->of->adopt.hands->may(s->of->adopt.hands->ctx))
			return false;
		rf_str_cut(&name, '/', &ns);
		o = s->informer != NULL ? rf_informer_get(s->informer, ns, name) : NULL;
		(void)rf_map_del(&s->due, keys[i]);
		rc = o != NULL ? rf_adopt_group(&s->of->adopt, o, &err) : 0;
		if (rc == 0)
			continue;
		complain(s->of, &err);
		(void)rf_map_set(&s->due, keys[i], DUE);
		ok = false;
	}
	return ok;
}

bool rf_control_adopt(struct rf_control *c)
{
	struct rf_adoption *p = c->adoption;
	size_t left = TURN_MAX, due = 0;
	bool ok = true;

	if (p != NULL)
		p->adopt.now_ms = rf_wall_ms(rf_clock_system());
	for (size_t i = 0; p != NULL && i < RF_COUNT(p->sources); i++) {
		ok &= adopt_due(&p->sources[i], &left);
		due += p->sources[i].due.n;
	}
	if (ok && due > 0)
		rf_control_wake(c, 0);
	return due == 0;
}

/* --- beginning and end ------------------------------------------------------------------------------ */

struct rf_adoption *rf_adoption_start(struct rf_control *c)
{
	unsigned habits = rf_foreign()->habits;
	struct rf_adoption *p = NULL;

	if ((habits & (RF_HABIT_VOLCANO | RF_HABIT_X_K8S)) == 0)
		return NULL;
	p = rf_new(struct rf_adoption);
	p->c = c;
	p->adopt = (struct rf_adopt){ .hands = &c->placer.hands, .cluster = &c->placer.cluster };
	p->sources[0] = (struct source){ .of = p,
					 .res = { "scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup", true },
					 .on = (habits & RF_HABIT_VOLCANO) != 0 };
	p->sources[1] = (struct source){ .of = p,
					 .res = { "scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup", true },
					 .on = (habits & RF_HABIT_X_K8S) != 0 };
	(void)uv_timer_init(&c->loop, &p->timer);
	p->timer.data = p;
	uv_timer_start(&p->timer, on_tick, 0, 0);
	return p;
}

void rf_adoption_stop(struct rf_adoption *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < RF_COUNT(p->sources); i++) {
		if (p->sources[i].informer != NULL)
			rf_informer_stop(p->sources[i].informer);
		p->sources[i].informer = NULL;
	}
	uv_close((uv_handle_t *)&p->timer, NULL);
}

void rf_adoption_free(struct rf_adoption *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < RF_COUNT(p->sources); i++)
		rf_map_done(&p->sources[i].due);
	rf_adopt_done(&p->adopt);
	free(p);
}
