/* Jobs over time: reading them, the books about them, the core with a cluster around it, logs and plots. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "simulate/simulate.h"

#define HEADER "timestamp,duration,num_gpus,gpu_time,cluster\n"

/* --- reading ---------------------------------------------------------------------------------- */

static void jobs_are_read_in_the_order_of_arrival(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	const char *csv = HEADER "2017-10-09 07:01:55,66.5,1,66.0,b\r\n"
				 "2017-10-09 06:13:03,2951.0,16,2951.0,a\n"
				 "2017-10-09 06:13:03,0,2,0,b\n"
				 "2017-10-09 08:00:00,5,0,0,c\n";

	assert_true(rf_simulate_is_jobs(rf_str(csv)));
	assert_false(rf_simulate_is_jobs(RF_LIT("cpu_milli,memory_mib,num_gpu,gpu_milli\n")));
	assert_int_equal(rf_simulate_read_jobs(&s, rf_str(csv), NULL), 0);
	assert_int_equal(s.jobs.n, 3); /* one asks for no card */
	assert_int_equal(s.jobs.at[0].cards, 16);
	assert_int_equal(s.jobs.at[0].run_ms, 2951000);
	assert_int_equal(s.jobs.at[1].cards, 2);
	assert_int_equal(s.jobs.at[1].run_ms, 1); /* nothing takes no time */
	assert_int_equal(s.jobs.at[2].run_ms, 66500);
	assert_int_equal(s.jobs.at[2].submit_ms - s.jobs.at[0].submit_ms, (48 * 60 + 52) * 1000);
	assert_true(rf_str_is(s.tenants.at[s.jobs.at[0].tenant], "a"));
	assert_true(rf_str_is(s.tenants.at[s.jobs.at[1].tenant], "b"));
}

static void refused(const char *csv, const char *part)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_simulate_read_jobs(&s, rf_str(csv), &err), -RF_INVALID);
	if (strstr(err.msg, part) == NULL)
		fail_msg("\"%s\" does not say \"%s\"", err.msg, part);
}

static void jobs_that_make_no_sense_are_refused(void **state)
{
	refused("timestamp,duration,num_gpus\n", "no column cluster");
	refused(HEADER, "no job asks for a card");
	refused(HEADER "2017-10-09,1,1,1,a\n", "line 2: timestamp is \"2017-10-09\"");
	refused(HEADER "2017-13-09 00:00:00,1,1,1,a\n", "timestamp");
	refused(HEADER "1917-10-09 00:00:00,1,1,1,a\n", "timestamp");
	refused(HEADER "2017-10-09 00:00:00,-1,1,1,a\n", "line 2: duration is \"-1\"");
	refused(HEADER "2017-10-09 00:00:00,1.x,1,1,a\n", "duration");
	refused(HEADER "2017-10-09 00:00:00,99999999999999,1,1,a\n", "duration");
	refused(HEADER "2017-10-09 00:00:00,1,70000,1,a\n", "line 2: num_gpus is \"70000\"");
	refused(HEADER "2017-10-09 00:00:00,1,1,1,\n", "line 2: cluster");
	refused(HEADER "2017-10-09 00:00:00,1,1,1\n", "line 2 has 4 fields");
}

static void machines_need_no_file(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	static const char *const BAD[] = { "", "8", "x8", "0x8", "8x0", "8x65", "100001x1", "axb", "1:x", "-1x8", "8x8x", "1:nosuchx8" };
	struct rf_err err = RF_ERR_INIT;

	assert_int_equal(rf_simulate_add_nodes(&s, RF_LIT("2x8"), NULL), 0);
	assert_int_equal(rf_simulate_add_nodes(&s, RF_LIT("1:h100x4"), NULL), 0);
	assert_int_equal(s.nodes.n, 3);
	assert_int_equal(s.nodes.at[1].cards, 8);
	assert_int_equal(s.nodes.at[2].cards, 4);
	assert_true(rf_str_is(s.models[s.nodes.at[2].model], "h100"));
	for (size_t i = 0; i < RF_COUNT(BAD); i++)
		if (rf_simulate_add_nodes(&s, rf_str(BAD[i]), NULL) != -RF_INVALID)
			fail_msg("%s was taken", BAD[i]);
	assert_int_equal(s.nodes.n, 3);
	assert_int_equal(rf_simulate_add_nodes(&s, RF_LIT("1:nosuchx8"), &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "no card is called \"nosuch\"; there are "));
	assert_non_null(strstr(err.msg, "H100"));
	s.models[s.n_models++] = RF_LIT("ACME 9000"); /* a machine has one */
	assert_int_equal(rf_simulate_add_nodes(&s, RF_LIT("1:acme-9000x8"), NULL), 0);
	assert_true(rf_simulate_is_nodes(RF_LIT("48x8")));
	assert_true(rf_simulate_is_nodes(RF_LIT("10:h100x8")));
	assert_false(rf_simulate_is_nodes(RF_LIT("nodes.csv")));
	assert_false(rf_simulate_is_nodes(RF_LIT("2x8.csv")));
}

static void changes_are_read(void **state)
{
	struct rf_simulate_changes c;

	assert_int_equal(rf_simulate_changes_parse(RF_LIT("nodes+=10:h100x8, weight:a=3,guaranteed:a:cards/h100=16,"
							  "limit:b:cards=0,reclaim=fair,half-life=24"), &c, NULL), 0);
	assert_int_equal(c.n, 6);
	assert_int_equal(c.at[0].kind, RF_SIMULATE_NODES);
	assert_true(rf_str_is(c.at[0].nodes, "10:h100x8"));
	assert_true(rf_str_is(c.at[1].tenant, "a"));
	assert_int_equal(c.at[1].value, 3);
	assert_int_equal(c.at[2].kind, RF_SIMULATE_GUARANTEED);
	assert_true(rf_str_is(c.at[2].resource, "cards/h100"));
	assert_int_equal(c.at[3].value, 0);
	assert_int_equal(c.at[4].value, RF_RECLAIM_FAIR);
}

static void a_change_that_makes_no_sense_says_what_is_allowed(void **state)
{
	static const char *const BAD[] = { "", "weight", "weight=3", "weight:a", "weight:a=0", "weight:a=x", "weight:a:b=3",
					   "guaranteed:a=3", "guaranteed:a:=3", "guaranteed::cards=3", "limit:a:cards=-1",
					   "nodes=3", "reclaim=all", "reclaim:a=fair", "colour=red", "weight:a=1,",
					   "half-life=1000000" };

	for (size_t i = 0; i < RF_COUNT(BAD); i++) {
		struct rf_simulate_changes c;
		struct rf_err err = RF_ERR_INIT;

		if (rf_simulate_changes_parse(rf_str(BAD[i]), &c, &err) != -RF_BAD_REQUEST)
			fail_msg("%s was taken", BAD[i]);
		assert_true(strstr(err.msg, "nodes+=") != NULL || strstr(err.msg, "whole number from") != NULL);
	}
}

/* --- books ------------------------------------------------------------------------------------ */

static void see(struct rf_tally *b, const char *line)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_log_event e;
	struct rf_err err = RF_ERR_INIT;

	if (rf_log_read(&a, rf_str(line), &e, &err) < 0 || rf_tally_see(b, &e, &err) < 0)
		fail_msg("%s: %s", line, err.msg);
}

/* Two tenants, a machine of two cards. */
static void open_books(struct rf_tally *b)
{
	rf_tally_init(b);
	see(b, "{\"t\":0,\"put\":\"node\",\"name\":\"n\"}");
	see(b, "{\"t\":0,\"put\":\"devices\",\"name\":\"n\",\"devices\":[{\"name\":\"g0\"},{\"name\":\"g1\"},"
	       "{\"name\":\"g2\",\"fault\":\"broken\"}]}");
	see(b, "{\"t\":0,\"put\":\"tenant\",\"name\":\"a\"}");
	see(b, "{\"t\":0,\"put\":\"tenant\",\"name\":\"b\"}");
	see(b, "{\"t\":0,\"put\":\"namespace\",\"name\":\"a\",\"tenant\":\"a\"}");
	see(b, "{\"t\":0,\"put\":\"namespace\",\"name\":\"b\",\"tenant\":\"b\"}");
}

static void pod(struct rf_tally *b, int64_t t, const char *ns, const char *name, int cards, const char *more)
{
	char line[256];

	snprintf(line, sizeof(line), "{\"t\":%lld,\"put\":\"pod\",\"uid\":\"%s\",\"ns\":\"%s\",\"name\":\"%s\","
				     "\"containers\":[{\"cards\":%d}]%s}", (long long)t, name, ns, name, cards, more);
	see(b, line);
}

static void on(struct rf_tally *b, int64_t t, const char *what, const char *uid)
{
	char line[128];

	snprintf(line, sizeof(line), strcmp(what, "del") == 0 ? "{\"t\":%lld,\"%s\":\"pod\",\"uid\":\"%s\"}" :
								"{\"t\":%lld,\"%s\":\"%s\"}",
		 (long long)t, what, uid);
	see(b, line);
}

static void books_add_up(void **state)
{
	struct rf_tally b;
	struct rf_tally_stat s;

	open_books(&b);
	pod(&b, 1000, "a", "a1", 1, "");
	on(&b, 1000, "bind", "a1");
	pod(&b, 2000, "b", "b1", 2, ""); /* does not fit beside a1 */
	pod(&b, 3000, "a", "a2", 1, ""); /* fits, and is started late */
	on(&b, 5000, "bind", "a2");
	on(&b, 7000, "del", "a1");
	on(&b, 7000, "del", "a2");
	on(&b, 7000, "bind", "b1");
	on(&b, 9000, "del", "b1");
	assert_int_equal(b.capacity, 2000);
	assert_true(b.capacity_area == 8000 * 2000);
	assert_true(b.used_area == (rf_tally_area)4000 * 1000 + 2000 * 2000 + 2000 * 2000);
	assert_true(b.idle_area == (rf_tally_area)2000 * 1000); /* from 3 s to 5 s */
	assert_true(b.tenants.at[0].area == (rf_tally_area)8000 * 1000);
	assert_true(b.tenants.at[1].area == (rf_tally_area)2000 * 2000);
	rf_tally_waits(&b, -1, -1, &s);
	assert_int_equal(s.n, 3);
	assert_int_equal(s.mean, (0 + 2000 + 5000) / 3);
	assert_int_equal(s.p50, 2000);
	assert_int_equal(s.max, 5000);
	rf_tally_waits(&b, RF_TALLY_2_TO_7, -1, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.p99, 5000);
	rf_tally_waits(&b, -1, 0, &s);
	assert_int_equal(s.n, 2);
	assert_int_equal(b.n_jobs, 3);
	assert_int_equal(b.n_ended, 3);
	assert_int_equal(b.n_waiting, 0);
	rf_tally_done(&b);
}

static void a_gang_starts_when_enough_of_it_runs(void **state)
{
	struct rf_tally b;
	struct rf_tally_stat s;

	open_books(&b);
	see(&b, "{\"t\":0,\"put\":\"group\",\"ns\":\"a\",\"name\":\"g\",\"min\":2}");
	pod(&b, 1000, "a", "m0", 1, ",\"group\":\"g\"");
	pod(&b, 1000, "a", "m1", 1, ",\"group\":\"g\"");
	assert_int_equal(b.n_jobs, 1);
	assert_int_equal(b.n_waiting, 1);
	on(&b, 2000, "bind", "m0");
	assert_int_equal(b.n_waiting, 1);
	on(&b, 4000, "bind", "m1");
	assert_int_equal(b.n_waiting, 0);
	rf_tally_waits(&b, RF_TALLY_2_TO_7, -1, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.max, 3000);
	on(&b, 5000, "del", "m0");
	on(&b, 5000, "del", "m1");
	assert_int_equal(b.n_ended, 1);
	rf_tally_done(&b);
}

static void one_that_was_evicted_is_the_same_job_when_it_comes_again(void **state)
{
	struct rf_tally b;
	struct rf_tally_stat s;

	open_books(&b);
	pod(&b, 1000, "a", "p", 1, "");
	on(&b, 2000, "bind", "p");
	on(&b, 3000, "evict", "p");
	on(&b, 4000, "del", "p");
	assert_int_equal(rf_tally_evicted(&b), 1);
	assert_int_equal(b.n_started + b.n_waiting + b.n_withdrawn, 0);
	see(&b, "{\"t\":4000,\"put\":\"pod\",\"uid\":\"p.1\",\"ns\":\"a\",\"name\":\"p\",\"containers\":[{\"cards\":1}]}");
	assert_int_equal(b.n_waiting, 1);
	assert_int_equal(rf_tally_evicted(&b), 0);
	on(&b, 9000, "bind", "p.1");
	on(&b, 10000, "del", "p.1");
	assert_int_equal(b.preemptions, 1);
	assert_int_equal(b.n_jobs, 1);
	assert_int_equal(b.n_started, 1);
	assert_int_equal(b.n_ended, 1);
	rf_tally_waits(&b, -1, -1, &s);
	assert_int_equal(s.n, 1);
	assert_int_equal(s.max, 1000); /* its first wait */
	assert_true(b.used_area == (rf_tally_area)(2000 + 1000) * 1000);
	rf_tally_done(&b);
}

static void withdrawn_gated_and_unknown_pods_are_told_apart(void **state)
{
	struct rf_tally b;

	open_books(&b);
	pod(&b, 1000, "nobodys", "x", 1, "");
	pod(&b, 1000, "a", "cpu", 0, "");
	pod(&b, 1000, "a", "gated", 1, ",\"gated\":true");
	assert_int_equal(b.n_waiting, 0);
	assert_int_equal(b.n_jobs, 0); /* until it may run */
	pod(&b, 2000, "a", "gated", 1, "");
	assert_int_equal(b.n_waiting, 1);
	on(&b, 3000, "del", "gated");
	assert_int_equal(b.n_waiting, 0);
	assert_int_equal(b.n_withdrawn, 1);
	assert_int_equal(b.n_jobs, 1);
	rf_tally_done(&b);
}

/* --- shares ----------------------------------------------------------------------------------- */

#define SECOND ((rf_tally_area)1000 * 1000) /* of a card */

static void share_is(const struct rf_tally *b, size_t tenant, int64_t used, int64_t asked, int64_t fair, int64_t largest)
{
	struct rf_tally_share *s = rf_tally_shares(b);
	const int64_t want[] = { used, asked, fair, largest };
	const rf_tally_area have[] = { s[tenant].used, s[tenant].asked, s[tenant].fair, s[tenant].largest };

	for (size_t i = 0; i < 4; i++)
		if (have[i] != want[i] * SECOND)
			fail_msg("figure %zu of tenant %zu is %.3f, not %lld", i, tenant, (double)have[i] / (double)SECOND,
				 (long long)want[i]);
	free(s);
}

static void figure_is(const struct rf_tally *b, int64_t tenant, const char *key, const char *want)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	const struct rf_json *v = rf_tally_json(b, &a, RF_LIT("x"));
	struct rf_str have;

	v = tenant < 0 ? v : rf_json_item(rf_json_at(v, "tenants"), (size_t)tenant);
	have = rf_json_text_of(&a, rf_json_get(v, rf_str(key)));
	if (!rf_str_is(have, want))
		fail_msg("%s is %.*s, not %s", key, RF_STR(have), want);
}

/* Both want both cards for 100 s; a has them, then b. Somebody comes at `last`. */
static void one_after_the_other(struct rf_tally *b, int64_t last)
{
	open_books(b);
	pod(b, 1000, "a", "a1", 2, "");
	on(b, 1000, "bind", "a1");
	pod(b, 1000, "b", "b1", 2, "");
	if (last == 101)
		pod(b, 101000, "a", "a2", 1, "");
	on(b, 101000, "del", "a1");
	on(b, 101000, "bind", "b1");
	on(b, 201000, "del", "b1");
	if (last == 201)
		pod(b, 201000, "a", "a2", 1, "");
}

static void a_part_that_came_late_is_no_error(void **state)
{
	struct rf_tally b;

	one_after_the_other(&b, 101); /* b has had nothing yet */
	share_is(&b, 0, 200, 200, 100, 200);
	share_is(&b, 1, 0, 200, 100, 200);
	figure_is(&b, 0, "shareError", "100.00");
	figure_is(&b, 1, "shareError", "-100.00");
	figure_is(&b, 1, "shareErrorOfAll", "-50.00");
	figure_is(&b, -1, "shareError", "100.00");
	figure_is(&b, -1, "shareErrorMin", "-100.00");
	figure_is(&b, -1, "shareErrorMax", "100.00");
	figure_is(&b, -1, "shareErrorOfAll", "50.00");
	figure_is(&b, -1, "tenantsOff", "0"); /* a job of 200 cannot be divided */
	rf_tally_done(&b);
	one_after_the_other(&b, 201);
	share_is(&b, 0, 200, 200, 200, 200);
	share_is(&b, 1, 200, 200, 200, 200);
	figure_is(&b, -1, "shareError", "0.00");
	figure_is(&b, -1, "shareErrorOfAll", "0.00");
	figure_is(&b, 0, "shareErrorGpuHours", "0.00");
	rf_tally_done(&b);
}

static void parts_go_by_weight_and_to_nobody_more_than_it_asked_for(void **state)
{
	struct rf_tally b;

	one_after_the_other(&b, 101);
	b.tenants.at[1].weight = 3;
	share_is(&b, 0, 200, 200, 50, 200);
	share_is(&b, 1, 0, 200, 150, 200);
	figure_is(&b, 0, "shareError", "300.00");
	rf_tally_done(&b);
	open_books(&b);
	pod(&b, 1000, "a", "a1", 2, "");
	on(&b, 1000, "bind", "a1");
	pod(&b, 61000, "b", "b1", 1, ""); /* 40 s before the last */
	pod(&b, 91000, "b", "b2", 1, ""); /* and withdrawn after 5 */
	on(&b, 96000, "del", "b2");
	pod(&b, 101000, "b", "b3", 1, "");
	on(&b, 151000, "del", "a1");
	on(&b, 151000, "bind", "b1");
	on(&b, 251000, "del", "b1");
	share_is(&b, 0, 200, 200, 155, 300);
	share_is(&b, 1, 0, 45, 45, 100);
	figure_is(&b, -1, "shareErrorOfAll", "22.50");
	figure_is(&b, -1, "tenantsOff", "0");
	rf_tally_done(&b);
}

/* Ten jobs of ten seconds of one before the first of the other, which is no larger: that is not the jobs' fault. */
static void who_is_off_by_more_than_a_job_is_counted(void **state)
{
	struct rf_tally b;
	char name[8];

	open_books(&b);
	pod(&b, 1000, "b", "b1", 2, "");
	for (int i = 0; i < 10; i++) {
		snprintf(name, sizeof(name), "a%d", i);
		pod(&b, 1000 + i * 10000, "a", name, 2, "");
		on(&b, 1000 + i * 10000, "bind", name);
		on(&b, 11000 + i * 10000, "del", name);
	}
	pod(&b, 101000, "a", "last", 1, "");
	on(&b, 101000, "bind", "b1");
	on(&b, 111000, "del", "b1");
	share_is(&b, 0, 200, 200, 180, 20);
	share_is(&b, 1, 0, 20, 20, 20);
	figure_is(&b, -1, "tenantsOff", "0");
	rf_tally_done(&b);
	open_books(&b);
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		pod(&b, 1000, "b", name, 1, "");
	}
	pod(&b, 1000, "a", "a1", 2, "");
	on(&b, 1000, "bind", "a1");
	pod(&b, 101000, "a", "last", 1, "");
	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof(name), "b%d", i);
		on(&b, 101000, "bind", name);
		on(&b, 131000, "del", name);
	}
	share_is(&b, 0, 200, 200, 110, 260); /* a1 still runs */
	share_is(&b, 1, 0, 90, 90, 30);
	figure_is(&b, -1, "tenantsOff", "1");
	rf_tally_done(&b);
}

/* Who always has more to run is not held to what happens to wait; lost runs count as asked for. */
static void without_end_only_weights_count(void **state)
{
	struct rf_tally b;

	open_books(&b);
	pod(&b, 1000, "a", "p", 2, "");
	on(&b, 1000, "bind", "p");
	on(&b, 31000, "evict", "p");
	on(&b, 31000, "del", "p");
	pod(&b, 31000, "b", "q", 1, "");
	on(&b, 31000, "bind", "q");
	pod(&b, 101000, "b", "r", 1, "");
	share_is(&b, 0, 60, 60, 60, 60);
	share_is(&b, 1, 70, 70, 70, 70);
	b.endless = true;
	share_is(&b, 0, 60, 60, 65, 60);
	share_is(&b, 1, 70, 70, 65, 70);
	figure_is(&b, -1, "shareError", "7.69");
	rf_tally_done(&b);
}

static void a_page_says_who_had_what(void **state)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_tally b;
	struct rf_simulate_run run = { RF_LIT("base"), &b };

	open_books(&b);
	pod(&b, 1000, "a", "a1", 2, "");
	on(&b, 1000, "bind", "a1");
	pod(&b, 1000, "b", "b1", 2, "");
	pod(&b, 3601000, "b", "last", 1, "");
	on(&b, 7201000, "del", "a1");
	rf_simulate_plot(&out, &run, 1, true);
	assert_non_null(strstr(out.p, "<tr><td>a</td><td>1</td><td>2.0</td><td>1.0</td><td>+100.00</td><td>+50.00</td>"
				      "<td>4.0</td></tr>"));
	assert_non_null(strstr(out.p, "<tr><td>b</td><td>1</td><td>0.0</td><td>1.0</td><td>-100.00</td><td>-50.00</td>"
				      "<td>0.0</td></tr>"));
	rf_tally_done(&b);
}

static void nobody_and_no_time_give_no_figure(void **state)
{
	struct rf_tally b;

	rf_tally_init(&b);
	figure_is(&b, -1, "shareError", "null");
	figure_is(&b, -1, "tenantsOff", "0");
	rf_tally_done(&b);
	open_books(&b);
	pod(&b, 1000, "a", "p", 2, "");
	on(&b, 1000, "bind", "p");
	on(&b, 9000, "del", "p");
	figure_is(&b, -1, "shareError", "null"); /* nothing was used before the last one came */
	figure_is(&b, 0, "shareError", "null");
	rf_tally_done(&b);
}

/* --- plots ------------------------------------------------------------------------------------ */

static void names_in_plots_are_text(void **state)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_tally b;
	struct rf_simulate_run run = { RF_LIT("<base>"), &b };

	open_books(&b);
	rf_tally_call(&b, RF_LIT("a"), RF_LIT("</text><script>alert(1)</script>"));
	rf_tally_call(&b, RF_LIT("b"), RF_LIT("\xff\x01\xef\xbf\xbf\"'&\xc3\xbc"));
	pod(&b, 1000, "a", "p", 1, "");
	on(&b, 1000, "bind", "p");
	rf_tally_until(&b, 100000000);
	rf_simulate_plot(&out, &run, 1, true);
	assert_null(strstr(out.p, "<script"));
	assert_null(strstr(out.p, "<base>"));
	assert_non_null(strstr(out.p, "&#60;/text&#62;&#60;scri"));
	assert_non_null(strstr(out.p, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd&#34;&#39;&#38;\xc3\xbc"));
	assert_non_null(strstr(out.p, "</svg>"));
	assert_non_null(strstr(out.p, "<td>-</td><td>-</td>")); /* no shares: there was one job */
	assert_non_null(strstr(out.p, "</html>"));
	rf_buf_clear(&out);
	rf_simulate_plot(&out, &run, 1, false);
	assert_ptr_equal(strstr(out.p, "<svg"), out.p);
	assert_null(strstr(out.p, "nan,"));
	rf_tally_done(&b);
}

static void empty_books_can_be_drawn(void **state)
{
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_tally b;
	struct rf_simulate_run run = { RF_LIT("base"), &b };

	rf_tally_init(&b);
	rf_simulate_plot(&out, &run, 1, true);
	assert_non_null(strstr(out.p, "</html>"));
	assert_null(strstr(out.p, "nan,"));
	rf_tally_done(&b);
}

/* --- playing ---------------------------------------------------------------------------------- */

/* Jobs of three tenants, some of them gangs, more than the machines can take at once. */
static void draw_jobs(struct rf_simulate *s, int n, uint64_t seed)
{
	rf_auto(buf) b = RF_BUF_INIT;
	struct rf_prng r = { seed };
	static const int CARDS[] = { 1, 1, 1, 2, 4, 8, 12, 16 };

	rf_buf_puts(&b, HEADER);
	for (int i = 0; i < n; i++)
		rf_buf_printf(&b, "2017-10-09 %02d:%02d:%02d,%d,%d,0,t%d\n", i * 4 / n, i * 240 / n % 60, i % 60,
			      60 + (int)rf_prng_below(&r, 3000), CARDS[rf_prng_below(&r, RF_COUNT(CARDS))],
			      (int)rf_prng_below(&r, 3));
	assert_int_equal(rf_simulate_read_jobs(s, rf_buf_str(&b), NULL), 0);
	assert_int_equal(rf_simulate_add_nodes(s, RF_LIT("3x8"), NULL), 0);
}

static void add_line(void *ctx, struct rf_str line)
{
	struct rf_buf *log = ctx;

	rf_buf_add(log, line);
	if (line.n == 0 || line.p[line.n - 1] != '\n')
		rf_buf_add_c(log, '\n');
}

static void play(const struct rf_simulate *s, const char *changes, struct rf_buf *log, struct rf_tally *ret)
{
	struct rf_simulate_changes c = { 0 };
	struct rf_simulate_play o = { .clock = rf_clock_system(), .changes = &c, .line = log != NULL ? add_line : NULL,
				      .ctx = log };
	struct rf_err err = RF_ERR_INIT;

	rf_core_config_default(&o.config);
	rf_tally_init(ret);
	if ((changes != NULL && rf_simulate_changes_parse(rf_str(changes), &c, &err) < 0) ||
	    rf_simulate_play(s, &o, ret, &err) < 0)
		fail_msg("%s", err.msg);
}

static struct rf_str figures(struct rf_arena *a, struct rf_tally *b)
{
	b->ns = 0;
	return rf_json_text_of(a, rf_tally_json(b, a, RF_LIT("x")));
}

static void every_job_runs_and_none_beyond_the_cards(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_tally b;
	rf_tally_area asked = 0;

	draw_jobs(&s, 150, 3);
	play(&s, NULL, NULL, &b);
	for (size_t i = 0; i < s.jobs.n; i++)
		asked += (rf_tally_area)s.jobs.at[i].cards * 1000 * s.jobs.at[i].run_ms;
	assert_int_equal(b.n_jobs, 150);
	assert_int_equal(b.n_started, 150);
	assert_int_equal(b.n_ended, 150);
	assert_int_equal(b.preemptions, 0);
	assert_int_equal(b.capacity, 24000);
	assert_true(b.used_area == asked);
	for (size_t i = 0; i < RF_TALLY_BUCKETS; i++)
		assert_true(b.buckets[i].used <= b.buckets[i].capacity * 1.000001);
	rf_tally_done(&b);
}

static void the_same_jobs_give_the_same_figures(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_tally b, c;

	draw_jobs(&s, 150, 5);
	play(&s, NULL, NULL, &b);
	play(&s, NULL, NULL, &c);
	assert_true(rf_str_eq(figures(&a, &b), figures(&a, &c)));
	rf_tally_done(&b);
	rf_tally_done(&c);
}

static void more_machines_make_waits_shorter(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_tally b, c;
	struct rf_tally_stat before, after;

	draw_jobs(&s, 150, 7);
	play(&s, NULL, NULL, &b);
	play(&s, "nodes+=30x8", NULL, &c);
	rf_tally_waits(&b, -1, -1, &before);
	rf_tally_waits(&c, -1, -1, &after);
	assert_int_equal(c.capacity, 33 * 8000);
	assert_true(before.mean > 0);
	assert_int_equal(after.max, 0);
	rf_tally_done(&b);
	rf_tally_done(&c);
}

static double most_used(const struct rf_tally *b, int64_t tenant)
{
	double most = 0;

	for (size_t i = 0; i < RF_TALLY_BUCKETS; i++)
		most = RF_MAX(most, b->tenants.at[tenant].series[i] / (double)b->bucket_ms);
	return most;
}

static void a_weight_and_a_limit_change_who_has_what(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_tally b, c, d;
	struct rf_tally_stat before, favoured;
	int64_t t;

	draw_jobs(&s, 300, 11);
	t = rf_str_is(s.tenants.at[0], "t0") ? 0 : rf_str_is(s.tenants.at[1], "t0") ? 1 : 2;
	play(&s, NULL, NULL, &b);
	play(&s, "weight:t0=1000", NULL, &c);
	play(&s, "limit:t0:cards=16", NULL, &d);
	rf_tally_waits(&b, -1, t, &before);
	rf_tally_waits(&c, -1, t, &favoured);
	assert_int_equal(c.tenants.at[t].weight, 1000);
	assert_true(favoured.mean < before.mean);
	assert_true(most_used(&b, t) > 16001);
	assert_true(most_used(&d, t) > 8000 && most_used(&d, t) <= 16000.5);
	rf_tally_done(&b);
	rf_tally_done(&c);
	rf_tally_done(&d);
}

static void a_change_for_somebody_unknown_is_refused(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_changes c;
	struct rf_simulate_play o = { .clock = rf_clock_system(), .changes = &c };
	struct rf_tally b;
	struct rf_err err = RF_ERR_INIT;

	draw_jobs(&s, 10, 7);
	rf_core_config_default(&o.config);
	rf_tally_init(&b);
	assert_int_equal(rf_simulate_changes_parse(RF_LIT("weight:nobody=3"), &c, NULL), 0);
	assert_int_equal(rf_simulate_play(&s, &o, &b, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "nobody"));
	assert_int_equal(rf_simulate_changes_parse(RF_LIT("guaranteed:t0:bananas=3"), &c, NULL), 0);
	assert_true(rf_simulate_play(&s, &o, &b, &err) < 0);
	assert_non_null(strstr(err.msg, "bananas"));
	rf_tally_done(&b);
}

static void backlogged_tenants_get_equal_shares(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_play o = { .clock = rf_clock_system(), .backlog_ms = INT64_C(30) * 86400000 };
	struct rf_tally b;

	draw_jobs(&s, 60, 13);
	rf_core_config_default(&o.config);
	rf_tally_init(&b);
	assert_int_equal(rf_simulate_play(&s, &o, &b, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		double error = (double)b.tenants.at[i].area * 3 / (double)b.used_area - 1;

		if (error > 0.05 || error < -0.05)
			fail_msg("tenant %zu is off by %.3f", i, error);
	}
	rf_tally_done(&b);
}

/* Cards without machines, and nobody passes: off by no more than what runs. */
static void a_pool_shares_as_well_as_jobs_allow(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_simulate_play o = { .clock = rf_clock_system() };
	struct rf_tally_share *shares;
	struct rf_tally b;
	struct rf_err err = RF_ERR_INIT;

	draw_jobs(&s, 60, 13);
	rf_tally_init(&b);
	assert_int_equal(rf_simulate_pool(&s, &o, &b, &err), -RF_INVALID); /* no backlog */
	rf_tally_done(&b);
	o.backlog_ms = INT64_C(100) * 86400000;
	rf_tally_init(&b);
	assert_int_equal(rf_simulate_pool(&s, &o, &b, &err), 0);
	assert_true(b.used_area > 0 && b.used_area <= b.capacity_area);
	for (size_t i = 0; i < 3; i++) {
		double error = (double)b.tenants.at[i].area * 3 / (double)b.used_area - 1;

		if (error > 0.01 || error < -0.01)
			fail_msg("tenant %zu is off by %.3f", i, error);
	}
	shares = rf_tally_shares(&b);
	for (size_t i = 0; i < 3; i++) {
		assert_true(shares[i].fair == shares[0].fair && shares[i].fair > 0);
		assert_false(rf_tally_share_off(&shares[i]));
	}
	free(shares);
	rf_tally_done(&b);
}

static void names_may_be_anything(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_tally b;

	assert_int_equal(rf_simulate_read_jobs(&s, RF_LIT(HEADER "2017-10-09 00:00:00,100,4,0,<b>&\n"
							  "2017-10-09 00:00:10,100,8,0,tenant-0\n"
							  "2017-10-09 00:00:10,100,8,0,\xff\xfe\n"), NULL), 0);
	assert_int_equal(rf_simulate_add_nodes(&s, RF_LIT("1x8"), NULL), 0);
	play(&s, "weight:<b>&=7", NULL, &b);
	assert_int_equal(b.tenants.n, 3);
	assert_true(rf_str_is(b.tenants.at[0].name, "<b>&"));
	assert_int_equal(b.tenants.at[0].weight, 7);
	assert_true(rf_str_is(b.tenants.at[1].name, "tenant-0"));
	assert_int_equal(b.n_ended, 3);
	rf_tally_done(&b);
}

static void fifo(const struct rf_simulate *s, bool strict, struct rf_tally *ret)
{
	struct rf_simulate_play o = { .clock = rf_clock_system() };

	rf_tally_init(ret);
	assert_int_equal(rf_simulate_fifo(s, &o, strict, ret, NULL), 0);
}

static void who_comes_first_is_served_first(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	struct rf_tally b, c;
	struct rf_tally_stat small, large;

	assert_int_equal(rf_simulate_read_jobs(&s, RF_LIT(HEADER "2017-10-09 00:00:00,100,4,0,a\n"
							  "2017-10-09 00:00:10,100,8,0,a\n"
							  "2017-10-09 00:00:20,200,1,0,b\n"
							  "2017-10-09 00:00:30,200,99,0,b\n"), NULL), 0);
	assert_int_equal(rf_simulate_add_nodes(&s, RF_LIT("1x8"), NULL), 0);
	fifo(&s, false, &b);
	rf_tally_waits(&b, RF_TALLY_1, -1, &small);
	rf_tally_waits(&b, RF_TALLY_8, -1, &large);
	assert_int_equal(small.max, 0); /* passes the large one, */
	assert_int_equal(large.max, 210000); /* which waits until it has ended */
	fifo(&s, true, &c);
	rf_tally_waits(&c, RF_TALLY_1, -1, &small);
	rf_tally_waits(&c, RF_TALLY_8, -1, &large);
	assert_int_equal(large.max, 90000);
	assert_int_equal(small.max, 180000);
	assert_int_equal(c.n_waiting, 1); /* the one that never fits keeps nobody waiting */
	rf_tally_done(&b);
	rf_tally_done(&c);
}

/* --- logs ------------------------------------------------------------------------------------- */

static struct rf_simulate_replay replay(struct rf_arena *a, struct rf_str log, struct rf_tally *b)
{
	struct rf_simulate_replay r;
	struct rf_err err = RF_ERR_INIT;

	rf_tally_init(b);
	if (rf_simulate_replay(log, rf_clock_system(), a, b, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

static void a_log_gives_the_same_decisions_and_figures_again(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) log = RF_BUF_INIT;
	struct rf_tally b, c;
	struct rf_simulate_replay r;

	draw_jobs(&s, 150, 17);
	play(&s, "weight:t1=2", &log, &b);
	r = replay(&a, rf_buf_str(&log), &c);
	if (r.differences > 0)
		fail_msg("line %lld: logged %.*s, decided %.*s", (long long)r.first[0].line, RF_STR(r.first[0].logged),
			 RF_STR(r.first[0].decided));
	assert_true(r.decisions >= b.binds && b.binds >= 150);
	assert_true(rf_str_eq(figures(&a, &b), figures(&a, &c)));
	rf_tally_done(&b);
	rf_tally_done(&c);
}

static void a_decision_that_was_another_is_found(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) log = RF_BUF_INIT;
	struct rf_tally b, c;
	struct rf_simulate_replay r;
	char *bind, *node;

	draw_jobs(&s, 20, 19);
	play(&s, NULL, &log, &b);
	bind = strstr(log.p, "\"bind\":");
	assert_non_null(bind);
	node = strstr(bind, "\"node\":\"n0000");
	assert_non_null(node);
	node[13] = '7';
	r = replay(&a, rf_buf_str(&log), &c);
	assert_int_equal(r.differences, 1);
	assert_true(rf_str_contains(r.first[0].logged, RF_LIT("n00007")));
	assert_false(rf_str_contains(r.first[0].decided, RF_LIT("n00007")));
	assert_true(rf_str_contains(r.first[0].decided, RF_LIT("\"bind\":")));
	rf_tally_done(&b);
	rf_tally_done(&c);
}

static void a_log_that_makes_no_sense_is_refused_with_its_line(void **state)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_tally b;
	struct rf_simulate_replay r;
	struct rf_simulate_play o = { .clock = rf_clock_system() };
	struct rf_err err = RF_ERR_INIT;
	const struct rf_str bad = RF_LIT("{\"t\":1,\"decide\":1}\n\n{\"t\":1,\"put\":\"pot\"}\n");

	rf_tally_init(&b);
	assert_int_equal(rf_simulate_replay(bad, rf_clock_system(), &a, &b, &r, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "line 3"));
	assert_int_equal(rf_simulate_play_log(bad, &o, &b, &err), -RF_INVALID);
	assert_non_null(strstr(err.msg, "line 3"));
	assert_int_equal(rf_simulate_replay(RF_STR_EMPTY, rf_clock_system(), &a, &b, &r, &err), -RF_INVALID);
	rf_tally_done(&b);
}

/* One of two has ended when the other is evicted, which does not wait for it then. */
static void what_is_left_of_a_gang_comes_again(void **state)
{
	static const char DAY[] =
		"{\"t\":0,\"put\":\"node\",\"name\":\"n\",\"cpu_milli\":64000,\"memory\":1000000000000,\"pods\":100,\"ready\":true}\n"
		"{\"t\":0,\"put\":\"devices\",\"name\":\"n\",\"devices\":[{\"name\":\"g0\",\"model\":\"H100\",\"memory\":80},"
		"{\"name\":\"g1\",\"model\":\"H100\",\"memory\":80}]}\n"
		"{\"t\":0,\"put\":\"tenant\",\"name\":\"a\",\"isolation\":\"gpu\",\"quota_gpus\":2}\n"
		"{\"t\":0,\"put\":\"tenant\",\"name\":\"b\",\"isolation\":\"gpu\",\"quota_gpus\":2}\n"
		"{\"t\":0,\"put\":\"queue\",\"name\":\"b\",\"tenant\":\"b\",\"weight\":1,\"quotas\":[{\"resource\":\"cards\",\"guaranteed\":2}]}\n"
		"{\"t\":0,\"put\":\"namespace\",\"name\":\"a\",\"tenant\":\"a\"}\n"
		"{\"t\":0,\"put\":\"namespace\",\"name\":\"b\",\"tenant\":\"b\"}\n"
		"{\"t\":1000,\"put\":\"group\",\"ns\":\"a\",\"name\":\"g\",\"min\":2}\n"
		"{\"t\":1000,\"put\":\"pod\",\"uid\":\"m0\",\"ns\":\"a\",\"name\":\"m0\",\"group\":\"g\",\"containers\":[{\"cards\":1}]}\n"
		"{\"t\":1000,\"put\":\"pod\",\"uid\":\"m1\",\"ns\":\"a\",\"name\":\"m1\",\"group\":\"g\",\"containers\":[{\"cards\":1}]}\n"
		"{\"t\":1000,\"bind\":\"m0\"}\n{\"t\":1000,\"bind\":\"m1\"}\n"
		"{\"t\":11000,\"del\":\"pod\",\"uid\":\"m0\"}\n"
		"{\"t\":20000,\"put\":\"pod\",\"uid\":\"x\",\"ns\":\"b\",\"name\":\"x\",\"containers\":[{\"cards\":2}]}\n"
		"{\"t\":901000,\"del\":\"pod\",\"uid\":\"m1\"}\n"
		"{\"t\":901000,\"bind\":\"x\"}\n{\"t\":931000,\"del\":\"pod\",\"uid\":\"x\"}\n";
	struct rf_simulate_play o = { .clock = rf_clock_system() };
	struct rf_err err = RF_ERR_INIT;
	struct rf_tally b;

	rf_tally_init(&b);
	if (rf_simulate_play_log(rf_str(DAY), &o, &b, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(b.n_jobs, 2);
	assert_int_equal(b.preemptions, 1);
	assert_true(b.used_area == (rf_tally_area)(10000 + 900000 + 2 * 30000) * 1000);
	rf_tally_done(&b);
}

/* The day again without changes is nearly the day; with machines added nobody waits. */
static void a_day_is_lived_again(void **state)
{
	rf_auto(simulate) s = RF_SIMULATE_INIT;
	rf_auto(buf) log = RF_BUF_INIT;
	struct rf_tally b, c, d;
	struct rf_simulate_changes changes;
	struct rf_simulate_play o = { .clock = rf_clock_system() };
	struct rf_tally_stat then, again, more;
	struct rf_err err = RF_ERR_INIT;

	draw_jobs(&s, 150, 23);
	play(&s, "reserve-after=0", &log, &b); /* dates hang on when exactly the core is asked */
	rf_tally_init(&c);
	rf_tally_init(&d);
	if (rf_simulate_play_log(rf_buf_str(&log), &o, &c, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(rf_simulate_changes_parse(RF_LIT("nodes+=30x8,weight:t0=3"), &changes, NULL), 0);
	o.changes = &changes;
	if (rf_simulate_play_log(rf_buf_str(&log), &o, &d, &err) < 0)
		fail_msg("%s", err.msg);
	rf_tally_waits(&b, -1, -1, &then);
	rf_tally_waits(&c, -1, -1, &again);
	rf_tally_waits(&d, -1, -1, &more);
	assert_int_equal(again.n, 150);
	assert_int_equal(then.mean, again.mean);
	assert_int_equal(then.max, again.max);
	assert_int_equal(more.n, 150);
	assert_int_equal(more.max, 0);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(d.tenants.at[i].weight, rf_str_is(d.tenants.at[i].name, "t0") ? 3 : 1);
	assert_int_equal(rf_simulate_changes_parse(RF_LIT("weight:nobody=3"), &changes, NULL), 0);
	assert_int_equal(rf_simulate_play_log(rf_buf_str(&log), &o, &d, &err), -RF_INVALID);
	rf_tally_done(&b);
	rf_tally_done(&c);
	rf_tally_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(jobs_are_read_in_the_order_of_arrival),
		cmocka_unit_test(jobs_that_make_no_sense_are_refused),
		cmocka_unit_test(machines_need_no_file),
		cmocka_unit_test(changes_are_read),
		cmocka_unit_test(a_change_that_makes_no_sense_says_what_is_allowed),
		cmocka_unit_test(books_add_up),
		cmocka_unit_test(a_gang_starts_when_enough_of_it_runs),
		cmocka_unit_test(one_that_was_evicted_is_the_same_job_when_it_comes_again),
		cmocka_unit_test(withdrawn_gated_and_unknown_pods_are_told_apart),
		cmocka_unit_test(a_part_that_came_late_is_no_error),
		cmocka_unit_test(parts_go_by_weight_and_to_nobody_more_than_it_asked_for),
		cmocka_unit_test(who_is_off_by_more_than_a_job_is_counted),
		cmocka_unit_test(without_end_only_weights_count),
		cmocka_unit_test(a_page_says_who_had_what),
		cmocka_unit_test(nobody_and_no_time_give_no_figure),
		cmocka_unit_test(names_in_plots_are_text),
		cmocka_unit_test(empty_books_can_be_drawn),
		cmocka_unit_test(every_job_runs_and_none_beyond_the_cards),
		cmocka_unit_test(the_same_jobs_give_the_same_figures),
		cmocka_unit_test(more_machines_make_waits_shorter),
		cmocka_unit_test(a_weight_and_a_limit_change_who_has_what),
		cmocka_unit_test(a_change_for_somebody_unknown_is_refused),
		cmocka_unit_test(backlogged_tenants_get_equal_shares),
		cmocka_unit_test(a_pool_shares_as_well_as_jobs_allow),
		cmocka_unit_test(names_may_be_anything),
		cmocka_unit_test(who_comes_first_is_served_first),
		cmocka_unit_test(a_log_gives_the_same_decisions_and_figures_again),
		cmocka_unit_test(a_decision_that_was_another_is_found),
		cmocka_unit_test(a_log_that_makes_no_sense_is_refused_with_its_line),
		cmocka_unit_test(what_is_left_of_a_gang_comes_again),
		cmocka_unit_test(a_day_is_lived_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
