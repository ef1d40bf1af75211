/* All modules together: the tree of documents, the rules in it, checks over the whole. */
#include "policy/rego/compile.h"

/* --- the tree --- */

struct rf_rego_node *rf_rego_child(const struct rf_rego_node *n, struct rf_str name)
{
	uint32_t low = 0, high = n->n;

	while (low < high) {
		uint32_t mid = (low + high) / 2;
		int r = rf_str_cmp(n->child[mid]->name, name);

		if (r == 0)
			return n->child[mid];
		if (r < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static struct rf_rego_node *make_child(struct rf_rego *r, struct rf_rego_node *n, struct rf_str name)
{
	struct rf_rego_node *c = rf_rego_child(n, name);
	uint32_t at = n->n;

	if (c)
		return c;
	if (n->n == n->room) {
		uint32_t room = n->room ? 2 * n->room : 4;
		struct rf_rego_node **more = rf_arena_array(&r->arena, struct rf_rego_node *, room);

		if (n->n)
			memcpy(more, n->child, n->n * sizeof(*more));
		n->child = more;
		n->room = room;
	}
	c = rf_arena_new(&r->arena, struct rf_rego_node);
	*c = (struct rf_rego_node){
		.name = name, .parent = n, .depth = n->depth + 1, .id = r->n_nodes++
	};
	while (at > 0 && rf_str_cmp(n->child[at - 1]->name, name) > 0) {
		n->child[at] = n->child[at - 1];
		at--;
	}
	n->child[at] = c;
	n->n++;
	return c;
}

static struct rf_rego_node *package_node(struct rf_rego *r, const struct rf_ra_module *m)
{
	struct rf_rego_node *n = r->root;

	for (uint32_t i = 0; i < m->n_package; i++)
		n = make_child(r, n, m->package[i]);
	for (struct rf_rego_node *up = n; up; up = up->parent)
		up->has_rules = true; /* a package is there, be it empty */
	return n;
}

static struct rf_str path_text(struct rf_arena *a, const struct rf_rego_node *n)
{
	if (!n->parent)
		return RF_LIT("data");
	struct rf_str before = path_text(a, n->parent);

	return rf_arena_printf(a, "%.*s.%.*s", RF_STR(before), RF_STR(n->name));
}

/* --- heads --- */

static struct rf_str head_name(const struct rf_ra_rule *rule)
{
	return rule->ref->kind == RF_RA_REF ? rule->ref->item[0]->name : rule->ref->name;
}

/* The node of the part of the name that is constant strings; *ret_n: how many parts that is. */
static struct rf_rego_node *rule_node(struct rf_rego *r, struct rf_rego_node *package,
				      const struct rf_ra_rule *rule, uint32_t *ret_n)
{
	struct rf_rego_node *n = make_child(r, package, head_name(rule));
	const struct rf_ra_term *ref = rule->ref;
	uint32_t i = 1;

	n->own = true;
	for (; ref->kind == RF_RA_REF && i < ref->n; i++) {
		if (ref->item[i]->kind != RF_RA_VALUE || ref->item[i]->value.type != RF_RV_STRING)
			break;
		n = make_child(r, n, rf_rv_text(ref->item[i]->value));
		n->own = true;
	}
	*ret_n = i;
	return n;
}

static enum rf_rego_group_kind kind_of(const struct rf_ra_rule *rule, bool dynamic)
{
	if (rule->is_function && rule->n_args > 0) /* f() is a rule like any other */
		return RF_REGO_FUNCTION;
	if (dynamic)
		return RF_REGO_PARTIAL_OBJECT;
	return rule->contains ? RF_REGO_PARTIAL_SET : RF_REGO_COMPLETE;
}

struct pending { /* a rule whose group is known, not compiled yet */
	struct rf_rego_group *group;
	const struct rf_ra_rule *rule, *body; /* body: whose body and else (v0 chains share a head) */
	const struct rf_ra_module *module;
	struct rf_rego_node *package;
	uint32_t ground; /* parts of the name that led to the group */
	struct pending *next;
};

struct compiling {
	struct rf_rego *rego;
	struct rf_ra_errors *errors;
	struct rf_rc_edges edges;
	struct pending *first, **tail;
};

static struct rf_rego_group *make_group(struct compiling *k, struct rf_rego_node *n,
					enum rf_rego_group_kind kind, const struct rf_ra_rule *rule,
					const struct rf_ra_module *m)
{
	struct rf_rego_group *g = n->group;

	if (g && (g->kind != kind || g->n_args != rule->n_args)) {
		struct rf_str path = path_text(&k->rego->arena, n);

		rf_ra_complain(k->errors, "rego_type_error", m, rule->loc,
			       g->kind == RF_REGO_FUNCTION && kind == RF_REGO_FUNCTION ?
				       "conflicting rules %.*s found (arities differ)" :
				       "conflicting rules %.*s found",
			       RF_STR(path));
		return NULL;
	}
	if (g)
		return g;
	g = rf_arena_new(&k->rego->arena, struct rf_rego_group);
	*g = (struct rf_rego_group){
		.kind = kind, .id = k->rego->n_groups++, .node = n, .n_args = rule->n_args
	};
	n->group = g;
	for (struct rf_rego_node *up = n; up; up = up->parent)
		up->has_rules = true;
	return g;
}

static void add_pending(struct compiling *k, struct pending p)
{
	struct pending *copy = rf_arena_new(&k->rego->arena, struct pending);

	*copy = p;
	*k->tail = copy;
	k->tail = &copy->next;
}

static void take_rule(struct compiling *k, struct rf_rego_node *package, struct rf_ra_module *m,
		      const struct rf_ra_rule *rule)
{
	uint32_t ground;
	struct rf_rego_node *n = rule_node(k->rego, package, rule, &ground);
	bool dynamic = rule->ref->kind == RF_RA_REF && ground < rule->ref->n;
	struct rf_rego_group *g = make_group(k, n, kind_of(rule, dynamic), rule, m);

	for (const struct rf_ra_rule *b = rule; g && b; b = b->same_head)
		add_pending(k, (struct pending){ .group = g,
						 .rule = rule,
						 .body = b,
						 .module = m,
						 .package = package,
						 .ground = ground });
}

static void take_module(struct compiling *k, struct rf_ra_module *m)
{
	struct rf_rego_node *package = package_node(k->rego, m);

	for (uint32_t i = 0; i < m->n_rules; i++)
		take_rule(k, package, m, m->rule[i]);
}

/* --- rules --- */

static void add_rule(struct rf_rego *r, struct rf_rego_group *g, struct rf_rp_rule *rule)
{
	struct rf_rp_rule **more;

	if ((g->n & (g->n - 1)) == 0) { /* 0, 1, 2, 4, ... are full */
		more = rf_arena_array(&r->arena, struct rf_rp_rule *, g->n ? 2 * g->n : 1);
		if (g->n)
			memcpy(more, g->rule, g->n * sizeof(*more));
		g->rule = more;
	}
	g->rule[g->n++] = rule;
}

/* Under a scope that has the arguments: one body with its value. */
static void compile_body(struct rf_rc *c, struct rf_rc_scope *args, const struct pending *p,
			 const struct rf_ra_rule *from, struct rf_rp_rule *rule)
{
	struct rf_rc_scope *s = rf_rc_scope(c, args, false);
	static struct rf_ra_body empty;
	struct rf_rc_body *body = rf_rc_body(c, s, from->body ? from->body : &empty);
	const struct rf_ra_rule *head = from == p->body ? p->rule : from;
	const struct rf_ra_term *ref = p->rule->ref;
	struct rf_rc_term *value = NULL;

	if (p->rule->contains)
		value = rf_rc_term(c, s, p->rule->element);
	else if (head->value)
		value = rf_rc_term(c, s, head->value);
	rule->n_path = ref->kind == RF_RA_REF ? ref->n - p->ground : 0;
	rule->path = rf_arena_array(c->a, struct rf_rp_expr *, rule->n_path + 1);
	struct rf_rc_term **keys = rf_arena_array(c->a, struct rf_rc_term *, rule->n_path + 1);
	for (uint32_t i = 0; i < rule->n_path; i++)
		keys[i] = rf_rc_term(c, s, ref->item[p->ground + i]);
	c->tail = &rule->body;
	rf_rc_generate(c, body);
	for (uint32_t i = 0; i < rule->n_path; i++)
		rule->path[i] = rf_rc_value(c, keys[i]);
	rule->contains = p->rule->contains;
	if (value) {
		rule->value = rf_rc_value(c, value);
	} else {
		rule->value = rf_arena_new(c->a, struct rf_rp_expr);
		rule->value->value = rf_rv_bool(true);
	}
	rule->constant = rule->value->kind == RF_RP_CONST;
	rule->file = c->module->file;
	rule->loc = from->loc;
	rule->ast = p->rule;
}

static void unbind(struct rf_rc_scope *s)
{
	for (struct rf_rc_var *v = s->vars; v; v = v->next)
		v->bound = false;
}

static struct rf_rp_rule *compile_chain(struct rf_rc *c, const struct pending *p,
					const struct rf_ra_rule *from)
{
	struct rf_rp_rule *rule = rf_arena_new(c->a, struct rf_rp_rule);
	struct rf_rc_scope *args = rf_rc_scope(c, NULL, false);

	c->n_slots = 0;
	for (uint32_t i = 0; i < p->rule->n_args; i++)
		rf_rc_declare_all(c, args, p->rule->args[i]);
	rule->n_args = p->rule->n_args;
	rule->arg = rf_arena_array(c->a, struct rf_rp_pattern *, rule->n_args + 1);
	for (uint32_t i = 0; i < rule->n_args; i++)
		rule->arg[i] = rf_rc_pattern(c, rf_rc_term(c, args, p->rule->args[i]));
	compile_body(c, args, p, from, rule);
	unbind(args);
	rule->n_slots = c->n_slots;
	if (from->otherwise)
		rule->otherwise = compile_chain(c, p, from->otherwise);
	return rule;
}

static void compile_rule(struct compiling *k, const struct pending *p)
{
	struct rf_rc c = { .rego = k->rego,
			   .a = &k->rego->arena,
			   .errors = k->errors,
			   .module = p->module,
			   .package = p->package,
			   .group = p->group,
			   .edges = &k->edges };
	struct rf_rp_rule *rule = compile_chain(&c, p, p->body);

	if (!p->rule->is_default) {
		add_rule(k->rego, p->group, rule);
		return;
	}
	if (p->group->fallback) {
		struct rf_str path = path_text(&k->rego->arena, p->group->node);

		rf_ra_complain(k->errors, "rego_type_error", p->module, p->rule->loc,
			       "multiple default rules %.*s found", RF_STR(path));
	}
	p->group->fallback = rule;
}

/* --- checks over the whole --- */

/* If all rules of a place say the same constant, the first that holds is enough. */
static void look_for_constant(struct rf_rego_group *g)
{
	if (g->kind != RF_REGO_COMPLETE && g->kind != RF_REGO_FUNCTION)
		return;
	for (uint32_t i = 0; i < g->n; i++) {
		if (!g->rule[i]->constant || g->rule[i]->otherwise ||
		    (i > 0 && !rf_rv_eq(g->rule[i]->value->value, g->constant)))
			return;
		g->constant = g->rule[i]->value->value;
	}
	g->same_constant = g->n > 0;
}

static void check_places(struct compiling *k, struct rf_rego_node *n)
{
	if (n->group && n->n > 0 && n->group->kind != RF_REGO_PARTIAL_OBJECT) {
		for (uint32_t i = 0; i < n->n; i++) {
			if (!n->child[i]->has_rules)
				continue;
			struct rf_str path = path_text(&k->rego->arena, n);

			rf_ra_complain(k->errors, "rego_type_error", k->first ? k->first->module : NULL,
				       n->group->n ? n->group->rule[0]->loc : (struct rf_ra_loc){ 0 },
				       "rule %.*s conflicts with %.*s", RF_STR(path),
				       RF_STR(path_text(&k->rego->arena, n->child[i])));
			break;
		}
	}
	for (uint32_t i = 0; i < n->n; i++)
		check_places(k, n->child[i]);
}

struct recursion {
	struct compiling *k;
	uint8_t *state; /* 1: on the way, 2: done */
	uint32_t *first; /* of each group, its edges: sorted by from */
	bool found;
};

static void visit(struct recursion *v, struct rf_rego_group *g);

static void visit_below(struct recursion *v, struct rf_rego_node *n)
{
	if (n->group)
		visit(v, n->group);
	for (uint32_t i = 0; i < n->n && !v->found; i++)
		visit_below(v, n->child[i]);
}

/* Only what the keys that are known can lead to. */
static void visit_keys(struct recursion *v, struct rf_rego_node *n, const struct rf_rp_expr *keys,
		       uint32_t i)
{
	struct rf_rego_node *child;

	if (!keys || i == keys->n) {
		visit_below(v, n);
		return;
	}
	if (i > 0 && n->group) {
		visit(v, n->group);
		if (n->group->kind != RF_REGO_PARTIAL_OBJECT)
			return;
	}
	if (keys->item[i]->kind == RF_RP_CONST) {
		child = keys->item[i]->value.type == RF_RV_STRING ?
				rf_rego_child(n, rf_rv_text(keys->item[i]->value)) :
				NULL;
		if (child)
			visit_keys(v, child, keys, i + 1);
		return;
	}
	for (uint32_t j = 0; j < n->n && !v->found; j++)
		visit_keys(v, n->child[j], keys, i + 1);
}

static void visit(struct recursion *v, struct rf_rego_group *g)
{
	struct rf_rc_edges *e = &v->k->edges;

	if (v->found || v->state[g->id] == 2)
		return;
	if (v->state[g->id] == 1) {
		struct rf_str path = path_text(&v->k->rego->arena, g->node);
		struct rf_rp_rule *rule = g->n ? g->rule[0] : g->fallback;

		v->found = true;
		rf_ra_complain(v->k->errors, "rego_recursion_error", v->k->first->module,
			       rule ? rule->loc : (struct rf_ra_loc){ 0 },
			       "rule %.*s is recursive: %.*s -> %.*s", RF_STR(path), RF_STR(path),
			       RF_STR(path));
		return;
	}
	v->state[g->id] = 1;
	for (uint32_t i = v->first[g->id]; i < v->first[g->id + 1] && !v->found; i++) {
		if (e->edge[i].to)
			visit(v, e->edge[i].to);
		if (e->edge[i].node && !v->found)
			visit_keys(v, e->edge[i].node, e->edge[i].keys, 0);
	}
	v->state[g->id] = 2;
}

static int by_from(const void *a, const void *b)
{
	const struct rf_rc_edge *x = a, *y = b;

	return x->from->id < y->from->id ? -1 : x->from->id > y->from->id;
}

static void check_recursion(struct compiling *k)
{
	struct rf_arena *a = &k->rego->arena;
	uint32_t n = k->rego->n_groups, at = 0;
	struct recursion v = { .k = k,
			       .state = rf_arena_array(a, uint8_t, n + 1),
			       .first = rf_arena_array(a, uint32_t, n + 2) };

	if (k->edges.n)
		qsort(k->edges.edge, k->edges.n, sizeof(*k->edges.edge), by_from);
	for (uint32_t i = 0; i <= n; i++) {
		while (at < k->edges.n && k->edges.edge[at].from->id < i)
			at++;
		v.first[i] = at;
	}
	v.first[n + 1] = k->edges.n;
	v.first[n] = k->edges.n;
	for (uint32_t i = 0; i < n && !v.found; i++)
		visit(&v, k->rego->group[i]);
}

/* --- in and out --- */

static int parse_all(struct compiling *k, const struct rf_rego_source *source, size_t n)
{
	struct rf_rego *r = k->rego;

	r->module = rf_arena_array(&r->arena, struct rf_ra_module *, n + 1);
	for (size_t i = 0; i < n; i++) {
		struct rf_str file = rf_arena_str(&r->arena, source[i].file);
		struct rf_str text = rf_arena_str(&r->arena, source[i].text);

		if (rf_ra_parse(&r->arena, file, text, source[i].version, &r->module[r->n_modules],
				k->errors) == 0)
			r->n_modules++;
	}
	return k->errors->n ? -RF_INVALID : 0;
}

static void compile_all(struct compiling *k)
{
	struct rf_rego *r = k->rego;

	for (uint32_t i = 0; i < r->n_modules; i++)
		take_module(k, r->module[i]);
	r->group = rf_arena_array(&r->arena, struct rf_rego_group *, r->n_groups + 1);
	for (struct pending *p = k->first; p; p = p->next)
		r->group[p->group->id] = p->group;
	for (struct pending *p = k->first; p; p = p->next)
		compile_rule(k, p);
	for (uint32_t i = 0; i < r->n_groups; i++)
		look_for_constant(r->group[i]);
	check_places(k, r->root);
	if (k->errors->n == 0)
		check_recursion(k);
}

int rf_rego_compile(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
		    struct rf_rego **ret, struct rf_ra_errors *errors)
{
	struct rf_rego *r = rf_new(struct rf_rego);
	struct compiling k = { .rego = r, .errors = errors };

	*r = (struct rf_rego){ .refs = 1, .arena = RF_ARENA_INIT };
	k.tail = &k.first;
	r->root = rf_arena_new(&r->arena, struct rf_rego_node);
	r->n_nodes = 1;
	r->data = rf_rv_object(NULL, 0, NULL);
	if (data && !rf_rv_copy(&r->arena, *data, &r->data))
		r->data = rf_rv_object(NULL, 0, NULL);
	if (parse_all(&k, source, n) == 0)
		compile_all(&k);
	if (errors->n) {
		rf_rego_unref(r);
		return -RF_INVALID;
	}
	*ret = r;
	return 0;
}

struct rf_rego *rf_rego_ref(struct rf_rego *r)
{
	__atomic_add_fetch(&r->refs, 1, __ATOMIC_RELAXED);
	return r;
}

void rf_rego_unref(struct rf_rego *r)
{
	if (!r || __atomic_sub_fetch(&r->refs, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	rf_arena_done(&r->arena);
	free(r);
}

/* --- queries --- */

/* Variables a person can name. */
static void list_vars(struct rf_rego_query *q, const struct rf_rc_scope *s)
{
	uint32_t n = 0;

	for (const struct rf_rc_var *v = s->vars; v; v = v->next)
		n++;
	q->var = rf_arena_array(&q->arena, struct rf_rego_query_var, n + 1);
	for (const struct rf_rc_var *v = s->vars; v; v = v->next)
		if (!v->wild && v->bound)
			q->var[q->n_vars++] =
				(struct rf_rego_query_var){ .name = v->name, .slot = v->slot };
}

int rf_rego_prepare(struct rf_rego *r, struct rf_str query, enum rf_ra_version version,
		    struct rf_rego_query **ret, struct rf_ra_errors *errors)
{
	struct rf_rego_query *q = rf_new(struct rf_rego_query);
	struct rf_rc c = { .rego = r, .a = &q->arena, .errors = errors };
	struct rf_ra_body *body;
	struct rf_rc_scope *s;

	*q = (struct rf_rego_query){ .rego = rf_rego_ref(r), .arena = RF_ARENA_INIT };
	if (rf_ra_parse_body(&q->arena, RF_LIT("query"), rf_arena_str(&q->arena, query), version,
			     &body, errors) == 0) {
		s = rf_rc_scope(&c, NULL, false);
		c.tail = &q->body;
		c.value_slot = q->value_slot = rf_arena_array(&q->arena, uint32_t, body->n + 1);
		c.n_values = q->n_values = body->n;
		for (uint32_t i = 0; i < body->n; i++)
			q->value_slot[i] = UINT32_MAX; /* true */
		rf_rc_generate(&c, rf_rc_body(&c, s, body));
		list_vars(q, s);
		q->n_slots = c.n_slots;
	}
	if (errors->n) {
		rf_rego_query_free(q);
		return -RF_INVALID;
	}
	*ret = q;
	return 0;
}

void rf_rego_query_free(struct rf_rego_query *q)
{
	if (!q)
		return;
	rf_rego_unref(q->rego);
	rf_arena_done(&q->arena);
	free(q);
}

static void each_below(const struct rf_rego *r, const struct rf_rego_node *n, struct rf_arena *a,
		       void (*fn)(void *, struct rf_str, const struct rf_ra_rule *, struct rf_str),
		       void *arg)
{
	for (uint32_t i = 0; n->group && i < n->group->n; i++)
		fn(arg, path_text(a, n), n->group->rule[i]->ast, n->group->rule[i]->file);
	for (uint32_t i = 0; i < n->n; i++)
		each_below(r, n->child[i], a, fn, arg);
}

void rf_rego_each_rule(const struct rf_rego *r,
		       void (*fn)(void *arg, struct rf_str path, const struct rf_ra_rule *rule,
				  struct rf_str file),
		       void *arg)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	each_below(r, r->root, &a, fn, arg);
}
