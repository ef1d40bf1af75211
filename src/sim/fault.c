/* Faults on demand, and the ring of events that tells of them. */
#include "sim/state.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/cuda_abi.h"
#include "gpu/nvml_abi.h"

/* What an XID does beside being told: the error its contexts get, and the recovery the driver asks
 * for. XIDs not listed here are only told. */
static const struct xid_effect {
	uint32_t xid;
	int sticky;
	uint32_t recovery;
} xid_effects[] = {
	{ 13, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_NONE },
	{ 31, CUDA_ERROR_ILLEGAL_ADDRESS, NVML_GPU_RECOVERY_ACTION_NONE },
	{ 43, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_NONE },
	{ 45, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_NONE },
	{ 46, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 48, CUDA_ERROR_ECC_UNCORRECTABLE, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 62, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 64, 0, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 69, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_NONE },
	{ 74, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 79, CUDA_ERROR_DEVICE_UNAVAILABLE, NVML_GPU_RECOVERY_ACTION_NODE_REBOOT },
	{ 94, CUDA_ERROR_ECC_UNCORRECTABLE, NVML_GPU_RECOVERY_ACTION_NONE },
	{ 95, CUDA_ERROR_ECC_UNCORRECTABLE, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 109, CUDA_ERROR_LAUNCH_TIMEOUT, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 119, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 120, CUDA_ERROR_LAUNCH_FAILED, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
	{ 140, CUDA_ERROR_ECC_UNCORRECTABLE, NVML_GPU_RECOVERY_ACTION_GPU_RESET },
};

void sim_event_push(struct sim_card *c, uint64_t type, uint64_t data)
{
	struct sim_state *s = c->s;
	uint64_t seq = ++s->event_seq;

	s->events[seq % SIM_EVENTS] = (struct sim_event){
		.seq = seq, .type = type, .data = data, .gi = SIM_NO_INSTANCE, .ci = SIM_NO_INSTANCE
	};
	__atomic_add_fetch(&s->event_wake, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &s->event_wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void make_sticky(struct sim_card *c, int error, pid_t only_pid)
{
	for (int i = 0; i < SIM_CTXS; i++) {
		struct sim_ctx *x = &c->s->ctxs[i];
		pid_t pid = 0;

		if (!x->used || x->sticky != 0 || x->proc >= SIM_PROCS)
			continue;
		if (only_pid != 0 && (!sim_proc_alive(c, (int)x->proc, &pid) || pid != only_pid))
			continue;
		__atomic_store_n(&x->sticky, error, __ATOMIC_SEQ_CST);
		/* Its queue is gone; neighbours no longer share with it. */
		x->submitted = x->done;
		x->tail = x->head;
	}
}

static void count_errors(struct sim_state *s, uint32_t xid)
{
	if (xid == 48 || xid == 94 || xid == 95)
		s->ecc_uncorrected++;
	if (xid == 63) {
		s->rows_uncorrected++;
		s->rows_pending = 1;
	}
	if (xid == 64)
		s->rows_failed = 1;
	if (xid == 79)
		s->off_bus = 1;
}

void sim_fault_xid(struct sim_card *c, uint32_t xid, pid_t only_pid)
{
	sim_advance_all(c);
	for (size_t i = 0; i < sizeof(xid_effects) / sizeof(xid_effects[0]); i++) {
		if (xid_effects[i].xid != xid)
			continue;
		if (xid_effects[i].sticky != 0)
			make_sticky(c, xid_effects[i].sticky, only_pid);
		if (xid_effects[i].recovery != NVML_GPU_RECOVERY_ACTION_NONE)
			c->s->recovery_action = xid_effects[i].recovery;
	}
	count_errors(c->s, xid);
	c->s->last_xid = xid;
	sim_event_push(c, NVML_EVENT_XID, xid);
}

/* An uncorrectable error is also told as XID 48, as a driver does. */
void sim_fault_ecc(struct sim_card *c, bool corrected, uint64_t count)
{
	if (corrected) {
		c->s->ecc_corrected += count;
		sim_event_push(c, NVML_EVENT_SINGLE_BIT_ECC, count);
		return;
	}
	c->s->ecc_uncorrected += count - 1;
	c->s->rows_uncorrected += (uint32_t)count;
	c->s->rows_pending = 1;
	sim_event_push(c, NVML_EVENT_DOUBLE_BIT_ECC, count);
	sim_fault_xid(c, 48, 0);
}

void sim_fault_hang(struct sim_card *c, bool on)
{
	sim_advance_all(c);
	c->s->hung = on;
}

/* A card as after a reset: faults and volatile state gone, contexts that were hit stay hit. */
void sim_fault_clear(struct sim_card *c)
{
	struct sim_state *s = c->s;

	sim_advance_all(c);
	s->hung = s->off_bus = 0;
	s->recovery_action = NVML_GPU_RECOVERY_ACTION_NONE;
	s->ecc_corrected = s->ecc_uncorrected = 0;
	s->rows_corrected = s->rows_uncorrected = s->rows_pending = s->rows_failed = 0;
	s->last_xid = 0;
}
