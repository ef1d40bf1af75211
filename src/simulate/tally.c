/* Events become figures. */
#include "simulate/tally.h"

#define BUCKET_MS 1000 /* at first */

const char *const RF_TALLY_SIZE_NAMES[RF_TALLY_SIZES] = {
	[RF_TALLY_PART] = "<1", [RF_TALLY_1] = "1",		  [RF_TALLY_2_TO_7] = "2-7",
	[RF_TALLY_8] = "8",	[RF_TALLY_9_TO_31] = "9-31", [RF_TALLY_32] = ">=32",
};

struct node {
	int64_t cards; /* thousandths, of healthy ones */
	bool here;
};

struct job {
	char *key;
	size_t key_n;
	uint32_t tenant;
	int64_t submit, milli; /* of its pods that are there */
	int64_t pods, bound, min;
	rf_tally_area area; /* of its pods that have gone */
	rf_tally_area now;  /* while shares are reckoned: of those that run */
	bool started, evicted, waiting;
	bool again; /* was evicted: its wait was counted */
	bool counted; /* among the jobs: one that is gated is none yet */
};

enum life { LIFE_GATED, LIFE_WAITING, LIFE_RUNNING };
struct pod {
	struct job *job;
	int64_t milli;
	int64_t came, began; /* when it was first ready to run, and when it ran */
	enum life life;
};

void rf_tally_init(struct rf_tally *b)
{
	*b = (struct rf_tally){ .a = RF_ARENA_INIT, .first_ms = -1, .bucket_ms = BUCKET_MS };
}

static void free_job(struct job *j)
{
	free(j->key);
	free(j);
}

static void free_values(struct rf_map *m)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(m, s)) != NULL;)
		free(s->value);
	rf_map_done(m);
}

void rf_tally_done(struct rf_tally *b)
{
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&b->jobs, s)) != NULL;)
		free_job(s->value);
	rf_map_done(&b->jobs);
	free_values(&b->nodes);
	free_values(&b->pods);
	free_values(&b->groups);
	rf_map_done(&b->namespaces);
	rf_map_done(&b->tenants_by_name);
	for (size_t i = 0; i < b->tenants.n; i++)
		free(b->tenants.at[i].series);
	rf_vec_done(&b->tenants);
	rf_vec_done(&b->waits);
	rf_vec_done(&b->waiting);
	rf_vec_done(&b->asks);
	rf_arena_done(&b->a);
}

/* --- time ------------------------------------------------------------------------------------- */

static void merge_buckets(struct rf_tally *b)
{
	for (size_t i = 0; i < RF_TALLY_BUCKETS; i++) {
		struct rf_tally_bucket v = { 0 };

		if (i < RF_TALLY_BUCKETS / 2) {
			const struct rf_tally_bucket *p = &b->buckets[2 * i], *q = p + 1;

			v = (struct rf_tally_bucket){ p->used + q->used, p->capacity + q->capacity,
						      p->waiting_jobs + q->waiting_jobs };
		}
		b->buckets[i] = v;
	}
	for (size_t t = 0; t < b->tenants.n; t++) {
		double *s = b->tenants.at[t].series;

		for (size_t i = 0; i < RF_TALLY_BUCKETS; i++)
			s[i] = i < RF_TALLY_BUCKETS / 2 ? s[2 * i] + s[2 * i + 1] : 0;
	}
	b->bucket_ms *= 2;
}

/* For plots only: doubles will do. */
static void add_series(struct rf_tally *b, int64_t from, int64_t to)
{
	while (to - b->first_ms > b->bucket_ms * RF_TALLY_BUCKETS)
		merge_buckets(b);
	while (from < to) {
		int64_t i = (from - b->first_ms) / b->bucket_ms;
		int64_t end = RF_MIN(to, b->first_ms + (i + 1) * b->bucket_ms);
		double ms = (double)(end - from);

		b->buckets[i].used += (double)b->used * ms;
		b->buckets[i].capacity += (double)b->capacity * ms;
		b->buckets[i].waiting_jobs += (double)b->n_waiting * ms;
		for (size_t t = 0; t < b->tenants.n; t++)
			b->tenants.at[t].series[i] += (double)b->tenants.at[t].used * ms;
		from = end;
	}
}

static void add_areas(struct rf_tally *b, int64_t ms)
{
	int64_t idle = RF_MAX(b->capacity - b->used, 0);

	b->used_area += (rf_tally_area)b->used * ms;
	b->capacity_area += (rf_tally_area)b->capacity * ms;
	if (b->waiting.n > 0 && b->waiting.at[0].milli <= idle)
		b->idle_area += (rf_tally_area)idle * ms;
	for (size_t i = 0; i < b->tenants.n; i++) {
		struct rf_tally_tenant *t = &b->tenants.at[i];

		t->area += (rf_tally_area)t->used * ms;
	}
}

void rf_tally_until(struct rf_tally *b, int64_t now_ms)
{
	if (now_ms <= b->now_ms)
		return;
	if (b->first_ms >= 0) {
		add_areas(b, now_ms - b->now_ms);
		add_series(b, b->now_ms, now_ms);
	}
	b->now_ms = now_ms;
}

/* --- who -------------------------------------------------------------------------------------- */

/* Index + 1 is the map's value. */
static int tenant_of(struct rf_tally *b, struct rf_str name, uint32_t *ret, struct rf_err *err)
{
	uintptr_t i = (uintptr_t)rf_map_get(&b->tenants_by_name, name);
	struct rf_tally_tenant t = { .weight = 1 };

	if (i == 0) {
		if (b->tenants.n == RF_TALLY_TENANTS_MAX)
			return rf_fail(err, RF_TOO_LARGE, "more than %d tenants", RF_TALLY_TENANTS_MAX);
		t.name = rf_arena_str(&b->a, name);
		t.series = rf_alloc(RF_TALLY_BUCKETS * sizeof(*t.series));
		rf_vec_push(&b->tenants, t);
		i = b->tenants.n;
		rf_map_set(&b->tenants_by_name, name, (void *)i);
	}
	*ret = (uint32_t)(i - 1);
	return 0;
}

void rf_tally_call(struct rf_tally *b, struct rf_str tenant, struct rf_str name)
{
	uint32_t i;

	if (tenant_of(b, tenant, &i, NULL) == 0)
		b->tenants.at[i].name = rf_arena_str(&b->a, name);
}

int64_t rf_tally_waiting(const struct rf_tally *b, uint32_t tenant)
{
	return tenant < b->tenants.n ? b->tenants.at[tenant].waiting_jobs : 0;
}

static int see_tenant(struct rf_tally *b, struct rf_str name, int64_t weight, struct rf_err *err)
{
	uint32_t i;

	if (name.n == 0)
		return 0;
	if (tenant_of(b, name, &i, err) < 0)
		return -RF_TOO_LARGE;
	b->tenants.at[i].weight = RF_MIN(RF_MAX(weight, 1), RF_QUEUE_WEIGHT_MAX);
	return 0;
}

static int see_namespace(struct rf_tally *b, const struct rf_log_event *e, struct rf_err *err)
{
	uint32_t i;

	if (e->del || e->tenant.n == 0) {
		rf_map_del(&b->namespaces, e->name);
		return 0;
	}
	if (tenant_of(b, e->tenant, &i, err) < 0)
		return -RF_TOO_LARGE;
	rf_map_set(&b->namespaces, e->name, (void *)(uintptr_t)(i + 1));
	return 0;
}

/* --- cards ------------------------------------------------------------------------------------ */

static struct node *node_of(struct rf_tally *b, struct rf_str name)
{
	struct node *n = rf_map_get(&b->nodes, name);

	if (n == NULL) {
		n = rf_new(struct node);
		rf_map_set(&b->nodes, name, n);
	}
	return n;
}

static void set_node(struct rf_tally *b, struct node *n, bool here, int64_t cards)
{
	b->capacity += (here ? cards : 0) - (n->here ? n->cards : 0);
	n->here = here;
	n->cards = cards;
}

static void see_devices(struct rf_tally *b, const struct rf_log_event *e)
{
	struct node *n = node_of(b, e->name);
	int64_t cards = 0;

	for (size_t i = 0; i < e->devices.n; i++) {
		if (e->devices.at[i].fault.n > 0)
			continue;
		cards += RF_FLEET_MILLI;
		b->card_memory = RF_MAX(b->card_memory, RF_MIN(e->devices.at[i].memory, RF_FLEET_MEMORY_MAX));
	}
	set_node(b, n, n->here, cards);
}

static void see_node(struct rf_tally *b, const struct rf_log_event *e)
{
	struct node *n = node_of(b, e->del ? e->name : e->node.name);

	set_node(b, n, !e->del, n->cards);
}

/* --- jobs ------------------------------------------------------------------------------------- */

static enum rf_tally_size size_of(int64_t milli)
{
	int64_t cards = milli / RF_FLEET_MILLI;

	if (cards == 0)
		return RF_TALLY_PART;
	if (cards == 1)
		return RF_TALLY_1;
	if (cards < 9)
		return cards < 8 ? RF_TALLY_2_TO_7 : RF_TALLY_8;
	return cards < 32 ? RF_TALLY_9_TO_31 : RF_TALLY_32;
}

static size_t waiting_place(const struct rf_tally *b, int64_t milli)
{
	size_t low = 0, high = b->waiting.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (b->waiting.at[mid].milli < milli)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void count_waiting(struct rf_tally *b, int64_t milli, int64_t by)
{
	size_t i = waiting_place(b, milli);

	if (i == b->waiting.n || b->waiting.at[i].milli != milli) {
		rf_vec_push(&b->waiting, ((struct rf_tally_waiting){ 0 }));
		memmove(&b->waiting.at[i + 1], &b->waiting.at[i], (b->waiting.n - 1 - i) * sizeof(b->waiting.at[0]));
		b->waiting.at[i] = (struct rf_tally_waiting){ .milli = milli };
	}
	b->waiting.at[i].n += by;
	if (b->waiting.at[i].n == 0)
		rf_vec_remove(&b->waiting, i);
	b->n_waiting += by;
}

static void set_waiting(struct rf_tally *b, struct job *j, bool waiting, int64_t milli)
{
	if (j->waiting)
		count_waiting(b, j->milli, -1);
	b->tenants.at[j->tenant].waiting_jobs += waiting - j->waiting;
	j->milli = milli;
	j->waiting = waiting;
	if (j->waiting)
		count_waiting(b, j->milli, 1);
}

/* What a pod asks for, in thousandths of cards; 0: none. */
static int64_t milli_of(const struct rf_tally *b, const struct rf_sched_pod *p)
{
	const int64_t most = INT64_C(1000000000);
	int64_t sum = 0;

	for (size_t i = 0; i < p->n_containers; i++) {
		const struct rf_gpu_ask *a = &p->containers[i].ask;

		sum += RF_MIN(RF_MAX(a->cards, 0), most / 1000) * RF_FLEET_MILLI;
		if (a->share_milli > 0)
			sum += RF_MIN(a->share_milli, RF_FLEET_MILLI);
		else if (a->share_bytes > 0 && b->card_memory > 0)
			sum += RF_MAX(RF_MIN(a->share_bytes, b->card_memory) / 1024 * 1000 /
					      RF_MAX(b->card_memory / 1024, 1), 1);
		if (a->slices > 0 && a->profile.n > 0 && a->profile.p[0] >= '1' && a->profile.p[0] <= '7')
			sum += RF_MIN(a->slices, most / 1000) * (a->profile.p[0] - '0') * RF_FLEET_MILLI / 8;
		sum = RF_MIN(sum, most);
	}
	return sum;
}

static struct job *job_of(struct rf_tally *b, const struct rf_log_event *e, uint32_t tenant)
{
	const struct rf_sched_pod *p = &e->pod;
	bool gang = p->group.n > 0;
	rf_auto(buf) key = RF_BUF_INIT;
	int64_t *min;
	struct job *j;

	rf_buf_printf(&key, "%.*s/%s/%.*s", RF_STR(p->ns), gang ? "group" : "pod", RF_STR(gang ? p->group : p->name));
	j = rf_map_get(&b->jobs, rf_buf_str(&key));
	if (j != NULL)
		return j;
	j = rf_new(struct job);
	j->key = rf_str_dup(rf_buf_str(&key));
	j->key_n = key.n;
	j->tenant = tenant;
	j->submit = p->created_ms > 0 ? RF_MIN(p->created_ms, e->t) : e->t;
	min = gang ? rf_map_get(&b->groups, rf_buf_str(&key)) : NULL;
	j->min = min != NULL ? RF_MAX(*min, 1) : 1;
	rf_map_set(&b->jobs, rf_buf_str(&key), j);
	return j;
}

static void see_group(struct rf_tally *b, const struct rf_log_event *e)
{
	rf_auto(buf) key = RF_BUF_INIT;
	int64_t *min;

	rf_buf_printf(&key, "%.*s/group/%.*s", RF_STR(e->del ? e->ns : e->group.ns),
		      RF_STR(e->del ? e->name : e->group.name));
	free(rf_map_del(&b->groups, rf_buf_str(&key)));
	if (e->del)
		return;
	min = rf_new(int64_t);
	*min = e->group.min;
	rf_map_set(&b->groups, rf_buf_str(&key), min);
}

/* The first job opens the books; what is used by the last one's arrival is what counts for "while jobs came". */
static void came(struct rf_tally *b, int64_t t)
{
	if (b->first_ms < 0)
		b->first_ms = b->now_ms = t;
	b->busy_used = b->used_area;
	b->busy_capacity = b->capacity_area;
	b->busy_idle = b->idle_area;
	for (size_t i = 0; t > b->last_ms && i < b->tenants.n; i++)
		b->tenants.at[i].busy = b->tenants.at[i].area;
	b->last_ms = t;
}

static void count_job(struct rf_tally *b, struct job *j)
{
	b->n_jobs += !j->counted;
	j->counted = true;
}

static void wait_pod(struct rf_tally *b, struct pod *p)
{
	count_job(b, p->job);
	p->life = LIFE_WAITING;
	p->came = b->now_ms;
	b->tenants.at[p->job->tenant].waiting += p->milli;
	if (!p->job->started)
		set_waiting(b, p->job, true, p->job->milli + p->milli);
}

static void bind_pod(struct rf_tally *b, struct pod *p, int64_t t)
{
	struct job *j = p->job;
	struct rf_tally_tenant *tenant = &b->tenants.at[j->tenant];

	if (p->life == LIFE_RUNNING)
		return;
	if (p->life == LIFE_WAITING)
		tenant->waiting -= p->milli;
	else
		p->came = t;
	p->life = LIFE_RUNNING;
	p->began = t;
	count_job(b, j);
	tenant->used += p->milli;
	b->used += p->milli;
	if (++j->bound < j->min || j->started)
		return;
	if (j->waiting && !j->again) {
		struct rf_tally_wait w = { .ms = RF_MAX(t - j->submit, 0), .tenant = j->tenant,
					   .size = (uint8_t)size_of(j->milli) };

		rf_vec_push(&b->waits, w);
	}
	set_waiting(b, j, false, j->milli);
	j->started = true;
	b->n_started++;
}

static void end_job(struct rf_tally *b, struct job *j)
{
	set_waiting(b, j, false, 0);
	if (j->evicted) { /* it comes again */
		b->n_started -= j->started;
		j->evicted = j->started = false;
		j->again = true;
		return;
	}
	if (j->counted)
		*(j->started ? &b->n_ended : &b->n_withdrawn) += 1;
	b->tenants.at[j->tenant].largest = RF_MAX(b->tenants.at[j->tenant].largest, j->area);
	rf_map_del(&b->jobs, rf_str_n(j->key, j->key_n));
	free_job(j);
}

static void end_pod(struct rf_tally *b, struct rf_str uid)
{
	struct pod *p = rf_map_del(&b->pods, uid);
	struct job *j;

	if (p == NULL)
		return;
	j = p->job;
	if (p->life != LIFE_GATED) {
		struct rf_tally_ask a = { .came = p->came, .ms = b->now_ms - (p->life == LIFE_RUNNING ? p->began : p->came),
					  .milli = p->milli, .tenant = j->tenant };

		rf_vec_push(&b->asks, a);
	}
	if (p->life == LIFE_WAITING)
		b->tenants.at[j->tenant].waiting -= p->milli;
	if (p->life == LIFE_RUNNING) {
		b->tenants.at[j->tenant].used -= p->milli;
		b->used -= p->milli;
		j->bound--;
		j->area += (rf_tally_area)p->milli * (b->now_ms - p->began);
	}
	if (j->waiting)
		set_waiting(b, j, true, j->milli - p->milli);
	free(p);
	if (--j->pods == 0)
		end_job(b, j);
}

static struct pod *new_pod(struct rf_tally *b, const struct rf_log_event *e)
{
	uintptr_t tenant = (uintptr_t)rf_map_get(&b->namespaces, e->pod.ns);
	int64_t milli = milli_of(b, &e->pod);
	struct pod *p;

	if (tenant == 0 || milli == 0 || e->pod.ended || e->pod.daemon)
		return NULL;
	came(b, e->t);
	p = rf_new(struct pod);
	p->milli = milli;
	p->job = job_of(b, e, (uint32_t)tenant - 1);
	p->job->pods++;
	rf_map_set(&b->pods, e->pod.uid, p);
	return p;
}

static void see_pod(struct rf_tally *b, const struct rf_log_event *e)
{
	struct rf_str uid = e->del ? e->uid : e->pod.uid;
	struct pod *p = rf_map_get(&b->pods, uid);

	if (e->del || e->pod.ended) {
		end_pod(b, uid);
		return;
	}
	if (p == NULL)
		p = new_pod(b, e);
	if (p == NULL)
		return;
	if (e->pod.node.n > 0)
		bind_pod(b, p, e->t);
	else if (p->life == LIFE_GATED && !e->pod.gated)
		wait_pod(b, p);
}

static void see_decision(struct rf_tally *b, const struct rf_log_event *e)
{
	struct pod *p = rf_map_get(&b->pods, e->decision.uid);

	if (e->decision.verdict == RF_CORE_BIND) {
		b->binds++;
		if (p != NULL)
			bind_pod(b, p, e->t);
	} else if (e->decision.verdict == RF_CORE_EVICT) {
		b->preemptions++;
		if (p != NULL)
			p->job->evicted = true;
	}
}

int rf_tally_see(struct rf_tally *b, const struct rf_log_event *e, struct rf_err *err)
{
	rf_tally_until(b, e->t);
	switch (e->kind) {
	case RF_LOG_NODE:
		see_node(b, e);
		break;
	case RF_LOG_DEVICES:
		see_devices(b, e);
		break;
	case RF_LOG_TENANT:
		return e->del ? 0 : see_tenant(b, e->tenant_spec.name, e->tenant_spec.queue_weight, err);
	case RF_LOG_QUEUE:
		return e->del ? 0 : see_tenant(b, e->queue.tenant, e->queue.weight, err);
	case RF_LOG_NAMESPACE:
		return see_namespace(b, e, err);
	case RF_LOG_GROUP:
		see_group(b, e);
		break;
	case RF_LOG_POD:
		see_pod(b, e);
		break;
	case RF_LOG_DECISION:
		see_decision(b, e);
		break;
	default:
		break;
	}
	return 0;
}

int64_t rf_tally_evicted(const struct rf_tally *b)
{
	int64_t n = 0;

	for (const struct rf_map_slot *s = NULL; (s = rf_map_next(&b->jobs, s)) != NULL;) {
		const struct job *j = s->value;

		n += j->counted && !j->started && !j->waiting;
	}
	return n;
}

/* --- shares ------------------------------------------------------------------------------------ */

static void add_asked(const struct rf_tally *b, struct rf_tally_share *s, int64_t came, int64_t ms, int64_t milli)
{
	if (came < b->last_ms)
		s->asked += (rf_tally_area)milli * RF_MIN(ms, b->last_ms - came);
}

static void add_present(const struct rf_tally *b, struct rf_tally_share *ret)
{
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&b->pods, slot)) != NULL;) {
		const struct pod *p = slot->value;

		if (p->life != LIFE_GATED)
			add_asked(b, &ret[p->job->tenant], p->came, INT64_MAX, p->milli);
		if (p->life == LIFE_RUNNING)
			p->job->now += (rf_tally_area)p->milli * (b->now_ms - p->began);
	}
	for (struct rf_map_slot *slot = NULL; (slot = rf_map_next(&b->jobs, slot)) != NULL;) {
		struct job *j = slot->value;

		ret[j->tenant].largest = RF_MAX(ret[j->tenant].largest, j->area + j->now);
		j->now = 0;
	}
}

/* Their parts grow by weight until nothing is left over; who asked for less than its part gets that. */
static void fill(const struct rf_tally *b, struct rf_tally_share *s)
{
	rf_tally_area left = 0, weights = 0;
	size_t n = b->tenants.n;
	bool *full = rf_alloc(n + 1), again = true;

	for (size_t i = 0; i < n; i++) {
		left += s[i].used;
		weights += b->tenants.at[i].weight;
	}
	while (again) {
		again = false;
		for (size_t i = 0; i < n && !b->endless; i++) {
			int64_t weight = b->tenants.at[i].weight;

			/* by quotients: products with weights need not fit */
			if (full[i] || s[i].asked / weight > left / weights)
				continue;
			full[i] = again = true;
			s[i].fair = RF_MIN(s[i].asked, left);
			left -= s[i].fair;
			weights -= weight;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (!full[i])
			s[i].fair = left / weights * b->tenants.at[i].weight;
	free(full);
}

struct rf_tally_share *rf_tally_shares(const struct rf_tally *b)
{
	struct rf_tally_share *s = rf_alloc((b->tenants.n + 1) * sizeof(*s));

	for (size_t i = 0; i < b->tenants.n; i++)
		s[i] = (struct rf_tally_share){ .used = b->tenants.at[i].busy, .largest = b->tenants.at[i].largest };
	for (size_t i = 0; i < b->asks.n; i++)
		add_asked(b, &s[b->asks.at[i].tenant], b->asks.at[i].came, b->asks.at[i].ms, b->asks.at[i].milli);
	add_present(b, s);
	fill(b, s);
	return s;
}

bool rf_tally_share_off(const struct rf_tally_share *s)
{
	rf_tally_area off = s->used > s->fair ? s->used - s->fair : s->fair - s->used;

	return off > s->largest && off > s->fair / 100;
}
