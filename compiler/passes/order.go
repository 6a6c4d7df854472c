package passes

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"svcc/ir"
)

// order sorts what no earlier stage promises an order of.
func order(p *ir.Program) {
	for _, s := range p.Services {
		sortByText(s.Cluster, ir.Endpoint.String)
		sortByText(s.Local, ir.Endpoint.String)
		sortByText(s.Serving, netip.AddrPort.String)
	}
	names := make([]string, len(p.Services))
	index := map[*ir.ServicePort]int{}
	for i, s := range p.Services {
		names[i], index[s] = s.Display(), i
	}
	slices.SortFunc(p.Services, func(a, b *ir.ServicePort) int {
		return cmp.Or(strings.Compare(names[index[a]], names[index[b]]), strings.Compare(a.Protocol.String(), b.Protocol.String()))
	})
}

// sortByText sorts bytewise by the text, made once an element.
func sortByText[T any](list []T, text func(T) string) {
	if len(list) < 2 {
		return
	}
	type keyed struct {
		text string
		item T
	}
	all := make([]keyed, len(list))
	for i, x := range list {
		all[i] = keyed{text(x), x}
	}
	slices.SortFunc(all, func(a, b keyed) int { return strings.Compare(a.text, b.text) })
	for i := range all {
		list[i] = all[i].item
	}
}
