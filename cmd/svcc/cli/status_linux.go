package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"svcc/apply"
	"svcc/ir/diag"
)

func newStatus(s streams) *cobra.Command {
	var e engineFlags
	var asJSON, rules bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Compare this node's rules with the record",
		Long: "Compare this node's rules with what was recorded when they were applied. Where they differ, packets are sent through the rules of\n" +
			"the kernel, and each service is named that the rules that differ name, or of which packets are handled otherwise than recorded.\n" +
			"Nothing is changed. Exit code 0: as recorded; 1: not so; 6: an apply waits for svcc confirm.",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			en, err := e.engine(s, false, false)
			if err != nil {
				return err
			}
			ctx, stop := e.interruptible()
			defer stop()
			st, err := en.Status(ctx)
			if err != nil {
				return applied(err)
			}
			addAffected(ctx, en, &st)
			if err := showStatus(s.out, st, asJSON, rules); err != nil {
				return err
			}
			return exit{code: statusCode(st)}
		},
	}
	e.registerState(cmd.Flags())
	toolFlag(cmd.Flags(), &e.tool)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&rules, "rules", false, "show each rule that differs: + missing from the kernel, - in the kernel but not recorded")
	return cmd
}

func statusCode(st apply.Status) int {
	switch {
	case st.Waits:
		return exitWindow
	case st.Condition != apply.AsRecorded:
		return exitFindings
	}
	return exitDone
}

func showStatus(w io.Writer, st apply.Status, asJSON, rules bool) error {
	if asJSON {
		return printDocument(w, "status", st)
	}
	fmt.Fprintf(w, "%s: %s\n", st.Condition, diag.Plain(explain(st)))
	for _, s := range st.Sysctls {
		fmt.Fprintf(w, "  sysctl %s\n", s)
	}
	for _, name := range st.Services {
		fmt.Fprintf(w, "  service %s\n", strings.Map(printable, name))
	}
	if st.Unknown != "" {
		fmt.Fprintf(w, "  there may be more services: %s\n", diag.Plain(st.Unknown))
	}
	if rules && len(st.Changes) > 0 {
		fmt.Fprintln(w, "rules (+ missing from the kernel, - in the kernel but not recorded):")
		for _, c := range st.Changes {
			fmt.Fprintf(w, "  %s\n", strings.Map(printable, c.String()))
		}
	}
	return nil
}

// explain says what the condition means and what to do.
func explain(st apply.Status) string {
	r := st.Record
	switch st.Condition {
	case apply.AsRecorded:
		if r.Current == "" {
			return "nothing is applied, and nothing is there"
		}
		return fmt.Sprintf("applied %s by %s, %s, %s", r.When.Format(time.RFC3339), r.Who, or(r.Flavour, r.Mode), "sha256 "+r.Current[:12])
	case apply.Drift:
		if r.Current == "" {
			return fmt.Sprintf("nothing is recorded, but %d rules and chains by kube-proxy's names are there; apply the ruleset that they are from, or another with --take-over, or svcc remove (--rules lists them)", len(st.Changes))
		}
		if len(st.Changes) == 0 {
			return "the rules are as recorded, a setting is not; apply or rollback again to mend it"
		}
		return fmt.Sprintf("%s from the record; apply or rollback again to mend that (--rules lists them)", differ(len(st.Changes)))
	case apply.UnderWay:
		if st.Waits {
			return "an apply waits for svcc confirm"
		}
		return "look again when it is done"
	case apply.HalfMade:
		return "a run was interrupted, and some tables are old, some new; any apply, rollback or remove mends that first"
	}
	return "a run was interrupted; the next apply, rollback or remove completes its record or undoes it first"
}

func differ(n int) string {
	if n == 1 {
		return "1 rule or chain differs"
	}
	return fmt.Sprintf("%d rules and chains differ", n)
}

func or(a, b string) string {
	if strings.TrimSpace(a) == "" {
		return b
	}
	return a
}
