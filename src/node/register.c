/* The Node object and its heartbeat. */
#include <stdio.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include "base/fs.h"
#include "node/agent.h"
#include "tenant/tenant.h"

#define NODE_STATUS_EVERY_MS (60 * 1000)
#define PODS_MAX 256

/* Creates it, or replaces spec and status's siblings of what is there. The pool's generation
 * rises with every change, as readers of slices expect. */
int rf_agent_apply(struct rf_agent *g, const struct rf_kube_res *res, struct rf_str ns,
		   struct rf_json *object, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = rf_kube_path(&a, res, ns, rf_kube_name(object), NULL);
	struct rf_json *have;
	int rc = rf_kube_get(g->kube, &a, path, &have, err);

	if (rc == -RF_NOT_FOUND)
		return rf_kube_create(g->kube, &a, rf_kube_path(&a, res, ns, RF_STR_EMPTY, NULL),
				      object, NULL, err);
	if (rc < 0)
		return rc;
	struct rf_json *spec = rf_json_clone(&a, rf_json_at(object, "spec"));
	struct rf_json *pool = rf_json_at(spec, "pool");
	int64_t generation = rf_json_int(rf_json_at(have, "spec", "pool", "generation"), 0);
	if (pool != NULL)
		rf_json_set_int(&a, pool, "generation", generation);
	if (rf_json_equal(spec, rf_json_at(have, "spec")))
		return 0;
	if (pool != NULL)
		rf_json_set_int(&a, pool, "generation", generation + 1);
	rf_json_set(&a, have, RF_LIT("spec"), spec);
	return rf_kube_update(g->kube, &a, path, have, NULL, err);
}

/* --- what the machine is --------------------------------------------------------------------- */

static struct rf_str first_line(struct rf_arena *a, const char *path)
{
	struct rf_str text = RF_STR_EMPTY, line;

	(void)rf_fs_read(a, path, 4096, &text, NULL);
	rf_str_cut(&text, '\n', &line);
	return rf_str_trim(line);
}

static struct rf_str os_image(struct rf_arena *a)
{
	struct rf_str text = RF_STR_EMPTY, line;

	(void)rf_fs_read(a, "/etc/os-release", 64 * 1024, &text, NULL);
	while (text.n > 0) {
		rf_str_cut(&text, '\n', &line);
		if (!rf_str_starts(line, RF_LIT("PRETTY_NAME=\"")) || line.n < 15)
			continue;
		return rf_str_n(line.p + 13, line.n - 14);
	}
	return RF_LIT("Linux");
}

static struct rf_json *node_info(struct rf_arena *a)
{
	struct utsname u;

	uname(&u);
	return rf_json_make(
		a,
		"{'machineID':%S,'systemUUID':%S,'bootID':%S,'kernelVersion':%s,'osImage':%S,"
		"'containerRuntimeVersion':'crun://1','kubeletVersion':%s,'kubeProxyVersion':'',"
		"'operatingSystem':'linux','architecture':%s}",
		first_line(a, "/etc/machine-id"), first_line(a, "/sys/class/dmi/id/product_uuid"),
		first_line(a, "/proc/sys/kernel/random/boot_id"), u.release, os_image(a),
		"v1.34.0-ringfence." RF_VERSION,
		strcmp(u.machine, "x86_64") == 0 ? "amd64" : "arm64");
}

static struct rf_json *capacity(struct rf_arena *a, const struct rf_agent *g, bool only_healthy)
{
	struct sysinfo s;
	size_t cards = rf_cards_usable(&g->cards, only_healthy);

	sysinfo(&s);
	int64_t memory = (int64_t)s.totalram * s.mem_unit;
	return rf_json_make(a, "{'cpu':%S,'memory':%S,'pods':%S,%s:%S}",
			    rf_arena_printf(a, "%ld", sysconf(_SC_NPROCESSORS_ONLN)),
			    rf_arena_printf(a, "%lldKi", (long long)memory / 1024),
			    rf_arena_printf(a, "%d", PODS_MAX), RF_RES_GPU,
			    rf_arena_printf(a, "%zu", cards));
}

/* Only where the node's pool wants it. A merge patch replaces the list, so it goes when the pool does not any more. */
static void add_mps(struct rf_arena *a, const struct rf_agent *g, struct rf_json *list, struct rf_str now)
{
	struct rf_err err = RF_ERR_INIT;
	bool can = rf_mps_check_program(g->mps, &err) == 0;

	if (g->mps_wanted)
		rf_json_push(a, list,
			     rf_json_make(a,
					  "{'type':'MPSReady','status':%s,'reason':%s,'message':%s,"
					  "'lastHeartbeatTime':%S,'lastTransitionTime':%S}",
					  can ? "True" : "False", can ? "DaemonFound" : "DaemonMissing", can ? "" : err.msg,
					  now, rf_time_format(a, g->mps_since_ms)));
}

static struct rf_json *conditions(struct rf_arena *a, const struct rf_agent *g, int64_t ready_since)
{
	struct rf_str now = rf_time_format(a, rf_agent_now()),
		      since = rf_time_format(a, ready_since);

	struct rf_json *list = rf_json_make(
		a,
		"[{'type':'Ready','status':'True','reason':'AgentReady','message':%S,"
		"'lastHeartbeatTime':%S,'lastTransitionTime':%S},"
		"{'type':'MemoryPressure','status':'False','reason':'NotMeasured','message':'',"
		"'lastHeartbeatTime':%S,'lastTransitionTime':%S},"
		"{'type':'DiskPressure','status':'False','reason':'NotMeasured','message':'',"
		"'lastHeartbeatTime':%S,'lastTransitionTime':%S}]",
		g->cards.gpu ? rf_arena_printf(a, "%zu cards", rf_gpu_count(g->cards.gpu))
		       : rf_arena_printf(a, "no cards: %s", g->cards.no_gpu),
		now, since, now, since, now, since);
	add_mps(a, g, list, now);
	return list;
}

static struct rf_json *labels(struct rf_arena *a, const struct rf_agent *g)
{
	struct utsname u;

	uname(&u);
	return rf_json_make(
		a,
		"{'kubernetes.io/hostname':%S,'kubernetes.io/os':'linux','kubernetes.io/arch':%s,"
		"'ringfence.io/gpus':%S,'ringfence.io/simulated':%s}",
		g->name, strcmp(u.machine, "x86_64") == 0 ? "amd64" : "arm64",
		rf_arena_printf(a, "%zu", rf_gpu_count(g->cards.gpu)),
		g->opts->sim_dir ? "true" : "false");
}

/* --- telling --------------------------------------------------------------------------------- */

static int send_status(struct rf_agent *g, struct rf_err *err)
{
	static int64_t ready_since;
	rf_auto(arena) a = RF_ARENA_INIT;

	ready_since = ready_since ? ready_since : rf_agent_now();
	struct rf_json *status = rf_json_make(
		&a,
		"{'capacity':%j,'allocatable':%j,'conditions':%j,'nodeInfo':%j,"
		"'addresses':[{'type':'InternalIP','address':%s},{'type':'Hostname','address':%S}],"
		"'daemonEndpoints':{'kubeletEndpoint':{'Port':%d}}}",
		capacity(&a, g, false), capacity(&a, g, true), conditions(&a, g, ready_since),
		node_info(&a), g->opts->listen_address, g->name,
		(int)rf_http_server_port(g->server));
	if (rf_kube_patch(g->kube, &a, rf_kube_path(&a, &RF_NODES, RF_STR_EMPTY, g->name, "status"),
			  RF_PATCH_MERGE, rf_json_make(&a, "{'status':%j}", status), NULL, err) < 0)
		return rf_wrap(err, "node status");
	g->node_told_ms = rf_agent_now();
	return 0;
}

static int renew_lease(struct rf_agent *g, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str ns = RF_LIT("kube-node-lease");
	struct rf_json *spec =
		rf_json_make(&a, "{'holderIdentity':%S,'leaseDurationSeconds':40,'renewTime':%S}",
			     g->name, rf_time_format_micro(&a, rf_agent_now()));
	int rc = rf_kube_patch(g->kube, &a, rf_kube_path(&a, &RF_LEASES, ns, g->name, NULL),
			       RF_PATCH_MERGE, rf_json_make(&a, "{'spec':%j}", spec), NULL, err);

	if (rc != -RF_NOT_FOUND)
		return rc;
	return rf_kube_create(g->kube, &a, rf_kube_path(&a, &RF_LEASES, ns, RF_STR_EMPTY, NULL),
			      rf_json_make(&a,
					   "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease',"
					   "'metadata':{'name':%S,'namespace':%S},'spec':%j}",
					   g->name, ns, spec),
			      NULL, err);
}

int rf_agent_register(struct rf_agent *g, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str path = rf_kube_path(&a, &RF_NODES, RF_STR_EMPTY, g->name, NULL);
	struct rf_json *meta =
		rf_json_make(&a, "{'metadata':{'name':%S,'labels':%j}}", g->name, labels(&a, g));
	int rc = rf_kube_patch(g->kube, &a, path, RF_PATCH_MERGE, meta, NULL, err);

	if (rc == -RF_NOT_FOUND) {
		rf_json_set_str(&a, meta, "apiVersion", RF_LIT("v1"));
		rf_json_set_str(&a, meta, "kind", RF_LIT("Node"));
		rc = rf_kube_create(g->kube, &a,
				    rf_kube_path(&a, &RF_NODES, RF_STR_EMPTY, RF_STR_EMPTY, NULL),
				    meta, NULL, err);
	}
	if (rc < 0)
		return rf_wrap(err, "register node %.*s", RF_STR(g->name));
	if (send_status(g, err) < 0 || renew_lease(g, err) < 0)
		return -err->code;
	g->node_registered = true;
	return 0;
}

/* A change of the pool, or of what is installed, is told with the next status. */
static void look_at_pool(struct rf_agent *g)
{
	struct rf_err err = RF_ERR_INIT, unread = RF_ERR_INIT;
	bool wanted = g->mps_wanted, can = rf_mps_check_program(g->mps, &err) == 0;
	bool failed = rf_agent_read_sharing(g, &wanted, &unread) < 0;

	if (failed && !g->mps_unread)
		rf_warn("how this node's pool shares is not known: %s; what was known stays", unread.msg);
	g->mps_unread = failed;
	if (wanted == g->mps_wanted && can == g->mps_can)
		return;
	if (wanted && !can)
		rf_warn("%s", err.msg);
	g->mps_wanted = wanted;
	g->mps_can = can;
	g->mps_since_ms = rf_agent_now();
	g->node_told_ms = 0;
}

void rf_agent_heartbeat(struct rf_agent *g)
{
	struct rf_err err = RF_ERR_INIT;
	int rc;

	if (!g->node_registered)
		return;
	rc = renew_lease(g, &err);
	if (rc == 0) /* first of all the node is alive; an API server that does not answer is not asked more */
		look_at_pool(g);
	if (rc == 0 && rf_agent_now() - g->node_told_ms >= NODE_STATUS_EVERY_MS)
		rc = send_status(g, &err);
	if (rc == -RF_NOT_FOUND) /* somebody deleted the Node */
		rc = rf_agent_register(g, &err);
	if (rc < 0)
		rf_warn("heartbeat: %s", err.msg);
}

/* --- the cards ------------------------------------------------------------------------------- */

int rf_agent_publish(struct rf_agent *g, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_json *slice = rf_cards_slice(&a, &g->cards, g->name);

	if (g->slice_sent.n == 0 && !rf_cards_measured(&g->cards))
		return 0; /* what is offered is used at once */
	rf_json_write(&text, slice);
	if (rf_str_eq(rf_buf_str(&text), rf_buf_str(&g->slice_sent)))
		return 0;
	if (rf_agent_apply(g, &RF_RESOURCESLICES, RF_STR_EMPTY, slice, err) < 0)
		return rf_wrap(err, "publish the cards");
	rf_buf_clear(&g->slice_sent);
	rf_buf_add(&g->slice_sent, rf_buf_str(&text));
	g->node_told_ms = 0; /* the Node's own numbers follow with the next heartbeat */
	return 0;
}
