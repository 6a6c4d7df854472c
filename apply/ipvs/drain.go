package ipvs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"svcc/apply"
	spec "svcc/emit/ipvs"
	"svcc/ir"
)

// drainage is a destination that is not wanted and gets no new connections.
type drainage struct {
	key         spec.Key
	destination Destination
}

// drainages are those that a state has and another does not want. Whatever
// drains of a server that goes goes with it.
func drainages(have, want *state) []drainage {
	var out []drainage
	for i := range ir.Families {
		for _, s := range have.Families[i].Servers {
			w := want.Families[i].server(s.Key)
			for _, d := range s.Destinations {
				if w != nil && draining(s.Key, d) && indexOf(w.Destinations, d.Address) < 0 {
					out = append(out, drainage{s.Key, d})
				}
			}
		}
	}
	return out
}

// drains are the destinations that begin to drain on a route.
func (r *route) drains() []drainage {
	var out []drainage
	for _, o := range r.goes {
		if o.Verb == SetDestination {
			out = append(out, drainage{o.Server.Key, o.Destination})
		}
	}
	return out
}

// drainPoll is how often connections are counted.
const drainPoll = 100 * time.Millisecond

// Tidy deletes the destinations that were draining when the plan was made and
// have no connections any more. It waits for the others as long as DrainTimeout
// says. What is left after that is for a later run.
func (t *Target) Tidy(ctx context.Context, p apply.Plan) (did []string, err error) {
	own, ok := p.(*plan)
	if !ok {
		return nil, fmt.Errorf("internal error: %T was not planned here", p)
	}
	left := own.draining
	for deadline := time.Now().Add(t.DrainTimeout); len(left) > 0; {
		var gone []drainage
		if left, gone, err = t.drained(left); len(gone) > 0 {
			did = append(did, summary("deleted, after its last connection ended", gone))
		}
		if err != nil || len(left) == 0 {
			return did, err
		}
		if !time.Now().Before(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			deadline = time.Now()
		case <-time.After(drainPoll):
		}
	}
	if len(left) > 0 {
		did = append(did, summary("left for a later run, as connections use it", left))
	}
	return did, nil
}

// drained deletes those without connections, and tells which are left.
func (t *Target) drained(list []drainage) (left, gone []drainage, err error) {
	now := map[spec.Key][]Destination{}
	for _, d := range list {
		if _, read := now[d.key]; !read {
			if now[d.key], err = t.Kernel.Destinations(d.key); err != nil {
				return list, nil, err
			}
		}
	}
	for _, d := range list {
		i := indexOf(now[d.key], d.destination.Address)
		switch {
		case i < 0 || now[d.key][i].Weight > 0:
			continue // somebody else deleted it, or wants it
		case now[d.key][i].Connections > 0:
			left = append(left, d)
			continue
		}
		o := Op{Verb: DelDestination, Server: Server{Key: d.key}, Destination: d.destination}
		if err := t.Kernel.Do(o); err != nil {
			return left, gone, err
		}
		gone = append(gone, d)
	}
	return left, gone, nil
}

// summary names some of what a sentence is about.
func summary(what string, list []drainage) string {
	const most = 3
	var names []string
	for _, d := range list[:min(most, len(list))] {
		names = append(names, fmt.Sprintf("%s of %s", d.destination.Address, d.key))
	}
	if len(list) > most {
		names = append(names, fmt.Sprintf("and %d more", len(list)-most))
	}
	return fmt.Sprintf("destination %s: %s", strings.Join(names, ", "), what)
}
