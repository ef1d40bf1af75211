/* A real container through the shim and crun. Needs root and crun; says so and stops otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/fs.h"
#include "codec/json.h"
#include "node/cgroup.h"
#include "node/image.h"
#include "node/node.h"
#include "node/oci.h"
#include "node/shim.h"

struct run {
	struct rf_arena a;
	char dir[64];
	struct rf_str instance, cgroup;
	const char *bundle, *state, *id;
};

static int set_up(void **state)
{
	struct run *r = rf_new(struct run);

	r->a = (struct rf_arena)RF_ARENA_INIT;
	snprintf(r->dir, sizeof(r->dir), "/tmp/rf-shim-XXXXXX");
	assert_non_null(mkdtemp(r->dir));
	r->instance = rf_cgroup_instance(&r->a, rf_str(r->dir));
	r->cgroup = rf_cgroup_path(&r->a, r->instance, RF_LIT("uid-1"), RF_LIT("main"));
	r->bundle = rf_fs_path(&r->a, "%s/main", r->dir);
	r->state = rf_fs_path(&r->a, "%s/crun", r->dir);
	r->id = rf_fs_path(&r->a, "test-%s", r->dir + 13);
	*state = r;
	return 0;
}

static void crun(struct run *r, const char *verb, const char *option)
{
	pid_t pid = fork();

	if (pid == 0) {
		struct rf_err err = RF_ERR_INIT;

		if (rf_shim_enter_view(&err) == 0)
			execlp("crun", "crun", "--root", r->state, verb, option, r->id, NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

static int tear_down(void **state)
{
	struct run *r = *state;

	crun(r, "delete", "--force");
	rf_cgroup_kill(&r->a, r->cgroup);
	for (int i = 0;
	     i < 100 && !rf_cgroup_remove(&r->a, rf_cgroup_path(&r->a, r->instance, RF_STR_EMPTY,
								RF_STR_EMPTY));
	     i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	(void)rf_fs_remove_tree(r->dir, NULL);
	rf_arena_done(&r->a);
	free(r);
	return 0;
}

static void make_bundle(struct run *r, const char *script, const char *memory)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_image image;
	struct rf_json *pod, *config = NULL;
	rf_auto(buf) text = RF_BUF_INIT;

	if (rf_image_find(&r->a, NULL, RF_LIT("host"), &image, &err) < 0)
		fail_msg("%s", err.msg);
	pod = rf_json_make(
		&r->a,
		"{'metadata':{'name':'p'},'spec':{'containers':[{'name':'main','command':"
		"['/bin/sh','-c',%s],'resources':{'limits':{'memory':%s}}}]}}",
		script, memory);
	struct rf_str rootfs = rf_arena_printf(&r->a, "%s/rootfs", r->bundle);
	struct rf_str hidden = rf_str(r->dir);
	struct rf_oci_ask ask = { .pod = pod,
				  .container =
					  rf_json_item(rf_json_at(pod, "spec", "containers"), 0),
				  .host_image = true,
				  .rootfs = rootfs,
				  .cgroup = r->cgroup,
				  .tops = image.tops,
				  .n_tops = image.n_tops,
				  .hidden = &hidden,
				  .n_hidden = 1,
				  .pids_max = 512 };
	if (rf_image_make_root(rootfs.p, &image, &err) < 0 ||
	    rf_oci_config(&r->a, &ask, &config, &err) < 0)
		fail_msg("%s", err.msg);
	rf_json_write(&text, config);
	if (rf_fs_write(rf_fs_path(&r->a, "%s/config.json", r->bundle), rf_buf_str(&text), 0600,
			false, &err) < 0)
		fail_msg("%s", err.msg);
}

static pid_t start_shim(struct run *r, const char *script, const char *memory)
{
	make_bundle(r, script, memory);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "test_shim", "shim", "--bundle", r->bundle, "--id", r->id,
		      "--root", r->state, "--cgroup", r->cgroup.p, "--attempt", "0", "--uid",
		      "65534", NULL);
		_exit(127);
	}
	assert_true(pid > 0);
	return pid;
}

static struct rf_exit finish(struct run *r, pid_t shim)
{
	struct rf_err err = RF_ERR_INIT;
	struct rf_exit e;
	int status;

	assert_int_equal(waitpid(shim, &status, 0), shim);
	assert_true(WIFEXITED(status));
	if (rf_exit_read(&r->a, r->bundle, 0, &e, &err) < 0)
		fail_msg("%s", err.msg);
	return e;
}

static struct rf_str log_of(struct run *r)
{
	struct rf_str text = RF_STR_EMPTY;

	(void)rf_fs_read(&r->a, rf_fs_path(&r->a, "%s/log", r->bundle), 1 << 20, &text, NULL);
	return text;
}

static void wait_for_log(struct run *r, const char *text)
{
	for (int i = 0; i < 500; i++) {
		if (strstr(log_of(r).p, text) != NULL)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
	fail_msg("\"%s\" never came; log: %s", text, log_of(r).p);
}

static void a_container_runs_as_nobody_with_few_devices_and_its_status_is_kept(void **state)
{
	struct run *r = *state;
	struct rf_exit e =
		finish(r, start_shim(r,
				     "id -u; ls /dev; grep -E 'CapEff|CapBnd|NoNewPrivs|Seccomp:' "
				     "/proc/self/status; echo hi; echo oops >&2; exit 3",
				     "64Mi"));
	const char *log = log_of(r).p;

	assert_int_equal(e.code, 3);
	assert_int_equal(e.signal, 0);
	assert_false(e.oom || e.start_failed);
	assert_true(e.finished_ms >= e.started_ms && e.started_ms > 0);
	assert_non_null(strstr(log, " stdout F 65534\n"));
	assert_non_null(strstr(log, " stdout F hi\n"));
	assert_non_null(strstr(log, " stderr F oops\n"));
	assert_non_null(strstr(log, "CapEff:\t0000000000000000"));
	assert_non_null(strstr(log, "CapBnd:\t0000000000000000"));
	assert_non_null(strstr(log, "NoNewPrivs:\t1"));
	assert_non_null(strstr(log, "Seccomp:\t2"));
	assert_null(strstr(log, " vda\n"));
	assert_null(strstr(log, "nvidia"));
	assert_int_equal(rf_cgroup_count(&r->a, r->cgroup), 0);
}

static void the_box_holds(void **state)
{
	struct run *r = *state;
	struct rf_exit e = finish(
		r,
		start_shim(
			r,
			"touch /usr/x 2>/dev/null && echo WROTE; touch /x 2>/dev/null && echo "
			"WROTE;"
			"unshare -U true 2>/dev/null && echo ESCAPED; cat /etc/shadow 2>/dev/null "
			"&& "
			"echo READ; ls /home /root /sys/kernel 2>/dev/null && echo SAW;"
			"mount -t tmpfs x /tmp 2>/dev/null && echo MOUNTED; ls /proc | grep -c "
			"'^[0-9]'; touch /tmp/ok && echo tmp-ok; echo x > /dev/stdout; echo done",
			"64Mi"));
	const char *log = log_of(r).p;

	assert_int_equal(e.code, 0);
	assert_non_null(strstr(log, " F tmp-ok\n"));
	assert_non_null(strstr(log, " F x\n"));
	assert_non_null(strstr(log, " F done\n"));
	assert_null(strstr(log, "WROTE"));
	assert_null(strstr(log, "ESCAPED"));
	assert_null(strstr(log, "READ"));
	assert_null(strstr(log, "SAW"));
	assert_null(strstr(log, "MOUNTED"));
}

static void a_command_that_is_not_there_is_a_start_failure_with_a_reason(void **state)
{
	struct run *r = *state;

	make_bundle(r, "true", "64Mi");
	struct rf_str text;
	assert_int_equal(rf_fs_read(&r->a, rf_fs_path(&r->a, "%s/config.json", r->bundle), 1 << 20,
				    &text, NULL),
			 0);
	struct rf_json *config;
	assert_int_equal(rf_json_parse(&r->a, text, &config, NULL), 0);
	rf_json_set(&r->a, rf_json_at(config, "process"), RF_LIT("args"),
		    rf_json_make(&r->a, "['/no/such/program']"));
	rf_auto(buf) out = RF_BUF_INIT;
	rf_json_write(&out, config);
	assert_int_equal(rf_fs_write(rf_fs_path(&r->a, "%s/config.json", r->bundle),
				     rf_buf_str(&out), 0600, false, NULL),
			 0);
	pid_t pid = fork();
	if (pid == 0) {
		execl("/proc/self/exe", "test_shim", "shim", "--bundle", r->bundle, "--id", r->id,
		      "--root", r->state, "--cgroup", r->cgroup.p, "--attempt", "0", "--uid",
		      "65534", NULL);
		_exit(127);
	}
	struct rf_exit e = finish(r, pid);
	assert_true(e.start_failed);
	assert_non_null(strstr(e.message.p, "/no/such/program"));
}

static void running_out_of_memory_is_told(void **state)
{
	struct run *r = *state;
	struct rf_exit e = finish(
		r, start_shim(r, "x=$(head -c 200000000 /dev/zero | tr '\\0' x); echo $x | wc -c",
			      "32Mi"));

	assert_true(e.oom);
	assert_int_not_equal(e.code, 0);
}

static void a_killed_shim_frees_the_lock_and_its_container_can_be_removed(void **state)
{
	struct run *r = *state;
	pid_t shim = start_shim(r, "echo up; sleep 600", "64Mi");
	struct rf_exit e;

	wait_for_log(r, " F up\n");
	assert_int_equal(rf_shim_holder(r->bundle), shim);
	assert_true(rf_cgroup_count(&r->a, r->cgroup) > 0);
	kill(shim, SIGKILL);
	waitpid(shim, NULL, 0);
	assert_int_equal(rf_shim_holder(r->bundle), 0);
	assert_int_equal(rf_exit_read(&r->a, r->bundle, 0, &e, &(struct rf_err)RF_ERR_INIT),
			 -RF_NOT_FOUND);
	rf_shim_give_up(r->bundle, 0, &(struct rf_exit){ .code = 137, .message = RF_LIT("x") },
			NULL);
	assert_int_equal(rf_exit_read(&r->a, r->bundle, 0, &e, &(struct rf_err)RF_ERR_INIT), 0);
	assert_false(e.never_ran); /* it had begun, so it is not started again */
	crun(r, "delete", "--force");
	for (int i = 0; i < 200 && rf_cgroup_count(&r->a, r->cgroup) > 0; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	assert_int_equal(rf_cgroup_count(&r->a, r->cgroup), 0);
}

static void an_attempt_given_up_before_its_shim_came_never_runs(void **state)
{
	struct run *r = *state;
	struct rf_err err = RF_ERR_INIT;
	struct rf_exit lost = { .code = 137, .message = RF_LIT("lost") }, e;

	make_bundle(r, "echo ran", "64Mi");
	if (rf_shim_give_up(r->bundle, 0, &lost, &err) < 0)
		fail_msg("%s", err.msg);
	pid_t late = start_shim(r, "echo ran", "64Mi");
	waitpid(late, NULL, 0);
	assert_int_equal(rf_exit_read(&r->a, r->bundle, 0, &e, &err), 0);
	assert_true(e.never_ran);
	assert_int_equal(e.code, 137);
	assert_int_equal(log_of(r).n, 0);
}

static void a_signal_to_the_container_reaches_it(void **state)
{
	struct run *r = *state;
	pid_t shim = start_shim(
		r, "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done", "64Mi");

	wait_for_log(r, " F up\n");
	pid_t pid = fork();
	if (pid == 0) {
		(void)rf_shim_enter_view(&(struct rf_err)RF_ERR_INIT);
		execlp("crun", "crun", "--root", r->state, "kill", r->id, "TERM", NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
	struct rf_exit e = finish(r, shim);
	assert_int_equal(e.code, 7);
	assert_non_null(strstr(log_of(r).p, " F bye\n"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(a_container_runs_as_nobody_with_few_devices_and_its_status_is_kept),
		TEST(the_box_holds),
		TEST(a_command_that_is_not_there_is_a_start_failure_with_a_reason),
		TEST(running_out_of_memory_is_told),
		TEST(a_killed_shim_frees_the_lock_and_its_container_can_be_removed),
		TEST(an_attempt_given_up_before_its_shim_came_never_runs),
		TEST(a_signal_to_the_container_reaches_it),
	};

	if (argc > 1 && strcmp(argv[1], "shim") == 0)
		return rf_shim_main(argc - 1, argv + 1);
	if (geteuid() != 0 || system("command -v crun >/dev/null") != 0) {
		printf("1..1\nok 1 - # SKIP containers need root and crun\n");
		return 0;
	}
	return cmocka_run_group_tests_name("node shim", tests, NULL, NULL);
}
