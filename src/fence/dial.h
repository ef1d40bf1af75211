/* How a process finds whoever fences it. Nothing in the environment has a say.
 *
 * In a container the place is fixed: RF_FENCE_SOCKET. If its folder is there nothing else is tried.
 * Elsewhere it is the outermost ancestor that listens as "fence.<pid>" (`ringfence fence`, launch/) in a
 * folder that nobody but root or the caller can write in: a program inside cannot put itself outside of
 * its fence, and no stranger can take a launcher's name. */
#ifndef RF_FENCE_DIAL_H
#define RF_FENCE_DIAL_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

/* 0 is root's, /run/ringfence, which all may enter. Then the caller's own: /tmp/ringfence-<uid>, and
 * where a stranger has taken that, ringfence in /run/user/<uid> (not first: it goes with the last login,
 * and fences may stay). */
#define RF_FENCE_FOLDERS 3
#define RF_FENCE_FOLDER_PATH 64
uid_t rf_fence_folder(unsigned i, char ret_path[RF_FENCE_FOLDER_PATH]);
/* -1 unless it is there and its owner alone can write in it. */
int rf_fence_folder_open(unsigned i);
/* To the socket of that name in a folder that was opened so; it must be the owner's. With a timeout for
 * each step, or without blocking if it is 0. -1 and errno: EAGAIN if it listens but is busy. */
int rf_fence_connect(unsigned i, int folder_fd, const char *name, int timeout_ms,
		     struct ucred *ret_who);

/* A blocking connection with timeouts, or -1. *ret_launcher (NULL: who cares) is 0 in a container. */
int rf_fence_dial(pid_t *ret_launcher);
/* The folder of RF_FENCE_SOCKET is there. */
bool rf_fence_in_container(void);
/* 0: there is none, or it cannot be seen from here. */
pid_t rf_fence_parent(pid_t pid);
/* from is among pid's ancestors. */
bool rf_fence_descends(pid_t pid, pid_t from);

#endif
