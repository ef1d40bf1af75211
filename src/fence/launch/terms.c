/* From the words on the command line to limits. */
#include <stdio.h>

#include "fence/launch/launch.h"

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

int rf_terms_check(const struct rf_launch_opts *o, struct rf_err *err)
{
	struct figures f;

	return read_figures(o, &f, err);
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
