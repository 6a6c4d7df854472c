package cluster

import (
	"fmt"
	"math/bits"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// zones are those of the nodes, in turn.
var zones = []string{"zone-a", "zone-b", "zone-c"}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

func nodeZone(i int) string { return zones[i%len(zones)] }

// addNodes makes the Nodes and decides how large their pod ranges are: twice
// the pods that chance puts there on average, and never less than a /24.
func (g *generator) addNodes() {
	pods := float64(g.Options.Services) * g.EndpointsPerService / float64(g.Options.Nodes)
	g.podBits = max(8, bits.Len(uint(2*pods+100)))
	g.podsOn = make([]uint64, g.Options.Nodes)
	for i := range g.Options.Nodes {
		g.out.Nodes = append(g.out.Nodes, g.node(i))
	}
}

// podRange gives a node's IPv4 range and its IPv6 one.
func (g *generator) podRange(i int) (v4, v6 netip.Prefix) {
	base := plus(netip.MustParsePrefix(PodCIDR).Addr(), uint64(i)<<g.podBits)
	base6 := netip.MustParsePrefix(PodCIDR6).Addr().As16()
	base6[6], base6[7] = byte(i>>8), byte(i) // the bits from /48 to /64
	return netip.PrefixFrom(base, 32-g.podBits), netip.PrefixFrom(netip.AddrFrom16(base6), 64)
}

// firstPod is the number of a node's first pod: .1 is the bridge.
const firstPod = 2

// podAddress gives a new pod's addresses on a node.
func (g *generator) podAddress(i int) (v4, v6 netip.Addr) {
	r4, r6 := g.podRange(i)
	host := firstPod + g.podsOn[i]
	g.podsOn[i]++
	return plus(r4.Addr(), host), plus(r6.Addr(), host)
}

// node gives the i-th Node as a kubelet and the node controllers leave it.
func (g *generator) node(i int) *corev1.Node {
	meta := g.meta("", nodeName(i))
	meta.Labels = nodeLabels(i)
	meta.Annotations = map[string]string{
		"node.alpha.kubernetes.io/ttl":                           "0",
		"volumes.kubernetes.io/controller-managed-attach-detach": "true",
	}
	r4, r6 := g.podRange(i)
	cidrs := []string{r4.String()}
	if g.DualStack > 0 {
		cidrs = append(cidrs, r6.String())
	}
	return &corev1.Node{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: meta,
		Spec:       corev1.NodeSpec{PodCIDR: cidrs[0], PodCIDRs: cidrs, ProviderID: "example://" + nodeZone(i) + "/" + nodeName(i)},
		Status:     g.nodeStatus(i),
	}
}

func nodeLabels(i int) map[string]string {
	return map[string]string{
		"beta.kubernetes.io/arch":          "amd64",
		"beta.kubernetes.io/os":            "linux",
		"kubernetes.io/arch":               "amd64",
		"kubernetes.io/hostname":           nodeName(i),
		"kubernetes.io/os":                 "linux",
		"node.kubernetes.io/instance-type": "m.xlarge",
		"topology.kubernetes.io/region":    "region-1",
		"topology.kubernetes.io/zone":      nodeZone(i),
	}
}

func (g *generator) nodeStatus(i int) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("4"),
		corev1.ResourceEphemeralStorage: resource.MustParse("101430960Ki"),
		corev1.ResourceMemory:           resource.MustParse("16374776Ki"),
		corev1.ResourcePods:             resource.MustParse("110"),
	}
	return corev1.NodeStatus{
		Addresses:   g.nodeAddresses(i),
		Allocatable: resources,
		Capacity:    resources,
		Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
			LastHeartbeatTime: epoch, LastTransitionTime: epoch,
		}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		NodeInfo: corev1.NodeSystemInfo{
			Architecture: "amd64", OperatingSystem: "linux", OSImage: "Debian GNU/Linux 12 (bookworm)", KernelVersion: "6.1.0-28-amd64",
			ContainerRuntimeVersion: "containerd://2.1.4", KubeletVersion: "v1.37.2", MachineID: g.suffix(32), SystemUUID: g.uid(), BootID: g.uid(),
		},
	}
}

// nodeAddresses numbers nodes from .1 on.
func (g *generator) nodeAddresses(i int) []corev1.NodeAddress {
	n := uint64(i) + 1
	ip := func(cidr string) corev1.NodeAddress {
		return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: plus(netip.MustParsePrefix(cidr).Addr(), n).String()}
	}
	out := []corev1.NodeAddress{ip(NodeCIDR)}
	if g.DualStack > 0 {
		out = append(out, ip(NodeCIDR6))
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: nodeName(i)})
}
