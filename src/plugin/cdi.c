/* CDI: how a container's cards, fence and driver reach it. A spec has one device, for one container;
 * there is none for "all", no hook, and no name is used twice. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "node/oci.h"
#include "plugin/private.h"

#define LIBRARY_MAX (256 << 20)

/* What a CUDA program needs of the driver; the rest (graphics, displays, tools) stays outside. */
static const char *const driver_libs[] = {
	"libcuda.so.",
	"libnvidia-ml.so.",
	"libnvidia-ptxjitcompiler.so.",
	"libnvidia-nvvm.so.",
	"libnvidia-gpucomp.so.",
	"libnvidia-opencl.so.",
	"libcudadebugger.so.",
	"libnvidia-allocator.so.",
	"libnvidia-nvvm70.so.",
	"libnvidia-tileiras.so.",
	"libnvidia-pkcs11-openssl3.so.",
};

/* --- edits ------------------------------------------------------------------------------------ */

static void push_mount(struct rf_arena *a, struct rf_json *mounts, struct rf_str from,
		       struct rf_str to, bool read_only)
{
	rf_json_push(
		a, mounts,
		rf_json_make(a,
			     "{'hostPath':%S,'containerPath':%S,'options':[%s,'nosuid','nodev',"
			     "'rbind','rprivate']}",
			     from, to, read_only ? "ro" : "rw"));
}

static int push_node(struct rf_arena *a, struct rf_json *nodes, const char *path,
		     struct rf_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return rf_fail_errno(err, "device node %s", path);
	if (!S_ISCHR(st.st_mode))
		return rf_fail(err, RF_SYSTEM, "%s is not a device node", path);
	/* rw, not rwm: a container makes no device nodes. */
	rf_json_push(a, nodes,
		     rf_json_make(a,
				  "{'path':%s,'type':'c','major':%D,'minor':%D,'permissions':'rw'}",
				  path, (int64_t)major(st.st_rdev), (int64_t)minor(st.st_rdev)));
	return 0;
}

/* Several slices may be of one card. */
static bool is_again(const int *minors, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (minors[k] == minors[i])
			return true;
	return false;
}

static int push_nodes(struct rf_arena *a, struct rf_json *nodes, const int *minors, size_t n,
		      struct rf_err *err)
{
	static const char *const control[] = { "/dev/nvidiactl", "/dev/nvidia-uvm",
					       "/dev/nvidia-uvm-tools" };

	for (size_t i = 0; i < n; i++)
		if (!is_again(minors, i) &&
		    push_node(a, nodes, rf_fs_path(a, "/dev/nvidia%d", minors[i]), err) < 0)
			return -err->code;
	for (size_t i = 0; i < RF_COUNT(control); i++)
		/* Only the tools' node may be missing. */
		if ((i < 2 || rf_fs_exists(control[i])) && push_node(a, nodes, control[i], err) < 0)
			return -err->code;
	return 0;
}

static bool is_driver_lib(struct rf_str name)
{
	for (size_t i = 0; i < RF_COUNT(driver_libs); i++)
		if (rf_str_starts(name, rf_str(driver_libs[i])))
			return true;
	return false;
}

/* libcuda.so.1 is a link to libcuda.so.580.x: each name is mounted, as the file behind it. */
static int push_driver(struct rf_arena *a, const struct rf_plugin *p, struct rf_json *mounts,
		       struct rf_err *err)
{
	const char *dir = p->opts->driver_lib_dir,
		   *host = p->opts->driver_host_dir ? p->opts->driver_host_dir : dir;
	struct rf_str *names;
	size_t n;
	bool cuda = false;

	if (dir == NULL)
		return rf_fail(
			err, RF_INVALID,
			"where the driver's libraries are is not known; start the agent with "
			"--driver");
	if (rf_fs_list(a, dir, &names, &n, err) < 0)
		return rf_wrap(err, "the driver's libraries");
	for (size_t i = 0; i < n; i++) {
		char real[PATH_MAX];
		const char *file;

		if (!is_driver_lib(names[i]) ||
		    realpath(rf_fs_path(a, "%s/%.*s", dir, RF_STR(names[i])), real) == NULL)
			continue;
		file = strrchr(real, '/');
		push_mount(a, mounts, rf_arena_printf(a, "%s%s", host, file),
			   rf_arena_printf(a, "/ringfence/lib/%.*s", RF_STR(names[i])), true);
		cuda = cuda || rf_str_is(names[i], "libcuda.so.1");
	}
	if (!cuda)
		return rf_fail(err, RF_UNAVAILABLE,
			       "%s has no libcuda.so.1; is --driver the folder with the driver's "
			       "libraries?",
			       dir);
	return 0;
}

static void push_simulated(struct rf_arena *a, const struct rf_plugin *p, struct rf_json *mounts,
			   const int *minors, size_t n)
{
	static const char *const libs[] = { "libcuda.so.1", "libnvidia-ml.so.1" };

	for (size_t i = 0; i < RF_COUNT(libs); i++)
		push_mount(a, mounts, rf_arena_printf(a, "%s/lib/sim/%s", p->data_dir, libs[i]),
			   rf_arena_printf(a, "/ringfence/lib/%s", libs[i]), true);
	push_mount(a, mounts, rf_arena_printf(a, "%s/machine", p->opts->sim_dir),
		   RF_LIT("/ringfence/dev/machine"), true);
	for (size_t i = 0; i < n; i++)
		if (!is_again(minors, i))
			push_mount(a, mounts,
				   rf_arena_printf(a, "%s/nvidia%d", p->opts->sim_dir, minors[i]),
				   rf_arena_printf(a, "/ringfence/dev/nvidia%d", minors[i]), false);
}

/* The nodes of its instances; those of other slices, and the ones to change or watch them all, stay outside. The
 * numbers are given, as the nodes need not be there: the driver makes them when somebody asks its tools. */
static int push_caps(struct rf_arena *a, struct rf_json *nodes, const struct rf_slice *s, int minor,
		     struct rf_err *err)
{
	struct rf_gpu_cap caps[RF_GPU_SLICE_CAPS];

	if (rf_slices_caps(s, minor, caps, err) < 0)
		return -err->code;
	for (size_t k = 0; k < RF_GPU_SLICE_CAPS; k++)
		rf_json_push(a, nodes,
			     rf_json_make(a, "{'path':%s,'type':'c','major':%D,'minor':%D,'permissions':'rw'}",
					  caps[k].path, caps[k].major, caps[k].minor));
	return 0;
}

static int push_slices(struct rf_arena *a, const struct rf_plugin *p, const struct rf_held *h,
		       const struct rf_held_box *box, const int *minors, struct rf_json *nodes, struct rf_json *mounts,
		       struct rf_json *env, struct rf_err *err)
{
	const struct rf_slice *slices[RF_GRANT_CARDS_MAX];
	const char *caps = rf_fs_path(a, "%s/%s/caps", h->dir, box->name);
	size_t n = box->grant.n;

	for (size_t i = 0; i < n; i++) {
		slices[i] = rf_held_slice(h, box, i);
		if (slices[i] == NULL)
			return rf_fail(err, RF_INTERNAL, "container %s: slice %zu was not made", box->name, i);
		if (p->opts->sim_dir == NULL && push_caps(a, nodes, slices[i], minors[i], err) < 0)
			return -err->code;
	}
	rf_json_push(a, env, rf_json_string(a, rf_arena_printf(a, "CUDA_VISIBLE_DEVICES=%.*s",
							       RF_STR(rf_slices_visible(a, slices, n)))));
	if (p->opts->sim_dir == NULL)
		return 0;
	if (rf_fs_write(caps, rf_slices_sim_caps(a, slices, minors, n), 0644, false, err) < 0)
		return -err->code;
	push_mount(a, mounts, rf_str(caps), RF_LIT("/ringfence/dev/caps"), true);
	return 0;
}

static int find_minors(const struct rf_plugin *p, const struct rf_grant *g, int *minors,
		       struct rf_err *err)
{
	size_t position;

	for (size_t i = 0; i < g->n; i++) {
		if (!rf_card_ok(&p->cards, g->cards[i].index, &position, err))
			return -err->code;
		minors[i] = rf_gpu_card(p->cards.gpu, position)->minor;
	}
	return 0;
}

int rf_cdi_edits(struct rf_arena *a, const struct rf_plugin *p, const struct rf_held *h,
		 const struct rf_held_box *box, struct rf_json **ret, struct rf_err *err)
{
	struct rf_json *nodes = rf_json_array(a), *mounts = rf_json_array(a), *edits;
	struct rf_json *env = rf_json_make(a, "['LD_PRELOAD=/ringfence/lib/libringfence.so',"
					      "'LD_LIBRARY_PATH=/ringfence/lib',"
					      "'NVIDIA_VISIBLE_DEVICES=void']");
	int minors[RF_GRANT_CARDS_MAX];

	if (find_minors(p, &box->grant, minors, err) < 0)
		return -err->code;
	push_mount(a, mounts, rf_arena_printf(a, "%s/lib/libringfence.so", p->data_dir),
		   RF_LIT("/ringfence/lib/libringfence.so"), true);
	push_mount(a, mounts, rf_arena_printf(a, "%s/lib/gpu-demo", p->data_dir),
		   RF_LIT("/ringfence/bin/gpu-demo"), true);
	push_mount(a, mounts, rf_arena_printf(a, "%s/%s/run", h->dir, box->name),
		   RF_LIT("/ringfence/run"), true);
	if (p->opts->sim_dir != NULL) {
		push_simulated(a, p, mounts, minors, box->grant.n);
		rf_json_push(a, env, rf_json_string(a, RF_LIT("RINGFENCE_SIM=/ringfence/dev")));
	} else if (push_nodes(a, nodes, minors, box->grant.n, err) < 0 ||
		   push_driver(a, p, mounts, err) < 0) {
		return -err->code;
	}
	if (rf_held_by_mps(h, box)) {
		push_mount(a, mounts, rf_str(rf_mps_client_dir(a, p->mps, box->grant.cards[0].index)),
			   RF_LIT(RF_MPS_MOUNT), true);
		rf_json_push(a, env, rf_json_string(a, RF_LIT("CUDA_MPS_PIPE_DIRECTORY=" RF_MPS_MOUNT)));
	}
	if (box->grant.sliced && push_slices(a, p, h, box, minors, nodes, mounts, env, err) < 0)
		return -err->code;
	edits = rf_json_make(a, "{'env':%j,'mounts':%j}", env, mounts);
	if (rf_json_len(nodes) > 0)
		rf_json_set(a, edits, RF_LIT("deviceNodes"), nodes);
	*ret = edits;
	return 0;
}

/* --- files ------------------------------------------------------------------------------------ */

static const char *spec_path(struct rf_arena *a, const struct rf_plugin *p, struct rf_str id)
{
	return rf_fs_path(a, "%s/ringfence.io-%.*s.json", p->opts->cdi_dir, RF_STR(id));
}

int rf_cdi_write(const struct rf_plugin *p, struct rf_str id, const struct rf_json *edits,
		 struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_str old;

	rf_json_write(&text, rf_json_make(&a,
					  "{'cdiVersion':'0.6.0','kind':'" RF_CDI_KIND
					  "','devices':[{'name':%S,'containerEdits':%j}]}",
					  id, edits));
	if (rf_fs_read(&a, spec_path(&a, p, id), 1 << 20, &old, NULL) == 0 &&
	    rf_str_eq(old, rf_buf_str(&text)))
		return 0;
	if (rf_fs_mkdirs(p->opts->cdi_dir, 0755, err) < 0 ||
	    rf_fs_write(spec_path(&a, p, id), rf_buf_str(&text), 0644, false, err) < 0)
		return rf_wrap(err, "CDI spec");
	return 0;
}

void rf_cdi_remove(const struct rf_plugin *p, struct rf_str id)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;

	if (rf_fs_remove_tree(spec_path(&a, p, id), &err) < 0)
		rf_warn("CDI spec: %s", err.msg);
}

bool rf_cdi_is_there(const struct rf_plugin *p, struct rf_str id)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return rf_fs_exists(spec_path(&a, p, id));
}

struct rf_str rf_cdi_id(struct rf_arena *a, const struct rf_held *h, const struct rf_held_box *box)
{
	return rf_arena_printf(a, "%s-%s", h->uid, box->name);
}

static bool is_used(struct rf_plugin *p, struct rf_arena *a, struct rf_str id)
{
	for (size_t i = 0; i < p->promises.n; i++)
		if (rf_str_eq(p->promises.at[i]->cdi, id))
			return p->promises.at[i]->claim[0] != '\0';
	for (struct rf_map_slot *s = NULL; (s = rf_map_next(&p->held, s)) != NULL;) {
		const struct rf_held *h = s->value;

		for (size_t i = 0; i < h->n_boxes; i++)
			if (rf_str_eq(rf_cdi_id(a, h, &h->boxes[i]), id))
				return true;
	}
	return false;
}

void rf_cdi_tidy(struct rf_plugin *p)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_str before = RF_LIT("ringfence.io-"), behind = RF_LIT(".json");
	struct rf_str *names;
	size_t n;

	if (rf_fs_list(&a, p->opts->cdi_dir, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct rf_str id = rf_str_skip(names[i], before.n);

		if (!rf_str_starts(names[i], before) || !rf_str_ends(id, behind))
			continue;
		id.n -= behind.n;
		if (is_used(p, &a, id))
			continue;
		rf_cdi_remove(p, id);
		rf_info("CDI device %.*s is nobody's any more; removed", RF_STR(id));
	}
}

/* A new file takes the old one's name: containers that have the old one mounted keep it. */
static int install(struct rf_plugin *p, const char *from, const char *to, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *path = rf_fs_path(&a, "%s/lib/%s", p->data_dir, to);
	struct rf_str text, old;

	if (rf_fs_read(&a, from, LIBRARY_MAX, &text, err) < 0)
		return rf_wrap(err, "what containers are given");
	if (rf_fs_read(&a, path, LIBRARY_MAX, &old, NULL) == 0 && rf_str_eq(text, old))
		return 0;
	return rf_fs_write(path, text, 0755, true, err);
}

static const char *tool(struct rf_arena *a, const struct rf_plugin *p, const char *name)
{
	const char *beside = rf_fs_path(a, "%s/%s", p->opts->tools_dir, name);

	return rf_fs_exists(beside)
		       ? beside
		       : rf_fs_path(a, "%s/../lib/ringfence/%s", p->opts->tools_dir, name);
}

int rf_cdi_install(struct rf_plugin *p, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *sim = p->opts->driver_lib_dir;

	/* World-readable on purpose: the processes of containers load them. */
	if (rf_fs_mkdirs(rf_fs_path(&a, "%s/lib/sim", p->data_dir), 0755, err) < 0 ||
	    install(p, tool(&a, p, "libringfence.so"), "libringfence.so", err) < 0 ||
	    install(p, tool(&a, p, "gpu-demo"), "gpu-demo", err) < 0)
		return -err->code;
	if (p->opts->sim_dir == NULL)
		return 0;
	if (install(p, rf_fs_path(&a, "%s/libcuda.so.1", sim), "sim/libcuda.so.1", err) < 0 ||
	    install(p, rf_fs_path(&a, "%s/libnvidia-ml.so.1", sim), "sim/libnvidia-ml.so.1", err) <
		    0)
		return -err->code;
	return 0;
}
