/* The process: data folder, certificates, listening, kubeconfigs, the loop. */
#include "apiserver/apiserver.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "apiserver/pki.h"
#include "apiserver/server.h"
#include "base/fs.h"
#include "kube/kube.h"

#define CLIENT_DAYS 365
#define CONNECTIONS_MAX 12000
#define FILES_WANTED (CONNECTIONS_MAX + 500)
#define GOODBYE_MS 300 /* for answers under way, once we are told to stop */

struct process {
	const struct rf_apiserver_opts *opts;
	uv_loop_t loop;
	uv_signal_t term, intr;
	uv_timer_t tick;
	struct rf_api api;
	struct rf_tls *tls;
	struct rf_http_server *http;
	struct rf_arena a; /* as long as the process */
	struct rf_pki_files pki;
	int lock;
};

static const char *in_data(struct process *p, const char *name)
{
	return rf_arena_printf(&p->a, "%s/%s", p->opts->data_dir, name).p;
}

/* --- data folder ---------------------------------------------------------------------------- */

/* Two servers on one database would both count resourceVersions. */
static int take_lock(struct process *p, struct rf_err *err)
{
	const char *path = in_data(p, "apiserver.lock");

	if (mkdir(p->opts->data_dir, 0700) < 0 && errno != EEXIST)
		return rf_fail_errno(err, "create %s", p->opts->data_dir);
	p->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (p->lock < 0)
		return rf_fail_errno(err, "open %s", path);
	if (flock(p->lock, LOCK_EX | LOCK_NB) < 0)
		return rf_fail(
			err, RF_CONFLICT,
			"%s: another API server uses this data folder; stop it or choose another "
			"--data",
			p->opts->data_dir);
	return 0;
}

static int make_pki(struct process *p, struct rf_err *err)
{
	struct rf_str hosts[] = { RF_LIT("127.0.0.1"),
				  RF_LIT("::1"),
				  RF_LIT("localhost"),
				  RF_LIT("kubernetes"),
				  RF_LIT("kubernetes.default.svc"),
				  rf_str(p->opts->listen_address),
				  rf_str(p->opts->node_name) };
	size_t n = RF_COUNT(hosts);

	if (p->opts->node_name == NULL || p->opts->node_name[0] == '\0')
		n--;
	return rf_pki_ensure(&p->a, in_data(p, "pki"), hosts, n, &p->pki, err);
}

/* --- kubeconfigs ---------------------------------------------------------------------------- */

static int issue_client(struct process *p, struct rf_str user, struct rf_str group,
			struct rf_str *cert, struct rf_str *key, struct rf_err *err)
{
	struct rf_pki_ask ask = { .common_name = user,
				  .groups = &group,
				  .n_groups = 1,
				  .server = false,
				  .days = CLIENT_DAYS };

	return rf_pki_issue(&p->a, p->pki.ca_cert, p->pki.ca_key, &ask, cert, key, err);
}

static bool is_any(const char *address)
{
	return strcmp(address, "0.0.0.0") == 0 || strcmp(address, "::") == 0;
}

static int write_kubeconfig(struct process *p, const char *path, struct rf_str user,
			    struct rf_str group, struct rf_err *err)
{
	struct rf_kubeconfig c = {
		.host = is_any(p->opts->listen_address) ? RF_LIT("127.0.0.1")
							: rf_str(p->opts->listen_address),
		.port = rf_http_server_port(p->http),
		.ca_pem = p->pki.ca_cert,
		.token = RF_STR_EMPTY,
		.ns = RF_STR_EMPTY,
	};

	if (issue_client(p, user, group, &c.cert_pem, &c.key_pem, err) < 0)
		return rf_wrap(err, "issue a certificate for %.*s", RF_STR(user));
	return rf_fs_write(path, rf_kubeconfig_text(&p->a, &c, user), 0600, true, err);
}

static int write_kubeconfigs(struct process *p, struct rf_err *err)
{
	struct rf_str admin = RF_LIT("ringfence-admin"), masters = RF_LIT(RF_MASTERS);
	struct rf_str node = rf_arena_printf(&p->a, RF_NODE_PREFIX "%s",
					     p->opts->node_name ? p->opts->node_name : "node");
	const char *dir = in_data(p, "kubeconfig");

	if (mkdir(dir, 0700) < 0 && errno != EEXIST)
		return rf_fail_errno(err, "create %s", dir);
	if (write_kubeconfig(p, in_data(p, "kubeconfig/admin"), admin, masters, err) < 0 ||
	    write_kubeconfig(p, in_data(p, "kubeconfig/control"), RF_LIT(RF_CONTROL_USER),
			     RF_LIT("system:ringfence"), err) < 0 ||
	    write_kubeconfig(p, in_data(p, "kubeconfig/node"), node, RF_LIT(RF_NODES_GROUP), err) <
		    0)
		return -err->code;
	if (p->opts->kubeconfig_path == NULL)
		return 0;
	return write_kubeconfig(p, p->opts->kubeconfig_path, admin, masters, err);
}

static int make_tls(struct process *p, struct rf_err *err)
{
	struct rf_str cert, key;

	if (rf_tls_server(p->pki.server_cert, p->pki.server_key, p->pki.ca_cert, &p->tls, err) < 0)
		return -err->code;
	if (issue_client(p, RF_LIT("system:apiserver"), RF_LIT(RF_MASTERS), &cert, &key, err) < 0)
		return -err->code;
	return rf_tls_client(p->pki.ca_cert, cert, key, &p->api.node_tls, err);
}

/* --- listening ------------------------------------------------------------------------------ */

static uint16_t last_port(struct process *p)
{
	struct rf_str text;
	int64_t port;

	if (rf_fs_read(&p->a, in_data(p, "apiserver.port"), 16, &text, NULL) < 0 ||
	    rf_str_int(rf_str_trim(text), &port, NULL) < 0 || port < 1 || port > 65535)
		return 0;
	return (uint16_t)port;
}

static int listen_on(struct process *p, uint16_t port, struct rf_err *err)
{
	struct rf_http_server_opts o = { .address = p->opts->listen_address,
					 .port = port,
					 .tls = p->tls,
					 .body_max = RF_BODY_MAX,
					 .connections_max = CONNECTIONS_MAX,
					 .handler = rf_api_handle,
					 .ctx = &p->api };

	return rf_http_listen(&p->loop, &o, &p->http, err);
}

/* After a restart clients should find the server where it was. */
static int start_listening(struct process *p, struct rf_err *err)
{
	uint16_t again = p->opts->listen_port == 0 ? last_port(p) : 0;

	if ((again == 0 || listen_on(p, again, err) < 0) &&
	    listen_on(p, p->opts->listen_port, err) < 0)
		return -err->code;
	return rf_fs_write(in_data(p, "apiserver.port"),
			   rf_arena_printf(&p->a, "%u\n", rf_http_server_port(p->http)), 0600,
			   false, err);
}

/* --- the loop ------------------------------------------------------------------------------- */

static void on_tick(uv_timer_t *t)
{
	struct process *p = t->data;

	rf_api_tick(&p->api);
	/* What a large list needed goes back to the system, not into a pool of our own. */
	if (p->api.ticks % 10 == 0)
		malloc_trim(0);
}

static void on_signal(uv_signal_t *s, int signum)
{
	uv_stop(s->loop);
}

static void on_late(uv_timer_t *t)
{
	uv_stop(t->loop);
}

static void start_loop_handles(struct process *p)
{
	uv_signal_init(&p->loop, &p->term);
	uv_signal_init(&p->loop, &p->intr);
	uv_timer_init(&p->loop, &p->tick);
	p->tick.data = p;
	uv_signal_start(&p->term, on_signal, SIGTERM);
	uv_signal_start(&p->intr, on_signal, SIGINT);
	uv_timer_start(&p->tick, on_tick, 1000, 1000);
}

/* Clients that do not read, or do not hang up, must not keep the server from ending: false if some are
 * left, whose memory then goes with the process. */
static bool say_goodbye(struct process *p)
{
	uv_timer_t late;

	uv_timer_init(&p->loop, &late);
	uv_timer_start(&late, on_late, GOODBYE_MS, 0);
	uv_unref((uv_handle_t *)&late);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	uv_close((uv_handle_t *)&late, NULL);
	return uv_run(&p->loop, UV_RUN_NOWAIT) == 0;
}

static void stop(struct process *p)
{
	uv_close((uv_handle_t *)&p->term, NULL);
	uv_close((uv_handle_t *)&p->intr, NULL);
	uv_close((uv_handle_t *)&p->tick, NULL);
	if (p->api.hub != NULL)
		rf_api_close_watches(&p->api);
	if (p->http != NULL)
		rf_http_server_close(p->http, NULL, NULL);
	bool all_gone = say_goodbye(p);

	rf_api_done(&p->api);
	if (!all_gone) {
		fflush(stdout);
		_exit(0);
	}
	rf_tls_free(p->tls);
	uv_loop_close(&p->loop);
	if (p->lock >= 0)
		close(p->lock);
	rf_arena_done(&p->a);
}

static int serve(struct process *p, struct rf_err *err)
{
	if (take_lock(p, err) < 0 || make_pki(p, err) < 0 ||
	    rf_api_open(&p->api, &p->loop, rf_clock_system(), in_data(p, "state.db"), p->pki.sa_key,
			p->pki.sa_pub, err) < 0 ||
	    make_tls(p, err) < 0 || start_listening(p, err) < 0 || write_kubeconfigs(p, err) < 0)
		return -err->code;
	printf("apiserver https://%s:%u\n", p->opts->listen_address, rf_http_server_port(p->http));
	fflush(stdout);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	return 0;
}

/* Every watch is a connection, and every connection a descriptor. */
static void raise_limits(void)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0 || r.rlim_cur >= FILES_WANTED)
		return;
	r.rlim_cur = RF_MIN((rlim_t)FILES_WANTED, r.rlim_max);
	if (setrlimit(RLIMIT_NOFILE, &r) < 0)
		rf_warn("raise the limit of open files: %m");
}

int rf_apiserver_run(const struct rf_apiserver_opts *opts, struct rf_err *err)
{
	struct process p = { .opts = opts, .lock = -1 };
	int r;

	signal(SIGPIPE, SIG_IGN);
	umask(077);
	raise_limits();
	uv_loop_init(&p.loop);
	start_loop_handles(&p);
	r = serve(&p, err);
	stop(&p);
	return r;
}
