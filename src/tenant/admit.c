#include "tenant/admit.h"

#include "policy/podsecurity.h"

/* Pod security sorts what it finds by insertion; a spec of this many values takes it a moment, and no
 * pod that means well has nearly as many. */
#define VALUES_MAX 10000

#define REMEDY_GPU                                                                                 \
	"; wait for a pod of the tenant to end, lower ringfence.io/gpu or "                        \
	"ringfence.io/gpu-memory, or "                                                             \
	"ask for a larger Tenant quota"
#define REMEDY "; delete what is no longer needed or ask for a larger quota"

/* --- what is held --------------------------------------------------------------------------- */

static int64_t sum_of(int64_t a, int64_t b)
{
	return a > RF_TENANT_USE_MAX - b ? RF_TENANT_USE_MAX : a + b;
}

void rf_tenant_use_add(struct rf_tenant_use *u, const struct rf_tenant_use *more)
{
	u->cards = sum_of(u->cards, more->cards);
	u->share_bytes = sum_of(u->share_bytes, more->share_bytes);
	u->pods = sum_of(u->pods, more->pods);
}

void rf_tenant_use_add_pod(struct rf_tenant_use *u, const struct rf_json *pod)
{
	struct rf_gpu_ask ask = { 0 };

	if (!rf_pod_counts(pod))
		return;
	(void)rf_gpu_ask_of_pod(pod, &ask, NULL);
	rf_tenant_use_add(u, &(struct rf_tenant_use){
				     ask.cards, RF_MIN(ask.share_bytes, RF_TENANT_USE_MAX), 1 });
}

/* --- quota ---------------------------------------------------------------------------------- */

static void add_part(struct rf_buf *b, struct rf_str key, struct rf_str amount)
{
	rf_buf_printf(b, "%s%.*s=%.*s", b->n > 0 ? "," : "", RF_STR(key), RF_STR(amount));
}

void rf_excess_add(struct rf_excess *e, struct rf_str key, struct rf_str asked, struct rf_str used,
		   struct rf_str limited)
{
	add_part(&e->asked, key, asked);
	add_part(&e->used, key, used);
	add_part(&e->limited, key, limited);
}

int rf_excess_refuse(const struct rf_excess *e, const char *of, struct rf_str name,
		     struct rf_err *err)
{
	bool gpu = rf_str_contains(rf_buf_str(&e->asked), RF_LIT("gpu"));

	if (e->asked.n == 0)
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN, "exceeded quota: %s%.*s, requested: %s, used: %s, limited: %s%s",
		of, RF_STR(name), e->asked.p, e->used.p, e->limited.p, gpu ? REMEDY_GPU : REMEDY);
}

void rf_excess_done(struct rf_excess *e)
{
	rf_buf_done(&e->asked);
	rf_buf_done(&e->used);
	rf_buf_done(&e->limited);
}

static struct rf_str count_text(struct rf_arena *a, int64_t n)
{
	return rf_arena_printf(a, "%lld", (long long)n);
}

static int check_quota(struct rf_arena *a, const struct rf_tenant *t, const struct rf_gpu_ask *ask,
		       const struct rf_tenant_use *used, struct rf_err *err)
{
	const struct {
		struct rf_str key;
		int64_t asked, used, limit; /* limit -1: none */
		struct rf_str (*text)(struct rf_arena *a, int64_t amount);
	} rows[] = {
		{ RF_LIT("requests." RF_RES_GPU), ask->cards, used->cards, t->quota_gpus,
		  count_text },
		{ RF_LIT("requests." RF_RES_GPU_MEMORY), ask->share_bytes, used->share_bytes,
		  t->quota_gpu_memory, rf_quantity_bytes },
		{ RF_LIT("pods"), 1, used->pods, t->quota_pods, count_text },
	};
	rf_auto(excess) e = RF_EXCESS_INIT;

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		if (rows[i].limit < 0 || rows[i].asked <= 0 ||
		    rows[i].asked <= rows[i].limit - rows[i].used)
			continue;
		rf_excess_add(&e, rows[i].key, rows[i].text(a, rows[i].asked),
			      rows[i].text(a, rows[i].used), rows[i].text(a, rows[i].limit));
	}
	return rf_excess_refuse(&e, "tenant ", t->name, err);
}

/* --- what a pod with a card may not ---------------------------------------------------------- */

static size_t count_values(const struct rf_json *v, size_t most)
{
	size_t n = 1;

	for (size_t i = 0; i < rf_json_len(v) && n <= most; i++)
		n += count_values(v->type == RF_JSON_ARRAY ? v->items[i] : v->members[i].value,
				  most - n);
	return n;
}

static int check_security(const struct rf_json *pod, struct rf_err *err)
{
	size_t n = count_values(rf_json_at(pod, "spec"), VALUES_MAX) +
		   count_values(rf_json_at(pod, "metadata", "annotations"), VALUES_MAX);
	rf_auto(buf) why = RF_BUF_INIT;

	if (n > VALUES_MAX)
		return rf_fail(
			err, RF_FORBIDDEN,
			"a pod that asks for GPUs may hold at most %d values, so that it can "
			"be checked; make it smaller",
			VALUES_MAX);
	if (rf_ps_check(RF_PS_BASELINE, pod, &why))
		return 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "asks for GPUs, and a pod with a card may not reach the machine under it: "
		       "%s; remove these settings, or ask for no GPU",
		       why.p);
}

static int check_scheduler(const struct rf_admission *ask, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(ask->pod, "spec", "schedulerName");
	const char *ours = ask->scheduler != NULL ? ask->scheduler : RF_SCHEDULER;

	if (name.n == 0 || rf_str_is(name, "default-scheduler") || rf_str_is(name, ours))
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN,
		"spec.schedulerName \"%.*s\": pods that ask for cards are placed by ringfence; "
		"leave schedulerName out",
		(int)RF_MIN(name.n, 253u), name.p);
}

/* A pod that names its node passes the scheduler by, and with it every rule about who may meet. */
static int check_placement(const struct rf_admission *ask, struct rf_err *err)
{
	if (rf_json_str_at(ask->pod, "spec", "nodeName").n == 0 || ask->platform)
		return 0;
	return rf_fail(err, RF_FORBIDDEN,
		       "spec.nodeName may only be set by the scheduler; leave it out, or use "
		       "spec.nodeSelector");
}

static int check_notes(const struct rf_json *pod, struct rf_err *err)
{
	struct rf_pod_notes notes;

	return rf_pod_notes(pod, &notes, err);
}

static int not_its_queue(const char *where, struct rf_str ns, struct rf_str tenant, struct rf_str name, struct rf_err *err)
{
	if (tenant.n == 0)
		return rf_fail(err, RF_FORBIDDEN,
			       "%s: queues are for tenants, and namespace \"%.*s\" belongs to none; leave \"%.*s\" out", where,
			       RF_STR(ns), RF_STR(name));
	return rf_fail(err, RF_FORBIDDEN,
		       "%s: tenant %.*s has no queue \"%.*s\"; name one of its queues, or leave it out to use \"%.*s\"", where,
		       RF_STR(tenant), RF_STR(name), RF_STR(tenant));
}

/* Nothing runs by a queue of somebody else. One that is not there may come. */
static int check_queue(const struct rf_admission *ask, struct rf_err *err)
{
	if (ask->queue == NULL || rf_queue_is_of(ask->queue, ask->tenant_name))
		return 0;
	return not_its_queue("label " RF_QUEUE_LABEL, ask->ns, ask->tenant_name, rf_json_str_at(ask->queue, "metadata", "name"), err);
}

int rf_tenant_admit_group(const struct rf_json *group, struct rf_str ns, struct rf_str tenant, const struct rf_json *queue,
			  struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(group, "spec", "queue");

	/* The tenant's own is made with it, a moment later. */
	if (name.n == 0 || rf_queue_is_of(queue, tenant) || (queue == NULL && tenant.n > 0 && rf_str_eq(name, tenant)))
		return 0;
	return not_its_queue("spec.queue", ns, tenant, name, err);
}

/* --- the tenant ------------------------------------------------------------------------------ */

static int read_tenant(struct rf_arena *a, const struct rf_admission *ask, struct rf_tenant *ret,
		       struct rf_err *err)
{
	if (ask->tenant == NULL)
		return rf_fail(
			err, RF_FORBIDDEN,
			"namespace \"%.*s\" belongs to tenant \"%.*s\", which does not exist; "
			"create the Tenant or remove the namespace's label %s",
			RF_STR(ask->ns), RF_STR(ask->tenant_name), RF_TENANT_LABEL);
	if (rf_json_at(ask->tenant, "metadata", "deletionTimestamp") != NULL)
		return rf_fail(err, RF_FORBIDDEN, "tenant \"%.*s\" is being deleted",
			       RF_STR(ask->tenant_name));
	return rf_tenant_parse(a, ask->tenant, ret, err);
}

static int check_gpus(const struct rf_admission *ask, const struct rf_tenant *t,
		      const struct rf_gpu_ask *gpus, struct rf_err *err)
{
	if (rf_tenant_allows(t, ask->pod, gpus, err) < 0 || check_scheduler(ask, err) < 0)
		return -err->code;
	return check_security(ask->pod, err);
}

int rf_tenant_admit(struct rf_arena *a, const struct rf_admission *ask, struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;
	struct rf_gpu_ask gpus = { 0 };
	struct rf_tenant t = { 0 };

	err = err != NULL ? err : &local;
	if (check_placement(ask, err) < 0 || rf_gpu_ask_of_pod(ask->pod, &gpus, err) < 0 ||
	    check_notes(ask->pod, err) < 0 || check_queue(ask, err) < 0)
		return -err->code;
	if (ask->tenant_name.n == 0) {
		if (!rf_gpu_ask_any(&gpus))
			return 0;
		return rf_fail(
			err, RF_FORBIDDEN,
			"asks for GPUs, but namespace \"%.*s\" belongs to no tenant; use a "
			"tenant's namespace or ask an administrator to create a Tenant for it",
			RF_STR(ask->ns));
	}
	if (read_tenant(a, ask, &t, err) < 0 ||
	    (rf_gpu_ask_any(&gpus) && check_gpus(ask, &t, &gpus, err) < 0))
		return -err->code;
	return check_quota(a, &t, &gpus, &ask->used, err);
}

/* --- changes --------------------------------------------------------------------------------- */

/* As text: both come from one writer, and an object compared member by member costs the square. */
static bool same_spec(const struct rf_json *a, const struct rf_json *b)
{
	rf_auto(buf) x = RF_BUF_INIT;
	rf_auto(buf) y = RF_BUF_INIT;

	rf_json_write(&x, rf_json_at(a, "spec"));
	rf_json_write(&y, rf_json_at(b, "spec"));
	return rf_str_eq(rf_buf_str(&x), rf_buf_str(&y));
}

/* Whose queue is charged, which gang it belongs to, and whether it may be evicted. */
static int check_same_place(const struct rf_json *old, const struct rf_json *pod, struct rf_err *err)
{
	static const struct {
		const char *what, *where, *key;
	} fixed[] = {
		{ "label", "labels", RF_QUEUE_LABEL },
		{ "label", "labels", RF_GROUP_LABEL },
		{ "annotation", "annotations", RF_PREEMPTIBLE_ANNOTATION },
		{ "annotation", "annotations", RF_MIN_RUN_ANNOTATION },
	};

	for (size_t i = 0; i < RF_COUNT(fixed); i++)
		if (!rf_str_eq(rf_json_str_at(old, "metadata", fixed[i].where, fixed[i].key),
			       rf_json_str_at(pod, "metadata", fixed[i].where, fixed[i].key)))
			return rf_fail(err, RF_FORBIDDEN,
				       "the %s %s of a pod that asks for GPUs cannot be changed; "
				       "delete it and create it anew",
				       fixed[i].what, fixed[i].key);
	return 0;
}

/* What was not valid before may stay: who carries finalizers away must not be held up by it. */
static int check_notes_change(const struct rf_json *old, const struct rf_json *pod, struct rf_err *err)
{
	struct rf_err was = RF_ERR_INIT, is = RF_ERR_INIT;

	if (check_notes(pod, &is) == 0 || (check_notes(old, &was) < 0 && strcmp(was.msg, is.msg) == 0))
		return 0;
	*err = is;
	return -err->code;
}

int rf_tenant_admit_change(const struct rf_json *old, const struct rf_json *pod, struct rf_err *err)
{
	struct rf_gpu_ask was = { 0 }, is = { 0 };
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	(void)rf_gpu_ask_of_pod(old, &was, NULL);
	if (rf_gpu_ask_any(&was) && check_same_place(old, pod, err) < 0)
		return -err->code;
	if (rf_json_at(pod, "metadata", "deletionTimestamp") != NULL)
		return 0;
	if (rf_gpu_ask_any(&was) && check_notes_change(old, pod, err) < 0)
		return -err->code;
	if (same_spec(old, pod))
		return 0;
	if (rf_gpu_ask_of_pod(pod, &is, err) < 0)
		return -err->code;
	if (is.cards != was.cards || is.share_bytes != was.share_bytes ||
	    is.share_milli != was.share_milli || is.slices != was.slices ||
	    !rf_str_eq(is.profile, was.profile))
		return rf_fail(err, RF_FORBIDDEN,
			       "what a pod asks of GPUs cannot be changed; delete it and create it "
			       "anew");
	return rf_gpu_ask_any(&is) ? check_security(pod, err) : 0;
}
