package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"svcc/compiler"
	"svcc/ir/diag"
)

func newLint(s streams) *cobra.Command {
	var c compileFlags
	var d diagnosticFlags
	var list bool
	cmd := &cobra.Command{
		Use:   "lint PATH...",
		Short: "Show everything that is wrong or suspicious in manifests",
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				listCodes(s)
				return nil
			}
			if err := needPaths(cmd, args); err != nil {
				return err
			}
			o, err := c.options(args, "")
			if err != nil {
				return err
			}
			o.Stdin, o.NoProof = s.in, true
			r, err := compiler.Compile(o, nil)
			if err != nil {
				return exit{exitRefused, err}
			}
			d.verbose = !d.quiet
			d.show(s.out, r.Diagnostics)
			d.closing(s.err, r, "")
			if len(r.Diagnostics.Errors()) > 0 {
				return exit{code: failure(r.Diagnostics)}
			}
			return nil
		},
	}
	c.register(cmd.Flags())
	d.register(cmd.Flags())
	cmd.Flags().BoolVar(&list, "list", false, "list every code with what it means")
	return cmd
}

func listCodes(s streams) {
	for _, c := range diag.Codes() {
		i := c.Info()
		strict := ""
		if i.Strict {
			strict = ", an error with --strict"
		}
		fmt.Fprintf(s.out, "%s  %s (%s%s)\n    %s\n", c, i.Title, i.Severity, strict, i.Doc)
	}
}
