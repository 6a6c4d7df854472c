package cli

import (
	"github.com/spf13/cobra"
)

func newRollback(s streams) *cobra.Command {
	var e engineFlags
	var quiet bool
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Go back to the ruleset before the one in force",
		Long:  "Bring this node back to the ruleset that was in force before the last apply. Done twice, it returns to the one that is in force now.",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			e.mode = modeBefore(e.dir)
			en, err := e.engine(s, quiet, false)
			if err != nil {
				return err
			}
			ctx, stop := e.interruptible()
			defer stop()
			r, err := en.Rollback(ctx)
			return e.outcome(s, en, r, err)
		},
	}
	e.registerChange(cmd.Flags())
	e.registerConfirm(cmd.Flags())
	e.registerRetry(cmd.Flags())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "say nothing but errors")
	return cmd
}
