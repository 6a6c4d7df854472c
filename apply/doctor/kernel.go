package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"svcc/apply"
	"svcc/apply/conntrack"
	"svcc/apply/iptables"
	"svcc/apply/sums"
	"svcc/ir"
)

// feature is a kind of rule that svcc writes.
type feature struct {
	name, table, rule, module string
}

// features are all matches and targets that rules have, one rule each. %s is an
// address of the family; modules are those of iptables-legacy.
var features = []feature{
	{"comment", "filter", "-m comment --comment probe", "xt_comment"},
	{"conntrack", "filter", "-m conntrack --ctstate INVALID", "xt_conntrack, nf_conntrack"},
	{"addrtype", "filter", "-m addrtype --dst-type LOCAL", "xt_addrtype"},
	{"statistic", "filter", "-m statistic --mode random --probability 0.5", "xt_statistic"},
	{"recent", "filter", "-m recent --name SVCC-PROBE --rcheck --seconds 5 --reap", "xt_recent"},
	{"mark", "filter", "-m mark --mark 0x4000/0x4000", "xt_mark"},
	{"MARK", "nat", "-j MARK --or-mark 0x4000", "xt_mark"},
	{"REJECT", "filter", "-p tcp -j REJECT", "ipt_REJECT, ip6t_REJECT"},
	{"DNAT", "nat", "-p tcp -j DNAT --to-destination %s", "xt_nat, iptable_nat, ip6table_nat"},
	{"MASQUERADE", "nat", "-j MASQUERADE --random-fully", "xt_MASQUERADE, iptable_nat, ip6table_nat"},
}

// text is the restore input that loads only this feature.
func (t feature) text(f ir.Family) string {
	to := "192.0.2.1:80"
	if f == ir.IPv6 {
		to = "[2001:db8::1]:80"
	}
	return fmt.Sprintf("*%s\n:SVCC-PROBE - [0:0]\n-A SVCC-PROBE %s\nCOMMIT\n", t.table, strings.ReplaceAll(t.rule, "%s", to))
}

// kernel loads each feature in a namespace of its own.
func kernel(x *examination) []Finding {
	var out []Finding
	for _, f := range ir.Families {
		if f == ir.IPv6 && !x.hasIPv6() {
			out = append(out, x.noIPv6())
			continue
		}
		out = append(out, x.features(f)...)
	}
	return out
}

func (x *examination) hasIPv6() bool {
	_, err := os.Stat(x.path("proc/thread-self/net/if_inet6"))
	return err == nil
}

func (x *examination) noIPv6() Finding {
	if x.Programs != nil && x.wants(ir.IPv6) {
		return Finding{ID: "kernel.ipv6", State: Fail, Text: "the kernel has no IPv6, and Services have IPv6 addresses", Todo: "boot without ipv6.disable=1"}
	}
	return ok("kernel.ipv6", "the kernel has no IPv6: nothing to look at")
}

func (x *examination) features(f ir.Family) []Finding {
	id := "kernel." + f.String()
	v, there := x.versions[f]
	if !there {
		bad := Unknown
		if !x.wants(f) {
			bad = Warn // no rule of this family will be loaded
		}
		return one(id, bad, "without "+iptables.Flavour("")(f, "")+" no rule can be tried", "see tools."+f.String())
	}
	tried := slices.DeleteFunc(slices.Clone(features), func(t feature) bool { return x.idle(t.module, f, v.NFT) != "" })
	together := x.try(f, tried...)
	if errors.Is(together, syscall.EPERM) {
		return one(id, Unknown, "rules cannot be tried: no network namespace can be made", "run as root, with CAP_SYS_ADMIN")
	}
	var out []Finding
	for _, t := range features {
		if m := x.idle(t.module, f, v.NFT); m != "" {
			out = append(out, ok(id+"."+t.name, "the module "+m+" is not loaded yet; svcc apply has it loaded"))
			continue
		}
		err := together
		if err != nil { // which one is it?
			err = x.try(f, t)
		}
		out = append(out, x.featureFound(id+"."+t.name, f, t, v, err))
	}
	return out
}

// idle gives the first of the modules for a family that is there to be loaded and is
// not: to try what it does would load it.
func (x *examination) idle(modules string, f ir.Family, nft bool) string {
	other := map[ir.Family]string{ir.IPv4: "ip6", ir.IPv6: "ipt"}[f]
	if nft {
		modules += ", nf_tables, nft_compat"
	}
	for m := range strings.SplitSeq(modules, ", ") {
		if !strings.HasPrefix(m, other) && !(nft && strings.Contains(m, "table_")) && sums.Idle(x.Root, m) {
			return m
		}
	}
	return ""
}

func (x *examination) featureFound(id string, f ir.Family, t feature, v iptables.Version, err error) Finding {
	if err == nil {
		return ok(id, "rules with "+t.name+" can be loaded")
	}
	modules := t.module
	if v.NFT {
		modules += "; for iptables-nft also nft_compat, nft_chain_nat"
	}
	return Finding{ID: id, State: x.severity(f), Text: fmt.Sprintf("rules with %s cannot be loaded: %s", t.name, oneLine(err.Error())),
		Todo: "load the kernel's module, or have one built: " + modules}
}

// try loads some features. The namespace ends with the tool.
func (x *examination) try(f ir.Family, some ...feature) error {
	var text strings.Builder
	for _, t := range some {
		text.WriteString(t.text(f))
	}
	_, err := x.Runner.Run(x.ctx, apply.Input{Tool: iptables.Flavour("")(f, "restore"), Args: []string{"--noflush"}, Stdin: []byte(text.String()), Isolated: true})
	return err
}

// flowTable asks for the table of connections.
func flowTable(x *examination) []Finding {
	if sums.Idle(x.Root, "nf_conntrack_netlink") {
		return []Finding{ok("conntrack", "the module nf_conntrack_netlink is not loaded yet; svcc apply loads it")}
	}
	available := x.Flows
	if available == nil {
		available = conntrack.Available
	}
	switch err := available(); {
	case err == nil:
		return []Finding{ok("conntrack", "the kernel's table of connections can be asked")}
	case errors.Is(err, syscall.EPERM):
		return one("conntrack", Unknown, "the table of connections may not be asked", "run as root, with CAP_NET_ADMIN")
	default:
		return one("conntrack", Warn, "stale UDP flows cannot be deleted: "+oneLine(err.Error()), "load the module nf_conntrack_netlink, or apply with --conntrack=off")
	}
}
