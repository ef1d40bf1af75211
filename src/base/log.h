/* Log lines on stderr, one per event: time, level, process, text. Programs log; library code
 * returns errors instead, so that each failure is told once, by the one who decides what it means. */
#ifndef RF_BASE_LOG_H
#define RF_BASE_LOG_H

#include "base/macro.h"

enum rf_log_level { RF_LOG_DEBUG, RF_LOG_INFO, RF_LOG_WARN, RF_LOG_ERROR };

/* who: "apiserver", "control", "node"; kept by pointer. */
void rf_log_init(const char *who, enum rf_log_level least);
void rf_log(enum rf_log_level level, const char *fmt, ...) RF_PRINTF(2, 3);

#define rf_debug(...) rf_log(RF_LOG_DEBUG, __VA_ARGS__)
#define rf_info(...) rf_log(RF_LOG_INFO, __VA_ARGS__)
#define rf_warn(...) rf_log(RF_LOG_WARN, __VA_ARGS__)
#define rf_error(...) rf_log(RF_LOG_ERROR, __VA_ARGS__)

#endif
