/* up: the whole platform on this machine. Starts apiserver, then control and node, restarts what
 * dies, and stops all of it cleanly. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <uv.h>

#include "base/fs.h"
#include "gpu/gpu.h"
#include "sim/sim.h"

#define DEFAULT_CARDS "2xH200"
#define STOP_PATIENCE_MS 20000
#define RESTART_MIN_MS 50
#define RESTART_MAX_MS 5000
#define STEADY_MS 10000 /* a child that lived this long starts over with the shortest pause */
#define LOG_MAX (10 * 1024 * 1024)

static const char *o_data, *o_listen, *o_simulate, *o_kubeconfig, *o_dashboard, *o_images, *o_name,
	*o_mps, *o_event_log;
static bool o_keep_pods, o_verbose;

enum child_id { APISERVER, CONTROL, NODE, CHILD_COUNT };

struct up;

struct child {
	struct up *up;
	const char *name;
	char *argv[32];
	int argc;
	uv_process_t process;
	uv_pipe_t out; /* its standard output: the lines that say how far it is */
	uv_timer_t again;
	struct rf_buf line;
	bool running;
	bool ready;
	bool out_open;
	uint64_t started_ms;
	uint64_t pause_ms;
};

struct up {
	uv_loop_t loop;
	uv_signal_t on_int, on_term, on_hangup;
	uv_timer_t patience, watch_node; /* while stopping */
	struct rf_arena arena;
	struct rf_str data;
	struct child children[CHILD_COUNT];
	char api[128], dashboard[256];
	bool simulated;
	bool told; /* "ready" was printed */
	bool stopping, control_told;
	int lock;
};

static void child_start(struct child *c);
static void stop(struct up *u);

static void add_arg(struct child *c, const char *arg)
{
	rf_assert((size_t)c->argc + 1 < RF_COUNT(c->argv));
	c->argv[c->argc++] = (char *)arg;
}

static void add_opt(struct child *c, const char *name, const char *value)
{
	if (value == NULL)
		return;
	add_arg(c, name);
	add_arg(c, value);
}

static const char *in_data(struct up *u, const char *name)
{
	return rf_arena_printf(&u->arena, "%.*s/%s", RF_STR(u->data), name).p;
}

/* One platform per data folder: two would give the same card away twice. */
static int lock_data(struct up *u, struct rf_err *err)
{
	const char *path = in_data(u, "lock");

	u->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (u->lock < 0)
		return rf_fail_errno(err, "open %s", path);
	if (flock(u->lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	return rf_fail(err, RF_CONFLICT,
		       "another ringfence runs on %.*s; stop it, or give this one its own folder with --data DIR",
		       RF_STR(u->data));
}

/* --- simulated or real cards ------------------------------------------------------------------ */

static bool count_cards(void)
{
	struct rf_gpu *gpu = NULL;
	bool any = rf_gpu_open(NULL, &gpu, NULL) == 0 && rf_gpu_count(gpu) > 0;

	rf_gpu_free(gpu);
	return any;
}

/* Asked in a process of its own: the driver's library takes 20 MB and cannot be unloaded again. */
static bool has_cards(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid < 0)
		return count_cards();
	if (pid == 0)
		_exit(count_cards() ? 0 : 1);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int choose_cards(struct up *u, struct rf_err *err)
{
	if (o_simulate == NULL && has_cards())
		return 0;
	u->simulated = true;
	if (rf_cli_sim_lib_dir(&u->arena).n == 0)
		return rf_fail(err, RF_NOT_FOUND, "the simulated driver libraries are not beside %s; run make again",
			       rf_cli_self_exe(&u->arena).p);
	printf("%s: simulating %s\n", o_simulate ? "as asked" : "this machine has no NVIDIA GPU",
	       o_simulate ? o_simulate : DEFAULT_CARDS);
	return rf_cli_open_sim(in_data(u, "sim"), o_simulate ? o_simulate : DEFAULT_CARDS, err);
}

/* --- children --------------------------------------------------------------------------------- */

static const char *log_path(struct child *c)
{
	return in_data(c->up, rf_arena_printf(&c->up->arena, "log/%s.log", c->name).p);
}

static int open_log(struct child *c)
{
	const char *path = log_path(c);
	struct stat st;

	if (stat(path, &st) == 0 && st.st_size > LOG_MAX)
		rename(path, rf_arena_printf(&c->up->arena, "%s.1", path).p);
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void tell_ready(struct up *u)
{
	const char *kubeconfig = o_kubeconfig ? o_kubeconfig : in_data(u, "kubeconfig/admin");

	if (u->told)
		return;
	for (int i = 0; i < CHILD_COUNT; i++)
		if (!u->children[i].ready)
			return;
	u->told = true;
	printf("\n  API         %s\n  dashboard   %s\n  kubeconfig  %s\n  data, logs  %.*s\n\n"
	       "Next, in another terminal:\n"
	       "  export KUBECONFIG=%s\n"
	       "  kubectl apply -f examples/tenants.yaml     # four tenants\n"
	       "  %s gpus                      # the cards\n\n"
	       "Ctrl-C stops it; the data stays.\nready\n",
	       u->api, u->dashboard[0] ? u->dashboard : "(off)", kubeconfig, RF_STR(u->data), kubeconfig,
	       rf_cli_self_exe(&u->arena).p);
	fflush(stdout);
}

static void on_line(struct child *c, struct rf_str line)
{
	struct up *u = c->up;
	struct rf_str word;

	rf_str_cut(&line, ' ', &word);
	if (rf_str_is(word, "apiserver"))
		snprintf(u->api, sizeof(u->api), "%.*s", RF_STR(line));
	else if (rf_str_is(word, "dashboard"))
		snprintf(u->dashboard, sizeof(u->dashboard), "%.*s", RF_STR(line));
	if (rf_str_is(word, "dashboard"))
		return;
	c->ready = true;
	if (c == &u->children[APISERVER])
		for (int i = CONTROL; i < CHILD_COUNT; i++)
			if (!u->children[i].running && u->children[i].started_ms == 0)
				child_start(&u->children[i]);
	tell_ready(u);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	static char space[4096];

	(void)h, (void)suggested;
	*buf = uv_buf_init(space, sizeof(space));
}

static void on_out_closed(uv_handle_t *h)
{
	((struct child *)h->data)->out_open = false;
}

static void on_out(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct child *c = stream->data;
	char *eol;

	if (n < 0) {
		if (!uv_is_closing((uv_handle_t *)stream))
			uv_close((uv_handle_t *)stream, on_out_closed);
		return;
	}
	rf_buf_add(&c->line, rf_str_n(buf->base, (size_t)n));
	while ((eol = memchr(c->line.p, '\n', c->line.n)) != NULL) {
		size_t len = (size_t)(eol - c->line.p);

		on_line(c, rf_str_n(c->line.p, len));
		rf_buf_drop(&c->line, len + 1);
	}
}

static void stop_loop_when_all_gone(struct up *u)
{
	for (int i = 0; i < CHILD_COUNT; i++)
		if (u->children[i].running)
			return;
	uv_stop(&u->loop);
}

static void on_again(uv_timer_t *t)
{
	child_start(t->data);
}

/* With the last thing it said: that is most often all a person needs. */
static void tell_no_start(struct child *c)
{
	const char *path = log_path(c);
	struct rf_str text = RF_STR_EMPTY, line = RF_STR_EMPTY;

	rf_fs_read(&c->up->arena, path, 2 * LOG_MAX, &text, NULL);
	text = rf_str_trim(text);
	for (bool more = text.n > 0; more;)
		more = rf_str_cut(&text, '\n', &line);
	fprintf(stderr, "ringfence up: %s does not start: %.*s\n(its log is %s)\n", c->name,
		RF_STR(line), path);
}

static void on_exit_child(uv_process_t *p, int64_t status, int sig)
{
	struct child *c = p->data;
	struct up *u = c->up;

	c->running = false;
	uv_close((uv_handle_t *)p, NULL);
	if (u->stopping) {
		stop_loop_when_all_gone(u);
		return;
	}
	if (!u->told && c->pause_ms > 1000) {
		tell_no_start(c);
		stop(u);
		return;
	}
	if (uv_now(&u->loop) - c->started_ms > STEADY_MS)
		c->pause_ms = RESTART_MIN_MS;
	rf_warn("%s ended (%s %d); starting it again in %d ms", c->name, sig ? "signal" : "status",
		sig ? sig : (int)status, (int)c->pause_ms);
	uv_timer_start(&c->again, on_again, c->pause_ms, 0);
	c->pause_ms = RF_MIN(c->pause_ms * 2, (uint64_t)RESTART_MAX_MS);
}

static void child_start(struct child *c)
{
	struct up *u = c->up;
	int log = open_log(c);
	uv_stdio_container_t stdio[3] = {
		{ .flags = UV_IGNORE },
		{ .flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&c->out },
		{ .flags = UV_INHERIT_FD, .data.fd = o_verbose || log < 0 ? STDERR_FILENO : log },
	};
	uv_process_options_t opts = { .file = c->argv[0], .args = c->argv, .exit_cb = on_exit_child,
				      .stdio = stdio, .stdio_count = 3 };
	int r;

	if (u->stopping || c->out_open) { /* the last run's output is still draining */
		if (!u->stopping)
			uv_timer_start(&c->again, on_again, RESTART_MIN_MS, 0);
		if (log >= 0)
			close(log);
		return;
	}
	c->argv[c->argc] = NULL;
	uv_pipe_init(&u->loop, &c->out, 0);
	c->out.data = c;
	c->out_open = true;
	rf_buf_clear(&c->line);
	c->process.data = c;
	c->started_ms = uv_now(&u->loop);
	/* own group, so that the terminal's Ctrl-C reaches the supervisor alone, who stops in order */
	opts.flags = UV_PROCESS_DETACHED;
	r = uv_spawn(&u->loop, &c->process, &opts);
	if (log >= 0)
		close(log);
	if (r < 0) {
		rf_error("%s cannot be started: %s", c->name, uv_strerror(r));
		uv_close((uv_handle_t *)&c->out, on_out_closed);
		uv_timer_start(&c->again, on_again, RESTART_MAX_MS, 0);
		return;
	}
	c->running = true;
	uv_read_start((uv_stream_t *)&c->out, on_alloc, on_out);
}

/* --- stopping --------------------------------------------------------------------------------- */

static void on_patience(uv_timer_t *t)
{
	struct up *u = t->data;

	for (int i = 0; i < CHILD_COUNT; i++)
		if (u->children[i].running) {
			rf_warn("%s did not stop in time; ending it", u->children[i].name);
			uv_process_kill(&u->children[i].process, SIGKILL);
		}
}

/* node first, then control, which has last words too, while the API still answers; the API when both have gone. */
static void on_node_gone_stop_rest(uv_timer_t *t)
{
	struct up *u = t->data;

	if (u->children[NODE].running)
		return;
	if (u->children[CONTROL].running) {
		if (!u->control_told)
			uv_process_kill(&u->children[CONTROL].process, SIGTERM);
		u->control_told = true;
		return;
	}
	uv_timer_stop(t);
	if (u->children[APISERVER].running)
		uv_process_kill(&u->children[APISERVER].process, SIGTERM);
	stop_loop_when_all_gone(u);
}

static void stop(struct up *u)
{
	if (u->stopping)
		return;
	u->stopping = true;
	if (u->told)
		printf("\nstopping%s\n", o_keep_pods ? "; pods go on running" : "");
	fflush(stdout);
	for (int i = 0; i < CHILD_COUNT; i++)
		uv_timer_stop(&u->children[i].again);
	uv_timer_start(&u->patience, on_patience, STOP_PATIENCE_MS, 0);
	/* SIGINT asks the agent to stop its pods first, SIGTERM leaves them to the next agent. */
	if (u->children[NODE].running)
		uv_process_kill(&u->children[NODE].process, o_keep_pods ? SIGTERM : SIGINT);
	uv_timer_start(&u->watch_node, on_node_gone_stop_rest, 0, 20);
}

static void on_signal(uv_signal_t *s, int sig)
{
	(void)sig;
	stop(s->data);
}

/* --- setting up -------------------------------------------------------------------------------- */

static void child_init(struct up *u, enum child_id id, const char *name)
{
	struct child *c = &u->children[id];

	c->up = u;
	c->name = name;
	c->pause_ms = RESTART_MIN_MS;
	c->line = (struct rf_buf)RF_BUF_INIT;
	uv_timer_init(&u->loop, &c->again);
	c->again.data = c;
	add_arg(c, rf_cli_self_exe(&u->arena).p);
	add_arg(c, name);
	add_arg(c, "--supervised");
	if (o_verbose)
		add_arg(c, "--verbose");
}

static void describe_children(struct up *u)
{
	struct child *c = &u->children[APISERVER];
	const char *pki = in_data(u, "pki");

	child_init(u, APISERVER, "apiserver");
	add_opt(c, "--data", u->data.p);
	add_opt(c, "--listen", o_listen ? o_listen : "127.0.0.1:7443");
	add_opt(c, "--kubeconfig", o_kubeconfig);
	add_opt(c, "--name", o_name);
	add_opt(c, "--foreign", rf_cli_foreign_list);
	add_opt(c, "--foreign-card", rf_cli_foreign_card);

	c = &u->children[CONTROL];
	child_init(u, CONTROL, "control");
	add_opt(c, "--kubeconfig", in_data(u, "kubeconfig/control"));
	add_opt(c, "--listen", o_dashboard ? o_dashboard : "127.0.0.1:7444");
	add_opt(c, "--pki", pki);
	add_opt(c, "--data", u->data.p);
	add_opt(c, "--foreign", rf_cli_foreign_list);
	add_opt(c, "--foreign-card", rf_cli_foreign_card);
	add_opt(c, "--event-log", o_event_log);

	c = &u->children[NODE];
	child_init(u, NODE, "node");
	add_opt(c, "--data", in_data(u, "node"));
	add_opt(c, "--kubeconfig", in_data(u, "kubeconfig/node"));
	add_opt(c, "--pki", pki);
	add_opt(c, "--name", o_name);
	add_opt(c, "--images", o_images);
	add_opt(c, "--mps-control", o_mps);
	if (u->simulated)
		add_opt(c, "--sim", in_data(u, "sim"));
}

static void watch_signals(struct up *u)
{
	uv_signal_init(&u->loop, &u->on_int);
	uv_signal_init(&u->loop, &u->on_term);
	uv_signal_init(&u->loop, &u->on_hangup);
	u->on_int.data = u->on_term.data = u->on_hangup.data = u;
	uv_signal_start(&u->on_int, on_signal, SIGINT);
	uv_signal_start(&u->on_term, on_signal, SIGTERM);
	uv_signal_start(&u->on_hangup, on_signal, SIGHUP); /* the terminal was closed */
	uv_timer_init(&u->loop, &u->patience);
	uv_timer_init(&u->loop, &u->watch_node);
	u->patience.data = u->watch_node.data = u;
}

static void close_handle(uv_handle_t *h, void *arg)
{
	(void)arg;
	if (!uv_is_closing(h))
		uv_close(h, NULL);
}

static int run_in(struct up *u, struct rf_err *err)
{
	if (geteuid() != 0)
		return rf_fail(err, RF_FORBIDDEN,
			       "containers and cgroups need root; run: sudo %s up", rf_cli_self_exe(&u->arena).p);
	if (rf_fs_mkdirs(u->data.p, 0700, err) < 0 || rf_fs_mkdirs(in_data(u, "log"), 0700, err) < 0 ||
	    rf_fs_mkdirs(in_data(u, "node"), 0700, err) < 0 || lock_data(u, err) < 0 || choose_cards(u, err) < 0)
		return -err->code;
	fflush(stdout);
	describe_children(u);
	watch_signals(u);
	child_start(&u->children[APISERVER]);
	uv_run(&u->loop, UV_RUN_DEFAULT);
	uv_walk(&u->loop, close_handle, NULL);
	uv_run(&u->loop, UV_RUN_DEFAULT);
	return u->told ? 0 : 1;
}

/* Said at once and by name, rather than by a child that does not start. */
static int check_addresses(struct rf_err *err)
{
	char host[64];
	uint16_t port;

	if (o_listen != NULL && rf_cli_address(o_listen, host, &port, err) < 0)
		return rf_wrap(err, "--listen");
	if (o_dashboard != NULL && rf_cli_address(o_dashboard, host, &port, err) < 0)
		return rf_wrap(err, "--dashboard");
	return 0;
}

static int check_event_log(struct rf_err *err)
{
	const char *slash = o_event_log != NULL ? strrchr(o_event_log, '/') : NULL;
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *folder = slash == NULL ? "." : rf_arena_printf(&a, "%.*s/", (int)(slash - o_event_log), o_event_log).p;
	struct stat st;

	if (o_event_log == NULL)
		return 0;
	if (stat(folder, &st) < 0)
		return rf_fail_errno(err, "--event-log %s: its folder", o_event_log);
	if (lstat(o_event_log, &st) == 0 && !S_ISREG(st.st_mode))
		return rf_fail(err, RF_INVALID, "--event-log %s: not a plain file; name one that may be written", o_event_log);
	return 0;
}

static int run(int argc, char **argv, struct rf_err *err)
{
	static struct up u;
	int r;

	if (rf_cli_no_more(&RF_VERB_UP, argc, argv, err) < 0 || check_addresses(err) < 0 || check_event_log(err) < 0 ||
	    rf_cli_foreign(err) < 0)
		return -err->code;
	rf_log_init("up", RF_LOG_INFO);
	u.lock = -1;
	u.arena = (struct rf_arena)RF_ARENA_INIT;
	u.data = o_data ? rf_str(o_data) : rf_cli_default_data(&u.arena);
	if (u.data.p[0] != '/') { /* children and containers need it absolute */
		char *cwd = getcwd(NULL, 0);

		u.data = rf_arena_printf(&u.arena, "%s/%.*s", cwd ? cwd : "", RF_STR(u.data));
		free(cwd);
	}
	uv_loop_init(&u.loop);
	r = run_in(&u, err);
	uv_loop_close(&u.loop);
	for (int i = 0; i < CHILD_COUNT; i++)
		rf_buf_done(&u.children[i].line);
	rf_arena_done(&u.arena);
	if (u.lock >= 0)
		close(u.lock);
	return r;
}

static const struct rf_opt OPTS[] = {
	{ "data", 0, RF_OPT_STR, &o_data, "DIR", "where everything is kept (default /var/lib/ringfence)" },
	{ "listen", 0, RF_OPT_STR, &o_listen, "ADDR", "the API (default 127.0.0.1:7443; port 0 picks one)" },
	{ "dashboard", 0, RF_OPT_STR, &o_dashboard, "ADDR", "the dashboard (default 127.0.0.1:7444; port 0 picks one)" },
	{ "simulate", 0, RF_OPT_STR, &o_simulate, "CARDS", "simulated cards, such as 4xH200, 2xA100,1xT4 or 1xH100:mig" },
	{ "kubeconfig", 0, RF_OPT_STR, &o_kubeconfig, "FILE", "also write the administrator's kubeconfig here" },
	{ "images", 0, RF_OPT_STR, &o_images, "DIR", "folder of OCI bundles that pods may name as image" },
	{ "name", 0, RF_OPT_STR, &o_name, "NODE", "name of this node (default: host name)" },
	{ "mps-control", 0, RF_OPT_STR, &o_mps, "FILE", "NVIDIA's MPS control daemon, for pools with sharing: mps (default: the driver's)" },
	{ "event-log", 0, RF_OPT_STR, &o_event_log, "FILE", "what the scheduler hears and decides, for \"ringfence simulate --log\"; FILE.1 is the part before" },
	RF_OPT_FOREIGN,
	{ "keep-pods", 0, RF_OPT_FLAG, &o_keep_pods, NULL, "when stopping, leave pods running for the next start" },
	{ "verbose", 'v', RF_OPT_FLAG, &o_verbose, NULL, "logs on standard error instead of DIR/log" },
};

const struct rf_verb RF_VERB_UP = {
	.name = "up",
	.summary = "Run the whole platform on this machine",
	.usage = "[--data DIR] [--simulate CARDS] [--listen ADDR] [--kubeconfig FILE]",
	.details = "Uses this machine's NVIDIA cards, or simulated ones when there are none. Prints \"ready\" once\n"
		   "a pod can be scheduled. Ctrl-C stops it; the data stays and the next start has it.\n\n"
		   "Examples:\n"
		   "  ringfence up\n"
		   "  ringfence up --simulate 4xH200 --data /tmp/rf --listen 127.0.0.1:0 --dashboard 127.0.0.1:0",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
