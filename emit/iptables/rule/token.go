package rule

import "strings"

// Token is one word of a rule. Words in quotes are never options.
type Token struct {
	Text   string
	Quoted bool
}

// Tokenize splits a line as iptables-restore does: at blanks and tabs outside
// double quotes; a backslash within quotes takes the next byte as it is; the
// closing quote ends the word. It appends to toks and reports whether every
// quote was closed. Words without escapes share the line's memory.
func Tokenize(toks []Token, line string) ([]Token, bool) {
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case c == ' ' || c == '\t':
			i++
		case c == '"':
			t, n, ok := quoted(line[i+1:])
			if !ok {
				return toks, false
			}
			toks = append(toks, Token{t, true})
			i += 1 + n
		default:
			n := wordEnd(line[i:])
			if i+n == len(line) {
				return append(toks, Token{Text: line[i:]}), true
			}
			if line[i+n] != '"' {
				toks = append(toks, Token{Text: line[i : i+n]})
				i += n
				break
			}
			t, m, ok := quoted(line[i+n+1:])
			if !ok {
				return toks, false
			}
			toks = append(toks, Token{line[i:i+n] + t, true})
			i += n + 1 + m
		}
	}
	return toks, true
}

// wordEnd is where a blank, tab or quote ends a word, or the line's length.
func wordEnd(s string) int {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c == ' ' || c == '\t' || c == '"' {
			return i
		}
	}
	return len(s)
}

// quoted reads up to the closing quote: the text, and how many bytes it took
// with that quote.
func quoted(s string) (string, int, bool) {
	n := strings.IndexAny(s, `"\`)
	if n < 0 {
		return "", 0, false
	}
	if s[n] == '"' {
		return s[:n], n + 1, true
	}
	b := []byte(s[:n])
	for i := n; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return string(b), i + 1, true
		case c == '\\' && i+1 < len(s):
			i++
			b = append(b, s[i])
		default:
			b = append(b, c)
		}
	}
	return "", 0, false
}
