package diag

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every code has a name of the right form and words for people.
func TestCodesAreDocumented(t *testing.T) {
	if len(Codes()) < 60 {
		t.Fatalf("only %d codes", len(Codes()))
	}
	form := regexp.MustCompile(`^SVCC[1-5][0-9]{3}$`)
	titles := map[string]Code{}
	for _, c := range Codes() {
		i := c.Info()
		if !form.MatchString(string(c)) {
			t.Errorf("%s is no code", c)
		}
		if i.Title == "" || strings.HasSuffix(i.Title, ".") || strings.Contains(i.Title, "\n") {
			t.Errorf("%s has the title %q", c, i.Title)
		}
		if !strings.HasSuffix(i.Doc, ".") || strings.Contains(i.Doc, "\n") || i.Doc != strings.TrimSpace(i.Doc) {
			t.Errorf("%s has the doc %q", c, i.Doc)
		}
		if i.Strict && i.Severity != Warning {
			t.Errorf("%s is a %s: --strict can make an error of a warning only", c, i.Severity)
		}
		if other, ok := titles[i.Title]; ok {
			t.Errorf("%s and %s have one title, %q", c, other, i.Title)
		}
		titles[i.Title] = c
	}
	if !slices.IsSorted(Codes()) {
		t.Error("Codes is not in order")
	}
}

// The parts of the table do not overwrite each other.
func TestPartsAreApart(t *testing.T) {
	if n := len(reading) + len(objects) + len(nodes); n != len(table) {
		t.Errorf("%d rows in the parts, %d in the table", n, len(table))
	}
	for _, part := range []struct {
		codes  map[Code]Info
		stages []Stage
	}{{reading, []Stage{StageReading}}, {objects, []Stage{StageObject, StageAcross}}, {nodes, []Stage{StageNode, StageMode}}} {
		for c := range part.codes {
			if !slices.Contains(part.stages, c.Stage()) {
				t.Errorf("%s stands among the codes of stages %q", c, part.stages)
			}
		}
	}
}

func TestUnknownCode(t *testing.T) {
	if i := Code("SVCC9999").Info(); i != (Info{}) {
		t.Errorf("%+v", i)
	}
	if s := Code("").Stage(); s != 0 {
		t.Errorf("no code is of stage %q", s)
	}
}

func TestAdd(t *testing.T) {
	var l List
	d := l.Add(BadPort, Pos{"a.yaml", 3, 7}, "Service demo/web", "port %d", 0)
	d.Hint = "use another"
	if len(l) != 1 || l[0].Hint != "use another" || l[0].Severity != Error || l[0].Object != "Service demo/web" {
		t.Errorf("%+v", l)
	}
	if got := l[0].String(); got != "a.yaml:3:7: error: Service demo/web: port 0 [SVCC2004]" {
		t.Error(got)
	}
	l.Add(NodeUnknown, Pos{}, "", "no Node object")
	l.Add(DefinedTwice, Pos{File: "-", Line: 1}, "Service a/b", "Service a/b is defined twice")
	if got := l[1].String(); got != "svcc: error: no Node object [SVCC4002]" {
		t.Error(got)
	}
	if got := l[2].String(); got != "-:1: error: Service a/b is defined twice [SVCC1014]" {
		t.Error(got)
	}
}

func TestPos(t *testing.T) {
	for want, p := range map[string]Pos{"-": {}, "f": {File: "f"}, "f:1": {File: "f", Line: 1}, "f:1:2": {"f", 1, 2}} {
		if p.String() != want {
			t.Errorf("%q, want %q", p, want)
		}
		if p.IsZero() != (want == "-") {
			t.Errorf("%q IsZero %v", p, p.IsZero())
		}
	}
	order := []Pos{{}, {"a", 1, 1}, {"a", 1, 2}, {"a", 2, 1}, {"a", 10, 0}, {"b", 1, 1}}
	if !slices.IsSortedFunc(order, Pos.Compare) {
		t.Error("lines are not compared as numbers")
	}
}

func diagnostics() *rapid.Generator[Diagnostic] {
	return rapid.Custom(func(t *rapid.T) Diagnostic {
		return Diagnostic{
			Code:    rapid.SampledFrom([]Code{BadPort, NoClusterIP, NotOurs}).Draw(t, "code"),
			Pos:     Pos{rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "file"), rapid.IntRange(0, 11).Draw(t, "line"), 1},
			Object:  rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "object"),
			Message: rapid.SampledFrom([]string{"m", "n"}).Draw(t, "message"),
		}
	})
}

// Sort gives one order whatever the order before, each finding once, none lost.
func TestSort(t *testing.T) {
	key := func(d Diagnostic) string { return d.String() + d.Object }
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.SliceOf(diagnostics()).Draw(t, "list")
		want := map[string]bool{}
		for _, d := range in {
			want[key(d)] = true
		}
		got := List(slices.Clone(in)).Sort()
		again := List(rapid.Permutation(in).Draw(t, "order")).Sort()
		for i, d := range got {
			if !want[key(d)] {
				t.Errorf("%s was not there", d)
			}
			if key(again[i]) != key(d) {
				t.Errorf("%d: %s in one order, %s in another", i, d, again[i])
			}
			if i > 0 && got[i-1].Pos.Compare(d.Pos) > 0 {
				t.Errorf("%s after %s", d, got[i-1])
			}
		}
		if len(got) != len(want) || len(again) != len(want) {
			t.Errorf("%d and %d findings, want %d", len(got), len(again), len(want))
		}
	})
}

func TestErrorsAndStrict(t *testing.T) {
	var l List
	l.Add(BadPort, Pos{}, "", "an error")
	l.Add(NoClusterIP, Pos{}, "", "a strict warning")
	l.Add(NotCanonical, Pos{}, "", "a lenient warning")
	l.Add(NotOurs, Pos{}, "", "a note")
	if e := l.Errors(); len(e) != 1 || e[0].Code != BadPort {
		t.Errorf("errors %v", e)
	}
	s := l.Strict()
	if e := s.Errors(); len(e) != 2 || e[1].Code != NoClusterIP {
		t.Errorf("strict errors %v", e)
	}
	if l[1].Severity != Warning {
		t.Error("Strict has changed the list itself")
	}
	if s[2].Severity != Warning || s[3].Severity != Note {
		t.Errorf("%v", s)
	}
}
