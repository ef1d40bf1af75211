/* What is wrong with a module by itself: names that hide others, imports nobody uses. */
#include "policy/rego/compile.h"

static bool is_keyword(const struct rf_ra_import *im)
{
	const struct rf_ra_term *head = im->path->kind == RF_RA_REF ? im->path->item[0] : im->path;

	return head->kind == RF_RA_VAR &&
	       (rf_str_is(head->name, "rego") || rf_str_is(head->name, "future"));
}

static struct rf_str name_of(const struct rf_ra_import *im)
{
	const struct rf_ra_term *p = im->path;

	if (im->alias.n > 0)
		return im->alias;
	if (p->kind == RF_RA_VAR)
		return p->name;
	return rf_rv_text(p->item[p->n - 1]->value);
}

static struct rf_str text_of(struct rf_rc *c, const struct rf_ra_import *im)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_buf_puts(&out, "import ");
	if (im->path->kind == RF_RA_VAR)
		rf_buf_add(&out, im->path->name);
	for (uint32_t i = 0; im->path->kind == RF_RA_REF && i < im->path->n; i++) {
		const struct rf_ra_term *t = im->path->item[i];

		rf_buf_printf(&out, i ? ".%.*s" : "%.*s",
			      RF_STR(i ? rf_rv_text(t->value) : t->name));
	}
	if (im->alias.n > 0)
		rf_buf_printf(&out, " as %.*s", RF_STR(im->alias));
	return rf_arena_str(c->a, rf_buf_str(&out));
}

static void check_twice(struct rf_rc *c)
{
	const struct rf_ra_module *m = c->module;
	const struct rf_ra_import **first =
		rf_arena_array(c->a, const struct rf_ra_import *, m->n_imports + 1);
	struct rf_rc_names seen = { 0 };

	for (uint32_t i = 0; i < m->n_imports; i++) {
		uint32_t at = rf_rc_name_add(c, &seen, name_of(&m->import[i]));

		if (!first[at])
			first[at] = &m->import[i];
		else
			rf_ra_complain(c->errors, "rego_compile_error", m, m->import[i].loc,
				       "import must not shadow %.*s",
				       RF_STR(text_of(c, first[at])));
	}
}

struct rf_rc_imports *rf_rc_imports(struct rf_rc *c)
{
	const struct rf_ra_module *m = c->module;
	struct rf_rc_imports *l = rf_arena_new(c->a, struct rf_rc_imports);

	l->import = rf_arena_array(c->a, const struct rf_ra_import *, m->n_imports + 1);
	l->used = rf_arena_array(c->a, bool, m->n_imports + 1);
	for (uint32_t i = 0; i < m->n_imports; i++) {
		uint32_t at;

		if (is_keyword(&m->import[i]))
			continue;
		at = rf_rc_name_add(c, &l->names, name_of(&m->import[i]));
		if (!l->import[at])
			l->import[at] = &m->import[i];
	}
	return l;
}

void rf_rc_check_imports_used(struct rf_rc *c)
{
	for (uint32_t i = 0; i < c->imports->names.n; i++)
		if (!c->imports->used[i])
			rf_ra_complain(c->errors, "rego_compile_error", c->module,
				       c->imports->import[i]->loc, "%.*s unused",
				       RF_STR(text_of(c, c->imports->import[i])));
}

static bool is_root(struct rf_str name)
{
	return rf_str_is(name, "input") || rf_str_is(name, "data");
}

static void check_rule(struct rf_rc *c, const struct rf_ra_rule *r)
{
	struct rf_str name = r->ref->kind == RF_RA_REF ? r->ref->item[0]->name : r->ref->name;

	if (is_root(name))
		rf_ra_complain(c->errors, "rego_compile_error", c->module, r->loc,
			       "rules must not shadow %.*s (use a different rule name)",
			       RF_STR(name));
	for (uint32_t i = 0; i < r->n_args; i++)
		if (r->args[i]->kind == RF_RA_VAR && is_root(r->args[i]->name))
			rf_ra_complain(c->errors, "rego_compile_error", c->module, r->args[i]->loc,
				       "args must not shadow %.*s (use a different variable name)",
				       RF_STR(r->args[i]->name));
}

/* f(1) by itself is a rule, and not meant as one if f is a builtin. */
static void check_call(struct rf_rc *c, const struct rf_ra_rule *r)
{
	rf_auto(buf) name = RF_BUF_INIT;
	const struct rf_ra_term *ref = r->ref;

	if (!r->is_function || r->value || r->body || r->otherwise)
		return;
	rf_buf_add(&name, ref->kind == RF_RA_REF ? ref->item[0]->name : ref->name);
	for (uint32_t i = 1; ref->kind == RF_RA_REF && i < ref->n; i++) {
		if (ref->item[i]->kind != RF_RA_VALUE || ref->item[i]->value.type != RF_RV_STRING)
			return;
		rf_buf_printf(&name, ".%.*s", RF_STR(rf_rv_text(ref->item[i]->value)));
	}
	if (rf_rb_find(rf_buf_str(&name)))
		rf_ra_complain(c->errors, "rego_parse_error", c->module, r->loc,
			       "rule name conflicts with built-in function");
}

void rf_rc_check_module(struct rf_rc *c)
{
	const struct rf_ra_module *m = c->module;

	for (uint32_t i = 0; i < m->n_rules; i++)
		check_call(c, m->rule[i]);
	if (!m->v1 && !c->strict)
		return;
	check_twice(c);
	for (uint32_t i = 0; i < m->n_rules; i++)
		check_rule(c, m->rule[i]);
}

void rf_rc_complain_tries(struct rf_rc *c, struct rf_ra_loc loc)
{
	rf_ra_complain(c->errors, "rego_compile_error", c->module, loc,
		       "too many expressions that wait for each other; write them in the order they "
		       "are used, or as several rules");
}

bool rf_rc_tried(struct rf_rc *c, struct rf_ra_loc loc)
{
	if (++c->n_tried <= RF_RC_TRIES_MAX + c->more_tries)
		return false;
	rf_rc_complain_tries(c, loc);
	return true;
}
