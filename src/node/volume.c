#include "node/volume.h"

#include <errno.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/fs.h"

#define EMPTY_DEFAULT (1024LL * 1024 * 1024)
#define EMPTY_MAX (64LL * 1024 * 1024 * 1024)
#define BYTES_PER_FILE 4096 /* so many files fit as there are pages */

/* Is something mounted at this child of a volumes folder? Nothing else crosses file systems there. */
static bool is_mounted(const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat here, above;
	rf_auto(arena) a = RF_ARENA_INIT;

	return stat(path, &here) == 0 &&
	       stat(rf_fs_path(&a, "%.*s", (int)(slash - path), path), &above) == 0 &&
	       here.st_dev != above.st_dev;
}

static int mount_memory(const char *path, int64_t bytes, const char *mode, struct rf_err *err)
{
	char options[96];

	if (rf_fs_mkdirs(path, 0755, err) < 0)
		return -err->code;
	if (is_mounted(path))
		return 0;
	snprintf(options, sizeof(options), "mode=%s,size=%lld,nr_inodes=%lld", mode,
		 (long long)bytes, (long long)bytes / BYTES_PER_FILE + 16);
	if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, options) < 0)
		return rf_fail_errno(err, "mount a memory volume at %s", path);
	return 0;
}

int rf_volumes_scratch(const char *path, int64_t bytes, struct rf_err *err)
{
	return mount_memory(path, bytes, "0700", err);
}

static int make_empty(const struct rf_json *empty, const char *path, struct rf_err *err)
{
	const struct rf_json *limit = rf_json_at(empty, "sizeLimit");
	int64_t size = EMPTY_DEFAULT;

	if (limit != NULL &&
	    rf_quantity_value(limit->type == RF_JSON_NUMBER ? limit->text : rf_json_str(limit),
			      &size, err) < 0)
		return rf_wrap(err, "emptyDir.sizeLimit");
	return mount_memory(path, RF_MIN(RF_MAX(size, 4096), EMPTY_MAX), "1777", err);
}

static bool is_file_name(struct rf_str s)
{
	return s.n > 0 && s.n < 254 && memchr(s.p, '/', s.n) == NULL &&
	       memchr(s.p, '\0', s.n) == NULL && !rf_str_is(s, ".") && !rf_str_is(s, "..");
}

static int write_key(struct rf_arena *a, const struct rf_json *object, bool secret,
		     struct rf_str key, struct rf_str path, const char *dir, struct rf_err *err)
{
	struct rf_str value;

	if (!is_file_name(path))
		return rf_fail(err, RF_UNSUPPORTED, "path %.*s: must be a plain file name",
			       RF_STR(path));
	if (rf_podenv_key(a, object, secret, key, &value, err) < 0)
		return -err->code;
	return rf_fs_write(rf_fs_path(a, "%s/%.*s", dir, RF_STR(path)), value, 0444, false, err);
}

static int write_keys(struct rf_arena *a, const struct rf_json *object, bool secret,
		      const struct rf_json *items, const char *dir, struct rf_err *err)
{
	const struct rf_json *data = rf_json_at(object, "data");

	for (size_t i = 0; i < rf_json_len(items); i++) {
		const struct rf_json *it = rf_json_item(items, i);

		if (write_key(a, object, secret, rf_json_str_at(it, "key"),
			      rf_json_str_at(it, "path"), dir, err) < 0)
			return -err->code;
	}
	for (size_t i = 0; items == NULL && i < rf_json_len(data); i++)
		if (write_key(a, object, secret, data->members[i].key, data->members[i].key, dir,
			      err) < 0)
			return -err->code;
	return 0;
}

static int make_keys(const struct rf_json *volume, bool secret, const char *path,
		     const struct rf_podenv_source *source, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *v = rf_json_at(volume, secret ? "secret" : "configMap"), *object;
	struct rf_str name = rf_json_str_at(v, secret ? "secretName" : "name");
	int rc = rf_fs_mkdirs(path, 0755, err);

	if (rc == 0)
		rc = source->get(source->ctx, secret, name, &object, err);
	if (rc == -RF_NOT_FOUND && rf_json_is_true(rf_json_at(v, "optional")))
		return 0;
	if (rc == 0)
		rc = write_keys(&a, object, secret, rf_json_at(v, "items"), path, err);
	return rc < 0 ? rf_wrap(err, "%s %.*s", secret ? "secret" : "configmap", RF_STR(name)) : 0;
}

static int make_one(const struct rf_json *volume, const char *dir,
		    const struct rf_podenv_source *source, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str name = rf_json_str_at(volume, "name");
	const char *path = rf_fs_path(&a, "%s/%.*s", dir, RF_STR(name));

	if (!rf_str_is_dns_label(name))
		return rf_fail(err, RF_INVALID, "its name is not a DNS label");
	if (rf_json_at(volume, "emptyDir") != NULL)
		return make_empty(rf_json_at(volume, "emptyDir"), path, err);
	if (rf_json_at(volume, "configMap") != NULL)
		return make_keys(volume, false, path, source, err);
	if (rf_json_at(volume, "secret") != NULL)
		return make_keys(volume, true, path, source, err);
	return rf_fail(err, RF_UNSUPPORTED,
		       "only emptyDir, configMap and secret volumes are offered");
}

int rf_volumes_make(const struct rf_json *pod, const char *dir,
		    const struct rf_podenv_source *source, struct rf_err *err)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "volumes");

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (make_one(rf_json_item(list, i), dir, source, err) < 0)
			return rf_wrap(err, "volume %.*s",
				       RF_STR(rf_json_str_at(rf_json_item(list, i), "name")));
	return 0;
}

static const struct rf_json *volume_named(const struct rf_json *pod, struct rf_str name)
{
	const struct rf_json *list = rf_json_at(pod, "spec", "volumes");

	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(list, i), "name"), name))
			return rf_json_item(list, i);
	return NULL;
}

int rf_volumes_of(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *container,
		  const char *dir, struct rf_oci_mount **ret, size_t *ret_n, struct rf_err *err)
{
	const struct rf_json *mounts = rf_json_at(container, "volumeMounts");
	struct rf_oci_mount *out = rf_arena_array(a, struct rf_oci_mount, rf_json_len(mounts) + 1);

	for (size_t i = 0; i < rf_json_len(mounts); i++) {
		const struct rf_json *m = rf_json_item(mounts, i);
		struct rf_str name = rf_json_str_at(m, "name");
		const struct rf_json *volume = volume_named(pod, name);

		if (volume == NULL)
			return rf_fail(err, RF_INVALID,
				       "volumeMount %.*s: the pod has no such volume",
				       RF_STR(name));
		if (rf_json_str_at(m, "subPath").n > 0 || rf_json_str_at(m, "subPathExpr").n > 0)
			return rf_fail(err, RF_UNSUPPORTED,
				       "volumeMount %.*s: subPath is not offered", RF_STR(name));
		out[i] = (struct rf_oci_mount){
			.source = rf_arena_printf(a, "%s/%.*s", dir, RF_STR(name)),
			.destination = rf_json_str_at(m, "mountPath"),
			/* ConfigMaps and Secrets are read-only whatever the mount says. */
			.read_only = rf_json_is_true(rf_json_at(m, "readOnly")) ||
				     rf_json_at(volume, "emptyDir") == NULL,
		};
	}
	*ret = out;
	*ret_n = rf_json_len(mounts);
	return 0;
}

/* --- namespaces ------------------------------------------------------------------------------- */

static bool raise_loopback(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	rf_auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
}

static bool bind_namespace(const char *from, const char *to)
{
	return is_mounted(to) || mount(from, to, NULL, MS_BIND, NULL) == 0;
}

/* In a child, which has them only until they are bound. Only system calls: it never execs. */
static int bind_new_namespaces(const char *net, const char *ipc)
{
	if (unshare(CLONE_NEWNET | CLONE_NEWIPC) < 0 || !raise_loopback())
		return errno;
	if (!bind_namespace("/proc/self/ns/net", net) || !bind_namespace("/proc/self/ns/ipc", ipc))
		return errno;
	return 0;
}

int rf_volumes_namespaces(const char *dir, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *net = rf_fs_path(&a, "%s/.net", dir), *ipc = rf_fs_path(&a, "%s/.ipc", dir);
	int status = 0;

	if (is_mounted(net) && is_mounted(ipc))
		return 0;
	if (rf_fs_mkdirs(dir, 0755, err) < 0)
		return -err->code;
	if ((!rf_fs_exists(net) && rf_fs_write(net, RF_STR_EMPTY, 0400, false, err) < 0) ||
	    (!rf_fs_exists(ipc) && rf_fs_write(ipc, RF_STR_EMPTY, 0400, false, err) < 0))
		return -err->code;
	pid_t pid = fork();
	if (pid == 0)
		_exit(bind_new_namespaces(net, ipc));
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		return rf_fail(err, RF_SYSTEM, "make the pod's namespaces: %s",
			       strerror(pid < 0 ? errno : WEXITSTATUS(status)));
	return 0;
}

int rf_volumes_unmount(const char *dir, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str *names;
	size_t n;

	if (rf_fs_list(&a, dir, &names, &n, err) < 0)
		return -err->code;
	for (size_t i = 0; i < n; i++) {
		const char *path = rf_fs_path(&a, "%s/%.*s", dir, RF_STR(names[i]));

		if (is_mounted(path) && umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) < 0)
			return rf_fail_errno(err, "unmount %s", path);
	}
	return 0;
}
