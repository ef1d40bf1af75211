/* What the YAML reader and writer share: what a plain scalar means. */
#ifndef RF_CODEC_YAML_PRIVATE_H
#define RF_CODEC_YAML_PRIVATE_H

#include "codec/yaml.h"

enum rf_yaml_kind {
	RF_YAML_STRING,
	RF_YAML_NULL,
	RF_YAML_TRUE,
	RF_YAML_FALSE,
	RF_YAML_NUMBER,
	RF_YAML_BEYOND_JSON, /* .inf, .nan, 0x and the like past 64 bits */
};

/* What Kubernetes' YAML reader takes an unquoted scalar for. For RF_YAML_NUMBER, *number becomes
 * its JSON text. */
enum rf_yaml_kind rf_yaml_resolve(struct rf_str plain, struct rf_buf *number);

#endif
