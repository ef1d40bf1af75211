/* The fields of the Kubernetes types served here: facts of the API, one line of text per type.
 * See schema.h for how to read a line. */
#include "apiserver/schema.h"

const struct rf_schema_type rf_schema_table[] = {
	{ "AWSElasticBlockStoreVolumeSource",
	  "1 volumeID s|2 fsType s|3 partition i|4 readOnly b" },
	{ "Affinity",
	  "1 nodeAffinity NodeAffinity|2 podAffinity PodAffinity|"
	  "3 podAntiAffinity PodAntiAffinity" },
	{ "AggregationRule",
	  "1 clusterRoleSelectors [LabelSelector" },
	{ "AllocatedDeviceStatus",
	  "1 driver s|2 pool s|3 device s|7 shareID s|4 conditions [Condition|5 data r|"
	  "6 networkData NetworkDeviceData" },
	{ "AllocationResult",
	  "1 devices DeviceAllocationResult|3 nodeSelector NodeSelector|"
	  "5 allocationTimestamp t" },
	{ "AppArmorProfile",
	  "1 type s|2 localhostProfile s" },
	{ "AttachedVolume",
	  "1 name s|2 devicePath s" },
	{ "AttestationValue",
	  "1 items [s" },
	{ "AzureDiskVolumeSource",
	  "1 diskName s|2 diskURI s|3 cachingMode s|4 fsType s|5 readOnly b|6 kind s" },
	{ "AzureFileVolumeSource",
	  "1 secretName s|2 shareName s|3 readOnly b" },
	{ "Binding",
	  "1 metadata ObjectMeta|2 target ObjectReference" },
	{ "BoundObjectReference",
	  "1 kind s|2 apiVersion s|3 name s|4 uid s" },
	{ "CELDeviceSelector",
	  "1 expression s" },
	{ "CSIVolumeSource",
	  "1 driver s|2 readOnly b|3 fsType s|4 volumeAttributes {s|"
	  "5 nodePublishSecretRef LocalObjectReference" },
	{ "Capabilities",
	  "1 add [s|2 drop [s" },
	{ "CapacityRequestPolicy",
	  "1 default q|3 validValues [q|4 validRange CapacityRequestPolicyRange" },
	{ "CapacityRequestPolicyRange",
	  "1 min q|2 max q|3 step q" },
	{ "CapacityRequirements",
	  "1 requests {q" },
	{ "CephFSVolumeSource",
	  "1 monitors [s|2 path s|3 user s|4 secretFile s|"
	  "5 secretRef LocalObjectReference|6 readOnly b" },
	{ "CinderVolumeSource",
	  "1 volumeID s|2 fsType s|3 readOnly b|4 secretRef LocalObjectReference" },
	{ "ClusterRole",
	  "1 metadata ObjectMeta|2 rules [PolicyRule|3 aggregationRule AggregationRule" },
	{ "ClusterRoleBinding",
	  "1 metadata ObjectMeta|2 subjects [Subject|3 roleRef RoleRef" },
	{ "ClusterTrustBundleProjection",
	  "1 name s|2 signerName s|3 labelSelector LabelSelector|5 optional b|4 path s|"
	  "6 user i" },
	{ "Condition",
	  "1 type s|2 status s|3 observedGeneration i|4 lastTransitionTime t|"
	  "5 reason s|6 message s" },
	{ "ConfigMap",
	  "1 metadata ObjectMeta|4 immutable b|2 data {s|3 binaryData {y" },
	{ "ConfigMapEnvSource",
	  "1 localObjectReference ^LocalObjectReference|2 optional b" },
	{ "ConfigMapKeySelector",
	  "1 localObjectReference ^LocalObjectReference|2 key s|3 optional b" },
	{ "ConfigMapNodeConfigSource",
	  "1 namespace s|2 name s|3 uid s|4 resourceVersion s|5 kubeletConfigKey s" },
	{ "ConfigMapProjection",
	  "1 localObjectReference ^LocalObjectReference|2 items [KeyToPath|"
	  "4 optional b" },
	{ "ConfigMapVolumeSource",
	  "1 localObjectReference ^LocalObjectReference|2 items [KeyToPath|"
	  "3 defaultMode i|4 optional b|5 defaultUser i" },
	{ "Container",
	  "1 name s|2 image s|3 command [s|4 args [s|5 workingDir s|"
	  "6 ports [ContainerPort|19 envFrom [EnvFromSource|7 env [EnvVar|"
	  "8 resources ResourceRequirements|23 resizePolicy [ContainerResizePolicy|"
	  "24 restartPolicy s|25 restartPolicyRules [ContainerRestartRule|"
	  "9 volumeMounts [VolumeMount|21 volumeDevices [VolumeDevice|"
	  "10 livenessProbe Probe|11 readinessProbe Probe|22 startupProbe Probe|"
	  "12 lifecycle Lifecycle|13 terminationMessagePath s|"
	  "20 terminationMessagePolicy s|14 imagePullPolicy s|"
	  "15 securityContext SecurityContext|16 stdin b|17 stdinOnce b|18 tty b" },
	{ "ContainerExtendedResourceRequest",
	  "1 containerName s|2 resourceName s|3 requestName s" },
	{ "ContainerImage",
	  "1 names [s|2 sizeBytes i" },
	{ "ContainerPort",
	  "1 name s|2 hostPort i|3 containerPort i|4 protocol s|5 hostIP s" },
	{ "ContainerResizePolicy",
	  "1 resourceName s|2 restartPolicy s" },
	{ "ContainerRestartRule",
	  "1 action s|2 exitCodes ContainerRestartRuleOnExitCodes" },
	{ "ContainerRestartRuleOnExitCodes",
	  "1 operator s|2 values [i" },
	{ "ContainerState",
	  "1 waiting ContainerStateWaiting|2 running ContainerStateRunning|"
	  "3 terminated ContainerStateTerminated" },
	{ "ContainerStateRunning",
	  "1 startedAt t" },
	{ "ContainerStateTerminated",
	  "1 exitCode i|2 signal i|3 reason s|4 message s|5 startedAt t|6 finishedAt t|"
	  "7 containerID s" },
	{ "ContainerStateWaiting",
	  "1 reason s|2 message s" },
	{ "ContainerStatus",
	  "1 name s|2 state ContainerState|3 lastState ContainerState|4 ready b|"
	  "5 restartCount i|6 image s|7 imageID s|8 containerID s|9 started b|"
	  "10 allocatedResources {q|11 resources ResourceRequirements|"
	  "12 volumeMounts [VolumeMountStatus|13 user ContainerUser|"
	  "14 allocatedResourcesStatus [ResourceStatus|15 stopSignal s" },
	{ "ContainerUser",
	  "1 linux LinuxContainerUser" },
	{ "Counter",
	  "1 value q" },
	{ "CounterSet",
	  "1 name s|2 counters {Counter" },
	{ "DaemonEndpoint",
	  "1 Port i" },
	{ "DeleteOptions",
	  "1 gracePeriodSeconds i|2 preconditions Preconditions|3 orphanDependents b|"
	  "4 propagationPolicy s|5 dryRun [s|"
	  "6 ignoreStoreReadErrorWithClusterBreakingPotential b" },
	{ "Device",
	  "1 name s|2 attributes {DeviceAttribute|3 capacity {DeviceCapacity|"
	  "4 consumesCounters [DeviceCounterConsumption|5 nodeName s|"
	  "6 nodeSelector NodeSelector|7 allNodes b|8 taints [DeviceTaint|"
	  "9 bindsToNode b|10 bindingConditions [s|11 bindingFailureConditions [s|"
	  "12 allowMultipleAllocations b|"
	  "14 nodeAllocatableResources {NodeAllocatableResource" },
	{ "DeviceAllocationConfiguration",
	  "1 source s|2 requests [s|3 deviceConfiguration ^DeviceConfiguration" },
	{ "DeviceAllocationResult",
	  "1 results [DeviceRequestAllocationResult|"
	  "2 config [DeviceAllocationConfiguration" },
	{ "DeviceAttribute",
	  "2 int i|3 bool b|4 string s|5 version s|6 ints [i|7 bools [b|8 strings [s|"
	  "9 versions [s" },
	{ "DeviceCapacity",
	  "1 value q|2 requestPolicy CapacityRequestPolicy" },
	{ "DeviceClaim",
	  "1 requests [DeviceRequest|2 constraints [DeviceConstraint|"
	  "3 config [DeviceClaimConfiguration" },
	{ "DeviceClaimConfiguration",
	  "1 requests [s|2 deviceConfiguration ^DeviceConfiguration" },
	{ "DeviceClass",
	  "1 metadata ObjectMeta|2 spec DeviceClassSpec" },
	{ "DeviceClassConfiguration",
	  "1 deviceConfiguration ^DeviceConfiguration" },
	{ "DeviceClassSpec",
	  "1 selectors [DeviceSelector|2 config [DeviceClassConfiguration|"
	  "4 extendedResourceName s" },
	{ "DeviceConfiguration",
	  "1 opaque OpaqueDeviceConfiguration" },
	{ "DeviceConstraint",
	  "1 requests [s|2 matchAttribute s|3 distinctAttribute s" },
	{ "DeviceCounterConsumption",
	  "1 counterSet s|2 counters {Counter" },
	{ "DeviceRequest",
	  "1 name s|2 exactly ExactDeviceRequest|3 firstAvailable [DeviceSubRequest" },
	{ "DeviceRequestAllocationResult",
	  "1 request s|2 driver s|3 pool s|4 device s|5 adminAccess b|"
	  "6 tolerations [DeviceToleration|7 bindingConditions [s|"
	  "8 bindingFailureConditions [s|9 shareID s|10 consumedCapacity {q|"
	  "11 skipNodeOperations [s" },
	{ "DeviceSelector",
	  "1 cel CELDeviceSelector" },
	{ "DeviceSubRequest",
	  "1 name s|2 deviceClassName s|3 selectors [DeviceSelector|4 allocationMode s|"
	  "5 count i|6 tolerations [DeviceToleration|7 capacity CapacityRequirements" },
	{ "DeviceTaint",
	  "1 key s|2 value s|3 effect s|4 timeAdded t" },
	{ "DeviceToleration",
	  "1 key s|2 operator s|3 value s|4 effect s|5 tolerationSeconds i" },
	{ "DownwardAPIProjection",
	  "1 items [DownwardAPIVolumeFile" },
	{ "DownwardAPIVolumeFile",
	  "1 path s|2 fieldRef ObjectFieldSelector|"
	  "3 resourceFieldRef ResourceFieldSelector|4 mode i|5 user i" },
	{ "DownwardAPIVolumeSource",
	  "1 items [DownwardAPIVolumeFile|2 defaultMode i|3 defaultUser i" },
	{ "EmptyDirVolumeSource",
	  "1 medium s|2 sizeLimit q|3 mode i" },
	{ "EnvFromSource",
	  "1 prefix s|2 configMapRef ConfigMapEnvSource|3 secretRef SecretEnvSource" },
	{ "EnvVar",
	  "1 name s|2 value s|3 valueFrom EnvVarSource" },
	{ "EnvVarSource",
	  "1 fieldRef ObjectFieldSelector|2 resourceFieldRef ResourceFieldSelector|"
	  "3 configMapKeyRef ConfigMapKeySelector|4 secretKeyRef SecretKeySelector|"
	  "5 fileKeyRef FileKeySelector" },
	{ "EphemeralContainer",
	  "1 ephemeralContainerCommon ^EphemeralContainerCommon|"
	  "2 targetContainerName s" },
	{ "EphemeralContainerCommon",
	  "1 name s|2 image s|3 command [s|4 args [s|5 workingDir s|"
	  "6 ports [ContainerPort|19 envFrom [EnvFromSource|7 env [EnvVar|"
	  "8 resources ResourceRequirements|23 resizePolicy [ContainerResizePolicy|"
	  "24 restartPolicy s|25 restartPolicyRules [ContainerRestartRule|"
	  "9 volumeMounts [VolumeMount|21 volumeDevices [VolumeDevice|"
	  "10 livenessProbe Probe|11 readinessProbe Probe|22 startupProbe Probe|"
	  "12 lifecycle Lifecycle|13 terminationMessagePath s|"
	  "20 terminationMessagePolicy s|14 imagePullPolicy s|"
	  "15 securityContext SecurityContext|16 stdin b|17 stdinOnce b|18 tty b" },
	{ "EphemeralVolumeSource",
	  "1 volumeClaimTemplate PersistentVolumeClaimTemplate" },
	{ "Event",
	  "1 metadata ObjectMeta|2 involvedObject ObjectReference|3 reason s|"
	  "4 message s|5 source EventSource|6 firstTimestamp t|7 lastTimestamp t|"
	  "8 count i|9 type s|10 eventTime m|11 series EventSeries|12 action s|"
	  "13 related ObjectReference|14 reportingComponent s|15 reportingInstance s" },
	{ "EventSeries",
	  "1 count i|2 lastObservedTime m" },
	{ "EventSource",
	  "1 component s|2 host s" },
	{ "Eviction",
	  "1 metadata ObjectMeta|2 deleteOptions DeleteOptions" },
	{ "EvictionResponder",
	  "1 name s|2 priority i" },
	{ "ExactDeviceRequest",
	  "1 deviceClassName s|2 selectors [DeviceSelector|3 allocationMode s|"
	  "4 count i|5 adminAccess b|6 tolerations [DeviceToleration|"
	  "7 capacity CapacityRequirements" },
	{ "ExecAction",
	  "1 command [s" },
	{ "FCVolumeSource",
	  "1 targetWWNs [s|2 lun i|3 fsType s|4 readOnly b|5 wwids [s" },
	{ "FieldSelectorAttributes",
	  "1 rawSelector s|2 requirements [FieldSelectorRequirement" },
	{ "FieldSelectorRequirement",
	  "1 key s|2 operator s|3 values [s" },
	{ "FileKeySelector",
	  "1 volumeName s|2 path s|3 key s|4 optional b" },
	{ "FlexVolumeSource",
	  "1 driver s|2 fsType s|3 secretRef LocalObjectReference|4 readOnly b|"
	  "5 options {s" },
	{ "FlockerVolumeSource",
	  "1 datasetName s|2 datasetUUID s" },
	{ "GCEPersistentDiskVolumeSource",
	  "1 pdName s|2 fsType s|3 partition i|4 readOnly b" },
	{ "GRPCAction",
	  "1 port i|2 service s|3 mode s" },
	{ "GitRepoVolumeSource",
	  "1 repository s|2 revision s|3 directory s" },
	{ "GlusterfsVolumeSource",
	  "1 endpoints s|2 path s|3 readOnly b" },
	{ "HTTPGetAction",
	  "1 path s|2 port o|3 host s|4 scheme s|5 httpHeaders [HTTPHeader|"
	  "6 protocol s" },
	{ "HTTPHeader",
	  "1 name s|2 value s" },
	{ "HostAlias",
	  "1 ip s|2 hostnames [s" },
	{ "HostIP",
	  "1 ip s" },
	{ "HostPathVolumeSource",
	  "1 path s|2 type s" },
	{ "ISCSIVolumeSource",
	  "1 targetPortal s|2 iqn s|3 lun i|4 iscsiInterface s|5 fsType s|6 readOnly b|"
	  "7 portals [s|8 chapAuthDiscovery b|11 chapAuthSession b|"
	  "10 secretRef LocalObjectReference|12 initiatorName s" },
	{ "ImageVolumeSource",
	  "1 reference s|2 pullPolicy s" },
	{ "ImageVolumeStatus",
	  "1 imageRef s" },
	{ "KeyToPath",
	  "1 key s|2 path s|3 mode i|4 user i" },
	{ "LabelSelector",
	  "1 matchLabels {s|2 matchExpressions [LabelSelectorRequirement" },
	{ "LabelSelectorAttributes",
	  "1 rawSelector s|2 requirements [LabelSelectorRequirement" },
	{ "LabelSelectorRequirement",
	  "1 key s|2 operator s|3 values [s" },
	{ "Lease",
	  "1 metadata ObjectMeta|2 spec LeaseSpec" },
	{ "LeaseSpec",
	  "1 holderIdentity s|2 leaseDurationSeconds i|3 acquireTime m|4 renewTime m|"
	  "5 leaseTransitions i|6 strategy s|7 preferredHolder s" },
	{ "Lifecycle",
	  "1 postStart LifecycleHandler|2 preStop LifecycleHandler|3 stopSignal s" },
	{ "LifecycleHandler",
	  "1 exec ExecAction|2 httpGet HTTPGetAction|3 tcpSocket TCPSocketAction|"
	  "4 sleep SleepAction" },
	{ "LinuxContainerUser",
	  "1 uid i|2 gid i|3 supplementalGroups [i" },
	{ "LocalObjectReference",
	  "1 name s" },
	{ "LocalSubjectAccessReview",
	  "1 metadata ObjectMeta|2 spec SubjectAccessReviewSpec|"
	  "3 status SubjectAccessReviewStatus" },
	{ "ManagedFieldsEntry",
	  "1 manager s|2 operation s|3 apiVersion s|4 time t|6 fieldsType s|"
	  "7 fieldsV1 r|8 subresource s" },
	{ "NFSVolumeSource",
	  "1 server s|2 path s|3 readOnly b" },
	{ "Namespace",
	  "1 metadata ObjectMeta|2 spec NamespaceSpec|3 status NamespaceStatus" },
	{ "NamespaceCondition",
	  "1 type s|2 status s|4 lastTransitionTime t|5 reason s|6 message s" },
	{ "NamespaceSpec",
	  "1 finalizers [s" },
	{ "NamespaceStatus",
	  "1 phase s|2 conditions [NamespaceCondition" },
	{ "NetworkDeviceData",
	  "1 interfaceName s|2 ips [s|3 hardwareAddress s" },
	{ "Node",
	  "1 metadata ObjectMeta|2 spec NodeSpec|3 status NodeStatus" },
	{ "NodeAddress",
	  "1 type s|2 address s" },
	{ "NodeAffinity",
	  "1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector|"
	  "2 preferredDuringSchedulingIgnoredDuringExecution [PreferredSchedulingTerm" },
	{ "NodeAllocatableMappedResources",
	  "1 name s|2 quantity q" },
	{ "NodeAllocatableMapping",
	  "1 capacityKey s|2 capacityMultiplier q|3 deviceMultiplier q" },
	{ "NodeAllocatableOverhead",
	  "1 perPod q|2 perContainer q" },
	{ "NodeAllocatableOverheadResources",
	  "1 name s|2 perPod q|3 perContainer q" },
	{ "NodeAllocatableResource",
	  "3 mapping NodeAllocatableMapping|4 overhead NodeAllocatableOverhead" },
	{ "NodeAllocatableResourceClaimStatus",
	  "1 resourceClaimName s|2 containers [s|"
	  "4 mapping [NodeAllocatableMappedResources|"
	  "5 overhead [NodeAllocatableOverheadResources" },
	{ "NodeCondition",
	  "1 type s|2 status s|3 lastHeartbeatTime t|4 lastTransitionTime t|5 reason s|"
	  "6 message s" },
	{ "NodeConfigSource",
	  "2 configMap ConfigMapNodeConfigSource" },
	{ "NodeConfigStatus",
	  "1 assigned NodeConfigSource|2 active NodeConfigSource|"
	  "3 lastKnownGood NodeConfigSource|4 error s" },
	{ "NodeDaemonEndpoints",
	  "1 kubeletEndpoint DaemonEndpoint" },
	{ "NodeFeatures",
	  "1 supplementalGroupsPolicy b" },
	{ "NodePodPreemptionPolicy",
	  "1 disableResizePreemption [s" },
	{ "NodeRuntimeHandler",
	  "1 name s|2 features NodeRuntimeHandlerFeatures" },
	{ "NodeRuntimeHandlerFeatures",
	  "1 recursiveReadOnlyMounts b|2 userNamespaces b" },
	{ "NodeSelector",
	  "1 nodeSelectorTerms [NodeSelectorTerm" },
	{ "NodeSelectorRequirement",
	  "1 key s|2 operator s|3 values [s" },
	{ "NodeSelectorTerm",
	  "1 matchExpressions [NodeSelectorRequirement|"
	  "2 matchFields [NodeSelectorRequirement" },
	{ "NodeSpec",
	  "1 podCIDR s|7 podCIDRs [s|3 providerID s|4 unschedulable b|5 taints [Taint|"
	  "6 configSource NodeConfigSource|2 externalID s|"
	  "8 podPreemptionPolicy NodePodPreemptionPolicy" },
	{ "NodeStatus",
	  "1 capacity {q|2 allocatable {q|3 phase s|4 conditions [NodeCondition|"
	  "5 addresses [NodeAddress|6 daemonEndpoints NodeDaemonEndpoints|"
	  "7 nodeInfo NodeSystemInfo|8 images [ContainerImage|9 volumesInUse [s|"
	  "10 volumesAttached [AttachedVolume|11 config NodeConfigStatus|"
	  "12 runtimeHandlers [NodeRuntimeHandler|13 features NodeFeatures|"
	  "14 declaredFeatures [s" },
	{ "NodeSwapStatus",
	  "1 capacity i" },
	{ "NodeSystemInfo",
	  "1 machineID s|2 systemUUID s|3 bootID s|4 kernelVersion s|5 osImage s|"
	  "6 containerRuntimeVersion s|7 kubeletVersion s|8 kubeProxyVersion s|"
	  "9 operatingSystem s|10 architecture s|11 swap NodeSwapStatus" },
	{ "NonResourceAttributes",
	  "1 path s|2 verb s" },
	{ "NonResourceRule",
	  "1 verbs [s|2 nonResourceURLs [s" },
	{ "ObjectFieldSelector",
	  "1 apiVersion s|2 fieldPath s" },
	{ "ObjectMeta",
	  "1 name s|2 generateName s|3 namespace s|4 selfLink s|5 uid s|"
	  "6 resourceVersion s|7 generation i|8 creationTimestamp t|"
	  "9 deletionTimestamp t|10 deletionGracePeriodSeconds i|11 labels {s|"
	  "12 annotations {s|13 ownerReferences [OwnerReference|14 finalizers [s|"
	  "17 managedFields [ManagedFieldsEntry" },
	{ "ObjectReference",
	  "1 kind s|2 namespace s|3 name s|4 uid s|5 apiVersion s|6 resourceVersion s|"
	  "7 fieldPath s" },
	{ "OpaqueDeviceConfiguration",
	  "1 driver s|2 parameters r" },
	{ "OwnerReference",
	  "5 apiVersion s|1 kind s|3 name s|4 uid s|6 controller b|"
	  "7 blockOwnerDeletion b" },
	{ "PersistentVolumeClaimSpec",
	  "1 accessModes [s|4 selector LabelSelector|"
	  "2 resources VolumeResourceRequirements|3 volumeName s|5 storageClassName s|"
	  "6 volumeMode s|7 dataSource TypedLocalObjectReference|"
	  "8 dataSourceRef TypedObjectReference|9 volumeAttributesClassName s" },
	{ "PersistentVolumeClaimTemplate",
	  "1 metadata ObjectMeta|2 spec PersistentVolumeClaimSpec" },
	{ "PersistentVolumeClaimVolumeSource",
	  "1 claimName s|2 readOnly b" },
	{ "PhotonPersistentDiskVolumeSource",
	  "1 pdID s|2 fsType s" },
	{ "Pod",
	  "1 metadata ObjectMeta|2 spec PodSpec|3 status PodStatus" },
	{ "PodAffinity",
	  "1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm|"
	  "2 preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm" },
	{ "PodAffinityTerm",
	  "1 labelSelector LabelSelector|2 namespaces [s|3 topologyKey s|"
	  "4 namespaceSelector LabelSelector|5 matchLabelKeys [s|"
	  "6 mismatchLabelKeys [s" },
	{ "PodAntiAffinity",
	  "1 requiredDuringSchedulingIgnoredDuringExecution [PodAffinityTerm|"
	  "2 preferredDuringSchedulingIgnoredDuringExecution [WeightedPodAffinityTerm" },
	{ "PodCertificateProjection",
	  "1 signerName s|2 keyType s|3 maxExpirationSeconds i|"
	  "4 credentialBundlePath s|5 keyPath s|6 certificateChainPath s|"
	  "7 userAnnotations {s|8 user i" },
	{ "PodClaimName",
	  "1 name s|2 request s" },
	{ "PodCondition",
	  "1 type s|7 observedGeneration i|2 status s|3 lastProbeTime t|"
	  "4 lastTransitionTime t|5 reason s|6 message s" },
	{ "PodDNSConfig",
	  "1 nameservers [s|2 searches [s|3 options [PodDNSConfigOption" },
	{ "PodDNSConfigOption",
	  "1 name s|2 value s" },
	{ "PodDisruptionBudget",
	  "1 metadata ObjectMeta|2 spec PodDisruptionBudgetSpec|3 status PodDisruptionBudgetStatus" },
	{ "PodDisruptionBudgetSpec",
	  "1 minAvailable o|2 selector LabelSelector|3 maxUnavailable o|"
	  "4 unhealthyPodEvictionPolicy s" },
	{ "PodDisruptionBudgetStatus",
	  "1 observedGeneration i|2 disruptedPods {t|3 disruptionsAllowed i|4 currentHealthy i|"
	  "5 desiredHealthy i|6 expectedPods i|7 conditions [Condition" },
	{ "PodExtendedResourceClaimStatus",
	  "1 requestMappings [ContainerExtendedResourceRequest|2 resourceClaimName s" },
	{ "PodIP",
	  "1 ip s" },
	{ "PodOS",
	  "1 name s" },
	{ "PodReadinessGate",
	  "1 conditionType s" },
	{ "PodResourceClaim",
	  "1 name s|3 resourceClaimName s|4 resourceClaimTemplateName s" },
	{ "PodResourceClaimStatus",
	  "1 name s|2 resourceClaimName s" },
	{ "PodSchedulingGate",
	  "1 name s" },
	{ "PodSchedulingGroup",
	  "1 podGroupName s" },
	{ "PodSecurityContext",
	  "1 seLinuxOptions SELinuxOptions|"
	  "8 windowsOptions WindowsSecurityContextOptions|2 runAsUser i|6 runAsGroup i|"
	  "3 runAsNonRoot b|4 supplementalGroups [i|12 supplementalGroupsPolicy s|"
	  "5 fsGroup i|7 sysctls [Sysctl|9 fsGroupChangePolicy s|"
	  "10 seccompProfile SeccompProfile|11 appArmorProfile AppArmorProfile|"
	  "13 seLinuxChangePolicy s" },
	{ "PodSpec",
	  "1 volumes [Volume|20 initContainers [Container|2 containers [Container|"
	  "34 ephemeralContainers [EphemeralContainer|3 restartPolicy s|"
	  "4 terminationGracePeriodSeconds i|5 activeDeadlineSeconds i|6 dnsPolicy s|"
	  "7 nodeSelector {s|8 serviceAccountName s|9 serviceAccount s|"
	  "21 automountServiceAccountToken b|10 nodeName s|11 hostNetwork b|"
	  "12 hostPID b|13 hostIPC b|27 shareProcessNamespace b|"
	  "14 securityContext PodSecurityContext|"
	  "15 imagePullSecrets [LocalObjectReference|16 hostname s|17 subdomain s|"
	  "18 affinity Affinity|19 schedulerName s|22 tolerations [Toleration|"
	  "23 hostAliases [HostAlias|24 priorityClassName s|25 priority i|"
	  "26 dnsConfig PodDNSConfig|28 readinessGates [PodReadinessGate|"
	  "29 runtimeClassName s|30 enableServiceLinks b|31 preemptionPolicy s|"
	  "32 overhead {q|33 topologySpreadConstraints [TopologySpreadConstraint|"
	  "35 setHostnameAsFQDN b|36 os PodOS|37 hostUsers b|"
	  "38 schedulingGates [PodSchedulingGate|39 resourceClaims [PodResourceClaim|"
	  "40 resources ResourceRequirements|41 hostnameOverride s|"
	  "43 schedulingGroup PodSchedulingGroup|"
	  "44 evictionResponders [EvictionResponder" },
	{ "PodStatus",
	  "17 observedGeneration i|1 phase s|2 conditions [PodCondition|3 message s|"
	  "4 reason s|11 nominatedNodeName s|5 hostIP s|16 hostIPs [HostIP|6 podIP s|"
	  "12 podIPs [PodIP|7 startTime t|10 initContainerStatuses [ContainerStatus|"
	  "8 containerStatuses [ContainerStatus|9 qosClass s|"
	  "13 ephemeralContainerStatuses [ContainerStatus|14 resize s|"
	  "15 resourceClaimStatuses [PodResourceClaimStatus|"
	  "18 extendedResourceClaimStatus PodExtendedResourceClaimStatus|"
	  "19 allocatedResources {q|20 resources ResourceRequirements|"
	  "21 nodeAllocatableResourceClaimStatuses [NodeAllocatableResourceClaimStatus|"
	  "22 volumeHealth [PodVolumeHealth" },
	{ "PodVolumeHealth",
	  "1 name s|2 healthConditions [VolumeHealthCondition|3 lastTransitionTime t" },
	{ "PolicyRule",
	  "1 verbs [s|2 apiGroups [s|3 resources [s|4 resourceNames [s|"
	  "5 nonResourceURLs [s" },
	{ "PortworxVolumeSource",
	  "1 volumeID s|2 fsType s|3 readOnly b" },
	{ "Preconditions",
	  "1 uid s|2 resourceVersion s" },
	{ "PreferredSchedulingTerm",
	  "1 weight i|2 preference NodeSelectorTerm" },
	{ "PriorityClass",
	  "1 metadata ObjectMeta|2 value i|3 globalDefault b|4 description s|"
	  "5 preemptionPolicy s" },
	{ "Probe",
	  "1 handler ^ProbeHandler|2 initialDelaySeconds i|3 timeoutSeconds i|"
	  "4 periodSeconds i|5 successThreshold i|6 failureThreshold i|"
	  "7 terminationGracePeriodSeconds i" },
	{ "ProbeHandler",
	  "1 exec ExecAction|2 httpGet HTTPGetAction|3 tcpSocket TCPSocketAction|"
	  "4 grpc GRPCAction" },
	{ "ProjectedVolumeSource",
	  "1 sources [VolumeProjection|2 defaultMode i|3 defaultUser i" },
	{ "QuobyteVolumeSource",
	  "1 registry s|2 volume s|3 readOnly b|4 user s|5 group s|6 tenant s" },
	{ "RBDVolumeSource",
	  "1 monitors [s|2 image s|3 fsType s|4 pool s|5 user s|6 keyring s|"
	  "7 secretRef LocalObjectReference|8 readOnly b" },
	{ "ResourceAttributes",
	  "1 namespace s|2 verb s|3 group s|4 version s|5 resource s|6 subresource s|"
	  "7 name s|8 fieldSelector FieldSelectorAttributes|"
	  "9 labelSelector LabelSelectorAttributes" },
	{ "ResourceClaim",
	  "1 metadata ObjectMeta|2 spec ResourceClaimSpec|3 status ResourceClaimStatus" },
	{ "ResourceClaimConsumerReference",
	  "1 apiGroup s|3 resource s|4 name s|5 uid s" },
	{ "ResourceClaimSpec",
	  "1 devices DeviceClaim" },
	{ "ResourceClaimStatus",
	  "1 allocation AllocationResult|2 reservedFor [ResourceClaimConsumerReference|"
	  "4 devices [AllocatedDeviceStatus" },
	{ "ResourceFieldSelector",
	  "1 containerName s|2 resource s|3 divisor q" },
	{ "ResourceHealth",
	  "1 resourceID s|2 health s|6 message s" },
	{ "ResourcePool",
	  "1 name s|2 generation i|3 resourceSliceCount i" },
	{ "ResourceQuota",
	  "1 metadata ObjectMeta|2 spec ResourceQuotaSpec|3 status ResourceQuotaStatus" },
	{ "ResourceQuotaSpec",
	  "1 hard {q|2 scopes [s|3 scopeSelector ScopeSelector" },
	{ "ResourceQuotaStatus",
	  "1 hard {q|2 used {q" },
	{ "ResourceRequirements",
	  "1 limits {q|2 requests {q|3 claims [PodClaimName" },
	{ "ResourceRule",
	  "1 verbs [s|2 apiGroups [s|3 resources [s|4 resourceNames [s" },
	{ "ResourceSlice",
	  "1 metadata ObjectMeta|2 spec ResourceSliceSpec" },
	{ "ResourceSliceSpec",
	  "1 driver s|2 pool ResourcePool|3 nodeName s|4 nodeSelector NodeSelector|"
	  "5 allNodes b|6 devices [Device|7 perDeviceNodeSelection b|"
	  "8 sharedCounters [CounterSet|9 partitionTypeAttribute s|"
	  "10 skipNodeOperations [s" },
	{ "ResourceStatus",
	  "1 name s|2 resources [ResourceHealth" },
	{ "Role",
	  "1 metadata ObjectMeta|2 rules [PolicyRule" },
	{ "RoleBinding",
	  "1 metadata ObjectMeta|2 subjects [Subject|3 roleRef RoleRef" },
	{ "RoleRef",
	  "1 apiGroup s|2 kind s|3 name s" },
	{ "SELinuxOptions",
	  "1 user s|2 role s|3 type s|4 level s" },
	{ "ScaleIOVolumeSource",
	  "1 gateway s|2 system s|3 secretRef LocalObjectReference|4 sslEnabled b|"
	  "5 protectionDomain s|6 storagePool s|7 storageMode s|8 volumeName s|"
	  "9 fsType s|10 readOnly b" },
	{ "ScopeSelector",
	  "1 matchExpressions [ScopedResourceSelectorRequirement" },
	{ "ScopedResourceSelectorRequirement",
	  "1 scopeName s|2 operator s|3 values [s" },
	{ "SeccompProfile",
	  "1 type s|2 localhostProfile s" },
	{ "Secret",
	  "1 metadata ObjectMeta|5 immutable b|2 data {y|4 stringData {s|3 type s" },
	{ "SecretEnvSource",
	  "1 localObjectReference ^LocalObjectReference|2 optional b" },
	{ "SecretKeySelector",
	  "1 localObjectReference ^LocalObjectReference|2 key s|3 optional b" },
	{ "SecretProjection",
	  "1 localObjectReference ^LocalObjectReference|2 items [KeyToPath|"
	  "4 optional b" },
	{ "SecretVolumeSource",
	  "1 secretName s|2 items [KeyToPath|3 defaultMode i|4 optional b|"
	  "5 defaultUser i" },
	{ "SecurityContext",
	  "1 capabilities Capabilities|2 privileged b|3 seLinuxOptions SELinuxOptions|"
	  "10 windowsOptions WindowsSecurityContextOptions|4 runAsUser i|"
	  "8 runAsGroup i|5 runAsNonRoot b|6 readOnlyRootFilesystem b|"
	  "7 allowPrivilegeEscalation b|9 procMount s|11 seccompProfile SeccompProfile|"
	  "12 appArmorProfile AppArmorProfile" },
	{ "SelfSubjectAccessReview",
	  "1 metadata ObjectMeta|2 spec SelfSubjectAccessReviewSpec|"
	  "3 status SubjectAccessReviewStatus" },
	{ "SelfSubjectAccessReviewSpec",
	  "1 resourceAttributes ResourceAttributes|"
	  "2 nonResourceAttributes NonResourceAttributes" },
	{ "SelfSubjectReview",
	  "1 metadata ObjectMeta|2 status SelfSubjectReviewStatus" },
	{ "SelfSubjectReviewStatus",
	  "1 userInfo UserInfo" },
	{ "SelfSubjectRulesReview",
	  "1 metadata ObjectMeta|2 spec SelfSubjectRulesReviewSpec|"
	  "3 status SubjectRulesReviewStatus" },
	{ "SelfSubjectRulesReviewSpec",
	  "1 namespace s" },
	{ "ServiceAccount",
	  "1 metadata ObjectMeta|2 secrets [ObjectReference|"
	  "3 imagePullSecrets [LocalObjectReference|4 automountServiceAccountToken b" },
	{ "ServiceAccountTokenProjection",
	  "1 audience s|2 expirationSeconds i|3 path s|4 user i" },
	{ "SleepAction",
	  "1 seconds i" },
	{ "StorageOSVolumeSource",
	  "1 volumeName s|2 volumeNamespace s|3 fsType s|4 readOnly b|"
	  "5 secretRef LocalObjectReference" },
	{ "Subject",
	  "1 kind s|2 apiGroup s|3 name s|4 namespace s" },
	{ "SubjectAccessReview",
	  "1 metadata ObjectMeta|2 spec SubjectAccessReviewSpec|"
	  "3 status SubjectAccessReviewStatus" },
	{ "SubjectAccessReviewSpec",
	  "1 resourceAttributes ResourceAttributes|"
	  "2 nonResourceAttributes NonResourceAttributes|3 user s|4 groups [s|"
	  "5 extra {[s|6 uid s" },
	{ "SubjectAccessReviewStatus",
	  "1 allowed b|4 denied b|2 reason s|3 evaluationError s" },
	{ "SubjectRulesReviewStatus",
	  "1 resourceRules [ResourceRule|2 nonResourceRules [NonResourceRule|"
	  "3 incomplete b|4 evaluationError s" },
	{ "Sysctl",
	  "1 name s|2 value s" },
	{ "TCPSocketAction",
	  "1 port o|2 host s" },
	{ "Taint",
	  "1 key s|2 value s|3 effect s|4 timeAdded t" },
	{ "TokenRequest",
	  "1 metadata ObjectMeta|2 spec TokenRequestSpec|3 status TokenRequestStatus" },
	{ "TokenRequestSpec",
	  "1 audiences [s|4 expirationSeconds i|3 boundObjectRef BoundObjectReference|"
	  "5 attestations {AttestationValue" },
	{ "TokenRequestStatus",
	  "1 token s|2 expirationTimestamp t" },
	{ "TokenReview",
	  "1 metadata ObjectMeta|2 spec TokenReviewSpec|3 status TokenReviewStatus" },
	{ "TokenReviewSpec",
	  "1 token s|2 audiences [s" },
	{ "TokenReviewStatus",
	  "1 authenticated b|2 user UserInfo|4 audiences [s|3 error s" },
	{ "Toleration",
	  "1 key s|2 operator s|3 value s|4 effect s|5 tolerationSeconds i" },
	{ "TopologySpreadConstraint",
	  "1 maxSkew i|2 topologyKey s|3 whenUnsatisfiable s|"
	  "4 labelSelector LabelSelector|5 minDomains i|6 nodeAffinityPolicy s|"
	  "7 nodeTaintsPolicy s|8 matchLabelKeys [s" },
	{ "TypedLocalObjectReference",
	  "1 apiGroup s|2 kind s|3 name s" },
	{ "TypedObjectReference",
	  "1 apiGroup s|2 kind s|3 name s|4 namespace s" },
	{ "UserInfo",
	  "1 username s|2 uid s|3 groups [s|4 extra {[s" },
	{ "Volume",
	  "1 name s|2 volumeSource ^VolumeSource" },
	{ "VolumeDevice",
	  "1 name s|2 devicePath s" },
	{ "VolumeHealthCondition",
	  "1 status s|2 reason s|3 message s" },
	{ "VolumeMount",
	  "1 name s|2 readOnly b|7 recursiveReadOnly s|3 mountPath s|4 subPath s|"
	  "5 mountPropagation s|6 subPathExpr s|8 bindMountOptions [s" },
	{ "VolumeMountStatus",
	  "1 name s|2 mountPath s|3 readOnly b|4 recursiveReadOnly s|"
	  "5 volumeStatus VolumeStatus" },
	{ "VolumeProjection",
	  "1 secret SecretProjection|2 downwardAPI DownwardAPIProjection|"
	  "3 configMap ConfigMapProjection|"
	  "4 serviceAccountToken ServiceAccountTokenProjection|"
	  "5 clusterTrustBundle ClusterTrustBundleProjection|"
	  "6 podCertificate PodCertificateProjection" },
	{ "VolumeResourceRequirements",
	  "1 limits {q|2 requests {q" },
	{ "VolumeSource",
	  "1 hostPath HostPathVolumeSource|2 emptyDir EmptyDirVolumeSource|"
	  "3 gcePersistentDisk GCEPersistentDiskVolumeSource|"
	  "4 awsElasticBlockStore AWSElasticBlockStoreVolumeSource|"
	  "5 gitRepo GitRepoVolumeSource|6 secret SecretVolumeSource|"
	  "7 nfs NFSVolumeSource|8 iscsi ISCSIVolumeSource|"
	  "9 glusterfs GlusterfsVolumeSource|"
	  "10 persistentVolumeClaim PersistentVolumeClaimVolumeSource|"
	  "11 rbd RBDVolumeSource|12 flexVolume FlexVolumeSource|"
	  "13 cinder CinderVolumeSource|14 cephfs CephFSVolumeSource|"
	  "15 flocker FlockerVolumeSource|16 downwardAPI DownwardAPIVolumeSource|"
	  "17 fc FCVolumeSource|18 azureFile AzureFileVolumeSource|"
	  "19 configMap ConfigMapVolumeSource|"
	  "20 vsphereVolume VsphereVirtualDiskVolumeSource|"
	  "21 quobyte QuobyteVolumeSource|22 azureDisk AzureDiskVolumeSource|"
	  "23 photonPersistentDisk PhotonPersistentDiskVolumeSource|"
	  "26 projected ProjectedVolumeSource|24 portworxVolume PortworxVolumeSource|"
	  "25 scaleIO ScaleIOVolumeSource|27 storageos StorageOSVolumeSource|"
	  "28 csi CSIVolumeSource|29 ephemeral EphemeralVolumeSource|"
	  "30 image ImageVolumeSource" },
	{ "VolumeStatus",
	  "1 image ImageVolumeStatus" },
	{ "VsphereVirtualDiskVolumeSource",
	  "1 volumePath s|2 fsType s|3 storagePolicyName s|4 storagePolicyID s" },
	{ "WeightedPodAffinityTerm",
	  "1 weight i|2 podAffinityTerm PodAffinityTerm" },
	{ "WindowsSecurityContextOptions",
	  "1 gmsaCredentialSpecName s|2 gmsaCredentialSpec s|3 runAsUserName s|"
	  "4 hostProcess b" },
	{ NULL, NULL },
};
