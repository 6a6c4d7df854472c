package conformance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	utilipvs "k8s.io/kubernetes/pkg/proxy/ipvs/util"

	"svcc/compiler"
	"svcc/emit/ipvs"
	"svcc/emit/mode"
)

// TestIPVS holds virtual servers, destinations, addresses and the entries of sets
// at -O0 to kube-proxy's. The rules that ask the sets are svcc's own.
func TestIPVS(t *testing.T) {
	eachWorld(t, mode.IPVS, func(t *testing.T, w *world, u compiler.Unit) []difference {
		s, err := ipvs.ReadState(u.Family, u.Sections)
		if err != nil {
			t.Fatal(err)
		}
		want, got := w.virtual(t, u.Family).lines(t), stateLines(s)
		return append(lacking(want, got, "- "), lacking(got, want, "+ ")...)
	})
}

// lines are what kube-proxy's fakes hold.
func (x ipvsFakes) lines(t *testing.T) (out []string) {
	t.Helper()
	bound, err := x.netlink.GetLocalAddresses("kube-ipvs0")
	if err != nil {
		t.Fatal(err)
	}
	for a := range bound {
		out = append(out, "address "+a)
	}
	for name, set := range x.ipset.Sets {
		out = append(out, fmt.Sprintf("create %s %s", name, set.SetType))
		for e := range x.ipset.Entries[name] {
			out = append(out, "add "+name+" "+asListed(e))
		}
	}
	for key, v := range x.ipvs.Services {
		vs := fmt.Sprintf("vs %s %s %s flags=%#x", v.Protocol, v.String()[:strings.LastIndex(v.String(), "/")], v.Scheduler, v.Flags)
		if v.Timeout > 0 {
			vs += fmt.Sprintf(" persistent %d", v.Timeout)
		}
		out = append(out, vs)
		for _, d := range x.ipvs.Destinations[key] {
			out = append(out, fmt.Sprintf("%s -> %s weight %d", vs, d, d.Weight))
		}
	}
	return out
}

// asListed is an entry as ipset lists it: a range of one address is the address.
func asListed(entry string) string {
	all := "/32"
	if strings.Contains(entry[strings.LastIndex(entry, ",")+1:], ":") {
		all = "/128"
	}
	return strings.TrimSuffix(entry, all)
}

// stateLines spells svcc's State in the same way.
func stateLines(s *ipvs.State) (out []string) {
	for _, a := range s.Addresses {
		out = append(out, "address "+a.String())
	}
	for _, x := range s.Sets {
		out = append(out, "create "+x.Name+" "+x.Type)
		for _, e := range x.Entries {
			out = append(out, "add "+x.Name+" "+e)
		}
	}
	for _, v := range s.Servers {
		flags := 0
		if v.Timeout > 0 {
			flags |= int(utilipvs.FlagPersistent)
		}
		if slices.Equal(v.Flags, []string{"mh-port"}) {
			flags |= int(utilipvs.FlagSourceHash)
		} else if len(v.Flags) > 0 {
			flags = -1 // kube-proxy sets no other
		}
		vs := fmt.Sprintf("vs %s %s %s flags=%#x", strings.ToUpper(v.Protocol.String()), v.Address, v.Scheduler, flags)
		if v.Timeout > 0 {
			vs += fmt.Sprintf(" persistent %d", v.Timeout)
		}
		out = append(out, vs)
		for _, d := range v.Destinations {
			out = append(out, fmt.Sprintf("%s -> %s weight %d", vs, d.Address, d.Weight))
		}
	}
	return out
}
