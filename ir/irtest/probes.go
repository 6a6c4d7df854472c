package irtest

import (
	"iter"
	"net/netip"

	"svcc/ir"
	"svcc/ir/eval"
)

// Probes are all of eval.Probes and those that try what service ports do to
// each other: frontends' addresses that the node bears, each with its own port
// and with node ports, asked from everywhere, the node and endpoints included;
// endpoints as clients of every frontend; clients that affinity remembers at
// endpoints that the policy may not allow.
func Probes(p *ir.Program) iter.Seq[eval.Probe] {
	return func(yield func(eval.Probe) bool) {
		for x := range eval.Probes(p) {
			if !yield(x) {
				return
			}
		}
		m := meeting{Clients: eval.NewClients(p), p: p, yield: yield}
		m.nodePorts()
		for _, s := range p.Services {
			for i, f := range s.Frontends {
				if f.Kind != ir.NodePort && !m.stopped {
					m.frontend(s, f, i == 0)
				}
			}
		}
	}
}

type meeting struct {
	eval.Clients
	p       *ir.Program
	yield   func(eval.Probe) bool
	stopped bool
	ports   []destination // node ports, a few
}

func (m *meeting) nodePorts() {
	for _, s := range m.p.Services {
		for _, f := range s.Frontends {
			if f.Kind == ir.NodePort && len(m.ports) < 4 {
				m.ports = append(m.ports, destination{port: f.Port, proto: s.Protocol})
			}
		}
	}
}

func (m *meeting) send(s *ir.ServicePort, p eval.Packet, h eval.Host) {
	p.Src = netip.AddrPortFrom(p.Src.Addr(), eval.ClientPort)
	m.stopped = m.stopped || !m.yield(eval.Probe{Service: s.PortName.String(), Packet: p, Host: h})
}

func (m *meeting) frontend(s *ir.ServicePort, f ir.Frontend, first bool) {
	bound := eval.Host{Addrs: []netip.Addr{m.Node, f.Addr}}
	own := destination{f.Addr, f.Port, s.Protocol}
	for _, d := range append([]destination{own}, m.ports...) {
		d.addr = f.Addr
		for _, h := range []eval.Host{m.Host, bound} {
			for _, p := range m.senders(d) {
				m.send(s, p, h)
			}
		}
	}
	for _, e := range some(s.Reachable()) {
		in := map[bool]string{true: m.PodIn, false: m.OutsideIn}[e.Local]
		p := eval.Packet{Src: e.AddrPort(), Dst: netip.AddrPortFrom(f.Addr, f.Port), Protocol: s.Protocol, In: in}
		m.send(s, p, m.Host)
		if s.AffinitySeconds > 0 && first {
			p.Remembered = e.AddrPort()
			m.send(s, p, m.Host)
			p.Src, p.In = netip.AddrPortFrom(m.Outside, 0), m.OutsideIn
			m.send(s, p, bound)
		}
	}
}

// senders send to a destination from everywhere, marked as well.
func (m *meeting) senders(d destination) []eval.Packet {
	p := eval.Packet{Dst: netip.AddrPortFrom(d.addr, d.port), Protocol: d.proto}
	from := func(a netip.Addr, in string) eval.Packet {
		p.Src, p.In = netip.AddrPortFrom(a, 0), in
		return p
	}
	marked := from(m.Outside, m.OutsideIn)
	marked.Mark = m.p.Options.MasqueradeMark
	return []eval.Packet{
		marked, from(m.Outside, m.OutsideIn), from(m.Pod, m.PodIn), from(m.Node, ""), from(d.addr, ""),
	}
}

// some are at most three of a list.
func some(list []ir.Endpoint) []ir.Endpoint {
	if len(list) < 4 {
		return list
	}
	return []ir.Endpoint{list[0], list[len(list)/2], list[len(list)-1]}
}
