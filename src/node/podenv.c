#include "node/podenv.h"

#include "codec/base64.h"
#include "node/oci.h"

#define ENV_MAX 4096

int rf_podenv_key(struct rf_arena *a, const struct rf_json *object, bool secret, struct rf_str key,
		  struct rf_str *ret, struct rf_err *err)
{
	const struct rf_json *v = rf_json_get(rf_json_at(object, "data"), key);

	if (v == NULL && !secret) {
		v = rf_json_get(rf_json_at(object, "binaryData"), key);
		secret = v != NULL; /* base64 too */
	}
	if (v == NULL)
		return rf_fail(err, RF_NOT_FOUND, "no key %.*s in it", RF_STR(key));
	if (secret)
		return rf_base64_decode(a, rf_json_str(v), ret, err);
	*ret = rf_json_str(v);
	return 0;
}

/* "metadata.labels['app']" */
static bool subscript(struct rf_str path, const char *prefix, struct rf_str *key)
{
	struct rf_str open = rf_str(prefix);

	if (!rf_str_starts(path, open) || !rf_str_ends(path, RF_LIT("']")) || path.n < open.n + 2)
		return false;
	*key = rf_str_n(path.p + open.n, path.n - open.n - 2);
	return true;
}

int rf_podenv_field(const struct rf_json *pod, struct rf_str path, struct rf_str *ret,
		    struct rf_err *err)
{
	static const struct {
		const char *path, *section, *field;
	} fields[] = {
		{ "metadata.name", "metadata", "name" },
		{ "metadata.namespace", "metadata", "namespace" },
		{ "metadata.uid", "metadata", "uid" },
		{ "spec.nodeName", "spec", "nodeName" },
		{ "spec.serviceAccountName", "spec", "serviceAccountName" },
	};
	struct rf_str key = RF_STR_EMPTY;

	for (size_t i = 0; i < RF_COUNT(fields); i++)
		if (rf_str_is(path, fields[i].path)) {
			*ret = rf_json_str_at(pod, fields[i].section, fields[i].field);
			return 0;
		}
	if (subscript(path, "metadata.labels['", &key)) {
		*ret = rf_json_str(rf_json_get(rf_json_at(pod, "metadata", "labels"), key));
		return 0;
	}
	if (subscript(path, "metadata.annotations['", &key)) {
		*ret = rf_json_str(rf_json_get(rf_json_at(pod, "metadata", "annotations"), key));
		return 0;
	}
	return rf_fail(err, RF_UNSUPPORTED, "fieldPath %.*s is not offered", RF_STR(path));
}

struct resolver {
	struct rf_arena *a;
	const struct rf_json *pod;
	const struct rf_podenv_source *source;
	struct rf_json *out;
};

static int push(struct resolver *r, struct rf_str name, struct rf_str value, struct rf_err *err)
{
	if (rf_json_len(r->out) >= ENV_MAX)
		return rf_fail(err, RF_TOO_LARGE, "more than %d environment variables", ENV_MAX);
	if (memchr(value.p, '\0', value.n) != NULL)
		return rf_fail(err, RF_INVALID, "variable %.*s: a NUL byte in its value",
			       RF_STR(name));
	rf_json_push(r->a, r->out, rf_json_make(r->a, "{'name':%S,'value':%S}", name, value));
	return 0;
}

static int from_key(struct resolver *r, const struct rf_json *ref, bool secret, struct rf_str name,
		    struct rf_err *err)
{
	struct rf_str object_name = rf_json_str_at(ref, "name"), key = rf_json_str_at(ref, "key"),
		      value;
	const struct rf_json *object = NULL;
	int rc = r->source->get(r->source->ctx, secret, object_name, &object, err);

	if (rc == 0)
		rc = rf_podenv_key(r->a, object, secret, key, &value, err);
	if (rc == -RF_NOT_FOUND && rf_json_is_true(rf_json_at(ref, "optional")))
		return 0;
	if (rc < 0)
		return rf_wrap(err, "variable %.*s from %s %.*s", RF_STR(name),
			       secret ? "secret" : "configmap", RF_STR(object_name));
	return push(r, name, value, err);
}

static int one(struct resolver *r, const struct rf_json *v, struct rf_err *err)
{
	struct rf_str name = rf_json_str_at(v, "name"), value;
	const struct rf_json *from = rf_json_at(v, "valueFrom");

	if (from == NULL)
		return push(r, name, rf_oci_expand(r->a, rf_json_str_at(v, "value"), r->out), err);
	if (rf_json_at(from, "configMapKeyRef") != NULL)
		return from_key(r, rf_json_at(from, "configMapKeyRef"), false, name, err);
	if (rf_json_at(from, "secretKeyRef") != NULL)
		return from_key(r, rf_json_at(from, "secretKeyRef"), true, name, err);
	if (rf_json_at(from, "fieldRef") != NULL) {
		if (rf_podenv_field(r->pod, rf_json_str_at(from, "fieldRef", "fieldPath"), &value,
				    err) < 0)
			return rf_wrap(err, "variable %.*s", RF_STR(name));
		return push(r, name, value, err);
	}
	return rf_fail(err, RF_UNSUPPORTED,
		       "variable %.*s: valueFrom may be configMapKeyRef, secretKeyRef or fieldRef",
		       RF_STR(name));
}

static int whole_object(struct resolver *r, const struct rf_json *from, struct rf_err *err)
{
	bool secret = rf_json_at(from, "secretRef") != NULL;
	const struct rf_json *ref = rf_json_at(from, secret ? "secretRef" : "configMapRef"),
			     *object;
	struct rf_str value = RF_STR_EMPTY;
	int rc = r->source->get(r->source->ctx, secret, rf_json_str_at(ref, "name"), &object, err);

	if (rc == -RF_NOT_FOUND && rf_json_is_true(rf_json_at(ref, "optional")))
		return 0;
	if (rc < 0)
		return rf_wrap(err, "envFrom %.*s", RF_STR(rf_json_str_at(ref, "name")));
	const struct rf_json *data = rf_json_at(object, "data");
	for (size_t i = 0; i < rf_json_len(data); i++) {
		struct rf_str key = data->members[i].key;

		if (rf_podenv_key(r->a, object, secret, key, &value, err) < 0 ||
		    push(r,
			 rf_arena_printf(r->a, "%.*s%.*s", RF_STR(rf_json_str_at(from, "prefix")),
					 RF_STR(key)),
			 value, err) < 0)
			return rf_wrap(err, "envFrom %.*s", RF_STR(rf_json_str_at(ref, "name")));
	}
	return 0;
}

int rf_podenv_resolve(struct rf_arena *a, const struct rf_json *pod,
		      const struct rf_json *container, const struct rf_podenv_source *source,
		      struct rf_json **ret, struct rf_err *err)
{
	struct resolver r = { .a = a, .pod = pod, .source = source, .out = rf_json_array(a) };
	const struct rf_json *all = rf_json_at(container, "envFrom"),
			     *env = rf_json_at(container, "env");

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (whole_object(&r, rf_json_item(all, i), err) < 0)
			return -err->code;
	for (size_t i = 0; i < rf_json_len(env); i++)
		if (one(&r, rf_json_item(env, i), err) < 0)
			return -err->code;
	*ret = r.out;
	return 0;
}
