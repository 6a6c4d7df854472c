package walk

import "svcc/ir/eval"

// endStage takes a hook's verdict and goes on to the next.
func (k *walk) endStage(s *state, v eval.Verdict) {
	switch s.stage {
	case filterOutput:
		s.output = v
	case filterForward:
		s.forward = v
	case filterInput:
		s.input = v
	}
	if v.Refused() {
		s.stage = stageDone
		return
	}
	k.enterStage(s, k.after(s))
}

// enterStage starts the first stage from this one on that has a chain for the
// packet.
func (k *walk) enterStage(s *state, at stage) {
	for s.stage = at; s.stage != stageDone; s.stage = k.after(s) {
		chain := k.w.base[s.stage]
		switch {
		case s.stage.servers():
			return
		case s.stage.nat() && (!k.packet.State.Begins() || chain < 0):
			continue
		case chain < 0:
			k.policy(s)
			continue
		}
		if s.stage == filterInput && k.packet.In == "" {
			s.in = "lo"
		}
		s.top = -1
		s.enter(chain, 0)
		return
	}
}

// policy is the verdict of a filter that the text does not have.
func (k *walk) policy(s *state) {
	switch s.stage {
	case filterOutput:
		s.output = eval.Policy
	case filterForward:
		s.forward = eval.Policy
	case filterInput:
		s.input = eval.Policy
	}
}

// after is the stage that follows, by where the packet goes.
func (k *walk) after(s *state) stage {
	switch s.stage {
	case natPrerouting:
		if k.dstIsLocal(s) {
			return filterInput
		}
		return filterForward
	case natOutput:
		if k.w.rs.Around != nil {
			return serversOutput
		}
		return filterOutput
	case serversOutput:
		return filterOutput
	case filterInput:
		if k.w.rs.Around != nil && k.packet.In != "" {
			return serversInput
		}
	case serversInput:
		if s.vip.IsValid() && !k.dstIsLocal(s) {
			return filterOutput
		}
	case filterOutput, filterForward:
		return natPostrouting
	case natPostrouting:
		if k.packet.In == "" && k.dstIsLocal(s) {
			return filterInput
		}
	}
	return stageDone
}
