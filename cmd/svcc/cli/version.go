package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set when a release is built (make dist); "" otherwise.
var version string

// ownVersion is the release's, or else what Go noted of the module.
func ownVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "(unknown)"
}

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell the version of svcc and of the meaning that it compiles",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintf(s.out, "svcc %s, Service semantics of kube-proxy 1.37, %s\n", ownVersion(), runtime.Version())
			return nil
		},
	}
}
