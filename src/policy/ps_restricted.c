/* Restricted: what a pod must give up by itself. */
#include "policy/ps.h"

/* The fields below have no meaning on Windows, and from v1.25 on Kubernetes lets such pods pass
 * without them; the scheduler places them on no Linux node. */
static bool is_windows(const struct rf_ps *p)
{
	return p->minor >= 25 && rf_str_is(rf_json_str_at(p->spec, "os", "name"), "windows");
}

static bool may_escalate(struct rf_ps *p, const struct rf_json *c)
{
	const struct rf_json *flag = rf_ps_field(rf_ps_security(c), "allowPrivilegeEscalation");

	return flag == NULL || rf_ps_is_set(flag);
}

void rf_ps_privilege_escalation(struct rf_ps *p)
{
	rf_auto(buf) text = RF_BUF_INIT;

	if (is_windows(p))
		return;
	rf_ps_blame(p, may_escalate);
	if (p->names.n == 0)
		return;
	rf_ps_put_containers(&text, &p->names);
	rf_ps_deny(p, "allowPrivilegeEscalation != false",
		   "%s must set securityContext.allowPrivilegeEscalation=false", text.p);
}

/* --- capabilities ------------------------------------------------------------------------ */

static bool keeps_capabilities(struct rf_ps *p, const struct rf_json *c)
{
	const struct rf_json *drop = rf_json_at(rf_ps_security(c), "capabilities", "drop");

	for (size_t i = 0; i < rf_json_len(drop); i++) {
		if (rf_str_is(rf_json_str(rf_json_item(drop, i)), "ALL"))
			return false;
	}
	return true;
}

static bool adds_capability(struct rf_ps *p, const struct rf_json *c)
{
	const struct rf_json *add = rf_json_at(rf_ps_security(c), "capabilities", "add");
	bool bad = false;

	for (size_t i = 0; i < rf_json_len(add); i++) {
		struct rf_str cap = rf_ps_text(rf_json_item(add, i));

		if (!rf_str_is(cap, "NET_BIND_SERVICE")) {
			rf_ps_words_add(&p->values, cap);
			bad = true;
		}
	}
	return bad;
}

void rf_ps_capabilities_restricted(struct rf_ps *p)
{
	rf_auto(buf) text = RF_BUF_INIT;

	if (is_windows(p))
		return;
	rf_ps_blame(p, keeps_capabilities);
	if (p->names.n > 0) {
		rf_ps_put_containers(&text, &p->names);
		rf_buf_puts(&text, " must set securityContext.capabilities.drop=[\"ALL\"]");
	}
	rf_vec_clear(&p->names);
	rf_ps_blame(p, adds_capability);
	if (p->names.n > 0) {
		rf_buf_puts(&text, text.n > 0 ? "; " : "");
		rf_ps_put_containers(&text, &p->names);
		rf_buf_puts(&text, " must not include ");
		rf_ps_put_quoted(&text, &p->values);
		rf_buf_puts(&text, " in securityContext.capabilities.add");
	}
	if (text.n > 0)
		rf_ps_deny(p, "unrestricted capabilities", "%s", text.p);
}

/* --- volumes ----------------------------------------------------------------------------- */

/* The kind of volume that is not allowed, NULL if it is allowed. A volume of two kinds is not a
 * volume: it counts by the worse one. */
static const char *bad_volume_type(const struct rf_json *volume)
{
	static const char *const allowed[] = {
		"configMap", "csi",   "downwardAPI",	       "emptyDir",
		"ephemeral", "image", "persistentVolumeClaim", "projected",
		"secret"
	};
	static const char *const known[] = { "hostPath",
					     "gcePersistentDisk",
					     "awsElasticBlockStore",
					     "gitRepo",
					     "nfs",
					     "iscsi",
					     "glusterfs",
					     "rbd",
					     "flexVolume",
					     "cinder",
					     "cephfs",
					     "flocker",
					     "fc",
					     "azureFile",
					     "vsphereVolume",
					     "quobyte",
					     "azureDisk",
					     "photonPersistentDisk",
					     "portworxVolume",
					     "scaleIO",
					     "storageos" };

	for (size_t i = 0; i < RF_COUNT(known); i++) {
		if (rf_ps_field(volume, known[i]) != NULL)
			return known[i];
	}
	for (size_t i = 0; i < RF_COUNT(allowed); i++) {
		if (rf_ps_field(volume, allowed[i]) != NULL)
			return NULL;
	}
	/* A name and nothing else is an emptyDir by default. */
	return volume->n == 1 && rf_ps_field(volume, "name") != NULL ? NULL : "unknown";
}

void rf_ps_restricted_volumes(struct rf_ps *p)
{
	const struct rf_json *volumes = rf_ps_field(p->spec, "volumes");
	rf_auto(buf) text = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(volumes); i++) {
		const struct rf_json *v = rf_json_item(volumes, i);
		const char *bad = bad_volume_type(v);

		if (bad == NULL)
			continue;
		rf_ps_words_add(&p->names, rf_json_str_at(v, "name"));
		rf_ps_words_add(&p->values, rf_str(bad));
	}
	if (p->names.n == 0)
		return;
	rf_ps_words_sort(&p->values);
	rf_buf_puts(&text, p->names.n == 1 ? "volume " : "volumes ");
	rf_ps_put_quoted(&text, &p->names);
	rf_buf_printf(&text, " %s restricted volume %s ", p->names.n == 1 ? "uses" : "use",
		      p->values.n == 1 ? "type" : "types");
	rf_ps_put_quoted(&text, &p->values);
	rf_ps_deny(p, "restricted volume types", "%s", text.p);
}

/* --- who it runs as ---------------------------------------------------------------------- */

/* What a pod or container says; a value that is no bool says the worse thing. */
enum said { SAID_NOTHING, SAID_GOOD, SAID_BAD };

static enum said non_root(const struct rf_json *owner)
{
	const struct rf_json *flag = rf_ps_field(rf_ps_security(owner), "runAsNonRoot");

	if (flag == NULL)
		return SAID_NOTHING;
	return rf_json_is_true(flag) ? SAID_GOOD : SAID_BAD;
}

static bool refuses_non_root(struct rf_ps *p, const struct rf_json *c)
{
	return non_root(c) == SAID_BAD;
}

static bool silent_on_root(struct rf_ps *p, const struct rf_json *c)
{
	return non_root(c) == SAID_NOTHING;
}

void rf_ps_run_as_non_root(struct rf_ps *p)
{
	enum said pod = non_root(p->spec);
	rf_auto(buf) text = RF_BUF_INIT;

	if (rf_ps_in_user_namespace(p))
		return;
	rf_ps_blame(p, refuses_non_root);
	if (pod == SAID_BAD || p->names.n > 0) {
		rf_ps_put_setters(&text, pod == SAID_BAD, &p->names);
		rf_ps_deny(p, "runAsNonRoot != true",
			   "%s must not set securityContext.runAsNonRoot=false", text.p);
		return;
	}
	if (pod == SAID_GOOD)
		return;
	rf_ps_blame(p, silent_on_root);
	if (p->names.n == 0)
		return;
	rf_ps_put_containers(&text, &p->names);
	rf_ps_deny(p, "runAsNonRoot != true",
		   "pod or %s must set securityContext.runAsNonRoot=true", text.p);
}

static bool runs_as_root(struct rf_ps *p, const struct rf_json *owner)
{
	const struct rf_json *user = rf_ps_field(rf_ps_security(owner), "runAsUser");

	return user != NULL && rf_json_int(user, 0) == 0;
}

void rf_ps_run_as_user(struct rf_ps *p)
{
	bool pod = runs_as_root(p, p->spec);
	rf_auto(buf) text = RF_BUF_INIT;

	if (rf_ps_in_user_namespace(p))
		return;
	rf_ps_blame(p, runs_as_root);
	if (!pod && p->names.n == 0)
		return;
	rf_ps_put_setters(&text, pod, &p->names);
	rf_ps_deny(p, "runAsUser=0", "%s must not set runAsUser=0", text.p);
}

/* --- seccomp ----------------------------------------------------------------------------- */

static enum said seccomp(const struct rf_json *owner)
{
	const struct rf_json *profile = rf_ps_field(rf_ps_security(owner), "seccompProfile");

	if (profile == NULL)
		return SAID_NOTHING;
	return rf_ps_profile_ok(profile) ? SAID_GOOD : SAID_BAD;
}

static bool silent_on_seccomp(struct rf_ps *p, const struct rf_json *c)
{
	return seccomp(c) == SAID_NOTHING;
}

void rf_ps_seccomp_restricted(struct rf_ps *p)
{
	unsigned denied = p->denied;
	rf_auto(buf) text = RF_BUF_INIT;

	if (is_windows(p))
		return;
	rf_ps_seccomp_baseline(p);
	if (p->denied > denied || seccomp(p->spec) == SAID_GOOD)
		return;
	rf_ps_blame(p, silent_on_seccomp);
	if (p->names.n == 0)
		return;
	rf_ps_put_containers(&text, &p->names);
	rf_ps_deny(
		p, "seccompProfile",
		"pod or %s must set securityContext.seccompProfile.type to \"RuntimeDefault\" or "
		"\"Localhost\"",
		text.p);
}
