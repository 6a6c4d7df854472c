package manifest

import "bytes"

// cutList cuts the items out of a List as kubectl writes it, so that a large
// one is decoded in parts:
//
//	items:
//	- apiVersion: v1
//	  kind: Service
//
// header is the text without them. A line that starts with a dash at the items'
// column begins an item, unless it stands in a quoted or flow value that spans
// lines; then a piece does not parse, and the caller reads the whole instead.
func cutList(text []byte) (items []span, header []byte) {
	from := itemsKey(text)
	if from < 0 {
		return nil, nil
	}
	start := nextLine(text, from)
	col := -1
	at := start
	for ; at < len(text); at = nextLine(text, at) {
		n := blanks(text[at:])
		if isEmptyLine(text[at+n:]) {
			continue
		}
		if col < 0 {
			col = n
		}
		dash := n == col && isDash(text[at+n:])
		if !dash && n <= col {
			break
		}
		if !dash && len(items) == 0 {
			return nil, nil
		}
		if dash {
			items = append(items, span{at, at})
		}
	}
	for i := range items {
		items[i].end = at
		if i+1 < len(items) {
			items[i].end = items[i+1].at
		}
	}
	header = append(append(header, text[:start]...), text[at:]...)
	return items, header
}

// itemsKey is the offset of a line that is "items:", -1 if there is none.
func itemsKey(text []byte) int {
	for line := 0; line < len(text); line = nextLine(text, line) {
		if rest, ok := bytes.CutPrefix(text[line:], []byte("items:")); ok && isEmptyLine(bytes.TrimLeft(rest[:min(len(rest), 64)], " ")) {
			return line
		}
	}
	return -1
}

func blanks(line []byte) int {
	n := 0
	for n < len(line) && line[n] == ' ' {
		n++
	}
	return n
}

// isEmptyLine says that only a comment is left of the line.
func isEmptyLine(rest []byte) bool {
	return len(rest) == 0 || rest[0] == '#' || breakLen(rest) > 0
}

func isDash(rest []byte) bool {
	return rest[0] == '-' && (len(rest) == 1 || isBlank(rest[1:]))
}
