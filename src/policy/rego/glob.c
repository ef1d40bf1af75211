/* Globs: matching one (glob.match), and whether two have something in common (regex.globs_match). Both
 * in time that is bounded by the product of the lengths. */
#include <stdio.h>

#include "codec/utf8.h"
#include "policy/rego/builtin_private.h"

#define MAX_DEPTH 64 /* of { } */

static const char *rune_text(uint32_t c, char buf[5])
{
	buf[rf_utf8_put(buf, c)] = '\0';
	return buf;
}

/* --- glob.match: a pattern is a small program, all of whose threads run at once --- */

enum op { CHAR, ONE, RANGE, LIST, STAR, SUPER, SPLIT, JUMP, DONE };

struct step {
	enum op op;
	bool no;	     /* RANGE, LIST */
	uint32_t lo, hi;     /* CHAR: lo; RANGE */
	struct rf_str chars; /* LIST: without its escapes */
	uint32_t to;	     /* SPLIT: the other way; JUMP */
};

struct glob {
	struct rf_rb_env *e;
	struct rf_str s;
	size_t at;
	struct step *step;
	uint32_t n;
	struct rf_err *err;
	enum rf_rb_result result;
};

static bool refuse(struct glob *g, const char *why)
{
	g->result = rf_rb_fail(g->err, "%s", why);
	return false;
}

static struct step *emit(struct glob *g, enum op op)
{
	struct step *s = &g->step[g->n++];

	*s = (struct step){ .op = op };
	return s;
}

/* The next code point; NUL ends the pattern, as its end does. False: not UTF-8. */
static bool take(struct glob *g, uint32_t *c)
{
	size_t from = g->at;

	*c = 0;
	if (g->at >= g->s.n)
		return true;
	*c = rf_rb_rune(g->s, &g->at);
	if (*c == 0xfffd)
		return refuse(g, "could not read rune");
	if (*c == 0)
		g->at = from;
	return true;
}

static uint32_t peek(struct glob *g)
{
	size_t at = g->at;

	return at < g->s.n ? rf_rb_rune(g->s, &at) : 0;
}

/* [abc]: escapes are taken out here. */
static bool list(struct glob *g, bool no)
{
	char *chars = rf_arena_try(g->e->arena, g->s.n - g->at + 1);
	struct step *s;
	size_t n = 0;
	uint32_t c;

	if (chars == NULL) {
		g->result = RF_RB_FULL;
		return false;
	}
	for (;;) {
		size_t from = g->at;

		if (!take(g, &c))
			return false;
		if (c == 0)
			return refuse(g, "unexpected end of input");
		if (c == ']')
			break;
		if (c == '\\') {
			from = g->at;
			if (!take(g, &c))
				return false;
			if (c == 0)
				return refuse(g, "unexpected end of input");
		}
		memcpy(chars + n, g->s.p + from, g->at - from);
		n += g->at - from;
	}
	if (n == 0)
		return refuse(g, "could not parse range");
	s = emit(g, LIST);
	s->no = no;
	s->chars = rf_str_n(chars, n);
	return true;
}

/* [a-z] or [abc], [!...]; not both in one. */
static bool class(struct glob *g)
{
	bool no = false;
	uint32_t lo, hi, end;
	struct step *s;
	size_t from;

	if (peek(g) == '!') {
		no = true;
		g->at++;
	}
	from = g->at;
	if (!take(g, &lo))
		return false;
	if (lo == 0)
		return refuse(g, "unexpected end of input");
	if (peek(g) != '-') {
		g->at = from;
		return list(g, no);
	}
	g->at++;
	if (!take(g, &hi))
		return false;
	if (hi == 0)
		return refuse(g, "unexpected end of input");
	if (!take(g, &end))
		return false;
	if (end != ']')
		return refuse(g, end == 0 ? "unexpected end of input"
					  : "expected close range character");
	if (hi < lo) {
		char why[80], a[5], b[5];

		snprintf(why, sizeof(why), "hi character '%s' should be greater than lo '%s'",
			 rune_text(hi, a), rune_text(lo, b));
		return refuse(g, why);
	}
	s = emit(g, RANGE);
	s->no = no;
	s->lo = lo;
	s->hi = hi;
	return true;
}

static bool sequence(struct glob *g, int depth, uint32_t *ret_end);

/* {a,b}: a split before every alternative but the last, a jump behind it. */
static bool alternatives(struct glob *g, int depth)
{
	uint32_t jumps = UINT32_MAX, end;

	if (depth >= MAX_DEPTH)
		return refuse(g, "pattern is nested too deeply");
	do {
		uint32_t split = g->n;
		struct step *jump;

		emit(g, SPLIT);
		if (!sequence(g, depth + 1, &end))
			return false;
		jump = emit(g, JUMP);
		jump->to = jumps; /* a chain through them until the end is known */
		jumps = g->n - 1;
		g->step[split].to = g->n;
	} while (end == ',');
	if (end == 0)
		return refuse(g, "unclosed `{`");
	/* the last split has no other way: one that leads nowhere */
	emit(g, CHAR)->lo = UINT32_MAX;
	while (jumps != UINT32_MAX) {
		uint32_t before = g->step[jumps].to;

		g->step[jumps].to = g->n;
		jumps = before;
	}
	return true;
}

/* Up to the end, or within { } up to a comma or the brace: *ret_end. */
static bool sequence(struct glob *g, int depth, uint32_t *ret_end)
{
	for (;;) {
		uint32_t c;

		if (!take(g, &c))
			return false;
		*ret_end = c;
		if (c == 0 || (depth > 0 && (c == ',' || c == '}')))
			return true;
		if (c == '*' && peek(g) == '*') {
			g->at++;
			emit(g, SUPER);
		} else if (c == '*') {
			emit(g, STAR);
		} else if (c == '?') {
			emit(g, ONE);
		} else if (c == '[') {
			if (!class(g))
				return false;
		} else if (c == '{') {
			if (!alternatives(g, depth))
				return false;
		} else {
			if (c == '\\' && !take(g, &c))
				return false;
			if (c == 0)
				return refuse(g, "trailing backslash");
			emit(g, CHAR)->lo = c;
		}
		if (g->result != RF_RB_OK)
			return false;
	}
}

/* Which steps to try on the next code point; each once. */
struct threads {
	uint32_t *step;
	uint32_t n;
};

struct run {
	const struct glob *g;
	const uint32_t *separator;
	size_t n_separators;
	uint32_t *seen;	 /* per step: the round it was last added in */
	uint32_t *stack; /* steps still to look at */
	uint32_t round;
};

static void add(struct run *r, struct threads *t, uint32_t at)
{
	uint32_t n = 0;

	r->stack[n++] = at;
	while (n > 0) {
		const struct step *s;

		at = r->stack[--n];
		if (r->seen[at] == r->round)
			continue;
		r->seen[at] = r->round;
		s = &r->g->step[at];
		if (s->op == JUMP) {
			r->stack[n++] = s->to;
			continue;
		}
		if (s->op == SPLIT)
			r->stack[n++] = s->to;
		else
			t->step[t->n++] = at;
		if (s->op == SPLIT || s->op == STAR || s->op == SUPER)
			r->stack[n++] = at + 1;
	}
}

static bool has_rune(struct rf_str s, uint32_t c)
{
	for (size_t at = 0; at < s.n;)
		if (rf_rb_rune(s, &at) == c)
			return true;
	return false;
}

static bool is_separator(const struct run *r, uint32_t c)
{
	for (size_t i = 0; i < r->n_separators; i++)
		if (r->separator[i] == c)
			return true;
	return false;
}

static bool accepts(const struct run *r, const struct step *s, uint32_t c)
{
	switch (s->op) {
	case CHAR:
		return s->lo == c;
	case ONE:
	case STAR:
		return !is_separator(r, c);
	case RANGE:
		return (c >= s->lo && c <= s->hi) != s->no;
	case LIST:
		return has_rune(s->chars, c) != s->no;
	default:
		return s->op == SUPER;
	}
}

static enum rf_rb_result simulate(struct run *r, struct threads now, struct threads then,
				  struct rf_str text, bool *ret)
{
	const struct step *step = r->g->step;

	r->round = 1;
	add(r, &now, 0);
	for (size_t at = 0; at < text.n && now.n > 0;) {
		uint32_t c = rf_rb_rune(text, &at);
		struct threads swap;

		if (!rf_rb_spend(r->g->e, 1 + now.n / 4))
			return RF_RB_FULL;
		r->round++;
		then.n = 0;
		for (uint32_t i = 0; i < now.n; i++) {
			const struct step *s = &step[now.step[i]];

			if (s->op == LIST && !rf_rb_spend(r->g->e, (int64_t)s->chars.n / 8))
				return RF_RB_FULL;
			if (s->op != DONE && accepts(r, s, c))
				add(r, &then, now.step[i] + (s->op != STAR && s->op != SUPER));
		}
		swap = now;
		now = then;
		then = swap;
	}
	*ret = false;
	for (uint32_t i = 0; i < now.n; i++)
		*ret = *ret || step[now.step[i]].op == DONE;
	return RF_RB_OK;
}

enum rf_rb_result rf_rb_glob(struct rf_rb_env *e, struct rf_str pattern, const uint32_t *separator,
			     size_t n_separators, struct rf_str text, bool *ret, struct rf_err *err)
{
	struct glob g = { .e = e, .s = pattern, .err = err, .result = RF_RB_OK };
	size_t max = 3 * pattern.n + 2;
	struct run r = { .g = &g, .separator = separator, .n_separators = n_separators };
	uint32_t *room, end;

	if (max > UINT32_MAX / 8 || !rf_rb_spend(e, (int64_t)max / 4))
		return RF_RB_FULL;
	g.step = rf_arena_try(e->arena, max * sizeof(*g.step));
	if (g.step == NULL)
		return RF_RB_FULL;
	if (!sequence(&g, 0, &end))
		return g.result;
	emit(&g, DONE);
	room = rf_arena_try(e->arena, sizeof(*room) * 5 * (g.n + 1));
	if (room == NULL)
		return RF_RB_FULL;
	r.seen = room + 2 * (g.n + 1);
	r.stack = room + 3 * (g.n + 1); /* a step puts two there at most, and is looked at once */
	return simulate(&r, (struct threads){ .step = room },
			(struct threads){ .step = room + g.n + 1 }, text, ret);
}

/* --- regex.globs_match: x . [a-z] with * or + behind ---
 *
 * The answers are those of the library OPA uses, which looks through the two patterns from left to right
 * and takes the first way that fits; so it says no to some that do have a string in common. What it
 * finds out for two places is kept, so that no two are looked at twice. */

#define MAX_TOKENS 1000

enum flag { PLAIN, PLUS, REPEAT };

struct span {
	uint32_t lo, hi;
};

struct token {
	bool any; /* . */
	bool set;
	enum flag flag;
	struct span *span; /* in order, apart from each other; a character is a span of one */
	size_t n;
};

struct tokens {
	struct rf_rb_env *e;
	struct rf_str text;
	uint32_t *rune;
	size_t n_runes, at;
	struct token *token;
	size_t n;
	struct rf_err *err;
};

static enum rf_rb_result bad(struct tokens *t, size_t pos, const char *what)
{
	return rf_rb_fail(t->err, "input:%.*s, pos:%zu, %s: the input provided is invalid",
			  (int)RF_MIN(t->text.n, 300), t->text.p, pos, what);
}

static enum rf_rb_result take_rune(struct tokens *t, uint32_t *c, bool *escaped)
{
	*escaped = t->rune[t->at] == '\\';
	if (*escaped && t->at + 1 == t->n_runes)
		return bad(t, t->at, "input ends with a \\ (escape) character");
	t->at += *escaped;
	*c = t->rune[t->at++];
	return RF_RB_OK;
}

static int by_lo(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->lo > y->lo) - (x->lo < y->lo);
}

static void tidy(struct token *k)
{
	size_t n = 0;

	qsort(k->span, k->n, sizeof(*k->span), by_lo);
	for (size_t i = 0; i < k->n; i++) {
		if (n > 0 && k->span[i].lo <= k->span[n - 1].hi + 1)
			k->span[n - 1].hi = RF_MAX(k->span[n - 1].hi, k->span[i].hi);
		else
			k->span[n++] = k->span[i];
	}
	k->n = n;
}

/* Behind a - in [ ]: the span from the character before to the one that follows. */
static enum rf_rb_result take_range(struct tokens *t, struct token *k)
{
	struct span *last = &k->span[k->n - 1];
	bool escaped;
	uint32_t c = 0;
	enum rf_rb_result r;
	char what[80], a[5], b[5];

	if (t->at + 1 >= t->n_runes)
		return bad(t, t->at, "range character '-' must be followed by a Unicode character");
	r = take_rune(t, &c, &escaped);
	if (r != RF_RB_OK)
		return r;
	if (!escaped && (c == ']' || c == '-'))
		return bad(t, t->at, "range character '-' cannot be followed by a special symbol");
	if (c < last->lo) {
		snprintf(what, sizeof(what),
			 "range is out of order: '%s' comes before '%s' in Unicode",
			 rune_text(c, a), rune_text(last->lo, b));
		return bad(t, t->at, what);
	}
	last->hi = c;
	return RF_RB_OK;
}

static enum rf_rb_result take_set(struct tokens *t, struct token *k)
{
	bool before = false, escaped;
	enum rf_rb_result r = RF_RB_OK;
	uint32_t c = 0;

	k->set = true;
	while (t->at < t->n_runes) {
		r = take_rune(t, &c, &escaped);
		if (r != RF_RB_OK)
			return r;
		if (!escaped && c == ']') {
			tidy(k);
			return RF_RB_OK;
		}
		if (!escaped && c == '-') {
			if (!before)
				return bad(t, t->at,
					   "range character '-' must be preceded by a Unicode "
					   "character");
			r = take_range(t, k);
			if (r != RF_RB_OK)
				return r;
			before = false;
			continue;
		}
		k->span[k->n++] = (struct span){ c, c };
		before = true;
	}
	return bad(t, t->at, "found [ without matching ]");
}

/* No fewer than the set that starts here has. */
static size_t spans_of_set(const struct tokens *t)
{
	size_t i = t->at;

	while (i < t->n_runes && t->rune[i] != ']')
		i += t->rune[i] == '\\' ? 2 : 1;
	return i - t->at + 1;
}

static enum rf_rb_result take_token(struct tokens *t, struct token *k)
{
	bool escaped;
	uint32_t c = 0;
	enum rf_rb_result r = take_rune(t, &c, &escaped);
	char what[64];

	if (r != RF_RB_OK)
		return r;
	k->span = rf_arena_try(t->e->arena,
			       sizeof(*k->span) * (!escaped && c == '[' ? spans_of_set(t) : 1));
	if (k->span == NULL)
		return RF_RB_FULL;
	if (!escaped && c == '[') {
		r = take_set(t, k);
	} else if (!escaped && c == ']') {
		r = bad(t, t->at, "set-close ']' with no preceding '['");
	} else if (!escaped && (c == '+' || c == '*')) {
		snprintf(what, sizeof(what), "flag '%c' must be preceded by a non-flag", (char)c);
		r = bad(t, t->at, what);
	} else if (!escaped && c == '.') {
		k->any = true;
	} else {
		k->span[0] = (struct span){ c, c };
		k->n = 1;
	}
	if (r == RF_RB_OK && t->at < t->n_runes && (t->rune[t->at] == '+' || t->rune[t->at] == '*'))
		k->flag = t->rune[t->at++] == '+' ? PLUS : REPEAT;
	return r;
}

static bool same(const struct token *a, const struct token *b)
{
	return a->any == b->any && a->set == b->set && a->n == b->n &&
	       (a->n == 0 || memcmp(a->span, b->span, a->n * sizeof(*a->span)) == 0);
}

static enum rf_rb_result tokenize(struct rf_rb_env *e, struct rf_str s, struct tokens *t,
				  struct rf_err *err)
{
	*t = (struct tokens){ .e = e, .text = s, .err = err };
	if (!rf_rb_spend(e, (int64_t)s.n))
		return RF_RB_FULL;
	t->rune = rf_arena_try(e->arena, (s.n + 1) * sizeof(*t->rune));
	t->token = rf_arena_try(e->arena, (MAX_TOKENS + 1) * sizeof(*t->token));
	if (t->rune == NULL || t->token == NULL)
		return RF_RB_FULL;
	for (size_t at = 0; at < s.n;)
		t->rune[t->n_runes++] = rf_rb_rune(s, &at);
	while (t->at < t->n_runes) {
		struct token *k = &t->token[t->n], *last = k - 1;
		enum rf_rb_result r;

		*k = (struct token){ 0 };
		r = take_token(t, k);
		if (r != RF_RB_OK)
			return r;
		/* x*x* is x*, x*x+ is x+ */
		if (t->n > 0 && k->flag != PLAIN && last->flag != PLAIN && same(k, last))
			last->flag = k->flag == PLUS || last->flag == PLUS ? PLUS : REPEAT;
		else if (++t->n > MAX_TOKENS)
			return rf_rb_fail(err, "pattern has more than %d parts", MAX_TOKENS);
	}
	return RF_RB_OK;
}

static bool overlap(const struct token *a, const struct token *b)
{
	if (a->any || b->any)
		return true;
	for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
		if (a->span[i].hi < b->span[j].lo)
			i++;
		else if (b->span[j].hi < a->span[i].lo)
			j++;
		else
			return true;
	}
	return false;
}

struct meet {
	struct rf_rb_env *e;
	const struct token *t[2];
	size_t n[2];
	signed char
		*known; /* 0: not yet; 1: yes; -1: no. By question, who, place in 0, place in 1. */
	bool full;
};

enum question { NORMAL, REPEATED };

static signed char *known(struct meet *m, enum question q, int who, size_t mine, size_t other)
{
	size_t i = who == 0 ? mine : other, j = who == 0 ? other : mine;

	return &m->known[(((size_t)q * 2 + (size_t)who) * (m->n[0] + 1) + i) * (m->n[1] + 1) + j];
}

static bool fits(struct meet *m, int who, size_t mine, size_t other)
{
	const struct token *a = &m->t[who][mine], *b = &m->t[1 - who][other];

	if (!rf_rb_spend(m->e, 1 + (int64_t)(a->n + b->n) / 8))
		m->full = true;
	return !m->full && overlap(a, b);
}

static bool normal(struct meet *m, int who, size_t mine, size_t other);

/* The token of pattern `who` at `mine` repeats: what of the other does it swallow? */
static bool repeat(struct meet *m, int who, size_t mine, size_t other)
{
	signed char *k = known(m, REPEATED, who, mine, other);
	bool has_next = mine + 1 < m->n[who], yes = false, stuck = false;

	if (*k != 0 || m->full)
		return *k > 0;
	for (size_t o = other; o < m->n[1 - who] && !yes && !stuck && !m->full; o++) {
		yes = has_next && fits(m, who, mine + 1, o) && normal(m, who, mine + 1, o);
		stuck = !yes && !fits(m, who, mine, o);
	}
	if (!yes && !stuck)
		yes = !has_next;
	*k = yes ? 1 : -1;
	return yes && !m->full;
}

/* At least one of the two tokens repeats; if both do, the one of `who` goes first. */
static bool special(struct meet *m, int who, size_t mine, size_t other)
{
	if (m->t[who][mine].flag == PLAIN) {
		size_t swap = mine;

		mine = other;
		other = swap;
		who = 1 - who;
	}
	if (m->t[who][mine].flag == REPEAT)
		return repeat(m, who, mine, other);
	if (!fits(m, who, mine, other))
		return false;
	if (repeat(m, who, mine, other + 1))
		return true;
	return m->t[1 - who][other].flag != PLAIN && normal(m, who, mine + 1, other);
}

static bool normal(struct meet *m, int who, size_t mine, size_t other)
{
	signed char *k = known(m, NORMAL, who, mine, other);
	const struct token *a = m->t[who], *b = m->t[1 - who];
	bool yes = true;

	if (*k != 0 || m->full)
		return *k > 0;
	while (mine < m->n[who] && other < m->n[1 - who] && a[mine].flag == PLAIN &&
	       b[other].flag == PLAIN && yes)
		yes = fits(m, who, mine++, other++);
	if (yes && mine < m->n[who] && other < m->n[1 - who])
		yes = special(m, who, mine, other);
	else
		yes = yes && mine == m->n[who] && other == m->n[1 - who];
	*k = yes ? 1 : -1;
	return yes && !m->full;
}

/* Ends that are plain in both must fit. Leaves one plain token on each side. */
static bool trim_ends(struct meet *m)
{
	size_t l = 0, r[2] = { m->n[0], m->n[1] };

	while (l < m->n[0] && l < m->n[1] && m->t[0][l].flag == PLAIN && m->t[1][l].flag == PLAIN)
		if (!fits(m, 0, l, l))
			return false;
		else
			l++;
	if (l > 0)
		l--;
	while (r[0] > l && r[1] > l && m->t[0][r[0] - 1].flag == PLAIN &&
	       m->t[1][r[1] - 1].flag == PLAIN) {
		if (!fits(m, 0, r[0] - 1, r[1] - 1))
			return false;
		r[0]--;
		r[1]--;
	}
	if (r[0] < m->n[0]) {
		r[0]++;
		r[1]++;
	}
	for (int i = 0; i < 2; i++) {
		m->t[i] += l;
		m->n[i] = r[i] - l;
	}
	return true;
}

enum rf_rb_result rf_rb_globs_meet(struct rf_rb_env *e, struct rf_str a, struct rf_str b, bool *ret,
				   struct rf_err *err)
{
	struct tokens x, y;
	struct meet m = { .e = e };
	enum rf_rb_result r = tokenize(e, a, &x, err);

	if (r == RF_RB_OK)
		r = tokenize(e, b, &y, err);
	if (r != RF_RB_OK)
		return r;
	m.t[0] = x.token;
	m.t[1] = y.token;
	m.n[0] = x.n;
	m.n[1] = y.n;
	m.known = rf_arena_try(e->arena, 4 * (x.n + 1) * (y.n + 1));
	if (m.known == NULL)
		return RF_RB_FULL;
	*ret = trim_ends(&m) && normal(&m, 0, 0, 0);
	return m.full ? RF_RB_FULL : RF_RB_OK;
}
