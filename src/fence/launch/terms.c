/* From the words on the command line to limits. */
#include <stdio.h>

#include "fence/launch/launch.h"

#define MIB ((uint64_t)1 << 20)
#define MEMORY_LEAST MIB /* whatever the card: no context is so small */

/* What somebody may have meant who wrote so few bytes: "20" is 20Gi, "2048" and "500m" are so many Mi.
 * NULL: no idea. */
static const char *forgotten_suffix(const char *text, uint64_t bytes)
{
	size_t digits = strspn(text, "0123456789.");

	if (strcmp(text + digits, "m") == 0)
		return "Mi";
	if (text[digits] != '\0')
		return NULL;
	return bytes < 1024 ? "Gi" : "Mi";
}

static int too_little(const char *text, uint64_t bytes, struct rf_err *err)
{
	const char *suffix = forgotten_suffix(text, bytes);
	rf_auto(buf) hint = RF_BUF_INIT;

	if (suffix != NULL)
		rf_buf_printf(&hint, "did you mean %.*s%s?", (int)strspn(text, "0123456789."), text,
			      suffix);
	else
		rf_buf_puts(&hint, "write it like 20Gi");
	return rf_fail(err, RF_INVALID,
		       "--memory %s: that is %llu byte%s, and no program runs on a card with less "
		       "than 1Mi; %s",
		       text, (unsigned long long)bytes, bytes == 1 ? "" : "s", hint.p);
}

static int read_memory(const char *text, uint64_t *ret, struct rf_err *err)
{
	int64_t bytes = 0;

	*ret = 0;
	if (text == NULL)
		return 0;
	if (rf_quantity_value(rf_str(text), &bytes, err) < 0)
		return rf_wrap(err, "--memory");
	if (bytes <= 0)
		return rf_fail(err, RF_INVALID,
			       "--memory %s: a program needs some; leave the option out for the "
			       "whole card",
			       text);
	if ((uint64_t)bytes < MEMORY_LEAST)
		return too_little(text, (uint64_t)bytes, err);
	*ret = (uint64_t)bytes;
	return 0;
}

static int read_compute(const char *text, uint32_t *ret, struct rf_err *err)
{
	struct rf_str s = rf_str(text);
	int64_t milli = 0;

	*ret = 1000;
	if (text == NULL)
		return 0;
	if (s.n > 0 && s.p[s.n - 1] == '%')
		s.n--;
	if (rf_quantity_milli(s, &milli, NULL) < 0 || milli < 1000 || milli > 100000)
		return rf_fail(err, RF_INVALID,
			       "--compute %s: the share of a card's time is 1 to 100 (per cent)",
			       text);
	*ret = (uint32_t)(milli / 100);
	return 0;
}

static bool is_called(const struct rf_gpu_card *c, struct rf_str word)
{
	int64_t index = -1;

	if (rf_str_ieq(rf_str(c->uuid), word))
		return true;
	return rf_str_int(word, &index, NULL) == 0 && index == c->index;
}

static int no_such_card(const struct rf_machine *m, struct rf_str word, struct rf_err *err)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; i < m->n; i++)
		rf_buf_printf(&b, "%s%d (%s)", i ? ", " : "", m->cards[i].index, m->cards[i].uuid);
	return rf_fail(err, RF_INVALID, "--card %.*s: this machine has %.800s", RF_STR(word), b.p);
}

static int pick_card(const struct rf_machine *m, struct rf_str word, bool picked[RF_GPU_CARDS_MAX],
		     struct rf_err *err)
{
	bool found = false;

	for (size_t i = 0; i < m->n; i++) {
		if (rf_str_is(word, "all") || is_called(&m->cards[i], word))
			picked[i] = found = true;
	}
	return found ? 0 : no_such_card(m, word, err);
}

static int pick_cards(const struct rf_machine *m, const char *words, bool picked[RF_GPU_CARDS_MAX],
		      struct rf_err *err)
{
	struct rf_str rest = rf_str(words), word;
	bool more;

	if (words == NULL) { /* the first there is: its number need not be 0 */
		picked[0] = true;
		return 0;
	}
	do {
		more = rf_str_cut(&rest, ',', &word);
		if (pick_card(m, rf_str_trim(word), picked, err) < 0)
			return -err->code;
	} while (more);
	return 0;
}

static int check_fits(const struct rf_gpu_card *c, uint64_t bytes, const char *text,
		      struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	if (bytes <= (uint64_t)c->memory_bytes)
		return 0;
	return rf_fail(err, RF_INVALID, "--memory %s: card %d (%s) has %.*s", text, c->index,
		       c->name, RF_STR(rf_quantity_bytes(&a, c->memory_bytes)));
}

struct figures {
	uint64_t memory;
	uint32_t compute;
};

static int read_figures(const struct rf_launch_opts *o, struct figures *ret, struct rf_err *err)
{
	if (read_memory(o->memory, &ret->memory, err) < 0 ||
	    read_compute(o->compute, &ret->compute, err) < 0)
		return -err->code;
	if (o->priority < -1000 || o->priority > 1000)
		return rf_fail(err, RF_INVALID,
			       "--priority %lld: it is -1000 to 1000, 0 if not said",
			       (long long)o->priority);
	return 0;
}

/* An option whose value was forgotten has taken the next word for it. */
static int check_given(const char *option, const char *value, const char *wants, struct rf_err *err)
{
	if (value == NULL || strncmp(value, "--", 2) != 0)
		return 0;
	return rf_fail(err, RF_INVALID, "--%s wants %s, but the next word is \"%s\"", option, wants,
		       value);
}

static int check_all_given(const struct rf_launch_opts *o, struct rf_err *err)
{
	if (check_given("memory", o->memory, "a size, such as 20Gi", err) < 0 ||
	    check_given("compute", o->compute, "per cent, such as 50", err) < 0 ||
	    check_given("card", o->cards, "a card's number or UUID, or all", err) < 0 ||
	    check_given("name", o->name, "a name", err) < 0)
		return -err->code;
	return 0;
}

static int check_name(const char *name, struct rf_err *err)
{
	if (name == NULL || rf_str_trim(rf_str(name)).n > 0)
		return 0;
	return rf_fail(
		err, RF_INVALID,
		"--name \"%s\": stats would show a fence without a name; write one, or leave "
		"the option out for the program's",
		name);
}

int rf_terms_check(const struct rf_launch_opts *o, struct rf_err *err)
{
	struct figures f;

	if (check_all_given(o, err) < 0 || check_name(o->name, err) < 0)
		return -err->code;
	return read_figures(o, &f, err);
}

int rf_terms_check_context(const struct rf_launch_opts *o, const struct rf_gpu_card *c,
			   const struct rf_fence_limit *l, struct rf_err *err)
{
	if (l->memory_bytes == 0 || l->memory_bytes >= l->context_bytes)
		return 0;
	return rf_fail(
		err, RF_INVALID,
		"--memory %s: on card %d (%s) a program's context alone takes %lluMi; ask for "
		"more than that, or leave the option out for the whole card",
		o->memory, c->index, c->name,
		(unsigned long long)((l->context_bytes + MIB - 1) / MIB));
}

int rf_terms_read(const struct rf_launch_opts *o, const struct rf_machine *m,
		  struct rf_fence_limits *ret, struct rf_err *err)
{
	bool picked[RF_GPU_CARDS_MAX] = { false };
	struct rf_fence_card cards[RF_GPU_CARDS_MAX];
	struct figures f;
	size_t n = 0;

	if (read_figures(o, &f, err) < 0 || pick_cards(m, o->cards, picked, err) < 0)
		return -err->code;
	for (size_t i = 0; i < m->n; i++) {
		if (!picked[i])
			continue;
		if (check_fits(&m->cards[i], f.memory, o->memory, err) < 0)
			return -err->code;
		cards[n] = (struct rf_fence_card){ .memory_bytes = f.memory,
						   .compute_milli = f.compute,
						   .priority = (int32_t)o->priority,
						   .burst = o->burst,
						   .spatial = o->mps };
		snprintf(cards[n].uuid, sizeof(cards[n].uuid), "%s", m->cards[i].uuid);
		n++;
	}
	return rf_fence_limits_fill(ret, cards, n, err);
}

/* CUDA takes the beginning of a UUID too, and stops at the first word that names no card. */
static const struct rf_gpu_card *card_seen(const struct rf_machine *m, struct rf_str word)
{
	for (size_t i = 0; i < m->n; i++) {
		struct rf_str uuid = rf_str(m->cards[i].uuid);

		if (is_called(&m->cards[i], word) ||
		    (word.n > 4 && word.n < uuid.n && rf_str_ieq(rf_str_n(uuid.p, word.n), word)))
			return &m->cards[i];
	}
	return NULL;
}

static bool is_inside(const struct rf_fence_limits *limits, const char *uuid)
{
	for (uint32_t i = 0; i < limits->count; i++)
		if (strcmp(limits->card[i].uuid, uuid) == 0)
			return true;
	return false;
}

int rf_terms_check_visible(const char *visible, const struct rf_machine *m,
			   const struct rf_fence_limits *limits, struct rf_err *err)
{
	struct rf_str rest = rf_str(visible ? visible : ""), word;
	const struct rf_gpu_card *card;
	bool more;

	do {
		more = rf_str_cut(&rest, ',', &word);
		card = card_seen(m, rf_str_trim(word));
		if (card != NULL && !is_inside(limits, card->uuid))
			return rf_fail(err, RF_INVALID,
				       "CUDA_VISIBLE_DEVICES=%.200s names card %d, which is not in "
				       "this fence; say --card %.200s, or unset the variable",
				       visible, card->index, visible);
	} while (more && card != NULL);
	return 0;
}
