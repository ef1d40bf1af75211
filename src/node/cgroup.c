#include "node/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fs.h"

#define FILE_MAX (256 * 1024)
#define DEPTH_MAX 8

struct rf_str rf_cgroup_instance(struct rf_arena *a, struct rf_str data_dir)
{
	static const uint8_t key[16] = "ringfence-cgroup";

	return rf_arena_printf(a, "%016llx",
			       (unsigned long long)rf_siphash13(key, data_dir.p, data_dir.n));
}

struct rf_str rf_cgroup_path(struct rf_arena *a, struct rf_str instance, struct rf_str uid,
			     struct rf_str container)
{
	return rf_arena_printf(a, RF_CGROUP_TOP "/%.*s%s%.*s%s%.*s", RF_STR(instance),
			       uid.n ? "/" : "", RF_STR(uid), container.n ? "/" : "",
			       RF_STR(container));
}

/* "4:memory:/ringfence/x/u/c" */
static bool parse_line(struct rf_str line, struct rf_str instance, struct rf_str *uid,
		       struct rf_str *name)
{
	struct rf_str part;

	if (!rf_str_cut(&line, ':', &part) || !rf_str_cut(&line, ':', &part))
		return false;
	if (!rf_str_starts(line, RF_LIT(RF_CGROUP_TOP "/")))
		return false;
	line = rf_str_skip(line, sizeof(RF_CGROUP_TOP));
	if (!rf_str_cut(&line, '/', &part) || !rf_str_eq(part, instance))
		return false;
	if (!rf_str_cut(&line, '/', uid))
		return false;
	rf_str_cut(&line, '/', name);
	return uid->n > 0 && name->n > 0;
}

bool rf_cgroup_parse(struct rf_str text, struct rf_str instance, struct rf_str *ret_uid,
		     struct rf_str *ret_container)
{
	struct rf_str line, uid, name;

	while (text.n > 0) {
		rf_str_cut(&text, '\n', &line);
		if (!parse_line(line, instance, &uid, &name))
			continue;
		*ret_uid = uid;
		*ret_container = name;
		return true;
	}
	return false;
}

bool rf_cgroup_of_pid(struct rf_arena *a, pid_t pid, struct rf_str instance, struct rf_str *ret_uid,
		      struct rf_str *ret_container)
{
	struct rf_str text;

	if (rf_fs_read(a, rf_fs_path(a, "/proc/%d/cgroup", (int)pid), FILE_MAX, &text, NULL) < 0)
		return false;
	return rf_cgroup_parse(text, instance, ret_uid, ret_container);
}

/* "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory": the type stands
 * behind the lone dash, the folder is the fifth word and the fourth must be "/", the whole tree. */
static bool parse_mount(struct rf_str line, struct rf_str *dir, bool *v2)
{
	struct rf_str word, root = RF_STR_EMPTY;

	for (int i = 0; i < 5; i++) {
		if (!rf_str_cut(&line, ' ', &word))
			return false;
		if (i == 3)
			root = word;
	}
	*dir = word;
	while (!rf_str_is(word, "-"))
		if (!rf_str_cut(&line, ' ', &word))
			return false;
	rf_str_cut(&line, ' ', &word);
	*v2 = rf_str_is(word, "cgroup2");
	return rf_str_is(root, "/") && (*v2 || rf_str_is(word, "cgroup"));
}

void rf_cgroup_mounts_parse(struct rf_arena *a, struct rf_str mountinfo,
			    struct rf_cgroup_mounts *ret)
{
	struct rf_str line, dir;
	bool v2;

	*ret = (struct rf_cgroup_mounts){ .n = 0 };
	while (mountinfo.n > 0 && ret->n < RF_COUNT(ret->dirs)) {
		rf_str_cut(&mountinfo, '\n', &line);
		if (!parse_mount(line, &dir, &v2))
			continue;
		ret->dirs[ret->n] = rf_arena_str(a, dir);
		ret->v2[ret->n++] = v2;
	}
}

void rf_cgroup_mounts_read(struct rf_arena *a, struct rf_cgroup_mounts *ret)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_fs_read(a, "/proc/self/mountinfo", 4 * 1024 * 1024, &text, NULL);
	rf_cgroup_mounts_parse(a, text, ret);
}

bool rf_cgroup_is_awkward(struct rf_arena *a, const struct rf_cgroup_mounts *m,
			  struct rf_str *ret_dir)
{
	bool v1 = false;

	for (size_t i = 0; i < m->n; i++)
		v1 = v1 || !m->v2[i];
	for (size_t i = 0; v1 && i < m->n; i++) {
		struct rf_str text = RF_STR_EMPTY;

		if (!m->v2[i])
			continue;
		(void)rf_fs_read(a, rf_fs_path(a, "%s/cgroup.controllers", m->dirs[i].p), FILE_MAX,
				 &text, NULL);
		if (rf_str_trim(text).n == 0)
			continue;
		*ret_dir = m->dirs[i];
		return true;
	}
	return false;
}

typedef size_t (*visit_fn)(struct rf_arena *a, const char *dir);

/* Depth first: children before their parent. cgroups hold no links, so names are safe to join. */
static size_t walk(struct rf_arena *a, const char *dir, visit_fn visit, int depth)
{
	struct rf_str *names = NULL;
	size_t n = 0, sum = 0;

	if (depth > DEPTH_MAX || !rf_fs_exists(dir))
		return 0;
	(void)rf_fs_list(a, dir, &names, &n, NULL);
	for (size_t i = 0; i < n; i++) {
		const char *child = rf_fs_path(a, "%s/%s", dir, names[i].p);

		if (rf_fs_exists(rf_fs_path(a, "%s/cgroup.procs", child)))
			sum += walk(a, child, visit, depth + 1);
	}
	return sum + visit(a, dir);
}

static size_t walk_all(struct rf_arena *a, struct rf_str path, visit_fn visit)
{
	struct rf_cgroup_mounts m;
	size_t most = 0;

	rf_cgroup_mounts_read(a, &m);
	for (size_t i = 0; i < m.n; i++) {
		size_t n = walk(a, rf_fs_path(a, "%s%.*s", m.dirs[i].p, RF_STR(path)), visit, 0);

		most = RF_MAX(most, n);
	}
	return most;
}

static size_t each_pid(struct rf_arena *a, const char *dir, int signal)
{
	struct rf_str text = RF_STR_EMPTY, line;
	size_t n = 0;
	int64_t pid;

	(void)rf_fs_read(a, rf_fs_path(a, "%s/cgroup.procs", dir), FILE_MAX, &text, NULL);
	while (text.n > 0) {
		rf_str_cut(&text, '\n', &line);
		if (rf_str_int(line, &pid, NULL) < 0 || pid <= 1)
			continue;
		n++;
		if (signal != 0)
			(void)kill((pid_t)pid, signal);
	}
	return n;
}

static size_t visit_count(struct rf_arena *a, const char *dir)
{
	return each_pid(a, dir, 0);
}

static size_t visit_kill(struct rf_arena *a, const char *dir)
{
	return each_pid(a, dir, SIGKILL);
}

static size_t visit_remove(struct rf_arena *a RF_UNUSED, const char *dir)
{
	return rmdir(dir) < 0 && errno != ENOENT ? 1 : 0;
}

size_t rf_cgroup_count(struct rf_arena *a, struct rf_str path)
{
	return walk_all(a, path, visit_count);
}

size_t rf_cgroup_kill(struct rf_arena *a, struct rf_str path)
{
	return walk_all(a, path, visit_kill);
}

bool rf_cgroup_remove(struct rf_arena *a, struct rf_str path)
{
	return walk_all(a, path, visit_remove) == 0;
}

/* "oom_kill 2" in memory.oom_control (v1) or memory.events (v2). */
static int64_t oom_count(struct rf_str text)
{
	struct rf_str line, key;
	int64_t n;

	while (text.n > 0) {
		rf_str_cut(&text, '\n', &line);
		if (rf_str_cut(&line, ' ', &key) && rf_str_is(key, "oom_kill") &&
		    rf_str_int(line, &n, NULL) == 0)
			return n;
	}
	return 0;
}

int64_t rf_cgroup_oom_kills(struct rf_arena *a, struct rf_str path)
{
	struct rf_cgroup_mounts m;
	int64_t most = 0;

	rf_cgroup_mounts_read(a, &m);
	for (size_t i = 0; i < m.n; i++) {
		const char *file = m.v2[i] ? "memory.events" : "memory.oom_control";
		struct rf_str text = RF_STR_EMPTY;

		(void)rf_fs_read(a, rf_fs_path(a, "%s%.*s/%s", m.dirs[i].p, RF_STR(path), file),
				 FILE_MAX, &text, NULL);
		int64_t n = oom_count(text);
		most = RF_MAX(most, n);
	}
	return most;
}

int64_t rf_cgroup_memory(struct rf_arena *a, struct rf_str path)
{
	struct rf_cgroup_mounts m;
	int64_t n;

	rf_cgroup_mounts_read(a, &m);
	for (size_t i = 0; i < m.n; i++) {
		const char *file = m.v2[i] ? "memory.current" : "memory.usage_in_bytes";
		struct rf_str text;

		if (rf_fs_read(a, rf_fs_path(a, "%s%.*s/%s", m.dirs[i].p, RF_STR(path), file), 64,
			       &text, NULL) == 0 &&
		    rf_str_int(rf_str_trim(text), &n, NULL) == 0)
			return n;
	}
	return -1;
}

/* No stdio: a cgroup takes the whole value in one write, and no file is made where there is none. */
static bool write_text(const char *path, const char *text)
{
	rf_auto_close int fd = open(path, O_WRONLY | O_CLOEXEC);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* Controllers of a v2 tree reach a cgroup only if every one above hands them down. */
static void hand_down(struct rf_arena *a, const char *mount, struct rf_str path)
{
	struct rf_str rest = rf_str_skip(path, 1), part;
	const char *dir = mount;

	while (rest.n > 0) {
		const char *file = rf_fs_path(a, "%s/cgroup.subtree_control", dir);

		(void)write_text(file, "+memory");
		(void)write_text(file, "+pids");
		rf_str_cut(&rest, '/', &part);
		dir = rf_fs_path(a, "%s/%.*s", dir, RF_STR(part));
		(void)mkdir(dir, 0755);
	}
}

/* Of the v1 hierarchies only these two are of use here; the runtime makes its own in the others. */
static bool has_controller(struct rf_str dir)
{
	return rf_str_ends(dir, RF_LIT("/memory")) || rf_str_ends(dir, RF_LIT("/pids"));
}

void rf_cgroup_bound(struct rf_str path, int64_t memory, int64_t pids)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_cgroup_mounts m;

	rf_cgroup_mounts_read(&a, &m);
	for (size_t i = 0; i < m.n; i++) {
		const char *dir = rf_fs_path(&a, "%s%.*s", m.dirs[i].p, RF_STR(path));

		if (m.v2[i])
			hand_down(&a, m.dirs[i].p, path);
		else if (!has_controller(m.dirs[i]) || rf_fs_mkdirs(dir, 0755, NULL) < 0)
			continue;
		(void)write_text(rf_fs_path(&a, "%s/%s", dir,
					    m.v2[i] ? "memory.max" : "memory.limit_in_bytes"),
				 rf_fs_path(&a, "%lld", (long long)memory));
		(void)write_text(rf_fs_path(&a, "%s/pids.max", dir),
				 rf_fs_path(&a, "%lld", (long long)pids));
	}
}

static int64_t machine_memory(void)
{
	return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
}

static int64_t machine_pids(void)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	int64_t n;

	if (rf_fs_read(&a, "/proc/sys/kernel/pid_max", 64, &text, NULL) < 0 ||
	    rf_str_int(rf_str_trim(text), &n, NULL) < 0)
		return 32768;
	return n;
}

void rf_cgroup_keep_for_machine(struct rf_str instance)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	int64_t total = machine_memory(), kept = RF_MAX(total / 20, 512LL * 1024 * 1024);

	rf_cgroup_bound(rf_cgroup_path(&a, instance, RF_STR_EMPTY, RF_STR_EMPTY),
			total > 2 * kept ? total - kept : total, machine_pids() / 2);
}

int64_t rf_cgroup_default_memory(void)
{
	int64_t total = machine_memory();

	return RF_MIN(RF_MAX(total / 8, 1024LL * 1024 * 1024), total);
}

int64_t rf_cgroup_pids_per_pod(void)
{
	return RF_MIN(RF_MAX(machine_pids() / 32, 512), 4096);
}

size_t rf_cgroup_pods(struct rf_arena *a, struct rf_str instance, struct rf_str **ret_uids)
{
	struct rf_cgroup_mounts m;
	struct rf_map seen = RF_MAP_INIT; /* v1 has each pod once per hierarchy */
	RF_VEC(struct rf_str) uids = RF_VEC_INIT;

	rf_cgroup_mounts_read(a, &m);
	for (size_t i = 0; i < m.n; i++) {
		const char *dir =
			rf_fs_path(a, "%s" RF_CGROUP_TOP "/%.*s", m.dirs[i].p, RF_STR(instance));
		struct rf_str *names = NULL;
		size_t n = 0;

		(void)rf_fs_list(a, dir, &names, &n, NULL);
		for (size_t j = 0; j < n; j++)
			if (rf_fs_exists(rf_fs_path(a, "%s/%s/cgroup.procs", dir, names[j].p)) &&
			    rf_map_set(&seen, names[j], a) == NULL)
				rf_vec_push(&uids, names[j]);
	}
	rf_map_done(&seen);
	*ret_uids = rf_arena_array(a, struct rf_str, uids.n + 1);
	if (uids.n > 0)
		memcpy(*ret_uids, uids.at, uids.n * sizeof(struct rf_str));
	size_t n = uids.n;
	rf_vec_done(&uids);
	return n;
}
