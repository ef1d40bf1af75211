/* A container's log in the CRI format, one line per line: "<RFC 3339 nano> stdout F text". A line
 * longer than the cap is written in pieces marked P, the last one F. The file is rotated once. */
#ifndef RF_NODE_CRILOG_H
#define RF_NODE_CRILOG_H

#include "base/base.h"

#define RF_CRILOG_LINE_MAX (16 * 1024)
#define RF_CRILOG_FILE_MAX (10 * 1024 * 1024)

/* --- writing (the shim) ---------------------------------------------------------------------- */

struct rf_crilog {
	int fd;
	char *path;  /* rotated to <path>.1 */
	size_t size; /* of the file now */
	size_t max;
	struct rf_buf pending[2]; /* stdout, stderr: a line whose end has not come yet */
};
#define RF_CRILOG_INIT                                                                             \
	{                                                                                          \
		.fd = -1, .path = NULL, .pending = { RF_BUF_INIT, RF_BUF_INIT }                    \
	}

int rf_crilog_open(struct rf_crilog *log, const char *path, size_t max, struct rf_err *err);
/* stream: 0 stdout, 1 stderr. Write errors lose lines, never the container. */
void rf_crilog_add(struct rf_crilog *log, int stream, struct rf_str bytes, int64_t wall_ns);
/* Writes what is pending as last lines. */
void rf_crilog_flush(struct rf_crilog *log, int64_t wall_ns);
void rf_crilog_done(struct rf_crilog *log);

/* --- reading (the agent) --------------------------------------------------------------------- */

struct rf_crilog_line {
	struct rf_str time;
	struct rf_str text;
	bool is_stderr;
	bool partial;
};
bool rf_crilog_parse(struct rf_str line, struct rf_crilog_line *ret);

struct rf_crilog_query {
	int64_t tail;	  /* last lines; -1: all */
	int64_t since_ms; /* wall time; lines before it are left out; 0: all */
	bool timestamps;
};
/* Where in text (whole lines) the last n lines begin. Pieces of one line count as one. */
size_t rf_crilog_tail_offset(struct rf_str text, int64_t n);
/* How many lines there are, pieces of one line counted once. */
int64_t rf_crilog_count(struct rf_str text);
/* Appends what a reader wants to see of the whole lines in text. *open_line carries over, between
 * calls, that the last piece written was partial. */
void rf_crilog_render(struct rf_str text, const struct rf_crilog_query *q, bool *open_line,
		      struct rf_buf *out);

#endif
