#include "apiserver/meta.h"

#define ANNOTATIONS_MAX (256 * 1024)

/* --- names ---------------------------------------------------------------------------------- */

static bool is_path_segment(struct rf_str s)
{
	if (s.n == 0 || s.n > 253 || rf_str_is(s, ".") || rf_str_is(s, ".."))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == '/' || s.p[i] == '%' || (unsigned char)s.p[i] <= ' ' ||
		    (unsigned char)s.p[i] >= 0x7f)
			return false;
	return true;
}

static int check_name(const struct rf_kind *k, struct rf_str name, struct rf_err *err)
{
	if (name.n == 0)
		return rf_fail(err, RF_INVALID,
			       "metadata.name: Required value: name or generateName is "
			       "required");
	if (rf_kind_is_rbac(k)) {
		if (!is_path_segment(name))
			return rf_fail(err, RF_INVALID,
				       "metadata.name: Invalid value: \"%.*s\": may not be '.' or "
				       "'..' or contain '/', '%%' or blanks",
				       RF_STR(name));
		return 0;
	}
	if (rf_kind_is(k, "namespaces") && !rf_str_is_dns_label(name))
		return rf_fail(
			err, RF_INVALID,
			"metadata.name: Invalid value: \"%.*s\": a lowercase RFC 1123 label must "
			"consist of lower case alphanumeric characters or '-', and must start "
			"and end with an alphanumeric character",
			RF_STR(name));
	if (!rf_str_is_dns_subdomain(name))
		return rf_fail(
			err, RF_INVALID,
			"metadata.name: Invalid value: \"%.*s\": a lowercase RFC 1123 subdomain "
			"must consist of lower case alphanumeric characters, '-' or '.', and "
			"must start and end with an alphanumeric character",
			RF_STR(name));
	return 0;
}

static void draw_name(struct rf_arena *a, struct rf_json *meta)
{
	struct rf_str base = rf_json_str_at(meta, "generateName");

	if (rf_json_str_at(meta, "name").n > 0 || base.n == 0)
		return;
	base.n = RF_MIN(base.n, (size_t)58);
	rf_json_set_str(a, meta, "name",
			rf_arena_printf(a, "%.*s%.*s", RF_STR(base), RF_STR(rf_rand_suffix(a, 5))));
}

static int check_place(struct rf_req *r, const struct rf_kind *k, struct rf_json *meta,
		       struct rf_err *err)
{
	struct rf_str ns = rf_json_str_at(meta, "namespace");

	if (!k->namespaced) {
		rf_json_del(meta, RF_LIT("namespace"));
		return 0;
	}
	if (ns.n > 0 && !rf_str_eq(ns, r->route.ns))
		return rf_fail(err, RF_BAD_REQUEST,
			       "the namespace of the provided object does not match the namespace "
			       "sent on the request");
	rf_json_set_str(r->a, meta, "namespace", r->route.ns);
	return 0;
}

/* --- creating ------------------------------------------------------------------------------- */

void rf_meta_stamp(struct rf_api *api, struct rf_arena *a, struct rf_json *o)
{
	static const char *const SERVERS[] = { "managedFields",
					       "selfLink",
					       "resourceVersion",
					       "deletionTimestamp",
					       "deletionGracePeriodSeconds",
					       "generation" };
	struct rf_json *meta = rf_json_ensure(a, o, "metadata");

	for (size_t i = 0; i < RF_COUNT(SERVERS); i++)
		rf_json_del(meta, rf_str(SERVERS[i]));
	rf_json_set_str(a, meta, "uid", rf_rand_uuid(a));
	rf_json_set_str(a, meta, "creationTimestamp", rf_time_format(a, rf_wall_ms(api->clock)));
	if (rf_json_at(o, "spec") != NULL)
		rf_json_set_int(a, meta, "generation", 1);
}

int rf_meta_create(struct rf_req *r, const struct rf_kind *k, struct rf_json *o, struct rf_err *err)
{
	struct rf_json *meta = rf_json_ensure(r->a, o, "metadata");

	if (rf_json_str_at(meta, "resourceVersion").n > 0)
		return rf_fail(err, RF_BAD_REQUEST,
			       "resourceVersion should not be set on objects to be created");
	if (check_place(r, k, meta, err) < 0)
		return -err->code;
	draw_name(r->a, meta);
	if (check_name(k, rf_json_str_at(meta, "name"), err) < 0)
		return rf_wrap(err, "%s \"%.*s\" is invalid", k->kind,
			       RF_STR(rf_json_str_at(meta, "name")));
	rf_meta_stamp(r->api, r->a, o);
	return 0;
}

/* --- updating ------------------------------------------------------------------------------- */

static int check_same(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		      const struct rf_json *meta, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(meta, "name"), uid = rf_json_str_at(meta, "uid");
	struct rf_str rv = rf_json_str_at(meta, "resourceVersion");

	if (name.n > 0 && !rf_str_eq(name, r->route.name))
		return rf_fail(err, RF_BAD_REQUEST,
			       "the name of the object (%.*s) does not match the name on the URL "
			       "(%.*s)",
			       RF_STR(name), RF_STR(r->route.name));
	if (uid.n > 0 && !rf_str_eq(uid, rf_json_str_at(old, "metadata", "uid")))
		return rf_fail(
			err, RF_CONFLICT,
			"Operation cannot be fulfilled on %.*s \"%.*s\": Precondition failed: "
			"UID in precondition: %.*s, UID in object meta: %.*s",
			RF_STR(rf_kind_resource(r->a, k)), RF_STR(r->route.name), RF_STR(uid),
			RF_STR(rf_json_str_at(old, "metadata", "uid")));
	if (rv.n > 0 && !rf_str_is(rv, "0") &&
	    !rf_str_eq(rv, rf_json_str_at(old, "metadata", "resourceVersion")))
		return rf_fail(
			err, RF_CONFLICT,
			"Operation cannot be fulfilled on %.*s \"%.*s\": the object has been "
			"modified; please apply your changes to the latest version and try again",
			RF_STR(rf_kind_resource(r->a, k)), RF_STR(r->route.name));
	return 0;
}

/* Once an object is being deleted, finalizers may go but not come. */
static int check_finalizers(const struct rf_json *old, const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *now = rf_json_at(o, "metadata", "finalizers");
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_json_at(old, "metadata", "deletionTimestamp") == NULL)
		return 0;
	for (size_t i = 0; i < rf_json_len(now); i++) {
		struct rf_str f = rf_json_str(rf_json_item(now, i));

		if (!rf_meta_has_finalizer(old, rf_arena_cstr(&a, f)))
			return rf_fail(
				err, RF_INVALID,
				"metadata.finalizers: Forbidden: no new finalizers can be added "
				"if the object is being deleted, found new finalizer \"%.*s\"",
				RF_STR(f));
	}
	return 0;
}

int rf_meta_update(struct rf_req *r, const struct rf_kind *k, const struct rf_json *old,
		   struct rf_json *o, struct rf_err *err)
{
	static const char *const KEPT[] = { "uid",
					    "creationTimestamp",
					    "deletionTimestamp",
					    "deletionGracePeriodSeconds",
					    "generation",
					    "generateName",
					    "resourceVersion" };
	struct rf_json *meta = rf_json_ensure(r->a, o, "metadata");
	const struct rf_json *was = rf_json_get(old, RF_LIT("metadata"));

	if (check_place(r, k, meta, err) < 0 || check_same(r, k, old, meta, err) < 0 ||
	    check_finalizers(old, o, err) < 0)
		return -err->code;
	rf_json_set_str(r->a, meta, "name", r->route.name);
	rf_json_del(meta, RF_LIT("managedFields"));
	rf_json_del(meta, RF_LIT("selfLink"));
	for (size_t i = 0; i < RF_COUNT(KEPT); i++)
		rf_json_set(r->a, meta, rf_str(KEPT[i]), rf_json_get(was, rf_str(KEPT[i])));
	return 0;
}

void rf_meta_generation(struct rf_arena *a, const struct rf_json *old, struct rf_json *o)
{
	const struct rf_json *was = rf_json_at(old, "spec"), *is = rf_json_at(o, "spec");
	int64_t generation = rf_json_int(rf_json_at(old, "metadata", "generation"), 1);

	if (is == NULL || (was != NULL && rf_json_equal(was, is)))
		return;
	rf_json_set_int(a, rf_json_ensure(a, o, "metadata"), "generation", generation + 1);
}

bool rf_meta_has_finalizer(const struct rf_json *o, const char *finalizer)
{
	const struct rf_json *all = rf_json_at(o, "metadata", "finalizers");

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (rf_str_is(rf_json_str(rf_json_item(all, i)), finalizer))
			return true;
	return false;
}

/* --- checking ------------------------------------------------------------------------------- */

static int check_labels(const struct rf_json *labels, struct rf_err *err)
{
	for (size_t i = 0; i < rf_json_len(labels); i++) {
		const struct rf_json_member *m = &labels->members[i];

		if (!rf_str_is_label_key(m->key))
			return rf_fail(
				err, RF_INVALID,
				"metadata.labels: Invalid value: \"%.*s\": a label's name is "
				"[prefix/]name, name at most 63 of [A-Za-z0-9-_.]",
				RF_STR(m->key));
		if (!rf_str_is_label_value(rf_json_str(m->value)))
			return rf_fail(
				err, RF_INVALID,
				"metadata.labels: Invalid value: \"%.*s\": a valid label must be "
				"an empty string or at most 63 of [A-Za-z0-9-_.], alphanumeric "
				"at both ends",
				RF_STR(rf_json_str(m->value)));
	}
	return 0;
}

static int check_annotations(const struct rf_json *annotations, struct rf_err *err)
{
	size_t total = 0;

	for (size_t i = 0; i < rf_json_len(annotations); i++) {
		const struct rf_json_member *m = &annotations->members[i];

		total += m->key.n + rf_json_str(m->value).n;
		if (!rf_str_is_label_key(m->key))
			return rf_fail(
				err, RF_INVALID,
				"metadata.annotations: Invalid value: \"%.*s\": an annotation's "
				"name is [prefix/]name, name at most 63 of [A-Za-z0-9-_.]",
				RF_STR(m->key));
	}
	if (total > ANNOTATIONS_MAX)
		return rf_fail(err, RF_INVALID,
			       "metadata.annotations: Too long: may not be more than %d bytes",
			       ANNOTATIONS_MAX);
	return 0;
}

static int check_owners(const struct rf_json *owners, struct rf_err *err)
{
	for (size_t i = 0; i < rf_json_len(owners); i++) {
		const struct rf_json *one = rf_json_item(owners, i);

		if (rf_json_str_at(one, "apiVersion").n == 0 ||
		    rf_json_str_at(one, "kind").n == 0 || rf_json_str_at(one, "name").n == 0 ||
		    rf_json_str_at(one, "uid").n == 0)
			return rf_fail(err, RF_INVALID,
				       "metadata.ownerReferences[%zu]: Required value: apiVersion, "
				       "kind, name and uid must be given",
				       i);
	}
	return 0;
}

int rf_meta_validate(const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *meta = rf_json_get(o, RF_LIT("metadata"));
	const struct rf_json *finalizers = rf_json_at(meta, "finalizers");

	if (check_labels(rf_json_at(meta, "labels"), err) < 0 ||
	    check_annotations(rf_json_at(meta, "annotations"), err) < 0 ||
	    check_owners(rf_json_at(meta, "ownerReferences"), err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(finalizers); i++) {
		struct rf_str f = rf_json_str(rf_json_item(finalizers, i));

		if (!rf_str_is_label_key(f))
			return rf_fail(
				err, RF_INVALID,
				"metadata.finalizers[%zu]: Invalid value: \"%.*s\": a finalizer "
				"is a domain and a name",
				i, RF_STR(f));
	}
	return 0;
}
