package iptables

import "fmt"

// maxDepth is how many chains a packet may be in at once. The kernel's limits
// differ by flavour; none of our layouts comes near.
const maxDepth = 64

func (r *parsedRule) jumps() bool { return r.do == doJump || r.do == doGoto }

// finish orders the rules by chain and checks that no way leads in a circle.
func (p *parser) finish() (*ruleset, error) {
	rs := p.rs
	rs.order()
	rs.evict()
	if rs.dump {
		rs.even()
	}
	d := depths{rs: rs, depth: make([]int32, len(rs.chains))}
	for c := range rs.chains {
		if err := d.visit(int32(c), 0); err != nil {
			return nil, err
		}
	}
	return rs, nil
}

// order puts each chain's rules side by side: those that came by -I first, the
// last one on top.
func (rs *ruleset) order() {
	first := int32(0)
	next := make([]int32, len(rs.chains)) // where the next appended rule goes
	top := make([]int32, len(rs.chains))  // after where the next inserted one goes
	for i := range rs.chains {
		c := &rs.chains[i]
		c.first = first
		top[i] = first + c.inserted
		next[i] = top[i]
		first += c.n
	}
	out := make([]parsedRule, len(rs.rules))
	for i := range rs.rules {
		r := &rs.rules[i]
		if r.flags&flagInserted != 0 {
			top[r.chain]--
			out[top[r.chain]] = *r
			continue
		}
		out[next[r.chain]] = *r
		next[r.chain]++
	}
	rs.rules = out
}

// rulesOf are a chain's rules.
func (rs *ruleset) rulesOf(chain int32) []parsedRule {
	c := &rs.chains[chain]
	return rs.rules[c.first : c.first+c.n]
}

// depths finds how many chains lie below each one.
type depths struct {
	rs    *ruleset
	depth []int32 // 0: not visited yet; -1: on the way
}

func (d *depths) visit(chain, above int32) error {
	if d.depth[chain] > 0 {
		return nil
	}
	d.depth[chain] = -1
	deepest := int32(0)
	rules := d.rs.rulesOf(chain)
	for i := range rules {
		r := &rules[i]
		if !r.jumps() {
			continue
		}
		if d.depth[r.target] == -1 {
			return r.error(fmt.Errorf("jumps in a circle"))
		}
		if above < maxDepth {
			if err := d.visit(r.target, above+1); err != nil {
				return err
			}
		}
		deepest = max(deepest, d.depth[r.target])
		if above >= maxDepth || deepest >= maxDepth {
			return r.error(fmt.Errorf("jumps more than %d chains deep", maxDepth))
		}
	}
	d.depth[chain] = deepest + 1
	return nil
}

// error places an error at a rule.
func (r *parsedRule) error(err error) error {
	return fmt.Errorf("line %d: %s: %w", r.line, quote(r.text), err)
}
