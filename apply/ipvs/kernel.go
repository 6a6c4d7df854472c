package ipvs

import (
	"errors"
	"net/netip"

	spec "svcc/emit/ipvs"
)

// Kernel is one network namespace's virtual servers, and the link that bears
// their addresses.
type Kernel interface {
	// Servers lists all virtual servers of both families but those by firewall
	// mark, with their destinations. It is ErrNoIPVS where there can be none.
	Servers() ([]*Server, error)
	// Destinations lists those of one virtual server; none if it is not there.
	Destinations(k spec.Key) ([]Destination, error)
	// Timeouts are those of connections.
	Timeouts() (Timeouts, error)
	// Link says whether spec.Link is there, and which addresses it bears but for
	// those that the kernel gives every link. It is ErrLink if there is another
	// device by its name.
	Link() (there bool, addresses []netip.Addr, err error)
	// Do does one operation.
	Do(Op) error
	// Sandbox makes an empty network namespace. It is EPERM without
	// CAP_SYS_ADMIN.
	Sandbox() (Sandbox, error)
}

// Sandbox is a network namespace that ends with Close.
type Sandbox interface {
	// Do calls f in the namespace; programs that f starts run there too.
	Do(f func(Kernel))
	Close()
}

// ErrLink is a device by the name of spec.Link that is not ours.
var ErrLink = errors.New("it is somebody else's: no dummy device")

// ErrNoIPVS is a kernel without IPVS.
var ErrNoIPVS = errors.New("the kernel has no IPVS: modprobe ip_vs")

// Server is a virtual server as the kernel has it.
type Server struct {
	spec.Key
	Scheduler string
	Flags     uint32 // persistence, and the scheduler's
	Timeout   uint32 // of persistence, in seconds
	Netmask   uint32 // of persistence: all ones in IPv4, 128 in IPv6
	// Destinations are sorted by address.
	Destinations []Destination
}

// Destination is a real server as the kernel has it.
type Destination struct {
	Address     netip.AddrPort
	Weight      int
	Method      uint32 // of forwarding; 0 is masquerading
	Connections int    // active and inactive ones
}

// sameService says that both are alike but for their destinations.
func (s *Server) sameService(t *Server) bool {
	return s.Key == t.Key && s.Scheduler == t.Scheduler && s.Flags == t.Flags && s.Timeout == t.Timeout && s.Netmask == t.Netmask
}

// same says that both are alike but for their connections.
func (d Destination) same(e Destination) bool {
	d.Connections, e.Connections = 0, 0
	return d == e
}

// Timeouts of connections, in seconds; 0 for one that is to stay as it is.
type Timeouts struct{ TCP, TCPFin, UDP int }

// over gives t with what is not set taken from u.
func (t Timeouts) over(u Timeouts) Timeouts {
	pick := func(a, b int) int {
		if a > 0 {
			return a
		}
		return b
	}
	return Timeouts{pick(t.TCP, u.TCP), pick(t.TCPFin, u.TCPFin), pick(t.UDP, u.UDP)}
}
