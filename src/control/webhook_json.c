/* From a policy's values to JSON: a review is read once, as values, and what tenant/ and the book judge as
 * JSON is made of them. */
#include "control/private.h"

static bool fill(struct rf_arena *a, struct rf_rv v, struct rf_json *out);

static bool fill_array(struct rf_arena *a, struct rf_rv v, struct rf_json *out)
{
	struct rf_json *nodes = rf_arena_try(a, ((size_t)v.n + 1) * sizeof(*nodes));

	out->type = RF_JSON_ARRAY;
	out->items = rf_arena_try(a, ((size_t)v.n + 1) * sizeof(*out->items));
	if (nodes == NULL || out->items == NULL)
		return false;
	out->n = out->cap = v.n;
	for (uint32_t i = 0; i < v.n; i++) {
		out->items[i] = &nodes[i];
		if (!fill(a, v.items[i], &nodes[i]))
			return false;
	}
	return true;
}

/* Looking a key up walks the members: JSON's own cap on them holds here too. */
static bool fill_object(struct rf_arena *a, struct rf_rv v, struct rf_json *out)
{
	struct rf_json *nodes = NULL;

	if (v.n > RF_JSON_MEMBERS_MAX)
		return false;
	nodes = rf_arena_try(a, ((size_t)v.n + 1) * sizeof(*nodes));
	out->type = RF_JSON_OBJECT;
	out->members = rf_arena_try(a, ((size_t)v.n + 1) * sizeof(*out->members));
	if (nodes == NULL || out->members == NULL)
		return false;
	out->n = out->cap = v.n;
	for (uint32_t i = 0; i < v.n; i++) {
		out->members[i] =
			(struct rf_json_member){ rf_rv_text(v.pairs[i].key), &nodes[i] };
		if (!fill(a, v.pairs[i].value, &nodes[i]))
			return false;
	}
	return true;
}

static bool fill_number(struct rf_arena *a, struct rf_rv v, struct rf_json *out)
{
	rf_auto(buf) text = RF_BUF_INIT;
	char *copy = NULL;

	rf_rv_write_json(&text, v);
	copy = rf_arena_try(a, text.n + 1);
	if (copy == NULL)
		return false;
	memcpy(copy, text.p, text.n);
	out->type = RF_JSON_NUMBER;
	out->text = rf_str_n(copy, text.n);
	return true;
}

static bool fill(struct rf_arena *a, struct rf_rv v, struct rf_json *out)
{
	switch (v.type) {
	case RF_RV_OBJECT:
		return fill_object(a, v, out);
	case RF_RV_ARRAY:
		return fill_array(a, v, out);
	case RF_RV_NUMBER:
		return fill_number(a, v, out);
	case RF_RV_STRING:
		out->type = RF_JSON_STRING;
		out->text = rf_rv_text(v);
		return true;
	case RF_RV_BOOL:
		out->type = RF_JSON_BOOL;
		out->boolean = v.b;
		return true;
	default:
		out->type = RF_JSON_NULL;
		return v.type == RF_RV_NULL;
	}
}

int rf_webhook_json(struct rf_arena *a, struct rf_rv v, struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *o = rf_arena_try(a, sizeof(*o));

	if (o == NULL || !fill(a, v, o))
		return rf_fail(err, RF_TOO_LARGE, "an object of the review is too large to be judged");
	*ret = o;
	return 0;
}
