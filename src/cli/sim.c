#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "sim/sim.h"

static const char *o_cards = "1xH200", *o_machine;
static int64_t o_card, o_count = 1;
static bool o_virtual, o_correctable;

/* The machine that a fault is meant for: --machine, $RINGFENCE_SIM, the local platform's. */
static const char *machine(struct rf_arena *a)
{
	const char *env = getenv("RINGFENCE_SIM");

	if (o_machine != NULL)
		return o_machine;
	return env != NULL ? env : rf_arena_printf(a, "%.*s/sim", RF_STR(rf_cli_default_data(a))).p;
}

/* Does the machine in dir have just the cards that spec asks for? */
static bool same_cards(const char *dir, const struct rf_sim_spec *spec)
{
	struct rf_sim_card_info cards[RF_SIM_CARDS_MAX];
	size_t n = 0;

	if (rf_sim_machine_cards(dir, cards, RF_COUNT(cards), &n, NULL) < 0 || n != spec->n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (cards[i].model != spec->cards[i] || cards[i].mig != spec->mig[i])
			return false;
	return true;
}

int rf_cli_open_sim(const char *dir, const char *cards, struct rf_err *err)
{
	struct rf_sim_spec spec = { 0 };

	if (rf_sim_spec_parse(rf_str(cards), &spec, err) < 0)
		return -err->code;
	if (same_cards(dir, &spec))
		return 0;
	if (access(dir, F_OK) == 0 && rf_sim_machine_remove(dir, err) < 0)
		return -err->code;
	return rf_sim_machine_create(dir, rf_str(cards), NULL, err);
}

static void put_first_on_path(const char *variable, struct rf_str dir)
{
	rf_auto(buf) b = RF_BUF_INIT;
	const char *old = getenv(variable);

	rf_buf_add(&b, dir);
	if (old != NULL && old[0] != '\0')
		rf_buf_printf(&b, ":%s", old);
	setenv(variable, b.p, 1);
}

static int wait_for(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Runs the program and waits; the terminal's signals go to the program, which decides. */
static int run_program(const char *dir, struct rf_str libs, char **argv, struct rf_err *err)
{
	pid_t pid;

	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return rf_fail_errno(err, "start %s", argv[0]);
	if (pid == 0) {
		signal(SIGINT, SIG_DFL);
		signal(SIGTERM, SIG_DFL);
		signal(SIGPIPE, SIG_DFL);
		setenv("RINGFENCE_SIM", dir, 1);
		put_first_on_path("LD_LIBRARY_PATH", libs);
		execvp(argv[0], argv);
		fprintf(stderr, "ringfence sim: %s: %s\n", argv[0], strerror(errno));
		_exit(127);
	}
	return wait_for(pid);
}

static int sim_run(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	struct rf_sim_options opt = { .virtual_time = o_virtual };
	struct rf_str libs = rf_cli_sim_lib_dir(a);
	char dir[] = "/tmp/ringfence-sim.XXXXXX";
	const char *inner;
	int r;

	if (argc < 2 || strcmp(argv[0], "--") != 0)
		return rf_fail(err, RF_BAD_REQUEST, "say what to run: ringfence sim run --cards 2xH200 -- program");
	if (libs.n == 0)
		return rf_fail(err, RF_NOT_FOUND, "the simulated driver libraries are not beside this program");
	if (mkdtemp(dir) == NULL)
		return rf_fail_errno(err, "make a folder in /tmp");
	inner = rf_arena_printf(a, "%s/machine", dir).p;
	r = rf_sim_machine_create(inner, rf_str(o_cards), &opt, err);
	if (r == 0) {
		r = run_program(inner, libs, argv + 1, err);
		rf_sim_machine_remove(inner, NULL);
	}
	rmdir(dir);
	return r;
}

static int sim_cards(struct rf_arena *a, struct rf_err *err)
{
	static const struct rf_column columns[] = {
		{ "CARD", "card" },         { "MODEL", "model" }, { "UUID", "uuid" },   { "MEMORY", "memory" },
		{ "USED", "used" },         { "PROCESSES", "processes" }, { "XID", "xid" }, { "STATE", "state" },
	};
	struct rf_sim_card_info cards[RF_SIM_CARDS_MAX];
	struct rf_json *rows = rf_json_array(a);
	size_t n = 0;

	if (rf_sim_machine_cards(machine(a), cards, RF_COUNT(cards), &n, err) < 0)
		return rf_wrap(err, "simulated machine %s", machine(a));
	for (size_t i = 0; i < n; i++)
		rf_json_push(a, rows,
			     rf_json_make(a,
					  "{'card':%d,'model':%s,'uuid':%s,'memory':%S,'used':%S,'processes':%d,'xid':%d,"
					  "'state':%s}",
					  (int)cards[i].card, cards[i].model->product, cards[i].uuid,
					  rf_quantity_bytes(a, (int64_t)cards[i].memory_total),
					  rf_quantity_bytes(a, (int64_t)cards[i].memory_used), (int)cards[i].processes,
					  (int)cards[i].last_xid,
					  cards[i].off_bus ? "off the bus" :
					  cards[i].hung    ? "hung" :
					  cards[i].mig	   ? rf_arena_printf(a, "ok, MIG with %u instances", cards[i].gpu_instances).p :
							     "ok"));
	return rf_cli_print(rows, columns, RF_COUNT(columns), err);
}

static int sim_xid(struct rf_arena *a, int argc, char **argv, struct rf_err *err)
{
	int64_t xid = 0;

	if (argc != 1 || rf_str_int(rf_str(argv[0]), &xid, err) < 0 || xid < 1 || xid > 9999)
		return rf_fail(err, RF_BAD_REQUEST, "say which: ringfence sim xid 79 --card 0");
	return rf_sim_inject_xid(machine(a), (unsigned)o_card, (unsigned)xid, err);
}

static int fault(struct rf_arena *a, const char *what, struct rf_err *err)
{
	const char *dir = machine(a);
	unsigned card = (unsigned)o_card;

	if (strcmp(what, "ecc") == 0)
		return rf_sim_inject_ecc(dir, card, o_correctable, (unsigned)o_count, err);
	if (strcmp(what, "hang") == 0)
		return rf_sim_hang(dir, card, true, err);
	if (strcmp(what, "lose") == 0)
		return rf_sim_off_bus(dir, card, err);
	if (strcmp(what, "clear") == 0)
		return rf_sim_hang(dir, card, false, err) < 0 ? -err->code : rf_sim_clear(dir, card, err);
	return rf_fail(err, RF_BAD_REQUEST, "there is no \"sim %s\"; there are run, cards, xid, ecc, hang, lose, clear", what);
}

static int run(int argc, char **argv, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (argc == 0)
		return rf_fail(err, RF_BAD_REQUEST, "say what: ringfence sim run, cards, xid, ecc, hang, lose or clear");
	if (o_card < 0 || o_card >= RF_SIM_CARDS_MAX || o_count < 1 || o_count > 1000000)
		return rf_fail(err, RF_BAD_REQUEST, "--card is 0 to %d, --count 1 to 1000000", RF_SIM_CARDS_MAX - 1);
	if (strcmp(argv[0], "run") == 0)
		return sim_run(&a, argc - 1, argv + 1, err);
	if (strcmp(argv[0], "xid") == 0)
		return sim_xid(&a, argc - 1, argv + 1, err);
	if (argc > 1)
		return rf_cli_no_more(&RF_VERB_SIM, argc - 1, argv + 1, err);
	return strcmp(argv[0], "cards") == 0 ? sim_cards(&a, err) : fault(&a, argv[0], err);
}

static const struct rf_opt OPTS[] = {
	{ "cards", 0, RF_OPT_STR, &o_cards, "CARDS", "run: such as 2xH200, 1xA100,1xT4 or 1xH100:mig (A100 H100 H200 B200 L40S T4)" },
	{ "virtual-time", 0, RF_OPT_FLAG, &o_virtual, NULL, "run: waiting takes no time" },
	{ "machine", 0, RF_OPT_STR, &o_machine, "DIR", "which machine (default: $RINGFENCE_SIM, the local platform's)" },
	{ "card", 0, RF_OPT_INT, &o_card, "N", "which card (default 0)" },
	{ "count", 0, RF_OPT_INT, &o_count, "N", "ecc: how many errors (default 1)" },
	{ "correctable", 0, RF_OPT_FLAG, &o_correctable, NULL, "ecc: correctable ones" },
	RF_OPT_OUTPUT,
};

const struct rf_verb RF_VERB_SIM = {
	.name = "sim",
	.summary = "Run programs on simulated cards, and break the cards on purpose",
	.usage = "run [--cards CARDS] -- program... | cards | xid N | ecc | hang | lose | clear",
	.details = "A simulated machine is a folder; libcuda.so.1 and libnvidia-ml.so.1 from ringfence read it.\n\n"
		   "Examples:\n"
		   "  ringfence sim run --cards 2xH200 -- gpu-demo --info\n"
		   "  ringfence sim xid 79 --card 0        # on the platform's simulated cards\n"
		   "  ringfence sim clear --card 0",
	.subs = "run cards xid ecc hang lose clear",
	RF_VERB_OPTS(OPTS),
	.run = run,
};
