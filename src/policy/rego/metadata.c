/* rego.metadata.chain() and rego.metadata.rule(): what the annotations around a rule say is known when it
 * is compiled, so the calls become constants. */
#include "policy/rego/compile.h"

/* --- which annotations hold where --- */

static const struct rf_rv **by_node(struct rf_rego *r)
{
	return rf_arena_array(&r->arena, const struct rf_rv *, r->n_nodes + 1);
}

static void note(struct rf_rc_notes *n, const struct rf_rv **slot, const struct rf_rv *v,
		 const struct rf_ra_module *m, struct rf_ra_loc loc)
{
	struct rf_rv scope = RF_RV_NIL;

	if (v == NULL)
		return;
	if (*slot == NULL) {
		*slot = v;
		return;
	}
	if (n->twice == NULL && rf_rv_get_str(*v, RF_LIT("scope"), &scope)) {
		n->twice = m;
		n->twice_loc = loc;
		n->twice_scope = rf_rv_text(scope);
	}
}

static struct rf_rego_node *node_of(struct rf_rego *r, const struct rf_ra_module *m)
{
	struct rf_rego_node *n = r->root;

	for (uint32_t i = 0; n != NULL && i < m->n_package; i++)
		n = rf_rego_child(n, m->package[i]);
	return n;
}

struct rf_rc_notes *rf_rc_notes(struct rf_rego *r)
{
	struct rf_rc_notes *n = rf_arena_new(&r->arena, struct rf_rc_notes);

	n->package = by_node(r);
	n->path = by_node(r);
	for (uint32_t i = 0; i < r->n_modules; i++) {
		const struct rf_ra_module *m = r->module[i];
		const struct rf_rego_node *at = node_of(r, m);

		if (at == NULL)
			continue;
		note(n, &n->package[at->id], m->metadata, m, m->package_loc);
		note(n, &n->path[at->id], m->subpackages, m, m->package_loc);
	}
	return n;
}

void rf_rc_note_document(struct rf_rc_notes *n, const struct rf_rego_node *at,
			 const struct rf_ra_rule *rule, const struct rf_ra_module *m)
{
	note(n, &n->path[at->id], rule->document, m, rule->loc);
}

/* --- as values --- */

static bool is_empty(struct rf_rv v)
{
	switch (v.type) {
	case RF_RV_NULL:
		return true;
	case RF_RV_BOOL:
		return !v.b;
	case RF_RV_NUMBER:
		return false;
	default:
		return v.n == 0;
	}
}

/* What OPA leaves out: what says nothing, and the settings of its own compiler. */
static struct rf_rv told(struct rf_rc *c, struct rf_rv v)
{
	struct rf_rv_pair *pairs = rf_arena_array(c->a, struct rf_rv_pair, v.n + 1);
	uint32_t n = 0;

	for (uint32_t i = 0; v.type == RF_RV_OBJECT && i < v.n; i++)
		if (!is_empty(v.pairs[i].value) &&
		    !rf_str_is(rf_rv_text(v.pairs[i].key), "compile"))
			pairs[n++] = v.pairs[i];
	return rf_rv_object(pairs, n, NULL);
}

static struct rf_rv text_of(struct rf_rc *c, struct rf_rv v)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (v.type == RF_RV_STRING)
		return v;
	rf_rv_print(&b, v);
	return rf_rv_str(rf_arena_str(c->a, rf_buf_str(&b)));
}

/* The names of a node, then the constants of the rule's name that lead on from it. */
static struct rf_rv path_value(struct rf_rc *c, const struct rf_rego_node *n,
			       const struct rf_ra_term *ref, uint32_t ground)
{
	uint32_t more = 0;
	struct rf_rv *items;

	while (ref && ref->kind == RF_RA_REF && ground + more < ref->n &&
	       ref->item[ground + more]->kind == RF_RA_VALUE)
		more++;
	items = rf_arena_array(c->a, struct rf_rv, n->depth + more + 1);
	for (uint32_t i = 0; i < more; i++)
		items[n->depth + i] = text_of(c, ref->item[ground + i]->value);
	more += n->depth;
	for (; n->parent; n = n->parent)
		items[n->depth - 1] = rf_rv_str(n->name);
	return rf_rv_array(items, more);
}

static struct rf_rv link_value(struct rf_rc *c, struct rf_rv path, const struct rf_rv *annotations)
{
	struct rf_rv_pair *pairs = rf_arena_array(c->a, struct rf_rv_pair, 2);

	pairs[0] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("path")), path };
	if (annotations)
		pairs[1] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("annotations")),
						told(c, *annotations) };
	return rf_rv_object(pairs, annotations ? 2 : 1, NULL);
}

/* The rule's own, from the nearest on; then its document's, its package's, and those of the packages
 * around it, from the inside out. */
static struct rf_rv chain_value(struct rf_rc *c)
{
	const struct rf_rc_notes *n = c->notes;
	const struct rf_rego_node *at = c->group->node;
	struct rf_rv own = path_value(c, at, c->head, c->ground);
	struct rf_rv package = path_value(c, c->package, NULL, 0);
	uint32_t rules = c->rule ? c->rule->n_metadata : 0, k = 0;
	struct rf_rv *items = rf_arena_array(c->a, struct rf_rv, rules + c->package->depth + 4);

	for (uint32_t i = rules; i > 0; i--)
		items[k++] = link_value(c, own, &c->rule->metadata[i - 1]);
	if (rules == 0)
		items[k++] = link_value(c, own, NULL);
	if (n->path[at->id])
		items[k++] = link_value(c, own, n->path[at->id]);
	if (n->package[c->package->id])
		items[k++] = link_value(c, package, n->package[c->package->id]);
	for (const struct rf_rego_node *up = c->package; up->parent; up = up->parent)
		if (n->path[up->id])
			items[k++] = link_value(c, path_value(c, up, NULL, 0), n->path[up->id]);
	return rf_rv_array(items, k);
}

static void complain_twice(struct rf_rc *c)
{
	struct rf_rc_notes *n = c->notes;

	if (n->twice == NULL)
		return;
	rf_ra_complain(c->errors, "rego_type_error", n->twice, n->twice_loc,
		       "%.*s annotation redeclared", RF_STR(n->twice_scope));
	n->twice = NULL;
}

bool rf_rc_metadata(struct rf_rc *c, const struct rf_rb *builtin, struct rf_rv *ret)
{
	struct rf_str name = rf_str(builtin->name);
	bool chain = rf_str_is(name, "rego.metadata.chain");

	if (!c->notes || !c->group || (!chain && !rf_str_is(name, "rego.metadata.rule")))
		return false;
	complain_twice(c);
	if (chain)
		*ret = chain_value(c);
	else
		*ret = c->rule && c->rule->n_metadata
			       ? told(c, c->rule->metadata[c->rule->n_metadata - 1])
			       : rf_rv_object(NULL, 0, NULL);
	return true;
}
