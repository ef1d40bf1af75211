/* `ringfence fence arbiter`: only the arbiter, in the foreground, for a service that root runs. */
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include "fence/launch/launch.h"

int rf_launch_arbiter(struct rf_err *err)
{
	struct rf_registry *r = NULL;
	rf_auto_close int ends = -1;
	sigset_t set, kept;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, &kept);
	ends = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (ends < 0)
		return rf_fail_errno(err, "watch signals");
	prctl(PR_SET_DUMPABLE, 0);
	if (rf_registry_open(NULL, -1, &r, err) < 0)
		return -err->code;
	struct pollfd p[] = { { .fd = ends, .events = POLLIN },
			      { .fd = rf_registry_fd(r), .events = POLLIN } };
	while (!p[0].revents) {
		if (poll(p, RF_COUNT(p), -1) > 0 && p[1].revents)
			rf_registry_turn(r);
	}
	rf_registry_close(r);
	sigprocmask(SIG_SETMASK, &kept, NULL);
	return 0;
}
