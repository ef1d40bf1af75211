# Keys, certificates and kubeconfigs: one authority, one certificate per client and server.
# Sourced by ../cluster.

pki_make() {
	local pki=$state/pki n
	mkdir -p "$pki"
	chmod 700 "$pki"
	cat >"$pki/openssl.cnf" <<-END
		[req]
		distinguished_name = name
		prompt = no
		[name]
		[authority]
		basicConstraints = critical, CA:true
		keyUsage = critical, keyCertSign, digitalSignature
		subjectKeyIdentifier = hash
		[leaf]
		basicConstraints = critical, CA:false
		keyUsage = critical, digitalSignature
		extendedKeyUsage = serverAuth, clientAuth
		authorityKeyIdentifier = keyid
	END
	openssl req -x509 -config "$pki/openssl.cnf" -extensions authority -subj /CN=ringfence-bed \
		-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
		-keyout "$pki/ca.key" -out "$pki/ca.crt" 2>/dev/null

	certificate apiserver /CN=kube-apiserver "IP:127.0.0.1,IP:$net.1,IP:10.96.0.1,DNS:localhost,DNS:kubernetes,$(
		)DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local"
	certificate apiserver-kubelet /O=system:masters/CN=kube-apiserver-kubelet-client
	certificate front-proxy /CN=front-proxy-client
	certificate admin /O=system:masters/CN=admin
	certificate kube-controller-manager /CN=system:kube-controller-manager
	certificate kube-scheduler /CN=system:kube-scheduler
	for n in 1 2; do
		certificate gpu-node-$n /O=system:nodes/CN=system:node:gpu-node-$n "IP:$net.1$n,DNS:gpu-node-$n"
	done
	openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out "$pki/sa.key" 2>/dev/null
	openssl pkey -in "$pki/sa.key" -pubout -out "$pki/sa.pub"

	kubeconfig admin >"$state/kubeconfig.new"
	chmod 600 "$state/kubeconfig.new"
	for n in kube-controller-manager kube-scheduler gpu-node-1 gpu-node-2; do
		kubeconfig $n >"$pki/$n.kubeconfig"
	done
	pki_place control ca.crt ca.key sa.key sa.pub apiserver.crt apiserver.key apiserver-kubelet.crt \
		apiserver-kubelet.key front-proxy.crt front-proxy.key kube-controller-manager.kubeconfig \
		kube-scheduler.kubeconfig
	for n in 1 2; do
		pki_place gpu-node-$n ca.crt gpu-node-$n.crt gpu-node-$n.key gpu-node-$n.kubeconfig
	done
}

certificate() { # NAME SUBJECT [ALTERNATIVE_NAMES]
	local pki=$state/pki
	openssl req -x509 -config "$pki/openssl.cnf" -extensions leaf -subj "$2" \
		${3:+-addext "subjectAltName=$3"} -CA "$pki/ca.crt" -CAkey "$pki/ca.key" \
		-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 \
		-keyout "$pki/$1.key" -out "$pki/$1.crt" 2>/dev/null
}

kubeconfig() { # NAME
	cat <<-END
		apiVersion: v1
		kind: Config
		current-context: bed
		contexts: [{name: bed, context: {cluster: bed, user: $1}}]
		clusters:
		- name: bed
		  cluster:
		    server: https://$net.1:443
		    certificate-authority-data: $(base64 -w0 <"$state/pki/ca.crt")
		users:
		- name: $1
		  user:
		    client-certificate-data: $(base64 -w0 <"$state/pki/$1.crt")
		    client-key-data: $(base64 -w0 <"$state/pki/$1.key")
	END
}

pki_place() { # MACHINE FILE...: into the machine's /etc/kubernetes/pki
	local folder=$state/$1/root/etc/kubernetes/pki file
	shift
	mkdir -p "$folder"
	chmod 700 "$folder"
	for file; do cp "$state/pki/$file" "$folder/"; done
}
