package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// Runner runs tools: the one seam between svcc and the kernel for everything
// that is a program. Tests put a fake behind it, or one that injects faults.
type Runner interface {
	// Run waits for the tool. An error of type *ToolError holds what it said.
	Run(ctx context.Context, in Input) (stdout []byte, err error)
}

// ToolError is a tool that failed.
type ToolError struct {
	Tool   string
	Args   []string
	Code   int // exit code; -1 if it did not start or a signal ended it
	Stderr string
	Err    error
}

func (e *ToolError) Error() string {
	if why := e.missing(); why != "" {
		return why
	}
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		text = e.Err.Error()
	}
	return fmt.Sprintf("%s: exit %d: %s", strings.Join(append([]string{e.Tool}, e.Args...), " "), e.Code, text)
}

// missing says that there is no such program to run, and what to do; "" if there is.
func (e *ToolError) missing() string {
	var start *fs.PathError
	switch {
	case errors.Is(e.Err, exec.ErrDot):
		return fmt.Sprintf("the program %s is only in a directory that $PATH names relative to where svcc is run, from which nothing is run: name it from / on", e.Tool)
	case errors.Is(e.Err, exec.ErrNotFound), errors.As(e.Err, &start) && start.Op == "fork/exec" && errors.Is(start, fs.ErrNotExist):
		return fmt.Sprintf("the program %s is not there: install the package %s", e.Tool, packageOf(e.Tool))
	}
	return ""
}

// packageOf is the package that has a tool, as most distributions name it.
func packageOf(tool string) string {
	switch base := filepath.Base(tool); {
	case strings.Contains(base, "tables"):
		return "iptables"
	case base == "modprobe":
		return "kmod"
	default:
		return base
	}
}

func (e *ToolError) Unwrap() error { return e.Err }

// ErrToolTimeout is a tool that ran longer than Exec.Limit.
var ErrToolTimeout = errors.New("it did not end in time, and was killed (--tool-timeout)")

// Exec runs real programs. They die with svcc, so that none writes on after it.
type Exec struct {
	// Started is called with the process's id once it runs; nil for nothing.
	Started func(pid int, in Input)
	// Limit is how long a tool may run, beside Input.Waits; 0 for ever. Then it is
	// killed with its process group.
	Limit time.Duration
}

// pipeWait is how long a process that a tool left behind may hold its output open.
const pipeWait = 5 * time.Second

// Run implements Runner.
func (x Exec) Run(ctx context.Context, in Input) ([]byte, error) {
	if x.Limit > 0 {
		limited, done := context.WithTimeoutCause(ctx, x.Limit+in.Waits, ErrToolTimeout)
		defer done()
		ctx = limited
	}
	cmd := exec.CommandContext(ctx, in.Tool, in.Args...)
	cmd.Stdin = bytes.NewReader(in.Stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A group of its own: Ctrl-C at a terminal is for svcc to deal with.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = pipeWait
	if in.Isolated {
		cleanup, err := isolate(cmd)
		if err != nil {
			return nil, &ToolError{Tool: in.Tool, Args: in.Args, Code: -1, Err: err}
		}
		defer cleanup()
	}
	// The signal comes when the thread that started the tool ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	if err == nil {
		if x.Started != nil {
			x.Started(cmd.Process.Pid, in)
		}
		err = cmd.Wait()
	}
	if err != nil && errors.Is(context.Cause(ctx), ErrToolTimeout) {
		return nil, &ToolError{Tool: in.Tool, Args: in.Args, Code: -1, Err: fmt.Errorf("%w: %s", ErrToolTimeout, x.Limit+in.Waits)}
	}
	if err != nil {
		return stdout.Bytes(), &ToolError{Tool: in.Tool, Args: in.Args, Code: cmd.ProcessState.ExitCode(), Stderr: stderr.String(), Err: err}
	}
	return stdout.Bytes(), nil
}

// isolate gives a tool a network of its own, and a lock file: the machine's is
// for those who write to the machine's rules.
func isolate(cmd *exec.Cmd) (cleanup func(), err error) {
	dir, err := os.MkdirTemp("", "svcc-")
	if err != nil {
		return nil, err
	}
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+filepath.Join(dir, "lock"))
	return func() { os.RemoveAll(dir) }, nil
}
