package ipvs

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"svcc/emit"
	"svcc/ir"
)

// State is what IPVS mode puts into the kernel for one family. Its sections say
// the same; see Sections and ReadState.
type State struct {
	Family    ir.Family
	Sets      []*Set       // in the order of SetNames; as they were read from ReadState
	Glue      []byte       // for iptables-restore
	Addresses []netip.Addr // that Link carries, sorted
	Servers   []*Server    // sorted by Key
}

// Key names a virtual server in the kernel.
type Key struct {
	Protocol ir.Protocol
	Address  netip.AddrPort
}

// Compare orders keys by address, port and protocol.
func (k Key) Compare(l Key) int {
	return cmp.Or(k.Address.Compare(l.Address), cmp.Compare(k.Protocol, l.Protocol))
}

// Entry is the key as an entry of a set of destinations (hash:ip,port):
// "10.96.0.10,tcp:80".
func (k Key) Entry() string { return k.Address.Addr().String() + "," + k.PortEntry() }

// PortEntry is the second part of Entry, "tcp:80".
func (k Key) PortEntry() string {
	return k.Protocol.String() + ":" + strconv.Itoa(int(k.Address.Port()))
}

// EntryKey is what of a set's entry is an Entry: its first two parts, or all of one
// that has no more.
func EntryKey(entry string) string {
	address, rest, _ := strings.Cut(entry, ",")
	port, _, more := strings.Cut(rest, ",")
	if !more {
		return entry
	}
	return address + "," + port
}

// Server is a virtual server.
type Server struct {
	Key
	Scheduler    string        // "rr"
	Flags        []string      // the scheduler's, as ipvsadm -b spells them, sorted
	Timeout      int           // of persistence, in seconds; 0 for none
	Destinations []Destination // sorted by address
}

// Destination is a real server. All of ours are forwarded to by masquerading
// (ipvsadm -m).
type Destination struct {
	Address netip.AddrPort
	Weight  int
}

// Set is an ipset. Entries are in ipset's own spelling, sorted.
type Set struct {
	Name, Type        string
	HashSize, MaxElem int // 0 for a bitmap
	Entries           []string
	// Odd are a set's options as the kernel has them, of one that has others
	// than ours do, or entries with options; "" for all that rulesets have.
	Odd string `json:",omitempty"`
}

// The tools whose syntax the sections are in.
const (
	ToolSets      = emit.ToolSets
	ToolGlue      = emit.ToolTables
	ToolAddresses = emit.ToolAddresses
	ToolServers   = emit.ToolServers
)

// Sections prints a State, in the order in which it is safe to load: what
// masquerades is there before the first address and the first server.
func (s *State) Sections() []emit.Section {
	section := func(tool string, text []byte) emit.Section {
		return emit.Section{Tool: tool, Family: s.Family, Text: text}
	}
	return []emit.Section{
		section(ToolSets, s.setsText()),
		section(ToolGlue, s.Glue),
		section(ToolAddresses, s.addressesText()),
		section(ToolServers, s.serversText()),
	}
}
