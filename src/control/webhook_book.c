/* Keeps the book as the cluster's: templates, constraints of each template's kind, ConfigMaps with Rego.
 * Every replica reads; the one that leads also makes the kinds, and says how policies fare. */
#include "control/private.h"

#include <stdio.h>

#define TICK_MS 5000
#define SOON_MS 200 /* after a change: more may follow */
#define MISSING_MS 500
#define LOOK_AGAIN_MS 30000 /* for kinds of Gatekeeper's that may never come */
#define TROUBLE_MS 15000    /* every call that fails may hold up the loop until its time is out */
#define COMPLAIN_EVERY_MS 30000

static const struct rf_kube_res TEMPLATES = { "templates.gatekeeper.sh", "v1", "constrainttemplates",
					      "ConstraintTemplate", false };
/* Gatekeeper's lists of what policies may look at. */
static const struct rf_kube_res SYNCSETS = { "syncset.gatekeeper.sh", "v1alpha1", "syncsets", "SyncSet",
					     false };
static const struct rf_kube_res CONFIGS = { "config.gatekeeper.sh", "v1alpha1", "configs", "Config", true };
static const struct rf_kube_res CRDS = { "apiextensions.k8s.io", "v1", "customresourcedefinitions",
					 "CustomResourceDefinition", false };

/* A kind of objects that is followed once the API server has it. */
struct source {
	struct rf_bookkeeper *p;
	struct rf_arena a;
	struct rf_kube_res res;
	void (*on_change)(void *ctx, const struct rf_json *before, const struct rf_json *after);
	struct rf_informer *informer; /* NULL: it is not there, or nobody asked yet */
	bool absent;		      /* the API server said so */
	uint64_t every_ms, looked_ms; /* how often it is looked for, and when it was last; of the loop */
	bool gone;		      /* its template is; kept because an informer may point to res */
};

struct rf_bookkeeper {
	struct rf_control *c;
	struct rf_book *book;
	struct rf_inventory *inventory;
	struct source templates, maps, syncsets, configs;
	RF_VEC(struct source *) kinds; /* of constraints */
	uv_timer_t timer;
	uint64_t complained_ms;
	bool loaded, stopped;
};

const struct rf_book *rf_bookkeeper_book(const struct rf_bookkeeper *p)
{
	return p != NULL ? p->book : NULL;
}

struct rf_book_inventory rf_bookkeeper_inventory(const struct rf_bookkeeper *p)
{
	return (struct rf_book_inventory){ p != NULL ? rf_inventory_get : NULL,
					   p != NULL ? p->inventory : NULL };
}

static bool is_read(const struct source *s)
{
	return s->gone || s->absent || (s->informer != NULL && rf_informer_synced(s->informer));
}

/* Once all was there it stays so: what comes later is news, not a gap. */
bool rf_bookkeeper_loaded(struct rf_bookkeeper *p)
{
	if (p == NULL)
		return false;
	if (p->loaded)
		return true;
	if (!is_read(&p->templates) || !is_read(&p->maps) || !is_read(&p->syncsets) || !is_read(&p->configs))
		return false;
	for (size_t i = 0; i < p->kinds.n; i++)
		if (!is_read(p->kinds.at[i]))
			return false;
	/* Each template's kind is known: those of the first list are told before it counts as read. */
	return p->loaded = true;
}

static void soon(struct rf_bookkeeper *p);

/* --- hearing ------------------------------------------------------------------------------------------ */

static void complain(struct rf_bookkeeper *p, const struct rf_err *err)
{
	uint64_t now = uv_now(&p->c->loop);

	if (p->complained_ms != 0 && now - p->complained_ms < COMPLAIN_EVERY_MS)
		return;
	p->complained_ms = now;
	rf_warn("policies: %s", err->msg);
}

/* The API server could not be reached: nothing else will work either. */
static bool is_away(const struct rf_err *err)
{
	return err->code == RF_UNAVAILABLE || err->code == RF_TIMEOUT;
}

static struct rf_str template_kind(const struct rf_json *template)
{
	return rf_json_str_at(template, "spec", "crd", "spec", "names", "kind");
}

static struct source *kind_of(const struct rf_bookkeeper *p, struct rf_str kind)
{
	for (size_t i = 0; i < p->kinds.n; i++)
		if (rf_str_is(kind, p->kinds.at[i]->res.kind))
			return p->kinds.at[i];
	return NULL;
}

static void on_change(void *ctx, const struct rf_json *before, const struct rf_json *after);

static void learn_kind(struct rf_bookkeeper *p, const struct rf_json *template)
{
	struct rf_str kind = template_kind(template);
	struct source *s = kind_of(p, kind);

	if (s != NULL) {
		s->gone = false;
		return;
	}
	if (p->kinds.n >= RF_GK_TEMPLATES_MAX || !rf_str_is_dns_label(rf_kube_name(template)))
		return;
	s = rf_new(struct source);
	s->p = p;
	s->on_change = on_change;
	s->res = (struct rf_kube_res){ .group = "constraints.gatekeeper.sh",
				       .version = "v1beta1",
				       .plural = rf_constraint_plural(&s->a, kind).p,
				       .kind = rf_arena_cstr(&s->a, kind) };
	rf_vec_push(&p->kinds, s);
}

static void forget_kind(struct rf_bookkeeper *p, const struct rf_json *template)
{
	struct source *s = kind_of(p, template_kind(template));
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;

	if (s == NULL)
		return;
	while (s->informer != NULL && (o = rf_informer_next(s->informer, &slot)) != NULL)
		rf_book_drop(p->book, o);
	if (s->informer != NULL)
		rf_informer_stop(s->informer);
	s->informer = NULL;
	s->gone = true;
}

/* The last version that could be compiled judges on; the object's status says what is wrong. */
static void on_change(void *ctx, const struct rf_json *before, const struct rf_json *after)
{
	struct source *s = ctx;
	struct rf_err err = RF_ERR_INIT;

	if (after != NULL && rf_book_put(s->p->book, after, &err) < 0) {
		rf_warn("policies: %s %.*s: %s", s->res.kind, RF_STR(rf_kube_name(after)), err.msg);
		if (s == &s->p->maps && rf_control_leads(s->p->c)) /* has no status to say it in */
			(void)rf_kube_event(s->p->c->kube, after, "Warning", "PolicyNotInForce",
					    "ringfence-control", "%s", err.msg);
	}
	if (after == NULL)
		rf_book_drop(s->p->book, before);
	if (s == &s->p->templates && after != NULL)
		learn_kind(s->p, after);
	else if (s == &s->p->templates)
		forget_kind(s->p, before);
	soon(s->p);
}

static void on_list_change(void *ctx, const struct rf_json *before RF_UNUSED,
			   const struct rf_json *after RF_UNUSED)
{
	soon(((struct source *)ctx)->p);
}

static void on_sync(void *ctx)
{
	soon(((struct source *)ctx)->p);
}

static void on_error(void *ctx, const struct rf_err *err)
{
	complain(((struct source *)ctx)->p, err);
}

/* --- following ------------------------------------------------------------------------------------------ */

static int follow(struct source *s, const char *ns, const char *labels, struct rf_err *err)
{
	struct rf_informer_opts o = { .config = &s->p->c->config,
				      .res = &s->res,
				      .ns = rf_str(ns),
				      .label_selector = rf_str(labels),
				      .field_selector = RF_STR_EMPTY,
				      .on_change = s->on_change,
				      .on_sync = on_sync,
				      .on_error = on_error,
				      .ctx = s };

	s->absent = false;
	return rf_informer_start(&s->p->c->loop, &o, &s->informer, err);
}

/* An informer on a kind that does not exist would try for ever, and could never say that there is nothing. */
static int find(struct source *s, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = rf_kube_path(&a, &s->res, RF_STR_EMPTY, RF_STR_EMPTY, NULL);
	int r = 0;

	if (s->informer != NULL || s->gone ||
	    (s->absent && uv_now(&s->p->c->loop) - s->looked_ms < s->every_ms))
		return 0;
	s->looked_ms = uv_now(&s->p->c->loop);
	path = rf_arena_printf(&a, "%.*s?limit=1", RF_STR(path));
	r = rf_kube_get(s->p->c->kube, &a, path, NULL, err);
	if (r == -RF_NOT_FOUND) {
		s->absent = true;
		return 0;
	}
	return r < 0 ? r : follow(s, "", "", err);
}

/* --- what the leader writes ------------------------------------------------------------------------------- */

/* served: the kind is there. If no definition is, then somebody else serves it in another way. */
static int write_crd(struct rf_bookkeeper *p, const struct rf_json *template, bool served,
		     struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *wanted = rf_constraint_crd(&a, template), *is = NULL, *patch = NULL;
	struct rf_str path = rf_kube_path(&a, &CRDS, RF_STR_EMPTY, rf_kube_name(wanted), NULL);
	int r = rf_kube_get(p->c->kube, &a, path, &is, err);

	if (r == -RF_NOT_FOUND && served)
		return 0;
	if (r == -RF_NOT_FOUND) {
		r = rf_kube_create(p->c->kube, &a,
				   rf_kube_path(&a, &CRDS, RF_STR_EMPTY, RF_STR_EMPTY, NULL), wanted,
				   NULL, err);
		return r == -RF_EXISTS ? 0 : r;
	}
	if (r < 0)
		return r;
	patch = rf_constraint_crd_patch(&a, template, is);
	return patch == NULL ? 0 : rf_kube_patch(p->c->kube, &a, path, RF_PATCH_MERGE, patch, NULL, err);
}

static int write_status(struct rf_bookkeeper *p, const struct rf_kube_res *res, const struct rf_json *o,
			const char *problem, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *patch = rf_policy_status(&a, o, problem);
	int r = 0;

	if (patch == NULL)
		return 0;
	r = rf_kube_patch(p->c->kube, &a,
			  rf_kube_path(&a, res, RF_STR_EMPTY, rf_kube_name(o), "status"),
			  RF_PATCH_MERGE, patch, NULL, err);
	return r == -RF_NOT_FOUND ? 0 : r;
}

/* The schema may be one that this API server does not take: its status says so. */
static int tend_template(struct rf_bookkeeper *p, const struct rf_json *t, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err crd = RF_ERR_INIT;
	const char *problem = rf_book_problem(p->book, t);
	const struct source *kind = kind_of(p, template_kind(t));
	/* Not there, or the template has changed since its status was written. */
	bool due = kind != NULL && !kind->gone &&
		   (kind->informer == NULL || rf_policy_status(&a, t, problem) != NULL);

	if (due && problem[0] == '\0' && write_crd(p, t, kind->informer != NULL, &crd) < 0) {
		if (is_away(&crd)) {
			*err = crd;
			return -err->code;
		}
		rf_wrap(&crd, "make its CustomResourceDefinition");
		problem = crd.msg;
	}
	return write_status(p, &TEMPLATES, t, problem, err);
}

static int tend_all(struct rf_bookkeeper *p, struct source *s, struct rf_err *err)
{
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;

	while (s->informer != NULL && (o = rf_informer_next(s->informer, &slot)) != NULL) {
		int r = s == &p->templates ?
				tend_template(p, o, err) :
				write_status(p, &s->res, o, rf_book_problem(p->book, o), err);

		if (r < 0 && is_away(err))
			return r;
		if (r < 0)
			complain(p, err);
	}
	return 0;
}

static int lead(struct rf_bookkeeper *p, struct rf_err *err)
{
	if (!rf_control_leads(p->c))
		return 0;
	if (tend_all(p, &p->templates, err) < 0)
		return -err->code;
	for (size_t i = 0; i < p->kinds.n; i++)
		if (tend_all(p, p->kinds.at[i], err) < 0)
			return -err->code;
	return 0;
}

/* --- the tick ------------------------------------------------------------------------------------------------ */

static void look_for_syncs(struct rf_bookkeeper *p)
{
	const struct source *const lists[] = { &p->templates, &p->syncsets, &p->configs };

	rf_inventory_want_nothing(p->inventory);
	for (size_t i = 0; i < RF_COUNT(lists); i++) {
		const struct rf_map_slot *slot = NULL;
		const struct rf_json *o = NULL;

		while (lists[i]->informer != NULL &&
		       (o = rf_informer_next(lists[i]->informer, &slot)) != NULL)
			rf_inventory_want(p->inventory, o);
	}
	rf_inventory_tend(p->inventory);
}

static int tick(struct rf_bookkeeper *p, struct rf_err *err)
{
	struct rf_err one = RF_ERR_INIT;
	int r = 0;

	if (p->maps.informer == NULL &&
	    follow(&p->maps, RF_BOOK_NAMESPACE, RF_BOOK_LABEL "=rego", err) < 0)
		return -err->code;
	if (find(&p->templates, err) < 0 || find(&p->syncsets, err) < 0 || find(&p->configs, err) < 0)
		return -err->code;
	look_for_syncs(p);
	r = lead(p, err);
	for (size_t i = 0; i < p->kinds.n; i++)
		if (find(p->kinds.at[i], &one) < 0 && r == 0) {
			*err = one;
			r = -one.code;
		}
	return r;
}

/* A kind that was just made is served a moment later. */
static bool misses_kinds(const struct rf_bookkeeper *p)
{
	for (size_t i = 0; i < p->kinds.n; i++)
		if (!p->kinds.at[i]->gone && p->kinds.at[i]->informer == NULL)
			return true;
	return false;
}

static void on_tick(uv_timer_t *timer)
{
	struct rf_bookkeeper *p = timer->data;
	struct rf_err err = RF_ERR_INIT;
	int r = tick(p, &err);

	if (r < 0)
		complain(p, &err);
	if (r < 0 && is_away(&err))
		uv_timer_start(&p->timer, on_tick, TROUBLE_MS, 0);
	else
		uv_timer_start(&p->timer, on_tick, misses_kinds(p) ? MISSING_MS : TICK_MS, 0);
}

static void soon(struct rf_bookkeeper *p)
{
	if (!p->stopped && (!uv_is_active((uv_handle_t *)&p->timer) ||
			    uv_timer_get_due_in(&p->timer) > SOON_MS))
		uv_timer_start(&p->timer, on_tick, SOON_MS, 0);
}

/* --- beginning and end ----------------------------------------------------------------------------------------- */

static void begin_source(struct rf_bookkeeper *p, struct source *s, const struct rf_kube_res *res,
			 void (*heard)(void *ctx, const struct rf_json *before, const struct rf_json *after))
{
	s->p = p;
	s->res = *res;
	s->on_change = heard;
}

struct rf_bookkeeper *rf_bookkeeper_start(struct rf_control *c)
{
	struct rf_bookkeeper *p = rf_new(struct rf_bookkeeper);

	p->c = c;
	p->book = rf_book_new();
	p->inventory = rf_inventory_new(c);
	begin_source(p, &p->templates, &TEMPLATES, on_change);
	begin_source(p, &p->maps, &RF_CONFIGMAPS, on_change);
	begin_source(p, &p->syncsets, &SYNCSETS, on_list_change);
	begin_source(p, &p->configs, &CONFIGS, on_list_change);
	p->syncsets.every_ms = p->configs.every_ms = LOOK_AGAIN_MS;
	(void)uv_timer_init(&c->loop, &p->timer);
	p->timer.data = p;
	uv_timer_start(&p->timer, on_tick, 0, 0);
	return p;
}

static void stop_source(struct source *s)
{
	if (s->informer != NULL)
		rf_informer_stop(s->informer);
	s->informer = NULL;
}

void rf_bookkeeper_stop(struct rf_bookkeeper *p)
{
	if (p == NULL)
		return;
	p->stopped = true;
	stop_source(&p->templates);
	stop_source(&p->maps);
	stop_source(&p->syncsets);
	stop_source(&p->configs);
	for (size_t i = 0; i < p->kinds.n; i++)
		stop_source(p->kinds.at[i]);
	rf_inventory_stop(p->inventory);
	uv_close((uv_handle_t *)&p->timer, NULL);
}

void rf_bookkeeper_free(struct rf_bookkeeper *p)
{
	if (p == NULL)
		return;
	for (size_t i = 0; i < p->kinds.n; i++) {
		rf_arena_done(&p->kinds.at[i]->a);
		free(p->kinds.at[i]);
	}
	rf_vec_done(&p->kinds);
	rf_inventory_free(p->inventory);
	rf_book_free(p->book);
	free(p);
}
