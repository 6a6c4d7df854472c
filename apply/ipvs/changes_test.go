package ipvs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/ir"
)

// What a plan says of itself, to people and as inputs of tools.
func TestChanges(t *testing.T) {
	tg := target(newNode())
	bring(t, tg, newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:80").ruleset())
	rs := newWorld().cluster("tcp 10.96.0.1:80 sh", "10.0.0.2:80").nodePort("udp 192.0.2.1:30053 rr").ruleset()
	rs.Programs = []string{programText(t, nil, &ir.ServicePort{
		PortName: ir.PortName{Namespace: "demo", Name: "dns", Port: "x", Protocol: ir.UDP}, Frontends: []ir.Frontend{{Kind: ir.NodePort, Port: 30053}},
	})}
	_, p := plans(t, tg, rs)
	var got strings.Builder
	for _, c := range p.Rules() {
		got.WriteString(c.String())
		if c.Service != "" {
			got.WriteString("  of " + c.Service)
		}
		got.WriteString("\n")
	}
	for _, in := range p.Inputs() {
		got.WriteString(in.Tool + " " + strings.Join(in.Args, " ") + "\n" + string(in.Stdin))
	}
	want := `- ipv4 ipset KUBE-LOOP-BACK 10.0.0.1,tcp:80,10.0.0.1
+ ipv4 ipset KUBE-LOOP-BACK 10.0.0.2,tcp:80,10.0.0.2
+ ipv4 ipset KUBE-NODE-PORT-UDP 30053  of demo/dns:x
- ipv4 ipvs -t 10.96.0.1:80 -s rr
+ ipv4 ipvs -t 10.96.0.1:80 -s sh
+ ipv4 ipvs -t 10.96.0.1:80 -r 10.0.0.2:80 -m -w 1
- ipv4 ipvs -t 10.96.0.1:80 -r 10.0.0.1:80 -m -w 1
+ ipv4 ipvs -t 10.96.0.1:80 -r 10.0.0.1:80 -m -w 0
+ ipv4 ipvs -u 192.0.2.1:30053 -s rr  of demo/dns:x
ipset restore
add KUBE-NODE-PORT-UDP 30053
add KUBE-LOOP-BACK 10.0.0.2,tcp:80,10.0.0.2
del KUBE-LOOP-BACK 10.0.0.1,tcp:80,10.0.0.1
ipvsadm -R
-E -t 10.96.0.1:80 -s sh
-a -t 10.96.0.1:80 -r 10.0.0.2:80 -m -w 1
-A -u 192.0.2.1:30053 -s rr
-e -t 10.96.0.1:80 -r 10.0.0.1:80 -m -w 0
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}
