/* Bytes choose a policy, an input and a query by a grammar; some of the text is the bytes themselves. What compiles
 * is evaluated with few steps and little memory: the answer is a result that prints and reads back as the same
 * value, or an error with a reason; asking again, also from other threads at once, gives the same. So does asking with
 * nothing of what makes policies faster, and asking each rule in one plan with the others. */
#include <pthread.h>
#include <stdio.h>

#include "policy/rego/rego.h"

#define STEPS 20000
#define MEMORY ((size_t)8 << 20)
#define TEXT_MAX 8192
#define THREADS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* --- policy text out of bytes --- */

struct gen {
	const uint8_t *p;
	size_t n;
	struct rf_buf out;
	int vars; /* v0 to v(vars-1) have been written */
	bool v0;
	size_t body, body_end; /* of the last rule, in out, */
	int body_vars;	       /* and of those it wrote */
};

/* 0 once the bytes are used up: the first choice is always the smallest. */
static uint32_t choose(struct gen *g, uint32_t of)
{
	uint32_t v;

	if (g->n == 0 || g->out.n > TEXT_MAX)
		return 0;
	v = *g->p++ % of;
	g->n--;
	return v;
}

static void say(struct gen *g, const char *s)
{
	rf_buf_puts(&g->out, s);
}

#define PICK(g, ...)                                                                               \
	do {                                                                                       \
		static const char *const of_[] = { __VA_ARGS__ };                                  \
		say(g, of_[choose(g, RF_COUNT(of_))]);                                             \
	} while (0)

static void term(struct gen *g, int depth);
static void body(struct gen *g, int depth, const char *sep);

/* The next few bytes themselves. */
static struct rf_str bytes(struct gen *g)
{
	size_t want = choose(g, 16), n = RF_MIN(want, g->n);
	struct rf_str s = rf_str_n((const char *)g->p, n);

	g->p += n;
	g->n -= n;
	return s;
}

static void number(struct gen *g)
{
	PICK(g, "1", "0", "2", "-1", "1.5", "10", "1e3", "-0", "0.1", "9223372036854775807", "-9223372036854775808",
	     "9223372036854775808", "1e400", "1e-400", "123456789012345678901234567890", "2.0", "64", "1e9999", "0.30000000000000004");
}

static void string(struct gen *g)
{
	if (choose(g, 4) == 3) {
		rf_json_write_str(&g->out, bytes(g));
		return;
	}
	PICK(g, "\"a\"", "\"\"", "\"b\"", "\"abc\"", "\"a.b\"", "\"%d %v\"", "\"[a-z]+\"", "\"*\"", "\"10.0.0.0/8\"", "\"1.2.3\"",
	     "\"{\\\"a\\\": [1]}\"", "\"a: 1\"", "\"2024-01-01T00:00:00Z\"", "\"YWJj\"", "\"1Ki\"", "\"/a/0\"", "\"\\u00e4\"", "`raw`");
}

static void value(struct gen *g, int depth)
{
	switch (choose(g, depth > 0 ? 9 : 4)) {
	case 0:
		number(g);
		break;
	case 1:
	case 2:
		string(g);
		break;
	case 3:
		PICK(g, "null", "true", "false", "[]", "{}");
		break;
	case 4:
	case 5:
		say(g, "[");
		for (uint32_t i = choose(g, 5); i > 0; i--) {
			value(g, depth - 1);
			say(g, i > 1 ? ", " : "");
		}
		say(g, "]");
		break;
	default:
		say(g, "{\"a\": ");
		value(g, depth - 1);
		say(g, ", \"b\": ");
		value(g, depth - 1);
		say(g, "}");
	}
}

static void variable(struct gen *g)
{
	rf_buf_printf(&g->out, "v%u", choose(g, (uint32_t)g->vars + 1));
}

static void fresh(struct gen *g)
{
	rf_buf_printf(&g->out, "v%d", g->vars++);
}

static void ref(struct gen *g, int depth)
{
	PICK(g, "input", "input.a", "data.t.r0", "r1", "data.d", "r2", "input.b", "data", "data.t", "r0");
	for (uint32_t i = choose(g, 4); i > 0; i--) {
		switch (choose(g, 5)) {
		case 0:
			say(g, ".a");
			break;
		case 1:
			say(g, "[_]");
			break;
		case 2:
			say(g, "[0]");
			break;
		case 3:
			say(g, "[");
			variable(g);
			say(g, "]");
			break;
		default:
			say(g, "[");
			term(g, depth - 1);
			say(g, "]");
		}
	}
}

static void call(struct gen *g, int depth)
{
	uint32_t high = choose(g, 256);
	const struct rf_rb *b = rf_rb_at((high * 256 + choose(g, 256)) % rf_rb_count());
	uint32_t n = b->n_args;

	if (choose(g, 8) == 7) {
		say(g, "f(");
		n = 2;
	} else {
		rf_buf_printf(&g->out, "%s(", b->name);
	}
	for (uint32_t i = 0; i < n; i++) {
		say(g, i ? ", " : "");
		term(g, depth - 1);
	}
	say(g, ")");
}

static void comprehension(struct gen *g, int depth)
{
	uint32_t kind = choose(g, 3);

	say(g, kind ? "{" : "[");
	variable(g);
	if (kind == 2) {
		say(g, ": ");
		term(g, depth - 1);
	}
	say(g, " | ");
	body(g, depth - 1, "; ");
	say(g, kind ? "}" : "]");
}

static void term(struct gen *g, int depth)
{
	switch (choose(g, depth > 0 ? 14 : 6)) {
	case 0:
		number(g);
		break;
	case 1:
		string(g);
		break;
	case 2:
	case 3:
		variable(g);
		break;
	case 4:
	case 5:
		ref(g, depth);
		break;
	case 6:
	case 7:
	case 8:
		call(g, depth);
		break;
	case 9:
		comprehension(g, depth);
		break;
	case 10:
		say(g, "(");
		term(g, depth - 1);
		PICK(g, " + ", " - ", " * ", " / ", " % ", " | ", " & ", " == ", " < ", " in ");
		term(g, depth - 1);
		say(g, ")");
		break;
	case 11:
		PICK(g, "[", "{");
		term(g, depth - 1);
		say(g, ", ");
		term(g, depth - 1);
		PICK(g, "]", "}");
		break;
	case 12:
		value(g, 2);
		break;
	default:
		say(g, "{");
		term(g, depth - 1);
		say(g, ": ");
		term(g, depth - 1);
		say(g, "}");
	}
}

static void expression(struct gen *g, int depth)
{
	switch (choose(g, 14)) {
	case 0:
	case 1:
		fresh(g);
		say(g, " := ");
		term(g, depth);
		break;
	case 2:
	case 3:
		term(g, depth);
		PICK(g, " = ", " == ", " != ", " < ", " >= ", " in ");
		term(g, depth);
		break;
	case 4:
		say(g, "some ");
		fresh(g);
		say(g, " in ");
		term(g, depth);
		break;
	case 5:
		say(g, "some ");
		fresh(g);
		say(g, ", ");
		fresh(g);
		say(g, " in ");
		term(g, depth);
		break;
	case 6:
		say(g, "not ");
		term(g, depth);
		break;
	case 7:
		say(g, "every ");
		fresh(g);
		say(g, " in ");
		term(g, depth - 1);
		say(g, " { ");
		body(g, depth - 1, "; ");
		say(g, " }");
		break;
	case 8:
		term(g, depth);
		PICK(g, " with input as ", " with input.a as ", " with data.d as ", " with data.t.r0 as ", " with count as ");
		term(g, 1);
		break;
	case 9:
		say(g, "[");
		fresh(g);
		say(g, ", ");
		variable(g);
		say(g, "] = ");
		term(g, depth);
		break;
	case 10:
		say(g, "walk(");
		term(g, depth);
		say(g, ", [");
		fresh(g);
		say(g, ", ");
		fresh(g);
		say(g, "])");
		break;
	case 11:
		rf_buf_add(&g->out, bytes(g));
		break;
	default:
		term(g, depth);
	}
}

static void body(struct gen *g, int depth, const char *sep)
{
	for (uint32_t i = choose(g, 3) + 1; i > 0; i--) {
		if (depth > 0)
			expression(g, depth);
		else
			term(g, 0);
		say(g, i > 1 ? sep : "");
	}
}

/* A set of which others ask for a part. */
static void parts(struct gen *g, const char *iff)
{
	static const char *const open[] = { " contains ", "[" }, *const close[] = { "", "]" };

	rf_buf_printf(&g->out, "g%s{\"m\": v0, \"f\": v1}%s %s{ v0 := input.a[v1]", open[g->v0], close[g->v0], iff);
	PICK(g, "", "[_]", ".a", "[_].b");
	say(g, "; ");
	g->vars = 2;
	body(g, 1, "; ");
	rf_buf_printf(&g->out, " }\nr0%sv0%s %s{ g[{\"m\": v0, \"f\": ", open[g->v0], close[g->v0], iff);
	PICK(g, "\"a\"", "\"b\"", "0", "1.0", "v1");
	say(g, "}] }\n");
}

/* Begins as the rule before, often. */
static void rule_body(struct gen *g)
{
	size_t from;

	if (g->body_end > g->body && g->vars == 0 && choose(g, 2) == 1 && g->out.n < TEXT_MAX) {
		rf_auto(buf) same = RF_BUF_INIT;

		rf_buf_add(&same, rf_str_n(g->out.p + g->body, g->body_end - g->body));
		g->vars = g->body_vars;
		rf_buf_add(&g->out, rf_buf_str(&same));
		say(g, "\n\t");
	}
	from = g->out.n;
	body(g, 2, "\n\t");
	g->body = from;
	g->body_end = g->out.n;
	g->body_vars = g->vars;
}

static void rule(struct gen *g)
{
	const char *iff = g->v0 ? "" : "if ";

	g->vars = 0;
	switch (choose(g, 9)) {
	case 0:
	case 1:
		PICK(g, "r0", "r1", "r2");
		say(g, " := ");
		term(g, 1);
		break;
	case 2:
		PICK(g, "r0", "r1", "r2");
		say(g, g->v0 ? "[" : " contains ");
		term(g, 1);
		say(g, g->v0 ? "]" : "");
		break;
	case 3:
		PICK(g, "r0[", "r1[", "r2[", "r0.a[");
		variable(g);
		say(g, "] := ");
		term(g, 1);
		break;
	case 4:
		say(g, "f(");
		fresh(g);
		say(g, ", ");
		fresh(g);
		say(g, ") := ");
		term(g, 1);
		break;
	case 5:
		PICK(g, "default r0 := ", "default r1 := ", "default f(_, _) := ");
		value(g, 2);
		say(g, "\n");
		return;
	case 6:
		rf_buf_add(&g->out, bytes(g));
		say(g, "\n");
		return;
	case 8:
		parts(g, iff);
		return;
	default:
		PICK(g, "r0", "r1", "r2");
	}
	rf_buf_printf(&g->out, " %s{\n\t", iff);
	rule_body(g);
	say(g, "\n}");
	while (choose(g, 4) == 3) {
		say(g, " else := ");
		term(g, 1);
		rf_buf_printf(&g->out, " %s{ ", iff);
		body(g, 1, "; ");
		say(g, " }");
	}
	say(g, "\n");
}

static void module(struct gen *g)
{
	g->v0 = choose(g, 4) == 3;
	say(g, "package t\n");
	if (g->v0)
		say(g, "import future.keywords\n");
	for (uint32_t i = choose(g, 5) + 1; i > 0; i--)
		rule(g);
}

/* --- evaluating --- */

struct once {
	const struct rf_rego_query *query;
	const struct rf_rv *input;
	int rc;
	struct rf_buf text; /* of all answers, or of the error */
};

/* The printer writes some characters as Go quotes them, which Rego's own parser does not read. */
static bool has_go_escape(struct rf_str s)
{
	return rf_str_contains(s, RF_LIT("\\x")) || rf_str_contains(s, RF_LIT("\\a")) ||
	       rf_str_contains(s, RF_LIT("\\v")) || rf_str_contains(s, RF_LIT("\\U"));
}

static void refuse(const struct rf_buf *text, const struct rf_ra_errors *errors)
{
	rf_auto(buf) why = RF_BUF_INIT;

	rf_ra_print_errors(&why, errors);
	fprintf(stderr, "%.*s\ndoes not read back: %.*s\n", RF_STR(rf_buf_str(text)), RF_STR(rf_buf_str(&why)));
	rf_assert(false);
}

/* What prints reads back as the same, as Rego and, where that says everything, as JSON. */
static void check_value(struct rf_rv v)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	rf_auto(buf) json = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rv again;

	rf_rv_print(&text, v);
	if (rf_ra_parse_value(&a, rf_buf_str(&text), &again, &errors) == 0)
		rf_assert(rf_rv_eq(v, again));
	else if (text.n <= 200 && !has_go_escape(rf_buf_str(&text))) /* longer: may be beyond the parser's caps */
		refuse(&text, &errors);
	rf_rv_write_json(&json, v);
	rf_assert(rf_rv_parse_json(&a, rf_buf_str(&json), &again, NULL) == 0 || json.n > 200 || v.type == RF_RV_OBJECT);
}

static void *evaluate(void *arg)
{
	struct once *o = arg;
	rf_auto(arena) a = RF_ARENA_CAPPED(MEMORY);
	struct rf_err err = RF_ERR_INIT;
	struct rf_rego_result result = { 0 };
	struct rf_rego_run run = {
		.arena = &a, .input = o->input, .steps = STEPS, .now_ns = INT64_C(1700000000123456789), .seed = 1
	};

	o->rc = rf_rego_eval(o->query, &run, &result, &err);
	if (o->rc < 0) {
		rf_assert(err.code == -o->rc && err.msg[0] != '\0');
		rf_assert(err.code == RF_INVALID || err.code == RF_EXHAUSTED);
		rf_buf_puts(&o->text, err.msg);
		return NULL;
	}
	for (size_t i = 0; i < result.n; i++) {
		check_value(result.answer[i].bindings);
		check_value(result.answer[i].expressions);
		rf_rv_print(&o->text, result.answer[i].bindings);
		rf_rv_print(&o->text, result.answer[i].expressions);
	}
	return NULL;
}

/* Whether memory or steps run out first may differ where both are near; the answers may not. */
static void check_same(const struct once *x, const struct once *y)
{
	rf_assert(x->rc == y->rc && rf_str_eq(rf_buf_str(&x->text), rf_buf_str(&y->text)));
}

static void check_query(const struct rf_rego_query *q, const struct rf_rv *input, bool threads)
{
	struct once first = { .query = q, .input = input }, again = first, at_once[THREADS];
	pthread_t thread[THREADS];

	evaluate(&first);
	evaluate(&again);
	check_same(&first, &again);
	for (int i = 0; threads && i < THREADS; i++) {
		at_once[i] = (struct once){ .query = q, .input = input };
		rf_assert(pthread_create(&thread[i], NULL, evaluate, &at_once[i]) == 0);
	}
	for (int i = 0; threads && i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		check_same(&first, &at_once[i]);
		rf_buf_done(&at_once[i].text);
	}
	rf_buf_done(&first.text);
	rf_buf_done(&again.text);
}

/* Steps and memory may run out with the one and not with the other; a conflict may lie in what the faster one does not
 * need, never the other way round. */
static void check_faster(const struct once *plain, const struct once *faster, struct rf_str policy)
{
	if (plain->rc == -RF_EXHAUSTED || faster->rc == -RF_EXHAUSTED || plain->rc == -RF_INVALID)
		return;
	if (plain->rc == faster->rc && rf_str_eq(rf_buf_str(&plain->text), rf_buf_str(&faster->text)))
		return;
	fprintf(stderr, "%.*s\nplain: %.*s\nfaster: %.*s\n", RF_STR(policy), RF_STR(rf_buf_str(&plain->text)),
		RF_STR(rf_buf_str(&faster->text)));
	rf_assert(false);
}

#define RULES 3 /* r0 to r2 */
#define VALUES 2 /* under the key that each question has for itself */
#define QUESTIONS (2 * RULES * VALUES)

struct question {
	struct rf_rego_query *plain, *faster;
	const struct rf_rv *input; /* all of it */
	uint32_t number;
};

/* The answer of a joint plan, as evaluate writes it. */
static void ask(struct rf_rego_round *round, uint32_t number, struct once *o)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;

	o->rc = rf_rego_ask_joint(round, number, &v, &err);
	if (o->rc < 0)
		rf_assert(err.code == -o->rc && err.msg[0] != '\0');
	if (o->rc > 0)
		rf_rv_print(&o->text, v);
	o->rc = RF_MIN(o->rc, 0);
}

static void ask_plain(const struct question *q, struct once *o)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(MEMORY);
	struct rf_rego_run run = {
		.arena = &a, .input = q->input, .steps = STEPS, .now_ns = INT64_C(1700000000123456789), .seed = 1
	};
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv v;

	o->rc = rf_rego_ask(q->plain, &run, &v, &err);
	if (o->rc > 0)
		rf_rv_print(&o->text, v);
	o->rc = RF_MIN(o->rc, 0);
}

/* Every rule, twice, with the value that the input has under the key and with another. */
static void check_questions(const struct question *q, size_t n, struct rf_rego_joint *j, struct rf_rv rest, struct rf_str policy)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(8 * MEMORY);
	struct rf_rego_run run = {
		.arena = &a, .input = &rest, .steps = STEPS, .now_ns = INT64_C(1700000000123456789), .seed = 1
	};
	struct rf_rego_round *round = rf_rego_begin(j, &run);

	rf_assert(round != NULL);
	for (size_t i = 0; i < 2 * n; i++) {
		struct once want = { .rc = 0 }, have = want;

		ask_plain(&q[i % n], &want);
		ask(round, q[i % n].number, &have);
		check_faster(&want, &have, policy);
		rf_buf_done(&want.text);
		rf_buf_done(&have.text);
	}
}

/* The input with another value under "a"; with none: without it. */
static struct rf_rv input_with(struct rf_arena *a, struct rf_rv input, const struct rf_rv *v)
{
	struct rf_rv_pair *pair = rf_arena_array(a, struct rf_rv_pair, input.n + 1);
	uint32_t n = 0;

	for (uint32_t i = 0; i < input.n; i++)
		if (input.pairs[i].key.type != RF_RV_STRING || !rf_str_is(rf_rv_text(input.pairs[i].key), "a"))
			pair[n++] = input.pairs[i];
	if (v)
		pair[n++] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("a")), *v };
	return rf_rv_object(pair, n, NULL);
}

static void check_joint(struct rf_rego *plain, struct rf_rego *r, const struct rf_rv *input, enum rf_ra_version version,
			struct rf_str policy)
{
	static const char *const name[RULES] = { "data.t.r0", "data.t.r1", "data.t.r2" };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_rego_joint *j = rf_rego_joint_new();
	struct question q[QUESTIONS];
	struct rf_rv value[VALUES], whole[VALUES], none[] = { rf_rv_int(1) };
	size_t n = 0;

	if (!input || input->type != RF_RV_OBJECT || !rf_rv_get_str(*input, RF_LIT("a"), &value[0])) {
		rf_rego_joint_free(j);
		return;
	}
	value[1] = rf_rv_array(none, 1);
	for (size_t k = 0; k < VALUES; k++)
		whole[k] = input_with(&a, *input, &value[k]);
	for (size_t i = 0; i < QUESTIONS; i++) {
		struct rf_ra_errors errors = { .arena = &a };

		q[n] = (struct question){ .input = &whole[i % VALUES] };
		if (rf_rego_prepare(r, rf_str(name[i / VALUES % RULES]), version, &q[n].faster, &errors) < 0)
			continue;
		rf_assert(rf_rego_prepare(plain, rf_str(name[i / VALUES % RULES]), version, &q[n].plain, &errors) == 0);
		q[n].number = rf_rego_join(j, q[n].faster, RF_LIT("a"), value[i % VALUES]);
		n++;
	}
	if (n > 0)
		check_questions(q, n, j, input_with(&a, *input, NULL), policy);
	rf_rego_joint_free(j);
	for (size_t i = 0; i < n; i++) {
		rf_rego_query_free(q[i].plain);
		rf_rego_query_free(q[i].faster);
	}
}

/* r and q are of the same text, with all that makes them faster. */
static void check_plain(const struct rf_rego_source *source, struct rf_rego *r, const struct rf_rego_query *q,
			struct rf_str query, const struct rf_rv *input)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(64u << 20);
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_query *plain_q = NULL;
	struct rf_rego *plain = NULL;
	struct once want = { .input = input }, have = { .query = q, .input = input };

	rf_assert(rf_rego_compile_plain(source, 1, NULL, &plain, &errors) == 0);
	rf_assert(rf_rego_prepare(plain, query, source->version, &plain_q, &errors) == 0);
	want.query = plain_q;
	evaluate(&want);
	evaluate(&have);
	check_faster(&want, &have, source->text);
	check_joint(plain, r, input, source->version, source->text);
	rf_buf_done(&want.text);
	rf_buf_done(&have.text);
	rf_rego_query_free(plain_q);
	rf_rego_unref(plain);
}

static void check_policy(struct rf_str text, enum rf_ra_version version, struct rf_str query, const struct rf_rv *input,
			 bool threads)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(64u << 20);
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_source source = { RF_LIT("fuzz.rego"), text, version };
	struct rf_rego_query *q = NULL;
	struct rf_rego *r = NULL;

	if (rf_rego_compile(&source, 1, NULL, &r, &errors) < 0) {
		rf_assert(errors.n > 0 && r == NULL);
		return;
	}
	if (rf_rego_prepare(r, query, version, &q, &errors) == 0) {
		check_query(q, input, threads);
		check_plain(&source, r, q, query, input);
	} else {
		rf_assert(errors.n > 0 && q == NULL);
	}
	rf_rego_query_free(q);
	rf_rego_unref(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	static const char *const queries[] = { "data.t", "data.t.r0", "x := data.t.r0[y]", "data.t.f(1, input.a)",
					       "x := data.t.r1; not data.t.r2", "walk(data.t, [p, x])" };
	rf_auto(arena) a = RF_ARENA_CAPPED(16u << 20);
	struct gen g = { .p = data, .n = n };
	bool threads = choose(&g, 16) == 15;
	const char *query = queries[choose(&g, RF_COUNT(queries))];
	rf_auto(buf) json = RF_BUF_INIT;
	struct rf_rv input;
	bool has_input;

	value(&g, 4);
	json = g.out;
	g.out = (struct rf_buf)RF_BUF_INIT;
	has_input = rf_rv_parse_json(&a, rf_buf_str(&json), &input, NULL) == 0;
	module(&g);
	check_policy(rf_buf_str(&g.out), g.v0 ? RF_RA_V0 : RF_RA_V1, rf_str(query), has_input ? &input : NULL, threads);
	rf_buf_done(&g.out);
	return 0;
}
