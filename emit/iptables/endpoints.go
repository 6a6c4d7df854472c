package iptables

import (
	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// balanceChain shares connections out: first by memory, then by chance. Rule i
// of n takes one in n-i of what comes to it, so all endpoints get the same.
func (c *serviceChains) balanceChain(b *ir.Balance) {
	if b == nil {
		return
	}
	chain := c.chain(b.Label.Part)
	if b.AffinitySeconds > 0 {
		for _, e := range b.Endpoints {
			sep := c.endpointChains[e]
			c.natRule(chain, c.endpointComment(e), rule.Jump(sep), rule.Seen{List: sep, Seconds: b.AffinitySeconds})
		}
	}
	n := len(b.Endpoints)
	for i, e := range b.Endpoints {
		var chance []rule.Match
		if i < n-1 {
			chance = []rule.Match{rule.Share{Part: 1, Of: n - i}}
		}
		c.natRule(chain, c.endpointComment(e), rule.Jump(c.endpointChains[e]), chance...)
	}
}

func (c *serviceChains) endpointComment(e ir.Endpoint) string {
	if c.quiet {
		return ""
	}
	return c.name.Display() + " -> " + e.String()
}

// endpointChain masquerades a client that is the endpoint itself, whose replies
// would never leave it, then rewrites the destination.
func (c *serviceChains) endpointChain(e ir.Endpoint) {
	chain, comment := c.endpointChains[e], c.name.Display()
	if c.quiet {
		comment = ""
	}
	var ms []rule.Match
	if c.sticky() {
		ms = append(ms, rule.Remember(chain))
	}
	if !c.part {
		c.natRule(chain, comment, rule.Jump(ChainMarkMasq), rule.SourceHost(e.Addr))
	}
	c.natRule(chain, comment, rule.DNAT{To: e.AddrPort()}, append(ms, rule.Protocol(c.name.Protocol))...)
}

func (c *serviceChains) sticky() bool {
	return c.cluster != nil && c.cluster.AffinitySeconds > 0 || c.local != nil && c.local.AffinitySeconds > 0
}
