package walk

import (
	"fmt"
	"slices"

	"svcc/emit"
	"svcc/ir/eval"
)

// tracer collects the rules that did something.
type tracer struct {
	met   []met
	known map[metKey]int
}

// met is one rule that did one thing.
type met struct {
	metKey
	share eval.Share
}

type metKey struct {
	stage stage
	rule  *Rule
	depth int32
	note  string
	// served is the virtual server that did it rather than a rule.
	served *Server
}

// hop notes a rule before its action is done.
func (t *tracer) hop(k *walk, s *state, r *Rule) error {
	note := k.note(s, r)
	if note == "" {
		return nil
	}
	return t.add(metKey{stage: s.stage, rule: r, depth: k.depth(s), note: note}, s.share)
}

// add notes that a share of the packets met something.
func (t *tracer) add(key metKey, share eval.Share) error {
	if i, ok := t.known[key]; ok {
		sum, err := t.met[i].share.Add(share)
		t.met[i].share = sum
		return err
	}
	if t.known == nil {
		t.known = map[metKey]int{}
	}
	t.known[key] = len(t.met)
	t.met = append(t.met, met{key, share})
	return nil
}

// note tells what a rule does.
func (k *walk) note(s *state, r *Rule) string {
	what := k.actionNote(s, r)
	list := k.enters(s, r)
	switch {
	case list == "":
		return what
	case what == "":
		return "remember " + list
	}
	return what + ", remember " + list
}

func (k *walk) actionNote(s *state, r *Rule) string {
	switch r.Do {
	case DoJump:
		return "jump"
	case DoGoto:
		return "goto"
	case DoReturn:
		return "return"
	case DoAccept:
		return "accept"
	case DoDrop:
		return "drop"
	case DoReject:
		return "reject"
	case DoMark:
		return fmt.Sprintf("mark %#x", s.mark&^r.Mask^r.Value)
	case DoDNAT:
		after := *s
		after.rewriteDestination(k.w.rs.Dests[r.Target])
		return "dnat " + after.to.String()
	case DoMasquerade:
		return "masquerade"
	}
	return ""
}

// enters is the list into which a rule entered the client.
func (k *walk) enters(s *state, r *Rule) string {
	for _, c := range k.w.rs.Conds[r.First : r.First+int32(r.N)] {
		if c.Kind == CondRecent && (c.Sub == RecentSet || c.Sub == RecentUpdate) && s.lists.has(c.X) {
			return k.w.rs.names[c.X]
		}
	}
	return ""
}

// rank is when a packet comes by a stage. One that comes in and is served leaves
// by OUTPUT after it has met INPUT.
func (s stage) rank(comesIn bool) int {
	if comesIn && (s == filterOutput || s == natPostrouting) {
		return int(stageDone) + int(s)
	}
	return int(s)
}

// sorted gives the hops hook by hook, within a hook in the order in which they
// were first met.
func (t *tracer) sorted(rs *Ruleset) []emit.Hop {
	comesIn := slices.ContainsFunc(t.met, func(m met) bool { return m.stage == natPrerouting || m.stage == serversInput })
	slices.SortStableFunc(t.met, func(a, b met) int { return a.stage.rank(comesIn) - b.stage.rank(comesIn) })
	hops := make([]emit.Hop, len(t.met))
	for i, m := range t.met {
		at := stages[m.stage]
		if m.served != nil {
			hops[i] = emit.Hop{Hook: at.hook, Table: at.table, Rule: m.served.Text, Share: m.share, Note: m.note}
			continue
		}
		hops[i] = emit.Hop{
			Hook: at.hook, Table: at.table, Chain: rs.Chains[m.rule.Chain].Name, Depth: int(m.depth),
			Rule: m.rule.Text, Share: m.share, Note: m.note,
		}
	}
	return hops
}
