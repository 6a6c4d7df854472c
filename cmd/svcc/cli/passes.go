package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"svcc/compiler/passes"
)

func newPasses(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "passes",
		Short: "List the passes in the order in which they run",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, p := range passes.Table {
				kind := "optional"
				if p.Required {
					kind = "required"
				}
				fmt.Fprintf(s.out, "%s (from -O%d, %s)\n    %s\n", p.Name, p.Level, kind, p.Doc)
				for _, o := range p.After {
					fmt.Fprintf(s.out, "    after %s: %s\n", o.Pass, o.Why)
				}
			}
			return nil
		},
	}
}
