/* Knobs of the fake driver, beside the driver API itself. */
#ifndef RF_FENCE_TEST_FAKE_H
#define RF_FENCE_TEST_FAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_DEVICES 2
#define FAKE_VERSION 14010 /* newer than the library knows */
#define FAKE_TOTAL ((uint64_t)4 << 30)
#define FAKE_POOL_STEP ((uint64_t)32 << 20)
#define FAKE_UUID_0 "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
#define FAKE_UUID_1 "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"

#pragma GCC visibility push(default)
uint64_t fake_live(int dev);	 /* bytes this process has on the device */
void fake_fail_next(int result); /* the next allocating call fails with it */
void fake_context_bytes(uint64_t n); /* what each context takes from now on */
void fake_exact_maps(bool on);	     /* cuMemMap takes a handle whole or not at all */
void fake_neighbour(uint64_t bytes); /* so much more is taken during the next load of a module */
void fake_fail_after(int calls, int result); /* as fake_fail_next, but so many calls later */
void fake_object_gone(void);		      /* lets go of what ended multicast objects kept */
void fake_buffer_gone(void);		      /* and of what a freed buffer kept */
unsigned fake_reserved(void);		      /* address ranges */
unsigned fake_prefetches(void);		      /* calls that bring pages to a card */
unsigned fake_calls(void);		    /* calls of the functions a capped fence refuses */
const void *fake_pointer(const char *name); /* the driver's own function */
void fake_unexported(bool on); /* cuGetProcAddress hands out pointers dlsym does not know */
void fake_pool_step(uint64_t bytes);   /* by which pools grow */
void fake_pool_wasteful(bool on);      /* nothing shares a step with more than 1 MiB */
void fake_pool_stuck(bool on);	       /* no stream comes to its frees: nothing can be trimmed */
void fake_pool_scattered(bool on);     /* idle bytes are of no use */
unsigned fake_pool_questions(void);    /* how often pools were asked, since the last call */
unsigned fake_graph_trims(void);       /* how often graph memory was trimmed */
#pragma GCC visibility pop

#endif
