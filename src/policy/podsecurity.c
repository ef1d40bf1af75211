/* Which checks make up a level of a version, and what all share. */
#include "policy/ps.h"

static const char *const level_names[] = {
	[RF_PS_PRIVILEGED] = "privileged",
	[RF_PS_BASELINE] = "baseline",
	[RF_PS_RESTRICTED] = "restricted",
};

/* The baseline, then what restricted adds, in the order in which Kubernetes reports them. A
 * baseline check holds for restricted too, until restricted has a stricter one of its own. Within
 * its span a check looks at the version itself. */
#define NEVER INT64_MAX
static const struct {
	enum rf_ps_level level;
	int64_t since;	  /* v1.<since> has it */
	int64_t replaced; /* at restricted: from v1.<replaced> on another check stands for it */
	void (*check)(struct rf_ps *p);
} checks[] = {
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_app_armor },
	{ RF_PS_BASELINE, 0, 22, rf_ps_capabilities_baseline },
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_host_namespaces },
	{ RF_PS_BASELINE, 0, 0, rf_ps_host_path },
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_host_ports },
	{ RF_PS_BASELINE, 34, NEVER, rf_ps_probe_hosts },
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_privileged },
	{ RF_PS_BASELINE, 0, 35, rf_ps_proc_mount },
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_selinux },
	{ RF_PS_BASELINE, 0, 19, rf_ps_seccomp_baseline },
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_sysctls },
	{ RF_PS_BASELINE, 0, NEVER, rf_ps_host_process },
	{ RF_PS_RESTRICTED, 8, NEVER, rf_ps_privilege_escalation },
	{ RF_PS_RESTRICTED, 22, NEVER, rf_ps_capabilities_restricted },
	{ RF_PS_RESTRICTED, 35, NEVER, rf_ps_proc_mount_restricted },
	{ RF_PS_RESTRICTED, 0, NEVER, rf_ps_restricted_volumes },
	{ RF_PS_RESTRICTED, 0, NEVER, rf_ps_run_as_non_root },
	{ RF_PS_RESTRICTED, 23, NEVER, rf_ps_run_as_user },
	{ RF_PS_RESTRICTED, 19, NEVER, rf_ps_seccomp_restricted },
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

int rf_ps_version_parse(struct rf_str text, struct rf_ps_version *ret, struct rf_err *err)
{
	struct rf_str digits = rf_str_skip(text, 3);
	struct rf_ps_version v = { .pinned = true };
	bool ok = rf_str_starts(text, RF_LIT("v1.")) && digits.n > 0 &&
		  (digits.n == 1 || digits.p[0] != '0');

	if (rf_str_is(text, "latest")) {
		*ret = (struct rf_ps_version){ 0 };
		return 0;
	}
	for (size_t i = 0; ok && i < digits.n; i++)
		ok = digits.p[i] >= '0' && digits.p[i] <= '9';
	if (!ok || rf_str_int(digits, &v.minor, NULL) < 0)
		return rf_fail(err, RF_INVALID,
			       "pod security version \"%.*s\": must be \"latest\" or \"v1.x\"",
			       (int)RF_MIN(text.n, 64u), text.p);
	*ret = v;
	return 0;
}

void rf_ps_put_rules(struct rf_buf *out, const struct rf_ps_rules *rules)
{
	rf_buf_printf(out, "%s:", rf_ps_level_name(rules->level));
	if (rules->version.pinned)
		rf_buf_printf(out, "v1.%lld", (long long)rules->version.minor);
	else
		rf_buf_puts(out, "latest");
}

static bool has_version(const struct rf_json *labels, const char *key, struct rf_ps_version *ret)
{
	const struct rf_json *v = rf_json_get(labels, rf_str(key));

	*ret = (struct rf_ps_version){ 0 };
	if (v != NULL)
		rf_ps_version_parse(rf_json_str(v), ret, NULL);
	return v != NULL;
}

void rf_ps_read_labels(const struct rf_json *labels, struct rf_ps_rules *ret_enforce,
		       struct rf_ps_rules *ret_warn)
{
	const struct rf_json *level =
		rf_json_get(labels, RF_LIT("pod-security.kubernetes.io/enforce"));
	const struct rf_json *warn_level =
		rf_json_get(labels, RF_LIT("pod-security.kubernetes.io/warn"));
	struct rf_ps_rules enforce = { 0 }, warn = { 0 };
	bool known = rf_ps_level_parse(rf_json_str(level), &enforce.level), warn_version;

	if (level != NULL && !known)
		enforce.level = RF_PS_RESTRICTED;
	has_version(labels, "pod-security.kubernetes.io/enforce-version", &enforce.version);
	rf_ps_level_parse(rf_json_str(warn_level), &warn.level);
	warn_version =
		has_version(labels, "pod-security.kubernetes.io/warn-version", &warn.version);
	if (warn_level == NULL && known && enforce.level > RF_PS_PRIVILEGED) {
		warn.level = enforce.level;
		warn.version = warn_version ? warn.version : enforce.version;
	}
	*ret_enforce = enforce;
	*ret_warn = warn;
}

/* --- words ------------------------------------------------------------------------------- */

void rf_ps_words_add(struct rf_ps_words *w, struct rf_str word)
{
	rf_vec_push(w, word);
}

static int compare(const void *a, const void *b)
{
	return rf_str_cmp(*(const struct rf_str *)a, *(const struct rf_str *)b);
}

/* A pod may name a hundred thousand of anything, so no sorting by insertion. */
void rf_ps_words_sort(struct rf_ps_words *w)
{
	size_t n = 0;

	if (w->n == 0)
		return;
	qsort(w->at, w->n, sizeof(*w->at), compare);
	for (size_t i = 1; i < w->n; i++) {
		if (!rf_str_eq(w->at[n], w->at[i]))
			w->at[++n] = w->at[i];
	}
	w->n = n + 1;
}

bool rf_ps_words_has(const struct rf_ps_words *sorted, struct rf_str word)
{
	return sorted->n > 0 &&
	       bsearch(&word, sorted->at, sorted->n, sizeof(word), compare) != NULL;
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

/* A flag that is anything but false keeps the host's users. */
bool rf_ps_in_user_namespace(const struct rf_ps *p)
{
	const struct rf_json *host_users = rf_ps_field(p->spec, "hostUsers");

	return p->user_namespaces && p->minor >= 35 && host_users != NULL &&
	       !rf_ps_is_set(host_users);
}

/* Text that is not ASCII stays as it is; Go does the same with all of it that prints. */
static void put_go_quoted(struct rf_buf *out, struct rf_str s)
{
	static const char plain[] = "\a\b\t\n\v\f\r"; /* 7 to 13 */
	static const char letter[] = "abtnvfr";

	rf_buf_add_c(out, '"');
	for (size_t i = 0; i < s.n; i++) {
		const char *at = s.p[i] != '\0' ? strchr(plain, s.p[i]) : NULL;

		if (at != NULL)
			rf_buf_printf(out, "\\%c", letter[at - plain]);
		else if (s.p[i] == '"' || s.p[i] == '\\')
			rf_buf_printf(out, "\\%c", s.p[i]);
		else if ((unsigned char)s.p[i] < ' ' || s.p[i] == 0x7f)
			rf_buf_printf(out, "\\x%02x", (unsigned)s.p[i]);
		else
			rf_buf_add_c(out, s.p[i]);
	}
	rf_buf_add_c(out, '"');
}

struct rf_str rf_ps_setting(struct rf_arena *a, struct rf_str key, const struct rf_json *value)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_buf_printf(&text, "%.*s=", RF_STR(key));
	put_go_quoted(&text, rf_ps_text(value));
	return rf_arena_printf(a, "%.*s", RF_STR(rf_buf_str(&text)));
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
	rf_ps_words_sort(&p->values);
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

/* --- judging ----------------------------------------------------------------------------- */

static bool applies(size_t check, const struct rf_ps_rules *rules, int64_t minor)
{
	if (minor < checks[check].since || checks[check].level > rules->level)
		return false;
	return rules->level != RF_PS_RESTRICTED || minor < checks[check].replaced;
}

bool rf_ps_judge(const struct rf_ps_rules *rules, const struct rf_json *pod, struct rf_buf *why)
{
	struct rf_ps p = { .minor = rules->version.pinned ? rules->version.minor : RF_PS_NEWEST,
			   .user_namespaces = rules->user_namespaces,
			   .pod = pod,
			   .spec = rf_ps_field(pod, "spec"),
			   .why = why };

	if (rules->level == RF_PS_PRIVILEGED)
		return true;
	if (shape_ok(&p)) {
		for (size_t i = 0; i < RF_COUNT(checks); i++) {
			rf_vec_clear(&p.names);
			rf_vec_clear(&p.values);
			if (applies(i, rules, p.minor))
				checks[i].check(&p);
		}
	}
	rf_vec_done(&p.containers);
	rf_vec_done(&p.names);
	rf_vec_done(&p.values);
	return p.denied == 0;
}

bool rf_ps_check(enum rf_ps_level level, const struct rf_json *pod, struct rf_buf *why)
{
	return rf_ps_judge(&(struct rf_ps_rules){ .level = level }, pod, why);
}

const struct rf_json *rf_ps_pod_of(const struct rf_json *object)
{
	static const char *const makers[] = { "Deployment",  "ReplicaSet", "ReplicationController",
					      "StatefulSet", "DaemonSet",  "Job" };
	struct rf_str kind = rf_json_str_at(object, "kind");

	if (rf_str_is(kind, "Pod"))
		return object;
	if (rf_str_is(kind, "PodTemplate"))
		return rf_ps_field(object, "template");
	if (rf_str_is(kind, "CronJob"))
		return rf_ps_field(rf_json_at(object, "spec", "jobTemplate", "spec"), "template");
	for (size_t i = 0; i < RF_COUNT(makers); i++) {
		if (rf_str_is(kind, makers[i]))
			return rf_ps_field(rf_json_at(object, "spec"), "template");
	}
	return NULL;
}
