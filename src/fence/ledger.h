/* Ledger: who holds how many bytes of which card, shared by all processes of one container.
 *
 * One number per (card, process) and no total beside it: what a card has committed is the sum of
 * the seats (and of loans whose maker is gone, see below), so there is no instant at which two counters disagree and none to repair after a
 * kill -9. A process sits on a seat by holding a record lock on that byte of the file; the kernel
 * drops the lock when the process ends, however it ends, and whoever needs room next clears seats
 * that nobody sits on. The lock falls before the driver has given the process's memory back, so a seat
 * whose process is still on its way out is left alone.
 *
 * Record locks fall as soon as the process closes any descriptor of the file: a process opens it
 * once (rf_ledger_open) and keeps it. If the program closes it from under us, the seat is lost;
 * rf_ledger_reserve notices and says -ESTALE before it hands out another byte. Until then others leave
 * the seat alone, as long as they see that process with the ledger in its memory.
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
#define RF_LEDGER_VERSION 3u
#define RF_LEDGER_SEATS 1024
#define RF_LEDGER_LOANS 512
#define RF_LEDGER_NAME 64 /* bytes of an IPC handle, or of an exported pool pointer */

struct rf_ledger_seat {
	uint32_t pid;	     /* as the process sees itself; 0: nobody */
	uint32_t generation; /* goes up whenever the seat changes hands */
	uint32_t contexts;   /* a bit per card on which the process has a context */
	uint32_t started;    /* when the process was, to tell it from a later one of the same pid */
};

/* Memory that one process of the fence has handed to others of it. It counts once: on its maker's seat
 * as long as the maker has it, and by itself once the maker is gone and others still hold it. Who makes
 * or takes one changes no number, so there is no half of it that a death could leave behind; when the
 * maker lets go or is cleared away, the loan counts first and the seat's number goes then. */
struct rf_ledger_loan {
	uint64_t bytes;
	uint32_t card;
	uint16_t maker; /* seat + 1; 0: gone */
	uint16_t shut;	/* its name is in use again: nobody joins any more */
	uint64_t holders[RF_LEDGER_SEATS / 64]; /* a bit per seat; none and no maker: a free record */
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
	uint32_t cursor; /* where a process looks for a seat first */
	uint32_t loans_top; /* loans at and above were never made */
	uint32_t reserved;
	uint64_t refusals[RF_FENCE_CARDS];
	struct rf_ledger_seat seat[RF_LEDGER_SEATS];
	uint64_t used[RF_FENCE_CARDS][RF_LEDGER_SEATS];
	uint64_t ahead[RF_FENCE_CARDS][RF_LEDGER_SEATS]; /* of used: not taken yet, see pool_book.c */
	struct rf_ledger_loan loan[RF_LEDGER_LOANS];
	uint8_t name[RF_LEDGER_LOANS][RF_LEDGER_NAME];
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
/* Books bytes whatever the cap: the card has lost them already. */
int rf_ledger_book(struct rf_ledger_place *p, unsigned card, uint64_t bytes);
/* Notes how much of what the seat has booked is charged ahead. False, with 0 noted: all seats together
 * would have more of that than most. Takes no lock. */
bool rf_ledger_ahead(struct rf_ledger_place *p, unsigned card, uint64_t bytes, uint64_t most);
/* The seat was given away, or the descriptor is no longer the ledger's. */
bool rf_ledger_lost(const struct rf_ledger_place *p);
/* Never blocks, takes no lock. */
void rf_ledger_release(struct rf_ledger_place *p, unsigned card, uint64_t bytes);
/* Notes on which cards the process has contexts, a bit for each. Takes no lock. */
void rf_ledger_mark(struct rf_ledger_place *p, uint32_t cards);

/* The process's memory of that name may be opened by others of the fence from now on; its bytes stay
 * booked on the process's seat. -ENOSPC: there are RF_LEDGER_LOANS already; -EEXIST: older memory of
 * that name is still held, and nobody joins that any more. Then whoever opens it is charged in full. */
int rf_ledger_lend(struct rf_ledger_place *p, const uint8_t name[RF_LEDGER_NAME], unsigned card,
		   uint64_t bytes, unsigned *ret_loan);
/* Holds the memory of that name too, without being charged. -ENOENT: nobody of the fence has lent it;
 * -EBUSY: there is newer memory of that name beside that of *ret_loan, probably of the same size. */
int rf_ledger_borrow(struct rf_ledger_place *p, const uint8_t name[RF_LEDGER_NAME],
		     unsigned *ret_loan);
/* The maker has let go of it, and gives the bytes on its seat back. */
void rf_ledger_recall(struct rf_ledger_place *p, unsigned loan, unsigned card, uint64_t bytes);
/* A holder has let go of it. */
void rf_ledger_return(struct rf_ledger_place *p, unsigned loan);
/* Enters again, on a new seat, what was lent or borrowed on one that was lost. -EEXIST: the record is
 * taken; a holder is then to book its bytes. */
int rf_ledger_renew(struct rf_ledger_place *p, unsigned loan, const uint8_t name[RF_LEDGER_NAME],
		    unsigned card, uint64_t bytes, bool maker);

/* What all seats and loans say, without a look at who is still there. */
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
/* Loans that count by themselves, by the first of their holders that is alive; alive is asked once per
 * seat at most. l may hold anything. */
void rf_ledger_orphans(const struct rf_ledger *l, unsigned card,
		       bool (*alive)(void *ctx, unsigned seat), void *ctx,
		       uint64_t ret[RF_LEDGER_SEATS]);
/* Copies the file's content; -EINVAL if it is not a whole ledger. */
int rf_ledger_read(int fd, struct rf_ledger *ret);

#endif
