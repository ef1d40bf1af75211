/* SARIF 2.1.0, for code scanning and dashboards: every check is a rule, every finding a result. */
#include "audit/private.h"

#define SCHEMA "https://json.schemastore.org/sarif-2.1.0.json"

static const char *level_of(enum rf_audit_severity s)
{
	static const char *const LEVELS[] = { "note", "warning", "error", "error" };

	return LEVELS[s];
}

/* What code scanning sorts by: 0 to 10. */
static const char *score_of(enum rf_audit_severity s)
{
	static const char *const SCORES[] = { "3.0", "5.5", "8.0", "9.5" };

	return SCORES[s];
}

static struct rf_json *rule_json(struct rf_arena *a, const struct rf_audit_check *c)
{
	struct rf_json *rule =
		rf_json_make(a,
			     "{'id':%s,'name':%s,'shortDescription':{'text':%s},'fullDescription':{"
			     "'text':%s},'help':{'text':%s},"
			     "'defaultConfiguration':{'level':%s},'properties':{'layer':%s,'"
			     "severity':%s,'security-severity':%s,"
			     "'tags':['security','kubernetes','gpu'],'reference':%s}}",
			     c->id, c->id, c->title, c->why, c->fix, level_of(c->severity),
			     rf_audit_layer_name(c->layer), rf_audit_severity_name(c->severity),
			     score_of(c->severity), c->reference);

	if (strncmp(c->reference, "https://", 8) == 0)
		rf_json_set_str(a, rule, "helpUri", rf_str(c->reference));
	return rule;
}

static struct rf_str uri_of(struct rf_arena *a, struct rf_str path)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; i < path.n; i++) {
		unsigned char c = (unsigned char)path.p[i];
		bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
			     (c >= '0' && c <= '9') || strchr("-._~/", c) != NULL;

		if (plain && c != '\0')
			rf_buf_add_c(&b, (char)c);
		else
			rf_buf_printf(&b, "%%%02X", c);
	}
	return rf_arena_str(a, rf_buf_str(&b));
}

static struct rf_str qualified(struct rf_arena *a, const struct rf_audit_finding *f)
{
	if (f->kind.n == 0)
		return RF_LIT("Cluster");
	if (f->ns.n == 0)
		return f->name.n == 0
			       ? f->kind
			       : rf_arena_printf(a, "%.*s/%.*s", RF_STR(f->kind), RF_STR(f->name));
	return rf_arena_printf(a, "%.*s/%.*s/%.*s", RF_STR(f->ns), RF_STR(f->kind),
			       RF_STR(f->name));
}

static struct rf_json *location_json(struct rf_arena *a, const struct rf_audit_finding *f)
{
	struct rf_json *logical =
		rf_json_make(a, "{'fullyQualifiedName':%S,'kind':'resource'}", qualified(a, f));
	struct rf_json *location = rf_json_make(a, "{'logicalLocations':[%j]}", logical);

	if (f->name.n > 0)
		rf_json_set_str(a, logical, "name", f->name);
	if (f->source.n > 0)
		rf_json_set(
			a, location, RF_LIT("physicalLocation"),
			rf_json_make(a, "{'artifactLocation':{'uri':%S}}", uri_of(a, f->source)));
	return location;
}

/* The same finding has the same print tomorrow, so that it is not told as new. */
static struct rf_str print_of(struct rf_arena *a, const struct rf_audit_finding *f)
{
	static const uint8_t KEY[16] = "ringfence-audit";
	struct rf_str name = qualified(a, f);
	struct rf_str all = rf_arena_printf(a, "%s|%.*s|%.*s|%.*s", f->check->id, RF_STR(name),
					    RF_STR(f->field), RF_STR(f->policy));

	return rf_arena_printf(a, "%016llx", (unsigned long long)rf_siphash13(KEY, all.p, all.n));
}

static struct rf_json *result_json(struct rf_arena *a, const struct rf_audit_finding *f,
				   size_t rule)
{
	struct rf_str object = au_object_name(a, f);
	struct rf_str text = rf_arena_printf(a, "%s. %.*s: %.*s\nTo do: %.*s", f->check->title,
					     RF_STR(object), RF_STR(f->found), RF_STR(f->fix));
	struct rf_json *properties =
		rf_json_make(a, "{'layer':%s,'severity':%s,'security-severity':%s}",
			     rf_audit_layer_name(f->layer), rf_audit_severity_name(f->severity),
			     score_of(f->severity));

	if (f->field.n > 0)
		rf_json_set_str(a, properties, "field", f->field);
	if (f->policy.n > 0)
		rf_json_set_str(a, properties, "policy", f->policy);
	return rf_json_make(
		a,
		"{'ruleId':%s,'ruleIndex':%D,'level':%s,'message':{'text':%S},'locations':[%j],"
		"'partialFingerprints':{'ringfenceAudit/v1':%S},'properties':%j}",
		f->check->id, (int64_t)rule, level_of(f->severity), text, location_json(a, f),
		print_of(a, f), properties);
}

static size_t rule_index(const struct rf_audit_check *check)
{
	size_t i = 0;

	while (rf_audit_check(i) != check)
		i++;
	return i;
}

void au_report_sarif(const struct rf_audit *x, struct rf_buf *out)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *rules = rf_json_array(&a), *results = rf_json_array(&a),
		       *notes = rf_json_array(&a);
	const struct rf_audit_check *c;
	const struct rf_audit_finding *f;

	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++)
		rf_json_push(&a, rules, rule_json(&a, c));
	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++)
		rf_json_push(&a, results, result_json(&a, f, rule_index(f->check)));
	for (size_t i = 0; i < x->unmade.n; i++)
		rf_json_push(
			&a, notes,
			rf_json_make(
				&a,
				"{'level':'note','message':{'text':%S},'associatedRule':{'id':%S}}",
				rf_arena_printf(&a, "not made: %.*s", RF_STR(x->unmade.at[i].why)),
				x->unmade.at[i].what));
	rf_json_write_pretty(
		out,
		rf_json_make(&a,
			     "{'$schema':%s,'version':'2.1.0','runs':[{'tool':{'driver':{'name':'"
			     "ringfence audit',"
			     "'version':%s,'semanticVersion':%s,'rules':%j}},'invocations':[{'"
			     "executionSuccessful':"
			     "true,'endTimeUtc':%S,'toolExecutionNotifications':%j}],'results':%j,"
			     "'columnKind':'unicodeCodePoints'}]}",
			     SCHEMA, RF_VERSION, RF_VERSION, rules,
			     rf_time_format(&a, x->opts.now_ms), notes, results));
}
