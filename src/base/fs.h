/* Files: whole, atomic, durable where a promise depends on it. Not part of base.h: include it where
 * files are the job. */
#ifndef RF_BASE_FS_H
#define RF_BASE_FS_H

#include <sys/types.h>

#include "base/base.h"

/* A path in the arena, for libc. */
const char *rf_fs_path(struct rf_arena *a, const char *fmt, ...) RF_PRINTF(2, 3);
bool rf_fs_exists(const char *path); /* a dangling link exists too */

int rf_fs_mkdirs(const char *path, mode_t mode, struct rf_err *err); /* existing folders are kept */
/* The whole file; RF_NOT_FOUND if there is none, RF_TOO_LARGE above max. */
int rf_fs_read(struct rf_arena *a, const char *path, size_t max, struct rf_str *ret, struct rf_err *err);
/* Readers see the old content or the new one. durable: on disk before this returns. */
int rf_fs_write(const char *path, struct rf_str data, mode_t mode, bool durable, struct rf_err *err);
/* Removes a file or folder and what is in it. Follows no links, leaves mounted file systems alone
 * (they are an error). A missing path is success. */
int rf_fs_remove_tree(const char *path, struct rf_err *err);
/* The names in a folder without "." and "..", sorted; a missing folder has none. */
int rf_fs_list(struct rf_arena *a, const char *path, struct rf_str **ret_names, size_t *ret_n,
	       struct rf_err *err);

#endif
