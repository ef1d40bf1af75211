#include "node/crilog.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

int rf_crilog_open(struct rf_crilog *log, const char *path, size_t max, struct rf_err *err)
{
	struct stat st;

	log->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (log->fd < 0 || fstat(log->fd, &st) < 0)
		return rf_fail_errno(err, "open log %s", path);
	log->path = rf_strdup(path);
	log->size = (size_t)st.st_size;
	log->max = max;
	return 0;
}

static void rotate(struct rf_crilog *log)
{
	char old[PATH_MAX];

	if (snprintf(old, sizeof(old), "%s.1", log->path) >= (int)sizeof(old))
		return;
	if (rename(log->path, old) < 0)
		return;
	int fd = open(log->path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return; /* goes on into the rotated file: late lines beat lost ones */
	close(log->fd);
	log->fd = fd;
	log->size = 0;
}

static void write_line(struct rf_crilog *log, int stream, bool partial, struct rf_str text,
		       int64_t wall_ns)
{
	rf_auto(buf) line = RF_BUF_INIT;
	time_t s = (time_t)(wall_ns / 1000000000);
	struct tm tm;
	char when[32];

	gmtime_r(&s, &tm);
	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
	rf_buf_printf(&line, "%s.%09lldZ %s %c ", when, (long long)(wall_ns % 1000000000),
		      stream == 0 ? "stdout" : "stderr", partial ? 'P' : 'F');
	rf_buf_add(&line, text);
	rf_buf_add_c(&line, '\n');
	if (log->size + line.n > log->max && log->size > 0)
		rotate(log);
	ssize_t put = write(log->fd, line.p, line.n);
	if (put > 0)
		log->size += (size_t)put;
}

void rf_crilog_add(struct rf_crilog *log, int stream, struct rf_str bytes, int64_t wall_ns)
{
	struct rf_buf *pending = &log->pending[stream];

	while (bytes.n > 0) {
		const char *nl = memchr(bytes.p, '\n', bytes.n);
		size_t n = nl ? (size_t)(nl - bytes.p) : bytes.n;
		size_t room = RF_CRILOG_LINE_MAX - pending->n;
		bool full = n > room;

		n = RF_MIN(n, room);
		rf_buf_add(pending, rf_str_n(bytes.p, n));
		bytes = rf_str_skip(bytes, n + (nl && !full ? 1 : 0));
		if (!full && !nl)
			return;
		write_line(log, stream, full, rf_buf_str(pending), wall_ns);
		rf_buf_clear(pending);
	}
}

void rf_crilog_flush(struct rf_crilog *log, int64_t wall_ns)
{
	for (int i = 0; i < 2; i++) {
		if (log->pending[i].n > 0)
			write_line(log, i, false, rf_buf_str(&log->pending[i]), wall_ns);
		rf_buf_clear(&log->pending[i]);
	}
}

void rf_crilog_done(struct rf_crilog *log)
{
	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
	free(log->path);
	log->path = NULL;
	rf_buf_done(&log->pending[0]);
	rf_buf_done(&log->pending[1]);
}

bool rf_crilog_parse(struct rf_str line, struct rf_crilog_line *ret)
{
	struct rf_str stream, flag;

	if (!rf_str_cut(&line, ' ', &ret->time) || !rf_str_cut(&line, ' ', &stream) ||
	    !rf_str_cut(&line, ' ', &flag))
		return false;
	ret->is_stderr = rf_str_is(stream, "stderr");
	if (!ret->is_stderr && !rf_str_is(stream, "stdout"))
		return false;
	ret->partial = rf_str_is(flag, "P");
	ret->text = line;
	return ret->partial || rf_str_is(flag, "F");
}

size_t rf_crilog_tail_offset(struct rf_str text, int64_t n)
{
	size_t at = text.n, begin = text.n;
	struct rf_crilog_line line;

	if (n < 0)
		return 0;
	while (at > 0) {
		const char *nl = memrchr(text.p, '\n', at - 1);
		size_t start = nl ? (size_t)(nl - text.p) + 1 : 0;

		/* A full piece ends a line of its own; the partial ones before it belong to it. */
		bool whole = !rf_crilog_parse(rf_str_n(text.p + start, at - 1 - start), &line) ||
			     !line.partial;
		if (whole && n-- == 0)
			break;
		begin = at = start;
	}
	return begin;
}

int64_t rf_crilog_count(struct rf_str text)
{
	struct rf_crilog_line line;
	struct rf_str raw;
	int64_t n = 0;

	while (text.n > 0) {
		rf_str_cut(&text, '\n', &raw);
		n += !rf_crilog_parse(raw, &line) || !line.partial ? 1 : 0;
	}
	return n;
}

void rf_crilog_render(struct rf_str text, const struct rf_crilog_query *q, bool *open_line,
		      struct rf_buf *out)
{
	struct rf_str raw;
	struct rf_crilog_line line;
	int64_t ms;

	while (text.n > 0) {
		rf_str_cut(&text, '\n', &raw);
		if (!rf_crilog_parse(raw, &line))
			continue;
		if (q->since_ms > 0 && rf_time_parse(line.time, &ms, NULL) == 0 && ms < q->since_ms)
			continue;
		if (q->timestamps && !*open_line) {
			rf_buf_add(out, line.time);
			rf_buf_add_c(out, ' ');
		}
		rf_buf_add(out, line.text);
		if (!line.partial)
			rf_buf_add_c(out, '\n');
		*open_line = line.partial;
	}
}
