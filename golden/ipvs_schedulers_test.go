package golden

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"svcc/compiler"
	"svcc/emit/mode"
	"svcc/golden/lab"
	"svcc/golden/uml"
	"svcc/ir"
)

// threeEndpoints is a Service whose endpoints are all elsewhere.
const threeEndpoints = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo, annotations: {svcc.io/ipvs-scheduler: %s}}
spec: {clusterIP: 10.96.0.10, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: demo, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.2.1]}, {addresses: [10.244.2.2]}, {addresses: [10.244.2.3]}]
`

// schedulers are what ipvsadm(8) promises of each, as far as thirty clients, who
// come twice and never end a connection, can tell: how many of the three endpoints
// have something to do, at least and at most how much each of those has, and
// whether a client goes where it went before.
var schedulers = map[string]struct {
	used, usedMost int
	least, most    int
	sticky         bool
}{
	"rr":    {3, 3, 20, 20, false},
	"wrr":   {3, 3, 20, 20, false},
	"lc":    {3, 3, 15, 25, false},
	"wlc":   {3, 3, 15, 25, false},
	"sed":   {3, 3, 15, 25, false},
	"nq":    {3, 3, 15, 25, false},
	"sh":    {3, 3, 2, 56, true},
	"mh":    {3, 3, 2, 56, false},  // by address and port
	"dh":    {1, 1, 60, 60, true},  // by the one destination
	"lblc":  {1, 3, 1, 60, false},  // by the destination, but for endpoints with more to do than others
	"lblcr": {1, 3, 1, 60, false},  // the same
	"fo":    {1, 1, 60, 60, true},  // the first of the heaviest
	"ovf":   {1, 1, 60, 60, false}, // the first that has room, and each has plenty
}

// TestKernelSchedulers has each scheduler share out connections.
func TestKernelSchedulers(t *testing.T) {
	uml.Test(t, func(t *testing.T) {
		if len(schedulers) != len(ir.Schedulers) {
			t.Errorf("%d of %d schedulers", len(schedulers), len(ir.Schedulers))
		}
		for _, name := range ir.Schedulers {
			t.Run(name, func(t *testing.T) { checkScheduler(t, name) })
		}
	})
}

func checkScheduler(t *testing.T, name string) {
	dir := t.TempDir()
	file := filepath.Join(dir, "in.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, threeEndpoints, name), 0o644); err != nil {
		t.Fatal(err)
	}
	opts := compiler.NewOptions()
	cidr := "10.244.0.0/16"
	opts.Mode, opts.Paths, opts.Flags.ClusterCIDR = mode.IPVS, []string{file}, &cidr
	result, err := compiler.Compile(opts, nil)
	if err != nil || len(result.Units) != 1 {
		t.Fatal(err, result.Diagnostics)
	}
	r := built{result, dir}
	node := netip.MustParseAddr("192.0.2.1")
	l := lab.New(t, lab.Config{Addrs: []netip.Addr{node}, Pods: []netip.Prefix{netip.MustParsePrefix(cidr)}})
	if err := loadVirtual(l, r); err != nil {
		t.Fatal(err)
	}
	var flows []lab.Flow
	client := netip.MustParseAddr("198.51.100.1")
	for i := range 30 {
		for try := range uint16(2) {
			flows = append(flows, lab.Flow{Src: netip.AddrPortFrom(client, 10000+uint16(2*i)+try),
				Dst: netip.MustParseAddrPort("10.96.0.10:80"), Protocol: ir.TCP, In: lab.Outside})
		}
		client = client.Next()
	}
	seen, err := l.Probe(flows)
	if err != nil {
		t.Fatal(err)
	}
	judgeScheduler(t, name, seen)
}

func judgeScheduler(t *testing.T, name string, seen []lab.Seen) {
	want := schedulers[name]
	got := map[netip.AddrPort]int{}
	for i, s := range seen {
		if s.Fate != lab.Sent || s.To.Port() != 8080 {
			t.Fatalf("connection %d: %s", i, s)
		}
		got[s.To]++
		if want.sticky && i%2 == 1 && s.To != seen[i-1].To {
			t.Errorf("a client went to %s and then to %s", seen[i-1].To, s.To)
		}
	}
	if len(got) < want.used || len(got) > want.usedMost {
		t.Errorf("%d endpoints are used, not %d to %d: %v", len(got), want.used, want.usedMost, got)
	}
	for to, n := range got {
		if n < want.least || n > want.most {
			t.Errorf("%s has %d connections, not %d to %d: %v", to, n, want.least, want.most, got)
		}
	}
}
