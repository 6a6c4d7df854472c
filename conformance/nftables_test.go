package conformance

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	proxynftables "k8s.io/kubernetes/pkg/proxy/nftables"
	"sigs.k8s.io/knftables"

	"svcc/ir"
)

// TestNFTables holds that kube-proxy's third proxier runs here with its fake, so
// that it can judge svcc's nftables mode. There is none yet to be judged.
func TestNFTables(t *testing.T) {
	if _, err := exec.LookPath("nft"); err != nil || os.Geteuid() != 0 {
		skipped = append(skipped, "; TestNFTables skipped: it needs nft and root")
		t.Skip("the proxier's constructor asks the program nft what it can do, as root")
	}
	for _, f := range ir.Families {
		text := newWorld(fixedSeed, 0).nftables(t, f)
		for _, want := range []string{"add chain " + nftFamily(f) + " kube-proxy services", "add map " + nftFamily(f) + " kube-proxy service-ips", " dnat "} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: kube-proxy's table lacks %q:\n%s", f, want, text)
			}
		}
	}
}

func nftFamily(f ir.Family) string { return []string{"ip", "ip6"}[row(f)] }

// nftables is what kube-proxy writes in nftables mode. Its constructor asks nft;
// it does so in a network namespace without anything in it, in which the thread
// ends.
func (w *world) nftables(t *testing.T, f ir.Family) string {
	t.Helper()
	fake := knftables.NewFake(map[ir.Family]knftables.Family{ir.IPv4: knftables.IPv4Family, ir.IPv6: knftables.IPv6Family}[f], "kube-proxy")
	type made struct {
		p   *proxynftables.Proxier
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- made{nil, err}
			return
		}
		p, err := proxynftables.NewProxier(context.Background(), w.config(), family(f), w.detector(f), thisNode, net.ParseIP(nodeIPs[row(f)]), nil, nil, false)
		done <- made{p, err}
	}()
	m := <-done
	if m.err != nil {
		t.Fatal(m.err)
	}
	w.isolate(t, m.p)
	replace(t, m.p, "nftables", fake)
	w.feed(m.p)
	return fake.Dump()
}
