package iptables

import (
	"strings"
	"testing"

	"svcc/ir"
)

// A rule of ours that asks for every nth packet has no model: whoever comes by it is
// told so, and reading it harms nothing.
func TestEveryNth(t *testing.T) {
	for _, rule := range []string{
		"-A KUBE-SERVICES -p tcp -m statistic --mode nth --every 100 --packet 0 -j DNAT --to-destination 192.0.2.66:22",
		"-A KUBE-SERVICES -m statistic --mode nth --every 3 --packet 1 -j RETURN",
	} {
		text := "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\n" + rule + "\nCOMMIT\n"
		_, err := parseDump(t, text).Walk(packet(ir.TCP, outside, "eth0", "10.96.0.10:80"), node)
		if err == nil || !strings.Contains(err.Error(), "nth") {
			t.Errorf("%s: %v", rule, err)
		}
	}
}
