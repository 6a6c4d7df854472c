package conntrack_test

import (
	"net"
	"testing"
)

// pending is a socket that takes requests and answers when it is told to.
type pending struct{ net.PacketConn }

func listen(t *testing.T, addr, port string) pending {
	t.Helper()
	c, err := net.ListenPacket("udp", net.JoinHostPort(addr, port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return pending{c}
}

// take waits for a request and gives what answers it.
func (p pending) take(t *testing.T) (answer func(string)) {
	t.Helper()
	_, from, err := p.ReadFrom(make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) {
		t.Helper()
		if _, err := p.WriteTo([]byte(text), from); err != nil {
			t.Fatal(err)
		}
	}
}

func send(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
}

// first is the first answer that reaches a socket, however long it takes.
func first(t *testing.T, c net.Conn) string {
	t.Helper()
	b := make([]byte, 100)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// A change finds requests on their way. The answer of an endpoint that stays comes
// through; one of an endpoint that goes has no entry left that would give it the
// Service's address, and its client's next request is answered by another.
func TestKernelRequestsOnTheirWay(t *testing.T) {
	for _, n := range worlds {
		for _, flavour := range []string{"legacy", "nft"} {
			t.Run(n.family.String()+"/"+flavour, func(t *testing.T) { n.onTheirWay(t, flavour) })
		}
	}
}

func (n names) onTheirWay(t *testing.T, flavour string) {
	n.enter(t)
	goes, stays, comes := listen(t, n.podA, "5353"), listen(t, n.podC, "5353"), listen(t, n.podB, "5353")
	before := n.load(t, flavour, n.steadyYAML()+n.dnsYAML(n.podA))
	changed, steady := n.dial(t, n.clusterIP, "53"), n.dial(t, n.steadyIP, "53")
	send(t, changed)
	send(t, steady)
	late, kept := goes.take(t), stays.take(t)

	after := n.load(t, flavour, n.steadyYAML()+n.dnsYAML(n.podB))
	clean(t, before, after, 1)
	late("from one that is gone")
	kept("from one that stays")
	if got := first(t, steady); got != "from one that stays" {
		t.Errorf("the endpoint that stays: %q", got)
	}
	send(t, changed)
	comes.take(t)("from the new one")
	if got := first(t, changed); got != "from the new one" {
		t.Errorf("after the change the client first hears %q", got)
	}
}
