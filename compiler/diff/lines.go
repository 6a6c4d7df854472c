package diff

import "fmt"

// edit is one line of a comparison.
type edit struct {
	op   byte // ' ', '-', '+'
	text string
}

// contextLines are shown around what differs.
const contextLines = 3

// unified gives the hunks of a unified diff, as lines.
func unified(a, b []string) []string {
	all := edits(a, b)
	var out []string
	for from := 0; from < len(all); {
		first := from
		for first < len(all) && all[first].op == ' ' {
			first++
		}
		if first == len(all) {
			break
		}
		to := hunkEnd(all, first)
		out = append(out, hunk(all, max(from, first-contextLines), to)...)
		from = to
	}
	return out
}

// hunkEnd is where the hunk ends whose first change is at a place: after the
// context of the last change that is near enough to the one before.
func hunkEnd(all []edit, at int) int {
	last := at
	for i := at; i < len(all) && i-last <= 2*contextLines; i++ {
		if all[i].op != ' ' {
			last = i
		}
	}
	return min(len(all), last+1+contextLines)
}

// hunk prints the edits from one place to another under their line numbers.
func hunk(all []edit, from, to int) []string {
	oldAt, newAt := count(all[:from])
	oldN, newN := count(all[from:to])
	if oldN > 0 {
		oldAt++
	}
	if newN > 0 {
		newAt++
	}
	out := []string{fmt.Sprintf("@@ -%d,%d +%d,%d @@", oldAt, oldN, newAt, newN)}
	for _, e := range all[from:to] {
		out = append(out, string(e.op)+e.text)
	}
	return out
}

// count gives how many lines each side has.
func count(list []edit) (old, new int) {
	for _, e := range list {
		if e.op != '+' {
			old++
		}
		if e.op != '-' {
			new++
		}
	}
	return old, new
}

// edits compares two lists: what is alike at both ends, and between them the
// shortest script, or all of it where that would be too long.
func edits(a, b []string) []edit {
	head := 0
	for head < len(a) && head < len(b) && a[head] == b[head] {
		head++
	}
	tail := 0
	for tail < len(a)-head && tail < len(b)-head && a[len(a)-1-tail] == b[len(b)-1-tail] {
		tail++
	}
	out := mark(nil, ' ', a[:head])
	out = append(out, shortest(a[head:len(a)-tail], b[head:len(b)-tail])...)
	return mark(out, ' ', a[len(a)-tail:])
}

func mark(out []edit, op byte, lines []string) []edit {
	for _, l := range lines {
		out = append(out, edit{op, l})
	}
	return out
}

// maxScript bounds the search, whose memory grows with the square of it.
const maxScript = 1000

// shortest is Myers' greedy search for the shortest edit script: reach[d] has,
// for each diagonal, how far in a one gets with d edits.
func shortest(a, b []string) []edit {
	var reach [][]int // of d: indexes k+d of diagonals -d..d
	for d := 0; d <= min(len(a)+len(b), maxScript); d++ {
		row := make([]int, 2*d+1)
		reach = append(reach, row)
		for k := -d; k <= d; k += 2 {
			x := step(reach, d, k)
			for x < len(a) && x-k < len(b) && a[x] == b[x-k] {
				x++
			}
			row[k+d] = x
			if x >= len(a) && x-k >= len(b) {
				return backtrack(a, b, reach)
			}
		}
	}
	return mark(mark(nil, '-', a), '+', b)
}

// step is where an edit more leads on diagonal k: down from k+1 (a line of b)
// or right from k-1 (a line of a less), whichever is further.
func step(reach [][]int, d, k int) int {
	if d == 0 {
		return 0
	}
	before := reach[d-1]
	if k == -d || k != d && before[k-1+d-1] < before[k+1+d-1] {
		return before[k+1+d-1]
	}
	return before[k-1+d-1] + 1
}

// backtrack reads the script off the rows, from the end.
func backtrack(a, b []string, reach [][]int) []edit {
	var reversed []edit
	x, y := len(a), len(b)
	for d := len(reach) - 1; d >= 0; d-- {
		k := x - y
		start := step(reach, d, k)
		for x > start {
			x, y = x-1, y-1
			reversed = append(reversed, edit{' ', a[x]})
		}
		if d == 0 {
			break
		}
		before := reach[d-1]
		if k == -d || k != d && before[k-1+d-1] < before[k+1+d-1] {
			y--
			reversed = append(reversed, edit{'+', b[y]})
		} else {
			x--
			reversed = append(reversed, edit{'-', a[x]})
		}
	}
	out := make([]edit, len(reversed))
	for i, e := range reversed {
		out[len(out)-1-i] = e
	}
	return out
}
