/* The socket file of a server. */
#include "net/grpc_link.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 128

int rf_grpc_socket_check(const char *path, struct rf_err *err)
{
	size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (path[0] == '\0' || strlen(path) > max)
		return rf_fail(err, RF_INVALID, "socket %s: a path has 1 to %zu bytes, not %zu",
			       path, max, strlen(path));
	return 0;
}

/* Only a socket is ever replaced: a mistyped path must not cost anybody a file. */
static int make_room(const char *path, struct rf_err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0; /* bind says what is wrong, if anything is */
	if (!S_ISSOCK(st.st_mode))
		return rf_fail(err, RF_EXISTS, "%s is there and is no socket; remove it", path);
	if (unlink(path) < 0)
		return rf_fail_errno(err, "remove the old %s", path);
	return 0;
}

/* The mode is right from the start: a chmod would come too late. */
static int bind_to(int fd, const char *path, unsigned mode, struct rf_err *err)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	mode_t kept = umask(~mode & 0777);
	int rc;

	memcpy(addr.sun_path, path, strlen(path));
	rc = bind(fd, (struct sockaddr *)&addr, sizeof(addr));
	umask(kept);
	return rc < 0 ? rf_fail_errno(err, "bind %s", path) : 0;
}

static int listen_and_note(int fd, struct rf_grpc_socket *s, struct rf_err *err)
{
	struct stat st;

	if (listen(fd, BACKLOG) < 0 || lstat(s->path, &st) < 0)
		return rf_fail_errno(err, "listen at %s", s->path);
	s->dev = st.st_dev;
	s->ino = st.st_ino;
	return 0;
}

int rf_grpc_socket_listen(const char *path, unsigned mode, struct rf_grpc_socket *ret, int *ret_fd,
			  struct rf_err *err)
{
	rf_auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct rf_grpc_socket s = { 0 };

	if (rf_grpc_socket_check(path, err) < 0)
		return -err->code;
	if (fd < 0)
		return rf_fail_errno(err, "socket for %s", path);
	if (make_room(path, err) < 0 || bind_to(fd, path, mode, err) < 0)
		return -err->code;
	s.path = rf_strdup(path);
	if (listen_and_note(fd, &s, err) < 0) {
		unlink(path);
		free(s.path);
		return -err->code;
	}
	*ret = s;
	*ret_fd = rf_take_fd(fd);
	return 0;
}

void rf_grpc_socket_done(struct rf_grpc_socket *s)
{
	struct stat st;

	if (s->path == NULL)
		return;
	if (lstat(s->path, &st) == 0 && st.st_dev == s->dev && st.st_ino == s->ino)
		unlink(s->path);
	free(s->path);
	s->path = NULL;
}
