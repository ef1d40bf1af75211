/* The dashboard: what the informers know, as rows, behind TLS and an access token. */
#include "control/private.h"

#include <stdio.h>

#include "base/fs.h"
#include "net/tls.h"
#include "web/view.h"
#include "web/web.h"

#define CERT_DAYS 3650
#define FILE_MAX (64 * 1024)

static struct rf_json *all(struct rf_control *c, struct rf_arena *a, enum rf_informer_kind kind)
{
	struct rf_json *items = rf_json_array(a);
	const struct rf_map_slot *slot = NULL;
	const struct rf_json *o = NULL;

	while (c->informers[kind] != NULL && (o = rf_informer_next(c->informers[kind], &slot)) != NULL)
		rf_json_push(a, items, (struct rf_json *)o); /* only read, and gone before the loop goes on */
	return items;
}

static int by_place(const void *x, const void *y)
{
	static const char *const keys[] = { "node", "card", "namespace", "pod", "name" };
	const struct rf_json *a = *(struct rf_json *const *)x, *b = *(struct rf_json *const *)y;
	int order = 0;

	for (size_t i = 0; order == 0 && i < RF_COUNT(keys); i++)
		order = rf_str_cmp(rf_json_str_at(a, keys[i]), rf_json_str_at(b, keys[i]));
	return order;
}

/* Informers give their objects in no order; a page must not jump about. */
static struct rf_json *sorted(struct rf_json *rows)
{
	if (rows->n > 1)
		qsort(rows->items, rows->n, sizeof(rows->items[0]), by_place);
	return rows;
}

static struct rf_json *state(void *ctx, struct rf_arena *a)
{
	struct rf_control *c = ctx;
	struct rf_json *claims = all(c, a, RF_I_CLAIMS);
	struct rf_json *cards = rf_view_cards(a, all(c, a, RF_I_SLICES), claims);
	struct rf_json *pods = rf_view_pods(a, all(c, a, RF_I_PODS), all(c, a, RF_I_NAMESPACES), claims,
					    rf_wall_ms(rf_clock_system()));
	struct rf_json *tenants = rf_view_tenants(a, all(c, a, RF_I_TENANTS));

	return rf_json_make(a, "{'cards':%j,'pods':%j,'tenants':%j}", sorted(cards), sorted(pods), sorted(tenants));
}

/* Drawn once and kept, so that an open page survives a restart. */
static int access_token(struct rf_control *c, struct rf_arena *a, struct rf_str *ret, struct rf_err *err)
{
	const char *path = rf_fs_path(a, "%s/dashboard.token", c->opts->data_dir);
	int r = rf_fs_read(a, path, FILE_MAX, ret, err);

	if (r == 0 && ret->n >= 32)
		return 0;
	if (r < 0 && r != -RF_NOT_FOUND)
		return r;
	*ret = rf_rand_uuid(a);
	return rf_fs_write(path, *ret, 0600, true, err);
}

static int own_certificate(struct rf_control *c, struct rf_arena *a, struct rf_err *err)
{
	struct rf_str ca = RF_STR_EMPTY, ca_key = RF_STR_EMPTY, cert = RF_STR_EMPTY, key = RF_STR_EMPTY;
	struct rf_str hosts[] = { rf_str(c->opts->listen_address), RF_LIT("localhost") };
	struct rf_pki_ask ask = { .common_name = RF_LIT("ringfence-dashboard"), .hosts = hosts,
				  .n_hosts = RF_COUNT(hosts), .server = true, .days = CERT_DAYS };

	if (rf_fs_read(a, rf_fs_path(a, "%s/ca.crt", c->opts->pki_dir), FILE_MAX, &ca, err) < 0 ||
	    rf_fs_read(a, rf_fs_path(a, "%s/ca.key", c->opts->pki_dir), FILE_MAX, &ca_key, err) < 0 ||
	    rf_pki_issue(a, ca, ca_key, &ask, &cert, &key, err) < 0)
		return -err->code;
	return rf_tls_server(cert, key, RF_STR_EMPTY, &c->dashboard_tls, err);
}

/* With port 0, the port of the last run first: the address that was printed stays good. */
static int listen_somewhere(struct rf_control *c, struct rf_arena *a, struct rf_web_opts *web, struct rf_err *err)
{
	const char *path = rf_fs_path(a, "%s/dashboard.port", c->opts->data_dir);
	struct rf_str text = RF_STR_EMPTY;
	int64_t last = 0;

	web->port = c->opts->listen_port;
	if (web->port == 0 && rf_fs_read(a, path, 16, &text, NULL) == 0 &&
	    rf_str_int(rf_str_trim(text), &last, NULL) == 0 && last > 0 && last < 65536) {
		web->port = (uint16_t)last;
		if (rf_web_start(&c->loop, web, &c->dashboard, NULL) == 0)
			return 0;
		web->port = 0;
	}
	if (rf_web_start(&c->loop, web, &c->dashboard, err) < 0)
		return -err->code;
	return rf_fs_write(path, rf_arena_printf(a, "%u\n", rf_web_port(c->dashboard)), 0600, false, err);
}

int rf_control_dashboard(struct rf_control *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_web_opts web = { .address = c->opts->listen_address, .state = state, .ctx = c };

	if (c->opts->listen_address == NULL || c->dashboard != NULL)
		return 0;
	if (c->opts->pki_dir == NULL || c->opts->data_dir == NULL)
		return rf_fail(err, RF_BAD_REQUEST, "the dashboard needs --pki and --data");
	if (own_certificate(c, &a, err) < 0 || access_token(c, &a, &web.token, err) < 0)
		return rf_wrap(err, "dashboard");
	web.tls = c->dashboard_tls;
	if (listen_somewhere(c, &a, &web, err) < 0)
		return -err->code;
	printf("dashboard https://%s:%u/#token=%.*s\n", c->opts->listen_address, rf_web_port(c->dashboard),
	       RF_STR(web.token));
	fflush(stdout);
	return 0;
}
