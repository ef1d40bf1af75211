/* Private to policy/: what the pod-security checks share.
 *
 * A pod arrives here as JSON that nobody has typed yet, so every reading is made in the direction
 * that refuses: a flag counts as set unless it is false or absent, whatever its type. */
#ifndef RF_POLICY_PS_H
#define RF_POLICY_PS_H

#include "policy/podsecurity.h"

struct rf_ps_words {
	struct rf_str *at;
	size_t n;
	size_t cap;
};

struct rf_ps {
	int64_t minor; /* of the version judged by: v1.<minor> */
	bool user_namespaces;
	const struct rf_json *pod;
	const struct rf_json *spec;
	RF_VEC(const struct rf_json *) containers; /* init, ordinary, ephemeral: in this order */
	struct rf_ps_words names;  /* containers or volumes the check at hand blames */
	struct rf_ps_words values; /* and what they set; to be sorted before they are told */
	struct rf_buf *why;
	unsigned denied; /* checks that said no */
};

/* Says no: "reason (detail)"; reasons are joined by commas. */
void rf_ps_deny(struct rf_ps *p, const char *reason, const char *fmt, ...) RF_PRINTF(3, 4);

void rf_ps_words_add(struct rf_ps_words *w, struct rf_str word);
void rf_ps_words_sort(struct rf_ps_words *w); /* and each once */
bool rf_ps_words_has(const struct rf_ps_words *sorted, struct rf_str word);
/* `"a", "b"` and `a, b`, appended. */
void rf_ps_put_quoted(struct rf_buf *out, const struct rf_ps_words *w);
void rf_ps_put_plain(struct rf_buf *out, const struct rf_ps_words *w);
/* `container "a"`, `containers "a", "b"`, appended. */
void rf_ps_put_containers(struct rf_buf *out, const struct rf_ps_words *names);
/* `pod`, `container "a"` or `pod and containers "a", "b"`, appended. */
void rf_ps_put_setters(struct rf_buf *out, bool pod, const struct rf_ps_words *names);

/* Fills p->names with the containers for which bad() holds; bad may add to p->values, which are
 * sorted then. */
void rf_ps_blame(struct rf_ps *p, bool (*bad)(struct rf_ps *p, const struct rf_json *container));

/* A member that is there and not null, else NULL. */
const struct rf_json *rf_ps_field(const struct rf_json *o, const char *key);
const struct rf_json *rf_ps_security(const struct rf_json *pod_spec_or_container);
/* Set to anything but false. */
bool rf_ps_is_set(const struct rf_json *flag);
/* `key="value"` as Go's %q writes the value, in the arena. */
struct rf_str rf_ps_setting(struct rf_arena *a, struct rf_str key, const struct rf_json *value);
/* A profile type that confines: RuntimeDefault or Localhost. */
bool rf_ps_profile_ok(const struct rf_json *profile);
/* hostUsers: false, and a version and a node that honour it. */
bool rf_ps_in_user_namespace(const struct rf_ps *p);
/* Text of a value for a message: strings as they are, anything else by its JSON type. */
struct rf_str rf_ps_text(const struct rf_json *v);

/* The checks, in two files. */
void rf_ps_app_armor(struct rf_ps *p);
void rf_ps_capabilities_baseline(struct rf_ps *p);
void rf_ps_host_namespaces(struct rf_ps *p);
void rf_ps_host_path(struct rf_ps *p);
void rf_ps_host_ports(struct rf_ps *p);
void rf_ps_probe_hosts(struct rf_ps *p);
void rf_ps_privileged(struct rf_ps *p);
void rf_ps_proc_mount(struct rf_ps *p);
void rf_ps_selinux(struct rf_ps *p);
void rf_ps_seccomp_baseline(struct rf_ps *p);
void rf_ps_sysctls(struct rf_ps *p);
void rf_ps_host_process(struct rf_ps *p);

void rf_ps_privilege_escalation(struct rf_ps *p);
void rf_ps_capabilities_restricted(struct rf_ps *p);
void rf_ps_proc_mount_restricted(struct rf_ps *p);
void rf_ps_restricted_volumes(struct rf_ps *p);
void rf_ps_run_as_non_root(struct rf_ps *p);
void rf_ps_run_as_user(struct rf_ps *p);
void rf_ps_seccomp_restricted(struct rf_ps *p);

#endif
