#include "kube/merge_keys.h"

#define END                                                                                        \
	{                                                                                          \
		NULL, NULL, NULL                                                                   \
	}
#define FIELDS static const struct rf_merge_field

FIELDS METADATA[] = { { "ownerReferences", "uid", NULL }, { "finalizers", "", NULL }, END };

FIELDS CONTAINER[] = { { "env", "name", NULL },
		       { "ports", "containerPort", NULL },
		       { "volumeMounts", "mountPath", NULL },
		       { "volumeDevices", "devicePath", NULL },
		       END };

/* Tolerations are replaced as a whole: two may share every field but one. */
FIELDS POD_SPEC[] = { { "containers", "name", CONTAINER },
		      { "initContainers", "name", CONTAINER },
		      { "ephemeralContainers", "name", CONTAINER },
		      { "volumes", "name", NULL },
		      { "imagePullSecrets", "name", NULL },
		      { "hostAliases", "ip", NULL },
		      { "topologySpreadConstraints", "topologyKey", NULL },
		      { "schedulingGates", "name", NULL },
		      { "resourceClaims", "name", NULL },
		      END };

FIELDS POD_STATUS[] = { { "conditions", "type", NULL },
			{ "podIPs", "ip", NULL },
			{ "hostIPs", "ip", NULL },
			{ "resourceClaimStatuses", "name", NULL },
			END };

FIELDS POD[] = { { "metadata", NULL, METADATA },
		 { "spec", NULL, POD_SPEC },
		 { "status", NULL, POD_STATUS },
		 END };

FIELDS CONDITIONS[] = { { "conditions", "type", NULL }, END };

/* A node's taints are replaced as a whole: one key may have several effects, and who removes a
 * taint sends the taints that stay. */
FIELDS NODE_SPEC[] = { { "podCIDRs", "", NULL }, END };
FIELDS NODE_STATUS[] = { { "conditions", "type", NULL }, { "addresses", "type", NULL }, END };
FIELDS NODE[] = { { "metadata", NULL, METADATA },
		  { "spec", NULL, NODE_SPEC },
		  { "status", NULL, NODE_STATUS },
		  END };

FIELDS SERVICE_SPEC[] = { { "ports", "port", NULL }, END };
FIELDS SERVICE[] = { { "metadata", NULL, METADATA },
		     { "spec", NULL, SERVICE_SPEC },
		     { "status", NULL, CONDITIONS },
		     END };

FIELDS SERVICE_ACCOUNT[] = { { "metadata", NULL, METADATA }, { "secrets", "name", NULL }, END };

FIELDS CLAIM_STATUS[] = { { "reservedFor", "uid", NULL }, END };
FIELDS CLAIM[] = { { "metadata", NULL, METADATA }, { "status", NULL, CLAIM_STATUS }, END };

/* What holds a pod template: workloads, and CronJob one level further in. */
FIELDS TEMPLATE[] = { { "metadata", NULL, METADATA }, { "spec", NULL, POD_SPEC }, END };
FIELDS WORKLOAD_SPEC[] = { { "template", NULL, TEMPLATE }, END };
FIELDS WORKLOAD[] = { { "metadata", NULL, METADATA },
		      { "spec", NULL, WORKLOAD_SPEC },
		      { "status", NULL, CONDITIONS },
		      END };
FIELDS JOB_TEMPLATE[] = { { "metadata", NULL, METADATA }, { "spec", NULL, WORKLOAD_SPEC }, END };
FIELDS CRONJOB_SPEC[] = { { "jobTemplate", NULL, JOB_TEMPLATE }, END };
FIELDS CRONJOB[] = { { "metadata", NULL, METADATA }, { "spec", NULL, CRONJOB_SPEC }, END };
FIELDS POD_TEMPLATE[] = { { "metadata", NULL, METADATA }, { "template", NULL, TEMPLATE }, END };

FIELDS WITH_CONDITIONS[] = { { "metadata", NULL, METADATA }, { "status", NULL, CONDITIONS }, END };
FIELDS PLAIN[] = { { "metadata", NULL, METADATA }, END };

static const struct {
	const char *kind;
	const struct rf_merge_field *fields;
} KINDS[] = {
	{ "Pod", POD },
	{ "Node", NODE },
	{ "Namespace", WITH_CONDITIONS },
	{ "ServiceAccount", SERVICE_ACCOUNT },
	{ "Service", SERVICE },
	{ "ResourceClaim", CLAIM },
	{ "Deployment", WORKLOAD },
	{ "ReplicaSet", WORKLOAD },
	{ "StatefulSet", WORKLOAD },
	{ "DaemonSet", WORKLOAD },
	{ "ReplicationController", WORKLOAD },
	{ "Job", WORKLOAD },
	{ "CronJob", CRONJOB },
	{ "PodTemplate", POD_TEMPLATE },
	{ "PersistentVolumeClaim", WITH_CONDITIONS },
	{ "ClusterRole", PLAIN },
	{ "ClusterRoleBinding", PLAIN },
	{ "ConfigMap", PLAIN },
	{ "DeviceClass", PLAIN },
	{ "Event", PLAIN },
	{ "Lease", PLAIN },
	{ "LimitRange", PLAIN },
	{ "PersistentVolume", PLAIN },
	{ "PodDisruptionBudget", PLAIN },
	{ "PriorityClass", PLAIN },
	{ "ResourceClaimTemplate", PLAIN },
	{ "ResourceQuota", PLAIN },
	{ "ResourceSlice", PLAIN },
	{ "Role", PLAIN },
	{ "RoleBinding", PLAIN },
	{ "RuntimeClass", PLAIN },
	{ "Secret", PLAIN },
	{ "StorageClass", PLAIN },
};

const struct rf_merge_field *rf_merge_fields(struct rf_str kind)
{
	for (size_t i = 0; i < RF_COUNT(KINDS); i++)
		if (rf_str_is(kind, KINDS[i].kind))
			return KINDS[i].fields;
	return NULL;
}

const struct rf_merge_field *rf_merge_field(const struct rf_merge_field *fields, struct rf_str name)
{
	for (; fields != NULL && fields->name != NULL; fields++)
		if (rf_str_is(name, fields->name))
			return fields;
	return NULL;
}
