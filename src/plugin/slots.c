/* The device plugin: whole cards under names that kubelets count. What it offers are slots, as many as
 * there are cards. Which card a container gets is in its pod's claim; a slot only carries it there. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "plugin/private.h"

#define REGISTER_MS 15000
#define RESOURCES_MS 5000

struct rf_watcher {
	struct rf_slots *slots;
	struct rf_grpc_call *call;
	struct rf_watcher *next;
};

/* --- the list --------------------------------------------------------------------------------- */

/* Is this promise's container on a card that failed? */
static bool on_failed_card(struct rf_plugin *p, const struct rf_promise *m)
{
	struct rf_held *h = m != NULL ? rf_held_find(p, rf_str(m->claim)) : NULL;
	const struct rf_held_box *b = h != NULL ? rf_held_box(h, m->container) : NULL;
	size_t position;

	for (size_t i = 0; b != NULL && i < b->grant.n; i++)
		if (!rf_card_ok(&p->cards, b->grant.cards[i].index, &position, NULL))
			return true;
	return false;
}

/* As many slots are unhealthy as cards are: those in use on such a card, then unused ones. */
static void write_list(struct rf_slots *s, struct rf_buf *out)
{
	struct rf_plugin *p = s->plugin;
	size_t n = rf_cards_usable(&p->cards, false), sick = n - rf_cards_usable(&p->cards, true);
	enum { ON_FAILED, UNUSED, USED, RANKS } rank[RF_GPU_CARDS_MAX];
	bool bad[RF_GPU_CARDS_MAX] = { false };
	char id[RF_GPU_CARDS_MAX][32];

	for (size_t i = 0; i < n; i++) {
		snprintf(id[i], sizeof(id[i]), "slot-%zu", i);
		const struct rf_promise *m = rf_promise_of_slot(p, s->resource, rf_str(id[i]));
		rank[i] = m == NULL ? UNUSED : on_failed_card(p, m) ? ON_FAILED : USED;
	}
	for (int r = 0; r < RANKS; r++)
		for (size_t i = n; i-- > 0 && sick > 0;)
			if ((int)rank[i] == r) {
				bad[i] = true;
				sick--;
			}
	for (size_t i = 0; i < n; i++)
		rf_kapi_device(out, rf_str(id[i]), !bad[i]);
}

static void tell(struct rf_slots *s)
{
	rf_auto(buf) list = RF_BUF_INIT;

	write_list(s, &list);
	if (rf_str_eq(rf_buf_str(&list), rf_buf_str(&s->sent)))
		return;
	rf_buf_clear(&s->sent);
	rf_buf_add(&s->sent, rf_buf_str(&list));
	for (struct rf_watcher *w = s->watchers; w != NULL; w = w->next)
		rf_grpc_send(w->call, rf_buf_str(&s->sent));
}

void rf_slots_tell(struct rf_plugin *p)
{
	for (size_t i = 0; i < p->n_slots; i++)
		tell(&p->slots[i]);
}

/* --- calls of the kubelet --------------------------------------------------------------------- */

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
	/* A kubelet that does not follow us has marked every slot unhealthy; only Register mends that. */
	if (w->slots->watchers == NULL)
		w->slots->registered = false;
	free(w);
}

static void on_list(void *ctx, struct rf_grpc_call *call, struct rf_str in RF_UNUSED)
{
	struct rf_slots *s = ctx;
	struct rf_watcher *w = rf_new(struct rf_watcher);

	tell(s); /* those who watch already must not miss what the new one learns */
	*w = (struct rf_watcher){ s, call, s->watchers };
	s->watchers = w;
	rf_grpc_on_cancel(call, on_watcher_gone, w);
	rf_grpc_send(call, rf_buf_str(&s->sent));
	rf_plugin_soon(s->plugin); /* the cards may be published now */
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
	struct rf_kapi_ids *containers;
	size_t n;

	if (rf_kapi_read_allocate(&a, in, &containers, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n; i++) {
		struct rf_promise *m;

		if (rf_promise_make(s->plugin, s->resource, &containers[i], &m, err) < 0)
			return -err->code;
		rf_kapi_allocated(out, rf_arena_printf(&a, RF_CDI_KIND "=%.*s", RF_STR(m->cdi)));
	}
	return rf_promise_save(s->plugin, err);
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

/* --- PreStartContainer: now it is known whose the slots are ----------------------------------- */

struct rf_start {
	struct rf_slots *slots;
	struct rf_start *next;
	struct rf_grpc_call *call; /* NULL: the kubelet went away meanwhile */
	struct rf_arena arena;
	struct rf_kapi_ids ids;
};

static void free_start(struct rf_start *s)
{
	struct rf_start **at = &s->slots->starts;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	rf_arena_done(&s->arena);
	free(s);
}

/* The container's own before its device exists: a spec that nobody forgets would stay for ever. */
static int give(struct rf_start *s, struct rf_promise *m, struct rf_held *h,
		struct rf_str container, struct rf_err *err)
{
	struct rf_plugin *p = s->slots->plugin;
	struct rf_held_box *box = rf_held_box(h, container);
	struct rf_json *edits;

	if (box == NULL)
		return rf_fail(err, RF_FORBIDDEN, "the claim grants container %.*s no card",
			       RF_STR(container));
	if (rf_cdi_edits(&s->arena, p, h, box, &edits, err) < 0 ||
	    rf_promise_bind(p, m, h, container, err) < 0 || rf_cdi_write(p, m->cdi, edits, err) < 0)
		return -err->code;
	h->given_ms = rf_plugin_now();
	return 0;
}

static int find_held(struct rf_start *s, const struct rf_kapi_owner *owner, struct rf_held **ret,
		     struct rf_err *err)
{
	struct rf_plugin *p = s->slots->plugin;
	const struct rf_json *pod;
	struct rf_json *claim;

	if (rf_plugin_pod(p, &s->arena, owner->ns, owner->pod, &pod, err) < 0)
		return -err->code;
	int rc = rf_plugin_claim(p, &s->arena, owner->ns, rf_pod_claim_name(&s->arena, pod), &claim,
				 err);
	if (rc == -RF_NOT_FOUND)
		return rf_fail(
			err, RF_FORBIDDEN,
			"pod %.*s/%.*s has no claim: it was not placed by ringfence; create it in "
			"a tenant's namespace, without nodeName and schedulerName",
			RF_STR(owner->ns), RF_STR(owner->pod));
	return rc < 0 ? rc : rf_held_prepare(p, claim, pod, ret, err);
}

static int hand_over(struct rf_start *s, struct rf_str resources, struct rf_err *err)
{
	struct rf_promise *m = rf_promise_find(s->slots->plugin, s->slots->resource, &s->ids);
	struct rf_kapi_owner owner;
	struct rf_held *h;

	if (m == NULL)
		return rf_fail(err, RF_NOT_FOUND,
			       "these slots were not allocated by this agent; delete the pod");
	if (rf_kapi_find_owner(&s->arena, resources, s->slots->resource, &s->ids, &owner, err) <
		    0 ||
	    find_held(s, &owner, &h, err) < 0)
		return -err->code;
	/* The kubelet knows pods by uid and tells us names: a new pod of the old one's name. */
	if (m->claim[0] != '\0' && strcmp(m->claim, h->uid) != 0)
		return rf_fail(err, RF_FORBIDDEN,
			       "these slots are those of an earlier pod %.*s/%.*s; delete the pod",
			       RF_STR(owner.ns), RF_STR(owner.pod));
	return give(s, m, h, owner.container, err);
}

static void answer_start(struct rf_start *s, int rc, const struct rf_err *err)
{
	if (s->call != NULL && rc < 0) {
		rf_warn("%.*s: a container cannot start: %s", RF_STR(s->slots->resource), err->msg);
		rf_grpc_fail(s->call, err);
	} else if (s->call != NULL) {
		rf_grpc_reply(s->call, RF_STR_EMPTY);
	}
	free_start(s);
}

static void on_resources(void *ctx, const struct rf_err *failed, struct rf_str answer)
{
	struct rf_start *s = ctx;
	struct rf_err err = RF_ERR_INIT;
	int rc = 0;

	if (failed != NULL)
		rc = rf_fail(&err, (enum rf_code)failed->code,
			     "ask the kubelet whose these slots are: %s", failed->msg);
	else if (s->call != NULL)
		rc = hand_over(s, answer, &err);
	answer_start(s, rc, &err);
}

static void on_start_gone(void *ctx)
{
	((struct rf_start *)ctx)->call = NULL;
}

/* A container that starts again: whose the slots are was settled the first time, and slots that are
 * given out anew lose their promise. Neither kubelet nor API server need be asked. */
static struct rf_held *settled(struct rf_plugin *p, const struct rf_promise *m)
{
	struct rf_held *h = m != NULL ? rf_held_find(p, rf_str(m->claim)) : NULL;
	const struct rf_held_box *b = h != NULL ? rf_held_box(h, m->container) : NULL;

	return b != NULL && rf_held_ready(h, b) ? h : NULL;
}

static void start(struct rf_start *s)
{
	struct rf_plugin *p = s->slots->plugin;
	struct rf_promise *m = rf_promise_find(p, s->slots->resource, &s->ids);
	struct rf_held *h = settled(p, m);
	struct rf_err err = RF_ERR_INIT;

	if (h != NULL) {
		answer_start(s, give(s, m, h, rf_arena_str(&s->arena, m->container), &err), &err);
		return;
	}
	rf_grpc_on_cancel(s->call, on_start_gone, s);
	rf_grpc_call_unary(p->resources, "/v1.PodResourcesLister/List", RF_STR_EMPTY, RESOURCES_MS,
			   on_resources, s);
}

static void on_prestart(void *ctx, struct rf_grpc_call *call, struct rf_str in)
{
	struct rf_slots *slots = ctx;
	struct rf_start *s = rf_new(struct rf_start);
	struct rf_err err = RF_ERR_INIT;

	*s = (struct rf_start){
		.slots = slots, .next = slots->starts, .call = call, .arena = RF_ARENA_INIT
	};
	slots->starts = s;
	if (rf_kapi_read_prestart(&s->arena, rf_arena_str(&s->arena, in), &s->ids, &err) < 0)
		answer_start(s, -err.code, &err);
	else
		start(s);
}

/* --- sockets and registration ----------------------------------------------------------------- */

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
	s->registered = err == NULL && !s->relistened;
	if (s->relistened)
		rf_plugin_soon(s->plugin);
	else if (err == NULL)
		rf_info("the kubelet knows %.*s", RF_STR(s->resource));
	else if (!s->told)
		rf_warn("register %.*s with the kubelet: %s; will be tried again",
			RF_STR(s->resource), err->msg);
	s->told = err != NULL;
}

static void reg(struct rf_slots *s)
{
	rf_auto(buf) out = RF_BUF_INIT;

	s->registering = true;
	s->relistened = false;
	rf_kapi_register(&out, rf_str(strrchr(s->socket, '/') + 1), s->resource);
	rf_grpc_call_unary(s->plugin->kubelet, "/v1beta1.Registration/Register", rf_buf_str(&out),
			   REGISTER_MS, on_registered, s);
}

static void stop_listening(struct rf_slots *s)
{
	rf_grpc_server_close(s->server);
	s->server = NULL;
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

/* Drops calls under way, without a word: what the last kubelet says does not count any more. */
static void connect_kubelet(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	rf_grpc_client_free(p->kubelet);
	p->kubelet = rf_grpc_client_new(
		&p->loop, rf_fs_path(&a, "%s/device-plugins/kubelet.sock", p->opts->kubelet_dir));
	for (size_t i = 0; i < p->n_slots; i++)
		p->slots[i].registered = p->slots[i].registering = false;
}

static void keep(struct rf_slots *s)
{
	struct rf_err err = RF_ERR_INIT;

	/* A kubelet that starts removes every socket in its folder. */
	if (s->server != NULL && !rf_fs_exists(s->socket))
		stop_listening(s);
	if (s->server == NULL) {
		s->registered = false;
		s->relistened = true;
		if (rf_grpc_listen(&s->plugin->loop, s->socket, 0600, methods, RF_COUNT(methods), s,
				   &s->server, &err) < 0) {
			rf_warn("%s; will be tried again", err.msg);
			return;
		}
	}
	if (s->plugin->kubelet_socket != 0 && !s->registered && !s->registering)
		reg(s);
}

void rf_slots_keep(struct rf_plugin *p)
{
	uint64_t now = kubelet_socket(p);

	if (now != p->kubelet_socket && now != 0) {
		if (p->kubelet_socket != 0)
			rf_info("the kubelet was restarted; registering again");
		connect_kubelet(p);
		for (size_t i = 0; i < p->n_slots; i++)
			stop_listening(&p->slots[i]);
	}
	p->kubelet_socket = now;
	for (size_t i = 0; i < p->n_slots; i++)
		keep(&p->slots[i]);
}

bool rf_slots_known(const struct rf_plugin *p)
{
	for (size_t i = 0; i < p->n_slots; i++)
		if (!p->slots[i].registered || p->slots[i].watchers == NULL)
			return false;
	return true;
}

int rf_slots_open(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *dir = rf_fs_path(&a, "%s/device-plugins", p->opts->kubelet_dir);

	if (!rf_fs_exists(dir))
		return rf_fail(
			err, RF_NOT_FOUND,
			"%s is not there; is --kubelet the kubelet's folder, and is it mounted?",
			dir);
	p->resources = rf_grpc_client_new(
		&p->loop, rf_fs_path(&a, "%s/pod-resources/kubelet.sock", p->opts->kubelet_dir));
	for (size_t i = 0; rf_gpu_name(i) != NULL && i < RF_COUNT(p->slots); i++) {
		struct rf_slots *s = &p->slots[p->n_slots++];

		*s = (struct rf_slots){ .plugin = p,
					.resource = rf_str(rf_gpu_name(i)),
					.socket = rf_strdup(
						rf_fs_path(&a, "%s/ringfence-%zu.sock", dir, i)),
					.sent = RF_BUF_INIT };
		write_list(s, &s->sent);
	}
	return 0;
}

void rf_slots_close(struct rf_plugin *p)
{
	rf_grpc_client_free(p->kubelet);
	rf_grpc_client_free(p->resources);
	for (size_t i = 0; i < p->n_slots; i++) {
		struct rf_slots *s = &p->slots[i];

		stop_listening(s);
		/* Their question to the kubelet went with the client. */
		while (s->starts != NULL)
			free_start(s->starts);
		rf_buf_done(&s->sent);
		free(s->socket);
	}
	rf_promise_close(p);
}
