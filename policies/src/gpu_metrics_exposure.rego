# Figures of GPUs tell tenants about each other: who works when, on what, in which pod. They do not leave
# the cluster without asking who reads them.
package gpu_metrics_exposure

import data.lib.gpu

# 9400 DCGM exporter and ringfence's agents, 5555 DCGM itself, 9835 nvidia_gpu_exporter, 2021 AMD's.
ports := {sprintf("%v", [p]) | some p in gpu.parameter("ports", [9400, 9401, 5555, 9835])}

names := gpu.parameter("portNames", ["gpu-metrics*", "dcgm*", "nvidia*"])

# A port by number, by a number in text, or by name.
is_metrics(p) if sprintf("%v", [p]) in ports

is_metrics(p) if {
	is_string(p)
	gpu.fits(lower(p), gpu.sorted_out(names))
}

judged if {
	not gpu.deleting
	not same
}

same if {
	gpu.old.spec == gpu.reviewed.spec
	object.get(gpu.old, ["metadata", "annotations"], {}) == object.get(gpu.reviewed, ["metadata", "annotations"], {})
}

# --- Services ---

serves_metrics(service) if {
	some p in service.spec.ports
	some field in ["port", "targetPort", "name"]
	is_metrics(p[field])
}

outside := gpu.reviewed.spec.type if {
	gpu.reviewed.spec.type in ["NodePort", "LoadBalancer"]
} else := "externalIPs" if {
	count(gpu.reviewed.spec.externalIPs) > 0
}

violation contains {"msg": msg} if {
	judged
	gpu.reviewed.kind == "Service"
	serves_metrics(gpu.reviewed)
	msg := sprintf(
		"%s: offers GPU metrics outside the cluster (%s) to whoever asks; make it a ClusterIP and let the scraper come inside",
		[gpu.subject, outside],
	)
}

# --- Ingress and routes ---

authenticated if {
	some key in gpu.parameter("authAnnotations", [
		"nginx.ingress.kubernetes.io/auth-url",
		"nginx.ingress.kubernetes.io/auth-type",
		"nginx.ingress.kubernetes.io/auth-tls-secret",
		"traefik.ingress.kubernetes.io/router.middlewares",
		"haproxy.org/auth-type",
		"alb.ingress.kubernetes.io/auth-type",
	])
	value := gpu.reviewed.metadata.annotations[key]
	is_string(value)
	not lower(trim_space(value)) in ["", "none", "false", "off"]
}

backends contains [b.service.name, p] if {
	gpu.reviewed.kind == "Ingress"
	some b in array.concat(
		[x | x := gpu.reviewed.spec.defaultBackend],
		[path.backend | some rule in gpu.reviewed.spec.rules; some path in rule.http.paths],
	)
	some p in [x | some field in ["number", "name"]; x := b.service.port[field]]
}

backends contains [ref.name, ref.port] if {
	gpu.reviewed.kind in ["HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute"]
	some rule in gpu.reviewed.spec.rules
	some ref in rule.backendRefs
}

# By its own port, or by what is known of the service behind it.
leads_to_metrics(_, port) if is_metrics(port)

leads_to_metrics(service, port) if {
	found := data.inventory.namespace[gpu.namespace].v1.Service[service]
	some p in found.spec.ports
	port in [p.port, object.get(p, "name", null)]
	is_metrics(object.get(p, "targetPort", p.port))
}

violation contains {"msg": msg} if {
	judged
	some [service, port] in backends
	leads_to_metrics(service, port)
	not authenticated
	msg := sprintf(
		"%s: leads to GPU metrics (service %s, port %v) without asking who reads them; add an annotation of your ingress for authentication, or remove the path",
		[gpu.subject, gpu.show(service), port],
	)
}

# --- pods ---

violation contains {"msg": msg} if {
	gpu.judged
	some x in gpu.containers
	some p in x.is.ports
	host := p.hostPort
	not gpu.zero(host)
	exposes(p)
	msg := sprintf(
		"%s, %s: offers GPU metrics at port %v of the node to whoever reaches it; remove hostPort",
		[gpu.subject, gpu.where(x), host],
	)
}

violation contains {"msg": msg} if {
	gpu.judged
	gpu.on(gpu.spec.hostNetwork)
	some x in gpu.containers
	some p in x.is.ports
	exposes(p)
	msg := sprintf(
		"%s, %s: offers GPU metrics (port %v) in the node's network to whoever reaches it; remove hostNetwork",
		[gpu.subject, gpu.where(x), p.containerPort],
	)
}

exposes(p) if {
	some field in ["containerPort", "hostPort", "name"]
	is_metrics(p[field])
}

# --- monitors ---

monitor_lists := {"ServiceMonitor": "endpoints", "PodMonitor": "podMetricsEndpoints"}

secured(e) if {
	lower(object.get(e, "scheme", "http")) == "https"
	some field in ["authorization", "oauth2", "basicAuth", "bearerTokenSecret", "bearerTokenFile"]
	not object.get(e, field, null) in [null, "", {}]
}

secured(e) if {
	lower(object.get(e, "scheme", "http")) == "https"
	is_object(e.tlsConfig.cert)
}

secured(e) if {
	lower(object.get(e, "scheme", "http")) == "https"
	not object.get(e, ["tlsConfig", "certFile"], "") in ["", null]
}

violation contains {"msg": msg} if {
	judged
	some i, e in gpu.reviewed.spec[monitor_lists[gpu.reviewed.kind]]
	some field in ["port", "targetPort", "portNumber"]
	is_metrics(e[field])
	not secured(e)
	msg := sprintf(
		"%s: reads GPU metrics without TLS and a credential (entry %v), so their server must give them to everybody; set scheme: https and authorization, oauth2 or a client certificate",
		[gpu.subject, i],
	)
}
