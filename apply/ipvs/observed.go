package ipvs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"svcc/apply"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// observed implements apply.Observed.
type observed struct {
	glue  apply.Observed
	state *state // nil for what was observed in iptables mode: the rest is unknown
	// What Plan must know besides, and Restore need not.
	foreign        []*Server
	excluded       []spec.Key // ours, but by rulesets alone, which exclude them
	noIPVS, noSets string     // why the kernel has none; "" if it has
	unseen         []string   // sets of ours that are there all the same, which nothing can read or take away
	noLink         string     // why there can be none of ours; "" if there can
}

// kept is the form in a file.
type kept struct {
	Format string
	Glue   string
	State  *state
}

const observedFormat = "svcc ipvs observed v1"

// Marshal implements apply.Observed.
func (o *observed) Marshal() []byte {
	text, err := json.Marshal(kept{observedFormat, string(o.glue.Marshal()), o.state})
	if err != nil {
		panic(err) // there is nothing in it that JSON cannot say
	}
	return append(text, '\n')
}

// load reads what Marshal gave, here or in iptables mode.
func (t *Target) load(text []byte) (*observed, error) {
	if !strings.HasPrefix(string(text), "{") {
		g, err := t.Glue.Load(text)
		return &observed{glue: g}, err
	}
	var k kept
	if err := json.Unmarshal(text, &k); err != nil || k.Format != observedFormat || k.State == nil {
		return nil, errors.Join(fmt.Errorf("not a state that was observed: %.60q", text), err)
	}
	g, err := t.Glue.Load([]byte(k.Glue))
	if err == nil {
		err = k.State.check(t.recognized)
	}
	if err != nil {
		return nil, err
	}
	return &observed{glue: g, state: k.State}, nil
}

// check refuses what would not be ours to write back: the file may have been
// edited.
func (s *state) check(recognized func() *known) error {
	for i, f := range ir.Families {
		for _, set := range s.Families[i].Sets {
			if !slices.Contains(spec.SetNames(f), set.Name) {
				return fmt.Errorf("observed state: set %q is not one of svcc's", set.Name)
			}
		}
		o := s.Families[i].owner()
		for _, v := range s.Families[i].Servers {
			if !o.owns(v.Key) && !recognized().mayHave(i, v.Key) {
				return fmt.Errorf("observed state: virtual server %s is not one of svcc's", v.Key)
			}
		}
	}
	return nil
}

// Equal implements apply.Observed. Destinations that drain, on one side only,
// and connections do not count; nor do timeouts that one side does not know.
func (o *observed) Equal(other apply.Observed) bool {
	x, ok := other.(*observed)
	if !ok || !o.glue.Equal(x.glue) {
		return false
	}
	if o.state == nil || x.state == nil {
		return true
	}
	a, b := o.adopting(x.state).state.settled(), x.adopting(o.state).state.settled()
	if a.Timeouts == (Timeouts{}) || b.Timeouts == (Timeouts{}) {
		a.Timeouts, b.Timeouts = Timeouts{}, Timeouts{}
	}
	return lead(a, b).none() && len(b.Temporary) == 0
}

// settled is a state without what drains.
func (s *state) settled() *state {
	out := *s
	for i := range ir.Families {
		servers := slices.Clone(s.Families[i].Servers)
		for j, v := range servers {
			if slices.ContainsFunc(v.Destinations, func(d Destination) bool { return draining(v.Key, d) }) {
				c := v.bare()
				for _, d := range v.Destinations {
					if !draining(v.Key, d) {
						c.Destinations = append(c.Destinations, d)
					}
				}
				servers[j] = &c
			}
		}
		out.Families[i].Servers = servers
	}
	return &out
}
