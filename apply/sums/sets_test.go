package sums

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"svcc/golden/lab"
	"svcc/ir"
)

// Rules that ask sets of one name have the same sum as rules that ask another
// set made in its place; the sets' numbers tell them apart.
func TestKernelSetsHaveNumbers(t *testing.T) {
	forTools(t, func(t *testing.T, f ir.Family, nft bool, tool string) {
		lab.Need(t, lab.Tools("ipset"))
		k := Kernel{}
		family := map[ir.Family]string{ir.IPv4: "inet", ir.IPv6: "inet6"}[f]
		rules := "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -m set --match-set A dst -j ACCEPT\nCOMMIT\n"
		make := func(first, second string) []uint16 {
			run(t, "create "+first+" hash:ip family "+family+"\ncreate "+second+" hash:ip family "+family+"\n", "ipset", "restore")
			numbers, err := k.Sets([]string{"A", "B"})
			if err != nil || numbers[0] == numbers[1] {
				t.Fatalf("%v, %v", numbers, err)
			}
			return numbers
		}
		was := make("A", "B")
		run(t, rules, tool+"-restore")
		sum := read(t, f, nft).All
		run(t, "*nat\n:KUBE-SERVICES - [0:0]\nCOMMIT\n", tool+"-restore")
		destroySets(t)
		is := make("B", "A")
		run(t, strings.ReplaceAll(rules, "-set A", "-set B"), tool+"-restore")
		if other := read(t, f, nft).All; sum != other {
			t.Errorf("the sums tell the sets apart already")
		}
		if slices.Equal(was, is) {
			t.Errorf("the sets have the numbers %v both times", was)
		}
		if _, err := k.Sets([]string{"C"}); err == nil {
			t.Error("a set that is not there has a number")
		}
	})
}

// destroySets waits for iptables-nft, which lets go of sets only after a while.
func destroySets(t *testing.T) {
	t.Helper()
	var err error
	for range 200 {
		if err = exec.Command("ipset", "destroy").Run(); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal(err)
}

// The chains of a table are those that were made; none of the other flavour's.
func TestKernelChains(t *testing.T) {
	forTools(t, func(t *testing.T, f ir.Family, nft bool, tool string) {
		for _, flavour := range []bool{nft, !nft} {
			if out, err := (Kernel{}).Chains(f, "nat", flavour); len(out) > 0 || err != nil {
				t.Fatalf("before any rule: %q, %v", out, err)
			}
		}
		run(t, stateText(""), tool+"-restore")
		got, err := Kernel{}.Chains(f, "nat", nft)
		got = slices.DeleteFunc(got, func(s string) bool { return !strings.HasPrefix(s, "KUBE-") })
		slices.Sort(got)
		if want := []string{"KUBE-SERVICES", "KUBE-SVC-A", "KUBE-SVC-B"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
		if out, err := (Kernel{}).Chains(f, "nat", !nft); len(out) > 0 || err != nil {
			t.Errorf("the other flavour has %q, %v", out, err)
		}
		if out, err := (Kernel{}).Chains(f, "mangle", nft); len(out) > 0 || err != nil {
			t.Errorf("the other table has %q, %v", out, err)
		}
	})
}
