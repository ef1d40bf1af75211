/* GraphQL: is a schema sound, and does a query keep to it? The first thing wrong is told, in the words
 * policies know from OPA. Fragments are followed by a list of what is still to visit, never by recursion. */
#include "policy/rego/graphql.h"

#include <stdarg.h>
#include <stdio.h>

enum def_kind { K_SCALAR, K_OBJECT, K_INTERFACE, K_UNION, K_ENUM, K_INPUT, K_OTHER };

static const char *const def_kinds[] = { "SCALAR", "OBJECT", "INTERFACE", "UNION", "ENUM", "INPUT_OBJECT" };

/* A type with its extensions. */
struct def {
	struct rf_str name;
	enum def_kind kind;
	struct rf_rv node; /* the first definition, for its place */
	bool builtin;
	struct rf_rv_grow fields, interfaces, types, values, directives; /* as pushed */
	struct rf_rv_grow by_name;  /* fields or enum values: name to node */
	struct rf_rv_grow members;  /* of a union, and interfaces of an object: names, each true */
};

struct check {
	struct rf_rb_env *e;
	struct rf_err *err;
	bool in_query; /* where an error is */
	struct def *defs;
	uint32_t n_defs;
	struct rf_rv_grow types;      /* name to index in defs */
	struct rf_rv_grow directives; /* name to node */
	struct def *root[3];	      /* query, mutation, subscription */
	/* of the query */
	struct rf_rv fragments;
	struct rf_rv_grow fragment_at; /* name to index in fragments */
	bool *reached;		       /* by any operation */
	/* of one operation */
	struct rf_str operation;
	struct rf_rv_grow variables; /* name to node */
	struct rf_rv_grow used;	     /* names of variables, each true */
	uint32_t *visit, n_visit;    /* fragments, each once */
	bool *visited;
};

/* What every GraphQL service has. */
static const char prelude[] =
	"scalar Int scalar Float scalar String scalar Boolean scalar ID "
	"directive @include(if: Boolean!) on FIELD | FRAGMENT_SPREAD | INLINE_FRAGMENT "
	"directive @skip(if: Boolean!) on FIELD | FRAGMENT_SPREAD | INLINE_FRAGMENT "
	"directive @deprecated(reason: String = \"No longer supported\") "
	"on FIELD_DEFINITION | ARGUMENT_DEFINITION | INPUT_FIELD_DEFINITION | ENUM_VALUE "
	"directive @specifiedBy(url: String!) on SCALAR "
	"type __Schema { description: String types: [__Type!]! queryType: __Type! mutationType: __Type "
	"subscriptionType: __Type directives: [__Directive!]! } "
	"type __Type { kind: __TypeKind! name: String description: String "
	"fields(includeDeprecated: Boolean = false): [__Field!] interfaces: [__Type!] possibleTypes: [__Type!] "
	"enumValues(includeDeprecated: Boolean = false): [__EnumValue!] inputFields: [__InputValue!] "
	"ofType: __Type specifiedBy: String } "
	"type __Field { name: String! description: String args: [__InputValue!]! type: __Type! "
	"isDeprecated: Boolean! deprecationReason: String } "
	"type __InputValue { name: String! description: String type: __Type! defaultValue: String } "
	"type __EnumValue { name: String! description: String isDeprecated: Boolean! deprecationReason: String } "
	"enum __TypeKind { SCALAR OBJECT INTERFACE UNION ENUM INPUT_OBJECT LIST NON_NULL } "
	"type __Directive { name: String! description: String locations: [__DirectiveLocation!]! "
	"args: [__InputValue!]! isRepeatable: Boolean! } "
	"enum __DirectiveLocation { QUERY MUTATION SUBSCRIPTION FIELD FRAGMENT_DEFINITION FRAGMENT_SPREAD "
	"INLINE_FRAGMENT VARIABLE_DEFINITION SCHEMA SCALAR OBJECT FIELD_DEFINITION ARGUMENT_DEFINITION INTERFACE "
	"UNION ENUM ENUM_VALUE INPUT_OBJECT INPUT_FIELD_DEFINITION } ";
/* What the query type has besides its own. */
static const char root_fields[] = "type Root { schema: __Schema! type(name: String!): __Type }";

/* --- looking at nodes --- */

static struct rf_str str(struct rf_rv node, const char *key)
{
	struct rf_rv v;

	return rf_rv_get_str(node, rf_str(key), &v) && v.type == RF_RV_STRING ? rf_rv_text(v) : RF_STR_EMPTY;
}

static struct rf_rv list(struct rf_rv node, const char *key)
{
	struct rf_rv v;

	return rf_rv_get_str(node, rf_str(key), &v) && v.type == RF_RV_ARRAY ? v :
									      rf_rv_array(NULL, 0);
}

static bool part(struct rf_rv node, const char *key, struct rf_rv *ret)
{
	return rf_rv_get_str(node, rf_str(key), ret) && ret->type == RF_RV_OBJECT;
}

static bool flag(struct rf_rv node, const char *key)
{
	struct rf_rv v;

	return rf_rv_get_str(node, rf_str(key), &v) && v.type == RF_RV_BOOL && v.b;
}

static int64_t number(struct rf_rv node, const char *key)
{
	struct rf_rv v;

	return rf_rv_get_str(node, rf_str(key), &v) && v.type == RF_RV_NUMBER && !v.big ? v.i : 0;
}

static bool find(const struct rf_rv_grow *g, struct rf_str name, struct rf_rv *ret)
{
	return rf_rv_find(g, rf_rv_str(name), ret);
}

static struct rf_str type_name(struct rf_rv type)
{
	while (part(type, "Elem", &type))
		;
	return str(type, "NamedType");
}

static void add_type(struct rb_text *t, struct rf_rv type)
{
	struct rf_rv elem;

	if (part(type, "Elem", &elem)) {
		rb_add_c(t, '[');
		add_type(t, elem);
		rb_add_c(t, ']');
	} else {
		rb_add(t, str(type, "NamedType"));
	}
	if (flag(type, "NonNull"))
		rb_add_c(t, '!');
}

static struct rf_str type_text(struct check *c, struct rf_rv type)
{
	struct rb_text t = { .e = c->e };

	add_type(&t, type);
	return t.full || t.n == 0 ? RF_STR_EMPTY : rf_str_n(t.p, t.n);
}

/* --- saying what is wrong --- */

/* Never inline: its text must not sit on the stack of what recurses. */
__attribute__((noinline)) RF_PRINTF(3, 4) static enum rf_rb_result
wrong(struct check *c, struct rf_rv node, const char *fmt, ...)
{
	int64_t pos = number(node, "Position");
	char what[RF_ERR_MAX - 128];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	if (c->in_query && pos == 0)
		return rb_error(c->err, "%s in GraphQL query", what);
	if (c->in_query)
		return rb_error(c->err, "%s in GraphQL string at location %d:%d", what, rf_gql_line(pos),
				rf_gql_column(pos));
	if (pos == 0)
		return rb_error(c->err, "Error in gqlparser SchemaDocument to Schema conversion: input: %s",
				what);
	return rb_error(c->err, "Error in gqlparser SchemaDocument to Schema conversion: input:%d:%d: %s",
			rf_gql_line(pos), rf_gql_column(pos), what);
}

#define SPEND(c, steps)                                                                            \
	do {                                                                                       \
		if (!rf_rb_spend((c)->e, (steps)))                                                 \
			return RF_RB_FULL;                                                         \
	} while (0)

#define FULL_IF(cond)                                                                              \
	do {                                                                                       \
		if (cond)                                                                          \
			return RF_RB_FULL;                                                         \
	} while (0)

/* --- the schema: collecting --- */

static struct def *type_def(struct check *c, struct rf_str name)
{
	struct rf_rv at;

	return find(&c->types, name, &at) ? &c->defs[at.i] : NULL;
}

static enum def_kind kind_of(struct rf_rv node)
{
	for (int i = 0; i < K_OTHER; i++)
		if (rf_str_is(str(node, "Kind"), def_kinds[i]))
			return (enum def_kind)i;
	return K_OTHER;
}

static const char *kind_text(enum def_kind kind)
{
	return kind < K_OTHER ? def_kinds[kind] : "";
}

static enum rf_rb_result extend_list(struct check *c, struct rf_rv_grow *to, struct rf_rv items)
{
	SPEND(c, 1 + (int64_t)items.n);
	for (uint32_t i = 0; i < items.n; i++)
		FULL_IF(!rf_rv_push(to, c->e->arena, items.items[i]));
	return RF_RB_OK;
}

static enum rf_rb_result extend_def(struct check *c, struct def *d, struct rf_rv node)
{
	RB_TRY(extend_list(c, &d->directives, list(node, "Directives")));
	RB_TRY(extend_list(c, &d->interfaces, list(node, "Interfaces")));
	RB_TRY(extend_list(c, &d->fields, list(node, "Fields")));
	RB_TRY(extend_list(c, &d->types, list(node, "Types")));
	return extend_list(c, &d->values, list(node, "EnumValues"));
}

static enum rf_rb_result add_def(struct check *c, struct rf_rv node, struct def **ret)
{
	struct def *d = &c->defs[c->n_defs];

	*d = (struct def){ .name = str(node, "Name"), .kind = kind_of(node), .node = node };
	FULL_IF(!rf_rv_put(&c->types, c->e->arena, rf_rv_str(d->name), rf_rv_int(c->n_defs), NULL));
	c->n_defs++;
	*ret = d;
	return RF_RB_OK;
}

static enum rf_rb_result add_defs(struct check *c, struct rf_rv doc, bool builtin)
{
	struct rf_rv nodes = list(doc, "Definitions");
	struct def *d;

	for (uint32_t i = 0; i < nodes.n; i++) {
		struct rf_str name = str(nodes.items[i], "Name");

		if (type_def(c, name) != NULL)
			return wrong(c, nodes.items[i], "Cannot redeclare type %.*s.", RF_STR(name));
		RB_TRY(add_def(c, nodes.items[i], &d));
		d->builtin = builtin || flag(nodes.items[i], "BuiltIn");
		RB_TRY(extend_def(c, d, nodes.items[i]));
	}
	return RF_RB_OK;
}

static enum rf_rb_result add_extensions(struct check *c, struct rf_rv doc)
{
	struct rf_rv nodes = list(doc, "Extensions");

	for (uint32_t i = 0; i < nodes.n; i++) {
		struct def *d = type_def(c, str(nodes.items[i], "Name"));

		if (d == NULL)
			RB_TRY(add_def(c, nodes.items[i], &d));
		if (d->kind != kind_of(nodes.items[i]))
			return wrong(c, nodes.items[i],
				     "Cannot extend type %.*s because the base type is a %s, not %s.",
				     RF_STR(d->name), kind_text(d->kind),
				     kind_text(kind_of(nodes.items[i])));
		RB_TRY(extend_def(c, d, nodes.items[i]));
	}
	return RF_RB_OK;
}

static enum rf_rb_result add_directives(struct check *c, struct rf_rv doc, bool builtin)
{
	struct rf_rv nodes = list(doc, "Directives"), old;

	for (uint32_t i = 0; i < nodes.n; i++) {
		struct rf_str name = str(nodes.items[i], "Name");
		bool known = find(&c->directives, name, &old);

		SPEND(c, 1);
		/* The directives of the prelude may be written out again; the prelude's stay. */
		if (known && !rf_str_is(name, "include") && !rf_str_is(name, "skip") &&
		    !rf_str_is(name, "deprecated") && !rf_str_is(name, "specifiedBy"))
			return wrong(c, nodes.items[i], "Cannot redeclare directive %.*s.", RF_STR(name));
		if (!known || builtin)
			FULL_IF(!rf_rv_put(&c->directives, c->e->arena, rf_rv_str(name), nodes.items[i],
					   NULL));
	}
	return RF_RB_OK;
}

static int root_at(struct rf_str operation)
{
	if (rf_str_is(operation, "mutation"))
		return 1;
	if (rf_str_is(operation, "subscription"))
		return 2;
	return rf_str_is(operation, "query") || operation.n == 0 ? 0 : -1;
}

static enum rf_rb_result add_roots(struct check *c, struct rf_rv schema)
{
	struct rf_rv nodes = list(schema, "OperationTypes");

	for (uint32_t i = 0; i < nodes.n; i++) {
		struct rf_str operation = str(nodes.items[i], "Operation"), type = str(nodes.items[i], "Type");
		struct def *d = type_def(c, type);

		SPEND(c, 1);
		if (d == NULL)
			return wrong(c, nodes.items[i],
				     "Schema root %.*s refers to a type %.*s that does not exist.",
				     RF_STR(operation), RF_STR(type));
		if (operation.n > 0 && root_at(operation) >= 0)
			c->root[root_at(operation)] = d;
	}
	return RF_RB_OK;
}

static enum rf_rb_result add_schema(struct check *c, struct rf_rv doc)
{
	static const char *const inferred[] = { "Query", "Mutation", "Subscription" };
	struct rf_rv main = list(doc, "Schema"), more = list(doc, "SchemaExtension");

	if (main.n > 1)
		return wrong(c, main.items[1],
			     "Cannot have multiple schema entry points, consider schema extensions instead.");
	if (main.n == 1)
		RB_TRY(add_roots(c, main.items[0]));
	for (uint32_t i = 0; i < more.n; i++)
		RB_TRY(add_roots(c, more.items[i]));
	for (size_t i = 0; main.n == 0 && i < RF_COUNT(inferred); i++)
		if (c->root[i] == NULL)
			c->root[i] = type_def(c, rf_str(inferred[i]));
	return RF_RB_OK;
}

/* --- the schema: is it sound? --- */

static enum rf_rb_result check_name(struct check *c, struct rf_rv node, struct rf_str name)
{
	if (rf_str_starts(name, RF_LIT("__")))
		return wrong(c, node,
			     "Name \"%.*s\" must not begin with \"__\", which is reserved by GraphQL "
			     "introspection.",
			     RF_STR(name));
	return RF_RB_OK;
}

static bool has_location(struct rf_rv directive, const char *location)
{
	struct rf_rv l = list(directive, "Locations");

	for (uint32_t i = 0; i < l.n; i++)
		if (rf_str_is(rf_rv_text(l.items[i]), location))
			return true;
	return false;
}

static enum rf_rb_result check_directives(struct check *c, struct rf_rv used, const char *location,
					  struct rf_str within)
{
	for (uint32_t i = 0; i < used.n; i++) {
		struct rf_str name = str(used.items[i], "Name");
		struct rf_rv d;

		SPEND(c, 20);
		RB_TRY(check_name(c, used.items[i], name));
		if (within.n > 0 && rf_str_eq(within, name))
			return wrong(c, used.items[i], "Directive %.*s cannot refer to itself.", RF_STR(name));
		if (!find(&c->directives, name, &d))
			return wrong(c, used.items[i], "Undefined directive %.*s.", RF_STR(name));
		SPEND(c, list(d, "Locations").n / 4);
		if (!has_location(d, location))
			return wrong(c, used.items[i], "Directive %.*s is not applicable on %s.", RF_STR(name),
				     location);
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_type(struct check *c, struct rf_rv node, struct def **ret)
{
	struct rf_rv type = RF_RV_NIL;
	struct rf_str name;

	SPEND(c, 4);
	name = part(node, "Type", &type) ? type_name(type) : RF_STR_EMPTY;
	*ret = type_def(c, name);
	if (*ret == NULL)
		return wrong(c, type.type == RF_RV_OBJECT ? type : node, "Undefined type %.*s.", RF_STR(name));
	return RF_RB_OK;
}

static bool is_input(const struct def *d)
{
	return d->kind == K_SCALAR || d->kind == K_ENUM || d->kind == K_INPUT;
}

static bool is_composite(const struct def *d)
{
	return d->kind == K_OBJECT || d->kind == K_INTERFACE || d->kind == K_UNION;
}

static enum rf_rb_result check_arguments(struct check *c, struct rf_rv args, struct rf_str within)
{
	struct def *d;

	for (uint32_t i = 0; i < args.n; i++) {
		struct rf_rv type;

		RB_TRY(check_name(c, args.items[i], str(args.items[i], "Name")));
		RB_TRY(check_type(c, args.items[i], &d));
		if (!is_input(d) && part(args.items[i], "Type", &type))
			return wrong(c, args.items[i],
				     "cannot use %.*s as argument %.*s because %s is not a valid input type",
				     RF_STR(type_text(c, type)), RF_STR(str(args.items[i], "Name")),
				     kind_text(d->kind));
		RB_TRY(check_directives(c, list(args.items[i], "Directives"), "ARGUMENT_DEFINITION", within));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_field(struct check *c, struct def *d, struct rf_rv field)
{
	bool input = d->kind == K_INPUT, is_new;
	struct rf_str name = str(field, "Name");
	struct rf_rv old;
	struct def *type;

	RB_TRY(check_name(c, field, name));
	RB_TRY(check_type(c, field, &type));
	RB_TRY(check_arguments(c, list(field, "Arguments"), RF_STR_EMPTY));
	RB_TRY(check_directives(c, list(field, "Directives"),
				input ? "INPUT_FIELD_DEFINITION" : "FIELD_DEFINITION", RF_STR_EMPTY));
	if (input && !is_input(type))
		return wrong(c, field, "%s %.*s: field must be one of SCALAR, ENUM, INPUT_OBJECT.",
			     kind_text(type->kind), RF_STR(name));
	if ((d->kind == K_OBJECT || d->kind == K_INTERFACE) && type->kind >= K_INPUT)
		return wrong(c, field,
			     "%s %.*s: field must be one of SCALAR, OBJECT, INTERFACE, UNION, ENUM.",
			     kind_text(d->kind), RF_STR(d->name));
	is_new = !find(&d->by_name, name, &old);
	if (!is_new)
		return wrong(c, field, "Field %.*s.%.*s can only be defined once.", RF_STR(d->name),
			     RF_STR(name));
	FULL_IF(!rf_rv_put(&d->by_name, c->e->arena, rf_rv_str(name), field, NULL));
	return RF_RB_OK;
}

static enum rf_rb_result check_members(struct check *c, struct def *d)
{
	for (uint32_t i = 0; i < d->types.n; i++) {
		struct rf_str name = rf_rv_text(d->types.items[i]);
		struct def *m = type_def(c, name);

		SPEND(c, 2);
		if (m == NULL)
			return wrong(c, d->node, "Undefined type \"%.*s\".", RF_STR(name));
		if (m->kind != K_OBJECT)
			return wrong(c, d->node, "%s type \"%.*s\" must be OBJECT.", kind_text(d->kind),
				     RF_STR(name));
		FULL_IF(!rf_rv_put(&d->members, c->e->arena, d->types.items[i], rf_rv_bool(true), NULL));
	}
	for (uint32_t i = 0; i < d->interfaces.n; i++) {
		SPEND(c, 2);
		FULL_IF(!rf_rv_put(&d->members, c->e->arena, d->interfaces.items[i], rf_rv_bool(true),
				   NULL));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_values(struct check *c, struct def *d)
{
	for (uint32_t i = 0; i < d->values.n; i++) {
		struct rf_str name = str(d->values.items[i], "Name");

		SPEND(c, 2);
		if (rf_str_is(name, "true") || rf_str_is(name, "false") || rf_str_is(name, "null"))
			return wrong(c, d->node, "%s %.*s: non-enum value %.*s.", kind_text(d->kind),
				     RF_STR(d->name), RF_STR(name));
		FULL_IF(!rf_rv_put(&d->by_name, c->e->arena, rf_rv_str(name), d->values.items[i], NULL));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_def(struct check *c, struct def *d)
{
	if (d->kind == K_OTHER)
		return wrong(c, d->node, "Type %.*s is of no known kind.", RF_STR(d->name));
	for (uint32_t i = 0; i < d->fields.n; i++)
		RB_TRY(check_field(c, d, d->fields.items[i]));
	RB_TRY(check_members(c, d));
	if ((d->kind == K_OBJECT || d->kind == K_INTERFACE) && d->fields.n == 0)
		return wrong(c, d->node, "%s %.*s: must define one or more fields.", kind_text(d->kind),
			     RF_STR(d->name));
	if (d->kind == K_INPUT && d->fields.n == 0)
		return wrong(c, d->node, "%s %.*s: must define one or more input fields.", kind_text(d->kind),
			     RF_STR(d->name));
	if (d->kind == K_ENUM && d->values.n == 0)
		return wrong(c, d->node, "%s %.*s: must define one or more unique enum values.",
			     kind_text(d->kind), RF_STR(d->name));
	if (d->kind == K_ENUM)
		RB_TRY(check_values(c, d));
	if (!d->builtin)
		RB_TRY(check_name(c, d->node, d->name));
	return check_directives(c, rf_rv_array(d->directives.items, d->directives.n), kind_text(d->kind),
				RF_STR_EMPTY);
}

/* Is it the type itself, or one that a union or interface stands for? */
static bool stands_for(struct check *c, struct rf_str abstract, struct rf_str actual)
{
	struct def *a = type_def(c, abstract), *b = type_def(c, actual);
	struct rf_rv ignored;

	if (rf_str_eq(abstract, actual))
		return true;
	if (a == NULL || b == NULL)
		return false;
	if (a->kind == K_UNION)
		return rf_rv_find(&a->members, rf_rv_str(actual), &ignored);
	return a->kind == K_INTERFACE && rf_rv_find(&b->members, rf_rv_str(abstract), &ignored);
}

static bool is_covariant(struct check *c, struct rf_rv wanted, struct rf_rv actual)
{
	struct rf_rv a, b;

	for (;;) {
		if (flag(wanted, "NonNull") && !flag(actual, "NonNull"))
			return false;
		if (!part(wanted, "Elem", &a))
			return !part(actual, "Elem", &b) &&
			       stands_for(c, str(wanted, "NamedType"), str(actual, "NamedType"));
		if (!part(actual, "Elem", &b))
			return false;
		wanted = a;
		actual = b;
	}
}

/* May something of type `from` go where `to` is expected? lax: `to` has a default, null is fine. */
static bool is_compatible(struct rf_rv from, struct rf_rv to, bool lax)
{
	struct rf_rv a, b;

	for (;; lax = false) {
		if (!lax && flag(to, "NonNull") && !flag(from, "NonNull"))
			return false;
		if (!part(from, "Elem", &a))
			return !part(to, "Elem", &b) &&
			       rf_str_eq(str(from, "NamedType"), str(to, "NamedType"));
		if (!part(to, "Elem", &b))
			return false;
		from = a;
		to = b;
	}
}

static bool by_name(struct rf_rv nodes, struct rf_str name, struct rf_rv *ret)
{
	for (uint32_t i = 0; i < nodes.n; i++) {
		if (!rf_str_eq(str(nodes.items[i], "Name"), name))
			continue;
		*ret = nodes.items[i];
		return true;
	}
	return false;
}

static enum rf_rb_result check_same_arguments(struct check *c, struct def *d, struct def *i, struct rf_rv wanted,
					      struct rf_rv found)
{
	struct rf_rv want_args = list(wanted, "Arguments"), args = list(found, "Arguments");
	struct rf_rv arg, want_type = RF_RV_NIL, type = RF_RV_NIL;
	struct rf_str field = str(wanted, "Name");

	SPEND(c, 1 + (int64_t)want_args.n * (1 + args.n) * 2);
	for (uint32_t k = 0; k < want_args.n; k++) {
		struct rf_str name = str(want_args.items[k], "Name");

		if (!by_name(args, name, &arg))
			return wrong(c, found,
				     "For %.*s to implement %.*s the field %.*s must have the same arguments "
				     "but it is missing %.*s.",
				     RF_STR(d->name), RF_STR(i->name), RF_STR(field), RF_STR(name));
		(void)part(want_args.items[k], "Type", &want_type);
		(void)part(arg, "Type", &type);
		if (!is_compatible(want_type, type, false))
			return wrong(c, arg,
				     "For %.*s to implement %.*s the field %.*s must have the same arguments "
				     "but %.*s has the wrong type.",
				     RF_STR(d->name), RF_STR(i->name), RF_STR(field), RF_STR(name));
	}
	for (uint32_t k = 0; k < args.n; k++) {
		struct rf_str name = str(args.items[k], "Name");

		(void)part(args.items[k], "Type", &type);
		if (by_name(want_args, name, &arg) || !flag(type, "NonNull") ||
		    part(args.items[k], "DefaultValue", &arg))
			continue;
		return wrong(c, args.items[k],
			     "For %.*s to implement %.*s any additional arguments on %.*s must be optional or "
			     "have a default value but %.*s is required.",
			     RF_STR(d->name), RF_STR(i->name), RF_STR(field), RF_STR(name));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_implements(struct check *c, struct def *d, struct rf_str name)
{
	struct def *i = type_def(c, name);
	struct rf_rv found, wanted_type = RF_RV_NIL, type = RF_RV_NIL;

	if (i == NULL)
		return wrong(c, d->node, "Undefined type \"%.*s\".", RF_STR(name));
	if (i->kind != K_INTERFACE)
		return wrong(c, d->node, "\"%.*s\" is a non interface type %s.", RF_STR(name),
			     kind_text(i->kind));
	for (uint32_t k = 0; k < i->fields.n; k++) {
		struct rf_rv wanted = i->fields.items[k];
		struct rf_str field = str(wanted, "Name");

		SPEND(c, 10);
		if (!find(&d->by_name, field, &found))
			return wrong(c, d->node, "For %.*s to implement %.*s it must have a field called %.*s.",
				     RF_STR(d->name), RF_STR(name), RF_STR(field));
		(void)part(wanted, "Type", &wanted_type);
		(void)part(found, "Type", &type);
		if (!is_covariant(c, wanted_type, type))
			return wrong(c, found,
				     "For %.*s to implement %.*s the field %.*s must have type %.*s.",
				     RF_STR(d->name), RF_STR(name), RF_STR(field),
				     RF_STR(type_text(c, wanted_type)));
		RB_TRY(check_same_arguments(c, d, i, wanted, found));
	}
	for (uint32_t k = 0; k < i->interfaces.n; k++) {
		struct rf_str also = rf_rv_text(i->interfaces.items[k]);
		struct rf_rv ignored;

		SPEND(c, 2);
		if (rf_rv_find(&d->members, i->interfaces.items[k], &ignored))
			continue;
		if (rf_str_eq(also, d->name))
			return wrong(c, d->node,
				     "Type %.*s cannot implement %.*s because it would create a circular "
				     "reference.",
				     RF_STR(d->name), RF_STR(name));
		return wrong(c, d->node, "Type %.*s must implement %.*s because it is implemented by %.*s.",
			     RF_STR(d->name), RF_STR(also), RF_STR(name));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_all_defs(struct check *c)
{
	for (uint32_t i = 0; i < c->n_defs; i++)
		RB_TRY(check_def(c, &c->defs[i]));
	for (uint32_t i = 0; i < c->n_defs; i++)
		for (uint32_t k = 0; k < c->defs[i].interfaces.n; k++)
			RB_TRY(check_implements(c, &c->defs[i],
						rf_rv_text(c->defs[i].interfaces.items[k])));
	return RF_RB_OK;
}

static enum rf_rb_result check_directive_defs(struct check *c, struct rf_rv doc)
{
	struct rf_rv nodes = list(doc, "Directives");

	for (uint32_t i = 0; i < nodes.n; i++) {
		struct rf_str name = str(nodes.items[i], "Name");

		RB_TRY(check_name(c, nodes.items[i], name));
		RB_TRY(check_arguments(c, list(nodes.items[i], "Arguments"), name));
	}
	return RF_RB_OK;
}

/* __schema and __type of the query type. */
static enum rf_rb_result add_introspection(struct check *c)
{
	struct rf_rv doc, fields;
	static const char *const as[] = { "__schema", "__type" };

	if (c->root[0] == NULL)
		return RF_RB_OK;
	RB_TRY(rf_gql_parse(c->e, rf_str(root_fields), true, &doc, c->err));
	fields = list(list(doc, "Definitions").items[0], "Fields");
	for (uint32_t i = 0; i < RF_COUNT(as); i++)
		FULL_IF(!rf_rv_put(&c->root[0]->by_name, c->e->arena, rf_rv_str(rf_str(as[i])),
				   fields.items[i], NULL));
	return RF_RB_OK;
}

static enum rf_rb_result load_schema(struct check *c, struct rf_rv doc)
{
	struct rf_rv base;

	RB_TRY(rf_gql_parse(c->e, rf_str(prelude), true, &base, c->err));
	c->defs = rb_alloc(c->e,
			   (size_t)list(base, "Definitions").n + list(doc, "Definitions").n +
				   list(doc, "Extensions").n,
			   sizeof(*c->defs));
	FULL_IF(c->defs == NULL);
	RB_TRY(add_defs(c, base, true));
	RB_TRY(add_defs(c, doc, false));
	RB_TRY(add_extensions(c, doc));
	RB_TRY(add_directives(c, base, true));
	RB_TRY(add_directives(c, doc, false));
	RB_TRY(add_schema(c, doc));
	RB_TRY(check_all_defs(c));
	RB_TRY(check_directive_defs(c, doc));
	return add_introspection(c);
}

/* --- queries: values --- */

static enum rf_rb_result unique(struct check *c, struct rf_rv nodes, const char *key, const char *what,
				const char *mark)
{
	struct rf_rv_grow seen = { 0 };
	bool is_new;

	for (uint32_t i = 0; i < nodes.n; i++) {
		struct rf_str name = str(nodes.items[i], key);

		SPEND(c, 2);
		FULL_IF(!rf_rv_add(&seen, c->e->arena, rf_rv_str(name), &is_new));
		if (!is_new)
			return wrong(c, nodes.items[i], "There can be only one %s named \"%s%.*s\"", what, mark,
				     RF_STR(name));
	}
	return RF_RB_OK;
}

static bool has_default(struct rf_rv node)
{
	struct rf_rv v;

	return part(node, "DefaultValue", &v) && number(v, "Kind") != RF_GQL_NULL;
}

/* type: what is expected, null if that is not known. */
static enum rf_rb_result check_value(struct check *c, struct rf_rv v, struct rf_rv type, bool lax);

static enum rf_rb_result check_variable(struct check *c, struct rf_rv v, struct rf_rv type, bool lax)
{
	struct rf_str name = str(v, "Raw");
	struct rf_rv var, var_type = RF_RV_NIL;

	if (!find(&c->variables, name, &var))
		return c->operation.n > 0 ?
			       wrong(c, v, "Variable \"$%.*s\" is not defined by operation \"%.*s\"",
				     RF_STR(name), RF_STR(c->operation)) :
			       wrong(c, v, "Variable \"$%.*s\" is not defined", RF_STR(name));
	FULL_IF(!rf_rv_put(&c->used, c->e->arena, rf_rv_str(name), rf_rv_bool(true), NULL));
	(void)part(var, "Type", &var_type);
	if (type.type == RF_RV_OBJECT && !is_compatible(var_type, type, lax || has_default(var)))
		return wrong(c, v, "Variable \"$%.*s\" of type \"%.*s\" used in position expecting type \"%.*s\"",
			     RF_STR(name), RF_STR(type_text(c, var_type)), RF_STR(type_text(c, type)));
	return RF_RB_OK;
}

static enum rf_rb_result bad_value(struct check *c, struct rf_rv v, struct rf_rv type)
{
	struct rf_str raw = str(v, "Raw");

	raw.n = RF_MIN(raw.n, 200);
	return wrong(c, v, "Expected value of type \"%.*s\", found %.*s", RF_STR(type_text(c, type)),
		     RF_STR(raw));
}

static bool is_builtin_scalar(const struct def *d)
{
	return rf_str_is(d->name, "Int") || rf_str_is(d->name, "Float") || rf_str_is(d->name, "String") ||
	       rf_str_is(d->name, "Boolean") || rf_str_is(d->name, "ID");
}

static bool fits_scalar(const struct def *d, enum rf_gql_value kind, struct rf_str raw)
{
	int64_t i;

	switch (kind) {
	case RF_GQL_INT:
		return (rf_str_is(d->name, "Int") || rf_str_is(d->name, "Float") ||
			rf_str_is(d->name, "ID")) &&
		       rf_str_int(raw, &i, NULL) == 0;
	case RF_GQL_FLOAT:
		return rf_str_is(d->name, "Float");
	case RF_GQL_STRING:
	case RF_GQL_BLOCK:
		return rf_str_is(d->name, "String") || rf_str_is(d->name, "ID");
	case RF_GQL_BOOL:
		return rf_str_is(d->name, "Boolean");
	default:
		return false;
	}
}

static enum rf_rb_result check_object(struct check *c, struct rf_rv v, struct def *d)
{
	struct rf_rv children = list(v, "Children"), child, field, value, type = RF_RV_NIL;
	struct rf_rv_grow given = { 0 };

	RB_TRY(unique(c, children, "Name", "input field", ""));
	for (uint32_t i = 0; i < children.n; i++) {
		struct rf_str name = str(children.items[i], "Name");

		SPEND(c, 4);
		if (!find(&d->by_name, name, &field))
			return wrong(c, v, "Field \"%.*s\" is not defined by type \"%.*s\"", RF_STR(name),
				     RF_STR(d->name));
		(void)part(field, "Type", &type);
		value = RF_RV_NIL;
		(void)part(children.items[i], "Value", &value);
		RB_TRY(check_value(c, value, type, has_default(field)));
		FULL_IF(!rf_rv_put(&given, c->e->arena, rf_rv_str(name), rf_rv_bool(true), NULL));
	}
	for (uint32_t i = 0; i < d->fields.n; i++) {
		struct rf_str name = str(d->fields.items[i], "Name");

		SPEND(c, 2);
		if (part(d->fields.items[i], "Type", &type) && flag(type, "NonNull") &&
		    !part(d->fields.items[i], "DefaultValue", &child) && !find(&given, name, &child))
			return wrong(c, v, "Field \"%.*s.%.*s\" of required type \"%.*s\" was not provided",
				     RF_STR(d->name), RF_STR(name), RF_STR(type_text(c, type)));
	}
	return RF_RB_OK;
}

/* What is in a list or object, where its own type says no more: elem is null, or of each item. */
static enum rf_rb_result check_children(struct check *c, struct rf_rv v, struct rf_rv elem)
{
	struct rf_rv children = list(v, "Children"), value;

	for (uint32_t i = 0; i < children.n; i++)
		if (part(children.items[i], "Value", &value))
			RB_TRY(check_value(c, value, elem, false));
	return RF_RB_OK;
}

static enum rf_rb_result check_value(struct check *c, struct rf_rv v, struct rf_rv type, bool lax)
{
	int64_t kind = number(v, "Kind");
	struct rf_rv elem, ignored;
	struct def *d;

	SPEND(c, 4);
	if (v.type != RF_RV_OBJECT)
		return wrong(c, v, "a value is missing");
	if (kind == RF_GQL_VARIABLE)
		return check_variable(c, v, type, lax);
	d = type.type == RF_RV_OBJECT ? type_def(c, type_name(type)) : NULL;
	if (d == NULL)
		return check_children(c, v, RF_RV_NIL);
	if (kind == RF_GQL_NULL)
		return flag(type, "NonNull") ? bad_value(c, v, type) : RF_RB_OK;
	if (kind == RF_GQL_LIST && part(type, "Elem", &elem))
		return check_children(c, v, elem);
	if (d->kind == K_SCALAR && !is_builtin_scalar(d))
		return check_children(c, v, RF_RV_NIL);
	/* One item may stand for a list of one. */
	if (kind == RF_GQL_OBJECT && d->kind == K_INPUT)
		return check_object(c, v, d);
	if (kind == RF_GQL_ENUM && d->kind == K_ENUM && find(&d->by_name, str(v, "Raw"), &ignored))
		return RF_RB_OK;
	if (d->kind == K_SCALAR && kind >= RF_GQL_INT && kind <= RF_GQL_BOOL &&
	    fits_scalar(d, (enum rf_gql_value)kind, str(v, "Raw")))
		return RF_RB_OK;
	return bad_value(c, v, type);
}

/* --- queries: arguments and directives --- */

/* What has arguments, for messages: a field of a type, or a directive. */
struct owner {
	struct rf_str type, name; /* type: empty for a directive */
};

static enum rf_rb_result unknown_argument(struct check *c, struct rf_rv arg, const struct owner *o)
{
	struct rf_str name = str(arg, "Name");

	if (o->type.n == 0)
		return wrong(c, arg, "Unknown argument \"%.*s\" on directive \"@%.*s\"", RF_STR(name),
			     RF_STR(o->name));
	return wrong(c, arg, "Unknown argument \"%.*s\" on field \"%.*s.%.*s\"", RF_STR(name),
		     RF_STR(o->type), RF_STR(o->name));
}

static enum rf_rb_result check_given(struct check *c, struct rf_rv node, struct rf_rv def,
				     const struct owner *o)
{
	struct rf_rv args = list(node, "Arguments"), defs = list(def, "Arguments");
	struct rf_rv found, value, type = RF_RV_NIL;

	RB_TRY(unique(c, args, "Name", "argument", ""));
	SPEND(c, 1 + 2 * (int64_t)args.n * (1 + defs.n));
	for (uint32_t i = 0; i < args.n; i++) {
		if (!by_name(defs, str(args.items[i], "Name"), &found))
			return unknown_argument(c, args.items[i], o);
		(void)part(found, "Type", &type);
		value = RF_RV_NIL;
		(void)part(args.items[i], "Value", &value);
		RB_TRY(check_value(c, value, type, has_default(found)));
	}
	for (uint32_t i = 0; i < defs.n; i++) {
		struct rf_str name = str(defs.items[i], "Name");

		SPEND(c, 1);
		if (!part(defs.items[i], "Type", &type) || !flag(type, "NonNull") ||
		    part(defs.items[i], "DefaultValue", &value) || by_name(args, name, &found))
			continue;
		return wrong(c, node,
			     "%s \"%s%.*s\" argument \"%.*s\" of type \"%.*s\" is required, but it was not "
			     "provided",
			     o->type.n == 0 ? "Directive" : "Field", o->type.n == 0 ? "@" : "",
			     RF_STR(o->name), RF_STR(name), RF_STR(type_text(c, type)));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_used(struct check *c, struct rf_rv node, const char *location)
{
	struct rf_rv used = list(node, "Directives"), d;
	struct rf_rv_grow seen = { 0 };
	bool is_new;

	for (uint32_t i = 0; i < used.n; i++) {
		struct owner o = { RF_STR_EMPTY, str(used.items[i], "Name") };

		SPEND(c, 4);
		if (!find(&c->directives, o.name, &d))
			return wrong(c, used.items[i], "Unknown directive \"@%.*s\"", RF_STR(o.name));
		SPEND(c, list(d, "Locations").n / 4);
		if (!has_location(d, location))
			return wrong(c, used.items[i], "Directive \"@%.*s\" may not be used on %s",
				     RF_STR(o.name), location);
		FULL_IF(!rf_rv_add(&seen, c->e->arena, rf_rv_str(o.name), &is_new));
		if (!is_new && !flag(d, "IsRepeatable"))
			return wrong(c, used.items[i],
				     "The directive \"@%.*s\" can only be used once at this location",
				     RF_STR(o.name));
		RB_TRY(check_given(c, used.items[i], d, &o));
	}
	return RF_RB_OK;
}

/* --- queries: fields of one name --- */

/* A field as it answers to a name, wherever it is written. */
struct asked {
	struct rf_rv node, type; /* type: null if not known */
	struct def *parent;
	uint32_t next; /* of the same name, UINT32_MAX at the end */
};

struct asked_list {
	struct asked *item;
	uint32_t n, room;
	struct rf_rv_grow fragments; /* names, each true: followed once */
	uint32_t *todo, n_todo;
};

static enum rf_rb_result add_asked(struct check *c, struct asked_list *l, struct rf_rv node, struct def *parent)
{
	struct rf_rv field, type = RF_RV_NIL;

	if (l->n == l->room) {
		uint32_t room = l->room == 0 ? 16 : l->room * 2;
		struct asked *a = rb_alloc(c->e, room, sizeof(*a));

		FULL_IF(a == NULL);
		if (l->n > 0)
			memcpy(a, l->item, l->n * sizeof(*a));
		l->item = a;
		l->room = room;
	}
	if (find(&parent->by_name, str(node, "Name"), &field))
		(void)part(field, "Type", &type);
	l->item[l->n++] = (struct asked){ node, type, parent, UINT32_MAX };
	return RF_RB_OK;
}

static enum rf_rb_result collect_set(struct check *c, struct asked_list *l, struct rf_rv set, struct def *parent)
{
	struct rf_rv ignored, at;

	for (uint32_t i = 0; i < set.n; i++) {
		struct rf_rv node = set.items[i];
		struct def *d = parent;

		SPEND(c, 8);
		if (rf_rv_get_str(node, RF_LIT("Alias"), &ignored)) {
			RB_TRY(add_asked(c, l, node, parent));
		} else if (rf_rv_get_str(node, RF_LIT("TypeCondition"), &ignored)) {
			if (str(node, "TypeCondition").n > 0)
				d = type_def(c, str(node, "TypeCondition"));
			if (d != NULL)
				RB_TRY(collect_set(c, l, list(node, "SelectionSet"), d));
		} else if (find(&c->fragment_at, str(node, "Name"), &at) &&
			   !find(&l->fragments, str(node, "Name"), &ignored)) {
			FULL_IF(!rf_rv_put(&l->fragments, c->e->arena, rf_rv_str(str(node, "Name")),
					   rf_rv_bool(true), NULL));
			if (l->todo == NULL)
				l->todo = rb_alloc(c->e, c->fragments.n, sizeof(*l->todo));
			FULL_IF(l->todo == NULL);
			l->todo[l->n_todo++] = (uint32_t)at.i;
		}
	}
	return RF_RB_OK;
}

/* Puts off fragments until here, so that they do not nest. */
static enum rf_rb_result collect_fragments(struct check *c, struct asked_list *l)
{
	for (uint32_t i = 0; i < l->n_todo; i++) {
		struct rf_rv f = c->fragments.items[l->todo[i]];

		RB_TRY(collect_set(c, l, list(f, "SelectionSet"), type_def(c, str(f, "TypeCondition"))));
	}
	return RF_RB_OK;
}

static bool same_value(struct check *c, struct rf_rv a, struct rf_rv b)
{
	struct rf_rv ac = list(a, "Children"), bc = list(b, "Children"), av, bv;

	if (!rf_rb_spend(c->e, 4) || number(a, "Kind") != number(b, "Kind") || ac.n != bc.n ||
	    !rf_str_eq(str(a, "Raw"), str(b, "Raw")))
		return false;
	for (uint32_t i = 0; i < ac.n; i++)
		if (!rf_str_eq(str(ac.items[i], "Name"), str(bc.items[i], "Name")) ||
		    !part(ac.items[i], "Value", &av) || !part(bc.items[i], "Value", &bv) ||
		    !same_value(c, av, bv))
			return false;
	return true;
}

static bool same_arguments(struct check *c, struct rf_rv a, struct rf_rv b)
{
	struct rf_rv aa = list(a, "Arguments"), ba = list(b, "Arguments"), other, av, bv;

	if (aa.n != ba.n || !rf_rb_spend(c->e, 1 + (int64_t)aa.n * ba.n))
		return false;
	for (uint32_t i = 0; i < aa.n; i++)
		if (!by_name(ba, str(aa.items[i], "Name"), &other) || !part(aa.items[i], "Value", &av) ||
		    !part(other, "Value", &bv) || !same_value(c, av, bv))
			return false;
	return true;
}

/* Could one answer be read as the other? What is selected of objects is looked at on its own. */
static bool same_form(struct check *c, struct rf_rv a, struct rf_rv b)
{
	struct rf_rv ae, be;
	struct def *ad, *bd;

	for (;;) {
		bool a_list = part(a, "Elem", &ae), b_list = part(b, "Elem", &be);

		if (flag(a, "NonNull") != flag(b, "NonNull") || a_list != b_list)
			return false;
		if (!a_list)
			break;
		a = ae;
		b = be;
	}
	ad = type_def(c, str(a, "NamedType"));
	bd = type_def(c, str(b, "NamedType"));
	if (ad == NULL || bd == NULL || ad == bd)
		return true;
	return is_composite(ad) && is_composite(bd);
}

static enum rf_rb_result conflict(struct check *c, const struct asked *a, const char *why)
{
	return wrong(c, a->node,
		     "Fields \"%.*s\" conflict because %s. Use different aliases on the fields to fetch both if "
		     "this was intentional",
		     RF_STR(str(a->node, "Alias")), why);
}

static enum rf_rb_result check_pair(struct check *c, const struct asked *a, const struct asked *b, bool same)
{
	bool typed = a->type.type == RF_RV_OBJECT && b->type.type == RF_RV_OBJECT;

	SPEND(c, 8);
	if (same && !rf_str_eq(str(a->node, "Name"), str(b->node, "Name")))
		return conflict(c, a, "they are different fields");
	if (same && !same_arguments(c, a->node, b->node)) {
		SPEND(c, 0); /* also told as different when the fuel ended */
		return conflict(c, a, "they have differing arguments");
	}
	if (typed && !same_form(c, a->type, b->type))
		return conflict(c, a, "they return conflicting types");
	return RF_RB_OK;
}

static enum rf_rb_result check_asked(struct check *c, struct asked_list *l, bool same, int depth);

/* Those of one name that can answer for one object must be the same field (same), and what they select
 * must go together too. of: NULL for all, else only those asked of this object type or of an abstract one. */
static enum rf_rb_result check_group(struct check *c, struct asked_list *l, uint32_t first, struct def *of,
				     bool same, int depth)
{
	struct asked_list below = { 0 };
	const struct asked *head = NULL;
	uint32_t n = 0;

	for (uint32_t i = first; i != UINT32_MAX; i = l->item[i].next) {
		const struct asked *a = &l->item[i];
		struct def *d;

		SPEND(c, 2);
		if (of != NULL && a->parent->kind == K_OBJECT && a->parent != of)
			continue;
		if (head == NULL)
			head = a;
		else
			RB_TRY(check_pair(c, head, a, same));
		n++;
		d = a->type.type == RF_RV_OBJECT ? type_def(c, type_name(a->type)) : NULL;
		if (d != NULL)
			RB_TRY(collect_set(c, &below, list(a->node, "SelectionSet"), d));
	}
	if (n < 2)
		return RF_RB_OK;
	RB_TRY(collect_fragments(c, &below));
	return check_asked(c, &below, same, depth + 1);
}

/* Was a field of this name asked of the same object type before? */
static bool is_first_of(const struct asked_list *l, uint32_t first, uint32_t at)
{
	for (uint32_t i = first; i != at; i = l->item[i].next)
		if (l->item[i].parent == l->item[at].parent)
			return false;
	return true;
}

static enum rf_rb_result check_same(struct check *c, struct asked_list *l, uint32_t first, int depth)
{
	bool objects = false;
	uint32_t n = 0;

	for (uint32_t i = first; i != UINT32_MAX; i = l->item[i].next, n++) {
		SPEND(c, 1 + n / 8);
		if (l->item[i].parent->kind != K_OBJECT || !is_first_of(l, first, i))
			continue;
		objects = true;
		RB_TRY(check_group(c, l, first, l->item[i].parent, true, depth));
	}
	return objects ? RF_RB_OK : check_group(c, l, first, NULL, true, depth);
}

static enum rf_rb_result check_asked(struct check *c, struct asked_list *l, bool same, int depth)
{
	struct rf_rv_grow names = { 0 }; /* name to the first */
	uint32_t *last = rb_alloc(c->e, l->n, sizeof(*last));
	struct rf_rv at;

	FULL_IF(last == NULL);
	if (depth > RF_GQL_DEPTH_MAX)
		return rb_error(c->err, "the GraphQL query nests more than %d deep", RF_GQL_DEPTH_MAX);
	for (uint32_t i = 0; i < l->n; i++) {
		struct rf_rv name = rf_rv_str(str(l->item[i].node, "Alias"));

		SPEND(c, 2);
		last[i] = i;
		if (rf_rv_find(&names, name, &at)) {
			l->item[last[at.i]].next = i;
			last[at.i] = i;
			continue;
		}
		FULL_IF(!rf_rv_put(&names, c->e->arena, name, rf_rv_int(i), NULL));
	}
	for (uint32_t i = 0; i < names.n; i++) {
		uint32_t first = (uint32_t)names.items[2 * i + 1].i;

		if (l->item[first].next == UINT32_MAX)
			continue;
		RB_TRY(same ? check_same(c, l, first, depth) : check_group(c, l, first, NULL, false, depth));
	}
	return RF_RB_OK;
}

/* One set: first that answers of one name have one form, then that they are the same field. */
static enum rf_rb_result check_merge(struct check *c, struct rf_rv set, struct def *parent)
{
	struct asked_list l = { 0 };

	RB_TRY(collect_set(c, &l, set, parent));
	RB_TRY(collect_fragments(c, &l));
	RB_TRY(check_asked(c, &l, false, 0));
	for (uint32_t i = 0; i < l.n; i++)
		l.item[i].next = UINT32_MAX;
	return check_asked(c, &l, true, 0);
}

/* --- queries: selections --- */

static enum rf_rb_result check_selections(struct check *c, struct rf_rv set, struct def *parent);

/* Is there an object that is both? */
static enum rf_rb_result can_be(struct check *c, const struct def *a, const struct def *b, bool *ret)
{
	*ret = true;
	if (rf_str_eq(a->name, b->name))
		return RF_RB_OK;
	SPEND(c, (int64_t)c->n_defs);
	for (uint32_t i = 0; i < c->n_defs; i++)
		if (c->defs[i].kind == K_OBJECT && stands_for(c, a->name, c->defs[i].name) &&
		    stands_for(c, b->name, c->defs[i].name))
			return RF_RB_OK;
	*ret = false;
	return RF_RB_OK;
}

static enum rf_rb_result check_spread(struct check *c, struct rf_rv node, struct def *parent)
{
	struct rf_str name = str(node, "Name");
	struct rf_rv at;
	struct def *d;
	bool fine;

	RB_TRY(check_used(c, node, "FRAGMENT_SPREAD"));
	if (!find(&c->fragment_at, name, &at))
		return wrong(c, node, "Unknown fragment \"%.*s\"", RF_STR(name));
	if (!c->visited[at.i]) {
		c->visited[at.i] = true;
		c->visit[c->n_visit++] = (uint32_t)at.i;
	}
	d = type_def(c, str(c->fragments.items[at.i], "TypeCondition"));
	if (d == NULL)
		return RF_RB_OK; /* told where the fragment is */
	RB_TRY(can_be(c, parent, d, &fine));
	if (!fine)
		return wrong(c, node,
			     "Fragment \"%.*s\" cannot be spread here as objects of type \"%.*s\" can never be "
			     "of type \"%.*s\"",
			     RF_STR(name), RF_STR(parent->name), RF_STR(d->name));
	return RF_RB_OK;
}

static enum rf_rb_result check_inline(struct check *c, struct rf_rv node, struct def *parent)
{
	struct rf_str name = str(node, "TypeCondition");
	struct def *d = name.n == 0 ? parent : type_def(c, name);
	bool fine;

	if (d == NULL)
		return wrong(c, node, "Unknown type \"%.*s\"", RF_STR(name));
	if (!is_composite(d))
		return wrong(c, node, "Fragment cannot condition on non composite type \"%.*s\"", RF_STR(name));
	RB_TRY(check_used(c, node, "INLINE_FRAGMENT"));
	RB_TRY(can_be(c, parent, d, &fine));
	if (!fine)
		return wrong(c, node,
			     "Fragment cannot be spread here as objects of type \"%.*s\" can never be of type "
			     "\"%.*s\"",
			     RF_STR(parent->name), RF_STR(d->name));
	return check_selections(c, list(node, "SelectionSet"), d);
}

static enum rf_rb_result check_queried(struct check *c, struct rf_rv node, struct def *parent)
{
	struct owner o = { parent->name, str(node, "Name") };
	struct rf_rv set = list(node, "SelectionSet"), field, type = RF_RV_NIL;
	struct def *d;

	if (rf_str_is(o.name, "__typename")) {
		if (list(node, "Arguments").n > 0)
			return unknown_argument(c, list(node, "Arguments").items[0], &o);
		if (set.n > 0)
			return wrong(c, node,
				     "Field \"%.*s\" must not have a selection since type \"String\" has no "
				     "subfields",
				     RF_STR(o.name));
		return check_used(c, node, "FIELD");
	}
	if (parent->kind == K_UNION || !find(&parent->by_name, o.name, &field))
		return wrong(c, node, "Cannot query field \"%.*s\" on type \"%.*s\"", RF_STR(o.name),
			     RF_STR(parent->name));
	RB_TRY(check_given(c, node, field, &o));
	RB_TRY(check_used(c, node, "FIELD"));
	(void)part(field, "Type", &type);
	d = type_def(c, type_name(type));
	if (d == NULL)
		return RF_RB_OK; /* a sound schema has it */
	if (!is_composite(d) && set.n > 0)
		return wrong(c, node,
			     "Field \"%.*s\" must not have a selection since type \"%.*s\" has no subfields",
			     RF_STR(o.name), RF_STR(type_text(c, type)));
	if (is_composite(d) && set.n == 0)
		return wrong(c, node,
			     "Field \"%.*s\" of type \"%.*s\" must have a selection of subfields. Did you mean "
			     "\"%.*s { ... }\"?",
			     RF_STR(o.name), RF_STR(type_text(c, type)), RF_STR(o.name));
	RB_TRY(check_selections(c, set, d));
	return check_merge(c, set, d);
}

static enum rf_rb_result check_selections(struct check *c, struct rf_rv set, struct def *parent)
{
	struct rf_rv ignored;

	for (uint32_t i = 0; i < set.n; i++) {
		struct rf_rv node = set.items[i];

		SPEND(c, 8);
		if (rf_rv_get_str(node, RF_LIT("Alias"), &ignored))
			RB_TRY(check_queried(c, node, parent));
		else if (rf_rv_get_str(node, RF_LIT("TypeCondition"), &ignored))
			RB_TRY(check_inline(c, node, parent));
		else
			RB_TRY(check_spread(c, node, parent));
	}
	return RF_RB_OK;
}

/* --- queries: fragments --- */

struct edges {
	uint32_t *from, *to, n, room;
};

/* The fragments a set spreads, at any depth. */
static enum rf_rb_result add_edges(struct check *c, struct rf_rv set, uint32_t from, struct edges *g)
{
	struct rf_rv ignored, at;

	for (uint32_t i = 0; i < set.n; i++) {
		struct rf_rv node = set.items[i];

		SPEND(c, 2);
		if (rf_rv_get_str(node, RF_LIT("Alias"), &ignored) ||
		    rf_rv_get_str(node, RF_LIT("TypeCondition"), &ignored)) {
			RB_TRY(add_edges(c, list(node, "SelectionSet"), from, g));
			continue;
		}
		if (!find(&c->fragment_at, str(node, "Name"), &at))
			continue;
		if (g->n == g->room) {
			uint32_t room = g->room == 0 ? 16 : g->room * 2;
			uint32_t *a = rb_alloc(c->e, room, 2 * sizeof(*a));

			FULL_IF(a == NULL);
			if (g->n > 0) {
				memcpy(a, g->from, g->n * sizeof(*a));
				memcpy(a + room, g->to, g->n * sizeof(*a));
			}
			*g = (struct edges){ a, a + room, g->n, room };
		}
		g->from[g->n] = from;
		g->to[g->n++] = (uint32_t)at.i;
	}
	return RF_RB_OK;
}

/* No fragment spreads itself: take away what nobody spreads, again and again; what stays is a circle. */
static enum rf_rb_result check_cycles(struct check *c)
{
	uint32_t n = c->fragments.n, done = 0, n_free = 0;
	struct edges g = { 0 };
	uint32_t *spread_by = rb_alloc(c->e, n, 3 * sizeof(*spread_by)), *first, *free_ones;

	FULL_IF(spread_by == NULL);
	first = spread_by + n; /* edges are in order of `from` */
	free_ones = first + n;
	memset(spread_by, 0, n * sizeof(*spread_by));
	for (uint32_t i = 0; i < n; i++) {
		first[i] = g.n;
		RB_TRY(add_edges(c, list(c->fragments.items[i], "SelectionSet"), i, &g));
	}
	for (uint32_t i = 0; i < g.n; i++)
		spread_by[g.to[i]]++;
	for (uint32_t i = 0; i < n; i++)
		if (spread_by[i] == 0)
			free_ones[n_free++] = i;
	while (done < n_free) {
		uint32_t f = free_ones[done++];

		for (uint32_t i = first[f]; i < g.n && g.from[i] == f; i++)
			if (--spread_by[g.to[i]] == 0)
				free_ones[n_free++] = g.to[i];
	}
	for (uint32_t i = 0; i < n; i++)
		if (spread_by[i] > 0)
			return wrong(c, c->fragments.items[i], "Cannot spread fragment \"%.*s\" within itself",
				     RF_STR(str(c->fragments.items[i], "Name")));
	return RF_RB_OK;
}

static enum rf_rb_result load_fragments(struct check *c, struct rf_rv query)
{
	uint32_t n;

	c->fragments = list(query, "Fragments");
	n = c->fragments.n;
	RB_TRY(unique(c, c->fragments, "Name", "fragment", ""));
	for (uint32_t i = 0; i < n; i++) {
		struct rf_rv f = c->fragments.items[i];
		struct rf_str type = str(f, "TypeCondition");
		struct def *d = type_def(c, type);

		SPEND(c, 2);
		if (d == NULL)
			return wrong(c, f, "Unknown type \"%.*s\"", RF_STR(type));
		if (!is_composite(d))
			return wrong(c, f, "Fragment \"%.*s\" cannot condition on non composite type \"%.*s\"",
				     RF_STR(str(f, "Name")), RF_STR(type));
		FULL_IF(!rf_rv_put(&c->fragment_at, c->e->arena, rf_rv_str(str(f, "Name")), rf_rv_int(i),
				   NULL));
	}
	c->reached = rb_alloc(c->e, n, sizeof(bool));
	c->visited = rb_alloc(c->e, n, sizeof(bool));
	c->visit = rb_alloc(c->e, n, sizeof(uint32_t));
	FULL_IF(c->reached == NULL || c->visited == NULL || c->visit == NULL);
	memset(c->reached, 0, n);
	return check_cycles(c);
}

/* --- queries: operations --- */

static enum rf_rb_result load_variables(struct check *c, struct rf_rv operation)
{
	struct rf_rv vars = list(operation, "VariableDefinitions"), type, value;

	c->variables = c->used = (struct rf_rv_grow){ 0 };
	RB_TRY(unique(c, vars, "Variable", "variable", "$"));
	for (uint32_t i = 0; i < vars.n; i++) {
		struct rf_str name = str(vars.items[i], "Variable");
		struct def *d;

		SPEND(c, 4);
		type = RF_RV_NIL;
		(void)part(vars.items[i], "Type", &type);
		d = type_def(c, type.type == RF_RV_OBJECT ? type_name(type) : RF_STR_EMPTY);
		if (d == NULL)
			return wrong(c, vars.items[i], "Unknown type \"%.*s\"",
				     RF_STR(type.type == RF_RV_OBJECT ? type_name(type) : RF_STR_EMPTY));
		if (!is_input(d))
			return wrong(c, vars.items[i], "Variable \"$%.*s\" cannot be non-input type \"%.*s\"",
				     RF_STR(name), RF_STR(type_text(c, type)));
		if (part(vars.items[i], "DefaultValue", &value))
			RB_TRY(check_value(c, value, type, false));
		RB_TRY(check_used(c, vars.items[i], "VARIABLE_DEFINITION"));
		FULL_IF(!rf_rv_put(&c->variables, c->e->arena, rf_rv_str(name), vars.items[i], NULL));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_all_used(struct check *c, struct rf_rv operation)
{
	struct rf_rv vars = list(operation, "VariableDefinitions"), ignored;

	for (uint32_t i = 0; i < vars.n; i++) {
		struct rf_str name = str(vars.items[i], "Variable");

		SPEND(c, 2);
		if (find(&c->used, name, &ignored))
			continue;
		return c->operation.n > 0 ?
			       wrong(c, vars.items[i], "Variable \"$%.*s\" is never used in operation \"%.*s\"",
				     RF_STR(name), RF_STR(c->operation)) :
			       wrong(c, vars.items[i], "Variable \"$%.*s\" is never used", RF_STR(name));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_fragments_of(struct check *c)
{
	for (uint32_t i = 0; i < c->n_visit; i++) {
		struct rf_rv f = c->fragments.items[c->visit[i]];

		c->reached[c->visit[i]] = true;
		RB_TRY(check_used(c, f, "FRAGMENT_DEFINITION"));
		RB_TRY(check_selections(c, list(f, "SelectionSet"), type_def(c, str(f, "TypeCondition"))));
		RB_TRY(check_merge(c, list(f, "SelectionSet"), type_def(c, str(f, "TypeCondition"))));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_operation(struct check *c, struct rf_rv operation)
{
	static const char *const location[] = { "QUERY", "MUTATION", "SUBSCRIPTION" };
	struct rf_rv set = list(operation, "SelectionSet");
	int root = root_at(str(operation, "Operation"));

	c->operation = str(operation, "Name");
	if (root < 0 || c->root[root] == NULL)
		return wrong(c, operation, "Schema does not support operation type \"%.*s\"",
			     RF_STR(str(operation, "Operation")));
	if (root == 2 && set.n > 1)
		return c->operation.n > 0 ?
			       wrong(c, set.items[1], "Subscription \"%.*s\" must select only one top level field",
				     RF_STR(c->operation)) :
			       wrong(c, set.items[1], "Anonymous Subscription must select only one top level field");
	RB_TRY(load_variables(c, operation));
	RB_TRY(check_used(c, operation, location[root]));
	SPEND(c, c->fragments.n / 16 + 1);
	memset(c->visited, 0, c->fragments.n);
	c->n_visit = 0;
	RB_TRY(check_selections(c, set, c->root[root]));
	RB_TRY(check_fragments_of(c));
	RB_TRY(check_merge(c, set, c->root[root]));
	return check_all_used(c, operation);
}

static enum rf_rb_result check_operation_names(struct check *c, struct rf_rv operations)
{
	struct rf_rv_grow seen = { 0 };
	bool is_new;

	for (uint32_t i = 0; i < operations.n; i++) {
		struct rf_str name = str(operations.items[i], "Name");

		SPEND(c, 2);
		if (name.n == 0 && operations.n > 1)
			return wrong(c, operations.items[i],
				     "This anonymous operation must be the only defined operation");
		FULL_IF(!rf_rv_add(&seen, c->e->arena, rf_rv_str(name), &is_new));
		if (!is_new)
			return wrong(c, operations.items[i], "There can be only one operation named \"%.*s\"",
				     RF_STR(name));
	}
	return RF_RB_OK;
}

static enum rf_rb_result check_query(struct check *c, struct rf_rv query)
{
	struct rf_rv operations = list(query, "Operations");

	c->in_query = true;
	RB_TRY(load_fragments(c, query));
	RB_TRY(check_operation_names(c, operations));
	for (uint32_t i = 0; i < operations.n; i++)
		RB_TRY(check_operation(c, operations.items[i]));
	for (uint32_t i = 0; i < c->fragments.n; i++)
		if (!c->reached[i])
			return wrong(c, c->fragments.items[i], "Fragment \"%.*s\" is never used",
				     RF_STR(str(c->fragments.items[i], "Name")));
	return RF_RB_OK;
}

enum rf_rb_result rf_gql_check(struct rf_rb_env *e, struct rf_rv schema, const struct rf_rv *query,
			       struct rf_err *err)
{
	struct check c = { .e = e, .err = err };

	RB_TRY(load_schema(&c, schema));
	return query == NULL ? RF_RB_OK : check_query(&c, *query);
}
