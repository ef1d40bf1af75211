/* One page that needs nothing else: no scripts, nothing fetched, good on paper and to screen readers. */
#include "audit/private.h"

#include "codec/json.h"

static const char STYLE[] =
	":root{color-scheme:light "
	"dark;--ink:#1c2430;--soft:#566173;--line:#d9dfe7;--page:#f6f8fa;--box:#fff;"
	"--critical:#8f1d14;--high:#b42318;--medium:#8a5a00;--low:#31577d}"
	"@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#a3aebd;--line:#2b3542;--"
	"page:#12171d;--box:#1a2129;"
	"--critical:#ff9d90;--high:#ff8a7a;--medium:#f0bd5c;--low:#8fbbe6}}"
	"*{box-sizing:border-box}body{margin:0;font:15px/1.5 "
	"system-ui,sans-serif;color:var(--ink);background:var(--page)}"
	"header,main,footer{max-width:64rem;margin:auto;padding:1rem "
	"1.5rem}h1{font-size:1.5rem;margin:.5rem 0 0}"
	"h2{font-size:1.15rem;margin:2rem 0 .5rem;padding-bottom:.25rem;border-bottom:1px solid "
	"var(--line)}"
	"h3{font-size:1rem;margin:0}p{margin:.35rem 0}.soft{color:var(--soft)}"
	"table{border-collapse:collapse;background:var(--box);border:1px solid "
	"var(--line);margin:.75rem 0}"
	"caption{text-align:left;color:var(--soft);padding:.25rem 0}"
	"th,td{padding:.35rem .9rem;text-align:right;border-top:1px solid "
	"var(--line);font-variant-numeric:tabular-nums}"
	"th:first-child,td:first-child{text-align:left}thead th{border-top:0}"
	"article{background:var(--box);border:1px solid var(--line);border-left:5px solid "
	"var(--c);border-radius:6px;"
	"padding:.75rem 1rem;margin:.75rem 0;break-inside:avoid}"
	".critical{--c:var(--critical)}.high{--c:var(--high)}.medium{--c:var(--medium)}.low{--c:"
	"var(--low)}"
	".mark{color:var(--c);font-weight:700;text-transform:uppercase;font-size:.8rem;letter-"
	"spacing:.04em}"
	".id{color:var(--soft);font-size:.85rem;float:right}ul{margin:.5rem "
	"0;padding-left:1.2rem}li{margin:.5rem 0}"
	"code,pre{font:13px/1.45 ui-monospace,monospace;overflow-wrap:anywhere}"
	"pre{white-space:pre-wrap;background:var(--page);border:1px solid "
	"var(--line);border-radius:4px;padding:.5rem .7rem;"
	"margin:.35rem 0}a{color:inherit}nav a{margin-right:1rem}@media "
	"print{body{background:#fff}}";

/* Everything that comes from outside goes through here. Controls become U+FFFD: a name must not turn the
 * reading direction or hide text, so the marks for that go too. */
static void put(struct rf_buf *out, struct rf_str s)
{
	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		const unsigned char *u = (const unsigned char *)s.p + i;

		if (c == '&')
			rf_buf_puts(out, "&amp;");
		else if (c == '<')
			rf_buf_puts(out, "&lt;");
		else if (c == '>')
			rf_buf_puts(out, "&gt;");
		else if (c == '"')
			rf_buf_puts(out, "&quot;");
		else if (c == '\'')
			rf_buf_puts(out, "&#39;");
		else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
			rf_buf_puts(out, "\xEF\xBF\xBD");
		else if (c == 0xE2 && i + 2 < s.n && u[1] == 0x80 &&
			 ((u[2] >= 0xAA && u[2] <= 0xAE) || (u[2] >= 0x8E && u[2] <= 0x8F))) {
			rf_buf_puts(out, "\xEF\xBF\xBD");
			i += 2;
		} else if (c == 0xE2 && i + 2 < s.n && u[1] == 0x81 && u[2] >= 0xA6 &&
			   u[2] <= 0xA9) {
			rf_buf_puts(out, "\xEF\xBF\xBD");
			i += 2;
		} else
			rf_buf_add_c(out, (char)c);
	}
}

static void puts_(struct rf_buf *out, const char *s)
{
	put(out, rf_str(s));
}

static void put_counts(const struct rf_audit *x, struct rf_buf *out)
{
	rf_buf_puts(out, "<table><caption>Findings by layer and severity</caption><thead><tr><th "
			 "scope=\"col\">Layer</th>");
	for (size_t s = RF_AUDIT_SEVERITIES; s-- > 0;)
		rf_buf_printf(out, "<th scope=\"col\">%s</th>",
			      rf_audit_severity_name((enum rf_audit_severity)s));
	rf_buf_puts(out, "</tr></thead><tbody>");
	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++) {
		rf_buf_puts(out, "<tr><th scope=\"row\">");
		puts_(out, rf_audit_layer_title((enum rf_audit_layer)l));
		rf_buf_puts(out, "</th>");
		for (size_t s = RF_AUDIT_SEVERITIES; s-- > 0;)
			rf_buf_printf(out, "<td>%zu</td>", x->count[l][s]);
		rf_buf_puts(out, "</tr>");
	}
	rf_buf_puts(out, "</tbody></table>\n");
}

static void put_item(struct rf_buf *out, const struct rf_audit_finding *f, bool with_fix)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	rf_buf_puts(out, "<li><strong>");
	put(out, au_object_name(&a, f));
	rf_buf_puts(out, "</strong>");
	if (f->field.n > 0) {
		rf_buf_puts(out, " <code>");
		put(out, f->field);
		rf_buf_puts(out, "</code>");
	}
	if (f->source.n > 0) {
		rf_buf_puts(out, " <span class=\"soft\">in ");
		put(out, f->source);
		rf_buf_puts(out, "</span>");
	}
	rf_buf_puts(out, "<br>");
	put(out, f->found);
	if (f->also > 0)
		rf_buf_printf(out, " <span class=\"soft\">(and in %zu more of its kind)</span>",
			      f->also);
	if (with_fix) {
		rf_buf_puts(out, "<pre>");
		put(out, f->fix);
		rf_buf_puts(out, "</pre>");
	}
	rf_buf_puts(out, "</li>\n");
}

static void put_head(struct rf_buf *out, const struct rf_audit_finding *f)
{
	const char *severity = rf_audit_severity_name(f->severity);

	rf_buf_printf(out,
		      "<article class=\"%s\"><span class=\"id\">%s</span><span "
		      "class=\"mark\">%s</span><h3>",
		      severity, f->check->id, severity);
	puts_(out, f->check->title);
	rf_buf_puts(out, "</h3><p>");
	puts_(out, f->check->why);
	rf_buf_puts(out, "</p><ul>\n");
}

static void put_tail(struct rf_buf *out, const struct rf_audit_finding *f)
{
	bool link = strncmp(f->check->reference, "https://", 8) == 0;

	rf_buf_puts(out, "</ul><p class=\"soft\">Reference: ");
	if (link) {
		rf_buf_puts(out, "<a rel=\"noreferrer\" href=\"");
		puts_(out, f->check->reference);
		rf_buf_puts(out, "\">");
	}
	puts_(out, f->check->reference);
	rf_buf_puts(out, link ? "</a></p></article>\n" : "</p></article>\n");
}

static void put_layer(const struct rf_audit *x, enum rf_audit_layer layer, struct rf_buf *out)
{
	const struct rf_audit_finding *last = NULL, *f;

	rf_buf_printf(out, "<section id=\"%s\"><h2>", rf_audit_layer_name(layer));
	puts_(out, rf_audit_layer_title(layer));
	rf_buf_puts(out, "</h2>\n");
	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++) {
		bool same =
			last != NULL && last->check == f->check && last->severity == f->severity;

		if (f->layer != layer)
			continue;
		if (!same) {
			if (last != NULL)
				put_tail(out, last);
			put_head(out, f);
		}
		put_item(out, f, !same || !rf_str_eq(last->fix, f->fix));
		last = f;
	}
	if (last != NULL)
		put_tail(out, last);
	else
		rf_buf_puts(out, "<p class=\"soft\">Nothing found.</p>");
	rf_buf_puts(out, "</section>\n");
}

static void put_unmade(const struct rf_audit *x, struct rf_buf *out)
{
	if (x->unmade.n == 0)
		return;
	rf_buf_puts(out,
		    "<section><h2>Checks that were not made, or not over everything</h2><ul>\n");
	for (size_t i = 0; i < x->unmade.n; i++) {
		rf_buf_puts(out, "<li>");
		put(out, x->unmade.at[i].what);
		rf_buf_puts(out, ": ");
		put(out, x->unmade.at[i].why);
		rf_buf_puts(out, "</li>\n");
	}
	rf_buf_puts(out, "</ul></section>\n");
}

void au_report_html(const struct rf_audit *x, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) page = RF_BUF_INIT;

	rf_buf_puts(&page, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
			   "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
			   "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src "
			   "'none'; style-src 'unsafe-inline'\">"
			   "<title>ringfence audit</title><style>");
	rf_buf_puts(&page, STYLE);
	rf_buf_puts(&page,
		    "</style></head><body><header><h1>GPU tenancy audit</h1><p class=\"soft\">");
	put(&page, x->opts.target);
	rf_buf_puts(&page, ", ");
	put(&page, rf_time_format(&a, x->opts.now_ms));
	rf_buf_puts(&page, "</p><p>");
	put(&page, au_summary(x, &a));
	rf_buf_puts(&page, "</p><nav aria-label=\"Layers\">");
	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++)
		rf_buf_printf(&page, "<a href=\"#%s\">%s</a>",
			      rf_audit_layer_name((enum rf_audit_layer)l),
			      rf_audit_layer_title((enum rf_audit_layer)l));
	rf_buf_puts(&page, "</nav></header><main>\n");
	put_counts(x, &page);
	if (x->more > 0)
		rf_buf_printf(&page,
			      "<p>%zu findings are counted and not shown: no more than %d of one "
			      "check are.</p>",
			      x->more, RF_AUDIT_PER_CHECK);
	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++)
		put_layer(x, (enum rf_audit_layer)l, &page);
	put_unmade(x, &page);
	rf_buf_puts(&page, "</main><footer class=\"soft\">ringfence " RF_VERSION
			   "</footer></body></html>\n");
	rf_buf_add(out, rf_buf_str(&page));
}
