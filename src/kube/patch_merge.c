/* RFC 7386: objects are merged, null removes, everything else replaces. */
#include "kube/private.h"

int rf_patch_spend(struct rf_patch_work *w, uint64_t steps)
{
	if (steps > w->left) {
		w->left = 0;
		return rf_fail(
			w->err, RF_TOO_LARGE,
			"patch: costs too much to apply; send fewer or smaller changes at a time");
	}
	w->left -= steps;
	return 0;
}

int rf_patch_set(struct rf_patch_work *w, struct rf_json *object, struct rf_str key,
		 struct rf_json *value)
{
	if (value != NULL && object->n >= RF_JSON_MEMBERS_MAX && rf_json_get(object, key) == NULL)
		return rf_fail(w->err, RF_TOO_LARGE,
			       "patch: an object would get more than %d fields",
			       RF_JSON_MEMBERS_MAX);
	rf_json_set(w->a, object, key, value);
	return 0;
}

static int merge(struct rf_patch_work *w, struct rf_json **target, const struct rf_json *patch)
{
	if (patch->type != RF_JSON_OBJECT) {
		*target = rf_json_clone(w->a, patch);
		return 0;
	}
	if (!rf_json_is(*target, RF_JSON_OBJECT))
		*target = rf_json_object(w->a);
	for (uint32_t i = 0; i < patch->n; i++) {
		const struct rf_json_member *m = &patch->members[i];
		struct rf_json *child;

		if (rf_patch_spend(w, 2 * (uint64_t)(*target)->n + 1) < 0)
			return -RF_TOO_LARGE;
		if (m->value->type == RF_JSON_NULL) {
			rf_json_del(*target, m->key);
			continue;
		}
		child = rf_json_get(*target, m->key);
		if (merge(w, &child, m->value) < 0 || rf_patch_set(w, *target, m->key, child) < 0)
			return -RF_TOO_LARGE;
	}
	return 0;
}

int rf_patch_merge(struct rf_arena *a, struct rf_json **target, const struct rf_json *patch,
		   struct rf_err *err)
{
	struct rf_patch_work w = { .a = a, .err = err, .left = RF_PATCH_WORK_MAX };

	return merge(&w, target, patch);
}
