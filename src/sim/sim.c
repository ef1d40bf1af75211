/* Making a simulated machine, looking at it, breaking it. */
#include "sim/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sim/state.h"

_Static_assert((int)RF_SIM_NVML_DEAD == (int)SIM_NVML_DEAD &&
		       (int)RF_SIM_NVML_EMPTY == (int)SIM_NVML_EMPTY,
	       "sim.h and state.h number NVML's faults alike");

#define DEFAULT_DRIVER "580.159.04"
#define DEFAULT_CUDA 13000

static void card_path(char *out, size_t size, const char *dir, unsigned card)
{
	snprintf(out, size, "%s/nvidia%u", dir, card);
}

static int write_facts(const char *dir, struct rf_str spec, const struct rf_sim_options *opt,
		       struct rf_err *err)
{
	char path[4096];
	rf_auto_close int fd = -1;

	snprintf(path, sizeof(path), "%s/machine", dir);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 && errno == EEXIST)
		return rf_fail(err, RF_EXISTS,
			       "%s already holds a simulated machine; remove it or choose another "
			       "folder",
			       dir);
	if (fd < 0)
		return rf_fail_errno(err, "create %s", path);
	if (dprintf(fd, "ringfence-sim 1\ncards %.*s\ndriver %s\ncuda %d\ntime %s\n", RF_STR(spec),
		    opt->driver, opt->cuda_version, opt->virtual_time ? "virtual" : "real") < 0)
		return rf_fail_errno(err, "write %s", path);
	return 0;
}

static void fill_state(struct sim_state *s, unsigned card, const struct rf_gpu_model *model, bool mig,
		       const struct rf_sim_options *opt, uint64_t now_ns)
{
	s->layout = SIM_LAYOUT;
	s->size = sizeof(*s);
	snprintf(s->model, sizeof(s->model), "%s", model->key);
	snprintf(s->driver, sizeof(s->driver), "%s", opt->driver);
	rf_rand_bytes(s->uuid, sizeof(s->uuid));
	s->uuid[6] = (uint8_t)((s->uuid[6] & 0x0f) | 0x40);
	s->uuid[8] = (uint8_t)((s->uuid[8] & 0x3f) | 0x80);
	rf_rand_bytes(&s->serial, sizeof(s->serial));
	s->cuda_version = (uint32_t)opt->cuda_version;
	s->minor = card;
	s->pci_bus = 0x1b + card;
	s->is_virtual = opt->virtual_time;
	s->context_mib = opt->context_mib > 0	 ? (uint32_t)opt->context_mib
			 : opt->context_mib == 0 ? model->context_mib
						 : 0;
	s->switch_milli = opt->switch_milli;
	s->mig_mode = s->mig_pending = mig;
	s->virtual_ns = opt->virtual_time ? 1000000000ULL : 0;
	s->created_ns = opt->virtual_time ? s->virtual_ns : now_ns;
	for (int i = 0; i < SIM_PARTS; i++)
		s->parts[i].now_ns = s->created_ns;
}

static int make_card(const char *dir, unsigned card, const struct rf_gpu_model *model, bool mig,
		     const struct rf_sim_options *opt, struct rf_err *err)
{
	struct sim_state *s = rf_new(struct sim_state);
	char path[4096];
	int r;

	card_path(path, sizeof(path), dir, card);
	fill_state(s, card, model, mig, opt, (uint64_t)rf_mono_ns(rf_clock_system()));
	r = sim_card_create(path, s);
	free(s);
	if (r < 0) {
		errno = -r;
		return rf_fail_errno(err, "create %s", path);
	}
	return 0;
}

static struct rf_sim_options with_defaults(const struct rf_sim_options *opt)
{
	struct rf_sim_options o = opt != NULL ? *opt : (struct rf_sim_options){ 0 };

	if (o.driver == NULL)
		o.driver = DEFAULT_DRIVER;
	if (o.cuda_version == 0)
		o.cuda_version = DEFAULT_CUDA;
	return o;
}

int rf_sim_machine_create(const char *dir, struct rf_str text, const struct rf_sim_options *opt,
			  struct rf_err *err)
{
	struct rf_sim_options o = with_defaults(opt);
	struct rf_sim_spec spec = { .n = 0 };
	int r = rf_sim_spec_parse(text, &spec, err);

	if (r < 0)
		return r;
	if (o.switch_milli >= 1000)
		return rf_fail(err, RF_INVALID,
			       "switching costs %u thousandths: must be below 1000",
			       o.switch_milli);
	if (strlen(o.driver) >= sizeof(((struct sim_state *)0)->driver))
		return rf_fail(err, RF_INVALID, "driver version \"%s\" is too long", o.driver);
	if (mkdir(dir, 0755) < 0 && errno != EEXIST)
		return rf_fail_errno(err, "create folder %s", dir);
	r = write_facts(dir, text, &o, err);
	for (size_t i = 0; r == 0 && i < spec.n; i++)
		r = make_card(dir, (unsigned)i, spec.cards[i], spec.mig[i], &o, err);
	return r;
}

int rf_sim_machine_remove(const char *dir, struct rf_err *err)
{
	char path[4096];

	for (unsigned i = 0; i < RF_SIM_CARDS_MAX; i++) {
		card_path(path, sizeof(path), dir, i);
		if (unlink(path) < 0 && errno != ENOENT)
			return rf_fail_errno(err, "remove %s", path);
	}
	snprintf(path, sizeof(path), "%s/machine", dir);
	if (unlink(path) < 0)
		return rf_fail_errno(err, "remove %s", path);
	if (rmdir(dir) < 0 && errno != ENOTEMPTY && errno != EEXIST)
		return rf_fail_errno(err, "remove %s", dir);
	return 0;
}

/* Opens and locks; the caller unlocks. */
static int open_card(const char *dir, unsigned card, struct sim_card **ret_card, struct rf_err *err)
{
	struct sim_card *c = NULL;
	char path[4096];
	int r;

	card_path(path, sizeof(path), dir, card);
	r = sim_card_open(path, &c);
	if (r == -ENOENT || r == -ENOTDIR)
		return rf_fail(err, RF_NOT_FOUND, "no simulated card %u in %s", card, dir);
	if (r == -EPROTO)
		return rf_fail(err, RF_INVALID,
			       "%s is no simulated card of this version; make the machine anew",
			       path);
	if (r < 0) {
		errno = -r;
		return rf_fail_errno(err, "open %s", path);
	}
	if (!sim_lock(c))
		return rf_fail(err, RF_TIMEOUT,
			       "card %u in %s: its lock is held; end the process "
			       "that holds it",
			       card, dir);
	*ret_card = c;
	return 0;
}

static void count_slots(struct sim_card *c, struct rf_sim_card_info *info)
{
	for (int i = 0; i < SIM_PROCS; i++)
		info->processes += c->s->procs[i].used != 0;
	for (int i = 0; i < SIM_GIS; i++)
		info->gpu_instances += c->s->gis[i].used != 0;
}

static unsigned card_utilisation(const struct sim_card *c)
{
	unsigned most = 0;

	for (int i = 0; i < SIM_PARTS; i++)
		most = RF_MAX(most, sim_busy_percent(&c->s->parts[i].busy, c->s->parts[i].now_ns));
	return most;
}

static void fill_info(struct sim_card *c, struct rf_sim_card_info *info)
{
	const struct sim_state *s = c->s;

	sim_reap(c);
	sim_advance_all(c);
	*info = (struct rf_sim_card_info){
		.card = s->minor,
		.model = c->model,
		.virtual_time = s->is_virtual != 0,
		.clock_ns = sim_clock(c),
		.memory_total = sim_memory_total(c, 0),
		.memory_used = sim_memory_used(c, 0),
		.utilisation = card_utilisation(c),
		.mig = s->mig_mode != 0,
		.hung = s->hung != 0,
		.off_bus = s->off_bus != 0,
		.last_xid = (unsigned)s->last_xid,
		.ecc_corrected = s->ecc_corrected,
		.ecc_uncorrected = s->ecc_uncorrected,
	};
	count_slots(c, info);
	sim_uuid_text("GPU", s->uuid, info->uuid);
	snprintf(info->pci, sizeof(info->pci), "0000:%02X:00.0", s->pci_bus & 0xff);
	snprintf(info->driver, sizeof(info->driver), "%s", s->driver);
}

int rf_sim_machine_cards(const char *dir, struct rf_sim_card_info *cards, size_t max, size_t *ret_n,
			 struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT, *e = err != NULL ? err : &own;
	size_t n = 0;

	for (unsigned i = 0; i < RF_SIM_CARDS_MAX; i++) {
		struct sim_card *c = NULL;
		int r = open_card(dir, i, &c, e);

		if (r == -RF_NOT_FOUND)
			continue;
		if (r < 0)
			return r;
		if (n < max)
			fill_info(c, &cards[n]);
		sim_unlock(c);
		n++;
	}
	if (n == 0)
		return rf_fail(e, RF_NOT_FOUND, "no simulated machine in %s", dir);
	*e = (struct rf_err)RF_ERR_INIT;
	*ret_n = n;
	return 0;
}

static void describe_card(const struct rf_sim_card_info *c, struct rf_buf *out)
{
	rf_buf_printf(out, "card %u  %s  %s  %s  %lu/%lu MiB  %u processes  %u%%", c->card,
		      c->model->product, c->uuid, c->pci, (unsigned long)(c->memory_used >> 20),
		      (unsigned long)(c->memory_total >> 20), c->processes, c->utilisation);
	if (c->mig)
		rf_buf_printf(out, "  MIG with %u instances", c->gpu_instances);
	if (c->hung)
		rf_buf_puts(out, "  HUNG");
	if (c->off_bus)
		rf_buf_puts(out, "  OFF THE BUS");
	if (c->last_xid != 0)
		rf_buf_printf(out, "  XID %u", c->last_xid);
	if (c->ecc_corrected != 0 || c->ecc_uncorrected != 0)
		rf_buf_printf(out, "  ECC %lu corrected, %lu uncorrected",
			      (unsigned long)c->ecc_corrected, (unsigned long)c->ecc_uncorrected);
	rf_buf_add_c(out, '\n');
}

int rf_sim_machine_describe(const char *dir, struct rf_buf *out, struct rf_err *err)
{
	struct rf_sim_card_info cards[RF_SIM_CARDS_MAX];
	size_t n = 0;
	int r = rf_sim_machine_cards(dir, cards, RF_SIM_CARDS_MAX, &n, err);

	if (r < 0)
		return r;
	rf_buf_printf(out, "simulated machine %s: driver %s, %s time\n", dir, cards[0].driver,
		      cards[0].virtual_time ? "virtual" : "real");
	for (size_t i = 0; i < n; i++)
		describe_card(&cards[i], out);
	return 0;
}

int rf_sim_inject_xid(const char *dir, unsigned card, unsigned xid, struct rf_err *err)
{
	return rf_sim_inject_xid_at(dir, card, xid, 0, err);
}

int rf_sim_inject_xid_at(const char *dir, unsigned card, unsigned xid, pid_t pid,
			 struct rf_err *err)
{
	struct sim_card *c = NULL;
	int r;

	if (xid == 0 || xid > 999)
		return rf_fail(err, RF_INVALID, "XID %u: XIDs run from 1 to 999", xid);
	r = open_card(dir, card, &c, err);
	if (r < 0)
		return r;
	sim_fault_xid(c, xid, pid);
	sim_unlock(c);
	return 0;
}

int rf_sim_inject_ecc(const char *dir, unsigned card, bool correctable, unsigned count,
		      struct rf_err *err)
{
	struct sim_card *c = NULL;
	int r;

	if (count == 0)
		return rf_fail(err, RF_INVALID, "ECC errors: the count must be at least 1");
	r = open_card(dir, card, &c, err);
	if (r < 0)
		return r;
	sim_fault_ecc(c, correctable, count);
	sim_unlock(c);
	return 0;
}

int rf_sim_hang(const char *dir, unsigned card, bool on, struct rf_err *err)
{
	struct sim_card *c = NULL;
	int r = open_card(dir, card, &c, err);

	if (r < 0)
		return r;
	sim_fault_hang(c, on);
	sim_unlock(c);
	return 0;
}

int rf_sim_off_bus(const char *dir, unsigned card, struct rf_err *err)
{
	return rf_sim_inject_xid(dir, card, 79, err);
}

int rf_sim_clear(const char *dir, unsigned card, struct rf_err *err)
{
	struct sim_card *c = NULL;
	int r = open_card(dir, card, &c, err);

	if (r < 0)
		return r;
	sim_fault_clear(c);
	sim_unlock(c);
	return 0;
}

int rf_sim_nvml(const char *dir, unsigned card, enum rf_sim_nvml how, struct rf_err *err)
{
	struct sim_card *c = NULL;
	int r = open_card(dir, card, &c, err);

	if (r < 0)
		return r;
	sim_advance_all(c);
	c->s->nvml_fault = (struct sim_nvml_fault){ .kind = how, .since_ns = sim_clock(c) };
	if (how == RF_SIM_NVML_STALE)
		for (int i = 0; i < SIM_PROCS; i++)
			c->s->procs[i].stale_percent =
				sim_busy_percent(&c->s->procs[i].busy, c->s->nvml_fault.since_ns);
	c->s->nvml_fault.since_us = sim_stamp_us(c);
	sim_unlock(c);
	return 0;
}

int rf_sim_advance(const char *dir, unsigned card, uint64_t ns, struct rf_err *err)
{
	struct sim_card *c = NULL;
	int r = open_card(dir, card, &c, err);

	if (r < 0)
		return r;
	if (c->s->is_virtual) {
		c->s->virtual_ns += ns;
		sim_advance_all(c);
	} else {
		r = rf_fail(err, RF_INVALID,
			    "card %u in %s runs in real time; make the machine "
			    "with virtual time to move its clock",
			    card, dir);
	}
	sim_unlock(c);
	return r;
}
