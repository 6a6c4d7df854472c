package doctor

import (
	"fmt"

	"svcc/apply"
	"svcc/apply/ipvs"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// setTypes are the types of sets that IPVS mode has, and their modules.
var setTypes = []struct{ name, module string }{
	{spec.TypeIP, "ip_set_hash_ip"},
	{spec.TypeIPPort, "ip_set_hash_ipport"},
	{spec.TypeIPPortIP, "ip_set_hash_ipportip"},
	{spec.TypeIPPortNet, "ip_set_hash_ipportnet"},
	{spec.TypePort, "ip_set_bitmap_port"},
}

// sets looks for ipset, and tries each type of set and a rule that asks one.
func sets(x *examination) []Finding {
	tool := x.ipset()
	if tool.State != OK {
		return []Finding{tool}
	}
	out := []Finding{tool}
	box, err := x.Kernel.Sandbox()
	if err != nil {
		return append(out, noBox("sets.kernel", err))
	}
	defer box.Close()
	box.Do(func(ipvs.Kernel) {
		for _, f := range x.toolFamilies() {
			out = append(out, x.setsOf(f)...)
		}
	})
	return out
}

// ipset looks at the tool: kube-proxy and svcc need what version 6 brought.
func (x *examination) ipset() Finding {
	const id = "sets.tool"
	text, err := x.run("ipset", "version")
	switch {
	case absent(err):
		return Finding{ID: id, State: Fail, Text: "the program ipset is not there", Todo: "install the package ipset"}
	case err != nil:
		return Finding{ID: id, State: Fail, Text: oneLine(err.Error()), Todo: todo(err, "run as root; modprobe ip_set")}
	}
	var major, minor int
	if _, err := fmt.Sscanf(text, "ipset v%d.%d", &major, &minor); err != nil {
		return Finding{ID: id, State: Unknown, Text: "ipset version: " + oneLine(text), Todo: "install the package ipset"}
	}
	if major < 6 {
		return Finding{ID: id, State: Fail, Text: fmt.Sprintf("ipset %d.%d knows no sets of addresses with ports", major, minor), Todo: "install ipset 6.0 or later"}
	}
	return ok(id, fmt.Sprintf("ipset %d.%d", major, minor))
}

func (x *examination) setsOf(f ir.Family) []Finding {
	var out []Finding
	id := "sets." + f.String() + "."
	asked := "" // the set that the rule asks
	for i, t := range setTypes {
		set := spec.Set{Name: fmt.Sprintf("SVCC-PROBE-%s-%d", f, i), Type: t.name}
		if t.name != spec.TypePort {
			set.HashSize, set.MaxElem = 1024, 65536
		}
		_, err := x.Runner.Run(x.ctx, apply.Input{Tool: "ipset", Args: []string{"restore"}, Stdin: []byte(set.Create(f) + "\n")})
		if err != nil {
			out = append(out, Finding{ID: id + t.name, State: x.severity(f), Text: fmt.Sprintf("sets of type %s cannot be made: %s", t.name, oneLine(err.Error())),
				Todo: "load the kernel's module, or have one built: ip_set, " + t.module})
			continue
		}
		out = append(out, ok(id+t.name, "sets of type "+t.name+" can be made"))
		if asked == "" && t.name == spec.TypeIPPort {
			asked = set.Name
		}
	}
	if asked != "" {
		out = append(out, x.featureHere(id+"match", f, feature{"set", "filter", "-m set --match-set " + asked + " dst,dst", "xt_set"}))
	}
	return out
}
