/* Groups of other schedulers: ours is made from them and kept as they say, and their pods run together. */
#include "control/test_placing_world.h"
#include "tenant/foreign.h"

#define VOLCANO "scheduling.volcano.sh/v1beta1"
#define X_K8S "scheduling.x-k8s.io/v1alpha1"

static int set_up_foreign(void **state)
{
	struct rf_foreign f = { 0 };

	assert_int_equal(rf_foreign_parse(RF_LIT("volcano,x-k8s"), RF_STR_EMPTY, &f, NULL), 0);
	rf_foreign_set(&f);
	return set_up(state);
}

static int tear_down_foreign(void **state)
{
	rf_foreign_set(&(struct rf_foreign){ 0 });
	return tear_down(state);
}

static struct rf_json *foreign(struct world *w, const char *version, const char *uid, const char *spec)
{
	/* It was told how it fares: that is in test_adopt.c. */
	return rf_json_make(&w->a, "{'apiVersion':%s,'kind':'PodGroup','metadata':{'name':'train','namespace':'red','uid':%s},"
				   "'spec':%j,'status':{'phase':%s}}",
			    version, uid, rf_json_make(&w->a, spec), strcmp(version, VOLCANO) == 0 ? "Inqueue" : "Scheduled");
}

static struct rf_adopt adopter(struct world *w)
{
	return (struct rf_adopt){ .hands = &w->p.hands, .cluster = &w->p.cluster };
}

static int adopt(struct rf_adopt *d, const struct rf_json *group)
{
	return rf_adopt_group(d, group, &(struct rf_err)RF_ERR_INIT);
}

static size_t said(const struct world *w, const char *line)
{
	size_t n = 0;

	for (size_t i = 0; i < w->log.n; i++)
		n += strcmp(w->log.at[i], line) == 0;
	return n;
}

static void a_foreign_group_becomes_ours_and_is_kept_as_it_says(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);
	const struct rf_json *ours = NULL;
	char *at = text(w, GROUP, "red", "train");

	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':3,'queue':'red'}")), 0);
	ours = get(w, at);
	assert_int_equal(rf_json_int(rf_json_at(ours, "spec", "minMember"), -1), 3);
	assert_true(rf_str_is(rf_json_str_at(ours, "spec", "queue"), "red"));
	assert_true(rf_str_is(rf_json_str_at(rf_json_item(rf_json_at(ours, "metadata", "ownerReferences"), 0), "uid"), "u1"));
	deliver(w);
	w->writes = 0;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':3,'queue':'red'}")), 0);
	assert_int_equal(w->writes, 0);
	/* The spec of a PodGroup cannot be changed. */
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':5,'queue':'default'}")), 0);
	assert_null(get(w, at));
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':5,'queue':'default'}")), 0);
	deliver(w);
	ours = get(w, at);
	assert_int_equal(rf_json_int(rf_json_at(ours, "spec", "minMember"), -1), 5);
	assert_null(rf_json_at(ours, "spec", "queue"));
	assert_int_equal(said(w, "event NotAdopted train"), 0);
	rf_adopt_done(&d);
}

static void pods_of_a_foreign_group_run_together(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);

	add_node(w, "n1", 4);
	add_tenant(w, "red", "{'quota':{'gpus':8}}");
	for (int i = 0; i < 3; i++)
		add_pod(w, "red", text(w, "p%d", i), 1, "train");
	run(w);
	assert_int_equal(rf_json_str_at(get(w, text(w, POD, "red", "p0")), "spec", "nodeName").n, 0);
	assert_int_equal(adopt(&d, foreign(w, X_K8S, "u1", "{'minMember':3}")), 0);
	run(w);
	for (int i = 0; i < 3; i++)
		assert_true(rf_str_is(rf_json_str_at(get(w, text(w, POD, "red", text(w, "p%d", i))), "spec", "nodeName"), "n1"));
	assert_true(rf_json_is_true(rf_json_at(get(w, text(w, GROUP, "red", "train")), "status", "started")));
	/* What runs by it is not called half a gang later. */
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, X_K8S, "u1", "{'minMember':4}")), 0);
	assert_int_equal(rf_json_int(rf_json_at(get(w, text(w, GROUP, "red", "train")), "spec", "minMember"), -1), 3);
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	rf_adopt_done(&d);
}

static void what_is_wrong_with_a_foreign_group_is_said_once(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);
	struct rf_json *bad = foreign(w, VOLCANO, "u1", "{'minMember':2,'queue':'blue'}");

	add_tenant(w, "red", "{}");
	add_tenant(w, "blue", "{}");
	deliver(w);
	for (int i = 0; i < 2; i++)
		assert_int_equal(adopt(&d, bad), 0);
	assert_null(get(w, text(w, GROUP, "red", "train"))); /* another tenant's queue */
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':-1}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 2);
	rf_adopt_forget(&d, bad);
	assert_int_equal(adopt(&d, bad), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 3);
	/* The server's own no is the group's trouble too; its silence is not. */
	w->at = w->writes + 1;
	w->fault = FAULT_REFUSED;
	w->code = RF_FORBIDDEN;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u2", "{}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 4);
	w->at = w->writes + 1;
	w->fault = FAULT_LOST;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u2", "{}")), -RF_TIMEOUT);
	assert_int_equal(said(w, "event NotAdopted train"), 4);
	w->muted = false;
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u2", "{}")), 0);
	assert_non_null(get(w, text(w, GROUP, "red", "train")));
	rf_adopt_done(&d);
}

static void groups_that_are_not_made_from_this_one_are_left_alone(void **state)
{
	struct world *w = *state;
	struct rf_adopt d = adopter(w);
	char *at = text(w, GROUP, "red", "train");

	/* A namespace that is nobody's, and one nobody heard of. */
	put(w, "/api/v1/namespaces/red", rf_json_make(&w->a, "{'kind':'Namespace','metadata':{'name':'red'}}"));
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{}")), 0);
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{}")), 0);
	assert_null(get(w, at));
	/* One that its owner wrote. */
	add_tenant(w, "red", "{}");
	put(w, at, rf_json_make(&w->a, "{'kind':'PodGroup','metadata':{'name':'train','namespace':'red','uid':'g'},'spec':"
				       "{'minMember':7}}"));
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':2}")), 0);
	assert_int_equal(rf_json_int(rf_json_at(get(w, at), "spec", "minMember"), -1), 7);
	drop(w, at);
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u1", "{'minMember':2}")), 0);
	deliver(w);
	/* One of the same name: of another kind it is in the way, of before it goes soon. */
	assert_int_equal(adopt(&d, foreign(w, X_K8S, "u2", "{'minMember':4}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u3", "{'minMember':4}")), 0);
	assert_int_equal(said(w, "event NotAdopted train"), 1);
	assert_int_equal(rf_json_int(rf_json_at(get(w, at), "spec", "minMember"), -1), 2);
	/* A kind whose habit is off, and one that goes. */
	drop(w, at);
	deliver(w);
	assert_int_equal(adopt(&d, foreign(w, "scheduling.run.ai/v2alpha2", "u4", "{}")), 0);
	rf_foreign_set(&(struct rf_foreign){ .habits = RF_HABIT_X_K8S });
	assert_int_equal(adopt(&d, foreign(w, VOLCANO, "u4", "{}")), 0);
	assert_null(get(w, at));
	rf_adopt_done(&d);
}

#define FOREIGN(f) cmocka_unit_test_setup_teardown(f, set_up_foreign, tear_down_foreign)

int main(void)
{
	const struct CMUnitTest tests[] = {
		FOREIGN(a_foreign_group_becomes_ours_and_is_kept_as_it_says),
		FOREIGN(pods_of_a_foreign_group_run_together),
		FOREIGN(what_is_wrong_with_a_foreign_group_is_said_once),
		FOREIGN(groups_that_are_not_made_from_this_one_are_left_alone),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
