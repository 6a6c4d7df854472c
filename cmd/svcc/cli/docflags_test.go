package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// foreignFlags are flags of other programs of which documents speak.
var foreignFlags = []string{
	"noflush", "test", "modprobe", "probability", "prob", // iptables-restore
	"reload", "now", "check", "ignore-missing", "build-arg", "from-file", "dry-run",
	"mode", "comment", "dport", "to", "to-destination",
}

// Each flag of which a document speaks, in a command or in a sentence, exists.
func TestDocumentedFlagsExist(t *testing.T) {
	known := slices.Clone(foreignFlags)
	for _, c := range newRoot(streams{}).Commands() {
		c.InitDefaultHelpFlag()
		c.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	}
	spoken := regexp.MustCompile("`--([a-z][a-z0-9-]*)")
	for _, name := range []string{"README.md", "docs/ci.md", "docs/apply.md", "docs/provisioning.md"} {
		flags := spoken.FindAllStringSubmatch(document(t, name), -1)
		if len(flags) == 0 {
			t.Errorf("%s speaks of no flag", name)
		}
		for _, m := range flags {
			if !slices.Contains(known, m[1]) {
				t.Errorf("%s: no command has --%s", name, m[1])
			}
		}
	}
}

// The README's table has each flag that commands which compile have in common, with
// its default.
func TestReadmeFlagTable(t *testing.T) {
	var c compileFlags
	var d diagnosticFlags
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.register(set)
	d.register(set)
	rows := flagTable(document(t, "README.md"))
	set.VisitAll(func(f *pflag.Flag) {
		shown, ok := rows["--"+f.Name]
		if !ok {
			shown, ok = rows["-"+f.Shorthand]
		}
		if !ok {
			t.Errorf("--%s is not in the table", f.Name)
		}
		switch f.DefValue {
		case "", "[]": // the table may say in words what that means
		case "false":
			if shown != "" && shown != "false" {
				t.Errorf("--%s: the table says %q, the default is false", f.Name, shown)
			}
		case shown:
		default:
			t.Errorf("--%s: the table says %q, the default is %q", f.Name, shown, f.DefValue)
		}
	})
}

// flagTable gives the defaults in a table of flags.
func flagTable(text string) map[string]string {
	rows := map[string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.ReplaceAll(line, `\|`, "/"), "|")
		if len(cells) < 5 {
			continue
		}
		for _, m := range regexp.MustCompile("`(--?[a-zA-Z-]+)").FindAllStringSubmatch(cells[1], -1) {
			rows[strings.TrimSuffix(m[1], "-")] = strings.Trim(cells[2], " `")
		}
	}
	return rows
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
