package iptables

import (
	"context"
	"fmt"
	"slices"

	"svcc/apply"
	rules "svcc/emit/iptables"
	"svcc/ir"
)

// Other implements apply.Target. It asks the kernel, so that it is quick, and
// does not matter whether the other flavour's tools are there. Without a Kernel
// it finds nothing.
func (t *Target) Other(ctx context.Context) (other apply.Target, what string, err error) {
	if t.Kernel == nil {
		return nil, "", nil
	}
	v, err := t.Version(ctx)
	if err != nil {
		return nil, "", err
	}
	var found []string
	for _, f := range ir.Families {
		for _, table := range tables {
			chains, err := t.Kernel.Chains(f, table, !v.NFT)
			if err != nil {
				return nil, "", err
			}
			found = append(found, slices.DeleteFunc(chains, func(c string) bool { return !OnlyServices(table, c) })...)
		}
	}
	if len(found) == 0 {
		return nil, "", nil
	}
	flavour := "nft"
	if v.NFT {
		flavour = "legacy"
	}
	return &Target{
		Runner: t.Runner, Command: Flavour(flavour), LockTimeout: t.LockTimeout, Canaries: t.Canaries, Kernel: t.Kernel,
	}, fmt.Sprintf("iptables-%s has %d chains of Services, such as %s", flavour, len(found), found[0]), nil
}

// OnlyServices says whether a chain of a table is one that only svcc and
// kube-proxy make. KUBE-FIREWALL, KUBE-MARK-MASQ and KUBE-POSTROUTING are
// kubelet's as well.
func OnlyServices(table, chain string) bool {
	return rules.Owned(table, chain) && chain != rules.SharedChain && chain != rules.ChainMarkMasq && chain != rules.ChainPostrouting
}
