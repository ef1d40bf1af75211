/* What a Queue says of resources, as a Tenant's spec.queue and the Queue object both write it. */
#include "tenant/tenant.h"

#include "gpu/models.h"

#define AMOUNT_MAX (INT64_C(1) << 52) /* bytes of shares; far past any count */

static int bad(struct rf_err *err, const char *path, size_t i, const char *field, const char *what)
{
	return rf_fail(err, RF_INVALID, "%s[%zu]%s%s: %s", path, i, field[0] != '\0' ? "." : "",
		       field, what);
}

static bool is_word(struct rf_str s)
{
	if (s.n == 0 || s.n > 63)
		return false;
	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      (i > 0 && (c == '-' || c == '.' || c == '_' || c == '+'))))
			return false;
	}
	return true;
}

bool rf_queue_resource_known(struct rf_str name)
{
	static const char *const plain[] = { "cards", "share-bytes", "share-milli", "cpu", "memory", "pods" };

	for (size_t i = 0; i < RF_COUNT(plain); i++) {
		if (rf_str_is(name, plain[i]))
			return true;
	}
	if (rf_str_starts(name, RF_LIT("cards/")))
		return is_word(rf_str_skip(name, 6));
	return rf_str_starts(name, RF_LIT("mig/")) && is_word(rf_str_skip(name, 4));
}

/* A card model may be written in several ways. */
static bool is_same_model(struct rf_str a, struct rf_str b)
{
	char x[64], y[64];

	if (!rf_str_starts(a, RF_LIT("cards/")) || !rf_str_starts(b, RF_LIT("cards/")))
		return false;
	(void)rf_gpu_model_named(a.p + 6, a.n - 6, x);
	(void)rf_gpu_model_named(b.p + 6, b.n - 6, y);
	return strcmp(x, y) == 0;
}

static int read_one(const struct rf_json *v, const char *path, size_t i, const char *field,
		    int64_t *ret, struct rf_err *err)
{
	int64_t milli = 0;

	if (v == NULL || v->type == RF_JSON_NULL)
		return 0;
	if ((v->type != RF_JSON_NUMBER && v->type != RF_JSON_STRING) ||
	    rf_quantity_milli(v->text, &milli, NULL) < 0 || milli % 1000 != 0 || milli < 0 ||
	    milli / 1000 > AMOUNT_MAX)
		return bad(err, path, i, field,
			   "must be a whole number from 0 to 4503599627370496, or a quantity such as 80Gi");
	*ret = milli / 1000;
	return 0;
}

static int read_amount(const struct rf_json *o, const char *path, size_t i,
		       struct rf_queue_amount *q, struct rf_err *err)
{
	const struct {
		const char *field;
		int64_t *to;
	} fields[] = { { "guaranteed", &q->guaranteed },
		       { "limit", &q->limit },
		       { "lendingLimit", &q->lending },
		       { "borrowingLimit", &q->borrowing } };

	for (size_t m = 0; m < o->n; m++) {
		bool known = rf_str_is(o->members[m].key, "name");

		for (size_t f = 0; f < RF_COUNT(fields); f++)
			known |= rf_str_is(o->members[m].key, fields[f].field);
		if (!known)
			return rf_fail(err, RF_INVALID,
				       "%s[%zu].%.*s: there is no such field; there are: name, guaranteed, "
				       "limit, lendingLimit, borrowingLimit",
				       path, i, RF_STR(o->members[m].key));
	}
	for (size_t f = 0; f < RF_COUNT(fields); f++) {
		if (read_one(rf_json_get(o, rf_str(fields[f].field)), path, i, fields[f].field,
			     fields[f].to, err) < 0)
			return -RF_INVALID;
	}
	if (q->limit >= 0 && q->guaranteed > q->limit)
		return bad(err, path, i, "guaranteed", "must not be more than limit");
	/* Written in cores, counted in thousandths. */
	for (size_t f = 0; rf_str_is(q->name, "cpu") && f < RF_COUNT(fields); f++) {
		if (*fields[f].to > 0)
			*fields[f].to = RF_MIN(*fields[f].to, AMOUNT_MAX / 1000) * 1000;
	}
	return 0;
}

int rf_queue_amounts_read(struct rf_arena *a, const struct rf_json *list, const char *path,
			  struct rf_queue_amount **ret, size_t *ret_n, struct rf_err *err)
{
	struct rf_queue_amount *all = NULL;
	size_t n = rf_json_len(list);

	if (list != NULL && list->type != RF_JSON_ARRAY)
		return rf_fail(err, RF_INVALID, "%s: must be a list of {name: cards, guaranteed: 2}", path);
	if (n > RF_QUEUE_AMOUNTS_MAX)
		return rf_fail(err, RF_INVALID, "%s: has more than %d entries", path,
			       RF_QUEUE_AMOUNTS_MAX);
	all = rf_arena_array(a, struct rf_queue_amount, RF_MAX(n, 1));
	for (size_t i = 0; i < n; i++) {
		const struct rf_json *o = rf_json_item(list, i);

		if (!rf_json_is(o, RF_JSON_OBJECT))
			return bad(err, path, i, "", "must be {name: ..., guaranteed: ...}");
		all[i] = (struct rf_queue_amount){ rf_json_str_at(o, "name"), -1, -1, -1, -1 };
		if (!rf_queue_resource_known(all[i].name))
			return bad(err, path, i, "name",
				   "must be cards, cards/<model>, share-bytes, share-milli, "
				   "mig/<profile>, cpu, memory or pods");
		for (size_t k = 0; k < i; k++) {
			if (rf_str_eq(all[k].name, all[i].name))
				return bad(err, path, i, "name", "is there twice");
			if (is_same_model(all[k].name, all[i].name))
				return rf_fail(err, RF_INVALID, "%s[%zu].name: %.*s is the same model as %.*s in [%zu]; leave one of them",
					       path, i, RF_STR(all[i].name), RF_STR(all[k].name), k);
		}
		if (read_amount(o, path, i, &all[i], err) < 0)
			return -RF_INVALID;
	}
	*ret = all;
	*ret_n = n;
	return 0;
}

bool rf_queue_is_of(const struct rf_json *queue, struct rf_str tenant)
{
	const struct rf_json *named = rf_json_at(queue, "spec", "tenant");
	struct rf_str of = named != NULL ? rf_json_str(named) : rf_json_str_at(queue, "metadata", "labels", RF_TENANT_LABEL);

	return tenant.n > 0 && rf_str_eq(of, tenant);
}
