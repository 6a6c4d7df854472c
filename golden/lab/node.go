package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"svcc/ir"
)

// The interfaces that every Lab has.
const (
	Pods    = "pods0" // the way to and from pods
	Outside = "ext0"  // the default route
	own     = "node0" // bears the node's addresses
)

// masqueraded are the addresses that every interface of the node has and that
// nothing else uses: MASQUERADE takes its source from the interface by which a
// packet leaves, which bears none of the node's own, so that a rewritten source
// is always told from an original.
var masqueraded = map[ir.Family]netip.Addr{
	ir.IPv4: netip.MustParseAddr("198.19.255.254"),
	ir.IPv6: netip.MustParseAddr("fdff:ffff:ffff::fe"),
}

// sysctls make the kernel forward all, answer always and stay silent unasked.
var sysctls = []struct{ name, value string }{
	{"ipv4/ip_forward", "1"},
	{"ipv4/conf/all/route_localnet", "1"}, // as kube-proxy sets it
	{"ipv4/conf/all/rp_filter", "0"},
	{"ipv4/conf/default/rp_filter", "0"},
	{"ipv4/conf/all/accept_local", "1"},
	{"ipv4/conf/all/send_redirects", "0"},
	{"ipv4/conf/default/send_redirects", "0"},
	{"ipv4/icmp_ratelimit", "0"},
	{"ipv4/icmp_msgs_per_sec", "1000000"},
	{"ipv4/icmp_msgs_burst", "1000000"},
	{"ipv6/conf/all/forwarding", "1"},
	{"ipv6/conf/default/accept_dad", "0"},
	{"ipv6/conf/default/addr_gen_mode", "1"}, // no link-local addresses, hence no chatter
	{"ipv6/conf/lo/use_oif_addrs_only", "1"}, // or masquerading prefers the destination's own address
	{"ipv6/conf/default/use_oif_addrs_only", "1"},
	{"ipv6/icmp/ratelimit", "0"},
}

// enter moves the calling thread, which must be locked to its goroutine, into
// a new network namespace and onto one CPU.
func enter() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("new network namespace: %w", err)
	}
	for _, s := range sysctls {
		err := os.WriteFile("/proc/sys/net/"+s.name, []byte(s.value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // older kernels limit per machine
			return err
		}
	}
	return bindCPU()
}

var nextCPU atomic.Uint32

// bindCPU binds the calling thread to one of the CPUs that it may use.
func bindCPU() error {
	var may unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	skip := int(nextCPU.Add(1)) % may.Count()
	for cpu := 0; ; cpu++ {
		if !may.IsSet(cpu) {
			continue
		}
		if skip == 0 {
			var one unix.CPUSet
			one.Set(cpu)
			return unix.SchedSetaffinity(0, &one)
		}
		skip--
	}
}

// openTUN makes a TUN device in the calling thread's namespace, up and with
// the masqueraded addresses.
func openTUN(nl *netlink.Handle, name string) (fd int, err error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return -1, fmt.Errorf("interface %q: %w", name, err)
	}
	fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("/dev/net/tun: %w", err)
	}
	req.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
	if err = unix.IoctlIfreq(fd, unix.TUNSETIFF, req); err == nil {
		err = raise(nl, name)
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("interface %s: %w", name, err)
	}
	return fd, nil
}

// raise sets an interface up and gives it the masqueraded addresses.
func raise(nl *netlink.Handle, name string) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return err
	}
	if err := nl.LinkSetUp(link); err != nil {
		return err
	}
	for _, f := range ir.Families {
		if err := addAddr(nl, name, masqueraded[f]); err != nil {
			return err
		}
	}
	return nil
}

func addAddr(nl *netlink.Handle, name string, a netip.Addr) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return err
	}
	addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen()))}
	if a.Is6() {
		addr.Flags = unix.IFA_F_NODAD
	}
	return nl.AddrAdd(link, addr)
}

// awaitLocal waits until the kernel takes an address for its own: for IPv6 it
// sees to that later, when it is less busy.
func awaitLocal(nl *netlink.Handle, a netip.Addr) error {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		routes, err := nl.RouteGet(a.AsSlice())
		if err == nil && len(routes) == 1 && routes[0].Type == unix.RTN_LOCAL {
			return nil
		}
	}
	return fmt.Errorf("address %s does not become local", a)
}

// addRoute sends a prefix out of an interface.
func addRoute(nl *netlink.Handle, name string, p netip.Prefix) error {
	link, err := nl.LinkByName(name)
	if err != nil {
		return err
	}
	err = nl.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(p.Masked()), Scope: netlink.SCOPE_LINK})
	if err != nil {
		return fmt.Errorf("route %s by %s: %w", p, name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
