package validate

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/manifest"
)

// What the API server stores for what a user writes. Each row's second text is
// from the API's documentation of the field.
func TestDefaultsOfServices(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"the least": {
			`{"spec": {"ports": [{"port": 80}]}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			  "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}, "status": {"loadBalancer": {}}}`,
		},
		"target ports that say nothing": {
			`{"spec": {"ports": [{"port": 80, "targetPort": ""}, {"port": 81, "targetPort": 0}]}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			  "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 81, "protocol": "TCP", "targetPort": 81}]}, "status": {"loadBalancer": {}}}`,
		},
		"what is set stays": {
			`{"spec": {"type": "NodePort", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
			  "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
			  "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
			  "ports": [{"port": 53, "protocol": "UDP", "targetPort": "dns"}]}}`,
			`{"spec": {"type": "NodePort", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
			  "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
			  "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ipFamilies": ["IPv4"],
			  "ports": [{"port": 53, "protocol": "UDP", "targetPort": "dns"}]}, "status": {"loadBalancer": {}}}`,
		},
		"affinity lasts three hours": {
			`{"spec": {"sessionAffinity": "ClientIP"}}`,
			`{"spec": {"type": "ClusterIP", "internalTrafficPolicy": "Cluster", "sessionAffinity": "ClientIP",
			  "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}}}, "status": {"loadBalancer": {}}}`,
		},
		"no affinity, no configuration": {
			`{"spec": {"sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}}}}`,
			`{"spec": {"type": "ClusterIP", "internalTrafficPolicy": "Cluster", "sessionAffinity": "None"}, "status": {"loadBalancer": {}}}`,
		},
		"a load balancer": {
			`{"spec": {"type": "LoadBalancer"}, "status": {"loadBalancer": {"ingress": [
			  {"ip": "203.0.113.1"}, {"hostname": "a.example"}, {"ip": "203.0.113.2", "ipMode": "Proxy"}]}}}`,
			`{"spec": {"type": "LoadBalancer", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster",
			  "allocateLoadBalancerNodePorts": true}, "status": {"loadBalancer": {"ingress": [
			  {"ip": "203.0.113.1", "ipMode": "VIP"}, {"hostname": "a.example"}, {"ip": "203.0.113.2", "ipMode": "Proxy"}]}}}`,
		},
		"external IPs are an outside": {
			`{"spec": {"externalIPs": ["203.0.113.1"]}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster", "externalTrafficPolicy": "Cluster",
			  "externalIPs": ["203.0.113.1"]}, "status": {"loadBalancer": {}}}`,
		},
		"an external name": {
			`{"spec": {"type": "ExternalName", "externalName": "a.example"}}`,
			`{"spec": {"type": "ExternalName", "externalName": "a.example", "sessionAffinity": "None"}, "status": {"loadBalancer": {}}}`,
		},
		"families of the addresses": {
			`{"spec": {"clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "010.96.0.1"]}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			  "clusterIP": "fd00::1", "clusterIPs": ["fd00::1", "010.96.0.1"], "ipFamilies": ["IPv6", "IPv4"]}, "status": {"loadBalancer": {}}}`,
		},
		"the second family": {
			`{"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"], "ipFamilies": ["IPv4"]}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			  "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"], "ipFamilies": ["IPv4", "IPv6"]}, "status": {"loadBalancer": {}}}`,
		},
		"headless": {
			`{"spec": {"clusterIP": "None"}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			  "clusterIP": "None", "clusterIPs": ["None"]}, "status": {"loadBalancer": {}}}`,
		},
		"an unreadable address": {
			`{"spec": {"clusterIP": "x"}}`,
			`{"spec": {"type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
			  "clusterIP": "x", "clusterIPs": ["x"]}, "status": {"loadBalancer": {}}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, want := fromJSON[corev1.Service](t, c.in), fromJSON[corev1.Service](t, c.want)
			set := &manifest.Set{Services: []*manifest.Object[*corev1.Service]{{Value: got}}}
			Defaults(set)
			Defaults(set) // twice is as good as once
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestDefaultsOfSlices(t *testing.T) {
	got := fromJSON[discoveryv1.EndpointSlice](t, `{"ports": [{"port": 80}, {"name": "dns", "protocol": "UDP"}, {"name": "empty", "protocol": ""}]}`)
	want := fromJSON[discoveryv1.EndpointSlice](t, `{"ports": [{"name": "", "protocol": "TCP", "port": 80}, {"name": "dns", "protocol": "UDP"}, {"name": "empty", "protocol": ""}]}`)
	Defaults(&manifest.Set{Slices: []*manifest.Object[*discoveryv1.EndpointSlice]{{Value: got}}})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestDefaultsOfNodes(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                            `{}`,
		`{"podCIDR": "10.1.0.0/24"}`:    `{"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}`,
		`{"podCIDRs": ["10.1.0.0/24"]}`: `{"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}`,
		`{"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}`: `{"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24", "fd00::/64"]}`,
		`{"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.2.0.0/24", "fd00::/64"]}`: `{"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}`,
	} {
		got := fromJSON[corev1.Node](t, `{"spec": `+in+`}`)
		Defaults(&manifest.Set{Nodes: []*manifest.Object[*corev1.Node]{{Value: got}}})
		if diff := cmp.Diff(fromJSON[corev1.Node](t, `{"spec": `+want+`}`), got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", in, diff)
		}
	}
}

// An Endpoints object counts as the slices that a cluster makes of it, unless
// its Service has some already or the cluster would not mirror it.
func TestMirroredEndpoints(t *testing.T) {
	const text = `
apiVersion: v1
kind: Endpoints
metadata: {name: web, namespace: demo}
subsets:
- addresses: [{ip: 10.244.1.5, nodeName: node-a}, {ip: "fd00::5"}]
  notReadyAddresses: [{ip: 10.244.2.8, targetRef: {kind: Pod, name: p}}]
  ports: [{name: http, port: 8080}]
- addresses: [{ip: 127.0.0.1}]
  ports: [{name: dns, port: 53, protocol: UDP}]
---
{apiVersion: v1, kind: Endpoints, metadata: {name: lock, annotations: {control-plane.alpha.kubernetes.io/leader: "{}"}}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: skip, labels: {endpointslice.kubernetes.io/skip-mirror: "true"}}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}
---
{apiVersion: v1, kind: Endpoints, metadata: {name: both, namespace: demo}, subsets: [{addresses: [{ip: 10.0.0.1}]}]}
---
{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: both-1, namespace: demo, labels: {kubernetes.io/service-name: both}}, addressType: IPv4}
`
	set, list := manifest.Load([]string{"-"}, strings.NewReader(text), manifest.Options{Endpoints: true})
	if len(list) > 0 {
		t.Fatal(list)
	}
	Defaults(set)
	Defaults(set)
	var got []discoveryv1.EndpointSlice
	for _, o := range set.Slices[1:] {
		got = append(got, *o.Value)
	}
	const meta = `"metadata": {"namespace": "demo", "labels": {"kubernetes.io/service-name": "web"}, "name": `
	want := fromJSON[[]discoveryv1.EndpointSlice](t, `[
	 {`+meta+`"web-0-ipv4"}, "addressType": "IPv4", "ports": [{"name": "http", "protocol": "TCP", "port": 8080}], "endpoints": [
	  {"addresses": ["10.244.1.5"], "conditions": {"ready": true}, "nodeName": "node-a"},
	  {"addresses": ["10.244.2.8"], "conditions": {"ready": false}, "targetRef": {"kind": "Pod", "name": "p"}}]},
	 {`+meta+`"web-0-ipv6"}, "addressType": "IPv6", "ports": [{"name": "http", "protocol": "TCP", "port": 8080}], "endpoints": [
	  {"addresses": ["fd00::5"], "conditions": {"ready": true}}]},
	 {`+meta+`"web-1-ipv4"}, "addressType": "IPv4", "ports": [{"name": "dns", "protocol": "UDP", "port": 53}], "endpoints": [
	  {"addresses": ["127.0.0.1"], "conditions": {"ready": true}}]}]`)
	if diff := cmp.Diff(*want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r := Check(set, Options{}); len(r.Faulty) != 1 || !r.Faulty["demo/web"] {
		t.Errorf("a mirrored loopback address: %v", r)
	}
}

func fromJSON[T any](t *testing.T, text string) *T {
	t.Helper()
	v := new(T)
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatal(err)
	}
	return v
}
