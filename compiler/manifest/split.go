package manifest

import "bytes"

// cutYAML cuts a stream into documents that have content. Each keeps the
// directives and the "---" before it.
//
// YAML ends a document at any line that starts with "---" or "..." and a blank,
// also within block and quoted scalars, so that the text alone tells.
func cutYAML(text []byte) []span {
	var docs []span
	start := 0
	emit := func(end int) bool {
		end = len(bytes.TrimSuffix(text[:end], bom)) // of a file pasted behind another
		if end <= start || firstToken(text[start:end]) < 0 {
			return false
		}
		docs = append(docs, span{start, end})
		return true
	}
	opened := false // the stretch has its "---"
	for at := range markers(text) {
		begins := text[at] == '-'
		if emit(at) || opened || !begins {
			start, opened = at, false
		}
		if !begins {
			start = at + 3
		}
		opened = begins
	}
	emit(len(text))
	return docs
}

// markers yields the offsets of the lines that are "---" or "..." or start so.
func markers(text []byte) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		begin, end := nextMarker(text, 0, "---"), nextMarker(text, 0, "...")
		for at := min(begin, end); at < len(text); at = min(begin, end) {
			if !yield(at) {
				return
			}
			if at == begin {
				begin = nextMarker(text, at+3, "---")
			} else {
				end = nextMarker(text, at+3, "...")
			}
		}
	}
}

func nextMarker(text []byte, from int, marker string) int {
	for {
		i := bytes.Index(text[from:], []byte(marker))
		if i < 0 {
			return len(text)
		}
		at := from + i
		if startsLine(text, at) && (at+3 == len(text) || isBlank(text[at+3:])) {
			return at
		}
		from = at + 1
	}
}

// startsLine says whether a line starts at at, by what YAML takes for the end
// of a line.
func startsLine(text []byte, at int) bool {
	before := bytes.TrimSuffix(text[:at], bom)
	return len(before) == 0 || endsInBreak(before)
}

func endsInBreak(text []byte) bool {
	switch text[len(text)-1] {
	case '\n', '\r':
		return true
	case 0x85, 0xa8, 0xa9: // the last byte of those below
		return bytes.HasSuffix(text, []byte("\u0085")) || bytes.HasSuffix(text, []byte("\u2028")) || bytes.HasSuffix(text, []byte("\u2029"))
	}
	return false
}

// breakLen is the length of the line break at the start of text, 0 if there is none.
func breakLen(text []byte) int {
	switch {
	case len(text) == 0:
		return 0
	case text[0] == '\r' && len(text) > 1 && text[1] == '\n':
		return 2
	case text[0] == '\n' || text[0] == '\r':
		return 1
	case text[0] < 0x80:
		return 0
	case bytes.HasPrefix(text, []byte("\u0085")):
		return 2
	case bytes.HasPrefix(text, []byte("\u2028")), bytes.HasPrefix(text, []byte("\u2029")):
		return 3
	}
	return 0
}

func isBlank(text []byte) bool {
	return text[0] == ' ' || text[0] == '\t' || breakLen(text) > 0
}

// firstToken is the offset of the first token that is content: behind blanks,
// comments, directives and one "---". It is -1 if there is none.
func firstToken(text []byte) int {
	opened := false
	for at := 0; at < len(text); {
		switch starts := startsLine(text, at); {
		case breakLen(text[at:]) > 0:
			at += breakLen(text[at:])
		case isBlank(text[at:]):
			at++
		case bytes.HasPrefix(text[at:], bom):
			at += len(bom)
		case text[at] == '#', text[at] == '%' && starts && !opened:
			at = lineEnd(text, at)
		case starts && !opened && bytes.HasPrefix(text[at:], []byte("---")) && (at+3 == len(text) || isBlank(text[at+3:])):
			opened = true
			at += 3
		default:
			return at
		}
	}
	return -1
}

func lineEnd(text []byte, at int) int {
	for ; at < len(text); at++ {
		if c := text[at]; (c < ' ' || c >= 0x80) && breakLen(text[at:]) > 0 {
			break
		}
	}
	return at
}

// indent is how many blanks stand before at in its line, -1 if something else does.
func indent(text []byte, at int) int {
	n := 0
	for at-n > 0 && text[at-n-1] == ' ' {
		n++
	}
	if !startsLine(text, at-n) {
		return -1
	}
	return n
}

// outdented says whether a line behind at, comments apart, starts left of column col.
func outdented(text []byte, at, col int) bool {
	for at = lineEnd(text, at); at < len(text); at = lineEnd(text, at) {
		at += breakLen(text[at:])
		n := 0
		for at+n < len(text) && text[at+n] == ' ' {
			n++
		}
		if rest := text[at+n:]; n < col && len(rest) > 0 && rest[0] != '#' && breakLen(rest) == 0 {
			return true
		}
	}
	return false
}

// mayTrail says whether something may follow the document's one value, which
// the YAML library would not tell: it stops reading there. A mapping whose
// first key is a plain word at the start of a line goes on to the end.
func mayTrail(text []byte, first int) bool {
	col := indent(text, first)
	c := text[first] | 0x20
	if col < 0 || c < 'a' || c > 'z' {
		return true
	}
	return col > 0 && outdented(text, first, col)
}
