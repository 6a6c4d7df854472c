package cli

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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

// nearestFlag is the flag whose name is fewest changes of a letter away, if that
// is less than half the name.
func nearestFlag(cmd *cobra.Command, name string) (near string) {
	least := (len(name) + 2) / 2
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if d := distance(name, f.Name); d < least && !f.Hidden {
			near, least = f.Name, d
		}
	})
	return near
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
