package diff

import (
	"fmt"
	"slices"
	"strings"

	"svcc/ir/eval"
)

// Fate is what becomes of a packet, for people.
type Fate struct {
	// Verdict is "deliver" (to endpoints), "pass" (no service's), "drop",
	// "reject", or "mixed" where it is not the same for all endpoints.
	Verdict string `json:"verdict"`
	Text    string `json:"text"`
	// Endpoints are all that it may be delivered to; Text may leave some out.
	Endpoints []string `json:"endpoints,omitempty"`
}

// The verdicts of a Fate.
const (
	deliver = "deliver"
	pass    = "pass"
	mixed   = "mixed"
)

func branchVerdict(b eval.Branch) string {
	switch v := b.Verdict(); {
	case v.Refused():
		return v.String()
	case b.DNAT:
		return deliver
	}
	return pass
}

func verdict(o eval.Outcome) string {
	for _, b := range o {
		if branchVerdict(b) != branchVerdict(o[0]) {
			return mixed
		}
	}
	if len(o) == 0 {
		return pass
	}
	return branchVerdict(o[0])
}

// fates describes two outcomes that differ so that the texts differ too.
func fates(before, after eval.Outcome) (b, a Fate) {
	b, a = fate(before), fate(after)
	if b.Text == a.Text {
		b.Text, a.Text = only(before, after), only(after, before)
	}
	return b, a
}

// sameFate says that nobody but the hooks can tell two outcomes apart.
func sameFate(o, p eval.Outcome) bool {
	return slices.EqualFunc(o, p, func(a, b eval.Branch) bool {
		return a.Share == b.Share && target(a) == target(b) && attributes(a) == attributes(b)
	})
}

func fate(o eval.Outcome) Fate {
	f := Fate{Verdict: verdict(o), Text: Describe(o)}
	for _, b := range o {
		if b.DNAT && !b.Verdict().Refused() {
			f.Endpoints = append(f.Endpoints, b.To.String())
		}
	}
	return f
}

// manyNamed is how many endpoints a text names.
const manyNamed = 6

// Describe tells an outcome for people: "1/2 each: A, B (masquerade)". Branches
// that differ in the endpoint only are one phrase, which names a few of them.
func Describe(o eval.Outcome) string {
	type kind struct{ share, attributes string }
	groups := map[kind][]string{}
	var order []kind
	for _, b := range o {
		k := kind{b.Share.String(), attributes(b)}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], target(b))
	}
	var out []string
	for _, k := range order {
		list := groups[k]
		text := some(list, manyNamed)
		switch {
		case k.share == "1":
		case len(list) == 1:
			text = k.share + " " + text
		default:
			text = k.share + " each: " + text
		}
		out = append(out, text+k.attributes)
	}
	return strings.Join(out, "; ")
}

// some joins the first few of a list.
func some(list []string, most int) string {
	if len(list) <= most+1 {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
}

// target names where a branch ends.
func target(b eval.Branch) string {
	switch v := branchVerdict(b); {
	case v == deliver:
		return b.To.String()
	case v != pass:
		return v
	case b.Input == eval.Accept, b.Forward == eval.Accept:
		return "accepted as it is"
	}
	return "no service's"
}

// attributes tells what else happens to a packet that goes on.
func attributes(b eval.Branch) string {
	var list []string
	if b.Verdict().Refused() {
		return ""
	}
	if b.Masquerade {
		list = append(list, "masquerade")
	}
	if b.Sticky > 0 {
		list = append(list, fmt.Sprintf("sticky %d s", b.Sticky))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}

// only tells, to the last detail, the branches that the other outcome lacks.
func only(o, other eval.Outcome) string {
	var list []string
	for _, b := range o {
		if !slices.Contains(other, b) {
			list = append(list, b.String())
		}
	}
	return some(list, manyNamed)
}
