#include "node/fence_server.h"

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

int rf_fence_post_open(uv_loop_t *loop, struct rf_arbiter **arbiter, const char *run_dir,
		       const char *ledger_path, const struct rf_fence_card *cards, size_t n,
		       struct rf_fence_post **ret, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;
	struct rf_fence_server *s = NULL;
	struct rf_fence_post *p;
	int r;

	err = err ? err : &own;
	if (ensure_arbiter(arbiter, cards, n, err) < 0 ||
	    rf_fence_server_start(run_dir, ledger_path, cards, n, *arbiter, &s, err) < 0)
		return -err->code;
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
