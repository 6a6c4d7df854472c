package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// The goals for a build of 10000 Services.
const (
	goalServices = 10000
	goalCPU      = 2 * time.Second // of everything but the load stage, at -O1
	goalPeak     = 600 << 20
	loadStage    = "load"
)

// printTable prints one column pair (wall, CPU) for each build, one row for
// each stage, and what the goals say about the largest.
func printTable(out io.Writer, columns []measured) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, cells func(measured) (string, string)) {
		fmt.Fprintf(w, "%s\t", name)
		for _, c := range columns {
			a, b := cells(c)
			fmt.Fprintf(w, "%s\t%s\t", a, b)
		}
		fmt.Fprintln(w)
	}
	row("services", func(m measured) (string, string) { return fmt.Sprint(m.Services), "" })
	row("", func(measured) (string, string) { return "wall s", "cpu s" })
	for _, name := range stageNames(columns) {
		row(name, func(m measured) (string, string) { return times(m.stage(name)) })
	}
	row("all but load", func(m measured) (string, string) { return times(m.compiling()) })
	row("process", func(m measured) (string, string) { return times(m.Wall, m.CPU) })
	row("peak MB", func(m measured) (string, string) { return megabytes(m.Peak), "" })
	row("input MB", func(m measured) (string, string) { return megabytes(m.Input), "" })
	row("rules", func(m measured) (string, string) { return fmt.Sprint(m.Rules), "" })
	row("bytes", func(m measured) (string, string) { return fmt.Sprint(m.Bytes), "" })
	if err := w.Flush(); err != nil {
		return err
	}
	return printGoals(out, columns)
}

// printGoals compares the builds of the goals' size with them.
func printGoals(out io.Writer, columns []measured) error {
	for _, c := range columns {
		if c.Services != goalServices {
			continue
		}
		_, cpu := c.compiling()
		_, err := fmt.Fprintf(out, "\n%d services: all but load took %.2f s of CPU (goal: %.0f, %s), peak memory was %s MB (goal: %d, %s)\n",
			c.Services, cpu.Seconds(), goalCPU.Seconds(), verdict(cpu <= goalCPU), megabytes(c.Peak), goalPeak>>20, verdict(c.Peak <= goalPeak))
		if err != nil {
			return err
		}
	}
	return nil
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// stageNames lists the stages in the order in which builds run them, each
// name once.
func stageNames(columns []measured) []string {
	var out []string
	for _, c := range columns {
		for _, s := range c.Stages {
			if !slices.Contains(out, s.Name) {
				out = append(out, s.Name)
			}
		}
	}
	return out
}

// stage gives the times of the stage with the name; stages of that name (one
// for each family) are added up.
func (m measured) stage(name string) (wall, cpu time.Duration) {
	return m.sum(func(s stage) bool { return s.Name == name })
}

// compiling gives the times of all stages but loading.
func (m measured) compiling() (wall, cpu time.Duration) {
	return m.sum(func(s stage) bool { return s.Name != loadStage })
}

func (m measured) sum(counts func(stage) bool) (wall, cpu time.Duration) {
	for _, s := range m.Stages {
		if counts(s) {
			wall += s.Wall
			cpu += s.CPU
		}
	}
	return wall, cpu
}

func times(wall, cpu time.Duration) (string, string) {
	return fmt.Sprintf("%.3f", wall.Seconds()), fmt.Sprintf("%.3f", cpu.Seconds())
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }
