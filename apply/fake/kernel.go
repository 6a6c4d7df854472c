package fake

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"svcc/ir"
)

// Kernel is one network namespace's iptables. Use New.
type Kernel struct {
	// Legacy makes the tools those of iptables-legacy, which check targets
	// while they read and know the xtables lock.
	Legacy bool
	// Locked says that another process holds the xtables lock.
	Locked bool
	// NoIsolation refuses new namespaces, as without CAP_SYS_ADMIN.
	NoIsolation bool
	// Missing are families without tools.
	Missing []ir.Family
	// Faults are what goes wrong, by the number of the call, from 1.
	Faults map[int]Fault

	mu     sync.Mutex
	calls  []Call
	writes int
	tables map[ir.Family]map[string]*table
}

// New is a kernel with empty tables.
func New() *Kernel {
	k := &Kernel{tables: map[ir.Family]map[string]*table{}}
	for _, f := range ir.Families {
		k.tables[f] = map[string]*table{}
		for name, chains := range builtins {
			k.tables[f][name] = newTable(chains)
		}
	}
	return k
}

var builtins = map[string][]string{
	"filter": {"INPUT", "FORWARD", "OUTPUT"},
	"nat":    {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"mangle": {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
}

// table is one table's chains.
type table struct {
	chains map[string]*chain
}

type chain struct {
	policy   string // "" for a user chain
	counters string
	rules    []rule
}

type rule struct {
	args     string // after "-A CHAIN "
	canon    string // the same in canonical form
	to       string // chain that it jumps to
	counters string
	line     int // of the input that it came with
}

func newTable(builtin []string) *table {
	t := &table{chains: map[string]*chain{}}
	for _, c := range builtin {
		t.chains[c] = &chain{policy: "ACCEPT", counters: "[0:0]"}
	}
	return t
}

func (t *table) clone() *table {
	out := &table{chains: map[string]*chain{}}
	for name, c := range t.chains {
		c := *c
		c.rules = slices.Clone(c.rules)
		out.chains[name] = &c
	}
	return out
}

// Save prints one table as iptables-save -c does, without comments.
func (k *Kernel) Save(f ir.Family, name string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.tables[f][name].save(name, builtins[name], true)
}

// SaveAll is Save of every table of both families, under headings.
func (k *Kernel) SaveAll() string {
	var b strings.Builder
	for _, f := range ir.Families {
		for _, name := range []string{"filter", "nat", "mangle"} {
			fmt.Fprintf(&b, "# %s\n%s", f, k.Save(f, name))
		}
	}
	return b.String()
}

func (t *table) save(name string, builtin []string, counters bool) string {
	var b strings.Builder
	b.WriteString("*" + name + "\n")
	var users []string
	for c := range t.chains {
		if t.chains[c].policy == "" {
			users = append(users, c)
		}
	}
	slices.Sort(users)
	all := append(slices.Clone(builtin), users...)
	for _, c := range all {
		policy, count := t.chains[c].policy, t.chains[c].counters
		if policy == "" {
			policy, count = "-", "[0:0]"
		}
		if !counters {
			count = "[0:0]"
		}
		fmt.Fprintf(&b, ":%s %s %s\n", c, policy, count)
	}
	for _, c := range all {
		for _, r := range t.chains[c].rules {
			if counters {
				b.WriteString(r.counters + " ")
			}
			b.WriteString(r.canon + "\n")
		}
	}
	b.WriteString("COMMIT\n")
	return b.String()
}

// Writes counts the tables that were written.
func (k *Kernel) Writes() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.writes
}

// Calls lists what was run.
func (k *Kernel) Calls() []Call {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.calls)
}

// Clone is a second kernel in the same state, without faults and calls.
func (k *Kernel) Clone() *Kernel {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := &Kernel{Legacy: k.Legacy, NoIsolation: k.NoIsolation, Missing: k.Missing, tables: map[ir.Family]map[string]*table{}}
	for f, ts := range k.tables {
		out.tables[f] = maps.Clone(ts)
		for name, t := range ts {
			out.tables[f][name] = t.clone()
		}
	}
	return out
}
