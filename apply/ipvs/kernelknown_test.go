package ipvs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	"svcc/golden/lab"
)

// What people do to sets, rules and the link, beside servers which stay.
const (
	flushSets   = "ipset flush"
	destroySets = "for f in iptables ip6tables; do for t in filter nat; do $f -t $t -F; $f -t $t -X; done; done; sleep 0.2; ipset destroy" // the kernel frees what rules held after a while
	deleteLink  = "ip link delete kube-ipvs0"
)

// Servers are known for ours whatever else is lost: status says that something
// is, apply mends it, and remove leaves only what is foreign. Each loss is followed by
// one of the two, or by both if all is asked for.
func testLostProof(t *testing.T) {
	tool(t, foreignServers, "ipvsadm", "-R")
	before := dumpAll(t)
	m := newMachine()
	e := m.engine(t)
	for i, lose := range []string{flushSets, destroySets, deleteLink, destroySets + "; " + deleteLink} {
		if _, err := e.Apply(t.Context(), oldWorld().ruleset()); err != nil {
			t.Fatal(err)
		}
		applied := dumpAll(t)
		mended := func(how string, do func() (apply.Report, error), want string) {
			t.Helper()
			tool(t, "", "sh", "-ec", lose)
			if s, err := e.Status(t.Context()); err != nil || s.Condition != apply.Drift {
				t.Errorf("%s: status says %s, %v", lose, s.Condition, err)
			}
			if _, err := do(); err != nil {
				t.Fatalf("%s: %s: %v", lose, how, err)
			}
			if diff := cmp.Diff(want, dumpAll(t)); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", lose, how, diff)
			}
			if s, err := e.Status(t.Context()); err != nil || s.Condition != apply.AsRecorded {
				t.Errorf("%s: after %s status says %s, %v", lose, how, s.Condition, err)
			}
		}
		byApply, byRemove := lab.All() || i%2 == 0, lab.All() || i%2 == 1
		if byApply {
			mended("apply", func() (apply.Report, error) { return e.Apply(t.Context(), oldWorld().ruleset()) }, applied)
		}
		if byRemove {
			mended("remove", func() (apply.Report, error) { return e.Remove(t.Context()) }, before)
		}
	}
	if _, err := e.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := servers(t); !strings.Contains(got, "192.0.2.1:30080") {
		t.Errorf("rolled back, there is\n%s", got)
	}
}
