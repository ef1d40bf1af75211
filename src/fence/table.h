/* Table: what this process holds, found by the name the driver gave it. Open addressing, one lock,
 * O(1) whatever the number of live entries. */
#ifndef RF_FENCE_TABLE_H
#define RF_FENCE_TABLE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an entry's key is; the same number may name two things in two spaces. */
enum rf_space {
	RF_SPACE_NONE, /* an empty slot */
	RF_SPACE_POINTER,
	RF_SPACE_ARRAY,
	RF_SPACE_MIPMAP,
	RF_SPACE_HANDLE,  /* of cuMemCreate */
	RF_SPACE_MAPPING, /* start address of a cuMemMap */
	RF_SPACE_IPC,	  /* pointers of cuIpcOpenMemHandle */
	RF_SPACE_EXTERNAL, /* of cuImportExternalMemory: the number of the import, */
	RF_SPACE_IMPORT,   /* and what the driver calls it; the owner is that number */
	RF_SPACE_BUFFER,  /* what is mapped of external memory: a pointer or a mipmap */
	RF_SPACE_MODULE,
	RF_SPACE_EXEC, /* executable graphs with allocation nodes */
	RF_SPACE_GREEN, /* green contexts; the owner is the primary one */
	RF_SPACE_PAGE, /* pages that plain allocations share; refs: how many */
};

struct rf_entry {
	uint64_t key;
	uint64_t bytes; /* charged; of a mapping: its length; of a heap (heap.c): what it takes beside others */
	uint64_t owner; /* context, or the handle a mapping, the import a buffer is of */
	uint32_t refs;	/* handles: creates and retains not yet released */
	uint32_t maps;	/* handles: live mappings; managed pointers and pages: a bit per further card charged;
			 * of a heap: pages that it takes at most */
	uint8_t space;
	uint8_t card;
	bool borrowed; /* the loan is another process's */
	uint8_t ends; /* of a pointer: which lie in shared pages (page.c) */
	uint16_t loan; /* of the ledger, + 1; 0: not shared inside the fence */
};

/* All zero is an empty table. */
#define RF_TABLE_HINTS 4096
struct rf_table {
	pthread_mutex_t lock;
	struct rf_entry *slots;
	size_t cap; /* a power of two, or 0 */
	size_t n;
	size_t promised; /* room taken by rf_table_room and not yet used */
	uint32_t hint[RF_TABLE_HINTS]; /* atomic: how many pointers there are of such a hash */
};

/* Makes sure that one rf_table_put will succeed; false when the process has no memory left. Each
 * success is followed by exactly one rf_table_put or rf_table_waive. */
bool rf_table_room(struct rf_table *t);
void rf_table_waive(struct rf_table *t);
/* Replaces what has the same space and key. */
void rf_table_put(struct rf_table *t, const struct rf_entry *e);
/* The same, and hands out what was replaced: then true. */
bool rf_table_replace(struct rf_table *t, const struct rf_entry *e, struct rf_entry *ret_old);
/* For a handle that the driver has just given out. If something older has its name still, whoever let go of that last is
 * about to say so: its counts are added to the new one's, with its bytes if anything still maps it and both are on one card; it is handed out, and
 * true comes back. */
bool rf_table_put_over(struct rf_table *t, const struct rf_entry *e, struct rf_entry *ret_old);
/* What is there gets one more reference and stays: then true. */
bool rf_table_put_or_again(struct rf_table *t, const struct rf_entry *e);
/* False: there is no such pointer. Without the lock, and O(1) without a miss for those who free what
 * was never in the table, which is most of all frees. */
bool rf_table_may_hold(const struct rf_table *t, uint64_t pointer);
/* Removes the entry and hands it out; its room stays promised until put back or waived. */
bool rf_table_take(struct rf_table *t, enum rf_space space, uint64_t key, struct rf_entry *ret);
/* Removes all that goes with a context; gone is told of each, under the table's lock. */
void rf_table_forget(struct rf_table *t, uint64_t owner,
		     void (*gone)(void *ctx, const struct rf_entry *e), void *ctx);

/* For changes in place: find between lock and unlock. */
void rf_table_lock(struct rf_table *t);
void rf_table_unlock(struct rf_table *t);
struct rf_entry *rf_table_find(struct rf_table *t, enum rf_space space, uint64_t key);
/* As rf_table_take. */
void rf_table_take_found(struct rf_table *t, struct rf_entry *e, struct rf_entry *ret);

#endif
