package eval

import (
	"net/netip"
	"slices"

	"svcc/ir"
)

// edges probes the addresses just inside and just outside of source ranges, at
// an address that the node bears and at one that it does not.
func (b *prober) edges(s *ir.ServicePort, dst netip.AddrPort) {
	bound := b.with(dst.Addr())
	for _, r := range spread(s.SourceRanges, max(b.hairpins, sampleRanges)) {
		first, last := r.Addr(), ir.LastOf(r)
		for _, a := range []netip.Addr{first.Prev(), first, last, last.Next()} {
			if a.IsValid() && b.program.Family.Of(a) {
				b.sendOne(packet(a, b.OutsideIn, dst, s.Protocol), b.Host)
				b.sendOne(packet(a, b.OutsideIn, dst, s.Protocol), bound)
			}
		}
	}
}

// endpoints probes each endpoint as the client, and clients that affinity
// remembers.
func (b *prober) endpoints(s *ir.ServicePort) {
	all := s.Reachable()
	if len(all) == 0 {
		return
	}
	first := s.Frontends[0]
	for _, e := range spread(all, b.hairpins) {
		in := b.OutsideIn
		if e.Local {
			in = b.PodIn
		}
		b.sendOne(packet(e.Addr, in, netip.AddrPortFrom(first.Addr, first.Port), s.Protocol), b.Host)
	}
	last := s.Frontends[len(s.Frontends)-1]
	dst := b.destinations(last)[0]
	if b.program.Options.Facts().BindsAddresses {
		if at := b.answering(last); at.IsValid() {
			dst = at
		}
		b.send(packet(all[0].Addr, b.PodIn, all[0].AddrPort(), s.Protocol), b.Host) // to itself, by no service
	}
	b.send(packet(all[0].Addr, b.OutsideIn, dst, s.Protocol), b.Host)
	if k := b.program.Options.Pods.Kind; !b.sampling() || k != ir.DetectCIDR && k != ir.DetectNone {
		b.sendOne(packet(all[0].Addr, b.PodIn, dst, s.Protocol), b.Host)
	}
	b.strangers(s, dst)
	if s.AffinitySeconds == 0 {
		return
	}
	for _, e := range []ir.Endpoint{all[0], all[len(all)-1]} {
		p := packet(b.Pod, b.PodIn, netip.AddrPortFrom(first.Addr, first.Port), s.Protocol)
		p.Remembered = e.AddrPort()
		b.send(p, b.Host)
	}
}

// strangers probes the local endpoints that are not recognised as pods: at a
// ClusterIP they are masqueraded like everybody else, so only an external
// frontend of policy Local shows whether they are as those that reach
// themselves.
func (b *prober) strangers(s *ir.ServicePort, dst netip.AddrPort) {
	if s.ExternalPolicy != ir.Local || len(s.Frontends) < 2 {
		return
	}
	for _, e := range spread(s.Local, b.hairpins) {
		if !b.program.Options.Pods.Match(e.Addr, b.OutsideIn) {
			b.sendOne(packet(e.Addr, b.OutsideIn, dst, s.Protocol), b.Host)
		}
	}
}

// spread takes n of a list, the first and the last among them.
func spread[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	out := make([]T, n)
	for i := range out {
		out[i] = list[i*(len(list)-1)/(n-1)]
	}
	return out
}

// with is the host as it is with one more address.
func (b *prober) with(a netip.Addr) Host {
	h := b.Host
	h.Addrs = append(slices.Clone(h.Addrs), a)
	return h
}
