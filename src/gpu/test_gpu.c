#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gpu/gpu.h"
#include "gpu/mig.h"

static void a_machine_without_driver_has_no_cards_and_a_reason(void **state)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_gpu *g = NULL;

	(void)state;
	assert_int_equal(rf_gpu_open("/nonexistent", &g, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "no NVIDIA driver"));
	assert_int_equal(rf_gpu_count(NULL), 0);
}

static struct rf_gpu *open_fake(void)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_gpu *g = NULL;

	if (rf_gpu_open(FAKE_NVML_DIR, &g, &err) < 0)
		fail_msg("%s", err.msg);
	return g;
}

static void cards_are_read_and_a_broken_one_hides_no_other(void **state)
{
	struct rf_gpu *g = open_fake();

	(void)state;
	/* Three cards; the second answers nothing. */
	assert_int_equal(rf_gpu_count(g), 2);
	assert_string_equal(rf_gpu_card(g, 0)->uuid, "GPU-fake-0");
	assert_int_equal(rf_gpu_card(g, 1)->minor, 12);
	assert_int_equal(rf_gpu_card(g, 1)->index, 12); /* not its place in NVML's list */
	assert_int_equal(rf_gpu_card(g, 0)->memory_bytes, 1000);
	assert_int_equal(rf_gpu_card(g, 0)->island, 0);
	assert_int_equal(rf_gpu_card(g, 1)->island, 0);
	assert_int_equal(rf_gpu_card(g, 0)->numa, -1);
	rf_gpu_free(g);
}

/* What islands and memory nodes this machine has, a word. */
static void expect_places(const char *links, const char *numa, const char *mig, const char *islands, const char *nodes)
{
	struct rf_gpu_sample s;
	struct rf_gpu *g;

	setenv("RF_FAKE_LINKS", links, 1);
	setenv("RF_FAKE_NUMA", numa, 1);
	setenv("RF_FAKE_MIG", mig, 1);
	g = open_fake();
	assert_int_equal(rf_gpu_count(g), 6);
	unsetenv("RF_FAKE_MIG"); /* a mode that changes meanwhile is seen with the next sample */
	for (size_t i = 0; i < 6; i++)
		rf_gpu_sample(g, i, &s);
	for (size_t i = 0; i < 6; i++) {
		assert_int_equal(rf_gpu_card(g, i)->island, islands[i] == '?' ? -1 : islands[i] - '0');
		assert_int_equal(rf_gpu_card(g, i)->numa, nodes[i] == '?' ? -1 : nodes[i] - '0');
		assert_string_equal(rf_gpu_card(g, i)->pcie_root, "");
	}
	rf_gpu_free(g);
	unsetenv("RF_FAKE_LINKS");
	unsetenv("RF_FAKE_NUMA");
}

static void islands_are_all_that_can_be_reached(void **state)
{
	expect_places("", "", "", "012345", "??????"); /* joined to none, and nobody says where they are */
	expect_places("01 23 45", "aaabbb", "", "002244", "000111");
	expect_places("05 12 25", "aacb-b", "", "000340", "0021?1"); /* 1 and 0 over 2 and 5 */
	expect_places("01 12 34!", "", "", "000??5", "??????");
	expect_places("01! 02 03", "", "", "??0045", "??????"); /* 2 and 3 over 0, of which not all is known */
	expect_places("01 12 4", "", "", "0003?5", "??????"); /* a lost one leaves the others what they are */
	expect_places("01 12", "", "01", "000345", "??????"); /* MIG was switched off under the agent */
}

static void pci_addresses_are_as_others_have_them(void **state)
{
	char a[RF_GPU_PCI_ADDRESS];

	(void)state;
	assert_true(rf_gpu_pci_address("00000000:3B:00.0", a));
	assert_string_equal(a, "0000:3b:00.0");
	assert_true(rf_gpu_pci_address("0000ffff:FF:1f.7", a));
	assert_string_equal(a, "ffff:ff:1f.7");
	assert_false(rf_gpu_pci_address("00010000:3B:00.0", a));
	assert_false(rf_gpu_pci_address("", a));
}

static void what_a_driver_does_not_say_is_minus_one(void **state)
{
	struct rf_gpu *g = open_fake();
	struct rf_gpu_sample s;

	(void)state;
	rf_gpu_sample(g, 0, &s);
	assert_int_equal(s.memory_used, 400);
	assert_int_equal(s.temperature, 55);
	assert_int_equal(s.power_mw, -1);
	assert_int_equal(s.ecc_uncorrected, -1);
	assert_false(s.lost);
	rf_gpu_sample(g, 1, &s);
	assert_true(s.lost);
	assert_int_equal(s.temperature, -1);
	rf_gpu_free(g);
}

static void a_long_process_list_is_read_whole_and_each_pid_once(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu *g = open_fake();
	struct rf_gpu_process *p = NULL;
	struct rf_err err = RF_ERR_INIT;
	size_t n = 0;

	(void)state;
	assert_int_equal(rf_gpu_processes(g, 0, &a, &p, &n, &err), 0);
	assert_int_equal(n, 101); /* 100 compute, of which one draws too and one is a client of MPS; and another client */
	assert_int_equal(p[8].pid, 1008);
	assert_int_equal(p[8].bytes, 200);
	assert_int_equal(p[100].pid, 4242);
	assert_int_equal(p[7].pid, 1007);
	assert_int_equal(p[7].bytes, 70);
	assert_int_equal(rf_gpu_processes(g, 1, &a, &p, &n, &err), -RF_UNAVAILABLE);
	rf_gpu_free(g);
}

static void an_xid_is_delivered_once_with_its_card(void **state)
{
	struct rf_gpu *g = open_fake();
	struct rf_gpu_event e;

	(void)state;
	assert_true(rf_gpu_next_event(g, &e));
	assert_int_equal(e.card, 1);
	assert_int_equal(e.xid, 79);
	assert_false(rf_gpu_next_event(g, &e));
	rf_gpu_free(g);
}

static void faults_of_one_program_leave_the_card_in_service(void **state)
{
	static const int harmless[] = { 13, 31, 43, 45, 63, 94 };
	static const int fatal[] = { 48, 79, 95, 109, 119, 120, 999, 1 };

	(void)state;
	for (size_t i = 0; i < RF_COUNT(harmless); i++)
		assert_false(rf_gpu_xid_is_fatal(harmless[i]));
	for (size_t i = 0; i < RF_COUNT(fatal); i++)
		assert_true(rf_gpu_xid_is_fatal(fatal[i]));
	assert_int_equal(rf_gpu_xid_kind(79), RF_XID_REBOOT);
	assert_int_equal(rf_gpu_xid_kind(109), RF_XID_RESET);
}

#define MINORS "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi11/access 90\n" \
	       "gpu10/gi1/access 282\ngpu10/gi1/ci0/access 283\n"
#define DEVICES "Character devices:\n  1 mem\n195 nvidia\n236 nvidia-caps-imex-channels\n237 nvidia-caps\n\nBlock devices:\n  7 loop\n"

static void a_slice_has_two_device_nodes_and_never_those_of_all(void **state)
{
	struct rf_gpu_slice s = { .gi = 1, .ci = 0 };
	struct rf_gpu_cap caps[RF_GPU_SLICE_CAPS];
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	assert_int_equal(rf_gpu_slice_caps(RF_LIT(MINORS), RF_LIT(DEVICES), 0, &s, caps, &err), 0);
	assert_string_equal(caps[0].path, "/dev/nvidia-caps/nvidia-cap12");
	assert_int_equal(caps[0].major, 237);
	assert_int_equal(caps[0].minor, 12);
	assert_string_equal(caps[1].path, "/dev/nvidia-caps/nvidia-cap13");
	assert_int_equal(rf_gpu_slice_caps(RF_LIT(MINORS), RF_LIT(DEVICES), 10, &s, caps, &err), 0);
	assert_int_equal(caps[1].minor, 283);
	s.gi = 2;
	assert_int_equal(rf_gpu_slice_caps(RF_LIT(MINORS), RF_LIT(DEVICES), 0, &s, caps, &err), -RF_UNAVAILABLE);
	assert_non_null(strstr(err.msg, "gpu0/gi2/access"));
	s.gi = 1;
	assert_int_equal(rf_gpu_slice_caps(RF_LIT(MINORS), RF_LIT("195 nvidia\n"), 0, &s, caps, &err), -RF_UNAVAILABLE);
	assert_int_equal(rf_gpu_slice_caps(RF_LIT("gpu0/gi1/access -4\n"), RF_LIT(DEVICES), 0, &s, caps, &err), -RF_UNAVAILABLE);
}

/* This driver knows nothing of MIG: that is an answer, not a crash. */
static void a_driver_without_mig_says_so(void **state)
{
	struct rf_gpu_instance all[RF_GPU_INSTANCES_MAX], at;
	struct rf_gpu *g = open_fake();
	struct rf_gpu_sample s;
	struct rf_err err = RF_ERR_INIT;
	size_t n = 0;

	(void)state;
	rf_gpu_sample(g, 0, &s);
	assert_int_equal(s.mig, 0);
	assert_int_equal(rf_gpu_instances(g, 0, all, &n, &err), -RF_UNSUPPORTED);
	assert_int_equal(rf_gpu_instance_at(g, 0, "1g.10gb", 0, &at, &err), -RF_UNSUPPORTED);
	assert_int_equal(rf_gpu_slice_destroy(g, 0, 1, &err), -RF_UNSUPPORTED);
	rf_gpu_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_machine_without_driver_has_no_cards_and_a_reason),
		cmocka_unit_test(cards_are_read_and_a_broken_one_hides_no_other),
		cmocka_unit_test(islands_are_all_that_can_be_reached),
		cmocka_unit_test(pci_addresses_are_as_others_have_them),
		cmocka_unit_test(what_a_driver_does_not_say_is_minus_one),
		cmocka_unit_test(a_long_process_list_is_read_whole_and_each_pid_once),
		cmocka_unit_test(an_xid_is_delivered_once_with_its_card),
		cmocka_unit_test(faults_of_one_program_leave_the_card_in_service),
		cmocka_unit_test(a_slice_has_two_device_nodes_and_never_those_of_all),
		cmocka_unit_test(a_driver_without_mig_says_so),
	};

	return cmocka_run_group_tests_name("gpu", tests, NULL, NULL);
}
