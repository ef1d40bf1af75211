/* check_podsecurity DIR...: judges fixtures laid out as <level>/<version>/{pass,fail}/<pod>.yaml,
 * each DIR being one <level>/<version>, and says which of them ringfence judges otherwise. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "codec/yaml.h"
#include "policy/podsecurity.h"

#define FIXTURE_MAX (1 << 20)

struct tally {
	int agree, differ;
};

static int read_file(const char *path, struct rf_buf *out, struct rf_err *err)
{
	rf_auto_close int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = 0;

	if (fd < 0)
		return rf_fail_errno(err, "open %s", path);
	do {
		rf_buf_reserve(out, 4096);
		n = read(fd, out->p + out->n, 4095);
		if (n > 0)
			out->n += (size_t)n;
		out->p[out->n] = 0;
	} while (n > 0 && out->n < FIXTURE_MAX);
	return n < 0 ? rf_fail_errno(err, "read %s", path) : 0;
}

static int judge(const char *path, enum rf_ps_level level, bool expect, struct tally *t,
		 struct rf_err *err)
{
	rf_auto(buf) text = RF_BUF_INIT, why = RF_BUF_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *docs = NULL;

	if (read_file(path, &text, err) < 0)
		return -err->code;
	if (rf_yaml_parse(&a, rf_buf_str(&text), &docs, err) < 0)
		return rf_wrap(err, "%s", path);
	if (rf_ps_check(level, rf_json_item(docs, 0), &why) == expect) {
		t->agree++;
	} else {
		t->differ++;
		printf("%s: %s\n", path, expect ? why.p : "allowed");
	}
	return 0;
}

static int judge_folder(const char *dir, enum rf_ps_level level, bool expect, struct tally *t,
			struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str folder = rf_arena_printf(&a, "%s/%s", dir, expect ? "pass" : "fail");
	DIR *d = opendir(folder.p);
	int rc = 0;

	if (d == NULL)
		return rf_fail_errno(err, "open folder %s", folder.p);
	for (struct dirent *e; rc == 0 && (e = readdir(d)) != NULL;) {
		if (rf_str_ends(rf_str(e->d_name), RF_LIT(".yaml")))
			rc = judge(rf_arena_printf(&a, "%s/%s", folder.p, e->d_name).p, level,
				   expect, t, err);
	}
	closedir(d);
	return rc;
}

int main(int argc, char **argv)
{
	struct rf_err err = RF_ERR_INIT;
	struct tally t = { 0, 0 };

	for (int i = 1; i < argc; i++) {
		struct rf_str dir = rf_str(argv[i]);
		enum rf_ps_level level = rf_str_contains(dir, RF_LIT("restricted/"))
						 ? RF_PS_RESTRICTED
						 : RF_PS_BASELINE;

		if (judge_folder(argv[i], level, true, &t, &err) < 0 ||
		    judge_folder(argv[i], level, false, &t, &err) < 0) {
			fprintf(stderr, "%s\n", err.msg);
			return 2;
		}
	}
	printf("%d fixtures agree, %d differ\n", t.agree, t.differ);
	return t.differ > 0 || t.agree == 0;
}
