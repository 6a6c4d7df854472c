package cli

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svcc/golden/lab"
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

// documentArgs have each command print its document.
var documentArgs = map[string][]string{
	"diff":   {"web.yaml", "other.yaml", "--format", "json", "--cluster-cidr", "10.244.0.0/16"},
	"doctor": {"--json"},
	"status": {"--json"},
}

// Each command's document is an object that begins with its name.
func TestKernelDocuments(t *testing.T) {
	input, err := filepath.Abs("testdata/input")
	if err != nil {
		t.Fatal(err)
	}
	for command, name := range documents {
		args := []string{command}
		for _, a := range documentArgs[command] {
			if strings.HasSuffix(a, ".yaml") {
				a = filepath.Join(input, a)
			}
			args = append(args, a)
		}
		t.Run(command, func(t *testing.T) {
			if len(args) == 1 {
				t.Fatal("there are no arguments to have it print its document")
			}
			lab.Enter(t)
			if command != "diff" {
				args = append(args, "--state-dir", filepath.Join(t.TempDir(), "state"))
			}
			var out, said strings.Builder
			Run(args, nil, &out, &said)
			if !json.Valid([]byte(out.String())) || !strings.HasPrefix(out.String(), "{\n  \"schema\": \""+name+"\",\n") {
				t.Errorf("svcc %s:\n%s%s", strings.Join(args, " "), out.String(), said.String())
			}
		})
	}
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
