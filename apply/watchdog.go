package apply

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// The descriptors of a watchdog, beside the standard ones.
const (
	// WatchdogLife is read: a line says that the window is open, the end that the
	// process which opened it is gone.
	WatchdogLife = 3
	// WatchdogReady is written: watchdogReady, or why it cannot watch.
	WatchdogReady = 4
)

const (
	watchdogReady = "ready"
	// watchdogStart is how long a watchdog may take to be ready.
	watchdogStart = 20 * time.Second
)

// StartWatchdog starts a command that calls Watch, as a process in a session of its
// own and with the network and mount namespaces of the calling thread, and waits
// until it is ready. What it gives is for a Guard.
func StartWatchdog(cmd *exec.Cmd) (opened, ended func(), err error) {
	life, hold, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	said, ready, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, life.Close(), hold.Close())
	}
	defer said.Close()
	cmd.ExtraFiles = []*os.File{life, ready}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	life.Close()
	ready.Close()
	if err == nil {
		if err = awaitReady(said); err != nil {
			_ = cmd.Process.Kill()
		}
		go func() { _ = cmd.Wait() }()
	}
	if err != nil {
		hold.Close()
		return nil, nil, fmt.Errorf("the watchdog cannot be started: %w", err)
	}
	return func() { _, _ = io.WriteString(hold, "open\n") }, func() { hold.Close() }, nil
}

// awaitReady reads a watchdog's first word.
func awaitReady(said *os.File) error {
	if err := said.SetReadDeadline(time.Now().Add(watchdogStart)); err != nil {
		return err
	}
	text, err := io.ReadAll(said)
	switch word := strings.TrimSpace(string(text)); {
	case word == watchdogReady:
		return nil
	case word != "":
		return errors.New(word)
	case err != nil:
		return err
	}
	return errors.New("it ended at once")
}

// Window is what a watchdog has to know of the run that it watches.
type Window struct {
	ID      string
	Timeout time.Duration // how long the run waits to be confirmed
	// Grace is how long the run may take after that to undo what it did.
	Grace time.Duration
	// Undo is Engine.RecoverWindow, or does nothing if the window is over.
	Undo func(ctx context.Context, id string) error
	// Open says whether the journal is still that of the run.
	Open func(id string) bool
}

// Watch is a watchdog's work. It returns once its window is over, whoever saw to
// that: at once when the process that opened it is gone, undone; and if that process
// does not end the window by itself in time, because it is stopped or hangs, it is
// ended first. The error is of the last of several attempts to undo.
func Watch(ctx context.Context, w Window, life io.ReadCloser, ready io.WriteCloser, parent *os.Process) error {
	if _, err := io.WriteString(ready, watchdogReady); err != nil {
		return err
	}
	if err := ready.Close(); err != nil {
		return err
	}
	open, gone := make(chan struct{}), make(chan struct{})
	go follow(life, open, gone)
	select {
	case <-gone:
	case <-open:
		w.await(gone, parent)
	}
	return w.undo(ctx)
}

// follow tells what comes of the process that holds the other end.
func follow(life io.Reader, open, gone chan<- struct{}) {
	in := bufio.NewReader(life)
	if _, err := in.ReadString('\n'); err == nil {
		close(open)
		_, _ = io.Copy(io.Discard, in)
	}
	close(gone)
}

// await waits until the process is gone, and sees to it that this is not too late:
// one that was stopped (Ctrl-Z) goes on, and then undoes what it did; one that does
// not even so is killed, and with it its tools.
func (w Window) await(gone <-chan struct{}, parent *os.Process) {
	for _, step := range []struct {
		after  time.Duration
		signal syscall.Signal
	}{{w.Timeout + time.Second, syscall.SIGCONT}, {w.Grace, syscall.SIGKILL}} {
		select {
		case <-gone:
			return
		case <-time.After(step.after):
		}
		if w.Open(w.ID) {
			_ = parent.Signal(step.signal)
		}
	}
	<-gone
}

// undo takes the rules back. What stands in the way, such as another program's
// lock, may go away.
func (w Window) undo(ctx context.Context) (err error) {
	const attempts, most = 30, 30 * time.Second
	for n := range attempts {
		if err = w.Undo(ctx, w.ID); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(time.Second<<min(n, 5), most)):
		}
	}
	return err
}
