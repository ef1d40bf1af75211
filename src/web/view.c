#include "web/view.h"

#include "kube/kube.h"
#include "tenant/tenant.h"

/* What one claim takes of one card. */
struct grant {
	struct rf_str tenant;
	int64_t bytes;
	int64_t milli;
};

static bool grant_on(const struct rf_json *claim, struct rf_str node, struct rf_str device,
		     struct grant *ret)
{
	const struct rf_json *results = rf_json_at(claim, "status", "allocation", "devices", "results");
	bool found = false;

	*ret = (struct grant){ .tenant = rf_kube_annotation(claim, RF_TENANT_LABEL) };
	for (size_t i = 0; i < rf_json_len(results); i++) {
		const struct rf_json *r = rf_json_item(results, i);
		int64_t bytes = 0, milli = 0;

		/* Other drivers may name their pools and devices alike. */
		if (!rf_str_is(rf_json_str_at(r, "driver"), RF_DRIVER) ||
		    !rf_str_eq(rf_json_str_at(r, "pool"), node) || !rf_str_eq(rf_json_str_at(r, "device"), device))
			continue;
		rf_quantity_value(rf_json_str_at(r, "consumedCapacity", "memory"), &bytes, NULL);
		rf_quantity_value(rf_json_str_at(r, "consumedCapacity", "compute"), &milli, NULL);
		ret->bytes += bytes;
		ret->milli += milli;
		found = true;
	}
	return found;
}

static void add_word(struct rf_buf *b, struct rf_str word)
{
	struct rf_str rest = rf_buf_str(b), one = RF_STR_EMPTY;

	while (rest.n > 0) {
		rf_str_cut(&rest, ',', &one);
		if (rf_str_eq(one, word))
			return;
	}
	if (b->n > 0)
		rf_buf_add_c(b, ',');
	rf_buf_add(b, word);
}

/* The first taint that keeps pods away; one of effect None only tells. */
static const struct rf_json *fault_of(const struct rf_json *device)
{
	const struct rf_json *taints = rf_json_at(device, "taints");

	for (size_t i = 0; i < rf_json_len(taints); i++)
		if (!rf_str_is(rf_json_str_at(rf_json_item(taints, i), "effect"), "None"))
			return rf_json_item(taints, i);
	return NULL;
}

static struct rf_json *card_row(struct rf_arena *a, struct rf_str node, const struct rf_json *device,
				const struct rf_json *claims)
{
	rf_auto(buf) tenants = RF_BUF_INIT;
	struct rf_str name = rf_json_str_at(device, "name");
	const struct rf_json *taint = fault_of(device);
	int64_t bytes = 0, milli = 0;
	struct grant g;

	for (size_t i = 0; i < rf_json_len(claims); i++) {
		if (!grant_on(rf_json_item(claims, i), node, name, &g))
			continue;
		bytes += g.bytes;
		milli += g.milli;
		add_word(&tenants, g.tenant);
	}
	return rf_json_make(
		a,
		"{'node':%S,'card':%S,'model':%S,'uuid':%S,'memory':%S,'granted':%S,'compute':%S,'tenants':%S,"
		"'health':%S,'simulated':%b}",
		node, name, rf_json_str_at(device, "attributes", "productName", "string"),
		rf_json_str_at(device, "attributes", "uuid", "string"),
		rf_json_str_at(device, "capacity", "memory", "value"),
		bytes ? rf_quantity_bytes(a, bytes) : RF_LIT("0"),
		rf_arena_printf(a, "%lld%%", (long long)(milli / 10)), rf_arena_str(a, rf_buf_str(&tenants)),
		taint ? rf_arena_printf(a, "%.*s=%.*s", RF_STR(rf_json_str_at(taint, "key")),
					RF_STR(rf_json_str_at(taint, "value"))) :
			RF_LIT("ok"),
		(int)rf_json_is_true(rf_json_at(device, "attributes", "simulated", "bool")));
}

static int64_t generation_of(const struct rf_json *slice)
{
	return rf_json_int(rf_json_at(slice, "spec", "pool", "generation"), 0);
}

/* Ours, and no newer slices speak of the same pool. */
static bool is_current(const struct rf_json *slices, const struct rf_json *slice)
{
	if (!rf_str_is(rf_json_str_at(slice, "spec", "driver"), RF_DRIVER))
		return false;
	for (size_t i = 0; i < rf_json_len(slices); i++) {
		const struct rf_json *other = rf_json_item(slices, i);

		if (rf_str_is(rf_json_str_at(other, "spec", "driver"), RF_DRIVER) &&
		    rf_str_eq(rf_json_str_at(other, "spec", "pool", "name"),
			      rf_json_str_at(slice, "spec", "pool", "name")) &&
		    generation_of(other) > generation_of(slice))
			return false;
	}
	return true;
}

struct rf_json *rf_view_cards(struct rf_arena *a, const struct rf_json *slices, const struct rf_json *claims)
{
	struct rf_json *rows = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(slices); i++) {
		const struct rf_json *slice = rf_json_item(slices, i);
		const struct rf_json *devices = rf_json_at(slice, "spec", "devices");

		if (!is_current(slices, slice))
			continue;
		for (size_t d = 0; d < rf_json_len(devices); d++)
			rf_json_push(a, rows, card_row(a, rf_json_str_at(slice, "spec", "nodeName"),
						       rf_json_item(devices, d), claims));
	}
	return rows;
}

static const struct rf_json *claim_of(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *claims)
{
	struct rf_str name = rf_pod_claim_name(a, pod);

	for (size_t i = 0; i < rf_json_len(claims); i++) {
		const struct rf_json *c = rf_json_item(claims, i);

		if (rf_str_eq(rf_kube_name(c), name) && rf_str_eq(rf_kube_namespace(c), rf_kube_namespace(pod)))
			return c;
	}
	return NULL;
}

static struct rf_str tenant_of(struct rf_str ns, const struct rf_json *namespaces)
{
	for (size_t i = 0; i < rf_json_len(namespaces); i++)
		if (rf_str_eq(rf_kube_name(rf_json_item(namespaces, i)), ns))
			return rf_kube_label(rf_json_item(namespaces, i), RF_TENANT_LABEL);
	return RF_STR_EMPTY;
}

static void cards_of(struct rf_buf *b, const struct rf_json *claim)
{
	const struct rf_json *results = rf_json_at(claim, "status", "allocation", "devices", "results");

	for (size_t i = 0; i < rf_json_len(results); i++)
		add_word(b, rf_json_str_at(rf_json_item(results, i), "device"));
}

/* What kubectl's STATUS column says: the container's reason where there is one. */
static struct rf_str pod_status(const struct rf_json *pod)
{
	const struct rf_json *statuses = rf_json_at(pod, "status", "containerStatuses");

	if (rf_kube_deleting(pod))
		return RF_LIT("Terminating");
	for (size_t i = 0; i < rf_json_len(statuses); i++) {
		const struct rf_json *state = rf_json_at(rf_json_item(statuses, i), "state");
		struct rf_str reason = rf_json_str_at(state, "waiting", "reason");

		if (reason.n == 0)
			reason = rf_json_str_at(state, "terminated", "reason");
		if (reason.n > 0)
			return reason;
	}
	return rf_json_str_at(pod, "status", "phase");
}

static struct rf_str ask_text(struct rf_arena *a, const struct rf_json *pod)
{
	struct rf_gpu_ask ask = { 0 };

	if (rf_gpu_ask_of_pod(pod, &ask, NULL) < 0 || !rf_gpu_ask_any(&ask))
		return RF_STR_EMPTY;
	if (ask.cards > 0)
		return rf_arena_printf(a, "%lld card%s", (long long)ask.cards, ask.cards == 1 ? "" : "s");
	if (ask.share_milli == 0)
		return rf_quantity_bytes(a, ask.share_bytes);
	return rf_arena_printf(a, "%.*s, %lld%%", RF_STR(rf_quantity_bytes(a, ask.share_bytes)),
			       (long long)(ask.share_milli / 10));
}

struct rf_json *rf_view_pods(struct rf_arena *a, const struct rf_json *pods, const struct rf_json *namespaces,
			     const struct rf_json *claims, int64_t now_ms)
{
	struct rf_json *rows = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(pods); i++) {
		const struct rf_json *pod = rf_json_item(pods, i);
		rf_auto(buf) cards = RF_BUF_INIT;
		int64_t born = now_ms;

		cards_of(&cards, claim_of(a, pod, claims));
		rf_time_parse(rf_json_str_at(pod, "metadata", "creationTimestamp"), &born, NULL);
		rf_json_push(a, rows,
			     rf_json_make(a,
					  "{'tenant':%S,'namespace':%S,'pod':%S,'gpu':%S,'node':%S,'cards':%S,"
					  "'status':%S,'age':%S}",
					  tenant_of(rf_kube_namespace(pod), namespaces), rf_kube_namespace(pod),
					  rf_kube_name(pod), ask_text(a, pod), rf_json_str_at(pod, "spec", "nodeName"),
					  rf_arena_str(a, rf_buf_str(&cards)), pod_status(pod),
					  rf_time_age(a, now_ms - born)));
	}
	return rows;
}

static struct rf_str ready_text(const struct rf_json *tenant)
{
	const struct rf_json *conditions = rf_json_at(tenant, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(conditions); i++) {
		const struct rf_json *c = rf_json_item(conditions, i);

		if (!rf_str_is(rf_json_str_at(c, "type"), "Ready"))
			continue;
		if (rf_str_is(rf_json_str_at(c, "status"), "True"))
			return RF_LIT("yes");
		return rf_json_str_at(c, "message");
	}
	return RF_LIT("not yet");
}

static struct rf_json *tenant_row(struct rf_arena *a, const struct rf_json *object)
{
	struct rf_tenant t = { 0 };
	struct rf_err bad = RF_ERR_INIT;
	rf_auto(buf) namespaces = RF_BUF_INIT;

	if (rf_tenant_parse(a, object, &t, &bad) < 0)
		return rf_json_make(a, "{'name':%S,'ready':%s}", rf_kube_name(object), bad.msg);
	for (size_t i = 0; i < t.n_namespaces; i++)
		rf_buf_printf(&namespaces, "%s%.*s", i ? "," : "", RF_STR(t.namespaces[i]));
	return rf_json_make(a,
			    "{'name':%S,'isolation':%s,'trustDomain':%S,'gpus':%D,'gpuMemory':%S,"
			    "'namespaces':%S,'ready':%S}",
			    t.name, rf_isolation_name(t.isolation), t.trust_domain, t.quota_gpus,
			    rf_quantity_bytes(a, t.quota_gpu_memory), rf_arena_str(a, rf_buf_str(&namespaces)),
			    ready_text(object));
}

struct rf_json *rf_view_tenants(struct rf_arena *a, const struct rf_json *tenants)
{
	struct rf_json *rows = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(tenants); i++)
		rf_json_push(a, rows, tenant_row(a, rf_json_item(tenants, i)));
	return rows;
}
