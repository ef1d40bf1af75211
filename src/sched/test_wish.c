/* Where wishes let pods go: rule by rule, and against a plain reading of the rules over random clusters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "sched/fleet_private.h"
#include "sched/wish.h"

#define NODES 6

struct bench {
	struct rf_arena a;
	struct rf_fleet *f;
	struct rf_wishes *w;
};

static int set_up(void **state)
{
	struct bench *b = rf_new(struct bench);

	b->f = rf_fleet_new();
	b->w = rf_wishes_new(b->f);
	*state = b;
	return 0;
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	rf_wishes_free(b->w);
	rf_fleet_free(b->f);
	rf_arena_done(&b->a);
	free(b);
	return 0;
}

/* --- short ways to say things -------------------------------------------------------------------- */

/* "a=1,b=2" */
static struct rf_sched_pair *pairs(struct bench *b, const char *text, size_t *ret_n)
{
	struct rf_sched_pair *to = rf_arena_array(&b->a, struct rf_sched_pair, 16);
	struct rf_str rest = rf_str(text), one = RF_STR_EMPTY;

	for (*ret_n = 0; rest.n > 0; (*ret_n)++) {
		(void)rf_str_cut(&rest, ',', &one);
		(void)rf_str_cut(&one, '=', &to[*ret_n].key);
		to[*ret_n].value = one;
	}
	return to;
}

static struct rf_sched_node node_of(struct bench *b, const char *name, const char *labels)
{
	struct rf_sched_node n = { .name = rf_str(name), .ready = true };

	n.labels = pairs(b, labels, &n.n_labels);
	return n;
}

static uint32_t put(struct bench *b, const struct rf_sched_node *n)
{
	struct rf_fleet_node v = { .cpu_milli = 64000, .memory = 1LL << 40, .pods = 110 };
	uint32_t at = RF_FLEET_NONE;

	assert_int_equal(rf_fleet_put_node(b->f, RF_FLEET_NONE, &v, &at, NULL), 0);
	rf_wishes_put_node(b->w, at, n);
	return at;
}

static uint32_t node(struct bench *b, const char *name, const char *labels)
{
	struct rf_sched_node n = node_of(b, name, labels);

	return put(b, &n);
}

static struct rf_sched_pod pod(struct bench *b, const char *ns, const char *labels)
{
	struct rf_sched_pod p = { .ns = rf_str(ns) };

	p.labels = pairs(b, labels, &p.n_labels);
	return p;
}

/* "key op value value": one demand. */
static struct rf_sched_match match(struct bench *b, const char *text)
{
	static const char *const ops[] = { "in", "notin", "exists", "absent", "gt", "lt" };
	struct rf_sched_match m = { .values = rf_arena_array(&b->a, struct rf_str, 8) };
	struct rf_str rest = rf_str(text), op = RF_STR_EMPTY;

	(void)rf_str_cut(&rest, ' ', &m.key);
	(void)rf_str_cut(&rest, ' ', &op);
	for (size_t i = 0; i < RF_COUNT(ops); i++)
		if (rf_str_is(op, ops[i]))
			m.op = (enum rf_sched_op)i;
	while (rest.n > 0)
		(void)rf_str_cut(&rest, ' ', &m.values[m.n_values++]);
	return m;
}

/* "demand; demand" */
static struct rf_sched_term term(struct bench *b, const char *text, int64_t weight)
{
	struct rf_sched_term t = { .all = rf_arena_array(&b->a, struct rf_sched_match, 8), .weight = weight };
	struct rf_str rest = rf_str(text), one = RF_STR_EMPTY;

	while (rest.n > 0) {
		(void)rf_str_cut(&rest, ';', &one);
		t.all[t.n++] = match(b, rf_arena_cstr(&b->a, rf_str_trim(one)));
	}
	return t;
}

static void add_term(struct bench *b, struct rf_sched_pod *p, const char *text)
{
	p->node_terms = p->node_terms != NULL ? p->node_terms : rf_arena_array(&b->a, struct rf_sched_term, 8);
	p->node_terms[p->n_node_terms++] = term(b, text, 0);
}

static struct rf_sched_near *add_near(struct bench *b, struct rf_sched_pod *p, bool apart, const char *topology,
				      const char *labels)
{
	p->nears = p->nears != NULL ? p->nears : rf_arena_array(&b->a, struct rf_sched_near, 8);
	p->nears[p->n_nears] = (struct rf_sched_near){ .apart = apart,
						       .topology = rf_str(topology),
						       .labels = term(b, labels, 0) };
	return &p->nears[p->n_nears++];
}

static struct rf_sched_spread *add_spread(struct bench *b, struct rf_sched_pod *p, const char *topology,
					  int64_t skew, const char *labels)
{
	p->spreads = p->spreads != NULL ? p->spreads : rf_arena_array(&b->a, struct rf_sched_spread, 8);
	p->spreads[p->n_spreads] = (struct rf_sched_spread){ .topology = rf_str(topology),
							     .max_skew = skew,
							     .labels = term(b, labels, 0) };
	return &p->spreads[p->n_spreads++];
}

static struct rf_wish *wish(struct bench *b, const struct rf_sched_pod *p)
{
	return rf_wish_of(b->w, p, RF_LIT("ta"));
}

/* The nodes of the class, a bit each. */
static uint32_t where(struct bench *b, struct rf_wish *x, bool preferred)
{
	uint32_t class = rf_wish_class(b->w, x, preferred), bits = 0, why[RF_WISH_UNFITS];

	for (uint32_t i = 0; i < b->f->nodes.n; i++)
		bits |= (uint32_t)fl_in_class(b->f, class, i) << i;
	if (!preferred) { /* the two never disagree */
		rf_wish_why(b->w, x, why);
		assert_int_equal(why[RF_WISH_FITS], __builtin_popcount(bits));
	}
	return bits;
}

static uint32_t once(struct bench *b, const struct rf_sched_pod *p)
{
	struct rf_wish *x = wish(b, p);
	uint32_t bits = where(b, x, false);

	rf_wish_drop(b->w, x);
	return bits;
}

static void why_is(struct bench *b, const struct rf_sched_pod *p, enum rf_wish_unfit reason, uint32_t n)
{
	uint32_t why[RF_WISH_UNFITS];
	struct rf_wish *x = wish(b, p);

	rf_wish_why(b->w, x, why);
	assert_int_equal(why[reason], n);
	rf_wish_drop(b->w, x);
}

static struct rf_wish *run(struct bench *b, const struct rf_sched_pod *p, uint32_t at)
{
	struct rf_wish *x = wish(b, p);

	rf_wish_on(b->w, x, at);
	rf_wish_drop(b->w, x); /* the node keeps it */
	return x;
}

/* --- nodes --------------------------------------------------------------------------------------- */

static void labels_names_and_systems_decide(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", ""), q = p, r = p, s = p;

	node(b, "n0", "zone=a,gpu=h100");
	node(b, "n1", "zone=b,gpu=h100");
	node(b, "n2", "zone=b,kubernetes.io/os=windows");
	assert_int_equal(once(b, &p), 3);
	p.selector = pairs(b, "gpu=h100,zone=b", &p.n_selector);
	assert_int_equal(once(b, &p), 2);
	why_is(b, &p, RF_WISH_SELECTOR, 1);
	why_is(b, &p, RF_WISH_OS, 1);
	q.os = RF_LIT("windows");
	assert_int_equal(once(b, &q), 4);
	r.only_node = RF_LIT("n0");
	assert_int_equal(once(b, &r), 1);
	why_is(b, &r, RF_WISH_NODE, 2);
	s.selector = pairs(b, "zone=c", &s.n_selector);
	assert_int_equal(once(b, &s), 0);
}

static void terms_are_ored_and_demands_anded(void **state)
{
	static const struct {
		const char *a, *b;
		uint32_t bits;
	} cases[] = {
		{ "zone in a c", NULL, 1 },
		{ "zone notin a", NULL, 14 }, /* also where there is no such label */
		{ "zone exists", NULL, 7 },
		{ "zone absent", NULL, 8 },
		{ "mem gt 80", NULL, 2 },
		{ "mem lt 81", NULL, 1 },
		{ "mem lt x", NULL, 0 },
		{ "mem gt 1 2", NULL, 0 },
		{ "zone in b; mem exists", NULL, 6 },
		{ "zone in a", "metadata.name in n3", 9 },
		{ "metadata.name notin n0 n1", NULL, 12 },
		{ "", NULL, 0 }, /* says nothing, holds nowhere */
		{ "", "zone in b", 6 },
	};
	struct bench *b = *state;

	node(b, "n0", "zone=a,mem=80");
	node(b, "n1", "zone=b,mem=141");
	node(b, "n2", "zone=b,mem=");
	node(b, "n3", "mem=lots");
	for (size_t i = 0; i < RF_COUNT(cases); i++) {
		struct rf_sched_pod p = pod(b, "ns", "");

		add_term(b, &p, cases[i].a);
		if (cases[i].b != NULL)
			add_term(b, &p, cases[i].b);
		if (once(b, &p) != cases[i].bits)
			fail_msg("%s", cases[i].a);
		why_is(b, &p, RF_WISH_AFFINITY, 4 - (uint32_t)__builtin_popcount(cases[i].bits));
	}
}

static void taints_keep_away_who_does_not_tolerate_them(void **state)
{
	struct bench *b = *state;
	struct rf_sched_taint hard[] = { { RF_LIT("k"), RF_LIT("v"), RF_LIT("NoSchedule") } },
			      soft[] = { { RF_LIT("k"), RF_LIT("v"), RF_LIT("PreferNoSchedule") } },
			      out[] = { { RF_LIT("k"), RF_LIT("w"), RF_LIT("NoExecute") } };
	struct rf_sched_node n[] = { node_of(b, "n0", ""), node_of(b, "n1", ""), node_of(b, "n2", "") };
	struct rf_sched_toleration t[] = {
		{ RF_LIT("k"), RF_LIT("v"), RF_STR_EMPTY, false },
		{ RF_LIT("k"), RF_STR_EMPTY, RF_LIT("NoExecute"), true },
		{ RF_STR_EMPTY, RF_STR_EMPTY, RF_STR_EMPTY, true },
		{ RF_STR_EMPTY, RF_STR_EMPTY, RF_STR_EMPTY, false }, /* no key, no Exists: nothing */
	};
	static const uint32_t bits[] = { 3, 6, 7, 2 };
	struct rf_sched_pod p = pod(b, "ns", "");

	n[0].taints = hard;
	n[1].taints = soft;
	n[2].taints = out;
	for (int i = 0; i < 3; i++) {
		n[i].n_taints = 1;
		put(b, &n[i]);
	}
	assert_int_equal(once(b, &p), 2);
	why_is(b, &p, RF_WISH_TAINT, 2);
	for (size_t i = 0; i < RF_COUNT(t); i++) {
		p.tolerations = &t[i];
		p.n_tolerations = 1;
		assert_int_equal(once(b, &p), bits[i]);
	}
}

static void a_node_that_changes_changes_the_classes(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "");
	struct rf_sched_node n = node_of(b, "n1", "zone=b");
	struct rf_wish *x;
	uint64_t version;
	uint32_t class, at;

	p.selector = pairs(b, "zone=a", &p.n_selector);
	x = wish(b, &p);
	assert_false(rf_wish_moves(x));
	assert_int_equal(where(b, x, false), 0);
	node(b, "n0", "zone=a");
	at = node(b, "n1", "zone=a");
	class = rf_wish_class(b->w, x, false);
	assert_int_equal(where(b, x, false), 3);
	version = rf_wish_version(b->w, x);
	rf_wishes_put_node(b->w, at, &n);
	assert_false(fl_in_class(b->f, class, at)); /* without being asked again */
	n = node_of(b, "n1", "zone=a");
	rf_wishes_put_node(b->w, at, &n);
	assert_true(fl_in_class(b->f, class, at));
	assert_true(rf_wish_version(b->w, x) > version);
	version = rf_wish_version(b->w, x);
	rf_wishes_put_node(b->w, at, &n); /* nothing new */
	assert_int_equal(rf_wish_version(b->w, x), version);
	rf_wishes_del_node(b->w, at);
	assert_int_equal(where(b, x, false), 1);
	for (int i = 0; i < 400; i++) /* past what the sets have room for at first */
		node(b, "more", i % 2 == 0 ? "zone=a" : "zone=b");
	assert_true(fl_in_class(b->f, class, 100) != fl_in_class(b->f, class, 101));
	assert_int_equal(rf_wish_class(b->w, x, false), class);
	rf_wish_drop(b->w, x);
}

static void the_preferred_class_is_where_it_likes_best(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", ""), plain = p;
	struct rf_wish *x, *y;
	uint32_t best;

	p.prefers = rf_arena_array(&b->a, struct rf_sched_term, 3);
	p.prefers[0] = term(b, "zone in a", 60);
	p.prefers[1] = term(b, "disk in ssd", 50);
	p.prefers[2] = term(b, "zone in b", 70);
	p.n_prefers = 3;
	node(b, "n0", "zone=a");
	node(b, "n1", "zone=b");
	node(b, "n2", "");
	x = wish(b, &p);
	y = wish(b, &plain);
	assert_true(rf_wish_prefers(x));
	assert_false(rf_wish_prefers(y));
	assert_int_equal(where(b, x, true), 2);
	assert_int_equal(where(b, x, false), 7);
	best = node(b, "n3", "zone=a,disk=ssd");
	assert_int_equal(where(b, x, true), 8);
	rf_wishes_del_node(b->w, best);
	assert_int_equal(where(b, x, true), 2);
	assert_int_equal(where(b, y, true), 7); /* likes all alike */
	rf_wish_drop(b->w, x);
	rf_wish_drop(b->w, y);
}

static void other_resources_are_counted_by_name(void **state)
{
	struct bench *b = *state;
	struct rf_sched_amount have[] = { { RF_LIT("rdma/hca"), 2 } }, one[] = { { RF_LIT("rdma/hca"), 1 } },
			       two[] = { { RF_LIT("rdma/hca"), 2 } }, disk[] = { { RF_LIT("ephemeral-storage"), 9 } },
			       nothing[] = { { RF_LIT("rdma/hca"), 0 } };
	struct rf_sched_node n = node_of(b, "n0", "");
	struct rf_sched_pod p = pod(b, "ns", ""), q = p, r = p, s = p;
	struct rf_wish *x, *y;
	struct rf_str name = RF_STR_EMPTY;
	int64_t need = 0, left = 0;
	uint64_t version;

	n.more = have;
	n.n_more = 1;
	put(b, &n);
	node(b, "n1", "");
	p.more = one;
	q.more = two;
	r.more = disk;
	s.more = nothing;
	p.n_more = q.n_more = r.n_more = s.n_more = 1;
	x = wish(b, &p);
	y = wish(b, &q);
	assert_true(rf_wish_moves(x));
	assert_int_equal(where(b, x, false), 1);
	why_is(b, &p, RF_WISH_RESOURCE, 1);
	assert_true(rf_wish_short(b->w, x, &name, &need, &left));
	assert_true(rf_str_is(name, "rdma/hca"));
	assert_int_equal(need, 1);
	assert_int_equal(left, 2);
	assert_int_equal(once(b, &r), 3); /* nodes do not speak of it: nobody is short */
	assert_int_equal(once(b, &s), 3); /* asks for none */
	rf_wish_on(b->w, x, 0);
	assert_int_equal(where(b, x, false), 1);
	assert_int_equal(where(b, y, false), 0);
	rf_wish_on(b->w, x, 0);
	assert_int_equal(where(b, x, false), 0);
	assert_true(rf_wish_short(b->w, y, &name, &need, &left));
	assert_int_equal(need, 2);
	assert_int_equal(left, 0);
	version = rf_wish_version(b->w, x);
	rf_wish_off(b->w, x, 0);
	assert_true(rf_wish_version(b->w, x) > version);
	assert_int_equal(where(b, x, false), 1);
	have[0].n = 3; /* a card more */
	rf_wishes_put_node(b->w, 0, &n);
	assert_int_equal(where(b, y, false), 1);
	rf_wish_off(b->w, x, 0);
	rf_wish_drop(b->w, x);
	rf_wish_drop(b->w, y);
}

/* --- sharing ------------------------------------------------------------------------------------- */

static void equal_wishes_are_one_and_labels_count_only_when_spoken_of(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "job=1"), q = pod(b, "ns", "job=2"), guard = pod(b, "ns", "app=g");
	struct rf_wish *x = wish(b, &p), *y = wish(b, &q), *z = wish(b, &p), *g;
	uint64_t turn = rf_wishes_turn(b->w);

	assert_ptr_equal(x, z);
	assert_ptr_not_equal(x, y);
	assert_int_equal(rf_wish_id(x), rf_wish_id(y));
	assert_false(rf_wish_moves(y));
	add_near(b, &guard, true, "host", "job in 2");
	g = wish(b, &guard);
	assert_true(rf_wishes_turn(b->w) > turn);
	assert_int_not_equal(rf_wish_id(x), rf_wish_id(y));
	assert_true(rf_wish_moves(y));
	assert_false(rf_wish_moves(x));
	rf_wish_drop(b->w, g);
	assert_int_equal(rf_wish_id(x), rf_wish_id(y));
	assert_false(rf_wish_moves(y));
	q.selector = pairs(b, "a=b", &q.n_selector);
	g = wish(b, &q);
	assert_int_not_equal(rf_wish_id(g), rf_wish_id(y));
	rf_wish_drop(b->w, g);
	rf_wish_drop(b->w, x);
	rf_wish_drop(b->w, y);
	rf_wish_drop(b->w, z);
}

static void domains_are_numbered_by_key(void **state)
{
	struct bench *b = *state;
	const uint32_t *of;
	size_t n = 0;
	uint32_t gone;

	node(b, "n0", "rack=r1");
	gone = node(b, "n1", "rack=r2");
	node(b, "n2", "rack=r1");
	node(b, "n3", "");
	of = rf_wishes_domains(b->w, RF_LIT("rack"), &n);
	assert_int_equal(n, 4);
	assert_int_equal(of[0], of[2]);
	assert_int_not_equal(of[0], of[1]);
	assert_int_equal(of[3], RF_FLEET_NONE);
	rf_wishes_del_node(b->w, gone);
	node(b, "n4", "rack=r3");
	for (int i = 0; i < 100; i++) /* a tenant that asks for many keys */
		(void)rf_wishes_domains(b->w, rf_arena_printf(&b->a, "key-%d", i), &n);
	of = rf_wishes_domains(b->w, RF_LIT("rack"), &n);
	assert_int_equal(n, 5);
	assert_int_equal(of[gone], RF_FLEET_NONE);
	assert_int_not_equal(of[4], of[0]);
	assert_int_not_equal(of[4], RF_FLEET_NONE);
}

/* --- other pods ---------------------------------------------------------------------------------- */

static void four_nodes(struct bench *b)
{
	node(b, "n0", "host=n0,zone=a");
	node(b, "n1", "host=n1,zone=a");
	node(b, "n2", "host=n2,zone=b");
	node(b, "n3", "host=n3");
}

static void affinity_goes_where_they_are(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod db = pod(b, "ns", "app=db"), web = pod(b, "ns", "app=web"), far = web;
	struct rf_wish *x, *runs;
	uint64_t version;

	four_nodes(b);
	add_near(b, &web, false, "zone", "app in db");
	x = wish(b, &web);
	assert_true(rf_wish_moves(x));
	assert_int_equal(where(b, x, false), 0);
	why_is(b, &web, RF_WISH_NEAR, 4);
	version = rf_wish_version(b->w, x);
	runs = run(b, &db, 1);
	assert_true(rf_wish_version(b->w, x) > version);
	assert_int_equal(where(b, x, false), 3); /* the whole zone */
	add_near(b, &far, false, "zone", "app in db")->namespaces = &(struct rf_str){ "other", 5 };
	far.nears[0].n_namespaces = 1;
	assert_int_equal(once(b, &far), 0); /* not in that namespace */
	far.nears[0].n_namespaces = 0;
	far.nears[0].all_namespaces = true;
	assert_int_equal(once(b, &far), 3);
	rf_wish_off(b->w, runs, 1);
	assert_int_equal(where(b, x, false), 0);
	runs = run(b, &db, 3); /* has no zone, so that nobody is near it */
	assert_int_equal(where(b, x, false), 0);
	rf_wish_off(b->w, runs, 3);
	rf_wish_drop(b->w, x);
}

static void the_first_of_a_series_may_start_anywhere(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "app=ring,tier=x");
	struct rf_wish *x;

	four_nodes(b);
	add_near(b, &p, false, "zone", "app in ring");
	x = wish(b, &p);
	assert_int_equal(where(b, x, false), 7); /* where there is a zone */
	rf_wish_on(b->w, x, 2);
	assert_int_equal(where(b, x, false), 4);
	rf_wish_off(b->w, x, 2);
	assert_int_equal(where(b, x, false), 7);
	rf_wish_drop(b->w, x);
}

/* As Kubernetes has it: the pods to be near are those that all terms speak of. */
static void several_terms_speak_of_the_same_pods(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod one = pod(b, "ns", "app=db"), both = pod(b, "ns", "app=db,disk=ssd"),
			    p = pod(b, "ns", "app=web");
	struct rf_wish *x, *y, *z;

	four_nodes(b);
	add_near(b, &p, false, "zone", "app in db");
	add_near(b, &p, false, "host", "disk exists");
	x = wish(b, &p);
	y = run(b, &one, 0);
	assert_int_equal(where(b, x, false), 0);
	z = run(b, &both, 1);
	assert_int_equal(where(b, x, false), 2);
	rf_wish_off(b->w, y, 0);
	rf_wish_off(b->w, z, 1);
	rf_wish_drop(b->w, x);
}

static void anti_affinity_holds_on_both_sides_of_one_tenant(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod loner = pod(b, "ns", "app=loner"), web = pod(b, "ns", "app=web"),
			    other = pod(b, "ns2", "app=web");
	struct rf_wish *x, *y, *z;
	uint64_t version;

	four_nodes(b);
	add_near(b, &loner, true, "zone", "app in web");
	x = wish(b, &loner);
	y = wish(b, &web);
	assert_int_equal(where(b, x, false), 15);
	rf_wish_on(b->w, y, 2);
	assert_int_equal(where(b, x, false), 11); /* n3 has no zone: nobody is with it */
	why_is(b, &loner, RF_WISH_APART, 1);
	rf_wish_on(b->w, x, 0);
	assert_int_equal(where(b, y, false), 12); /* those there keep it away */
	why_is(b, &web, RF_WISH_APART, 2);
	assert_int_equal(once(b, &other), 15); /* another namespace */
	z = rf_wish_of(b->w, &web, RF_LIT("tb"));
	assert_int_equal(where(b, z, false), 15); /* another tenant, whatever its namespace is called */
	version = rf_wish_version(b->w, y);
	rf_wish_off(b->w, x, 0);
	assert_true(rf_wish_version(b->w, y) > version);
	assert_int_equal(where(b, y, false), 15);
	version = rf_wish_version(b->w, y);
	rf_wish_drop(b->w, x);
	assert_true(rf_wish_version(b->w, y) >= version); /* never back */
	assert_false(rf_wish_moves(y));
	rf_wish_off(b->w, y, 2);
	rf_wish_drop(b->w, y);
	rf_wish_drop(b->w, z);
}

static void one_of_each_per_node(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "app=x");
	struct rf_wish *x;

	four_nodes(b);
	add_near(b, &p, true, "host", "app in x");
	x = wish(b, &p);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(where(b, x, false), 15u & ~((1u << i) - 1));
		rf_wish_on(b->w, x, i);
	}
	assert_int_equal(where(b, x, false), 0);
	for (uint32_t i = 0; i < 4; i++)
		rf_wish_off(b->w, x, i);
	rf_wish_drop(b->w, x);
}

static void an_empty_selector_is_every_pod_and_none_is_no_pod(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "app=x"), q = p, any = pod(b, "ns", "");
	struct rf_wish *y;

	four_nodes(b);
	add_near(b, &p, true, "host", "");
	add_near(b, &q, true, "host", "")->any = true;
	y = run(b, &any, 0);
	assert_int_equal(once(b, &p), 15);
	assert_int_equal(once(b, &q), 14);
	rf_wish_off(b->w, y, 0);
}

static void spread_keeps_the_skew(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "app=x"), only_a = p, min = p, wide = p, outsider = pod(b, "ns", "app=y");
	struct rf_wish *x;

	four_nodes(b);
	add_spread(b, &p, "zone", 1, "app in x");
	x = wish(b, &p);
	assert_int_equal(where(b, x, false), 7); /* only where there is a zone */
	why_is(b, &p, RF_WISH_SPREAD, 1);
	rf_wish_on(b->w, x, 0);
	assert_int_equal(where(b, x, false), 4);
	rf_wish_on(b->w, x, 2);
	assert_int_equal(where(b, x, false), 7);
	rf_wish_on(b->w, x, 1); /* 2 and 1 */
	assert_int_equal(where(b, x, false), 4);
	/* A pod that may go to zone a only is spread over zone a only. */
	only_a.selector = pairs(b, "zone=a", &only_a.n_selector);
	add_spread(b, &only_a, "zone", 1, "app in x");
	assert_int_equal(once(b, &only_a), 3);
	only_a.spreads[0].any_node = true;
	assert_int_equal(once(b, &only_a), 0);
	/* Fewer domains than wanted: the emptiest counts as 0. */
	add_spread(b, &min, "zone", 2, "app in x")->min_domains = 3;
	assert_int_equal(once(b, &min), 4);
	min.spreads[0].min_domains = 2;
	assert_int_equal(once(b, &min), 7);
	add_spread(b, &wide, "zone", 2, "app in x");
	assert_int_equal(once(b, &wide), 7);
	/* One that is not counted itself. */
	add_spread(b, &outsider, "zone", 1, "app in x");
	assert_int_equal(once(b, &outsider), 7);
	for (uint32_t i = 0; i < 3; i++)
		rf_wish_off(b->w, x, i);
	rf_wish_drop(b->w, x);
}

static void spread_heeds_taints_if_told_to(void **state)
{
	struct bench *b = *state;
	struct rf_sched_taint taint[] = { { RF_LIT("k"), RF_STR_EMPTY, RF_LIT("NoSchedule") } };
	struct rf_sched_node n = node_of(b, "n1", "zone=b");
	struct rf_sched_pod p = pod(b, "ns", "app=x");
	struct rf_wish *x;

	node(b, "n0", "zone=a");
	n.taints = taint;
	n.n_taints = 1;
	put(b, &n);
	add_spread(b, &p, "zone", 1, "app in x");
	x = run(b, &p, 0);
	assert_int_equal(once(b, &p), 0); /* zone b is empty and closed */
	p.spreads[0].heed_taints = true;
	assert_int_equal(once(b, &p), 1);
	rf_wish_off(b->w, x, 0);
}

static void a_node_that_moves_takes_its_pods_along(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod db = pod(b, "ns", "app=db"), web = pod(b, "ns", "app=web");
	struct rf_sched_node moved = node_of(b, "n1", "host=n1,zone=b");
	struct rf_wish *x, *runs;

	four_nodes(b);
	add_near(b, &web, false, "zone", "app in db");
	x = wish(b, &web);
	runs = run(b, &db, 1);
	assert_int_equal(where(b, x, false), 3);
	rf_wishes_put_node(b->w, 1, &moved);
	assert_int_equal(where(b, x, false), 6);
	rf_wishes_del_node(b->w, 1);
	assert_int_equal(where(b, x, false), 0);
	rf_wishes_put_node(b->w, 1, &moved); /* back, and so are its pods */
	assert_int_equal(where(b, x, false), 6);
	rf_wishes_del_node(b->w, 1);
	rf_wish_off(b->w, runs, 1); /* ends after its node is gone */
	rf_wish_drop(b->w, x);
}

/* More wishes that move than have room, and inside a mark, where a gang is tried. */
static void classes_that_move_come_and_go(void **state)
{
	struct bench *b = *state;
	struct rf_wish *all[600];
	size_t mark;

	four_nodes(b);
	mark = rf_fleet_mark(b->f);
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		struct rf_sched_pod p = pod(b, "ns", rf_arena_printf(&b->a, "app=a%zu", i).p);

		add_near(b, &p, true, "host", rf_arena_printf(&b->a, "app in a%zu", i).p);
		all[i] = wish(b, &p);
		rf_wish_on(b->w, all[i], i % 4);
		assert_int_equal(where(b, all[i], false), 15u & ~(1u << i % 4));
	}
	rf_fleet_rollback(b->f, mark);
	for (size_t i = 0; i < RF_COUNT(all); i++) {
		assert_int_equal(where(b, all[i], false), 15u & ~(1u << i % 4));
		rf_wish_off(b->w, all[i], i % 4);
		rf_wish_drop(b->w, all[i]);
	}
	assert_true(b->f->classes.n < 1000);
}

static void find_follows_the_class(void **state)
{
	struct bench *b = *state;
	struct rf_sched_pod p = pod(b, "ns", "app=x");
	struct rf_fleet_ask ask = { .owner = { .tenant = 1, .trust = 1, .level = RF_ISOLATION_GPU } };
	struct rf_fleet_place at;
	struct rf_wish *x;

	four_nodes(b);
	add_near(b, &p, true, "host", "app in x");
	x = wish(b, &p);
	for (uint32_t i = 0; i < 4; i++) {
		uint64_t hold = 0;

		ask.class = rf_wish_class(b->w, x, false);
		assert_true(rf_fleet_find(b->f, &ask, &at));
		for (uint32_t k = 0; k < i; k++) /* each on a node of its own */
			assert_false(rf_fleet_holds(b->f, at.node, NULL, 0) > 0);
		assert_int_equal(rf_fleet_take(b->f, &ask, &at, false, &hold, NULL), 0);
		rf_wish_on(b->w, x, at.node);
	}
	ask.class = rf_wish_class(b->w, x, false);
	assert_false(rf_fleet_find(b->f, &ask, &at));
	rf_wish_off(b->w, x, 2);
	ask.class = rf_wish_class(b->w, x, false);
	assert_true(rf_fleet_find(b->f, &ask, &at));
	assert_int_equal(at.node, 2);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 2)
			rf_wish_off(b->w, x, i);
	rf_wish_drop(b->w, x);
}

/* --- against a plain reading ---------------------------------------------------------------------- */

#define PODS 40
#define STEPS 300

struct actor {
	struct rf_sched_pod p;
	int tenant;
	struct rf_wish *x;
	int at; /* node, or -1 */
	int born;
};

struct world {
	struct bench *b;
	uint64_t seed;
	bool there[NODES];
	struct rf_sched_node nodes[NODES];
	struct actor pods[PODS];
};

static uint64_t dice(struct world *w, uint64_t sides)
{
	w->seed = w->seed * 6364136223846793005u + 1442695040888963407u;
	return (w->seed >> 33) % sides;
}

static const char *pick(struct world *w, const char *const *of, size_t n)
{
	return of[dice(w, n)];
}
#define PICK(w, ...) \
	pick(w, (const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static struct rf_sched_node random_node(struct world *w, int i)
{
	struct rf_arena *a = &w->b->a;
	struct rf_sched_node n = node_of(w->b, rf_arena_printf(a, "n%d", i).p,
					 PICK(w, "", "zone=a", "zone=b", "zone=a,rack=1", "zone=b,rack=1", "rack=2"));

	n.taints = rf_arena_array(a, struct rf_sched_taint, 1);
	n.n_taints = dice(w, 4) == 0;
	n.taints[0] = (struct rf_sched_taint){ RF_LIT("t"), RF_LIT("1"), RF_LIT("NoSchedule") };
	n.more = rf_arena_array(a, struct rf_sched_amount, 1);
	n.n_more = 1;
	n.more[0] = (struct rf_sched_amount){ RF_LIT("x.io/r"), (int64_t)dice(w, 6) };
	return n;
}

static void random_pod(struct world *w, struct actor *g)
{
	struct bench *b = w->b;

	g->p = pod(b, PICK(w, "ns1", "ns2"), PICK(w, "app=x", "app=y", "app=x,tier=1", "tier=2"));
	g->tenant = (int)dice(w, 2);
	g->at = -1;
	g->born++;
	if (dice(w, 3) == 0)
		add_term(b, &g->p, PICK(w, "zone exists", "zone in a", "rack notin 2"));
	if (dice(w, 3) == 0) {
		g->p.more = rf_arena_array(&b->a, struct rf_sched_amount, 1);
		g->p.more[0] = (struct rf_sched_amount){ RF_LIT("x.io/r"), (int64_t)dice(w, 3) };
		g->p.n_more = 1;
	}
	if (dice(w, 2) == 0) {
		g->p.tolerations = rf_arena_array(&b->a, struct rf_sched_toleration, 1);
		g->p.tolerations[0].any_value = true;
		g->p.n_tolerations = 1;
	}
	for (uint64_t i = dice(w, 3); i > 0; i--) {
		struct rf_sched_near *n = add_near(b, &g->p, dice(w, 2) == 0, PICK(w, "zone", "rack"),
						   PICK(w, "app in x", "app exists", "tier absent", "tier notin 1", ""));

		n->any = dice(w, 6) == 0 && n->labels.n == 0;
		n->all_namespaces = dice(w, 3) == 0;
	}
	for (uint64_t i = dice(w, 3); i > 0; i--) {
		struct rf_sched_spread *s = add_spread(b, &g->p, PICK(w, "zone", "rack"), 1 + (int64_t)dice(w, 2),
						       PICK(w, "app in x", "app exists", "tier absent"));

		s->min_domains = (int64_t)dice(w, 4);
		s->any_node = dice(w, 2) == 0;
		s->heed_taints = dice(w, 2) == 0;
	}
	g->x = rf_wish_of(b->w, &g->p, g->tenant == 0 ? RF_LIT("ta") : RF_LIT("tb"));
}

static const struct rf_str *value_of(const struct rf_sched_pair *all, size_t n, struct rf_str key)
{
	for (size_t i = 0; i < n; i++)
		if (rf_str_eq(all[i].key, key))
			return &all[i].value;
	return NULL;
}

static bool plain_match(const struct rf_sched_match *m, const struct rf_str *v)
{
	bool in = false;

	for (size_t i = 0; v != NULL && i < m->n_values; i++)
		in |= rf_str_eq(*v, m->values[i]);
	return m->op == RF_SCHED_IN	? in
	       : m->op == RF_SCHED_NOT_IN ? !in
	       : m->op == RF_SCHED_EXISTS ? v != NULL
					  : v == NULL;
}

static bool plain_sees(const struct rf_sched_term *t, bool any, bool all_ns, const struct rf_sched_pod *by,
		       const struct rf_sched_pod *p)
{
	if ((t->n == 0 && !any) || (!all_ns && !rf_str_eq(by->ns, p->ns)))
		return false;
	for (size_t i = 0; i < t->n; i++)
		if (!plain_match(&t->all[i], value_of(p->labels, p->n_labels, t->all[i].key)))
			return false;
	return true;
}

static const struct rf_str *plain_domain(const struct world *w, int node, struct rf_str key)
{
	if (node < 0 || !w->there[node])
		return NULL;
	return value_of(w->nodes[node].labels, w->nodes[node].n_labels, key);
}

static bool same_domain(const struct world *w, int a, int b, struct rf_str key)
{
	const struct rf_str *x = plain_domain(w, a, key), *y = plain_domain(w, b, key);

	return x != NULL && y != NULL && rf_str_eq(*x, *y);
}

static bool plain_affine(const struct world *w, const struct rf_sched_pod *p, int node)
{
	const struct rf_sched_match *m = p->n_node_terms > 0 ? &p->node_terms[0].all[0] : NULL;

	return m == NULL || plain_match(m, value_of(w->nodes[node].labels, w->nodes[node].n_labels, m->key));
}

static bool plain_tolerates(const struct world *w, const struct rf_sched_pod *p, int node)
{
	return w->nodes[node].n_taints == 0 || p->n_tolerations > 0;
}

static bool plain_near_all(const struct actor *g, const struct actor *o)
{
	for (size_t i = 0; i < g->p.n_nears; i++) {
		const struct rf_sched_near *n = &g->p.nears[i];

		if (!n->apart && !plain_sees(&n->labels, n->any, n->all_namespaces, &g->p, &o->p))
			return false;
	}
	return g->tenant == o->tenant;
}

static bool plain_first(const struct world *w, const struct actor *g)
{
	for (size_t k = 0; k < PODS; k++)
		for (size_t i = 0; i < g->p.n_nears; i++)
			if (!g->p.nears[i].apart && plain_near_all(g, &w->pods[k]) &&
			    plain_domain(w, w->pods[k].at, g->p.nears[i].topology) != NULL)
				return false;
	return plain_near_all(g, g);
}

static bool plain_near(const struct world *w, const struct actor *g, int node)
{
	bool first = plain_first(w, g);

	for (size_t i = 0; i < g->p.n_nears; i++) {
		const struct rf_sched_near *n = &g->p.nears[i];
		bool found = first;

		if (n->apart)
			continue;
		for (size_t k = 0; k < PODS; k++)
			found |= plain_near_all(g, &w->pods[k]) && same_domain(w, w->pods[k].at, node, n->topology);
		if (!found || plain_domain(w, node, n->topology) == NULL)
			return false;
	}
	return true;
}

/* One side's words about the other. */
static bool plain_apart(const struct world *w, const struct actor *by, const struct actor *o, int by_at, int o_at)
{
	for (size_t i = 0; i < by->p.n_nears; i++) {
		const struct rf_sched_near *n = &by->p.nears[i];

		if (n->apart && by->tenant == o->tenant && same_domain(w, by_at, o_at, n->topology) &&
		    plain_sees(&n->labels, n->any, n->all_namespaces, &by->p, &o->p))
			return false;
	}
	return true;
}

static bool plain_counts(const struct world *w, const struct actor *g, const struct rf_sched_spread *s, int node)
{
	if (!w->there[node] || (!s->any_node && !plain_affine(w, &g->p, node)) ||
	    (s->heed_taints && !plain_tolerates(w, &g->p, node)))
		return false;
	for (size_t i = 0; i < g->p.n_spreads; i++)
		if (plain_domain(w, node, g->p.spreads[i].topology) == NULL)
			return false;
	return true;
}

static int64_t plain_count(const struct world *w, const struct actor *g, const struct rf_sched_spread *s, int node)
{
	int64_t n = 0;

	for (size_t k = 0; k < PODS; k++)
		n += w->pods[k].at >= 0 && w->pods[k].tenant == g->tenant &&
		     plain_sees(&s->labels, s->any, false, &g->p, &w->pods[k].p) &&
		     same_domain(w, w->pods[k].at, node, s->topology) && plain_counts(w, g, s, w->pods[k].at);
	return n;
}

static bool plain_spread(const struct world *w, const struct actor *g, const struct rf_sched_spread *s, int node)
{
	int64_t least = INT64_MAX, domains = 0;

	for (int i = 0; i < NODES; i++) {
		bool seen = false;

		if (!plain_counts(w, g, s, i))
			continue;
		for (int k = 0; k < i; k++)
			seen |= plain_counts(w, g, s, k) && same_domain(w, i, k, s->topology);
		domains += !seen;
		least = RF_MIN(least, plain_count(w, g, s, i));
	}
	least = domains == 0 || domains < s->min_domains ? 0 : least;
	return plain_domain(w, node, s->topology) != NULL &&
	       plain_count(w, g, s, node) + plain_sees(&s->labels, s->any, false, &g->p, &g->p) - least <= s->max_skew;
}

static bool plain_fits(const struct world *w, const struct actor *g, int node)
{
	int64_t used = 0;

	if (!w->there[node] || !plain_affine(w, &g->p, node) || !plain_tolerates(w, &g->p, node))
		return false;
	for (size_t k = 0; k < PODS; k++) {
		const struct actor *o = &w->pods[k];

		if (o->at == node && o->p.n_more > 0)
			used += o->p.more[0].n;
		if (o->at >= 0 && (!plain_apart(w, g, o, node, o->at) || !plain_apart(w, o, g, o->at, node)))
			return false;
	}
	if (g->p.n_more > 0 && g->p.more[0].n > 0 && g->p.more[0].n > w->nodes[node].more[0].n - used)
		return false;
	for (size_t i = 0; i < g->p.n_spreads; i++)
		if (!plain_spread(w, g, &g->p.spreads[i], node))
			return false;
	return plain_near(w, g, node);
}

static void compare(struct world *w, uint64_t seed, int step)
{
	for (size_t i = 0; i < PODS; i++) {
		const struct actor *g = &w->pods[i];
		uint32_t bits = 0;

		if (g->at >= 0)
			continue;
		for (int n = 0; n < NODES; n++)
			bits |= (uint32_t)plain_fits(w, g, n) << n;
		if (where(w->b, g->x, false) != bits)
			fail_msg("seed %llu, step %d, pod %zu: %x, not %x", (unsigned long long)seed, step, i,
				 where(w->b, g->x, false), bits);
	}
}

static void step(struct world *w)
{
	struct actor *g = &w->pods[dice(w, PODS)];
	int node = (int)dice(w, NODES);

	if (dice(w, 8) == 0) {
		w->there[node] = dice(w, 4) != 0;
		w->nodes[node] = random_node(w, node);
		if (w->there[node])
			rf_wishes_put_node(w->b->w, (uint32_t)node, &w->nodes[node]);
		else
			rf_wishes_del_node(w->b->w, (uint32_t)node);
	} else if (g->at >= 0) {
		rf_wish_off(w->b->w, g->x, (uint32_t)g->at);
		g->at = -1;
	} else if (dice(w, 3) == 0) {
		rf_wish_drop(w->b->w, g->x);
		random_pod(w, g);
	} else {
		rf_wish_on(w->b->w, g->x, (uint32_t)node); /* wherever: facts are facts */
		g->at = node;
	}
}

/* A version that stood still must mean that nothing got better. */
static void versions_tell(struct world *w, const uint64_t *version, const uint32_t *bits, const int *born)
{
	for (size_t i = 0; i < PODS; i++) {
		const struct actor *g = &w->pods[i];

		if (g->born == born[i] && g->at < 0 && rf_wish_version(w->b->w, g->x) == version[i])
			assert_int_equal(where(w->b, g->x, false) & ~bits[i], 0);
	}
}

static void walk(struct bench *b, uint64_t seed)
{
	struct world w = { .b = b, .seed = seed };
	uint64_t version[PODS];
	uint32_t bits[PODS];
	int born[PODS];

	for (int i = 0; i < NODES; i++) {
		w.nodes[i] = random_node(&w, i);
		w.there[i] = true;
		put(b, &w.nodes[i]);
	}
	for (size_t i = 0; i < PODS; i++)
		random_pod(&w, &w.pods[i]);
	for (int i = 0; i < STEPS; i++) {
		for (size_t k = 0; k < PODS; k++) {
			born[k] = w.pods[k].born;
			version[k] = rf_wish_version(b->w, w.pods[k].x);
			bits[k] = where(b, w.pods[k].x, false);
		}
		step(&w);
		versions_tell(&w, version, bits, born);
		compare(&w, seed, i);
	}
	for (size_t i = 0; i < PODS; i++) {
		if (w.pods[i].at >= 0)
			rf_wish_off(b->w, w.pods[i].x, (uint32_t)w.pods[i].at);
		rf_wish_drop(b->w, w.pods[i].x);
	}
}

static void random_clusters_agree_with_a_plain_reading_of_the_rules(void **state)
{
	for (uint64_t seed = 1; seed <= 12; seed++) {
		(void)tear_down(state);
		(void)set_up(state);
		walk(*state, seed);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(labels_names_and_systems_decide),
		TEST(terms_are_ored_and_demands_anded),
		TEST(taints_keep_away_who_does_not_tolerate_them),
		TEST(a_node_that_changes_changes_the_classes),
		TEST(the_preferred_class_is_where_it_likes_best),
		TEST(other_resources_are_counted_by_name),
		TEST(equal_wishes_are_one_and_labels_count_only_when_spoken_of),
		TEST(domains_are_numbered_by_key),
		TEST(affinity_goes_where_they_are),
		TEST(the_first_of_a_series_may_start_anywhere),
		TEST(several_terms_speak_of_the_same_pods),
		TEST(anti_affinity_holds_on_both_sides_of_one_tenant),
		TEST(one_of_each_per_node),
		TEST(an_empty_selector_is_every_pod_and_none_is_no_pod),
		TEST(spread_keeps_the_skew),
		TEST(spread_heeds_taints_if_told_to),
		TEST(a_node_that_moves_takes_its_pods_along),
		TEST(classes_that_move_come_and_go),
		TEST(find_follows_the_class),
		TEST(random_clusters_agree_with_a_plain_reading_of_the_rules),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
