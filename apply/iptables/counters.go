package iptables

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"svcc/apply"
	"svcc/ir"
)

// keepCounters adds to an input for iptables-legacy the counters of the built-in
// chains' policies, which the tool sets to zero otherwise, whatever it changes
// in a table. They can only be said together with the policy, so they are read
// at the last moment: a policy that somebody else changes between this and the
// write would be changed back.
func (t *Target) keepCounters(ctx context.Context, f ir.Family, in apply.Input) (apply.Input, error) {
	var out bytes.Buffer
	for line := range bytes.Lines(in.Stdin) {
		out.Write(line)
		if line[0] != '*' {
			continue
		}
		name := strings.TrimSpace(string(line[1:]))
		if err := t.addCounters(ctx, &out, f, name); err != nil {
			return in, err
		}
	}
	in.Stdin = out.Bytes()
	in.Args = append(slices.Clone(in.Args), "--counters")
	return in, nil
}

// addCounters reads one table's from the kernel, or with the tool.
func (t *Target) addCounters(ctx context.Context, out *bytes.Buffer, f ir.Family, table string) error {
	if t.Kernel != nil {
		if all, err := t.Kernel.Policies(f, table); err == nil {
			for _, p := range all {
				if p.Packets > 0 || p.Bytes > 0 {
					fmt.Fprintf(out, ":%s %s [%d:%d]\n", p.Chain, p.Verdict, p.Packets, p.Bytes)
				}
			}
			return nil
		}
	}
	dump, err := t.saved(ctx, f, table, "-c")
	if err == nil {
		writeCounters(out, table, dump)
	}
	return err
}

// writeCounters copies the lines of built-in chains, ":NAME POLICY [1:2]".
func writeCounters(out *bytes.Buffer, table string, dump []byte) {
	for line := range bytes.Lines(dump) {
		switch line[0] {
		case ':':
			name, rest, _ := strings.Cut(string(line[1:]), " ")
			if slices.Contains(builtins[table], name) && !strings.Contains(rest, "[0:0]") {
				out.Write(line)
			}
		case '-', '[':
			return
		}
	}
}
