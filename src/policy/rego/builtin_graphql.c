/* graphql.*: documents as trees, and whether a query keeps to a schema. Either may be text, or a tree as
 * graphql.parse_query and graphql.parse_schema give it. */
#include "policy/rego/graphql.h"

/* tree: for rf_gql_check (text keeps its places); shape: what the policy gets. */
struct document {
	struct rf_rv tree, shape;
};

static enum rf_rb_result load(struct rf_rb_env *e, struct rf_rv v, int pos, bool schema, struct document *ret,
			      struct rf_err *err)
{
	if (v.type == RF_RV_STRING) {
		RB_TRY(rf_gql_parse(e, rf_rv_text(v), schema, &ret->tree, err));
		return rf_gql_shape(e, ret->tree, schema, &ret->shape, err);
	}
	if (v.type != RF_RV_OBJECT)
		return rb_type_error(err, "operand %d must be one of {object, string} but got %s", pos,
				     rf_rv_type_name(v));
	RB_TRY(rf_gql_shape(e, v, schema, &ret->shape, err));
	ret->tree = ret->shape;
	return RF_RB_OK;
}

static enum rf_rb_result parse_both(struct rf_rb_env *e, const struct rf_rv *arg, struct document *query,
				    struct document *schema, struct rf_err *err)
{
	RB_TRY(load(e, arg[0], 1, false, query, err));
	RB_TRY(load(e, arg[1], 2, true, schema, err));
	return rf_gql_check(e, schema->tree, &query->tree, err);
}

static enum rf_rb_result list_of(struct rf_rb_env *e, const struct rf_rv *v, uint32_t n, struct rf_rv *ret)
{
	struct rf_rv *items = rb_alloc(e, n, sizeof(*items));

	if (items == NULL)
		return RF_RB_FULL;
	memcpy(items, v, n * sizeof(*items));
	*ret = rf_rv_array(items, n);
	return RF_RB_OK;
}

static enum rf_rb_result graphql_parse(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
				       struct rf_err *err)
{
	struct document query, schema;

	RB_TRY(parse_both(e, arg, &query, &schema, err));
	return list_of(e, (const struct rf_rv[]){ query.shape, schema.shape }, 2, ret);
}

static enum rf_rb_result graphql_parse_and_verify(struct rf_rb_env *e, const struct rf_rv *arg,
						  struct rf_rv *ret, struct rf_err *err)
{
	const struct rf_rv none = rf_rv_object(NULL, 0, NULL);
	struct document query, schema;
	enum rf_rb_result r = parse_both(e, arg, &query, &schema, err);

	if (r == RF_RB_FULL)
		return r;
	if (r != RF_RB_OK)
		return list_of(e, (const struct rf_rv[]){ rf_rv_bool(false), none, none }, 3, ret);
	return list_of(e, (const struct rf_rv[]){ rf_rv_bool(true), query.shape, schema.shape }, 3, ret);
}

static enum rf_rb_result graphql_parse_query(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					     struct rf_err *err)
{
	struct document d;

	RB_TRY(load(e, arg[0], 1, false, &d, err));
	*ret = d.shape;
	return RF_RB_OK;
}

static enum rf_rb_result graphql_parse_schema(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					      struct rf_err *err)
{
	struct document d;

	RB_TRY(load(e, arg[0], 1, true, &d, err));
	*ret = d.shape;
	return RF_RB_OK;
}

static enum rf_rb_result graphql_is_valid(struct rf_rb_env *e, const struct rf_rv *arg, struct rf_rv *ret,
					  struct rf_err *err)
{
	struct document query, schema;
	enum rf_rb_result r = parse_both(e, arg, &query, &schema, err);

	*ret = rf_rv_bool(r == RF_RB_OK);
	return r == RF_RB_FULL ? r : RF_RB_OK;
}

static enum rf_rb_result graphql_schema_is_valid(struct rf_rb_env *e, const struct rf_rv *arg,
						 struct rf_rv *ret, struct rf_err *err)
{
	struct document schema;
	enum rf_rb_result r = load(e, arg[0], 1, true, &schema, err);

	if (r == RF_RB_OK)
		r = rf_gql_check(e, schema.tree, NULL, err);
	*ret = rf_rv_bool(r == RF_RB_OK);
	return r == RF_RB_FULL ? r : RF_RB_OK;
}

static const struct rf_rb rows[] = {
	{ "graphql.is_valid", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = graphql_is_valid },
	{ "graphql.parse", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = graphql_parse },
	{ "graphql.parse_and_verify", 2, .arg = { RF_RB_ANY, RF_RB_ANY }, .fn = graphql_parse_and_verify },
	{ "graphql.parse_query", 1, .arg = { RF_RB_STR }, .fn = graphql_parse_query },
	{ "graphql.parse_schema", 1, .arg = { RF_RB_STR }, .fn = graphql_parse_schema },
	{ "graphql.schema_is_valid", 1, .arg = { RF_RB_ANY }, .fn = graphql_schema_is_valid },
};

const struct rf_rb_rows rf_rb_graphql = { rows, RF_COUNT(rows) };
