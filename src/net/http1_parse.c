#include "net/http1_parse.h"

#include <limits.h>

static enum rf_h1_event refuse(struct rf_h1 *p, int status, const char *why)
{
	p->state = RF_H1_FAILED;
	p->status = status;
	p->why = why;
	return RF_H1_FAIL;
}

/* --- characters ------------------------------------------------------------------------------- */

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alpha(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int hex_value(unsigned char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_token_char(unsigned char c)
{
	return is_digit(c) || is_alpha(c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static bool is_value_char(unsigned char c)
{
	return c == '\t' || (c >= 0x20 && c != 0x7f);
}

bool rf_h1_is_token(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_token_char((unsigned char)s.p[i]))
			return false;
	return s.n > 0;
}

bool rf_h1_is_value(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!is_value_char((unsigned char)s.p[i]))
			return false;
	return true;
}

bool rf_h1_is_target(struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] <= 0x20 || s.p[i] == 0x7f || s.p[i] == '#' || (s.p[i] & 0x80) != 0)
			return false;
	return s.n > 0 && s.p[0] == '/';
}

/* --- the head: gathered whole, then read line by line ----------------------------------------- */

/* Cuts the next line, CRLF excluded. gather_head has seen to it that every line ends in CRLF and
 * that CR and LF occur nowhere else. */
static struct rf_str next_line(struct rf_str *rest)
{
	const char *cr = memchr(rest->p, '\r', rest->n);
	struct rf_str line;

	rf_assert(cr != NULL);
	line = rf_str_n(rest->p, (size_t)(cr - rest->p));
	*rest = rf_str_skip(*rest, line.n + 2);
	return line;
}

static enum rf_h1_event read_request_line(struct rf_h1 *p, struct rf_str line)
{
	struct rf_str rest = line;

	if (!rf_str_cut(&rest, ' ', &p->method) || !rf_str_cut(&rest, ' ', &p->target))
		return refuse(p, 400, "the request line is not \"METHOD /path HTTP/1.1\"");
	if (!rf_h1_is_token(p->method) || p->method.n > 32)
		return refuse(p, 400, "the method is malformed");
	if (!rf_h1_is_target(p->target))
		return refuse(p, 400, "the target must start with / and be percent-encoded");
	if (rf_str_is(rest, "HTTP/1.1"))
		return RF_H1_MORE;
	if (rf_str_starts(rest, RF_LIT("HTTP/")) && rest.n == 8 && rest.p[6] == '.' &&
	    is_digit((unsigned char)rest.p[5]) && is_digit((unsigned char)rest.p[7]))
		return refuse(p, 505, "only HTTP/1.1 is served");
	return refuse(p, 400, "the request line does not end in HTTP/1.1");
}

static enum rf_h1_event read_status_line(struct rf_h1 *p, struct rf_str line)
{
	struct rf_str rest = rf_str_skip(line, 9);

	if (!rf_str_starts(line, RF_LIT("HTTP/1.1 ")) && !rf_str_starts(line, RF_LIT("HTTP/1.0 ")))
		return refuse(p, 400, "the status line does not start with HTTP/1.1");
	p->keep_alive = line.p[7] == '1';
	if (rest.n < 3 || (rest.n > 3 && rest.p[3] != ' ') || !rf_h1_is_value(rest))
		return refuse(p, 400, "the status line is malformed");
	for (int i = 0; i < 3; i++) {
		if (!is_digit((unsigned char)rest.p[i]))
			return refuse(p, 400, "the status is not three digits");
		p->code = p->code * 10 + (rest.p[i] - '0');
	}
	if (p->code < 100 || p->code > 599)
		return refuse(p, 400, "the status is not between 100 and 599");
	return RF_H1_MORE;
}

static struct rf_str trim_blanks(struct rf_str s)
{
	while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t'))
		s = rf_str_skip(s, 1);
	while (s.n > 0 && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
		s.n--;
	return s;
}

static enum rf_h1_event read_header_line(struct rf_h1 *p, struct rf_str line)
{
	struct rf_str name = RF_STR_EMPTY, value = line;

	if (line.p[0] == ' ' || line.p[0] == '\t')
		return refuse(p, 400, "a folded header line");
	if (!rf_str_cut(&value, ':', &name) || !rf_h1_is_token(name))
		return refuse(p, 400, "a header line without a proper name and colon");
	if (!rf_h1_is_value(value))
		return refuse(p, 400, "a control character in a header");
	if (p->n_headers == RF_H1_HEADERS_MAX)
		return refuse(p, 431, "more than 100 headers");
	p->headers[p->n_headers++] = (struct rf_http_header){ name, trim_blanks(value) };
	return RF_H1_MORE;
}

/* --- what the headers mean for framing -------------------------------------------------------- */

static enum rf_h1_event on_length(struct rf_h1 *p, struct rf_str value)
{
	if (p->has_length)
		return refuse(p, 400, "more than one Content-Length");
	if (value.n == 0 || value.n > 18)
		return refuse(p, 400, "Content-Length is not a length");
	for (size_t i = 0; i < value.n; i++) {
		if (!is_digit((unsigned char)value.p[i]))
			return refuse(p, 400, "Content-Length is not a number");
		p->length = p->length * 10 + (uint64_t)(value.p[i] - '0');
	}
	p->has_length = true;
	return RF_H1_MORE;
}

static enum rf_h1_event on_coding(struct rf_h1 *p, struct rf_str value)
{
	if (p->has_coding)
		return refuse(p, 400, "more than one Transfer-Encoding");
	if (!rf_str_ieq(value, RF_LIT("chunked")))
		return refuse(p, 400, "a Transfer-Encoding other than chunked");
	p->has_coding = p->chunked = true;
	return RF_H1_MORE;
}

static void on_connection(struct rf_h1 *p, struct rf_str value)
{
	struct rf_str word = RF_STR_EMPTY;
	bool more = true;

	while (more) {
		more = rf_str_cut(&value, ',', &word);
		if (rf_str_ieq(trim_blanks(word), RF_LIT("close")))
			p->keep_alive = false;
	}
}

static enum rf_h1_event on_expect(struct rf_h1 *p, struct rf_str value)
{
	if (!rf_str_ieq(value, RF_LIT("100-continue")))
		return refuse(p, 417, "an expectation other than 100-continue");
	p->expects_continue = true;
	return RF_H1_MORE;
}

static enum rf_h1_event read_meaning(struct rf_h1 *p, const struct rf_http_header *h)
{
	if (rf_str_ieq(h->name, RF_LIT("content-length")))
		return on_length(p, h->value);
	if (rf_str_ieq(h->name, RF_LIT("transfer-encoding")))
		return on_coding(p, h->value);
	if (rf_str_ieq(h->name, RF_LIT("connection")))
		on_connection(p, h->value);
	if (!p->response && rf_str_ieq(h->name, RF_LIT("expect")))
		return on_expect(p, h->value);
	return RF_H1_MORE;
}

static enum rf_h1_event check_host(struct rf_h1 *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_headers; i++) {
		if (!rf_str_ieq(p->headers[i].name, RF_LIT("host")))
			continue;
		n++;
		for (size_t k = 0; k < p->headers[i].value.n; k++)
			if (strchr(" \t,/?#@", p->headers[i].value.p[k]) != NULL)
				return refuse(p, 400, "the Host header is malformed");
	}
	return n == 1 ? RF_H1_MORE : refuse(p, 400, "a request must have exactly one Host header");
}

static enum rf_h1_event check_framing(struct rf_h1 *p)
{
	if (p->has_length && p->has_coding)
		return refuse(p, 400, "both Content-Length and Transfer-Encoding");
	if (!p->response && check_host(p) == RF_H1_FAIL)
		return RF_H1_FAIL;
	if (p->body_max != 0 && p->length > p->body_max && !p->to_head)
		return refuse(p, 413, "the body is larger than allowed");
	p->state = RF_H1_AFTER_HEAD;
	return RF_H1_HEAD;
}

static enum rf_h1_event read_head(struct rf_h1 *p)
{
	struct rf_str rest = rf_buf_str(&p->head);
	struct rf_str line = next_line(&rest);
	enum rf_h1_event e = p->response ? read_status_line(p, line) : read_request_line(p, line);

	while (e == RF_H1_MORE && rest.n > 2) {
		e = read_header_line(p, next_line(&rest));
		if (e == RF_H1_MORE)
			e = read_meaning(p, &p->headers[p->n_headers - 1]);
	}
	return e == RF_H1_MORE ? check_framing(p) : e;
}

static bool head_is_whole(const struct rf_buf *head)
{
	return head->n >= 4 && memcmp(head->p + head->n - 4, "\r\n\r\n", 4) == 0;
}

/* Takes bytes up to the next LF, so that nothing behind the head is taken with it. */
static enum rf_h1_event gather_head(struct rf_h1 *p, struct rf_str *input)
{
	size_t i = 0;

	for (; i < input->n; i++) {
		char c = input->p[i];

		if (p->after_cr != (c == '\n'))
			return refuse(p, 400, "a line that does not end in CR LF");
		if (c == '\0')
			return refuse(p, 400, "a NUL byte in the head");
		p->after_cr = c == '\r';
		if (p->head.n + i >= RF_H1_HEAD_MAX)
			return refuse(p, 431, "request line and headers pass 32 KiB");
		if (c == '\n')
			break;
	}
	i = RF_MIN(i + 1, input->n);
	rf_buf_add(&p->head, rf_str_n(input->p, i));
	*input = rf_str_skip(*input, i);
	if (p->head.n == 2 && p->head.p[1] == '\n')
		return refuse(p, 400, "an empty line before the message");
	return head_is_whole(&p->head) ? read_head(p) : RF_H1_MORE;
}

/* --- the body --------------------------------------------------------------------------------- */

static void choose_body(struct rf_h1 *p)
{
	bool none = p->response &&
		    (p->to_head || p->code / 100 == 1 || p->code == 204 || p->code == 304);

	p->left = p->length;
	if (none)
		p->state = RF_H1_AT_END;
	else if (p->chunked)
		p->state = RF_H1_IN_CHUNK_SIZE;
	else if (p->length > 0)
		p->state = RF_H1_IN_LENGTH;
	else if (p->response && !p->has_length)
		p->state = RF_H1_IN_UNTIL_EOF;
	else
		p->state = RF_H1_AT_END;
	if (p->state == RF_H1_IN_UNTIL_EOF)
		p->keep_alive = false;
}

/* Hands on at most p->left bytes and counts them against the cap. */
static enum rf_h1_event give_data(struct rf_h1 *p, struct rf_str *input, enum rf_h1_state then)
{
	size_t n = (size_t)RF_MIN((uint64_t)input->n, p->left);

	p->data = rf_str_n(input->p, n);
	*input = rf_str_skip(*input, n);
	p->left -= n;
	p->body_bytes += n;
	if (p->left == 0)
		p->state = then;
	if (p->body_max != 0 && p->body_bytes > p->body_max)
		return refuse(p, 413, "the body is larger than allowed");
	return RF_H1_DATA;
}

static enum rf_h1_event size_digit(struct rf_h1 *p, unsigned char c)
{
	int value = hex_value(c);

	if (value >= 0) {
		if (++p->digits > 15)
			return refuse(p, 400, "a chunk size that is too long");
		p->left = p->left * 16 + (uint64_t)value;
		return RF_H1_MORE;
	}
	if (p->digits == 0)
		return refuse(p, 400, "a chunk without a size");
	if (c == '\r')
		p->state = RF_H1_IN_CHUNK_SIZE_LF;
	else if (c == ';')
		p->state = RF_H1_IN_CHUNK_EXTENSION;
	else
		return refuse(p, 400, "a chunk size that is not hexadecimal");
	return RF_H1_MORE;
}

/* Extensions mean nothing here; they are read past, within a cap. */
static enum rf_h1_event extension_byte(struct rf_h1 *p, unsigned char c)
{
	if (c == '\r')
		p->state = RF_H1_IN_CHUNK_SIZE_LF;
	else if (!is_value_char(c))
		return refuse(p, 400, "a control character in a chunk extension");
	else if (++p->line_bytes > RF_H1_EXTENSION_MAX)
		return refuse(p, 400, "a chunk extension over 256 bytes");
	return RF_H1_MORE;
}

static enum rf_h1_event size_line_end(struct rf_h1 *p, unsigned char c)
{
	if (c != '\n')
		return refuse(p, 400, "a chunk size line that does not end in CR LF");
	if (p->body_max != 0 && p->left > p->body_max - p->body_bytes)
		return refuse(p, 413, "the body is larger than allowed");
	p->line_bytes = p->digits = 0;
	p->state = p->left > 0 ? RF_H1_IN_CHUNK_DATA : RF_H1_IN_TRAILER;
	return RF_H1_MORE;
}

static enum rf_h1_event chunk_end(struct rf_h1 *p, unsigned char c)
{
	bool cr = p->state == RF_H1_IN_CHUNK_CR;

	if (c != (cr ? '\r' : '\n'))
		return refuse(p, 400, "a chunk longer than its size says");
	p->state = cr ? RF_H1_IN_CHUNK_LF : RF_H1_IN_CHUNK_SIZE;
	return RF_H1_MORE;
}

/* Trailers are read past under the head's cap: lines until an empty one. */
static enum rf_h1_event trailer_byte(struct rf_h1 *p, unsigned char c)
{
	if (p->after_cr != (c == '\n') || (c != '\r' && c != '\n' && !is_value_char(c)))
		return refuse(p, 400, "a malformed trailer");
	if (++p->line_bytes > RF_H1_HEAD_MAX)
		return refuse(p, 431, "trailers pass 32 KiB");
	p->after_cr = c == '\r';
	if (c != '\r' && c != '\n' && p->line_start++ == 0 && !is_token_char(c))
		return refuse(p, 400, "a malformed trailer");
	if (c == '\n') {
		p->state = p->line_start == 0 ? RF_H1_AT_END : RF_H1_IN_TRAILER;
		p->line_start = 0;
	}
	return RF_H1_MORE;
}

/* The framing around chunks, a byte at a time. */
static enum rf_h1_event chunk_byte(struct rf_h1 *p, unsigned char c)
{
	switch (p->state) {
	case RF_H1_IN_CHUNK_SIZE:
		return size_digit(p, c);
	case RF_H1_IN_CHUNK_EXTENSION:
		return extension_byte(p, c);
	case RF_H1_IN_CHUNK_SIZE_LF:
		return size_line_end(p, c);
	case RF_H1_IN_CHUNK_CR:
	case RF_H1_IN_CHUNK_LF:
		return chunk_end(p, c);
	default:
		rf_assert(p->state == RF_H1_IN_TRAILER);
		return trailer_byte(p, c);
	}
}

/* One step; RF_H1_MORE with input left means "go on". */
static enum rf_h1_event step(struct rf_h1 *p, struct rf_str *input)
{
	unsigned char c;

	switch (p->state) {
	case RF_H1_IN_HEAD:
		return gather_head(p, input);
	case RF_H1_IN_LENGTH:
		return give_data(p, input, RF_H1_AT_END);
	case RF_H1_IN_UNTIL_EOF:
		p->left = UINT64_MAX;
		return give_data(p, input, RF_H1_AT_END);
	case RF_H1_IN_CHUNK_DATA:
		return give_data(p, input, RF_H1_IN_CHUNK_CR);
	default:
		c = (unsigned char)input->p[0];
		*input = rf_str_skip(*input, 1);
		return chunk_byte(p, c);
	}
}

enum rf_h1_event rf_h1_next(struct rf_h1 *p, struct rf_str *input)
{
	enum rf_h1_event e = RF_H1_MORE;

	p->data = RF_STR_EMPTY;
	if (p->state == RF_H1_AFTER_HEAD)
		choose_body(p);
	while (e == RF_H1_MORE) {
		if (p->state == RF_H1_FAILED)
			return RF_H1_FAIL;
		if (p->state == RF_H1_AT_END)
			return RF_H1_END;
		if (input->n == 0)
			return RF_H1_MORE;
		e = step(p, input);
	}
	return e;
}

bool rf_h1_eof(struct rf_h1 *p)
{
	if (p->state == RF_H1_AFTER_HEAD)
		choose_body(p);
	if (p->state == RF_H1_IN_UNTIL_EOF)
		p->state = RF_H1_AT_END;
	return p->state == RF_H1_AT_END;
}

bool rf_h1_started(const struct rf_h1 *p)
{
	return p->state != RF_H1_IN_HEAD || p->head.n > 0;
}

void rf_h1_init(struct rf_h1 *p, bool response, uint64_t body_max)
{
	memset(p, 0, sizeof(*p));
	p->head = (struct rf_buf)RF_BUF_INIT;
	p->response = response;
	p->body_max = body_max;
	p->keep_alive = true;
	p->method = p->target = p->data = RF_STR_EMPTY;
}

void rf_h1_done(struct rf_h1 *p)
{
	rf_buf_done(&p->head);
}

void rf_h1_reset(struct rf_h1 *p)
{
	struct rf_buf head = p->head;

	rf_buf_clear(&head);
	rf_h1_init(p, p->response, p->body_max);
	p->head = head;
}

/* --- targets ---------------------------------------------------------------------------------- */

/* Decodes into out (raw.n + 1 bytes); the length, or -1 on a broken escape. */
static ssize_t unescape(struct rf_str raw, bool plus, char *out)
{
	size_t n = 0;

	for (size_t i = 0; i < raw.n; i++) {
		int high, low;

		if (raw.p[i] != '%') {
			out[n++] = plus && raw.p[i] == '+' ? ' ' : raw.p[i];
			continue;
		}
		if (raw.n - i < 3)
			return -1;
		high = hex_value((unsigned char)raw.p[i + 1]);
		low = hex_value((unsigned char)raw.p[i + 2]);
		if (high < 0 || low < 0)
			return -1;
		out[n++] = (char)(high * 16 + low);
		i += 2;
	}
	return (ssize_t)n;
}

static bool has_dot_segments(struct rf_str path)
{
	struct rf_str part = RF_STR_EMPTY;
	bool more = true;

	while (more) {
		more = rf_str_cut(&path, '/', &part);
		if (rf_str_is(part, ".") || rf_str_is(part, ".."))
			return true;
	}
	return false;
}

int rf_h1_decode_path(struct rf_arena *a, struct rf_str raw, struct rf_str *ret, struct rf_err *err)
{
	char *out = rf_arena_alloc(a, raw.n + 1);
	ssize_t n = unescape(raw, false, out);

	if (n < 0)
		return rf_fail(err, RF_BAD_REQUEST, "the path has a broken %% escape");
	for (ssize_t i = 0; i < n; i++)
		if ((unsigned char)out[i] < 0x20 || out[i] == 0x7f)
			return rf_fail(err, RF_BAD_REQUEST, "the path has a control character");
	if (has_dot_segments(rf_str_n(out, (size_t)n)))
		return rf_fail(err, RF_BAD_REQUEST, "the path has . or .. segments");
	*ret = rf_str_n(out, (size_t)n);
	return 0;
}

bool rf_h1_decode_query(struct rf_arena *a, struct rf_str raw, struct rf_str *ret)
{
	char *out = rf_arena_alloc(a, raw.n + 1);
	ssize_t n = unescape(raw, true, out);

	if (n < 0)
		return false;
	*ret = rf_str_n(out, (size_t)n);
	return true;
}
