package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/spf13/cobra"

	"svcc/compiler"
	"svcc/compiler/addr"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/diag"
	"svcc/ir/eval"
)

// traceFlags describe the packet.
type traceFlags struct {
	from, to, in, state, source string
	mark                        uint32
	local                       []string
}

func newTrace(s streams) *cobra.Command {
	var c compileFlags
	var d diagnosticFlags
	var t traceFlags
	cmd := &cobra.Command{
		Use:   "trace PATH...|RULES --from pod|node|outside|IP --to IP:PORT[/PROTO]|NS/NAME[:PORT]",
		Short: "Show a packet's way through the rules",
		Long: "Show the way of one packet, hook by hook, through the rules that the manifests make, or through RULES: a ruleset file or\n" +
			"what tools print of a node (see svcc verify --help). A choice by chance, or a virtual server's, is followed on every branch, with\n" +
			"its share. A ruleset file tells of its node what no flag says.",
		Args: needPaths,
		RunE: func(_ *cobra.Command, args []string) error {
			o, err := c.options(args, "")
			if err != nil {
				return err
			}
			o.Stdin = s.in
			to, err := parseDestination(t.to)
			if err != nil {
				return fmt.Errorf("--to: %w", err)
			}
			to.client, _ = netip.ParseAddr(cmp.Or(t.source, t.from))
			on, err := tracedFor(args, o, d, s, &to)
			if err != nil {
				return err
			}
			packet, host, err := t.packet(on.node, to.at, to.proto)
			if err != nil {
				return err
			}
			if err := showTrace(s.out, on.walker, packet, host, on.node.Options.Facts().BindsAddresses); err != nil {
				return err
			}
			return leftOut(on.compiled)
		},
	}
	c.register(cmd.Flags())
	d.register(cmd.Flags())
	t.register(cmd)
	return cmd
}

func (t *traceFlags) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.from, "from", "", "who sends: pod, node, outside, or an address that comes in from outside or from the pods")
	f.StringVar(&t.to, "to", "", "IP:PORT or [IP]:PORT, with /udp or /sctp if it is not tcp; or a Service, NS/NAME or NS/NAME:PORT")
	f.StringVar(&t.in, "in", "", "the interface of entry (default: one that fits --from)")
	f.StringVar(&t.source, "source", "", "the source address, where --from is a word")
	f.StringVar(&t.state, "state", "new", "new, established, related, invalid, expected (of a flow that another one announced), untracked")
	f.Uint32Var(&t.mark, "mark", 0, "the packet mark on arrival")
	f.StringSliceVar(&t.local, "local", nil, "further addresses on the node's interfaces")
	_ = cmd.MarkFlagRequired("from")
	_ = cmd.MarkFlagRequired("to")
}

// traced is what a packet is sent through.
type traced struct {
	walker   emit.Walker
	node     *ir.Program      // for what it says of the node: of RULES, no services
	compiled *compiler.Result // nil for RULES
}

// tracedFor reads one RULES file, or compiles manifests, and finds the destination's
// address.
func tracedFor(args []string, o compiler.Options, d diagnosticFlags, s streams, to *destination) (*traced, error) {
	if len(args) == 1 && holdsRules(args[0]) {
		return tracedIn(args[0], o, to)
	}
	o.NoProof = false
	r, err := compile(o, d, s, nil)
	if err != nil {
		return nil, err
	}
	if err := to.resolve(r.Programs()); err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	f := ir.FamilyOf(to.at.Addr())
	for _, u := range r.Units {
		if u.Family == f {
			return &traced{u.Walker, u.Program, r}, nil
		}
	}
	return nil, fmt.Errorf("the manifests have no service in %s", f)
}

// tracedIn reads a RULES file.
func tracedIn(path string, o compiler.Options, to *destination) (*traced, error) {
	r, err := readRules(path, nil)
	if err != nil {
		return nil, err
	}
	if len(r.programs) == 0 && to.service != "" {
		return nil, fmt.Errorf("--to: %s does not know Services by name: give IP:PORT", path)
	}
	if err := to.resolve(r.programs); err != nil {
		return nil, fmt.Errorf("--to: %w", err)
	}
	f := ir.FamilyOf(to.at.Addr())
	if r.walkers[f] == nil {
		return nil, fmt.Errorf("%s has no rules for %s", path, f)
	}
	p, err := r.facts(o, f)
	return &traced{walker: r.walkers[f], node: p}, err
}

// packet makes the packet and the host that the flags describe.
func (t *traceFlags) packet(p *ir.Program, dst netip.AddrPort, proto ir.Protocol) (eval.Packet, eval.Host, error) {
	clients := eval.NewClients(p)
	host := clients.Host
	for _, s := range t.local {
		a, _, err := addr.Parse(s)
		if err != nil {
			return eval.Packet{}, host, fmt.Errorf("--local: %w", err)
		}
		host.Addrs = append(host.Addrs, a)
	}
	src, in, err := t.client(p, clients)
	if err != nil {
		return eval.Packet{}, host, err
	}
	if t.in != "" {
		in = t.in
	}
	packet := eval.Packet{Src: netip.AddrPortFrom(src, eval.ClientPort), Dst: dst, Protocol: proto, In: in, Mark: t.mark}
	for _, state := range eval.States {
		if state.String() == t.state {
			packet.State = state
			return packet, host, nil
		}
	}
	return packet, host, fmt.Errorf("--state %q is none of new, established, related, invalid, expected, untracked", t.state)
}

// client gives the source and the interface that --from means.
func (t *traceFlags) client(p *ir.Program, c eval.Clients) (src netip.Addr, in string, err error) {
	switch t.from {
	case "pod":
		if p.Options.Pods.Kind == ir.DetectNone {
			return src, "", errors.New("--from pod: nothing says how pods are recognised; give --cluster-cidr, or a source address")
		}
		src, in = c.Pod, c.PodIn
	case "node":
		src = c.Node
	case "outside":
		src, in = c.Outside, c.OutsideIn
	default:
		if src, _, err = addr.Parse(t.from); err != nil {
			return src, "", fmt.Errorf("--from %q is none of pod, node, outside, nor an address", t.from)
		}
		in = c.OutsideIn
		if p.Options.Pods.Match(src, c.PodIn) && p.Options.Pods.Kind == ir.DetectCIDR {
			in = c.PodIn
		}
	}
	if t.source != "" {
		if src, _, err = addr.Parse(t.source); err != nil {
			return src, "", fmt.Errorf("--source: %w", err)
		}
	}
	if !p.Family.Of(src) {
		return src, "", fmt.Errorf("source %s and the destination are of different families", src)
	}
	return src, in, nil
}

func showTrace(w io.Writer, walker emit.Walker, p eval.Packet, h eval.Host, virtual bool) error {
	fmt.Fprintf(w, "packet %s\n", diag.PlainLine(p.String()))
	outcome, way, err := walker.Trace(p, h)
	for _, hop := range way {
		fmt.Fprintf(w, "  %s\n", diag.PlainLine(hop.String()))
	}
	if err != nil {
		return exit{exitRefused, err}
	}
	for _, b := range outcome {
		if v := b.Verdict(); virtual && v.Refused() {
			fmt.Fprintf(w, "=> %s %s\n", b.Share, v) // of which hook, the way tells
			continue
		}
		fmt.Fprintf(w, "=> %s\n", b)
	}
	showPolicies(w, walker, outcome)
	return nil
}

// showPolicies says of each hook that leaves a packet to its policy, if the rules
// come from a node where that is DROP, what becomes of it.
func showPolicies(w io.Writer, walker emit.Walker, outcome eval.Outcome) {
	of, ok := walker.(interface {
		Policy(hook string) eval.Verdict
	})
	if !ok {
		return
	}
	for _, hook := range []struct {
		name    string
		verdict func(eval.Branch) eval.Verdict
	}{
		{"OUTPUT", func(b eval.Branch) eval.Verdict { return b.Output }},
		{"FORWARD", func(b eval.Branch) eval.Verdict { return b.Forward }},
		{"INPUT", func(b eval.Branch) eval.Verdict { return b.Input }},
	} {
		left := func(b eval.Branch) bool { return hook.verdict(b) == eval.Policy }
		if of.Policy(hook.name) == eval.Drop && slices.ContainsFunc(outcome, left) {
			fmt.Fprintf(w, "the policy of %s is DROP: what is left to it is dropped\n", hook.name)
		}
	}
}
