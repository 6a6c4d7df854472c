package iptables

import (
	"context"
	"fmt"
	"regexp"
	"strconv"

	"svcc/apply"
	"svcc/ir"
)

// Version is what a tool says of itself.
type Version struct {
	Major, Minor, Patch int
	NFT                 bool // iptables-nft; else iptables-legacy
}

func (v Version) String() string {
	flavour := "legacy"
	if v.NFT {
		flavour = "nf_tables"
	}
	return fmt.Sprintf("%d.%d.%d (%s)", v.Major, v.Minor, v.Patch, flavour)
}

func (v Version) before(major, minor, patch int) bool {
	if v.Major != major {
		return v.Major < major
	}
	if v.Minor != minor {
		return v.Minor < minor
	}
	return v.Patch < patch
}

var versionText = regexp.MustCompile(`^ip6?tables\S* v(\d+)\.(\d+)\.(\d+)\S*(?: \((\w+)\))?`)

// ParseVersion reads "iptables v1.8.9 (nf_tables)". Before 1.8 there was one
// flavour, and no word of it.
func ParseVersion(text string) (Version, error) {
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("%.60q is not the version of an iptables tool", text)
	}
	v := Version{NFT: m[4] == "nf_tables"}
	for i, n := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*n, _ = strconv.Atoi(m[i+1])
	}
	return v, nil
}

// check refuses versions that cannot do what is asked of them.
func (v Version) check() error {
	switch {
	case v.before(1, 6, 2):
		return fmt.Errorf("iptables %s is too old: iptables-restore -w and MASQUERADE --random-fully came with 1.6.2", v)
	case v.NFT && v.before(1, 8, 3):
		return fmt.Errorf("iptables %s is known to misplace inserted rules and not to find rules that it made: 1.8.3 is needed", v)
	}
	return nil
}

// Version asks the tools which they are; both families must be of one flavour.
// It asks once.
func (t *Target) Version(ctx context.Context) (Version, error) {
	if t.version != nil {
		return *t.version, nil
	}
	var found []Version
	t.lacks = map[ir.Family]error{}
	for _, f := range ir.Families {
		out, err := t.Runner.Run(ctx, apply.Input{Tool: t.tool(f, ""), Args: []string{"--version"}})
		if err != nil {
			t.lacks[f] = err // a machine may have one family only
			continue
		}
		v, err := ParseVersion(string(out))
		if err == nil {
			err = v.check()
		}
		if err != nil {
			return Version{}, err
		}
		found = append(found, v)
	}
	switch {
	case len(found) == 0:
		return Version{}, t.lacks[ir.Families[0]]
	case found[0].NFT != found[len(found)-1].NFT:
		return Version{}, fmt.Errorf("iptables is %s, ip6tables is %s: both must be of one flavour", found[0], found[1])
	}
	t.version = &found[0]
	return found[0], nil
}

// Flavour gives the commands of one flavour, "nft" or "legacy", by name; ""
// gives what the machine calls iptables.
func Flavour(name string) func(f ir.Family, verb string) string {
	return func(f ir.Family, verb string) string {
		cmd := "iptables"
		if f == ir.IPv6 {
			cmd = "ip6tables"
		}
		for _, part := range []string{name, verb} {
			if part != "" {
				cmd += "-" + part
			}
		}
		return cmd
	}
}
