#include "node/image.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/fs.h"

#define CONFIG_MAX (1024 * 1024)

/* What the host image shows of the machine. Not /home, /root, /var, /srv, /mnt, /media, /boot,
 * /run, /tmp: there people and services keep what is theirs. */
static const char *const HOST_TOPS[] = { "usr",	  "bin",    "sbin", "lib", "lib32",
					 "lib64", "libx32", "etc",  "opt" };
/* Always the container's own, whatever an image has there. */
static const char *const OWN_TOPS[] = { "proc", "sys", "dev", "tmp", "run", "ringfence" };

bool rf_image_name_ok(struct rf_str name)
{
	if (name.n == 0 || name.n > 128 || name.p[0] == '.' || name.p[0] == '-')
		return false;
	for (size_t i = 0; i < name.n; i++) {
		char c = name.p[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		      c == '.' || c == '-' || c == '_'))
			return false;
	}
	return true;
}

static bool is_own(struct rf_str name)
{
	for (size_t i = 0; i < RF_COUNT(OWN_TOPS); i++)
		if (rf_str_is(name, OWN_TOPS[i]))
			return true;
	return false;
}

/* False for what is neither folder, file nor link: there is nothing to show of it. */
static bool look_at(struct rf_arena *a, const char *root, struct rf_str name,
		    struct rf_oci_top *ret)
{
	const char *path = rf_fs_path(a, "%s/%.*s", root, RF_STR(name));
	char target[PATH_MAX];
	struct stat st;

	*ret = (struct rf_oci_top){ .name = rf_arena_str(a, name),
				    .source = RF_STR_EMPTY,
				    .link = RF_STR_EMPTY };
	if (lstat(path, &st) < 0)
		return false;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlink(path, target, sizeof(target));

		if (n > 0)
			ret->link = rf_arena_str(a, rf_str_n(target, (size_t)n));
		return n > 0;
	}
	ret->source = rf_str(path);
	return S_ISDIR(st.st_mode) || S_ISREG(st.st_mode);
}

static void find_host(struct rf_arena *a, struct rf_image *ret)
{
	ret->tops = rf_arena_array(a, struct rf_oci_top, RF_COUNT(HOST_TOPS));
	for (size_t i = 0; i < RF_COUNT(HOST_TOPS); i++)
		if (look_at(a, "", rf_str(HOST_TOPS[i]), &ret->tops[ret->n_tops]))
			ret->n_tops++;
}

static int find_bundle(struct rf_arena *a, const char *dir, struct rf_image *ret,
		       struct rf_err *err)
{
	const char *root = rf_fs_path(a, "%s/rootfs", dir);
	struct rf_str text, *names;
	struct rf_json *config;
	size_t n;

	if (rf_fs_read(a, rf_fs_path(a, "%s/config.json", dir), CONFIG_MAX, &text, err) < 0 ||
	    rf_json_parse(a, text, &config, err) < 0 || rf_fs_list(a, root, &names, &n, err) < 0)
		return rf_wrap(err, "image folder %s", dir);
	ret->config = config;
	ret->tops = rf_arena_array(a, struct rf_oci_top, n + 1);
	for (size_t i = 0; i < n; i++)
		if (!is_own(names[i]) && look_at(a, root, names[i], &ret->tops[ret->n_tops]))
			ret->n_tops++;
	return ret->n_tops > 0 ? 0
			       : rf_fail(err, RF_INVALID, "image folder %s: rootfs/ is empty", dir);
}

int rf_image_find(struct rf_arena *a, const char *images_dir, struct rf_str name,
		  struct rf_image *ret, struct rf_err *err)
{
	*ret = (struct rf_image){ .host = rf_str_is(name, "host") };
	if (ret->host) {
		find_host(a, ret);
		return 0;
	}
	if (!rf_image_name_ok(name))
		return rf_fail(err, RF_INVALID,
			       "image \"%.*s\": images are \"host\" or the name of a folder the "
			       "operator gave with "
			       "--images",
			       (int)RF_MIN(name.n, 200), name.p);
	if (images_dir == NULL)
		return rf_fail(err, RF_NOT_FOUND,
			       "image \"%.*s\": no folder was given with --images; use \"host\"",
			       RF_STR(name));
	return find_bundle(a, rf_fs_path(a, "%s/%.*s", images_dir, RF_STR(name)), ret, err);
}

static int make_top(struct rf_arena *a, const char *rootfs, const struct rf_oci_top *top,
		    struct rf_err *err)
{
	const char *path = rf_fs_path(a, "%s/%.*s", rootfs, RF_STR(top->name));
	struct stat st;

	if (top->link.n > 0) {
		if (symlink(top->link.p, path) < 0 && errno != EEXIST)
			return rf_fail_errno(err, "link %s", path);
		return 0;
	}
	if (stat(top->source.p, &st) == 0 && S_ISREG(st.st_mode))
		return rf_fs_write(path, RF_STR_EMPTY, 0444, false, err);
	return rf_fs_mkdirs(path, 0755, err);
}

int rf_image_make_root(const char *rootfs, const struct rf_image *image, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (rf_fs_mkdirs(rootfs, 0755, err) < 0)
		return -err->code;
	for (size_t i = 0; i < RF_COUNT(OWN_TOPS); i++)
		if (rf_fs_mkdirs(rf_fs_path(&a, "%s/%s", rootfs, OWN_TOPS[i]), 0755, err) < 0)
			return -err->code;
	for (size_t i = 0; i < image->n_tops; i++)
		if (make_top(&a, rootfs, &image->tops[i], err) < 0)
			return -err->code;
	return 0;
}
