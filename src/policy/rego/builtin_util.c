/* Growing text and objects for builtins. */
#include "policy/rego/builtin_util.h"

#include <stdarg.h>
#include <stdio.h>

void *rb_alloc(struct rf_rb_env *e, size_t n, size_t size)
{
	if (n > SIZE_MAX / 2 / size)
		return NULL;
	return rf_arena_try(e->arena, n == 0 ? 1 : n * size);
}

static bool grow(struct rb_text *t, size_t more)
{
	size_t room = t->room == 0 ? 64 : t->room;
	char *p;

	if (t->full)
		return false;
	if (more <= t->room - t->n)
		return true;
	if (more > UINT32_MAX - t->n) {
		t->full = true;
		return false;
	}
	while (room < t->n + more)
		room *= 2;
	p = rf_arena_try(t->e->arena, room);
	if (p == NULL || !rf_rb_spend(t->e, (int64_t)(room / 16))) {
		t->full = true;
		return false;
	}
	if (t->n > 0)
		memcpy(p, t->p, t->n);
	t->p = p;
	t->room = room;
	return true;
}

void rb_add(struct rb_text *t, struct rf_str s)
{
	if (s.n == 0 || !grow(t, s.n))
		return;
	memcpy(t->p + t->n, s.p, s.n);
	t->n += s.n;
}

void rb_add_c(struct rb_text *t, char c)
{
	if (grow(t, 1))
		t->p[t->n++] = c;
}

void rb_puts(struct rb_text *t, const char *s)
{
	rb_add(t, rf_str(s));
}

void rb_printf(struct rb_text *t, const char *fmt, ...)
{
	char small[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(small, sizeof(small), fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	if ((size_t)n < sizeof(small)) {
		rb_add(t, rf_str_n(small, (size_t)n));
		return;
	}
	if (!grow(t, (size_t)n + 1))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(t->p + t->n, (size_t)n + 1, fmt, ap);
	va_end(ap);
	t->n += (size_t)n;
}

enum rf_rb_result rb_text_value(struct rb_text *t, struct rf_rv *ret)
{
	if (t->full || !rf_rb_spend(t->e, 1 + (int64_t)(t->n / 64)))
		return RF_RB_FULL;
	*ret = rf_rv_str(rf_str_n(t->p == NULL ? "" : t->p, t->n));
	return RF_RB_OK;
}

enum rf_rb_result rb_string(struct rf_rb_env *e, struct rf_str s, struct rf_rv *ret)
{
	if (!rf_rb_spend(e, 1 + (int64_t)(s.n / 64)) || !rf_rv_copy_str(e->arena, s, ret))
		return RF_RB_FULL;
	return RF_RB_OK;
}

enum rf_rb_result rb_int(struct rf_rv v, int pos, int64_t *ret, struct rf_err *err)
{
	if (v.type != RF_RV_NUMBER)
		return rb_type_error(err, "operand %d must be number but got %s", pos, rf_rv_type_name(v));
	if (!rf_rn_written_int(v, ret))
		return rb_type_error(err, "operand %d must be integer number but got floating-point number",
				     pos);
	return RF_RB_OK;
}

void rb_put(struct rb_object *o, const char *key, struct rf_rv value)
{
	bool conflict;

	if (o->full || !rf_rv_put(&o->g, o->e->arena, rf_rv_str(rf_str(key)), value, &conflict))
		o->full = true;
}

void rb_put_str(struct rb_object *o, const char *key, struct rf_str s)
{
	struct rf_rv v;

	if (rb_string(o->e, s, &v) != RF_RB_OK)
		o->full = true;
	else
		rb_put(o, key, v);
}

enum rf_rb_result rb_object_value(struct rb_object *o, struct rf_rv *ret)
{
	if (o->full || !rf_rv_grown_object(&o->g, o->e->arena, ret))
		return RF_RB_FULL;
	return RF_RB_OK;
}

/* Messages are cut at RF_ERR_MAX anyway, so composite values are named by their type only: printing
 * one could cost more than the call itself. */
struct rf_str rb_shown(struct rf_rb_env *e, struct rf_rv v)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_rv s;

	if (v.type >= RF_RV_ARRAY || v.n > 256)
		return rf_str(rf_rv_type_name(v));
	rf_rv_print(&b, v);
	return rf_rv_copy_str(e->arena, rf_buf_str(&b), &s) ? rf_rv_text(s) : RF_STR_EMPTY;
}
