package emit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf16"

	"svcc/ir"
)

// otherForms are what people take for the output of iptables-save, by how a line
// of it begins. What they lack (tables, counters of chains, whole names) cannot
// be guessed.
var otherForms = []struct {
	line          *regexp.Regexp
	what, instead string
}{
	{regexp.MustCompile(`(?m)^Chain \S+ \((policy |\d+ references)`), "iptables -L", "iptables-save"},
	{regexp.MustCompile(`(?m)^(-P \S+ (ACCEPT|DROP)|-N \S+)\s*$`), "iptables -S", "iptables-save"},
	{regexp.MustCompile(`(?m)^table (ip|ip6|inet|arp|bridge|netdev) \S+ \{`), "nft list ruleset", "iptables-save"},
	{regexp.MustCompile(`(?m)^\{"nftables":`), "nft -j list ruleset", "iptables-save"},
	{regexp.MustCompile(`(?m)^<iptables-rules\b`), "iptables-xml", "iptables-save"},
	{regexp.MustCompile(`(?m)^IP Virtual Server version `), "ipvsadm -L", "ipvsadm -Sn, beside iptables-save, ipset save and ip address show dev " + ServiceLink + ","},
	{regexp.MustCompile(`(?m)^Name: \S+\s*\nType: (hash|bitmap|list):`), "ipset list", "ipset save, beside iptables-save, ip address show dev " + ServiceLink + " and ipvsadm -Sn,"},
	{regexp.MustCompile(`(?m)^(\[\d+:\d+\] )?-A \S+ .*-[jg] `), "rules without their tables", "the whole of what iptables-save"},
}

// formSize is how much of a text is looked at to tell what it is.
const formSize = 4096

// tableStart finds the first lines of a table, wherever they are.
var tableStart = regexp.MustCompile(`(?m)^[ \t]*\*(filter|nat|mangle|raw|security)[ \t\r]*\n[ \t]*:[A-Z]`)

// otherForm is the error that tells what a text is, if it is rules in a form
// that is not read; else nil.
func otherForm(text []byte) error {
	head := bytes.ReplaceAll(text[:min(len(text), formSize)], []byte("\r\n"), []byte("\n"))
	for _, f := range otherForms {
		if !f.line.Match(head) {
			continue
		}
		if f.what[0] == 'r' { // no tool's name
			return fmt.Errorf("these are %s: %s prints is wanted", f.what, f.instead)
		}
		return fmt.Errorf("this is what %q prints: what %s prints is wanted", f.what, f.instead)
	}
	return nil
}

// plainText brings a text into UTF-8 without a mark at its beginning: a shell of
// Windows writes UTF-16.
func plainText(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return text[3:]
	case bytes.HasPrefix(text, []byte("\xff\xfe")):
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte("\xfe\xff")):
		order = binary.BigEndian
	default:
		return text
	}
	units := make([]uint16, len(text)/2-1)
	for i := range units {
		units[i] = order.Uint16(text[2*i+2:])
	}
	return []byte(string(utf16.Decode(units)))
}

// clean leaves of a dump what tools print: lines end in LF and begin at the
// margin, and outside of tables what a shell wrote (a prompt, "logout") is gone.
func clean(text []byte) []byte {
	out := make([]byte, 0, len(text))
	inTable := false
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
		case line[0] == '*':
			inTable = true
		case bytes.Equal(line, []byte("COMMIT")):
			inTable = false
		case !inTable && !ruleLine.Match(line) && virtualTool(line) == "":
			line = nil
		}
		out = append(append(out, line...), '\n') // also for nothing: lines keep their numbers
	}
	return out
}

// ruleLine is a comment, a chain or a rule: outside of tables the last two are for
// the reader of tables to refuse.
var ruleLine = regexp.MustCompile(`^(#|:[A-Za-z]|(\[\d+:\d+\] )?-[A-Z] )`)

// leavesOut says that the tool which printed a text left a table out.
func leavesOut(text []byte, table string) bool {
	for line := range bytes.Lines(text) {
		if m := leftOut.FindSubmatch(line); m != nil && string(m[1]) == table {
			return true
		}
	}
	return false
}

// MissingTable says which table of the two that Services need a dump's section
// lacks, and how to get it; nil if both are there, or the section is no dump's.
func MissingTable(s Section) error {
	if s.Tool != ToolTables || !s.Dump {
		return nil
	}
	save := "iptables-save"
	if s.Family == ir.IPv6 {
		save = "ip6tables-save"
	}
	for _, table := range []string{"nat", "filter"} {
		switch {
		case regexp.MustCompile(`(?m)^\*` + table + `$`).Match(s.Text):
		case leavesOut(s.Text, table):
			return fmt.Errorf("table %s is missing: %s left it out, since nft has put something there that iptables cannot express; "+
				"if kube-proxy uses iptables-legacy, %s prints its rules", table, save, strings.Replace(save, "tables-", "tables-legacy-", 1))
		default:
			return fmt.Errorf("table %s is missing: append what %q prints, or take the whole of what %s prints", table, save+" -t "+table, save)
		}
	}
	return nil
}
