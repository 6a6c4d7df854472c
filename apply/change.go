package apply

// String is one line for people, as in a unified diff.
func (c Change) String() string {
	sign := "-"
	if c.Add {
		sign = "+"
	}
	what := c.Rule
	if what == "" {
		what = "chain " + c.Chain
	}
	return sign + " " + c.Family + " " + c.Table + " " + what
}
