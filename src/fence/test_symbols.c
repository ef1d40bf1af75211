/* No function of the driver goes unclassified: driver_api.h, symbols.h, the simulated driver and a
 * real one, if the machine has it, agree; and every look-up of a hooked name leads to the hook. */
#include <setjmp.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fence/symbols.h"
#include "fence/test/elf_names.h"

enum class { HOOKED, REFUSED, FORWARDED };
enum why {
	OWN,
	QUERY,
	HOST,
	COPY,
	BACK,
	ORDER,
	MAPPED,
	FOREIGN,
	PLACE,
	POOL,
	GRAPH,
	CODE,
	CONTEXT,
	TOOLS,
	NEEDED,
	CARD,
	ADMIN,
	VGPU,
};

static const struct row {
	const char *name;
	enum class class;
	enum why why;
} api[] = {
#define X(name, class, why) { #name, class, why },
#include "fence/driver_api.h"
#undef X
};
#define API (sizeof(api) / sizeof(api[0]))

static const struct {
	const char *name, *kind;
	enum class class;
} own[] = {
#define HOOK(name, ...) { #name, "HOOK", HOOKED },
#define GATE(name, ...) { #name, "GATE", REFUSED },
#define AID(name) { #name, "AID", FORWARDED },
	RF_CUDA_SYMBOLS(HOOK, GATE, AID) RF_NVML_SYMBOLS(HOOK, GATE, AID)
};
#define OWN_ROWS (sizeof(own) / sizeof(own[0]))

static const char *const class_name[] = { "HOOKED", "REFUSED", "FORWARDED" };

static const struct row *row_of(const char *name)
{
	size_t low = 0, high = API;

	while (low < high) { /* each of the two parts is sorted, and "cu" comes before "nvml" */
		size_t middle = (low + high) / 2;
		int order = strcmp(name, api[middle].name);

		if (order == 0)
			return &api[middle];
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

static void the_rows_are_in_order_and_none_is_there_twice(void **state)
{
	for (size_t i = 1; i < API; i++) {
		if (strcmp(api[i - 1].name, api[i].name) >= 0)
			fail_msg("driver_api.h: put %s before %s, once", api[i].name,
				 api[i - 1].name);
	}
	for (size_t i = 0; i < API; i++) {
		if ((api[i].class == FORWARDED) != (api[i].why != OWN))
			fail_msg("driver_api.h: %s: OWN is for HOOKED and REFUSED, a FORWARDED row "
				 "needs another reason",
				 api[i].name);
	}
}

static void what_symbols_h_says_driver_api_h_says_too(void **state)
{
	int wrong = 0;

	for (size_t i = 0; i < OWN_ROWS; i++) {
		const struct row *r = row_of(own[i].name);

		if (r && r->class == own[i].class)
			continue;
		wrong++;
		print_error("driver_api.h: %s is %s in symbols.h: %s row to X(%s, %s, %s)\n",
			    own[i].name, own[i].kind, r ? "change the" : "add a", own[i].name,
			    class_name[own[i].class],
			    own[i].class == FORWARDED ? "<the reason>" : "OWN");
	}
	assert_int_equal(wrong, 0);
}

static bool in_symbols_h(const char *name)
{
	for (size_t i = 0; i < OWN_ROWS; i++) {
		if (strcmp(own[i].name, name) == 0)
			return true;
	}
	return false;
}

static void nothing_is_called_hooked_that_symbols_h_does_not_have(void **state)
{
	int wrong = 0;

	for (size_t i = 0; i < API; i++) {
		if (api[i].class == FORWARDED || in_symbols_h(api[i].name))
			continue;
		wrong++;
		print_error("driver_api.h: X(%s, %s, OWN), but symbols.h has no %s row for it: add "
			    "one there, or make it X(%s, FORWARDED, <the reason>) here\n",
			    api[i].name, class_name[api[i].class],
			    api[i].class == HOOKED ? "HOOK" : "GATE", api[i].name);
	}
	assert_int_equal(wrong, 0);
}

/* --- what a library exports --- */

struct tally {
	const char *path;
	int names, unknown;
};

static void check_name(void *ctx, const char *name, bool defined)
{
	struct tally *t = ctx;

	if (!defined || (strncmp(name, "cu", 2) != 0 && strncmp(name, "nvml", 4) != 0))
		return;
	t->names++;
	if (row_of(name))
		return;
	t->unknown++;
	print_error("%s exports %s, which driver_api.h does not know: read what it does, then add "
		    "X(%s, <HOOKED, REFUSED or FORWARDED>, <why>) there\n",
		    t->path, name, name);
}

/* False: there is no such file. */
static bool check_library(const char *path)
{
	struct tally t = { .path = path };

	if (!elf_names(path, check_name, &t))
		return false;
	print_message("  %s: %d names\n", path, t.names);
	assert_true(t.names > 100);
	assert_int_equal(t.unknown, 0);
	return true;
}

static void every_name_of_the_simulated_driver_is_known(void **state)
{
	assert_true(check_library(SIM_LIB_DIR "/libcuda.so.1"));
	assert_true(check_library(SIM_LIB_DIR "/libnvidia-ml.so.1"));
}

static void every_name_of_a_real_driver_is_known(void **state)
{
	static const char *const places[] = {
		"/usr/local/nvidia/lib64",    "/usr/lib/x86_64-linux-gnu",
		"/usr/lib/aarch64-linux-gnu", "/usr/lib64",
		"/usr/lib/wsl/lib",	      "/run/nvidia/driver/usr/lib64",
	};
	char path[256];
	int found = 0;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(path, sizeof(path), "%s/libcuda.so.1", places[i]);
		found += check_library(path);
		snprintf(path, sizeof(path), "%s/libnvidia-ml.so.1", places[i]);
		found += check_library(path);
	}
	if (!found)
		skip();
}

/* --- look-ups --- */

static void every_look_up_of_every_name_leads_where_it_should(void **state)
{
	static char preload[] = "LD_PRELOAD=" RINGFENCE_LIB;
	static char drivers[] = "LD_LIBRARY_PATH=" FENCE_DIR "/every";
	static char program[] = FENCE_DIR "/fence_finder";
	char *env[] = { preload, drivers, NULL }, *argv[] = { program, NULL };
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, program, NULL, NULL, argv, env), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rows_are_in_order_and_none_is_there_twice),
		cmocka_unit_test(what_symbols_h_says_driver_api_h_says_too),
		cmocka_unit_test(nothing_is_called_hooked_that_symbols_h_does_not_have),
		cmocka_unit_test(every_name_of_the_simulated_driver_is_known),
		cmocka_unit_test(every_name_of_a_real_driver_is_known),
		cmocka_unit_test(every_look_up_of_every_name_leads_where_it_should),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
