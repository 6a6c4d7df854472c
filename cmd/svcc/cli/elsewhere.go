package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

// nodeNames are the names of the commands that deal with a node's kernel.
var nodeNames = []string{"apply", "rollback", "status", "remove", "confirm", "doctor"}

// needsNode says why something does not work on a system other than Linux.
func needsNode(what string) string {
	return what + " works on the kernel of a Linux node: run it there"
}

// elsewhere are the commands of nodeNames where the kernel is not Linux. Whatever
// their arguments are, they say that.
func elsewhere() (out []*cobra.Command) {
	for _, name := range nodeNames {
		why := needsNode("svcc " + name)
		out = append(out, &cobra.Command{
			Use:                name,
			Short:              "Works on a Linux node only",
			Long:               why + ".",
			Args:               cobra.ArbitraryArgs,
			FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
			RunE:               func(*cobra.Command, []string) error { return errors.New(why) },
		})
	}
	return out
}
