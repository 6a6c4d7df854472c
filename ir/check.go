package ir

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
)

// Check tells the first way in which a Program breaks its invariants: order,
// uniqueness, family, lists that must or must not be empty. Nil is sound.
func (p *Program) Check() error {
	if err := p.Options.check(p.Family); err != nil {
		return err
	}
	for i, s := range p.Services {
		if i > 0 && p.Services[i-1].Compare(s.PortName) >= 0 {
			return fmt.Errorf("%s does not come after %s", s.PortName, p.Services[i-1].PortName)
		}
		if err := s.check(p.Family); err != nil {
			return fmt.Errorf("%s: %w", s.PortName, err)
		}
	}
	return nil
}

func (o *Options) check(f Family) error {
	switch {
	case bits.OnesCount32(o.MasqueradeMark) != 1:
		return fmt.Errorf("masquerade mark %#x is not one bit", o.MasqueradeMark)
	case o.LocalhostNodePorts && f != IPv4:
		return errors.New("localhost node ports exist in IPv4 only")
	case o.Pods.Kind == DetectCIDR && !f.Of(o.Pods.Prefix.Addr()):
		return fmt.Errorf("pod range %s is not %s", o.Pods.Prefix, f)
	case o.NodePorts.All && len(o.NodePorts.Addrs)+len(o.NodePorts.Prefixes) > 0:
		return errors.New("node ports at all addresses and at some")
	case o.Virtual != nil:
		return o.Virtual.check(f, o)
	}
	return nil
}

func (s *ServicePort) check(f Family) error {
	for i, x := range s.Frontends {
		if i > 0 && s.Frontends[i-1].Kind > x.Kind {
			return fmt.Errorf("frontend %s after %s", x.Kind, s.Frontends[i-1].Kind)
		}
		if x.Port == 0 || (x.Kind == NodePort) == x.Addr.IsValid() || x.Addr.IsValid() && !f.Of(x.Addr) {
			return fmt.Errorf("frontend %s %s port %d is not sound in %s", x.Kind, x.Addr, x.Port, f)
		}
	}
	for _, list := range [][]Endpoint{s.Cluster, s.Local} {
		if !slices.IsSortedFunc(list, CompareEndpoints) {
			return errors.New("endpoints are out of order")
		}
		for i, e := range list {
			if e.Port == 0 || !f.Of(e.Addr) || i > 0 && list[i-1].AddrPort() == e.AddrPort() {
				return fmt.Errorf("endpoint %s is not sound in %s", e, f)
			}
		}
	}
	for i, a := range s.Serving {
		if !f.Of(a.Addr()) || a.Port() == 0 || i > 0 && s.Serving[i-1].String() >= a.String() {
			return fmt.Errorf("serving endpoint %s is not sound in %s", a, f)
		}
	}
	return s.checkLists()
}

func (s *ServicePort) checkLists() error {
	switch {
	case len(s.Frontends) == 0:
		return errors.New("no frontend")
	case s.Scheduler != "" && !slices.Contains(Schedulers, s.Scheduler):
		return fmt.Errorf("scheduler %q does not exist", s.Scheduler)
	case !s.Usable && len(s.Cluster)+len(s.Local) > 0:
		return errors.New("endpoints of a service port that has none to use")
	case s.has(external) && s.Usable && len(s.Cluster) == 0:
		return errors.New("external frontends, but nothing for pods to reach")
	case len(s.SourceRanges) > 0 && !s.has(func(f Frontend) bool { return f.Kind == LoadBalancer }):
		return errors.New("source ranges that guard nothing")
	case s.NodeAllowed && len(s.SourceRanges) == 0:
		return errors.New("the node is allowed by no source range")
	case s.AffinitySeconds < 0:
		return fmt.Errorf("affinity of %d seconds", s.AffinitySeconds)
	case slices.ContainsFunc(s.Local, func(e Endpoint) bool { return !e.Local }):
		return errors.New("an endpoint elsewhere in the local list")
	}
	return nil
}

// Check tells the first way in which a Graph breaks its invariants: one service
// port a destination, no missing step, no step that leads back to itself, no empty
// balance. Nil is sound.
func (g *Graph) Check() error {
	claimed := map[entryKey]PortName{}
	sound := map[Step]bool{}
	for _, e := range g.Entries {
		k := e.key()
		if other, ok := claimed[k]; ok && (other != e.Service || e.Kind == NodePort) {
			return fmt.Errorf("%s and %s claim one destination", other, e.Service)
		}
		claimed[k] = e.Service
		if err := checkStep(e.Next, sound, 0); err != nil {
			return fmt.Errorf("%s: %w", e.Service, err)
		}
	}
	return nil
}

// maxSteps is more than any way has; beyond it a step leads back to itself.
const maxSteps = 64

func checkStep(s Step, sound map[Step]bool, depth int) error {
	if s == nil {
		return errors.New("a step leads nowhere")
	}
	if sound[s] {
		return nil
	}
	if depth > maxSteps {
		return errors.New("a step leads back to itself")
	}
	var err error
	switch s := s.(type) {
	case *Guard:
		// Not both at once: in a loop of guards that would double at each turn.
		if err = checkStep(s.Then, sound, depth+1); err == nil {
			err = checkStep(s.Else, sound, depth+1)
		}
	case *Masquerade:
		err = checkStep(s.Next, sound, depth+1)
	case *Balance:
		if len(s.Endpoints) == 0 {
			err = errors.New("a balance without endpoints")
		}
	case *Deliver:
		if s.Endpoint.Port == 0 {
			err = errors.New("a delivery to no port")
		}
	case *Refuse:
		if s.Reason == 0 {
			err = errors.New("a refusal without a reason")
		}
	}
	sound[s] = err == nil
	return err
}
