package conntrack

import (
	"fmt"
	"net/netip"

	"svcc/ir"
)

// Entry is one tracked flow: the packet that began it, and the packet that
// would answer it. After DNAT the reply comes from the endpoint.
type Entry struct {
	Protocol           ir.Protocol
	Src, Dst           netip.AddrPort // as the first packet had them
	ReplySrc, ReplyDst netip.AddrPort // as an answer has them
	Zone               uint16         // rules of Services act in zone 0
	ID                 uint32         // the kernel's number for this very entry
}

// String shows both directions, for reports.
func (e Entry) String() string {
	return fmt.Sprintf("%s %s -> %s, answered by %s", e.Protocol, e.Src, e.Dst, e.ReplySrc)
}

// translated says that the destination was rewritten.
func (e Entry) translated() bool { return e.ReplySrc != e.Dst }
