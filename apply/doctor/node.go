package doctor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"svcc/apply"
	"svcc/apply/state"
	"svcc/ir"
)

// capabilities reads what this process may do (capabilities(7)).
func capabilities(x *examination) []Finding {
	mask, err := x.effective()
	if err != nil {
		return one("capabilities", Unknown, err.Error(), "is /proc mounted?")
	}
	var out []Finding
	for _, c := range []struct {
		bit     uint
		name    string
		bad     State
		without string
	}{
		{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN", Fail, "rules can be neither read nor written"},
		{unix.CAP_NET_RAW, "CAP_NET_RAW", Fail, "iptables-legacy can neither read nor write rules"},
		{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", Warn, "rules cannot be tried in a network namespace of their own before they are loaded"},
	} {
		id := "capabilities." + strings.ToLower(strings.TrimPrefix(c.name, "CAP_"))
		switch {
		case mask&(1<<c.bit) != 0:
			out = append(out, ok(id, "this process has "+c.name))
		case c.bit == unix.CAP_NET_RAW && x.onlyNFT():
			out = append(out, ok(id, "iptables-nft does without CAP_NET_RAW"))
		default:
			out = append(out, Finding{ID: id, State: c.bad, Text: "without " + c.name + " " + c.without, Todo: "run as root, or give the process " + c.name})
		}
	}
	return out
}

// onlyNFT says that all tools that answered are iptables-nft.
func (x *examination) onlyNFT() bool {
	for _, v := range x.versions {
		if !v.NFT {
			return false
		}
	}
	return len(x.versions) > 0
}

func (x *examination) effective() (uint64, error) {
	text, err := os.ReadFile(x.path("proc/thread-self/status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
		}
	}
	return 0, fmt.Errorf("/proc/thread-self/status has no CapEff")
}

// affinity looks how many clients a list of xt_recent holds: one endpoint's. In
// IPVS mode virtual servers remember clients, but for those that rules send to
// endpoints: pods and the node, where external policy is Local.
func affinity(x *examination) []Finding {
	const id, few = "affinity", 100 // the kernel's default
	sticky := slices.ContainsFunc(x.Programs, func(p *ir.Program) bool {
		return slices.ContainsFunc(p.Services, func(s *ir.ServicePort) bool {
			return s.AffinitySeconds > 0 && (x.facts().RemembersPerEndpoint || localOutside(s))
		})
	})
	if !sticky {
		return []Finding{ok(id, "no Service that is known has session affinity that rules see to")}
	}
	text, err := os.ReadFile(x.path("sys/module/xt_recent/parameters/ip_list_tot"))
	if err != nil {
		return one(id, Unknown, "xt_recent tells no ip_list_tot: "+err.Error(), "modprobe xt_recent")
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	switch {
	case err != nil:
		return one(id, Unknown, "xt_recent ip_list_tot: "+err.Error(), "modprobe xt_recent")
	case n > few:
		return []Finding{ok(id, fmt.Sprintf("%d clients are remembered for each endpoint", n))}
	}
	return one(id, Warn, fmt.Sprintf("only %d clients are remembered for each endpoint; further ones make it forget the oldest", n),
		"echo options xt_recent ip_list_tot=10000 > /etc/modprobe.d/svcc.conf, and reboot (or reload xt_recent while no rule uses it)")
}

// localOutside says that a service port is reached from outside by policy Local.
func localOutside(s *ir.ServicePort) bool {
	return s.ExternalPolicy == ir.Local && slices.ContainsFunc(s.Frontends, func(f ir.Frontend) bool { return f.Kind != ir.ClusterIP })
}

// kubeProxy looks for a kube-proxy that programs this network namespace.
func kubeProxy(x *examination) []Finding {
	pid := apply.KubeProxy(x.Root)
	if pid == 0 {
		return []Finding{ok("kube-proxy", "no kube-proxy runs here")}
	}
	return one("kube-proxy", Fail, fmt.Sprintf("kube-proxy runs, process %d: it writes its own rules over svcc's", pid),
		"stop it, and its DaemonSet (kubectl -n kube-system delete daemonset kube-proxy), before svcc apply --take-over")
}

// stateDir looks at the state directory without making it.
func stateDir(x *examination) []Finding {
	const id = "state"
	dir := state.At(x.StateDir)
	if _, err := os.Stat(x.StateDir); os.IsNotExist(err) {
		return []Finding{ok(id, x.StateDir+" is not there yet: nothing was applied")}
	}
	var untrusted *state.UntrustedError
	switch err := dir.Check(); {
	case errors.As(err, &untrusted):
		return one(id, Fail, untrusted.Path+" "+untrusted.Fault, untrusted.Todo)
	case err != nil:
		return one(id, Fail, err.Error(), "make it a directory of root's, or give another one with --state-dir")
	}
	if err := unix.Access(x.StateDir, unix.W_OK); err != nil {
		return one(id, Fail, x.StateDir+" cannot be written: "+err.Error(), "run as root; is its file system mounted read-only?")
	}
	if _, err := dir.Record(); err != nil {
		return one(id, Fail, "the record cannot be read: "+err.Error(), "remove "+x.StateDir+" and apply again")
	}
	j, err := dir.Journal()
	switch {
	case err != nil:
		return one(id, Fail, "the journal cannot be read: "+err.Error(), "remove "+x.StateDir+" and apply again")
	case j != nil && !dir.Busy():
		return one(id, Warn, "a run was interrupted: the kernel may hold part of its rules", "run svcc apply again: it finishes or undoes that first")
	}
	return []Finding{ok(id, x.StateDir+" can be used")}
}
