package ipvs

import (
	"strings"
	"testing"

	"svcc/emit"
	"svcc/ir"
)

// A line that says anything but what svcc writes is an error that names it,
// however well the file is sealed.
func TestReadStateRefuses(t *testing.T) {
	const server = "-A -t 10.96.0.1:80 -s rr\n"
	for _, c := range []struct{ tool, good, bad string }{
		{ToolAddresses, "", "link set eth0 down"},
		{ToolAddresses, "", "link add kube-ipvs0 type dummy mtu 9000"},
		{ToolAddresses, "", "link del kube-ipvs0"},
		{ToolAddresses, "link add kube-ipvs0 type dummy\n", "link add other type dummy"},
		{ToolAddresses, "address replace 10.96.0.1/32 dev kube-ipvs0 nodad\n", "address replace 10.96.0.2/32 dev kube-ipvs0 label x"},
		{ToolAddresses, "address replace 10.96.0.1/32 dev kube-ipvs0\n", "address replace 10.96.0.2/32 dev kube-ipvs0 nodad dev eth0"},
		{ToolAddresses, "", "address replace 0.0.0.0/32 dev kube-ipvs0"},
		{ToolServers, "", "-A -t 0.0.0.0:80 -s rr"},
		{ToolServers, "", "-A -t 10.96.0.1:0 -s rr -p 60"},
		{ToolServers, "-A -t 10.96.0.2:80 -s rr -p 1\n", "-A -t 10.96.0.1:80 -s rr -p 0"},
		{ToolServers, "-A -t 10.96.0.2:80 -s rr -p 2147483647\n", "-A -t 10.96.0.1:80 -s rr -p 2147483648"},
		{ToolServers, server, "-a -t 10.96.0.1:80 -r 0.0.0.0:8080 -m -w 1"},
		{ToolServers, server, "-a -t 10.96.0.1:80 -r 10.244.0.1:0 -m -w 1"},
		{ToolServers, server, "-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w -1"},
		{ToolServers, server + "-a -t 10.96.0.1:80 -r 10.244.0.2:8080 -m -w 65535\n", "-a -t 10.96.0.1:80 -r 10.244.0.1:8080 -m -w 65536"},
		{ToolSets, "", "create KUBE-A hash:ip family inet hashsize 1024 maxelem -1"},
	} {
		read := func(text string) error {
			_, err := ReadState(ir.IPv4, []emit.Section{{Tool: c.tool, Family: ir.IPv4, Text: []byte(text)}})
			return err
		}
		if err := read(c.good); err != nil {
			t.Errorf("%q: %v", c.good, err)
		}
		line := "line 1: "
		if n := strings.Count(c.good, "\n"); n > 0 {
			line = map[int]string{1: "line 2: ", 2: "line 3: "}[n]
		}
		if err := read(c.good + c.bad + "\n"); err == nil || !strings.Contains(err.Error(), line) {
			t.Errorf("%q: error %v, want %s", c.bad, err, line)
		}
	}
}

// A ruleset's set has room for its entries.
func TestReadStateRoom(t *testing.T) {
	text := []byte("create KUBE-A hash:ip family inet hashsize 1024 maxelem 2\nadd KUBE-A 10.0.0.1\nadd KUBE-A 10.0.0.2\nadd KUBE-A 10.0.0.1\n")
	read := func(text []byte) error {
		_, err := ReadState(ir.IPv4, []emit.Section{{Tool: ToolSets, Family: ir.IPv4, Text: text}})
		return err
	}
	if err := read(text); err != nil {
		t.Error(err)
	}
	if err := read(append(text, "add KUBE-A 10.0.0.3\n"...)); err == nil || !strings.Contains(err.Error(), "maxelem") {
		t.Errorf("error %v", err)
	}
}
