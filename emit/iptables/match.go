package iptables

import (
	"strings"

	"svcc/ir"
	"svcc/ir/eval"
)

// condKind is a kind of condition. To model another match, add a kind, a row
// in modules and a case in walk.holds.
type condKind uint8

const (
	condNone        condKind = iota
	condSrc                  // x: address, y: mask; holes are allowed
	condDst                  // the same
	condSrc6                 // x: index in ruleset.wide
	condDst6                 // the same
	condProto                // x: protocol number
	condIn                   // x: name in ruleset.names, y: 1 if it is a prefix
	condSport                // x to y
	condDport                // x to y
	condPorts                // x: first of y entries in ruleset.ranges, sub: sides
	condState                // x: set of state bits
	condMark                 // x: value, y: mask
	condSrcLocal             // an address of the node
	condDstLocal             // the same
	condRecent               // x: list in ruleset.names, y: seconds, sub: mode
	condStatistic            // x: index in ruleset.shares, plus 1
	condOrigDst              // as condDst, of the packet before DNAT
	condOrigDst6             // as condDst6
	condOrigPort             // x to y
	condSet                  // x: name in ruleset.names, y: dimensions, sub: which are the source
	condServed               // by a virtual server
	condServedAddr           // x: index in ruleset.dests
	condServedPort           // x: port
	condServedProto          // x: protocol number
	condNever                // what no packet of ours does
)

// condition is one thing that must hold for a rule to match.
type condition struct {
	kind condKind
	not  bool
	sub  uint16
	x, y uint32
}

// wideMask is an IPv6 address and mask.
type wideMask struct{ addr, mask ip }

// portRange is one entry of -m multiport.
type portRange struct{ lo, hi uint16 }

// The sides of condPorts.
const (
	sideSrc = 1 << iota
	sideDst
)

// The modes of condRecent: --seconds 0 means that any age will do.
const (
	recentNone = iota
	recentSet
	recentCheck
	recentUpdate
)

// The bits of condState. Two are not states but what nat has done.
const (
	stateInvalid = 1 << iota
	stateNew
	stateEstablished
	stateRelated
	stateUntracked
	stateSNAT
	stateDNAT
)

// stateBits translate a packet's state.
var stateBits = [...]uint32{
	eval.New: stateNew, eval.Established: stateEstablished,
	eval.Related: stateRelated, eval.Invalid: stateInvalid,
	eval.Expected: stateRelated, eval.Untracked: stateUntracked,
}

// module is what -m loads.
type module struct {
	name    string
	proto   uint32   // -p that it needs; 0 for any
	first   condKind // condition that its options fill in; condNone if each makes its own
	around  bool     // has a model only where it is known what is around the rules
	options []option
}

// option is one option of a module or target. set tells what is wrong, "" if
// nothing.
type option struct {
	name  string
	value bool // takes one
	not   bool // ! may stand before it
	set   func(r *ruleParser, value string) string
}

// modules are the matches with a model.
var modules = []module{
	{name: "comment", options: []option{{"--comment", true, false, ignore}}},
	{name: "tcp", proto: 6, options: portOptions},
	{name: "udp", proto: 17, options: portOptions},
	{name: "sctp", proto: 132, options: portOptions},
	{name: "conntrack", options: []option{
		{"--ctstate", true, true, setState},
		{"--ctorigdst", true, true, setOrigDst},
		{"--ctorigdstport", true, true, func(r *ruleParser, v string) string { return setPort(r, condOrigPort, v) }},
	}},
	{name: "state", options: []option{{"--state", true, true, setState}}},
	{name: "mark", options: []option{{"--mark", true, true, setMarkMatch}}},
	{name: "addrtype", options: []option{
		{"--src-type", true, true, func(r *ruleParser, v string) string { return setType(r, condSrcLocal, v) }},
		{"--dst-type", true, true, func(r *ruleParser, v string) string { return setType(r, condDstLocal, v) }},
	}},
	{name: "statistic", first: condStatistic, options: []option{
		{"--mode", true, false, setMode},
		{"--probability", true, true, setProbability},
		{"--prob", true, true, setProbability},
	}},
	{name: "recent", first: condRecent, options: []option{
		{"--name", true, false, setList},
		{"--rcheck", false, true, func(r *ruleParser, _ string) string { return setRecent(r, recentCheck) }},
		{"--update", false, true, func(r *ruleParser, _ string) string { return setRecent(r, recentUpdate) }},
		{"--set", false, true, func(r *ruleParser, _ string) string { return setRecent(r, recentSet) }},
		{"--seconds", true, false, setSeconds},
		{"--reap", false, false, ignore},
		{"--rsource", false, false, ignore},
		{"--mask", true, false, setRecentMask},
	}},
	{name: "multiport", options: []option{
		{"--dports", true, true, func(r *ruleParser, v string) string { return setPorts(r, sideDst, v) }},
		{"--destination-ports", true, true, func(r *ruleParser, v string) string { return setPorts(r, sideDst, v) }},
		{"--sports", true, true, func(r *ruleParser, v string) string { return setPorts(r, sideSrc, v) }},
		{"--source-ports", true, true, func(r *ruleParser, v string) string { return setPorts(r, sideSrc, v) }},
		{"--ports", true, true, func(r *ruleParser, v string) string { return setPorts(r, sideSrc|sideDst, v) }},
	}},
	{name: "set", around: true, options: []option{{"--match-set", true, true, setMatchSet}}},
	{name: "ipvs", around: true, options: []option{
		{"--ipvs", false, true, func(r *ruleParser, v string) string { return setServed(r, condServed, v) }},
		{"--vaddr", true, true, func(r *ruleParser, v string) string { return setServed(r, condServedAddr, v) }},
		{"--vport", true, true, func(r *ruleParser, v string) string { return setServed(r, condServedPort, v) }},
		{"--vproto", true, true, func(r *ruleParser, v string) string { return setServed(r, condServedProto, v) }},
	}},
	// Bridges are not modelled: no packet comes in by a port of one.
	{name: "physdev", options: []option{{"--physdev-is-in", false, true, func(r *ruleParser, _ string) string {
		r.add(condition{kind: condNever})
		return ""
	}}}},
	// A counter always matches.
	{name: "nfacct", options: []option{{"--nfacct-name", true, false, ignore}}},
}

var portOptions = []option{
	{"--dport", true, true, func(r *ruleParser, v string) string { return setPort(r, condDport, v) }},
	{"--sport", true, true, func(r *ruleParser, v string) string { return setPort(r, condSport, v) }},
	{"--destination-port", true, true, func(r *ruleParser, v string) string { return setPort(r, condDport, v) }},
	{"--source-port", true, true, func(r *ruleParser, v string) string { return setPort(r, condSport, v) }},
}

func moduleNamed(name string) *module {
	for i := range modules {
		if modules[i].name == name {
			return &modules[i]
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
func incomplete(c *condition) string {
	switch {
	case c.kind == condRecent && (c.sub == recentNone || c.x == 0):
		return "match recent needs --name and one of --set, --rcheck, --update"
	case c.kind == condStatistic && (c.x == 0 || c.sub == 0):
		return "match statistic needs --mode random and --probability"
	}
	return ""
}

func ignore(*ruleParser, string) string { return "" }

func setPort(r *ruleParser, k condKind, v string) string {
	lo, hi, ok := parsePorts(v)
	if !ok {
		return "not a port or range of ports"
	}
	r.add(condition{kind: k, x: uint32(lo), y: uint32(hi)})
	return ""
}

func setPorts(r *ruleParser, sides uint16, v string) string {
	c := condition{kind: condPorts, sub: sides, x: uint32(len(r.rs.ranges))}
	for s := range strings.SplitSeq(v, ",") {
		lo, hi, ok := parsePorts(s)
		if !ok {
			return "not a list of ports"
		}
		r.rs.ranges = append(r.rs.ranges, portRange{lo, hi})
		c.y++
	}
	r.add(c)
	return ""
}

// stateNames are the words of --ctstate.
var stateNames = map[string]uint32{
	"INVALID": stateInvalid, "NEW": stateNew, "ESTABLISHED": stateEstablished, "RELATED": stateRelated,
	"UNTRACKED": stateUntracked, "SNAT": stateSNAT, "DNAT": stateDNAT,
}

func setState(r *ruleParser, v string) string {
	c := condition{kind: condState}
	for s := range strings.SplitSeq(v, ",") {
		bit := stateNames[s]
		if bit == 0 {
			return "not a list of states"
		}
		c.x |= bit
	}
	r.add(c)
	return ""
}

func setOrigDst(r *ruleParser, v string) string {
	addr, mask, ok := r.rs.parseMaskedAddr(v)
	if !ok {
		return "not an address of the family"
	}
	c := condition{kind: condOrigDst, x: uint32(addr.lo), y: uint32(mask.lo)}
	if r.rs.family == ir.IPv6 {
		c = condition{kind: condOrigDst6, x: uint32(len(r.rs.wide))}
		r.rs.wide = append(r.rs.wide, wideMask{addr, mask})
	}
	r.add(c)
	return ""
}

func setMarkMatch(r *ruleParser, v string) string {
	value, mask, ok := parseMasked(v)
	if !ok {
		return "not a mark"
	}
	r.add(condition{kind: condMark, x: value, y: mask})
	return ""
}

func setType(r *ruleParser, k condKind, v string) string {
	if v != "LOCAL" {
		return "no model but for LOCAL"
	}
	r.add(condition{kind: k})
	return ""
}

func setMode(r *ruleParser, v string) string {
	if v != "random" {
		return "no model but for random"
	}
	r.latest(condStatistic).sub = 1
	return ""
}

func setProbability(r *ruleParser, v string) string {
	p, ok := parseProbability(v)
	if !ok {
		return "not a probability"
	}
	c := r.latest(condStatistic)
	if r.not {
		p = p.Rest()
	}
	r.rs.shares = append(r.rs.shares, p)
	c.x = uint32(len(r.rs.shares))
	return ""
}

func setList(r *ruleParser, v string) string {
	if v == "" {
		return "no name"
	}
	r.latest(condRecent).x = r.rs.nameID(v)
	return ""
}

func setRecent(r *ruleParser, mode uint16) string {
	c := r.latest(condRecent)
	if c.sub != recentNone {
		return "a second mode"
	}
	c.sub, c.not = mode, r.not
	return ""
}

func setSeconds(r *ruleParser, v string) string {
	n, ok := parseNumber(v)
	if !ok || n == 0 || n > 1<<31-1 {
		return "not a number of seconds"
	}
	r.latest(condRecent).y = n
	return ""
}

// setRecentMask takes the mask that keeps single addresses apart, which dumps
// spell out.
func setRecentMask(r *ruleParser, v string) string {
	if !wholeAddress(v) {
		return "clients are remembered by whole addresses only"
	}
	return ""
}

// nameID numbers a name, from 1.
func (rs *ruleset) nameID(s string) uint32 {
	if len(rs.names) == 0 {
		rs.names = append(rs.names, "")
	}
	id, ok := rs.nameIDs[s]
	if !ok {
		id = uint32(len(rs.names))
		rs.names = append(rs.names, s)
		rs.nameIDs[s] = id
	}
	return id
}
