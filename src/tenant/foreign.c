/* Foreign habits: which are on, a pod's queue, group and scheduler, and foreign pod groups. */
#include "tenant/foreign_private.h"

#define CARD_MIN (INT64_C(1) << 20)
#define CARD_MAX (INT64_C(1) << 50)
#define MEMBERS_MAX 100000
#define LABEL_MAX 63
#define TAIL 8 /* of a cut name: hexadecimal digits that tell it from others */

static const struct {
	const char *name;
	unsigned habit;
} HABITS[] = {
	{ "kai", RF_HABIT_KAI },     { "hami", RF_HABIT_HAMI },	  { "volcano", RF_HABIT_VOLCANO },
	{ "x-k8s", RF_HABIT_X_K8S }, { "kueue", RF_HABIT_KUEUE },
};

static const struct {
	unsigned habit;
	const char *name;
} SCHEDULERS[] = {
	{ RF_HABIT_KAI, "kai-scheduler" },
	{ RF_HABIT_HAMI, "hami-scheduler" },
	{ RF_HABIT_VOLCANO, "volcano" },
	{ RF_HABIT_X_K8S, "scheduler-plugins-scheduler" },
};

/* Where a pod says which queue, or which group, it is of. */
struct word {
	unsigned habit;
	const char *map; /* "labels", "annotations" */
	const char *key;
};
static const struct word QUEUES[] = {
	{ RF_HABIT_KAI, "labels", "kai.scheduler/queue" },
	{ RF_HABIT_VOLCANO, "labels", "volcano.sh/queue-name" },
	{ RF_HABIT_VOLCANO, "annotations", "volcano.sh/queue-name" },
	{ RF_HABIT_VOLCANO, "annotations", "scheduling.volcano.sh/queue-name" },
	{ RF_HABIT_KUEUE, "labels", "kueue.x-k8s.io/queue-name" },
};
static const struct word GROUPS[] = {
	{ RF_HABIT_VOLCANO, "annotations", "scheduling.k8s.io/group-name" },
	{ RF_HABIT_VOLCANO, "annotations", "scheduling.volcano.sh/group-name" },
	{ RF_HABIT_X_K8S, "labels", "scheduling.x-k8s.io/pod-group" },
	{ RF_HABIT_X_K8S, "labels", "pod-group.scheduling.x-k8s.io" },
	{ RF_HABIT_X_K8S, "labels", "pod-group.scheduling.sigs.k8s.io" },
	{ RF_HABIT_KUEUE, "labels", "kueue.x-k8s.io/pod-group-name" },
};

/* --- which are on ------------------------------------------------------------------------------- */

static struct rf_foreign now;

void rf_foreign_set(const struct rf_foreign *f)
{
	now = *f;
}

const struct rf_foreign *rf_foreign(void)
{
	return &now;
}

static unsigned habit_of(struct rf_str name)
{
	for (size_t i = 0; i < RF_COUNT(HABITS); i++)
		if (rf_str_is(name, HABITS[i].name))
			return HABITS[i].habit;
	return 0;
}

int rf_foreign_parse(struct rf_str habits, struct rf_str card, struct rf_foreign *ret, struct rf_err *err)
{
	struct rf_foreign f = { 0 };
	struct rf_str name = RF_STR_EMPTY;
	bool more = habits.n > 0;

	while (more) {
		more = rf_str_cut(&habits, ',', &name);
		name = rf_str_trim(name);
		if (habit_of(name) == 0)
			return rf_fail(err, RF_INVALID,
				       "\"%.*s\" is no habit that ringfence knows; there are kai, hami, volcano, x-k8s and "
				       "kueue",
				       (int)RF_MIN(name.n, (size_t)63), name.p);
		f.habits |= habit_of(name);
	}
	if (card.n > 0 && (rf_quantity_value(card, &f.card_bytes, NULL) < 0 || f.card_bytes < CARD_MIN ||
			   f.card_bytes > CARD_MAX))
		return rf_fail(err, RF_INVALID, "\"%.*s\" is no size of a card; write it like 80Gi",
			       (int)RF_MIN(card.n, (size_t)63), card.p);
	*ret = f;
	return 0;
}

/* --- a pod's metadata --------------------------------------------------------------------------- */

static const struct rf_json *annotation(const struct rf_foreign_pod *p, const char *key)
{
	return rf_json_get(rf_json_at(p->pod, "metadata", "annotations"), rf_str(key));
}

struct rf_str rf_foreign_annotation(const struct rf_foreign_pod *p, const char *key)
{
	return rf_json_str(annotation(p, key));
}

bool rf_foreign_has_annotation(const struct rf_foreign_pod *p, const char *key)
{
	return annotation(p, key) != NULL;
}

void rf_foreign_patch(struct rf_foreign_pod *p, struct rf_str path, struct rf_json *value)
{
	rf_json_push(p->a, p->patch, rf_json_make(p->a, "{'op':'add','path':%S,'value':%j}", path, value));
}

/* --- queue and group ------------------------------------------------------------------------------ */

static const struct rf_json *label(const struct rf_foreign_pod *p, const char *key)
{
	return rf_json_get(rf_json_at(p->pod, "metadata", "labels"), rf_str(key));
}

static struct rf_str say(struct rf_str s)
{
	return rf_str_n(s.p, RF_MIN(s.n, (size_t)LABEL_MAX));
}

/* What one word says; empty: nothing. Volcano calls it "default" when nobody named a queue. */
static struct rf_str read_word(const struct rf_foreign_pod *p, const struct word *w)
{
	struct rf_str v = rf_json_str(rf_json_get(rf_json_at(p->pod, "metadata", w->map), rf_str(w->key)));
	bool group = w >= GROUPS && w < GROUPS + RF_COUNT(GROUPS);

	if (!(p->f->habits & w->habit) || v.n == 0)
		return RF_STR_EMPTY;
	if (group)
		return rf_foreign_group_name(p->a, v);
	return w->habit == RF_HABIT_VOLCANO && rf_str_is(v, "default") ? RF_STR_EMPTY : v;
}

/* What those words say with one voice, and which said it first; ringfence's own label speaks, too. */
static int read_words(struct rf_foreign_pod *p, const struct word *words, size_t n, const char *own,
		      struct rf_str *ret, const char **from)
{
	struct rf_str found = rf_json_str(label(p, own));

	*from = own;
	for (size_t i = 0; i < n; i++) {
		struct rf_str v = read_word(p, &words[i]);

		if (v.n == 0 || rf_str_eq(v, found))
			continue;
		if (found.n > 0)
			return rf_fail(p->err, RF_INVALID, "%s says \"%.*s\" and %s says \"%.*s\"; remove one", *from,
				       RF_STR(say(found)), words[i].key, RF_STR(say(v)));
		found = v;
		*from = words[i].key;
	}
	*ret = found;
	return 0;
}

/* The same words whether there is no such queue or it is somebody else's: who asks is not told which. */
static int check_queue(const struct rf_foreign_owner *o, const char *from, struct rf_str queue, struct rf_err *err)
{
	if (rf_str_eq(queue, o->tenant) ||
	    (rf_str_is_dns_label(queue) && o->owns != NULL && o->owns(o->ctx, queue)))
		return 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "%s: tenant %.*s has no queue \"%.*s\"; name one of its queues, or leave it out to use \"%.*s\"", from,
		       RF_STR(o->tenant), RF_STR(say(queue)), RF_STR(o->tenant));
}

static void put_label(struct rf_foreign_pod *p, const char *key, struct rf_str value, bool *changed)
{
	rf_json_set_str(p->a, rf_json_ensure(p->a, p->pod, "metadata", "labels"), key, value);
	*changed = true;
}

static int translate_labels(struct rf_foreign_pod *p, const struct rf_foreign_owner *o)
{
	struct rf_str queue = RF_STR_EMPTY, group = RF_STR_EMPTY;
	const char *from = NULL, *group_from = NULL;
	bool changed = false;

	if (read_words(p, QUEUES, RF_COUNT(QUEUES), RF_QUEUE_LABEL, &queue, &from) < 0 ||
	    read_words(p, GROUPS, RF_COUNT(GROUPS), RF_GROUP_LABEL, &group, &group_from) < 0)
		return -p->err->code;
	if (queue.n > 0 && label(p, RF_QUEUE_LABEL) == NULL) {
		if (check_queue(o, from, queue, p->err) < 0)
			return -p->err->code;
		put_label(p, RF_QUEUE_LABEL, queue, &changed);
	}
	if (group.n > 0 && label(p, RF_GROUP_LABEL) == NULL) {
		if (!rf_str_is_dns_label(group))
			return rf_fail(p->err, RF_INVALID, "%s: \"%.*s\" is no name of a pod group", group_from,
				       RF_STR(say(group)));
		put_label(p, RF_GROUP_LABEL, group, &changed);
	}
	if (changed)
		rf_foreign_patch(p, RF_LIT("/metadata/labels"), rf_json_at(p->pod, "metadata", "labels"));
	return 0;
}

/* --- the whole pod ------------------------------------------------------------------------------ */

static void translate_scheduler(struct rf_foreign_pod *p, const char *ours)
{
	struct rf_str name = rf_json_str_at(p->spec, "schedulerName");

	for (size_t i = 0; i < RF_COUNT(SCHEDULERS); i++) {
		if (!(p->f->habits & SCHEDULERS[i].habit) || !rf_str_is(name, SCHEDULERS[i].name))
			continue;
		rf_json_set_str(p->a, p->spec, "schedulerName", rf_str(ours));
		rf_foreign_patch(p, RF_LIT("/spec/schedulerName"), rf_json_string(p->a, rf_str(ours)));
		return;
	}
}

int rf_foreign_rewrite(struct rf_arena *a, const struct rf_foreign *f, const struct rf_foreign_owner *owner,
		       struct rf_json *pod, struct rf_json **ret_patch, struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;
	struct rf_foreign_pod p = { .a = a,
				    .f = f,
				    .pod = pod,
				    .spec = rf_json_at(pod, "spec"),
				    .containers = rf_json_at(pod, "spec", "containers"),
				    .err = err != NULL ? err : &local };

	*ret_patch = NULL;
	if (f->habits == 0 || !rf_json_is(p.spec, RF_JSON_OBJECT))
		return 0;
	p.patch = rf_json_array(a);
	if (rf_foreign_cards(&p) < 0)
		return -p.err->code;
	/* Nobody's pod has no queue; one with cards is refused by who judges it. */
	if (owner->tenant.n > 0) {
		if (translate_labels(&p, owner) < 0)
			return -p.err->code;
		translate_scheduler(&p, owner->scheduler != NULL ? owner->scheduler : RF_SCHEDULER);
	}
	if (rf_json_len(p.patch) > 0)
		*ret_patch = p.patch;
	return 0;
}

/* --- queues and groups as objects --------------------------------------------------------------- */

struct rf_str rf_foreign_group_name(struct rf_arena *a, struct rf_str name)
{
	static const uint8_t key[16]; /* no secret: it tells the names of one namespace apart */
	char head[LABEL_MAX + 1] = "";
	size_t n = RF_MIN(name.n, (size_t)(LABEL_MAX - 1 - TAIL));

	if (!rf_str_is_dns_subdomain(name) || rf_str_is_dns_label(name))
		return name;
	for (size_t i = 0; i < n; i++)
		head[i] = name.p[i] == '.' ? '-' : name.p[i];
	return rf_arena_printf(a, "%s-%08x", head, (unsigned)rf_siphash13(key, name.p, name.n));
}

static unsigned habit_of_group(const struct rf_json *group)
{
	struct rf_str version = rf_json_str_at(group, "apiVersion");

	if (!rf_str_is(rf_json_str_at(group, "kind"), "PodGroup"))
		return 0;
	if (rf_str_starts(version, RF_LIT("scheduling.volcano.sh/")))
		return RF_HABIT_VOLCANO;
	return rf_str_starts(version, RF_LIT("scheduling.x-k8s.io/")) ? RF_HABIT_X_K8S : 0;
}

static int read_min(const struct rf_json *group, int64_t *ret, struct rf_err *err)
{
	const struct rf_json *v = rf_json_at(group, "spec", "minMember");
	int64_t n = 1;

	if (v != NULL && v->type != RF_JSON_NULL && (!rf_json_is_int(v, &n) || n < 0 || n > MEMBERS_MAX))
		return rf_fail(err, RF_INVALID, "spec.minMember: must be a whole number from 1 to %d", MEMBERS_MAX);
	*ret = RF_MAX(n, 1); /* 0 and nothing: no gang */
	return 0;
}

static int read_group_queue(const struct rf_foreign_owner *o, unsigned habit, const struct rf_json *group,
			    struct rf_str *ret, struct rf_err *err)
{
	struct rf_str queue = rf_json_str_at(group, "spec", "queue");

	if (habit != RF_HABIT_VOLCANO || rf_str_is(queue, "default"))
		queue = RF_STR_EMPTY;
	if (queue.n > 0 && check_queue(o, "spec.queue", queue, err) < 0)
		return -err->code;
	*ret = queue;
	return 0;
}

static struct rf_json *metadata_of(struct rf_arena *a, const struct rf_json *group, struct rf_str name)
{
	struct rf_str uid = rf_json_str_at(group, "metadata", "uid");
	struct rf_json *m = rf_json_make(
		a, "{'name':%S,'namespace':%S,'labels':{'app.kubernetes.io/managed-by':'ringfence'}}",
		name, rf_json_str_at(group, "metadata", "namespace"));

	if (uid.n > 0)
		rf_json_set(a, m, RF_LIT("ownerReferences"),
			    rf_json_make(a,
					 "[{'apiVersion':%S,'kind':'PodGroup','name':%S,'uid':%S,'controller':%b,"
					 "'blockOwnerDeletion':%b}]",
					 rf_json_str_at(group, "apiVersion"), rf_json_str_at(group, "metadata", "name"), uid,
					 true, false));
	return m;
}

int rf_foreign_group(struct rf_arena *a, const struct rf_foreign *f, const struct rf_foreign_owner *owner,
		     const struct rf_json *group, struct rf_json **ret, struct rf_err *err)
{
	struct rf_str name = rf_foreign_group_name(a, rf_json_str_at(group, "metadata", "name")), queue = RF_STR_EMPTY;
	unsigned habit = habit_of_group(group) & f->habits;
	struct rf_err local = RF_ERR_INIT;
	struct rf_json *spec = NULL;
	int64_t min = 0;

	err = err != NULL ? err : &local;
	if (habit == 0)
		return rf_fail(err, RF_UNSUPPORTED, "not a PodGroup of a habit that is switched on");
	if (!rf_str_is_dns_label(name))
		return rf_fail(err, RF_INVALID, "metadata.name: \"%.*s\" is no name of a pod group", RF_STR(say(name)));
	if (rf_str_is(rf_json_str_at(group, "spec", "networkTopology", "mode"), "hard"))
		return rf_fail(err, RF_INVALID,
			       "spec.networkTopology: mode hard has no counterpart in ringfence: make it soft, or write a "
			       "PodGroup of ringfence.io");
	if (read_min(group, &min, err) < 0 || read_group_queue(owner, habit, group, &queue, err) < 0)
		return -err->code;
	spec = rf_json_make(a, "{'minMember':%D}", min);
	if (queue.n > 0)
		rf_json_set_str(a, spec, "queue", queue);
	*ret = rf_json_make(a, "{'apiVersion':'ringfence.io/v1alpha1','kind':'PodGroup','metadata':%j,'spec':%j}",
			    metadata_of(a, group, name), spec);
	return 0;
}
