package ipvs

import (
	"net/netip"
	"slices"

	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// known is what rulesets of the state directory tell of virtual servers. What
// the kernel says (owner) does not do alone: sets can be emptied, and the link
// deleted, by anybody, and servers remain.
type known struct {
	of     []*emit.Ruleset
	keys   map[spec.Key]bool // of their servers; whether all that have it exclude it
	owners [2][]*owner
}

// Recognize implements apply.Recognizing.
func (t *Target) Recognize(rulesets func() []*emit.Ruleset) { t.rulesets = rulesets }

// recognized reads the rulesets, if they are not those that were read last. It is
// asked only where there is a virtual server that the kernel does not prove to be
// ours, since rulesets may be large.
func (t *Target) recognized() *known {
	if t.rulesets == nil {
		return &known{}
	}
	list := t.rulesets()
	if t.known == nil || !slices.Equal(t.known.of, list) {
		t.known = learn(list)
	}
	return t.known
}

// learn leaves out rulesets that cannot be read.
func learn(rulesets []*emit.Ruleset) *known {
	k := &known{of: rulesets, keys: map[spec.Key]bool{}}
	for _, rs := range rulesets {
		s, _, err := wanted(rs)
		if err != nil {
			continue
		}
		var exclude []netip.Prefix
		if programs, err := rs.ReadPrograms(); err == nil {
			exclude = Excludes(programs)
		}
		for i := range ir.Families {
			k.owners[i] = append(k.owners[i], s.Families[i].owner())
			for _, v := range s.Families[i].Servers {
				spares, again := k.keys[v.Key]
				k.keys[v.Key] = (spares || !again) && within(exclude, v.Key)
			}
		}
	}
	return k
}

// mayHave says whether a server may have been ours, or taken over, when one of the
// rulesets was brought to the kernel.
func (k *known) mayHave(family int, key spec.Key) bool {
	if _, ok := k.keys[key]; ok {
		return true
	}
	return slices.ContainsFunc(k.owners[family], func(o *owner) bool { return o.owns(key) })
}

func within(ranges []netip.Prefix, k spec.Key) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(k.Address.Addr()) })
}

// recognize takes for ours what rulesets tell to be.
func (o *observed) recognize(k *known) {
	var list [2][]*Server
	for _, s := range o.foreign {
		if spares, ours := k.keys[s.Key]; ours {
			i := slices.Index(ir.Families, family(s.Address.Addr()))
			list[i] = append(list[i], s)
			if spares {
				o.excluded = append(o.excluded, s.Key)
			}
		}
	}
	for i := range ir.Families {
		o.claim(i, list[i])
	}
}

// inTheWay are the servers of others that would be taken for ours once the kernel
// held what is wanted.
func (o *observed) inTheWay(family int, want *familyState) []*Server {
	owner := want.owner()
	var out []*Server
	for _, s := range o.foreign {
		if ir.Families[family].Of(s.Address.Addr()) && owner.owns(s.Key) {
			out = append(out, s)
		}
	}
	return out
}

// takeOver makes ours of what is in the way, so that it is changed or goes, and
// comes back if the run is undone.
func (o *observed) takeOver(want *state) {
	for i := range ir.Families {
		o.claim(i, o.inTheWay(i, &want.Families[i]))
	}
}

// adopting takes for ours what was ours: virtual servers that were excluded stay
// when what proved them to be ours goes, and one that was taken over may be
// foreign again.
func (o *observed) adopting(was *state) *observed {
	out, own := *o, *o.state
	out.state, out.foreign = &own, slices.Clone(o.foreign)
	for i := range ir.Families {
		var list []*Server
		for _, s := range o.foreign {
			if was.Families[i].server(s.Key) != nil {
				list = append(list, s)
			}
		}
		out.claim(i, list)
	}
	return &out
}

// claim makes ours of some that are foreign.
func (o *observed) claim(family int, list []*Server) {
	if len(list) == 0 {
		return
	}
	o.foreign = slices.DeleteFunc(o.foreign, func(s *Server) bool { return slices.Contains(list, s) })
	f := &o.state.Families[family]
	f.Servers = append(slices.Clone(f.Servers), list...)
	slices.SortFunc(f.Servers, func(a, b *Server) int { return a.Key.Compare(b.Key) })
}
