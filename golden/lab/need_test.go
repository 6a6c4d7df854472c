package lab

import (
	"strings"
	"testing"
)

// What is missing is named with the package to install.
func TestToolsNamePackages(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for tool, want := range map[string]string{
		"ip6tables-legacy-restore": "package iptables", "ip": "package iproute2", "linux.uml": "package user-mode-linux", "ipset": "package ipset",
	} {
		err := Tools(tool)
		if err == nil || !strings.Contains(err.Error(), "no "+tool+":") || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", tool, err, want)
		}
	}
}
