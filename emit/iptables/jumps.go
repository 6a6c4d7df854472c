package iptables

import (
	"svcc/emit/iptables/rule"
	"svcc/ir"
)

// JumpsTo gives the chain that a rule, a line "-A CHAIN ...", jumps or goes to;
// "" if its target is no chain, or it has none.
func JumpsTo(line string) string {
	toks, _ := rule.Tokenize(make([]rule.Token, 0, 32), line)
	verb, name := targetWords(toks)
	if verb == "-j" && (named(targets, name) != nil || rule.ForeignTargets[name]) {
		return ""
	}
	return name
}

// targetWords finds the target among a rule's words. A verb in quotes is a
// value.
func targetWords(toks []rule.Token) (verb, name string) {
	for i := 0; i+1 < len(toks); i++ {
		if toks[i].Quoted {
			continue
		}
		switch toks[i].Text {
		case "-j", "--jump":
			return "-j", toks[i+1].Text
		case "-g", "--goto":
			return "-g", toks[i+1].Text
		case "--comment":
			i++
		}
	}
	return "", ""
}

// verdicts are the targets after which a packet does not meet the next rule.
var verdicts = map[string]bool{
	"ACCEPT": true, "DROP": true, "REJECT": true, "RETURN": true, "QUEUE": true, "NFQUEUE": true,
	"DNAT": true, "SNAT": true, "MASQUERADE": true, "REDIRECT": true, "NETMAP": true,
}

// StopsAll says that no packet gets past a rule, a line "-A CHAIN ...": it asks
// nothing and decides.
func StopsAll(line string) bool {
	toks, _ := rule.Tokenize(make([]rule.Token, 0, 32), line)
	if len(toks) < 2 {
		return false
	}
	toks = toks[2:]
	if len(toks) > 4 && toks[0].Text == "-m" && toks[1].Text == "comment" && toks[2].Text == "--comment" {
		toks = toks[4:]
	}
	if len(toks) < 2 {
		return false
	}
	switch toks[0].Text {
	case "-j", "--jump":
		return verdicts[toks[1].Text]
	case "-g", "--goto":
		return true
	}
	return false
}

// OwnShared says whether a line "-A CHAIN ..." of SharedChain, or of a built-in
// chain that jumps to it, is as we would write it. Whatever else is in these
// places is somebody else's.
func OwnShared(f ir.Family, line string) bool {
	c := rule.Canonicalizer{Family: f}
	switch got := string(c.Append(nil, line)); got {
	case "-A INPUT -j " + SharedChain, "-A OUTPUT -j " + SharedChain:
		return true
	default:
		return got == sharedRule("") || got == sharedRule(` -m comment --comment "block incoming localnet connections"`)
	}
}

// sharedRule is lowering.localnet's rule in canonical form.
func sharedRule(comment string) string {
	return "-A " + SharedChain + " ! -s 127.0.0.0/8 -d 127.0.0.0/8" + comment + " -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
}
