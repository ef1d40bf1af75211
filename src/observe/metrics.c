#include "observe/metrics.h"

#include <ctype.h>

struct sample {
	struct sample *next;
	struct rf_str labels; /* written out, with braces, or empty */
	int64_t value;
	int decimals;
};

struct rf_metrics_family {
	struct rf_metrics_family *next;
	const char *name, *help;
	enum rf_metric_type type;
	struct sample *samples;
	size_t n;
};

void rf_metrics_init(struct rf_metrics *m, struct rf_arena *a)
{
	*m = (struct rf_metrics){ .arena = a };
}

static bool is_name(const char *s)
{
	if (!isalpha((unsigned char)*s) && *s != '_')
		return false;
	for (; *s; s++)
		if (!isalnum((unsigned char)*s) && *s != '_' && *s != ':')
			return false;
	return true;
}

static struct rf_metrics_family *family_of(struct rf_metrics *m, const char *name,
					   enum rf_metric_type type, const char *help)
{
	struct rf_metrics_family *f = m->first;

	while (f != NULL && strcmp(f->name, name) != 0)
		f = f->next;
	if (f != NULL) {
		rf_assert(f->type == type);
		return f;
	}
	rf_assert(is_name(name));
	f = rf_arena_new(m->arena, struct rf_metrics_family);
	*f = (struct rf_metrics_family){ .name = name, .help = help, .type = type };
	if (m->last != NULL)
		m->last->next = f;
	else
		m->first = f;
	m->last = f;
	return f;
}

static void escape(struct rf_buf *out, struct rf_str s, bool quotes)
{
	for (size_t i = 0; i < s.n; i++) {
		if (s.p[i] == '\\')
			rf_buf_puts(out, "\\\\");
		else if (s.p[i] == '\n')
			rf_buf_puts(out, "\\n");
		else if (s.p[i] == '"' && quotes)
			rf_buf_puts(out, "\\\"");
		else
			rf_buf_add_c(out, s.p[i]);
	}
}

static struct rf_str label_text(struct rf_arena *a, const struct rf_label *labels, size_t n)
{
	rf_auto(buf) out = RF_BUF_INIT;

	for (size_t i = 0; i < n; i++) {
		rf_assert(is_name(labels[i].name));
		rf_buf_printf(&out, "%c%s=\"", i == 0 ? '{' : ',', labels[i].name);
		escape(&out, labels[i].value, true);
		rf_buf_add_c(&out, '"');
	}
	if (n > 0)
		rf_buf_add_c(&out, '}');
	return rf_arena_str(a, rf_buf_str(&out));
}

void rf_metrics_scaled(struct rf_metrics *m, const char *name, enum rf_metric_type type,
		       const char *help, const struct rf_label *labels, size_t n_labels,
		       int64_t value, int decimals)
{
	rf_assert(decimals >= 0 && decimals <= 9);
	if (m->samples >= RF_METRICS_SAMPLES_MAX) {
		m->full = true;
		return;
	}
	struct rf_metrics_family *f = family_of(m, name, type, help);
	struct sample *s = rf_arena_new(m->arena, struct sample);
	*s = (struct sample){ .next = f->samples,
			      .labels = label_text(m->arena, labels, n_labels),
			      .value = value,
			      .decimals = decimals };
	f->samples = s;
	f->n++;
	m->samples++;
}

void rf_metrics_int(struct rf_metrics *m, const char *name, enum rf_metric_type type,
		    const char *help, const struct rf_label *labels, size_t n_labels, int64_t value)
{
	rf_metrics_scaled(m, name, type, help, labels, n_labels, value, 0);
}

static int by_labels(const void *x, const void *y)
{
	const struct sample *a = *(const struct sample *const *)x,
			    *b = *(const struct sample *const *)y;

	return rf_str_cmp(a->labels, b->labels);
}

static void write_value(struct rf_buf *out, int64_t value, int decimals)
{
	uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value, scale = 1;

	for (int i = 0; i < decimals; i++)
		scale *= 10;
	rf_buf_printf(out, "%s%llu", value < 0 ? "-" : "", (unsigned long long)(magnitude / scale));
	if (decimals > 0)
		rf_buf_printf(out, ".%0*llu", decimals, (unsigned long long)(magnitude % scale));
}

static void write_samples(struct rf_arena *a, const struct rf_metrics_family *f, struct rf_buf *out)
{
	struct sample **sorted = rf_arena_array(a, struct sample *, f->n + 1);
	size_t n = 0;

	for (struct sample *s = f->samples; s != NULL; s = s->next)
		sorted[n++] = s;
	qsort(sorted, n, sizeof(*sorted), by_labels);
	for (size_t i = 0; i < n; i++) {
		/* The same series twice would spoil the whole scrape. */
		if (i > 0 && rf_str_eq(sorted[i]->labels, sorted[i - 1]->labels))
			continue;
		rf_buf_puts(out, f->name);
		rf_buf_add(out, sorted[i]->labels);
		rf_buf_add_c(out, ' ');
		write_value(out, sorted[i]->value, sorted[i]->decimals);
		rf_buf_add_c(out, '\n');
	}
}

void rf_metrics_write(const struct rf_metrics *m, struct rf_buf *out)
{
	for (const struct rf_metrics_family *f = m->first; f != NULL; f = f->next) {
		rf_buf_printf(out, "# HELP %s ", f->name);
		escape(out, rf_str(f->help), false);
		rf_buf_printf(out, "\n# TYPE %s %s\n", f->name,
			      f->type == RF_METRIC_COUNTER ? "counter" : "gauge");
		write_samples(m->arena, f, out);
	}
}
