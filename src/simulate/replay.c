/* A log told again to a new core. Whatever it decides, the facts are those of the log; its decisions are held
 * against the logged ones. */
#include "simulate/private.h"

struct replay {
	struct rf_core *core;
	const struct rf_clock *clock;
	struct rf_tally *books;
	struct rf_arena *kept;	       /* for differences */
	struct rf_arena line, decided; /* of one line, of one decide */
	struct rf_buf ours, theirs;
	struct rf_str left; /* of ours: decisions that the log has yet to show */
	struct rf_simulate_replay v;
};

static void replay_done(struct replay *r)
{
	rf_core_free(r->core);
	rf_arena_done(&r->line);
	rf_arena_done(&r->decided);
	rf_buf_done(&r->ours);
	rf_buf_done(&r->theirs);
}

static void differs(struct replay *r, struct rf_str logged, struct rf_str decided)
{
	int64_t i = r->v.differences++;

	if (i < RF_SIMULATE_DIFFERENCES_MAX)
		r->v.first[i] = (struct rf_simulate_difference){ r->v.lines, rf_arena_str(r->kept, logged),
								 rf_arena_str(r->kept, decided) };
}

/* What was decided now, and not then. */
static void rest_differs(struct replay *r)
{
	struct rf_str one;

	while (r->left.n > 0) {
		rf_str_cut(&r->left, '\n', &one);
		differs(r, RF_STR_EMPTY, one);
	}
}

static void decide(struct replay *r, const struct rf_log_event *e)
{
	struct rf_core_decision *d = NULL;
	int64_t start;
	size_t n;

	rest_differs(r);
	rf_arena_reset(&r->decided);
	rf_buf_clear(&r->ours);
	start = rf_mono_ns(r->clock);
	n = rf_core_decide(r->core, e->t, (size_t)e->most, &r->decided, &d);
	r->books->ns += rf_mono_ns(r->clock) - start;
	for (size_t i = 0; i < n; i++) {
		struct rf_log_event v = { .kind = RF_LOG_DECISION, .t = e->t };

		v.decision = d[i];
		rf_log_write(&r->ours, &v);
	}
	r->left = rf_buf_str(&r->ours);
}

static void compare(struct replay *r, const struct rf_log_event *e)
{
	struct rf_str ours = RF_STR_EMPTY, theirs;

	rf_buf_clear(&r->theirs);
	rf_log_write(&r->theirs, e);
	theirs = rf_str_n(r->theirs.p, r->theirs.n - 1);
	rf_str_cut(&r->left, '\n', &ours);
	r->v.decisions++;
	if (!rf_str_eq(ours, theirs))
		differs(r, theirs, ours);
}

static void tell(struct replay *r, const struct rf_log_event *e)
{
	int64_t start;

	rest_differs(r);
	start = rf_mono_ns(r->clock);
	rf_log_tell(r->core, e, NULL); /* an error was one then, too */
	r->books->ns += rf_mono_ns(r->clock) - start;
}

static int replay_line(struct replay *r, struct rf_str line, struct rf_err *err)
{
	struct rf_log_event e;
	struct rf_core_config config;

	rf_arena_reset(&r->line);
	if (rf_log_read(&r->line, line, &e, err) < 0)
		return rf_wrap(err, "line %lld", (long long)r->v.lines);
	if (r->core == NULL) {
		rf_core_config_default(&config);
		r->core = rf_core_new(e.kind == RF_LOG_CONFIG ? &e.config : &config);
	}
	if (rf_tally_see(r->books, &e, err) < 0)
		return rf_wrap(err, "line %lld", (long long)r->v.lines);
	if (e.kind == RF_LOG_DECIDE)
		decide(r, &e);
	else if (e.kind == RF_LOG_DECISION)
		compare(r, &e);
	else if (e.kind != RF_LOG_CONFIG)
		tell(r, &e);
	return 0;
}

int rf_simulate_replay(struct rf_str log, const struct rf_clock *clock, struct rf_arena *a, struct rf_tally *books,
		       struct rf_simulate_replay *ret, struct rf_err *err)
{
	__attribute__((cleanup(replay_done))) struct replay r = { .clock = clock, .books = books, .kept = a,
								   .line = RF_ARENA_CAPPED((size_t)64 << 20),
								   .ours = RF_BUF_INIT, .theirs = RF_BUF_INIT };
	struct rf_err own = RF_ERR_INIT;
	struct rf_str line;

	err = err != NULL ? err : &own;
	while (log.n > 0) {
		rf_str_cut(&log, '\n', &line);
		r.v.lines++;
		if (line.n > 0 && replay_line(&r, line, err) < 0)
			return -err->code;
	}
	rest_differs(&r);
	if (r.core == NULL)
		return rf_fail(err, RF_INVALID, "the log is empty");
	*ret = r.v;
	return 0;
}
