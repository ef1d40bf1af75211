/* check_parse [-r] DIR...: how many modules, queries and input terms of OPA's conformance cases (*.yaml
 * below DIR) and Rego files (*.rego) parse as they should. Below a folder named v0 they are v0, else v1.
 * A case with want_error_code rego_parse_error must not parse. -r: formatted modules are read again and
 * must be the same, and formatting twice must change nothing. Exits 1 if something is not as it should. */
#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/fs.h"
#include "codec/yaml.h"
#include "policy/rego/ast.h"

struct tally {
	size_t modules, queries, values, templates, bad;
	bool again; /* -r */
};

static void report(struct tally *t, struct rf_str where, const struct rf_ra_errors *e,
		   struct rf_str text)
{
	rf_auto(buf) out = RF_BUF_INIT;

	t->bad++;
	rf_ra_print_errors(&out, e);
	printf("%.*s\n%s", RF_STR(where), out.p);
	if (e->n == 0)
		printf("%.*s\n", RF_STR(text));
}

static void check_again(struct tally *t, struct rf_arena *a, struct rf_str where,
			const struct rf_ra_module *m, enum rf_ra_version version)
{
	rf_auto(buf) first = RF_BUF_INIT, second = RF_BUF_INIT, tree = RF_BUF_INIT,
		     tree2 = RF_BUF_INIT;
	struct rf_ra_errors e = { .arena = a };
	struct rf_ra_module *m2 = NULL;

	rf_ra_format(&first, m);
	if (rf_ra_parse(a, where, rf_buf_str(&first), version, &m2, &e) < 0) {
		printf("formatted, does not parse:\n%s", first.p);
		report(t, where, &e, RF_STR_EMPTY);
		return;
	}
	rf_ra_dump(&tree, m);
	rf_ra_dump(&tree2, m2);
	rf_ra_format(&second, m2);
	if (strcmp(tree.p, tree2.p) != 0) {
		printf("%s----\n%s", tree.p, tree2.p);
		report(t, where, &e, RF_LIT("formatted, is another module"));
	} else if (strcmp(first.p, second.p) != 0) {
		printf("%s----\n%s", first.p, second.p);
		report(t, where, &e, RF_LIT("formatted twice, changes"));
	}
}

static void check_module(struct tally *t, struct rf_str where, struct rf_str text,
			 enum rf_ra_version version, bool must_fail)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_ra_errors e = { .arena = &a };
	struct rf_ra_module *m = NULL;
	int rc = rf_ra_parse(&a, where, text, version, &m, &e);

	t->modules++;
	if ((rc < 0) != must_fail)
		report(t, where, &e, text);
	else if (rc == 0 && t->again)
		check_again(t, &a, where, m, version);
}

static void check_query(struct tally *t, struct rf_str where, struct rf_str text,
			enum rf_ra_version version)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_ra_errors e = { .arena = &a };
	struct rf_ra_body *b = NULL;

	t->queries++;
	if (rf_ra_parse_body(&a, where, text, version, &b, &e) < 0)
		report(t, where, &e, text);
}

static void check_value(struct tally *t, struct rf_str where, struct rf_str text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_ra_errors e = { .arena = &a };
	struct rf_rv v;

	t->values++;
	if (rf_ra_parse_value(&a, text, &v, &e) < 0)
		report(t, where, &e, text);
}

static void check_case(struct tally *t, const struct rf_json *c, enum rf_ra_version version)
{
	struct rf_str note = rf_json_str_at(c, "note");
	bool must_fail = rf_str_is(rf_json_str_at(c, "want_error_code"), "rego_parse_error");
	struct rf_json *modules = rf_json_at(c, "modules");

	for (size_t i = 0; i < rf_json_len(modules); i++)
		check_module(t, note, rf_json_str(rf_json_item(modules, i)), version, must_fail);
	if (rf_json_at(c, "query") != NULL)
		check_query(t, note, rf_json_str_at(c, "query"), version);
	if (rf_json_at(c, "input_term") != NULL)
		check_value(t, note, rf_json_str_at(c, "input_term"));
}

/* A Gatekeeper template: its Rego is v0 unless it says otherwise. */
static void check_template(struct tally *t, struct rf_str path, const struct rf_json *doc)
{
	struct rf_json *targets = rf_json_at(doc, "spec", "targets");

	for (size_t i = 0; i < rf_json_len(targets); i++) {
		struct rf_json *target = rf_json_item(targets, i);
		struct rf_json *codes = rf_json_at(target, "code");
		struct rf_json *libs = rf_json_at(target, "libs");

		t->templates++;
		if (rf_json_at(target, "rego") != NULL)
			check_module(t, path, rf_json_str_at(target, "rego"), RF_RA_V0, false);
		for (size_t k = 0; k < rf_json_len(libs); k++)
			check_module(t, path, rf_json_str(rf_json_item(libs, k)), RF_RA_V0, false);
		for (size_t k = 0; k < rf_json_len(codes); k++) {
			struct rf_json *source = rf_json_at(rf_json_item(codes, k), "source");
			struct rf_json *code_libs = rf_json_at(source, "libs");

			if (rf_json_at(source, "rego") != NULL)
				check_module(t, path, rf_json_str_at(source, "rego"), RF_RA_V0,
					     false);
			for (size_t j = 0; j < rf_json_len(code_libs); j++)
				check_module(t, path, rf_json_str(rf_json_item(code_libs, j)),
					     RF_RA_V0, false);
		}
	}
}

static void check_yaml(struct tally *t, struct rf_str path, struct rf_str text,
		       enum rf_ra_version version)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	if (rf_yaml_parse(&a, text, &docs, &err) < 0) {
		printf("%.*s: not read: %s\n", RF_STR(path), err.msg);
		t->bad++;
		return;
	}
	for (size_t d = 0; d < rf_json_len(docs); d++) {
		struct rf_json *doc = rf_json_item(docs, d);
		struct rf_json *cases = rf_json_at(doc, "cases");

		for (size_t i = 0; i < rf_json_len(cases); i++)
			check_case(t, rf_json_item(cases, i), version);
		if (rf_str_is(rf_json_str_at(doc, "kind"), "ConstraintTemplate"))
			check_template(t, path, doc);
	}
}

static void check_file(struct tally *t, const char *path)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_str text = RF_STR_EMPTY;
	bool v0 = strstr(path, "/v0/") != NULL || strstr(path, "gatekeeper") != NULL;
	enum rf_ra_version version = v0 ? RF_RA_V0 : RF_RA_V1;
	struct rf_str name = rf_str(path);
	bool yaml = rf_str_ends(name, RF_LIT(".yaml")), rego = rf_str_ends(name, RF_LIT(".rego"));

	if (!yaml && !rego)
		return;
	if (rf_fs_read(&a, path, 64u << 20, &text, &err) < 0) {
		printf("%s\n", err.msg);
		t->bad++;
	} else if (yaml) {
		check_yaml(t, name, text, version);
	} else {
		check_module(t, name, text, version, false);
	}
}

static void check_path(struct tally *t, const char *path)
{
	struct dirent **entry = NULL;
	struct stat st;
	int n;

	if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
		check_file(t, path);
		return;
	}
	n = scandir(path, &entry, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		rf_auto(buf) below = RF_BUF_INIT;

		rf_buf_printf(&below, "%s/%s", path, entry[i]->d_name);
		if (entry[i]->d_name[0] != '.')
			check_path(t, below.p);
		free(entry[i]);
	}
	free(entry);
}

int main(int argc, char **argv)
{
	struct tally t = { 0 };

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "-r") == 0)
			t.again = true;
		else
			check_path(&t, argv[i]);
	}
	printf("%zu modules, %zu queries, %zu input terms, %zu templates: %zu not as they should "
	       "be\n",
	       t.modules, t.queries, t.values, t.templates, t.bad);
	return t.bad > 0 || t.modules == 0;
}
