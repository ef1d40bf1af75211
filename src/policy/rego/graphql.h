/* GraphQL documents as values: the tree that OPA's graphql.* functions give, with its names of fields
 * ("Operations", "SelectionSet", ...). Private to this folder.
 *
 * Text is capped at 1 MiB and 100 levels; every token takes fuel. */
#ifndef RF_POLICY_REGO_GRAPHQL_H
#define RF_POLICY_REGO_GRAPHQL_H

#include "policy/rego/builtin_util.h"

#define RF_GQL_TEXT_MAX (1024 * 1024)
#define RF_GQL_DEPTH_MAX 100

/* Text into a tree. Nodes have a "Position", and what is empty is left out: not yet what a policy sees. */
enum rf_rb_result rf_gql_parse(struct rf_rb_env *e, struct rf_str text, bool schema, struct rf_rv *ret,
			       struct rf_err *err);

/* A tree of rf_gql_parse, or one that a policy wrote, into the shape policies see: only the known fields,
 * each of its type (else RF_RB_ERROR), no "Position", no empty lists and nulls, and the plain fields
 * (names, flags) always there. */
enum rf_rb_result rf_gql_shape(struct rf_rb_env *e, struct rf_rv tree, bool schema, struct rf_rv *ret,
			       struct rf_err *err);

/* "Position": line and column in one number. */
static inline struct rf_rv rf_gql_pos(int line, int column)
{
	return rf_rv_int((int64_t)line << 32 | (uint32_t)column);
}
static inline int rf_gql_line(int64_t pos)
{
	return (int)(pos >> 32);
}
static inline int rf_gql_column(int64_t pos)
{
	return (int)(uint32_t)pos;
}

/* Kinds of a value, as in the tree. */
enum rf_gql_value {
	RF_GQL_VARIABLE,
	RF_GQL_INT,
	RF_GQL_FLOAT,
	RF_GQL_STRING,
	RF_GQL_BLOCK,
	RF_GQL_BOOL,
	RF_GQL_NULL,
	RF_GQL_ENUM,
	RF_GQL_LIST,
	RF_GQL_OBJECT,
};

/* graphql_check.c: is the schema sound, and does the query (may be NULL) keep to it? The trees are of
 * rf_gql_parse or rf_gql_shape. */
enum rf_rb_result rf_gql_check(struct rf_rb_env *e, struct rf_rv schema, const struct rf_rv *query,
			       struct rf_err *err);

#endif
