/* Slices on simulated cards: made where they were placed, known to the next agent wherever the last one died, taken
 * down after their pods; and nobody else's instance is ever touched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fs.h"
#include "gpu/nvml_abi.h"
#include "node/cards.h"
#include "sim/sim.h"

#define G1 19 /* the driver's number of 1g */
#define MIB (1LL << 20)

static struct {
	struct rf_arena a;
	char dir[64];
	const char *sim;
	void *nvml;
	struct rf_cards cards;
} t;

#define NVML(name) ((__typeof__(&name))dlsym(t.nvml, #name))

/* --- dying at a given step -------------------------------------------------------------------- */

static int fatal; /* 0: never */

static void step(void)
{
	if (fatal > 0 && --fatal == 0)
		kill(getpid(), SIGKILL);
}

#define WRAP(name, args, call)                                                                     \
	int __real_##name args;                                                                    \
	int __wrap_##name args;                                                                    \
	int __wrap_##name args                                                                     \
	{                                                                                          \
		step();                                                                            \
		int rc_ = __real_##name call;                                                      \
		step();                                                                            \
		return rc_;                                                                        \
	}
WRAP(rf_fs_write, (const char *path, struct rf_str data, mode_t mode, bool durable, struct rf_err *err),
     (path, data, mode, durable, err))
WRAP(rf_gpu_slice_cut,
     (struct rf_gpu * g, size_t i, const struct rf_gpu_instance *where, unsigned *ret_gi, struct rf_err *err),
     (g, i, where, ret_gi, err))
WRAP(rf_gpu_slice_open, (struct rf_gpu * g, size_t i, unsigned gi, struct rf_gpu_slice *ret, struct rf_err *err),
     (g, i, gi, ret, err))
WRAP(rf_gpu_slice_destroy, (struct rf_gpu * g, size_t i, unsigned gi, struct rf_err *err), (g, i, gi, err))

/* --- the machine ------------------------------------------------------------------------------ */

static void open_cards(void)
{
	t.cards = (struct rf_cards){ .simulated = true };
	rf_cards_open(&t.cards, t.sim, SIM_LIB_DIR, t.dir);
	assert_int_equal(rf_gpu_count(t.cards.gpu), 2);
}

static int set_up(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	t.a = (struct rf_arena)RF_ARENA_INIT;
	snprintf(t.dir, sizeof(t.dir), "/tmp/ringfence-slices.XXXXXX");
	assert_non_null(mkdtemp(t.dir));
	t.sim = rf_fs_path(&t.a, "%s/sim", t.dir);
	if (rf_sim_machine_create(t.sim, RF_LIT("1xH100:mig,1xH100"), NULL, &err) < 0)
		fail_msg("%s", err.msg);
	setenv("RINGFENCE_SIM", t.sim, 1);
	t.nvml = dlopen(SIM_LIB_DIR "/libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	assert_non_null(t.nvml);
	open_cards();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	rf_cards_close(&t.cards);
	assert_int_equal(rf_sim_machine_remove(t.sim, NULL), 0);
	assert_int_equal(rf_fs_remove_tree(t.dir, NULL), 0);
	rf_arena_done(&t.a);
	return 0;
}

/* Another agent takes over. */
static void next_agent(void)
{
	rf_cards_close(&t.cards);
	open_cards();
}

static size_t instances(struct rf_gpu_instance *ret)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	struct rf_err err = RF_ERR_INIT;
	size_t n = 0;

	if (rf_gpu_instances(t.cards.gpu, 0, ret != NULL ? ret : all, &n, &err) < 0)
		fail_msg("%s", err.msg);
	return n;
}

static int make(const char *owner, size_t nth, const char *profile, unsigned start, const struct rf_slice **ret,
		struct rf_err *err)
{
	struct rf_slice_for of = { rf_str(owner), RF_LIT("main"), nth };

	return rf_slices_make(&t.cards, &of, 0, profile, start, ret, err);
}

static const struct rf_slice *must_make(const char *owner, size_t nth, const char *profile, unsigned start)
{
	const struct rf_slice *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (make(owner, nth, profile, start, &s, &err) < 0)
		fail_msg("%s", err.msg);
	return s;
}

/* Somebody else makes an instance. */
static nvmlGpuInstance_t make_foreign(unsigned start)
{
	nvmlGpuInstancePlacement_t at = { start, 1 };
	nvmlGpuInstance_t gi = NULL;
	nvmlDevice_t d = NULL;

	assert_int_equal(NVML(nvmlInit_v2)(), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceGetHandleByIndex_v2)(0, &d), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlDeviceCreateGpuInstanceWithPlacement)(d, G1, &at, &gi), NVML_SUCCESS);
	assert_int_equal(NVML(nvmlShutdown)(), NVML_SUCCESS); /* the agent keeps it up */
	return gi;
}

static bool nobody(void *ctx, struct rf_str owner)
{
	(void)ctx;
	(void)owner;
	return false;
}

static bool only(void *ctx, struct rf_str owner)
{
	return rf_str_is(owner, ctx);
}

static struct rf_json *device(size_t i)
{
	return rf_json_item(rf_json_at(rf_cards_slice(&t.a, &t.cards, RF_LIT("n")), "spec", "devices"), i);
}

/* --- promises ---------------------------------------------------------------------------------- */

static void a_slice_is_made_exactly_where_it_was_placed(void **state)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	const struct rf_slice *s = must_make("pod-a", 0, "1g.10gb", 5), *three;

	(void)state;
	assert_int_equal(instances(all), 1);
	assert_int_equal(all[0].start, 5);
	assert_int_equal(all[0].size, 1);
	assert_int_equal(all[0].profile, G1);
	assert_memory_equal(s->gpu.uuid, "MIG-", 4);
	assert_int_equal(s->gpu.memory_bytes, 9984 * MIB);
	assert_int_equal(rf_slices_used(&t.cards, s), 0);
	three = must_make("pod-b", 0, "3g.40gb", 0);
	assert_string_not_equal(three->gpu.uuid, s->gpu.uuid);
	assert_int_equal(instances(NULL), 2);
}

/* As ringfence's own scheduler reads it, and as any other does. */
static void a_card_says_where_it_is(void **state)
{
	(void)state;
	for (size_t i = 0; i < 2; i++) {
		const struct rf_json *d = device(i), *at = rf_json_at(d, "attributes");

		assert_int_equal(rf_json_int(rf_json_at(at, "numaNode", "int"), -1), 0);
		assert_int_equal(rf_json_int(rf_json_at(at, "resource.kubernetes.io/numaNode", "int"), -1), 0);
		assert_int_equal(rf_json_int(rf_json_at(at, "nvlinkIsland", "int"), -1), (int)i); /* MIG: joined to none */
		assert_memory_equal(rf_json_str_at(at, "resource.kubernetes.io/pciBusID", "string").p, "0000:", 5);
		assert_null(rf_json_at(at, "resource.kubernetes.io/pcieRoot")); /* of a card that is not really there */
	}
}

static void making_it_again_changes_nothing(void **state)
{
	char uuid[64];

	(void)state;
	snprintf(uuid, sizeof(uuid), "%s", must_make("pod-a", 0, "1g.10gb", 5)->gpu.uuid);
	assert_string_equal(must_make("pod-a", 0, "1g.10gb", 5)->gpu.uuid, uuid);
	next_agent();
	assert_string_equal(must_make("pod-a", 0, "1g.10gb", 5)->gpu.uuid, uuid);
	assert_int_equal(instances(NULL), 1);
	assert_int_equal(t.cards.health[0].others, 0);
}

static void what_cannot_be_made_is_refused_with_a_reason(void **state)
{
	const struct rf_slice *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	assert_int_equal(make("pod-a", 0, "1g.11gb", 0, &s, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "card gpu-0 (NVIDIA H100 80GB HBM3) has no MIG profile 1g.11gb"));
	assert_int_equal(make("pod-a", 0, "2g.20gb", 1, &s, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "MIG profile 2g.20gb cannot start at memory slice 1"));
	(void)must_make("pod-a", 0, "1g.10gb", 0);
	assert_int_equal(make("pod-a", 0, "1g.10gb", 1, &s, &err), -RF_CONFLICT);
	assert_int_equal(make("pod-b", 0, "3g.40gb", 0, &s, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "still being taken down"));
	assert_int_equal(instances(NULL), 1);
	assert_int_equal(t.cards.slices.n, 1);
}

static void others_instances_are_in_the_way_and_stay(void **state)
{
	nvmlGpuInstance_t gi = make_foreign(2);
	const struct rf_slice *s = NULL;
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	(void)must_make("pod-a", 0, "1g.10gb", 5);
	assert_int_equal(make("pod-b", 0, "3g.40gb", 0, &s, &err), -RF_FORBIDDEN);
	assert_non_null(strstr(err.msg, "which ringfence did not make"));
	rf_cards_poll(&t.cards);
	assert_int_equal(t.cards.health[0].others, 1);
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(device(0), "taints"), 0), "key"),
			      "ringfence.io/mig-of-others"));
	assert_int_equal(rf_slices_drop(&t.cards, RF_LIT("pod-a"), &err), 0);
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 1);
	assert_int_equal(NVML(nvmlGpuInstanceDestroy)(gi), NVML_SUCCESS);
	rf_cards_poll(&t.cards);
	assert_null(rf_json_at(device(0), "taints"));
	(void)must_make("pod-b", 0, "3g.40gb", 0);
}

/* Ours was destroyed by somebody, who made one of his own in the same place. */
static void anothers_instance_in_the_place_of_ours_is_not_taken_for_it(void **state)
{
	const struct rf_slice *s = must_make("pod-a", 0, "1g.10gb", 3);
	struct rf_err err = RF_ERR_INIT;
	nvmlComputeInstance_t ci;
	nvmlGpuInstance_t gi;

	(void)state;
	assert_int_equal(rf_gpu_slice_destroy(t.cards.gpu, 0, s->gpu.gi, &err), 0);
	gi = make_foreign(3);
	assert_int_equal(NVML(nvmlGpuInstanceCreateComputeInstance)(gi, 0, &ci), NVML_SUCCESS);
	assert_int_equal(make("pod-a", 0, "1g.10gb", 3, &s, &err), -RF_FORBIDDEN);
	assert_int_equal(rf_slices_drop(&t.cards, RF_LIT("pod-a"), &err), 0);
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 1);
}

/* A file that cannot be read says nothing about whose an instance is. */
static void without_its_book_an_agent_touches_nothing(void **state)
{
	(void)state;
	(void)must_make("pod-a", 0, "1g.10gb", 3);
	assert_int_equal(rf_fs_write(rf_fs_path(&t.a, "%s/slices.json", t.dir), RF_LIT("{\"boot\":"), 0600, true, NULL), 0);
	next_agent();
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 1);
	assert_int_equal(t.cards.health[0].others, 1);
}

/* The driver forgets instances when the machine starts: what is there now was made by others. */
static void a_book_from_before_the_machines_start_is_void(void **state)
{
	const char *path = rf_fs_path(&t.a, "%s/slices.json", t.dir);
	struct rf_json *v = NULL;
	struct rf_str text;
	rf_auto(buf) b = RF_BUF_INIT;

	(void)state;
	(void)must_make("pod-a", 0, "1g.10gb", 3);
	assert_int_equal(rf_fs_read(&t.a, path, 1 << 20, &text, NULL), 0);
	assert_int_equal(rf_json_parse(&t.a, text, &v, NULL), 0);
	rf_json_set_str(&t.a, v, "boot", RF_LIT("another"));
	rf_json_write(&b, v);
	assert_int_equal(rf_fs_write(path, rf_buf_str(&b), 0600, true, NULL), 0);
	next_agent();
	assert_int_equal(t.cards.slices.n, 0);
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 1);
}

static void only_what_nobody_wants_is_swept(void **state)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	char keep[] = "pod-b";

	(void)state;
	(void)must_make("pod-a", 0, "1g.10gb", 6);
	(void)must_make("pod-b", 0, "1g.10gb", 4);
	(void)must_make("pod-a", 1, "1g.10gb", 5);
	next_agent();
	rf_slices_sweep(&t.cards, only, keep);
	assert_int_equal(instances(all), 1);
	assert_int_equal(all[0].start, 4);
	next_agent();
	assert_int_equal(t.cards.slices.n, 1);
	assert_string_equal(t.cards.slices.at[0]->owner, "pod-b");
}

static pid_t use(const char *uuid)
{
	int out[2];
	char line;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		dup2(out[1], 1);
		setenv("LD_LIBRARY_PATH", SIM_LIB_DIR, 1);
		setenv("CUDA_VISIBLE_DEVICES", uuid, 1);
		execl(GPU_DEMO, "gpu-demo", "--memory", "64Mi", "--hold", "600", NULL);
		_exit(127);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &line, 1), 1); /* it says what it sees once it is on the card */
	close(out[0]);
	return pid;
}

static void a_slice_in_use_is_not_taken_down(void **state)
{
	const struct rf_slice *s = must_make("pod-a", 0, "1g.10gb", 6);
	struct rf_err err = RF_ERR_INIT;
	pid_t pid = use(s->gpu.uuid);

	(void)state;
	assert_true(rf_slices_used(&t.cards, s) > 0);
	assert_int_equal(rf_slices_drop(&t.cards, RF_LIT("pod-a"), &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "In use by another client"));
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(rf_slices_drop(&t.cards, RF_LIT("pod-a"), &err), 0);
	assert_int_equal(instances(NULL), 0);
}

static void a_lost_card_holds_nobody_up_and_is_tidied_when_it_is_back(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	(void)must_make("pod-a", 0, "1g.10gb", 6);
	assert_int_equal(rf_sim_off_bus(t.sim, 0, &err), 0);
	assert_int_equal(rf_slices_drop(&t.cards, RF_LIT("pod-a"), &err), 0);
	assert_int_equal(t.cards.slices.n, 1);
	assert_int_equal(rf_sim_clear(t.sim, 0, &err), 0);
	assert_int_equal(instances(NULL), 1);
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 0);
}

static void a_card_in_mig_mode_is_for_slices_only(void **state)
{
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	assert_true(rf_str_is(rf_json_str_at(device(0), "attributes", "migMode", "string"), "enabled"));
	assert_null(rf_json_at(device(1), "attributes", "migMode"));
	assert_int_equal(rf_cards_usable(&t.cards, true), 1);
	assert_int_equal(rf_card_check_mode(&t.cards, 0, true, &err), 0);
	assert_int_equal(rf_card_check_mode(&t.cards, 1, false, &err), 0);
	assert_int_equal(rf_card_check_mode(&t.cards, 0, false, &err), -RF_FORBIDDEN);
	assert_string_equal(err.msg, "card gpu-0 is in MIG mode, and can be given in slices only");
	assert_int_equal(rf_card_check_mode(&t.cards, 1, true, &err), -RF_FORBIDDEN);
}

/* --- deaths ------------------------------------------------------------------------------------- */

/* In a process of its own, which dies at the step. True: it lived. */
static bool survives(int at, void (*act)(void))
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		fatal = at;
		act();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		assert_int_equal(WTERMSIG(status), SIGKILL);
	else
		assert_int_equal(WEXITSTATUS(status), 0);
	return !WIFSIGNALED(status);
}

static void act_make(void)
{
	const struct rf_slice *s;

	_exit(make("pod-a", 0, "1g.10gb", 6, &s, NULL) == 0 ? 0 : 1);
}

static void act_drop(void)
{
	_exit(rf_slices_drop(&t.cards, RF_LIT("pod-a"), NULL) == 0 ? 0 : 1);
}

static void killed_while_making_it_is_swept_or_finished(void **state)
{
	int at = 1;

	(void)state;
	(void)make_foreign(2);
	for (bool lived = false; !lived; at++) {
		lived = survives(at, act_make);
		next_agent();
		rf_slices_sweep(&t.cards, nobody, NULL);
		assert_int_equal(instances(NULL), 1);
		assert_int_equal(t.cards.slices.n, 0);

		(void)survives(at, act_make);
		next_agent();
		(void)must_make("pod-a", 0, "1g.10gb", 6);
		assert_int_equal(instances(NULL), 2);
		rf_cards_poll(&t.cards);
		assert_int_equal(t.cards.health[0].others, 1);
		assert_int_equal(rf_slices_drop(&t.cards, RF_LIT("pod-a"), NULL), 0);
	}
	assert_true(at > 8); /* intent, cut, open, book: before and after each */
}

/* Between the book and the card somebody took the place. What he works with is neither handed out nor destroyed. */
static void what_was_only_intended_is_made_anew_and_not_taken_over(void **state)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX];
	const struct rf_slice *s = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_gpu_slice his;
	nvmlComputeInstance_t ci;
	pid_t pid;

	(void)state;
	assert_false(survives(2, act_make));
	assert_int_equal(NVML(nvmlGpuInstanceCreateComputeInstance)(make_foreign(6), 0, &ci), NVML_SUCCESS);
	next_agent();
	assert_int_equal(t.cards.slices.n, 1);
	assert_int_equal(instances(all), 1);
	assert_int_equal(rf_gpu_slice_read(t.cards.gpu, 0, all[0].id, &his, &err), 0);
	pid = use(his.uuid);
	assert_int_equal(make("pod-a", 0, "1g.10gb", 6, &s, &err), -RF_UNAVAILABLE);
	assert_null(s);
	rf_slices_sweep(&t.cards, nobody, NULL);
	assert_int_equal(instances(NULL), 1);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_string_not_equal(must_make("pod-a", 0, "1g.10gb", 6)->gpu.uuid, his.uuid);
	assert_int_equal(instances(NULL), 1);
}

static void killed_while_taking_it_down_is_swept(void **state)
{
	int at = 1;

	(void)state;
	(void)make_foreign(2);
	for (bool lived = false; !lived; at++) {
		(void)must_make("pod-a", 0, "1g.10gb", 6);
		lived = survives(at, act_drop);
		next_agent();
		rf_slices_sweep(&t.cards, nobody, NULL);
		assert_int_equal(instances(NULL), 1);
		assert_int_equal(t.cards.slices.n, 0);
	}
	assert_true(at > 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_slice_is_made_exactly_where_it_was_placed),
		TEST(a_card_says_where_it_is),
		TEST(making_it_again_changes_nothing),
		TEST(what_cannot_be_made_is_refused_with_a_reason),
		TEST(others_instances_are_in_the_way_and_stay),
		TEST(anothers_instance_in_the_place_of_ours_is_not_taken_for_it),
		TEST(without_its_book_an_agent_touches_nothing),
		TEST(a_book_from_before_the_machines_start_is_void),
		TEST(only_what_nobody_wants_is_swept),
		TEST(a_slice_in_use_is_not_taken_down),
		TEST(a_lost_card_holds_nobody_up_and_is_tidied_when_it_is_back),
		TEST(a_card_in_mig_mode_is_for_slices_only),
		TEST(killed_while_making_it_is_swept_or_finished),
		TEST(what_was_only_intended_is_made_anew_and_not_taken_over),
		TEST(killed_while_taking_it_down_is_swept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
