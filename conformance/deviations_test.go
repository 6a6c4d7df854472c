package conformance

import (
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/compiler"
	"svcc/ir"
)

// situation is where a difference was seen.
type situation struct {
	*world
	unit compiler.Unit
}

// deviation is one way in which svcc's text differs from kube-proxy's on purpose.
type deviation struct {
	name    string // its heading in deviations.md
	mode    string
	matches func(s situation, d difference) bool // nil: it has a test of its own
}

var deviations = []deviation{
	{"node ports in a range", compiler.ModeIPTables, nodePortsInRange},
	{"duplicate endpoints", compiler.ModeIPTables, nil}, // TestDuplicateEndpoints
	{"loop-back entries", compiler.ModeIPVS, loopBack},
	{"no local endpoints", compiler.ModeIPVS, noLocalEndpoints},
	{"source ranges without endpoints", compiler.ModeIPVS, rangesWithoutEndpoints},
	{"health check port without node ports", compiler.ModeIPVS, healthCheckWithoutNodePorts},
	{"load balancer addresses as sources", compiler.ModeIPVS, balancersAsSources},
}

// TestDeviationsAreListed holds the headings of deviations.md to the table.
func TestDeviationsAreListed(t *testing.T) {
	text, err := os.ReadFile("deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	mode := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "### "); ok {
			got = append(got, mode+": "+name)
		} else if m, ok := strings.CutPrefix(line, "## "); ok {
			mode = m
		}
	}
	for _, d := range deviations {
		want = append(want, d.mode+": "+d.name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("deviations.md (-table +file):\n%s", d)
	}
}

// tally counts how often each deviation was seen.
type tally map[string]int

// judge holds each difference to the list.
func (c tally) judge(t *testing.T, where string, s situation, mode string, found []difference) {
	t.Helper()
	for _, d := range found {
		i := slices.IndexFunc(deviations, func(v deviation) bool { return v.mode == mode && v.matches != nil && v.matches(s, d) })
		if i < 0 {
			t.Errorf("%s:\n%s", where, d)
			continue
		}
		c[deviations[i].name]++
	}
}

// complete holds that each deviation still happens.
func (c tally) complete(t *testing.T, mode string) {
	t.Helper()
	for _, v := range deviations {
		if v.mode == mode && v.matches != nil && c[v.name] == 0 {
			t.Errorf("no cluster shows the deviation %q", v.name)
		}
	}
}

func nodePortsInRange(s situation, d difference) bool {
	if !isNodePortsJump(string(d)) {
		return false
	}
	for _, p := range s.unit.Program.Options.NodePorts.Prefixes {
		if d[0] == '+' && strings.Contains(string(d), " -d "+p.String()+" -m addrtype --dst-type LOCAL ") {
			return true
		}
		for _, a := range s.ownAddrs() {
			if d[0] == '-' && p.Contains(a) && strings.Contains(string(d), " -d "+a.String()+" -j ") {
				return true
			}
		}
	}
	return false
}

// entry is an entry of a set: "ADDRESS,PROTOCOL:PORT" and what may follow.
var entry = regexp.MustCompile(`^([-+]) add KUBE-(?:6-)?(\S+) ([^ ,]+),(\w+):(\d+)(?:,(\S+))?$`)

// member takes such a line apart.
func member(d difference) (sign, set, protocol, addr, after string, ok bool) {
	m := entry.FindStringSubmatch(string(d))
	if m == nil {
		return "", "", "", "", "", false
	}
	a, err := netip.ParseAddr(m[3])
	port, err2 := netip.ParseAddrPort("0.0.0.0:" + m[5])
	return m[1], m[2], m[4], netip.AddrPortFrom(a, port.Port()).String(), m[6], err == nil && err2 == nil
}

// at finds the service port with a frontend at a destination, and the frontend.
func (s situation) at(protocol, addr string) (*ir.ServicePort, ir.Frontend) {
	for _, sp := range s.unit.Program.Services {
		for _, f := range sp.Frontends {
			for _, a := range s.unit.Program.Options.VirtualAddrs(f) {
				if strings.EqualFold(sp.Protocol.String(), protocol) && netip.AddrPortFrom(a, f.Port).String() == addr {
					return sp, f
				}
			}
		}
	}
	return nil, ir.Frontend{}
}

// loopBack: an endpoint on this node that no service port of its protocol uses as
// one on this node.
func loopBack(s situation, d difference) bool {
	sign, set, protocol, addr, _, ok := member(d)
	if !ok || sign != "-" || set != "LOOP-BACK" {
		return false
	}
	return !slices.ContainsFunc(s.unit.Program.Services, func(sp *ir.ServicePort) bool {
		return strings.EqualFold(sp.Protocol.String(), protocol) &&
			slices.ContainsFunc(s.served(sp), func(e ir.Endpoint) bool { return e.Local && e.AddrPort().String() == addr })
	})
}

// served are the endpoints of the frontends that have an address: where
// nodePortAddresses leave the node without one, node ports have none.
func (s situation) served(sp *ir.ServicePort) (out []ir.Endpoint) {
	for _, f := range sp.Frontends {
		policy := sp.ExternalPolicy
		if f.Kind == ir.ClusterIP {
			policy = sp.InternalPolicy
		}
		switch {
		case len(s.unit.Program.Options.VirtualAddrs(f)) == 0:
		case policy == ir.Local:
			out = append(out, sp.Local...)
		default:
			out = append(out, sp.Cluster...)
		}
	}
	return out
}

// noLocalEndpoints: the set of svcc's own, and the servers of its entries.
func noLocalEndpoints(s situation, d difference) bool {
	if strings.HasPrefix(string(d), "+ create KUBE") && strings.Contains(string(d), "NO-LOCAL-ENDPOINTS") {
		return true
	}
	sign, set, protocol, addr, _, ok := member(d)
	if f := strings.Fields(string(d)); !ok && len(f) > 3 && f[1] == "vs" {
		sign, set, protocol, addr, ok = f[0], "", f[2], f[3], f[0] == "-"
	}
	if !ok || (sign == "+") != (set == "NO-LOCAL-ENDPOINTS") {
		return false
	}
	sp, f := s.at(protocol, addr)
	if sp == nil || !sp.Usable || len(sp.Local) > 0 {
		return false
	}
	return f.Kind == ir.ClusterIP && sp.InternalPolicy == ir.Local || f.Kind != ir.ClusterIP && sp.ExternalPolicy == ir.Local
}

func rangesWithoutEndpoints(s situation, d difference) bool {
	sign, set, protocol, addr, _, ok := member(d)
	if !ok || sign != "-" || set != "LOAD-BALANCER-FW" && !strings.HasPrefix(set, "LOAD-BALANCER-SOURCE-") {
		return false
	}
	sp, f := s.at(protocol, addr)
	return sp != nil && f.Kind == ir.LoadBalancer && !sp.Usable && len(sp.SourceRanges) > 0
}

func healthCheckWithoutNodePorts(s situation, d difference) bool {
	n := s.unit.Program.Options.NodePorts
	return strings.HasPrefix(string(d), "+ add KUBE") && strings.Contains(string(d), "HEALTH-CHECK-NODE-PORT ") && !n.All && len(n.Addrs) == 0
}

func balancersAsSources(s situation, d difference) bool {
	sign, set, protocol, addr, after, ok := member(d)
	if !ok || sign != "+" || set != "LOAD-BALANCER-SOURCE-IP" {
		return false
	}
	sp, f := s.at(protocol, addr)
	return sp != nil && f.Kind == ir.LoadBalancer && sp.NodeAllowed && f.Addr.String() != after &&
		slices.ContainsFunc(sp.Frontends, func(f ir.Frontend) bool { return f.Kind == ir.LoadBalancer && f.Addr.String() == after })
}
