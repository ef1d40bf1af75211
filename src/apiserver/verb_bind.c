/* Binding a pod to a node: happens once. */
#include "apiserver/admission.h"
#include "apiserver/api.h"
#include "apiserver/meta.h"
#include "apiserver/policies.h"
#include "apiserver/write.h"

static int check_binding(struct rf_req *r, const struct rf_json *pod, const struct rf_json *binding,
			 struct rf_err *err)
{
	struct rf_str node = rf_json_str_at(binding, "target", "name");
	struct rf_str kind = rf_json_str_at(binding, "target", "kind");
	struct rf_str uid = rf_json_str_at(binding, "metadata", "uid");
	struct rf_str on = rf_json_str_at(pod, "spec", "nodeName");

	if (node.n == 0 || (kind.n > 0 && !rf_str_is(kind, "Node")))
		return rf_fail(err, RF_INVALID, "target: Required value: a Node and its name");
	if (uid.n > 0 && !rf_str_eq(uid, rf_json_str_at(pod, "metadata", "uid")))
		return rf_fail(
			err, RF_CONFLICT,
			"Operation cannot be fulfilled on pods \"%.*s\": the pod was replaced",
			RF_STR(r->route.name));
	if (on.n > 0)
		return rf_fail(
			err, RF_CONFLICT,
			"Operation cannot be fulfilled on pods/binding \"%.*s\": pod %.*s is "
			"already assigned to node \"%.*s\"",
			RF_STR(r->route.name), RF_STR(r->route.name), RF_STR(on));
	if (rf_json_at(pod, "metadata", "deletionTimestamp") != NULL)
		return rf_fail(
			err, RF_CONFLICT,
			"Operation cannot be fulfilled on pods/binding \"%.*s\": pod %.*s is "
			"being deleted, cannot be assigned to a host",
			RF_STR(r->route.name), RF_STR(r->route.name));
	return 0;
}

static void set_scheduled(struct rf_req *r, struct rf_json *pod)
{
	struct rf_json *status = rf_json_ensure(r->a, pod, "status");
	struct rf_json *all = rf_json_get(status, RF_LIT("conditions"));
	struct rf_json *one = rf_json_make(
		r->a, "{'type':'PodScheduled','status':'True','lastTransitionTime':%S}",
		rf_time_format(r->a, rf_wall_ms(r->api->clock)));

	if (!rf_json_is(all, RF_JSON_ARRAY)) {
		all = rf_json_array(r->a);
		rf_json_set(r->a, status, RF_LIT("conditions"), all);
	}
	for (size_t i = rf_json_len(all); i-- > 0;)
		if (rf_str_is(rf_json_str_at(rf_json_item(all, i), "type"), "PodScheduled"))
			rf_json_remove(all, i);
	rf_json_push(r->a, all, one);
}

static void take_annotations(struct rf_req *r, struct rf_json *pod, const struct rf_json *binding)
{
	const struct rf_json *from = rf_json_at(binding, "metadata", "annotations");

	for (size_t i = 0; i < rf_json_len(from); i++)
		rf_json_set(r->a, rf_json_ensure(r->a, pod, "metadata", "annotations"),
			    from->members[i].key, from->members[i].value);
}

static int bind_pod(struct rf_req *r, const struct rf_json *binding, struct rf_err *err)
{
	const struct rf_route *t = &r->route;
	struct rf_json *old, *pod;

	if (rf_store_get(r->api->store, r->a, t->kind, t->ns, t->name, &old, err) < 0 ||
	    check_binding(r, old, binding, err) < 0 ||
	    rf_policies_judge(r, "CREATE", NULL, binding, err) < 0)
		return -err->code;
	pod = rf_json_clone(r->a, old);
	rf_json_set_str(r->a, rf_json_ensure(r->a, pod, "spec"), "nodeName",
			rf_json_str_at(binding, "target", "name"));
	set_scheduled(r, pod);
	take_annotations(r, pod, binding);
	return rf_write_put(r->api, r->a, t->kind, old, pod, err);
}

int rf_verb_bind(struct rf_req *r, struct rf_err *err)
{
	struct rf_json *binding;

	if (rf_read_object(r, &binding, err) < 0 || rf_write_begin(r->api, err) < 0)
		return -err->code;
	if (bind_pod(r, binding, err) < 0) {
		rf_write_rollback(r->api);
		return -err->code;
	}
	if (rf_write_commit(r->api, r->dry_run, err) < 0)
		return -err->code;
	rf_reply_done(r, 201, r->route.name, RF_STR_EMPTY);
	return 0;
}
