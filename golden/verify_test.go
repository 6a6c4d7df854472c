package golden

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"svcc/cmd/svcc/cli"
	"svcc/golden/lab"
	"svcc/ir"
)

// saver is the tool that dumps a flavour's rules.
func saver(fl lab.Flavour, f ir.Family) string {
	if f == ir.IPv6 {
		return "ip6tables-" + string(fl) + "-save"
	}
	return "iptables-" + string(fl) + "-save"
}

// save gives what the tool prints in the laboratory, with counters.
func save(t testing.TB, l *lab.Lab, fl lab.Flavour, f ir.Family) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "dump")
	if err := l.Run("", "sh", "-c", `exec "$0" -c >"$1"`, saver(fl, f), file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// run runs svcc in this process.
func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = cli.Run(args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// verifyText has rules verified against manifests.
func verifyText(t testing.TB, rules string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	return run(append([]string{"verify", file}, args...)...)
}

// agrees wants rules to be found right for the given families.
func agrees(t testing.TB, what, rules string, families []ir.Family, args ...string) {
	t.Helper()
	code, stdout, stderr := verifyText(t, rules, args...)
	if code != 0 {
		t.Errorf("%s: exit %d\n%s%s", what, code, stdout, stderr)
	}
	for _, f := range families {
		if !regexp.MustCompile(`(?m)^` + f.String() + `: \d+ service ports, \d+ packets: the rules mean what the manifests say$`).MatchString(stdout) {
			t.Errorf("%s: nothing is said of %s:\n%s", what, f, stdout)
		}
	}
}

// loaded are the dumps of a reference, as each flavour prints it after it was
// loaded, all families in one text.
func loaded(t *testing.T, l *lab.Lab, fl lab.Flavour, file string) string {
	t.Helper()
	if err := l.Flush(fl); err != nil {
		t.Fatal(err)
	}
	var dump string
	for f, ts := range readReference(t, file) {
		if err := l.LoadIPTables(fl, f, string(ts.restorable())); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range ir.Families {
		dump += save(t, l, fl, f)
	}
	return dump
}

// eachDump runs f for each reference and flavour.
func eachDump(t *testing.T, f func(t *testing.T, l *lab.Lab, fl lab.Flavour, dump string, flags []string)) {
	lab.Require(t)
	for _, ref := range references {
		for _, fl := range lab.Flavours {
			t.Run(fmt.Sprintf("%s/%s", ref.name, fl), func(t *testing.T) {
				l := lab.New(t, lab.Config{})
				f(t, l, fl, loaded(t, l, fl, ref.rules), ref.flags)
			})
		}
	}
}

// familiesOf are the families that manifests are compiled for.
func familiesOf(t testing.TB, flags []string) (out []ir.Family) {
	for _, u := range compileArgs(t, flags...).Units {
		out = append(out, u.Family)
	}
	return out
}

// kube-proxy's own rules, loaded and dumped, are what the manifests say; also
// with chains and services in another order, and not for another node.
func TestKernelVerify(t *testing.T) {
	eachDump(t, func(t *testing.T, _ *lab.Lab, _ lab.Flavour, dump string, flags []string) {
		families := familiesOf(t, flags)
		agrees(t, "the dump", dump, families, flags...)
		random := rand.New(rand.NewPCG(1, 2))
		for i := range 3 {
			shuffled := reorder(dump, random)
			if shuffled == dump {
				t.Fatal("nothing was reordered")
			}
			agrees(t, fmt.Sprintf("order %d", i), shuffled, families, flags...)
		}
	})
}

// The manifests of another node differ where endpoints are local to it.
func TestKernelVerifyOtherNode(t *testing.T) {
	eachDump(t, func(t *testing.T, _ *lab.Lab, _ lab.Flavour, dump string, flags []string) {
		node := slices.IndexFunc(flags, func(s string) bool { return strings.HasPrefix(s, "--node=") })
		if flags[node] != "--node=node-0" {
			t.Skip("a cluster of one node")
		}
		flags = slices.Clone(flags)
		flags[node] = "--node=node-1"
		code, stdout, stderr := verifyText(t, dump, flags...)
		if code != 1 || !strings.Contains(stdout, "packet team-") {
			t.Errorf("exit %d\n%s%s", code, stdout, stderr)
		}
	})
}

// reorder changes all orders in a dump that mean nothing: of chains, and of
// services within the chains that they share.
func reorder(dump string, random *rand.Rand) string {
	var b strings.Builder
	for text := range strings.SplitAfterSeq(dump, "COMMIT\n") {
		var head, chains []string
		rules := map[string][]string{}
		for line := range strings.Lines(text) {
			switch {
			case strings.HasPrefix(line, ":"):
				chains = append(chains, line)
			case strings.Contains(line, "-A "):
				name := chainOf(line[strings.Index(line, "-A "):])
				rules[name] = append(rules[name], line)
			case line != "COMMIT\n":
				head = append(head, line)
			}
		}
		random.Shuffle(len(chains), func(i, j int) { chains[i], chains[j] = chains[j], chains[i] })
		b.WriteString(strings.Join(head, "") + strings.Join(chains, ""))
		for _, line := range chains {
			name := strings.Fields(line[1:])[0]
			b.WriteString(strings.Join(shuffleShared(name, rules[name], random), ""))
		}
		if len(chains) > 0 {
			b.WriteString("COMMIT\n")
		}
	}
	return b.String()
}

func shuffleShared(chain string, rules []string, random *rand.Rand) []string {
	if !slices.Contains(sharedChains, chain) {
		return rules
	}
	n := len(rules)
	if n > 0 && strings.Contains(rules[n-1], "must be the last rule in this chain") {
		n--
	}
	random.Shuffle(n, func(i, j int) { rules[i], rules[j] = rules[j], rules[i] })
	return rules
}

// One missing line makes the command fail and tell the service.
func TestKernelVerifyTellsTheService(t *testing.T) {
	eachDump(t, func(t *testing.T, _ *lab.Lab, _ lab.Flavour, dump string, flags []string) {
		line := regexp.MustCompile(`(?m)^.*-A KUBE-SERVICES .*--comment "(\S+) cluster IP".*\n`).FindStringSubmatch(dump)
		code, stdout, stderr := verifyText(t, strings.Replace(dump, line[0], "", 1), flags...)
		if code != 1 || !strings.Contains(stdout, "packet "+line[1]+"/") || !strings.Contains(stdout, " packets differ, of 1 service port\n") {
			t.Errorf("without %s  exit %d\n%s%s", line[0], code, stdout, stderr)
		}
	})
}

// A file that svcc wrote verifies, with and without the jumps in it.
func TestVerifyRulesetFiles(t *testing.T) {
	for _, ref := range references {
		for _, hooks := range []string{"yes", "no"} {
			file := filepath.Join(t.TempDir(), "rules")
			args := append([]string{"build", "-o", file, "--hooks=" + hooks}, ref.flags...)
			if code, _, stderr := run(args...); code != 0 {
				t.Fatalf("exit %d\n%s", code, stderr)
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if has := bytes.Contains(text, []byte("-A INPUT ")); has != (hooks == "yes") {
				t.Errorf("--hooks=%s: jumps from built-in chains: %v", hooks, has)
			}
			agrees(t, "hooks="+hooks, string(text), familiesOf(t, ref.flags), ref.flags...)
			code, _, stderr := verifyText(t, strings.Replace(string(text), "-j DROP", "-j ACCEPT", 1), ref.flags...)
			if code != 2 || !strings.Contains(stderr, "seal") {
				t.Errorf("an edited file: exit %d\n%s", code, stderr)
			}
		}
	}
}

// foreign are rules of a container engine and of a network plugin, as they
// stand on nodes; those with opaque matches are told, and none is in the way.
const foreign = `*filter
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
:CNI-FORWARD - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -i docker0 ! -o docker0 -j ACCEPT
-A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
-A DOCKER-USER -j RETURN
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A CNI-FORWARD -m physdev --physdev-is-bridged -j ACCEPT
COMMIT
*nat
:DOCKER - [0:0]
:CNI-HOSTPORT-DNAT - [0:0]
:CNI-HOSTPORT-SETMARK - [0:0]
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
-A POSTROUTING -s 10.0.0.0/8 ! -d 224.0.0.0/4 -j MASQUERADE --random-fully
-A DOCKER -i docker0 -j RETURN
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 8081 -j DNAT --to-destination 172.17.0.2:80
-A CNI-HOSTPORT-DNAT -p tcp -m multiport --dports 8082 -j CNI-HOSTPORT-SETMARK
-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark 0x2000/0x2000
COMMIT
*mangle
-A FORWARD -p tcp -m tcp --tcp-flags SYN,RST SYN -j TCPMSS --clamp-mss-to-pmtu
COMMIT
`

// Rules of other programs do not stand in the way, and what could not be
// followed is told.
func TestKernelVerifyAmongForeignRules(t *testing.T) {
	eachDump(t, func(t *testing.T, l *lab.Lab, fl lab.Flavour, _ string, flags []string) {
		if err := l.Run(foreign, "iptables-"+string(fl)+"-restore", "--noflush"); err != nil {
			t.Fatal(err)
		}
		var dump string
		for _, f := range ir.Families {
			dump += save(t, l, fl, f)
		}
		agrees(t, "the dump", dump, familiesOf(t, flags), flags...)
		_, stdout, _ := verifyText(t, dump, append([]string{"-q"}, flags...)...)
		if !strings.Contains(stdout, "ipv4: 5 rules of other programs are not followed (-v lists them)\n") {
			t.Errorf("not counted:\n%s", stdout)
		}
		_, stdout, _ = verifyText(t, dump, append([]string{"-v"}, flags...)...)
		for _, rule := range []string{
			"-A FORWARD -o docker0 ", "-A FORWARD -i docker0 ! -o docker0 ", "-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 ",
			"-A CNI-FORWARD -m physdev ", "-A FORWARD -p tcp -m tcp --tcp-flags ",
		} {
			if !regexp.MustCompile(`(?m)^ipv4: not followed, another program's rule: .*` + regexp.QuoteMeta(rule)).MatchString(stdout) {
				t.Errorf("nothing is said of %s:\n%s", rule, stdout)
			}
		}
		if n := strings.Count(stdout, "not followed"); n != 5 || strings.Contains(stdout, "ipv6: not followed") {
			t.Errorf("%d rules are not followed:\n%s", n, stdout)
		}
	})
}
