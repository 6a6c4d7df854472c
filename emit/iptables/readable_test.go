package iptables_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// serviceChain is a name that kube-proxy might have given: a hash of 16.
var serviceChain = regexp.MustCompile(`^nat KUBE-(SVC|SVL|EXT|FW)-[0-9A-Z]{16}$`)

// A chain of a service port at level 1 has the name that it has at level 0; all
// other names are of another length.
func TestNamesAcrossLevels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawCluster(t, 0, 100)
		known := map[string]bool{}
		for _, c := range worldOf(level(t, p, 0)).declared {
			known[c] = true
		}
		for _, c := range worldOf(level(t, p, 1)).declared {
			if serviceChain.MatchString(c) && !known[c] {
				t.Errorf("level 0 has no %s", c)
			}
		}
	})
}

// What is done at a destination says at level 1 for which service port; so do
// the chains of source ranges and policies.
func TestCommentsNameTheService(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawCluster(t, 1, 60)
		owner := map[string]string{}
		for _, s := range p.Services {
			for _, f := range s.Frontends {
				owner[fmt.Sprintf("%s %d %s", f.Addr, f.Port, s.Protocol)] = s.Display()
			}
			if s.HealthCheckNodePort != 0 {
				owner[fmt.Sprintf("%s %d tcp", netip.Addr{}, s.HealthCheckNodePort)] = s.Display()
			}
		}
		found := map[string]bool{}
		for line := range strings.Lines(level(t, p, 1)) {
			m := atDestination.FindStringSubmatch(line)
			if m == nil || strings.Contains(line, " -j MARK ") {
				continue
			}
			addr := strings.TrimPrefix(m[3], " -d ")
			if addr == "" {
				addr = netip.Addr{}.String()
			}
			key := addr + " " + m[4] + " " + m[2]
			name, _, _ := strings.Cut(strings.Trim(m[1], `"`), " ")
			// An address of the node that is refused for a node port's sake bears
			// the node port's name.
			port := netip.Addr{}.String() + " " + m[4] + " " + m[2]
			if want := owner[key]; name != want && name != owner[port] {
				t.Errorf("of %s: %s", want, line)
			}
			found[key] = true
		}
		if len(found) < len(owner)*9/10 {
			t.Errorf("of %d destinations %d were found", len(owner), len(found))
		}
	})
}

var atDestination = regexp.MustCompile(`^-A \S+ (?:-m comment --comment (".*?"|\S+) )?-p (\S+)( -d [^/ ]+)? --dport (\d+) -[jg] `)

// At level 2 nothing that packets meet has a comment, but for the hooks.
func TestNoCommentsAtLevel2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for line := range strings.Lines(level(t, drawCluster(t, 0, 60), 2)) {
			if strings.HasPrefix(line, "-A KUBE-") && strings.Contains(line, "--comment") {
				t.Error(line)
			}
		}
	})
}

// At level 2 chains of nat are named in the order in which packets meet them,
// depth first: each first reference to a chain has the next number.
func TestTraversalOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := worldOf(level(t, drawCluster(t, 0, 200), 2))
		for _, roots := range [][]string{{"nat KUBE-SERVICES"}, {"filter KUBE-FORWARD", "filter KUBE-EXTERNAL-SERVICES", "filter KUBE-SERVICES"}} {
			next, seen := 0, map[string]bool{}
			for _, root := range roots {
				w.inOrder(root, seen, func(chain string) {
					if want := "-" + base32(next); numberedName.MatchString(chain) && !strings.HasSuffix(chain, want) {
						t.Errorf("%s is met as number %s", chain, want)
					}
					if numberedName.MatchString(chain) {
						next++
					}
				})
			}
			if len(seen) > len(w.declared) {
				t.Error("chains that are not declared")
			}
		}
	})
}

var numberedName = regexp.MustCompile(`-[0-9A-V]{5}$`)

func base32(n int) string {
	s := ""
	for ; n > 0 || s == ""; n /= 32 {
		s = string("0123456789ABCDEFGHIJKLMNOPQRSTUV"[n%32]) + s
	}
	return strings.Repeat("0", 5-len(s)) + s
}

// inOrder visits the chains behind one as a packet may meet them.
func (w world) inOrder(chain string, seen map[string]bool, visit func(string)) {
	for _, r := range w.rules[chain] {
		to := w.next(chain, r)
		if to == "" || seen[to] {
			continue
		}
		seen[to] = true
		visit(to)
		w.inOrder(to, seen, visit)
	}
}
