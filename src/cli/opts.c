#include "cli/opts.h"

#include <stdio.h>

static const struct rf_opt *find_long(const struct rf_verb *verb, struct rf_str name)
{
	for (size_t i = 0; i < verb->n_opts; i++)
		if (rf_str_is(name, verb->opts[i].name))
			return &verb->opts[i];
	return NULL;
}

static const struct rf_opt *find_short(const struct rf_verb *verb, char letter)
{
	for (size_t i = 0; i < verb->n_opts; i++)
		if (verb->opts[i].letter == letter)
			return &verb->opts[i];
	return NULL;
}

static int store(const struct rf_opt *opt, const char *value, struct rf_err *err)
{
	if (opt->type == RF_OPT_STR) {
		*(const char **)opt->to = value;
		return 0;
	}
	if (rf_str_int(rf_str(value), opt->to, err) < 0)
		return rf_wrap(err, "--%s", opt->name);
	return 0;
}

struct scan {
	const struct rf_verb *verb;
	int argc;
	char **argv;
	int i; /* the word being read */
};

/* The option's value: behind "=", or the next word. */
static int take_value(struct scan *s, const struct rf_opt *opt, const char *inline_value,
		      struct rf_err *err)
{
	if (inline_value == NULL && s->i + 1 < s->argc && strcmp(s->argv[s->i + 1], "--") != 0)
		inline_value = s->argv[++s->i];
	if (inline_value == NULL)
		return rf_fail(err, RF_BAD_REQUEST, "--%s needs a value: --%s %s", opt->name, opt->name,
			       opt->value);
	return store(opt, inline_value, err);
}

static int take_option(struct scan *s, struct rf_err *err)
{
	const char *word = s->argv[s->i];
	bool is_long = word[1] == '-';
	struct rf_str rest = rf_str(word + (is_long ? 2 : 1)), name;
	bool has_value = rf_str_cut(&rest, '=', &name);
	const struct rf_opt *opt = is_long     ? find_long(s->verb, name) :
				   name.n == 1 ? find_short(s->verb, name.p[0]) :
						 NULL;

	if (opt == NULL)
		return rf_fail(err, RF_BAD_REQUEST,
			       "%s has no option %s; \"ringfence %s --help\" lists them", s->verb->name,
			       word, s->verb->name);
	if (opt->type != RF_OPT_FLAG)
		return take_value(s, opt, has_value ? rest.p : NULL, err);
	if (has_value)
		return rf_fail(err, RF_BAD_REQUEST, "--%s takes no value", opt->name);
	*(bool *)opt->to = true;
	return 0;
}

int rf_opts_parse(const struct rf_verb *verb, int *argc, char **argv, bool *ret_help, struct rf_err *err)
{
	struct scan s = { verb, *argc, argv, 0 };
	int kept = 0;

	*ret_help = false;
	for (; s.i < s.argc; s.i++) {
		const char *word = argv[s.i];

		if (strcmp(word, "--") == 0) { /* the rest belongs to somebody else, dashes and all */
			while (s.i < s.argc)
				argv[kept++] = argv[s.i++];
			break;
		}
		if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
			*ret_help = true;
			return 0;
		}
		if (word[0] != '-' || word[1] == '\0') {
			argv[kept++] = argv[s.i];
			continue;
		}
		if (take_option(&s, err) < 0)
			return -err->code;
	}
	if (kept < s.argc)
		argv[kept] = NULL;
	*argc = kept;
	return 0;
}

int rf_cli_no_more(const struct rf_verb *verb, int argc, char **argv, struct rf_err *err)
{
	if (argc == 0)
		return 0;
	return rf_fail(err, RF_BAD_REQUEST, "%s does not take \"%s\"; \"ringfence %s --help\" says more",
		       verb->name, argv[0], verb->name);
}

void rf_verb_help(const struct rf_verb *verb, struct rf_buf *out)
{
	rf_buf_printf(out, "%s\n\nUsage: ringfence %s %s\n", verb->summary, verb->name, verb->usage);
	if (verb->details != NULL)
		rf_buf_printf(out, "\n%s\n", verb->details);
	if (verb->n_opts == 0)
		return;
	rf_buf_puts(out, "\nOptions:\n");
	for (size_t i = 0; i < verb->n_opts; i++) {
		const struct rf_opt *o = &verb->opts[i];
		char left[64];

		snprintf(left, sizeof(left), "%s--%s %s", o->letter ? (char[]){ '-', o->letter, ',', ' ', 0 } : "    ",
			 o->name, o->value ? o->value : "");
		rf_buf_printf(out, "  %-30s %s\n", left, o->help);
	}
}
