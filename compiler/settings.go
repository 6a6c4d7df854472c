package compiler

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/compiler/resolve"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

// settings merges kube-proxy's defaults, a KubeProxyConfiguration and flags,
// in this order, and checks the result.
type settings struct {
	resolve.Options
	list diag.List
	pos  diag.Pos                   // of the configuration, where a fault can come from it
	at   func(path ...any) diag.Pos // of a field of the configuration

	schedulerAt diag.Pos // of the field that chose it
}

// merge gives the options for resolving. The configuration is the one of
// --config, else the one in the manifests.
func merge(set *manifest.Set, o Options) (resolve.Options, diag.List) {
	s := settings{Options: resolve.NewOptions()}
	s.Families, s.Node = o.Families, o.DefaultNode
	if o.Mode.Facts.BindsAddresses {
		s.Virtual = &resolve.Virtual{Virtual: ir.Virtual{Scheduler: "rr", HairpinLocal: o.Level == 0}, LocalAddrs: o.LocalAddrs}
	}
	switch len(set.ProxyConfigs) {
	case 0:
	case 1:
		s.pos, s.at = set.ProxyConfigs[0].Pos, set.ProxyConfigs[0].At
		s.config(set.ProxyConfigs[0].Value)
		s.otherMode(set.ProxyConfigs[0].Value.Mode, o)
	default:
		d := s.list.Add(diag.BadOption, set.ProxyConfigs[1].Pos, configuration, "two KubeProxyConfigurations are given")
		d.Related = []diag.Related{{Pos: set.ProxyConfigs[0].Pos, Message: "the other one"}}
	}
	s.flags(o.Flags)
	s.check()
	if s.Virtual != nil {
		s.checkLoopback(o.Flags)
	}
	return s.Options, s.list
}

// otherMode warns of a configuration for a mode that nobody has chosen here.
func (s *settings) otherMode(wanted string, o Options) {
	if wanted == "" || wanted == o.Mode.Name || o.ModeGiven {
		return
	}
	d := s.list.Add(diag.OtherMode, s.at("mode"), configuration, "the configuration is for mode %s, but what is made is for mode %s", wanted, o.Mode)
	if mode.Named(wanted) != nil {
		d.Hint = "--mode " + wanted + ", or --mode " + o.Mode.Name + " if that is meant"
	}
}

func (s *settings) fault(format string, args ...any) { s.faultAt(s.pos, format, args...) }

func (s *settings) faultAt(pos diag.Pos, format string, args ...any) {
	s.list.Add(diag.BadOption, pos, configOf(pos), format, args...)
}

const configuration = "KubeProxyConfiguration"

// configOf names the object that a fault at a place is of: none without a place.
func configOf(pos diag.Pos) string {
	if pos.IsZero() {
		return ""
	}
	return configuration
}

func (s *settings) config(c *manifest.ProxyConfig) {
	if c.HostnameOverride != "" {
		s.Node = c.HostnameOverride
	}
	if a, _, err := addr.Parse(c.BindAddress); err == nil && !a.IsUnspecified() {
		s.NodeIPs = append(s.NodeIPs, a)
	}
	s.Detect = resolve.DetectMode(c.DetectLocalMode)
	s.Interface = c.DetectLocal.BridgeInterface
	if s.Detect == resolve.DetectInterfacePrefix {
		s.Interface = c.DetectLocal.InterfaceNamePrefix
	}
	s.clusterCIDR(c.ClusterCIDR)
	s.NodePortAddresses = c.NodePortAddresses
	s.MasqueradeAll = c.IPTables.MasqueradeAll
	set(&s.LocalhostNodePorts, c.IPTables.LocalhostNodePorts)
	if c.IPTables.MasqueradeBit != nil {
		s.MasqueradeBit = int(*c.IPTables.MasqueradeBit)
	}
	s.TCPBeLiberal = c.Conntrack.TCPBeLiberal
	if s.Virtual != nil {
		s.virtualConfig(&c.IPVS)
	}
	if on, given := c.FeatureGates["AllowServiceExternalIPs"]; given {
		s.ExternalIPs = on
	}
}

func (s *settings) flags(f Flags) {
	set(&s.Node, f.Node)
	if f.NodeIPs != nil {
		s.NodeIPs = f.NodeIPs
	}
	if f.Zone != nil {
		s.Zone = f.Zone
	}
	if f.DetectLocalMode != nil {
		s.Detect = resolve.DetectMode(*f.DetectLocalMode)
	}
	set(&s.Interface, f.DetectInterface)
	if f.ClusterCIDR != nil {
		s.ClusterCIDRs = nil
		s.clusterCIDR(*f.ClusterCIDR)
	}
	if f.NodePortAddresses != nil {
		s.NodePortAddresses = f.NodePortAddresses
	}
	set(&s.LocalhostNodePorts, f.LocalhostNodePorts)
	set(&s.MasqueradeAll, f.MasqueradeAll)
	set(&s.MasqueradeBit, f.MasqueradeBit)
	set(&s.TCPBeLiberal, f.TCPBeLiberal)
	if s.Virtual != nil && f.Scheduler != nil {
		s.Virtual.Scheduler, s.schedulerAt = *f.Scheduler, diag.Pos{}
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// clusterCIDR reads one range, or one of each family.
func (s *settings) clusterCIDR(list string) {
	seen := map[ir.Family]bool{}
	for text := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		p, _, err := addr.ParsePrefix(text)
		if err != nil {
			s.fault("cluster CIDR %v", err)
			continue
		}
		if f := ir.FamilyOf(p.Addr()); seen[f] {
			s.fault("cluster CIDR %q has two ranges of %s", list, f)
		} else {
			seen[f] = true
		}
		s.ClusterCIDRs = append(s.ClusterCIDRs, p)
	}
}

// check holds the merged options to what kube-proxy accepts.
func (s *settings) check() {
	if s.MasqueradeBit < 0 || s.MasqueradeBit > 31 {
		s.fault("masquerade bit %d is not within 0 to 31", s.MasqueradeBit)
	}
	s.checkNode()
	switch s.Detect {
	case "", resolve.DetectClusterCIDR, resolve.DetectNodeCIDR:
	case resolve.DetectBridge, resolve.DetectInterfacePrefix:
		if err := checkInterface(s.Interface); err != nil {
			s.fault("detectLocalMode %s: %v", s.Detect, err)
		} else if s.Detect == resolve.DetectInterfacePrefix && len(s.Interface) > 14 {
			s.fault("detectLocalMode %s: prefix %q is longer than 14 bytes, and iptables takes no more before its +", s.Detect, s.Interface)
		}
	default:
		s.fault("detectLocalMode %q is none of ClusterCIDR, NodeCIDR, BridgeInterface, InterfaceNamePrefix", s.Detect)
	}
	s.checkNodePortAddresses()
	if v := s.Virtual; v != nil && !slices.Contains(ir.Schedulers, v.Scheduler) {
		s.faultAt(s.schedulerAt, "scheduler %q is none of %s", v.Scheduler, strings.Join(ir.Schedulers, ", "))
	}
}

// checkNode holds the node's name to what the name of a Node can be: it stands
// in the first line of the ruleset file, where a line break would begin a rule.
func (s *settings) checkNode() {
	name := strings.ToLower(strings.TrimSpace(s.Node))
	if name != "" && len(validation.IsDNS1123Subdomain(name)) > 0 {
		s.fault("node name %q is not a DNS name", s.Node)
	}
}

// checkInterface holds a name to what the kernel and iptables can express:
// 15 bytes, nothing that would end a word, no + of iptables' own.
func checkInterface(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("an interface name or prefix is needed (--detect-local-interface)")
	case len(name) > 15:
		return fmt.Errorf("interface %q is longer than 15 bytes", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/+!\"'\\", r) }):
		return fmt.Errorf("interface %q holds a character that no rule can express", name)
	}
	return nil
}

func (s *settings) checkNodePortAddresses() {
	seen := map[string]bool{}
	for _, text := range s.NodePortAddresses {
		if seen[text] {
			s.fault("nodePortAddresses has %q twice", text)
		}
		seen[text] = true
		if text == "primary" || text == "localhost" || text == "all" {
			continue
		}
		p, _, err := addr.ParsePrefix(text)
		if err != nil {
			s.fault("nodePortAddresses: %v, nor primary, localhost or all", err)
		} else if lo := ir.FamilyOf(p.Addr()).Loopback(); p.Bits() > 0 && p.Bits() < lo.Bits() && p.Overlaps(lo) {
			s.fault("nodePortAddresses: %s holds loopback and other addresses; give them apart", p)
		}
	}
}

// Facts gives a Program without services: what options alone say of a node.
func Facts(o Options, f ir.Family) (*ir.Program, error) {
	set := &manifest.Set{}
	if o.Config != "" {
		var list diag.List
		if set, list = manifest.LoadConfig(o.Config, nil); len(list.Errors()) > 0 {
			return nil, fmt.Errorf("%s", list.Errors()[0])
		}
	}
	options, list := merge(set, o)
	if bad := list.Errors(); len(bad) > 0 {
		return nil, fmt.Errorf("%s", bad[0])
	}
	options.Families = []ir.Family{f}
	programs, _ := resolve.Resolve(set, nil, options)
	return programs[0], nil
}
