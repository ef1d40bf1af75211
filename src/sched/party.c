/* Who may meet whom: the table of docs/architecture.md, "Isolation". */
#include "sched/private.h"

/* Namespaces of the cluster itself. Their pods run everywhere, or there would be no cluster. */
static bool is_system(struct rf_str ns)
{
	return rf_str_is(ns, "ringfence-system") || rf_str_starts(ns, RF_LIT("kube-"));
}

static struct rf_party party_of_tenant(const struct rf_sched *s, struct rf_str tenant)
{
	const struct rf_rec_tenant *t = rf_map_get(&s->tenants, tenant);

	/* Without its Tenant nobody can say what it accepts: it accepts nothing. */
	if (t == NULL)
		return (struct rf_party){ .tenant = tenant, .isolation = RF_ISOLATION_NODE };
	return (struct rf_party){ .tenant = t->v.name,
				  .trust = t->v.trust_domain,
				  .isolation = t->v.isolation,
				  .known = true };
}

struct rf_party rf_party_of_namespace(const struct rf_sched *s, struct rf_str ns)
{
	const struct rf_rec_namespace *n = rf_map_get(&s->namespaces, ns);

	if (n != NULL && n->tenant.n > 0)
		return party_of_tenant(s, n->tenant);
	/* Its pods were seen before the namespace was: whose they are is not known yet. */
	if (n == NULL && !is_system(ns))
		return (struct rf_party){ .tenant = ns, .isolation = RF_ISOLATION_NODE };
	return (struct rf_party){ .tenant = RF_STR_EMPTY,
				  .trust = RF_STR_EMPTY,
				  .known = true,
				  .isolation = RF_ISOLATION_GPU,
				  .system = is_system(ns) };
}

struct rf_party rf_party_of_claim(const struct rf_sched *s, const struct rf_sched_claim *c)
{
	struct rf_party p = rf_party_of_namespace(s, c->ns);

	return (p.tenant.n == 0 || !p.known) && c->tenant.n > 0 ? party_of_tenant(s, c->tenant) : p;
}

bool rf_party_same(const struct rf_party *a, const struct rf_party *b)
{
	return rf_str_eq(a->tenant, b->tenant) && a->system == b->system && a->known == b->known;
}

bool rf_party_shares_node(const struct rf_party *a, const struct rf_party *b)
{
	if (rf_party_same(a, b) || a->system || b->system)
		return true;
	return a->isolation != RF_ISOLATION_NODE && b->isolation != RF_ISOLATION_NODE;
}

static bool shares_cards(const struct rf_party *p)
{
	return p->known && p->tenant.n > 0 &&
	       (p->isolation == RF_ISOLATION_SHARE || p->isolation == RF_ISOLATION_COOPERATIVE);
}

bool rf_party_shares_card(const struct rf_party *a, const struct rf_party *b)
{
	return shares_cards(a) && shares_cards(b) && rf_str_eq(a->trust, b->trust);
}
