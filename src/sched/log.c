/* Writing and reading events, by the tables of log_fields.c. */
#include "sched/log.h"

#include <stdio.h>

#include "sched/log_fields.h"

#define DEPTH_MAX 8 /* of the tables */

/* --- writing ---------------------------------------------------------------------------------- */

static const void *at(const void *record, size_t offset)
{
	return (const char *)record + offset;
}

static void write_key(struct rf_buf *out, const char *key)
{
	char last = out->n > 0 ? out->p[out->n - 1] : '{';

	if (last != '{')
		rf_buf_add_c(out, ',');
	rf_buf_add_c(out, '"');
	rf_buf_puts(out, key);
	rf_buf_puts(out, "\":");
}

static void write_int(struct rf_buf *out, const char *key, int64_t v)
{
	write_key(out, key);
	rf_buf_printf(out, "%lld", (long long)v);
}

static void write_str(struct rf_buf *out, const char *key, struct rf_str s)
{
	write_key(out, key);
	rf_json_write_str(out, s);
}

static void write_record(struct rf_buf *out, const struct rf_log_record *r, const void *record);

static void write_object(struct rf_buf *out, const struct rf_log_record *r, const void *record)
{
	rf_buf_add_c(out, '{');
	write_record(out, r, record);
	rf_buf_add_c(out, '}');
}

static void write_list(struct rf_buf *out, const struct rf_log_field *f, const void *record)
{
	const char *items = *(const char *const *)at(record, f->at);
	size_t n = *(const size_t *)at(record, f->n_at);

	if (n == 0)
		return;
	write_key(out, f->name);
	for (size_t i = 0; i < n; i++) {
		rf_buf_add_c(out, i == 0 ? '[' : ',');
		if (f->type == RF_LOG_STRS)
			rf_json_write_str(out, ((const struct rf_str *)(const void *)items)[i]);
		else
			write_object(out, f->of, items + i * f->of->size);
	}
	rf_buf_add_c(out, ']');
}

static void write_embedded(struct rf_buf *out, const struct rf_log_field *f, const void *record)
{
	size_t start = out->n, empty;

	write_key(out, f->name);
	empty = out->n + 2;
	write_object(out, f->of, at(record, f->at));
	if (out->n > empty)
		return;
	out->n = start;
	out->p[start] = '\0';
}

static void write_field(struct rf_buf *out, const struct rf_log_field *f, const void *record)
{
	const void *v = at(record, f->at);

	switch (f->type) {
	case RF_LOG_STR:
		if (((const struct rf_str *)v)->n > 0)
			write_str(out, f->name, *(const struct rf_str *)v);
		break;
	case RF_LOG_INT:
		if (*(const int64_t *)v != f->otherwise)
			write_int(out, f->name, *(const int64_t *)v);
		break;
	case RF_LOG_COUNT:
		if (*(const size_t *)v != 0)
			write_int(out, f->name, (int64_t)RF_MIN(*(const size_t *)v, (size_t)INT64_MAX));
		break;
	case RF_LOG_BYTE:
		if (*(const uint8_t *)v != 0)
			write_int(out, f->name, *(const uint8_t *)v);
		break;
	case RF_LOG_BOOL:
		if (*(const bool *)v)
			write_key(out, f->name), rf_buf_puts(out, "true");
		break;
	case RF_LOG_WORD:
		if (*(const int *)v != f->otherwise)
			write_str(out, f->name, rf_str(f->words[*(const int *)v]));
		break;
	case RF_LOG_RESOURCE:
		if (*(const char *const *)v != NULL)
			write_str(out, f->name, rf_str(*(const char *const *)v));
		break;
	case RF_LOG_STRS:
	case RF_LOG_LIST:
		write_list(out, f, record);
		break;
	case RF_LOG_RECORD:
		write_embedded(out, f, record);
		break;
	}
}

static void write_record(struct rf_buf *out, const struct rf_log_record *r, const void *record)
{
	for (size_t i = 0; i < r->n; i++)
		write_field(out, &r->fields[i], record);
}

static void write_fact(struct rf_buf *out, const struct rf_log_event *e)
{
	const struct rf_log_shape *s = &RF_LOG_SHAPES[e->kind];
	const struct rf_log_record *r = e->del ? s->del : s->put;

	rf_assert(r != NULL);
	write_str(out, e->del ? "del" : "put", rf_str(s->name));
	write_record(out, r, e->del ? e : at(e, s->at));
}

void rf_log_write(struct rf_buf *out, const struct rf_log_event *e)
{
	rf_buf_add_c(out, '{');
	write_int(out, "t", e->t);
	switch (e->kind) {
	case RF_LOG_DECISION:
		write_str(out, RF_LOG_VERDICTS[e->decision.verdict], e->decision.uid);
		write_record(out, &RF_LOG_DECISION_RECORD, &e->decision);
		break;
	case RF_LOG_FAILED:
		write_str(out, "failed", e->uid);
		write_record(out, &RF_LOG_FAILED_RECORD, e);
		break;
	case RF_LOG_CONFIG:
		write_key(out, "config");
		write_object(out, &RF_LOG_CONFIG_RECORD, &e->config);
		break;
	case RF_LOG_DECIDE:
		write_int(out, "decide", e->most);
		break;
	case RF_LOG_LEDGER:
		write_str(out, "ledger", e->ledger);
		break;
	default:
		write_fact(out, e);
		break;
	}
	rf_buf_puts(out, "}\n");
}

/* --- reading ---------------------------------------------------------------------------------- */

struct reader {
	struct rf_arena *a;
	struct rf_err *err;
	/* Where it is: names of the fields, and which item of theirs (-1: no list). */
	const char *path[DEPTH_MAX];
	int64_t index[DEPTH_MAX];
	size_t depth;
};

static int wrong(const struct reader *r, const char *fmt, ...) RF_PRINTF(2, 3);
static int wrong(const struct reader *r, const char *fmt, ...)
{
	char where[256] = "", what[256];
	size_t n = 0;
	va_list ap;

	for (size_t i = 0; i < r->depth && n < sizeof(where); i++) {
		n += (size_t)snprintf(where + n, sizeof(where) - n, "%s%s", i > 0 ? "." : "", r->path[i]);
		if (n < sizeof(where) && r->index[i] >= 0)
			n += (size_t)snprintf(where + n, sizeof(where) - n, "[%lld]", (long long)r->index[i]);
	}
	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	return rf_fail(r->err, RF_INVALID, "%s%s%s", where, n > 0 ? ": " : "", what);
}

static void enter(struct reader *r, const char *name, int64_t index)
{
	rf_assert(r->depth < DEPTH_MAX);
	r->path[r->depth] = name;
	r->index[r->depth++] = index;
}

static int read_str(const struct reader *r, const struct rf_json *v, bool must, struct rf_str *ret)
{
	if (!rf_json_is(v, RF_JSON_STRING))
		return wrong(r, "must be a string");
	if (must && v->text.n == 0)
		return wrong(r, "must not be empty");
	*ret = v->text;
	return 0;
}

static int read_int(const struct reader *r, const struct rf_json *v, int64_t min, int64_t max, int64_t *ret)
{
	if (!rf_json_is_int(v, ret) || *ret < min || *ret > max)
		return wrong(r, "must be a whole number from %lld to %lld", (long long)min, (long long)max);
	return 0;
}

static int read_word(const struct reader *r, const struct rf_json *v, const char *const *words, int *ret)
{
	struct rf_str s = rf_json_str(v);

	for (int i = 0; words[i] != NULL; i++) {
		if (rf_str_is(s, words[i])) {
			*ret = i;
			return 0;
		}
	}
	return wrong(r, "\"%.*s\" is none of %s, %s, ...", (int)RF_MIN(s.n, 40), s.p, words[0], words[1]);
}

/* The name has no bearing on decisions, and must outlive the log: one that this process does not know reads as
 * ringfence's own. */
static const char *resource_of(struct rf_str s)
{
	for (size_t i = 0; rf_gpu_name(i) != NULL; i++)
		if (rf_str_is(s, rf_gpu_name(i)))
			return rf_gpu_name(i);
	return RF_RES_GPU;
}

static int read_record(struct reader *r, const struct rf_log_record *of, const struct rf_json *v, void *ret,
		       bool top);

static int read_item(struct reader *r, const struct rf_log_field *f, const struct rf_json *v, char *items, size_t i)
{
	if (f->type == RF_LOG_STRS)
		return read_str(r, v, false, &((struct rf_str *)(void *)items)[i]);
	return read_record(r, f->of, v, items + i * f->of->size, false);
}

static int read_list(struct reader *r, const struct rf_log_field *f, const struct rf_json *v, char *record)
{
	size_t n = rf_json_len(v), size = f->type == RF_LOG_STRS ? sizeof(struct rf_str) : f->of->size;
	char *items;

	if (!rf_json_is(v, RF_JSON_ARRAY))
		return wrong(r, "must be a list");
	if (n == 0)
		return 0;
	items = rf_arena_try(r->a, n * size);
	if (items == NULL)
		return rf_fail(r->err, RF_TOO_LARGE, "%s: %zu items are too many", f->name, n);
	r->depth--;
	for (size_t i = 0; i < n; i++) {
		enter(r, f->name, (int64_t)i);
		if (read_item(r, f, rf_json_item(v, i), items, i) < 0)
			return -1;
		r->depth--;
	}
	enter(r, f->name, -1);
	memcpy(record + f->at, &items, sizeof(items));
	memcpy(record + f->n_at, &n, sizeof(n));
	return 0;
}

static int read_value(struct reader *r, const struct rf_log_field *f, const struct rf_json *v, char *record)
{
	void *to = record + f->at;
	int64_t i = 0;

	switch (f->type) {
	case RF_LOG_STR:
		return read_str(r, v, f->must, to);
	case RF_LOG_INT:
		return read_int(r, v, INT64_MIN, INT64_MAX, to);
	case RF_LOG_COUNT:
		if (read_int(r, v, 0, INT64_MAX, &i) < 0)
			return -1;
		*(size_t *)to = (size_t)i;
		return 0;
	case RF_LOG_BYTE:
		if (read_int(r, v, 0, UINT8_MAX, &i) < 0)
			return -1;
		*(uint8_t *)to = (uint8_t)i;
		return 0;
	case RF_LOG_BOOL:
		if (!rf_json_is(v, RF_JSON_BOOL))
			return wrong(r, "must be true or false");
		*(bool *)to = v->boolean;
		return 0;
	case RF_LOG_WORD:
		return read_word(r, v, f->words, to);
	case RF_LOG_RESOURCE:
		if (!rf_json_is(v, RF_JSON_STRING))
			return wrong(r, "must be a string");
		*(const char **)to = resource_of(v->text);
		return 0;
	case RF_LOG_STRS:
	case RF_LOG_LIST:
		return read_list(r, f, v, record);
	case RF_LOG_RECORD:
		return read_record(r, f->of, v, to, false);
	}
	return wrong(r, "cannot be read");
}

static const struct rf_log_field *find_field(const struct rf_log_record *of, struct rf_str key)
{
	for (size_t i = 0; i < of->n; i++)
		if (rf_str_is(key, of->fields[i].name))
			return &of->fields[i];
	return NULL;
}

static int check_musts(const struct reader *r, const struct rf_log_record *of, const struct rf_json *v)
{
	for (size_t i = 0; i < of->n; i++)
		if (of->fields[i].must && rf_json_get(v, rf_str(of->fields[i].name)) == NULL)
			return wrong(r, "there is no %s", of->fields[i].name);
	return 0;
}

static void set_defaults(const struct rf_log_record *of, char *record)
{
	for (size_t i = 0; i < of->n; i++) {
		const struct rf_log_field *f = &of->fields[i];

		if (f->type == RF_LOG_INT)
			memcpy(record + f->at, &f->otherwise, sizeof(f->otherwise));
		else if (f->type == RF_LOG_WORD)
			*(int *)(void *)(record + f->at) = (int)f->otherwise;
		else if (f->type == RF_LOG_STR)
			*(struct rf_str *)(void *)(record + f->at) = RF_STR_EMPTY;
		else if (f->type == RF_LOG_RECORD)
			set_defaults(f->of, record + f->at);
	}
}

/* top: of a line, whose first two members (the time, and what it is) were read already. */
static int read_record(struct reader *r, const struct rf_log_record *of, const struct rf_json *v, void *ret, bool top)
{
	if (!rf_json_is(v, RF_JSON_OBJECT))
		return wrong(r, "must be an object");
	set_defaults(of, ret);
	if (check_musts(r, of, v) < 0)
		return -1;
	for (size_t i = top ? 2 : 0; i < v->n; i++) {
		const struct rf_log_field *f = find_field(of, v->members[i].key);

		if (f == NULL)
			return wrong(r, "there is no field \"%.*s\"", (int)RF_MIN(v->members[i].key.n, 40),
				     v->members[i].key.p);
		enter(r, f->name, -1);
		if (read_value(r, f, v->members[i].value, ret) < 0)
			return -1;
		r->depth--;
	}
	return 0;
}

static int read_fact(struct reader *r, const struct rf_json *v, struct rf_log_event *e)
{
	struct rf_str name = rf_json_str(v->members[1].value);
	const struct rf_log_record *of;

	for (int i = 0; i < RF_LOG_KINDS; i++) {
		const struct rf_log_shape *s = &RF_LOG_SHAPES[i];

		if (s->name == NULL || !rf_str_is(name, s->name))
			continue;
		of = e->del ? s->del : s->put;
		if (of == NULL)
			return wrong(r, "%s are put, not deleted", s->name);
		e->kind = (enum rf_log_kind)i;
		return read_record(r, of, v, e->del ? (char *)e : (char *)e + s->at, true);
	}
	return wrong(r, "%s: there is no kind \"%.*s\"", e->del ? "del" : "put", (int)RF_MIN(name.n, 40), name.p);
}

static int read_decision(struct reader *r, const struct rf_json *v, int verdict, struct rf_log_event *e)
{
	e->kind = RF_LOG_DECISION;
	e->decision.verdict = (enum rf_core_verdict)verdict;
	if (read_record(r, &RF_LOG_DECISION_RECORD, v, &e->decision, true) < 0)
		return -1;
	enter(r, RF_LOG_VERDICTS[verdict], -1);
	return read_str(r, v->members[1].value, true, &e->decision.uid);
}

/* Events that are not facts about an object: what comes second is all of it, or nearly. */
static int read_other(struct reader *r, const struct rf_json *v, struct rf_log_event *e)
{
	static const struct rf_log_record NOTHING = { 0 };
	struct rf_str what = v->members[1].key;
	const struct rf_json *value = v->members[1].value;

	for (int i = 0; RF_LOG_VERDICTS[i] != NULL; i++)
		if (rf_str_is(what, RF_LOG_VERDICTS[i]))
			return read_decision(r, v, i, e);
	if (rf_str_is(what, "failed")) {
		e->kind = RF_LOG_FAILED;
		if (rf_json_get(v, RF_LIT("verdict")) == NULL)
			return wrong(r, "failed: there is no verdict; a ringfence from before failures said of what they are wrote this: play it again with that one");
		if (read_record(r, &RF_LOG_FAILED_RECORD, v, e, true) < 0)
			return -1;
		enter(r, "failed", -1);
		return read_str(r, value, true, &e->uid);
	}
	if (rf_str_is(what, "config"))
		e->kind = RF_LOG_CONFIG;
	else if (rf_str_is(what, "decide"))
		e->kind = RF_LOG_DECIDE;
	else if (rf_str_is(what, "ledger"))
		e->kind = RF_LOG_LEDGER;
	else
		return wrong(r, "there is no event \"%.*s\"", (int)RF_MIN(what.n, 40), what.p);
	if (read_record(r, &NOTHING, v, e, true) < 0)
		return -1;
	enter(r, e->kind == RF_LOG_CONFIG ? "config" : e->kind == RF_LOG_DECIDE ? "decide" : "ledger", -1);
	if (e->kind == RF_LOG_CONFIG)
		return read_record(r, &RF_LOG_CONFIG_RECORD, value, &e->config, false);
	return e->kind == RF_LOG_DECIDE ? read_int(r, value, 0, INT64_MAX, &e->most) :
					  read_str(r, value, false, &e->ledger);
}

static int read_event(struct reader *r, const struct rf_json *v, struct rf_log_event *e)
{
	if (!rf_json_is(v, RF_JSON_OBJECT) || v->n < 2 || !rf_str_is(v->members[0].key, "t") ||
	    !rf_json_is_int(v->members[0].value, &e->t) || e->t < 0 || e->t > RF_LOG_MS_MAX)
		return wrong(r, "an event is {\"t\":<milliseconds>,\"put\":\"pod\",...}");
	e->del = rf_str_is(v->members[1].key, "del");
	if (e->del || rf_str_is(v->members[1].key, "put"))
		return read_fact(r, v, e);
	return read_other(r, v, e);
}

static void set_empty(struct rf_log_event *e)
{
	e->ns = e->name = e->uid = e->tenant = e->why = RF_STR_EMPTY;
}

static int not_json(struct rf_err *err)
{
	if (err->code == RF_BAD_REQUEST)
		err->code = RF_INVALID;
	return -err->code;
}

int rf_log_read(struct rf_arena *a, struct rf_str line, struct rf_log_event *ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_log_event e = { 0 };
	struct reader r = { .a = a, .err = err != NULL ? err : &own };
	struct rf_json *v = NULL;

	set_empty(&e);
	if (line.n > RF_LOG_LINE_MAX)
		return rf_fail(err, RF_TOO_LARGE, "a line of %zu bytes; at most %zu", line.n, RF_LOG_LINE_MAX);
	if (rf_json_parse(a, line, &v, r.err) < 0)
		return not_json(r.err);
	if (read_event(&r, v, &e) < 0)
		return -r.err->code;
	*ret = e;
	return 0;
}
