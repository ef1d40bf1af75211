/* The node's ResourceSlice. A kubelet that starts deletes it, and so does one that lost us for half a
 * minute: it is written again whenever it is not as it should be. */
#include "plugin/private.h"

/* Does `have` say all that `want` says? Servers add defaults, which are theirs. */
static bool covers(const struct rf_json *want, const struct rf_json *have)
{
	if (have == NULL || want->type != have->type)
		return false;
	if (want->type == RF_JSON_OBJECT) {
		for (size_t i = 0; i < want->n; i++)
			if (!covers(want->members[i].value,
				    rf_json_get(have, want->members[i].key)))
				return false;
		return true;
	}
	if (want->type == RF_JSON_ARRAY) {
		for (size_t i = 0; i < rf_json_len(want); i++)
			if (!covers(rf_json_item(want, i), rf_json_item(have, i)))
				return false;
		return rf_json_len(want) == rf_json_len(have);
	}
	return rf_json_equal(want, have);
}

static int own_by_node(struct rf_plugin *p, struct rf_arena *a, struct rf_json *slice,
		       struct rf_err *err)
{
	struct rf_json *node;

	if (rf_kube_get(p->kube, a, rf_kube_path(a, &RF_NODES, RF_STR_EMPTY, p->name, NULL), &node,
			err) < 0)
		return rf_wrap(err, "read node %.*s", RF_STR(p->name));
	rf_json_set(a, rf_json_at(slice, "metadata"), RF_LIT("ownerReferences"),
		    rf_json_make(a,
				 "[{'apiVersion':'v1','kind':'Node','name':%S,'uid':%S,"
				 "'controller':true}]",
				 p->name, rf_kube_uid(node)));
	return 0;
}

static int replace(struct rf_plugin *p, struct rf_arena *a, struct rf_json *slice,
		   const struct rf_json *have, struct rf_err *err)
{
	struct rf_json *object = rf_json_clone(a, have), *spec = rf_json_at(slice, "spec");

	rf_json_set_int(a, rf_json_at(spec, "pool"), "generation",
			rf_json_int(rf_json_at(have, "spec", "pool", "generation"), 0) + 1);
	rf_json_set(a, object, RF_LIT("spec"), spec);
	return rf_kube_update(p->kube, a,
			      rf_kube_path(a, &RF_RESOURCESLICES, RF_STR_EMPTY, rf_kube_name(slice),
					   NULL),
			      object, NULL, err);
}

int rf_slice_publish(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *slice = rf_cards_slice(&a, &p->cards, p->name);
	const struct rf_json *have =
		rf_informer_get(p->slices, RF_STR_EMPTY, rf_kube_name(slice));
	int rc;

	if (have != NULL) {
		rf_json_set_int(&a, rf_json_at(slice, "spec", "pool"), "generation",
				rf_json_int(rf_json_at(have, "spec", "pool", "generation"), 0));
		if (covers(rf_json_at(slice, "spec"), rf_json_at(have, "spec")))
			return 0;
		rc = replace(p, &a, slice, have, err);
	} else {
		rc = own_by_node(p, &a, slice, err);
		if (rc == 0)
			rc = rf_kube_create(p->kube, &a,
					    rf_kube_path(&a, &RF_RESOURCESLICES, RF_STR_EMPTY,
							 RF_STR_EMPTY, NULL),
					    slice, NULL, err);
	}
	/* Somebody wrote or removed it meanwhile: the local copy will say so, and then again. */
	if (rc == -RF_EXISTS || rc == -RF_CONFLICT || (rc == -RF_NOT_FOUND && have != NULL))
		return 0;
	return rc < 0 ? rf_wrap(err, "publish the cards") : 0;
}
