/* Events as lines: what goes in comes out, field by field, and nothing else is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/log.h"

/* --- random facts, every field of them -------------------------------------------------------- */

struct gen {
	struct rf_prng r;
	struct rf_arena a;
};

static uint64_t below(struct gen *g, uint64_t n)
{
	return rf_prng_below(&g->r, n);
}

static struct rf_str text(struct gen *g)
{
	static const char *const WORDS[] = { "", "a", "team-a", "say \"no\"", "back\\slash", "new\nline", "\x01\x1f",
					     "gr\xc3\xbc\xc3\x9f", "</script>", "zero" };
	size_t i = below(g, RF_COUNT(WORDS));

	return i == RF_COUNT(WORDS) - 1 ? rf_str_n("z\0o", 3) : rf_str(WORDS[i]);
}

static struct rf_str name(struct gen *g)
{
	return rf_arena_printf(&g->a, "n%llu", (unsigned long long)below(g, 100));
}

static int64_t number(struct gen *g)
{
	static const int64_t ODD[] = { 0, 0, -1, 1, 1000, INT64_MAX, INT64_MIN, INT64_C(1) << 40 };

	return below(g, 2) ? ODD[below(g, RF_COUNT(ODD))] : (int64_t)below(g, 100000);
}

static bool yes(struct gen *g)
{
	return below(g, 2);
}

/* For (i = 0; i < n; i++) of a new array in v. */
#define MANY(g, v, count)                                                                                              \
	((count) = below(g, 4), (v) = (count) > 0 ? rf_arena_alloc(&(g)->a, (count) * sizeof(*(v))) : NULL);          \
	for (size_t i_ = 0; i_ < (count); i_++)

static void strs(struct gen *g, struct rf_str **ret, size_t *ret_n)
{
	MANY(g, *ret, *ret_n)
		(*ret)[i_] = text(g);
}

static void pairs(struct gen *g, struct rf_sched_pair **ret, size_t *ret_n)
{
	MANY(g, *ret, *ret_n)
		(*ret)[i_] = (struct rf_sched_pair){ text(g), text(g) };
}

static void amounts(struct gen *g, struct rf_sched_amount **ret, size_t *ret_n)
{
	MANY(g, *ret, *ret_n)
		(*ret)[i_] = (struct rf_sched_amount){ text(g), number(g) };
}

static void term(struct gen *g, struct rf_sched_term *t)
{
	t->weight = number(g);
	MANY(g, t->all, t->n)
	{
		struct rf_sched_match *m = &t->all[i_];

		m->key = text(g);
		m->op = (enum rf_sched_op)below(g, RF_SCHED_LT + 1);
		strs(g, &m->values, &m->n_values);
	}
}

static void terms(struct gen *g, struct rf_sched_term **ret, size_t *ret_n)
{
	MANY(g, *ret, *ret_n)
		term(g, &(*ret)[i_]);
}

static void grants(struct gen *g, struct rf_sched_grant **ret, size_t *ret_n)
{
	MANY(g, *ret, *ret_n)
		(*ret)[i_] = (struct rf_sched_grant){ text(g), text(g), number(g), number(g), yes(g), text(g), number(g) };
}

static void make_node(struct gen *g, struct rf_sched_node *n)
{
	*n = (struct rf_sched_node){ .name = name(g), .cpu_milli = number(g), .memory = number(g), .pods = number(g),
				     .ready = yes(g), .cordoned = yes(g) };
	pairs(g, &n->labels, &n->n_labels);
	MANY(g, n->taints, n->n_taints)
		n->taints[i_] = (struct rf_sched_taint){ text(g), text(g), text(g) };
	amounts(g, &n->more, &n->n_more);
}

static void make_devices(struct gen *g, struct rf_log_event *e)
{
	e->name = name(g);
	MANY(g, e->devices.at, e->devices.n)
		e->devices.at[i_] = (struct rf_sched_device){ .name = text(g), .model = text(g), .fault = text(g),
							      .memory = number(g), .milli = number(g),
							      .island = (uint8_t)below(g, 256),
							      .numa = (uint8_t)below(g, 256), .sliced = yes(g),
							      .fixed = yes(g) };
}

static void make_tenant(struct gen *g, struct rf_tenant *t)
{
	*t = (struct rf_tenant){ .name = name(g), .isolation = (enum rf_isolation)below(g, RF_ISOLATION_COOPERATIVE + 1),
				 .trust_domain = text(g), .quota_gpus = number(g), .quota_gpu_memory = number(g),
				 .quota_pods = number(g), .queue_weight = number(g), .queue_parent = text(g) };
	strs(g, &t->namespaces, &t->n_namespaces);
	MANY(g, t->queue_amounts, t->n_queue_amounts)
		t->queue_amounts[i_] = (struct rf_queue_amount){ text(g), number(g), number(g), number(g), number(g) };
}

static void make_queue(struct gen *g, struct rf_sched_queue *q)
{
	*q = (struct rf_sched_queue){ .name = name(g), .parent = text(g), .tenant = text(g), .weight = number(g) };
	MANY(g, q->quotas, q->n_quotas)
		q->quotas[i_] = (struct rf_sched_quota){ text(g), number(g), number(g), number(g), number(g) };
}

static void make_group(struct gen *g, struct rf_sched_group *v)
{
	*v = (struct rf_sched_group){ .ns = text(g), .name = name(g), .rv = number(g), .min = number(g),
				      .created_ms = number(g), .queue = text(g), .topology = text(g), .pinned = yes(g),
				      .min_run_ms = number(g), .run_limit_ms = number(g), .started = yes(g),
				      .ending_ms = number(g) };
}

static void make_containers(struct gen *g, struct rf_sched_pod *p)
{
	const char *const names[] = { NULL, RF_RES_GPU, rf_gpu_name(0) };

	MANY(g, p->containers, p->n_containers)
		p->containers[i_] = (struct rf_sched_container){
			text(g), { number(g), names[below(g, 3)], number(g), number(g), number(g), text(g) }
		};
}

static void make_wishes(struct gen *g, struct rf_sched_pod *p)
{
	pairs(g, &p->selector, &p->n_selector);
	MANY(g, p->tolerations, p->n_tolerations)
		p->tolerations[i_] = (struct rf_sched_toleration){ text(g), text(g), text(g), yes(g) };
	amounts(g, &p->more, &p->n_more);
	pairs(g, &p->labels, &p->n_labels);
	terms(g, &p->node_terms, &p->n_node_terms);
	terms(g, &p->prefers, &p->n_prefers);
	MANY(g, p->nears, p->n_nears)
	{
		struct rf_sched_near *v = &p->nears[i_];

		*v = (struct rf_sched_near){ .apart = yes(g), .topology = text(g), .any = yes(g), .all_namespaces = yes(g) };
		term(g, &v->labels);
		strs(g, &v->namespaces, &v->n_namespaces);
	}
	MANY(g, p->spreads, p->n_spreads)
	{
		p->spreads[i_] = (struct rf_sched_spread){ .topology = text(g), .max_skew = number(g),
							   .min_domains = number(g), .any = yes(g),
							   .any_node = yes(g), .heed_taints = yes(g) };
		term(g, &p->spreads[i_].labels);
	}
}

static void make_pod(struct gen *g, struct rf_sched_pod *p)
{
	*p = (struct rf_sched_pod){ .uid = name(g), .ns = text(g), .name = text(g), .rv = number(g), .node = text(g),
				    .ended = yes(g), .well = yes(g), .deleting = yes(g), .priority = number(g), .created_ms = number(g),
				    .cpu_milli = number(g), .memory = number(g), .os = text(g), .only_node = text(g),
				    .daemon = yes(g), .unsupported = text(g), .queue = text(g), .group = text(g),
				    .models = text(g), .one_island = yes(g), .pinned = yes(g), .patient = yes(g), .gated = yes(g),
				    .min_run_ms = number(g), .run_limit_ms = number(g), .started_ms = number(g),
				    .grace_ms = number(g) };
	make_containers(g, p);
	make_wishes(g, p);
}

static void make_claim(struct gen *g, struct rf_sched_claim *c)
{
	*c = (struct rf_sched_claim){ .ns = text(g), .name = name(g), .pod_uid = text(g), .tenant = text(g),
				      .rv = number(g), .deleting = yes(g), .node = text(g) };
	grants(g, &c->grants, &c->n_grants);
}

static void make_decision(struct gen *g, struct rf_core_decision *d)
{
	*d = (struct rf_core_decision){ .verdict = (enum rf_core_verdict)below(g, RF_CORE_EVICT + 1), .uid = name(g),
					.cause = (enum rf_core_cause)below(g, RF_CORE_INCOMPLETE + 1),
					.ns = text(g), .name = text(g), .tenant = text(g), .node = text(g),
					.promised = yes(g), .commit_left = below(g, 5), .group = text(g),
					.reason = text(g) };
	grants(g, &d->grants, &d->n_grants);
}

static void make_config(struct gen *g, struct rf_core_config *c)
{
	*c = (struct rf_core_config){ .policy = (enum rf_fleet_policy)below(g, RF_FLEET_FIRST + 1),
				      .reclaim = (enum rf_reclaim)below(g, RF_RECLAIM_FAIR + 1),
				      .half_life_ms = number(g), .entry_ms = number(g), .reserve_after_ms = number(g),
				      .reserve_cards = number(g), .reserve_most = number(g),
				      .gang_window_ms = number(g), .tell_ms = number(g), .victims_most = below(g, 100) };
}

static void make_gone(struct gen *g, struct rf_log_event *e)
{
	e->del = true;
	if (e->kind == RF_LOG_POD) {
		e->uid = name(g);
		return;
	}
	e->name = name(g);
	if (e->kind == RF_LOG_GROUP || e->kind == RF_LOG_CLAIM || e->kind == RF_LOG_BUDGET)
		e->ns = text(g);
}

static void make_event(struct gen *g, struct rf_log_event *e)
{
	*e = (struct rf_log_event){ .kind = (enum rf_log_kind)below(g, RF_LOG_KINDS), .t = (int64_t)below(g, 1u << 30) };
	if (e->kind < RF_LOG_DECISION && e->kind != RF_LOG_DEVICES && below(g, 3) == 0) {
		make_gone(g, e);
		return;
	}
	switch (e->kind) {
	case RF_LOG_NODE: make_node(g, &e->node); break;
	case RF_LOG_DEVICES: make_devices(g, e); break;
	case RF_LOG_TENANT: make_tenant(g, &e->tenant_spec); break;
	case RF_LOG_NAMESPACE: e->name = name(g), e->tenant = text(g); break;
	case RF_LOG_QUEUE: make_queue(g, &e->queue); break;
	case RF_LOG_GROUP: make_group(g, &e->group); break;
	case RF_LOG_POD: make_pod(g, &e->pod); break;
	case RF_LOG_CLAIM: make_claim(g, &e->claim); break;
	case RF_LOG_BUDGET:
		e->budget = (struct rf_sched_budget){ .ns = text(g), .name = name(g), .any = yes(g), .allowed = number(g) };
		term(g, &e->budget.labels);
		break;
	case RF_LOG_POOL:
		e->pool = (struct rf_sched_pool){ .name = name(g), .placement = (enum rf_sched_placement)below(g, 3) };
		break;
	case RF_LOG_DECISION: make_decision(g, &e->decision); break;
	case RF_LOG_FAILED: e->verdict = (enum rf_core_verdict)below(g, 4), e->uid = name(g), e->why = text(g); break;
	case RF_LOG_CONFIG: make_config(g, &e->config); break;
	case RF_LOG_DECIDE: e->most = 1 + (int64_t)below(g, 1000); break;
	case RF_LOG_LEDGER: e->ledger = text(g); break;
	default: fail();
	}
}

/* --- the same? -------------------------------------------------------------------------------- */

#define S(m) assert_true(rf_str_eq(a->m, b->m))
#define I(m) assert_true(a->m == b->m)
#define EACH(m, n, same)                                                                                               \
	I(n);                                                                                                          \
	for (size_t i_ = 0; i_ < a->n; i_++)                                                                           \
		same(&a->m[i_], &b->m[i_])

static void same_str(const struct rf_str *a, const struct rf_str *b)
{
	assert_true(rf_str_eq(*a, *b));
}
static void same_pair(const struct rf_sched_pair *a, const struct rf_sched_pair *b)
{
	S(key), S(value);
}
static void same_amount(const struct rf_sched_amount *a, const struct rf_sched_amount *b)
{
	S(name), I(n);
}
static void same_taint(const struct rf_sched_taint *a, const struct rf_sched_taint *b)
{
	S(key), S(value), S(effect);
}
static void same_toleration(const struct rf_sched_toleration *a, const struct rf_sched_toleration *b)
{
	S(key), S(value), S(effect), I(any_value);
}
static void same_match(const struct rf_sched_match *a, const struct rf_sched_match *b)
{
	S(key), I(op);
	EACH(values, n_values, same_str);
}
static void same_term(const struct rf_sched_term *a, const struct rf_sched_term *b)
{
	I(weight);
	EACH(all, n, same_match);
}
static void same_near(const struct rf_sched_near *a, const struct rf_sched_near *b)
{
	I(apart), S(topology), I(any), I(all_namespaces);
	same_term(&a->labels, &b->labels);
	EACH(namespaces, n_namespaces, same_str);
}
static void same_spread(const struct rf_sched_spread *a, const struct rf_sched_spread *b)
{
	S(topology), I(max_skew), I(min_domains), I(any), I(any_node), I(heed_taints);
	same_term(&a->labels, &b->labels);
}
static void same_device(const struct rf_sched_device *a, const struct rf_sched_device *b)
{
	S(name), S(model), S(fault), I(memory), I(milli), I(island), I(numa), I(sliced), I(fixed);
}
static void same_container(const struct rf_sched_container *a, const struct rf_sched_container *b)
{
	assert_true(rf_str_eq(rf_str(a->ask.name), rf_str(b->ask.name))); /* NULL is empty */
	S(name), I(ask.cards), I(ask.share_bytes), I(ask.share_milli), I(ask.slices), S(ask.profile);
}
static void same_grant(const struct rf_sched_grant *a, const struct rf_sched_grant *b)
{
	S(container), S(device), I(bytes), I(milli), I(whole), S(profile), I(start);
}
static void same_quota(const struct rf_sched_quota *a, const struct rf_sched_quota *b)
{
	S(resource), I(guaranteed), I(limit), I(lending), I(borrowing);
}
static void same_node(const struct rf_sched_node *a, const struct rf_sched_node *b)
{
	S(name), I(cpu_milli), I(memory), I(pods), I(ready), I(cordoned);
	EACH(labels, n_labels, same_pair);
	EACH(taints, n_taints, same_taint);
	EACH(more, n_more, same_amount);
}
static void same_amounts(const struct rf_queue_amount *a, const struct rf_queue_amount *b)
{
	S(name), I(guaranteed), I(limit), I(lending), I(borrowing);
}
static void same_tenant(const struct rf_tenant *a, const struct rf_tenant *b)
{
	S(name), I(isolation), S(trust_domain), I(quota_gpus), I(quota_gpu_memory), I(quota_pods), I(queue_weight);
	S(queue_parent);
	EACH(namespaces, n_namespaces, same_str);
	EACH(queue_amounts, n_queue_amounts, same_amounts);
}
static void same_queue(const struct rf_sched_queue *a, const struct rf_sched_queue *b)
{
	S(name), S(parent), S(tenant), I(weight);
	EACH(quotas, n_quotas, same_quota);
}
static void same_group(const struct rf_sched_group *a, const struct rf_sched_group *b)
{
	S(ns), S(name), I(rv), I(min), I(created_ms), S(queue), S(topology), I(pinned), I(min_run_ms), I(run_limit_ms);
	I(started), I(ending_ms);
}
static void same_pod(const struct rf_sched_pod *a, const struct rf_sched_pod *b)
{
	S(uid), S(ns), S(name), I(rv), S(node), I(ended), I(well), I(deleting), I(priority), I(created_ms), I(cpu_milli);
	I(memory), S(os), S(only_node), I(daemon), S(unsupported), S(queue), S(group), S(models), I(one_island);
	I(pinned), I(patient), I(gated), I(min_run_ms), I(run_limit_ms), I(started_ms), I(grace_ms);
	EACH(containers, n_containers, same_container);
	EACH(selector, n_selector, same_pair);
	EACH(tolerations, n_tolerations, same_toleration);
	EACH(more, n_more, same_amount);
	EACH(labels, n_labels, same_pair);
	EACH(node_terms, n_node_terms, same_term);
	EACH(prefers, n_prefers, same_term);
	EACH(nears, n_nears, same_near);
	EACH(spreads, n_spreads, same_spread);
}
static void same_claim(const struct rf_sched_claim *a, const struct rf_sched_claim *b)
{
	S(ns), S(name), S(pod_uid), S(tenant), I(rv), I(deleting), S(node);
	EACH(grants, n_grants, same_grant);
}
static void same_budget(const struct rf_sched_budget *a, const struct rf_sched_budget *b)
{
	S(ns), S(name), I(any), I(allowed);
	same_term(&a->labels, &b->labels);
}
static void same_decision(const struct rf_core_decision *a, const struct rf_core_decision *b)
{
	I(verdict), I(cause), S(uid), S(ns), S(name), S(tenant), S(node), I(promised), I(commit_left), S(group), S(reason);
	EACH(grants, n_grants, same_grant);
}
static void same_config(const struct rf_core_config *a, const struct rf_core_config *b)
{
	I(policy), I(reclaim), I(half_life_ms), I(entry_ms), I(reserve_after_ms), I(reserve_cards), I(reserve_most);
	I(gang_window_ms), I(tell_ms), I(victims_most);
}

static void same_event(const struct rf_log_event *a, const struct rf_log_event *b)
{
	I(kind), I(del), I(t), S(ns), S(name), S(uid), S(tenant), S(why), I(verdict);
	if (a->del)
		return;
	switch (a->kind) {
	case RF_LOG_NODE: same_node(&a->node, &b->node); break;
	case RF_LOG_DEVICES: EACH(devices.at, devices.n, same_device); break;
	case RF_LOG_TENANT: same_tenant(&a->tenant_spec, &b->tenant_spec); break;
	case RF_LOG_QUEUE: same_queue(&a->queue, &b->queue); break;
	case RF_LOG_GROUP: same_group(&a->group, &b->group); break;
	case RF_LOG_POD: same_pod(&a->pod, &b->pod); break;
	case RF_LOG_CLAIM: same_claim(&a->claim, &b->claim); break;
	case RF_LOG_BUDGET: same_budget(&a->budget, &b->budget); break;
	case RF_LOG_POOL: S(pool.name); I(pool.placement); break;
	case RF_LOG_DECISION: same_decision(&a->decision, &b->decision); break;
	case RF_LOG_CONFIG: same_config(&a->config, &b->config); break;
	case RF_LOG_DECIDE: I(most); break;
	case RF_LOG_LEDGER: S(ledger); break;
	default: break;
	}
}

/* --- tests ------------------------------------------------------------------------------------ */

static void what_is_written_is_read_again(void **state)
{
	struct gen g = { .r = { 20260 } };
	rf_auto(buf) line = RF_BUF_INIT;
	rf_auto(buf) again = RF_BUF_INIT;
	int kinds[RF_LOG_KINDS][2] = { 0 };

	for (int i = 0; i < 20000; i++) {
		struct rf_log_event e, got;
		struct rf_err err = RF_ERR_INIT;

		make_event(&g, &e);
		rf_buf_clear(&line);
		rf_log_write(&line, &e);
		assert_ptr_equal(memchr(line.p, '\n', line.n), line.p + line.n - 1);
		if (rf_log_read(&g.a, rf_buf_str(&line), &got, &err) < 0)
			fail_msg("%s: %s", line.p, err.msg);
		same_event(&e, &got);
		rf_buf_clear(&again);
		rf_log_write(&again, &got);
		assert_true(rf_str_eq(rf_buf_str(&line), rf_buf_str(&again)));
		kinds[e.kind][e.del]++;
		rf_arena_reset(&g.a);
	}
	for (int i = 0; i < RF_LOG_KINDS; i++)
		assert_true(kinds[i][0] > 0);
	rf_arena_done(&g.a);
}

/* One that was added since would be lost without a word: it belongs into log_fields.c, and above. */
static void no_field_was_added_unnoticed(void **state)
{
	assert_int_equal(sizeof(struct rf_sched_node), 96);
	assert_int_equal(sizeof(struct rf_sched_device), 72);
	assert_int_equal(sizeof(struct rf_sched_pod), 400);
	assert_int_equal(sizeof(struct rf_sched_container), 72);
	assert_int_equal(sizeof(struct rf_sched_term), 24);
	assert_int_equal(sizeof(struct rf_sched_near), 80);
	assert_int_equal(sizeof(struct rf_sched_spread), 64);
	assert_int_equal(sizeof(struct rf_sched_group), 128);
	assert_int_equal(sizeof(struct rf_sched_queue), 72);
	assert_int_equal(sizeof(struct rf_sched_quota), 48);
	assert_int_equal(sizeof(struct rf_sched_budget), 72);
	assert_int_equal(sizeof(struct rf_sched_grant), 80);
	assert_int_equal(sizeof(struct rf_sched_claim), 112);
	assert_int_equal(sizeof(struct rf_queue_amount), 48);
	assert_int_equal(sizeof(struct rf_tenant), 120);
	assert_int_equal(sizeof(struct rf_core_decision), 152);
	assert_int_equal(sizeof(struct rf_core_config), 72);
}

static void is_written(const struct rf_log_event *e, const char *line)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_log_write(&b, e);
	assert_string_equal(b.p, line);
}

static void defaults_are_left_out(void **state)
{
	struct rf_sched_container c = { .name = RF_LIT("main"), .ask = { .cards = 2 } };
	struct rf_log_event e = { .kind = RF_LOG_POD, .t = 7 };

	e.pod = (struct rf_sched_pod){ .uid = RF_LIT("u"), .ns = RF_LIT("a"), .name = RF_LIT("p"), .containers = &c,
				       .n_containers = 1 };
	is_written(&e, "{\"t\":7,\"put\":\"pod\",\"uid\":\"u\",\"ns\":\"a\",\"name\":\"p\","
		       "\"containers\":[{\"name\":\"main\",\"cards\":2}]}\n");
	is_written(&(struct rf_log_event){ .kind = RF_LOG_CLAIM, .del = true, .t = 8, .ns = RF_LIT("a"),
					   .name = RF_LIT("c") },
		   "{\"t\":8,\"del\":\"claim\",\"ns\":\"a\",\"name\":\"c\"}\n");
	is_written(&(struct rf_log_event){ .kind = RF_LOG_DECISION, .t = 9,
					   .decision = { .uid = RF_LIT("u"), .node = RF_LIT("n") } },
		   "{\"t\":9,\"bind\":\"u\",\"node\":\"n\"}\n");
	is_written(&(struct rf_log_event){ .kind = RF_LOG_FAILED, .t = 9, .uid = RF_LIT("u"), .verdict = RF_CORE_BIND },
		   "{\"t\":9,\"failed\":\"u\",\"verdict\":\"bind\"}\n");
	is_written(&(struct rf_log_event){ .kind = RF_LOG_DECIDE, .t = 9, .most = 64 }, "{\"t\":9,\"decide\":64}\n");
	is_written(&(struct rf_log_event){ .kind = RF_LOG_DECIDE, .t = 9 }, "{\"t\":9,\"decide\":0}\n");
}

static void refused(const char *line, const char *part)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_log_event e;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_log_read(&a, rf_str(line), &e, &err), -RF_INVALID);
	if (strstr(err.msg, part) == NULL)
		fail_msg("%s: \"%s\" does not say \"%s\"", line, err.msg, part);
}

static void a_line_that_makes_no_sense_is_refused_with_where(void **state)
{
	refused("", "line 1");
	refused("{\"t\":1,\"put\":\"pod\"", "column");
	refused("[]", "an event is");
	refused("{\"t\":1}", "an event is");
	refused("{\"t\":-1,\"decide\":1}", "an event is");
	refused("{\"t\":9007199254740992,\"decide\":1}", "an event is");
	refused("{\"put\":\"pod\",\"t\":1}", "an event is");
	refused("{\"t\":1,\"put\":\"pot\"}", "no kind \"pot\"");
	refused("{\"t\":1,\"put\":3}", "no kind");
	refused("{\"t\":1,\"dance\":\"pod\"}", "no event \"dance\"");
	refused("{\"t\":1,\"del\":\"devices\",\"name\":\"n\"}", "not deleted");
	refused("{\"t\":1,\"put\":\"pod\",\"ns\":\"a\"}", "there is no uid");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"\"}", "uid: must not be empty");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"colour\":1}", "no field \"colour\"");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"uid\":\"v\"}", "uid");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"rv\":1.5}", "rv: must be a whole number");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"rv\":99999999999999999999}", "rv: must be a whole number");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"ended\":1}", "ended: must be true or false");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"containers\":{}}", "containers: must be a list");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"containers\":[{},{\"cards\":\"2\"}]}",
		"containers[1].cards: must be a whole number");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"node_terms\":[{\"all\":[{\"op\":\"Like\"}]}]}",
		"node_terms[0].all[0].op: \"Like\" is none of In");
	refused("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"nears\":[{\"namespaces\":[\"a\",3]}]}",
		"nears[0].namespaces[1]: must be a string");
	refused("{\"t\":1,\"put\":\"devices\",\"name\":\"n\",\"devices\":[{\"numa\":256}]}", "devices[0].numa");
	refused("{\"t\":1,\"bind\":\"\"}", "bind: must not be empty");
	refused("{\"t\":1,\"bind\":\"u\",\"commit_left\":-1}", "commit_left");
	refused("{\"t\":1,\"failed\":\"u\",\"why\":\"conflict\"}", "failed: there is no verdict; a ringfence from before");
	refused("{\"t\":1,\"failed\":\"u\",\"verdict\":\"\"}", "verdict: \"\" is none of bind");
	refused("{\"t\":1,\"config\":{\"policy\":\"best\"}}", "config.policy");
	refused("{\"t\":1,\"config\":{},\"x\":1}", "no field \"x\"");
	refused("{\"t\":1,\"decide\":-1}", "decide");
}

static void a_line_beyond_the_cap_is_refused(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(arena) small = RF_ARENA_CAPPED(4096);
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_log_event e;

	rf_buf_puts(&b, "{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"labels\":[");
	for (int i = 0; i < 1000; i++)
		rf_buf_puts(&b, i > 0 ? ",{}" : "{}");
	rf_buf_puts(&b, "]}");
	assert_int_equal(rf_log_read(&a, rf_buf_str(&b), &e, NULL), 0);
	assert_int_equal(e.pod.n_labels, 1000);
	assert_int_equal(rf_log_read(&small, rf_buf_str(&b), &e, NULL), -RF_TOO_LARGE);
	while (b.n <= RF_LOG_LINE_MAX)
		rf_buf_puts(&b, "                                                                ");
	assert_int_equal(rf_log_read(&a, rf_buf_str(&b), &e, NULL), -RF_TOO_LARGE);
}

static void an_unknown_name_for_cards_reads_as_our_own(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_log_event e;

	assert_int_equal(rf_log_read(&a, RF_LIT("{\"t\":1,\"put\":\"pod\",\"uid\":\"u\",\"containers\":[{\"cards\":1,"
						"\"asked_as\":\"x.org/gpu\"}]}"), &e, NULL), 0);
	assert_string_equal(e.pod.containers[0].ask.name, RF_RES_GPU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_again),
		cmocka_unit_test(no_field_was_added_unnoticed),
		cmocka_unit_test(defaults_are_left_out),
		cmocka_unit_test(a_line_that_makes_no_sense_is_refused_with_where),
		cmocka_unit_test(a_line_beyond_the_cap_is_refused),
		cmocka_unit_test(an_unknown_name_for_cards_reads_as_our_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
