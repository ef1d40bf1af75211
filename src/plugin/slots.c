/* The device plugin: whole cards under names that kubelets count. What it offers are slots, as many as
 * there are cards. Which card a container gets is in its pod's claim; a slot only carries it there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "plugin/private.h"

#define REGISTER_MS 15000
#define RESOURCES_MS 5000
#define PROMISES_MAX 1024

struct rf_watcher {
	struct rf_slots *slots;
	struct rf_grpc_call *call;
	struct rf_watcher *next;
};

/* --- promises: what Allocate gave out, on disk -------------------------------------------------- */

static void free_promise(struct rf_promise *m)
{
	free((void *)(uintptr_t)m->resource.p);
	free((void *)(uintptr_t)m->cdi.p);
	free((void *)(uintptr_t)m->container.p);
	for (size_t i = 0; i < m->ids.n; i++)
		free((void *)(uintptr_t)m->ids.at[i].p);
	free(m->ids.at);
	free(m);
}

static struct rf_str keep(struct rf_str s)
{
	char *c = rf_alloc(s.n + 1);

	memcpy(c, s.p, s.n);
	return rf_str_n(c, s.n);
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

static const char *promises_path(struct rf_arena *a, const struct rf_plugin *p)
{
	return rf_fs_path(a, "%s/slots.json", p->data_dir);
}

static int save(const struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *all = rf_json_array(&a);

	for (size_t i = 0; i < p->promises.n; i++) {
		const struct rf_promise *m = p->promises.at[i];
		struct rf_json *ids = rf_json_array(&a);

		for (size_t j = 0; j < m->ids.n; j++)
			rf_json_push(&a, ids, rf_json_string(&a, m->ids.at[j]));
		rf_json_push(&a, all,
			     rf_json_make(&a,
					  "{'resource':%S,'slots':%j,'cdi':%S,'claim':%s,"
					  "'container':%S}",
					  m->resource, ids, m->cdi, m->claim, m->container));
	}
	rf_json_write(&text, all);
	return rf_fs_write(promises_path(&a, p), rf_buf_str(&text), 0600, true, err);
}

static void load(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text;
	struct rf_json *all;
	int rc = rf_fs_read(&a, promises_path(&a, p), 4 << 20, &text, &err);

	if (rc == -RF_NOT_FOUND)
		return;
	if (rc < 0 || rf_json_parse(&a, text, &all, &err) < 0) {
		rf_warn("slots.json: %s; containers that were promised slots start again only with their "
			"pods",
			err.msg);
		return;
	}
	for (size_t i = 0; i < RF_MIN(rf_json_len(all), PROMISES_MAX); i++) {
		const struct rf_json *v = rf_json_item(all, i), *slots = rf_json_at(v, "slots");
		struct rf_kapi_ids ids = { .at = rf_arena_array(&a, struct rf_str,
								rf_json_len(slots) + 1) };

		for (size_t j = 0; j < rf_json_len(slots); j++)
			ids.at[ids.n++] = rf_json_str(rf_json_item(slots, j));
		struct rf_promise *m = new_promise(rf_json_str_at(v, "resource"),
						   rf_json_str_at(v, "cdi"), &ids);
		snprintf(m->claim, sizeof(m->claim), "%.*s", RF_STR(rf_json_str_at(v, "claim")));
		free((void *)(uintptr_t)m->container.p);
		m->container = keep(rf_json_str_at(v, "container"));
		rf_vec_push(&p->promises, m);
	}
}

static bool overlaps(const struct rf_kapi_ids *a, const struct rf_kapi_ids *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++)
			if (rf_str_eq(a->at[i], b->at[j]))
				return true;
	return false;
}

static void drop_promise(struct rf_plugin *p, size_t i)
{
	rf_cdi_remove(p, p->promises.at[i]->cdi);
	free_promise(p->promises.at[i]);
	p->promises.at[i] = p->promises.at[--p->promises.n];
}

/* A slot that the kubelet gives out again is no longer whose it was. */
static void forget_slots(struct rf_plugin *p, struct rf_str resource, const struct rf_kapi_ids *ids)
{
	for (size_t i = p->promises.n; i-- > 0;)
		if (rf_str_eq(p->promises.at[i]->resource, resource) &&
		    overlaps(&p->promises.at[i]->ids, ids))
			drop_promise(p, i);
}

void rf_slots_forget(struct rf_plugin *p, struct rf_str claim_uid)
{
	struct rf_err err = RF_ERR_INIT;
	size_t before = p->promises.n;

	for (size_t i = p->promises.n; i-- > 0;)
		if (rf_str_is(claim_uid, p->promises.at[i]->claim))
			drop_promise(p, i);
	if (p->promises.n != before && save(p, &err) < 0)
		rf_warn("%s", err.msg);
}

static struct rf_promise *find_promise(struct rf_plugin *p, struct rf_str resource,
				       const struct rf_kapi_ids *ids)
{
	for (size_t i = 0; i < p->promises.n; i++)
		if (rf_str_eq(p->promises.at[i]->resource, resource) &&
		    rf_kapi_same_ids(&p->promises.at[i]->ids, ids))
			return p->promises.at[i];
	return NULL;
}

/* --- the list ----------------------------------------------------------------------------------- */

static size_t healthy_cards(const struct rf_plugin *p)
{
	size_t n = 0;

	for (size_t i = 0; i < rf_gpu_count(p->cards.gpu); i++)
		n += rf_card_healthy(&p->cards.health[i]);
	return n;
}

/* Is this slot's container on a card that failed? */
static bool on_failed_card(struct rf_slots *s, struct rf_str id)
{
	struct rf_plugin *p = s->plugin;
	struct rf_kapi_ids one = { &id, 1 };

	for (size_t i = 0; i < p->promises.n; i++) {
		const struct rf_promise *m = p->promises.at[i];
		struct rf_held *h = rf_held_find(p, rf_str(m->claim));
		const struct rf_held_box *b = h != NULL ? rf_held_box(h, m->container) : NULL;
		size_t position;

		if (!rf_str_eq(m->resource, s->resource) || !overlaps(&m->ids, &one) || b == NULL)
			continue;
		for (size_t j = 0; j < b->grant.n; j++)
			if (!rf_card_ok(&p->cards, b->grant.cards[j].index, &position, NULL))
				return true;
	}
	return false;
}

static bool is_promised(struct rf_slots *s, struct rf_str id)
{
	struct rf_kapi_ids one = { &id, 1 };

	for (size_t i = 0; i < s->plugin->promises.n; i++)
		if (rf_str_eq(s->plugin->promises.at[i]->resource, s->resource) &&
		    overlaps(&s->plugin->promises.at[i]->ids, &one))
			return true;
	return false;
}

/* As many slots are unhealthy as cards are: those in use on such a card, then unused ones. */
static void write_list(struct rf_slots *s, struct rf_buf *out)
{
	struct rf_plugin *p = s->plugin;
	size_t n = rf_gpu_count(p->cards.gpu), sick = n - healthy_cards(p);
	bool bad[RF_GPU_CARDS_MAX] = { false };
	char id[RF_GPU_CARDS_MAX][32];

	for (size_t i = 0; i < n; i++) {
		snprintf(id[i], sizeof(id[i]), "slot-%zu", i);
		if (sick > 0 && on_failed_card(s, rf_str(id[i]))) {
			bad[i] = true;
			sick--;
		}
	}
	for (int used = 0; used < 2; used++)
		for (size_t i = n; i-- > 0 && sick > 0;)
			if (!bad[i] && is_promised(s, rf_str(id[i])) == (used == 1)) {
				bad[i] = true;
				sick--;
			}
	for (size_t i = 0; i < n; i++)
		rf_kapi_device(out, rf_str(id[i]), !bad[i]);
}

void rf_slots_tell(struct rf_plugin *p)
{
	for (size_t i = 0; i < p->n_slots; i++) {
		struct rf_slots *s = &p->slots[i];
		rf_auto(buf) list = RF_BUF_INIT;

		write_list(s, &list);
		if (rf_str_eq(rf_buf_str(&list), rf_buf_str(&s->sent)))
			continue;
		rf_buf_clear(&s->sent);
		rf_buf_add(&s->sent, rf_buf_str(&list));
		for (struct rf_watcher *w = s->watchers; w != NULL; w = w->next)
			rf_grpc_send(w->call, rf_buf_str(&s->sent));
	}
}

/* --- calls of the kubelet ------------------------------------------------------------------------ */

static void on_options(void *ctx RF_UNUSED, struct rf_grpc_call *call, struct rf_str in RF_UNUSED)
{
	rf_auto(buf) out = RF_BUF_INIT;

	rf_kapi_options(&out);
	rf_grpc_reply(call, rf_buf_str(&out));
}

static void on_watcher_gone(void *ctx)
{
	struct rf_watcher *w = ctx;
	struct rf_watcher **at = &w->slots->watchers;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
}

static void on_list(void *ctx, struct rf_grpc_call *call, struct rf_str in RF_UNUSED)
{
	struct rf_slots *s = ctx;
	struct rf_watcher *w = rf_new(struct rf_watcher);

	*w = (struct rf_watcher){ s, call, s->watchers };
	s->watchers = w;
	rf_grpc_on_cancel(call, on_watcher_gone, w);
	rf_buf_clear(&s->sent);
	write_list(s, &s->sent);
	rf_grpc_send(call, rf_buf_str(&s->sent));
}

static void on_prefer(void *ctx RF_UNUSED, struct rf_grpc_call *call, struct rf_str in)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	if (rf_kapi_prefer(&a, in, &out, &err) < 0)
		rf_grpc_fail(call, &err);
	else
		rf_grpc_reply(call, rf_buf_str(&out));
}

static int allocate(struct rf_slots *s, struct rf_str in, struct rf_buf *out, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_plugin *p = s->plugin;
	struct rf_kapi_ids *containers;
	size_t n;

	if (rf_kapi_read_allocate(&a, in, &containers, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n; i++) {
		struct rf_str cdi = rf_arena_printf(&a, "slot-%.*s", RF_STR(rf_rand_uuid(&a)));

		forget_slots(p, s->resource, &containers[i]);
		if (p->promises.n >= PROMISES_MAX)
			return rf_fail(err, RF_EXHAUSTED, "more than %d promises are open", PROMISES_MAX);
		rf_vec_push(&p->promises, new_promise(s->resource, cdi, &containers[i]));
		rf_kapi_allocated(out, rf_arena_printf(&a, RF_CDI_KIND "=%.*s", RF_STR(cdi)));
	}
	return save(p, err);
}

static void on_allocate(void *ctx, struct rf_grpc_call *call, struct rf_str in)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	if (allocate(ctx, in, &out, &err) < 0) {
		rf_warn("Allocate: %s", err.msg);
		rf_grpc_fail(call, &err);
		return;
	}
	rf_grpc_reply(call, rf_buf_str(&out));
}

/* --- PreStartContainer: now it is known whose the slots are ---------------------------------------- */

struct start {
	struct rf_slots *slots;
	struct rf_grpc_call *call; /* NULL: the kubelet went away meanwhile */
	struct rf_arena arena;
	struct rf_kapi_ids ids;
};

static int hand_over(struct start *s, struct rf_str resources, struct rf_err *err)
{
	struct rf_plugin *p = s->slots->plugin;
	struct rf_promise *m = find_promise(p, s->slots->resource, &s->ids);
	struct rf_kapi_owner owner;
	const struct rf_json *pod, *claim;
	struct rf_json *edits;
	struct rf_held_box *box;
	struct rf_held *h;

	if (m == NULL)
		return rf_fail(err, RF_NOT_FOUND,
			       "these slots were not allocated by this agent; delete the pod");
	if (rf_kapi_find_owner(&s->arena, resources, s->slots->resource, &s->ids, &owner, err) < 0 ||
	    rf_plugin_pod(p, &s->arena, owner.ns, owner.pod, &pod, err) < 0)
		return -err->code;
	int rc = rf_plugin_claim(p, &s->arena, owner.ns, rf_pod_claim_name(&s->arena, pod), &claim, err);
	if (rc == -RF_NOT_FOUND)
		return rf_fail(err, RF_FORBIDDEN,
			       "pod %.*s/%.*s has no claim: it was not placed by ringfence; create it in "
			       "a tenant's namespace, without nodeName and schedulerName",
			       RF_STR(owner.ns), RF_STR(owner.pod));
	if (rc < 0 || rf_held_prepare(p, claim, pod, &h, err) < 0)
		return -err->code;
	box = rf_held_box(h, owner.container);
	if (box == NULL)
		return rf_fail(err, RF_FORBIDDEN, "the claim grants container %.*s no card",
			       RF_STR(owner.container));
	if (rf_cdi_edits(&s->arena, p, h, box, &edits, err) < 0 ||
	    rf_cdi_write(p, m->cdi, edits, err) < 0)
		return -err->code;
	snprintf(m->claim, sizeof(m->claim), "%s", h->uid);
	free((void *)(uintptr_t)m->container.p);
	m->container = keep(owner.container);
	return save(p, err);
}

static void on_resources(void *ctx, const struct rf_err *failed, struct rf_str answer)
{
	struct start *s = ctx;
	struct rf_err err = RF_ERR_INIT;

	if (failed != NULL)
		rf_fail(&err, (enum rf_code)failed->code,
			"ask the kubelet whose these slots are: %s", failed->msg);
	if (s->call != NULL && (failed != NULL || hand_over(s, answer, &err) < 0)) {
		rf_warn("%.*s: a container cannot start: %s", RF_STR(s->slots->resource), err.msg);
		rf_grpc_fail(s->call, &err);
	} else if (s->call != NULL) {
		rf_grpc_reply(s->call, RF_STR_EMPTY);
	}
	rf_arena_done(&s->arena);
	free(s);
}

static void on_start_gone(void *ctx)
{
	((struct start *)ctx)->call = NULL;
}

static void on_prestart(void *ctx, struct rf_grpc_call *call, struct rf_str in)
{
	struct start *s = rf_new(struct start);
	struct rf_err err = RF_ERR_INIT;

	*s = (struct start){ .slots = ctx, .call = call, .arena = RF_ARENA_INIT };
	if (rf_kapi_read_prestart(&s->arena, rf_arena_str(&s->arena, in), &s->ids, &err) < 0) {
		rf_grpc_fail(call, &err);
		rf_arena_done(&s->arena);
		free(s);
		return;
	}
	rf_grpc_on_cancel(call, on_start_gone, s);
	rf_grpc_call_unary(s->slots->plugin->resources, "/v1.PodResourcesLister/List", RF_STR_EMPTY,
			   RESOURCES_MS, on_resources, s);
}

/* --- sockets and registration ---------------------------------------------------------------------- */

static const struct rf_grpc_method methods[] = {
	{ "/v1beta1.DevicePlugin/GetDevicePluginOptions", on_options },
	{ "/v1beta1.DevicePlugin/ListAndWatch", on_list },
	{ "/v1beta1.DevicePlugin/GetPreferredAllocation", on_prefer },
	{ "/v1beta1.DevicePlugin/Allocate", on_allocate },
	{ "/v1beta1.DevicePlugin/PreStartContainer", on_prestart },
};

static void on_registered(void *ctx, const struct rf_err *err, struct rf_str answer RF_UNUSED)
{
	struct rf_slots *s = ctx;

	s->registering = false;
	s->registered = err == NULL;
	if (err != NULL)
		rf_warn("register %.*s with the kubelet: %s; will be tried again",
			RF_STR(s->resource), err->msg);
	else
		rf_info("the kubelet knows %.*s", RF_STR(s->resource));
}

static void reg(struct rf_slots *s)
{
	rf_auto(buf) out = RF_BUF_INIT;

	s->registering = true;
	rf_kapi_register(&out, rf_str(strrchr(s->socket, '/') + 1), s->resource);
	rf_grpc_call_unary(s->plugin->kubelet, "/v1beta1.Registration/Register", rf_buf_str(&out),
			   REGISTER_MS, on_registered, s);
}

static int listen_at(struct rf_slots *s, struct rf_err *err)
{
	rf_grpc_server_close(s->server);
	s->server = NULL;
	s->registered = false;
	return rf_grpc_listen(&s->plugin->loop, s->socket, 0600, methods, RF_COUNT(methods), s,
			      &s->server, err);
}

/* Another inode or another time: another kubelet listens there. 0: none does. */
static uint64_t kubelet_socket(const struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct stat st;

	if (stat(rf_fs_path(&a, "%s/device-plugins/kubelet.sock", p->opts->kubelet_dir), &st) < 0)
		return 0;
	return (uint64_t)st.st_ino * 1000003u + (uint64_t)st.st_ctim.tv_sec * 1000000007u +
	       (uint64_t)st.st_ctim.tv_nsec + 1;
}

void rf_slots_keep(struct rf_plugin *p)
{
	uint64_t now = kubelet_socket(p);
	bool another = now != p->kubelet_socket;

	if (another && now != 0 && p->kubelet_socket != 0)
		rf_info("the kubelet was restarted; registering again");
	p->kubelet_socket = now;
	for (size_t i = 0; i < p->n_slots; i++) {
		struct rf_slots *s = &p->slots[i];
		struct rf_err err = RF_ERR_INIT;

		/* A kubelet that starts removes every socket in its folder. */
		if ((s->server == NULL || !rf_fs_exists(s->socket)) && listen_at(s, &err) < 0) {
			rf_warn("%s; will be tried again", err.msg);
			continue;
		}
		s->registered = s->registered && !another;
		if (now != 0 && !s->registered && !s->registering)
			reg(s);
	}
}

int rf_slots_open(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *dir = rf_fs_path(&a, "%s/device-plugins", p->opts->kubelet_dir);

	load(p);
	if (!rf_fs_exists(dir))
		return rf_fail(err, RF_NOT_FOUND,
			       "%s is not there; is --kubelet the kubelet's folder, and is it mounted?",
			       dir);
	p->kubelet = rf_grpc_client_new(&p->loop, rf_fs_path(&a, "%s/kubelet.sock", dir));
	p->resources = rf_grpc_client_new(
		&p->loop, rf_fs_path(&a, "%s/pod-resources/kubelet.sock", p->opts->kubelet_dir));
	for (size_t i = 0; rf_gpu_name(i) != NULL && i < RF_COUNT(p->slots); i++) {
		struct rf_slots *s = &p->slots[p->n_slots++];

		*s = (struct rf_slots){
			.plugin = p,
			.resource = rf_str(rf_gpu_name(i)),
			.socket = rf_strdup(rf_fs_path(&a, "%s/ringfence-%zu.sock", dir, i)),
			.sent = RF_BUF_INIT
		};
		write_list(s, &s->sent);
	}
	return 0;
}

void rf_slots_close(struct rf_plugin *p)
{
	for (size_t i = 0; i < p->n_slots; i++) {
		struct rf_slots *s = &p->slots[i];

		rf_grpc_server_close(s->server);
		rf_buf_done(&s->sent);
		free(s->socket);
		s->server = NULL;
	}
	if (p->kubelet != NULL)
		rf_grpc_client_free(p->kubelet);
	if (p->resources != NULL)
		rf_grpc_client_free(p->resources);
	for (size_t i = 0; i < p->promises.n; i++)
		free_promise(p->promises.at[i]);
	rf_vec_done(&p->promises);
}
