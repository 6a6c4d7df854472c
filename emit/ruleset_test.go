package emit_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"svcc/emit"
	"svcc/ir"
)

// small is a ruleset of one section.
func small() *emit.Ruleset {
	return &emit.Ruleset{
		Head:     emit.Head{Mode: "iptables", Node: "node-a", Families: []ir.Family{ir.IPv4}, Hooks: true},
		Sections: []emit.Section{{Tool: "iptables-restore", Family: ir.IPv4, Text: []byte("*nat\n:KUBE-X - [0:0]\n-A KUBE-X -j RETURN\nCOMMIT\n")}},
		Programs: []string{"program ipv4 node-a\n  demo/web/tcp\n"},
	}
}

// large is one of several sections.
func large() *emit.Ruleset {
	r := small()
	r.Head.Families = append(r.Head.Families, ir.IPv6)
	r.Sections = append(r.Sections, emit.Section{Tool: "iptables-restore", Family: ir.IPv6, Text: []byte("*filter\nCOMMIT\n")})
	r.Programs = append(r.Programs, "program ipv6 node-a\n")
	return r
}

// drawn is any ruleset: texts of lines that are no lines of the file's own.
func drawn(t *rapid.T) *emit.Ruleset {
	line := rapid.StringMatching(`([-*:A-Z][ -~]{0,20}|# [ -~]{0,20})?\n`)
	text := func(label string) string { return strings.Join(rapid.SliceOfN(line, 0, 5).Draw(t, label), "") }
	r := &emit.Ruleset{Head: emit.Head{
		Mode:  rapid.SampledFrom([]string{"iptables", "nftables", "ipvs"}).Draw(t, "mode"),
		Node:  rapid.SampledFrom([]string{"", "node-a", "a.b-c.example"}).Draw(t, "node"),
		Level: rapid.IntRange(0, 2).Draw(t, "level"),
		Hooks: rapid.Bool().Draw(t, "hooks"),
	}}
	for _, f := range ir.Families {
		if !rapid.Bool().Draw(t, f.String()) {
			continue
		}
		r.Head.Families = append(r.Head.Families, f)
		for range rapid.IntRange(1, 2).Draw(t, "sections") {
			r.Sections = append(r.Sections, emit.Section{Tool: "iptables-restore", Family: f, Text: []byte(text("text"))})
		}
		if rapid.Bool().Draw(t, "program") {
			r.Programs = append(r.Programs, "program "+f.String()+"\n"+strings.ReplaceAll(text("lines"), "\n", " \n"))
		}
	}
	return r
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawn(t)
		got, err := emit.Unmarshal(want.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Sections {
			if got.Sections[i].Text == nil {
				got.Sections[i].Text = []byte{}
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("-want +got:\n%s", d)
		}
		if !bytes.Equal(got.Marshal(), want.Marshal()) {
			t.Error("not the same bytes when written again")
		}
	})
}

// Whatever is changed or cut off, the file is refused.
func TestSeal(t *testing.T) {
	for _, r := range []*emit.Ruleset{small(), large()} {
		text := r.Marshal()
		if _, err := emit.Unmarshal(text); err != nil {
			t.Fatal(err)
		}
		for i := range text {
			if _, err := emit.Unmarshal(text[:i]); err == nil {
				t.Errorf("cut off after %d of %d bytes, it is read", i, len(text))
			}
			changed := slices.Clone(text)
			for range 255 {
				changed[i]++
				if _, err := emit.Unmarshal(changed); err == nil {
					t.Errorf("with byte %d changed from %q to %q, it is read", i, text[i], changed[i])
				}
			}
			if _, err := emit.Unmarshal(slices.Delete(slices.Clone(text), i, i+1)); err == nil {
				t.Errorf("without byte %d, it is read", i)
			}
		}
		for _, more := range []string{"\n", "x", "-A KUBE-X -j DROP\n", "# a comment\n"} {
			if _, err := emit.Unmarshal(append(slices.Clone(text), more...)); !errors.Is(err, emit.ErrSeal) {
				t.Errorf("with %q at its end: %v", more, err)
			}
		}
	}
}

// An edited file can be read all the same, by who insists.
func TestSealIsTold(t *testing.T) {
	text := bytes.Replace(small().Marshal(), []byte("RETURN"), []byte("ACCEPT"), 1)
	r, err := emit.Unmarshal(text)
	if !errors.Is(err, emit.ErrSeal) || r == nil || len(r.Sections) != 1 || !bytes.Contains(r.Sections[0].Text, []byte("ACCEPT")) {
		t.Errorf("%+v, %v", r, err)
	}
	sections, r, err := emit.ReadRules(text)
	if !errors.Is(err, emit.ErrSeal) || len(sections) != 1 || r == nil {
		t.Errorf("%d sections, %+v, %v", len(sections), r, err)
	}
}

// A file of one section is a comment to its tool but for the section; one of
// several has a first line that no tool takes.
func TestFirstLine(t *testing.T) {
	for _, c := range []struct {
		name string
		r    *emit.Ruleset
		want string
	}{
		{"one section", small(), "#! svcc ruleset v1 mode=iptables node=node-a families=ipv4 level=0 hooks=yes"},
		{"two sections", large(), "svcc ruleset v1 mode=iptables node=node-a families=ipv4,ipv6 level=0 hooks=yes"},
		{"no section", &emit.Ruleset{Head: emit.Head{Mode: "iptables"}}, "svcc ruleset v1 mode=iptables node=- families= level=0 hooks=no"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := string(c.r.Marshal())
			if got, _, _ := strings.Cut(text, "\n"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !emit.IsRules([]byte(text)) {
				t.Error("not known for a ruleset")
			}
		})
	}
}

// Every line of a one-section file that is not the section's is a comment.
func TestOneSectionIsNative(t *testing.T) {
	r := small()
	var rest []string
	for line := range strings.Lines(string(r.Marshal())) {
		if !strings.HasPrefix(line, "#") {
			rest = append(rest, line)
		}
	}
	if got := strings.Join(rest, ""); got != string(r.Sections[0].Text) {
		t.Errorf("what the tool reads:\n%s", got)
	}
}

// The head tells the tool and the flags with which to load a file.
func TestUsage(t *testing.T) {
	six := small()
	six.Head.Families, six.Head.Hooks = []ir.Family{ir.IPv6}, false
	six.Sections[0].Family = ir.IPv6
	for _, c := range []struct {
		r    *emit.Ruleset
		want string
	}{
		{small(), "# Load: iptables-restore < this file"},
		{six, "# Load: ip6tables-restore --noflush < this file"},
		{large(), "# Several sections: not to be fed to one tool."},
	} {
		if lines := strings.Split(string(c.r.Marshal()), "\n"); !strings.HasPrefix(lines[1], c.want) {
			t.Errorf("got %q, want %q...", lines[1], c.want)
		}
	}
}

func TestUnmarshalErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "not a svcc ruleset file",
		"*nat\nCOMMIT\n":             "not a svcc ruleset file",
		"svcc ruleset v2 mode=x\n":   "not a svcc ruleset file",
		"svcc ruleset v10 mode=x\n":  "not a svcc ruleset file",
		"svcc ruleset v1 level=x\n":  "level",
		"svcc ruleset v1 level=-1\n": "level",
		"svcc ruleset v1 level=3\n":  "level",
		"svcc ruleset v1 level=1x\n": "level",
		"svcc ruleset v1 families=x": "family",
		"svcc ruleset v1 mode=x\r\n": "CR LF",
		"svcc ruleset v1 mode=x\n#! section iptables-restore ipv5\n": "family",
	} {
		if _, err := emit.Unmarshal([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %q", text, err, want)
		}
	}
}

// A sealed file that contradicts itself is refused; one that was cut off is told
// to be that.
func TestUnmarshalContradictions(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *emit.Ruleset)
		want   string
	}{
		"a section of a family that is not named": {func(r *emit.Ruleset) { r.Head.Families = r.Head.Families[:1] }, "families=ipv4"},
		"a family without a section":              {func(r *emit.Ruleset) { r.Sections, r.Programs = r.Sections[:1], r.Programs[:1] }, "ipv6"},
		"a family twice":                          {func(r *emit.Ruleset) { r.Head.Families[1] = ir.IPv4 }, "twice"},
		"two programs of a family":                {func(r *emit.Ruleset) { r.Programs[1] = r.Programs[0] }, "two programs of ipv4"},
		"a program of no family":                  {func(r *emit.Ruleset) { r.Programs[1] = "program \n" }, "without a family"},
		"a program of another family": {func(r *emit.Ruleset) {
			r.Head.Families, r.Sections = r.Head.Families[:1], r.Sections[:1]
		}, "program of \"ipv6\""},
	} {
		r := large()
		c.change(r)
		if _, err := emit.Unmarshal(r.Marshal()); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, c.want)
		}
	}
	text := bytes.Replace(small().Marshal(), []byte("hooks=yes"), []byte("hooks=maybe"), 1)
	if _, err := emit.Unmarshal(text); err == nil || !strings.Contains(err.Error(), "neither yes nor no") {
		t.Errorf("hooks=maybe: %v", err)
	}
	text = large().Marshal()
	cut := bytes.LastIndex(text, []byte("#! section"))
	if _, err := emit.Unmarshal(text[:cut]); !errors.Is(err, emit.ErrSeal) {
		t.Errorf("cut off before the second section: %v", err)
	}
}

const saved = "*nat\n:KUBE-X - [0:0]\n-A KUBE-X -d %s -j RETURN\nCOMMIT\n"

// Dumps of both families, one after the other, are taken apart by the line
// that each tool writes first, or by the addresses in them.
func TestReadRulesDumps(t *testing.T) {
	four, six := fmt.Sprintf(saved, "10.0.0.1/32"), fmt.Sprintf(saved, "fd00::1/128")
	for _, c := range []struct{ name, text, v4, v6 string }{
		{"by name", "# Generated by iptables-save v1.8.9\n" + four + "# Generated by ip6tables-save v1.8.9\n" + six, "10.0.0.1", "fd00::1"},
		{"the other way round", "# Generated by ip6tables-nft-save v1.8.9\n" + six + "# Completed\n# Generated by iptables-nft-save v1.8.9\n" + four + "# Completed\n", "10.0.0.1", "fd00::1"},
		{"by address", four + six, "10.0.0.1", "fd00::1"},
		{"by the addresses of any table", "*filter\n:KUBE-X - [0:0]\nCOMMIT\n" + four + "*filter\nCOMMIT\n" + six, "10.0.0.1", "fd00::1"},
		{"one family by address", "*filter\nCOMMIT\n" + six, "", "fd00::1"},
		{"one family", "# Generated by ip6tables-save v1.8.9\n" + six, "", "fd00::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sections, r, err := emit.ReadRules([]byte(c.text))
			if err != nil || r != nil {
				t.Fatal(r, err)
			}
			got := map[ir.Family]string{}
			for _, s := range sections {
				got[s.Family] = string(s.Text)
			}
			for f, want := range map[ir.Family]string{ir.IPv4: c.v4, ir.IPv6: c.v6} {
				if (want == "") != (got[f] == "") || !strings.Contains(got[f], want) || strings.Count(got[f], "*nat") > 1 {
					t.Errorf("%s:\n%s", f, got[f])
				}
			}
		})
	}
}

func TestIsRules(t *testing.T) {
	for text, want := range map[string]bool{
		"":                            false,
		"# a comment\n":               false,
		"apiVersion: v1\n":            false,
		"# from a node\n\n*nat\n":     true,
		"svcc ruleset v1 mode=x\n":    true,
		"#! svcc ruleset v1 mode=x\n": true,
	} {
		if got := emit.IsRules([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if _, _, err := emit.ReadRules([]byte("apiVersion: v1\n")); !errors.Is(err, emit.ErrNotRuleset) {
		t.Errorf("a manifest: %v", err)
	}
}

// A list that no tool would read as one line is read back all the same.
func TestLongProgramLines(t *testing.T) {
	program := "program ipv4\n    endpoints     " + strings.Repeat("10.128.0.1:8080 local, ", 3000) + "10.128.0.2:8080\n    x\n"
	rs := &emit.Ruleset{Head: emit.Head{Mode: "iptables", Families: []ir.Family{ir.IPv4}}, Sections: []emit.Section{{Tool: "iptables-restore", Family: ir.IPv4, Text: []byte("*nat\nCOMMIT\n")}}, Programs: []string{program}}
	text := rs.Marshal()
	for line := range strings.Lines(string(text)) {
		if len(line) > 1100 {
			t.Fatalf("a line of %d bytes", len(line))
		}
	}
	back, err := emit.Unmarshal(text)
	if err != nil || len(back.Programs) != 1 || back.Programs[0] != program {
		t.Errorf("%v, read back as %.200q", err, back.Programs)
	}
}
