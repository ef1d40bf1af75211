#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "observe/metrics.h"

static int64_t resident_bytes(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long long size = 0, resident = 0;
	int got = f ? fscanf(f, "%lld %lld", &size, &resident) : 0;

	if (f)
		fclose(f);
	return got == 2 ? resident * sysconf(_SC_PAGESIZE) : -1;
}

static int64_t open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int64_t n = 0;

	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n - 3; /* ".", "..", and the folder itself */
}

/* The moment of the first scrape stands for the start where nothing better is known; it is fixed
 * from then on, which is what a restart alert needs. */
static int64_t start_ms(void)
{
	static int64_t start;
	struct timespec now;

	if (start == 0) {
		clock_gettime(CLOCK_REALTIME, &now);
		start = now.tv_sec * 1000 + now.tv_nsec / 1000000;
	}
	return start;
}

void rf_metrics_process(struct rf_metrics *m)
{
	struct rusage u;
	struct rf_label version = { "version", rf_str(RF_VERSION) };

	getrusage(RUSAGE_SELF, &u);
	int64_t cpu_us = (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000LL + u.ru_utime.tv_usec +
			 u.ru_stime.tv_usec;
	rf_metrics_scaled(m, "process_cpu_seconds_total", RF_METRIC_COUNTER,
			  "User and system CPU time of this process.", NULL, 0, cpu_us, 6);
	rf_metrics_int(m, "process_resident_memory_bytes", RF_METRIC_GAUGE,
		       "Resident memory of this process.", NULL, 0, resident_bytes());
	rf_metrics_int(m, "process_open_fds", RF_METRIC_GAUGE,
		       "Open file descriptors of this process.", NULL, 0, open_descriptors());
	rf_metrics_scaled(m, "process_start_time_seconds", RF_METRIC_GAUGE,
			  "When this process began to serve metrics.", NULL, 0, start_ms(), 3);
	rf_metrics_int(m, "ringfence_build_info", RF_METRIC_GAUGE, "The running version; always 1.",
		       &version, 1, 1);
}
