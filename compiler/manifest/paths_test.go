package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/ir/diag"
)

// in names the places relative to dir.
func in(dir string, list []string) []string {
	for i := range list {
		list[i] = strings.ReplaceAll(list[i], dir+"/", "")
	}
	return list
}

func named(name string) string { return strings.Replace(service, "web", name, 1) }

func TestDirectories(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "b/z.yml", named("z"))
	write(t, dir, "a.json", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}`)
	write(t, dir, ".hidden/h.yaml", named("h"))
	write(t, dir, "b.yaml", named("b"))
	write(t, dir, "notes.txt", "not: read: at all")
	write(t, dir, "kustomization.yaml", "resources: [b.yaml]\n")
	write(t, dir, "Chart.yaml", "apiVersion: v2\nname: web\n")
	write(t, dir, "empty.yaml", "")
	for link, to := range map[string]string{"loop": ".", "again.yaml": "b.yaml", "dangling": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	set, diags := Load([]string{dir, filepath.Join(dir, "b.yaml"), dir}, nil, Options{})
	want := "Service default/h@.hidden/h.yaml:1:1 Service default/a@a.json:1:1 Service default/b@again.yaml:1:1 Service default/z@b/z.yml:1:1"
	if got := strings.ReplaceAll(names(set), dir+"/", ""); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	wantTold := []string{
		"Chart.yaml:1:1: warning: passed over: kind is missing [SVCC1010]",
		"kustomization.yaml:1:1: warning: passed over: apiVersion and kind are missing [SVCC1010]",
	}
	if d := cmp.Diff(wantTold, in(dir, told(diags))); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

func TestUnreadable(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty/sub/readme.md", "")
	write(t, dir, "bad/odd.yaml", "\xff\xfea")
	write(t, dir, "bad/x.json", "[1")
	for _, link := range [][2]string{{"empty/loop", "."}, {"bad/dangling.yaml", "nowhere"}} {
		if err := os.Symlink(link[1], filepath.Join(dir, link[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "bad/pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(dir, "empty"), filepath.Join(dir, "bad"), filepath.Join(dir, "none.yaml"), "/dev/zero"}
	_, diags := Load(paths, nil, Options{})
	want := []string{
		`/dev/zero: error: cannot read "/dev/zero": it is no regular file [SVCC1001]`,
		`bad/dangling.yaml: error: cannot read "bad/dangling.yaml": no such file or directory [SVCC1001]`,
		`bad/odd.yaml: error: "bad/odd.yaml" is not text: UTF-16 with an odd number of bytes [SVCC1004]`,
		`bad/pipe.yaml: error: cannot read "bad/pipe.yaml": it is a named pipe [SVCC1001]`,
		`bad/x.json:1:2: error: broken JSON: unexpected end of JSON input [SVCC1006]`,
		`DIR/empty: error: no manifests found in directory "DIR/empty" [SVCC1002]`,
		`none.yaml: error: cannot read "none.yaml": no such file or directory [SVCC1001]`,
	}
	want[5] = strings.ReplaceAll(want[5], "DIR/", "")
	if d := cmp.Diff(want, in(dir, told(diags.Sort()))); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}

// A pipe that is named is read, as process substitution needs.
func TestPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte(service), 0o600) }()
	set, diags := Load([]string{pipe, pipe}, nil, Options{})
	if len(set.Services) != 1 || len(diags) > 0 {
		t.Errorf("got %d services, %q", len(set.Services), told(diags))
	}
}

// Whatever is thrown at it, the reader says one clear thing, soon.
func TestHostile(t *testing.T) {
	defer func(f int64, d, a int) { maxFile, maxDocument, maxAliases = f, d, a }(maxFile, maxDocument, maxAliases)
	maxFile, maxDocument = 4<<20, 1<<20
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ",") + "]\n"
	}
	long := "a: &a " + strings.Repeat("x", 1<<19) + "\nb: [" + strings.Repeat("*a,", 1000) + "]\n"
	tests := []struct {
		name, text string
		want       diag.Code
	}{
		{"billion laughs", service + bomb, diag.AliasesGrow},
		{"long strings repeated", service + long, diag.AliasesGrow},
		{"anchor within itself", service + "spec: &a [*a]\n", diag.BadYAML},
		{"flow nested", service + "a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), diag.TooDeep},
		{"flow nested deeper", service + "a: " + strings.Repeat("[", 200000), diag.BadYAML},
		{"block nested", service + "a:\n  " + strings.Repeat("- ", 3000) + "x\n", diag.TooDeep},
		{"JSON nested", strings.Repeat(`{"a":`, 100000), diag.BadYAML},
		{"JSON nested and closed", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), diag.TooDeep},
		{"keys nested", service + "a:\n" + strings.Repeat("? ", 5000) + "x\n", diag.BadYAML},
		{"file too large", strings.Repeat("# nothing\n", 1<<19), diag.TooLarge},
		{"document too large", service + "a: " + strings.Repeat("x", 2<<20), diag.TooLarge},
		{"NULs", strings.Repeat("\x00", 1<<20), diag.BadEncoding},
		{"UTF-16 without a mark", strings.ReplaceAll(service, "", "\x00"), diag.BadEncoding},
		{"tab", "apiVersion: v1\nkind: Service\nmetadata:\n\tname: web\n", diag.BadYAML},
		{"template", "{{ if x }}\n" + service + "{{ end }}\n", diag.BadYAML},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set, diags := loadText(tt.text)
			if len(diags) == 0 || diags.Sort()[0].Code != tt.want || len(set.Services) > 0 {
				t.Errorf("want %s, got %d services and %.300q", tt.want, len(set.Services), told(diags))
			}
		})
	}
}

// Aliases within reason work, and what is of no interest is not expanded.
func TestAliasesAndLongLines(t *testing.T) {
	text := service + "spec: {ports: &p [{port: 80}]}\n---\n" + named("b") + "spec:\n  clusterIPs: [&a 192.0.2.1]\n  clusterIP: *a\n" +
		"---\nkind: Foo\napiVersion: example.com/v1\ndata: " + strings.Repeat("x", 20<<20) + "\n---\n" + named("c")
	set, diags := loadText(text)
	if len(diags) > 0 || len(set.Services) != 3 || set.Services[1].Value.Spec.ClusterIP != "192.0.2.1" {
		t.Errorf("%d services, %.300q", len(set.Services), told(diags))
	}
	if got := set.Services[2].At("metadata", "name").String(); got != "-:19:12" {
		t.Errorf("the last name is at %s", got)
	}
}

// A path that says nothing is an error, as an empty directory is; one that says
// that there is nothing is none.
func TestPathsWithoutManifests(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n"
	for _, c := range []struct {
		name, text string
		wrong      bool
	}{
		{"empty", "", true},
		{"blank", " \n\n", true},
		{"comments", "# one\n# two\n", true},
		{"a start", "---\n", true},
		{"starts and comments", "# Source: x\n---\n# nothing\n---\n...\n---\n", true},
		{"null", "---\nnull\n---\n~\n", true},
		{"an empty List", "apiVersion: v1\nkind: List\nitems: []\n", false},
		{"an empty List in JSON", `{"apiVersion":"v1","kind":"List","items":[]}`, false},
		{"a Service behind nothing", "---\n# one\n---\n" + service, false},
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{file, filepath.Dir(file), "-"} {
			_, diags := Load([]string{path}, strings.NewReader(c.text), Options{})
			got := len(diags) == 1 && diags[0].Code == diag.NothingFound
			if got != c.wrong {
				t.Errorf("%s as %s: %v", c.name, path, diags)
			}
		}
	}
}

// One file of a directory may be empty.
func TestEmptyFileBesideOthers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": "# off\n", "b.yaml": "apiVersion: v1\nkind: List\nitems: []\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, diags := Load([]string{dir}, nil, Options{}); len(diags) > 0 {
		t.Error(diags)
	}
}
