package golden

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/golden/lab"
	"svcc/ir"
)

// TestKernel has trace lines judged by real packets, with both kinds of iptables:
// those of each case that shows the kernel something new. A case has a node of its
// own, and one for each set of addresses that its lines bind.
func TestKernel(t *testing.T) { inKernel(t, 0) }

func inKernel(t *testing.T, level int) {
	lab.Require(t)
	groups := func(t *testing.T, c *Case) (out []judged) {
		r := compile(t, c, hooked(level))
		for _, lines := range byNode(forKernel(c.Traces)) {
			out = append(out, judged{r, lines})
		}
		return out
	}
	files := news{}.cases(t, func(c *Case) []judged { return groups(t, c) })
	eachOf(t, files, func(t *testing.T, c *Case) {
		for _, g := range groups(t, c) {
			l := lab.New(t, labConfig(g.built, g.lines))
			for _, fl := range lab.Flavours {
				if err := judgeInKernel(l, fl, g.built, g.lines); err != nil {
					t.Errorf("iptables-%s: %v", fl, err)
				}
			}
		}
	})
}

// hooked builds with the jumps without which no packet meets the text.
func hooked(level int) func(*compiler.Options) {
	return func(o *compiler.Options) { o.Hooks, o.Level = true, level }
}

// forKernel are the lines that the kernel can judge.
func forKernel(lines []Trace) []Trace {
	return slices.DeleteFunc(slices.Clone(lines), func(t Trace) bool { return !t.InKernel() })
}

// byNode groups lines by the addresses that the node bears.
func byNode(lines []Trace) (groups [][]Trace) {
	at := map[string]int{}
	for _, t := range lines {
		key := fmt.Sprint(t.Local)
		i, ok := at[key]
		if !ok {
			i = len(groups)
			at[key], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return groups
}

// labConfig is the node on which lines are judged.
func labConfig(r built, lines []Trace) (c lab.Config) {
	c.Addrs = slices.Clone(lines[0].Local)
	for _, u := range r.Units {
		w := WorldOf(u.Program)
		c.Addrs = append(c.Addrs, w.NodeIP)
		if w.Pods.Kind == ir.DetectCIDR {
			c.Pods = append(c.Pods, w.Pods.Prefix)
		}
		for _, t := range lines {
			if in := w.via(t); in != "" && in != lab.Pods && in != lab.Outside {
				c.Interfaces = append(c.Interfaces, in)
			}
		}
	}
	slices.SortFunc(c.Addrs, netip.Addr.Compare)
	c.Addrs = slices.DeleteFunc(slices.Compact(c.Addrs), netip.Addr.IsLoopback)
	slices.Sort(c.Interfaces)
	c.Interfaces = slices.Compact(c.Interfaces)
	return c
}

// judgeInKernel loads a case's rules, has its lines judged and flushes them.
func judgeInKernel(l *lab.Lab, fl lab.Flavour, r built, lines []Trace) error {
	for _, u := range r.Units {
		for _, s := range u.Sections {
			if err := l.LoadIPTables(fl, s.Family, string(s.Text)); err != nil {
				return err
			}
		}
	}
	var errs []error
	for _, drop := range []bool{false, true} {
		some := slices.DeleteFunc(slices.Clone(lines), func(t Trace) bool { return t.ForwardDrop != drop })
		if drop && len(some) > 0 {
			errs = append(errs, l.ForwardPolicy(fl, ir.IPv4, "DROP"), l.ForwardPolicy(fl, ir.IPv6, "DROP"))
		}
		errs = append(errs, probe(l, r, some))
	}
	return errors.Join(append(errs, l.Flush(fl))...)
}

// probe sends the packets of all lines at once.
func probe(l *lab.Lab, r built, lines []Trace) error {
	worlds := map[ir.Family]World{}
	for _, u := range r.Units {
		worlds[u.Family] = WorldOf(u.Program)
	}
	var flows []lab.Flow
	ends := make([]int, len(lines))
	for i, t := range lines {
		if worlds[t.Family()].Family == 0 {
			return fmt.Errorf("line %d: %s\n  nothing was compiled for %s", t.Line, t.Text, t.Family())
		}
		flows = append(flows, worlds[t.Family()].flows(t, uint16(1024+len(flows)))...)
		if ends[i] = len(flows); len(flows) > 64000 {
			return errors.New("a case needs more packets than there are ports")
		}
	}
	seen, err := l.Probe(flows)
	if err != nil {
		return err
	}
	var errs []error
	begin := 0
	for i, t := range lines {
		judge := t.JudgeSeen
		if worlds[t.Family()].oneSided(t) {
			judge = t.judgeSome
		}
		errs = append(errs, judge(flows[begin:ends[i]], seen[begin:ends[i]]))
		begin = ends[i]
	}
	return errors.Join(errs...)
}

// A rule that is wrong in a way that only packets show is noticed.
func TestKernelNoticesFaults(t *testing.T) {
	lab.Require(t)
	c, err := ReadCase("cases/worked-example.txtar")
	if err != nil {
		t.Fatal(err)
	}
	r := compile(t, c, hooked(0))
	lines := byNode(forKernel(c.Traces))[0]
	l := lab.New(t, labConfig(r, lines))
	if err := judgeInKernel(l, lab.Legacy, r, lines); err != nil {
		t.Fatal(err)
	}
	text := r.Units[0].Sections[0].Text
	for _, fault := range []struct{ right, wrong string }{
		{"-j MASQUERADE --random-fully", "-j ACCEPT"},
		{"--probability 0.5000000000", "--probability 1.0000000000"},
		{"-j REJECT", "-j DROP"},
		{"80 -j DROP", "80 -j REJECT"},
		{"--dport 30443", "--dport 30444"},
		{"--rcheck --seconds 10800 --reap", "--rcheck --seconds 10800 --hitcount 20"},
		{" ! -s 10.244.0.0/16", ""},
		{"--to-destination 10.244.2.11:6000", "--to-destination 10.244.2.11:6001"},
		{"-s 192.0.2.0/24", "-s 192.0.2.0/29"},
	} {
		spoilt := bytes.ReplaceAll(text, []byte(fault.right), []byte(fault.wrong))
		if bytes.Equal(spoilt, text) {
			t.Errorf("no rule has %q", fault.right)
		}
		r.Units[0].Sections[0].Text = spoilt
		err := judgeInKernel(l, lab.Legacy, r, lines)
		if err == nil || !strings.Contains(err.Error(), " packet") {
			t.Errorf("%q instead of %q: %v", fault.wrong, fault.right, err)
		}
	}
}
