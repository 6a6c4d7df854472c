package apply_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"svcc/apply"
	"svcc/ir"
)

// changed is the node after somebody chose the other flavour.
func (n *node) changed() *node {
	other := *n
	other.flavour = map[string]string{"nft": "legacy", "legacy": "nft"}[n.flavour]
	return &other
}

// Rules of the one flavour act beside those of the other, and its tools do not
// see them: nothing is added to them, and what removes takes both away.
func TestKernelFlavourChanged(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		clean := n.save()
		n.to(oldState(t))
		before, other := n.save(), n.changed()
		empty := other.save()
		for name, f := range map[string]func(e *apply.Engine) error{
			"apply":    func(e *apply.Engine) error { _, err := e.Apply(background, newState(t)); return err },
			"the same": func(e *apply.Engine) error { _, err := e.Apply(background, oldState(t)); return err },
		} {
			mustFail(t, f(other.engine(takeOver)), apply.ErrFlavour)
			if !maps.Equal(n.save(), before) || !maps.Equal(other.save(), empty) {
				t.Errorf("%s: something was written", name)
			}
		}
		if _, err := other.engine(dryRun).Remove(background); err != nil || !maps.Equal(n.save(), before) {
			t.Errorf("remove --dry-run: %v, or something was written", err)
		}
		if r, err := other.engine().Remove(background); err != nil || !r.Wrote {
			t.Errorf("remove: %v, wrote %v", err, r.Wrote)
		}
		if !maps.Equal(n.save(), clean) {
			t.Errorf("after the removal the one flavour has %q", n.save())
		}
		if !maps.Equal(other.save(), empty) {
			t.Errorf("after the removal the other flavour has %q", other.save())
		}
		other.to(newState(t))
	})
}

// With rules in both, either flavour's tools remove both.
func TestKernelFlavoursBothInForce(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		clean, other := n.save(), n.changed()
		empty := other.save()
		n.to(oldState(t))
		// As a kube-proxy with tools of its own would:
		other.tool(ir.IPv4, "restore", "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-X - [0:0]\n-A KUBE-SERVICES -j KUBE-SVC-X\nCOMMIT\n", "--noflush")
		if _, err := n.engine().Apply(background, newState(t)); !errors.Is(err, apply.ErrFlavour) || !strings.Contains(err.Error(), "KUBE-S") {
			t.Errorf("error %v", err)
		}
		n.to(nil)
		if !maps.Equal(n.save(), clean) || !maps.Equal(other.save(), empty) {
			t.Errorf("left:\n%q\n%q", n.save(), other.save())
		}
		if s, err := n.engine().Status(background); err != nil || s.Condition != apply.AsRecorded {
			t.Errorf("%v, %q", err, s.Condition)
		}
	})
}

// What an interrupted run left in the one flavour is not put right in the other.
func TestKernelFlavourChangedAfterACrash(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		clean, other := n.save(), n.changed()
		empty := other.save()
		n.to(oldState(t))
		file := n.file("new.rules", newState(t))
		calls := len(n.child(job{Ruleset: file}, nil).calls)
		n.to(oldState(t))
		for call := calls; ; call-- {
			if call == 0 {
				t.Fatal("no crash left a journal")
			}
			status := n.child(job{Ruleset: file, Call: call, When: "before"}, nil).status
			if j, err := n.engine().State.Journal(); status.Signal() == syscall.SIGKILL && err == nil && j != nil {
				break
			}
			n.to(oldState(t))
		}
		before := n.save()
		for _, err := range []error{other.engine().Recover(background), to(background, other.engine(), newState(t))} {
			mustFail(t, err, apply.ErrFlavour)
		}
		if !maps.Equal(n.save(), before) || !maps.Equal(other.save(), empty) {
			t.Error("something was written")
		}
		other.to(nil)
		if !maps.Equal(n.save(), clean) || !maps.Equal(other.save(), empty) {
			t.Errorf("left:\n%q\n%q", n.save(), other.save())
		}
		if s, err := other.engine().Status(background); err != nil || s.Condition != apply.AsRecorded {
			t.Errorf("%v, %q", err, s.Condition)
		}
	})
}

// What a run was told to have been seen, and is wrong, is held against the kernel
// before the run is said to have failed, and is not told to the next.
func TestKernelWrongSeenHeals(t *testing.T) {
	eachFlavour(t, func(t *testing.T, n *node) {
		n.to(oldState(t))
		before := n.save()
		path := filepath.Join(n.path, "seen")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		head, rest, _ := strings.Cut(string(text), "\n")
		wrong := strings.ReplaceAll(rest, "10.244.1.5:8080", "10.244.1.99:8080")
		if wrong == rest {
			t.Fatal("there is no such endpoint")
		}
		head = head[:strings.LastIndexByte(head, ' ')]
		if err := os.WriteFile(path, fmt.Appendf(nil, "%s %x\n%s", head, sha256.Sum256([]byte(wrong)), wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := n.engine().Apply(background, oldState(t))
		if err != nil || !r.Wrote {
			t.Fatalf("%v, wrote %v", err, r.Wrote)
		}
		if r, err := n.engine().Apply(background, oldState(t)); err != nil || r.Wrote {
			t.Errorf("the next run: %v, wrote %v", err, r.Wrote)
		}
		if !maps.Equal(n.save(), before) {
			t.Error("the rules are not as they were")
		}
	})
}
