package ipvs

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"svcc/emit"
	"svcc/ir"
)

// ReadState reads the sections of one family: those that Sections gives, or
// what ipset save, iptables-save, ip -batch and ipvsadm -Sn have to say. Other
// programs' sets and servers are read as well. A tool may have several sections.
// Errors name section and line.
func ReadState(f ir.Family, sections []emit.Section) (*State, error) {
	r := &reader{state: &State{Family: f}, sets: map[string]*Set{}, servers: map[Key]*Server{}}
	for _, s := range sections {
		if s.Family != f {
			return nil, fmt.Errorf("section %s %s: not of %s", s.Tool, s.Family, f)
		}
		if err := r.section(s); err != nil {
			return nil, fmt.Errorf("section %s %s: %w", s.Tool, s.Family, err)
		}
	}
	return r.state, r.finish()
}

// reader collects a State line by line.
type reader struct {
	state   *State
	sets    map[string]*Set
	servers map[Key]*Server
	odd     bool // whether sets may have options that rulesets' have not
}

func (r *reader) section(s emit.Section) error {
	var line func(words []string) error
	switch s.Tool {
	case ToolGlue:
		r.state.Glue = append(r.state.Glue, s.Text...)
		return nil
	case ToolSets:
		line = r.setLine
	case ToolAddresses:
		line = r.addressLine
	case ToolServers:
		line = r.serverLine
	default:
		return fmt.Errorf("not one of the ipvs mode")
	}
	n := 0
	for text := range bytes.Lines(s.Text) {
		n++
		words := strings.Fields(string(text))
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		if err := line(words); err != nil {
			return fmt.Errorf("line %d: %.120q: %w", n, bytes.TrimSpace(text), err)
		}
	}
	return nil
}

// finish sorts. A set that cannot hold its entries is an error, unless the kernel
// says that it does.
func (r *reader) finish() error {
	s := r.state
	for _, x := range s.Sets {
		slices.Sort(x.Entries)
		x.Entries = slices.Compact(x.Entries)
		if most := cmp.Or(x.MaxElem, defaultMaxElem); strings.HasPrefix(x.Type, "hash:") && len(x.Entries) > most && !r.odd {
			return fmt.Errorf("section %s %s: set %s has %d entries, and room for %d (maxelem)", ToolSets, s.Family, x.Name, len(x.Entries), most)
		}
	}
	slices.SortFunc(s.Addresses, netip.Addr.Compare)
	s.Addresses = slices.Compact(s.Addresses)
	for _, v := range s.Servers {
		slices.SortFunc(v.Destinations, func(a, b Destination) int { return a.Address.Compare(b.Address) })
	}
	slices.SortFunc(s.Servers, func(a, b *Server) int { return a.Key.Compare(b.Key) })
	return nil
}

// defaultMaxElem is how many entries a set of addresses has room for if nothing
// is said (ipset(8)).
const defaultMaxElem = 65536

// ReadSets reads what ipset save has to say of sets of one family. It takes what
// no ruleset may have: other options, and entries with options (Set.Odd).
func ReadSets(f ir.Family, text []byte) ([]*Set, error) {
	r := &reader{state: &State{Family: f}, sets: map[string]*Set{}, odd: true}
	if err := r.section(emit.Section{Tool: ToolSets, Family: f, Text: text}); err != nil {
		return nil, err
	}
	return r.state.Sets, r.finish()
}

// setLine reads "create NAME TYPE ...", "flush NAME" or "add NAME ENTRY".
func (r *reader) setLine(w []string) error {
	if len(w) < 2 {
		return fmt.Errorf("not a command of ipset restore")
	}
	set := r.sets[w[1]]
	switch {
	case w[0] == "create" && len(w) > 2:
		return r.createSet(w)
	case set == nil:
		return fmt.Errorf("set %s is not created before", w[1])
	case w[0] == "flush" && len(w) == 2:
		set.Entries = nil
		return nil
	case w[0] == "add" && (len(w) == 3 || len(w) == 4 && w[3] == "-exist"):
		set.Entries = append(set.Entries, w[2])
		return nil
	case w[0] == "add" && len(w) > 3 && r.odd:
		r.oddEntry(set, w)
		return nil
	}
	return fmt.Errorf("not a command of ipset restore that is understood")
}

// oddEntry takes an entry with options. What it lets through matters; its
// comment and counters do not.
func (r *reader) oddEntry(set *Set, w []string) {
	entry := w[2]
	options, _, _ := strings.Cut(strings.Join(w[3:], " ")+" ", "comment ")
	if strings.Contains(options, "nomatch ") {
		entry += " nomatch"
	}
	set.Entries = append(set.Entries, entry)
	if set.Odd == "" {
		set.Odd = set.options(r.state.Family)
	}
}

// createSet reads a set's head. What the kernel chose by itself, such as the
// seed that ipset save prints, is passed over.
func (r *reader) createSet(w []string) error {
	if r.sets[w[1]] != nil {
		return fmt.Errorf("set %s is created again", w[1])
	}
	set := &Set{Name: w[1], Type: w[2]}
	odd := ""
	var kept []string
	for w = w[3:]; len(w) > 0; {
		n, err := set.option(w, r.state.Family)
		switch {
		case err != nil:
			return err
		case n == 0:
			odd, n = cmp.Or(odd, w[0]), 1
		}
		if w[0] != "initval" && w[0] != "bucketsize" {
			kept = append(kept, w[:n]...)
		}
		w = w[n:]
	}
	if odd != "" && !r.odd {
		return fmt.Errorf("no set of svcc's has the option %s", odd)
	}
	if odd != "" {
		set.Odd = strings.Join(kept, " ")
	}
	r.sets[set.Name] = set
	r.state.Sets = append(r.state.Sets, set)
	return nil
}

// option reads the first of a set's options, and gives how many words it has; 0
// for one that ours have not, or not so.
func (s *Set) option(w []string, f ir.Family) (n int, err error) {
	if w[0] == "-exist" {
		return 1, nil
	}
	if len(w) == 1 {
		return 0, nil
	}
	switch w[0] {
	case "hashsize":
		s.HashSize, err = number(w[1], 0, min(math.MaxInt, math.MaxUint32))
	case "maxelem":
		s.MaxElem, err = number(w[1], 0, min(math.MaxInt, math.MaxUint32))
	case "initval", "bucketsize":
	default:
		if o := w[0] + " " + w[1]; o != "family "+inet(f) && o != allPorts {
			return 0, nil
		}
	}
	return 2, err
}

// Swaps says whether the kernel can give a set the place of another, which rules
// may refer to: type and family must be the same, the rest need not.
func (s *Set) Swaps(with *Set, f ir.Family) bool {
	return s.Type == with.Type && s.inet(f) == with.inet(f)
}

func (s *Set) inet(f ir.Family) string {
	if _, rest, ok := strings.Cut(" "+s.Odd, " family "); ok && s.Odd != "" {
		family, _, _ := strings.Cut(rest, " ")
		return family
	}
	return inet(f)
}

// linkLine makes the link.
const linkLine = "link add " + Link + " type dummy"

// addressLine reads "address replace ADDR/BITS dev LINK [nodad]", or the link's
// own line. Nothing else may stand there: ip would do whatever it says.
func (r *reader) addressLine(w []string) error {
	if strings.Join(w, " ") == linkLine {
		return nil
	}
	plain := len(w) == 5 || len(w) == 6 && w[5] == "nodad"
	if !plain || w[0] != "address" || w[1] != "replace" || w[3] != "dev" || w[4] != Link {
		return fmt.Errorf("neither %q nor \"address replace ADDRESS dev %s [nodad]\"", linkLine, Link)
	}
	p, err := netip.ParsePrefix(w[2])
	if err != nil || !p.IsSingleIP() || !r.state.Family.Of(p.Addr()) || p.Addr().IsUnspecified() {
		return fmt.Errorf("%s is no single address of the family", w[2])
	}
	r.state.Addresses = append(r.state.Addresses, p.Addr())
	return nil
}

// serverLine reads "-A KEY ..." or "-a KEY -r ADDR ...".
func (r *reader) serverLine(w []string) error {
	if len(w) < 3 {
		return fmt.Errorf("not a command of ipvsadm -R")
	}
	key, err := r.key(w[1], w[2])
	if err != nil {
		return err
	}
	switch w[0] {
	case "-A":
		return r.addServer(key, w[3:])
	case "-a":
		return r.addDestination(key, w[3:])
	}
	return fmt.Errorf("not a command of ipvsadm -R that is understood")
}

func (r *reader) key(option, address string) (Key, error) {
	a, err := r.addressAndPort(address)
	if err != nil {
		return Key{}, err
	}
	for p, o := range options {
		if o == option {
			return Key{Protocol: p, Address: a}, nil
		}
	}
	return Key{}, fmt.Errorf("%s is none of -t, -u, --sctp-service", option)
}

func (r *reader) addressAndPort(text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil || !r.state.Family.Of(a.Addr()) || a.Addr().IsUnspecified() || a.Port() == 0 {
		return a, fmt.Errorf("%s is no address and port of the family", text)
	}
	return a, nil
}

// The ranges of numbers: ipvsadm's for weights, the kernel's for a timeout.
const (
	maxWeight  = math.MaxUint16
	maxTimeout = math.MaxInt32
)

// number reads one from least to most.
func number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is no number from %d to %d", text, least, most)
	}
	return n, nil
}

func (r *reader) addServer(key Key, w []string) error {
	if r.servers[key] != nil {
		return fmt.Errorf("virtual server %s is there already", key)
	}
	v := &Server{Key: key}
	for ; len(w) > 1; w = w[2:] {
		var err error
		switch w[0] {
		case "-s":
			v.Scheduler = w[1]
		case "-p":
			v.Timeout, err = number(w[1], 1, maxTimeout)
		case "-b":
			v.Flags = strings.Split(w[1], ",")
			slices.Sort(v.Flags)
		case "-M":
		default:
			err = fmt.Errorf("option %s is not understood", w[0])
		}
		if err != nil {
			return err
		}
	}
	if len(w) > 0 || v.Scheduler == "" {
		return fmt.Errorf("options come in pairs, and -s is one")
	}
	r.servers[key] = v
	r.state.Servers = append(r.state.Servers, v)
	return nil
}

func (r *reader) addDestination(key Key, w []string) error {
	v := r.servers[key]
	if v == nil {
		return fmt.Errorf("virtual server %s is not there", key)
	}
	if len(w) != 5 || w[0] != "-r" || w[2] != "-m" || w[3] != "-w" {
		return fmt.Errorf("not \"-r ADDRESS -m -w WEIGHT\"")
	}
	a, err := r.addressAndPort(w[1])
	if err != nil {
		return err
	}
	weight, err := number(w[4], 0, maxWeight)
	if err != nil {
		return fmt.Errorf("weight: %w", err)
	}
	if slices.ContainsFunc(v.Destinations, func(d Destination) bool { return d.Address == a }) {
		return fmt.Errorf("%s is a destination of %s already", a, key)
	}
	v.Destinations = append(v.Destinations, Destination{Address: a, Weight: weight})
	return nil
}
