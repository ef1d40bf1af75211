/* Baseline: what gives a pod the machine. */
#include "policy/ps.h"

static bool one_of(struct rf_str word, const char *const *list)
{
	for (; *list != NULL; list++) {
		if (rf_str_is(word, *list))
			return true;
	}
	return false;
}

/* "<who> <verb> <values>", the sentence most checks end in. */
static void deny_values(struct rf_ps *p, const char *reason, bool pod, const char *verb)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ps_put_setters(&text, pod, &p->names);
	rf_buf_printf(&text, " %s ", verb);
	rf_ps_put_quoted(&text, &p->values);
	rf_ps_deny(p, reason, "%s", text.p);
}

/* --- profiles ---------------------------------------------------------------------------- */

static bool bad_profile(struct rf_ps *p, const struct rf_json *owner, const char *kind)
{
	const struct rf_json *profile = rf_ps_field(rf_ps_security(owner), kind);

	if (profile == NULL || rf_ps_profile_ok(profile))
		return false;
	rf_ps_words_add(&p->values, rf_ps_text(rf_ps_field(profile, "type")));
	return true;
}

static bool bad_seccomp(struct rf_ps *p, const struct rf_json *c)
{
	return bad_profile(p, c, "seccompProfile");
}

static bool seccomp_note_ok(const struct rf_json *note)
{
	struct rf_str v = rf_json_str(note);

	return rf_str_is(v, "runtime/default") || rf_str_is(v, "docker/default") ||
	       rf_str_starts(v, RF_LIT("localhost/"));
}

/* Before v1.19 there was no field for it: annotations said it for the pod and for containers. */
static bool bad_seccomp_note(const struct rf_ps *p, const struct rf_json_member *m)
{
	const struct rf_str prefix = RF_LIT("container.seccomp.security.alpha.kubernetes.io/");
	bool pod = rf_str_is(m->key, "seccomp.security.alpha.kubernetes.io/pod");
	bool container = rf_str_starts(m->key, prefix) &&
			 rf_ps_words_has(&p->names, rf_str_skip(m->key, prefix.n));

	return (pod || container) && !seccomp_note_ok(m->value);
}

static void seccomp_annotations(struct rf_ps *p)
{
	const struct rf_json *notes = rf_json_at(p->pod, "metadata", "annotations");
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < p->containers.n; i++)
		rf_ps_words_add(&p->names, rf_json_str_at(p->containers.at[i], "name"));
	rf_ps_words_sort(&p->names);
	for (size_t i = 0; rf_json_is(notes, RF_JSON_OBJECT) && i < notes->n; i++) {
		const struct rf_json_member *m = &notes->members[i];

		if (bad_seccomp_note(p, m))
			rf_ps_words_add(&p->values, rf_ps_setting(&a, m->key, m->value));
	}
	rf_ps_words_sort(&p->values);
	if (p->values.n == 0)
		return;
	rf_ps_put_plain(&text, &p->values);
	rf_ps_deny(p, "seccompProfile", "forbidden %s %s",
		   p->values.n == 1 ? "annotation" : "annotations", text.p);
	rf_vec_clear(&p->values); /* their text goes with the arena */
}

static void seccomp_fields(struct rf_ps *p)
{
	bool pod = bad_profile(p, p->spec, "seccompProfile");

	rf_ps_blame(p, bad_seccomp);
	if (pod || p->names.n > 0)
		deny_values(p, "seccompProfile", pod,
			    "must not set securityContext.seccompProfile.type to");
}

void rf_ps_seccomp_baseline(struct rf_ps *p)
{
	if (p->minor < 19)
		seccomp_annotations(p);
	else
		seccomp_fields(p);
}

static bool bad_app_armor(struct rf_ps *p, const struct rf_json *c)
{
	return bad_profile(p, c, "appArmorProfile");
}

/* The older way to say it, still honoured by container runtimes. */
static bool bad_annotation(const struct rf_json_member *m)
{
	struct rf_str v = rf_json_str(m->value);

	if (!rf_str_starts(m->key, RF_LIT("container.apparmor.security.beta.kubernetes.io/")))
		return false;
	if (m->value->type != RF_JSON_STRING)
		return m->value->type != RF_JSON_NULL;
	return v.n > 0 && !rf_str_is(v, "runtime/default") &&
	       !rf_str_starts(v, RF_LIT("localhost/"));
}

static void put_app_armor_setters(struct rf_ps *p, bool pod, size_t annotations,
				  struct rf_buf *text)
{
	rf_ps_put_setters(text, pod, &p->names);
	if (annotations > 0)
		rf_buf_printf(text, "%s%s", text->n > 0 ? " and " : "",
			      annotations == 1 ? "annotation" : "annotations");
}

void rf_ps_app_armor(struct rf_ps *p)
{
	const struct rf_json *notes = rf_json_at(p->pod, "metadata", "annotations");
	bool pod = bad_profile(p, p->spec, "appArmorProfile");
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_ps_words said = { 0 };

	rf_ps_blame(p, bad_app_armor);
	for (size_t i = 0; rf_json_is(notes, RF_JSON_OBJECT) && i < notes->n; i++) {
		const struct rf_json_member *m = &notes->members[i];

		if (bad_annotation(m))
			rf_ps_words_add(&said, rf_ps_setting(&a, m->key, m->value));
	}
	rf_ps_words_sort(&said);
	if (pod || p->names.n > 0 || said.n > 0) {
		put_app_armor_setters(p, pod, said.n, &text);
		for (size_t i = 0; i < said.n; i++)
			rf_ps_words_add(&p->values, said.at[i]);
		rf_buf_puts(&text, " must not set AppArmor profile type to ");
		rf_ps_put_quoted(&text, &p->values);
		rf_ps_deny(p,
			   p->values.n == 1 ? "forbidden AppArmor profile"
					    : "forbidden AppArmor profiles",
			   "%s", text.p);
	}
	rf_vec_done(&said);
}

static bool selinux_is_bad(struct rf_ps *p, const struct rf_json *owner, bool *user, bool *role)
{
	static const char *const allowed[] = { "", "container_t", "container_init_t",
					       "container_kvm_t", NULL };
	const struct rf_json *o = rf_ps_field(rf_ps_security(owner), "seLinuxOptions");
	const struct rf_json *type = rf_ps_field(o, "type"), *u = rf_ps_field(o, "user"),
			     *r = rf_ps_field(o, "role");
	bool bad_type = (type != NULL && type->type != RF_JSON_STRING) ||
			!(one_of(rf_ps_text(type), allowed) ||
			  (p->minor >= 31 && rf_str_is(rf_ps_text(type), "container_engine_t"))) ||
			(o != NULL && o->type != RF_JSON_OBJECT);
	bool bad_user = u != NULL && !(u->type == RF_JSON_STRING && u->text.n == 0);
	bool bad_role = r != NULL && !(r->type == RF_JSON_STRING && r->text.n == 0);

	if (bad_type)
		rf_ps_words_add(&p->values, rf_ps_text(type));
	*user |= bad_user;
	*role |= bad_role;
	return bad_type || bad_user || bad_role;
}

void rf_ps_selinux(struct rf_ps *p)
{
	bool user = false, role = false, pod = selinux_is_bad(p, p->spec, &user, &role);
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < p->containers.n; i++) {
		if (selinux_is_bad(p, p->containers.at[i], &user, &role))
			rf_ps_words_add(&p->names, rf_json_str_at(p->containers.at[i], "name"));
	}
	if (!pod && p->names.n == 0)
		return;
	rf_ps_words_sort(&p->values);
	rf_ps_put_setters(&text, pod, &p->names);
	rf_buf_puts(&text, " set forbidden securityContext.seLinuxOptions: ");
	if (p->values.n > 0) {
		rf_buf_puts(&text, p->values.n == 1 ? "type " : "types ");
		rf_ps_put_quoted(&text, &p->values);
	}
	if (user)
		rf_buf_printf(&text, "%suser may not be set", p->values.n > 0 ? "; " : "");
	if (role)
		rf_buf_printf(&text, "%srole may not be set", p->values.n > 0 || user ? "; " : "");
	rf_ps_deny(p, "seLinuxOptions", "%s", text.p);
}

/* --- the host's own ---------------------------------------------------------------------- */

void rf_ps_host_namespaces(struct rf_ps *p)
{
	static const char *const fields[] = { "hostNetwork", "hostPID", "hostIPC" };
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < RF_COUNT(fields); i++) {
		if (rf_ps_is_set(rf_ps_field(p->spec, fields[i])))
			rf_buf_printf(&text, "%s%s=true", text.n > 0 ? ", " : "", fields[i]);
	}
	if (text.n > 0)
		rf_ps_deny(p, "host namespaces", "%s", text.p);
}

void rf_ps_host_path(struct rf_ps *p)
{
	const struct rf_json *volumes = rf_ps_field(p->spec, "volumes");
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(volumes); i++) {
		const struct rf_json *v = rf_json_item(volumes, i);

		if (rf_ps_field(v, "hostPath") != NULL)
			rf_ps_words_add(&p->names, rf_json_str_at(v, "name"));
	}
	if (p->names.n == 0)
		return;
	rf_buf_puts(&text, p->names.n == 1 ? "volume " : "volumes ");
	rf_ps_put_quoted(&text, &p->names);
	rf_ps_deny(p, "hostPath volumes", "%s", text.p);
}

static bool uses_host_port(struct rf_ps *p, const struct rf_json *c)
{
	const struct rf_json *ports = rf_ps_field(c, "ports");
	bool bad = false;

	for (size_t i = 0; i < rf_json_len(ports); i++) {
		const struct rf_json *port = rf_ps_field(rf_json_item(ports, i), "hostPort");

		if (port != NULL && rf_json_int(port, -1) != 0) {
			rf_ps_words_add(&p->values, rf_ps_text(port));
			bad = true;
		}
	}
	return bad;
}

void rf_ps_host_ports(struct rf_ps *p)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ps_blame(p, uses_host_port);
	if (p->names.n == 0)
		return;
	rf_ps_put_containers(&text, &p->names);
	rf_buf_printf(&text, " %s %s ", p->names.n == 1 ? "uses" : "use",
		      p->values.n == 1 ? "hostPort" : "hostPorts");
	rf_ps_put_plain(&text, &p->values);
	rf_ps_deny(p, "hostPort", "%s", text.p);
}

static bool handler_has_host(struct rf_ps *p, const struct rf_json *handler)
{
	static const char *const actions[] = { "httpGet", "tcpSocket" };
	bool bad = false;

	for (size_t i = 0; i < RF_COUNT(actions); i++) {
		const struct rf_json *host = rf_ps_field(rf_ps_field(handler, actions[i]), "host");

		if (host == NULL || (host->type == RF_JSON_STRING && host->text.n == 0))
			continue;
		rf_ps_words_add(&p->values, rf_ps_text(host));
		bad = true;
	}
	return bad;
}

static bool has_probe_host(struct rf_ps *p, const struct rf_json *c)
{
	static const char *const probes[] = { "livenessProbe", "readinessProbe", "startupProbe" };
	const struct rf_json *life = rf_ps_field(c, "lifecycle");
	bool bad = false;

	for (size_t i = 0; i < RF_COUNT(probes); i++)
		bad |= handler_has_host(p, rf_ps_field(c, probes[i]));
	bad |= handler_has_host(p, rf_ps_field(life, "postStart"));
	bad |= handler_has_host(p, rf_ps_field(life, "preStop"));
	return bad;
}

void rf_ps_probe_hosts(struct rf_ps *p)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ps_blame(p, has_probe_host);
	if (p->names.n == 0)
		return;
	rf_ps_words_sort(&p->names);
	rf_ps_put_containers(&text, &p->names);
	rf_buf_printf(&text, " %s probe or lifecycle %s ", p->names.n == 1 ? "uses" : "use",
		      p->values.n == 1 ? "host" : "hosts");
	rf_ps_put_quoted(&text, &p->values);
	rf_ps_deny(p, "probe or lifecycle host", "%s", text.p);
}

static bool has_host_process(struct rf_ps *p, const struct rf_json *owner)
{
	const struct rf_json *windows = rf_ps_field(rf_ps_security(owner), "windowsOptions");

	return rf_ps_is_set(rf_ps_field(windows, "hostProcess"));
}

void rf_ps_host_process(struct rf_ps *p)
{
	bool pod = has_host_process(p, p->spec);
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ps_blame(p, has_host_process);
	if (!pod && p->names.n == 0)
		return;
	rf_ps_put_setters(&text, pod, &p->names);
	rf_ps_deny(p, "hostProcess",
		   "%s must not set securityContext.windowsOptions.hostProcess=true", text.p);
}

/* --- privileges -------------------------------------------------------------------------- */

static bool is_privileged(struct rf_ps *p, const struct rf_json *c)
{
	return rf_ps_is_set(rf_ps_field(rf_ps_security(c), "privileged"));
}

void rf_ps_privileged(struct rf_ps *p)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ps_blame(p, is_privileged);
	if (p->names.n == 0)
		return;
	rf_ps_put_containers(&text, &p->names);
	rf_ps_deny(p, "privileged", "%s must not set securityContext.privileged=true", text.p);
}

static bool adds_capability(struct rf_ps *p, const struct rf_json *c)
{
	static const char *const allowed[] = {
		"AUDIT_WRITE", "CHOWN",	 "DAC_OVERRIDE",     "FOWNER",	"FSETID",
		"KILL",	       "MKNOD",	 "NET_BIND_SERVICE", "SETFCAP", "SETGID",
		"SETPCAP",     "SETUID", "SYS_CHROOT",	     NULL
	};
	const struct rf_json *add = rf_json_at(rf_ps_security(c), "capabilities", "add");
	bool bad = false;

	for (size_t i = 0; i < rf_json_len(add); i++) {
		struct rf_str cap = rf_ps_text(rf_json_item(add, i));

		if (!one_of(cap, allowed)) {
			rf_ps_words_add(&p->values, cap);
			bad = true;
		}
	}
	return bad;
}

void rf_ps_capabilities_baseline(struct rf_ps *p)
{
	rf_auto(buf) text = RF_BUF_INIT;

	rf_ps_blame(p, adds_capability);
	if (p->names.n == 0)
		return;
	rf_ps_put_containers(&text, &p->names);
	rf_buf_puts(&text, " must not include ");
	rf_ps_put_quoted(&text, &p->values);
	rf_ps_deny(p, "non-default capabilities", "%s in securityContext.capabilities.add", text.p);
}

static bool unmasks_proc(struct rf_ps *p, const struct rf_json *c)
{
	const struct rf_json *mount = rf_ps_field(rf_ps_security(c), "procMount");

	if (mount == NULL || rf_str_is(rf_json_str(mount), "Default"))
		return false;
	rf_ps_words_add(&p->values, rf_ps_text(mount));
	return true;
}

void rf_ps_proc_mount_restricted(struct rf_ps *p)
{
	rf_ps_blame(p, unmasks_proc);
	if (p->names.n > 0)
		deny_values(p, "procMount", false, "must not set securityContext.procMount to");
}

void rf_ps_proc_mount(struct rf_ps *p)
{
	if (!rf_ps_in_user_namespace(p))
		rf_ps_proc_mount_restricted(p);
}

static bool sysctl_ok(struct rf_str name, int64_t minor)
{
	static const struct {
		int64_t since;
		const char *name;
	} allowed[] = {
		{ 0, "kernel.shm_rmid_forced" },
		{ 0, "net.ipv4.ip_local_port_range" },
		{ 0, "net.ipv4.tcp_syncookies" },
		{ 0, "net.ipv4.ping_group_range" },
		{ 0, "net.ipv4.ip_unprivileged_port_start" },
		{ 27, "net.ipv4.ip_local_reserved_ports" },
		{ 29, "net.ipv4.tcp_keepalive_time" },
		{ 29, "net.ipv4.tcp_fin_timeout" },
		{ 29, "net.ipv4.tcp_keepalive_intvl" },
		{ 29, "net.ipv4.tcp_keepalive_probes" },
		{ 32, "net.ipv4.tcp_rmem" },
		{ 32, "net.ipv4.tcp_wmem" },
		{ 37, "net.ipv4.tcp_slow_start_after_idle" },
		{ 37, "net.ipv4.tcp_notsent_lowat" },
	};

	for (size_t i = 0; i < RF_COUNT(allowed); i++) {
		if (minor >= allowed[i].since && rf_str_is(name, allowed[i].name))
			return true;
	}
	return false;
}

void rf_ps_sysctls(struct rf_ps *p)
{
	const struct rf_json *list = rf_ps_field(rf_ps_security(p->spec), "sysctls");
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(list); i++) {
		struct rf_str name = rf_json_str_at(rf_json_item(list, i), "name");

		if (!sysctl_ok(name, p->minor))
			rf_ps_words_add(&p->names, name);
	}
	if (p->names.n == 0)
		return;
	rf_ps_put_plain(&text, &p->names);
	rf_ps_deny(p, "forbidden sysctls", "%s", text.p);
}
