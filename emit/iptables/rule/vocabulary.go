package rule

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// maxTermOptions bounds how many options a term has.
const maxTermOptions = 8

// Term is a match or target in the vocabulary, as its manual has it
// (iptables-extensions(8)). To let the emitter print another one, add a row: without
// it each apply takes its rules for changed. What it means to a packet is said where
// rules are read (package iptables).
type Term struct {
	Name     string
	protocol bool // loaded by -p NAME; says nothing without options
	acts     bool // does more than ask, so its place among the matches counts
	Options  []Option
}

// Option is one option of a term.
type Option struct {
	Name, alias string
	as          string // name in the canonical form, if another
	pair        bool   // its value is two words
	// write prints the value; false if it is not understood; nil: the option
	// has none.
	write func(b []byte, v string) ([]byte, bool)
	// standard says that a value need not be said.
	standard func(v string) bool
}

// MatchTerm is the match of a name; nil for one that is not in the vocabulary.
func MatchTerm(name string) *Term { return termNamed(matchTerms, name) }

// TargetTerm is the target of a name; nil for one that is not in the vocabulary.
func TargetTerm(name string) *Term { return termNamed(targetTerms, name) }

// Option finds one by a name that it goes by; -1 for none.
func (t *Term) Option(name string) int {
	return slices.IndexFunc(t.Options, func(o Option) bool { return o.Name == name || o.alias != "" && o.alias == name })
}

// Takes says that a value follows the option.
func (o *Option) Takes() bool { return o.write != nil }

func (o *Option) said() string {
	if o.as != "" {
		return o.as
	}
	return o.Name
}

var portTerms = []Option{
	{Name: "--sport", alias: "--source-port", write: appendPorts},
	{Name: "--dport", alias: "--destination-port", write: appendPorts},
}

var matchTerms = []Term{
	{Name: "comment", Options: []Option{{Name: "--comment", write: appendWord}}}, // in the canonical form it stands before all others
	{Name: "tcp", protocol: true, Options: portTerms},
	{Name: "udp", protocol: true, Options: portTerms},
	{Name: "statistic", Options: []Option{
		{Name: "--mode", write: appendRandom},
		{Name: "--probability", alias: "--prob", write: appendProbability},
	}},
	{Name: "addrtype", Options: []Option{
		{Name: "--src-type", write: appendWord},
		{Name: "--dst-type", write: appendWord},
	}},
	{Name: "conntrack", Options: []Option{
		{Name: "--ctstate", write: appendStates},
		{Name: "--ctorigdst", write: appendPrefix},
		{Name: "--ctorigdstport", write: appendPorts},
	}},
	{Name: "mark", Options: []Option{{Name: "--mark", write: appendMark}}},
	{Name: "recent", acts: true, Options: []Option{
		{Name: "--set"},
		{Name: "--rcheck"},
		{Name: "--update"},
		{Name: "--seconds", write: appendNumber},
		{Name: "--reap"},
		{Name: "--name", write: appendWord},
		{Name: "--mask", write: appendWord, standard: WholeAddress},
		{Name: "--rsource", standard: always},
	}},
	{Name: "sctp", protocol: true, Options: portTerms},
	{Name: "state", Options: []Option{{Name: "--state", write: appendStates}}},
	{Name: "multiport", Options: []Option{
		{Name: "--sports", alias: "--source-ports", write: appendWord},
		{Name: "--dports", alias: "--destination-ports", write: appendWord},
		{Name: "--ports", write: appendWord},
	}},
	{Name: "set", Options: []Option{{Name: "--match-set", pair: true, write: appendSet}}},
	{Name: "ipvs", Options: []Option{
		{Name: "--ipvs"},
		{Name: "--vproto", write: appendProtocol},
		{Name: "--vaddr", write: appendPrefix},
		{Name: "--vport", write: appendPorts},
	}},
	{Name: "physdev", Options: []Option{{Name: "--physdev-is-in"}}},
	{Name: "nfacct", acts: true, Options: []Option{{Name: "--nfacct-name", write: appendWord}}},
}

// setXmarkName is the one way to say what a MARK does.
const setXmarkName = "--set-xmark"

var targetTerms = []Term{
	{Name: "DNAT", Options: []Option{
		{Name: "--to-destination", alias: "--to", write: appendDestination},
		{Name: "--random"},
		{Name: "--persistent"},
	}},
	{Name: "ACCEPT"},
	{Name: "RETURN"},
	{Name: "DROP"},
	{Name: "REJECT", Options: []Option{{Name: "--reject-with", write: appendWord, standard: PortUnreachable}}},
	{Name: "MARK", Options: []Option{
		{Name: setXmarkName, write: appendXmark(func(v, m uint32) (uint32, uint32) { return v, m })},
		{Name: "--set-mark", as: setXmarkName, write: appendXmark(func(v, m uint32) (uint32, uint32) { return v, m | v })},
		{Name: "--or-mark", as: setXmarkName, write: appendBits(func(n uint32) (uint32, uint32) { return n, n })},
		{Name: "--and-mark", as: setXmarkName, write: appendBits(func(n uint32) (uint32, uint32) { return 0, ^n })},
		{Name: "--xor-mark", as: setXmarkName, write: appendBits(func(n uint32) (uint32, uint32) { return n, 0 })},
	}},
	{Name: "MASQUERADE", Options: []Option{{Name: "--random-fully"}, {Name: "--random"}}},
}

func termNamed(terms []Term, name string) *Term {
	for i := range terms {
		if terms[i].Name == name {
			return &terms[i]
		}
	}
	return nil
}

func always(string) bool { return true }

// WholeAddress is the --mask of recent that keeps single addresses apart.
func WholeAddress(v string) bool {
	return v == "255.255.255.255" || v == "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
}

// PortUnreachable is the --reject-with that a REJECT has without one.
func PortUnreachable(v string) bool {
	return v == "icmp-port-unreachable" || v == "icmp6-port-unreachable" || v == "port-unreach"
}

func appendWord(b []byte, v string) ([]byte, bool) {
	return append(b, v...), v != "" && !strings.ContainsAny(v, " \t\"\\")
}

// appendSet takes a set's name, and which parts of a packet are looked up.
func appendSet(b []byte, v string) ([]byte, bool) {
	name, parts, _ := strings.Cut(v, " ")
	b, ok := appendWord(b, name)
	b, partsOK := appendWord(append(b, ' '), parts)
	return b, ok && partsOK
}

func appendNumber(b []byte, v string) ([]byte, bool) {
	n, ok := ParseNumber(v)
	return strconv.AppendUint(b, uint64(n), 10), ok
}

func appendPorts(b []byte, v string) ([]byte, bool) {
	lo, hi, ok := ParsePorts(v)
	b = strconv.AppendUint(b, uint64(lo), 10)
	if lo != hi {
		b = strconv.AppendUint(append(b, ':'), uint64(hi), 10)
	}
	return b, ok
}

// appendPrefix takes an address with or without the length of its prefix.
func appendPrefix(b []byte, v string) ([]byte, bool) {
	if a, err := netip.ParseAddr(v); err == nil {
		return netip.PrefixFrom(a, a.BitLen()).AppendTo(b), true
	}
	p, err := netip.ParsePrefix(v)
	return p.AppendTo(b), err == nil
}

// appendRandom takes the one mode that only asks.
func appendRandom(b []byte, v string) ([]byte, bool) { return append(b, v...), v == "random" }

// appendProbability rounds as the kernel keeps it, in units of 2^-31, and
// prints as many digits as tell two such values apart.
func appendProbability(b []byte, v string) ([]byte, bool) {
	p, err := strconv.ParseFloat(v, 64)
	if err != nil || !(p >= 0 && p <= 1) {
		return b, false
	}
	units := int64(p*(1<<31) + 0.5)
	return strconv.AppendFloat(b, float64(units)/(1<<31), 'f', 11, 64), true
}

// stateOrder is how states are listed.
var stateOrder = []string{"INVALID", "NEW", "RELATED", "ESTABLISHED", "UNTRACKED", "SNAT", "DNAT"}

func appendStates(b []byte, v string) ([]byte, bool) {
	set := uint32(0)
	for s := range strings.SplitSeq(v, ",") {
		bit := StateNames[s]
		if bit == 0 {
			return b, false
		}
		set |= bit
	}
	for _, s := range stateOrder {
		if set&StateNames[s] != 0 {
			b = append(append(b, s...), ',')
		}
	}
	return b[:len(b)-1], true
}

func appendMark(b []byte, v string) ([]byte, bool) {
	value, mask, ok := ParseMasked(v)
	return appendMasked(b, value, mask), ok
}

func appendMasked(b []byte, value, mask uint32) []byte {
	b = strconv.AppendUint(append(b, "0x"...), uint64(value), 16)
	return strconv.AppendUint(append(b, "/0x"...), uint64(mask), 16)
}

func appendXmark(f func(value, mask uint32) (uint32, uint32)) func([]byte, string) ([]byte, bool) {
	return func(b []byte, v string) ([]byte, bool) {
		value, mask, ok := ParseMasked(v)
		value, mask = f(value, mask)
		return appendMasked(b, value, mask), ok
	}
}

func appendBits(f func(uint32) (value, mask uint32)) func([]byte, string) ([]byte, bool) {
	return func(b []byte, v string) ([]byte, bool) {
		n, ok := ParseNumber(v)
		value, mask := f(n)
		return appendMasked(b, value, mask), ok
	}
}

// appendDestination takes one address, with or without a port.
func appendDestination(b []byte, v string) ([]byte, bool) {
	if to, err := netip.ParseAddrPort(v); err == nil {
		return to.AppendTo(b), true
	}
	a, err := netip.ParseAddr(v)
	return a.AppendTo(b), err == nil
}

// foreignTargets are extensions without a model: no chain can have their name,
// and a rule of somebody else's that uses one is opaque.
var ForeignTargets = map[string]bool{
	"AUDIT": true, "CHECKSUM": true, "CLASSIFY": true, "CLUSTERIP": true, "CONNMARK": true, "CONNSECMARK": true,
	"CT": true, "DNPT": true, "DSCP": true, "ECN": true, "HL": true, "HMARK": true, "IDLETIMER": true, "LED": true,
	"LOG": true, "NETMAP": true, "NFLOG": true, "NFQUEUE": true, "NOTRACK": true, "QUEUE": true, "RATEEST": true,
	"REDIRECT": true, "SECMARK": true, "SET": true, "SNAT": true, "SNPT": true, "SYNPROXY": true, "TCPMSS": true,
	"TCPOPTSTRIP": true, "TEE": true, "TOS": true, "TPROXY": true, "TRACE": true, "TTL": true, "ULOG": true,
}
