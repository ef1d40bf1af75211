/* What `ringfence why` and `ringfence queue` make of the API's objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cli/explain.h"

static void is(struct rf_arena *a, const struct rf_json *v, const char *wanted)
{
	struct rf_str want = rf_json_text_of(a, rf_json_make(a, wanted)), got = rf_json_text_of(a, v);

	assert_string_equal(rf_arena_cstr(a, got), rf_arena_cstr(a, want));
}

static void no_terminal_obeys_what_a_tenant_wrote(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str s = rf_explain_plain(&a, RF_LIT("Set\033[2J/\302\233web\177\n \303\251"));

	assert_string_equal(rf_arena_cstr(&a, s), "Set [2J/  web   \303\251");
	assert_int_equal(rf_explain_plain(&a, RF_STR_EMPTY).n, 0);
}

/* --- reasons --------------------------------------------------------------------------------------- */

static void a_reason_is_taken_apart(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	static const struct {
		const char *text, *parts;
	} rows[] = {
		{ "needs 2 cards and 1 is free; resource=cards level=org/blue need=2 have=1 help=wait-for-own-work",
		  "{'message':'needs 2 cards and 1 is free','resource':'cards','level':'org/blue','need':2,'have':1,'help':"
		  "'wait for own work'}" },
		{ "reason=limit resource=share-bytes level=(cluster) need=9 have=0 by=own help=lower the ask, or wait",
		  "{'cause':'limit','resource':'share-bytes','level':'(cluster)','need':9,'have':0,'by':'own','help':"
		  "'lower the ask, or wait'}" },
		{ "no node has room", "{'message':'no node has room'}" },
		{ "x=1 needs=2 unneed=3", "{'message':'x=1 needs=2 unneed=3'}" },
		{ "need=", "{'need':''}" },
		{ "short: need=10Gi have=", "{'message':'short','need':'10Gi','have':''}" },
		{ "", "{}" },
	};

	for (size_t i = 0; i < RF_COUNT(rows); i++) {
		struct rf_json *to = rf_json_object(&a);

		rf_explain_reason(&a, to, rf_str(rows[i].text));
		is(&a, to, rows[i].parts);
	}
}

/* --- pods ------------------------------------------------------------------------------------------- */

static struct rf_json *pod(struct rf_arena *a, const char *metadata, const char *spec, const char *status)
{
	return rf_json_make(
		a,
		rf_arena_printf(a, "{'metadata':{'name':'p','namespace':'blue','uid':'u'%s},'spec':{%s},'status':{%s}}", metadata,
				spec, status)
			.p);
}

#define WAITS(message)                                                                                              \
	"'phase':'Pending','conditions':[{'type':'PodScheduled','status':'False','reason':'Unschedulable','message':'" message \
	"'}]"

static void a_waiting_pod_has_one_reason(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	is(&a,
	   rf_explain_pod(&a, pod(&a, ",'labels':{'ringfence.io/queue':'night'}", "",
				  WAITS("2 cards short; resource=cards level=blue need=2 have=0 help=ask-for-less")),
			  NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'Unschedulable','message':'2 cards short','resource':"
	   "'cards','level':'blue','need':2,'have':0,'help':'ask for less','queue':'night'}");
}

static void without_a_condition_the_last_event_speaks(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *events = rf_json_make(
		&a,
		"[{'involvedObject':{'uid':'u'},'reason':'FailedScheduling','message':'newer need=1 have=0',"
		"'lastTimestamp':'2026-11-15T04:31:56Z'},{'involvedObject':{'uid':'u'},'reason':'FailedScheduling',"
		"'message':'older','lastTimestamp':'2026-11-15T04:31:55Z'},{'involvedObject':{'uid':'another'},'reason':"
		"'FailedScheduling','message':'not ours','lastTimestamp':'2027-01-01T00:00:00Z'}]");

	is(&a, rf_explain_pod(&a, pod(&a, "", "", "'phase':'Pending'"), events, NULL),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'Unschedulable','message':'newer','need':1,'have':0}");
}

static void a_pod_nobody_spoke_of_says_so(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	is(&a, rf_explain_pod(&a, pod(&a, "", "", "'phase':'Pending'"), NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'NotLookedAt','message':'the scheduler has said nothing "
	   "about it yet','help':'ask again in a moment; if it stays so, see that ringfence control runs'}");
	is(&a, rf_explain_pod(&a, pod(&a, "", "'schedulerName':'volcano'", "'phase':'Pending'"), NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'OtherScheduler','message':'is to be placed by scheduler "
	   "volcano, not by ringfence','help':'leave spec.schedulerName out, or look at that scheduler'}");
	is(&a,
	   rf_explain_pod(&a, pod(&a, "", "'schedulingGates':[{'name':'a/b'},{'name':'c/d'}]", "'phase':'Pending'"), NULL,
			  NULL),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'SchedulingGated','message':'waits for "
	   "spec.schedulingGates to be removed: a/b, c/d','help':'whoever set the gate removes it'}");
}

#define GANG ",'labels':{'ringfence.io/pod-group':'ring'}"

static void a_gang_is_told_with_its_pod(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *group = rf_json_make(&a, "{'spec':{'minMember':4},'status':{'phase':'Pending','scheduled':1,'message':"
						 "'4 places needed need=4 have=1'}}");

	is(&a, rf_explain_pod(&a, pod(&a, GANG, "", "'phase':'Pending'"), NULL, group),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'Unschedulable','message':'4 places needed','need':4,"
	   "'have':1,'gang':{'name':'ring','phase':'Pending','minMember':4,'scheduled':1}}");
	is(&a, rf_explain_pod(&a, pod(&a, GANG, "", WAITS("of the pod have=2")), NULL, group),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'Unschedulable','message':'of the pod','have':2,'gang':{"
	   "'name':'ring','phase':'Pending','minMember':4,'scheduled':1}}");
	is(&a, rf_explain_pod(&a, pod(&a, GANG, "", WAITS("x")), NULL, rf_json_null(&a)),
	   "{'pod':'p','namespace':'blue','state':'waiting','reason':'NoPodGroup','message':'is of PodGroup ring, which does "
	   "not exist','help':'create the PodGroup, or remove the label ringfence.io/pod-group','gang':{'name':'ring'}}");
	is(&a, rf_explain_pod(&a, pod(&a, GANG, "'nodeName':'n1'", "'phase':'Running'"), NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'running','node':'n1','reason':'Running','message':'runs on node n1','gang':{"
	   "'name':'ring'}}");
}

static void a_pod_with_a_place_says_where_and_how_it_is(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;

	is(&a, rf_explain_pod(&a, pod(&a, "", "'nodeName':'n1'", "'phase':'Pending'"), NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'starting','node':'n1','reason':'Starting','message':'has its place on node "
	   "n1 and is being started'}");
	is(&a,
	   rf_explain_pod(&a,
			  pod(&a, "", "'nodeName':'n1'",
			      "'phase':'Pending','containerStatuses':[{'name':'c','state':{'waiting':{'reason':"
			      "'ErrImagePull','message':'no image nosuch'}}}]"),
			  NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'starting','node':'n1','reason':'ErrImagePull','message':'container c: no "
	   "image nosuch'}");
	is(&a,
	   rf_explain_pod(&a,
			  pod(&a, "", "'nodeName':'n1'",
			      "'phase':'Failed','containerStatuses':[{'name':'ok','state':{'terminated':{'reason':'Completed',"
			      "'exitCode':0}}},{'name':'c','state':{'terminated':{'reason':'Error','exitCode':3}}}]"),
			  NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'ended','node':'n1','reason':'Error','message':'container c: exit code 3'}");
	is(&a, rf_explain_pod(&a, pod(&a, "", "'nodeName':'n1'", "'phase':'Failed','reason':'Evicted','message':'for others'"),
			      NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'ended','node':'n1','reason':'Evicted','message':'for others'}");
	is(&a, rf_explain_pod(&a, pod(&a, "", "'nodeName':'n1'", "'phase':'Succeeded'"), NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'ended','node':'n1','reason':'Succeeded','message':'has ended'}");
	is(&a,
	   rf_explain_pod(&a, pod(&a, ",'deletionTimestamp':'2026-11-15T04:31:55Z'", "'nodeName':'n1'", "'phase':'Running'"),
			  NULL, NULL),
	   "{'pod':'p','namespace':'blue','state':'going','node':'n1','reason':'Terminating','message':'is being deleted'}");
}

static void all_that_is_said_can_be_had(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *events = rf_json_make(
		&a, "[{'involvedObject':{'uid':'u'},'reason':'A','message':'m','source':{'component':'x'}},{'involvedObject':{"
		    "'uid':'u'},'reason':'B','message':'n','reportingComponent':'y'},{'involvedObject':{'uid':'v'}}]");

	is(&a, rf_explain_pod_all(&a, pod(&a, "", "", WAITS("w")), events),
	   "[{'from':'pod','reason':'Pending','message':''},{'from':'PodScheduled','reason':'Unschedulable','message':'w'},{"
	   "'from':'x','reason':'A','message':'m'},{'from':'y','reason':'B','message':'n'}]");
}

/* --- queues ------------------------------------------------------------------------------------------ */

static const char TREE[] =
	"[{'metadata':{'name':'green'},'spec':{'parent':'org','tenant':'green','weight':2,'resources':[{'name':'cards',"
	"'guaranteed':2,'limit':8}]},'status':{'pending':3,'running':1,'usage':4000,'resources':[{'name':'cards','used':1,"
	"'guaranteed':2,'fair':4,'wanted':3}]}},"
	"{'metadata':{'name':'org'},'spec':{},'status':{'usage':9000}},"
	"{'metadata':{'name':'blue'},'spec':{'parent':'org','tenant':'blue'},'status':{'pending':1,'running':4,'usage':100,"
	"'resources':[{'name':'cards','used':4,'guaranteed':2,'fair':4,'limit':9223372036854775807,'wanted':1},{'name':"
	"'share-bytes','used':0,'guaranteed':0,'fair':0,'limit':0,'wanted':0}]}},"
	"{'metadata':{'name':'alone','labels':{'ringfence.io/tenant':'alone'}},'spec':{'weight':1,'resources':[{'name':"
	"'share-bytes','limit':'20Gi'}]},'status':{'message':'no such thing'}},"
	"{'metadata':{'name':'amber'},'spec':{'parent':'org','tenant':'amber'},'status':{'pending':1,'usage':3000}}]";

static void queues_are_a_tree_with_turns_and_debts(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *all = rf_explain_queues(&a, rf_json_make(&a, TREE));

	/* green 4000/2 before amber 3000/1; blue has used least and owes two cards. */
	is(&a, all,
	   "[{'name':'alone','path':'alone','depth':0,'tenant':'alone','weight':1,'pending':0,'running':0,'usage':0,'message':"
	   "'no such thing','resources':[{'name':'share-bytes','limit':21474836480}]},"
	   "{'name':'org','path':'org','depth':0,'tenant':'','weight':1,'pending':0,'running':0,'usage':9000,'position':1,"
	   "'resources':[]},"
	   "{'name':'amber','path':'org/amber','depth':1,'tenant':'amber','weight':1,'pending':1,'running':0,'usage':3000,"
	   "'position':2,'resources':[]},"
	   "{'name':'blue','path':'org/blue','depth':1,'tenant':'blue','weight':1,'pending':1,'running':4,'usage':100,"
	   "'position':3,'resources':[{'name':'cards','guaranteed':2,'fair':4,'used':4,'debt':2,'wanted':1},{'name':"
	   "'share-bytes','guaranteed':0,'fair':0,'limit':0,'used':0,'debt':0,'wanted':0}]},"
	   "{'name':'green','path':'org/green','depth':1,'tenant':'green','weight':2,'pending':3,'running':1,'usage':4000,"
	   "'position':1,'resources':[{'name':'cards','guaranteed':2,'fair':4,'limit':8,'used':1,'debt':0,'wanted':3}]}]");
	assert_int_equal(rf_json_len(rf_explain_queues_below(&a, all, RF_LIT("org"))), 4);
	assert_int_equal(rf_json_len(rf_explain_queues_below(&a, all, RF_LIT("blue"))), 1);
	assert_int_equal(rf_json_len(rf_explain_queues_below(&a, all, RF_LIT("or"))), 0);
}

static void a_table_has_a_row_per_queue_and_resource_in_use(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *rows = rf_explain_queue_rows(&a, rf_explain_queues(&a, rf_json_make(&a, TREE)));

	is(&a, rows,
	   "[{'queue':'alone','weight':1,'pending':0,'running':0,'usage':'0s','resource':'share-bytes','limit':'20Gi'},"
	   "{'queue':'org','weight':1,'pending':0,'running':0,'usage':'9s','position':1},"
	   "{'queue':'  amber','weight':1,'pending':1,'running':0,'usage':'3s','position':2},"
	   "{'queue':'  blue','weight':1,'pending':1,'running':4,'usage':'0s','position':3,'resource':'cards','guaranteed':2,"
	   "'fair':4,'used':4,'debt':2,'wanted':1},"
	   "{'queue':'  green','weight':2,'pending':3,'running':1,'usage':'4s','position':1,'resource':'cards','guaranteed':2,"
	   "'fair':4,'limit':8,'used':1,'debt':0,'wanted':3}]");
	rows = rf_explain_queue_rows(
		&a, rf_explain_queues(&a, rf_json_make(&a, "[{'metadata':{'name':'q'},'status':{'usage':4000000,'resources':[{"
							   "'name':'cards','used':1},{'name':'memory','used':1048576},{'name':'cpu','used':1500,"
							   "'wanted':2000}]},'spec':{'resources':[{'name':'cpu','limit':4}]}}]")));
	is(&a, rows,
	   "[{'queue':'q','weight':1,'pending':0,'running':0,'usage':'1h06m','resource':'cards','used':1},{'queue':' ',"
	   "'weight':' ','pending':' ','running':' ','usage':' ','position':' ','resource':'memory','used':'1Mi'},"
	   "{'queue':' ','weight':' ','pending':' ','running':' ','usage':' ','position':' ','resource':'cpu','limit':'4',"
	   "'used':'1500m','wanted':'2'}]");
}

static void a_tree_that_is_none_does_no_harm(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *many = rf_json_array(&a);
	const struct rf_json *all = rf_explain_queues(
		&a, rf_json_make(&a, "[{'metadata':{'name':'a'},'spec':{'parent':'b'}},{'metadata':{'name':'b'},'spec':{'parent':"
				     "'a'}},{'metadata':{'name':'c'},'spec':{'parent':'nosuch','weight':0}},{},{'metadata':{"
				     "'name':'d'},'spec':{'parent':'d'},'status':{'usage':-5,'resources':[{},3]}}]"));

	assert_int_equal(rf_json_len(all), 5);
	for (size_t i = 0; i < rf_json_len(all); i++)
		assert_int_equal(rf_json_int(rf_json_at(rf_json_item(all, i), "depth"), -1), 0);
	assert_int_equal(rf_json_len(rf_explain_queue_rows(&a, all)), 5);
	for (int i = 0; i < 40; i++) /* deeper than a tree may be */
		rf_json_push(&a, many,
			     rf_json_make(&a, "{'metadata':{'name':%S},'spec':{'parent':%S}}", rf_arena_printf(&a, "q%d", i),
					  rf_arena_printf(&a, "q%d", i + 1)));
	assert_int_equal(rf_json_len(rf_explain_queues(&a, many)), 40);
	assert_int_equal(rf_json_len(rf_explain_queues(&a, rf_json_array(&a))), 0);
	assert_int_equal(rf_json_len(rf_explain_queues(&a, NULL)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_terminal_obeys_what_a_tenant_wrote),
		cmocka_unit_test(a_reason_is_taken_apart),
		cmocka_unit_test(a_waiting_pod_has_one_reason),
		cmocka_unit_test(without_a_condition_the_last_event_speaks),
		cmocka_unit_test(a_pod_nobody_spoke_of_says_so),
		cmocka_unit_test(a_gang_is_told_with_its_pod),
		cmocka_unit_test(a_pod_with_a_place_says_where_and_how_it_is),
		cmocka_unit_test(all_that_is_said_can_be_had),
		cmocka_unit_test(queues_are_a_tree_with_turns_and_debts),
		cmocka_unit_test(a_table_has_a_row_per_queue_and_resource_in_use),
		cmocka_unit_test(a_tree_that_is_none_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
