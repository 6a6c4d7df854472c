package ir

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Virtual says how a node decides that bears the service addresses itself and
// balances by virtual servers (IPVS mode). Node ports answer at
// NodePorts.Addrs then, and nowhere else.
type Virtual struct {
	Scheduler string // of service ports that name none
	// Own are the addresses of the node's own interfaces, as far as they are
	// known, sorted. The node bears them already.
	Own []netip.Addr
	// HairpinLocal is kube-proxy's gap in this mode: only endpoints of this
	// node are recognised as clients of themselves.
	HairpinLocal bool
	Exclude      []netip.Prefix // of virtual servers that are never taken away, sorted by ComparePrefixes
	StrictARP    bool           // answer ARP for an address on its own interface only
	// Timeouts of the kernel's connections, in seconds; 0 to leave them.
	TCPTimeout, TCPFinTimeout, UDPTimeout int
}

// Schedulers are the kernel's, by the names that ipvsadm takes (ipvsadm(8)).
var Schedulers = []string{"dh", "fo", "lblc", "lblcr", "lc", "mh", "nq", "ovf", "rr", "sed", "sh", "wlc", "wrr"}

// Bears says that the node bears an address only for a service's sake: it is a
// frontend's and none of its own. It is for frontends' addresses.
func (v *Virtual) Bears(a netip.Addr) bool { return !slices.Contains(v.Own, a) }

// VirtualAddrs are the addresses at which a frontend has virtual servers.
func (o *Options) VirtualAddrs(f Frontend) []netip.Addr {
	if f.Kind == NodePort {
		return o.NodePorts.Addrs
	}
	return []netip.Addr{f.Addr}
}

// The words of a Virtual in a Program's text. One item stands in one field.
const (
	virtualWord  = "virtual servers by "
	ownWord      = "own addresses "
	hairpinWord  = "hairpin of local endpoints only"
	excludeWord  = "leave servers in "
	strictWord   = "strict arp"
	timeoutsWord = "timeouts "
)

func (v *Virtual) print(w io.Writer) {
	fmt.Fprintf(w, "  %s%s", virtualWord, v.Scheduler)
	if len(v.Own) > 0 {
		fmt.Fprintf(w, "  %s%s", ownWord, join(v.Own))
	}
	if v.HairpinLocal {
		fmt.Fprintf(w, "  %s", hairpinWord)
	}
	if len(v.Exclude) > 0 {
		fmt.Fprintf(w, "  %s%s", excludeWord, join(v.Exclude))
	}
	if v.StrictARP {
		fmt.Fprintf(w, "  %s", strictWord)
	}
	if v.TCPTimeout+v.TCPFinTimeout+v.UDPTimeout > 0 {
		fmt.Fprintf(w, "  %s%d %d %d", timeoutsWord, v.TCPTimeout, v.TCPFinTimeout, v.UDPTimeout)
	}
}

// read takes one field; false if it is none of a Virtual's.
func (v *Virtual) read(field string) (known bool, err error) {
	word := func(w string) (string, bool) { return strings.CutPrefix(field, w) }
	if rest, ok := word(ownWord); ok {
		v.Own, err = readList(rest, netip.ParseAddr)
		return true, err
	}
	if rest, ok := word(excludeWord); ok {
		v.Exclude, err = readList(rest, netip.ParsePrefix)
		return true, err
	}
	if rest, ok := word(timeoutsWord); ok {
		return true, v.readTimeouts(rest)
	}
	switch field {
	case hairpinWord:
		v.HairpinLocal = true
	case strictWord:
		v.StrictARP = true
	default:
		return false, nil
	}
	return true, nil
}

func readList[T any](text string, parse func(string) (T, error)) (out []T, err error) {
	for s := range strings.SplitSeq(text, " ") {
		x, err := parse(s)
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

func (v *Virtual) readTimeouts(text string) error {
	n, err := readList(text, func(s string) (int, error) { return readNumber(s, 1<<31-1) })
	if err != nil || len(n) != 3 {
		return fmt.Errorf("timeouts %q are not three numbers of seconds", clip(text))
	}
	v.TCPTimeout, v.TCPFinTimeout, v.UDPTimeout = n[0], n[1], n[2]
	return nil
}

func (v *Virtual) check(f Family, o *Options) error {
	foreign := func(a netip.Addr) bool { return !f.Of(a) }
	switch {
	case !slices.Contains(Schedulers, v.Scheduler):
		return fmt.Errorf("scheduler %s does not exist", strconv.Quote(v.Scheduler))
	case slices.ContainsFunc(v.Own, foreign), slices.ContainsFunc(v.Exclude, func(p netip.Prefix) bool { return foreign(p.Addr()) }):
		return fmt.Errorf("addresses of virtual servers that are not %s", f)
	case !slices.IsSortedFunc(v.Own, netip.Addr.Compare):
		return errors.New("the node's own addresses are out of order")
	case !slices.IsSortedFunc(v.Exclude, ComparePrefixes):
		return errors.New("ranges of virtual servers to leave are out of order")
	case o.NodePorts.All || len(o.NodePorts.Prefixes) > 0 || o.LocalhostNodePorts:
		return errors.New("node ports of virtual servers that are not at single addresses")
	case v.TCPTimeout < 0 || v.TCPFinTimeout < 0 || v.UDPTimeout < 0:
		return errors.New("a timeout of virtual servers is negative")
	}
	return nil
}
