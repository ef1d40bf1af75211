/* "2xH200,1xT4,1xH100:mig": which cards a machine has. */
#include "sim/sim.h"

#include <stdio.h>

static void model_names(char *out, size_t size)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; rf_gpu_model_at(i) != NULL && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%s", i > 0 ? ", " : "",
				      rf_gpu_model_at(i)->key);
}

static const struct rf_gpu_model *find_model(struct rf_str name)
{
	for (size_t i = 0; rf_gpu_model_at(i) != NULL; i++)
		if (rf_str_ieq(name, rf_str(rf_gpu_model_at(i)->key)))
			return rf_gpu_model_at(i);
	return NULL;
}

/* "2xH200" into 2 and "H200"; a name without a count is one card. */
static int split_count(struct rf_str item, int64_t *ret_count, struct rf_str *ret_name,
		       struct rf_err *err)
{
	struct rf_str rest = item, head;

	if (item.n == 0 || item.p[0] < '0' || item.p[0] > '9') {
		*ret_count = 1;
		*ret_name = item;
		return 0;
	}
	if (!rf_str_cut(&rest, 'x', &head) || rf_str_int(head, ret_count, NULL) < 0)
		return rf_fail(err, RF_INVALID,
			       "\"%.*s\" is no card: write COUNTxMODEL, for example 2xH200",
			       RF_STR(item));
	*ret_name = rest;
	return 0;
}

/* "H100:mig" into "H100" and true. */
static int split_mode(struct rf_str item, struct rf_str *name, bool *ret_mig, struct rf_err *err)
{
	struct rf_str head, mode = *name;

	*ret_mig = rf_str_cut(&mode, ':', &head);
	*name = head;
	if (*ret_mig && !rf_str_is(mode, "mig"))
		return rf_fail(err, RF_INVALID, "\"%.*s\": a card has no mode \"%.*s\"; write %.*s, or %.*s:mig for one in MIG mode",
			       RF_STR(item), RF_STR(mode), RF_STR(head), RF_STR(head));
	return 0;
}

static int add_item(struct rf_sim_spec *spec, struct rf_str item, struct rf_err *err)
{
	const struct rf_gpu_model *model;
	struct rf_str name = RF_STR_EMPTY;
	int64_t count = 0;
	bool mig = false;
	char known[128];

	if (split_count(item, &count, &name, err) < 0 || split_mode(item, &name, &mig, err) < 0)
		return -err->code;
	model = find_model(name);
	if (model == NULL) {
		model_names(known, sizeof(known));
		return rf_fail(err, RF_INVALID,
			       "\"%.*s\": unknown card model \"%.*s\"; known are %s", RF_STR(item),
			       RF_STR(name), known);
	}
	if (mig && model->n_mig == 0)
		return rf_fail(err, RF_INVALID, "\"%.*s\": a %s has no MIG mode", RF_STR(item), model->key);
	if (count < 1 || (uint64_t)count > RF_SIM_CARDS_MAX - spec->n)
		return rf_fail(err, RF_INVALID, "\"%.*s\": a machine has 1 to %d cards",
			       RF_STR(item), RF_SIM_CARDS_MAX);
	for (int64_t i = 0; i < count; i++) {
		spec->mig[spec->n] = mig;
		spec->cards[spec->n++] = model;
	}
	return 0;
}

int rf_sim_spec_parse(struct rf_str text, struct rf_sim_spec *ret_spec, struct rf_err *err)
{
	struct rf_sim_spec spec = { .n = 0 };
	struct rf_err own = RF_ERR_INIT;
	struct rf_str item;
	bool more = true;

	if (err == NULL)
		err = &own;
	while (more) {
		more = rf_str_cut(&text, ',', &item);
		if (add_item(&spec, rf_str_trim(item), err) < 0)
			return rf_wrap(err, "simulated machine");
	}
	*ret_spec = spec;
	return 0;
}
