/* Answers: objects in the form asked for, errors as metav1.Status. */
#include "apiserver/api.h"
#include "apiserver/table.h"

static const char JSON[] = "application/json";

/* --- status --------------------------------------------------------------------------------- */

/* kubectl shows an Invalid by its kind, name and causes ("field: message") alone, so the cause is the
 * message without the words that kubectl puts before it, cut where the field ends. */
static void write_cause(struct rf_buf *out, const struct rf_err *err, struct rf_str name,
			const struct rf_kind *k)
{
	rf_auto(buf) opening = RF_BUF_INIT;
	struct rf_str rest = rf_str(err->msg), field = RF_STR_EMPTY;

	rf_buf_printf(&opening, "%s \"%.*s\" is invalid: ", k->kind, RF_STR(name));
	if (rf_str_starts(rest, rf_buf_str(&opening)))
		rest = rf_str_skip(rest, opening.n);
	if (!rf_str_cut(&rest, ':', &field)) {
		rest = field;
		field = RF_LIT("object");
	}
	rf_buf_puts(out, ",\"causes\":[{\"reason\":\"FieldValueInvalid\",\"field\":");
	rf_json_write_str(out, field);
	rf_buf_puts(out, ",\"message\":");
	rf_json_write_str(out, rf_str_trim(rest));
	rf_buf_puts(out, "}]");
}

/* Kubernetes names the resource in the details of most errors, the kind in those of Invalid. */
static void write_details(struct rf_buf *out, const struct rf_err *err, struct rf_str name,
			  const struct rf_kind *k)
{
	rf_buf_puts(out, ",\"details\":{");
	if (name.n > 0) {
		rf_buf_puts(out, "\"name\":");
		rf_json_write_str(out, name);
		rf_buf_add_c(out, ',');
	}
	rf_buf_printf(out, "\"group\":\"%s\",\"kind\":\"%s\"", k->group,
		      err->code == RF_INVALID ? k->kind : k->plural);
	if (err->code == RF_INVALID)
		write_cause(out, err, name, k);
	if (err->code == RF_EXHAUSTED)
		rf_buf_puts(out, ",\"retryAfterSeconds\":1");
	rf_buf_add_c(out, '}');
}

static void write_status(struct rf_buf *out, const struct rf_err *err, struct rf_str message,
			 struct rf_str name, const struct rf_kind *k)
{
	const struct rf_code_info *info = rf_code_info(err->code);

	rf_buf_puts(out, "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
			 "\"status\":\"Failure\",\"message\":");
	rf_json_write_str(out, message);
	rf_buf_printf(out, ",\"reason\":\"%s\"", info->kube_reason);
	if (k != NULL)
		write_details(out, err, name, k);
	rf_buf_printf(out, ",\"code\":%d}\n", info->http);
}

void rf_status_write(struct rf_buf *out, const struct rf_err *err, struct rf_str name,
		     const struct rf_kind *k)
{
	write_status(out, err, rf_str(err->msg), name, k);
}

/* --- warnings ------------------------------------------------------------------------------- */

/* As in Kubernetes: all of them together, and each if that is too much. */
#define WARNINGS_MAX (4 * 1024)
#define WARNING_SHORT 256

/* A quoted-string; nothing in it can end the header. What is cut is cut between characters. */
static void add_warning(struct rf_req *r, struct rf_str text, size_t most)
{
	rf_auto(buf) out = RF_BUF_INIT;

	if (text.n > most)
		while (most > 0 && ((unsigned char)text.p[most] & 0xc0) == 0x80)
			most--;
	rf_buf_puts(&out, "299 - \"");
	for (size_t i = 0; i < RF_MIN(text.n, most); i++) {
		unsigned char c = (unsigned char)text.p[i];

		if (c == '"' || c == '\\')
			rf_buf_add_c(&out, '\\');
		rf_buf_add_c(&out, c < ' ' || c == 0x7f ? ' ' : (char)c);
	}
	rf_buf_add_c(&out, '"');
	rf_http_add_header(r->http, "Warning", rf_buf_str(&out));
}

/* Whether it stands before there, as a whole line. */
static bool said_before(struct rf_str all, struct rf_str line)
{
	struct rf_str one;

	while (all.p < line.p && rf_str_cut(&all, '\n', &one))
		if (one.p < line.p && rf_str_eq(one, line))
			return true;
	return false;
}

static void add_warnings(struct rf_req *r)
{
	struct rf_str all = rf_buf_str(&r->warnings), rest = all, one;
	size_t most = all.n > WARNINGS_MAX ? WARNING_SHORT : WARNINGS_MAX, said = 0;

	while (rest.n > 0 && said < WARNINGS_MAX) {
		rf_str_cut(&rest, '\n', &one);
		if (one.n == 0 || said_before(all, one))
			continue;
		add_warning(r, one, most);
		said += RF_MIN(one.n, most);
	}
}

/* --- large answers -------------------------------------------------------------------------- */

/* Memory is taken until the client has read; one who asks often and reads nothing must not take all
 * of it. Small answers are bounded by the number of connections. */
#define LARGE (64 * 1024)

struct rf_answer {
	struct rf_answer *next, **link;
	struct rf_http_req *http;
	struct rf_str user;
};

static void forget(void *ctx)
{
	struct rf_answer *one = ctx;

	*one->link = one->next;
	if (one->next != NULL)
		one->next->link = one->link;
	free(one);
}

static void taken(void *ctx)
{
	struct rf_answer *one = ctx;
	struct rf_http_req *http = one->http;

	rf_http_on_close(http, NULL, NULL);
	rf_http_on_drain(http, NULL, NULL);
	forget(one);
	rf_http_stream_end(http);
}

static void send_large(struct rf_req *r, int status, struct rf_str json)
{
	struct rf_answer *one;

	rf_http_stream_begin(r->http, status, JSON);
	rf_http_stream_write(r->http, json);
	if (rf_http_stream_pending(r->http) == 0) {
		rf_http_stream_end(r->http);
		return;
	}
	one = rf_new(struct rf_answer);
	one->http = r->http;
	one->user = rf_arena_str(r->http->arena, r->user.name);
	one->next = r->api->answers;
	one->link = &r->api->answers;
	if (one->next != NULL)
		one->next->link = &one->next;
	r->api->answers = one;
	rf_http_on_drain(r->http, taken, one);
	rf_http_on_close(r->http, forget, one); /* last: it may call back at once */
}

int rf_check_unread(struct rf_req *r, struct rf_err *err)
{
	size_t waiting = 0;

	for (const struct rf_answer *one = r->api->answers; one != NULL; one = one->next)
		if (rf_str_eq(one->user, r->user.name))
			waiting += rf_http_stream_pending(one->http);
	if (waiting <= RF_USER_PENDING_MAX || rf_user_is_platform(&r->user))
		return 0;
	return rf_fail(err, RF_EXHAUSTED,
		       "user \"%.*s\" has yet to read %zu bytes of answers; read them first",
		       RF_STR(r->user.name), waiting);
}

void rf_reply_json(struct rf_req *r, int status, struct rf_str json)
{
	add_warnings(r);
	if (json.n > LARGE && !rf_str_is(r->http->method, "HEAD"))
		send_large(r, status, json);
	else
		rf_http_reply(r->http, status, JSON, json);
}

void rf_reply_error(struct rf_req *r, const struct rf_err *err)
{
	rf_auto(buf) out = RF_BUF_INIT;
	int status = rf_code_info(err->code)->http;

	if (err->code == RF_EXHAUSTED)
		rf_http_add_header(r->http, "Retry-After", RF_LIT("1"));
	if (err->code == RF_UNAUTHENTICATED)
		rf_http_add_header(r->http, "WWW-Authenticate", RF_LIT("Bearer"));
	if (err->code == RF_SYSTEM || err->code == RF_INTERNAL)
		rf_error("%.*s %.*s: %s", RF_STR(r->http->method), RF_STR(r->http->path), err->msg);
	if (r->denied.n > 0)
		write_status(&out, err, r->denied, RF_STR_EMPTY, NULL);
	else
		rf_status_write(&out, err, r->route.name, r->route.kind);
	rf_reply_json(r, status, rf_buf_str(&out));
}

void rf_reply_done(struct rf_req *r, int status, struct rf_str name, struct rf_str uid)
{
	const struct rf_kind *k = r->route.kind;
	struct rf_json *s =
		rf_json_make(r->a,
			     "{'kind':'Status','apiVersion':'v1','metadata':{},'status':'Success',"
			     "'details':{'name':%S,'group':%s,'kind':%s,'uid':%S}}",
			     name, k->group, k->plural, uid);

	rf_reply_json(r, status, rf_json_text_of(r->a, s));
}

const struct rf_json *rf_as_asked(struct rf_arena *a, const struct rf_route *t,
				  const struct rf_json *object)
{
	struct rf_json *o;

	if (t->version.n == 0)
		return object;
	o = rf_json_clone(a, object);
	rf_json_set_str(a, o, "apiVersion", rf_kind_api_version_as(a, t->kind, t->version));
	return o;
}

void rf_reply_object(struct rf_req *r, int status, const struct rf_json *object)
{
	rf_auto(buf) out = RF_BUF_INIT;

	object = rf_as_asked(r->a, &r->route, object);
	if (r->form == RF_FORM_TABLE) {
		struct rf_table t;

		rf_table_begin(&t, &out, r->route.kind, rf_wall_ms(r->api->clock),
			       r->include_objects);
		rf_table_row(&t, object);
		rf_table_end(&t, rf_json_str_at(object, "metadata", "resourceVersion"),
			     RF_STR_EMPTY);
	} else if (r->form == RF_FORM_META) {
		rf_table_meta(&out, object);
	} else {
		rf_json_write(&out, object);
	}
	rf_buf_add_c(&out, '\n');
	rf_reply_json(r, status, rf_buf_str(&out));
}

/* --- what the client accepts ------------------------------------------------------------------ */

/* One entry of Accept: "application/json;as=Table;v=v1;g=meta.k8s.io". */
static bool accept_one(struct rf_str entry, enum rf_form *ret)
{
	struct rf_str part, type, as = RF_STR_EMPTY, version = RF_STR_EMPTY;

	rf_str_cut(&entry, ';', &type);
	type = rf_str_trim(type);
	if (!rf_str_is(type, "application/json") && !rf_str_is(type, "*/*") &&
	    !rf_str_is(type, "application/*"))
		return false;
	while (entry.n > 0) {
		struct rf_str key;

		rf_str_cut(&entry, ';', &part);
		part = rf_str_trim(part);
		rf_str_cut(&part, '=', &key);
		if (rf_str_is(key, "as"))
			as = part;
		else if (rf_str_is(key, "v"))
			version = part;
	}
	if (as.n > 0 && !rf_str_is(version, "v1"))
		return false;
	if (rf_str_is(as, "Table"))
		*ret = RF_FORM_TABLE;
	else if (rf_str_is(as, "PartialObjectMetadata") ||
		 rf_str_is(as, "PartialObjectMetadataList"))
		*ret = RF_FORM_META;
	else
		*ret = RF_FORM_FULL;
	return as.n == 0 || *ret != RF_FORM_FULL;
}

bool rf_negotiate(struct rf_req *r)
{
	struct rf_str accept = rf_http_get_header(r->http, "accept"), one;
	struct rf_str include = rf_query(r, "includeObject");

	r->form = RF_FORM_FULL;
	r->include_objects = rf_str_is(include, "Object");
	if (accept.n == 0)
		return true;
	while (accept.n > 0) {
		rf_str_cut(&accept, ',', &one);
		if (accept_one(rf_str_trim(one), &r->form))
			return true;
	}
	rf_reply_json(
		r, 406,
		RF_LIT("{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},"
		       "\"status\":\"Failure\",\"message\":\"only the following media types are "
		       "accepted: application/json\",\"reason\":\"NotAcceptable\",\"code\":406}"));
	return false;
}
