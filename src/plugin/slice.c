/* The node's ResourceSlice. A kubelet that starts deletes it, and so does one that lost us for half a
 * minute: it is written again whenever it is not as it should be. */
#include "plugin/private.h"

/* Does `have` say all that `want` says? Servers add defaults, which are theirs; but a taint that is not
 * wanted any more keeps everybody away. */
static bool covers(const struct rf_json *want, const struct rf_json *have)
{
	if (have == NULL || want->type != have->type)
		return false;
	if (rf_json_len(rf_json_at(have, "taints")) != rf_json_len(rf_json_at(want, "taints")))
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

	if (rf_plugin_get(p, a, rf_kube_path(a, &RF_NODES, RF_STR_EMPTY, p->name, NULL), &node,
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
	return rf_plugin_update(
		p, a, rf_kube_path(a, &RF_RESOURCESLICES, RF_STR_EMPTY, rf_kube_name(slice), NULL),
		object, err);
}

static int create(struct rf_plugin *p, struct rf_arena *a, struct rf_json *slice,
		  struct rf_err *err)
{
	if (own_by_node(p, a, slice, err) < 0)
		return -err->code;
	return rf_plugin_create(
		p, a, rf_kube_path(a, &RF_RESOURCESLICES, RF_STR_EMPTY, RF_STR_EMPTY, NULL), slice,
		NULL, err);
}

static int64_t generation_of(const struct rf_json *slice)
{
	return rf_json_int(rf_json_at(slice, "spec", "pool", "generation"), 0);
}

/* An API server whose feature gates are off keeps less than was written. To write it again and again
 * would help nobody. */
static bool is_all_it_keeps(struct rf_plugin *p, const struct rf_json *slice,
			    const struct rf_json *have)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_json_write(&text, rf_json_at(slice, "spec", "devices"));
	return generation_of(have) == p->slice_generation &&
	       rf_str_eq(rf_buf_str(&text), rf_buf_str(&p->slice_devices));
}

static bool is_published(struct rf_plugin *p, struct rf_arena *a, struct rf_json *slice,
			 const struct rf_json *have)
{
	rf_json_set_int(a, rf_json_at(slice, "spec", "pool"), "generation", generation_of(have));
	return covers(rf_json_at(slice, "spec"), rf_json_at(have, "spec")) ||
	       is_all_it_keeps(p, slice, have);
}

static void remember(struct rf_plugin *p, const struct rf_json *slice)
{
	rf_buf_clear(&p->slice_devices);
	rf_json_write(&p->slice_devices, rf_json_at(slice, "spec", "devices"));
	p->slice_generation = generation_of(slice);
}

int rf_slice_publish(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *slice = rf_cards_slice(&a, &p->cards, p->name);
	const struct rf_json *have = rf_informer_get(p->slices, RF_STR_EMPTY, rf_kube_name(slice));
	bool write;
	int rc = 0;

	/* What is published is used at once, and a kubelet that does not know our names starts such
	 * containers without a card: it has to follow our lists first. */
	if (have == NULL && (!rf_slots_known(p) || !rf_cards_measured(&p->cards)))
		return 0;
	write = have == NULL || !is_published(p, &a, slice, have);
	if (write)
		rc = have == NULL ? create(p, &a, slice, err) : replace(p, &a, slice, have, err);
	/* Somebody wrote or removed it meanwhile: the local copy will say so, and then again. */
	if (rc == -RF_EXISTS || rc == -RF_CONFLICT || (rc == -RF_NOT_FOUND && have != NULL))
		return 0;
	if (rc < 0)
		return rf_wrap(err, "publish the cards");
	if (write)
		remember(p, slice);
	p->published = true;
	return 0;
}
