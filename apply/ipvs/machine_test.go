package ipvs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"svcc/apply"
	"svcc/apply/iptables"
	statedir "svcc/apply/state"
	"svcc/apply/sums"
	"svcc/emit"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// machine is the real kernel and real tools, of which writes can fail.
type machine struct {
	Kernel
	apply.Runner
	writes []string
	failAt int
	late   bool
}

func newMachine() *machine { return &machine{Kernel: &Netlink{}, Runner: apply.Exec{}} }

func (m *machine) target() *Target {
	return &Target{Glue: &iptables.Target{Runner: m, LockTimeout: 10 * time.Minute, Kernel: sums.Kernel{}}, Runner: m, Kernel: m}
}

// engine has a state directory of its own.
func (m *machine) engine(t *testing.T) *apply.Engine {
	return &apply.Engine{
		Target: m.target(), State: statedir.At(t.TempDir()), Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Options: apply.Options{Mode: "ipvs", Who: "test", LockTimeout: 10 * time.Minute},
	}
}

func (m *machine) write(what string, do func() error) error {
	m.writes = append(m.writes, what)
	fails := len(m.writes) == m.failAt
	if fails && !m.late {
		return errInjected
	}
	if err := do(); err != nil || !fails {
		return err
	}
	return errInjected
}

func (m *machine) Do(o Op) error { return m.write(o.String(), func() error { return m.Kernel.Do(o) }) }

func (m *machine) Run(ctx context.Context, in apply.Input) (out []byte, err error) {
	if !slices.Contains(in.Args, "restore") && !strings.HasSuffix(in.Tool, "-restore") || in.Isolated || slices.Contains(in.Args, "--test") {
		return m.Runner.Run(ctx, in)
	}
	err = m.write(in.Tool, func() error { _, err := m.Runner.Run(ctx, in); return err })
	return nil, err
}

func tool(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// servers is what ipvsadm says, sorted.
func servers(t *testing.T) string {
	lines := strings.SplitAfter(tool(t, "", "ipvsadm", "-Sn"), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// section is a ruleset's for ipvsadm, sorted, and what is added to it.
func section(rs *emit.Ruleset, more string) string {
	lines := strings.SplitAfter(more, "\n")
	for _, s := range rs.Sections {
		if s.Tool == spec.ToolServers {
			lines = append(lines, strings.SplitAfter(string(s.Text), "\n")...)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// dumpAll is all that a namespace holds by its own tools, sorted, without what
// changes by itself: counters, numbers of links, and how sets are hashed.
func dumpAll(t *testing.T) string {
	var lines []string
	for line := range strings.Lines(withoutSeeds(tool(t, "", "sh", "-c", "iptables-save; ip6tables-save; ipset save; ipvsadm -Sn; ip -o addr"))) {
		words := strings.Fields(line)
		if len(words) > 1 && strings.HasSuffix(words[0], ":") {
			words = words[1:]
		}
		if kept := strings.Join(words, " "); !boring(kept) {
			lines = append(lines, kept+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// withoutSeeds takes off how sets are hashed.
func withoutSeeds(text string) string { return seed.ReplaceAllString(text, "") }

var seed = regexp.MustCompile(" initval 0x[0-9a-f]+")

// boring are lines of tables that are there or not, and hold nothing.
func boring(line string) bool {
	return strings.HasPrefix(line, "#") || strings.HasPrefix(line, "*") || line == "COMMIT" || strings.Contains(line, " ACCEPT [")
}

// dumpQuickly is the same by netlink, for people to compare but not to read.
func dumpQuickly(t *testing.T) string {
	var b strings.Builder
	for _, f := range ir.Families {
		for _, table := range []string{"filter", "nat"} {
			s, err := sums.Kernel{}.Read(f, table, false)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "%s %s %x\n", f, table, s.All)
		}
	}
	b.WriteString(withoutSeeds(tool(t, "", "ipset", "save")))
	k := &Netlink{}
	defer k.Close()
	all, err := k.Servers()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		fmt.Fprintf(&b, "%+v\n", *s)
	}
	there, addresses, err := k.Link()
	fmt.Fprintln(&b, there, addresses, err)
	return b.String()
}

const (
	foreignServers = "-A -t 192.0.2.1:443 -s wlc\n-a -t 192.0.2.1:443 -r 10.9.9.9:443 -g -w 7\n-A -t [fd09::9]:443 -s rr\n"
	foreignSet     = "create cali40all hash:net family inet hashsize 1024 maxelem 1048576 comment\nadd cali40all 10.0.0.0/8 comment \"add KUBE-CLUSTER-IP\"\n"
)

// foreigners are other programs' things in a namespace.
func foreigners(t *testing.T) {
	tool(t, foreignSet, "ipset", "restore")
	tool(t, "link add foreign0 type dummy\naddress add 192.0.2.1/24 dev foreign0\naddress add 10.96.0.3/32 dev foreign0\n", "ip", "-batch", "-")
	tool(t, "*nat\n-A PREROUTING -p tcp --dport 1 -j ACCEPT\nCOMMIT\n", "iptables-restore", "-n")
	tool(t, foreignServers, "ipvsadm", "-R")
}
