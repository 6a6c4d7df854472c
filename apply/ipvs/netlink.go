package ipvs

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"syscall"
	"time"

	kernel "github.com/moby/ipvs"
	"github.com/sirupsen/logrus"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// Netlink is the Kernel of the network namespace of the thread that first uses
// it. It must not be used by two goroutines at once.
type Netlink struct{ handle *kernel.Handle }

// serversFile is there if, and only if, the kernel has IPVS.
const serversFile = "/proc/thread-self/net/ip_vs"

func (n *Netlink) open() (*kernel.Handle, error) {
	if n.handle != nil {
		return n.handle, nil
	}
	if _, err := os.Stat(serversFile); errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoIPVS
	}
	// The library runs modprobe, and says so if there is none; it is loaded.
	logrus.SetLevel(logrus.PanicLevel)
	var err error
	n.handle, err = kernel.New("")
	return n.handle, err
}

// Servers implements Kernel. By netlink, the kernel lists the destinations of
// one server only, so they are read from its file, all at once. Where servers of
// other network namespaces are about, the kernel counts these as well when it
// goes on with the file after a page of it, and leaves out some of ours: of those
// it is asked by netlink.
func (n *Netlink) Servers() ([]*Server, error) {
	h, err := n.open()
	if err != nil {
		return nil, err
	}
	all, err := h.GetServices()
	if err != nil {
		return nil, fmt.Errorf("reading the virtual servers: %w", err)
	}
	text, err := os.ReadFile(serversFile)
	if err != nil {
		return nil, err
	}
	destinations, err := readDestinations(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serversFile, err)
	}
	var out []*Server
	for _, svc := range all {
		s := serverOf(svc)
		if s == nil {
			continue
		}
		list, ok := destinations[s.Key]
		if !ok {
			if list, err = n.Destinations(s.Key); err != nil {
				return nil, err
			}
		}
		s.Destinations = sorted(list)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Server) int { return a.Key.Compare(b.Key) })
	return out, nil
}

// serverOf is nil for a server by firewall mark.
func serverOf(s *kernel.Service) *Server {
	a, ok := netip.AddrFromSlice(s.Address)
	if s.FWMark != 0 || !ok {
		return nil
	}
	return &Server{
		Key:       spec.Key{Protocol: ir.Protocol(s.Protocol), Address: netip.AddrPortFrom(a, s.Port)},
		Scheduler: s.SchedName, Flags: s.Flags &^ flagHashed, Timeout: s.Timeout, Netmask: s.Netmask,
	}
}

// Destinations implements Kernel.
func (n *Netlink) Destinations(k spec.Key) ([]Destination, error) {
	h, err := n.open()
	if err != nil {
		return nil, err
	}
	all, err := h.GetDestinations(serviceOf(&Server{Key: k}))
	if errors.Is(err, unix.ESRCH) {
		return nil, nil // it went in the meantime
	}
	if err != nil {
		return nil, fmt.Errorf("reading the destinations of %s: %w", k, err)
	}
	var out []Destination
	for _, d := range all {
		a, _ := netip.AddrFromSlice(d.Address)
		out = append(out, Destination{
			Address: netip.AddrPortFrom(a, d.Port), Weight: d.Weight, Method: d.ConnectionFlags & methodMask,
			Connections: d.ActiveConnections + d.InactiveConnections,
		})
	}
	return sorted(out), nil
}

func sorted(list []Destination) []Destination {
	slices.SortFunc(list, func(a, b Destination) int { return a.Address.Compare(b.Address) })
	return list
}

func serviceOf(s *Server) *kernel.Service {
	af := uint16(unix.AF_INET)
	if s.Address.Addr().Is6() {
		af = unix.AF_INET6
	}
	return &kernel.Service{
		Address: net.IP(s.Address.Addr().AsSlice()), Protocol: uint16(s.Protocol), Port: s.Address.Port(), AddressFamily: af,
		SchedName: s.Scheduler, Flags: s.Flags, Timeout: s.Timeout, Netmask: s.Netmask,
	}
}

func destinationOf(d Destination) *kernel.Destination {
	return &kernel.Destination{
		Address: net.IP(d.Address.Addr().AsSlice()), Port: d.Address.Port(), Weight: d.Weight, ConnectionFlags: d.Method,
	}
}

// Timeouts implements Kernel.
func (n *Netlink) Timeouts() (Timeouts, error) {
	h, err := n.open()
	if err != nil {
		return Timeouts{}, err
	}
	c, err := h.GetConfig()
	if err != nil {
		return Timeouts{}, fmt.Errorf("reading the timeouts of IPVS: %w", err)
	}
	seconds := func(d time.Duration) int { return int(d / time.Second) }
	return Timeouts{seconds(c.TimeoutTCP), seconds(c.TimeoutTCPFin), seconds(c.TimeoutUDP)}, nil
}

// Link implements Kernel.
func (n *Netlink) Link() (there bool, addresses []netip.Addr, err error) {
	link, err := netlink.LinkByName(spec.Link)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return false, nil, nil
	}
	if err == nil && link.Type() != "dummy" {
		err = fmt.Errorf("%w but a %s", ErrLink, link.Type())
	}
	var list []netlink.Addr
	if err == nil {
		list, err = addressesOf(link)
	}
	if err != nil {
		return false, nil, fmt.Errorf("reading %s: %w", spec.Link, err)
	}
	for _, a := range list {
		if addr, ok := netip.AddrFromSlice(a.IP); ok && !kernelsOwn(a) {
			addresses = append(addresses, addr.Unmap())
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return true, slices.Compact(addresses), nil
}

// addressesOf lists a link's addresses, again where some of the node's changed
// while the kernel told them.
func addressesOf(link netlink.Link) (list []netlink.Addr, err error) {
	for range 10 {
		list, err = netlink.AddrList(link, netlink.FAMILY_ALL)
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return list, err
}

// kernelsOwn says that the kernel gave a link its address, as it does in IPv6
// when a link comes up: a link-local one, with the prefix of fe80::/64. A load
// balancer's may be link-local as well, but is borne alone.
func kernelsOwn(a netlink.Addr) bool {
	ones, bits := a.Mask.Size()
	return bits == 128 && ones < bits && a.IP.IsLinkLocalUnicast()
}

// Do implements Kernel.
func (n *Netlink) Do(o Op) error {
	var err error
	if o.Verb <= DelAddress {
		err = n.doLink(o)
	} else {
		err = n.doServer(o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o, err)
	}
	return nil
}

func (n *Netlink) doLink(o Op) error {
	if o.Verb == AddLink {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = spec.Link
		err := netlink.LinkAdd(&netlink.Dummy{LinkAttrs: attrs})
		if errors.Is(err, unix.EOPNOTSUPP) {
			err = fmt.Errorf("%w (modprobe dummy)", err)
		}
		return err
	}
	link, err := netlink.LinkByName(spec.Link)
	if err != nil {
		return err
	}
	if o.Verb == DelLink {
		return netlink.LinkDel(link)
	}
	a := &netlink.Addr{IPNet: &net.IPNet{
		IP: net.IP(o.Address.AsSlice()), Mask: net.CIDRMask(o.Address.BitLen(), o.Address.BitLen()),
	}}
	if o.Verb == DelAddress {
		return delAddress(link, a.IP)
	}
	if o.Address.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	return netlink.AddrReplace(link, a)
}

// delAddress deletes an address as the link bears it: somebody may have added it
// with another prefix or with a peer, by which the kernel tells addresses apart.
func delAddress(link netlink.Link, ip net.IP) error {
	list, err := addressesOf(link)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(a netlink.Addr) bool { return !a.IP.Equal(ip) })
	if len(list) == 0 {
		return unix.EADDRNOTAVAIL
	}
	for i := range list {
		if err := netlink.AddrDel(link, &list[i]); err != nil {
			return err
		}
	}
	return nil
}

func (n *Netlink) doServer(o Op) error {
	h, err := n.open()
	if err != nil {
		return err
	}
	svc, d := serviceOf(&o.Server), destinationOf(o.Destination)
	switch o.Verb {
	case AddServer:
		err = h.NewService(svc)
	case SetServer:
		err = h.UpdateService(svc)
	case DelServer:
		err = h.DelService(svc)
	case AddDestination:
		err = h.NewDestination(svc, d)
	case SetDestination:
		err = h.UpdateDestination(svc, d)
	case DelDestination:
		err = h.DelDestination(svc, d)
	case SetTimeouts:
		seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
		err = h.SetConfig(&kernel.Config{
			TimeoutTCP: seconds(o.Timeouts.TCP), TimeoutTCPFin: seconds(o.Timeouts.TCPFin), TimeoutUDP: seconds(o.Timeouts.UDP),
		})
	}
	return explain(o, err)
}

// explain says what the kernel means by its errors (net/netfilter/ipvs).
func explain(o Op, err error) error {
	switch {
	case errors.Is(err, unix.ENOENT) && o.Verb <= SetServer:
		return fmt.Errorf("the kernel has no scheduler %s: modprobe ip_vs_%s (%w)", o.Server.Scheduler, o.Server.Scheduler, err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fmt.Errorf("the kernel's IPVS has no %s (%w)", family(o.Server.Address.Addr()), err)
	case errors.Is(err, unix.EINVAL) && (o.Verb == AddDestination || o.Verb == SetDestination):
		return fmt.Errorf("destination %s of virtual server %s: it must be a single host's address, not the broadcast address of a network that the node is in (%w)",
			o.Destination.Address, o.Server.Key, err)
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("there is no such virtual server (%w)", err)
	}
	return err
}

// Close gives back what was opened.
func (n *Netlink) Close() {
	if n.handle != nil {
		n.handle.Close()
		n.handle = nil
	}
}

// sandbox is a thread in a network namespace of its own.
type sandbox struct{ work chan func() }

// Sandbox implements Kernel.
func (n *Netlink) Sandbox() (Sandbox, error) {
	s := sandbox{make(chan func())}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and the namespace
		if err := unix.Unshare(syscall.CLONE_NEWNET); err != nil {
			failed <- err
			return
		}
		failed <- nil
		for f := range s.work {
			f()
		}
	}()
	if err := <-failed; err != nil {
		return nil, err
	}
	return s, nil
}

func (s sandbox) Do(f func(Kernel)) {
	done := make(chan struct{})
	s.work <- func() {
		k := &Netlink{}
		f(k)
		k.Close()
		close(done)
	}
	<-done
}

func (s sandbox) Close() { close(s.work) }
