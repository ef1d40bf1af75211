/* Which checks make up a level, in the order in which Kubernetes reports them,
 * and what all share. */
#include "policy/ps.h"

static const char *const level_names[] = {
	[RF_PS_PRIVILEGED] = "privileged",
	[RF_PS_BASELINE] = "baseline",
	[RF_PS_RESTRICTED] = "restricted",
};

/* A restricted check may stand in for a weaker baseline one; then that one has BASELINE only. */
enum { BASELINE = 1, RESTRICTED = 2 };
static const struct {
	unsigned levels;
	void (*check)(struct rf_ps *p);
} checks[] = {
	{ BASELINE | RESTRICTED, rf_ps_app_armor },
	{ BASELINE, rf_ps_capabilities_baseline },
	{ BASELINE | RESTRICTED, rf_ps_host_namespaces },
	{ BASELINE, rf_ps_host_path },
	{ BASELINE | RESTRICTED, rf_ps_host_ports },
	{ BASELINE | RESTRICTED, rf_ps_probe_hosts },
	{ BASELINE | RESTRICTED, rf_ps_privileged },
	{ BASELINE | RESTRICTED, rf_ps_proc_mount },
	{ BASELINE | RESTRICTED, rf_ps_selinux },
	{ BASELINE, rf_ps_seccomp_baseline },
	{ BASELINE | RESTRICTED, rf_ps_sysctls },
	{ BASELINE | RESTRICTED, rf_ps_host_process },
	{ RESTRICTED, rf_ps_privilege_escalation },
	{ RESTRICTED, rf_ps_capabilities_restricted },
	{ RESTRICTED, rf_ps_restricted_volumes },
	{ RESTRICTED, rf_ps_run_as_non_root },
	{ RESTRICTED, rf_ps_run_as_user },
	{ RESTRICTED, rf_ps_seccomp_restricted },
};

bool rf_ps_level_parse(struct rf_str name, enum rf_ps_level *ret)
{
	for (size_t i = 0; i < RF_COUNT(level_names); i++) {
		if (rf_str_is(name, level_names[i])) {
			*ret = (enum rf_ps_level)i;
			return true;
		}
	}
	return false;
}

const char *rf_ps_level_name(enum rf_ps_level level)
{
	rf_assert((size_t)level < RF_COUNT(level_names));
	return level_names[level];
}

/* --- words ------------------------------------------------------------------------------- */

void rf_ps_words_add(struct rf_ps_words *w, struct rf_str word)
{
	rf_vec_push(w, word);
}

void rf_ps_words_insert(struct rf_ps_words *w, struct rf_str word)
{
	size_t i = 0;

	while (i < w->n && rf_str_cmp(w->at[i], word) < 0)
		i++;
	if (i < w->n && rf_str_eq(w->at[i], word))
		return;
	rf_vec_push(w, word);
	memmove(&w->at[i + 1], &w->at[i], (w->n - 1 - i) * sizeof(word));
	w->at[i] = word;
}

void rf_ps_put_quoted(struct rf_buf *out, const struct rf_ps_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		rf_buf_printf(out, "%s\"%.*s\"", i > 0 ? ", " : "", RF_STR(w->at[i]));
}

void rf_ps_put_plain(struct rf_buf *out, const struct rf_ps_words *w)
{
	for (size_t i = 0; i < w->n; i++)
		rf_buf_printf(out, "%s%.*s", i > 0 ? ", " : "", RF_STR(w->at[i]));
}

void rf_ps_put_containers(struct rf_buf *out, const struct rf_ps_words *names)
{
	rf_buf_puts(out, names->n == 1 ? "container " : "containers ");
	rf_ps_put_quoted(out, names);
}

void rf_ps_put_setters(struct rf_buf *out, bool pod, const struct rf_ps_words *names)
{
	if (pod)
		rf_buf_puts(out, names->n > 0 ? "pod and " : "pod");
	if (names->n > 0)
		rf_ps_put_containers(out, names);
}

/* --- reading ----------------------------------------------------------------------------- */

const struct rf_json *rf_ps_field(const struct rf_json *o, const char *key)
{
	const struct rf_json *v = rf_json_get(o, rf_str(key));

	return v != NULL && v->type != RF_JSON_NULL ? v : NULL;
}

const struct rf_json *rf_ps_security(const struct rf_json *pod_spec_or_container)
{
	return rf_ps_field(pod_spec_or_container, "securityContext");
}

bool rf_ps_is_set(const struct rf_json *flag)
{
	return flag != NULL && !(flag->type == RF_JSON_BOOL && !flag->boolean);
}

bool rf_ps_profile_ok(const struct rf_json *profile)
{
	struct rf_str type = rf_json_str(rf_ps_field(profile, "type"));

	return rf_str_is(type, "RuntimeDefault") || rf_str_is(type, "Localhost");
}

struct rf_str rf_ps_text(const struct rf_json *v)
{
	return rf_json_is(v, RF_JSON_STRING) || rf_json_is(v, RF_JSON_NUMBER) ? v->text
									      : RF_STR_EMPTY;
}

void rf_ps_blame(struct rf_ps *p, bool (*bad)(struct rf_ps *p, const struct rf_json *container))
{
	for (size_t i = 0; i < p->containers.n; i++) {
		if (bad(p, p->containers.at[i]))
			rf_ps_words_add(&p->names, rf_json_str_at(p->containers.at[i], "name"));
	}
}

void rf_ps_deny(struct rf_ps *p, const char *reason, const char *fmt, ...)
{
	va_list ap;

	rf_buf_printf(p->why, "%s%s (", p->denied > 0 ? ", " : "", reason);
	va_start(ap, fmt);
	rf_buf_vprintf(p->why, fmt, ap);
	va_end(ap);
	rf_buf_puts(p->why, ")");
	p->denied++;
}

/* --- shape ------------------------------------------------------------------------------- */

/* A list that is no list would hide what stands in it from every check below. */
static bool list_ok(struct rf_ps *p, const struct rf_json *owner, const char *key)
{
	const struct rf_json *list = rf_ps_field(owner, key);
	bool ok = list == NULL || list->type == RF_JSON_ARRAY;

	for (size_t i = 0; ok && i < rf_json_len(list); i++)
		ok = rf_json_is(rf_json_item(list, i), RF_JSON_OBJECT);
	if (!ok)
		rf_ps_deny(p, "malformed pod", "%s must be a list of objects", key);
	return ok;
}

static bool object_ok(struct rf_ps *p, const struct rf_json *owner, const char *key)
{
	const struct rf_json *o = rf_ps_field(owner, key);

	if (o == NULL || o->type == RF_JSON_OBJECT)
		return true;
	rf_ps_deny(p, "malformed pod", "%s must be an object", key);
	return false;
}

static bool caps_ok(struct rf_ps *p, const struct rf_json *container)
{
	const struct rf_json *caps = rf_ps_field(rf_ps_security(container), "capabilities");
	const struct rf_json *add = rf_ps_field(caps, "add");

	if (!object_ok(p, rf_ps_security(container), "capabilities"))
		return false;
	if (add == NULL || add->type == RF_JSON_ARRAY)
		return true;
	rf_ps_deny(p, "malformed pod", "capabilities.add must be a list of strings");
	return false;
}

static bool collect(struct rf_ps *p, const char *key)
{
	const struct rf_json *list = rf_ps_field(p->spec, key);

	if (!list_ok(p, p->spec, key))
		return false;
	for (size_t i = 0; i < rf_json_len(list); i++) {
		const struct rf_json *c = rf_json_item(list, i);

		if (!object_ok(p, c, "securityContext") || !list_ok(p, c, "ports") ||
		    !object_ok(p, c, "lifecycle") || !caps_ok(p, c))
			return false;
		rf_vec_push(&p->containers, c);
	}
	return true;
}

static bool shape_ok(struct rf_ps *p)
{
	if (!rf_json_is(p->spec, RF_JSON_OBJECT)) {
		rf_ps_deny(p, "malformed pod", "spec must be an object");
		return false;
	}
	return object_ok(p, p->pod, "metadata") && object_ok(p, p->spec, "securityContext") &&
	       list_ok(p, rf_ps_security(p->spec), "sysctls") && list_ok(p, p->spec, "volumes") &&
	       collect(p, "initContainers") && collect(p, "containers") &&
	       collect(p, "ephemeralContainers");
}

bool rf_ps_check(enum rf_ps_level level, const struct rf_json *pod, struct rf_buf *why)
{
	struct rf_ps p = { .pod = pod, .spec = rf_ps_field(pod, "spec"), .why = why };
	unsigned want = level == RF_PS_BASELINE ? BASELINE : RESTRICTED;

	if (level == RF_PS_PRIVILEGED)
		return true;
	if (shape_ok(&p)) {
		for (size_t i = 0; i < RF_COUNT(checks); i++) {
			rf_vec_clear(&p.names);
			rf_vec_clear(&p.values);
			if (checks[i].levels & want)
				checks[i].check(&p);
		}
	}
	rf_vec_done(&p.containers);
	rf_vec_done(&p.names);
	rf_vec_done(&p.values);
	return p.denied == 0;
}
