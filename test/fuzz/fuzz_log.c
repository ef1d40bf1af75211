/* A log of the scheduler may come from anywhere: no line may crash the reader, and what it accepts is written
 * again as the same event. */
#include <stdint.h>

#include "sched/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)16 << 20);
	rf_auto(buf) once = RF_BUF_INIT;
	rf_auto(buf) twice = RF_BUF_INIT;
	struct rf_log_event e;

	if (rf_log_read(&a, rf_str_n((const char *)data, size), &e, NULL) < 0)
		return 0;
	rf_log_write(&once, &e);
	rf_assert(rf_log_read(&a, rf_buf_str(&once), &e, NULL) == 0 || a.used > a.cap / 2);
	rf_log_write(&twice, &e);
	rf_assert(rf_str_eq(rf_buf_str(&once), rf_buf_str(&twice)));
	return 0;
}
