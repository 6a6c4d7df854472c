package cli

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// unitsNode is a node whose units are those of deploy/: a network of its own, and a
// file system with an /etc, /usr/local/bin, /var/lib and boot id of its own. Both
// are the namespaces of a process, and of nothing else: the test itself stays where
// it is, and whoever removes its folder finds no file system of the machine there.
type unitsNode struct {
	t    *testing.T
	dir  string
	log  string    // what systemctl was told
	init *exec.Cmd // whose namespaces they are
}

// setUpUnits hides files of the machine behind the node's own, and shows the node's
// file system at host, read-only, as a pod has it.
const setUpUnits = `set -e
mount --make-rprivate /
mount --bind "$D/etc" /etc
mount --bind "$D/bin" /usr/local/bin
mount --bind "$D/lib" /var/lib
mount --bind "$D/boot_id" /proc/sys/kernel/random/boot_id
mount --bind / "$D/host"
mount -o remount,bind,ro "$D/host"
mount --bind -o ro "$D/etc" "$D/host/etc"
mount --bind "$D/lib" "$D/host/var/lib"
mount --bind "$D/bin" "$D/host/usr/local/bin"
mount --rbind /proc "$D/host/proc"
mount --bind "$D/run" "$D/host/run"
echo ready
exec sleep 3600
`

func newUnitsNode(t *testing.T) *unitsNode {
	t.Helper()
	needFlavour(t, "nft")
	n := &unitsNode{t: t, dir: t.TempDir()}
	n.log = filepath.Join(n.dir, "systemctl.log")
	t.Setenv("PATH", "/usr/local/bin:"+os.Getenv("PATH"))
	t.Setenv("NODE_NAME", "node-a")
	for _, name := range []string{"etc", "bin", "lib/svcc", "host", "rules", "run"} {
		if err := os.MkdirAll(filepath.Join(n.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.Command("cp", "-a", "/etc/.", filepath.Join(n.dir, "etc")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	if err := os.MkdirAll(filepath.Join(n.dir, "etc/svcc"), 0o755); err != nil {
		t.Fatal(err)
	}
	asCommand(t, filepath.Join(n.dir, "bin"))
	n.inFlavour("nft")
	n.write("bin/systemctl", "#!/bin/sh\n[ \"$*\" = 'reload svcc.service' ] || exit 64\necho reload >> "+n.log+"\n"+command(t, "svcc.service", "ExecReload")+"\n")
	n.boot("1")
	t.Cleanup(n.powerOff)
	return n
}

// inFlavour puts tools of one flavour before the machine's.
func (n *unitsNode) inFlavour(flavour string) {
	n.t.Helper()
	multi, err := exec.LookPath("xtables-" + flavour + "-multi")
	if err != nil {
		n.t.Fatal(err)
	}
	for _, tool := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		if err := os.Symlink(multi, filepath.Join(n.dir, "bin", tool)); err != nil {
			n.t.Fatal(err)
		}
	}
}

// boot gives the node an empty kernel and a boot id. The files are what they were.
func (n *unitsNode) boot(id string) {
	n.t.Helper()
	n.write("boot_id", "00000000-0000-4000-8000-00000000000"+id+"\n")
	n.init = exec.Command("unshare", "-n", "-m", "sh", "-c", setUpUnits)
	n.init.Env = append(os.Environ(), "D="+n.dir)
	n.init.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	n.init.Stderr = &said
	out, err := n.init.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.init.Start(); err != nil {
		n.t.Fatal(err)
	}
	if word := make([]byte, len("ready\n")); true {
		if _, err := io.ReadFull(out, word); err != nil {
			_ = n.init.Wait()
			n.t.Fatalf("the node does not start: %s", said.String())
		}
	}
}

// powerOff ends every process of the node without a word, watchdogs first.
func (n *unitsNode) powerOff() {
	for deadline := time.Now().Add(10 * time.Minute); len(n.processes()) > 0 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, p := range n.processes() {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
	}
	_ = n.init.Process.Kill()
	_ = n.init.Wait()
}

// command gives a command that runs on the node.
func (n *unitsNode) command(argv ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", fmt.Sprint(n.init.Process.Pid), "-n", "-m", "--"}, argv...)...)
}

func (n *unitsNode) write(name, text string) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o755); err != nil {
		n.t.Fatal(err)
	}
}

func (n *unitsNode) shell(script string) string {
	n.t.Helper()
	said, code := n.run("sh", "-c", script)
	if code != 0 {
		n.t.Fatalf("%s: exit code %d\n%s", script, code, said)
	}
	return said
}

func (n *unitsNode) run(argv ...string) (said string, code int) {
	cmd := n.command(argv...)
	text, _ := cmd.CombinedOutput()
	return string(text), cmd.ProcessState.ExitCode()
}

// unit runs a command of a unit as systemd would.
func (n *unitsNode) unit(name, kind string) (said string, code int) {
	n.t.Helper()
	return n.run("sh", "-c", command(n.t, name, kind))
}

// command reads a command line of a unit: of what systemd.service(5) says about
// quoting and variables, ours are what a shell reads as well but for "$$".
func command(t *testing.T, unit, kind string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, "deploy", unit))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^`+kind+`=(.*)$`).FindAllStringSubmatch(string(text), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d lines %s", unit, len(found), kind)
	}
	return strings.ReplaceAll(found[0][1], "$$", "$")
}

// deliver compiles a manifest to a ruleset file of the node.
func (n *unitsNode) deliver(manifest, to string) {
	n.t.Helper()
	args := []string{"build", "-q", "--node", "node-a", "--cluster-cidr", "10.244.0.0/16", "-o", filepath.Join(n.dir, to), manifest}
	var said strings.Builder
	if code := Run(args, nil, &said, &said); code != exitDone {
		n.t.Fatalf("svcc build: %d\n%s", code, said.String())
	}
}

// window starts an apply of /etc/svcc/node.rules that waits to be confirmed, and
// returns when it does.
func (n *unitsNode) window(timeout string) *exec.Cmd {
	n.t.Helper()
	cmd := n.command("svcc", "apply", "--confirm-timeout", timeout, "/etc/svcc/node.rules")
	cmd.Stderr = &strings.Builder{}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.until("a window is open", func() bool {
		_, code := n.run("svcc", "status")
		return code == exitWindow && n.holds() == "other"
	})
	return cmd
}

func (n *unitsNode) until(what string, so func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(10 * time.Minute); !so(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			n.t.Fatalf("not within ten minutes: %s", what)
		}
	}
}

func (n *unitsNode) noJournal() bool {
	_, err := os.Lstat(filepath.Join(n.dir, "lib/svcc/journal.json"))
	return os.IsNotExist(err)
}

// holds says whose rules the kernel holds: those of web.yaml, other.yaml or
// third.yaml, or none.
func (n *unitsNode) holds() string {
	n.t.Helper()
	save := n.shell("iptables-save")
	web, other := strings.Contains(save, "10.244.2.7:8080"), strings.Contains(save, "10.244.2.8:8080")
	switch {
	case strings.Contains(save, "10.244.2.9:8080"):
		return "third"
	case web && other:
		return "both"
	case web:
		return "web"
	case other:
		return "other"
	case strings.Contains(save, "KUBE-SERVICES"):
		return "something"
	}
	return "none"
}

func (n *unitsNode) wants(when, want string) {
	n.t.Helper()
	if got := n.holds(); got != want {
		n.t.Errorf("%s: the node holds %s, want %s", when, got, want)
	}
}

// reboot is what a loss of power is to a node: nothing is told, the kernel is empty
// afterwards, and the files are there.
func (n *unitsNode) reboot(running ...*exec.Cmd) {
	n.t.Helper()
	n.powerOff()
	for _, cmd := range running {
		_ = cmd.Wait()
	}
	n.boot("2")
}

// processes are those of the node's svcc. A watchdog comes first, so that it cannot
// act on the death of what it watches.
func (n *unitsNode) processes() (out []int) {
	exes, _ := filepath.Glob("/proc/[0-9]*/exe")
	want, err := os.Stat(filepath.Join(n.dir, "bin/svcc"))
	if err != nil {
		n.t.Fatal(err)
	}
	own, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", n.init.Process.Pid))
	for _, exe := range exes {
		at := filepath.Dir(exe)
		is, err := os.Stat(exe)
		ns, _ := os.Readlink(filepath.Join(at, "ns/mnt"))
		if err != nil || !os.SameFile(is, want) || ns != own {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(at, "cmdline"))
		var pid int
		if _, err := fmt.Sscan(filepath.Base(at), &pid); err != nil || pid == os.Getpid() {
			continue
		}
		if strings.Contains(string(line), "\x00watchdog\x00") {
			out = append([]int{pid}, out...)
		} else {
			out = append(out, pid)
		}
	}
	return out
}

// The first boot applies the delivered file; later ones, reloads and the timer what
// was confirmed, whatever was delivered since; an apply confirms itself.
func TestKernelUnits(t *testing.T) {
	n := newUnitsNode(t)
	if said, code := n.unit("svcc.service", "ExecStart"); code == 0 || n.holds() != "none" {
		t.Errorf("nothing is delivered: %d, %s", code, said)
	}
	n.deliver("testdata/input/web.yaml", "etc/svcc/node.rules")
	if said, code := n.unit("svcc.service", "ExecStart"); code != 0 {
		t.Fatalf("the first boot: %d, %s", code, said)
	}
	n.wants("the first boot", "web")
	n.deliver("testdata/input/other.yaml", "etc/svcc/node.rules")
	for _, u := range [][2]string{{"svcc.service", "ExecReload"}, {"svcc-check.service", "ExecStart"}, {"svcc.service", "ExecStart"}} {
		if said, code := n.unit(u[0], u[1]); code != 0 {
			t.Errorf("%s: %d, %s", u, code, said)
		}
		n.wants("delivered, not applied", "web")
	}
	n.shell("iptables -t nat -F KUBE-SERVICES; iptables -t nat -F PREROUTING")
	n.unit("svcc-check.service", "ExecStart")
	n.wants("after a flush", "web")
	if n.shell("svcc status; cat "+n.log) == "" || n.shell("wc -l < "+n.log) != "1\n" {
		t.Errorf("the timer reloaded: %s", n.shell("cat "+n.log))
	}
	n.shell("svcc apply /etc/svcc/node.rules")
	n.reboot()
	n.wants("before the boot unit", "none")
	if err := os.Remove(filepath.Join(n.dir, "etc/svcc/node.rules")); err != nil {
		t.Fatal(err)
	}
	if said, code := n.unit("svcc.service", "ExecStart"); code != 0 {
		t.Errorf("a boot without the delivered file: %d, %s", code, said)
	}
	n.wants("confirmed by itself", "other")
}

// whenUnconfirmed opens a window on a node that has web's rules by the first boot,
// or none, and holds what end and the units then do to the promise.
func whenUnconfirmed(t *testing.T, end func(n *unitsNode, apply *exec.Cmd)) {
	for _, old := range []string{"web", "none"} {
		t.Run("old "+old, func(t *testing.T) {
			n := newUnitsNode(t)
			if old == "web" {
				n.deliver("testdata/input/web.yaml", "etc/svcc/node.rules")
				n.shell(command(t, "svcc.service", "ExecStart"))
			}
			n.deliver("testdata/input/other.yaml", "etc/svcc/node.rules")
			apply := n.window("24h")
			for _, u := range [][2]string{{"svcc-check.service", "ExecStart"}, {"svcc.service", "ExecReload"}, {"svcc.service", "ExecStart"}} {
				n.unit(u[0], u[1])
				n.wants(u[0]+" leaves the window alone", "other")
			}
			end(n, apply)
			for _, u := range [][2]string{{"svcc-check.service", "ExecStart"}, {"svcc.service", "ExecStart"}, {"svcc.service", "ExecReload"}} {
				n.unit(u[0], u[1])
				n.wants("after "+u[0]+" "+u[1], old)
			}
			if !n.noJournal() {
				t.Error("the journal is left")
			}
			if said, code := n.run("svcc", "apply", "/etc/svcc/node.rules"); code != exitRefused || !strings.Contains(said, "nobody confirmed") {
				t.Errorf("a plain apply: %d, %s", code, said)
			}
			n.wants("after a plain apply", old)
			n.shell("svcc apply --retry-unconfirmed /etc/svcc/node.rules")
			n.wants("after --retry-unconfirmed", "other")
		})
	}
}

func TestKernelUnitsNobodyConfirms(t *testing.T) {
	whenUnconfirmed(t, func(n *unitsNode, apply *exec.Cmd) {
		_ = apply.Process.Signal(syscall.SIGTERM)
		if _ = apply.Wait(); apply.ProcessState.ExitCode() != exitRefused {
			t.Errorf("exit code %d\n%s", apply.ProcessState.ExitCode(), apply.Stderr)
		}
	})
}

func TestKernelUnitsKilledInTheWindow(t *testing.T) {
	whenUnconfirmed(t, func(n *unitsNode, apply *exec.Cmd) {
		_ = apply.Process.Kill()
		n.until("the watchdog took the rules back", func() bool { return n.noJournal() && len(n.processes()) == 0 })
		_ = apply.Wait()
	})
}

// The same with the watchdog gone as well: the units see to it.
func TestKernelUnitsBothKilledInTheWindow(t *testing.T) {
	whenUnconfirmed(t, func(n *unitsNode, apply *exec.Cmd) {
		for _, p := range n.processes() {
			_ = syscall.Kill(p, syscall.SIGKILL)
		}
		_ = apply.Wait()
		n.wants("nobody is left to take them back", "other")
	})
}

func TestKernelUnitsRebootInTheWindow(t *testing.T) {
	whenUnconfirmed(t, func(n *unitsNode, apply *exec.Cmd) {
		n.reboot(apply)
		n.wants("before the boot unit", "none")
	})
}

// The DaemonSet's loop applies what is delivered, leaves a window alone, and goes
// back to what was confirmed where nobody confirmed what is delivered.
func TestKernelDaemonSetLoop(t *testing.T) {
	n := newUnitsNode(t)
	text, err := os.ReadFile(filepath.Join(repository, "deploy/daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^ *args: \[(.*)\]$`).FindSubmatch(text)
	if list == nil {
		t.Fatal("no args")
	}
	script, err := filepath.Abs(filepath.Join(repository, "deploy/on-host.sh"))
	if err != nil {
		t.Fatal(err)
	}
	n.deliver("testdata/input/web.yaml", "rules/node-a.rules")
	loop := n.command(append([]string{"sh", script}, strings.FieldsFunc(string(list[1]), func(r rune) bool { return strings.ContainsRune(`", `, r) })...)...)
	said, err := os.Create(filepath.Join(n.dir, "said"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	loop.Stdout, loop.Stderr = said, said
	loop.Env = append(os.Environ(), "EVERY=0.5", "HOST="+n.dir+"/host", "SVCC=/usr/local/bin/svcc", "RULES="+n.dir+"/rules/node-a.rules")
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = loop.Process.Signal(syscall.SIGTERM)
		_ = loop.Wait()
		if t.Failed() {
			t.Log(n.shell("cat " + said.Name()))
		}
	}()
	says := func(what string) func() bool {
		return func() bool { return strings.Contains(n.shell("cat "+said.Name()), what) }
	}
	n.until("the delivered file is applied", func() bool { return n.holds() == "web" })
	n.deliver("testdata/input/other.yaml", "etc/svcc/node.rules")
	apply := n.window("24h")
	n.until("the loop leaves it alone", says("left alone"))
	n.wants("in the window", "other")
	_ = apply.Process.Kill()
	n.until("it is taken back", func() bool { return n.noJournal() && n.holds() == "web" })
	_ = apply.Wait()
	// What nobody confirmed is delivered: the confirmed one stays.
	n.deliver("testdata/input/other.yaml", "rules/next")
	n.shell("mv " + n.dir + "/rules/next " + n.dir + "/rules/node-a.rules")
	n.until("the loop says why", says("nobody confirmed this ruleset"))
	n.wants("delivered, and refused", "web")
	n.shell("iptables -t nat -F PREROUTING")
	n.until("what is confirmed is mended", func() bool { return strings.Contains(n.shell("iptables-save -t nat"), "-A PREROUTING") })
	n.wants("mended", "web")
	// Another ruleset reaches the node.
	web, err := os.ReadFile("testdata/input/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	n.write("third.yaml", strings.ReplaceAll(string(web), "10.244.2.7", "10.244.2.9"))
	n.deliver(filepath.Join(n.dir, "third.yaml"), "rules/next")
	n.shell("mv " + n.dir + "/rules/next " + n.dir + "/rules/node-a.rules")
	n.until("the new file is applied", func() bool { return n.holds() == "third" })
}
