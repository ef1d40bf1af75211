# The parts of Kubernetes: their settings, and starting, waiting for and killing each. Sourced by ../cluster.
# The process id of each, inside its machine, is in the machine's /run/COMPONENT.pid.

components_of() { # MACHINE
	case $1 in
	control) echo etcd kube-apiserver kube-controller-manager kube-scheduler ;;
	*) echo containerd kubelet ;;
	esac
}

component_command() { # COMPONENT MACHINE: fills the array "command"
	local pki=/etc/kubernetes/pki config
	case $1 in
	etcd)
		command=(etcd --name=bed --data-dir=/var/lib/etcd --unsafe-no-fsync
			--listen-client-urls=http://127.0.0.1:2379 --advertise-client-urls=http://127.0.0.1:2379
			--listen-peer-urls=http://127.0.0.1:2380 --initial-advertise-peer-urls=http://127.0.0.1:2380
			--initial-cluster=bed=http://127.0.0.1:2380)
		;;
	kube-apiserver)
		# Port 443 and 10.96.0.1 on the loopback: in-cluster clients need no kube-proxy. With aggregator
		# routing, webhooks that name a Service are dialled at its endpoints.
		command=(kube-apiserver --etcd-servers=http://127.0.0.1:2379
			--bind-address=0.0.0.0 --secure-port=443 --advertise-address="$net.1"
			--service-cluster-ip-range=10.96.0.0/16 --enable-aggregator-routing=true
			--authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction
			--allow-privileged=true --client-ca-file=$pki/ca.crt
			--tls-cert-file=$pki/apiserver.crt --tls-private-key-file=$pki/apiserver.key
			--kubelet-certificate-authority=$pki/ca.crt
			--kubelet-client-certificate=$pki/apiserver-kubelet.crt
			--kubelet-client-key=$pki/apiserver-kubelet.key
			--kubelet-preferred-address-types=InternalIP
			--service-account-issuer=https://kubernetes.default.svc.cluster.local
			--service-account-key-file=$pki/sa.pub --service-account-signing-key-file=$pki/sa.key
			--requestheader-client-ca-file=$pki/ca.crt
			--requestheader-allowed-names=front-proxy-client
			--requestheader-username-headers=X-Remote-User
			--requestheader-group-headers=X-Remote-Group
			--requestheader-extra-headers-prefix=X-Remote-Extra-
			--proxy-client-cert-file=$pki/front-proxy.crt --proxy-client-key-file=$pki/front-proxy.key
			--audit-policy-file=/etc/kubernetes/audit.yaml --audit-log-path=/var/log/audit.log)
		;;
	kube-controller-manager)
		config=$pki/kube-controller-manager.kubeconfig
		command=(kube-controller-manager --kubeconfig=$config
			--authentication-kubeconfig=$config --authorization-kubeconfig=$config
			--use-service-account-credentials=true --service-account-private-key-file=$pki/sa.key
			--root-ca-file=$pki/ca.crt --cluster-signing-cert-file=$pki/ca.crt
			--cluster-signing-key-file=$pki/ca.key --leader-elect=false --bind-address=127.0.0.1
			--kube-api-qps=200 --kube-api-burst=400 --flex-volume-plugin-dir=/var/lib/kubelet/volumeplugins)
		;;
	kube-scheduler)
		config=$pki/kube-scheduler.kubeconfig
		command=(kube-scheduler --kubeconfig=$config
			--authentication-kubeconfig=$config --authorization-kubeconfig=$config
			--leader-elect=false --bind-address=127.0.0.1)
		;;
	containerd) command=(containerd --config=/etc/containerd.toml) ;;
	kubelet)
		command=(kubelet --config=/etc/kubernetes/kubelet.yaml --kubeconfig=$pki/"$2".kubeconfig
			--node-ip="$(address "$2")")
		;;
	esac
}

settings_write() {
	local n root
	cat >"$state/control/root/etc/kubernetes/audit.yaml" <<-END
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules:
		- {level: None, resources: [{group: coordination.k8s.io, resources: [leases]}]}
		- {level: None, nonResourceURLs: [/readyz*, /livez*, /healthz*, /metrics]}
		- {level: Metadata}
	END
	for n in 1 2; do
		root=$state/gpu-node-$n/root
		containerd_settings >"$root/etc/containerd.toml"
		cni_settings $n >"$root/etc/cni/net.d/10-bed.conflist"
		kubelet_settings gpu-node-$n >"$root/etc/kubernetes/kubelet.yaml"
	done
}

containerd_settings() {
	cat <<-END
		version = 3
		root = "/var/lib/containerd"
		state = "/run/containerd"

		[plugins.'io.containerd.cri.v1.images']
		  snapshotter = "overlayfs"
		  [plugins.'io.containerd.cri.v1.images'.pinned_images]
		    sandbox = "localhost/pause:e2e"

		[plugins.'io.containerd.cri.v1.runtime']
		  enable_cdi = true
		  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]
		  restrict_oom_score_adj = true
		  disable_apparmor = true
		  [plugins.'io.containerd.cri.v1.runtime'.cni]
		    bin_dirs = ["/usr/lib/cni"]
		    conf_dir = "/etc/cni/net.d"
		  [plugins.'io.containerd.cri.v1.runtime'.containerd]
		    default_runtime_name = "runc"
		    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
		      runtime_type = "io.containerd.runc.v2"
		      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
		        BinaryName = "runc"
		        SystemdCgroup = false
	END
}

cni_settings() { # NODE_NUMBER
	cat <<-END
		{"cniVersion": "0.4.0", "name": "bed", "plugins": [{
		  "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
		  "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.88.$1.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}
		}]}
	END
}

kubelet_settings() { # MACHINE
	cat <<-END
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
		cgroupDriver: cgroupfs
		failCgroupV1: false
		failSwapOn: false
		resolvConf: ""
		clusterDNS: [10.96.0.10]
		clusterDomain: cluster.local
		makeIPTablesUtilChains: false
		nodeStatusUpdateFrequency: 2s
		syncFrequency: 5s
		volumePluginDir: /var/lib/kubelet/volumeplugins
		evictionHard: {memory.available: "0%", nodefs.available: "0%", nodefs.inodesFree: "0%", imagefs.available: "0%", imagefs.inodesFree: "0%"}
		imageGCHighThresholdPercent: 100
		imageGCLowThresholdPercent: 99
		tlsCertFile: /etc/kubernetes/pki/$1.crt
		tlsPrivateKeyFile: /etc/kubernetes/pki/$1.key
		authentication:
		  anonymous: {enabled: false}
		  webhook: {enabled: true}
		  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
		authorization: {mode: Webhook}
	END
}

component_log() { # COMPONENT MACHINE
	case $2 in control) echo "$1" ;; *) echo "$1-${2#gpu-node-}" ;; esac
}

component_pid() { # COMPONENT MACHINE: its process id inside the machine; fails when it does not run
	# shellcheck disable=SC2016
	machine_run "$2" sh -c 'pid=$(cat "/run/$1.pid" 2>/dev/null) &&
		[ "$(readlink "/proc/$pid/exe")" = "/opt/kubernetes/$1" ] && echo "$pid"' _ "$1"
}

component_start() { # COMPONENT MACHINE
	local command=()
	component_command "$1" "$2"
	# shellcheck disable=SC2016
	machine_run "$2" setsid -f sh -c 'echo $$ >"/run/$1.pid"; shift; exec "$@"' _ "$1" "${command[@]}" \
		</dev/null >>"$state/log/$(component_log "$1" "$2").log" 2>&1
}

component_ready() { # COMPONENT MACHINE
	component_pid "$1" "$2" >/dev/null || return 1
	case $1 in
	etcd) machine_listens "$2" 2379 ;;
	kube-apiserver) [ "$(kubectl get --raw /readyz 2>/dev/null)" = ok ] ;;
	kube-controller-manager) machine_listens "$2" 10257 ;;
	kube-scheduler) machine_listens "$2" 10259 ;;
	containerd) machine_run "$2" ctr version >/dev/null 2>&1 ;;
	kubelet) machine_listens "$2" 10248 && machine_listens "$2" 10250 "$(address "$2")" ;;
	esac
}

machine_listens() { # MACHINE PORT [ADDRESS]
	machine_run "$1" bash -c ": </dev/tcp/${3:-127.0.0.1}/$2" 2>/dev/null
}

component_wait() { # COMPONENT MACHINE
	wait_for 60 "$1 on $2" "$(component_log "$1" "$2")" component_ready "$1" "$2"
}

component_kill() { # COMPONENT MACHINE
	local pid
	pid=$(component_pid "$1" "$2") || die "$1 does not run on $2"
	# shellcheck disable=SC2016
	machine_run "$2" sh -c 'kill -9 "$1"; while [ -d "/proc/$1" ]; do sleep 0.05; done' _ "$pid"
}
