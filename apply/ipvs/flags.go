package ipvs

import (
	"encoding/binary"
	"fmt"
	"slices"

	spec "svcc/emit/ipvs"
)

// The kernel's flags of a virtual server (linux/ip_vs.h). The scheduler's have
// names of their own in ipvsadm for those that give them a meaning.
const (
	flagPersistent = 0x01
	flagHashed     = 0x02 // the kernel's own
	methodMask     = 0x07 // of a destination's flags
)

var schedulerFlags = []struct {
	bit              uint32
	hashing, another string // names for sh and mh, and for the rest
}{
	{0x08, "fallback", "flag-1"},
	{0x10, "port", "flag-2"},
	{0x20, "", "flag-3"},
}

// flagName is how ipvsadm spells a flag for a scheduler.
func flagName(scheduler string, i int) string {
	f := schedulerFlags[i]
	if (scheduler == "sh" || scheduler == "mh") && f.hashing != "" {
		return scheduler + "-" + f.hashing
	}
	return f.another
}

// flagNames spells the scheduler's flags, sorted.
func flagNames(scheduler string, flags uint32) []string {
	var out []string
	for i, f := range schedulerFlags {
		if flags&f.bit != 0 {
			out = append(out, flagName(scheduler, i))
		}
	}
	slices.Sort(out)
	return out
}

// flagBits reads what flagNames spelt; ipvsadm takes the numbered names with any
// scheduler.
func flagBits(scheduler string, names []string) (uint32, error) {
	var out uint32
	for _, name := range names {
		i := slices.IndexFunc([]int{0, 1, 2}, func(i int) bool {
			return name == flagName(scheduler, i) || name == schedulerFlags[i].another
		})
		if i < 0 {
			return 0, fmt.Errorf("scheduler %s has no flag %s", scheduler, name)
		}
		out |= schedulerFlags[i].bit
	}
	return out, nil
}

// netmask is that of persistence by single clients.
func netmask(k spec.Key) uint32 {
	if k.Address.Addr().Is6() {
		return 128
	}
	return 0xffffffff
}

// inNetworkOrder gives the bytes of a netmask as the kernel keeps them.
func inNetworkOrder(mask uint32) (out [4]byte) {
	binary.NativeEndian.PutUint32(out[:], mask)
	return out
}

// wantedServer is a virtual server as a ruleset has it, in the kernel's terms.
func wantedServer(v *spec.Server) (*Server, error) {
	bits, err := flagBits(v.Scheduler, v.Flags)
	if err != nil {
		return nil, fmt.Errorf("virtual server %s: %w", v.Key, err)
	}
	s := &Server{Key: v.Key, Scheduler: v.Scheduler, Flags: bits, Netmask: netmask(v.Key)}
	if v.Timeout > 0 {
		s.Flags |= flagPersistent
		s.Timeout = uint32(v.Timeout)
	}
	for _, d := range v.Destinations {
		s.Destinations = append(s.Destinations, Destination{Address: d.Address, Weight: d.Weight})
	}
	return s, nil
}
