/* Process 1 of the bed's machines, and of its pods as the pause image: waits, and collects the processes
 * that lost their parent. A pod's sandbox is ended by SIGTERM or SIGINT. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	sigset_t set;
	int sig = 0;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (;;) {
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (sigwait(&set, &sig) == 0 && sig != SIGCHLD)
			return 0;
	}
}
