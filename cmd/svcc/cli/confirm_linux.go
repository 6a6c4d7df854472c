package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"svcc/apply"
	"svcc/apply/state"
)

func newConfirm(s streams) *cobra.Command {
	var e engineFlags
	cmd := &cobra.Command{
		Use:   "confirm",
		Short: "Keep the rules of an apply that waits for it (--confirm-timeout)",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			log, err := newLog(s.err, e.logFormat, false)
			if err != nil {
				return err
			}
			ctx, stop := e.interruptible()
			defer stop()
			if err := apply.Confirm(ctx, state.At(e.dir)); err != nil {
				return applied(fmt.Errorf("not confirmed: %w", err))
			}
			log.Info("confirmed")
			return nil
		},
	}
	e.registerState(cmd.Flags())
	return cmd
}
