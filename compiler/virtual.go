package compiler

import (
	"time"

	"svcc/compiler/addr"
	"svcc/compiler/manifest"
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
