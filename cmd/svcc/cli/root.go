package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"svcc/ir/diag"
)

// The exit codes, everywhere.
const (
	exitDone     = 0 // done, or no difference
	exitFindings = 1 // differences, or errors in the input's objects
	exitUsage    = 2 // the command line, unreadable input, or output that cannot be written
	exitRefused  = 3 // a tool, the kernel or svcc itself refused; nothing is changed
	exitHalfMade = 4 // the old state could not be put back
	exitLocked   = 5 // a lock was held too long
	exitWindow   = 6 // an apply waits to be confirmed
)

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

// watched is standard output that remembers its first error.
type watched struct {
	io.Writer
	err error
}

func (w *watched) Write(b []byte) (int, error) {
	n, err := w.Writer.Write(b)
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// deeds are commands of which it matters what they do, not what they say.
var deeds = map[string]bool{"apply": true, "rollback": true, "remove": true, "confirm": true}

// Run runs one command line and gives its exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &watched{Writer: stdout}
	s := streams{stdin, out, stderr}
	root := newRoot(s)
	root.SetArgs(args)
	cmd, err := root.ExecuteC()
	if out.err != nil && codeOf(err) != exitUsage && !deeds[cmd.Name()] {
		err = exit{exitUsage, fmt.Errorf("cannot write: %w", out.err)}
	}
	if err != nil && err.Error() != "" {
		fmt.Fprintf(stderr, "svcc: %s\n", diag.Plain(err.Error()))
	}
	return codeOf(err)
}

func codeOf(err error) int {
	var e exit
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &e):
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
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newBuild(s), newVerify(s), newTrace(s), newLint(s), newPasses(s), newVersion(s))
	root.AddCommand(newDiff(s), newExplain(s))
	root.AddCommand(nodeCommands(s)...)
	root.SetHelpCommand(newHelp(root))
	return root
}

// newHelp is cobra's help, but for a command that does not exist: that is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, _, err := root.Find(args)
			if err != nil {
				return err
			}
			cmd.InitDefaultHelpFlag() // it lists -h as COMMAND --help does
			return cmd.Help()
		},
	}
}
