package rule

import (
	"net/netip"
	"strconv"
	"strings"
)

// maxTermOptions bounds how many options a term has.
const maxTermOptions = 8

// term is a match or target in the emitter's vocabulary. To let the emitter
// print another one, add a row: without it each apply takes its rules for
// changed.
type term struct {
	name     string
	protocol bool // loaded by -p NAME; says nothing without options
	acts     bool // does more than ask, so its place among the matches counts
	options  []termOption
}

// termOption is one option of a term.
type termOption struct {
	name, alias string
	as          string // name in the canonical form, if another
	pair        bool   // its value is two words
	// write prints the value; false if it is not understood; nil: the option
	// has none.
	write func(b []byte, v string) ([]byte, bool)
	// standard says that a value need not be said.
	standard func(v string) bool
}

func (o *termOption) said() string {
	if o.as != "" {
		return o.as
	}
	return o.name
}

var portTerms = []termOption{
	{name: "--sport", alias: "--source-port", write: appendPorts},
	{name: "--dport", alias: "--destination-port", write: appendPorts},
}

var matchTerms = []term{
	{name: "tcp", protocol: true, options: portTerms},
	{name: "udp", protocol: true, options: portTerms},
	{name: "statistic", options: []termOption{
		{name: "--mode", write: appendRandom},
		{name: "--probability", alias: "--prob", write: appendProbability},
	}},
	{name: "addrtype", options: []termOption{
		{name: "--src-type", write: appendWord},
		{name: "--dst-type", write: appendWord},
	}},
	{name: "conntrack", options: []termOption{
		{name: "--ctstate", write: appendStates},
		{name: "--ctorigdst", write: appendPrefix},
		{name: "--ctorigdstport", write: appendPorts},
	}},
	{name: "mark", options: []termOption{{name: "--mark", write: appendMark}}},
	{name: "recent", acts: true, options: []termOption{
		{name: "--set"},
		{name: "--rcheck"},
		{name: "--update"},
		{name: "--seconds", write: appendNumber},
		{name: "--reap"},
		{name: "--name", write: appendWord},
		{name: "--mask", write: appendWord, standard: WholeAddress},
		{name: "--rsource", standard: always},
	}},
	{name: "sctp", protocol: true, options: portTerms},
	{name: "state", options: []termOption{{name: "--state", write: appendStates}}},
	{name: "multiport", options: []termOption{
		{name: "--sports", alias: "--source-ports", write: appendWord},
		{name: "--dports", alias: "--destination-ports", write: appendWord},
		{name: "--ports", write: appendWord},
	}},
	{name: "set", options: []termOption{{name: "--match-set", pair: true, write: appendSet}}},
	{name: "ipvs", options: []termOption{
		{name: "--ipvs"},
		{name: "--vproto", write: appendProtocol},
		{name: "--vaddr", write: appendPrefix},
		{name: "--vport", write: appendPorts},
	}},
	{name: "physdev", options: []termOption{{name: "--physdev-is-in"}}},
	{name: "nfacct", acts: true, options: []termOption{{name: "--nfacct-name", write: appendWord}}},
}

// setXmarkName is the one way to say what a MARK does.
const setXmarkName = "--set-xmark"

var targetTerms = []term{
	{name: "DNAT", options: []termOption{
		{name: "--to-destination", alias: "--to", write: appendDestination},
		{name: "--random"},
		{name: "--persistent"},
	}},
	{name: "ACCEPT"},
	{name: "RETURN"},
	{name: "DROP"},
	{name: "REJECT", options: []termOption{{name: "--reject-with", write: appendWord, standard: PortUnreachable}}},
	{name: "MARK", options: []termOption{
		{name: setXmarkName, write: appendXmark(func(v, m uint32) (uint32, uint32) { return v, m })},
		{name: "--set-mark", as: setXmarkName, write: appendXmark(func(v, m uint32) (uint32, uint32) { return v, m | v })},
		{name: "--or-mark", as: setXmarkName, write: appendBits(func(n uint32) (uint32, uint32) { return n, n })},
		{name: "--and-mark", as: setXmarkName, write: appendBits(func(n uint32) (uint32, uint32) { return 0, ^n })},
		{name: "--xor-mark", as: setXmarkName, write: appendBits(func(n uint32) (uint32, uint32) { return n, 0 })},
	}},
	{name: "MASQUERADE", options: []termOption{{name: "--random-fully"}, {name: "--random"}}},
}

func termNamed(terms []term, name string) *term {
	for i := range terms {
		if terms[i].name == name {
			return &terms[i]
		}
	}
	return nil
}

func always(string) bool { return true }

// wholeAddress is the --mask of recent that keeps single addresses apart.
func WholeAddress(v string) bool {
	return v == "255.255.255.255" || v == "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
}

// portUnreachable is the --reject-with that a REJECT has without one.
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
