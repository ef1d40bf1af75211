/* What a container sees of the file system. */
#include "node/oci_private.h"

static void push(struct rf_arena *a, struct rf_json *mounts, const char *type, struct rf_str source,
		 struct rf_str destination, const char *options)
{
	struct rf_json *list = rf_json_array(a);
	struct rf_str rest = rf_str(options), word;

	while (rest.n > 0) {
		rf_str_cut(&rest, ',', &word);
		rf_json_push(a, list, rf_json_string(a, word));
	}
	rf_json_push(a, mounts,
		     rf_json_make(a, "{'destination':%S,'type':%s,'source':%S,'options':%j}",
				  destination, type, source, list));
}

static void push_tmpfs(struct rf_arena *a, struct rf_json *mounts, const char *destination,
		       const char *options)
{
	push(a, mounts, "tmpfs", RF_LIT("tmpfs"), rf_str(destination), options);
}

static void push_bind(struct rf_arena *a, struct rf_json *mounts, struct rf_str source,
		      struct rf_str destination, bool read_only)
{
	push(a, mounts, "bind", source, destination,
	     read_only ? "rbind,ro,nosuid,nodev,private" : "rbind,rw,nosuid,nodev,private");
}

static void push_system(struct rf_arena *a, struct rf_json *mounts, const struct rf_oci_ask *ask)
{
	push(a, mounts, "proc", RF_LIT("proc"), RF_LIT("/proc"), "nosuid,noexec,nodev");
	push_tmpfs(a, mounts, "/dev", "nosuid,noexec,strictatime,mode=755,size=64k");
	push(a, mounts, "devpts", RF_LIT("devpts"), RF_LIT("/dev/pts"),
	     "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620");
	push(a, mounts, "mqueue", RF_LIT("mqueue"), RF_LIT("/dev/mqueue"), "nosuid,noexec,nodev");
	push_tmpfs(a, mounts, "/dev/shm", "nosuid,noexec,nodev,mode=1777,size=64m");
	push_tmpfs(a, mounts, "/tmp", "nosuid,nodev,mode=1777,size=512m");
	push_tmpfs(a, mounts, "/run", "nosuid,nodev,mode=755,size=16m");
	/* CUDA reads the machine's topology there; a simulated card has none. */
	if (ask->gpu != NULL && ask->gpu->sim_dir == NULL)
		push(a, mounts, "sysfs", RF_LIT("sysfs"), RF_LIT("/sys"), "nosuid,noexec,nodev,ro");
}

static bool has_top(const struct rf_oci_ask *ask, const char *name)
{
	for (size_t i = 0; i < ask->n_tops; i++)
		if (rf_str_is(ask->tops[i].name, name))
			return true;
	return false;
}

static bool is_inside(struct rf_str path, struct rf_str folder)
{
	return rf_str_starts(path, folder) && (path.n == folder.n || path.p[folder.n] == '/');
}

/* A folder that must not show is covered by an empty one where a bound folder would show it. */
static void push_covers(struct rf_arena *a, struct rf_json *mounts, const struct rf_oci_ask *ask,
			const struct rf_oci_top *top)
{
	for (size_t i = 0; i < ask->n_hidden; i++) {
		struct rf_str rest;

		if (!is_inside(ask->hidden[i], top->source))
			continue;
		rest = rf_str_skip(ask->hidden[i], top->source.n);
		push(a, mounts, "tmpfs", RF_LIT("tmpfs"),
		     rf_arena_printf(a, "/%.*s%.*s", RF_STR(top->name), RF_STR(rest)),
		     "ro,nosuid,nodev,noexec,mode=000,size=4k");
	}
}

static void push_tops(struct rf_arena *a, struct rf_json *mounts, const struct rf_oci_ask *ask)
{
	for (size_t i = 0; i < ask->n_tops; i++) {
		const struct rf_oci_top *top = &ask->tops[i];

		if (top->link.n > 0)
			continue;
		push_bind(a, mounts, top->source, rf_arena_printf(a, "/%.*s", RF_STR(top->name)),
			  true);
		push_covers(a, mounts, ask, top);
	}
	if (!has_top(ask, "var"))
		push_tmpfs(a, mounts, "/var/tmp", "nosuid,nodev,mode=1777,size=64m");
}

static bool is_again(const struct rf_oci_gpu *g, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (g->minors[k] == g->minors[i])
			return true;
	return false;
}

static void push_gpu(struct rf_arena *a, struct rf_json *mounts, const struct rf_oci_gpu *g)
{
	push_bind(a, mounts, rf_str(g->run_dir), RF_LIT("/ringfence/run"), true);
	push_bind(a, mounts, rf_str(g->fence_lib), RF_LIT("/ringfence/lib/libringfence.so"), true);
	if (g->mps_dir != NULL)
		push_bind(a, mounts, rf_str(g->mps_dir), RF_LIT(RF_MPS_MOUNT), true);
	if (g->driver_lib_dir != NULL) {
		static const char *const libs[] = { "libcuda.so.1", "libnvidia-ml.so.1" };

		for (size_t i = 0; i < RF_COUNT(libs); i++)
			push_bind(a, mounts,
				  rf_arena_printf(a, "%s/%s", g->driver_lib_dir, libs[i]),
				  rf_arena_printf(a, "/ringfence/lib/%s", libs[i]), true);
	}
	if (g->sim_dir == NULL)
		return;
	push_bind(a, mounts, rf_arena_printf(a, "%s/machine", g->sim_dir),
		  RF_LIT("/ringfence/dev/machine"), true);
	for (size_t i = 0; i < g->n_minors; i++)
		if (!is_again(g, i))
			push_bind(a, mounts, rf_arena_printf(a, "%s/nvidia%d", g->sim_dir, g->minors[i]),
				  rf_arena_printf(a, "/ringfence/dev/nvidia%d", g->minors[i]), false);
	if (g->sim_caps != NULL)
		push_bind(a, mounts, rf_str(g->sim_caps), RF_LIT("/ringfence/dev/caps"), true);
}

/* A tenant's volume must not cover what keeps it in. */
static int check_destination(struct rf_str path, struct rf_err *err)
{
	static const char *const ours[] = { "/ringfence", "/proc", "/sys" };
	struct rf_str rest = path, part;

	if (path.n < 2 || path.n > 1024 || path.p[0] != '/' || memchr(path.p, '\0', path.n) != NULL)
		return rf_fail(err, RF_INVALID, "mountPath %.*s: must be an absolute path below /",
			       RF_STR(path));
	rest = rf_str_skip(rest, 1);
	while (rest.n > 0) {
		rf_str_cut(&rest, '/', &part);
		/* "//proc" is /proc to the kernel, and not in the list below. */
		if (part.n == 0 || rf_str_is(part, "..") || rf_str_is(part, "."))
			return rf_fail(err, RF_INVALID, "mountPath %.*s: no //, . or .. please",
				       RF_STR(path));
	}
	for (size_t i = 0; i < RF_COUNT(ours); i++)
		if (is_inside(path, rf_str(ours[i])))
			return rf_fail(err, RF_FORBIDDEN, "mountPath %.*s: %s is ringfence's",
				       RF_STR(path), ours[i]);
	if (is_inside(path, RF_LIT("/dev")) && !is_inside(path, RF_LIT("/dev/shm")))
		return rf_fail(err, RF_FORBIDDEN,
			       "mountPath %.*s: only /dev/shm may be mounted below /dev",
			       RF_STR(path));
	return 0;
}

int rf_oci_mounts(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		  struct rf_err *err)
{
	struct rf_json *mounts = rf_json_array(a);

	push_tops(a, mounts, ask);
	push_system(a, mounts, ask);
	for (size_t i = 0; i < ask->n_volumes; i++) {
		const struct rf_oci_mount *v = &ask->volumes[i];

		if (check_destination(v->destination, err) < 0)
			return -err->code;
		push_bind(a, mounts, v->source, v->destination, v->read_only);
	}
	/* Last, so that nothing a tenant mounts can lie over them. */
	if (ask->demo != NULL)
		push_bind(a, mounts, rf_str(ask->demo), RF_LIT("/ringfence/bin/gpu-demo"), true);
	if (ask->gpu != NULL)
		push_gpu(a, mounts, ask->gpu);
	*ret = mounts;
	return 0;
}
