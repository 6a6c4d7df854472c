package cli

import (
	"github.com/spf13/cobra"
)

func newRemove(s streams) *cobra.Command {
	var e engineFlags
	var quiet bool
	cmd := &cobra.Command{
		Use:   "remove",
		Short: "Take away everything on this node that is svcc's",
		Long: "Take away every chain and jump that svcc made, and those that kube-proxy left when it was stopped, whether a record of them exists\n" +
			"or a run was interrupted midway. Nothing else is touched, and what must stay is listed with the reason. The state directory stays,\n" +
			"so that svcc rollback can bring them back.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			e.removing = true
			en, err := e.engine(s, quiet, true)
			if err != nil {
				return err
			}
			ctx, stop := e.interruptible()
			defer stop()
			r, err := en.Remove(ctx)
			return e.outcome(s, en, r, err)
		},
	}
	e.registerChange(cmd.Flags())
	e.registerConfirm(cmd.Flags())
	cmd.Flags().BoolVarP(&quiet, "quiet", "q", false, "say nothing but errors")
	cmd.Flags().StringVar(&e.mode, "mode", "", "what was programmed: iptables, ipvs (default: what the record says, or what is there)")
	return cmd
}
