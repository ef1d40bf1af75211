/* nvidia-cuda-mps-control as far as an agent can see it: the files it makes, who may reach which of them, one
 * server that is started for the first client and outlives a control daemon that is killed. It computes nothing.
 *
 *	nvidia-cuda-mps-control -f [-multiuser-server]     the daemon, in the foreground
 *	echo quit | nvidia-cuda-mps-control                a command to it */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS_MAX 48 /* as many as one server has on Volta and later */

enum { CONTROL, PRIVILEGED, FIRST_CLIENT };

static struct {
	struct pollfd fds[FIRST_CLIENT + CLIENTS_MAX];
	nfds_t n;
	pid_t server;
	bool multiuser;
	char *flag; /* -f in the list of processes; the server says -s */
	FILE *log;
} d;

static const char *path_of(const char *name, char ret[sizeof(((struct sockaddr_un *)0)->sun_path)])
{
	const char *dir = getenv("CUDA_MPS_PIPE_DIRECTORY");

	snprintf(ret, sizeof(((struct sockaddr_un *)0)->sun_path), "%s/%s", dir ? dir : "/tmp/nvidia-mps", name);
	return ret;
}

__attribute__((format(printf, 1, 2))) static void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(d.log, "[Control %d] ", (int)getpid());
	vfprintf(d.log, fmt, ap);
	fputc('\n', d.log);
	fflush(d.log);
	va_end(ap);
}

static int fail(const char *what)
{
	fprintf(stderr, "nvidia-cuda-mps-control: %s: %s\n", what, strerror(errno));
	return 1;
}

/* --- a command --- */

static int send_commands(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char line[256];

	path_of("control_privileged", a.sun_path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
		return fail("Cannot find MPS control daemon process");
	while (fgets(line, sizeof(line), stdin) != NULL)
		if (write(fd, line, strlen(line)) < 0)
			return fail("send a command");
	shutdown(fd, SHUT_WR);
	while (read(fd, line, sizeof(line)) > 0)
		; /* until the daemon has done it */
	return 0;
}

/* --- the daemon --- */

static int listen_at(const char *name, mode_t mode)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	path_of(name, a.sun_path);
	unlink(a.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 || chmod(a.sun_path, mode) < 0 ||
	    listen(fd, CLIENTS_MAX) < 0)
		return -1;
	return fd;
}

static int make_files(void)
{
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	int lock = open(path_of("control_lock", path), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	FILE *pid;

	if (lock < 0 || flock(lock, LOCK_EX | LOCK_NB) < 0)
		return fail("An instance of this daemon is already running");
	d.fds[CONTROL].fd = listen_at("control", 0666);
	d.fds[PRIVILEGED].fd = listen_at("control_privileged", 0755);
	if (d.fds[CONTROL].fd < 0 || d.fds[PRIVILEGED].fd < 0)
		return fail("make the sockets");
	if (mkfifo(path_of("log", path), 0777) < 0 && errno != EEXIST)
		return fail("make the pipe of the log");
	pid = fopen(path_of("nvidia-cuda-mps-control.pid", path), "we");
	if (pid == NULL)
		return fail("write the pid file");
	fprintf(pid, "%d\n", (int)getpid());
	fclose(pid);
	return 0;
}

static void start_server(unsigned uid)
{
	d.server = fork();
	if (d.server != 0) {
		say("Starting new server %d for user %u", (int)d.server, d.multiuser ? 0 : uid);
		return;
	}
	setsid();
	d.flag[1] = 's';
	for (nfds_t i = 0; i < d.n; i++)
		close(d.fds[i].fd);
	for (;;)
		pause();
}

static void take_client(void)
{
	int fd = accept4(d.fds[CONTROL].fd, NULL, NULL, SOCK_CLOEXEC);
	struct ucred who = { 0, 0, 0 };
	socklen_t size = sizeof(who);

	if (fd < 0)
		return;
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0 || d.n == FIRST_CLIENT + CLIENTS_MAX) {
		say("User did not send valid credentials");
		close(fd);
		return;
	}
	if (d.server == 0)
		start_server((unsigned)who.uid);
	say("NEW CLIENT %d from user %u", (int)who.pid, (unsigned)who.uid);
	d.fds[d.n++] = (struct pollfd){ .fd = fd, .events = POLLIN };
}

/* True: the daemon shall end. */
static bool obey(void)
{
	int fd = accept4(d.fds[PRIVILEGED].fd, NULL, NULL, SOCK_CLOEXEC);
	char text[256] = "";
	bool quit;

	if (fd < 0)
		return false;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	quit = strncmp(text, "quit", 4) == 0;
	say("Command: %s", quit ? "quit" : "unknown");
	close(fd);
	return quit;
}

static void hear_clients(void)
{
	for (nfds_t i = FIRST_CLIENT; i < d.n; i++) {
		char byte;

		if (d.fds[i].revents == 0 || recv(d.fds[i].fd, &byte, 1, MSG_DONTWAIT) > 0)
			continue;
		close(d.fds[i].fd);
		d.fds[i--] = d.fds[--d.n];
		say("Client disconnected");
	}
}

static void end(void)
{
	static const char *const names[] = { "control", "control_privileged", "log", "nvidia-cuda-mps-control.pid" };
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];

	if (d.server > 0) {
		kill(d.server, SIGKILL);
		waitpid(d.server, NULL, 0);
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(path_of(names[i], path));
	say("Exit");
}

static int serve(void)
{
	const char *dir = getenv("CUDA_MPS_LOG_DIRECTORY"), *cards = getenv("CUDA_VISIBLE_DEVICES");
	char path[4096];

	snprintf(path, sizeof(path), "%s/control.log", dir ? dir : "/var/log/nvidia-mps");
	d.log = fopen(path, "ae");
	if (d.log == NULL)
		return fail("open the log");
	if (make_files() != 0)
		return 1;
	say("Start, cards %s%s", cards ? cards : "all", d.multiuser ? ", one server for all users" : "");
	d.n = FIRST_CLIENT;
	d.fds[CONTROL].events = d.fds[PRIVILEGED].events = POLLIN;
	for (;;) {
		if (poll(d.fds, d.n, -1) < 0)
			continue;
		hear_clients();
		if (d.fds[CONTROL].revents != 0)
			take_client();
		if (d.fds[PRIVILEGED].revents != 0 && obey())
			break;
	}
	end();
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 1)
		return send_commands();
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-multiuser-server") == 0) {
			d.multiuser = true;
		} else if (strcmp(argv[i], "-f") == 0) {
			d.flag = argv[i];
		} else {
			fprintf(stderr, "usage: nvidia-cuda-mps-control [-f [-multiuser-server]]\n");
			return 1;
		}
	}
	return d.flag != NULL ? serve() : 1;
}
