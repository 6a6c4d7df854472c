package rule

import (
	"slices"

	"svcc/ir"
)

// Canonicalizer brings rules into one form, so that a rule as the emitter
// prints it and as either flavour's save tool prints it back are equal byte for
// byte exactly if they are the same rule. The zero value with a Family is ready;
// one must not be used by two goroutines.
//
// The form is itself a rule: "-s -d -i -o -p", the comment, the matches, the
// target. Matches that only ask a question stand in alphabetical order; those
// that also do something (recent, nfacct) keep their place among them. What is
// a default is left out; addresses, marks, probabilities (31 bits, as the
// kernel keeps them), ports and states are written in one way. Counters are
// dropped. A rule with a match, target or option outside the emitter's
// vocabulary keeps its words and their order: it is equal to itself only.
type Canonicalizer struct {
	Family ir.Family

	toks  []Token
	plain [plainOptions]argument
	terms []usedTerm // matches, in order
	to    usedTerm   // the target
	text  []byte     // scratch: the matches' texts
	spans []extent
}

// argument is an option's value, once it was given.
type argument struct {
	given, not bool
	value      string
}

// The options that every rule may have.
const (
	plainSrc = iota
	plainDst
	plainIn
	plainOut
	plainProto
	plainComment
	plainOptions
)

var plainNames = [plainOptions]string{"-s", "-d", "-i", "-o", "-p", "-m comment --comment"}

// usedTerm is a match or target of a rule with what its options were given.
type usedTerm struct {
	*Term
	chain string // of a jump: term is nil
	verb  string // "-j" or "-g"
	args  [maxTermOptions]argument
}

type extent struct {
	from, to int
	pure     bool
}

// Canonical gives the canonical form of one rule, a line "-A CHAIN ..." with or
// without counters before it, without its end.
func Canonical(f ir.Family, line string) string {
	c := Canonicalizer{Family: f}
	return string(c.Append(nil, line))
}

// Append appends the canonical form of a line "-A CHAIN ..." to b.
func (c *Canonicalizer) Append(b []byte, line string) []byte {
	var ok bool
	c.toks, ok = Tokenize(c.toks[:0], line)
	if !ok {
		return append(b, line...)
	}
	toks := withoutCounters(c.toks)
	if len(toks) < 2 || !c.read(toks[2:]) {
		return appendWords(b, toks)
	}
	n := len(b)
	b = append(append(append(b, toks[0].Text...), ' '), toks[1].Text...)
	if b, ok = c.write(b); !ok {
		return appendWords(b[:n], toks)
	}
	return b
}

// withoutCounters drops "[1:2]" before a rule and "-c 1 2" within.
func withoutCounters(toks []Token) []Token {
	if len(toks) > 0 && IsCounters(toks[0].Text) {
		toks = toks[1:]
	}
	for i, t := range toks {
		if !t.Quoted && t.Text == "-c" && i+2 < len(toks) {
			return slices.Delete(toks, i, i+3)
		}
	}
	return toks
}

// appendWords joins words, quoted where the tools would.
func appendWords(b []byte, toks []Token) []byte {
	for i, t := range toks {
		if i > 0 {
			b = append(b, ' ')
		}
		if t.Quoted || t.Text == "" {
			b = appendQuoted(b, t.Text)
			continue
		}
		b = append(b, t.Text...)
	}
	return b
}

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' || s[i] == '\\' {
			b = append(b, '\\')
		}
		b = append(b, s[i])
	}
	return append(b, '"')
}

// read sorts a rule's words by what they belong to; false if it meets one that
// it does not know.
func (c *Canonicalizer) read(toks []Token) bool {
	c.plain, c.terms, c.to = [plainOptions]argument{}, c.terms[:0], usedTerm{}
	not := false
	for len(toks) > 0 {
		t := toks[0]
		toks = toks[1:]
		if t.Quoted || t.Text == "" {
			return false
		}
		if t.Text == "!" {
			if not {
				return false
			}
			not = true
			continue
		}
		n := c.take(t.Text, toks, not)
		if n < 0 {
			return false
		}
		toks, not = toks[n:], false
	}
	return !not
}

// take reads one option and says how many words its values took; -1 if it is
// not understood.
func (c *Canonicalizer) take(name string, rest []Token, not bool) int {
	if p := plainNamed(name); p >= 0 {
		return give(&c.plain[p], rest, not)
	}
	switch name {
	case "-m", "--match", "-j", "--jump", "-g", "--goto":
		if not || len(rest) == 0 {
			return -1
		}
	}
	switch name {
	case "-m", "--match":
		return c.match(rest[0].Text)
	case "-j", "--jump":
		return c.target("-j", rest[0].Text)
	case "-g", "--goto":
		return c.target("-g", rest[0].Text)
	}
	return c.termOption(name, rest, not)
}

func plainNamed(name string) int {
	switch name {
	case "-s", "--source", "--src":
		return plainSrc
	case "-d", "--destination", "--dst":
		return plainDst
	case "-i", "--in-interface":
		return plainIn
	case "-o", "--out-interface":
		return plainOut
	case "-p", "--protocol", "--proto":
		return plainProto
	case "--comment":
		return plainComment
	}
	return -1
}

// give notes a value; an option that is given twice is not understood.
func give(a *argument, rest []Token, not bool) int {
	if a.given || len(rest) == 0 {
		return -1
	}
	*a = argument{given: true, not: not, value: rest[0].Text}
	return 1
}

func (c *Canonicalizer) match(name string) int {
	if name == "comment" {
		return 1
	}
	t := termNamed(matchTerms, name)
	if t == nil {
		return -1
	}
	c.terms = append(c.terms, usedTerm{Term: t})
	return 1
}

func (c *Canonicalizer) target(verb, name string) int {
	if c.to.verb != "" {
		return -1
	}
	c.to = usedTerm{verb: verb, chain: name}
	if verb == "-j" {
		if ForeignTargets[name] {
			return -1
		}
		c.to.Term = termNamed(targetTerms, name)
	}
	return 1
}

// termOption gives an option to the match that was loaded last of those that
// know it, then to the target, then to the protocol's own match, which -p loads
// by itself.
func (c *Canonicalizer) termOption(name string, rest []Token, not bool) int {
	for i := len(c.terms) - 1; i >= 0; i-- {
		if n, known := c.terms[i].take(name, rest, not); known {
			return n
		}
	}
	if c.to.Term != nil {
		if n, known := c.to.take(name, rest, not); known {
			return n
		}
	}
	proto, _ := appendProtocol(nil, c.plain[plainProto].value)
	t := termNamed(matchTerms, string(proto))
	if t == nil || !t.protocol {
		return -1
	}
	c.terms = append(c.terms, usedTerm{Term: t})
	n, known := c.terms[len(c.terms)-1].take(name, rest, not)
	if !known {
		return -1
	}
	return n
}

func (u *usedTerm) take(name string, rest []Token, not bool) (n int, known bool) {
	i := u.Option(name)
	if i < 0 {
		return 0, false
	}
	o := &u.Options[i]
	switch {
	case o.pair && len(rest) < 2:
		return -1, true
	case o.pair:
		pair := Token{Text: rest[0].Text + " " + rest[1].Text}
		return 2 * give(&u.args[i], []Token{pair}, not), true
	case o.write != nil:
		return give(&u.args[i], rest, not), true
	}
	if u.args[i].given {
		return -1, true
	}
	u.args[i] = argument{given: true, not: not}
	return 0, true
}
