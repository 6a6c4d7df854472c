package ipvs

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"svcc/emit"
)

// A connection that is there outlives its endpoint's Service entry, and a new
// one does not go there.
func testDrain(t *testing.T) {
	tool(t, "link set lo up\naddress add 10.0.0.1/32 dev lo\naddress add 10.0.0.2/32 dev lo\n", "ip", "-batch", "-")
	m := newMachine()
	tg := m.target()
	both := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.1:8080", "10.0.0.2:8080")
	bring(t, tg, both.ruleset())
	first, second := serve(t, "10.0.0.1:8080"), serve(t, "10.0.0.2:8080")
	a, b := dial(t, "10.96.0.1:80"), dial(t, "10.96.0.1:80")
	if len(first) != 1 || len(second) != 1 {
		t.Fatalf("%d and %d connections, want one each", len(first), len(second))
	}
	one := newWorld().cluster("tcp 10.96.0.1:80 rr", "10.0.0.2:8080").ruleset()
	bring(t, tg, one)
	for _, c := range []net.Conn{a, b} {
		if err := echo(c); err != nil {
			t.Errorf("a connection broke: %v", err)
		}
	}
	if n := destinations(t); n != 2 {
		t.Fatalf("%d destinations, want 2: one drains", n)
	}
	for range 2 {
		dial(t, "10.96.0.1:80").Close()
	}
	if len(first) != 1 || len(second) != 3 {
		t.Errorf("%d and %d connections, want 1 and 3", len(first), len(second))
	}
	m.writes = nil
	bring(t, tg, one)
	if len(m.writes) > 0 {
		t.Errorf("while it drains: %q", m.writes)
	}
	drained(t, m, tg, one, a, b)
}

// drained has connections end, and the destination of a ruleset that drains go.
func drained(t *testing.T, m *machine, tg *Target, rs *emit.Ruleset, connections ...net.Conn) {
	// From its next packet on, a connection ends after a second without one.
	if err := m.Kernel.Do(Op{Verb: SetTimeouts, Timeouts: Timeouts{TCP: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, c := range connections {
		c.Write([]byte("x")) //nolint:errcheck // the next lines tell
	}
	_, p := plans(t, tg, rs)
	tg.DrainTimeout = 10 * time.Minute
	if did, err := tg.Tidy(context.Background(), p); err != nil || len(did) != 1 {
		t.Errorf("%q, %v", did, err)
	}
	if n := destinations(t); n != 1 {
		t.Errorf("%d destinations, want 1\n%s", n, tool(t, "", "ipvsadm", "-Ln"))
	}
}

func destinations(t *testing.T) int { return strings.Count(servers(t), "-a ") }

// serve accepts connections, counts them and sends back what it gets.
func serve(t *testing.T, address string) chan struct{} {
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	count := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			count <- struct{}{}
			go func() { io.Copy(c, c); c.Close() }() //nolint:errcheck // it ends with the connection
		}
	}()
	return count
}

// dial connects, and makes sure that the other end has noticed.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: 10 * time.Minute}
	c, err := d.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := echo(c); err != nil {
		t.Fatal(err)
	}
	return c
}

// echo sends a byte and waits for it to come back.
func echo(c net.Conn) error {
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}
