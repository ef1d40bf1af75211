#include "apiserver/validate.h"

#include <stdio.h>

#define VOLUMES_MAX 128

/* What ringfence serves of a pod's rules; whether its author may have it is for admission. */

static int bad_word(const char *field, struct rf_str got, const char *words, struct rf_err *err)
{
	return rf_fail(err, RF_INVALID, "%s: Unsupported value: \"%.*s\": supported values: %s",
		       field, RF_STR(got), words);
}

/* --- who it runs as ------------------------------------------------------------------------- */

static int check_id(const char *field, const char *what, const struct rf_json *v,
		    struct rf_err *err)
{
	int64_t id = rf_json_int(v, 0);

	/* -1 is "leave it as it is" to the kernel, and 2^32 is root to a runtime that cuts. */
	if (id >= 0 && id <= INT32_MAX)
		return 0;
	return rf_fail(err, RF_INVALID,
		       "%s.securityContext.%s: Invalid value: %lld: must be between 0 and %d, "
		       "inclusive",
		       field, what, (long long)id, INT32_MAX);
}

static int check_ids(const char *field, const struct rf_json *owner, struct rf_err *err)
{
	static const char *const IDS[] = { "runAsUser", "runAsGroup", "fsGroup" };
	const struct rf_json *context = rf_json_at(owner, "securityContext");
	const struct rf_json *groups = rf_json_at(context, "supplementalGroups");

	for (size_t i = 0; i < RF_COUNT(IDS); i++)
		if (check_id(field, IDS[i], rf_json_at(context, IDS[i]), err) < 0)
			return -err->code;
	for (size_t i = 0; i < rf_json_len(groups); i++)
		if (check_id(field, "supplementalGroups", rf_json_item(groups, i), err) < 0)
			return -err->code;
	return 0;
}

/* --- containers ----------------------------------------------------------------------------- */

static int check_resources(const char *field, const struct rf_json *c, struct rf_err *err)
{
	const struct rf_json *limits = rf_json_at(c, "resources", "limits");
	const struct rf_json *requests = rf_json_at(c, "resources", "requests");
	int64_t limit, request;

	if (rf_validate_quantities(field, limits, err) < 0 ||
	    rf_validate_quantities(field, requests, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(requests); i++) {
		struct rf_str key = requests->members[i].key;
		const struct rf_json *l = rf_json_get(limits, key);

		if (l == NULL || rf_quantity_milli(rf_json_str(l), &limit, NULL) < 0 ||
		    rf_quantity_milli(rf_json_str(requests->members[i].value), &request, NULL) < 0)
			continue;
		if (request > limit)
			return rf_fail(
				err, RF_INVALID,
				"%s.requests: Invalid value: \"%.*s\": must be less than or equal "
				"to %.*s limit of %.*s",
				field, RF_STR(rf_json_str(requests->members[i].value)), RF_STR(key),
				RF_STR(rf_json_str(l)));
	}
	return 0;
}

static bool has_volume(const struct rf_json *spec, struct rf_str name)
{
	const struct rf_json *volumes = rf_json_at(spec, "volumes");

	for (size_t i = 0; i < rf_json_len(volumes); i++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(volumes, i), "name"), name))
			return true;
	return false;
}

static int check_mounts(const char *field, const struct rf_json *spec, const struct rf_json *c,
			struct rf_err *err)
{
	const struct rf_json *mounts = rf_json_at(c, "volumeMounts");

	for (size_t i = 0; i < rf_json_len(mounts); i++) {
		const struct rf_json *m = rf_json_item(mounts, i);
		struct rf_str name = rf_json_str_at(m, "name");

		if (!has_volume(spec, name))
			return rf_fail(err, RF_INVALID,
				       "%s.volumeMounts[%zu].name: Not found: \"%.*s\"", field, i,
				       RF_STR(name));
		if (rf_json_str_at(m, "mountPath").n == 0)
			return rf_fail(err, RF_INVALID,
				       "%s.volumeMounts[%zu].mountPath: Required value", field, i);
	}
	return 0;
}

static int check_env(const char *field, const struct rf_json *c, struct rf_err *err)
{
	const struct rf_json *env = rf_json_at(c, "env");

	for (size_t i = 0; i < rf_json_len(env); i++) {
		struct rf_str name = rf_json_str_at(rf_json_item(env, i), "name");

		if (name.n == 0)
			return rf_fail(err, RF_INVALID, "%s.env[%zu].name: Required value", field,
				       i);
		if (rf_str_contains(name, RF_LIT("=")) || memchr(name.p, 0, name.n) != NULL)
			return rf_fail(
				err, RF_INVALID,
				"%s.env[%zu].name: Invalid value: \"%.*s\": must not contain '='",
				field, i, RF_STR(name));
	}
	return 0;
}

static int check_container(const char *field, const struct rf_json *spec, const struct rf_json *c,
			   struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(c, "name");
	struct rf_str image = rf_json_str_at(c, "image");
	struct rf_str pull = rf_json_str_at(c, "imagePullPolicy");

	if (name.n == 0)
		return rf_fail(err, RF_INVALID, "%s.name: Required value", field);
	if (!rf_str_is_dns_label(name))
		return rf_fail(
			err, RF_INVALID,
			"%s.name: Invalid value: \"%.*s\": must be a lowercase RFC 1123 label",
			field, RF_STR(name));
	if (image.n == 0)
		return rf_fail(err, RF_INVALID, "%s.image: Required value", field);
	if (!rf_str_eq(rf_str_trim(image), image))
		return rf_fail(
			err, RF_INVALID,
			"%s.image: Invalid value: must not have leading or trailing whitespace",
			field);
	if (!rf_word_in("Always IfNotPresent Never", pull))
		return bad_word(field, pull, "\"Always\", \"IfNotPresent\", \"Never\"", err);
	if (check_resources(field, c, err) < 0 || check_mounts(field, spec, c, err) < 0 ||
	    check_ids(field, c, err) < 0)
		return -err->code;
	return check_env(field, c, err);
}

static bool named_before(const struct rf_json *list, size_t i, struct rf_str name)
{
	for (size_t j = 0; j < i; j++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(list, j), "name"), name))
			return true;
	return false;
}

static int check_list(const struct rf_json *spec, const char *which, struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(spec, which);

	if (rf_json_len(list) > 100)
		return rf_fail(err, RF_INVALID, "spec.%s: Too many: must have at most 100 items",
			       which);
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);
		struct rf_str name = rf_json_str_at(c, "name");
		char field[64];

		snprintf(field, sizeof(field), "spec.%s[%zu]", which, i);
		if (check_container(field, spec, c, err) < 0)
			return -err->code;
		if (named_before(list, i, name) ||
		    (strcmp(which, "containers") != 0 &&
		     named_before(rf_json_at(spec, "containers"),
				  rf_json_len(rf_json_at(spec, "containers")), name)))
			return rf_fail(err, RF_INVALID, "%s.name: Duplicate value: \"%.*s\"", field,
				       RF_STR(name));
	}
	return 0;
}

static int check_volumes(const struct rf_json *spec, struct rf_err *err)
{
	const struct rf_json *volumes = rf_json_at(spec, "volumes");

	/* Every mount of every container is looked up among them, at every write. */
	if (rf_json_len(volumes) > VOLUMES_MAX)
		return rf_fail(err, RF_INVALID,
			       "spec.volumes: Too many: must have at most %d items", VOLUMES_MAX);
	for (size_t i = 0; i < rf_json_len(volumes); i++) {
		struct rf_str name = rf_json_str_at(rf_json_item(volumes, i), "name");

		if (!rf_str_is_dns_label(name))
			return rf_fail(err, RF_INVALID,
				       "spec.volumes[%zu].name: Invalid value: \"%.*s\": must be a "
				       "lowercase RFC 1123 label",
				       i, RF_STR(name));
		if (named_before(volumes, i, name))
			return rf_fail(err, RF_INVALID,
				       "spec.volumes[%zu].name: Duplicate value: \"%.*s\"", i,
				       RF_STR(name));
	}
	return 0;
}

int rf_validate_pod(struct rf_arena *a, const struct rf_json *pod, struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(pod, "spec");
	struct rf_str restart = rf_json_str_at(spec, "restartPolicy");
	struct rf_str dns = rf_json_str_at(spec, "dnsPolicy");

	if (rf_json_len(rf_json_at(spec, "containers")) == 0)
		return rf_fail(err, RF_INVALID, "spec.containers: Required value");
	if (!rf_word_in("Always OnFailure Never", restart))
		return bad_word("spec.restartPolicy", restart,
				"\"Always\", \"OnFailure\", \"Never\"", err);
	if (!rf_word_in("ClusterFirst ClusterFirstWithHostNet Default None", dns))
		return bad_word(
			"spec.dnsPolicy", dns,
			"\"ClusterFirst\", \"ClusterFirstWithHostNet\", \"Default\", \"None\"",
			err);
	if (rf_json_int(rf_json_at(spec, "terminationGracePeriodSeconds"), -1) < 0)
		return rf_fail(
			err, RF_INVALID,
			"spec.terminationGracePeriodSeconds: Invalid value: must be greater than "
			"or equal to 0");
	if (rf_json_len(rf_json_at(spec, "ephemeralContainers")) > 0)
		return rf_fail(
			err, RF_INVALID,
			"spec.ephemeralContainers: Forbidden: ephemeral containers are not served");
	/* An overhead comes with a runtime class. A tenant's own would be room talked up or down. */
	if (rf_json_at(spec, "overhead") != NULL)
		return rf_fail(err, RF_INVALID,
			       "spec.overhead: Forbidden: runtime classes are not served");
	if (check_resources("spec", spec, err) < 0 || check_ids("spec", spec, err) < 0 ||
	    check_volumes(spec, err) < 0 || check_list(spec, "containers", err) < 0)
		return -err->code;
	return check_list(spec, "initContainers", err);
}

/* --- changes -------------------------------------------------------------------------------- */

static void take_images(struct rf_arena *a, struct rf_json *into, const struct rf_json *from)
{
	for (size_t i = 0; i < rf_json_len(into) && i < rf_json_len(from); i++) {
		struct rf_json *c = rf_json_item(into, i);

		rf_json_set(a, c, RF_LIT("image"), rf_json_at(rf_json_item(from, i), "image"));
	}
}

/* A pod is what it was admitted as: its spec stays, but for the few fields Kubernetes lets change. */
int rf_validate_pod_update(struct rf_arena *a, const struct rf_json *old, const struct rf_json *pod,
			   struct rf_err *err)
{
	const struct rf_json *was = rf_json_at(old, "spec"), *is = rf_json_at(pod, "spec");
	struct rf_json *allowed = rf_json_clone(a, was);
	static const char *const FREE[] = { "activeDeadlineSeconds", "tolerations" };

	take_images(a, rf_json_at(allowed, "containers"), rf_json_at(is, "containers"));
	take_images(a, rf_json_at(allowed, "initContainers"), rf_json_at(is, "initContainers"));
	for (size_t i = 0; i < RF_COUNT(FREE); i++)
		rf_json_set(a, allowed, rf_str(FREE[i]), rf_json_at(is, FREE[i]));
	if (rf_json_equal(allowed, is))
		return 0;
	return rf_fail(
		err, RF_INVALID,
		"spec: Forbidden: pod updates may not change fields other than "
		"`spec.containers[*].image`, `spec.initContainers[*].image`, "
		"`spec.activeDeadlineSeconds`, `spec.tolerations`; delete the pod and create it "
		"anew");
}
