/* The ledger between processes, and the table inside one. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "base/base.h"
#include "fence/ledger.h"
#include "fence/table.h"

static const uint64_t nothing[RF_FENCE_CARDS];

static int new_ledger(void)
{
	struct rf_ledger *l = rf_new(struct rf_ledger);
	int fd = memfd_create("ledger", MFD_CLOEXEC);

	rf_ledger_format(l);
	assert_int_equal(write(fd, l, sizeof(*l)), sizeof(*l));
	free(l);
	return fd;
}

static struct rf_ledger_place sit_down(int fd)
{
	struct rf_ledger_place p;

	assert_int_equal(rf_ledger_open(&p, fd), 0);
	assert_int_equal(rf_ledger_sit(&p, nothing), 0);
	return p;
}

static void leave(struct rf_ledger_place *p)
{
	munmap(p->ledger, sizeof(*p->ledger));
	close(p->fd);
}

static void a_reservation_fits_to_the_byte_or_is_refused(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());

	assert_int_equal(rf_ledger_reserve(&p, 3, 1000, 1000), 0);
	assert_int_equal(rf_ledger_reserve(&p, 3, 1, 1000), -ENOMEM);
	assert_int_equal(rf_ledger_reserve(&p, 3, UINT64_MAX, 1000), -ENOMEM);
	assert_int_equal(rf_ledger_reserve(&p, 4, 1000, 1000), 0); /* cards do not mix */
	rf_ledger_release(&p, 3, 1);
	assert_int_equal(rf_ledger_reserve(&p, 3, 1, 1000), 0);
	assert_int_equal(p.ledger->refusals[3], 2);
	rf_ledger_release(&p, 3, 5000); /* a spoiled number does not turn into a huge one */
	assert_int_equal(rf_ledger_used(&p, 3), 0);
	assert_int_equal(rf_ledger_used(&p, 4), 1000);
	leave(&p);
}

static void a_file_that_is_no_ledger_is_not_opened(void **state)
{
	struct rf_ledger_place p;
	int fd = memfd_create("junk", MFD_CLOEXEC);

	assert_int_equal(rf_ledger_open(&p, fd), -EINVAL);
	assert_int_equal(ftruncate(fd, sizeof(struct rf_ledger)), 0);
	assert_int_equal(rf_ledger_open(&p, fd), -EINVAL);
	close(fd);
}

/* Runs fn in a child that has a seat of its own, tells when it is done, and waits to be killed. */
static pid_t neighbour(int fd, void (*fn)(struct rf_ledger_place *))
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct rf_ledger_place p;

		if (rf_ledger_open(&p, fd) < 0 || rf_ledger_sit(&p, nothing) < 0)
			_exit(1);
		fn(&p);
		if (write(ready[1], "r", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void take_600(struct rf_ledger_place *p)
{
	if (rf_ledger_reserve(p, 0, 600, 1000) != 0)
		_exit(1);
}

static void die_inside(struct rf_ledger_place *p)
{
	pthread_mutex_lock(&p->ledger->lock);
}

static void do_nothing(struct rf_ledger_place *p)
{
}

static void processes_share_one_cap_and_death_gives_back(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	struct rf_ledger_process list[4];
	pid_t other = neighbour(p.fd, take_600);

	assert_int_equal(rf_ledger_reserve(&p, 0, 401, 1000), -ENOMEM);
	assert_int_equal(rf_ledger_reserve(&p, 0, 400, 1000), 0);
	assert_int_equal(rf_ledger_used(&p, 0), 1000);
	assert_int_equal(rf_ledger_list(&p, 0, list, 4), 2);
	assert_int_equal(list[0].pid, getpid());
	assert_int_equal(list[1].pid, other);
	assert_int_equal(list[1].bytes, 600);
	end(other);
	assert_int_equal(rf_ledger_used(&p, 0), 400);
	assert_int_equal(rf_ledger_reserve(&p, 0, 600, 1000), 0);
	leave(&p);
}

static void close_the_ledger(struct rf_ledger_place *p)
{
	take_600(p);
	close(p->fd);
}

static void who_closes_the_ledger_keeps_what_it_has_on_the_books(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	struct rf_ledger_process list[4];
	pid_t other = neighbour(p.fd, close_the_ledger), third;

	assert_int_equal(rf_ledger_reserve(&p, 0, 401, 1000), -ENOMEM);
	assert_int_equal(rf_ledger_used(&p, 0), 600);
	assert_int_equal(rf_ledger_list(&p, 0, list, 4), 1);
	assert_int_equal(list[0].pid, other);
	third = neighbour(p.fd, do_nothing); /* takes no seat away */
	assert_int_equal(rf_ledger_used(&p, 0), 600);
	end(third);
	end(other);
	assert_int_equal(rf_ledger_reserve(&p, 0, 1000, 1000), 0);
	leave(&p);
}

/* With the same pid, and nothing of what it had. */
static void become_another_program(struct rf_ledger_place *p)
{
	take_600(p);
	execl("/bin/sleep", "sleep", "60", NULL);
}

static void who_becomes_another_program_has_nothing_left(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	pid_t other = fork();

	if (other == 0) {
		struct rf_ledger_place q;

		if (rf_ledger_open(&q, p.fd) == 0 && rf_ledger_sit(&q, nothing) == 0)
			become_another_program(&q);
		_exit(1);
	}
	for (int i = 0; i < 5000 && rf_ledger_reserve(&p, 0, 1000, 1000) != 0; i++)
		usleep(1000);
	assert_int_equal(rf_ledger_used(&p, 0), 1000);
	end(other);
	leave(&p);
}

static void sit_again(struct rf_ledger_place *p)
{
	struct rf_ledger_place again;
	uint64_t held[RF_FENCE_CARDS] = { 600 };
	int fd = open("/proc/self/fd/0", O_RDONLY); /* so that the number is another file's */

	take_600(p);
	dup2(p->fd, 100);
	close(p->fd);
	if (fd < 0 || rf_ledger_open(&again, 100) < 0 || rf_ledger_sit(&again, held) < 0)
		_exit(1);
}

static void who_sits_down_again_is_charged_once(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	pid_t other = neighbour(p.fd, sit_again);

	assert_int_equal(rf_ledger_reserve(&p, 0, 401, 1000), -ENOMEM);
	assert_int_equal(rf_ledger_reserve(&p, 0, 400, 1000), 0);
	end(other);
	leave(&p);
}

static void nobody_waits_for_a_process_that_died_in_the_lock(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());

	end(neighbour(p.fd, die_inside));
	assert_int_equal(rf_ledger_reserve(&p, 0, 1000, 1000), 0);
	end(neighbour(p.fd, do_nothing));
	leave(&p);
}

static void the_last_seat_is_the_last_and_comes_back_after_a_death(void **state)
{
	int fd = new_ledger();
	pid_t pids[RF_LEDGER_SEATS];
	struct rf_ledger_place p;

	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++)
		pids[i] = neighbour(fd, do_nothing);
	assert_int_equal(rf_ledger_open(&p, fd), 0);
	assert_int_equal(rf_ledger_sit(&p, nothing), -ENOSPC);
	end(pids[77]);
	assert_int_equal(rf_ledger_sit(&p, nothing), 0);
	assert_int_equal(p.seat, 77);
	for (unsigned i = 0; i < RF_LEDGER_SEATS; i++) {
		if (i != 77)
			end(pids[i]);
	}
	leave(&p);
}

static void take_all(struct rf_ledger_place *p)
{
	if (rf_ledger_reserve(p, 0, 1000, 1000) != 0)
		_exit(1);
}

static void a_lost_seat_is_noticed_before_the_next_byte(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	uint64_t held[RF_FENCE_CARDS] = { 300 };
	int second = dup(p.fd);

	assert_int_equal(rf_ledger_reserve(&p, 0, 300, 1000), 0);
	close(second);			  /* drops the record lock: that is how POSIX has it */
	end(neighbour(p.fd, do_nothing)); /* sees who is there all the same */
	assert_false(rf_ledger_lost(&p));
	p.ledger->seat[p.seat].started = 0; /* as if it could not */
	end(neighbour(p.fd, take_all));	    /* clears the seat that looks empty */
	assert_true(rf_ledger_lost(&p));
	assert_int_equal(rf_ledger_reserve(&p, 0, 1, 1000), -ESTALE);
	assert_int_equal(rf_ledger_sit(&p, held), 0);
	assert_int_equal(rf_ledger_reserve(&p, 0, 701, 1000), -ENOMEM);
	assert_int_equal(rf_ledger_reserve(&p, 0, 700, 1000), 0);
	leave(&p);
}

/* --- loans --- */

static const uint8_t A[RF_LEDGER_NAME] = "a", B[RF_LEDGER_NAME] = "b";

static void lend_600(struct rf_ledger_place *p)
{
	unsigned loan;

	take_600(p);
	if (rf_ledger_lend(p, A, 0, 600, &loan) != 0)
		_exit(1);
}

static void borrow_it(struct rf_ledger_place *p)
{
	unsigned loan;

	if (rf_ledger_borrow(p, A, &loan) != 0)
		_exit(1);
}

/* What the cap leaves, found by trying; takes nothing. */
static uint64_t left_of_1000(struct rf_ledger_place *p)
{
	for (uint64_t n = 1000; n > 0; n -= 100) {
		if (rf_ledger_reserve(p, 0, n, 1000) == 0) {
			rf_ledger_release(p, 0, n);
			return n;
		}
	}
	return 0;
}

static void a_loan_counts_once_and_outlives_its_maker(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	struct rf_ledger_process list[4];
	pid_t maker = neighbour(p.fd, lend_600);
	unsigned loan;

	assert_int_equal(rf_ledger_borrow(&p, B, &loan), -ENOENT);
	assert_int_equal(rf_ledger_borrow(&p, A, &loan), 0);
	assert_int_equal(rf_ledger_used(&p, 0), 600);
	assert_int_equal(rf_ledger_used(&p, 1), 0);
	assert_int_equal(left_of_1000(&p), 400);
	end(maker);
	assert_int_equal(rf_ledger_used(&p, 0), 600); /* before anybody cleared the seat */
	assert_int_equal(rf_ledger_list(&p, 0, list, 4), 1);
	assert_int_equal(list[0].pid, getpid());
	assert_int_equal(list[0].bytes, 600);
	assert_int_equal(left_of_1000(&p), 400); /* and after */
	assert_int_equal(rf_ledger_used(&p, 0), 600);
	rf_ledger_return(&p, loan);
	assert_int_equal(left_of_1000(&p), 1000);
	leave(&p);
}

static void a_loan_is_given_back_by_the_last_whoever_that_is(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	unsigned loan;
	pid_t holder;

	for (int order = 0; order < 2; order++) {
		assert_int_equal(rf_ledger_reserve(&p, 0, 600, 1000), 0);
		assert_int_equal(rf_ledger_lend(&p, A, 0, 600, &loan), 0);
		holder = neighbour(p.fd, borrow_it);
		assert_int_equal(left_of_1000(&p), 400);
		if (order == 0)
			end(holder);
		assert_int_equal(left_of_1000(&p), 400);
		rf_ledger_recall(&p, loan, 0, 600);
		assert_int_equal(left_of_1000(&p), order == 0 ? 1000 : 400);
		if (order == 1)
			end(holder);
		assert_int_equal(left_of_1000(&p), 1000);
	}
	leave(&p);
}

static void a_name_that_is_used_again_is_not_taken_for_the_older_memory(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	unsigned loan, other;
	pid_t holder;

	assert_int_equal(rf_ledger_reserve(&p, 0, 300, 1000), 0);
	assert_int_equal(rf_ledger_lend(&p, A, 0, 300, &loan), 0);
	holder = neighbour(p.fd, borrow_it);
	rf_ledger_recall(&p, loan, 0, 300);
	assert_int_equal(rf_ledger_reserve(&p, 0, 300, 1000), 0);
	assert_int_equal(rf_ledger_lend(&p, A, 0, 300, &other), -EEXIST);
	assert_int_equal(rf_ledger_borrow(&p, A, &other), -EBUSY);
	assert_int_equal(other, loan);
	assert_int_equal(left_of_1000(&p), 400);
	end(holder); /* what the dead held is in nobody's way */
	assert_int_equal(rf_ledger_lend(&p, A, 0, 300, &other), 0);
	assert_int_equal(left_of_1000(&p), 700);
	leave(&p);
}

static void when_all_loans_are_taken_there_is_none(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	uint8_t name[RF_LEDGER_NAME] = "";
	unsigned loan = 0, last;

	for (unsigned i = 0; i < RF_LEDGER_LOANS; i++) {
		memcpy(name + 1, &i, sizeof(i));
		assert_int_equal(rf_ledger_lend(&p, name, 0, 1, &loan), 0);
	}
	assert_int_equal(rf_ledger_lend(&p, A, 0, 1, &last), -ENOSPC);
	rf_ledger_recall(&p, loan, 0, 0);
	assert_int_equal(rf_ledger_lend(&p, A, 0, 1, &last), 0);
	assert_int_equal(last, loan);
	leave(&p);
}

/* A new seat after a lost one: the loans go along, if their places are still there. */
static void a_lost_seat_s_loans_are_entered_again(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	uint64_t held[RF_FENCE_CARDS] = { 600 };
	unsigned loan;
	pid_t holder;

	assert_int_equal(rf_ledger_reserve(&p, 0, 600, 1000), 0);
	assert_int_equal(rf_ledger_lend(&p, A, 0, 600, &loan), 0);
	holder = neighbour(p.fd, borrow_it);
	close(dup(p.fd));
	assert_int_equal(rf_ledger_sit(&p, held), 0);
	assert_int_equal(rf_ledger_renew(&p, loan, B, 0, 600, true), -EEXIST);
	assert_int_equal(rf_ledger_renew(&p, loan, A, 0, 600, true), 0);
	assert_int_equal(left_of_1000(&p), 400);
	end(holder);
	assert_int_equal(left_of_1000(&p), 400);
	leave(&p);
}

/* --- killed in the middle --- */

static int windows_left; /* 0: does not stop */
static int told = -1;

void test_window(void)
{
	if (windows_left == 0 || --windows_left > 0)
		return;
	if (write(told, "r", 1) == 1)
		pause();
}

/* A child that is killed at the n-th window of what fn does, or after it. */
static void killed_at(int fd, int n, void (*fn)(struct rf_ledger_place *))
{
	int ready[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		struct rf_ledger_place p;

		told = ready[1];
		if (rf_ledger_open(&p, fd) < 0 || rf_ledger_sit(&p, nothing) < 0)
			_exit(1);
		windows_left = n;
		fn(&p);
		if (write(ready[1], "r", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &c, 1), 1);
	close(ready[0]);
	end(pid);
}

static void lend_and_recall(struct rf_ledger_place *p)
{
	unsigned loan;

	if (rf_ledger_reserve(p, 0, 300, 1000) != 0 || rf_ledger_lend(p, B, 0, 300, &loan) != 0)
		_exit(1);
	rf_ledger_recall(p, loan, 0, 300);
}

static void join_and_leave(struct rf_ledger_place *p)
{
	unsigned loan;

	if (rf_ledger_reserve(p, 0, 100, 1000) != 0 || rf_ledger_borrow(p, A, &loan) != 0)
		_exit(1);
	rf_ledger_return(p, loan);
}

static void whoever_is_killed_wherever_leaves_exact_books(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	unsigned loan;

	assert_int_equal(rf_ledger_reserve(&p, 0, 400, 1000), 0);
	assert_int_equal(rf_ledger_lend(&p, A, 0, 400, &loan), 0);
	for (int n = 1; n <= 4; n++) {
		killed_at(p.fd, n, lend_and_recall);
		assert_int_equal(left_of_1000(&p), 600);
		killed_at(p.fd, n, join_and_leave);
		assert_int_equal(left_of_1000(&p), 600);
	}
	rf_ledger_recall(&p, loan, 0, 400);
	assert_int_equal(left_of_1000(&p), 1000);
	for (unsigned i = 0; i < RF_LEDGER_LOANS; i++)
		assert_int_equal(p.ledger->loan[i].maker, 0);
	leave(&p);
}

static void what_is_charged_ahead_has_a_bound_for_all_together(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());
	struct rf_ledger_place q = p;

	q.seat = 1; /* as if another process sat there */
	q.generation = p.ledger->seat[1].generation;
	p.ledger->top = 2;
	assert_true(rf_ledger_ahead(&p, 0, 60, 100));
	assert_false(rf_ledger_ahead(&q, 0, 41, 100));
	assert_int_equal(p.ledger->ahead[0][1], 0);
	assert_true(rf_ledger_ahead(&q, 0, 40, 100));
	assert_false(rf_ledger_ahead(&p, 0, 61, 100));
	assert_true(rf_ledger_ahead(&p, 0, 0, 0));
	assert_true(rf_ledger_ahead(&q, 0, 100, 100));
	leave(&p);
}

static void what_the_card_has_lost_is_booked_above_the_cap(void **state)
{
	struct rf_ledger_place p = sit_down(new_ledger());

	assert_int_equal(rf_ledger_reserve(&p, 0, 900, 1000), 0);
	assert_int_equal(rf_ledger_book(&p, 0, 200), 0);
	assert_int_equal(rf_ledger_used(&p, 0), 1100);
	assert_int_equal(rf_ledger_reserve(&p, 0, 1, 1000), -ENOMEM);
	rf_ledger_release(&p, 0, 200);
	assert_int_equal(left_of_1000(&p), 100);
	leave(&p);
}

/* --- the table --- */

#define KEYS 3000

static void check_all(struct rf_table *t, const uint64_t *model)
{
	for (uint64_t k = 0; k < KEYS; k++) {
		struct rf_entry *e = rf_table_find(t, RF_SPACE_POINTER, k << 21);

		assert_int_equal(e ? e->bytes : 0, model[k]);
	}
}

static void the_table_holds_what_a_plain_array_holds(void **state)
{
	struct rf_prng r = { .state = 42 };
	struct rf_table t = { 0 };
	static uint64_t model[KEYS];
	struct rf_entry e;

	for (int i = 0; i < 200000; i++) {
		uint64_t k = rf_prng_below(&r, KEYS);

		if (model[k]) {
			assert_true(rf_table_take(&t, RF_SPACE_POINTER, k << 21, &e));
			assert_int_equal(e.bytes, model[k]);
			rf_table_waive(&t);
			model[k] = 0;
		} else {
			assert_false(rf_table_take(&t, RF_SPACE_POINTER, k << 21, &e));
			e = (struct rf_entry){ .key = k << 21,
					       .space = RF_SPACE_POINTER,
					       .bytes = (uint64_t)i + 1 };
			assert_true(rf_table_room(&t));
			rf_table_put(&t, &e);
			model[k] = e.bytes;
		}
	}
	check_all(&t, model);
	assert_int_equal(t.promised, 0);
	free(t.slots);
}

/* A free of what was never in the table must not need its lock, and none of what was may slip by. */
static void the_hint_knows_every_pointer_and_forgets_what_is_gone(void **state)
{
	enum { MANY = 1000000 };
	struct rf_table *t = calloc(1, sizeof(*t));
	struct rf_entry e;
	unsigned denied = 0;

	assert_non_null(t);
	assert_false(rf_table_may_hold(t, 0x7f0000000000));
	for (uint64_t k = 1; k <= MANY; k++) {
		e = (struct rf_entry){ .key = k << 9, .space = RF_SPACE_POINTER };
		assert_true(rf_table_room(t));
		rf_table_put(t, &e);
	}
	assert_true(rf_table_room(t)); /* replaced: counted once */
	rf_table_put(t, &e);
	for (uint64_t k = 1; k <= MANY; k++) {
		assert_true(rf_table_may_hold(t, k << 9));
		assert_true(rf_table_take(t, RF_SPACE_POINTER, k << 9, &e));
		rf_table_waive(t);
	}
	for (uint64_t k = 1; k <= MANY; k++)
		denied += !rf_table_may_hold(t, k << 9);
	assert_int_equal(denied, MANY);
	e = (struct rf_entry){ .key = 512, .space = RF_SPACE_HANDLE };
	assert_true(rf_table_room(t));
	rf_table_put(t, &e);
	assert_false(rf_table_may_hold(t, 512)); /* of pointers alone */
	free(t->slots);
	free(t);
}

static void add_bytes(void *sum, const struct rf_entry *e)
{
	*(uint64_t *)sum += e->bytes;
}

static void a_context_is_forgotten_and_nothing_else(void **state)
{
	struct rf_table t = { 0 };
	uint64_t freed = 0;
	struct rf_entry e;

	for (uint64_t k = 1; k <= 1000; k++) {
		e = (struct rf_entry){ .key = k,
				       .space = RF_SPACE_POINTER,
				       .bytes = 10,
				       .owner = k % 3,
				       .card = (uint8_t)(k % 2) };
		assert_true(rf_table_room(&t));
		rf_table_put(&t, &e);
	}
	rf_table_forget(&t, 1, add_bytes, &freed);
	for (uint64_t k = 1; k <= 1000; k++)
		assert_int_equal(rf_table_find(&t, RF_SPACE_POINTER, k) != NULL, k % 3 != 1);
	assert_int_equal(freed, 334 * 10);
	free(t.slots);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reservation_fits_to_the_byte_or_is_refused),
		cmocka_unit_test(a_file_that_is_no_ledger_is_not_opened),
		cmocka_unit_test(processes_share_one_cap_and_death_gives_back),
		cmocka_unit_test(who_closes_the_ledger_keeps_what_it_has_on_the_books),
		cmocka_unit_test(who_becomes_another_program_has_nothing_left),
		cmocka_unit_test(who_sits_down_again_is_charged_once),
		cmocka_unit_test(nobody_waits_for_a_process_that_died_in_the_lock),
		cmocka_unit_test(the_last_seat_is_the_last_and_comes_back_after_a_death),
		cmocka_unit_test(a_lost_seat_is_noticed_before_the_next_byte),
		cmocka_unit_test(a_loan_counts_once_and_outlives_its_maker),
		cmocka_unit_test(a_loan_is_given_back_by_the_last_whoever_that_is),
		cmocka_unit_test(a_name_that_is_used_again_is_not_taken_for_the_older_memory),
		cmocka_unit_test(when_all_loans_are_taken_there_is_none),
		cmocka_unit_test(a_lost_seat_s_loans_are_entered_again),
		cmocka_unit_test(whoever_is_killed_wherever_leaves_exact_books),
		cmocka_unit_test(what_is_charged_ahead_has_a_bound_for_all_together),
		cmocka_unit_test(what_the_card_has_lost_is_booked_above_the_cap),
		cmocka_unit_test(the_table_holds_what_a_plain_array_holds),
		cmocka_unit_test(the_hint_knows_every_pointer_and_forgets_what_is_gone),
		cmocka_unit_test(a_context_is_forgotten_and_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
