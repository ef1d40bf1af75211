/* A module as S-expressions. Equal modules dump equally, however they were laid out. */
#include "policy/rego/ast.h"

static void dump_expr(struct rf_buf *out, const struct rf_ra_expr *e);

static void dump_term(struct rf_buf *out, const struct rf_ra_term *t);

static void dump_items(struct rf_buf *out, const char *what, struct rf_ra_term *const *item,
		       uint32_t n)
{
	rf_buf_printf(out, "(%s", what);
	for (uint32_t i = 0; i < n; i++) {
		rf_buf_add_c(out, ' ');
		dump_term(out, item[i]);
	}
	rf_buf_add_c(out, ')');
}

static void dump_comp(struct rf_buf *out, const char *what, const struct rf_ra_term *t)
{
	rf_buf_printf(out, "(%s ", what);
	if (t->comp.key != NULL) {
		dump_term(out, t->comp.key);
		rf_buf_add_c(out, ' ');
	}
	dump_term(out, t->comp.term);
	rf_buf_add_c(out, ' ');
	rf_ra_dump_body(out, t->comp.body);
	rf_buf_add_c(out, ')');
}

static void dump_term(struct rf_buf *out, const struct rf_ra_term *t)
{
	switch (t->kind) {
	case RF_RA_VALUE:
		rf_rv_print(out, t->value);
		break;
	case RF_RA_VAR:
		rf_buf_add(out, t->is_wild ? RF_LIT("_") : t->name);
		break;
	case RF_RA_REF:
		dump_items(out, "ref", t->item, t->n);
		break;
	case RF_RA_ARRAY:
		dump_items(out, "array", t->item, t->n);
		break;
	case RF_RA_SET:
		dump_items(out, "set", t->item, t->n);
		break;
	case RF_RA_OBJECT:
		dump_items(out, "object", t->item, t->n);
		break;
	case RF_RA_ARRAY_COMP:
		dump_comp(out, "array-of", t);
		break;
	case RF_RA_SET_COMP:
		dump_comp(out, "set-of", t);
		break;
	case RF_RA_OBJECT_COMP:
		dump_comp(out, "object-of", t);
		break;
	case RF_RA_CALL:
		dump_items(out, t->infix ? "infix" : "call", t->item, t->n);
		break;
	case RF_RA_TEMPLATE:
		dump_items(out, "template", t->item, t->n);
		break;
	case RF_RA_TEMPLATE_WITH:
		dump_expr(out, t->expr);
		break;
	}
}

static void dump_domain(struct rf_buf *out, const char *what, const struct rf_ra_expr *e)
{
	rf_buf_printf(out, "(%s ", what);
	if (e->key != NULL) {
		dump_term(out, e->key);
		rf_buf_add_c(out, ' ');
	}
	dump_term(out, e->value);
	rf_buf_add_c(out, ' ');
	dump_term(out, e->domain);
	if (e->body != NULL) {
		rf_buf_add_c(out, ' ');
		rf_ra_dump_body(out, e->body);
	}
	rf_buf_add_c(out, ')');
}

static void dump_logic(struct rf_buf *out, const char *what, const struct rf_ra_expr *e)
{
	rf_buf_printf(out, "(%s%s ", what, e->braces ? "{}" : "");
	rf_ra_dump_body(out, e->body);
	if (e->other != NULL) {
		rf_buf_puts(out, e->other_braces ? " {} " : " ");
		rf_ra_dump_body(out, e->other);
	}
	rf_buf_add_c(out, ')');
}

static void dump_plain(struct rf_buf *out, const struct rf_ra_expr *e)
{
	switch (e->kind) {
	case RF_RA_EXPR_TERM:
		dump_term(out, e->term);
		break;
	case RF_RA_EXPR_SOME:
		dump_items(out, "some", e->vars, e->n_vars);
		break;
	case RF_RA_EXPR_SOME_IN:
		dump_domain(out, "some-in", e);
		break;
	case RF_RA_EXPR_EVERY:
		dump_domain(out, "every", e);
		break;
	case RF_RA_EXPR_NOT_BODY:
		dump_logic(out, "not-body", e);
		break;
	case RF_RA_EXPR_OR:
		dump_logic(out, "or", e);
		break;
	case RF_RA_EXPR_AND:
		dump_logic(out, "and", e);
		break;
	}
}

static void dump_expr(struct rf_buf *out, const struct rf_ra_expr *e)
{
	if (e->n_with > 0)
		rf_buf_puts(out, "(with ");
	if (e->negated)
		rf_buf_puts(out, "(not ");
	dump_plain(out, e);
	if (e->negated)
		rf_buf_add_c(out, ')');
	for (uint32_t i = 0; i < e->n_with; i++) {
		rf_buf_puts(out, " (");
		dump_term(out, e->with[i].target);
		rf_buf_add_c(out, ' ');
		dump_term(out, e->with[i].value);
		rf_buf_add_c(out, ')');
	}
	if (e->n_with > 0)
		rf_buf_add_c(out, ')');
}

void rf_ra_dump_body(struct rf_buf *out, const struct rf_ra_body *b)
{
	rf_buf_add_c(out, '{');
	for (uint32_t i = 0; i < b->n; i++) {
		if (i > 0)
			rf_buf_puts(out, "; ");
		dump_expr(out, b->expr[i]);
	}
	rf_buf_add_c(out, '}');
}

/* In v1 = and := mean the same in heads. */
static void dump_value_and_body(struct rf_buf *out, const struct rf_ra_rule *r, bool v1)
{
	if (r->value != NULL) {
		rf_buf_puts(out, r->assigned || v1 ? " := " : " = ");
		dump_term(out, r->value);
	}
	if (r->body != NULL) {
		rf_buf_puts(out, r->has_if ? " if " : " ");
		rf_ra_dump_body(out, r->body);
	}
}

static void dump_metadata(struct rf_buf *out, const char *what, const struct rf_rv *v)
{
	if (v == NULL)
		return;
	rf_buf_printf(out, " (%s ", what);
	rf_rv_write_json(out, *v);
	rf_buf_add_c(out, ')');
}

static void dump_rule(struct rf_buf *out, const struct rf_ra_rule *r, bool v1)
{
	rf_buf_puts(out, r->is_default ? "(default " : "(rule ");
	dump_term(out, r->ref);
	if (r->is_function)
		rf_buf_add_c(out, ' ');
	if (r->is_function)
		dump_items(out, "args", r->args, r->n_args);
	if (r->contains) {
		rf_buf_puts(out, r->by_ref ? " [] " : " contains ");
		dump_term(out, r->element);
	}
	dump_value_and_body(out, r, v1);
	for (const struct rf_ra_rule *o = r->otherwise; o != NULL; o = o->otherwise) {
		rf_buf_puts(out, " (else");
		dump_value_and_body(out, o, v1);
		rf_buf_add_c(out, ')');
	}
	for (const struct rf_ra_rule *o = r->same_head; o != NULL; o = o->same_head) {
		rf_buf_puts(out, " (also");
		dump_value_and_body(out, o, v1);
		rf_buf_add_c(out, ')');
	}
	dump_metadata(out, "metadata", r->metadata);
	dump_metadata(out, "document", r->document);
	rf_buf_puts(out, ")\n");
}

void rf_ra_dump(struct rf_buf *out, const struct rf_ra_module *m)
{
	rf_buf_puts(out, "(package");
	for (uint32_t i = 0; i < m->n_package; i++) {
		rf_buf_add_c(out, ' ');
		rf_rv_print(out, rf_rv_str(m->package[i]));
	}
	dump_metadata(out, "metadata", m->metadata);
	dump_metadata(out, "subpackages", m->subpackages);
	rf_buf_puts(out, ")\n");
	for (uint32_t i = 0; i < m->n_imports; i++) {
		rf_buf_puts(out, "(import ");
		dump_term(out, m->import[i].path);
		if (m->import[i].alias.n > 0)
			rf_buf_printf(out, " as %.*s", RF_STR(m->import[i].alias));
		rf_buf_puts(out, ")\n");
	}
	for (uint32_t i = 0; i < m->n_rules; i++)
		dump_rule(out, m->rule[i], m->v1);
}
