/* How a process finds whoever fences it. Nothing in the environment has a say.
 *
 * In a container the place is fixed: RF_FENCE_SOCKET. If its folder is there nothing else is tried.
 * Elsewhere it is the outermost ancestor that listens on the abstract socket of its own pid (`ringfence
 * fence`, launch/): a program inside cannot put itself outside of its fence. */
#ifndef RF_FENCE_DIAL_H
#define RF_FENCE_DIAL_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* The abstract socket "ringfence/<what>/<pid>", or "ringfence/<what>" if pid is 0. */
socklen_t rf_fence_address(struct sockaddr_un *ret, const char *what, pid_t pid);
/* A blocking connection with timeouts, or -1. *ret_launcher (NULL: who cares) is 0 in a container. */
int rf_fence_dial(pid_t *ret_launcher);
/* The folder of RF_FENCE_SOCKET is there. */
bool rf_fence_in_container(void);
/* from is among pid's ancestors. */
bool rf_fence_descends(pid_t pid, pid_t from);

#endif
