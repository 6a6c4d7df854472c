package ipvs

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"svcc/ir"
)

// inet is a family as ipset names it.
func inet(f ir.Family) string {
	if f == ir.IPv6 {
		return "inet6"
	}
	return "inet"
}

// Create is the command that makes a set: "create NAME TYPE ...", without the
// line's end.
func (s *Set) Create(f ir.Family) string { return s.create(s.Name, f) }

// CreateTemporary is Create under the temporary name.
func (s *Set) CreateTemporary(f ir.Family) string { return s.create(Temporary(s.Name), f) }

func (s *Set) create(name string, f ir.Family) string {
	return fmt.Sprintf("create %s %s %s", name, s.Type, cmp.Or(s.Odd, s.options(f)))
}

// allPorts is the range of bitmaps.
const allPorts = "range 0-65535"

func (s *Set) options(f ir.Family) string {
	if s.Type == TypePort {
		return allPorts
	}
	return fmt.Sprintf("family %s hashsize %d maxelem %d", inet(f), s.HashSize, s.MaxElem)
}

// setsText fills each set anew. Whoever loads it by hand sees the sets short of
// entries for a moment; apply swaps them in instead.
func (s *State) setsText() []byte {
	var b []byte
	for _, x := range s.Sets {
		b = fmt.Appendf(b, "%s -exist\nflush %s\n", x.Create(s.Family), x.Name)
	}
	for _, x := range s.Sets {
		for _, e := range x.Entries {
			b = append(append(append(append(append(b, "add "...), x.Name...), ' '), e...), '\n')
		}
	}
	return b
}

// addressesText is for "ip -force -batch": the link may exist.
func (s *State) addressesText() []byte {
	b := []byte(linkLine + "\n")
	for _, a := range s.Addresses {
		b = append(append(b, AddressLine(a)...), '\n')
	}
	return b
}

// AddressLine is the command of ip -batch that puts an address on Link. An IPv6
// address is used at once, without asking who else has it; IPv4 knows no such
// question.
func AddressLine(a netip.Addr) string {
	line := fmt.Sprintf("address replace %s dev %s", netip.PrefixFrom(a, a.BitLen()), Link)
	if a.Is6() {
		line += " nodad"
	}
	return line
}

// serversText is as "ipvsadm -Sn" prints it, in the order of keys.
func (s *State) serversText() []byte {
	var b []byte
	for _, v := range s.Servers {
		for _, line := range v.Lines(s.Family) {
			b = append(append(b, line...), '\n')
		}
	}
	return b
}

// Lines are a virtual server and its destinations as "ipvsadm -Sn" prints them.
func (v *Server) Lines(f ir.Family) []string {
	mask := ""
	if f == ir.IPv6 {
		mask = "128"
	}
	out := []string{"-A " + v.Text(mask)}
	for _, d := range v.Destinations {
		out = append(out, "-a "+d.Text(v.Key, "-m"))
	}
	return out
}

// Text is a virtual server without its destinations as ipvsadm takes it, after
// the command. The mask, in ipvsadm's words, tells which clients persistence takes
// for one; "" is for what ipvsadm takes if nothing is said.
func (v *Server) Text(mask string) string {
	out := fmt.Sprintf("%s -s %s", v.Key, v.Scheduler)
	if v.Timeout > 0 {
		out += fmt.Sprintf(" -p %d", v.Timeout)
		if mask != "" {
			out += " -M " + mask
		}
	}
	if len(v.Flags) > 0 {
		out += " -b " + strings.Join(v.Flags, ",")
	}
	return out
}

// Text is a destination of a virtual server as ipvsadm takes it, after the
// command. The method is ipvsadm's option for a way of forwarding.
func (d Destination) Text(of Key, method string) string {
	return fmt.Sprintf("%s -r %s %s -w %d", of, d.Address, method, d.Weight)
}

// options are ipvsadm's for each protocol.
var options = map[ir.Protocol]string{ir.TCP: "-t", ir.UDP: "-u", ir.SCTP: "--sctp-service"}

// String gives a key as ipvsadm -S prints it: "-t 10.96.0.10:80".
func (k Key) String() string { return options[k.Protocol] + " " + k.Address.String() }
