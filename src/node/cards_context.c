/* What a context takes of a card, measured while nobody has the card. The agent has a driver loaded and
 * threads, so a process that was forked before there were any does it; it ends when all is measured. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/context.h"
#include "node/cards.h"

#define MIB (1024LL * 1024)
/* Beside the cap, for what the driver takes and the fence cannot count: code that is loaded at a first
 * launch, stacks, pages shared by small allocations. Without a context, for that one too. */
#define ALLOWANCE_MIN (256 * MIB)
#define ALLOWANCE_PERCENT 3
#define ALLOWANCE_UNKNOWN (1024 * MIB)

#define OFFER_MS 30000

static int64_t now_ms(void)
{
	return rf_mono_ns(rf_clock_system()) / 1000000;
}

struct question {
	size_t position;
	struct rf_gpu_card card;
};

struct answer {
	size_t position;
	int64_t bytes;
};

/* --- the process that measures --- */

/* One question after the other, until the agent has no more or is gone. */
static _Noreturn void be_measurer(int fd, const char *lib_dir)
{
	struct question q;

	while (recv(fd, &q, sizeof(q), 0) == (ssize_t)sizeof(q)) {
		struct answer a = { q.position, rf_gpu_context_measure(lib_dir, &q.card) };

		if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a))
			break;
	}
	_exit(0);
}

void rf_cards_measurer_start(struct rf_cards *c, const char *sim_dir, const char *lib_dir)
{
	pid_t agent = getpid();
	int fds[2];

	c->measurer = 0;
	c->opened_ms = now_ms();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		return;
	c->measurer = fork();
	if (c->measurer == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it ends with the agent */
		close(fds[0]);
		if (getppid() != agent)
			_exit(0);
		if (sim_dir != NULL)
			setenv("RINGFENCE_SIM", sim_dir, 1);
		be_measurer(fds[1], lib_dir);
	}
	close(fds[1]);
	c->measurer_fd = fds[0];
	if (c->measurer > 0)
		return;
	c->measurer = 0;
	close(fds[0]);
	rf_warn("what a context takes of a card is not measured: %s", strerror(errno));
}

void rf_cards_measurer_stop(struct rf_cards *c)
{
	if (c->measurer == 0)
		return;
	close(c->measurer_fd);
	kill(c->measurer, SIGKILL);
	while (waitpid(c->measurer, NULL, 0) < 0 && errno == EINTR)
		;
	c->measurer = 0;
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		c->health[i].measuring = false;
}

/* --- the agent's side --- */

static int open_memory(const struct rf_cards *c)
{
	return open(c->state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_anything_left(const struct rf_cards *c)
{
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		if (!c->health[i].measured)
			return true;
	return false;
}

void rf_cards_contexts_load(struct rf_cards *c)
{
	rf_auto_close int dir = open_memory(c);

	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++) {
		struct rf_card_health *h = &c->health[i];
		const struct rf_gpu_card *card = rf_gpu_card(c->gpu, i);

		h->context_bytes =
			rf_gpu_context_recall(dir, card, rf_gpu_driver_version(c->gpu), false);
		h->mps_context_bytes = rf_gpu_context_recall(dir, card, rf_gpu_driver_version(c->gpu), true);
		h->measured = h->context_bytes > 0 || h->sliced; /* slices have no cap to count it in */
		if (h->context_bytes <= 0)
			h->context_bytes = rf_gpu_context_guess(card);
	}
	if (!is_anything_left(c))
		rf_cards_measurer_stop(c);
}

static void take_answer(struct rf_cards *c, const struct answer *a)
{
	rf_auto_close int dir = open_memory(c);
	struct rf_card_health *h = &c->health[a->position];
	const struct rf_gpu_card *card = rf_gpu_card(c->gpu, a->position);

	h->measuring = false;
	h->measured = true;
	if (a->bytes <= 0) {
		rf_warn("card gpu-%d: what a context takes could not be measured; taken to be %lld "
			"MiB%s",
			card->index, (long long)(h->context_bytes / MIB),
			h->context_bytes > 0 ? ", as of its model" : ": not counted");
		return;
	}
	h->context_bytes = a->bytes;
	rf_gpu_context_remember(dir, card, rf_gpu_driver_version(c->gpu), false, a->bytes);
	rf_info("card gpu-%d: a context takes %lld MiB", card->index, (long long)(a->bytes / MIB));
}

static void hear_measurer(struct rf_cards *c)
{
	struct answer a;
	ssize_t n = 0;

	while (c->measurer != 0 &&
	       (n = recv(c->measurer_fd, &a, sizeof(a), MSG_DONTWAIT)) == (ssize_t)sizeof(a))
		take_answer(c, &a);
	/* It died, or is done. */
	if (c->measurer != 0 && (n == 0 || !is_anything_left(c)))
		rf_cards_measurer_stop(c);
}

static bool is_idle(struct rf_cards *c, size_t i)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_process *list = NULL;
	size_t n = 0;

	return rf_card_healthy(&c->health[i]) &&
	       rf_gpu_processes(c->gpu, i, &a, &list, &n, NULL) == 0 && n == 0;
}

void rf_cards_measure(struct rf_cards *c, bool (*held)(void *ctx, int index), void *ctx)
{
	hear_measurer(c);
	for (size_t i = 0; c->measurer != 0 && i < rf_gpu_count(c->gpu); i++) {
		struct rf_card_health *h = &c->health[i];
		struct question q = { i, *rf_gpu_card(c->gpu, i) };

		if (h->measured || h->measuring || held(ctx, q.card.index) || !is_idle(c, i))
			continue;
		h->measuring = send(c->measurer_fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) ==
			       (ssize_t)sizeof(q);
	}
	c->measurer_asked = true;
}

bool rf_cards_measured(struct rf_cards *c)
{
	hear_measurer(c);
	if (c->measurer == 0 || now_ms() - c->opened_ms > OFFER_MS)
		return true;
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		if (c->health[i].measuring)
			return false;
	return c->measurer_asked;
}

static const struct rf_card_health *health_of(const struct rf_cards *c, int index)
{
	for (size_t i = 0; i < rf_gpu_count(c->gpu); i++)
		if (rf_gpu_card(c->gpu, i)->index == index)
			return &c->health[i];
	return NULL;
}

int rf_card_check_measured(struct rf_cards *c, int index, struct rf_err *err)
{
	const struct rf_card_health *h = health_of(c, index);

	hear_measurer(c);
	if (h == NULL || !h->measuring)
		return 0;
	return rf_fail(err, RF_UNAVAILABLE,
		       "card gpu-%d: what a context takes of it is being measured; in a moment",
		       index);
}

int64_t rf_card_context(const struct rf_cards *c, int index, bool mps)
{
	const struct rf_card_health *h = health_of(c, index);

	if (h == NULL)
		return 0;
	return mps && h->mps_context_bytes > 0 ? h->mps_context_bytes : h->context_bytes;
}

int64_t rf_card_allowance(const struct rf_cards *c, int index, int64_t cap)
{
	return rf_card_context(c, index, false) > 0 ? ALLOWANCE_MIN + cap / 100 * ALLOWANCE_PERCENT
					     : ALLOWANCE_UNKNOWN;
}
