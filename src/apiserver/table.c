#include "apiserver/table.h"

/* --- cells ---------------------------------------------------------------------------------- */

static void separate(struct rf_table_cells *c)
{
	if (!c->first)
		rf_buf_add_c(c->out, ',');
	c->first = false;
}

void rf_cell(struct rf_table_cells *c, struct rf_str text)
{
	separate(c);
	rf_json_write_str(c->out, text);
}

void rf_cell_int(struct rf_table_cells *c, int64_t i)
{
	separate(c);
	rf_buf_printf(c->out, "%lld", (long long)i);
}

void rf_cell_since(struct rf_table_cells *c, struct rf_str time)
{
	int64_t ms;

	if (rf_time_parse(time, &ms, NULL) < 0)
		rf_cell(c, RF_LIT("<unknown>"));
	else
		rf_cell(c, rf_time_age(c->a, RF_MAX(c->now_ms - ms, 0)));
}

void rf_cell_age(struct rf_table_cells *c)
{
	rf_cell_since(c, rf_json_str_at(c->o, "metadata", "creationTimestamp"));
}

/* --- rows ----------------------------------------------------------------------------------- */

static void write_column(struct rf_buf *out, const struct rf_table_column *c, const char *format)
{
	rf_buf_printf(out,
		      "%s{\"name\":\"%s\",\"type\":\"%s\",\"format\":\"%s\",\"description\":\"\","
		      "\"priority\":%d}",
		      out->p[out->n - 1] == '[' ? "" : ",", c->name, c->type, format, c->priority);
}

static void write_columns(struct rf_buf *out, const struct rf_table_kind *how)
{
	struct rf_table_column name = { "Name", "string", how->name_last ? 1 : 0 };

	if (!how->name_last)
		write_column(out, &name, "name");
	for (size_t i = 0; i < how->n_columns; i++)
		write_column(out, &how->columns[i], "");
	if (how->name_last)
		write_column(out, &name, "name");
}

void rf_table_begin(struct rf_table *t, struct rf_buf *out, const struct rf_kind *k, int64_t now_ms,
		    bool objects)
{
	*t = (struct rf_table){
		.out = out, .kind = k, .how = rf_table_kind(k), .now_ms = now_ms, .objects = objects
	};
	rf_buf_puts(out, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\","
			 "\"columnDefinitions\":[");
	write_columns(out, t->how);
	rf_buf_puts(out, "],\"rows\":[");
}

void rf_table_meta(struct rf_buf *out, const struct rf_json *object)
{
	rf_buf_puts(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\","
			 "\"metadata\":");
	rf_json_write(out, rf_json_get(object, RF_LIT("metadata")));
	rf_buf_add_c(out, '}');
}

void rf_table_row(struct rf_table *t, const struct rf_json *object)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_table_cells c = {
		.a = &a, .o = object, .now_ms = t->now_ms, .out = t->out, .first = true
	};

	rf_buf_puts(t->out, t->rows++ > 0 ? ",{\"cells\":[" : "{\"cells\":[");
	if (!t->how->name_last)
		rf_cell(&c, rf_json_str_at(object, "metadata", "name"));
	t->how->cells(&c);
	if (t->how->name_last)
		rf_cell(&c, rf_json_str_at(object, "metadata", "name"));
	rf_buf_puts(t->out, "],\"object\":");
	if (t->objects)
		rf_json_write(t->out, object);
	else
		rf_table_meta(t->out, object);
	rf_buf_add_c(t->out, '}');
}

void rf_table_end(struct rf_table *t, struct rf_str rv, struct rf_str continue_token)
{
	rf_buf_printf(t->out, "],\"metadata\":{\"resourceVersion\":\"%.*s\"", RF_STR(rv));
	if (continue_token.n > 0)
		rf_buf_printf(t->out, ",\"continue\":\"%.*s\"", RF_STR(continue_token));
	rf_buf_puts(t->out, "}}");
}
