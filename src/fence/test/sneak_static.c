/* A static program: nothing can be preloaded into it. It has no driver either; it takes memory of the
 * card by writing the fake driver's count of it, as one that talks to the kernel itself would. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fence/test/sneak.h"

int main(void)
{
	struct sneak_report report = { .pid = getpid(), .bytes = SNEAK_GOAL };
	int fd = open(getenv("FAKE_CUDA_SHARED"), O_RDWR | O_CLOEXEC);
	uint64_t *live = mmap(NULL, 16, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char c;

	if (live == MAP_FAILED)
		return 1;
	__atomic_add_fetch(live, SNEAK_GOAL, __ATOMIC_SEQ_CST);
	if (write(STDOUT_FILENO, &report, sizeof(report)) != sizeof(report))
		return 1;
	return read(STDIN_FILENO, &c, 1) < 0;
}
