/* The YAML reader: libyaml's events become JSON values. Aliases are copied where they stand, since
 * a tree that is changed in place must not share nodes; the copying is what the cap counts. */
#include <stdarg.h>
#include <stdio.h>
#include <yaml.h>

#include "codec/json_private.h"
#include "codec/yaml_private.h"

/* What aliases may add in all: a node counts 1, its text 1 per 32 bytes. */
#define EXPANSION_MAX (1 << 20)
#define TAG_PREFIX "tag:yaml.org,2002:"

struct loader {
	struct rf_arena *arena;
	struct rf_err *err;
	yaml_parser_t parser;
	yaml_event_t event; /* the current one */
	struct rf_map anchors;
	size_t expanded;
	int depth;
	int rc;
	bool core; /* YAML 1.2's words */
	RF_VEC(struct rf_json_member) open; /* of containers not yet complete */
};

static struct rf_json in_progress; /* an anchor whose node is not complete */

static struct rf_json *load_node(struct loader *l);

/* --- errors --------------------------------------------------------------------------------- */

static void *fail_mark(struct loader *l, yaml_mark_t mark, const char *fmt, ...) RF_PRINTF(3, 4);
static void *fail_mark(struct loader *l, yaml_mark_t mark, const char *fmt, ...)
{
	char what[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	l->rc = rf_fail(l->err, RF_BAD_REQUEST, "YAML, line %zu, column %zu: %s", mark.line + 1,
			mark.column + 1, what);
	return NULL;
}

/* At the current event; always NULL. */
#define fail_here(l, ...) fail_mark((l), (l)->event.start_mark, __VA_ARGS__)

static void *fail_memory(struct loader *l)
{
	l->rc = rf_fail(l->err, RF_TOO_LARGE,
			"YAML needs more than the %zu bytes of memory allowed for it; send less",
			l->arena->cap);
	return NULL;
}

static bool fail_parser(struct loader *l)
{
	const yaml_parser_t *p = &l->parser;
	const char *problem = p->problem != NULL ? p->problem : "cannot be read";

	if (p->error == YAML_MEMORY_ERROR)
		return fail_memory(l) != NULL;
	if (p->error == YAML_READER_ERROR) {
		l->rc = rf_fail(l->err, RF_BAD_REQUEST, "YAML, byte %zu: %s", p->problem_offset,
				problem);
		return false;
	}
	if (p->context == NULL)
		return fail_mark(l, p->problem_mark, "%s", problem) != NULL;
	return fail_mark(l, p->problem_mark, "%s %s (from line %zu)", problem, p->context,
			 p->context_mark.line + 1) != NULL;
}

/* --- pieces --------------------------------------------------------------------------------- */

static bool next_event(struct loader *l)
{
	yaml_event_delete(&l->event);
	if (!yaml_parser_parse(&l->parser, &l->event))
		return fail_parser(l);
	return true;
}

static struct rf_json *new_node(struct loader *l, enum rf_json_type type)
{
	struct rf_json *v = rf_arena_try(l->arena, sizeof(*v));

	if (v == NULL)
		return fail_memory(l);
	v->type = type;
	return v;
}

static struct rf_json *new_text(struct loader *l, enum rf_json_type type, struct rf_str text)
{
	struct rf_json *v = new_node(l, type);
	char *copy = v != NULL ? rf_arena_try(l->arena, text.n + 1) : NULL;

	if (v == NULL)
		return NULL;
	if (copy == NULL)
		return fail_memory(l);
	if (text.n > 0)
		memcpy(copy, text.p, text.n);
	v->text = rf_str_n(copy, text.n);
	return v;
}

/* The entries above base become v's items or members. */
static struct rf_json *close_container(struct loader *l, struct rf_json *v, size_t base)
{
	size_t n = l->open.n - base;
	const struct rf_json_member *m = n > 0 ? l->open.at + base : NULL;
	bool object = v->type == RF_JSON_OBJECT;
	void *room;

	l->depth--;
	l->open.n = base;
	if (n == 0)
		return v;
	room = rf_arena_try(l->arena, n * (object ? sizeof(*v->members) : sizeof(*v->items)));
	if (room == NULL || n > UINT32_MAX)
		return fail_memory(l);
	v->n = v->cap = (uint32_t)n;
	if (object)
		v->members = memcpy(room, m, n * sizeof(*m));
	else
		v->items = room;
	for (size_t i = 0; !object && i < n; i++)
		v->items[i] = m[i].value;
	return v;
}

static bool enter(struct loader *l)
{
	if (++l->depth <= RF_JSON_DEPTH_MAX)
		return true;
	return fail_here(l, "nested deeper than %d", RF_JSON_DEPTH_MAX) != NULL;
}

/* --- scalars -------------------------------------------------------------------------------- */

static struct rf_str event_text(const struct loader *l)
{
	return rf_str_n((const char *)l->event.data.scalar.value, l->event.data.scalar.length);
}

static bool is_tag(const char *tag, const char *name)
{
	return strncmp(tag, TAG_PREFIX, strlen(TAG_PREFIX)) == 0 &&
	       strcmp(tag + strlen(TAG_PREFIX), name) == 0;
}

static bool tag_allows(const char *tag, enum rf_yaml_kind kind)
{
	switch (kind) {
	case RF_YAML_NULL:
		return is_tag(tag, "null");
	case RF_YAML_TRUE:
	case RF_YAML_FALSE:
		return is_tag(tag, "bool");
	case RF_YAML_NUMBER:
		return is_tag(tag, "int") || is_tag(tag, "float");
	case RF_YAML_BEYOND_JSON:
		return is_tag(tag, "float");
	case RF_YAML_STRING:
		break;
	}
	return false;
}

/* Quoted text is a string, plain text is resolved, and a tag overrules both. */
static bool scalar_kind(struct loader *l, enum rf_yaml_kind *ret, struct rf_buf *number)
{
	const char *tag = (const char *)l->event.data.scalar.tag;
	bool plain = l->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

	*ret = RF_YAML_STRING;
	if (tag != NULL && (strcmp(tag, "!") == 0 || is_tag(tag, "str")))
		return true;
	if (tag == NULL && !plain)
		return true;
	*ret = rf_yaml_resolve(event_text(l), number);
	if (l->core && (*ret == RF_YAML_TRUE || *ret == RF_YAML_FALSE) && strchr("tTfF", event_text(l).p[0]) == NULL)
		*ret = RF_YAML_STRING;
	if (tag != NULL && !tag_allows(tag, *ret))
		return fail_here(l, "a value that cannot be read as the tag <%.60s> asks", tag) !=
		       NULL;
	if (*ret == RF_YAML_BEYOND_JSON)
		return fail_here(l, "%.40s has no form in JSON; quote it if it is text",
				 event_text(l).p) != NULL;
	return true;
}

static struct rf_json *load_scalar(struct loader *l)
{
	rf_auto(buf) number = RF_BUF_INIT;
	enum rf_yaml_kind kind;
	struct rf_json *v;

	if (!scalar_kind(l, &kind, &number))
		return NULL;
	if (kind == RF_YAML_STRING)
		return new_text(l, RF_JSON_STRING, event_text(l));
	if (kind == RF_YAML_NUMBER)
		return new_text(l, RF_JSON_NUMBER, rf_buf_str(&number));
	v = new_node(l, kind == RF_YAML_NULL ? RF_JSON_NULL : RF_JSON_BOOL);
	if (v != NULL)
		v->boolean = kind == RF_YAML_TRUE;
	return v;
}

/* --- aliases -------------------------------------------------------------------------------- */

static struct rf_json *copy_node(struct loader *l, const struct rf_json *v);

static bool copy_entries(struct loader *l, const struct rf_json *v)
{
	for (uint32_t i = 0; i < v->n; i++) {
		struct rf_json_member m = { 0 };
		bool object = v->type == RF_JSON_OBJECT;

		if (object)
			m.key = v->members[i].key;
		m.value = copy_node(l, object ? v->members[i].value : v->items[i]);
		if (m.value == NULL)
			return false;
		rf_vec_push(&l->open, m);
	}
	return true;
}

/* Nodes are copied, their text is shared: nobody changes text in place. */
static struct rf_json *copy_node(struct loader *l, const struct rf_json *v)
{
	struct rf_json *copy = new_node(l, v->type);
	size_t base = l->open.n;

	if (copy == NULL)
		return NULL;
	l->expanded++;
	if (v->type == RF_JSON_STRING || v->type == RF_JSON_NUMBER)
		l->expanded += v->text.n / 32;
	if (l->expanded > EXPANSION_MAX)
		return fail_here(l,
				 "aliases expand to more than %d values; write less by reference",
				 EXPANSION_MAX);
	if (v->type == RF_JSON_BOOL)
		copy->boolean = v->boolean;
	else if (v->type == RF_JSON_STRING || v->type == RF_JSON_NUMBER)
		copy->text = v->text;
	if (v->type != RF_JSON_ARRAY && v->type != RF_JSON_OBJECT)
		return copy;
	if (!enter(l) || !copy_entries(l, v))
		return NULL;
	return close_container(l, copy, base);
}

static struct rf_json *load_alias(struct loader *l)
{
	const char *name = (const char *)l->event.data.alias.anchor;
	struct rf_json *v = rf_map_get(&l->anchors, rf_str(name));

	if (v == NULL)
		return fail_here(l, "alias *%.60s has no anchor before it", name);
	if (v == &in_progress)
		return fail_here(l, "anchor &%.60s contains itself", name);
	return copy_node(l, v);
}

/* --- containers ----------------------------------------------------------------------------- */

static struct rf_json *load_sequence(struct loader *l)
{
	struct rf_json *v = new_node(l, RF_JSON_ARRAY);
	size_t base = l->open.n;

	if (v == NULL || !enter(l))
		return NULL;
	while (next_event(l)) {
		struct rf_json_member m = { 0 };

		if (l->event.type == YAML_SEQUENCE_END_EVENT)
			return close_container(l, v, base);
		m.value = load_node(l);
		if (m.value == NULL)
			return NULL;
		rf_vec_push(&l->open, m);
	}
	return NULL;
}

/* Kubernetes makes strings of keys that are numbers or booleans, and refuses the rest. */
static bool load_key(struct loader *l, struct rf_str *ret)
{
	yaml_mark_t mark = l->event.start_mark;
	struct rf_json *key = load_node(l);

	if (key == NULL)
		return false;
	if (key->type == RF_JSON_STRING || key->type == RF_JSON_NUMBER)
		*ret = key->text;
	else if (key->type == RF_JSON_BOOL)
		*ret = key->boolean ? RF_LIT("true") : RF_LIT("false");
	else
		return fail_mark(l, mark, "a key must be a string, a number or a boolean") != NULL;
	return true;
}

static bool is_merge_key(const struct loader *l)
{
	return l->event.type == YAML_SCALAR_EVENT && rf_str_is(event_text(l), "<<") &&
	       l->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
	       l->event.data.scalar.tag == NULL;
}

/* Adds the members of from whose keys are not there yet. */
static void merge_members(struct loader *l, struct rf_map *have, const struct rf_json *from)
{
	for (uint32_t i = 0; i < from->n; i++)
		if (rf_map_set(have, from->members[i].key, l) == NULL)
			rf_vec_push(&l->open, from->members[i]);
}

/* The mapping's own keys win, then earlier merged mappings over later ones. */
static bool merge(struct loader *l, size_t base, const struct rf_json *from)
{
	rf_auto(map) have = RF_MAP_INIT;
	bool list = from->type == RF_JSON_ARRAY;

	for (uint32_t i = 0; i < (list ? from->n : 1); i++)
		if (!rf_json_is(list ? from->items[i] : from, RF_JSON_OBJECT))
			return fail_here(l, "<< merges a mapping or a list of mappings") != NULL;
	for (size_t i = base; i < l->open.n; i++)
		rf_map_set(&have, l->open.at[i].key, l);
	for (uint32_t i = 0; i < (list ? from->n : 1); i++)
		merge_members(l, &have, list ? from->items[i] : from);
	return true;
}

static void *fail_members(struct loader *l, size_t n)
{
	l->rc = rf_fail(l->err, RF_TOO_LARGE, "YAML: a mapping of %zu keys; at most %d are taken",
			n, RF_JSON_MEMBERS_MAX);
	return NULL;
}

static struct rf_json *close_mapping(struct loader *l, struct rf_json *v, size_t base,
				     const struct rf_json *merged, yaml_mark_t mark)
{
	size_t n = l->open.n - base;
	size_t twice = n > 0 ? rf_json_find_duplicate(l->open.at + base, n) : 0;

	if (n > RF_JSON_MEMBERS_MAX)
		return fail_members(l, n);
	if (twice < n) {
		struct rf_str key = l->open.at[base + twice].key;

		return fail_mark(l, mark, "key \"%.*s\" appears twice in this mapping",
				 (int)RF_MIN(key.n, (size_t)100), key.p);
	}
	if (merged != NULL && !merge(l, base, merged))
		return NULL;
	if (l->open.n - base > RF_JSON_MEMBERS_MAX)
		return fail_members(l, l->open.n - base);
	return close_container(l, v, base);
}

static struct rf_json *load_mapping(struct loader *l)
{
	yaml_mark_t mark = l->event.start_mark;
	struct rf_json *v = new_node(l, RF_JSON_OBJECT), *merged = NULL;
	size_t base = l->open.n;

	if (v == NULL || !enter(l))
		return NULL;
	while (next_event(l)) {
		struct rf_json_member m = { 0 };
		bool merges = is_merge_key(l);

		if (l->event.type == YAML_MAPPING_END_EVENT)
			return close_mapping(l, v, base, merged, mark);
		if (merges && merged != NULL)
			return fail_here(l, "<< appears twice in this mapping");
		if (!load_key(l, &m.key) || !next_event(l))
			return NULL;
		m.value = load_node(l);
		if (m.value == NULL)
			return NULL;
		if (merges)
			merged = m.value;
		else
			rf_vec_push(&l->open, m);
	}
	return NULL;
}

static struct rf_json *load_unanchored(struct loader *l)
{
	const char *tag;

	switch (l->event.type) {
	case YAML_SCALAR_EVENT:
		return load_scalar(l);
	case YAML_SEQUENCE_START_EVENT:
		tag = (const char *)l->event.data.sequence_start.tag;
		if (tag != NULL && strcmp(tag, "!") != 0 && !is_tag(tag, "seq"))
			return fail_here(l, "tag <%.60s> is not known for a sequence", tag);
		return load_sequence(l);
	case YAML_MAPPING_START_EVENT:
		tag = (const char *)l->event.data.mapping_start.tag;
		if (tag != NULL && strcmp(tag, "!") != 0 && !is_tag(tag, "map"))
			return fail_here(l, "tag <%.60s> is not known for a mapping", tag);
		return load_mapping(l);
	default:
		return fail_here(l, "a value should be here");
	}
}

static const char *event_anchor(const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_SCALAR_EVENT:
		return (const char *)e->data.scalar.anchor;
	case YAML_SEQUENCE_START_EVENT:
		return (const char *)e->data.sequence_start.anchor;
	case YAML_MAPPING_START_EVENT:
		return (const char *)e->data.mapping_start.anchor;
	default:
		return NULL;
	}
}

/* The current event begins the node. Recursion is bounded by RF_JSON_DEPTH_MAX. */
static struct rf_json *load_node(struct loader *l)
{
	const char *anchor = event_anchor(&l->event);
	rf_auto_free char *name = NULL;
	struct rf_json *v;

	if (l->event.type == YAML_ALIAS_EVENT)
		return load_alias(l);
	if (anchor == NULL)
		return load_unanchored(l);
	name = rf_strdup(anchor); /* the event is gone by the time the node is complete */
	rf_map_set(&l->anchors, rf_str(name), &in_progress);
	v = load_unanchored(l);
	if (v != NULL)
		rf_map_set(&l->anchors, rf_str(name), v);
	return v;
}

/* --- the stream ----------------------------------------------------------------------------- */

/* The current event is a document's start. */
static bool load_document(struct loader *l)
{
	struct rf_json_member m = { 0 };

	rf_map_done(&l->anchors);
	if (!next_event(l))
		return false;
	m.value = load_node(l);
	if (m.value == NULL)
		return false;
	if (m.value->type != RF_JSON_NULL)
		rf_vec_push(&l->open, m);
	return next_event(l); /* its end */
}

static struct rf_json *load_stream(struct loader *l)
{
	struct rf_json *docs = new_node(l, RF_JSON_ARRAY);

	if (docs == NULL)
		return NULL;
	while (next_event(l)) {
		if (l->event.type == YAML_STREAM_END_EVENT) {
			l->depth++; /* close_container leaves one level; the list is none */
			return close_container(l, docs, 0);
		}
		if (l->event.type == YAML_DOCUMENT_START_EVENT && !load_document(l))
			return NULL;
	}
	return NULL;
}

static int parse(struct rf_arena *a, struct rf_str text, bool core, struct rf_json **ret_docs, struct rf_err *err)
{
	struct loader l = { .arena = a, .err = err, .core = core, .anchors = RF_MAP_INIT, .open = RF_VEC_INIT };
	struct rf_json *docs;

	if (!yaml_parser_initialize(&l.parser))
		return rf_fail(err, RF_SYSTEM, "YAML: no memory for the parser");
	yaml_parser_set_input_string(&l.parser, (const unsigned char *)(text.n > 0 ? text.p : ""),
				     text.n);
	docs = load_stream(&l);
	yaml_event_delete(&l.event);
	yaml_parser_delete(&l.parser);
	rf_map_done(&l.anchors);
	rf_vec_done(&l.open);
	if (docs == NULL)
		return l.rc;
	*ret_docs = docs;
	return 0;
}

int rf_yaml_parse(struct rf_arena *a, struct rf_str text, struct rf_json **ret_docs,
		  struct rf_err *err)
{
	return parse(a, text, false, ret_docs, err);
}

int rf_yaml_parse_core(struct rf_arena *a, struct rf_str text, struct rf_json **ret_docs,
		       struct rf_err *err)
{
	return parse(a, text, true, ret_docs, err);
}
