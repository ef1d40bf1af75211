/* sprintf: Go's fmt over values as OPA hands them to it. A number is an int64, a float64 (if it is
 * written with a point), a *big.Int, or its text; a string is a string; everything else is the string
 * that Rego prints. */
#include <math.h>
#include <stdio.h>

#include "policy/rego/builtin_private.h"
#include "policy/rego/number.h"

#define MAX_WIDTH 1000000 /* Go's: a larger one is no number, and the verb behind it is not found */

struct spec {
	bool sharp, zero, plus, minus, space;
	bool sharp_v, plus_v; /* with %v they mean another thing, and are kept here */
	bool has_width, has_precision;
	int64_t width, precision;
};

enum kind { KIND_INT, KIND_FLOAT, KIND_BIG, KIND_TEXT };

static enum kind kind_of(struct rf_rv v)
{
	struct rf_str t;

	if (v.type != RF_RV_NUMBER)
		return KIND_TEXT;
	if (!v.big)
		return KIND_INT;
	t = v.number->text;
	if (memchr(t.p, '.', t.n) == NULL && memchr(t.p, 'e', t.n) == NULL && memchr(t.p, 'E', t.n) == NULL)
		return KIND_BIG;
	return isfinite(rf_rn_double(v)) ? KIND_FLOAT : KIND_TEXT;
}

static const char *type_of(enum kind k)
{
	static const char *const name[] = { "int64", "float64", "*big.Int", "string" };

	return name[k];
}

/* --- padding --- */

static void pad_as(struct rf_rb_out *o, const struct spec *f, struct rf_str s, bool zeros)
{
	int64_t runes = f->has_width ? (int64_t)rf_rb_runes(s) : 0;
	size_t n = f->has_width && f->width > runes ? (size_t)(f->width - runes) : 0;

	if (!f->minus)
		rf_rb_out_fill(o, zeros && f->zero ? '0' : ' ', n);
	rf_rb_out_add(o, s);
	if (f->minus)
		rf_rb_out_fill(o, ' ', n);
}

static void pad(struct rf_rb_out *o, const struct spec *f, struct rf_str s)
{
	pad_as(o, f, s, true);
}

/* --- quotes --- */

static bool printable(uint32_t c)
{
	if (c < 0x7f)
		return c >= 0x20;
	if (c < 0xa1 || c == 0xad)
		return false;
	if ((c >= 0x2000 && c <= 0x200f) || (c >= 0x2028 && c <= 0x202f) ||
	    (c >= 0x205f && c <= 0x206f) || c == 0x1680 || c == 0x3000)
		return false;
	return !(c >= 0xd800 && c <= 0xf8ff) && c != 0xfeff && !(c >= 0xfff0 && c <= 0xfffb) &&
	       c < 0xe0000 && (c & 0xfffe) != 0xfffe;
}

/* What is not written as it is. */
static void quote_rune(struct rf_buf *b, uint32_t c, char quote)
{
	static const char plain[] = "\a\b\f\n\r\t\v", letter[] = "abfnrtv";
	const char *found = c > 0 && c < 0x20 ? strchr(plain, (int)c) : NULL;

	if (c == (uint32_t)(unsigned char)quote || c == '\\')
		rf_buf_printf(b, "\\%c", (char)c);
	else if (found != NULL)
		rf_buf_printf(b, "\\%c", letter[found - plain]);
	else if (c < 0x7f && c >= 0x20)
		rf_buf_add_c(b, (char)c);
	else if (c < 0x20 || c == 0x7f)
		rf_buf_printf(b, "\\x%02x", c);
	else
		rf_buf_printf(b, c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
}

static void quote(struct rf_rb_out *o, struct rf_buf *b, struct rf_str s, bool ascii)
{
	rf_buf_add_c(b, '"');
	for (size_t at = 0; at < s.n && !o->full;) {
		size_t from = at;
		uint32_t c = rf_rb_rune(s, &at);

		if (c == 0xfffd && at == from + 1)
			rf_buf_printf(b, "\\x%02x", (unsigned char)s.p[from]);
		else if (c >= 0x80 && !ascii && printable(c))
			rf_buf_add(b, rf_str_n(s.p + from, at - from));
		else
			quote_rune(b, c, '"');
		if (b->n > o->max)
			o->full = true;
	}
	rf_buf_add_c(b, '"');
}

/* May it stand in backquotes: one line, no control characters but the tab. */
static bool can_backquote(struct rf_str s)
{
	for (size_t at = 0; at < s.n;) {
		size_t from = at;
		uint32_t c = rf_rb_rune(s, &at);

		if ((c < 0x20 && c != '\t') || c == '`' || c == 0x7f || c == 0xfeff ||
		    (c == 0xfffd && at == from + 1))
			return false;
	}
	return true;
}

/* --- one value of each kind; false: the verb is not for it --- */

static struct rf_str cut(const struct spec *f, struct rf_str s)
{
	size_t at = 0;

	if (!f->has_precision)
		return s;
	for (int64_t i = 0; i < f->precision && at < s.n; i++)
		rf_rb_rune(s, &at);
	return rf_str_n(s.p, at);
}

static void put_hex(struct rf_rb_out *o, const struct spec *f, struct rf_str s, bool upper)
{
	const char *digit = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	size_t n = f->has_precision ? RF_MIN((size_t)f->precision, s.n) : s.n;
	struct spec fill = *f;
	size_t width = 2 * n;

	if (n > 0 && f->space)
		width = width * (f->sharp ? 2 : 1) + n - 1;
	else if (n > 0 && f->sharp)
		width += 2;
	fill.width = f->has_width && (size_t)f->width > width ? f->width - (int64_t)width : 0;
	if (!f->minus)
		pad(o, &fill, RF_STR_EMPTY);
	for (size_t i = 0; i < n && !o->full; i++) {
		if (f->space && i > 0)
			rf_rb_out_c(o, ' ');
		if (f->sharp && (f->space || i == 0))
			rf_rb_out_add(o, upper ? RF_LIT("0X") : RF_LIT("0x"));
		rf_rb_out_c(o, digit[(unsigned char)s.p[i] >> 4]);
		rf_rb_out_c(o, digit[(unsigned char)s.p[i] & 15]);
	}
	if (f->minus)
		pad(o, &fill, RF_STR_EMPTY);
}

static void put_quoted(struct rf_rb_out *o, const struct spec *f, struct rf_str s, bool back)
{
	rf_auto(buf) b = RF_BUF_INIT;

	s = cut(f, s);
	if (!rf_rb_spend(o->e, (int64_t)s.n / 8)) {
		o->full = true;
		return;
	}
	if (back && can_backquote(s)) {
		rf_buf_add_c(&b, '`');
		rf_buf_add(&b, s);
		rf_buf_add_c(&b, '`');
	} else {
		quote(o, &b, s, f->plus);
	}
	pad(o, f, rf_buf_str(&b));
}

static bool put_text(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_str s)
{
	switch (verb) {
	case 'v':
		if (f->sharp_v)
			put_quoted(o, f, s, false);
		else
			pad(o, f, cut(f, s));
		return true;
	case 's':
		pad(o, f, cut(f, s));
		return true;
	case 'x':
	case 'X':
		put_hex(o, f, s, verb == 'X');
		return true;
	case 'q':
		put_quoted(o, f, s, f->sharp);
		return true;
	default:
		return false;
	}
}

/* [sign][prefix][zeros][digits], padded. */
static void put_digits(struct rf_rb_out *o, const struct spec *f, bool negative, const char *prefix,
		       struct rf_str digits, bool big)
{
	const char *sign = negative ? "-" : f->plus ? "+" : f->space ? " " : "";
	int64_t least = 0, have = (int64_t)digits.n, length;
	size_t left = 0, right = 0;

	if (f->has_precision)
		least = f->precision;
	else if (f->zero && !f->minus && f->has_width)
		least = f->width - (int64_t)strlen(sign) - (big ? (int64_t)strlen(prefix) : 0);
	/* octal's prefix is a zero like those that fill up */
	if (!big && strcmp(prefix, "0") == 0 && least > have)
		prefix = "";
	least = RF_MAX(least - have, 0);
	length = (int64_t)strlen(sign) + (int64_t)strlen(prefix) + least + have;
	if (f->has_width && f->width > length)
		*(f->minus ? &right : &left) = (size_t)(f->width - length);
	rf_rb_out_fill(o, ' ', left);
	rf_rb_out_add(o, rf_str(sign));
	rf_rb_out_add(o, rf_str(prefix));
	rf_rb_out_fill(o, '0', (size_t)least);
	rf_rb_out_add(o, digits);
	rf_rb_out_fill(o, ' ', right);
}

static void put_whole(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v)
{
	rf_auto(buf) b = RF_BUF_INIT;
	int base = verb == 'b' ? 2 : verb == 'o' || verb == 'O' ? 8 : (verb | 32) == 'x' ? 16 : 10;
	struct spec g = *f;
	struct rf_str s;
	const char *prefix = "";
	bool negative;
	int64_t weight = v.big ? (int64_t)v.number->text.n / 16 : 0;

	if (!rf_rb_spend(o->e, weight * weight) || !rf_rn_format_int(&b, v, base, verb == 'X')) {
		o->full = true;
		return;
	}
	s = rf_buf_str(&b);
	negative = s.n > 0 && s.p[0] == '-';
	s = rf_str_skip(s, negative);
	if (v.big) { /* big.Int does not tell them apart */
		g.plus = f->plus || f->plus_v;
		g.sharp = f->sharp || f->sharp_v;
	}
	if (rf_str_is(s, "0") && f->has_precision && f->precision == 0) {
		if (!v.big)
			rf_rb_out_fill(o, ' ', f->has_width ? (size_t)f->width : 0);
		return;
	}
	if (verb == 'O')
		prefix = g.sharp && !v.big ? "0o0" : "0o";
	else if (g.sharp)
		prefix = verb == 'b'   ? "0b"
			 : verb == 'x' ? "0x"
			 : verb == 'X' ? "0X"
			 : verb == 'o' ? "0"
				       : "";
	if (!v.big && verb == 'o' && s.n > 0 && s.p[0] == '0')
		prefix = "";
	put_digits(o, &g, negative, prefix, s, v.big);
}

static void put_rune(struct rf_rb_out *o, const struct spec *f, uint32_t verb, int64_t i)
{
	rf_auto(buf) b = RF_BUF_INIT;
	uint32_t c = i < 0 || i > 0x10ffff || (i >= 0xd800 && i < 0xe000) ? 0xfffd : (uint32_t)i;
	rf_auto(rb_out) text = rf_rb_out_new(o->e);

	if (verb == 'c') {
		rf_rb_out_rune(&text, c);
		pad(o, f, rf_buf_str(&text.b));
	} else if (verb == 'q') {
		rf_rb_out_c(&text, '\'');
		if (c >= 0x80 && !f->plus && printable(c)) {
			rf_rb_out_rune(&text, c);
		} else {
			quote_rune(&b, c, '\'');
			rf_rb_out_add(&text, rf_buf_str(&b));
		}
		rf_rb_out_c(&text, '\'');
		pad(o, f, rf_buf_str(&text.b));
	} else {
		int digits = f->has_precision && f->precision > 4 ? (int)f->precision : 4;

		rf_buf_printf(&b, "%llX", (unsigned long long)i);
		rf_rb_out_add(&text, RF_LIT("U+"));
		rf_rb_out_fill(&text, '0', (size_t)digits > b.n ? (size_t)digits - b.n : 0);
		rf_rb_out_add(&text, rf_buf_str(&b));
		if (f->sharp && i >= 0 && i <= 0x10ffff && printable(c)) {
			rf_rb_out_add(&text, RF_LIT(" '"));
			rf_rb_out_rune(&text, c);
			rf_rb_out_c(&text, '\'');
		}
		pad_as(o, f, rf_buf_str(&text.b), false);
	}
	o->full = o->full || text.full;
}

static bool put_int(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v)
{
	switch (verb) {
	case 'v':
	case 'd':
	case 'b':
	case 'o':
	case 'O':
	case 'x':
	case 'X':
		put_whole(o, f, verb, v);
		return true;
	case 'c':
	case 'q':
	case 'U':
		put_rune(o, f, verb, v.i);
		return true;
	default:
		return false;
	}
}

/* The shortest digits that read back as d, laid out as %g does with them. */
static void shortest(struct rf_buf *b, double d, bool upper)
{
	char digits[40], *e;
	int exp, n;

	for (int p = 0; p < 18; p++) {
		snprintf(digits, sizeof(digits), "%.*e", p, d);
		if (strtod(digits, NULL) == d)
			break;
	}
	e = strchr(digits, 'e');
	exp = (int)strtol(e + 1, NULL, 10);
	n = (int)(e - digits) - (digits[0] == '-');
	n = n > 1 ? n - 1 : n; /* the point */
	if (exp < -4 || exp >= 6) {
		*e = '\0';
		rf_buf_printf(b, "%s%c%+03d", digits, upper ? 'E' : 'e', exp);
		return;
	}
	rf_buf_printf(b, "%.*f", RF_MAX(n - 1 - exp, 0), d);
}

/* %#g keeps a point and six digits at least. */
static void sharpen(struct rf_buf *b, double d, bool upper)
{
	rf_auto(buf) plain = RF_BUF_INIT;
	size_t exp, digits = 0;
	bool point = false;

	shortest(&plain, d, upper);
	exp = strcspn(plain.p, "eE");
	for (size_t i = 0; i < exp; i++) {
		point = point || plain.p[i] == '.';
		digits += plain.p[i] >= (digits > 0 ? '0' : '1') && plain.p[i] <= '9';
	}
	if (d == 0)
		digits = 1;
	rf_buf_add(b, rf_str_n(plain.p, exp));
	if (!point)
		rf_buf_add_c(b, '.');
	for (; digits < 6; digits++)
		rf_buf_add_c(b, '0');
	rf_buf_puts(b, plain.p + exp);
}

static void float_digits(struct rf_buf *b, const struct spec *f, uint32_t verb, double d)
{
	bool sharp = f->sharp;

	switch (verb) {
	case 'v':
	case 'g':
	case 'G':
		if (!f->has_precision)
			(sharp ? sharpen : shortest)(b, d, verb == 'G');
		else if (verb == 'G')
			rf_buf_printf(b, sharp ? "%#.*G" : "%.*G", (int)f->precision, d);
		else
			rf_buf_printf(b, sharp ? "%#.*g" : "%.*g", (int)f->precision, d);
		break;
	case 'e':
		rf_buf_printf(b, sharp ? "%#.*e" : "%.*e", f->has_precision ? (int)f->precision : 6,
			      d);
		break;
	case 'E':
		rf_buf_printf(b, sharp ? "%#.*E" : "%.*E", f->has_precision ? (int)f->precision : 6,
			      d);
		break;
	default:
		rf_buf_printf(b, sharp ? "%#.*f" : "%.*f", f->has_precision ? (int)f->precision : 6,
			      d);
	}
}

/* 0x1.8p+01: two digits of exponent at least. %b: mantissa and exponent as integers. */
static void float_bits(struct rf_buf *b, const struct spec *f, uint32_t verb, double d)
{
	char text[64], *p;
	int exp = 0;

	if (verb == 'b') {
		int64_t mantissa = (int64_t)ldexp(frexp(d, &exp), 53);

		if (d == 0)
			exp = -1021;
		rf_buf_printf(b, "%lldp%+d", (long long)mantissa, exp - 53);
		return;
	}
	if (f->has_precision)
		snprintf(text, sizeof(text), "%.*a", (int)RF_MIN(f->precision, 32), d);
	else
		snprintf(text, sizeof(text), "%a", d);
	p = strchr(text, 'p');
	exp = (int)strtol(p + 1, NULL, 10);
	*p = '\0';
	rf_buf_printf(b, "%sp%+03d", text, exp);
	for (size_t i = 0; verb == 'X' && i < b->n; i++)
		if (b->p[i] >= 'a' && b->p[i] <= 'z')
			b->p[i] = (char)(b->p[i] - 32);
}

static bool put_float(struct rf_rb_out *o, const struct spec *f, uint32_t verb, double d)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct spec g = *f;
	struct rf_str s;

	if (verb > 0x7f || verb == 0 || strchr("vgGeEfFbxX", (int)verb) == NULL)
		return false;
	if (f->has_precision && !rf_rb_spend(o->e, f->precision / 8)) {
		o->full = true;
		return true;
	}
	if (verb == 'b' || verb == 'x' || verb == 'X')
		float_bits(&b, f, verb, d);
	else
		float_digits(&b, f, verb, d);
	s = rf_buf_str(&b);
	if (s.p[0] != '-' && !g.plus && !g.space) {
		pad(o, &g, s);
		return true;
	}
	/* a sign to show; zeros go behind it */
	if (g.zero && !g.minus && g.has_width) {
		rf_rb_out_c(o, s.p[0] == '-' ? '-' : g.plus ? '+' : ' ');
		g.width = RF_MAX(g.width - 1, 0);
		pad(o, &g, rf_str_skip(s, s.p[0] == '-'));
		return true;
	}
	if (s.p[0] != '-') {
		rf_auto(buf) with_sign = RF_BUF_INIT;

		rf_buf_add_c(&with_sign, g.plus ? '+' : ' ');
		rf_buf_add(&with_sign, s);
		pad(o, &g, rf_buf_str(&with_sign));
		return true;
	}
	pad(o, &g, s);
	return true;
}

static bool put_big(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v)
{
	if (verb > 0x7f || verb == 0 || strchr("bodxXOsv", (int)verb) == NULL)
		return false;
	put_whole(o, f, verb, v);
	return true;
}

static void put(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v);

static void put_composite(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v,
			  bool *ok)
{
	rf_auto(rb_out) text = rf_rb_out_new(o->e);

	if (v.type == RF_RV_NUMBER)
		rf_rb_out_add(&text, v.number->text);
	else
		rf_rb_out_value(&text, v);
	*ok = put_text(o, f, verb, rf_buf_str(&text.b));
	o->full = o->full || text.full;
}

static void bad_verb(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v,
		     enum kind k)
{
	rf_rb_out_add(o, RF_LIT("%!"));
	rf_rb_out_rune(o, verb);
	rf_rb_out_c(o, '(');
	/* big.Int answers for itself: without its star, and without the width */
	rf_rb_out_add(o, rf_str(k == KIND_BIG ? "big.Int" : type_of(k)));
	rf_rb_out_c(o, '=');
	put(o, k == KIND_BIG ? &(struct spec){ 0 } : f, 'v', v);
	rf_rb_out_c(o, ')');
}

static bool is_nil(struct rf_rv v)
{
	return v.type == RF_RV_NULL && v.tag == RF_RB_NIL;
}

static void put_nil(struct rf_rb_out *o, const struct spec *f, uint32_t verb)
{
	if (verb == 'T' || verb == 'v') {
		pad(o, f, RF_LIT("<nil>"));
		return;
	}
	rf_rb_out_add(o, RF_LIT("%!"));
	rf_rb_out_rune(o, verb);
	rf_rb_out_add(o, RF_LIT("(<nil>)"));
}

static void put(struct rf_rb_out *o, const struct spec *f, uint32_t verb, struct rf_rv v)
{
	enum kind k = kind_of(v);
	bool ok = true;

	if (is_nil(v))
		put_nil(o, f, verb);
	else if (verb == 'T')
		pad(o, f, cut(f, rf_str(type_of(k))));
	else if (k == KIND_INT)
		ok = put_int(o, f, verb, v);
	else if (k == KIND_FLOAT)
		ok = put_float(o, f, verb, rf_rn_double(v));
	else if (k == KIND_BIG)
		ok = put_big(o, f, verb, v);
	else if (v.type == RF_RV_STRING)
		ok = put_text(o, f, verb, rf_rv_text(v));
	else
		put_composite(o, f, verb, v, &ok);
	if (!ok)
		bad_verb(o, f, verb, v, k);
}

/* --- the format --- */

struct format {
	struct rf_str s;
	size_t at;
	const struct rf_rv *arg;
	size_t n, next;
	bool reordered, good, after_index;
};

static char look(const struct format *p)
{
	return p->at < p->s.n ? p->s.p[p->at] : '\0';
}

/* A decimal number up to `end`. One that is too large ends the format, as in Go. */
static bool number(struct format *p, size_t end, int64_t *ret)
{
	int64_t n = 0;
	size_t from = p->at;

	*ret = 0;
	for (; p->at < end && p->s.p[p->at] >= '0' && p->s.p[p->at] <= '9'; p->at++) {
		n = n * 10 + (p->s.p[p->at] - '0');
		if (n > MAX_WIDTH) {
			p->at = end;
			return false;
		}
	}
	*ret = n;
	return p->at > from;
}

/* [3] */
static void index_of(struct format *p)
{
	const char *close;
	size_t end;
	int64_t n;
	bool ok;

	p->after_index = false;
	if (look(p) != '[')
		return;
	p->reordered = true;
	close = p->s.n - p->at >= 3 ? memchr(p->s.p + p->at, ']', p->s.n - p->at) : NULL;
	if (close == NULL) {
		p->good = false;
		p->at++;
		return;
	}
	end = (size_t)(close - p->s.p);
	p->at++;
	ok = number(p, end, &n) && p->at == end;
	p->at = end + 1;
	p->after_index = ok;
	if (ok && n >= 1 && (size_t)n <= p->n)
		p->next = (size_t)n - 1;
	else
		p->good = false;
}

/* * takes its number from the arguments. */
static bool star(struct format *p, int64_t *ret)
{
	struct rf_rv v;

	p->at++;
	p->after_index = false;
	*ret = 0;
	if (p->next >= p->n)
		return false;
	v = p->arg[p->next++];
	if (kind_of(v) != KIND_INT || v.i > MAX_WIDTH || v.i < -MAX_WIDTH)
		return false;
	*ret = v.i;
	return true;
}

static void width_of(struct format *p, struct spec *f, struct rf_rb_out *o)
{
	if (look(p) != '*') {
		f->has_width = number(p, p->s.n, &f->width);
		if (p->after_index && f->has_width)
			p->good = false;
		return;
	}
	f->has_width = star(p, &f->width);
	if (!f->has_width)
		rf_rb_out_add(o, RF_LIT("%!(BADWIDTH)"));
	if (f->width < 0) {
		f->width = -f->width;
		f->minus = true;
		f->zero = false;
	}
}

static void precision_of(struct format *p, struct spec *f, struct rf_rb_out *o)
{
	if (look(p) != '.' || p->at + 1 >= p->s.n)
		return;
	p->at++;
	if (p->after_index)
		p->good = false;
	index_of(p);
	if (look(p) != '*') {
		number(p, p->s.n, &f->precision);
		f->has_precision = true;
		return;
	}
	f->has_precision = star(p, &f->precision) && f->precision >= 0;
	if (!f->has_precision) {
		f->precision = 0;
		rf_rb_out_add(o, RF_LIT("%!(BADPREC)"));
	}
}

static void flags_of(struct format *p, struct spec *f)
{
	for (; p->at < p->s.n; p->at++) {
		switch (p->s.p[p->at]) {
		case '#':
			f->sharp = true;
			break;
		case '0':
			f->zero = true;
			break;
		case '+':
			f->plus = true;
			break;
		case '-':
			f->minus = true;
			break;
		case ' ':
			f->space = true;
			break;
		default:
			return;
		}
	}
}

static void conversion(struct format *p, struct rf_rb_out *o)
{
	struct spec f = { 0 };
	uint32_t verb;

	p->at++;
	p->good = true;
	flags_of(p, &f);
	index_of(p);
	width_of(p, &f, o);
	precision_of(p, &f, o);
	if (!p->after_index)
		index_of(p);
	if (p->at >= p->s.n) {
		rf_rb_out_add(o, RF_LIT("%!(NOVERB)"));
		return;
	}
	verb = rf_rb_rune(p->s, &p->at);
	if (verb == 'v' || verb == 'w') {
		f.sharp_v = f.sharp;
		f.plus_v = f.plus;
		f.sharp = f.plus = false;
	}
	if (verb == '%') {
		rf_rb_out_c(o, '%');
	} else if (p->good && p->next < p->n) {
		put(o, &f, verb, p->arg[p->next++]);
	} else {
		rf_rb_out_add(o, RF_LIT("%!"));
		rf_rb_out_rune(o, verb);
		rf_rb_out_add(o, p->good ? RF_LIT("(MISSING)") : RF_LIT("(BADINDEX)"));
	}
}

static void extra(struct format *p, struct rf_rb_out *o)
{
	rf_rb_out_add(o, RF_LIT("%!(EXTRA "));
	for (size_t i = p->next; i < p->n && !o->full; i++) {
		if (i > p->next)
			rf_rb_out_add(o, RF_LIT(", "));
		if (!is_nil(p->arg[i])) {
			rf_rb_out_add(o, rf_str(type_of(kind_of(p->arg[i]))));
			rf_rb_out_c(o, '=');
		}
		put(o, &(struct spec){ 0 }, 'v', p->arg[i]);
	}
	rf_rb_out_c(o, ')');
}

void rf_rb_sprintf(struct rf_rb_out *o, struct rf_str format, const struct rf_rv *arg, size_t n)
{
	struct format p = { .s = format, .arg = arg, .n = n };

	while (p.at < p.s.n && !o->full) {
		const char *percent = memchr(p.s.p + p.at, '%', p.s.n - p.at);
		size_t to = percent != NULL ? (size_t)(percent - p.s.p) : p.s.n;

		rf_rb_out_add(o, rf_str_n(p.s.p + p.at, to - p.at));
		p.at = to;
		if (percent == NULL)
			break;
		if (!rf_rb_spend(o->e, 1))
			o->full = true;
		conversion(&p, o);
	}
	if (!p.reordered && p.next < p.n)
		extra(&p, o);
}
