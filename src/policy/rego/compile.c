/* All modules together: the tree of documents, the rules in it, checks over the whole. */
#include "policy/rego/check_types.h"

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

struct compiling {
	struct rf_rego *rego;
	struct rf_ra_errors *errors;
	bool strict;
	uint64_t n_tried, more_tries; /* as rf_rc's, of all rules together */
	struct rf_rc_edges edges;
	struct rf_rc_notes *notes;
	struct rf_rc_imports **imports; /* of each module */
	struct pending *first, **tail;
	struct rf_rc_rule **rules; /* of each group by id, for their types */
	/* nodes by parent and name, while the tree grows: open addressing */
	struct rf_rego_node **slot;
	uint32_t slots;
};

static struct rf_rego_node **node_slot(const struct compiling *k, const struct rf_rego_node *parent,
				       struct rf_str name)
{
	uint64_t hash = rf_rv_hash(rf_rv_str(name)) + parent->id * 0x9e3779b97f4a7c15u;
	uint32_t i = (uint32_t)(hash >> 20) & (k->slots - 1);

	while (k->slot[i] && (k->slot[i]->parent != parent || !rf_str_eq(k->slot[i]->name, name)))
		i = (i + 1) & (k->slots - 1);
	return &k->slot[i];
}

static void more_slots(struct compiling *k)
{
	struct rf_rego_node **old = k->slot;
	uint32_t n = k->slots;

	k->slots = n ? 4 * n : 256;
	k->slot = rf_arena_array(&k->rego->arena, struct rf_rego_node *, k->slots);
	for (uint32_t i = 0; i < n; i++)
		if (old[i])
			*node_slot(k, old[i]->parent, old[i]->name) = old[i];
}

static void add_child(struct rf_rego *r, struct rf_rego_node *n, struct rf_rego_node *child)
{
	if (n->n == n->room) {
		uint32_t room = n->room ? 2 * n->room : 4;
		struct rf_rego_node **more = rf_arena_array(&r->arena, struct rf_rego_node *, room);

		if (n->n)
			memcpy(more, n->child, n->n * sizeof(*more));
		n->child = more;
		n->room = room;
	}
	n->child[n->n++] = child;
}

/* In any order; sort_children is for later. */
static struct rf_rego_node *make_child(struct compiling *k, struct rf_rego_node *n, struct rf_str name)
{
	struct rf_rego_node *c;

	if (2 * k->rego->n_nodes >= k->slots)
		more_slots(k);
	c = *node_slot(k, n, name);
	if (c)
		return c;
	c = rf_arena_new(&k->rego->arena, struct rf_rego_node);
	*c = (struct rf_rego_node){
		.name = name, .parent = n, .depth = n->depth + 1, .id = k->rego->n_nodes++
	};
	*node_slot(k, n, name) = c;
	add_child(k->rego, n, c);
	return c;
}

static int by_name(const void *a, const void *b)
{
	const struct rf_rego_node *const *x = a, *const *y = b;

	return rf_str_cmp((*x)->name, (*y)->name);
}

static void sort_children(struct rf_rego_node *n)
{
	if (n->n > 1)
		qsort(n->child, n->n, sizeof(*n->child), by_name);
	for (uint32_t i = 0; i < n->n; i++)
		sort_children(n->child[i]);
}

static struct rf_rego_node *package_node(struct compiling *k, const struct rf_ra_module *m)
{
	struct rf_rego_node *n = k->rego->root;

	for (uint32_t i = 0; i < m->n_package; i++)
		n = make_child(k, n, m->package[i]);
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
static struct rf_rego_node *rule_node(struct compiling *k, struct rf_rego_node *package,
				      const struct rf_ra_rule *rule, uint32_t *ret_n)
{
	struct rf_rego_node *n = make_child(k, package, head_name(rule));
	const struct rf_ra_term *ref = rule->ref;
	uint32_t i = 1;

	n->own = true;
	for (; ref->kind == RF_RA_REF && i < ref->n; i++) {
		if (ref->item[i]->kind != RF_RA_VALUE || ref->item[i]->value.type != RF_RV_STRING)
			break;
		n = make_child(k, n, rf_rv_text(ref->item[i]->value));
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
	struct rf_rc_imports *imports;
	struct rf_rego_node *package;
	uint32_t ground; /* parts of the name that led to the group */
	struct pending *next;
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

static void take_rule(struct compiling *k, const struct pending *like, const struct rf_ra_rule *rule)
{
	struct pending p = *like;
	struct rf_rego_node *n = rule_node(k, p.package, rule, &p.ground);
	bool dynamic = rule->ref->kind == RF_RA_REF && p.ground < rule->ref->n;

	p.group = make_group(k, n, kind_of(rule, dynamic), rule, p.module);
	p.rule = rule;
	for (const struct rf_ra_rule *b = rule; p.group && b; b = b->same_head) {
		p.body = b;
		add_pending(k, p);
	}
}

static bool too_long(struct compiling *k, const struct rf_ra_module *m, uint32_t parts, struct rf_ra_loc loc)
{
	if (parts <= RF_RC_PATH_MAX)
		return false;
	rf_ra_complain(k->errors, "rego_compile_error", m, loc, "a name of %u parts; at most %d can be",
		       parts, RF_RC_PATH_MAX);
	return true;
}

static void take_module(struct compiling *k, struct rf_ra_module *m, struct rf_rc_imports **imports)
{
	struct rf_rc c = { .rego = k->rego,
			   .a = &k->rego->arena,
			   .errors = k->errors,
			   .strict = k->strict,
			   .module = m };
	struct pending p = { .module = m };

	if (too_long(k, m, m->n_package, m->package_loc))
		return;
	rf_rc_check_module(&c);
	p.imports = *imports = rf_rc_imports(&c);
	p.package = package_node(k, m);
	for (uint32_t i = 0; i < m->n_rules; i++) {
		const struct rf_ra_term *ref = m->rule[i]->ref;

		if (!too_long(k, m, m->n_package + (ref->kind == RF_RA_REF ? ref->n : 1), m->rule[i]->loc))
			take_rule(k, &p, m->rule[i]);
	}
}

static void check_imports_used(struct compiling *k)
{
	for (uint32_t i = 0; i < k->rego->n_modules; i++) {
		struct rf_rc c = { .a = &k->rego->arena,
				   .errors = k->errors,
				   .module = k->rego->module[i],
				   .imports = k->imports[i] };

		if (c.imports)
			rf_rc_check_imports_used(&c);
	}
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

static bool all_ready(struct rf_rc_term **t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (!rf_rc_ready_value(t[i]))
			return false;
	return true;
}

/* Under a scope that has the arguments: one body with its value. */
static void compile_body(struct rf_rc *c, struct rf_rc_scope *args, const struct pending *p,
			 const struct rf_ra_rule *from, struct rf_rp_rule *rule)
{
	struct rf_rc_scope *s = rf_rc_scope(c, args, false);
	static struct rf_ra_body empty;
	const struct rf_ra_rule *head = from == p->body ? p->rule : from;
	struct rf_rc_body *body = rf_rc_rule_body(c, s, from->body ? from->body : &empty, p->rule,
						  p->rule->contains ? p->rule->element : head->value);
	const struct rf_ra_term *ref = p->rule->ref;
	struct rf_rc_term *value = NULL;

	if (p->rule->contains)
		value = rf_rc_term(c, s, p->rule->element);
	else if (head->value)
		value = rf_rc_term(c, s, head->value);
	rule->n_path = ref->kind == RF_RA_REF ? ref->n - p->ground : 0;
	rule->path = rf_arena_array(c->a, struct rf_rp_expr, rule->n_path + 1);
	struct rf_rc_term **keys = rf_arena_array(c->a, struct rf_rc_term *, rule->n_path + 1);
	struct rf_rc_rule *seen = c->seen;
	for (uint32_t i = 0; i < rule->n_path; i++)
		keys[i] = rf_rc_term(c, s, ref->item[p->ground + i]);
	for (uint32_t i = 0; i < rule->n_path; i++)
		rf_rc_in_body(c, body, keys[i]);
	rf_rc_in_body(c, body, value);
	rf_rc_check_unused(c, s);
	seen->body = body;
	seen->key = keys;
	seen->n_keys = rule->n_path;
	seen->contains = p->rule->contains;
	seen->value = value;
	c->tail = &rule->body;
	c->unsafe = !rf_rc_check_safety(c, body, keys, rule->n_path, value);
	rf_rc_generate(c, body);
	/* p[x] := q[x]: then the value is what x comes from */
	if (value && !all_ready(keys, rule->n_path))
		rule->value = rf_rc_head_value(c, value);
	for (uint32_t i = 0; i < rule->n_path; i++)
		rule->path[i] = *rf_rc_head_value(c, keys[i]);
	rule->contains = p->rule->contains;
	if (value) {
		rule->value = rule->value ? rule->value : rf_rc_head_value(c, value);
	} else {
		rule->value = rf_arena_new(c->a, struct rf_rp_expr);
		rule->value->value = rf_rv_bool(true);
	}
	rf_rc_mark_head(c, from->head, rule);
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

/* An argument is used if any part of an else chain does. */
static void note_used_arguments(struct rf_rc *c, const struct rf_rc_scope *args)
{
	for (const struct rf_rc_var *v = args->vars; c->strict && v; v = v->next)
		if (!v->wild && v->uses > 1)
			rf_rc_name_add(c, &c->used_arguments, v->name);
}

static void check_arguments_used(struct rf_rc *c, const struct pending *p)
{
	struct rf_rc_scope *all = rf_rc_scope(c, NULL, false);

	for (uint32_t i = 0; i < p->rule->n_args; i++)
		rf_rc_declare_all(c, all, p->rule->args[i]);
	for (uint32_t i = 0; i < all->names.n; i++)
		if (rf_rc_name_at(&c->used_arguments, all->names.name[i]) == UINT32_MAX)
			rf_ra_complain(c->errors, "rego_compile_error", c->module, p->rule->head,
				       "unused argument %.*s. (hint: use _ (wildcard variable) instead)",
				       RF_STR(all->names.name[i]));
}

static struct rf_rp_rule *compile_one(struct rf_rc *c, const struct pending *p,
				      const struct rf_ra_rule *from)
{
	struct rf_rp_rule *rule = rf_arena_new(c->a, struct rf_rp_rule);
	struct rf_rc_scope *args = rf_rc_scope(c, NULL, false);

	args->arguments = true;
	c->n_slots = 0;
	c->computed = NULL;
	for (uint32_t i = 0; i < p->rule->n_args; i++)
		rf_rc_declare_all(c, args, p->rule->args[i]);
	rule->n_args = p->rule->n_args;
	rule->arg = rf_arena_array(c->a, struct rf_rp_pattern, rule->n_args + 1);
	c->seen = rf_arena_new(c->a, struct rf_rc_rule);
	*c->seen = (struct rf_rc_rule){ .group = p->group, .module = p->module, .n_args = rule->n_args };
	c->seen->arg = rf_arena_array(c->a, struct rf_rc_term *, rule->n_args + 1);
	for (uint32_t i = 0; i < rule->n_args; i++) {
		c->seen->arg[i] = rf_rc_argument(c, args, p->rule->args[i]);
		rule->arg[i] = *rf_rc_pattern(c, c->seen->arg[i]);
	}
	compile_body(c, args, p, from, rule);
	note_used_arguments(c, args);
	c->seen->next = c->rules[p->group->id];
	c->rules[p->group->id] = c->seen;
	unbind(args);
	rule->n_slots = c->n_slots;
	return rule;
}

/* else may be of any length, so no recursion. */
static struct rf_rp_rule *compile_chain(struct rf_rc *c, const struct pending *p,
					const struct rf_ra_rule *from)
{
	struct rf_rp_rule *first = NULL, **tail = &first;

	for (; from; from = from->otherwise) {
		*tail = compile_one(c, p, from);
		tail = &(*tail)->otherwise;
		c->rule = NULL;
	}
	return first;
}

static void compile_rule(struct compiling *k, const struct pending *p)
{
	struct rf_rc c = { .rego = k->rego,
			   .a = &k->rego->arena,
			   .errors = k->errors,
			   .module = p->module,
			   .package = p->package,
			   .group = p->group,
			   .notes = k->notes,
			   .rules = k->rules,
			   .imports = p->imports,
			   .strict = k->strict,
			   .n_tried = k->n_tried,
			   .more_tries = k->more_tries,
			   .rule = p->body == p->rule ? p->rule : NULL,
			   .head = p->rule->ref,
			   .ground = p->ground,
			   .edges = &k->edges };
	struct rf_rp_rule *rule = compile_chain(&c, p, p->body);

	k->n_tried = c.n_tried;
	if (k->strict)
		check_arguments_used(&c, p);
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

/* --- in and out --- */

static int parse_all(struct compiling *k, const struct rf_rego_source *source, size_t n)
{
	struct rf_rego *r = k->rego;

	r->module = rf_arena_array(&r->arena, struct rf_ra_module *, n + 1);
	for (size_t i = 0; i < n; i++) {
		struct rf_str file = rf_arena_str(&r->arena, source[i].file);
		struct rf_str text = rf_arena_str(&r->arena, source[i].text);

		k->more_tries += RF_RC_TRIES_PER_BYTE * text.n;
		if (rf_ra_parse(&r->arena, file, text, source[i].version, &r->module[r->n_modules],
				k->errors) == 0)
			r->n_modules++;
	}
	return k->errors->n ? -RF_INVALID : 0;
}

static void make_faster(struct rf_rego *r)
{
	for (uint32_t i = 0; i < r->n_groups; i++) {
		r->group[i]->merged = r->group[i]->rule;
		r->group[i]->n_merged = r->group[i]->n;
	}
	if (r->plain)
		return;
	if (!r->covered) /* rules that nobody wrote */
		rf_rc_narrow(r);
	rf_rc_index(r);
	rf_rc_pack(r);
	rf_rc_number(r);
}

static void compile_all(struct compiling *k)
{
	struct rf_rego *r = k->rego;

	k->imports = rf_arena_array(&r->arena, struct rf_rc_imports *, r->n_modules + 1);
	for (uint32_t i = 0; i < r->n_modules; i++)
		take_module(k, r->module[i], &k->imports[i]);
	sort_children(r->root);
	r->group = rf_arena_array(&r->arena, struct rf_rego_group *, r->n_groups + 1);
	k->rules = rf_arena_array(&r->arena, struct rf_rc_rule *, r->n_groups + 1);
	k->notes = rf_rc_notes(r);
	for (struct pending *p = k->first; p; p = p->next) {
		r->group[p->group->id] = p->group;
		if (p->body == p->rule)
			rf_rc_note_document(k->notes, p->group->node, p->rule, p->module);
	}
	for (struct pending *p = k->first; p; p = p->next)
		compile_rule(k, p);
	for (uint32_t i = 0; i < r->n_groups; i++)
		look_for_constant(r->group[i]);
	check_places(k, r->root);
	if (k->strict)
		check_imports_used(k);
	if (k->errors->n)
		return;
	r->order = rf_rc_check_recursion(r, &k->edges, k->errors);
	r->n_order = r->n_groups;
	if (k->errors->n == 0)
		rf_rc_check_types(r, k->rules, r->order, k->errors);
	if (k->errors->n == 0)
		make_faster(r);
}

static int by_place(const void *a, const void *b)
{
	const struct rf_ra_error *x = a, *y = b;
	int r = rf_str_cmp(x->file, y->file);

	if (r == 0)
		r = x->loc.row < y->loc.row ? -1 : x->loc.row > y->loc.row;
	if (r == 0)
		r = x->loc.col < y->loc.col ? -1 : x->loc.col > y->loc.col;
	return r ? r : rf_str_cmp(x->text, y->text);
}

/* How it is compiled. */
struct manner {
	bool strict, covered, plain;
};

static int compile(const struct rf_rego_source *source, size_t n, const struct rf_rv *data, struct manner how,
		   struct rf_rego **ret, struct rf_ra_errors *errors)
{
	struct rf_rego *r = rf_new(struct rf_rego);
	struct compiling k = { .rego = r, .errors = errors, .strict = how.strict };

	*r = (struct rf_rego){ .refs = 1, .arena = RF_ARENA_INIT, .covered = how.covered, .plain = how.plain };
	k.tail = &k.first;
	r->root = rf_arena_new(&r->arena, struct rf_rego_node);
	r->n_nodes = 1;
	r->data = rf_rv_object(NULL, 0, NULL);
	if (data && !rf_rv_copy(&r->arena, *data, &r->data))
		r->data = rf_rv_object(NULL, 0, NULL);
	if (parse_all(&k, source, n) == 0)
		compile_all(&k);
	if (errors->n) {
		qsort(errors->error, errors->n, sizeof(errors->error[0]), by_place);
		rf_rego_unref(r);
		return -RF_INVALID;
	}
	*ret = r;
	return 0;
}

int rf_rego_compile(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
		    struct rf_rego **ret, struct rf_ra_errors *errors)
{
	return compile(source, n, data, (struct manner){ 0 }, ret, errors);
}

int rf_rego_compile_covered(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
			    struct rf_rego **ret, struct rf_ra_errors *errors)
{
	return compile(source, n, data, (struct manner){ .covered = true }, ret, errors);
}

int rf_rego_compile_plain(const struct rf_rego_source *source, size_t n, const struct rf_rv *data,
			  struct rf_rego **ret, struct rf_ra_errors *errors)
{
	return compile(source, n, data, (struct manner){ .plain = true }, ret, errors);
}

int rf_rego_check(const struct rf_rego_source *source, size_t n, struct rf_ra_errors *errors)
{
	struct rf_rego *r = NULL;

	if (compile(source, n, NULL, (struct manner){ .strict = true }, &r, errors) < 0)
		return -RF_INVALID;
	rf_rego_unref(r);
	return 0;
}

static bool got_further(const struct rf_ra_errors *x, const struct rf_ra_errors *y)
{
	return x->n > 0 && y->n > 0 && x->error[0].loc.at > y->error[0].loc.at;
}

/* If it is neither, the reader that came further knows better what is wrong, and will say so when it is compiled. */
enum rf_ra_version rf_rego_version_of(struct rf_str file, struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)64 << 20);
	struct rf_ra_errors v1 = { .arena = &a }, v0 = { .arena = &a };
	struct rf_ra_module *m;

	if (rf_ra_parse(&a, file, text, RF_RA_V1, &m, &v1) < 0 &&
	    (rf_ra_parse(&a, file, text, RF_RA_V0, &m, &v0) == 0 || got_further(&v0, &v1)))
		return RF_RA_V0;
	return RF_RA_V1;
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
	rf_arena_done(&r->plan);
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
		struct rf_rc_body *resolved = rf_rc_body(&c, s, body);

		c.unsafe = !rf_rc_check_safety(&c, resolved, NULL, 0, NULL);
		rf_rc_generate_query(&c, resolved);
		list_vars(q, s);
		q->n_slots = c.n_slots;
		if (q->body && !q->body->next && q->body->op == RF_RP_MATCH && q->n_vars == 0)
			q->one = q->body->expr;
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
