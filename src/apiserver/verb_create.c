#include "apiserver/admission.h"
#include "apiserver/api.h"
#include "apiserver/defaults.h"
#include "apiserver/meta.h"
#include "apiserver/validate.h"
#include "apiserver/write.h"

/* Nodes come with their status; everything else earns it. */
static void drop_status(struct rf_json *o, const struct rf_kind *k)
{
	if (rf_kind_has_sub(k, RF_LIT("status")) && !rf_kind_is(k, "nodes"))
		rf_json_del(o, RF_LIT("status"));
}

static int prepare(struct rf_req *r, const struct rf_kind *k, struct rf_json *o, struct rf_err *err)
{
	drop_status(o, k);
	if (rf_meta_create(r, k, o, err) < 0)
		return -err->code;
	r->route.name = rf_json_str_at(o, "metadata", "name"); /* for the answer's details */
	if (rf_kind_is(k, "pods") && rf_admit_foreign(r, o, err) < 0)
		return -err->code;
	rf_default(r->a, k, o);
	rf_default_new(r->a, k, o);
	if (rf_meta_validate(o, err) < 0)
		return rf_wrap(err, "%s \"%.*s\" is invalid", k->kind,
			       RF_STR(rf_json_str_at(o, "metadata", "name")));
	return rf_validate(r->a, k, NULL, o, err);
}

static int write_new(struct rf_req *r, const struct rf_kind *k, struct rf_json *o,
		     struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(o, "metadata", "name");

	if (rf_store_has(r->api->store, k, r->route.ns, name))
		return rf_fail(err, RF_EXISTS, "%.*s \"%.*s\" already exists",
			       RF_STR(rf_kind_resource(r->a, k)), RF_STR(name));
	if (rf_admit_create(r, k, o, err) < 0 || rf_write_sent(r->api, r->a, k, NULL, o, err) < 0)
		return -err->code;
	if (rf_kind_is(k, "namespaces"))
		return rf_account_ensure(r->api, r->a, name, err);
	return 0;
}

int rf_verb_create(struct rf_req *r, struct rf_err *err)
{
	const struct rf_kind *k = r->route.kind;
	struct rf_json *o;

	if (rf_read_object(r, &o, err) < 0 || prepare(r, k, o, err) < 0)
		return -err->code;
	if (rf_write_begin(r->api, err) < 0)
		return -err->code;
	if (write_new(r, k, o, err) < 0) {
		rf_write_rollback(r->api);
		return -err->code;
	}
	if (rf_write_commit(r->api, r->dry_run, err) < 0)
		return -err->code;
	rf_reply_object(r, 201, o);
	return 0;
}
