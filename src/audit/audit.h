/* audit: what a cluster that shares GPUs lacks, by layer and severity. Objects in, findings out.
 *
 *	struct rf_audit *x = rf_audit_new();
 *	rf_audit_add(x, object, source)          each object; or rf_audit_fetch / rf_audit_read_files
 *	rf_audit_policies(x, dir, err)           Gatekeeper's policies and plain Rego from files, if any
 *	rf_audit_run(x, &opts)                   every check of the table, every policy
 *	rf_audit_write(x, RF_AUDIT_JSON, &out)
 *
 * Adding and running is pure: no clock, no network. fetch.c (GET only) and files.c do the reading. */
#ifndef RF_AUDIT_H
#define RF_AUDIT_H

#include "base/base.h"
#include "codec/json.h"
#include "kube/kube.h"

#define RF_AUDIT_MEMORY ((size_t)2 << 30) /* of all objects together */
#define RF_AUDIT_OBJECT_MAX                                                                        \
	((size_t)8 << 20)	/* of one, as a tree; larger ones are named and not judged */
#define RF_AUDIT_PER_CHECK 1000 /* findings of one check that are told; all are counted */
#define RF_AUDIT_SOON_DAYS 30	/* a certificate that ends earlier "ends soon" */

enum rf_audit_layer { RF_AUDIT_API, RF_AUDIT_SCHED, RF_AUDIT_NODE, RF_AUDIT_OPS, RF_AUDIT_LAYERS };
enum rf_audit_severity {
	RF_AUDIT_LOW,
	RF_AUDIT_MEDIUM,
	RF_AUDIT_HIGH,
	RF_AUDIT_CRITICAL,
	RF_AUDIT_SEVERITIES
};
const char *rf_audit_layer_name(enum rf_audit_layer layer);   /* "api" */
const char *rf_audit_layer_title(enum rf_audit_layer layer);  /* "Layer 1: API and tenancy" */
const char *rf_audit_severity_name(enum rf_audit_severity s); /* "high" */
bool rf_audit_severity_parse(struct rf_str name, enum rf_audit_severity *ret);

struct rf_audit;

/* A row of the table of checks. Ids are never used for something else. */
struct rf_audit_check {
	const char *id; /* "RF-API-01" */
	enum rf_audit_layer layer;
	enum rf_audit_severity severity; /* a finding may say another one */
	const char *title, *why, *fix, *reference;
	/* Kinds that must have been seen whole for the check to mean anything, space-separated. */
	const char *needs;
	bool cluster_only; /* about what a whole cluster lacks: means nothing over a few files */
	void (*run)(struct rf_audit *x,
		    const struct rf_audit_check *check); /* NULL: made elsewhere */
};
/* All rows, by layer. NULL past the last. */
const struct rf_audit_check *rf_audit_check(size_t i);

struct rf_audit_finding {
	const struct rf_audit_check *check;
	enum rf_audit_layer layer;
	enum rf_audit_severity severity;
	struct rf_str kind, ns, name; /* the object; empty: the cluster */
	struct rf_str field;  /* "spec.containers[0].securityContext.privileged", or empty */
	struct rf_str found;  /* what was found */
	struct rf_str fix;    /* what to do, for this object */
	struct rf_str source; /* the file it came from, or empty */
	struct rf_str policy; /* "K8sRequiredLabels/owner", or empty */
	size_t also;	      /* other objects of the same owner with the same finding */
};

struct rf_audit *rf_audit_new(void);
void rf_audit_free(struct rf_audit *x);
RF_DEFINE_AUTO_PTR(audit);

/* Copies it (without managedFields and without what Secrets hold). A List is taken apart. source: the
 * file, "" for a cluster. Too large: told as a finding. RF_TOO_LARGE: all together are. */
int rf_audit_add(struct rf_audit *x, const struct rf_json *object, struct rf_str source,
		 struct rf_err *err);
/* From a cluster: the API serves that kind, and all of it was seen (why NULL) or it was not. */
void rf_audit_kind(struct rf_audit *x, struct rf_str kind, struct rf_str group, const char *why);

/* Everything of every kind that can be listed, by GET alone. ns: only that namespace's, and what has no
 * namespace. What may not be listed is noted. Errors: the API cannot be reached or does not let us in. */
int rf_audit_fetch(struct rf_audit *x, struct rf_kube *k, struct rf_str ns, struct rf_err *err);
/* YAML and JSON files, folders with all below. */
int rf_audit_read_files(struct rf_audit *x, char **path, int n, struct rf_err *err);

/* ConstraintTemplates, Constraints and .rego files of a folder and all below, or of the resources that its
 * kustomization.yaml names. Where it has a folder recommended/, constraints and .rego come from there only.
 * What cannot be taken in is a finding. Errors: the folder cannot be read. */
int rf_audit_policies(struct rf_audit *x, const char *dir, struct rf_err *err);

struct rf_audit_opts {
	int64_t now_ms;		      /* for what expires and for the report */
	const struct rf_clock *clock; /* bounds the time policies take; NULL: no bound */
	struct rf_str ns;	      /* tell findings of this namespace only */
	struct rf_str target;	      /* what was looked at, for the report */
};
void rf_audit_run(struct rf_audit *x, const struct rf_audit_opts *opts);

/* In order: layer, the more severe first, id, object. */
const struct rf_audit_finding *rf_audit_finding(const struct rf_audit *x, size_t i);
size_t rf_audit_count(const struct rf_audit *x, enum rf_audit_layer layer,
		      enum rf_audit_severity s);
bool rf_audit_any(const struct rf_audit *x, enum rf_audit_severity least);

enum rf_audit_format { RF_AUDIT_TABLE, RF_AUDIT_JSON, RF_AUDIT_SARIF, RF_AUDIT_HTML };
bool rf_audit_format_parse(const char *name, enum rf_audit_format *ret);
struct rf_audit_look { /* of the table */
	int width;     /* columns; 0: 80 */
	bool colour;
};
void rf_audit_write(const struct rf_audit *x, enum rf_audit_format f,
		    const struct rf_audit_look *look, struct rf_buf *out);

#endif
