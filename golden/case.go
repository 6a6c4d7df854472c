package golden

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/rogpeppe/go-internal/txtar"
)

// Case is one file of cases/.
type Case struct {
	File    string // its path
	Name    string // the sentence that it shows
	Flags   []string
	Traces  []Trace
	Virtual []Trace // in IPVS mode
	Gap     []Trace // in IPVS mode at -O0, which has kube-proxy's gap (ir.Virtual.HairpinLocal)
	Refused string  // the code of the error for which IPVS mode builds nothing
	archive *txtar.Archive
}

// The sections that are not input.
const (
	secFlags       = "flags"
	secTrace       = "trace"
	secTraceIPVS   = "trace-ipvs"    // of lines that have another result in IPVS mode
	secGapIPVS     = "trace-ipvs-O0" // and of those that have yet another at -O0
	secDiagnostics = "diagnostics"
	secIR          = "ir"
	secIPTables    = "iptables"    // at -O0
	secIPTablesO1  = "iptables-O1" // at -O1
)

// ReadCase reads a case's file. The error names what is wrong with its form.
func ReadCase(file string) (*Case, error) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		return nil, err
	}
	c := &Case{File: file, archive: a}
	c.Name, _, _ = strings.Cut(string(a.Comment), "\n")
	if want := kebab(c.Name) + ".txtar"; filepath.Base(file) != want {
		return nil, fmt.Errorf("%s: by its name %q it should be called %s", file, c.Name, want)
	}
	c.Flags = strings.Fields(c.section(secFlags))
	if c.Traces, err = ParseTraces(c.section(secTrace)); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if err := c.readVirtual(); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", file, secTraceIPVS, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return c, nil
}

// readVirtual puts the lines of IPVS mode in the place of those about the same
// packet. One that says nothing else, or is about no packet, is an error.
func (c *Case) readVirtual() error {
	if code, ok := strings.CutPrefix(c.section(secTraceIPVS), "refused "); ok {
		c.Refused, _, _ = strings.Cut(code, "\n")
		return nil
	}
	var err error
	if c.Virtual, err = instead(c.Traces, c.section(secTraceIPVS)); err == nil {
		c.Gap, err = instead(c.Virtual, c.section(secGapIPVS))
	}
	return err
}

// instead puts lines in the place of those about the same packet.
func instead(lines []Trace, text string) ([]Trace, error) {
	others, err := ParseTraces(text)
	if err != nil {
		return nil, err
	}
	out := slices.Clone(lines)
	for _, o := range others {
		i := slices.IndexFunc(out, func(t Trace) bool { return t.packet() == o.packet() })
		if i < 0 || slices.Equal(out[i].Want, o.Want) {
			return nil, fmt.Errorf("line %d: %s: no trace line is about this packet, or it says the same", o.Line, o.Text)
		}
		out[i] = o
	}
	return out, nil
}

// virtual are the lines of IPVS mode at a level.
func (c *Case) virtual(level int) []Trace {
	if level == 0 {
		return c.Gap
	}
	return c.Virtual
}

// check holds what would make a case say nothing, or less than it seems to.
func (c *Case) check() error {
	known := map[string]bool{}
	for _, f := range c.archive.Files {
		if known[f.Name] {
			return fmt.Errorf("two sections %q", f.Name)
		}
		known[f.Name] = true
		switch f.Name {
		case secFlags, secTrace, secTraceIPVS, secGapIPVS, secDiagnostics, secIR, secIPTables, secIPTablesO1:
		default:
			if !isInput(f.Name) {
				return fmt.Errorf("section %q is none that is read", f.Name)
			}
		}
	}
	if len(c.Inputs()) == 0 {
		return fmt.Errorf("there is no input")
	}
	if len(c.Traces) == 0 && !c.Has(secDiagnostics) {
		return fmt.Errorf("there are neither trace lines nor diagnostics")
	}
	return nil
}

func isInput(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name))
}

// Inputs are the names of the files that are built: all but those that a flag
// names.
func (c *Case) Inputs() (names []string) {
	for _, f := range c.archive.Files {
		if isInput(f.Name) && !slices.Contains(c.Flags, f.Name) && !slices.Contains(c.Flags, "--config="+f.Name) {
			names = append(names, f.Name)
		}
	}
	return names
}

// Unpack writes the input files into a directory.
func (c *Case) Unpack(dir string) error {
	for _, f := range c.archive.Files {
		if !isInput(f.Name) {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (c *Case) section(name string) string {
	for _, f := range c.archive.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// Has says whether the case has a section, be it empty.
func (c *Case) Has(name string) bool {
	return slices.ContainsFunc(c.archive.Files, func(f txtar.File) bool { return f.Name == name })
}

// Set replaces a section or adds it at the end; an empty text removes it. The
// trace cannot be set.
func (c *Case) Set(name, text string) {
	if slices.Contains([]string{secTrace, secTraceIPVS, secGapIPVS}, name) {
		panic("trace lines are written by hand")
	}
	files := &c.archive.Files
	i := slices.IndexFunc(*files, func(f txtar.File) bool { return f.Name == name })
	switch {
	case i >= 0 && text == "":
		*files = slices.Delete(*files, i, i+1)
	case i >= 0:
		(*files)[i].Data = []byte(text)
	case text != "":
		*files = append(*files, txtar.File{Name: name, Data: []byte(text)})
	}
}

// Write writes the case back if that changes anything.
func (c *Case) Write() error {
	text := txtar.Format(c.archive)
	if old, err := os.ReadFile(c.File); err != nil || bytes.Equal(old, text) {
		return err
	}
	return os.WriteFile(c.File, text, 0o644)
}

// kebab is a sentence as a file's name: its letters and digits in lower case,
// with a hyphen for whatever is between them, without its first article. An
// apostrophe joins.
func kebab(s string) string {
	s = strings.ReplaceAll(s, "'", "")
	words := strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	if len(words) > 1 && slices.Contains([]string{"a", "an", "the"}, words[0]) {
		words = words[1:]
	}
	return strings.Join(words, "-")
}
