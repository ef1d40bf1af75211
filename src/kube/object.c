#include "kube/kube.h"

struct rf_str rf_kube_name(const struct rf_json *o)
{
	return rf_json_str_at(o, "metadata", "name");
}

struct rf_str rf_kube_namespace(const struct rf_json *o)
{
	return rf_json_str_at(o, "metadata", "namespace");
}

struct rf_str rf_kube_uid(const struct rf_json *o)
{
	return rf_json_str_at(o, "metadata", "uid");
}

int64_t rf_kube_rv(const struct rf_json *o)
{
	int64_t rv = 0;

	if (rf_str_int(rf_json_str_at(o, "metadata", "resourceVersion"), &rv, NULL) < 0 || rv < 0)
		return 0;
	return rv;
}

struct rf_str rf_kube_label(const struct rf_json *o, const char *key)
{
	return rf_json_str_at(o, "metadata", "labels", key);
}

struct rf_str rf_kube_annotation(const struct rf_json *o, const char *key)
{
	return rf_json_str_at(o, "metadata", "annotations", key);
}

bool rf_kube_deleting(const struct rf_json *o)
{
	const struct rf_json *t = rf_json_at(o, "metadata", "deletionTimestamp");

	return t != NULL && t->type != RF_JSON_NULL;
}

struct rf_json *rf_kube_owner_ref(struct rf_arena *a, const struct rf_json *owner)
{
	return rf_json_make(a,
			    "{'apiVersion':%S,'kind':%S,'name':%S,'uid':%S,'controller':true,"
			    "'blockOwnerDeletion':true}",
			    rf_json_str_at(owner, "apiVersion"), rf_json_str_at(owner, "kind"),
			    rf_kube_name(owner), rf_kube_uid(owner));
}

struct rf_str rf_kube_display(struct rf_arena *a, const struct rf_json *o)
{
	struct rf_str ns = rf_kube_namespace(o), name = rf_kube_name(o);

	/* An object on its way in may have a prefix only. */
	if (name.n == 0) {
		struct rf_str prefix = rf_json_str_at(o, "metadata", "generateName");

		name = prefix.n > 0 ? rf_arena_printf(a, "%.*s*", RF_STR(prefix))
				    : RF_LIT("(no name)");
	}
	if (ns.n == 0)
		return rf_arena_str(a, name);
	return rf_arena_printf(a, "%.*s/%.*s", RF_STR(ns), RF_STR(name));
}
