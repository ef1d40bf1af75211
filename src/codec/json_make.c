/* rf_json_make: values from templates. A template is part of the program, so every fault in one is
 * a bug and asserts. */
#include <stdarg.h>

#include "codec/json_private.h"

struct maker {
	struct rf_arena *arena;
	const char *at;
	va_list args;
};

static struct rf_json *make_value(struct maker *m);

static void skip_space(struct maker *m)
{
	while (*m->at == ' ' || *m->at == '\n' || *m->at == '\t')
		m->at++;
}

static bool took(struct maker *m, char c)
{
	skip_space(m);
	if (*m->at != c)
		return false;
	m->at++;
	return true;
}

/* Literal text in either kind of quotes. Escapes: \n and any punctuation as itself. A conversion
 * inside quotes is a mistake: it would stay as it is and leave its argument to the next one. */
static struct rf_str make_literal(struct maker *m)
{
	char quote = *m->at++;
	char *text = rf_arena_alloc(m->arena, strlen(m->at) + 1), *w = text;

	for (; *m->at != quote; m->at++) {
		rf_assert(*m->at != '\0');
		rf_assert(*m->at != '%' || m->at[1] == '\0' || strchr("sSdDbj", m->at[1]) == NULL);
		if (*m->at != '\\') {
			*w++ = *m->at;
			continue;
		}
		m->at++;
		rf_assert(*m->at != '\0' && strchr("n\"'\\", *m->at) != NULL);
		*w++ = *m->at == 'n' ? '\n' : *m->at;
	}
	m->at++;
	return rf_str_n(text, (size_t)(w - text));
}

static struct rf_json *make_conversion(struct maker *m)
{
	struct rf_json *v;

	switch (*m->at++) {
	case 's':
		return rf_json_string(m->arena, rf_str(va_arg(m->args, const char *)));
	case 'S':
		return rf_json_string(m->arena, va_arg(m->args, struct rf_str));
	case 'd':
		return rf_json_number(m->arena, va_arg(m->args, int));
	case 'D':
		return rf_json_number(m->arena, va_arg(m->args, int64_t));
	case 'b':
		return rf_json_bool(m->arena, va_arg(m->args, int) != 0);
	case 'j':
		v = va_arg(m->args, struct rf_json *);
		return v != NULL ? v : rf_json_null(m->arena);
	}
	rf_assert(!"a template conversion that does not exist");
	return NULL;
}

static struct rf_str make_key(struct maker *m)
{
	skip_space(m);
	if (*m->at == '"' || *m->at == '\'')
		return make_literal(m);
	rf_assert(m->at[0] == '%' && (m->at[1] == 's' || m->at[1] == 'S'));
	m->at++;
	return rf_json_str(make_conversion(m));
}

static struct rf_json *make_object(struct maker *m)
{
	struct rf_json *object = rf_json_object(m->arena);

	if (took(m, '}'))
		return object;
	do {
		struct rf_str key = make_key(m);

		rf_assert(took(m, ':'));
		rf_json_set(m->arena, object, key, make_value(m));
	} while (took(m, ','));
	rf_assert(took(m, '}'));
	return object;
}

static struct rf_json *make_array(struct maker *m)
{
	struct rf_json *array = rf_json_array(m->arena);

	if (took(m, ']'))
		return array;
	do
		rf_json_push(m->arena, array, make_value(m));
	while (took(m, ','));
	rf_assert(took(m, ']'));
	return array;
}

static bool took_word(struct maker *m, const char *word)
{
	if (strncmp(m->at, word, strlen(word)) != 0)
		return false;
	m->at += strlen(word);
	return true;
}

static struct rf_json *make_number(struct maker *m)
{
	size_t n = rf_json_number_len(rf_str(m->at));
	struct rf_json *v = rf_json_string(m->arena, rf_str_n(m->at, n));

	rf_assert(n > 0);
	v->type = RF_JSON_NUMBER;
	m->at += n;
	return v;
}

static struct rf_json *make_value(struct maker *m)
{
	if (took(m, '{'))
		return make_object(m);
	if (took(m, '['))
		return make_array(m);
	if (took(m, '%'))
		return make_conversion(m);
	if (*m->at == '"' || *m->at == '\'')
		return rf_json_string(m->arena, make_literal(m));
	if (took_word(m, "null"))
		return rf_json_null(m->arena);
	if (took_word(m, "true"))
		return rf_json_bool(m->arena, true);
	if (took_word(m, "false"))
		return rf_json_bool(m->arena, false);
	return make_number(m);
}

struct rf_json *rf_json_make(struct rf_arena *a, const char *template, ...)
{
	struct maker m = { .arena = a, .at = template };
	struct rf_json *v;

	va_start(m.args, template);
	v = make_value(&m);
	va_end(m.args);
	skip_space(&m);
	rf_assert(*m.at == '\0');
	return v;
}
