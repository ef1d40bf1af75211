/* What the shim and its runtime see of the machine's mounts. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "codec/json.h"
#include "node/cgroup.h"
#include "node/shim.h"

#define CONFIG_MAX (64 * 1024 * 1024)

static int private_mounts(struct rf_err *err)
{
	if (unshare(CLONE_NEWNS) < 0)
		return rf_fail_errno(err, "enter a private mount namespace (is this root?)");
	/* Slave: what the host unmounts later disappears here too; nothing done here shows
	 * there. */
	if (mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return rf_fail_errno(err, "make mounts private");
	return 0;
}

int rf_shim_enter_view(struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_cgroup_mounts m;
	struct rf_str dir;

	rf_cgroup_mounts_read(&a, &m);
	if (!rf_cgroup_is_awkward(&a, &m, &dir))
		return 0;
	if (private_mounts(err) < 0)
		return -err->code;
	if (umount2(dir.p, MNT_DETACH) < 0)
		return rf_fail_errno(err, "unmount %s in the private mount namespace", dir.p);
	return 0;
}

/* Binds a folder or file to itself, with all that is mounted below it, and sets what it may. */
static int remount(const char *path, uint64_t set, uint64_t clear, struct rf_err *err)
{
	struct mount_attr attr = { .attr_set = set, .attr_clr = clear };

	if (mount(path, path, NULL, MS_BIND | MS_REC, NULL) < 0)
		return rf_fail_errno(err, "bind %s", path);
	if (mount_setattr(AT_FDCWD, path, AT_RECURSIVE, &attr, sizeof(attr)) < 0)
		return rf_fail_errno(err, "make %s %s", path, set ? "read-only" : "writable");
	return 0;
}

static bool is_bind(const struct rf_json *mount, const char *option)
{
	const struct rf_json *o = rf_json_at(mount, "options");

	for (size_t i = 0; i < rf_json_len(o); i++)
		if (rf_str_is(rf_json_str(rf_json_item(o, i)), option))
			return rf_str_is(rf_json_str_at(mount, "type"), "bind");
	return false;
}

static int remount_all(const struct rf_json *mounts, const char *option, uint64_t set,
		       uint64_t clear, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	for (size_t i = 0; i < rf_json_len(mounts); i++) {
		const struct rf_json *m = rf_json_item(mounts, i);

		if (is_bind(m, option) &&
		    remount(rf_arena_cstr(&a, rf_json_str_at(m, "source")), set, clear, err) < 0)
			return -err->code;
	}
	return 0;
}

int rf_shim_protect(const char *bundle, const char *root, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str text;
	struct rf_json *config;

	if (rf_fs_read(&a, rf_fs_path(&a, "%s/config.json", bundle), CONFIG_MAX, &text, err) < 0 ||
	    rf_json_parse(&a, text, &config, err) < 0 || rf_fs_mkdirs(root, 0700, err) < 0 ||
	    private_mounts(err) < 0)
		return -err->code;
	const struct rf_json *mounts = rf_json_at(config, "mounts");
	/* What must stay writable may lie below what must not, so it comes second. */
	if (remount_all(mounts, "ro", MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0,
			err) < 0 ||
	    remount_all(mounts, "rw", 0, MOUNT_ATTR_RDONLY, err) < 0 ||
	    remount(bundle, 0, MOUNT_ATTR_RDONLY, err) < 0)
		return -err->code;
	return remount(root, 0, MOUNT_ATTR_RDONLY, err);
}
