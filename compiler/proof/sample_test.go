package proof_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/compiler/proof"
	"svcc/emit"
	"svcc/emit/iptables"
	"svcc/ir/eval"
)

// slips are small changes of one rule that an emitter might make for one service.
var slips = []struct{ from, to string }{
	{` ! `, ` `}, {`--or-mark`, `--xor-mark`}, {`--or-mark`, `--set-mark`}, {`-g `, `-j `}, {`DROP`, `REJECT`},
	{`-m addrtype --dst-type LOCAL `, ``}, {`--ctstate NEW `, `--ctstate NEW,ESTABLISHED `}, {`-p tcp`, `-p udp`},
	{`--prob\S* 0\.`, `--probability 0.1`}, {`(-[sd] \S+\.)(\d)(/\d+)? `, `${1}2$2$3 `}, {`/(\d)(\d?) `, `/1$1 `},
	{`(--to\S* \S+:)(\d)`, `${1}1`}, {`--dport (\d)`, `--dport 1`},
}

// number is what rules of one shape differ by, or by a chain's name.
var number = regexp.MustCompile(`KUBE-(SVC|SEP|EXT|FW|SVL)-\w+|--comment (".*?"|\S+)|[0-9a-f]*[:.][0-9a-f:./]+|\d+`)

// shapes has three lines of each shape, or all with SVCC_ALL.
func shapes(lines []string) (out []int) {
	seen := map[string]int{}
	for i, line := range lines {
		shape := number.ReplaceAllString(line, "$1#")
		if seen[shape]++; seen[shape] <= 3 || os.Getenv("SVCC_ALL") != "" {
			out = append(out, i)
		}
	}
	return out
}

// TestSampleFindsWhatAllProbesFind loses and changes rules of every shape there is,
// one at a time: what all packets together tell, the sample of a build tells too.
func TestSampleFindsWhatAllProbesFind(t *testing.T) {
	for level := range 3 {
		v4, v6 := unitsAt(t, level)
		for _, u := range []compiler.Unit{v4, v6, spacious(t, level)} {
			lines := slices.Collect(strings.Lines(string(u.Sections[0].Text)))
			found := 0
			for _, i := range shapes(lines) {
				line := lines[i]
				for _, other := range others(line) {
					lines[i] = other
					all, sample := judge(u, strings.Join(lines, ""))
					if all && !sample {
						t.Errorf("O%d %s: the sample does not tell that %sbecame %s", level, u.Family, line, other)
					}
					if sample {
						found++
					}
				}
				lines[i] = line
			}
			if found < 80 {
				t.Errorf("O%d %s: only %d changes are found", level, u.Family, found)
			}
		}
	}
}

// others are a line's faulty forms.
func others(line string) []string {
	if !strings.HasPrefix(line, "-A ") {
		return nil
	}
	out := []string{"\n", line + line}
	for _, s := range slips {
		if x := regexp.MustCompile(s.from).ReplaceAllString(line, s.to); x != line {
			out = append(out, x)
		}
	}
	return out
}

// judge says who finds a difference; nobody in a text that cannot be loaded.
// All packets are tried only where the sample finds nothing.
func judge(u compiler.Unit, text string) (all, sample bool) {
	w, err := iptables.Backend{}.Parse(u.Family, []emit.Section{{Tool: iptables.Tool, Family: u.Family, Text: []byte(text)}}, true)
	if err != nil {
		return false, false
	}
	if proof.First(u.Program, w) != nil {
		return false, true
	}
	_, err = proof.Compare(u.Program, w, func(proof.Difference) bool { all = true; return false })
	return all || err != nil, false
}

// Nothing of eval's own is forgiven: a sample consists of the packets of all.
func TestSampleIsPartOfAllProbes(t *testing.T) {
	u, _ := units(t)
	all := map[string]int{}
	for x := range eval.Probes(u.Program) {
		all[x.String()]++
	}
	for x := range eval.Sample(u.Program) {
		if all[x.String()] == 0 {
			t.Errorf("%s is not among all probes", x)
		}
	}
}
