package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// world is the client's namespace and the nodes behind it.
type world struct {
	dir    string
	client netns.NsHandle
	nodes  []*node
}

func newWorld(dir string) *world { return &world{dir: dir, client: netns.None()} }

// node is a network namespace with rules, and the way into it.
type node struct {
	ns     netns.NsHandle
	lock   string // its own lock file for iptables
	socket int    // sends frames to it
}

// onThread runs f on a thread of its own, which ends with it.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		done <- f()
	}()
	return <-done
}

// do runs f on a thread in the namespace.
func do(ns netns.NsHandle, f func() error) error {
	return onThread(func() error {
		if err := netns.Set(ns); err != nil {
			return err
		}
		return f()
	})
}

// newNamespace makes a namespace that lives as long as its handle.
func newNamespace() (ns netns.NsHandle, err error) {
	err = onThread(func() (err error) {
		ns, err = netns.New()
		return err
	})
	return ns, err
}

// sysctls keep everything but rules out of a packet's way.
var sysctls = []struct{ name, value string }{
	{"ipv6/conf/all/disable_ipv6", "1"},
	{"ipv6/conf/default/disable_ipv6", "1"},
	{"ipv4/ip_forward", "1"},
	{"ipv4/conf/all/rp_filter", "0"},
	{"ipv4/conf/default/rp_filter", "0"},
	{"ipv4/conf/all/send_redirects", "0"},
	{"netfilter/nf_conntrack_checksum", "0"},
}

func setSysctls() error {
	for _, s := range sysctls {
		err := os.WriteFile("/proc/sys/net/"+s.name, []byte(s.value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// add makes a node: n0 is where packets come in, n1 where they would leave.
func (w *world) add() (*node, error) {
	if !w.client.IsOpen() {
		ns, err := newNamespace()
		if err != nil {
			return nil, err
		}
		w.client = ns
		if err := do(ns, setSysctls); err != nil {
			return nil, err
		}
	}
	ns, err := newNamespace()
	if err != nil {
		return nil, err
	}
	i := strconv.Itoa(len(w.nodes))
	n := &node{ns: ns, socket: -1, lock: filepath.Join(w.dir, "lock-"+i)}
	w.nodes = append(w.nodes, n)
	if err := do(ns, func() error { return w.wire(i) }); err != nil {
		return nil, err
	}
	err = do(w.client, func() error { return n.connect(i) })
	return n, err
}

// wire gives the calling thread's namespace its interfaces, whose other ends
// are the client's, and a default route.
func (w *world) wire(i string) error {
	if err := setSysctls(); err != nil {
		return err
	}
	for own, peer := range map[string]string{"n0": "c" + i, "n1": "p" + i} {
		a := netlink.NewLinkAttrs()
		a.Name = own
		if own == "n0" {
			a.HardwareAddr = net.HardwareAddr(nodeMAC[:])
		}
		v := &netlink.Veth{LinkAttrs: a, PeerName: peer, PeerNamespace: netlink.NsFd(w.client)}
		if err := netlink.LinkAdd(v); err != nil {
			return fmt.Errorf("interface %s: %w", own, err)
		}
		if err := netlink.LinkSetUp(v); err != nil {
			return fmt.Errorf("interface %s: %w", own, err)
		}
	}
	for own, address := range map[string]string{"n0": "192.168.0.1/24", "n1": "192.168.1.1/24"} {
		a, err := netlink.ParseAddr(address)
		if err != nil {
			return err
		}
		link, err := netlink.LinkByName(own)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(link, a); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return nil
}

// connect opens the client's side of a node.
func (n *node) connect(i string) error {
	for _, name := range []string{"p" + i, "c" + i} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return err
		}
		if name == "c"+i {
			if n.socket, err = openSocket(link.Attrs().Index); err != nil {
				return err
			}
		}
	}
	return do(n.ns, func() error {
		out, err := netlink.LinkByName("n1")
		if err != nil {
			return err
		}
		_, all, err := net.ParseCIDR("0.0.0.0/0")
		if err != nil {
			return err
		}
		return netlink.RouteReplace(&netlink.Route{LinkIndex: out.Attrs().Index, Dst: all, Scope: netlink.SCOPE_LINK})
	})
}

func (w *world) close() {
	for _, n := range w.nodes {
		unix.Close(n.socket)
		n.ns.Close()
	}
	if w.client.IsOpen() {
		w.client.Close()
	}
}

// build loads every text: once in the node that traffic will be sent to, and
// more often, for the time it takes, in namespaces that end at once.
func (w *world) build(ctx context.Context, layouts []*layout, o options) error {
	for round := range max(o.loads, 1) {
		for _, l := range layouts {
			if err := ctx.Err(); err != nil {
				return err
			}
			if round > 0 && !l.again(round) {
				continue
			}
			if err := w.loadOnce(ctx, l, round == 0, o.loadTimeout); err != nil {
				return fmt.Errorf("%s: %w", l, err)
			}
		}
	}
	return nil
}

func (w *world) loadOnce(ctx context.Context, l *layout, keep bool, limit time.Duration) error {
	if !keep {
		return l.timeLoad(ctx, nil, filepath.Join(w.dir, "lock"), limit)
	}
	n, err := w.add()
	if err != nil {
		return err
	}
	return l.timeLoad(ctx, n, n.lock, limit)
}
