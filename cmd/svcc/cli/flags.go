package cli

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"svcc/compiler"
	"svcc/compiler/addr"
	"svcc/compiler/passes"
	"svcc/emit/mode"
	"svcc/ir"
)

// compileFlags are the flags of every command that compiles.
type compileFlags struct {
	o        compiler.Options
	modeName string
	hooks    string
	families []string
	nodeIPs  []string
	cidrs    []string
	skip     []string
	flags    *pflag.FlagSet

	node, zone, detect, iface   string
	clusterCIDRs, nodePorts     []string
	scheduler                   string
	localhost, masqAll, liberal bool
	masqBit                     int
}

func (c *compileFlags) register(f *pflag.FlagSet) {
	c.o = compiler.NewOptions()
	c.flags = f
	f.StringVar(&c.modeName, "mode", mode.Default.Name, "what to program: "+mode.Names())
	f.IntVarP(&c.o.Level, "optimize", "O", c.o.Level, "0: the layout that kube-proxy writes; 1: fast, with stable names and small diffs; 2: faster still, for no reader")
	f.StringVar(&c.hooks, "hooks", "yes", "yes: with the jumps from built-in chains, for plain iptables-restore; no: without them, for iptables-restore --noflush")
	f.StringSliceVar(&c.families, "families", nil, "ipv4, ipv6 (default: those in which some Service has a cluster IP)")
	f.StringVar(&c.o.Config, "config", "", "a KubeProxyConfiguration file; flags win over it")
	f.BoolVar(&c.o.Endpoints, "endpoints", false, "also read core/v1 Endpoints, where a Service has no EndpointSlice")
	f.BoolVar(&c.o.Strict, "strict", false, "make errors of what is only suspicious")
	f.BoolVar(&c.o.KeepGoing, "keep-going", false, "leave faulty Services out instead of giving up")
	f.BoolVar(&c.o.NoProof, "no-proof", false, "do not prove the rules against the manifests")
	f.StringSliceVar(&c.skip, "passes", nil, "turn passes off: -NAME,-NAME (svcc passes lists them)")
	f.StringSliceVar(&c.cidrs, "service-cidr", nil, "ranges of cluster IPs, beside ServiceCIDR objects")
	c.registerNode(f)
}

func (c *compileFlags) registerNode(f *pflag.FlagSet) {
	f.StringVar(&c.node, "node", "", "the node to compile for; its Node object is looked up")
	f.StringSliceVar(&c.nodeIPs, "node-ip", nil, "the node's addresses, one a family")
	f.StringVar(&c.zone, "zone", "", "the node's zone")
	f.StringSliceVar(&c.clusterCIDRs, "cluster-cidr", nil, "pod CIDRs of the cluster, one per IP family")
	f.StringVar(&c.detect, "detect-local-mode", "", "how pods of this node are recognised: ClusterCIDR (default), NodeCIDR, BridgeInterface, InterfaceNamePrefix")
	f.StringVar(&c.iface, "detect-local-interface", "", "the bridge, or the prefix of interface names")
	f.StringSliceVar(&c.nodePorts, "nodeport-addresses", nil, "where node ports answer: CIDRs, primary, localhost, all (default all)")
	f.BoolVar(&c.localhost, "localhost-nodeports", true, "node ports answer at 127.0.0.1")
	f.BoolVar(&c.masqAll, "masquerade-all", false, "masquerade every ClusterIP connection")
	f.IntVar(&c.masqBit, "masquerade-bit", 14, "the bit of the packet mark to use, 0 to 31")
	f.StringVar(&c.scheduler, "scheduler", "rr", "of virtual servers, in ipvs mode: "+strings.Join(ir.Schedulers, ", "))
	f.BoolVar(&c.liberal, "tcp-be-liberal", false, "nf_conntrack_tcp_be_liberal is on: do not drop what conntrack calls invalid")
}

// options gives what the flags say, with relative paths taken from dir.
func (c *compileFlags) options(paths []string, dir string) (compiler.Options, error) {
	o := c.o
	if o.Level < 0 || o.Level > 2 {
		return o, fmt.Errorf("-O %d does not exist: 0, 1 and 2 do", o.Level)
	}
	var err error
	if o.Mode, err = modeNamed(c.modeName); err != nil {
		return o, err
	}
	o.ModeGiven = c.flags.Changed("mode")
	switch c.hooks {
	case "yes", "no":
		o.Hooks = c.hooks == "yes"
	default:
		return o, fmt.Errorf("--hooks %q is neither yes nor no", c.hooks)
	}
	for _, s := range c.skip {
		name, minus := strings.CutPrefix(s, "-")
		if !minus {
			return o, fmt.Errorf("--passes %q: passes can only be turned off, as in --passes=-NAME", s)
		}
		o.SkipPasses = append(o.SkipPasses, name)
	}
	if _, err := passes.Select(passes.Table, o.Level, o.SkipPasses); err != nil {
		return o, fmt.Errorf("--passes: %w", err)
	}
	for _, p := range paths {
		o.Paths = append(o.Paths, within(dir, p))
	}
	if o.Config != "" {
		o.Config = within(dir, o.Config)
	}
	return o, c.addresses(&o)
}

func modeNamed(name string) (*mode.Mode, error) {
	m := mode.Named(name)
	if m == nil {
		return nil, fmt.Errorf("--mode %q is none of %s", name, mode.Names())
	}
	return m, nil
}

// within takes a relative path from dir, if there is one.
func within(dir, path string) string {
	if dir == "" || path == "-" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// addresses reads families, addresses and ranges, and what was set of the rest.
func (c *compileFlags) addresses(o *compiler.Options) error {
	for _, s := range c.families {
		f, err := ir.ParseFamily(strings.ToLower(strings.TrimSpace(s)))
		if err != nil {
			return fmt.Errorf("--families: %w", err)
		}
		if !slices.Contains(o.Families, f) {
			o.Families = append(o.Families, f)
		}
	}
	var err error
	if o.Flags.NodeIPs, err = parseNodeIPs(c.nodeIPs); err != nil {
		return err
	}
	for _, s := range c.cidrs {
		p, _, err := addr.ParsePrefix(s)
		if err != nil {
			return fmt.Errorf("--service-cidr: %w", err)
		}
		o.ServiceCIDRs = append(o.ServiceCIDRs, p)
	}
	c.given(&o.Flags)
	return nil
}

func parseNodeIPs(list []string) ([]netip.Addr, error) {
	var out []netip.Addr
	seen := map[ir.Family]bool{}
	for _, s := range list {
		a, _, err := addr.Parse(strings.TrimSpace(s))
		if err != nil {
			return nil, fmt.Errorf("--node-ip: %w", err)
		}
		if a.IsUnspecified() || a.IsLoopback() || a.IsMulticast() {
			return nil, fmt.Errorf("--node-ip %s is no address of a node: others could not reach it there", a)
		}
		if f := ir.FamilyOf(a); seen[f] {
			return nil, fmt.Errorf("--node-ip has two addresses of %s", f)
		} else {
			seen[f] = true
		}
		out = append(out, a)
	}
	return out, nil
}

// given hands on the flags that were set: only they win over a configuration.
func (c *compileFlags) given(f *compiler.Flags) {
	f.Node = given(c.flags, "node", &c.node)
	f.Zone = given(c.flags, "zone", &c.zone)
	f.DetectLocalMode = given(c.flags, "detect-local-mode", &c.detect)
	f.DetectInterface = given(c.flags, "detect-local-interface", &c.iface)
	if c.flags.Changed("cluster-cidr") {
		list := strings.Join(c.clusterCIDRs, ",")
		f.ClusterCIDR = &list
	}
	f.LocalhostNodePorts = given(c.flags, "localhost-nodeports", &c.localhost)
	f.MasqueradeAll = given(c.flags, "masquerade-all", &c.masqAll)
	f.MasqueradeBit = given(c.flags, "masquerade-bit", &c.masqBit)
	f.TCPBeLiberal = given(c.flags, "tcp-be-liberal", &c.liberal)
	f.Scheduler = given(c.flags, "scheduler", &c.scheduler)
	if c.flags.Changed("nodeport-addresses") {
		f.NodePortAddresses = append([]string{}, c.nodePorts...)
	}
}

func given[T any](f *pflag.FlagSet, name string, value *T) *T {
	if f.Changed(name) {
		return value
	}
	return nil
}

// BuildOptions reads the flags and paths of svcc build, relative ones from dir.
func BuildOptions(args []string, dir string) (compiler.Options, error) {
	cmd := &cobra.Command{}
	var c compileFlags
	c.register(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		return compiler.Options{}, err
	}
	return c.options(cmd.Flags().Args(), dir)
}
