package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// silence is for how long nothing may be heard of a run. A test says nothing while
// it runs, and the longest take minutes on a machine that is busy.
const silence = 20 * time.Minute

// roomy has garbage collected later than is usual: tests are short and have memory
// enough, and some would spend a third of their time on it.
const roomy = "GOGC=400"

var errInterrupted = errors.New("interrupted")

func main() {
	begun, t, wrong := time.Now(), newTally(), 0
	done := map[string]bool{}
	for _, group := range os.Args[1:] {
		packages, err := list(strings.Split(group, ","), done)
		if err == nil && len(packages) > 0 {
			err = run(t, packages, os.Stdout)
		}
		if err != nil {
			wrong++
			fmt.Println(err)
		}
		if errors.Is(err, errInterrupted) {
			break
		}
	}
	fmt.Print(t.closing(time.Since(begun)))
	if wrong > 0 || len(t.failed) > 0 || len(t.ok) == 0 {
		os.Exit(1)
	}
}

// list gives the packages of patterns, in their order, that are not done yet.
func list(patterns []string, done map[string]bool) (out []string, err error) {
	for _, p := range patterns {
		said, err := exec.Command("go", "list", p).Output()
		if err != nil {
			return nil, fmt.Errorf("go list %s: %w", p, err)
		}
		for _, pkg := range strings.Fields(string(said)) {
			if !done[pkg] {
				done[pkg] = true
				out = append(out, pkg)
			}
		}
	}
	return out, nil
}

// run runs the tests of some packages. An error says that go test ended badly,
// for whatever reason.
func run(t *tally, packages []string, to io.Writer) error {
	args := append([]string{"test", "-json", "-count=1", "-vet=off", "-timeout=0"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Env = append([]string{roomy}, os.Environ()...) // whose GOGC counts, if it has one
	// A group of its own, to be ended as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	quit := func(s syscall.Signal) { _ = syscall.Kill(-cmd.Process.Pid, s) }
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(told)
	err = follow(t, read(out), to, told, quit)
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("go test %s: %w", strings.Join(packages, " "), ended)
	}
	return err
}

// read gives the lines of go test -json as they come.
func read(from io.Reader) <-chan event {
	events := make(chan event)
	go func() {
		defer close(events)
		for r := bufio.NewReader(from); ; {
			line, err := r.ReadBytes('\n')
			var e event
			if len(line) > 0 && json.Unmarshal(line, &e) != nil {
				e = event{Action: "output", Output: string(line)}
			}
			if len(line) > 0 {
				events <- e
			}
			if err != nil {
				return
			}
		}
	}()
	return events
}

// follow shows what comes until it ends. A run that is silent for too long is asked
// by a signal to say where it stands, which ends it.
func follow(t *tally, events <-chan event, to io.Writer, told <-chan os.Signal, quit func(syscall.Signal)) error {
	heard, tick := time.Now(), time.NewTicker(time.Minute)
	defer tick.Stop()
	var err error
	for {
		select {
		case e, more := <-events:
			if !more {
				return err
			}
			heard = time.Now()
			fmt.Fprint(to, t.add(e))
		case <-told:
			err = errInterrupted
			quit(syscall.SIGTERM)
		case <-tick.C:
			fmt.Fprint(to, t.progress())
			if time.Since(heard) > silence {
				err = fmt.Errorf("nothing was heard for %v: it is ended", silence)
				quit(syscall.SIGQUIT)
			}
		}
	}
}
