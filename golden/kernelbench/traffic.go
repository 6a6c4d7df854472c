package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// traffic measures every target of every layout, in rounds.
func (w *world) traffic(ctx context.Context, layouts []*layout, o options) error {
	for _, l := range layouts {
		if l.node == nil {
			continue
		}
		if err := l.check(ctx); err != nil {
			return fmt.Errorf("%s: %w", l, err)
		}
	}
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	return onThread(func() error {
		if err := settle(); err != nil {
			return err
		}
		s := newSender()
		for round := range o.rounds {
			progress("traffic: round %d of %d", round+1, o.rounds)
			for _, l := range layouts {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := l.measure(s, o.packets); err != nil {
					return fmt.Errorf("%s: %w", l, err)
				}
			}
		}
		return nil
	})
}

// check sends a few connections to each target and sees that they take the way
// that they are counted for; then the node stops watching.
func (l *layout) check(ctx context.Context) error {
	s := newSender()
	s.address(nodeMAC)
	for i := range l.targets {
		t := &l.targets[i]
		if t.name == toNobody {
			continue
		}
		pods, others, err := l.node.seen(ctx)
		if err != nil {
			return err
		}
		for range 4 {
			if _, err := s.send(l.node.socket, t); err != nil {
				return err
			}
		}
		p, q, err := l.node.seen(ctx)
		if err != nil {
			return err
		}
		if p -= pods; t.translated && p != 4*batch || !t.translated && q-others != 4*batch {
			return fmt.Errorf("target %s: of %d packets %d went to pods and %d elsewhere", t.name, 4*batch, p, q-others)
		}
	}
	return l.node.unwatch(ctx)
}

// measure takes one sample of each target and keeps the least.
func (l *layout) measure(s *sender, packets int) error {
	if l.node == nil {
		return nil
	}
	for i := range l.targets {
		t := &l.targets[i]
		ns, err := s.sample(l.node.socket, t, packets)
		if err != nil {
			return err
		}
		if old, ok := l.cost[t.name]; !ok || ns < old {
			l.cost[t.name] = ns
		}
	}
	return nil
}
