package golden

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/golden/lab"
	"svcc/ir"
)

// serviceChain is a chain of one service's; the others are fixed.
var serviceChain = regexp.MustCompile(`^KUBE-(SVC|SVL|EXT|FW|SEP)-`)

// perKind is how many chains of each kind have their lines left out: 20.
var perKind = map[string]int{"SVC": 6, "SVL": 4, "EXT": 4, "FW": 1, "SEP": 5}

// Without any one line of a fixed chain, or of 20 chains of services, rules are
// not what the manifests say, and the error tells the packet, and the service
// if the line is one's.
func TestKernelVerifyFindsMissingLines(t *testing.T) {
	lab.Require(t)
	l := lab.New(t, lab.Config{})
	ref := references[0]
	r := compileArgs(t, ref.flags...)
	for _, fl := range lab.Flavours {
		dump := loaded(t, l, fl, ref.rules)
		sections, _, err := emit.ReadRules([]byte(dump))
		if err != nil || len(sections) != len(r.Units) {
			t.Fatalf("%d sections, %v", len(sections), err)
		}
		for i, u := range r.Units {
			t.Run(fmt.Sprintf("%s/%s", fl, u.Family), func(t *testing.T) {
				missingLines(t, u, string(sections[i].Text))
			})
		}
	}
}

func missingLines(t *testing.T, u compiler.Unit, dump string) {
	if err := proveText(u, dump); err != nil {
		t.Fatal(err)
	}
	tried, exempt := 0, 0
	for _, line := range toLeaveOut(dump) {
		err := proveText(u, strings.Replace(dump, line, "", 1))
		if why := changesNothing(dump, line); why != "" {
			exempt++
			if err != nil {
				t.Errorf("%s  was thought to change nothing (%s):\n%v", line, why, err)
			}
			continue
		}
		tried++
		if err := namedFor(u.Program, line, err); err != nil {
			t.Errorf("without %s  %v", line, err)
		}
	}
	if tried < 100 || exempt > 12 {
		t.Errorf("%d lines were left out, %d are exempt", tried, exempt)
	}
}

// proveText gives the first difference between a text and the Program.
func proveText(u compiler.Unit, text string) error {
	w, err := iptables.Backend{}.Parse(u.Family, []emit.Section{{Tool: iptables.Tool, Family: u.Family, Text: []byte(text)}}, true)
	if err != nil {
		return err
	}
	var first error
	_, err = proof.Compare(u.Program, w, func(d proof.Difference) bool {
		first = d
		return false
	})
	return errors.Join(err, first)
}

// toLeaveOut are the lines of rules of a dump that are tried.
func toLeaveOut(dump string) (out []string) {
	left := map[string]int{}
	for kind, n := range perKind {
		left[kind] = n
	}
	chosen := map[string]bool{}
	for line := range strings.Lines(dump) {
		at := strings.Index(line, "-A ")
		if at < 0 {
			continue
		}
		chain := chainOf(line[at:])
		m := serviceChain.FindStringSubmatch(chain)
		if m != nil && !chosen[chain] {
			if left[m[1]] == 0 {
				continue
			}
			left[m[1]]--
			chosen[chain] = true
		}
		out = append(out, line)
	}
	return out
}

var jump = regexp.MustCompile(` -j (KUBE-\S+)`)

// changesNothing tells why rules mean the same without a line, "" if they do
// not.
func changesNothing(dump, line string) string {
	m := jump.FindStringSubmatch(line)
	switch {
	case !strings.Contains(line, " -j "):
		return "it has no target"
	case m != nil && isBuiltIn(chainOf(line[strings.Index(line, "-A "):])) && !hasRules(dump, line, m[1]):
		return "it jumps into an empty chain"
	}
	return ""
}

// hasRules says whether a chain of the table in which a line stands has rules.
func hasRules(dump, line, chain string) bool {
	at := strings.Index(dump, line)
	begin := strings.LastIndex(dump[:at], "\n*")
	end := at + strings.Index(dump[at:], "COMMIT\n")
	return strings.Contains(dump[begin:end], "-A "+chain+" ")
}

// namedFor says what is wrong with the error that a missing line gives rise to:
// it must be about a packet, and name the service whose line it is.
func namedFor(p *ir.Program, line string, err error) error {
	var d proof.Difference
	if !errors.As(err, &d) {
		return fmt.Errorf("no packet differs: %v", err)
	}
	for _, s := range p.Services {
		if isOf(line[strings.Index(line, "-A "):], s) && d.Probe.Service != s.PortName.String() {
			return fmt.Errorf("is laid at the door of %q, not of %s: %v", d.Probe.Service, s.PortName, err)
		}
	}
	return nil
}
