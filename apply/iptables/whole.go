package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"svcc/apply"
	"svcc/apply/sums"
	"svcc/ir"
)

// saved is what the save tool prints of a table, with more arguments. What is no
// whole table is an error, whatever the tool's exit code: taken for what the
// kernel holds, it would be written anew beside that. A table that the kernel does
// not have is not asked for, which would make it, but taken for an empty one.
func (t *Target) saved(ctx context.Context, f ir.Family, table string, more ...string) ([]byte, error) {
	if t.unused(f, table) {
		return emptyTable(table), nil
	}
	in := apply.Input{Tool: t.tool(f, "save"), Args: append(more, "-t", table)}
	dump, err := t.Runner.Run(ctx, in)
	if err == nil {
		err = Whole(dump, table)
	}
	if errors.Is(err, apply.ErrAnswer) {
		err = fmt.Errorf("%s %s: %w", in.Tool, strings.Join(in.Args, " "), err)
	}
	return dump, err
}

// Whole says what is wrong with a dump of one table. It begins with the table's
// name, then come the chains, each of their rules names one of these, and COMMIT
// ends it. Comments may stand anywhere.
func Whole(dump []byte, table string) error {
	w := wholeness{table: table}
	for line := range bytes.Lines(dump) {
		if err := w.line(string(bytes.TrimRight(line, "\r\n"))); err != nil {
			return err
		}
	}
	switch {
	case w.chains == nil:
		return answer("it does not have the table %s", table)
	case !w.ended || len(dump) == 0 || dump[len(dump)-1] != '\n':
		return answer("table %s is cut off: it has no COMMIT", table)
	}
	return nil
}

// wholeness is how far a dump was read.
type wholeness struct {
	table  string
	chains map[string]bool // nil before the table begins
	ended  bool
}

func (w *wholeness) line(line string) error {
	switch {
	case line == "":
		return nil
	case line[0] == '#' && strings.Contains(line, "is incompatible"):
		return fmt.Errorf("table %s has rules that the tool cannot show: %s", w.table, line)
	case line[0] == '#':
		return nil
	case line == "*"+w.table && w.chains == nil:
		w.chains = map[string]bool{}
		return nil
	case w.chains == nil || w.ended:
	case line == "COMMIT":
		w.ended = true
		return nil
	case line[0] == ':':
		name, _, _ := strings.Cut(line[1:], " ")
		w.chains[name] = true
		return nil
	case w.chains[ruleChain(uncounted(line))] && strings.HasPrefix(uncounted(line), "-A "):
		return nil
	}
	return answer("%.60q is no line of table %s there", line, w.table)
}

// uncounted takes "[1:2] " off.
func uncounted(line string) string {
	if line[0] == '[' {
		_, line, _ = strings.Cut(line, " ")
	}
	return line
}

// answer is an answer of a tool that is not believed.
func answer(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{apply.ErrAnswer}, args...)...)
}

// agrees compares what the tool said of a table of iptables-nft with the chains
// that the kernel lists, and how many rules each has. Built-in chains that nobody
// used are in the dump alone.
func agrees(dump []byte, table string, now sums.Table) error {
	rules, named := map[string]int{}, map[string]bool{}
	for line := range bytes.Lines(dump) {
		switch text := strings.TrimRight(string(line), "\r\n"); {
		case strings.HasPrefix(text, ":"):
			name, _, _ := strings.Cut(text[1:], " ")
			named[name] = true
		case strings.HasPrefix(text, "-A "):
			rules[ruleChain(text)]++
		}
	}
	for _, c := range now.Chains {
		if !named[c.Name] || rules[c.Name] != c.Rules {
			return answer("it has %d rules in chain %s of table %s, and the kernel has %d", rules[c.Name], c.Name, table, c.Rules)
		}
	}
	return nil
}
