package emit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"svcc/ir"
)

// Ruleset is the one file that a build writes: what it is for, the sections
// for the tools, and the Programs that they were proved against.
type Ruleset struct {
	Head     Head
	Sections []Section
	Programs []string // ir.Program printed for a file, one a family
}

// Head says what a ruleset is for.
type Head struct {
	Mode     string
	Node     string // "" if nothing in it depends on the node
	Families []ir.Family
	Level    int
	Hooks    bool
}

const (
	signature  = "svcc ruleset v1"
	meta       = "#! "
	sectionRow = "#! section "
	programRow = "#: "
	moreRow    = "#+ " // goes on with the line before
	sealRow    = "#! end sha256="
)

// highestLevel is the last -O that exists.
const highestLevel = 2

// String gives the head's fields as the first line has them.
func (h Head) String() string {
	node := h.Node
	if node == "" {
		node = "-"
	}
	hooks := "no"
	if h.Hooks {
		hooks = "yes"
	}
	return fmt.Sprintf("%s mode=%s node=%s families=%s level=%d hooks=%s", signature, h.Mode, node, h.families(), h.Level, hooks)
}

func (h Head) families() string {
	var names []string
	for _, f := range h.Families {
		names = append(names, f.String())
	}
	return strings.Join(names, ",")
}

// Marshal prints the file. With one section it starts with "#!", so that the
// section's tool can load it as it is; with more, the first line is bare, and
// every tool stops there: fed to one tool, a later section would load over an
// earlier one. The last line seals every byte before it.
func (r *Ruleset) Marshal() []byte {
	var b bytes.Buffer
	if len(r.Sections) == 1 {
		b.WriteString(meta)
	}
	fmt.Fprintf(&b, "%s\n", r.Head)
	for _, line := range r.usage() {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "%s%s %s\n", sectionRow, s.Tool, s.Family)
		b.Write(s.Text)
	}
	for _, p := range r.Programs {
		for line := range strings.Lines(p) {
			writeProgramLine(&b, line)
		}
	}
	fmt.Fprintf(&b, "%s%x\n", sealRow, sha256.Sum256(b.Bytes()))
	return b.Bytes()
}

// longestRow is where a Program's line goes on in another row: iptables-restore
// takes what is beyond 10,239 bytes, comments included, for a line of its own.
const longestRow = 1000

func writeProgramLine(b *bytes.Buffer, line string) {
	row := programRow
	for len(line) > longestRow {
		cut := strings.LastIndexByte(line[:longestRow], ' ') + 1
		if cut == 0 {
			cut = longestRow
		}
		b.WriteString(row + line[:cut] + "\n")
		row, line = moreRow, line[cut:]
	}
	b.WriteString(row + line)
}

// ReadPrograms reads the Programs; none where the file was built with --bare.
func (r *Ruleset) ReadPrograms() ([]*ir.Program, error) {
	out := make([]*ir.Program, 0, len(r.Programs))
	for _, text := range r.Programs {
		p, err := ir.ReadProgram(text)
		if err != nil {
			return nil, fmt.Errorf("program: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Errors of Unmarshal that callers tell apart.
var (
	ErrNotRuleset = errors.New("not a svcc ruleset file")
	ErrSeal       = errors.New("the file was cut off or edited: its seal does not match")
)

// Unmarshal reads a ruleset file. A seal that is missing or does not match is
// ErrSeal, with the Ruleset as far as it could be read.
func Unmarshal(text []byte) (*Ruleset, error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	line := strings.TrimPrefix(string(first), meta)
	if !strings.HasPrefix(line, signature+" ") {
		return nil, ErrNotRuleset
	}
	if strings.HasSuffix(line, "\r") {
		return nil, errors.New("its lines end in CR LF: something has rewritten the file, which its seal forbids; take it as svcc build wrote it")
	}
	r := &Ruleset{}
	if err := r.Head.parse(strings.TrimPrefix(line, signature+" ")); err != nil {
		return nil, err
	}
	if err := r.readBody(rest); err != nil {
		return nil, err
	}
	if err := r.agrees(); err != nil {
		return nil, err
	}
	if !sealed(text) {
		return r, ErrSeal
	}
	return r, r.complete()
}

// agrees says whether all that is in a file is of a family that its head names,
// and whether each has one Program at most.
func (r *Ruleset) agrees() error {
	for _, s := range r.Sections {
		if !slices.Contains(r.Head.Families, s.Family) {
			return fmt.Errorf("it has a section of %s, which its head does not name: families=%s", s.Family, r.Head.families())
		}
	}
	known := map[string]bool{}
	for _, p := range r.Programs {
		words := strings.Fields(p)
		if len(words) < 2 || words[0] != "program" {
			return errors.New("a program without a family")
		}
		if f, err := ir.ParseFamily(words[1]); err != nil || !slices.Contains(r.Head.Families, f) {
			return fmt.Errorf("it has a program of %.20q, which its head does not name: families=%s", words[1], r.Head.families())
		}
		if known[words[1]] {
			return fmt.Errorf("it has two programs of %s", words[1])
		}
		known[words[1]] = true
	}
	return nil
}

// complete says whether each family of the head has something in the file.
func (r *Ruleset) complete() error {
	for _, f := range r.Head.Families {
		if !slices.ContainsFunc(r.Sections, func(s Section) bool { return s.Family == f }) {
			return fmt.Errorf("its head names %s, of which it has no section", f)
		}
	}
	return nil
}

// sealed says that the last line holds the sum of every byte before it.
func sealed(text []byte) bool {
	i := bytes.LastIndex(text, []byte("\n"+sealRow))
	if i < 0 {
		return false
	}
	return string(text[i+1:]) == fmt.Sprintf("%s%x\n", sealRow, sha256.Sum256(text[:i+1]))
}

func (h *Head) parse(fields string) error {
	for field := range strings.FieldsSeq(fields) {
		key, value, _ := strings.Cut(field, "=")
		switch key {
		case "mode":
			h.Mode = value
		case "node":
			h.Node = strings.TrimPrefix(value, "-")
		case "level":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || n > highestLevel {
				return fmt.Errorf("level %q is none of 0 to %d", value, highestLevel)
			}
			h.Level = n
		case "hooks":
			if value != "yes" && value != "no" {
				return fmt.Errorf("hooks %.20q is neither yes nor no", value)
			}
			h.Hooks = value == "yes"
		case "families":
			for name := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' }) {
				f, err := ir.ParseFamily(name)
				if err != nil {
					return err
				}
				if slices.Contains(h.Families, f) {
					return fmt.Errorf("it names %s twice", f)
				}
				h.Families = append(h.Families, f)
			}
		}
	}
	return nil
}

// readBody takes sections and Programs apart.
func (r *Ruleset) readBody(body []byte) error {
	var programs [][]byte
	defer func() {
		for _, p := range programs {
			r.Programs = append(r.Programs, string(p))
		}
	}()
	for len(body) > 0 {
		end := bytes.IndexByte(body, '\n') + 1
		if end == 0 {
			end = len(body)
		}
		line := body[:end]
		body = body[end:]
		switch {
		case bytes.HasPrefix(line, []byte(sectionRow)):
			if err := r.openSection(string(bytes.TrimSpace(line[len(sectionRow):]))); err != nil {
				return err
			}
		case bytes.HasPrefix(line, []byte(programRow)):
			programs = addProgram(programs, line[len(programRow):])
		case bytes.HasPrefix(line, []byte(moreRow)) && len(programs) > 0:
			last := &programs[len(programs)-1]
			*last = append(bytes.TrimSuffix(*last, []byte("\n")), line[len(moreRow):]...)
		case bytes.HasPrefix(line, []byte(meta)), len(r.Sections) == 0:
		default:
			s := &r.Sections[len(r.Sections)-1]
			s.Text = append(s.Text, line...)
		}
	}
	return nil
}

func (r *Ruleset) openSection(head string) error {
	tool, family, _ := strings.Cut(head, " ")
	f, err := ir.ParseFamily(family)
	if err != nil {
		return fmt.Errorf("section %q: %w", head, err)
	}
	r.Sections = append(r.Sections, Section{Tool: tool, Family: f})
	return nil
}

// addProgram adds a line to the last of several Programs, or begins another.
func addProgram(list [][]byte, line []byte) [][]byte {
	if bytes.HasPrefix(line, []byte("program ")) || len(list) == 0 {
		list = append(list, nil)
	}
	last := &list[len(list)-1]
	*last = append(*last, line...)
	return list
}
