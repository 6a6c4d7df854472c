package conformance

import (
	"fmt"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/compiler"
	"svcc/emit/mode"
	"svcc/ir"
)

// situation is where a difference was seen.
type situation struct {
	*world
	unit  compiler.Unit
	found []difference // all of that unit
}

// deviation is one way in which svcc's text differs from kube-proxy's on purpose.
type deviation struct {
	name    string // its heading in deviations.md
	mode    *mode.Mode
	matches func(s situation, d difference) bool // nil: it has a test of its own
}

var deviations = []deviation{
	{"node ports in a range", mode.IPTables, nodePortsInRange},
	{"duplicate endpoints", mode.IPTables, nil}, // TestDuplicateEndpoints
	{"loop-back entries", mode.IPVS, loopBack},
	{"no local endpoints", mode.IPVS, noLocalEndpoints},
	{"source ranges without endpoints", mode.IPVS, rangesWithoutEndpoints},
	{"health check port without node ports", mode.IPVS, healthCheckWithoutNodePorts},
	{"load balancer addresses as sources", mode.IPVS, balancersAsSources},
	{"addresses claimed again", mode.IPVS, claimedAgain},
	{"weights of the scheduler ovf", mode.IPVS, overflowWeights},
}

// TestDeviationsAreListed holds the headings of deviations.md to the table.
func TestDeviationsAreListed(t *testing.T) {
	text, err := os.ReadFile("deviations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	in := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "### "); ok {
			got = append(got, in+": "+name)
		} else if m, ok := strings.CutPrefix(line, "## "); ok {
			in = m
		}
	}
	for _, d := range deviations {
		want = append(want, d.mode.Name+": "+d.name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("deviations.md (-table +file):\n%s", d)
	}
}

// tally counts how often each deviation was seen.
type tally map[string]int

// judge holds each difference to the list.
func (c tally) judge(t *testing.T, where string, s situation, m *mode.Mode) {
	t.Helper()
	for _, d := range s.found {
		i := slices.IndexFunc(deviations, func(v deviation) bool { return v.mode == m && v.matches != nil && v.matches(s, d) })
		if i < 0 {
			t.Errorf("%s:\n%s", where, d)
			continue
		}
		c[deviations[i].name]++
	}
}

// complete holds that each deviation still happens.
func (c tally) complete(t *testing.T, m *mode.Mode) {
	t.Helper()
	for _, v := range deviations {
		if v.mode == m && v.matches != nil && c[v.name] == 0 {
			t.Errorf("no cluster shows the deviation %q", v.name)
		}
	}
}

// has says whether another difference of the unit begins and ends so.
func (s situation) has(begin, end string) bool {
	return slices.ContainsFunc(s.found, func(d difference) bool {
		return strings.HasPrefix(string(d), begin) && strings.HasSuffix(string(d), end)
	})
}

// nodePortsInRange: the jump for a range, and those to addresses within it.
func nodePortsInRange(s situation, d difference) bool {
	if !isNodePortsJump(string(d)) {
		return false
	}
	for _, p := range s.unit.Program.Options.NodePorts.Prefixes {
		jump := " -d " + p.String() + " -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
		if d[0] == '+' && strings.HasSuffix(string(d), jump) {
			return true
		}
		for _, a := range s.ownAddrs() {
			if d[0] == '-' && p.Contains(a) && strings.HasSuffix(string(d), " -d "+a.String()+" -j KUBE-NODEPORTS") {
				return s.has("+ nat -A KUBE-SERVICES ", jump)
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
// one on this node, or to which nothing that svcc writes sends anybody.
func loopBack(s situation, d difference) bool {
	sign, set, protocol, addr, _, ok := member(d)
	if !ok || sign != "-" || set != "LOOP-BACK" {
		return false
	}
	return !s.sends(protocol, addr) || !slices.ContainsFunc(s.unit.Program.Services, func(sp *ir.ServicePort) bool {
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

// sends says that svcc's text sends packets of a protocol to an endpoint.
func (s situation) sends(protocol, addr string) bool {
	for _, section := range s.unit.Sections {
		for line := range strings.Lines(string(section.Text)) {
			if sendsTo(strings.Fields(line), protocol, addr) {
				return true
			}
		}
	}
	return false
}

// sendsTo says that a line, of a virtual server or a rule, sends packets of a protocol
// to an endpoint.
func sendsTo(words []string, protocol, addr string) bool {
	of := map[string]string{"-t": "tcp", "-u": "udp", "--sctp-service": "sctp"}
	to := slices.Index(words, addr)
	if to < 1 {
		return false
	}
	switch words[to-1] {
	case "-r":
		return slices.ContainsFunc(words, func(w string) bool { return of[w] == protocol })
	case "--to-destination":
		return slices.Contains(words, protocol)
	}
	return false
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
	if sp == nil || !sp.Usable || len(sp.Local) > 0 || !s.dropped(protocol, addr) {
		return false
	}
	return f.Kind == ir.ClusterIP && sp.InternalPolicy == ir.Local || f.Kind != ir.ClusterIP && sp.ExternalPolicy == ir.Local
}

// dropped says whether svcc enters a destination among those that it drops.
func (s situation) dropped(protocol, addr string) bool {
	to := netip.MustParseAddrPort(addr)
	return s.has("+ add KUBE-", fmt.Sprintf("NO-LOCAL-ENDPOINTS %s,%s:%d", to.Addr(), strings.ToLower(protocol), to.Port()))
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
	return strings.HasPrefix(string(d), "+ add KUBE") && !n.All && len(n.Addrs) == 0 &&
		slices.ContainsFunc(s.unit.Program.Services, func(sp *ir.ServicePort) bool {
			return strings.HasSuffix(string(d), fmt.Sprintf("HEALTH-CHECK-NODE-PORT %d", sp.HealthCheckNodePort))
		})
}

func balancersAsSources(s situation, d difference) bool {
	sign, set, protocol, addr, after, ok := member(d)
	added := sign == "+" && set == "LOAD-BALANCER-SOURCE-IP"
	if !ok || !added && (sign != "-" || !strings.HasPrefix(set, "LOAD-BALANCER-SOURCE-CID")) {
		return false
	}
	sp, f := s.at(protocol, addr)
	return sp != nil && f.Kind == ir.LoadBalancer && sp.NodeAllowed && !(added && f.Addr.String() == after) &&
		slices.ContainsFunc(sp.Frontends, func(f ir.Frontend) bool { return f.Kind == ir.LoadBalancer && f.Addr.String() == after })
}

// claimedAgain: what kube-proxy makes of a Service's address for its second kind.
func claimedAgain(s situation, d difference) bool {
	_, _, protocol, addr, _, ok := member(d)
	if f := strings.Fields(string(d)); !ok && len(f) > 3 && f[1] == "vs" {
		protocol, addr, ok = f[2], f[3], true
	}
	if !ok {
		return false
	}
	sp, first := s.at(protocol, addr)
	return sp != nil && slices.ContainsFunc(sp.Frontends, func(f ir.Frontend) bool {
		return f.Kind != first.Kind && f.Addr == first.Addr && f.Port == first.Port
	})
}

// overflowWeights: the same destination with the other's weight.
func overflowWeights(s situation, d difference) bool {
	line := string(d)
	switch {
	case !strings.Contains(line, " ovf flags="):
		return false
	case line[0] == '-':
		server, ok := strings.CutSuffix(line, " weight 1")
		return ok && s.has("+"+server[1:], " weight 65535")
	}
	server, ok := strings.CutSuffix(line, " weight 65535")
	return ok && s.has("-"+server[1:], " weight 1")
}
