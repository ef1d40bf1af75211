/* What Gatekeeper's controller would write about templates and constraints: the kind a template makes, and
 * how each of them fares. */
#include "control/private.h"

#define GROUP "constraints.gatekeeper.sh"
#define WRITER "ringfence-control"

static struct rf_str lower(struct rf_arena *a, struct rf_str s)
{
	char *p = rf_arena_alloc(a, s.n + 1);

	for (size_t i = 0; i < s.n; i++)
		p[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i];
	return rf_str_n(p, s.n);
}

struct rf_str rf_constraint_plural(struct rf_arena *a, struct rf_str kind)
{
	return lower(a, kind);
}

/* legacySchema: it was written when schemas needed no types, and API servers take it no longer. */
static struct rf_json *parameters(struct rf_arena *a, const struct rf_json *template)
{
	const struct rf_json *v = rf_json_at(template, "spec", "crd", "spec", "validation");
	const struct rf_json *legacy = rf_json_at(v, "legacySchema");
	const struct rf_json *schema = rf_json_at(v, "openAPIV3Schema");
	struct rf_str version = rf_json_str_at(template, "apiVersion");
	bool is_legacy = legacy ? rf_json_is_true(legacy) : rf_str_ends(version, RF_LIT("beta1"));

	if (schema == NULL || is_legacy)
		return rf_json_make(a, "{'type':'object','x-kubernetes-preserve-unknown-fields':true}");
	return rf_json_clone(a, schema);
}

static struct rf_json *schema(struct rf_arena *a, const struct rf_json *template)
{
	return rf_json_make(
		a,
		"{'type':'object','properties':{"
		"'metadata':{'type':'object','properties':{'name':{'type':'string','maxLength':63}}},"
		"'spec':{'type':'object','properties':{"
		"'enforcementAction':{'type':'string'},"
		"'scopedEnforcementActions':{'type':'array','items':{'type':'object',"
		"'x-kubernetes-preserve-unknown-fields':true}},"
		"'match':{'type':'object','x-kubernetes-preserve-unknown-fields':true},"
		"'parameters':%j}},"
		"'status':{'type':'object','x-kubernetes-preserve-unknown-fields':true}}}",
		parameters(a, template));
}

static struct rf_json *version(struct rf_arena *a, const char *name, bool storage,
			       const struct rf_json *template)
{
	return rf_json_make(
		a,
		"{'name':%s,'served':true,'storage':%b,'subresources':{'status':{}},"
		"'schema':{'openAPIV3Schema':%j},'additionalPrinterColumns':["
		"{'name':'enforcement-action','type':'string','description':"
		"'What happens when it is violated','jsonPath':'.spec.enforcementAction'}]}",
		name, storage, schema(a, template));
}

struct rf_json *rf_constraint_crd(struct rf_arena *a, const struct rf_json *template)
{
	struct rf_str kind = rf_json_str_at(template, "spec", "crd", "spec", "names", "kind");
	const struct rf_json *shorts = rf_json_at(template, "spec", "crd", "spec", "names", "shortNames");
	struct rf_str plural = lower(a, kind);
	struct rf_json *o = rf_json_make(
		a,
		"{'apiVersion':'apiextensions.k8s.io/v1','kind':'CustomResourceDefinition','metadata':{"
		"'name':%S,'labels':{'gatekeeper.sh/constraint':'yes','app.kubernetes.io/managed-by':%s},"
		"'ownerReferences':[%j]},'spec':{'group':'" GROUP "','scope':'Cluster','names':{"
		"'kind':%S,'listKind':%S,'plural':%S,'singular':%S,'categories':['constraint',"
		"'constraints']},'versions':[%j,%j]}}",
		rf_arena_printf(a, "%.*s." GROUP, RF_STR(plural)), WRITER,
		rf_kube_owner_ref(a, template), kind, rf_arena_printf(a, "%.*sList", RF_STR(kind)),
		plural, plural, version(a, "v1beta1", true, template),
		version(a, "v1alpha1", false, template));

	if (rf_json_len(shorts) > 0)
		rf_json_set(a, rf_json_at(o, "spec", "names"), RF_LIT("shortNames"),
			    rf_json_clone(a, shorts));
	return o;
}

/* Ours, and not what it should be. Another controller's is left alone. */
struct rf_json *rf_constraint_crd_patch(struct rf_arena *a, const struct rf_json *template,
					const struct rf_json *is)
{
	struct rf_json *wanted = rf_constraint_crd(a, template);
	const struct rf_json *old = rf_json_at(is, "spec", "versions");

	if (!rf_str_is(rf_kube_label(is, "app.kubernetes.io/managed-by"), WRITER))
		return NULL;
	for (size_t i = 0; i < rf_json_len(old); i++) {
		if (!rf_json_equal(rf_json_at(rf_json_item(old, i), "schema"),
				   rf_json_at(rf_json_item(rf_json_at(wanted, "spec", "versions"), i),
					      "schema")))
			return rf_json_make(a, "{'spec':{'versions':%j}}",
					    rf_json_at(wanted, "spec", "versions"));
	}
	return NULL;
}

/* --- how it fares --------------------------------------------------------------------------------- */

static bool is_place(struct rf_str word)
{
	size_t digits = 0, colons = 0;

	if (word.n < 6 || word.p[word.n - 1] != ':')
		return false;
	for (size_t i = word.n - 1; i-- > 0 && colons < 2;) {
		if (word.p[i] == ':' && digits > 0)
			colons++;
		else if (word.p[i] < '0' || word.p[i] > '9')
			return false;
		digits = word.p[i] == ':' ? 0 : digits + 1;
	}
	return colons == 2;
}

/* "... template:3:7: rego_parse_error: text": the compiler's place and code, if it has them. */
struct rf_json *rf_policy_error(struct rf_arena *a, const char *problem)
{
	struct rf_str rest = rf_str(problem), word, code;

	while (rest.n > 0 && rf_str_cut(&rest, ' ', &word)) {
		if (!is_place(word))
			continue;
		rf_str_cut(&rest, ' ', &code);
		if (code.n > 0)
			code.n--;
		word.n--;
		return rf_json_make(a, "{'code':%S,'location':%S,'message':%S}", code, word, rest);
	}
	return rf_json_make(a, "{'code':'create_error','message':%s}", problem);
}

static struct rf_json *by_pod(struct rf_arena *a, const struct rf_json *o, const char *uid_field,
			      const char *problem)
{
	struct rf_json *entry = rf_json_make(
		a, "{'id':'" WRITER "','observedGeneration':%D,'operations':['webhook'],%s:%S}",
		rf_json_int(rf_json_at(o, "metadata", "generation"), 0), uid_field, rf_kube_uid(o));

	if (problem[0] != '\0')
		rf_json_set(a, entry, RF_LIT("errors"),
			    rf_json_make(a, "[%j]", rf_policy_error(a, problem)));
	return entry;
}

struct rf_json *rf_policy_status(struct rf_arena *a, const struct rf_json *o, const char *problem)
{
	bool template = rf_str_is(rf_json_str_at(o, "kind"), "ConstraintTemplate");
	struct rf_json *entry = by_pod(a, o, template ? "templateUID" : "constraintUID", problem);
	const struct rf_json *is = rf_json_at(o, "status", "byPod");
	bool created = rf_json_is_true(rf_json_at(o, "status", "created"));
	struct rf_json *patch = NULL;

	if (!template)
		rf_json_set_bool(a, entry, "enforced", problem[0] == '\0');
	if (rf_json_len(is) == 1 && rf_json_equal(rf_json_item(is, 0), entry) &&
	    (!template || created == (problem[0] == '\0')))
		return NULL;
	patch = rf_json_make(a, "{'status':{'byPod':[%j]}}", entry);
	if (template)
		rf_json_set_bool(a, rf_json_at(patch, "status"), "created", problem[0] == '\0');
	return patch;
}
