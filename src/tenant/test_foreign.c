/* Pods and pod groups of other systems in ringfence's words, and the attacks that worked there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tenant/foreign.h"

#define GI (INT64_C(1) << 30)
#define MI (INT64_C(1) << 20)

static const struct rf_foreign ALL = { RF_HABIT_KAI | RF_HABIT_HAMI | RF_HABIT_VOLCANO | RF_HABIT_X_K8S | RF_HABIT_KUEUE,
				       80 * GI };

/* Tenant blue has queues blue, blue-night and default-queue; green is another's. */
static bool owns(void *ctx, struct rf_str queue)
{
	return rf_str_is(queue, "blue-night") || rf_str_is(queue, "default-queue");
}

static const struct rf_foreign_owner BLUE = { .tenant = RF_LIT("blue"), .owns = owns };
static const struct rf_foreign_owner NOBODY = { .owns = owns };

/* A pod of containers "a" and "b": members of metadata, of spec (with a comma behind) and a's resources. */
static struct rf_json *pod(struct rf_arena *a, const char *metadata, const char *spec, const char *resources)
{
	return rf_json_make(a, rf_arena_printf(a,
					       "{'metadata':{'name':'train'%s%s},'spec':{%s'containers':[{'name':'a',"
					       "'image':'x','resources':%s},{'name':'b','image':'x'}]}}",
					       metadata[0] != '\0' ? "," : "", metadata, spec, resources)
					   .p);
}

static struct rf_json *annotated(struct rf_arena *a, const char *annotations, const char *resources)
{
	return pod(a, rf_arena_printf(a, "'annotations':{%s}", annotations).p, "", resources);
}

static struct rf_json *labelled(struct rf_arena *a, const char *labels)
{
	return pod(a, rf_arena_printf(a, "'labels':{%s}", labels).p, "", "{}");
}

static struct rf_json *rewritten(struct rf_arena *a, const struct rf_foreign *f, const struct rf_foreign_owner *o,
				 struct rf_json *p)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *patch = NULL, *again = NULL;

	if (rf_foreign_rewrite(a, f, o, p, &patch, &err) < 0)
		fail_msg("refused: %s", err.msg);
	/* A webhook may be asked twice. */
	assert_int_equal(rf_foreign_rewrite(a, f, o, p, &again, &err), 0);
	assert_null(again);
	return patch;
}

static void becomes(struct rf_json *p, int64_t cards, int64_t bytes, int64_t percent)
{
	struct rf_gpu_ask ask = { 0 };
	struct rf_err err = RF_ERR_INIT;

	if (rf_gpu_ask_of_pod(p, &ask, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(ask.cards, cards);
	assert_int_equal(ask.share_bytes, bytes);
	assert_int_equal(ask.share_milli, percent * 10);
}

static void refused(struct rf_arena *a, const struct rf_foreign *f, struct rf_json *p, int code, const char *message)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *patch = NULL;

	assert_int_equal(rf_foreign_rewrite(a, f, &BLUE, p, &patch, &err), -code);
	assert_null(patch);
	assert_string_equal(err.msg, message);
}

static void says(const struct rf_json *p, const char *map, const char *key, const char *value)
{
	struct rf_str v = rf_json_str_at(p, "metadata", map, key);

	if (!rf_str_is(v, value))
		fail_msg("%s is \"%.*s\", not \"%s\"", key, RF_STR(v), value);
}

/* --- the switch ---------------------------------------------------------------------------------- */

static void habits_are_named_one_by_one(void **state)
{
	struct rf_foreign f = { 0 };
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_foreign_parse(RF_LIT("kai, hami,volcano,x-k8s,kueue"), RF_LIT("80Gi"), &f, &err), 0);
	assert_int_equal(f.habits, ALL.habits);
	assert_int_equal(f.card_bytes, 80 * GI);
	assert_int_equal(rf_foreign_parse(RF_LIT(""), RF_LIT(""), &f, &err), 0);
	assert_int_equal(f.habits, 0);
	assert_int_equal(f.card_bytes, 0);
	assert_int_equal(rf_foreign_parse(RF_LIT("kai,slurm"), RF_LIT(""), &f, &err), -RF_INVALID);
	assert_string_equal(err.msg,
			    "\"slurm\" is no habit that ringfence knows; there are kai, hami, volcano, x-k8s and kueue");
	assert_int_equal(rf_foreign_parse(RF_LIT("kai,"), RF_LIT(""), &f, &err), -RF_INVALID);
	assert_int_equal(rf_foreign_parse(RF_LIT("kai"), RF_LIT("80"), &f, &err), -RF_INVALID);
	assert_string_equal(err.msg, "\"80\" is no size of a card; write it like 80Gi");
	assert_int_equal(rf_foreign_parse(RF_LIT("kai"), RF_LIT("1e30"), &f, &err), -RF_INVALID);
}

static void with_the_switch_off_nothing_changes(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_foreign none = { 0, 80 * GI };
	struct rf_json *p = pod(&a,
				"'annotations':{'gpu-fraction':'nonsense','gpu-memory':'5'},'labels':"
				"{'kai.scheduler/queue':'green','scheduling.x-k8s.io/pod-group':'g'}",
				"'schedulerName':'kai-scheduler',", "{'limits':{'nvidia.com/gpumem':3000}}");
	struct rf_str before = rf_json_text_of(&a, p);

	assert_int_equal(rf_foreign()->habits, 0);
	assert_null(rewritten(&a, &none, &BLUE, p));
	assert_true(rf_str_eq(rf_json_text_of(&a, p), before));
}

/* Each habit alone touches only its own words. */
static void a_habit_does_not_read_the_others_words(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		unsigned habit;
		int64_t bytes;
		const char *queue, *group;
	} rows[] = {
		{ RF_HABIT_KAI, 40 * GI, "blue", "" },
		{ RF_HABIT_HAMI, 3000 * MI, "", "" },
		{ RF_HABIT_VOLCANO, 0, "", "vg" },
		{ RF_HABIT_X_K8S, 0, "", "xg" },
		{ RF_HABIT_KUEUE, 0, "blue-night", "kg" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_foreign f = { rows[i].habit, 80 * GI };
		struct rf_json *p = pod(&a,
					"'annotations':{'scheduling.k8s.io/group-name':'vg'},'labels':{'kai.scheduler/"
					"queue':'blue','scheduling.x-k8s.io/pod-group':'xg','kueue.x-k8s.io/queue-name'"
					":'blue-night','kueue.x-k8s.io/pod-group-name':'kg'}",
					"", rows[i].habit == RF_HABIT_HAMI ? "{'limits':{'nvidia.com/gpumem':3000}}" : "{}");

		if (rows[i].habit == RF_HABIT_KAI)
			rf_json_set_str(&a, rf_json_at(p, "metadata", "annotations"), "gpu-fraction", RF_LIT("0.5"));
		assert_non_null(rewritten(&a, &f, &BLUE, p));
		becomes(p, 0, rows[i].bytes, rows[i].habit == RF_HABIT_KAI ? 50 : 0);
		says(p, "labels", RF_QUEUE_LABEL, rows[i].queue);
		says(p, "labels", RF_GROUP_LABEL, rows[i].group);
	}
}

/* --- KAI ------------------------------------------------------------------------------------------- */

static void a_fraction_is_a_share_of_the_declared_card(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *p = annotated(&a, "'gpu-fraction':'0.5'", "{'limits':{'cpu':'2'}}");
	struct rf_json *patch = rewritten(&a, &ALL, &BLUE, p);

	becomes(p, 0, 40 * GI, 50);
	assert_true(rf_str_is(
		rf_json_text_of(&a, patch),
		"[{\"op\":\"add\",\"path\":\"/spec/containers/0/resources\",\"value\":{\"limits\":{\"cpu\":\"2\","
		"\"ringfence.io/gpu-memory\":\"40Gi\",\"ringfence.io/gpu-compute\":\"50\"},\"requests\":{"
		"\"ringfence.io/gpu-memory\":\"40Gi\",\"ringfence.io/gpu-compute\":\"50\"}}}]"));
	p = annotated(&a, "'gpu-fraction':'.25','gpu-fraction-num-devices':'1'", "{}");
	rewritten(&a, &ALL, &BLUE, p);
	becomes(p, 0, 20 * GI, 25);
	p = annotated(&a, "'gpu-fraction':'0.001'", "{}");
	rewritten(&a, &ALL, &BLUE, p);
	becomes(p, 0, 80 * GI / 1000, 1);
}

/* 0.1 + 0.2 + 0.7 is one card and no byte more, of any size of card. */
static void fractions_of_one_card_fit_one_card(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const int64_t cards[] = { 80 * GI, 150754820096, 15843721216, MI + 1 };
	static const char *const parts[] = { "0.1", "0.2", "0.7" };

	for (size_t c = 0; c < RF_COUNT(cards); c++) {
		struct rf_foreign f = { RF_HABIT_KAI, cards[c] };
		int64_t bytes = 0, milli = 0;

		for (size_t i = 0; i < RF_COUNT(parts); i++) {
			struct rf_json *p = pod(&a, "'annotations':{}", "", "{}");
			struct rf_gpu_ask ask = { 0 };

			rf_json_set_str(&a, rf_json_at(p, "metadata", "annotations"), "gpu-fraction", rf_str(parts[i]));
			rewritten(&a, &f, &BLUE, p);
			assert_int_equal(rf_gpu_ask_of_pod(p, &ask, NULL), 0);
			bytes += ask.share_bytes;
			milli += ask.share_milli;
		}
		assert_true(bytes <= cards[c] && bytes > cards[c] - 3);
		assert_int_equal(milli, 1000);
	}
}

static void memory_in_mib_needs_no_card(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_foreign f = { RF_HABIT_KAI, 0 };
	struct rf_json *p = annotated(&a, "'gpu-memory':'2000','gpu-fraction-container-name':'b'", "{}");

	rewritten(&a, &f, &BLUE, p);
	becomes(p, 0, 2000 * MI, 0);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(p, "spec", "containers"), 1), "resources", "limits",
					     RF_RES_GPU_MEMORY),
			      "2000Mi"));
	refused(&a, &f, annotated(&a, "'gpu-fraction':'0.5'", "{}"), RF_INVALID,
		"annotation gpu-fraction: a part of a card needs to know how large a card is, and this cluster does not say; "
		"use annotation gpu-memory (MiB), or have the administrator set --foreign-card");
}

static void odd_fractions_are_refused(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const char *const odd[] = { "",	   "1",	  "1.0",  "0",	  "0.0",  "0.",		  "-0.5", "NaN",  "+0.5",
					   "5e-1", "0,5", "00.5", "0.5 ", " 0.5", "0.1234567890", "0.5x", "1e-9", "Inf" };
	static const char *const mib[] = { "", "0", "-1", "2Gi", "1e3", "1.5", "99999999999999999999", "+5", "1073741825" };

	for (size_t i = 0; i < RF_COUNT(odd); i++) {
		struct rf_json *p = pod(&a, "'annotations':{}", "", "{}"), *patch = NULL;

		rf_json_set_str(&a, rf_json_at(p, "metadata", "annotations"), "gpu-fraction", rf_str(odd[i]));
		if (rf_foreign_rewrite(&a, &ALL, &BLUE, p, &patch, NULL) != -RF_INVALID)
			fail_msg("gpu-fraction \"%s\" was taken", odd[i]);
	}
	for (size_t i = 0; i < RF_COUNT(mib); i++) {
		struct rf_json *p = pod(&a, "'annotations':{}", "", "{}"), *patch = NULL;

		rf_json_set_str(&a, rf_json_at(p, "metadata", "annotations"), "gpu-memory", rf_str(mib[i]));
		if (rf_foreign_rewrite(&a, &ALL, &BLUE, p, &patch, NULL) != -RF_INVALID)
			fail_msg("gpu-memory \"%s\" was taken", mib[i]);
	}
	refused(&a, &ALL, annotated(&a, "'gpu-fraction':'1'", "{}"), RF_INVALID,
		"annotation gpu-fraction: \"1\" is no part of a card; write it like 0.5, more than 0 and less than 1, or ask "
		"for whole cards by nvidia.com/gpu");
	refused(&a, &ALL, annotated(&a, "'gpu-memory':'2Gi'", "{}"), RF_INVALID,
		"annotation gpu-memory: \"2Gi\" must be a whole number of MiB from 1 to 1073741824");
}

/* The annotation would say that it is half a card, the limit that it is eight. */
static void an_annotation_beside_a_limit_is_a_contradiction(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const char *const limits[] = { "{'limits':{'nvidia.com/gpu':8}}", "{'limits':{'ringfence.io/gpu':8}}",
					      "{'limits':{'ringfence.io/gpu-memory':'1Gi'}}",
					      "{'limits':{'nvidia.com/gpumem':10}}" };

	for (size_t i = 0; i < RF_COUNT(limits); i++) {
		refused(&a, &ALL, annotated(&a, "'gpu-fraction':'0.5'", limits[i]), RF_INVALID,
			"annotation gpu-fraction asks for a share of a card, and container \"a\" asks for GPUs by its limits; "
			"remove one");
		refused(&a, &ALL, annotated(&a, "'gpu-memory':'500','gpu-fraction-container-name':'b'", limits[i]),
			RF_INVALID,
			"annotation gpu-memory asks for a share of a card, and container \"a\" asks for GPUs by its limits; "
			"remove one");
	}
	refused(&a, &ALL, annotated(&a, "'gpu-fraction':'0.5','gpu-memory':'10'", "{}"), RF_INVALID,
		"annotations gpu-fraction and gpu-memory both say how much of a card; remove one");
	refused(&a, &ALL, annotated(&a, "'gpu-fraction':'0.5','gpu-fraction-num-devices':'2'", "{}"), RF_INVALID,
		"annotation gpu-fraction-num-devices: a container has a share of one card; leave it out, or ask for whole "
		"cards by nvidia.com/gpu");
	refused(&a, &ALL, annotated(&a, "'gpu-fraction':'0.5','gpu-fraction-container-name':'z'", "{}"), RF_INVALID,
		"annotation gpu-fraction-container-name: there is no ordinary container \"z\" in this pod");
	refused(&a, &ALL, annotated(&a, "'gpu-fraction':'0.5','gpu-fraction.limit':'0.9'", "{}"), RF_INVALID,
		"gpu-fraction.limit has no counterpart in ringfence: a share has one size; leave it out");
}

/* --- HAMi ------------------------------------------------------------------------------------------ */

static void hami_shares_become_shares(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		const char *resources;
		int64_t cards, bytes, percent;
	} rows[] = {
		{ "{'limits':{'nvidia.com/gpu':1,'nvidia.com/gpumem':3000,'nvidia.com/gpucores':30}}", 0, 3000 * MI, 30 },
		{ "{'limits':{'nvidia.com/gpu':'1','nvidia.com/gpumem':'3k'},'requests':{'nvidia.com/gpu':'1','nvidia.com/"
		  "gpumem':3000}}",
		  0, 3000 * MI, 0 },
		{ "{'limits':{'nvidia.com/gpumem':100}}", 0, 100 * MI, 0 },
		{ "{'limits':{'nvidia.com/gpu':1,'nvidia.com/gpumem-percentage':25}}", 0, 20 * GI, 0 },
		{ "{'limits':{'nvidia.com/gpu':1,'nvidia.com/gpucores':60}}", 0, 80 * GI, 60 },
		{ "{'limits':{'nvidia.com/gpu':1,'nvidia.com/gpumem':0,'nvidia.com/gpucores':0}}", 1, 0, 0 },
		{ "{'limits':{'nvidia.com/gpu':4}}", 4, 0, 0 },
		{ "{'limits':{'volcano.sh/vgpu-number':1,'volcano.sh/vgpu-memory':3000,'volcano.sh/vgpu-cores':10}}", 0,
		  3000 * MI, 10 },
		{ "{'limits':{'volcano.sh/vgpu-number':1,'volcano.sh/vgpu-memory-percentage':50}}", 0, 40 * GI, 0 },
		{ "{'limits':{'volcano.sh/vgpu-number':2}}", 2, 0, 0 },
		{ "{'limits':{'volcano.sh/vgpu-number':0}}", 0, 0, 0 },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *p = pod(&a, "", "", rows[i].resources);
		struct rf_str left = RF_STR_EMPTY;

		rewritten(&a, &ALL, &BLUE, p);
		becomes(p, rows[i].cards, rows[i].bytes, rows[i].percent);
		left = rf_json_text_of(&a, p);
		assert_false(rf_str_contains(left, RF_LIT("gpumem")) || rf_str_contains(left, RF_LIT("gpucores")) ||
			     rf_str_contains(left, RF_LIT("vgpu")));
	}
}

static void hami_contradictions_are_refused(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		const char *resources, *message;
	} rows[] = {
		{ "{'limits':{'nvidia.com/gpu':2,'nvidia.com/gpumem':3000}}",
		  "container \"a\": nvidia.com/gpu: a container has a share of one card: with a part of a card this must be "
		  "1 or left out" },
		{ "{'limits':{'nvidia.com/gpu':0,'nvidia.com/gpumem':3000}}",
		  "container \"a\": nvidia.com/gpu: a container has a share of one card: with a part of a card this must be "
		  "1 or left out" },
		{ "{'limits':{'nvidia.com/gpumem':3000,'nvidia.com/gpumem-percentage':10}}",
		  "container \"a\": nvidia.com/gpumem and nvidia.com/gpumem-percentage both say how much memory; remove "
		  "one" },
		{ "{'limits':{'nvidia.com/gpumem':3000,'ringfence.io/gpu-memory':'1Gi'}}",
		  "container \"a\": ringfence.io/gpu-memory stands beside nvidia.com/gpumem, which asks for a part of a "
		  "card, too; remove one" },
		{ "{'limits':{'nvidia.com/gpucores':101}}",
		  "container \"a\": nvidia.com/gpucores: limit must be a whole number from 0 to 100" },
		{ "{'limits':{'nvidia.com/gpumem':'1.5'}}",
		  "container \"a\": nvidia.com/gpumem: limit must be a whole number from 0 to 1073741824" },
		{ "{'limits':{'nvidia.com/gpumem':[]}}",
		  "container \"a\": nvidia.com/gpumem: limit must be a whole number from 0 to 1073741824" },
		/* Charged by the smaller, served by the larger. */
		{ "{'limits':{'nvidia.com/gpumem':30000},'requests':{'nvidia.com/gpumem':1}}",
		  "container \"a\": nvidia.com/gpumem: the request must equal the limit; set the limit and leave the request "
		  "out" },
		{ "{'requests':{'nvidia.com/gpumem':30000}}",
		  "container \"a\": nvidia.com/gpumem: the request must equal the limit; set the limit and leave the request "
		  "out" },
		{ "{'limits':{'nvidia.com/gpumem':3000,'nvidia.com/priority':1}}",
		  "nvidia.com/priority has no counterpart in ringfence: use spec.priorityClassName" },
	};
	const struct rf_foreign no_card = { RF_HABIT_HAMI, 0 };

	for (size_t i = 0; i < RF_COUNT(rows); i++)
		refused(&a, &ALL, pod(&a, "", "", rows[i].resources), RF_INVALID, rows[i].message);
	refused(&a, &no_card, pod(&a, "", "", "{'limits':{'nvidia.com/gpumem-percentage':50}}"), RF_INVALID,
		"nvidia.com/gpumem-percentage: a part of a card needs to know how large a card is, and this cluster does not "
		"say; use nvidia.com/gpumem, or have the administrator set --foreign-card");
	refused(&a, &ALL,
		pod(&a, "", "'initContainers':[{'name':'i','resources':{'limits':{'nvidia.com/gpumem':5}}}],", "{}"),
		RF_INVALID,
		"container \"i\": nvidia.com/gpumem: only an ordinary container may ask for GPUs; move the limit there");
	refused(&a, &ALL, pod(&a, "", "'resources':{'limits':{'volcano.sh/vgpu-number':5}},", "{}"), RF_INVALID,
		"spec.resources: volcano.sh/vgpu-number: GPUs are asked for by a container; move the limit there");
	refused(&a, &ALL,
		annotated(&a, "'nvidia.com/use-gpuuuid':'GPU-1'", "{'limits':{'nvidia.com/gpu':1}}"), RF_INVALID,
		"nvidia.com/use-gpuuuid has no counterpart in ringfence: which card it is, is for ringfence to say; leave it "
		"out");
}

/* HAMi #3041: a pod that writes its own allocation. */
static void an_allocation_that_a_tenant_wrote_is_not_believed(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *p = pod(&a,
				"'annotations':{'hami.io/vgpu-node':'n1','hami.io/vgpu-devices-to-allocate':"
				"'GPU-0,NVIDIA,81920,100:;','hami.io/vgpu-devices-allocated':'GPU-0,NVIDIA,1,1:;',"
				"'hami.io/bind-phase':'success','received-resource-type':'Fraction','runai-job-gpu-index':'0',"
				"'volcano.sh/vgpu-ids-new':'GPU-0,NVIDIA,1,1:;'},'labels':{'hami.io/webhook':'ignore',"
				"'runai-gpu-group':'stolen','kueue.x-k8s.io/managed':'true'}",
				"'schedulerName':'hami-scheduler',",
				"{'limits':{'nvidia.com/gpu':1,'nvidia.com/gpumem':30000,'nvidia.com/gpucores':90}}");

	assert_non_null(rewritten(&a, &ALL, &BLUE, p));
	becomes(p, 0, 30000 * MI, 90);
	assert_true(rf_str_is(rf_json_str_at(p, "spec", "schedulerName"), "ringfence"));
	/* The annotations alone ask for nothing, and get nothing. */
	p = annotated(&a, "'hami.io/vgpu-devices-to-allocate':'GPU-0,NVIDIA,81920,100:;','received-resource-type':'Regular'",
		      "{}");
	assert_null(rewritten(&a, &ALL, &BLUE, p));
	becomes(p, 0, 0, 0);
	/* With whole cards they are no discount. */
	p = annotated(&a, "'hami.io/vgpu-devices-allocated':'GPU-0,NVIDIA,1,1:;','received-resource-type':'Fraction'",
		      "{'limits':{'nvidia.com/gpu':8}}");
	assert_null(rewritten(&a, &ALL, &BLUE, p));
	becomes(p, 8, 0, 0);
}

static void a_scheduler_whose_habit_is_off_stays_what_it_was(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		unsigned habit;
		const char *name;
	} rows[] = { { RF_HABIT_KAI, "kai-scheduler" },
		     { RF_HABIT_HAMI, "hami-scheduler" },
		     { RF_HABIT_VOLCANO, "volcano" },
		     { RF_HABIT_X_K8S, "scheduler-plugins-scheduler" } };

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_foreign on = { rows[i].habit, 0 }, off = { ALL.habits & ~rows[i].habit, 0 };
		struct rf_foreign_owner o = { .tenant = RF_LIT("blue"), .scheduler = "rf-two" };
		struct rf_json *p = pod(&a, "", "", "{'limits':{'nvidia.com/gpu':1}}"), *patch = NULL;

		rf_json_set_str(&a, rf_json_at(p, "spec"), "schedulerName", rf_str(rows[i].name));
		assert_null(rewritten(&a, &off, &BLUE, p));
		patch = rewritten(&a, &on, &o, p);
		assert_true(rf_str_is(rf_json_text_of(&a, patch),
				      "[{\"op\":\"add\",\"path\":\"/spec/schedulerName\",\"value\":\"rf-two\"}]"));
		assert_true(rf_str_is(rf_json_str_at(p, "spec", "schedulerName"), "rf-two"));
	}
}

/* --- queues and groups ------------------------------------------------------------------------------- */

/* KAI #2068: any user names any queue. */
static void a_queue_must_be_the_tenants(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		const char *map, *key;
	} rows[] = {
		{ "labels", "kai.scheduler/queue" },	       { "labels", "volcano.sh/queue-name" },
		{ "annotations", "volcano.sh/queue-name" },    { "annotations", "scheduling.volcano.sh/queue-name" },
		{ "labels", "kueue.x-k8s.io/queue-name" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		static const char *const bad[] = { "green", "nosuch", "../blue", "Blue", "blue/night" };
		struct rf_json *p = pod(&a, "", "", "{}"), *patch = NULL;
		struct rf_json *m = rf_json_ensure(&a, rf_json_at(p, "metadata"), rows[i].map);

		rf_json_set_str(&a, m, rows[i].key, RF_LIT("blue-night"));
		patch = rewritten(&a, &ALL, &BLUE, p);
		says(p, "labels", RF_QUEUE_LABEL, "blue-night");
		assert_true(rf_str_is(rf_json_str_at(rf_json_item(patch, 0), "path"), "/metadata/labels"));
		for (size_t k = 0; k < RF_COUNT(bad); k++) {
			p = pod(&a, "", "", "{}");
			rf_json_set_str(&a, rf_json_ensure(&a, rf_json_at(p, "metadata"), rows[i].map), rows[i].key,
					rf_str(bad[k]));
			refused(&a, &ALL, p, RF_FORBIDDEN,
				rf_arena_printf(&a,
						"%s: tenant blue has no queue \"%s\"; name one of its queues, or leave it "
						"out to use \"blue\"",
						rows[i].key, bad[k] ? bad[k] : "") /* gcc 12 at -O3 thinks it may be */
					.p);
		}
	}
}

static void a_tenants_own_queue_is_always_its_own(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_foreign_owner o = { .tenant = RF_LIT("blue") };
	struct rf_json *p = labelled(&a, "'kai.scheduler/queue':'blue'");

	rewritten(&a, &ALL, &o, p);
	says(p, "labels", RF_QUEUE_LABEL, "blue");
	p = labelled(&a, "'volcano.sh/queue-name':'default'"); /* Volcano's word for none */
	assert_null(rewritten(&a, &ALL, &BLUE, p));
	p = labelled(&a, "'kai.scheduler/queue':'default'");
	refused(&a, &ALL, p, RF_FORBIDDEN,
		"kai.scheduler/queue: tenant blue has no queue \"default\"; name one of its queues, or leave it out to use "
		"\"blue\"");
}

static void two_queues_or_groups_are_a_contradiction(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	refused(&a, &ALL, labelled(&a, "'kai.scheduler/queue':'blue','kueue.x-k8s.io/queue-name':'blue-night'"), RF_INVALID,
		"kai.scheduler/queue says \"blue\" and kueue.x-k8s.io/queue-name says \"blue-night\"; remove one");
	refused(&a, &ALL, labelled(&a, "'ringfence.io/queue':'blue','kai.scheduler/queue':'blue-night'"), RF_INVALID,
		"ringfence.io/queue says \"blue\" and kai.scheduler/queue says \"blue-night\"; remove one");
	refused(&a, &ALL, labelled(&a, "'ringfence.io/pod-group':'g','scheduling.x-k8s.io/pod-group':'h'"), RF_INVALID,
		"ringfence.io/pod-group says \"g\" and scheduling.x-k8s.io/pod-group says \"h\"; remove one");
	assert_null(rewritten(&a, &ALL, &BLUE,
			      labelled(&a, "'ringfence.io/pod-group':'g','scheduling.x-k8s.io/pod-group':'g'")));
	refused(&a, &ALL, labelled(&a, "'scheduling.x-k8s.io/pod-group':'A group'"), RF_INVALID,
		"scheduling.x-k8s.io/pod-group: \"A group\" is no name of a pod group");
}

static void groups_are_found_in_every_place(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		const char *map, *key;
	} rows[] = {
		{ "annotations", "scheduling.k8s.io/group-name" },  { "annotations", "scheduling.volcano.sh/group-name" },
		{ "labels", "scheduling.x-k8s.io/pod-group" },	    { "labels", "pod-group.scheduling.x-k8s.io" },
		{ "labels", "pod-group.scheduling.sigs.k8s.io" },   { "labels", "kueue.x-k8s.io/pod-group-name" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *p = pod(&a, "", "", "{}");

		rf_json_set_str(&a, rf_json_ensure(&a, rf_json_at(p, "metadata"), rows[i].map), rows[i].key,
				RF_LIT("ring"));
		rewritten(&a, &ALL, &BLUE, p);
		says(p, "labels", RF_GROUP_LABEL, "ring");
	}
}

/* Kueue #14630: a pod that names another's group to be taken for admitted. The pod is charged what it asks. */
static void the_name_of_a_group_is_no_discount(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *t = rf_json_make(&a, "{'metadata':{'name':'blue'},'spec':{'quota':{'gpus':2}}}");
	struct rf_json *p = pod(&a,
				"'labels':{'kueue.x-k8s.io/pod-group-name':'admitted','kueue.x-k8s.io/managed':'true'},"
				"'annotations':{'kueue.x-k8s.io/pod-group-total-count':'1','kueue.x-k8s.io/workload':'x'}",
				"", "{'limits':{'nvidia.com/gpu':1}}");
	struct rf_admission ask = { .pod = p,
				    .ns = RF_LIT("blue"),
				    .tenant_name = RF_LIT("blue"),
				    .tenant = t,
				    .used = { .cards = 2 } };

	rewritten(&a, &ALL, &BLUE, p);
	becomes(p, 1, 0, 0);
	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), -RF_FORBIDDEN);
	ask.used.cards = 1;
	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), 0);
}

/* What is rewritten is still to be judged. */
static void a_fraction_needs_a_tenant_that_shares_and_has_quota(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *p = annotated(&a, "'gpu-fraction':'0.5'", "{}");
	struct rf_admission ask = { .pod = p, .ns = RF_LIT("blue"), .tenant_name = RF_LIT("blue") };

	rewritten(&a, &ALL, &BLUE, p);
	ask.tenant = rf_json_make(&a, "{'metadata':{'name':'blue'},'spec':{'quota':{'gpuMemory':'80Gi'}}}");
	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), -RF_FORBIDDEN);
	ask.tenant = rf_json_make(
		&a, "{'metadata':{'name':'blue'},'spec':{'isolation':'share','quota':{'gpuMemory':'79Gi'}}}");
	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), 0);
	ask.used.share_bytes = 40 * GI;
	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), -RF_FORBIDDEN);
}

static void nobodys_pod_keeps_its_queue_and_scheduler_and_gets_no_card(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *p = pod(&a, "'labels':{'volcano.sh/queue-name':'green'}", "'schedulerName':'volcano',", "{}");
	struct rf_admission ask = { .ns = RF_LIT("open") };

	assert_null(rewritten(&a, &ALL, &NOBODY, p));
	p = annotated(&a, "'gpu-fraction':'0.5'", "{}");
	rewritten(&a, &ALL, &NOBODY, p);
	ask.pod = p;
	assert_int_equal(rf_tenant_admit(&a, &ask, NULL), -RF_FORBIDDEN);
}

static void a_queue_is_of_the_tenant_that_an_administrator_named(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str blue = RF_LIT("blue");

	assert_true(rf_queue_is_of(rf_json_make(&a, "{'spec':{'tenant':'blue'}}"), blue));
	assert_true(rf_queue_is_of(rf_json_make(&a, "{'metadata':{'labels':{'ringfence.io/tenant':'blue'}}}"), blue));
	assert_false(rf_queue_is_of(
		rf_json_make(&a, "{'metadata':{'labels':{'ringfence.io/tenant':'blue'}},'spec':{'tenant':'green'}}"), blue));
	assert_false(rf_queue_is_of(rf_json_make(&a, "{'spec':{}}"), blue));
	assert_false(rf_queue_is_of(rf_json_make(&a, "{'spec':{}}"), RF_STR_EMPTY));
	assert_false(rf_queue_is_of(NULL, blue));
}

/* --- groups as objects -------------------------------------------------------------------------------- */

static struct rf_json *group_of(struct rf_arena *a, const char *version, const char *name, const char *spec)
{
	return rf_json_make(a,
			    "{'apiVersion':%s,'kind':'PodGroup','metadata':{'name':%s,'namespace':'blue-a','uid':'u1',"
			    "'labels':{'x':'y'}},'spec':%j}",
			    version, name, rf_json_make(a, spec));
}

static void foreign_groups_become_groups(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *g = NULL;

	assert_int_equal(rf_foreign_group(&a, &ALL, &BLUE,
					  group_of(&a, "scheduling.volcano.sh/v1beta1", "ring",
						   "{'minMember':4,'queue':'blue-night','priorityClassName':'high',"
						   "'minResources':{'nvidia.com/gpu':'0'}}"),
					  &g, NULL),
			 0);
	assert_true(rf_str_is(
		rf_json_text_of(&a, g),
		"{\"apiVersion\":\"ringfence.io/v1alpha1\",\"kind\":\"PodGroup\",\"metadata\":{\"name\":\"ring\","
		"\"namespace\":\"blue-a\",\"labels\":{\"app.kubernetes.io/managed-by\":\"ringfence\"},\"ownerReferences\":[{"
		"\"apiVersion\":\"scheduling.volcano.sh/v1beta1\",\"kind\":\"PodGroup\",\"name\":\"ring\",\"uid\":\"u1\","
		"\"controller\":true,\"blockOwnerDeletion\":false}]},\"spec\":{\"minMember\":4,\"queue\":\"blue-night\"}}"));
	assert_int_equal(rf_foreign_group(&a, &ALL, &BLUE,
					  group_of(&a, "scheduling.x-k8s.io/v1alpha1", "ring",
						   "{'minMember':0,'queue':'green','scheduleTimeoutSeconds':10}"),
					  &g, NULL),
			 0);
	assert_int_equal(rf_json_int(rf_json_at(g, "spec", "minMember"), 0), 1);
	assert_null(rf_json_at(g, "spec", "queue")); /* no field of theirs */
}

static void group_refused(struct rf_arena *a, const struct rf_foreign *f, struct rf_json *g, int code, const char *message)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *ret = NULL;

	assert_int_equal(rf_foreign_group(a, f, &BLUE, g, &ret, &err), -code);
	assert_string_equal(err.msg, message);
	assert_null(ret);
}

static void groups_that_make_no_sense_are_refused(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_foreign kai = { RF_HABIT_KAI, 0 };
	static const char *const odd[] = { "{'minMember':-1}", "{'minMember':100001}", "{'minMember':'4'}", "{'minMember':1.5}" };

	for (size_t i = 0; i < RF_COUNT(odd); i++)
		group_refused(&a, &ALL, group_of(&a, "scheduling.volcano.sh/v1beta1", "g", odd[i]), RF_INVALID,
			      "spec.minMember: must be a whole number from 1 to 100000");
	group_refused(&a, &ALL, group_of(&a, "scheduling.volcano.sh/v1beta1", "g", "{'queue':'green'}"), RF_FORBIDDEN,
		      "spec.queue: tenant blue has no queue \"green\"; name one of its queues, or leave it out to use \"blue\"");
	group_refused(&a, &ALL,
		      group_of(&a, "scheduling.volcano.sh/v1beta1", "g", "{'networkTopology':{'mode':'hard'}}"), RF_INVALID,
		      "spec.networkTopology: mode hard has no counterpart in ringfence: make it soft, or write a PodGroup of "
		      "ringfence.io");
	group_refused(&a, &kai, group_of(&a, "scheduling.volcano.sh/v1beta1", "g", "{}"), RF_UNSUPPORTED,
		      "not a PodGroup of a habit that is switched on");
	group_refused(&a, &ALL, group_of(&a, "example.com/v1", "g", "{}"), RF_UNSUPPORTED,
		      "not a PodGroup of a habit that is switched on");
	group_refused(&a, &ALL, group_of(&a, "scheduling.x-k8s.io/v1alpha1", "No_Name", "{}"), RF_INVALID,
		      "metadata.name: \"No_Name\" is no name of a pod group");
}

/* Volcano names a job's group after the job and its uid. */
static void a_long_name_is_cut_alike_for_pods_and_group(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const char LONG[] = "a-job-with-a-name-that-is-rather-long-0b6c2f6e-5d5c-4c0e-9d7e-3c5b2a6f8e11";
	static const char LONGER[] = "a-job-with-a-name-that-is-rather-long-0b6c2f6e-5d5c-4c0e-9d7e-3c5b2a6f8e12";
	struct rf_str name = rf_foreign_group_name(&a, rf_str(LONG));
	struct rf_json *p = pod(&a, "'annotations':{}", "", "{}"), *g = NULL;

	assert_true(name.n <= 63 && rf_str_is_dns_label(name));
	assert_false(rf_str_eq(name, rf_foreign_group_name(&a, rf_str(LONGER))));
	assert_true(rf_str_is_dns_label(rf_foreign_group_name(&a, RF_LIT("a.b"))));
	assert_false(rf_str_eq(rf_foreign_group_name(&a, RF_LIT("a.b")), rf_foreign_group_name(&a, RF_LIT("a-b"))));
	rf_json_set_str(&a, rf_json_at(p, "metadata", "annotations"), "scheduling.k8s.io/group-name", rf_str(LONG));
	rewritten(&a, &ALL, &BLUE, p);
	assert_int_equal(rf_foreign_group(&a, &ALL, &BLUE, group_of(&a, "scheduling.volcano.sh/v1beta1", LONG, "{}"), &g,
					  NULL),
			 0);
	assert_true(rf_str_eq(rf_json_str_at(p, "metadata", "labels", RF_GROUP_LABEL), name));
	assert_true(rf_str_eq(rf_json_str_at(g, "metadata", "name"), name));
}

/* --- hostile pods -------------------------------------------------------------------------------------- */

/* Whatever the types: an answer, never a crash; and a rewritten ask is never less than what stood there. */
static void any_pod_is_answered(void **state)
{
	static const char *const values[] = { "1",     "0",   "'3000'", "'0.5'",    "null",  "true",  "[]", "{}",
					      "'1Gi'", "-1",  "1e400",  "'blue'",   "'x/y'", "[[{}]]", "''", "99999999999999999999" };
	static const char *const limits[] = { "nvidia.com/gpu",	       "nvidia.com/gpumem",	 "nvidia.com/gpumem-percentage",
					      "nvidia.com/gpucores",   "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory",
					      "ringfence.io/gpu",      "ringfence.io/gpu-memory", "nvidia.com/priority" };
	static const char *const words[] = { "gpu-fraction", "gpu-memory", "gpu-fraction-container-name", "kai.scheduler/queue",
					     "scheduling.k8s.io/group-name", "volcano.sh/queue-name", "ringfence.io/queue" };
	uint64_t seed = 1;

	for (int round = 0; round < 20000; round++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_json *p = pod(&a, "'annotations':{},'labels':{}", "", "{'limits':{},'requests':{}}"), *patch = NULL;
		struct rf_json *c = rf_json_item(rf_json_at(p, "spec", "containers"), 0);
		struct rf_gpu_ask before = { 0 }, after = { 0 };
		struct rf_err err = RF_ERR_INIT;

		for (int i = 0; i < 4; i++) {
			const char *value = values[(seed = seed * 6364136223846793005u + 1442695040888963407u) >> 60];
			uint64_t pick = (seed = seed * 6364136223846793005u + 1442695040888963407u) >> 33;
			struct rf_json *v = rf_json_make(&a, value);

			if (pick % 2 == 0)
				rf_json_set(&a, rf_json_at(c, "resources", pick % 3 ? "limits" : "requests"),
					    rf_str(limits[pick / 6 % RF_COUNT(limits)]), v);
			else
				rf_json_set(&a, rf_json_at(p, "metadata", pick % 3 ? "annotations" : "labels"),
					    rf_str(words[pick / 6 % RF_COUNT(words)]), v);
		}
		if (seed >> 58 == 0)
			rf_json_set(&a, rf_json_at(p, "spec"), RF_LIT("containers"), rf_json_make(&a, values[seed >> 54 & 15]));
		bool valid = rf_gpu_ask_of_pod(p, &before, NULL) == 0;
		bool parts = rf_str_contains(rf_json_text_of(&a, p), RF_LIT("gpumem")) ||
			     rf_str_contains(rf_json_text_of(&a, p), RF_LIT("gpucores"));
		int r = rf_foreign_rewrite(&a, &ALL, &BLUE, p, &patch, &err);

		assert_true(r == 0 || r == -RF_INVALID || r == -RF_FORBIDDEN);
		assert_true(r == 0 || err.msg[0] != '\0');
		if (r < 0 || !valid || rf_gpu_ask_of_pod(p, &after, NULL) < 0)
			continue;
		if (after.cards < before.cards && !parts)
			fail_msg("round %d: %lld cards became %lld", round, (long long)before.cards, (long long)after.cards);
		if (before.cards > 1 || before.share_bytes > 0)
			assert_true(after.cards == before.cards && after.share_bytes == before.share_bytes);
	}
}

static void too_many_containers_are_refused(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *p = pod(&a, "", "", "{}"), *one = rf_json_make(&a, "{'name':'c'}");

	for (int i = 0; i < 4096; i++)
		rf_json_push(&a, rf_json_at(p, "spec", "containers"), one);
	refused(&a, &ALL, p, RF_INVALID, "a pod has at most 4096 containers");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(habits_are_named_one_by_one),
		cmocka_unit_test(with_the_switch_off_nothing_changes),
		cmocka_unit_test(a_habit_does_not_read_the_others_words),
		cmocka_unit_test(a_fraction_is_a_share_of_the_declared_card),
		cmocka_unit_test(fractions_of_one_card_fit_one_card),
		cmocka_unit_test(memory_in_mib_needs_no_card),
		cmocka_unit_test(odd_fractions_are_refused),
		cmocka_unit_test(an_annotation_beside_a_limit_is_a_contradiction),
		cmocka_unit_test(hami_shares_become_shares),
		cmocka_unit_test(hami_contradictions_are_refused),
		cmocka_unit_test(an_allocation_that_a_tenant_wrote_is_not_believed),
		cmocka_unit_test(a_scheduler_whose_habit_is_off_stays_what_it_was),
		cmocka_unit_test(a_queue_must_be_the_tenants),
		cmocka_unit_test(a_tenants_own_queue_is_always_its_own),
		cmocka_unit_test(two_queues_or_groups_are_a_contradiction),
		cmocka_unit_test(groups_are_found_in_every_place),
		cmocka_unit_test(the_name_of_a_group_is_no_discount),
		cmocka_unit_test(a_fraction_needs_a_tenant_that_shares_and_has_quota),
		cmocka_unit_test(nobodys_pod_keeps_its_queue_and_scheduler_and_gets_no_card),
		cmocka_unit_test(a_queue_is_of_the_tenant_that_an_administrator_named),
		cmocka_unit_test(foreign_groups_become_groups),
		cmocka_unit_test(groups_that_make_no_sense_are_refused),
		cmocka_unit_test(a_long_name_is_cut_alike_for_pods_and_group),
		cmocka_unit_test(any_pod_is_answered),
		cmocka_unit_test(too_many_containers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
