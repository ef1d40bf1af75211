/* A card's file: mapping, lock, process slots, memory. */
#include "sim/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define LOCK_PATIENCE_S 2
#define STUCK_S 30

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim_card *open_cards;

void sim_random(void *p, size_t n)
{
	while (n > 0) {
		ssize_t got = getrandom(p, n, 0);

		if (got <= 0)
			continue;
		p = (char *)p + got;
		n -= (size_t)got;
	}
}

void sim_uuid_text(const char *prefix, const uint8_t u[16], char *out)
{
	snprintf(out, 48, "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 prefix, u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11],
		 u[12], u[13], u[14], u[15]);
}

static struct sim_card *find_open(dev_t dev, ino_t ino)
{
	for (struct sim_card *c = open_cards; c != NULL; c = c->next)
		if (c->dev == dev && c->ino == ino)
			return c;
	return NULL;
}

static bool is_card(const struct sim_state *s)
{
	return s->magic == SIM_MAGIC && s->layout == SIM_LAYOUT && s->size == sizeof(*s) &&
	       memchr(s->model, '\0', sizeof(s->model)) != NULL &&
	       memchr(s->driver, '\0', sizeof(s->driver)) != NULL &&
	       rf_gpu_model_by_key(s->model) != NULL;
}

static int map_card(int fd, const struct stat *st, struct sim_card **ret_card)
{
	struct sim_state *s;
	struct sim_card *c;

	if (st->st_size < (off_t)sizeof(*s))
		return -EPROTO;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		return -errno;
	if (!is_card(s)) {
		munmap(s, sizeof(*s));
		return -EPROTO;
	}
	c = calloc(1, sizeof(*c));
	if (c == NULL) {
		munmap(s, sizeof(*s));
		return -ENOMEM;
	}
	*c = (struct sim_card){ .fd = fd,
				.dev = st->st_dev,
				.ino = st->st_ino,
				.s = s,
				.model = rf_gpu_model_by_key(s->model),
				.next = open_cards };
	open_cards = c;
	*ret_card = c;
	return 0;
}

/* The file is looked up before it is opened: an open that turned out to be a second one could not
 * be undone, because closing it drops the process's record locks. */
static int open_once(const char *path, struct sim_card **ret_card)
{
	struct stat st;
	int fd, r;

	if (stat(path, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EPROTO;
	*ret_card = find_open(st.st_dev, st.st_ino);
	if (*ret_card != NULL)
		return 0;
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0)
		r = -errno;
	else
		r = map_card(fd, &st, ret_card);
	if (r < 0)
		close(fd);
	return r;
}

int sim_card_open(const char *path, struct sim_card **ret_card)
{
	struct sim_card *c = NULL;
	int r;

	pthread_mutex_lock(&open_lock);
	r = open_once(path, &c);
	pthread_mutex_unlock(&open_lock);
	if (r == 0)
		*ret_card = c;
	return r;
}

static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static int fill_card(int fd, const struct sim_state *init)
{
	struct sim_state *s;

	/* As a device node: whoever is given the file may use the card. */
	if (fchmod(fd, 0666) < 0 || ftruncate(fd, sizeof(*s)) < 0)
		return -errno;
	s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s == MAP_FAILED)
		return -errno;
	memcpy(s, init, offsetof(struct sim_state, ctxs));
	init_lock(&s->lock);
	s->magic = SIM_MAGIC;
	munmap(s, sizeof(*s));
	return 0;
}

int sim_card_create(const char *path, const struct sim_state *init)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	int r;

	if (fd < 0)
		return -errno;
	r = fill_card(fd, init);
	close(fd);
	if (r < 0)
		unlink(path);
	return r;
}

static int lock_by(pthread_mutex_t *lock, struct timespec until)
{
#ifdef __SANITIZE_THREAD__
	/* The thread sanitizer does not know clocklock, nor a timed lock whose owner died. */
	const struct timespec nap = { .tv_nsec = 20000 };
	struct timespec now;
	int r;

	while ((r = pthread_mutex_trylock(lock)) == EBUSY) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec > until.tv_sec)
			return ETIMEDOUT;
		nanosleep(&nap, NULL);
	}
	return r;
#else
	return pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
#endif
}

bool sim_lock(struct sim_card *c)
{
	struct timespec now, until;
	int64_t now_ns;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &now);
	now_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
	until = (struct timespec){ .tv_sec = now.tv_sec + LOCK_PATIENCE_S, .tv_nsec = now.tv_nsec };
	/* Who waited in vain once does not wait again for a while: a card whose file somebody spoilt
	 * must not hold up a caller that asks it many things. */
	if (now_ns < c->stuck_until_ns)
		r = pthread_mutex_trylock(&c->s->lock);
	else
		r = lock_by(&c->s->lock, until);
	if (r == EOWNERDEAD)
		r = pthread_mutex_consistent(&c->s->lock);
	if (r == ETIMEDOUT)
		c->stuck_until_ns = now_ns + (int64_t)STUCK_S * 1000000000;
	else if (r == 0)
		c->stuck_until_ns = 0;
	return r == 0;
}

void sim_unlock(struct sim_card *c)
{
	pthread_mutex_unlock(&c->s->lock);
}

static struct flock slot_lock(int slot, short type)
{
	return (struct flock){
		.l_type = type, .l_whence = SEEK_SET, .l_start = SIM_LOCK_AT + slot, .l_len = 1
	};
}

/* An open-file-description query, so that the caller's own record lock is seen too. */
bool sim_proc_alive(struct sim_card *c, int slot, pid_t *ret_pid)
{
	struct flock fl = slot_lock(slot, F_WRLCK);

	*ret_pid = 0;
	if (fcntl(c->fd, F_OFD_GETLK, &fl) < 0)
		return true; /* cannot tell: keep it */
	if (fl.l_type == F_UNLCK)
		return false;
	*ret_pid = fl.l_pid > 0 ? fl.l_pid : 0;
	return true;
}

static void forget_proc(struct sim_card *c, int slot)
{
	for (int i = 0; i < SIM_CTXS; i++)
		if (c->s->ctxs[i].used && c->s->ctxs[i].proc == (uint32_t)slot)
			sim_ctx_drop(c, i);
	sim_share_drop_all(c, slot);
	memset(&c->s->procs[slot], 0, sizeof(c->s->procs[slot]));
}

void sim_reap(struct sim_card *c)
{
	pid_t pid;

	for (int i = 0; i < SIM_PROCS; i++)
		if (c->s->procs[i].used && !sim_proc_alive(c, i, &pid))
			forget_proc(c, i);
}

int sim_proc_take(struct sim_card *c, uint32_t gi, uint32_t ci)
{
	sim_reap(c);
	for (int i = 0; i < SIM_PROCS; i++) {
		struct flock fl = slot_lock(i, F_WRLCK);

		if (c->s->procs[i].used || fcntl(c->fd, F_SETLK, &fl) < 0)
			continue;
		c->s->procs[i] = (struct sim_proc){ .used = 1, .gi = gi, .ci = ci };
		return i;
	}
	return -1;
}

void sim_proc_drop(struct sim_card *c, int slot)
{
	struct flock fl = slot_lock(slot, F_UNLCK);

	forget_proc(c, slot);
	fcntl(c->fd, F_SETLK, &fl);
}

static uint32_t part_gi(const struct sim_card *c, uint32_t part)
{
	return part == 0 || part >= SIM_PARTS ? SIM_NO_INSTANCE : c->s->gis[part - 1].id;
}

uint64_t sim_memory_total(const struct sim_card *c, uint32_t part)
{
	const struct rf_mig_profile *p;

	if (part == 0 || part >= SIM_PARTS)
		return (uint64_t)(c->model->memory_mib - c->model->reserved_mib) << 20;
	p = sim_gi_profile(c, &c->s->gis[part - 1]);
	return p == NULL ? 0 : (uint64_t)p->memory_mib << 20;
}

uint64_t sim_memory_used(const struct sim_card *c, uint32_t part)
{
	uint32_t gi = part_gi(c, part);
	uint64_t sum = 0;

	for (int i = 0; i < SIM_PROCS; i++)
		if (c->s->procs[i].used && (part == 0 || c->s->procs[i].gi == gi))
			sum += c->s->procs[i].bytes;
	for (int i = 0; i < sim_share_top(c); i++)
		if (sim_share_alive(&c->s->shares[i]) &&
		    (part == 0 || c->s->shares[i].part == part))
			sum += c->s->shares[i].bytes;
	return sum;
}

uint64_t sim_proc_bytes(const struct sim_card *c, int proc)
{
	uint64_t sum = c->s->procs[proc].bytes;

	for (int i = 0; i < sim_share_top(c); i++)
		if (sim_share_alive(&c->s->shares[i]) &&
		    sim_share_owner(&c->s->shares[i]) == (uint32_t)proc)
			sum += c->s->shares[i].bytes;
	return sum;
}

static bool fits(const struct sim_card *c, uint32_t part, uint64_t bytes)
{
	uint64_t total = sim_memory_total(c, part), used = sim_memory_used(c, part);

	return used <= total && bytes <= total - used;
}

bool sim_memory_take(struct sim_card *c, int proc, uint32_t part, uint64_t bytes)
{
	if (!fits(c, part, bytes)) {
		sim_reap(c);
		if (!fits(c, part, bytes))
			return false;
	}
	c->s->procs[proc].bytes += bytes;
	return true;
}

void sim_memory_give(struct sim_card *c, int proc, uint64_t bytes)
{
	struct sim_proc *p = &c->s->procs[proc];

	p->bytes -= bytes < p->bytes ? bytes : p->bytes;
}
