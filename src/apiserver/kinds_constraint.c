/* The kinds of constraints: what a ConstraintTemplate's CustomResourceDefinition would be. */
#include "apiserver/kinds.h"

struct made {
	struct rf_kind k; /* first: the address of one is that of the other */
	struct made *next;
	bool served;
};
static struct made *all;

static char *copy(struct rf_str s, bool lower)
{
	char *text = rf_alloc(s.n + 1);

	for (size_t i = 0; i < s.n; i++)
		text[i] = (char)(lower && s.p[i] >= 'A' && s.p[i] <= 'Z' ? s.p[i] + 32 : s.p[i]);
	text[s.n] = '\0';
	return text;
}

static struct made *find(struct rf_str kind)
{
	for (struct made *m = all; m != NULL; m = m->next)
		if (rf_str_is(kind, m->k.kind))
			return m;
	return NULL;
}

static struct made *make(struct rf_str kind)
{
	struct made *m = rf_new(struct made), **end = &all;
	char *plural = copy(kind, true);

	m->k = (struct rf_kind){ .group = RF_CONSTRAINTS_GROUP,
				 .version = "v1beta1",
				 .plural = plural,
				 .singular = plural,
				 .kind = copy(kind, false),
				 .short_names = copy(RF_STR_EMPTY, false),
				 .categories = "constraint constraints",
				 .namespaced = false,
				 .stored = true,
				 .subresources = "status",
				 .constraint = true };
	while (*end != NULL)
		end = &(*end)->next;
	*end = m;
	return m;
}

const struct rf_kind *rf_kind_serve(struct rf_str kind, struct rf_str short_names)
{
	struct made *m = find(kind);

	if (m == NULL)
		m = make(kind);
	free((void *)m->k.short_names);
	m->k.short_names = copy(short_names, false);
	m->served = true;
	return &m->k;
}

void rf_kind_unserve(struct rf_str kind)
{
	struct made *m = find(kind);

	if (m != NULL)
		m->served = false;
}

void rf_kind_unserve_all(void)
{
	for (struct made *m = all; m != NULL; m = m->next)
		m->served = false;
}

const struct rf_kind *rf_kind_next_constraint(const struct rf_kind *k)
{
	const struct made *m = k == NULL ? all : ((const struct made *)k)->next;

	while (m != NULL && !m->served)
		m = m->next;
	return m == NULL ? NULL : &m->k;
}
