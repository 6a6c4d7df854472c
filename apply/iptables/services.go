package iptables

import (
	"strings"

	rules "svcc/emit/iptables"
)

// servicesOf tells of which service port each chain is, by the comments of the
// rules that jump to it or are in it: "ns/name:port". Level 2 has no comments.
func servicesOf(lines []string) map[string]string {
	out := map[string]string{}
	for _, line := range lines {
		name := namedIn(line)
		if name == "" {
			continue
		}
		for _, chain := range []string{ruleChain(line), rules.JumpsTo(line)} {
			if isServiceChain(chain) && out[chain] == "" {
				out[chain] = name
			}
		}
	}
	return out
}

// isServiceChain leaves out the chains that all services share.
func isServiceChain(chain string) bool {
	for _, p := range []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-FW-", "KUBE-EXT-"} {
		if strings.HasPrefix(chain, p) {
			return true
		}
	}
	return false
}

// serviceOf tells which service port a rule is for; "" for none.
func serviceOf(line string, owners map[string]string) string {
	if name := namedIn(line); name != "" {
		return name
	}
	if name := owners[ruleChain(line)]; name != "" {
		return name
	}
	return owners[rules.JumpsTo(line)]
}

// namedIn finds the first word of a rule's comment that is a service port's
// name: the only one there with a slash.
func namedIn(line string) string {
	_, rest, ok := strings.Cut(line, "--comment ")
	if !ok {
		return ""
	}
	comment := rest
	if strings.HasPrefix(rest, `"`) {
		comment, _, _ = strings.Cut(rest[1:], `"`)
	} else {
		comment, _, _ = strings.Cut(rest, " ")
	}
	for word := range strings.FieldsSeq(comment) {
		ns, name, ok := strings.Cut(word, "/")
		if ok && ns != "" && name != "" {
			return word
		}
	}
	return ""
}
