package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/ir"
)

// Config is a node and the world around it.
type Config struct {
	Addrs      []netip.Addr   // the node's own addresses
	Pods       []netip.Prefix // what is reached by Pods rather than by Outside
	Interfaces []string       // further interfaces by which packets arrive
}

// Lab is a node in a network namespace of its own. Its methods may be called
// from any goroutine, one at a time.
type Lab struct {
	work chan func()
	dir  string
	nl   *netlink.Handle
	tuns map[string]int // file descriptors by interface
	ears []ear
	raw  map[ir.Family]int // sockets by which the node sends
	last uint32            // number of the latest packet
}

// New builds a node, which ends with the test. It fails the test if the kernel
// refuses; see Require.
func New(t testing.TB, c Config) *Lab {
	t.Helper()
	l := &Lab{work: make(chan func()), dir: t.TempDir(), tuns: map[string]int{}, raw: map[ir.Family]int{}}
	go func() {
		// The thread is never unlocked: it ends with this goroutine, and the
		// namespace with it.
		runtime.LockOSThread()
		for f := range l.work {
			f()
		}
	}()
	t.Cleanup(func() {
		l.do(func() error { l.close(); return nil })
		close(l.work)
	})
	if err := l.do(func() error { return l.build(c) }); err != nil {
		t.Fatalf("laboratory: %v", err)
	}
	return l
}

// do runs f on the thread that lives in the namespace.
func (l *Lab) do(f func() error) error {
	done := make(chan error)
	l.work <- func() { done <- f() }
	return <-done
}

// Do runs f on the thread that lives in the namespace: a socket that f makes is
// the node's for good.
func (l *Lab) Do(f func() error) error { return l.do(f) }

func (l *Lab) build(c Config) (err error) {
	if err := enter(); err != nil {
		return err
	}
	if l.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE, unix.NETLINK_NETFILTER); err != nil {
		return err
	}
	if err := raise(l.nl, "lo"); err != nil {
		return err
	}
	for _, name := range append([]string{own, Pods, Outside}, c.Interfaces...) {
		if l.tuns[name], err = openTUN(l.nl, name); err != nil {
			return err
		}
	}
	if err := l.route(c); err != nil {
		return err
	}
	if l.ears, err = openEars(); err != nil {
		return err
	}
	for f, domain := range map[ir.Family]int{ir.IPv4: unix.AF_INET, ir.IPv6: unix.AF_INET6} {
		if l.raw[f], err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
			return fmt.Errorf("raw %s socket: %w", f, err)
		}
	}
	return nil
}

func (l *Lab) route(c Config) error {
	for _, a := range c.Addrs {
		if err := addAddr(l.nl, own, a); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	for _, a := range c.Addrs {
		if err := awaitLocal(l.nl, a); err != nil {
			return err
		}
	}
	for _, p := range []string{"0.0.0.0/0", "::/0"} {
		if err := addRoute(l.nl, Outside, netip.MustParsePrefix(p)); err != nil {
			return err
		}
	}
	for _, p := range c.Pods {
		if err := addRoute(l.nl, Pods, p); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) close() {
	for _, fd := range l.tuns {
		unix.Close(fd)
	}
	for _, fd := range l.raw {
		unix.Close(fd)
	}
	for _, e := range l.ears {
		unix.Close(e.fd)
	}
	if l.nl != nil {
		l.nl.Close()
	}
}

// Run runs a tool inside the namespace with the given standard input. An error
// carries what it said.
func (l *Lab) Run(stdin string, argv ...string) error {
	return l.do(func() error { return l.run(stdin, argv...) })
}

func (l *Lab) run(stdin string, argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	// The lock that the iptables tools take is the machine's otherwise.
	cmd.Env = append(os.Environ(), "XTABLES_LOCKFILE="+filepath.Join(l.dir, "xtables.lock"))
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

// Flavour is one of the two kinds of iptables.
type Flavour string

// The flavours.
const (
	Legacy Flavour = "legacy"
	NFT    Flavour = "nft"
)

// Flavours are all of them.
var Flavours = []Flavour{Legacy, NFT}

func (f Flavour) restore(family ir.Family) string {
	if family == ir.IPv6 {
		return "ip6tables-" + string(f) + "-restore"
	}
	return "iptables-" + string(f) + "-restore"
}

// LoadIPTables replaces the tables named in an iptables-restore text.
func (l *Lab) LoadIPTables(fl Flavour, family ir.Family, text string) error {
	return l.Run(text, fl.restore(family))
}

// ForwardPolicy sets the FORWARD chain's policy, ACCEPT or DROP, and leaves
// the rules.
func (l *Lab) ForwardPolicy(fl Flavour, family ir.Family, policy string) error {
	return l.Run("*filter\n:FORWARD "+policy+"\nCOMMIT\n", fl.restore(family), "--noflush")
}

// blank empties the tables that rules for Services use.
const blank = `*filter
:INPUT ACCEPT
:FORWARD ACCEPT
:OUTPUT ACCEPT
COMMIT
*nat
:PREROUTING ACCEPT
:INPUT ACCEPT
:OUTPUT ACCEPT
:POSTROUTING ACCEPT
COMMIT
`

// Flush removes one flavour's rules of both families.
func (l *Lab) Flush(fl Flavour) error {
	for _, f := range ir.Families {
		if err := l.LoadIPTables(fl, f, blank); err != nil {
			return err
		}
	}
	return nil
}

// Require skips a test where there can be no laboratory: without root, TUN
// devices or tools. Where CI is set it fails it instead, so that tests of the
// kernel cannot vanish unseen.
func Require(t testing.TB) {
	t.Helper()
	Need(t, missing())
}

func missing() error {
	_, tun := os.Stat("/dev/net/tun")
	var tools []string
	for _, fl := range Flavours {
		tools = append(tools, fl.restore(ir.IPv4), fl.restore(ir.IPv6))
	}
	return errors.Join(Root(), tun, Tools(tools...))
}
