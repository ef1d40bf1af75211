/* The machine's cards: their health, who is on them, and the ResourceSlice that offers them. */
#include <stdio.h>

#include "node/cards.h"

#include "base/fs.h"
#include "tenant/tenant.h"

#define SILENT_LOOKS 10 /* a look a second: a busy driver may miss some */
#define FAULTS_FILE "%s/cards.json"

/* --- faults that outlive the agent ----------------------------------------------------------- */

static int64_t now_ms(void)
{
	return rf_wall_ms(rf_clock_system());
}

struct rf_str rf_cards_boot(struct rf_arena *a)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_fs_read(a, "/proc/sys/kernel/random/boot_id", 64, &text, NULL);
	return rf_str_trim(text);
}

static void save_faults(struct rf_cards *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *cards = rf_json_object(&a);

	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		if (c->health[i].fatal_xid != 0)
			rf_json_set(&a, cards, rf_str(rf_gpu_card(c->gpu, i)->uuid),
				    rf_json_make(&a, "{'xid':%D,'since':%D,'advised':%b}",
						 c->health[i].fatal_xid, c->health[i].since_ms,
						 c->health[i].advised));
	rf_json_write(&text, rf_json_make(&a, "{'boot':%S,'faults':%j}", rf_cards_boot(&a), cards));
	if (rf_fs_write(rf_fs_path(&a, FAULTS_FILE, c->state_dir), rf_buf_str(&text), 0600, true,
			&err) < 0)
		rf_warn("%s", err.msg);
}

/* A fault is remembered until the driver says that it is mended, or the machine was restarted. */
static void load_faults(struct rf_cards *c)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	struct rf_json *v;

	if (rf_fs_read(&a, rf_fs_path(&a, FAULTS_FILE, c->state_dir), 1 << 20, &text, NULL) < 0 ||
	    rf_json_parse(&a, text, &v, NULL) < 0 ||
	    !rf_str_eq(rf_json_str_at(v, "boot"), rf_cards_boot(&a)))
		return;
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++) {
		struct rf_json *f =
			rf_json_get(rf_json_at(v, "faults"), rf_str(rf_gpu_card(c->gpu, i)->uuid));

		c->health[i].fatal_xid = rf_json_int(rf_json_at(f, "xid"), 0);
		c->health[i].since_ms = rf_json_int(rf_json_at(f, "since"), 0);
		c->health[i].advised = rf_json_is_true(rf_json_at(f, "advised"));
	}
}

/* A card that does not say its mode is in the one it was in. */
static void sample(struct rf_cards *c, size_t i)
{
	struct rf_card_health *h = &c->health[i];

	rf_gpu_sample(c->gpu, i, &h->sample);
	if (h->sample.mig >= 0)
		h->sliced = h->sample.mig != 0;
}

void rf_cards_open(struct rf_cards *c, const char *sim_dir, const char *driver_lib_dir,
		   const char *state_dir)
{
	struct rf_err err = RF_ERR_INIT;

	c->state_dir = state_dir;
	c->simulated = sim_dir != NULL;
	if (sim_dir != NULL)
		setenv("RINGFENCE_SIM", sim_dir, 1);
	if (rf_gpu_open(driver_lib_dir, &c->gpu, &err) < 0) {
		snprintf(c->no_gpu, sizeof(c->no_gpu), "%s", err.msg);
		rf_info("no cards: %s", err.msg);
	}
	load_faults(c);
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		sample(c, i);
	rf_slices_load(c);
	rf_slices_look(c);
	rf_cards_contexts_load(c);
}

void rf_cards_close(struct rf_cards *c)
{
	rf_cards_measurer_stop(c);
	rf_slices_done(c);
	rf_gpu_free(c->gpu);
	c->gpu = NULL;
}

/* --- health ---------------------------------------------------------------------------------- */

bool rf_card_healthy(const struct rf_card_health *h)
{
	return h->fatal_xid == 0 && !h->lost && h->sample.recovery_action <= 0;
}

bool rf_card_ok(const struct rf_cards *c, int index, size_t *ret_position, struct rf_err *err)
{
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++) {
		const struct rf_card_health *h = &c->health[i];

		if (rf_gpu_card(c->gpu, i)->index != index)
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

int rf_card_check_mode(const struct rf_cards *c, size_t position, bool slices, struct rf_err *err)
{
	if (c->health[position].sliced == slices)
		return 0;
	return rf_fail(err, RF_FORBIDDEN, "card gpu-%d is %s", rf_gpu_card(c->gpu, position)->index,
		       slices ? "not in MIG mode any more, and was to be given in slices" :
				"in MIG mode, and can be given in slices only");
}

size_t rf_cards_usable(const struct rf_cards *c, bool only_healthy)
{
	size_t n = 0;

	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		n += !c->health[i].sliced && (!only_healthy || rf_card_healthy(&c->health[i]));
	return n;
}

static void on_xid(struct rf_cards *c, const struct rf_gpu_event *e)
{
	struct rf_card_health *h = &c->health[e->card];
	const struct rf_gpu_card *card = rf_gpu_card(c->gpu, e->card);

	h->xids++;
	h->last_xid = e->xid;
	rf_warn("card gpu-%d (%s): XID %lld%s", card->index, card->uuid, (long long)e->xid,
		rf_gpu_xid_is_fatal(e->xid) ? ", taken out of service" : "");
	if (!rf_gpu_xid_is_fatal(e->xid) || h->fatal_xid != 0)
		return;
	h->fatal_xid = e->xid;
	h->since_ms = now_ms();
	h->advised = false;
	save_faults(c);
}

/* Mended: the driver asked for an action after the fault, and now asks for none. */
static void look_for_recovery(struct rf_cards *c, size_t i)
{
	struct rf_card_health *h = &c->health[i];

	if (h->fatal_xid == 0)
		return;
	if (h->sample.recovery_action > 0 && !h->advised) {
		h->advised = true;
		save_faults(c);
	}
	if (h->lost || !h->advised || h->sample.recovery_action != 0)
		return;
	rf_info("card gpu-%d is back in service", rf_gpu_card(c->gpu, i)->index);
	h->fatal_xid = 0;
	h->advised = false;
	save_faults(c);
}

static void tell_fault(struct rf_cards *c, size_t position)
{
	const struct rf_card_health *h = &c->health[position];
	int index = rf_gpu_card(c->gpu, position)->index;
	char message[160];

	if (c->on_fault == NULL)
		return;
	snprintf(message, sizeof(message), "card gpu-%d failed (%s %lld)", index,
		 h->lost ? "it does not answer; last XID" : "XID",
		 (long long)(h->lost ? h->last_xid : h->fatal_xid));
	c->on_fault(c->ctx, index, message);
}

void rf_cards_poll(struct rf_cards *c)
{
	struct rf_gpu_event e;

	for (int n = 0; c->gpu != NULL && n < 64 && rf_gpu_next_event(c->gpu, &e); n++)
		on_xid(c, &e);
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++) {
		struct rf_card_health *h = &c->health[i];
		bool was_lost = h->lost;

		sample(c, i);
		/* A card told its memory when it was found; one that cannot any more is of no use. */
		h->silent = h->sample.memory_used < 0 ? h->silent + 1 : 0;
		h->lost = h->sample.lost || h->silent >= SILENT_LOOKS;
		if (h->lost && !was_lost) {
			h->since_ms = h->since_ms ? h->since_ms : now_ms();
			rf_warn("card gpu-%d does not answer any more",
				rf_gpu_card(c->gpu, i)->index);
		}
		look_for_recovery(c, i);
		if (h->lost || h->fatal_xid != 0)
			tell_fault(c, i);
	}
	rf_slices_look(c);
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
	if (h->sliced && h->others != 0)
		rf_json_push(a, list,
			     rf_json_make(a,
					  "{'key':'ringfence.io/mig-of-others','value':%s,'effect':'NoSchedule'}",
					  h->others > 0 ? "true" : "unknown"));
	return list;
}

/* Where it is in the machine: for ringfence's own scheduler, and by the names that all DRA drivers use. What is not known
 * is not said, and then the card counts as beside all others. */
static void set_place(struct rf_arena *a, struct rf_json *attributes, const struct rf_gpu_card *card)
{
	char address[RF_GPU_PCI_ADDRESS];

	if (card->island >= 0)
		rf_json_set(a, attributes, RF_LIT("nvlinkIsland"), rf_json_make(a, "{'int':%d}", card->island));
	if (card->numa >= 0) {
		rf_json_set(a, attributes, RF_LIT("numaNode"), rf_json_make(a, "{'int':%d}", card->numa));
		rf_json_set(a, attributes, RF_LIT("resource.kubernetes.io/numaNode"), rf_json_make(a, "{'int':%d}", card->numa));
	}
	if (rf_gpu_pci_address(card->pci, address))
		rf_json_set(a, attributes, RF_LIT("resource.kubernetes.io/pciBusID"), rf_json_make(a, "{'string':%s}", address));
	if (card->pcie_root[0] != '\0')
		rf_json_set(a, attributes, RF_LIT("resource.kubernetes.io/pcieRoot"), rf_json_make(a, "{'string':%s}", card->pcie_root));
}

static struct rf_json *device_of(struct rf_arena *a, const struct rf_cards *c, size_t i)
{
	const struct rf_gpu_card *card = rf_gpu_card(c->gpu, i);
	struct rf_str memory = rf_quantity_bytes(a, card->memory_bytes);
	struct rf_json *d = rf_json_make(a,
					 "{'name':%S,'attributes':{'uuid':{'string':%s},'"
					 "productName':{'string':%S},'index':{'int':%d},"
					 "'simulated':{'bool':%b}},'capacity':{'memory':{'value':%"
					 "S},'compute':{'value':'1k'}},"
					 "'allowMultipleAllocations':true}",
					 rf_arena_printf(a, "gpu-%d", card->index), card->uuid,
					 rf_str_n(card->name, strnlen(card->name, 64)), card->index,
					 c->simulated, memory);
	struct rf_json *taints = taints_of(a, &c->health[i]);
	struct rf_json *attributes = rf_json_at(d, "attributes");

	set_place(a, attributes, card);
	if (c->health[i].sliced)
		rf_json_set(a, attributes, RF_LIT("migMode"), rf_json_make(a, "{'string':'enabled'}"));
	if (rf_json_len(taints) > 0)
		rf_json_set(a, d, RF_LIT("taints"), taints);
	return d;
}

struct rf_json *rf_cards_slice(struct rf_arena *a, const struct rf_cards *c, struct rf_str node)
{
	struct rf_json *devices = rf_json_array(a);

	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		rf_json_push(a, devices, device_of(a, c, i));
	return rf_json_make(
		a,
		"{'apiVersion':'resource.k8s.io/v1','kind':'ResourceSlice','metadata':{'name':%S},"
		"'spec':{'driver':%s,'nodeName':%S,'pool':{'name':%S,'generation':1,"
		"'resourceSliceCount':1},'devices':%j}}",
		rf_arena_printf(a, "%.*s-ringfence", RF_STR(node)), RF_DRIVER, node, node, devices);
}
