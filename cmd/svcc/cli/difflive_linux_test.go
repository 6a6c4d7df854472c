package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"svcc/apply/state"
)

// The mode is a flag's, else that of what is in force, else the usual one.
func TestModeOfTheNode(t *testing.T) {
	for _, c := range []struct{ record, want string }{
		{"", "iptables"},
		{"{", "iptables"},
		{`{"mode": "ipvs", "current": "` + strings.Repeat("0", 64) + `"}`, "ipvs"},
		{`{"mode": "ipvs"}`, "iptables"}, // it was removed
	} {
		d := diffCommand{stateDir: t.TempDir()}
		d.modeName = "iptables"
		if c.record != "" {
			if err := os.WriteFile(filepath.Join(state.At(d.stateDir).Path(), "record.json"), []byte(c.record), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := d.liveMode(); got != c.want {
			t.Errorf("%s: %s, want %s", c.record, got, c.want)
		}
	}
}
