package ipvs

import (
	"context"
	"testing"
	"time"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/golden/lab"
)

// mixed has real tools, and virtual servers that are not real.
type mixed struct {
	*node
	apply.Exec
}

// box is a real namespace with virtual servers that are not real.
type mixedBox struct{ sandbox }

func (m mixed) Run(ctx context.Context, in apply.Input) ([]byte, error) { return m.Exec.Run(ctx, in) }

func (b mixedBox) Do(f func(Kernel)) { b.sandbox.Do(func(Kernel) { f(newNode()) }) }

func (m mixed) Sandbox() (Sandbox, error) {
	s, err := (&Netlink{}).Sandbox()
	if err != nil {
		return nil, err
	}
	return mixedBox{s.(sandbox)}, nil
}

// Sets and glue of both flavours on this machine, where iptables-nft lets go of
// sets only after a while.
func TestFlavours(t *testing.T) {
	lab.Need(t, lab.Tools("ipset"))
	for _, flavour := range lab.Flavours {
		t.Run(string(flavour), func(t *testing.T) {
			lab.Enter(t)
			m := mixed{node: newNode()}
			tg := &Target{
				Glue:   &iptables.Target{Runner: m, LockTimeout: 5 * time.Second, Command: iptables.Flavour(string(flavour))},
				Runner: m, Kernel: m,
			}
			for range 3 {
				bring(t, tg, oldWorld().ruleset())
				bring(t, tg, newerWorld().ruleset())
				bring(t, tg, manyWorld(0, 64).ruleset())
				bring(t, tg, manyWorld(15, 32).ruleset())
				bring(t, tg, nil)
			}
			if out := tool(t, "", "ipset", "list", "-n"); out != "" {
				t.Errorf("left: %s", out)
			}
		})
	}
}
