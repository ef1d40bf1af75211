/* Selectors and other parameters of the query. */
#include "apiserver/api.h"
#include "kube/kube.h"

struct rf_str rf_query(const struct rf_req *r, const char *name)
{
	struct rf_str value;

	return rf_http_query(r->http, name, &value) ? value : RF_STR_EMPTY;
}

bool rf_query_true(const struct rf_req *r, const char *name)
{
	struct rf_str v = rf_query(r, name);

	return rf_str_is(v, "true") || rf_str_is(v, "1");
}

int rf_filter_read(struct rf_req *r, struct rf_arena *a, struct rf_filter *ret, struct rf_err *err)
{
	struct rf_str labels = rf_arena_str(a, rf_query(r, "labelSelector"));
	struct rf_str fields = rf_arena_str(a, rf_query(r, "fieldSelector"));

	*ret = (struct rf_filter){ NULL, NULL };
	if (labels.n > 0 && rf_label_selector_parse(a, labels, &ret->labels, err) < 0) {
		err->code = RF_BAD_REQUEST;
		return rf_wrap(err, "unable to parse labelSelector");
	}
	if (fields.n > 0 && rf_field_selector_parse(a, fields, &ret->fields, err) < 0) {
		err->code = RF_BAD_REQUEST;
		return rf_wrap(err, "unable to parse fieldSelector");
	}
	return 0;
}

bool rf_filter_match(const struct rf_filter *f, const struct rf_json *object)
{
	if (f->labels != NULL &&
	    !rf_label_selector_match(f->labels, rf_json_at(object, "metadata", "labels")))
		return false;
	return f->fields == NULL || rf_field_selector_match(f->fields, object);
}
