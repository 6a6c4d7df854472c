package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"time"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/sums"
	"svcc/emit"
	"svcc/ir"
)

// Target programs one machine's, or one network namespace's, virtual servers.
// It takes rulesets of other modes as well: those have none, so what is ours of
// them goes. It must not be used by two goroutines at once.
type Target struct {
	// Glue programs the iptables rules.
	Glue *iptables.Target
	// Runner runs ipset and modprobe.
	Runner apply.Runner
	Kernel Kernel
	// Exclude are addresses whose virtual servers are never taken away unless
	// this Target's ruleset has them, beside those that rulesets exclude.
	Exclude []netip.Prefix
	// Modprobe lets Preflight load the kernel's module.
	Modprobe bool
	// DrainTimeout is how long Tidy waits for connections to destinations that
	// are gone to end; 0 for not at all.
	DrainTimeout time.Duration
	// TakeOver lets Plan take over virtual servers of others that are in the way;
	// otherwise it refuses.
	TakeOver bool

	aim      *aim                   // what was read last
	rulesets func() []*emit.Ruleset // that tell what is ours as well; nil for none
	known    *known                 // what was read of them last
}

var (
	_ apply.Target      = (*Target)(nil)
	_ apply.Recognizing = (*Target)(nil)
	_ apply.Tidying     = (*Target)(nil)
)

// Remember implements apply.Target.
func (t *Target) Remember(made []string) { t.Glue.Remember(made) }

// Leaves implements apply.Target.
func (t *Target) Leaves() []string { return []string{"iptables", "ipvs"} }

// Recall implements apply.Target.
func (t *Target) Recall(seen []byte) error { return t.Glue.Recall(seen) }

// Seen implements apply.Target.
func (t *Target) Seen() []byte { return t.Glue.Seen() }

// Preflight implements apply.Target. What the kernel lacks is for Plan to
// say: to take away what is not there, nothing is needed.
func (t *Target) Preflight(ctx context.Context) (flavour string, err error) {
	if flavour, err = t.Glue.Preflight(ctx); err != nil {
		return "", err
	}
	if out, err := t.Runner.Run(ctx, apply.Input{Tool: "ipset", Args: []string{"version"}}); err == nil {
		version, _, _ := strings.Cut(strings.TrimSpace(string(out)), ",")
		flavour += ", " + version
	}
	if _, err := t.Kernel.Timeouts(); errors.Is(err, ErrNoIPVS) && t.Modprobe {
		_, _ = t.Runner.Run(ctx, apply.Input{Tool: "modprobe", Args: []string{"ip_vs"}})
	}
	return flavour, ctx.Err()
}

// Observe implements apply.Target.
func (t *Target) Observe(ctx context.Context) (apply.Observed, error) {
	glue, err := t.Glue.Observe(ctx)
	if err != nil {
		return nil, err
	}
	o, err := t.observe(ctx)
	if err != nil {
		return nil, err
	}
	o.glue = glue
	if err := t.readUses(ctx, o); err != nil {
		return nil, err
	}
	return o, nil
}

// observe reads all but the glue. Sets first, servers last: what proves a
// server to be ours was there when it was read, as nobody else writes it.
func (t *Target) observe(ctx context.Context) (*observed, error) {
	o := &observed{state: &state{}}
	var dump []byte
	var err error
	if !sums.Idle("/", "ip_set") {
		dump, err = t.Runner.Run(ctx, apply.Input{Tool: "ipset", Args: []string{"save"}})
	}
	switch {
	case noSets(err):
		o.noSets, o.unseen = err.Error(), t.kernelSets()
	case err != nil:
		return nil, fmt.Errorf("reading the sets: %w", err)
	default:
		if err := o.state.readSets(dump); err != nil {
			return nil, err
		}
		if err := t.believe(o.state); err != nil {
			return nil, err
		}
	}
	if err := o.readLink(t.Kernel); err != nil {
		return nil, err
	}
	if err := o.readServers(t); err != nil {
		return nil, err
	}
	return o, ctx.Err()
}

// noSets says that ipset failed because there can be no sets: the tool is not
// there, or the kernel does not know them.
func noSets(err error) bool {
	var tool *apply.ToolError
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return errors.As(err, &tool) && strings.Contains(tool.Stderr, "Cannot open session to kernel")
}

func (o *observed) readLink(k Kernel) error {
	there, addresses, err := k.Link()
	if errors.Is(err, ErrLink) {
		o.noLink = err.Error()
		return nil
	}
	if err != nil {
		return err
	}
	o.state.Link = there
	for _, a := range addresses {
		for i, f := range ir.Families {
			if f.Of(a) {
				o.state.Families[i].Addresses = append(o.state.Families[i].Addresses, a)
			}
		}
	}
	return nil
}

// readServers tells ours from others.
func (o *observed) readServers(t *Target) error {
	all, err := t.Kernel.Servers()
	if errors.Is(err, ErrNoIPVS) {
		o.noIPVS = err.Error()
		return nil
	}
	if err == nil {
		o.state.Timeouts, err = t.Kernel.Timeouts()
	}
	if err != nil {
		return err
	}
	owners := [2]*owner{o.state.Families[0].owner(), o.state.Families[1].owner()}
	for _, s := range all {
		i := slices.Index(ir.Families, family(s.Address.Addr()))
		if owners[i].owns(s.Key) {
			o.state.Families[i].Servers = append(o.state.Families[i].Servers, s)
		} else {
			o.foreign = append(o.foreign, s)
		}
	}
	if len(o.foreign) > 0 {
		o.recognize(t.recognized())
	}
	return nil
}

// Load implements apply.Target.
func (t *Target) Load(text []byte) (apply.Observed, error) {
	o, err := t.load(text)
	if err != nil {
		return nil, err
	}
	return o, nil
}

// Commit implements apply.Target.
func (t *Target) Commit(ctx context.Context, p apply.Plan) error {
	own, ok := p.(*plan)
	if !ok {
		return fmt.Errorf("internal error: %T was not planned here", p)
	}
	return t.perform(ctx, own.steps)
}

func (t *Target) perform(ctx context.Context, steps []step) error {
	for _, s := range steps {
		if err := s.commit(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// Restore implements apply.Target. Destinations that a run added do not outlive
// it for the sake of draining, unless they have connections.
func (t *Target) Restore(ctx context.Context, to apply.Observed) error {
	want, ok := to.(*observed)
	if !ok {
		return fmt.Errorf("internal error: %T was not observed here", to)
	}
	if want.state == nil {
		return t.Glue.Restore(ctx, want.glue)
	}
	now, err := t.Observe(ctx)
	if err != nil {
		return err
	}
	have := now.(*observed).adopting(want.state)
	glue, err := t.glueBack(want)
	if err != nil {
		return err
	}
	back := lead(have.state, want.state)
	if err := t.perform(ctx, back.steps(glue)); err != nil {
		return err
	}
	_, _, err = t.drained(append(drainages(have.state, want.state), back.drains()...))
	return err
}

// glueBack restores the glue, of each family in time: before the servers that
// need it; else before any goes, if it is iptables mode's and serves in their
// place.
func (t *Target) glueBack(want *observed) ([]timedStep, error) {
	was, err := t.Glue.Plan(nil, want.glue)
	if err != nil {
		return nil, err
	}
	var at [2]glueAt
	for i, f := range ir.Families {
		switch {
		case len(want.state.Families[i].Sets) > 0:
		case iptables.Of(was, f).Empty():
			at[i] = glueLate
		default:
			at[i] = glueMid
		}
	}
	if at[0] == at[1] {
		return []timedStep{{at[0], glueBack{want.glue, ir.Families}}}, nil
	}
	return []timedStep{{at[0], glueBack{want.glue, ir.Families[:1]}}, {at[1], glueBack{want.glue, ir.Families[1:]}}}, nil
}
