/* Who uses a card, how much memory, how much of its time. */
#include "sim/nvml_priv.h"

#include <string.h>

struct seen {
	pid_t pid;
	const struct sim_proc *proc;
	uint64_t bytes;
};

static bool belongs(nvmlDevice_t d, const struct sim_proc *p)
{
	const struct sim_gi *gi;

	if (d->parent == NULL)
		return true;
	gi = &d->card->s->gis[d->gi];
	return p->gi == gi->id && p->ci == gi->ci[d->ci].id;
}

/* Living processes that the caller's pid namespace can see. Under the card's lock. */
static unsigned list(nvmlDevice_t d, struct seen *out)
{
	unsigned n = 0;

	sim_reap(d->card);
	if (d->card->s->nvml_fault.kind == SIM_NVML_EMPTY)
		return 0;
	for (int i = 0; i < SIM_PROCS; i++) {
		const struct sim_proc *p = &d->card->s->procs[i];
		pid_t pid = 0;

		if (!p->used || !belongs(d, p) || !sim_proc_alive(d->card, i, &pid) || pid == 0)
			continue;
		out[n++] =
			(struct seen){ .pid = pid, .proc = p, .bytes = sim_proc_bytes(d->card, i) };
	}
	return n;
}

static void put(const struct seen *s, unsigned i, nvmlProcessInfo_v1_t *v1, nvmlProcessInfo_t *v3)
{
	if (v1 != NULL)
		v1[i] = (nvmlProcessInfo_v1_t){ .pid = (unsigned)s->pid,
						.usedGpuMemory = s->bytes };
	if (v3 != NULL)
		v3[i] = (nvmlProcessInfo_t){ .pid = (unsigned)s->pid,
					     .usedGpuMemory = s->bytes,
					     .gpuInstanceId = s->proc->gi,
					     .computeInstanceId = s->proc->ci };
}

static nvmlReturn_t compute_processes(nvmlDevice_t d, unsigned *count, nvmlProcessInfo_v1_t *v1,
				      nvmlProcessInfo_t *v3)
{
	struct seen seen[SIM_PROCS];
	unsigned n, room;
	nvmlReturn_t r;

	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = nvml_enter(d);
	if (r != NVML_SUCCESS)
		return r;
	room = v1 != NULL || v3 != NULL ? *count : 0;
	n = list(d, seen);
	for (unsigned i = 0; i < n && n <= room; i++)
		put(&seen[i], i, v1, v3);
	nvml_leave(d);
	*count = n;
	return n <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
						  nvmlProcessInfo_v1_t *infos)
{
	return compute_processes(device, count, infos, NULL);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	return compute_processes(device, count, NULL, infos);
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						     nvmlProcessInfo_t *infos)
{
	return compute_processes(device, count, NULL, infos);
}

/* Nothing draws on a simulated card, and nobody runs under MPS. */
static nvmlReturn_t no_processes(nvmlDevice_t d, unsigned *count)
{
	nvmlReturn_t r;

	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = nvml_enter(d);
	if (r != NVML_SUCCESS)
		return r;
	nvml_leave(d);
	*count = 0;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count,
						   nvmlProcessInfo_v1_t *infos)
{
	return no_processes(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
						      nvmlProcessInfo_t *infos)
{
	return no_processes(device, count);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						      nvmlProcessInfo_t *infos)
{
	return no_processes(device, count);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
							nvmlProcessInfo_t *infos)
{
	return no_processes(device, count);
}

/* --- utilisation per process --- */

static unsigned percent(const struct sim_state *s, const struct sim_proc *p, uint64_t now)
{
	if (s->nvml_fault.kind == SIM_NVML_STALE)
		return p->stale_percent;
	return s->nvml_fault.kind == SIM_NVML_IMPOSSIBLE ? 101 : sim_busy_percent(&p->busy, now);
}

/* Under the card's lock. */
static nvmlReturn_t samples_of(nvmlDevice_t d, nvmlProcessUtilizationSample_t *samples,
			       unsigned *count, unsigned long long since_us)
{
	const struct sim_state *s = d->card->s;
	bool stale = s->nvml_fault.kind == SIM_NVML_STALE;
	unsigned long long stamp = stale ? s->nvml_fault.since_us : sim_stamp_us(d->card);
	uint64_t now = sim_clock(d->card);
	struct seen seen[SIM_PROCS];
	unsigned n, room = samples != NULL ? *count : 0;

	if (d->parent != NULL || d->card->s->mig_mode)
		return NVML_ERROR_NOT_SUPPORTED;
	sim_advance_all(d->card);
	n = (stale || stamp > since_us) && s->nvml_fault.kind != SIM_NVML_NOT_FOUND ? list(d, seen)
										    : 0;
	*count = n;
	if (n == 0 && s->nvml_fault.kind == SIM_NVML_EMPTY)
		return NVML_SUCCESS;
	if (n == 0)
		return NVML_ERROR_NOT_FOUND;
	if (n > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	for (unsigned i = 0; i < n; i++) {
		unsigned busy = percent(s, seen[i].proc, now);

		samples[i] = (nvmlProcessUtilizationSample_t){ .pid = (unsigned)seen[i].pid,
							       .timeStamp = stamp,
							       .smUtil = busy,
							       .memUtil = busy / 3 };
	}
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device,
					     nvmlProcessUtilizationSample_t *samples,
					     unsigned int *count, unsigned long long since_us)
{
	nvmlReturn_t r;

	if (count == NULL)
		return NVML_ERROR_INVALID_ARGUMENT;
	r = nvml_enter(device);
	if (r != NVML_SUCCESS)
		return r;
	r = samples_of(device, samples, count, since_us);
	nvml_leave(device);
	return r;
}
