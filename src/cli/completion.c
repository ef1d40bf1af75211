/* Shell completion and the manual page, both made from the table of verbs. */
#include <stdio.h>

#include "cli/cli.h"

static void bash(struct rf_buf *b)
{
	rf_buf_puts(b, "# ringfence completion for bash: source <(ringfence completion bash)\n"
		       "_ringfence() {\n"
		       "\tlocal cur=${COMP_WORDS[COMP_CWORD]} words=\n"
		       "\tif ((COMP_CWORD == 1)); then\n\t\twords='");
	for (const struct rf_verb *const *v = RF_VERBS; *v != NULL; v++)
		if (!(*v)->hidden)
			rf_buf_printf(b, "%s ", (*v)->name);
	rf_buf_puts(b, "help'\n\telse\n\t\tcase ${COMP_WORDS[1]} in\n");
	for (const struct rf_verb *const *v = RF_VERBS; *v != NULL; v++) {
		if ((*v)->hidden)
			continue;
		rf_buf_printf(b, "\t\t%s) words='%s --help", (*v)->name, (*v)->subs ? (*v)->subs : "");
		for (size_t i = 0; i < (*v)->n_opts; i++)
			rf_buf_printf(b, " --%s", (*v)->opts[i].name);
		rf_buf_puts(b, "' ;;\n");
	}
	rf_buf_puts(b, "\t\tesac\n\tfi\n"
		       "\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
		       "}\ncomplete -o default -F _ringfence ringfence\n");
}

/* zsh and fish: verbs with their summaries, options with their help. */
static void quoted(struct rf_buf *b, const char *text)
{
	for (; *text != '\0'; text++)
		rf_buf_puts(b, *text == '\'' ? "'\\''" : (char[]){ *text, '\0' });
}

static void fish(struct rf_buf *b)
{
	for (const struct rf_verb *const *v = RF_VERBS; *v != NULL; v++) {
		if ((*v)->hidden)
			continue;
		rf_buf_printf(b, "complete -c ringfence -n __fish_use_subcommand -f -a %s -d '", (*v)->name);
		quoted(b, (*v)->summary);
		rf_buf_puts(b, "'\n");
		if ((*v)->subs != NULL)
			rf_buf_printf(b, "complete -c ringfence -n '__fish_seen_subcommand_from %s' -f -a '%s'\n",
				      (*v)->name, (*v)->subs);
		for (size_t i = 0; i < (*v)->n_opts; i++) {
			rf_buf_printf(b, "complete -c ringfence -n '__fish_seen_subcommand_from %s' -l %s -d '",
				      (*v)->name, (*v)->opts[i].name);
			quoted(b, (*v)->opts[i].help);
			rf_buf_puts(b, "'\n");
		}
	}
}

static void zsh(struct rf_buf *b)
{
	rf_buf_puts(b, "#compdef ringfence\nautoload -U +X bashcompinit && bashcompinit\n");
	bash(b);
}

static int complete(int argc, char **argv, struct rf_err *err)
{
	static const struct {
		const char *shell;
		void (*write)(struct rf_buf *b);
	} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; argc == 1 && i < RF_COUNT(shells); i++) {
		if (strcmp(argv[0], shells[i].shell) != 0)
			continue;
		shells[i].write(&b);
		fwrite(b.p, 1, b.n, stdout);
		return 0;
	}
	return rf_fail(err, RF_BAD_REQUEST, "say which shell: ringfence completion bash, zsh or fish");
}

/* Text for roff: backslashes and leading dots must not be taken as commands. */
static void roff(struct rf_buf *b, const char *text)
{
	bool start = true;

	for (; *text != '\0'; text++) {
		if (start && (*text == '.' || *text == '\''))
			rf_buf_puts(b, "\\&");
		if (*text == '\\')
			rf_buf_puts(b, "\\e");
		else if (*text == '-')
			rf_buf_puts(b, "\\-");
		else
			rf_buf_add_c(b, *text);
		start = *text == '\n';
	}
}

static void man_verb(struct rf_buf *b, const struct rf_verb *v)
{
	rf_buf_printf(b, ".SS ringfence %s ", v->name);
	roff(b, v->usage);
	rf_buf_puts(b, "\n");
	roff(b, v->summary);
	rf_buf_puts(b, ".\n");
	if (v->details != NULL) {
		rf_buf_puts(b, ".PP\n.nf\n");
		roff(b, v->details);
		rf_buf_puts(b, "\n.fi\n");
	}
	for (size_t i = 0; i < v->n_opts; i++) {
		rf_buf_printf(b, ".TP\n.B \\-\\-%s %s\n", v->opts[i].name, v->opts[i].value ? v->opts[i].value : "");
		roff(b, v->opts[i].help);
		rf_buf_puts(b, "\n");
	}
}

static int man(int argc, char **argv, struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;

	if (rf_cli_no_more(&RF_VERB_MAN, argc, argv, err) < 0)
		return -err->code;
	rf_buf_printf(&b, ".TH RINGFENCE 1 \"\" \"ringfence %s\" \"User Commands\"\n", RF_VERSION);
	rf_buf_puts(&b, ".SH NAME\nringfence \\- share GPUs among tenants who do not trust each other\n"
			".SH SYNOPSIS\n.B ringfence\n.I verb\n[options]\n.SH VERBS\n");
	for (const struct rf_verb *const *v = RF_VERBS; *v != NULL; v++)
		if (!(*v)->hidden)
			man_verb(&b, *v);
	rf_buf_puts(&b, ".SH EXIT STATUS\n0 done; 1 it failed; 2 the question was wrong; 3 not found; "
			"4 not allowed; 5 somebody else was first.\n"
			".SH FILES\n/var/lib/ringfence: the platform's data unless \\-\\-data says otherwise.\n");
	fwrite(b.p, 1, b.n, stdout);
	return 0;
}

const struct rf_verb RF_VERB_COMPLETION = {
	.name = "completion",
	.summary = "Print a completion script for a shell",
	.usage = "bash|zsh|fish",
	.details = "Example:\n  source <(ringfence completion bash)",
	.subs = "bash zsh fish",
	.run = complete,
};

const struct rf_verb RF_VERB_MAN = {
	.name = "man",
	.summary = "Print the manual page in roff",
	.usage = "",
	.hidden = true,
	.run = man,
};
