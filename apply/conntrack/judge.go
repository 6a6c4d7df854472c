package conntrack

import (
	"net/netip"
	"slices"

	"svcc/ir"
)

// Stale gives, in their order, the entries that no rule would make now. old
// are the Programs that were loaded before and new those that are loaded now,
// each with at most one a family; either may be empty. local are the node's own
// addresses ("addrtype LOCAL" in rules), at which node ports answer.
//
// An entry is stale if it is UDP and its destination
//   - is now a Service's, and its answers come from none of that Service's
//     serving endpoints, whatever policy and topology say of them; so all are
//     stale where nothing serves, and so are flows that began untranslated,
//     before the Service was there; or
//   - was a Service's and is nobody's now, and it was translated.
//
// Those are kube-proxy's rules with two differences. kube-proxy takes any
// packet to a node port's number for a node port's, wherever it is sent, and so
// spares the node ports of Services without endpoints; here the address has to
// be one at which node ports answer, and then none is spared. And kube-proxy
// does not see flows to Services that are gone (kubernetes#141371).
func Stale(old, new []*ir.Program, local []netip.Prefix, entries []Entry) []Entry {
	j := newJudge(old, new)
	j.setLocal(local)
	var out []Entry
	for _, e := range entries {
		if _, stale := j.judge(e); stale {
			out = append(out, e)
		}
	}
	return out
}

// judge decides of entries, each by a few look-ups.
type judge struct {
	now, before map[ir.Family]*claims
	addrs       map[netip.Addr]bool // local ones
	prefixes    []netip.Prefix      // local ones that are more than an address
}

func newJudge(old, new []*ir.Program) *judge {
	return &judge{now: claim(new), before: claim(old)}
}

// setLocal tells of the node's own addresses.
func (j *judge) setLocal(local []netip.Prefix) {
	j.addrs, j.prefixes = map[netip.Addr]bool{}, nil
	for _, p := range local {
		if p.IsSingleIP() {
			j.addrs[p.Addr()] = true
		} else {
			j.prefixes = append(j.prefixes, p)
		}
	}
}

func (j *judge) local(a netip.Addr) bool {
	return j.addrs[a] || slices.ContainsFunc(j.prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// families are those in which some UDP flow could be a Service's.
func (j *judge) families() []ir.Family {
	var out []ir.Family
	for _, f := range ir.Families {
		if !j.now[f].empty() || !j.before[f].empty() {
			out = append(out, f)
		}
	}
	return out
}

// judge says whether an entry is stale, and whose its destination is or was.
// Entries of another zone than 0 were not made by rules of Services.
func (j *judge) judge(e Entry) (owner *target, stale bool) {
	if e.Protocol != ir.UDP || e.Zone != 0 {
		return nil, false
	}
	f := ir.FamilyOf(e.Dst.Addr())
	if t := j.now[f].find(e.Dst, j.local); t != nil {
		return t, !t.serves(e.ReplySrc)
	}
	if t := j.before[f].find(e.Dst, j.local); t != nil {
		return t, e.translated()
	}
	return nil, false
}
