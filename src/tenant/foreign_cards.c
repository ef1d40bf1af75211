/* What other systems call a card or a part of one, as limits in ringfence's words. Integers only; a fraction is
 * rounded down, and what is charged is what is fenced. */
#include "tenant/foreign_private.h"

#define MIB_MAX (INT64_C(1) << 30) /* a petabyte: as much as ringfence.io/gpu-memory holds */
#define CARDS_MAX 1024
#define CONTAINERS_MAX 4096
#define NANO INT64_C(1000000000)

/* Resources by which a container asks for so many cards and, of each, a part. */
struct words {
	unsigned habit;
	const char *count, *mib, *percent, *cores;
};
static const struct words WORDS[] = {
	{ RF_HABIT_HAMI, "nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores" },
	{ RF_HABIT_VOLCANO, "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage",
	  "volcano.sh/vgpu-cores" },
};

/* Demands that are not dropped in silence. */
static const struct {
	unsigned habit;
	const char *resource, *annotation, *help;
} UNMAPPED[] = {
	{ RF_HABIT_KAI, NULL, "gpu-fraction.limit", "a share has one size; leave it out" },
	{ RF_HABIT_KAI, NULL, "gpu-memory.limit", "a share has one size; leave it out" },
	{ RF_HABIT_HAMI, "nvidia.com/priority", NULL, "use spec.priorityClassName" },
	{ RF_HABIT_HAMI, NULL, "nvidia.com/use-gpuuuid", "which card it is, is for ringfence to say; leave it out" },
	{ RF_HABIT_HAMI, NULL, "nvidia.com/nouse-gpuuuid", "which card it is, is for ringfence to say; leave it out" },
	{ RF_HABIT_HAMI, NULL, "nvidia.com/use-gputype", "use annotation ringfence.io/gpu-model" },
	{ RF_HABIT_HAMI, NULL, "nvidia.com/nouse-gputype", "use annotation ringfence.io/gpu-model" },
	{ RF_HABIT_HAMI, NULL, "nvidia.com/vgpu-mode", "leave it out" },
	{ RF_HABIT_VOLCANO, NULL, "volcano.sh/vgpu-mode", "leave it out" },
};

struct share {
	int64_t bytes, percent; /* percent 0: no compute reserved */
};

/* --- errors and looking ----------------------------------------------------------------------- */

static struct rf_str name_of(const struct rf_json *c)
{
	struct rf_str name = rf_json_str_at(c, "name");

	return rf_str_n(name.p, RF_MIN(name.n, (size_t)63));
}

static int bad(struct rf_foreign_pod *p, const struct rf_json *c, const char *resource, const char *what)
{
	return rf_fail(p->err, RF_INVALID, "container \"%.*s\": %s: %s", RF_STR(name_of(c)), resource, what);
}

static const struct rf_json *value_of(const struct rf_json *c, const char *list, const char *resource)
{
	const struct rf_json *v = rf_json_get(rf_json_at(c, "resources", list), rf_str(resource));

	return v != NULL && v->type != RF_JSON_NULL ? v : NULL;
}

static bool read_whole(const struct rf_json *v, int64_t most, int64_t *ret)
{
	int64_t milli = 0;

	if ((v->type != RF_JSON_NUMBER && v->type != RF_JSON_STRING) || rf_quantity_milli(v->text, &milli, NULL) < 0 ||
	    milli < 0 || milli % 1000 != 0 || milli / 1000 > most)
		return false;
	*ret = milli / 1000;
	return true;
}

/* -1: not there. A request may only repeat the limit, as with ringfence's own. */
static int read_limit(struct rf_foreign_pod *p, const struct rf_json *c, const char *resource, int64_t most,
		      int64_t *ret)
{
	const struct rf_json *limit = value_of(c, "limits", resource), *request = value_of(c, "requests", resource);
	int64_t n = -1, again = -1;

	if (limit != NULL && !read_whole(limit, most, &n))
		return rf_fail(p->err, RF_INVALID, "container \"%.*s\": %s: limit must be a whole number from 0 to %lld",
			       RF_STR(name_of(c)), resource, (long long)most);
	if (request != NULL && (!read_whole(request, most, &again) || again != n))
		return bad(p, c, resource, "the request must equal the limit; set the limit and leave the request out");
	*ret = n;
	return 0;
}

static bool asks(const struct rf_json *owner, const char *resource)
{
	static const char *const lists[] = { "limits", "requests" };
	int64_t n = -1;

	for (size_t i = 0; i < RF_COUNT(lists); i++) {
		const struct rf_json *v = value_of(owner, lists[i], resource);

		if (v != NULL && (!read_whole(v, 0, &n) || n != 0))
			return true;
	}
	return false;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void drop(struct rf_json *c, const char *resource)
{
	rf_json_del(rf_json_at(c, "resources", "limits"), rf_str(resource));
	rf_json_del(rf_json_at(c, "resources", "requests"), rf_str(resource));
}

/* The request too: Kubernetes defaults it before webhooks are asked, not after all of them. */
static void put(struct rf_foreign_pod *p, struct rf_json *c, const char *resource, struct rf_str amount)
{
	rf_json_set_str(p->a, rf_json_ensure(p->a, c, "resources", "limits"), resource, amount);
	rf_json_set_str(p->a, rf_json_ensure(p->a, c, "resources", "requests"), resource, amount);
}

static void put_share(struct rf_foreign_pod *p, struct rf_json *c, struct share s)
{
	put(p, c, RF_RES_GPU_MEMORY, rf_quantity_bytes(p->a, s.bytes));
	if (s.percent > 0)
		put(p, c, RF_RES_GPU_COMPUTE, rf_arena_printf(p->a, "%lld", (long long)s.percent));
}

static void patch_container(struct rf_foreign_pod *p, size_t i)
{
	rf_foreign_patch(p, rf_arena_printf(p->a, "/spec/containers/%zu/resources", i),
			 rf_json_at(rf_json_item(p->containers, i), "resources"));
}

/* --- resources: HAMi's and Volcano's ------------------------------------------------------------ */

struct asked {
	int64_t count, mib, percent, cores; /* -1: not there */
};

static int read_words(struct rf_foreign_pod *p, const struct rf_json *c, const struct words *w, struct asked *ret)
{
	if (read_limit(p, c, w->count, CARDS_MAX, &ret->count) < 0 || read_limit(p, c, w->mib, MIB_MAX, &ret->mib) < 0 ||
	    read_limit(p, c, w->percent, 100, &ret->percent) < 0 || read_limit(p, c, w->cores, 100, &ret->cores) < 0)
		return -p->err->code;
	return 0;
}

static bool is_known_card(const char *name)
{
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++)
		if (strcmp(rf_gpu_name(i), name) == 0)
			return true;
	return false;
}

static int need_card(struct rf_foreign_pod *p, const char *what, const char *instead)
{
	if (p->f->card_bytes > 0)
		return 0;
	return rf_fail(p->err, RF_INVALID,
		       "%s: a part of a card needs to know how large a card is, and this cluster does not say; use %s, "
		       "or have the administrator set --foreign-card",
		       what, instead);
}

static int size_share(struct rf_foreign_pod *p, const struct words *w, const struct asked *q, struct share *ret)
{
	ret->percent = RF_MAX(q->cores, 0);
	if (q->mib > 0) {
		ret->bytes = q->mib << 20;
		return 0;
	}
	if (need_card(p, q->percent > 0 ? w->percent : w->cores, w->mib) < 0)
		return -p->err->code;
	/* Time alone is asked for with all of the card's memory, as it was there. */
	ret->bytes = q->percent > 0 ? p->f->card_bytes / 100 * q->percent + p->f->card_bytes % 100 * q->percent / 100 :
				      p->f->card_bytes;
	return 0;
}

static int check_words(struct rf_foreign_pod *p, const struct rf_json *c, const struct words *w, const struct asked *q)
{
	static const char *const ours[] = { RF_RES_GPU, RF_RES_GPU_MEMORY, RF_RES_GPU_COMPUTE };

	for (size_t i = 0; i < RF_COUNT(ours); i++)
		if (value_of(c, "limits", ours[i]) != NULL || value_of(c, "requests", ours[i]) != NULL)
			return rf_fail(p->err, RF_INVALID,
				       "container \"%.*s\": %s stands beside %s, which asks for a part of a card, too; "
				       "remove one",
				       RF_STR(name_of(c)), ours[i],
				       q->mib > 0	? w->mib :
				       q->percent > 0 ? w->percent :
							w->cores);
	if (q->count != -1 && q->count != 1)
		return bad(p, c, w->count,
			   "a container has a share of one card: with a part of a card this must be 1 or left out");
	if (q->mib > 0 && q->percent > 0)
		return rf_fail(p->err, RF_INVALID, "container \"%.*s\": %s and %s both say how much memory; remove one",
			       RF_STR(name_of(c)), w->mib, w->percent);
	return 0;
}

static int translate_words(struct rf_foreign_pod *p, size_t i, const struct words *w)
{
	struct rf_json *c = rf_json_item(p->containers, i);
	struct asked q = { -1, -1, -1, -1 };
	struct share s = { 0 };
	bool part = false, keep = false;

	if (read_words(p, c, w, &q) < 0)
		return -p->err->code;
	part = q.mib > 0 || q.percent > 0 || q.cores > 0;
	keep = !part && is_known_card(w->count); /* whole cards, by a name that is one of ringfence's */
	if (q.mib < 0 && q.percent < 0 && q.cores < 0 && (keep || q.count < 0))
		return 0;
	if (part && (check_words(p, c, w, &q) < 0 || size_share(p, w, &q, &s) < 0))
		return -p->err->code;
	if (!keep)
		drop(c, w->count);
	drop(c, w->mib);
	drop(c, w->percent);
	drop(c, w->cores);
	if (part)
		put_share(p, c, s);
	else if (!keep && q.count > 0)
		put(p, c, RF_RES_GPU, rf_arena_printf(p->a, "%lld", (long long)q.count));
	patch_container(p, i);
	return 0;
}

/* Only ordinary containers ask, whatever the words. */
static int check_others(struct rf_foreign_pod *p, const struct words *w)
{
	static const char *const lists[] = { "initContainers", "ephemeralContainers" };
	const char *const names[] = { w->mib, w->percent, w->cores, w->count };
	/* A whole card there is refused by ask.c where it is known for one. */
	size_t n = is_known_card(w->count) ? 3 : 4;

	for (size_t k = 0; k < n; k++) {
		if (asks(p->spec, names[k]))
			return rf_fail(p->err, RF_INVALID,
				       "spec.resources: %s: GPUs are asked for by a container; move the limit there",
				       names[k]);
		for (size_t l = 0; l < RF_COUNT(lists); l++) {
			const struct rf_json *list = rf_json_at(p->spec, lists[l]);

			for (size_t i = 0; i < rf_json_len(list); i++)
				if (asks(rf_json_item(list, i), names[k]))
					return bad(p, rf_json_item(list, i), names[k],
						   "only an ordinary container may ask for GPUs; move the limit there");
		}
	}
	return 0;
}

/* --- annotations: KAI's ------------------------------------------------------------------------- */

/* "0.25" in thousand-millionths. */
static bool read_fraction(struct rf_str s, int64_t *ret)
{
	int64_t n = 0, unit = NANO;

	if (rf_str_starts(s, RF_LIT("0")))
		s = rf_str_skip(s, 1);
	if (s.n < 2 || s.n > 10 || s.p[0] != '.')
		return false;
	for (size_t i = 1; i < s.n; i++) {
		if (s.p[i] < '0' || s.p[i] > '9')
			return false;
		unit /= 10;
		n += unit * (s.p[i] - '0');
	}
	*ret = n;
	return n > 0;
}

static int read_mib(struct rf_str s, int64_t *ret)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < '0' || s.p[i] > '9')
			return -RF_INVALID;
	return rf_str_int(s, ret, NULL) < 0 || *ret < 1 || *ret > MIB_MAX ? -RF_INVALID : 0;
}

static int size_fraction(struct rf_foreign_pod *p, struct rf_str text, struct share *ret)
{
	int64_t nano = 0, card = p->f->card_bytes;

	if (!read_fraction(text, &nano))
		return rf_fail(p->err, RF_INVALID,
			       "annotation gpu-fraction: \"%.*s\" is no part of a card; write it like 0.5, more than 0 and "
			       "less than 1, or ask for whole cards by nvidia.com/gpu",
			       (int)RF_MIN(text.n, (size_t)63), text.p);
	if (need_card(p, "annotation gpu-fraction", "annotation gpu-memory (MiB)") < 0)
		return -p->err->code;
	ret->bytes = card / NANO * nano + card % NANO * nano / NANO;
	ret->percent = RF_MAX(nano / (NANO / 100), 1);
	return 0;
}

static int size_annotation(struct rf_foreign_pod *p, struct share *ret)
{
	struct rf_str fraction = rf_foreign_annotation(p, "gpu-fraction"), mib = rf_foreign_annotation(p, "gpu-memory");
	struct rf_str devices = rf_foreign_annotation(p, "gpu-fraction-num-devices");
	bool both = rf_foreign_has_annotation(p, "gpu-fraction") && rf_foreign_has_annotation(p, "gpu-memory");
	int64_t n = 0;

	if (both)
		return rf_fail(p->err, RF_INVALID,
			       "annotations gpu-fraction and gpu-memory both say how much of a card; remove one");
	if (rf_foreign_has_annotation(p, "gpu-fraction-num-devices") && !rf_str_is(devices, "1"))
		return rf_fail(p->err, RF_INVALID,
			       "annotation gpu-fraction-num-devices: a container has a share of one card; leave it out, or "
			       "ask for whole cards by nvidia.com/gpu");
	if (rf_foreign_has_annotation(p, "gpu-fraction"))
		return size_fraction(p, fraction, ret);
	if (read_mib(mib, &n) < 0)
		return rf_fail(p->err, RF_INVALID,
			       "annotation gpu-memory: \"%.*s\" must be a whole number of MiB from 1 to %lld",
			       (int)RF_MIN(mib.n, (size_t)63), mib.p, (long long)MIB_MAX);
	*ret = (struct share){ .bytes = n << 20 };
	return 0;
}

/* The container that gets the share: the first unless one is named. */
static int find_container(struct rf_foreign_pod *p, size_t *ret)
{
	struct rf_str name = rf_foreign_annotation(p, "gpu-fraction-container-name");
	size_t n = rf_json_len(p->containers);

	if (!rf_foreign_has_annotation(p, "gpu-fraction-container-name") && n > 0) {
		*ret = 0;
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		if (rf_str_eq(rf_json_str_at(rf_json_item(p->containers, i), "name"), name)) {
			*ret = i;
			return 0;
		}
	}
	return rf_fail(p->err, RF_INVALID,
		       "annotation gpu-fraction-container-name: there is no ordinary container \"%.*s\" in this pod",
		       (int)RF_MIN(name.n, (size_t)63), name.p);
}

static bool is_share(const struct rf_gpu_ask *ask, struct share s)
{
	return ask->cards == 0 && ask->slices == 0 && ask->share_bytes == s.bytes && ask->share_milli == s.percent * 10;
}

/* Whatever else the pod asks for contradicts the annotation, but for the share itself: a webhook may be asked
 * twice. *ret: it is there already. */
static int check_alone(struct rf_foreign_pod *p, size_t at, struct share s, bool *ret)
{
	for (size_t i = 0; i < rf_json_len(p->containers); i++) {
		const struct rf_json *c = rf_json_item(p->containers, i);
		struct rf_gpu_ask ask = { 0 };

		if (rf_gpu_ask_of_container(c, &ask, p->err) < 0)
			return -p->err->code;
		if (i == at && is_share(&ask, s))
			*ret = true;
		else if (rf_gpu_ask_any(&ask))
			return rf_fail(p->err, RF_INVALID,
				       "annotation %s asks for a share of a card, and container \"%.*s\" asks for GPUs by "
				       "its limits; remove one",
				       rf_foreign_has_annotation(p, "gpu-fraction") ? "gpu-fraction" : "gpu-memory",
				       RF_STR(name_of(c)));
	}
	return 0;
}

static int translate_annotations(struct rf_foreign_pod *p)
{
	struct share s = { 0 };
	bool there = false;
	size_t at = 0;

	if (!rf_foreign_has_annotation(p, "gpu-fraction") && !rf_foreign_has_annotation(p, "gpu-memory"))
		return 0;
	if (size_annotation(p, &s) < 0 || find_container(p, &at) < 0 || check_alone(p, at, s, &there) < 0)
		return -p->err->code;
	if (there)
		return 0;
	put_share(p, rf_json_item(p->containers, at), s);
	patch_container(p, at);
	return 0;
}

/* --- all ---------------------------------------------------------------------------------------- */

static int check_unmapped(struct rf_foreign_pod *p)
{
	struct rf_gpu_ask ask = { 0 };

	/* One that makes no sense is refused by who judges the pod. */
	if (rf_gpu_ask_of_pod(p->pod, &ask, NULL) < 0 || !rf_gpu_ask_any(&ask))
		return 0;
	for (size_t k = 0; k < RF_COUNT(UNMAPPED); k++) {
		const char *name = UNMAPPED[k].resource;
		bool there = name == NULL && rf_foreign_has_annotation(p, UNMAPPED[k].annotation);

		if (!(p->f->habits & UNMAPPED[k].habit))
			continue;
		for (size_t i = 0; name != NULL && !there && i < rf_json_len(p->containers); i++)
			there = asks(rf_json_item(p->containers, i), name);
		if (there)
			return rf_fail(p->err, RF_INVALID, "%s has no counterpart in ringfence: %s",
				       name != NULL ? name : UNMAPPED[k].annotation, UNMAPPED[k].help);
	}
	return 0;
}

int rf_foreign_cards(struct rf_foreign_pod *p)
{
	if (rf_json_len(p->containers) > CONTAINERS_MAX)
		return rf_fail(p->err, RF_INVALID, "a pod has at most %d containers", CONTAINERS_MAX);
	for (size_t k = 0; k < RF_COUNT(WORDS); k++) {
		if (!(p->f->habits & WORDS[k].habit))
			continue;
		if (check_others(p, &WORDS[k]) < 0)
			return -p->err->code;
		for (size_t i = 0; i < rf_json_len(p->containers); i++)
			if (translate_words(p, i, &WORDS[k]) < 0)
				return -p->err->code;
	}
	if ((p->f->habits & RF_HABIT_KAI) && translate_annotations(p) < 0)
		return -p->err->code;
	return check_unmapped(p);
}
