#include "cli/explain.h"

#include "kube/kube.h"
#include "tenant/tenant.h"

#define DEPTH_MAX 16
#define NO_LIMIT (INT64_C(1) << 56) /* and above: not limited */

struct queue {
	const struct rf_json *o;
	struct rf_str name, parent;
	struct rf_str key; /* its path, parts joined by a byte below every name's: parents before children */
	int64_t depth, weight, usage, position;
	bool waits, owes;
	struct rf_json *resources;
};

struct book {
	struct rf_arena *a;
	struct queue *at;
	size_t n;
	struct rf_map by_name;
};

/* --- reading -------------------------------------------------------------------------------------- */

static const struct rf_json *amount_of(const struct rf_json *list, struct rf_str name, const char *field)
{
	for (size_t i = 0; i < rf_json_len(list); i++)
		if (rf_str_eq(rf_json_str_at(rf_json_item(list, i), "name"), name))
			return rf_json_at(rf_json_item(list, i), field);
	return NULL;
}

static bool is_cpu(struct rf_str resource)
{
	return rf_str_is(resource, "cpu");
}

static int64_t read_amount(const struct rf_json *v, bool milli)
{
	int64_t n = -1;

	if (v->type != RF_JSON_NUMBER && v->type != RF_JSON_STRING)
		return -1;
	return (milli ? rf_quantity_milli(v->text, &n, NULL) : rf_quantity_value(v->text, &n, NULL)) < 0 ? -1 : n;
}

/* From the status; what it does not say, from the spec, which counts CPU in cores and not in thousandths.
 * -1: neither does. */
static int64_t amount(const struct rf_json *q, struct rf_str name, const char *field)
{
	const struct rf_json *v = amount_of(rf_json_at(q, "status", "resources"), name, field);

	if (v != NULL)
		return read_amount(v, false);
	v = amount_of(rf_json_at(q, "spec", "resources"), name, field);
	return v != NULL ? read_amount(v, is_cpu(name)) : -1;
}

static void set_amount(struct rf_arena *a, struct rf_json *to, const char *field, int64_t n)
{
	if (n >= 0 && n < NO_LIMIT)
		rf_json_set_int(a, to, field, n);
}

static struct rf_json *read_resource(struct rf_arena *a, const struct rf_json *q, struct rf_str name, bool *owes)
{
	static const char *const fields[] = { "guaranteed", "fair", "limit", "used" };
	int64_t used = amount(q, name, "used"), guaranteed = amount(q, name, "guaranteed");
	struct rf_json *to = rf_json_make(a, "{'name':%S}", name);

	for (size_t i = 0; i < RF_COUNT(fields); i++)
		set_amount(a, to, fields[i], amount(q, name, fields[i]));
	if (used >= 0 && guaranteed >= 0) {
		set_amount(a, to, "debt", RF_MAX(used - guaranteed, 0));
		*owes |= used > guaranteed;
	}
	set_amount(a, to, "wanted", amount(q, name, "wanted"));
	return to;
}

/* Those of the status, then those that only the spec knows. */
static void read_resources(struct rf_arena *a, struct queue *q)
{
	static const char *const parts[] = { "status", "spec" };

	q->resources = rf_json_array(a);
	for (size_t p = 0; p < RF_COUNT(parts); p++) {
		const struct rf_json *list = rf_json_at(q->o, parts[p], "resources");

		for (size_t i = 0; i < rf_json_len(list); i++) {
			struct rf_str name = rf_json_str_at(rf_json_item(list, i), "name");

			if (p == 0 || amount_of(q->resources, name, "name") == NULL)
				rf_json_push(a, q->resources, read_resource(a, q->o, name, &q->owes));
		}
	}
}

static void read_queue(struct book *b, struct queue *q, const struct rf_json *o)
{
	*q = (struct queue){ .o = o,
			     .name = rf_kube_name(o),
			     .parent = rf_json_str_at(o, "spec", "parent"),
			     .weight = RF_MAX(rf_json_int(rf_json_at(o, "spec", "weight"), 1), 1),
			     .usage = RF_MAX(rf_json_int(rf_json_at(o, "status", "usage"), 0), 0),
			     .waits = rf_json_int(rf_json_at(o, "status", "pending"), 0) > 0 };
	read_resources(b->a, q);
	(void)rf_map_set(&b->by_name, q->name, q);
}

/* --- the tree ------------------------------------------------------------------------------------- */

static struct queue *parent_of(const struct book *b, const struct queue *q)
{
	return q->parent.n > 0 ? rf_map_get(&b->by_name, q->parent) : NULL;
}

/* One whose parents are missing or go round in a circle stands at the top. */
static void find_place(struct book *b, struct queue *q)
{
	struct queue *up[DEPTH_MAX + 1] = { q };
	size_t n = 1;
	rf_auto(buf) key = RF_BUF_INIT;

	while (n <= DEPTH_MAX && (up[n] = parent_of(b, up[n - 1])) != NULL)
		n++;
	if (n > DEPTH_MAX)
		n = 1;
	q->depth = (int64_t)n - 1;
	while (n-- > 0) {
		up[n]->waits |= q->waits;
		rf_buf_add(&key, up[n]->name);
		rf_buf_add_c(&key, '\1');
	}
	q->key = rf_arena_str(b->a, rf_buf_str(&key));
}

static int by_place(const void *x, const void *y)
{
	return rf_str_cmp(((const struct queue *)x)->key, ((const struct queue *)y)->key);
}

struct turn {
	struct queue *of;
};

static int by_turn(const void *x, const void *y)
{
	const struct queue *p = ((const struct turn *)x)->of, *q = ((const struct turn *)y)->of;
	int order = rf_str_cmp(p->depth > 0 ? p->parent : RF_STR_EMPTY, q->depth > 0 ? q->parent : RF_STR_EMPTY);

	if (order != 0)
		return order;
	if (p->waits != q->waits)
		return p->waits ? -1 : 1;
	if (p->owes != q->owes)
		return p->owes ? 1 : -1;
	if (p->usage / p->weight != q->usage / q->weight)
		return p->usage / p->weight < q->usage / q->weight ? -1 : 1;
	return rf_str_cmp(p->name, q->name);
}

static void find_turns(struct book *b)
{
	struct turn *order = rf_arena_array(b->a, struct turn, RF_MAX(b->n, 1));
	int64_t turn = 0;

	for (size_t i = 0; i < b->n; i++)
		order[i].of = &b->at[i];
	qsort(order, b->n, sizeof(*order), by_turn);
	for (size_t i = 0; i < b->n; i++) {
		struct queue *q = order[i].of, *before = i > 0 ? order[i - 1].of : NULL;
		bool first = before == NULL || q->depth != before->depth ||
			     (q->depth > 0 && !rf_str_eq(q->parent, before->parent));

		turn = first ? 1 : turn + 1;
		q->position = q->waits ? turn : 0;
	}
}

/* --- writing -------------------------------------------------------------------------------------- */

static struct rf_str path_of(struct rf_arena *a, struct rf_str key)
{
	char *p = rf_arena_alloc(a, key.n + 1);

	for (size_t i = 0; i < key.n; i++)
		p[i] = key.p[i] == '\1' ? '/' : key.p[i];
	return rf_str_n(p, key.n > 0 ? key.n - 1 : 0);
}

static struct rf_str tenant_of(const struct rf_json *o)
{
	struct rf_str t = rf_json_str_at(o, "spec", "tenant");

	return t.n > 0 ? t : rf_kube_label(o, RF_TENANT_LABEL);
}

static struct rf_json *write_queue(struct rf_arena *a, const struct queue *q)
{
	struct rf_json *to = rf_json_make(
		a, "{'name':%S,'path':%S,'depth':%D,'tenant':%S,'weight':%D,'pending':%D,'running':%D,'usage':%D}", q->name,
		path_of(a, q->key), q->depth, tenant_of(q->o), q->weight,
		rf_json_int(rf_json_at(q->o, "status", "pending"), 0),
		rf_json_int(rf_json_at(q->o, "status", "running"), 0), q->usage);

	if (q->position > 0)
		rf_json_set_int(a, to, "position", q->position);
	if (rf_json_str_at(q->o, "status", "message").n > 0)
		rf_json_set_str(a, to, "message", rf_json_str_at(q->o, "status", "message"));
	rf_json_set(a, to, RF_LIT("resources"), q->resources);
	return to;
}

struct rf_json *rf_explain_queues(struct rf_arena *a, const struct rf_json *queues)
{
	struct rf_json *all = rf_json_array(a);
	struct book b = { .a = a, .n = rf_json_len(queues) };

	b.at = rf_arena_array(a, struct queue, RF_MAX(b.n, 1));
	for (size_t i = 0; i < b.n; i++)
		read_queue(&b, &b.at[i], rf_json_item(queues, i));
	for (size_t i = 0; i < b.n; i++)
		find_place(&b, &b.at[i]);
	rf_map_done(&b.by_name); /* the order changes now */
	qsort(b.at, b.n, sizeof(*b.at), by_place);
	find_turns(&b);
	for (size_t i = 0; i < b.n; i++)
		rf_json_push(a, all, write_queue(a, &b.at[i]));
	return all;
}

struct rf_json *rf_explain_queues_below(struct rf_arena *a, const struct rf_json *explained, struct rf_str name)
{
	struct rf_json *some = rf_json_array(a);
	struct rf_str below = RF_STR_EMPTY; /* how paths below it begin */

	for (size_t i = 0; i < rf_json_len(explained); i++) {
		struct rf_json *q = rf_json_item(explained, i);
		bool it = rf_str_eq(rf_json_str_at(q, "name"), name);

		if (it)
			below = rf_arena_printf(a, "%.*s/", RF_STR(rf_json_str_at(q, "path")));
		if (it || (below.n > 0 && rf_str_starts(rf_json_str_at(q, "path"), below)))
			rf_json_push(a, some, q);
	}
	return some;
}

/* --- a table --------------------------------------------------------------------------------------- */

static bool is_bytes(struct rf_str resource)
{
	return rf_str_is(resource, "share-bytes") || rf_str_is(resource, "memory");
}

static struct rf_str duration(struct rf_arena *a, int64_t ms)
{
	long long s = (long long)(ms / 1000);

	if (s >= 3600)
		return rf_arena_printf(a, "%lldh%02lldm", s / 3600, s / 60 % 60);
	return s >= 60 ? rf_arena_printf(a, "%lldm%02llds", s / 60, s % 60) : rf_arena_printf(a, "%llds", s);
}

static bool is_idle(const struct rf_json *r)
{
	static const char *const fields[] = { "guaranteed", "limit", "used", "wanted" };

	for (size_t i = 0; i < RF_COUNT(fields); i++)
		if (rf_json_int(rf_json_at(r, fields[i]), 0) != 0)
			return false;
	return true;
}

static void write_amounts(struct rf_arena *a, struct rf_json *row, const struct rf_json *r)
{
	static const char *const fields[] = { "guaranteed", "fair", "limit", "used", "debt", "wanted" };
	struct rf_str name = rf_json_str_at(r, "name");

	rf_json_set_str(a, row, "resource", name);
	for (size_t i = 0; i < RF_COUNT(fields); i++) {
		const struct rf_json *v = rf_json_at(r, fields[i]);

		if (v != NULL && is_bytes(name))
			rf_json_set_str(a, row, fields[i], rf_quantity_bytes(a, rf_json_int(v, 0)));
		else if (v != NULL && is_cpu(name))
			rf_json_set_str(a, row, fields[i], rf_quantity_format_milli(a, rf_json_int(v, 0)));
		else if (v != NULL)
			rf_json_set_int(a, row, fields[i], rf_json_int(v, 0));
	}
}

static struct rf_json *first_row(struct rf_arena *a, const struct rf_json *q)
{
	int64_t indent = 2 * RF_MIN(rf_json_int(rf_json_at(q, "depth"), 0), DEPTH_MAX);
	struct rf_json *row = rf_json_make(
		a, "{'queue':%S,'weight':%j,'pending':%j,'running':%j,'usage':%S}",
		rf_arena_printf(a, "%*s%.*s", (int)indent, "", RF_STR(rf_json_str_at(q, "name"))), rf_json_at(q, "weight"),
		rf_json_at(q, "pending"), rf_json_at(q, "running"), duration(a, rf_json_int(rf_json_at(q, "usage"), 0)));

	if (rf_json_at(q, "position") != NULL)
		rf_json_set(a, row, RF_LIT("position"), rf_json_at(q, "position"));
	return row;
}

struct rf_json *rf_explain_queue_rows(struct rf_arena *a, const struct rf_json *explained)
{
	struct rf_json *rows = rf_json_array(a);

	for (size_t i = 0; i < rf_json_len(explained); i++) {
		const struct rf_json *q = rf_json_item(explained, i), *list = rf_json_at(q, "resources");
		struct rf_json *row = first_row(a, q);
		bool told = false;

		for (size_t k = 0; k < rf_json_len(list); k++) {
			if (is_idle(rf_json_item(list, k)))
				continue;
			if (told)
				row = rf_json_make(a, "{'queue':' ','weight':' ','pending':' ','running':' ','usage':' ',"
						      "'position':' '}");
			write_amounts(a, row, rf_json_item(list, k));
			rf_json_push(a, rows, row);
			told = true;
		}
		if (!told)
			rf_json_push(a, rows, row);
	}
	return rows;
}
