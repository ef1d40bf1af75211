#include "node/claim.h"

#include "kube/kube.h"
#include "tenant/slice.h"
#include "tenant/tenant.h"

static const struct rf_json *results_of(const struct rf_json *claim)
{
	return rf_json_at(claim, "status", "allocation", "devices", "results");
}

/* For this pod and no other: a second one would use the card unseen. */
static bool reserved_for(const struct rf_json *claim, struct rf_str uid)
{
	const struct rf_json *list = rf_json_at(claim, "status", "reservedFor");

	return rf_json_len(list) == 1 && rf_str_eq(rf_json_str_at(rf_json_item(list, 0), "uid"), uid);
}

int rf_claim_check(const struct rf_json *claim, const struct rf_json *pod, struct rf_str node,
		   struct rf_err *err)
{
	const struct rf_json *results = results_of(claim);
	struct rf_str name = rf_kube_name(claim);

	if (rf_kube_deleting(claim))
		return rf_fail(err, RF_FORBIDDEN, "claim %.*s is being deleted", RF_STR(name));
	if (rf_json_len(results) == 0)
		return rf_fail(err, RF_UNAVAILABLE, "claim %.*s is not allocated yet",
			       RF_STR(name));
	if (!reserved_for(claim, rf_kube_uid(pod)))
		return rf_fail(err, RF_FORBIDDEN, "claim %.*s is not reserved for this pod alone",
			       RF_STR(name));
	for (size_t i = 0; i < rf_json_len(results); i++) {
		const struct rf_json *r = rf_json_item(results, i);

		if (!rf_str_is(rf_json_str_at(r, "driver"), RF_DRIVER) ||
		    !rf_str_eq(rf_json_str_at(r, "pool"), node))
			return rf_fail(
				err, RF_FORBIDDEN,
				"claim %.*s is allocated from pool %.*s, not on this machine",
				RF_STR(name), RF_STR(rf_json_str_at(r, "pool")));
	}
	return 0;
}

static int consumed(const struct rf_json *result, const char *what, int64_t *ret,
		    struct rf_err *err)
{
	const struct rf_json *v = rf_json_at(result, "consumedCapacity", what);

	*ret = 0;
	if (v == NULL)
		return 0;
	struct rf_str text = v->type == RF_JSON_NUMBER ? v->text : rf_json_str(v);
	if (rf_quantity_value(text, ret, err) < 0)
		return rf_wrap(err, "consumedCapacity.%s", what);
	return 0;
}

static int read_result(const struct rf_json *result, struct rf_grant_card *ret, struct rf_err *err)
{
	struct rf_str device = rf_json_str_at(result, "device");
	int64_t index = -1;

	if (!rf_str_starts(device, RF_LIT("gpu-")) ||
	    rf_str_int(rf_str_skip(device, 4), &index, NULL) < 0 || index < 0 || index > 255)
		return rf_fail(err, RF_FORBIDDEN, "device %.*s is not a card of this machine",
			       RF_STR(device));
	ret->index = (int)index;
	if (consumed(result, "memory", &ret->memory_bytes, err) < 0 ||
	    consumed(result, "compute", &ret->compute_milli, err) < 0)
		return rf_wrap(err, "device %.*s", RF_STR(device));
	return 0;
}

/* A share must come with the cap that was asked for: a missing or larger one would be no fence. */
static int check_share(const struct rf_gpu_ask *ask, struct rf_grant *g, struct rf_err *err)
{
	if (g->n != 1)
		return rf_fail(err, RF_FORBIDDEN, "a share is of one card; %zu were allocated",
			       g->n);
	if (g->cards[0].profile[0] != '\0')
		return rf_fail(err, RF_FORBIDDEN, "a share was asked for, a slice of %s was allocated", g->cards[0].profile);
	if (g->cards[0].memory_bytes != ask->share_bytes)
		return rf_fail(err, RF_FORBIDDEN,
			       "a share of %lld bytes was asked for, %lld were allocated",
			       (long long)ask->share_bytes, (long long)g->cards[0].memory_bytes);
	return 0;
}

static int check_whole(const struct rf_gpu_ask *ask, struct rf_grant *g, struct rf_err *err)
{
	if ((int64_t)g->n != ask->cards)
		return rf_fail(err, RF_FORBIDDEN, "%lld cards were asked for, %zu were allocated",
			       (long long)ask->cards, g->n);
	for (size_t i = 0; i < g->n; i++) {
		if (g->cards[i].profile[0] != '\0')
			return rf_fail(err, RF_FORBIDDEN, "whole cards were asked for, slices of %s were allocated",
				       g->cards[i].profile);
		g->cards[i].memory_bytes = 0;
		g->cards[i].compute_milli = 1000;
	}
	g->whole = true;
	return 0;
}

/* --- slices ---------------------------------------------------------------------------------- */

bool rf_claim_slice(const struct rf_json *claim, size_t i, struct rf_grant_card *ret)
{
	struct rf_slice_place place;

	if (!rf_slice_of_result(claim, i, &place) || place.profile.n >= sizeof(ret->profile))
		return false;
	memcpy(ret->profile, place.profile.p, place.profile.n);
	ret->profile[place.profile.n] = '\0';
	ret->start = place.start;
	return true;
}

/* Slices must come with the place that was chosen for them: without it nobody knows what is free. */
static int check_slices(const struct rf_gpu_ask *ask, struct rf_grant *g, struct rf_err *err)
{
	if ((int64_t)g->n != ask->slices)
		return rf_fail(err, RF_FORBIDDEN, "%lld slices were asked for, %zu were allocated", (long long)ask->slices,
			       g->n);
	for (size_t i = 0; i < g->n; i++) {
		if (g->cards[i].profile[0] == '\0')
			return rf_fail(err, RF_FORBIDDEN, "the claim does not say where slice %zu is", i);
		if (!rf_str_is(ask->profile, g->cards[i].profile))
			return rf_fail(err, RF_FORBIDDEN, "slices of %.*s were asked for, one of %s was allocated",
				       RF_STR(ask->profile), g->cards[i].profile);
		/* The hardware holds it to its memory and its time. */
		g->cards[i].memory_bytes = 0;
		g->cards[i].compute_milli = 1000;
	}
	g->sliced = true;
	return 0;
}

int rf_claim_grant(const struct rf_json *claim, const struct rf_json *container,
		   struct rf_grant *ret, struct rf_err *err)
{
	const struct rf_json *results = results_of(claim);
	struct rf_str name = rf_json_str_at(container, "name");
	struct rf_gpu_ask ask;

	*ret = (struct rf_grant){ .n = 0 };
	if (rf_gpu_ask_of_container(container, &ask, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(results); i++) {
		const struct rf_json *r = rf_json_item(results, i);

		if (!rf_str_eq(rf_json_str_at(r, "request"), name))
			continue;
		if (ret->n == RF_GRANT_CARDS_MAX)
			return rf_fail(err, RF_FORBIDDEN, "container %.*s: more than %d cards",
				       RF_STR(name), RF_GRANT_CARDS_MAX);
		(void)rf_claim_slice(claim, i, &ret->cards[ret->n]);
		if (read_result(r, &ret->cards[ret->n++], err) < 0)
			return rf_wrap(err, "container %.*s", RF_STR(name));
	}
	int rc = 0;
	if (ask.slices > 0)
		rc = check_slices(&ask, ret, err);
	else if (ask.share_bytes > 0)
		rc = check_share(&ask, ret, err);
	else if (ask.cards > 0 || ret->n > 0)
		rc = check_whole(&ask, ret, err);
	return rc < 0 ? rf_wrap(err, "container %.*s", RF_STR(name)) : 0;
}
