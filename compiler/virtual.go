package compiler

import (
	"time"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
	"svcc/emit/mode"
	"svcc/ir"
	"svcc/ir/diag"
)

// virtualConfig takes a configuration's part for IPVS mode
// (KubeProxyConfiguration v1alpha1, ipvs).
func (s *settings) virtualConfig(c *manifest.ProxyConfigIPVS) {
	v := s.Virtual
	if c.Scheduler != "" {
		v.Scheduler, s.schedulerAt = c.Scheduler, s.at("ipvs", "scheduler")
	}
	v.StrictARP = c.StrictARP
	for i, text := range c.ExcludeCIDRs {
		p, _, err := addr.ParsePrefix(text)
		if err != nil {
			s.faultAt(s.at("ipvs", "excludeCIDRs", i), "ipvs.excludeCIDRs: %v", err)
			continue
		}
		v.Exclude = append(v.Exclude, p)
	}
	for _, x := range []struct {
		name, text string
		to         *int
	}{
		{"tcpTimeout", c.TCPTimeout, &v.TCPTimeout},
		{"tcpFinTimeout", c.TCPFinTimeout, &v.TCPFinTimeout},
		{"udpTimeout", c.UDPTimeout, &v.UDPTimeout},
	} {
		s.timeout(x.name, x.text, x.to)
	}
}

// checkLoopback warns where node ports are asked for at addresses at which no
// virtual server answers. What a configuration says of localhost in its part for
// iptables mode is passed over, as kube-proxy does.
func (s *settings) checkLoopback(f Flags) {
	if on := f.LocalhostNodePorts; on != nil && *on {
		s.list.Add(diag.NoLoopback, diag.Pos{}, "", "--localhost-nodeports: in IPVS mode node ports do not answer at 127.0.0.1").
			Hint = "leave it out, or --mode " + mode.Default.Name
	}
	for i, text := range s.NodePortAddresses {
		if !loopback(text) {
			continue
		}
		var pos diag.Pos
		if f.NodePortAddresses == nil && s.at != nil {
			pos = s.at("nodePortAddresses", i)
		}
		s.list.Add(diag.NoLoopback, pos, "", "nodePortAddresses has %s, where in IPVS mode node ports do not answer", text).
			Hint = "name other addresses of the node (primary, all, a range), or --mode " + mode.Default.Name
	}
}

// loopback says whether an entry of nodePortAddresses holds nothing but loopback.
func loopback(text string) bool {
	if text == "localhost" {
		return true
	}
	p, _, err := addr.ParsePrefix(text)
	return err == nil && p.Addr().IsLoopback() && p.Bits() >= ir.FamilyOf(p.Addr()).Loopback().Bits()
}

// timeout reads a duration such as "15m"; the kernel counts whole seconds.
func (s *settings) timeout(name, text string, to *int) {
	if text == "" {
		return
	}
	at := s.at("ipvs", name)
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		s.faultAt(at, "ipvs.%s: %q is no duration such as 15m", name, text)
	case d < 0 || d > 24*time.Hour*365 || d%time.Second != 0:
		s.faultAt(at, "ipvs.%s: %s is no whole number of seconds from 0 to a year", name, text)
	default:
		*to = int(d / time.Second)
	}
}
