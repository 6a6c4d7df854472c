package compiler

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"svcc/emit"
	"svcc/emit/mode"
)

const dual = `apiVersion: v1
kind: Service
metadata: {name: dual, namespace: demo}
spec:
  type: NodePort
  clusterIP: 10.96.0.12
  clusterIPs: [10.96.0.12, "fd00:96::12"]
  ports: [{name: http, port: 80, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dual-4, namespace: demo, labels: {kubernetes.io/service-name: dual}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.244.1.6]}, {addresses: [10.244.1.7]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dual-6, namespace: demo, labels: {kubernetes.io/service-name: dual}}
addressType: IPv6
ports: [{name: http, port: 8080}]
endpoints: [{addresses: ["fd00:244::6"]}, {addresses: ["fd00:244::7"]}]
`

func rulesetFor(t *testing.T, m *mode.Mode, level int) *emit.Ruleset {
	t.Helper()
	o := input(t, web, dual)
	o.Mode, o.Level, o.Flags.ClusterCIDR = m, level, ptr("10.244.0.0/16,fd00:244::/64")
	o.Flags.Node, o.Flags.NodeIPs = ptr("node-a"), []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	r, err := Compile(o, nil)
	if err != nil || r.Units == nil {
		t.Fatal(err, r.Diagnostics)
	}
	rs, err := r.Ruleset(false)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// reseal edits a ruleset file and gives it a right seal, as a hand could.
func reseal(t *testing.T, rs *emit.Ruleset, edit func(string) string) *emit.Ruleset {
	t.Helper()
	text := string(rs.Marshal())
	edited := edit(text)
	if edited == text {
		t.Fatal("the edit changes nothing")
	}
	out, err := emit.Unmarshal([]byte(edited))
	if out == nil || !errors.Is(err, emit.ErrSeal) {
		t.Fatal(err)
	}
	if out, err = emit.Unmarshal(out.Marshal()); err != nil {
		t.Fatal(err)
	}
	return out
}

// replace exchanges the first match of a pattern.
func replace(pattern, by string) func(string) string {
	re := regexp.MustCompile(pattern)
	return func(text string) string {
		if at := re.FindStringIndex(text); at != nil {
			return text[:at[0]] + by + text[at[1]:]
		}
		return text
	}
}

// insert puts a line after the declarations of a table of the first section.
func insert(table, line string) func(string) string {
	re := regexp.MustCompile(`(?m)^\*` + table + `\n(:.*\n)*`)
	return func(text string) string {
		at := re.FindStringIndex(text)
		return text[:at[1]] + line + "\n" + text[at[1]:]
	}
}

// appendTo puts a line at the end of a table of the first section.
func appendTo(table, line string) func(string) string {
	re := regexp.MustCompile(`(?ms)^\*` + table + `\n.*?^COMMIT\n`)
	return func(text string) string {
		end := re.FindStringIndex(text)[1] - len("COMMIT\n")
		return text[:end] + line + "\n" + text[end:]
	}
}

// TestProve holds ruleset files that a hand edited and sealed again to their own
// Programs, in each mode at each level.
func TestProve(t *testing.T) {
	for _, m := range mode.Table {
		for level := range 3 {
			t.Run(fmt.Sprintf("%s -O%d", m, level), func(t *testing.T) {
				rs := rulesetFor(t, m, level)
				if err := Prove(nil, rs); err != nil {
					t.Fatal("as it was built:", err)
				}
				for _, c := range []struct {
					name string
					edit func(string) string
				}{
					{"a foreign destination is captured", insert("nat", "-A KUBE-SERVICES -p tcp --dport 22 -j DNAT --to-destination 6.6.6.6:22")},
					{"one foreign address is captured", insert("nat", "-A KUBE-SERVICES -d 8.8.8.8/32 -p udp --dport 53 -j DNAT --to-destination 6.6.6.6:53")},
					{"all are masqueraded", insert("nat", "-A KUBE-POSTROUTING -j MASQUERADE")},
					{"one client is masqueraded", insert("nat", "-A KUBE-POSTROUTING -s 10.7.7.7/32 -j MASQUERADE")},
					{"nothing meets the services", insert("nat", "-A KUBE-SERVICES -j ACCEPT")},
					{"what comes after the services is cut off", appendTo("nat", "-A KUBE-SERVICES -j ACCEPT")},
					{"it is cut off for a port", appendTo("nat", "-A KUBE-SERVICES -p tcp --dport 22 -j ACCEPT")},
					{"a pod is cut off", insert("filter", "-A KUBE-FORWARD -d 10.244.1.6/32 -j DROP")},
					{"INPUT meets what FORWARD does", insert("filter", "-A INPUT -j KUBE-FORWARD")},
					{"the Program has another endpoint", replace(`(?m)^#:     endpoints     10\.244\.1\.6:8080, 10\.244\.1\.7:8080`, "#:     endpoints     10.244.1.6:8080, 10.244.1.9:8080")},
					{"the Program has another address", replace(`(?m)^#:     cluster-ip    10\.96\.0\.10:80`, "#:     cluster-ip    10.96.0.99:80")},
				} {
					err := Prove(nil, reseal(t, rs, c.edit))
					if err == nil || !strings.Contains(err.Error(), "does not keep its own promise") {
						t.Errorf("%s: error %v", c.name, err)
					}
				}
			})
		}
	}
}

// What has no Program cannot be proved, in one family or in all.
func TestProveNeedsPrograms(t *testing.T) {
	rs := rulesetFor(t, mode.IPTables, 1)
	rs.Programs = rs.Programs[:1]
	if err := Prove(nil, rs); !errors.Is(err, ErrBare) {
		t.Error(err)
	}
	rs.Programs = nil
	if err := Prove(nil, rs); !errors.Is(err, ErrBare) {
		t.Error(err)
	}
}
