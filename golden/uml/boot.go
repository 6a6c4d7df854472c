package uml

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The kernel and its modules, as Debian's package installs them.
const (
	kernel    = "linux.uml"
	moduleDir = "/usr/lib/uml/modules"
)

// slack is what a kernel gets beyond the time that go test leaves for its tests: to
// boot, and to end by itself when the tests took too long.
const slack = 30 * time.Second

// ended is what a kernel left behind.
type ended struct {
	result          // valid unless lost says otherwise
	lost    string  // why there is no result
	output  string  // what the tests wrote
	console string  // what the kernel wrote
	took    float64 // seconds
	badly   bool    // the kernel itself ended by an error, and was not killed by us
}

// boot runs a command, whose binary must be one that calls Main, in a kernel of
// its own, for as long as they go on.
func boot(args []string, s settings) (e ended, err error) {
	dir, err := os.MkdirTemp("", "uml")
	if err != nil {
		return e, err
	}
	defer os.RemoveAll(dir)
	if err := writeJob(dir, args, s.env); err != nil {
		return e, err
	}
	start := time.Now()
	if err := run(&e, kernelArgs(args[0], dir, s), dir, s.silence); err != nil {
		return e, err
	}
	e.took = time.Since(start).Seconds()
	output, err := os.ReadFile(filepath.Join(dir, outputFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return e, err
	}
	e.output = string(output)
	text, err := os.ReadFile(filepath.Join(dir, resultFile))
	if err == nil {
		err = json.Unmarshal(text, &e.result)
	}
	e.judge(err == nil)
	return e, nil
}

// judge says why there is no result, if there is none. A kernel that has told the
// result may halt badly: that is no business of the tests.
func (e *ended) judge(told bool) {
	switch {
	case !told && e.lost == "":
		e.lost = "the kernel ended early"
	case told && e.badly:
		e.lost = ""
	}
}

func writeJob(dir string, args, env []string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	text, err := json.Marshal(job{Args: args, Dir: cwd, Env: append(os.Environ(), env...)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, jobFile), text, 0o644)
}

// kernelArgs is the kernel's command line. What the kernel does not know of it
// becomes init's environment.
func kernelArgs(init, dir string, s settings) []string {
	return slices.Concat([]string{
		fmt.Sprintf("mem=%dM", s.memory), "uml_dir=" + dir + "/", "umid=kernel",
		"rootfstype=hostfs", "rootflags=/", "rw", "init=" + init,
		"con=null", "con0=null,fd:1", "quiet", "panic=1", marker + "=" + dir,
	}, careful, lean)
}

// lean leaves out of the boot what no test needs and what costs time: terminals of the
// old kind (as long as all the rest), a compressed cache of swapped pages, and the
// buffers of a file system that stands in each kernel. The kernel maps each page of
// its dynamic memory anew whenever some of it is freed, and these were most of them.
var lean = []string{"pty.legacy_count=0", "zswap.enabled=0", "jfs.nTxBlock=16", "jfs.nTxLock=256"}

// run runs the kernel of a job to its end, or until nothing was heard of its tests
// for so long, and tells how it ended and what it wrote on its console. Nothing of it
// is left when run returns.
func run(e *ended, args []string, dir string, silence time.Duration) (err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is never unlocked: it ends with this goroutine, and what it
		// was bound to and denied with it.
		runtime.LockOSThread()
		if err = errors.Join(bindCPU(), plainRegisters()); err == nil {
			err = runHere(e, args, dir, silence)
		}
	}()
	<-done
	return err
}

// runHere is run in the calling thread.
func runHere(e *ended, args []string, dir string, silence time.Duration) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go awaitSilence(ctx, filepath.Join(dir, outputFile), silence, cancel)
	cmd := exec.CommandContext(ctx, kernel, args...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	killAll := func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Cancel, cmd.WaitDelay = killAll, 5*time.Second
	if err := cmd.Start(); err != nil {
		return err
	}
	defer watch(cmd.Process.Pid)()
	err := cmd.Wait()
	killAll() // most times nothing is left
	switch {
	case ctx.Err() != nil:
		e.lost = fmt.Sprintf("the kernel was killed: nothing was heard of its tests for %v", silence)
	case err != nil:
		e.lost, e.badly = fmt.Sprintf("the kernel ended by %v", err), true
	}
	e.console = said.String()
	return nil
}

// awaitSilence calls silent when a file has not grown for so long. A machine that is
// slow makes it grow slowly.
func awaitSilence(ctx context.Context, file string, silence time.Duration, silent func()) {
	size, since := int64(0), time.Now()
	for tick := time.NewTicker(time.Second); time.Since(since) < silence; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if i, err := os.Stat(file); err == nil && i.Size() != size {
			size, since = i.Size(), time.Now()
		}
	}
	silent()
}

// watch has a process group killed should this process end before stop is
// called, in whatever way: of a kernel's processes only the first would end
// with it. Where no shell can be started there is no such care.
func watch(group int) (stop func()) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf("read line; kill -s KILL -- -%d", group))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is not for it
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return func() {}
	}
	return func() {
		cmd.Process.Kill() // it runs as long as the pipe is open
		cmd.Wait()         // it was killed
		in.Close()
	}
}

var booted atomic.Uint32

// bindCPU binds the calling thread, and so what it starts, to one CPU: the
// kernel and its processes never run at the same time but alternate at each
// system call and page fault, which takes half as long on one.
func bindCPU() error {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	// Kernels of one package and of several spread out.
	skip := (os.Getpid() + int(booted.Add(1))) % may.Count()
	for cpu := 0; ; cpu++ {
		if !may.IsSet(cpu) {
			continue
		}
		if skip--; skip < 0 {
			var one unix.CPUSet
			one.Set(cpu)
			return unix.SchedSetaffinity(0, &one)
		}
	}
}
