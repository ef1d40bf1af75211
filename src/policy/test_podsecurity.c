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
			POD("'volumes':[{'name':'v','emptyDir':{}}],'securityContext':{'sysctls':["
			    "{'name':'x'}],'seLinuxOptions':{'type':'t'}},'containers':"
			    "[" GOOD_CONTAINER ",{'name':'d','ports':[{'hostPort':1}],'lifecycle':{"
					       "'preStop':{'httpGet':"
			    "{'host':'h'}}},'securityContext':{'capabilities':{'add':['X']},"
			    "'appArmorProfile':{'type':'U'},'windowsOptions':{'hostProcess':true}}}"
			    "]"));

		for (uint64_t k = 1 + rf_prng_below(&r, 4); k > 0; k--)
			spoil(&a, &r, pod);
		ok = rf_ps_check(RF_PS_RESTRICTED, pod, &why);
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
		cmocka_unit_test(nonsense_is_judged_too_and_a_refusal_has_a_reason),
		cmocka_unit_test(levels_have_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
