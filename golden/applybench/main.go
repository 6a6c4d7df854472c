package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"svcc/apply"
	"svcc/apply/iptables"
	"svcc/apply/state"
	"svcc/apply/sums"
	"svcc/compiler"
	"svcc/emit"
	"svcc/golden/cluster"
)

var tellTools = flag.Bool("tools", false, "tell what each run of a tool cost")

func main() {
	services := flag.Int("services", 10000, "how many services")
	level := flag.Int("O", 1, "the level of the rules")
	flag.Parse()
	if err := run(*services, *level); err != nil {
		fmt.Fprintln(os.Stderr, "applybench:", err)
		os.Exit(1)
	}
}

// inside tells the child that it is in its own namespace.
const inside = "APPLYBENCH_INSIDE"

func run(services, level int) error {
	if os.Getenv(inside) == "" {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), inside+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		return cmd.Run()
	}
	dir, err := os.MkdirTemp("", "applybench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("XTABLES_LOCKFILE", dir+"/lock"); err != nil {
		return err
	}
	old, changed, err := rulesets(dir, services, level)
	if err != nil {
		return err
	}
	fmt.Printf("%d services, -O%d; CPU seconds of tools and of svcc, and svcc's peak memory\n", services, level)
	for _, flavour := range []string{"nft", "legacy"} {
		if err := measure(dir, flavour, old, changed); err != nil {
			return err
		}
	}
	return nil
}

// shrink takes one endpoint, if it is ready, from a plain service.
func shrink(c *cluster.Cluster) bool {
	plain := map[string]bool{}
	for _, s := range c.Services {
		plain[s.Namespace+"/"+s.Name] = s.Spec.Type == corev1.ServiceTypeClusterIP && s.Spec.ClusterIP != corev1.ClusterIPNone
	}
	for _, s := range c.Slices {
		if len(s.Endpoints) < 3 || !plain[s.Namespace+"/"+s.Labels[discoveryv1.LabelServiceName]] {
			continue
		}
		if ready := s.Endpoints[0].Conditions.Ready; ready == nil || *ready {
			s.Endpoints = s.Endpoints[1:]
			return true
		}
	}
	return false
}

// rulesets compiles a cluster, and the same with one endpoint less.
func rulesets(dir string, services, level int) (old, changed *emit.Ruleset, err error) {
	c := cluster.Generate(cluster.Options{Services: services, EndpointsPerService: 5, Seed: 1})
	if old, err = compile(c, dir, level); err != nil {
		return nil, nil, err
	}
	if !shrink(c) {
		return nil, nil, fmt.Errorf("no service has three endpoints")
	}
	changed, err = compile(c, dir, level)
	return old, changed, err
}

func compile(c *cluster.Cluster, dir string, level int) (*emit.Ruleset, error) {
	manifests := dir + "/manifests"
	if err := c.WriteJSON(manifests); err != nil {
		return nil, err
	}
	o := compiler.NewOptions()
	node, pods := "node-0", cluster.PodCIDR
	o.Paths, o.Level, o.NoProof = []string{manifests}, level, true
	o.Flags.Node, o.Flags.ClusterCIDR = &node, &pods
	r, err := compiler.Compile(o, nil)
	if err != nil {
		return nil, err
	}
	if r.Units == nil {
		return nil, fmt.Errorf("the cluster has errors: %v", r.Diagnostics.Errors()[0])
	}
	return r.Ruleset(false)
}

// cost is what a step took.
type cost struct{ tools, own time.Duration }

func timed(do func() error) (cost, error) {
	t, o := used(unix.RUSAGE_CHILDREN), used(unix.RUSAGE_SELF)
	err := do()
	return cost{used(unix.RUSAGE_CHILDREN) - t, used(unix.RUSAGE_SELF) - o}, err
}

func used(who int) time.Duration {
	var u unix.Rusage
	if unix.Getrusage(who, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peak() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss) / 1024
}

// process is what a run of svcc of its own would have: nothing but the kernel
// and the state directory is shared with the runs before.
func process(dir, flavour string) *apply.Engine {
	return &apply.Engine{
		Target: &iptables.Target{
			Runner: told{}, Command: iptables.Flavour(flavour), LockTimeout: time.Second, Kernel: sums.Kernel{},
		},
		State: state.At(dir + "/state-" + flavour), Log: slog.New(slog.DiscardHandler),
		Options: apply.Options{Mode: "iptables", Node: "node-0", AllowShrink: true, LockTimeout: time.Second},
	}
}

// told runs tools, and with -tools tells what each of them cost.
type told struct{}

func (told) Run(ctx context.Context, in apply.Input) (out []byte, err error) {
	c, _ := timed(func() error { out, err = apply.Exec{}.Run(ctx, in); return err })
	if *tellTools {
		fmt.Printf("    %.3f %s %s, %d bytes in\n", c.tools.Seconds(), in.Tool, strings.Join(in.Args, " "), len(in.Stdin))
	}
	return out, err
}

// readAll reads the owned rules with the tool, as if nothing had been seen.
func readAll(flavour string) error {
	t := &iptables.Target{Runner: apply.Exec{}, Command: iptables.Flavour(flavour), LockTimeout: time.Second}
	_, err := t.Observe(context.Background())
	return err
}

func list(do ...func() error) []func() error { return do }

// mean is what one of several costs.
func mean(do []func() error) (sum cost, err error) {
	for _, f := range do {
		runtime.GC() // of what was before
		c, err := timed(f)
		if err != nil {
			return sum, err
		}
		sum.tools += c.tools
		sum.own += c.own
	}
	n := time.Duration(len(do))
	return cost{sum.tools / n, sum.own / n}, nil
}

// measure prints one flavour's costs and how they stand to each other.
func measure(dir, flavour string, old, changed *emit.Ruleset) error {
	ctx := context.Background()
	put := func(rs *emit.Ruleset) func() error {
		return func() error { _, err := process(dir, flavour).Apply(ctx, rs); return err }
	}
	costs := map[string]cost{}
	for _, step := range []struct {
		name string
		do   []func() error // the cost is the mean
	}{
		{"restore", list(func() error { return restore(flavour, old) })},
		{"over", list(func() error { return restore(flavour, changed) }, func() error { return restore(flavour, old) })},
		{"clear", list(func() error { return restore(flavour, nil) })},
		{"first apply", list(put(old))},
		{"change", list(put(changed), put(old), put(changed), put(old))},
		{"no-op", list(put(old), put(old))},
		{"read", list(func() error { return readAll(flavour) })},
		{"end", list(func() error { _, err := process(dir, flavour).Remove(ctx); return err })},
	} {
		c, err := mean(step.do)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", flavour, step.name, err)
		}
		costs[step.name] = c
		fmt.Printf("  %-7s %-12s tools %7.3f  svcc %6.2f  %4d MB\n", flavour, step.name, c.tools.Seconds(), c.own.Seconds(), peak())
	}
	tools := func(name, of string) float64 { return costs[name].tools.Seconds() / costs[of].tools.Seconds() }
	all := func(name string) float64 { return (costs[name].tools + costs[name].own).Seconds() }
	fmt.Printf("  %-7s tools: change / restore over what is there %.3f, / restore into nothing %.3f; no-op / read %.3f\n",
		flavour, tools("change", "over"), tools("change", "restore"), tools("no-op", "read"))
	fmt.Printf("  %-7s tools and svcc: change / restore over what is there %.2f; no-op / read %.2f\n",
		flavour, all("change")/all("over"), all("no-op")/all("read"))
	return nil
}

// restore loads the whole as it is, or empties the tables.
func restore(flavour string, rs *emit.Ruleset) error {
	text := []byte("*filter\nCOMMIT\n*nat\nCOMMIT\n")
	if rs != nil {
		text = rs.Sections[0].Text
	}
	_, err := apply.Exec{}.Run(context.Background(), apply.Input{Tool: "iptables-" + flavour + "-restore", Stdin: text})
	return err
}
