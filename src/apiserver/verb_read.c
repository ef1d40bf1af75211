/* get and list. */
#include "apiserver/admission.h"
#include "apiserver/api.h"
#include "apiserver/table.h"
#include "codec/base64.h"

int rf_verb_get(struct rf_req *r, struct rf_err *err)
{
	const struct rf_route *t = &r->route;
	struct rf_json *o;

	if (rf_admit_node_read(r, t->kind, err) < 0 ||
	    rf_store_get(r->api->store, r->a, t->kind, t->ns, t->name, &o, err) < 0)
		return -err->code;
	rf_reply_object(r, 200, o);
	return 0;
}

/* --- continue tokens ------------------------------------------------------------------------ */

/* Later pages show the present, not a snapshot; they carry the resourceVersion of the first page, so a
 * watch from there tells everything that happened while the pages were read. */
struct page {
	int64_t rv;
	struct rf_str after_ns, after_name;
};

static int read_page(struct rf_req *r, struct page *ret, struct rf_err *err)
{
	struct rf_str token = rf_query(r, "continue"), text;
	struct rf_json *o;

	*ret = (struct page){ rf_store_rv(r->api->store), RF_STR_EMPTY, RF_STR_EMPTY };
	if (token.n == 0)
		return 0;
	if (rf_base64url_decode(r->a, token, &text, err) < 0 ||
	    rf_json_parse(r->a, text, &o, err) < 0 ||
	    !rf_json_is_int(rf_json_at(o, "rv"), &ret->rv))
		return rf_fail(err, RF_BAD_REQUEST, "continue key is not valid");
	if (ret->rv < rf_store_oldest(r->api->store))
		return rf_fail(
			err, RF_GONE,
			"The provided continue parameter is too old to display a consistent list "
			"result. You can start a new list without the continue parameter.");
	ret->after_ns = rf_json_str_at(o, "ns");
	ret->after_name = rf_json_str_at(o, "name");
	return 0;
}

static struct rf_str page_token(struct rf_arena *a, const struct page *p)
{
	struct rf_json *o =
		rf_json_make(a, "{'rv':%D,'ns':%S,'name':%S}", p->rv, p->after_ns, p->after_name);

	return rf_base64url_encode(a, rf_json_text_of(a, o));
}

/* --- list ----------------------------------------------------------------------------------- */

struct lister {
	struct rf_req *r;
	struct rf_filter filter;
	struct rf_buf *out;
	struct rf_table table;
	struct page last;
	int64_t limit; /* 0: none */
	int64_t n;
	bool more;
};

static void add_item(struct lister *l, const struct rf_row *row, const struct rf_json *o)
{
	if (l->r->form == RF_FORM_TABLE) {
		rf_table_row(&l->table, o);
	} else {
		if (l->n > 0)
			rf_buf_add_c(l->out, ',');
		if (l->r->form == RF_FORM_META)
			rf_table_meta(l->out, o);
		else if (l->r->route.version.n > 0)
			rf_json_write(l->out, rf_as_asked(l->r->a, &l->r->route, o));
		else
			rf_buf_add(l->out, row->json);
	}
	l->last.after_ns = rf_arena_str(l->r->a, row->ns);
	l->last.after_name = rf_arena_str(l->r->a, row->name);
	l->n++;
}

static int list_row(void *ctx, const struct rf_row *row)
{
	struct lister *l = ctx;
	bool parse = l->filter.labels != NULL || l->filter.fields != NULL ||
		     l->r->form != RF_FORM_FULL || l->r->route.version.n > 0;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;

	if (parse && rf_json_parse(&a, row->json, &o, NULL) < 0)
		return 0;
	if (parse && !rf_filter_match(&l->filter, o))
		return 0;
	if (l->limit > 0 && l->n == l->limit) {
		l->more = true;
		return 1;
	}
	add_item(l, row, o);
	return 0;
}

static void begin(struct lister *l)
{
	const struct rf_route *t = &l->r->route;
	const struct rf_kind *k = t->kind;
	struct rf_str version = t->version.n > 0 ? t->version : rf_str(k->version);

	if (l->r->form == RF_FORM_TABLE)
		rf_table_begin(&l->table, l->out, k, rf_wall_ms(l->r->api->clock),
			       l->r->include_objects);
	else if (l->r->form == RF_FORM_META)
		rf_buf_puts(l->out, "{\"kind\":\"PartialObjectMetadataList\","
				    "\"apiVersion\":\"meta.k8s.io/v1\",\"items\":[");
	else
		rf_buf_printf(l->out, "{\"kind\":\"%sList\",\"apiVersion\":\"%.*s\",\"items\":[",
			      k->kind, RF_STR(rf_kind_api_version_as(l->r->a, k, version)));
}

static void finish(struct lister *l)
{
	struct rf_str token = l->more ? page_token(l->r->a, &l->last) : RF_STR_EMPTY;
	struct rf_str rv = rf_arena_printf(l->r->a, "%lld", (long long)l->last.rv);

	if (l->r->form == RF_FORM_TABLE) {
		rf_table_end(&l->table, rv, token);
		return;
	}
	rf_buf_printf(l->out, "],\"metadata\":{\"resourceVersion\":\"%.*s\"", RF_STR(rv));
	if (token.n > 0)
		rf_buf_printf(l->out, ",\"continue\":\"%.*s\"", RF_STR(token));
	rf_buf_puts(l->out, "}}\n");
}

/* We always answer with the newest state, which is not older than anything asked for. */
static int check_rv(struct rf_req *r, struct rf_err *err)
{
	struct rf_str text = rf_query(r, "resourceVersion");
	int64_t rv = 0, now = rf_store_rv(r->api->store);

	if (text.n > 0 && (rf_str_int(text, &rv, NULL) < 0 || rv < 0))
		return rf_fail(err, RF_BAD_REQUEST, "resourceVersion: Invalid value: \"%.*s\"",
			       RF_STR(text));
	if (rv > now)
		return rf_fail(err, RF_TIMEOUT, "Too large resource version: %lld, current: %lld",
			       (long long)rv, (long long)now);
	if (rf_str_is(rf_query(r, "resourceVersionMatch"), "Exact") && rv != now)
		return rf_fail(err, RF_GONE,
			       "The provided resource version is no longer available");
	return 0;
}

int rf_verb_list(struct rf_req *r, struct rf_err *err)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct lister l = { .r = r, .out = &out };
	struct rf_list how = {
		.kind = r->route.kind, .ns = r->route.ns, .each = list_row, .ctx = &l
	};

	rf_str_int(rf_query(r, "limit"), &l.limit, NULL);
	if (l.limit < 0)
		l.limit = 0;
	if (check_rv(r, err) < 0 || rf_filter_read(r, r->a, &l.filter, err) < 0 ||
	    read_page(r, &l.last, err) < 0)
		return -err->code;
	how.after_ns = l.last.after_ns;
	how.after_name = l.last.after_name;
	begin(&l);
	if (rf_store_list(r->api->store, &how, err) < 0)
		return -err->code;
	finish(&l);
	rf_reply_json(r, 200, rf_buf_str(&out));
	return 0;
}
