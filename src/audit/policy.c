/* What policies say of the objects: Gatekeeper's, from files and from the cluster itself, and plain Rego
 * (package kubernetes.admission and below, the set deny); and Pod Security for pods with cards. */
#include "audit/private.h"

#include <sys/stat.h>

#include "base/fs.h"
#include "codec/yaml.h"
#include "policy/podsecurity.h"
#include "policy/rego/rego.h"

#define REVIEW_MEMORY ((size_t)64 << 20)
#define REGO_STEPS 10000000LL
#define TOTAL_NS (180LL * 1000000000) /* of all policies over all objects */
#define DEPTH_MAX 8 /* packages below kubernetes.admission, kustomizations in another */
#define LIST_MAX ((size_t)1 << 20)

struct au_rego {
	struct rf_arena a;
	RF_VEC(struct rf_rego_source) source;
};

/* --- taking in ------------------------------------------------------------------------------ */

static bool is_template(const struct rf_json *o)
{
	return rf_str_is(rf_json_str_at(o, "kind"), "ConstraintTemplate") &&
	       rf_str_is(au_group(rf_json_str_at(o, "apiVersion")), "templates.gatekeeper.sh");
}

static bool is_constraint(const struct rf_json *o)
{
	return rf_str_is(au_group(rf_json_str_at(o, "apiVersion")), "constraints.gatekeeper.sh");
}

static void tell_broken(struct rf_audit *x, struct rf_str kind, struct rf_str name,
			struct rf_str source, const struct rf_err *err)
{
	struct au_what w = { .kind = rf_arena_str(&x->a, kind), .name = rf_arena_str(&x->a, name) };

	if (source.n > 0)
		au_tell(x, au_check("RF-OPS-92"), &w, "%.*s: %s", RF_STR(source), err->msg);
	else
		au_tell(x, au_check("RF-OPS-92"), &w, "%s", err->msg);
}

struct taking {
	struct rf_audit *x;
	struct rf_arena *a;
	bool templates; /* this round; constraints come in the next */
};

static struct au_rego *rego_of(struct rf_audit *x)
{
	if (x->rego == NULL)
		x->rego = rf_new(struct au_rego);
	return x->rego;
}

static void take_rego(struct rf_audit *x, struct rf_str file, struct rf_str text)
{
	struct au_rego *r = rego_of(x);
	struct rf_rego_source s = { .file = rf_arena_str(&r->a, file),
				    .text = rf_arena_str(&r->a, text),
				    .version = rf_rego_version_of(file, text) };

	rf_vec_push(&r->source, s);
}

static void note_severity(struct rf_audit *x, const struct rf_json *template)
{
	enum rf_audit_severity s;
	struct rf_str kind = rf_json_str_at(template, "spec", "crd", "spec", "names", "kind");

	if (rf_audit_severity_parse(rf_kube_annotation(template, "ringfence.io/severity"), &s))
		rf_map_set(&x->severities, kind, (void *)((uintptr_t)s + 1));
}

static int take_file(void *arg, const char *file, struct rf_str text, struct rf_err *err)
{
	struct taking *t = arg;
	struct rf_json *docs = NULL;

	if (rf_str_ends(rf_str(file), RF_LIT(".rego"))) {
		if (t->templates == t->x->is_pack ||
		    rf_str_ends(rf_str(file), RF_LIT("_test.rego")))
			return 0; /* a pack's modules are parts of its templates, but for those it recommends */
		if (rf_str_contains(text, RF_LIT("kubernetes.admission")))
			take_rego(t->x, rf_str(file), text);
		return 0;
	}
	if (rf_yaml_parse(t->a, text, &docs, err) < 0) {
		if (t->templates)
			tell_broken(t->x, RF_LIT("File"), rf_str(file), RF_STR_EMPTY, err);
		return 0;
	}
	for (size_t i = 0; i < rf_json_len(docs); i++) {
		const struct rf_json *o = rf_json_item(docs, i);

		if (!(t->templates ? is_template(o) : is_constraint(o)))
			continue;
		if (rf_gk_add(t->x->pack, o, err) < 0)
			tell_broken(t->x, rf_json_str_at(o, "kind"), rf_kube_name(o), rf_str(file),
				    err);
		else
			t->x->n_policies += !t->templates;
		if (t->templates)
			note_severity(t->x, o);
	}
	return 0;
}

static int take_folder(struct taking *t, const char *dir, int depth, struct rf_err *err);

/* What a kustomization.yaml names, and nothing beside it: samples and tests lie there, too. */
static int take_named(struct taking *t, const char *dir, const struct rf_json *names, int depth,
		      struct rf_err *err)
{
	for (size_t i = 0; i < rf_json_len(names); i++) {
		struct rf_str name = rf_json_str(rf_json_item(names, i));
		const char *path = rf_fs_path(t->a, "%s/%.*s", dir, RF_STR(name));
		struct stat st;

		if (stat(path, &st) < 0)
			return rf_fail(err, RF_NOT_FOUND,
				       "%s/kustomization.yaml: names %.*s, which is not there", dir,
				       RF_STR(name));
		if ((S_ISDIR(st.st_mode) ? take_folder(t, path, depth + 1, err)
					 : au_walk_yaml(t->a, path, "", take_file, t, err)) < 0)
			return -err->code;
	}
	return 0;
}

static int take_folder(struct taking *t, const char *dir, int depth, struct rf_err *err)
{
	const char *list = rf_fs_path(t->a, "%s/kustomization.yaml", dir);
	struct rf_json *docs = NULL;
	struct rf_str text;

	if (depth > DEPTH_MAX)
		return rf_fail(err, RF_TOO_LARGE, "%s: kustomizations that name each other", dir);
	if (!rf_fs_exists(list))
		return au_walk_yaml(t->a, dir, ".yaml .yml .json .rego", take_file, t, err);
	if (rf_fs_read(t->a, list, LIST_MAX, &text, err) < 0 ||
	    rf_yaml_parse(t->a, text, &docs, err) < 0)
		return rf_wrap(err, "%s", list);
	return take_named(t, dir, rf_json_at(rf_json_item(docs, 0), "resources"), depth, err);
}

static int take(struct rf_audit *x, const char *dir, bool templates, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct taking t = { .x = x, .a = &a, .templates = templates };

	return take_folder(&t, dir, 0, err);
}

/* A pack has its templates anywhere and what it recommends in one folder; beside them lie samples and
 * tests, which nobody means to be held to. Without that folder everything counts. */
int rf_audit_policies(struct rf_audit *x, const char *dir, struct rf_err *err)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const char *chosen = rf_fs_path(&a, "%s/recommended", dir);

	x->is_pack = rf_fs_exists(chosen);
	if (x->pack == NULL)
		x->pack = rf_gk_new();
	if (take(x, dir, true, err) < 0 || take(x, x->is_pack ? chosen : dir, false, err) < 0)
		return rf_wrap(err, "policies");
	return 0;
}

void au_policies_done(struct rf_audit *x)
{
	rf_map_done(&x->severities);
	rf_gk_free(x->pack);
	if (x->rego != NULL) {
		rf_vec_done(&x->rego->source);
		rf_arena_done(&x->rego->a);
		free(x->rego);
	}
}

/* The cluster's own, from the objects. */
static struct rf_gk *own_policies(struct rf_audit *x)
{
	struct rf_gk *gk;

	if (x->of[AU_TEMPLATE].n == 0 || x->of[AU_CONSTRAINT].n == 0)
		return NULL;
	gk = rf_gk_new();
	for (int k = 0; k < 2; k++)
		AU_EACH(x, k == 0 ? AU_TEMPLATE : AU_CONSTRAINT, o)
		{
			struct rf_err err = RF_ERR_INIT;

			if (rf_gk_add(gk, o->o, &err) < 0)
				tell_broken(x, o->kind, o->name, o->source, &err);
			else
				x->n_policies += k;
			if (k == 0)
				note_severity(x, o->o);
		}
	return gk;
}

/* --- asking --------------------------------------------------------------------------------- */

struct asking {
	struct rf_audit *x;
	const struct rf_gk *gk;
	struct rf_rv inventory;
	struct rf_rego_query *query;
	int64_t start_ns;
	struct rf_map said; /* object and message: two sets of policies may hold the same one */
};

/* How much it matters: what the template says of itself, less where its constraint does not deny. */
static enum rf_audit_severity severity_of(const struct rf_audit *x, const struct rf_gk_violation *v)
{
	uintptr_t said = (uintptr_t)rf_map_get(&x->severities, v->kind);
	enum rf_audit_severity s = said > 0 ? (enum rf_audit_severity)(said - 1) : RF_AUDIT_HIGH;

	if (v->action == RF_GK_DRYRUN)
		return RF_AUDIT_LOW;
	return v->action == RF_GK_WARN ? RF_MIN(s, RF_AUDIT_MEDIUM) : s;
}

static bool is_new(struct asking *k, const struct au_obj *o, struct rf_str msg)
{
	rf_auto(buf) key = RF_BUF_INIT;

	rf_buf_printf(&key, "%p|", (const void *)o);
	rf_buf_add(&key, msg);
	if (rf_map_get(&k->said, rf_buf_str(&key)) != NULL)
		return false;
	rf_map_set(&k->said, rf_buf_str(&key), k);
	return true;
}

static void tell_violation(struct asking *k, const struct au_obj *o, const struct au_pod *pod,
			   const struct rf_gk_violation *v, size_t nth)
{
	struct rf_audit *x = k->x;
	struct au_what w = { .obj = o, .pod = pod };

	w.policy = au_text(x, "%.*s/%.*s", RF_STR(v->kind), RF_STR(v->constraint));
	w.has_severity = true;
	w.severity = severity_of(x, v);
	w.nth = nth;
	if (is_new(k, o, v->msg))
		au_tell(x, au_check("RF-POL-01"), &w, "%.*s: %.*s", RF_STR(w.policy),
			RF_STR(v->msg));
}

static void ask_gatekeeper(struct asking *k, const struct au_obj *o, const struct au_pod *pod)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(REVIEW_MEMORY);
	struct rf_gk_violations found = { 0 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv review;

	if (rf_gk_review_of(&a, o->rv, &review, &err) < 0 ||
	    rf_gk_review(k->gk, &review, &k->inventory, RF_GK_AUDIT, &a, &found, &err) < 0) {
		tell_broken(k->x, o->kind, o->name, o->source, &err);
		return;
	}
	for (size_t i = 0; i < found.n; i++)
		tell_violation(k, o, pod, &found.at[i], i);
}

static struct rf_str message_of(struct rf_arena *a, struct rf_rv v)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_rv msg;

	if (v.type == RF_RV_STRING)
		return rf_rv_text(v);
	if (v.type == RF_RV_OBJECT && rf_rv_get_str(v, RF_LIT("msg"), &msg) &&
	    msg.type == RF_RV_STRING)
		return rf_rv_text(msg);
	rf_rv_write_json(&b, v);
	return rf_arena_str(a, rf_buf_str(&b));
}

/* Every set named deny, in the package and in those below it. */
static void tell_denied(struct asking *k, struct rf_arena *a, const struct au_obj *o,
			const struct au_pod *pod, struct rf_rv package, struct rf_str name,
			int depth)
{
	struct rf_rv deny;

	if (package.type != RF_RV_OBJECT || depth > DEPTH_MAX)
		return;
	if (rf_rv_get_str(package, RF_LIT("deny"), &deny) &&
	    (deny.type == RF_RV_SET || deny.type == RF_RV_ARRAY))
		for (uint32_t i = 0; i < deny.n; i++) {
			struct rf_str msg = message_of(a, deny.items[i]);
			struct au_what w = { .obj = o,
					     .pod = pod,
					     .policy = rf_arena_str(&k->x->a, name),
					     .nth = i };

			if (is_new(k, o, msg))
				au_tell(k->x, au_check("RF-POL-01"), &w, "%.*s: %.*s", RF_STR(name),
					RF_STR(msg));
		}
	for (uint32_t i = 0; i < package.n; i++)
		if (package.pairs[i].key.type == RF_RV_STRING &&
		    package.pairs[i].value.type == RF_RV_OBJECT)
			tell_denied(k, a, o, pod, package.pairs[i].value,
				    rf_arena_printf(a, "%.*s.%.*s", RF_STR(name),
						    RF_STR(rf_rv_text(package.pairs[i].key))),
				    depth + 1);
}

static bool review_input(struct rf_arena *a, struct rf_rv request, struct rf_rv *ret)
{
	struct rf_rv_grow g = { 0 };

	return rf_rv_put(&g, a, rf_rv_str(RF_LIT("apiVersion")),
			 rf_rv_str(RF_LIT("admission.k8s.io/v1")), NULL) &&
	       rf_rv_put(&g, a, rf_rv_str(RF_LIT("kind")), rf_rv_str(RF_LIT("AdmissionReview")),
			 NULL) &&
	       rf_rv_put(&g, a, rf_rv_str(RF_LIT("request")), request, NULL) &&
	       rf_rv_grown_object(&g, a, ret);
}

static void ask_rego(struct asking *k, const struct au_obj *o, const struct au_pod *pod)
{
	rf_auto(arena) a = RF_ARENA_CAPPED(REVIEW_MEMORY);
	struct rf_rego_run run = { .arena = &a,
				   .steps = REGO_STEPS,
				   .now_ns = k->x->opts.now_ms * 1000000 };
	struct rf_rego_result result = { 0 };
	struct rf_err err = RF_ERR_INIT;
	struct rf_rv request, input, value;

	if (rf_gk_review_of(&a, o->rv, &request, &err) < 0 || !review_input(&a, request, &input)) {
		tell_broken(k->x, o->kind, o->name, o->source, &err);
		return;
	}
	run.input = &input;
	if (rf_rego_eval(k->query, &run, &result, &err) < 0)
		tell_broken(k->x, o->kind, o->name, o->source, &err);
	else if (rf_rego_value(&result, &value))
		tell_denied(k, &a, o, pod, value, RF_LIT("kubernetes.admission"), 0);
}

/* Rego's values of every object, and all of them as data.inventory. What does not fit is told. */
static bool make_values(struct rf_audit *x, struct rf_arena *a, struct rf_rv *ret)
{
	struct rf_rv *all = rf_arena_array(a, struct rf_rv, x->all.n + 1);
	struct rf_err err = RF_ERR_INIT;
	size_t n = 0;

	for (size_t i = 0; i < x->all.n; i++) {
		struct au_obj *o = x->all.at[i];
		struct au_what w = { .obj = o };

		o->has_rv = rf_rv_from_json(a, o->o, &o->rv);
		if (o->has_rv && o->kind.n > 0 && rf_kube_name(o->o).n > 0 &&
		    rf_json_str_at(o->o, "apiVersion").n > 0)
			all[n++] = o->rv; /* what has no address cannot be looked up */
		else if (!o->has_rv)
			au_tell(x, au_check("RF-OPS-91"), &w,
				"no policy was asked about it: it does not fit into memory");
	}
	if (rf_gk_inventory(a, all, n, ret, &err) == 0)
		return true;
	tell_broken(x, RF_LIT("Inventory"), RF_STR_EMPTY, RF_STR_EMPTY, &err);
	return false;
}

static bool is_late(const struct asking *k)
{
	const struct rf_clock *c = k->x->opts.clock;

	return c != NULL && rf_mono_ns(c) - k->start_ns > TOTAL_NS;
}

/* Policies themselves and what has ended are not asked about. */
static bool is_asked(const struct au_obj *o)
{
	struct rf_str phase =
		o->k == AU_POD ? rf_json_str_at(o->o, "status", "phase") : RF_STR_EMPTY;

	return o->has_rv && o->k != AU_TEMPLATE && o->k != AU_CONSTRAINT &&
	       !rf_str_is(phase, "Succeeded") && !rf_str_is(phase, "Failed");
}

static void ask_all(struct asking *k, const struct rf_map *pods)
{
	struct rf_audit *x = k->x;

	for (size_t i = 0; i < x->all.n; i++) {
		const struct au_obj *o = x->all.at[i];
		rf_auto(arena) a = RF_ARENA_INIT;
		const struct au_pod *pod =
			rf_map_get(pods, rf_arena_printf(&a, "%p", (const void *)o));

		if (is_late(k)) {
			struct rf_err err = RF_ERR_INIT;

			rf_fail(&err, RF_TIMEOUT,
				"policies were not asked about the last %zu of %zu objects: they "
				"took longer "
				"than %lld s",
				x->all.n - i, x->all.n, TOTAL_NS / 1000000000);
			tell_broken(x, RF_LIT("Policies"), RF_STR_EMPTY, RF_STR_EMPTY, &err);
			return;
		}
		if (!is_asked(o))
			continue;
		if (k->gk != NULL)
			ask_gatekeeper(k, o, pod);
		if (k->query != NULL)
			ask_rego(k, o, pod);
	}
}

static struct rf_rego_query *compile_rego(struct rf_audit *x)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_ra_errors errors = { .arena = &a };
	struct rf_rego_query *q = NULL;
	struct rf_rego *r = NULL;
	struct rf_err err = RF_ERR_INIT;

	if (x->rego == NULL || x->rego->source.n == 0)
		return NULL;
	if (rf_rego_compile(x->rego->source.at, x->rego->source.n, NULL, &r, &errors) == 0 &&
	    rf_rego_prepare(r, RF_LIT("data.kubernetes.admission"), RF_RA_V1, &q, &errors) == 0) {
		x->n_policies += x->rego->source.n;
	} else {
		rf_auto(buf) b = RF_BUF_INIT;

		rf_ra_print_errors(&b, &errors);
		rf_fail(&err, RF_INVALID, "%s", b.p);
		tell_broken(x, RF_LIT("Rego"), RF_STR_EMPTY, RF_STR_EMPTY, &err);
	}
	rf_rego_unref(r);
	return q;
}

/* Plain Rego that the cluster keeps in ConfigMaps (policy/book.h). */
static void take_config_maps(struct rf_audit *x)
{
	AU_EACH(x, AU_CONFIGMAP, o)
	{
		const struct rf_json *data = rf_json_at(o->o, "data");

		if (!rf_str_is(o->ns, "ringfence-system") ||
		    !rf_str_is(rf_kube_label(o->o, "openpolicyagent.org/policy"), "rego"))
			continue;
		for (uint32_t i = 0; rf_json_is(data, RF_JSON_OBJECT) && i < data->n; i++)
			take_rego(x, data->members[i].key, rf_json_str(data->members[i].value));
	}
}

void au_ask_policies(struct rf_audit *x)
{
	rf_auto(arena) values = RF_ARENA_CAPPED(RF_AUDIT_MEMORY);
	rf_auto_ptr(gk) own = own_policies(x);
	rf_auto(map) pods = RF_MAP_INIT;
	struct asking k = { .x = x, .start_ns = x->opts.clock ? rf_mono_ns(x->opts.clock) : 0 };

	take_config_maps(x);
	k.query = compile_rego(x);
	if ((x->pack == NULL && own == NULL && k.query == NULL) || x->n_policies == 0 ||
	    !make_values(x, &values, &k.inventory)) {
		rf_rego_query_free(k.query);
		return;
	}
	AU_PODS(x, p)
	{
		rf_auto(arena) a = RF_ARENA_INIT;

		if (!p->template)
			rf_map_set(&pods, rf_arena_printf(&a, "%p", (const void *)p->obj),
				   (void *)(uintptr_t)p);
	}
	k.gk = own;
	if (own != NULL || k.query != NULL)
		ask_all(&k, &pods);
	rf_rego_query_free(k.query);
	k.query = NULL;
	k.gk = x->pack;
	if (x->pack != NULL)
		ask_all(&k, &pods);
	rf_map_done(&k.said);
}

/* --- pod security --------------------------------------------------------------------------- */

void au_pod_security(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		rf_auto(arena) a = RF_ARENA_INIT;
		rf_auto(buf) why = RF_BUF_INIT;
		struct au_what w = { .pod = p, .field = rf_arena_str(&x->a, rf_str(p->prefix)) };
		struct rf_json *pod;

		if (!p->gpu || p->ns->platform)
			continue;
		pod = rf_json_object(&a);
		if (p->meta != NULL)
			rf_json_set(&a, pod, RF_LIT("metadata"),
				    (struct rf_json *)(uintptr_t)p->meta);
		rf_json_set(&a, pod, RF_LIT("spec"), (struct rf_json *)(uintptr_t)p->spec);
		if (!rf_ps_check(RF_PS_BASELINE, pod, &why))
			au_tell(x, c, &w, "%s", why.p);
	}
}
