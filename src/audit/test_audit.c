/* Every check with objects it must speak about and objects it must not; then what the reports promise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/private.h"
#include "base/fs.h"
#include "codec/base64.h"
#include "codec/yaml.h"
#include "net/ossl.h"

#include <openssl/pem.h>

#define NOW 1800000000000 /* 2027-01-15 */
#define SEP "\n---\n"
#define GPU "resources: {limits: {nvidia.com/gpu: 1}}"
#define POD_IN(ns, name, spec)                                                                     \
	"{apiVersion: v1, kind: Pod, metadata: {name: " name ", namespace: " ns "}, spec: {" spec "}}" SEP
#define POD(spec) POD_IN("team-a", "p", spec)
#define GPU_POD POD("containers: [{name: c, image: i, " GPU "}]")
#define GPU_DEPLOYMENT(spec)                                                                       \
	"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: team-a}, spec: {template: {spec: {" spec         \
	"containers: [{name: c, " GPU "}]}}}}" SEP
#define QUIET_ACCOUNT                                                                              \
	"{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: team-a}, automountServiceAccountToken: "     \
	"false}" SEP
#define NS(name, labels) "{apiVersion: v1, kind: Namespace, metadata: {name: " name ", labels: {" labels "}}}" SEP
#define QUOTA(spec) "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q, namespace: team-a}, spec: {" spec "}}" SEP
#define NETPOL(spec)                                                                               \
	"{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: n, namespace: team-a}, spec: {" spec "}}" SEP
#define SERVICE(name, spec) "{apiVersion: v1, kind: Service, metadata: {name: " name ", namespace: team-a}, spec: {" spec "}}" SEP
#define RBAC(kind, meta, rest) "{apiVersion: rbac.authorization.k8s.io/v1, kind: " kind ", metadata: {" meta "}, " rest "}" SEP
#define ROLE(rules) RBAC("ClusterRole", "name: r", "rules: [" rules "]")
#define BIND(subject) RBAC("ClusterRoleBinding", "name: b", "roleRef: {kind: ClusterRole, name: r}, subjects: [" subject "]")
#define BIND_IN(ns, subject)                                                                       \
	RBAC("RoleBinding", "name: b, namespace: " ns, "roleRef: {kind: ClusterRole, name: r}, subjects: [" subject "]")
#define ALICE "{kind: User, name: alice}"
#define READ_PODS "{apiGroups: [''], resources: [pods], verbs: [get, list]}"
#define NODE(name, spec, status) "{apiVersion: v1, kind: Node, metadata: {name: " name "}, spec: {" spec "}, status: {" status "}}" SEP
#define HAS_GPU "capacity: {nvidia.com/gpu: 8}"
#define CLASS(name, rest) "{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: " name "}, " rest "}" SEP
#define TENANT(name, spec) "{apiVersion: ringfence.io/v1alpha1, kind: Tenant, metadata: {name: " name "}, spec: {" spec "}}" SEP
#define DAEMON(ns, spec)                                                                           \
	"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, namespace: " ns "}, spec: {template: {spec: {" spec "}}}}" SEP
#define PLUGIN "image: nvcr.io/nvidia/k8s-device-plugin:v0.17.1"
#define HOOK(kind, rest)                                                                           \
	"{apiVersion: admissionregistration.k8s.io/v1, kind: " kind ", metadata: {name: w}, webhooks: [{name: h.example.com, "    \
	"rules: [{apiGroups: [''], resources: [pods], operations: [CREATE]}], " rest "}]}" SEP
#define POD_RULES "name: i.example.com, rules: [{apiGroups: [''], resources: [pods], operations: [CREATE]}]"
#define FAIL_IF(expression) POD_RULES ", failurePolicy: Fail, matchConditions: [{name: m, expression: " expression "}]"
#define VAP(kind, name, spec) "{apiVersion: admissionregistration.k8s.io/v1, kind: " kind ", metadata: {name: " name "}, spec: {" spec "}}" SEP
#define CONSTRAINT(spec) "{apiVersion: constraints.gatekeeper.sh/v1beta1, kind: K8sX, metadata: {name: x}, " spec "}" SEP
#define CLAIM(ns, name, rest)                                                                      \
	"{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, metadata: {name: " name ", namespace: " ns "}, " rest "}" SEP
#define HOLDS "status: {allocation: {devices: {results: [{driver: gpu.nvidia.com, pool: n1, device: gpu-0}]}}}"
#define SLICE(start)                                                                               \
	"status: {allocation: {devices: {results: [{request: c, driver: ringfence.io, pool: n1, device: gpu-0}], config: "   \
	"[{requests: [c], opaque: {driver: ringfence.io, parameters: {profile: 1g.10gb, starts: [" start "]}}}]}}}"
#define IN_RACK(name, rack)                                                                         \
	"{apiVersion: v1, kind: Node, metadata: {name: " name ", labels: {topology.kubernetes.io/rack: " rack "}}, status: {" HAS_GPU "}}" SEP
#define HOLD(ns, card)                                                                             \
	CLAIM(ns, "held", "status: {allocation: {devices: {results: [{request: c, driver: ringfence.io, pool: n1, device: " card "}]}}}")
/* Tenant a with this isolation, and team-b: a card each of one node. */
#define TWO(level)                                                                                 \
	TENANT("a", "isolation: " level) NS("team-a", "ringfence.io/tenant: a") HOLD("team-a", "gpu-0") HOLD("team-b", "gpu-1")
#define CARD(name, numa, island) "{name: " name ", attributes: {numaNode: {int: " numa "}, nvlinkIsland: {int: " island "}}}"
#define CARDS(numa0, island0, numa1, island1)                                                      \
	"{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: ringfence.io, nodeName: n1, "  \
	"pool: {name: n1}, devices: [" CARD("gpu-0", numa0, island0) ", " CARD("gpu-1", numa1, island1) "]}}" SEP
#define EXPORTER "containers: [{name: e, image: 'nvcr.io/nvidia/k8s/dcgm-exporter:4.1'}]"

struct one_case {
	const char *id, *bad, *good;
};

static const struct one_case CASES[] = {
	/* layer 1 */
	{ "RF-API-01", GPU_POD, GPU_POD QUOTA("hard: {requests.nvidia.com/gpu: '4'}") },
	{ "RF-API-01", GPU_POD QUOTA("hard: {limits.nvidia.com/gpu: '4'}"), POD("containers: [{name: c}]") },
	{ "RF-API-01", GPU_POD QUOTA("hard: {pods: '4'}"),
	  GPU_POD QUOTA("hard: {gpu.nvidia.com.deviceclass.resource.k8s.io/devices: '4'}") },
	{ "RF-API-02", QUOTA("hard: {limits.gpu.example.com/device: '4'}"), QUOTA("hard: {requests.gpu.example.com/device: '4'}") },
	{ "RF-API-02", QUOTA("hard: {nvidia.com/gpu: '4'}"), QUOTA("hard: {limits.cpu: '4', count/pods: '3', pods: '3'}") },
	{ "RF-API-03", GPU_POD, GPU_POD "{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: team-a}}" SEP },
	{ "RF-API-04", GPU_POD, GPU_POD NETPOL("podSelector: {}, policyTypes: [Ingress]") },
	{ "RF-API-04", GPU_POD NETPOL("podSelector: {}, policyTypes: [Ingress], ingress: [{}]"), GPU_POD NETPOL("podSelector: {}") },
	{ "RF-API-04", GPU_POD NETPOL("podSelector: {matchLabels: {a: b}}, policyTypes: [Ingress]"),
	  GPU_POD NETPOL("podSelector: {}, ingress: [{from: [{podSelector: {}}]}]") },
	{ "RF-API-05", GPU_POD NETPOL("podSelector: {}, policyTypes: [Ingress]"),
	  GPU_POD NETPOL("podSelector: {}, policyTypes: [Ingress, Egress]") },
	{ "RF-API-06", GPU_POD NS("team-a", ""), GPU_POD NS("team-a", "pod-security.kubernetes.io/enforce: baseline") },
	{ "RF-API-06", NS("team-a", "ringfence.io/tenant: a, pod-security.kubernetes.io/enforce: privileged"),
	  NS("team-a", "ringfence.io/tenant: a, pod-security.kubernetes.io/enforce: restricted") NS("plain", "") },
	{ "RF-API-07", GPU_POD NS("team-a", "pod-security.kubernetes.io/enforce: baseline"),
	  GPU_POD NS("team-a", "pod-security.kubernetes.io/enforce: restricted") },
	{ "RF-API-08", GPU_POD NS("team-a", "") NS("team-b", "ringfence.io/tenant: b"), GPU_POD NS("team-a", "ringfence.io/tenant: a") },
	{ "RF-API-09", GPU_POD QUOTA("hard: {pods: '3'}"),
	  GPU_POD QUOTA("hard: {pods: '3', requests.cpu: '3', limits.memory: 3Gi}") },
	{ "RF-API-10",
	  POD("containers: [{name: c, volumeMounts: [{name: t, mountPath: /var/run/secrets/kubernetes.io/serviceaccount}], " GPU "}]"),
	  GPU_POD }, /* a pod that is there, and was given none */
	{ "RF-API-10", GPU_DEPLOYMENT(""), GPU_DEPLOYMENT("automountServiceAccountToken: false, ") },
	{ "RF-API-10", GPU_DEPLOYMENT("serviceAccountName: other, ") QUIET_ACCOUNT, GPU_DEPLOYMENT("") QUIET_ACCOUNT },
	{ "RF-API-10", GPU_DEPLOYMENT("automountServiceAccountToken: true, ") QUIET_ACCOUNT, POD("containers: [{name: c}]") },
	{ "RF-API-11", GPU_POD SERVICE("s", "type: NodePort"), GPU_POD SERVICE("s", "type: ClusterIP") },
	{ "RF-API-11", GPU_POD SERVICE("s", "externalIPs: [10.0.0.1]"), SERVICE("s", "type: NodePort") },
	{ "RF-API-12", POD("hostPID: true, containers: [{name: c, " GPU "}]"), GPU_POD },
	/* who may do what */
	{ "RF-API-20", ROLE("{apiGroups: ['*'], resources: ['*'], verbs: ['*']}") BIND(ALICE),
	  ROLE("{apiGroups: ['*'], resources: ['*'], verbs: ['*']}") BIND("{kind: Group, name: 'system:masters'}") },
	{ "RF-API-20",
	  RBAC("ClusterRoleBinding", "name: b",
	       "roleRef: {kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: x, namespace: team-a}]"),
	  RBAC("ClusterRoleBinding", "name: b",
	       "roleRef: {kind: ClusterRole, name: cluster-admin}, subjects: [{kind: ServiceAccount, name: x, namespace: kube-system}]") },
	{ "RF-API-21", ROLE("{apiGroups: [''], resources: ['*'], verbs: [get]}") BIND_IN("team-a", ALICE),
	  ROLE(READ_PODS) BIND_IN("team-a", ALICE) },
	{ "RF-API-21", ROLE("{apiGroups: [''], resources: [pods], verbs: ['*']}") BIND(ALICE),
	  ROLE("{apiGroups: [''], resources: ['*'], verbs: ['*']}") BIND_IN("kube-system", ALICE) },
	{ "RF-API-22", ROLE("{apiGroups: [''], resources: [secrets], verbs: [list]}") BIND(ALICE),
	  ROLE("{apiGroups: [''], resources: [secrets], verbs: [list]}") BIND_IN("team-a", ALICE) },
	{ "RF-API-22", ROLE("{apiGroups: ['*'], resources: ['*'], verbs: [get]}") BIND(ALICE),
	  ROLE("{apiGroups: [''], resources: [secrets], verbs: [get], resourceNames: [one]}") BIND(ALICE) },
	{ "RF-API-23", ROLE("{apiGroups: [''], resources: [pods/exec], verbs: [create]}") BIND(ALICE),
	  ROLE("{apiGroups: [''], resources: [pods/exec], verbs: [create]}") BIND_IN("team-a", ALICE) },
	{ "RF-API-24", ROLE("{apiGroups: [''], resources: [users], verbs: [impersonate]}") BIND(ALICE), ROLE(READ_PODS) BIND(ALICE) },
	{ "RF-API-24", ROLE("{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [escalate]}") BIND_IN("team-a", ALICE),
	  ROLE("{apiGroups: [rbac.authorization.k8s.io], resources: [roles], verbs: [create, update]}") BIND_IN("team-a", ALICE) },
	{ "RF-API-25", ROLE("{apiGroups: [''], resources: [nodes/proxy], verbs: [get]}") BIND(ALICE),
	  ROLE("{apiGroups: [''], resources: [nodes/metrics], verbs: [get]}") BIND(ALICE) },
	{ "RF-API-26", ROLE(READ_PODS) BIND_IN("team-a", "{kind: ServiceAccount, name: default}"),
	  ROLE(READ_PODS) BIND_IN("team-a", "{kind: ServiceAccount, name: runner}") },
	{ "RF-API-27", ROLE(READ_PODS) BIND("{kind: Group, name: 'system:unauthenticated'}"), ROLE(READ_PODS) BIND(ALICE) },
	{ "RF-API-27", ROLE(READ_PODS) BIND("{kind: Group, name: 'system:authenticated'}"),
	  RBAC("ClusterRoleBinding", "name: b",
	       "roleRef: {kind: ClusterRole, name: 'system:discovery'}, subjects: [{kind: Group, name: 'system:authenticated'}]") },
	{ "RF-API-28", ROLE(READ_PODS) BIND_IN("team-b", "{kind: ServiceAccount, name: x, namespace: team-a}"),
	  ROLE(READ_PODS) BIND_IN("team-a", "{kind: ServiceAccount, name: x, namespace: team-a}") },
	{ "RF-API-28",
	  TENANT("a", "owners: [{kind: User, name: alice}]") NS("team-b", "ringfence.io/tenant: b") ROLE(READ_PODS)
		  BIND_IN("team-b", ALICE),
	  TENANT("a", "owners: [{kind: User, name: alice}]") TENANT("b", "owners: [{kind: User, name: alice}]")
		  NS("team-b", "ringfence.io/tenant: b") ROLE(READ_PODS) BIND_IN("team-b", ALICE) },
	{ "RF-API-29", ROLE("{apiGroups: [''], resources: [resourcequotas], verbs: [update]}") BIND_IN("team-a", ALICE),
	  ROLE("{apiGroups: [''], resources: [resourcequotas], verbs: [get, list, watch]}") BIND_IN("team-a", ALICE) },
	{ "RF-API-30", ROLE("{apiGroups: [''], resources: [persistentvolumes], verbs: [create]}") BIND(ALICE),
	  ROLE("{apiGroups: [''], resources: [persistentvolumes], verbs: [get]}") BIND(ALICE) },
	{ "RF-API-30", ROLE("{apiGroups: [resource.k8s.io], resources: [resourceclaims/status], verbs: [patch]}") BIND(ALICE),
	  ROLE("{apiGroups: [resource.k8s.io], resources: [resourceclaims], verbs: [create]}") BIND_IN("team-a", ALICE) },
	/* layer 2 */
	{ "RF-SCHED-01", GPU_POD "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: q}}" SEP,
	  "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team-a, labels: {kueue.x-k8s.io/queue-name: q}}, spec: "
	  "{containers: [{name: c, " GPU "}]}}" SEP
	  "{apiVersion: kueue.x-k8s.io/v1beta1, kind: ClusterQueue, metadata: {name: q}}" SEP },
	{ "RF-SCHED-02", GPU_POD POD_IN("team-b", "q", "containers: [{name: c, " GPU "}]"), GPU_POD },
	{ "RF-SCHED-03", GPU_POD, POD("priorityClassName: low, containers: [{name: c, " GPU "}]") },
	{ "RF-SCHED-04", GPU_POD CLASS("high", "value: 1000"), GPU_POD CLASS("high", "value: 1000, preemptionPolicy: Never") },
	{ "RF-SCHED-04", GPU_POD CLASS("high", "value: 1000") QUOTA("hard: {pods: 3}"),
	  GPU_POD CLASS("high", "value: 1000")
		  QUOTA("hard: {pods: 0}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: [high]}]}") },
	{ "RF-SCHED-05", GPU_POD CLASS("system-node-critical", "value: 2000001000"), GPU_POD CLASS("low", "value: 1") },
	{ "RF-SCHED-06", NODE("n1", "", HAS_GPU) NODE("n2", "", ""),
	  NODE("n1", "taints: [{key: nvidia.com/gpu, effect: NoSchedule}]", HAS_GPU) NODE("n2", "", "") },
	{ "RF-SCHED-06", NODE("n1", "taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]", HAS_GPU),
	  NODE("n2", "", "") },
	{ "RF-SCHED-07", POD("containers: [{name: c, " GPU "}], tolerations: [{operator: Exists}]"),
	  POD("containers: [{name: c, " GPU "}], tolerations: [{key: nvidia.com/gpu, operator: Exists}]") },
	{ "RF-SCHED-08", NODE("n1", "", HAS_GPU) POD("nodeName: n1, containers: [{name: c}]"),
	  NODE("n1", "", HAS_GPU) POD("nodeName: n1, containers: [{name: c, " GPU "}]") },
	{ "RF-SCHED-09",
	  TENANT("a", "isolation: node") NS("team-a", "ringfence.io/tenant: a") POD("nodeName: n1, containers: [{name: c, " GPU "}]")
		  POD_IN("team-b", "q", "nodeName: n1, containers: [{name: c}]"),
	  TENANT("a", "isolation: gpu") NS("team-a", "ringfence.io/tenant: a") POD("nodeName: n1, containers: [{name: c, " GPU "}]")
		  POD_IN("team-b", "q", "nodeName: n1, containers: [{name: c}]") },
	{ "RF-SCHED-10", CLAIM("team-a", "x", HOLDS) CLAIM("team-b", "y", HOLDS), CLAIM("team-a", "x", HOLDS) CLAIM("team-a", "y", HOLDS) },
	{ "RF-SCHED-10",
	  TENANT("a", "isolation: share, trustDomain: t") TENANT("b", "isolation: gpu, trustDomain: t")
		  NS("team-a", "ringfence.io/tenant: a") NS("team-b", "ringfence.io/tenant: b") CLAIM("team-a", "x", HOLDS)
			  CLAIM("team-b", "y", HOLDS),
	  TENANT("a", "isolation: share, trustDomain: t") TENANT("b", "isolation: share, trustDomain: t")
		  NS("team-a", "ringfence.io/tenant: a") NS("team-b", "ringfence.io/tenant: b") CLAIM("team-a", "x", HOLDS)
			  CLAIM("team-b", "y", HOLDS) },
	{ "RF-SCHED-10", CLAIM("team-a", "x", SLICE("3")) CLAIM("team-b", "y", SLICE("3")),
	  CLAIM("team-a", "x", SLICE("3")) CLAIM("team-b", "y", SLICE("0")) },
	{ "RF-SCHED-11", POD("nodeName: n1, containers: [{name: c, " GPU "}]"),
	  "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team-a}, spec: {nodeName: n1, containers: [{name: c, " GPU
	  "}]}, status: {phase: Running}}" SEP },
	{ "RF-SCHED-12",
	  TENANT("a", "isolation: rack") NS("team-a", "ringfence.io/tenant: a") IN_RACK("n1", "r1") IN_RACK("n2", "r1")
		  POD("nodeName: n1, containers: [{name: c, " GPU "}]") POD_IN("team-b", "q", "nodeName: n2, containers: [{name: c}]"),
	  TENANT("a", "isolation: rack") NS("team-a", "ringfence.io/tenant: a") IN_RACK("n1", "r1") IN_RACK("n2", "r2")
		  POD("nodeName: n1, containers: [{name: c, " GPU "}]") POD_IN("team-b", "q", "nodeName: n2, containers: [{name: c}]") },
	{ "RF-SCHED-12",
	  TENANT("a", "isolation: rack") NS("team-a", "ringfence.io/tenant: a") NODE("n1", "", HAS_GPU)
		  POD("nodeName: n1, containers: [{name: c, " GPU "}]"),
	  TENANT("a", "isolation: node") NS("team-a", "ringfence.io/tenant: a") NODE("n1", "", HAS_GPU)
		  POD("nodeName: n1, containers: [{name: c, " GPU "}]") },
	{ "RF-SCHED-13", TWO("numa") CARDS("1", "0", "1", "1"), TWO("numa") CARDS("0", "0", "1", "0") },
	{ "RF-SCHED-13", TWO("nvlink") CARDS("0", "0", "1", "0"), TWO("nvlink") CARDS("1", "0", "1", "1") },
	/* a card that nobody says anything of, of one driver or another, may be anywhere */
	{ "RF-SCHED-13", TWO("numa"), TWO("gpu") },
	{ "RF-SCHED-13", TWO("nvlink") CARDS("0", "0", "1", "-1"), TWO("gpu") CARDS("0", "0", "1", "-1") },
	{ "RF-SCHED-13",
	  TENANT("a", "isolation: nvlink") NS("team-a", "ringfence.io/tenant: a") CARDS("0", "0", "1", "1") HOLD("team-a", "gpu-0")
		  CLAIM("team-b", "y", HOLDS),
	  TENANT("a", "isolation: nvlink") NS("team-a", "ringfence.io/tenant: a") CARDS("0", "0", "0", "0") HOLD("team-a", "gpu-0")
		  CLAIM("kube-system", "y", HOLDS) },
	/* layer 3 */
	{ "RF-NODE-01", POD("containers: [{name: c, securityContext: {privileged: true}}]"),
	  POD_IN("kube-system", "p", "containers: [{name: c, securityContext: {privileged: true}}]") },
	{ "RF-NODE-01", POD("containers: [{name: c}], initContainers: [{name: d, securityContext: {privileged: true}}]"), GPU_POD },
	{ "RF-NODE-02", POD("containers: [{name: c}], volumes: [{name: v, hostPath: {path: '/tmp/../dev/nvidia0'}}]"),
	  POD("containers: [{name: c}], volumes: [{name: v, emptyDir: {}}]") },
	{ "RF-NODE-02", POD("containers: [{name: c}], volumes: [{name: v, hostPath: {path: /}}]"),
	  POD("containers: [{name: c}], volumes: [{name: v, hostPath: {path: /devices}}]") },
	{ "RF-NODE-03", POD("containers: [{name: c}], volumes: [{name: v, hostPath: {path: /data}}]"),
	  POD("containers: [{name: c}], volumes: [{name: v, hostPath: {path: /dev}}]") },
	{ "RF-NODE-04", POD("hostIPC: true, containers: [{name: c}]"), POD("hostIPC: false, containers: [{name: c}]") },
	{ "RF-NODE-05", POD("containers: [{name: c, env: [{name: NVIDIA_VISIBLE_DEVICES, value: all}]}]"),
	  POD("containers: [{name: c, env: [{name: NVIDIA_VISIBLE_DEVICES, value: none}, {name: A, value: all}]}]") },
	{ "RF-NODE-05", POD("containers: [{name: c, env: [{name: NVIDIA_VISIBLE_DEVICES, valueFrom: {fieldRef: {fieldPath: x}}}]}]"), GPU_POD },
	{ "RF-NODE-06",
	  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plugin, namespace: gpu-operator}\ndata:\n  any: |\n    version: v1\n"
	  "    sharing:\n      timeSlicing:\n        resources:\n        - name: nvidia.com/gpu\n          replicas: 10\n" SEP,
	  "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: plugin, namespace: gpu-operator}\ndata:\n  any: |\n    version: v1\n"
	  "    sharing:\n      timeSlicing:\n        resources:\n        - name: nvidia.com/gpu\n          replicas: 1\n" SEP },
	{ "RF-NODE-07", DAEMON("kube-system", "containers: [{name: c, " PLUGIN "}]"),
	  DAEMON("kube-system", "containers: [{name: c, " PLUGIN ", resources: {limits: {memory: 1Gi}}}]") },
	{ "RF-NODE-08", DAEMON("kube-system", "containers: [{name: c, " PLUGIN "}]"),
	  DAEMON("kube-system", "containers: [{name: c, " PLUGIN ", env: [{name: DEVICE_LIST_STRATEGY, value: cdi-cri}]}]") },
	{ "RF-NODE-09", GPU_POD "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}}" SEP,
	  POD("runtimeClassName: nvidia, containers: [{name: c, " GPU "}]")
	  "{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}}" SEP },
	{ "RF-NODE-10", POD("runtimeClassName: nvidia, containers: [{name: c}]"), POD("runtimeClassName: gvisor, containers: [{name: c}]") },
	{ "RF-NODE-11", DAEMON("default", "containers: [{name: c, " PLUGIN "}]"), DAEMON("gpu-operator", "containers: [{name: c, " PLUGIN "}]") },
	{ "RF-NODE-12", DAEMON("kube-system", "hostNetwork: true, containers: [{name: c, " PLUGIN ", ports: [{containerPort: 9400}]}]"),
	  DAEMON("kube-system", "containers: [{name: c, " PLUGIN ", ports: [{containerPort: 9400}]}]") },
	{ "RF-NODE-13", DAEMON("kube-system", "containers: [{name: c, image: 'reg:5000/gpu-device-plugin:latest'}]"),
	  DAEMON("kube-system", "containers: [{name: c, " PLUGIN "}]") },
	{ "RF-NODE-13", DAEMON("kube-system", "containers: [{name: c, image: 'reg:5000/gpu-device-plugin'}]"),
	  DAEMON("kube-system", "containers: [{name: c, image: 'gpu-device-plugin@sha256:00'}]") },
	{ "RF-NODE-14", CLAIM("team-a", "x", "spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu, adminAccess: true}}]}}"),
	  CLAIM("team-a", "x", "spec: {devices: {requests: [{name: g, exactly: {deviceClassName: gpu}}]}}") },
	{ "RF-NODE-14", NS("team-a", "resource.kubernetes.io/admin-access: 'true'"),
	  NS("gpu-operator", "resource.kubernetes.io/admin-access: 'true'") },
	{ "RF-NODE-15",
	  "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {nvidia.com/cuda.driver-version.full: 570.1.1}}}" SEP
	  "{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {nvidia.com/cuda.driver-version.full: 580.1.2}}}" SEP,
	  "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {nvidia.com/cuda.driver-version.full: 580.1.2}}}" SEP
	  "{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {nvidia.com/cuda.driver-version.full: 580.1.2}}}" SEP },
	{ "RF-NODE-16", NODE("n1", "", HAS_GPU ", conditions: [{type: XidCriticalError, status: 'True', message: Xid 79}]"),
	  NODE("n1", "", HAS_GPU ", conditions: [{type: XidCriticalError, status: 'False'}, {type: Ready, status: 'True'}]") },
	{ "RF-NODE-16", NODE("n1", "", HAS_GPU ", conditions: [{type: Ready, status: Unknown}]"),
	  NODE("n1", "", "conditions: [{type: Ready, status: Unknown}]") },
	{ "RF-NODE-16",
	  "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: ringfence.io, devices: [{name: gpu-0, "
	  "taints: [{key: xid, effect: NoExecute}]}]}}" SEP,
	  "{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: s}, spec: {driver: ringfence.io, devices: [{name: gpu-0}]}}" SEP },
	/* layer 4 */
	{ "RF-OPS-01", SERVICE("dcgm-exporter", "type: NodePort"), SERVICE("dcgm-exporter", "type: ClusterIP") SERVICE("web", "type: NodePort") },
	{ "RF-OPS-02", POD(EXPORTER), POD(EXPORTER) NETPOL("podSelector: {}, policyTypes: [Ingress]") },
	{ "RF-OPS-02", POD(EXPORTER) NETPOL("podSelector: {matchLabels: {a: b}}"),
	  POD("containers: [{name: e, image: 'dcgm-exporter:4'}, {name: p, image: 'kube-rbac-proxy:1'}]") },
	{ "RF-OPS-03", POD(EXPORTER) POD_IN("x", "a", "containers: [{name: c, " GPU "}]") POD_IN("y", "b", "containers: [{name: c, " GPU "}]"),
	  POD(EXPORTER) POD_IN("x", "a", "containers: [{name: c, " GPU "}]") POD_IN("y", "b", "containers: [{name: c, " GPU "}]")
		  POD_IN("monitoring", "l", "containers: [{name: p, image: 'prom-label-proxy:1'}]") },
	{ "RF-OPS-04", NODE("n1", "", HAS_GPU), NODE("n1", "", HAS_GPU) POD(EXPORTER) },
	{ "RF-OPS-05", HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore"), HOOK("ValidatingWebhookConfiguration", "failurePolicy: Fail") },
	/* another webhook that holds pods with cards, by a condition that speaks of something else, or of the rest */
	{ "RF-OPS-05", HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore}, {" FAIL_IF("'object.spec.hostNetwork'")),
	  HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore}, {" FAIL_IF("'object.spec.containers.exists(c, \"nvidia.com/gpu\" in c.resources.limits)'")) },
	{ "RF-OPS-05", HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore}, {" FAIL_IF("'!(\"nvidia.com/gpu\" in object.spec.containers[0].resources.limits)'")),
	  HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore}, {" POD_RULES ", failurePolicy: Fail") },
	/* only those with a label, or in another configuration */
	{ "RF-OPS-05", HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore}, {" POD_RULES ", failurePolicy: Fail, objectSelector: {matchLabels: {a: b}}"),
	  HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore}, {" POD_RULES) },
	{ "RF-OPS-05", HOOK("ValidatingWebhookConfiguration", "failurePolicy: Ignore") HOOK("MutatingWebhookConfiguration", "failurePolicy: Fail"),
	  HOOK("MutatingWebhookConfiguration", "failurePolicy: Fail") },
	{ "RF-OPS-06", GPU_POD HOOK("ValidatingWebhookConfiguration", "namespaceSelector: {matchLabels: {policy: 'on'}}"),
	  GPU_POD HOOK("ValidatingWebhookConfiguration",
		       "namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}") },
	{ "RF-OPS-07", HOOK("ValidatingWebhookConfiguration", "objectSelector: {matchLabels: {a: b}}"),
	  HOOK("ValidatingWebhookConfiguration", "objectSelector: {}") },
	{ "RF-OPS-08", HOOK("MutatingWebhookConfiguration", "clientConfig: {caBundle: bm90aGluZw==}"), HOOK("MutatingWebhookConfiguration", "clientConfig: {}") },
	{ "RF-OPS-09", VAP("ValidatingAdmissionPolicy", "v", ""),
	  VAP("ValidatingAdmissionPolicy", "v", "") VAP("ValidatingAdmissionPolicyBinding", "b", "policyName: v, validationActions: [Deny]") },
	{ "RF-OPS-10", VAP("ValidatingAdmissionPolicy", "v", "") VAP("ValidatingAdmissionPolicyBinding", "b", "policyName: v, validationActions: [Warn]"),
	  VAP("ValidatingAdmissionPolicy", "v", "") VAP("ValidatingAdmissionPolicyBinding", "b", "policyName: v, validationActions: [Warn, Deny]") },
	{ "RF-OPS-11", CONSTRAINT("spec: {enforcementAction: dryrun}"), CONSTRAINT("spec: {}") },
	{ "RF-OPS-12", CONSTRAINT("status: {totalViolations: 3}"), CONSTRAINT("status: {totalViolations: 0}") },
	{ "RF-OPS-13", GPU_POD, GPU_POD VAP("ValidatingAdmissionPolicy", "v", "") },
	{ "RF-OPS-13", GPU_POD "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: w}}" SEP,
	  GPU_POD HOOK("ValidatingWebhookConfiguration", "failurePolicy: Fail") },
	{ "RF-OPS-14", POD_IN("kube-system", "kube-apiserver-m1", "containers: [{name: a, command: [kube-apiserver]}]"),
	  POD_IN("kube-system", "kube-apiserver-m1",
		 "containers: [{name: a, command: [kube-apiserver, --audit-policy-file=/p, --audit-log-path=/l]}]") },
};

/* Told elsewhere than by a row's own function; each has a test of its own below. */
static const char *const OTHERS[] = { "RF-OPS-90", "RF-OPS-91", "RF-OPS-92", "RF-POL-01" };

/* --- helpers -------------------------------------------------------------------------------- */

static void add_yaml(struct rf_audit *x, const char *text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *docs = NULL;

	if (rf_yaml_parse(&a, rf_str(text), &docs, &err) < 0)
		fail_msg("%s in: %s", err.msg, text);
	for (size_t i = 0; i < rf_json_len(docs); i++)
		assert_int_equal(rf_audit_add(x, rf_json_item(docs, i), RF_STR_EMPTY, &err), 0);
}

/* As if a cluster had been read whole. */
static void see_all(struct rf_audit *x)
{
	const struct rf_audit_check *c;
	struct rf_str rest, kind;

	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++)
		for (rest = rf_str(c->needs); rest.n > 0;) {
			rf_str_cut(&rest, ' ', &kind);
			if (rf_map_get(&x->seen, kind) == NULL)
				rf_audit_kind(x, kind, RF_STR_EMPTY, NULL);
		}
}

static void run(struct rf_audit *x)
{
	rf_audit_run(x, &(struct rf_audit_opts){ .now_ms = NOW, .target = RF_LIT("test") });
}

static const struct rf_audit_finding *find(const struct rf_audit *x, const char *id)
{
	const struct rf_audit_finding *f;

	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++)
		if (strcmp(f->check->id, id) == 0)
			return f;
	return NULL;
}

static size_t count(const struct rf_audit *x, const char *id)
{
	const struct rf_audit_finding *f;
	size_t n = 0;

	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++)
		n += strcmp(f->check->id, id) == 0;
	return n;
}

static struct rf_audit *audit_of(const char *yaml)
{
	struct rf_audit *x = rf_audit_new();

	add_yaml(x, yaml);
	see_all(x);
	run(x);
	return x;
}

static bool says(struct rf_str s, const char *part)
{
	return rf_str_contains(s, rf_str(part));
}

/* --- the checks ----------------------------------------------------------------------------- */

static void every_check_speaks_of_what_it_is_for_and_of_nothing_else(void **state)
{
	(void)state;
	for (size_t i = 0; i < RF_COUNT(CASES); i++) {
		rf_auto_ptr(audit) bad = audit_of(CASES[i].bad);
		rf_auto_ptr(audit) good = audit_of(CASES[i].good);
		const struct rf_audit_finding *f = find(bad, CASES[i].id);

		if (f == NULL)
			fail_msg("case %zu: %s says nothing about: %s", i, CASES[i].id, CASES[i].bad);
		assert_true(f->found.n > 0 && f->fix.n > 0);
		f = find(good, CASES[i].id);
		if (f != NULL)
			fail_msg("case %zu: %s says \"%.*s\" about: %s", i, CASES[i].id, RF_STR(f->found), CASES[i].good);
	}
}

static void every_check_has_a_case(void **state)
{
	const struct rf_audit_check *c;

	(void)state;
	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++) {
		bool found = false;

		for (size_t j = 0; j < RF_COUNT(CASES); j++)
			found |= strcmp(CASES[j].id, c->id) == 0;
		for (size_t j = 0; j < RF_COUNT(OTHERS); j++)
			found |= strcmp(OTHERS[j], c->id) == 0;
		if (!found)
			fail_msg("%s has no case", c->id);
	}
}

static void ids_are_unique_and_rows_are_whole(void **state)
{
	const struct rf_audit_check *c, *d;

	(void)state;
	for (size_t i = 0; (c = rf_audit_check(i)) != NULL; i++) {
		assert_true(strncmp(c->id, "RF-", 3) == 0);
		assert_non_null(c->title);
		assert_non_null(c->why);
		assert_non_null(c->fix);
		assert_non_null(c->reference);
		for (size_t j = i + 1; (d = rf_audit_check(j)) != NULL; j++)
			assert_string_not_equal(c->id, d->id);
	}
}

static void a_finding_has_object_field_severity_and_command(void **state)
{
	rf_auto_ptr(audit) x = audit_of(GPU_POD POD("containers: [{name: a}, {name: b, securityContext: {privileged: true}}]"));
	const struct rf_audit_finding *f = find(x, "RF-NODE-01");

	(void)state;
	assert_non_null(f);
	assert_true(rf_str_is(f->kind, "Pod") && rf_str_is(f->ns, "team-a") && rf_str_is(f->name, "p"));
	assert_true(rf_str_is(f->field, "spec.containers[1].securityContext.privileged"));
	assert_int_equal(f->severity, RF_AUDIT_CRITICAL);
	assert_int_equal(f->layer, RF_AUDIT_NODE);
	f = find(x, "RF-API-01");
	assert_true(rf_str_is(f->kind, "Namespace") && rf_str_is(f->name, "team-a"));
	assert_true(says(f->fix, "kubectl -n team-a create quota gpu --hard=requests.nvidia.com/gpu="));
}

#define OWNED(name)                                                                                \
	"{apiVersion: v1, kind: Pod, metadata: {name: " name ", namespace: team-a, ownerReferences: [{apiVersion: apps/v1, kind: "  \
	"ReplicaSet, name: rs, controller: true}]}, spec: {hostPID: true, containers: [{name: c}]}}" SEP
#define DEPLOYMENT                                                                                 \
	"{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: team-a}, spec: {template: {spec: {hostPID: true, "  \
	"containers: [{name: c}]}}}}" SEP

static void pods_of_one_controller_are_told_once(void **state)
{
	rf_auto_ptr(audit) x = audit_of(OWNED("a") OWNED("b") OWNED("c") DEPLOYMENT
					"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs, namespace: team-a, "
					"ownerReferences: [{kind: Deployment, name: d, controller: true}]}, spec: {template: {spec: "
					"{hostPID: true, containers: [{name: c}]}}}}" SEP);

	(void)state;
	assert_int_equal(count(x, "RF-NODE-04"), 1);
	assert_int_equal(find(x, "RF-NODE-04")->also, 2);
}

static void a_template_speaks_where_there_is_no_pod(void **state)
{
	rf_auto_ptr(audit) x = audit_of(DEPLOYMENT);
	const struct rf_audit_finding *f = find(x, "RF-NODE-04");

	(void)state;
	assert_non_null(f);
	assert_true(rf_str_is(f->kind, "Deployment"));
	assert_true(rf_str_is(f->field, "spec.template.spec.hostPID"));
}

static void pods_that_have_ended_are_let_be(void **state)
{
	rf_auto_ptr(audit) x = audit_of("{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: team-a}, spec: {hostPID: true, "
					"containers: [{name: c}]}, status: {phase: Succeeded}}");

	(void)state;
	assert_int_equal(count(x, "RF-NODE-04"), 0);
}

static void one_namespace_only(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	const struct rf_audit_finding *f;

	(void)state;
	add_yaml(x, GPU_POD POD_IN("team-b", "q", "containers: [{name: c, " GPU "}]"));
	rf_audit_run(x, &(struct rf_audit_opts){ .now_ms = NOW, .ns = RF_LIT("team-b") });
	assert_non_null(find(x, "RF-API-01"));
	for (size_t i = 0; (f = rf_audit_finding(x, i)) != NULL; i++)
		assert_true(rf_str_is(f->ns, "team-b") || rf_str_is(f->name, "team-b"));
}

/* --- certificates --------------------------------------------------------------------------- */

static struct rf_str bundle(struct rf_arena *a, int64_t ends_ms)
{
	X509 *cert = X509_new();
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
	BIO *bio = BIO_new(BIO_s_mem());
	struct rf_str text;
	char *p;
	long n;

	ASN1_TIME_set(X509_getm_notBefore(cert), 0);
	ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)(ends_ms / 1000));
	X509_set_pubkey(cert, key);
	X509_sign(cert, key, EVP_sha256());
	PEM_write_bio_X509(bio, cert);
	n = BIO_get_mem_data(bio, &p);
	text = rf_base64_encode(a, rf_str_n(p, (size_t)n));
	BIO_free(bio);
	X509_free(cert);
	EVP_PKEY_free(key);
	return text;
}

static int bundle_severity(int64_t ends_ms)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_str b = bundle(&a, ends_ms);
	rf_auto_ptr(audit) x =
		audit_of(rf_arena_printf(&a, HOOK("ValidatingWebhookConfiguration", "clientConfig: {caBundle: '%.*s'}"), RF_STR(b)).p);
	const struct rf_audit_finding *f = find(x, "RF-OPS-08");

	return f ? (int)f->severity : -1;
}

static void certificates_end(void **state)
{
	const int64_t day = 86400000;

	(void)state;
	assert_int_equal(bundle_severity(NOW - day), RF_AUDIT_HIGH);
	assert_int_equal(bundle_severity(NOW + 29 * day), RF_AUDIT_MEDIUM);
	assert_int_equal(bundle_severity(NOW + 31 * day), -1);
}

/* --- what was not seen ------------------------------------------------------------------------ */

static void what_was_not_seen_is_told_and_nothing_is_concluded_from_it(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(buf) out = RF_BUF_INIT;

	(void)state;
	add_yaml(x, GPU_POD);
	rf_audit_kind(x, RF_LIT("Pod"), RF_STR_EMPTY, NULL);
	rf_audit_kind(x, RF_LIT("ResourceQuota"), RF_STR_EMPTY, "resourcequotas is forbidden");
	rf_audit_kind(x, RF_LIT("Widget"), RF_LIT("example.com"), "widgets is forbidden");
	run(x);
	assert_null(find(x, "RF-API-01")); /* quotas may be there */
	assert_null(find(x, "RF-API-04")); /* this API has no networks to deny */
	assert_int_equal(count(x, "RF-OPS-90"), 2);
	assert_true(rf_str_is(find(x, "RF-OPS-90")->kind, "ResourceQuota")); /* the more severe first */
	assert_int_equal(find(x, "RF-OPS-90")->severity, RF_AUDIT_HIGH);
	rf_audit_write(x, RF_AUDIT_TABLE, &(struct rf_audit_look){ .width = 1000 }, &out);
	assert_non_null(strstr(out.p, "ResourceQuota could not be listed"));
	assert_non_null(strstr(out.p, "this API has no NetworkPolicy"));
	assert_non_null(strstr(out.p, "1 objects seen of 1 kinds, 2 kinds not seen"));
}

static void a_kind_that_was_seen_in_part_is_judged_as_far_as_it_was_seen(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();

	(void)state;
	add_yaml(x, POD("hostPID: true, containers: [{name: c, " GPU "}]"));
	rf_audit_kind(x, RF_LIT("Pod"), RF_STR_EMPTY, "the rest did not fit into memory");
	rf_audit_kind(x, RF_LIT("ResourceQuota"), RF_STR_EMPTY, NULL);
	run(x);
	assert_non_null(find(x, "RF-NODE-04"));
	assert_null(find(x, "RF-API-01"));
	assert_non_null(find(x, "RF-OPS-90"));
}

static void an_object_too_large_is_named(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	char *big = rf_arena_alloc(&a, RF_AUDIT_OBJECT_MAX + 1);
	struct rf_json *o;

	(void)state;
	memset(big, 'x', RF_AUDIT_OBJECT_MAX + 1);
	o = rf_json_make(&a, "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'fat','namespace':'n'},'data':{'a':%S}}",
			 rf_str_n(big, RF_AUDIT_OBJECT_MAX + 1));
	assert_int_equal(rf_audit_add(x, o, RF_STR_EMPTY, &err), 0);
	run(x);
	assert_true(rf_str_is(find(x, "RF-OPS-91")->name, "fat"));
	assert_int_equal(x->all.n, 0);
}

static void memory_is_bounded(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o = rf_json_make(&a, "{'apiVersion':'v1','kind':'ConfigMap','metadata':{'name':'c'},'data':{'a':'b'}}");
	int r = 0;

	(void)state;
	x->budget = 100000;
	for (int i = 0; r == 0 && i < 10000; i++)
		r = rf_audit_add(x, o, RF_STR_EMPTY, &err);
	assert_int_equal(r, -RF_TOO_LARGE);
	assert_non_null(strstr(err.msg, "--namespace"));
	assert_true(x->a.used < 200000);
}

static void secrets_are_not_kept(void **state)
{
	rf_auto_ptr(audit) x = audit_of("{apiVersion: v1, kind: Secret, metadata: {name: s, managedFields: [{manager: m}], annotations: "
					"{kubectl.kubernetes.io/last-applied-configuration: hunter2}}, data: {password: aHVudGVyMg==}, "
					"stringData: {x: hunter2}}");
	rf_auto(buf) b = RF_BUF_INIT;

	(void)state;
	rf_json_write(&b, x->all.at[0]->o);
	assert_non_null(strstr(b.p, "\"password\":\"\""));
	assert_null(strstr(b.p, "aHVudGVy"));
	assert_null(strstr(b.p, "hunter2"));
	assert_null(strstr(b.p, "managedFields"));
}

static void findings_of_one_check_are_bounded_and_counted(void **state)
{
	rf_auto(buf) out = RF_BUF_INIT;
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	for (int i = 0; i < RF_AUDIT_PER_CHECK + 5; i++) {
		struct rf_json *o = rf_json_make(&a,
						 "{'apiVersion':'v1','kind':'Pod','metadata':{'name':%S,'namespace':'n'},'spec':"
						 "{'hostPID':true,'containers':[{'name':'c'}]}}",
						 rf_arena_printf(&a, "p%d", i));

		assert_int_equal(rf_audit_add(x, o, RF_STR_EMPTY, &err), 0);
	}
	run(x);
	assert_int_equal(count(x, "RF-NODE-04"), RF_AUDIT_PER_CHECK);
	assert_int_equal(x->more, 5);
	rf_audit_write(x, RF_AUDIT_TABLE, NULL, &out);
	assert_non_null(strstr(out.p, "and 980 more; -o json"));
	assert_non_null(strstr(out.p, "5 findings are counted and not shown"));
	assert_int_equal(rf_audit_count(x, RF_AUDIT_NODE, RF_AUDIT_HIGH), RF_AUDIT_PER_CHECK + 5);
}

/* --- policies ------------------------------------------------------------------------------- */

#define TEMPLATE                                                                                   \
	"apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: needslabel}\nspec:\n"                \
	"  crd: {spec: {names: {kind: NeedsLabel}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n    rego: |\n"          \
	"      package needslabel\n      violation[{\"msg\": msg}] {\n        not input.review.object.metadata.labels.owner\n"     \
	"        msg := sprintf(\"%v lacks an owner\", [input.review.object.metadata.name])\n      }\n"                           \
	"      violation[{\"msg\": msg}] {\n        other := data.inventory.namespace[_][_].Service[_]\n"                          \
	"        other.metadata.name == input.review.object.metadata.name\n        input.review.object.kind == \"Pod\"\n"           \
	"        msg := \"a service has its name\"\n      }\n" SEP
#define NEEDS_LABEL(action)                                                                        \
	"apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: NeedsLabel\nmetadata: {name: owned}\nspec:\n"                       \
	"  enforcementAction: " action "\n  match: {kinds: [{apiGroups: [''], kinds: [Pod]}]}\n" SEP

static void the_clusters_own_policies_are_asked(void **state)
{
	rf_auto_ptr(audit) x = audit_of(TEMPLATE NEEDS_LABEL("deny") POD("containers: [{name: c}]") SERVICE("p", "type: ClusterIP"));
	const struct rf_audit_finding *f = find(x, "RF-POL-01");

	(void)state;
	assert_int_equal(count(x, "RF-POL-01"), 2); /* the second one by the inventory */
	assert_true(rf_str_is(f->policy, "NeedsLabel/owned"));
	assert_int_equal(f->severity, RF_AUDIT_HIGH);
	assert_true(says(f->found, "a service has its name") || says(f->found, "p lacks an owner"));
}

static void a_policy_on_trial_weighs_less(void **state)
{
	rf_auto_ptr(audit) x = audit_of(TEMPLATE NEEDS_LABEL("dryrun") POD("containers: [{name: c}]"));

	(void)state;
	assert_int_equal(find(x, "RF-POL-01")->severity, RF_AUDIT_LOW);
}

static void a_template_says_how_much_it_matters(void **state)
{
	rf_auto(buf) text = RF_BUF_INIT;
	const char *all = TEMPLATE NEEDS_LABEL("deny") POD("containers: [{name: c}]");
	const char *at = strstr(all, "name: needslabel") + strlen("name: needslabel");
	rf_auto_ptr(audit) x = NULL;

	(void)state;
	rf_buf_add(&text, rf_str_n(all, (size_t)(at - all)));
	rf_buf_printf(&text, ", annotations: {ringfence.io/severity: critical}%s", at);
	x = audit_of(text.p);
	assert_int_equal(find(x, "RF-POL-01")->severity, RF_AUDIT_CRITICAL);
}

static void pods_of_one_controller_are_told_once_by_policies_too(void **state)
{
	rf_auto_ptr(audit) x = audit_of(TEMPLATE NEEDS_LABEL("deny") OWNED("a") OWNED("b") SERVICE("a", "type: ClusterIP")
						SERVICE("b", "type: ClusterIP"));

	(void)state;
	assert_int_equal(count(x, "RF-POL-01"), 2); /* both things it says, of the first pod */
	assert_int_equal(find(x, "RF-POL-01")->also, 1);
}

static void a_policy_that_does_not_compile_is_told(void **state)
{
	rf_auto_ptr(audit) x = audit_of("apiVersion: templates.gatekeeper.sh/v1\nkind: ConstraintTemplate\nmetadata: {name: broken}\nspec:\n"
					"  crd: {spec: {names: {kind: Broken}}}\n  targets:\n  - target: admission.k8s.gatekeeper.sh\n"
					"    rego: 'package broken { nonsense'\n" SEP
					"apiVersion: constraints.gatekeeper.sh/v1beta1\nkind: Broken\nmetadata: {name: b}\n" SEP);

	(void)state;
	assert_non_null(find(x, "RF-OPS-92"));
}

static void write_file(const char *dir, const char *name, const char *text)
{
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;
	const char *path = rf_fs_path(&a, "%s/%s", dir, name);

	*(char *)(uintptr_t)strrchr(path, '/') = '\0';
	assert_int_equal(rf_fs_mkdirs(path, 0755, &err), 0);
	assert_int_equal(rf_fs_write(rf_fs_path(&a, "%s/%s", dir, name), rf_str(text), 0644, false, &err), 0);
}

static void policies_of_a_folder_are_asked(void **state)
{
	char dir[] = "/tmp/rf-audit-XXXXXX";
	struct rf_err err = RF_ERR_INIT;
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto_ptr(audit) y = rf_audit_new();

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_file(dir, "needs-label/template.yaml", TEMPLATE);
	write_file(dir, "needs-label/samples/constraint.yaml", NEEDS_LABEL("warn"));
	write_file(dir, "plain.rego", "package kubernetes.admission\ndeny[msg] { input.request.kind.kind == \"Pod\"; msg := \"no pods\" }\n");
	add_yaml(x, POD("containers: [{name: c}]"));
	assert_int_equal(rf_audit_policies(x, dir, &err), 0);
	run(x);
	assert_int_equal(count(x, "RF-POL-01"), 2);
	assert_int_equal(count(x, "RF-OPS-92"), 0);
	/* a pack: what it recommends, and no samples */
	write_file(dir, "recommended/c.yaml", NEEDS_LABEL("deny"));
	add_yaml(y, POD("containers: [{name: c}]"));
	assert_int_equal(rf_audit_policies(y, dir, &err), 0);
	run(y);
	assert_int_equal(count(y, "RF-POL-01"), 1);
	assert_int_equal(find(y, "RF-POL-01")->severity, RF_AUDIT_HIGH);
	rf_fs_remove_tree(dir, &err);
	assert_int_equal(rf_audit_policies(y, "/nowhere/at/all", &err), -RF_NOT_FOUND);
}

static void files_are_read(void **state)
{
	char dir[] = "/tmp/rf-audit-XXXXXX";
	char *paths[] = { dir };
	struct rf_err err = RF_ERR_INIT;
	rf_auto_ptr(audit) x = rf_audit_new();
	const struct rf_audit_finding *f;

	(void)state;
	assert_non_null(mkdtemp(dir));
	write_file(dir, "a/pod.yaml", POD("hostPID: true, containers: [{name: c, " GPU "}]"));
	write_file(dir, "list.json", "{\"apiVersion\":\"v1\",\n\t\"kind\":\"List\",\"items\":[{\"apiVersion\":\"v1\",\"kind\":\"Namespace\","
				     "\"metadata\":{\"name\":\"team-a\"}}]}");
	write_file(dir, "notes.txt", "kind: Pod");
	assert_int_equal(rf_audit_read_files(x, paths, 1, &err), 0);
	run(x);
	assert_int_equal(x->all.n, 2);
	f = find(x, "RF-NODE-04");
	assert_true(rf_str_ends(f->source, RF_LIT("/a/pod.yaml")));
	assert_null(find(x, "RF-OPS-13")); /* files are not a whole cluster */
	write_file(dir, "broken.yaml", "{a: [}");
	assert_true(rf_audit_read_files(x, paths, 1, &err) < 0);
	assert_non_null(strstr(err.msg, "broken.yaml"));
	rf_fs_remove_tree(dir, &err);
}

/* --- reports -------------------------------------------------------------------------------- */

static struct rf_audit *hostile(void)
{
	return audit_of("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"" "</pre><script>alert(1)</script>\\\" 'x=\\u001b[31m\\u202e"
			"\",\"namespace\":\"t\"},\"spec\":{\"hostPID\":true,\"containers\":[{\"name\":\"c\"}]}}");
}

static void html_takes_no_orders_from_names(void **state)
{
	rf_auto_ptr(audit) x = hostile();
	rf_auto(buf) out = RF_BUF_INIT;

	(void)state;
	rf_audit_write(x, RF_AUDIT_HTML, NULL, &out);
	assert_null(strstr(out.p, "<script"));
	assert_non_null(strstr(out.p, "&lt;/pre&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot; &#39;x="));
	assert_null(strchr(out.p, 0x1b));
	assert_null(strstr(out.p, "\xE2\x80\xAE"));
	assert_non_null(strstr(out.p, "</html>"));
	assert_non_null(strstr(out.p, "default-src 'none'"));
}

static void the_table_takes_no_orders_from_names(void **state)
{
	rf_auto_ptr(audit) x = hostile();
	rf_auto(buf) plain = RF_BUF_INIT, coloured = RF_BUF_INIT;

	(void)state;
	rf_audit_write(x, RF_AUDIT_TABLE, NULL, &plain);
	assert_null(strchr(plain.p, 0x1b));
	rf_audit_write(x, RF_AUDIT_TABLE, &(struct rf_audit_look){ .width = 80, .colour = true }, &coloured);
	assert_null(strstr(coloured.p, "x=\033"));
	assert_non_null(strstr(coloured.p, "\033[31mHIGH"));
}

static void json_and_sarif_are_json_with_what_they_promise(void **state)
{
	rf_auto_ptr(audit) x = hostile();
	rf_auto(arena) a = RF_ARENA_INIT;
	rf_auto(buf) json = RF_BUF_INIT, sarif = RF_BUF_INIT;
	struct rf_err err = RF_ERR_INIT;
	struct rf_json *o = NULL, *run_ = NULL, *result = NULL, *rule = NULL;

	(void)state;
	rf_audit_write(x, RF_AUDIT_JSON, NULL, &json);
	assert_int_equal(rf_json_parse(&a, rf_buf_str(&json), &o, &err), 0);
	assert_true(rf_str_is(rf_json_str_at(o, "apiVersion"), "audit.ringfence.io/v1"));
	assert_int_equal(rf_json_len(rf_json_at(o, "findings")), rf_json_int(rf_json_at(o, "summary", "findings"), -1));
	assert_true(rf_str_is(rf_json_str_at(o, "generated"), "2027-01-15T08:00:00Z"));
	rf_audit_write(x, RF_AUDIT_SARIF, NULL, &sarif);
	assert_int_equal(rf_json_parse(&a, rf_buf_str(&sarif), &o, &err), 0);
	assert_true(rf_str_is(rf_json_str_at(o, "version"), "2.1.0"));
	run_ = rf_json_item(rf_json_at(o, "runs"), 0);
	for (size_t i = 0; (result = rf_json_item(rf_json_at(run_, "results"), i)) != NULL; i++) {
		rule = rf_json_item(rf_json_at(run_, "tool", "driver", "rules"),
				    (size_t)rf_json_int(rf_json_at(result, "ruleIndex"), -1));
		assert_true(rf_str_eq(rf_json_str_at(rule, "id"), rf_json_str_at(result, "ruleId")));
		assert_true(rf_json_str_at(rf_json_item(rf_json_at(rf_json_item(rf_json_at(result, "locations"), 0),
								   "logicalLocations"),
							0),
					   "fullyQualifiedName")
				    .n > 0);
	}
}

static void the_table_is_wrapped_and_ends_with_the_sum(void **state)
{
	rf_auto_ptr(audit) x = audit_of(GPU_POD POD("hostPID: true, containers: [{name: c}]"));
	rf_auto(buf) out = RF_BUF_INIT;
	struct rf_str rest, line, last = RF_STR_EMPTY;

	(void)state;
	rf_audit_write(x, RF_AUDIT_TABLE, &(struct rf_audit_look){ .width = 80 }, &out);
	for (rest = rf_buf_str(&out); rest.n > 0;) {
		rf_str_cut(&rest, '\n', &line);
		if (line.n > 80 && rest.n > 0 && rf_str_starts(line, RF_LIT("            ")))
			assert_null(memchr(rf_str_trim(line).p, ' ', rf_str_trim(line).n)); /* one long word */
		if (line.n > 0)
			last = line;
	}
	assert_true(says(last, "findings: "));
	assert_true(says(last, "2 objects seen"));
	assert_true(says(last, "critical, "));
	assert_non_null(strstr(out.p, "Layer 1: API and tenancy"));
}

static void nothing_found_is_said(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(buf) out = RF_BUF_INIT;

	(void)state;
	run(x);
	assert_false(rf_audit_any(x, RF_AUDIT_LOW));
	rf_audit_write(x, RF_AUDIT_TABLE, NULL, &out);
	assert_non_null(strstr(out.p, "Layer 3: node and device: nothing found"));
	rf_audit_write(x, RF_AUDIT_HTML, NULL, &out);
	rf_audit_write(x, RF_AUDIT_SARIF, NULL, &out);
}

static void thresholds_hold(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();

	(void)state;
	add_yaml(x, POD("hostPID: true, containers: [{name: c}]"));
	run(x);
	assert_true(rf_audit_any(x, RF_AUDIT_LOW));
	assert_true(rf_audit_any(x, RF_AUDIT_HIGH));
	assert_false(rf_audit_any(x, RF_AUDIT_CRITICAL));
}

/* Anything may stand where an object is expected. */
static void odd_objects_do_no_harm(void **state)
{
	rf_auto_ptr(audit) x = audit_of(
		"{apiVersion: v1, kind: Pod}" SEP "{kind: Pod, metadata: 3, spec: []}" SEP
		"{apiVersion: v1, kind: Pod, metadata: {name: 7, labels: [], ownerReferences: {}}, spec: {containers: {a: b}, volumes: [1], "
		"tolerations: [null], resourceClaims: [{}, 4]}}" SEP
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, subjects: [null, 3, {}], roleRef: []}" SEP
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, subjects: {}}" SEP
		"{apiVersion: v1, kind: Node, status: {capacity: [], conditions: {}}}" SEP "[1, 2]" SEP "text" SEP
		"{apiVersion: v1, kind: ResourceQuota, spec: {hard: [1]}}" SEP "{apiVersion: v1, kind: ConfigMap, data: {a: 'sharing: [replicas'}}" SEP
		"{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, webhooks: [null, {rules: [3], "
		"clientConfig: {caBundle: '!!'}}]}" SEP "{apiVersion: resource.k8s.io/v1, kind: ResourceClaim, status: {allocation: {devices: "
		"{results: [null, {}, {}]}}}}" SEP "{kind: PodList, items: [null, 3, {kind: Pod}]}" SEP TENANT("t", "owners: {}")
		"{apiVersion: apps/v1, kind: Deployment}" SEP "{apiVersion: batch/v1, kind: CronJob, spec: {jobTemplate: []}}" SEP);
	rf_auto(buf) out = RF_BUF_INIT;

	(void)state;
	for (int f = RF_AUDIT_TABLE; f <= RF_AUDIT_HTML; f++)
		rf_audit_write(x, (enum rf_audit_format)f, NULL, &out);
	assert_true(out.n > 0);
}

static void ten_thousand_objects_are_no_burden(void **state)
{
	rf_auto_ptr(audit) x = rf_audit_new();
	rf_auto(arena) a = RF_ARENA_INIT;
	struct rf_err err = RF_ERR_INIT;

	(void)state;
	for (int i = 0; i < 10000; i++) {
		struct rf_json *o = rf_json_make(
			&a,
			"{'apiVersion':'v1','kind':'Pod','metadata':{'name':%S,'namespace':%S},'spec':{'nodeName':'n1','containers':"
			"[{'name':'c','resources':{'limits':{'nvidia.com/gpu':'1'}}}],'resourceClaims':[{'name':'g','resourceClaimName':"
			"'c'}]}}",
			rf_arena_printf(&a, "p%d", i), rf_arena_printf(&a, "team-%d", i % 500));

		assert_int_equal(rf_audit_add(x, o, RF_STR_EMPTY, &err), 0);
	}
	add_yaml(x, TEMPLATE NEEDS_LABEL("deny"));
	see_all(x);
	run(x); /* the runner's limit on the program is the bound */
	assert_int_equal(rf_audit_count(x, RF_AUDIT_API, RF_AUDIT_MEDIUM), 500 * 2);
	assert_int_equal(rf_audit_count(x, RF_AUDIT_API, RF_AUDIT_HIGH), 10000 + 500 * 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_check_speaks_of_what_it_is_for_and_of_nothing_else),
		cmocka_unit_test(every_check_has_a_case),
		cmocka_unit_test(ids_are_unique_and_rows_are_whole),
		cmocka_unit_test(a_finding_has_object_field_severity_and_command),
		cmocka_unit_test(pods_of_one_controller_are_told_once),
		cmocka_unit_test(a_template_speaks_where_there_is_no_pod),
		cmocka_unit_test(pods_that_have_ended_are_let_be),
		cmocka_unit_test(one_namespace_only),
		cmocka_unit_test(certificates_end),
		cmocka_unit_test(what_was_not_seen_is_told_and_nothing_is_concluded_from_it),
		cmocka_unit_test(a_kind_that_was_seen_in_part_is_judged_as_far_as_it_was_seen),
		cmocka_unit_test(an_object_too_large_is_named),
		cmocka_unit_test(memory_is_bounded),
		cmocka_unit_test(secrets_are_not_kept),
		cmocka_unit_test(findings_of_one_check_are_bounded_and_counted),
		cmocka_unit_test(the_clusters_own_policies_are_asked),
		cmocka_unit_test(a_policy_on_trial_weighs_less),
		cmocka_unit_test(a_template_says_how_much_it_matters),
		cmocka_unit_test(pods_of_one_controller_are_told_once_by_policies_too),
		cmocka_unit_test(a_policy_that_does_not_compile_is_told),
		cmocka_unit_test(policies_of_a_folder_are_asked),
		cmocka_unit_test(files_are_read),
		cmocka_unit_test(html_takes_no_orders_from_names),
		cmocka_unit_test(the_table_takes_no_orders_from_names),
		cmocka_unit_test(json_and_sarif_are_json_with_what_they_promise),
		cmocka_unit_test(the_table_is_wrapped_and_ends_with_the_sum),
		cmocka_unit_test(nothing_found_is_said),
		cmocka_unit_test(thresholds_hold),
		cmocka_unit_test(odd_objects_do_no_harm),
		cmocka_unit_test(ten_thousand_objects_are_no_burden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
