package golden_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goPackage is what the checks need of "go list -json".
type goPackage struct {
	Dir        string
	ImportPath string
	GoFiles    []string
	Imports    []string
}

// listPackages asks for every package of the module.
func listPackages(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=Dir,ImportPath,GoFiles,Imports", "./...")
	cmd.Dir = ".."
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var all []goPackage
	for d := json.NewDecoder(out); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal("go list:", err)
	}
	return all
}

// A rule says what the packages below one path may import of a set of paths.
// An entry "x" stands for the package x and all below it.
type rule struct {
	in   string   // the importing packages
	from []string // the set the rule speaks of
	only []string // of that set, what may be imported
}

// mayImport is the direction of imports within the module:
// cmd -> apply, compiler, emit -> ir.
var mayImport = []rule{
	{"ir", []string{"svcc"}, []string{"svcc/ir"}},
	{"emit", []string{"svcc"}, []string{"svcc/emit", "svcc/ir"}},
	{"compiler", []string{"svcc"}, []string{"svcc/compiler", "svcc/emit", "svcc/ir"}},
	{"apply", []string{"svcc"}, []string{"svcc/apply", "svcc/emit", "svcc/ir"}},
	{"cmd", []string{"svcc"}, []string{"svcc/cmd", "svcc/apply", "svcc/compiler", "svcc/emit", "svcc/ir"}},
	{"golden", []string{"svcc"}, []string{"svcc/golden", "svcc/apply", "svcc/compiler", "svcc/emit", "svcc/ir"}},
}

// Who may know a library. Kubernetes' types stop at the compiler's front end.
var (
	knowKubernetes = []string{
		"svcc/compiler/manifest", "svcc/compiler/validate", "svcc/compiler/resolve", "svcc/compiler/addr",
		"svcc/golden",
	}
	knowCobra = []string{"svcc/cmd"}
)

// below says that path is one of the roots or stands under one.
func below(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(r string) bool { return path == r || strings.HasPrefix(path, r+"/") })
}

// breach tells why the package may not import the path, or "".
func breach(pkg, imported string) string {
	for _, r := range mayImport {
		if below(pkg, "svcc/"+r.in) && below(imported, r.from...) && !below(imported, r.only...) {
			return "imports go cmd -> apply, compiler, emit -> ir"
		}
	}
	switch {
	case below(imported, "k8s.io", "sigs.k8s.io") && pkg != "svcc/compiler" && !below(pkg, knowKubernetes...):
		return "Kubernetes types stop at the compiler's front end"
	case below(imported, "github.com/spf13") && !below(pkg, knowCobra...):
		return "only cmd knows cobra"
	}
	return ""
}

func TestImportDirection(t *testing.T) {
	all := listPackages(t)
	if len(all) < 5 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	for _, p := range all {
		for _, i := range p.Imports {
			if why := breach(p.ImportPath, i); why != "" {
				t.Errorf("%s imports %s: %s", p.ImportPath, i, why)
			}
		}
		if !slices.ContainsFunc(mayImport, func(r rule) bool { return below(p.ImportPath, "svcc/"+r.in) }) {
			t.Errorf("%s is below none of the folders that the module has", p.ImportPath)
		}
	}
}

// The rules themselves can fail.
func TestImportRules(t *testing.T) {
	for _, c := range []struct {
		pkg, imported string
		allowed       bool
	}{
		{"svcc/cmd/svcc", "svcc/apply", true},
		{"svcc/cmd/svcc", "github.com/spf13/cobra", true},
		{"svcc/compiler", "svcc/emit/iptables", true},
		{"svcc/compiler/resolve", "k8s.io/api/core/v1", true},
		{"svcc/ir/eval", "svcc/ir", true},
		{"svcc/ir", "svcc/ir/diag", true},
		{"svcc/ir", "svcc/emit", false},
		{"svcc/ir/eval", "svcc/compiler/addr", false},
		{"svcc/emit/iptables", "svcc/compiler", false},
		{"svcc/emit", "svcc/apply", false},
		{"svcc/compiler", "svcc/apply", false},
		{"svcc/apply", "svcc/cmd/svcc", false},
		{"svcc/compiler/passes", "k8s.io/api/core/v1", false},
		{"svcc/emit/iptables", "k8s.io/utils/net", false},
		{"svcc/cmd/svcc", "k8s.io/api/core/v1", false},
		{"svcc/compiler", "github.com/spf13/cobra", false},
		{"svcc/golden", "svcc/cmd/svcc", false},
	} {
		if got := breach(c.pkg, c.imported); (got == "") != c.allowed {
			t.Errorf("%s importing %s: allowed %v, want %v", c.pkg, c.imported, got == "", c.allowed)
		}
	}
}

// reviewing opens the paragraph with which each package's doc comment ends.
const reviewing = "When reviewing a change here"

func TestPackagesAreDocumented(t *testing.T) {
	for _, p := range listPackages(t) {
		if len(p.GoFiles) == 0 {
			continue // tests only: the package that they test has the comment
		}
		doc, files := packageDoc(t, p)
		if len(files) != 1 {
			t.Errorf("%s: its package comment should stand in one file, not in %d %v", p.ImportPath, len(files), files)
		}
		if len(doc) > 0 && !strings.Contains(strings.Join(strings.Fields(doc), " "), reviewing) {
			t.Errorf("%s: the package comment lacks the paragraph %q", p.ImportPath, reviewing+", look for: ...")
		}
	}
}

// packageDoc gives the package comment and the files that have one.
func packageDoc(t *testing.T, p goPackage) (doc string, files []string) {
	t.Helper()
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if f.Doc != nil {
			doc += f.Doc.Text()
			files = append(files, name)
		}
	}
	return doc, files
}
