package ipvs

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/emit"
)

// A set that others use is named before anything is written; what is ours goes
// all the same, and the set when it is free.
func TestSetsThatOthersUse(t *testing.T) {
	for _, to := range []*emit.Ruleset{nil, iptablesRuleset()} {
		n := newNode()
		tg := target(n)
		bring(t, tg, oldWorld().ruleset())
		n.others = map[string]int{"KUBE-CLUSTER-IP": 2, "KUBE-6-LOOP-BACK": 1}
		old, p := plans(t, tg, to)
		notes, err := tg.Check(context.Background(), p)
		if told := strings.Join(notes, "\n"); err != nil || len(notes) != 2 || !strings.Contains(told, "set KUBE-CLUSTER-IP is") || !strings.Contains(told, "set KUBE-6-LOOP-BACK is") {
			t.Errorf("%q, %v", notes, err)
		}
		before := n.dump()
		bring(t, tg, to)
		if len(n.servers) > 0 || n.link || len(n.sets) != 2 || len(n.sets["KUBE-CLUSTER-IP"].entries) > 0 {
			t.Errorf("left is\n%s", n.dump())
		}
		if err := tg.Restore(context.Background(), old); err != nil || before != n.dump() {
			t.Errorf("put back: %v\n%s", err, cmp.Diff(before, n.dump()))
		}
		bring(t, tg, to)
		n.others = nil
		bring(t, tg, to)
		if len(n.sets) > 0 {
			t.Errorf("nobody uses them, and they stay: %q", slices.Collect(maps.Keys(n.sets)))
		}
	}
}

// References of rules of ours that are gone already are no use by others: then
// the set goes at once.
func TestSetsThatAreHeld(t *testing.T) {
	n := newNode()
	tg := target(n)
	bring(t, tg, oldWorld().ruleset())
	n.others = map[string]int{"KUBE-CLUSTER-IP": 1}
	_, p := plans(t, tg, nil)
	n.others = nil
	n.holds = 3
	if err := tg.Commit(context.Background(), p); err != nil || len(n.sets) > 0 {
		t.Errorf("%v, left %q", err, slices.Collect(maps.Keys(n.sets)))
	}
}

// Iptables mode's rules serve until the virtual servers do, also where a set is
// left over.
func TestLeftSetsAreNotAMode(t *testing.T) {
	n := newNode()
	tg := target(n)
	n.others = map[string]int{"KUBE-CLUSTER-IP": 1}
	bring(t, tg, oldWorld().ruleset())
	bring(t, tg, iptablesRuleset())
	n.writes = nil
	bring(t, tg, oldWorld().ruleset())
	if slices.Index(n.writes, "iptables-restore") < slices.Index(n.writes, "-A -t 10.96.0.1:80 -s rr") {
		t.Errorf("%q", n.writes)
	}
}

// Sets by our names and with others' options are replaced, rules that use them
// or not, and put back when that fails.
func TestOddSetsAreReplaced(t *testing.T) {
	const clusterIP = "hash:ip,port family inet hashsize 1024 maxelem 65536"
	odd := map[string]*nodeSet{
		"KUBE-CLUSTER-IP": {kind: "hash:ip,port", head: clusterIP + " timeout 60 counters comment",
			entries: map[string]bool{`10.96.0.1,tcp:80 timeout 59 packets 0 bytes 0 comment "x y"`: true}, maxElem: 65536},
		"KUBE-NODE-PORT-TCP": {kind: "bitmap:port", head: "bitmap:port range 1-100", entries: map[string]bool{"80": true}, maxElem: 65536},
	}
	n := newNode()
	maps.Copy(n.sets, odd)
	tg := target(n)
	old, p := plans(t, tg, oldWorld().ruleset())
	if err := tg.Commit(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if got := n.sets["KUBE-CLUSTER-IP"].head; got != clusterIP {
		t.Errorf("replaced by %s", got)
	}
	if got := n.sets["KUBE-NODE-PORT-TCP"].head; got != "bitmap:port range 0-65535" {
		t.Errorf("replaced by %s", got)
	}
	if _, rest := plans(t, tg, oldWorld().ruleset()); !rest.Empty() {
		t.Errorf("left to do: %v", rest.Rules())
	}
	loaded, err := tg.Load(old.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	if err := tg.Restore(context.Background(), loaded); err != nil {
		t.Fatal(err)
	}
	if now, err := tg.Observe(context.Background()); err != nil || !now.Equal(loaded) {
		t.Errorf("put back, it is another (%v):\n%s", err, n.dump())
	}
	for name, set := range odd {
		if n.sets[name].head != set.head {
			t.Errorf("put back is %s", n.sets[name].head)
		}
	}
	bring(t, tg, nil)
	if len(n.sets) > 0 {
		t.Errorf("after removal:\n%s", n.dump())
	}
}

// A set that the kernel cannot swap is named before anything is written, and can
// be taken away.
func TestSetsOfOtherTypes(t *testing.T) {
	for _, head := range []string{"hash:ip family inet hashsize 1024 maxelem 65536", "hash:ip,port family inet6 hashsize 1024 maxelem 65536", "list:set size 8"} {
		n := newNode()
		kind, _, _ := strings.Cut(head, " ")
		n.sets["KUBE-CLUSTER-IP"] = &nodeSet{kind: kind, head: head, entries: map[string]bool{}}
		tg := target(n)
		o, err := tg.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tg.Plan(oldWorld().ruleset(), o)
		if err == nil || !strings.Contains(err.Error(), "create KUBE-CLUSTER-IP "+head) || !strings.Contains(err.Error(), "svcc remove") {
			t.Errorf("%s: %v", head, err)
		}
		bring(t, tg, nil)
		if len(n.sets) > 0 {
			t.Errorf("after removal:\n%s", n.dump())
		}
	}
}

// A device by the link's name that is not ours keeps nobody from leaving IPVS
// mode, nor from iptables mode.
func TestLinkOfOthers(t *testing.T) {
	n := newNode()
	n.bridge = true
	tg := target(n)
	o, err := tg.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tg.Plan(oldWorld().ruleset(), o); err == nil || !strings.Contains(err.Error(), "kube-ipvs0") || !strings.Contains(err.Error(), "bridge") {
		t.Error(err)
	}
	bring(t, tg, iptablesRuleset())
	bring(t, tg, nil)
}
