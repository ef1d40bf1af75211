/* Any bytes, as an API server's or anybody's: read as an AdmissionReview and judged with a small book, as
 * /mutate or /validate by the first byte. Whatever is answered is JSON with the review's uid, and a refusal
 * has a message. */
#include "codec/yaml.h"
#include "control/private.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char POLICIES[] =
	"apiVersion: templates.gatekeeper.sh/v1\n"
	"kind: ConstraintTemplate\n"
	"metadata: {name: echo}\n"
	"spec:\n"
	"  crd: {spec: {names: {kind: Echo}}}\n"
	"  targets:\n"
	"  - target: admission.k8s.gatekeeper.sh\n"
	"    rego: |\n"
	"      package echo\n"
	"      violation[{\"msg\": msg}] {\n"
	"        c := input.review.object.spec.containers[_]\n"
	"        not startswith(c.image, input.parameters.from)\n"
	"        msg := sprintf(\"%v: %v\", [c.name, c.image])\n"
	"      }\n"
	"---\n"
	"apiVersion: constraints.gatekeeper.sh/v1beta1\n"
	"kind: Echo\n"
	"metadata: {name: ours}\n"
	"spec: {match: {namespaceSelector: {matchLabels: {a: b}}}, parameters: {from: ours/}}\n"
	"---\n"
	"apiVersion: v1\n"
	"kind: ConfigMap\n"
	"metadata: {name: m, namespace: ringfence-system, labels: {openpolicyagent.org/policy: rego}}\n"
	"data:\n"
	"  m.rego: |\n"
	"    package kubernetes.admission\n"
	"    deny contains input.request.object.metadata.labels.deny\n"
	"    warn contains sprintf(\"%v\", [input.request.object.metadata])\n";

static struct {
	struct rf_arena a;
	struct rf_book *book;
	struct rf_json *tenant, *ns;
} world;

static const struct rf_json *get(void *ctx RF_UNUSED, const struct rf_kube_res *res,
				 struct rf_str ns RF_UNUSED, struct rf_str name)
{
	if (res == &RF_TENANTS)
		return rf_str_is(name, "t") ? world.tenant : NULL;
	return res == &RF_NAMESPACES && name.n % 2 ? world.ns : NULL;
}

static const struct rf_json *next(void *ctx RF_UNUSED, const struct rf_kube_res *res RF_UNUSED,
				  const void **cursor RF_UNUSED)
{
	return NULL;
}

static void make_world(void)
{
	struct rf_json *docs = NULL;

	world.book = rf_book_new();
	rf_assert(rf_yaml_parse(&world.a, rf_str(POLICIES), &docs, NULL) == 0);
	for (size_t i = 0; i < rf_json_len(docs); i++)
		rf_assert(rf_book_put(world.book, rf_json_item(docs, i), NULL) == 0);
	world.tenant = rf_json_make(&world.a, "{'kind':'Tenant','metadata':{'name':'t'},'spec':{'isolation':'share',"
					      "'quota':{'gpus':2,'gpuMemory':'20Gi'}}}");
	world.ns = rf_json_make(&world.a, "{'apiVersion':'v1','kind':'Namespace','metadata':{'name':'x','labels':{"
					  "'a':'b','ringfence.io/tenant':'t'}}}");
}

static void check_answer(struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_json *o = NULL;
	const struct rf_json *r = NULL;

	rf_assert(rf_json_parse(&a, text, &o, NULL) == 0);
	r = rf_json_at(o, "response");
	rf_assert(rf_json_str_at(r, "uid").n > 0);
	rf_assert(rf_json_is_true(rf_json_at(r, "allowed")) || rf_json_str_at(r, "status", "message").n > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	rf_auto(arena) a = RF_ARENA_CAPPED((size_t)64 << 20);
	static struct rf_reviewer r;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;
	uint8_t first = n > 0 ? data[0] : 0;

	if (world.book == NULL)
		make_world();
	r = (struct rf_reviewer){ .cluster = { .get = get, .next = next },
				  .scheduler = "ringfence",
				  .synced = true,
				  .book = world.book,
				  .loaded = (first & 2) == 0,
				  .closed = (first & 4) != 0 };
	if (rf_webhook_review(&r, &a, first & 1 ? RF_REVIEW_MUTATE : RF_REVIEW_VALIDATE,
			      rf_str_skip(rf_str_n((const char *)data, n), 1), &text, &err) == 0)
		check_answer(text);
	else
		rf_assert(err.msg[0] != '\0');
	return 0;
}
