/* What Allocate promised, in memory and in DATA/slots.json. */
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"
#include "plugin/private.h"

#define PROMISES_MAX 1024
#define FILE_MAX (4 << 20)

static void free_str(struct rf_str s)
{
	free((void *)(uintptr_t)s.p);
}

static struct rf_str keep(struct rf_str s)
{
	return rf_str_n(rf_str_dup(s), s.n);
}

static void free_promise(struct rf_promise *m)
{
	free_str(m->resource);
	free_str(m->cdi);
	free_str(m->container);
	for (size_t i = 0; i < m->ids.n; i++)
		free_str(m->ids.at[i]);
	free(m->ids.at);
	free(m);
}

static struct rf_promise *new_promise(struct rf_str resource, struct rf_str cdi,
				      const struct rf_kapi_ids *ids)
{
	struct rf_promise *m = rf_new(struct rf_promise);

	m->resource = keep(resource);
	m->cdi = keep(cdi);
	m->container = keep(RF_STR_EMPTY);
	m->ids.at = rf_alloc((ids->n + 1) * sizeof(*m->ids.at));
	for (size_t i = 0; i < ids->n; i++)
		m->ids.at[m->ids.n++] = keep(ids->at[i]);
	return m;
}

static void set_owner(struct rf_promise *m, struct rf_str claim, struct rf_str container)
{
	snprintf(m->claim, sizeof(m->claim), "%.*s", RF_STR(claim));
	free_str(m->container);
	m->container = keep(container);
}

/* --- the file --------------------------------------------------------------------------------- */

static const char *path_of(struct rf_arena *a, const struct rf_plugin *p)
{
	return rf_fs_path(a, "%s/slots.json", p->data_dir);
}

static struct rf_json *promise_json(struct rf_arena *a, const struct rf_promise *m)
{
	struct rf_json *ids = rf_json_array(a);

	for (size_t i = 0; i < m->ids.n; i++)
		rf_json_push(a, ids, rf_json_string(a, m->ids.at[i]));
	return rf_json_make(a, "{'resource':%S,'slots':%j,'cdi':%S,'claim':%s,'container':%S}",
			    m->resource, ids, m->cdi, m->claim, m->container);
}

int rf_promise_save(const struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *all = rf_json_array(&a);

	for (size_t i = 0; i < p->promises.n; i++)
		rf_json_push(&a, all, promise_json(&a, p->promises.at[i]));
	rf_json_write(&text, all);
	return rf_fs_write(path_of(&a, p), rf_buf_str(&text), 0600, true, err);
}

/* NULL if it is not one: its CDI device is a file's name. */
static struct rf_promise *read_promise(struct rf_arena *a, const struct rf_json *v)
{
	const struct rf_json *slots = rf_json_at(v, "slots");
	struct rf_str cdi = rf_json_str_at(v, "cdi"), claim = rf_json_str_at(v, "claim");
	struct rf_kapi_ids ids = { .at = rf_arena_array(a, struct rf_str, rf_json_len(slots) + 1) };

	for (size_t i = 0; i < rf_json_len(slots); i++)
		ids.at[ids.n++] = rf_json_str(rf_json_item(slots, i));
	if (ids.n == 0 || !rf_str_is_dns_label(cdi) || rf_json_str_at(v, "resource").n == 0 ||
	    (claim.n > 0 && !rf_record_is_uid(claim)))
		return NULL;
	struct rf_promise *m = new_promise(rf_json_str_at(v, "resource"), cdi, &ids);
	set_owner(m, claim, rf_json_str_at(v, "container"));
	return m;
}

void rf_promise_load(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;
	struct rf_json *all;
	int rc = rf_fs_read(&a, path_of(&a, p), FILE_MAX, &text, &err);

	if (rc == -RF_NOT_FOUND)
		return;
	if (rc < 0 || rf_json_parse(&a, text, &all, &err) < 0) {
		rf_warn("slots.json: %s; containers that were promised slots start again only with "
			"their "
			"pods",
			err.msg);
		return;
	}
	for (size_t i = 0; i < RF_MIN(rf_json_len(all), PROMISES_MAX); i++) {
		struct rf_promise *m = read_promise(&a, rf_json_item(all, i));

		if (m == NULL)
			rf_warn("slots.json: entry %zu is not a promise; left out", i);
		else
			rf_vec_push(&p->promises, m);
	}
}

/* --- promises --------------------------------------------------------------------------------- */

static bool has_id(const struct rf_kapi_ids *ids, struct rf_str id)
{
	for (size_t i = 0; i < ids->n; i++)
		if (rf_str_eq(ids->at[i], id))
			return true;
	return false;
}

static bool overlaps(const struct rf_kapi_ids *a, const struct rf_kapi_ids *b)
{
	for (size_t i = 0; i < a->n; i++)
		if (has_id(b, a->at[i]))
			return true;
	return false;
}

static void drop(struct rf_plugin *p, size_t i)
{
	rf_cdi_remove(p, p->promises.at[i]->cdi);
	free_promise(p->promises.at[i]);
	p->promises.at[i] = p->promises.at[--p->promises.n];
}

int rf_promise_make(struct rf_plugin *p, struct rf_str resource, const struct rf_kapi_ids *ids,
		    struct rf_promise **ret, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (ids->n == 0)
		return rf_fail(err, RF_INVALID, "a container without slots needs no promise");
	for (size_t i = p->promises.n; i-- > 0;)
		if (rf_str_eq(p->promises.at[i]->resource, resource) &&
		    overlaps(&p->promises.at[i]->ids, ids))
			drop(p, i);
	if (p->promises.n >= PROMISES_MAX)
		return rf_fail(err, RF_EXHAUSTED, "more than %d promises are open", PROMISES_MAX);
	*ret = new_promise(resource, rf_arena_printf(&a, "slot-%.*s", RF_STR(rf_rand_uuid(&a))),
			   ids);
	rf_vec_push(&p->promises, *ret);
	return 0;
}

struct rf_promise *rf_promise_find(struct rf_plugin *p, struct rf_str resource,
				   const struct rf_kapi_ids *ids)
{
	for (size_t i = 0; i < p->promises.n; i++)
		if (rf_str_eq(p->promises.at[i]->resource, resource) &&
		    rf_kapi_same_ids(&p->promises.at[i]->ids, ids))
			return p->promises.at[i];
	return NULL;
}

struct rf_promise *rf_promise_of_slot(struct rf_plugin *p, struct rf_str resource, struct rf_str id)
{
	for (size_t i = 0; i < p->promises.n; i++)
		if (rf_str_eq(p->promises.at[i]->resource, resource) &&
		    has_id(&p->promises.at[i]->ids, id))
			return p->promises.at[i];
	return NULL;
}

int rf_promise_bind(struct rf_plugin *p, struct rf_promise *m, const struct rf_held *h,
		    struct rf_str container, struct rf_err *err)
{
	if (strcmp(m->claim, h->uid) == 0 && rf_str_eq(m->container, container))
		return 0;
	set_owner(m, rf_str(h->uid), container);
	if (rf_promise_save(p, err) == 0)
		return 0;
	set_owner(m, RF_STR_EMPTY, RF_STR_EMPTY);
	return -err->code;
}

void rf_promise_forget(struct rf_plugin *p, struct rf_str claim_uid)
{
	struct rf_err err = RF_ERR_INIT;
	size_t before = p->promises.n;

	for (size_t i = p->promises.n; i-- > 0;)
		if (rf_str_is(claim_uid, p->promises.at[i]->claim))
			drop(p, i);
	if (p->promises.n != before && rf_promise_save(p, &err) < 0)
		rf_warn("%s", err.msg);
}

void rf_promise_close(struct rf_plugin *p)
{
	for (size_t i = 0; i < p->promises.n; i++)
		free_promise(p->promises.at[i]);
	rf_vec_done(&p->promises);
}
