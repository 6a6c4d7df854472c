package walk

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"svcc/emit"
	"svcc/ir/eval"
)

// Walker sends packets through a ruleset as the kernel would.
//
// A packet that comes in meets nat PREROUTING and then, by where its
// destination is, filter INPUT, or filter FORWARD and nat POSTROUTING. One
// that the node sends meets nat OUTPUT, filter OUTPUT and nat POSTROUTING, and
// if it goes to the node itself filter INPUT too, by interface lo. nat is
// consulted for the first packets of flows only. Tables mangle, raw and security are not
// walked, and neither is nat INPUT; Foreign lists what they would do.
type Walker struct {
	rs    *Ruleset
	base  [stageDone]int32 // the built-in chain of each stage; -1: no such table
	index []*chainIndex    // of each chain; nil if it is short
	own   bool             // foreign rules are passed over

	chances []*chances // of each chain; nil if it has few

	maxSteps int
	pool     *sync.Pool // of *walk
}

var _ emit.Walker = (*Walker)(nil)

// stage is one hook of one table, in the order in which packets come by.
type stage uint8

const (
	natPrerouting stage = iota
	natOutput
	serversOutput
	filterOutput
	filterForward
	natPostrouting
	filterInput
	serversInput
	stageDone
)

// stages name the hooks.
var stages = [stageDone]struct{ table, hook string }{
	natPrerouting:  {"nat", "PREROUTING"},
	natOutput:      {"nat", "OUTPUT"},
	filterOutput:   {"filter", "OUTPUT"},
	filterForward:  {"filter", "FORWARD"},
	natPostrouting: {"nat", "POSTROUTING"},
	filterInput:    {"filter", "INPUT"},
	serversOutput:  {"ipvs", "OUTPUT"},
	serversInput:   {"ipvs", "INPUT"},
}

// servers says that virtual servers look at packets here, rather than rules.
func (s stage) servers() bool { return s == serversOutput || s == serversInput }

func (s stage) nat() bool { return s == natPrerouting || s == natOutput || s == natPostrouting }

// New prepares a ruleset for walking.
func New(rs *Ruleset) *Walker {
	w := &Walker{rs: rs, maxSteps: maxSteps, index: make([]*chainIndex, len(rs.Chains)), chances: make([]*chances, len(rs.Chains))}
	for s := range w.base {
		w.base[s] = rs.Builtin(stages[s].table, stages[s].hook)
	}
	narrower := newNarrower(rs)
	for c := range rs.Chains {
		w.index[c] = newIndex(rs, int32(c))
		w.chances[c] = narrower.chain(int32(c))
	}
	for i := range rs.Rules {
		if r := &rs.Rules[i]; rs.leadsOn(r) {
			r.Flags |= flagLeadsOn
		}
	}
	w.pool = &sync.Pool{New: func() any { return &walk{w: w} }}
	return w
}

// Own is a walker over the same rules that passes over the foreign ones: those
// that are not in a chain of kube-proxy's and do not jump into one. Of kubelet's,
// and of where they stand among ours, see furniture.go and order_firewall.go.
func (w *Walker) Own() emit.Walker {
	o := w.first()
	o.own = true
	o.pool = &sync.Pool{New: func() any { return &walk{w: o} }}
	return o
}

// Policy is what becomes of a packet for which a filter hook's rules decide
// nothing (eval.Policy): Accept or Drop, as the built-in chain is declared.
func (w *Walker) Policy(hook string) eval.Verdict {
	if c := w.rs.Builtin("filter", hook); c >= 0 {
		return w.rs.Chains[c].Policy
	}
	return eval.Accept
}

// Walk gives a packet's outcome. Errors name line and rule.
func (w *Walker) Walk(p eval.Packet, h eval.Host) (eval.Outcome, error) {
	return w.follow(nil, p, h, netip.AddrPort{}, nil)
}

// WalkTo is Walk without the branches that DNAT sends elsewhere than to; all of
// them where to is not valid. It takes the memory of into.
func (w *Walker) WalkTo(into eval.Outcome, p eval.Packet, h eval.Host, to netip.AddrPort) (eval.Outcome, error) {
	return w.follow(into, p, h, to, nil)
}

// Trace is Walk with every rule met that did something. Ways that part and
// meet the same rule are one Hop, which has the sum of their shares.
func (w *Walker) Trace(p eval.Packet, h eval.Host) (eval.Outcome, []emit.Hop, error) {
	return w.TraceTo(p, h, netip.AddrPort{})
}

// TraceTo is Trace without the ways that WalkTo leaves out.
func (w *Walker) TraceTo(p eval.Packet, h eval.Host, to netip.AddrPort) (eval.Outcome, []emit.Hop, error) {
	t := &tracer{}
	out, err := w.follow(nil, p, h, to, t)
	if err != nil {
		return nil, nil, err
	}
	return out, t.sorted(w.rs), nil
}

// Met is how many rules the kernel holds the packet against, averaged over what
// may happen to it by chance: all rules of each chain up to the one that decides.
func (w *Walker) Met(p eval.Packet, h eval.Host) (float64, error) {
	k := w.pool.Get().(*walk)
	defer w.pool.Put(k)
	k.packet, k.host, k.want, k.steps = p, w.on(h), nil, 0
	k.counting, k.met = true, 0
	defer func() { k.counting = false }()
	err := k.run(nil, nil)
	return k.met, err
}

func (w *Walker) follow(into eval.Outcome, p eval.Packet, h eval.Host, to netip.AddrPort, t *tracer) (eval.Outcome, error) {
	if f := w.rs.Family; !f.Of(p.Src.Addr()) || !f.Of(p.Dst.Addr()) {
		return nil, fmt.Errorf("packet %s: not of %s", p, f)
	}
	k := w.pool.Get().(*walk)
	defer w.pool.Put(k)
	k.packet, k.host, k.want, k.steps = p, w.on(h), nil, 0
	var lists []uint32
	if p.Remembered.IsValid() {
		if err := k.run(nil, nil); err != nil {
			return nil, err
		}
		lists = k.listsOf(p.Remembered)
	}
	k.only = to
	err := k.run(lists, t)
	k.only = netip.AddrPort{}
	if err != nil {
		return nil, err
	}
	out, err := k.outcome(into)
	if err != nil {
		return nil, err
	}
	return eval.Normalize(out)
}

// on is the host with the addresses that it bears for services.
func (w *Walker) on(h eval.Host) eval.Host {
	if w.rs.Around != nil {
		h.Bears = w.rs.Around.Bears
	}
	return h
}

// outcome turns the ends that a run reached into branches.
func (k *walk) outcome(into eval.Outcome) ([]eval.Branch, error) {
	out := slices.Grow(into[:0], len(k.ends))[:len(k.ends)]
	var again *walk
	for i := range k.ends {
		e := &k.ends[i]
		out[i] = k.verdictOnly(e.branch())
		if e.lists.n == 0 || k.w.rs.Around != nil && out[i].Verdict().Refused() {
			continue
		}
		if again == nil {
			again = k.w.pool.Get().(*walk)
			defer k.w.pool.Put(again)
			again.packet, again.host, again.steps = k.packet, k.host, k.steps
		}
		var err error
		if out[i].Sticky, err = again.sticky(e); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// sticky says for how long a client that went a way goes it again: the packet
// is walked once more with the lists on that way remembered. The least age
// that let it pass counts; -1 means that it may end elsewhere, or that memory
// had no part in it.
func (k *walk) sticky(e *state) (int, error) {
	k.want = e
	err := k.run(e.lists.ids[:e.lists.n], nil)
	if errors.Is(err, errElsewhere) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	least := int64(0)
	for i := range k.ends {
		if s := k.ends[i].seconds; s != 0 && (least == 0 || s < least) {
			least = s
		}
	}
	if least == 0 {
		return -1, nil
	}
	return int(least), nil
}

// listsOf are the lists into which the ways to an endpoint enter the client.
func (k *walk) listsOf(to netip.AddrPort) []uint32 {
	var out []uint32
	for i := range k.ends {
		e := &k.ends[i]
		if e.to != to {
			continue
		}
		for _, id := range e.lists.ids[:e.lists.n] {
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// LateJump is a jump that comes after other jumps of ours in its built-in chain, where
// either order is an ordinary node's.
type LateJump struct {
	Chain    int32
	From, At int32 // in the chain: our first jump, and the late one
}

// first is the walker with the late jumps before all of ours in their chains.
func (w *Walker) first() *Walker {
	late := w.rs.Late
	o := *w
	if len(late) == 0 {
		return &o
	}
	rs := *w.rs
	rs.Rules = slices.Clone(rs.Rules)
	o.rs, o.index = &rs, slices.Clone(w.index)
	for _, l := range late {
		rules := rs.RulesOf(l.Chain)
		jump := rules[l.At]
		copy(rules[l.From+1:l.At+1], rules[l.From:l.At])
		rules[l.From] = jump
		o.index[l.Chain] = newIndex(&rs, l.Chain)
	}
	return &o
}
