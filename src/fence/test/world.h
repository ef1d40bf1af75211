/* Several programs on one card and one clock of numbers. Each is a process of a fence, with a share*.c and an rf_fence of
 * its own; turns.c is the arbiter. So what they do to each other can be told to the microsecond, and again.
 *
 * The card takes what a stream has been given one after the other, and what several streams of a process have beside each
 * other as far as it fits. Processes it serves in slices, all of its own accord, and needs a while from one to the next.
 * What a launch, an event and a thread that wakes up take is as it was measured on an H200.
 *
 * The programs run in threads, never two at once: only clock, driver and futex pass the turn on. share*.c is compiled with
 * the clock and the system calls of world.c (-D, meson.build). */
#ifndef RF_FENCE_TEST_WORLD_H
#define RF_FENCE_TEST_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#define US 1000ull
#define MS 1000000ull

#define WORLD_STREAMS 16
#define WORLD_WHOLE 1000 /* width of a kernel that fills the card */

/* Nobody is there, and it is early. */
void world_begin(void);
void world_end(void);
/* share in thousandths. Returns its number: 0, 1, ... */
unsigned world_fence(int64_t share, bool burst);
/* The arbiter has died, and there is one that knows nothing of before. The processes find out. */
void world_new_arbiter(void);
/* A process of the fence, from now on. */
void world_start(unsigned fence, void (*program)(const void *what), const void *what);
/* Lets time pass. */
void world_run(uint64_t ns);

/* From then on. */
void world_count(void);
/* How long the card has worked for the fence since, in percent of the time that passed. */
double world_used(unsigned fence);
/* How many kernels it has launched. */
unsigned world_launches(unsigned fence);

/* For programs. */
uint64_t world_now(void);
void world_pass(uint64_t ns);
/* A kernel of that kind that takes so long, where it has the width it wants. */
void world_launch(unsigned stream, uint64_t kind, uint64_t ns, unsigned width);
/* cuStreamSynchronize; cuCtxSynchronize; cuEventRecord, and then cuEventSynchronize, cuEventQuery again and again, or
 * what the fence does not see, as a kernel that writes where the program looks. */
void world_wait(unsigned stream);
void world_wait_all(void);
void world_wait_event(unsigned stream);
void world_poll_event(unsigned stream);
void world_wait_unseen(unsigned stream);

#endif
