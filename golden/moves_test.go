package golden

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"svcc/compiler/passes"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/golden/lab"
	"svcc/ir"
	"svcc/ir/irtest"
)

// textAt is a Program's text at a level, with hooks.
func textAt(t testing.TB, p *ir.Program, level int) string {
	t.Helper()
	g, err := passes.Graph(p, level)
	if err != nil {
		t.Fatal(err)
	}
	s, err := iptables.Backend{}.Emit(g, emit.Options{Level: level, Hooks: true})
	if err != nil {
		t.Fatal(err)
	}
	return string(s[0].Text)
}

// shapes are clusters that try what trees and splits are made for.
func shapes() map[string]*ir.Program {
	out := map[string]*ir.Program{}
	for _, f := range ir.Families {
		for seed := range uint64(5) {
			n := []int{120, 120, 120, 1, 400}[seed]
			out[fmt.Sprintf("%s cluster %d", f, seed)] = irtest.Cluster(rand.New(rand.NewPCG(seed, 7)), f, n)
		}
		out[f.String()+" without services"] = irtest.Cluster(rand.New(rand.NewPCG(9, 7)), f, 0)
		large := irtest.Cluster(rand.New(rand.NewPCG(10, 7)), f, 200)
		for i, s := range large.Services {
			if lists := [][]ir.Endpoint{many(f, 1000), many(f, 217), many(f, 7)}; i < len(lists) && len(s.Cluster) > 0 {
				s.Cluster, s.Local, s.AffinitySeconds = lists[i], nil, i*60
				s.Serving = nil
			}
		}
		out[f.String()+" with a thousand endpoints"] = large
	}
	return out
}

func many(f ir.Family, n int) (out []ir.Endpoint) {
	for i := range n {
		out = append(out, ir.Endpoint{Addr: irtest.Addr(f, 200, i+1), Port: 80})
	}
	slices.SortFunc(out, ir.CompareEndpoints)
	return out
}

// TestKernelShapes loads each with both flavours at the faster levels, and has
// what the tool dumps mean the same.
func TestKernelShapes(t *testing.T) {
	lab.Require(t)
	l := lab.New(t, lab.Config{})
	for name, p := range shapes() {
		for _, fl := range lab.Flavours {
			for level := 1; level <= 2; level++ {
				t.Run(fmt.Sprintf("%s/%s/O%d", name, fl, level), func(t *testing.T) {
					if err := l.LoadIPTables(fl, p.Family, textAt(t, p, level)); err != nil {
						t.Fatal(err)
					}
					dump := emit.Section{Tool: iptables.Tool, Family: p.Family, Text: []byte(save(t, l, fl, p.Family))}
					w, err := iptables.Backend{}.Parse(p.Family, []emit.Section{dump}, true)
					if err != nil {
						t.Fatal(err)
					}
					if err := proof.First(p, w); err != nil {
						t.Error(err)
					}
				})
			}
			if err := l.Flush(fl); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A moving node's services: one on the node itself, which has real connections,
// and one that remembers its clients.
func moving() *ir.Program {
	p := irtest.Shop()
	service := func(name, ip string, eps ...ir.Endpoint) *ir.ServicePort {
		return &ir.ServicePort{
			PortName:  ir.PortName{Namespace: "demo", Name: name, Protocol: ir.TCP},
			Frontends: []ir.Frontend{{Kind: ir.ClusterIP, Addr: netip.MustParseAddr(ip), Port: 80}},
			Cluster:   eps, Usable: true,
		}
	}
	own := service("own", "10.96.0.7", ir.Endpoint{Addr: p.Node.IP, Port: 8080, Local: true})
	sticky := service("sticky", "10.96.0.8", many(ir.IPv4, 8)...)
	sticky.AffinitySeconds = 600
	p.Services = append([]*ir.ServicePort{own}, p.Services[0], sticky)
	return p
}

// moves are the levels between which a node goes by loading the whole text.
var moves = []int{0, 1, 2, 1, 0, 2, 0}

// A connection survives every move, and new ones come about after it.
func TestKernelConnectionsSurviveMoves(t *testing.T) {
	lab.Require(t)
	p := moving()
	for _, fl := range lab.Flavours {
		t.Run(string(fl), func(t *testing.T) {
			l := lab.New(t, lab.Config{Addrs: []netip.Addr{p.Node.IP}})
			serve(t, l, netip.AddrPortFrom(p.Node.IP, 8080))
			var all []net.Conn
			for _, level := range moves {
				if err := l.LoadIPTables(fl, p.Family, textAt(t, p, level)); err != nil {
					t.Fatal(err)
				}
				all = append(all, dial(t, l, netip.AddrPortFrom(p.Services[0].Frontends[0].Addr, 80)))
				for i, c := range all {
					if err := echoes(c, fmt.Sprintf("at level %d", level)); err != nil {
						t.Fatalf("at level %d, connection %d: %v", level, i, err)
					}
				}
			}
		})
	}
}

// serve echoes lines at an address of the node.
func serve(t *testing.T, l *lab.Lab, at netip.AddrPort) {
	t.Helper()
	var s *net.TCPListener
	if err := l.Do(func() (err error) {
		s, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	go func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					fmt.Fprintln(c, in.Text())
				}
			}()
		}
	}()
}

func dial(t *testing.T, l *lab.Lab, to netip.AddrPort) net.Conn {
	t.Helper()
	var c *net.TCPConn
	if err := l.Do(func() (err error) {
		c, err = net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(to))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// echoes sends a line and wants it back.
func echoes(c net.Conn, line string) error {
	if err := c.SetDeadline(time.Now().Add(10 * time.Minute)); err != nil {
		return err
	}
	fmt.Fprintln(c, line)
	got, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && got != line+"\n" {
		return fmt.Errorf("%q came back as %q", line, got)
	}
	return err
}

// Clients that affinity remembers are remembered at every level.
func TestKernelAffinitySurvivesMoves(t *testing.T) {
	lab.Require(t)
	p := moving()
	for _, fl := range lab.Flavours {
		t.Run(string(fl), func(t *testing.T) {
			l := lab.New(t, lab.Config{Addrs: []netip.Addr{p.Node.IP}})
			var first []lab.Seen
			for i, level := range moves {
				if err := l.LoadIPTables(fl, p.Family, textAt(t, p, level)); err != nil {
					t.Fatal(err)
				}
				var flows []lab.Flow
				for client := range 40 {
					src := netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 51, 100, byte(1 + client)}), uint16(20000+i))
					dst := netip.AddrPortFrom(p.Services[2].Frontends[0].Addr, 80)
					flows = append(flows, lab.Flow{Src: src, Dst: dst, Protocol: ir.TCP, In: lab.Outside})
				}
				seen, err := l.Probe(flows)
				if err != nil {
					t.Fatal(err)
				}
				if first == nil {
					first = seen
				}
				met := map[netip.AddrPort]bool{}
				for j, s := range seen {
					if met[s.To] = true; s.To != first[j].To {
						t.Errorf("client %d goes to %s at level %d, before to %s", j, s.To, level, first[j].To)
					}
				}
				if len(met) < 3 { // wrong in 1 of 10^20 runs
					t.Errorf("clients go to %v alone", met)
				}
			}
		})
	}
}
