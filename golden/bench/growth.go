package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"svcc/golden/cluster"
)

// command is one use of svcc on one large Service.
type command struct {
	name string
	args func(f files) []string
	code int // the exit code that is right
}

// files are what the commands of one size read: the cluster, one that has one
// endpoint or range more, and the rules of the first.
type files struct{ svcc, now, next, rules string }

var common = []string{"-q", "--node", "node-0", "--cluster-cidr", "10.128.0.0/9"}

var commands = []command{
	{"build", func(f files) []string { return []string{"build", f.now, "-o", f.rules} }, 0},
	{"verify", func(f files) []string { return []string{"verify", f.rules, f.now} }, 0},
	{"explain", func(f files) []string { return []string{"explain", "demo/large-0", f.now} }, 0},
	{"diff", func(f files) []string { return []string{"diff", f.now, f.next} }, 1},
	{"lint", func(f files) []string { return []string{"lint", f.now} }, -1},
}

// growth is what a Service has more and more of. The goal is for one step, which
// is of the same factor as the sizes.
type growth struct {
	name  string
	sizes []int
	large func(n int) cluster.Large
	goal  float64
}

var growths = []growth{
	{"endpoints", []int{1000, 4000, 16000}, func(n int) cluster.Large { return cluster.Large{Endpoints: n} }, 6},
	{"source ranges", []int{6250, 25000, 100000}, func(n int) cluster.Large { return cluster.Large{Ranges: n} }, 6},
}

// printGrowth measures each command at each size, and says which take more than the
// goal's times the CPU of a size four times smaller.
func printGrowth(out io.Writer) error {
	dir, err := os.MkdirTemp("", "svcc-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	svcc := filepath.Join(dir, "svcc")
	if out, err := exec.Command("go", "build", "-o", svcc, "./cmd/svcc").CombinedOutput(); err != nil {
		return fmt.Errorf("building svcc: %w: %s", err, out)
	}
	for _, g := range growths {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(w, "%s\t", g.name)
		for _, n := range g.sizes {
			fmt.Fprintf(w, "%d\tx\t", n)
		}
		fmt.Fprintf(w, "\n")
		rows, err := g.measure(svcc)
		if err != nil {
			return err
		}
		for i, c := range commands {
			g.print(w, c.name, rows[i])
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

func (g growth) print(w io.Writer, name string, row []time.Duration) {
	verdict := "met"
	fmt.Fprintf(w, "%s, cpu s\t", name)
	for i, cpu := range row {
		ratio := ""
		if i > 0 {
			x := float64(cpu) / float64(row[i-1])
			ratio = fmt.Sprintf("%.1f", x)
			if x > g.goal {
				verdict = "not met"
			}
		}
		fmt.Fprintf(w, "%.2f\t%s\t", cpu.Seconds(), ratio)
	}
	fmt.Fprintf(w, "goal x %.0f\t%s\t\n", g.goal, verdict)
}

// measure gives the CPU time of each command at each size; svcc is the binary.
func (g growth) measure(svcc string) ([][]time.Duration, error) {
	rows := make([][]time.Duration, len(commands))
	dir, err := os.MkdirTemp("", "svcc-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	for _, n := range g.sizes {
		f := files{svcc, filepath.Join(dir, fmt.Sprint(n)), filepath.Join(dir, fmt.Sprint(n, "-next")), filepath.Join(dir, "rules")}
		if err := write(f.now, g.large(n)); err != nil {
			return nil, err
		}
		if err := write(f.next, g.large(n+1)); err != nil {
			return nil, err
		}
		for i, c := range commands {
			cpu, err := c.run(f)
			if err != nil {
				return nil, fmt.Errorf("%d %s: %w", n, g.name, err)
			}
			rows[i] = append(rows[i], cpu)
		}
	}
	return rows, nil
}

func write(dir string, l cluster.Large) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return l.Cluster().WriteJSON(dir)
}

// run gives the CPU time of all threads of one process.
func (c command) run(f files) (time.Duration, error) {
	cmd := exec.Command(f.svcc, append(c.args(f), common...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	if code := cmd.ProcessState.ExitCode(); c.code >= 0 && code != c.code {
		return 0, fmt.Errorf("svcc %s ended with exit code %d: %s", c.name, code, said.String())
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), nil
}
