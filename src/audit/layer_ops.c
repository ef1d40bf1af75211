/* Layer 4: who sees the metrics, and whether what admits and records can be relied on. */
#include "audit/private.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#include "codec/base64.h"
#include "net/ossl.h"

#define WEBHOOK_DOC                                                                                \
	"https://kubernetes.io/docs/reference/access-authn-authz/"                                 \
	"extensible-admission-controllers/"
#define DAY_MS ((int64_t)86400000)

/* --- metrics -------------------------------------------------------------------------------- */

static bool is_exporter_name(struct rf_str s)
{
	return au_has(s, "dcgm") ||
	       (au_has(s, "gpu") && (au_has(s, "exporter") || au_has(s, "metrics"))) ||
	       (au_has(s, "nvidia") && au_has(s, "exporter"));
}

static bool is_exporter(const struct au_pod *p)
{
	for (struct au_container at = { 0 }; au_next_container(p, &at);)
		if (is_exporter_name(rf_json_str_at(at.c, "image")) ||
		    is_exporter_name(rf_json_str_at(at.c, "name")))
			return true;
	return false;
}

static bool is_metrics_service(const struct au_obj *s)
{
	const struct rf_json *selector = rf_json_at(s->o, "spec", "selector");

	if (is_exporter_name(s->name))
		return true;
	for (uint32_t i = 0; rf_json_is(selector, RF_JSON_OBJECT) && i < selector->n; i++)
		if (is_exporter_name(rf_json_str(selector->members[i].value)))
			return true;
	return false;
}

static void open_metrics(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_SERVICE, s)
	{
		struct rf_str type = rf_json_str_at(s->o, "spec", "type");
		struct au_what w = { .obj = s, .field = RF_LIT("spec.type") };

		if (!is_metrics_service(s))
			continue;
		if (rf_str_is(type, "NodePort") || rf_str_is(type, "LoadBalancer") ||
		    rf_json_len(rf_json_at(s->o, "spec", "externalIPs")) > 0)
			au_tell(x, c, &w, "GPU metrics are open past the cluster's edge (%.*s)",
				RF_STR(type.n > 0 ? type : RF_LIT("externalIPs")));
	}
}

static bool has_proxy(const struct au_pod *p)
{
	for (struct au_container at = { 0 }; au_next_container(p, &at);)
		if (au_has(rf_json_str_at(at.c, "image"), "rbac-proxy") ||
		    au_has(rf_json_str_at(at.c, "image"), "label-proxy") ||
		    au_has(rf_json_str_at(at.c, "image"), "oauth-proxy"))
			return true;
	return false;
}

static bool is_walled(const struct rf_audit *x, const struct au_pod *p)
{
	AU_EACH(x, AU_NETPOL, n)
	{
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_selector *s = NULL;

		if (rf_str_eq(n->ns, p->ns->name) &&
		    rf_label_selector_from(&a, rf_json_at(n->o, "spec", "podSelector"), &s, NULL) ==
			    0 &&
		    rf_label_selector_match(s, rf_json_at(p->meta, "labels")))
			return true;
	}
	return false;
}

static void unguarded_metrics(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p };

		if (is_exporter(p) && !has_proxy(p) && !is_walled(x, p))
			au_tell(x, c, &w,
				"every pod of the cluster can read the GPU metrics of every tenant "
				"from it: no "
				"authenticating proxy, no NetworkPolicy");
	}
}

static void unfiltered_metrics(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct au_what w = { 0 };
	size_t exporters = 0;

	AU_PODS(x, p)
	{
		if (has_proxy(p))
			return;
		exporters += is_exporter(p);
	}
	if (exporters > 0 && x->gpu_tenants > 1)
		au_tell(x, c, &w,
			"GPU metrics of %zu tenants are collected and nothing shows each tenant "
			"its own only",
			x->gpu_tenants);
}

static void no_metrics(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct au_what w = { 0 };
	bool gpus = false;

	for (size_t i = 0; i < x->nodes.n; i++)
		gpus |= x->nodes.at[i].gpu;
	AU_PODS(x, p)
	if (is_exporter(p) || au_has(p->ns->name, "ringfence-system"))
		return;
	AU_EACH(x, AU_SLICE, s) /* ringfence's agent, which serves them */
	if (rf_str_is(rf_json_str_at(s->o, "spec", "driver"), "ringfence.io"))
		return;
	if (gpus)
		au_tell(x, c, &w, "there are GPU nodes and nothing that measures their cards");
}

/* --- webhooks ------------------------------------------------------------------------------- */

static bool in_list(const struct rf_json *list, const char *a, const char *b, const char *c)
{
	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_str s = rf_json_str(rf_json_item(list, i));

		if (rf_str_is(s, a) || rf_str_is(s, b) || rf_str_is(s, c))
			return true;
	}
	return false;
}

static bool judges_pods(const struct rf_json *hook)
{
	const struct rf_json *rules = rf_json_at(hook, "rules");

	for (size_t i = 0; i < rf_json_len(rules); i++) {
		const struct rf_json *r = rf_json_item(rules, i);

		if (in_list(rf_json_at(r, "resources"), "pods", "*", "*/*") &&
		    in_list(rf_json_at(r, "apiGroups"), "", "*", "*") &&
		    in_list(rf_json_at(r, "operations"), "CREATE", "*", "*"))
			return true;
	}
	return false;
}

/* fn for every webhook of every configuration of the two kinds. */
static void each_hook(struct rf_audit *x, const struct rf_audit_check *c,
		      void (*fn)(struct rf_audit *x, const struct rf_audit_check *c,
				 const struct au_obj *o, const struct rf_json *hook, size_t i))
{
	for (int k = AU_VALIDATING; k <= AU_MUTATING; k++)
		AU_EACH(x, k, o)
		{
			const struct rf_json *hooks = rf_json_at(o->o, "webhooks");

			for (size_t i = 0; i < rf_json_len(hooks); i++)
				fn(x, c, o, rf_json_item(hooks, i), i);
		}
}

/* Names cards and turns nothing round. */
static bool asks_for_cards(struct rf_str expression)
{
	return (rf_str_contains(expression, RF_LIT("nvidia.com/")) || rf_str_contains(expression, RF_LIT("/gpu")) ||
		rf_str_contains(expression, RF_LIT("ringfence.io/"))) &&
	       !rf_str_contains(expression, RF_LIT("!"));
}

/* Refuses every pod, or at least every pod with cards, while it does not answer. */
static bool holds_cards(const struct rf_json *hook)
{
	const struct rf_json *only = rf_json_at(hook, "matchConditions");

	if (!judges_pods(hook) || rf_str_is(rf_json_str_at(hook, "failurePolicy"), "Ignore") ||
	    rf_json_len(rf_json_at(hook, "objectSelector", "matchLabels")) > 0 ||
	    rf_json_len(rf_json_at(hook, "objectSelector", "matchExpressions")) > 0)
		return false;
	for (size_t i = 0; i < rf_json_len(only); i++)
		if (!asks_for_cards(rf_json_str_at(rf_json_item(only, i), "expression")))
			return false;
	return true;
}

/* What another webhook of the same configuration holds, this one may let through. */
static bool another_holds_cards(const struct au_obj *o)
{
	const struct rf_json *hooks = rf_json_at(o->o, "webhooks");

	for (size_t i = 0; i < rf_json_len(hooks); i++)
		if (holds_cards(rf_json_item(hooks, i)))
			return true;
	return false;
}

static void ignores_of(struct rf_audit *x, const struct rf_audit_check *c, const struct au_obj *o,
		       const struct rf_json *hook, size_t i)
{
	struct au_what w = { .obj = o, .field = au_text(x, "webhooks[%zu].failurePolicy", i) };

	/* A mutating one that is skipped leaves a default out; a validating one leaves the door open. */
	w.has_severity = o->k == AU_MUTATING;
	w.severity = RF_AUDIT_MEDIUM;
	if (judges_pods(hook) && rf_str_is(rf_json_str_at(hook, "failurePolicy"), "Ignore") && !another_holds_cards(o))
		au_tell(x, c, &w, "while \"%.*s\" does not answer, every pod is let in unseen",
			RF_STR(rf_json_str_at(hook, "name")));
}

static void ignores(struct rf_audit *x, const struct rf_audit_check *c)
{
	each_hook(x, c, ignores_of);
}

static const struct rf_json *labels_with_name(struct rf_arena *a, const struct au_ns *n)
{
	struct rf_json *labels = n->labels ? rf_json_clone(a, n->labels) : rf_json_object(a);

	rf_json_set_str(a, labels, "kubernetes.io/metadata.name", n->name);
	return labels;
}

static void excludes_of(struct rf_audit *x, const struct rf_audit_check *c, const struct au_obj *o,
			const struct rf_json *hook, size_t i)
{
	struct au_what w = { .obj = o, .field = au_text(x, "webhooks[%zu].namespaceSelector", i) };
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) names = RF_BUF_INIT;
	struct rf_selector *s = NULL;
	size_t left_out = 0;

	if (o->k != AU_VALIDATING || !judges_pods(hook) ||
	    rf_label_selector_from(&a, rf_json_at(hook, "namespaceSelector"), &s, NULL) < 0)
		return;
	for (size_t j = 0; j < x->ns.n; j++) {
		const struct au_ns *n = x->ns.at[j];

		if (n->platform || (n->gpu_pods == 0 && !n->labelled) ||
		    rf_label_selector_match(s, labels_with_name(&a, n)))
			continue;
		if (++left_out <= 5)
			rf_buf_printf(&names, "%s%.*s", left_out > 1 ? ", " : "", RF_STR(n->name));
	}
	if (left_out > 0)
		au_tell(x, c, &w, "\"%.*s\" never sees the pods of %zu tenants' namespaces: %s%s",
			RF_STR(rf_json_str_at(hook, "name")), left_out, names.p,
			left_out > 5 ? ", ..." : "");
}

static void excludes(struct rf_audit *x, const struct rf_audit_check *c)
{
	each_hook(x, c, excludes_of);
}

/* A pod's labels are its maker's: whoever is let through by label lets himself through. */
static void by_label_of(struct rf_audit *x, const struct rf_audit_check *c, const struct au_obj *o,
			const struct rf_json *hook, size_t i)
{
	const struct rf_json *s = rf_json_at(hook, "objectSelector");
	struct au_what w = { .obj = o, .field = au_text(x, "webhooks[%zu].objectSelector", i) };

	if (o->k == AU_VALIDATING && judges_pods(hook) &&
	    rf_json_len(rf_json_at(s, "matchLabels")) +
			    rf_json_len(rf_json_at(s, "matchExpressions")) >
		    0)
		au_tell(x, c, &w,
			"a label on the pod decides whether \"%.*s\" sees it, and tenants write "
			"their pods' labels",
			RF_STR(rf_json_str_at(hook, "name")));
}

static void by_label(struct rf_audit *x, const struct rf_audit_check *c)
{
	each_hook(x, c, by_label_of);
}

/* --- certificates --------------------------------------------------------------------------- */

/* The last moment at which a certificate of the bundle is good; false: none can be read. */
static bool bundle_ends(struct rf_str base64, int64_t *ret_ms)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str pem = RF_STR_EMPTY;
	bool any = false;
	BIO *bio;

	if (rf_base64_decode(&a, base64, &pem, NULL) < 0 || (bio = rf_ossl_bio(pem)) == NULL)
		return false;
	for (X509 *cert; (cert = PEM_read_bio_X509(bio, NULL, rf_ossl_no_password, NULL)) != NULL;
	     X509_free(cert)) {
		struct tm tm = { 0 };
		int64_t ms;

		if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) != 1)
			continue;
		ms = (int64_t)timegm(&tm) * 1000;
		*ret_ms = any ? RF_MAX(*ret_ms, ms) : ms;
		any = true;
	}
	BIO_free(bio);
	ERR_clear_error();
	return any;
}

static void tell_bundle(struct rf_audit *x, const struct rf_audit_check *c, const struct au_obj *o,
			struct rf_str field, struct rf_str bundle)
{
	struct au_what w = { .obj = o, .field = field };
	rf_auto(arena) a = RF_ARENA_INIT;
	int64_t ends = 0;

	if (bundle.n == 0)
		return;
	if (!bundle_ends(bundle, &ends)) {
		au_tell(x, c, &w, "the caBundle holds no certificate that can be read");
		return;
	}
	if (ends <= x->opts.now_ms) {
		au_tell(x, c, &w, "the caBundle ended at %.*s: every call fails",
			RF_STR(rf_time_format(&a, ends)));
		return;
	}
	w.has_severity = true;
	w.severity = RF_AUDIT_MEDIUM;
	if (ends < x->opts.now_ms + RF_AUDIT_SOON_DAYS * DAY_MS)
		au_tell(x, c, &w, "the caBundle ends soon, at %.*s",
			RF_STR(rf_time_format(&a, ends)));
}

static void bundle_of(struct rf_audit *x, const struct rf_audit_check *c, const struct au_obj *o,
		      const struct rf_json *hook, size_t i)
{
	tell_bundle(x, c, o, au_text(x, "webhooks[%zu].clientConfig.caBundle", i),
		    rf_json_str_at(hook, "clientConfig", "caBundle"));
}

static void bundles(struct rf_audit *x, const struct rf_audit_check *c)
{
	each_hook(x, c, bundle_of);
	AU_EACH(x, AU_APISERVICE, o)
	tell_bundle(x, c, o, RF_LIT("spec.caBundle"), rf_json_str_at(o->o, "spec", "caBundle"));
}

/* --- policies ------------------------------------------------------------------------------- */

static bool denies(const struct rf_json *binding)
{
	return in_list(rf_json_at(binding, "spec", "validationActions"), "Deny", "Deny", "Deny");
}

static void vap_bindings(const struct rf_audit *x, const struct au_obj *policy, size_t *ret_all,
			 size_t *ret_deny)
{
	*ret_all = *ret_deny = 0;
	AU_EACH(x, AU_VAPBINDING, b)
	if (rf_str_eq(rf_json_str_at(b->o, "spec", "policyName"), policy->name)) {
		++*ret_all;
		*ret_deny += denies(b->o);
	}
}

static void unbound_policy(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_VAP, p)
	{
		struct au_what w = { .obj = p };
		size_t all, deny;

		vap_bindings(x, p, &all, &deny);
		if (all == 0)
			au_tell(x, c, &w,
				"no ValidatingAdmissionPolicyBinding names it: it is never asked");
	}
}

static void toothless_policy(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_VAP, p)
	{
		struct au_what w = { .obj = p };
		size_t all, deny;

		vap_bindings(x, p, &all, &deny);
		if (all > 0 && deny == 0)
			au_tell(x, c, &w, "its bindings warn or record, none denies");
	}
}

static void dryrun(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_CONSTRAINT, o)
	{
		struct rf_str action = rf_json_str_at(o->o, "spec", "enforcementAction");
		struct au_what w = { .obj = o, .field = RF_LIT("spec.enforcementAction") };

		if (rf_str_is(action, "dryrun") || rf_str_is(action, "warn"))
			au_tell(x, c, &w,
				"the constraint is on \"%.*s\": what violates it is let in",
				RF_STR(action));
	}
}

static void violations(struct rf_audit *x, const struct rf_audit_check *c)
{
	AU_EACH(x, AU_CONSTRAINT, o)
	{
		int64_t n = rf_json_int(rf_json_at(o->o, "status", "totalViolations"), 0);
		struct au_what w = { .obj = o, .field = RF_LIT("status.totalViolations") };

		if (n > 0)
			au_tell(x, c, &w, "Gatekeeper's own audit counts %lld violations",
				(long long)n);
	}
}

static void no_admission(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct au_what w = { 0 };

	for (size_t i = 0; i < x->of[AU_VALIDATING].n; i++) {
		const struct rf_json *hooks = rf_json_at(x->of[AU_VALIDATING].at[i]->o, "webhooks");

		for (size_t j = 0; j < rf_json_len(hooks); j++)
			if (judges_pods(rf_json_item(hooks, j)))
				return;
	}
	if (x->gpu_tenants > 0 && x->of[AU_VAP].n == 0 && x->of[AU_CONSTRAINT].n == 0)
		au_tell(x, c, &w,
			"no webhook for pods, no ValidatingAdmissionPolicy and no Gatekeeper "
			"constraint: whatever RBAC "
			"and pod security let through is let in");
}

/* --- the record ----------------------------------------------------------------------------- */

static bool has_flag(const struct au_pod *p, const char *flag)
{
	for (struct au_container at = { 0 }; au_next_container(p, &at);)
		for (int k = 0; k < 2; k++) {
			const struct rf_json *words = rf_json_at(at.c, k ? "args" : "command");

			for (size_t i = 0; i < rf_json_len(words); i++)
				if (rf_str_starts(rf_json_str(rf_json_item(words, i)),
						  rf_str(flag)))
					return true;
		}
	return false;
}

static void no_record(struct rf_audit *x, const struct rf_audit_check *c)
{
	struct au_what nowhere = { .has_severity = true, .severity = RF_AUDIT_LOW };
	size_t servers = 0;

	AU_PODS(x, p)
	{
		struct au_what w = { .pod = p, .field = RF_LIT("spec.containers[0].command") };

		if (!rf_str_is(p->ns->name, "kube-system") ||
		    !rf_str_starts(p->obj->name, RF_LIT("kube-apiserver")))
			continue;
		servers++;
		if (!has_flag(p, "--audit-policy-file") ||
		    (!has_flag(p, "--audit-log-path") &&
		     !has_flag(p, "--audit-webhook-config-file")))
			au_tell(x, c, &w,
				"the API server keeps no audit log: no --audit-policy-file, or no "
				"place to write to");
	}
	if (servers == 0)
		au_tell(x, c, &nowhere,
			"nothing in the cluster shows whether the API server keeps an audit log");
}

#define ROW(number, level, fn, kinds)                                                              \
	.id = "RF-OPS-" number, .layer = RF_AUDIT_OPS, .severity = level, .run = fn, .needs = kinds
#define HOOKS "ValidatingWebhookConfiguration MutatingWebhookConfiguration"
#define VAPS "ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding"

const struct rf_audit_check au_ops_checks[] = {
	{ ROW("01", RF_AUDIT_HIGH, open_metrics, "Service"),
	  .title = "GPU metrics open to the outside",
	  .why = "Memory use and timing of every tenant's cards can be read without logging in; "
		 "models can be told by them.",
	  .fix = "kubectl patch service NAME -p '{\"spec\":{\"type\":\"ClusterIP\"}}'; scrape from "
		 "inside.",
	  .reference = "https://docs.nvidia.com/datacenter/dcgm/latest/gpu-telemetry/"
		       "dcgm-exporter.html" },
	{ ROW("02", RF_AUDIT_MEDIUM, unguarded_metrics, "Pod NetworkPolicy"),
	  .title = "GPU metrics open to every pod",
	  .why = "A tenant can watch its neighbours' cards: when they train, how much they hold, "
		 "which kernels they run.",
	  .fix = "Put kube-rbac-proxy before the exporter, or a NetworkPolicy that lets the "
		 "scraper in and nobody else.",
	  .reference = "docs/threat-model.md" },
	{ ROW("03", RF_AUDIT_LOW, unfiltered_metrics, "Pod"), .cluster_only = true,
	  .title = "No view of metrics per tenant",
	  .why = "Without a filter tenants see either everything or nothing of what their cards "
		 "do.",
	  .fix = "Put prom-label-proxy (label namespace) or ringfence's dashboard between tenants "
		 "and Prometheus.",
	  .reference = "https://github.com/prometheus-community/prom-label-proxy" },
	{ ROW("04", RF_AUDIT_LOW, no_metrics, "Pod Node"), .cluster_only = true,
	  .title = "Cards are not measured", .why = "Nobody sees idle, hoarded or failing cards.",
	  .fix = "Install dcgm-exporter, or ringfence's node agent (deploy/).",
	  .reference = "https://github.com/NVIDIA/dcgm-exporter" },
	{ ROW("05", RF_AUDIT_HIGH, ignores, HOOKS), .title = "Webhook for pods that fails open",
	  .why = "Whoever can overload the webhook, or waits until it is down, gets past it.",
	  .fix = "Set failurePolicy: Fail, run two replicas, and leave out only the platform's "
		 "namespaces.",
	  .reference = WEBHOOK_DOC },
	{ ROW("06", RF_AUDIT_HIGH, excludes, "ValidatingWebhookConfiguration Namespace Pod"),
	  .title = "Webhook that leaves tenants out", .why = "What it forbids is allowed there.",
	  .fix = "Let namespaceSelector leave out the platform's namespaces only, by "
		 "kubernetes.io/metadata.name.",
	  .reference = WEBHOOK_DOC },
	{ ROW("07", RF_AUDIT_MEDIUM, by_label, "ValidatingWebhookConfiguration"),
	  .title = "Webhook that a label switches off",
	  .why = "Tenants choose the labels of their pods.",
	  .fix = "Remove objectSelector; use matchConditions on what the pod asks for.",
	  .reference = WEBHOOK_DOC },
	{ ROW("08", RF_AUDIT_HIGH, bundles, HOOKS), .title = "Certificate of a webhook ends",
	  .why = "With failurePolicy Fail nothing can be created any more; with Ignore nothing is "
		 "checked any more.",
	  .fix = "Renew it (cert-manager, or the webhook's own rotation) and write the new CA into "
		 "caBundle.",
	  .reference = WEBHOOK_DOC },
	{ ROW("09", RF_AUDIT_MEDIUM, unbound_policy, VAPS),
	  .title = "Admission policy without a binding", .why = "It looks like a rule and is none.",
	  .fix = "Add a ValidatingAdmissionPolicyBinding with validationActions: [Deny].",
	  .reference = "https://kubernetes.io/docs/reference/access-authn-authz/"
		       "validating-admission-policy/" },
	{ ROW("10", RF_AUDIT_MEDIUM, toothless_policy, VAPS),
	  .title = "Admission policy that denies nothing",
	  .why = "Warnings are not read by programs, and not by attackers.",
	  .fix = "Set validationActions: [Deny] in one binding.",
	  .reference = "https://kubernetes.io/docs/reference/access-authn-authz/"
		       "validating-admission-policy/" },
	{ ROW("11", RF_AUDIT_MEDIUM, dryrun, "ConstraintTemplate"),
	  .title = "Constraint that denies nothing",
	  .why = "dryrun and warn are for trying out; what was tried out must be enforced.",
	  .fix = "kubectl patch KIND NAME --type=merge -p "
		 "'{\"spec\":{\"enforcementAction\":\"deny\"}}'",
	  .reference = "https://open-policy-agent.github.io/gatekeeper/website/docs/violations" },
	{ ROW("12", RF_AUDIT_MEDIUM, violations, "ConstraintTemplate"),
	  .title = "Constraint with violations",
	  .why = "Objects that came before the constraint, or around it, still run.",
	  .fix = "kubectl get KIND NAME -o jsonpath='{.status.violations}', and mend or remove "
		 "what it names.",
	  .reference = "https://open-policy-agent.github.io/gatekeeper/website/docs/audit" },
	{ ROW("13", RF_AUDIT_MEDIUM, no_admission,
	      "Pod ValidatingWebhookConfiguration ValidatingAdmissionPolicy"),
	  .cluster_only = true, .title = "No admission policy",
	  .why = "Pod security knows nothing of cards: driver variables, tolerations, queues, "
		 "shares.",
	  .fix = "Install ringfence's webhook (deploy/) or Gatekeeper with policies/recommended.",
	  .reference = "docs/kubernetes.md" },
	{ ROW("14", RF_AUDIT_HIGH, no_record, "Pod"), .cluster_only = true,
	  .title = "No evidence of an audit log",
	  .why = "After an incident nobody can say who asked for what.",
	  .fix = "Start the API server with --audit-policy-file and --audit-log-path, or switch "
		 "the provider's audit log on.",
	  .reference = "https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/" },
	{ 0 },
};
