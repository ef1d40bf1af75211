/* A held claim on disk: DATA/claims/<uid>/record.json. */
#include <stdlib.h>

#include "base/fs.h"
#include "node/volume.h"
#include "plugin/private.h"

#define RECORD_MAX ((size_t)256 << 10)
#define BOXES_MAX 256
#define CARD_BYTES_MAX (1LL << 50) /* so that sums of them fit */

bool rf_record_is_uid(struct rf_str uid)
{
	return uid.n >= 8 && uid.n <= 63 && rf_str_is_dns_label(uid);
}

const char *rf_record_dir(struct rf_arena *a, const struct rf_plugin *p, struct rf_str uid)
{
	return rf_fs_path(a, "%s/claims/%.*s", p->data_dir, RF_STR(uid));
}

/* --- writing ---------------------------------------------------------------------------------- */

static struct rf_json *grant_json(struct rf_arena *a, const struct rf_grant *g)
{
	struct rf_json *cards = rf_json_array(a);

	for (size_t i = 0; i < g->n; i++) {
		struct rf_json *card = rf_json_make(a, "{'index':%d,'memory':%D,'compute':%D}", g->cards[i].index,
						    g->cards[i].memory_bytes, g->cards[i].compute_milli);

		if (g->sliced) {
			rf_json_set_str(a, card, "profile", rf_str(g->cards[i].profile));
			rf_json_set_int(a, card, "start", g->cards[i].start);
		}
		rf_json_push(a, cards, card);
	}
	return rf_json_make(a, "{'whole':%b,'cards':%j}", g->whole, cards);
}

int rf_record_save(const struct rf_held *h, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *boxes = rf_json_array(&a);

	for (size_t i = 0; i < h->n_boxes; i++)
		rf_json_push(&a, boxes,
			     rf_json_make(&a, "{'name':%s,'grant':%j}", h->boxes[i].name,
					  grant_json(&a, &h->boxes[i].grant)));
	rf_json_write(&text, rf_json_make(&a,
					  "{'uid':%s,'namespace':%s,'name':%s,'podUID':%s,'pod':%s,"
					  "'tenant':%s,'burst':%b,'priority':%d,'mps':%b,'domain':%s,"
					  "'containers':%j}",
					  h->uid, h->ns, h->name, h->pod_uid, h->pod, h->tenant,
					  h->terms.burst, (int)h->terms.priority, h->terms.mps, h->domain, boxes));
	if (rf_fs_mkdirs(h->dir, 0700, err) < 0 ||
	    rf_fs_write(rf_fs_path(&a, "%s/record.json", h->dir), rf_buf_str(&text), 0600, true,
			err) < 0)
		return rf_wrap(err, "write claim %s down", h->name);
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static char *text_of(const struct rf_json *v, const char *field)
{
	return rf_str_dup(rf_json_str(rf_json_get(v, rf_str(field))));
}

static bool read_card(const struct rf_json *v, struct rf_grant_card *ret)
{
	int64_t index = rf_json_int(rf_json_at(v, "index"), -1), start = rf_json_int(rf_json_at(v, "start"), 0);
	struct rf_str profile = rf_json_str_at(v, "profile");

	if (profile.n >= sizeof(ret->profile) || start < 0 || start > 255)
		return false;
	memcpy(ret->profile, profile.p, profile.n);
	ret->start = (unsigned)start;
	ret->index = (int)index;
	ret->memory_bytes = rf_json_int(rf_json_at(v, "memory"), -1);
	ret->compute_milli = rf_json_int(rf_json_at(v, "compute"), -1);
	return index >= 0 && index <= 255 && ret->memory_bytes >= 0 &&
	       ret->memory_bytes <= CARD_BYTES_MAX && ret->compute_milli >= 0 &&
	       ret->compute_milli <= 1000;
}

static bool read_grant(const struct rf_json *v, struct rf_grant *ret)
{
	const struct rf_json *cards = rf_json_at(v, "cards");

	ret->whole = rf_json_is_true(rf_json_at(v, "whole"));
	for (size_t i = 0; i < rf_json_len(cards); i++)
		if (ret->n == RF_GRANT_CARDS_MAX ||
		    !read_card(rf_json_item(cards, i), &ret->cards[ret->n++]))
			return false;
	ret->sliced = ret->n > 0 && ret->cards[0].profile[0] != '\0';
	for (size_t i = 0; i < ret->n; i++)
		if ((ret->cards[i].profile[0] != '\0') != ret->sliced)
			return false;
	return ret->n > 0 && !(ret->whole && ret->sliced);
}

static bool read_boxes(struct rf_held *h, const struct rf_json *list)
{
	if (rf_json_len(list) == 0 || rf_json_len(list) > BOXES_MAX)
		return false;
	h->boxes = rf_alloc(rf_json_len(list) * sizeof(*h->boxes));
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *v = rf_json_item(list, i);
		struct rf_held_box *b = &h->boxes[h->n_boxes++];

		*b = (struct rf_held_box){ .name = text_of(v, "name") };
		/* Names become paths. */
		if (!rf_str_is_dns_label(rf_str(b->name)) ||
		    !read_grant(rf_json_at(v, "grant"), &b->grant))
			return false;
	}
	return true;
}

static struct rf_fence_terms read_terms(const struct rf_json *v)
{
	int64_t priority = rf_json_int(rf_json_at(v, "priority"), 0);

	return (struct rf_fence_terms){ .burst = rf_json_is_true(rf_json_at(v, "burst")),
					.mps = rf_json_is_true(rf_json_at(v, "mps")),
					.priority = (int32_t)RF_MAX(RF_MIN(priority, 100), -100) };
}

static struct rf_held *read_record(struct rf_plugin *p, const struct rf_json *v, const char *dir)
{
	struct rf_held *h = rf_new(struct rf_held);

	*h = (struct rf_held){ .plugin = p,
			       .uid = text_of(v, "uid"),
			       .ns = text_of(v, "namespace"),
			       .name = text_of(v, "name"),
			       .pod_uid = text_of(v, "podUID"),
			       .pod = text_of(v, "pod"),
			       .tenant = text_of(v, "tenant"),
			       .terms = read_terms(v),
			       .domain = text_of(v, "domain"),
			       .dir = rf_strdup(dir) };
	if (rf_str_is_dns_label(rf_str(h->ns)) && rf_str_is_dns_subdomain(rf_str(h->name)) &&
	    rf_str_is_dns_subdomain(rf_str(h->pod)) && rf_record_is_uid(rf_str(h->pod_uid)) &&
	    read_boxes(h, rf_json_at(v, "containers")))
		return h;
	rf_held_free(h);
	return NULL;
}

struct rf_held *rf_record_load(struct rf_plugin *p, struct rf_str uid, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	struct rf_json *v;
	const char *dir = rf_record_dir(&a, p, uid);

	if (rf_fs_read(&a, rf_fs_path(&a, "%s/record.json", dir), RECORD_MAX, &text, err) < 0)
		return NULL;
	if (rf_json_parse(&a, text, &v, err) < 0) {
		rf_wrap(err, "%s/record.json", dir);
		return NULL;
	}
	struct rf_held *h =
		rf_str_eq(rf_json_str_at(v, "uid"), uid) ? read_record(p, v, dir) : NULL;
	if (h == NULL)
		rf_fail(err, RF_INVALID, "%s/record.json is not a record of a claim", dir);
	return h;
}

/* --- removing --------------------------------------------------------------------------------- */

/* The record goes first: a folder without one is of a claim that nobody holds any more. */
int rf_record_remove(const struct rf_plugin *p, struct rf_str uid, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *dir = rf_record_dir(&a, p, uid);

	if (rf_fs_remove_tree(rf_fs_path(&a, "%s/record.json", dir), err) < 0 ||
	    rf_volumes_unmount(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, dir), err) < 0 ||
	    rf_fs_remove_tree(dir, err) < 0)
		return -err->code;
	return 0;
}
