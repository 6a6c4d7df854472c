package golden

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/cmd/svcc/cli"
	"svcc/compiler"
	"svcc/emit/ipvs"
)

// virtualReferences are clusters for which it is known what kube-proxy writes in
// IPVS mode, and where svcc does better: lines of kube-proxy's that are missing
// (-) and lines that it does not have (+), each with the reason.
var virtualReferences = []struct {
	rules   string
	flags   []string
	differs []string
}{
	{"testdata/kube-proxy/ipvs.txt",
		[]string{"testdata/kube-proxy/cluster", "--node=node-0", "--node-ip=192.168.0.1,fd00:192:168::1", "--cluster-cidr=10.128.0.0/9,fd00:10:128::/48"}, []string{
			// Of svcc's own: what has no local endpoint is dropped.
			"+ create KUBE-6-NO-LOCAL-ENDPOINTS hash:ip,port",
			"+ create KUBE-NO-LOCAL-ENDPOINTS hash:ip,port",
			// An endpoint that is neither ready nor serving, to which nobody is sent.
			"- add KUBE-LOOP-BACK 10.128.0.12,tcp:8080,10.128.0.12",
		}},
	{"testdata/kube-proxy/example/ipvs.txt",
		[]string{"testdata/kube-proxy/example/cluster.yaml", "--node=node-a", "--cluster-cidr=10.244.0.0/16"}, []string{
			// Internal policy Local without a local endpoint: kube-proxy refuses where
			// it should drop (the other modes do).
			"+ add KUBE-NO-LOCAL-ENDPOINTS 10.96.0.50,tcp:80",
			"+ create KUBE-NO-LOCAL-ENDPOINTS hash:ip,port",
			"- vs TCP 10.96.0.50:80 rr flags=0x0",
		}},
}

// TestVirtualReference holds virtual servers, destinations, addresses and sets'
// entries at -O0 to kube-proxy's.
func TestVirtualReference(t *testing.T) {
	for _, ref := range virtualReferences {
		t.Run(ref.rules, func(t *testing.T) {
			opts, err := cli.BuildOptions(append([]string{"--mode=ipvs", "-O0"}, ref.flags...), "")
			if err != nil {
				t.Fatal(err)
			}
			r, err := compiler.Compile(opts, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]bool{}
			for _, u := range r.Units {
				s, err := ipvs.ReadState(u.Family, u.Sections)
				if err != nil {
					t.Fatal(err)
				}
				asKubeProxy(got, s)
			}
			want := readVirtualReference(t, ref.rules)
			if d := cmp.Diff(ref.differs, differing(want, got)); d != "" {
				t.Errorf("what differs from kube-proxy's (-want +got):\n%s", d)
			}
		})
	}
}

// asKubeProxy spells a State as the reference does.
func asKubeProxy(lines map[string]bool, s *ipvs.State) {
	for _, a := range s.Addresses {
		lines["address "+a.String()] = true
	}
	for _, x := range s.Sets {
		lines["create "+x.Name+" "+x.Type] = true
		for _, e := range x.Entries {
			lines["add "+x.Name+" "+e] = true
		}
	}
	for _, v := range s.Servers {
		flags := "0x0"
		if v.Timeout > 0 {
			flags = fmt.Sprintf("0x1 persistent %d", v.Timeout)
		}
		vs := fmt.Sprintf("vs %s %s %s flags=%s", strings.ToUpper(v.Protocol.String()), v.Address, v.Scheduler, flags)
		lines[vs] = true
		for _, d := range v.Destinations {
			lines[fmt.Sprintf("%s -> %s weight %d", vs, d.Address, d.Weight)] = true
		}
	}
}

var (
	addressLine = regexp.MustCompile(`^# kube-ipvs0 addresses IPv[46]: (.*)$`)
	createLine  = regexp.MustCompile(`^(create \S+ \S+) `)
)

// readVirtualReference gives the lines that are compared.
func readVirtualReference(t *testing.T, file string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch m, c := addressLine.FindStringSubmatch(line), createLine.FindStringSubmatch(line); {
		case m != nil:
			for _, a := range strings.Fields(m[1]) {
				out["address "+a] = true
			}
		case c != nil:
			out[c[1]] = true
		case strings.HasPrefix(line, "add ") || strings.HasPrefix(line, "vs "):
			out[line] = true
		}
	}
	if len(out) < 40 {
		t.Fatalf("%s: %d lines", file, len(out))
	}
	return out
}

// differing are the lines that only one side has, sorted.
func differing(want, got map[string]bool) (out []string) {
	for l := range want {
		if !got[l] {
			out = append(out, "- "+l)
		}
	}
	for l := range got {
		if !want[l] {
			out = append(out, "+ "+l)
		}
	}
	slices.Sort(out)
	return out
}
