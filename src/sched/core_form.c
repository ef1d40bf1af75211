/* What pods ask for, kept once for all that ask the same. */
#include "sched/core_private.h"

/* --- forms ------------------------------------------------------------------------------------ */

static void put_n(struct rf_buf *b, int64_t n)
{
	rf_buf_add_n(b, (uint64_t)n);
}

static void put_s(struct rf_buf *b, struct rf_str s)
{
	put_n(b, (int64_t)s.n);
	if (s.n > 0)
		rf_buf_add(b, s);
}

static void form_key(struct rf_buf *b, const struct rf_sched_pod *p)
{
	rf_buf_clear(b);
	put_n(b, p->cpu_milli);
	put_n(b, p->memory);
	put_n(b, p->one_island);
	put_s(b, p->models);
	for (size_t i = 0; i < p->n_containers; i++) {
		const struct rf_gpu_ask *a = &p->containers[i].ask;

		if (!rf_gpu_ask_any(a))
			continue;
		put_s(b, p->containers[i].name);
		put_n(b, a->cards);
		put_n(b, a->share_bytes);
		put_n(b, a->share_milli);
		put_n(b, a->slices);
		put_s(b, a->profile);
	}
}

static int64_t sum(int64_t a, int64_t b)
{
	int64_t n;

	return __builtin_add_overflow(a, b, &n) ? INT64_MAX : n;
}

static struct rf_str keep(char **at, struct rf_str s)
{
	char *p = *at;

	if (s.n > 0)
		memcpy(p, s.p, s.n);
	*at += s.n;
	return rf_str_n(p, s.n);
}

static int find_part(struct rf_fleet_ask *ask, const struct rf_fleet_part *p)
{
	for (int i = 0; i < ask->n_parts; i++) {
		struct rf_fleet_part *o = &ask->parts[i];

		if (o->kind != p->kind || o->bytes != p->bytes || o->milli != p->milli || o->profile != p->profile)
			continue;
		o->n = (uint8_t)(o->n + p->n);
		return i;
	}
	if (ask->n_parts == RF_FLEET_PARTS_MAX)
		return -1;
	ask->parts[ask->n_parts] = *p;
	return ask->n_parts++;
}

/* Containers that ask alike are one part; its cards are dealt to them in their order. */
static const char *add_part(struct co_form *f, struct co_part *p)
{
	const struct rf_gpu_ask *a = &p->ask;
	struct rf_fleet_part part = { .kind = RF_FLEET_WHOLE, .n = (uint8_t)a->cards, .one_island = f->one_island };
	int i;

	if (a->share_bytes > 0)
		part = (struct rf_fleet_part){
			.kind = RF_FLEET_SHARE, .n = 1, .bytes = a->share_bytes, .milli = a->share_milli
		};
	if (a->slices > 0) /* the profile's number comes with the models */
		part = (struct rf_fleet_part){ .kind = RF_FLEET_SLICE, .n = (uint8_t)a->slices, .profile = 0xff };
	if (part.kind == RF_FLEET_SLICE) {
		for (size_t k = 0; k < (size_t)(p - f->parts); k++) {
			if (f->parts[k].ask.slices > 0 && rf_str_eq(f->parts[k].ask.profile, a->profile)) {
				p->part = f->parts[k].part;
				f->ask.parts[p->part].n = (uint8_t)(f->ask.parts[p->part].n + part.n);
				return NULL;
			}
		}
		if (f->ask.n_parts == RF_FLEET_PARTS_MAX)
			return "its containers ask for more than 8 different things of cards; ask for fewer kinds";
		p->part = f->ask.n_parts;
		f->ask.parts[f->ask.n_parts++] = part;
		return NULL;
	}
	i = find_part(&f->ask, &part);
	if (i < 0)
		return "its containers ask for more than 8 different things of cards; ask for fewer kinds";
	p->part = (uint8_t)i;
	return NULL;
}

static const char *add_parts(struct rf_core *c, struct co_form *f)
{
	if (f->cpu < 0 || f->cpu > RF_FLEET_CPU_MAX || f->memory < 0 || f->memory > RF_FLEET_MEMORY_MAX)
		return "asks for more CPU or memory than any machine can have; ask for less";
	if (f->cards > RF_FLEET_CARDS_MAX || f->slices > RF_FLEET_CARDS_MAX || f->n_parts > RF_FLEET_CARDS_MAX)
		return ""; /* said as too many devices */
	for (size_t i = 0; i < f->n_parts; i++) {
		const char *bad = add_part(f, &f->parts[i]);

		if (bad != NULL)
			return bad;
		if (f->parts[i].ask.slices > 0 && co_profile(c, f->parts[i].ask.profile) < 0)
			return "asks for a MIG profile that no card has; write it as the driver does, such as 1g.10gb";
	}
	for (size_t i = 0; i < f->ask.n_parts; i++) {
		if (f->ask.parts[i].kind == RF_FLEET_SHARE && f->ask.parts[i].milli > RF_FLEET_MILLI)
			return "asks for more than all of a card's time; ask for less";
	}
	return NULL;
}

static struct co_form *new_form(struct rf_core *c, const struct rf_sched_pod *p, struct rf_str key)
{
	size_t bytes = key.n + p->models.n, n = 0;
	struct co_form *f;
	char *at;

	for (size_t i = 0; i < p->n_containers; i++) {
		if (!rf_gpu_ask_any(&p->containers[i].ask))
			continue;
		n++;
		bytes += p->containers[i].name.n + p->containers[i].ask.profile.n;
	}
	f = rf_alloc(sizeof(*f) + bytes);
	at = f->blob;
	f->cpu = p->cpu_milli;
	f->memory = p->memory;
	f->one_island = p->one_island;
	f->key = keep(&at, key);
	f->models = keep(&at, p->models);
	f->parts = rf_alloc(RF_MAX(n, 1) * sizeof(*f->parts));
	for (size_t i = 0; i < p->n_containers; i++) {
		struct rf_gpu_ask a = p->containers[i].ask;
		struct co_part *to = &f->parts[f->n_parts];

		if (!rf_gpu_ask_any(&a))
			continue;
		f->cards = sum(f->cards, RF_MAX(a.cards, 0));
		f->bytes = sum(f->bytes, RF_MAX(a.share_bytes, 0));
		f->milli = sum(f->milli, a.share_bytes > 0 ? RF_MAX(a.share_milli, 0) : 0);
		f->slices = sum(f->slices, RF_MAX(a.slices, 0));
		to->name = keep(&at, p->containers[i].name);
		a.profile = keep(&at, a.profile);
		a.name = NULL;
		to->ask = a;
		f->n_parts++;
	}
	f->ask = (struct rf_fleet_ask){ .cpu_milli = f->cpu, .memory = f->memory, .policy = c->config.policy };
	f->bad = add_parts(c, f);
	return f;
}

static struct co_form *form_of(struct rf_core *c, const struct rf_sched_pod *p)
{
	struct co_form *f;

	form_key(&c->scratch, p);
	f = rf_map_get(&c->forms, rf_buf_str(&c->scratch));
	if (f == NULL) {
		rf_auto(buf) key = RF_BUF_INIT; /* what making it writes into scratch is no matter */

		rf_buf_add(&key, rf_buf_str(&c->scratch));
		f = new_form(c, p, rf_buf_str(&key));
		rf_map_set(&c->forms, f->key, f);
	}
	f->refs++;
	return f;
}

static void drop_form(struct rf_core *c, struct co_form *f)
{
	if (--f->refs > 0)
		return;
	rf_map_del(&c->forms, f->key);
	free(f->parts);
	free(f);
}

/* --- models that will do ---------------------------------------------------------------------- */

static bool named(struct rf_str models, const struct co_model *m)
{
	struct rf_str one;
	bool more = true;

	while (more) {
		more = rf_str_cut(&models, '|', &one);
		one = rf_str_trim(one);
		if (one.n > 0 && (rf_str_ieq(one, rf_str(m->name)) ||
				  (m->gpu != NULL && rf_str_ieq(one, rf_str(m->gpu->product)))))
			return true;
	}
	return false;
}

/* Has it all the profiles, under the numbers that the ask has already? */
static bool slices_do(struct rf_core *c, struct co_form *f, unsigned model, bool first)
{
	for (size_t i = 0; i < f->n_parts; i++) {
		struct rf_fleet_part *p = &f->ask.parts[f->parts[i].part];
		int profile;

		if (f->parts[i].ask.slices == 0)
			continue;
		profile = co_profile_of(c, model, f->parts[i].ask.profile);
		if (profile < 0 || (!first && p->profile != profile))
			return false;
		p->profile = (uint8_t)profile;
	}
	return true;
}

static void find_models(struct rf_core *c, struct co_form *f)
{
	if (f->stamp == c->model_stamp)
		return;
	f->stamp = c->model_stamp;
	f->mask = 0;
	for (unsigned m = 0; m < c->n_models; m++) {
		if (f->models.n > 0 && !named(f->models, &c->models[m]))
			continue;
		if (slices_do(c, f, m, f->mask == 0))
			f->mask |= UINT64_C(1) << m;
	}
}

bool co_ask(struct rf_core *c, struct co_shape *s, uint64_t models, struct rf_fleet_ask *ret)
{
	struct co_form *f = s->form;

	find_models(c, f);
	*ret = f->ask;
	ret->owner = s->tenant != NULL ? (struct rf_fleet_owner){ .tenant = s->tenant->id,
								  .trust = s->tenant->trust,
								  .level = s->tenant->level } :
					 (struct rf_fleet_owner){ .level = RF_ISOLATION_GPU, .system = s->system };
	if (f->ask.n_parts == 0)
		return true;
	ret->models = f->cards > 0 ? f->mask & models : f->mask; /* only whole cards are charged to their model */
	return ret->models != 0;
}

struct rf_fleet_owner co_owner(const struct co_ns *ns, bool daemon)
{
	if (ns->known && ns->tenant != NULL)
		return (struct rf_fleet_owner){ .tenant = ns->tenant->id,
						.trust = ns->tenant->trust,
						.level = ns->tenant->level };
	/* Seen before its namespace was: whose it is, is not known yet. */
	if (!ns->known && !ns->system)
		return (struct rf_fleet_owner){ .tenant = ns->stranger, .level = RF_ISOLATION_NODE };
	/* What an administrator put on every node keeps nobody away from all of them. */
	return (struct rf_fleet_owner){ .level = RF_ISOLATION_GPU, .system = ns->system || daemon };
}

/* --- shapes ----------------------------------------------------------------------------------- */

/* What a form and a wish follow from. Empty: not only from what can be compared. */
static struct rf_str facts_of(struct rf_core *c, const struct rf_sched_pod *p)
{
	size_t n;

	form_key(&c->scratch, p);
	n = c->scratch.n;
	if (!rf_wish_facts(&c->scratch, p))
		return RF_STR_EMPTY;
	rf_buf_add_n(&c->scratch, n); /* where the one ends and the other begins */
	return rf_buf_str(&c->scratch);
}

/* Once it is seen that several ask for it: then the next is likely to. */
static void keep_facts(struct co_shape *s, struct rf_str facts)
{
	if (facts.n > 0)
		s->facts = rf_str_n(rf_str_dup(facts), facts.n);
}

static struct co_shape *one_more(struct co_shape *s)
{
	s->refs++;
	co_usual_count(s, 1);
	return s;
}

struct co_shape *co_shape_of(struct rf_core *c, const struct rf_sched_pod *p, struct co_ns *ns, struct co_shape *like)
{
	struct co_tenant *t = ns->known ? ns->tenant : NULL;
	bool system = t == NULL && (ns->system || (p->daemon && ns->known));
	struct co_form *f;
	struct rf_wish *wish;
	struct co_shape *s;

	if (like != NULL && like->facts.n > 0 && like->tenant == t && like->system == system &&
	    rf_str_eq(like->facts, facts_of(c, p)))
		return one_more(like);
	f = form_of(c, p);
	wish = rf_wish_of(c->wishes, p, t != NULL ? rf_str(t->name) : RF_STR_EMPTY);
	uint64_t key[4] = { (uintptr_t)f, (uintptr_t)wish, (uintptr_t)t, system };
	s = rf_map_get(&c->shapes, rf_str_n((const char *)key, sizeof(key)));
	if (s != NULL) { /* it has one of each already */
		drop_form(c, f);
		rf_wish_drop(c->wishes, wish);
		if (s->facts.n == 0)
			keep_facts(s, facts_of(c, p));
		return one_more(s);
	}
	s = rf_new(struct co_shape);
	*s = (struct co_shape){
		.refs = 1, .id = ++c->n_shapes, .form = f, .wish = wish, .tenant = t, .system = system, .prev = c->shape_last
	};
	*(s->prev != NULL ? &s->prev->next : &c->shape_first) = s;
	c->shape_last = s;
	co_usual_count(s, 1);
	memcpy(s->key, key, sizeof(key));
	rf_map_set(&c->shapes, rf_str_n((const char *)key, sizeof(key)), s);
	return s;
}

void co_shape_drop(struct rf_core *c, struct co_shape *s)
{
	if (s == NULL)
		return;
	co_usual_count(s, -1);
	if (--s->refs > 0)
		return;
	if (c->usual_next == s)
		c->usual_next = s->next;
	*(s->prev != NULL ? &s->prev->next : &c->shape_first) = s->next;
	*(s->next != NULL ? &s->next->prev : &c->shape_last) = s->prev;
	rf_map_del(&c->shapes, rf_str_n((const char *)s->key, sizeof(s->key)));
	drop_form(c, s->form);
	rf_wish_drop(c->wishes, s->wish);
	free(s->why);
	if (s->facts.n > 0)
		free((char *)(uintptr_t)s->facts.p);
	free(s);
}

/* --- labels ----------------------------------------------------------------------------------- */

static void labels_key(struct rf_buf *b, const struct rf_sched_pair *at, size_t n)
{
	rf_buf_clear(b);
	for (size_t i = 0; i < n; i++) {
		put_s(b, at[i].key);
		put_s(b, at[i].value);
	}
}

struct co_labels *co_labels_of(struct rf_core *c, const struct rf_sched_pod *p)
{
	struct co_labels *l;
	size_t bytes = 0;
	char *at;

	if (p->n_labels == 0)
		return NULL;
	labels_key(&c->scratch, p->labels, p->n_labels);
	l = rf_map_get(&c->labels, rf_buf_str(&c->scratch));
	if (l != NULL) {
		l->refs++;
		return l;
	}
	for (size_t i = 0; i < p->n_labels; i++)
		bytes += p->labels[i].key.n + p->labels[i].value.n;
	l = rf_alloc(sizeof(*l) + p->n_labels * sizeof(l->at[0]) + bytes);
	at = (char *)&l->at[p->n_labels];
	l->refs = 1;
	l->n = p->n_labels;
	for (size_t i = 0; i < l->n; i++)
		l->at[i] = (struct rf_sched_pair){ keep(&at, p->labels[i].key), keep(&at, p->labels[i].value) };
	rf_map_set(&c->labels, rf_buf_str(&c->scratch), l);
	return l;
}

void co_labels_drop(struct rf_core *c, struct co_labels *l)
{
	if (l == NULL || --l->refs > 0)
		return;
	labels_key(&c->scratch, l->at, l->n);
	rf_map_del(&c->labels, rf_buf_str(&c->scratch));
	free(l);
}
