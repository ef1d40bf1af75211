/* HTTP/1.1 messages, strictly read: no I/O, no time, any split of the input gives the same events.
 *
 *	struct rf_str input = what has arrived;
 *	for (;;)
 *		switch (rf_h1_next(&p, &input)) {   // takes bytes off the front of input
 *		case RF_H1_MORE: return;            // input is used up
 *		case RF_H1_HEAD: ...                // p.method, p.target, p.headers: until
 *rf_h1_reset case RF_H1_DATA: use(p.data);       // points into input: now only case RF_H1_END:
 *rf_h1_reset(&p);    // before the next message case RF_H1_FAIL: ...                // p.status and
 *p.why say what to answer; final
 *		}
 */
#ifndef RF_NET_HTTP1_PARSE_H
#define RF_NET_HTTP1_PARSE_H

#include "base/base.h"
#include "net/http.h"

#define RF_H1_HEAD_MAX (32 * 1024) /* request line and headers; trailers have as much again */
#define RF_H1_HEADERS_MAX 100
#define RF_H1_EXTENSION_MAX 256 /* bytes on a chunk-size line */

enum rf_h1_event { RF_H1_MORE, RF_H1_HEAD, RF_H1_DATA, RF_H1_END, RF_H1_FAIL };

enum rf_h1_state {
	RF_H1_IN_HEAD,
	RF_H1_AFTER_HEAD, /* HEAD was told; the body's kind is known */
	RF_H1_IN_LENGTH,
	RF_H1_IN_UNTIL_EOF,
	RF_H1_IN_CHUNK_SIZE,
	RF_H1_IN_CHUNK_EXTENSION,
	RF_H1_IN_CHUNK_SIZE_LF,
	RF_H1_IN_CHUNK_DATA,
	RF_H1_IN_CHUNK_CR,
	RF_H1_IN_CHUNK_LF,
	RF_H1_IN_TRAILER,
	RF_H1_AT_END,
	RF_H1_FAILED,
};

struct rf_h1 {
	/* what the message says; valid from RF_H1_HEAD until reset */
	struct rf_str method; /* requests */
	struct rf_str target;
	int code; /* responses */
	struct rf_http_header headers[RF_H1_HEADERS_MAX];
	size_t n_headers;
	bool keep_alive;
	bool expects_continue;
	bool chunked;
	uint64_t length; /* Content-Length, 0 if none was given */
	/* with RF_H1_DATA */
	struct rf_str data;
	/* with RF_H1_FAIL */
	int status; /* 400, 413, 417, 431 or 505 */
	const char *why;

	/* settings, before the first byte */
	bool response;
	bool to_head;	   /* responses: the request was HEAD, so no body follows */
	uint64_t body_max; /* 0: none */

	/* the parser's own */
	enum rf_h1_state state;
	struct rf_buf head;
	uint64_t left;	     /* of the body, or of the present chunk */
	uint64_t body_bytes; /* seen so far */
	size_t line_bytes;   /* on the chunk-size line, or in the trailer */
	size_t line_start;   /* trailer: bytes on this line */
	unsigned digits;
	bool after_cr;
	bool has_length;
	bool has_coding;
};

void rf_h1_init(struct rf_h1 *p, bool response, uint64_t body_max);
void rf_h1_done(struct rf_h1 *p);
void rf_h1_reset(struct rf_h1 *p); /* for the next message on the same connection */
enum rf_h1_event rf_h1_next(struct rf_h1 *p, struct rf_str *input);
/* The peer has ended its stream: true if the message is thereby complete (a response of unstated
 * length), false if it is cut short. */
bool rf_h1_eof(struct rf_h1 *p);
bool rf_h1_started(const struct rf_h1 *p); /* a byte of the message has been seen */

/* Also used for what we send. */
bool rf_h1_is_token(struct rf_str s);  /* RFC 9110 token: methods and header names */
bool rf_h1_is_value(struct rf_str s);  /* no control characters but tab */
bool rf_h1_is_target(struct rf_str s); /* origin form: starts with '/', visible ASCII, no '#' */

/* "/a%20b" becomes "/a b" in the arena. Refuses broken escapes, control characters and NUL, and "."
 * or ".." segments, encoded or not. */
int rf_h1_decode_path(struct rf_arena *a, struct rf_str raw, struct rf_str *ret,
		      struct rf_err *err);
/* As in forms: '+' is a space. false on broken escapes. */
bool rf_h1_decode_query(struct rf_arena *a, struct rf_str raw, struct rf_str *ret);

#endif
