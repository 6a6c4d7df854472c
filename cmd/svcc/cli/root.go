package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"svcc/apply"
	"svcc/apply/state"
	"svcc/ir/diag"
)

// The exit codes, everywhere.
const (
	exitDone     = 0 // done, or no difference
	exitFindings = 1 // differences, or errors in the input's objects
	exitUsage    = 2 // the command line, or unreadable input
	exitRefused  = 3 // a tool, the kernel or svcc itself refused; nothing is changed
	exitHalfMade = 4 // the old state could not be put back
	exitLocked   = 5 // a lock was held too long
)

// applied gives an error of package apply its exit code.
func applied(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, apply.ErrHalfMade):
		return exit{exitHalfMade, err}
	case errors.Is(err, apply.ErrLocked), errors.Is(err, state.ErrBusy), errors.Is(err, state.ErrChild):
		return exit{exitLocked, err}
	}
	return exit{exitRefused, err}
}

// exit is an error that knows its exit code; its text may be empty if all was
// said already.
type exit struct {
	code int
	err  error
}

func (e exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exit) Unwrap() error { return e.err }

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// Run runs one command line and gives its exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s := streams{stdin, stdout, stderr}
	root := newRoot(s)
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return exitDone
	}
	if text := err.Error(); text != "" {
		fmt.Fprintf(stderr, "svcc: %s\n", diag.Plain(text))
	}
	var e exit
	if errors.As(err, &e) {
		return e.code
	}
	return exitUsage
}

func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "svcc",
		Short:         "Compile Kubernetes Services to rules of the Linux kernel",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(newBuild(s), newVerify(s), newTrace(s), newLint(s), newPasses(s), newVersion(s))
	root.AddCommand(newDiff(s), newExplain(s), newApply(s), newRollback(s), newStatus(s), newRemove(s), newConfirm(s))
	root.AddCommand(newDoctor(s))
	return root
}
