/* What is missing between an object as it should be and as it is. */
#include "control/private.h"

static bool same_quantity(struct rf_str a, struct rf_str b)
{
	int64_t x = 0, y = 0;

	return rf_quantity_milli(a, &x, NULL) == 0 && rf_quantity_milli(b, &y, NULL) == 0 && x == y;
}

/* A server may write "1024Mi" where "1Gi" was asked for. */
static bool same(const struct rf_json *wanted, const struct rf_json *is, bool exact)
{
	if (rf_json_equal(wanted, is))
		return true;
	return exact && rf_json_is(wanted, RF_JSON_STRING) && rf_json_is(is, RF_JSON_STRING) &&
	       same_quantity(wanted->text, is->text);
}

static struct rf_json *differ(struct rf_arena *a, const struct rf_json *wanted,
			      const struct rf_json *is, bool exact);

static void differ_member(struct rf_arena *a, const struct rf_json_member *m,
			  const struct rf_json *is, bool exact, struct rf_json *patch)
{
	const struct rf_json *there = rf_json_get(is, m->key);
	struct rf_json *part = NULL;

	exact |= rf_str_is(m->key, "spec");
	if (rf_json_is(m->value, RF_JSON_OBJECT) && rf_json_is(there, RF_JSON_OBJECT))
		part = differ(a, m->value, there, exact);
	else if (!same(m->value, there, exact))
		part = rf_json_clone(a, m->value);
	if (part != NULL)
		rf_json_set(a, patch, m->key, part);
}

static struct rf_json *differ(struct rf_arena *a, const struct rf_json *wanted,
			      const struct rf_json *is, bool exact)
{
	struct rf_json *patch = rf_json_object(a);

	for (size_t i = 0; i < wanted->n; i++)
		differ_member(a, &wanted->members[i], is, exact, patch);
	for (size_t i = 0; exact && i < is->n; i++) {
		if (rf_json_get(wanted, is->members[i].key) == NULL &&
		    is->members[i].value->type != RF_JSON_NULL)
			rf_json_set(a, patch, is->members[i].key, rf_json_null(a));
	}
	return patch->n > 0 ? patch : NULL;
}

struct rf_json *rf_object_differ(struct rf_arena *a, const struct rf_json *wanted,
				 const struct rf_json *is)
{
	struct rf_json *w = rf_json_clone(a, wanted);

	/* What it is and where is how it was found; some servers leave them out of lists. */
	rf_json_del(w, RF_LIT("apiVersion"));
	rf_json_del(w, RF_LIT("kind"));
	return differ(a, w, is, false);
}
