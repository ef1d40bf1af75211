/* `policy bench --review`: how long Gatekeeper's templates and constraints take to judge one review, text to verdict. */
#include <pthread.h>

#include "base/fs.h"
#include "cli/policy.h"
#include "codec/yaml.h"
#include "policy/gatekeeper.h"

#define THREADS_MAX 256

struct bench {
	struct rf_arena *a;
	struct rf_gk *gk;
	struct rf_json **object;
	size_t n, room;
	size_t templates, constraints;
	struct rf_str text; /* of the review */
};

/* --- loading --- */

static bool is_template(const struct rf_json *o)
{
	return rf_str_is(rf_json_str_at(o, "kind"), "ConstraintTemplate");
}

static bool is_constraint(const struct rf_json *o)
{
	return rf_str_starts(rf_json_str_at(o, "apiVersion"), RF_LIT("constraints.gatekeeper.sh/"));
}

static bool is_there(const struct bench *b, const struct rf_json *o)
{
	for (size_t i = 0; i < b->n; i++)
		if (rf_str_eq(rf_json_str_at(b->object[i], "kind"), rf_json_str_at(o, "kind")) &&
		    (is_constraint(o) || rf_str_eq(rf_json_str_at(b->object[i], "metadata", "name"),
						   rf_json_str_at(o, "metadata", "name"))))
			return true;
	return false;
}

/* Of each template's constraints the first: samples have many of the same kind, and often of the same name. */
static int take(void *arg, const char *file, struct rf_err *err)
{
	struct bench *b = arg;
	struct rf_json *docs = NULL;
	struct rf_str text;

	if (rf_fs_read(b->a, file, RF_POLICY_FILE_MAX, &text, err) < 0)
		return -err->code;
	if (rf_yaml_parse(b->a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", file);
	for (size_t i = 0; i < rf_json_len(docs); i++) {
		struct rf_json *o = rf_json_item(docs, i);

		if ((!is_template(o) && !is_constraint(o)) || is_there(b, o))
			continue;
		if (b->n == b->room) {
			struct rf_json **more = rf_arena_array(b->a, struct rf_json *, 2 * b->room + 64);

			if (b->n > 0)
				memcpy(more, b->object, b->n * sizeof(*more));
			b->object = more;
			b->room = 2 * b->room + 64;
		}
		b->object[b->n++] = o;
	}
	return 0;
}

static int load(struct bench *b, int argc, char **argv, struct rf_err *err)
{
	for (int i = 0; i < argc; i++)
		if (rf_policy_walk(b->a, argv[i], RF_LIT(".yaml"), take, b, err) < 0)
			return -err->code;
	for (int constraints = 0; constraints < 2; constraints++) {
		for (size_t i = 0; i < b->n; i++) {
			if (is_constraint(b->object[i]) != (constraints == 1))
				continue;
			if (rf_gk_add(b->gk, b->object[i], err) < 0)
				return -err->code;
			*(constraints ? &b->constraints : &b->templates) += 1;
		}
	}
	if (b->constraints == 0)
		return rf_fail(err, RF_NOT_FOUND, "no ConstraintTemplate with a Constraint is in the .yaml files there");
	return rf_fs_read(b->a, rf_policy_opt.review, RF_POLICY_FILE_MAX, &b->text, err);
}

/* --- judging --- */

/* An AdmissionReview, an AdmissionRequest, or an object as it lies there. */
static int request_of(struct rf_arena *a, struct rf_rv v, struct rf_rv *ret, struct rf_err *err)
{
	struct rf_rv request;

	if (rf_rv_get_str(v, RF_LIT("request"), &request)) {
		*ret = request;
		return 0;
	}
	if (rf_rv_get_str(v, RF_LIT("object"), &request)) {
		*ret = v;
		return 0;
	}
	return rf_gk_review_of(a, v, ret, err);
}

static int judge(const struct bench *b, struct rf_arena *a, size_t *violations, struct rf_err *err)
{
	struct rf_gk_violations found = { 0 };
	struct rf_rv v, request;

	if (rf_policy_parse_value(a, rf_policy_opt.review, b->text, &v, err) < 0 ||
	    request_of(a, v, &request, err) < 0 ||
	    rf_gk_review(b->gk, &request, NULL, RF_GK_ADMISSION, a, &found, err) < 0)
		return -err->code;
	*violations = found.n;
	return 0;
}

static int by_size(const void *x, const void *y)
{
	int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;

	return a < b ? -1 : a > b;
}

void rf_policy_print_times(const char *what, int64_t *ns, int64_t n)
{
	double sum = 0;

	qsort(ns, (size_t)n, sizeof(*ns), by_size);
	for (int64_t i = 0; i < n; i++)
		sum += (double)ns[i];
	printf("%-28s mean %9.2f us   p50 %9.2f us   p99 %9.2f us\n", what, sum / (double)n / 1e3,
	       (double)ns[(n - 1) / 2] / 1e3, (double)ns[(n - 1) * 99 / 100] / 1e3);
}

static int measure(const struct bench *b, int64_t *ns, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_POLICY_MEMORY);
	const struct rf_clock *clock = rf_clock_system();
	int64_t n = rf_policy_opt.count;
	size_t violations = 0;

	for (int64_t i = -n / 10; i < n; i++) { /* the first tenth warms up */
		int64_t start = rf_mono_ns(clock);

		rf_arena_reset(&a);
		if (judge(b, &a, &violations, err) < 0)
			return -err->code;
		if (i >= 0)
			ns[i] = rf_mono_ns(clock) - start;
	}
	printf("%zu templates, %zu constraints, %zu bytes of review, %zu violations\n", b->templates, b->constraints,
	       b->text.n, violations);
	rf_policy_print_times("parsed and judged", ns, n);
	return 0;
}

/* --- several threads --- */

struct worker {
	pthread_t thread;
	const struct bench *b;
	bool failed;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	rf_auto(arena) a = RF_ARENA_CAPPED(RF_POLICY_MEMORY);
	struct rf_err err = RF_ERR_INIT;
	size_t violations;

	for (int64_t i = 0; i < rf_policy_opt.count && !w->failed; i++) {
		rf_arena_reset(&a);
		w->failed = judge(w->b, &a, &violations, &err) < 0;
	}
	return NULL;
}

static int at_once(const struct bench *b, int threads, double *ret_per_s, struct rf_err *err)
{
	struct worker w[THREADS_MAX] = { 0 };
	const struct rf_clock *clock = rf_clock_system();
	int64_t start = rf_mono_ns(clock);
	bool failed = false;
	int n = 0;

	for (; n < threads; n++) {
		w[n].b = b;
		if (pthread_create(&w[n].thread, NULL, work, &w[n]) != 0)
			break;
	}
	for (int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		failed |= w[i].failed;
	}
	if (failed || n < threads)
		return rf_fail(err, RF_SYSTEM, "%d threads: %s", threads, failed ? "a review failed" : "not all started");
	*ret_per_s = (double)threads * (double)rf_policy_opt.count * 1e9 / (double)(rf_mono_ns(clock) - start);
	return 0;
}

static int scale(const struct bench *b, struct rf_err *err)
{
	double one = 0, many = 0;
	int threads = (int)rf_policy_opt.threads;

	if (at_once(b, 1, &one, err) < 0 || at_once(b, threads, &many, err) < 0)
		return -err->code;
	printf("1 thread %.0f reviews/s, %d threads %.0f reviews/s: %.0f %% of %d times one\n", one, threads, many,
	       100 * many / (one * threads), threads);
	return 0;
}

int rf_policy_bench_review(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	rf_auto_ptr(gk) gk = rf_gk_new();
	struct bench b = { .a = a, .gk = gk };
	int64_t *ns;
	int r;

	if (rf_policy_opt.threads < 1 || rf_policy_opt.threads > THREADS_MAX)
		return rf_fail(err, RF_BAD_REQUEST, "--threads is 1 to %d", THREADS_MAX);
	if (load(&b, argc, argv, err) < 0)
		return -err->code;
	ns = rf_alloc((size_t)rf_policy_opt.count * sizeof(*ns));
	r = measure(&b, ns, err);
	if (r == 0 && rf_policy_opt.threads > 1)
		r = scale(&b, err);
	free(ns);
	return r;
}
