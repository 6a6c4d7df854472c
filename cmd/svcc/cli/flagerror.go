package cli

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svcc/ir"
)

// flagError says with an error of flags what was probably meant: the flag of the
// nearest name, or a time with its unit.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		if near := nearestFlag(cmd, unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
		return fmt.Errorf("%w (%s --help lists what there is)", err, cmd.CommandPath())
	case errors.As(err, &invalid) && invalid.GetFlag().Value.Type() == "duration":
		return fmt.Errorf("--%s %q is no time: %s", invalid.GetFlag().Name, invalid.GetValue(), withUnit(invalid.GetValue()))
	}
	return err
}

// withUnit says how a time is written.
func withUnit(value string) string {
	if d, err := time.ParseDuration(value + "s"); err == nil && bareNumber.MatchString(value) {
		return fmt.Sprintf("say %ss for %s", value, d)
	}
	return "say 500ms, 60s, 5m or 1h30m"
}

var bareNumber = regexp.MustCompile(`^\+?[0-9.]+$`)

// nearestFlag is the flag that was probably meant; "" if none.
func nearestFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return nearest(name, names, len(name))
}

// nearest is the first of the names that is fewest changes of a letter away, if those
// are about half of so many at most; else "". Two letters that changed places are two.
func nearest(name string, names []string, of int) (near string) {
	least := (of + 3) / 2
	for _, n := range names {
		if d := distance(name, n); d < least {
			near, least = n, d
		}
	}
	return near
}

// meant asks whether the nearest of the Services that have rules was meant; "" if
// none is near.
func meant(name string, programs []*ir.Program) string {
	var names []string
	for _, p := range programs {
		for _, s := range p.Services {
			names = append(names, s.Service())
		}
	}
	_, own, _ := strings.Cut(name, "/")
	if near := nearest(name, names, len(own)); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// distance counts the letters to insert, to delete or to replace that make a of b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
