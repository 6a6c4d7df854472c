//go:build !linux

package cli

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svcc/compiler/diff"
)

func nodeCommands(streams) []*cobra.Command { return elsewhere() }

// registerLive has the flags that Linux has, so that it is --live that is refused.
func (d *diffCommand) registerLive(f *pflag.FlagSet) {
	f.BoolVar(&d.live, "live", false, "compare with the rules in a node's kernel (on a Linux node only)")
	f.DurationVar(&d.tool, "tool-timeout", 0, "with --live")
	f.StringVar(&d.stateDir, "state-dir", "", "with --live")
}

func (d *diffCommand) compareLive(*cobra.Command, []string) (*diff.Report, error) {
	return nil, errors.New(needsNode("svcc diff --live"))
}
