/* What a pod asks of GPUs, read from its containers' limits. */
#include "gpu/models.h"
#include "tenant/tenant.h"

#define CARDS_MAX 1024
#define BYTES_MAX (INT64_C(1) << 50)
#define PREFIX "ringfence.io/"
#define NAME_MAX_BYTES 200

static const char *const resources[] = { RF_RES_GPU, RF_RES_GPU_MEMORY, RF_RES_GPU_COMPUTE };

/* --- other names of whole cards ---------------------------------------------------------- */

struct names {
	char at[RF_GPU_NAMES_MAX][NAME_MAX_BYTES + 1];
	size_t n;
};

static struct names others = { { "nvidia.com/gpu" }, 1 };

static bool in_domain(struct rf_str domain, struct rf_str of)
{
	return rf_str_ends(domain, of) &&
	       (domain.n == of.n || domain.p[domain.n - of.n - 1] == '.');
}

/* What Kubernetes takes for an extended resource, less what has a meaning of its own. */
static int check_other(struct rf_str name, struct rf_err *err)
{
	struct rf_str domain = RF_STR_EMPTY, rest = name;

	if (!rf_str_cut(&rest, '/', &domain) || name.n > NAME_MAX_BYTES ||
	    !rf_str_is_label_key(name) || rf_str_starts(name, RF_LIT("requests.")))
		return rf_fail(err, RF_INVALID,
			       "\"%.*s\" is no name of a resource; write it like nvidia.com/gpu",
			       (int)RF_MIN(name.n, (size_t)NAME_MAX_BYTES), name.p);
	if (in_domain(domain, RF_LIT("kubernetes.io")) || in_domain(domain, RF_LIT("k8s.io")) ||
	    in_domain(domain, RF_LIT("ringfence.io")))
		return rf_fail(err, RF_INVALID,
			       "\"%.*s\" belongs to %.*s; give the name of a device plugin's "
			       "resource, such as nvidia.com/gpu",
			       RF_STR(name), RF_STR(domain));
	return 0;
}

static int add_other(struct names *to, struct rf_str name, struct rf_err *err)
{
	if (check_other(name, err) < 0)
		return -RF_INVALID;
	for (size_t i = 0; i < to->n; i++) {
		if (rf_str_is(name, to->at[i]))
			return rf_fail(err, RF_INVALID, "\"%.*s\" is there twice", RF_STR(name));
	}
	if (to->n == RF_GPU_NAMES_MAX)
		return rf_fail(err, RF_INVALID, "at most %d names for whole cards",
			       RF_GPU_NAMES_MAX);
	memcpy(to->at[to->n++], name.p, name.n);
	return 0;
}

int rf_gpu_names_set(struct rf_str comma_separated, struct rf_err *err)
{
	struct names now = { 0 };
	struct rf_str name = RF_STR_EMPTY;
	bool more = comma_separated.n > 0;

	while (more) {
		more = rf_str_cut(&comma_separated, ',', &name);
		if (add_other(&now, rf_str_trim(name), err) < 0)
			return -RF_INVALID;
	}
	others = now;
	return 0;
}

const char *rf_gpu_name(size_t i)
{
	return i < others.n ? others.at[i] : NULL;
}

static bool is_other(struct rf_str key)
{
	for (size_t i = 0; i < others.n; i++) {
		if (rf_str_is(key, others.at[i]))
			return true;
	}
	return false;
}

/* --- slices ------------------------------------------------------------------------------ */

/* Resource names have no '+': the driver's "1g.10gb+me" is "1g.10gb.me" there. */
static bool names_profile(struct rf_str asked, const char *name)
{
	if (asked.n != strlen(name))
		return false;
	for (size_t i = 0; i < asked.n; i++) {
		if (asked.p[i] != (name[i] == '+' ? '.' : name[i]))
			return false;
	}
	return true;
}

/* Cards of other models cannot be cut into slices: nobody would know where these are. */
static const char *find_profile(struct rf_str asked)
{
	const struct rf_gpu_model *m = NULL;

	for (size_t i = 0; (m = rf_gpu_model_at(i)) != NULL; i++) {
		for (size_t k = 0; k < m->n_mig; k++) {
			if (names_profile(asked, m->mig[k].name))
				return m->mig[k].name;
		}
	}
	return NULL;
}

/* Of a resource's name: the profile, empty if it is no slice's. */
static struct rf_str profile_of(struct rf_str resource)
{
	if (rf_str_starts(resource, RF_LIT(RF_RES_MIG)))
		return rf_str_skip(resource, sizeof(RF_RES_MIG) - 1);
	if (rf_str_starts(resource, RF_LIT(RF_RES_MIG_OTHER)))
		return rf_str_skip(resource, sizeof(RF_RES_MIG_OTHER) - 1);
	return RF_STR_EMPTY;
}

/* --- one container ----------------------------------------------------------------------- */

/* A container, for messages: `container "train"`. */
static int bad(struct rf_err *err, const struct rf_json *container, const char *resource,
	       const char *what)
{
	return rf_fail(err, RF_INVALID, "container \"%.*s\": %s: %s",
		       RF_STR(rf_json_str_at(container, "name")), resource, what);
}

static const struct rf_json *value_of(const struct rf_json *container, const char *list,
				      const char *resource)
{
	const struct rf_json *v =
		rf_json_get(rf_json_at(container, "resources", list), rf_str(resource));

	return v != NULL && v->type != RF_JSON_NULL ? v : NULL;
}

static int read_whole(const struct rf_json *v, int64_t most, int64_t *ret)
{
	int64_t milli = 0;

	if (v->type != RF_JSON_NUMBER && v->type != RF_JSON_STRING)
		return -RF_INVALID;
	if (rf_quantity_milli(v->text, &milli, NULL) < 0)
		return -RF_INVALID;
	if (milli < 0 || milli % 1000 != 0 || milli / 1000 > most)
		return -RF_INVALID;
	*ret = milli / 1000;
	return 0;
}

/* The limit; 0 if there is none. A request may only repeat it: devices cannot be overcommitted. */
static int read_limit(const struct rf_json *c, const char *resource, int64_t most, int64_t *ret,
		      struct rf_err *err)
{
	const struct rf_json *limit = value_of(c, "limits", resource);
	const struct rf_json *request = value_of(c, "requests", resource);
	int64_t asked = 0, requested = 0;

	if (limit != NULL && read_whole(limit, most, &asked) < 0)
		return rf_fail(
			err, RF_INVALID,
			"container \"%.*s\": %s: limit must be a whole number from 0 to %lld, not "
			"%.*s",
			RF_STR(rf_json_str_at(c, "name")), resource, (long long)most,
			limit->type == RF_JSON_NUMBER || limit->type == RF_JSON_STRING
				? (int)limit->text.n
				: 0,
			limit->text.p);
	if (request != NULL &&
	    (limit == NULL || read_whole(request, most, &requested) < 0 || requested != asked))
		return bad(err, c, resource,
			   "the request must equal the limit; set the limit and leave the request "
			   "out");
	*ret = asked;
	return 0;
}

/* A misspelt resource would be an ask that nobody sees. */
static int check_names(const struct rf_json *owner, const char *list, struct rf_err *err)
{
	const struct rf_json *o = rf_json_at(owner, "resources", list);

	for (size_t i = 0; rf_json_is(o, RF_JSON_OBJECT) && i < o->n; i++) {
		struct rf_str key = o->members[i].key;
		bool known = !rf_str_starts(key, RF_LIT(PREFIX));

		for (size_t k = 0; k < RF_COUNT(resources); k++)
			known |= rf_str_is(key, resources[k]);
		known |= profile_of(key).n > 0; /* looked at later */
		if (!known)
			return rf_fail(
				err, RF_INVALID,
				"container \"%.*s\": resources.%s.%.*s: there is no such resource; "
				"there are %s, %s and %s",
				RF_STR(rf_json_str_at(owner, "name")), list, RF_STR(key),
				RF_RES_GPU, RF_RES_GPU_MEMORY, RF_RES_GPU_COMPUTE);
	}
	return 0;
}

static int check_ask(const struct rf_json *c, const struct rf_gpu_ask *ask, int64_t percent,
		     struct rf_err *err)
{
	const struct rf_json *compute = value_of(c, "limits", RF_RES_GPU_COMPUTE);
	const struct rf_json *memory = value_of(c, "limits", RF_RES_GPU_MEMORY);

	if (compute != NULL && percent == 0)
		return bad(err, c, RF_RES_GPU_COMPUTE,
			   "must be 1 to 100; leave it out to reserve none");
	if (memory != NULL && ask->share_bytes == 0)
		return bad(err, c, RF_RES_GPU_MEMORY,
			   "must be more than 0; leave it out to ask for none");
	if (ask->cards > 0 && (ask->share_bytes > 0 || percent > 0))
		return bad(err, c, ask->name,
			   "a container asks for whole cards or for a share, not for both; remove "
			   "one");
	if (percent > 0 && ask->share_bytes == 0)
		return bad(err, c, RF_RES_GPU_COMPUTE, "needs " RF_RES_GPU_MEMORY " beside it");
	return 0;
}

/* By whatever name, but by one: two devices for one container would be two promises. */
static int read_cards(const struct rf_json *c, struct rf_gpu_ask *ask, struct rf_err *err)
{
	const char *name = RF_RES_GPU;

	for (size_t i = 0; name != NULL; name = rf_gpu_name(i++)) {
		int64_t n = 0;

		if (read_limit(c, name, CARDS_MAX, &n, err) < 0)
			return -err->code;
		if (n == 0)
			continue;
		if (ask->cards > 0)
			return rf_fail(err, RF_INVALID,
				       "container \"%.*s\": %s: whole cards are asked for by one "
				       "name, and %s is there too; remove one",
				       RF_STR(rf_json_str_at(c, "name")), name, ask->name);
		ask->cards = n;
		ask->name = name;
	}
	return 0;
}

static int add_slices(const struct rf_json *c, struct rf_str resource, struct rf_gpu_ask *ask,
		      struct rf_err *err)
{
	const char *profile = find_profile(profile_of(resource));
	char name[64] = "";
	int64_t n = 0;

	if (resource.n < sizeof(name))
		memcpy(name, resource.p, resource.n);
	if (profile == NULL || name[0] == '\0')
		return rf_fail(err, RF_INVALID,
			       "container \"%.*s\": %.*s: no card that ringfence knows has that MIG profile; "
			       "write one as in " RF_RES_MIG "1g.10gb",
			       RF_STR(rf_json_str_at(c, "name")), (int)RF_MIN(resource.n, 200), resource.p);
	if (read_limit(c, name, CARDS_MAX, &n, err) < 0)
		return -err->code;
	if (n == 0)
		return 0;
	if (ask->slices > 0)
		return bad(err, c, name, "slices are asked for by one name and of one profile; remove the others");
	ask->slices = n;
	ask->profile = rf_str(profile);
	return 0;
}

/* Somebody else's manifest may spell out that it asks for none, of whatever. */
static bool is_none(const struct rf_json_member *m)
{
	int64_t n = -1;

	return !rf_str_starts(m->key, RF_LIT(PREFIX)) && read_whole(m->value, 0, &n) == 0;
}

static int read_slices(const struct rf_json *c, struct rf_gpu_ask *ask, struct rf_err *err)
{
	const struct rf_json *limits = rf_json_at(c, "resources", "limits"),
			     *requests = rf_json_at(c, "resources", "requests");

	for (size_t i = 0; rf_json_is(limits, RF_JSON_OBJECT) && i < limits->n; i++) {
		const struct rf_json_member *m = &limits->members[i];

		if (profile_of(m->key).n > 0 && !is_none(m) && add_slices(c, m->key, ask, err) < 0)
			return -err->code;
	}
	for (size_t i = 0; rf_json_is(requests, RF_JSON_OBJECT) && i < requests->n; i++) {
		const struct rf_json_member *m = &requests->members[i];

		/* Beside a limit it was looked at. */
		if (profile_of(m->key).n > 0 && !is_none(m) && rf_json_get(limits, m->key) == NULL)
			return bad(err, c, "MIG slices",
				   "the request must equal the limit; set the limit and leave the request out");
	}
	return 0;
}

static int check_one_way(const struct rf_json *c, const struct rf_gpu_ask *ask, struct rf_err *err)
{
	if (ask->slices == 0 || (ask->cards == 0 && ask->share_bytes == 0))
		return 0;
	return bad(err, c, ask->cards > 0 ? ask->name : RF_RES_GPU_MEMORY,
		   "a container asks for whole cards, for a share or for MIG slices, for one of these; "
		   "remove the others");
}

int rf_gpu_ask_of_container(const struct rf_json *container, struct rf_gpu_ask *ret,
			    struct rf_err *err)
{
	struct rf_err local = RF_ERR_INIT;
	struct rf_gpu_ask ask = { 0 };
	int64_t percent = 0;

	err = err != NULL ? err : &local;
	if (check_names(container, "limits", err) < 0 ||
	    check_names(container, "requests", err) < 0 || read_cards(container, &ask, err) < 0 ||
	    read_limit(container, RF_RES_GPU_MEMORY, BYTES_MAX, &ask.share_bytes, err) < 0 ||
	    read_limit(container, RF_RES_GPU_COMPUTE, 100, &percent, err) < 0 ||
	    check_ask(container, &ask, percent, err) < 0 ||
	    read_slices(container, &ask, err) < 0 || check_one_way(container, &ask, err) < 0)
		return -err->code;
	ask.share_milli = percent * 10;
	*ret = ask;
	return 0;
}

/* --- the whole pod ----------------------------------------------------------------------- */

static bool mentions_gpu(const struct rf_json *owner)
{
	static const char *const lists[] = { "limits", "requests" };

	for (size_t l = 0; l < RF_COUNT(lists); l++) {
		const struct rf_json *o = rf_json_at(owner, "resources", lists[l]);

		for (size_t i = 0; rf_json_is(o, RF_JSON_OBJECT) && i < o->n; i++) {
			const struct rf_json_member *m = &o->members[i];
			int64_t n = -1;

			if (rf_str_starts(m->key, RF_LIT(PREFIX)))
				return true;
			/* Other people's manifests spell out that they ask for none. */
			if ((is_other(m->key) || profile_of(m->key).n > 0) &&
			    (read_whole(m->value, 0, &n) < 0 || n != 0))
				return true;
		}
	}
	return false;
}

/* Only ordinary containers ask: the others come and go while the device stays. */
static int check_others(const struct rf_json *spec, struct rf_err *err)
{
	static const char *const lists[] = { "initContainers", "ephemeralContainers" };

	if (mentions_gpu(spec))
		return rf_fail(
			err, RF_INVALID,
			"spec.resources: GPUs are asked for by a container; move the limit there");
	for (size_t l = 0; l < RF_COUNT(lists); l++) {
		const struct rf_json *list = rf_json_at(spec, lists[l]);

		for (size_t i = 0; i < rf_json_len(list); i++) {
			if (mentions_gpu(rf_json_item(list, i)))
				return bad(err, rf_json_item(list, i), lists[l],
					   "may not ask for GPUs; move the limit to an ordinary "
					   "container");
		}
	}
	return 0;
}

int rf_gpu_ask_of_pod(const struct rf_json *pod, struct rf_gpu_ask *ret, struct rf_err *err)
{
	const struct rf_json *spec = rf_json_at(pod, "spec"),
			     *list = rf_json_at(spec, "containers");
	struct rf_err local = RF_ERR_INIT;
	struct rf_gpu_ask sum = { 0 };

	err = err != NULL ? err : &local;
	if (check_others(spec, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_gpu_ask one = { 0 };

		if (rf_gpu_ask_of_container(rf_json_item(list, i), &one, err) < 0)
			return -err->code;
		/* Each is below 2^51 and a pod has far fewer than 2^12 containers that ask. */
		if (i >= 4096)
			return rf_fail(err, RF_INVALID, "a pod has at most 4096 containers");
		sum.cards += one.cards;
		sum.share_bytes += one.share_bytes;
		sum.share_milli += one.share_milli;
		if (one.slices > 0)
			sum.profile = sum.slices == 0 || rf_str_eq(sum.profile, one.profile) ? one.profile :
											       RF_STR_EMPTY;
		sum.slices += one.slices;
	}
	*ret = sum;
	return 0;
}

int rf_tenant_allows(const struct rf_tenant *t, const struct rf_json *pod,
		     const struct rf_gpu_ask *ask, struct rf_err *err)
{
	bool shares =
		t->isolation == RF_ISOLATION_SHARE || t->isolation == RF_ISOLATION_COOPERATIVE;

	if (ask->slices > 0 && !shares && t->isolation != RF_ISOLATION_SLICE)
		return rf_fail(err, RF_FORBIDDEN,
			       "pod %.*s: asks for MIG slices, and tenant %.*s has isolation %s, which puts "
			       "nobody else on its cards; ask for whole cards (%s), or have the administrator "
			       "set isolation slice in Tenant %.*s",
			       RF_STR(rf_json_str_at(pod, "metadata", "name")), RF_STR(t->name),
			       rf_isolation_name(t->isolation), RF_RES_GPU, RF_STR(t->name));
	if (ask->share_bytes == 0 || shares)
		return 0;
	return rf_fail(
		err, RF_FORBIDDEN,
		"pod %.*s: asks for a share of a card (%s), and tenant %.*s has isolation %s, "
		"which "
		"shares no card; ask for whole cards (%s), or have the administrator set isolation "
		"share in Tenant %.*s",
		RF_STR(rf_json_str_at(pod, "metadata", "name")), RF_RES_GPU_MEMORY, RF_STR(t->name),
		rf_isolation_name(t->isolation), RF_RES_GPU, RF_STR(t->name));
}

bool rf_pod_counts(const struct rf_json *pod)
{
	struct rf_str phase = rf_json_str_at(pod, "status", "phase");

	return !rf_str_is(phase, "Succeeded") && !rf_str_is(phase, "Failed");
}

struct rf_str rf_pod_claim_name(struct rf_arena *a, const struct rf_json *pod)
{
	struct rf_str name = rf_json_str_at(pod, "metadata", "name");
	struct rf_str uid = rf_json_str_at(pod, "metadata", "uid");

	/* 253 is the longest name there is; a cut must not end in a dot or a dash. */
	name.n = RF_MIN(name.n, 253 - 9);
	while (name.n > 0 && (name.p[name.n - 1] == '.' || name.p[name.n - 1] == '-'))
		name.n--;
	uid.n = RF_MIN(uid.n, 8);
	return rf_arena_printf(a, "%.*s-%.*s", RF_STR(name), RF_STR(uid));
}
