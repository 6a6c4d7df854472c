package ipvs

import (
	"bytes"
	"slices"
	"strings"

	"svcc/emit"
	"svcc/ir"
)

// Link is the dummy device that carries the service addresses.
const Link = emit.ServiceLink

// The sets, by kube-proxy's names but for the last, which is svcc's own.
const (
	setLoopback       = "KUBE-LOOP-BACK"
	setClusterIP      = "KUBE-CLUSTER-IP"
	setExternal       = "KUBE-EXTERNAL-IP"
	setExternalLocal  = "KUBE-EXTERNAL-IP-LOCAL"
	setBalancer       = "KUBE-LOAD-BALANCER"
	setBalancerGuard  = "KUBE-LOAD-BALANCER-FW"
	setBalancerLocal  = "KUBE-LOAD-BALANCER-LOCAL"
	setBalancerNode   = "KUBE-LOAD-BALANCER-SOURCE-IP"
	setBalancerRanges = "KUBE-LOAD-BALANCER-SOURCE-CIDR"
	setPortTCP        = "KUBE-NODE-PORT-TCP"
	setPortLocalTCP   = "KUBE-NODE-PORT-LOCAL-TCP"
	setPortUDP        = "KUBE-NODE-PORT-UDP"
	setPortLocalUDP   = "KUBE-NODE-PORT-LOCAL-UDP"
	setPortSCTP       = "KUBE-NODE-PORT-SCTP-HASH"
	setPortLocalSCTP  = "KUBE-NODE-PORT-LOCAL-SCTP-HASH"
	setHealthCheck    = "KUBE-HEALTH-CHECK-NODE-PORT"
	setAddresses      = "KUBE-IPVS-IPS"
	setNoLocal        = "KUBE-NO-LOCAL-ENDPOINTS"
)

// The types of sets, as ipset names them.
const (
	TypeIPPortIP  = "hash:ip,port,ip"
	TypeIPPort    = "hash:ip,port"
	TypeIPPortNet = "hash:ip,port,net"
	TypePort      = "bitmap:port"
	TypeIP        = "hash:ip"
)

// setTypes has every set of ours in the order in which they are written, which
// is kube-proxy's.
var setTypes = []struct{ name, kind string }{
	{setLoopback, TypeIPPortIP},
	{setClusterIP, TypeIPPort},
	{setExternal, TypeIPPort},
	{setExternalLocal, TypeIPPort},
	{setBalancer, TypeIPPort},
	{setBalancerGuard, TypeIPPort},
	{setBalancerLocal, TypeIPPort},
	{setBalancerNode, TypeIPPortIP},
	{setBalancerRanges, TypeIPPortNet},
	{setPortTCP, TypePort},
	{setPortLocalTCP, TypePort},
	{setPortUDP, TypePort},
	{setPortLocalUDP, TypePort},
	{setPortSCTP, TypeIPPort},
	{setPortLocalSCTP, TypeIPPort},
	{setHealthCheck, TypePort},
	{setAddresses, TypeIP},
	{setNoLocal, TypeIPPort},
}

// NodePorts says whether a set has the node ports of a protocol, by number. Those
// of SCTP are in a set of destinations.
func (s *Set) NodePorts() (p ir.Protocol, ok bool) {
	if s.Type != TypePort {
		return 0, false
	}
	for _, f := range ir.Families {
		switch s.Name {
		case SetName(f, setPortTCP):
			return ir.TCP, true
		case SetName(f, setPortUDP):
			return ir.UDP, true
		}
	}
	return 0, false
}

// maxSetName is how long the kernel lets a set's name be (IPSET_MAXNAMELEN).
const maxSetName = 31

// SetName is a set's name in a family: as it is in IPv4; in IPv6 with "KUBE-6-"
// for "KUBE-", cut to what the kernel takes, as kube-proxy does.
func SetName(f ir.Family, name string) string {
	if f == ir.IPv6 {
		name = "KUBE-6-" + strings.TrimPrefix(name, "KUBE-")
	}
	return name[:min(len(name), maxSetName)]
}

// Temporary is the name under which a set is filled before it is swapped in. No
// set of ours has it: all begin with KUBE-.
func Temporary(name string) string {
	name = "SVCC" + strings.TrimPrefix(name, "KUBE")
	return name[:min(len(name), maxSetName)]
}

// SetNames lists the names of our sets in a family, in the order in which they
// are written.
func SetNames(f ir.Family) []string {
	out := make([]string, len(setTypes))
	for i, t := range setTypes {
		out[i] = SetName(f, t.name)
	}
	return out
}

// Ours says whether a text with all sets, as ipset saves them, is of svcc's and
// not of kube-proxy's: only svcc has one of destinations without local endpoints.
func Ours(text []byte) bool {
	return slices.ContainsFunc(ir.Families, func(f ir.Family) bool {
		return bytes.Contains(text, []byte(" "+SetName(f, setNoLocal)+" "))
	})
}

// OwnedSet says whether a set is ours, kube-proxy's left-overs and sets that an
// interrupted run was filling included.
func OwnedSet(name string) bool {
	return slices.ContainsFunc(ir.Families, func(f ir.Family) bool {
		return slices.ContainsFunc(SetNames(f), func(own string) bool { return name == own || name == Temporary(own) })
	})
}
