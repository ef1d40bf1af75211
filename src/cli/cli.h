/* cli: the command line. One file per verb; each verb is a row in main.c's table, and help, shell
 * completion and the manual page are made from the same rows. */
#ifndef RF_CLI_H
#define RF_CLI_H

#include "base/base.h"
#include "cli/opts.h"
#include "codec/json.h"
#include "kube/kube.h"

RF_DEFINE_AUTO_PTR(kube);

extern const struct rf_verb RF_VERB_AUDIT;
extern const struct rf_verb RF_VERB_SIMULATE;
extern const struct rf_verb RF_VERB_DEFRAGMENT;
extern const struct rf_verb RF_VERB_APISERVER, RF_VERB_COMPLETION, RF_VERB_CONTROL, RF_VERB_FENCE, RF_VERB_GPUS,
	RF_VERB_MAN, RF_VERB_NODE, RF_VERB_POLICY, RF_VERB_PS, RF_VERB_RUN, RF_VERB_SHIM, RF_VERB_SIM, RF_VERB_TENANT,
	RF_VERB_QUEUE, RF_VERB_UP, RF_VERB_VERSION, RF_VERB_WHY;
extern const struct rf_verb *const RF_VERBS[]; /* ends with NULL */

/* --- what client verbs share ------------------------------------------------------------------ */

extern const char *rf_cli_kubeconfig; /* --kubeconfig */
extern const char *rf_cli_output;     /* -o */
#define RF_OPT_KUBECONFIG                                                                          \
	{ "kubeconfig", 0, RF_OPT_STR, &rf_cli_kubeconfig, "FILE",                                 \
	  "how to reach the API (default: $KUBECONFIG, the local platform's, ~/.kube/config)" }
#define RF_OPT_OUTPUT { "output", 'o', RF_OPT_STR, &rf_cli_output, "json|table", "how to print" }

int rf_cli_config(struct rf_arena *a, struct rf_kubeconfig *ret, struct rf_err *err);
int rf_cli_connect(struct rf_arena *a, struct rf_kube **ret, struct rf_err *err);
/* The items of a whole collection; an empty array where the caller may not list it is an error. */
int rf_cli_list(struct rf_kube *k, struct rf_arena *a, const struct rf_kube_res *res, struct rf_str ns,
		struct rf_json **ret_items, struct rf_err *err);

struct rf_column {
	const char *header;
	const char *key; /* of the row objects */
};
/* Prints an array of flat objects as the user asked with -o: a table, or JSON. */
int rf_cli_print(const struct rf_json *rows, const struct rf_column *columns, size_t n, struct rf_err *err);

/* Where the platform of this machine keeps its data unless told otherwise. */
struct rf_str rf_cli_default_data(struct rf_arena *a);
/* The folder this program lies in, and the program itself. */
struct rf_str rf_cli_self_dir(struct rf_arena *a);
struct rf_str rf_cli_self_exe(struct rf_arena *a);
/* The folder with the simulated driver libraries, or the empty string. */
/* A simulated machine in dir keeps its cards between starts; other cards than asked for make a new one. */
int rf_cli_open_sim(const char *dir, const char *cards, struct rf_err *err);
struct rf_str rf_cli_sim_lib_dir(struct rf_arena *a);
/* "127.0.0.1:7443" */
int rf_cli_address(const char *text, char ret_host[64], uint16_t *ret_port, struct rf_err *err);
/* Habits of other schedulers (tenant/foreign.h): reads the two options, and sets them for this process. */
extern const char *rf_cli_foreign_list, *rf_cli_foreign_card;
#define RF_OPT_FOREIGN                                                                             \
	{ "foreign", 0, RF_OPT_STR, &rf_cli_foreign_list, "LIST",                                  \
	  "take pods written for kai, hami, volcano, x-k8s, kueue: any of them, comma-separated (default none)" }, \
	{ "foreign-card", 0, RF_OPT_STR, &rf_cli_foreign_card, "SIZE",                             \
	  "with --foreign: the card that a fraction is a fraction of, such as 80Gi" }
int rf_cli_foreign(struct rf_err *err);
/* A supervised process ends when its supervisor does. */
void rf_cli_die_with_parent(void);

#endif
