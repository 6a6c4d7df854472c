package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// methodNames are the kernel's for the ways of forwarding, by their number.
var methodNames = []string{"Masq", "Local", "Tunnel", "Route"}

// readDestinations reads what /proc/net/ip_vs says of destinations; a server
// without any is in the result too. Servers by firewall mark are passed over.
// The file has
//
//	TCP  0A600001:0050 rr persistent 10800 FFFFFFFF
//	  -> 0A800001:1F90      Masq    1      0          0
//
// and in IPv6 addresses in brackets.
func readDestinations(text []byte) (map[spec.Key][]Destination, error) {
	out := map[spec.Key][]Destination{}
	var key spec.Key
	known := false // whether the lines are of a server that counts
	for line := range strings.Lines(string(text)) {
		w := strings.Fields(line)
		if len(w) < 2 || w[0] == "IP" || w[0] == "Prot" || w[1] == "RemoteAddress:Port" {
			continue
		}
		var err error
		if w[0] != "->" {
			if key, known, err = readKey(w); known {
				out[key] = nil
			}
		} else if known {
			var d Destination
			d, err = readDestination(w)
			out[key] = append(out[key], d)
		}
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", strings.TrimSpace(line), err)
		}
	}
	return out, nil
}

func readKey(w []string) (k spec.Key, known bool, err error) {
	if w[0] == "FWM" {
		return k, false, nil
	}
	if k.Protocol, err = ir.ParseProtocol(w[0]); err == nil {
		k.Address, err = readAddress(w[1])
	}
	return k, true, err
}

func readDestination(w []string) (d Destination, err error) {
	if len(w) != 6 {
		return d, fmt.Errorf("not a destination, its method, its weight and its connections")
	}
	if d.Address, err = readAddress(w[1]); err != nil {
		return d, err
	}
	method := slices.Index(methodNames, w[2])
	if method < 0 {
		return d, fmt.Errorf("%s is no way of forwarding", w[2])
	}
	var n [3]int
	for i := range n {
		if n[i], err = strconv.Atoi(w[3+i]); err != nil {
			return d, err
		}
	}
	d.Method, d.Weight, d.Connections = uint32(method), n[0], n[1]+n[2]
	return d, nil
}

// readAddress reads "0A600001:0050" or "[2001:0db8:...]:0050".
func readAddress(text string) (netip.AddrPort, error) {
	cut := strings.LastIndexByte(text, ':')
	if cut < 0 {
		return netip.AddrPort{}, fmt.Errorf("%s is no address and port", text)
	}
	port, err := strconv.ParseUint(text[cut+1:], 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	host := text[:cut]
	if strings.HasPrefix(host, "[") {
		a, err := netip.ParseAddr(strings.Trim(host, "[]"))
		return netip.AddrPortFrom(a, uint16(port)), err
	}
	n, err := strconv.ParseUint(host, 16, 32)
	a := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	return netip.AddrPortFrom(a, uint16(port)), err
}
