package golden

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"svcc/compiler"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

// TestVirtual judges every trace line in IPVS mode: by Program, by Graph and by
// walking what is emitted.
func TestVirtual(t *testing.T) {
	for _, level := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("O%d", level), func(t *testing.T) {
			eachVirtual(t, func(t *testing.T, c *Case) {
				for _, g := range byNode(c.virtual(level)) {
					r := compileVirtual(t, c, g, level)
					for _, line := range g {
						if err := judge(line, r); err != nil {
							t.Error(err)
						}
					}
				}
			})
		})
	}
}

// eachVirtual runs f for each case that has trace lines.
func eachVirtual(t *testing.T, f func(t *testing.T, c *Case)) {
	eachFile(t, func(t *testing.T, c *Case) {
		if c.Refused != "" {
			refusedVirtual(t, c)
			return
		}
		f(t, c)
	})
}

// refusedVirtual checks that a case has the error for which nothing is built.
func refusedVirtual(t *testing.T, c *Case) {
	r := virtually(t, c, nil, 1)
	if len(r.Units) > 0 || !slices.ContainsFunc(r.Diagnostics.Errors(), func(d diag.Diagnostic) bool { return string(d.Code) == c.Refused }) {
		t.Errorf("is not refused with %s:\n%s", c.Refused, diagnostics(r))
	}
}

// compileVirtual builds a case in IPVS mode on the node of some lines: its
// addresses are known there, as they are to an apply.
func compileVirtual(t *testing.T, c *Case, lines []Trace, level int) built {
	t.Helper()
	local := slices.Clone(lines[0].Local)
	r := virtually(t, c, local, level)
	if slices.ContainsFunc(r.Units, func(u compiler.Unit) bool { return !u.Program.Node.IP.IsValid() }) || len(r.Units) == 0 {
		r = virtually(t, c, append(local, byFamily[ir.IPv4].node, byFamily[ir.IPv6].node), level)
	}
	if len(r.Units) == 0 {
		t.Fatal(diagnostics(r))
	}
	return r
}

// virtually builds a case in IPVS mode on a node with some addresses.
func virtually(t *testing.T, c *Case, local []netip.Addr, level int) built {
	t.Helper()
	return compile(t, c, func(o *compiler.Options) {
		o.Mode, o.Level, o.Hooks, o.LocalAddrs = mode.IPVS, level, true, local
	})
}
