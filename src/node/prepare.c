/* Before a pod may start: its claim, its fence, its volumes; and per container, its bundle. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/fs.h"
#include "node/agent.h"
#include "node/cgroup.h"
#include "node/hold.h"
#include "node/image.h"
#include "node/oci.h"
#include "node/podenv.h"
#include "node/sharing.h"
#include "node/volume.h"
#include "tenant/tenant.h"

#define PSA_ENFORCE "pod-security.kubernetes.io/enforce"

/* --- the namespace --------------------------------------------------------------------------- */

static void read_namespace(struct rf_worker *w)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *ns;
	struct rf_err err = RF_ERR_INIT;

	w->may_be_root = false; /* unless the namespace says so */
	if (rf_kube_get(w->agent->kube, &a,
			rf_kube_path(&a, &RF_NAMESPACES, RF_STR_EMPTY, rf_str(w->ns), NULL), &ns,
			&err) < 0)
		return;
	w->may_be_root = rf_str_is(rf_kube_label(ns, PSA_ENFORCE), "privileged");
	snprintf(w->tenant, sizeof(w->tenant), "%.*s", RF_STR(rf_kube_label(ns, RF_TENANT_LABEL)));
}

/* --- the claim ------------------------------------------------------------------------------- */

static struct rf_str claim_path(struct rf_arena *a, const struct rf_worker *w)
{
	return rf_kube_path(a, &RF_RESOURCECLAIMS, rf_str(w->ns), rf_pod_claim_name(a, w->pod),
			    NULL);
}

static int check_cards(struct rf_worker *w, const struct rf_grant *grant, struct rf_err *err)
{
	for (size_t i = 0; i < grant->n; i++) {
		size_t position, strangers;

		if (!rf_card_ok(&w->agent->cards, grant->cards[i].index, &position, err) ||
		    rf_card_check_mode(&w->agent->cards, position, grant->sliced, err) < 0 ||
		    rf_card_check_measured(&w->agent->cards, grant->cards[i].index, err) < 0)
			return -err->code;
		if (!grant->whole)
			continue;
		if (rf_agent_strangers(w->agent, position, rf_str(w->uid), false, &strangers, err) <
		    0)
			return -err->code;
		if (strangers > 0)
			return rf_fail(err, RF_UNAVAILABLE,
				       "card gpu-%d: %zu processes of others are still on it",
				       grant->cards[i].index, strangers);
	}
	return 0;
}

static int take_grants(struct rf_worker *w, const struct rf_json *claim, struct rf_err *err)
{
	for (size_t i = 0; i < w->n_containers; i++) {
		struct rf_container *c = &w->containers[i];

		if (c->init)
			continue;
		if (rf_claim_grant(claim, rf_container_spec(c), &c->grant, err) < 0 ||
		    check_cards(w, &c->grant, err) < 0)
			return -err->code;
	}
	return 0;
}

/* Nobody can be on what was not there before: that makes looking for others needless. */
static int make_slices(struct rf_worker *w, const struct rf_container *c, struct rf_err *err)
{
	const struct rf_slice *made;
	size_t position;

	for (size_t i = 0; c->grant.sliced && i < c->grant.n; i++) {
		struct rf_slice_for of = { rf_str(w->uid), rf_str(c->name), i };

		if (!rf_card_ok(&w->agent->cards, c->grant.cards[i].index, &position, err) ||
		    rf_slices_make(&w->agent->cards, &of, position, c->grant.cards[i].profile,
				   c->grant.cards[i].start, &made, err) < 0)
			return rf_wrap(err, "container %s", c->name);
	}
	return 0;
}

/* --- MPS ------------------------------------------------------------------------------------- */

static int get_any(void *ctx, struct rf_arena *a, struct rf_str path, struct rf_json **ret, struct rf_err *err)
{
	struct rf_agent *g = ctx;

	return rf_kube_get(g->kube, a, path, ret, err);
}

int rf_agent_read_sharing(struct rf_agent *g, bool *ret_mps, struct rf_err *err)
{
	struct rf_sharing_source source = { get_any, g };

	return rf_sharing_of_node(&source, g->name, ret_mps, err);
}

static bool is_share(const struct rf_container *c)
{
	return c->grant.n > 0 && !c->grant.whole && !c->grant.sliced;
}

/* What runs keeps what it has, whatever became of its pool; an agent that takes it over finds it written down. */
static bool is_settled(const struct rf_worker *w, bool *ret_mps)
{
	bool started = false;

	*ret_mps = true;
	for (size_t i = 0; i < w->n_containers; i++) {
		const struct rf_container *c = &w->containers[i];

		if (!is_share(c))
			continue;
		started = started || c->started;
		*ret_mps = *ret_mps && rf_mps_has(w->agent->mps, c->grant.cards[0].index, rf_str(w->uid));
	}
	return started || *ret_mps;
}

static int join_mps(struct rf_container *c, struct rf_str domain, struct rf_err *err)
{
	struct rf_agent *g = c->worker->agent;
	size_t position;

	if (c->grant.n != 1)
		return rf_fail(err, RF_UNSUPPORTED, "container %s: MPS shares one card, not %zu", c->name, c->grant.n);
	if (!rf_card_ok(&g->cards, c->grant.cards[0].index, &position, err) ||
	    rf_mps_join(g->mps, rf_gpu_card(g->cards.gpu, position), domain, rf_str(c->worker->uid), err) < 0)
		return rf_wrap(err, "container %s", c->name);
	c->mps = true;
	return 0;
}

static int prepare_mps(struct rf_worker *w, struct rf_err *err)
{
	struct rf_sharing_source source = { get_any, w->agent };
	struct rf_sharing sharing = { .mps = false };
	bool any = false;

	for (size_t i = 0; i < w->n_containers; i++)
		any = any || is_share(&w->containers[i]);
	if (!any)
		return 0;
	if (!is_settled(w, &sharing.mps) &&
	    rf_sharing_of_tenant(&source, w->agent->name, rf_str(w->tenant), &sharing, err) < 0)
		return -err->code;
	for (size_t i = 0; sharing.mps && i < w->n_containers; i++)
		if (is_share(&w->containers[i]) && join_mps(&w->containers[i], rf_str(sharing.domain), err) < 0)
			return -err->code;
	return 0;
}

static int prepare_claim(struct rf_worker *w, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *claim;

	if (rf_kube_get(w->agent->kube, &a, claim_path(&a, w), &claim, err) < 0 ||
	    rf_claim_check(claim, w->pod, w->agent->name, err) < 0)
		return -err->code;
	if (w->tenant[0] == '\0')
		snprintf(w->tenant, sizeof(w->tenant), "%.*s",
			 RF_STR(rf_kube_annotation(claim, RF_TENANT_LABEL)));
	if (rf_claim_hold(w->agent->kube, claim, err) < 0 || take_grants(w, claim, err) < 0 || prepare_mps(w, err) < 0)
		return -err->code;
	for (size_t i = 0; i < w->n_containers; i++)
		if (make_slices(w, &w->containers[i], err) < 0 || rf_container_fence(&w->containers[i], err) < 0)
			return -err->code;
	return 0;
}

int rf_worker_drop_claim(struct rf_worker *w, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return rf_claim_let_go(w->agent->kube, rf_str(w->ns), rf_pod_claim_name(&a, w->pod),
			       RF_STR_EMPTY, err);
}

/* --- ConfigMaps and Secrets ------------------------------------------------------------------ */

struct source {
	struct rf_worker *w;
	struct rf_arena arena;
};

static int get_object(void *ctx, bool secret, struct rf_str name, const struct rf_json **ret,
		      struct rf_err *err)
{
	struct source *s = ctx;
	struct rf_json *o;

	if (!rf_str_is_dns_subdomain(name))
		return rf_fail(err, RF_INVALID, "\"%.*s\" is not a name", (int)RF_MIN(name.n, 253),
			       name.p);
	if (rf_kube_get(s->w->agent->kube, &s->arena,
			rf_kube_path(&s->arena, secret ? &RF_SECRETS : &RF_CONFIGMAPS,
				     rf_str(s->w->ns), name, NULL),
			&o, err) < 0)
		return -err->code;
	*ret = o;
	return 0;
}

/* --- a pod ----------------------------------------------------------------------------------- */

static int make_volumes(struct rf_worker *w, struct rf_err *err)
{
	struct source s = { .w = w, .arena = RF_ARENA_INIT };
	struct rf_podenv_source source = { get_object, &s };
	rf_auto(arena) a = RF_ARENA_INIT;
	int rc =
		rf_volumes_make(w->pod, rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, w->dir), &source, err);

	rf_arena_done(&s.arena);
	return rc;
}

static void warn_of_ignored(struct rf_worker *w)
{
	rf_auto(buf) what = RF_BUF_INIT;

	rf_oci_ignored(w->pod, &what);
	if (what.n > 0 && !w->warned)
		(void)rf_kube_event(w->agent->kube, w->pod, "Warning", "NotOffered",
				    "ringfence-node", "this node does not do: %.500s", what.p);
	w->warned = true;
}

/* What its containers may use together: volumes in memory outlive the container that filled them. */
static int bound_pod(struct rf_worker *w, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	int64_t memory;

	if (rf_oci_pod_memory(w->pod, rf_cgroup_default_memory(), &memory, err) < 0)
		return -err->code;
	rf_cgroup_bound(rf_cgroup_path(&a, w->agent->instance, rf_str(w->uid), RF_STR_EMPTY),
			memory, rf_cgroup_pids_per_pod());
	return 0;
}

static bool shares_namespaces(const struct rf_worker *w)
{
	return w->n_containers > 1;
}

static int make_namespaces(struct rf_worker *w, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	return rf_volumes_namespaces(rf_fs_path(&a, "%s/" RF_VOLUMES_DIR, w->dir), err);
}

int rf_worker_prepare(struct rf_worker *w, struct rf_err *err)
{
	struct rf_gpu_ask ask;

	if (rf_oci_check_pod(w->pod, err) < 0 || rf_gpu_ask_of_pod(w->pod, &ask, err) < 0)
		return -err->code;
	warn_of_ignored(w);
	read_namespace(w);
	w->needs_claim = rf_gpu_ask_any(&ask);
	if (w->needs_claim && prepare_claim(w, err) < 0)
		return -err->code;
	if (rf_fs_mkdirs(w->dir, 0700, err) < 0 || bound_pod(w, err) < 0 ||
	    make_volumes(w, err) < 0)
		return -err->code;
	return shares_namespaces(w) ? make_namespaces(w, err) : 0;
}

/* --- a container's bundle -------------------------------------------------------------------- */

static int find_device(struct rf_arena *a, const char *path, struct rf_oci_device *ret,
		       struct rf_err *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return rf_fail_errno(err, "device node %s", path);
	if (!S_ISCHR(st.st_mode))
		return rf_fail(err, RF_SYSTEM, "%s is not a device node", path);
	*ret = (struct rf_oci_device){ rf_arena_str(a, rf_str(path)), (int64_t)major(st.st_rdev),
				       (int64_t)minor(st.st_rdev) };
	return 0;
}

/* The nodes of its instances; those of other slices, and the ones to change or watch them all, stay outside. */
static int find_caps(struct rf_arena *a, const struct rf_container *c, const int *minors, struct rf_oci_device *d,
		     size_t *n, struct rf_err *err)
{
	for (size_t i = 0; c->grant.sliced && i < c->grant.n; i++) {
		struct rf_gpu_cap caps[RF_GPU_SLICE_CAPS];

		if (rf_slices_caps(rf_container_slice(c, i), minors[i], caps, err) < 0)
			return -err->code;
		for (size_t k = 0; k < RF_GPU_SLICE_CAPS; k++)
			d[(*n)++] = (struct rf_oci_device){ rf_arena_str(a, rf_str(caps[k].path)), caps[k].major,
							    caps[k].minor };
	}
	return 0;
}

/* Several slices may be of one card: its node is there once. */
static bool is_first(const int *minors, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (minors[k] == minors[i])
			return false;
	return true;
}

static int find_devices(struct rf_arena *a, const struct rf_container *c, const int *minors, struct rf_oci_gpu *gpu,
			struct rf_err *err)
{
	static const char *const control[] = { "/dev/nvidiactl", "/dev/nvidia-uvm",
					       "/dev/nvidia-uvm-tools" };
	size_t n = c->grant.n;
	struct rf_oci_device *d =
		rf_arena_array(a, struct rf_oci_device, n * (1 + RF_GPU_SLICE_CAPS) + RF_COUNT(control));

	for (size_t i = 0; i < n; i++)
		if (is_first(minors, i) &&
		    find_device(a, rf_fs_path(a, "/dev/nvidia%d", minors[i]), &d[gpu->n_devices++],
				err) < 0)
			return -err->code;
	if (find_caps(a, c, minors, d, &gpu->n_devices, err) < 0)
		return -err->code;
	for (size_t i = 0; i < RF_COUNT(control); i++) {
		/* Only the tools' node may be missing. */
		if (!rf_fs_exists(control[i]) && i == 2)
			continue;
		if (find_device(a, control[i], &d[gpu->n_devices++], err) < 0)
			return -err->code;
	}
	gpu->devices = d;
	return 0;
}

/* What a container with slices is told of them. */
static int make_slices_known(struct rf_arena *a, const struct rf_container *c, const int *minors, struct rf_oci_gpu *gpu,
			     struct rf_err *err)
{
	const struct rf_slice *slices[RF_GRANT_CARDS_MAX];

	for (size_t i = 0; i < c->grant.n; i++)
		slices[i] = rf_container_slice(c, i);
	gpu->visible = rf_slices_visible(a, slices, c->grant.n);
	if (gpu->sim_dir == NULL)
		return 0;
	gpu->sim_caps = rf_fs_path(a, "%s/caps", c->dir);
	return rf_fs_write(gpu->sim_caps, rf_slices_sim_caps(a, slices, minors, c->grant.n), 0644, false, err);
}

static int make_gpu(struct rf_arena *a, struct rf_container *c, struct rf_oci_gpu *gpu,
		    struct rf_err *err)
{
	struct rf_agent *g = c->worker->agent;
	int *minors = rf_arena_array(a, int, c->grant.n + 1);
	size_t position;

	if (c->fence == NULL)
		return rf_fail(err, RF_INTERNAL, "container %s: no fence was set up", c->name);
	for (size_t i = 0; i < c->grant.n; i++) {
		if (!rf_card_ok(&g->cards, c->grant.cards[i].index, &position, err))
			return -err->code;
		if (c->grant.sliced && rf_container_slice(c, i) == NULL)
			return rf_fail(err, RF_INTERNAL, "container %s: slice %zu was not made", c->name, i);
		minors[i] = rf_gpu_card(g->cards.gpu, position)->minor;
	}
	*gpu = (struct rf_oci_gpu){ .run_dir = rf_fs_path(a, "%s/run", c->dir),
				    .fence_lib = g->fence_lib,
				    .driver_lib_dir = g->opts->driver_lib_dir,
				    .sim_dir = g->opts->sim_dir,
				    .minors = minors,
				    .n_minors = c->grant.n };
	if (c->grant.sliced && make_slices_known(a, c, minors, gpu, err) < 0)
		return -err->code;
	if (c->mps) { /* its daemon may have died since */
		if (join_mps(c, RF_STR_EMPTY, err) < 0)
			return -err->code;
		gpu->mps_dir = rf_mps_client_dir(a, g->mps, c->grant.cards[0].index);
	}
	return g->opts->sim_dir != NULL ? 0 : find_devices(a, c, minors, gpu, err);
}

/* The one tool that pods are given. */
static const char *find_demo(struct rf_arena *a, const struct rf_agent *g)
{
	const char *path =
		rf_fs_path(a, "%s/gpu-demo", g->opts->tools_dir ? g->opts->tools_dir : "");

	return g->opts->tools_dir != NULL && rf_fs_exists(path) ? path : NULL;
}

/* From the files, not by way of NSS: that may ask the network, and the agent does not wait for it. */
static bool is_account(int64_t id, bool group)
{
	FILE *f = fopen(group ? "/etc/group" : "/etc/passwd", "re");
	const struct passwd *p;
	const struct group *g;
	bool found = false;

	if (f == NULL)
		return false;
	while (group && !found && (g = fgetgrent(f)) != NULL)
		found = g->gr_gid == (gid_t)id;
	while (!group && !found && (p = fgetpwent(f)) != NULL)
		found = p->pw_uid == (uid_t)id;
	fclose(f);
	return found;
}

static int write_config(struct rf_arena *a, struct rf_container *c, const struct rf_oci_ask *ask,
			struct rf_err *err)
{
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *config;

	if (rf_oci_config(a, ask, &config, err) < 0)
		return -err->code;
	rf_json_write(&text, config);
	return rf_fs_write(rf_fs_path(a, "%s/config.json", c->dir), rf_buf_str(&text), 0600, false,
			   err);
}

static int make_bundle(struct rf_arena *a, struct rf_container *c, struct source *s,
		       struct rf_err *err)
{
	struct rf_worker *w = c->worker;
	const struct rf_json *spec = rf_container_spec(c);
	struct rf_podenv_source source = { get_object, s };
	const char *volumes_dir = rf_fs_path(a, "%s/" RF_VOLUMES_DIR, w->dir);
	struct rf_str hidden[] = { rf_str(w->agent->data_dir), rf_str(w->agent->opts->pki_dir),
				   rf_str(w->agent->opts->sim_dir) };
	struct rf_oci_ask ask = { .pod = w->pod,
				  .container = spec,
				  .may_be_root = w->may_be_root,
				  .is_account = is_account,
				  .rootfs = rf_arena_printf(a, "%s/rootfs", c->dir),
				  .cgroup = rf_container_cgroup(a, c),
				  .hidden = hidden,
				  .n_hidden = w->agent->opts->sim_dir ? 3 : 2,
				  .files_max = w->agent->files_max,
				  .volumes_dir = shares_namespaces(w) ? volumes_dir : NULL,
				  .demo = find_demo(a, w->agent),
				  .memory_default = rf_cgroup_default_memory(),
				  .pids_max = rf_cgroup_pids_per_pod() };
	struct rf_oci_mount *volumes;
	struct rf_json *env;
	struct rf_image image;
	struct rf_oci_gpu gpu;

	if (rf_image_find(a, w->agent->opts->images_dir, rf_json_str_at(spec, "image"), &image,
			  err) < 0 ||
	    rf_image_make_root(ask.rootfs.p, &image, err) < 0 ||
	    rf_podenv_resolve(a, w->pod, spec, &source, &env, err) < 0 ||
	    rf_volumes_of(a, w->pod, spec, volumes_dir, &volumes, &ask.n_volumes, err) < 0)
		return -err->code;
	if (c->grant.n > 0 && make_gpu(a, c, &gpu, err) < 0)
		return -err->code;
	ask.host_image = image.host;
	ask.image = image.config;
	ask.tops = image.tops;
	ask.n_tops = image.n_tops;
	ask.env = env;
	ask.volumes = volumes;
	ask.gpu = c->grant.n > 0 ? &gpu : NULL;
	return write_config(a, c, &ask, err);
}

int rf_container_bundle(struct rf_container *c, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct source s = { .w = c->worker, .arena = RF_ARENA_INIT };
	int rc = make_bundle(&a, c, &s, err);

	rf_arena_done(&s.arena);
	return rc;
}
