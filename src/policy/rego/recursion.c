/* Who depends on whom: rules must not lead back to themselves, and types are worked out in this order.
 * Everything here is a loop over a stack of its own: a policy may have a chain of any length. */
#include "policy/rego/compile.h"

#define TARGETS_MAX 4000000 /* of all references together, where a reference may mean many rules */
#define SHOWN 16	    /* rules of a circle */

struct frame {
	uint32_t vertex, next;
};

/* Vertices: groups by id, then nodes by id ("everything from here down"). */
struct graph {
	struct rf_rego *rego;
	struct rf_rc_edges *edges;
	struct rf_ra_errors *errors;
	struct rf_rego_node **node; /* by id */
	uint32_t *first;	    /* of each group, its targets */
	RF_VEC(uint32_t) target;
	uint8_t *state; /* 1: on the way, 2: done */
	RF_VEC(struct frame) stack;
	uint32_t *order, n_order;
	bool full, found;
};

/* --- edges --- */

static int by_from(const void *a, const void *b)
{
	const struct rf_rc_edge *x = a, *y = b;

	return x->from->id < y->from->id ? -1 : x->from->id > y->from->id;
}

static void add_target(struct graph *g, uint32_t vertex)
{
	if (g->target.n >= TARGETS_MAX)
		g->full = true;
	else
		rf_vec_push(&g->target, vertex);
}

/* Only what the keys that are known can lead to. The tree is no deeper than RF_RC_PATH_MAX. */
static void follow(struct graph *g, struct rf_rego_node *n, const struct rf_rp_expr *keys,
		   uint32_t i)
{
	struct rf_rego_node *child = NULL;

	if (!keys || i == keys->n) {
		add_target(g, g->rego->n_groups + n->id);
		return;
	}
	if (i > 0 && n->group) {
		add_target(g, n->group->id);
		if (n->group->kind != RF_REGO_PARTIAL_OBJECT)
			return;
	}
	if (keys->item[i].kind == RF_RP_CONST) {
		if (keys->item[i].value.type == RF_RV_STRING)
			child = rf_rego_child(n, rf_rv_text(keys->item[i].value));
		if (child)
			follow(g, child, keys, i + 1);
		return;
	}
	for (uint32_t j = 0; j < n->n && !g->full; j++)
		follow(g, n->child[j], keys, i + 1);
}

static void follow_edges(struct graph *g)
{
	struct rf_rc_edges *e = g->edges;
	uint32_t at = 0;

	if (e->n)
		qsort(e->edge, e->n, sizeof(*e->edge), by_from);
	for (uint32_t id = 0; id < g->rego->n_groups; id++) {
		g->first[id] = (uint32_t)g->target.n;
		for (; at < e->n && e->edge[at].from->id == id && !g->full; at++) {
			if (e->edge[at].to)
				add_target(g, e->edge[at].to->id);
			if (e->edge[at].node)
				follow(g, e->edge[at].node, e->edge[at].keys, 0);
		}
	}
	g->first[g->rego->n_groups] = (uint32_t)g->target.n;
}

static void list_nodes(struct graph *g, struct rf_rego_node *n)
{
	g->node[n->id] = n;
	for (uint32_t i = 0; i < n->n; i++)
		list_nodes(g, n->child[i]);
}

/* --- circles --- */

static void print_path(struct rf_buf *out, const struct rf_rego_node *n)
{
	if (!n->parent) {
		rf_buf_puts(out, "data");
		return;
	}
	print_path(out, n->parent);
	rf_buf_printf(out, ".%.*s", RF_STR(n->name));
}

static const struct rf_rc_edge *edge_of(const struct graph *g, const struct rf_rego_group *from)
{
	for (uint32_t i = 0; i < g->edges->n; i++)
		if (g->edges->edge[i].from == from)
			return &g->edges->edge[i];
	return NULL;
}

/* The circle is what lies on the stack from the vertex on. */
static void complain(struct graph *g, uint32_t vertex)
{
	rf_auto(buf) name = RF_BUF_INIT, circle = RF_BUF_INIT;
	const struct rf_rego_group *first = NULL, *at;
	struct rf_rp_rule *rule;
	uint32_t i = 0, shown = 0;

	while (g->stack.at[i].vertex != vertex)
		i++;
	for (; i < g->stack.n; i++) {
		if (g->stack.at[i].vertex >= g->rego->n_groups)
			continue;
		at = g->rego->group[g->stack.at[i].vertex];
		if (!first)
			first = at;
		if (shown++ == SHOWN)
			rf_buf_puts(&circle, "... -> ");
		if (shown > SHOWN)
			continue;
		print_path(&circle, at->node);
		rf_buf_puts(&circle, " -> ");
	}
	g->found = true;
	if (!first)
		return;
	print_path(&name, first->node);
	rule = first->n ? first->rule[0] : first->fallback;
	rf_ra_complain(g->errors, "rego_recursion_error", edge_of(g, first)->module,
		       rule ? rule->loc : (struct rf_ra_loc){ 0 }, "rule %s is recursive: %s%s",
		       name.p, circle.p, name.p);
}

static void enter(struct graph *g, uint32_t vertex)
{
	if (g->state[vertex] == 1)
		complain(g, vertex);
	if (g->state[vertex])
		return;
	g->state[vertex] = 1;
	rf_vec_push(&g->stack, ((struct frame){ vertex, 0 }));
}

/* The i-th vertex a vertex leads to; false: there are no more. */
static bool next_of(const struct graph *g, uint32_t vertex, uint32_t i, uint32_t *ret)
{
	const struct rf_rego_node *n;

	if (vertex < g->rego->n_groups) {
		if (g->first[vertex] + i >= g->first[vertex + 1])
			return false;
		*ret = g->target.at[g->first[vertex] + i];
		return true;
	}
	n = g->node[vertex - g->rego->n_groups];
	if (n->group && i-- == 0) {
		*ret = n->group->id;
		return true;
	}
	if (i >= n->n)
		return false;
	*ret = g->rego->n_groups + n->child[i]->id;
	return true;
}

static void walk(struct graph *g)
{
	while (g->stack.n > 0 && !g->found) {
		struct frame *f = &g->stack.at[g->stack.n - 1];
		uint32_t vertex = f->vertex, next;

		if (next_of(g, vertex, f->next, &next)) {
			f->next++;
			enter(g, next);
			continue;
		}
		g->state[vertex] = 2;
		g->stack.n--;
		if (vertex < g->rego->n_groups)
			g->order[g->n_order++] = vertex;
	}
}

const uint32_t *rf_rc_check_recursion(struct rf_rego *r, struct rf_rc_edges *edges,
				      struct rf_ra_errors *errors)
{
	struct rf_arena *a = &r->arena;
	struct graph g = { .rego = r, .edges = edges, .errors = errors };

	g.node = rf_arena_array(a, struct rf_rego_node *, r->n_nodes + 1);
	g.first = rf_arena_array(a, uint32_t, r->n_groups + 1);
	g.state = rf_arena_array(a, uint8_t, r->n_groups + r->n_nodes + 1);
	g.order = rf_arena_array(a, uint32_t, r->n_groups + 1);
	list_nodes(&g, r->root);
	follow_edges(&g);
	for (uint32_t i = 0; i < r->n_groups && !g.found; i++) {
		enter(&g, i);
		walk(&g);
	}
	if (g.full && !g.found)
		rf_ra_complain(errors, "rego_compile_error", NULL, (struct rf_ra_loc){ 0 },
			       "references with variables lead to more than %d rules; name them",
			       TARGETS_MAX);
	rf_vec_done(&g.target);
	rf_vec_done(&g.stack);
	return g.order;
}
