/* jansson as the second opinion on JSON: same verdict, same value. Used by test_json and fuzz_json.
 *
 * Left out, because the two are known to differ:
 *  - whole numbers past 64 bits and reals past a double: jansson refuses, ringfence keeps the text;
 *  - \u0000 in a key: jansson refuses, ringfence carries it as data;
 *  - depth: ringfence stops at RF_JSON_DEPTH_MAX, jansson at 2048;
 *  - memory and members: only ringfence has caps for them (RF_TOO_LARGE);
 *  - zero bytes in the text: jansson takes one for the end of some tokens. */
#ifndef RF_CODEC_TEST_JANSSON_H
#define RF_CODEC_TEST_JANSSON_H

#include <jansson.h>
#include <stdio.h>

#include "codec/json.h"

static inline bool same_as_jansson(const struct rf_json *v, const json_t *j);

static inline bool same_members(const struct rf_json *v, const json_t *j)
{
	if (json_object_size(j) != v->n)
		return false;
	for (uint32_t i = 0; i < v->n; i++) {
		/* No key has a zero byte in it (see above), so libc's idea of a string will do. */
		char *key = strndup(v->members[i].key.p, v->members[i].key.n);
		bool same = same_as_jansson(v->members[i].value, json_object_get(j, key));

		free(key);
		if (!same)
			return false;
	}
	return true;
}

static inline bool same_items(const struct rf_json *v, const json_t *j)
{
	if (json_array_size(j) != v->n)
		return false;
	for (uint32_t i = 0; i < v->n; i++)
		if (!same_as_jansson(v->items[i], json_array_get(j, i)))
			return false;
	return true;
}

static inline bool same_number(const struct rf_json *v, const json_t *j)
{
	char *text = strndup(v->text.p, v->text.n);
	double real = strtod(text, NULL);
	int64_t whole = 0;

	free(text);
	if (json_is_integer(j))
		return rf_json_is_int(v, &whole) && whole == json_integer_value(j);
	return json_is_real(j) && memcmp(&real, &(double){ json_real_value(j) }, sizeof(real)) == 0;
}

static inline bool same_as_jansson(const struct rf_json *v, const json_t *j)
{
	if (j == NULL)
		return false;
	switch (v->type) {
	case RF_JSON_NULL:
		return json_is_null(j);
	case RF_JSON_BOOL:
		return json_is_boolean(j) && json_is_true(j) == v->boolean;
	case RF_JSON_NUMBER:
		return same_number(v, j);
	case RF_JSON_STRING:
		return json_is_string(j) &&
		       rf_str_eq(v->text, rf_str_n(json_string_value(j), json_string_length(j)));
	case RF_JSON_ARRAY:
		return json_is_array(j) && same_items(v, j);
	case RF_JSON_OBJECT:
		return json_is_object(j) && same_members(v, j);
	}
	return false;
}

static inline bool known_to_differ(const struct rf_err *ours, const json_error_t *theirs)
{
	enum json_error_code code = json_error_code(theirs);

	return strstr(ours->msg, "nested deeper") != NULL || ours->code == RF_TOO_LARGE ||
	       code == json_error_numeric_overflow || code == json_error_null_byte_in_key;
}

/* Whether both readers say the same of that text; *ret_accepted is ours. */
static inline bool agrees_with_jansson(struct rf_str text, bool *ret_accepted)
{
	struct rf_arena a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	json_error_t theirs = { 0 };
	struct rf_json *v = NULL;
	json_t *j = NULL;
	bool same;

	*ret_accepted = rf_json_parse(&a, text, &v, &err) == 0;
	j = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL,
		       &theirs);
	if (text.n > 0 && memchr(text.p, '\0', text.n) != NULL)
		same = v == NULL; /* a bare zero byte is never JSON, whatever jansson says */
	else if (v == NULL || j == NULL)
		same = (v == NULL && j == NULL) || known_to_differ(&err, &theirs);
	else
		same = same_as_jansson(v, j);
	if (!same)
		fprintf(stderr, "ringfence: %s\njansson: %s\n", v ? "accepts" : err.msg,
			j ? "accepts" : theirs.text);
	json_decref(j);
	rf_arena_done(&a);
	return same;
}

#endif
