package cli

import (
	"errors"
	"fmt"
	"io"

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
			"whether svcc or kube-proxy programmed it. Each service and packet that differs is named. Rules of other programs are passed over.\n" +
			"Of a node in IPVS mode, RULES have also what \"ipset save\", \"ip address show dev kube-ipvs0\" and \"ipvsadm -Sn\" print. The manifests\n" +
			"are compiled in the mode that the rules are of, unless --mode says otherwise.",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return errors.New("RULES and at least one PATH are needed")
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
			r, err := compile(o, d, s, nil)
			if err != nil {
				return err
			}
			return verify(s.out, rules, r, most)
		},
	}
	c.register(cmd.Flags())
	d.register(cmd.Flags())
	cmd.Flags().IntVar(&most, "most", most, "show at most so many services in full")
	return cmd
}

// verify compares every family of the manifests and tells what differs.
func verify(w io.Writer, rules *rules, r *compiler.Result, most int) error {
	bad := false
	for _, u := range r.Units {
		walker := rules.walkers[u.Family]
		if walker == nil {
			fmt.Fprintf(w, "%s: the rules have no part for this family\n", u.Family)
			bad = true
			continue
		}
		if err := rules.missing[u.Family]; err != nil {
			return exit{exitUsage, fmt.Errorf("%s: %w", u.Family, err)}
		}
		differ, err := verifyFamily(w, u.Program, walker, most, rules)
		if err != nil {
			return exit{exitRefused, err}
		}
		bad = bad || differ
	}
	if bad {
		return exit{code: exitFindings}
	}
	return nil
}

// mostBroken is how many packets that cannot be followed are enough: each may
// take seconds in rules that part without end.
const mostBroken = 3

// verifyFamily shows the first difference of each service, and counts the rest.
func verifyFamily(w io.Writer, p *ir.Program, walker emit.Walker, most int, r *rules) (bool, error) {
	counts := map[string]int{}
	broken := 0
	audit := newAudit(p, walker, r)
	n, err := proof.Compare(p, walker.Own(), func(d proof.Difference) bool {
		if r.kubeProxy && toItself(d.Probe.Packet) || audit.passes(&d) {
			return true
		}
		counts[d.Probe.Name()]++
		if audit.worthShowing(&d) && len(counts) <= most {
			fmt.Fprintf(w, "%s: %s\n", p.Family, diag.Plain(d.Error()))
		}
		if d.Err != nil && !errors.Is(d.Err, emit.ErrUnreadable) {
			broken++
		}
		return broken < mostBroken
	})
	if err != nil {
		return false, err
	}
	for _, line := range walker.Foreign() {
		fmt.Fprintf(w, "%s: not followed, another program's rule: %s\n", p.Family, diag.PlainLine(line))
	}
	audit.print(w)
	if len(counts) == 0 {
		fmt.Fprintf(w, "%s: %s, %d packets: the rules mean what the manifests say\n", p.Family, ports(len(p.Services)), n)
		return false, nil
	}
	total := 0
	for _, c := range counts {
		total += c
	}
	services := len(counts)
	if counts[""] > 0 {
		services--
	}
	fmt.Fprintf(w, "%s: %d of %d packets differ, of %s\n", p.Family, total, n, ports(services))
	return true, nil
}

// toItself says that a packet is a pod's to its own address, which does not leave
// the pod. kube-proxy's rules of IPVS mode would masquerade it.
func toItself(p eval.Packet) bool { return p.In != "" && p.Src.Addr() == p.Dst.Addr() }

func ports(n int) string {
	if n == 1 {
		return "1 service port"
	}
	return fmt.Sprintf("%d service ports", n)
}
