/* YAML as Kubernetes manifests use it, straight into JSON values: libyaml's scanner, YAML 1.1 core
 * scalars as Kubernetes resolves them, anchors expanded under a cap, duplicate keys refused, no
 * tags beyond the core ones. */
#ifndef RF_CODEC_YAML_H
#define RF_CODEC_YAML_H

#include "codec/json.h"

/* All documents of a stream, as an array; empty documents are left out. */
int rf_yaml_parse(struct rf_arena *a, struct rf_str text, struct rf_json **ret_docs,
		  struct rf_err *err);
/* As OPA reads YAML, by version 1.2: true and false alone are booleans; y, no, on and the like are text. */
int rf_yaml_parse_core(struct rf_arena *a, struct rf_str text, struct rf_json **ret_docs,
		       struct rf_err *err);
/* Block style, for people: kubeconfigs and -o yaml. Reads back to the same value. */
void rf_yaml_write(struct rf_buf *out, const struct rf_json *v);

#endif
