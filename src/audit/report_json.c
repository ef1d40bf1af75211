/* For programs: the schema is in README.md and does not change within its version. */
#include "audit/private.h"

static void set_if(struct rf_arena *a, struct rf_json *o, const char *key, struct rf_str s)
{
	if (s.n > 0)
		rf_json_set_str(a, o, key, s);
}

static struct rf_json *finding_json(struct rf_arena *a, const struct rf_audit_finding *f)
{
	struct rf_json *object = rf_json_object(a);
	struct rf_json *o =
		rf_json_make(a, "{'id':%s,'layer':%s,'severity':%s,'title':%s,'object':%j}",
			     f->check->id, rf_audit_layer_name(f->layer),
			     rf_audit_severity_name(f->severity), f->check->title, object);

	set_if(a, object, "kind", f->kind);
	set_if(a, object, "namespace", f->ns);
	set_if(a, object, "name", f->name);
	set_if(a, object, "file", f->source);
	set_if(a, o, "field", f->field);
	rf_json_set_str(a, o, "found", f->found);
	rf_json_set_str(a, o, "why", rf_str(f->check->why));
	rf_json_set_str(a, o, "fix", f->fix);
	rf_json_set_str(a, o, "reference", rf_str(f->check->reference));
	set_if(a, o, "policy", f->policy);
	if (f->also > 0)
		rf_json_set_int(a, o, "alsoIn", (int64_t)f->also);
	return o;
}

static struct rf_json *counts_json(const struct rf_audit *x, struct rf_arena *a)
{
	struct rf_json *layers = rf_json_object(a), *severities = rf_json_object(a);
	int64_t by_severity[RF_AUDIT_SEVERITIES] = { 0 }, all = 0;

	for (size_t l = 0; l < RF_AUDIT_LAYERS; l++) {
		int64_t n = 0;

		for (size_t s = 0; s < RF_AUDIT_SEVERITIES; s++) {
			n += (int64_t)x->count[l][s];
			by_severity[s] += (int64_t)x->count[l][s];
		}
		rf_json_set_int(a, layers, rf_audit_layer_name((enum rf_audit_layer)l), n);
		all += n;
	}
	for (size_t s = RF_AUDIT_SEVERITIES; s-- > 0;)
		rf_json_set_int(a, severities, rf_audit_severity_name((enum rf_audit_severity)s),
				by_severity[s]);
	return rf_json_make(
		a,
		"{'findings':%D,'notShown':%D,'bySeverity':%j,'byLayer':%j,'objects':%D,'kinds':%D,"
		"'kindsNotSeen':%D,'policies':%D}",
		all, (int64_t)x->more, severities, layers, (int64_t)x->all.n,
		(int64_t)(x->n_kinds - x->unseen.n), (int64_t)x->unseen.n, (int64_t)x->n_policies);
}

void au_report_json(const struct rf_audit *x, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *findings = rf_json_array(&a), *unseen = rf_json_array(&a),
		       *unmade = rf_json_array(&a);
	const struct rf_audit_finding *f;

	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++)
		rf_json_push(&a, findings, finding_json(&a, f));
	for (size_t i = 0; i < x->unseen.n; i++)
		rf_json_push(&a, unseen,
			     rf_json_make(&a, "{'kind':%S,'why':%S}", x->unseen.at[i].what,
					  x->unseen.at[i].why));
	for (size_t i = 0; i < x->unmade.n; i++)
		rf_json_push(&a, unmade,
			     rf_json_make(&a, "{'id':%S,'why':%S}", x->unmade.at[i].what,
					  x->unmade.at[i].why));
	rf_json_write_pretty(
		out,
		rf_json_make(
			&a,
			"{'apiVersion':'audit.ringfence.io/v1','kind':'AuditReport','tool':"
			"{'name':'ringfence','version':%s},'generated':%S,'target':%S,'summary':%j,"
			"'findings':%j,'notSeen':%j,'notMade':%j}",
			RF_VERSION, rf_time_format(&a, x->opts.now_ms), x->opts.target,
			counts_json(x, &a), findings, unseen, unmade));
}
