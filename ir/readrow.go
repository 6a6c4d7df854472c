package ir

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// blockRows are the rows of a service port's block, in their order. Those of
// frontends may come again.
var blockRows = []struct {
	key    string
	repeat bool
	read   func(r *reader, value string) error
}{
	{ClusterIP.String(), true, func(r *reader, v string) error { return r.frontend(ClusterIP, v) }},
	{ExternalIP.String(), true, func(r *reader, v string) error { return r.frontend(ExternalIP, v) }},
	{LoadBalancer.String(), true, func(r *reader, v string) error { return r.frontend(LoadBalancer, v) }},
	{NodePort.String(), true, func(r *reader, v string) error { return r.frontend(NodePort, v) }},
	{"internal", false, func(r *reader, v string) error { return r.policy(&r.s.InternalPolicy, internal, v) }},
	{"external", false, func(r *reader, v string) error { return r.policy(&r.s.ExternalPolicy, external, v) }},
	{"endpoints", false, (*reader).endpoints},
	{"also serving", false, func(r *reader, v string) (err error) { r.extra, err = readAddrPorts(v); return err }},
	{"not serving", false, func(r *reader, v string) (err error) { r.dead, err = readAddrPorts(v); return err }},
	{"affinity", false, (*reader).affinity},
	{"scheduler", false, func(r *reader, v string) error { r.s.Scheduler = v; return nil }},
	{"health-check", false, (*reader).healthCheck},
}

// keyWidth is the column at which a row's key ends.
const keyWidth = 13

// row reads one line of a block, without its indentation.
func (r *reader) row(line string) error {
	if r.s == nil {
		return errors.New("a row before the first service port")
	}
	if len(line) < keyWidth+2 || line[keyWidth] != ' ' {
		return fmt.Errorf("%q is no row of a service port", clip(line))
	}
	key := strings.TrimRight(line[:keyWidth], " ")
	for i, row := range blockRows {
		if row.key != key {
			continue
		}
		if i+1 < r.rank || i+1 == r.rank && !row.repeat {
			return fmt.Errorf("row %q comes too late, or again", key)
		}
		r.rank = i + 1
		return row.read(r, line[keyWidth+1:])
	}
	return fmt.Errorf("row %q is unknown", clip(key))
}

// frontend reads "DESTINATION policy POLICY[  from RANGES[ and the node]]".
func (r *reader) frontend(k FrontendKind, text string) error {
	fields := strings.Fields(text)
	if len(fields) < 3 || fields[1] != "policy" {
		return fmt.Errorf("%q is no frontend with its policy", clip(text))
	}
	f, err := readDestination(k, fields[0])
	if err != nil {
		return err
	}
	p, err := readPolicy(fields[2])
	if err != nil {
		return err
	}
	of, same := &r.s.InternalPolicy, internal
	if k != ClusterIP {
		of, same = &r.s.ExternalPolicy, external
	}
	if r.s.has(same) && *of != p {
		return fmt.Errorf("policy %s, but %s in a row before", p, *of)
	}
	*of = p
	if err := r.sources(k, fields[3:]); err != nil {
		return err
	}
	r.s.Frontends = append(r.s.Frontends, f)
	return nil
}

// sources reads source ranges, which are the same for each load-balancer row.
func (r *reader) sources(k FrontendKind, fields []string) error {
	var ranges []netip.Prefix
	node := false
	if n := len(fields) - 3; n > 1 && slices.Equal(fields[n:], []string{"and", "the", "node"}) {
		node, fields = true, fields[:n]
	}
	if len(fields) > 0 && (fields[0] != "from" || len(fields) < 2 || k != LoadBalancer) {
		return fmt.Errorf("%q does not belong after the policy", clip(fields[0]))
	}
	for _, x := range fields[min(1, len(fields)):] {
		p, err := netip.ParsePrefix(x)
		if err != nil {
			return err
		}
		ranges = append(ranges, p)
	}
	if k != LoadBalancer {
		return nil
	}
	before := r.s.has(func(f Frontend) bool { return f.Kind == LoadBalancer })
	if before && (node != r.s.NodeAllowed || !slices.Equal(ranges, r.s.SourceRanges)) {
		return errors.New("other source ranges than in a row before")
	}
	r.s.SourceRanges, r.s.NodeAllowed = ranges, node
	return nil
}

func readDestination(k FrontendKind, s string) (Frontend, error) {
	if k == NodePort {
		n, err := readNumber(s, 65535)
		return Frontend{Kind: k, Port: uint16(n)}, err
	}
	a, err := readAddrPort(s)
	return Frontend{Kind: k, Addr: a.Addr(), Port: a.Port()}, err
}

func readAddrPort(s string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(s)
	if err != nil || a.Addr().Zone() != "" {
		return a, fmt.Errorf("%q is no address and port", clip(s))
	}
	return a, nil
}

func readAddrPorts(text string) (out []netip.AddrPort, err error) {
	for s := range strings.SplitSeq(text, " ") {
		a, err := readAddrPort(s)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

func readPolicy(s string) (Policy, error) {
	for _, p := range []Policy{Cluster, Local} {
		if s == p.String() {
			return p, nil
		}
	}
	return 0, fmt.Errorf("policy %q is neither cluster nor local", clip(s))
}

// policy reads one that no frontend shows.
func (r *reader) policy(of *Policy, shown func(Frontend) bool, text string) error {
	if r.s.has(shown) {
		return errors.New("a policy that a frontend has shown already")
	}
	name, ok := strings.CutPrefix(text, "policy ")
	if !ok {
		return fmt.Errorf("%q is no policy", clip(text))
	}
	var err error
	*of, err = readPolicy(name)
	return err
}

// endpoints reads a list with tags; lists sorts it out.
func (r *reader) endpoints(text string) error {
	switch text {
	case "none here":
		r.s.Usable = true
		return nil
	case "none":
		return nil
	}
	r.s.Usable = true
	for item := range strings.SplitSeq(text, ", ") {
		where, tag, _ := strings.Cut(item, " ")
		a, err := readAddrPort(where)
		if err != nil {
			return err
		}
		switch tag {
		case "", tagLocal, tagLocalOnly, tagClusterOnly:
		default:
			return fmt.Errorf("%q is no kind of endpoint", clip(tag))
		}
		r.all = append(r.all, Endpoint{Addr: a.Addr(), Port: a.Port(), Local: tag != ""})
		r.tags = append(r.tags, tag)
	}
	return nil
}

func (r *reader) affinity(text string) error {
	seconds, ok := strings.CutSuffix(text, " s")
	if !ok {
		return fmt.Errorf("%q is no number of seconds", clip(text))
	}
	var err error
	r.s.AffinitySeconds, err = readNumber(seconds, 1<<31-1)
	return err
}

func (r *reader) healthCheck(text string) error {
	n, err := readNumber(text, 65535)
	r.s.HealthCheckNodePort = uint16(n)
	return err
}
