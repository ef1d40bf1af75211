/* The fence alone: the verb `fence` of ringfence, built from a C compiler and libc (src/fence/build). */
#include <signal.h>
#include <stdio.h>

#include "cli/opts.h"

extern const struct rf_verb RF_VERB_FENCE;

static int help(FILE *to)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_verb_help(&RF_VERB_FENCE, &b);
	fwrite(b.p, 1, b.n, to);
	return to == stderr ? 2 : 0;
}

int main(int argc, char **argv)
{
	struct rf_err err = RF_ERR_INIT;
	bool wants_help = false;
	int r;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 2)
		return help(stderr);
	if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
		printf("ringfence %s (the fence alone)\n", RF_VERSION);
		return 0;
	}
	if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
	    strcmp(argv[1], "help") == 0)
		return help(stdout);
	if (strcmp(argv[1], "fence") != 0) {
		fprintf(stderr, "ringfence: this is the fence alone and knows the verb \"fence\" "
				"only; \"make\" builds the "
				"rest\n");
		return 2;
	}
	argc -= 2;
	argv += 2;
	r = rf_opts_parse(&RF_VERB_FENCE, &argc, argv, &wants_help, &err);
	if (r == 0 && wants_help)
		return help(stdout);
	if (r == 0)
		r = RF_VERB_FENCE.run(argc, argv, &err);
	if (fflush(stdout) != 0 && r == 0)
		r = rf_fail_errno(&err, "write to standard output");
	if (r >= 0)
		return r;
	fprintf(stderr, "ringfence fence: %s\n", err.msg);
	return rf_code_info(r)->exit;
}
