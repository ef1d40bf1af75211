#include "node/mps.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fs.h"
#include "codec/json.h"
#include "node/cards.h"
#include "node/volume.h"

#define ROOM (16LL << 20) /* of a daemon's tmpfs */
#define STATE_MAX ((size_t)1 << 20)
#define OWNERS_MAX 1024
#define WAIT_MS 500	  /* for a daemon to come up, or to go: the agent waits meanwhile, once for each */
#define QUIT_MS 3000	  /* then it is killed */
#define START_MS 10000	  /* a daemon without a socket after this is killed, too */
#define BACKOFF_MS 1000
#define BACKOFF_MAX_MS 60000
#define HEALTHY_MS 60000 /* one that ran so long begins its back-off anew */

struct owner {
	char *uid;
	bool lost; /* its daemon died */
};

struct daemon {
	int index;	 /* of the card */
	char uuid[64];	 /* of the card */
	char domain[64]; /* the trust domain */
	RF_VEC(struct owner) owners;
	pid_t pid; /* 0: none */
	uint64_t start;
	bool ready; /* its socket is where containers look */
	bool ending;
	int64_t since_ms, retry_ms, backoff_ms, quit_ms, kill_ms;
	struct rf_mps_seen seen; /* its processes, as far as we came across them */
	int64_t deaths;
	char why[256]; /* it is not up */
};

struct rf_mps {
	struct rf_mps_opts o;
	char *dir, *program;
	RF_VEC(struct daemon *) daemons;
	bool missing; /* somebody wanted a daemon, and the machine has none */
};

static int64_t now_ms(const struct rf_mps *m)
{
	return rf_mono_ns(m->o.clock) / 1000000;
}

/* What is left of the wait that began then. */
static int wait_left(const struct rf_mps *m, int64_t began_ms)
{
	int64_t gone = now_ms(m) - began_ms;

	return gone >= 0 && gone < WAIT_MS ? (int)(WAIT_MS - gone) : 0;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 5 * 1000000 }, NULL);
}

/* --- where things are ------------------------------------------------------------------------------ */

static const char *home_of(struct rf_arena *a, const struct rf_mps *m, int index)
{
	return rf_fs_path(a, "%s/%d", m->dir, index);
}

static const char *state_of(struct rf_arena *a, const struct rf_mps *m, int index)
{
	return rf_fs_path(a, "%s/gpu-%d.json", m->dir, index);
}

static const char *pipe_of(struct rf_arena *a, const struct rf_mps *m, int index)
{
	return rf_fs_path(a, "%s/%d/pipe", m->dir, index);
}

/* What every process of the daemon has in its environment, and nobody else. */
static const char *mark_of(struct rf_arena *a, const struct rf_mps *m, int index)
{
	return rf_fs_path(a, "CUDA_MPS_PIPE_DIRECTORY=%s", pipe_of(a, m, index));
}

const char *rf_mps_client_dir(struct rf_arena *a, const struct rf_mps *m, int index)
{
	return rf_fs_path(a, "%s/%d/client", m->dir, index);
}

bool rf_mps_is_ours(const struct rf_mps *m, pid_t pid)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return m != NULL && m->daemons.n > 0 &&
	       rf_mps_env_has(pid, rf_fs_path(&a, "CUDA_MPS_PIPE_DIRECTORY=%s/", m->dir), true);
}

/* As the agent sees it: the machine's own file system may be another. */
static bool can_run(const struct rf_mps *m, const char *program)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return access(rf_fs_path(&a, "%s%s", m->o.on_host ? "/proc/1/root" : "", program), X_OK) == 0;
}

static const char *find_program(const struct rf_mps *m)
{
	static const char *const places[] = { "/usr/bin/" RF_MPS_PROGRAM, "/usr/local/bin/" RF_MPS_PROGRAM,
					      "/usr/local/nvidia/bin/" RF_MPS_PROGRAM, "/opt/bin/" RF_MPS_PROGRAM };

	if (m->program != NULL)
		return can_run(m, m->program) ? m->program : NULL;
	for (size_t i = 0; i < RF_COUNT(places); i++)
		if (can_run(m, places[i]))
			return places[i];
	return NULL;
}

int rf_mps_check_program(const struct rf_mps *m, struct rf_err *err)
{
	if (find_program(m) != NULL)
		return 0;
	return rf_fail(err, RF_UNAVAILABLE,
		       "this node is in a pool with sharing: mps, and %s is not there; install the driver's compute "
		       "utilities, say where it is with --mps-control, or take the node out of the pool",
		       m->program ? m->program : RF_MPS_PROGRAM);
}

/* --- who is on it ------------------------------------------------------------------------------------ */

static struct daemon *find(const struct rf_mps *m, int index)
{
	for (size_t i = 0; i < m->daemons.n; i++)
		if (m->daemons.at[i]->index == index)
			return m->daemons.at[i];
	return NULL;
}

static struct owner *owner_of(const struct daemon *d, struct rf_str uid)
{
	for (size_t i = 0; i < d->owners.n; i++)
		if (rf_str_is(uid, d->owners.at[i].uid))
			return &d->owners.at[i];
	return NULL;
}

static void add_owner(struct daemon *d, struct rf_str uid, bool lost)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct owner o = { rf_strdup(rf_arena_cstr(&a, uid)), lost };

	rf_vec_push(&d->owners, o);
}

static void drop_owner(struct daemon *d, size_t i)
{
	free(d->owners.at[i].uid);
	rf_vec_remove(&d->owners, i);
}

bool rf_mps_has(const struct rf_mps *m, int index, struct rf_str owner)
{
	const struct daemon *d = find(m, index);

	return d != NULL && owner_of(d, owner) != NULL;
}

bool rf_mps_lost(const struct rf_mps *m, struct rf_str owner, int *ret_index)
{
	for (size_t i = 0; i < m->daemons.n; i++) {
		const struct owner *o = owner_of(m->daemons.at[i], owner);

		if (o == NULL || !o->lost)
			continue;
		*ret_index = m->daemons.at[i]->index;
		return true;
	}
	return false;
}

bool rf_mps_lost_on(const struct rf_mps *m, int index, struct rf_str owner)
{
	const struct daemon *d = find(m, index);
	const struct owner *o = d != NULL ? owner_of(d, owner) : NULL;

	return o != NULL && o->lost;
}

static void free_daemon(struct daemon *d)
{
	while (d->owners.n > 0)
		drop_owner(d, d->owners.n - 1);
	rf_vec_done(&d->owners);
	rf_vec_done(&d->seen.list);
	free(d);
}

static void forget(struct rf_mps *m, struct daemon *d)
{
	for (size_t i = m->daemons.n; i-- > 0;)
		if (m->daemons.at[i] == d)
			rf_vec_remove(&m->daemons, i);
	free_daemon(d);
}

static int save(const struct rf_mps *m, const struct daemon *d, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *owners = rf_json_array(&a), *seen = rf_json_array(&a);

	for (size_t i = 0; i < d->seen.list.n; i++)
		rf_json_push(&a, seen, rf_json_make(&a, "{'pid':%d,'start':%D}", (int)d->seen.list.at[i].pid,
						    (int64_t)d->seen.list.at[i].start));
	for (size_t i = 0; i < d->owners.n; i++)
		rf_json_push(&a, owners,
			     rf_json_make(&a, "{'uid':%s,'lost':%b}", d->owners.at[i].uid, d->owners.at[i].lost));
	rf_json_write(&text, rf_json_make(&a, "{'boot':%S,'card':%s,'domain':%s,'pid':%d,'start':%D,'owners':%j,'seen':%j}",
					  rf_cards_boot(&a), d->uuid, d->domain, (int)d->pid, (int64_t)d->start, owners, seen));
	if (rf_fs_write(state_of(&a, m, d->index), rf_buf_str(&text), 0600, true, err) < 0)
		return rf_wrap(err, "write down who shares card gpu-%d by MPS", d->index);
	return 0;
}

static void note(const struct rf_mps *m, const struct daemon *d)
{
	struct rf_err err = RF_ERR_INIT;

	if (save(m, d, &err) < 0)
		rf_warn("%s", err.msg);
}

void rf_mps_mourned(struct rf_mps *m, int index, struct rf_str owner)
{
	struct daemon *d = find(m, index);
	struct owner *o = d != NULL ? owner_of(d, owner) : NULL;

	if (o == NULL || !o->lost)
		return;
	o->lost = false;
	note(m, d);
}

/* --- up ----------------------------------------------------------------------------------------------- */

static bool lives(const struct daemon *d)
{
	return d->pid > 0 && d->start != 0 && rf_mps_started(d->pid) == d->start;
}

bool rf_mps_is_dead_under(const struct rf_mps *m, struct rf_str owner, int *ret_index)
{
	for (size_t i = 0; i < m->daemons.n; i++) {
		const struct owner *o = owner_of(m->daemons.at[i], owner);

		if (o == NULL || (!o->lost && lives(m->daemons.at[i])))
			continue;
		*ret_index = m->daemons.at[i]->index;
		return true;
	}
	return false;
}

bool rf_mps_is_up(const struct rf_mps *m, int index)
{
	const struct daemon *d = find(m, index);

	return d != NULL && d->ready && !d->ending && lives(d);
}

/* The last line of what it said. */
static void last_words(const struct rf_mps *m, const struct daemon *d, char *ret, size_t size)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text = RF_STR_EMPTY, line, last = RF_STR_EMPTY;

	ret[0] = '\0';
	(void)rf_fs_read(&a, rf_fs_path(&a, "%s/log/output", home_of(&a, m, d->index)), (size_t)ROOM, &text, NULL);
	while (text.n > 0) {
		rf_str_cut(&text, '\n', &line);
		last = rf_str_trim(line).n > 0 ? rf_str_trim(line) : last;
	}
	if (last.n > 0)
		snprintf(ret, size, ": %.*s", (int)RF_MIN(last.n, 160), last.p);
}

/* The socket of programs gets a second name in the folder that containers have; the one for commands does not. */
static bool show_socket(const struct rf_mps *m, struct daemon *d)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *from = rf_fs_path(&a, "%s/control", pipe_of(&a, m, d->index));
	const char *dir = rf_mps_client_dir(&a, m, d->index);
	const char *fresh = rf_fs_path(&a, "%s/.control", dir);
	struct stat st;

	if (lstat(from, &st) < 0 || !S_ISSOCK(st.st_mode))
		return false;
	(void)unlink(fresh);
	if (link(from, fresh) < 0 || rename(fresh, rf_fs_path(&a, "%s/control", dir)) < 0)
		return false;
	(void)unlink(fresh); /* rename leaves it where both were one already */
	return true;
}

static void hide_socket(const struct rf_mps *m, struct daemon *d)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	d->ready = false;
	(void)unlink(rf_fs_path(&a, "%s/control", rf_mps_client_dir(&a, m, d->index)));
}

static int make_home(const struct rf_mps *m, const struct daemon *d, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *home = home_of(&a, m, d->index), *pipe = pipe_of(&a, m, d->index);

	if (strlen(pipe) + sizeof("/control_privileged") > sizeof(((struct sockaddr_un *)0)->sun_path))
		return rf_fail(err, RF_UNAVAILABLE, /* not the pod's fault */
			       "%s: the path is too long for a socket; use a data folder with a shorter one", pipe);
	if (rf_fs_mkdirs(m->dir, 0700, err) < 0 || rf_volumes_scratch(home, ROOM, err) < 0 ||
	    rf_fs_remove_tree(pipe, err) < 0 || rf_fs_mkdirs(pipe, 0700, err) < 0 ||
	    /* What the last one logged may be all there is room for. */
	    rf_fs_remove_tree(rf_fs_path(&a, "%s/log", home), err) < 0 ||
	    rf_fs_mkdirs(rf_fs_path(&a, "%s/log", home), 0700, err) < 0 ||
	    rf_fs_mkdirs(rf_mps_client_dir(&a, m, d->index), 0755, err) < 0)
		return -err->code;
	return 0;
}

static int run(const struct rf_mps *m, const struct daemon *d, const char *const *argv, const char *input,
	       pid_t *ret_pid, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *home = home_of(&a, m, d->index);
	const char *env[] = { "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			      mark_of(&a, m, d->index),
			      rf_fs_path(&a, "CUDA_MPS_LOG_DIRECTORY=%s/log", home),
			      rf_fs_path(&a, "CUDA_VISIBLE_DEVICES=%s", d->uuid), NULL };
	struct rf_mps_run r = { .argv = argv,
				.env = env,
				.output = rf_fs_path(&a, "%s/log/output", home),
				.input = input,
				.beside = m->o.on_host ? 1 : 0 };

	return rf_mps_run(&r, ret_pid, err);
}

static void back_off(const struct rf_mps *m, struct daemon *d)
{
	int64_t now = now_ms(m);

	if (now - d->since_ms >= HEALTHY_MS)
		d->backoff_ms = 0;
	d->backoff_ms = d->backoff_ms ? RF_MIN(d->backoff_ms * 2, BACKOFF_MAX_MS) : BACKOFF_MS;
	d->retry_ms = now + d->backoff_ms;
}

/* One server for all users: with one per user the second user's programs would wait until the first one's have all
 * gone. Isolation between users of one trust domain is not what MPS is for. */
static int start(struct rf_mps *m, struct daemon *d, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *argv[] = { find_program(m), "-f", "-multiuser-server", NULL };

	if (rf_mps_check_program(m, err) < 0 || make_home(m, d, err) < 0)
		return -err->code;
	(void)rf_mps_kill_all(mark_of(&a, m, d->index), SIGKILL, &d->seen);
	(void)rf_mps_seen_left(&d->seen);
	d->since_ms = now_ms(m);
	if (run(m, d, argv, NULL, &d->pid, err) < 0)
		return -err->code;
	d->start = rf_mps_started(d->pid);
	note(m, d); /* without its number the next agent ends it and starts another */
	rf_info("card gpu-%d: MPS daemon %d for trust domain %s", d->index, (int)d->pid, d->domain);
	return 0;
}

static void note_death(struct rf_mps *m, struct daemon *d)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	char words[192];

	last_words(m, d, words, sizeof(words));
	snprintf(d->why, sizeof(d->why), "the MPS daemon of card gpu-%d ended by itself%s", d->index, words);
	(void)rf_mps_kill_all(mark_of(&a, m, d->index), SIGKILL, &d->seen); /* its server is of no use to anybody */
	hide_socket(m, d);
	d->pid = 0;
	d->start = 0;
	d->deaths++;
	for (size_t i = 0; i < d->owners.n; i++)
		d->owners.at[i].lost = true;
	back_off(m, d);
	note(m, d);
	rf_warn("%s; it is started again in %lld s", d->why, (long long)d->backoff_ms / 1000);
}

static int wait_ready(struct rf_mps *m, struct daemon *d, int wait_ms, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (int waited = 0; waited <= wait_ms; waited += 5) {
		if (!lives(d)) {
			note_death(m, d);
			return rf_fail(err, RF_UNAVAILABLE, "%s", d->why);
		}
		d->ready = show_socket(m, d);
		if (d->ready)
			return 0;
		if (waited < wait_ms)
			nap();
	}
	if (now_ms(m) - d->since_ms >= START_MS)
		(void)rf_mps_kill_all(mark_of(&a, m, d->index), SIGKILL, &d->seen);
	return rf_fail(err, RF_UNAVAILABLE, "the MPS daemon of card gpu-%d is starting", d->index);
}

/* wait: while it is just starting. */
static int ensure(struct rf_mps *m, struct daemon *d, bool wait, struct rf_err *err)
{
	struct rf_err own = RF_ERR_INIT;

	err = err != NULL ? err : &own;
	if (d->pid != 0 && !lives(d))
		note_death(m, d);
	if (d->pid != 0 && d->ready)
		return 0;
	if (d->pid == 0 && now_ms(m) < d->retry_ms)
		/* Without saying when: each message that differs is an event of its own. */
		return rf_fail(err, RF_UNAVAILABLE, "%s; it is started again after a pause", d->why);
	if (d->pid == 0 && start(m, d, err) < 0) {
		snprintf(d->why, sizeof(d->why), "%.*s", (int)sizeof(d->why) - 1, err->msg);
		back_off(m, d);
		rf_warn("card gpu-%d: %s; tried again in %lld s", d->index, d->why, (long long)d->backoff_ms / 1000);
		return -err->code;
	}
	return wait_ready(m, d, wait ? wait_left(m, d->since_ms) : 0, err);
}

/* --- down --------------------------------------------------------------------------------------------- */

static bool clear_home(struct rf_mps *m, int index)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	const char *home = home_of(&a, m, index);

	if (umount2(home, MNT_DETACH | UMOUNT_NOFOLLOW) < 0 && errno != EINVAL && errno != ENOENT) {
		rf_warn("unmount %s: %s", home, strerror(errno));
		return false;
	}
	if (rf_fs_remove_tree(home, &err) < 0 || rf_fs_remove_tree(state_of(&a, m, index), &err) < 0) {
		rf_warn("%s", err.msg);
		return false;
	}
	if (m->o.on_host)
		(void)rmdir("/proc/1/root" RF_MPS_HOST_CGROUP); /* the last one's */
	return true;
}

static void ask_to_quit(struct rf_mps *m, struct daemon *d)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *argv[] = { find_program(m), NULL };
	struct rf_err err = RF_ERR_INIT;
	pid_t pid;

	/* Before they begin to go: then they can still be told by their environment. */
	(void)rf_mps_kill_all(mark_of(&a, m, d->index), 0, &d->seen);
	d->ending = true;
	d->quit_ms = now_ms(m);
	note(m, d); /* so that the next agent knows them, too */
	hide_socket(m, d);
	if (lives(d) && (argv[0] == NULL || run(m, d, argv, "quit\n", &pid, &err) < 0)) {
		rf_warn("card gpu-%d: the MPS daemon cannot be asked to end (%s); it is killed", d->index,
			argv[0] ? err.msg : "its program is gone");
		d->quit_ms -= QUIT_MS;
	}
}

static bool is_gone(struct daemon *d)
{
	return !lives(d) && rf_mps_seen_left(&d->seen) == 0;
}

/* True if nothing of it was found and all that was found before has gone. Few looks through all processes: one that
 * hangs in the driver may take long. */
static bool kill_rest(struct rf_mps *m, struct daemon *d, bool wait)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *mark = mark_of(&a, m, d->index);

	if (rf_mps_kill_all(mark, SIGKILL, &d->seen) == 0 && is_gone(d))
		return true;
	d->kill_ms = d->kill_ms ? d->kill_ms : now_ms(m);
	for (int left = wait ? wait_left(m, d->kill_ms) : 0; left > 0 && !is_gone(d); left -= 5)
		nap();
	return is_gone(d) && rf_mps_kill_all(mark, SIGKILL, &d->seen) == 0;
}

/* True once nothing of it is left. wait: a moment for it. */
static bool end(struct rf_mps *m, struct daemon *d, bool wait)
{
	if (!d->ending)
		ask_to_quit(m, d);
	for (int left = wait ? wait_left(m, d->quit_ms) : 0; left > 0 && lives(d); left -= 5)
		nap();
	/* Its server, and the program that carried the word, may take a moment more; but without the daemon they are
	 * of no use. */
	if (lives(d) && now_ms(m) - d->quit_ms < QUIT_MS)
		return false;
	if (!kill_rest(m, d, wait) || !clear_home(m, d->index))
		return false;
	rf_info("card gpu-%d: the MPS daemon has ended", d->index);
	forget(m, d);
	return true;
}

/* --- joining and leaving -------------------------------------------------------------------------------- */

static int check_domain(const struct daemon *d, struct rf_str domain, struct rf_err *err)
{
	if (d->ending)
		return rf_fail(err, RF_UNAVAILABLE, "card gpu-%d: the last MPS daemon is just ending", d->index);
	if (d->owners.n >= OWNERS_MAX)
		return rf_fail(err, RF_EXHAUSTED, "card gpu-%d: %d pods share it by MPS, that is all there may be",
			       d->index, OWNERS_MAX);
	if (rf_str_is(domain, d->domain))
		return 0;
	return rf_fail(err, RF_UNAVAILABLE,
		       "card gpu-%d is shared by MPS in trust domain %s; a pod of trust domain %.*s does not join it",
		       d->index, d->domain, RF_STR(domain));
}

static struct daemon *make(struct rf_mps *m, const struct rf_gpu_card *card, struct rf_str domain)
{
	struct daemon *d = rf_new(struct daemon);

	*d = (struct daemon){ .index = card->index, .owners = RF_VEC_INIT, .seen = { RF_VEC_INIT } };
	snprintf(d->uuid, sizeof(d->uuid), "%s", card->uuid);
	snprintf(d->domain, sizeof(d->domain), "%.*s", RF_STR(domain));
	rf_vec_push(&m->daemons, d);
	return d;
}

int rf_mps_join(struct rf_mps *m, const struct rf_gpu_card *card, struct rf_str domain, struct rf_str owner,
		struct rf_err *err)
{
	struct daemon *d = find(m, card->index);
	const struct owner *o = d != NULL ? owner_of(d, owner) : NULL;
	bool fresh;

	if (o != NULL && o->lost)
		return rf_fail(err, RF_UNAVAILABLE, "%s; the programs that used it are being ended",
			       d->why[0] ? d->why : "the MPS daemon ended by itself");
	if (o != NULL && !d->ending)
		return ensure(m, d, true, err);
	if (domain.n == 0 || domain.n >= sizeof(d->domain))
		return rf_fail(err, RF_INVALID, "\"%.*s\" is not a trust domain", (int)RF_MIN(domain.n, 64), domain.p);
	/* The last one left, and nobody waited for the end of it; or thought better of it. */
	if (d != NULL && (d->ending || d->owners.n == 0) && end(m, d, true))
		d = NULL;
	if (d != NULL && check_domain(d, domain, err) < 0)
		return -err->code;
	/* A node without the program has nothing to write down. */
	m->missing = rf_mps_check_program(m, err) < 0;
	if (d == NULL && m->missing)
		return -err->code;
	fresh = d == NULL;
	d = fresh ? make(m, card, domain) : d;
	add_owner(d, owner, false);
	if (rf_fs_mkdirs(m->dir, 0700, err) < 0 || save(m, d, err) < 0) {
		drop_owner(d, d->owners.n - 1);
		if (fresh)
			forget(m, d);
		return -err->code;
	}
	return ensure(m, d, true, err);
}

void rf_mps_miss(struct rf_mps *m, const struct rf_gpu_card *card, struct rf_str domain, struct rf_str owner)
{
	struct daemon *d = find(m, card->index);

	if (domain.n == 0 || domain.n >= sizeof(d->domain) || (d != NULL && check_domain(d, domain, NULL) < 0))
		return;
	rf_warn("card gpu-%d: pod %.*s shares it by MPS, and that is not written down; its programs are ended", card->index,
		RF_STR(owner));
	d = d != NULL ? d : make(m, card, domain);
	add_owner(d, owner, true);
	note(m, d);
}

int rf_mps_leave(struct rf_mps *m, struct rf_str owner, struct rf_err *err)
{
	for (size_t i = m->daemons.n; i-- > 0;) {
		struct daemon *d = m->daemons.at[i];
		const struct owner *o = owner_of(d, owner);
		int index = d->index;

		if (o == NULL)
			continue;
		if (d->owners.n > 1) {
			drop_owner(d, (size_t)(o - d->owners.at));
			note(m, d);
			continue;
		}
		/* It stays the last one's until all is gone: so the claim is not let go before. */
		if (!end(m, d, true))
			return rf_fail(err, RF_UNAVAILABLE, "the MPS daemon of card gpu-%d is still ending", index);
	}
	return 0;
}

static bool drop_unwanted(struct daemon *d, bool (*wanted)(void *ctx, struct rf_str owner), void *ctx)
{
	size_t before = d->owners.n;

	for (size_t i = d->owners.n; i-- > 0;)
		if (!wanted(ctx, rf_str(d->owners.at[i].uid))) {
			rf_info("card gpu-%d: pod %s does not share it by MPS any more", d->index, d->owners.at[i].uid);
			drop_owner(d, i);
		}
	return d->owners.n != before;
}

void rf_mps_sweep(struct rf_mps *m, bool (*wanted)(void *ctx, struct rf_str owner), void *ctx)
{
	for (size_t i = m->daemons.n; i-- > 0;) {
		struct daemon *d = m->daemons.at[i];

		if (d->ending)
			continue;
		if (drop_unwanted(d, wanted, ctx))
			note(m, d);
		if (d->owners.n == 0)
			(void)end(m, d, false);
	}
}

void rf_mps_tick(struct rf_mps *m)
{
	for (size_t i = m->daemons.n; i-- > 0;) {
		struct daemon *d = m->daemons.at[i];

		if (d->ending || d->owners.n == 0) {
			(void)end(m, d, false);
			continue;
		}
		if (d->pid != 0 || now_ms(m) >= d->retry_ms)
			(void)ensure(m, d, false, NULL);
	}
}

/* --- what the last agent left --------------------------------------------------------------------------- */

static void load(struct rf_mps *m, int index)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_gpu_card card = { .index = index };
	struct rf_str text;
	struct rf_json *v, *owners, *seen;
	struct daemon *d;

	if (rf_fs_read(&a, state_of(&a, m, index), STATE_MAX, &text, NULL) < 0 || rf_json_parse(&a, text, &v, NULL) < 0 ||
	    !rf_str_eq(rf_json_str_at(v, "boot"), rf_cards_boot(&a))) {
		/* Of another start of the machine, or not to be read: whoever it was for is not there, or will join again. */
		rf_warn("card gpu-%d: what the last agent wrote down of its MPS daemon is of no use; what runs of it is ended",
			index);
		d = make(m, &card, RF_STR_EMPTY);
		d->ending = true;
		d->quit_ms = now_ms(m) - QUIT_MS;
		(void)end(m, d, true); /* else the next tick tries again */
		return;
	}
	snprintf(card.uuid, sizeof(card.uuid), "%.*s", RF_STR(rf_json_str_at(v, "card")));
	d = make(m, &card, rf_json_str_at(v, "domain"));
	d->since_ms = now_ms(m);
	d->pid = (pid_t)rf_json_int(rf_json_at(v, "pid"), 0);
	d->start = (uint64_t)rf_json_int(rf_json_at(v, "start"), 0);
	owners = rf_json_at(v, "owners");
	for (size_t i = 0; i < rf_json_len(owners) && i < OWNERS_MAX; i++)
		add_owner(d, rf_json_str_at(rf_json_item(owners, i), "uid"),
			  rf_json_is_true(rf_json_at(rf_json_item(owners, i), "lost")));
	seen = rf_json_at(v, "seen");
	for (size_t i = 0; i < rf_json_len(seen) && i < OWNERS_MAX; i++) {
		struct rf_mps_process p = { (pid_t)rf_json_int(rf_json_at(rf_json_item(seen, i), "pid"), 0),
					    (uint64_t)rf_json_int(rf_json_at(rf_json_item(seen, i), "start"), 0) };

		if (p.pid > 0 && p.start != 0)
			rf_vec_push(&d->seen.list, p);
	}
	if (d->pid == 0) /* the agent died before it could write the number down */
		(void)rf_mps_kill_all(mark_of(&a, m, index), SIGKILL, &d->seen);
	else
		rf_info("card gpu-%d: MPS daemon %d taken over", index, (int)d->pid);
}

static void load_all(struct rf_mps *m)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names = NULL;
	size_t n = 0;

	(void)rf_fs_list(&a, m->dir, &names, &n, NULL);
	for (size_t i = 0; i < n; i++) {
		struct rf_str name = names[i];
		int64_t index;

		if (!rf_str_starts(name, RF_LIT("gpu-")) || !rf_str_ends(name, RF_LIT(".json")))
			continue;
		name = rf_str_n(name.p + 4, name.n - 9);
		if (rf_str_int(name, &index, NULL) == 0 && index >= 0 && index <= 255)
			load(m, (int)index);
	}
}

struct rf_mps *rf_mps_open(const struct rf_mps_opts *o)
{
	struct rf_mps *m = rf_new(struct rf_mps);

	*m = (struct rf_mps){ .o = *o, .dir = rf_strdup(o->dir), .daemons = RF_VEC_INIT };
	m->program = o->program != NULL ? rf_strdup(o->program) : NULL;
	m->o.clock = o->clock != NULL ? o->clock : rf_clock_system();
	load_all(m);
	return m;
}

void rf_mps_close(struct rf_mps *m)
{
	if (m == NULL)
		return;
	for (size_t i = 0; i < m->daemons.n; i++)
		free_daemon(m->daemons.at[i]);
	rf_vec_done(&m->daemons);
	free(m->dir);
	free(m->program);
	free(m);
}

void rf_mps_metrics(struct rf_metrics *page, const struct rf_mps *m, struct rf_str node)
{
	struct rf_label here[] = { { "node", node } };

	if (m == NULL)
		return;
	rf_metrics_int(page, "ringfence_mps_missing", RF_METRIC_GAUGE,
		       "Did a pod need the MPS control daemon, and the machine has none?", here, 1, m->missing);
	for (size_t i = 0; i < m->daemons.n; i++) {
		const struct daemon *d = m->daemons.at[i];
		struct rf_label l[] = { { "node", node },
					{ "card", rf_arena_printf(page->arena, "gpu-%d", d->index) } };

		rf_metrics_int(page, "ringfence_mps_up", RF_METRIC_GAUGE, "Is the MPS daemon of the card up?", l, 2, d->ready);
		rf_metrics_int(page, "ringfence_mps_pods", RF_METRIC_GAUGE, "Pods that share the card by MPS.", l, 2,
			       (int64_t)d->owners.n);
		rf_metrics_int(page, "ringfence_mps_deaths_total", RF_METRIC_COUNTER,
			       "How often the MPS daemon of the card ended by itself, since the agent started.", l, 2, d->deaths);
	}
}
