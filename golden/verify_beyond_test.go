package golden

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const exampleCluster = "testdata/kube-proxy/example/cluster.yaml"

var exampleFlags = []string{"--node=node-a", "--cluster-cidr=10.244.0.0/16"}

// withoutAPI is the example's cluster without one Service and its endpoints.
func withoutAPI(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(exampleCluster)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	api := regexp.MustCompile(`name: api\b|service-name: api\b`)
	for _, doc := range strings.Split(string(text), "\n---\n") {
		if !api.MatchString(doc) {
			kept = append(kept, doc)
		}
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(kept, "\n---\n")), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// A Service that the manifests lack is named, whoever made the rules and however;
// where rules have no names its destinations are.
func TestVerifyNamesServiceThatManifestsLack(t *testing.T) {
	rest := withoutAPI(t)
	saved, err := os.ReadFile("../emit/iptables/testdata/worked.nft.save")
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"kube-proxy": string(saved), "kube-proxy ipvs": strings.Join(dumpOf(t, "testdata/kube-proxy/example/ipvs.txt"), "")}
	for _, how := range []string{"-O0", "-O1", "-O2", "-O0 --mode=ipvs", "-O1 --mode=ipvs", "-O1 --bare"} {
		file := filepath.Join(t.TempDir(), "rules")
		args := append([]string{"build", exampleCluster, "-q", "-o", file}, append(strings.Fields(how), exampleFlags...)...)
		if code, _, stderr := run(args...); code != 0 {
			t.Fatal(stderr)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[how] = string(text)
	}
	for how, text := range texts {
		t.Run(how, func(t *testing.T) {
			code, stdout, stderr := verifyText(t, text, append([]string{rest, "-q", "--most=1000"}, exampleFlags...)...)
			if code != 1 || !regexp.MustCompile(`packet (demo/api|\S+/tcp) \(not in the manifests\): `).MatchString(stdout) {
				t.Errorf("exit %d\n%s%s", code, stdout, stderr)
			}
			if !strings.Contains(stdout, "that the manifests lack\n") {
				t.Errorf("not counted:\n%s", stdout)
			}
		})
	}
}

// innocent are things of other programs, and of kube-proxy's own, that are no
// difference: lines by table, of chains and of rules.
var innocent = map[string][2]string{
	"kubelet's drop of marked packets": {"", "-A KUBE-FIREWALL -m comment --comment \"kubernetes firewall for dropping marked packets\" -m mark --mark 0x8000/0x8000 -j DROP\n"},
	"kubelet's mark for drops":         {":KUBE-MARK-DROP - [0:0]\n-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000\n", ""},
	"canaries and hints": {":KUBE-KUBELET-CANARY - [0:0]\n:KUBE-PROXY-CANARY - [0:0]\n:KUBE-IPTABLES-HINT - [0:0]\n",
		":KUBE-KUBELET-CANARY - [0:0]\n:KUBE-PROXY-CANARY - [0:0]\n"},
	"a router's policies": {"", ":KUBE-ROUTER-FORWARD - [0:0]\n:KUBE-NWPLCY-ABC - [0:0]\n:KUBE-POD-FW-ABC - [0:0]\n-A FORWARD -j KUBE-ROUTER-FORWARD\n" +
		"-A KUBE-ROUTER-FORWARD -d 10.244.1.5/32 -j KUBE-POD-FW-ABC\n-A KUBE-POD-FW-ABC -j KUBE-NWPLCY-ABC\n-A KUBE-POD-FW-ABC -j REJECT\n-A KUBE-NWPLCY-ABC -s 10.9.9.9/32 -j ACCEPT\n"},
	"host ports": {":KUBE-HOSTPORTS - [0:0]\n:KUBE-HP-ABC - [0:0]\n-A PREROUTING -m addrtype --dst-type LOCAL -j KUBE-HOSTPORTS\n" +
		"-A KUBE-HOSTPORTS -p tcp -m tcp --dport 8443 -j KUBE-HP-ABC\n-A KUBE-HP-ABC -p tcp -m tcp -j DNAT --to-destination 10.244.1.9:443\n", ""},
	"chains that nothing jumps to": {":KUBE-SVC-OLDOLDOLDOLDOLDO - [0:0]\n:KUBE-SEP-OLDOLDOLDOLDOLDO - [0:0]\n-A KUBE-SVC-OLDOLDOLDOLDOLDO -j KUBE-SEP-OLDOLDOLDOLDOLDO\n" +
		"-A KUBE-SEP-OLDOLDOLDOLDOLDO -p tcp -m tcp -j DNAT --to-destination 10.244.1.9:443\n", ""},
}

func TestVerifyDoesNotBlame(t *testing.T) {
	saved, err := os.ReadFile("../emit/iptables/testdata/worked.nft.save")
	if err != nil {
		t.Fatal(err)
	}
	for name, lines := range innocent {
		t.Run(name, func(t *testing.T) {
			text := intoTable(intoTable(string(saved), "nat", lines[0]), "filter", lines[1])
			agrees(t, name, text, nil, append([]string{exampleCluster, "-q"}, exampleFlags...)...)
		})
	}
}

// intoTable puts lines at the end of a table.
func intoTable(text, table, lines string) string {
	from := strings.Index(text, "*"+table+"\n")
	at := from + strings.Index(text[from:], "\nCOMMIT") + 1
	return text[:at] + lines + text[at:]
}

// Destinations that drain have weight 0: no new connection goes there.
func TestVerifyDrainingDestinations(t *testing.T) {
	ref := virtualReferences[1]
	text := strings.Join(dumpOf(t, ref.rules), "")
	drains := regexp.MustCompile(`(?m)^-A (-\S+ \S+) -s rr.*\n`).ReplaceAllString(text, "${0}-a $1 -r 10.244.9.9:1 -m -w 0\n")
	if drains == text {
		t.Fatal("no server drains")
	}
	_, before, _ := verifyText(t, text, append([]string{"-q"}, ref.flags...)...)
	_, after, stderr := verifyText(t, drains, append([]string{"-q"}, ref.flags...)...)
	if after != before || len(named(before)) == 0 {
		t.Errorf("%s\nafter:\n%s\nbefore:\n%s", stderr, after, before)
	}
}

// A hidden chain of any name counts if a chain of ours leads to it, and a family
// that the manifests lack is looked at.
func TestVerifySeesOtherNamesAndFamilies(t *testing.T) {
	saved, err := os.ReadFile("../emit/iptables/testdata/worked.nft.save")
	if err != nil {
		t.Fatal(err)
	}
	sixth, err := os.ReadFile("../emit/iptables/testdata/worked6.nft.save")
	if err != nil {
		t.Fatal(err)
	}
	const hidden = ":HIDDEN - [0:0]\n-A KUBE-SERVICES -d 8.8.8.8/32 -p tcp -m tcp --dport 53 -j HIDDEN\n-A HIDDEN -p tcp -m tcp -j DNAT --to-destination 10.244.1.5:8080\n"
	for text, want := range map[string]string{
		intoTable(string(saved), "nat", hidden): "ipv4: packet 8.8.8.8:53/tcp (not in the manifests)",
		string(saved) + string(sixth):           "ipv6: no Service of the manifests is of this family",
	} {
		code, stdout, stderr := verifyText(t, text, append([]string{exampleCluster, "-q", "--families=ipv4"}, exampleFlags...)...)
		if code != 1 || !strings.Contains(stdout, want) {
			t.Errorf("exit %d, not %q\n%s%s", code, want, stdout, stderr)
		}
	}
}

// Virtual servers of node ports at an address that the node has beside those told
// are right; one of another port there is a difference if the address is the node's.
func TestVerifyNodePortsAtFurtherAddresses(t *testing.T) {
	ref := virtualReferences[1]
	text := strings.Join(dumpOf(t, ref.rules), "")
	_, before, _ := verifyText(t, text, append([]string{"-q"}, ref.flags...)...)
	ports := regexp.MustCompile(`(?m)^-[Aa] -t 192\.0\.2\.10:\d+ .*\n`).FindAllString(text, -1)
	if len(ports) == 0 {
		t.Fatal("no node ports")
	}
	further := strings.ReplaceAll(strings.Join(ports, ""), "192.0.2.10", "192.0.2.77")
	packets := regexp.MustCompile(`(?m)^ipv4: packet .*`)
	_, after, stderr := verifyText(t, text+further, append([]string{"-q"}, ref.flags...)...)
	if d := cmp.Diff(packets.FindAllString(before, -1), packets.FindAllString(after, -1)); d != "" {
		t.Errorf("%s\n(-before +after):\n%s", stderr, d)
	}
	if strings.Contains(before, "not in the manifests") {
		t.Errorf("something is taken for no Service's:\n%s", before)
	}
	const other = "-A -t 192.0.2.77:22 -s rr\n-a -t 192.0.2.77:22 -r 10.244.1.5:8080 -m -w 1\n"
	if _, after, _ := verifyText(t, text+other, append([]string{"-q"}, ref.flags...)...); !strings.Contains(after, "packet 192.0.2.77:22/tcp (not in the manifests)") {
		t.Errorf("not seen:\n%s", after)
	}
}
