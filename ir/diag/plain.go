package diag

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// Plain gives a text as a terminal may be shown it: what is not printable, the
// start of an escape sequence above all, stands as Go would write it in quotes.
// Line breaks and tabs are kept.
func Plain(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// PlainLine is Plain for what is to stay on one line.
func PlainLine(s string) string {
	return oneLine.Replace(Plain(s))
}

var oneLine = strings.NewReplacer("\n", `\n`, "\t", `\t`)

func hidden(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// Count says how many there are of what one is called: "1 Service", "2 Services".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
