/* The book: which version of each policy is wanted, which one is in force, and asking them all. */
#include "policy/book.h"

#include <stdio.h>

#include "policy/rego/rego.h"

#define MAPS_MAX 256
#define MODULES_MAX 4096 /* of all ConfigMaps together */
#define SCRATCH_MAX RF_GK_MEMORY
#define TAIL_MAX 32 /* of "and N more" */

/* --- what the book holds -------------------------------------------------------------------- */

/* One version of an object, and of a ConfigMap its modules. */
struct rf_book_version {
	struct rf_arena arena;
	struct rf_json *object; /* apiVersion, kind, the name, and what is judged: spec or data */
	struct rf_rego_source *source;
	size_t n_sources;
};

enum page_type { TEMPLATE, CONSTRAINT, MAP, NONE };

/* An object of the cluster. wanted is what the cluster says (NULL: it is gone, but what others need of it
 * is kept); force is what judges (NULL: nothing). Often the same. */
struct rf_book_page {
	enum page_type type;
	struct rf_arena arena; /* kind and name */
	struct rf_str kind;    /* of constraints, and the one a template makes; of maps empty */
	struct rf_str name;
	struct rf_book_version *wanted, *force;
	struct rf_err problem; /* why wanted is not in force */
};

/* One set to be asked: data.kubernetes.admission....deny or warn. */
struct ask {
	struct rf_str var;   /* of the query */
	struct rf_str label; /* the package, for people */
	bool warn;
};

/* All plain modules in force, compiled as one. */
struct rf_book_plain {
	struct rf_arena arena;
	struct rf_rego *rego;
	struct rf_rego_query *query; /* NULL: no package has deny or warn */
	RF_VEC(struct ask) asks;
	bool reads_inventory;
};

struct rf_book {
	RF_VEC(struct rf_book_page *) pages;
	struct rf_gk *gk;
	size_t n_constraints; /* in force */
	struct rf_book_plain *plain; /* NULL: none */
};

static void rf_book_version_free(struct rf_book_version *v)
{
	if (!v)
		return;
	rf_arena_done(&v->arena);
	free(v);
}
RF_DEFINE_AUTO_PTR(book_version);

static void rf_book_plain_free(struct rf_book_plain *p)
{
	if (!p)
		return;
	rf_rego_query_free(p->query);
	rf_rego_unref(p->rego);
	rf_vec_done(&p->asks);
	rf_arena_done(&p->arena);
	free(p);
}
RF_DEFINE_AUTO_PTR(book_plain);

/* Neither may be lost twice: they are often one. */
static void set_wanted(struct rf_book_page *p, struct rf_book_version *v)
{
	if (p->wanted != p->force)
		rf_book_version_free(p->wanted);
	p->wanted = v;
}

static void set_force(struct rf_book_page *p, struct rf_book_version *v)
{
	if (p->force != p->wanted)
		rf_book_version_free(p->force);
	p->force = v;
	if (v == p->wanted)
		p->problem = (struct rf_err)RF_ERR_INIT;
}

static void rf_book_page_free(struct rf_book_page *p)
{
	if (!p)
		return;
	set_wanted(p, NULL);
	set_force(p, NULL);
	rf_arena_done(&p->arena);
	free(p);
}
RF_DEFINE_AUTO_PTR(book_page);

struct rf_book *rf_book_new(void)
{
	struct rf_book *b = rf_new(struct rf_book);

	b->gk = rf_gk_new();
	return b;
}

void rf_book_free(struct rf_book *b)
{
	if (!b)
		return;
	for (size_t i = 0; i < b->pages.n; i++)
		rf_book_page_free(b->pages.at[i]);
	rf_vec_done(&b->pages);
	rf_book_plain_free(b->plain);
	rf_gk_free(b->gk);
	free(b);
}

/* --- which object is what ------------------------------------------------------------------- */

static bool is_in_group(const struct rf_json *object, const char *group)
{
	struct rf_str rest = rf_json_str_at(object, "apiVersion"), head;

	return rf_str_cut(&rest, '/', &head) && rf_str_is(head, group);
}

/* By its address alone: of what is deleted often nothing else is known. */
static enum page_type type_of(const struct rf_json *object)
{
	struct rf_str kind = rf_json_str_at(object, "kind");

	if (is_in_group(object, "constraints.gatekeeper.sh"))
		return CONSTRAINT;
	if (is_in_group(object, "templates.gatekeeper.sh") && rf_str_is(kind, "ConstraintTemplate"))
		return TEMPLATE;
	if (rf_str_is(rf_json_str_at(object, "apiVersion"), "v1") && rf_str_is(kind, "ConfigMap") &&
	    rf_str_is(rf_json_str_at(object, "metadata", "namespace"), RF_BOOK_NAMESPACE))
		return MAP;
	return NONE;
}

bool rf_book_is_policy(const struct rf_json *object)
{
	enum page_type type = type_of(object);

	if (type == MAP)
		return rf_str_is(rf_json_str_at(object, "metadata", "labels", RF_BOOK_LABEL), "rego");
	return type != NONE;
}

static struct rf_str kind_of(enum page_type type, const struct rf_json *object)
{
	if (type == TEMPLATE)
		return rf_json_str_at(object, "spec", "crd", "spec", "names", "kind");
	return type == CONSTRAINT ? rf_json_str_at(object, "kind") : RF_STR_EMPTY;
}

/* A template is known by its name, which is its kind in lower case. */
static bool find(const struct rf_book *b, const struct rf_json *object, size_t *ret)
{
	enum page_type type = type_of(object);
	struct rf_str kind = rf_json_str_at(object, "kind");
	struct rf_str name = rf_json_str_at(object, "metadata", "name");

	for (size_t i = 0; i < b->pages.n; i++) {
		const struct rf_book_page *p = b->pages.at[i];

		if (p->type == type && rf_str_eq(p->name, name) &&
		    (type != CONSTRAINT || rf_str_eq(p->kind, kind))) {
			*ret = i;
			return true;
		}
	}
	return false;
}

static struct rf_book_page *template_of(const struct rf_book *b, struct rf_str kind)
{
	for (size_t i = 0; i < b->pages.n; i++)
		if (b->pages.at[i]->type == TEMPLATE && rf_str_eq(b->pages.at[i]->kind, kind))
			return b->pages.at[i];
	return NULL;
}

static const char *body_of(enum page_type type)
{
	return type == MAP ? "data" : "spec";
}

/* --- reading a ConfigMap -------------------------------------------------------------------- */

static int complain(const struct rf_ra_errors *errors, struct rf_err *err)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ra_print_errors(&text, errors);
	return rf_fail(err, RF_INVALID, "%.*s", RF_STR(rf_str_trim(rf_buf_str(&text))));
}

static int read_map(struct rf_book_version *v, struct rf_err *err)
{
	const struct rf_json *data = rf_json_at(v->object, "data");
	struct rf_str name = rf_json_str_at(v->object, "metadata", "name");

	if (!rf_json_is(data, RF_JSON_OBJECT))
		return 0;
	if (data->n > MODULES_MAX)
		return rf_fail(err, RF_TOO_LARGE, "has %u modules, at most %d are read", data->n,
			       MODULES_MAX);
	v->source = rf_arena_array(&v->arena, struct rf_rego_source, (size_t)data->n + 1);
	for (uint32_t i = 0; i < data->n; i++) {
		struct rf_rego_source *s = &v->source[v->n_sources++];

		s->file = rf_arena_printf(&v->arena, "%.*s/%.*s", RF_STR(name),
					  RF_STR(data->members[i].key));
		s->text = rf_json_str(data->members[i].value);
		s->version = rf_rego_version_of(s->file, s->text);
	}
	return 0;
}

/* Only what is judged: a status is written all the time. */
static struct rf_book_version *make_version(enum page_type type, const struct rf_json *object)
{
	struct rf_book_version *v = rf_new(struct rf_book_version);
	struct rf_arena *a = &v->arena;
	const char *body = body_of(type);

	v->arena.block = 1024; /* as in gatekeeper.c */
	v->object = rf_json_make(a, "{'apiVersion':%S,'kind':%S,'metadata':{'name':%S,'namespace':%S}}",
				 rf_json_str_at(object, "apiVersion"), rf_json_str_at(object, "kind"),
				 rf_json_str_at(object, "metadata", "name"),
				 rf_json_str_at(object, "metadata", "namespace"));
	if (rf_json_at(object, body))
		rf_json_set(a, v->object, rf_str(body), rf_json_clone(a, rf_json_at(object, body)));
	return v;
}

static int name_map(const struct rf_json *object, struct rf_err *err)
{
	return rf_wrap(err, "ConfigMap " RF_BOOK_NAMESPACE "/%.*s", RF_STR(rf_json_str_at(object, "metadata", "name")));
}

static int read_object(enum page_type type, const struct rf_json *object, struct rf_book_version **ret,
		       struct rf_err *err)
{
	rf_auto_ptr(book_version) v = make_version(type, object);

	if (type == MAP && read_map(v, err) < 0)
		return name_map(object, err);
	*ret = rf_take(v);
	return 0;
}

/* --- compiling plain modules ---------------------------------------------------------------- */

static bool is_admission(const struct rf_ra_module *m)
{
	return m->n_package >= 2 && rf_str_is(m->package[0], "kubernetes") &&
	       rf_str_is(m->package[1], "admission");
}

static bool is_asked(struct rf_str name)
{
	return rf_str_is(name, "deny") || rf_str_is(name, "warn");
}

static struct rf_str rule_name(const struct rf_ra_rule *r)
{
	const struct rf_ra_term *t = r->ref;

	if (t->kind == RF_RA_REF && t->n > 0)
		t = t->item[0];
	return t->kind == RF_RA_VAR ? t->name : RF_STR_EMPTY;
}

static struct rf_str label_of(struct rf_arena *a, const struct rf_ra_module *m)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (uint32_t i = 0; i < m->n_package; i++) {
		rf_buf_puts(&b, i ? "." : "");
		rf_buf_add(&b, m->package[i]);
	}
	return rf_arena_str(a, rf_buf_str(&b));
}

/* x3 := data["kubernetes"]["admission"]["deny"] */
static void write_ask(struct rf_buf *query, const struct ask *ask, const struct rf_ra_module *m)
{
	rf_buf_printf(query, "%s%.*s := data", query->n ? "; " : "", RF_STR(ask->var));
	for (uint32_t i = 0; i < m->n_package; i++) {
		rf_buf_add_c(query, '[');
		rf_json_write_str(query, m->package[i]);
		rf_buf_add_c(query, ']');
	}
	rf_buf_puts(query, ask->warn ? ".warn" : ".deny");
}

static bool is_listed(const struct rf_book_plain *p, struct rf_str label, bool warn)
{
	for (size_t i = 0; i < p->asks.n; i++)
		if (p->asks.at[i].warn == warn && rf_str_eq(p->asks.at[i].label, label))
			return true;
	return false;
}

/* Anything but a set would be undefined, or true, or say nothing: refused before it can mislead. */
static int list_asks(struct rf_book_plain *p, const struct rf_ra_module *m, struct rf_buf *query,
		     struct rf_err *err)
{
	struct rf_str label = label_of(&p->arena, m);

	for (uint32_t i = 0; i < m->n_rules; i++) {
		const struct rf_ra_rule *r = m->rule[i];
		struct rf_str name = rule_name(r);
		struct ask ask = { .label = label, .warn = rf_str_is(name, "warn") };

		if (!is_asked(name))
			continue;
		if (!r->contains || r->is_function || r->ref->kind != RF_RA_VAR)
			return rf_fail(err, RF_INVALID,
				       "%.*s:%u:%u: %.*s must be a set of messages: write `%.*s contains "
				       "msg if { ... }`",
				       RF_STR(m->file), r->loc.row, r->loc.col, RF_STR(name), RF_STR(name));
		if (is_listed(p, label, ask.warn))
			continue;
		ask.var = rf_arena_printf(&p->arena, "x%zu", p->asks.n);
		write_ask(query, &ask, m);
		rf_vec_push(&p->asks, ask);
	}
	return 0;
}

static int look_at(struct rf_book_plain *p, const struct rf_rego_source *s, struct rf_buf *query,
		   struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(SCRATCH_MAX);
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_ra_module *m;

	if (rf_ra_parse(&a, s->file, s->text, s->version, &m, &errors) < 0)
		return complain(&errors, err);
	if (m->n_package > 0 && rf_str_is(m->package[0], "inventory"))
		return rf_fail(err, RF_INVALID, "%.*s: package inventory is taken; choose another",
			       RF_STR(m->file));
	p->reads_inventory |= rf_str_contains(s->text, RF_LIT("inventory"));
	return is_admission(m) ? list_asks(p, m, query, err) : 0;
}

static int compile(const struct rf_rego_source *source, size_t n, struct rf_book_plain **ret,
		   struct rf_err *err)
{
	rf_auto_ptr(book_plain) p = rf_new(struct rf_book_plain);
	rf_auto(arena) a = RF_ARENA_CAPPED(SCRATCH_MAX);
	rf_auto(buf) query = RF_BUF_INIT;
	struct rf_ra_errors errors = { .arena = &a };

	for (size_t i = 0; i < n; i++)
		if (look_at(p, &source[i], &query, err) < 0)
			return -err->code;
	if (rf_rego_compile(source, n, NULL, &p->rego, &errors) < 0)
		return complain(&errors, err);
	if (p->asks.n > 0 &&
	    rf_rego_prepare(p->rego, rf_buf_str(&query), RF_RA_V1, &p->query, &errors) < 0)
		return complain(&errors, err);
	*ret = rf_take(p);
	return 0;
}

/* Of every ConfigMap the version chosen, but of this object (NULL: of none) v. */
enum choice { ALL_WANTED, ALL_IN_FORCE };
static int compile_with(const struct rf_book *b, enum choice choice, const struct rf_json *object,
			const struct rf_book_version *v, struct rf_book_plain **ret, struct rf_err *err)
{
	RF_VEC(struct rf_rego_source) all = RF_VEC_INIT;
	size_t at = b->pages.n;
	int r = 0;

	if (object && !find(b, object, &at))
		at = b->pages.n;
	for (size_t i = 0; i <= b->pages.n; i++) {
		const struct rf_book_page *p = i < b->pages.n ? b->pages.at[i] : NULL;
		const struct rf_book_version *use = NULL;

		if (i == at)
			use = v;
		else if (p && p->type == MAP)
			use = choice == ALL_WANTED ? p->wanted : p->force;
		for (size_t j = 0; use && j < use->n_sources; j++)
			rf_vec_push(&all, use->source[j]);
	}
	if (all.n > MODULES_MAX)
		r = rf_fail(err, RF_EXHAUSTED, "all ConfigMaps have %zu modules, at most %d are read", all.n,
			    MODULES_MAX);
	else
		r = compile(all.at, all.n, ret, err);
	rf_vec_done(&all);
	return r;
}

/* --- ConfigMaps: what can be in force ------------------------------------------------------- */

static void take_plain(struct rf_book *b, struct rf_book_plain *p)
{
	rf_book_plain_free(b->plain);
	b->plain = p;
}

static void forget_gone(struct rf_book *b)
{
	for (size_t i = b->pages.n; i-- > 0;) {
		struct rf_book_page *p = b->pages.at[i];

		if (p->type == MAP && !p->wanted && !p->force) {
			rf_book_page_free(p);
			rf_vec_remove(&b->pages, i);
		}
	}
}

static bool settle_one(struct rf_book *b, struct rf_book_page *p)
{
	struct rf_book_plain *plain = NULL;
	const struct rf_json *object = p->wanted ? p->wanted->object : p->force->object;

	if (p->wanted == p->force)
		return false;
	if (compile_with(b, ALL_IN_FORCE, object, p->wanted, &plain, &p->problem) < 0)
		return false;
	take_plain(b, plain);
	set_force(p, p->wanted);
	return true;
}

/* Modules need each other, and come in any order: all that is wanted if it can be compiled; else one
 * ConfigMap after the other as far as that goes. */
static void settle_maps(struct rf_book *b)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_book_plain *plain = NULL;
	bool moved = true;

	if (compile_with(b, ALL_WANTED, NULL, NULL, &plain, &err) == 0) {
		take_plain(b, plain);
		for (size_t i = 0; i < b->pages.n; i++)
			if (b->pages.at[i]->type == MAP)
				set_force(b->pages.at[i], b->pages.at[i]->wanted);
		moved = false;
	}
	while (moved) {
		moved = false;
		for (size_t i = 0; i < b->pages.n; i++)
			if (b->pages.at[i]->type == MAP)
				moved |= settle_one(b, b->pages.at[i]);
	}
	forget_gone(b);
}

static int check_map(const struct rf_book *b, const struct rf_json *object,
		     const struct rf_book_version *v, struct rf_err *err)
{
	struct rf_book_plain *plain = NULL;
	struct rf_err first = RF_ERR_INIT;
	int r = compile_with(b, ALL_WANTED, object, v, &plain, &first);

	if (r < 0)
		r = compile_with(b, ALL_IN_FORCE, object, v, &plain, err);
	rf_book_plain_free(plain);
	return r;
}

/* --- templates and constraints: what can be in force ---------------------------------------- */

/* A constraint in force must stay so under the new template, in its newest version or the one it has. */
static int add_fitting(struct rf_gk *gk, const struct rf_book_page *p, const struct rf_book_version **ret,
		       struct rf_err *err)
{
	struct rf_err other = RF_ERR_INIT;

	*ret = p->wanted;
	if (rf_gk_add(gk, p->wanted->object, err) == 0)
		return 0;
	*ret = p->force;
	if (p->force && p->force != p->wanted && rf_gk_add(gk, p->force->object, &other) == 0)
		return 0;
	*ret = NULL;
	return -err->code;
}

static int try_template(const struct rf_book *b, const struct rf_book_version *v, struct rf_err *err)
{
	rf_auto_ptr(gk) gk = rf_gk_new();
	struct rf_str kind = kind_of(TEMPLATE, v->object);
	const struct rf_book_version *fits;

	if (rf_gk_add(gk, v->object, err) < 0)
		return -err->code;
	for (size_t i = 0; i < b->pages.n; i++) {
		const struct rf_book_page *p = b->pages.at[i];

		if (p->type != CONSTRAINT || !p->force || !rf_str_eq(p->kind, kind) ||
		    add_fitting(gk, p, &fits, err) == 0)
			continue;
		return rf_wrap(err,
			       "ConstraintTemplate %.*s: a constraint that is in force does not fit it; the "
			       "template before it stays; change the constraint first",
			       RF_STR(rf_json_str_at(v->object, "metadata", "name")));
	}
	return 0;
}

static void settle_constraint(struct rf_book *b, struct rf_book_page *p)
{
	const struct rf_book_version *fits;
	struct rf_err err = RF_ERR_INIT;
	bool had = p->force != NULL;

	if (add_fitting(b->gk, p, &fits, &err) < 0) {
		p->problem = err;
		return;
	}
	if (fits == p->wanted)
		set_force(p, p->wanted);
	else
		p->problem = err;
	b->n_constraints += !had;
}

/* Also those that are in force already if `all`: a new template may bring new defaults. */
static void settle_constraints(struct rf_book *b, struct rf_str kind, bool all)
{
	for (size_t i = 0; i < b->pages.n; i++) {
		struct rf_book_page *p = b->pages.at[i];

		if (p->type == CONSTRAINT && rf_str_eq(p->kind, kind) && (all || p->force != p->wanted))
			settle_constraint(b, p);
	}
}

/* A template that is not in force at all is at fault itself: what its constraints say changes nothing. */
static void settle_kind(struct rf_book *b, struct rf_str kind, bool new_template)
{
	struct rf_book_page *t = template_of(b, kind);
	bool renewed = false;

	if (!t)
		return;
	if (t->wanted != t->force && (new_template || t->force) &&
	    (!t->force || try_template(b, t->wanted, &t->problem) == 0) &&
	    rf_gk_add(b->gk, t->wanted->object, &t->problem) == 0) {
		set_force(t, t->wanted);
		renewed = true;
	}
	if (t->force)
		settle_constraints(b, kind, renewed);
}

/* --- putting -------------------------------------------------------------------------------- */

static int check_room(const struct rf_book *b, enum page_type type, struct rf_err *err)
{
	static const size_t most[] = { RF_GK_TEMPLATES_MAX, RF_GK_CONSTRAINTS_MAX, MAPS_MAX };
	size_t n = 0;

	for (size_t i = 0; i < b->pages.n; i++)
		n += b->pages.at[i]->type == type;
	if (n >= most[type])
		return rf_fail(err, RF_EXHAUSTED, "there are %zu of its sort already; delete some first", n);
	return 0;
}

static int check_address(const struct rf_book *b, const struct rf_json *object, struct rf_err *err)
{
	enum page_type type = type_of(object);
	struct rf_str name = rf_json_str_at(object, "metadata", "name"), kind = kind_of(type, object);
	size_t i;

	if (!rf_book_is_policy(object))
		return rf_fail(err, RF_INVALID, "%.*s %.*s is no policy", RF_STR(rf_json_str_at(object, "kind")),
			       RF_STR(name));
	if (name.n == 0)
		return rf_fail(err, RF_INVALID, "metadata.name is missing");
	if (type == TEMPLATE && !rf_str_ieq(name, kind))
		return rf_fail(err, RF_INVALID,
			       "ConstraintTemplate %.*s: its name must be its kind \"%.*s\" in lower case",
			       RF_STR(name), RF_STR(kind));
	if (!find(b, object, &i))
		return check_room(b, type, err);
	if (type == TEMPLATE && !rf_str_eq(b->pages.at[i]->kind, kind))
		return rf_fail(err, RF_INVALID,
			       "ConstraintTemplate %.*s: its kind is %.*s and stays so; delete it first",
			       RF_STR(name), RF_STR(b->pages.at[i]->kind));
	return 0;
}

static struct rf_book_page *open_page(struct rf_book *b, const struct rf_json *object)
{
	struct rf_book_page *p;
	size_t i;

	if (find(b, object, &i))
		return b->pages.at[i];
	p = rf_new(struct rf_book_page);
	p->arena.block = 128;
	p->type = type_of(object);
	p->kind = rf_arena_str(&p->arena, kind_of(p->type, object));
	p->name = rf_arena_str(&p->arena, rf_json_str_at(object, "metadata", "name"));
	rf_vec_push(&b->pages, p);
	return p;
}

static bool says_the_same(const struct rf_book_page *p, const struct rf_json *object)
{
	const char *body = body_of(p->type);
	const struct rf_json *old = p->wanted ? rf_json_at(p->wanted->object, body) : NULL;
	const struct rf_json *new = rf_json_at(object, body);

	return p->wanted && p->wanted == p->force &&
	       (old && new ? rf_json_equal(old, new) : old == new);
}

int rf_book_put(struct rf_book *b, const struct rf_json *object, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_book_version *v = NULL;
	struct rf_book_page *p;
	size_t i;

	if (!err)
		err = &own;
	if (check_address(b, object, err) < 0)
		return -err->code;
	if (find(b, object, &i) && says_the_same(b->pages.at[i], object))
		return 0;
	if (read_object(type_of(object), object, &v, err) < 0)
		return -err->code;
	p = open_page(b, object);
	set_wanted(p, v);
	if (p->type == MAP)
		settle_maps(b);
	else
		settle_kind(b, p->kind, p->type == TEMPLATE);
	if (p->wanted == p->force || (p->type == CONSTRAINT && !template_of(b, p->kind)))
		return 0;
	if (p->problem.code == RF_OK) /* its template is there, and cannot be used itself */
		return 0;
	*err = p->problem;
	return p->type == MAP ? name_map(object, err) : -err->code;
}

static int check_constraint(const struct rf_book *b, const struct rf_book_version *v, struct rf_err *err)
{
	const struct rf_book_page *t = template_of(b, kind_of(CONSTRAINT, v->object));
	rf_auto_ptr(gk) gk = rf_gk_new();

	if (!t || !t->force)
		return 0;
	if (rf_gk_add(gk, t->force->object, err) < 0)
		return -err->code;
	return rf_gk_add(gk, v->object, err);
}

int rf_book_check(const struct rf_book *b, const struct rf_json *object, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	rf_auto_ptr(book_version) v = NULL;
	enum page_type type = type_of(object);

	if (!err)
		err = &own;
	if (check_address(b, object, err) < 0 || read_object(type, object, &v, err) < 0)
		return -err->code;
	if (type == MAP)
		return check_map(b, object, v, err) < 0 ? name_map(object, err) : 0;
	return type == TEMPLATE ? try_template(b, v, err) : check_constraint(b, v, err);
}

const char *rf_book_problem(const struct rf_book *b, const struct rf_json *object)
{
	size_t i;

	return find(b, object, &i) && b->pages.at[i]->wanted != b->pages.at[i]->force ?
		       b->pages.at[i]->problem.msg :
		       "";
}

const char *rf_book_gap(const struct rf_book *b)
{
	for (size_t i = 0; i < b->pages.n; i++) {
		const struct rf_book_page *p = b->pages.at[i];
		const struct rf_book_page *t = p->type == CONSTRAINT ? template_of(b, p->kind) : p;

		/* A constraint without its template waits for it. */
		if (p->wanted && !p->force && p->problem.code != RF_OK && p->problem.code != RF_UNSUPPORTED &&
		    (t == p || (t && t->force)))
			return p->problem.msg;
	}
	return NULL;
}

/* --- dropping ------------------------------------------------------------------------------- */

static void drop_template(struct rf_book *b, const struct rf_book_page *t)
{
	(void)rf_gk_remove(b->gk, t->kind, RF_STR_EMPTY, NULL);
	for (size_t i = 0; i < b->pages.n; i++) {
		struct rf_book_page *p = b->pages.at[i];

		if (p->type != CONSTRAINT || !rf_str_eq(p->kind, t->kind) || !p->force)
			continue;
		b->n_constraints--;
		set_force(p, NULL);
		p->problem = (struct rf_err)RF_ERR_INIT;
	}
}

static void drop_map(struct rf_book *b, struct rf_book_page *p)
{
	set_wanted(p, NULL);
	settle_maps(b);
}

void rf_book_drop(struct rf_book *b, const struct rf_json *object)
{
	rf_auto_ptr(book_page) p = NULL;
	size_t i;

	if (!find(b, object, &i))
		return;
	if (b->pages.at[i]->type == MAP) {
		drop_map(b, b->pages.at[i]);
		return;
	}
	p = b->pages.at[i];
	rf_vec_remove(&b->pages, i);
	if (p->type == TEMPLATE) {
		drop_template(b, p);
		return;
	}
	(void)rf_gk_remove(b->gk, p->kind, p->name, NULL);
	b->n_constraints -= p->force != NULL;
	settle_kind(b, p->kind, false); /* its template may have waited for this */
}

bool rf_book_is_empty(const struct rf_book *b)
{
	return b->n_constraints == 0 && !(b->plain && b->plain->query);
}

/* --- judging -------------------------------------------------------------------------------- */

/* What is said, line by line, and how much of it did not fit. */
struct lines {
	struct rf_buf text; /* of denials: one after the other */
	RF_VEC(struct rf_str) list;
	struct rf_arena *arena; /* of the list */
	size_t bytes, n, left;
	bool warn;
};

static struct rf_str cut(struct rf_str s, size_t most)
{
	if (s.n <= most)
		return s;
	while (most > 0 && ((unsigned char)s.p[most] & 0xc0) == 0x80)
		most--;
	return rf_str_n(s.p, most);
}

static void put_line(struct lines *l, struct rf_str s)
{
	l->bytes += s.n + 1;
	if (l->warn) {
		rf_vec_push(&l->list, rf_arena_str(l->arena, s));
		return;
	}
	if (l->text.n > 0)
		rf_buf_add_c(&l->text, '\n');
	rf_buf_add(&l->text, s);
}

static void say(struct lines *l, struct rf_str who, struct rf_str msg)
{
	rf_auto(buf) line = RF_BUF_INIT;
	size_t most = RF_BOOK_MESSAGE_MAX - TAIL_MAX, room = l->bytes < most ? most - l->bytes : 0;

	l->n++;
	if (l->left > 0 || room < who.n + 8) {
		l->left++;
		return;
	}
	rf_buf_add_c(&line, '[');
	rf_buf_add(&line, who);
	rf_buf_puts(&line, "] ");
	rf_buf_add(&line, cut(msg, room));
	put_line(l, cut(rf_buf_str(&line), room - 1));
}

static void finish(struct lines *l)
{
	char tail[TAIL_MAX];
	int n;

	if (l->left == 0)
		return;
	n = snprintf(tail, sizeof(tail), "and %zu more", l->left);
	put_line(l, rf_str_n(tail, (size_t)n));
}

struct judging {
	const struct rf_book *b;
	struct rf_rv request;
	const struct rf_book_inventory *inventory;
	struct rf_rv found; /* the inventory */
	bool has_found;
	struct rf_arena *a;
	struct lines deny, warn;
};

static void broken(struct judging *j, const char *why)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_printf(&text, "policy could not be evaluated: %s", why);
	say(&j->deny, RF_LIT("kubernetes.admission"), rf_buf_str(&text));
}

static void take_one(struct judging *j, const struct ask *ask, struct rf_rv v)
{
	struct rf_rv msg = v;

	if (v.type == RF_RV_OBJECT && !rf_rv_get_str(v, RF_LIT("msg"), &msg))
		msg = RF_RV_NIL;
	if (msg.type == RF_RV_STRING)
		say(ask->warn ? &j->warn : &j->deny, ask->label, rf_rv_text(msg));
	else
		say(&j->deny, ask->label,
		    RF_LIT("policy could not be evaluated: a message is neither a string nor an object "
			   "with msg"));
}

static void take_sets(struct judging *j, struct rf_rv bindings)
{
	const struct rf_book_plain *p = j->b->plain;

	for (size_t i = 0; i < p->asks.n; i++) {
		struct rf_rv set;

		if (!rf_rv_get_str(bindings, p->asks.at[i].var, &set) || set.type != RF_RV_SET) {
			broken(j, "deny or warn is not a set");
			continue;
		}
		for (uint32_t k = 0; k < set.n; k++)
			take_one(j, &p->asks.at[i], set.items[k]);
	}
}

static bool make_input(struct rf_arena *a, struct rf_rv request, struct rf_rv *ret)
{
	struct rf_rv_pair *pair = rf_arena_try(a, 3 * sizeof(*pair));

	if (!pair)
		return false;
	pair[0] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("apiVersion")),
				       rf_rv_str(RF_LIT("admission.k8s.io/v1")) };
	pair[1] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("kind")), rf_rv_str(RF_LIT("AdmissionReview")) };
	pair[2] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("request")), request };
	*ret = rf_rv_object(pair, 3, NULL);
	return true;
}

static bool make_data(struct rf_arena *a, struct rf_rv inventory, struct rf_rv *ret)
{
	struct rf_rv_pair *pair = rf_arena_try(a, sizeof(*pair));

	if (!pair)
		return false;
	pair[0] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("inventory")), inventory };
	*ret = rf_rv_object(pair, 1, NULL);
	return true;
}

/* All sets in one query, so that they share one number of steps. */
static void ask_plain(struct judging *j)
{
	rf_auto(arena) scratch = RF_ARENA_CAPPED(SCRATCH_MAX);
	struct rf_rv input, data;
	struct rf_rego_run run = { .arena = &scratch, .input = &input, .steps = RF_BOOK_STEPS,
				   .deadline_ns = rf_mono_ns(rf_clock_system()) + RF_GK_MS * (int64_t)1000000 };
	struct rf_rego_result result = { 0 };
	struct rf_err err = RF_ERR_INIT;

	if (!make_input(&scratch, j->request, &input) ||
	    (j->has_found && !make_data(&scratch, j->found, &data))) {
		broken(j, "out of memory");
		return;
	}
	if (j->has_found)
		run.data = &data;
	if (rf_rego_eval(j->b->plain->query, &run, &result, &err) < 0)
		broken(j, err.msg);
	else if (result.n != 1)
		broken(j, "deny or warn is undefined");
	else
		take_sets(j, result.answer[0].bindings);
}

static int ask_gatekeeper(struct judging *j, struct rf_err *err)
{
	struct rf_gk_violations found = { 0 };

	if (rf_gk_review(j->b->gk, &j->request, j->has_found ? &j->found : NULL, RF_GK_ADMISSION, j->a,
			 &found, err) < 0)
		return -err->code;
	for (size_t i = 0; i < found.n; i++)
		if (found.at[i].action != RF_GK_DRYRUN)
			say(found.at[i].action == RF_GK_WARN ? &j->warn : &j->deny,
			    found.at[i].constraint, found.at[i].msg);
	return 0;
}

/* {"cluster": {}, "namespace": {}}: a policy that iterates over it finds nothing. */
static struct rf_rv empty_inventory(struct rf_arena *a)
{
	struct rf_rv_pair *pair = rf_arena_array(a, struct rf_rv_pair, 2);

	pair[0] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("cluster")), rf_rv_object(NULL, 0, NULL) };
	pair[1] = (struct rf_rv_pair){ rf_rv_str(RF_LIT("namespace")), rf_rv_object(NULL, 0, NULL) };
	return rf_rv_object(pair, 2, NULL);
}

static int look_around(struct judging *j, struct rf_err *err)
{
	const struct rf_book *b = j->b;
	bool plain = b->plain && b->plain->query && b->plain->reads_inventory;

	if (!plain && !(b->n_constraints > 0 && rf_gk_needs_inventory(b->gk, &j->request, RF_GK_ADMISSION)))
		return 0;
	j->has_found = true;
	j->found = empty_inventory(j->a);
	if (j->inventory && j->inventory->fn && j->inventory->fn(j->inventory->ctx, j->a, &j->found, err) < 0)
		return rf_wrap(err, "gather what policies refer to");
	return 0;
}

static int ask_all(struct judging *j, struct rf_err *err)
{
	if (j->request.type != RF_RV_OBJECT)
		return rf_fail(err, RF_INVALID, "what is to be judged must be an AdmissionRequest");
	if (look_around(j, err) < 0)
		return -err->code;
	if (j->b->n_constraints > 0 && ask_gatekeeper(j, err) < 0)
		return -err->code;
	if (j->b->plain && j->b->plain->query)
		ask_plain(j);
	return 0;
}

static void conclude(struct judging *j, struct rf_book_verdict *ret)
{
	finish(&j->deny);
	finish(&j->warn);
	*ret = (struct rf_book_verdict){ .allowed = j->deny.n == 0, .n_warnings = j->warn.list.n };
	ret->message = rf_arena_str(j->a, rf_buf_str(&j->deny.text));
	if (j->warn.list.n == 0)
		return;
	ret->warnings = rf_arena_array(j->a, struct rf_str, j->warn.list.n);
	memcpy(ret->warnings, j->warn.list.at, j->warn.list.n * sizeof(*ret->warnings));
}

int rf_book_judge(const struct rf_book *b, struct rf_rv request, const struct rf_book_inventory *inventory,
		  struct rf_arena *a, struct rf_book_verdict *ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct judging j = { .b = b, .request = request, .inventory = inventory, .a = a };
	int r;

	j.deny.text = (struct rf_buf)RF_BUF_INIT;
	j.warn.text = (struct rf_buf)RF_BUF_INIT;
	j.warn.warn = true;
	j.deny.arena = j.warn.arena = a;
	r = ask_all(&j, err ? err : &own);
	if (r == 0)
		conclude(&j, ret);
	rf_buf_done(&j.deny.text);
	rf_vec_done(&j.warn.list);
	return r;
}
