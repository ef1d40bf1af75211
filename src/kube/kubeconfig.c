#include "kube/private.h"

#include <stdio.h>

#include "base/fs.h"
#include "codec/base64.h"
#include "codec/yaml.h"

#define CONFIG_MAX ((size_t)1 << 20)
#define SECRETS "/var/run/secrets/kubernetes.io/serviceaccount"

struct source {
	struct rf_arena *a;
	const char *path; /* of the kubeconfig, for messages and for what is relative to it */
	struct rf_err *err;
};

/* --- pieces of the file ----------------------------------------------------------------------- */

static int bad(const struct source *s, const char *what, struct rf_str name)
{
	return rf_fail(s->err, RF_INVALID, "kubeconfig %s: %s%.*s", s->path, what,
		       (int)RF_MIN(name.n, (size_t)256), name.p);
}

/* contexts, clusters and users are lists of {name, <one>: {...}}. */
static const struct rf_json *named(const struct rf_json *doc, const char *list, const char *one,
				   struct rf_str name)
{
	const struct rf_json *all = rf_json_at(doc, list);

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(all, i), "name"), name))
			return rf_json_at(rf_json_item(all, i), one);
	return NULL;
}

static const char *beside(const struct source *s, struct rf_str file)
{
	const char *slash = strrchr(s->path, '/');

	if (file.p[0] == '/' || slash == NULL)
		return rf_arena_cstr(s->a, file);
	return rf_arena_printf(s->a, "%.*s/%.*s", (int)(slash - s->path), s->path, RF_STR(file)).p;
}

/* Either `<field>-data` in base64 or `<field>`, a file's name; neither leaves *ret empty. */
static int read_blob(const struct source *s, const struct rf_json *from, const char *field,
		     struct rf_str *ret)
{
	struct rf_str data =
		rf_json_str(rf_json_get(from, rf_arena_printf(s->a, "%s-data", field)));
	struct rf_str file = rf_json_str(rf_json_get(from, rf_str(field)));

	if (data.n > 0) {
		if (rf_base64_decode(s->a, data, ret, s->err) < 0)
			return s->err ? rf_wrap(s->err, "kubeconfig %s: %s-data", s->path, field)
				      : -RF_INVALID;
		return 0;
	}
	*ret = RF_STR_EMPTY;
	if (file.n > 0 && rf_fs_read(s->a, beside(s, file), CONFIG_MAX, ret, s->err) < 0)
		return s->err ? rf_wrap(s->err, "kubeconfig %s: %s", s->path, field)
			      : -RF_NOT_FOUND;
	return 0;
}

static bool is_loopback(struct rf_str host)
{
	return rf_str_is(host, "127.0.0.1") || rf_str_is(host, "::1") ||
	       rf_str_is(host, "localhost");
}

static bool split_authority(struct rf_str authority, struct rf_str *host, struct rf_str *port)
{
	struct rf_str rest = authority;

	if (rf_str_starts(rest, RF_LIT("["))) {
		rest = rf_str_skip(rest, 1);
		if (!rf_str_cut(&rest, ']', host) || (rest.n > 0 && rest.p[0] != ':'))
			return false;
		*port = rf_str_skip(rest, 1);
		return rest.n != 1;
	}
	if (!rf_str_cut(&rest, ':', host)) {
		*port = RF_STR_EMPTY;
		return true;
	}
	*port = rest;
	return rest.n > 0;
}

static int parse_server(const struct source *s, struct rf_str url, struct rf_kubeconfig *c,
			bool *ret_tls)
{
	struct rf_str rest = RF_STR_EMPTY, authority = RF_STR_EMPTY, port = RF_STR_EMPTY;
	int64_t number = 0;

	*ret_tls = rf_str_starts(url, RF_LIT("https://"));
	if (!*ret_tls && !rf_str_starts(url, RF_LIT("http://")))
		return bad(s, "server must be https://host:port, not ", url);
	rest = rf_str_skip(url, *ret_tls ? 8 : 7);
	rf_str_cut(&rest, '/', &authority);
	if (rest.n > 0)
		return bad(s, "a path behind the server's address is not supported: ", url);
	if (!split_authority(authority, &c->host, &port) || c->host.n == 0 ||
	    memchr(authority.p, '@', authority.n) != NULL)
		return bad(s, "server must be https://host:port, not ", url);
	number = *ret_tls ? 443 : 80;
	if (port.n > 0 && (rf_str_int(port, &number, NULL) < 0 || number < 1 || number > 65535))
		return bad(s, "server has no valid port: ", url);
	if (!*ret_tls && !is_loopback(c->host))
		return bad(s, "plain http is for loopback only; use https:// in server ", url);
	c->port = (uint16_t)number;
	return 0;
}

/* What would change who is trusted or who one is, if it were overlooked. */
static int refuse_unknown(const struct source *s, const struct rf_json *cluster,
			  const struct rf_json *user)
{
	static const char *const CLUSTER[] = { "tls-server-name", "proxy-url" };
	static const char *const USER[] = { "exec", "auth-provider", "username", "password", "as" };

	if (rf_json_is_true(rf_json_at(cluster, "insecure-skip-tls-verify")))
		return bad(
			s,
			"insecure-skip-tls-verify is refused; give certificate-authority instead",
			RF_STR_EMPTY);
	for (size_t i = 0; i < RF_COUNT(CLUSTER); i++)
		if (rf_json_at(cluster, CLUSTER[i]) != NULL)
			return bad(s, "not supported in a cluster: ", rf_str(CLUSTER[i]));
	for (size_t i = 0; i < RF_COUNT(USER); i++)
		if (rf_json_at(user, USER[i]) != NULL)
			return bad(s,
				   "not supported in a user (a client certificate or a token is): ",
				   rf_str(USER[i]));
	return 0;
}

static int read_cluster(const struct source *s, const struct rf_json *cluster,
			struct rf_kubeconfig *c)
{
	bool tls = false;
	int rc = parse_server(s, rf_json_str_at(cluster, "server"), c, &tls);

	if (rc == 0)
		rc = read_blob(s, cluster, "certificate-authority", &c->ca_pem);
	if (rc < 0)
		return rc;
	if (tls && c->ca_pem.n == 0)
		return bad(
			s,
			"the cluster names no certificate-authority; who signed its certificate?",
			RF_STR_EMPTY);
	if (!tls && c->ca_pem.n > 0)
		return bad(s,
			   "the cluster has a certificate-authority but its server is not https://",
			   RF_STR_EMPTY);
	return 0;
}

static int read_user(const struct source *s, const struct rf_json *user, struct rf_kubeconfig *c)
{
	struct rf_str file = rf_json_str_at(user, "tokenFile");
	int rc = read_blob(s, user, "client-certificate", &c->cert_pem);

	if (rc == 0)
		rc = read_blob(s, user, "client-key", &c->key_pem);
	if (rc < 0)
		return rc;
	if ((c->cert_pem.n > 0) != (c->key_pem.n > 0))
		return bad(s, "client-certificate and client-key go together; one is missing",
			   RF_STR_EMPTY);
	c->token = rf_str_trim(rf_json_str_at(user, "token"));
	if (file.n == 0)
		return 0;
	c->token_file = rf_str(beside(s, file));
	if (rf_fs_read(s->a, c->token_file.p, CONFIG_MAX, &c->token, s->err) < 0)
		return s->err ? rf_wrap(s->err, "kubeconfig %s: tokenFile", s->path)
			      : -RF_NOT_FOUND;
	c->token = rf_str_trim(c->token);
	return 0;
}

static int parse_text(const struct source *s, struct rf_str text, struct rf_json **ret)
{
	struct rf_json *docs = NULL;
	int rc = 0;

	/* What begins like JSON may be YAML's flow style; the message is then the YAML reader's. */
	if (rf_str_starts(rf_str_trim(text), RF_LIT("{")) && rf_json_parse(s->a, text, ret, NULL) == 0)
		return 0;
	if ((rc = rf_yaml_parse(s->a, text, &docs, s->err)) == 0 && rf_json_len(docs) > 0)
		*ret = rf_json_item(docs, 0);
	else if (rc == 0)
		return bad(s, "the file is empty", RF_STR_EMPTY);
	return rc < 0 && s->err != NULL ? rf_wrap(s->err, "kubeconfig %s", s->path) : rc;
}

static int read_context(const struct source *s, const struct rf_json *doc, struct rf_kubeconfig *c)
{
	struct rf_str current = rf_json_str_at(doc, "current-context"), ns;
	const struct rf_json *context = NULL, *cluster = NULL, *user = NULL;
	int rc = 0;

	if (current.n == 0)
		return bad(s, "no current-context; set one with kubectl config use-context",
			   RF_STR_EMPTY);
	context = named(doc, "contexts", "context", current);
	if (context == NULL)
		return bad(s, "current-context names a context that is not there: ", current);
	cluster = named(doc, "clusters", "cluster", rf_json_str_at(context, "cluster"));
	if (cluster == NULL)
		return bad(s, "no such cluster: ", rf_json_str_at(context, "cluster"));
	user = named(doc, "users", "user", rf_json_str_at(context, "user"));
	if (user == NULL && rf_json_str_at(context, "user").n > 0)
		return bad(s, "no such user: ", rf_json_str_at(context, "user"));
	rc = refuse_unknown(s, cluster, user);
	if (rc == 0)
		rc = read_cluster(s, cluster, c);
	if (rc == 0)
		rc = read_user(s, user, c);
	ns = rf_json_str_at(context, "namespace");
	c->ns = ns.n > 0 ? ns : RF_LIT("default");
	return rc;
}

static int default_path(struct rf_arena *a, const char **ret, struct rf_err *err)
{
	const char *env = getenv("KUBECONFIG"), *home = getenv("HOME");

	if (env != NULL && env[0] != '\0') {
		if (strchr(env, ':') != NULL)
			return rf_fail(err, RF_INVALID,
				       "KUBECONFIG names several files (%s); ringfence reads one: "
				       "choose it with --kubeconfig",
				       env);
		*ret = env;
		return 0;
	}
	if (home == NULL || home[0] == '\0')
		return rf_fail(err, RF_NOT_FOUND,
			       "no kubeconfig: neither KUBECONFIG nor HOME is set");
	*ret = rf_arena_printf(a, "%s/.kube/config", home).p;
	return 0;
}

int rf_kubeconfig_load(struct rf_arena *a, const char *path, struct rf_kubeconfig *ret,
		       struct rf_err *err)
{
	struct source s = { .a = a, .path = path, .err = err };
	struct rf_kubeconfig c = { 0 };
	struct rf_json *doc = NULL;
	struct rf_str text = RF_STR_EMPTY;
	int rc = path == NULL ? default_path(a, &s.path, err) : 0;

	if (rc < 0)
		return rc;
	rc = rf_fs_read(a, s.path, CONFIG_MAX, &text, err);
	if (rc < 0)
		return err ? rf_wrap(err, "kubeconfig") : rc;
	rc = parse_text(&s, text, &doc);
	if (rc == 0)
		rc = read_context(&s, doc, &c);
	if (rc == 0)
		*ret = c;
	return rc;
}

int rf_kubeconfig_in_cluster(struct rf_arena *a, struct rf_kubeconfig *ret, struct rf_err *err)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *port = getenv("KUBERNETES_SERVICE_PORT");
	struct rf_kubeconfig c = { .host = rf_arena_str(a, rf_str(host)), .ns = RF_LIT("default") };
	int64_t number = 0;
	int rc = 0;

	if (host == NULL || port == NULL)
		return rf_fail(err, RF_NOT_FOUND,
			       "not in a Kubernetes pod: KUBERNETES_SERVICE_HOST and "
			       "KUBERNETES_SERVICE_PORT are not set; give --kubeconfig");
	if (rf_str_int(rf_str(port), &number, NULL) < 0 || number < 1 || number > 65535)
		return rf_fail(err, RF_INVALID, "KUBERNETES_SERVICE_PORT is not a port: %s", port);
	c.port = (uint16_t)number;
	c.token_file = RF_LIT(SECRETS "/token");
	rc = rf_fs_read(a, SECRETS "/ca.crt", CONFIG_MAX, &c.ca_pem, err);
	if (rc == 0)
		rc = rf_fs_read(a, SECRETS "/token", CONFIG_MAX, &c.token, err);
	if (rc < 0)
		return err ? rf_wrap(err, "service account of this pod") : rc;
	c.token = rf_str_trim(c.token);
	/* Absent in pods that mount their token themselves. */
	if (rf_fs_read(a, SECRETS "/namespace", 4096, &c.ns, NULL) == 0)
		c.ns = rf_str_trim(c.ns);
	*ret = c;
	return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void set_data(struct rf_arena *a, struct rf_json *in, const char *key, struct rf_str bytes)
{
	if (bytes.n > 0)
		rf_json_set_str(a, in, key, rf_base64_encode(a, bytes));
}

struct rf_str rf_kubeconfig_text(struct rf_arena *a, const struct rf_kubeconfig *c,
				 struct rf_str user)
{
	rf_auto(buf) out = RF_BUF_INIT;
	bool v6 = memchr(c->host.p, ':', c->host.n) != NULL;
	struct rf_str server =
		rf_arena_printf(a, "%s://%s%.*s%s:%u", c->ca_pem.n > 0 ? "https" : "http",
				v6 ? "[" : "", RF_STR(c->host), v6 ? "]" : "", c->port);
	struct rf_json *cluster = rf_json_make(a, "{'server':%S}", server);
	struct rf_json *who = rf_json_object(a);

	set_data(a, cluster, "certificate-authority-data", c->ca_pem);
	set_data(a, who, "client-certificate-data", c->cert_pem);
	set_data(a, who, "client-key-data", c->key_pem);
	if (c->token.n > 0)
		rf_json_set_str(a, who, "token", c->token);
	rf_yaml_write(
		&out,
		rf_json_make(a,
			     "{'apiVersion':'v1','kind':'Config','current-context':'ringfence',"
			     "'clusters':[{'name':'ringfence','cluster':%j}],"
			     "'users':[{'name':%S,'user':%j}],'contexts':[{'name':'ringfence',"
			     "'context':{'cluster':'ringfence','user':%S,'namespace':%S}}]}",
			     cluster, user, who, user, c->ns.n > 0 ? c->ns : RF_LIT("default")));
	return rf_arena_str(a, rf_buf_str(&out));
}
