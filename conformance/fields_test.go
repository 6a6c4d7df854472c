package conformance

import "strings"

// changeable is a field that svcc reads, or one beside it, and what to write there.
type changeable struct {
	path   string // dots and [] for any element; ~ stands for a dot in a key
	values []any
}

// Values by what a field is. Each list holds what is good, what is not, and what
// is at the edge.
var (
	long63  = strings.Repeat("a", 63)
	long64  = strings.Repeat("a", 64)
	long253 = strings.Repeat(strings.Repeat("a", 62)+".", 4) + "a"
	long254 = long253 + "a"

	names = []any{"web", "a", "0", "1a", "a-b", "a.b", "A", "Web", "-a", "a-", "a_b", "a b", "a/b", ".", "..", "", " ", "web\n", "ü",
		long63, long64, long253, long254, "10.96.0.1", "*", "%41"}
	addresses = []any{"10.96.0.20", "10.96.0.21", "192.0.2.1", "203.0.113.9", "10.96.0.0", "10.96.0.255", "fd00:10:96::20", "2001:db8::1",
		"2001:DB8::1", "2001:db8:0:0::1", "::ffff:10.96.0.20", "::ffff:a60:14", "010.096.000.020", "10.96.0.020", "None", "none", "NONE", "",
		" ", "10.96.0.20 ", " 10.96.0.20", "10.96.0.20\n", "10.96.0", "10.96.0.256", "10.96.0.20.1", "10.96.0.20/32", "10.96.0.20:80",
		"[2001:db8::1]", "2001:db8::1%eth0", "fe80::1%1", "::", "0.0.0.0", "0.0.0.1", "127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1",
		"169.254.0.1", "169.254.255.254", "fe80::1", "febf::1", "fec0::1", "224.0.0.0", "224.0.0.255", "224.0.1.0", "239.255.255.255",
		"ff01::1", "ff02::1", "ff05::1", "ff0e::1", "240.0.0.1", "255.255.255.255", "0x0a.0.0.1", "web.example.com", "1", "167772161"}
	ranges = []any{"192.0.2.0/24", "198.51.100.7/32", "192.0.2.1/24", "0.0.0.0/0", "::/0", "2001:db8::/32", "2001:db8::1/64", "2001:DB8::/32",
		"::ffff:192.0.2.0/120", "::ffff:0:0/96", " 192.0.2.0/24 ", "192.0.2.0/24\n", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2.0/024",
		"192.000.002.000/24", "192.0.2.0", "192.0.2/24", "192.0.2.0/", "/24", "2001:db8::/129", "", " ", "all", "10.0.0.0/8,192.0.2.0/24",
		"192.0.2.0/24/8", "192.0.2.0/255.255.255.0", "fe80::%eth0/64"}
	numbers = []any{1, 80, 443, 8080, 30000, 30080, 32767, 32768, 65535, 0, -1, 65536, 65535.0, 80.5, 2147483647, -2147483648, 2147483648,
		1e3, 1e20, "80", "http", raw("0x50"), raw("080"), raw("0o17"), raw("1_000"), raw("8e1"), raw("80.0"), raw(".inf"), raw("+80")}
	texts = []any{"", " ", "x", "Cluster", "Local", raw("yes"), raw("~"), raw("2026-11-30"), raw("0x1F"), raw("1e3"), raw("!!str 80"), raw("80:80")}
	flags = []any{true, false, "true", raw("yes"), raw("on"), raw("True"), raw("NO"), 0, 1}

	types       = []any{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "", "clusterIP", "ClusterIp", "Headless"}
	protocols   = []any{"TCP", "UDP", "SCTP", "tcp", "", "ICMP", "TCP ", "Tcp", "6"}
	policies    = []any{"Cluster", "Local", "", "local", "cluster", "Local ", "PreferLocal"}
	families    = []any{"IPv4", "IPv6", "", "ipv4", "IPV4", "IPv5"}
	affinities  = []any{"None", "ClientIP", "", "clientIP", "none", "Cookie"}
	modes       = []any{"VIP", "Proxy", "", "vip", "DSR"}
	seconds     = []any{1, 10800, 86400, 0, -1, 86401, 2147483647, 2147483648, 1.5, "10800"}
	spreads     = []any{"PreferClose", "PreferSameZone", "PreferSameNode", "", "preferClose", "PreferZone"}
	dualPolicy  = []any{"SingleStack", "PreferDualStack", "RequireDualStack", "", "singleStack"}
	kindsOfAddr = []any{"IPv4", "IPv6", "FQDN", "", "ipv4", "IP", "IPv5"}
	labels      = []any{"", "web", "x y", long63, long64, "a/b", "-", "a.b_c-d"}
	qualified   = []any{"http", "kubernetes.io/h2c", "", "a b", "/", "x/", "a/b/c", long63, long64}
	targets     = []any{"http", "h", 8080, 0, 65536, -1, "8080", "HTTP", "a-very-long-port-name", "-", "a--b", "1"}
	hosts       = []any{"lb.example.com", "LB.example.com", "", "192.0.2.1", "a_b", long253, long254, "lb.example.com."}
	nodeTypes   = []any{"InternalIP", "ExternalIP", "Hostname", "", "internalIP"}
)

var metadata = []changeable{
	{"metadata", []any{tree{"generateName": "web-"}, tree{"generateName": "Web_"}, tree{"name": "web"}, tree{}}},
	{"metadata.name", names},
	{"metadata.generateName", names},
	{"metadata.namespace", names},
	{"metadata.labels.app", labels},
	{"metadata.labels.a b", labels},
	{"metadata.annotations.note", texts},
	{"metadata.annotations.a b", texts},
	{"metadata.finalizers[]", names},
	{"metadata.creationTimestamp", []any{"2026-11-30T00:00:00Z", "yesterday", "", 0}},
	{"metadata.uid", texts},
	{"metadata.managedFields", []any{[]any{}, []any{tree{}}, []any{tree{"manager": "x", "operation": "Apply", "apiVersion": "v1"}}, "x"}},
	{"metadata.ownerReferences", []any{[]any{}, []any{tree{}}, "x"}},
}

var serviceFields = append([]changeable{
	{"spec", []any{tree{}, "", []any{}, spec("clusterIP", "127.0.0.1"), spec("clusterIP", "224.0.0.9"), spec("clusterIP", "fe80::9"),
		spec("clusterIP", "010.96.0.20", "clusterIPs", []any{"10.96.0.20"}),
		spec("type", "LoadBalancer", "externalTrafficPolicy", "Local", "healthCheckNodePort", 31000, "ports", []any{tree{"port": 80, "nodePort": 31000}})}},
	{"spec.type", types},
	{"spec.clusterIP", addresses},
	{"spec.clusterIPs", []any{[]any{}, []any{"None"}, []any{"10.96.0.20", "fd00:10:96::20"}, []any{"10.96.0.20", "10.96.0.21"}, []any{"None", "10.96.0.20"}, []any{""}, []any{"10.96.0.20", ""}}},
	{"spec.clusterIPs[]", addresses},
	{"spec.ipFamilies", []any{[]any{}, []any{"IPv4"}, []any{"IPv6"}, []any{"IPv4", "IPv6"}, []any{"IPv6", "IPv4"}, []any{"IPv4", "IPv4"}, []any{"IPv4", "IPv6", "IPv4"}}},
	{"spec.ipFamilies[]", families},
	{"spec.ipFamilyPolicy", dualPolicy},
	{"spec.ports", []any{[]any{}, []any{tree{}}, []any{tree{"port": 80}}, []any{tree{"port": 80}, tree{"port": 81}}, []any{tree{"port": 53, "name": "a"}, tree{"port": 53, "name": "b", "protocol": "UDP"}}, []any{tree{"port": 53, "name": "a"}, tree{"port": 53, "name": "b"}}, tree{"port": 80}}},
	{"spec.ports[]", []any{tree{"port": 80}, tree{"name": "x"}, "80", 80}},
	{"spec.ports[].name", names},
	{"spec.ports[].protocol", protocols},
	{"spec.ports[].port", numbers},
	{"spec.ports[].nodePort", numbers},
	{"spec.ports[].targetPort", targets},
	{"spec.ports[].appProtocol", qualified},
	{"spec.externalIPs[]", addresses},
	{"spec.externalIPs", []any{[]any{}, []any{"192.0.2.1", "192.0.2.2"}, []any{"192.0.2.1", "2001:db8::1"}, "192.0.2.1"}},
	{"spec.sessionAffinity", affinities},
	{"spec.sessionAffinityConfig", []any{tree{}, tree{"clientIP": tree{}}, tree{"clientIP": tree{"timeoutSeconds": 60}}}},
	{"spec.sessionAffinityConfig.clientIP.timeoutSeconds", seconds},
	{"spec.internalTrafficPolicy", policies},
	{"spec.externalTrafficPolicy", policies},
	{"spec.healthCheckNodePort", numbers},
	{"spec.loadBalancerSourceRanges[]", ranges},
	{"spec.loadBalancerSourceRanges", []any{[]any{}, []any{"192.0.2.0/24", "2001:db8::/32"}, []any{"192.0.2.0/24", "192.0.2.0/24"}, "192.0.2.0/24"}},
	{"spec.allocateLoadBalancerNodePorts", flags},
	{"spec.publishNotReadyAddresses", flags},
	{"spec.trafficDistribution", spreads},
	{"spec.loadBalancerIP", addresses},
	{"spec.loadBalancerClass", qualified},
	{"spec.externalName", hosts},
	{"spec.selector.app", labels},
	{"spec.selector", []any{tree{}, tree{"a b": "c"}, "app=web"}},
	{"status.loadBalancer.ingress", []any{[]any{}, []any{tree{}}, []any{tree{"ip": "192.0.2.1"}}, []any{tree{"hostname": "lb.example.com"}}, []any{tree{"ip": "192.0.2.1", "hostname": "lb.example.com"}}}},
	{"status.loadBalancer.ingress[].ip", addresses},
	{"status.loadBalancer.ingress[].ipMode", modes},
	{"status.loadBalancer.ingress[].hostname", hosts},
	{"metadata.labels.service~kubernetes~io/service-proxy-name", labels},
	{"metadata.labels.service~kubernetes~io/headless", labels},
	{"metadata.annotations.service~beta~kubernetes~io/load-balancer-source-ranges", ranges},
	{"metadata.annotations.svcc~io/ipvs-scheduler", []any{"rr", "mh", "", "fastest"}},
	{"metadata.annotations.service~kubernetes~io/topology-mode", texts},
	{"metadata.annotations.service~kubernetes~io/topology-aware-hints", texts},
}, metadata...)

var sliceFields = append([]changeable{
	{"addressType", kindsOfAddr},
	{"ports", []any{[]any{}, []any{tree{}}, []any{tree{"port": 80}}, []any{tree{"name": "a", "port": 80}, tree{"name": "a", "port": 81}}, []any{tree{"port": 1}, tree{"name": "", "port": 2}}}},
	{"ports[].name", names},
	{"ports[].protocol", protocols},
	{"ports[].port", numbers},
	{"ports[].appProtocol", qualified},
	{"endpoints", []any{[]any{}, []any{tree{}}, []any{tree{"addresses": []any{"10.0.0.1"}}}, "10.0.0.1", tree{}}},
	{"endpoints[].addresses", []any{[]any{}, []any{"10.0.0.1", "10.0.0.2"}, []any{"10.0.0.1", "2001:db8::1"}, []any{"10.0.0.1", "x"}, []any{"2001:db8::1", "10.0.0.1"}, []any{"2001:db8::1"}, []any{""}, "10.0.0.1"}},
	{"endpoints[].addresses[]", addresses},
	{"endpoints[].conditions", []any{tree{}, tree{"ready": false}, tree{"ready": false, "serving": true, "terminating": true}, "ready"}},
	{"endpoints[].conditions.ready", flags},
	{"endpoints[].conditions.serving", flags},
	{"endpoints[].conditions.terminating", flags},
	{"endpoints[].nodeName", names},
	{"endpoints[].zone", labels},
	{"endpoints[].hostname", names},
	{"endpoints[].targetRef", []any{tree{}, tree{"kind": "Pod", "name": "x"}, "pod"}},
	{"endpoints[].deprecatedTopology.zone", labels},
	{"endpoints[].hints", []any{tree{}, tree{"forZones": []any{}}, tree{"forNodes": []any{tree{"name": "node-0"}}}}},
	{"endpoints[].hints.forZones", []any{many(8), many(9), []any{tree{"name": "a"}, tree{"name": "a"}}}},
	{"endpoints[].hints.forZones[].name", labels},
	{"endpoints[].hints.forNodes", []any{many(8), many(9), []any{tree{"name": "a"}, tree{"name": "a"}}}},
	{"endpoints[].hints.forNodes[].name", names},
	{"metadata.labels.kubernetes~io/service-name", labels},
	{"metadata.labels.service~kubernetes~io/headless", labels},
	{"metadata.labels.endpointslice~kubernetes~io/managed-by", labels},
}, metadata...)

var nodeFields = append([]changeable{
	{"metadata.labels.topology~kubernetes~io/zone", labels},
	{"spec.podCIDR", ranges},
	{"spec.podCIDRs", []any{[]any{}, []any{"10.1.0.0/24"}, []any{"10.1.0.0/24", "fd00:10:1::/64"}, []any{"10.1.0.0/24", "10.2.0.0/24"}, []any{"10.1.0.0/24", "fd00::/64", "10.2.0.0/24"}, "10.1.0.0/24"}},
	{"spec.podCIDRs[]", ranges},
	{"spec.unschedulable", flags},
	{"status.addresses", []any{[]any{}, []any{tree{}}, []any{tree{"type": "InternalIP", "address": "192.0.2.1"}}, "192.0.2.1"}},
	{"status.addresses[].type", nodeTypes},
	{"status.addresses[].address", addresses},
}, metadata...)

// spec is a Service's, of one port and fields with values.
func spec(fields ...any) tree {
	out := tree{"clusterIP": "10.96.0.20", "ports": []any{tree{"port": 80}}}
	for i := 0; i < len(fields); i += 2 {
		out[fields[i].(string)] = fields[i+1]
	}
	return out
}

// many are n names, each another.
func many(n int) []any {
	var out []any
	for i := range n {
		out = append(out, tree{"name": "n" + string(rune('a'+i))})
	}
	return out
}

// odd are values of every type, for any field.
var odd = []any{"x", "", 1, 0, -1, 1.5, true, false, nil, []any{}, []any{nil}, []any{"x"}, []any{1}, tree{}, tree{"x": 1}, tree{"x": nil},
	raw("~"), raw("yes"), raw("0x10"), raw("null"), raw("!!binary aGVsbG8="), raw(".nan"), raw("0.0"), raw("'80'")}
