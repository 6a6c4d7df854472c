package diag

import "testing"

// What a file's name or a value of the input says to a terminal is shown, not said.
func TestPlain(t *testing.T) {
	for in, want := range map[string]string{
		"":                 "",
		"brücke ☸ a\tb\nc": "brücke ☸ a\tb\nc",
		"\x1b[31mred":      `\x1b[31mred`,
		"\u009b31m":        `\u009b31m`,
		"a\u202eb\x07\r":   `a\u202eb\a\r`,
		"\x7f\x00":         `\x7f\x00`,
	} {
		if got := Plain(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	var l List
	l.Add(BadOption, Pos{File: "a\x1b\n.yaml", Line: 1}, "", "%s", "x\x1b]0;y\x07\nz")
	if got, want := l[0].String(), `a\x1b\n.yaml:1: error: x\x1b]0;y\a\nz [SVCC4004]`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
