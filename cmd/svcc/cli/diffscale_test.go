package cli

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/compiler/diff"
	"svcc/golden/cluster"
)

// Two clusters of 2000 services that differ in one endpoint: that one change is told.
func TestDiffAtScale(t *testing.T) {
	dir := t.TempDir()
	old, new := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	service := twoClusters(t, old, new)
	flags := []string{"--node", "node-0", "--cluster-cidr", cluster.PodCIDR, "-q"}
	var out, stderr strings.Builder
	if code := Run(append([]string{"diff", old, new, "--format", "json"}, flags...), nil, &out, &stderr); code != exitFindings {
		t.Fatal(code, stderr.String())
	}
	var r diff.Report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Changes) != 1 || !strings.HasPrefix(r.Changes[0].Service, service) || len(r.Changes[0].Reasons) != 2 || len(r.Changes[0].Flows) == 0 {
		t.Errorf("not the one change of %s: %s", service, out.String())
	}
}

// twoClusters writes a cluster twice, with another address of one endpoint the
// second time, and names its service.
func twoClusters(t *testing.T, old, new string) string {
	t.Helper()
	c := cluster.Generate(cluster.Options{Services: 2000, EndpointsPerService: 5, Seed: 1})
	if err := c.WriteJSON(old); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(c.Slices, func(s *discoveryv1.EndpointSlice) bool {
		return len(s.Endpoints) > 1 && len(s.Ports) == 1 && *s.Ports[0].Name != ""
	})
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
