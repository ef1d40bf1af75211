/* `policy test`: rules named test_... must be defined and not false; todo_test_... wait. */
#include "cli/policy.h"

struct tests {
	struct rf_arena *a;
	struct rf_rego *rego;
	struct rf_map seen;
	struct rf_rego_tally tally;
	struct rf_policy_coverage coverage;
};

struct one_test {
	struct rf_buf path; /* data["a"]["b"]["test_x"]: any name is safe */
	struct rf_str name; /* the last part that is a constant */
	bool by_case;	    /* test_x[note]: which cases there are is not known from the answer */
};

static void add_part(struct one_test *t, struct rf_str name)
{
	rf_buf_add_c(&t->path, '[');
	rf_json_write_str(&t->path, name);
	rf_buf_add_c(&t->path, ']');
	t->name = name;
}

static void name_test(const struct rf_ra_module *m, const struct rf_ra_rule *rule, struct one_test *t)
{
	const struct rf_ra_term *ref = rule->ref;
	uint32_t i = 1;

	rf_buf_puts(&t->path, "data");
	for (uint32_t p = 0; p < m->n_package; p++)
		add_part(t, m->package[p]);
	add_part(t, ref->kind == RF_RA_REF ? ref->item[0]->name : ref->name);
	for (; ref->kind == RF_RA_REF && i < ref->n; i++) {
		if (ref->item[i]->kind != RF_RA_VALUE || ref->item[i]->value.type != RF_RV_STRING)
			break;
		add_part(t, rf_rv_text(ref->item[i]->value));
	}
	t->by_case = rule->contains || (ref->kind == RF_RA_REF && i < ref->n);
}

/* JSON on standard output stands alone. */
static FILE *to_people(const struct tests *s)
{
	return s->coverage.json ? stderr : stdout;
}

static void tell(const struct tests *s, const struct rf_ra_module *m, const struct rf_ra_rule *rule,
		 const struct one_test *t, const char *what)
{
	fprintf(to_people(s), "%.*s:%u: %s: %s\n", RF_STR(m->file), rule->loc.row, t->path.p, what);
}

/* NULL: passed. */
static const char *ask(struct tests *s, const struct one_test *t, struct rf_err *err)
{
	rf_auto(arena) arena = RF_ARENA_CAPPED(RF_POLICY_MEMORY);
	struct rf_rego_run run = { .arena = &arena,
				   .strict = rf_policy_opt.strict,
				   .coverage = s->coverage.wanted ? &s->coverage.seen : NULL };
	struct rf_ra_errors errors = { .arena = &arena };
	struct rf_rego_query *q = NULL;
	struct rf_rego_result result = { 0 };
	struct rf_rv value;
	const char *why = NULL;

	if (rf_rego_prepare(s->rego, rf_buf_str(&t->path), rf_policy_version(), &q, &errors) < 0)
		return "FAILED: the rule cannot be asked for";
	if (rf_rego_eval(q, &run, &result, err) < 0)
		why = rf_arena_printf(s->a, "ERROR: %s", err->msg).p;
	else if (!rf_rego_value(&result, &value))
		why = "FAILED: undefined";
	else if (rf_rv_is_false(value))
		why = "FAILED: false";
	rf_rego_query_free(q);
	return why;
}

static void run_test(struct tests *s, const struct rf_ra_module *m, const struct rf_ra_rule *rule,
		     const struct one_test *t)
{
	struct rf_err err = RF_ERR_INIT;
	const char *why;

	if (rf_map_set(&s->seen, rf_buf_str(&t->path), s) != NULL)
		return; /* another body of the same rule */
	if (t->by_case || rf_str_starts(t->name, RF_LIT("todo_test_"))) {
		s->tally.skipped++;
		tell(s, m, rule, t, t->by_case ? "SKIPPED: cases by name are not told apart; write a rule for each" :
					      "SKIPPED: to do");
		return;
	}
	why = ask(s, t, &err);
	s->tally.passed += why == NULL;
	s->tally.failed += why != NULL;
	if (why != NULL || rf_policy_opt.verbose)
		tell(s, m, rule, t, why != NULL ? why : "passed");
}

static bool is_test(const struct rf_ra_rule *rule, struct rf_str name)
{
	return !rule->is_function && !rule->is_default &&
	       (rf_str_starts(name, RF_LIT("test_")) || rf_str_starts(name, RF_LIT("todo_test_")));
}

static void run_module(struct tests *s, const struct rf_rego_source *source)
{
	struct rf_ra_errors errors = { .arena = s->a };
	struct rf_ra_module *m = NULL;

	if (rf_ra_parse(s->a, source->file, source->text, source->version, &m, &errors) < 0)
		return; /* cannot be: it was compiled */
	for (uint32_t i = 0; i < m->n_rules; i++) {
		struct one_test t = { .path = RF_BUF_INIT };

		name_test(m, m->rule[i], &t);
		if (is_test(m->rule[i], t.name))
			run_test(s, m, m->rule[i], &t);
		rf_buf_done(&t.path);
	}
}

/* The exit status. */
static int close_tests(struct tests *s)
{
	bool enough = !s->coverage.wanted || rf_policy_coverage_print(&s->coverage, s->rego, s->a);

	fprintf(to_people(s), "%zu passed, %zu failed, %zu skipped\n", s->tally.passed, s->tally.failed, s->tally.skipped);
	return s->tally.failed > 0 || !enough;
}

int rf_policy_test(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct tests s = { .a = a, .seen = RF_MAP_INIT };
	struct rf_policy_files f = { 0 };
	int r;

	if (rf_policy_coverage_options(&s.coverage, err) < 0 || rf_policy_load(a, argv, argc, true, &f, err) < 0 ||
	    (s.coverage.wanted ? rf_policy_compile_covered : rf_policy_compile)(a, &f, &s.rego, err) < 0)
		return -err->code;
	if (s.coverage.wanted)
		s.coverage.seen = rf_rego_coverage(s.rego, a);
	for (size_t i = 0; i < f.n; i++)
		run_module(&s, &f.source[i]);
	if (s.tally.passed + s.tally.failed + s.tally.skipped == 0)
		r = rf_fail(err, RF_NOT_FOUND, "test %s: there is no rule named test_... in its %zu .rego files", argv[0],
			    f.n);
	else
		r = close_tests(&s);
	rf_map_done(&s.seen);
	rf_rego_unref(s.rego);
	return r;
}
