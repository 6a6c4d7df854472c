package ipvs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/sums"
	"svcc/emit"
	"svcc/ir"
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

// A set by one of our names and of another type is replaced if nobody uses it, and
// put back when that is undone. If somebody does, that is said before anything is
// written.
func TestSetsOfOtherTypes(t *testing.T) {
	for _, head := range []string{"hash:ip family inet hashsize 1024 maxelem 65536", "hash:ip,port family inet6 hashsize 1024 maxelem 65536", "list:set size 8"} {
		n := newNode()
		kind, _, _ := strings.Cut(head, " ")
		n.sets["KUBE-CLUSTER-IP"] = &nodeSet{kind: kind, head: head, entries: map[string]bool{}, maxElem: 65536}
		tg := target(n)
		old, _ := plans(t, tg, nil)
		n.others = map[string]int{"KUBE-CLUSTER-IP": 1}
		o, err := tg.Observe(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		_, err = tg.Plan(oldWorld().ruleset(), o)
		if err == nil || !strings.Contains(err.Error(), "create KUBE-CLUSTER-IP "+head) || !strings.Contains(err.Error(), "not svcc's use it") {
			t.Errorf("%s: %v", head, err)
		}
		n.others = nil
		before := n.dump()
		bring(t, tg, oldWorld().ruleset())
		if got := n.sets["KUBE-CLUSTER-IP"].head; !strings.HasPrefix(got, "hash:ip,port family inet ") {
			t.Errorf("%s is replaced by %s", head, got)
		}
		if err := tg.Restore(context.Background(), old); err != nil || before != n.dump() {
			t.Errorf("%s put back: %v\n%s", head, err, cmp.Diff(before, n.dump()))
		}
		bring(t, tg, nil)
		if len(n.sets) > 0 {
			t.Errorf("after removal:\n%s", n.dump())
		}
	}
}

// withoutIPSet is a machine where ipset is not installed, or lies.
type withoutIPSet struct {
	*node
	answer func(args string, said []byte) []byte
}

func (w withoutIPSet) Run(ctx context.Context, in apply.Input) ([]byte, error) {
	if in.Tool == "ipset" && w.answer == nil {
		return nil, &apply.ToolError{Tool: "ipset", Code: -1, Err: exec.ErrNotFound}
	}
	out, err := w.node.Run(ctx, in)
	if in.Tool == "ipset" {
		out = w.answer(in.Args[0], out)
	}
	return out, err
}

// names is a kernel that has the node's sets, and cannot be asked for more.
type names struct{ *node }

func (n names) Sets(list []string) ([]uint16, error) {
	for _, name := range list {
		if n.sets[name] == nil {
			return nil, errors.New("it is not there")
		}
	}
	return make([]uint16, len(list)), nil
}

func (names) Read(ir.Family, string, bool) (sums.Table, error) { return sums.Table{}, errNone }
func (names) Changed(ir.Family, string, bool, sums.Table) (bool, error) {
	return false, errNone
}
func (names) Used(ir.Family, string, bool) (bool, error)        { return true, nil }
func (names) Policies(ir.Family, string) ([]sums.Policy, error) { return nil, errNone }
func (names) Chains(ir.Family, string, bool) ([]string, error)  { return nil, nil }

var errNone = errors.New("not here")

// Where ipset is gone and sets of ours are there, removing is no success: what is
// left is said, and why, and nothing is written.
func TestSetsWithoutIPSet(t *testing.T) {
	n := newNode()
	bring(t, target(n), oldWorld().ruleset())
	before := n.dump()
	tg := &Target{Glue: &iptables.Target{Runner: withoutIPSet{node: n}, Kernel: names{n}}, Runner: withoutIPSet{node: n}, Kernel: n}
	o, err := tg.Observe(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []*emit.Ruleset{nil, iptablesRuleset(), oldWorld().ruleset()} {
		_, err = tg.Plan(to, o)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%d sets", len(n.sets))) || !strings.Contains(err.Error(), "ipset") || !strings.Contains(err.Error(), "KUBE-") {
			t.Errorf("%v", err)
		}
	}
	if n.dump() != before {
		t.Error("something was written")
	}
	n.sets = map[string]*nodeSet{}
	if o, err = tg.Observe(context.Background()); err == nil {
		_, err = tg.Plan(nil, o)
	}
	if err != nil {
		t.Errorf("without sets there is nothing to do for ipset: %v", err)
	}
}

// What ipset says of sets is held against the kernel.
func TestWrongSets(t *testing.T) {
	cut := func(b []byte) []byte { return b[:len(b)/2] }
	lastLine := func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] }
	for name, answer := range map[string]func(args string, b []byte) []byte{
		"nothing":        func(string, []byte) []byte { return nil },
		"nothing saved":  func(args string, b []byte) []byte { return map[bool][]byte{false: b}[args == "save"] },
		"nothing listed": func(args string, b []byte) []byte { return map[bool][]byte{false: b}[args == "list"] },
		"half":           func(_ string, b []byte) []byte { return cut(b) },
		"without last line": func(args string, b []byte) []byte {
			if args == "save" {
				return lastLine(b)
			}
			return b
		},
		"garbage": func(string, []byte) []byte { return []byte("\x00oops\n") },
	} {
		n := newNode()
		bring(t, target(n), oldWorld().ruleset())
		r := withoutIPSet{n, answer}
		tg := &Target{Glue: &iptables.Target{Runner: r, Kernel: names{n}}, Runner: r, Kernel: n}
		if _, err := tg.Observe(context.Background()); err == nil {
			t.Errorf("%s is believed", name)
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
