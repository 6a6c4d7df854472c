package conformance

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	sysctltesting "k8s.io/component-helpers/node/util/sysctl/testing"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/proxy"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	"k8s.io/kubernetes/pkg/proxy/conntrack"
	"k8s.io/kubernetes/pkg/proxy/healthcheck"
	proxyiptables "k8s.io/kubernetes/pkg/proxy/iptables"
	proxyipvs "k8s.io/kubernetes/pkg/proxy/ipvs"
	ipsettesting "k8s.io/kubernetes/pkg/proxy/ipvs/ipset/testing"
	netlinktesting "k8s.io/kubernetes/pkg/proxy/ipvs/testing"
	ipvstesting "k8s.io/kubernetes/pkg/proxy/ipvs/util/testing"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiltesting "k8s.io/kubernetes/pkg/proxy/util/testing"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
	iptablestesting "k8s.io/kubernetes/pkg/util/iptables/testing"

	"svcc/ir"
)

// What the proxiers log is about their fakes.
func init() {
	klog.SetLogger(logr.Discard())
}

// replace puts a fake in the place of what a proxier's constructor made itself.
// The fields have no other way in; a release that renames one fails here.
func replace(t *testing.T, proxier any, field string, fake any) {
	t.Helper()
	f := reflect.ValueOf(proxier).Elem().FieldByName(field)
	if !f.IsValid() {
		t.Fatalf("%T has no field %s any more", proxier, field)
	}
	v := reflect.Zero(f.Type())
	if fake != nil {
		v = reflect.ValueOf(fake)
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(v)
}

// recorder is kube-proxy's fake of iptables, which also keeps what is written.
type recorder struct {
	*iptablestesting.FakeIPTables
	restored []byte
	err      error
	jumps    []string // "TABLE -A CHAIN ...", the last one first
}

func newRecorder(f ir.Family) *recorder {
	if f == ir.IPv6 {
		return &recorder{FakeIPTables: iptablestesting.NewIPv6Fake()}
	}
	return &recorder{FakeIPTables: iptablestesting.NewFake()}
}

func (r *recorder) RestoreAll(data []byte, flush utiliptables.FlushFlag, counters utiliptables.RestoreCountersFlag) error {
	r.restored = slices.Clone(data)
	r.err = r.FakeIPTables.RestoreAll(data, flush, counters)
	return r.err
}

func (r *recorder) EnsureRule(p utiliptables.RulePosition, table utiliptables.Table, chain utiliptables.Chain, args ...string) (bool, error) {
	args = slices.Clone(args)
	for i, a := range args {
		if strings.Contains(a, " ") {
			args[i] = `"` + a + `"`
		}
	}
	line := fmt.Sprintf("%s -A %s %s", table, chain, strings.Join(args, " "))
	if p == utiliptables.Prepend {
		r.jumps = append([]string{line}, r.jumps...)
	} else {
		r.jumps = append(r.jumps, line)
	}
	return false, nil
}

// family is the API's name of one.
func family(f ir.Family) corev1.IPFamily {
	if f == ir.IPv6 {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// row is a family's in tables of two.
func row(f ir.Family) int {
	if f == ir.IPv6 {
		return 1
	}
	return 0
}

// config is the world's choices as kube-proxy has them once it is started: with
// the keywords of nodePortAddresses spelt out (cmd/kube-proxy/app).
func (w *world) config() *proxyconfig.KubeProxyConfiguration {
	c := &proxyconfig.KubeProxyConfiguration{}
	bit := int32(w.masqueradeBit)
	c.IPTables.LocalhostNodePorts, c.IPTables.MasqueradeBit = &w.localhostNodePorts, &bit
	c.NFTables.MasqueradeBit = &bit
	c.Linux.MasqueradeAll = w.masqueradeAll
	c.IPVS.Scheduler = w.scheduler
	for _, a := range w.nodePortAddresses {
		switch a {
		case proxyconfig.NodePortAddressesPrimary:
			c.NodePortAddresses = append(c.NodePortAddresses, nodeIPs[0]+"/32", nodeIPs[1]+"/128")
		case proxyconfig.NodePortAddressesLocalhost:
			c.NodePortAddresses = append(c.NodePortAddresses, "127.0.0.0/8", "::1/128")
		case proxyconfig.NodePortAddressesAll:
			c.NodePortAddresses = append(c.NodePortAddresses, "0.0.0.0/0", "::/0")
		default:
			c.NodePortAddresses = append(c.NodePortAddresses, a)
		}
	}
	return c
}

// detector recognises pods as the world's choices say.
func (w *world) detector(f ir.Family) proxyutil.LocalTrafficDetector {
	switch w.detect {
	case "BridgeInterface":
		return proxyutil.NewDetectLocalByBridgeInterface(interfaces[w.detect])
	case "InterfaceNamePrefix":
		return proxyutil.NewDetectLocalByInterfaceNamePrefix(interfaces[w.detect])
	case "NodeCIDR":
		return proxyutil.NewDetectLocalByCIDR(w.nodes[0].Spec.PodCIDRs[row(f)])
	}
	if i := slices.IndexFunc(w.clusterCIDRs, func(c string) bool { return strings.Contains(c, ":") == (f == ir.IPv6) }); i >= 0 {
		return proxyutil.NewDetectLocalByCIDR(w.clusterCIDRs[i])
	}
	return proxyutil.NewNoOpLocalDetector()
}

// ownAddrs are the addresses of the node's interfaces beside loopback.
func (w *world) ownAddrs() []netip.Addr {
	var out []netip.Addr
	for f := range nodeIPs {
		out = append(out, netip.MustParseAddr(nodeIPs[f]), netip.MustParseAddr(secondIPs[f]))
	}
	return out
}

// network is what kube-proxy is told of the node's interfaces.
func (w *world) network() *utiltesting.FakeNetwork {
	n := utiltesting.NewFakeNetwork()
	var own []net.Addr
	for _, a := range w.ownAddrs() {
		own = append(own, &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())})
	}
	lo := []net.Addr{&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)}}
	n.AddInterfaceAddr(&net.Interface{Index: 1, Name: "lo"}, lo)
	n.AddInterfaceAddr(&net.Interface{Index: 2, Name: "eth0"}, own)
	return n
}

func (w *world) sysctls() *sysctltesting.Fake {
	s := sysctltesting.NewFake()
	for name, v := range map[string]int{
		"net/ipv4/conf/all/route_localnet": 0, "net/ipv4/vs/conntrack": 0, "net/ipv4/vs/conn_reuse_mode": 1, "net/ipv4/vs/expire_nodest_conn": 0,
		"net/ipv4/vs/expire_quiescent_template": 0, "net/ipv4/ip_forward": 0, "net/netfilter/nf_conntrack_tcp_be_liberal": 0,
	} {
		s.Settings[name] = v
	}
	if w.liberal {
		s.Settings["net/netfilter/nf_conntrack_tcp_be_liberal"] = 1
	}
	return s
}

// feed gives a proxier the world's objects, as informers do, and has it write.
func (w *world) feed(p proxy.Provider) {
	services, list := w.defaulted()
	if z := w.nodes[0].Labels[corev1.LabelTopologyZone]; z != "" {
		p.OnTopologyChange(map[string]string{corev1.LabelTopologyZone: z})
	}
	for _, s := range services {
		if s.Spec.ClusterIP == corev1.ClusterIPNone || hasLabel(s.Labels, "service.kubernetes.io/service-proxy-name") {
			continue // the informers' selectors (cmd/kube-proxy/app)
		}
		p.OnServiceAdd(s)
	}
	for _, x := range list {
		if !hasLabel(x.Labels, corev1.IsHeadlessService) {
			p.OnEndpointSliceAdd(x)
		}
	}
	p.OnEndpointSlicesSynced()
	p.OnServiceSynced()
}

func hasLabel(m map[string]string, key string) bool {
	_, ok := m[key]
	return ok
}

// isolate keeps what all proxiers have from the machine.
func (w *world) isolate(t *testing.T, proxier any) {
	t.Helper()
	replace(t, proxier, "networkInterfacer", w.network())
	replace(t, proxier, "conntrack", conntrack.NewFake())
	replace(t, proxier, "serviceHealthServer", healthcheck.NewFakeServiceHealthServer())
}

// iptables is what kube-proxy writes in iptables mode.
func (w *world) iptables(t *testing.T, f ir.Family) *recorder {
	t.Helper()
	r := newRecorder(f)
	p, err := proxyiptables.NewProxier(context.Background(), w.config(), family(f), r, w.sysctls(), w.detector(f), thisNode, net.ParseIP(nodeIPs[row(f)]), nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	w.isolate(t, p)
	replace(t, p, "nfacct", nil) // counters are no part of the meaning
	w.feed(p)
	if r.restored == nil || r.err != nil {
		t.Fatalf("kube-proxy's fake has not taken what it wrote: %v\n%s", r.err, r.restored)
	}
	return r
}

// ipvsFakes hold what kube-proxy programs in IPVS mode.
type ipvsFakes struct {
	ipvs    *ipvstesting.FakeIPVS
	ipset   *ipsettesting.FakeIPSet
	netlink *netlinktesting.FakeNetlinkHandle
}

// virtual is what kube-proxy programs in IPVS mode.
func (w *world) virtual(t *testing.T, f ir.Family) ipvsFakes {
	t.Helper()
	x := ipvsFakes{ipvstesting.NewFake(), ipsettesting.NewFake("v7.17"), netlinktesting.NewFakeNetlinkHandle(f == ir.IPv6)}
	for _, a := range w.ownAddrs() {
		if f.Of(a) {
			x.netlink.SetLocalAddresses("eth0", append(x.local(t), a.String())...)
		}
	}
	p, err := proxyipvs.NewProxier(context.Background(), w.config(), family(f), newRecorder(f), x.ipvs, x.ipset, w.sysctls(), w.detector(f), thisNode, net.ParseIP(nodeIPs[row(f)]), nil, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	w.isolate(t, p)
	replace(t, p, "netlinkHandle", x.netlink)
	w.feed(p)
	return x
}

func (x ipvsFakes) local(t *testing.T) []string {
	t.Helper()
	set, err := x.netlink.GetLocalAddresses("eth0")
	if err != nil {
		t.Fatal(err)
	}
	return set.UnsortedList()
}
