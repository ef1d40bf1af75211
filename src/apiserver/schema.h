/* Schema: which fields the types of the served API have. One table serves four readers: JSON bodies
 * (unknown fields, wrong types), protobuf bodies (field numbers), OpenAPI and `kubectl explain`.
 *
 * A type is a name and its fields, "number name type" separated by '|'. Types of fields:
 *   s string, i integer, b bool, f number, y bytes (base64 in JSON), t time, m time with
 *   microseconds, q quantity, o integer or string, r any JSON;
 *   a capital letter begins the name of another type; [x list of x; {x map from strings to x;
 *   ^X another type whose fields stand directly in this one in JSON (a message of its own in protobuf). */
#ifndef RF_APISERVER_SCHEMA_H
#define RF_APISERVER_SCHEMA_H

#include "base/base.h"
#include "codec/json.h"

struct rf_schema_type {
	const char *name;
	const char *fields;
};
extern const struct rf_schema_type rf_schema_table[]; /* sorted by name; ends with NULL */

struct rf_schema_field {
	int64_t number;
	struct rf_str name;
	struct rf_str type;
};

const struct rf_schema_type *rf_schema_find(struct rf_str name); /* NULL if unknown */
/* Takes the next field off *fields: false at the end. */
bool rf_schema_next(struct rf_str *fields, struct rf_schema_field *ret);
bool rf_schema_field(const struct rf_schema_type *t, struct rf_str name,
		     struct rf_schema_field *ret);
bool rf_schema_field_number(const struct rf_schema_type *t, int64_t number,
			    struct rf_schema_field *ret);

/* Some checks compare every item of a list with every other; longer lists would cost minutes. */
#define RF_LIST_MAX 2048

/* Checks an object of that type and takes out what the type does not have. A value of the wrong type
 * and a list that is too long are RF_BAD_REQUEST. Each field taken out adds `unknown field "spec.contaners"` to unknown,
 * separated by ", ". JSON null counts as absent and is taken out too;
 * a quantity that is a number becomes text. */
int rf_schema_prune(const struct rf_schema_type *t, struct rf_json *object, struct rf_buf *unknown,
		    struct rf_err *err);

#endif
