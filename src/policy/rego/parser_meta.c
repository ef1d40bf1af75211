/* Annotations: comments that begin with METADATA, YAML below, about the statement that follows. */
#include "codec/yaml.h"
#include "policy/rego/parser.h"

struct note {
	struct rf_ra_loc loc;
	struct rf_json *v; /* an object */
	size_t about;	   /* statement that follows; past the end: none */
};

static bool is_head(const struct rf_ra_comment *c)
{
	return c->loc.col == 1 && rf_str_starts(rf_str_trim(c->text), RF_LIT("METADATA"));
}

/* The comment goes on with the block of the one before. */
static bool goes_on(const struct rf_ra_comment *c)
{
	return c->loc.col == 1 && c->loc.row == c[-1].loc.row + 1 && !is_head(c);
}

/* --- what the YAML means ---------------------------------------------------------------------- */

static struct rf_json *author_of(struct rf_arena *a, struct rf_str s)
{
	struct rf_json *o = rf_json_object(a);
	struct rf_str name = rf_str_trim(s), email = RF_STR_EMPTY;
	size_t at = name.n;

	while (at > 0 && name.p[at - 1] != ' ' && name.p[at - 1] != '\t')
		at--;
	if (name.n - at >= 2 && name.p[at] == '<' && name.p[name.n - 1] == '>') {
		email = rf_str_n(name.p + at + 1, name.n - at - 2);
		name = rf_str_trim(rf_str_n(name.p, at));
	}
	rf_json_set_str(a, o, "name", name);
	if (email.n > 0)
		rf_json_set_str(a, o, "email", email);
	return o;
}

static const char *authors(struct rf_arena *a, struct rf_json *list)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_json *x = list->items[i];

		if (rf_json_is(x, RF_JSON_STRING)) {
			if (rf_str_trim(x->text).n == 0)
				return "invalid author definition: author is an empty string";
			list->items[i] = author_of(a, x->text);
		} else if (!rf_json_is(x, RF_JSON_OBJECT) || (rf_json_str_at(x, "name").n == 0 &&
							      rf_json_str_at(x, "email").n == 0)) {
			return "invalid author definition: 'name' and/or 'email' values required "
			       "in object";
		}
	}
	return NULL;
}

static const char *related(struct rf_arena *a, struct rf_json *list)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_json *x = list->items[i];

		if (rf_json_is(x, RF_JSON_STRING) && x->text.n > 0)
			list->items[i] = rf_json_make(a, "{'ref':%j}", x);
		else if (rf_json_str_at(x, "ref").n == 0)
			return "invalid related-resource definition: 'ref' value required";
	}
	return NULL;
}

static bool is_list(const struct rf_json *v)
{
	return v == NULL || v->type == RF_JSON_ARRAY;
}

/* schemas: - path: schema   becomes   {path, schema} or {path, definition} */
static const char *schemas(struct rf_arena *a, struct rf_json *list)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_json *x = list->items[i], *path;

		if (!rf_json_is(x, RF_JSON_OBJECT) || x->n != 1)
			return "invalid schema declaration";
		path = rf_json_string(a, x->members[0].key);
		list->items[i] = rf_json_make(a,
					      rf_json_is(x->members[0].value, RF_JSON_STRING)
						      ? "{'path':%j,'schema':%j}"
						      : "{'path':%j,'definition':%j}",
					      path, x->members[0].value);
	}
	return NULL;
}

/* Brings the fields into the form rego.metadata gives them. What is wrong, or NULL. */
static const char *normalise(struct rf_arena *a, struct rf_json *v)
{
	static const char *const known[] = { "scope",	    "title",	     "entrypoint",
					     "description", "organizations", "related_resources",
					     "authors",	    "schemas",	     "compile",
					     "custom",	    "labels" };
	const char *wrong = NULL;

	for (uint32_t i = 0; i < v->n;) {
		bool keep = false;

		for (size_t k = 0; k < RF_COUNT(known); k++)
			keep |= rf_str_is(v->members[i].key, known[k]);
		if (keep && v->members[i].value->type != RF_JSON_NULL)
			i++;
		else
			rf_json_del(v, v->members[i].key);
	}
	if (!is_list(rf_json_at(v, "authors")) || !is_list(rf_json_at(v, "related_resources")) ||
	    !is_list(rf_json_at(v, "organizations")) || !is_list(rf_json_at(v, "schemas")))
		return "authors, organizations, related_resources and schemas are lists";
	wrong = authors(a, rf_json_at(v, "authors"));
	if (wrong == NULL)
		wrong = related(a, rf_json_at(v, "related_resources"));
	return wrong ? wrong : schemas(a, rf_json_at(v, "schemas"));
}

/* --- blocks ------------------------------------------------------------------------------------ */

/* The YAML of the comments [from, to), which follow the head. NULL: said why. */
static struct rf_json *block(struct rf_rp *p, struct rf_ra_loc loc, uint32_t from, uint32_t to)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;
	const char *wrong;

	for (uint32_t i = from; i < to; i++) {
		struct rf_str line = p->m->comment[i].text;

		if (line.n > 0 && line.p[0] == ' ')
			line = rf_str_skip(line, 1);
		rf_buf_add(&text, line);
		rf_buf_add_c(&text, '\n');
	}
	if (rf_str_trim(rf_buf_str(&text)).n == 0)
		return rf_rp_fail(p, loc, "expected METADATA block, found whitespace");
	if (rf_yaml_parse_core(p->a, rf_buf_str(&text), &docs, &err) < 0)
		return rf_rp_fail(p, loc, "yaml: %s", err.msg);
	if (rf_json_len(docs) != 1 || !rf_json_is(docs->items[0], RF_JSON_OBJECT))
		return rf_rp_fail(p, loc, "yaml: METADATA is not a mapping of names to values");
	wrong = normalise(p->a, docs->items[0]);
	return wrong ? rf_rp_fail(p, loc, "%s", wrong) : docs->items[0];
}

/* --- what they are about ----------------------------------------------------------------------- */

static struct rf_ra_rule *rule_at(const struct rf_rp *p, uint32_t at)
{
	uint32_t low = 0, high = p->m->n_rules;

	while (low < high) { /* they are in order */
		uint32_t mid = low + (high - low) / 2;

		if (p->m->rule[mid]->loc.at < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < p->m->n_rules && p->m->rule[low]->loc.at == at ? p->m->rule[low] : NULL;
}

static bool store(struct rf_rp *p, struct note *n, struct rf_str scope, struct rf_rv **slot)
{
	struct rf_rv *v = rf_rp_alloc(p, sizeof(*v));

	rf_json_set(p->a, n->v, RF_LIT("scope"), rf_json_string(p->a, scope));
	if (v == NULL || !rf_rv_from_json(p->a, n->v, v))
		return rf_rp_full(p) != NULL;
	*slot = v;
	return true;
}

/* A rule may have several blocks above it; the list has room for a power of two. */
static void store_more(struct rf_rp *p, struct note *n, struct rf_ra_rule *r)
{
	struct rf_rv *v = NULL, *more = r->metadata;

	if (!store(p, n, RF_LIT("rule"), &v) || v == NULL)
		return;
	if ((r->n_metadata & (r->n_metadata - 1)) == 0) {
		more = rf_rp_alloc(p, sizeof(*more) * (r->n_metadata ? 2 * r->n_metadata : 1));
		if (more == NULL)
			return;
		if (r->n_metadata)
			memcpy(more, r->metadata, r->n_metadata * sizeof(*more));
		r->metadata = more;
	}
	more[r->n_metadata++] = *v;
}

static void wrong_scope(struct rf_rp *p, const struct note *n, struct rf_str scope,
			const char *want)
{
	rf_rp_fail(p, n->loc, "annotation scope '%.*s' must be applied to %s", RF_STR(scope), want);
}

static void attach(struct rf_rp *p, struct note *n)
{
	struct rf_str scope = rf_json_str_at(n->v, "scope");
	bool entry = rf_json_is_true(rf_json_at(n->v, "entrypoint"));
	bool package = n->about == 0 && p->statements.n > 0;
	struct rf_ra_rule *r =
		n->about < p->statements.n ? rule_at(p, p->statements.at[n->about].at) : NULL;

	if (scope.n == 0)
		scope = package	    ? RF_LIT("package")
			: r == NULL ? RF_LIT("import")
			: entry	    ? RF_LIT("document")
				    : RF_LIT("rule");
	if (entry && !rf_str_is(scope, "document") && !rf_str_is(scope, "package"))
		rf_rp_fail(p, n->loc,
			   "annotation entrypoint applied to non-document or package scope '%.*s'",
			   RF_STR(scope));
	else if (rf_str_is(scope, "rule"))
		r ? store_more(p, n, r) : wrong_scope(p, n, scope, "rule");
	else if (rf_str_is(scope, "document"))
		r ? (void)store(p, n, scope, &r->document) : wrong_scope(p, n, scope, "rule");
	else if (rf_str_is(scope, "package"))
		package ? (void)store(p, n, scope, &p->m->metadata)
			: wrong_scope(p, n, scope, "package");
	else if (rf_str_is(scope, "subpackages"))
		package ? (void)store(p, n, scope, &p->m->subpackages)
			: wrong_scope(p, n, scope, "package");
	else
		rf_rp_fail(p, n->loc,
			   "invalid annotation scope '%.*s'. Use one of 'rule', 'document', "
			   "'package', or 'subpackages'",
			   RF_STR(scope));
}

void rf_rp_metadata(struct rf_rp *p)
{
	size_t about = 0;

	for (uint32_t i = 0; i < p->m->n_comments && !p->fatal; i++) {
		const struct rf_ra_comment *c = &p->m->comment[i];
		struct note n = { .loc = c->loc };
		uint32_t to = i + 1;

		if (!is_head(c))
			continue;
		while (to < p->m->n_comments && goes_on(&p->m->comment[to]))
			to++;
		while (about < p->statements.n && p->statements.at[about].row <= c->loc.row)
			about++;
		n.about = about;
		n.v = block(p, n.loc, i + 1, to);
		if (n.v != NULL)
			attach(p, &n);
		i = to - 1;
	}
}
