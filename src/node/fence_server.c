#include "node/fence_server.h"

#include <fcntl.h>
#include <stdio.h>

#include "kube/kube.h"
#include "tenant/admit.h"

/* --- terms --- */

/* Kubernetes counts to a thousand millions and people use the powers of ten: so the length of the number,
 * three steps to a bit. What is higher stays higher or becomes equal. */
static int32_t priority_of(int64_t value)
{
	uint64_t size = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
	int32_t bits = size == 0 ? 0 : 64 - __builtin_clzll(size);
	int32_t steps = RF_MIN(bits * 3, 100);

	return value < 0 ? -steps : steps;
}

struct rf_fence_terms rf_fence_terms_of(const struct rf_json *pod)
{
	return (struct rf_fence_terms){
		.burst = rf_str_is(rf_kube_annotation(pod, RF_BURST_ANNOTATION), "true"),
		.priority = priority_of(rf_json_int(rf_json_at(pod, "spec", "priority"), 0)),
	};
}

struct rf_fence_card rf_fence_card_of(const struct rf_cards *c, size_t position,
				      const struct rf_grant *grant, size_t i, const struct rf_slice *slice,
				      const struct rf_fence_terms *terms)
{
	const struct rf_gpu_card *card = rf_gpu_card(c->gpu, position);
	bool share = !grant->whole && !grant->sliced;
	struct rf_fence_card f = {
		.memory_bytes = (uint64_t)grant->cards[i].memory_bytes,
		.context_bytes = (uint64_t)rf_card_context(c, card->index, terms->mps && share),
		.compute_milli = (uint32_t)grant->cards[i].compute_milli,
		.priority = terms->priority,
		/* A whole card is nobody else's, nor is a slice: there is nothing to arbitrate. */
		.burst = terms->burst && share,
		.spatial = terms->mps && share
	};

	snprintf(f.uuid, sizeof(f.uuid), "%s", slice != NULL ? slice->gpu.uuid : card->uuid);
	return f;
}

/* --- the post --- */

static void on_ready(uv_poll_t *poll, int status, int events)
{
	struct rf_fence_post *p = poll->data;

	rf_fence_server_turn(p->server);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

static int ensure_arbiter(struct rf_arbiter **arbiter, const struct rf_fence_card *cards, size_t n,
			  struct rf_err *err)
{
	struct rf_fence_limits limits;
	int r;

	if (rf_fence_limits_fill(&limits, cards, n, err) < 0)
		return -err->code;
	if (*arbiter != NULL || !rf_fence_limits_shared(&limits))
		return 0;
	r = rf_arbiter_start(arbiter);
	return r < 0 ? rf_fail(err, RF_SYSTEM, "start the arbiter of the cards: %s", strerror(-r))
		     : 0;
}

/* A ledger, but of another ringfence: the container runs since before an upgrade. */
static bool is_outdated(const char *ledger_path, uint32_t *ret_version)
{
	rf_auto_close int fd = open(ledger_path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct {
		uint64_t magic;
		uint32_t version, bytes;
	} head;

	if (fd < 0 || pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    head.magic != RF_LEDGER_MAGIC)
		return false;
	*ret_version = head.version;
	return head.version != RF_LEDGER_VERSION || head.bytes != sizeof(struct rf_ledger);
}

static int explain(const char *ledger_path, bool *ret_outdated, struct rf_err *err)
{
	uint32_t version = 0;

	if (err->code != RF_CONFLICT || !is_outdated(ledger_path, &version))
		return -err->code;
	if (ret_outdated != NULL)
		*ret_outdated = true;
	return rf_fail(
		err, RF_CONFLICT,
		"the container was started by another version of ringfence (its ledger is of "
		"version %u, this agent's of %u) and cannot be kept in its fence; delete the pod "
		"and create it anew, and drain a node before ringfence is upgraded there",
		version, RF_LEDGER_VERSION);
}

int rf_fence_post_open(uv_loop_t *loop, struct rf_arbiter **arbiter, const char *run_dir,
		       const char *ledger_path, const struct rf_fence_card *cards, size_t n,
		       struct rf_fence_post **ret, bool *ret_outdated, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_fence_server *s = NULL;
	struct rf_fence_post *p;
	int r;

	err = err ? err : &own;
	if (ret_outdated != NULL)
		*ret_outdated = false;
	if (ensure_arbiter(arbiter, cards, n, err) < 0 ||
	    rf_fence_server_start(run_dir, ledger_path, cards, n, *arbiter, &s, err) < 0)
		return explain(ledger_path, ret_outdated, err);
	p = rf_new(struct rf_fence_post);
	r = uv_poll_init(loop, &p->poll, rf_fence_server_fd(s));
	if (r < 0) {
		free(p);
		rf_fence_server_stop(s);
		return rf_fail(err, RF_SYSTEM, "watch the fence's socket: %s", uv_strerror(r));
	}
	p->poll.data = p;
	p->server = s;
	uv_poll_start(&p->poll, UV_READABLE, on_ready);
	*ret = p;
	return 0;
}

void rf_fence_post_close(struct rf_fence_post *p)
{
	if (p == NULL)
		return;
	uv_close((uv_handle_t *)&p->poll, on_closed); /* before the descriptor that it watches */
	rf_fence_server_stop(p->server);
	p->server = NULL;
}
