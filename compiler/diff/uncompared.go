package diff

import (
	"fmt"
	"slices"
	"strings"

	"svcc/ir"
	"svcc/ir/diag"
)

// Side says what became of the manifests of one side.
type Side struct {
	Side string `json:"side"` // "old" or "new"
	Text string `json:"text"` // in one line
	// Compiled counts the Services that could be compiled.
	Compiled int          `json:"compiled"`
	LeftOut  []Uncompared `json:"leftOut,omitempty"`
}

// Uncompared is a Service that was left out of a side, so that nothing is known of it.
type Uncompared struct {
	Service string `json:"service"` // "ns/name"
	Reason  string `json:"reason"`
}

// LeaveOut takes from both sides' Programs the Services that could not be compiled on
// one of them: they would look as if they came or went.
func LeaveOut(sides []Side, programs ...[]*ir.Program) {
	out := leftOut(sides)
	for _, list := range programs {
		for _, p := range list {
			p.Services = slices.DeleteFunc(slices.Clone(p.Services), func(s *ir.ServicePort) bool { return out[s.Service()] })
		}
	}
}

// leftOut are the Services that were left out of some side, as "ns/name".
func leftOut(sides []Side) map[string]bool {
	out := map[string]bool{}
	for _, s := range sides {
		for _, u := range s.LeftOut {
			out[u.Service] = true
		}
	}
	return out
}

func (r *Report) uncompared() int { return len(leftOut(r.Sides)) }

// Nothing says that Services were left out, and none of either side was compiled:
// nothing could be compared.
func (r *Report) Nothing() bool {
	compiled := 0
	for _, s := range r.Sides {
		compiled += s.Compiled
	}
	return compiled == 0 && r.uncompared() > 0
}

// Whole says that no Service was left out: everything was compared.
func (r *Report) Whole() bool { return r.uncompared() == 0 }

// notCompared lists, a reason and a side a line, what was left out.
func (r *Report) notCompared() (lines []string) {
	for _, s := range r.Sides {
		var reasons []string
		of := map[string][]string{}
		for _, u := range s.LeftOut {
			if of[u.Reason] == nil {
				reasons = append(reasons, u.Reason)
			}
			of[u.Reason] = append(of[u.Reason], u.Service)
		}
		for _, why := range reasons {
			lines = append(lines, fmt.Sprintf("not compared, %s in %s: %s", why, s.Side, some(of[why], manyLines)))
		}
	}
	return lines
}

// SideLines say what became of each side's manifests.
func (r *Report) SideLines() (lines []string) {
	for _, s := range r.Sides {
		lines = append(lines, s.Side+": "+s.Text)
	}
	return lines
}

// remark is what the summary adds where Services were not compared.
func (r *Report) remark() string {
	if n := r.uncompared(); n > 0 {
		return "; " + diag.Count(n, "Service") + " not compared"
	}
	return ""
}

// escaped makes a list of Markdown of lines.
func escaped(lines []string) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "- %s\n", escape(l))
	}
	return b.String()
}
