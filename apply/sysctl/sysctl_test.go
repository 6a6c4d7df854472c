package sysctl_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply/sysctl"
	"svcc/ir"
)

// fake makes a folder that holds settings.
func fake(t *testing.T, values map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, value := range values {
		path := filepath.Join(root, "proc/sys", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(value+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func program(localhost bool, kinds ...ir.FrontendKind) *ir.Program {
	s := &ir.ServicePort{}
	for _, k := range kinds {
		s.Frontends = append(s.Frontends, ir.Frontend{Kind: k})
	}
	return &ir.Program{Options: ir.Options{LocalhostNodePorts: localhost}, Services: []*ir.ServicePort{s}}
}

func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		name     string
		programs []*ir.Program
		want     bool
	}{
		{"nothing", nil, false},
		{"a node port", []*ir.Program{program(true, ir.ClusterIP, ir.NodePort)}, true},
		{"a node port that does not answer at localhost", []*ir.Program{program(false, ir.ClusterIP, ir.NodePort)}, false},
		{"no node port", []*ir.Program{program(true, ir.ClusterIP, ir.LoadBalancer)}, false},
		{"in the second family", []*ir.Program{program(false), program(true, ir.NodePort)}, true},
	} {
		got := sysctl.Needed("/", c.programs)
		if (len(got) == 1) != c.want || c.want && (got[0].Name != "net/ipv4/conf/all/route_localnet" || got[0].Value != "1") {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestNeededByVirtualServers(t *testing.T) {
	for _, c := range []struct {
		release string
		strict  bool
		want    []string
	}{
		{"6.1.0-17-amd64", false, []string{"ip_forward=1", "vs/conntrack=1", "vs/expire_nodest_conn=1", "vs/expire_quiescent_template=1"}},
		{"4.19.0", false, []string{"ip_forward=1", "vs/conn_reuse_mode=0", "vs/conntrack=1", "vs/expire_nodest_conn=1", "vs/expire_quiescent_template=1"}},
		{"5.9", true, []string{"conf/all/arp_announce=2", "conf/all/arp_ignore=1", "ip_forward=1", "vs/conntrack=1", "vs/expire_nodest_conn=1", "vs/expire_quiescent_template=1"}},
		{"4.0.9", false, []string{"ip_forward=1", "vs/conntrack=1", "vs/expire_nodest_conn=1", "vs/expire_quiescent_template=1"}},
	} {
		root := fake(t, map[string]string{"kernel/osrelease": c.release})
		p := program(true)
		p.Options.Virtual = &ir.Virtual{StrictARP: c.strict}
		var got []string
		for _, s := range sysctl.Needed(root, []*ir.Program{p}) {
			got = append(got, strings.TrimPrefix(s.Name, "net/ipv4/")+"="+s.Value)
			if s.Why == "" || s.Stays != (s.Name == "net/ipv4/ip_forward") {
				t.Errorf("%+v", s)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.release, diff)
		}
	}
}

func TestSetAndRestore(t *testing.T) {
	before := map[string]string{"net/a": "0", "net/b": "1", "net/c": "7"}
	root := fake(t, before)
	want := []sysctl.Sysctl{{Name: "net/a", Value: "1"}, {Name: "net/b", Value: "1"}, {Name: "net/c", Value: "0"}}
	was, err := sysctl.Set(root, want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]sysctl.Saved{{Name: "net/a", Value: "0"}, {Name: "net/c", Value: "7"}}, was); diff != "" {
		t.Errorf("what was changed (-want +got):\n%s", diff)
	}
	for _, s := range want {
		if got, err := sysctl.Get(root, s.Name); err != nil || got != s.Value {
			t.Errorf("%s = %q, %v; want %q", s.Name, got, err, s.Value)
		}
	}
	if again, err := sysctl.Set(root, want); err != nil || again != nil {
		t.Errorf("set twice: %v, %v; want nothing", again, err)
	}
	if err := sysctl.Restore(root, was); err != nil {
		t.Fatal(err)
	}
	for name, value := range before {
		if got, _ := sysctl.Get(root, name); got != value {
			t.Errorf("%s = %q after Restore, want %q", name, got, value)
		}
	}
}

// What was set before an error is returned, so that it can be undone.
func TestSetHalf(t *testing.T) {
	root := fake(t, map[string]string{"net/a": "0"})
	was, err := sysctl.Set(root, []sysctl.Sysctl{{Name: "net/a", Value: "1"}, {Name: "net/none", Value: "1"}})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want that net/none does not exist", err)
	}
	if diff := cmp.Diff([]sysctl.Saved{{Name: "net/a", Value: "0"}}, was); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := sysctl.Restore(root, append(was, sysctl.Saved{Name: "net/gone", Value: "1"})); err != nil {
		t.Errorf("Restore: %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "proc/sys/net/gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Restore created a setting: %v", err)
	}
}
