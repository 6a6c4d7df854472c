package cli

import "github.com/spf13/cobra"

// nodeCommands are those that deal with the kernel of the machine that they run on.
// On other systems node_other.go has them, which builds none of package apply.
func nodeCommands(s streams) []*cobra.Command {
	return []*cobra.Command{newApply(s), newRollback(s), newStatus(s), newRemove(s), newConfirm(s), newDoctor(s), newWatchdog(s)}
}
