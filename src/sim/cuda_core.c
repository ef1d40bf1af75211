/* cuInit: which devices this process sees. */
#include "sim/cuda_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

pthread_mutex_t sim_big = PTHREAD_MUTEX_INITIALIZER;

static struct sim_device devices[SIM_CARDS_MAX];
static int n_devices;
static bool initialised, forked;

/* As with the real driver: a child of fork cannot go on with its parent's state. */
static void in_child(void)
{
	forked = true;
}

CUresult sim_ready(void)
{
	return initialised && !forked ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

int sim_device_count(void)
{
	return n_devices;
}

bool sim_device_of(CUdevice dev, struct sim_device **ret_dev)
{
	if (dev < 0 || dev >= n_devices)
		return false;
	*ret_dev = &devices[dev];
	return true;
}

int sim_device_number(const struct sim_device *d)
{
	return (int)(d - devices);
}

struct sim_device *sim_device_by_uuid(const uint8_t uuid[16])
{
	for (int i = 0; i < n_devices; i++)
		if (memcmp(devices[i].uuid, uuid, 16) == 0)
			return &devices[i];
	return NULL;
}

int sim_cuda_version(void)
{
	struct sim_machine m;

	if (n_devices > 0)
		return (int)devices[0].card->s->cuda_version;
	return sim_machine_open(&m) && m.n > 0 ? (int)m.cards[0]->s->cuda_version : 13000;
}

CUresult sim_device_state(struct sim_device *d)
{
	return __atomic_load_n(&d->card->s->off_bus, __ATOMIC_RELAXED)
		       ? CUDA_ERROR_DEVICE_UNAVAILABLE
		       : CUDA_SUCCESS;
}

static struct sim_device *new_device(struct sim_card *c)
{
	struct sim_device *d = &devices[n_devices++];

	*d = (struct sim_device){ .card = c,
				  .gi = SIM_NO_INSTANCE,
				  .ci = SIM_NO_INSTANCE,
				  .proc = -1,
				  .sms = c->model->sms };
	memcpy(d->uuid, c->s->uuid, sizeof(d->uuid));
	snprintf(d->name, sizeof(d->name), "%s", c->model->product);
	sim_pool_init(&d->default_pool, d);
	d->pool = &d->default_pool;
	return d;
}

static unsigned ci_sms(const struct rf_mig_profile *p, const struct sim_ci *ci)
{
	return p->sms * ci->slices / p->slices;
}

static void add_mig(struct sim_card *c, int slot, const struct sim_ci *ci)
{
	const struct sim_gi *gi = &c->s->gis[slot];
	const struct rf_mig_profile *p = sim_gi_profile(c, gi);
	struct sim_device *d;

	if (p == NULL || n_devices == SIM_CARDS_MAX)
		return;
	d = new_device(c);
	d->part = (uint32_t)slot + 1;
	d->gi = gi->id;
	d->ci = ci->id;
	d->sms = ci_sms(p, ci);
	memcpy(d->uuid, ci->uuid, sizeof(d->uuid));
	snprintf(d->name, sizeof(d->name), "%s MIG %s", c->model->product, p->name);
}

/* The compute instances of a card in MIG mode that match the UUID ("": the first). */
static bool add_instances(struct sim_card *c, const char *uuid)
{
	char text[48];

	for (int slot = 0; slot < SIM_GIS; slot++) {
		for (int i = 0; c->s->gis[slot].used && i < SIM_CIS; i++) {
			const struct sim_ci *ci = &c->s->gis[slot].ci[i];

			if (!ci->used || !sim_may_use(c, c->s->gis[slot].id, ci->id))
				continue;
			sim_uuid_text("MIG", ci->uuid, text);
			if (strncasecmp(text, uuid, strlen(uuid)) != 0)
				continue;
			add_mig(c, slot, ci);
			return true;
		}
	}
	return false;
}

static bool add_card(struct sim_card *c)
{
	if (n_devices == SIM_CARDS_MAX)
		return false;
	if (c->s->mig_mode)
		return add_instances(c, "");
	new_device(c);
	return true;
}

static bool already_visible(const struct sim_card *c)
{
	for (int i = 0; i < n_devices; i++)
		if (devices[i].card == c && devices[i].part == 0)
			return true;
	return false;
}

static bool add_by_uuid(const struct sim_machine *m, const char *uuid)
{
	char text[48];

	for (size_t i = 0; i < m->n; i++) {
		struct sim_card *c = m->cards[i];

		if (strncasecmp(uuid, "MIG-", 4) == 0) {
			if (c->s->mig_mode && add_instances(c, uuid))
				return true;
			continue;
		}
		sim_uuid_text("GPU", c->s->uuid, text);
		if (strncasecmp(text, uuid, strlen(uuid)) == 0)
			return !already_visible(c) && add_card(c);
	}
	return false;
}

static bool add_named(const struct sim_machine *m, const char *name)
{
	char *end = NULL;
	unsigned long i;

	if (strncasecmp(name, "GPU-", 4) == 0 || strncasecmp(name, "MIG-", 4) == 0)
		return add_by_uuid(m, name);
	i = strtoul(name, &end, 10);
	if (end == name || *end != '\0' || i >= m->n)
		return false;
	return !already_visible(m->cards[i]) && add_card(m->cards[i]);
}

/* CUDA_VISIBLE_DEVICES: in the order given, up to the first name that means nothing. */
static void add_visible(const struct sim_machine *m, const char *list)
{
	char copy[4096], *save = NULL;

	snprintf(copy, sizeof(copy), "%s", list);
	for (char *name = strtok_r(copy, ", ", &save); name != NULL;
	     name = strtok_r(NULL, ", ", &save))
		if (!add_named(m, name))
			return;
}

static void find_devices(void)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	struct sim_machine m;

	n_devices = 0;
	if (!sim_machine_open(&m))
		return;
	if (visible != NULL) {
		add_visible(&m, visible);
		return;
	}
	for (size_t i = 0; i < m.n; i++)
		add_card(m.cards[i]);
}

CUresult cuInit(unsigned int flags)
{
	CUresult r = CUDA_SUCCESS;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (forked)
		return CUDA_ERROR_NOT_INITIALIZED;
	pthread_mutex_lock(&sim_big);
	if (!initialised) {
		find_devices();
		initialised = n_devices > 0;
		if (initialised) {
			pthread_atfork(NULL, NULL, in_child);
			sim_mps_join();
		} else {
			r = CUDA_ERROR_NO_DEVICE;
		}
	}
	pthread_mutex_unlock(&sim_big);
	return r;
}

CUresult cuDriverGetVersion(int *version)
{
	if (version == NULL)
		return CUDA_ERROR_INVALID_VALUE;
	*version = sim_cuda_version();
	return CUDA_SUCCESS;
}
