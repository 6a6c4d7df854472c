package compiler_test

import (
	"strings"
	"testing"

	"svcc/compiler"
	"svcc/emit"
	"svcc/ir"
)

// What iptables-restore takes in a line and no rule of svcc's has: programs to
// run, several rules in one, flags of the command.
func TestUnderstand(t *testing.T) {
	read := func(line string) error {
		return compiler.Understand(&emit.Ruleset{
			Head: emit.Head{Mode: "iptables", Families: []ir.Family{ir.IPv4}},
			Sections: []emit.Section{{Tool: emit.ToolTables, Family: ir.IPv4,
				Text: []byte("*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n" + line + "\nCOMMIT\n")}},
		})
	}
	for _, good := range []string{
		"-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-A",
		`-A KUBE-SERVICES -m comment --comment "--modprobe=/bin/x" -j KUBE-SVC-A`,
	} {
		if err := read(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, more := range []string{
		"--modprobe=/bin/x", "--modprobe /bin/x", "--modp=/bin/x", "-M /bin/x", "-v", "-w", "-w 5", "-n", "-t filter", "-s 10.0.0.1,10.0.0.2", "-d a.example",
	} {
		for _, line := range []string{"-A KUBE-SERVICES " + more + " -j KUBE-SVC-A", "-A KUBE-SERVICES -j KUBE-SVC-A " + more} {
			if err := read(line); err == nil || !strings.Contains(err.Error(), "line 4: ") {
				t.Errorf("%s: error %v, want line 4", line, err)
			}
		}
	}
}
