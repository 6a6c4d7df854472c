package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Each command that prints JSON has a name for it, and no other has.
func TestDocumentsHaveNames(t *testing.T) {
	for _, c := range newRoot(streams{}).Commands() {
		name, ok := documents[c.Name()]
		if prints := printsJSON(c); prints != ok {
			t.Errorf("%s prints JSON: %t, name %q", c.Name(), prints, name)
		}
		if ok && name != "svcc.io/"+c.Name()+"/v1" {
			t.Errorf("%s: %q", c.Name(), name)
		}
	}
}

// printsJSON says that a flag makes a command print JSON; lines of a log are no
// document.
func printsJSON(c *cobra.Command) (yes bool) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		yes = yes || f.Name != "log-format" && strings.Contains(strings.ToLower(f.Usage), "json")
	})
	return yes
}

func TestPrintDocument(t *testing.T) {
	var out bytes.Buffer
	if err := printDocument(&out, "diff", struct {
		Text string `json:"text"`
	}{"<a> & b"}); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"schema\": \"svcc.io/diff/v1\",\n  \"text\": \"<a> & b\"\n}\n"
	if out.String() != want {
		t.Errorf("%s, want %s", out.String(), want)
	}
}
