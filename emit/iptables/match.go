package iptables

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"svcc/emit/iptables/rule"
	"svcc/emit/walk"
)

// module is what the walker makes of a match or target: of the vocabulary's row, the
// options that have a model, by their names there.
type module struct {
	name   string
	proto  uint32        // of a match, -p that it needs; 0 for any
	first  walk.CondKind // condition that its options fill in; CondNone if each makes its own
	around bool          // has a model only where it is known what is around the rules
	do     walk.Verb     // of a target
	models map[string]option

	term    *rule.Term
	options []option // as in term; set is nil of one without a model
}

// option is the model of one option. set tells what is wrong, "" if nothing.
type option struct {
	not bool // ! may stand before it
	set func(r *ruleParser, value string) string
}

// modules are the matches with a model.
var modules = modelled(rule.MatchTerm, []module{
	{name: "comment", models: map[string]option{"--comment": {false, ignore}}},
	{name: "tcp", proto: 6, models: portModels},
	{name: "udp", proto: 17, models: portModels},
	{name: "sctp", proto: 132, models: portModels},
	{name: "conntrack", models: map[string]option{
		"--ctstate":       {true, setState},
		"--ctorigdst":     {true, setOrigDst},
		"--ctorigdstport": {true, portOf(walk.CondOrigPort)},
	}},
	{name: "state", models: map[string]option{"--state": {true, setState}}},
	{name: "mark", models: map[string]option{"--mark": {true, setMarkMatch}}},
	{name: "addrtype", models: map[string]option{
		"--src-type": {true, func(r *ruleParser, v string) string { return setType(r, walk.CondSrcLocal, v) }},
		"--dst-type": {true, func(r *ruleParser, v string) string { return setType(r, walk.CondDstLocal, v) }},
	}},
	{name: "statistic", first: walk.CondStatistic, models: map[string]option{
		"--mode":        {false, setMode},
		"--probability": {true, setProbability},
	}},
	{name: "recent", first: walk.CondRecent, models: map[string]option{
		"--name":    {false, setList},
		"--rcheck":  {true, func(r *ruleParser, _ string) string { return setRecent(r, walk.RecentCheck) }},
		"--update":  {true, func(r *ruleParser, _ string) string { return setRecent(r, walk.RecentUpdate) }},
		"--set":     {true, func(r *ruleParser, _ string) string { return setRecent(r, walk.RecentSet) }},
		"--seconds": {false, setSeconds},
		"--reap":    {false, ignore},
		"--rsource": {false, ignore},
		"--mask":    {false, setRecentMask},
	}},
	{name: "multiport", models: map[string]option{
		"--dports": {true, func(r *ruleParser, v string) string { return setPorts(r, walk.SideDst, v) }},
		"--sports": {true, func(r *ruleParser, v string) string { return setPorts(r, walk.SideSrc, v) }},
		"--ports":  {true, func(r *ruleParser, v string) string { return setPorts(r, walk.SideSrc|walk.SideDst, v) }},
	}},
	{name: "set", around: true, models: map[string]option{"--match-set": {true, setMatchSet}}},
	{name: "ipvs", around: true, models: map[string]option{
		"--ipvs":   {true, servedAs(walk.CondServed)},
		"--vaddr":  {true, servedAs(walk.CondServedAddr)},
		"--vport":  {true, servedAs(walk.CondServedPort)},
		"--vproto": {true, servedAs(walk.CondServedProto)},
	}},
	// Bridges are not modelled: no packet comes in by a port of one.
	{name: "physdev", models: map[string]option{"--physdev-is-in": {true, func(r *ruleParser, _ string) string {
		r.add(walk.Cond{Kind: walk.CondNever})
		return ""
	}}}},
	// A counter always matches.
	{name: "nfacct", models: map[string]option{"--nfacct-name": {true, ignore}}},
})

var portModels = map[string]option{"--dport": {true, portOf(walk.CondDport)}, "--sport": {true, portOf(walk.CondSport)}}

func portOf(k walk.CondKind) func(*ruleParser, string) string {
	return func(r *ruleParser, v string) string { return setPort(r, k, v) }
}

func servedAs(k walk.CondKind) func(*ruleParser, string) string {
	return func(r *ruleParser, v string) string { return setServed(r, k, v) }
}

// modelled gives models to the vocabulary's rows.
func modelled(term func(name string) *rule.Term, list []module) []module {
	for i := range list {
		m := &list[i]
		m.term = term(m.name)
		m.options = make([]option, len(m.term.Options))
		for name, o := range m.models {
			m.options[m.term.Option(name)] = o
		}
	}
	return list
}

func named(list []module, name string) *module {
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	return nil
}

// protocolModule is the module that -p loads by itself.
func protocolModule(proto uint32) *module {
	for i := range modules {
		if proto != 0 && modules[i].proto == proto {
			return &modules[i]
		}
	}
	return nil
}

// incomplete tells what a condition lacks once its rule is read.
func incomplete(c *walk.Cond) string {
	switch {
	case c.Kind == walk.CondRecent && (c.Sub == walk.RecentNone || c.X == 0):
		return "match recent needs --name and one of --set, --rcheck, --update"
	case c.Kind == walk.CondStatistic && (c.X == 0 || c.Sub == 0):
		return "match statistic needs --mode random and --probability"
	}
	return ""
}

func ignore(*ruleParser, string) string { return "" }

func setPort(r *ruleParser, k walk.CondKind, v string) string {
	lo, hi, ok := rule.ParsePorts(v)
	if !ok {
		return "not a port or range of ports"
	}
	r.add(walk.Cond{Kind: k, X: uint32(lo), Y: uint32(hi)})
	return ""
}

func setPorts(r *ruleParser, sides uint16, v string) string {
	c := walk.Cond{Kind: walk.CondPorts, Sub: sides, X: uint32(len(r.rs.Ranges))}
	for s := range strings.SplitSeq(v, ",") {
		lo, hi, ok := rule.ParsePorts(s)
		if !ok {
			return "not a list of ports"
		}
		r.rs.Ranges = append(r.rs.Ranges, walk.PortRange{Lo: lo, Hi: hi})
		c.Y++
	}
	r.add(c)
	return ""
}

func setState(r *ruleParser, v string) string {
	c := walk.Cond{Kind: walk.CondState}
	for s := range strings.SplitSeq(v, ",") {
		bit := rule.StateNames[s]
		if bit == 0 {
			return "not a list of states"
		}
		c.X |= bit
	}
	r.add(c)
	return ""
}

func setOrigDst(r *ruleParser, v string) string {
	c, ok := r.masked(walk.CondOrigDst, v)
	if !ok {
		return "not an address of the family"
	}
	r.add(c)
	return ""
}

func setMarkMatch(r *ruleParser, v string) string {
	value, mask, ok := rule.ParseMasked(v)
	if !ok {
		return "not a mark"
	}
	r.add(walk.Cond{Kind: walk.CondMark, X: value, Y: mask})
	return ""
}

func setType(r *ruleParser, k walk.CondKind, v string) string {
	if v != "LOCAL" {
		return "no model but for LOCAL"
	}
	r.add(walk.Cond{Kind: k})
	return ""
}

func setMode(r *ruleParser, v string) string {
	if v != "random" {
		return "no model but for random"
	}
	r.latest(walk.CondStatistic).Sub = 1
	return ""
}

func setProbability(r *ruleParser, v string) string {
	p, ok := parseProbability(v)
	if !ok {
		return "not a probability"
	}
	c := r.latest(walk.CondStatistic)
	if r.not {
		p = p.Rest()
	}
	r.rs.Shares = append(r.rs.Shares, p)
	c.X = uint32(len(r.rs.Shares))
	return ""
}

func setList(r *ruleParser, v string) string {
	if v == "" {
		return "no name"
	}
	r.latest(walk.CondRecent).X = r.rs.NameID(v)
	return ""
}

func setRecent(r *ruleParser, mode uint16) string {
	c := r.latest(walk.CondRecent)
	if c.Sub != walk.RecentNone {
		return "a second mode"
	}
	c.Sub, c.Not = mode, r.not
	return ""
}

func setSeconds(r *ruleParser, v string) string {
	n, ok := rule.ParseNumber(v)
	if !ok || n == 0 || n > 1<<31-1 {
		return "not a number of seconds"
	}
	r.latest(walk.CondRecent).Y = n
	return ""
}

// setRecentMask takes the mask that keeps single addresses apart, which dumps
// spell out.
func setRecentMask(r *ruleParser, v string) string {
	if !rule.WholeAddress(v) {
		return "clients are remembered by whole addresses only"
	}
	return ""
}

// setMatchSet reads "NAME src,dst,...".
func setMatchSet(r *ruleParser, name string) string {
	sides := strings.Split(r.word("--match-set"), ",")
	if r.rs.Around.Sets[name] == nil {
		return "the set is not known"
	}
	if n := r.rs.Around.Sets[name].Dimensions(); n != len(sides) {
		return fmt.Sprintf("the set has %d dimensions", n)
	}
	c := walk.Cond{Kind: walk.CondSet, X: r.rs.NameID(name), Y: uint32(len(sides))}
	for i, side := range sides {
		switch side {
		case "src":
			c.Sub |= 1 << i
		case "dst":
		default:
			return "neither src nor dst"
		}
	}
	r.add(c)
	return ""
}

// setServed makes a condition about the virtual server that served a packet.
func setServed(r *ruleParser, k walk.CondKind, v string) string {
	c := walk.Cond{Kind: k}
	switch k {
	case walk.CondServedPort:
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil {
			return "not a port"
		}
		c.X = uint32(n)
	case walk.CondServedProto:
		n, ok := rule.ProtocolNames[v]
		if !ok {
			if n, ok = rule.ParseNumber(v); !ok {
				return "not a protocol"
			}
		}
		c.X = n // a dump has the number
	case walk.CondServedAddr:
		a, err := netip.ParsePrefix(v)
		if err != nil {
			b, err := netip.ParseAddr(v)
			if err != nil {
				return "not an address"
			}
			a = netip.PrefixFrom(b, b.BitLen())
		}
		if !a.IsSingleIP() {
			return "a range has no model"
		}
		c.X = uint32(len(r.rs.Dests))
		r.rs.Dests = append(r.rs.Dests, netip.AddrPortFrom(a.Addr(), 0))
	}
	r.add(c)
	return ""
}
