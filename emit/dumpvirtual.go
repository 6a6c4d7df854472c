package emit

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"svcc/ir"
)

// virtualDump is what a node in IPVS mode has beside tables, in the syntax of
// sections.
type virtualDump struct {
	sets, addresses, servers map[ir.Family][]byte
	family                   map[string]ir.Family // of a set
	foreign                  map[string]bool      // virtual servers that are not ours
	link                     bool                 // whether ip is at the link with the service addresses
}

// ServiceLink is the dummy device that carries the service addresses, kube-proxy's.
const ServiceLink = "kube-ipvs0"

// The sets of a node's services are told from those of other programs by these.
const (
	setPrefix  = "KUBE-"
	setPrefix6 = "KUBE-6-"
)

// How the lines of each tool begin, in what it prints and in what it loads.
var (
	setLine    = regexp.MustCompile(`^(create|add) \S+ \S`)
	emptyLine  = regexp.MustCompile(`^flush ` + setPrefix + `\S+$`)
	serverLine = regexp.MustCompile(`^-[Aa] (-t|-u|-f|--sctp-service) \S`)
	linkLine   = regexp.MustCompile(`^\d+: ([^ :@]+)(@\S+)?(:| )`)
	inetLine   = regexp.MustCompile(`^(\d+: (\S+) +)?inet6? (\S+)`)
	restOfLink = regexp.MustCompile(`^(link/|altname |valid_lft |link add ` + ServiceLink + ` )`)
	bearLine   = regexp.MustCompile(`^address replace (\S+) dev ` + ServiceLink + `( |$)`)
)

// virtualTool tells the tool by which a line of a dump is, outside of tables; ""
// for none.
func virtualTool(line []byte) string {
	words := len(bytes.Fields(line)) > 2
	switch {
	case words && setLine.Match(line), emptyLine.Match(line):
		return ToolSets
	case words && serverLine.Match(line):
		return ToolServers
	case linkLine.Match(line), inetLine.Match(line), restOfLink.Match(line), bearLine.Match(line):
		return ToolAddresses
	}
	return ""
}

// splitDump parts the tables of a dump from what else a node in IPVS mode has;
// nil if there is nothing else.
func splitDump(text []byte) ([]byte, *virtualDump) {
	var tables []byte
	v := &virtualDump{
		sets: map[ir.Family][]byte{}, addresses: map[ir.Family][]byte{}, servers: map[ir.Family][]byte{},
		family: map[string]ir.Family{}, foreign: foreignServers(text),
	}
	inTable := false
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		switch {
		case len(trimmed) > 0 && trimmed[0] == '*':
			inTable = true
		case bytes.Equal(trimmed, []byte("COMMIT")):
			inTable = false
		case !inTable && v.take(string(trimmed), virtualTool(trimmed)):
			continue
		}
		tables = append(tables, line...)
	}
	if len(v.sets)+len(v.addresses)+len(v.servers) == 0 && !asksSets.Match(tables) {
		return tables, nil
	}
	return tables, v
}

// asksSets finds rules that are of no use without the sets of IPVS mode.
var asksSets = regexp.MustCompile(`(?m)^(\[\S+ )?-A KUBE-SERVICES .*--match-set KUBE-(6-)?CLUSTER-IP `)

// take notes a line of a tool; it says whether it is one.
func (v *virtualDump) take(line, tool string) bool {
	switch tool {
	case ToolSets:
		v.setLine(strings.Fields(line))
	case ToolServers:
		v.serverLine(strings.Fields(line))
	case ToolAddresses:
		v.addressLine(line)
	default:
		return false
	}
	return true
}

// setLine takes "create NAME TYPE ...", "flush NAME" or "add NAME ENTRY ...". Sets of other
// programs say nothing of services. Those of port numbers have no family but by
// their names.
func (v *virtualDump) setLine(w []string) {
	name := w[1]
	if !strings.HasPrefix(name, setPrefix) {
		return
	}
	switch w[0] {
	case "add":
		w = w[:3] // without a comment or a counter
	case "create":
		v.family[name] = ir.IPv4
		i := slices.Index(w, "family")
		if strings.HasPrefix(name, setPrefix6) || i > 0 && i+1 < len(w) && w[i+1] == "inet6" {
			v.family[name] = ir.IPv6
		}
	}
	f := v.family[name]
	if f == 0 {
		f = ir.IPv4 // which has no such set: reading it says so
	}
	v.sets[f] = append(v.sets[f], strings.Join(w, " ")+"\n"...)
}

// serverLine takes a line of "ipvsadm -Sn".
func (v *virtualDump) serverLine(w []string) {
	key := w[1] + " " + w[2]
	if v.foreign[key] {
		return
	}
	f := ir.IPv4
	if strings.HasPrefix(w[2], "[") {
		f = ir.IPv6
	}
	v.servers[f] = append(v.servers[f], strings.Join(w, " ")+"\n"...)
}

// foreignServers finds the virtual servers of a dump that svcc and kube-proxy
// would never make: by firewall mark, or with destinations that are not
// masqueraded, or by options that neither uses.
func foreignServers(text []byte) map[string]bool {
	out := map[string]bool{}
	for line := range bytes.Lines(text) {
		if virtualTool(line) != ToolServers {
			continue
		}
		w := strings.Fields(string(line))
		rest := w[3:]
		if w[1] == "-f" || w[0] == "-a" && !masqueraded(rest) || w[0] == "-A" && !ordinary(rest) {
			out[w[1]+" "+w[2]] = true
		}
	}
	return out
}

// masqueraded says that a destination is "-r ADDRESS -m -w WEIGHT".
func masqueraded(w []string) bool {
	return len(w) < 5 || len(w) == 5 && w[2] == "-m" // what is cut off is for the reader to tell
}

// ordinary says that a server has no options but the scheduler's and persistence.
func ordinary(w []string) bool {
	for _, x := range w {
		if strings.HasPrefix(x, "-") && !slices.Contains([]string{"-s", "-p", "-M", "-b"}, x) {
			return false
		}
	}
	return true
}

// addressLine takes a line of "ip address show", with or without -o, or of what
// "ip -batch" loads: only the link with the service addresses counts, and of its
// addresses those that stand for one alone.
func (v *virtualDump) addressLine(line string) {
	if m := linkLine.FindStringSubmatch(line); m != nil {
		v.link = m[1] == ServiceLink
	}
	text := ""
	if m := inetLine.FindStringSubmatch(line); m != nil && v.link {
		text = m[3]
	} else if m := bearLine.FindStringSubmatch(line); m != nil {
		text = m[1]
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.IsSingleIP() {
		return
	}
	f := ir.FamilyOf(p.Addr())
	v.addresses[f] = fmt.Appendf(v.addresses[f], "address replace %s dev %s\n", p, ServiceLink)
}

// sections are those of one family, tables given.
func (v *virtualDump) sections(tables Section) []Section {
	f := tables.Family
	return []Section{
		{Tool: ToolSets, Family: f, Text: v.sets[f]},
		tables,
		{Tool: ToolAddresses, Family: f, Text: v.addresses[f]},
		{Tool: ToolServers, Family: f, Text: v.servers[f]},
	}
}

// complete tells what of a node in IPVS mode the dump lacks altogether: rules
// mean nothing without it.
func (v *virtualDump) complete(sections []Section) error {
	var missing []string
	for _, x := range []struct {
		there bool
		tool  string
	}{
		{len(sections) > 0, "iptables-save"},
		{len(v.sets) > 0, "ipset save"},
		{len(v.addresses) > 0, "ip address show dev " + ServiceLink},
		{len(v.servers) > 0, "ipvsadm -Sn"},
	} {
		if !x.there {
			missing = append(missing, x.tool)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return errors.New("rules of IPVS mode, without what these print: " + strings.Join(missing, ", "))
}

// IsVirtual says whether sections are of IPVS mode.
func IsVirtual(sections []Section) bool {
	return slices.ContainsFunc(sections, func(s Section) bool { return s.Tool == ToolServers })
}
