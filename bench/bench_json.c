/* Reads and writes a generated PodList with ringfence's JSON and with jansson, and prints MB per second
 * of processor time, so that a busy machine does not spoil the comparison.
 *	bench_json [pods] [rounds] */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "codec/json.h"

static void add_managed_fields(struct rf_buf *out)
{
	rf_buf_puts(out, "\"managedFields\":[");
	for (int i = 0; i < 3; i++) {
		rf_buf_printf(
			out,
			"%s{\"manager\":\"manager-%d\",\"operation\":\"Update\",\"apiVersion\":"
			"\"v1\",\"time\":\"2026-01-01T00:00:00Z\",\"fieldsType\":\"FieldsV1\","
			"\"fieldsV1\":{",
			i ? "," : "", i);
		for (int j = 0; j < 12; j++)
			rf_buf_printf(out, "%s\"f:field-%d\":{\".\":{},\"f:inner\":{}}",
				      j ? "," : "", j);
		rf_buf_puts(out, "}}");
	}
	rf_buf_puts(out, "]");
}

static void add_container(struct rf_buf *out, int i)
{
	rf_buf_printf(
		out,
		"{\"name\":\"main-%d\",\"image\":\"registry.example.com/team/train:v%d\","
		"\"command\":[\"/bin/sh\",\"-c\",\"echo \\\"start\\\"\\nexec train --steps 1000\"],"
		"\"resources\":{\"limits\":{\"cpu\":\"8\",\"memory\":\"64Gi\",\"ringfence.io/gpu\":"
		"\"2\"},\"requests\":{\"cpu\":\"8\",\"memory\":\"64Gi\"}},\"env\":[",
		i, i);
	for (int j = 0; j < 10; j++)
		rf_buf_printf(
			out, "%s{\"name\":\"VARIABLE_%d\",\"value\":\"a value of some length %d\"}",
			j ? "," : "", j, j);
	rf_buf_puts(out,
		    "],\"terminationMessagePath\":\"/dev/termination-log\",\"imagePullPolicy\":"
		    "\"IfNotPresent\",\"securityContext\":{\"allowPrivilegeEscalation\":false,"
		    "\"capabilities\":{\"drop\":[\"ALL\"]},\"runAsUser\":1000}}");
}

static void add_pod(struct rf_buf *out, int i)
{
	rf_buf_printf(
		out,
		"{\"metadata\":{\"name\":\"train-%06d\",\"namespace\":\"team-%d\",\"uid\":"
		"\"0b5c4a52-7d0a-4d5e-9d5c-%012d\",\"resourceVersion\":\"%d\",\"labels\":{\"app\":"
		"\"train\",\"ringfence.io/tenant\":\"team-%d\"},",
		i, i % 50, i, i + 1000, i % 50);
	add_managed_fields(out);
	rf_buf_puts(out, "},\"spec\":{\"containers\":[");
	add_container(out, 0);
	rf_buf_puts(out, ",");
	add_container(out, 1);
	rf_buf_printf(
		out,
		"],\"nodeName\":\"node-%d\",\"priority\":%d,\"hostNetwork\":false},\"status\":"
		"{\"phase\":\"Running\",\"hostIP\":\"10.0.0.%d\",\"restartCount\":0}}",
		i % 100, i % 7, i % 256);
}

static void make_list(struct rf_buf *out, int pods)
{
	rf_buf_puts(out, "{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"items\":[");
	for (int i = 0; i < pods; i++) {
		if (i > 0)
			rf_buf_add_c(out, ',');
		add_pod(out, i);
	}
	rf_buf_puts(out, "]}");
}

static double since(clock_t start)
{
	return (double)(clock() - start) / CLOCKS_PER_SEC;
}

struct times {
	double read, write; /* best of all rounds, seconds */
};

static void keep_best(struct times *best, double r, double w)
{
	if (best->read == 0 || r < best->read)
		best->read = r;
	if (best->write == 0 || w < best->write)
		best->write = w;
}

static void run_ringfence(struct rf_str text, struct times *best)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	clock_t start = clock();
	struct rf_json *v = NULL;
	double read;

	if (rf_json_parse(&a, text, &v, &err) < 0) {
		fprintf(stderr, "%s\n", err.msg);
		exit(1);
	}
	read = since(start);
	start = clock();
	rf_json_write(&out, v);
	keep_best(best, read, since(start));
}

static void run_jansson(struct rf_str text, struct times *best)
{
	clock_t start = clock();
	json_t *v = json_loadb(text.p, text.n, JSON_REJECT_DUPLICATES, NULL);
	double read = since(start);
	char *out;

	start = clock();
	out = json_dumps(v, JSON_COMPACT);
	keep_best(best, read, since(start));
	free(out);
	json_decref(v);
}

/* One pod at a time, as watches bring them: the arena is reset, not released, between two. */
static void run_single(int times)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) pod = RF_BUF_INIT;
	struct rf_json *v = NULL;
	double ours, theirs;
	clock_t start;

	add_pod(&pod, 1);
	start = clock();
	for (int i = 0; i < times; i++) {
		if (rf_json_parse(&a, rf_buf_str(&pod), &v, NULL) < 0)
			exit(1);
		rf_arena_reset(&a);
	}
	ours = since(start);
	start = clock();
	for (int i = 0; i < times; i++)
		json_decref(json_loadb(pod.p, pod.n, JSON_REJECT_DUPLICATES, NULL));
	theirs = since(start);
	printf("one pod of %zu bytes, read and released: ringfence %.1f us, jansson %.1f us\n",
	       pod.n, ours * 1e6 / times, theirs * 1e6 / times);
}

int main(int argc, char **argv)
{
	int pods = argc > 1 ? atoi(argv[1]) : 2000, rounds = argc > 2 ? atoi(argv[2]) : 5;
	struct times ours = { 0 }, theirs = { 0 };
	rf_auto(buf) text = RF_BUF_INIT;
	double mb;

	make_list(&text, pods);
	mb = (double)text.n / 1e6;
	for (int i = 0; i < rounds; i++) {
		run_ringfence(rf_buf_str(&text), &ours);
		run_jansson(rf_buf_str(&text), &theirs);
	}
	printf("PodList of %d pods, %.1f MB, best of %d\n", pods, mb, rounds);
	printf("ringfence: read %6.1f MB/s, write %6.1f MB/s\n", mb / ours.read, mb / ours.write);
	printf("jansson:   read %6.1f MB/s, write %6.1f MB/s\n", mb / theirs.read,
	       mb / theirs.write);
	run_single(pods * 5);
	return 0;
}
