/* The machine's cards: their health, who is on them, and the ResourceSlice that offers them. */
#include <stdio.h>

#include "base/fs.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "tenant/tenant.h"

#define SILENT_LOOKS 10 /* a look a second: a busy driver may miss some */
#define FAULTS_FILE "%s/cards.json"

/* --- faults that outlive the agent ----------------------------------------------------------- */

static struct rf_str boot_id(struct rf_arena *a)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_fs_read(a, "/proc/sys/kernel/random/boot_id", 64, &text, NULL);
	return rf_str_trim(text);
}

static void save_faults(struct rf_agent *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *cards = rf_json_object(&a);

	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++)
		if (g->health[i].fatal_xid != 0)
			rf_json_set(&a, cards, rf_str(rf_gpu_card(g->gpu, i)->uuid),
				    rf_json_make(&a, "{'xid':%D,'since':%D,'advised':%b}",
						 g->health[i].fatal_xid, g->health[i].since_ms,
						 g->health[i].advised));
	rf_json_write(&text, rf_json_make(&a, "{'boot':%S,'faults':%j}", boot_id(&a), cards));
	if (rf_fs_write(rf_fs_path(&a, FAULTS_FILE, g->data_dir), rf_buf_str(&text), 0600, true,
			&err) < 0)
		rf_warn("%s", err.msg);
}

/* A fault is remembered until the driver says that it is mended, or the machine was restarted. */
static void load_faults(struct rf_agent *g)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	struct rf_json *v;

	if (rf_fs_read(&a, rf_fs_path(&a, FAULTS_FILE, g->data_dir), 1 << 20, &text, NULL) < 0 ||
	    rf_json_parse(&a, text, &v, NULL) < 0 ||
	    !rf_str_eq(rf_json_str_at(v, "boot"), boot_id(&a)))
		return;
	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++) {
		struct rf_json *f =
			rf_json_get(rf_json_at(v, "faults"), rf_str(rf_gpu_card(g->gpu, i)->uuid));

		g->health[i].fatal_xid = rf_json_int(rf_json_at(f, "xid"), 0);
		g->health[i].since_ms = rf_json_int(rf_json_at(f, "since"), 0);
		g->health[i].advised = rf_json_is_true(rf_json_at(f, "advised"));
	}
}

void rf_cards_open(struct rf_agent *g)
{
	struct rf_err err = RF_ERR_INIT;

	if (g->opts->sim_dir != NULL)
		setenv("RINGFENCE_SIM", g->opts->sim_dir, 1);
	if (rf_gpu_open(g->opts->driver_lib_dir, &g->gpu, &err) < 0) {
		snprintf(g->no_gpu, sizeof(g->no_gpu), "%s", err.msg);
		rf_info("no cards: %s", err.msg);
		return;
	}
	load_faults(g);
	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++)
		rf_gpu_sample(g->gpu, i, &g->health[i].sample);
}

/* --- health ---------------------------------------------------------------------------------- */

bool rf_card_healthy(const struct rf_card_health *h)
{
	return h->fatal_xid == 0 && !h->lost && h->sample.recovery_action <= 0;
}

bool rf_card_ok(const struct rf_agent *g, int index, size_t *ret_position, struct rf_err *err)
{
	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++) {
		const struct rf_card_health *h = &g->health[i];

		if (rf_gpu_card(g->gpu, i)->index != index)
			continue;
		if (!rf_card_healthy(h)) {
			rf_fail(err, RF_FORBIDDEN, "card gpu-%d is out of service: %s%s%lld", index,
				h->lost	       ? "it does not answer"
				: h->fatal_xid ? "XID "
					       : "its driver asks for recovery action ",
				h->lost ? "; last XID " : "",
				(long long)(h->lost	   ? h->last_xid
					    : h->fatal_xid ? h->fatal_xid
							   : h->sample.recovery_action));
			return false;
		}
		*ret_position = i;
		return true;
	}
	rf_fail(err, RF_FORBIDDEN, "card gpu-%d is not on this machine", index);
	return false;
}

static void on_xid(struct rf_agent *g, const struct rf_gpu_event *e)
{
	struct rf_card_health *h = &g->health[e->card];
	const struct rf_gpu_card *card = rf_gpu_card(g->gpu, e->card);

	h->xids++;
	h->last_xid = e->xid;
	rf_warn("card gpu-%d (%s): XID %lld%s", card->index, card->uuid, (long long)e->xid,
		rf_gpu_xid_is_fatal(e->xid) ? ", taken out of service" : "");
	if (!rf_gpu_xid_is_fatal(e->xid) || h->fatal_xid != 0)
		return;
	h->fatal_xid = e->xid;
	h->since_ms = rf_agent_now();
	h->advised = false;
	save_faults(g);
}

/* Mended: the driver asked for an action after the fault, and now asks for none. */
static void look_for_recovery(struct rf_agent *g, size_t i)
{
	struct rf_card_health *h = &g->health[i];

	if (h->fatal_xid == 0)
		return;
	if (h->sample.recovery_action > 0 && !h->advised) {
		h->advised = true;
		save_faults(g);
	}
	if (h->lost || !h->advised || h->sample.recovery_action != 0)
		return;
	rf_info("card gpu-%d is back in service", rf_gpu_card(g->gpu, i)->index);
	h->fatal_xid = 0;
	h->advised = false;
	save_faults(g);
}

/* A pod on a card that failed cannot go on; waiting would only hold the card. */
static void fail_pods_on(struct rf_agent *g, size_t position)
{
	int index = rf_gpu_card(g->gpu, position)->index;
	char message[160];

	snprintf(message, sizeof(message), "card gpu-%d failed (%s %lld)", index,
		 g->health[position].lost ? "it does not answer; last XID" : "XID",
		 (long long)(g->health[position].lost ? g->health[position].last_xid
						      : g->health[position].fatal_xid));
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&g->workers, s)) != NULL;) {
		struct rf_worker *w = s->value;

		for (size_t i = 0; i < w->n_containers && w->state < RF_POD_STOPPING; i++)
			for (size_t j = 0; j < w->containers[i].grant.n; j++)
				if (w->containers[i].grant.cards[j].index == index)
					rf_worker_refuse(w, "DeviceFault", message);
	}
}

void rf_cards_poll(struct rf_agent *g)
{
	struct rf_gpu_event e;

	for (int n = 0; g->gpu != NULL && n < 64 && rf_gpu_next_event(g->gpu, &e); n++)
		on_xid(g, &e);
	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++) {
		struct rf_card_health *h = &g->health[i];
		bool was_lost = h->lost;

		rf_gpu_sample(g->gpu, i, &h->sample);
		/* A card told its memory when it was found; one that cannot any more is of no use. */
		h->silent = h->sample.memory_used < 0 ? h->silent + 1 : 0;
		h->lost = h->sample.lost || h->silent >= SILENT_LOOKS;
		if (h->lost && !was_lost) {
			h->since_ms = h->since_ms ? h->since_ms : rf_agent_now();
			rf_warn("card gpu-%d does not answer any more",
				rf_gpu_card(g->gpu, i)->index);
		}
		look_for_recovery(g, i);
		if (h->lost || h->fatal_xid != 0)
			fail_pods_on(g, i);
	}
}

int rf_card_strangers(struct rf_agent *g, size_t position, struct rf_str uid, bool mine,
		      size_t *ret_n, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *p;
	size_t n, count = 0;

	if (rf_gpu_processes(g->gpu, position, &a, &p, &n, err) < 0)
		return -RF_UNAVAILABLE;
	for (size_t i = 0; i < n; i++) {
		struct rf_str owner = RF_STR_EMPTY, container;
		bool is_mine = rf_cgroup_of_pid(&a, p[i].pid, g->instance, &owner, &container) &&
			       rf_str_eq(owner, uid);

		count += is_mine == mine ? 1 : 0;
	}
	*ret_n = count;
	return 0;
}

/* --- the slice ------------------------------------------------------------------------------- */

static struct rf_json *taints_of(struct rf_arena *a, const struct rf_card_health *h)
{
	struct rf_json *list = rf_json_array(a);
	struct rf_str since = rf_time_format(a, h->since_ms);

	if (h->fatal_xid != 0)
		rf_json_push(
			a, list,
			rf_json_make(a,
				     "{'key':'ringfence.io/xid','value':%S,'effect':'NoExecute',"
				     "'timeAdded':%S}",
				     rf_arena_printf(a, "%lld", (long long)h->fatal_xid), since));
	if (h->lost)
		rf_json_push(a, list,
			     rf_json_make(a,
					  "{'key':'ringfence.io/gpu-lost','value':'true',"
					  "'effect':'NoExecute','timeAdded':%S}",
					  since));
	if (h->fatal_xid == 0 && !h->lost && h->sample.recovery_action > 0)
		rf_json_push(a, list,
			     rf_json_make(a,
					  "{'key':'ringfence.io/recovery-action','value':%S,"
					  "'effect':'NoSchedule'}",
					  rf_arena_printf(a, "%lld",
							  (long long)h->sample.recovery_action)));
	return list;
}

static struct rf_json *device_of(struct rf_arena *a, const struct rf_agent *g, size_t i)
{
	const struct rf_gpu_card *c = rf_gpu_card(g->gpu, i);
	struct rf_str memory = rf_quantity_bytes(a, c->memory_bytes);
	struct rf_json *d = rf_json_make(a,
					 "{'name':%S,'attributes':{'uuid':{'string':%s},'"
					 "productName':{'string':%S},'index':{'int':%d},"
					 "'simulated':{'bool':%b}},'capacity':{'memory':{'value':%"
					 "S},'compute':{'value':'1000'}},"
					 "'allowMultipleAllocations':true}",
					 rf_arena_printf(a, "gpu-%d", c->index), c->uuid,
					 rf_str_n(c->name, strnlen(c->name, 64)), c->index,
					 g->opts->sim_dir != NULL, memory);
	struct rf_json *taints = taints_of(a, &g->health[i]);

	if (rf_json_len(taints) > 0)
		rf_json_set(a, d, RF_LIT("taints"), taints);
	return d;
}

struct rf_json *rf_cards_slice(struct rf_arena *a, const struct rf_agent *g)
{
	struct rf_json *devices = rf_json_array(a);

	for (size_t i = 0; i < rf_gpu_count(g->gpu); i++)
		rf_json_push(a, devices, device_of(a, g, i));
	return rf_json_make(
		a,
		"{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':%S},"
		"'spec':{'driver':%s,'nodeName':%S,'pool':{'name':%S,'generation':1,"
		"'resourceSliceCount':1},'devices':%j}}",
		rf_arena_printf(a, "%.*s-ringfence", RF_STR(g->name)), RF_DRIVER, g->name, g->name,
		devices);
}

int rf_cards_publish(struct rf_agent *g, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *slice = rf_cards_slice(&a, g);

	rf_json_write(&text, slice);
	if (rf_str_eq(rf_buf_str(&text), rf_buf_str(&g->slice_sent)))
		return 0;
	if (rf_agent_apply(g, &RF_RESOURCESLICES, RF_STR_EMPTY, slice, err) < 0)
		return rf_wrap(err, "publish the cards");
	rf_buf_clear(&g->slice_sent);
	rf_buf_add(&g->slice_sent, rf_buf_str(&text));
	g->node_told_ms = 0; /* the Node's own numbers follow with the next heartbeat */
	return 0;
}
