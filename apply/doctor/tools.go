package doctor

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"svcc/apply/iptables"
	"svcc/apply/sums"
	"svcc/ir"
)

const install = "install the package iptables"

// tools looks for the programs and at what they say of themselves.
func tools(x *examination) []Finding {
	var out []Finding
	for _, f := range ir.Families {
		out = append(out, x.toolsOf(f))
	}
	v4, v6 := x.versions[ir.IPv4], x.versions[ir.IPv6]
	if len(x.versions) == 2 && v4.NFT != v6.NFT {
		out = append(out, Finding{ID: "tools.flavour", State: Fail,
			Text: fmt.Sprintf("iptables is %s, ip6tables is %s", v4, v6),
			Todo: "make both the same, as with update-alternatives --config ip6tables"})
	}
	return out
}

func (x *examination) toolsOf(f ir.Family) Finding {
	id := "tools." + f.String()
	command := iptables.Flavour("")
	var v iptables.Version
	for _, verb := range []string{"save", "restore", ""} {
		text, err := x.run(command(f, verb), "--version")
		if verb != "" && !absent(err) {
			continue // older ones do not tell
		}
		if absent(err) {
			return Finding{ID: id, State: x.severity(f), Text: "the program " + command(f, verb) + " is not there", Todo: install}
		}
		if err != nil {
			return Finding{ID: id, State: x.severity(f), Text: oneLine(err.Error()), Todo: todo(err, install)}
		}
		if v, err = iptables.ParseVersion(text); err != nil {
			return Finding{ID: id, State: Unknown, Text: err.Error(), Todo: install}
		}
	}
	x.versions[f] = v
	return judgeVersion(id, fmt.Sprintf("%s %s", command(f, ""), v), v)
}

// judgeVersion knows the versions with which rules go wrong.
func judgeVersion(id, name string, v iptables.Version) Finding {
	old := func(major, minor, patch int) bool {
		if v.Major != major {
			return v.Major < major
		}
		return v.Minor < minor || v.Minor == minor && v.Patch < patch
	}
	switch {
	case old(1, 6, 2):
		return Finding{ID: id, State: Fail, Text: name + " knows neither -w nor --random-fully", Todo: "install iptables 1.6.2 or later"}
	case v.NFT && old(1, 8, 3):
		return Finding{ID: id, State: Fail, Text: name + " misplaces inserted rules and does not find rules that it made", Todo: "install iptables 1.8.3 or later, or choose iptables-legacy"}
	case v.NFT && v.Major == 1 && v.Minor == 8 && v.Patch == 8:
		return Finding{ID: id, State: Warn, Text: name + " writes mark matches that other versions read as no match at all (kubernetes#112477)",
			Todo: "install another version, the same on the host and in all containers that touch its rules"}
	}
	return ok(id, name)
}

// flavours looks for rules of ours or kube-proxy's in the flavour that the
// tools do not write.
func flavours(x *examination) []Finding {
	var out []Finding
	for _, f := range ir.Families {
		if v, there := x.versions[f]; there {
			out = append(out, x.otherFlavour(f, v))
		}
	}
	if len(out) == 0 {
		return one("flavours", Unknown, "there is no iptables whose flavour is known", "see tools above")
	}
	return out
}

// noNFT is what iptables-nft says where the kernel has no nf_tables.
const noNFT = "Could not fetch rule set generation id: Invalid argument"

func (x *examination) otherFlavour(f ir.Family, v iptables.Version) Finding {
	id, other := "flavours."+f.String(), "nft"
	if v.NFT {
		other = "legacy"
		if names := x.legacyTables(f); names == "" {
			return ok(id, "iptables-legacy has no tables here")
		}
	}
	if !v.NFT && sums.Idle(x.Root, "nf_tables") {
		return ok(id, "the kernel's nf_tables, where iptables-nft would have rules, is not loaded")
	}
	save := iptables.Flavour(other)(f, "save")
	text, err := x.run(save)
	if err != nil && strings.Contains(err.Error(), noNFT) {
		return ok(id, "the kernel has no nf_tables, where iptables-nft would have rules")
	}
	if err != nil {
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: todo(err, "install "+save+", to see whether rules are left there")}
	}
	if chains := ownChains(text); len(chains) > 0 {
		return Finding{ID: id, State: Fail,
			Text: fmt.Sprintf("%d chains of Services are in iptables-%s, such as %s; the tools here write the other flavour, and both act", len(chains), other, chains[0]),
			Todo: "\"svcc remove\" takes away those of both; then apply again"}
	}
	return ok(id, "iptables-"+other+" holds no rules of Services")
}

// legacyTables are the tables that iptables-legacy has in this namespace: the
// tool itself would load modules to look.
func (x *examination) legacyTables(f ir.Family) string {
	name := "ip_tables_names"
	if f == ir.IPv6 {
		name = "ip6_tables_names"
	}
	text, err := os.ReadFile(x.path("proc/thread-self/net/" + name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// saved is what the save tool prints of a table; nothing where iptables-legacy has
// no such table yet, as the tool would make it.
func (x *examination) saved(f ir.Family, table string) (string, error) {
	if v, there := x.versions[f]; there && !v.NFT && !slices.Contains(strings.Fields(x.legacyTables(f)), table) {
		return "", nil
	}
	text, err := x.run(iptables.Flavour("")(f, "save"), "-t", table)
	if err == nil {
		err = iptables.Whole([]byte(text), table)
	}
	return text, err
}

// ownChains are the chains that only svcc and kube-proxy make, in what a save
// tool prints.
func ownChains(save string) []string {
	var out []string
	table := ""
	for line := range strings.Lines(save) {
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = strings.TrimSpace(name)
		}
		name, isChain := strings.CutPrefix(line, ":")
		name, _, _ = strings.Cut(name, " ")
		if isChain && iptables.OnlyServices(table, name) {
			out = append(out, name)
		}
	}
	return out
}

// todo is what to do where a tool could not be run: about one that is only in a
// directory that $PATH names relative to where svcc runs, nothing else than that.
func todo(err error, otherwise string) string {
	if errors.Is(err, exec.ErrDot) {
		return "have $PATH name that directory from / on"
	}
	return otherwise
}

// absent says that a tool is not there at all.
func absent(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist)
}
