package validate

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"svcc/compiler/manifest"
	"svcc/ir"
	"svcc/ir/diag"
)

// A file in testdata/errors carries its expectations: on the line of each
// finding a comment
//
//	# want SVCC2004@11 "port 0 is not" SVCC2005 "protocol"
//
// with the code, if it matters the column, and a regular expression for the
// message; on lines of their own "# faulty demo/bad", a Service that must not
// be compiled, and "# options name=value ...". ENDPOINTS stands for 1001
// endpoints in flow style, HUNDREDS for 1000.
var (
	wantComment = regexp.MustCompile(`# want (SVCC.*)$`)
	wantItem    = regexp.MustCompile(`^(SVCC\d{4})(?:@(\d+))? ("(?:[^"\\]|\\.)*")\s*`)
)

type want struct {
	line, col int
	code      diag.Code
	message   *regexp.Regexp
}

func (w want) meets(d diag.Diagnostic) bool {
	return d.Pos.Line == w.line && (w.col == 0 || d.Pos.Col == w.col) && d.Code == w.code && w.message.MatchString(d.Message)
}

func TestErrors(t *testing.T) {
	seen := map[diag.Code]bool{}
	for _, file := range errorFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			for _, w := range checkFile(t, file) {
				seen[w.code] = true
			}
		})
	}
	t.Run("every code", func(t *testing.T) {
		for _, code := range diag.Codes() {
			resolving := code == diag.EndpointIsDestination || code == diag.DestinationShared
			if (code[4] == '2' || code[4] == '3') && !seen[code] && !resolving {
				t.Errorf("no file in testdata/errors wants %s (%s)", code, code.Info().Title)
			}
		}
	})
}

func errorFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/errors/*.yaml")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	return files
}

// checkFile compares what Check finds in a file with what the file wants, and
// gives the latter.
func checkFile(t *testing.T, file string) []want {
	t.Helper()
	text := readCase(t, file)
	wants, faulty, o := expectations(t, text)
	set, list := manifest.Load([]string{"-"}, strings.NewReader(text), manifest.Options{})
	if len(list) > 0 {
		t.Fatalf("cannot be read: %v", list)
	}
	Defaults(set)
	r := Check(set, o)
	compareFindings(t, wants, r.Diagnostics)
	if diff := cmp.Diff(faulty, r.Faulty); diff != "" {
		t.Errorf("faulty (-want +got):\n%s", diff)
	}
	return wants
}

func compareFindings(t *testing.T, wants []want, list diag.List) {
	t.Helper()
	left := slices.Clone(wants)
	for _, d := range list {
		i := slices.IndexFunc(left, func(w want) bool { return w.meets(d) })
		if i < 0 {
			t.Errorf("not wanted: %s", d)
			continue
		}
		left = slices.Delete(left, i, i+1)
	}
	for _, w := range left {
		t.Errorf("missing: line %d: %s@%d %q", w.line, w.code, w.col, w.message)
	}
}

func readCase(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("[ENDPOINTS]", flowEndpoints(1001), "[HUNDREDS]", flowEndpoints(1000)).Replace(string(text))
}

func flowEndpoints(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("{addresses: [10.245.%d.%d]}", i/250, i%250+1)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func expectations(t *testing.T, text string) (wants []want, faulty map[string]bool, o Options) {
	t.Helper()
	faulty = map[string]bool{}
	for i, line := range strings.Split(text, "\n") {
		if m := wantComment.FindStringSubmatch(line); m != nil {
			wants = append(wants, parseWants(t, i+1, m[1])...)
		}
		if name, ok := strings.CutPrefix(line, "# faulty "); ok {
			faulty[name] = true
		}
		if opts, ok := strings.CutPrefix(line, "# options "); ok {
			o = parseOptions(t, opts)
		}
	}
	return wants, faulty, o
}

func parseWants(t *testing.T, line int, text string) (wants []want) {
	t.Helper()
	for text != "" {
		m := wantItem.FindStringSubmatch(text)
		if m == nil {
			t.Fatalf("line %d: cannot read want %q", line, text)
		}
		message, err := strconv.Unquote(m[3])
		if err != nil {
			t.Fatalf("line %d: %v", line, err)
		}
		col, _ := strconv.Atoi(m[2])
		wants = append(wants, want{line, col, diag.Code(m[1]), regexp.MustCompile(message)})
		text = text[len(m[0]):]
	}
	return wants
}

func parseOptions(t *testing.T, text string) (o Options) {
	t.Helper()
	for _, opt := range strings.Fields(text) {
		name, value, _ := strings.Cut(opt, "=")
		switch name {
		case "node-ips":
			o.NodeIPs = append(o.NodeIPs, netip.MustParseAddr(value))
		case "service-cidrs":
			o.ServiceCIDRs = append(o.ServiceCIDRs, netip.MustParsePrefix(value))
		case "virtual":
			if value == "yes" {
				o.Facts = &ir.ServerFacts
			}
		case "pods":
			o.Pods = append(o.Pods, netip.MustParsePrefix(value))
		case "strict-arp":
			o.StrictARP = value == "yes"
		case "node":
			o.Node = value
		case "families":
			o.Families = map[string][]ir.Family{"ipv4": {ir.IPv4}, "ipv6": {ir.IPv6}}[value]
		case "node-port-range":
			if _, err := fmt.Sscanf(value, "%d-%d", &o.NodePortRange.First, &o.NodePortRange.Last); err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("unknown option %q", opt)
		}
	}
	return o
}

// The table of codes is what lint --list and explain show.
func TestCodesAreDocumented(t *testing.T) {
	titles := map[string]diag.Code{}
	for _, code := range diag.Codes() {
		info := code.Info()
		if info.Title == "" || info.Doc == "" || !strings.HasSuffix(info.Doc, ".") || strings.HasSuffix(info.Title, ".") {
			t.Errorf("%s: title %q, doc %q", code, info.Title, info.Doc)
		}
		if other, twice := titles[info.Title]; twice {
			t.Errorf("%s and %s have the title %q", code, other, info.Title)
		}
		titles[info.Title] = code
		if info.Strict && info.Severity == diag.Note {
			t.Errorf("%s: a note cannot be an error under --strict", code)
		}
	}
}

// Both places of a clash are told, each where it stands.
func TestRelatedPlaces(t *testing.T) {
	for file, lines := range map[string][]int{
		"claimed-twice":   {25, 26, 26},
		"node-port-clash": {11, 11},
		"port-twice":      {11, 23},
	} {
		text := readCase(t, "testdata/errors/"+file+".yaml")
		set, _ := manifest.Load([]string{"-"}, strings.NewReader(text), manifest.Options{})
		Defaults(set)
		var got []int
		for _, d := range Check(set, Options{}).Diagnostics.Errors() {
			for _, r := range d.Related {
				got = append(got, r.Pos.Line)
			}
		}
		if diff := cmp.Diff(lines, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", file, diff)
		}
	}
}

func codesOf(list diag.List) []diag.Code {
	codes := map[diag.Code]bool{}
	for _, d := range list {
		codes[d.Code] = true
	}
	return slices.Sorted(maps.Keys(codes))
}
