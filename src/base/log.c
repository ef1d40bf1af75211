#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

static const char *log_who = "ringfence";
static enum rf_log_level log_least = RF_LOG_INFO;

void rf_log_init(const char *who, enum rf_log_level least)
{
	log_who = who;
	log_least = least;
}

/* Text may hold what a tenant wrote: control characters must not forge lines or drive a terminal. */
static void defuse(char *line, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
			line[i] = ' ';
}

void rf_log(enum rf_log_level level, const char *fmt, ...)
{
	static const char *const names[] = { "debug", "info", "warn", "error" };
	int saved = errno;
	char line[2048];
	struct timespec ts;
	struct tm tm;
	va_list ap;
	int n, m;

	if (level < log_least)
		return;
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	n = snprintf(line, sizeof(line), "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ %-5s %s: ",
		     tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec,
		     (int)(ts.tv_nsec / 1000000), names[level], log_who);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	va_end(ap);
	if (m > 0)
		n += RF_MIN(m, (int)sizeof(line) - n - 2);
	defuse(line, (size_t)n);
	line[n] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n + 1) < 0) {
		/* nowhere left to say it */
	}
	errno = saved;
}
