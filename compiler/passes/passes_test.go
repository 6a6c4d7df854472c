package passes_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svcc/compiler/passes"
	"svcc/ir"
	"svcc/ir/irtest"
)

func names(rows []passes.Pass) string {
	var s []string
	for _, r := range rows {
		s = append(s, r.Name)
	}
	return strings.Join(s, " ")
}

// The table itself holds its constraints; each row is one thing and has words
// for users.
func TestTable(t *testing.T) {
	if _, err := passes.Select(passes.Table, 2, nil); err != nil {
		t.Error(err)
	}
	for _, p := range passes.Table {
		kinds := 0
		for _, is := range []bool{p.Program != nil, p.Lower != nil, p.Graph != nil} {
			if is {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s is %d kinds of pass", p.Name, kinds)
		}
		if !strings.HasSuffix(p.Doc, ".") || p.Name != strings.ToLower(p.Name) || strings.ContainsAny(p.Name, " ,-") {
			t.Errorf("%s: %q", p.Name, p.Doc)
		}
		for _, o := range p.After {
			if o.Why == "" {
				t.Errorf("%s comes after %s without a reason", p.Name, o.Pass)
			}
		}
	}
	rows, err := passes.Select(passes.Table, 0, nil)
	if err != nil || names(rows) != "order lower" {
		t.Errorf("level 0 runs %q, %v", names(rows), err)
	}
}

func nothing(*ir.Program) {}

func TestSelect(t *testing.T) {
	row := func(name string, level int, after ...passes.Order) passes.Pass {
		return passes.Pass{Name: name, Level: level, After: after, Program: nothing}
	}
	needs := func(name string) passes.Order { return passes.Order{Pass: name, Why: "of a reason"} }
	required := row("a", 0)
	required.Required = true
	good := []passes.Pass{required, row("b", 1), row("c", 0, needs("a")), row("d", 2, needs("b"), needs("c"))}
	for _, c := range []struct {
		name  string
		table []passes.Pass
		level int
		off   []string
		want  string // the rows, or a part of the error after "!"
	}{
		{"level 0", good, 0, nil, "a c"},
		{"level 1", good, 1, nil, "a b c"},
		{"level 2", good, 2, nil, "a b c d"},
		{"one off", good, 2, []string{"c"}, "a b d"},
		{"two off", good, 2, []string{"d", "b", "d"}, "a c"},
		{"off though the level leaves it out", good, 0, []string{"d"}, "a c"},
		{"required", good, 2, []string{"a"}, `!pass "a" is required`},
		{"unknown", good, 2, []string{"x"}, `!no pass is named "x"`},
		{"no name", good, 2, []string{""}, `!no pass is named ""`},
		{"empty table", nil, 0, nil, ""},
		{"wrong order", []passes.Pass{row("a", 0, needs("b")), row("b", 0)}, 0, nil, `!pass "a" must come after "b": of a reason`},
		{"constraint on nothing", []passes.Pass{row("a", 0, needs("x"))}, 0, nil, `!pass "a" must come after "x"`},
		{"after itself", []passes.Pass{row("a", 0, needs("a"))}, 0, nil, `!pass "a" must come after "a"`},
		{"twice", []passes.Pass{row("a", 0), row("a", 0)}, 0, nil, `!two passes are named "a"`},
	} {
		rows, err := passes.Select(c.table, c.level, c.off)
		if want, bad := strings.CutPrefix(c.want, "!"); bad {
			if err == nil || !strings.Contains(err.Error(), want) || rows != nil {
				t.Errorf("%s: %q, error %v, want %q", c.name, names(rows), err, want)
			}
		} else if err != nil || names(rows) != c.want {
			t.Errorf("%s: %q, error %v, want %q", c.name, names(rows), err, c.want)
		}
	}
	if names(good) != "a b c d" {
		t.Error("Select has changed the table")
	}
}

// Run runs the rows in order and tells after each what there is then.
func TestRun(t *testing.T) {
	var log []string
	note := func(s string) { log = append(log, s) }
	g := &ir.Graph{}
	rows := []passes.Pass{
		{Name: "p", Program: func(*ir.Program) { note("run p") }},
		{Name: "l", Lower: func(*ir.Program) *ir.Graph { note("run l"); return g }},
		{Name: "g", Graph: func(x *ir.Graph) { note(fmt.Sprint("run g ", x == g)) }},
	}
	got, err := passes.Run(rows, &ir.Program{}, func(name string, p *ir.Program, x *ir.Graph) error {
		note(fmt.Sprint("after ", name, " ", p != nil, " ", x == g))
		return nil
	})
	want := []string{"run p", "after p true false", "run l", "after l true true", "run g true", "after g true true"}
	if d := cmp.Diff(want, log); d != "" || err != nil || got != g {
		t.Errorf("error %v\n%s", err, d)
	}
	log = nil
	if got, err = passes.Run(rows, &ir.Program{}, nil); err != nil || got != g || len(log) != 3 {
		t.Errorf("without after: %v, %v, %v", got, err, log)
	}
	log = nil
	stop := errors.New("enough")
	got, err = passes.Run(rows, &ir.Program{}, func(name string, _ *ir.Program, _ *ir.Graph) error {
		if name == "l" {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || !strings.Contains(err.Error(), `after pass "l"`) || got != nil || slices.Contains(log, "run g true") {
		t.Errorf("stopped: %v, %v, %v", got, err, log)
	}
}

// Check, as an after function, sees faults of both levels.
func TestCheck(t *testing.T) {
	p := irtest.Shop()
	if err := passes.Check("", p, nil); err != nil {
		t.Error(err)
	}
	p.Services[0].Frontends = nil
	if err := passes.Check("", p, nil); err == nil {
		t.Error("an unsound Program passes")
	}
	if err := passes.Check("", p, &ir.Graph{Entries: []*ir.Entry{{}}}); err == nil || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("an unsound Graph: %v", err)
	}
}

// After every pass of every level, what there is is sound.
func TestInvariants(t *testing.T) {
	for level := 0; level <= 2; level++ {
		rows, err := passes.Select(passes.Table, level, nil)
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			if _, err := passes.Run(rows, irtest.Programs().Draw(t, "program"), passes.Check); err != nil {
				t.Error(err)
			}
		})
	}
}
