package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// goalSize is the size that most goals speak of, and the largest at which -O0
// is loaded.
const goalSize = 10000

// report prints the table and what it says about the goals.
func report(out io.Writer, layouts []*layout, o options) error {
	table := aligned
	if o.markdown {
		table = markdown
	}
	if err := table(out, cells(layouts)); err != nil {
		return err
	}
	return printGoals(out, goals(layouts))
}

// cells are the table's rows, the head first.
func cells(layouts []*layout) [][]string {
	out := [][]string{append([]string{"services", "iptables", "layout", "load s", "bytes", "rules", "chains"}, columns...)}
	for _, l := range layouts {
		row := []string{fmt.Sprint(l.services), l.flavour, l.name, seconds(l), fmt.Sprint(l.bytes), fmt.Sprint(l.rules), fmt.Sprint(l.chains)}
		if l.services == 0 {
			row[0] = ""
		}
		for _, c := range columns {
			row = append(row, whole(l.ns(c)))
		}
		out = append(out, row)
		if sink := l.ns(toNobody); !math.IsNaN(sink) {
			out = append(out, []string{"", l.flavour, "sending alone", "", "", "", "", "", "", "", whole(sink), "", ""})
		}
	}
	return out
}

// seconds is the CPU time of a load; empty for floors, and a dash where the
// text did not load.
func seconds(l *layout) string {
	switch {
	case l.node == nil && l.load == 0:
		return "-"
	case l.services == 0:
		return ""
	}
	return fmt.Sprintf("%.2f", l.load.Seconds())
}

func whole(ns float64) string {
	if math.IsNaN(ns) {
		return ""
	}
	return fmt.Sprintf("%.0f", ns)
}

// aligned prints rows for a terminal.
func aligned(out io.Writer, rows [][]string) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range rows {
		fmt.Fprintln(w, strings.Join(r, "\t")+"\t")
	}
	return w.Flush()
}

// markdown prints rows as a table of a document.
func markdown(out io.Writer, rows [][]string) error {
	for i, r := range rows {
		if _, err := fmt.Fprintf(out, "| %s |\n", strings.Join(r, " | ")); err != nil {
			return err
		}
		if i == 0 {
			fmt.Fprintln(out, "|"+strings.Repeat(" ---: |", len(r)))
		}
	}
	return nil
}
