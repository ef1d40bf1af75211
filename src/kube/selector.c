#include "kube/selector.h"

struct rf_selector *rf_selector_new(struct rf_arena *a)
{
	struct rf_selector *s = rf_arena_new(a, struct rf_selector);

	s->a = a;
	return s;
}

int rf_selector_add(struct rf_selector *s, struct rf_selector_term **ret, struct rf_err *err)
{
	if (s->n == RF_SELECTOR_TERMS_MAX)
		return rf_fail(err, RF_TOO_LARGE, "a selector may have %d requirements, not more",
			       RF_SELECTOR_TERMS_MAX);
	if (s->n == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 4;
		struct rf_selector_term *grown = rf_arena_array(s->a, struct rf_selector_term, cap);

		if (s->n > 0)
			memcpy(grown, s->terms, s->n * sizeof(*grown));
		s->terms = grown;
		s->cap = cap;
	}
	*ret = &s->terms[s->n++];
	return 0;
}

/* Values are doubled in place: room is there unless their number is a power of two. */
int rf_selector_add_value(struct rf_selector *s, struct rf_selector_term *t, struct rf_str value,
			  struct rf_err *err)
{
	if (t->n_values == RF_SELECTOR_VALUES_MAX)
		return rf_fail(err, RF_TOO_LARGE,
			       "a selector may list %d values for a key, not more",
			       RF_SELECTOR_VALUES_MAX);
	if ((t->n_values & (t->n_values - 1)) == 0) {
		size_t cap = t->n_values ? t->n_values * 2 : 1;
		struct rf_str *grown = rf_arena_array(s->a, struct rf_str, cap);

		if (t->n_values > 0)
			memcpy(grown, t->values, t->n_values * sizeof(*grown));
		t->values = grown;
	}
	t->values[t->n_values++] = rf_arena_str(s->a, value);
	return 0;
}

int rf_selector_check_length(struct rf_str text, struct rf_err *err)
{
	if (text.n > RF_SELECTOR_TEXT_MAX)
		return rf_fail(err, RF_TOO_LARGE, "selector is %zu bytes long; at most %d are read",
			       text.n, RF_SELECTOR_TEXT_MAX);
	return 0;
}

struct rf_str rf_selector_key(const struct rf_selector *s, size_t i)
{
	return i < s->n ? s->terms[i].key : RF_STR_EMPTY;
}

bool rf_field_selector_exact(const struct rf_selector *s, const char *field,
			     struct rf_str *ret_value)
{
	for (size_t i = 0; i < s->n; i++) {
		if (s->terms[i].op != RF_SEL_EQUALS || !rf_str_is(s->terms[i].key, field))
			continue;
		*ret_value = s->terms[i].values[0];
		return true;
	}
	return false;
}
