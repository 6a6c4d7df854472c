package doctor

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"svcc/apply/iptables"
	"svcc/apply/sums"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// policies looks for chains that drop what nothing accepts.
func policies(x *examination) []Finding {
	var out []Finding
	for _, f := range ir.Families {
		if _, there := x.versions[f]; there {
			out = append(out, x.iptablesPolicy(f))
		}
	}
	return append(out, x.nftPolicies())
}

// iptablesPolicy looks at the policies of the built-in chains of filter.
// KUBE-FORWARD accepts what is masqueraded and what belongs to a known flow, so
// what a DROP in FORWARD catches is the rest.
func (x *examination) iptablesPolicy(f ir.Family) Finding {
	id := "policies." + f.String()
	text, err := x.saved(f, "filter")
	if err != nil {
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: todo(err, "run as root, with CAP_NET_ADMIN")}
	}
	var chains []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(strings.TrimPrefix(line, ":"))
		if strings.HasPrefix(line, ":") && len(fields) > 1 && fields[1] == "DROP" && slices.Contains([]string{"INPUT", "FORWARD", "OUTPUT"}, fields[0]) {
			chains = append(chains, fields[0])
		}
	}
	if len(chains) == 0 {
		return ok(id, "the built-in chains of filter accept by policy")
	}
	tool := iptables.Flavour("")(f, "")
	if x.facts().BindsAddresses {
		return virtualPolicy(id, tool, f, chains)
	}
	return Finding{ID: id, State: Warn, Text: fmt.Sprintf("%s drop by policy: new flows of Services that are not masqueraded, as from pods or with policy Local, pass only where another rule accepts them", strings.Join(chains, ", ")),
		Todo: fmt.Sprintf("accept the pods' addresses in both directions, as with %s -A FORWARD -s POD-CIDR -j ACCEPT, or set the policy: %s -P %s ACCEPT", tool, tool, chains[len(chains)-1])}
}

// virtualPolicy is about IPVS mode. Service addresses are the node's own there:
// what comes for virtual servers passes INPUT, and what they forward OUTPUT; their
// answers, and what rules in nat send to endpoints, pass FORWARD. No rule of
// kube-proxy's or svcc's accepts anything in INPUT or OUTPUT.
func virtualPolicy(id, tool string, f ir.Family, chains []string) Finding {
	var text, todo []string
	for _, c := range chains {
		switch c {
		case "INPUT":
			text = append(text, "INPUT drops by policy, and in IPVS mode what comes for Services passes INPUT and not FORWARD: only what another rule accepts reaches them")
			todo = append(todo, fmt.Sprintf("%s -A INPUT -m set --match-set %s dst -j ACCEPT, and the node ports, or %s -P INPUT ACCEPT", tool, spec.SetName(f, "KUBE-IPVS-IPS"), tool))
		case "OUTPUT":
			text = append(text, "OUTPUT drops by policy, and in IPVS mode what virtual servers forward leaves by OUTPUT")
			todo = append(todo, fmt.Sprintf("%s -A OUTPUT -m ipvs --ipvs -j ACCEPT, or %s -P OUTPUT ACCEPT", tool, tool))
		default:
			text = append(text, "FORWARD drops by policy: answers of Services are accepted, but new flows that nat sends to endpoints, as pods' with external policy Local, only where another rule accepts them")
			todo = append(todo, fmt.Sprintf("%s -A FORWARD -s POD-CIDR -j ACCEPT, or %s -P FORWARD ACCEPT", tool, tool))
		}
	}
	return Finding{ID: id, State: Warn, Text: strings.Join(text, "; "), Todo: strings.Join(todo, "; ")}
}

// nftChain is what "nft -j list chains" says of a chain.
type nftChain struct {
	Family, Table, Name, Hook, Policy string
}

// nftPolicies looks at base chains of nftables beside those of iptables-nft. A
// packet must pass every one: an accept in one table does not help in another.
func (x *examination) nftPolicies() Finding {
	const id = "policies.nftables"
	if sums.Idle(x.Root, "nf_tables") {
		return ok(id, "the kernel's nf_tables is not loaded: no table of nftables drops anything")
	}
	text, err := x.run("nft", "-j", "list", "chains")
	switch {
	case absent(err):
		return Finding{ID: id, State: Unknown, Text: "the program nft is not there: chains of other nftables tables cannot be seen", Todo: "install the package nftables"}
	case err != nil:
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: todo(err, "run as root, with CAP_NET_ADMIN")}
	}
	chains, err := droppingChains(text)
	if err != nil {
		return Finding{ID: id, State: Unknown, Text: "nft -j list chains: " + err.Error(), Todo: "look at \"nft list ruleset\" for chains with \"policy drop\""}
	}
	if len(chains) == 0 {
		return ok(id, "no other table of nftables drops by policy")
	}
	todo := "accept there what Services need: in forward the pods' and Services' flows, in input the node ports; see who owns the table (firewalld, nftables.service)"
	if x.facts().BindsAddresses {
		todo = "accept there what Services need: in IPVS mode all that comes for them passes input and leaves by output, and answers pass forward; see who owns the table (firewalld, nftables.service)"
	}
	return Finding{ID: id, State: Warn, Text: "these drop by policy what no rule of their own accepts, whatever iptables accepts: " + strings.Join(chains, ", "),
		Todo: todo}
}

func droppingChains(text string) ([]string, error) {
	var list struct {
		Nftables []struct{ Chain *nftChain }
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	var out []string
	for _, item := range list.Nftables {
		if c := item.Chain; c != nil && c.Policy == "drop" && !c.iptables() {
			out = append(out, fmt.Sprintf("%s %s %s (hook %s)", c.Family, c.Table, c.Name, c.Hook))
		}
	}
	return out, nil
}

// iptables says that the chain is one of iptables-nft's, which are looked at by
// its own tool.
func (c nftChain) iptables() bool {
	return (c.Family == "ip" || c.Family == "ip6") && slices.Contains([]string{"filter", "nat", "mangle", "raw", "security"}, c.Table) && c.Name == strings.ToUpper(c.Name)
}
