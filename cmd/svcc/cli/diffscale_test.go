package cli

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/diff"
	"svcc/golden/cluster"
)

// Two clusters of 10000 services that differ in one endpoint: that one change is
// told, in less than three times the processor time of one build.
func TestDiffAtScale(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute of processor time")
	}
	dir := t.TempDir()
	old, new := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	service := twoClusters(t, old, new)
	flags := []string{"--node", "node-0", "--cluster-cidr", cluster.PodCIDR, "-q"}
	var out, stderr strings.Builder
	build := spent(func() {
		if code := Run(append([]string{"build", old, "-o", filepath.Join(dir, "rules")}, flags...), nil, &out, &stderr); code != exitDone {
			t.Fatal(code, stderr.String())
		}
	})
	compared := spent(func() {
		if code := Run(append([]string{"diff", old, new, "--format", "json"}, flags...), nil, &out, &stderr); code != exitFindings {
			t.Fatal(code, stderr.String())
		}
	})
	var r diff.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Changes) != 1 || !strings.HasPrefix(r.Changes[0].Service, service) || len(r.Changes[0].Reasons) != 2 || len(r.Changes[0].Flows) == 0 {
		t.Errorf("not the one change of %s: %s", service, out.String())
	}
	t.Logf("build %s, diff %s of processor time", build, compared)
	if compared >= 3*build {
		t.Errorf("diff took %s of processor time, a build %s", compared, build)
	}
}

// twoClusters writes a cluster twice, with another address of one endpoint the
// second time, and names its service.
func twoClusters(t *testing.T, old, new string) string {
	t.Helper()
	c := cluster.Generate(cluster.Options{Services: 10000, EndpointsPerService: 5, Seed: 1})
	if err := c.WriteJSON(old); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Slices, func(s *discoveryv1.EndpointSlice) bool { return len(s.Endpoints) > 1 })
	slice := c.Slices[i]
	address := netip.MustParseAddr(slice.Endpoints[0].Addresses[0])
	for range 200 {
		address = address.Next()
	}
	slice.Endpoints[0].Addresses[0] = address.String()
	if err := c.WriteJSON(new); err != nil {
		t.Fatal(err)
	}
	return slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName] + ":"
}

// spent is the processor time that f took.
func spent(f func()) time.Duration {
	used := func() time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
			return 0
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	f()
	return used() - before
}
