package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"svcc/emit/walk"
	"svcc/ir"
	"svcc/ir/eval"
)

// around is a State as rules and packets meet it.
func (s *State) around() (*walk.Around, error) {
	sets := map[string]walk.Set{}
	for _, x := range s.Sets {
		m, err := newMembers(s.Family, x)
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", x.Name, err)
		}
		sets[x.Name] = m
	}
	bears := make(map[netip.Addr]bool, len(s.Addresses))
	for _, a := range s.Addresses {
		bears[a] = true
	}
	servers := make(map[Key]*walk.Server, len(s.Servers))
	for _, v := range s.Servers {
		w, err := v.walked()
		if err != nil {
			return nil, err
		}
		servers[v.Key] = w
	}
	return &walk.Around{
		Boxes:  s.boxes(sets),
		Sets:   sets,
		Bears:  func(a netip.Addr) bool { return bears[a] },
		Server: func(at netip.AddrPort, p ir.Protocol) *walk.Server { return servers[Key{p, at}] },
	}, nil
}

// walked is a server as packets meet it. A destination of weight 0 gets no new
// connection. How often a scheduler chooses one of others of the same weight is
// its own affair; it is taken to choose each alike.
func (v *Server) walked() (*walk.Server, error) {
	if _, known := options[v.Protocol]; !known {
		return nil, fmt.Errorf("virtual server %s: no such protocol", v.Key)
	}
	w := &walk.Server{Text: fmt.Sprintf("-A %s -s %s", v.Key, v.Scheduler), Sticky: v.Timeout}
	sum := 0
	for _, d := range v.Destinations {
		sum += d.Weight
	}
	for _, d := range v.Destinations {
		if d.Weight > 0 {
			w.Choices = append(w.Choices, walk.Choice{To: d.Address, Share: eval.Of(uint64(d.Weight), uint64(sum))})
		}
	}
	slices.SortStableFunc(w.Choices, func(a, b walk.Choice) int { return a.To.Compare(b.To) })
	return w, nil
}

// members is a set as rules ask it.
type members struct {
	dimensions int
	entries    []walk.Entry // in the order of the set
	bitmap     bool
	plain      map[member]bool
	ranges     map[member]ir.PrefixSet // of hash:ip,port,net, by address and port
}

// member is an entry, as far as its type has it.
type member struct {
	addr, third netip.Addr
	proto       ir.Protocol
	port        uint16
}

// newMembers reads a set's entries as ipset spells them.
func newMembers(f ir.Family, s *Set) (*members, error) {
	m := &members{plain: map[member]bool{}, ranges: map[member]ir.PrefixSet{}}
	ranges := map[member][]netip.Prefix{}
	switch s.Type {
	case TypePort:
		m.dimensions, m.bitmap = 1, true
	case TypeIP:
		m.dimensions = 1
	case TypeIPPort:
		m.dimensions = 2
	case TypeIPPortIP, TypeIPPortNet:
		m.dimensions = 3
	default:
		return nil, fmt.Errorf("sets of type %s have no model", s.Type)
	}
	for _, e := range s.Entries {
		if err := m.add(f, s.Type, e, ranges); err != nil {
			return nil, fmt.Errorf("entry %q: %w", e, err)
		}
	}
	for x, list := range ranges {
		m.ranges[x] = ir.NewPrefixSet(list)
	}
	return m, nil
}

// add reads one entry; those of ranges are collected.
func (m *members) add(f ir.Family, kind, entry string, ranges map[member][]netip.Prefix) error {
	if m.bitmap {
		port, err := strconv.ParseUint(entry, 10, 16)
		m.plain[member{port: uint16(port)}] = true
		m.entries = append(m.entries, walk.Entry{Port: uint16(port)})
		return err
	}
	parts := strings.Split(entry, ",")
	if len(parts) != m.dimensions {
		return fmt.Errorf("not of %d parts", m.dimensions)
	}
	var x member
	var err error
	if x.addr, err = netip.ParseAddr(parts[0]); err != nil || !f.Of(x.addr) {
		return fmt.Errorf("%s is no address of the family", parts[0])
	}
	if m.dimensions > 1 {
		if err := x.readPort(parts[1]); err != nil {
			return err
		}
	}
	e := walk.Entry{Addr: x.addr, Protocol: x.proto, Port: x.port}
	switch kind {
	case TypeIPPortIP:
		if x.third, err = netip.ParseAddr(parts[2]); err != nil {
			return err
		}
		e.Third = netip.PrefixFrom(x.third, x.third.BitLen())
	case TypeIPPortNet:
		if e.Third, err = readRange(parts[2]); err != nil {
			return err
		}
		ranges[x] = append(ranges[x], e.Third)
	}
	if kind != TypeIPPortNet {
		m.plain[x] = true
	}
	m.entries = append(m.entries, e)
	return nil
}

// readPort reads "tcp:80".
func (x *member) readPort(s string) (err error) {
	proto, port, _ := strings.Cut(s, ":")
	if x.proto, err = ir.ParseProtocol(proto); err != nil {
		return err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	x.port = uint16(n)
	return err
}

// readRange reads a prefix, or an address for one of full length.
func readRange(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	return netip.ParsePrefix(s)
}

// Dimensions implements walk.Set.
func (m *members) Dimensions() int { return m.dimensions }

// Entries implements walk.Set.
func (m *members) Entries(yield func(walk.Entry) bool) {
	for _, e := range m.entries {
		if !yield(e) {
			return
		}
	}
}

// Holds implements walk.Set.
func (m *members) Holds(p ir.Protocol, ends []netip.AddrPort) bool {
	if m.bitmap {
		return m.plain[member{port: ends[0].Port()}]
	}
	x := member{addr: ends[0].Addr()}
	if m.dimensions > 1 {
		x.proto, x.port = p, ends[1].Port()
	}
	if m.dimensions < 3 {
		return m.plain[x]
	}
	if m.ranges[x].Contains(ends[2].Addr()) {
		return true
	}
	x.third = ends[2].Addr()
	return m.plain[x]
}
