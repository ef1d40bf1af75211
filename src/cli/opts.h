/* Verbs and their options. base only: the fence alone (fence/launch/main.c) is built from this too. */
#ifndef RF_CLI_OPTS_H
#define RF_CLI_OPTS_H

#include "base/base.h"

enum rf_opt_type { RF_OPT_FLAG, RF_OPT_STR, RF_OPT_INT };

struct rf_opt {
	const char *name; /* "kubeconfig": --kubeconfig FILE or --kubeconfig=FILE */
	char letter;      /* 'o', or 0 */
	enum rf_opt_type type;
	void *to;          /* bool *, const char **, int64_t * */
	const char *value; /* "FILE"; NULL for flags */
	const char *help;
};

struct rf_verb {
	const char *name;
	const char *summary;
	const char *usage; /* what follows "ringfence <name>" */
	const char *details;
	const char *subs; /* words that may come first, for completion: "list create delete" */
	const struct rf_opt *opts;
	size_t n_opts;
	bool hidden;
	/* argv: what is left after the options, argv[0] being the first word. Returns 0 or a negative
	 * code with err filled. A positive result is the exit status. */
	int (*run)(int argc, char **argv, struct rf_err *err);
};

#define RF_VERB_OPTS(table) .opts = (table), .n_opts = RF_COUNT(table)

/* Takes the options out of argv (they may stand anywhere before "--"), fills their targets, and
 * leaves the rest. *ret_help: --help was given. */
int rf_opts_parse(const struct rf_verb *verb, int *argc, char **argv, bool *ret_help, struct rf_err *err);
void rf_verb_help(const struct rf_verb *verb, struct rf_buf *out);
/* "unexpected word": for verbs that take none, or no more. */
int rf_cli_no_more(const struct rf_verb *verb, int argc, char **argv, struct rf_err *err);

#endif
