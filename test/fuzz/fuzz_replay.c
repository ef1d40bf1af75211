/* A log told to a scheduler's core, and the day of it lived again: whatever facts it holds, in whatever order,
 * nothing may crash, hang or leak. */
#include <stdint.h>

#include "simulate/simulate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int64_t zero(void *ctx)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct rf_clock CLOCK = { .wall_ms = zero, .mono_ns = zero };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str log = rf_str_n((const char *)data, size);
	struct rf_simulate_play o = { .clock = &CLOCK };
	struct rf_simulate_replay r;
	struct rf_tally t;

	rf_tally_init(&t);
	rf_simulate_replay(log, &CLOCK, &a, &t, &r, NULL);
	rf_tally_done(&t);
	rf_tally_init(&t);
	rf_simulate_play_log(log, &o, &t, NULL);
	rf_tally_json(&t, &a, RF_LIT("x"));
	rf_tally_done(&t);
	return 0;
}
