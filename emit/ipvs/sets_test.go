package ipvs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/emit"
	"svcc/ir"
)

// Of the kernel's dump sets of any shape are read, as they would be made again;
// of a ruleset only those that svcc makes.
func TestOddSets(t *testing.T) {
	const plain = "family inet hashsize 1024 maxelem 65536"
	for _, c := range []struct {
		what, kind, options, entry, odd string
		entries                         []string
	}{
		{"ours", TypeIPPort, plain + " bucketsize 12 initval 0x24f54720", "10.0.0.1,tcp:80", "", []string{"10.0.0.1,tcp:80"}},
		{"ours", TypePort, "range 0-65535", "80", "", []string{"80"}},
		{"options", TypeIPPort, plain + " timeout 60 counters comment skbinfo bucketsize 12 initval 0x24f54720",
			`10.0.0.1,tcp:80 timeout 59 packets 0 bytes 0 comment "it is nomatch x"`, plain + " timeout 60 counters comment skbinfo", []string{"10.0.0.1,tcp:80"}},
		{"netmask", TypeIP, plain + " netmask 24 bucketsize 12 initval 0x1", "10.0.0.0", plain + " netmask 24", []string{"10.0.0.0"}},
		{"family", TypeIPPort, strings.Replace(plain, "inet", "inet6", 1), "fd00::1,tcp:80", strings.Replace(plain, "inet", "inet6", 1), []string{"fd00::1,tcp:80"}},
		{"range", TypePort, "range 1-100", "80", "range 1-100", []string{"80"}},
		{"type", "list:set", "size 8", "OTHER", "size 8", []string{"OTHER"}},
		{"nomatch", TypeIPPortNet, plain, "10.0.0.1,tcp:80,10.1.0.0/16 nomatch", plain, []string{"10.0.0.1,tcp:80,10.1.0.0/16 nomatch"}},
	} {
		text := []byte("create KUBE-X " + c.kind + " " + c.options + "\nadd KUBE-X " + c.entry + "\n")
		sets, err := ReadSets(ir.IPv4, text)
		if err != nil || len(sets) != 1 {
			t.Fatalf("%s: %v, %v", c.what, sets, err)
		}
		if s := sets[0]; s.Odd != c.odd || !cmp.Equal(s.Entries, c.entries) {
			t.Errorf("%s: %+v", c.what, s)
		}
		if head, _, _ := strings.Cut(c.options, " bucketsize"); sets[0].Create(ir.IPv4) != "create KUBE-X "+c.kind+" "+head {
			t.Errorf("%s: made again as %q", c.what, sets[0].Create(ir.IPv4))
		}
		_, err = ReadState(ir.IPv4, []emit.Section{{Tool: ToolSets, Family: ir.IPv4, Text: text}})
		if (err != nil) != (c.odd != "") || err != nil && !strings.Contains(err.Error(), "line ") {
			t.Errorf("%s: of a ruleset: %v", c.what, err)
		}
	}
}

// The kernel swaps sets of one type and family, whatever their options.
func TestSwaps(t *testing.T) {
	set := func(options string) *Set {
		sets, err := ReadSets(ir.IPv4, []byte("create KUBE-X "+options+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		return sets[0]
	}
	ours := set("hash:ip,port family inet hashsize 1024 maxelem 65536")
	for options, want := range map[string]bool{
		"hash:ip,port family inet hashsize 64 maxelem 9 timeout 5": true,
		"hash:ip,port family inet6 hashsize 1024 maxelem 65536":    false,
		"hash:ip,port,ip family inet hashsize 1024 maxelem 65536":  false,
	} {
		if got := set(options).Swaps(ours, ir.IPv4); got != want {
			t.Errorf("%s: %v", options, got)
		}
	}
}
