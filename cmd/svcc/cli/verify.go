package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"svcc/compiler"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/diag"
	"svcc/ir/eval"
)

func newVerify(s streams) *cobra.Command {
	var c compileFlags
	var d diagnosticFlags
	most := 10
	cmd := &cobra.Command{
		Use:   "verify RULES PATH...",
		Short: "Prove rules against manifests",
		Long: "Prove that RULES mean what the manifests say: a ruleset file, or what iptables-save (and ip6tables-save) print on a node,\n" +
			"whether svcc or kube-proxy programmed it. Where no flag says how pods are told from others, a ruleset file does. Each service and packet that differs is shown, and what the rules do for Services\n" +
			"that the manifests lack. Rules of other programs are passed over; -v lists those that cannot be followed.\n" +
			"Of a node in IPVS mode, RULES have also what \"ipset save\", \"ip address show dev kube-ipvs0\" and \"ipvsadm -Sn\" print. The manifests\n" +
			"are compiled in the mode that the rules are of, unless --mode says otherwise.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("RULES and at least one PATH are needed")
			}
			if err := inOrder(args[0], args[1:]); err != nil {
				return err
			}
			o, err := c.options(args[1:], "")
			if err != nil {
				return err
			}
			o.Stdin, o.NoProof = s.in, true
			rules, err := readRules(args[0], s.in)
			if err != nil {
				return err
			}
			if err := c.nodeOf(&o, rules, args[0]); err != nil {
				return err
			}
			c.as(&o, rules)
			podsAs(&o, rules.programs)
			r, err := compile(o, d, s, nil)
			if err != nil {
				return err
			}
			v := verifier{s.out, rules, most, d.verbose}
			return v.verify(r, o)
		},
	}
	c.register(cmd.Flags())
	d.register(cmd.Flags())
	cmd.Flags().IntVar(&most, "most", most, "show at most so many services in full")
	return cmd
}

// verifier holds rules against what manifests say.
type verifier struct {
	out     io.Writer
	rules   *rules
	most    int  // services that are shown in full
	verbose bool // whether rules of other programs are listed
}

// verify compares every family of the manifests, and what the rules have of a
// family that the manifests do not have.
func (v *verifier) verify(r *compiler.Result, o compiler.Options) error {
	bad := false
	units := map[ir.Family]bool{}
	for _, u := range r.Units {
		units[u.Family] = true
		walker := v.rules.walkers[u.Family]
		if walker == nil {
			fmt.Fprintf(v.out, "%s: the rules have no part for this family\n", u.Family)
			bad = true
			continue
		}
		if err := v.rules.missing[u.Family]; err != nil {
			return exit{exitUsage, fmt.Errorf("%s: %w", u.Family, err)}
		}
		differ, err := v.family(u.Program, walker)
		if err != nil {
			return exit{exitRefused, err}
		}
		bad = bad || differ
	}
	for _, f := range ir.Families {
		if v.rules.walkers[f] == nil || units[f] {
			continue
		}
		differ, err := v.further(f, o)
		if err != nil {
			return exit{exitRefused, err}
		}
		bad = bad || differ
	}
	if bad {
		return exit{code: exitFindings}
	}
	return leftOut(r)
}

// inOrder refuses RULES and PATHs that stand the wrong way round.
func inOrder(rules string, paths []string) error {
	if holdsRules(rules) {
		return nil
	}
	if i := slices.IndexFunc(paths, holdsRules); i >= 0 {
		return fmt.Errorf("RULES comes first, then the manifests: svcc verify %s %s", paths[i], rules)
	}
	if info, err := os.Stat(rules); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a directory, where a file of rules is expected: RULES comes first, then the manifests", rules)
	}
	return nil
}

// further looks at a family in which no Service of the manifests is: rules may
// serve there what the manifests lack. What else they do there is nobody's to say.
func (v *verifier) further(f ir.Family, o compiler.Options) (bool, error) {
	p, err := compiler.Facts(o, f)
	if err != nil {
		return false, err
	}
	services, served := map[string]bool{}, 0
	_, err = proof.CompareBeyond(p, v.rules.walkers[f].Own(), func(d proof.Difference) bool {
		if !d.Serves() || v.passes(p, &d) {
			return true
		}
		name := d.Probe.Name()
		if served++; !services[name] && len(services) < v.most {
			fmt.Fprintf(v.out, "%s: %s\n", f, diag.Plain(d.Error()))
		}
		services[name] = true
		return true
	})
	if served > 0 {
		fmt.Fprintf(v.out, "%s: no Service of the manifests is of this family, and the rules serve or refuse %d packets\n", f, served)
	}
	return served > 0, err
}

// mostBroken is how many packets that cannot be followed are enough: each may
// take seconds in rules that part without end.
const mostBroken = 3

// family shows the first difference of each service, and counts the rest.
func (v *verifier) family(p *ir.Program, walker emit.Walker) (bool, error) {
	var c counts
	broken := 0
	audit := newAudit(p, walker, v.rules)
	n, err := proof.Compare(p, walker.Own(), func(d proof.Difference) bool {
		if v.passes(p, &d) || audit.passes(&d) {
			return true
		}
		c.add(d.Probe)
		if audit.worthShowing(&d) && c.names() <= v.most {
			fmt.Fprintf(v.out, "%s: %s\n", p.Family, diag.Plain(d.Error()))
		}
		if d.Err != nil && !errors.Is(d.Err, emit.ErrUnreadable) {
			broken++
		}
		return broken < mostBroken
	})
	if err != nil {
		return false, err
	}
	v.foreign(p.Family, walker)
	audit.print(v.out)
	if c.packets == 0 {
		fmt.Fprintf(v.out, "%s: %s, %d packets: the rules mean what the manifests say\n", p.Family, ports(len(p.Services)), n)
		return false, nil
	}
	fmt.Fprintf(v.out, "%s: %d of %d packets differ, of %s\n", p.Family, c.packets, n, &c)
	return true, nil
}

// foreign says how many rules of other programs have no model, or which.
func (v *verifier) foreign(f ir.Family, walker emit.Walker) {
	list := walker.Foreign()
	switch {
	case v.verbose:
		for _, line := range list {
			fmt.Fprintf(v.out, "%s: not followed, another program's rule: %s\n", f, diag.PlainLine(line))
		}
	case len(list) > 0:
		what := "1 rule of another program is"
		if len(list) > 1 {
			what = fmt.Sprintf("%d rules of other programs are", len(list))
		}
		fmt.Fprintf(v.out, "%s: %s not followed (-v lists them)\n", f, what)
	}
}

// counts are the packets that differ, by whose they are.
type counts struct {
	services, further map[string]bool // of the manifests, and of the rules alone
	other             bool            // packets of none
	packets           int
}

// add counts a packet.
func (c *counts) add(p eval.Probe) {
	c.packets++
	if p.Name() == "" {
		c.other = true
		return
	}
	list := &c.services
	if p.Service == "" {
		list = &c.further
	}
	if *list == nil {
		*list = map[string]bool{}
	}
	(*list)[p.Name()] = true
}

// names is how many services there are, and what is of none.
func (c *counts) names() int {
	n := len(c.services) + len(c.further)
	if c.other {
		n++
	}
	return n
}

// String gives "2 service ports and 1 that the manifests lack".
func (c *counts) String() string {
	if len(c.further) == 0 {
		return ports(len(c.services))
	}
	return fmt.Sprintf("%s and %d that the manifests lack", ports(len(c.services)), len(c.further))
}

// passes says that a difference is kube-proxy's IPVS mode as it is: it would
// masquerade what a pod sends to its own address, which does not leave the pod, and
// it opens health-check ports for every protocol, though nobody listens but by TCP.
func (v *verifier) passes(program *ir.Program, d *proof.Difference) bool {
	p := d.Probe.Packet
	if !v.rules.kubeProxy {
		return false
	}
	open := func(s *ir.ServicePort) bool { return s.HealthCheckNodePort == p.Dst.Port() }
	return p.Src.Addr() == p.Dst.Addr() && (p.In != "" || d.Probe.Told != "") ||
		p.Protocol != ir.TCP && slices.ContainsFunc(program.Services, open)
}

func ports(n int) string {
	if n == 1 {
		return "1 service port"
	}
	return fmt.Sprintf("%d service ports", n)
}
