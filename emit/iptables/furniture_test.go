package iptables

import (
	"strings"
	"testing"

	"svcc/ir"
)

// kubelets are the rules of a kubelet up to 1.27, and one that jumps to
// KUBE-MARK-DROP as kube-proxies up to 1.25 do.
const kubelets = `*filter
:KUBE-FIREWALL - [0:0]
:KUBE-NODEPORTS - [0:0]
-A INPUT -m comment --comment "kubernetes health check service ports" -j KUBE-NODEPORTS
-A INPUT -j KUBE-FIREWALL
-A OUTPUT -j KUBE-FIREWALL
-A KUBE-FIREWALL -m comment --comment "kubernetes firewall for dropping marked packets" -m mark --mark 0x8000/0x8000 -j DROP
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-NODEPORTS -p tcp -m comment --comment "demo/shop:https health check node port" -m tcp --dport 31555 -j ACCEPT
COMMIT
*nat
:KUBE-MARK-DROP - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -j KUBE-SERVICES
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
-A KUBE-SERVICES -p tcp -m tcp --dport 81 -j KUBE-MARK-DROP
COMMIT
`

// kubelet's rule drops what was marked by rules of ours, and by the kernel's own
// reading whatever else has its mark.
func TestKubeletsMark(t *testing.T) {
	w := mustParse(t, ir.IPv4, kubelets)
	own := w.Own()
	marked := packet(ir.TCP, "11.1.1.1", "c", "192.0.2.10:80")
	marked.Mark = 0xffffbfff
	checkWalk(t, own, marked, "1 as it is to 192.0.2.10:80 mark 0xffffbfff input=policy")
	checkWalk(t, w, marked, "1 drop as it is to 192.0.2.10:80 input=drop")
	marked.Dst = packet(ir.TCP, "11.1.1.1", "c", "192.0.2.10:81").Dst
	checkWalk(t, own, marked, "1 drop as it is to 192.0.2.10:81 input=drop")
	checkWalk(t, own, packet(ir.TCP, "11.1.1.1", "c", "192.0.2.10:81"), "1 drop as it is to 192.0.2.10:81 input=drop")
}

// A rule that drops by more than the mark, or by a mark of several bits, is
// nobody's furniture.
func TestNoFurniture(t *testing.T) {
	for _, rule := range []string{"-p tcp -m mark --mark 0x8000/0x8000 -j DROP", "-m mark --mark 0x8100/0x8100 -j DROP", "-m mark ! --mark 0x8000/0x8000 -j DROP"} {
		own := mustParse(t, ir.IPv4, strings.Replace(kubelets, "-m comment --comment \"kubernetes firewall for dropping marked packets\" -m mark --mark 0x8000/0x8000 -j DROP", rule, 1)).Own()
		p := packet(ir.TCP, "11.1.1.1", "c", "192.0.2.10:80")
		p.Mark = 0xffff
		if strings.Contains(rule, "!") {
			p.Mark = 0
		}
		checkWalk(t, own, p, "1 drop as it is to 192.0.2.10:80 input=drop")
	}
}

// Another bit is kubelet's where KUBE-MARK-DROP sets it, and nobody's else.
func TestKubeletsBit(t *testing.T) {
	p := packet(ir.TCP, "11.1.1.1", "c", "192.0.2.10:80")
	p.Mark = 0x10000
	both := mustParse(t, ir.IPv4, strings.ReplaceAll(kubelets, "0x8000", "0x10000")).Own()
	checkWalk(t, both, p, "1 as it is to 192.0.2.10:80 mark 0x10000 input=policy")
	alone := mustParse(t, ir.IPv4, strings.ReplaceAll(kubelets, "--mark 0x8000/0x8000", "--mark 0x10000/0x10000")).Own()
	checkWalk(t, alone, p, "1 drop as it is to 192.0.2.10:80 input=drop")
}

// KUBE-FIREWALL may be called before our other chains or after them. The kernel
// sees the difference; Own does not.
func TestFirewallLate(t *testing.T) {
	w := mustParse(t, ir.IPv4, kubelets)
	martian := packet(ir.TCP, "11.1.1.1", "c", "127.0.0.1:31555")
	checkWalk(t, w, martian, "1 as it is to 127.0.0.1:31555 input=accept")
	checkWalk(t, w.Own(), martian, "1 drop as it is to 127.0.0.1:31555 input=drop")
	if got := strings.Join(order(w.rs), "\n"); !strings.HasPrefix(got, "INPUT calls KUBE-FIREWALL after KUBE-NODEPORTS") || strings.Contains(got, "OUTPUT") {
		t.Errorf("told %q", got)
	}
	gone := mustParse(t, ir.IPv4, strings.Replace(kubelets, "-A INPUT -j KUBE-FIREWALL\n", "", 1))
	checkWalk(t, gone.Own(), martian, "1 as it is to 127.0.0.1:31555 input=accept")
	if got := order(gone.rs); got != nil {
		t.Errorf("without the jump: told %q", got)
	}
}
