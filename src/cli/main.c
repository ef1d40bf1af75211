#include <signal.h>
#include <stdio.h>

#include "cli/cli.h"

const struct rf_verb *const RF_VERBS[] = {
	&RF_VERB_UP,      &RF_VERB_TENANT,    &RF_VERB_RUN,        &RF_VERB_PS,      &RF_VERB_GPUS,
	&RF_VERB_WHY,     &RF_VERB_QUEUE,    &RF_VERB_DEFRAGMENT, &RF_VERB_AUDIT,     &RF_VERB_SIM, &RF_VERB_SIMULATE,      &RF_VERB_APISERVER,  &RF_VERB_CONTROL, &RF_VERB_NODE,
	&RF_VERB_FENCE,   &RF_VERB_POLICY,    &RF_VERB_VERSION,    &RF_VERB_COMPLETION, &RF_VERB_SHIM,
	&RF_VERB_MAN,     NULL,
};

static void print(FILE *to, const struct rf_buf *text)
{
	fwrite(text->p, 1, text->n, to);
}

static void general_help(FILE *to)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_puts(&b, "ringfence shares GPUs among tenants who do not trust each other.\n\n"
			"Usage: ringfence VERB [options]\n\n");
	for (const struct rf_verb *const *v = RF_VERBS; *v != NULL; v++)
		if (!(*v)->hidden)
			rf_buf_printf(&b, "  %-12s %s\n", (*v)->name, (*v)->summary);
	rf_buf_puts(&b, "\n\"ringfence VERB --help\" says more. Start with: ringfence up\n");
	print(to, &b);
}

static const struct rf_verb *find_verb(const char *name)
{
	for (const struct rf_verb *const *v = RF_VERBS; *v != NULL; v++)
		if (strcmp((*v)->name, name) == 0)
			return *v;
	return NULL;
}

static void verb_help(const struct rf_verb *verb)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_verb_help(verb, &b);
	print(stdout, &b);
}

static int run_verb(const struct rf_verb *verb, int argc, char **argv)
{
	struct rf_err err = RF_ERR_INIT;
	bool help = false;
	int r = rf_opts_parse(verb, &argc, argv, &help, &err);

	if (r == 0 && help) {
		verb_help(verb);
		return 0;
	}
	if (r == 0)
		r = verb->run(argc, argv, &err);
	if (fflush(stdout) != 0 && r == 0)
		r = rf_fail_errno(&err, "write to standard output");
	if (r >= 0)
		return r;
	fprintf(stderr, "ringfence %s: %s\n", verb->name, err.msg);
	return rf_code_info(r)->exit;
}

int main(int argc, char **argv)
{
	const struct rf_verb *verb = NULL;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		general_help(stderr);
		return 2;
	}
	if (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
		verb = argc > 2 ? find_verb(argv[2]) : NULL;
		if (verb == NULL)
			general_help(stdout);
		else
			verb_help(verb);
		return 0;
	}
	verb = find_verb(strcmp(argv[1], "--version") == 0 ? "version" : argv[1]);
	if (verb == NULL) {
		fprintf(stderr, "ringfence: there is no verb \"%s\"; \"ringfence --help\" lists them\n",
			argv[1]);
		return 2;
	}
	return run_verb(verb, argc - 2, argv + 2);
}
