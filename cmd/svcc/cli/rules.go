package cli

import (
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"svcc/compiler"
	"svcc/emit"
	"svcc/emit/ipvs"
	"svcc/emit/mode"
	"svcc/ir"
)

// rules are a ruleset file, or what a node said that it has.
type rules struct {
	mode      *mode.Mode
	walkers   map[ir.Family]emit.Walker
	ruleset   *emit.Ruleset // nil for a dump
	programs  []*ir.Program // of a ruleset
	kubeProxy bool          // of IPVS mode, and not svcc's
	// served are addresses of a dump's virtual servers that kube-ipvs0 does not
	// bear: what is served there is served at an address of the node.
	served []netip.Addr
	// missing says of a dump's families which table they lack that Services need.
	missing map[ir.Family]error
}

// readRules reads a ruleset file or a dump.
func readRules(path string, stdin io.Reader) (*rules, error) {
	var text []byte
	var err error
	if path == "-" {
		text, err = io.ReadAll(stdin)
	} else {
		text, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	return parseRules(path, text)
}

// parseRules parses each family's sections. The mode is a ruleset's own, or the
// one that a dump's content tells.
func parseRules(path string, text []byte) (*rules, error) {
	sections, ruleset, err := emit.ReadRules(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := &rules{mode: mode.OfDump(sections), walkers: map[ir.Family]emit.Walker{}, ruleset: ruleset, missing: map[ir.Family]error{}}
	hooked := true
	switch {
	case ruleset != nil:
		r.mode, hooked = mode.Named(ruleset.Head.Mode), ruleset.Head.Hooks
		if r.programs, err = ruleset.ReadPrograms(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r.mode == nil {
			return nil, fmt.Errorf("%s: rules of mode %q cannot be read", path, ruleset.Head.Mode)
		}
	case r.mode.Facts.BindsAddresses:
		r.kubeProxy = !ipvs.Ours(text)
	}
	for _, f := range ir.Families {
		own, err := sectionsOf(sections, f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(own) == 0 {
			continue
		}
		for _, s := range own {
			r.missing[f] = cmp.Or(r.missing[f], emit.MissingTable(s))
		}
		if r.mode.Facts.BindsAddresses && ruleset == nil {
			r.served = append(r.served, servedElsewhere(f, own)...)
		}
		if r.walkers[f], err = r.mode.Backend.Parse(f, own, hooked); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, f, err)
		}
	}
	return r, nil
}

// servedElsewhere are the addresses that have virtual servers and are not on the
// link. What is wrong with the sections is for the backend to say.
func servedElsewhere(f ir.Family, sections []emit.Section) (out []netip.Addr) {
	s, err := ipvs.ReadState(f, sections)
	if err != nil {
		return nil
	}
	for _, v := range s.Servers {
		if a := v.Address.Addr(); !slices.Contains(out, a) && !slices.Contains(s.Addresses, a) {
			out = append(out, a)
		}
	}
	return out
}

// sectionsOf are a family's, each tool's once: which of two is loaded depends on
// the tool.
func sectionsOf(list []emit.Section, f ir.Family) (out []emit.Section, err error) {
	seen := map[string]bool{}
	for _, s := range list {
		if s.Family != f {
			continue
		}
		if seen[s.Tool] {
			return nil, fmt.Errorf("two sections for %s of %s", f, s.Tool)
		}
		seen[s.Tool] = true
		out = append(out, s)
	}
	return out, nil
}

// as has manifests compiled as rules were made, where no flag says otherwise: in
// their mode and, in IPVS mode, for the addresses that the node is known to have
// and at the level at which svcc promises what they do. kube-proxy's promise no
// more than level 0, and let through what conntrack calls invalid.
func (c *compileFlags) as(o *compiler.Options, r *rules) {
	if !c.flags.Changed("mode") {
		o.Mode, o.ModeGiven = r.mode, true
	}
	if !o.Mode.Facts.BindsAddresses {
		return
	}
	o.LocalAddrs = r.own()
	switch {
	case c.flags.Changed("optimize"):
	case r.ruleset != nil:
		o.Level = r.ruleset.Head.Level
	case r.kubeProxy:
		o.Level = 0
	}
	if r.kubeProxy && o.Flags.TCPBeLiberal == nil {
		liberal := true
		o.Flags.TCPBeLiberal = &liberal
	}
}

// nodeOf has manifests compiled for the node that a ruleset file is for, and
// refuses to hold it to those of another.
func (c *compileFlags) nodeOf(o *compiler.Options, r *rules, path string) error {
	if r.ruleset == nil || r.ruleset.Head.Node == "" {
		return nil
	}
	node := r.ruleset.Head.Node
	if asked := strings.ToLower(strings.TrimSpace(c.node)); asked != "" && asked != node {
		return fmt.Errorf("%s is for node %q, not %q (--node %s, if they are the same)", path, node, asked, node)
	}
	o.DefaultNode = node
	return nil
}

// own are the addresses of the node's interfaces, as far as rules tell them.
func (r *rules) own() (out []netip.Addr) {
	for _, p := range r.programs {
		out = append(out, p.Options.Own()...)
	}
	return out
}

// facts are what a ruleset and the flags, which win, say of the node.
func (r *rules) facts(o compiler.Options, f ir.Family) (*ir.Program, error) {
	o.Mode, o.LocalAddrs = r.mode, r.served
	for _, p := range r.programs {
		if p.Family != f {
			continue
		}
		o.LocalAddrs = p.Options.Own()
		podsAs(&o, r.programs)
		if o.DefaultNode = p.Node.Name; o.Flags.NodeIPs == nil && o.Flags.Node == nil && o.Config == "" && p.Node.IP.IsValid() {
			o.Flags.NodeIPs = []netip.Addr{p.Node.IP}
		}
	}
	return compiler.Facts(o, f)
}

// podsAs takes from Programs how pods are told from others, where a range does
// and nothing else says.
func podsAs(o *compiler.Options, programs []*ir.Program) {
	var pods []string
	for _, p := range programs {
		if p.Options.Pods.Kind == ir.DetectCIDR {
			pods = append(pods, p.Options.Pods.Prefix.String())
		}
	}
	if f := &o.Flags; f.ClusterCIDR == nil && f.DetectLocalMode == nil && o.Config == "" && len(pods) > 0 {
		list := strings.Join(pods, ",")
		f.ClusterCIDR = &list
	}
}
