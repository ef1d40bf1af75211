package gpu_metrics_exposure_test

import data.gpu_metrics_exposure

violations(i, p) := vs if {
	vs := gpu_metrics_exposure.violation with input as object.union(i, {"parameters": p})
}

test_ingress_without_rules if count(violations({"review": {"object": {"kind": "Ingress", "spec": {}}}}, {})) == 0

test_service_without_spec if count(violations({"review": {"object": {"kind": "Service"}}}, {})) == 0

test_other_kind if count(violations({"review": {"object": {"kind": "ConfigMap", "data": {"port": "9400"}}}}, {})) == 0

worst := {"kind": "Pod", "spec": {"hostNetwork": true, "containers": [{"ports": [{"containerPort": 9400, "hostPort": 9400}]}]}}

test_worst_is_refused if count(violations({"review": {"operation": "CREATE", "object": worst}}, {})) == 2

test_worst_may_stay if count(violations({"review": {"operation": "UPDATE", "object": object.union(worst, {"status": {}}), "oldObject": worst}}, {})) == 0

test_worst_may_go if count(violations({"review": {"operation": "DELETE", "object": worst, "oldObject": worst}}, {})) == 0

test_host_port_zero if count(violations({"review": {"object": {"kind": "Pod", "spec": {"containers": [{"ports": [{"containerPort": 9400, "hostPort": 0}]}]}}}}, {})) == 0

test_host_network_of_others if count(violations({"review": {"object": {"kind": "Pod", "spec": {"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]}}}}, {})) == 0

test_certificate_without_tls if {
	not gpu_metrics_exposure.secured({"tlsConfig": {"cert": {"secret": {}}}})
	not gpu_metrics_exposure.secured({"tlsConfig": {"certFile": "x"}})
	gpu_metrics_exposure.secured({"scheme": "https", "tlsConfig": {"certFile": "x"}})
}

test_monitor_that_is_old if {
	o := {"kind": "ServiceMonitor", "spec": {"endpoints": [{"port": "dcgm"}]}}
	count(violations({"review": {"operation": "UPDATE", "object": o, "oldObject": o}}, {})) == 0
}

test_route_that_is_old if {
	o := {"kind": "HTTPRoute", "spec": {"rules": [{"backendRefs": [{"name": "a", "port": 9400}]}]}}
	count(violations({"review": {"operation": "CREATE", "object": o}}, {})) == 1
	count(violations({"review": {"operation": "UPDATE", "object": o, "oldObject": o}}, {})) == 0
}

test_one_of_two_ports if {
	behind(80) == 0
	behind(81) == 1
}

behind(port) := n if {
	service := {"spec": {"ports": [{"name": "web", "port": 80, "targetPort": 8080}, {"name": "figures", "port": 81, "targetPort": 9400}]}}
	i := {"review": {"namespace": "n", "object": {
		"kind": "HTTPRoute",
		"spec": {"rules": [{"backendRefs": [{"name": "a", "port": port}]}]},
	}}}
	n := count(gpu_metrics_exposure.violation) with input as i with data.inventory.namespace as {"n": {"v1": {"Service": {"a": service}}}}
}
