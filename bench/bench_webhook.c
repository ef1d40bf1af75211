/* How many AdmissionReviews per second the webhook answers over TLS with keep-alive, and how fast.
 *
 *	bench_webhook [-p POLICIES]... [-c CONNECTIONS] [-r RATE] [-s SECONDS] [-f REVIEW.json]
 *
 * The webhook runs in a child of its own, on one core; the callers here, on another. POLICIES: folders or
 * files of templates and constraints, read as the webhook's book. RATE 0: every caller sends its next review
 * when the last one was answered (closed loop). Otherwise RATE per second are due, evenly; one that finds
 * no caller free waits, and its wait counts. Prints reviews per second, percentiles, and the webhook's CPU. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fs.h"
#include "codec/yaml.h"
#include "control/private.h"
#include "net/tls.h"

#define CALLERS_MAX 256
#define ANSWER_MAX (256 * 1024)

static void die(const char *what)
{
	fprintf(stderr, "bench_webhook: %s\n", what);
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	(void)sched_setaffinity(0, sizeof(set), &set);
}

/* --- the webhook -------------------------------------------------------------------------------- */

static struct {
	struct rf_arena a;
	struct rf_reviewer r;
	struct rf_book *book;
	struct rf_json *ns;
	size_t templates, constraints;
} hook;

static const struct rf_json *get(void *ctx RF_UNUSED, const struct rf_kube_res *res,
				 struct rf_str ns RF_UNUSED, struct rf_str name RF_UNUSED)
{
	return res == &RF_NAMESPACES ? hook.ns : NULL;
}

static const struct rf_json *next(void *ctx RF_UNUSED, const struct rf_kube_res *res RF_UNUSED,
				  const void **cursor RF_UNUSED)
{
	return NULL;
}

/* Of each template's constraints the first: samples have many of one name. */
static bool is_new(const struct rf_json *o)
{
	static struct rf_map seen;
	struct rf_str kind = rf_json_str_at(o, "kind");

	if (!rf_str_starts(rf_json_str_at(o, "apiVersion"), RF_LIT("constraints.gatekeeper.sh/")))
		return true;
	return rf_map_set(&seen, kind, hook.book) == NULL;
}

static int take_file(const char *file, struct rf_err *err)
{
	struct rf_json *docs = NULL;
	struct rf_str text;

	if (rf_fs_read(&hook.a, file, (size_t)4 << 20, &text, err) < 0 ||
	    rf_yaml_parse(&hook.a, text, &docs, err) < 0)
		return -err->code;
	for (size_t i = 0; i < rf_json_len(docs); i++) {
		struct rf_json *o = rf_json_item(docs, i);

		if (!rf_book_is_policy(o) || !is_new(o))
			continue;
		if (rf_book_put(hook.book, o, err) < 0)
			fprintf(stderr, "bench_webhook: %s: %s\n", file, err->msg);
		else if (rf_str_is(rf_json_str_at(o, "kind"), "ConstraintTemplate"))
			hook.templates++;
		else
			hook.constraints++;
	}
	return 0;
}

static void take(const char *path)
{
	rf_auto(buf) command = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	char file[4096];
	FILE *find;

	rf_buf_printf(&command, "find '%s' -name 'template.yaml' -o -name 'constraint*.yaml' | sort", path);
	find = popen(command.p, "r");
	if (find == NULL)
		die("cannot run find");
	while (fgets(file, sizeof(file), find) != NULL) {
		file[strcspn(file, "\n")] = '\0';
		if (take_file(file, &err) < 0)
			fprintf(stderr, "bench_webhook: %s\n", err.msg);
	}
	pclose(find);
}

static void on_request(void *ctx RF_UNUSED, struct rf_http_req *req)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;

	rf_arena_reset(&hook.a);
	hook.r.now_ms++;
	if (rf_webhook_review(&hook.r, &hook.a, RF_REVIEW_VALIDATE, req->body, &text, &err) < 0)
		rf_http_reply(req, rf_code_info(err.code)->http, "text/plain", rf_str(err.msg));
	else
		rf_http_reply(req, 200, "application/json", text);
}

/* Tells its port through the pipe, and serves until it is ended. */
static _Noreturn void serve(int out)
{
	static const struct rf_str host = RF_LIT("localhost");
	struct rf_http_server_opts o = { .address = "127.0.0.1", .handler = on_request };
	struct rf_pki_ask ask = { .common_name = host, .hosts = &host, .n_hosts = 1, .server = true, .days = 1 };
	struct rf_str ca, ca_key, cert, key;
	struct rf_http_server *server = NULL;
	struct rf_err err = RF_ERR_INIT;
	struct rf_tls *tls = NULL;
	uv_loop_t loop;
	uint16_t port;

	stay_on(0);
	hook.r.cluster = (struct rf_cluster){ .get = get, .next = next };
	hook.r.scheduler = "ringfence";
	hook.r.synced = hook.r.loaded = true;
	hook.r.book = hook.book;
	if (uv_loop_init(&loop) < 0 || rf_pki_new_ca(&hook.a, host, &ca, &ca_key, &err) < 0 ||
	    rf_pki_issue(&hook.a, ca, ca_key, &ask, &cert, &key, &err) < 0 ||
	    rf_tls_server(cert, key, RF_STR_EMPTY, &tls, &err) < 0)
		die(err.msg);
	o.tls = tls;
	if (rf_http_listen(&loop, &o, &server, &err) < 0)
		die(err.msg);
	port = rf_http_server_port(server);
	hook.a = (struct rf_arena)RF_ARENA_CAPPED((size_t)64 << 20); /* what was read before stays */
	if (write(out, &port, sizeof(port)) != sizeof(port))
		die("cannot tell the port");
	uv_run(&loop, UV_RUN_DEFAULT);
	_exit(0);
}

/* --- callers -------------------------------------------------------------------------------------- */

struct caller {
	int fd;
	SSL *ssl;
	bool busy;
	int64_t due; /* of the review under way */
	size_t n;    /* of the answer so far */
	char answer[ANSWER_MAX];
};

static struct {
	struct caller *caller;
	int n_callers, epoll;
	struct rf_buf request;
	int64_t *times;
	size_t n, room;
	size_t allowed, denied, other;
} load;

static void dial(struct caller *c, SSL_CTX *ctx, uint16_t port, int index)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = (uint32_t)index };
	int one = 1;

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("cannot connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	c->ssl = SSL_new(ctx);
	SSL_set_fd(c->ssl, c->fd);
	if (SSL_connect(c->ssl) != 1)
		die("TLS handshake failed");
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	epoll_ctl(load.epoll, EPOLL_CTL_ADD, c->fd, &ev);
}

static void ask(struct caller *c, int64_t due)
{
	c->busy = true;
	c->due = due;
	c->n = 0;
	if (SSL_write(c->ssl, load.request.p, (int)load.request.n) != (int)load.request.n)
		die("a review could not be sent in one piece");
}

/* True: all of the answer is here. */
static bool hear(struct caller *c)
{
	for (;;) {
		int got = SSL_read(c->ssl, c->answer + c->n, (int)(ANSWER_MAX - 1 - c->n));
		const char *body, *length;

		if (got <= 0) {
			if (SSL_get_error(c->ssl, got) != SSL_ERROR_WANT_READ)
				die("the webhook ended a connection");
			return false;
		}
		c->n += (size_t)got;
		c->answer[c->n] = '\0';
		body = strstr(c->answer, "\r\n\r\n");
		length = body ? strcasestr(c->answer, "Content-Length: ") : NULL;
		if (length && c->n >= (size_t)(body + 4 - c->answer) + strtoul(length + 16, NULL, 10))
			return true;
	}
}

static void count(struct caller *c, int64_t now)
{
	if (load.n == load.room) {
		load.room = load.room ? 2 * load.room : 1 << 20;
		load.times = rf_realloc(load.times, load.room * sizeof(*load.times));
	}
	load.times[load.n++] = now - c->due;
	if (strstr(c->answer, "\"allowed\":true"))
		load.allowed++;
	else if (strstr(c->answer, "\"allowed\":false"))
		load.denied++;
	else
		load.other++;
	if (load.n == 1)
		printf("first answer: %s\n", strstr(c->answer, "\r\n\r\n") + 4);
	c->busy = false;
}

static struct caller *idle(void)
{
	static int last;

	for (int i = 0; i < load.n_callers; i++) {
		last = (last + 1) % load.n_callers;
		if (!load.caller[last].busy)
			return &load.caller[last];
	}
	return NULL;
}

static void pump(int64_t until, double rate)
{
	struct epoll_event ev[CALLERS_MAX];
	int64_t begin = now_ns(), sent = 0;
	double step = rate > 0 ? 1e9 / rate : 0;

	while (now_ns() < until) {
		struct caller *c;
		int64_t now = now_ns(), wait;
		int n;

		while ((c = idle()) != NULL &&
		       (step == 0 || begin + (int64_t)((double)sent * step) <= now)) {
			ask(c, step == 0 ? now_ns() : begin + (int64_t)((double)sent * step));
			sent++;
		}
		wait = step == 0 ? 100000000 : begin + (int64_t)((double)sent * step) - now_ns();
		if (wait <= 0)
			wait = c == NULL ? 100000000 : 0; /* nobody is free: an answer is what we wait for */
		n = epoll_pwait2(load.epoll, ev, CALLERS_MAX, &(struct timespec){ .tv_nsec = wait }, NULL);
		for (int i = 0; i < n; i++) {
			c = &load.caller[ev[i].data.u32];
			if (hear(c))
				count(c, now_ns());
		}
	}
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static double percentile(double p)
{
	return (double)load.times[(size_t)((double)(load.n - 1) * p)] / 1e6;
}

static double cpu_of(pid_t pid)
{
	char path[64], text[1024] = "", *at;
	unsigned long user = 0, sys = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	if (f == NULL || fgets(text, sizeof(text), f) == NULL)
		die("cannot read the webhook's CPU");
	fclose(f);
	at = strrchr(text, ')');
	if (at == NULL || sscanf(at + 1, "%*s %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &sys) != 2)
		die("cannot read the webhook's CPU");
	return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

static const char POD[] =
	"{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":"
	"\"705ab4f5-6393-11e8-b7cc-42010a800002\",\"kind\":{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"},"
	"\"resource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":\"pods\"},\"requestKind\":{\"group\":\"\","
	"\"version\":\"v1\",\"kind\":\"Pod\"},\"requestResource\":{\"group\":\"\",\"version\":\"v1\",\"resource\":"
	"\"pods\"},\"name\":\"web-5d4f8c7b9-x2x9p\",\"namespace\":\"shop\",\"operation\":\"CREATE\",\"userInfo\":{"
	"\"username\":\"system:serviceaccount:kube-system:replicaset-controller\",\"uid\":\"u-1\",\"groups\":["
	"\"system:serviceaccounts\",\"system:serviceaccounts:kube-system\",\"system:authenticated\"]},\"object\":{"
	"\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web-5d4f8c7b9-x2x9p\",\"namespace\":\"shop\","
	"\"labels\":{\"app\":\"web\",\"owner\":\"me.agilebank.demo\",\"pod-template-hash\":\"5d4f8c7b9\"},"
	"\"annotations\":{\"a8r.io/owner\":\"dev-team\"},\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":"
	"\"ReplicaSet\",\"name\":\"web-5d4f8c7b9\",\"uid\":\"u-2\",\"controller\":true}]},\"spec\":{\"volumes\":[{"
	"\"name\":\"token\",\"projected\":{\"sources\":[{\"serviceAccountToken\":{\"expirationSeconds\":3607,\"path\":"
	"\"token\"}},{\"configMap\":{\"name\":\"kube-root-ca.crt\",\"items\":[{\"key\":\"ca.crt\",\"path\":\"ca.crt\"}]"
	"}}],\"defaultMode\":420}},{\"name\":\"cache\",\"emptyDir\":{}}],\"containers\":[{\"name\":\"web\",\"image\":"
	"\"openpolicyagent/opa@sha256:1e2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708\",\"args\":["
	"\"run\",\"--server\"],\"ports\":[{\"containerPort\":8080,\"protocol\":\"TCP\"}],\"resources\":{\"limits\":{"
	"\"cpu\":\"100m\",\"memory\":\"512Mi\"},\"requests\":{\"cpu\":\"100m\",\"memory\":\"512Mi\"}},\"volumeMounts\":"
	"[{\"name\":\"token\",\"mountPath\":\"/var/run/secrets/kubernetes.io/serviceaccount\",\"readOnly\":true},{"
	"\"name\":\"cache\",\"mountPath\":\"/cache\"}],\"readinessProbe\":{\"httpGet\":{\"path\":\"/ready\",\"port\":8080"
	"},\"periodSeconds\":5},\"livenessProbe\":{\"httpGet\":{\"path\":\"/live\",\"port\":8080},\"periodSeconds\":10},"
	"\"securityContext\":{\"allowPrivilegeEscalation\":false,\"readOnlyRootFilesystem\":true,\"runAsNonRoot\":true,"
	"\"runAsUser\":1000,\"capabilities\":{\"drop\":[\"ALL\"]}}}],\"restartPolicy\":\"Always\",\"serviceAccountName\":"
	"\"web\",\"securityContext\":{\"runAsNonRoot\":true,\"fsGroup\":150,\"seccompProfile\":{\"type\":"
	"\"RuntimeDefault\"}},\"schedulerName\":\"default-scheduler\",\"tolerations\":[{\"key\":"
	"\"node.kubernetes.io/not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\",\"tolerationSeconds\":300}],"
	"\"priority\":0,\"enableServiceLinks\":true}},\"oldObject\":null,\"dryRun\":false,\"options\":{\"kind\":"
	"\"CreateOptions\",\"apiVersion\":\"meta.k8s.io/v1\"}}}";

int main(int argc, char **argv)
{
	struct rf_str body = rf_str(POD);
	double rate = 0, seconds = 10, cpu, began;
	int connections = 32, option, pipes[2];
	struct rf_err err = RF_ERR_INIT;
	SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
	uint16_t port;
	pid_t child;

	hook.book = rf_book_new();
	hook.ns = rf_json_make(&hook.a, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'shop','labels':{"
					"'kubernetes.io/metadata.name':'shop','team':'web'}}}");
	while ((option = getopt(argc, argv, "p:c:r:s:f:")) != -1) {
		if (option == 'p')
			take(optarg);
		else if (option == 'c')
			connections = atoi(optarg);
		else if (option == 'r')
			rate = atof(optarg);
		else if (option == 's')
			seconds = atof(optarg);
		else if (option != 'f' || rf_fs_read(&hook.a, optarg, (size_t)3 << 20, &body, &err) < 0)
			die("usage: bench_webhook [-p POLICIES]... [-c CONNECTIONS] [-r RATE] [-s SECONDS] "
			    "[-f REVIEW.json]");
	}
	if (connections < 1 || connections > CALLERS_MAX || pipe(pipes) < 0)
		die("1 to 256 connections");
	printf("%zu templates, %zu constraints, a review of %zu bytes, %d connections\n", hook.templates,
	       hook.constraints, body.n, connections);
	fflush(stdout);
	child = fork();
	if (child == 0)
		serve(pipes[1]);
	if (child < 0 || read(pipes[0], &port, sizeof(port)) != sizeof(port))
		die("the webhook did not start");
	stay_on(1);
	load.epoll = epoll_create1(EPOLL_CLOEXEC);
	load.n_callers = connections;
	load.caller = rf_alloc((size_t)connections * sizeof(*load.caller));
	load.request = (struct rf_buf)RF_BUF_INIT;
	rf_buf_printf(&load.request,
		      "POST /validate?timeout=5s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: kube-apiserver-admission\r\n"
		      "Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: %zu\r\n\r\n",
		      body.n);
	rf_buf_add(&load.request, body);
	for (int i = 0; i < connections; i++)
		dial(&load.caller[i], ctx, port, i);
	pump(now_ns() + 1000000000, rate); /* to warm up */
	for (int i = 0; i < connections; i++)
		while (load.caller[i].busy)
			if (hear(&load.caller[i]))
				load.caller[i].busy = false;
	load.n = load.allowed = load.denied = load.other = 0;
	cpu = cpu_of(child);
	began = (double)now_ns();
	pump(now_ns() + (int64_t)(seconds * 1e9), rate);
	seconds = ((double)now_ns() - began) / 1e9;
	cpu = cpu_of(child) - cpu;
	kill(child, SIGTERM);
	waitpid(child, NULL, 0);
	qsort(load.times, load.n, sizeof(*load.times), by_size);
	printf("%.0f reviews/s (%zu allowed, %zu denied, %zu neither), %.0f%% of one core, %.1f us CPU each\n",
	       (double)load.n / seconds, load.allowed, load.denied, load.other, 100 * cpu / seconds,
	       1e6 * cpu / (double)load.n);
	printf("ms: p50 %.3f  p90 %.3f  p99 %.3f  p99.9 %.3f  max %.3f\n", percentile(.5), percentile(.9),
	       percentile(.99), percentile(.999), percentile(1));
	return 0;
}
