package diag

// 2: one object's fields. 20 and 21 are Services, 25 EndpointSlices, 28 the
// other kinds.
const (
	BadName               Code = "SVCC2001"
	BadServiceType        Code = "SVCC2002"
	NoPorts               Code = "SVCC2003"
	BadPort               Code = "SVCC2004"
	BadProtocol           Code = "SVCC2005"
	BadPortName           Code = "SVCC2006"
	PortNameMissing       Code = "SVCC2007"
	DuplicatePortName     Code = "SVCC2008"
	DuplicatePort         Code = "SVCC2009"
	BadAddress            Code = "SVCC2010"
	SpecialAddress        Code = "SVCC2011"
	NotCanonical          Code = "SVCC2012"
	BadClusterIPs         Code = "SVCC2013"
	BadIPFamilies         Code = "SVCC2014"
	BadSourceRange        Code = "SVCC2015"
	SourceRangesMisplaced Code = "SVCC2016"
	BadTrafficPolicy      Code = "SVCC2017"
	BadHealthCheckPort    Code = "SVCC2018"
	BadAffinity           Code = "SVCC2019"
	BadDistribution       Code = "SVCC2020"
	BadIngress            Code = "SVCC2021"
	IngressNotAddress     Code = "SVCC2022"
	NodePortMisplaced     Code = "SVCC2023"
	BadScheduler          Code = "SVCC2024"

	NotOurs               Code = "SVCC2101"
	NoClusterIP           Code = "SVCC2102"
	NoClusterIPOfFamily   Code = "SVCC2103"
	NoNodePort            Code = "SVCC2104"
	NoLoadBalancerAddress Code = "SVCC2105"
	NoVIP                 Code = "SVCC2106"
	NoHealthCheckPort     Code = "SVCC2107"
	IgnoredByHeadless     Code = "SVCC2108"
	FamilyNotServed       Code = "SVCC2109"
	ExternalIPsDeprecated Code = "SVCC2110"
	RangesLeaveFamilyOpen Code = "SVCC2111"
	RangesNotElsewhere    Code = "SVCC2112"
	RangesAllowAll        Code = "SVCC2113"
	RangesByAnnotation    Code = "SVCC2114"
	AffinityPerPort       Code = "SVCC2115"
	AffinityForgets       Code = "SVCC2116"
	HealthCheckNotServed  Code = "SVCC2117"
	NodePortOutsideRange  Code = "SVCC2118"
	NodePortEphemeral     Code = "SVCC2119"
	PreferCloseDeprecated Code = "SVCC2120"
	LocalPublishNotReady  Code = "SVCC2121"
	PersistenceLonger     Code = "SVCC2122"
	SpecialVIP            Code = "SVCC2123"
	RangeFamilyUnused     Code = "SVCC2124"
	RangesShutOut         Code = "SVCC2125"
	MulticastAddress      Code = "SVCC2126"
	AnswersARP            Code = "SVCC2127"

	BadAddressType     Code = "SVCC2501"
	TooMany            Code = "SVCC2502"
	NoAddress          Code = "SVCC2503"
	BadEndpointAddress Code = "SVCC2504"
	ForbiddenEndpoint  Code = "SVCC2505"
	SeveralAddresses   Code = "SVCC2506"
	BadNodeName        Code = "SVCC2507"
	SliceWithoutLabel  Code = "SVCC2508"
	SliceOfNames       Code = "SVCC2509"
	SlicePortNotSet    Code = "SVCC2510"
	SliceWithoutPorts  Code = "SVCC2511"
	SliceHeadless      Code = "SVCC2512"
	MulticastEndpoint  Code = "SVCC2513"

	BadServiceCIDR Code = "SVCC2801"
)

// 3: across objects.
const (
	ClaimedTwice           Code = "SVCC3001"
	NodePortClash          Code = "SVCC3002"
	ServiceWithoutSlice    Code = "SVCC3003"
	SliceWithoutService    Code = "SVCC3004"
	ServicePortUnmatched   Code = "SVCC3005"
	SlicePortUnmatched     Code = "SVCC3006"
	FamilyWithoutSlice     Code = "SVCC3007"
	SliceFamilyUnused      Code = "SVCC3008"
	HintsIncomplete        Code = "SVCC3009"
	DistributionNoHints    Code = "SVCC3010"
	ExternalIPIsNode       Code = "SVCC3011"
	VIPIsNode              Code = "SVCC3012"
	EndpointInServiceCIDR  Code = "SVCC3013"
	ClusterIPOutsideCIDR   Code = "SVCC3014"
	ManyEndpoints          Code = "SVCC3015"
	NotReadyThoughPublish  Code = "SVCC3016"
	EndpointOfSeveralNames Code = "SVCC3017"
	TakesNodeAddress       Code = "SVCC3018"
	EndpointIsDestination  Code = "SVCC3019"
	DestinationShared      Code = "SVCC3020"
	ClaimedAgain           Code = "SVCC3021"
	ClusterIPTwice         Code = "SVCC3022"
	NodePortHidden         Code = "SVCC3023"
	SlicesOfTwoManagers    Code = "SVCC3024"
	NoLocalEndpoint        Code = "SVCC3025"
	NodeOfNoEndpoint       Code = "SVCC3026"
)

var objects = merge(serviceFaults, serviceAdvice, sliceFindings, crossings)

// serviceFaults are what the API server would have refused in a Service.
var serviceFaults = map[Code]Info{
	BadName:               {Error, "not a DNS name", "An object's name or namespace does not follow the DNS rules that the API server enforces. Names become part of rules, so nothing else may pass. Use lower-case letters, digits and '-'.", false},
	BadServiceType:        {Error, "unknown service type", "spec.type is none of ClusterIP, NodePort, LoadBalancer, ExternalName.", false},
	NoPorts:               {Error, "service without ports", "A Service needs at least one port, unless it is headless or of type ExternalName.", false},
	BadPort:               {Error, "port out of range", "A port, node port or health check node port is not within 1 to 65535.", false},
	BadProtocol:           {Error, "unknown protocol", "A port's protocol is none of TCP, UDP, SCTP, in capitals.", false},
	BadPortName:           {Error, "port name is not a DNS label", "The name of a port must be a DNS label: at most 63 lower-case letters, digits and '-'. It becomes part of rules.", false},
	PortNameMissing:       {Error, "port without a name", "Every port needs a name as soon as a Service has more than one: endpoints are matched to ports by name.", false},
	DuplicatePortName:     {Error, "port name used twice", "Two ports of one Service or EndpointSlice have the same name; one would hide the other.", false},
	DuplicatePort:         {Error, "port used twice in a service", "Two ports of one Service have the same protocol and port, or the same protocol and node port.", false},
	BadAddress:            {Error, "not an IP address", "A cluster IP or external IP cannot be read as an address.", false},
	SpecialAddress:        {Error, "address of a special range", "Unspecified, loopback and link-local addresses (of multicast 224.0.0.0/24 and ff02::/16) cannot belong to a Service, as the API server has it: the rules would capture the node's own traffic. In IPVS mode, where the node bears the addresses of Services, this is so of a load balancer's in a status as well (link-local ones may be), and of all multicast addresses, 0.0.0.0/8 and 240.0.0.0/4.", false},
	NotCanonical:          {Warning, "address in an unusual form", "The address or range is read as Kubernetes reads it (leading zeros are decimal, an IPv4-mapped address is IPv4, host bits are masked), but other tools read it otherwise. Write the canonical form.", false},
	BadClusterIPs:         {Error, "cluster IPs do not agree", "At most one cluster IP a family, the first the same as spec.clusterIP, in the order of spec.ipFamilies; None stands alone and goes with type ClusterIP; ExternalName has none.", false},
	BadIPFamilies:         {Error, "bad IP families", "spec.ipFamilies holds IPv4, IPv6 or both, each once.", false},
	BadSourceRange:        {Error, "unreadable source range", "kube-proxy ignores a range it cannot read, and without any left lets everybody in. svcc does not compile such a Service.", false},
	SourceRangesMisplaced: {Error, "source ranges without a load balancer", "spec.loadBalancerSourceRanges is allowed only with type LoadBalancer; elsewhere it filters nothing.", false},
	BadTrafficPolicy:      {Error, "bad traffic policy", "A traffic policy is Cluster or Local, and spec.externalTrafficPolicy may be set only if the Service can be reached from outside: type NodePort or LoadBalancer, or with external IPs.", false},
	BadHealthCheckPort:    {Error, "health check node port out of place", "spec.healthCheckNodePort is allowed only with type LoadBalancer and externalTrafficPolicy Local.", false},
	BadAffinity:           {Error, "bad session affinity", "spec.sessionAffinity is None or ClientIP, and its timeout is 1 to 86400 seconds.", false},
	BadDistribution:       {Error, "unknown traffic distribution", "spec.trafficDistribution is PreferSameZone, PreferSameNode or the deprecated PreferClose.", false},
	BadIngress:            {Error, "bad load balancer status", "status.loadBalancer.ingress is allowed only with type LoadBalancer; ipMode is VIP or Proxy, and goes only with an ip.", false},
	IngressNotAddress:     {Warning, "load balancer address unreadable", "An ip in status.loadBalancer.ingress is not an address (a trailing blank is enough). That entry alone is left out, as kube-proxy leaves it.", true},
	BadScheduler:          {Error, "unknown scheduler", "The annotation svcc.io/ipvs-scheduler names none of the kernel's schedulers (ipvsadm(8)). It counts in IPVS mode only.", false},
	NodePortMisplaced:     {Error, "node port without need", "A node port is allowed only with type NodePort or LoadBalancer.", false},
}

// serviceAdvice is what the API server accepts in a Service, or fills in, and
// the reader of rules should know.
var serviceAdvice = map[Code]Info{
	NotOurs:               {Note, "another proxy's service", "The label service.kubernetes.io/service-proxy-name, whatever its value, hands the Service to another proxy. No rules are built.", false},
	NoClusterIP:           {Warning, "no cluster IP yet", "The cluster IP is allocated by the API server; a chart or plain manifest has none. The Service is left out, as kube-proxy leaves it. Set spec.clusterIP, or compile what kubectl get -o yaml prints.", true},
	NoClusterIPOfFamily:   {Warning, "no cluster IP of one family", "spec.ipFamilies asks for a family in which spec.clusterIPs has no address. The Service has no rules in that family, not even for its other addresses.", true},
	NoNodePort:            {Warning, "no node port yet", "The node port is allocated by the API server. The rest of the Service is built. Set nodePort, or for a LoadBalancer allocateLoadBalancerNodePorts: false.", true},
	NoLoadBalancerAddress: {Warning, "no load balancer address yet", "status.loadBalancer.ingress is empty: no rule for a load balancer address is built. The rest of the Service is.", true},
	NoVIP:                 {Note, "load balancer address is not for the node", "Every entry of status.loadBalancer.ingress is a host name or has ipMode Proxy: traffic to it is to pass the load balancer, and the node has no rule for it.", false},
	NoHealthCheckPort:     {Warning, "no health check node port yet", "A LoadBalancer Service with externalTrafficPolicy Local is probed at spec.healthCheckNodePort, which the API server allocates. Without it the port is not opened.", true},
	IgnoredByHeadless:     {Warning, "ignored by a headless service", "A headless Service has no virtual address, so load balancer IP, external IPs and session affinity have no effect.", false},
	FamilyNotServed:       {Warning, "address of a family that the service lacks", "An external or load balancer address has no rules unless the Service has a cluster IP of the same family.", false},
	ExternalIPsDeprecated: {Note, "external IPs are deprecated", "spec.externalIPs lets whoever writes a Service capture traffic to any address (CVE-2020-8554) and is deprecated since Kubernetes 1.36. Prefer a LoadBalancer.", false},
	RangesLeaveFamilyOpen: {Warning, "source ranges leave a family open", "All source ranges are of one family, so the load balancer address of the other family accepts everybody, in kube-proxy as here. Add a range of that family; to refuse all, one that nobody has, such as 192.0.2.0/32 or 2001:db8::/128.", true},
	RangesNotElsewhere:    {Note, "source ranges guard the load balancer address only", "Node ports and external IPs of the same Service accept every source.", false},
	RangesAllowAll:        {Note, "source ranges allow everybody", "A range of length 0 turns the filter off for its family, whatever the other ranges say.", false},
	RangesByAnnotation:    {Warning, "source ranges in an annotation", "The annotation service.beta.kubernetes.io/load-balancer-source-ranges is not read by kube-proxy: the node filters nothing. Use spec.loadBalancerSourceRanges.", true},
	AffinityPerPort:       {Note, "affinity is per port", "A client sticks to one endpoint per service port; its connections to two ports of the Service may reach two pods.", false},
	AffinityForgets:       {Note, "affinity remembers 100 clients", "In iptables mode the kernel's recent lists hold 100 clients per endpoint unless xt_recent is loaded with a higher ip_list_tot; the oldest is forgotten first.", false},
	HealthCheckNotServed:  {Note, "health check port is opened, not served", "kube-proxy answers HTTP on the health check node port. Rules can only open it: something else must answer, or the load balancer takes the node out.", false},
	NodePortOutsideRange:  {Warning, "node port outside the usual range", "The API server allocates node ports from 30000-32767 unless --service-node-port-range says otherwise; a port elsewhere may belong to something else.", false},
	NodePortEphemeral:     {Warning, "node port among the ephemeral ports", "The kernel picks source ports of outgoing connections from this range: replies to such a connection are mistaken for traffic to the node port, at random (kubernetes#111682).", false},
	PreferCloseDeprecated: {Note, "PreferClose is deprecated", "trafficDistribution PreferClose is the old name of PreferSameZone.", false},
	PersistenceLonger:     {Note, "a client is remembered for longer", "IPVS keeps what a client was sent to until its last connection has closed, which takes about two minutes (kubernetes#89358). A shorter timeout of session affinity has no effect in IPVS mode.", false},
	SpecialVIP:            {Warning, "load balancer address of a special range", "status.loadBalancer.ingress has an unspecified, loopback or multicast address, which no client reaches at a load balancer. The API server takes it from whoever writes the status, and kube-proxy makes rules of it, as svcc does: they capture the node's own traffic to it.", true},
	RangeFamilyUnused:     {Note, "source range of a family that the service lacks", "The Service has no cluster IP of the range's family, so it has no load balancer address of that family to guard.", false},
	RangesShutOut:         {Note, "source ranges keep out pods or the node", "Source ranges are held against every client of the load balancer address. Pods and the node itself are let in only if a range holds them; they can use the cluster IP instead.", false},
	MulticastAddress:      {Warning, "multicast address of a service", "The API server refuses multicast addresses of one link only. Others are taken, but no client opens a connection to one, and rules for it capture the node's own traffic to the group.", false},
	AnswersARP:            {Note, "every node answers ARP for the address", "In IPVS mode each node bears the external and load balancer addresses on kube-ipvs0, and Linux answers ARP requests for any address of the host. Without strictARP (arp_ignore, arp_announce) all nodes on the network claim the address at once. That does no harm where it is routed to nodes; a load balancer of layer 2 needs strictARP.", false},
	LocalPublishNotReady:  {Note, "local policy with unready endpoints", "With publishNotReadyAddresses a node whose pods are not ready still counts as having local endpoints: externalTrafficPolicy Local keeps sending to them, and health checks pass.", false},
}

// sliceFindings speak of EndpointSlices and of the other kinds.
var sliceFindings = map[Code]Info{
	BadAddressType:     {Error, "unknown address type", "addressType is IPv4, IPv6 or FQDN.", false},
	TooMany:            {Error, "too many entries", "An EndpointSlice holds at most 1000 endpoints, 100 addresses an endpoint, 20000 ports, and 8 hints of a kind.", false},
	NoAddress:          {Error, "endpoint without an address", "Every endpoint needs at least one address.", false},
	BadEndpointAddress: {Error, "bad endpoint address", "An endpoint's address is not an address of the slice's addressType.", false},
	ForbiddenEndpoint:  {Error, "forbidden endpoint address", "An endpoint must not be an unspecified, loopback or link-local address (of multicast 224.0.0.0/24 and ff02::/16): clients could reach the node's own services or a metadata service through it (CVE-2021-25737). IPVS takes no other multicast address and no broadcast address either: 255.255.255.255, and all of 0.0.0.0/8.", false},
	SeveralAddresses:   {Warning, "only the first address is used", "An endpoint has several addresses; like kube-proxy, svcc uses the first only. Make one endpoint of each.", false},
	BadNodeName:        {Error, "node name is not a DNS name", "nodeName, or a node in hints.forNodes, does not follow the DNS rules for a node's name.", false},
	SliceWithoutLabel:  {Warning, "slice without a service label", "An EndpointSlice belongs to the Service that its label kubernetes.io/service-name names; without it, it is ignored.", true},
	SliceOfNames:       {Note, "slice of host names", "An EndpointSlice with addressType FQDN is ignored: rules need addresses.", false},
	SlicePortNotSet:    {Warning, "slice port without a number", "A slice port without a port number means every port to the API; kube-proxy ignores it, and so does svcc.", false},
	SliceWithoutPorts:  {Warning, "endpoints without ports", "An EndpointSlice with endpoints has no ports, empty or left out. Endpoints belong to a service port by the name of a slice port, so none of these is used, and their pods get no traffic. A controller writes such a slice where the targetPort is a name that no pod has.", true},
	SliceHeadless:      {Warning, "slice labelled headless", "The label service.kubernetes.io/headless keeps kube-proxy from reading an EndpointSlice. A controller sets it where the Service has no cluster IP; here the Service has one, and these endpoints are not used.", true},
	MulticastEndpoint:  {Warning, "multicast endpoint", "The API server refuses endpoints with a multicast address of one link only. To send connections to any other group leads nowhere.", false},

	BadServiceCIDR: {Error, "bad service CIDR", "An entry of a ServiceCIDR's spec.cidrs is not a CIDR.", false},
}

// crossings are what no single object shows.
var crossings = map[Code]Info{
	ClaimedTwice:           {Error, "one destination, two claims", "Two service ports claim the same address, port and protocol. kube-proxy picks one at random; svcc refuses. With --keep-going the service whose name sorts first keeps it.", false},
	ClaimedAgain:           {Warning, "one address, twice in a service", "A Service has one address twice: as an external IP and a load balancer's, say, or twice in one list. The API server takes that. The first claim in kube-proxy's order decides (cluster IP, external IP, load balancer), so source ranges do not guard an address that is an external IP as well. A claim that leads to no endpoint on this node leaves the packet to the next.", false},
	ClusterIPTwice:         {Error, "cluster IP of two services", "Two Services have the same cluster IP. The API server gives each address once, and refuses the second Service even where their ports differ.", false},
	NodePortHidden:         {Warning, "node port hidden by an address", "A Service has a node's address, as an external or load balancer one, with a port that is another Service's node port. Rules look at addresses first, so at that node the node port leads to the wrong Service. IPVS mode cannot serve both.", false},
	SlicesOfTwoManagers:    {Warning, "slices of two managers", "The label endpointslice.kubernetes.io/managed-by says that two controllers made a Service's EndpointSlices. The endpoints of all are used, as kube-proxy does. Usually one set is left over, from before a selector was added or taken away, and its endpoints are stale.", false},
	NoLocalEndpoint:        {Note, "policy Local without an endpoint here", "The Service has endpoints, but none on this node, and its traffic policy is Local: what the policy holds for is dropped here. That is as meant on a node without its pods.", false},
	NodeOfNoEndpoint:       {Warning, "no endpoint names this node", "Some Service's traffic policy is Local, and no endpoint in the input is said to be on this node. If EndpointSlices know the node by another name (its FQDN, say), or carry no nodeName, everything that the policy holds for is dropped here.", false},
	NodePortClash:          {Error, "one node port, two claims", "Two Services claim the same node port and protocol; a health check node port counts as TCP. With --keep-going the service whose name sorts first keeps it.", false},
	ServiceWithoutSlice:    {Warning, "service without endpoint slices", "No EndpointSlice in the input belongs to the Service: its addresses refuse connections. Slices are made by a controller; take them from kubectl get endpointslices -o yaml.", true},
	SliceWithoutService:    {Warning, "slice without its service", "The Service that the slice's label names is not in the input; the slice has no effect.", true},
	ServicePortUnmatched:   {Warning, "service port without slice port", "Endpoints belong to a service port by equal port name and protocol, never by number or targetPort; no name is the name \"\". This port has no endpoints and refuses connections.", true},
	SlicePortUnmatched:     {Warning, "slice port without service port", "No port of the Service has this name and protocol, so the slice's port is not used.", false},
	FamilyWithoutSlice:     {Warning, "no slices of one family", "The Service has a cluster IP in a family in which it has no EndpointSlice, though it has some in the other: clients of that family are refused.", true},
	SliceFamilyUnused:      {Warning, "slice of a family that the service lacks", "The Service has no cluster IP of the slice's family; the slice is not used.", false},
	HintsIncomplete:        {Warning, "incomplete hints", "Topology hints count only if every ready endpoint of a port has one. One that has none, and the hints of all are ignored.", false},
	DistributionNoHints:    {Warning, "traffic distribution without hints", "The proxy looks only at the hints in EndpointSlices, never at spec.trafficDistribution. These slices carry none, so traffic goes to all endpoints.", false},
	ExternalIPIsNode:       {Warning, "external IP is a node's address", "Traffic to this address and port of the node is captured on every node; in IPVS mode the whole node becomes unreachable from the others (kubernetes#127410).", false},
	VIPIsNode:              {Note, "load balancer address is a node's address", "Some load balancers (klipper) publish node addresses. Traffic to this address and port of the node is captured on every node; IPVS mode cannot serve it.", false},
	EndpointInServiceCIDR:  {Warning, "endpoint inside a service range", "An endpoint's address lies in a service CIDR; it is a Service's, not a pod's. Rules do not follow one Service to another.", false},
	ClusterIPOutsideCIDR:   {Warning, "cluster IP outside the service ranges", "The cluster IP lies in none of the known service CIDRs: the API server cannot have allocated it.", false},
	ManyEndpoints:          {Note, "more than 1000 endpoints", "Above 1000 endpoints kube-proxy leaves the comments out of endpoint rules, and a linear chain over them is slow.", false},
	NotReadyThoughPublish:  {Warning, "unready endpoint of a service that publishes all", "The Service has publishNotReadyAddresses, for which the slice's controller writes ready: true. This endpoint says ready: false and is not used: the field itself is not read.", false},
	TakesNodeAddress:       {Error, "address of another node", "In IPVS mode a node bears every external and load balancer address itself. With the address of another node it could not reach that node any more (kubernetes#127410).", false},
	EndpointIsDestination:  {Error, "endpoint that is a service's destination", "In IPVS mode a virtual server catches every connection to its address and port, also one that is on its way to an endpoint there. The endpoint's address and port must not be a cluster IP, an external address or a node port of a Service.", false},
	DestinationShared:      {Error, "node port at a service's address", "In IPVS mode an external or load balancer address that is this node's own, with a port that is also a node port, would need one virtual server for two Services.", false},
	EndpointOfSeveralNames: {Note, "one endpoint, two pods", "Two endpoints with one address and port have different targetRefs: a pod's address was used again while the old pod is still listed. A live endpoint wins over a terminating one.", false},
}
