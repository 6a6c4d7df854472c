package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Tell the version of svcc and of the meaning that it compiles",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := "(unknown)"
			if info, ok := debug.ReadBuildInfo(); ok {
				version = info.Main.Version
			}
			fmt.Fprintf(s.out, "svcc %s, Service semantics of kube-proxy 1.37, %s\n", version, runtime.Version())
			return nil
		},
	}
}
