package doctor

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/ipvs"
	"svcc/ir"
)

const rootful = "run as root, with CAP_SYS_ADMIN"

// virtualServers looks for what IPVS mode needs of the kernel.
func virtualServers(x *examination) []Finding {
	module, loaded := x.module()
	out := []Finding{module}
	if !loaded {
		for _, name := range x.schedulers() {
			out = append(out, x.schedulerFile(name))
		}
	}
	box, err := x.Kernel.Sandbox()
	if err != nil {
		return append(out, noBox("ipvs.kernel", err))
	}
	defer box.Close()
	box.Do(func(k ipvs.Kernel) {
		out = append(out, x.link(k))
		if loaded {
			for _, name := range x.schedulers() {
				out = append(out, x.scheduler(k, name))
			}
		}
		for _, f := range x.toolFamilies() {
			out = append(out, x.featureHere("ipvs.match."+f.String(), f, feature{"ipvs", "filter", "-m ipvs --ipvs", "xt_ipvs"}))
		}
	})
	return out
}

func noBox(id string, err error) Finding {
	return Finding{ID: id, State: Unknown, Text: "nothing can be tried, for no network namespace can be made: " + oneLine(err.Error()), Todo: rootful}
}

// module asks for IPVS itself. svcc apply loads the module if that can be.
func (x *examination) module() (f Finding, loaded bool) {
	const id = "ipvs.module"
	_, err := x.Kernel.Timeouts()
	switch {
	case err == nil:
		return ok(id, "the kernel has IPVS"), true
	case !errors.Is(err, ipvs.ErrNoIPVS):
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: "run as root, with CAP_NET_ADMIN"}, false
	case x.loadable("ip_vs"):
		return ok(id, "the module ip_vs is not loaded yet; svcc apply loads it"), false
	}
	return Finding{ID: id, State: Fail, Text: "the kernel has no IPVS, and the module ip_vs cannot be loaded from here",
		Todo: "modprobe ip_vs on the host, and the same at each boot (/etc/modules-load.d); without such a module, apply with --mode iptables"}, false
}

// loadable says whether a module is there for modprobe, or built in.
func (x *examination) loadable(module string) bool {
	_, err := x.run("modprobe", "-n", "-q", module)
	return err == nil
}

// schedulers are those that are asked for, sorted; svcc's default if none is.
func (x *examination) schedulers() []string {
	want := slices.Clone(x.Schedulers)
	for _, p := range x.Programs {
		if v := p.Options.Virtual; v != nil {
			want = append(want, v.Scheduler)
		}
		for _, s := range p.Services {
			if s.Scheduler != "" {
				want = append(want, s.Scheduler)
			}
		}
	}
	if len(want) == 0 {
		want = []string{"rr"}
	}
	slices.Sort(want)
	return slices.Compact(want)
}

// schedulerFile looks for a scheduler where it cannot be tried.
func (x *examination) schedulerFile(name string) Finding {
	id := "ipvs.scheduler." + name
	if x.loadable("ip_vs_" + name) {
		return ok(id, "there is a module for the scheduler "+name)
	}
	return noScheduler(id, name, "there is no module for the scheduler "+name)
}

func noScheduler(id, name, text string) Finding {
	return Finding{ID: id, State: Fail, Text: text,
		Todo: fmt.Sprintf("modprobe ip_vs_%s, or choose another scheduler: --scheduler, or the Service's annotation", name)}
}

// scheduler makes a virtual server by it, in each family that is served.
func (x *examination) scheduler(k ipvs.Kernel, name string) Finding {
	id := "ipvs.scheduler." + name
	for _, f := range ir.Families {
		if !x.wants(f) || f == ir.IPv6 && !x.hasIPv6() {
			continue
		}
		s := ipvs.Server{Scheduler: name, Netmask: ^uint32(0)}
		if f == ir.IPv6 {
			s.Netmask = 128
		}
		if err := ipvs.Probe(k, s, f); err != nil {
			return noScheduler(id, name, "no virtual server can be made: "+oneLine(err.Error()))
		}
	}
	return ok(id, "the kernel has the scheduler "+name)
}

// link makes the device that bears service addresses.
func (x *examination) link(k ipvs.Kernel) Finding {
	const id = "ipvs.link"
	switch err := k.Do(ipvs.Op{Verb: ipvs.AddLink}); {
	case errors.Is(err, syscall.EPERM):
		return Finding{ID: id, State: Unknown, Text: oneLine(err.Error()), Todo: rootful}
	case err != nil:
		return Finding{ID: id, State: Fail, Text: "nothing can bear service addresses: " + oneLine(err.Error()), Todo: "modprobe dummy, and the same at each boot (/etc/modules-load.d)"}
	}
	return ok(id, "dummy devices can be made, to bear service addresses")
}

// toolFamilies are the families whose rules can be tried.
func (x *examination) toolFamilies() []ir.Family {
	return slices.DeleteFunc(slices.Clone(ir.Families), func(f ir.Family) bool {
		_, there := x.versions[f]
		return !there || f == ir.IPv6 && !x.hasIPv6()
	})
}

// featureHere loads a kind of rule in the calling thread's namespace.
func (x *examination) featureHere(id string, f ir.Family, t feature) Finding {
	in := apply.Input{Tool: iptables.Flavour("")(f, "restore"), Args: []string{"--noflush"}, Stdin: []byte(t.text(f))}
	_, err := x.Runner.Run(x.ctx, in)
	return x.featureFound(id, f, t, x.versions[f], err)
}
