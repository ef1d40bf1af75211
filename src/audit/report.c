/* What the reports share. */
#include "audit/private.h"

struct rf_str au_object_name(struct rf_arena *a, const struct rf_audit_finding *f)
{
	if (f->kind.n == 0)
		return RF_LIT("the cluster");
	if (f->name.n == 0)
		return f->kind;
	if (f->ns.n == 0)
		return rf_arena_printf(a, "%.*s %.*s", RF_STR(f->kind), RF_STR(f->name));
	return rf_arena_printf(a, "%.*s %.*s/%.*s", RF_STR(f->kind), RF_STR(f->ns),
			       RF_STR(f->name));
}

static size_t of_severity(const struct rf_audit *x, enum rf_audit_severity s)
{
	size_t n = 0;

	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++)
		n += x->count[l][s];
	return n;
}

static size_t of_layer(const struct rf_audit *x, enum rf_audit_layer l)
{
	size_t n = 0;

	for (size_t s = 0; s < RF_AUDIT_SEVERITIES; s++)
		n += x->count[l][s];
	return n;
}

struct rf_str au_summary(const struct rf_audit *x, struct rf_arena *a)
{
	rf_auto(buf) b = RF_BUF_INIT;
	size_t all = 0;

	for (size_t s = RF_AUDIT_SEVERITIES; s-- > 0;) {
		rf_buf_printf(&b, "%zu %s%s", of_severity(x, (enum rf_audit_severity)s),
			      rf_audit_severity_name((enum rf_audit_severity)s),
			      s > 0 ? ", " : " (");
		all += of_severity(x, (enum rf_audit_severity)s);
	}
	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++)
		rf_buf_printf(&b, "%s %zu%s", rf_audit_layer_name((enum rf_audit_layer)l),
			      of_layer(x, (enum rf_audit_layer)l),
			      l + 1 < RF_AUDIT_LAYERS ? ", " : "); ");
	rf_buf_printf(&b, "%zu objects seen", x->all.n);
	if (x->cluster)
		rf_buf_printf(&b, " of %zu kinds, %zu kinds not seen", x->n_kinds - x->unseen.n,
			      x->unseen.n);
	rf_buf_printf(&b, ", %zu policies asked", x->n_policies);
	if (x->unmade.n > 0)
		rf_buf_printf(&b, ", %zu checks not made or not whole", x->unmade.n);
	return rf_arena_printf(a, "%zu finding%s: %s", all, all == 1 ? "" : "s", b.p);
}
