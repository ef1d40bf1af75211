/* What a pod's author says beside its spec, in labels and annotations of ringfence.io. Admission refuses what cannot
 * be understood; what got in anyway waits, and says the same. */
#include "tenant/tenant.h"

#define PREFIX "ringfence.io/"
#define MODELS_MAX 16
#define SHOWN_MAX 63

static bool is_models(struct rf_str rest)
{
	struct rf_str one = RF_STR_EMPTY;
	bool more = true, good = true;
	size_t n = 0;

	for (; more && n <= MODELS_MAX; n++) {
		more = rf_str_cut(&rest, '|', &one);
		good &= one.n > 0 && one.n <= 63 && rf_str_trim(one).n == one.n;
		for (size_t i = 0; i < one.n; i++)
			good &= one.p[i] >= ' ' && one.p[i] < 127;
	}
	return good && n <= MODELS_MAX;
}

static bool is_required(struct rf_str v)
{
	return rf_str_is(v, "required");
}

static bool is_bool(struct rf_str v)
{
	return rf_str_is(v, "true") || rf_str_is(v, "false");
}

static bool is_seconds(struct rf_str v)
{
	int64_t n = 0;

	return rf_str_int(v, &n, NULL) == 0 && n >= 0 && n <= RF_MIN_RUN_SECONDS_MAX;
}

/* A label that is empty is one that was left out. */
static bool is_name(struct rf_str v)
{
	return v.n == 0 || rf_str_is_dns_label(v);
}

static const struct note {
	const char *key;
	bool label;
	bool (*good)(struct rf_str value);
	const char *must; /* be */
} notes[] = {
	{ RF_QUEUE_LABEL, true, is_name, "the name of a Queue: lower-case letters, digits and -" },
	{ RF_GROUP_LABEL, true, is_name, "the name of a PodGroup: lower-case letters, digits and -" },
	{ RF_MODEL_ANNOTATION, false, is_models, "names of models of cards, such as H100|H200, at most 16" },
	{ RF_NVLINK_ANNOTATION, false, is_required, "\"required\", or left out" },
	{ RF_PREEMPTIBLE_ANNOTATION, false, is_bool, "\"true\" or \"false\"" },
	{ RF_MIN_RUN_ANNOTATION, false, is_seconds, "a whole number of seconds from 0 to 3600" },
	{ RF_BURST_ANNOTATION, false, is_bool,
	  "\"true\" (the pod may use time of its card that others leave idle) or \"false\"" },
};

static const struct rf_json *all_of(const struct rf_json *pod, bool labels)
{
	return rf_json_at(pod, "metadata", labels ? "labels" : "annotations");
}

static struct rf_str value_of(const struct rf_json *pod, const char *key, bool label)
{
	return rf_json_str(rf_json_get(all_of(pod, label), rf_str(key)));
}

static int check_value(const struct note *n, struct rf_str value, struct rf_err *err)
{
	if (n->good(value))
		return 0;
	return rf_fail(err, RF_INVALID, "%s %s: \"%.*s\" is not valid: it must be %s",
		       n->label ? "label" : "annotation", n->key, (int)RF_MIN(value.n, (size_t)SHOWN_MAX), value.p, n->must);
}

/* Whoever writes one that means nothing means another. Labels may be anybody's, but for those that are annotations. */
static int check_note(const struct rf_json_member *m, bool label, struct rf_err *err)
{
	for (size_t i = 0; i < RF_COUNT(notes); i++) {
		if (!rf_str_is(m->key, notes[i].key))
			continue;
		if (notes[i].label == label)
			return check_value(&notes[i], rf_json_str(m->value), err);
		return rf_fail(err, RF_INVALID, "%s %s is no %s: write it under metadata.%s", label ? "label" : "annotation",
			       notes[i].key, label ? "label" : "annotation", label ? "annotations" : "labels");
	}
	if (label)
		return 0;
	return rf_fail(err, RF_INVALID,
		       "annotation %.*s: there is none of that name; there are " RF_MODEL_ANNOTATION
		       ", " RF_NVLINK_ANNOTATION ", " RF_PREEMPTIBLE_ANNOTATION ", " RF_MIN_RUN_ANNOTATION
		       " and " RF_BURST_ANNOTATION,
		       (int)RF_MIN(m->key.n, (size_t)SHOWN_MAX), m->key.p);
}

static int check_notes(const struct rf_json *pod, bool labels, struct rf_err *err)
{
	const struct rf_json *all = all_of(pod, labels);

	for (size_t i = 0; rf_json_is(all, RF_JSON_OBJECT) && i < all->n; i++)
		if (rf_str_starts(all->members[i].key, RF_LIT(PREFIX)) && check_note(&all->members[i], labels, err) < 0)
			return -err->code;
	return 0;
}

int rf_pod_notes(const struct rf_json *pod, struct rf_pod_notes *ret, struct rf_err *err)
{
	struct rf_str run = value_of(pod, RF_MIN_RUN_ANNOTATION, false);
	struct rf_err local = RF_ERR_INIT;

	err = err != NULL ? err : &local;
	*ret = (struct rf_pod_notes){ .queue = value_of(pod, RF_QUEUE_LABEL, true),
				      .group = value_of(pod, RF_GROUP_LABEL, true),
				      .models = value_of(pod, RF_MODEL_ANNOTATION, false),
				      .nvlink = value_of(pod, RF_NVLINK_ANNOTATION, false).n > 0,
				      .pinned = rf_str_is(value_of(pod, RF_PREEMPTIBLE_ANNOTATION, false), "false") };
	if (is_seconds(run))
		(void)rf_str_int(run, &ret->min_run_seconds, NULL);
	return check_notes(pod, true, err) < 0 || check_notes(pod, false, err) < 0 ? -err->code : 0;
}
