package manifest

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"

	"svcc/ir/diag"
)

// source is the text of one file, as UTF-8 without a byte order mark.
type source struct {
	name  string
	named bool // on the command line
	text  []byte
	marks []mark // one for every markStep bytes

	latest latest
}

// mark is what is known about the place of a byte: its line, counted from 0,
// and where that line starts. With a mark at every few kilobytes a place is
// found without counting from the start, in files of one line too.
type mark struct{ line, start int32 }

const markStep = 4096

var bom = []byte("\ufeff")

// readSource reads all of in; stdin stands for "-".
func readSource(in input, stdin io.Reader) (*source, diag.List) {
	var diags diag.List
	raw, err := readInput(in.name, stdin)
	switch {
	case errors.Is(err, errTooLarge):
		diags.Add(diag.TooLarge, diag.Pos{File: in.name}, "", "%q is larger than %d bytes", in.name, maxFile).
			Hint = "split the file"
		return nil, diags
	case err != nil:
		diags.Add(diag.ReadFailed, diag.Pos{File: in.name}, "", "cannot read %q: %v", in.name, reason(err))
		return nil, diags
	}
	text, err := toUTF8(raw)
	if err != nil {
		diags.Add(diag.BadEncoding, diag.Pos{File: in.name}, "", "%q is not text: %v", in.name, err)
		return nil, diags
	}
	s := newSource(in.name, text)
	s.named = in.named
	if at := invalidUTF8(text); at >= 0 {
		diags.Add(diag.BadEncoding, s.pos(at), "", "byte 0x%02x is not UTF-8", text[at]).
			Hint = "save the file as UTF-8"
		return nil, diags
	}
	return s, diags
}

func newSource(name string, text []byte) *source {
	s := &source{name: name, text: text}
	var m mark
	for at := 0; ; at += markStep {
		s.marks = append(s.marks, m)
		if at+markStep > len(text) {
			return s
		}
		block := text[at : at+markStep]
		m.line += int32(bytes.Count(block, []byte{'\n'}))
		if i := bytes.LastIndexByte(block, '\n'); i >= 0 {
			m.start = int32(at + i + 1)
		}
	}
}

// pos is the place of the byte at off.
func (s *source) pos(off int) diag.Pos {
	off = min(max(off, 0), len(s.text))
	m := s.marks[off/markStep]
	part := s.text[off-off%markStep : off]
	line, start := int(m.line)+bytes.Count(part, []byte{'\n'}), int(m.start)
	if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
		start = off - off%markStep + i + 1
	}
	return diag.Pos{File: s.name, Line: line + 1, Col: off - start + 1}
}

func (s *source) isJSON() bool { return filepath.Ext(s.name) == ".json" }

var errTooLarge = errors.New("too large")

func readInput(name string, stdin io.Reader) ([]byte, error) {
	if name == "-" {
		if stdin == nil {
			return nil, errors.New("there is no standard input")
		}
		return readLimited(stdin, 0)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readLimited(f, info.Size())
}

// readLimited reads to the end, or fails beyond maxFile; size is a guess that
// saves copying.
func readLimited(r io.Reader, size int64) ([]byte, error) {
	if size > maxFile {
		return nil, errTooLarge
	}
	var b bytes.Buffer
	b.Grow(int(size) + bytes.MinRead)
	n, err := b.ReadFrom(io.LimitReader(r, maxFile+1))
	if err == nil && n > maxFile {
		err = errTooLarge
	}
	return b.Bytes(), err
}

// toUTF8 looks for a byte order mark; without one the text is UTF-8 already.
func toUTF8(raw []byte) ([]byte, error) {
	if bytes.HasPrefix(raw, bom) {
		return raw[len(bom):], nil
	}
	if !bytes.HasPrefix(raw, []byte{0xff, 0xfe}) && !bytes.HasPrefix(raw, []byte{0xfe, 0xff}) {
		return raw, nil
	}
	if len(raw)%2 != 0 {
		return nil, errors.New("UTF-16 with an odd number of bytes")
	}
	return unicode.UTF16(unicode.LittleEndian, unicode.UseBOM).NewDecoder().Bytes(raw)
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text []byte) int {
	if utf8.Valid(text) {
		return -1
	}
	for at := 0; at < len(text); {
		r, n := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && n == 1 {
			return at
		}
		at += n
	}
	return -1
}

// reason is the error without the operation and the path, which the message
// names itself.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
