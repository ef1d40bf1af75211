#include "cli/explain.h"

#include "kube/kube.h"
#include "tenant/foreign.h"

/* --- a reason --------------------------------------------------------------------------------- */

static const char *const KEYS[] = { "reason", "resource", "resources", "level", "need", "have", "until", "by", "help" };

/* The next "key=" at the start of a word; its key's index, and where it starts. */
static bool find_key(struct rf_str s, size_t from, size_t *ret_at, size_t *ret_key)
{
	for (size_t i = from; i < s.n; i++) {
		if (i > 0 && s.p[i - 1] != ' ')
			continue;
		for (size_t k = 0; k < RF_COUNT(KEYS); k++) {
			size_t n = strlen(KEYS[k]);

			if (i + n < s.n && s.p[i + n] == '=' && memcmp(s.p + i, KEYS[k], n) == 0) {
				*ret_at = i;
				*ret_key = k;
				return true;
			}
		}
	}
	return false;
}

static struct rf_str sentence(struct rf_str s)
{
	s = rf_str_trim(s);
	while (s.n > 0 && (s.p[s.n - 1] == ';' || s.p[s.n - 1] == ':' || s.p[s.n - 1] == ','))
		s.n--;
	return s;
}

/* "ask-for-less" is one word for machines. */
static struct rf_str words(struct rf_arena *a, struct rf_str s)
{
	char *p = NULL;

	if (rf_str_contains(s, RF_LIT(" ")))
		return s;
	p = rf_arena_alloc(a, s.n + 1);
	for (size_t i = 0; i < s.n; i++)
		p[i] = s.p[i] == '-' ? ' ' : s.p[i];
	return rf_str_n(p, s.n);
}

static void put(struct rf_arena *a, struct rf_json *to, const char *key, struct rf_str value)
{
	int64_t n = 0;

	if (strcmp(key, "help") == 0)
		value = words(a, value);
	if ((strcmp(key, "need") == 0 || strcmp(key, "have") == 0) && rf_str_int(value, &n, NULL) == 0)
		rf_json_set_int(a, to, key, n);
	else
		rf_json_set_str(a, to, key, value);
}

void rf_explain_reason(struct rf_arena *a, struct rf_json *to, struct rf_str reason)
{
	size_t at = 0, key = 0, next = 0, next_key = 0;
	bool more = find_key(reason, 0, &at, &key);
	struct rf_str head = sentence(rf_str_n(reason.p, more ? at : reason.n));

	if (head.n > 0)
		rf_json_set_str(a, to, "message", head);
	while (more) {
		size_t start = at + strlen(KEYS[key]) + 1;

		more = find_key(reason, start, &next, &next_key);
		put(a, to, strcmp(KEYS[key], "reason") == 0 ? "cause" : KEYS[key],
		    sentence(rf_str_n(reason.p + start, (more ? next : reason.n) - start)));
		at = next;
		key = next_key;
	}
}

/* --- all that is said --------------------------------------------------------------------------- */

static void row(struct rf_arena *a, struct rf_json *rows, struct rf_str from, struct rf_str reason, struct rf_str message)
{
	rf_json_push(a, rows, rf_json_make(a, "{'from':%S,'reason':%S,'message':%S}", from, reason, message));
}

static void tell_conditions(struct rf_arena *a, struct rf_json *rows, const struct rf_json *pod)
{
	const struct rf_json *conditions = rf_json_at(pod, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(conditions); i++) {
		const struct rf_json *c = rf_json_item(conditions, i);

		if (!rf_str_is(rf_json_str_at(c, "status"), "True") && rf_json_str_at(c, "message").n > 0)
			row(a, rows, rf_json_str_at(c, "type"), rf_json_str_at(c, "reason"), rf_json_str_at(c, "message"));
	}
}

static struct rf_str ended_text(struct rf_arena *a, const struct rf_json *ended)
{
	struct rf_str message = rf_json_str_at(ended, "message");

	return rf_arena_printf(a, "exit code %lld%s%.*s", (long long)rf_json_int(rf_json_at(ended, "exitCode"), -1),
			       message.n > 0 ? ": " : "", RF_STR(message));
}

static void tell_containers(struct rf_arena *a, struct rf_json *rows, const struct rf_json *pod)
{
	const struct rf_json *statuses = rf_json_at(pod, "status", "containerStatuses");

	for (size_t i = 0; i < rf_json_len(statuses); i++) {
		const struct rf_json *s = rf_json_item(statuses, i);
		const struct rf_json *waiting = rf_json_at(s, "state", "waiting");
		const struct rf_json *ended = rf_json_at(s, "state", "terminated");
		struct rf_str from = rf_arena_printf(a, "container %.*s", RF_STR(rf_json_str_at(s, "name")));

		if (waiting != NULL)
			row(a, rows, from, rf_json_str_at(waiting, "reason"), rf_json_str_at(waiting, "message"));
		if (ended != NULL)
			row(a, rows, from, rf_json_str_at(ended, "reason"), ended_text(a, ended));
	}
}

static bool is_about(const struct rf_json *event, const struct rf_json *pod)
{
	return rf_str_eq(rf_json_str_at(event, "involvedObject", "uid"), rf_kube_uid(pod));
}

static void tell_events(struct rf_arena *a, struct rf_json *rows, const struct rf_json *pod, const struct rf_json *events)
{
	for (size_t i = 0; i < rf_json_len(events); i++) {
		const struct rf_json *e = rf_json_item(events, i);
		struct rf_str from = rf_json_str_at(e, "source", "component");

		if (!is_about(e, pod))
			continue;
		if (from.n == 0) /* written through events.k8s.io, as Kubernetes' own parts do */
			from = rf_json_str_at(e, "reportingComponent");
		row(a, rows, from, rf_json_str_at(e, "reason"), rf_json_str_at(e, "message"));
	}
}

struct rf_json *rf_explain_pod_all(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *events)
{
	struct rf_json *rows = rf_json_array(a);

	row(a, rows, RF_LIT("pod"), rf_json_str_at(pod, "status", "phase"), rf_json_str_at(pod, "status", "message"));
	tell_conditions(a, rows, pod);
	tell_containers(a, rows, pod);
	tell_events(a, rows, pod, events);
	return rows;
}

/* --- the one reason ----------------------------------------------------------------------------- */

struct explanation {
	struct rf_arena *a;
	const struct rf_json *pod, *events, *group;
	struct rf_json *to;
};

static void say(struct explanation *x, const char *reason, struct rf_str message, const char *help)
{
	rf_json_set_str(x->a, x->to, "reason", rf_str(reason));
	rf_json_set_str(x->a, x->to, "message", message);
	if (help != NULL)
		rf_json_set_str(x->a, x->to, "help", rf_str(help));
}

static const struct rf_json *condition(const struct rf_json *pod, const char *type)
{
	const struct rf_json *all = rf_json_at(pod, "status", "conditions");

	for (size_t i = 0; i < rf_json_len(all); i++)
		if (rf_str_is(rf_json_str_at(rf_json_item(all, i), "type"), type))
			return rf_json_item(all, i);
	return NULL;
}

struct rf_str rf_explain_group_of(const struct rf_json *pod)
{
	return rf_kube_label(pod, RF_GROUP_LABEL);
}

static struct rf_str time_of(const struct rf_json *event)
{
	struct rf_str t = rf_json_str_at(event, "lastTimestamp");

	return t.n > 0 ? t : rf_json_str_at(event, "eventTime");
}

/* The latest of its events that says why it has no place; times of one form compare as text. */
static const struct rf_json *last_failure(const struct explanation *x)
{
	const struct rf_json *last = NULL;

	for (size_t i = 0; i < rf_json_len(x->events); i++) {
		const struct rf_json *e = rf_json_item(x->events, i);

		if (is_about(e, x->pod) && rf_str_is(rf_json_str_at(e, "reason"), "FailedScheduling") &&
		    (last == NULL || rf_str_cmp(time_of(e), time_of(last)) >= 0))
			last = e;
	}
	return last;
}

/* What the scheduler said last, in the place where it was said; empty: nothing. */
static struct rf_str scheduler_said(const struct explanation *x)
{
	const struct rf_json *c = condition(x->pod, "PodScheduled");
	struct rf_str text = rf_str_is(rf_json_str_at(c, "status"), "True") ? RF_STR_EMPTY : rf_json_str_at(c, "message");

	if (text.n == 0)
		text = rf_json_str_at(last_failure(x), "message");
	return text.n > 0 ? text : rf_json_str_at(x->group, "status", "message");
}

static bool is_ringfences(const struct rf_json *pod)
{
	struct rf_str name = rf_json_str_at(pod, "spec", "schedulerName");

	return name.n == 0 || rf_str_is(name, "default-scheduler") || rf_str_is(name, RF_SCHEDULER);
}

static void explain_gated(struct explanation *x, const struct rf_json *gates)
{
	rf_auto(buf) b = RF_BUF_INIT;

	for (size_t i = 0; i < rf_json_len(gates); i++)
		rf_buf_printf(&b, "%s%.*s", i == 0 ? "waits for spec.schedulingGates to be removed: " : ", ",
			      RF_STR(rf_json_str_at(rf_json_item(gates, i), "name")));
	say(x, "SchedulingGated", rf_arena_str(x->a, rf_buf_str(&b)), "whoever set the gate removes it");
}

static void explain_waiting(struct explanation *x)
{
	struct rf_str said = scheduler_said(x), reason = rf_json_str_at(condition(x->pod, "PodScheduled"), "reason");
	const struct rf_json *gates = rf_json_at(x->pod, "spec", "schedulingGates");

	if (rf_json_len(gates) > 0) {
		explain_gated(x, gates);
		return;
	}
	if (rf_json_is(x->group, RF_JSON_NULL)) {
		say(x, "NoPodGroup",
		    rf_arena_printf(x->a, "is of PodGroup %.*s, which does not exist", RF_STR(rf_explain_group_of(x->pod))),
		    "create the PodGroup, or remove the label " RF_GROUP_LABEL);
		return;
	}
	if (said.n > 0) {
		rf_json_set_str(x->a, x->to, "reason", reason.n > 0 ? reason : RF_LIT("Unschedulable"));
		rf_explain_reason(x->a, x->to, said);
		return;
	}
	if (!is_ringfences(x->pod))
		say(x, "OtherScheduler",
		    rf_arena_printf(x->a, "is to be placed by scheduler %.*s, not by ringfence",
				    RF_STR(rf_json_str_at(x->pod, "spec", "schedulerName"))),
		    "leave spec.schedulerName out, or look at that scheduler");
	else
		say(x, "NotLookedAt", RF_LIT("the scheduler has said nothing about it yet"),
		    "ask again in a moment; if it stays so, see that ringfence control runs");
}

/* The first container that does not run and says why. */
static bool explain_container(struct explanation *x)
{
	struct rf_json *rows = rf_json_array(x->a);
	const struct rf_json *first = NULL;

	tell_containers(x->a, rows, x->pod);
	for (size_t i = 0; i < rf_json_len(rows) && first == NULL; i++)
		if (!rf_str_is(rf_json_str_at(rf_json_item(rows, i), "reason"), "Completed"))
			first = rf_json_item(rows, i);
	if (first == NULL)
		return false;
	rf_json_set_str(x->a, x->to, "reason", rf_json_str_at(first, "reason"));
	rf_json_set_str(x->a, x->to, "message",
			rf_arena_printf(x->a, "%.*s: %.*s", RF_STR(rf_json_str_at(first, "from")),
					RF_STR(rf_json_str_at(first, "message").n > 0 ? rf_json_str_at(first, "message") :
											rf_json_str_at(first, "reason"))));
	return true;
}

static void explain_bound(struct explanation *x, bool running)
{
	struct rf_str node = rf_json_str_at(x->pod, "spec", "nodeName"), said = rf_json_str_at(x->pod, "status", "message");

	if (explain_container(x))
		return;
	if (said.n > 0)
		say(x, rf_arena_cstr(x->a, rf_json_str_at(x->pod, "status", "reason")), said, NULL);
	else
		say(x, running ? "Running" : "Starting",
		    rf_arena_printf(x->a, running ? "runs on node %.*s" : "has its place on node %.*s and is being started",
				    RF_STR(node)),
		    NULL);
}

static void explain_ended(struct explanation *x, struct rf_str phase)
{
	struct rf_str said = rf_json_str_at(x->pod, "status", "message"), reason = rf_json_str_at(x->pod, "status", "reason");

	if (said.n > 0)
		say(x, rf_arena_cstr(x->a, reason.n > 0 ? reason : phase), said, NULL);
	else if (!explain_container(x))
		say(x, rf_arena_cstr(x->a, phase), RF_LIT("has ended"), NULL);
}

static const char *state_of(const struct rf_json *pod)
{
	struct rf_str phase = rf_json_str_at(pod, "status", "phase");

	if (rf_str_is(phase, "Succeeded") || rf_str_is(phase, "Failed"))
		return "ended";
	if (rf_json_at(pod, "metadata", "deletionTimestamp") != NULL)
		return "going";
	if (rf_json_str_at(pod, "spec", "nodeName").n == 0)
		return "waiting";
	return rf_str_is(phase, "Running") ? "running" : "starting";
}

static void add_gang(struct explanation *x)
{
	struct rf_str name = rf_explain_group_of(x->pod), phase = rf_json_str_at(x->group, "status", "phase");

	if (name.n == 0)
		return;
	if (!rf_json_is(x->group, RF_JSON_OBJECT)) {
		rf_json_set(x->a, x->to, RF_LIT("gang"), rf_json_make(x->a, "{'name':%S}", name));
		return;
	}
	rf_json_set(x->a, x->to, RF_LIT("gang"),
		    rf_json_make(x->a, "{'name':%S,'phase':%S,'minMember':%D,'scheduled':%D}", name,
				 phase.n > 0 ? phase : RF_LIT("Pending"),
				 rf_json_int(rf_json_at(x->group, "spec", "minMember"), 1),
				 rf_json_int(rf_json_at(x->group, "status", "scheduled"), 0)));
}

struct rf_json *rf_explain_pod(struct rf_arena *a, const struct rf_json *pod, const struct rf_json *events,
			       const struct rf_json *group)
{
	const char *state = state_of(pod);
	struct explanation x = { .a = a, .pod = pod, .events = events, .group = group };
	struct rf_str node = rf_json_str_at(pod, "spec", "nodeName"), queue = rf_kube_label(pod, RF_QUEUE_LABEL);

	x.to = rf_json_make(a, "{'pod':%S,'namespace':%S,'state':%s}", rf_kube_name(pod), rf_kube_namespace(pod), state);
	if (node.n > 0)
		rf_json_set_str(a, x.to, "node", node);
	if (strcmp(state, "waiting") == 0)
		explain_waiting(&x);
	else if (strcmp(state, "ended") == 0)
		explain_ended(&x, rf_json_str_at(pod, "status", "phase"));
	else if (strcmp(state, "going") == 0)
		say(&x, "Terminating", RF_LIT("is being deleted"), NULL);
	else
		explain_bound(&x, strcmp(state, "running") == 0);
	if (queue.n > 0)
		rf_json_set_str(a, x.to, "queue", queue);
	add_gang(&x);
	return x.to;
}

/* Those of C1 too: U+0080 to U+009F, which some terminals take for the start of a sequence. */
struct rf_str rf_explain_plain(struct rf_arena *a, struct rf_str s)
{
	char *p = rf_arena_alloc(a, s.n + 1);

	for (size_t i = 0; i < s.n; i++) {
		unsigned char c = (unsigned char)s.p[i];
		bool second = i > 0 && (unsigned char)s.p[i - 1] == 0xc2 && c >= 0x80 && c <= 0x9f;

		p[i] = c < ' ' || c == 0x7f || second ? ' ' : s.p[i];
		if (second)
			p[i - 1] = ' ';
	}
	return rf_str_n(p, s.n);
}
