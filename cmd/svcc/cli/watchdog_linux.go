package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"svcc/apply"
	"svcc/apply/state"
)

// watchdogGrace is how long svcc may take to undo a window that ended, beside the
// time that it may wait for locks.
const watchdogGrace = time.Minute

// newWatchdog is no command for people: apply, rollback and remove start it where
// they wait to be confirmed.
func newWatchdog(s streams) *cobra.Command {
	var e engineFlags
	w := apply.Window{}
	cmd := &cobra.Command{
		Use:    "watchdog",
		Short:  "Take the rules back if the svcc that started this is killed while it waits for svcc confirm",
		Hidden: true,
		Args:   noArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := watchdog(s, e, w); err != nil {
				return exit{exitRefused, err}
			}
			return nil
		},
	}
	f := cmd.Flags()
	e.registerState(f)
	f.DurationVar(&e.lock, "lock-timeout", 0, "as of the run")
	f.StringVar(&e.conntrack, "conntrack", "on", "as of the run")
	f.BoolVar(&e.canaries, "canaries", false, "whether kube-proxy's canary chains go too")
	f.StringVar(&w.ID, "run", "", "the run")
	f.DurationVar(&w.Timeout, "confirm-timeout", 0, "as of the run")
	return cmd
}

// guard is an apply.Guard: svcc itself, by the file that is running, whatever has
// its name now.
func (e *engineFlags) guard(_ context.Context, id string) (opened, ended func(), err error) {
	cmd := exec.Command("/proc/self/exe", "watchdog", "--state-dir", e.dir, "--log-format", e.logFormat, "--run", id,
		"--confirm-timeout", e.confirm.String(), "--lock-timeout", e.lock.String(), "--conntrack", e.conntrack, fmt.Sprintf("--canaries=%v", e.canaries))
	cmd.Args[0] = os.Args[0]
	cmd.Stderr = os.Stderr
	return apply.StartWatchdog(cmd)
}

// watchdog watches the process that started this one.
func watchdog(s streams, e engineFlags, w apply.Window) error {
	life, ready := os.NewFile(apply.WatchdogLife, "life"), os.NewFile(apply.WatchdogReady, "ready")
	d := state.At(e.dir)
	parent, err := os.FindProcess(os.Getppid())
	if err == nil {
		err = d.Check() // opens it: what its path leads to later does not matter
	}
	if err == nil {
		err = survive()
	}
	if err != nil {
		_, _ = io.WriteString(ready, err.Error())
		return err
	}
	w.Grace = watchdogGrace + e.lock
	w.Undo = func(ctx context.Context, id string) error { return takeBack(ctx, s, e, d, id) }
	w.Open = func(id string) bool { return waitsFor(d, id) }
	return apply.Watch(context.Background(), w, life, ready, parent)
}

// survive sees to it that what ends svcc does not end this process: signals to a
// terminal's processes or to all (the end of the machine, at which svcc undoes
// what it did), the killer of those that need memory, the end of svcc's unit.
func survive() error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGPIPE, syscall.SIGTSTP)
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0)
	if err := apply.LeaveControlGroup(); err != nil && apply.Systemd() {
		return fmt.Errorf("it would end with this unit of systemd, whose control group it cannot leave: %w", err)
	}
	return nil
}

// waitsFor says whether the journal is that of a run.
func waitsFor(d *state.Dir, id string) bool {
	j, err := d.Journal()
	return err != nil || j != nil && j.ID == id
}

// takeBack undoes a run, unless nothing is left of it to do.
func takeBack(ctx context.Context, s streams, e engineFlags, d *state.Dir, id string) error {
	if !waitsFor(d, id) {
		return nil
	}
	en, err := e.engine(s, false, e.canaries)
	if err != nil {
		return err
	}
	en.State = d
	return en.RecoverWindow(ctx, id)
}
