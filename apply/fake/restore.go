package fake

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svcc/apply"
	rules "svcc/emit/iptables"
	spelt "svcc/emit/iptables/rule"
	"svcc/ir"
)

// maxChainName is the length at which chain names end.
const maxChainName = 28

// restore is one run of a restore tool.
type restore struct {
	k                       *Kernel
	in                      apply.Input
	family                  ir.Family
	noflush, test, counters bool
	limit                   int // tables that may still be written; -1 for all
	name                    string
	table                   *table // a copy of the one that is open
	line                    int
	counted                 map[string]bool // built-in chains whose counters were given
}

func (k *Kernel) runRestore(in apply.Input, f ir.Family, limit int) error {
	r := &restore{
		k: k, in: in, family: f, limit: limit,
		noflush: slices.Contains(in.Args, "--noflush"), test: slices.Contains(in.Args, "--test"),
		counters: slices.Contains(in.Args, "--counters"),
	}
	if k.Legacy && k.Locked {
		return r.fail(4, "Another app is currently holding the xtables lock. Stopped waiting after 1s.")
	}
	for text := range strings.Lines(string(in.Stdin)) {
		r.line++
		if err := r.read(strings.TrimSpace(text)); err != nil {
			return err
		}
	}
	if r.table != nil {
		return r.fail(1, fmt.Sprintf("%s: COMMIT expected at line %d", in.Tool, r.line+1))
	}
	return nil
}

func (r *restore) fail(code int, stderr string) error { return failed(r.in, code, stderr, nil) }

// command fails as a command does that does not fit what is there.
func (r *restore) command(why string) error {
	if r.k.Legacy {
		why = ""
	} else {
		why = ": " + why
	}
	return r.fail(1, fmt.Sprintf("%s: line %d failed%s.", r.in.Tool, r.line, why))
}

// syntax fails as words do that are not understood.
func (r *restore) syntax(why string) error {
	return r.fail(2, fmt.Sprintf("%s: %s\nError occurred at line: %d\n", r.in.Tool, why, r.line))
}

func (r *restore) read(line string) error {
	switch {
	case line == "" || line[0] == '#':
		return nil
	case line[0] == '*' && r.table == nil:
		return r.open(line[1:])
	case r.table == nil:
		return r.fail(1, fmt.Sprintf("%s: line %d failed", r.in.Tool, r.line))
	case line == "COMMIT":
		return r.commit()
	case line[0] == ':':
		return r.declare(strings.Fields(line[1:]))
	}
	return r.change(line)
}

func (r *restore) open(name string) error {
	t := r.k.tables[r.family][name]
	if t == nil {
		return r.fail(2, fmt.Sprintf("%s: unable to initialize table '%s'", r.in.Tool, name))
	}
	r.name, r.table, r.counted = name, t.clone(), map[string]bool{}
	if r.noflush {
		return nil
	}
	for name, c := range r.table.chains {
		c.rules = nil
		if c.policy == "" {
			delete(r.table.chains, name)
		}
	}
	return nil
}

func (r *restore) declare(f []string) error {
	if len(f) < 2 || len(f[0]) > maxChainName {
		return r.fail(2, fmt.Sprintf("Invalid chain name `%s' (%d chars max)\nError occurred at line: %d", f[0], maxChainName, r.line))
	}
	c := r.table.chains[f[0]]
	switch {
	case c == nil && f[1] != "-":
		return r.command("No chain/target/match by that name")
	case c == nil || c.policy == "":
		r.table.chains[f[0]] = &chain{}
	case f[1] != "-":
		c.policy, c.counters = f[1], "[0:0]"
		if len(f) > 2 && r.counters {
			c.counters, r.counted[f[0]] = f[2], true
		}
	}
	return nil
}

// change does -A, -I, -D, -F and -X.
func (r *restore) change(line string) error {
	if line == "-S" {
		return nil // prints, which is of no use here
	}
	counters := "[0:0]"
	if line[0] == '[' {
		count, rest, _ := strings.Cut(line, " ")
		line = rest
		if r.counters {
			counters = count
		}
	}
	f := strings.SplitN(line, " ", 3)
	if len(f) < 2 || !slices.Contains([]string{"-A", "-I", "-D", "-F", "-X"}, f[0]) {
		return r.syntax("unknown command")
	}
	c := r.table.chains[f[1]]
	lenient := r.test && !r.k.Legacy // does not look at what is there
	if c == nil && lenient {
		return nil
	}
	if c == nil {
		return r.command("No chain/target/match by that name")
	}
	args := append(f, "")[2]
	switch f[0] {
	case "-F":
		c.rules = nil
		return nil
	case "-X":
		return r.deleteChain(f[1])
	case "-D":
		return r.deleteRule(c, f[1], args, lenient)
	case "-I":
		at, rest := position(args)
		return r.insert(c, at, r.rule(f[1], rest, counters))
	}
	return r.insert(c, len(c.rules)+1, r.rule(f[1], args, counters))
}

// position takes the number after -I CHAIN off.
func position(args string) (at int, rest string) {
	word, rest, _ := strings.Cut(args, " ")
	if n, err := strconv.Atoi(word); err == nil {
		return n, rest
	}
	return 1, args
}

func (r *restore) rule(chain, args, counters string) rule {
	line := "-A " + chain + " " + args
	return rule{args: args, canon: spelt.Canonical(r.family, line), to: rules.JumpsTo(line), counters: counters, line: r.line}
}

func (r *restore) insert(c *chain, at int, new rule) error {
	if at > len(c.rules)+1 || at < 1 {
		return r.command("Index of insertion too big")
	}
	if r.k.Legacy && new.to != "" && r.table.chains[new.to] == nil {
		return r.syntax(fmt.Sprintf("Couldn't load target `%s':No such file or directory\n", new.to))
	}
	c.rules = slices.Insert(slices.Clone(c.rules), at-1, new)
	return nil
}

func (r *restore) deleteRule(c *chain, name, args string, lenient bool) error {
	if lenient {
		return nil
	}
	// The tools also compare matches that say nothing, which the canonical form
	// leaves out.
	want := r.rule(name, args, "")
	i := slices.IndexFunc(c.rules, func(x rule) bool { return x.canon == want.canon && protocolMatches(x.args) == protocolMatches(args) })
	if i < 0 {
		return r.command("Bad rule (does a matching rule exist in that chain?)")
	}
	c.rules = slices.Delete(slices.Clone(c.rules), i, i+1)
	return nil
}

func protocolMatches(args string) int {
	args = " " + args
	return strings.Count(args, " -m tcp ") + strings.Count(args, " -m udp ") + strings.Count(args, " -m sctp ")
}

func (r *restore) deleteChain(name string) error {
	c := r.table.chains[name]
	if c.policy != "" || len(c.rules) > 0 && r.k.Legacy {
		return r.command("Directory not empty")
	}
	for _, other := range r.table.chains {
		for _, x := range other.rules {
			if x.to != name || r.test && !r.k.Legacy {
				continue
			}
			if r.k.Legacy {
				return r.command("")
			}
			return r.fail(4, fmt.Sprintf("%s: \nline %d: CHAIN_DEL failed (Device or resource busy): chain %s", r.in.Tool, r.line, name))
		}
	}
	delete(r.table.chains, name)
	return nil
}

// commit puts the copy in the table's place if the kernel would take it.
func (r *restore) commit() error {
	t := r.table
	r.table = nil
	if r.test {
		return nil
	}
	for name, c := range t.chains {
		for _, x := range c.rules {
			if x.to != "" && t.chains[x.to] == nil {
				return r.fail(2, fmt.Sprintf("%s: Chain '%s' does not exist\nError occurred at line: %d", r.in.Tool, x.to, r.line))
			}
			if x.to != "" && t.leads(x.to, name, 0) {
				return r.kernel(x, name, "Too many links")
			}
			if strings.Contains(x.args, "--nfacct-name") {
				return r.kernel(x, name, "No such file or directory")
			}
		}
	}
	if r.limit == 0 {
		return r.fail(1, "injected fault")
	}
	r.limit--
	if r.k.Legacy {
		r.forget(t)
	}
	r.k.tables[r.family][r.name] = t
	r.k.writes++
	return nil
}

// kernel fails as a table does that the kernel does not take: iptables-legacy
// knows only that it was this table.
func (r *restore) kernel(x rule, chain, why string) error {
	if r.k.Legacy {
		return r.fail(1, fmt.Sprintf("%s: line %d failed", r.in.Tool, r.line))
	}
	return r.fail(4, fmt.Sprintf("%s: \nline %d: RULE_APPEND failed (%s): rule in chain %s", r.in.Tool, x.line, why, chain))
}

// forget sets policies' counters to zero, as iptables-legacy does whatever it
// changes in a table.
func (r *restore) forget(t *table) {
	for name, c := range t.chains {
		if c.policy != "" && !r.counted[name] {
			c.counters = "[0:0]"
		}
	}
}

// leads says whether a way leads from one chain to another.
func (t *table) leads(from, to string, depth int) bool {
	if from == to {
		return true
	}
	if depth > 30 {
		return false
	}
	for _, x := range t.chains[from].rules {
		if x.to != "" && t.chains[x.to] != nil && t.leads(x.to, to, depth+1) {
			return true
		}
	}
	return false
}
