package ipvs

import (
	"context"
	"errors"
	"strings"
	"time"

	"svcc/apply"
	"svcc/ir"
)

// step is one write.
type step interface {
	commit(ctx context.Context, t *Target) error
	// inputs is what tools would be given that did the same.
	inputs() []apply.Input
}

// setsStep is an input for ipset restore.
type setsStep string

func (s setsStep) inputs() []apply.Input {
	return []apply.Input{{Tool: "ipset", Args: []string{"restore"}, Stdin: []byte(s)}}
}

func (s setsStep) commit(ctx context.Context, t *Target) error {
	_, err := t.Runner.Run(ctx, s.inputs()[0])
	return err
}

// destroyStep destroys sets that nothing refers to any more.
type destroyStep []string

func (d destroyStep) inputs() []apply.Input {
	return setsStep("destroy " + strings.Join(d, "\ndestroy ") + "\n").inputs()
}

// How long iptables-nft's rules may hold on to sets after they were deleted: the
// kernel frees them when no packet is on its way through them any more, and
// does not wait for that.
const (
	releasePoll = 20 * time.Millisecond
	releaseWait = 5 * time.Second
)

func (d destroyStep) commit(ctx context.Context, t *Target) error {
	return d.until(ctx, t, time.Now().Add(releaseWait))
}

func (d destroyStep) until(ctx context.Context, t *Target, deadline time.Time) error {
	for {
		err := setsStep(d.inputs()[0].Stdin).commit(ctx, t)
		if !inUse(err) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(releasePoll):
		}
		if d, err = d.left(ctx, t); err != nil || len(d) == 0 {
			return err
		}
	}
}

func inUse(err error) bool {
	var tool *apply.ToolError
	return errors.As(err, &tool) && strings.Contains(tool.Stderr, "in use")
}

// leaveStep empties sets that others use, and leaves them. Whether it is not
// rules of ours that are gone already which the kernel counts is seen by waiting.
type leaveStep []string

const leaveWait = 200 * time.Millisecond

func (l leaveStep) inputs() []apply.Input {
	return setsStep("flush " + strings.Join(l, "\nflush ") + "\n").inputs()
}

func (l leaveStep) commit(ctx context.Context, t *Target) error {
	if err := setsStep(l.inputs()[0].Stdin).commit(ctx, t); err != nil {
		return err
	}
	deadline := time.Now().Add(leaveWait)
	for _, name := range l {
		if err := (destroyStep{name}).until(ctx, t, deadline); err != nil && !inUse(err) {
			return err
		}
	}
	return nil
}

// left are those of the sets that are still there.
func (d destroyStep) left(ctx context.Context, t *Target) (destroyStep, error) {
	out, err := t.Runner.Run(ctx, apply.Input{Tool: "ipset", Args: []string{"list", "-n"}})
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for name := range strings.Lines(string(out)) {
		there[strings.TrimSpace(name)] = true
	}
	var left destroyStep
	for _, name := range d {
		if there[name] {
			left = append(left, name)
		}
	}
	return left, nil
}

// glueStep writes iptables rules.
type glueStep struct{ plan apply.Plan }

func (g glueStep) inputs() []apply.Input                       { return g.plan.Inputs() }
func (g glueStep) commit(ctx context.Context, t *Target) error { return t.Glue.Commit(ctx, g.plan) }

// glueBack restores iptables rules that were observed, of some families.
type glueBack struct {
	to apply.Observed
	of []ir.Family
}

func (g glueBack) inputs() []apply.Input { return nil }

func (g glueBack) commit(ctx context.Context, t *Target) error {
	return t.Glue.RestoreOnly(ctx, g.to, g.of...)
}

func (o Op) inputs() []apply.Input {
	tool, args := o.Tool()
	return []apply.Input{{Tool: tool, Args: args, Stdin: []byte(o.String() + "\n")}}
}

func (o Op) commit(ctx context.Context, t *Target) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return t.Kernel.Do(o)
}

// glueAt says when the glue of a family is written.
type glueAt int

const (
	glueEarly glueAt = iota // before the first address: what masquerades is there before the first packet
	glueMid                 // before anything goes: rules of iptables mode serve until the servers do
	glueLate                // after the last server has gone
)

// timedStep is one of the glue.
type timedStep struct {
	at glueAt
	step
}

// steps puts a route in order.
func (r *route) steps(glue []timedStep) []step {
	var out []step
	sets := func(text string) {
		if text != "" {
			out = append(out, setsStep(text))
		}
	}
	glueHere := func(here glueAt) {
		for _, g := range glue {
			if g.at == here {
				out = append(out, g.step)
			}
		}
	}
	sets(setsFirst(r.edits, r.have.Temporary))
	glueHere(glueEarly)
	out = appendOps(out, r.come)
	glueHere(glueMid)
	out = appendOps(out, r.goes)
	glueHere(glueLate)
	if late := setsLate(r.edits); len(late) > 0 {
		out = append(out, destroyStep(late))
	}
	sets(setsLast(r.edits))
	gone, busy := setsGone(r.edits)
	if len(gone) > 0 {
		out = append(out, destroyStep(gone))
	}
	if len(busy) > 0 {
		out = append(out, leaveStep(busy))
	}
	return out
}

func appendOps(list []step, ops []Op) []step {
	for _, o := range ops {
		list = append(list, o)
	}
	return list
}

// inputs are those of steps in order, with one run of a tool for each row of
// operations.
func inputs(steps []step) []apply.Input {
	var out []apply.Input
	joins := false // whether the last input is a row of operations
	for _, s := range steps {
		_, op := s.(Op)
		for _, in := range s.inputs() {
			if last := len(out) - 1; op && joins && out[last].Tool == in.Tool {
				out[last].Stdin = append(out[last].Stdin, in.Stdin...)
			} else {
				out = append(out, in)
			}
			joins = op
		}
	}
	return out
}
