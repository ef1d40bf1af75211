/* What random_worker hands to others: a file `board` that all of them map. */
#ifndef RF_FENCE_TEST_RANDOM_BOARD_H
#define RF_FENCE_TEST_RANDOM_BOARD_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SHELF 4 /* places of one worker; nobody else writes them */
#define BOARD (16 * SHELF)

struct note {
	int kind;
	int pid, fd;
	uint64_t bytes;
	char blob[64];
};

/* Odd while somebody writes; who dies in there leaves it so, until it is written over. */
struct place {
	uint32_t turn;
	struct note note;
};

struct board {
	struct place place[BOARD];
};

static inline struct board *board_open(void)
{
	int fd = open("board", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *p = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(struct board)) == 0)
		p = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	close(fd);
	return p;
}

static inline void board_write(struct place *p, const struct note *n)
{
	uint32_t turn = __atomic_load_n(&p->turn, __ATOMIC_ACQUIRE) | 1;

	__atomic_store_n(&p->turn, turn, __ATOMIC_SEQ_CST);
	p->note = *n;
	__atomic_store_n(&p->turn, turn + 1, __ATOMIC_SEQ_CST);
}

static inline bool board_read(const struct place *p, struct note *ret)
{
	uint32_t turn = __atomic_load_n(&p->turn, __ATOMIC_SEQ_CST);

	*ret = p->note;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return turn != 0 && turn % 2 == 0 && __atomic_load_n(&p->turn, __ATOMIC_SEQ_CST) == turn;
}

#endif
