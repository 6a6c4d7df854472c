package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"svcc/compiler"
	"svcc/compiler/diff"
	"svcc/emit"
	"svcc/ir"
	"svcc/ir/diag"
	"svcc/ir/eval"
)

// explainCommand is svcc explain.
type explainCommand struct {
	streams
	compileFlags
	diagnosticFlags
}

func newExplain(s streams) *cobra.Command {
	e := &explainCommand{streams: s}
	cmd := &cobra.Command{
		Use:   "explain NS/NAME[:PORT] PATH... | CODE",
		Short: "Tell what a Service becomes, and why",
		Long: "Tell what a Service, or one port of it, becomes on a node: its promise, how a packet is decided, who is sent where with which\n" +
			"share, the names of its chains, in ipvs mode its virtual servers, addresses and entries of sets, and what svcc has to say about it.\n" +
			"Or tell what the CODE of a finding means.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				if code := strings.ToUpper(args[0]); strings.HasPrefix(code, "SVCC") {
					return explainCode(s.out, diag.Code(code))
				}
			}
			if len(args) < 2 {
				return errors.New("NS/NAME and at least one PATH are needed, or the code of a finding")
			}
			return e.run(args[0], args[1:])
		},
	}
	e.compileFlags.register(cmd.Flags())
	e.diagnosticFlags.register(cmd.Flags())
	return cmd
}

func explainCode(w io.Writer, c diag.Code) error {
	i := c.Info()
	if i.Title == "" {
		return fmt.Errorf("no finding has the code %s (svcc lint --list lists them)", c)
	}
	fmt.Fprintf(w, "%s  %s (%s)\n    %s\n", c, i.Title, i.Severity, i.Doc)
	return nil
}

var serviceName = regexp.MustCompile(`^([^/:]+/[^/:]+)(?::([^/:]+))?$`)

func (e *explainCommand) run(name string, paths []string) error {
	m := serviceName.FindStringSubmatch(name)
	if m == nil {
		return fmt.Errorf("%q is not NS/NAME or NS/NAME:PORT", name)
	}
	o, err := e.options(paths, "")
	if err != nil {
		return err
	}
	o.Stdin, o.NoProof, o.KeepGoing = e.in, true, true
	r, err := compiler.Compile(o, nil)
	if err != nil {
		return exit{exitRefused, err}
	}
	if r.Units == nil {
		e.show(e.err, r.Diagnostics.Errors())
		return exit{failure(r.Diagnostics), errors.New("there are errors: nothing can be explained")}
	}
	found := false
	var programs []*ir.Program
	for i := range r.Units {
		programs = append(programs, r.Units[i].Program)
		x := explained{Unit: &r.Units[i], options: o}
		x.choose(m[1], m[2])
		if len(x.ports) == 0 {
			continue
		}
		found = true
		if err := x.print(e.out); err != nil {
			return exit{exitRefused, err}
		}
	}
	about := mentioning(r.Diagnostics, m[1])
	e.verbose = !e.quiet
	e.show(e.out, about)
	e.closing(e.err, r, "")
	if !found {
		return exit{exitFindings, fmt.Errorf("no rules are made for %s: the input has no such Service, or it is left out (see the findings, if any)%s", name, meant(m[1], programs))}
	}
	return nil
}

// mentioning is what was found about a Service, or about something else in
// whose message it is named.
func mentioning(list diag.List, service string) (out diag.List) {
	word := regexp.MustCompile(`(^|[^-a-z0-9./])` + regexp.QuoteMeta(service) + `($|[^-a-z0-9./])`)
	for _, d := range list {
		text := d.Object + "\n" + d.Message
		for _, r := range d.Related {
			text += "\n" + r.Message
		}
		if word.MatchString(text) {
			out = append(out, d)
		}
	}
	return out
}

// explained is what one family has of a Service.
type explained struct {
	*compiler.Unit
	options compiler.Options
	ports   []*ir.ServicePort
}

// choose takes the ports of a Service, or the one of a name.
func (x *explained) choose(service, port string) {
	for _, s := range x.Program.Services {
		if s.Service() == service && (port == "" || s.Port == port) {
			x.ports = append(x.ports, s)
		}
	}
}

func (x *explained) mine(n ir.PortName) bool {
	return slices.ContainsFunc(x.ports, func(s *ir.ServicePort) bool { return s.PortName == n })
}

func (x *explained) print(w io.Writer) error {
	part := *x.Program
	part.Services = x.ports
	if err := part.Print(w, true); err != nil {
		return err
	}
	graph := *x.Graph
	graph.Entries = slices.DeleteFunc(slices.Clone(graph.Entries), func(e *ir.Entry) bool { return !x.mine(e.Service) })
	graph.OpenPorts = slices.DeleteFunc(slices.Clone(graph.OpenPorts), func(o ir.OpenPort) bool { return !x.mine(o.Service) })
	if err := graph.Print(w); err != nil {
		return err
	}
	if err := x.flows(w, &part); err != nil {
		return err
	}
	if x.Program.Options.Facts().BindsAddresses {
		if err := x.virtual(w, &part); err != nil {
			return err
		}
	}
	return x.chains(w, &part)
}

// flows tells who is sent where.
func (x *explained) flows(w io.Writer, part *ir.Program) error {
	fmt.Fprintf(w, "flows %s\n", x.Family)
	spec := eval.NewProgram(x.Program)
	c := eval.NewClients(part)
	for _, s := range part.Services {
		for _, f := range s.Frontends {
			to := eval.Packet{Dst: destinationOf(f, c), Protocol: s.Protocol}
			fmt.Fprintf(w, "  %s %s/%s\n", f.Kind, to.Dst, s.Protocol)
			for _, from := range sendersTo(x.Program, c) {
				to.Src, to.In = from.src, from.in
				o, err := spec.Outcome(to, c.Host)
				if err != nil {
					return err
				}
				fmt.Fprintf(w, "    from %-8s %s\n", from.name, diff.Describe(o))
			}
		}
	}
	return nil
}

// chains names the chains that only this Service's packets come by.
func (x *explained) chains(w io.Writer, part *ir.Program) error {
	walker, err := x.walker()
	if err != nil {
		return err
	}
	names := map[string]bool{}
	spec, looks := eval.NewProgram(part), eval.NewLooks(true)
	for probe := range eval.Sample(part) {
		if probe.Service == "" {
			continue
		}
		_, to, err := spec.Look(nil, probe, looks)
		if err != nil {
			return err
		}
		_, way, err := walker.TraceTo(probe.Packet, probe.Host, to)
		if err != nil {
			return err
		}
		for _, h := range way {
			if ofServices.MatchString(h.Chain) {
				names[h.Table+" "+h.Chain] = true
			}
		}
	}
	fmt.Fprintf(w, "chains %s\n", x.Family)
	if len(names) == 0 {
		fmt.Fprintln(w, "  none of its own")
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		fmt.Fprintf(w, "  %s\n", n)
	}
	return nil
}

// ofServices are the names of chains that stand for a part of a service port.
var ofServices = regexp.MustCompile(`^KUBE-(SVC|SVL|EXT|FW|SEP|SVCC)-[A-Z2-7]{16}$`)

// walker reads the family's own text back.
func (x *explained) walker() (emit.Walker, error) {
	return x.options.Mode.Backend.Parse(x.Family, x.Sections, x.options.Hooks)
}

// destinationOf is a frontend's address and port; a node port's at the node.
func destinationOf(f ir.Frontend, c eval.Clients) netip.AddrPort {
	if f.Kind == ir.NodePort {
		return netip.AddrPortFrom(c.Node, f.Port)
	}
	return netip.AddrPortFrom(f.Addr, f.Port)
}

// sender is a kind of client.
type sender struct {
	name string
	src  netip.AddrPort
	in   string
}

// sendersTo are those that a Service of a Program tells apart.
func sendersTo(p *ir.Program, c eval.Clients) []sender {
	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, eval.ClientPort) }
	list := []sender{{"the node", at(c.Node), ""}, {"outside", at(c.Outside), c.OutsideIn}}
	if p.Options.Pods.Kind == ir.DetectNone {
		return list // pods cannot be told from others
	}
	return append([]sender{{"a pod", at(c.Pod), c.PodIn}}, list...)
}
