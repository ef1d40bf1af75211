/* The process of a container: user, arguments, environment. */
#include "node/oci.h"
#include "node/oci_private.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define ARGS_MAX 4096
#define OOM_SCORE 900 /* when the machine's memory runs out, pods go before its services */
/* Too small for any file, and the one value at which the kernel does not run the machine's core_pattern
 * program either (0 does not stop that). seccomp.c keeps it from being changed. */
#define RF_NO_CORE 1

static int64_t security_int(const struct rf_oci_ask *ask, const char *field, int64_t otherwise)
{
	const struct rf_json *own = rf_json_at(ask->container, "securityContext", field);

	if (own == NULL)
		own = rf_json_at(ask->pod, "spec", "securityContext", field);
	return rf_json_int(own, otherwise);
}

static bool is_machines(const struct rf_oci_ask *ask, int64_t id, bool group)
{
	return ask->host_image && ask->is_account != NULL && id != RF_NOBODY &&
	       ask->is_account(id, group);
}

/* On the host image the machine's own groups own files a tenant must not read (shadow, disk,
 * ...). */
static int check_group(const struct rf_oci_ask *ask, int64_t gid, struct rf_err *err)
{
	if (gid < 0 || gid > UINT32_MAX - 1)
		return rf_fail(err, RF_INVALID, "group %lld is not a group id", (long long)gid);
	if (gid < RF_SYSTEM_IDS && (ask->host_image || (gid == 0 && !ask->may_be_root)))
		return rf_fail(
			err, RF_FORBIDDEN,
			"group %lld belongs to the machine; use a group of %d or above, or none",
			(long long)gid, RF_SYSTEM_IDS);
	if (is_machines(ask, gid, true))
		return rf_fail(err, RF_FORBIDDEN,
			       "group %lld is a group of this machine; with image \"host\" use one "
			       "that /etc/group does not have, or none",
			       (long long)gid);
	return 0;
}

int rf_oci_user(const struct rf_oci_ask *ask, int64_t *ret_uid, int64_t *ret_gid,
		struct rf_err *err)
{
	int64_t uid = security_int(ask, "runAsUser", RF_NOBODY);
	int64_t gid = security_int(ask, "runAsGroup", RF_NOBODY);

	if (uid < 0 || uid > UINT32_MAX - 1)
		return rf_fail(err, RF_INVALID, "runAsUser %lld is not a user id", (long long)uid);
	if (uid == 0 && !(ask->may_be_root && !ask->host_image))
		return rf_fail(err, RF_FORBIDDEN,
			       "runAsUser 0: containers do not run as root here; leave runAsUser "
			       "out or set "
			       "%d or above",
			       RF_SYSTEM_IDS);
	if (uid < RF_SYSTEM_IDS && ask->host_image)
		return rf_fail(err, RF_FORBIDDEN,
			       "runAsUser %lld is an account of the machine; with image \"host\" "
			       "use %d or above",
			       (long long)uid, RF_SYSTEM_IDS);
	if (is_machines(ask, uid, false))
		return rf_fail(
			err, RF_FORBIDDEN,
			"runAsUser %lld is an account of this machine; with image \"host\" use "
			"one that /etc/passwd does not have, or leave runAsUser out",
			(long long)uid);
	if (check_group(ask, gid, err) < 0)
		return rf_wrap(err, "runAsGroup");
	*ret_uid = uid;
	*ret_gid = gid;
	return 0;
}

static int add_groups(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json *user,
		      struct rf_err *err)
{
	const struct rf_json *sc = rf_json_at(ask->pod, "spec", "securityContext");
	const struct rf_json *extra = rf_json_at(sc, "supplementalGroups");
	struct rf_json *gids = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(extra); i++) {
		int64_t gid = rf_json_int(rf_json_item(extra, i), -1);

		if (check_group(ask, gid, err) < 0)
			return rf_wrap(err, "supplementalGroups");
		rf_json_push(a, gids, rf_json_number(a, gid));
	}
	if (rf_json_at(sc, "fsGroup") != NULL) {
		int64_t gid = rf_json_int(rf_json_at(sc, "fsGroup"), -1);

		if (check_group(ask, gid, err) < 0)
			return rf_wrap(err, "fsGroup");
		rf_json_push(a, gids, rf_json_number(a, gid));
	}
	rf_json_set(a, user, RF_LIT("additionalGids"), gids);
	return 0;
}

static void push_expanded(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json *args,
			  const struct rf_json *from)
{
	for (size_t i = 0; i < rf_json_len(from) && rf_json_len(args) < ARGS_MAX; i++)
		rf_json_push(a, args,
			     rf_json_string(a, rf_oci_expand(a, rf_json_str(rf_json_item(from, i)),
							     ask->env)));
}

/* command replaces the image's whole command line; args alone follow the image's first word. */
static int make_args(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		     struct rf_err *err)
{
	const struct rf_json *command = rf_json_at(ask->container, "command");
	const struct rf_json *args = rf_json_at(ask->container, "args");
	const struct rf_json *image = rf_json_at(ask->image, "process", "args");
	struct rf_json *out = rf_json_array(a);

	if (rf_json_len(command) > 0)
		push_expanded(a, ask, out, command);
	else if (rf_json_len(args) > 0 && rf_json_len(image) > 0)
		rf_json_push(a, out, rf_json_clone(a, rf_json_item(image, 0)));
	else
		push_expanded(a, ask, out, image);
	push_expanded(a, ask, out, args);
	if (rf_json_len(out) == 0 || rf_json_str(rf_json_item(out, 0)).n == 0)
		return rf_fail(err, RF_INVALID, "container %.*s: no command; set command",
			       RF_STR(rf_json_str_at(ask->container, "name")));
	*ret = out;
	return 0;
}

bool rf_oci_env_is_ours(struct rf_str name)
{
	return rf_str_starts(name, RF_LIT("LD_")) || rf_str_starts(name, RF_LIT("RINGFENCE_")) ||
	       rf_str_starts(name, RF_LIT("NVIDIA_")) || rf_str_starts(name, RF_LIT("CUDA_MPS_")) ||
	       rf_str_is(name, "CUDA_VISIBLE_DEVICES") || rf_str_is(name, "CUDA_DEVICE_ORDER");
}

struct env {
	struct rf_arena *a;
	struct rf_json *list;
	struct rf_map at; /* name -> its string in the list */
};

/* The last one to speak wins and stays where the first one stood. */
static void put(struct env *e, struct rf_str name, struct rf_str value)
{
	struct rf_json *have = rf_map_get(&e->at, name);
	struct rf_json *now = rf_json_string(
		e->a, rf_arena_printf(e->a, "%.*s=%.*s", RF_STR(name), RF_STR(value)));

	if (have != NULL) {
		*have = *now;
		return;
	}
	rf_json_push(e->a, e->list, now);
	rf_map_set(&e->at, name, now);
}

static struct rf_str value_of(const struct env *e, struct rf_str name)
{
	struct rf_str s = rf_json_str(rf_map_get(&e->at, name)), head;

	rf_str_cut(&s, '=', &head);
	return s;
}

static void put_image_env(struct env *e, const struct rf_json *image)
{
	const struct rf_json *list = rf_json_at(image, "process", "env");

	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_str value = rf_json_str(rf_json_item(list, i)), name;

		if (rf_str_cut(&value, '=', &name) && name.n > 0 && !rf_oci_env_is_ours(name))
			put(e, name, value);
	}
}

static void put_pod_env(struct env *e, const struct rf_json *env)
{
	for (size_t i = 0; i < rf_json_len(env); i++) {
		const struct rf_json *v = rf_json_item(env, i);
		struct rf_str name = rf_json_str_at(v, "name");

		if (name.n > 0 && memchr(name.p, '=', name.n) == NULL && !rf_oci_env_is_ours(name))
			put(e, name, rf_json_str_at(v, "value"));
	}
}

static void put_own_env(struct env *e, const struct rf_oci_ask *ask)
{
	if (ask->demo != NULL)
		put(e, RF_LIT("PATH"),
		    rf_arena_printf(e->a, "/ringfence/bin:%.*s",
				    RF_STR(value_of(e, RF_LIT("PATH")))));
	if (ask->gpu == NULL)
		return;
	put(e, RF_LIT("LD_LIBRARY_PATH"), RF_LIT("/ringfence/lib"));
	put(e, RF_LIT("LD_PRELOAD"), RF_LIT("/ringfence/lib/libringfence.so"));
	if (ask->gpu->sim_dir != NULL)
		put(e, RF_LIT("RINGFENCE_SIM"), RF_LIT("/ringfence/dev"));
	if (ask->gpu->mps_dir != NULL)
		put(e, RF_LIT("CUDA_MPS_PIPE_DIRECTORY"), RF_LIT(RF_MPS_MOUNT));
	if (ask->gpu->visible.n > 0) /* else CUDA takes the first of several */
		put(e, RF_LIT("CUDA_VISIBLE_DEVICES"), ask->gpu->visible);
}

static struct rf_json *make_env(struct rf_arena *a, const struct rf_oci_ask *ask)
{
	struct env e = { .a = a, .list = rf_json_array(a), .at = RF_MAP_INIT };

	put(&e, RF_LIT("PATH"), RF_LIT(DEFAULT_PATH));
	put(&e, RF_LIT("HOME"), RF_LIT("/tmp"));
	put(&e, RF_LIT("HOSTNAME"), rf_json_str_at(ask->pod, "metadata", "name"));
	put_image_env(&e, ask->image);
	put_pod_env(&e, ask->env);
	put_own_env(&e, ask);
	rf_map_done(&e.at);
	return e.list;
}

static int make_cwd(const struct rf_oci_ask *ask, struct rf_str *ret, struct rf_err *err)
{
	struct rf_str cwd = rf_json_str_at(ask->container, "workingDir");

	if (cwd.n == 0)
		cwd = rf_json_str_at(ask->image, "process", "cwd");
	if (cwd.n == 0)
		cwd = RF_LIT("/");
	if (cwd.p[0] != '/')
		return rf_fail(err, RF_INVALID, "workingDir %.*s: must begin with /", RF_STR(cwd));
	*ret = cwd;
	return 0;
}

int rf_oci_process(struct rf_arena *a, const struct rf_oci_ask *ask, struct rf_json **ret,
		   struct rf_err *err)
{
	int64_t uid, gid;
	struct rf_str cwd;
	struct rf_json *args;

	if (rf_oci_user(ask, &uid, &gid, err) < 0 || make_args(a, ask, &args, err) < 0 ||
	    make_cwd(ask, &cwd, err) < 0)
		return -err->code;
	struct rf_json *rlimits = rf_json_make(a, "[{'type':'RLIMIT_CORE','soft':%d,'hard':%d}]",
					       RF_NO_CORE, RF_NO_CORE);
	if (ask->files_max > 0)
		rf_json_push(a, rlimits,
			     rf_json_make(a, "{'type':'RLIMIT_NOFILE','soft':%D,'hard':%D}",
					  ask->files_max, ask->files_max));
	struct rf_json *user = rf_json_make(a, "{'uid':%D,'gid':%D}", uid, gid);
	if (add_groups(a, ask, user, err) < 0)
		return -err->code;
	*ret = rf_json_make(
		a,
		"{'terminal':false,'user':%j,'args':%j,'env':%j,'cwd':%S,'noNewPrivileges':true,"
		"'capabilities':{'bounding':[],'effective':[],'permitted':[],'inheritable':[],"
		"'ambient':[]},"
		"'oomScoreAdj':%d,'rlimits':%j}",
		user, args, make_env(a, ask), cwd, OOM_SCORE, rlimits);
	return 0;
}

static struct rf_str lookup(const struct rf_json *env, struct rf_str name, bool *found)
{
	/* The last of several wins, as in the environment itself. */
	for (size_t i = rf_json_len(env); i-- > 0;) {
		const struct rf_json *v = rf_json_item(env, i);

		if (rf_str_eq(rf_json_str_at(v, "name"), name)) {
			*found = true;
			return rf_json_str_at(v, "value");
		}
	}
	*found = false;
	return RF_STR_EMPTY;
}

struct rf_str rf_oci_expand(struct rf_arena *a, struct rf_str text, const struct rf_json *env)
{
	rf_auto(buf) out = RF_BUF_INIT;

	for (size_t i = 0; i < text.n; i++) {
		const char *end = NULL;
		bool found = false;

		if (text.p[i] == '$' && i + 1 < text.n && text.p[i + 1] == '$') {
			rf_buf_add_c(&out, '$');
			i++;
			continue;
		}
		if (text.p[i] == '$' && i + 1 < text.n && text.p[i + 1] == '(')
			end = memchr(text.p + i, ')', text.n - i);
		struct rf_str name = end ? rf_str_n(text.p + i + 2, (size_t)(end - text.p) - i - 2)
					 : RF_STR_EMPTY;
		struct rf_str value = end ? lookup(env, name, &found) : RF_STR_EMPTY;
		if (found) {
			rf_buf_add(&out, value);
			i = (size_t)(end - text.p);
		} else {
			rf_buf_add_c(&out, text.p[i]);
		}
	}
	return rf_arena_str(a, rf_buf_str(&out));
}
