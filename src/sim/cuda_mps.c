/* A process becomes a client of the MPS daemon that CUDA_MPS_PIPE_DIRECTORY names, as long as it lives. As with
 * the real driver, where there is no daemon it goes on without one. Kernels of clients still take turns. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sim/cuda_priv.h"

void sim_mps_join(void)
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd, n;

	if (dir == NULL)
		return;
	n = snprintf(a.sun_path, sizeof(a.sun_path), "%s/control", dir);
	if (n < 0 || (size_t)n >= sizeof(a.sun_path))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		close(fd);
	/* Else it stays open: its end says that the client has gone. */
}
