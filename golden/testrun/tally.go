package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is a line of go test -json (go doc test2json).
type event struct {
	Action, Package, Test, Output, ImportPath, FailedBuild string
	Elapsed                                                float64 // seconds
}

// tally is what was heard of a run so far.
type tally struct {
	output      map[string]*strings.Builder // of what has not ended, by package and test
	running     map[string]bool             // packages
	ok, failed  []string                    // packages
	failedTests int
	skipped     map[string]int // tests by reason
}

func newTally() *tally {
	return &tally{output: map[string]*strings.Builder{}, running: map[string]bool{}, skipped: map[string]int{}}
}

// add takes an event and gives what a reader is to see of it.
func (t *tally) add(e event) (show string) {
	at := cmp.Or(e.Package, e.ImportPath) + " " + e.Test
	switch e.Action {
	case "start":
		t.running[e.Package] = true
	case "output", "build-output":
		if t.output[at] == nil {
			t.output[at] = &strings.Builder{}
		}
		t.output[at].WriteString(e.Output)
	case "pass", "fail", "skip", "build-fail":
		var said string
		if b := t.output[at]; b != nil {
			said = b.String()
			delete(t.output, at)
		}
		return t.end(e, said)
	}
	return ""
}

// end counts what has ended and shows what it said if it failed.
func (t *tally) end(e event, said string) string {
	switch {
	case e.Action == "build-fail":
		return said
	case e.Test != "" && e.Action == "fail":
		t.failedTests++
		return fmt.Sprintf("--- FAIL: %s %s (%.1f s)\n%s", e.Package, e.Test, e.Elapsed, said)
	case e.Test != "" && e.Action == "skip":
		t.skipped[reason(said)]++
		return ""
	case e.Test != "":
		return ""
	}
	delete(t.running, e.Package)
	if e.Action == "skip" { // it has no tests
		return ""
	}
	took := time.Duration(e.Elapsed * float64(time.Second)).Round(time.Second / 10)
	if e.Action == "fail" {
		t.failed = append(t.failed, e.Package)
		return said + t.left(e.Package) + fmt.Sprintf("FAIL %s %v\n", e.Package, took)
	}
	t.ok = append(t.ok, e.Package)
	return fmt.Sprintf("ok   %s %v\n", e.Package, took)
}

// left is what tests of a package said that never ended: it was killed or panicked.
func (t *tally) left(pkg string) (said string) {
	for _, at := range slices.Sorted(maps.Keys(t.output)) {
		if strings.HasPrefix(at, pkg+" ") {
			said += t.output[at].String()
			delete(t.output, at)
		}
	}
	return said
}

// reason is what a test said when it skipped itself, in one line.
func reason(said string) string {
	var words []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if place, text, ok := strings.Cut(line, ": "); ok && strings.Contains(place, ".go:") {
			line = text
		}
		words = append(words, line)
	}
	return cmp.Or(strings.Join(words, "; "), "no reason given")
}

// progress says what is running.
func (t *tally) progress() string {
	return fmt.Sprintf("... %d packages are done, running: %s\n", len(t.ok)+len(t.failed), strings.Join(slices.Sorted(maps.Keys(t.running)), ", "))
}

// closing is the last line of a run.
func (t *tally) closing(took time.Duration) string {
	total := 0
	var why []string
	for _, r := range slices.Sorted(maps.Keys(t.skipped)) {
		total += t.skipped[r]
		why = append(why, fmt.Sprintf("%d: %s", t.skipped[r], r))
	}
	line := fmt.Sprintf("%d packages ok, %d failed (%d tests), %d tests skipped", len(t.ok), len(t.failed), t.failedTests, total)
	if total > 0 {
		line += " (" + strings.Join(why, " | ") + ")"
	}
	return line + fmt.Sprintf(", in %v\n", took.Round(time.Second))
}
