package uml

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/golden/lab"
)

// marker names the job's folder on the kernel's command line, which hands it
// to init as an environment variable.
const marker = "SVCC_UML"

// job is what the machine wants of a kernel.
type job struct {
	Args []string // the command to run
	Dir  string   // where
	Env  []string // and with which environment, before childEnv changes it
}

// Files of a job's folder. What comes back is result and output.
const (
	jobFile    = "job.json"
	outputFile = "output"
	resultFile = "result.json"
)

// result is what became of a job.
type result struct {
	Trouble string // why the command could not be run
	Exit    int    // its exit code
}

// Inside says whether the calling process runs inside a kernel of this package.
func Inside() bool { return os.Getenv(marker) != "" }

// Main runs a package's tests, as TestMain has to, on the machine and inside.
// It does not return.
func Main(m *testing.M) {
	if !Inside() {
		os.Exit(m.Run())
	}
	if os.Getpid() == 1 {
		asInit(os.Getenv(marker))
	}
	lab.Flavours = []lab.Flavour{lab.Legacy}
	os.Exit(m.Run())
}

// asInit does the job and switches the kernel off.
func asInit(dir string) {
	var r result
	j, err := readJob(dir)
	if err == nil {
		err = prepare(j)
	}
	if err == nil {
		r.Exit, err = perform(j, dir)
	}
	if err != nil {
		r.Trouble = err.Error()
	}
	text, _ := json.Marshal(r)
	if err := os.WriteFile(filepath.Join(dir, resultFile), text, 0o644); err != nil {
		fmt.Println(err)
	}
	unix.Sync()
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("switching off:", err)
	select {}
}

// Where things are inside. All of it is in memory.
const (
	moduleRoot = "/run/kernel"
	toolDir    = "/run/tools"
	tempDir    = "/run/tmp"
)

// prepare makes a system of a kernel.
func prepare(j job) error {
	if err := os.Setenv("PATH", toolDir+":"+j.variable("PATH")); err != nil {
		return err
	}
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"tmpfs", "/run"}, {"tmpfs", "/dev/shm"}, {"devpts", "/dev/pts"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	if err := os.Mkdir(tempDir, 0o777); err != nil {
		return err
	}
	return errors.Join(loadModules(), linkTools(), loopbackUp(), unlimited())
}

// loadModules loads all of modules, which modprobe finds only in a folder
// whose name it knows.
func loadModules() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return err
	}
	parent := moduleRoot + "/lib/modules"
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	release := unix.ByteSliceToString(u.Release[:])
	if err := os.Symlink(filepath.Join(moduleDir, release), filepath.Join(parent, release)); err != nil {
		return err
	}
	said, err := exec.Command("modprobe", append([]string{"-d", moduleRoot, "-a"}, modules...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("modprobe: %w\n%s", err, said)
	}
	// Whatever the kernel still misses is not there: each call of an iptables
	// tool would start a process to look for bpfilter, 20 a run.
	return os.WriteFile("/proc/sys/kernel/modprobe", []byte("\n"), 0)
}

// linkTools gives iptables-legacy the plain names: this kernel has no
// nf_tables for IPv4 and IPv6.
func linkTools() error {
	if err := os.Mkdir(toolDir, 0o755); err != nil {
		return err
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, end := range []string{"", "-save", "-restore"} {
			path, err := exec.LookPath(family + "-legacy" + end)
			if err != nil {
				return err
			}
			if err := os.Symlink(path, filepath.Join(toolDir, family+end)); err != nil {
				return err
			}
		}
	}
	return nil
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// unlimited lets the kernel send as many ICMP errors as tests provoke; the
// limit is the whole machine's.
func unlimited() error {
	return errors.Join(
		os.WriteFile("/proc/sys/net/ipv4/icmp_msgs_per_sec", []byte("1000000"), 0),
		os.WriteFile("/proc/sys/net/ipv4/icmp_msgs_burst", []byte("1000000"), 0),
	)
}

func readJob(dir string) (j job, err error) {
	text, err := os.ReadFile(filepath.Join(dir, jobFile))
	if err != nil {
		return j, err
	}
	return j, json.Unmarshal(text, &j)
}

// variable is the value of an environment variable on the machine.
func (j job) variable(name string) (value string) {
	for _, e := range j.Env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// perform runs the job's command and gives its exit code.
func perform(j job, dir string) (exit int, err error) {
	out, err := os.OpenFile(filepath.Join(dir, outputFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = j.Dir, childEnv(j.Env, dir), out, out
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	err = waitSyncing(cmd, out)
	if exited := (*exec.ExitError)(nil); errors.As(err, &exited) {
		if exited.Exited() {
			return exited.ExitCode(), nil
		}
		return 0, fmt.Errorf("the tests ended by %v", exited)
	}
	return 0, err
}

// waitSyncing waits for the command, and lets the machine see its output each
// second, lest it is lost with a kernel that ends badly.
func waitSyncing(cmd *exec.Cmd, out *os.File) error {
	done := make(chan error)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return errors.Join(err, out.Sync())
		case <-tick.C:
			out.Sync() // the last one counts
		}
	}
}

// childEnv is the machine's environment with what is different inside.
func childEnv(env []string, dir string) []string {
	return append(append(env, // the last one of a name counts
		marker+"="+dir, "TMPDIR="+tempDir, "PATH="+os.Getenv("PATH")), careful...)
}

// careful keeps programs from what this kernel does badly. Preempted by signals, a large
// Go program was seen to hang in garbage collection; and the registers of the CPU's
// optional features are not kept, see plainRegisters.
var careful = []string{
	"GODEBUG=asyncpreemptoff=1,cpu.all=off", "GOMAXPROCS=1",
	"GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX_Fast_Unaligned_Load,-AVX512F,-AVX512VL,-AVX512BW,-XSAVE,-XSAVEC",
}
