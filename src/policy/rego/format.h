/* What the files of the formatter share. Private to this room.
 *
 * The tree is printed; where lines break inside brackets and bodies is taken from the source. A comment
 * goes where a line ends. One that stands where no line would end makes its expression odd: that one is
 * then written as it was. */
#ifndef RF_POLICY_REGO_FORMAT_H
#define RF_POLICY_REGO_FORMAT_H

#include "policy/rego/ast.h"

struct rf_rf {
	struct rf_buf *out;
	const struct rf_ra_module *m;
	uint32_t *line; /* where each begins */
	uint32_t n_lines;
	uint32_t comment; /* the next to be written */
	uint32_t row;	  /* of the source, where what was written last ended */
	int level;
	bool odd;
	bool long_heads; /* some rule has a.b.c for a name: all are written that way */
	const struct rf_ra_term *lead; /* a union that a body in braces begins with */
};

/* What may come before the next thing, once the line is ended. */
enum rf_rf_gap {
	RF_GAP_NONE,  /* no empty line */
	RF_GAP_FIRST, /* first in a body: one between comments and it, if it was there */
	RF_GAP_KEEP,  /* one if it was there, or if comments come */
	RF_GAP_ALWAYS,
};

/* Ends the line, with the comments before that place; the next line is indented. */
void rf_rf_line(struct rf_rf *f, uint32_t at, uint32_t row, enum rf_rf_gap gap);
/* One level out, with the closing mark to be written on a line of its own; comments before it stay in. */
void rf_rf_close(struct rf_rf *f, uint32_t close);
/* About to write what stands there, in the middle of a line. */
void rf_rf_at(struct rf_rf *f, uint32_t at);
uint32_t rf_rf_row(const struct rf_rf *f, uint32_t at); /* of a place in the source */
static inline uint32_t rf_rf_end(struct rf_ra_loc loc)
{
	return loc.at + loc.n;
}
static inline uint32_t rf_rf_end_row(const struct rf_rf *f, struct rf_ra_loc loc)
{
	return rf_rf_row(f, loc.n ? rf_rf_end(loc) - 1 : loc.at);
}

struct rf_rf_mark { /* to go back to when something turns out to be odd */
	size_t n;
	uint32_t comment, row;
	int level;
	bool odd;
};
struct rf_rf_mark rf_rf_begin(struct rf_rf *f);
/* If it was odd: away with it, and the source's own text instead. */
void rf_rf_finish(struct rf_rf *f, struct rf_rf_mark mark, struct rf_ra_loc loc);

/* format_term.c */
void rf_rf_term(struct rf_rf *f, const struct rf_ra_term *t);
void rf_rf_whole(struct rf_rf *f, const struct rf_ra_term *t);	/* an expression of its own */
void rf_rf_domain(struct rf_rf *f, const struct rf_ra_term *t); /* beside `in` */
bool rf_rf_brace_led(const struct rf_ra_term *t);		/* is written with { first */
const struct rf_ra_term *rf_rf_union_led(const struct rf_ra_term *t); /* the union that it begins with, or NULL */
void rf_rf_ref_part(struct rf_rf *f, const struct rf_ra_term *t);
void rf_rf_name(struct rf_rf *f, struct rf_str name, bool quote_keywords); /* .name or ["name"] */
/* Between brackets; step 2: pairs. The closing one stands at `close`. */
void rf_rf_items(struct rf_rf *f, struct rf_ra_term *const *item, uint32_t n, uint32_t step,
		 uint32_t open_row, uint32_t close);

/* format_body.c */
void rf_rf_expr(struct rf_rf *f, const struct rf_ra_expr *e);
/* A body on lines of its own, up to the closing mark, which is left to write. */
void rf_rf_block(struct rf_rf *f, const struct rf_ra_body *b, uint32_t close);
/* Behind [x | or {: on this line if it was, which gives true, else as a block. close: where it ends in the
 * source. */
bool rf_rf_inner_body(struct rf_rf *f, const struct rf_ra_body *b, uint32_t from_row,
		      uint32_t close);

#endif
