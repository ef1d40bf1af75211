/* How a check tells what it found, and the checks on the audit itself. */
#include "audit/private.h"

#include <stdio.h>

#define FOUND_MAX 2000 /* of what an object may say in a finding */

static bool wanted(const struct rf_audit *x, const struct rf_audit_check *c,
		   const struct rf_audit_finding *f)
{
	struct rf_str ns = x->opts.ns;

	if (ns.n == 0 || strncmp(c->id, "RF-OPS-9", 8) == 0)
		return true;
	return rf_str_eq(f->ns, ns) || (rf_str_is(f->kind, "Namespace") && rf_str_eq(f->name, ns));
}

/* Pods of one controller say the same thing once: what is mended is the controller. */
static struct rf_str key_of(struct rf_arena *a, const struct rf_audit_check *c,
			    const struct au_what *w)
{
	if (w->pod == NULL || w->pod->owner.n == 0)
		return RF_STR_EMPTY;
	return rf_arena_printf(a, "%s|%.*s|%.*s|%.*s|%.*s|%.*s|%zu", c->id,
			       RF_STR(w->pod->ns->name), RF_STR(w->pod->owner_kind),
			       RF_STR(w->pod->owner), RF_STR(w->field), RF_STR(w->policy), w->nth);
}

#define NOT_TOLD UINTPTR_MAX

static bool said_before(struct rf_audit *x, struct rf_str key)
{
	uintptr_t at = key.n > 0 ? (uintptr_t)rf_map_get(&x->told, key) : 0;

	if (at > 0 && at != NOT_TOLD)
		x->findings.at[at - 1].also++;
	return at > 0;
}

static void remember(struct rf_audit *x, struct rf_str key, uintptr_t at)
{
	if (key.n > 0)
		rf_map_set(&x->told, key, (void *)at);
}

static struct rf_str pick(struct rf_str a, struct rf_str b)
{
	return a.n > 0 ? a : b;
}

/* At most max bytes, no character cut in two. */
static struct rf_str shortened(struct rf_arena *a, struct rf_str s, size_t max)
{
	if (s.n <= max)
		return s;
	while (max > 0 && ((unsigned char)s.p[max] & 0xC0) == 0x80)
		max--;
	return rf_arena_printf(a, "%.*s ...", (int)max, s.p);
}

static struct rf_str told_text(struct rf_audit *x, const char *fmt, va_list ap)
{
	rf_auto(buf) b = RF_BUF_INIT;

	rf_buf_vprintf(&b, fmt, ap);
	return rf_arena_str(&x->a, shortened(&x->a, rf_buf_str(&b), FOUND_MAX));
}

void au_tell(struct rf_audit *x, const struct rf_audit_check *c, const struct au_what *w,
	     const char *fmt, ...)
{
	const struct au_obj *o = w->obj ? w->obj : w->pod ? w->pod->obj : NULL;
	struct rf_audit_finding f = { .check = c,
				      .layer = w->has_layer ? w->layer : c->layer,
				      .severity = w->has_severity ? w->severity : c->severity,
				      .kind = o ? pick(o->kind, w->kind) : w->kind,
				      .ns = o ? pick(o->ns, w->ns) : w->ns,
				      .name = o ? pick(o->name, w->name) : w->name,
				      .source = o ? o->source : RF_STR_EMPTY,
				      .field = w->field,
				      .policy = w->policy };
	rf_auto(arena) scratch = RF_ARENA_INIT;
	struct rf_str key = key_of(&scratch, c, w);
	uintptr_t n;
	va_list ap;

	if (!wanted(x, c, &f) || said_before(x, key))
		return;
	x->count[f.layer][f.severity]++;
	n = (uintptr_t)rf_map_get(&x->counted, rf_str(c->id)) + 1;
	rf_map_set(&x->counted, rf_str(c->id), (void *)n);
	if (n > RF_AUDIT_PER_CHECK) {
		x->more++;
		remember(x, key, NOT_TOLD);
		return;
	}
	va_start(ap, fmt);
	f.found = told_text(x, fmt, ap);
	va_end(ap);
	f.fix = shortened(&x->a, pick(w->fix, rf_str(c->fix)), FOUND_MAX);
	rf_vec_push(&x->findings, f);
	remember(x, key, x->findings.n);
}

const struct rf_audit_check au_self_checks[] = {
	{ .id = "RF-OPS-90",
	  .layer = RF_AUDIT_OPS,
	  .severity = RF_AUDIT_HIGH,
	  .title = "A kind was not seen",
	  .why = "What the audit may not list it cannot judge; nothing is said about these "
		 "objects.",
	  .fix = "Let the auditor read, and nothing else: kubectl create clusterrole "
		 "ringfence-audit --verb=get,list "
		 "--resource='*.*' && kubectl create clusterrolebinding ringfence-audit "
		 "--clusterrole=ringfence-audit --user=AUDITOR",
	  .reference = "https://kubernetes.io/docs/reference/access-authn-authz/rbac/" },
	{ .id = "RF-OPS-91",
	  .layer = RF_AUDIT_OPS,
	  .severity = RF_AUDIT_MEDIUM,
	  .title = "An object was not judged",
	  .why = "An object that is too large to look at may hide anything, and makes lists slow "
		 "for everybody.",
	  .fix = "Look at it by hand and make it smaller; limit object counts and sizes by "
		 "ResourceQuota.",
	  .reference = "docs/threat-model.md" },
	{ .id = "RF-OPS-92",
	  .layer = RF_AUDIT_OPS,
	  .severity = RF_AUDIT_HIGH,
	  .title = "A policy could not be asked",
	  .why = "A policy that does not compile or run holds nothing back.",
	  .fix = "Mend it: ringfence policy check FILE, ringfence policy verify DIR.",
	  .reference = "https://open-policy-agent.github.io/gatekeeper/website/docs/howto" },
	{ .id = "RF-POL-01",
	  .layer = RF_AUDIT_API,
	  .severity = RF_AUDIT_HIGH,
	  .title = "A policy is violated",
	  .why = "The object is there although a policy says it must not be: it came before the "
		 "policy, or around it.",
	  .fix = "Change the object as the policy says, or remove it.",
	  .reference = "https://open-policy-agent.github.io/gatekeeper/website/docs/audit" },
	{ 0 },
};
