/* Which streams capture. While one does, the fence puts nothing of its own into any stream unasked.
 *
 * A capture is ended by a call that names its stream, with an error too. Without another word it ends with that stream, with the
 * stream's context, and in a thread's own default stream with the thread. It goes on without the streams that events led into
 * it, and they leave it when it ends: they need not be known. All that as an H200 has it (driver 580). */
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fence/share_private.h"

#define LOOK 64 /* launches while a capture is on, between two looks for threads that are gone */

/* Known also where time is not shared, and lanes have no threads. */
static uint32_t thread_of(CUstream stream)
{
	return stream == CU_STREAM_PER_THREAD ? (uint32_t)syscall(SYS_gettid) : 0;
}

/* The one of the stream, or an empty place for stream NULL. Handles are unlike each other while they last; only
 * the default stream of a thread is another one in each context. */
static struct rf_capture *find(struct rf_fence *f, CUstream stream, CUcontext ctx)
{
	uint32_t thread = thread_of(stream);

	for (struct rf_capture *c = f->capture; c < f->capture + RF_CAPTURES; c++)
		if (c->stream == stream && c->thread == thread && (!thread || c->ctx == ctx))
			return c;
	return NULL;
}

static void count_down(struct rf_fence *f)
{
	if (f->captures > 0)
		__atomic_sub_fetch(&f->captures, 1, __ATOMIC_RELAXED);
}

static void drop(struct rf_fence *f, struct rf_capture *c)
{
	*c = (struct rf_capture){ 0 };
	count_down(f);
}

static bool is_gone(uint32_t thread)
{
	int saved = errno;
	bool gone = syscall(SYS_tgkill, getpid(), thread, 0) < 0 && errno == ESRCH;

	errno = saved;
	return gone;
}

static void drop_of_threads_gone(struct rf_fence *f)
{
	for (struct rf_capture *c = f->capture; c < f->capture + RF_CAPTURES; c++)
		if (c->stream && c->thread && is_gone(c->thread))
			drop(f, c);
}

/* Nobody tells that a thread ends. */
void rf_capture_look(struct rf_fence *f)
{
	if (++f->capture_looks % LOOK == 0)
		drop_of_threads_gone(f);
}

/* With the lock: no event is being recorded when a capture begins. */
void rf_share_capture(int change)
{
	struct rf_fence *f = rf_joined();

	if (!f)
		return;
	pthread_mutex_lock(&f->pace_lock);
	if (change > 0)
		__atomic_add_fetch(&f->captures, 1, __ATOMIC_RELAXED);
	else
		count_down(f);
	RF_FOR_WORKING(f, l)
	rf_lane_settle(f, l); /* nothing goes along while one is on */
	pthread_mutex_unlock(&f->pace_lock);
}

static CUcontext current(void)
{
	CUcontext ctx = NULL;

	return RF_REAL(cuCtxGetCurrent)(&ctx) == CUDA_SUCCESS ? ctx : NULL;
}

/* If there is no room, only the call that ends it ends it here. */
void rf_share_capture_is(const struct rf_capture *is)
{
	struct rf_fence *f = rf_joined();
	struct rf_capture *c;

	if (!f)
		return;
	pthread_mutex_lock(&f->pace_lock);
	drop_of_threads_gone(f);
	c = find(f, is->stream, is->ctx);
	if (c)
		drop(f, c); /* it has ended unseen */
	else
		c = find(f, NULL, NULL);
	if (c)
		*c = *is;
	pthread_mutex_unlock(&f->pace_lock);
}

void rf_share_capture_began(CUstream stream)
{
	struct rf_capture c = { rf_lane_home(current(), stream), stream, thread_of(stream) };

	rf_share_capture_is(&c);
}

bool rf_share_capture_leaves(CUstream stream, struct rf_capture *ret)
{
	struct rf_fence *f = rf_joined();
	struct rf_capture *c = NULL;
	CUcontext ctx;

	if (!stream || !rf_capturing())
		return false;
	ctx = current();
	pthread_mutex_lock(&f->pace_lock);
	c = find(f, stream, ctx);
	if (c) {
		*ret = *c;
		*c = (struct rf_capture){ 0 };
	}
	pthread_mutex_unlock(&f->pace_lock);
	return c;
}

void rf_share_capture_context_gone(CUcontext ctx)
{
	struct rf_fence *f = rf_joined();

	if (!ctx || !rf_capturing())
		return;
	pthread_mutex_lock(&f->pace_lock);
	for (struct rf_capture *c = f->capture; c < f->capture + RF_CAPTURES; c++)
		if (c->stream && c->ctx == ctx)
			drop(f, c);
	pthread_mutex_unlock(&f->pace_lock);
}

bool rf_capturing(void)
{
	struct rf_fence *f = rf_joined();

	return f && __atomic_load_n(&f->captures, __ATOMIC_RELAXED) > 0;
}
