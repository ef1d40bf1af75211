/* Ledger: who holds how many bytes of which card, shared by all processes of one container.
 *
 * One number per (card, process) and no total beside it: what a card has committed is the sum of
 * the seats, so there is no instant at which two counters disagree and none to repair after a
 * kill -9. A process sits on a seat by holding a record lock on that byte of the file; the kernel
 * drops the lock when the process ends, however it ends, and whoever needs room next clears seats
 * that nobody sits on.
 *
 * Record locks fall as soon as the process closes any descriptor of the file: a process opens it
 * once (rf_ledger_open) and keeps it. If the program closes it from under us, the seat is lost;
 * rf_ledger_reserve notices and says -ESTALE before it hands out another byte.
 *
 * The tenant can write the file. It can therefore spoil its own books, nobody else's: the agent
 * reads them with rf_ledger_read and rf_ledger_holder, never maps the file (the tenant may
 * truncate it), never takes the lock, and believes no number in it. */
#ifndef RF_FENCE_LEDGER_H
#define RF_FENCE_LEDGER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "fence/protocol.h"

#define RF_LEDGER_MAGIC 0x7265676465666c72ull
#define RF_LEDGER_VERSION 2u
#define RF_LEDGER_SEATS 256

struct rf_ledger_seat {
	uint32_t pid;	     /* as the process sees itself; 0: nobody */
	uint32_t generation; /* goes up whenever the seat changes hands */
	uint32_t contexts;   /* a bit per card on which the process has a context */
	uint32_t reserved;
};

struct rf_ledger {
	uint64_t magic;
	uint32_t version;
	uint32_t bytes; /* sizeof(struct rf_ledger) */
	union {
		pthread_mutex_t lock; /* robust, process-shared; guards reservations and seats */
		char room[64];
	};
	uint32_t top; /* seats at and above were never taken */
	uint32_t reserved;
	uint64_t refusals[RF_FENCE_CARDS];
	struct rf_ledger_seat seat[RF_LEDGER_SEATS];
	uint64_t used[RF_FENCE_CARDS][RF_LEDGER_SEATS];
};

/* A process's place at the ledger. */
struct rf_ledger_place {
	struct rf_ledger *ledger;
	int fd;
	dev_t dev; /* which file fd is, should the program close it and get the number again */
	ino_t ino;
	unsigned seat;
	uint32_t generation;
};

/* An empty ledger, to be written to a new file. */
void rf_ledger_format(struct rf_ledger *ret);
bool rf_ledger_valid(const struct rf_ledger *l);

/* --- in the tenant's process. All return 0 or -errno. --- */

/* Maps the file behind fd and keeps both. fd is the caller's again on failure. */
int rf_ledger_open(struct rf_ledger_place *p, int fd);
/* Takes a free seat and books held[] on it at once. -ENOSPC: all seats are taken. */
int rf_ledger_sit(struct rf_ledger_place *p, const uint64_t held[RF_FENCE_CARDS]);
/* Books bytes if the card's total stays within cap. -ENOMEM: it would not (counted as a refusal);
 * -ESTALE: the seat is lost, open and sit again; anything else: the ledger is broken. */
int rf_ledger_reserve(struct rf_ledger_place *p, unsigned card, uint64_t bytes, uint64_t cap);
/* The seat was given away, or the descriptor is no longer the ledger's. */
bool rf_ledger_lost(const struct rf_ledger_place *p);
/* Never blocks, takes no lock. */
void rf_ledger_release(struct rf_ledger_place *p, unsigned card, uint64_t bytes);
/* Notes on which cards the process has contexts, a bit for each. Takes no lock. */
void rf_ledger_mark(struct rf_ledger_place *p, uint32_t cards);
/* What all seats say, without a look at who still sits there. */
uint64_t rf_ledger_sum(const struct rf_ledger_place *p, unsigned card);
/* What living processes hold on the card. */
uint64_t rf_ledger_used(const struct rf_ledger_place *p, unsigned card);

struct rf_ledger_process {
	pid_t pid; /* in the caller's pid namespace */
	uint64_t bytes;
};
/* The living processes that hold bytes or have a context on the card; returns how many there are,
 * fills up to room. */
size_t rf_ledger_list(const struct rf_ledger_place *p, unsigned card, struct rf_ledger_process *ret,
		      size_t room);

/* --- for anyone with a descriptor of the file --- */

/* The pid (in the caller's namespace) that sits on the seat; 0 if nobody does, or the caller; -1 if
 * somebody does whom the caller cannot see, or if the kernel would not tell. */
pid_t rf_ledger_holder(int fd, unsigned seat);
/* Copies the file's content; -EINVAL if it is not a whole ledger. */
int rf_ledger_read(int fd, struct rf_ledger *ret);

#endif
