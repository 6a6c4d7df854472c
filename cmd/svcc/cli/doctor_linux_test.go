package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svcc/golden/lab"
)

func runDoctor(t *testing.T, wantCode int, args ...string) string {
	t.Helper()
	var out, err strings.Builder
	args = append([]string{"doctor", "--state-dir", filepath.Join(t.TempDir(), "none")}, args...)
	if code := Run(args, nil, &out, &err); code != wantCode {
		t.Errorf("svcc %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, wantCode, out.String(), err.String())
	}
	return out.String()
}

func TestKernelDoctor(t *testing.T) {
	lab.Enter(t)
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	text := runDoctor(t, exitFindings)
	for _, want := range []string{"fail     sysctl.forwarding.ipv4: net.ipv4.ip_forward = 0", "-> sysctl -w net.ipv4.ip_forward=1", "checks are fine"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	if strings.Contains(text, "ok  ") || !strings.Contains(runDoctor(t, exitFindings, "-v"), "ok       kernel.ipv4.DNAT") {
		t.Errorf("what is fine is for -v only:\n%s", text)
	}
	var report struct {
		Findings []struct{ ID, State, Todo string }
	}
	asJSON := runDoctor(t, exitFindings, "--json")
	if !strings.HasPrefix(asJSON, "{\n  \"schema\": \"svcc.io/doctor/v1\",\n") {
		t.Errorf("JSON without its name:\n%s", asJSON)
	}
	if err := json.Unmarshal([]byte(asJSON), &report); err != nil || len(report.Findings) < 30 {
		t.Errorf("--json: %v, %d findings", err, len(report.Findings))
	}
	if text := runDoctor(t, exitDone, "--fix"); !strings.Contains(text, "set net/ipv4/ip_forward: 0 -> 1, until the next boot\n") {
		t.Errorf("--fix does not say what it set:\n%s", text)
	}
	if now, _ := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); string(now) != "1\n" {
		t.Errorf("ip_forward is %q after --fix", now)
	}
}

// What a ruleset needs is asked for it.
func TestKernelDoctorForRuleset(t *testing.T) {
	lab.Enter(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "node.rules")
	manifest := `apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo}
spec: {type: NodePort, clusterIP: 10.96.0.20, ports: [{port: 80, nodePort: 30080}]}
`
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if code := Run([]string{"build", "-q", "--node", "node-a", "-o", file, filepath.Join(dir, "web.yaml")}, nil, &said, &said); code != exitDone {
		t.Fatalf("svcc build: %d\n%s", code, said.String())
	}
	// What apply will set is no fault, but said.
	if text := runDoctor(t, exitFindings, "-v", file); !strings.Contains(text, "ok       sysctl.route_localnet: svcc apply sets net.ipv4.conf.all.route_localnet to 1") {
		t.Errorf("a localhost node port needs route_localnet:\n%s", text)
	}
	runDoctor(t, exitUsage, filepath.Join(dir, "web.yaml"))
	runDoctor(t, exitUsage, filepath.Join(dir, "none"))
	if list := runDoctor(t, exitDone, "--list"); !strings.Contains(list, "kernel ") || !strings.Contains(list, "kube-proxy ") {
		t.Errorf("--list: %s", list)
	}
}

// In IPVS mode more is looked at: by --mode, or because the ruleset is of it.
func TestKernelDoctorOfMode(t *testing.T) {
	lab.Enter(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "node.rules")
	manifest := `apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo, annotations: {svcc.io/ipvs-scheduler: sed}}
spec: {clusterIP: 10.96.0.20, ports: [{port: 80}]}
`
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if code := Run([]string{"build", "-q", "--mode", "ipvs", "--node", "node-a", "-o", file, filepath.Join(dir, "web.yaml")}, nil, &said, &said); code != exitDone {
		t.Fatalf("svcc build: %d\n%s", code, said.String())
	}
	for _, c := range []struct {
		args        []string
		says, says2 string
		virtual     bool
	}{
		{[]string{"-v"}, "modes: ", "checks are fine", false},
		{[]string{"-v", "--mode", "ipvs"}, "ipvs.module: ", "ipvs.scheduler.rr: ", true},
		{[]string{"-v", "--mode", "ipvs", "--scheduler", "mh,sh"}, "ipvs.scheduler.mh: ", "ipvs.scheduler.sh: ", true},
		{[]string{"-v", file}, "ipvs.scheduler.sed: ", "addresses.link: ", true},
		{[]string{"-v", "--mode", "iptables", file}, "modes: ", "checks are fine", false},
	} {
		text := runDoctor(t, exitFindings, c.args...)
		if !strings.Contains(text, c.says) || !strings.Contains(text, c.says2) || strings.Contains(text, "ipvs.module") != c.virtual {
			t.Errorf("%q:\n%s", c.args, text)
		}
	}
	runDoctor(t, exitUsage, "--mode", "nftables")
	runDoctor(t, exitUsage, "--mode", "ipvs", "--scheduler", "best")
}
