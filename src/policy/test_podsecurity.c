#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "policy/podsecurity.h"

/* A pod that restricted accepts; tests change one thing about it. */
#define GOOD_CONTEXT                                                                               \
	"'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL']},'runAsNonRoot':true,"    \
	"'seccompProfile':{'type':'RuntimeDefault'}"
#define GOOD_CONTAINER "{'name':'c','securityContext':{" GOOD_CONTEXT "}}"
#define POD(spec) "{'kind':'Pod','metadata':{'name':'p'},'spec':{" spec "}}"
#define WITH(pod_field) POD("'containers':[" GOOD_CONTAINER "]," pod_field)
#define CONTAINER(fields)                                                                          \
	POD("'containers':[{'name':'c'," fields ",'securityContext':{" GOOD_CONTEXT "}}]")
#define CONTEXT(fields)                                                                            \
	POD("'containers':[{'name':'c','securityContext':{" GOOD_CONTEXT "," fields "}}]")

struct row {
	const char *pod;
	const char *baseline; /* the message, NULL if allowed */
	const char *restricted;
};

static void judge(const char *pod, enum rf_ps_level level, const char *expected)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) why = RF_BUF_INIT;
	bool ok = rf_ps_check(level, rf_json_make(&a, pod), &why);

	assert_string_equal(why.p, expected != NULL ? expected : "");
	assert_int_equal(ok, expected == NULL);
}

static void judge_all(const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		judge(rows[i].pod, RF_PS_PRIVILEGED, NULL);
		judge(rows[i].pod, RF_PS_BASELINE, rows[i].baseline);
		judge(rows[i].pod, RF_PS_RESTRICTED, rows[i].restricted);
	}
}

#define BOTH(pod, message)                                                                         \
	{                                                                                          \
		pod, message, message                                                              \
	}

static void what_gives_a_pod_the_machine_is_refused_at_both_levels(void **state)
{
	static const struct row rows[] = {
		BOTH(WITH("'hostNetwork':true,'hostPID':true,'hostIPC':true"),
		     "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)"),
		BOTH(WITH("'hostPID':false"), NULL),
		BOTH(CONTEXT("'privileged':true"),
		     "privileged (container \"c\" must not set securityContext.privileged=true)"),
		BOTH(CONTEXT("'procMount':'Unmasked'"),
		     "procMount (container \"c\" must not set securityContext.procMount to "
		     "\"Unmasked\")"),
		BOTH(CONTEXT("'procMount':'Default'"), NULL),
		BOTH(CONTAINER("'ports':[{'containerPort':80,'hostPort':80},{'hostPort':443}]"),
		     "hostPort (container \"c\" uses hostPorts 443, 80)"),
		BOTH(CONTAINER("'ports':[{'containerPort':80,'hostPort':0}]"), NULL),
		BOTH(CONTAINER("'livenessProbe':{'httpGet':{'host':'10.0.0.1','port':80}}"),
		     "probe or lifecycle host (container \"c\" uses probe or lifecycle host "
		     "\"10.0.0.1\")"),
		BOTH(CONTAINER("'lifecycle':{'preStop':{'tcpSocket':{'host':'h'}}}"),
		     "probe or lifecycle host (container \"c\" uses probe or lifecycle host "
		     "\"h\")"),
		BOTH(CONTEXT("'windowsOptions':{'hostProcess':true}"),
		     "hostProcess (container \"c\" must not set "
		     "securityContext.windowsOptions.hostProcess=true)"),
	};
	judge_all(rows, RF_COUNT(rows));
}

static void profiles_that_do_not_confine_are_refused(void **state)
{
	static const struct row rows[] = {
		BOTH(CONTEXT("'appArmorProfile':{'type':'Unconfined'}"),
		     "forbidden AppArmor profile (container \"c\" must not set AppArmor profile "
		     "type to "
		     "\"Unconfined\")"),
		BOTH("{'metadata':{'annotations':{'container.apparmor.security.beta.kubernetes.io/"
		     "c':"
		     "'unconfined'}},'spec':{'containers':[" GOOD_CONTAINER "]}}",
		     "forbidden AppArmor profile (annotation must not set AppArmor profile type to "
		     "\"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")"),
		BOTH(CONTEXT("'seLinuxOptions':{'type':'spc_t','user':'u','role':'r'}"),
		     "seLinuxOptions (container \"c\" set forbidden "
		     "securityContext.seLinuxOptions: type "
		     "\"spc_t\"; user may not be set; role may not be set)"),
		BOTH(CONTEXT("'seLinuxOptions':{'type':'container_t'}"), NULL),
		BOTH(WITH("'securityContext':{'seccompProfile':{'type':'Unconfined'}}"),
		     "seccompProfile (pod must not set securityContext.seccompProfile.type to "
		     "\"Unconfined\")"),
		BOTH(WITH("'securityContext':{'sysctls':[{'name':'kernel.msgmax','value':'1'}]}"),
		     "forbidden sysctls (kernel.msgmax)"),
		BOTH(WITH("'securityContext':{'sysctls':[{'name':'net.ipv4.tcp_rmem','value':'1'}]"
			  "}"),
		     NULL),
	};
	judge_all(rows, RF_COUNT(rows));
}

static void restricted_asks_for_more(void **state)
{
	static const struct row rows[] = {
		{ POD("'containers':[{'name':'c'}]"), NULL,
		  "allowPrivilegeEscalation != false (container \"c\" must set "
		  "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities "
		  "(container "
		  "\"c\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != "
		  "true (pod "
		  "or container \"c\" must set securityContext.runAsNonRoot=true), seccompProfile "
		  "(pod or "
		  "container \"c\" must set securityContext.seccompProfile.type to "
		  "\"RuntimeDefault\" or "
		  "\"Localhost\")" },
		{ CONTEXT("'runAsUser':0"), NULL,
		  "runAsUser=0 (container \"c\" must not set runAsUser=0)" },
		{ WITH("'securityContext':{'runAsNonRoot':false}"), NULL,
		  "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)" },
		{ WITH("'volumes':[{'name':'v'}]"), NULL, NULL },
		{ WITH("'volumes':[{'name':'v','newest':{}}]"), NULL,
		  "restricted volume types (volume \"v\" uses restricted volume type "
		  "\"unknown\")" },
		{ WITH("'volumes':[{'name':'v','nfs':{}},{'name':'w','emptyDir':{}}]"), NULL,
		  "restricted volume types (volume \"v\" uses restricted volume type \"nfs\")" },
		{ WITH("'volumes':[{'name':'v','hostPath':{'path':'/'}}]"),
		  "hostPath volumes (volume \"v\")",
		  "restricted volume types (volume \"v\" uses restricted volume type "
		  "\"hostPath\")" },
		{ POD("'os':{'name':'windows'},'securityContext':{'runAsNonRoot':true},"
		      "'containers':[{'name':'c'}]"),
		  NULL, NULL },
	};
	judge_all(rows, RF_COUNT(rows));
}

static void a_capability_is_named_by_the_level_that_refuses_it(void **state)
{
	static const char pod[] =
		POD("'containers':[{'name':'c','securityContext':{'allowPrivilegeEscalation':false,"
		    "'runAsNonRoot':true,'seccompProfile':{'type':'Localhost'},"
		    "'capabilities':{'drop':['ALL'],'add':['SYS_ADMIN','CHOWN','NET_BIND_SERVICE']}"
		    "}}]");

	judge(pod, RF_PS_BASELINE,
	      "non-default capabilities (container \"c\" must not include "
	      "\"SYS_ADMIN\" in securityContext.capabilities.add)");
	judge(pod, RF_PS_RESTRICTED,
	      "unrestricted capabilities (container \"c\" must not include "
	      "\"CHOWN\", \"SYS_ADMIN\" in securityContext.capabilities.add)");
}

static void init_and_ephemeral_containers_are_judged_too(void **state)
{
	static const char pod[] =
		POD("'containers':[" GOOD_CONTAINER "],"
		    "'initContainers':[{'name':'i','securityContext':{" GOOD_CONTEXT
		    ",'privileged':true}}],"
		    "'ephemeralContainers':[{'name':'e','securityContext':{" GOOD_CONTEXT
		    ",'privileged':true}}]");

	judge(pod, RF_PS_RESTRICTED,
	      "privileged (containers \"i\", \"e\" must not set securityContext.privileged=true)");
}

static void a_value_of_the_wrong_type_hides_nothing(void **state)
{
	static const struct row rows[] = {
		BOTH(CONTEXT("'privileged':'true'"),
		     "privileged (container \"c\" must not set securityContext.privileged=true)"),
		BOTH(WITH("'hostNetwork':1"), "host namespaces (hostNetwork=true)"),
		BOTH(POD("'containers':{'0':{'name':'c'}}"),
		     "malformed pod (containers must be a list of objects)"),
		BOTH(POD("'containers':[{'name':'c','securityContext':[]}]"),
		     "malformed pod (securityContext must be an object)"),
		BOTH(WITH("'volumes':{'name':'v','hostPath':{}}"),
		     "malformed pod (volumes must be a list of objects)"),
		BOTH("{'spec':null}", "malformed pod (spec must be an object)"),
	};
	judge_all(rows, RF_COUNT(rows));
}

static void null_is_the_same_as_absent(void **state)
{
	judge(WITH("'hostNetwork':null,'volumes':null,'securityContext':null"), RF_PS_RESTRICTED,
	      NULL);
}

static void a_user_namespace_on_paper_relaxes_nothing(void **state)
{
	judge(POD("'hostUsers':false,'containers':[{'name':'c','securityContext':{" GOOD_CONTEXT
		  ",'runAsUser':0,'procMount':'Unmasked'}}]"),
	      RF_PS_RESTRICTED,
	      "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\"), "
	      "runAsUser=0 (container \"c\" must not set runAsUser=0)");
}

/* --- versions ---------------------------------------------------------------------------- */

static void judge_by(enum rf_ps_level level, const char *version, const char *pod,
		     const char *expected)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) why = RF_BUF_INIT;
	struct rf_ps_rules rules = { .level = level, .user_namespaces = true };
	struct rf_err err = RF_ERR_INIT;
	bool ok;

	assert_int_equal(rf_ps_version_parse(rf_str(version), &rules.version, &err), 0);
	ok = rf_ps_judge(&rules, rf_json_make(&a, pod), &why);
	if (strcmp(why.p, expected != NULL ? expected : "") != 0)
		fail_msg("%s:%s of %s: \"%s\", not \"%s\"", rf_ps_level_name(level), version, pod,
			 why.p, expected != NULL ? expected : "");
	assert_int_equal(ok, expected == NULL);
}

/* What one version says of a pod, and what the next. */
struct boundary {
	enum rf_ps_level level;
	const char *pod;
	const char *before, *before_says; /* says NULL if allowed */
	const char *from, *from_says;
};

static void judge_boundaries(const struct boundary *b, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		judge_by(b[i].level, b[i].before, b[i].pod, b[i].before_says);
		judge_by(b[i].level, b[i].from, b[i].pod, b[i].from_says);
	}
}

#define SYSCTL(name) WITH("'securityContext':{'sysctls':[{'name':'" name "','value':'1'}]}")
#define SYSCTL_SINCE(before, from, name)                                                           \
	{                                                                                          \
		RF_PS_BASELINE, SYSCTL(name), before, "forbidden sysctls (" name ")", from, NULL   \
	}

static void sysctls_were_allowed_one_by_one(void **state)
{
	static const struct boundary rows[] = {
		SYSCTL_SINCE("v1.26", "v1.27", "net.ipv4.ip_local_reserved_ports"),
		SYSCTL_SINCE("v1.28", "v1.29", "net.ipv4.tcp_keepalive_time"),
		SYSCTL_SINCE("v1.28", "v1.29", "net.ipv4.tcp_fin_timeout"),
		SYSCTL_SINCE("v1.28", "v1.29", "net.ipv4.tcp_keepalive_intvl"),
		SYSCTL_SINCE("v1.28", "v1.29", "net.ipv4.tcp_keepalive_probes"),
		SYSCTL_SINCE("v1.31", "v1.32", "net.ipv4.tcp_rmem"),
		SYSCTL_SINCE("v1.31", "v1.32", "net.ipv4.tcp_wmem"),
		SYSCTL_SINCE("v1.36", "v1.37", "net.ipv4.tcp_slow_start_after_idle"),
		SYSCTL_SINCE("v1.36", "v1.37", "net.ipv4.tcp_notsent_lowat"),
	};
	judge_boundaries(rows, RF_COUNT(rows));
	judge_by(RF_PS_BASELINE, "v1.0", SYSCTL("net.ipv4.tcp_syncookies"), NULL);
	judge_by(RF_PS_BASELINE, "v1.0", SYSCTL("kernel.msgmax"),
		 "forbidden sysctls (kernel.msgmax)");
}

#define BAD_PROBE CONTAINER("'readinessProbe':{'tcpSocket':{'host':'10.0.0.1','port':80}}")
#define PROBE_SAYS                                                                                 \
	"probe or lifecycle host (container \"c\" uses probe or lifecycle host \"10.0.0.1\")"
#define ENGINE CONTEXT("'seLinuxOptions':{'type':'container_engine_t'}")
#define ENGINE_SAYS                                                                                \
	"seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type "      \
	"\"container_engine_t\")"

static void a_baseline_check_holds_from_its_version_on(void **state)
{
	static const struct boundary rows[] = {
		{ RF_PS_BASELINE, BAD_PROBE, "v1.33", NULL, "v1.34", PROBE_SAYS },
		{ RF_PS_RESTRICTED, BAD_PROBE, "v1.33", NULL, "v1.34", PROBE_SAYS },
		{ RF_PS_BASELINE, ENGINE, "v1.30", ENGINE_SAYS, "v1.31", NULL },
		{ RF_PS_RESTRICTED, ENGINE, "v1.30", ENGINE_SAYS, "v1.31", NULL },
	};
	judge_boundaries(rows, RF_COUNT(rows));
}

static void what_was_always_refused_is_refused_by_the_first_version(void **state)
{
	static const char *const rows[][2] = {
		{ WITH("'hostPID':true"), "host namespaces (hostPID=true)" },
		{ CONTEXT("'privileged':true"),
		  "privileged (container \"c\" must not set securityContext.privileged=true)" },
		{ CONTAINER("'ports':[{'hostPort':80}]"),
		  "hostPort (container \"c\" uses hostPort 80)" },
		{ CONTEXT("'procMount':'Unmasked'"),
		  "procMount (container \"c\" must not set securityContext.procMount to "
		  "\"Unmasked\")" },
		{ CONTEXT("'appArmorProfile':{'type':'Unconfined'}"),
		  "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type "
		  "to \"Unconfined\")" },
		{ CONTEXT("'windowsOptions':{'hostProcess':true}"),
		  "hostProcess (container \"c\" must not set "
		  "securityContext.windowsOptions.hostProcess=true)" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		judge_by(RF_PS_BASELINE, "v1.0", rows[i][0], rows[i][1]);
		judge_by(RF_PS_RESTRICTED, "v1.0", rows[i][0], rows[i][1]);
		judge_by(RF_PS_PRIVILEGED, "v1.0", rows[i][0], NULL);
	}
	judge_by(RF_PS_BASELINE, "v1.0", WITH("'volumes':[{'name':'v','hostPath':{'path':'/'}}]"),
		 "hostPath volumes (volume \"v\")");
	judge_by(RF_PS_RESTRICTED, "v1.0", WITH("'volumes':[{'name':'v','hostPath':{'path':'/'}}]"),
		 "restricted volume types (volume \"v\" uses restricted volume type \"hostPath\")");
}

/* Two containers: messages count them. */
#define PAIR(context)                                                                              \
	POD("'securityContext':{'runAsNonRoot':true,'seccompProfile':{'type':'Localhost'}},"       \
	    "'containers':[{'name':'b','securityContext':{" context "}},"                          \
	    "{'name':'a','securityContext':{" context "}}]")
#define ESCALATION_SAYS                                                                            \
	"allowPrivilegeEscalation != false (containers \"b\", \"a\" must set "                     \
	"securityContext.allowPrivilegeEscalation=false)"

static void restricted_grew_check_by_check(void **state)
{
	static const struct boundary rows[] = {
		{ RF_PS_RESTRICTED, PAIR("'capabilities':{'drop':['ALL']}"), "v1.7", NULL, "v1.8",
		  ESCALATION_SAYS },
		{ RF_PS_RESTRICTED, PAIR("'allowPrivilegeEscalation':false"), "v1.21", NULL,
		  "v1.22",
		  "unrestricted capabilities (containers \"b\", \"a\" must set "
		  "securityContext.capabilities.drop=[\"ALL\"])" },
		{ RF_PS_RESTRICTED, CONTEXT("'runAsUser':0"), "v1.22", NULL, "v1.23",
		  "runAsUser=0 (container \"c\" must not set runAsUser=0)" },
		{ RF_PS_RESTRICTED,
		  POD("'containers':[{'name':'c','securityContext':{"
		      "'allowPrivilegeEscalation':false,'runAsNonRoot':true}}]"),
		  "v1.18", NULL, "v1.19",
		  "seccompProfile (pod or container \"c\" must set "
		  "securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")" },
	};
	judge_boundaries(rows, RF_COUNT(rows));
	judge_by(RF_PS_RESTRICTED, "v1.0", POD("'containers':[{'name':'c'}]"),
		 "runAsNonRoot != true (pod or container \"c\" must set "
		 "securityContext.runAsNonRoot=true)");
}

/* Until v1.22 restricted had no capabilities of its own, and the baseline's names the culprit. */
static void restricted_takes_over_from_the_baseline(void **state)
{
	static const struct boundary rows[] = {
		{ RF_PS_RESTRICTED,
		  POD("'securityContext':{'runAsNonRoot':true,'seccompProfile':{'type':"
		      "'Localhost'}},'containers':[{'name':'c','securityContext':{"
		      "'allowPrivilegeEscalation':false,'capabilities':{'drop':['ALL'],"
		      "'add':['NET_RAW','CHOWN']}}}]"),
		  "v1.21",
		  "non-default capabilities (container \"c\" must not include \"NET_RAW\" in "
		  "securityContext.capabilities.add)",
		  "v1.22",
		  "unrestricted capabilities (container \"c\" must not include \"CHOWN\", "
		  "\"NET_RAW\" in securityContext.capabilities.add)" },
		{ RF_PS_RESTRICTED,
		  CONTEXT("'procMount':'Unmasked','runAsUser':0,'privileged':true"), "v1.34",
		  "privileged (container \"c\" must not set securityContext.privileged=true), "
		  "procMount (container \"c\" must not set securityContext.procMount to "
		  "\"Unmasked\"), runAsUser=0 (container \"c\" must not set runAsUser=0)",
		  "v1.35",
		  "privileged (container \"c\" must not set securityContext.privileged=true), "
		  "procMount (container \"c\" must not set securityContext.procMount to "
		  "\"Unmasked\"), runAsUser=0 (container \"c\" must not set runAsUser=0)" },
		/* the order tells which check it was */
		{ RF_PS_RESTRICTED,
		  WITH("'initContainers':[{'name':'i','securityContext':{'procMount':'Unmasked',"
		       "'runAsNonRoot':true,'seccompProfile':{'type':'Localhost'},"
		       "'capabilities':{'drop':['ALL']}}}]"),
		  "v1.34",
		  "procMount (container \"i\" must not set securityContext.procMount to "
		  "\"Unmasked\"), allowPrivilegeEscalation != false (container \"i\" must set "
		  "securityContext.allowPrivilegeEscalation=false)",
		  "v1.35",
		  "allowPrivilegeEscalation != false (container \"i\" must set "
		  "securityContext.allowPrivilegeEscalation=false), procMount (container \"i\" "
		  "must not set securityContext.procMount to \"Unmasked\")" },
	};
	judge_boundaries(rows, RF_COUNT(rows));
}

#define NOTED(notes)                                                                               \
	"{'kind':'Pod','metadata':{'annotations':{" notes                                          \
	"}},'spec':{'containers':[" GOOD_CONTAINER "]}}"
#define POD_NOTE "seccomp.security.alpha.kubernetes.io/pod"
#define C_NOTE "container.seccomp.security.alpha.kubernetes.io/c"

static void seccomp_was_an_annotation_before_it_was_a_field(void **state)
{
	static const struct boundary rows[] = {
		{ RF_PS_BASELINE, NOTED("'" POD_NOTE "':'unconfined'"), "v1.18",
		  "seccompProfile (forbidden annotation " POD_NOTE "=\"unconfined\")", "v1.19",
		  NULL },
		{ RF_PS_RESTRICTED, NOTED("'" POD_NOTE "':'a\\\\\"b\t\x01','" C_NOTE "':''"),
		  "v1.18",
		  "seccompProfile (forbidden annotations " C_NOTE "=\"\", " POD_NOTE
		  "=\"a\\\\\\\"b\\t\\x01\")",
		  "v1.19", NULL },
		{ RF_PS_BASELINE, CONTEXT("'seccompProfile':{'type':'Unconfined'}"), "v1.18", NULL,
		  "v1.19",
		  "seccompProfile (container \"c\" must not set "
		  "securityContext.seccompProfile.type to \"Unconfined\")" },
	};
	static const char *const fine[] = { "runtime/default", "docker/default", "localhost/x" };

	judge_boundaries(rows, RF_COUNT(rows));
	for (size_t i = 0; i < RF_COUNT(fine); i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		struct rf_str pod = rf_arena_printf(&a, NOTED("'" C_NOTE "':'%s'"), fine[i]);

		judge_by(RF_PS_BASELINE, "v1.0", pod.p, NULL);
	}
	/* of a container that is not there: nobody reads it */
	judge_by(RF_PS_BASELINE, "v1.0",
		 NOTED("'container.seccomp.security.alpha.kubernetes.io/other':'unconfined'"),
		 NULL);
	judge_by(RF_PS_BASELINE, "v1.0", NOTED("'" POD_NOTE "':true"),
		 "seccompProfile (forbidden annotation " POD_NOTE "=\"\")");
}

static void windows_pods_need_no_linux_fields_since_v1_25(void **state)
{
	static const struct boundary rows[] = {
		{ RF_PS_RESTRICTED,
		  POD("'os':{'name':'windows'},'securityContext':{'runAsNonRoot':true},"
		      "'containers':[{'name':'c'}]"),
		  "v1.24",
		  "allowPrivilegeEscalation != false (container \"c\" must set "
		  "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities "
		  "(container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]), "
		  "seccompProfile (pod or container \"c\" must set "
		  "securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
		  "v1.25", NULL },
	};
	judge_boundaries(rows, RF_COUNT(rows));
}

#define IN_USERNS(host_users)                                                                      \
	POD("'hostUsers':" host_users                                                              \
	    ",'containers':[{'name':'c','securityContext':{" GOOD_CONTEXT                          \
	    ",'runAsNonRoot':false,'runAsUser':0,'procMount':'Unmasked'}}]")
#define PROC_SAYS                                                                                  \
	"procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")"
#define ROOT_SAYS                                                                                  \
	", runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)" \
	", runAsUser=0 (container \"c\" must not set runAsUser=0)"

static void user_namespaces_relax_since_v1_35(void **state)
{
	static const struct boundary rows[] = {
		{ RF_PS_BASELINE, IN_USERNS("false"), "v1.34", PROC_SAYS, "v1.35", NULL },
		{ RF_PS_RESTRICTED, IN_USERNS("false"), "v1.34", PROC_SAYS ROOT_SAYS, "v1.35",
		  PROC_SAYS },
		{ RF_PS_BASELINE, IN_USERNS("true"), "v1.34", PROC_SAYS, "v1.35", PROC_SAYS },
		{ RF_PS_BASELINE, IN_USERNS("null"), "v1.34", PROC_SAYS, "v1.35", PROC_SAYS },
		{ RF_PS_RESTRICTED, IN_USERNS("'false'"), "v1.34", PROC_SAYS ROOT_SAYS, "latest",
		  PROC_SAYS ROOT_SAYS },
	};
	judge_boundaries(rows, RF_COUNT(rows));
}

static void what_is_newer_than_known_is_judged_as_the_newest(void **state)
{
	judge_by(RF_PS_BASELINE, "v1.38", SYSCTL("net.ipv4.tcp_notsent_lowat"), NULL);
	judge_by(RF_PS_BASELINE, "v1.9223372036854775807", BAD_PROBE, PROBE_SAYS);
	judge_by(RF_PS_BASELINE, "latest", BAD_PROBE, PROBE_SAYS);
	judge_by(RF_PS_BASELINE, "latest", SYSCTL("net.ipv4.tcp_notsent_lowat"), NULL);
}

static void versions_are_written_as_kubernetes_writes_them(void **state)
{
	static const char *const bad[] = { "",	      "1.27",  "v1",
					   "v1.",     "v2.0",  "v1.x",
					   "v1.01",   "v1.+5", "v1.-1",
					   "v1.27.0", "V1.2",  " v1.2",
					   "Latest",  "v1.2 ", "v1.9223372036854775808" };
	struct rf_ps_rules rules = { .level = RF_PS_BASELINE };
	rf_auto(buf) text = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;

	for (size_t i = 0; i < RF_COUNT(bad); i++) {
		struct rf_ps_version v = { .pinned = true, .minor = 5 };

		assert_int_equal(rf_ps_version_parse(rf_str(bad[i]), &v, &err), -RF_INVALID);
		assert_non_null(strstr(err.msg, "must be \"latest\" or \"v1.x\""));
		assert_int_equal(v.minor, 5);
	}
	rf_ps_put_rules(&text, &rules);
	assert_int_equal(rf_ps_version_parse(RF_LIT("v1.0"), &rules.version, &err), 0);
	rf_ps_put_rules(&text, &rules);
	assert_int_equal(rf_ps_version_parse(RF_LIT("v1.29"), &rules.version, &err), 0);
	rf_ps_put_rules(&text, &rules);
	assert_string_equal(text.p, "baseline:latestbaseline:v1.0baseline:v1.29");
}

/* --- labels and templates ---------------------------------------------------------------- */

#define L "pod-security.kubernetes.io/"

static void labels_choose_level_and_version(void **state)
{
	static const char *const rows[][2] = {
		{ "{}", "privileged:latest privileged:latest" },
		{ "null", "privileged:latest privileged:latest" },
		{ "{'" L "enforce':'baseline'}", "baseline:latest baseline:latest" },
		{ "{'" L "enforce':'baseline','" L "enforce-version':'v1.27'}",
		  "baseline:v1.27 baseline:v1.27" },
		{ "{'" L "enforce':'baseline','" L "enforce-version':'v1.27','" L
		  "warn-version':'latest'}",
		  "baseline:v1.27 baseline:latest" },
		{ "{'" L "enforce':'baseline','" L "warn':'restricted','" L
		  "warn-version':'v1.30'}",
		  "baseline:latest restricted:v1.30" },
		{ "{'" L "enforce':'restricted','" L "warn':'privileged'}",
		  "restricted:latest privileged:latest" },
		{ "{'" L "warn':'baseline'}", "privileged:latest baseline:latest" },
		/* what cannot be read: enforced strictly, not warned of */
		{ "{'" L "enforce':'Baseline'}", "restricted:latest privileged:latest" },
		{ "{'" L "enforce':''}", "restricted:latest privileged:latest" },
		{ "{'" L "enforce':true}", "restricted:latest privileged:latest" },
		{ "{'" L "enforce':'baseline','" L "enforce-version':'1.27'}",
		  "baseline:latest baseline:latest" },
		{ "{'" L "enforce':'baseline','" L "warn':'all'}",
		  "baseline:latest privileged:latest" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		rf_auto(buf) text = RF_BUF_INIT;
		struct rf_ps_rules enforce, warn;

		rf_ps_read_labels(rf_json_make(&a, rows[i][0]), &enforce, &warn);
		rf_ps_put_rules(&text, &enforce);
		rf_buf_puts(&text, " ");
		rf_ps_put_rules(&text, &warn);
		assert_string_equal(text.p, rows[i][1]);
		assert_false(enforce.user_namespaces || warn.user_namespaces);
	}
}

static void workloads_are_judged_by_the_pod_they_make(void **state)
{
	static const char *const makers[] = { "Deployment",  "ReplicaSet", "ReplicationController",
					      "StatefulSet", "DaemonSet",  "Job" };
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *pod = rf_json_make(&a, "{'kind':'Pod','spec':{}}");
	struct rf_json *tmpl = rf_json_make(&a, "{'spec':{}}");

	assert_ptr_equal(rf_ps_pod_of(pod), pod);
	for (size_t i = 0; i < RF_COUNT(makers); i++)
		assert_ptr_equal(rf_ps_pod_of(rf_json_make(&a, "{'kind':%s,'spec':{'template':%j}}",
							   makers[i], tmpl)),
				 tmpl);
	assert_ptr_equal(
		rf_ps_pod_of(rf_json_make(&a, "{'kind':'PodTemplate','template':%j}", tmpl)), tmpl);
	assert_ptr_equal(rf_ps_pod_of(rf_json_make(&a,
						   "{'kind':'CronJob','spec':{'jobTemplate':{"
						   "'spec':{'template':%j}}}}",
						   tmpl)),
			 tmpl);
	assert_null(
		rf_ps_pod_of(rf_json_make(&a, "{'kind':'Service','spec':{'template':%j}}", tmpl)));
	assert_null(rf_ps_pod_of(rf_json_make(&a, "{'kind':'Job','spec':[]}")));
	assert_null(rf_ps_pod_of(NULL));
}

/* A tenant may name as many capabilities as fit into a request; they are told sorted, each once. */
static void many_values_are_sorted_and_told_once(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) why = RF_BUF_INIT;
	struct rf_json *add = rf_json_array(&a);

	for (int64_t i = 0; i < 200000; i++)
		rf_json_push(&a, add,
			     rf_json_string(&a, rf_arena_printf(&a, "C%06lld",
								(long long)((i * 7919) % 100000))));
	assert_false(
		rf_ps_check(RF_PS_BASELINE,
			    rf_json_make(&a,
					 "{'spec':{'containers':[{'name':'c','securityContext':"
					 "{'capabilities':{'add':%j}}}]}}",
					 add),
			    &why));
	assert_int_equal(why.n, strlen("non-default capabilities (container \"c\" must not include "
				       " in securityContext.capabilities.add)") +
					100000 * strlen("\"C000000\", ") - 2);
	assert_non_null(strstr(why.p, "include \"C000000\", \"C000001\", \"C000002\", "));
}

/* --- nonsense ---------------------------------------------------------------------------- */

static struct rf_json *nonsense(struct rf_arena *a, struct rf_prng *r)
{
	switch (rf_prng_below(r, 6)) {
	case 0:
		return rf_json_null(a);
	case 1:
		return rf_json_bool(a, true);
	case 2:
		return rf_json_number(a, (int64_t)rf_prng_below(r, 3));
	case 3:
		return rf_json_string(a, RF_LIT("ALL"));
	case 4:
		return rf_json_array(a);
	default:
		return rf_json_object(a);
	}
}

/* Puts nonsense somewhere into the tree. */
static void spoil(struct rf_arena *a, struct rf_prng *r, struct rf_json *v)
{
	size_t n = rf_json_len(v), i = n > 0 ? rf_prng_below(r, n) : 0;
	struct rf_json **at = NULL;

	if (n == 0)
		return;
	at = v->type == RF_JSON_ARRAY ? &v->items[i] : &v->members[i].value;
	if (rf_json_len(*at) == 0 || rf_prng_below(r, 6) == 0)
		*at = nonsense(a, r);
	else
		spoil(a, r, *at);
}

static void nonsense_is_judged_too_and_a_refusal_has_a_reason(void **state)
{
	struct rf_prng r = { 0 };
	bool ok = false;

	rf_rand_bytes(&r.state, sizeof(r.state));
	r.state |= 1;
	printf("seed %llu\n", (unsigned long long)r.state);
	for (int i = 0; i < 20000; i++) {
		rf_auto(arena) a = RF_ARENA_INIT;
		rf_auto(buf) why = RF_BUF_INIT;
		struct rf_json *pod = rf_json_make(
			&a,
			POD("'volumes':[{'name':'v','emptyDir':{}}],'hostUsers':false,'"
			    "securityContext':{'sysctls':["
			    "{'name':'x'}],'seLinuxOptions':{'type':'t'}},'containers':"
			    "[" GOOD_CONTAINER ",{'name':'d','ports':[{'hostPort':1}],'lifecycle':{"
			    "'preStop':{'httpGet':"
			    "{'host':'h'}}},'securityContext':{'capabilities':{'add':['X']},"
			    "'appArmorProfile':{'type':'U'},'windowsOptions':{'hostProcess':true}}}"
			    "]"));

		for (uint64_t k = 1 + rf_prng_below(&r, 4); k > 0; k--)
			spoil(&a, &r, pod);
		ok = rf_ps_judge(
			&(struct rf_ps_rules){ .level = RF_PS_RESTRICTED,
					       .version = { true, (int64_t)rf_prng_below(&r, 40) },
					       .user_namespaces = true },
			pod, &why);
		assert_int_equal(ok, why.n == 0);
	}
}

static void levels_have_names(void **state)
{
	enum rf_ps_level level = RF_PS_PRIVILEGED;

	assert_true(rf_ps_level_parse(RF_LIT("restricted"), &level));
	assert_int_equal(level, RF_PS_RESTRICTED);
	assert_string_equal(rf_ps_level_name(level), "restricted");
	assert_false(rf_ps_level_parse(RF_LIT("Restricted"), &level));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_gives_a_pod_the_machine_is_refused_at_both_levels),
		cmocka_unit_test(profiles_that_do_not_confine_are_refused),
		cmocka_unit_test(restricted_asks_for_more),
		cmocka_unit_test(a_capability_is_named_by_the_level_that_refuses_it),
		cmocka_unit_test(init_and_ephemeral_containers_are_judged_too),
		cmocka_unit_test(a_value_of_the_wrong_type_hides_nothing),
		cmocka_unit_test(null_is_the_same_as_absent),
		cmocka_unit_test(a_user_namespace_on_paper_relaxes_nothing),
		cmocka_unit_test(sysctls_were_allowed_one_by_one),
		cmocka_unit_test(a_baseline_check_holds_from_its_version_on),
		cmocka_unit_test(what_was_always_refused_is_refused_by_the_first_version),
		cmocka_unit_test(restricted_grew_check_by_check),
		cmocka_unit_test(restricted_takes_over_from_the_baseline),
		cmocka_unit_test(seccomp_was_an_annotation_before_it_was_a_field),
		cmocka_unit_test(windows_pods_need_no_linux_fields_since_v1_25),
		cmocka_unit_test(user_namespaces_relax_since_v1_35),
		cmocka_unit_test(what_is_newer_than_known_is_judged_as_the_newest),
		cmocka_unit_test(versions_are_written_as_kubernetes_writes_them),
		cmocka_unit_test(labels_choose_level_and_version),
		cmocka_unit_test(workloads_are_judged_by_the_pod_they_make),
		cmocka_unit_test(many_values_are_sorted_and_told_once),
		cmocka_unit_test(nonsense_is_judged_too_and_a_refusal_has_a_reason),
		cmocka_unit_test(levels_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
