package sums

import (
	"os"
	"path/filepath"
	"testing"
)

// A module is idle if it is there to be loaded and is not; by what cannot be read,
// none is.
func TestIdle(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want bool) {
		t.Helper()
		if Idle(root, "nf_tables") != want {
			t.Errorf("%s: %v", when, !want)
		}
	}
	check("nothing can be read", false)
	write("proc/sys/kernel/osrelease", "6.1.0\n")
	check("no modules", false)
	write("lib/modules/6.1.0/modules.dep", "kernel/net/netfilter/nft_compat.ko.xz: kernel/net/netfilter/nf_tables_x.ko.xz\n")
	check("built in, or not there", false)
	write("lib/modules/6.1.0/modules.dep", "kernel/net/netfilter/nf_tables.ko.xz: kernel/net/netfilter/nfnetlink.ko.xz\n")
	check("not loaded", true)
	write("sys/module/nf_tables/refcnt", "1\n")
	check("loaded", false)
}
