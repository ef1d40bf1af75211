/* Queues, GPUPools and PodGroups: as strict as the schemas of deploy/base/crds.yaml. */
#include "apiserver/validate.h"

#include "tenant/tenant.h"

#define MEMBERS_MAX 100000
#define WEIGHT_MAX 1000000

static const struct rf_json *get(const struct rf_json *o, const char *field)
{
	const struct rf_json *v = rf_json_get(o, rf_str(field));

	return v != NULL && v->type != RF_JSON_NULL ? v : NULL;
}

/* known: separated by spaces. */
static int only(const struct rf_json *o, const char *path, const char *known, struct rf_err *err)
{
	if (o != NULL && o->type != RF_JSON_OBJECT)
		return rf_fail(err, RF_INVALID, "%s: Invalid value: must be an object", path);
	for (size_t i = 0; o != NULL && i < o->n; i++) {
		if (!rf_word_in(known, o->members[i].key))
			return rf_fail(err, RF_INVALID,
				       "%s.%.*s: Invalid value: there is no such field; there are: %s", path,
				       RF_STR(o->members[i].key), known);
	}
	return 0;
}

static int check_int(const struct rf_json *o, const char *path, const char *field, int64_t least,
		     int64_t most, struct rf_err *err)
{
	const struct rf_json *v = get(o, field);
	int64_t n = 0;

	if (v == NULL || (rf_json_is_int(v, &n) && n >= least && n <= most))
		return 0;
	return rf_fail(err, RF_INVALID, "%s.%s: Invalid value: must be a whole number from %lld to %lld",
		       path, field, (long long)least, (long long)most);
}

static int check_name(const struct rf_json *o, const char *path, const char *field, struct rf_err *err)
{
	const struct rf_json *v = get(o, field);

	if (v == NULL || rf_str_is_dns_label(rf_json_str(v)))
		return 0;
	return rf_fail(err, RF_INVALID,
		       "%s.%s: Invalid value: must be a name: lower-case letters, digits and -, at most 63",
		       path, field);
}

static int check_bool(const struct rf_json *o, const char *path, const char *field, struct rf_err *err)
{
	const struct rf_json *v = get(o, field);

	if (v == NULL || v->type == RF_JSON_BOOL)
		return 0;
	return rf_fail(err, RF_INVALID, "%s.%s: Invalid value: must be true or false", path, field);
}

static int check_text(const struct rf_json *o, const char *path, const char *field, struct rf_err *err)
{
	const struct rf_json *v = get(o, field);

	if (v == NULL || v->type == RF_JSON_STRING)
		return 0;
	return rf_fail(err, RF_INVALID, "%s.%s: Invalid value: must be text", path, field);
}

/* --- queues ------------------------------------------------------------------------------------ */

static int check_queue_status(const struct rf_json *s, struct rf_err *err)
{
	const struct rf_json *list = get(s, "resources");

	if (only(s, "status", "pending running usage message resources", err) < 0 ||
	    check_int(s, "status", "pending", 0, INT64_MAX, err) < 0 ||
	    check_int(s, "status", "running", 0, INT64_MAX, err) < 0 ||
	    check_int(s, "status", "usage", 0, INT64_MAX, err) < 0 ||
	    check_text(s, "status", "message", err) < 0)
		return -err->code;
	if (list != NULL && list->type != RF_JSON_ARRAY)
		return rf_fail(err, RF_INVALID, "status.resources: Invalid value: must be a list");
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *o = rf_json_item(list, i);

		if (!rf_json_is(o, RF_JSON_OBJECT) || rf_json_str_at(o, "name").n == 0)
			return rf_fail(err, RF_INVALID, "status.resources[%zu].name: Required value", i);
		if (only(o, "status.resources", "name used guaranteed fair limit wanted", err) < 0 ||
		    check_int(o, "status.resources", "used", 0, INT64_MAX, err) < 0 ||
		    check_int(o, "status.resources", "guaranteed", 0, INT64_MAX, err) < 0 ||
		    check_int(o, "status.resources", "fair", 0, INT64_MAX, err) < 0 ||
		    check_int(o, "status.resources", "limit", 0, INT64_MAX, err) < 0 ||
		    check_int(o, "status.resources", "wanted", 0, INT64_MAX, err) < 0)
			return -err->code;
	}
	return 0;
}

int rf_validate_queue(struct rf_arena *a, const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *spec = get(o, "spec");
	struct rf_str name = rf_json_str_at(o, "metadata", "name");
	struct rf_queue_amount *amounts = NULL;
	size_t n = 0;

	if (!rf_str_is_dns_label(name))
		return rf_fail(err, RF_INVALID,
			       "metadata.name: Invalid value: must be lower-case letters, digits and -, at "
			       "most 63");
	if (only(spec, "spec", "parent tenant weight resources", err) < 0 ||
	    check_name(spec, "spec", "parent", err) < 0 || check_name(spec, "spec", "tenant", err) < 0 ||
	    check_int(spec, "spec", "weight", 1, WEIGHT_MAX, err) < 0 ||
	    rf_queue_amounts_read(a, get(spec, "resources"), "spec.resources", &amounts, &n, err) < 0)
		return -err->code;
	if (rf_str_eq(rf_json_str_at(spec, "parent"), name))
		return rf_fail(err, RF_INVALID, "spec.parent: Invalid value: a queue is not above itself");
	return check_queue_status(get(o, "status"), err);
}

/* --- pools ------------------------------------------------------------------------------------- */

int rf_validate_gpupool(const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *spec = get(o, "spec"), *placement = get(spec, "placement"), *sharing = get(spec, "sharing");

	if (!rf_str_is_dns_label(rf_json_str_at(o, "metadata", "name")))
		return rf_fail(err, RF_INVALID,
			       "metadata.name: Invalid value: must be lower-case letters, digits and -, at "
			       "most 63: nodes carry it as a label");
	if (only(spec, "spec", "placement sharing", err) < 0)
		return -err->code;
	if (placement != NULL && !rf_word_in("fragmentation pack spread", rf_json_str(placement)))
		return rf_fail(
			err, RF_INVALID,
			"spec.placement: Unsupported value: supported values: \"fragmentation\", \"pack\", \"spread\"");
	if (sharing != NULL && !rf_word_in("timeslice mps", rf_json_str(sharing)))
		return rf_fail(err, RF_INVALID,
			       "spec.sharing: Unsupported value: supported values: \"timeslice\", \"mps\"");
	return 0;
}

/* --- gangs ------------------------------------------------------------------------------------- */

static int check_topology(const struct rf_json *spec, struct rf_err *err)
{
	const struct rf_json *v = get(spec, "topologyKey");

	if (v == NULL || rf_str_is_label_key(rf_json_str(v)))
		return 0;
	return rf_fail(err, RF_INVALID, "spec.topologyKey: Invalid value: must be the key of a label of nodes");
}

static int check_group_status(const struct rf_json *s, struct rf_err *err)
{
	struct rf_str phase = rf_json_str_at(s, "phase");

	if (only(s, "status", "phase started scheduled ending message", err) < 0 ||
	    check_text(s, "status", "phase", err) < 0 || check_text(s, "status", "ending", err) < 0 || check_bool(s, "status", "started", err) < 0 ||
	    check_int(s, "status", "scheduled", 0, INT64_MAX, err) < 0)
		return -err->code;
	if (phase.n > 0 && !rf_word_in("Pending Running", phase))
		return rf_fail(err, RF_INVALID,
			       "status.phase: Unsupported value: \"%.*s\": supported values: \"Pending\", "
			       "\"Running\"",
			       RF_STR(phase));
	return check_text(s, "status", "message", err);
}

int rf_validate_podgroup(const struct rf_json *o, struct rf_err *err)
{
	const struct rf_json *spec = get(o, "spec");

	if (!rf_str_is_dns_label(rf_json_str_at(o, "metadata", "name")))
		return rf_fail(err, RF_INVALID,
			       "metadata.name: Invalid value: must be lower-case letters, digits and -, at "
			       "most 63: pods carry it as a label");
	if (only(spec, "spec", "minMember queue topologyKey preemptible minRunSeconds", err) < 0 ||
	    check_int(spec, "spec", "minMember", 1, MEMBERS_MAX, err) < 0 ||
	    check_name(spec, "spec", "queue", err) < 0 || check_topology(spec, err) < 0 ||
	    check_bool(spec, "spec", "preemptible", err) < 0 ||
	    check_int(spec, "spec", "minRunSeconds", 0, RF_MIN_RUN_SECONDS_MAX, err) < 0)
		return -err->code;
	return check_group_status(get(o, "status"), err);
}
