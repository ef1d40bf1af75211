/* What the files of the fake driver share. */
#ifndef RF_FENCE_TEST_FAKE_INSIDE_H
#define RF_FENCE_TEST_FAKE_INSIDE_H

#include "fence/cuda_more.h"
#include "fence/test/fake.h"

/* Anything on a card; its address is its name. */
struct thing {
	struct thing *next;
	uint64_t bytes;
	int dev;
	unsigned refs; /* handles: creates, retains and mappings */
	CUcontext ctx;
	CUmemoryPool pool;
	CUdeviceptr at; /* mappings */
	struct thing *mapped;
	const void *source; /* opened handles: what they are of */
};

struct thing *fake_make(uint64_t bytes, int dev);
struct thing *fake_find(uint64_t key);
void fake_unref(struct thing *t);
CUresult fake_failing(void); /* the result the next call is to have */
void fake_refused(void);
/* Graphs: captured calls, and pointers that a graph allocated. */
bool fake_graph_captures(CUstream stream);
CUresult fake_graph_alloc(CUdeviceptr *dptr, size_t bytes, int dev);
CUresult fake_graph_free_node(CUdeviceptr dptr);
bool fake_graph_freed(CUdeviceptr dptr);
void fake_context_live(CUcontext ctx, bool on);
void fake_context_grow(CUcontext ctx, int64_t bytes);

#endif
