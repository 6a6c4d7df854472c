package ipvs

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"svcc/apply"
	"svcc/apply/iptables"
)

// readUses finds out which sets of ours others use: those that the kernel counts
// more references to than our rules have.
func (t *Target) readUses(ctx context.Context, o *observed) error {
	if len(o.state.Families[0].Sets)+len(o.state.Families[1].Sets) == 0 {
		return nil
	}
	text, err := t.Runner.Run(ctx, apply.Input{Tool: "ipset", Args: []string{"list", "-t"}})
	if err != nil {
		return fmt.Errorf("reading who uses the sets: %w", err)
	}
	total := references(text)
	own := iptables.SetUses(o.glue)
	for i := range families {
		f := &o.state.Families[i]
		f.Busy = map[string]bool{}
		for _, set := range f.Sets {
			f.Busy[set.Name] = total[set.Name] > own[set.Name]
		}
	}
	return nil
}

// references reads how many each set has from what "ipset list -t" printed.
func references(text []byte) map[string]int {
	out := map[string]int{}
	name := ""
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "Name":
			name = value
		case "References":
			out[name], _ = strconv.Atoi(value)
		}
	}
	return out
}
