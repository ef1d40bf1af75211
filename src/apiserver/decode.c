#include "apiserver/decode.h"

#include "apiserver/schema.h"
#include "codec/base64.h"
#include "codec/pb.h"
#include "codec/utf8.h"
#include "codec/yaml.h"

#define DEPTH_MAX 64

/* A message of the wire is far smaller than the values it becomes; the arena's cap ends the game. */
static int room(struct rf_arena *a, struct rf_err *err)
{
	if (a->cap > 0 && a->used > a->cap)
		return rf_fail(err, RF_TOO_LARGE, "the body becomes too large when decoded");
	return 0;
}

static int message(struct rf_arena *a, const struct rf_schema_type *t, struct rf_str in,
		   struct rf_json *into, int depth, struct rf_err *err);

/* Stored as JSON, what is no UTF-8 would come out as other text than policies saw, and two keys as one. */
static int check_text(struct rf_str s, struct rf_err *err)
{
	for (size_t i = 0, n; i < s.n; i += n) {
		n = rf_utf8_char(s.p + i, s.n - i);
		if (n == 0)
			return rf_fail(err, RF_BAD_REQUEST, "protobuf: a string is not valid UTF-8");
	}
	return 0;
}

/* --- special messages ----------------------------------------------------------------------- */

static int read_time(struct rf_arena *a, struct rf_str in, bool micro, struct rf_json **ret,
		     struct rf_err *err)
{
	struct rf_pb_field f;
	int64_t ms = 0, seconds = 0, nanos = 0;
	int r;

	if (in.n == 0) { /* the zero time: absent */
		*ret = NULL;
		return 0;
	}
	while ((r = rf_pb_next(&in, &f, err)) > 0) {
		if (f.number == 1)
			seconds = (int64_t)f.value;
		else if (f.number == 2)
			nanos = (int32_t)f.value;
	}
	if (r < 0)
		return r;
	/* The years 0 to 9999, as RFC 3339 writes them. */
	if (seconds < -62167219200 || seconds > 253402300799 || nanos < 0 || nanos > 999999999)
		return rf_fail(err, RF_BAD_REQUEST, "a time is out of range");
	ms = seconds * 1000 + nanos / 1000000;
	*ret = rf_json_string(a, micro ? rf_time_format_micro(a, ms) : rf_time_format(a, ms));
	return 0;
}

static int read_quantity(struct rf_arena *a, struct rf_str in, struct rf_json **ret,
			 struct rf_err *err)
{
	struct rf_str text = RF_LIT("0");
	struct rf_pb_field f;
	int r;

	while ((r = rf_pb_next(&in, &f, err)) > 0)
		if (f.number == 1 && f.wire == RF_PB_BYTES)
			text = f.bytes;
	if (r < 0 || (r = check_text(text, err)) < 0)
		return r;
	*ret = rf_json_string(a, text);
	return 0;
}

static int read_int_or_string(struct rf_arena *a, struct rf_str in, struct rf_json **ret,
			      struct rf_err *err)
{
	struct rf_str text = RF_STR_EMPTY;
	int64_t type = 0, number = 0;
	struct rf_pb_field f;
	int r;

	while ((r = rf_pb_next(&in, &f, err)) > 0) {
		if (f.number == 1)
			type = (int64_t)f.value;
		else if (f.number == 2)
			number = (int32_t)f.value;
		else if (f.number == 3)
			text = f.bytes;
	}
	if (r < 0 || (r = check_text(text, err)) < 0)
		return r;
	*ret = type == 1 ? rf_json_string(a, text) : rf_json_number(a, number);
	return 0;
}

static int read_raw(struct rf_arena *a, struct rf_str in, struct rf_json **ret, struct rf_err *err)
{
	struct rf_pb_field f;
	int r;

	*ret = NULL;
	while ((r = rf_pb_next(&in, &f, err)) > 0)
		if (f.number == 1 && f.wire == RF_PB_BYTES && f.bytes.n > 0 &&
		    rf_json_parse(a, f.bytes, ret, err) < 0)
			return -err->code;
	return r;
}

/* --- values --------------------------------------------------------------------------------- */

static int wire_error(struct rf_str type, struct rf_err *err)
{
	return rf_fail(err, RF_BAD_REQUEST, "protobuf: wrong wire type for a field of type %.*s",
		       RF_STR(type));
}

static int read_bytes_value(struct rf_arena *a, struct rf_str type, struct rf_str in, int depth,
			    struct rf_json **ret, struct rf_err *err)
{
	const struct rf_schema_type *t;

	switch (type.p[0]) {
	case 's':
		*ret = rf_json_string(a, in);
		return check_text(in, err);
	case 'y':
		*ret = rf_json_string(a, rf_base64_encode(a, in));
		return 0;
	case 't':
	case 'm':
		return read_time(a, in, type.p[0] == 'm', ret, err);
	case 'q':
		return read_quantity(a, in, ret, err);
	case 'o':
		return read_int_or_string(a, in, ret, err);
	case 'r':
		return read_raw(a, in, ret, err);
	default:
		t = rf_schema_find(type);
		if (t == NULL)
			return wire_error(type, err);
		*ret = rf_json_object(a);
		return message(a, t, in, *ret, depth + 1, err);
	}
}

static int read_value(struct rf_arena *a, struct rf_str type, const struct rf_pb_field *f,
		      int depth, struct rf_json **ret, struct rf_err *err)
{
	*ret = NULL;
	if (room(a, err) < 0)
		return -err->code;
	if (f->wire == RF_PB_BYTES) {
		if (strchr("ibf", type.p[0]) != NULL)
			return wire_error(type, err);
		return read_bytes_value(a, type, f->bytes, depth, ret, err);
	}
	if (f->wire != RF_PB_VARINT || (type.p[0] != 'i' && type.p[0] != 'b'))
		return wire_error(type, err);
	*ret = type.p[0] == 'i' ? rf_json_number(a, (int64_t)f->value)
				: rf_json_bool(a, f->value != 0);
	return 0;
}

/* A map is a repeated message of key (1) and value (2); a missing value is the type's zero. */
static int read_entry(struct rf_arena *a, struct rf_str type, struct rf_str in, int depth,
		      struct rf_json *map, struct rf_err *err)
{
	struct rf_str key = RF_STR_EMPTY;
	struct rf_json *value = NULL;
	struct rf_pb_field f;
	int r;

	while ((r = rf_pb_next(&in, &f, err)) > 0) {
		if (f.number == 1 && f.wire == RF_PB_BYTES)
			key = f.bytes;
		else if (f.number == 2 && type.p[0] != '[' &&
			 read_value(a, type, &f, depth, &value, err) < 0)
			return -err->code;
	}
	if (r < 0 || (r = check_text(key, err)) < 0)
		return r;
	if (rf_json_len(map) > 100000)
		return rf_fail(err, RF_TOO_LARGE, "a map has too many entries");
	if (value == NULL)
		value = type.p[0] == '[' ? rf_json_array(a) : rf_json_string(a, RF_STR_EMPTY);
	rf_json_set(a, map, key, value);
	return 0;
}

static struct rf_json *container(struct rf_arena *a, struct rf_json *into, struct rf_str name,
				 bool list)
{
	struct rf_json *c = rf_json_get(into, name);

	if (c == NULL) {
		c = list ? rf_json_array(a) : rf_json_object(a);
		rf_json_set(a, into, name, c);
	}
	return c;
}

/* Go's encoder writes empty strings and messages for fields that were not set; for a reader of
 * JSON they are absent. Numbers and bools are kept: optional ones are only sent when set. */
static bool is_zero(const struct rf_json *v, struct rf_str type)
{
	if (v == NULL)
		return true;
	if (strchr("sy", type.p[0]) != NULL)
		return rf_json_str(v).n == 0;
	if (type.p[0] >= 'A' && type.p[0] <= 'Z')
		return v->type == RF_JSON_OBJECT && v->n == 0;
	return false;
}

static int field(struct rf_arena *a, const struct rf_schema_field *sf, const struct rf_pb_field *f,
		 struct rf_json *into, int depth, struct rf_err *err)
{
	struct rf_str item = rf_str_skip(sf->type, 1);
	struct rf_json *v = NULL;

	switch (sf->type.p[0]) {
	case '^':
		if (f->wire != RF_PB_BYTES)
			return wire_error(sf->type, err);
		return message(a, rf_schema_find(item), f->bytes, into, depth + 1, err);
	case '{':
		if (f->wire != RF_PB_BYTES)
			return wire_error(sf->type, err);
		return read_entry(a, item, f->bytes, depth, container(a, into, sf->name, false),
				  err);
	case '[':
		if (read_value(a, item, f, depth, &v, err) < 0)
			return -err->code;
		if (v != NULL)
			rf_json_push(a, container(a, into, sf->name, true), v);
		return 0;
	default:
		if (read_value(a, sf->type, f, depth, &v, err) < 0)
			return -err->code;
		if (!is_zero(v, sf->type))
			rf_json_set(a, into, sf->name, v);
		return 0;
	}
}

static int message(struct rf_arena *a, const struct rf_schema_type *t, struct rf_str in,
		   struct rf_json *into, int depth, struct rf_err *err)
{
	struct rf_schema_field sf;
	struct rf_pb_field f;
	int r;

	if (depth > DEPTH_MAX)
		return rf_fail(err, RF_BAD_REQUEST, "protobuf: nested deeper than %d", DEPTH_MAX);
	while ((r = rf_pb_next(&in, &f, err)) > 0)
		if (rf_schema_field_number(t, f.number, &sf) &&
		    field(a, &sf, &f, into, depth, err) < 0)
			return -err->code;
	return r;
}

/* --- envelope ------------------------------------------------------------------------------- */

static int type_meta(struct rf_arena *a, struct rf_str in, struct rf_json *o, struct rf_err *err)
{
	struct rf_pb_field f;
	int r;

	while ((r = rf_pb_next(&in, &f, err)) > 0)
		if (f.number <= 2 && f.wire == RF_PB_BYTES)
			rf_json_set_str(a, o, f.number == 1 ? "apiVersion" : "kind", f.bytes);
	return r;
}

int rf_decode_protobuf(struct rf_arena *a, struct rf_str body, struct rf_json **ret,
		       struct rf_err *err)
{
	struct rf_str in, raw = RF_STR_EMPTY;
	struct rf_json *o = rf_json_object(a);
	const struct rf_schema_type *t;
	struct rf_pb_field f;
	int r;

	if (body.n < 4 || memcmp(body.p, "k8s\0", 4) != 0)
		return rf_fail(err, RF_BAD_REQUEST,
			       "protobuf: the body does not begin with k8s\\0");
	in = rf_str_skip(body, 4);
	while ((r = rf_pb_next(&in, &f, err)) > 0) {
		if (f.wire != RF_PB_BYTES)
			continue;
		if (f.number == 1 && type_meta(a, f.bytes, o, err) < 0)
			return -err->code;
		if (f.number == 2)
			raw = f.bytes;
		if (f.number == 3 && f.bytes.n > 0)
			return rf_fail(err, RF_BAD_REQUEST,
				       "protobuf: a content encoding is not served");
	}
	if (r < 0)
		return r;
	t = rf_schema_find(rf_json_str_at(o, "kind"));
	if (t == NULL)
		return rf_fail(err, RF_UNSUPPORTED,
			       "protobuf: kind \"%.*s\" is not known; send JSON",
			       RF_STR(rf_json_str_at(o, "kind")));
	if (message(a, t, raw, o, 0, err) < 0)
		return rf_wrap(err, "decode %s", t->name);
	*ret = o;
	return 0;
}

struct rf_str rf_media_type(struct rf_str content_type)
{
	struct rf_str head;

	rf_str_cut(&content_type, ';', &head);
	return rf_str_trim(head);
}

static int decode_yaml(struct rf_arena *a, struct rf_str body, struct rf_json **ret,
		       struct rf_err *err)
{
	struct rf_json *docs;

	if (rf_yaml_parse(a, body, &docs, err) < 0)
		return -err->code;
	if (rf_json_len(docs) != 1)
		return rf_fail(err, RF_BAD_REQUEST, "the body has %zu YAML documents; send one",
			       rf_json_len(docs));
	*ret = rf_json_item(docs, 0);
	return 0;
}

int rf_decode_body(struct rf_arena *a, struct rf_str content_type, struct rf_str body,
		   struct rf_json **ret, struct rf_err *err)
{
	struct rf_str type = rf_media_type(content_type);

	if (rf_str_is(type, "application/vnd.kubernetes.protobuf"))
		return rf_decode_protobuf(a, body, ret, err);
	if (rf_str_is(type, "application/yaml") || rf_str_is(type, "text/yaml"))
		return decode_yaml(a, body, ret, err);
	if (type.n == 0 || rf_str_is(type, "application/json"))
		return rf_json_parse(a, body, ret, err);
	return rf_fail(err, RF_UNSUPPORTED,
		       "the body of the request was in an unknown format - accepted media types "
		       "include: application/json, application/yaml, "
		       "application/vnd.kubernetes.protobuf (got %.*s)",
		       RF_STR(type));
}
