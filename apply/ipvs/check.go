package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"svcc/apply"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// Check implements apply.Target. In a network namespace of its own it makes the
// sets, with the entries that are to come, and asks for each scheduler that is
// to come; there the glue is tried as well, which cannot be without its sets.
func (t *Target) Check(ctx context.Context, p apply.Plan) (notes []string, err error) {
	own, ok := p.(*plan)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not planned here", p)
	}
	notes = own.left()
	if !own.tries() {
		return notes, nil
	}
	box, err := t.Kernel.Sandbox()
	if errors.Is(err, syscall.EPERM) {
		notes = append(notes, "sets and schedulers: not tried in a network namespace of their own: that needs CAP_SYS_ADMIN")
	} else if err != nil {
		return nil, err
	}
	if box != nil {
		defer box.Close()
		box.Do(func(k Kernel) { err = t.rehearse(ctx, k, own) })
		if err != nil {
			return nil, fmt.Errorf("tried in a network namespace of its own: %w", err)
		}
	}
	if own.glue.Empty() {
		return notes, nil
	}
	glue := *t.Glue
	glue.Runner = checking{t.Glue.Runner, box, own.newSets}
	more, err := glue.Check(ctx, own.glue)
	return append(notes, more...), err
}

// left names the sets that are to go and cannot.
func (p *plan) left() (notes []string) {
	_, busy := setsGone(p.route.edits)
	for _, name := range busy {
		notes = append(notes, fmt.Sprintf("set %s is emptied and left, as rules or sets that are not svcc's use it (iptables-save and ipset list tell which); without these, svcc remove takes it away", name))
	}
	return notes
}

// tries says whether there is anything that could be refused.
func (p *plan) tries() bool {
	return len(p.route.edits) > 0 || !p.glue.Empty() || slices.ContainsFunc(p.route.come, Op.probed)
}

// probed says whether an operation needs a scheduler.
func (o Op) probed() bool { return o.Verb == AddServer || o.Verb == SetServer }

// checking runs the glue's tests where its sets are.
type checking struct {
	apply.Runner
	box     Sandbox
	newSets bool
}

// Run has no test beside the rules in force where these lack the sets: the
// whole is loaded in the sandbox all the same.
func (c checking) Run(ctx context.Context, in apply.Input) (out []byte, err error) {
	switch {
	case !in.Isolated && c.newSets && slices.Contains(in.Args, "--test"):
		return nil, nil
	case !in.Isolated:
		return c.Runner.Run(ctx, in)
	case c.box == nil:
		return nil, &apply.ToolError{Tool: in.Tool, Args: in.Args, Code: -1, Err: syscall.EPERM}
	}
	in.Isolated = false
	c.box.Do(func(Kernel) { out, err = c.Runner.Run(ctx, in) })
	return out, err
}

// rehearse makes all wanted sets, for the glue, and fills those that change.
func (t *Target) rehearse(ctx context.Context, k Kernel, p *plan) error {
	var text setsText
	for i, f := range ir.Families {
		for _, set := range p.route.want.Families[i].Sets {
			text.line("%s", set.Create(f))
		}
	}
	for _, e := range p.route.edits {
		if e.want != nil && e.have != nil && edited(e.have, e.want) {
			text.each("add", e.want.Name, more(e.want, e.have))
		} else if e.want != nil {
			text.each("add", e.want.Name, e.want.Entries)
		}
	}
	if text.Len() > 0 && (len(p.route.edits) > 0 || !p.glue.Empty()) {
		if err := setsStep(text.String()).commit(ctx, &Target{Runner: t.Runner}); err != nil {
			return err
		}
	}
	return probe(k, p.route.come)
}

// Addresses for virtual servers that only try something: TEST-NET-2 (RFC 5737)
// and documentation's (RFC 3849).
var probeAddresses = map[ir.Family]netip.Addr{
	ir.IPv4: netip.MustParseAddr("198.51.100.0"),
	ir.IPv6: netip.MustParseAddr("2001:db8::"),
}

const probePort = 20000

// probe makes a virtual server by each scheduler that is to come.
func probe(k Kernel, come []Op) error {
	type kind struct {
		family    ir.Family
		scheduler string
		flags     uint32
	}
	tried := map[kind]bool{}
	for _, o := range come {
		if !o.probed() {
			continue
		}
		f := family(o.Server.Address.Addr())
		if this := (kind{f, o.Server.Scheduler, o.Server.Flags}); !tried[this] {
			tried[this] = true
			if err := Probe(k, o.Server, f); err != nil {
				return fmt.Errorf("virtual server %s: %w", o.Server.Key, err)
			}
		}
	}
	return nil
}

// Probe makes a virtual server like s at an address for documentation, and takes
// it away again. An error is the kernel's: it has no such scheduler, or flags.
func Probe(k Kernel, s Server, f ir.Family) error {
	s.Key = spec.Key{Protocol: ir.TCP, Address: netip.AddrPortFrom(probeAddresses[f], probePort)}
	err := k.Do(Op{Verb: AddServer, Server: s})
	if err == nil {
		err = k.Do(Op{Verb: DelServer, Server: s})
	}
	return err
}
